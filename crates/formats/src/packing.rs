//! Elements in memory: little-endian, sub-byte elements from the low bits up.

use crate::codec::Saturation;
use crate::format::ElementFormat;

impl ElementFormat {
    /// The code of element `index` of `bytes`, or `None` past the end.
    pub fn load(self, bytes: &[u8], index: usize) -> Option<u64> {
        let bits = self.bits();
        if bits < 8 {
            let per_byte = 8 / bits;
            let byte = *bytes.get(index / per_byte)?;
            let shift = index % per_byte * bits;
            return Some(u64::from(byte >> shift) & ((1 << bits) - 1));
        }
        let size = bits / 8;
        let start = index.checked_mul(size)?;
        let slice = bytes.get(start..start.checked_add(size)?)?;
        let mut word = [0; 8];
        word[..size].copy_from_slice(slice);
        Some(u64::from_le_bytes(word))
    }

    /// Writes `code` to element `index` of `bytes`, leaving its neighbours as they are. Returns `false` past the end.
    #[must_use]
    pub fn store(self, bytes: &mut [u8], index: usize, code: u64) -> bool {
        let bits = self.bits();
        if bits < 8 {
            let per_byte = 8 / bits;
            let Some(byte) = bytes.get_mut(index / per_byte) else {
                return false;
            };
            let shift = index % per_byte * bits;
            let mask = ((1u16 << bits) - 1) as u8;
            *byte = (*byte & !(mask << shift)) | ((code as u8 & mask) << shift);
            return true;
        }
        let size = bits / 8;
        let slice = index
            .checked_mul(size)
            .and_then(|start| bytes.get_mut(start..start.checked_add(size)?));
        match slice {
            Some(slice) => slice.copy_from_slice(&code.to_le_bytes()[..size]),
            None => return false,
        }
        true
    }

    /// Encodes `values` one after the other into fresh bytes.
    pub fn pack(self, values: impl IntoIterator<Item = f64>, saturation: Saturation) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.bits() < 8 {
            let per_byte = 8 / self.bits();
            for (index, value) in values.into_iter().enumerate() {
                if index % per_byte == 0 {
                    bytes.push(0);
                }
                let shift = index % per_byte * self.bits();
                if let Some(last) = bytes.last_mut() {
                    *last |= (self.encode_with(value, saturation) as u8) << shift;
                }
            }
        } else {
            for value in values {
                bytes.extend_from_slice(&self.encode_with(value, saturation).to_le_bytes()[..self.bits() / 8]);
            }
        }
        bytes
    }

    /// As [`pack`](Self::pack) for `f32` values, faster for the formats of 16 and 32 bits. The results are the same except
    /// for the payloads of NaNs.
    pub fn pack_f32(self, values: &[f32], saturation: Saturation) -> Vec<u8> {
        let overflow = saturation != Saturation::Clamp;
        match self {
            ElementFormat::F32 if overflow => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            ElementFormat::F16 if overflow => values
                .iter()
                .flat_map(|&v| half::f16::from_f32(v).to_le_bytes())
                .collect(),
            ElementFormat::BF16 if overflow => values
                .iter()
                .flat_map(|&v| half::bf16::from_f32(v).to_le_bytes())
                .collect(),
            _ => self.pack(values.iter().map(|&v| f64::from(v)), saturation),
        }
    }

    /// Decodes the first `count` elements of `bytes` as `f32`, or `None` when there are fewer.
    pub fn unpack(self, bytes: &[u8], count: usize) -> Option<Vec<f32>> {
        let bytes = bytes.get(..self.bytes_for(count))?;
        let pair = |c: &[u8]| [c[0], c[1]];
        Some(match self {
            ElementFormat::F32 => bytes
                .chunks_exact(4)
                .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
                .collect(),
            ElementFormat::F16 => bytes
                .chunks_exact(2)
                .map(|c| half::f16::from_le_bytes(pair(c)).to_f32())
                .collect(),
            ElementFormat::BF16 => bytes
                .chunks_exact(2)
                .map(|c| half::bf16::from_le_bytes(pair(c)).to_f32())
                .collect(),
            _ => (0..count)
                .map(|index| self.load(bytes, index).map_or(f32::NAN, |code| self.decode_f32(code)))
                .collect(),
        })
    }
}
