//! A kernel on a device: compiled, loaded when it first runs, and dispatched.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use anymetal_ir::Kernel;
use anymetal_ir::fault::Fault;

use crate::abi::{FaultRecord, ParameterBlock};
use crate::driver::cache::Cache;
use crate::driver::context::Context;
use crate::driver::error::DriverError;
use crate::driver::fault;
use crate::driver::graph::Recorder;
use crate::driver::images::Images;
use crate::driver::memory::DeviceMemory;
use crate::driver::module::{Function, LaunchShape, Stream};
use crate::driver::parameters::{
    BoundArgument, BoundTensor, Extras, Launch, aliased, block, handle_table, has_values, memory_of, needs_handles,
    place_threadgroup, written,
};
use crate::options::Gains;
use crate::{CompileError, PtxModule, PtxOptions, Target};

/// Bytes between the fault records of a list of dispatches.
pub const FAULT_STRIDE: usize = 128;

const _: () = assert!(FaultRecord::LENGTH as usize <= FAULT_STRIDE);

/// Why a dispatch cannot start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// Another number of arguments than the kernel has.
    #[error("the kernel takes {expected} arguments, {given} were bound")]
    ArgumentCount {
        /// How many the kernel has.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A tensor where a buffer is wanted, or the like.
    #[error("what is bound to '{name}' at index {index} is of another kind than the kernel declares")]
    WrongKind {
        /// Parameter name.
        name: String,
        /// Its index.
        index: u32,
    },
    /// A tensor of another rank.
    #[error("the tensor bound to '{name}' has rank {given}, the kernel declares {expected}")]
    Rank {
        /// Parameter name.
        name: String,
        /// In the kernel.
        expected: usize,
        /// Bound.
        given: usize,
    },
    /// More threads in a threadgroup than the compiled kernel can have.
    #[error("{threads} threads in a threadgroup; {limit} are possible for this kernel on this device")]
    TooManyThreads {
        /// Threads asked for.
        threads: u32,
        /// The limit.
        limit: u32,
    },
    /// More threadgroups in the second or third dimension than the device can launch.
    #[error(
        "the grid has {groups} threadgroups in dimension {dimension}; a CUDA device takes 65535 there (2147483647 in dimension 0)"
    )]
    TooManyGroups {
        /// 0, 1 or 2.
        dimension: usize,
        /// Threadgroups there.
        groups: u32,
    },
    /// More shared memory than the device has.
    #[error(
        "the dispatch needs {needed} bytes of shared memory for each threadgroup (the kernel's threadgroup memory, and what its \
         products are staged in); {device} has {available}"
    )]
    SharedMemory {
        /// All of it.
        needed: u64,
        /// What there is.
        available: u32,
        /// The device's name.
        device: String,
    },
    /// The threadgroup does not have the SIMD-groups that an `execution_simdgroups<N>` operation wants.
    #[error(
        "{location}: the operation runs on execution_simdgroups<{required}>, but the grid of {} has threadgroups of {}, and not \
         all of them are whole; dispatch whole threadgroups of {} threads", show(threads), show(threadgroup), required * 32
    )]
    SimdgroupCount {
        /// N.
        required: u32,
        /// Threads of the grid.
        threads: [u32; 3],
        /// Threads of a threadgroup.
        threadgroup: [u32; 3],
        /// Where the operation is.
        location: String,
    },
}

fn show(size: &[u32; 3]) -> String {
    format!("({}, {}, {})", size[0], size[1], size[2])
}

/// Why a kernel cannot be compiled, launched, or run to its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CudaError {
    /// The backend cannot express it.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The dispatch does not fit.
    #[error("cannot launch kernel '{kernel}': {error}")]
    Launch {
        /// Host name of the kernel.
        kernel: String,
        /// Why.
        error: LaunchError,
    },
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The kernel did something wrong.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

/// How a kernel is compiled for a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CudaOptions {
    /// Every access is checked; the first fault ends in an error.
    pub checked: bool,
    /// Layout compatibility queries answer false.
    pub force_incompatible: bool,
    /// Going past a static extent is no fault in checked mode.
    pub static_overhang_zero: bool,
}

/// A kernel for a device.
pub struct CudaKernel {
    kernel: Arc<Kernel>,
    context: Arc<Context>,
    options: CudaOptions,
    needs_handles: bool,
    /// What its code depends on.
    gains: Gains,
    /// PTX by what it is made for; each made when it is first needed.
    variants: Mutex<HashMap<Purpose, Result<Arc<Variant>, CompileError>>>,
    /// What ran last.
    last: Mutex<Option<Arc<Variant>>>,
}

/// What a variant of a kernel is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Purpose {
    /// Arguments do not overlap.
    unaliased: bool,
    /// As [`PtxOptions::values`].
    values: bool,
    /// As [`PtxOptions::threads`].
    threads: u32,
    /// As [`PtxOptions::whole`].
    whole: bool,
    /// As [`PtxOptions::shape`].
    shape: Option<[u32; 3]>,
}

impl Purpose {
    /// What is compiled first.
    fn usual() -> Self {
        Purpose {
            unaliased: true,
            values: true,
            threads: PtxOptions::thread_class(0),
            whole: false,
            shape: None,
        }
    }

    /// Of a launch.
    fn of(launch: &Launch, unaliased: bool, values: bool, gains: Gains) -> Self {
        let options = PtxOptions::default().with_launch(gains, launch.threads, launch.threadgroup);
        Purpose {
            unaliased,
            values,
            threads: options.threads,
            whole: options.whole,
            shape: options.shape,
        }
    }
}

struct Variant {
    module: PtxModule,
    function: OnceLock<Result<Arc<Function>, DriverError>>,
}

/// A dispatch, ready to be put on a stream.
pub struct Prepared {
    function: Arc<Function>,
    shape: LaunchShape,
    parameters: Vec<u8>,
    images: Option<Images>,
    /// As [`PtxModule::waits`].
    waits: bool,
    /// What it reads before it waits.
    early_reads: Vec<Range<u64>>,
    writes: Vec<Range<u64>>,
    /// Tables and workspace that the launch names.
    _keep: Vec<DeviceMemory>,
}

impl CudaKernel {
    /// Compiles a kernel that the verifier accepts to PTX. The driver assembles it when it first runs.
    pub fn compile(
        kernel: Arc<Kernel>,
        context: &Arc<Context>,
        options: &CudaOptions,
    ) -> Result<CudaKernel, CompileError> {
        let compiled = CudaKernel {
            needs_handles: needs_handles(&kernel),
            gains: Gains::of(&kernel),
            kernel,
            context: context.clone(),
            options: *options,
            variants: Mutex::default(),
            last: Mutex::default(),
        };
        compiled.variant(Purpose::usual())?;
        Ok(compiled)
    }

    /// The kernel that this was compiled from.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// The device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// True if faults are looked for.
    pub fn is_checked(&self) -> bool {
        self.options.checked
    }

    /// The target that its PTX is for.
    pub fn target(&self) -> Target {
        let sm = self.context.properties().sm;
        Target::of_capability(sm / 10, sm % 10)
    }

    /// Registers and bytes of local memory of a thread, as assembled for this device: in the form that ran last, or that small
    /// threadgroups would run.
    pub fn resources(&self) -> Result<(u32, u32), CudaError> {
        let last = self.last.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let variant = match last {
            Some(variant) => variant,
            None => self.variant(Purpose::usual())?,
        };
        let function = self.function(&variant)?;
        Ok((function.registers(), function.local_bytes()))
    }

    fn variant(&self, purpose: Purpose) -> Result<Arc<Variant>, CompileError> {
        let mut variants = self.variants.lock().unwrap_or_else(|e| e.into_inner());
        let made = variants.entry(purpose).or_insert_with(|| {
            let options = PtxOptions {
                target: self.target(),
                checked: self.options.checked,
                force_incompatible: self.options.force_incompatible,
                static_overhang_zero: self.options.static_overhang_zero,
                unaliased: purpose.unaliased,
                values: purpose.values,
                threads: purpose.threads,
                whole: purpose.whole,
                shape: purpose.shape,
            };
            let module = crate::compile(&self.kernel, &options)?;
            Ok(Arc::new(Variant {
                module,
                function: OnceLock::new(),
            }))
        });
        made.clone()
    }

    fn function(&self, variant: &Variant) -> Result<Arc<Function>, DriverError> {
        let loaded = variant.function.get_or_init(|| {
            let (module, cache) = (&variant.module, Cache::open());
            let (text, entry) = (&module.text, &module.entry);
            Function::load(&self.context, text, entry, &self.kernel.name, cache.as_ref()).map(Arc::new)
        });
        loaded.clone()
    }

    /// Checks a dispatch and lays out its parameters. `handles` are the tensors that the kernel may find by handle beside its own
    /// arguments. `fault` is the address of its fault record, which is zero before the launch, or 0.
    pub fn prepare(
        &self,
        bound: &[BoundArgument],
        handles: &[BoundTensor],
        launch: &Launch,
        fault: u64,
    ) -> Result<Prepared, CudaError> {
        let refuse = |error| CudaError::Launch {
            kernel: self.kernel.name.clone(),
            error,
        };
        let overlap = aliased(&self.kernel, bound, handles);
        let values = has_values(&self.kernel, &ParameterBlock::of(&self.kernel), bound);
        let purpose = Purpose::of(launch, !overlap, values, self.gains);
        let variant = self.variant(purpose)?;
        let module = &variant.module;
        let coarse_shift = launch.coarse_shift(module.coarse_shift);
        let shape = self.shape(module, bound, launch, coarse_shift).map_err(refuse)?;
        let mut keep = Vec::new();
        let mut extras = Extras {
            fault,
            coarse_shift,
            ..Extras::default()
        };
        if self.needs_handles {
            let own = bound.iter().filter_map(|bound| match bound {
                BoundArgument::Tensor(tensor) => Some(&**tensor),
                _ => None,
            });
            let all: Vec<&BoundTensor> = own.chain(handles).collect();
            let memory = self.context.allocate(all.len() * crate::abi::HANDLE_ENTRY as usize)?;
            memory.upload(0, &handle_table(&all))?;
            extras.handles = (memory.address(), all.len() as u32);
            keep.push(memory);
        }
        if module.workspace_bytes > 0 {
            let blocks = shape.0.grid.iter().map(|&n| n as usize).product::<usize>();
            let memory = self
                .context
                .allocate(blocks.saturating_mul(module.workspace_bytes as usize))?;
            extras.workspace = memory.address();
            keep.push(memory);
        }
        let images = Images::lend(&self.context, &module.images, bound, shape.0.grid);
        if let Some(images) = &images {
            extras.images.clone_from(&images.places);
        }
        let layout: &ParameterBlock = &module.parameters;
        let parameters = block(&self.kernel, layout, launch, bound, &shape.1, &extras).map_err(refuse)?;
        let early_reads = module.early_reads.iter().map(|id| id.index());
        let early_reads = early_reads.filter_map(|at| bound.get(at)).flat_map(memory_of).collect();
        let waits = module.waits;
        let function = self.function(&variant)?;
        *self.last.lock().unwrap_or_else(|e| e.into_inner()) = Some(variant);
        Ok(Prepared {
            function,
            shape: shape.0,
            parameters,
            images,
            waits,
            early_reads,
            writes: written(&self.kernel, bound, handles),
            _keep: keep,
        })
    }

    /// The launch's shape, and the places of threadgroup arguments.
    fn shape(
        &self,
        module: &PtxModule,
        bound: &[BoundArgument],
        launch: &Launch,
        coarse_shift: u32,
    ) -> Result<(LaunchShape, Vec<u32>), LaunchError> {
        let properties = self.context.properties();
        let threads = launch.threads_of_group();
        let block = threads.next_multiple_of(32) + module.hidden_threads;
        let limit = properties
            .max_threads
            .min(module.max_threads.max(32) + module.hidden_threads);
        if block > limit.next_multiple_of(32) {
            return Err(LaunchError::TooManyThreads {
                threads,
                limit: limit.saturating_sub(module.hidden_threads),
            });
        }
        let groups = launch.coarse(coarse_shift).threadgroups();
        let most = [i32::MAX as u32, 65535, 65535];
        if let Some(dimension) = (0..3).find(|&d| groups[d] > most[d]) {
            return Err(LaunchError::TooManyGroups {
                dimension,
                groups: groups[dimension],
            });
        }
        let partial = (0..3).any(|d| !launch.threads[d].is_multiple_of(launch.threadgroup[d]));
        for &(required, location) in &self.kernel.required_simdgroups {
            if threads != required * 32 || partial {
                return Err(LaunchError::SimdgroupCount {
                    required,
                    threads: launch.threads,
                    threadgroup: launch.threadgroup,
                    location: self.kernel.locations.describe(location),
                });
            }
        }
        let (places, end) = place_threadgroup(&self.kernel, bound, module.shared_bytes);
        if end > u64::from(properties.shared_per_block) {
            return Err(LaunchError::SharedMemory {
                needed: end,
                available: properties.shared_per_block,
                device: properties.name.clone(),
            });
        }
        let shape = LaunchShape {
            grid: groups,
            block: [block, 1, 1],
            shared_bytes: end as u32,
            cluster: [1; 3],
            early: false,
        };
        Ok((shape, places))
    }

    /// The fault in a record that came back from a dispatch, if there is one.
    pub fn fault(&self, record: &[u8], launch: &Launch, handles: &[BoundTensor]) -> Option<Box<Fault>> {
        fault::read(&self.kernel, record, launch, handles)
    }
}

impl Prepared {
    /// Puts it on the device's stream.
    pub fn launch(&self) -> Result<(), DriverError> {
        if let Some(images) = &self.images {
            images.clear(Stream(self.function.context().stream()))?;
        }
        self.function.launch(&self.shape, &self.parameters)
    }

    /// Records it into a graph, which it has to outlive, behind `previous`.
    pub(crate) fn record(&self, recorder: &Recorder, previous: Option<&Prepared>) -> Result<(), DriverError> {
        if let Some(images) = &self.images {
            images.clear(recorder.stream())?;
        }
        let shape = LaunchShape {
            early: previous.is_some_and(|previous| self.may_begin_beside(previous)),
            ..self.shape
        };
        recorder.launch(&self.function, &shape, &self.parameters)
    }

    /// True if the launch in front of it may still be running when this one begins.
    fn may_begin_beside(&self, previous: &Prepared) -> bool {
        let overlaps = |read: &Range<u64>| {
            let mut writes = previous.writes.iter();
            writes.any(|written| read.start < written.end && written.start < read.end)
        };
        // What clears flags lies between the two.
        self.waits && previous.waits && self.images.is_none() && !self.early_reads.iter().any(overlaps)
    }
}

impl std::fmt::Debug for CudaKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaKernel({} for {})", self.kernel.name, self.target())
    }
}
