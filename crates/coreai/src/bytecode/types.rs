//! Types of the `aicode` dialect, decoded from their byte encoding.

use std::fmt;

use super::attributes::AttrId;
use super::cursor::Cursor;
use super::{BytecodeError, Module};

/// Index of a type in the file's type table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(pub u32);

/// One extent of a tensor type: a size, or `None` when it is only known at run time.
pub type Dim = Option<u64>;

/// Element types of tensors. Names are the field's: OCP's for the small floats.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    Bool,
    F64,
    F32,
    TF32,
    F16,
    BF16,
    F8E5M2,
    F8E4M3FN,
    F8E8M0FN,
    F4E2M1FN,
    I64,
    I32,
    I16,
    I8,
    I4,
    I2,
    U64,
    U32,
    U16,
    U8,
    U6,
    U4,
    U3,
    U2,
    U1,
    ComplexF64,
    ComplexF32,
    ComplexF16,
    ComplexBF16,
    ComplexF8E5M2,
    ComplexF8E4M3FN,
}

use ElementType::*;

impl ElementType {
    /// Bytes that one element takes in memory here. Types below eight bits are held one to a byte.
    pub fn size(self) -> usize {
        match self {
            ComplexF64 => 16,
            F64 | I64 | U64 | ComplexF32 => 8,
            F32 | TF32 | I32 | U32 | ComplexF16 | ComplexBF16 => 4,
            F16 | BF16 | I16 | U16 | ComplexF8E5M2 | ComplexF8E4M3FN => 2,
            Bool | F8E5M2 | F8E4M3FN | F8E8M0FN | F4E2M1FN | I8 | I4 | I2 | U8 | U6 | U4 | U3 | U2 | U1 => 1,
        }
    }

    /// Bits of information in one element.
    pub fn bits(self) -> usize {
        match self {
            I4 | U4 | F4E2M1FN => 4,
            U6 => 6,
            U3 => 3,
            I2 | U2 => 2,
            U1 => 1,
            _ => self.size() * 8,
        }
    }

    /// True for the real floating-point types.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            F64 | F32 | TF32 | F16 | BF16 | F8E5M2 | F8E4M3FN | F8E8M0FN | F4E2M1FN
        )
    }

    /// True for the integer types (not bool).
    pub fn is_integer(self) -> bool {
        matches!(self, I64 | I32 | I16 | I8 | I4 | I2) || self.is_unsigned()
    }

    /// True for the unsigned integer types.
    pub fn is_unsigned(self) -> bool {
        matches!(self, U64 | U32 | U16 | U8 | U6 | U4 | U3 | U2 | U1)
    }

    /// True for the complex types.
    pub fn is_complex(self) -> bool {
        matches!(
            self,
            ComplexF64 | ComplexF32 | ComplexF16 | ComplexBF16 | ComplexF8E5M2 | ComplexF8E4M3FN
        )
    }

    /// The name that NumPy and Core AI's runtime use: "float32", "int64", "bool".
    pub fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            F64 => "float64",
            F32 => "float32",
            TF32 => "tfloat32",
            F16 => "float16",
            BF16 => "bfloat16",
            F8E5M2 => "float8e5m2",
            F8E4M3FN => "float8e4m3fn",
            F8E8M0FN => "float8e8m0fn",
            F4E2M1FN => "float4e2m1fn",
            I64 => "int64",
            I32 => "int32",
            I16 => "int16",
            I8 => "int8",
            I4 => "int4",
            I2 => "int2",
            U64 => "uint64",
            U32 => "uint32",
            U16 => "uint16",
            U8 => "uint8",
            U6 => "uint6",
            U4 => "uint4",
            U3 => "uint3",
            U2 => "uint2",
            U1 => "uint1",
            ComplexF64 => "complex128",
            ComplexF32 => "complex64",
            ComplexF16 => "complex32",
            ComplexBF16 => "complexbf16",
            ComplexF8E5M2 => "complexf8e5m2",
            ComplexF8E4M3FN => "complexf8e4m3fn",
        }
    }

    /// The spelling inside `aicode` types: "sint32", "float16".
    pub fn dialect_name(self) -> &'static str {
        match self {
            F8E5M2 => "float8E5M2",
            F8E4M3FN => "float8E4M3FN",
            F8E8M0FN => "float8E8M0FN",
            F4E2M1FN => "float4E2M1FN",
            I64 => "sint64",
            I32 => "sint32",
            I16 => "sint16",
            I8 => "sint8",
            I4 => "sint4",
            I2 => "sint2",
            other => other.name(),
        }
    }

    fn from_code(code: u64) -> Option<Self> {
        Some(match code {
            4 => Bool,
            5 => F64,
            6 => F32,
            7 => F16,
            8 => BF16,
            9 => F8E5M2,
            10 => F8E4M3FN,
            11 => ComplexF64,
            12 => ComplexF32,
            13 => ComplexF16,
            14 => ComplexBF16,
            15 => ComplexF8E5M2,
            16 => ComplexF8E4M3FN,
            17 => I64,
            18 => I32,
            19 => I16,
            20 => I8,
            21 => I4,
            22 => I2,
            23 => U64,
            24 => U32,
            25 => U16,
            26 => U8,
            27 => U4,
            28 => U2,
            29 => U1,
            36 => U6,
            37 => U3,
            38 => TF32,
            46 => F4E2M1FN,
            47 => F8E8M0FN,
            _ => return None,
        })
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tensor's element type and extents, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub element: ElementType,
    /// Extents, outermost first; `None` is dynamic.
    pub shape: Vec<Dim>,
    /// Layout constraints or sparsity of the type, when it has any.
    pub encoding: Option<AttrId>,
}

impl TensorType {
    /// The shape as text: `[2, ?, 64]`.
    pub fn shape_text(&self) -> String {
        let dims: Vec<String> = self
            .shape
            .iter()
            .map(|d| d.map_or_else(|| "?".to_string(), |d| d.to_string()))
            .collect();
        format!("[{}]", dims.join(", "))
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.element, self.shape_text())
    }
}

/// A type of the dialect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A tensor.
    Tensor(TensorType),
    /// An element type on its own.
    Element(ElementType),
    /// A graph's signature.
    Function {
        /// Result types.
        results: Vec<TypeId>,
        /// Operand types.
        operands: Vec<TypeId>,
    },
    /// A reference to state memory that holds a tensor of the inner type.
    Handle(TypeId),
    /// Orders the accesses to one handle.
    Token,
    /// The type of a symbol parameter.
    Symbol,
    /// Any other type, by its code: images, parameter and debug types.
    Other(u64),
}

impl Module {
    /// Decodes type `id`.
    pub fn ty(&self, id: TypeId) -> Result<Type, BytecodeError> {
        let mut cursor = self.type_cursor(id)?;
        let out = self.decode_type(&mut cursor)?;
        cursor.finish("a type")?;
        Ok(out)
    }

    /// The tensor type `id`, or `None` when it is another kind of type.
    pub fn tensor_type(&self, id: TypeId) -> Result<Option<TensorType>, BytecodeError> {
        Ok(match self.ty(id)? {
            Type::Tensor(tensor) => Some(tensor),
            _ => None,
        })
    }

    fn decode_type(&self, c: &mut Cursor<'_>) -> Result<Type, BytecodeError> {
        let code = c.varint("type code")?;
        if let Some(element) = ElementType::from_code(code) {
            return Ok(Type::Element(element));
        }
        match code {
            2 | 3 => {
                let rank = c.count("tensor rank")?;
                let mut shape = Vec::with_capacity(rank);
                for _ in 0..rank {
                    let offset = c.offset();
                    let dim = c.svarint("tensor extent")?;
                    shape.push(match dim {
                        i64::MIN => None,
                        d if d >= 0 => Some(d as u64),
                        d => {
                            return Err(BytecodeError::BadValue {
                                what: "tensor extent",
                                offset,
                                value: d as u64,
                            });
                        }
                    });
                }
                let offset = c.offset();
                let element = match self.ty_shallow(self.read_type_id(c)?)? {
                    Some(element) => element,
                    None => {
                        return Err(BytecodeError::Malformed {
                            what: "a tensor's element is not an element type".into(),
                            offset,
                        });
                    }
                };
                let encoding = if code == 3 { Some(self.read_attr_id(c)?) } else { None };
                Ok(Type::Tensor(TensorType {
                    element,
                    shape,
                    encoding,
                }))
            }
            30 => {
                let results = self.read_type_list(c)?;
                let operands = self.read_type_list(c)?;
                Ok(Type::Function { results, operands })
            }
            31 => Ok(Type::Handle(self.read_type_id(c)?)),
            32 => Ok(Type::Token),
            33 => Ok(Type::Symbol),
            other => {
                let left = c.remaining();
                c.take(left, "a type")?;
                Ok(Type::Other(other))
            }
        }
    }

    /// The element type with this id, without following further types.
    fn ty_shallow(&self, id: TypeId) -> Result<Option<ElementType>, BytecodeError> {
        let mut cursor = self.type_cursor(id)?;
        let code = cursor.varint("type code")?;
        Ok(ElementType::from_code(code))
    }

    fn read_type_list(&self, c: &mut Cursor<'_>) -> Result<Vec<TypeId>, BytecodeError> {
        let count = c.count("type list")?;
        (0..count).map(|_| self.read_type_id(c)).collect()
    }

    pub(super) fn read_type_id(&self, c: &mut Cursor<'_>) -> Result<TypeId, BytecodeError> {
        Ok(TypeId(c.index("type", self.type_count())? as u32))
    }
}
