//! Arguments of a kernel in words: the grammar of `kernel run --arg` and of the header of a test file.
//!
//! ```text
//! ARGUMENT := buffer TYPE[COUNT] [= FILL]
//!           | buffer TYPE (E0, E1, …) [= FILL]
//!           | tensor FORMAT (E0, E1, …) [strides (S0, S1, …)] [scales (B0, B1, …)] [= FILL [scales [CODE, …]]]
//!           | bytes = TYPE VALUE [, TYPE VALUE …]
//!           | struct { FIELD; FIELD; … }         FIELD := TYPE VALUE | tensor …
//!           | handles N [, N …]                  the handles of tensors declared as arguments N
//!           | null
//! FILL     := zeros | ones | nan | iota | iota(start[, step]) | fill(x) | random(seed[, low, high]) | [v, v, …]
//!           | formula "…" | FILE.npy
//! ```
//! Extents are innermost first, as Metal has them. Without a fill the memory is zero. `docs/test-format.md` says more.

pub mod convolution;
pub mod fill;
pub mod formula;
pub mod reference;
mod scan;

use anymetal::ElementFormat;

pub use fill::Fill;
pub use scan::{Scan, shortened};

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A buffer of scalars or vectors.
    Buffer {
        /// Scalar type.
        format: ElementFormat,
        /// Extents in scalars, innermost first; what a reference reads as the shape.
        extents: Vec<usize>,
        /// Contents.
        fill: Fill,
    },
    /// A tensor.
    Tensor(TensorArgument),
    /// Bytes set directly (`setBytes`): scalars in order, each at its natural alignment.
    Bytes(Vec<(ElementFormat, f64)>),
    /// A structure, bound as bytes; tensors in it are handles.
    Struct(Vec<Field>),
    /// A buffer with the handles of tensors that are declared as other arguments.
    Handles(Vec<usize>),
    /// A null tensor handle or no buffer.
    Null,
}

/// A tensor argument.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorArgument {
    /// Element format.
    pub format: ElementFormat,
    /// Extents, innermost first.
    pub extents: Vec<usize>,
    /// Strides in elements, innermost first; packed if absent.
    pub strides: Option<Vec<usize>>,
    /// Block factors of a scale plane of `ue8m0`.
    pub scales: Option<Vec<usize>>,
    /// The codes of the scale plane, repeated; else they follow from the fill.
    pub scale_codes: Option<Vec<u8>>,
    /// Contents.
    pub fill: Fill,
}

/// A member of a [`Argument::Struct`].
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A scalar.
    Scalar(ElementFormat, f64),
    /// A tensor handle.
    Tensor(TensorArgument),
}

/// The element format of a name: Metal's (`half`) or short (`fp8_e4m3`).
fn format_named(name: &str) -> Option<ElementFormat> {
    ElementFormat::from_msl_name(name).or_else(|| {
        ElementFormat::ALL
            .into_iter()
            .find(|format| format.short_name() == name)
    })
}

/// A scalar or vector type name: its scalar format and its components in memory (a 3-vector takes 4).
///
/// `int4` and the like are vectors, as in a kernel; the 4-bit formats of that name exist in tensors only.
pub fn parse_type(name: &str) -> Option<(ElementFormat, usize)> {
    vector_type(name).or_else(|| Some((format_named(name)?, 1)))
}

fn vector_type(name: &str) -> Option<(ElementFormat, usize)> {
    let digits = name.find(|c: char| c.is_ascii_digit())?;
    let format = ElementFormat::from_msl_name(&name[..digits])?;
    match name[digits..].parse().ok()? {
        components @ (2 | 4) => Some((format, components)),
        3 => Some((format, 4)),
        _ => None,
    }
}

impl Argument {
    /// Parses an argument; the error says what was expected and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut scan = Scan::new(text);
        let argument = argument(&mut scan)?;
        scan.end()?;
        Ok(argument)
    }
}

fn argument(scan: &mut Scan) -> Result<Argument, String> {
    let kind = scan.word()?;
    match kind.as_str() {
        "null" => Ok(Argument::Null),
        "handles" => {
            let mut numbers = vec![scan.integer()?];
            while scan.take(",") {
                numbers.push(scan.integer()?);
            }
            Ok(Argument::Handles(numbers))
        }
        "tensor" => tensor(scan).map(Argument::Tensor),
        "buffer" => {
            let (format, components) = type_name(scan)?;
            let mut extents = if scan.take("[") {
                let count = scan.integer()?;
                scan.expect("]")?;
                vec![count]
            } else {
                scan.integers()?
            };
            extents[0] = extents[0]
                .checked_mul(components)
                .ok_or_else(|| scan.error("a smaller count"))?;
            Ok(Argument::Buffer {
                format,
                extents,
                fill: optional_fill(scan)?,
            })
        }
        "bytes" => {
            let mut values = Vec::new();
            scan.take("=");
            loop {
                let (format, components) = type_name(scan)?;
                for _ in 0..components {
                    values.push((format, scan.number()?));
                }
                if !scan.take(",") {
                    return Ok(Argument::Bytes(values));
                }
            }
        }
        "struct" => {
            scan.expect("{")?;
            let mut fields = Vec::new();
            while !scan.take("}") {
                if scan.take_word("tensor") {
                    fields.push(Field::Tensor(tensor(scan)?));
                } else {
                    let (format, components) = type_name(scan)?;
                    for _ in 0..components {
                        fields.push(Field::Scalar(format, scan.number()?));
                    }
                }
                if !scan.take(";") {
                    scan.expect("}")?;
                    break;
                }
            }
            Ok(Argument::Struct(fields))
        }
        _ => Err(format!(
            "`{}` is no kind of argument: buffer, tensor, bytes, struct, handles or null",
            shortened(&kind)
        )),
    }
}

fn type_name(scan: &mut Scan) -> Result<(ElementFormat, usize), String> {
    let name = scan.word()?;
    parse_type(&name).ok_or_else(|| {
        format!(
            "`{}` is no element type: float, half, bfloat, bool, char, short, int, long and their unsigned kinds, or vectors of 2 to 4 (float4)",
            shortened(&name)
        )
    })
}

fn tensor(scan: &mut Scan) -> Result<TensorArgument, String> {
    let name = scan.word()?;
    let format = format_named(&name).ok_or_else(|| {
        format!(
            "`{}` is no element format: the types of buffers, or fp8_e4m3, fp8_e5m2, fp4_e2m1, int4, uint4, int2, uint2",
            shortened(&name)
        )
    })?;
    let extents = scan.integers()?;
    let strides = if scan.take_word("strides") {
        Some(scan.integers()?)
    } else {
        None
    };
    let scales = if scan.take_word("scales") {
        Some(scan.integers()?)
    } else {
        None
    };
    let fill = optional_fill(scan)?;
    let scale_codes = if scan.take_word("scales") {
        let Fill::List(codes) = Fill::parse(scan)? else {
            return Err(scan.error("codes `[127, …]` after `scales`"));
        };
        Some(codes.into_iter().map(|code| code as u8).collect())
    } else {
        None
    };
    Ok(TensorArgument {
        format,
        extents,
        strides,
        scales,
        scale_codes,
        fill,
    })
}

fn optional_fill(scan: &mut Scan) -> Result<Fill, String> {
    if scan.take("=") {
        Fill::parse(scan)
    } else {
        Ok(Fill::Zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        assert_eq!(
            Argument::parse("buffer float4[2] = iota(1, 0.5)").unwrap(),
            Argument::Buffer {
                format: ElementFormat::F32,
                extents: vec![8],
                fill: Fill::Iota { start: 1.0, step: 0.5 }
            }
        );
        let Argument::Tensor(tensor) = Argument::parse("tensor fp8_e4m3 (64, 32) scales (32, 1) = random(3)").unwrap()
        else {
            panic!("not a tensor");
        };
        assert_eq!((tensor.extents, tensor.scales), (vec![64, 32], Some(vec![32, 1])));
        assert_eq!(
            Argument::parse("struct { uint 5; tensor half (4, 4) = ones; float 0.5 }").map(|a| {
                match a {
                    Argument::Struct(fields) => fields.len(),
                    _ => 0,
                }
            }),
            Ok(3)
        );
        assert_eq!(
            Argument::parse("bytes = uint 5, float -0.5"),
            Ok(Argument::Bytes(vec![
                (ElementFormat::U32, 5.0),
                (ElementFormat::F32, -0.5)
            ]))
        );
    }

    #[test]
    fn names_of_vectors_are_vectors() {
        assert_eq!(parse_type("uint4"), Some((ElementFormat::U32, 4)));
        assert_eq!(parse_type("int2"), Some((ElementFormat::I32, 2)));
        assert_eq!(parse_type("half3"), Some((ElementFormat::F16, 4)));
        assert_eq!(parse_type("fp8_e4m3"), Some((ElementFormat::Fp8E4M3, 1)));
        assert_eq!(parse_type("float5"), None);
        assert_eq!(
            Argument::parse("tensor int4 (64, 2)").map(|argument| match argument {
                Argument::Tensor(tensor) => tensor.format.bits(),
                _ => 0,
            }),
            Ok(4)
        );
    }

    #[test]
    fn refusals() {
        for (text, error) in [
            (
                "thing 3",
                "`thing` is no kind of argument: buffer, tensor, bytes, struct, handles or null",
            ),
            (
                "buffer quux[3]",
                "`quux` is no element type: float, half, bfloat, bool, char, short, int, long and their unsigned kinds, or vectors of \
                 2 to 4 (float4)",
            ),
            (
                "tensor quux (3)",
                "`quux` is no element format: the types of buffers, or fp8_e4m3, fp8_e5m2, fp4_e2m1, int4, uint4, int2, uint2",
            ),
            ("buffer float[3", "`buffer float[3`: expected `]` at column 15"),
            (
                "tensor half (3, ) = ones",
                "`tensor half (3, ) = ones`: expected a whole number at column 17",
            ),
            (
                "buffer float[3] = iota(1) x",
                "`buffer float[3] = iota(1) x`: expected the end at column 27",
            ),
        ] {
            assert_eq!(Argument::parse(text).unwrap_err(), error);
        }
    }
}
