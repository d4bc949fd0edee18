//! Kernels on a CUDA device: commands run in the order of the device's stream, and buffers stay on the device until somebody else
//! looks at them.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anymetal_cpu::{HostMemory, MemoryError, Mirror};
use anymetal_cuda::driver::{
    BoundArgument, BoundTensor, Context, CudaError, CudaKernel, CudaOptions, DeviceMemory, DriverError, Event,
    FAULT_STRIDE, Graph, Launch, Prepared,
};
use anymetal_formats::PlaneType;
use anymetal_ir::Kernel;

use super::{Dispatch, Ran, RanAll, refuse};
use crate::binding::Bound;
use crate::error::{Error, Result};
use crate::pipeline::ExecutionOptions;
use crate::tensor::{PlaneMemory, Tensor};

/// A compiled kernel.
pub(crate) struct Compiled(CudaKernel);

impl Compiled {
    pub fn new(context: &Arc<Context>, kernel: &Arc<Kernel>, options: &ExecutionOptions) -> Result<Self> {
        if let Some(option) = cpu_only(options) {
            return Err(refuse(kernel, format!("{option} is an option of the CPU device alone")));
        }
        let options = CudaOptions {
            checked: options.checked,
            force_incompatible: options.force_incompatible,
            static_overhang_zero: options.static_overhang_zero,
        };
        let compiled = CudaKernel::compile(kernel.clone(), context, &options);
        Ok(Self(compiled.map_err(|error| refuse(kernel, error.to_string()))?))
    }

    pub fn path(&self) -> String {
        format!("cuda {}", self.0.target())
    }

    pub fn context(&self) -> &Arc<Context> {
        self.0.context()
    }

    /// Registers and bytes of local memory of a thread.
    pub fn resources(&self) -> Result<(u32, u32)> {
        self.0.resources().map_err(cuda_error)
    }
}

/// The first option set that this backend does not have.
fn cpu_only(options: &ExecutionOptions) -> Option<&'static str> {
    let set = [
        (options.sanitize.is_some(), "the sanitizer"),
        (options.tile_path.is_some(), "a tile path"),
        (options.deterministic, "running threadgroups in order"),
        (options.permuted_layout, "another layout of cooperative tensors"),
        (options.tensor_unit, "the rounding of a Mac's tensor unit"),
        (options.instruction_budget.is_some(), "an instruction budget"),
        (options.count_traffic, "counting traffic"),
    ];
    set.into_iter().find(|(set, _)| *set).map(|(_, name)| name)
}

pub(super) fn device_error(error: DriverError) -> Error {
    Error::Device(error.to_string())
}

fn cuda_error(error: CudaError) -> Error {
    match error {
        CudaError::Fault(fault) => Error::Fault {
            kernel: fault.kernel.clone(),
            message: fault.to_string(),
        },
        CudaError::Launch { .. } => Error::Launch(error.to_string()),
        CudaError::Driver(error) => device_error(error),
        other => Error::Device(other.to_string()),
    }
}

/// Bytes that travel with a dispatch at most: what a launch can hand over by value.
const MOST_BYTES: usize = 4096;

/// The bytes of a memory on a device.
struct OnDevice(DeviceMemory);

impl Mirror for OnDevice {
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), String> {
        self.0.download(offset, into).map_err(|error| error.to_string())
    }
}

/// Makes sure that a memory's newest bytes are on the device, and says where. `writes`: a dispatch will write them.
fn resident(context: &Arc<Context>, memory: &HostMemory, writes: bool) -> Result<u64> {
    let failed = |error: DriverError| MemoryError::Mirror {
        reason: error.to_string(),
    };
    let mut refused = None;
    let address = memory.with_mirror(|mirrored| {
        let known = mirrored
            .mirror()
            .and_then(|mirror| own(&**mirror, context))
            .map(DeviceMemory::address);
        let address = match known {
            Some(address) => address,
            None => match context.allocate(memory.len().max(1)) {
                Ok(fresh) => {
                    let address = fresh.address();
                    mirrored.replace(Arc::new(OnDevice(fresh)))?;
                    address
                }
                Err(error) => {
                    refused = Some(error.clone());
                    return Err(failed(error));
                }
            },
        };
        if let (Some((at, bytes)), Some(device)) = (
            mirrored.behind(),
            mirrored.mirror().and_then(|mirror| own(&**mirror, context)),
        ) {
            let copied = match mirrored.is_pristine() {
                true => device.fill(0, memory.len(), 0),
                false => device.upload(at, bytes),
            };
            copied.map_err(|error| {
                refused = Some(error.clone());
                failed(error)
            })?;
        }
        mirrored.caught_up();
        if writes {
            mirrored.write_at_mirror();
        }
        Ok(address)
    });
    match refused {
        Some(error) => Err(device_error(error)),
        None => Ok(address?),
    }
}

/// A mirror as memory of this device, if it is that.
fn own<'a>(mirror: &'a dyn Mirror, context: &Arc<Context>) -> Option<&'a DeviceMemory> {
    let any: &dyn Any = mirror;
    let OnDevice(memory) = any.downcast_ref::<OnDevice>()?;
    Arc::ptr_eq(memory.context(), context).then_some(memory)
}

/// Brings memories to the device, each once.
struct Residency<'a> {
    context: &'a Arc<Context>,
    /// By the memory's id: the memory, whether it is written, its address.
    known: HashMap<u64, (HostMemory, bool, u64)>,
}

impl<'a> Residency<'a> {
    fn new(context: &'a Arc<Context>) -> Self {
        Self {
            context,
            known: HashMap::new(),
        }
    }

    fn address(&mut self, memory: &HostMemory, writes: bool) -> Result<u64> {
        if let Some((_, written, address)) = self.known.get(&memory.id())
            && (*written || !writes)
        {
            return Ok(*address);
        }
        let address = resident(self.context, memory, writes)?;
        self.known.insert(memory.id(), (memory.clone(), writes, address));
        Ok(address)
    }

    fn argument(&mut self, bound: &Bound, name: &str, writes: bool) -> Result<BoundArgument> {
        Ok(match bound {
            Bound::Memory {
                buffer, inline: true, ..
            } if !writes && buffer.length() <= MOST_BYTES => BoundArgument::Value {
                address: self.address(&buffer.memory, false)?,
                value: buffer.read_vec(0, buffer.length())?,
            },
            Bound::Memory { buffer, offset, .. } => BoundArgument::Buffer {
                address: self.address(&buffer.memory, writes)? + *offset as u64,
                bytes: buffer.length().saturating_sub(*offset) as u64,
            },
            Bound::Tensor(tensor) => BoundArgument::Tensor(Box::new(self.tensor(tensor, name, writes)?)),
            Bound::NullTensor => BoundArgument::NullTensor,
            Bound::Threadgroup { bytes } => BoundArgument::Threadgroup(u32::try_from(*bytes).unwrap_or(u32::MAX)),
            Bound::Nothing => BoundArgument::Unbound,
        })
    }

    fn tensor(&mut self, tensor: &Tensor, name: &str, writes: bool) -> Result<BoundTensor> {
        let signed = |values: &[usize]| values.iter().map(|&value| value as i64).collect();
        let mut place = |memory: &PlaneMemory, offset: usize, writes: bool| -> Result<(u64, u64)> {
            let start = self.address(&memory.memory, writes && memory.memory.is_writable())?;
            Ok((start + offset as u64, memory.memory.len().saturating_sub(offset) as u64))
        };
        let (data, memory) = tensor.data();
        let (address, bytes) = place(memory, data.offset, writes)?;
        let scales = match tensor.find(PlaneType::Scales) {
            Ok((layout, memory)) => {
                let (address, bytes) = place(memory, layout.offset, false)?;
                Some((address, bytes, signed(&layout.strides)))
            }
            Err(_) => None,
        };
        Ok(BoundTensor {
            handle: tensor.resource_id(),
            name: tensor.label().unwrap_or(name).to_owned(),
            address,
            bytes,
            extents: signed(&data.dimensions),
            strides: signed(&data.strides),
            scales,
        })
    }

    /// Brings everything that a dispatch names to the device and lays out its launch.
    fn prepare(&mut self, dispatch: &Dispatch, fault: u64) -> Result<(Prepared, Vec<BoundTensor>)> {
        let pipeline = &dispatch.pipeline.0;
        let super::Compiled::Cuda(Compiled(kernel)) = &pipeline.compiled else {
            return Err(Error::Launch("the pipeline is not one of this device's".to_owned()));
        };
        let bound = dispatch.bound.iter().zip(&pipeline.arguments);
        let bound: Vec<BoundArgument> = bound
            .map(|(bound, argument)| self.argument(bound, &argument.name, argument.is_written()))
            .collect::<Result<_>>()?;
        // What a kernel reaches by handle it may write.
        let resources = dispatch.resources.iter();
        let handles: Vec<BoundTensor> = resources
            .map(|tensor| self.tensor(tensor, "tensor", true))
            .collect::<Result<_>>()?;
        let prepared = kernel
            .prepare(&bound, &handles, &shape(dispatch), fault)
            .map_err(cuda_error)?;
        Ok((prepared, handles))
    }
}

fn shape(dispatch: &Dispatch) -> Launch {
    Launch {
        threads: dispatch.launch.threads,
        threadgroup: dispatch.launch.threadgroup,
    }
}

fn is_checked(dispatch: &Dispatch) -> bool {
    matches!(&dispatch.pipeline.0.compiled, super::Compiled::Cuda(Compiled(kernel)) if kernel.is_checked())
}

/// The fault records of a list of dispatches, all clear: one each, whether it is checked or not; `None` if none is.
fn fault_memory(context: &Arc<Context>, dispatches: &[Dispatch]) -> Result<Option<Arc<DeviceMemory>>> {
    if !dispatches.iter().any(is_checked) {
        return Ok(None);
    }
    let memory = context
        .allocate(dispatches.len() * FAULT_STRIDE)
        .map_err(device_error)?;
    memory.fill(0, memory.len(), 0).map_err(device_error)?;
    Ok(Some(Arc::new(memory)))
}

fn fault_address(memory: &Option<Arc<DeviceMemory>>, dispatch: &Dispatch, at: usize) -> u64 {
    match memory {
        Some(memory) if is_checked(dispatch) => memory.address() + (at * FAULT_STRIDE) as u64,
        _ => 0,
    }
}

/// Dispatches on the device's stream.
pub(crate) struct Pending {
    dispatches: Arc<Vec<Dispatch>>,
    /// The start of all, then the end of each, or of all where they run as a graph.
    events: Vec<Event>,
    faults: Option<Arc<DeviceMemory>>,
    /// Of each dispatch that was launched.
    handles: Arc<Vec<Vec<BoundTensor>>>,
    /// What stopped the list before its end.
    error: Option<Error>,
}

/// Puts dispatches on the stream. One that cannot start ends the list; those before it run.
pub(super) fn commit(context: &Arc<Context>, dispatches: &Arc<Vec<Dispatch>>) -> Result<Pending> {
    let faults = fault_memory(context, dispatches)?;
    // All copies come before the first launch, so that nothing lies between the events but kernels.
    let mut residency = Residency::new(context);
    let (mut prepared, mut handles, mut error) = (Vec::new(), Vec::new(), None);
    for (at, dispatch) in dispatches.iter().enumerate() {
        match residency.prepare(dispatch, fault_address(&faults, dispatch, at)) {
            Ok((ready, tensors)) => {
                prepared.push(ready);
                handles.push(tensors);
            }
            Err(refused) => {
                error = Some(refused);
                break;
            }
        }
    }
    let mut events = vec![context.record().map_err(device_error)?];
    for ready in &prepared {
        ready.launch().map_err(device_error)?;
        events.push(context.record().map_err(device_error)?);
    }
    Ok(Pending {
        dispatches: dispatches.clone(),
        events,
        faults,
        handles: Arc::new(handles),
        error,
    })
}

impl Pending {
    /// Waits for the end, and looks for faults.
    pub fn wait(self) -> Result<RanAll> {
        if let Some(last) = self.events.last() {
            last.wait().map_err(device_error)?;
        }
        self.look_for_faults()?;
        if let Some(error) = self.error {
            return Err(error);
        }
        let single = self.events.len() == self.dispatches.len() + 1;
        let mut all = RanAll::default();
        for (at, dispatch) in self.dispatches.iter().enumerate() {
            let mut ran = Ran {
                threadgroups: shape(dispatch).threadgroups().iter().map(|&n| u64::from(n)).product(),
                ..Ran::default()
            };
            if single {
                ran.time = self.events[at + 1].since(&self.events[at]).map_err(device_error)?;
            }
            all.each.push(ran);
        }
        if let (false, [first, .., last]) = (single, self.events.as_slice()) {
            all.together = Some(last.since(first).map_err(device_error)?);
        }
        Ok(all)
    }

    fn look_for_faults(&self) -> Result<()> {
        let Some(memory) = &self.faults else {
            return Ok(());
        };
        let mut records = vec![0; memory.len()];
        memory.download(0, &mut records).map_err(device_error)?;
        let records = records.chunks_exact(FAULT_STRIDE);
        for ((record, dispatch), handles) in records.zip(self.dispatches.iter()).zip(self.handles.iter()) {
            let super::Compiled::Cuda(Compiled(kernel)) = &dispatch.pipeline.0.compiled else {
                continue;
            };
            if let Some(fault) = kernel.fault(record, &shape(dispatch), handles) {
                // The records of a graph serve its next run too; a fault stays there until somebody has seen it.
                memory.fill(0, memory.len(), 0).map_err(device_error)?;
                return Err(cuda_error(fault.into()));
            }
        }
        Ok(())
    }
}

/// A list of dispatches as a graph of the driver's.
pub(crate) struct Recorded {
    context: Arc<Context>,
    dispatches: Arc<Vec<Dispatch>>,
    state: Mutex<State>,
}

/// A graph, and the addresses that it holds.
struct State {
    graph: Graph,
    faults: Option<Arc<DeviceMemory>>,
    handles: Arc<Vec<Vec<BoundTensor>>>,
    memories: Vec<(HostMemory, bool, u64)>,
}

impl State {
    fn record(context: &Arc<Context>, dispatches: &[Dispatch]) -> Result<State> {
        let faults = fault_memory(context, dispatches)?;
        let mut residency = Residency::new(context);
        let (mut prepared, mut handles) = (Vec::new(), Vec::new());
        for (at, dispatch) in dispatches.iter().enumerate() {
            let (ready, tensors) = residency.prepare(dispatch, fault_address(&faults, dispatch, at))?;
            prepared.push(ready);
            handles.push(tensors);
        }
        Ok(State {
            graph: context.record_graph(prepared).map_err(device_error)?,
            faults,
            handles: Arc::new(handles),
            memories: residency.known.into_values().collect(),
        })
    }

    /// Brings what the host changed to the device; false if a memory has moved since the graph was recorded.
    fn refresh(&self, context: &Arc<Context>) -> Result<bool> {
        for (memory, writes, address) in &self.memories {
            if resident(context, memory, *writes)? != *address {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Recorded {
    pub fn new(context: &Arc<Context>, dispatches: &Arc<Vec<Dispatch>>) -> Result<Self> {
        Ok(Self {
            context: context.clone(),
            dispatches: dispatches.clone(),
            state: Mutex::new(State::record(context, dispatches)?),
        })
    }

    pub fn commit(&self) -> Result<Pending> {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        if !state.refresh(&self.context)? {
            *state = State::record(&self.context, &self.dispatches)?;
        }
        let start = self.context.record().map_err(device_error)?;
        state.graph.launch().map_err(device_error)?;
        let end = self.context.record().map_err(device_error)?;
        Ok(Pending {
            dispatches: self.dispatches.clone(),
            events: vec![start, end],
            faults: state.faults.clone(),
            handles: state.handles.clone(),
            error: None,
        })
    }
}
