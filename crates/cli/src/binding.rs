//! Turns argument words into memory of a device, and reads it back as numbers.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anymetal::{
    ArgumentType, AuxiliaryPlaneDescriptor, Buffer, CommandEncoder, Device, ElementFormat, ExecutionOptions, Extents,
    FunctionConstants, Library, Pipeline, PlaneType, Saturation, Strides, Tensor, TensorDescriptor,
};

use crate::spec::fill::random_scale;
use crate::spec::reference::Values;
use crate::spec::{Argument, Field, Fill, TensorArgument};

/// Most elements of all arguments together: their values are held as f64, several times.
const MOST_ELEMENTS: usize = 1 << 28;

/// Arguments in a device's memory.
pub struct Bound {
    items: BTreeMap<usize, Item>,
    /// The elements as they were bound, for references.
    pub initial: HashMap<usize, Values>,
}

enum Item {
    Buffer { buffer: Buffer, format: ElementFormat },
    Tensor(Tensor),
    Bytes { bytes: Vec<u8>, tensors: Vec<Tensor> },
    Null,
}

/// Elements rounded to a format, and their bytes.
fn encode(format: ElementFormat, values: &[f64]) -> (Vec<u8>, Vec<f64>) {
    let codes = |value: &f64| format.decode(format.encode(*value));
    let rounded = values.iter().map(codes).collect();
    (format.pack(values.iter().copied(), Saturation::Default), rounded)
}

fn decode(format: ElementFormat, bytes: &[u8], count: usize) -> Vec<f64> {
    (0..count)
        .map(|i| format.load(bytes, i).map_or(f64::NAN, |code| format.decode(code)))
        .collect()
}

impl Bound {
    /// Makes and fills the memory of all arguments. Files are looked up beside `folder`.
    pub fn new(device: &Device, arguments: &BTreeMap<usize, Argument>, folder: &Path) -> Result<Self, String> {
        let mut bound = Bound {
            items: BTreeMap::new(),
            initial: HashMap::new(),
        };
        let mut left = MOST_ELEMENTS;
        for (index, argument) in arguments {
            let elements = match argument {
                Argument::Buffer { extents, .. } => count(extents),
                Argument::Tensor(tensor) => count(&tensor.extents),
                Argument::Struct(fields) => fields.iter().try_fold(0, |total, field| {
                    Some(
                        total
                            + match field {
                                Field::Tensor(tensor) => count(&tensor.extents)?,
                                Field::Scalar(..) => 1,
                            },
                    )
                }),
                _ => Some(0),
            };
            left = elements
                .and_then(|elements| left.checked_sub(elements))
                .ok_or_else(|| {
                    format!("argument {index}: too many elements; all arguments together can have {MOST_ELEMENTS}")
                })?;
        }
        // Handles need the tensors that they name.
        let is_handles = |argument: &Argument| matches!(argument, Argument::Handles(_));
        let (last, first): (Vec<_>, Vec<_>) = arguments.iter().partition(|(_, argument)| is_handles(argument));
        for (&index, argument) in first.into_iter().chain(last) {
            let place = |error: String| format!("argument {index}: {error}");
            bound.add(device, index, argument, folder).map_err(place)?;
        }
        Ok(bound)
    }

    fn add(&mut self, device: &Device, index: usize, argument: &Argument, folder: &Path) -> Result<(), String> {
        let item = match argument {
            Argument::Null => Item::Null,
            Argument::Handles(numbers) => {
                let (mut bytes, mut tensors) = (Vec::new(), Vec::new());
                for number in numbers {
                    let Some(Item::Tensor(tensor)) = self.items.get(number) else {
                        return Err(format!("argument {number} is no tensor"));
                    };
                    bytes.extend_from_slice(&tensor.resource_id().to_le_bytes());
                    tensors.push(tensor.clone());
                }
                Item::Bytes { bytes, tensors }
            }
            Argument::Buffer { format, extents, fill } => {
                let count = count(extents).ok_or("too many elements")?;
                let (bytes, elements) = encode(*format, &fill.values(*format, count, folder)?);
                let values = Values {
                    format: *format,
                    extents: extents.clone(),
                    elements,
                };
                self.initial.insert(index, values);
                // An empty buffer is bound as one byte that the kernel must not touch.
                let bytes = if bytes.is_empty() { vec![0] } else { bytes };
                let buffer = device.new_buffer_with_bytes(&bytes).map_err(text)?;
                Item::Buffer {
                    buffer: buffer.with_label(&format!("argument {index}")),
                    format: *format,
                }
            }
            Argument::Tensor(argument) => {
                let (tensor, values) = tensor(device, argument, folder)?;
                tensor.set_label(&format!("argument {index}"));
                self.initial.insert(index, values);
                Item::Tensor(tensor)
            }
            Argument::Bytes(values) => {
                let mut bytes = Vec::new();
                for (format, value) in values {
                    push(&mut bytes, *format, *value);
                }
                pad(
                    &mut bytes,
                    values.iter().map(|(format, _)| format.alignment()).max().unwrap_or(1),
                );
                let elements = values.iter().map(|(_, value)| *value).collect();
                let format = values.first().map_or(ElementFormat::U8, |(format, _)| *format);
                self.initial.insert(
                    index,
                    Values {
                        format,
                        extents: vec![values.len()],
                        elements,
                    },
                );
                Item::Bytes {
                    bytes,
                    tensors: Vec::new(),
                }
            }
            Argument::Struct(fields) => {
                let (mut bytes, mut tensors, mut align) = (Vec::new(), Vec::new(), 1);
                for field in fields {
                    match field {
                        Field::Scalar(format, value) => {
                            push(&mut bytes, *format, *value);
                            align = align.max(format.alignment());
                        }
                        Field::Tensor(argument) => {
                            let (tensor, _) = tensor(device, argument, folder)?;
                            pad(&mut bytes, 8);
                            bytes.extend_from_slice(&tensor.resource_id().to_le_bytes());
                            tensors.push(tensor);
                            align = 8;
                        }
                    }
                }
                pad(&mut bytes, align);
                Item::Bytes { bytes, tensors }
            }
        };
        self.items.insert(index, item);
        Ok(())
    }

    /// Binds to an encoder what the pipeline takes; what it does not take may serve a reference or a handle.
    pub fn set(&self, encoder: &mut CommandEncoder, pipeline: &Pipeline) -> anymetal::Result<()> {
        let taken = |index: u32| {
            pipeline
                .arguments()
                .iter()
                .any(|argument| argument.index == index && !matches!(argument.ty, ArgumentType::Threadgroup { .. }))
        };
        for (&index, item) in &self.items {
            let index = index as u32;
            if !taken(index) {
                continue;
            }
            match item {
                Item::Buffer { buffer, .. } => {
                    encoder.set_buffer(index, buffer, 0);
                }
                Item::Tensor(tensor) => {
                    encoder.set_tensor(index, tensor);
                }
                Item::Bytes { bytes, tensors } => {
                    encoder.set_bytes(index, bytes)?;
                    for tensor in tensors {
                        encoder.use_resource(tensor);
                    }
                }
                Item::Null => {
                    encoder.set_null_tensor(index);
                }
            }
        }
        Ok(())
    }

    /// The elements of an argument now; `None` for bytes and null.
    pub fn read(&self, index: usize) -> Option<Values> {
        let initial = self.initial.get(&index)?;
        let count = initial.elements.len();
        let elements = match self.items.get(&index)? {
            Item::Buffer { buffer, format } => buffer.with_bytes(|bytes| decode(*format, bytes, count)),
            Item::Tensor(tensor) => {
                let bytes = tensor.read_plane(PlaneType::Data).ok()?;
                let mut elements = decode(tensor.data_type(), &bytes, count);
                if let Some(plane) = tensor.plane(PlaneType::Scales) {
                    let scales = tensor.read_plane(PlaneType::Scales).ok()?;
                    let block = plane.block_factors.as_slice().to_vec();
                    apply_scales(&mut elements, &initial.extents, &block, &scales);
                }
                elements
            }
            Item::Bytes { .. } | Item::Null => return None,
        };
        Some(Values {
            elements,
            ..initial.clone()
        })
    }
}

fn text(error: anymetal::Error) -> String {
    error.to_string()
}

fn count(extents: &[usize]) -> Option<usize> {
    extents
        .iter()
        .try_fold(1usize, |product, &extent| product.checked_mul(extent))
        .filter(|&count| count <= MOST_ELEMENTS)
}

fn pad(bytes: &mut Vec<u8>, align: usize) {
    bytes.resize(bytes.len().next_multiple_of(align.max(1)), 0);
}

fn push(bytes: &mut Vec<u8>, format: ElementFormat, value: f64) {
    pad(bytes, format.alignment());
    bytes.extend(format.pack([value], Saturation::Default));
}

/// A tensor, filled.
fn tensor(device: &Device, argument: &TensorArgument, folder: &Path) -> Result<(Tensor, Values), String> {
    let format = argument.format;
    let count = count(&argument.extents).ok_or("too many elements")?;
    let (bytes, mut elements) = encode(format, &argument.fill.values(format, count, folder)?);
    let extents = Extents::new(&argument.extents).map_err(|error| error.to_string())?;
    let mut descriptor = TensorDescriptor::new(extents, format);
    if let Some(block) = &argument.scales {
        let factors = Extents::new(block).map_err(|error| error.to_string())?;
        let plane = AuxiliaryPlaneDescriptor::new().with_block_factors(factors);
        descriptor = descriptor.with_plane(PlaneType::Scales, plane);
    }
    let tensor = match &argument.strides {
        None => device.new_tensor(&descriptor).map_err(text)?,
        Some(strides) => {
            let strides = Strides::new(strides).map_err(|error| error.to_string())?;
            let descriptor = descriptor.with_strides(strides);
            let span = strides
                .span(&extents)
                .filter(|&span| span <= MOST_ELEMENTS)
                .ok_or("the strides are too large")?;
            let buffer = device.new_buffer(format.bytes_for(span).max(1)).map_err(text)?;
            buffer.new_tensor(&descriptor, 0).map_err(text)?
        }
    };
    tensor.write_plane(PlaneType::Data, &bytes).map_err(text)?;
    if let Some(block) = &argument.scales {
        let blocks: usize = argument
            .extents
            .iter()
            .zip(block.iter().chain(std::iter::repeat(&1)))
            .map(|(&extent, &factor)| extent.div_ceil(factor))
            .product();
        let codes: Vec<u8> = match (&argument.scale_codes, &argument.fill) {
            (Some(codes), _) if !codes.is_empty() => codes.iter().copied().cycle().take(blocks).collect(),
            (_, Fill::Random { seed, .. }) => (0..blocks).map(|block| random_scale(*seed, block)).collect(),
            _ => vec![127; blocks],
        };
        tensor.write_plane(PlaneType::Scales, &codes).map_err(text)?;
        apply_scales(&mut elements, &argument.extents, block, &codes);
    }
    Ok((
        tensor,
        Values {
            format,
            extents: argument.extents.clone(),
            elements,
        },
    ))
}

/// Multiplies each element by the scale of its block.
fn apply_scales(elements: &mut [f64], extents: &[usize], block: &[usize], codes: &[u8]) {
    for (index, element) in elements.iter_mut().enumerate() {
        let (mut rest, mut at, mut stride) = (index, 0, 1);
        // Factors that are not given are 1.
        for (&extent, &factor) in extents.iter().zip(block.iter().chain(std::iter::repeat(&1))) {
            at += rest % extent / factor * stride;
            stride *= extent.div_ceil(factor);
            rest /= extent;
        }
        *element *= ElementFormat::Fp8UE8M0.decode(u64::from(codes[at]));
    }
}

/// Function constants from words.
pub fn function_constants(constants: &BTreeMap<usize, (ElementFormat, Vec<f64>)>) -> Result<FunctionConstants, String> {
    let mut out = FunctionConstants::new();
    for (&index, (format, values)) in constants {
        let &[value] = values.as_slice() else {
            return Err(format!("function constant {index}: vectors are not supported"));
        };
        let index = index as u32;
        if *format == ElementFormat::Bool {
            out.set(index, value != 0.0);
        } else if format.is_float() {
            out.set(index, value);
        } else if value >= i64::MAX as f64 {
            out.set(index, value as u64);
        } else {
            out.set(index, value as i64);
        }
    }
    Ok(out)
}

/// The only kernel of a library, or the one named.
pub fn choose_kernel(library: &Library, name: Option<&str>) -> Result<String, String> {
    if let Some(name) = name {
        return Ok(name.to_string());
    }
    match library.kernel_names().as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(format!("{} has no kernel", library.file_name())),
        several => Err(format!(
            "{} has {} kernels, name one: {}",
            library.file_name(),
            several.len(),
            several.join(", ")
        )),
    }
}

/// Execution options from the words of a test file or of the command line.
pub fn execution_option(options: ExecutionOptions, word: &str) -> Option<ExecutionOptions> {
    Some(match word {
        "force-incompatible" => options.with_force_incompatible(true),
        "static-overhang=zero" => options.with_static_overhang_zero(true),
        "layout=device" => options.with_permuted_layout(false),
        "layout=permuted" => options.with_permuted_layout(true),
        "numerics=tensor-unit" => options.with_tensor_unit(true),
        "deterministic" => options.with_deterministic(true),
        "sanitize" => options.with_sanitize(Default::default()),
        _ => return None,
    })
}
