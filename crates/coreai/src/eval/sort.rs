//! Sorting, sorted order, and the places of non-zero elements.

use std::cmp::Ordering;

use super::{around, axis, single};
use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::scalar::{Numbers, decode, store_int};

/// The stable order of each run along the axis; NaN goes last, also when descending.
fn orders(x: &Array, a: usize, descending: bool) -> Result<Vec<usize>, OpError> {
    let (outer, n, inner) = around(x.shape(), a);
    let mut out = vec![0; x.len()];
    let mut fill = |compare: &dyn Fn(usize, usize) -> Ordering| {
        for o in 0..outer {
            for i in 0..inner {
                let at = |k: usize| (o * n + k) * inner + i;
                let mut order: Vec<usize> = (0..n).collect();
                order.sort_by(|&p, &q| compare(at(p), at(q)));
                order.iter().enumerate().for_each(|(k, &from)| out[at(k)] = from);
            }
        }
    };
    let turn = |order: Ordering| if descending { order.reverse() } else { order };
    match decode(x)? {
        Numbers::F32(v) => fill(&|p, q| {
            let (p, q) = (v[p], v[q]);
            p.partial_cmp(&q)
                .map(turn)
                .unwrap_or_else(|| p.is_nan().cmp(&q.is_nan()))
        }),
        Numbers::F64(v) => fill(&|p, q| {
            let (p, q) = (v[p], v[q]);
            p.partial_cmp(&q)
                .map(turn)
                .unwrap_or_else(|| p.is_nan().cmp(&q.is_nan()))
        }),
        Numbers::Int(v) => fill(&|p, q| turn(v[p].cmp(&v[q]))),
    }
    Ok(out)
}

pub(super) fn sort(x: &Array, dim: &Array, descending: &Array) -> Result<Array, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let orders = orders(x, a, single(descending)? != 0)?;
    let (outer, n, inner) = around(x.shape(), a);
    let size = x.element().size();
    let mut out = vec![0; x.bytes().len()];
    for o in 0..outer {
        for k in 0..n {
            for i in 0..inner {
                let to = (o * n + k) * inner + i;
                let from = (o * n + orders[to]) * inner + i;
                out[to * size..(to + 1) * size].copy_from_slice(&x.bytes()[from * size..(from + 1) * size]);
            }
        }
    }
    Ok(Array::from_bytes(x.element(), x.shape(), &out)?)
}

pub(super) fn argsort(x: &Array, dim: &Array, descending: &Array, element: ElementType) -> Result<Array, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let values: Vec<i128> = orders(x, a, single(descending)? != 0)?
        .into_iter()
        .map(|k| k as i128)
        .collect();
    Ok(store_int(element, x.shape(), &values)?)
}

/// Coordinates of the elements that are not zero: [count, rank].
pub(super) fn non_zero(x: &Array, element: ElementType) -> Result<Array, OpError> {
    let flags: Vec<bool> = match decode(x)? {
        Numbers::F32(v) => v.iter().map(|&x| x != 0.0).collect(),
        Numbers::F64(v) => v.iter().map(|&x| x != 0.0).collect(),
        Numbers::Int(v) => v.iter().map(|&x| x != 0).collect(),
    };
    let own = super::strides(x.shape());
    let mut out = Vec::new();
    for (at, _) in flags.iter().enumerate().filter(|(_, f)| **f) {
        out.extend(own.iter().zip(x.shape()).map(|(&s, &d)| (at / s % d) as i128));
    }
    let count = flags.iter().filter(|f| **f).count();
    let shape = [count, x.rank()];
    checked_len(element, &shape)?;
    Ok(store_int(element, &shape, &out)?)
}
