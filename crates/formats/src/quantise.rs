//! MX quantisation and its inverse: the plain, slow, exact reference.
//!
//! The rule is that of the OCP Microscaling Formats specification v1.0, section 6.3: the scale of a block is
//! 2^(floor(log2(largest magnitude)) − emax of the element format), clamped to what E8M0 holds; each element is the value divided by
//! the scale, rounded to nearest even, values past the largest finite one clamped.
//!
//! Signed integers follow the same rule, emax being the exponent of the largest power of two that they hold: 6 for `i8`, 2
//! for `int4`, 0 for `int2`. For `i8` that is OCP's MXINT8 with its fixed factor of 2^-6 moved into the scale. The range is kept symmetric, as
//! the specification recommends: −128, −8 and −2 do not occur.

use crate::codec::Saturation;
use crate::extents::Extents;
use crate::format::ElementFormat;

/// Elements that share a scale, along dimension 0.
pub const MX_BLOCK: usize = 32;

/// Elements and scales of a quantised tensor, both packed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quantised {
    /// The element format.
    pub format: ElementFormat,
    /// Shape in elements, innermost first.
    pub dimensions: Extents,
    /// The data plane: packed codes, low bits first for sub-byte formats.
    pub data: Vec<u8>,
    /// The scales plane: one UE8M0 code for each block of 32 along dimension 0, shape `[dimensions[0] / 32, …]`.
    pub scales: Vec<u8>,
}

/// Why values cannot be quantised or planes not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantiseError {
    /// Not an MX element format.
    #[error(
        "{format} is not a format for blocks with power-of-two scales; use fp8_e4m3, fp8_e5m2, fp4_e2m1, i8, int4 or int2"
    )]
    NotMx {
        /// The format asked for.
        format: ElementFormat,
    },
    /// Values of a type that is not quantised.
    #[error("values of {format} cannot be quantised; give f32, f16 or bf16")]
    Source {
        /// The values' format.
        format: ElementFormat,
    },
    /// Dimension 0 is not made of whole blocks.
    #[error("dimension 0 is {size}, not a multiple of {MX_BLOCK}; pad it")]
    NotWholeBlocks {
        /// The size of dimension 0 (1 for a scalar).
        size: usize,
    },
    /// Too few or too many bytes or values.
    #[error("dimensions {dimensions} need {needed} {what}, {given} were given")]
    Length {
        /// The shape.
        dimensions: Box<Extents>,
        /// `values`, `data bytes` or `scales`.
        what: &'static str,
        /// How many are needed.
        needed: usize,
        /// How many there are.
        given: usize,
    },
}

/// The exponent of the largest power of two that an element holds, for the formats that [`quantise_mx`] takes: `emax` of the
/// OCP specification for the floating-point formats, and 6, 2 and 0 for `i8`, `int4` and `int2`. `None` for the others.
pub const fn block_max_exponent(format: ElementFormat) -> Option<i32> {
    use ElementFormat::*;
    match format {
        Fp8E4M3 | Fp8E5M2 | Fp4E2M1 => format.max_exponent(),
        I8 => Some(6),
        Int4B => Some(2),
        Int2B => Some(0),
        _ => None,
    }
}

/// The UE8M0 code that the MX rule gives a block whose largest finite magnitude is `largest`: 127 +
/// floor(log2(largest)) − emax, between 0 and 254. A block of zeros gets the smallest scale, code 0; a block with a NaN
/// or an infinity (`largest` not finite) gets the NaN scale, 255.
pub fn mx_scale(largest: f64, format: ElementFormat) -> u8 {
    if !largest.is_finite() {
        return 255;
    }
    if largest == 0.0 {
        return 0;
    }
    let exponent = i64::from(floor_log2(largest)) - i64::from(block_max_exponent(format).unwrap_or(0));
    (exponent + 127).clamp(0, 254) as u8
}

/// floor(log2(x)) of a positive finite number, exactly.
fn floor_log2(x: f64) -> i32 {
    let field = (x.to_bits() >> 52 & 0x7ff) as i32;
    if field != 0 {
        return field - 1023;
    }
    let fraction = x.to_bits() & ((1 << 52) - 1);
    -1074 + 63 - fraction.leading_zeros() as i32
}

fn check_shape(format: ElementFormat, dimensions: &Extents) -> Result<usize, QuantiseError> {
    if block_max_exponent(format).is_none() {
        return Err(QuantiseError::NotMx { format });
    }
    let size = dimensions.first().copied().unwrap_or(1);
    if size % MX_BLOCK != 0 {
        return Err(QuantiseError::NotWholeBlocks { size });
    }
    Ok(dimensions.element_count().unwrap_or(usize::MAX))
}

fn check_length(dimensions: &Extents, what: &'static str, needed: usize, given: usize) -> Result<(), QuantiseError> {
    if needed == given {
        return Ok(());
    }
    Err(QuantiseError::Length {
        dimensions: Box::new(*dimensions),
        what,
        needed,
        given,
    })
}

/// Quantises packed `values` of shape `dimensions` (innermost first): E4M3, E5M2, E2M1, `i8`, `int4` or `int2` elements with
/// UE8M0 scales for blocks of 32 along dimension 0.
///
/// A block that contains a NaN or an infinity gets the NaN scale and so dequantises to NaN throughout.
pub fn quantise_mx(values: &[f32], dimensions: &Extents, format: ElementFormat) -> Result<Quantised, QuantiseError> {
    let count = check_shape(format, dimensions)?;
    check_length(dimensions, "values", count, values.len())?;
    let mut scales = Vec::with_capacity(count / MX_BLOCK);
    let mut scaled = Vec::with_capacity(count);
    for block in values.chunks(MX_BLOCK) {
        let finite = block.iter().all(|v| v.is_finite());
        let largest = block.iter().fold(0f64, |m, &v| m.max(f64::from(v).abs()));
        let scale = mx_scale(if finite { largest } else { f64::NAN }, format);
        scales.push(scale);
        let divisor = if scale == 255 {
            1.0
        } else {
            ElementFormat::Fp8UE8M0.decode(scale.into())
        };
        // The division is by a power of two and the quotient stays far from f64's limits: exact.
        let quotients = block.iter().map(|&v| f64::from(v) / divisor);
        if format.is_integer() {
            let largest = format.max_finite();
            scaled.extend(quotients.map(|v| v.clamp(-largest, largest)));
        } else {
            scaled.extend(quotients);
        }
    }
    let data = format.pack(scaled, Saturation::Clamp);
    Ok(Quantised {
        format,
        dimensions: *dimensions,
        data,
        scales,
    })
}

/// Dequantises packed planes of an MX tensor, in `f64` so that nothing rounds: element times 2^(scale − 127).
pub fn dequantise_mx_f64(
    data: &[u8],
    scales: &[u8],
    dimensions: &Extents,
    format: ElementFormat,
) -> Result<Vec<f64>, QuantiseError> {
    let count = check_shape(format, dimensions)?;
    check_length(dimensions, "data bytes", format.bytes_for(count), data.len())?;
    check_length(dimensions, "scales", count / MX_BLOCK, scales.len())?;
    Ok((0..count)
        .map(|i| {
            let scale = ElementFormat::Fp8UE8M0.decode(scales[i / MX_BLOCK].into());
            format.load(data, i).map_or(f64::NAN, |code| format.decode(code)) * scale
        })
        .collect())
}

/// [`dequantise_mx_f64`] rounded once to `f32`.
pub fn dequantise_mx(
    data: &[u8],
    scales: &[u8],
    dimensions: &Extents,
    format: ElementFormat,
) -> Result<Vec<f32>, QuantiseError> {
    let exact = dequantise_mx_f64(data, scales, dimensions, format)?;
    Ok(exact.into_iter().map(|v| v as f32).collect())
}

impl Quantised {
    /// The values, see [`dequantise_mx`].
    pub fn dequantise(&self) -> Result<Vec<f32>, QuantiseError> {
        dequantise_mx(&self.data, &self.scales, &self.dimensions, self.format)
    }
}
