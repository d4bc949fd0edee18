//! Tiles in registers against the layouts of the IR.

use anymetal_ir::{CoopRole, Cooperative, LayoutKind, MatmulDescriptor, Scalar};

use super::slots::register_of_slot;
use super::tile::Tile;
use crate::lower::ColumnMap;

/// The lane as a kernel sees it, of a hardware lane: bits (h4 h3 h2 h1 h0) are (b4 b2 b1 b3 b0).
fn virtual_lane(hardware: u32) -> u32 {
    let bit = |i: u32| (hardware >> i) & 1;
    bit(4) << 4 | bit(3) << 2 | bit(2) << 1 | bit(1) << 3 | bit(0)
}

fn cooperative(role: CoopRole, layout: LayoutKind, rows: u32, columns: u32, simdgroups: u32) -> Cooperative {
    Cooperative {
        name: String::new(),
        role,
        element: Scalar::F32,
        rows,
        columns,
        simdgroups,
        layout,
        descriptor: MatmulDescriptor {
            m: rows,
            n: columns,
            k: None,
            transpose_left: false,
            transpose_right: false,
            relaxed_precision: false,
            accumulate: false,
        },
        spatial: None,
    }
}

/// Row and column of a register of a hardware lane, if the tile has that element; as `row_valid` and `column_valid` compute it.
fn position(tile: &Tile, simdgroup: u32, lane: u32, (rb, nb, i): (u32, u32, u32)) -> Option<(u32, u32)> {
    let (g, t) = (lane >> 2, lane & 3);
    let local = tile.column_offset(nb, i) + t * tile.pair_step();
    let (mut row, mut column) = (8 * rb + g, local);
    if tile.by_rows {
        row += simdgroup * tile.band_rows;
    } else {
        column += simdgroup * tile.band_columns;
    }
    match tile.role {
        CoopRole::RowReduction => column = 0,
        CoopRole::ColumnReduction => row = 0,
        _ => {}
    }
    let own = tile.role == CoopRole::RowReduction || local < tile.band_columns || tile.by_rows;
    (own && row < tile.rows && column < tile.columns).then_some((row, column))
}

#[test]
fn registers_are_the_slots_of_the_layouts() {
    let roles = [CoopRole::Destination, CoopRole::RowReduction, CoopRole::ColumnReduction];
    for (rows, columns, simdgroups) in [
        (16, 16, 1),
        (8, 32, 1),
        (24, 40, 1),
        (13, 21, 1),
        (64, 64, 4),
        (16, 64, 4),
        (8, 40, 2),
        (48, 16, 3),
        (8, 8, 4),
    ] {
        for layout in [LayoutKind::R, LayoutKind::S] {
            for role in roles {
                let (rows, columns) = match role {
                    CoopRole::RowReduction => (rows, 1),
                    CoopRole::ColumnReduction => (1, columns),
                    _ => (rows, columns),
                };
                if role != CoopRole::Destination && simdgroups > 1 {
                    continue;
                }
                let coop = cooperative(role, layout, rows, columns, simdgroups);
                let tile = Tile::of(&coop, ColumnMap::R);
                assert_eq!(tile.elements(), coop.capacity(), "{coop:?}");
                for simdgroup in 0..simdgroups {
                    for lane in 0..32 {
                        for slot in 0..coop.capacity() {
                            let register = register_of_slot(&tile, slot);
                            let got = position(&tile, simdgroup, lane, register);
                            let want = coop.layout().position(simdgroup, virtual_lane(lane), slot);
                            assert_eq!(got, want, "{coop:?} lane {lane} slot {slot}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_element_has_one_register() {
    for (rows, columns, simdgroups) in [(16, 64, 1), (13, 21, 1), (100, 70, 4), (16, 128, 8), (8, 8, 4)] {
        for map in [ColumnMap::Natural, ColumnMap::R] {
            let coop = cooperative(CoopRole::Destination, LayoutKind::R, rows, columns, simdgroups);
            let tile = Tile::of(&coop, map);
            let mut seen = vec![0; (rows * columns) as usize];
            for simdgroup in 0..simdgroups {
                for lane in 0..32 {
                    for rb in 0..tile.row_blocks {
                        for (nb, i) in (0..tile.column_blocks).flat_map(|nb| [(nb, 0), (nb, 1)]) {
                            match position(&tile, simdgroup, lane, (rb, nb, i)) {
                                Some((row, column)) => seen[(row * columns + column) as usize] += 1,
                                None => assert!(tile.row_may_pad(rb) || tile.column_may_pad(nb, i)),
                            }
                        }
                    }
                }
            }
            assert!(seen.iter().all(|&count| count == 1), "{coop:?} {map:?}");
        }
    }
}

/// The PTX of a loop over a 16 × 16 tile that stores each element at `index`, an `i32` made from `%3` (column), `%4` (row) and `%1` (16).
fn stored_at(index: &str) -> String {
    let text = format!(
        "kernel \"k\" {{\n  argument arg0 \"x\" buffer 0 device \"float\" size 4 align 4 element 4 access write\n  cooperative coop0 \"t\" \
         destination f32 rows 16 columns 16 simdgroups 1 layout R matmul {{16 16 16}}\n  file 1 \"k\"\n  loc !1 1 1 1\n  body {{\n    \
         %0: ptr<device> = argument arg0 !1\n    %1: i32 = const i32 16 !1\n    %2: i64 = const i64 4 !1\n    coop.init coop0 !1\n    \
         coop.map coop0 !1 {{\n      %3..%4: i32 = coop.element_index !1\n      %5: bool = cmp.lt %3, %1 !1\n      if %5 !1 {{\n{index}        \
         %8: i64 = convert %7 to i64 !1\n        %9: i64 = mul %8, %2 !1\n        %10: ptr<device> = offset %0, %9 !1\n        \
         %11: f32 = coop.element coop0 !1\n        store %10, [%11] align 4 !1\n      }}\n    }}\n  }}\n}}\n"
    );
    let kernel = anymetal_ir::parse(&text).expect("the test's kernel");
    crate::compile(&kernel, &crate::PtxOptions::default())
        .expect("it compiles")
        .text
}

#[test]
fn neighbours_are_stored_together_where_addresses_grow_by_an_element() {
    let row_major = stored_at("        %6: i32 = mul %4, %1 !1\n        %7: i32 = add %3, %6 !1\n");
    // Two row blocks of two column blocks: four pairs, or eight single elements where a row is not aligned.
    assert_eq!(row_major.matches("st.global.v2").count(), 4, "{row_major}");
    assert_eq!(row_major.matches(" st.global.b32").count(), 8, "{row_major}");
    let column_major = stored_at("        %6: i32 = mul %3, %1 !1\n        %7: i32 = add %4, %6 !1\n");
    assert_eq!(column_major.matches("st.global.v2").count(), 0, "{column_major}");
    assert_eq!(column_major.matches(" st.global.b32").count(), 8, "{column_major}");
}
