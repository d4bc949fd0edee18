//! Operands as they lie in memory: element format, strides, the valid part, and block scales.

use std::marker::PhantomData;

use anymetal_formats::ElementFormat;

/// Block scales of an operand: UE8M0 codes, one for each `row_block` × `col_block` elements of the operand's matrix.
///
/// The scale of element (r, c) is the byte at
/// `((r + row_phase) / row_block) · row_stride + ((c + col_phase) / col_block) · col_stride` past `data`. The blocks of
/// Metal's scale planes are 32 elements along K and 1 along the other axis.
#[derive(Clone, Copy, Debug)]
pub struct ScaleView<'a> {
    pub(crate) data: *const u8,
    pub(crate) row_block: usize,
    pub(crate) col_block: usize,
    pub(crate) row_stride: i64,
    pub(crate) col_stride: i64,
    pub(crate) row_phase: usize,
    pub(crate) col_phase: usize,
    pub(crate) lifetime: PhantomData<&'a u8>,
}

impl<'a> ScaleView<'a> {
    /// Scales with blocks of `row_block` × `col_block` elements (both at least 1); strides in bytes.
    ///
    /// # Safety
    /// The byte of every valid element of the operand that the scales go with must be readable for `'a`, with the phases
    /// that [`phase`](Self::phase) sets later counted in.
    pub unsafe fn new(
        data: *const u8,
        (row_block, col_block): (usize, usize),
        (row_stride, col_stride): (i64, i64),
    ) -> Self {
        ScaleView {
            data,
            row_block: row_block.max(1),
            col_block: col_block.max(1),
            row_stride,
            col_stride,
            row_phase: 0,
            col_phase: 0,
            lifetime: PhantomData,
        }
    }

    /// Where in its block the operand's first row and column lie, for an operand cut out of a larger one at an origin
    /// that is not a multiple of the block.
    pub fn phase(mut self, row: usize, col: usize) -> Self {
        self.row_phase = row;
        self.col_phase = col;
        self
    }

    pub(crate) fn transposed(self) -> Self {
        ScaleView {
            row_block: self.col_block,
            col_block: self.row_block,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            row_phase: self.col_phase,
            col_phase: self.row_phase,
            ..self
        }
    }

    /// The code for element (row, col).
    ///
    /// # Safety
    /// (row, col) must be a valid element of the operand.
    pub(crate) unsafe fn code(&self, row: usize, col: usize) -> u8 {
        let offset = ((row + self.row_phase) / self.row_block) as i64 * self.row_stride
            + ((col + self.col_phase) / self.col_block) as i64 * self.col_stride;
        // SAFETY: the constructor's caller vouched for every valid element's byte.
        unsafe { *self.data.offset(offset as isize) }
    }
}

/// A matrix in memory: element (r, c) stands at element index `origin + r · row_stride + c · col_stride` past `data`,
/// counted in elements of the format (packed without gaps where several share a byte). Elements outside the valid part
/// are zero and are never read.
///
/// The left operand of a product is M × K and the right one K × N; a transposed operand is one with its strides swapped.
#[derive(Clone, Copy, Debug)]
pub struct OperandView<'a> {
    pub(crate) data: *const u8,
    pub(crate) format: ElementFormat,
    pub(crate) origin: i64,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: i64,
    pub(crate) col_stride: i64,
    pub(crate) valid_rows: usize,
    pub(crate) valid_cols: usize,
    pub(crate) scales: Option<ScaleView<'a>>,
    lifetime: PhantomData<&'a u8>,
}

// SAFETY: a view only reads, and its constructor's contract (readable, hence not written, for 'a) is that of a shared
// slice, which is Send and Sync.
unsafe impl Send for OperandView<'_> {}
// SAFETY: as above.
unsafe impl Sync for OperandView<'_> {}

impl<'a> OperandView<'a> {
    /// A view of `rows` × `cols` elements, all valid, with origin 0. Strides may be zero or negative, `data` may be
    /// unaligned.
    ///
    /// # Safety
    /// Every valid element of the view as it is finally built (with [`origin`](Self::origin) and
    /// [`valid`](Self::valid)) must be readable, and written by nobody, for `'a`.
    pub unsafe fn new(
        data: *const u8,
        format: ElementFormat,
        (rows, cols): (usize, usize),
        (row_stride, col_stride): (i64, i64),
    ) -> Self {
        OperandView {
            data,
            format,
            origin: 0,
            rows,
            cols,
            row_stride,
            col_stride,
            valid_rows: rows,
            valid_cols: cols,
            scales: None,
            lifetime: PhantomData,
        }
    }

    /// A packed row-major matrix over a slice, or `None` when the slice is too short.
    pub fn from_f32(values: &'a [f32], rows: usize, cols: usize) -> Option<Self> {
        if rows.checked_mul(cols)? > values.len() {
            return None;
        }
        // SAFETY: rows · cols elements lie in the slice, which is borrowed for 'a.
        Some(unsafe {
            Self::new(
                values.as_ptr().cast(),
                ElementFormat::F32,
                (rows, cols),
                (cols as i64, 1),
            )
        })
    }

    /// A packed row-major matrix of `format` over bytes, or `None` when there are too few.
    pub fn from_bytes(bytes: &'a [u8], format: ElementFormat, rows: usize, cols: usize) -> Option<Self> {
        if format.bytes_for(rows.checked_mul(cols)?) > bytes.len() {
            return None;
        }
        // SAFETY: rows · cols packed elements lie in the slice, which is borrowed for 'a.
        Some(unsafe { Self::new(bytes.as_ptr(), format, (rows, cols), (cols as i64, 1)) })
    }

    /// Element (0, 0) stands at this element index instead of 0.
    pub fn origin(mut self, elements: i64) -> Self {
        self.origin = elements;
        self
    }

    /// Only the first `rows` × `cols` elements are in memory; the others are zero.
    pub fn valid(mut self, rows: usize, cols: usize) -> Self {
        self.valid_rows = rows.min(self.rows);
        self.valid_cols = cols.min(self.cols);
        self
    }

    /// Every element is multiplied by its block's scale.
    pub fn scales(mut self, scales: ScaleView<'a>) -> Self {
        self.scales = Some(scales);
        self
    }

    /// The same elements as a `cols` × `rows` matrix.
    pub fn transposed(mut self) -> Self {
        std::mem::swap(&mut self.rows, &mut self.cols);
        std::mem::swap(&mut self.row_stride, &mut self.col_stride);
        std::mem::swap(&mut self.valid_rows, &mut self.valid_cols);
        self.scales = self.scales.map(ScaleView::transposed);
        self
    }

    /// Rows, valid or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns, valid or not.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Rows and columns of the valid part.
    pub fn valid_extents(&self) -> (usize, usize) {
        (self.valid_rows, self.valid_cols)
    }

    /// The element format.
    pub fn format(&self) -> ElementFormat {
        self.format
    }

    /// Format and presence of scales: what the choice of a product depends on.
    pub fn kind(&self) -> OperandKind {
        OperandKind {
            format: self.format,
            scaled: self.scales.is_some(),
        }
    }

    pub(crate) fn index(&self, row: usize, col: usize) -> i64 {
        self.origin + row as i64 * self.row_stride + col as i64 * self.col_stride
    }

    /// The address of an element, for formats of whole bytes.
    pub(crate) fn address(&self, row: usize, col: usize) -> *const u8 {
        let bytes = (self.format.bits() / 8) as i64;
        self.data.wrapping_offset((self.index(row, col) * bytes) as isize)
    }
}

/// What the choice of a product depends on in one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OperandKind {
    /// The element format in memory.
    pub format: ElementFormat,
    /// True when block scales go with it.
    pub scaled: bool,
}

impl From<ElementFormat> for OperandKind {
    fn from(format: ElementFormat) -> Self {
        OperandKind { format, scaled: false }
    }
}
