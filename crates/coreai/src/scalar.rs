//! Element values: decoding to a number domain, and rounding a number back into an element type.
//!
//! Floats below 64 bits compute in `f32`: sums, products, quotients and roots of f16 and bf16 values are then rounded
//! correctly when stored. Integers compute in `i128` and wrap when stored.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::array::{Array, ArrayError};
use crate::bytecode::ElementType::{self, *};

/// All elements of an array in one number domain.
pub(crate) enum Numbers<'a> {
    F32(Cow<'a, [f32]>),
    F64(Cow<'a, [f64]>),
    Int(Vec<i128>),
}

/// Decodes a real or integer array.
pub(crate) fn decode(array: &Array) -> Result<Numbers<'_>, ArrayError> {
    let element = array.element();
    let bytes = array.bytes();
    Ok(match element {
        F32 | TF32 => match array.raw::<f32>() {
            Some(values) => Numbers::F32(Cow::Borrowed(values)),
            None => Numbers::F32(Cow::Owned(Vec::new())),
        },
        F64 => match array.raw::<f64>() {
            Some(values) => Numbers::F64(Cow::Borrowed(values)),
            None => Numbers::F64(Cow::Owned(Vec::new())),
        },
        F16 => Numbers::F32(each::<2, _>(bytes, |b| f16::from_le_bytes(b).to_f32())),
        BF16 => Numbers::F32(each::<2, _>(bytes, |b| bf16::from_le_bytes(b).to_f32())),
        F8E5M2 => Numbers::F32(each::<1, _>(bytes, |b| small_float(b[0], 5, 2))),
        F8E4M3FN => Numbers::F32(each::<1, _>(bytes, |b| small_float(b[0], 4, 3))),
        F4E2M1FN => Numbers::F32(each::<1, _>(bytes, |b| small_float(b[0] & 15, 2, 1))),
        F8E8M0FN => Numbers::F32(each::<1, _>(bytes, |b| e8m0(b[0]))),
        I64 => Numbers::Int(ints::<8>(bytes, |b| i128::from(i64::from_le_bytes(b)))),
        I32 => Numbers::Int(ints::<4>(bytes, |b| i128::from(i32::from_le_bytes(b)))),
        I16 => Numbers::Int(ints::<2>(bytes, |b| i128::from(i16::from_le_bytes(b)))),
        I8 => Numbers::Int(ints::<1>(bytes, |b| i128::from(b[0] as i8))),
        I4 => Numbers::Int(ints::<1>(bytes, |b| i128::from(((b[0] << 4) as i8) >> 4))),
        I2 => Numbers::Int(ints::<1>(bytes, |b| i128::from(((b[0] << 6) as i8) >> 6))),
        U64 => Numbers::Int(ints::<8>(bytes, |b| i128::from(u64::from_le_bytes(b)))),
        U32 => Numbers::Int(ints::<4>(bytes, |b| i128::from(u32::from_le_bytes(b)))),
        U16 => Numbers::Int(ints::<2>(bytes, |b| i128::from(u16::from_le_bytes(b)))),
        Bool | U8 | U6 | U4 | U3 | U2 | U1 => Numbers::Int(ints::<1>(bytes, |b| i128::from(b[0]))),
        ComplexF64 | ComplexF32 | ComplexF16 | ComplexBF16 | ComplexF8E5M2 | ComplexF8E4M3FN => {
            return Err(ArrayError::Element {
                found: element,
                wanted: "a real or integer type",
            });
        }
    })
}

fn each<'a, const N: usize, T: Clone>(bytes: &[u8], f: impl Fn([u8; N]) -> T) -> Cow<'a, [T]> {
    Cow::Owned(bytes.as_chunks::<N>().0.iter().map(|&b| f(b)).collect())
}

fn ints<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> i128) -> Vec<i128> {
    bytes.as_chunks::<N>().0.iter().map(|&b| f(b)).collect()
}

/// Stores `f32` values in a float type, rounding to nearest even.
pub(crate) fn store_f32(element: ElementType, shape: &[usize], values: Vec<f32>) -> Result<Array, ArrayError> {
    match element {
        F32 | TF32 => Array::from_vec(element, shape, values),
        F16 => Array::from_vec(element, shape, values.iter().map(|&v| f16::from_f32(v)).collect()),
        BF16 => Array::from_vec(element, shape, values.iter().map(|&v| bf16::from_f32(v)).collect()),
        F64 => Array::from_vec(element, shape, values.iter().map(|&v| f64::from(v)).collect()),
        F8E5M2 => Array::from_vec(
            element,
            shape,
            values.iter().map(|&v| to_small_float(v, 5, 2)).collect(),
        ),
        F8E4M3FN => Array::from_vec(
            element,
            shape,
            values.iter().map(|&v| to_small_float(v, 4, 3)).collect(),
        ),
        F4E2M1FN => Array::from_vec(
            element,
            shape,
            values.iter().map(|&v| to_small_float(v, 2, 1)).collect(),
        ),
        _ => Err(ArrayError::Element {
            found: element,
            wanted: "a float type that can be computed",
        }),
    }
}

/// Stores `f64` values in a float type.
pub(crate) fn store_f64(element: ElementType, shape: &[usize], values: Vec<f64>) -> Result<Array, ArrayError> {
    match element {
        F64 => Array::from_vec(element, shape, values),
        F16 => Array::from_vec(element, shape, values.iter().map(|&v| f16::from_f64(v)).collect()),
        BF16 => Array::from_vec(element, shape, values.iter().map(|&v| bf16::from_f64(v)).collect()),
        _ => store_f32(element, shape, values.iter().map(|&v| v as f32).collect()),
    }
}

/// Stores integers in an integer type or bool; the low bits are kept.
pub(crate) fn store_int(element: ElementType, shape: &[usize], values: &[i128]) -> Result<Array, ArrayError> {
    match element {
        I64 | U64 => Array::from_vec(element, shape, values.iter().map(|&v| v as u64).collect()),
        I32 | U32 => Array::from_vec(element, shape, values.iter().map(|&v| v as u32).collect()),
        I16 | U16 => Array::from_vec(element, shape, values.iter().map(|&v| v as u16).collect()),
        Bool => Array::from_vec(element, shape, values.iter().map(|&v| u8::from(v != 0)).collect()),
        I8 | U8 | I4 | I2 | U6 | U4 | U3 | U2 | U1 => {
            let mask = ((1u16 << element.bits()) - 1) as u8;
            Array::from_vec(element, shape, values.iter().map(|&v| v as u8 & mask).collect())
        }
        _ => Err(ArrayError::Element {
            found: element,
            wanted: "an integer type",
        }),
    }
}

/// Decodes a small float with `exponent` and `mantissa` bits below a sign bit. E4M3FN has one NaN and no infinity;
/// E5M2 follows IEEE; E2M1 has neither.
fn small_float(bits: u8, exponent: u32, mantissa: u32) -> f32 {
    let sign = if bits >> (exponent + mantissa) & 1 == 1 {
        -1.0
    } else {
        1.0
    };
    let bias = (1i32 << (exponent - 1)) - 1;
    let e = i32::from(bits >> mantissa) & ((1 << exponent) - 1);
    let m = f32::from(bits & ((1 << mantissa) - 1));
    let top = (1 << exponent) - 1;
    let all_ones = f32::from((1u8 << mantissa) - 1);
    if exponent == 5 && e == top {
        return if m == 0.0 { sign * f32::INFINITY } else { f32::NAN };
    }
    if exponent == 4 && e == top && m == all_ones {
        return f32::NAN;
    }
    let scale = (mantissa as f32).exp2();
    if e == 0 {
        sign * m / scale * ((1 - bias) as f32).exp2()
    } else {
        sign * (1.0 + m / scale) * ((e - bias) as f32).exp2()
    }
}

/// Rounds to the nearest small float, ties to even. Too large values become infinity (E5M2), NaN (E4M3FN) or the
/// largest value (E2M1), as PyTorch's casts do.
fn to_small_float(value: f32, exponent: u32, mantissa: u32) -> u8 {
    let sign = u8::from(value.is_sign_negative()) << (exponent + mantissa);
    let top = ((1u8 << exponent) - 1) << mantissa;
    let (infinity, nan, largest) = match exponent {
        5 => (top, top | 3, top - 1),
        4 => (top | 7, top | 7, top | 6),
        _ => (7, 7, 7),
    };
    if value.is_nan() {
        return sign | nan;
    }
    let x = value.abs();
    let bias = (1i32 << (exponent - 1)) - 1;
    // The spacing of representable values around x.
    let e = if x == 0.0 {
        1 - bias
    } else {
        ((x.to_bits() >> 23) as i32 - 127).max(1 - bias)
    };
    let steps = f64::from(x) * f64::from(mantissa as i32 - e).exp2();
    let rounded = steps.round_ties_even();
    if !rounded.is_finite() || rounded > 1e9 {
        return sign | infinity;
    }
    // Codes of positive values are consecutive, so a carry into the exponent comes out right.
    let code = rounded as i64 + i64::from((e - (1 - bias)) << mantissa);
    if code > i64::from(largest) {
        sign | infinity
    } else {
        sign | code as u8
    }
}

/// The power of two of an OCP E8M0 scale; 255 is NaN.
fn e8m0(bits: u8) -> f32 {
    match bits {
        255 => f32::NAN,
        0 => f32::from_bits(1 << 22),
        b => f32::from_bits(u32::from(b) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_round_trip() {
        for (exponent, mantissa) in [(5, 2), (4, 3), (2, 1)] {
            for code in 0..1u16 << (1 + exponent + mantissa) {
                let value = small_float(code as u8, exponent, mantissa);
                if !value.is_nan() {
                    assert_eq!(
                        to_small_float(value, exponent, mantissa),
                        code as u8,
                        "e{exponent}m{mantissa} {code}"
                    );
                }
            }
        }
        assert_eq!(small_float(0x7e, 4, 3), 448.0);
        assert_eq!(small_float(0x7b, 5, 2), 57344.0);
        assert_eq!(small_float(7, 2, 1), 6.0);
        // 17 lies between 16 and 18: a tie goes to the even code.
        assert_eq!(small_float(to_small_float(17.0, 4, 3), 4, 3), 16.0);
        assert_eq!(small_float(to_small_float(19.0, 4, 3), 4, 3), 20.0);
        assert_eq!(e8m0(127), 1.0);
        assert_eq!(e8m0(0), 2f32.powi(-127));
    }

    #[test]
    fn integers_wrap() {
        let a = store_int(I8, &[3], &[127, 128, -129]).unwrap();
        assert_eq!(a.values::<i8>().unwrap(), &[127, -128, 127]);
        let b = store_int(I4, &[2], &[-2, 9]).unwrap();
        assert_eq!(b.bytes(), &[0x0e, 9]);
        assert_eq!(b.to_integers().unwrap(), [-2, -7]);
    }
}
