//! Reductions, softmax, running scans and argmax.

use super::math;
use super::{around, axes, axis, single};
use crate::array::Array;
use crate::bytecode::ElementType::{self, *};
use crate::error::OpError;
use crate::program::Reduction;
use crate::scalar::{Numbers, decode, store_f32, store_f64, store_int};

/// Reduces over `dims`; they stay with extent 1.
pub(super) fn reduce(op: Reduction, x: &Array, dims: &Array) -> Result<Array, OpError> {
    let at = axes(dims, x.rank())?;
    let kept: Vec<usize> = x
        .shape()
        .iter()
        .enumerate()
        .map(|(i, &d)| if at.contains(&i) { 1 } else { d })
        .collect();
    let element = x.element();
    if op.is_logical() != (element == Bool) {
        return Err(OpError::Element(element.to_string()));
    }
    if matches!(op, Reduction::Max | Reduction::Min) && x.is_empty() && kept.iter().all(|&d| d > 0) {
        return Err(OpError::invalid(format!(
            "the largest or smallest of no elements: {x:?}"
        )));
    }
    // Reduced dimensions go last, so that each result has one run of elements.
    let order: Vec<usize> = (0..x.rank())
        .filter(|i| !at.contains(i))
        .chain(at.iter().copied())
        .collect();
    let sorted = order.iter().copied().eq(0..x.rank());
    let x = if sorted { x.clone() } else { super::permuted(x, &order)? };
    let run: usize = at
        .iter()
        .map(|&a| x.shape()[x.rank() - at.len() + at.iter().position(|&b| b == a).unwrap_or(0)])
        .product();
    let results: usize = kept.iter().product();
    fn rows<T: Copy>(v: &[T], run: usize, results: usize, empty: T, f: impl Fn(&[T]) -> T) -> Vec<T> {
        if run == 0 {
            return vec![empty; results];
        }
        v.chunks_exact(run).map(f).collect()
    }
    match decode(&x)? {
        Numbers::F32(v) => {
            let out = match op {
                Reduction::Sum => rows(&v, run, results, 0.0, sum),
                Reduction::Mean => rows(&v, run, results, f32::NAN, |r| sum(r) / r.len() as f32),
                Reduction::Max => rows(&v, run, results, f32::NEG_INFINITY, max),
                Reduction::Min => rows(&v, run, results, f32::INFINITY, |r| -max_of(r.iter().map(|&x| -x))),
                Reduction::Product => rows(&v, run, results, 1.0, |r| r.iter().product()),
                Reduction::Any | Reduction::All => {
                    return Err(OpError::Element(element.to_string()));
                }
            };
            Ok(store_f32(element, &kept, out)?)
        }
        Numbers::F64(v) => {
            let out = match op {
                Reduction::Sum => rows(&v, run, results, 0.0, |r| r.iter().sum()),
                Reduction::Mean => rows(&v, run, results, f64::NAN, |r| r.iter().sum::<f64>() / r.len() as f64),
                Reduction::Max => rows(&v, run, results, f64::NEG_INFINITY, |r| {
                    r.iter()
                        .fold(f64::NEG_INFINITY, |m, &x| if x > m || x.is_nan() { x } else { m })
                }),
                Reduction::Min => rows(&v, run, results, f64::INFINITY, |r| {
                    r.iter()
                        .fold(f64::INFINITY, |m, &x| if x < m || x.is_nan() { x } else { m })
                }),
                Reduction::Product => rows(&v, run, results, 1.0, |r| r.iter().product()),
                Reduction::Any | Reduction::All => {
                    return Err(OpError::Element(element.to_string()));
                }
            };
            Ok(store_f64(element, &kept, out)?)
        }
        Numbers::Int(v) => {
            let out = match op {
                Reduction::Sum => rows(&v, run, results, 0, |r| r.iter().sum()),
                Reduction::Max => rows(&v, run, results, 0, |r| r.iter().copied().max().unwrap_or(0)),
                Reduction::Min => rows(&v, run, results, 0, |r| r.iter().copied().min().unwrap_or(0)),
                Reduction::Product => rows(&v, run, results, 1, |r| r.iter().fold(1, |p, &x| p.wrapping_mul(x))),
                Reduction::Any => rows(&v, run, results, 0, |r| i128::from(r.iter().any(|&x| x != 0))),
                Reduction::All => rows(&v, run, results, 1, |r| i128::from(r.iter().all(|&x| x != 0))),
                Reduction::Mean => return Err(OpError::Element(element.to_string())),
            };
            Ok(store_int(element, &kept, &out)?)
        }
    }
}

/// Sum in sixteen lanes: accurate and quick.
pub(crate) fn sum(row: &[f32]) -> f32 {
    lanes(row, |x| x)
}

/// Sum of squares, likewise.
pub(crate) fn sum_of_squares(row: &[f32]) -> f32 {
    lanes(row, |x| x * x)
}

#[inline(always)]
fn lanes(row: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = row.as_chunks::<16>();
    let mut lanes = [0f32; 16];
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(x);
        }
    }
    let mut width = 8;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0] + rest.iter().map(|&x| f(x)).sum::<f32>()
}

/// The largest element; NaN when there is one.
pub(crate) fn max(row: &[f32]) -> f32 {
    max_of(row.iter().copied())
}

fn max_of(row: impl Iterator<Item = f32>) -> f32 {
    row.fold(f32::NEG_INFINITY, |m, x| if m > x || m.is_nan() { m } else { x })
}

pub(super) fn softmax(x: &Array, dim: &Array) -> Result<Array, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let (outer, n, inner) = around(x.shape(), a);
    match decode(x)? {
        Numbers::F32(v) => {
            let mut out = v.into_owned();
            if inner == 1 && n > 0 {
                out.chunks_exact_mut(n).for_each(softmax_row);
            } else {
                let mut row = vec![0.0; n];
                for o in 0..outer {
                    for i in 0..inner {
                        let at = |k: usize| (o * n + k) * inner + i;
                        (0..n).for_each(|k| row[k] = out[at(k)]);
                        softmax_row(&mut row);
                        (0..n).for_each(|k| out[at(k)] = row[k]);
                    }
                }
            }
            Ok(store_f32(x.element(), x.shape(), out)?)
        }
        Numbers::F64(v) => {
            let mut out = v.into_owned();
            for o in 0..outer {
                for i in 0..inner {
                    let at = |k: usize| (o * n + k) * inner + i;
                    let top = (0..n).fold(f64::NEG_INFINITY, |m, k| m.max(out[at(k)]));
                    (0..n).for_each(|k| out[at(k)] = (out[at(k)] - top).exp());
                    let total: f64 = (0..n).map(|k| out[at(k)]).sum();
                    (0..n).for_each(|k| out[at(k)] /= total);
                }
            }
            Ok(store_f64(x.element(), x.shape(), out)?)
        }
        Numbers::Int(_) => Err(OpError::Element(x.element().to_string())),
    }
}

/// Softmax of one row in place.
pub(crate) fn softmax_row(row: &mut [f32]) {
    let top = max(row);
    row.iter_mut().for_each(|x| *x = math::exp(*x - top));
    let scale = 1.0 / sum(row);
    row.iter_mut().for_each(|x| *x *= scale);
}

/// The index of the first largest element along an axis, which stays with extent 1. NaN counts as largest.
pub(super) fn argmax(x: &Array, dim: &Array, element: ElementType) -> Result<Array, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let (outer, n, inner) = around(x.shape(), a);
    if n == 0 {
        return Err(OpError::invalid(format!("the largest of no elements: {x:?}")));
    }
    fn go<T: Copy>(v: &[T], outer: usize, n: usize, inner: usize, better: impl Fn(T, T) -> bool) -> Vec<i128> {
        let mut out = Vec::with_capacity(outer * inner);
        for o in 0..outer {
            for i in 0..inner {
                let at = |k: usize| v[(o * n + k) * inner + i];
                out.push((1..n).fold(0, |best, k| if better(at(k), at(best)) { k } else { best }) as i128);
            }
        }
        out
    }
    let out = match decode(x)? {
        Numbers::F32(v) => go(&v, outer, n, inner, |x, b| x > b || (x.is_nan() && !b.is_nan())),
        Numbers::F64(v) => go(&v, outer, n, inner, |x, b| x > b || (x.is_nan() && !b.is_nan())),
        Numbers::Int(v) => go(&v, outer, n, inner, |x, b| x > b),
    };
    let mut shape = x.shape().to_vec();
    shape[a] = 1;
    Ok(store_int(element, &shape, &out)?)
}

/// Running sum, product, minimum or maximum along an axis, each element included.
pub(super) fn scan(x: &Array, dim: &Array, reverse: &Array, mode: u64) -> Result<Array, OpError> {
    let a = axis(single(dim)?, x.rank())?;
    let backwards = single(reverse)? != 0;
    let (outer, n, inner) = around(x.shape(), a);
    fn go<T: Copy>(v: &mut [T], (outer, n, inner): (usize, usize, usize), backwards: bool, f: impl Fn(T, T) -> T) {
        for o in 0..outer {
            for k in 1..n {
                let (to, from) = if backwards { (n - 1 - k, n - k) } else { (k, k - 1) };
                for i in 0..inner {
                    v[(o * n + to) * inner + i] = f(v[(o * n + from) * inner + i], v[(o * n + to) * inner + i]);
                }
            }
        }
    }
    macro_rules! modes {
        ($v:expr, $mul:expr) => {
            match mode {
                0 => go($v, (outer, n, inner), backwards, |a, b| a + b),
                1 => go($v, (outer, n, inner), backwards, $mul),
                2 => go($v, (outer, n, inner), backwards, |a, b| if b < a { b } else { a }),
                3 => go($v, (outer, n, inner), backwards, |a, b| if b > a { b } else { a }),
                other => return Err(OpError::invalid(format!("scan combiner {other} is not known"))),
            }
        };
    }
    match decode(x)? {
        Numbers::F32(v) => {
            let mut out = v.into_owned();
            modes!(&mut out, |a, b| a * b);
            Ok(store_f32(x.element(), x.shape(), out)?)
        }
        Numbers::F64(v) => {
            let mut out = v.into_owned();
            modes!(&mut out, |a, b| a * b);
            Ok(store_f64(x.element(), x.shape(), out)?)
        }
        Numbers::Int(mut out) => {
            modes!(&mut out, |a: i128, b: i128| a.wrapping_mul(b));
            Ok(store_int(x.element(), x.shape(), &out)?)
        }
    }
}
