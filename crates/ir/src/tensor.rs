//! Tensor views as bundles of values, cooperative tensors and their layouts, and the matmul descriptor.

use anymetal_formats::ElementFormat;

use crate::types::{AddressSpace, ArgumentId, CoopId, Scalar, ValueId};

/// A view of a tensor: a base, an origin in it, and extents. Rank is `origin.len()`; dimension 0 is the innermost.
///
/// Element `i` of the view is element `origin + i` of the base, at bit
/// `(Σ (origin[d] + i[d]) · strides[d]) · format.bits()` from `pointer` (strides are in elements).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorRef {
    /// Address of element (0, …, 0) of the base.
    pub pointer: ValueId,
    /// Address space of the elements.
    pub space: AddressSpace,
    /// Element format.
    pub format: ElementFormat,
    /// Extents of the base, `i64` values.
    pub base_extents: Vec<ValueId>,
    /// Strides of the base in elements, `i64` values.
    pub strides: Vec<ValueId>,
    /// Origin of the view in the base, `i64` values.
    pub origin: Vec<ValueId>,
    /// Extents of the view.
    pub extents: Vec<Extent>,
    /// The scale plane, if the tensor is multi-plane.
    pub scales: Option<ScalePlane>,
    /// The argument that the memory belongs to, where the front end knows it; used in messages only.
    pub root: Option<ArgumentId>,
}

/// One extent of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What is left of the base from the origin on: `base_extents[d] − origin[d]`. Past it reads give zero and writes are dropped.
    Rest,
    /// An extent known at run time only (`i64`); also bounded by what is left of the base. Past it reads give zero and writes are dropped.
    Dynamic(ValueId),
    /// A static extent. The kernel promises that the base reaches that far; a tile operation that finds it does not is a fault.
    Static(u64),
}

/// The scale plane of a multi-plane tensor: one scale for each block of elements.
///
/// The scale of element `e` of the *base* is element `e[d] / block[d]` of the plane, at byte `Σ (e[d] / block[d]) · strides[d]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePlane {
    /// Address of the first scale.
    pub pointer: ValueId,
    /// Address space of the scales.
    pub space: AddressSpace,
    /// Always `Fp8UE8M0` today.
    pub format: ElementFormat,
    /// Elements of the data plane that share a scale, in each dimension.
    pub block: Vec<u32>,
    /// Strides of the plane in scales, `i64` values.
    pub strides: Vec<ValueId>,
}

/// Which part of a bound tensor [`crate::Op::TensorQuery`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorField {
    /// Address of the first element of the data plane (`ptr<device>`, or `ptr<constant>` for a constant tensor).
    Pointer,
    /// Extent of a dimension, `i64`.
    Extent(u32),
    /// Stride of a dimension in elements, `i64`.
    Stride(u32),
    /// Address of the first scale.
    ScalePointer,
    /// Stride of a dimension of the scale plane in scales, `i64`.
    ScaleStride(u32),
}

/// What a kernel expects of a tensor behind a handle; checked by the backend before the first query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Element format.
    pub format: ElementFormat,
    /// `device` or `constant`.
    pub space: AddressSpace,
    /// Extents: the number for a static one, `None` for a dynamic one. The length is the rank.
    pub extents: Vec<Option<u64>>,
    /// The scalar type of indices (`extents<int, …>` gives `i32`).
    pub index: Scalar,
    /// Block factors of the scale plane, if the type has one.
    pub scale_block: Option<Vec<u32>>,
}

/// `mpp::tensor_ops::matmul2d_descriptor`. Shapes: left (K, M), right (N, K), destination (N, M), dimension 0 first;
/// a transposed operand swaps its two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatmulDescriptor {
    /// Rows of the destination tile.
    pub m: u32,
    /// Columns of the destination tile.
    pub n: u32,
    /// Contraction length, or `None` for a dynamic one (read from the operands).
    pub k: Option<u32>,
    /// The left operand is stored transposed.
    pub transpose_left: bool,
    /// The right operand is stored transposed.
    pub transpose_right: bool,
    /// Float operands may be rounded before multiplying.
    pub relaxed_precision: bool,
    /// `multiply_accumulate` (true) adds to the destination, `multiply` (false) overwrites it.
    pub accumulate: bool,
}

/// `mpp::tensor_ops::convolution2d_descriptor` (reference 7.1): nhwc activation, hwio weights, one group. Pairs are (x, y).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionDescriptor {
    /// Output channels, width, height and batch of the tile that an operation computes.
    pub destination: [u32; 4],
    /// Channels, width, height and batch of the activation: what lies outside is zero.
    pub source: [u32; 4],
    /// Width and height of the kernel.
    pub kernel: [u32; 2],
    /// Steps in the activation between destination elements.
    pub strides: [u32; 2],
    /// Steps in the activation between kernel elements.
    pub dilations: [u32; 2],
    /// Float operands may be rounded before multiplying.
    pub relaxed_precision: bool,
    /// `multiply_accumulate` (true) adds to the destination, `multiply` (false) overwrites it.
    pub accumulate: bool,
}

impl ConvolutionDescriptor {
    /// Places of the destination tile: width · height · batch, saturating.
    pub fn places(&self) -> u64 {
        self.destination[1..]
            .iter()
            .fold(1, |product, &size| product.saturating_mul(size.into()))
    }

    /// Products in each sum: channels · kernel width · kernel height, saturating.
    pub fn depth(&self) -> u64 {
        [self.source[0], self.kernel[0], self.kernel[1]]
            .iter()
            .fold(1, |product, &size| product.saturating_mul(size.into()))
    }

    /// What the destination tile is as a matrix: a row for each place (x fastest, then y, then batch), a column for each channel.
    /// `None` if it has more than 2³² − 1 rows.
    pub fn as_product(&self) -> Option<MatmulDescriptor> {
        Some(MatmulDescriptor {
            m: u32::try_from(self.places()).ok()?,
            n: self.destination[0],
            k: None,
            transpose_left: false,
            transpose_right: false,
            relaxed_precision: self.relaxed_precision,
            accumulate: self.accumulate,
        })
    }
}

/// An operand of a tile operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A tensor in memory.
    Tensor(Box<TensorRef>),
    /// A cooperative tensor.
    Coop(CoopId),
}

/// What a cooperative tensor was obtained as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CoopRole {
    Left,
    Right,
    Destination,
    RowReduction,
    ColumnReduction,
}

/// The lane layouts of reference 5.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// 16×16 fragments, 8 slots a lane (tensor-unit types, or relaxed precision).
    R,
    /// 8×8 blocks, 2 slots a lane (strict float).
    S,
    /// A legal layout that no device is known to have, for tests: layout R with lanes and slots exchanged by a fixed
    /// bijection, and some slots of each lane invalid. What a kernel computes with the layout's queries stays the same;
    /// what it computes from assumed positions does not.
    Permuted,
}

/// A cooperative tensor of a kernel. The tile is `rows` × `columns`, stored orientation; a reduction tensor has one of
/// them equal to 1 (`columns` for a row reduction).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cooperative {
    /// The variable's name in the source, for messages.
    pub name: String,
    /// Role in its operation.
    pub role: CoopRole,
    /// Element type: for format types what [`tile_scalar`] says.
    pub element: Scalar,
    /// Rows (dimension 1) of the tile.
    pub rows: u32,
    /// Columns (dimension 0) of the tile.
    pub columns: u32,
    /// SIMD-groups of the operation's scope; 1 is `execution_simdgroup`.
    pub simdgroups: u32,
    /// Lane layout as the kernel may see it.
    pub layout: LayoutKind,
    /// The descriptor of the operation that it belongs to.
    pub descriptor: MatmulDescriptor,
    /// Of a convolution's destination: width, height and batch, whose product is `rows` (x fastest). Its rank is 4.
    pub spatial: Option<[u32; 3]>,
}

/// The layout of a cooperative tile over lanes and slots: which (row, column) a lane's slot holds.
///
/// Both layouts of the reference are bit-linear in the lane and regular in the slot; tiles are 8- or 16-aligned blocks in
/// the order the reference gives. Tiles whose sides are not multiples of the fragment are padded up, and the padding
/// slots are invalid. Tiles of several SIMD-groups are split into bands of rows when the rows suffice, else of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// R, S, or the permuted one.
    pub kind: LayoutKind,
    /// Rows of the tile (of all SIMD-groups together).
    pub rows: u32,
    /// Columns of the tile.
    pub columns: u32,
    /// SIMD-groups that share it.
    pub simdgroups: u32,
    /// Role: reduction tensors have layouts of their own.
    pub role: CoopRole,
}

impl Cooperative {
    /// The layout of this tensor.
    pub fn layout(&self) -> Layout {
        Layout {
            kind: self.layout,
            rows: self.rows,
            columns: self.columns,
            simdgroups: self.simdgroups,
            role: self.role,
        }
    }

    /// Slots of each lane (`get_capacity()`).
    pub fn capacity(&self) -> u32 {
        self.layout().capacity()
    }
}

impl Layout {
    /// Rows and columns that one SIMD-group holds (a multiple of 8 in the direction that is split), and true if the SIMD-groups'
    /// bands follow one another by rows, false if by columns.
    pub fn band(&self) -> (u32, u32, bool) {
        let n = self.simdgroups.max(1);
        let by_rows = self.rows >= 8 * n || self.columns < 8 * n;
        if by_rows {
            (self.rows.div_ceil(n).next_multiple_of(8), self.columns, true)
        } else {
            (self.rows, self.columns.div_ceil(n).next_multiple_of(8), false)
        }
    }

    /// The layout whose lanes and slots [`LayoutKind::Permuted`] exchanges.
    fn unpermuted(&self) -> Layout {
        Layout {
            kind: LayoutKind::R,
            ..*self
        }
    }

    /// Where the permuted layout has its element: the lane and slot of layout R. Invalid slots give slots past its capacity.
    fn permutation(&self, lane: u32, slot: u32) -> (u32, u32) {
        // The reversed bits take the lanes of a row, which differ in bits 0 and 3, to lanes that differ in bits 4 and 1.
        let lane = (lane.reverse_bits() >> 27) ^ 0b10110;
        let total = self.capacity();
        let step = [5, 7, 11, 13].into_iter().find(|step| !total.is_multiple_of(*step));
        (lane, (slot * step.unwrap_or(1) + 3) % total.max(1))
    }

    /// Slots of each lane.
    pub fn capacity(&self) -> u32 {
        let (rows, columns, _) = self.band();
        match self.role {
            _ if self.kind == LayoutKind::Permuted => self.unpermuted().capacity() + 4,
            CoopRole::RowReduction => rows.div_ceil(8),
            CoopRole::ColumnReduction => match self.kind {
                LayoutKind::R | LayoutKind::Permuted => columns.div_ceil(16) * 4,
                LayoutKind::S => columns.div_ceil(8) * 2,
            },
            _ => match self.kind {
                LayoutKind::R | LayoutKind::Permuted => rows.div_ceil(8) * columns.div_ceil(16) * 4,
                LayoutKind::S => rows.div_ceil(8) * columns.div_ceil(8) * 2,
            },
        }
    }

    /// The (row, column) of a slot of a lane (0…31) of a SIMD-group (0…simdgroups−1), or `None` if the slot is invalid.
    /// For a reduction tensor the coordinate that it does not have is 0.
    pub fn position(&self, simdgroup: u32, lane: u32, slot: u32) -> Option<(u32, u32)> {
        if slot >= self.capacity() || lane >= 32 || simdgroup >= self.simdgroups.max(1) {
            return None;
        }
        if self.kind == LayoutKind::Permuted {
            let (lane, slot) = self.permutation(lane, slot);
            return self.unpermuted().position(simdgroup, lane, slot);
        }
        let bit = |i: u32| (lane >> i) & 1;
        let (band_rows, band_columns, by_rows) = self.band();
        let row_blocks = band_rows.div_ceil(8);
        let (row, column) = match (self.kind, self.role) {
            (LayoutKind::R | LayoutKind::Permuted, CoopRole::RowReduction) => {
                (4 * bit(4) + 2 * bit(2) + bit(1) + 8 * slot, 0)
            }
            (LayoutKind::R | LayoutKind::Permuted, CoopRole::ColumnReduction) => {
                (0, 4 * (2 * bit(3) + bit(0)) + (slot & 3) + 16 * (slot >> 2))
            }
            (LayoutKind::R | LayoutKind::Permuted, _) => {
                let (rb, cb) = ((slot >> 2) % row_blocks, (slot >> 2) / row_blocks);
                (
                    4 * bit(4) + 2 * bit(2) + bit(1) + 8 * rb,
                    4 * (2 * bit(3) + bit(0)) + (slot & 3) + 16 * cb,
                )
            }
            (LayoutKind::S, CoopRole::RowReduction) => (bit(1) + 2 * bit(2) + 4 * bit(4) + 8 * slot, 0),
            (LayoutKind::S, CoopRole::ColumnReduction) => (0, 2 * bit(0) + 4 * bit(3) + (slot & 1) + 8 * (slot >> 1)),
            (LayoutKind::S, _) => {
                let column_blocks = band_columns.div_ceil(8);
                let (cb, rb) = ((slot >> 1) % column_blocks, (slot >> 1) / column_blocks);
                (
                    bit(1) + 2 * bit(2) + 4 * bit(4) + 8 * rb,
                    2 * bit(0) + 4 * bit(3) + (slot & 1) + 8 * cb,
                )
            }
        };
        if row >= band_rows.max(1) || column >= band_columns.max(1) {
            return None;
        }
        let (row, column) = match self.role {
            CoopRole::RowReduction if by_rows => (row + simdgroup * band_rows, 0),
            CoopRole::ColumnReduction if !by_rows => (0, column + simdgroup * band_columns),
            CoopRole::RowReduction | CoopRole::ColumnReduction => (row, column),
            _ if by_rows => (row + simdgroup * band_rows, column),
            _ => (row, column + simdgroup * band_columns),
        };
        (row < self.rows && column < self.columns).then_some((row, column))
    }
}

/// The scalar that a cooperative tensor holds elements of a format as: its own type, or for format types the narrowest one
/// that has all their values. Loads and stores convert, both ways without rounding.
pub const fn tile_scalar(format: ElementFormat) -> Scalar {
    match format {
        ElementFormat::Int4B | ElementFormat::Int2B => Scalar::I8,
        ElementFormat::UInt4B | ElementFormat::UInt2B => Scalar::U8,
        ElementFormat::Fp4E2M1 | ElementFormat::Fp8E4M3 | ElementFormat::Fp8E5M2 => Scalar::F16,
        format => element_scalar(format),
    }
}

/// The scalar that an element is read and written as: its own type, or the code in a `u8` for a format type.
pub const fn element_scalar(format: ElementFormat) -> Scalar {
    match format {
        ElementFormat::Bool => Scalar::Bool,
        ElementFormat::I8 => Scalar::I8,
        ElementFormat::U8 => Scalar::U8,
        ElementFormat::I16 => Scalar::I16,
        ElementFormat::U16 => Scalar::U16,
        ElementFormat::I32 => Scalar::I32,
        ElementFormat::U32 => Scalar::U32,
        ElementFormat::I64 => Scalar::I64,
        ElementFormat::U64 => Scalar::U64,
        ElementFormat::F16 => Scalar::F16,
        ElementFormat::BF16 => Scalar::BF16,
        ElementFormat::F32 => Scalar::F32,
        _ => Scalar::U8,
    }
}
