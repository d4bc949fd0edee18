//! Quantisation to blocks with power-of-two scales, and back, as fast as memory goes.
//!
//! The results are those of [`anymetal_formats::quantise_mx`] bit for bit: MXFP8 (E4M3, E5M2), MXFP4 (E2M1) and signed integers of 8, 4 and
//! 2 bits, each with a UE8M0 scale for 32 neighbours along dimension 0, by the OCP rule. What a [`Tensor`](crate::Tensor) of such a
//! format with a scales plane holds is exactly `data` and `scales` of a [`Quantised`].
//!
//! ```
//! use anymetal::quantise::{dequantise, quantise};
//! use anymetal::{ElementFormat, Extents};
//!
//! let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
//! let quantised = quantise(&values, &Extents::from([32, 2]), ElementFormat::I8)?;
//! assert_eq!(quantised.scales, [125, 126]);
//! assert_eq!(dequantise(&quantised)?, values);
//! # Ok::<(), anymetal::Error>(())
//! ```

mod block;
mod metrics;

use anymetal_formats::{ElementFormat, Extents, MX_BLOCK, QuantiseError, block_max_exponent};

pub use anymetal_formats::Quantised;
pub use metrics::ErrorMetrics;

use crate::error::Result;
use block::{BF16, Element, F16, F32, Source};
use metrics::Sums;

/// Formats that values can be quantised to, see [`anymetal_formats::quantise_mx`].
pub const FORMATS: [ElementFormat; 6] = [
    ElementFormat::Fp8E4M3,
    ElementFormat::Fp8E5M2,
    ElementFormat::Fp4E2M1,
    ElementFormat::I8,
    ElementFormat::Int4B,
    ElementFormat::Int2B,
];

/// Blocks that are worth a thread of their own.
const BLOCKS_PER_THREAD: usize = 4096;

/// How to quantise.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QuantiseOptions {
    /// The element format, one of [`FORMATS`].
    pub format: ElementFormat,
    /// Fill dimension 0 up with zeros to a multiple of 32, instead of refusing. The result has the padded dimensions.
    pub pad: bool,
    /// Measure the error.
    pub metrics: bool,
    /// How many threads at most; `None` for one a core.
    pub threads: Option<usize>,
}

impl QuantiseOptions {
    /// To this format: no padding, no metrics, all cores.
    pub const fn new(format: ElementFormat) -> Self {
        Self {
            format,
            pad: false,
            metrics: false,
            threads: None,
        }
    }

    /// The same with padding on or off.
    pub const fn with_padding(mut self, pad: bool) -> Self {
        self.pad = pad;
        self
    }

    /// The same with metrics on or off.
    pub const fn with_metrics(mut self, metrics: bool) -> Self {
        self.metrics = metrics;
        self
    }

    /// The same with at most this many threads.
    pub const fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }
}

/// Quantises packed `values` of shape `dimensions` (innermost first, whole blocks of 32 along dimension 0).
pub fn quantise(values: &[f32], dimensions: &Extents, format: ElementFormat) -> Result<Quantised> {
    Ok(quantise_with(values, dimensions, &QuantiseOptions::new(format))?.0)
}

/// [`quantise`] with options.
pub fn quantise_with(
    values: &[f32],
    dimensions: &Extents,
    options: &QuantiseOptions,
) -> Result<(Quantised, Option<ErrorMetrics>)> {
    let bytes = bytemuck::cast_slice(values);
    quantise_bytes(bytes, ElementFormat::F32, dimensions, options)
}

/// Quantises packed values as they lie in a file or buffer: little-endian `f32`, `f16` or `bf16` (`source`), of any alignment.
pub fn quantise_bytes(
    bytes: &[u8],
    source: ElementFormat,
    dimensions: &Extents,
    options: &QuantiseOptions,
) -> Result<(Quantised, Option<ErrorMetrics>)> {
    let padded = check(bytes.len(), source, dimensions, options)?;
    let count = padded.element_count().unwrap_or(0);
    let mut quantised = Quantised {
        format: options.format,
        dimensions: padded,
        data: vec![0; options.format.bytes_for(count)],
        scales: vec![0; count / MX_BLOCK],
    };
    let metrics = quantise_into(
        bytes,
        source,
        dimensions,
        options,
        &mut quantised.data,
        &mut quantised.scales,
    )?;
    Ok((quantised, metrics))
}

/// [`quantise_bytes`] into memory that the caller has (fresh memory costs more time than quantising): `data` and `scales` take
/// the packed planes of [`padded_dimensions`].
pub fn quantise_into(
    bytes: &[u8],
    source: ElementFormat,
    dimensions: &Extents,
    options: &QuantiseOptions,
    data: &mut [u8],
    scales: &mut [u8],
) -> Result<Option<ErrorMetrics>> {
    let format = options.format;
    let padded = check(bytes.len(), source, dimensions, options)?;
    let count = padded.element_count().unwrap_or(0);
    let planes = [
        ("data bytes", format.bytes_for(count), data.len()),
        ("scales", count / MX_BLOCK, scales.len()),
    ];
    check_lengths(&padded, &planes)?;
    // Rows that are whole blocks run into each other, so that one long row is shared between threads as well.
    let size = dimensions[0];
    let row = if size == padded[0] { MX_BLOCK } else { size } * (source.bits() / 8);
    let sums = split(bytes, row, data, scales, options, |part| {
        with_format(format, part, source, options.metrics)
    });
    Ok(options.metrics.then(|| sums.finish()))
}

/// The dimensions of the planes that values of these `dimensions` need: the first one rounded up to whole blocks.
pub fn padded_dimensions(dimensions: &Extents) -> Result<Extents> {
    let mut padded = dimensions.to_vec();
    let refused = QuantiseError::NotWholeBlocks {
        size: padded.first().copied().unwrap_or(1),
    };
    match padded
        .first_mut()
        .and_then(|n| Some((n.checked_next_multiple_of(MX_BLOCK)?, n)))
    {
        Some((whole, n)) => *n = whole,
        None => return Err(refuse(refused)),
    }
    Ok(Extents::new(&padded)?)
}

fn refuse(error: QuantiseError) -> crate::Error {
    crate::Error::Quantise(Box::new(error))
}

fn check_lengths(dimensions: &Extents, planes: &[(&'static str, usize, usize)]) -> Result<()> {
    for &(what, needed, given) in planes {
        if needed != given {
            return Err(refuse(QuantiseError::Length {
                dimensions: Box::new(*dimensions),
                what,
                needed,
                given,
            }));
        }
    }
    Ok(())
}

/// Checks what is to be quantised; the answer is the dimensions of the planes.
fn check(given: usize, source: ElementFormat, dimensions: &Extents, options: &QuantiseOptions) -> Result<Extents> {
    let format = options.format;
    if block_max_exponent(format).is_none() {
        return Err(refuse(QuantiseError::NotMx { format }));
    }
    if !matches!(source, ElementFormat::F32 | ElementFormat::F16 | ElementFormat::BF16) {
        return Err(refuse(QuantiseError::Source { format: source }));
    }
    let padded = padded_dimensions(dimensions)?;
    if padded[0] != dimensions[0] && !options.pad {
        let size = dimensions[0];
        return Err(refuse(QuantiseError::NotWholeBlocks { size }));
    }
    // A count that no memory can hold cannot match the bytes either; it only must not wrap.
    let needed = dimensions
        .element_count()
        .and_then(|n| n.checked_mul(source.bits() / 8));
    let needed = needed
        .filter(|_| padded.element_count().is_some())
        .unwrap_or(usize::MAX);
    check_lengths(dimensions, &[("bytes of values", needed, given)])?;
    Ok(padded)
}

/// Some rows: their values, and where codes and scales go.
struct Part<'a> {
    rows: std::slice::Chunks<'a, u8>,
    data: &'a mut [u8],
    scales: &'a mut [u8],
}

fn split<'a>(
    bytes: &'a [u8],
    row_bytes: usize,
    data: &'a mut [u8],
    scales: &'a mut [u8],
    options: &QuantiseOptions,
    work: impl Fn(Part<'a>) -> Sums + Sync,
) -> Sums {
    if scales.is_empty() {
        return Sums::default();
    }
    let rows = bytes.len() / row_bytes;
    let row_blocks = scales.len() / rows;
    let share = share(rows, row_blocks, options.threads);
    let parts = bytes
        .chunks(share * row_bytes)
        .zip(data.chunks_mut(share * row_blocks * options.format.bytes_for(MX_BLOCK)))
        .zip(scales.chunks_mut(share * row_blocks))
        .map(|((bytes, data), scales)| Part {
            rows: bytes.chunks(row_bytes),
            data,
            scales,
        });
    run(parts.collect(), work).into_iter().fold(Sums::default(), Sums::join)
}

/// Rows that one thread takes, out of `rows` of `row_blocks` blocks each.
fn share(rows: usize, row_blocks: usize, threads: Option<usize>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let worth = (rows.saturating_mul(row_blocks) / BLOCKS_PER_THREAD).max(1);
    let threads = threads.unwrap_or(cores).clamp(1, worth);
    rows.div_ceil(threads).max(1)
}

/// Every part on a thread of its own, the first on this one.
fn run<P: Send, R: Send>(parts: Vec<P>, work: impl Fn(P) -> R + Sync) -> Vec<R> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Vec::new() };
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut results = vec![work(first)];
        for other in others {
            match other.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

fn with_format(format: ElementFormat, part: Part, source: ElementFormat, measure: bool) -> Sums {
    match format {
        ElementFormat::Fp8E4M3 => with_source::<block::E4M3>(part, source, measure),
        ElementFormat::Fp8E5M2 => with_source::<block::E5M2>(part, source, measure),
        ElementFormat::Fp4E2M1 => with_source::<block::E2M1>(part, source, measure),
        ElementFormat::I8 => with_source::<block::Int<8>>(part, source, measure),
        ElementFormat::Int4B => with_source::<block::Int<4>>(part, source, measure),
        _ => with_source::<block::Int<2>>(part, source, measure),
    }
}

fn with_source<E: Element>(part: Part, source: ElementFormat, measure: bool) -> Sums {
    match (source, measure) {
        (ElementFormat::F16, false) => rows::<E, F16, false>(part),
        (ElementFormat::F16, true) => rows::<E, F16, true>(part),
        (ElementFormat::BF16, false) => rows::<E, BF16, false>(part),
        (ElementFormat::BF16, true) => rows::<E, BF16, true>(part),
        (_, false) => rows::<E, F32, false>(part),
        (_, true) => rows::<E, F32, true>(part),
    }
}

/// The same code for wider vectors where the processor has them.
fn rows<E: Element, S: Source, const MEASURE: bool>(part: Part) -> Sums {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the features.
            return unsafe { rows_avx512::<E, S, MEASURE>(part) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the feature.
            return unsafe { rows_avx2::<E, S, MEASURE>(part) };
        }
    }
    rows_plain::<E, S, MEASURE>(part)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn rows_avx512<E: Element, S: Source, const MEASURE: bool>(part: Part) -> Sums {
    rows_plain::<E, S, MEASURE>(part)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn rows_avx2<E: Element, S: Source, const MEASURE: bool>(part: Part) -> Sums {
    rows_plain::<E, S, MEASURE>(part)
}

#[inline(always)]
fn rows_plain<E: Element, S: Source, const MEASURE: bool>(part: Part) -> Sums {
    let mut sums = Sums::default();
    let mut places = part.data.chunks_exact_mut(E::BLOCK_BYTES).zip(part.scales);
    let mut codes = [0u32; MX_BLOCK];
    for row in part.rows {
        for values in row.chunks(MX_BLOCK * S::BYTES) {
            let Some((data, scale)) = places.next() else {
                return sums;
            };
            let values_in = values.len() / S::BYTES;
            let block = block::load::<S>(values);
            match block::quantise::<E, MEASURE>(&block, &mut codes) {
                Some((code, error)) => {
                    *scale = code;
                    if MEASURE {
                        sums.add(values_in, &error);
                    }
                }
                None => {
                    *scale = u8::MAX;
                    codes = non_finite(&block, E::FORMAT);
                    sums.skip(values_in);
                }
            }
            block::pack::<E>(&codes, data);
        }
    }
    sums
}

/// The codes of a block with a NaN or an infinity, whose scale is NaN: the values themselves, by the reference's rule.
#[cold]
fn non_finite(block: &block::Block, format: ElementFormat) -> [u32; MX_BLOCK] {
    let largest = if format.is_integer() {
        format.max_finite()
    } else {
        f64::INFINITY
    };
    block.map(|value| {
        let value = f64::from(value).clamp(-largest, largest);
        format.encode_with(value, anymetal_formats::Saturation::Clamp) as u32
    })
}

/// The values of a quantised tensor: each element times its scale, rounded to `f32`.
pub fn dequantise(quantised: &Quantised) -> Result<Vec<f32>> {
    let Quantised {
        format,
        dimensions,
        data,
        scales,
    } = quantised;
    let mut values = vec![0f32; data.len() / format.bytes_for(MX_BLOCK).max(1) * MX_BLOCK];
    dequantise_into(*format, dimensions, data, scales, &mut values)?;
    Ok(values)
}

/// [`dequantise`] from packed planes into memory that the caller has: `values` takes every element of `dimensions`.
pub fn dequantise_into(
    format: ElementFormat,
    dimensions: &Extents,
    data: &[u8],
    scales: &[u8],
    values: &mut [f32],
) -> Result<()> {
    if block_max_exponent(format).is_none() {
        return Err(refuse(QuantiseError::NotMx { format }));
    }
    let size = dimensions.first().copied().unwrap_or(1);
    if !size.is_multiple_of(MX_BLOCK) {
        return Err(refuse(QuantiseError::NotWholeBlocks { size }));
    }
    let count = dimensions.element_count().unwrap_or(usize::MAX);
    let lengths = [
        ("data bytes", format.bytes_for(count), data.len()),
        ("scales", count / MX_BLOCK, scales.len()),
        ("values", count, values.len()),
    ];
    check_lengths(dimensions, &lengths)?;
    let share = share(scales.len(), 1, None);
    let parts = data
        .chunks(share * format.bytes_for(MX_BLOCK))
        .zip(scales.chunks(share))
        .zip(values.chunks_mut(share * MX_BLOCK))
        .map(|((data, scales), values)| (data, scales, values));
    run(parts.collect(), |(data, scales, values)| match format {
        ElementFormat::Fp8E4M3 => blocks::<block::E4M3>(data, scales, values),
        ElementFormat::Fp8E5M2 => blocks::<block::E5M2>(data, scales, values),
        ElementFormat::Fp4E2M1 => blocks::<block::E2M1>(data, scales, values),
        ElementFormat::I8 => blocks::<block::Int<8>>(data, scales, values),
        ElementFormat::Int4B => blocks::<block::Int<4>>(data, scales, values),
        _ => blocks::<block::Int<2>>(data, scales, values),
    });
    Ok(())
}

fn blocks<E: Element>(data: &[u8], scales: &[u8], values: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature.
        return unsafe { blocks_avx2::<E>(data, scales, values) };
    }
    blocks_plain::<E>(data, scales, values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn blocks_avx2<E: Element>(data: &[u8], scales: &[u8], values: &mut [f32]) {
    blocks_plain::<E>(data, scales, values);
}

#[inline(always)]
fn blocks_plain<E: Element>(data: &[u8], scales: &[u8], values: &mut [f32]) {
    let packed = data.chunks_exact(E::BLOCK_BYTES);
    for ((data, &scale), values) in packed.zip(scales).zip(values.chunks_exact_mut(MX_BLOCK)) {
        values.copy_from_slice(&block::dequantise::<E>(&block::unpack::<E>(data), scale));
    }
}
