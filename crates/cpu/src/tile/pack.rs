//! Packed operands: rows of the left one, panels of the right one, blocked along K.

use anymetal_formats::ElementFormat;

use super::buffer::AlignedBuffer;
use super::few::table;
use super::kernel::{Fp8Row, Ops, Terms, ops};
use super::kind::{Accumulation, Blocking, Lane, Product, panel_width};
use super::path::{has_bf16_dots, has_few_rows};
use super::view::OperandView;
use super::widen::{Part, has_dense_rows, stage_bytes, stage_f32};
use super::{Scratch, TilePath};

mod panels;

use panels::{panels_of_columns, panels_of_rows};

/// What both kinds of packed operands know about themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub path: TilePath,
    pub lane: Lane,
    /// Rows of a left operand, columns of a right one: all of them, and the valid ones.
    pub across: usize,
    pub valid_across: usize,
    /// Elements along K: all of them, and the valid ones.
    pub k: usize,
    pub valid_k: usize,
    pub blocking: Blocking,
    pub terms: Terms,
    /// What packing added to every element of an integer lane, those past the end included: 128 or −128 for a left operand
    /// that had to change sides, else 0.
    pub shift: i32,
}

impl Header {
    fn new(path: TilePath, lane: Lane, across: (usize, usize), k: (usize, usize)) -> Self {
        Header {
            path,
            lane,
            across: across.0,
            valid_across: across.1,
            k: k.0,
            valid_k: k.1,
            blocking: Blocking::new(k.0, path, lane),
            terms: Terms::NONE,
            shift: 0,
        }
    }

    fn empty() -> Self {
        Self::new(TilePath::Portable, Lane::F32, (0, 0), (0, 0))
    }
}

/// Where the rows of a left operand lie: row `i` of block `kb` of plane `p` is at
/// `base + kb · block_stride + i · row_stride + p · plane_stride` (bytes).
///
/// In tile lanes the rows go in tiles instead: 16 rows × 16 groups (1 KiB) without gaps, the tiles of 16 rows one after the
/// other along K. There `row_stride` is that of a row among equals: 16 rows fill 16 times as many bytes.
#[derive(Clone, Copy)]
pub(crate) struct LeftLayout {
    pub base: *const u8,
    pub row_stride: isize,
    pub block_stride: isize,
    pub plane_stride: isize,
}

/// Where the panels of a right operand lie, in bytes: as [`LeftLayout`], with panels instead of rows.
#[derive(Clone, Copy)]
pub(crate) struct RightLayout {
    pub base: *const u8,
    pub panel_stride: isize,
    pub block_stride: isize,
    pub plane_stride: isize,
}

/// A packed left operand. Its memory is reused by the next [`pack`](Self::pack).
#[derive(Debug)]
pub struct PackedLeft {
    pub(crate) header: Header,
    buffer: AlignedBuffer,
}

/// A packed right operand. Its memory is reused by the next [`pack`](Self::pack).
#[derive(Debug)]
pub struct PackedRight {
    pub(crate) header: Header,
    buffer: AlignedBuffer,
}

impl Default for PackedLeft {
    fn default() -> Self {
        PackedLeft {
            header: Header::empty(),
            buffer: AlignedBuffer::default(),
        }
    }
}

impl Default for PackedRight {
    fn default() -> Self {
        PackedRight {
            header: Header::empty(),
            buffer: AlignedBuffer::default(),
        }
    }
}

/// Rows of a left operand that packed memory has room for (AMX reads tiles of 16).
fn padded_rows(rows: usize, path: TilePath, lane: Lane) -> usize {
    if lane.is_tile_lane(path) {
        rows.next_multiple_of(16)
    } else {
        rows
    }
}

impl PackedLeft {
    /// Packs an M × K operand for a product. `product.left` may be widened to [`Lane::F32`] where block scales take
    /// values out of what bf16 holds; [`multiply`](super::multiply) copes with it.
    pub fn pack(&mut self, product: &Product, view: &OperandView<'_>, scratch: &mut Scratch) {
        if !self.fill(product.path, product.left, view, scratch) {
            self.fill(product.path, Lane::F32, view, scratch);
        }
    }

    /// False where the lane does not hold a value exactly and must.
    fn fill(&mut self, path: TilePath, lane: Lane, view: &OperandView<'_>, scratch: &mut Scratch) -> bool {
        let mut header = Header::new(path, lane, (view.rows, view.valid_rows), (view.cols, view.valid_cols));
        let ops = ops(path);
        let blocking = header.blocking;
        let rows = padded_rows(view.valid_rows, path, lane);
        let row_bytes = blocking.groups * 4;
        let blocks = blocking.count(view.valid_cols);
        let plane = blocks * rows * row_bytes;
        header.shift = match lane {
            Lane::U8 if view.format.is_signed() => 128,
            Lane::I8 if !view.format.is_signed() => -128,
            _ => 0,
        };
        let base = self.buffer.reserve(plane * lane.planes());
        for kb in 0..blocks {
            let k0 = kb * blocking.elements();
            let count = blocking.elements().min(view.valid_cols - k0);
            // SAFETY: block kb holds `rows` rows of `row_bytes` in each plane, and the part is valid in the view.
            unsafe {
                let block = Rows {
                    dst: base.add(kb * rows * row_bytes),
                    plane_stride: plane,
                    row_bytes,
                };
                let part = Part {
                    row: 0,
                    col: k0,
                    rows: view.valid_rows,
                    cols: count,
                };
                let filled = count.div_ceil(blocking.group).next_multiple_of(blocking.granule);
                let found = if lane.is_tile_lane(path) {
                    tiles_of(ops, lane, view, part, block, filled, scratch)
                } else {
                    let found = rows_of(ops, lane, view, part, block, scratch);
                    zero_tails(block, lane, view.valid_rows, count, filled * 4);
                    if header.shift != 0 {
                        // Adding or subtracting 128 is turning the highest bit over.
                        for row in 0..view.valid_rows {
                            let row = std::slice::from_raw_parts_mut(block.dst.add(row * row_bytes), filled * 4);
                            row.iter_mut().for_each(|byte| *byte ^= 0x80);
                        }
                    }
                    found
                };
                header.terms = header.terms.merge(found);
            }
        }
        self.header = header;
        is_exact(lane, view, &header.terms)
    }

    pub(crate) fn layout(&self) -> LeftLayout {
        let header = &self.header;
        let rows = padded_rows(header.valid_across, header.path, header.lane);
        let row_bytes = header.blocking.groups * 4;
        let blocks = header.blocking.count(header.valid_k);
        LeftLayout {
            base: self.buffer.as_ptr(),
            row_stride: row_bytes as isize,
            block_stride: (rows * row_bytes) as isize,
            plane_stride: (blocks * rows * row_bytes) as isize,
        }
    }

    /// Rows, valid or not.
    pub fn rows(&self) -> usize {
        self.header.across
    }

    /// Bytes of memory held.
    pub fn byte_size(&self) -> usize {
        self.buffer.capacity()
    }

    /// What the elements were packed as.
    pub fn lane(&self) -> Lane {
        self.header.lane
    }

    /// The same operand packed as `f32` (exact: every lane's value is an `f32`).
    pub(crate) fn widened(&self, scratch: &mut Scratch) -> PackedLeft {
        let (header, layout) = (&self.header, self.layout());
        let (rows, k) = (header.valid_across, header.valid_k);
        let mut values = vec![0.0f32; rows * k];
        for (i, value) in values.iter_mut().enumerate() {
            let (row, k) = (i / k, i % k);
            let (kb, at) = (k / header.blocking.elements(), k % header.blocking.elements());
            let group = header.blocking.group;
            // SAFETY: element `at` of row `row` of block `kb` was packed.
            *value = unsafe {
                let block = layout.base.offset(kb as isize * layout.block_stride);
                let (start, at) = if header.lane.is_tile_lane(header.path) {
                    let (g, tile) = (at / group, row / 16 * 16);
                    let bytes = g / 16 * 1024 + row % 16 * 64 + g % 16 * 4;
                    let start = block.offset(tile as isize * layout.row_stride);
                    (start.add(bytes), at % group)
                } else {
                    (block.offset(row as isize * layout.row_stride), at)
                };
                element(header.lane, start, layout.plane_stride, at)
            };
        }
        let mut view = OperandView::from_f32(&values, rows, k).expect("as many values as elements");
        (view.rows, view.cols) = (header.across, header.k);
        let mut packed = PackedLeft::default();
        packed.pack(&Product::widened(header.path), &view, scratch);
        packed
    }
}

impl PackedRight {
    /// Packs a K × N operand for a product. As for [`PackedLeft::pack`], the lane may come out wider than
    /// `product.right`.
    pub fn pack(&mut self, product: &Product, view: &OperandView<'_>, scratch: &mut Scratch) {
        if !self.fill(product.path, product.right, view, scratch) {
            self.fill(product.path, Lane::F32, view, scratch);
        }
    }

    fn fill(&mut self, path: TilePath, lane: Lane, view: &OperandView<'_>, scratch: &mut Scratch) -> bool {
        let mut header = Header::new(path, lane, (view.cols, view.valid_cols), (view.rows, view.valid_rows));
        let ops = ops(path);
        let blocking = header.blocking;
        let width = panel_width(path, lane);
        let panels = view.valid_cols.div_ceil(width);
        let panel_bytes = blocking.groups * width * 4;
        let blocks = blocking.count(view.valid_rows);
        let plane = blocks * panels * panel_bytes;
        let base = self.buffer.reserve(plane * lane.planes());
        let by_columns = !has_dense_rows(view) && view.row_stride == 1;
        for kb in 0..blocks {
            let k0 = kb * blocking.elements();
            let count = blocking.elements().min(view.valid_rows - k0);
            let filled = count.div_ceil(blocking.group).next_multiple_of(blocking.granule);
            // Panels taken together: what a row of the source gives them is read at once.
            let together = (256 / width).max(1);
            for first in (0..panels).step_by(together) {
                let part = Part {
                    row: k0,
                    col: first * width,
                    rows: count,
                    cols: (together * width).min(view.valid_cols - first * width),
                };
                // SAFETY: the panels from `first` on of block kb, each `panel_bytes` in each plane; the part is valid in the
                // view.
                unsafe {
                    let target = Panels {
                        dst: base.add((kb * panels + first) * panel_bytes),
                        plane_stride: plane,
                        panel_bytes,
                        width,
                        filled,
                    };
                    let found = if by_columns {
                        panels_of_columns(ops, lane, view, part, target, scratch)
                    } else {
                        panels_of_rows(ops, lane, view, part, target, scratch)
                    };
                    header.terms = header.terms.merge(found);
                }
            }
        }
        self.header = header;
        is_exact(lane, view, &header.terms)
    }

    pub(crate) fn layout(&self) -> RightLayout {
        let header = &self.header;
        let width = panel_width(header.path, header.lane);
        let panels = header.valid_across.div_ceil(width);
        let panel_bytes = header.blocking.groups * width * 4;
        let blocks = header.blocking.count(header.valid_k);
        RightLayout {
            base: self.buffer.as_ptr(),
            panel_stride: panel_bytes as isize,
            block_stride: (panels * panel_bytes) as isize,
            plane_stride: (blocks * panels * panel_bytes) as isize,
        }
    }

    /// Columns, valid or not.
    pub fn cols(&self) -> usize {
        self.header.across
    }

    /// Bytes of memory held.
    pub fn byte_size(&self) -> usize {
        self.buffer.capacity()
    }

    /// What the elements were packed as.
    pub fn lane(&self) -> Lane {
        self.header.lane
    }

    /// The same operand packed as `f32` (exact: every lane's value is an `f32`).
    pub(crate) fn widened(&self, scratch: &mut Scratch) -> PackedRight {
        let (header, layout) = (&self.header, self.layout());
        let (cols, k) = (header.valid_across, header.valid_k);
        let width = panel_width(header.path, header.lane);
        let group = header.blocking.group;
        let mut values = vec![0.0f32; cols * k];
        for (i, value) in values.iter_mut().enumerate() {
            let (k, col) = (i / cols, i % cols);
            let (kb, at) = (k / header.blocking.elements(), k % header.blocking.elements());
            // SAFETY: element `at` of column `col` of block `kb` was packed.
            *value = unsafe {
                let panel = layout
                    .base
                    .offset(kb as isize * layout.block_stride + (col / width) as isize * layout.panel_stride);
                let in_panel = (at / group * width + col % width) * group + at % group;
                element(header.lane, panel, layout.plane_stride, in_panel)
            };
        }
        let mut view = OperandView::from_f32(&values, k, cols).expect("as many values as elements");
        (view.rows, view.cols) = (header.k, header.across);
        let mut packed = PackedRight::default();
        packed.pack(&Product::widened(header.path), &view, scratch);
        packed
    }
}

/// Bf16 lanes must hold quantised operands exactly; `bfloat` always fits, `half` and `float` chose their lane.
fn is_exact(lane: Lane, view: &OperandView<'_>, terms: &Terms) -> bool {
    let free = matches!(
        view.format,
        ElementFormat::F32 | ElementFormat::F16 | ElementFormat::BF16
    ) && view.scales.is_none();
    lane != Lane::Bf16 || free || terms.rest == 0
}

/// One packed element as `f32`.
unsafe fn element(lane: Lane, base: *const u8, plane_stride: isize, at: usize) -> f32 {
    // SAFETY: the caller vouches for element `at` of each plane.
    unsafe {
        let bf16 = |base: *const u8| f32::from_bits(u32::from(*base.cast::<u16>().add(at)) << 16);
        match lane {
            Lane::F32 => *base.cast::<f32>().add(at),
            Lane::Bf16 => bf16(base),
            Lane::Bf16Pair => bf16(base) + bf16(base.offset(plane_stride)),
            Lane::I16 => f32::from(*base.cast::<i16>().add(at)),
            Lane::I8 => f32::from(*base.cast::<i8>().add(at)),
            Lane::U8 => f32::from(*base.add(at)),
        }
    }
}

/// Rows to write, in one or two planes.
#[derive(Clone, Copy)]
struct Rows {
    dst: *mut u8,
    plane_stride: usize,
    row_bytes: usize,
}

/// Panels to write.
#[derive(Clone, Copy)]
pub(crate) struct Panels {
    pub dst: *mut u8,
    pub plane_stride: usize,
    pub panel_bytes: usize,
    pub width: usize,
    /// Groups to fill, with zeros past the part.
    pub filled: usize,
}

/// Zeros from the end of the elements to `end` bytes in each row.
unsafe fn zero_tails(rows: Rows, lane: Lane, count: usize, elements: usize, end: usize) {
    let used = elements * lane.bytes();
    if used >= end {
        return;
    }
    for p in 0..lane.planes() {
        for r in 0..count {
            // SAFETY: `end` is at most a row's length.
            unsafe {
                rows.dst
                    .add(p * rows.plane_stride + r * rows.row_bytes + used)
                    .write_bytes(0, end - used);
            }
        }
    }
}

/// Writes a part of an operand as rows of a lane's elements.
///
/// # Safety
/// The part must be valid in the view, the rows writable, the machine must have the table's path.
unsafe fn rows_of(
    ops: &Ops,
    lane: Lane,
    view: &OperandView<'_>,
    part: Part,
    rows: Rows,
    scratch: &mut Scratch,
) -> Terms {
    // SAFETY: by the caller's contract; each row is written for part.cols elements.
    unsafe {
        match lane {
            Lane::F32 => {
                stage_f32(ops, view, part, rows.dst.cast(), rows.row_bytes / 4, &mut scratch.flip);
                Terms::NONE
            }
            Lane::I8 | Lane::U8 => {
                stage_bytes(view, part, rows.dst, rows.row_bytes);
                Terms::NONE
            }
            Lane::I16 => {
                let widen = if view.format.is_signed() {
                    ops.i8_to_i16
                } else {
                    ops.u8_to_i16
                };
                let bytes = scratch.row.reserve(part.cols);
                for r in 0..part.rows {
                    let row = Part {
                        row: part.row + r,
                        rows: 1,
                        ..part
                    };
                    stage_bytes(view, row, bytes, part.cols);
                    widen(bytes, part.cols, rows.dst.add(r * rows.row_bytes));
                }
                Terms::NONE
            }
            Lane::Bf16 if view.format == ElementFormat::BF16 && view.scales.is_none() && has_dense_rows(view) => {
                (0..part.rows).fold(Terms::NONE, |found, r| {
                    let src = view.address(part.row + r, part.col);
                    let dst = rows.dst.add(r * rows.row_bytes);
                    found.merge((ops.copy_bf16)(src, part.cols, dst))
                })
            }
            Lane::Bf16 if view.format == ElementFormat::F32 && view.scales.is_none() && has_dense_rows(view) => {
                (0..part.rows).fold(Terms::NONE, |found, r| {
                    let src = view.address(part.row + r, part.col).cast();
                    let dst = rows.dst.add(r * rows.row_bytes);
                    found.merge((ops.round_bf16)(src, part.cols, dst))
                })
            }
            Lane::Bf16 | Lane::Bf16Pair => {
                if let Some(found) = fp8_rows_of(ops, lane, view, part, rows) {
                    return found;
                }
                // Rows are staged together when columns are dense, since that transposes.
                let step = if has_dense_rows(view) { 1 } else { 16 };
                let staged: *mut f32 = scratch.row.reserve(step * part.cols * 4).cast();
                let round = lane == Lane::Bf16 && view.format == ElementFormat::F32;
                let mut found = Terms::NONE;
                for first in (0..part.rows).step_by(step) {
                    let some = Part {
                        row: part.row + first,
                        rows: step.min(part.rows - first),
                        ..part
                    };
                    stage_f32(ops, view, some, staged, part.cols, &mut scratch.flip);
                    for r in 0..some.rows {
                        let values = staged.add(r * part.cols);
                        let high = rows.dst.add((first + r) * rows.row_bytes);
                        let low = if lane == Lane::Bf16Pair {
                            high.add(rows.plane_stride)
                        } else {
                            std::ptr::null_mut()
                        };
                        found = found.merge((ops.terms)(values, part.cols, high, low));
                        if round {
                            (ops.to_bf16)(values, part.cols, high);
                        }
                    }
                }
                found
            }
        }
    }
}

/// [`rows_of`] for FP8 elements with Metal's block scales or none, where the path has it; `None` where it has not, or where a
/// scale is out of the ordinary.
///
/// # Safety
/// As for [`rows_of`].
unsafe fn fp8_rows_of(ops: &Ops, lane: Lane, view: &OperandView<'_>, part: Part, rows: Rows) -> Option<Terms> {
    let convert = ops.fp8_to_bf16?;
    let fp8 = matches!(view.format, ElementFormat::Fp8E4M3 | ElementFormat::Fp8E5M2);
    let scales_fit = view
        .scales
        .as_ref()
        .is_none_or(|scales| (scales.row_block, scales.col_block) == (1, 32));
    if lane != Lane::Bf16 || !fp8 || !scales_fit || !has_dense_rows(view) || !has_few_rows() {
        return None;
    }
    let mut found = Terms::NONE;
    for r in 0..part.rows {
        let (scales, scale_stride, phase) = match &view.scales {
            None => (std::ptr::null(), 0, 0),
            Some(scales) => {
                let row = (part.row + r + scales.row_phase) as i64 * scales.row_stride;
                (
                    scales.data.wrapping_offset(row as isize),
                    scales.col_stride as isize,
                    scales.col_phase,
                )
            }
        };
        let row = Fp8Row {
            src: view.address(part.row + r, part.col),
            count: part.cols,
            scales,
            scale_stride,
            phase: phase + part.col,
        };
        // SAFETY: the row is in the part, its scales are those of valid elements, and the path was asked for the instructions.
        found = found.merge(unsafe { convert(table(view.format), row, rows.dst.add(r * rows.row_bytes))? });
    }
    Some(found)
}

/// Writes a part of an operand as tiles of 16 rows × 16 groups, zero past the part.
///
/// # Safety
/// As for [`rows_of`]; the tiles of `filled` groups must be writable for all rows, rounded up to 16.
unsafe fn tiles_of(
    ops: &Ops,
    lane: Lane,
    view: &OperandView<'_>,
    part: Part,
    tiles: Rows,
    filled: usize,
    scratch: &mut Scratch,
) -> Terms {
    let mut found = Terms::NONE;
    let row_bytes = filled * 4;
    // Rows that are copied, or rounded on their way, need no stage.
    let plain = view.scales.is_none() && has_dense_rows(view);
    let direct = ops.tiles.filter(|_| plain).and_then(|rows| match (lane, view.format) {
        (Lane::Bf16, ElementFormat::F32) => has_bf16_dots().then_some(rows.f32),
        (Lane::Bf16, ElementFormat::BF16) => Some(rows.bf16),
        (Lane::I8 | Lane::U8, format) => (format.bits() == 8).then_some(rows.bytes),
        _ => None,
    });
    let mut stage = std::mem::take(&mut scratch.stage);
    // SAFETY: by the caller's contract; 16 staged rows of whole 64-byte pieces fill the tiles of a strip.
    unsafe {
        let rows = Rows {
            dst: stage.reserve(16 * row_bytes * lane.planes()),
            plane_stride: 16 * row_bytes,
            row_bytes,
        };
        for first in (0..part.rows).step_by(16) {
            let some = Part {
                row: part.row + first,
                rows: (part.rows - first).min(16),
                ..part
            };
            if let Some(to_tiles) = direct {
                let src = view.address(some.row, some.col);
                let strip = tiles.dst.add(first * tiles.row_bytes);
                let stride = view.row_stride as isize * (view.format.bits() / 8) as isize;
                if let Some(terms) = to_tiles(src, stride, some.rows, some.cols, filled / 16, strip) {
                    found = found.merge(terms);
                    continue;
                }
            }
            found = found.merge(rows_of(ops, lane, view, some, rows, scratch));
            zero_tails(rows, lane, some.rows, some.cols, row_bytes);
            for p in 0..lane.planes() {
                let strip = tiles.dst.add(p * tiles.plane_stride + first * tiles.row_bytes);
                for r in 0..16 {
                    for t in 0..filled / 16 {
                        let dst = strip.add(t * 1024 + r * 64);
                        if r < some.rows {
                            let src = rows.dst.add(p * rows.plane_stride + r * row_bytes + t * 64);
                            dst.cast::<[u8; 64]>()
                                .write_unaligned(src.cast::<[u8; 64]>().read_unaligned());
                        } else {
                            dst.write_bytes(0, 64);
                        }
                    }
                }
            }
        }
    }
    scratch.stage = stage;
    found
}

// Both packed operands are plain memory without interior mutability.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<PackedLeft>();
    shareable::<PackedRight>();
    let _ = Accumulation::F32;
};
