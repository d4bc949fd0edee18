//! Convolutions and pooling over [batch, channels, spatial…] arrays.

use super::{extents, single, strides};
use crate::array::{Array, checked_len};
use crate::error::OpError;
use crate::scalar::{Numbers, decode, store_f32, store_f64, store_int};

/// Advances `index` through `shape`; false after the last.
fn advance(index: &mut [usize], shape: &[usize]) -> bool {
    for d in (0..shape.len()).rev() {
        index[d] += 1;
        if index[d] < shape[d] {
            return true;
        }
        index[d] = 0;
    }
    false
}

fn positive(array: &Array, rank: usize, what: &str) -> Result<Vec<usize>, OpError> {
    let values = extents(array)?;
    if values.len() != rank || values.contains(&0) {
        return Err(OpError::invalid(format!(
            "{what} {values:?} must be {rank} positive numbers"
        )));
    }
    Ok(values)
}

fn window(kernel: usize, dilation: usize) -> Result<usize, OpError> {
    kernel
        .checked_sub(1)
        .and_then(|k| k.checked_mul(dilation))
        .and_then(|k| k.checked_add(1))
        .ok_or_else(|| OpError::invalid(format!("a kernel of {kernel} with dilation {dilation} is not possible")))
}

fn floats(x: &Array) -> Result<Vec<f32>, OpError> {
    match decode(x)? {
        Numbers::F32(v) => Ok(v.into_owned()),
        Numbers::F64(v) => Ok(v.iter().map(|&v| v as f32).collect()),
        Numbers::Int(_) => Err(OpError::Element(x.element().to_string())),
    }
}

/// Convolution without padding or bias: input [N, C, spatial…], weight [O, C / groups, kernel…].
pub(super) fn conv(
    x: &Array,
    weight: &Array,
    stride: &Array,
    dilation: &Array,
    groups: &Array,
    rank: usize,
) -> Result<Array, OpError> {
    let (sx, sw) = (x.shape(), weight.shape());
    let stride = positive(stride, rank, "strides")?;
    let dilation = positive(dilation, rank, "dilations")?;
    let groups = usize::try_from(single(groups)?).unwrap_or(0);
    let fits = sx.len() == rank + 2
        && sw.len() == rank + 2
        && groups > 0
        && sw[1].checked_mul(groups) == Some(sx[1])
        && sw[0] % groups == 0
        && x.element() == weight.element();
    if !fits {
        return Err(OpError::invalid(format!(
            "weight {weight:?} in {groups} groups does not fit input {x:?}"
        )));
    }
    let mut shape = vec![sx[0], sw[0]];
    for d in 0..rank {
        let span = window(sw[d + 2], dilation[d])?;
        shape.push(if sx[d + 2] < span {
            0
        } else {
            (sx[d + 2] - span) / stride[d] + 1
        });
    }
    checked_len(x.element(), &shape)?;
    let (vx, vw) = (floats(x)?, floats(weight)?);
    let kernel = &sw[2..];
    let taps: usize = kernel.iter().product();
    let (per_group, out_per_group) = (sw[1], sw[0] / groups);
    let places: usize = shape[2..].iter().product();
    let depth = per_group * taps;
    checked_len(x.element(), &[depth, places])?;
    let own = strides(sx);
    let mut out = vec![0f32; shape.iter().product()];
    if out.is_empty() {
        return Ok(store_f32(x.element(), &shape, out)?);
    }
    // One matrix product a group: weights times the columns of input that each result sees.
    let mut columns = vec![0f32; depth * places];
    for image in 0..sx[0] {
        for g in 0..groups {
            let mut row = 0;
            for c in 0..per_group {
                let base = image * own[0] + (g * per_group + c) * own[1];
                let mut tap = vec![0usize; rank];
                loop {
                    let start: usize = (0..rank).map(|d| tap[d] * dilation[d] * own[d + 2]).sum();
                    let mut at = vec![0usize; rank];
                    let slots = &mut columns[row * places..(row + 1) * places];
                    for slot in slots.iter_mut() {
                        let shift: usize = (0..rank).map(|d| at[d] * stride[d] * own[d + 2]).sum();
                        *slot = vx[base + start + shift];
                        advance(&mut at, &shape[2..]);
                    }
                    row += 1;
                    if !advance(&mut tap, kernel) {
                        break;
                    }
                }
            }
            let w = &vw[g * out_per_group * depth..(g + 1) * out_per_group * depth];
            let from = (image * sw[0] + g * out_per_group) * places;
            let result = &mut out[from..from + out_per_group * places];
            super::matmul_f32(w, &columns, result, out_per_group, places, depth);
        }
    }
    Ok(store_f32(x.element(), &shape, out)?)
}

/// The parameters of a transposed convolution, as operands.
pub(super) struct TransposeParams<'a> {
    pub stride: &'a Array,
    pub padding: &'a Array,
    pub dilation: &'a Array,
    pub output_pad: &'a Array,
    pub groups: &'a Array,
}

/// Transposed convolution: input [N, I, spatial…], weight [I, O / groups, kernel…].
pub(super) fn conv_transpose(
    x: &Array,
    weight: &Array,
    params: &TransposeParams<'_>,
    rank: usize,
) -> Result<Array, OpError> {
    let (sx, sw) = (x.shape(), weight.shape());
    let stride = positive(params.stride, rank, "strides")?;
    let dilation = positive(params.dilation, rank, "dilations")?;
    let (padding, output_pad) = (extents(params.padding)?, extents(params.output_pad)?);
    let groups = usize::try_from(single(params.groups)?).unwrap_or(0);
    let fits = sx.len() == rank + 2
        && sw.len() == rank + 2
        && groups > 0
        && sw[0] == sx[1]
        && sw[0] % groups == 0
        && padding.len() == rank
        && output_pad.len() == rank
        && x.element() == weight.element();
    if !fits {
        return Err(OpError::invalid(format!(
            "weight {weight:?} in {groups} groups does not fit input {x:?}"
        )));
    }
    let mut shape = vec![sx[0], sw[1] * groups];
    for d in 0..rank {
        let size = (sx[d + 2] as i128 - 1) * stride[d] as i128 - 2 * padding[d] as i128
            + dilation[d] as i128 * (sw[d + 2] as i128 - 1)
            + output_pad[d] as i128
            + 1;
        match usize::try_from(size) {
            Ok(size) if size < 1 << 40 => shape.push(size),
            _ => {
                return Err(OpError::invalid(format!("the result would have an extent of {size}")));
            }
        }
    }
    checked_len(x.element(), &shape)?;
    let (vx, vw) = (floats(x)?, floats(weight)?);
    let kernel = &sw[2..];
    let taps: usize = kernel.iter().product();
    let (in_group, out_group) = (sx[1] / groups, sw[1]);
    let own = strides(&shape);
    let places: usize = sx[2..].iter().product();
    let mut out = vec![0f32; shape.iter().product()];
    if places == 0 || taps == 0 || out.is_empty() {
        return Ok(store_f32(x.element(), &shape, out)?);
    }
    for image in 0..sx[0] {
        for i in 0..sx[1] {
            let group = i / in_group.max(1);
            for o in 0..out_group {
                let base = image * own[0] + (group * out_group + o) * own[1];
                let w = &vw[(i * out_group + o) * taps..][..taps];
                let mut at = vec![0usize; rank];
                for p in 0..places {
                    let value = vx[(image * sx[1] + i) * places + p];
                    let mut tap = vec![0usize; rank];
                    for &weight in w {
                        let to = (0..rank).try_fold(0usize, |sum, d| {
                            let pos = (at[d] * stride[d] + tap[d] * dilation[d]).checked_sub(padding[d])?;
                            (pos < shape[d + 2]).then_some(sum + pos * own[d + 2])
                        });
                        if let Some(to) = to {
                            out[base + to] += value * weight;
                        }
                        advance(&mut tap, kernel);
                    }
                    advance(&mut at, &sx[2..]);
                }
            }
        }
    }
    Ok(store_f32(x.element(), &shape, out)?)
}

/// Maximum or sum over windows, without padding.
pub(super) fn pool(
    x: &Array,
    kernel: &Array,
    stride: &Array,
    dilation: &Array,
    ceil: Option<&Array>,
    rank: usize,
    largest: bool,
) -> Result<Array, OpError> {
    let kernel = positive(kernel, rank, "kernel")?;
    let stride = positive(stride, rank, "strides")?;
    let dilation = positive(dilation, rank, "dilations")?;
    let ceil = ceil.map(single).transpose()?.is_some_and(|c| c != 0);
    let sx = x.shape();
    if sx.len() != rank + 2 {
        return Err(OpError::invalid(format!(
            "pooling over {rank} dimensions needs rank {}: {x:?}",
            rank + 2
        )));
    }
    let mut shape = sx[..2].to_vec();
    for d in 0..rank {
        let span = window(kernel[d], dilation[d])?;
        let room = sx[d + 2].checked_sub(span);
        shape.push(match room {
            None => usize::from(ceil && sx[d + 2] > 0),
            Some(room) if ceil => {
                // A window that starts past the end is not counted.
                let n = room.div_ceil(stride[d]) + 1;
                if (n - 1) * stride[d] >= sx[d + 2] { n - 1 } else { n }
            }
            Some(room) => room / stride[d] + 1,
        });
    }
    checked_len(x.element(), &shape)?;
    let own = strides(sx);
    // The elements of each window in order.
    let windows = |f: &mut dyn FnMut(&[usize])| {
        if shape.contains(&0) {
            return;
        }
        let mut at = vec![0usize; rank + 2];
        loop {
            let mut places = Vec::new();
            let mut tap = vec![0usize; rank];
            loop {
                let place = (0..rank).try_fold(at[0] * own[0] + at[1] * own[1], |sum, d| {
                    let pos = at[d + 2] * stride[d] + tap[d] * dilation[d];
                    (pos < sx[d + 2]).then_some(sum + pos * own[d + 2])
                });
                places.extend(place);
                if !advance(&mut tap, &kernel) {
                    break;
                }
            }
            f(&places);
            if !advance(&mut at, &shape) {
                break;
            }
        }
    };
    match decode(x)? {
        Numbers::F32(v) => {
            let mut out = Vec::new();
            windows(&mut |w| {
                out.push(if largest {
                    w.iter()
                        .fold(f32::NEG_INFINITY, |m, &i| if m > v[i] || m.is_nan() { m } else { v[i] })
                } else {
                    w.iter().map(|&i| v[i]).sum()
                });
            });
            Ok(store_f32(x.element(), &shape, out)?)
        }
        Numbers::F64(v) => {
            let mut out = Vec::new();
            windows(&mut |w| {
                out.push(if largest {
                    w.iter()
                        .fold(f64::NEG_INFINITY, |m, &i| if m > v[i] || m.is_nan() { m } else { v[i] })
                } else {
                    w.iter().map(|&i| v[i]).sum()
                });
            });
            Ok(store_f64(x.element(), &shape, out)?)
        }
        Numbers::Int(v) => {
            let mut out = Vec::new();
            windows(&mut |w| {
                out.push(if largest {
                    w.iter().map(|&i| v[i]).max().unwrap_or(0)
                } else {
                    w.iter().map(|&i| v[i]).sum()
                });
            });
            Ok(store_int(x.element(), &shape, &out)?)
        }
    }
}
