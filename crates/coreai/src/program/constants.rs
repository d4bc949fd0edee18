//! Constants: decoded when they are first used, so that a splat of a huge shape costs nothing at load.

use crate::array::{Array, ArrayError, checked_len};
use crate::bytecode::ElementType::{self, *};
use crate::bytes::SharedBytes;

/// A constant's bytes as they stand in the file.
#[derive(Debug, Clone)]
pub struct Constant {
    /// Element type.
    pub element: ElementType,
    /// Shape.
    pub shape: Vec<usize>,
    /// One element stands for all.
    pub splat: bool,
    /// The data comes from the resource section, where types below eight bits are packed.
    pub packed: bool,
    /// The bytes.
    pub bytes: SharedBytes,
}

impl Constant {
    /// Number of elements.
    pub(crate) fn elements(&self) -> Result<usize, ArrayError> {
        checked_len(self.element, &self.shape)
    }

    /// Bytes that the data must have in the file.
    fn stored_size(&self) -> Result<usize, ArrayError> {
        let n = self.elements()?;
        Ok(match (self.element, self.packed) {
            // A splat of bools is stored in full.
            (Bool, _) => n,
            _ if self.splat => self.element.size().min(n * self.element.size()),
            (U1, _) => n.div_ceil(8),
            (U2 | I2, true) => n.div_ceil(4),
            (U4 | I4 | F4E2M1FN, true) => n.div_ceil(2),
            (U6, true) => n.div_ceil(4) * 3,
            (U3, true) => n.div_ceil(8) * 3,
            (element, _) => n * element.size(),
        })
    }

    /// Checks that the bytes fit the type.
    pub(crate) fn check(&self) -> Result<(), ArrayError> {
        let needed = self.stored_size()?;
        // A bool splat of one byte is accepted as well: it has one meaning only.
        if self.bytes.len() == needed || (self.splat && self.bytes.len() == self.element.size()) {
            return Ok(());
        }
        Err(ArrayError::Size {
            element: self.element,
            shape: self.shape.clone(),
            needed,
            given: self.bytes.len(),
        })
    }

    /// The constant as an array. Plain data is shared with the file.
    pub fn array(&self) -> Result<Array, ArrayError> {
        self.check()?;
        let n = self.elements()?;
        let size = self.element.size();
        if self.splat && self.bytes.len() == size && n != 1 {
            let mut out = Vec::new();
            out.try_reserve_exact(n * size).map_err(|_| ArrayError::TooLarge {
                element: self.element,
                shape: self.shape.clone(),
            })?;
            for _ in 0..n {
                out.extend_from_slice(&self.bytes);
            }
            return Array::from_bytes(self.element, &self.shape, &out);
        }
        if n * size == self.bytes.len() && !(self.element == U1 && n > 0 && self.bytes.len() == n.div_ceil(8)) {
            return Array::new(self.element, &self.shape, self.bytes.clone());
        }
        let unpacked = unpack(&self.bytes, self.element.bits(), n);
        Array::from_vec(self.element, &self.shape, unpacked)
    }
}

/// Spreads `n` values of `bits` bits, lowest bits first, to a byte each.
fn unpack(bytes: &[u8], bits: usize, n: usize) -> Vec<u8> {
    let mask = ((1u16 << bits) - 1) as u8;
    (0..n)
        .map(|i| {
            let at = i * bits;
            let low = u16::from(bytes.get(at / 8).copied().unwrap_or(0));
            let high = u16::from(bytes.get(at / 8 + 1).copied().unwrap_or(0));
            ((low | high << 8) >> (at % 8)) as u8 & mask
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(element: ElementType, shape: &[usize], splat: bool, packed: bool, bytes: &[u8]) -> Constant {
        Constant {
            element,
            shape: shape.to_vec(),
            splat,
            packed,
            bytes: SharedBytes::new(bytes.to_vec()),
        }
    }

    #[test]
    fn packed_data() {
        let six = constant(U6, &[4], false, true, &[1 | 2 << 6, (3 << 4), (63 << 2)])
            .array()
            .unwrap();
        assert_eq!(six.bytes(), &[1, 2, 3, 63]);
        let four = constant(I4, &[3], false, true, &[0xe1, 0x07]).array().unwrap();
        assert_eq!(four.to_integers().unwrap(), [1, -2, 7]);
        let one = constant(U1, &[9], false, false, &[0b1000_0001, 1]).array().unwrap();
        assert_eq!(one.bytes(), &[1, 0, 0, 0, 0, 0, 0, 1, 1]);
        let single = constant(U1, &[1], false, false, &[1]).array().unwrap();
        assert_eq!(single.bytes(), &[1]);
        let inline = constant(I4, &[3], false, false, &[1, 0xe, 7]).array().unwrap();
        assert_eq!(inline.to_integers().unwrap(), [1, -2, 7]);
    }

    #[test]
    fn splats_and_sizes() {
        let splat = constant(F32, &[2, 3], true, false, &1.5f32.to_le_bytes())
            .array()
            .unwrap();
        assert_eq!(splat.values::<f32>().unwrap(), &[1.5; 6]);
        assert_eq!(constant(F32, &[0, 3], false, false, &[]).array().unwrap().len(), 0);
        let short = constant(F32, &[2], false, false, &[0; 4]).array().unwrap_err();
        assert_eq!(short.to_string(), "float32[2] needs 8 bytes, 4 were given");
        let huge = constant(F32, &[usize::MAX, 3], true, false, &[0; 4])
            .array()
            .unwrap_err();
        assert!(matches!(huge, ArrayError::TooLarge { .. }));
    }
}
