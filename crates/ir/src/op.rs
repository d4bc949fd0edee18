//! The operations of the IR.

use crate::kernel::Block;
use crate::tensor::{ConvolutionDescriptor, MatmulDescriptor, Operand, TensorField, TensorRef, TensorSpec};
use crate::types::{AddressSpace, ArgumentId, CoopId, LocalId, MemoryId, Scalar, ValueId};

/// Whether an operation may trade accuracy for speed. Metal's default is fast; `-fno-fast-math` and `precise::` give precise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum MathMode {
    /// Stays within the "fast" ulp table of the Metal specification; may assume no NaN or infinity, may reassociate and contract.
    Fast,
    /// IEEE, within the precise ulp table.
    #[default]
    Precise,
}

/// A typed constant; `bits` holds the value in the low bits (sign bits above the width are zero).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Const {
    /// Its type.
    pub ty: Scalar,
    /// Its bits, zero-extended.
    pub bits: u64,
}

/// A position or size of the launch, as a `u32` value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Builtin {
    ThreadPositionInGrid(u8),
    ThreadPositionInThreadgroup(u8),
    ThreadIndexInThreadgroup,
    ThreadgroupPositionInGrid(u8),
    /// The size of this threadgroup (smaller at the edge of a non-uniform grid).
    ThreadsPerThreadgroup(u8),
    /// The size that the dispatch asked for.
    DispatchThreadsPerThreadgroup(u8),
    ThreadsPerGrid(u8),
    ThreadgroupsPerGrid(u8),
    ThreadIndexInSimdgroup,
    SimdgroupIndexInThreadgroup,
    SimdgroupsPerThreadgroup,
    DispatchSimdgroupsPerThreadgroup,
    /// Always 32.
    ThreadsPerSimdgroup,
    ThreadIndexInQuadgroup,
    QuadgroupIndexInThreadgroup,
    QuadgroupsPerThreadgroup,
}

/// One operand, result of the same type unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum UnaryOp {
    /// Wrapping for integers.
    Neg,
    /// Bitwise for integers, logical for `bool`.
    Not,
    Abs,
    // Floats only.
    Exp,
    Exp2,
    Exp10,
    Log,
    Log2,
    Log10,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Sinpi,
    Cospi,
    Tanpi,
    Ceil,
    Floor,
    Trunc,
    /// Half away from zero.
    Round,
    /// Half to even.
    Rint,
    Fract,
    /// −1, 0, +1; NaN gives 0.
    Sign,
    /// Clamp to [0, 1]; NaN gives 0.
    Saturate,
    /// Result `i32`.
    Ilogb,
    // Results `bool`.
    IsNan,
    IsInf,
    IsFinite,
    IsNormal,
    SignBit,
    // Integers only.
    Clz,
    Ctz,
    Popcount,
    ReverseBits,
}

/// Two operands of one type, result of the same type. Shift counts and `Ldexp` exponents have the type said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    /// Wrapping for integers.
    Add,
    Sub,
    Mul,
    /// Integer division truncates; by zero gives 0 (undefined in Metal), `MIN / −1` wraps.
    Div,
    /// Integer remainder with the sign of the dividend; by zero gives 0. Floats: see `Fmod`.
    Rem,
    /// Bitwise, or logical for `bool`.
    And,
    Or,
    Xor,
    /// Both of the same type; the count is taken modulo the width.
    Shl,
    /// Arithmetic for signed types.
    Shr,
    /// For floats, the other operand if one is NaN (`fmin`).
    Min,
    Max,
    // Floats only.
    Pow,
    Powr,
    Atan2,
    Fmod,
    Fdim,
    Copysign,
    Nextafter,
    /// The right operand is `i32`.
    Ldexp,
    // Integers only.
    MulHi,
    AddSat,
    SubSat,
    AbsDiff,
    Hadd,
    Rhadd,
    Rotate,
}

/// Three operands of one type, result of the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TernaryOp {
    /// `a · b + c` with one rounding.
    Fma,
    /// `min(max(a, b), c)`.
    Clamp,
    /// The median.
    Median3,
    /// Bitwise select per bit: `(a & !c) | (b & c)`; integers.
    BitSelect,
}

/// Comparisons; result `bool`. Floats are ordered except `Ne`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CompareOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Read-modify-write on `i32`, `u32`, `f32` (and `u64` min/max); the result is the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AtomicOp {
    /// No value operand.
    Load,
    /// No result.
    Store,
    Exchange,
    Add,
    Sub,
    And,
    Or,
    Xor,
    Min,
    Max,
    /// Two value operands (expected, desired); two results (old value, `bool` success).
    CompareExchangeWeak,
}

/// What memory a barrier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub struct MemFlags {
    pub device: bool,
    pub threadgroup: bool,
    pub texture: bool,
}

/// Which lanes meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Scope {
    Simdgroup,
    Threadgroup,
}

/// Reductions and scans over the active lanes of a SIMD-group (or quad-group); result of the operand's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum GroupOp {
    Sum,
    Product,
    Min,
    Max,
    And,
    Or,
    Xor,
    PrefixInclusiveSum,
    PrefixExclusiveSum,
    PrefixInclusiveProduct,
    PrefixExclusiveProduct,
}

/// Data movement between lanes of a SIMD-group (or quad-group). `index` is a `u16`/`u32`/`i32` value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ShuffleOp {
    /// From the lane `index`.
    Shuffle,
    ShuffleXor,
    /// From lane + index; lanes past the end keep their own value.
    ShuffleDown,
    /// From lane − index; lanes before the start keep their own value.
    ShuffleUp,
    /// Modulo the group size.
    RotateDown,
    RotateUp,
    /// From the lane `index`, the same in all lanes.
    Broadcast,
    /// From the lowest active lane; `index` is ignored.
    BroadcastFirst,
}

/// Questions to all active lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum VoteOp {
    /// `bool` operand and result.
    All,
    Any,
    /// `bool` operand, `u64` mask result (one bit a lane).
    Ballot,
    /// No operand value is read; `u64` mask of active lanes.
    ActiveMask,
    /// No operand value is read; `bool`.
    IsFirst,
}

/// The lanes that a [`GroupOp`] or [`ShuffleOp`] spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum GroupWidth {
    /// 32 lanes.
    Simd,
    /// 4 lanes.
    Quad,
}

/// What `operator[]`-like accesses do outside the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bounds {
    /// `T[x, y]`: outside is a fault that names the coordinates.
    Fault,
    /// `get`/`set`: an index in a dimension of extent 1 is taken as 0, reads outside give zero, writes outside are dropped.
    Clip,
}

/// `reduction_operation` of reference 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ReduceOp {
    Sum,
    Max,
    Min,
}

/// Which dimension a reduction removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceAxis {
    /// `reduce_rows`: one result a row.
    Rows,
    /// `reduce_columns`: one result a column.
    Columns,
}

/// Hints of a loop, kept from the source's pragmas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Unroll {
    /// Nothing was asked.
    #[default]
    Default,
    /// `unroll(full)` or `#pragma unroll`.
    Full,
    /// `unroll(n)`.
    Count(u32),
    /// `unroll(disable)` / `nounroll`.
    Never,
}

/// An operation. The comment says operands → results.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// → the constant.
    Const(Const),
    /// → a `u32`.
    Builtin(Builtin),
    /// → operand's type, or as the [`UnaryOp`] says.
    Unary {
        /// What.
        op: UnaryOp,
        /// On what.
        operand: ValueId,
        /// How accurate.
        mode: MathMode,
    },
    /// → the operands' type.
    #[allow(missing_docs)]
    Binary {
        op: BinaryOp,
        lhs: ValueId,
        rhs: ValueId,
        mode: MathMode,
    },
    /// → the operands' type.
    #[allow(missing_docs)]
    Ternary {
        op: TernaryOp,
        a: ValueId,
        b: ValueId,
        c: ValueId,
        mode: MathMode,
    },
    /// → `bool`. Pointers may be compared too.
    #[allow(missing_docs)]
    Compare { op: CompareOp, lhs: ValueId, rhs: ValueId },
    /// `bool`, T, T → T (scalar or pointer); both sides are evaluated.
    #[allow(missing_docs)]
    Select {
        condition: ValueId,
        then: ValueId,
        otherwise: ValueId,
    },
    /// Value conversion as C++ does it: floats round to nearest even, float → integer truncates and saturates (NaN gives
    /// 0; undefined in Metal), → `bool` is `!= 0`, integers wrap. `saturate` clamps integers too.
    #[allow(missing_docs)]
    Convert {
        operand: ValueId,
        to: Scalar,
        saturate: bool,
    },
    /// Same bits, another scalar type of the same size; or a pointer to `u64` and back.
    #[allow(missing_docs)]
    Bitcast { operand: ValueId, to: crate::types::Type },
    /// Format code (`u8` value holding the element's bits) → `f32`; exact.
    #[allow(missing_docs)]
    Decode {
        operand: ValueId,
        format: anymetal_formats::ElementFormat,
    },
    /// `f32` → `u8` value holding the element's bits; round to nearest even.
    #[allow(missing_docs)]
    Encode {
        operand: ValueId,
        format: anymetal_formats::ElementFormat,
        saturate: bool,
    },
    /// float → (significand in [0.5, 1), `i32` exponent).
    #[allow(missing_docs)]
    Frexp { operand: ValueId },
    /// float → (fractional part, integral part).
    #[allow(missing_docs)]
    Modf { operand: ValueId },

    /// → the current value of the local.
    LocalGet(LocalId),
    /// value →.
    #[allow(missing_docs)]
    LocalSet { local: LocalId, value: ValueId },

    /// → pointer to the start of a memory object of this kernel.
    MemoryPointer(MemoryId),
    /// → pointer bound to a buffer or threadgroup argument.
    ArgumentPointer(ArgumentId),
    /// → `u64` handle of a tensor argument.
    ArgumentTensor(ArgumentId),
    /// `u64` handle → the part. A null handle (0) gives null pointers and extents of 0.
    #[allow(missing_docs)]
    TensorQuery {
        handle: ValueId,
        spec: Box<TensorSpec>,
        field: TensorField,
    },
    /// → a null pointer.
    NullPointer(AddressSpace),
    /// pointer, `i64` byte offset → pointer of the same space.
    #[allow(missing_docs)]
    PointerOffset { pointer: ValueId, offset: ValueId },
    /// pointer, pointer (same space) → `i64` difference in bytes.
    #[allow(missing_docs)]
    PointerDiff { lhs: ValueId, rhs: ValueId },
    /// pointer → `count` consecutive scalars. `align` is what the source promises, in bytes. A `bool` is one byte, non-zero is true.
    #[allow(missing_docs)]
    Load {
        pointer: ValueId,
        ty: crate::types::Type,
        count: u32,
        align: u32,
    },
    /// pointer, values of one type →.
    #[allow(missing_docs)]
    Store {
        pointer: ValueId,
        values: Vec<ValueId>,
        align: u32,
    },
    /// pointer, value(s) → as [`AtomicOp`] says.
    #[allow(missing_docs)]
    Atomic {
        op: AtomicOp,
        pointer: ValueId,
        values: Vec<ValueId>,
        ty: Scalar,
    },

    /// Element of a view: `i64` indices → the element: its scalar, or the code in a `u8` for a format type.
    #[allow(missing_docs)]
    TensorLoad {
        tensor: Box<TensorRef>,
        indices: Vec<ValueId>,
        bounds: Bounds,
    },
    /// Writes an element of a view (sub-byte elements are merged into their byte; not atomic).
    #[allow(missing_docs)]
    TensorStore {
        tensor: Box<TensorRef>,
        indices: Vec<ValueId>,
        value: ValueId,
        bounds: Bounds,
    },
    /// `&T[…]` → pointer to the element. No check here; the access checks. Whole-byte formats only.
    #[allow(missing_docs)]
    TensorElementPointer {
        tensor: Box<TensorRef>,
        indices: Vec<ValueId>,
    },

    /// Lanes of the scope wait for each other.
    #[allow(missing_docs)]
    Barrier { scope: Scope, flags: MemFlags },
    /// Orders memory without waiting (`atomic_thread_fence`).
    Fence(MemFlags),
    /// value → its reduction over the group's active lanes.
    #[allow(missing_docs)]
    Group {
        op: GroupOp,
        width: GroupWidth,
        operand: ValueId,
    },
    /// value, index → the value of another lane.
    #[allow(missing_docs)]
    Shuffle {
        op: ShuffleOp,
        width: GroupWidth,
        operand: ValueId,
        index: ValueId,
    },
    /// as [`VoteOp`] says.
    #[allow(missing_docs)]
    Vote {
        op: VoteOp,
        width: GroupWidth,
        operand: Option<ValueId>,
    },

    /// Product of 8 × 8 matrices of a SIMD-group, `d = a·b (+ c)`. A matrix is two values a lane, in layout S on 8 × 8 (reference
    /// 5.6): lane bits b4…b0 hold row `b1 + 2·b2 + 4·b4`, columns `2·b0 + 4·b3` and the next. Operands are `f16`, `bf16` or `f32`, two of
    /// one type each; → two values of type `ty`. Sums in `f32`, rounds once. All 32 lanes must be here: else a fault.
    #[allow(missing_docs)]
    SimdgroupMatrixMultiply {
        a: [ValueId; 2],
        b: [ValueId; 2],
        c: Option<[ValueId; 2]>,
        ty: Scalar,
    },

    /// Constructs the tile: all elements zero. Executed where the source declares the variable.
    CoopInit(CoopId),
    /// Copies a tile of the same shape, element type and layout.
    #[allow(missing_docs)]
    CoopCopy { to: CoopId, from: CoopId },
    /// `i32` slot → element of this lane. An invalid slot gives zero.
    #[allow(missing_docs)]
    CoopGet { coop: CoopId, slot: ValueId },
    /// `i32` slot, value →. A write to an invalid slot is dropped.
    #[allow(missing_docs)]
    CoopSet {
        coop: CoopId,
        slot: ValueId,
        value: ValueId,
    },
    /// `i32` slot → `bool`.
    #[allow(missing_docs)]
    CoopValid { coop: CoopId, slot: ValueId },
    /// `i32` slot → (`i32` column, `i32` row), or one `i32` for a reduction tensor.
    #[allow(missing_docs)]
    CoopIndex { coop: CoopId, slot: ValueId },
    /// `map_iterator`: `i32` slot of `from` → `i32` slot of `to` (a reduction tensor) that holds the element's row or column.
    #[allow(missing_docs)]
    CoopMapSlot { to: CoopId, from: CoopId, slot: ValueId },
    /// Fills the tile from a tensor (broadcasting dimensions of extent 1; outside the tensor zero).
    #[allow(missing_docs)]
    CoopLoad { coop: CoopId, tensor: Box<TensorRef> },
    /// Writes the tile to a tensor, clipped to its extents.
    #[allow(missing_docs)]
    CoopStore { coop: CoopId, tensor: Box<TensorRef> },
    /// Converts a destination tile into an input tile of the same shape and element type.
    #[allow(missing_docs)]
    CoopConvert { to: CoopId, from: CoopId },
    /// → `bool`: may `from` be converted into an input with the layout of `to`? True on this project's backends unless the
    /// dispatch forces the answer to false.
    #[allow(missing_docs)]
    CoopCompatible { to: CoopId, from: CoopId },
    /// → `bool`: `is_iterator_compatible`.
    #[allow(missing_docs)]
    CoopIteratorCompatible { from: CoopId, to: CoopId },
    /// `identity` value → fills `to` (a reduction tensor) with identity ⊕ elements of each row (column).
    #[allow(missing_docs)]
    CoopReduce {
        to: CoopId,
        from: CoopId,
        axis: ReduceAxis,
        op: ReduceOp,
        identity: ValueId,
    },
    /// An element-wise loop over all valid elements of `over`, formed by a pass: `body` runs once for each element, as
    /// if a lane were an element. Values from outside that it uses are uniform over the scope's lanes. Stores go to places
    /// of the element's own.
    #[allow(missing_docs)]
    CoopMap { over: CoopId, body: Block },
    /// In a map: → the element of a tile of the same shape and layout, or of the reduction tensor for this row or column.
    CoopElement(CoopId),
    /// In a map: value →.
    #[allow(missing_docs)]
    CoopElementSet { coop: CoopId, value: ValueId },
    /// In a map: → (`i32` column, `i32` row), or one `i32` over a reduction tensor.
    CoopElementIndex,
    /// `matmul2d::run` by a scope of so many SIMD-groups, or by each lane for itself (`execution_thread`) where that is 0.
    #[allow(missing_docs)]
    Matmul {
        descriptor: MatmulDescriptor,
        simdgroups: u32,
        left: Operand,
        right: Operand,
        destination: Operand,
    },
    /// `convolution2d::run` (reference 7.4): `offset_x` and `offset_y` are `i32`, added to positions in the activation; activation
    /// (C, W, H, N) and weights (O, C, KW, KH) have rank 4, as has a destination (O, W, H, N) in memory.
    #[allow(missing_docs)]
    Convolution {
        descriptor: Box<ConvolutionDescriptor>,
        simdgroups: u32,
        offsets: [ValueId; 2],
        activation: Box<TensorRef>,
        weights: Box<TensorRef>,
        destination: Operand,
    },

    /// `bool` →.
    #[allow(missing_docs)]
    If {
        condition: ValueId,
        then: Block,
        otherwise: Block,
    },
    /// Repeats `body` then `latch`; `Continue` in the body jumps to the latch. Ends only by `Break` (which the latch may
    /// contain too) or `Return`.
    #[allow(missing_docs)]
    Loop { body: Block, latch: Block, unroll: Unroll },
    /// Runs `body` once; `Break` leaves it.
    #[allow(missing_docs)]
    Scope { body: Block },
    /// Leaves the enclosing `Loop` or `Scope`, counting both outward from 0.
    Break(u32),
    /// Continues the enclosing `Loop`, counting loops *and* scopes outward from 0.
    Continue(u32),
    /// Ends the lane.
    Return,
}
