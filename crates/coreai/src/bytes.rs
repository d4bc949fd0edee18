//! Shared, read-only byte ranges: the mapped asset file and slices of it.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A cheaply cloned range of bytes with a shared owner. Weights are ranges of the mapped asset file, so cloning one
/// copies no data and keeps the mapping alive.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    start: usize,
    end: usize,
}

impl SharedBytes {
    /// Takes ownership of `owner` and covers all of its bytes.
    pub fn new<T: AsRef<[u8]> + Send + Sync + 'static>(owner: T) -> Self {
        let end = owner.as_ref().len();
        Self {
            owner: Arc::new(owner),
            start: 0,
            end,
        }
    }

    /// A sub-range, or `None` when `range` does not lie inside.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        Some(Self {
            owner: self.owner.clone(),
            start: self.start + range.start,
            end: self.start + range.end,
        })
    }

    /// The owner and the range of its bytes that this value covers.
    pub fn parts(&self) -> (Arc<dyn AsRef<[u8]> + Send + Sync>, Range<usize>) {
        (self.owner.clone(), self.start..self.end)
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.start..self.end]
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} bytes)", self.len())
    }
}

/// Bytes in memory that is aligned for every element type (8 bytes), so that typed views never need a copy.
pub struct AlignedBytes {
    words: Vec<u64>,
    len: usize,
}

impl AlignedBytes {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(8)],
            len,
        }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut out = Self::zeroed(bytes.len());
        out.bytes_mut().copy_from_slice(bytes);
        out
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_share_and_check() {
        let bytes = SharedBytes::new(vec![1u8, 2, 3, 4, 5]);
        let part = bytes.slice(1..4).unwrap();
        assert_eq!(&*part, &[2, 3, 4]);
        assert_eq!(&*part.slice(1..3).unwrap(), &[3, 4]);
        assert!(part.slice(1..4).is_none());
        assert!(bytes.slice(0..6).is_none());
    }

    #[test]
    fn aligned_bytes_keep_their_length() {
        let copy = AlignedBytes::copy_of(&[9; 13]);
        assert_eq!(copy.as_ref(), &[9; 13]);
        assert_eq!(copy.as_ref().as_ptr() as usize % 8, 0);
    }
}
