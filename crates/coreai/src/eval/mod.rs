//! The reference meaning of every operation, in plain Rust on host arrays.
//!
//! It folds constants, computes shapes, and runs what no kernel covers. Errors are values: a program can ask for anything.

mod compressed;
mod conv;
mod elementwise;
mod gather;
mod math;
mod matmul;
mod movement;
mod reduce;
mod resample;
mod sort;

use crate::array::Array;
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::program::{OpCode, Reduction};

pub(crate) use elementwise::broadcast_shape;
#[cfg(test)]
pub(crate) use math::erf64;
pub(crate) use math::{ERF_LARGE, ERF_SMALL, erf, exp};
pub(crate) use matmul::matmul_f32;
pub(crate) use movement::{permuted, ranges as slice_ranges};
pub(crate) use reduce::{sum, sum_of_squares};

/// What an operation computes from, beside its operands.
#[derive(Debug, Clone)]
pub(crate) struct Spec<'a> {
    pub code: OpCode,
    /// Value of the enumeration property, 0 when there is none.
    pub mode: u64,
    /// Element types of the results.
    pub elements: &'a [ElementType],
}

impl Spec<'_> {
    fn element(&self) -> Result<ElementType, OpError> {
        self.elements
            .first()
            .copied()
            .ok_or_else(|| OpError::invalid("the operation has no tensor result"))
    }
}

/// Computes one pure operation. Control flow, calls, states and Metal kernels are not among them.
pub(crate) fn evaluate(spec: &Spec<'_>, operands: &[Array]) -> Result<Vec<Array>, OpError> {
    let get = |i: usize| {
        operands
            .get(i)
            .ok_or_else(|| OpError::invalid(format!("operand {i} is missing (the operation has {})", operands.len())))
    };
    let one = |array: Result<Array, OpError>| array.map(|a| vec![a]);
    match spec.code {
        OpCode::Unary(op) => one(elementwise::unary(op, get(0)?)),
        OpCode::Binary(op) => one(elementwise::binary(op, get(0)?, get(1)?, spec.element()?)),
        OpCode::Where => one(elementwise::select(get(0)?, get(1)?, get(2)?)),
        OpCode::Gelu => one(elementwise::gelu(get(0)?, spec.mode)),
        OpCode::Cast => one(elementwise::cast(get(0)?, spec.element()?)),
        OpCode::CreateComplex => one(elementwise::create_complex(get(0)?, get(1)?, spec.element()?)),
        OpCode::RealPart => one(elementwise::complex_part(get(0)?, 0, spec.element()?)),
        OpCode::ImaginaryPart => one(elementwise::complex_part(get(0)?, 1, spec.element()?)),
        OpCode::BatchMatmul => one(matmul::batch_matmul(get(0)?, get(1)?)),
        OpCode::BroadcastShapes => one(elementwise::broadcast_shapes(get(0)?, get(1)?, spec.element()?)),
        OpCode::Reduce(op) => one(reduce::reduce(op, get(0)?, get(1)?)),
        OpCode::Argmax => one(reduce::argmax(get(0)?, get(1)?, spec.element()?)),
        OpCode::Softmax => one(reduce::softmax(get(0)?, get(1)?)),
        OpCode::Scan => one(reduce::scan(get(0)?, get(1)?, get(2)?, spec.mode)),
        OpCode::Sort => one(sort::sort(get(0)?, get(1)?, get(2)?)),
        OpCode::Argsort => one(sort::argsort(get(0)?, get(1)?, get(2)?, spec.element()?)),
        OpCode::NonZero => one(sort::non_zero(get(0)?, spec.element()?)),
        OpCode::Reshape => one(movement::reshape(get(0)?, get(1)?)),
        OpCode::Transpose => one(movement::transpose(get(0)?, get(1)?)),
        OpCode::ExpandDims => one(movement::expand_dims(get(0)?, get(1)?)),
        OpCode::ShrinkDims => one(movement::shrink_dims(get(0)?, get(1)?)),
        OpCode::BroadcastTo => one(movement::broadcast_to(get(0)?, get(1)?)),
        OpCode::BroadcastInDims => one(movement::broadcast_in_dims(get(0)?, get(1)?, get(2)?)),
        OpCode::Concat => one(movement::concat(get(0)?, &operands[1..])),
        OpCode::Split => movement::split(get(0)?, get(1)?, get(2)?, spec.elements.len()),
        OpCode::Slice => one(movement::slice(get(0)?, get(1)?, get(2)?, get(3)?)),
        OpCode::SliceUpdate => one(movement::slice_update(get(0)?, get(1)?, get(2)?, get(3)?, get(4)?)),
        OpCode::Tile => one(movement::tile(get(0)?, get(1)?)),
        OpCode::Pad => one(movement::pad(get(0)?, get(1)?, get(2)?, spec.mode)),
        OpCode::Reverse => one(movement::reverse(get(0)?, get(1)?)),
        OpCode::GetShape => one(movement::get_shape(get(0)?, spec.element()?)),
        OpCode::Range => one(movement::range(get(0)?, get(1)?, get(2)?)),
        OpCode::GatherAlongAxis => one(gather::gather_along_axis(get(0)?, get(1)?, get(2)?)),
        OpCode::GatherNd => one(gather::gather_nd(get(0)?, get(1)?)),
        OpCode::ScatterAlongAxis => one(gather::scatter_along_axis(
            get(0)?,
            get(1)?,
            get(2)?,
            get(3)?,
            spec.mode,
        )),
        OpCode::ScatterNd => one(gather::scatter_nd(get(0)?, get(1)?, get(2)?)),
        OpCode::Conv2d => one(conv::conv(get(0)?, get(1)?, get(2)?, get(3)?, get(4)?, 2)),
        OpCode::Conv3d => one(conv::conv(get(0)?, get(1)?, get(2)?, get(3)?, get(4)?, 3)),
        OpCode::ConvTranspose2d | OpCode::ConvTranspose3d => {
            let rank = if spec.code == OpCode::ConvTranspose2d { 2 } else { 3 };
            let params = conv::TransposeParams {
                stride: get(2)?,
                padding: get(3)?,
                dilation: get(4)?,
                output_pad: get(5)?,
                groups: get(6)?,
            };
            one(conv::conv_transpose(get(0)?, get(1)?, &params, rank))
        }
        OpCode::MaxPool2d | OpCode::MaxPool3d => {
            let rank = if spec.code == OpCode::MaxPool2d { 2 } else { 3 };
            one(conv::pool(
                get(0)?,
                get(1)?,
                get(2)?,
                get(3)?,
                Some(get(4)?),
                rank,
                true,
            ))
        }
        OpCode::SumPool2d | OpCode::SumPool3d => {
            let rank = if spec.code == OpCode::SumPool2d { 2 } else { 3 };
            one(conv::pool(
                get(0)?,
                get(1)?,
                get(2)?,
                get(3)?,
                operands.get(4),
                rank,
                false,
            ))
        }
        OpCode::Interpolate => one(resample::interpolate(get(0)?, get(1)?, get(2)?, get(3)?, spec.mode)),
        OpCode::LutToDense => one(compressed::lut_to_dense(get(0)?, get(1)?, get(2)?)),
        OpCode::BlockwiseShiftScale => one(compressed::blockwise_shift_scale(
            get(0)?,
            get(1)?,
            get(2)?,
            get(3)?,
            spec.element()?,
        )),
        OpCode::Quantize => one(compressed::quantize(
            get(0)?,
            get(1)?,
            get(2)?,
            get(3)?,
            get(4)?,
            spec.element()?,
        )),
        OpCode::Dequantize => one(compressed::dequantize(
            get(0)?,
            get(1)?,
            get(2)?,
            get(3)?,
            get(4)?,
            spec.element()?,
        )),
        // A sparse array is held dense: its bit mask says where the stored values go.
        OpCode::BuildSparse => one(compressed::build_sparse(get(0)?, get(1)?)),
        OpCode::SparseToDense | OpCode::Identity => Ok(vec![get(0)?.clone()]),
        other => Err(OpError::invalid(format!("{other:?} cannot be computed on its own"))),
    }
}

/// The values of a shape or index operand.
pub(crate) fn integers(array: &Array) -> Result<Vec<i64>, OpError> {
    if array.element().is_float() || array.element().is_complex() {
        return Err(OpError::invalid(format!(
            "a shape or index operand holds {}",
            array.element()
        )));
    }
    array
        .to_integers()?
        .into_iter()
        .map(|v| i64::try_from(v).map_err(|_| OpError::invalid(format!("index {v} is out of range"))))
        .collect()
}

/// The extents in a shape operand.
pub(crate) fn extents(array: &Array) -> Result<Vec<usize>, OpError> {
    integers(array)?
        .into_iter()
        .map(|v| usize::try_from(v).map_err(|_| OpError::invalid(format!("extent {v} is negative"))))
        .collect()
}

/// The single value of a rank-0 (or one-element) operand.
pub(crate) fn single(array: &Array) -> Result<i64, OpError> {
    match integers(array)?.as_slice() {
        [value] => Ok(*value),
        values => Err(OpError::invalid(format!(
            "a scalar operand has {} elements",
            values.len()
        ))),
    }
}

/// An axis in 0..rank; negative ones count from the end.
pub(crate) fn axis(value: i64, rank: usize) -> Result<usize, OpError> {
    let wrapped = if value < 0 { value + rank as i64 } else { value };
    usize::try_from(wrapped)
        .ok()
        .filter(|&a| a < rank)
        .ok_or_else(|| OpError::invalid(format!("axis {value} does not exist in rank {rank}")))
}

/// The axes of an operand, each once, in ascending order.
pub(crate) fn axes(array: &Array, rank: usize) -> Result<Vec<usize>, OpError> {
    let mut out = Vec::new();
    for value in integers(array)? {
        let a = axis(value, rank)?;
        if out.contains(&a) {
            return Err(OpError::invalid(format!("axis {value} is given twice")));
        }
        out.push(a);
    }
    out.sort_unstable();
    Ok(out)
}

/// Row-major strides in elements.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut out = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        out[i - 1] = out[i] * shape[i].max(1);
    }
    out
}

/// Shape split at `axis`: product before, extent, product after.
pub(crate) fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (
        shape[..axis].iter().product(),
        shape[axis],
        shape[axis + 1..].iter().product(),
    )
}

impl Reduction {
    /// True when the result is a bool.
    pub(crate) fn is_logical(self) -> bool {
        matches!(self, Self::Any | Self::All)
    }
}
