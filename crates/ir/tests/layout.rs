//! Lane layouts against the table of measured positions, and their general properties.

use std::collections::{HashMap, HashSet};

use anymetal_ir::{CoopRole, Layout, LayoutKind};

fn layout(kind: LayoutKind, role: CoopRole, rows: u32, columns: u32, simdgroups: u32) -> Layout {
    Layout {
        kind,
        rows,
        columns,
        simdgroups,
        role,
    }
}

/// Row and column base of a lane in a 16×16 fragment of layout R, as kernels compute them.
fn base(lane: u32) -> (u32, u32) {
    (
        ((lane >> 2) & 4) | ((lane >> 1) & 3),
        (((lane >> 2) & 2) | (lane & 1)) * 4,
    )
}

#[test]
fn fragments_of_the_descriptor_16_32_16() {
    use CoopRole::{Destination, Left, Right};
    for lane in 0..32 {
        let (fm, fna) = base(lane);
        let at = |role, rows, columns, slot| {
            layout(LayoutKind::R, role, rows, columns, 1)
                .position(0, lane, slot)
                .unwrap()
        };
        for i in 0..8 {
            // Left, not transposed: 16 rows (m) × 16 columns (k); transposed it is stored 16 (k) × 16 (m).
            assert_eq!(at(Left, 16, 16, i), (fm + 8 * (i >> 2), fna + (i & 3)));
        }
        for i in 0..16 {
            let wide = (fm + 8 * ((i >> 2) & 1), fna + (i & 3) + 16 * (i >> 3));
            // Right, not transposed: 16 rows (k) × 32 columns (n), and the destination 16 (m) × 32 (n).
            assert_eq!(at(Right, 16, 32, i), wide);
            assert_eq!(at(Destination, 16, 32, i), wide);
            // Right, transposed: 32 rows (n) × 16 columns (k).
            let tall = (fm + 8 * ((i >> 2) & 1) + 16 * (i >> 3), fna + (i & 3));
            assert_eq!(at(Right, 32, 16, i), tall);
        }
    }
}

#[test]
fn capacities_as_measured() {
    use CoopRole::{ColumnReduction, Destination, Left, RowReduction};
    let capacity = |kind, role, rows, columns| layout(kind, role, rows, columns, 1).capacity();
    assert_eq!(capacity(LayoutKind::R, Destination, 16, 32), 16);
    assert_eq!(capacity(LayoutKind::R, Left, 16, 16), 8);
    assert_eq!(capacity(LayoutKind::R, Destination, 32, 32), 32);
    assert_eq!(capacity(LayoutKind::S, Destination, 32, 32), 32);
    assert_eq!(capacity(LayoutKind::R, RowReduction, 16, 1), 2);
    assert_eq!(capacity(LayoutKind::R, ColumnReduction, 1, 32), 8);
}

#[test]
fn strict_layout_as_measured() {
    // 32×32 of strict float: slots 0, 1, 8, 9, 16, 17, 24, 25 of lane 0 along the first row.
    let tile = layout(LayoutKind::S, CoopRole::Destination, 32, 32, 1);
    let columns: Vec<u32> = (0..8).map(|slot| tile.position(0, 0, slot).unwrap().1).collect();
    assert_eq!(columns, [0, 1, 8, 9, 16, 17, 24, 25]);
    for lane in 0..32 {
        let bit = |i: u32| (lane >> i) & 1;
        let (a, b) = (2 * bit(0) + 4 * bit(3), bit(1) + 2 * bit(2) + 4 * bit(4));
        for slot in 0..32 {
            let expected = (b + 8 * ((slot >> 1) / 4), a + (slot & 1) + 8 * ((slot >> 1) % 4));
            assert_eq!(tile.position(0, lane, slot), Some(expected));
        }
    }
}

#[test]
fn every_element_has_one_slot() {
    for kind in [LayoutKind::R, LayoutKind::S, LayoutKind::Permuted] {
        for simdgroups in [1, 2, 3, 4, 8] {
            for rows in [1, 3, 8, 12, 16, 17, 24, 32, 40, 64, 100, 128] {
                for columns in [1, 5, 8, 13, 16, 24, 32, 33, 48, 64, 96] {
                    let tile = layout(kind, CoopRole::Destination, rows, columns, simdgroups);
                    let mut seen = HashSet::new();
                    for group in 0..simdgroups {
                        for lane in 0..32 {
                            for slot in 0..tile.capacity() {
                                let Some((row, column)) = tile.position(group, lane, slot) else {
                                    continue;
                                };
                                assert!(row < rows && column < columns, "{tile:?}");
                                assert!(seen.insert((row, column)), "{tile:?} {row} {column}");
                            }
                            assert_eq!(tile.position(group, lane, tile.capacity()), None);
                        }
                        assert_eq!(tile.position(group, 32, 0), None);
                    }
                    assert_eq!(tile.position(simdgroups, 0, 0), None);
                    assert_eq!(seen.len() as u32, rows * columns, "{tile:?}");
                }
            }
        }
    }
}

/// Every lane that holds an element of a row (column) has exactly one valid slot for it, which `map_iterator` needs.
#[test]
fn reductions_cover_the_rows_and_columns_of_each_lane() {
    for kind in [LayoutKind::R, LayoutKind::S, LayoutKind::Permuted] {
        for rows in [1, 4, 8, 12, 16, 20, 32, 40] {
            for columns in [3, 8, 16, 20, 32, 64] {
                let tile = layout(kind, CoopRole::Destination, rows, columns, 1);
                let by_row = layout(kind, CoopRole::RowReduction, rows, 1, 1);
                let by_column = layout(kind, CoopRole::ColumnReduction, 1, columns, 1);
                for lane in 0..32 {
                    let slots = |reduction: &Layout| {
                        let mut found = HashMap::new();
                        for slot in 0..reduction.capacity() {
                            if let Some((row, column)) = reduction.position(0, lane, slot) {
                                assert!(found.insert(row + column, slot).is_none());
                            }
                        }
                        found
                    };
                    let (row_slots, column_slots) = (slots(&by_row), slots(&by_column));
                    for slot in 0..tile.capacity() {
                        if let Some((row, column)) = tile.position(0, lane, slot) {
                            assert!(row_slots.contains_key(&row), "{tile:?} row {row}");
                            assert!(column_slots.contains_key(&column), "{tile:?} column {column}");
                        }
                    }
                }
                // All lanes together reach every row and column.
                let all = |reduction: &Layout| -> HashSet<(u32, u32)> {
                    (0..32)
                        .flat_map(|lane| (0..reduction.capacity()).map(move |slot| (lane, slot)))
                        .filter_map(|(lane, slot)| reduction.position(0, lane, slot))
                        .collect()
                };
                assert_eq!(all(&by_row).len() as u32, rows);
                assert_eq!(all(&by_column).len() as u32, columns);
            }
        }
    }
}

/// The permuted layout gives no lane the elements that layout R gives it, has slots that are invalid, and takes apart the
/// lanes that kernels combine by `simd_shuffle_xor` with 1 and 8 to reduce a row.
#[test]
fn the_permuted_layout_is_none_of_a_device() {
    use CoopRole::{ColumnReduction, Destination, RowReduction};
    for (role, rows, columns) in [
        (Destination, 16, 16),
        (Destination, 16, 32),
        (Destination, 32, 32),
        (Destination, 64, 64),
        (RowReduction, 32, 1),
        (ColumnReduction, 1, 32),
    ] {
        let known = layout(LayoutKind::R, role, rows, columns, 1);
        let other = layout(LayoutKind::Permuted, role, rows, columns, 1);
        assert!(other.capacity() > known.capacity());
        let (mut same, mut invalid) = (0, 0);
        for lane in 0..32 {
            for slot in 0..other.capacity() {
                match other.position(0, lane, slot) {
                    None => invalid += 1,
                    place => same += u32::from(place == known.position(0, lane, slot)),
                }
            }
        }
        assert_eq!(invalid, 32 * (other.capacity() - known.capacity()));
        assert!(same * 4 <= 32 * known.capacity(), "{role:?} {rows} × {columns}: {same}");
        if role == Destination {
            let row = |lane: u32| {
                (0..other.capacity())
                    .find_map(|slot| other.position(0, lane, slot))
                    .unwrap()
                    .0
                    % 8
            };
            assert!((0..32).all(|lane| row(lane) != row(lane ^ 1)));
        }
    }
}
