//! A config against a kernel's signature and against a weights file.

use std::fmt;

use anymetal_formats::{ElementFormat, Extents, PlaneType, TensorUsage};

use super::{Config, ConfigTensor};
use crate::binding::index_limit;
use crate::error::nearest;
use crate::pipeline::{Argument, ArgumentType};
use crate::quantise;
use crate::weights::{SCALES_SUFFIX, WeightInfo, WeightsFile};

/// Two places that disagree about a tensor.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Mismatch {
    /// The tensor's name in the config.
    pub tensor: String,
    /// What disagrees with the config: ``kernel `matmul`, argument `w` at buffer(1)``, ``model.safetensors``.
    pub place: String,
    /// What it says, what the config says, and what to do.
    pub message: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor `{}`: {}: {}", self.tensor, self.place, self.message)
    }
}

/// What a comparison found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Findings {
    /// What is wrong.
    pub mismatches: Vec<Mismatch>,
    /// What is only worth knowing.
    pub notes: Vec<String>,
    /// How many of the config's tensors were compared.
    pub compared: usize,
}

/// Collects the mismatches of one tensor with one place.
struct Comparison<'a> {
    tensor: &'a str,
    place: String,
    found: &'a mut Vec<Mismatch>,
}

impl Comparison<'_> {
    fn wrong(&mut self, message: String) {
        self.found.push(Mismatch {
            tensor: self.tensor.to_owned(),
            place: self.place.clone(),
            message,
        });
    }
}

impl Config {
    /// Compares each tensor with the argument of the kernel that it is bound to: element format, rank, static extents, index type,
    /// scales, usage. `arguments` are those of [`Pipeline::arguments`](crate::Pipeline::arguments).
    pub fn check_kernel(&self, kernel: &str, arguments: &[Argument]) -> Findings {
        let mut findings = Findings::default();
        let names: Vec<String> = arguments.iter().map(|a| a.name.clone()).collect();
        let mut used = Vec::new();
        for (name, tensor) in &self.tensors {
            let wanted = tensor.argument.as_deref().unwrap_or(name);
            let argument = arguments.iter().find(|a| a.name == wanted);
            let place = match argument {
                Some(argument) => format!("kernel `{kernel}`, argument `{wanted}` at {}", argument.binding()),
                None => format!("kernel `{kernel}`"),
            };
            let mut comparison = Comparison {
                tensor: name,
                place,
                found: &mut findings.mismatches,
            };
            match argument {
                Some(argument) => {
                    used.push(wanted);
                    findings.compared += 1;
                    compare_argument(&mut comparison, tensor, argument);
                    if tensor.stored && argument.is_written() {
                        findings.notes.push(format!(
                            "kernel `{kernel}` writes argument `{wanted}`; tensor `{name}` of a mapped weights file is read-only, so bind a copy"
                        ));
                    }
                }
                None if tensor.argument.is_some() => comparison.wrong(no_argument(wanted, &names)),
                None => {}
            }
        }
        for argument in arguments {
            if matches!(argument.ty, ArgumentType::Tensor { .. }) && !used.contains(&argument.name.as_str()) {
                findings.notes.push(format!(
                    "argument `{}` of kernel `{kernel}` at {}, {}, is not in the config",
                    argument.name,
                    argument.binding(),
                    argument.ty
                ));
            }
        }
        if findings.compared == 0 && findings.mismatches.is_empty() {
            findings.mismatches.push(Mismatch {
                tensor: "*".to_owned(),
                place: format!("kernel `{kernel}`"),
                message: format!(
                    "no tensor of the config belongs to an argument (the kernel has: {}); add `argument = \"NAME\"`",
                    list(&names)
                ),
            });
        }
        findings
    }

    /// Compares each stored tensor with the weights file: presence, element format, dimensions, scales, alignment.
    pub fn check_weights(&self, file: &WeightsFile) -> Findings {
        let mut findings = Findings::default();
        let place = file.path().display().to_string();
        for (name, tensor) in self.tensors.iter().filter(|(_, tensor)| tensor.stored) {
            let mut comparison = Comparison {
                tensor: name,
                place: place.clone(),
                found: &mut findings.mismatches,
            };
            match file.get(name) {
                Some(info) => {
                    findings.compared += 1;
                    compare_weight(&mut comparison, tensor, info);
                }
                None => comparison.wrong(no_weight(name, file)),
            }
        }
        let others = file.tensors().iter().filter(|t| !self.tensors.contains_key(&t.name));
        let others: Vec<&str> = others.map(|t| t.name.as_str()).collect();
        if let [first, rest @ ..] = others.as_slice() {
            let more = match rest.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            findings
                .notes
                .push(format!("{place}: `{first}`{more} not in the config"));
        }
        findings
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn no_argument(wanted: &str, names: &[String]) -> String {
    match nearest(wanted, names) {
        Some(near) => format!(
            "it has no argument `{wanted}`; did you mean `{near}`? (it has: {})",
            list(names)
        ),
        None => format!("it has no argument `{wanted}` (it has: {})", list(names)),
    }
}

fn no_weight(name: &str, file: &WeightsFile) -> String {
    let names: Vec<String> = file.tensors().iter().map(|t| t.name.clone()).collect();
    let hint = match nearest(name, &names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write `stored = false` if it does not come from this file".to_owned(),
    };
    format!("it has no such tensor (of its {}); {hint}", names.len())
}

fn compare_argument(comparison: &mut Comparison, tensor: &ConfigTensor, argument: &Argument) {
    let descriptor = &tensor.descriptor;
    if !descriptor.usage.contains(TensorUsage::COMPUTE) {
        comparison.wrong("the config's usage lacks \"compute\", which every kernel needs; add it".to_owned());
    }
    match &argument.ty {
        ArgumentType::Tensor {
            element,
            extents,
            index_type,
            scales,
        } => {
            if *element != descriptor.data_type {
                comparison.wrong(format!(
                    "the kernel's elements are {} ({element}), the config's {}; set dtype = \"{element}\" and convert the weights, \
                     or use a kernel for {}",
                    element.msl_name(),
                    descriptor.data_type,
                    descriptor.data_type.msl_name()
                ));
            }
            compare_extents(comparison, &descriptor.dimensions, extents, index_type);
            let has = descriptor
                .auxiliary_planes
                .get(PlaneType::Scales)
                .map(|p| p.block_factors.to_vec());
            let wanted = scales
                .as_ref()
                .map(|factors| factors.iter().map(|&f| f as usize).collect::<Vec<_>>());
            compare_scales(comparison, extents.len(), wanted, has);
        }
        ArgumentType::Buffer { type_name, .. } => {
            let pointee = ElementFormat::from_msl_name(type_name);
            // Packed formats go through pointers to bytes or words; a number type must be the tensor's own.
            let raw = descriptor.data_type.is_format_type() && pointee.is_some_and(ElementFormat::is_integer);
            if let Some(pointee) = pointee
                && pointee != descriptor.data_type
                && !raw
            {
                comparison.wrong(format!(
                    "the kernel reads {type_name} ({pointee}) through a pointer, the config's elements are {}; set dtype = \
                     \"{pointee}\" and convert the weights, or use another kernel",
                    descriptor.data_type
                ));
            }
        }
        other => comparison.wrong(format!(
            "the argument is {other}, which is no place for a tensor; name another argument"
        )),
    }
}

fn compare_extents(comparison: &mut Comparison, dimensions: &Extents, extents: &[Option<u64>], index_type: &str) {
    if dimensions.rank() != extents.len() {
        comparison.wrong(format!(
            "the kernel's tensor has rank {}, the config's rank {} (dimensions {dimensions}, innermost first); give {} dimensions",
            extents.len(),
            dimensions.rank(),
            extents.len()
        ));
        return;
    }
    for (dimension, (&size, extent)) in dimensions.iter().zip(extents).enumerate() {
        if let Some(extent) = extent
            && *extent != size as u64
        {
            let swapped = dimensions.rank() == 2
                && extents
                    .iter()
                    .rev()
                    .zip(dimensions.iter())
                    .all(|(e, &d)| e.is_none_or(|e| e == d as u64));
            let hint = if swapped {
                "; the order is innermost first: swap the two dimensions?"
            } else {
                ""
            };
            comparison.wrong(format!(
                "the kernel has the static extent {extent} in dimension {dimension}, the config {size} (dimensions {dimensions}, \
                 innermost first){hint}"
            ));
        }
        if size as u64 > index_limit(index_type) {
            comparison.wrong(format!(
                "dimension {dimension} is {size}, more than the kernel's index type {index_type} holds; use a kernel with a wider one"
            ));
        }
    }
}

fn compare_scales(comparison: &mut Comparison, rank: usize, wanted: Option<Vec<usize>>, has: Option<Vec<usize>>) {
    let full = |factors: Vec<usize>| {
        (0..rank)
            .map(|d| factors.get(d).copied().unwrap_or(1))
            .collect::<Vec<_>>()
    };
    match (wanted.map(full), has.map(full)) {
        (Some(wanted), None) => comparison.wrong(format!(
            "the kernel wants a scales plane with blocks {wanted:?}, the config has none; add planes = {{ scales = {{ block_factors \
             = {wanted:?} }} }} and quantise the weights with scales"
        )),
        (None, Some(has)) => comparison.wrong(format!(
            "the kernel's type has no scales plane, the config has one with blocks {has:?}; use a kernel whose tensor has \
             tensor_blockwise scales, or remove the plane"
        )),
        (Some(wanted), Some(has)) if wanted != has => comparison.wrong(format!(
            "the kernel's scales have blocks {wanted:?}, the config's {has:?}; set block_factors = {wanted:?}"
        )),
        _ => {}
    }
}

fn compare_weight(comparison: &mut Comparison, tensor: &ConfigTensor, info: &WeightInfo) {
    let descriptor = &tensor.descriptor;
    let (name, wanted) = (comparison.tensor.to_owned(), descriptor.data_type);
    match info.format {
        None => comparison.wrong(format!(
            "the file has {}, which Metal tensors do not have, the config {wanted}; convert the weights",
            info.dtype
        )),
        Some(format) if format != wanted => {
            let floats = matches!(format, ElementFormat::F32 | ElementFormat::F16 | ElementFormat::BF16);
            let todo = if floats && quantise::FORMATS.contains(&wanted) && descriptor.is_multi_plane() {
                format!("quantise it: anymetal quantize … --format {wanted} --include '{name}'")
            } else {
                format!("set dtype = \"{format}\", or convert the weights")
            };
            comparison.wrong(format!("the file has {format}, the config {wanted}; {todo}"));
        }
        Some(_) => {}
    }
    match info.dimensions() {
        Some(dimensions) if dimensions == descriptor.dimensions => {}
        _ => {
            let file: Vec<usize> = info.shape.iter().rev().copied().collect();
            let reversed = file.iter().rev().eq(descriptor.dimensions.iter());
            let hint = if reversed {
                "; the config's order is innermost first, the reverse of the file's shape: turn it around"
            } else {
                ""
            };
            comparison.wrong(format!(
                "the file has dimensions {file:?} (shape {:?}), the config {} (innermost first){hint}",
                info.shape, descriptor.dimensions
            ));
        }
    }
    match (descriptor.is_multi_plane(), info.scales.is_some()) {
        (true, false) => comparison.wrong(format!(
            "the config has a scales plane, the file has no fitting `{name}{SCALES_SUFFIX}` (F8_E8M0, one for 32 elements of the last \
             dimension); quantise with anymetal quantize, or remove the plane"
        )),
        (false, true) => comparison.wrong(
            "the file has scales, the config no scales plane; add planes = { scales = { block_factors = [32] } }".to_owned(),
        ),
        _ => {}
    }
    if let Some(alignment) = tensor.alignment {
        for (plane, range) in [("data", Some(&info.data)), ("scales", info.scales.as_ref())] {
            if let Some(range) = range
                && !range.start.is_multiple_of(alignment)
            {
                comparison.wrong(format!(
                    "the {plane} plane starts at byte {} of the file, which is no multiple of {alignment}; write the file with aligned \
                     tensors, or lower `alignment` and copy the plane when it is loaded",
                    range.start
                ));
            }
        }
    }
}
