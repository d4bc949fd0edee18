//! Operations that move data without computing: reshapes, views, joins and fills.

use super::{axes, axis, extents, integers, single, strides};
use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::scalar::store_int;

/// A strided look at row-major data: element `i` of the view is at `offset + Σ index · stride`.
pub(crate) struct View {
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: isize,
}

/// The view of data with shape `from` broadcast to `to` (which must be compatible).
pub(crate) fn broadcast_view(from: &[usize], to: &[usize]) -> View {
    let own = strides(from);
    let lead = to.len().saturating_sub(from.len());
    let strides = (0..to.len())
        .map(|i| {
            if i < lead || from[i - lead] == 1 {
                0
            } else {
                own[i - lead] as isize
            }
        })
        .collect();
    View {
        shape: to.to_vec(),
        strides,
        offset: 0,
    }
}

impl View {
    /// The elements of the view in row-major order. The view must lie inside `data`.
    pub fn collect<T: Copy>(&self, data: &[T]) -> Vec<T> {
        let total: usize = self.shape.iter().product();
        let mut out = Vec::with_capacity(total);
        if total == 0 {
            return out;
        }
        // Dimensions that continue each other become one.
        let (mut shape, mut step): (Vec<usize>, Vec<isize>) = (vec![1], vec![1]);
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            if d == 1 {
                continue;
            }
            let last = shape.len() - 1;
            if shape[last] == 1 {
                (shape[last], step[last]) = (d, s);
            } else if step[last] == s * d as isize {
                shape[last] *= d;
                step[last] = s;
            } else {
                shape.push(d);
                step.push(s);
            }
        }
        let rank = shape.len();
        let (inner, inner_step) = (shape[rank - 1], step[rank - 1]);
        let mut index = vec![0usize; rank - 1];
        let mut at = self.offset;
        loop {
            match inner_step {
                1 => out.extend_from_slice(&data[at as usize..at as usize + inner]),
                0 => out.extend(std::iter::repeat_n(data[at as usize], inner)),
                s if s > 0 => out.extend(data[at as usize..].iter().step_by(s as usize).take(inner)),
                s => out.extend((0..inner as isize).map(|i| data[(at + i * s) as usize])),
            }
            let mut d = rank - 1;
            loop {
                if d == 0 {
                    return out;
                }
                d -= 1;
                index[d] += 1;
                at += step[d];
                if index[d] < shape[d] {
                    break;
                }
                at -= step[d] * shape[d] as isize;
                index[d] = 0;
            }
        }
    }

    /// The view of `array` as an array of its own.
    fn apply(&self, array: &Array) -> Result<Array, OpError> {
        checked_len(array.element(), &self.shape)?;
        fn go<T: bytemuck::Pod + Send + Sync>(view: &View, array: &Array) -> Result<Array, OpError> {
            let data = array
                .raw::<T>()
                .ok_or_else(|| OpError::Element(array.element().to_string()))?;
            Ok(Array::from_vec(array.element(), &view.shape, view.collect(data))?)
        }
        match array.element().size() {
            1 => go::<u8>(self, array),
            2 => go::<u16>(self, array),
            4 => go::<u32>(self, array),
            8 => go::<u64>(self, array),
            _ => go::<[u64; 2]>(self, array),
        }
    }
}

pub(super) fn get_shape(x: &Array, element: ElementType) -> Result<Array, OpError> {
    let values: Vec<i128> = x.shape().iter().map(|&d| d as i128).collect();
    Ok(store_int(element, &[values.len()], &values)?)
}

pub(super) fn reshape(x: &Array, shape: &Array) -> Result<Array, OpError> {
    let wanted = integers(shape)?;
    let known: i64 = wanted
        .iter()
        .filter(|&&d| d >= 0)
        .try_fold(1i64, |n, &d| n.checked_mul(d))
        .unwrap_or(-1);
    let misfit = || OpError::invalid(format!("shape {:?} cannot become {wanted:?}", x.shape()));
    let free = wanted.iter().filter(|&&d| d == -1).count();
    if known < 0 || free > 1 || wanted.iter().any(|&d| d < -1) {
        return Err(misfit());
    }
    let mut out = Vec::with_capacity(wanted.len());
    for &d in &wanted {
        out.push(match d {
            -1 if known == 0 || x.len() as i64 % known != 0 => return Err(misfit()),
            -1 => x.len() / known as usize,
            d => d as usize,
        });
    }
    if checked_len(x.element(), &out)? != x.len() {
        return Err(misfit());
    }
    Ok(x.reshaped(&out)?)
}

/// `x` with output dimension i = input dimension `permutation[i]`.
pub(crate) fn permuted(x: &Array, permutation: &[usize]) -> Result<Array, OpError> {
    let rank = x.rank();
    let mut seen = vec![false; rank];
    for &p in permutation {
        if p >= rank || std::mem::replace(&mut seen[p], true) {
            return Err(OpError::invalid(format!(
                "{permutation:?} is not a permutation of {rank} dimensions"
            )));
        }
    }
    if permutation.len() != rank {
        return Err(OpError::invalid(format!(
            "{permutation:?} is not a permutation of {rank} dimensions"
        )));
    }
    let own = strides(x.shape());
    View {
        shape: permutation.iter().map(|&p| x.shape()[p]).collect(),
        strides: permutation.iter().map(|&p| own[p] as isize).collect(),
        offset: 0,
    }
    .apply(x)
}

pub(super) fn transpose(x: &Array, permutation: &Array) -> Result<Array, OpError> {
    let mut order = Vec::new();
    for p in integers(permutation)? {
        order.push(axis(p, x.rank())?);
    }
    permuted(x, &order)
}

pub(super) fn expand_dims(x: &Array, positions: &Array) -> Result<Array, OpError> {
    let rank = x.rank() + positions.len();
    let at = axes(positions, rank)?;
    let mut own = x.shape().iter();
    let shape: Vec<usize> = (0..rank)
        .map(|i| {
            if at.contains(&i) {
                1
            } else {
                own.next().copied().unwrap_or(1)
            }
        })
        .collect();
    Ok(x.reshaped(&shape)?)
}

pub(super) fn shrink_dims(x: &Array, positions: &Array) -> Result<Array, OpError> {
    let at = axes(positions, x.rank())?;
    if let Some(&a) = at.iter().find(|&&a| x.shape()[a] != 1) {
        return Err(OpError::invalid(format!(
            "dimension {a} of {:?} is not 1 and cannot go",
            x.shape()
        )));
    }
    let shape: Vec<usize> = x
        .shape()
        .iter()
        .enumerate()
        .filter(|(i, _)| !at.contains(i))
        .map(|(_, &d)| d)
        .collect();
    Ok(x.reshaped(&shape)?)
}

pub(super) fn broadcast_to(x: &Array, shape: &Array) -> Result<Array, OpError> {
    stretched(x, &extents(shape)?)
}

/// `x` broadcast to exactly the shape `to`.
pub(super) fn stretched(x: &Array, to: &[usize]) -> Result<Array, OpError> {
    if super::broadcast_shape(x.shape(), to)? != to {
        return Err(OpError::invalid(format!(
            "shape {:?} does not broadcast to {to:?}",
            x.shape()
        )));
    }
    if x.shape() == to {
        return Ok(x.clone());
    }
    broadcast_view(x.shape(), to).apply(x)
}

pub(super) fn broadcast_in_dims(x: &Array, sizes: &Array, dims: &Array) -> Result<Array, OpError> {
    let sizes = extents(sizes)?;
    let positions = integers(dims)?;
    if sizes.len() != positions.len() {
        return Err(OpError::invalid(format!(
            "{} sizes for {} axes",
            sizes.len(),
            positions.len()
        )));
    }
    let mut to = x.shape().to_vec();
    for (&size, &position) in sizes.iter().zip(&positions) {
        let a = axis(position, x.rank())?;
        if x.shape()[a] != 1 && x.shape()[a] != size {
            return Err(OpError::invalid(format!("dimension {a} of {:?} is not 1", x.shape())));
        }
        to[a] = size;
    }
    broadcast_view(x.shape(), &to).apply(x)
}

pub(super) fn concat(dim: &Array, inputs: &[Array]) -> Result<Array, OpError> {
    let first = inputs
        .first()
        .ok_or_else(|| OpError::invalid("there is nothing to join"))?;
    let a = axis(single(dim)?, first.rank())?;
    let mut shape = first.shape().to_vec();
    shape[a] = 0;
    for x in inputs {
        let fits = x.rank() == first.rank()
            && x.element() == first.element()
            && (0..x.rank()).all(|i| i == a || x.shape()[i] == first.shape()[i]);
        if !fits {
            return Err(OpError::invalid(format!(
                "{x:?} cannot be joined to {first:?} along dimension {a}"
            )));
        }
        shape[a] += x.shape()[a];
    }
    let len = checked_len(first.element(), &shape)?;
    let size = first.element().size();
    let mut out = Vec::with_capacity(len * size);
    let outer: usize = shape[..a].iter().product();
    let inner: usize = shape[a + 1..].iter().product::<usize>() * size;
    for o in 0..outer {
        for x in inputs {
            let block = x.shape()[a] * inner;
            out.extend_from_slice(&x.bytes()[o * block..(o + 1) * block]);
        }
    }
    Ok(Array::from_bytes(first.element(), &shape, &out)?)
}

pub(super) fn split(x: &Array, sections: &Array, dim: &Array, results: usize) -> Result<Vec<Array>, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let extent = x.shape()[a];
    let sizes = if sections.rank() == 0 {
        let size = extents(sections)?[0];
        if size == 0 {
            return Err(OpError::invalid("the size of a part is 0"));
        }
        (0..extent.div_ceil(size))
            .map(|i| size.min(extent - i * size))
            .collect()
    } else {
        extents(sections)?
    };
    if sizes.iter().try_fold(0usize, |n, &s| n.checked_add(s)) != Some(extent) || sizes.len() != results {
        return Err(OpError::invalid(format!(
            "parts {sizes:?} do not make {extent} in {results} results"
        )));
    }
    let own = strides(x.shape());
    let mut start = 0;
    sizes
        .iter()
        .map(|&size| {
            let mut shape = x.shape().to_vec();
            shape[a] = size;
            let view = View {
                shape,
                strides: own.iter().map(|&s| s as isize).collect(),
                offset: (start * own[a]) as isize,
            };
            start += size;
            view.apply(x)
        })
        .collect()
}

/// The resolved ranges of a slice: start, step and size a dimension.
pub(crate) fn ranges(
    shape: &[usize],
    start: &Array,
    end: &Array,
    step: &Array,
) -> Result<Vec<(isize, isize, usize)>, OpError> {
    let (start, end, step) = (integers(start)?, integers(end)?, integers(step)?);
    let rank = shape.len();
    if start.len() != rank || end.len() != rank || step.len() != rank {
        return Err(OpError::invalid(format!(
            "a slice of rank {rank} needs {rank} starts, ends and strides"
        )));
    }
    (0..rank)
        .map(|i| {
            let n = shape[i] as i128;
            let s = i128::from(step[i]);
            if s == 0 {
                return Err(OpError::invalid("a slice's stride is 0"));
            }
            if n == 0 {
                return Ok((0, 1, 0));
            }
            let wrap = |v: i64| {
                if v < 0 { i128::from(v) + n } else { i128::from(v) }
            };
            let (from, to) = if s > 0 {
                (wrap(start[i]).clamp(0, n), wrap(end[i]).clamp(0, n))
            } else {
                (wrap(start[i]).clamp(0, n - 1), wrap(end[i]).clamp(-1, n - 1))
            };
            let size = if s > 0 {
                (to - from + s - 1).div_euclid(s)
            } else {
                (from - to - s - 1).div_euclid(-s)
            };
            Ok((
                from as isize,
                s.clamp(-(1 << 62), 1 << 62) as isize,
                size.max(0) as usize,
            ))
        })
        .collect()
}

fn sliced_view(shape: &[usize], ranges: &[(isize, isize, usize)]) -> View {
    let own = strides(shape);
    let empty = ranges.iter().any(|r| r.2 == 0);
    View {
        shape: ranges.iter().map(|r| r.2).collect(),
        // A dimension of one element needs no stride, and a huge stride must not overflow.
        strides: ranges
            .iter()
            .zip(&own)
            .map(|(r, &s)| if r.2 > 1 { r.1 * s as isize } else { 0 })
            .collect(),
        offset: if empty {
            0
        } else {
            ranges.iter().zip(&own).map(|(r, &s)| r.0 * s as isize).sum()
        },
    }
}

pub(super) fn slice(x: &Array, start: &Array, end: &Array, step: &Array) -> Result<Array, OpError> {
    let ranges = ranges(x.shape(), start, end, step)?;
    let whole = ranges.iter().zip(x.shape()).all(|(r, &d)| *r == (0, 1, d));
    if whole {
        Ok(x.clone())
    } else {
        sliced_view(x.shape(), &ranges).apply(x)
    }
}

pub(super) fn slice_update(
    x: &Array,
    start: &Array,
    end: &Array,
    step: &Array,
    update: &Array,
) -> Result<Array, OpError> {
    let ranges = ranges(x.shape(), start, end, step)?;
    let view = sliced_view(x.shape(), &ranges);
    if update.element() != x.element() || super::broadcast_shape(update.shape(), &view.shape)? != view.shape {
        return Err(OpError::invalid(format!(
            "{update:?} does not fit into {:?}",
            view.shape
        )));
    }
    // The places that the view looks at, in its order.
    let places = view.collect(&(0..x.len()).collect::<Vec<usize>>());
    let sources = broadcast_view(update.shape(), &view.shape).collect(&(0..update.len()).collect::<Vec<_>>());
    let size = x.element().size();
    let mut out = x.bytes().to_vec();
    for (&to, &from) in places.iter().zip(&sources) {
        out[to * size..(to + 1) * size].copy_from_slice(&update.bytes()[from * size..(from + 1) * size]);
    }
    Ok(Array::from_bytes(x.element(), x.shape(), &out)?)
}

pub(super) fn tile(x: &Array, reps: &Array) -> Result<Array, OpError> {
    let reps = extents(reps)?;
    let rank = x.rank().max(reps.len());
    // Repetition is a broadcast over a new dimension before each one.
    let (mut from, mut to, mut shape) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..rank {
        let d = if i + x.rank() >= rank {
            x.shape()[i + x.rank() - rank]
        } else {
            1
        };
        let r = if i + reps.len() >= rank {
            reps[i + reps.len() - rank]
        } else {
            1
        };
        from.extend([1, d]);
        to.extend([r, d]);
        shape.push(
            r.checked_mul(d)
                .ok_or_else(|| OpError::invalid(format!("{reps:?} repetitions are too many")))?,
        );
    }
    checked_len(x.element(), &shape)?;
    Ok(broadcast_view(&from, &to).apply(x)?.reshaped(&shape)?)
}

/// The source of each position along one dimension, or `None` where the pad value stands.
fn pad_sources(extent: usize, before: usize, after: usize, mode: u64) -> Result<Vec<Option<usize>>, OpError> {
    let n = extent as i64;
    let too_far = || {
        OpError::invalid(format!(
            "{before} and {after} are too much padding for an extent of {extent}"
        ))
    };
    let limit = match mode {
        2 => extent.saturating_sub(1),
        0 | 4 => extent,
        _ => usize::MAX,
    };
    if before > limit || after > limit || (mode == 3 && extent == 0 && before + after > 0) {
        return Err(too_far());
    }
    (0..extent + before + after)
        .map(|i| {
            let at = i as i64 - before as i64;
            Ok(match mode {
                _ if (0..n).contains(&at) => Some(at as usize),
                0 => Some(at.rem_euclid(n) as usize),
                1 => None,
                2 => Some(if at < 0 { -at } else { 2 * (n - 1) - at } as usize),
                3 => Some(at.clamp(0, n - 1) as usize),
                4 => Some(if at < 0 { -1 - at } else { 2 * n - 1 - at } as usize),
                other => {
                    return Err(OpError::invalid(format!("padding mode {other} is not known")));
                }
            })
        })
        .collect()
}

pub(super) fn pad(x: &Array, padding: &Array, value: &Array, mode: u64) -> Result<Array, OpError> {
    let padding = extents(padding)?;
    if padding.len() != 2 * x.rank() {
        return Err(OpError::invalid(format!(
            "{} paddings for rank {}",
            padding.len(),
            x.rank()
        )));
    }
    if value.len() != 1 || (mode == 1 && value.element() != x.element()) {
        return Err(OpError::invalid(format!("{value:?} is no pad value for {x:?}")));
    }
    let mut shape = Vec::new();
    for (i, &d) in x.shape().iter().enumerate() {
        let sum = d
            .checked_add(padding[2 * i])
            .and_then(|s| s.checked_add(padding[2 * i + 1]));
        shape.push(sum.ok_or_else(|| OpError::invalid("the padding is too large"))?);
    }
    let total = checked_len(x.element(), &shape)?;
    let mut sources = Vec::new();
    for (i, &d) in x.shape().iter().enumerate() {
        sources.push(pad_sources(d, padding[2 * i], padding[2 * i + 1], mode)?);
    }
    let size = x.element().size();
    let own = strides(x.shape());
    let fill = value.bytes();
    let mut out = Vec::with_capacity(total * size);
    let mut index = vec![0usize; shape.len()];
    for _ in 0..total {
        let mut from = Some(0);
        for (d, &i) in index.iter().enumerate() {
            from = from.and_then(|f| sources[d][i].map(|s| f + s * own[d]));
        }
        match from {
            Some(f) => out.extend_from_slice(&x.bytes()[f * size..(f + 1) * size]),
            None => out.extend_from_slice(fill),
        }
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
    Ok(Array::from_bytes(x.element(), &shape, &out)?)
}

pub(super) fn reverse(x: &Array, dims: &Array) -> Result<Array, OpError> {
    let at = axes(dims, x.rank())?;
    let own = strides(x.shape());
    let mut view = View {
        shape: x.shape().to_vec(),
        strides: own.iter().map(|&s| s as isize).collect(),
        offset: 0,
    };
    if x.is_empty() {
        return Ok(x.clone());
    }
    for a in at {
        view.offset += ((x.shape()[a] - 1) * own[a]) as isize;
        view.strides[a] = -view.strides[a];
    }
    view.apply(x)
}

pub(super) fn range(start: &Array, stop: &Array, step: &Array) -> Result<Array, OpError> {
    let element = start.element();
    if element.is_float() {
        let value = |a: &Array| -> Result<f64, OpError> {
            match (a.element(), a.values::<f64>()) {
                (_, Ok(&[v])) => Ok(v),
                _ => match a.to_f32()?.as_slice() {
                    [v] => Ok(f64::from(*v)),
                    _ => Err(OpError::invalid("a bound of the range is not a scalar")),
                },
            }
        };
        let (a, b, s) = (value(start)?, value(stop)?, value(step)?);
        let count = ((b - a) / s).ceil();
        if !count.is_finite() {
            return Err(OpError::invalid(format!("a range from {a} to {b} by {s} does not end")));
        }
        let n = checked_len(element, &[count.clamp(0.0, 1e18) as usize])?;
        let values = (0..n).map(|i| a + i as f64 * s).collect();
        return Ok(crate::scalar::store_f64(element, &[n], values)?);
    }
    let (a, b, s) = (
        i128::from(single(start)?),
        i128::from(single(stop)?),
        i128::from(single(step)?),
    );
    if s == 0 {
        return Err(OpError::invalid("the step of a range is 0"));
    }
    let count = if s > 0 {
        (b - a + s - 1).div_euclid(s)
    } else {
        (a - b - s - 1).div_euclid(-s)
    };
    let n = checked_len(element, &[count.clamp(0, 1 << 62) as usize])?;
    let values: Vec<i128> = (0..n as i128).map(|i| a + i * s).collect();
    Ok(store_int(element, &[n], &values)?)
}
