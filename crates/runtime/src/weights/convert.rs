//! Whole files: matrices to blocks with scales, and back. Tensor by tensor and, within a large one, some rows at a time, so that
//! memory stays small however large the file is.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anymetal_formats::{ElementFormat, Extents, MX_BLOCK};
use half::slice::HalfFloatSliceExt;

use super::error::WeightsError;
use super::glob;
use super::write::{ALIGNMENT, Partial, Planned, header};
use super::{Description, Entry, METADATA_KEY, Original, SCALES_SUFFIX, WeightInfo, WeightsFile, dtype_of, format_of};
use crate::quantise::{self, ErrorMetrics, QuantiseOptions};

/// Elements converted at once: 64 MiB of `f32`.
const CHUNK_ELEMENTS: usize = 1 << 24;

/// What of a file is to be quantised, and to what.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QuantiseFileOptions {
    /// The element format, one of [`quantise::FORMATS`].
    pub format: ElementFormat,
    /// Patterns (`*`, `?`) of names. Without any: every matrix, that is every tensor of two dimensions. With some: the tensors of two
    /// or more dimensions that one of them fits.
    pub include: Vec<String>,
    /// Patterns of names that stay as they are.
    pub exclude: Vec<String>,
}

impl QuantiseFileOptions {
    /// Every matrix to this format.
    pub fn new(format: ElementFormat) -> Self {
        Self {
            format,
            include: Vec::new(),
            exclude: Vec::new(),
        }
    }

    fn selects(&self, name: &str, entry: &Entry) -> bool {
        let fits = |patterns: &[String]| patterns.iter().any(|pattern| glob::matches(pattern, name));
        let rank = entry.shape.len();
        let shape = if self.include.is_empty() {
            rank == 2
        } else {
            rank >= 2 && fits(&self.include)
        };
        shape && !fits(&self.exclude) && is_source(entry) && !entry.shape.contains(&0)
    }
}

fn is_source(entry: &Entry) -> bool {
    use ElementFormat::*;
    matches!(format_of(entry.dtype), Some(F32 | F16 | BF16))
}

/// How to turn quantised tensors back.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DequantiseOptions {
    /// The type to write: `F32`, `F16` or `BF16`; `None` for the type that each tensor had, `F32` where the file does not say.
    pub format: Option<ElementFormat>,
}

impl DequantiseOptions {
    /// To this type.
    pub fn to(format: ElementFormat) -> Self {
        Self { format: Some(format) }
    }
}

/// One tensor that was converted.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Converted {
    /// Its name.
    pub name: String,
    /// Its shape, outermost dimension first, without padding.
    pub shape: Vec<usize>,
    /// What it was.
    pub from: ElementFormat,
    /// What it is now.
    pub to: ElementFormat,
    /// Its bytes in the input, scales included.
    pub bytes_before: usize,
    /// Its bytes in the output, scales included.
    pub bytes_after: usize,
    /// What quantisation lost; `None` for the way back.
    pub metrics: Option<ErrorMetrics>,
}

/// What a conversion did.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The converted tensors, by name.
    pub tensors: Vec<Converted>,
    /// How many tensors were copied as they are.
    pub copied: usize,
    /// Size of the input file.
    pub bytes_before: usize,
    /// Size of the output file.
    pub bytes_after: usize,
    /// Time spent in the conversion itself, reading the mapped input included, writing the output not.
    pub converting: Duration,
}

impl Report {
    /// The metrics of all tensors together.
    pub fn metrics(&self) -> Option<ErrorMetrics> {
        self.tensors
            .iter()
            .filter_map(|t| t.metrics)
            .reduce(|a, b| a.merged(&b))
    }
}

/// Where the bytes of an output entry come from.
#[derive(Clone, Debug)]
enum Job {
    Copy(std::ops::Range<usize>),
    /// The elements of `plan.tensors[i]`.
    Data(usize),
    /// Its scales.
    Scales(usize),
}

/// Quantises the matrices of a safetensors file into another file; everything else is copied.
///
/// Rows whose length is no multiple of 32 are padded with zeros. Tensors of `F64` and integers stay as they are.
pub fn quantise_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &QuantiseFileOptions,
) -> Result<Report, WeightsError> {
    let (input, output) = (input.as_ref(), output.as_ref());
    let file = open_other(input, output)?;
    if !quantise::FORMATS.contains(&options.format) {
        let names: Vec<&str> = quantise::FORMATS.iter().map(|f| f.short_name()).collect();
        return Err(WeightsError::Nothing {
            path: input.to_path_buf(),
            what: format!(
                "{} is not a format to quantise to; use one of {}",
                options.format,
                names.join(", ")
            ),
        });
    }
    let format = options.format;
    let (dtype, packed) = dtype_of(format);
    let mut plan = Vec::new();
    let mut chosen = Vec::new();
    let mut descriptions = file.descriptions.clone();
    let mut copied = 0;
    for (name, entry) in &file.entries {
        if !options.selects(name, entry) {
            plan.push(copy(name, entry));
            copied += 1;
            continue;
        }
        let refuse = |reason: String| WeightsError::Tensor {
            path: input.to_path_buf(),
            name: name.clone(),
            reason,
        };
        let scales_name = format!("{name}{SCALES_SUFFIX}");
        if file.entries.contains_key(&scales_name) {
            return Err(refuse(format!(
                "its scales would be called `{scales_name}`, which the file already has; leave it out with --exclude"
            )));
        }
        let columns = entry.shape.last().copied().unwrap_or(0);
        let rows = rows(&entry.shape);
        let padded = columns.checked_next_multiple_of(MX_BLOCK);
        let count = padded.and_then(|n| n.checked_mul(rows));
        let (Some(padded), Some(count)) = (padded, count) else {
            return Err(refuse("it is too large".to_owned()));
        };
        let shape = |last: usize| {
            let mut shape = entry.shape.clone();
            if let Some(n) = shape.last_mut() {
                *n = last;
            }
            shape
        };
        let index = chosen.len();
        let data = Planned {
            name: name.clone(),
            dtype,
            shape: shape(padded / packed),
            bytes: format.bytes_for(count),
        };
        let scales = Planned {
            name: scales_name,
            dtype: dtype_of(ElementFormat::Fp8UE8M0).0,
            shape: shape(padded / MX_BLOCK),
            bytes: count / MX_BLOCK,
        };
        chosen.push(Chosen {
            from: format_of(entry.dtype).unwrap_or(ElementFormat::F32),
            columns,
            rows,
            converted: Converted {
                name: name.clone(),
                shape: entry.shape.clone(),
                from: format_of(entry.dtype).unwrap_or(ElementFormat::F32),
                to: format,
                bytes_before: entry.range.len(),
                bytes_after: data.bytes + scales.bytes,
                metrics: None,
            },
            range: entry.range.clone(),
            scales: None,
        });
        plan.push((data, Job::Data(index)));
        plan.push((scales, Job::Scales(index)));
        let description = Description {
            format: format.short_name().to_owned(),
            block: MX_BLOCK,
            original: Some(Original {
                dtype: entry.dtype.to_string(),
                shape: entry.shape.clone(),
            }),
        };
        descriptions.insert(name.clone(), description);
    }
    if chosen.is_empty() {
        return Err(WeightsError::Nothing {
            path: input.to_path_buf(),
            what: nothing_chosen(&file, options),
        });
    }
    let mut metadata = file.metadata.clone();
    metadata.insert(METADATA_KEY.to_owned(), json(&descriptions));
    let mut converting = Duration::ZERO;
    let (mut data, mut kept) = (Vec::new(), BTreeMap::<usize, Vec<u8>>::new());
    let written = write_all(&file, output, plan, &metadata, |job, out| match *job {
        Job::Copy(_) => Ok(()),
        Job::Scales(index) => match kept.remove(&index) {
            Some(scales) => out.write(&scales),
            None => Ok(()),
        },
        Job::Data(index) => {
            let tensor: &mut Chosen = &mut chosen[index];
            let scales = tensor.quantise(&file, format, &mut data, &mut converting, out)?;
            kept.insert(index, scales);
            Ok(())
        }
    })?;
    Ok(Report {
        tensors: chosen.into_iter().map(|c| c.converted).collect(),
        copied,
        bytes_before: file.bytes.len(),
        bytes_after: written,
        converting,
    })
}

/// A tensor to be converted.
struct Chosen {
    from: ElementFormat,
    columns: usize,
    rows: usize,
    range: std::ops::Range<usize>,
    scales: Option<std::ops::Range<usize>>,
    converted: Converted,
}

impl Chosen {
    /// Quantises some rows at a time, writes the elements and returns the scales.
    fn quantise(
        &mut self,
        file: &WeightsFile,
        format: ElementFormat,
        data: &mut Vec<u8>,
        time: &mut Duration,
        out: &mut Partial,
    ) -> Result<Vec<u8>, WeightsError> {
        let options = QuantiseOptions::new(format).with_padding(true).with_metrics(true);
        let padded = self.columns.next_multiple_of(MX_BLOCK);
        let mut scales = vec![0; padded / MX_BLOCK * self.rows];
        let row_bytes = self.columns * (self.from.bits() / 8);
        let rows = chunk_rows(padded);
        let parts = file.bytes(&self.range).chunks(rows * row_bytes);
        for (values, scales) in parts.zip(scales.chunks_mut(rows * (padded / MX_BLOCK))) {
            let start = Instant::now();
            let dimensions = Extents::from([self.columns, values.len() / row_bytes]);
            data.resize(format.bytes_for(padded * dimensions[1]), 0);
            let metrics = quantise::quantise_into(values, self.from, &dimensions, &options, data, scales);
            let metrics = metrics.map_err(|error| self.internal(file, &error))?;
            self.converted.metrics = match (self.converted.metrics, metrics) {
                (Some(a), Some(b)) => Some(a.merged(&b)),
                (a, b) => a.or(b),
            };
            *time += start.elapsed();
            out.write(data)?;
        }
        Ok(scales)
    }

    /// Dequantises some rows at a time and writes them.
    fn dequantise(&self, file: &WeightsFile, time: &mut Duration, out: &mut Partial) -> Result<(), WeightsError> {
        let padded = self.columns.next_multiple_of(MX_BLOCK);
        if self.range.is_empty() {
            return Ok(());
        }
        let rows = chunk_rows(padded);
        let (row_bytes, row_scales) = (self.from.bytes_for(padded), padded / MX_BLOCK);
        let scales = self.scales.as_ref().map_or(&[][..], |range| file.bytes(range));
        let parts = file.bytes(&self.range).chunks(rows * row_bytes);
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        for (data, scales) in parts.zip(scales.chunks(rows * row_scales)) {
            let start = Instant::now();
            let dimensions = Extents::from([padded, data.len() / row_bytes]);
            values.resize(padded * dimensions[1], 0f32);
            quantise::dequantise_into(self.from, &dimensions, data, scales, &mut values)
                .map_err(|error| self.internal(file, &error))?;
            bytes.clear();
            if self.columns == padded {
                append(&mut bytes, &values, self.converted.to);
            } else {
                for row in values.chunks(padded) {
                    append(&mut bytes, &row[..self.columns], self.converted.to);
                }
            }
            *time += start.elapsed();
            out.write(&bytes)?;
        }
        Ok(())
    }

    fn internal(&self, file: &WeightsFile, error: &crate::Error) -> WeightsError {
        WeightsError::Tensor {
            path: file.path().to_path_buf(),
            name: self.converted.name.clone(),
            reason: error.to_string(),
        }
    }
}

/// Rows of so many elements that are converted at once.
fn chunk_rows(columns: usize) -> usize {
    (CHUNK_ELEMENTS / columns.max(1)).max(1)
}

/// The product of all dimensions but the last. The file's check has made sure that it fits.
fn rows(shape: &[usize]) -> usize {
    let outer = &shape[..shape.len().saturating_sub(1)];
    outer.iter().fold(1usize, |all, &n| all.saturating_mul(n))
}

/// Rounds `values` to a 16-bit type, or keeps them.
fn append(bytes: &mut Vec<u8>, values: &[f32], to: ElementFormat) {
    let start = bytes.len();
    match to {
        ElementFormat::F16 => {
            let mut narrow = vec![half::f16::ZERO; values.len()];
            narrow.convert_from_f32_slice(values);
            bytes.extend_from_slice(bytemuck::cast_slice(&narrow));
        }
        ElementFormat::BF16 => {
            let mut narrow = vec![half::bf16::ZERO; values.len()];
            narrow.convert_from_f32_slice(values);
            bytes.extend_from_slice(bytemuck::cast_slice(&narrow));
        }
        _ => bytes.extend_from_slice(bytemuck::cast_slice(values)),
    }
    debug_assert_eq!(bytes.len() - start, values.len() * to.bits() / 8);
}

/// Turns the quantised tensors of a safetensors file back into plain ones; everything else is copied.
pub fn dequantise_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    options: &DequantiseOptions,
) -> Result<Report, WeightsError> {
    let (input, output) = (input.as_ref(), output.as_ref());
    let file = open_other(input, output)?;
    let mut plan = Vec::new();
    let mut chosen = Vec::new();
    let mut copied = 0;
    for info in file.tensors() {
        let from = info.format.filter(|format| quantise::FORMATS.contains(format));
        let (Some(scales), Some(from)) = (&info.scales, from) else {
            let scales_name = format!("{}{SCALES_SUFFIX}", info.name);
            for name in [&info.name, &scales_name] {
                // Scales of a type that is not dequantised here stay beside it.
                let belongs = *name == info.name || info.scales.is_some();
                if let Some(entry) = file.entries.get(name).filter(|_| belongs) {
                    plan.push(copy(name, entry));
                }
            }
            copied += 1;
            continue;
        };
        let shape = info
            .original
            .as_ref()
            .map_or(&info.shape, |original| &original.shape)
            .clone();
        let to = options
            .format
            .or_else(|| original_format(info))
            .unwrap_or(ElementFormat::F32);
        let count = shape.iter().fold(1usize, |all, &n| all.saturating_mul(n));
        let bytes = to.bytes_for(count);
        let index = chosen.len();
        chosen.push(Chosen {
            from,
            columns: shape.last().copied().unwrap_or(0),
            rows: rows(&shape),
            range: info.data.clone(),
            scales: Some(scales.clone()),
            converted: Converted {
                name: info.name.clone(),
                shape: shape.clone(),
                from,
                to,
                bytes_before: info.bytes(),
                bytes_after: bytes,
                metrics: None,
            },
        });
        let entry = Planned {
            name: info.name.clone(),
            dtype: dtype_of(to).0,
            shape,
            bytes,
        };
        plan.push((entry, Job::Data(index)));
    }
    if chosen.is_empty() {
        return Err(WeightsError::Nothing {
            path: input.to_path_buf(),
            what: format!("it has no quantised tensors (elements NAME with scales NAME{SCALES_SUFFIX})"),
        });
    }
    let mut metadata = file.metadata.clone();
    metadata.remove(METADATA_KEY);
    // What was not converted keeps its description.
    let mut descriptions = file.descriptions.clone();
    for tensor in &chosen {
        descriptions.remove(&tensor.converted.name);
    }
    if !descriptions.is_empty() {
        metadata.insert(METADATA_KEY.to_owned(), json(&descriptions));
    }
    let mut converting = Duration::ZERO;
    let written = write_all(&file, output, plan, &metadata, |job, out| match *job {
        Job::Data(index) => chosen[index].dequantise(&file, &mut converting, out),
        Job::Copy(_) | Job::Scales(_) => Ok(()),
    })?;
    Ok(Report {
        tensors: chosen.into_iter().map(|c| c.converted).collect(),
        copied,
        bytes_before: file.bytes.len(),
        bytes_after: written,
        converting,
    })
}

fn original_format(info: &WeightInfo) -> Option<ElementFormat> {
    info.original.as_ref()?.dtype.parse().ok()
}

fn copy(name: &str, entry: &Entry) -> (Planned, Job) {
    let planned = Planned {
        name: name.to_owned(),
        dtype: entry.dtype,
        shape: entry.shape.clone(),
        bytes: entry.range.len(),
    };
    (planned, Job::Copy(entry.range.clone()))
}

fn json(descriptions: &BTreeMap<String, Description>) -> String {
    // A map of plain structures always has a JSON form.
    serde_json::to_string(descriptions).unwrap_or_default()
}

fn open_other(input: &Path, output: &Path) -> Result<WeightsFile, WeightsError> {
    let file = WeightsFile::open(input)?;
    if let (Ok(a), Ok(b)) = (input.canonicalize(), output.canonicalize())
        && a == b
    {
        return Err(WeightsError::SameFile {
            path: output.to_path_buf(),
        });
    }
    Ok(file)
}

/// Writes every entry. Those whose size is a multiple of 128 bytes come first, so that each of them starts at one; the others follow
/// by element size, so that each starts at a multiple of its own.
fn write_all(
    file: &WeightsFile,
    output: &Path,
    mut plan: Vec<(Planned, Job)>,
    metadata: &BTreeMap<String, String>,
    mut convert: impl FnMut(&Job, &mut Partial) -> Result<(), WeightsError>,
) -> Result<usize, WeightsError> {
    plan.sort_by_key(|(entry, job)| {
        let whole = entry.bytes.is_multiple_of(ALIGNMENT);
        let last = if whole { 0 } else { usize::MAX - entry.dtype.bitsize() };
        // Scales directly after their elements where both are whole, so that few of them wait in memory.
        let scales = matches!(job, Job::Scales(_));
        (last, entry.name.trim_end_matches(SCALES_SUFFIX).to_owned(), scales)
    });
    // Scales are made with their elements, so they must come later.
    let mut seen = std::collections::HashSet::new();
    let (mut ordered, mut waiting) = (Vec::new(), Vec::new());
    for item in plan {
        match item.1 {
            Job::Data(index) => {
                seen.insert(index);
                ordered.push(item);
            }
            Job::Scales(index) if !seen.contains(&index) => waiting.push(item),
            _ => ordered.push(item),
        }
    }
    ordered.extend(waiting);
    let entries: Vec<Planned> = ordered.iter().map(|(entry, _)| entry.clone()).collect();
    let header = header(&entries, metadata).map_err(|what| WeightsError::Nothing {
        path: output.to_path_buf(),
        what,
    })?;
    let mut out = Partial::create(output)?;
    out.write(&header)?;
    let mut written = header.len();
    for (entry, job) in &ordered {
        match job {
            Job::Copy(range) => out.write(file.bytes(range))?,
            _ => convert(job, &mut out)?,
        }
        written += entry.bytes;
    }
    out.finish()?;
    Ok(written)
}

fn nothing_chosen(file: &WeightsFile, options: &QuantiseFileOptions) -> String {
    let matrices = file
        .entries
        .values()
        .filter(|e| e.shape.len() == 2 && is_source(e))
        .count();
    let tensors = file.entries.len();
    if options.include.is_empty() && options.exclude.is_empty() {
        return format!("none of its {tensors} tensors is a matrix of F32, F16 or BF16; there is nothing to quantise");
    }
    format!(
        "no tensor is left to quantise: of {tensors} tensors {matrices} are matrices of F32, F16 or BF16, but --include {:?} and \
         --exclude {:?} leave none of them",
        options.include, options.exclude
    )
}
