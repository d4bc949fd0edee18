//! Blocks of 32 values to codes and back, written so that the compiler turns every loop into vector instructions: no branch
//! depends on a value, and everything is integer and `f32` arithmetic.
//!
//! Each function here is the plain reference of `anymetal-formats` in other words. Two facts make `f32` enough: dividing by a
//! power of two is exact unless the result is subnormal, and what is subnormal there is far below half of the smallest
//! element; and the smallest elements are multiples of one power of two, so adding a large number rounds them in hardware.

use anymetal_formats::{ElementFormat, MX_BLOCK, block_max_exponent};

/// One block of values.
pub(super) type Block = [f32; MX_BLOCK];

/// How source values lie in memory.
pub(super) trait Source {
    /// Bytes of a value.
    const BYTES: usize;
    /// The value of `code` (the low bytes of a word), exactly.
    fn value(code: u32) -> f32;
}

pub(super) struct F32;
pub(super) struct F16;
pub(super) struct BF16;

impl Source for F32 {
    const BYTES: usize = 4;
    #[inline(always)]
    fn value(code: u32) -> f32 {
        f32::from_bits(code)
    }
}

impl Source for BF16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn value(code: u32) -> f32 {
        f32::from_bits(code << 16)
    }
}

impl Source for F16 {
    const BYTES: usize = 2;
    #[inline(always)]
    fn value(code: u32) -> f32 {
        let sign = (code & 0x8000) << 16;
        let magnitude = (code & 0x7fff) << 13;
        // The exponent moves from bias 15 to bias 127 by a product, which puts subnormals right as well.
        let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
        let special = magnitude | 0x7f80_0000;
        f32::from_bits(sign | if magnitude >= 0x7c00 << 13 { special } else { finite })
    }
}

/// The first values of `bytes` as a block, zeros where `bytes` ends.
#[inline(always)]
pub(super) fn load<S: Source>(bytes: &[u8]) -> Block {
    let mut block = [0f32; MX_BLOCK];
    let word = |bytes: &[u8]| {
        if S::BYTES == 4 {
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        } else {
            u32::from(u16::from_le_bytes([bytes[0], bytes[1]]))
        }
    };
    if let Some(bytes) = bytes.get(..MX_BLOCK * S::BYTES) {
        for (value, bytes) in block.iter_mut().zip(bytes.chunks_exact(S::BYTES)) {
            *value = S::value(word(bytes));
        }
    } else {
        for (value, bytes) in block.iter_mut().zip(bytes.chunks_exact(S::BYTES)) {
            *value = S::value(word(bytes));
        }
    }
    block
}

/// An element format as arithmetic.
pub(super) trait Element {
    const FORMAT: ElementFormat;
    /// Its width, as a constant that no call has to ask for.
    const BITS: usize = Self::FORMAT.bits();
    /// Bytes of a packed block.
    const BLOCK_BYTES: usize = Self::FORMAT.bytes_for(MX_BLOCK);
    /// The exponent of its largest power of two.
    const MAX_EXPONENT: i32 = match block_max_exponent(Self::FORMAT) {
        Some(exponent) => exponent,
        None => panic!("a format for blocks"),
    };
    /// The code nearest to a scaled value (ties to even, clamped), and the magnitude that the code means for a
    /// non-negative value, the value itself for integers.
    fn encode(scaled: f32) -> u32;
    /// The value of a code.
    fn decode(code: u32) -> f32;
}

/// A format of sign, exponent and mantissa: `M` mantissa bits, the exponent's bias, the largest finite magnitude code.
#[inline(always)]
fn encode_float<const M: u32, const BIAS: u32, const TOP: u32, const SIGN_SHIFT: u32>(scaled: f32) -> u32 {
    let bits = scaled.to_bits();
    let (sign, magnitude) = (bits >> 31, bits & 0x7fff_ffff);
    // Normal elements: round the mantissa of the f32 and move the exponent's bias.
    let shift = 23 - M;
    let half = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
    let normal = (magnitude.wrapping_add(half) >> shift).wrapping_sub((127 - BIAS) << M);
    // Subnormal elements: multiples of 2^(1 − bias − M). Next to this number that is the last place of an f32.
    let magic = (127 + 24 - BIAS - M) << 23;
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(magic))
        .to_bits()
        .wrapping_sub(magic);
    let code = if magnitude < (128 - BIAS) << 23 {
        subnormal
    } else {
        normal
    };
    code.min(TOP) | sign << SIGN_SHIFT
}

/// The inverse; the exponent's bias moves by a product, which puts subnormals right as well.
#[inline(always)]
fn decode_float<const M: u32, const BIAS: u32, const SIGN_SHIFT: u32>(code: u32) -> f32 {
    let magnitude = code & ((1 << SIGN_SHIFT) - 1);
    let finite = f32::from_bits(magnitude << (23 - M)) * f32::from_bits((127 + 127 - BIAS) << 23);
    f32::from_bits(finite.to_bits() | (code >> SIGN_SHIFT & 1) << 31)
}

pub(super) struct E4M3;
pub(super) struct E5M2;
pub(super) struct E2M1;
/// Integers of 8, 4 and 2 bits.
pub(super) struct Int<const BITS: u32>;

impl Element for E4M3 {
    const FORMAT: ElementFormat = ElementFormat::Fp8E4M3;
    #[inline(always)]
    fn encode(scaled: f32) -> u32 {
        encode_float::<3, 7, 0x7e, 7>(scaled)
    }
    #[inline(always)]
    fn decode(code: u32) -> f32 {
        let value = decode_float::<3, 7, 7>(code);
        if code & 0x7f == 0x7f { f32::NAN } else { value }
    }
}

impl Element for E5M2 {
    const FORMAT: ElementFormat = ElementFormat::Fp8E5M2;
    #[inline(always)]
    fn encode(scaled: f32) -> u32 {
        encode_float::<2, 15, 0x7b, 7>(scaled)
    }
    #[inline(always)]
    fn decode(code: u32) -> f32 {
        let value = decode_float::<2, 15, 7>(code);
        let special = f32::from_bits((code & 0x80) << 24 | 0x7f80_0000 | (code & 3) << 21);
        if code & 0x7f >= 0x7c { special } else { value }
    }
}

impl Element for E2M1 {
    const FORMAT: ElementFormat = ElementFormat::Fp4E2M1;
    #[inline(always)]
    fn encode(scaled: f32) -> u32 {
        encode_float::<1, 1, 7, 3>(scaled)
    }
    #[inline(always)]
    fn decode(code: u32) -> f32 {
        decode_float::<1, 1, 3>(code)
    }
}

impl<const BITS: u32> Element for Int<BITS> {
    const FORMAT: ElementFormat = match BITS {
        8 => ElementFormat::I8,
        4 => ElementFormat::Int4B,
        _ => ElementFormat::Int2B,
    };
    #[inline(always)]
    fn encode(scaled: f32) -> u32 {
        // Near 1.5 · 2^23 the last place of an f32 is one.
        const MAGIC: f32 = 12_582_912.0;
        let top = (1 << (BITS - 1)) - 1;
        let integer = (scaled + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32;
        (integer.clamp(-top, top) as u32) & ((1 << BITS) - 1)
    }
    #[inline(always)]
    fn decode(code: u32) -> f32 {
        ((code << (32 - BITS)) as i32 >> (32 - BITS)) as f32
    }
}

/// What one block's quantisation lost, in units of its scale.
#[derive(Clone, Copy, Default)]
pub(super) struct BlockError {
    /// The block's scale.
    pub scale: f32,
    /// Largest |value − result|.
    pub largest: f32,
    /// Sum of (value − result)².
    pub error: f32,
    /// Sum of value².
    pub signal: f32,
}

/// Quantises a block into its codes and returns its scale code; with `MEASURE` also the error. For blocks with a NaN or an infinity the
/// answer is `None`: the caller takes the reference.
#[inline(always)]
pub(super) fn quantise<E: Element, const MEASURE: bool>(
    block: &Block,
    codes: &mut [u32; MX_BLOCK],
) -> Option<(u8, BlockError)> {
    let mut largest = 0u32;
    for value in block {
        largest = largest.max(value.to_bits() & 0x7fff_ffff);
    }
    if largest >= 0x7f80_0000 {
        return None;
    }
    let field = largest >> 23;
    // floor(log2): for subnormals from the position of the first bit.
    let exponent = if field != 0 {
        field as i32 - 127
    } else {
        31 - 149 - largest.leading_zeros() as i32
    };
    let shared = if largest == 0 {
        0
    } else {
        exponent - E::MAX_EXPONENT + 127
    };
    let scale = shared.max(0) as u32;
    // 2^(127 − scale), which is subnormal for the largest scale, 254 (only `int2` gets that far).
    let reciprocal = f32::from_bits(((254 - scale) << 23).max(0x0040_0000));
    let mut error = BlockError::default();
    // One simple loop a step: that is what the compiler makes vectors of.
    for (code, value) in codes.iter_mut().zip(block) {
        *code = E::encode(value * reciprocal);
    }
    let (mut largest, mut sum, mut signal) = ([0f32; 8], [0f32; 8], [0f32; 8]);
    if MEASURE {
        for (values, codes) in block.chunks_exact(8).zip(codes.chunks_exact(8)) {
            for j in 0..8 {
                let scaled = values[j] * reciprocal;
                let lost = scaled - E::decode(codes[j]);
                largest[j] = if lost.abs() > largest[j] {
                    lost.abs()
                } else {
                    largest[j]
                };
                sum[j] += lost * lost;
                signal[j] += scaled * scaled;
            }
        }
    }
    if MEASURE {
        error = BlockError {
            scale: scale_value(scale as u8),
            largest: largest.iter().fold(0.0, |a, &b| a.max(b)),
            error: sum.iter().sum(),
            signal: signal.iter().sum(),
        };
    }
    Some((scale as u8, error))
}

/// The value of a UE8M0 code.
#[inline(always)]
pub(super) fn scale_value(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(code) << 23),
    }
}

/// The results of a block of codes.
#[inline(always)]
pub(super) fn dequantise<E: Element>(codes: &[u8; MX_BLOCK], scale: u8) -> Block {
    let scale = scale_value(scale);
    let mut block = [0f32; MX_BLOCK];
    for (value, &code) in block.iter_mut().zip(codes) {
        *value = E::decode(code.into()) * scale;
    }
    block
}

/// Packs a block's codes into memory, low bits first.
#[inline(always)]
pub(super) fn pack<E: Element>(codes: &[u32; MX_BLOCK], bytes: &mut [u8]) {
    match E::BITS {
        8 => {
            for (byte, code) in bytes[..MX_BLOCK].iter_mut().zip(codes) {
                *byte = *code as u8;
            }
        }
        4 => {
            for (i, byte) in bytes[..MX_BLOCK / 2].iter_mut().enumerate() {
                *byte = (codes[2 * i] | codes[2 * i + 1] << 4) as u8;
            }
        }
        _ => {
            for (i, byte) in bytes[..MX_BLOCK / 4].iter_mut().enumerate() {
                let [a, b, c, d] = [codes[4 * i], codes[4 * i + 1], codes[4 * i + 2], codes[4 * i + 3]];
                *byte = (a | b << 2 | c << 4 | d << 6) as u8;
            }
        }
    }
}

/// The inverse of [`pack`].
#[inline(always)]
pub(super) fn unpack<E: Element>(bytes: &[u8]) -> [u8; MX_BLOCK] {
    let mut codes = [0u8; MX_BLOCK];
    match E::BITS {
        8 => codes.copy_from_slice(&bytes[..MX_BLOCK]),
        4 => {
            for (pair, &byte) in codes.chunks_exact_mut(2).zip(bytes) {
                pair.copy_from_slice(&[byte & 15, byte >> 4]);
            }
        }
        _ => {
            for (quad, &byte) in codes.chunks_exact_mut(4).zip(bytes) {
                quad.copy_from_slice(&[byte & 3, byte >> 2 & 3, byte >> 4 & 3, byte >> 6]);
            }
        }
    }
    codes
}
