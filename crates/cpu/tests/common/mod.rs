//! Helpers to build small kernels and to run them.
#![allow(dead_code)]

pub mod numbers;
pub mod tensors;

use std::sync::Arc;

use anymetal_cpu::{
    BoundArgument, CpuKernel, CpuOptions, DispatchError, DispatchOptions, DispatchReport, Fault, HostMemory, Launch,
    NoTensors,
};
use anymetal_ir::{
    Access, AddressSpace, Argument, ArgumentId, ArgumentKind, BinaryOp, Builder, Builtin, Kernel, MathMode, Op, Scalar,
    Type, ValueId,
};

/// A device buffer argument.
pub fn buffer(b: &mut Builder, name: &str, element_size: u32, access: Access) -> ArgumentId {
    let index = b.kernel().arguments.len() as u32;
    b.argument(Argument {
        name: name.to_string(),
        index,
        kind: ArgumentKind::Buffer {
            space: AddressSpace::Device,
            type_name: "float".to_string(),
            size: element_size,
            align: element_size,
            element_size,
            reference: false,
        },
        access,
    })
}

pub fn pointer(b: &mut Builder, argument: ArgumentId) -> ValueId {
    b.emit(Op::ArgumentPointer(argument), &[Type::Pointer(AddressSpace::Device)])
}

pub fn builtin(b: &mut Builder, which: Builtin) -> ValueId {
    b.emit(Op::Builtin(which), &[Scalar::U32.into()])
}

pub fn gid(b: &mut Builder) -> ValueId {
    builtin(b, Builtin::ThreadPositionInGrid(0))
}

/// `base + index · size`, for an index of any integer type.
pub fn element(b: &mut Builder, base: ValueId, index: ValueId, size: i64) -> ValueId {
    let wide = b.convert(index, Scalar::I64);
    let size = b.int(Scalar::I64, size);
    let offset = b.binary(BinaryOp::Mul, wide, size, MathMode::Precise);
    b.offset(base, offset)
}

pub fn load_at(b: &mut Builder, base: ValueId, index: ValueId, ty: Scalar) -> ValueId {
    let at = element(b, base, index, i64::from(ty.size()));
    b.load(at, ty, 1, ty.size())[0]
}

pub fn store_at(b: &mut Builder, base: ValueId, index: ValueId, value: ValueId) {
    let size = b.scalar(value).size();
    let at = element(b, base, index, i64::from(size));
    b.store(at, vec![value], size);
}

pub fn add(b: &mut Builder, x: ValueId, y: ValueId) -> ValueId {
    b.binary(BinaryOp::Add, x, y, MathMode::Precise)
}

pub fn u32c(b: &mut Builder, value: i64) -> ValueId {
    b.int(Scalar::U32, value)
}

pub fn memory<T: Copy>(values: &[T]) -> HostMemory {
    // SAFETY: plain numbers have no padding.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), std::mem::size_of_val(values)) };
    HostMemory::from_bytes(bytes).unwrap()
}

pub fn contents<T: Copy + Default>(memory: &HostMemory) -> Vec<T> {
    memory.with_bytes(|bytes| {
        let size = std::mem::size_of::<T>();
        bytes
            .chunks_exact(size)
            // SAFETY: any bits are a plain number, and the chunk has its size.
            .map(|chunk| unsafe { chunk.as_ptr().cast::<T>().read_unaligned() })
            .collect()
    })
}

pub fn compile(kernel: Kernel) -> CpuKernel {
    if let Err(errors) = anymetal_ir::verify(&kernel) {
        panic!("the test's kernel is malformed: {errors:?}");
    }
    CpuKernel::compile(Arc::new(kernel), &CpuOptions::default()).unwrap()
}

pub fn run_with(
    kernel: &CpuKernel,
    buffers: &[&HostMemory],
    launch: Launch,
    options: &DispatchOptions,
) -> Result<DispatchReport, DispatchError> {
    let arguments: Vec<BoundArgument> = buffers.iter().map(|memory| BoundArgument::buffer(memory)).collect();
    kernel.dispatch(&arguments, &launch, options, &NoTensors)
}

pub fn run(kernel: &CpuKernel, buffers: &[&HostMemory], threads: u32, group: u32) {
    run_with(
        kernel,
        buffers,
        Launch::threads([threads, 1, 1], [group, 1, 1]),
        &DispatchOptions::default(),
    )
    .unwrap();
}

pub fn fault(result: Result<DispatchReport, DispatchError>) -> Fault {
    match result {
        Err(DispatchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}
