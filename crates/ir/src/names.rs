//! The names of enumerated parts in the text form.

use crate::kernel::Access;
use crate::op::{
    AtomicOp, BinaryOp, Bounds, Builtin, CompareOp, GroupOp, GroupWidth, ReduceAxis, ReduceOp, Scope, ShuffleOp,
    TernaryOp, UnaryOp, VoteOp,
};
use crate::tensor::{CoopRole, LayoutKind};
use crate::types::{AddressSpace, Scalar};

macro_rules! names {
    ($($ty:ident { $($variant:ident $text:literal,)* })*) => {$(
        impl $ty {
            /// The name in the text form.
            pub const fn text(self) -> &'static str {
                match self {
                    $($ty::$variant => $text,)*
                }
            }

            /// The value with this name.
            pub fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($text => Some($ty::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

names! {
    UnaryOp {
        Neg "neg", Not "not", Abs "abs", Exp "exp", Exp2 "exp2", Exp10 "exp10", Log "log", Log2 "log2", Log10 "log10",
        Sqrt "sqrt", Rsqrt "rsqrt", Sin "sin", Cos "cos", Tan "tan", Asin "asin", Acos "acos", Atan "atan",
        Sinh "sinh", Cosh "cosh", Tanh "tanh", Asinh "asinh", Acosh "acosh", Atanh "atanh",
        Sinpi "sinpi", Cospi "cospi", Tanpi "tanpi", Ceil "ceil", Floor "floor", Trunc "trunc", Round "round",
        Rint "rint", Fract "fract", Sign "sign", Saturate "saturate", Ilogb "ilogb", IsNan "isnan", IsInf "isinf",
        IsFinite "isfinite", IsNormal "isnormal", SignBit "signbit", Clz "clz", Ctz "ctz", Popcount "popcount",
        ReverseBits "reverse_bits",
    }
    BinaryOp {
        Add "add", Sub "sub", Mul "mul", Div "div", Rem "rem", And "and", Or "or", Xor "xor", Shl "shl", Shr "shr",
        Min "min", Max "max", Pow "pow", Powr "powr", Atan2 "atan2", Fmod "fmod", Fdim "fdim", Copysign "copysign",
        Nextafter "nextafter", Ldexp "ldexp", MulHi "mulhi", AddSat "addsat", SubSat "subsat", AbsDiff "absdiff",
        Hadd "hadd", Rhadd "rhadd", Rotate "rotate",
    }
    TernaryOp { Fma "fma", Clamp "clamp", Median3 "median3", BitSelect "bitselect", }
    CompareOp { Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge", }
    AtomicOp {
        Load "load", Store "store", Exchange "exchange", Add "add", Sub "sub", And "and", Or "or", Xor "xor", Min "min",
        Max "max", CompareExchangeWeak "compare_exchange_weak",
    }
    Scope { Simdgroup "simdgroup", Threadgroup "threadgroup", }
    GroupOp {
        Sum "sum", Product "product", Min "min", Max "max", And "and", Or "or", Xor "xor",
        PrefixInclusiveSum "prefix_inclusive_sum", PrefixExclusiveSum "prefix_exclusive_sum",
        PrefixInclusiveProduct "prefix_inclusive_product", PrefixExclusiveProduct "prefix_exclusive_product",
    }
    ShuffleOp {
        Shuffle "index", ShuffleXor "xor", ShuffleDown "down", ShuffleUp "up", RotateDown "rotate_down",
        RotateUp "rotate_up", Broadcast "broadcast", BroadcastFirst "broadcast_first",
    }
    VoteOp { All "all", Any "any", Ballot "ballot", ActiveMask "active_mask", IsFirst "is_first", }
    GroupWidth { Simd "simd", Quad "quad", }
    Bounds { Fault "fault", Clip "clip", }
    ReduceOp { Sum "sum", Max "max", Min "min", }
    ReduceAxis { Rows "rows", Columns "columns", }
    CoopRole {
        Left "left", Right "right", Destination "destination", RowReduction "row_reduction",
        ColumnReduction "column_reduction",
    }
    LayoutKind { R "R", S "S", Permuted "permuted", }
    Access { ReadOnly "read", WriteOnly "write", ReadWrite "read_write", Unused "unused", }
    AddressSpace { Device "device", Constant "constant", Threadgroup "threadgroup", Thread "thread", }
    Scalar {
        Bool "bool", I8 "i8", U8 "u8", I16 "i16", U16 "u16", I32 "i32", U32 "u32", I64 "i64", U64 "u64", F16 "f16",
        BF16 "bf16", F32 "f32",
    }
}

impl Builtin {
    /// The attribute's name in Metal, and the dimension if it has one.
    pub const fn text(self) -> (&'static str, Option<u8>) {
        match self {
            Builtin::ThreadPositionInGrid(d) => ("thread_position_in_grid", Some(d)),
            Builtin::ThreadPositionInThreadgroup(d) => ("thread_position_in_threadgroup", Some(d)),
            Builtin::ThreadIndexInThreadgroup => ("thread_index_in_threadgroup", None),
            Builtin::ThreadgroupPositionInGrid(d) => ("threadgroup_position_in_grid", Some(d)),
            Builtin::ThreadsPerThreadgroup(d) => ("threads_per_threadgroup", Some(d)),
            Builtin::DispatchThreadsPerThreadgroup(d) => ("dispatch_threads_per_threadgroup", Some(d)),
            Builtin::ThreadsPerGrid(d) => ("threads_per_grid", Some(d)),
            Builtin::ThreadgroupsPerGrid(d) => ("threadgroups_per_grid", Some(d)),
            Builtin::ThreadIndexInSimdgroup => ("thread_index_in_simdgroup", None),
            Builtin::SimdgroupIndexInThreadgroup => ("simdgroup_index_in_threadgroup", None),
            Builtin::SimdgroupsPerThreadgroup => ("simdgroups_per_threadgroup", None),
            Builtin::DispatchSimdgroupsPerThreadgroup => ("dispatch_simdgroups_per_threadgroup", None),
            Builtin::ThreadsPerSimdgroup => ("threads_per_simdgroup", None),
            Builtin::ThreadIndexInQuadgroup => ("thread_index_in_quadgroup", None),
            Builtin::QuadgroupIndexInThreadgroup => ("quadgroup_index_in_threadgroup", None),
            Builtin::QuadgroupsPerThreadgroup => ("quadgroups_per_threadgroup", None),
        }
    }

    /// The builtin with this name and dimension (0, 1, 2).
    pub fn from_text(text: &str, dimension: Option<u8>) -> Option<Self> {
        let d = dimension.unwrap_or(0);
        let candidates = [
            Builtin::ThreadPositionInGrid(d),
            Builtin::ThreadPositionInThreadgroup(d),
            Builtin::ThreadIndexInThreadgroup,
            Builtin::ThreadgroupPositionInGrid(d),
            Builtin::ThreadsPerThreadgroup(d),
            Builtin::DispatchThreadsPerThreadgroup(d),
            Builtin::ThreadsPerGrid(d),
            Builtin::ThreadgroupsPerGrid(d),
            Builtin::ThreadIndexInSimdgroup,
            Builtin::SimdgroupIndexInThreadgroup,
            Builtin::SimdgroupsPerThreadgroup,
            Builtin::DispatchSimdgroupsPerThreadgroup,
            Builtin::ThreadsPerSimdgroup,
            Builtin::ThreadIndexInQuadgroup,
            Builtin::QuadgroupIndexInThreadgroup,
            Builtin::QuadgroupsPerThreadgroup,
        ];
        candidates
            .into_iter()
            .find(|candidate| candidate.text() == (text, dimension) && d < 3)
    }
}
