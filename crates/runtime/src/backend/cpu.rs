//! Kernels on the processor: they run when they are committed.

use std::sync::Arc;
use std::time::Instant;

use anymetal_cpu::{
    BoundArgument, CpuKernel, DispatchError, DispatchOptions, Grid, ScaleBinding, TensorBinding, TensorTable,
};
use anymetal_formats::PlaneType;
use anymetal_ir::Kernel;

use super::{Dispatch, Ran, RanAll, refuse};
use crate::binding::Bound;
use crate::error::{Error, Result};
use crate::pipeline::ExecutionOptions;
use crate::queue::Traffic;
use crate::tensor::Tensor;

/// A compiled kernel.
pub(crate) struct Compiled(CpuKernel);

impl Compiled {
    pub fn new(kernel: &Arc<Kernel>, options: &ExecutionOptions) -> Result<Self> {
        let cpu_options = anymetal_cpu::CpuOptions {
            sanitize: options.sanitize.clone(),
            ..Default::default()
        };
        let cpu = match options.tile_path {
            None => CpuKernel::compile(kernel.clone(), &cpu_options),
            Some(path) => {
                let path = path.require().map_err(|error| refuse(kernel, error.to_string()))?;
                CpuKernel::compile_for(kernel.clone(), &cpu_options, path)
            }
        };
        Ok(Self(cpu.map_err(|error| refuse(kernel, error.to_string()))?))
    }

    /// The tile path that it runs on.
    pub fn path(&self) -> String {
        self.0.tile_path().to_string()
    }
}

/// Runs dispatches to their end, in order, up to the first that fails.
pub(super) fn run(dispatches: &[Dispatch]) -> Result<RanAll> {
    let each = dispatches.iter().map(run_one).collect::<Result<_>>()?;
    Ok(RanAll { each, together: None })
}

fn run_one(dispatch: &Dispatch) -> Result<Ran> {
    let pipeline = &dispatch.pipeline.0;
    let super::Compiled::Cpu(compiled) = &pipeline.compiled else {
        return Err(Error::Launch("the pipeline is not one of the CPU's".to_owned()));
    };
    let Compiled(cpu) = &**compiled;
    let arguments: Vec<BoundArgument> = dispatch
        .bound
        .iter()
        .zip(&pipeline.arguments)
        .map(|(b, a)| argument(b, &a.name))
        .collect();
    let launch = anymetal_cpu::Launch {
        grid: Grid::Threads(dispatch.launch.threads),
        threads_per_threadgroup: dispatch.launch.threadgroup,
    };
    let table = Resident(&dispatch.resources);
    let start = Instant::now();
    let result = cpu.dispatch(&arguments, &launch, &options(&pipeline.options), &table);
    let time = start.elapsed();
    match result {
        Ok(report) => Ok(Ran {
            time,
            threadgroups: report.threadgroups,
            workers: report.workers,
            findings: report.findings,
            traffic: report.traffic.map(|t| Traffic {
                device_read: t.device_read,
                device_written: t.device_written,
                threadgroup_read: t.threadgroup_read,
                threadgroup_written: t.threadgroup_written,
            }),
        }),
        Err(DispatchError::Fault(fault)) => Err(Error::Fault {
            kernel: pipeline.kernel.name.clone(),
            message: fault.to_string(),
        }),
        Err(error) => Err(Error::Launch(error.to_string())),
    }
}

fn options(options: &ExecutionOptions) -> DispatchOptions {
    DispatchOptions {
        threads: options.threads,
        deterministic: options.deterministic,
        budget: options.instruction_budget,
        traffic: options.count_traffic,
        force_incompatible: options.force_incompatible,
        static_overhang_zero: options.static_overhang_zero,
        tensor_unit: options.tensor_unit,
        ..DispatchOptions::default()
    }
}

fn argument(bound: &Bound, name: &str) -> BoundArgument {
    match bound {
        Bound::Memory { buffer, offset, .. } => BoundArgument::Buffer {
            memory: buffer.memory.clone(),
            offset: *offset,
            length: None,
        },
        Bound::Tensor(tensor) => BoundArgument::Tensor(Box::new(tensor_binding(tensor, name))),
        Bound::NullTensor => BoundArgument::NullTensor,
        Bound::Threadgroup { bytes } => BoundArgument::Threadgroup(*bytes),
        Bound::Nothing => BoundArgument::Unbound,
    }
}

fn tensor_binding(tensor: &Tensor, name: &str) -> TensorBinding {
    let strides = |strides: &[usize]| strides.iter().map(|&s| s as i64).collect();
    let (data, memory) = tensor.data();
    let scales = tensor
        .find(PlaneType::Scales)
        .ok()
        .map(|(layout, memory)| ScaleBinding {
            memory: memory.memory.clone(),
            offset: layout.offset,
            format: layout.format,
            block: layout.block_factors.iter().map(|&b| b as u32).collect(),
            strides: strides(&layout.strides),
        });
    TensorBinding {
        handle: tensor.resource_id(),
        name: tensor.label().unwrap_or(name).to_owned(),
        memory: memory.memory.clone(),
        offset: data.offset,
        format: data.format,
        extents: data.dimensions.iter().map(|&n| n as u64).collect(),
        strides: strides(&data.strides),
        scales,
    }
}

/// The tensors that `use_resource` named.
struct Resident<'a>(&'a [Tensor]);

impl TensorTable for Resident<'_> {
    fn tensor(&self, handle: u64) -> Option<TensorBinding> {
        let tensor = self.0.iter().find(|t| t.resource_id() == handle)?;
        Some(tensor_binding(tensor, "tensor"))
    }

    fn memories(&self) -> Vec<(anymetal_cpu::HostMemory, bool)> {
        let planes = [PlaneType::Data, PlaneType::Scales];
        let all = self
            .0
            .iter()
            .flat_map(|t| planes.iter().filter_map(|&p| t.find(p).ok()));
        all.map(|(_, memory)| (memory.memory.clone(), memory.memory.is_writable()))
            .collect()
    }
}
