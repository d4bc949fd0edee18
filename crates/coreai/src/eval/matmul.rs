//! Batched matrix products.

use super::{broadcast_shape, strides};
use crate::array::{Array, checked_len};
use crate::error::OpError;
use crate::scalar::{Numbers, decode, store_f32, store_f64, store_int};

/// Products with more multiplications than this use both of a machine's cores.
const PARALLEL_WORK: usize = 1 << 20;

/// One product of a batch: which matrices, by index.
struct Plan {
    shape: Vec<usize>,
    m: usize,
    n: usize,
    k: usize,
    pairs: Vec<(usize, usize)>,
}

fn plan(a: &Array, b: &Array) -> Result<Plan, OpError> {
    let (sa, sb) = (a.shape(), b.shape());
    let misfit = || OpError::invalid(format!("matrices {a:?} and {b:?} do not multiply"));
    if sa.len() < 2 || sb.len() < 2 || a.element() != b.element() {
        return Err(misfit());
    }
    let (ba, ma) = sa.split_at(sa.len() - 2);
    let (bb, mb) = sb.split_at(sb.len() - 2);
    if ma[1] != mb[0] {
        return Err(misfit());
    }
    let batch = broadcast_shape(ba, bb)?;
    let mut shape = batch.clone();
    shape.extend([ma[0], mb[1]]);
    checked_len(a.element(), &shape)?;
    let index = |own: &[usize], mut flat: usize| {
        let st = strides(own);
        let lead = batch.len() - own.len();
        let mut at = 0;
        for d in (0..batch.len()).rev() {
            let i = flat % batch[d].max(1);
            flat /= batch[d].max(1);
            if d >= lead && own[d - lead] != 1 {
                at += i * st[d - lead];
            }
        }
        at
    };
    let count: usize = batch.iter().product();
    let pairs = (0..count).map(|f| (index(ba, f), index(bb, f))).collect();
    Ok(Plan {
        shape,
        m: ma[0],
        n: mb[1],
        k: ma[1],
        pairs,
    })
}

pub(super) fn batch_matmul(a: &Array, b: &Array) -> Result<Array, OpError> {
    if a.element().is_complex() {
        return Err(OpError::Element(a.element().to_string()));
    }
    let p = plan(a, b)?;
    let (mk, kn, mn) = (p.m * p.k, p.k * p.n, p.m * p.n);
    let total = p.pairs.len() * mn;
    match (decode(a)?, decode(b)?) {
        (Numbers::F32(x), Numbers::F32(y)) => {
            let mut out = vec![0f32; total];
            // A batch over one right matrix is one tall product.
            if p.pairs.len() > 1 && p.pairs.iter().enumerate().all(|(i, &q)| q == (i, 0)) {
                matmul_f32(&x, &y, &mut out, p.m * p.pairs.len(), p.n, p.k);
            } else {
                for (i, &(ia, ib)) in p.pairs.iter().enumerate() {
                    let c = &mut out[i * mn..(i + 1) * mn];
                    matmul_f32(&x[ia * mk..(ia + 1) * mk], &y[ib * kn..(ib + 1) * kn], c, p.m, p.n, p.k);
                }
            }
            Ok(store_f32(a.element(), &p.shape, out)?)
        }
        (Numbers::F64(x), Numbers::F64(y)) => {
            let mut out = vec![0f64; total];
            for (i, &(ia, ib)) in p.pairs.iter().enumerate() {
                for r in 0..p.m {
                    for k in 0..p.k {
                        let left = x[ia * mk + r * p.k + k];
                        for c in 0..p.n {
                            out[i * mn + r * p.n + c] += left * y[ib * kn + k * p.n + c];
                        }
                    }
                }
            }
            Ok(store_f64(a.element(), &p.shape, out)?)
        }
        (Numbers::Int(x), Numbers::Int(y)) => {
            let mut out = vec![0i128; total];
            for (i, &(ia, ib)) in p.pairs.iter().enumerate() {
                for r in 0..p.m {
                    for c in 0..p.n {
                        out[i * mn + r * p.n + c] = (0..p.k).fold(0i128, |s, k| {
                            s.wrapping_add(x[ia * mk + r * p.k + k].wrapping_mul(y[ib * kn + k * p.n + c]))
                        });
                    }
                }
            }
            Ok(store_int(a.element(), &p.shape, &out)?)
        }
        _ => Err(OpError::Element(a.element().to_string())),
    }
}

/// c = a · b for row-major m×k and k×n matrices, on all cores when it is large.
pub(crate) fn matmul_f32(a: &[f32], b: &[f32], c: &mut [f32], m: usize, n: usize, k: usize) {
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        c.fill(0.0);
        return;
    }
    let workers = std::thread::available_parallelism()
        .map_or(1, |n| n.get())
        .min(m.div_ceil(4));
    if workers < 2 || m * n * k < PARALLEL_WORK {
        return block_rows(a, b, c, n, k);
    }
    let rows = m.div_ceil(workers).next_multiple_of(4);
    std::thread::scope(|scope| {
        for (a, c) in a.chunks(rows * k).zip(c.chunks_mut(rows * n)) {
            scope.spawn(move || block_rows(a, b, c, n, k));
        }
    });
}

/// Four rows by sixteen columns at a time stay in registers.
fn block_rows(a: &[f32], b: &[f32], c: &mut [f32], n: usize, k: usize) {
    const R: usize = 4;
    const C: usize = 16;
    let m = a.len() / k;
    // A panel of columns, packed so that the innermost loop reads in sequence.
    let mut panel = vec![[0f32; C]; k];
    for j in (0..n).step_by(C) {
        let width = C.min(n - j);
        for (row, slot) in b.chunks_exact(n).zip(panel.iter_mut()) {
            slot[..width].copy_from_slice(&row[j..j + width]);
        }
        for i in (0..m).step_by(R) {
            let height = R.min(m - i);
            let mut acc = [[0f32; C]; R];
            if height == R {
                let rows: [&[f32]; R] = std::array::from_fn(|r| &a[(i + r) * k..(i + r + 1) * k]);
                for (p, right) in panel.iter().enumerate() {
                    for r in 0..R {
                        let left = rows[r][p];
                        for x in 0..C {
                            acc[r][x] += left * right[x];
                        }
                    }
                }
            } else {
                for r in 0..height {
                    let row = &a[(i + r) * k..(i + r + 1) * k];
                    for (&left, right) in row.iter().zip(&panel) {
                        for x in 0..C {
                            acc[r][x] += left * right[x];
                        }
                    }
                }
            }
            for r in 0..height {
                c[(i + r) * n + j..(i + r) * n + j + width].copy_from_slice(&acc[r][..width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_match_a_plain_loop() {
        for (m, n, k) in [(1, 1, 1), (5, 17, 3), (4, 16, 8), (37, 65, 129), (130, 70, 140)] {
            let a: Vec<f32> = (0..m * k).map(|i| ((i * 37 % 23) as f32 - 11.0) / 7.0).collect();
            let b: Vec<f32> = (0..k * n).map(|i| ((i * 53 % 29) as f32 - 14.0) / 9.0).collect();
            let mut c = vec![0.0; m * n];
            matmul_f32(&a, &b, &mut c, m, n, k);
            for r in 0..m {
                for j in 0..n {
                    let want: f64 = (0..k).map(|p| f64::from(a[r * k + p]) * f64::from(b[p * n + j])).sum();
                    assert!((f64::from(c[r * n + j]) - want).abs() < 1e-4 * (1.0 + want.abs()));
                }
            }
        }
    }

    #[test]
    fn batches_broadcast() {
        let a = Array::from_values(&[2, 1, 2, 3], (0..12).map(|v| v as f32).collect()).unwrap();
        let b = Array::from_values(&[2, 3, 1], (0..6).map(|v| v as f32).collect()).unwrap();
        let c = batch_matmul(&a, &b).unwrap();
        assert_eq!(c.shape(), &[2, 2, 2, 1]);
        assert_eq!(
            c.values::<f32>().unwrap(),
            &[5.0, 14.0, 14.0, 50.0, 23.0, 32.0, 86.0, 122.0]
        );
        assert!(batch_matmul(&a, &a).is_err());
    }
}
