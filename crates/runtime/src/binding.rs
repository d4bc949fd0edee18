//! What is bound to a kernel's arguments, and whether it fits.

use std::collections::BTreeMap;

use anymetal_formats::PlaneType;
use anymetal_ir::{Access, Scalar};

use crate::buffer::Buffer;
use crate::device::{MAX_THREADGROUP_MEMORY, MAX_THREADS_PER_THREADGROUP};
use crate::error::{BindingError, GridError, Result};
use crate::pipeline::{Argument, ArgumentType, Pipeline};
use crate::queue::Size;
use crate::tensor::Tensor;

/// Something bound at a buffer index.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    Buffer(Buffer, usize),
    /// Bytes of the dispatch's own, kept in a small buffer.
    Bytes(Buffer),
    Tensor(Tensor),
    NullTensor,
}

impl Binding {
    fn what(&self) -> &'static str {
        match self {
            Binding::Buffer(..) => "a buffer",
            Binding::Bytes(_) => "inline bytes",
            Binding::Tensor(_) => "a tensor",
            Binding::NullTensor => "the null tensor",
        }
    }
}

/// Everything bound when a dispatch is encoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bindings {
    pub buffers: BTreeMap<u32, Binding>,
    pub threadgroup: BTreeMap<u32, usize>,
}

/// One argument after the check, in the order of the kernel's arguments.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    Memory {
        buffer: Buffer,
        offset: usize,
        /// Nobody else has this buffer: its bytes stay as they are, unless the kernel writes them.
        inline: bool,
    },
    Tensor(Tensor),
    NullTensor,
    Threadgroup {
        bytes: usize,
    },
    /// Not bound because the kernel does not use it.
    Nothing,
}

/// How many threads, in which groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub threads: [u32; 3],
    pub threadgroup: [u32; 3],
}

/// Checks every argument of the pipeline's kernel against what is bound.
pub(crate) fn check_bindings(pipeline: &Pipeline, bindings: &Bindings) -> Result<Vec<Bound>, BindingError> {
    let kernel = pipeline.name();
    let arguments = pipeline.arguments();
    let mut bound = Vec::with_capacity(arguments.len());
    let mut given = 0;
    let mut missing = None;
    for argument in arguments {
        let value = match &argument.ty {
            ArgumentType::Threadgroup { .. } => bindings
                .threadgroup
                .get(&argument.index)
                .map(|&bytes| Ok(Bound::Threadgroup { bytes })),
            _ => bindings
                .buffers
                .get(&argument.index)
                .map(|b| check_one(kernel, argument, b)),
        };
        match value {
            Some(value) => {
                given += 1;
                bound.push(value?);
            }
            None if argument.access == Access::Unused => bound.push(Bound::Nothing),
            None => missing = missing.or(Some(argument)),
        }
    }
    if let Some(argument) = missing {
        return Err(BindingError::Missing {
            kernel: kernel.to_owned(),
            expected: arguments.len(),
            given,
            name: argument.name.clone(),
            binding: argument.binding(),
            argument: Box::new(argument.ty.clone()),
        });
    }
    let is_threadgroup = |a: &&Argument| matches!(a.ty, ArgumentType::Threadgroup { .. });
    let takes = |index, threadgroup| {
        arguments
            .iter()
            .any(|a| a.index == index && is_threadgroup(&a) == threadgroup)
    };
    let extra = bindings
        .buffers
        .keys()
        .find(|&&i| !takes(i, false))
        .map(|i| format!("buffer({i})"));
    let extra = extra.or_else(|| {
        bindings
            .threadgroup
            .keys()
            .find(|&&i| !takes(i, true))
            .map(|i| format!("threadgroup({i})"))
    });
    match extra {
        Some(binding) => Err(BindingError::Unexpected {
            kernel: kernel.to_owned(),
            expected: arguments.len(),
            binding,
        }),
        None => Ok(bound),
    }
}

fn check_one(kernel: &str, argument: &Argument, binding: &Binding) -> Result<Bound, BindingError> {
    let place = || (kernel.to_owned(), argument.name.clone(), argument.binding());
    match (&argument.ty, binding) {
        (ArgumentType::Tensor { .. }, Binding::Tensor(tensor)) => {
            check_tensor(kernel, argument, tensor)?;
            Ok(Bound::Tensor(tensor.clone()))
        }
        (ArgumentType::Tensor { .. }, Binding::NullTensor) => Ok(Bound::NullTensor),
        (
            ArgumentType::Buffer {
                type_name,
                size,
                alignment,
                reference,
                ..
            },
            binding,
        ) => {
            let (buffer, offset, inline) = match binding {
                Binding::Buffer(buffer, offset) => (buffer, *offset, false),
                Binding::Bytes(buffer) => (buffer, 0, true),
                Binding::Tensor(_) | Binding::NullTensor => {
                    return Err(kind(kernel, argument, binding));
                }
            };
            let (kernel, name, binding) = place();
            if offset > buffer.length() {
                return Err(BindingError::Offset {
                    kernel,
                    name,
                    binding,
                    offset,
                    length: buffer.length(),
                });
            }
            if !offset.is_multiple_of(*alignment) {
                let (type_name, alignment) = (type_name.clone(), *alignment);
                return Err(BindingError::Alignment {
                    kernel,
                    name,
                    binding,
                    offset,
                    type_name,
                    alignment,
                });
            }
            let given = buffer.length() - offset;
            if *reference && given < *size {
                let (type_name, needed) = (type_name.clone(), *size);
                return Err(BindingError::TooSmall {
                    kernel,
                    name,
                    binding,
                    type_name,
                    needed,
                    given,
                });
            }
            if argument.is_written() && !buffer.is_writable() {
                return Err(BindingError::ReadOnly { kernel, name, binding });
            }
            Ok(Bound::Memory {
                buffer: buffer.clone(),
                offset,
                inline,
            })
        }
        _ => Err(kind(kernel, argument, binding)),
    }
}

fn kind(kernel: &str, argument: &Argument, binding: &Binding) -> BindingError {
    BindingError::Kind {
        kernel: kernel.to_owned(),
        name: argument.name.clone(),
        binding: argument.binding(),
        argument: Box::new(argument.ty.clone()),
        given: binding.what(),
    }
}

fn check_tensor(kernel: &str, argument: &Argument, tensor: &Tensor) -> Result<(), BindingError> {
    let ArgumentType::Tensor {
        element,
        extents,
        index_type,
        scales,
    } = &argument.ty
    else {
        return Ok(());
    };
    let (kernel, name, binding) = (kernel.to_owned(), argument.name.clone(), argument.binding());
    let given = tensor.data_type();
    if given != *element {
        return Err(BindingError::Format {
            kernel,
            name,
            binding,
            expected: *element,
            given,
        });
    }
    let dimensions = tensor.dimensions();
    if dimensions.rank() != extents.len() {
        return Err(BindingError::Rank {
            kernel,
            name,
            binding,
            expected: extents.len(),
            given: dimensions.rank(),
            dimensions: dimensions.to_string(),
        });
    }
    for (dimension, (&size, extent)) in dimensions.iter().zip(extents).enumerate() {
        if let Some(expected) = *extent
            && expected != size as u64
        {
            let dimensions = dimensions.to_string();
            return Err(BindingError::StaticExtent {
                kernel,
                name,
                binding,
                dimension,
                expected,
                given: size,
                dimensions,
            });
        }
        if size as u64 > index_limit(index_type) {
            return Err(BindingError::IndexType {
                kernel,
                name,
                binding,
                dimension,
                given: size,
                index_type,
            });
        }
    }
    let plane = tensor.plane(PlaneType::Scales);
    let wanted: Option<Vec<usize>> = scales.as_ref().map(|blocks| {
        // Factors that the type leaves out are ones.
        (0..extents.len())
            .map(|d| blocks.get(d).map_or(1, |&b| b as usize))
            .collect()
    });
    let has = plane.map(|p| p.block_factors.to_vec());
    if wanted != has {
        let say = |blocks: &Option<Vec<usize>>| match blocks {
            Some(blocks) => format!("has a scales plane with blocks {blocks:?}"),
            None => "has no scales plane".to_owned(),
        };
        return Err(BindingError::Planes {
            kernel,
            name,
            binding,
            expected: say(&wanted),
            given: say(&has),
        });
    }
    let planes = [PlaneType::Data, PlaneType::Scales];
    let read_only = planes
        .iter()
        .any(|&p| tensor.find(p).is_ok_and(|(_, m)| !m.memory.is_writable()));
    if argument.is_written() && read_only {
        return Err(BindingError::ReadOnly { kernel, name, binding });
    }
    Ok(())
}

/// The largest value of an index type, by its name in the language.
pub(crate) fn index_limit(index_type: &str) -> u64 {
    let scalar = Scalar::ALL.into_iter().find(|s| {
        s.name()
            .parse::<anymetal_formats::ElementFormat>()
            .is_ok_and(|f| f.msl_name() == index_type)
    });
    match scalar {
        Some(s) if s.is_integer() => u64::MAX >> (64 - s.bits() + u32::from(s.is_signed())),
        _ => u64::MAX,
    }
}

/// Checks grid, threadgroup and threadgroup memory against the kernel and the device. `grid` counts threads, or
/// threadgroups if `in_groups`.
pub(crate) fn check_launch(
    pipeline: &Pipeline,
    grid: Size,
    threadgroup: Size,
    in_groups: bool,
    bindings: &Bindings,
) -> Result<Launch, GridError> {
    let kernel = || pipeline.name().to_owned();
    for (what, size) in [("grid", grid), ("threadgroup", threadgroup)] {
        if size.0.contains(&0) {
            return Err(GridError::Empty {
                kernel: kernel(),
                what,
                size: size.to_string(),
            });
        }
    }
    let threads = threadgroup
        .0
        .iter()
        .try_fold(1usize, |all, &n| all.checked_mul(n))
        .unwrap_or(usize::MAX);
    let own = pipeline
        .0
        .kernel
        .max_threads
        .map(|n| (n as usize, "max_total_threads_per_threadgroup"));
    let device = (MAX_THREADS_PER_THREADGROUP, "the device");
    let (limit, limit_of) = own.filter(|(n, _)| *n <= device.0).unwrap_or(device);
    if threads > limit {
        let size = threadgroup.to_string();
        return Err(GridError::TooManyThreads {
            kernel: kernel(),
            size,
            threads,
            limit_of,
            limit,
        });
    }
    for (required, location) in &pipeline.0.kernel.required_simdgroups {
        // The sanitizer makes a finding of it.
        if pipeline.0.options.sanitize.is_none() && threads != *required as usize * 32 {
            let groups = threads.div_ceil(32);
            let partial = if threads.is_multiple_of(32) {
                ""
            } else {
                ", the last one partial"
            };
            return Err(GridError::SimdgroupCount {
                kernel: kernel(),
                required: *required,
                place: crate::backend::place(&pipeline.0.kernel, *location),
                size: threadgroup.to_string(),
                given: format!("{groups} SIMD-group{}{partial}", if groups == 1 { "" } else { "s" }),
            });
        }
    }
    let fixed = pipeline.static_threadgroup_memory_length();
    let dynamic = bindings
        .threadgroup
        .values()
        .fold(0u64, |all, &n| all.saturating_add(n as u64));
    let needed = fixed.saturating_add(dynamic);
    let limit = MAX_THREADGROUP_MEMORY as u64;
    if needed > limit {
        return Err(GridError::ThreadgroupMemory {
            kernel: kernel(),
            needed,
            fixed,
            dynamic,
            limit,
        });
    }
    let mut launch = Launch {
        threads: [1; 3],
        threadgroup: [1; 3],
    };
    for d in 0..3 {
        let threads = if in_groups {
            grid.0[d].checked_mul(threadgroup.0[d])
        } else {
            Some(grid.0[d])
        };
        let too_large = || GridError::TooLarge {
            kernel: kernel(),
            size: grid.to_string(),
        };
        launch.threads[d] = threads.and_then(|n| u32::try_from(n).ok()).ok_or_else(too_large)?;
        launch.threadgroup[d] = u32::try_from(threadgroup.0[d]).map_err(|_| too_large())?;
    }
    Ok(launch)
}
