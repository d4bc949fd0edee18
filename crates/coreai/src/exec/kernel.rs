//! Kernels inside assets: arguments are rank-n tensor handles with the dimensions reversed (innermost first), rank-0
//! arguments are constants; results follow the arguments.

use anymetal::{ElementFormat, HostMemory, Tensor, TensorDescriptor, TensorUsage};

use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::bytes::SharedBytes;
use crate::error::OpError;

use super::dispatch::Dispatcher;
use super::plan::KernelCall;

/// The device format of an element type that a kernel may take.
fn format(element: ElementType) -> Result<ElementFormat, OpError> {
    Ok(match element {
        ElementType::BF16 => ElementFormat::BF16,
        ElementType::F16 => ElementFormat::F16,
        ElementType::F32 => ElementFormat::F32,
        ElementType::I8 => ElementFormat::I8,
        ElementType::U8 => ElementFormat::U8,
        ElementType::I16 => ElementFormat::I16,
        ElementType::U16 => ElementFormat::U16,
        ElementType::I32 => ElementFormat::I32,
        ElementType::U32 => ElementFormat::U32,
        ElementType::I64 => ElementFormat::I64,
        ElementType::U64 => ElementFormat::U64,
        ElementType::Bool => ElementFormat::Bool,
        other => return Err(OpError::Element(other.to_string())),
    })
}

/// A rank-n handle over a buffer from a byte on, innermost dimension first.
pub(super) fn tensor(
    buffer: &anymetal::Buffer,
    offset: usize,
    element: ElementType,
    shape: &[usize],
) -> Result<Tensor, OpError> {
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let extents = anymetal::Extents::new(&reversed).map_err(|e| OpError::Kernel(e.to_string()))?;
    let descriptor = TensorDescriptor::new(extents, format(element)?)
        .with_packed_strides()
        .with_usage(TensorUsage::COMPUTE);
    buffer
        .new_tensor(&descriptor, offset)
        .map_err(|e| OpError::Kernel(e.to_string()))
}

/// A buffer over an array's bytes, without a copy.
pub(super) fn buffer_of(dispatcher: &Dispatcher, array: &Array) -> Result<anymetal::Buffer, OpError> {
    let (owner, range) = array.shared().parts();
    dispatcher
        .device()
        .new_buffer_no_copy(owner, range)
        .map_err(|e| OpError::Kernel(e.to_string()))
}

/// Fresh memory for a result.
pub(super) struct Output {
    memory: HostMemory,
    pub buffer: anymetal::Buffer,
    element: ElementType,
    shape: Vec<usize>,
}

impl Output {
    pub fn new(dispatcher: &Dispatcher, element: ElementType, shape: &[usize]) -> Result<Self, OpError> {
        let bytes = checked_len(element, shape)? * element.size();
        let memory = HostMemory::zeroed(bytes).map_err(|e| OpError::Kernel(e.to_string()))?;
        let buffer = dispatcher.device().new_buffer_with_memory(memory.clone());
        Ok(Self {
            memory,
            buffer,
            element,
            shape: shape.to_vec(),
        })
    }

    /// The array, once the dispatch has run. Without a copy when nobody else holds the memory any more.
    pub fn finish(self) -> Result<Array, OpError> {
        let Self {
            memory,
            buffer,
            element,
            shape,
        } = self;
        drop(buffer);
        match memory.freeze() {
            Ok(frozen) => Ok(Array::new(element, &shape, SharedBytes::new(frozen))?),
            Err(memory) => Ok(memory.with_bytes(|bytes| Array::from_bytes(element, &shape, bytes))?),
        }
    }
}

/// Compiles (once) and dispatches one kernel.
pub(super) fn run(dispatcher: &Dispatcher, call: &KernelCall, operands: &[Array]) -> Result<Vec<Array>, OpError> {
    let fail = |error: anymetal::Error| OpError::Kernel(format!("kernel {:?}: {error}", call.name));
    let pipeline = dispatcher
        .pipeline(&call.name, &call.source)
        .map_err(|error| OpError::Kernel(error.to_string()))?;
    let mut outputs = Vec::with_capacity(call.results.len());
    for (element, shape) in &call.results {
        outputs.push(Output::new(dispatcher, *element, shape)?);
    }
    // No threads, or nothing to write: nothing runs.
    let idle = call.grid.contains(&0) || outputs.iter().all(|o| o.shape.contains(&0));
    if !idle {
        let mut encoder = dispatcher.queue().encoder();
        encoder.set_pipeline(&pipeline);
        for (i, array) in operands.iter().enumerate() {
            if array.rank() == 0 {
                encoder.set_bytes(i as u32, array.bytes()).map_err(fail)?;
            } else {
                let buffer = buffer_of(dispatcher, array)?;
                let tensor = tensor(&buffer, 0, array.element(), array.shape())?;
                encoder.set_tensor(i as u32, &tensor);
            }
        }
        for (i, output) in outputs.iter().enumerate() {
            let shape: &[usize] = if output.shape.is_empty() { &[1] } else { &output.shape };
            let tensor = tensor(&output.buffer, 0, output.element, shape)?;
            encoder.set_tensor((operands.len() + i) as u32, &tensor);
        }
        encoder.dispatch_threads(call.grid, call.threadgroup).map_err(fail)?;
        encoder.run().map_err(fail)?;
    }
    outputs.into_iter().map(Output::finish).collect()
}
