//! Resampling to another size.

use super::{extents, strides};
use crate::array::{Array, checked_len};
use crate::error::OpError;
use crate::scalar::{Numbers, decode, store_f32};

/// The sources of each position along one dimension: two indices and the weight of the second.
fn sources(n: usize, out: usize, scale: f32, offset: f32, nearest: bool) -> Vec<(usize, usize, f32)> {
    let last = n as f32 - 1.0;
    (0..out)
        .map(|o| {
            let x = ((o as f32 + 0.5 - offset) / scale - 0.5).clamp(0.0, last);
            if nearest {
                let i = x.round_ties_even() as usize;
                return (i, i, 0.0);
            }
            let low = x.floor() as usize;
            (low, (low + 1).min(n - 1), x - low as f32)
        })
        .collect()
}

/// Coordinate of the source: (o + 0.5 − offset) / scale − 0.5, clamped to the edge.
pub(super) fn interpolate(
    x: &Array,
    shape: &Array,
    scale: &Array,
    offset: &Array,
    mode: u64,
) -> Result<Array, OpError> {
    let to = extents(shape)?;
    let (scale, offset) = (scale.to_f32()?, offset.to_f32()?);
    let rank = x.rank();
    if to.len() != rank || scale.len() != rank || offset.len() != rank || mode > 1 {
        return Err(OpError::invalid(format!("{x:?} cannot be resampled to {to:?}")));
    }
    if x.is_empty() || scale.iter().any(|&s| s <= 0.0 || !s.is_finite()) {
        return Err(OpError::invalid(format!("{x:?} cannot be resampled by {scale:?}")));
    }
    let Numbers::F32(v) = decode(x)? else {
        return Err(OpError::Element(x.element().to_string()));
    };
    let mut data = v.into_owned();
    let mut current = x.shape().to_vec();
    // One dimension after the other: the filter is separable.
    for d in 0..rank {
        let table = sources(current[d], to[d], scale[d], offset[d], mode == 1);
        if current[d] == to[d] && table.iter().enumerate().all(|(i, s)| *s == (i, s.1, 0.0)) {
            continue;
        }
        let own = strides(&current);
        let mut next = current.clone();
        next[d] = to[d];
        let len = checked_len(x.element(), &next)?;
        let (outer, inner) = (current[..d].iter().product::<usize>(), own[d]);
        let mut out = Vec::with_capacity(len);
        for o in 0..outer {
            let base = o * current[d] * inner;
            for &(low, high, weight) in &table {
                let (a, b) = (base + low * inner, base + high * inner);
                out.extend((0..inner).map(|i| data[a + i] + (data[b + i] - data[a + i]) * weight));
            }
        }
        (data, current) = (out, next);
    }
    Ok(store_f32(x.element(), &to, data)?)
}
