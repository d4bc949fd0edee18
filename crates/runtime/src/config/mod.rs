//! Configs: what a model's tensors are, in one readable file.
//!
//! A config is TOML. It names each tensor and says what a [`TensorDescriptor`] says, so that element formats, planes, block factors
//! and alignment can be reviewed in one place and [checked](Config::check_kernel) against a kernel and against a
//! [weights file](Config::check_weights):
//!
//! ```
//! use anymetal::config::Config;
//! use anymetal::{ElementFormat, PlaneType};
//!
//! let config = Config::from_toml(r#"
//! version = 1
//!
//! [tensors."mlp.up.weight"]
//! dtype = "fp4_e2m1"            # names as everywhere: f16, half, float16, …
//! dimensions = [4096, 11008]    # innermost first
//! planes = { scales = { dtype = "fp8_ue8m0", block_factors = [32, 1] } }
//! alignment = 128               # bytes, where each plane starts in the weights file
//! argument = "w"                # the kernel's argument; by default the one with the tensor's name
//!
//! [tensors.x]
//! dtype = "half"
//! dimensions = [4096, 16]
//! usage = ["compute"]
//! stored = false                # not in the weights file
//! "#)?;
//! let up = &config.tensors["mlp.up.weight"];
//! assert_eq!(up.descriptor.data_type, ElementFormat::Fp4E2M1);
//! assert!(up.descriptor.auxiliary_planes.get(PlaneType::Scales).is_some());
//! assert_eq!(Config::from_toml(&config.to_toml())?, config);
//! # Ok::<(), anymetal::config::ConfigError>(())
//! ```

mod check;

use std::collections::BTreeMap;

use anymetal_formats::{
    AuxiliaryPlaneDescriptor, DescriptorError, ElementFormat, Extents, PlaneType, StorageMode, Strides,
    TensorDescriptor, TensorUsage,
};
use serde::Deserialize;

pub use check::{Findings, Mismatch};

use crate::weights::{WeightInfo, WeightsFile};

/// The version of the file format.
const VERSION: i64 = 1;

/// A config that cannot be understood, or that describes a tensor which Metal refuses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not TOML, or a key that is missing, unknown or of another type. The text has line and column.
    #[error("{}", .0.trim_end())]
    Syntax(String),
    /// Written for another version of this program.
    #[error("version = {found}; this program reads version {VERSION}")]
    Version {
        /// What the file says.
        found: i64,
    },
    /// A value that means nothing.
    #[error("tensor `{tensor}`: {key}: {reason}")]
    Value {
        /// The tensor.
        tensor: String,
        /// The key.
        key: &'static str,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A tensor that Metal refuses.
    #[error("tensor `{tensor}`: {error} (MTLTensorDomain code {})", error.code())]
    Descriptor {
        /// The tensor.
        tensor: String,
        /// The rule.
        error: Box<DescriptorError>,
    },
}

/// One tensor of a config.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConfigTensor {
    /// What it is.
    pub descriptor: TensorDescriptor,
    /// What each plane's place in the weights file must be a multiple of, in bytes; `None` for anything.
    pub alignment: Option<usize>,
    /// The kernel's argument that it is bound to; `None` for the one of the tensor's own name, if there is one.
    pub argument: Option<String>,
    /// Whether the weights file has it.
    pub stored: bool,
}

impl ConfigTensor {
    /// A stored tensor without alignment or argument.
    pub fn new(descriptor: TensorDescriptor) -> Self {
        Self {
            descriptor,
            alignment: None,
            argument: None,
            stored: true,
        }
    }
}

/// Named tensors, see the [module](self).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Config {
    /// The tensors by name.
    pub tensors: BTreeMap<String, ConfigTensor>,
}

/// The file as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    version: i64,
    #[serde(default)]
    tensors: BTreeMap<String, RawTensor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTensor {
    dtype: String,
    dimensions: Vec<usize>,
    strides: Option<Vec<usize>>,
    usage: Option<Vec<String>>,
    storage: Option<String>,
    planes: Option<RawPlanes>,
    alignment: Option<usize>,
    argument: Option<String>,
    stored: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlanes {
    scales: Option<RawPlane>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPlane {
    dtype: Option<String>,
    block_factors: Option<Vec<usize>>,
}

const USAGES: [(&str, TensorUsage); 3] = [
    ("compute", TensorUsage::COMPUTE),
    ("render", TensorUsage::RENDER),
    ("machine-learning", TensorUsage::MACHINE_LEARNING),
];

impl Config {
    /// Reads a config. Every descriptor is checked by Metal's rules.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let raw: RawConfig = toml::from_str(text).map_err(|error| ConfigError::Syntax(error.to_string()))?;
        if raw.version != VERSION {
            return Err(ConfigError::Version { found: raw.version });
        }
        let mut config = Config::default();
        for (name, raw) in raw.tensors {
            let tensor = raw.tensor(&name)?;
            config.tensors.insert(name, tensor);
        }
        Ok(config)
    }

    /// The config as a file, tensors in order of their names, defaults left out.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = {VERSION}\n");
        for (name, tensor) in &self.tensors {
            text.push_str(&format!("\n[tensors.{}]\n", key(name)));
            text.push_str(&descriptor_to_toml(&tensor.descriptor));
            if let Some(alignment) = tensor.alignment {
                text.push_str(&format!("alignment = {alignment}\n"));
            }
            if let Some(argument) = &tensor.argument {
                text.push_str(&format!("argument = {}\n", quoted(argument)));
            }
            if !tensor.stored {
                text.push_str("stored = false\n");
            }
        }
        text
    }

    /// A config of every tensor of a weights file that Metal can hold, and for each other one a line that says why not.
    pub fn from_weights(file: &WeightsFile) -> (Self, Vec<String>) {
        let mut config = Config::default();
        let mut left_out = Vec::new();
        for info in file.tensors() {
            match weight(info) {
                Ok(tensor) => {
                    config.tensors.insert(info.name.clone(), tensor);
                }
                Err(reason) => left_out.push(format!("{}: {} {:?}: {reason}", info.name, info.dtype, info.shape)),
            }
        }
        (config, left_out)
    }
}

/// The largest alignment that Metal asks for; a file that keeps it can be bound without a copy.
const ALIGNMENT: usize = anymetal_formats::FORMAT_ALIGNMENT;

fn weight(info: &WeightInfo) -> Result<ConfigTensor, String> {
    if info.format.is_none() {
        return Err("Metal tensors have no such type".to_owned());
    }
    let descriptor = info.descriptor().ok_or("Metal tensors have at most 16 dimensions")?;
    descriptor.validate().map_err(|error| error.to_string())?;
    let starts = [Some(&info.data), info.scales.as_ref()];
    let aligned = starts
        .into_iter()
        .flatten()
        .all(|range| range.start.is_multiple_of(ALIGNMENT));
    Ok(ConfigTensor {
        alignment: aligned.then_some(ALIGNMENT),
        ..ConfigTensor::new(descriptor)
    })
}

/// A descriptor as the keys of one tensor of a [`Config`]: `dtype`, `dimensions`, and what is not at its default.
pub fn descriptor_to_toml(descriptor: &TensorDescriptor) -> String {
    let mut text = format!(
        "dtype = \"{}\"\ndimensions = {}\n",
        descriptor.data_type, descriptor.dimensions
    );
    if let Some(strides) = &descriptor.strides {
        text.push_str(&format!("strides = {strides}\n"));
    }
    if descriptor.usage != TensorUsage::default() {
        let usages = USAGES.iter().filter(|(_, usage)| descriptor.usage.contains(*usage));
        let usages: Vec<String> = usages.map(|(name, _)| format!("\"{name}\"")).collect();
        text.push_str(&format!("usage = [{}]\n", usages.join(", ")));
    }
    if descriptor.storage_mode != StorageMode::default() {
        text.push_str(&format!("storage = \"{}\"\n", descriptor.storage_mode));
    }
    if let Some(scales) = descriptor.auxiliary_planes.get(PlaneType::Scales) {
        text.push_str(&format!(
            "planes = {{ scales = {{ dtype = \"{}\", block_factors = {} }} }}\n",
            scales.data_type, scales.block_factors
        ));
    }
    text
}

/// The inverse of [`descriptor_to_toml`].
pub fn descriptor_from_toml(text: &str) -> Result<TensorDescriptor, ConfigError> {
    let raw: RawTensor = toml::from_str(text).map_err(|error| ConfigError::Syntax(error.to_string()))?;
    Ok(raw.tensor("(unnamed)")?.descriptor)
}

impl RawTensor {
    fn tensor(self, name: &str) -> Result<ConfigTensor, ConfigError> {
        let wrong = |key, reason: String| ConfigError::Value {
            tensor: name.to_owned(),
            key,
            reason,
        };
        let format = |key, text: &str| text.parse::<ElementFormat>().map_err(|e| wrong(key, e.to_string()));
        let list = |key, values: &[usize]| Extents::new(values).map_err(|e| wrong(key, e.to_string()));
        let mut descriptor = TensorDescriptor {
            data_type: format("dtype", &self.dtype)?,
            dimensions: list("dimensions", &self.dimensions)?,
            ..TensorDescriptor::default()
        };
        if let Some(strides) = &self.strides {
            let strides = Strides::new(strides).map_err(|e| wrong("strides", e.to_string()))?;
            descriptor.strides = Some(strides);
        }
        if let Some(usages) = &self.usage {
            let mut bits = 0;
            for usage in usages {
                let known = USAGES.iter().find(|(name, _)| name == usage);
                let (_, usage) = known.ok_or_else(|| {
                    wrong(
                        "usage",
                        format!("`{usage}` is unknown; use \"compute\", \"render\" or \"machine-learning\""),
                    )
                })?;
                bits |= usage.bits();
            }
            descriptor.usage = TensorUsage::from_bits(bits).unwrap_or_default();
        }
        match self.storage.as_deref() {
            None | Some("shared") => {}
            Some("private") => descriptor.storage_mode = StorageMode::Private,
            Some(other) => {
                let reason = format!("`{other}` is unknown; use \"shared\" or \"private\"");
                return Err(wrong("storage", reason));
            }
        }
        if let Some(scales) = self.planes.and_then(|planes| planes.scales) {
            let mut plane = AuxiliaryPlaneDescriptor::new();
            if let Some(dtype) = &scales.dtype {
                plane.data_type = format("planes.scales.dtype", dtype)?;
            }
            if let Some(factors) = &scales.block_factors {
                plane.block_factors = list("planes.scales.block_factors", factors)?;
            }
            descriptor.auxiliary_planes.set(PlaneType::Scales, plane);
        }
        descriptor.validate().map_err(|error| ConfigError::Descriptor {
            tensor: name.to_owned(),
            error: Box::new(error),
        })?;
        if let Some(alignment) = self.alignment
            && !alignment.is_power_of_two()
        {
            return Err(wrong("alignment", format!("{alignment} is not a power of two")));
        }
        Ok(ConfigTensor {
            descriptor,
            alignment: self.alignment,
            argument: self.argument,
            stored: self.stored.unwrap_or(true),
        })
    }
}

/// A table's name, quoted where it has to be.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A basic string of TOML, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
