//! Weights files: multi-plane tensors in the safetensors format.
//!
//! A tensor with scales takes two entries of the file: its elements under its own name, and its scales as `NAME.scales` (`F8_E8M0`,
//! one for 32 neighbours of the last dimension). Formats that safetensors has no type for are bytes (`U8`), several elements each:
//! the last dimension of `int4` is halved, that of `int2` is divided by four. What the types cannot say stands in
//! the file's metadata under the key [`METADATA_KEY`]; docs/quantize.md describes it. Files of other makers work too:
//! everything with a type that Metal tensors have can be read, and `NAME` with a fitting `NAME.scales` is one tensor.

mod convert;
mod error;
mod glob;
mod write;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anymetal_formats::{AuxiliaryPlaneDescriptor, ElementFormat, Extents, MX_BLOCK, PlaneType, TensorDescriptor};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

pub use convert::{Converted, DequantiseOptions, QuantiseFileOptions, Report, dequantise_file, quantise_file};
pub use error::WeightsError;

use crate::device::Device;
use crate::error::Result;
use crate::tensor::{Attachments, Tensor};

/// The metadata key under which a file describes its quantised tensors: a JSON object from names to [`Description`]s.
pub const METADATA_KEY: &str = "anymetal.tensors";

/// What follows a tensor's name in the name of its scales.
pub const SCALES_SUFFIX: &str = ".scales";

/// What the metadata says about one tensor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The element format's short name: `fp4_e2m1`, `int4`, …
    pub format: String,
    /// Elements of the last dimension that share a scale: 32.
    pub block: usize,
    /// What was quantised, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Original>,
}

/// A tensor before it was quantised.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Original {
    /// Its element type as safetensors spells it: `F32`, `F16` or `BF16`.
    pub dtype: String,
    /// Its shape, outermost dimension first. The last one may be smaller than in the file, which has whole blocks.
    pub shape: Vec<usize>,
}

/// One entry of the file, as the header has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub dtype: Dtype,
    /// Outermost first.
    pub shape: Vec<usize>,
    /// Bytes of the file.
    pub range: Range<usize>,
}

/// One tensor of a weights file, its planes put together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WeightInfo {
    /// Its name.
    pub name: String,
    /// The entry's type as safetensors spells it.
    pub dtype: String,
    /// The element format; `None` for types that Metal tensors lack (`F64`, `C64`, 6-bit floats, …).
    pub format: Option<ElementFormat>,
    /// Shape in elements, outermost dimension first, as the file has it (bytes that hold several elements counted out).
    pub shape: Vec<usize>,
    /// Where the elements lie in the file, in bytes.
    pub data: Range<usize>,
    /// Where the scales lie in the file, for multi-plane tensors.
    pub scales: Option<Range<usize>>,
    /// What it was before it was quantised, if the file says so.
    pub original: Option<Original>,
}

impl WeightInfo {
    /// Shape in elements, innermost dimension first, as Metal has it; `None` for more than sixteen dimensions.
    pub fn dimensions(&self) -> Option<Extents> {
        let reversed: Vec<usize> = self.shape.iter().rev().copied().collect();
        Extents::new(&reversed).ok()
    }

    /// The descriptor of a Metal tensor that holds it, scales included; `None` for types and ranks that Metal tensors lack.
    pub fn descriptor(&self) -> Option<TensorDescriptor> {
        let mut descriptor = TensorDescriptor {
            dimensions: self.dimensions()?,
            data_type: self.format?,
            ..TensorDescriptor::default()
        };
        if self.scales.is_some() {
            let factors = scales_factors(descriptor.rank())?;
            let scales = AuxiliaryPlaneDescriptor::new().with_block_factors(factors);
            descriptor = descriptor.with_plane(PlaneType::Scales, scales);
        }
        Some(descriptor)
    }

    /// Bytes in the file, scales included.
    pub fn bytes(&self) -> usize {
        self.data.len() + self.scales.as_ref().map_or(0, Range::len)
    }
}

/// 32, 1, 1, … for a tensor of this rank.
fn scales_factors(rank: usize) -> Option<Extents> {
    let mut factors = vec![1; rank];
    *factors.first_mut()? = MX_BLOCK;
    Extents::new(&factors).ok()
}

/// The element format of a safetensors type, for the types that Metal tensors have.
pub(crate) fn format_of(dtype: Dtype) -> Option<ElementFormat> {
    Some(match dtype {
        Dtype::BOOL => ElementFormat::Bool,
        Dtype::F4 => ElementFormat::Fp4E2M1,
        Dtype::U8 => ElementFormat::U8,
        Dtype::I8 => ElementFormat::I8,
        Dtype::F8_E5M2 => ElementFormat::Fp8E5M2,
        Dtype::F8_E4M3 => ElementFormat::Fp8E4M3,
        Dtype::F8_E8M0 => ElementFormat::Fp8UE8M0,
        Dtype::I16 => ElementFormat::I16,
        Dtype::U16 => ElementFormat::U16,
        Dtype::F16 => ElementFormat::F16,
        Dtype::BF16 => ElementFormat::BF16,
        Dtype::I32 => ElementFormat::I32,
        Dtype::U32 => ElementFormat::U32,
        Dtype::F32 => ElementFormat::F32,
        Dtype::I64 => ElementFormat::I64,
        Dtype::U64 => ElementFormat::U64,
        _ => return None,
    })
}

/// The safetensors type that holds elements of a format, and how many of them one entry's element holds.
pub(crate) fn dtype_of(format: ElementFormat) -> (Dtype, usize) {
    let found = [
        Dtype::BOOL,
        Dtype::F4,
        Dtype::I8,
        Dtype::U8,
        Dtype::F8_E5M2,
        Dtype::F8_E4M3,
        Dtype::F8_E8M0,
        Dtype::I16,
        Dtype::U16,
        Dtype::F16,
        Dtype::BF16,
        Dtype::I32,
        Dtype::U32,
        Dtype::F32,
        Dtype::I64,
        Dtype::U64,
    ];
    match found.into_iter().find(|&dtype| format_of(dtype) == Some(format)) {
        Some(dtype) => (dtype, 1),
        // 4- and 2-bit integers.
        None => (Dtype::U8, format.elements_per_byte()),
    }
}

/// A safetensors file, mapped and checked: every tensor lies inside it, and what its metadata says about quantised tensors is
/// true of its entries.
///
/// As with every mapped file, another process that truncates the file while it is open ends this process (SIGBUS).
#[derive(Debug)]
pub struct WeightsFile {
    path: PathBuf,
    bytes: Arc<memmap2::Mmap>,
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) descriptions: BTreeMap<String, Description>,
    tensors: Vec<WeightInfo>,
}

/// A mapped file as an owner of bytes.
struct Mapped(Arc<memmap2::Mmap>);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl WeightsFile {
    /// Maps and checks a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref().to_path_buf();
        let io = |source| WeightsError::Io {
            path: path.clone(),
            source,
        };
        let file = File::open(&path).map_err(io)?;
        let kind = file.metadata().map_err(io)?;
        if !kind.is_file() || kind.len() == 0 {
            return Err(WeightsError::invalid(
                &path,
                "it is empty or no regular file; a safetensors file begins with the length of its header",
            ));
        }
        // SAFETY: the mapping is private and read-only. Every length is taken from the mapping itself, so contents that another
        // process changes can only give wrong numbers or an error; truncation is documented above.
        let bytes = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file) }.map_err(io)?;
        let (header, metadata) =
            SafeTensors::read_metadata(&bytes).map_err(|error| WeightsError::invalid(&path, header_error(&error)))?;
        let start = header + 8;
        let mut entries = BTreeMap::new();
        for (name, info) in metadata.tensors() {
            let (from, to) = info.data_offsets;
            let range = (from.checked_add(start), to.checked_add(start));
            let range = match range {
                (Some(from), Some(to)) if from <= to && to <= bytes.len() => from..to,
                _ => {
                    return Err(WeightsError::invalid(
                        &path,
                        format!("tensor `{name}` lies outside the file"),
                    ));
                }
            };
            let entry = Entry {
                dtype: info.dtype,
                shape: info.shape.clone(),
                range,
            };
            entries.insert(name, entry);
        }
        let metadata: BTreeMap<String, String> = metadata.metadata().iter().flatten().map(pair).collect();
        let descriptions = match metadata.get(METADATA_KEY) {
            None => BTreeMap::new(),
            Some(text) => serde_json::from_str(text).map_err(|error| {
                WeightsError::invalid(
                    &path,
                    format!("its metadata `{METADATA_KEY}` is not what it should be: {error}"),
                )
            })?,
        };
        let mut file = Self {
            path,
            bytes: Arc::new(bytes),
            entries,
            metadata,
            descriptions,
            tensors: Vec::new(),
        };
        file.tensors = file.put_together()?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every tensor, by name; scales that belong to a tensor are part of it.
    pub fn tensors(&self) -> &[WeightInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<&WeightInfo> {
        let position = self.tensors.binary_search_by(|t| t.name.as_str().cmp(name)).ok()?;
        Some(&self.tensors[position])
    }

    /// The file's metadata apart from [`METADATA_KEY`].
    pub fn metadata(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self.metadata.iter().filter(|(key, _)| *key != METADATA_KEY);
        others.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The bytes of a plane (a range of a [`WeightInfo`]); none if the range is not inside the file.
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// A tensor over the file's own memory, without a copy: read-only, so kernels that write it are refused.
    pub fn tensor(&self, device: &Device, name: &str) -> Result<Tensor> {
        let unusable = |reason: &str| WeightsError::Tensor {
            path: self.path.clone(),
            name: name.to_owned(),
            reason: reason.to_owned(),
        };
        let info = self.get(name).ok_or_else(|| unusable("there is no such tensor"))?;
        let descriptor = info
            .descriptor()
            .ok_or_else(|| unusable("Metal tensors have no such type or rank"))?;
        let buffer =
            |range: &Range<usize>| device.new_buffer_no_copy(Arc::new(Mapped(self.bytes.clone())), range.clone());
        let mut attachments = Attachments::new().with(PlaneType::Data, &buffer(&info.data)?, 0);
        if let Some(scales) = &info.scales {
            attachments.set(PlaneType::Scales, &buffer(scales)?, 0);
        }
        let tensor = device.new_tensor_with_attachments(&descriptor, &attachments)?;
        tensor.set_label(name);
        Ok(tensor)
    }

    /// Joins elements with their scales.
    fn put_together(&self) -> Result<Vec<WeightInfo>, WeightsError> {
        let mut owned = HashSet::new();
        for (name, description) in &self.descriptions {
            self.check_description(name, description)?;
            owned.insert(format!("{name}{SCALES_SUFFIX}"));
        }
        // What the metadata does not mention can still be elements and scales by its types.
        for (name, entry) in &self.entries {
            let scales_name = format!("{name}{SCALES_SUFFIX}");
            let Some(scales) = self.entries.get(&scales_name) else {
                continue;
            };
            let narrow = format_of(entry.dtype).is_some_and(|format| format.bits() <= 8);
            if narrow && scales.dtype == Dtype::F8_E8M0 && scales_shape(&entry.shape).as_ref() == Some(&scales.shape) {
                owned.insert(scales_name);
            }
        }
        let mut tensors = Vec::new();
        for (name, entry) in &self.entries {
            if owned.contains(name) {
                continue;
            }
            let scales_name = format!("{name}{SCALES_SUFFIX}");
            let scales = owned
                .contains(&scales_name)
                .then(|| self.entries.get(&scales_name))
                .flatten();
            let description = self.descriptions.get(name);
            let (format, shape) = match description {
                Some(description) => self.described(name, entry, description)?,
                None => (format_of(entry.dtype), entry.shape.clone()),
            };
            tensors.push(WeightInfo {
                name: name.clone(),
                dtype: entry.dtype.to_string(),
                format,
                shape,
                data: entry.range.clone(),
                scales: scales.map(|entry| entry.range.clone()),
                original: description.and_then(|d| d.original.clone()),
            });
        }
        Ok(tensors)
    }

    /// The format and the shape in elements that a description gives an entry.
    fn described(
        &self,
        name: &str,
        entry: &Entry,
        description: &Description,
    ) -> Result<(Option<ElementFormat>, Vec<usize>), WeightsError> {
        let wrong = |what: String| self.wrong_description(name, what);
        let format: ElementFormat = description.format.parse().map_err(|error| wrong(format!("{error}")))?;
        let (dtype, packed) = dtype_of(format);
        if entry.dtype != dtype {
            return Err(wrong(format!(
                "{format} is kept as {dtype}, but the entry is {}",
                entry.dtype
            )));
        }
        let mut shape = entry.shape.clone();
        if let Some(last) = shape.last_mut() {
            let too_large = || wrong("its last dimension is too large".to_owned());
            *last = last.checked_mul(packed).ok_or_else(too_large)?;
        }
        Ok((Some(format), shape))
    }

    fn check_description(&self, name: &str, description: &Description) -> Result<(), WeightsError> {
        let wrong = |what: String| Err(self.wrong_description(name, what));
        let Some(entry) = self.entries.get(name) else {
            return wrong("the file has no such tensor".to_owned());
        };
        if description.block != MX_BLOCK {
            return wrong(format!(
                "its blocks have {} elements; only {MX_BLOCK} is possible",
                description.block
            ));
        }
        let (_, shape) = self.described(name, entry, description)?;
        let scales_name = format!("{name}{SCALES_SUFFIX}");
        let Some(scales) = self.entries.get(&scales_name) else {
            return wrong(format!("the file has no `{scales_name}`"));
        };
        if scales.dtype != Dtype::F8_E8M0 || scales_shape(&shape).as_ref() != Some(&scales.shape) {
            return wrong(format!(
                "`{scales_name}` is {} {:?}; elements of shape {shape:?} need F8_E8M0 with the last dimension divided by {MX_BLOCK}",
                scales.dtype, scales.shape
            ));
        }
        if let Some(original) = &description.original {
            if !matches!(original.dtype.as_str(), "F32" | "F16" | "BF16") {
                return wrong(format!(
                    "its original type is {}; only F32, F16 and BF16 are possible",
                    original.dtype
                ));
            }
            let padded = original.shape.last().and_then(|n| n.checked_next_multiple_of(MX_BLOCK));
            let outer = original.shape.len().saturating_sub(1);
            if original.shape.len() != shape.len()
                || padded != shape.last().copied()
                || original.shape[..outer] != shape[..outer]
            {
                return wrong(format!(
                    "its original shape {:?} does not lead to {shape:?}",
                    original.shape
                ));
            }
        }
        Ok(())
    }

    fn wrong_description(&self, name: &str, what: String) -> WeightsError {
        WeightsError::invalid(
            &self.path,
            format!("its metadata `{METADATA_KEY}` is wrong about `{name}`: {what}"),
        )
    }
}

fn pair((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

/// The shape of the scales of elements of this shape (both outermost first), if it has whole blocks.
fn scales_shape(shape: &[usize]) -> Option<Vec<usize>> {
    let mut shape = shape.to_vec();
    let last = shape.last_mut()?;
    if !last.is_multiple_of(MX_BLOCK) {
        return None;
    }
    *last /= MX_BLOCK;
    Some(shape)
}

fn header_error(error: &safetensors::SafeTensorError) -> String {
    use safetensors::SafeTensorError as E;
    match error {
        E::HeaderTooSmall => "it has fewer than 8 bytes, which hold the length of the header".to_owned(),
        E::HeaderTooLarge => "its header would be longer than 100 MB; this is no safetensors file".to_owned(),
        E::InvalidHeaderLength => {
            "its header reaches past the end of the file; it was cut off, or is no safetensors file".to_owned()
        }
        E::InvalidHeader(_) => "its header is not text; this is no safetensors file".to_owned(),
        E::InvalidHeaderDeserialization(error) => format!("its header is not the JSON it should be: {error}"),
        E::InvalidOffset(name) => format!("the offsets of tensor `{name}` leave a hole or overlap another tensor"),
        E::TensorInvalidInfo => "a tensor's offsets do not fit its shape and type".to_owned(),
        E::MetadataIncompleteBuffer => {
            "its tensors do not end where the file ends; it was cut off, or has bytes after them".to_owned()
        }
        E::ValidationOverflow => "a tensor is larger than memory can be".to_owned(),
        E::MisalignedSlice => "a tensor of 4- or 6-bit elements does not end at a byte".to_owned(),
        other => other.to_string(),
    }
}
