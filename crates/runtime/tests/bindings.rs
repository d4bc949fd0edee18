//! Wrong arguments, grids and threadgroups: each refusal with its exact text. The kernel is built as IR; its body is
//! empty, for nothing here gets as far as running.

use std::sync::Arc;

use anymetal::ir::{
    self, Access, AddressSpace, Argument, ArgumentKind, Kernel, LocationId, MemoryObject, Scalar, TensorSpec,
};
use anymetal::{
    AuxiliaryPlaneDescriptor, CommandEncoder, Device, ElementFormat, ExecutionOptions, Pipeline, PlaneType, Tensor,
    TensorDescriptor,
};

fn argument(name: &str, index: u32, access: Access, kind: ArgumentKind) -> Argument {
    Argument {
        name: name.to_owned(),
        index,
        kind,
        access,
    }
}

fn buffer(space: AddressSpace, type_name: &str, size: u32, reference: bool) -> ArgumentKind {
    let (type_name, align) = (type_name.to_owned(), size.min(16));
    ArgumentKind::Buffer {
        space,
        type_name,
        size,
        align,
        element_size: 4,
        reference,
    }
}

fn tensor(format: ElementFormat, extents: &[Option<u64>], scale_block: Option<Vec<u32>>) -> ArgumentKind {
    ArgumentKind::Tensor(TensorSpec {
        format,
        space: AddressSpace::Device,
        extents: extents.to_vec(),
        index: Scalar::I32,
        scale_block,
    })
}

/// `matmul(tensor a [[buffer(0)]], device float* x [[buffer(1)]], constant Params& p [[buffer(2)]], threadgroup float* t)`.
fn kernel() -> Kernel {
    let mut kernel = Kernel {
        name: "matmul".to_owned(),
        ..Kernel::default()
    };
    kernel.arguments = vec![
        argument(
            "a",
            0,
            Access::ReadOnly,
            tensor(ElementFormat::F16, &[Some(64), None], None),
        ),
        argument(
            "x",
            1,
            Access::ReadWrite,
            buffer(AddressSpace::Device, "float", 4, false),
        ),
        argument(
            "p",
            2,
            Access::ReadOnly,
            buffer(AddressSpace::Constant, "Params", 32, true),
        ),
        argument(
            "t",
            0,
            Access::ReadWrite,
            ArgumentKind::Threadgroup { size: 4, align: 4 },
        ),
    ];
    kernel
}

struct Fixture {
    device: Device,
    pipeline: Pipeline,
}

impl Fixture {
    fn new(kernel: Kernel) -> Self {
        let device = Device::cpu();
        let pipeline = device
            .new_pipeline_from_ir(Arc::new(kernel), &ExecutionOptions::default())
            .unwrap();
        Self { device, pipeline }
    }

    fn tensor(&self, descriptor: TensorDescriptor) -> Tensor {
        self.device.new_tensor(&descriptor).unwrap()
    }

    /// An encoder with everything bound as it should be.
    fn bound(&self) -> CommandEncoder {
        let mut encoder = self.device.new_queue().encoder();
        encoder.set_pipeline(&self.pipeline);
        encoder.set_tensor(0, &self.tensor(TensorDescriptor::new([64, 3], ElementFormat::F16)));
        encoder.set_buffer(1, &self.device.new_buffer(256).unwrap(), 0);
        encoder.set_value(2, &[0u32; 8]).unwrap();
        encoder.set_threadgroup_memory_length(0, 1024);
        encoder
    }
}

fn refused(encoder: &mut CommandEncoder) -> String {
    match encoder.dispatch_threads(64, 32) {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_right_arguments_are_taken() {
    let f = Fixture::new(kernel());
    f.bound().dispatch_threads(64, 32).unwrap();
    f.bound().dispatch_threadgroups([2, 2], [32, 2, 1]).unwrap();
}

#[test]
fn reflection() {
    let f = Fixture::new(kernel());
    let names: Vec<&str> = f.pipeline.arguments().iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["a", "x", "p", "t"]);
    let a = f.pipeline.argument("a").unwrap();
    assert_eq!(
        (a.ty.rank(), a.ty.element_format()),
        (Some(2), Some(ElementFormat::F16))
    );
    assert_eq!((a.binding(), a.access), ("buffer(0)".to_owned(), Access::ReadOnly));
    let shown: Vec<String> = f.pipeline.arguments().iter().map(|a| a.ty.to_string()).collect();
    assert_eq!(
        shown,
        [
            "a tensor of half (rank 2)",
            "a buffer (`device float*`)",
            "a buffer (`constant Params&`)",
            "threadgroup memory"
        ]
    );
}

#[test]
fn argument_count() {
    let f = Fixture::new(kernel());
    let mut encoder = f.device.new_queue().encoder();
    assert_eq!(
        refused(&mut encoder),
        "no pipeline is set; call `set_pipeline` before the dispatch"
    );
    encoder.set_pipeline(&f.pipeline);
    encoder.set_buffer(1, &f.device.new_buffer(256).unwrap(), 0);
    assert_eq!(
        refused(&mut encoder),
        "kernel `matmul` takes 4 arguments, 1 bound: `a` at buffer(0) (a tensor of half (rank 2)) is missing"
    );
    let mut encoder = f.bound();
    encoder.set_value(3, &1u32).unwrap();
    assert_eq!(
        refused(&mut encoder),
        "kernel `matmul` takes 4 arguments and has none at buffer(3), but something is bound there"
    );
    let mut encoder = f.bound();
    encoder.set_threadgroup_memory_length(1, 16);
    assert_eq!(
        refused(&mut encoder),
        "kernel `matmul` takes 4 arguments and has none at threadgroup(1), but something is bound there"
    );
    let mut unused = kernel();
    unused.arguments[0].access = Access::Unused;
    let f = Fixture::new(unused);
    let mut encoder = f.device.new_queue().encoder();
    encoder
        .set_pipeline(&f.pipeline)
        .set_buffer(1, &f.device.new_buffer(8).unwrap(), 0);
    encoder
        .set_value(2, &[0u32; 8])
        .unwrap()
        .set_threadgroup_memory_length(0, 16);
    encoder.dispatch_threads(64, 32).unwrap();
}

#[test]
fn argument_kind() {
    let f = Fixture::new(kernel());
    let mut encoder = f.bound();
    encoder.set_buffer(0, &f.device.new_buffer(256).unwrap(), 0);
    assert_eq!(
        refused(&mut encoder),
        "argument `a` of kernel `matmul` at buffer(0) is a tensor of half (rank 2), but a buffer is bound there"
    );
    let mut encoder = f.bound();
    encoder.set_tensor(1, &f.tensor(TensorDescriptor::new([4], ElementFormat::F32)));
    assert_eq!(
        refused(&mut encoder),
        "argument `x` of kernel `matmul` at buffer(1) is a buffer (`device float*`), but a tensor is bound there"
    );
}

#[test]
fn tensor_type_rank_and_extents() {
    let f = Fixture::new(kernel());
    let with = |descriptor| {
        let mut encoder = f.bound();
        encoder.set_tensor(0, &f.tensor(descriptor));
        refused(&mut encoder)
    };
    assert_eq!(
        with(TensorDescriptor::new([64, 3], ElementFormat::F32)),
        "argument `a` of kernel `matmul` at buffer(0) is a tensor of f16 (half), the bound tensor has f32 (float)"
    );
    assert_eq!(
        with(TensorDescriptor::new([64, 3, 1], ElementFormat::F16)),
        "argument `a` of kernel `matmul` at buffer(0) is a tensor of rank 2, the bound tensor has rank 3 (dimensions \
         [64, 3, 1], innermost first)"
    );
    assert_eq!(
        with(TensorDescriptor::new([32, 3], ElementFormat::F16)),
        "argument `a` of kernel `matmul` at buffer(0) has the static extent 64 in dimension 0, the bound tensor has \
         32 there (dimensions [32, 3], innermost first)"
    );
    let mut encoder = f.bound();
    encoder.set_null_tensor(0);
    encoder.dispatch_threads(64, 32).unwrap();
}

#[test]
fn scale_planes() {
    let mut scaled = kernel();
    scaled.arguments[0].kind = tensor(ElementFormat::Fp8E4M3, &[None, None], Some(vec![32, 1]));
    let f = Fixture::new(scaled);
    let plain = TensorDescriptor::new([64, 3], ElementFormat::Fp8E4M3);
    let mut encoder = f.bound();
    encoder.set_tensor(0, &f.tensor(plain.clone()));
    assert_eq!(
        refused(&mut encoder),
        "argument `a` of kernel `matmul` at buffer(0) has a scales plane with blocks [32, 1], but the bound tensor has \
         no scales plane"
    );
    encoder.set_tensor(
        0,
        &f.tensor(plain.with_plane(PlaneType::Scales, AuxiliaryPlaneDescriptor::new())),
    );
    encoder.dispatch_threads(64, 32).unwrap();
}

#[test]
fn buffer_ranges() {
    let f = Fixture::new(kernel());
    let memory = f.device.new_buffer(256).unwrap();
    let with = |index, offset| {
        let mut encoder = f.bound();
        encoder.set_buffer(index, &memory, offset);
        refused(&mut encoder)
    };
    assert_eq!(
        with(1, 6),
        "argument `x` of kernel `matmul` at buffer(1) is bound at byte 6, but `float` must be aligned to 4 bytes"
    );
    assert_eq!(
        with(1, 260),
        "argument `x` of kernel `matmul` at buffer(1) is bound at byte 260 of a buffer of 256 bytes"
    );
    assert_eq!(
        with(2, 240),
        "argument `p` of kernel `matmul` at buffer(2) is a `Params` of 32 bytes, but only 16 bytes are bound"
    );
    let shared = f.device.new_buffer_no_copy(Arc::new(vec![0u8; 64]), 0..64).unwrap();
    let mut encoder = f.bound();
    encoder.set_buffer(1, &shared, 0);
    assert_eq!(
        refused(&mut encoder),
        "argument `x` of kernel `matmul` at buffer(1) is written, but the memory bound there is read-only"
    );
}

#[test]
fn grids_and_threadgroups() {
    let mut limited = kernel();
    limited.max_threads = Some(128);
    limited.memory = vec![MemoryObject {
        name: "tile".to_owned(),
        space: AddressSpace::Threadgroup,
        size: 32000,
        align: 16,
        element_size: 4,
        data: Vec::new(),
    }];
    let f = Fixture::new(limited);
    assert_eq!(f.pipeline.max_total_threads_per_threadgroup(), 128);
    assert_eq!(f.pipeline.static_threadgroup_memory_length(), 32000);
    let refuse = |grid: [usize; 3], threadgroup: [usize; 3]| {
        let mut encoder = f.bound();
        encoder.set_threadgroup_memory_length(0, 512);
        match encoder.dispatch_threadgroups(grid, threadgroup) {
            Ok(_) => panic!("an error was expected"),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(
        refuse([1, 0, 1], [32, 1, 1]),
        "kernel `matmul`: the grid size is (1, 0, 1); every dimension must be at least 1"
    );
    assert_eq!(
        refuse([1, 1, 1], [0, 1, 1]),
        "kernel `matmul`: the threadgroup size is (0, 1, 1); every dimension must be at least 1"
    );
    assert_eq!(
        refuse([1, 1, 1], [16, 16, 1]),
        "kernel `matmul`: a threadgroup of (16, 16, 1) has 256 threads, but max_total_threads_per_threadgroup allows 128"
    );
    assert_eq!(
        refuse([1 << 31, 1, 1], [32, 1, 1]),
        "kernel `matmul`: the grid (2147483648, 1, 1) is too large; positions in the grid have 32 bits"
    );
    assert_eq!(
        refused(&mut f.bound()),
        "kernel `matmul` uses 33024 bytes of threadgroup memory (32000 declared, 1024 set by the dispatch), the device \
         has 32768"
    );
    let f = Fixture::new(kernel());
    let error = f.bound().dispatch_threads(4096, [1024, 2]).err().map(|e| e.to_string());
    assert_eq!(
        error.as_deref(),
        Some("kernel `matmul`: a threadgroup of (1024, 2, 1) has 2048 threads, but the device allows 1024")
    );
}

#[test]
fn execution_simdgroups() {
    let mut kernel = kernel();
    let location = kernel.locations.add(ir::Location {
        file: 0,
        line: 12,
        column: 5,
        inlined_at: None,
    });
    kernel.locations.files[0] = "k.metal".to_owned();
    kernel.required_simdgroups = vec![(4, location)];
    let f = Fixture::new(kernel.clone());
    assert_eq!(f.pipeline.required_simdgroups(), Some(4));
    let refuse = |threads: usize| f.bound().dispatch_threadgroups(1, threads).err().map(|e| e.to_string());
    assert_eq!(refuse(128), None);
    assert_eq!(
        refuse(64).as_deref(),
        Some(
            "kernel `matmul`: an operation of scope execution_simdgroups<4> at k.metal:12:5 needs threadgroups of exactly \
             4 SIMD-groups (128 threads), but the threadgroup size (64, 1, 1) makes 2 SIMD-groups"
        )
    );
    assert_eq!(
        refuse(100).as_deref(),
        Some(
            "kernel `matmul`: an operation of scope execution_simdgroups<4> at k.metal:12:5 needs threadgroups of exactly \
             4 SIMD-groups (128 threads), but the threadgroup size (100, 1, 1) makes 4 SIMD-groups, the last one partial"
        )
    );
    kernel.required_simdgroups = vec![(2, LocationId::default())];
    let f = Fixture::new(kernel);
    let error = f.bound().dispatch_threadgroups(1, 32).err().map(|e| e.to_string());
    assert_eq!(
        error.as_deref(),
        Some(
            "kernel `matmul`: an operation of scope execution_simdgroups<2> needs threadgroups of exactly 2 SIMD-groups \
             (64 threads), but the threadgroup size (32, 1, 1) makes 1 SIMD-group"
        )
    );
}
