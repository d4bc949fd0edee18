//! Affine forms over the dimensions of an iteration space: where an element lies in memory, or where it lies along a
//! dimension of something that was cut, padded or joined.

/// `offset + Σ coefs[d] · index[d]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Affine {
    pub offset: i64,
    pub coefs: Vec<i64>,
}

impl Affine {
    /// The same number everywhere.
    pub fn constant(offset: i64, rank: usize) -> Self {
        Self {
            offset,
            coefs: vec![0; rank],
        }
    }

    /// The index along dimension `d`, times `step`, plus `offset`.
    pub fn index(d: usize, rank: usize, step: i64, offset: i64) -> Self {
        let mut coefs = vec![0; rank];
        coefs[d] = step;
        Self { offset, coefs }
    }

    /// The place of each element of a dense row-major array.
    pub fn dense(shape: &[usize]) -> Self {
        Self {
            offset: 0,
            coefs: crate::eval::strides(shape).into_iter().map(|s| s as i64).collect(),
        }
    }

    /// This form over the dimensions of another space: `map[d]` says which index along dimension d of this one each of its
    /// elements has.
    pub fn through(&self, map: &[Affine], rank: usize) -> Self {
        let mut out = Self::constant(self.offset, rank);
        for (&coef, inner) in self.coefs.iter().zip(map) {
            out.offset += coef * inner.offset;
            for (to, from) in out.coefs.iter_mut().zip(&inner.coefs) {
                *to += coef * from;
            }
        }
        out
    }

    /// True when dimensions `d` and `d + 1` of `shape` can be counted as one.
    fn joins(&self, shape: &[usize], d: usize) -> bool {
        self.coefs[d] == self.coefs[d + 1] * shape[d + 1] as i64
    }

    /// The same form when the elements of `from`, in row-major order, are counted by the indices of `to`. `None` when that
    /// is no affine form.
    pub fn reshaped(&self, from: &[usize], to: &[usize]) -> Option<Self> {
        let mut out = Self::constant(self.offset, to.len());
        let (mut i, mut j) = (0, 0);
        // Blocks of dimensions with the same number of elements, each as short as possible.
        while i < from.len() || j < to.len() {
            let (start_i, start_j) = (i, j);
            let (mut left, mut right) = (1usize, 1usize);
            if i < from.len() {
                left = from[i];
                i += 1;
            }
            if j < to.len() {
                right = to[j];
                j += 1;
            }
            while left != right {
                if left < right {
                    left = left.checked_mul(*from.get(i)?)?;
                    i += 1;
                } else {
                    right = right.checked_mul(*to.get(j)?)?;
                    j += 1;
                }
            }
            // Extents of 1 have no index of their own.
            let mut run: Option<(usize, i64)> = None;
            for d in (start_i..i).rev().filter(|&d| from[d] != 1) {
                match &mut run {
                    None => run = Some((from[d], self.coefs[d])),
                    Some((extent, step)) if self.coefs[d] == *step * *extent as i64 => *extent *= from[d],
                    _ => return None,
                }
            }
            let mut step = run.map_or(0, |(_, step)| step);
            for d in (start_j..j).rev() {
                if to[d] != 1 {
                    out.coefs[d] = step;
                    step *= to[d] as i64;
                }
            }
        }
        Some(out)
    }
}

/// Counts dimensions of `shape` as one where every form allows it, without a change in what the forms say. Dimensions
/// below `fixed` are only joined among each other. Gives the new shape and how many of its dimensions stand for the first
/// `fixed`.
pub(crate) fn merge(shape: &[usize], fixed: usize, forms: &[&Affine]) -> (Vec<usize>, usize) {
    let mut out: Vec<usize> = Vec::new();
    let mut outer = 0;
    let mut last: Option<usize> = None;
    for d in 0..shape.len() {
        if d == fixed {
            outer = out.len();
            last = None;
        }
        if shape[d] == 1 {
            continue;
        }
        // The dimension before this one whose extent is not 1, when both lie on the same side.
        let joins = last.is_some_and(|before| {
            forms.iter().all(|form| {
                if before + 1 == d {
                    form.joins(shape, before)
                } else {
                    form.coefs[before] == form.coefs[d] * shape[d] as i64
                }
            })
        });
        match out.last_mut() {
            Some(extent) if joins => *extent *= shape[d],
            _ => out.push(shape[d]),
        }
        last = Some(d);
    }
    if shape.len() <= fixed {
        outer = out.len();
    }
    (out, outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a form over a space, in row-major order.
    fn values(form: &Affine, shape: &[usize]) -> Vec<i64> {
        let total: usize = shape.iter().product();
        (0..total)
            .map(|mut flat| {
                let mut at = form.offset;
                for d in (0..shape.len()).rev() {
                    at += form.coefs[d] * (flat % shape[d]) as i64;
                    flat /= shape[d];
                }
                at
            })
            .collect()
    }

    #[test]
    fn a_reshape_keeps_the_order_of_elements() {
        let dense = Affine::dense(&[2, 3, 4]);
        for to in [&[24][..], &[6, 4], &[2, 1, 12], &[3, 8], &[1, 2, 2, 6, 1]] {
            let form = dense.reshaped(&[2, 3, 4], to).unwrap();
            assert_eq!(values(&form, to), (0..24).collect::<Vec<_>>());
        }
        // A transposed matrix is no affine function of a flat index.
        let turned = Affine {
            offset: 5,
            coefs: vec![1, 3],
        };
        assert_eq!(turned.reshaped(&[3, 4], &[12]), None);
        let split = turned.reshaped(&[3, 4], &[3, 1, 2, 2]).unwrap();
        assert_eq!(values(&split, &[3, 1, 2, 2]), values(&turned, &[3, 4]));
        assert_eq!(Affine::constant(7, 1).reshaped(&[1], &[]), Some(Affine::constant(7, 0)));
    }

    #[test]
    fn merging_keeps_what_forms_say() {
        let shape = [2, 3, 1, 4, 5];
        let dense = Affine::dense(&shape);
        assert_eq!(merge(&shape, 0, &[&dense]), (vec![120], 0));
        assert_eq!(merge(&shape, 2, &[&dense]), (vec![6, 20], 1));
        let bias = Affine {
            offset: 0,
            coefs: vec![0, 0, 0, 5, 1],
        };
        assert_eq!(merge(&shape, 0, &[&dense, &bias]), (vec![6, 20], 0));
        let (merged, _) = merge(&shape, 0, &[&bias]);
        assert_eq!(
            values(&bias.reshaped(&shape, &merged).unwrap(), &merged),
            values(&bias, &shape)
        );
        assert_eq!(merge(&[1, 1], 1, &[]), (vec![], 0));
    }

    #[test]
    fn forms_compose() {
        // A slice from 1 by 2 of the second dimension of a transposed matrix.
        let dense = Affine::dense(&[4, 7]);
        let map = [Affine::index(1, 2, 2, 1), Affine::index(0, 2, 1, 0)];
        let form = dense.through(&map, 2);
        assert_eq!((form.offset, form.coefs), (7, vec![1, 14]));
    }
}
