//! Queues, encoders and reports: how dispatches are bound, run and told about.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::Pod;

use crate::backend::{self, Dispatch, Pending, Recorded};
use crate::binding::{Binding, Bindings, check_bindings, check_launch};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{BindingError, Error, Result};
use crate::pipeline::Pipeline;
use crate::tensor::Tensor;

/// Width, height and depth of a grid or threadgroup (`MTLSize`). Made from a number or an array of one to three.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Size(pub [usize; 3]);

impl From<usize> for Size {
    fn from(width: usize) -> Self {
        Size([width, 1, 1])
    }
}

impl From<[usize; 1]> for Size {
    fn from([width]: [usize; 1]) -> Self {
        Size([width, 1, 1])
    }
}

impl From<[usize; 2]> for Size {
    fn from([width, height]: [usize; 2]) -> Self {
        Size([width, height, 1])
    }
}

impl From<[usize; 3]> for Size {
    fn from(size: [usize; 3]) -> Self {
        Size(size)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [width, height, depth] = self.0;
        write!(f, "({width}, {height}, {depth})")
    }
}

/// Runs dispatches of one device in the order they are committed (`MTLCommandQueue`). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Queue {
    device: Device,
}

impl Queue {
    pub(crate) fn new(device: Device) -> Self {
        Self { device }
    }

    /// The device it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Starts a list of dispatches.
    pub fn encoder(&self) -> CommandEncoder {
        CommandEncoder {
            device: self.device.clone(),
            pipeline: None,
            bindings: Bindings::default(),
            resources: Arc::default(),
            dispatches: Vec::new(),
        }
    }
}

/// Collects dispatches and runs them in order (`MTLComputeCommandEncoder` and its command buffer in one).
///
/// Set a pipeline, bind its arguments by their Metal indices, dispatch; as often as needed; then [`run`](Self::run). Every
/// dispatch is checked when it is encoded: a missing, superfluous or unfitting argument, a grid or a threadgroup that
/// cannot be launched is an error there, and nothing has run yet. Each dispatch sees what the one before it wrote.
///
/// Bindings stay for the next dispatch of the same pipeline. Unlike in Metal, setting a pipeline clears them, so that
/// something bound by mistake is noticed.
///
/// ```
/// use anymetal::{CompileOptions, Device};
///
/// let source = "
///     kernel void scale(device float *x [[buffer(0)]], constant float &by [[buffer(1)]],
///                       uint i [[thread_position_in_grid]]) { x[i] *= by; }";
/// let device = Device::cpu();
/// let library = device.new_library(source, "scale.metal", &CompileOptions::default())?;
/// let pipeline = library.pipeline("scale")?;
/// let x = device.new_buffer_with_slice(&[1.0f32, 2.0, 3.0])?;
///
/// let mut encoder = device.new_queue().encoder();
/// encoder.set_pipeline(&pipeline).set_buffer(0, &x, 0).set_value(1, &10.0f32)?;
/// encoder.dispatch_threads(3, 32)?;
/// encoder.run()?;
/// assert_eq!(x.to_vec::<f32>()?, [10.0, 20.0, 30.0]);
/// # Ok::<(), anymetal::Error>(())
/// ```
pub struct CommandEncoder {
    device: Device,
    pipeline: Option<Pipeline>,
    bindings: Bindings,
    resources: Arc<Vec<Tensor>>,
    dispatches: Vec<Dispatch>,
}

impl CommandEncoder {
    /// Sets the kernel of the following dispatches and clears every binding.
    pub fn set_pipeline(&mut self, pipeline: &Pipeline) -> &mut Self {
        self.pipeline = Some(pipeline.clone());
        self.bindings = Bindings::default();
        self
    }

    /// Binds a buffer from byte `offset` on at `[[buffer(index)]]`.
    pub fn set_buffer(&mut self, index: u32, buffer: &Buffer, offset: usize) -> &mut Self {
        self.bindings
            .buffers
            .insert(index, Binding::Buffer(buffer.clone(), offset));
        self
    }

    /// Binds a copy of `bytes` at `[[buffer(index)]]`; the kernel cannot hand anything back through it.
    pub fn set_bytes(&mut self, index: u32, bytes: &[u8]) -> Result<&mut Self> {
        let buffer = self.device.new_buffer_with_slice(bytes)?;
        self.bindings.buffers.insert(index, Binding::Bytes(buffer));
        Ok(self)
    }

    /// Binds a copy of one value at `[[buffer(index)]]`. Its layout must be the one of the kernel's type.
    pub fn set_value<T: Pod>(&mut self, index: u32, value: &T) -> Result<&mut Self> {
        self.set_bytes(index, bytemuck::bytes_of(value))
    }

    /// Binds a tensor at `[[buffer(index)]]`: tensors and buffers share the index space.
    pub fn set_tensor(&mut self, index: u32, tensor: &Tensor) -> &mut Self {
        self.bindings.buffers.insert(index, Binding::Tensor(tensor.clone()));
        self
    }

    /// Binds the null tensor, for which `is_null_tensor` is true, at `[[buffer(index)]]`.
    pub fn set_null_tensor(&mut self, index: u32) -> &mut Self {
        self.bindings.buffers.insert(index, Binding::NullTensor);
        self
    }

    /// Sets how many bytes the `threadgroup` pointer at `[[threadgroup(index)]]` points to.
    pub fn set_threadgroup_memory_length(&mut self, index: u32, bytes: usize) -> &mut Self {
        self.bindings.threadgroup.insert(index, bytes);
        self
    }

    /// Lets the following dispatches reach a tensor through its [`resource_id`](Tensor::resource_id) in a buffer.
    pub fn use_resource(&mut self, tensor: &Tensor) -> &mut Self {
        if !self.resources.iter().any(|t| t.same_as(tensor)) {
            Arc::make_mut(&mut self.resources).push(tensor.clone());
        }
        self
    }

    /// Adds a dispatch of `grid` threads in threadgroups of `threadgroup` threads; those at the end may be smaller.
    pub fn dispatch_threads(&mut self, grid: impl Into<Size>, threadgroup: impl Into<Size>) -> Result<&mut Self> {
        self.dispatch(grid.into(), threadgroup.into(), false)
    }

    /// Adds a dispatch of `groups` threadgroups of `threadgroup` threads each.
    pub fn dispatch_threadgroups(
        &mut self,
        groups: impl Into<Size>,
        threadgroup: impl Into<Size>,
    ) -> Result<&mut Self> {
        self.dispatch(groups.into(), threadgroup.into(), true)
    }

    fn dispatch(&mut self, grid: Size, threadgroup: Size, in_groups: bool) -> Result<&mut Self> {
        let pipeline = self.pipeline.clone().ok_or(BindingError::NoPipeline)?;
        let target = pipeline.0.compiled.target();
        if !target.is_same(self.device.target()) {
            return Err(Error::Unsupported {
                kernel: pipeline.name().to_owned(),
                reason: format!(
                    "the pipeline was made for {}, the queue is one of {}; make it from a library of that device",
                    target.id(),
                    self.device.id()
                ),
            });
        }
        let bound = check_bindings(&pipeline, &self.bindings)?;
        let launch = check_launch(&pipeline, grid, threadgroup, in_groups, &self.bindings)?;
        self.dispatches.push(Dispatch {
            pipeline,
            bound,
            resources: self.resources.clone(),
            launch,
        });
        Ok(self)
    }

    /// Hands the dispatches to the device. On the CPU they have run when this returns; on a GPU they run after what was
    /// committed before. A failure shows in [`Submission::wait`].
    pub fn commit(self) -> Submission {
        let dispatches = Arc::new(self.dispatches);
        Submission {
            pending: backend::commit(self.device.target(), &dispatches),
            dispatches,
        }
    }

    /// Makes the dispatches into a list that can run again and again. Nothing runs yet, but on a GPU the buffers move there.
    pub fn finish(self) -> Result<Graph> {
        let dispatches = Arc::new(self.dispatches);
        Ok(Graph {
            recorded: Recorded::new(self.device.target(), &dispatches)?,
            dispatches,
        })
    }

    /// [`commit`](Self::commit) and [`wait`](Submission::wait). After an error the dispatches before the failing one have
    /// run, and the failing one may have written part of its results.
    pub fn run(self) -> Result<CommandReport> {
        self.commit().wait()
    }
}

/// Dispatches that run again and again with what was bound to them, from [`CommandEncoder::finish`]. On a GPU that is a graph
/// of the driver's: one call starts all of them, without the time that each launch takes alone.
///
/// What the host writes into a bound buffer between two runs is seen by the next one. Bytes bound by
/// [`set_bytes`](CommandEncoder::set_bytes) stay as they were.
///
/// ```
/// use anymetal::{CompileOptions, Device};
///
/// let source = "kernel void add_one(device int *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }";
/// let device = Device::cpu();
/// let library = device.new_library(source, "add_one.metal", &CompileOptions::default())?;
/// let x = device.new_buffer_with_slice(&[0, 10])?;
/// let mut encoder = device.new_queue().encoder();
/// encoder.set_pipeline(&library.pipeline("add_one")?).set_buffer(0, &x, 0);
/// encoder.dispatch_threads(2, 32)?.dispatch_threads(2, 32)?;
/// let graph = encoder.finish()?;
/// graph.run()?;
/// x.write(0, &[100])?;
/// graph.run()?;
/// assert_eq!(x.to_vec::<i32>()?, [102, 14]);
/// # Ok::<(), anymetal::Error>(())
/// ```
pub struct Graph {
    recorded: Recorded,
    dispatches: Arc<Vec<Dispatch>>,
}

impl Graph {
    /// How many dispatches it has.
    pub fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.dispatches.is_empty()
    }

    /// Hands the dispatches to the device once more.
    pub fn commit(&self) -> Submission {
        Submission {
            pending: self.recorded.commit(),
            dispatches: self.dispatches.clone(),
        }
    }

    /// [`commit`](Self::commit) and [`wait`](Submission::wait).
    pub fn run(&self) -> Result<CommandReport> {
        self.commit().wait()
    }
}

/// Dispatches on their way.
#[must_use = "errors show in `wait`"]
pub struct Submission {
    pending: Pending,
    dispatches: Arc<Vec<Dispatch>>,
}

impl Submission {
    /// Waits until all have run.
    pub fn wait(self) -> Result<CommandReport> {
        let ran = self.pending.wait()?;
        let dispatches = self.dispatches.iter().zip(ran.each);
        Ok(CommandReport {
            dispatches: dispatches
                .map(|(dispatch, ran)| DispatchReport::new(dispatch, ran))
                .collect(),
            together: ran.together,
        })
    }
}

/// What a list of dispatches did.
#[derive(Clone, Debug, Default)]
pub struct CommandReport {
    /// One for each dispatch, in order.
    pub dispatches: Vec<DispatchReport>,
    /// The time of all, where the device ran them as one.
    together: Option<Duration>,
}

impl CommandReport {
    /// Time of all dispatches together.
    pub fn time(&self) -> Duration {
        self.together
            .unwrap_or_else(|| self.dispatches.iter().map(|d| d.time).sum())
    }

    /// Bytes counted in all dispatches together; `None` unless every one of them counted.
    pub fn traffic(&self) -> Option<Traffic> {
        let mut all = Traffic::default();
        for dispatch in &self.dispatches {
            let t = dispatch.traffic?;
            all.device_read += t.device_read;
            all.device_written += t.device_written;
            all.threadgroup_read += t.threadgroup_read;
            all.threadgroup_written += t.threadgroup_written;
        }
        Some(all)
    }
}

/// Bytes that a kernel addressed: every access counts, whether or not a cache would have served it. Tile operations
/// count the valid part of each operand once a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Read from buffers and tensors.
    pub device_read: u64,
    /// Written to buffers and tensors.
    pub device_written: u64,
    /// Read from threadgroup memory.
    pub threadgroup_read: u64,
    /// Written to threadgroup memory.
    pub threadgroup_written: u64,
}

/// What one dispatch did.
#[derive(Clone, Debug)]
pub struct DispatchReport {
    /// The kernel.
    pub kernel: String,
    /// The tile path that it ran on: `portable`, `avx2`, `avx512`, `amx`; `cuda sm_90a` and the like on a GPU.
    pub path: String,
    /// From start to end, waiting for the memory's other users included. On a GPU time of the device, and zero for the parts of a
    /// [`Graph`], whose [`CommandReport::time`] is known as a whole.
    pub time: Duration,
    /// Threads of the grid.
    pub threads: [u32; 3],
    /// Threads of a full threadgroup.
    pub threadgroup: [u32; 3],
    /// Threadgroups that ran.
    pub threadgroups: u64,
    /// Worker threads of the host that took part; 0 on a GPU.
    pub workers: usize,
    /// Bytes counted, if [`ExecutionOptions::count_traffic`](crate::ExecutionOptions::count_traffic) was set.
    pub traffic: Option<Traffic>,
    /// What the sanitizer found, in the order it was found; empty without
    /// [`ExecutionOptions::sanitize`](crate::ExecutionOptions::sanitize). [`Library::diagnostics`](crate::Library::diagnostics)
    /// shows them with their source lines.
    pub findings: Vec<anymetal_ir::Finding>,
}

impl DispatchReport {
    fn new(dispatch: &Dispatch, ran: backend::Ran) -> Self {
        Self {
            kernel: dispatch.pipeline.name().to_owned(),
            path: dispatch.pipeline.0.compiled.path(),
            time: ran.time,
            threads: dispatch.launch.threads,
            threadgroup: dispatch.launch.threadgroup,
            threadgroups: ran.threadgroups,
            workers: ran.workers,
            traffic: ran.traffic,
            findings: ran.findings,
        }
    }
}
