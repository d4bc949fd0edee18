//! Gathering and scattering by index arrays. An index outside its dimension is an error, never a wrong read.

use super::{axis, integers, single, strides};
use crate::array::{Array, checked_len};
use crate::error::OpError;
use crate::scalar::{Numbers, decode, store_f32, store_f64, store_int};

fn wrap(index: i64, extent: usize) -> Result<usize, OpError> {
    let at = if index < 0 { index + extent as i64 } else { index };
    usize::try_from(at)
        .ok()
        .filter(|&i| i < extent)
        .ok_or_else(|| OpError::invalid(format!("index {index} is out of bounds for a dimension of {extent}")))
}

pub(super) fn gather_along_axis(x: &Array, indices: &Array, dim: &Array) -> Result<Array, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let places = along_axis(x, indices, a)?;
    let size = x.element().size();
    checked_len(x.element(), indices.shape())?;
    let mut out = Vec::with_capacity(places.len() * size);
    for at in places {
        out.extend_from_slice(&x.bytes()[at * size..(at + 1) * size]);
    }
    Ok(Array::from_bytes(x.element(), indices.shape(), &out)?)
}

/// The place in `x` of each element of `indices`, which replace the coordinate along axis `a`.
fn along_axis(x: &Array, indices: &Array, a: usize) -> Result<Vec<usize>, OpError> {
    let fits = indices.rank() == x.rank() && (0..x.rank()).all(|i| i == a || indices.shape()[i] <= x.shape()[i]);
    if !fits {
        return Err(OpError::invalid(format!(
            "indices {:?} do not fit into {:?}",
            indices.shape(),
            x.shape()
        )));
    }
    let own = strides(x.shape());
    let values = integers(indices)?;
    let mut out = Vec::with_capacity(values.len());
    let mut index = vec![0usize; x.rank()];
    for value in values {
        let along = wrap(value, x.shape()[a])?;
        let at = index
            .iter()
            .enumerate()
            .map(|(d, &i)| if d == a { along } else { i } * own[d])
            .sum();
        out.push(at);
        for d in (0..index.len()).rev() {
            index[d] += 1;
            if index[d] < indices.shape()[d] {
                break;
            }
            index[d] = 0;
        }
    }
    Ok(out)
}

/// The first element in `x` that each index tuple names, and the elements of each block that it names.
fn nd_places(x: &Array, indices: &Array) -> Result<(Vec<usize>, usize), OpError> {
    let Some(&q) = indices.shape().last() else {
        return Err(OpError::invalid(
            "the indices have rank 0; their last dimension holds the coordinates",
        ));
    };
    if q > x.rank() {
        return Err(OpError::invalid(format!(
            "{q} coordinates for an array of rank {}",
            x.rank()
        )));
    }
    let own = strides(x.shape());
    let block: usize = x.shape()[q..].iter().product();
    let count = indices.shape()[..indices.rank() - 1].iter().product::<usize>();
    let values = integers(indices)?;
    let mut out = Vec::with_capacity(count);
    for i in 0..count {
        let mut at = 0;
        for d in 0..q {
            at += wrap(values[i * q + d], x.shape()[d])? * own[d];
        }
        out.push(at);
    }
    Ok((out, block))
}

pub(super) fn gather_nd(x: &Array, indices: &Array) -> Result<Array, OpError> {
    let (places, block) = nd_places(x, indices)?;
    let q = indices.shape()[indices.rank() - 1];
    let mut shape = indices.shape()[..indices.rank() - 1].to_vec();
    shape.extend_from_slice(&x.shape()[q..]);
    let size = x.element().size();
    let len = checked_len(x.element(), &shape)?;
    let mut out = Vec::with_capacity(len * size);
    for at in places {
        out.extend_from_slice(&x.bytes()[at * size..(at + block) * size]);
    }
    Ok(Array::from_bytes(x.element(), &shape, &out)?)
}

pub(super) fn scatter_nd(x: &Array, indices: &Array, updates: &Array) -> Result<Array, OpError> {
    let (places, block) = nd_places(x, indices)?;
    let q = indices.shape()[indices.rank() - 1];
    let mut wanted = indices.shape()[..indices.rank() - 1].to_vec();
    wanted.extend_from_slice(&x.shape()[q..]);
    let misfit = || OpError::invalid(format!("updates {updates:?} do not fit {wanted:?} in {x:?}"));
    if updates.element() != x.element() {
        return Err(misfit());
    }
    // Updates may stretch, as PyTorch's index_put allows.
    let updates = &super::movement::stretched(updates, &wanted).map_err(|_| misfit())?;
    let size = x.element().size();
    let mut out = x.bytes().to_vec();
    for (i, at) in places.into_iter().enumerate() {
        let from = &updates.bytes()[i * block * size..(i + 1) * block * size];
        out[at * size..(at + block) * size].copy_from_slice(from);
    }
    Ok(Array::from_bytes(x.element(), x.shape(), &out)?)
}

pub(super) fn scatter_along_axis(
    x: &Array,
    indices: &Array,
    updates: &Array,
    dim: &Array,
    mode: u64,
) -> Result<Array, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let places = along_axis(x, indices, a)?;
    if updates.element() != x.element() || updates.shape() != indices.shape() {
        return Err(OpError::invalid(format!(
            "updates {updates:?} do not fit indices {indices:?}"
        )));
    }
    fn go<T: Copy>(out: &mut [T], from: &[T], places: &[usize], f: impl Fn(T, T) -> T) {
        for (&at, &value) in places.iter().zip(from) {
            out[at] = f(out[at], value);
        }
    }
    macro_rules! modes {
        ($out:expr, $from:expr) => {
            match mode {
                0 => go($out, $from, &places, |_, v| v),
                1 => go($out, $from, &places, |o, v| o + v),
                2 => go($out, $from, &places, |o, v| o - v),
                3 => go($out, $from, &places, |o, v| o * v),
                4 => go($out, $from, &places, |o, v| o / v),
                5 => go($out, $from, &places, |o, v| if v > o { v } else { o }),
                6 => go($out, $from, &places, |o, v| if v < o { v } else { o }),
                other => return Err(OpError::invalid(format!("scatter mode {other} is not known"))),
            }
        };
    }
    match (decode(x)?, decode(updates)?) {
        (Numbers::F32(v), Numbers::F32(u)) => {
            let mut out = v.into_owned();
            modes!(&mut out, &u);
            Ok(store_f32(x.element(), x.shape(), out)?)
        }
        (Numbers::F64(v), Numbers::F64(u)) => {
            let mut out = v.into_owned();
            modes!(&mut out, &u);
            Ok(store_f64(x.element(), x.shape(), out)?)
        }
        (Numbers::Int(mut out), Numbers::Int(u)) => {
            if mode == 4 && u.contains(&0) {
                return Err(OpError::invalid("integer division by zero"));
            }
            modes!(&mut out, &u);
            Ok(store_int(x.element(), x.shape(), &out)?)
        }
        _ => Err(OpError::Element(x.element().to_string())),
    }
}
