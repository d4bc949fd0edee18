//! A bounds-checked position in the bytecode: every read says what it wanted, so that an error can.

use super::BytecodeError;

/// Reads forward through `data`, whose first byte is byte `base` of the file.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    pos: usize,
    base: usize,
}

/// Header and content of one section.
pub(crate) struct Section<'a> {
    pub id: u8,
    pub offset: usize,
    pub body: Cursor<'a>,
}

impl<'a> Cursor<'a> {
    pub fn new(data: &'a [u8], base: usize) -> Self {
        Self { data, pos: 0, base }
    }

    /// The position in the file.
    pub fn offset(&self) -> usize {
        self.base + self.pos
    }

    pub fn remaining(&self) -> usize {
        self.data.len() - self.pos
    }

    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    pub fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], BytecodeError> {
        if len > self.remaining() {
            return Err(BytecodeError::Truncated {
                what,
                offset: self.offset(),
                needed: len as u64,
                available: self.remaining(),
            });
        }
        let out = &self.data[self.pos..self.pos + len];
        self.pos += len;
        Ok(out)
    }

    /// As [`Cursor::take`] for a length that comes from the file.
    pub fn take_u64(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], BytecodeError> {
        match usize::try_from(len) {
            Ok(len) => self.take(len, what),
            Err(_) => Err(BytecodeError::Truncated {
                what,
                offset: self.offset(),
                needed: len,
                available: self.remaining(),
            }),
        }
    }

    pub fn byte(&mut self, what: &'static str) -> Result<u8, BytecodeError> {
        Ok(self.take(1, what)?[0])
    }

    /// A raw byte that must be 0 or 1.
    pub fn boolean(&mut self, what: &'static str) -> Result<bool, BytecodeError> {
        let offset = self.offset();
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(BytecodeError::BadValue {
                what,
                offset,
                value: u64::from(value),
            }),
        }
    }

    /// MLIR's PrefixVarInt: the number of trailing zero bits of the first byte is the number of further bytes.
    pub fn varint(&mut self, what: &'static str) -> Result<u64, BytecodeError> {
        let first = self.byte(what)?;
        if first & 1 == 1 {
            return Ok(u64::from(first >> 1));
        }
        if first == 0 {
            let bytes = self.take(8, what)?;
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            return Ok(u64::from_le_bytes(word));
        }
        let extra = first.trailing_zeros() as usize;
        let bytes = self.take(extra, what)?;
        let mut word = [0u8; 8];
        word[0] = first;
        word[1..=extra].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(word) >> (extra + 1))
    }

    /// Zig-zag signed form of [`Cursor::varint`].
    pub fn svarint(&mut self, what: &'static str) -> Result<i64, BytecodeError> {
        let value = self.varint(what)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A varint whose low bit is a flag.
    pub fn flag_varint(&mut self, what: &'static str) -> Result<(u64, bool), BytecodeError> {
        let value = self.varint(what)?;
        Ok((value >> 1, value & 1 == 1))
    }

    /// A number of items that each take at least one further byte: a larger number cannot be true and is refused
    /// before anything is allocated for it.
    pub fn count(&mut self, what: &'static str) -> Result<usize, BytecodeError> {
        let offset = self.offset();
        let count = self.varint(what)?;
        self.check_count(count, offset, what)
    }

    pub fn check_count(&self, count: u64, offset: usize, what: &'static str) -> Result<usize, BytecodeError> {
        if count > self.remaining() as u64 {
            return Err(BytecodeError::Count {
                what,
                offset,
                count,
                available: self.remaining(),
            });
        }
        Ok(count as usize)
    }

    /// An index into a table of `len` entries.
    pub fn index(&mut self, what: &'static str, len: usize) -> Result<usize, BytecodeError> {
        let offset = self.offset();
        let index = self.varint(what)?;
        check_index(index, len, what, offset)
    }

    /// Skips the 0xCB padding up to a multiple of `align` in the file.
    pub fn align(&mut self, align: u64, what: &'static str) -> Result<(), BytecodeError> {
        let offset = self.offset();
        if !align.is_power_of_two() || align > 1 << 30 {
            return Err(BytecodeError::BadValue {
                what,
                offset,
                value: align,
            });
        }
        let padding = (offset as u64).next_multiple_of(align) - offset as u64;
        for &byte in self.take_u64(padding, what)? {
            if byte != 0xCB {
                return Err(BytecodeError::BadValue {
                    what: "padding byte",
                    offset,
                    value: u64::from(byte),
                });
            }
        }
        Ok(())
    }

    pub fn section(&mut self) -> Result<Section<'a>, BytecodeError> {
        let offset = self.offset();
        let id = self.byte("section id")?;
        let length = self.varint("section length")?;
        if id & 0x80 != 0 {
            let align = self.varint("section alignment")?;
            self.align(align, "section alignment")?;
        }
        let base = self.offset();
        let data = self.take_u64(length, "section")?;
        Ok(Section {
            id: id & 0x7F,
            offset,
            body: Cursor::new(data, base),
        })
    }

    /// All bytes must have been used.
    pub fn finish(&self, what: &'static str) -> Result<(), BytecodeError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(BytecodeError::Trailing {
                what,
                offset: self.offset(),
                left: self.remaining(),
            })
        }
    }
}

pub(crate) fn check_index(index: u64, len: usize, what: &'static str, offset: usize) -> Result<usize, BytecodeError> {
    if index >= len as u64 {
        return Err(BytecodeError::Index {
            what,
            offset,
            index,
            len,
        });
    }
    Ok(index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8]) -> u64 {
        let mut cursor = Cursor::new(bytes, 0);
        let value = cursor.varint("test").unwrap();
        cursor.finish("test").unwrap();
        value
    }

    #[test]
    fn varints() {
        assert_eq!(varint(&[0x0d]), 6);
        assert_eq!(varint(&[0x52, 0x05]), 340);
        assert_eq!(varint(&[0xe2, 0x17]), 1528);
        assert_eq!(varint(&[0x9e, 0x03]), 231);
        assert_eq!(varint(&[0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), u64::MAX);
        // 28 c7 a4 26: three trailing zero bits, so three more bytes; the zig-zag value of a date code.
        let mut cursor = Cursor::new(&[0x28, 0xc7, 0xa4, 0x26], 0);
        assert_eq!(cursor.svarint("test").unwrap(), 20_260_409);
    }

    #[test]
    fn a_short_varint_names_its_place() {
        let mut cursor = Cursor::new(&[0x80], 40);
        let error = cursor.varint("operand").unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 41: the data ends inside operand (7 bytes needed, 0 left); the asset is truncated or damaged: copy or export it again"
        );
    }
}
