//! Reading parts of an operand into plain row-major memory: widening of formats, folding in of block scales, gathering
//! by strides. Packing stands on this.

use anymetal_formats::ElementFormat;

use super::buffer::AlignedBuffer;
use super::kernel::Ops;
use super::view::{OperandView, ScaleView};

/// A part of an operand: first row and column, rows and columns.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub row: usize,
    pub col: usize,
    pub rows: usize,
    pub cols: usize,
}

/// True where a row of the view lies without gaps.
pub(crate) fn has_dense_rows(view: &OperandView<'_>) -> bool {
    view.col_stride == 1 || view.valid_cols <= 1
}

/// Writes a part of an operand as `f32` rows, `dst_stride` elements apart, scales folded in. Exact for every format of
/// 16 bits or fewer; a scaled value past the range of `f32` overflows or rounds as in a multiplication.
///
/// # Safety
/// The part must be valid in the view, and the rows writable. The machine must have the table's path.
pub(crate) unsafe fn stage_f32(
    ops: &Ops,
    view: &OperandView<'_>,
    part: Part,
    dst: *mut f32,
    dst_stride: usize,
    temporary: &mut AlignedBuffer,
) {
    // SAFETY: within the part, by the caller's contract.
    unsafe {
        if has_dense_rows(view) {
            for r in 0..part.rows {
                let row = dst.add(r * dst_stride);
                widen_run(
                    ops,
                    view.format,
                    view.data,
                    view.index(part.row + r, part.col),
                    part.cols,
                    row,
                );
                if let Some(scales) = &view.scales {
                    scale_row(ops, scales, part.row + r, part.col, part.cols, row);
                }
            }
        } else if view.row_stride == 1 {
            // Dense columns: widen them as rows, then transpose.
            let columns: *mut f32 = temporary.reserve(part.rows * part.cols * 4).cast();
            let flipped = Part {
                row: part.col,
                col: part.row,
                rows: part.cols,
                cols: part.rows,
            };
            stage_f32(
                ops,
                &view.transposed(),
                flipped,
                columns,
                part.rows,
                &mut AlignedBuffer::default(),
            );
            (ops.transpose)(
                columns.cast_const().cast(),
                part.rows as isize * 4,
                part.cols,
                part.rows,
                dst.cast(),
                dst_stride as isize * 4,
            );
        } else {
            for r in 0..part.rows {
                let row = dst.add(r * dst_stride);
                for c in 0..part.cols {
                    let index = view.index(part.row + r, part.col + c);
                    let code = load_code(view.format, view.data, index);
                    *row.add(c) = view.format.decode_f32(code);
                }
                if let Some(scales) = &view.scales {
                    scale_row(ops, scales, part.row + r, part.col, part.cols, row);
                }
            }
        }
    }
}

/// Writes a part of an operand of integers of up to 8 bits as rows of bytes, `dst_stride` bytes apart.
///
/// # Safety
/// As for [`stage_f32`].
pub(crate) unsafe fn stage_bytes(view: &OperandView<'_>, part: Part, dst: *mut u8, dst_stride: usize) {
    // SAFETY: within the part, by the caller's contract.
    unsafe {
        for r in 0..part.rows {
            let row = dst.add(r * dst_stride);
            if has_dense_rows(view) {
                let index = view.index(part.row + r, part.col);
                if view.format.bits() == 8 {
                    let src = view.data.wrapping_offset(index as isize);
                    std::ptr::copy_nonoverlapping(src, row, part.cols);
                } else {
                    expand(view.format, view.data, index, part.cols, row);
                }
            } else {
                for c in 0..part.cols {
                    let index = view.index(part.row + r, part.col + c);
                    let code = load_code(view.format, view.data, index);
                    *row.add(c) = byte_code(view.format, code as u8);
                }
            }
        }
    }
}

/// The code of one element.
///
/// # Safety
/// The element must be readable.
pub(crate) unsafe fn load_code(format: ElementFormat, data: *const u8, index: i64) -> u64 {
    let bits = format.bits() as i64;
    // SAFETY: the caller vouches for the element's bytes.
    unsafe {
        if bits < 8 {
            let byte = *data.wrapping_offset((index * bits).div_euclid(8) as isize);
            let shift = (index * bits).rem_euclid(8);
            return u64::from(byte >> shift) & ((1 << bits) - 1);
        }
        let src = data.wrapping_offset((index * (bits / 8)) as isize);
        match bits {
            8 => u64::from(*src),
            16 => u64::from(src.cast::<u16>().read_unaligned()),
            32 => u64::from(src.cast::<u32>().read_unaligned()),
            _ => src.cast::<u64>().read_unaligned(),
        }
    }
}

/// Widens `n` consecutive elements.
///
/// # Safety
/// The elements must be readable and `n` values writable; the machine must have the table's path.
pub(crate) unsafe fn widen_run(ops: &Ops, format: ElementFormat, data: *const u8, index: i64, n: usize, dst: *mut f32) {
    use ElementFormat::*;
    // SAFETY: the caller's contract.
    unsafe {
        let at = |bytes: i64| data.wrapping_offset((index * bytes) as isize);
        match format {
            F32 => std::ptr::copy_nonoverlapping(at(4), dst.cast::<u8>(), n * 4),
            F16 => (ops.widen_f16)(at(2), n, dst),
            BF16 => (ops.widen_bf16)(at(2), n, dst),
            I8 => (ops.widen_i8)(at(1), n, dst),
            U8 => (ops.widen_u8)(at(1), n, dst),
            Fp8E4M3 => (ops.widen_e4m3)(at(1), n, dst),
            Fp8E5M2 => (ops.widen_e5m2)(at(1), n, dst),
            Int4B | UInt4B | Int2B | UInt2B | Fp4E2M1 => {
                let widen = match format {
                    Int4B | Int2B => ops.widen_i8,
                    UInt4B | UInt2B => ops.widen_u8,
                    _ => ops.widen_e5m2,
                };
                let mut bytes = [0u8; 256];
                for start in (0..n).step_by(bytes.len()) {
                    let count = bytes.len().min(n - start);
                    let first = index + start as i64;
                    expand(format, data, first, count, bytes.as_mut_ptr());
                    widen(bytes.as_ptr(), count, dst.add(start));
                }
            }
            Bool | I16 | U16 | I32 | U32 | I64 | U64 | Fp8UE8M0 => {
                for i in 0..n {
                    *dst.add(i) = format.decode_f32(load_code(format, data, index + i as i64));
                }
            }
        }
    }
}

/// The byte that stands for a code narrower than a byte: the integer itself, or for FP4 the same value in E5M2.
fn byte_code(format: ElementFormat, code: u8) -> u8 {
    match format {
        ElementFormat::Int4B => ((code << 4) as i8 >> 4) as u8,
        ElementFormat::Int2B => ((code << 6) as i8 >> 6) as u8,
        ElementFormat::Fp4E2M1 => E2M1_AS_E5M2[usize::from(code & 15)],
        _ => code,
    }
}

/// 0, ½, 1, 1½, 2, 3, 4, 6 and their negatives in E5M2.
const E2M1_AS_E5M2: [u8; 16] = [
    0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46, 0x80, 0xb8, 0xbc, 0xbe, 0xc0, 0xc2, 0xc4, 0xc6,
];

/// What the elements of one packed byte expand to, first element first.
struct Expansion([[u8; 4]; 256]);

const fn expansion(bits: u32, signed: bool, fp4: bool) -> Expansion {
    let mut table = [[0u8; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut i = 0;
        while i < 8 / bits as usize {
            let code = (byte >> (i as u32 * bits)) as u8 & ((1 << bits) - 1);
            table[byte][i] = if fp4 {
                E2M1_AS_E5M2[code as usize]
            } else if signed {
                ((code << (8 - bits)) as i8 >> (8 - bits)) as u8
            } else {
                code
            };
            i += 1;
        }
        byte += 1;
    }
    Expansion(table)
}

static INT4: Expansion = expansion(4, true, false);
static UINT4: Expansion = expansion(4, false, false);
static INT2: Expansion = expansion(2, true, false);
static UINT2: Expansion = expansion(2, false, false);
static FP4: Expansion = expansion(4, false, true);

/// Expands `n` consecutive elements narrower than a byte to one byte each (see [`byte_code`]).
///
/// # Safety
/// The elements must be readable and `n` bytes writable.
unsafe fn expand(format: ElementFormat, data: *const u8, index: i64, n: usize, dst: *mut u8) {
    let table = match format {
        ElementFormat::Int4B => &INT4,
        ElementFormat::UInt4B => &UINT4,
        ElementFormat::Int2B => &INT2,
        ElementFormat::UInt2B => &UINT2,
        _ => &FP4,
    };
    let per_byte = format.elements_per_byte();
    let mut byte = index.div_euclid(per_byte as i64) as isize;
    let mut skip = index.rem_euclid(per_byte as i64) as usize;
    let mut done = 0;
    // SAFETY: each byte read holds an element that the caller vouches for, and `done` stays within n.
    unsafe {
        while done < n {
            let group = &table.0[usize::from(*data.wrapping_offset(byte))];
            if skip == 0 && n - done >= per_byte {
                if per_byte == 2 {
                    let pair = [group[0], group[1]];
                    dst.add(done).cast::<[u8; 2]>().write_unaligned(pair);
                } else {
                    dst.add(done).cast::<[u8; 4]>().write_unaligned(*group);
                }
                done += per_byte;
            } else {
                let count = (per_byte - skip).min(n - done);
                for &code in &group[skip..skip + count] {
                    *dst.add(done) = code;
                    done += 1;
                }
                skip = 0;
            }
            byte += 1;
        }
    }
}

/// Multiplies `n` staged elements of a row, from column `col` on, by their scales.
///
/// # Safety
/// As for [`stage_f32`].
unsafe fn scale_row(ops: &Ops, scales: &ScaleView<'_>, row: usize, col: usize, n: usize, values: *mut f32) {
    let mut done = 0;
    while done < n {
        let in_block = (col + done + scales.col_phase) % scales.col_block;
        let run = (scales.col_block - in_block).min(n - done);
        // SAFETY: (row, col + done) is a valid element, and the run ends within the row.
        unsafe {
            let factor = power_of_two(scales.code(row, col + done));
            (ops.scale)(values.add(done), run, factor);
        }
        done += run;
    }
}

/// The value of a UE8M0 code: 2^(code − 127), subnormal for code 0; 255 is NaN.
fn power_of_two(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::ops;
    use super::super::{TilePath, available_paths};
    use super::*;

    /// Every code of every format, at every offset in its first byte, on every path.
    #[test]
    fn widening_is_exact() {
        for &path in available_paths() {
            for format in ElementFormat::ALL {
                let count = if format.bits() >= 16 { 65536 } else { 512 };
                let bytes: Vec<u8> = if format.bits() >= 16 {
                    let width = format.bits() / 8;
                    (0..count as u64)
                        .flat_map(|i| (i << (format.bits() - 16)).to_le_bytes()[..width].to_vec())
                        .collect()
                } else {
                    (0..512u32).map(|i| i as u8).collect()
                };
                for start in [0usize, 1, 2, 3, 5] {
                    let n = count - start;
                    let mut got = vec![0.0f32; n];
                    // SAFETY: start + n elements are in `bytes`, and the path is available.
                    unsafe { widen_run(ops(path), format, bytes.as_ptr(), start as i64, n, got.as_mut_ptr()) };
                    for (i, got) in got.iter().enumerate() {
                        let code = format.load(&bytes, start + i).unwrap();
                        let want = format.decode_f32(code);
                        assert!(
                            want.to_bits() == got.to_bits() || want.is_nan() && got.is_nan(),
                            "{path} {format} element {}: {got} is not {want}",
                            start + i
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn scale_codes() {
        for code in 0..=255u64 {
            let want = ElementFormat::Fp8UE8M0.decode_f32(code);
            let got = power_of_two(code as u8);
            assert!(want == got || want.is_nan() && got.is_nan());
        }
    }

    #[test]
    fn strided_parts_with_scales() {
        let (rows, cols) = (37, 70);
        let data: Vec<u8> = (0..rows * cols).map(|i| (i * 7 % 251) as u8).collect();
        let codes: Vec<u8> = (0..rows * 3).map(|i| (i % 255) as u8).collect();
        // SAFETY: rows · cols elements, and three codes a row for blocks of 32 with phase 5.
        let view = unsafe {
            OperandView::new(data.as_ptr(), ElementFormat::Fp8E4M3, (rows, cols), (cols as i64, 1))
                .scales(ScaleView::new(codes.as_ptr(), (1, 32), (3, 1)).phase(0, 5))
        };
        for &path in available_paths() {
            for flip in [false, true] {
                let view = if flip { view.transposed() } else { view };
                let part = Part {
                    row: 3,
                    col: 2,
                    rows: view.rows - 4,
                    cols: view.cols - 3,
                };
                let stride = part.cols + 3;
                let mut got = vec![0.0f32; part.rows * stride];
                // SAFETY: the part lies in the view; the path is available.
                unsafe {
                    stage_f32(
                        ops(path),
                        &view,
                        part,
                        got.as_mut_ptr(),
                        stride,
                        &mut AlignedBuffer::default(),
                    )
                };
                for r in 0..part.rows {
                    for c in 0..part.cols {
                        let (mut i, mut j) = (part.row + r, part.col + c);
                        if flip {
                            std::mem::swap(&mut i, &mut j);
                        }
                        let value = ElementFormat::Fp8E4M3.decode(data[i * cols + j].into());
                        let scale = ElementFormat::Fp8UE8M0.decode(codes[i * 3 + (j + 5) / 32].into());
                        let want = (value * scale) as f32;
                        let got = got[r * stride + c];
                        assert!(
                            want == got || want.is_nan() && got.is_nan(),
                            "{path} {flip} ({i}, {j}): {got} is not {want}"
                        );
                    }
                }
            }
        }
        let _ = TilePath::ALL;
    }
}
