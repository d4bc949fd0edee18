//! Rows of bf16 and of bytes straight into the tiles and panels that AMX and the dot products of groups read, with AVX-512: one
//! pass over the operand, which looks at bf16 elements on the way.

use std::arch::x86_64::*;

use super::avx512_pack::Found;
use super::{Groups, Terms, TileRows};
use crate::tile::pack::Panels;

pub(super) const ROWS: TileRows = TileRows {
    f32: super::avx512_pack::round_tiles,
    bf16: tiles::<true>,
    bytes: tiles::<false>,
};

pub(super) const GROUPS: Groups = Groups { pairs, quadruples };

/// The bytes of 64 that lie before `end` if the first is `from`.
fn mask64(from: usize, end: usize) -> __mmask64 {
    match end.saturating_sub(from) {
        0 => 0,
        count => u64::MAX >> (64 - count.min(64)),
    }
}

/// At most 16 rows to the tiles of a strip (see [`TileRows`]), of bf16 elements, which are looked at, or of bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn tiles<const BF16: bool>(
    src: *const u8,
    stride: isize,
    rows: usize,
    cols: usize,
    tiles: usize,
    dst: *mut u8,
) -> Option<Terms> {
    let bytes = if BF16 { 2 * cols } else { cols };
    let mut found = Found::nothing();
    // SAFETY: masks keep to the rows' bytes; the caller vouches for the tiles.
    unsafe {
        for r in 0..rows {
            let row = src.offset(r as isize * stride);
            for t in 0..tiles {
                let x = _mm512_maskz_loadu_epi8(mask64(64 * t, bytes), row.wrapping_add(64 * t).cast());
                if BF16 {
                    found.look(x);
                }
                _mm512_storeu_si512(dst.add(t * 1024 + r * 64).cast(), x);
            }
        }
        for at in (rows..16).flat_map(|r| (0..tiles).map(move |t| t * 1024 + r * 64)) {
            _mm512_storeu_si512(dst.add(at).cast(), _mm512_setzero_si512());
        }
    }
    Some(found.terms())
}

/// Groups from the one that goes into panels to the one that is asked for: rows far apart are a new page each, which the
/// processor does not see coming.
const GROUPS_AHEAD: isize = 4;

/// Rows of 16-bit elements, which are looked at as bf16, to panels of pairs (see [`Groups`]).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pairs(src: *const u8, stride: isize, rows: usize, cols: usize, panels: Panels) -> Terms {
    // Lane L of a row takes columns 4 L … + 3 and 16 + 4 L … + 3, so that unpacking leaves columns in their order.
    let places = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    let mut found = Found::nothing();
    let interleave = |[a, b]: [__m512i; 2]| {
        found.look(a);
        found.look(b);
        let [a, b] = [a, b].map(|row| _mm512_permutexvar_epi64(places, row));
        [_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)]
    };
    // SAFETY: the caller's contract.
    unsafe { groups(src, stride, (rows, 2 * cols), panels, interleave) };
    found.terms()
}

/// Rows of bytes to panels of quadruples. Nothing is looked at.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn quadruples(src: *const u8, stride: isize, rows: usize, cols: usize, panels: Panels) -> Terms {
    // Lane L of a row takes columns 4 L … + 3 of each 16.
    let places = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let interleave = |rows: [__m512i; 4]| {
        let [a, b, c, d] = rows.map(|row| _mm512_permutexvar_epi32(places, row));
        let low = [_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)];
        let high = [_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)];
        [
            _mm512_unpacklo_epi16(low[0], low[1]),
            _mm512_unpackhi_epi16(low[0], low[1]),
            _mm512_unpacklo_epi16(high[0], high[1]),
            _mm512_unpackhi_epi16(high[0], high[1]),
        ]
    };
    // SAFETY: the caller's contract.
    unsafe { groups(src, stride, (rows, cols), panels, interleave) };
    Terms::NONE
}

/// Makes GROUP rows of 64 bytes at a time into as many vectors of 16 groups, zeros past the rows and their ends.
///
/// # Safety
/// So many bytes of so many rows must be readable, and the panels of all their groups writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn groups<const GROUP: usize>(
    src: *const u8,
    stride: isize,
    (rows, bytes): (usize, usize),
    panels: Panels,
    mut interleave: impl FnMut([__m512i; GROUP]) -> [__m512i; GROUP],
) {
    // A vector of 16 columns; where it goes in its panel; how many there are in whole panels.
    const COLUMNS: usize = 16;
    let per_panel = panels.width / COLUMNS;
    let vectors = (bytes * GROUP / 4).div_ceil(panels.width) * per_panel;
    let rows_ahead = GROUPS_AHEAD * GROUP as isize * stride;
    // SAFETY: masks keep to the rows' bytes; vectors go to panels that are there.
    unsafe {
        for g in 0..panels.filled {
            let mut to = panels.dst.add(g * panels.width * 4);
            let mut place = 0;
            for first in (0..vectors).step_by(GROUP) {
                let at = first * COLUMNS * 4 / GROUP;
                let mask = mask64(at, bytes);
                let row = |i: usize| {
                    let row = src.wrapping_offset((GROUP * g + i) as isize * stride).wrapping_add(at);
                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_offset(rows_ahead).cast());
                    _mm512_maskz_loadu_epi8(if GROUP * g + i < rows { mask } else { 0 }, row.cast())
                };
                for vector in interleave(std::array::from_fn(row)).into_iter().take(vectors - first) {
                    _mm512_storeu_si512(to.add(place * COLUMNS * 4).cast(), vector);
                    place += 1;
                    if place == per_panel {
                        (to, place) = (to.wrapping_add(panels.panel_bytes), 0);
                    }
                }
            }
        }
    }
}

/// See [`Ops::order_terms`](super::Ops::order_terms).
///
/// # Safety
/// There must be 512 / `bits` terms.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn order_terms(bits: usize, terms: *mut u16) {
    // SAFETY: two or four vectors of 32 terms.
    unsafe {
        let at = |v: usize| terms.add(32 * v).cast::<__m512i>();
        let load = |v: usize| _mm512_loadu_si512(at(v).cast_const());
        if bits == 8 {
            // Lanes of 8 terms: even ones, odd ones.
            let (a, b) = (load(0), load(1));
            _mm512_storeu_si512(at(0), _mm512_shuffle_i32x4::<0x88>(a, b));
            _mm512_storeu_si512(at(1), _mm512_shuffle_i32x4::<0xdd>(a, b));
            return;
        }
        // Every fourth term to a lane of its own, then lanes are transposed.
        let places: [u16; 32] = std::array::from_fn(|i| (i % 8 * 4 + i / 8) as u16);
        let places = _mm512_loadu_si512(places.as_ptr().cast());
        let [a, b, c, d] = [0, 1, 2, 3].map(|v| _mm512_permutexvar_epi16(places, load(v)));
        let (low, high) = (
            [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)],
            [_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d)],
        );
        _mm512_storeu_si512(at(0), _mm512_shuffle_i32x4::<0x88>(low[0], low[1]));
        _mm512_storeu_si512(at(1), _mm512_shuffle_i32x4::<0xdd>(low[0], low[1]));
        _mm512_storeu_si512(at(2), _mm512_shuffle_i32x4::<0x88>(high[0], high[1]));
        _mm512_storeu_si512(at(3), _mm512_shuffle_i32x4::<0xdd>(high[0], high[1]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::TilePath;
    use crate::tile::kernel::portable;

    /// Elements of a source whose rows lie further apart than they are long, and of what is packed from it.
    const STRIDE: usize = 300;

    fn source() -> Vec<u8> {
        (0..40 * STRIDE as u32)
            .map(|i| (i.wrapping_mul(0x9e37_79b9) >> 11) as u8)
            .collect()
    }

    /// Every group against its elements, and what was found against the plain look, on all edges of vectors and panels.
    #[test]
    fn panels_hold_their_groups() {
        if !TilePath::Avx512.is_available() {
            return;
        }
        let src = source();
        for (rows, cols, width) in [
            (8usize, 64usize, 16usize),
            (7, 33, 16),
            (1, 1, 16),
            (9, 130, 64),
            (6, 20, 64),
            (4, 144, 16),
        ] {
            for (group, bytes) in [(2usize, 2usize), (4, 1)] {
                let filled = rows.div_ceil(group) + 2;
                let panel_bytes = filled * width * 4;
                let mut dst = vec![0xaau8; cols.div_ceil(width) * panel_bytes];
                let panels = Panels {
                    dst: dst.as_mut_ptr(),
                    plane_stride: 0,
                    panel_bytes,
                    width,
                    filled,
                };
                let to_groups = if group == 2 { GROUPS.pairs } else { GROUPS.quadruples };
                // SAFETY: the machine has the instructions; rows of up to 288 bytes, whole panels.
                let found = unsafe { to_groups(src.as_ptr(), STRIDE as isize, rows, cols, panels) };
                for (at, &got) in dst.iter().enumerate() {
                    let (panel, at) = (at / panel_bytes, at % panel_bytes);
                    let (g, column) = (at / (4 * width), panel * width + at / 4 % width);
                    let (k, byte) = (g * group + at % 4 / bytes, at % bytes);
                    let want = match k < rows && column < cols {
                        true => src[k * STRIDE + column * bytes + byte],
                        false => 0,
                    };
                    assert_eq!(
                        got, want,
                        "{rows} × {cols}, panels of {width}: row {k}, column {column}"
                    );
                }
                if group == 2 {
                    assert_eq!(found, look(&src, rows, cols));
                }
            }
        }
    }

    /// The same of tiles.
    #[test]
    fn tiles_hold_their_rows() {
        if !TilePath::Avx512.is_available() {
            return;
        }
        let src = source();
        for (rows, cols, tiles) in [(16usize, 128usize, 4usize), (1, 1, 1), (7, 33, 3), (15, 64, 2)] {
            for (to_tiles, bytes) in [(ROWS.bf16, 2), (ROWS.bytes, 1)] {
                let mut dst = vec![0xaau8; tiles * 1024];
                // SAFETY: as above.
                let found = unsafe { to_tiles(src.as_ptr(), STRIDE as isize, rows, cols, tiles, dst.as_mut_ptr()) };
                for (at, &got) in dst.iter().enumerate() {
                    let (row, byte) = (at % 1024 / 64, at / 1024 * 64 + at % 64);
                    let inside = row < rows && byte < cols * bytes;
                    assert_eq!(got, if inside { src[row * STRIDE + byte] } else { 0 });
                }
                if bytes == 2 {
                    assert_eq!(found, Some(look(&src, rows, cols)));
                }
            }
        }
    }

    fn look(src: &[u8], rows: usize, cols: usize) -> Terms {
        let mut copy = vec![0; 2 * cols];
        (0..rows).fold(Terms::NONE, |found, row| {
            // SAFETY: so many elements on both sides.
            found.merge(unsafe { portable::copy_bf16(src[row * STRIDE..].as_ptr(), cols, copy.as_mut_ptr()) })
        })
    }
}
