//! Compressed weights: look-up tables, block-wise scales, and affine quantisation.

use super::movement::broadcast_view;
use super::{axis, extents, single, strides};
use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::scalar::{Numbers, decode, store_f32, store_int};

/// Replaces indices by entries of tables: indices [a0…], tables [b0…, entries, vector], each bi dividing ai.
pub(super) fn lut_to_dense(indices: &Array, lut: &Array, dim: &Array) -> Result<Array, OpError> {
    let rank = indices.rank();
    let misfit = || OpError::invalid(format!("table {lut:?} does not fit indices {indices:?}"));
    if lut.rank() != rank + 2 {
        return Err(misfit());
    }
    let blocks = &lut.shape()[..rank];
    let (entries, vector) = (lut.shape()[rank], lut.shape()[rank + 1]);
    if blocks.iter().zip(indices.shape()).any(|(&b, &a)| b == 0 || a % b != 0) || vector == 0 {
        return Err(misfit());
    }
    let a = if vector > 1 { axis(single(dim)?, rank)? } else { 0 };
    let mut shape = indices.shape().to_vec();
    if vector > 1 {
        shape[a] = shape[a].checked_mul(vector).ok_or_else(misfit)?;
    }
    let total = checked_len(lut.element(), &shape)?;
    let values = extents(indices)?;
    let (own, tables, to) = (strides(indices.shape()), strides(blocks), strides(&shape));
    let size = lut.element().size();
    let mut out = vec![0; total * size];
    for (flat, &index) in values.iter().enumerate() {
        if index >= entries {
            return Err(OpError::invalid(format!(
                "index {index} is past a table of {entries} entries"
            )));
        }
        let (mut table, mut at) = (0, 0);
        for d in 0..rank {
            let i = flat / own[d] % indices.shape()[d];
            table += i / (indices.shape()[d] / blocks[d]) * tables[d];
            at += i * to[d] * if vector > 1 && d == a { vector } else { 1 };
        }
        for v in 0..vector {
            let from = ((table * entries + index) * vector + v) * size;
            let place = (at + v * if vector > 1 { to[a] } else { 0 }) * size;
            out[place..place + size].copy_from_slice(&lut.bytes()[from..from + size]);
        }
    }
    Ok(Array::from_bytes(lut.element(), &shape, &out)?)
}

fn numbers(x: &Array) -> Result<Vec<f32>, OpError> {
    Ok(x.to_f32()?)
}

/// `small` repeated in blocks up to `shape`, as f32.
fn blocks(small: &Array, shape: &[usize]) -> Result<Vec<f32>, OpError> {
    let fits = small.rank() == shape.len() && small.shape().iter().zip(shape).all(|(&s, &d)| s > 0 && d % s == 0);
    if !fits {
        return Err(OpError::invalid(format!(
            "{small:?} does not divide {shape:?} into blocks"
        )));
    }
    let values = numbers(small)?;
    // Each dimension becomes (blocks, size within a block), the latter broadcast.
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (&s, &d) in small.shape().iter().zip(shape) {
        from.extend([s, 1]);
        to.extend([s, d / s]);
    }
    Ok(broadcast_view(&from, &to).collect(&values))
}

/// scale · (data − offset1) + offset2, with scales and offsets per block.
pub(super) fn blockwise_shift_scale(
    data: &Array,
    scale: &Array,
    offset1: &Array,
    offset2: &Array,
    element: ElementType,
) -> Result<Array, OpError> {
    let shape = data.shape();
    let (x, s) = (numbers(data)?, blocks(scale, shape)?);
    let (o1, o2) = (blocks(offset1, shape)?, blocks(offset2, shape)?);
    let out = (0..x.len()).map(|i| s[i] * (x[i] - o1[i]) + o2[i]).collect();
    Ok(store_f32(element, shape, out)?)
}

/// A parameter that is one number or one number a channel, spread over `shape`.
fn channels(parameter: &Array, dim: &Array, shape: &[usize]) -> Result<Vec<f32>, OpError> {
    let values = numbers(parameter)?;
    if values.len() == 1 {
        return Ok(vec![values[0]; shape.iter().product()]);
    }
    let a = axis(single(dim)?, shape.len())?;
    if values.len() != shape[a] {
        return Err(OpError::invalid(format!(
            "{parameter:?} has not one value a channel of {shape:?}"
        )));
    }
    let mut from = vec![1; shape.len()];
    from[a] = values.len();
    Ok(broadcast_view(&from, shape).collect(&values))
}

/// clip(round((x − offset2) / scale) + offset1).
pub(super) fn quantize(
    x: &Array,
    scale: &Array,
    offset1: &Array,
    offset2: &Array,
    dim: &Array,
    element: ElementType,
) -> Result<Array, OpError> {
    let shape = x.shape();
    let v = numbers(x)?;
    let (s, o2) = (channels(scale, dim, shape)?, channels(offset2, dim, shape)?);
    let o1 = channels(offset1, dim, shape)?;
    let q = (0..v.len()).map(|i| ((v[i] - o2[i]) / s[i]).round_ties_even() + o1[i]);
    if element.is_float() {
        return Ok(store_f32(element, shape, q.collect())?);
    }
    let bits = element.bits() as u32;
    let (low, high) = if element.is_unsigned() {
        (0i128, (1i128 << bits) - 1)
    } else {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    };
    let values: Vec<i128> = q.map(|q| (q as i128).clamp(low, high)).collect();
    Ok(store_int(element, shape, &values)?)
}

/// (q − offset1) · scale + offset2.
pub(super) fn dequantize(
    q: &Array,
    scale: &Array,
    offset1: &Array,
    offset2: &Array,
    dim: &Array,
    element: ElementType,
) -> Result<Array, OpError> {
    let shape = q.shape();
    let x = match decode(q)? {
        Numbers::F32(v) => v.into_owned(),
        Numbers::F64(v) => v.iter().map(|&v| v as f32).collect(),
        Numbers::Int(v) => v.iter().map(|&v| v as f32).collect(),
    };
    let (s, o2) = (channels(scale, dim, shape)?, channels(offset2, dim, shape)?);
    let o1 = channels(offset1, dim, shape)?;
    let out = (0..x.len()).map(|i| (x[i] - o1[i]) * s[i] + o2[i]).collect();
    Ok(store_f32(element, shape, out)?)
}

/// Values at the set bits of a mask in row-major order, zero elsewhere.
pub(super) fn build_sparse(values: &Array, mask: &Array) -> Result<Array, OpError> {
    let set = mask.bytes().iter().filter(|&&b| b != 0).count();
    if mask.element().size() != 1 || values.len() != set {
        return Err(OpError::invalid(format!(
            "{values:?} does not hold one value for each of the mask's {set} bits"
        )));
    }
    let size = values.element().size();
    let len = checked_len(values.element(), mask.shape())?;
    let mut out = vec![0; len * size];
    let mut next = values.bytes().chunks_exact(size);
    for (slot, &bit) in out.chunks_exact_mut(size).zip(mask.bytes()) {
        if bit != 0
            && let Some(value) = next.next()
        {
            slot.copy_from_slice(value);
        }
    }
    Ok(Array::from_bytes(values.element(), mask.shape(), &out)?)
}
