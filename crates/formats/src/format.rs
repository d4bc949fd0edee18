//! The element formats of Metal tensors: names, widths and host enum values.

use std::fmt;
use std::str::FromStr;

/// What one element of a tensor or buffer is.
///
/// The first twelve are ordinary Metal value types. The last eight are *format types*: element types that only a
/// tensor (or a packed numeric type) can hold, which the kernel never computes with directly. A format type has
/// stricter layout rules on the host, see [`TensorDescriptor`](crate::TensorDescriptor).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ElementFormat {
    /// One byte, zero or one. No host tensor type in Metal; accepted here as an extension.
    Bool,
    /// Signed 8-bit integer (`char`).
    I8,
    /// Unsigned 8-bit integer (`uchar`).
    U8,
    /// Signed 16-bit integer (`short`).
    I16,
    /// Unsigned 16-bit integer (`ushort`).
    U16,
    /// Signed 32-bit integer (`int`).
    I32,
    /// Unsigned 32-bit integer (`uint`).
    U32,
    /// Signed 64-bit integer (`long`). No host tensor type in Metal; accepted here as an extension.
    I64,
    /// Unsigned 64-bit integer (`ulong`). No host tensor type in Metal; accepted here as an extension.
    U64,
    /// IEEE 754 binary16 (`half`).
    F16,
    /// The upper half of a binary32 (`bfloat`).
    BF16,
    /// IEEE 754 binary32 (`float`).
    F32,
    /// Signed 4-bit integer, −8…7 (`int4b_format`).
    Int4B,
    /// Unsigned 4-bit integer, 0…15 (`uint4b_format`).
    UInt4B,
    /// Signed 2-bit integer, −2…1 (`int2b_format`).
    Int2B,
    /// Unsigned 2-bit integer, 0…3 (`uint2b_format`).
    UInt2B,
    /// OCP MX E2M1: 0, ½, 1, 1½, 2, 3, 4, 6 and their negatives (`metal_fp4_e2m1_format`).
    Fp4E2M1,
    /// OCP E4M3 without infinities, largest value 448 (`metal_fp8_e4m3_format`).
    Fp8E4M3,
    /// OCP E5M2 with infinities, largest finite value 57344 (`metal_fp8_e5m2_format`).
    Fp8E5M2,
    /// OCP MX scale: 2^(code − 127), code 255 is NaN (`metal_fp8_ue8m0_format`).
    Fp8UE8M0,
}

/// How many bits the exponent and mantissa of a binary floating-point format have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FloatShape {
    pub exponent_bits: u32,
    pub mantissa_bits: u32,
    pub bias: i32,
    pub specials: Specials,
}

/// What the codes with an all-ones exponent mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Specials {
    /// Infinity and NaN as in IEEE 754.
    Ieee,
    /// Ordinary values, except that the code of all ones is NaN.
    AllOnesNan,
    /// Ordinary values without exception.
    None,
}

impl ElementFormat {
    /// Every format, in declaration order.
    pub const ALL: [ElementFormat; 20] = {
        use ElementFormat::*;
        [
            Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, BF16, F32, Int4B, UInt4B, Int2B, UInt2B, Fp4E2M1, Fp8E4M3,
            Fp8E5M2, Fp8UE8M0,
        ]
    };

    /// Width of one element in memory, in bits.
    pub const fn bits(self) -> usize {
        use ElementFormat::*;
        match self {
            Int2B | UInt2B => 2,
            Int4B | UInt4B | Fp4E2M1 => 4,
            Bool | I8 | U8 | Fp8E4M3 | Fp8E5M2 | Fp8UE8M0 => 8,
            I16 | U16 | F16 | BF16 => 16,
            I32 | U32 | F32 => 32,
            I64 | U64 => 64,
        }
    }

    /// Bytes that `count` packed elements occupy, the last byte counted whole.
    pub const fn bytes_for(self, count: usize) -> usize {
        let bits = self.bits();
        if bits >= 8 {
            count.saturating_mul(bits / 8)
        } else {
            count.div_ceil(8 / bits)
        }
    }

    /// How many elements share a byte: 4, 2 or 1.
    pub const fn elements_per_byte(self) -> usize {
        if self.bits() < 8 { 8 / self.bits() } else { 1 }
    }

    /// Natural alignment of one element in bytes; 1 for everything of a byte or less.
    pub const fn alignment(self) -> usize {
        if self.bits() < 8 { 1 } else { self.bits() / 8 }
    }

    /// True for the eight types whose host values are 141…150 ("format data types" in Apple's words).
    pub const fn is_format_type(self) -> bool {
        use ElementFormat::*;
        matches!(
            self,
            Int4B | UInt4B | Int2B | UInt2B | Fp4E2M1 | Fp8E4M3 | Fp8E5M2 | Fp8UE8M0
        )
    }

    /// True when several elements share a byte.
    pub const fn is_sub_byte(self) -> bool {
        self.bits() < 8
    }

    /// True for floating-point formats of any width, UE8M0 included.
    pub const fn is_float(self) -> bool {
        use ElementFormat::*;
        matches!(self, F16 | BF16 | F32 | Fp4E2M1 | Fp8E4M3 | Fp8E5M2 | Fp8UE8M0)
    }

    /// True for integer formats of any width; false for `Bool`.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, ElementFormat::Bool)
    }

    /// True when negative values can be held.
    pub const fn is_signed(self) -> bool {
        use ElementFormat::*;
        matches!(
            self,
            I8 | I16 | I32 | I64 | F16 | BF16 | F32 | Int4B | Int2B | Fp4E2M1 | Fp8E4M3 | Fp8E5M2
        )
    }

    /// The type's name in the Metal Shading Language, as it stands in `tensor<device NAME, …>`.
    pub const fn msl_name(self) -> &'static str {
        use ElementFormat::*;
        match self {
            Bool => "bool",
            I8 => "char",
            U8 => "uchar",
            I16 => "short",
            U16 => "ushort",
            I32 => "int",
            U32 => "uint",
            I64 => "long",
            U64 => "ulong",
            F16 => "half",
            BF16 => "bfloat",
            F32 => "float",
            Int4B => "int4b_format",
            UInt4B => "uint4b_format",
            Int2B => "int2b_format",
            UInt2B => "uint2b_format",
            Fp4E2M1 => "metal_fp4_e2m1_format",
            Fp8E4M3 => "metal_fp8_e4m3_format",
            Fp8E5M2 => "metal_fp8_e5m2_format",
            Fp8UE8M0 => "metal_fp8_ue8m0_format",
        }
    }

    /// A short lower-case name for command lines and messages: `f16`, `i32`, `fp8_e4m3`. [`Display`](fmt::Display)
    /// prints it.
    pub const fn short_name(self) -> &'static str {
        use ElementFormat::*;
        match self {
            Bool => "bool",
            I8 => "i8",
            U8 => "u8",
            I16 => "i16",
            U16 => "u16",
            I32 => "i32",
            U32 => "u32",
            I64 => "i64",
            U64 => "u64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            Int4B => "int4",
            UInt4B => "uint4",
            Int2B => "int2",
            UInt2B => "uint2",
            Fp4E2M1 => "fp4_e2m1",
            Fp8E4M3 => "fp8_e4m3",
            Fp8E5M2 => "fp8_e5m2",
            Fp8UE8M0 => "fp8_ue8m0",
        }
    }

    /// The name of the host enum case (`MTLTensorDataTypeFloat16`), or `None` where Metal has no host tensor type.
    pub const fn host_name(self) -> Option<&'static str> {
        use ElementFormat::*;
        Some(match self {
            Bool | I64 | U64 => return None,
            I8 => "MTLTensorDataTypeInt8",
            U8 => "MTLTensorDataTypeUInt8",
            I16 => "MTLTensorDataTypeInt16",
            U16 => "MTLTensorDataTypeUInt16",
            I32 => "MTLTensorDataTypeInt32",
            U32 => "MTLTensorDataTypeUInt32",
            F16 => "MTLTensorDataTypeFloat16",
            BF16 => "MTLTensorDataTypeBFloat16",
            F32 => "MTLTensorDataTypeFloat32",
            Int4B => "MTLTensorDataTypeInt4",
            UInt4B => "MTLTensorDataTypeUInt4",
            Int2B => "MTLTensorDataTypeInt2",
            UInt2B => "MTLTensorDataTypeUInt2",
            Fp4E2M1 => "MTLTensorDataTypeMetalFloat4E2M1",
            Fp8E4M3 => "MTLTensorDataTypeMetalFloat8E4M3",
            Fp8E5M2 => "MTLTensorDataTypeMetalFloat8E5M2",
            Fp8UE8M0 => "MTLTensorDataTypeMetalFloat8UE8M0",
        })
    }

    /// The value of the host enum case, or `None` where Metal has no host tensor type.
    pub const fn host_value(self) -> Option<u32> {
        use ElementFormat::*;
        Some(match self {
            Bool | I64 | U64 => return None,
            F32 => 3,
            F16 => 16,
            I32 => 29,
            U32 => 33,
            I16 => 37,
            U16 => 41,
            I8 => 45,
            U8 => 49,
            BF16 => 121,
            Fp8E5M2 => 141,
            Fp8E4M3 => 142,
            Int4B => 143,
            UInt4B => 144,
            Fp8UE8M0 => 145,
            Fp4E2M1 => 148,
            UInt2B => 149,
            Int2B => 150,
        })
    }

    /// The format with this host enum value, if there is one.
    pub fn from_host_value(value: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.host_value() == Some(value))
    }

    /// The format that the Metal Shading Language calls `name`: the names of [`msl_name`](Self::msl_name) and the
    /// fixed-width integer aliases (`int8_t`, `uint32_t`, …).
    pub fn from_msl_name(name: &str) -> Option<Self> {
        use ElementFormat::*;
        if let Some(f) = Self::ALL.into_iter().find(|f| f.msl_name() == name) {
            return Some(f);
        }
        Some(match name {
            "int8_t" => I8,
            "uint8_t" => U8,
            "int16_t" => I16,
            "uint16_t" => U16,
            "int32_t" => I32,
            "uint32_t" => U32,
            "int64_t" => I64,
            "uint64_t" => U64,
            _ => return None,
        })
    }

    pub(crate) const fn float_shape(self) -> Option<FloatShape> {
        use ElementFormat::*;
        let (exponent_bits, mantissa_bits, bias, specials) = match self {
            Fp4E2M1 => (2, 1, 1, Specials::None),
            Fp8E4M3 => (4, 3, 7, Specials::AllOnesNan),
            Fp8E5M2 => (5, 2, 15, Specials::Ieee),
            F16 => (5, 10, 15, Specials::Ieee),
            BF16 => (8, 7, 127, Specials::Ieee),
            F32 => (8, 23, 127, Specials::Ieee),
            _ => return None,
        };
        Some(FloatShape {
            exponent_bits,
            mantissa_bits,
            bias,
            specials,
        })
    }
}

impl fmt::Display for ElementFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.short_name())
    }
}

/// A name that is no element format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{name}` is not an element format; known names are f32, f16, bf16, i8…i64, u8…u64, bool, int4, uint4, int2, uint2, fp4_e2m1, fp8_e4m3, fp8_e5m2, fp8_ue8m0 and their Metal spellings"
)]
pub struct UnknownFormat {
    /// What was given.
    pub name: String,
}

impl FromStr for ElementFormat {
    type Err = UnknownFormat;

    /// Accepts short names (`f16`), the language's names (`half`, `metal_fp8_e4m3_format`), host enum names
    /// (`MTLTensorDataTypeFloat16` or just `Float16`, `float8e4m3`), PyTorch's and NumPy's (`float16`,
    /// `float8_e4m3fn`). Case and underscores do not matter outside the language's names.
    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        use ElementFormat::*;
        if let Some(f) = Self::from_msl_name(name) {
            return Ok(f);
        }
        let plain: String = name
            .chars()
            .filter(|c| *c != '_')
            .flat_map(char::to_lowercase)
            .collect();
        let plain = plain.strip_prefix("mtltensordatatype").unwrap_or(&plain);
        let plain = plain.strip_prefix("metal").unwrap_or(plain);
        let plain = plain.strip_suffix("format").unwrap_or(plain);
        Ok(match plain {
            "bool" | "i1" => Bool,
            "i8" | "int8" | "si8" | "char" => I8,
            "u8" | "uint8" | "ui8" | "uchar" => U8,
            "i16" | "int16" | "si16" | "short" => I16,
            "u16" | "uint16" | "ui16" | "ushort" => U16,
            "i32" | "int32" | "si32" | "int" => I32,
            "u32" | "uint32" | "ui32" | "uint" => U32,
            "i64" | "int64" | "si64" | "long" => I64,
            "u64" | "uint64" | "ui64" | "ulong" => U64,
            "f16" | "float16" | "half" => F16,
            "bf16" | "bfloat16" | "bfloat" => BF16,
            "f32" | "float32" | "float" => F32,
            "int4" | "int4b" | "i4" => Int4B,
            "uint4" | "uint4b" | "u4" => UInt4B,
            "int2" | "int2b" | "i2" => Int2B,
            "uint2" | "uint2b" | "u2" => UInt2B,
            "fp4" | "fp4e2m1" | "float4e2m1" | "float4e2m1fn" | "e2m1" => Fp4E2M1,
            "fp8e4m3" | "float8e4m3" | "float8e4m3fn" | "e4m3" => Fp8E4M3,
            "fp8e5m2" | "float8e5m2" | "e5m2" => Fp8E5M2,
            "fp8ue8m0" | "float8ue8m0" | "float8e8m0fnu" | "ue8m0" | "e8m0" => Fp8UE8M0,
            _ => {
                return Err(UnknownFormat { name: name.to_owned() });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for f in ElementFormat::ALL {
            assert_eq!(f.short_name().parse(), Ok(f));
            assert_eq!(f.msl_name().parse(), Ok(f));
            assert_eq!(format!("{f}"), f.short_name());
            if let Some(name) = f.host_name() {
                assert_eq!(name.parse(), Ok(f));
                assert_eq!(ElementFormat::from_host_value(f.host_value().unwrap()), Some(f));
            }
        }
        assert_eq!("float8_e4m3fn".parse(), Ok(ElementFormat::Fp8E4M3));
        assert_eq!("int8_t".parse(), Ok(ElementFormat::I8));
        assert!("float64".parse::<ElementFormat>().is_err());
        assert!("".parse::<ElementFormat>().is_err());
    }

    #[test]
    fn format_types_are_those_with_values_141_to_150() {
        for f in ElementFormat::ALL {
            let in_range = f.host_value().is_some_and(|v| (141..=150).contains(&v));
            assert_eq!(f.is_format_type(), in_range, "{f}");
        }
    }

    #[test]
    fn bytes_round_up() {
        assert_eq!(ElementFormat::Int2B.bytes_for(5), 2);
        assert_eq!(ElementFormat::Fp4E2M1.bytes_for(3), 2);
        assert_eq!(ElementFormat::F32.bytes_for(3), 12);
        assert_eq!(ElementFormat::F32.bytes_for(0), 0);
    }
}
