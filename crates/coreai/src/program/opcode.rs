//! The operations that this crate knows, by the names that stand in assets.

/// Element-wise operations of one operand.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unary {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cos,
    Cosh,
    Erf,
    Exp,
    Log,
    Not,
    Relu,
    Round,
    Rsqrt,
    Sigmoid,
    Silu,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

/// Element-wise operations of two operands.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Divide,
    FloorDivide,
    Modulo,
    Pow,
    Maximum,
    Minimum,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
    Equal,
    NotEqual,
    Greater,
}

/// Reductions over axes.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Product,
    Any,
    All,
}

/// Operations by what they do. The `broadcasting_` forms and the strict `primitive` forms share a code: equal
/// shapes are a case of broadcasting.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpCode {
    Constant,
    Unary(Unary),
    Binary(Binary),
    Reduce(Reduction),
    Gelu,
    Cast,
    Where,
    BatchMatmul,
    BroadcastShapes,
    Argmax,
    Softmax,
    Scan,
    Sort,
    Argsort,
    Reshape,
    Transpose,
    ExpandDims,
    ShrinkDims,
    BroadcastTo,
    BroadcastInDims,
    Concat,
    Split,
    Slice,
    SliceUpdate,
    Tile,
    Pad,
    Reverse,
    GatherAlongAxis,
    GatherNd,
    ScatterAlongAxis,
    ScatterNd,
    NonZero,
    GetShape,
    Range,
    CreateComplex,
    RealPart,
    ImaginaryPart,
    Conv2d,
    Conv3d,
    ConvTranspose2d,
    ConvTranspose3d,
    MaxPool2d,
    MaxPool3d,
    SumPool2d,
    SumPool3d,
    Interpolate,
    LutToDense,
    BlockwiseShiftScale,
    Quantize,
    Dequantize,
    BuildSparse,
    SparseToDense,
    Identity,
    Invoke,
    If,
    While,
    Condition,
    Yield,
    Output,
    CreateToken,
    JoinToken,
    ReadHandle,
    WriteHandle,
    Metal4Kernel,
    /// An operation that is run through the decomposition that it carries.
    Decomposed,
    /// An operation that cannot be run.
    Unknown,
}

impl OpCode {
    /// The code of an operation's name in the file (without the dialect's prefix), or `None` for an operation that
    /// this crate cannot run. Older spellings whose operand order is not public (`reshape_v1`, `get_shape_v1`,
    /// `tile_v1`, `quantize_v1`, `dequantize_v1`, `blockwise_shift_scale_v1`) are among the latter.
    pub fn from_name(name: &str) -> Option<Self> {
        use OpCode::*;
        let base = match name.strip_prefix("primitive.") {
            Some(rest) => rest,
            None => match name.strip_prefix("broadcasting_") {
                Some(rest @ ("where_v1" | "batch_matmul_v1")) => rest,
                Some(rest) => return rest.strip_suffix("_v1").and_then(binary).map(Binary),
                None => name,
            },
        };
        let code = match base {
            "reshape_v2" => Reshape,
            "get_shape_v2" => GetShape,
            "tile_v2" => Tile,
            "quantize_v2" => Quantize,
            "dequantize_v2" => Dequantize,
            "blockwise_shift_scale_v2" => BlockwiseShiftScale,
            _ => match base.strip_suffix("_v1")? {
                "constant" => Constant,
                "gelu" => Gelu,
                "cast" => Cast,
                "where" => Where,
                "batch_matmul" => BatchMatmul,
                "broadcast_shapes" => BroadcastShapes,
                "argmax" => Argmax,
                "softmax" => Softmax,
                "scan" => Scan,
                "sort" => Sort,
                "argsort" => Argsort,
                "transpose" => Transpose,
                "expand_dims" => ExpandDims,
                "shrink_dims" => ShrinkDims,
                "broadcast_to" => BroadcastTo,
                "broadcast_in_dims" => BroadcastInDims,
                "concat" => Concat,
                "split" => Split,
                "slice" => Slice,
                "slice_update" => SliceUpdate,
                "pad" => Pad,
                "reverse" => Reverse,
                "gather_along_axis" => GatherAlongAxis,
                "gather_nd" => GatherNd,
                "scatter_along_axis" => ScatterAlongAxis,
                "scatter_nd" => ScatterNd,
                "non_zero" => NonZero,
                "range" => Range,
                "create_complex" => CreateComplex,
                "real_part" => RealPart,
                "imaginary_part" => ImaginaryPart,
                "conv2d" => Conv2d,
                "conv3d" => Conv3d,
                "conv_transpose2d" => ConvTranspose2d,
                "conv_transpose3d" => ConvTranspose3d,
                "max_pool_2d" => MaxPool2d,
                "max_pool_3d" => MaxPool3d,
                "sum_pool_2d" => SumPool2d,
                "sum_pool_3d" => SumPool3d,
                "interpolate" => Interpolate,
                "lut_to_dense" => LutToDense,
                "build_sparse_with_bitmask" => BuildSparse,
                "sparse_with_bitmask_to_dense" => SparseToDense,
                "ax.copy_with_constraints" | "ax.copy_discarding_constraints" => Identity,
                "dataflow.invoke" => Invoke,
                "dataflow.yield" => Yield,
                "dataflow.output" => Output,
                "dataflow.create_token" => CreateToken,
                "dataflow.join_token" => JoinToken,
                "dataflow.read_handle" => ReadHandle,
                "dataflow.write_handle" => WriteHandle,
                "controlflow.if" => If,
                "controlflow.while" => While,
                "controlflow.condition" => Condition,
                "metal.metal4_kernel" => Metal4Kernel,
                "reduce_sum" => Reduce(Reduction::Sum),
                "reduce_mean" => Reduce(Reduction::Mean),
                "reduce_max" => Reduce(Reduction::Max),
                "reduce_min" => Reduce(Reduction::Min),
                "reduce_product" => Reduce(Reduction::Product),
                "any" => Reduce(Reduction::Any),
                "all" => Reduce(Reduction::All),
                other => match unary(other) {
                    Some(op) => Unary(op),
                    None => Binary(binary(other)?),
                },
            },
        };
        Some(code)
    }
}

fn unary(name: &str) -> Option<Unary> {
    Some(match name {
        "abs" => Unary::Abs,
        "acos" => Unary::Acos,
        "acosh" => Unary::Acosh,
        "asin" => Unary::Asin,
        "asinh" => Unary::Asinh,
        "atan" => Unary::Atan,
        "atanh" => Unary::Atanh,
        "cos" => Unary::Cos,
        "cosh" => Unary::Cosh,
        "erf" => Unary::Erf,
        "exp" => Unary::Exp,
        "log" => Unary::Log,
        "not" => Unary::Not,
        "relu" => Unary::Relu,
        "round" => Unary::Round,
        "rsqrt" => Unary::Rsqrt,
        "sigmoid" => Unary::Sigmoid,
        "silu" => Unary::Silu,
        "sin" => Unary::Sin,
        "sinh" => Unary::Sinh,
        "sqrt" => Unary::Sqrt,
        "tan" => Unary::Tan,
        "tanh" => Unary::Tanh,
        _ => return None,
    })
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => Binary::Add,
        "sub" => Binary::Sub,
        "mul" => Binary::Mul,
        "divide" => Binary::Divide,
        "floor_divide" => Binary::FloorDivide,
        "modulo" => Binary::Modulo,
        "pow" => Binary::Pow,
        "maximum" => Binary::Maximum,
        "minimum" => Binary::Minimum,
        "bitwise_and" => Binary::BitwiseAnd,
        "bitwise_or" => Binary::BitwiseOr,
        "bitwise_xor" => Binary::BitwiseXor,
        "logical_and" => Binary::LogicalAnd,
        "logical_or" => Binary::LogicalOr,
        "logical_xor" => Binary::LogicalXor,
        "equal" => Binary::Equal,
        "not_equal" => Binary::NotEqual,
        "greater" => Binary::Greater,
        _ => return None,
    })
}

/// The properties of an operation in the order of the file, with `true` for an optional one.
pub(crate) fn property_names(op: &str) -> &'static [(&'static str, bool)] {
    match op {
        "serialization.asset" => &[("", true), ("version", true)],
        "dataflow.graph_v1" => &[
            ("argAttrs", false),
            ("compositeDecl", true),
            ("externalize", false),
            ("functionType", false),
            ("isPrivate", false),
            ("name", false),
            ("noInline", false),
            ("paramDecls", false),
            ("resAttrs", false),
        ],
        "dataflow.invoke_v1" => &[
            ("arg_attrs", false),
            ("callee", false),
            ("res_attrs", false),
        ],
        "primitive.constant_v1" => &[("value", false)],
        "primitive.gelu_v1" => &[("approximate", false)],
        "primitive.pad_v1" => &[("padding_mode", false)],
        "primitive.scan_v1" => &[("combiner", false)],
        "primitive.interpolate_v1" | "primitive.interpolate_coordinates_v1" => {
            &[("interpolation_mode", false)]
        }
        "primitive.scatter_along_axis_v1" => &[("scatter_mode", false)],
        "metal.metal4_kernel_v1" => &[("kernel_name", false), ("kernel_source", false)],
        _ => &[],
    }
}
