//! Pipelines: kernels ready to run, what they take, and how they are to run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use anymetal_cpu::SanitizeOptions;
use anymetal_cpu::tile::TilePath;
use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, Argument as IrArgument, ArgumentKind, Kernel};

pub use anymetal_ir::Access;

use crate::backend::{Compiled, Target};
use crate::error::Result;

/// The value of a function constant.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum ConstantValue {
    /// `bool`
    Bool(bool),
    /// Any integer type; the kernel's declaration decides the width.
    Int(i64),
    /// `ulong` values past the range of [`ConstantValue::Int`].
    UInt(u64),
    /// `float`, `half` or `bfloat`; rounded to the declared type.
    Float(f64),
}

macro_rules! constant_from {
    ($($variant:ident: $($ty:ty)*;)*) => {$($(
        impl From<$ty> for ConstantValue {
            fn from(value: $ty) -> Self {
                ConstantValue::$variant(value.into())
            }
        }
    )*)*};
}

constant_from! {
    Bool: bool;
    Int: i8 u8 i16 u16 i32 u32 i64;
    UInt: u64;
    Float: f32 f64;
}

impl ConstantValue {
    /// Bits that tell values apart, for cache keys: `0.0` and `-0.0` differ, a NaN equals itself.
    fn key(self) -> (u8, u64) {
        match self {
            ConstantValue::Bool(v) => (0, v.into()),
            ConstantValue::Int(v) => (1, v as u64),
            ConstantValue::UInt(v) => (2, v),
            ConstantValue::Float(v) => (3, v.to_bits()),
        }
    }
}

/// Values for the `[[function_constant(n)]]` of a kernel, by index or by name (`MTLFunctionConstantValues`).
///
/// ```
/// use anymetal::FunctionConstants;
///
/// let constants = FunctionConstants::new().with(0, true).with_named("HEAD_DIM", 64);
/// assert!(!constants.is_empty());
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FunctionConstants {
    by_index: BTreeMap<u32, ConstantValue>,
    by_name: BTreeMap<String, ConstantValue>,
}

impl FunctionConstants {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the constant of this index.
    pub fn set(&mut self, index: u32, value: impl Into<ConstantValue>) {
        self.by_index.insert(index, value.into());
    }

    /// Sets the constant of this name.
    pub fn set_named(&mut self, name: &str, value: impl Into<ConstantValue>) {
        self.by_name.insert(name.to_owned(), value.into());
    }

    /// The same with one more constant, by index.
    pub fn with(mut self, index: u32, value: impl Into<ConstantValue>) -> Self {
        self.set(index, value);
        self
    }

    /// The same with one more constant, by name.
    pub fn with_named(mut self, name: &str, value: impl Into<ConstantValue>) -> Self {
        self.set_named(name, value);
        self
    }

    /// True when no constant is set.
    pub fn is_empty(&self) -> bool {
        self.by_index.is_empty() && self.by_name.is_empty()
    }

    /// The constants set by index.
    pub fn by_index(&self) -> impl Iterator<Item = (u32, ConstantValue)> + '_ {
        self.by_index.iter().map(|(&index, &value)| (index, value))
    }

    /// The constants set by name.
    pub fn by_name(&self) -> impl Iterator<Item = (&str, ConstantValue)> + '_ {
        self.by_name.iter().map(|(name, &value)| (name.as_str(), value))
    }

    /// A text that is the same for equal sets only.
    pub(crate) fn cache_key(&self) -> String {
        let mut key = String::new();
        for (index, value) in self.by_index() {
            key.push_str(&format!("#{index}={:?};", value.key()));
        }
        for (name, value) in self.by_name() {
            key.push_str(&format!("{name}={:?};", value.key()));
        }
        key
    }
}

/// How a kernel is to run: switches that change checking and testing, never results of correct kernels.
///
/// ```
/// use anymetal::ExecutionOptions;
///
/// let options = ExecutionOptions::new().with_deterministic(true).with_instruction_budget(1 << 30);
/// assert_eq!(options.instruction_budget, Some(1 << 30));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct ExecutionOptions {
    /// The instructions that tile products use; `None` for what the environment variable `ANYMETAL_CPU` says, or the
    /// fastest that the machine has. A path that the machine lacks is refused when the pipeline is made.
    pub tile_path: Option<TilePath>,
    /// Worker threads to use at most; `None` for what the environment variable `ANYMETAL_THREADS` says, or all cores.
    pub threads: Option<usize>,
    /// Layout compatibility queries (`is_compatible_as_left_input` and its like) answer false, so that a kernel's fallback
    /// branch is tested.
    pub force_incompatible: bool,
    /// Threadgroups run in order on one worker, so that kernels with atomics or races give the same result each time.
    pub deterministic: bool,
    /// Reading past a tensor through a static extent gives zeros instead of a fault.
    pub static_overhang_zero: bool,
    /// Cooperative tensors get another legal layout than those of known devices: lanes and slots hold other elements, and
    /// some slots are invalid. The results of a kernel that asks where its elements are stay the same; those of one that
    /// relies on a device's layout change.
    pub permuted_layout: bool,
    /// `matmul2d` gives the bits that the tensor unit of a Mac gives (measured on M5): the same order and rounding of sums.
    /// Slow; for comparing results with a Mac's.
    pub tensor_unit: bool,
    /// Ends a dispatch with a fault after so many instructions of one threadgroup; a stop for endless loops.
    pub instruction_budget: Option<u64>,
    /// Counts the bytes that the kernel reads and writes, at some cost in speed.
    pub count_traffic: bool,
    /// Checks every access of a kernel on a GPU, at some cost in speed: the first one that is out of bounds ends in an
    /// [`Error::Fault`](crate::Error::Fault) with kernel, source line, buffer, index and thread, and does nothing. Without it such an
    /// access is as undefined as on a Mac, and may stop the device. On the CPU accesses are always checked.
    pub checked: bool,
    /// Runs under the sanitizer: slowly, in order, on one thread, with [findings](crate::DispatchReport::findings) in the
    /// report. Faults are findings then instead of errors.
    pub sanitize: Option<SanitizeOptions>,
}

macro_rules! switches {
    ($($name:ident $with:ident;)*) => {$(
        #[doc = concat!("The same with [`", stringify!($name), "`](Self::", stringify!($name), ") set.")]
        pub fn $with(mut self, value: bool) -> Self {
            self.$name = value;
            self
        }
    )*};
}

impl ExecutionOptions {
    /// Everything off.
    pub fn new() -> Self {
        Self::default()
    }

    switches! {
        force_incompatible with_force_incompatible;
        deterministic with_deterministic;
        static_overhang_zero with_static_overhang_zero;
        permuted_layout with_permuted_layout;
        tensor_unit with_tensor_unit;
        count_traffic with_count_traffic;
        checked with_checked;
    }

    /// The same on the given [`tile_path`](Self::tile_path).
    pub fn with_tile_path(mut self, path: TilePath) -> Self {
        self.tile_path = Some(path);
        self
    }

    /// The same with at most so many worker [`threads`](Self::threads).
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The same under the [sanitizer](Self::sanitize).
    pub fn with_sanitize(mut self, sanitize: SanitizeOptions) -> Self {
        self.sanitize = Some(sanitize);
        self
    }

    /// The same with an [`instruction_budget`](Self::instruction_budget).
    pub fn with_instruction_budget(mut self, instructions: u64) -> Self {
        self.instruction_budget = Some(instructions);
        self
    }
}

/// What a kernel takes at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ArgumentType {
    /// A pointer or reference to memory.
    Buffer {
        /// `device` or `constant`.
        address_space: &'static str,
        /// The pointee's type in Metal's words.
        type_name: String,
        /// Bytes of the pointee.
        size: usize,
        /// What the binding's offset must be a multiple of.
        alignment: usize,
        /// True for `T&`: at least one whole object must be bound.
        reference: bool,
    },
    /// A tensor.
    Tensor {
        /// Element format of the data plane.
        element: ElementFormat,
        /// Extents, innermost first: the number for a static one, `None` for a dynamic one. The length is the rank.
        extents: Vec<Option<u64>>,
        /// The index type's name.
        index_type: &'static str,
        /// Block factors of the scales plane, if the type has one.
        scales: Option<Vec<u32>>,
    },
    /// Threadgroup memory whose length the dispatch sets.
    Threadgroup {
        /// Bytes of the pointee.
        size: usize,
        /// Alignment of the pointee.
        alignment: usize,
    },
}

impl ArgumentType {
    /// The number of dimensions of a tensor.
    pub fn rank(&self) -> Option<usize> {
        match self {
            ArgumentType::Tensor { extents, .. } => Some(extents.len()),
            _ => None,
        }
    }

    /// The element format of a tensor.
    pub fn element_format(&self) -> Option<ElementFormat> {
        match self {
            ArgumentType::Tensor { element, .. } => Some(*element),
            _ => None,
        }
    }
}

impl fmt::Display for ArgumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArgumentType::Buffer {
                address_space,
                type_name,
                reference,
                ..
            } => {
                write!(
                    f,
                    "a buffer (`{address_space} {type_name}{}`)",
                    if *reference { "&" } else { "*" }
                )
            }
            ArgumentType::Tensor {
                element,
                extents,
                scales,
                ..
            } => {
                write!(f, "a tensor of {} (rank {}", element.msl_name(), extents.len())?;
                if scales.is_some() {
                    write!(f, ", with scales")?;
                }
                write!(f, ")")
            }
            ArgumentType::Threadgroup { .. } => write!(f, "threadgroup memory"),
        }
    }
}

/// One argument of a kernel, as reflection shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// The parameter's name.
    pub name: String,
    /// `n` of `[[buffer(n)]]` or `[[threadgroup(n)]]`.
    pub index: u32,
    /// What is bound there.
    pub ty: ArgumentType,
    /// Whether the kernel reads and writes it.
    pub access: Access,
}

impl Argument {
    pub(crate) fn of(argument: &IrArgument) -> Self {
        let ty = match &argument.kind {
            ArgumentKind::Buffer {
                space,
                type_name,
                size,
                align,
                reference,
                ..
            } => ArgumentType::Buffer {
                address_space: if *space == AddressSpace::Constant {
                    "constant"
                } else {
                    "device"
                },
                type_name: type_name.clone(),
                size: *size as usize,
                alignment: (*align).max(1) as usize,
                reference: *reference,
            },
            ArgumentKind::Tensor(spec) => ArgumentType::Tensor {
                element: spec.format,
                extents: spec.extents.clone(),
                index_type: msl_scalar(spec.index),
                scales: spec.scale_block.clone(),
            },
            ArgumentKind::Threadgroup { size, align } => ArgumentType::Threadgroup {
                size: *size as usize,
                alignment: (*align).max(1) as usize,
            },
        };
        Self {
            name: argument.name.clone(),
            index: argument.index,
            ty,
            access: argument.access,
        }
    }

    /// Where it is bound: `buffer(2)` or `threadgroup(0)`.
    pub fn binding(&self) -> String {
        let table = if matches!(self.ty, ArgumentType::Threadgroup { .. }) {
            "threadgroup"
        } else {
            "buffer"
        };
        format!("{table}({})", self.index)
    }

    pub(crate) fn is_written(&self) -> bool {
        matches!(self.access, Access::WriteOnly | Access::ReadWrite)
    }
}

fn msl_scalar(scalar: anymetal_ir::Scalar) -> &'static str {
    scalar
        .name()
        .parse::<ElementFormat>()
        .map_or("int", ElementFormat::msl_name)
}

/// A kernel with its function constants filled in, ready to be dispatched (`MTLComputePipelineState`). Cheap to clone.
#[derive(Clone)]
pub struct Pipeline(pub(crate) Arc<PipelineInner>);

pub(crate) struct PipelineInner {
    pub kernel: Arc<Kernel>,
    pub arguments: Vec<Argument>,
    pub options: ExecutionOptions,
    pub compiled: Compiled,
}

impl Pipeline {
    pub(crate) fn new(target: &Target, kernel: Arc<Kernel>, options: &ExecutionOptions) -> Result<Self> {
        let compiled = Compiled::new(target, &kernel, options)?;
        let arguments = kernel.arguments.iter().map(Argument::of).collect();
        let options = options.clone();
        Ok(Self(Arc::new(PipelineInner {
            kernel,
            arguments,
            options,
            compiled,
        })))
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.0.kernel.name
    }

    /// The arguments in the order of the source (`MTLBinding`s).
    pub fn arguments(&self) -> &[Argument] {
        &self.0.arguments
    }

    /// The argument of this name.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.0.arguments.iter().find(|a| a.name == name)
    }

    /// The options it runs with.
    pub fn options(&self) -> &ExecutionOptions {
        &self.0.options
    }

    /// Threads of a SIMD-group.
    pub fn thread_execution_width(&self) -> usize {
        32
    }

    /// The largest threadgroup that it can be dispatched with.
    pub fn max_total_threads_per_threadgroup(&self) -> usize {
        let device = crate::device::MAX_THREADS_PER_THREADGROUP;
        self.0.kernel.max_threads.map_or(device, |n| device.min(n as usize))
    }

    /// Bytes of threadgroup memory that the source declares; what `set_threadgroup_memory_length` sets comes on top.
    pub fn static_threadgroup_memory_length(&self) -> u64 {
        self.0.kernel.static_threadgroup_bytes()
    }

    /// How many SIMD-groups a threadgroup must have because of an operation of scope `execution_simdgroups<N>`.
    pub fn required_simdgroups(&self) -> Option<u32> {
        self.0.kernel.required_simdgroups.first().map(|(n, _)| *n)
    }

    /// Registers, and bytes of local memory (spilled registers and thread arrays), that a thread takes; `None` on the CPU. The driver
    /// assembles the kernel for it.
    pub fn thread_resources(&self) -> Result<Option<(u32, u32)>> {
        match &self.0.compiled {
            Compiled::Cpu(_) => Ok(None),
            Compiled::Cuda(compiled) => compiled.resources().map(Some),
        }
    }

    /// The kernel's intermediate form.
    pub fn ir(&self) -> &Arc<Kernel> {
        &self.0.kernel
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("name", &self.name())
            .field("arguments", &self.arguments())
            .finish()
    }
}
