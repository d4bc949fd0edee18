//! AMX: tiles of 16 rows × 64 bytes. A block of 2 × 2 accumulator tiles (32 × 32 sums) takes two left and two right tiles a
//! step, so that each tile loaded is used twice. The instructions are written as inline assembly.
//!
//! The tile unit treats subnormal bf16 inputs as zero and flushes subnormal results, so the caller sends operands that
//! come near that range to [`bf16_exact`], which reads the same packed memory with AVX-512.

use std::arch::asm;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::tile::pack::{LeftLayout, RightLayout};

/// Two packed operands in tile lanes, and what of their product is wanted.
pub(crate) struct Operands {
    pub left: LeftLayout,
    pub left_planes: usize,
    pub right: RightLayout,
    pub right_planes: usize,
    /// Rows of the left operand.
    pub rows: Range<usize>,
    /// Columns of the right operand; the first is a multiple of 16.
    pub cols: Range<usize>,
    /// Elements along K that are valid in both.
    pub k: usize,
    /// Groups in a block of K.
    pub block_groups: usize,
}

/// Rows and columns (in 32-bit numbers) of a tile.
const SIDE: usize = 16;

/// Bytes of a tile.
const TILE: usize = 1024;

/// The operand of LDTILECFG: palette 1, all eight tiles 16 rows × 64 bytes.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_per_row: [u16; 16],
    rows: [u8; 16],
}

static CONFIG: TileConfig = TileConfig {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    bytes_per_row: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Bytes of the right operand that are asked for in a step: four blocks of a pair of panels ask for the next pair, which comes
/// from the third-level cache.
const AHEAD: usize = 512;

/// What is asked for where there is nothing more: it stays in the first-level cache.
#[repr(C, align(64))]
struct Nowhere([u8; AHEAD]);

static NOWHERE: Nowhere = Nowhere([0; AHEAD]);

/// One run along K for a block of accumulators: where its tiles start. Read by the assembly.
#[repr(C)]
#[derive(Clone, Copy)]
struct Segment {
    left: [*const u8; 2],
    right: [*const u8; 2],
}

impl Segment {
    const NONE: Segment = Segment {
        left: [std::ptr::null(); 2],
        right: [std::ptr::null(); 2],
    };
}

/// Where a tile of sums comes from and goes to.
#[repr(C)]
#[derive(Clone, Copy)]
struct Place {
    first: *mut u8,
    /// Bytes from row to row.
    stride: isize,
}

/// What a block multiplies. Read by the assembly.
#[repr(C)]
struct Job {
    /// Four tiles, row-major.
    sums: [Place; 4],
    /// What is asked for meanwhile, and how many bytes further a step.
    next: *const u8,
    far: usize,
    /// Each step goes through all of them.
    segments: *const Segment,
    count: usize,
    /// Bytes of all steps.
    end: usize,
    /// Not zero where the sums go on from what is there.
    load: u64,
}

/// The assembly of a block: which accumulators it has, and the multiplication. Tiles 0 … 3 hold the sums of (upper left),
/// (upper right), (lower left), (lower right); 4 and 5 are the left operand's, 6 and 7 the right one's.
macro_rules! block {
    ($name:ident, $multiply:literal, $load:literal, [$($each:literal),*], left [$($left:literal),*], right [$($right:literal),*], [$($product:literal),*]) => {
        /// # Safety
        /// The machine must have AMX, its tiles configured by [`CONFIG`]; the segments' tiles must be readable, the sums'
        /// tiles readable and writable.
        unsafe fn $name(job: &Job) {
            // SAFETY: the assembly reads the segments' tiles and reads and writes the sums' tiles, as the caller vouches.
            // No code that a compiler generates holds anything in tile registers.
            unsafe {
                asm!(
                    "cmp qword ptr [{job} + 104], 0",
                    "jnz 3f",
                    $(concat!("tilezero tmm", $each),)*
                    "jmp 4f",
                    "3:",
                    $(
                        concat!("mov {p}, [{job} + 16*", $each, "]"),
                        concat!("mov {s}, [{job} + 16*", $each, " + 8]"),
                        concat!("tileloadd tmm", $each, ", [{p} + {s}*1]"),
                    )*
                    "4:",
                    "mov {s}, 64",
                    "2:",
                    "mov {i}, [{job} + 80]",
                    "mov {p}, [{job} + 88]",
                    "5:",
                    "mov {a0}, [{i}]",
                    "mov {a1}, [{i} + 8]",
                    "mov {b0}, [{i} + 16]",
                    "mov {b1}, [{i} + 24]",
                    "add {a0}, {at}",
                    "add {a1}, {at}",
                    "add {b0}, {at}",
                    "add {b1}, {at}",
                    $(concat!($load, " tmm", $left),)*
                    $(concat!("tileloadd tmm", $right),)*
                    $(concat!($multiply, " ", $product),)*
                    "add {i}, 32",
                    "dec {p}",
                    "jnz 5b",
                    "prefetcht1 [{next}]",
                    "prefetcht1 [{next} + 64]",
                    "prefetcht1 [{next} + 128]",
                    "prefetcht1 [{next} + 192]",
                    "prefetcht1 [{next} + 256]",
                    "prefetcht1 [{next} + 320]",
                    "prefetcht1 [{next} + 384]",
                    "prefetcht1 [{next} + 448]",
                    "add {next}, [{job} + 72]",
                    "add {at}, 1024",
                    "cmp {at}, [{job} + 96]",
                    "jb 2b",
                    $(
                        concat!("mov {p}, [{job} + 16*", $each, "]"),
                        concat!("mov {s}, [{job} + 16*", $each, " + 8]"),
                        concat!("tilestored [{p} + {s}*1], tmm", $each),
                    )*
                    job = in(reg) job,
                    next = inout(reg) job.next => _,
                    at = inout(reg) 0usize => _,
                    i = out(reg) _,
                    p = out(reg) _,
                    s = out(reg) _,
                    a0 = out(reg) _,
                    a1 = out(reg) _,
                    b0 = out(reg) _,
                    b1 = out(reg) _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    };
}

/// A block function for each shape: both rows and columns of tiles, or only the first of them.
macro_rules! blocks {
    ($multiply:literal, $load:literal, $two_two:ident, $two_one:ident, $one_two:ident, $one_one:ident) => {
        block!($two_two, $multiply, $load, ["0", "1", "2", "3"],
            left ["4, [{a0} + {s}*1]", "5, [{a1} + {s}*1]"],
            right ["6, [{b0} + {s}*1]", "7, [{b1} + {s}*1]"],
            ["tmm0, tmm4, tmm6", "tmm1, tmm4, tmm7", "tmm2, tmm5, tmm6", "tmm3, tmm5, tmm7"]);
        block!($two_one, $multiply, $load, ["0", "2"],
            left ["4, [{a0} + {s}*1]", "5, [{a1} + {s}*1]"],
            right ["6, [{b0} + {s}*1]"],
            ["tmm0, tmm4, tmm6", "tmm2, tmm5, tmm6"]);
        block!($one_two, $multiply, $load, ["0", "1"],
            left ["4, [{a0} + {s}*1]"],
            right ["6, [{b0} + {s}*1]", "7, [{b1} + {s}*1]"],
            ["tmm0, tmm4, tmm6", "tmm1, tmm4, tmm7"]);
        block!($one_one, $multiply, $load, ["0"],
            left ["4, [{a0} + {s}*1]"],
            right ["6, [{b0} + {s}*1]"],
            ["tmm0, tmm4, tmm6"]);
    };
}

// Left tiles stream past the first-level cache, where a pair of panels stays for all blocks; two planes of panels do not fit there, and
// the left tiles come back for the second one.
blocks!("tdpbf16ps", "tileloaddt1", bf16_22, bf16_21, bf16_12, bf16_11);
blocks!("tdpbf16ps", "tileloadd", terms_22, terms_21, terms_12, terms_11);
blocks!("tdpbssd", "tileloaddt1", ss_22, ss_21, ss_12, ss_11);
blocks!("tdpbsud", "tileloaddt1", su_22, su_21, su_12, su_11);
blocks!("tdpbusd", "tileloaddt1", us_22, us_21, us_12, us_11);
blocks!("tdpbuud", "tileloaddt1", uu_22, uu_21, uu_12, uu_11);

/// The functions of one kind: [rows of tiles − 1][columns of tiles − 1].
type Blocks = [[unsafe fn(&Job); 2]; 2];

/// The product of bf16 operands of one or two planes.
///
/// # Safety
/// The machine must have AMX; the layouts must hold the rows, columns and K in whole tiles, zero past the valid parts; the
/// accumulator `c` must hold the rows and columns.
pub(crate) unsafe fn bf16(operands: &Operands, c: *mut f32, ldc: usize, accumulate: bool) {
    const BLOCKS: Blocks = [[bf16_11, bf16_12], [bf16_21, bf16_22]];
    const TERMS: Blocks = [[terms_11, terms_12], [terms_21, terms_22]];
    let blocks = if operands.right_planes == 1 { &BLOCKS } else { &TERMS };
    #[cfg(test)]
    if emulation::needed() {
        let blocks = emulation::bf16();
        // SAFETY: the caller's contract.
        return unsafe { product(operands, &blocks, 2, c, ldc, accumulate, |x: f32, y| x + y) };
    }
    // SAFETY: the caller's contract; adding floats as the tiles do.
    unsafe { product(operands, blocks, 2, c, ldc, accumulate, |x: f32, y| x + y) }
}

/// The product of 8-bit integers, each operand signed or not.
///
/// # Safety
/// As for [`bf16`].
pub(crate) unsafe fn int8(operands: &Operands, signed: (bool, bool), c: *mut i32, ldc: usize, accumulate: bool) {
    let blocks: &Blocks = match signed {
        (true, true) => &[[ss_11, ss_12], [ss_21, ss_22]],
        (true, false) => &[[su_11, su_12], [su_21, su_22]],
        (false, true) => &[[us_11, us_12], [us_21, us_22]],
        (false, false) => &[[uu_11, uu_12], [uu_21, uu_22]],
    };
    #[cfg(test)]
    let emulated = emulation::int8(signed);
    #[cfg(test)]
    let blocks = if emulation::needed() { &emulated } else { blocks };
    // SAFETY: the caller's contract.
    unsafe { product(operands, blocks, 4, c, ldc, accumulate, i32::wrapping_add) }
}

/// Configures the tiles.
///
/// # Safety
/// The machine must have AMX.
pub(super) unsafe fn configure() {
    // SAFETY: CONFIG is a valid configuration.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, readonly, preserves_flags));
    }
}

/// Gives the tiles up: an idle tile unit need not be saved at a context switch.
///
/// # Safety
/// The machine must have AMX.
pub(super) unsafe fn release() {
    // SAFETY: no operands.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// Rows whose left tiles stay in the second-level cache while all columns pass: 256 rows × 1 KiB.
const ROWS_TOGETHER: usize = 256;

/// Runs the blocks over everything. `group` elements make a 32-bit group.
///
/// # Safety
/// As for [`bf16`]; the blocks' sums must have the accumulator's type.
unsafe fn product<T: Copy>(
    operands: &Operands,
    blocks: &Blocks,
    group: usize,
    c: *mut T,
    ldc: usize,
    accumulate: bool,
    add: impl Fn(T, T) -> T,
) {
    let (rows, cols) = (operands.rows.len(), operands.cols.len());
    if rows == 0 || cols == 0 || operands.k == 0 {
        return;
    }
    #[cfg(test)]
    let emulated = emulation::needed();
    #[cfg(not(test))]
    let emulated = false;
    if !emulated {
        // SAFETY: the caller vouches for AMX.
        unsafe { configure() };
    }
    let total = operands.k.div_ceil(group);
    // Edges go through here: 2 × 2 tiles, row-major.
    let mut edge = [const { [const { MaybeUninit::<T>::uninit() }; 2 * SIDE] }; 2 * SIDE];
    // A part need not start at a tile's first row. Tiles start at multiples of 16 rows; rows before the part are dropped.
    let first_tile = operands.rows.start / SIDE;
    let before = operands.rows.start % SIDE;
    let tile_rows = (before + rows).div_ceil(SIDE);
    let tile_cols = cols.div_ceil(SIDE);
    let first_panel = operands.cols.start / SIDE;
    for (kb, g0) in (0..total).step_by(operands.block_groups).enumerate() {
        let steps = operands.block_groups.min(total - g0).div_ceil(SIDE);
        let load = accumulate || kb > 0;
        for t0 in (0..tile_rows).step_by(ROWS_TOGETHER / SIDE) {
            let t1 = tile_rows.min(t0 + ROWS_TOGETHER / SIDE);
            for p in (0..tile_cols).step_by(2) {
                let wide = (tile_cols - p).min(2);
                for t in (t0..t1).step_by(2) {
                    let high = (t1 - t).min(2);
                    // SAFETY: the tiles lie in the layouts by the caller's contract, which holds whole tiles; sums are written
                    // directly only where all of a block is wanted, otherwise through `edge`.
                    unsafe {
                        let segments = segments(operands, kb, (first_tile + t, high), (first_panel + p, wide));
                        let block = blocks[high - 1][wide - 1];
                        // Rows and columns of the block within the product.
                        let top = (t * SIDE) as isize - before as isize;
                        let bottom = top + (high * SIDE) as isize;
                        let whole = top >= 0 && bottom <= rows as isize && (p + wide) * SIDE <= cols;
                        let (first, stride): (*mut T, usize) = if whole {
                            (c.add(top as usize * ldc + p * SIDE), ldc)
                        } else {
                            (edge.as_mut_ptr().cast(), 2 * SIDE)
                        };
                        let tile = |i: usize, j: usize| Place {
                            first: first.wrapping_add(i * SIDE * stride + j * SIDE).cast(),
                            stride: (stride * size_of::<T>()) as isize,
                        };
                        // What follows in memory is the next pair of panels, or the next block's first.
                        let blocks_before = (t - t0) / 2;
                        let (next, far) = match blocks_before {
                            0..4 => {
                                let pair = segments[0].right[0].wrapping_offset(2 * operands.right.panel_stride);
                                (pair.wrapping_add(blocks_before * steps * AHEAD), AHEAD)
                            }
                            _ => ((&raw const NOWHERE).cast(), 0),
                        };
                        block(&Job {
                            sums: [tile(0, 0), tile(0, 1), tile(1, 0), tile(1, 1)],
                            next,
                            far,
                            segments: segments.as_ptr(),
                            count: operands.left_planes * operands.right_planes,
                            end: steps * TILE,
                            load: (load && whole).into(),
                        });
                        if !whole {
                            let from = top.max(0);
                            let to = bottom.min(rows as isize);
                            let width = (wide * SIDE).min(cols - p * SIDE);
                            for row in from..to {
                                let line = c.add(row as usize * ldc + p * SIDE);
                                let line = std::slice::from_raw_parts_mut(line, width);
                                for (old, new) in line.iter_mut().zip(&edge[(row - top) as usize]) {
                                    // The block has written these sums.
                                    let new = new.assume_init();
                                    *old = if load { add(*old, new) } else { new };
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    if !emulated {
        // SAFETY: the tiles were configured above.
        unsafe { release() };
    }
}

/// The runs of a block: every pair of planes, the smallest terms first.
///
/// # Safety
/// The tiles must lie in the layouts.
unsafe fn segments(
    operands: &Operands,
    kb: usize,
    (tile, high): (usize, usize),
    (panel, wide): (usize, usize),
) -> [Segment; 4] {
    let (left, right) = (&operands.left, &operands.right);
    let left_tile = |plane: usize, tile: usize| {
        left.base.wrapping_offset(
            plane as isize * left.plane_stride
                + kb as isize * left.block_stride
                + (tile * SIDE) as isize * left.row_stride,
        )
    };
    let right_panel = |plane: usize, panel: usize| {
        right.base.wrapping_offset(
            plane as isize * right.plane_stride
                + kb as isize * right.block_stride
                + panel as isize * right.panel_stride,
        )
    };
    let mut all = [Segment::NONE; 4];
    for (i, segment) in all
        .iter_mut()
        .enumerate()
        .take(operands.left_planes * operands.right_planes)
    {
        let lp = (operands.left_planes - 1).saturating_sub(i / operands.right_planes);
        let rp = operands.right_planes - 1 - i % operands.right_planes;
        *segment = Segment {
            left: [left_tile(lp, tile), left_tile(lp, tile + high - 1)],
            right: [right_panel(rp, panel), right_panel(rp, panel + wide - 1)],
        };
    }
    all
}

/// The product of bf16 operands by AVX-512: every element at its exact value, K at its exact length.
///
/// # Safety
/// As for [`bf16`].
pub(crate) unsafe fn bf16_exact(operands: &Operands, c: *mut f32, ldc: usize, accumulate: bool) {
    #[cfg(test)]
    if emulation::needed() {
        // SAFETY: the caller's contract; nothing here needs AVX-512.
        return unsafe { exact_plain(operands, c, ldc, accumulate) };
    }
    // SAFETY: the caller's contract; a machine with AMX has AVX-512.
    unsafe { exact_wide(operands, c, ldc, accumulate) }
}

/// [`exact_plain`] compiled for AVX-512.
///
/// # Safety
/// As for [`bf16`]; the machine must have AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn exact_wide(operands: &Operands, c: *mut f32, ldc: usize, accumulate: bool) {
    // SAFETY: the caller's contract.
    unsafe { exact_plain(operands, c, ldc, accumulate) }
}

/// Rows that share a decoded right group.
const EXACT_ROWS: usize = 8;

/// # Safety
/// As for [`bf16`].
#[inline(always)]
unsafe fn exact_plain(operands: &Operands, c: *mut f32, ldc: usize, accumulate: bool) {
    let (rows, cols) = (operands.rows.len(), operands.cols.len());
    let block = operands.block_groups * 2;
    for (kb, k0) in (0..operands.k).step_by(block).enumerate() {
        let k = block.min(operands.k - k0);
        for c0 in (0..cols).step_by(SIDE) {
            let panel = operands.right.base.wrapping_offset(
                kb as isize * operands.right.block_stride
                    + ((operands.cols.start + c0) / SIDE) as isize * operands.right.panel_stride,
            );
            let width = SIDE.min(cols - c0);
            for r0 in (0..rows).step_by(EXACT_ROWS) {
                let height = EXACT_ROWS.min(rows - r0);
                // SAFETY: rows, panel and accumulators lie in what the caller vouches for.
                unsafe {
                    let left = std::array::from_fn(|i| {
                        let row = operands.rows.start + r0 + i.min(height - 1);
                        operands.left.base.wrapping_offset(
                            kb as isize * operands.left.block_stride
                                + (row / SIDE * SIDE) as isize * operands.left.row_stride
                                + (row % SIDE * 64) as isize,
                        )
                    });
                    let totals = match (operands.left_planes, operands.right_planes) {
                        (1, 1) => exact_block::<1, 1>(operands, left, panel, k),
                        (1, _) => exact_block::<1, 2>(operands, left, panel, k),
                        (_, 1) => exact_block::<2, 1>(operands, left, panel, k),
                        _ => exact_block::<2, 2>(operands, left, panel, k),
                    };
                    for (i, totals) in totals.iter().enumerate().take(height) {
                        let line = c.add((r0 + i) * ldc + c0);
                        let line = std::slice::from_raw_parts_mut(line, width);
                        for (old, &new) in line.iter_mut().zip(totals) {
                            let more = accumulate || kb > 0;
                            *old = if more { *old + new } else { new };
                        }
                    }
                }
            }
        }
    }
}

/// The sums of a few rows and a panel over the `k` elements of a block.
///
/// # Safety
/// Group g of a row stands in tile g / 16 of the row's tiles, that of the columns in row g of the panel; both must be
/// readable in every plane.
#[inline(always)]
unsafe fn exact_block<const LEFT_PLANES: usize, const RIGHT_PLANES: usize>(
    operands: &Operands,
    left: [*const u8; EXACT_ROWS],
    panel: *const u8,
    k: usize,
) -> [[f32; SIDE]; EXACT_ROWS] {
    let halves = |pair: u32| [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)];
    let mut totals = [[0.0f32; SIDE]; EXACT_ROWS];
    for g in 0..k.div_ceil(2) {
        // SAFETY: the caller's contract.
        unsafe {
            let mut columns = [[0.0f32; SIDE]; 2];
            for plane in 0..RIGHT_PLANES {
                let at = panel.offset(plane as isize * operands.right.plane_stride);
                let pairs = *at.add(g * 64).cast::<[u32; SIDE]>();
                for j in 0..SIDE {
                    let term = halves(pairs[j]);
                    columns[0][j] += term[0];
                    columns[1][j] += term[1];
                }
            }
            // The padding of an odd K must not meet an infinity.
            let whole = 2 * g + 1 < k;
            for i in 0..EXACT_ROWS {
                let mut x = [0.0f32; 2];
                for plane in 0..LEFT_PLANES {
                    let at = left[i].offset(plane as isize * operands.left.plane_stride);
                    let term = halves(*at.add(g / SIDE * TILE + g % SIDE * 4).cast::<u32>());
                    x = [x[0] + term[0], x[1] + term[1]];
                }
                for j in 0..SIDE {
                    totals[i][j] = x[0].mul_add(columns[0][j], totals[i][j]);
                }
                if whole {
                    for j in 0..SIDE {
                        totals[i][j] = x[1].mul_add(columns[1][j], totals[i][j]);
                    }
                }
            }
        }
    }
    totals
}

/// The blocks as plain Rust, so that packing and the loops around the tiles are tested on machines without AMX. Tile
/// arithmetic is that of the instructions, except for the order of rounding and for subnormals.
#[cfg(test)]
mod emulation {
    use super::*;

    /// A block of `HIGH` × `WIDE` tiles, each group's product and sum by `step`.
    unsafe fn block<T: Copy + Default, const HIGH: usize, const WIDE: usize>(
        job: &Job,
        step: impl Fn(T, [u8; 4], [u8; 4]) -> T,
    ) {
        for i in 0..HIGH {
            for j in 0..WIDE {
                let Place { first, stride } = job.sums[2 * i + j];
                for m in 0..SIDE {
                    for n in 0..SIDE {
                        // SAFETY: the segments' and sums' tiles are accessible, as for the instructions.
                        unsafe {
                            let sum = first.offset(m as isize * stride).cast::<T>().add(n);
                            let mut total = if job.load != 0 { *sum } else { T::default() };
                            for segment in std::slice::from_raw_parts(job.segments, job.count) {
                                for g in 0..job.end / TILE * SIDE {
                                    let a = segment.left[i].add(g / SIDE * TILE + m * 64 + g % SIDE * 4);
                                    let b = segment.right[j].add(g * 64 + n * 4);
                                    total = step(total, *a.cast(), *b.cast());
                                }
                            }
                            *sum = total;
                        }
                    }
                }
            }
        }
    }

    fn bf16_step(total: f32, a: [u8; 4], b: [u8; 4]) -> f32 {
        let value = |x: [u8; 4], i: usize| f32::from_bits(u32::from(x[2 * i]) << 16 | u32::from(x[2 * i + 1]) << 24);
        (0..2).fold(total, |total, i| value(a, i).mul_add(value(b, i), total))
    }

    fn int8_step<const LEFT: bool, const RIGHT: bool>(total: i32, a: [u8; 4], b: [u8; 4]) -> i32 {
        let value = |x: u8, signed| {
            if signed { i32::from(x as i8) } else { i32::from(x) }
        };
        (0..4).fold(total, |total, i| {
            total.wrapping_add(value(a[i], LEFT) * value(b[i], RIGHT))
        })
    }

    macro_rules! emulated {
        ($step:expr) => {
            // SAFETY: each function passes on the contract of a block.
            unsafe {
                fn as_block(f: unsafe fn(&Job)) -> unsafe fn(&Job) {
                    f
                }
                [
                    [
                        as_block(|job| block::<_, 1, 1>(job, $step)),
                        as_block(|job| block::<_, 1, 2>(job, $step)),
                    ],
                    [
                        as_block(|job| block::<_, 2, 1>(job, $step)),
                        as_block(|job| block::<_, 2, 2>(job, $step)),
                    ],
                ]
            }
        };
    }

    pub fn bf16() -> Blocks {
        emulated!(bf16_step)
    }

    pub fn int8(signed: (bool, bool)) -> Blocks {
        match signed {
            (true, true) => emulated!(int8_step::<true, true>),
            (true, false) => emulated!(int8_step::<true, false>),
            (false, true) => emulated!(int8_step::<false, true>),
            (false, false) => emulated!(int8_step::<false, false>),
        }
    }

    /// True where the instructions are missing.
    pub fn needed() -> bool {
        !crate::tile::TilePath::Amx.is_available()
    }
}
