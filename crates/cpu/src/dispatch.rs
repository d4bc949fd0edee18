//! A compiled kernel, and its dispatch: checks, objects, workers, and the report.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use anymetal_ir::{Access, AddressSpace, ArgumentKind, Builtin, Finding, FindingCode, Kernel, Op, Scope, Spot};

use crate::compile::lower;
use crate::compile::program::Program;
use crate::exec::objects::{Object, ObjectName, Registry};
use crate::exec::{CoopInfo, Raised, Shared, StripPlan, Work, Worker, fits};
use crate::fault::{CompileError, DispatchError, Fault, FaultKind, LaunchError};
use crate::lanes::Isa;
use crate::launch::{BoundArgument, CpuOptions, DispatchOptions, DispatchReport, Grid, Launch, TensorTable, Traffic};
use crate::memory::{DispatchLock, HostMemory};
use crate::pool::{Pool, default_workers};
use crate::sanitize::{SanitizeOptions, faults};
use crate::tile::TilePath;

/// Threads of a threadgroup at most.
pub const MAX_THREADS_PER_THREADGROUP: u32 = 1024;

/// What a kernel needs of its strips.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// Lanes talk to each other.
    lanes_meet: bool,
    /// A strip has to be a whole threadgroup.
    whole: bool,
    /// Values of the threadgroup are read.
    group_values: bool,
}

impl Needs {
    /// What the sanitizer needs: whole threadgroups, whatever the kernel does.
    const ALL: Needs = Needs {
        lanes_meet: true,
        whole: true,
        group_values: true,
    };

    fn of(kernel: &Kernel) -> Self {
        let mut needs = Needs::default();
        needs.whole |= kernel
            .memory
            .iter()
            .any(|object| object.space == AddressSpace::Threadgroup);
        needs.whole |= kernel
            .arguments
            .iter()
            .any(|argument| matches!(argument.kind, ArgumentKind::Threadgroup { .. }));
        let wide = |simdgroups: u32| simdgroups > 1;
        needs.whole |= kernel.cooperatives.iter().any(|coop| wide(coop.simdgroups));
        needs.lanes_meet |= !kernel.cooperatives.is_empty();
        kernel.body.for_each_inst(&mut |inst| match &inst.op {
            Op::Barrier { scope, .. } => {
                needs.lanes_meet = true;
                needs.whole |= *scope == Scope::Threadgroup;
            }
            Op::Group { .. } | Op::Shuffle { .. } | Op::Vote { .. } | Op::SimdgroupMatrixMultiply { .. } => {
                needs.lanes_meet = true
            }
            Op::Matmul { simdgroups, .. } | Op::Convolution { simdgroups, .. } => {
                needs.lanes_meet |= *simdgroups > 0;
                needs.whole |= wide(*simdgroups);
            }
            Op::Builtin(Builtin::ThreadgroupPositionInGrid(_) | Builtin::ThreadIndexInThreadgroup) => {
                needs.group_values = true
            }
            _ => {}
        });
        needs
    }
}

/// Hands out the units of a dispatch: to even workers from the front, to odd ones from the back, until they meet. Neighbours
/// share operands and memory: a worker then finds its own in its cache, and two workers seldom wait for each other to pack
/// the same operand.
struct Shares {
    units: u64,
    batch: u64,
    /// Units handed out, on both ends together.
    taken: AtomicU64,
    /// Units handed out at the front, and at the back.
    ends: [AtomicU64; 2],
}

impl Shares {
    fn new(units: u64, batch: u64) -> Self {
        Shares {
            units,
            batch,
            taken: AtomicU64::new(0),
            ends: Default::default(),
        }
    }

    /// The next units of a worker. What both ends hand out adds up to `units` at most, so they do not overlap.
    fn take(&self, worker: usize) -> Option<Range<u64>> {
        let before = self.taken.fetch_add(self.batch, Ordering::Relaxed);
        let count = self.batch.min(self.units.checked_sub(before).filter(|&left| left > 0)?);
        let end = self.ends[worker % 2].fetch_add(count, Ordering::Relaxed);
        Some(match worker % 2 {
            0 => end..end + count,
            _ => self.units - end - count..self.units - end,
        })
    }
}

/// A kernel compiled for this machine. Cheap to share; dispatches may run from several threads.
#[derive(Debug)]
pub struct CpuKernel {
    kernel: Arc<Kernel>,
    isa: Isa,
    tile_path: TilePath,
    needs: Needs,
    grouped: Program,
    /// For strips that span threadgroups; compiled on first use.
    dense: OnceLock<Option<Program>>,
    coops: Vec<CoopInfo>,
    sanitize: Option<SanitizeOptions>,
}

impl CpuKernel {
    /// Compiles a kernel that the verifier accepts.
    pub fn compile(kernel: Arc<Kernel>, options: &CpuOptions) -> Result<CpuKernel, CompileError> {
        let tile_path = TilePath::current().map_err(|error| CompileError::Unsupported {
            what: error.to_string(),
            location: kernel.name.clone(),
        })?;
        Self::compile_for(kernel, options, tile_path)
    }

    /// Compiles with a tile path of the caller's choice, which the machine must have.
    pub fn compile_for(
        kernel: Arc<Kernel>,
        options: &CpuOptions,
        tile_path: TilePath,
    ) -> Result<CpuKernel, CompileError> {
        let isa = if options.portable_lanes {
            Isa::Portable
        } else {
            Isa::for_path(tile_path)
        };
        crate::limits::check(&kernel)?;
        let grouped = lower(&kernel, isa, false, options.sanitize.is_some())?;
        Ok(CpuKernel {
            isa,
            tile_path,
            needs: if options.sanitize.is_some() {
                Needs::ALL
            } else {
                Needs::of(&kernel)
            },
            grouped,
            dense: OnceLock::new(),
            coops: kernel
                .cooperatives
                .iter()
                .map(|coop| CoopInfo::new(coop.clone()))
                .collect(),
            sanitize: options.sanitize.clone(),
            kernel,
        })
    }

    /// The kernel that this was compiled from.
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// The instruction set of tile products.
    pub fn tile_path(&self) -> TilePath {
        self.tile_path
    }

    /// Threads that a threadgroup may have at most.
    pub fn max_threads_per_threadgroup(&self) -> u32 {
        self.kernel
            .max_threads
            .unwrap_or(MAX_THREADS_PER_THREADGROUP)
            .min(MAX_THREADS_PER_THREADGROUP)
    }

    /// Runs the kernel over a grid and waits for it. The memories of all arguments and of `tensors` are locked meanwhile.
    pub fn dispatch(
        &self,
        arguments: &[BoundArgument],
        launch: &Launch,
        options: &DispatchOptions,
        tensors: &dyn TensorTable,
    ) -> Result<DispatchReport, DispatchError> {
        let launch_error = |error| DispatchError::Launch {
            kernel: self.kernel.name.clone(),
            error,
        };
        let mut plan = match self.plan(launch) {
            Err(error @ LaunchError::SimdgroupCount { .. }) if self.sanitize.is_some() => {
                return Ok(self.refused_scope(&error));
            }
            plan => plan.map_err(launch_error)?,
        };
        let group_bytes = self.check(arguments, options).map_err(launch_error)?;
        let program = self.program(&mut plan);
        // The bytes of small constants live here for the length of the dispatch.
        let mut copies: Vec<Option<HostMemory>> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            copies.push(match argument {
                BoundArgument::Bytes(bytes) => Some(
                    HostMemory::from_bytes(bytes)
                        .map_err(|_| launch_error(LaunchError::OutOfMemory { bytes: bytes.len() }))?,
                ),
                _ => None,
            });
        }
        let others = tensors.memories();
        let bound = self.memories(arguments, &others);
        let aliased = aliases(&self.kernel, arguments, &others);
        let _lock = DispatchLock::acquire(bound.iter().map(|(memory, writes)| (*memory, *writes)))
            .map_err(|error| launch_error(LaunchError::Memory(error)))?;
        let (objects, registry, handles) = self.objects(arguments, &copies);
        let shared = Shared {
            kernel: &self.kernel,
            options,
            first_registered: objects.len(),
            objects,
            registry: RwLock::new(registry),
            table: tensors,
            stopped: AtomicBool::new(false),
            panels: Default::default(),
            locked: bound.iter().map(|(memory, writes)| (memory.id(), *writes)).collect(),
            aliased,
            plan,
            isa: self.isa,
            tile_path: self.tile_path,
            coops: &self.coops,
            sanitize: self.sanitize.as_ref(),
        };
        self.run(&shared, program, &handles, &group_bytes)
    }

    fn run(
        &self,
        shared: &Shared<'_>,
        program: &Program,
        handles: &[u64],
        group_bytes: &[u64],
    ) -> Result<DispatchReport, DispatchError> {
        let options = shared.options;
        let units = shared.plan.units();
        let workers = if options.deterministic || self.sanitize.is_some() {
            1
        } else {
            options.threads.unwrap_or_else(default_workers).max(1)
        };
        let workers = workers.min(usize::try_from(units).unwrap_or(usize::MAX)).max(1);
        // A few units at a time where there are many.
        let shares = Shares::new(units, (units / (workers as u64 * 16)).clamp(1, 64));
        let fault: Mutex<Option<Box<Fault>>> = Mutex::new(None);
        let traffic = Mutex::new(Traffic::default());
        let taking_part = AtomicU64::new(0);
        let findings: Mutex<Vec<Finding>> = Mutex::new(Vec::new());
        let keep = |found: Vec<Finding>| findings.lock().unwrap_or_else(|e| e.into_inner()).extend(found);
        let task = |number: usize| {
            let result = Worker::with(shared, program, handles, group_bytes, |worker| {
                let mut worked = false;
                while let Some(share) = shares.take(number) {
                    if shared.stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    worked = true;
                    for unit in share {
                        if let Err(raised) = worker.run_unit(Work(unit)) {
                            shared.stopped.store(true, Ordering::Relaxed);
                            if self.sanitize.is_some() {
                                keep(worker.findings());
                                let thread = worker.position(raised.lane);
                                let (kernel, places) = (&self.kernel.name, &self.kernel.locations);
                                keep(vec![faults::finding(
                                    kernel,
                                    places,
                                    &raised.kind,
                                    raised.location,
                                    &thread,
                                )]);
                            } else if raised.kind != FaultKind::Stopped {
                                let found = self.fault(*raised, worker);
                                let mut fault = fault.lock().unwrap_or_else(|e| e.into_inner());
                                fault.get_or_insert(found);
                            }
                            return worked;
                        }
                    }
                }
                if self.sanitize.is_some() {
                    keep(worker.findings());
                }
                if let Some(counted) = worker.counted() {
                    *traffic.lock().unwrap_or_else(|e| e.into_inner()) += counted;
                }
                worked
            });
            taking_part.fetch_add(u64::from(result), Ordering::Relaxed);
        };
        Pool::get().run(workers, &task);
        if let Some(fault) = fault.into_inner().unwrap_or_else(|e| e.into_inner()) {
            return Err(DispatchError::Fault(fault));
        }
        Ok(DispatchReport {
            traffic: options
                .traffic
                .then(|| traffic.into_inner().unwrap_or_else(|e| e.into_inner())),
            workers: taking_part.into_inner() as usize,
            threadgroups: shared.plan.threadgroups(),
            findings: findings.into_inner().unwrap_or_else(|e| e.into_inner()),
        })
    }

    /// The report of a dispatch that a scope does not fit, for the sanitizer. Nothing has run.
    fn refused_scope(&self, error: &LaunchError) -> DispatchReport {
        let LaunchError::SimdgroupCount {
            required,
            given,
            threads,
            ..
        } = error
        else {
            return DispatchReport::default();
        };
        let place = self
            .kernel
            .required_simdgroups
            .iter()
            .find(|(count, _)| count == required);
        let location = place.map(|&(_, location)| location).unwrap_or_default();
        let finding = Finding {
            code: FindingCode::SimdgroupCount,
            kernel: self.kernel.name.clone(),
            message: format!(
                "an operation of scope execution_simdgroups<{required}> needs threadgroups of exactly {required} SIMD-groups \
                 ({} threads), but is dispatched with {threads} threads, which makes {given}{}",
                required * 32,
                if given == required {
                    ", not all of them whole"
                } else {
                    ""
                }
            ),
            spot: Spot::new(
                &self.kernel.locations,
                location,
                format!("needs exactly {required} SIMD-groups"),
            ),
            related: Vec::new(),
            notes: vec!["the dispatch was not run".to_string()],
            help: format!(
                "dispatch {} threads a threadgroup, in a grid of whole threadgroups",
                required * 32
            ),
            count: 1,
        };
        DispatchReport {
            findings: vec![finding],
            ..DispatchReport::default()
        }
    }

    fn fault(&self, raised: Raised, worker: &Worker<'_>) -> Box<Fault> {
        Box::new(Fault {
            kernel: self.kernel.name.clone(),
            locations: self.kernel.locations.chain(raised.location),
            kind: raised.kind,
            thread: worker.position(raised.lane),
        })
    }

    /// The program for a cut, and the cut's size of strips.
    fn program(&self, plan: &mut StripPlan) -> &Program {
        let group: u32 = plan.group.iter().product();
        let may_be_dense = !self.needs.lanes_meet && !self.needs.whole;
        if may_be_dense && (group < 128 || !self.needs.group_values) {
            let dense = self
                .dense
                .get_or_init(|| lower(&self.kernel, self.isa, true, false).ok());
            if let Some(program) = dense {
                plan.dense = true;
                plan.cap = StripPlan::STRIP;
                return program;
            }
        }
        plan.whole = self.needs.whole;
        let most = if plan.whole {
            group as usize
        } else {
            (group as usize).min(StripPlan::STRIP)
        };
        plan.cap = most.next_multiple_of(32);
        &self.grouped
    }

    /// Checks the shape of a launch.
    fn plan(&self, launch: &Launch) -> Result<StripPlan, LaunchError> {
        let group = launch.threads_per_threadgroup;
        if group.contains(&0) {
            return Err(LaunchError::EmptySize {
                what: "threadgroup",
                size: group,
            });
        }
        let threads = group.iter().map(|&n| u64::from(n)).product::<u64>();
        let limit = self.max_threads_per_threadgroup();
        if threads > u64::from(limit) {
            return Err(LaunchError::TooManyThreads { threads, limit });
        }
        let (grid, groups) = match launch.grid {
            Grid::Threads(grid) => (grid, std::array::from_fn(|d| grid[d].div_ceil(group[d]))),
            Grid::Threadgroups(groups) => {
                let mut grid = [0; 3];
                for d in 0..3 {
                    let threads = u64::from(groups[d]) * u64::from(group[d]);
                    grid[d] =
                        u32::try_from(threads).map_err(|_| LaunchError::GridTooLarge { dimension: d, threads })?;
                }
                (grid, groups)
            }
        };
        if grid.contains(&0) {
            return Err(LaunchError::EmptySize {
                what: "grid",
                size: grid,
            });
        }
        // Units of work are counted in 64 bits.
        let total: u128 = grid.iter().map(|&n| u128::from(n)).product();
        if total >= 1 << 63 {
            return Err(LaunchError::TooManyInAll { grid });
        }
        for &(required, location) in &self.kernel.required_simdgroups {
            let given = (threads as u32).div_ceil(32);
            // A partial threadgroup at the edge lacks SIMD-groups too.
            let partial = (0..3).any(|d| !grid[d].is_multiple_of(group[d]));
            if given != required || !threads.is_multiple_of(32) || partial {
                return Err(LaunchError::SimdgroupCount {
                    required,
                    given,
                    threads: threads as u32,
                    location: self.kernel.locations.describe(location),
                });
            }
        }
        Ok(StripPlan {
            grid,
            group,
            groups,
            dense: false,
            whole: false,
            cap: 32,
        })
    }

    /// Checks the arguments; the length of each threadgroup argument.
    fn check(&self, arguments: &[BoundArgument], options: &DispatchOptions) -> Result<Vec<u64>, LaunchError> {
        let expected = self.kernel.arguments.len();
        if arguments.len() != expected {
            return Err(LaunchError::ArgumentCount {
                expected,
                given: arguments.len(),
            });
        }
        let mut lengths = vec![0u64; expected];
        let mut dynamic = 0u64;
        for (at, (argument, bound)) in self.kernel.arguments.iter().zip(arguments).enumerate() {
            let name = || argument.name.clone();
            let index = argument.index;
            let wrong = |expected| LaunchError::WrongKind {
                name: name(),
                index,
                expected,
                given: bound.kind(),
            };
            if let BoundArgument::Unbound = bound {
                if argument.access == Access::Unused {
                    continue;
                }
                return Err(LaunchError::Unbound { name: name(), index });
            }
            match &argument.kind {
                ArgumentKind::Buffer {
                    type_name,
                    size,
                    align,
                    reference,
                    space,
                    ..
                } => {
                    let given = match bound {
                        BoundArgument::Buffer { memory, offset, length } => {
                            let end = match length {
                                Some(length) => offset.saturating_add(*length),
                                None => memory.len().max(*offset),
                            };
                            if *offset > memory.len() || end > memory.len() {
                                return Err(LaunchError::BindingOutOfRange {
                                    name: name(),
                                    index,
                                    offset: *offset,
                                    end,
                                    length: memory.len(),
                                });
                            }
                            if !offset.is_multiple_of((*align).max(1) as usize) {
                                return Err(LaunchError::BindingMisaligned {
                                    name: name(),
                                    index,
                                    offset: *offset,
                                    align: *align,
                                    type_name: type_name.clone(),
                                });
                            }
                            let writes = *space == AddressSpace::Device
                                && matches!(argument.access, Access::WriteOnly | Access::ReadWrite);
                            if writes && !memory.is_writable() {
                                return Err(LaunchError::ReadOnlyMemory { name: name(), index });
                            }
                            end - offset
                        }
                        BoundArgument::Bytes(bytes) => bytes.len(),
                        _ => return Err(wrong("a buffer")),
                    };
                    if *reference && given < *size as usize {
                        return Err(LaunchError::BindingTooSmall {
                            name: name(),
                            index,
                            type_name: type_name.clone(),
                            size: *size,
                            given,
                        });
                    }
                }
                ArgumentKind::Tensor(spec) => match bound {
                    BoundArgument::Tensor(binding) => {
                        if let Err(mismatch) = fits(binding, spec) {
                            return Err(LaunchError::Tensor {
                                name: name(),
                                index,
                                mismatch,
                            });
                        }
                        let writes = matches!(argument.access, Access::WriteOnly | Access::ReadWrite);
                        if writes && !binding.memory.is_writable() {
                            return Err(LaunchError::ReadOnlyMemory { name: name(), index });
                        }
                    }
                    BoundArgument::NullTensor => {}
                    _ => return Err(wrong("a tensor")),
                },
                ArgumentKind::Threadgroup { align, .. } => match bound {
                    BoundArgument::Threadgroup(bytes) => {
                        lengths[at] = *bytes as u64;
                        dynamic = dynamic.next_multiple_of(u64::from((*align).max(1))) + *bytes as u64;
                    }
                    _ => return Err(wrong("threadgroup memory")),
                },
            }
        }
        let fixed = self.kernel.static_threadgroup_bytes();
        let limit = options.threadgroup_memory_limit;
        if fixed + dynamic > limit {
            return Err(LaunchError::ThreadgroupMemory {
                bytes: fixed + dynamic,
                fixed,
                dynamic,
                limit,
            });
        }
        Ok(lengths)
    }

    /// Every memory that the dispatch reaches, and whether it may write there.
    fn memories<'a>(
        &self,
        arguments: &'a [BoundArgument],
        others: &'a [(HostMemory, bool)],
    ) -> Vec<(&'a HostMemory, bool)> {
        let mut out: Vec<(&HostMemory, bool)> = Vec::new();
        for (argument, bound) in self.kernel.arguments.iter().zip(arguments) {
            let writes = matches!(argument.access, Access::WriteOnly | Access::ReadWrite);
            let device = match &argument.kind {
                ArgumentKind::Buffer { space, .. } => *space == AddressSpace::Device,
                _ => true,
            };
            match bound {
                BoundArgument::Buffer { memory, .. } => {
                    out.push((memory, writes && device && memory.is_writable()));
                }
                BoundArgument::Tensor(binding) => {
                    out.push((&binding.memory, writes && binding.memory.is_writable()));
                    if let Some(plane) = &binding.scales {
                        out.push((&plane.memory, false));
                    }
                }
                _ => {}
            }
        }
        out.extend(
            others
                .iter()
                .map(|(memory, writes)| (memory, *writes && memory.is_writable())),
        );
        out
    }

    /// Objects of arguments and memory, tensors of arguments, and the handle of each argument.
    fn objects(
        &self,
        arguments: &[BoundArgument],
        copies: &[Option<HostMemory>],
    ) -> (Vec<(Object, ObjectName)>, Registry, Vec<u64>) {
        let kernel = &self.kernel;
        let first_registered = 1 + kernel.arguments.len() + kernel.memory.len();
        let mut objects = Vec::with_capacity(first_registered);
        let unnamed = |name: &str, space, element_size| ObjectName {
            name: name.to_string(),
            space,
            element_size,
        };
        objects.push((Object::NULL, unnamed("null", AddressSpace::Device, 1)));
        let mut registry = Registry::default();
        let mut handles = vec![0; arguments.len()];
        for (at, (argument, bound)) in kernel.arguments.iter().zip(arguments).enumerate() {
            let (space, element_size) = match &argument.kind {
                ArgumentKind::Buffer {
                    space, element_size, ..
                } => (*space, *element_size),
                ArgumentKind::Tensor(spec) => (spec.space, 1),
                ArgumentKind::Threadgroup { size, .. } => (AddressSpace::Threadgroup, *size),
            };
            // What a kernel was found not to write is locked for reading only, so a write there has to be refused.
            let writes =
                matches!(argument.access, Access::WriteOnly | Access::ReadWrite) && space == AddressSpace::Device;
            let object = match bound {
                BoundArgument::Buffer { memory, offset, length } => {
                    let length = length.unwrap_or(memory.len() - offset) as u64;
                    Object {
                        // SAFETY: `check` found the offset inside the memory.
                        ptr: unsafe { memory.as_ptr().add(*offset) },
                        length,
                        writable: writes && memory.is_writable(),
                        streams: writes && argument.access == Access::WriteOnly && length >= crate::exec::stream::LARGE,
                        ..Object::NULL
                    }
                }
                BoundArgument::Bytes(_) => match &copies[at] {
                    Some(memory) => Object {
                        ptr: memory.as_ptr(),
                        length: memory.len() as u64,
                        ..Object::NULL
                    },
                    None => Object::NULL,
                },
                BoundArgument::Tensor(binding) => {
                    let mut binding = (**binding).clone();
                    // A handle of this dispatch alone, unless the host gave one.
                    if binding.handle == 0 {
                        binding.handle = (1 << 63) | (at as u64 + 1);
                    }
                    if binding.name.is_empty() {
                        binding.name.clone_from(&argument.name);
                    }
                    handles[at] = binding.handle;
                    if !registry.by_handle.contains_key(&binding.handle) {
                        registry.add(first_registered, binding, writes);
                    } else if writes {
                        let index = registry.by_handle[&binding.handle];
                        let number = (registry.tensors[index].pointer >> 48) as usize;
                        let object = &mut registry.objects[number - first_registered].0;
                        object.writable = binding.memory.is_writable();
                    }
                    Object::NULL
                }
                _ => Object::NULL,
            };
            objects.push((object, unnamed(&argument.name, space, element_size)));
        }
        for memory in &kernel.memory {
            let object = match memory.space {
                AddressSpace::Constant => Object {
                    ptr: memory.data.as_ptr().cast_mut(),
                    length: memory.data.len() as u64,
                    ..Object::NULL
                },
                _ => Object::NULL,
            };
            objects.push((object, unnamed(&memory.name, memory.space, memory.element_size)));
        }
        (objects, registry, handles)
    }
}

/// True if memory that the dispatch writes is bound a second time.
fn aliases(kernel: &Kernel, arguments: &[BoundArgument], others: &[(HostMemory, bool)]) -> bool {
    let mut ranges: Vec<(u64, usize, usize, bool)> = Vec::new();
    for (argument, bound) in kernel.arguments.iter().zip(arguments) {
        let writes = matches!(argument.access, Access::WriteOnly | Access::ReadWrite);
        match bound {
            BoundArgument::Buffer { memory, offset, length } => {
                let end = length.map_or(memory.len(), |length| offset + length);
                ranges.push((memory.id(), *offset, end, writes));
            }
            BoundArgument::Tensor(binding) => {
                // Strides may reach anywhere in the memory.
                ranges.push((binding.memory.id(), 0, binding.memory.len(), writes));
                if let Some(plane) = &binding.scales
                    && !plane.memory.same_as(&binding.memory)
                {
                    ranges.push((plane.memory.id(), 0, plane.memory.len(), false));
                }
            }
            _ => {}
        }
    }
    ranges.extend(
        others
            .iter()
            .map(|(memory, writes)| (memory.id(), 0, memory.len(), *writes)),
    );
    ranges.iter().enumerate().any(|(i, a)| {
        ranges[i + 1..]
            .iter()
            .any(|b| a.0 == b.0 && (a.3 || b.3) && a.1 < b.2 && b.1 < a.2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_unit_once() {
        for (units, batch) in [(0, 1), (1, 1), (7, 3), (64, 1), (1000, 64)] {
            let shares = Shares::new(units, batch);
            let mut seen = vec![0; units as usize];
            // Workers of uneven speed.
            let mut turns = [0, 1, 0, 0, 2, 3, 1].into_iter().cycle();
            while let Some(share) = shares.take(turns.next().unwrap()) {
                share.for_each(|unit| seen[unit as usize] += 1);
            }
            assert!(seen.iter().all(|&times| times == 1), "{units} units, {batch} at a time");
            assert!((0..4).all(|worker| shares.take(worker).is_none()));
        }
    }
}
