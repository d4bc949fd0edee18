//! The CUDA device, on machines that have one; elsewhere every test says so and passes.

use anymetal::{
    Buffer, CommandEncoder, CompileOptions, Device, Error, ExecutionOptions, FunctionConstants, Library, Pipeline,
    TensorDescriptor,
};

const SOURCE: &str = "
#include <metal_stdlib>
#include <metal_tensor>
using namespace metal;

kernel void add(device float *x [[buffer(0)]], constant float &by [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    x[i] += by;
}

kernel void copy(device const float *from [[buffer(0)]], device float *to [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    to[i] = from[i];
}

kernel void reverse(device uint *x [[buffer(0)]], threadgroup uint *shared [[threadgroup(0)]],
                    uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
    shared[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[i] = shared[n - 1 - i];
}

kernel void table(constant tensor<device float, dextents<int, 1>> *tensors [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    tensors[i][int(i)] = 10.0f + float(i);
}
";

/// The first GPU; `None`, said once, where there is none.
fn gpu() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(why) => {
            eprintln!("not run: {why}");
            None
        }
    }
}

fn library(device: &Device) -> Library {
    device
        .new_library(SOURCE, "cuda.metal", &CompileOptions::default())
        .unwrap()
}

fn pipeline(device: &Device, kernel: &str, checked: bool) -> Pipeline {
    let options = ExecutionOptions::new().with_checked(checked);
    library(device)
        .pipeline_with(kernel, &FunctionConstants::new(), &options)
        .unwrap()
}

fn add(encoder: &mut CommandEncoder, pipeline: &Pipeline, x: &Buffer, by: f32) {
    encoder
        .set_pipeline(pipeline)
        .set_buffer(0, x, 0)
        .set_value(1, &by)
        .unwrap();
    encoder.dispatch_threads(x.length() / 4, 256).unwrap();
}

#[test]
fn without_a_gpu_the_error_says_what_is_missing() {
    if let Err(error) = Device::cuda(0) {
        let message = error.to_string();
        let known = [
            "no CUDA driver: ",
            "there is no CUDA device 0",
            "cannot be used",
            "is older than CUDA",
        ];
        assert!(matches!(error, Error::Device(_)), "{error:?}");
        assert!(known.iter().any(|words| message.contains(words)), "{message}");
        assert_eq!(Device::all().len(), 1);
    }
    assert!(Device::cuda(1000).is_err());
    let unknown = Device::by_name("cuda:x").unwrap_err().to_string();
    assert_eq!(unknown, "there is no device `cuda:x`: write cpu, cuda or cuda:N");
}

#[test]
fn dispatches_follow_each_other_and_buffers_stay() {
    let Some(device) = gpu() else { return };
    let add_pipeline = pipeline(&device, "add", false);
    let x = device.new_buffer_with_slice(&vec![1.0f32; 1000]).unwrap();
    for _ in 0..3 {
        let mut encoder = device.new_queue().encoder();
        for by in [1.0, 2.0, 3.0] {
            add(&mut encoder, &add_pipeline, &x, by);
        }
        let report = encoder.run().unwrap();
        assert_eq!(report.dispatches.len(), 3);
        assert!(
            report
                .dispatches
                .iter()
                .all(|d| d.path.starts_with("cuda sm_") && d.threadgroups == 4)
        );
        assert!(report.time().as_nanos() > 0);
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), vec![19.0; 1000]);
    // A part that the host writes goes over, the rest stays.
    x.write(40, &[100.0f32, 200.0]).unwrap();
    let mut encoder = device.new_queue().encoder();
    add(&mut encoder, &add_pipeline, &x, 1.0);
    let pending = encoder.commit();
    assert_eq!(x.read_vec::<f32>(36, 4).unwrap(), [20.0, 101.0, 201.0, 20.0]);
    pending.wait().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap()[999], 20.0);
}

#[test]
fn the_processor_and_the_gpu_take_turns() {
    let Some(gpu) = gpu() else { return };
    let cpu = Device::cpu();
    let x = cpu.new_buffer_with_slice(&vec![0.0f32; 64]).unwrap();
    for device in [&gpu, &cpu, &gpu, &gpu, &cpu] {
        let mut encoder = device.new_queue().encoder();
        add(&mut encoder, &pipeline(device, "add", false), &x, 1.0);
        encoder.run().unwrap();
    }
    assert_eq!(x.to_vec::<f32>().unwrap(), vec![5.0; 64]);
    let mut encoder = cpu.new_queue().encoder();
    encoder.set_pipeline(&pipeline(&gpu, "add", false)).set_buffer(0, &x, 0);
    encoder.set_value(1, &1.0f32).unwrap();
    let error = encoder.dispatch_threads(64, 64).err().unwrap().to_string();
    assert!(error.contains("made for cuda:0, the queue is one of cpu"), "{error}");
}

#[test]
fn large_copies_are_whole() {
    let Some(device) = gpu() else { return };
    // More than both halves of the pinned memory, and no multiple of anything.
    let count = 7_000_003;
    let values: Vec<f32> = (0..count).map(|i| (i % 65_521) as f32).collect();
    let from = device.new_buffer_with_slice(&values).unwrap();
    let to = device.new_buffer(count * 4).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&pipeline(&device, "copy", false))
        .set_buffer(0, &from, 0)
        .set_buffer(1, &to, 0);
    encoder.dispatch_threads(count, 256).unwrap();
    encoder.run().unwrap();
    assert!(to.to_vec::<f32>().unwrap() == values);
}

#[test]
fn graphs_run_again_and_see_what_the_host_wrote() {
    let Some(device) = gpu() else { return };
    for checked in [false, true] {
        let add_pipeline = pipeline(&device, "add", checked);
        let x = device.new_buffer_with_slice(&vec![0.0f32; 512]).unwrap();
        let mut encoder = device.new_queue().encoder();
        for by in [1.0, 10.0] {
            add(&mut encoder, &add_pipeline, &x, by);
        }
        let graph = encoder.finish().unwrap();
        assert_eq!(graph.len(), 2);
        for _ in 0..10 {
            graph.run().unwrap();
        }
        x.write(0, &[1000.0f32]).unwrap();
        let pending: Vec<_> = (0..3).map(|_| graph.commit()).collect();
        for pending in pending {
            assert!(pending.wait().unwrap().time().as_nanos() > 0);
        }
        let got = x.to_vec::<f32>().unwrap();
        assert_eq!((got[0], got[511]), (1033.0, 143.0));
        // After a turn on the processor the buffer is still where the graph expects it, or the graph follows it.
        let cpu = Device::cpu();
        let mut encoder = cpu.new_queue().encoder();
        add(&mut encoder, &pipeline(&cpu, "add", false), &x, 1.0);
        encoder.run().unwrap();
        graph.run().unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap()[511], 155.0);
    }
}

const LINEAR: &str = "
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void linear(device half *x [[buffer(0)]], device uchar *w [[buffer(1)]], device float *y [[buffer(2)]],
                   uint2 tgid [[threadgroup_position_in_grid]]) {
    tensor<device half, dextents<int, 2>, tensor_inline> left(x, dextents<int, 2>(1024, 4));
    tensor<device int4b_format, dextents<int, 2>, tensor_inline> right(w, dextents<int, 2>(1024, 256), array<int, 2>({1, 1024}));
    tensor<device float, dextents<int, 2>, tensor_inline> product(y, dextents<int, 2>(256, 4));
    auto right_tile = right.slice(0, tgid.x * 64);
    auto product_tile = product.slice(tgid.x * 64, 0);
    constexpr auto descriptor = matmul2d_descriptor(16, 64, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroups<8>> op;
    op.run(left, right_tile, product_tile);
}

kernel void fill(device uint *to [[buffer(0)]], constant uint &with [[buffer(1)]], uint i [[thread_position_in_grid]]) {
    to[i] = with;
}
";

#[test]
fn products_in_graphs_see_what_the_dispatch_in_front_wrote() {
    let Some(device) = gpu() else { return };
    let library = device
        .new_library(LINEAR, "linear.metal", &CompileOptions::default())
        .unwrap();
    let [linear, fill] = ["linear", "fill"].map(|name| library.pipeline(name).unwrap());
    let x = device.new_buffer(4 * 1024 * 2).unwrap();
    let w = device.new_buffer(256 * 1024 / 2).unwrap();
    let steps = 24u32;
    let y: Vec<Buffer> = (0..steps).map(|_| device.new_buffer(4 * 256 * 4).unwrap()).collect();
    let mut encoder = device.new_queue().encoder();
    let write = |encoder: &mut CommandEncoder, to: &Buffer, with: u32| {
        encoder.set_pipeline(&fill).set_buffer(0, to, 0);
        encoder.set_value(1, &with).unwrap();
        encoder.dispatch_threads(to.length() / 4, 256).unwrap();
    };
    // Weights and activations take turns as what is written directly in front of the product: (1 + step % 7) · 1.0, then · 2.0.
    for step in 0..steps {
        let code = 1 + step % 7;
        let (weights, activation) = (
            code * 0x1111_1111,
            if step % 2 == 0 { 0x3c00_3c00 } else { 0x4000_4000 },
        );
        if step % 3 == 0 {
            write(&mut encoder, &x, activation);
            write(&mut encoder, &w, weights);
        } else {
            write(&mut encoder, &w, weights);
            write(&mut encoder, &x, activation);
        }
        encoder
            .set_pipeline(&linear)
            .set_buffer(0, &x, 0)
            .set_buffer(1, &w, 0)
            .set_buffer(2, &y[step as usize], 0);
        encoder.dispatch_threadgroups(4, 256).unwrap();
    }
    let graph = encoder.finish().unwrap();
    for _ in 0..20 {
        graph.run().unwrap();
        for (step, y) in y.iter().enumerate() {
            let expected = 1024.0 * (1 + step % 7) as f32 * if step % 2 == 0 { 1.0 } else { 2.0 };
            let got = y.to_vec::<f32>().unwrap();
            assert!(
                got.iter().all(|&value| value == expected),
                "step {step}: {} and not {expected}",
                got[0]
            );
        }
    }
}

#[test]
fn threadgroup_memory_and_handles() {
    let Some(device) = gpu() else { return };
    let x = device.new_buffer_with_slice(&(0..512u32).collect::<Vec<_>>()).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&pipeline(&device, "reverse", false))
        .set_buffer(0, &x, 0)
        .set_threadgroup_memory_length(0, 2048);
    encoder.dispatch_threads(512, 512).unwrap();
    encoder.run().unwrap();
    assert_eq!(x.to_vec::<u32>().unwrap(), (0..512).rev().collect::<Vec<u32>>());

    let descriptor = TensorDescriptor::new([2], anymetal::ElementFormat::F32);
    let tensors = [
        device.new_tensor(&descriptor).unwrap(),
        device.new_tensor(&descriptor).unwrap(),
    ];
    let handles: Vec<u64> = tensors.iter().map(|tensor| tensor.resource_id()).collect();
    let mut encoder = device.new_queue().encoder();
    encoder.set_pipeline(&pipeline(&device, "table", false));
    encoder.set_buffer(0, &device.new_buffer_with_slice(&handles).unwrap(), 0);
    for tensor in &tensors {
        encoder.use_resource(tensor);
    }
    encoder.dispatch_threads(2, 32).unwrap();
    encoder.run().unwrap();
    assert_eq!(tensors[0].read_f32().unwrap(), [10.0, 0.0]);
    assert_eq!(tensors[1].read_f32().unwrap(), [0.0, 11.0]);
}

/// The same words as on the CPU; on a GPU everything inside the bounds is done.
#[test]
fn faults_in_checked_mode() {
    let Some(device) = gpu() else { return };
    let mut messages = Vec::new();
    for device in [Device::cpu(), device.clone()] {
        let x = device.new_buffer_with_slice(&vec![0.0f32; 100]).unwrap();
        let mut encoder = device.new_queue().encoder();
        encoder
            .set_pipeline(&pipeline(&device, "add", true))
            .set_buffer(0, &x, 0)
            .set_value(1, &1.0f32)
            .unwrap();
        // One thread too many, so that there is one fault.
        encoder.dispatch_threads(101, 32).unwrap();
        let error = encoder.run().unwrap_err();
        assert!(matches!(error, Error::Fault { .. }), "{error:?}");
        messages.push(error.to_string());
        // On the CPU a fault ends the dispatch, on a GPU the other threads go on.
        if device.gpu().is_some() {
            assert_eq!(x.to_vec::<f32>().unwrap(), vec![1.0; 100]);
        }
    }
    assert_eq!(messages[0], messages[1]);
    // The device goes on.
    let x = device.new_buffer_with_slice(&[1.0f32; 4]).unwrap();
    let mut encoder = device.new_queue().encoder();
    add(&mut encoder, &pipeline(&device, "add", true), &x, 1.0);
    encoder.run().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.0; 4]);
}

#[test]
fn out_of_memory_says_how_much() {
    let Some(device) = gpu() else { return };
    let total = device.gpu().unwrap().memory;
    // The host only reserves addresses for bytes that nobody touches; where it does not even do that, there is nothing to test.
    let Ok(x) = device.new_buffer(total as usize + (1 << 30)) else {
        return;
    };
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&pipeline(&device, "add", false))
        .set_buffer(0, &x, 0)
        .set_value(1, &1.0f32)
        .unwrap();
    encoder.dispatch_threads(1, 1).unwrap();
    let message = encoder.run().unwrap_err().to_string();
    assert!(message.starts_with("the GPU is out of memory: "), "{message}");
    assert!(
        message.contains(&format!("{} bytes were wanted", total + (1 << 30))),
        "{message}"
    );
    let small = device.new_buffer_with_slice(&[1.0f32]).unwrap();
    let mut encoder = device.new_queue().encoder();
    add(&mut encoder, &pipeline(&device, "add", false), &small, 1.0);
    encoder.run().unwrap();
    assert_eq!(small.to_vec::<f32>().unwrap(), [2.0]);
}

#[test]
fn what_only_the_cpu_has_is_refused() {
    let Some(device) = gpu() else { return };
    for (options, name) in [
        (ExecutionOptions::new().with_deterministic(true), "in order"),
        (ExecutionOptions::new().with_tensor_unit(true), "tensor unit"),
        (ExecutionOptions::new().with_instruction_budget(1), "budget"),
        (ExecutionOptions::new().with_count_traffic(true), "traffic"),
        (ExecutionOptions::new().with_permuted_layout(true), "layout"),
    ] {
        let error = library(&device)
            .pipeline_with("add", &FunctionConstants::new(), &options)
            .unwrap_err()
            .to_string();
        assert!(error.contains(name) && error.contains("CPU"), "{error}");
    }
}
