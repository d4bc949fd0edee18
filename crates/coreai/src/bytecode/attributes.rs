//! Attributes of the `aicode` dialect, decoded one level at a time.

use super::cursor::Cursor;
use super::module::ResourceId;
use super::types::TypeId;
use super::{BytecodeError, Module};

/// Index of an attribute in the file's attribute table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttrId(pub u32);

/// One attribute. Nested attributes are given by their index.
#[derive(Debug, Clone, PartialEq)]
pub enum Attr<'a> {
    /// Text.
    String(&'a str),
    /// An integer of at most 64 bits, zero-extended.
    Integer {
        /// Width in bits.
        width: u64,
        /// True for an unsigned integer.
        unsigned: bool,
        /// The low `width` bits.
        bits: u64,
    },
    /// An integer wider than 64 bits, in little-endian words.
    WideInteger {
        /// Width in bits.
        width: u64,
        /// True for an unsigned integer.
        unsigned: bool,
        /// The words.
        words: Vec<u64>,
    },
    /// A floating-point number.
    Float {
        /// 16, 32 or 64.
        width: u64,
        /// Its IEEE bits.
        bits: u64,
    },
    /// A type.
    Type(TypeId),
    /// A list.
    Array(Vec<AttrId>),
    /// Constant data that stands inside the attribute.
    DenseElements {
        /// One element stands for all.
        splat: bool,
        /// The bytes.
        bytes: &'a [u8],
        /// Where the bytes start in the file.
        offset: usize,
    },
    /// Constant data in the resource section.
    DenseResource(ResourceId),
    /// A named list of values.
    Opaque {
        /// The name.
        name: &'a str,
        /// The values.
        values: Vec<AttrId>,
    },
    /// Memory layout wishes for Apple hardware.
    HwConstraints {
        /// Byte alignments, rank + 1 entries.
        alignments: Vec<i64>,
        /// Interleave factors, one a dimension.
        interleave: Vec<i64>,
        /// 1 IOSurface, 2 MTLBuffer, 3 Heap.
        backing: u64,
        /// A further encoding underneath.
        base: Option<AttrId>,
    },
    /// A path of symbol names.
    SymbolRef(Vec<&'a str>),
    /// A parameter bound to a value: how a callee's symbol is wrapped.
    ParamConstant {
        /// The value.
        value: AttrId,
        /// Its type.
        ty: TypeId,
    },
    /// An enumeration value of padding, GELU, scatter, scan, interpolation and execution attributes.
    Enum {
        /// The attribute's code (17 padding mode, 18 life-cycle phase, 19 GELU form, 20 scatter mode, 25 scan
        /// combiner, 27 fourcc, 28 compilation, 43 interpolation mode, 44 intent).
        code: u64,
        /// Its value.
        value: u64,
    },
    /// Storage scheme of a sparse tensor.
    SparseEncoding {
        /// 0 bitmask, 1 coo, 2 csr, 3 csc, 4 bsr.
        scheme: u64,
        /// Width of positions in bits.
        position_width: u64,
        /// Width of coordinates in bits.
        coordinate_width: u64,
        /// Number of stored values, when known.
        non_zeros: Option<u64>,
        /// Block sizes, for blocked schemes.
        block_size: Vec<u64>,
    },
    /// A dictionary of [`Attr::Opaque`] entries.
    Dictionary(Vec<AttrId>),
    /// No content.
    Unit,
    /// A debug-information attribute or one that is only carried along, by its code, with its undecoded payload.
    Other {
        /// The attribute's code.
        code: u64,
        /// What follows the code.
        payload: &'a [u8],
    },
}

/// A place in the model's Python source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLocation {
    /// Directory of the file on the exporting machine.
    pub directory: String,
    /// File name.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl Module {
    /// Decodes attribute `id` (not what it refers to).
    pub fn attr(&self, id: AttrId) -> Result<Attr<'_>, BytecodeError> {
        let mut c = self.attr_cursor(id)?;
        let out = self.decode_attr(&mut c)?;
        c.finish("an attribute")?;
        Ok(out)
    }

    fn decode_attr<'a>(&'a self, c: &mut Cursor<'a>) -> Result<Attr<'a>, BytecodeError> {
        let code = c.varint("attribute code")?;
        Ok(match code {
            1 => Attr::String(self.read_string(c)?),
            2 => {
                let width = c.varint("integer width")?;
                let unsigned = c.boolean("signedness")?;
                if width > 64 {
                    let count = c.count("integer words")?;
                    let words = (0..count)
                        .map(|_| c.svarint("integer word").map(|w| w as u64))
                        .collect::<Result<_, _>>()?;
                    Attr::WideInteger { width, unsigned, words }
                } else {
                    Attr::Integer {
                        width,
                        unsigned,
                        bits: read_bits(c, width)?,
                    }
                }
            }
            3 => {
                let width = c.varint("float width")?;
                Attr::Float {
                    width,
                    bits: read_bits(c, width)?,
                }
            }
            4 => Attr::Type(self.read_type_id(c)?),
            5 => Attr::Array(self.read_attr_list(c)?),
            6 => {
                let splat = c.boolean("splat flag")?;
                let len = c.varint("constant size")?;
                let offset = c.offset();
                Attr::DenseElements {
                    splat,
                    bytes: c.take_u64(len, "constant data")?,
                    offset,
                }
            }
            7 => Attr::DenseResource(ResourceId(c.index("resource", self.resource_count())? as u32)),
            9 => Attr::Opaque {
                name: self.read_string(c)?,
                values: self.read_attr_list(c)?,
            },
            12 | 13 => {
                let alignments = read_svarints(c, "alignments")?;
                let interleave = read_svarints(c, "interleave factors")?;
                let backing = c.varint("backing")?;
                let base = if code == 13 { Some(self.read_attr_id(c)?) } else { None };
                Attr::HwConstraints {
                    alignments,
                    interleave,
                    backing,
                    base,
                }
            }
            14 => {
                let count = c.count("symbol path")?;
                Attr::SymbolRef((0..count).map(|_| self.read_string(c)).collect::<Result<_, _>>()?)
            }
            16 => Attr::ParamConstant {
                value: self.read_attr_id(c)?,
                ty: self.read_type_id(c)?,
            },
            17..=20 | 25 | 27 | 28 | 43 | 44 => Attr::Enum {
                code,
                value: c.varint("enumeration value")?,
            },
            21 | 23 => {
                let scheme = c.varint("sparse scheme")?;
                let position_width = c.varint("position width")?;
                let coordinate_width = c.varint("coordinate width")?;
                let non_zeros = if c.boolean("value count flag")? {
                    Some(c.varint("value count")?)
                } else {
                    None
                };
                let block_size = if code == 23 {
                    let count = c.count("block size")?;
                    (0..count).map(|_| c.varint("block size")).collect::<Result<_, _>>()?
                } else {
                    Vec::new()
                };
                Attr::SparseEncoding {
                    scheme,
                    position_width,
                    coordinate_width,
                    non_zeros,
                    block_size,
                }
            }
            45 => Attr::Dictionary(self.read_attr_list(c)?),
            46 => Attr::Unit,
            _ => {
                let left = c.remaining();
                Attr::Other {
                    code,
                    payload: c.take(left, "an attribute")?,
                }
            }
        })
    }

    pub(super) fn read_attr_id(&self, c: &mut Cursor<'_>) -> Result<AttrId, BytecodeError> {
        Ok(AttrId(c.index("attribute", self.attr_count())? as u32))
    }

    pub(crate) fn checked_attr(&self, index: u64, offset: usize) -> Result<AttrId, BytecodeError> {
        Ok(AttrId(
            super::cursor::check_index(index, self.attr_count(), "attribute", offset)? as u32,
        ))
    }

    fn read_attr_list(&self, c: &mut Cursor<'_>) -> Result<Vec<AttrId>, BytecodeError> {
        let count = c.count("attribute list")?;
        (0..count).map(|_| self.read_attr_id(c)).collect()
    }

    /// The text of a string attribute, `None` for another kind.
    pub fn attr_string(&self, id: AttrId) -> Result<Option<&str>, BytecodeError> {
        Ok(match self.attr(id)? {
            Attr::String(text) => Some(text),
            _ => None,
        })
    }

    /// The value of an integer attribute, sign-extended when it is signed; `None` for another kind.
    pub fn attr_integer(&self, id: AttrId) -> Result<Option<i128>, BytecodeError> {
        Ok(match self.attr(id)? {
            Attr::Integer { width, unsigned, bits } => Some(extend(width, unsigned, bits)),
            _ => None,
        })
    }

    /// The entries of an array attribute, `None` for another kind.
    pub fn attr_array(&self, id: AttrId) -> Result<Option<Vec<AttrId>>, BytecodeError> {
        Ok(match self.attr(id)? {
            Attr::Array(items) => Some(items),
            _ => None,
        })
    }

    /// The source place of a location attribute (codes 40 and 41), innermost first, or `None` when it has none.
    pub fn location(&self, id: AttrId) -> Result<Option<SourceLocation>, BytecodeError> {
        let Attr::Other { code: 40 | 41, .. } = self.attr(id)? else {
            return Ok(None);
        };
        let mut c = self.attr_cursor(id)?;
        c.varint("attribute code")?;
        let place = self.read_attr_id(&mut c)?;
        let mut c = self.attr_cursor(place)?;
        if c.varint("attribute code")? != 31 {
            return Ok(None);
        }
        let file = self.read_attr_id(&mut c)?;
        let line = c.varint("line")?;
        let column = c.varint("column")?;
        if line == 0 {
            // An asset without debug information has an empty place.
            return Ok(None);
        }
        let mut c = self.attr_cursor(file)?;
        if c.varint("attribute code")? != 30 {
            return Ok(None);
        }
        let name = self.read_string(&mut c)?.to_string();
        let directory = self.read_string(&mut c)?.to_string();
        Ok(Some(SourceLocation {
            directory,
            file: name,
            line,
            column,
        }))
    }
}

/// Sign-extends the low `width` bits unless the integer is unsigned.
pub(crate) fn extend(width: u64, unsigned: bool, bits: u64) -> i128 {
    let masked = if width >= 64 {
        bits
    } else {
        bits & ((1u64 << width) - 1)
    };
    if unsigned || width == 0 || width > 64 {
        return i128::from(masked);
    }
    let shift = 64 - width as u32;
    i128::from(((masked << shift) as i64) >> shift)
}

fn read_bits(c: &mut Cursor<'_>, width: u64) -> Result<u64, BytecodeError> {
    if width <= 8 {
        Ok(u64::from(c.byte("value")?))
    } else {
        Ok(c.svarint("value")? as u64)
    }
}

fn read_svarints(c: &mut Cursor<'_>, what: &'static str) -> Result<Vec<i64>, BytecodeError> {
    let count = c.count(what)?;
    (0..count).map(|_| c.svarint(what)).collect()
}
