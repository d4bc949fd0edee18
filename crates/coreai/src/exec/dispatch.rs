//! Runs the steps of a plan: kernels through the device, the rest on the host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anymetal::ir::Kernel;
use anymetal::{Buffer, CompileOptions, Device, ExecutionOptions, FunctionConstants, Pipeline, Queue};

use crate::array::Array;
use crate::error::{OpError, ProgramError};
use crate::eval;

use super::plan::StepOp;

/// A device with the kernels that were compiled for it.
pub(super) struct Dispatcher {
    device: Device,
    queue: Queue,
    /// The accesses of kernels inside assets need not be checked.
    trust: bool,
    pipelines: Mutex<HashMap<(usize, String), Pipeline>>,
    /// Generated kernels by their text.
    generated: Mutex<HashMap<String, Pipeline>>,
    /// Buffers over constants, by address and length, with the arrays that keep them alive. A device copies each once.
    constants: Mutex<HashMap<(usize, usize), (Array, Buffer)>>,
    /// Weights and biases as the terms of products, by their addresses.
    terms: Mutex<HashMap<Vec<(usize, usize)>, Terms>>,
}

/// Weights and biases, whose addresses are the key as long as they live, in terms.
struct Terms {
    _of: Vec<Array>,
    terms: Array,
}

/// See [`super::fused::split_width`].
fn split_weight(w: &Array, bias: Option<&Array>, out: &mut Vec<half::bf16>) -> Result<(), OpError> {
    let &[n, k] = w.shape() else {
        return Err(OpError::invalid(format!("{w:?} is no weight of a linear layer")));
    };
    let values = w.to_f32()?;
    let bias = bias.map(Array::to_f32).transpose()?;
    let high = |v: f32| half::bf16::from_f32(v);
    let rest = |v: f32| {
        let rest = v - high(v).to_f32();
        if rest.is_nan() { 0.0 } else { rest }
    };
    out.reserve(n * super::fused::split_width(k));
    for (row, values) in values.chunks_exact(k.max(1)).enumerate() {
        out.extend(values.iter().map(|&v| high(v)));
        out.extend(values.iter().map(|&v| high(rest(v))));
        out.extend(values.iter().map(|&v| high(v)));
        let b = bias.as_ref().and_then(|b| b.get(row)).copied().unwrap_or(0.0);
        let mut tail = [half::bf16::ZERO; super::fused::SPLIT_TAIL];
        (tail[0], tail[1], tail[2]) = (high(b), high(rest(b)), high(rest(rest(b))));
        out.extend(tail);
    }
    Ok(())
}

impl Dispatcher {
    pub fn new(device: Device) -> Self {
        let queue = device.new_queue();
        Self {
            device,
            queue,
            trust: false,
            pipelines: Mutex::default(),
            generated: Mutex::default(),
            constants: Mutex::default(),
            terms: Mutex::default(),
        }
    }

    /// The same, but kernels inside assets run unchecked if `trust`.
    pub fn trusting(mut self, trust: bool) -> Self {
        self.trust = trust;
        self
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    /// True when kernels read constants where they lie, so that those have the alignment that they have in the file.
    pub fn in_place(&self) -> bool {
        self.device.gpu().is_none()
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The kernel `name` of an asset's `source`, compiled once. Such a source cannot include files.
    pub fn pipeline(&self, name: &str, source: &str) -> Result<Pipeline, ProgramError> {
        let options = CompileOptions {
            allow_files: false,
            ..CompileOptions::default()
        };
        // Somebody else's code.
        let execution = ExecutionOptions::default().with_checked(!self.trust);
        self.compiled(name, source, &format!("{name}.metal"), &options, &execution)
    }

    /// A kernel of ours.
    pub fn own_pipeline(&self, name: &str, source: &'static str, file: &str) -> Result<Pipeline, OpError> {
        let execution = ExecutionOptions::default();
        self.compiled(name, source, file, &super::library::options(), &execution)
            .map_err(|e| OpError::Kernel(e.to_string()))
    }

    /// A kernel that was generated, compiled once.
    pub fn generated_pipeline(&self, kernel: Kernel) -> Result<Pipeline, OpError> {
        self.pipeline_of(kernel, &ExecutionOptions::default())
    }

    /// The pipeline for threadgroups of exactly so many threads. A GPU's compiler gives their threads more registers than those of the
    /// largest threadgroups could have. `asset` says that the kernel is somebody else's.
    pub fn for_threads(&self, pipeline: &Pipeline, threads: usize, asset: bool) -> Result<Pipeline, OpError> {
        let known = pipeline.ir().max_threads;
        if self.in_place() || known.is_some_and(|n| n as usize <= threads) {
            return Ok(pipeline.clone());
        }
        let mut kernel = (**pipeline.ir()).clone();
        kernel.max_threads = Some(threads as u32);
        self.pipeline_of(kernel, &ExecutionOptions::default().with_checked(asset && !self.trust))
    }

    fn pipeline_of(&self, kernel: Kernel, execution: &ExecutionOptions) -> Result<Pipeline, OpError> {
        let text = format!("{execution:?}\n{}", anymetal::ir::print(&kernel));
        let mut known = self.generated.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = known.get(&text) {
            return Ok(found.clone());
        }
        let pipeline = self
            .device
            .new_pipeline_from_ir(Arc::new(kernel), execution)
            .map_err(|error| OpError::Kernel(format!("a generated kernel: {error}")))?;
        known.insert(text, pipeline.clone());
        Ok(pipeline)
    }

    /// The buffer of a constant.
    pub fn constant_buffer(&self, array: &Array) -> Result<Buffer, OpError> {
        let key = (array.bytes().as_ptr() as usize, array.bytes().len());
        let mut known = self.constants.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, buffer)) = known.get(&key) {
            return Ok(buffer.clone());
        }
        let buffer = super::kernel::buffer_of(self, array)?;
        known.insert(key, (array.clone(), buffer.clone()));
        Ok(buffer)
    }

    /// Weights [N, K] and their biases [N], one behind the other, in the terms that go with split rows; made once.
    pub fn split_weights(&self, layers: &[(&Array, Option<&Array>)]) -> Result<Array, OpError> {
        let address = |array: &Array| array.bytes().as_ptr() as usize;
        let key: Vec<(usize, usize)> = layers
            .iter()
            .map(|(w, bias)| (address(w), bias.map_or(0, address)))
            .collect();
        let mut known = self.terms.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = known.get(&key) {
            return Ok(found.terms.clone());
        }
        let mut all = Vec::new();
        for (w, bias) in layers {
            split_weight(w, *bias, &mut all)?;
        }
        let terms = Array::from_values(&[all.len()], all)?;
        let kept = layers.iter().flat_map(|(w, bias)| std::iter::once(*w).chain(*bias));
        let of = kept.cloned().collect();
        known.insert(
            key,
            Terms {
                _of: of,
                terms: terms.clone(),
            },
        );
        Ok(terms)
    }

    fn compiled(
        &self,
        name: &str,
        source: &str,
        file: &str,
        options: &CompileOptions,
        execution: &ExecutionOptions,
    ) -> Result<Pipeline, ProgramError> {
        // Sources live as long as the program, so their address is as good as their text.
        let key = (source.as_ptr() as usize, name.to_string());
        if let Some(found) = self.pipelines.lock().unwrap_or_else(|e| e.into_inner()).get(&key) {
            return Ok(found.clone());
        }
        let failed = |error: anymetal::Error| ProgramError::Kernel {
            name: name.to_string(),
            diagnostics: error.to_string(),
        };
        let library = self.device.new_library(source, file, options).map_err(failed)?;
        let pipeline = library
            .pipeline_with(name, &FunctionConstants::new(), execution)
            .map_err(failed)?;
        self.pipelines
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .insert(key, pipeline.clone());
        Ok(pipeline)
    }

    /// Every kernel that was compiled so far.
    pub fn compiled_so_far(&self) -> Vec<Pipeline> {
        let named = self.pipelines.lock().unwrap_or_else(|e| e.into_inner());
        let generated = self.generated.lock().unwrap_or_else(|e| e.into_inner());
        named.values().chain(generated.values()).cloned().collect()
    }

    /// Runs one step that is not about states.
    pub fn run(&self, op: &StepOp, operands: &[Array]) -> Result<Vec<Array>, OpError> {
        match op {
            StepOp::Host { code, mode, elements } => eval::evaluate(
                &eval::Spec {
                    code: *code,
                    mode: *mode,
                    elements,
                },
                operands,
            ),
            StepOp::Alias { shape } => match operands.first() {
                Some(array) => Ok(vec![array.reshaped(shape)?]),
                None => Err(OpError::invalid("the operation has no operand")),
            },
            StepOp::Native(native) => native.run(self, operands),
            StepOp::Kernel(call) => super::kernel::run(self, call, operands),
            StepOp::ReadState(_) | StepOp::WriteState(_) => {
                Err(OpError::invalid("a state is accessed outside a function"))
            }
        }
    }
}
