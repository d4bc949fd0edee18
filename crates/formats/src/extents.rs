//! Shapes and strides: up to sixteen numbers, the innermost dimension first.

use std::fmt;
use std::ops::Deref;

/// The largest rank of a Metal tensor.
pub const MAX_RANK: usize = 16;

/// A list of more than [`MAX_RANK`] dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a tensor has at most {MAX_RANK} dimensions, {rank} were given")]
pub struct RankTooLarge {
    /// How many were given.
    pub rank: usize,
}

macro_rules! dimension_list {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name {
            rank: u8,
            values: [usize; MAX_RANK],
        }

        impl $name {
            /// From innermost to outermost. Rank 0 is a scalar.
            pub fn new(values: &[usize]) -> Result<Self, RankTooLarge> {
                if values.len() > MAX_RANK {
                    return Err(RankTooLarge { rank: values.len() });
                }
                let mut all = [0; MAX_RANK];
                all[..values.len()].copy_from_slice(values);
                Ok(Self { rank: values.len() as u8, values: all })
            }

            /// Rank 0.
            pub const fn scalar() -> Self {
                Self { rank: 0, values: [0; MAX_RANK] }
            }

            /// Number of dimensions, 0…16.
            pub const fn rank(&self) -> usize {
                self.rank as usize
            }

            /// The value of a dimension, or `None` past the rank (Metal's `extentAtDimensionIndex:` answers −1 there).
            pub fn extent(&self, dimension: usize) -> Option<usize> {
                self.as_slice().get(dimension).copied()
            }

            /// As [`extent`](Self::extent) in Metal's manner: −1 past the rank (`extentAtDimensionIndex:`).
            pub fn extent_at(&self, dimension: usize) -> i64 {
                self.extent(dimension).map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX))
            }

            /// The values, innermost first.
            pub fn as_slice(&self) -> &[usize] {
                &self.values[..self.rank as usize]
            }
        }

        impl Deref for $name {
            type Target = [usize];
            fn deref(&self) -> &[usize] {
                self.as_slice()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.as_slice() == other.as_slice()
            }
        }

        impl Eq for $name {}

        impl std::hash::Hash for $name {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.as_slice().hash(state);
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_list().entries(self.as_slice()).finish()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }

        impl TryFrom<&[usize]> for $name {
            type Error = RankTooLarge;
            fn try_from(values: &[usize]) -> Result<Self, RankTooLarge> {
                Self::new(values)
            }
        }

        impl TryFrom<Vec<usize>> for $name {
            type Error = RankTooLarge;
            fn try_from(values: Vec<usize>) -> Result<Self, RankTooLarge> {
                Self::new(&values)
            }
        }

        impl<const N: usize> From<[usize; N]> for $name {
            /// The rank is checked when the program is compiled.
            fn from(values: [usize; N]) -> Self {
                const { assert!(N <= MAX_RANK, "a tensor has at most 16 dimensions") };
                let mut all = [0; MAX_RANK];
                all[..N].copy_from_slice(&values);
                Self { rank: N as u8, values: all }
            }
        }
    };
}

dimension_list! {
    /// The size of each dimension in elements, index 0 innermost: a row-major matrix of M rows and K columns is
    /// `[K, M]`. Also used for slice origins and block factors.
    Extents
}

dimension_list! {
    /// The distance between neighbours in each dimension, in **elements** (also for sub-byte formats), index 0 innermost.
    Strides
}

impl Extents {
    /// The product of the dimensions (1 for a scalar), or `None` where it does not fit.
    pub fn element_count(&self) -> Option<usize> {
        self.iter().try_fold(1usize, |all, &n| all.checked_mul(n))
    }

    /// Strides without gaps: 1, then each the product of the dimensions inside it. `None` on overflow.
    pub fn packed_strides(&self) -> Option<Strides> {
        let mut strides = Strides::scalar();
        strides.rank = self.rank;
        let mut next = 1usize;
        for (stride, &n) in strides.values.iter_mut().zip(self.iter()) {
            *stride = next;
            next = next.checked_mul(n)?;
        }
        Some(strides)
    }

    /// Dimension by dimension division, rounding up: the shape of a plane with these block factors. Missing factors and
    /// factors of zero count as 1.
    pub fn divided_by(&self, factors: &Extents) -> Extents {
        let mut result = *self;
        for (d, value) in result.values[..self.rank as usize].iter_mut().enumerate() {
            *value = value.div_ceil(factors.extent(d).unwrap_or(1).max(1));
        }
        result
    }
}

impl Strides {
    /// How many elements lie between the first and one past the last element of a tensor of this shape; 0 when a
    /// dimension is 0, `None` on overflow.
    pub fn span(&self, extents: &Extents) -> Option<usize> {
        if extents.contains(&0) {
            return Some(0);
        }
        let mut last = 0usize;
        for (&n, &stride) in extents.iter().zip(self.iter()) {
            last = last.checked_add((n - 1).checked_mul(stride)?)?;
        }
        last.checked_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_zero_to_sixteen() {
        assert_eq!(Extents::new(&[]).unwrap().element_count(), Some(1));
        assert_eq!(Extents::new(&[2; 16]).unwrap().element_count(), Some(65536));
        assert_eq!(Extents::new(&[1; 17]), Err(RankTooLarge { rank: 17 }));
        assert_eq!(Extents::from([usize::MAX, 2]).element_count(), None);
    }

    #[test]
    fn packed_and_span() {
        let extents = Extents::from([5, 3, 2]);
        let strides = extents.packed_strides().unwrap();
        assert_eq!(strides, Strides::from([1, 5, 15]));
        assert_eq!(strides.span(&extents), Some(30));
        assert_eq!(Strides::from([1, 8]).span(&Extents::from([5, 3])), Some(21));
        assert_eq!(Strides::from([1, usize::MAX]).span(&Extents::from([5, 3])), None);
        assert_eq!(Strides::from([1, 8]).span(&Extents::from([0, 3])), Some(0));
    }

    #[test]
    fn blocks_round_up() {
        assert_eq!(
            Extents::from([65, 3]).divided_by(&Extents::from([32])),
            Extents::from([3, 3])
        );
    }

    #[test]
    fn unused_values_do_not_matter() {
        let a = Extents::from([4, 2]);
        assert_eq!(a.extent(1), Some(2));
        assert_eq!(a.extent(2), None);
        assert_eq!(format!("{a}"), "[4, 2]");
    }
}
