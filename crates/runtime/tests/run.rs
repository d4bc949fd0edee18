//! Whole ways from Metal source to results, through the public API only. Numbers are compared with f64.

use anymetal::{
    Attachments, AuxiliaryPlaneDescriptor, Buffer, CommandReport, CompileOptions, Device, ElementFormat, Error,
    ExecutionOptions, FunctionConstants, Library, PlaneType, Result, TensorDescriptor, TilePath,
};

const HEADER: &str = "#include <metal_stdlib>\n#include <metal_tensor>\n\
    #include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>\n\
    using namespace metal;\nusing namespace mpp::tensor_ops;\n";

fn library(device: &Device, body: &str) -> Library {
    let source = format!("{HEADER}{body}");
    device
        .new_library(&source, "test.metal", &CompileOptions::default())
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Values of modest size that no format of 16 bits holds exactly.
fn values(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// left (m × k) times right (k × n), row-major.
fn matmul(left: &[f32], right: &[f32], m: usize, n: usize, k: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            out[i * n + j] = (0..k)
                .map(|x| f64::from(left[i * k + x]) * f64::from(right[x * n + j]))
                .sum();
        }
    }
    out
}

fn assert_close(got: &[f32], wanted: &[f64], tolerance: f64) {
    assert_eq!(got.len(), wanted.len());
    for (i, (&g, &w)) in got.iter().zip(wanted).enumerate() {
        assert!((f64::from(g) - w).abs() <= tolerance, "element {i}: {g} instead of {w}");
    }
}

fn run_on(
    buffer: &Buffer,
    library: &Library,
    kernel: &str,
    n: usize,
    options: ExecutionOptions,
) -> Result<CommandReport> {
    let pipeline = library.pipeline_with(kernel, &FunctionConstants::new(), &options)?;
    let mut encoder = Device::cpu().new_queue().encoder();
    encoder.set_pipeline(&pipeline).set_buffer(0, buffer, 0);
    encoder.dispatch_threads(n, 64)?;
    encoder.run()
}

#[test]
fn a_partial_last_threadgroup_runs_only_its_threads() {
    let device = Device::cpu();
    let library = library(
        &device,
        "kernel void count(device uint *x [[buffer(0)]], uint i [[thread_position_in_grid]],
                           uint n [[threads_per_grid]]) { x[i] = i * 2 + n; }",
    );
    let buffer = device.new_buffer_with_slice(&[7u32; 150]).unwrap();
    let report = run_on(&buffer, &library, "count", 130, ExecutionOptions::new()).unwrap();
    let got = buffer.to_vec::<u32>().unwrap();
    for (i, value) in got.iter().enumerate() {
        assert_eq!(*value, if i < 130 { i as u32 * 2 + 130 } else { 7 }, "element {i}");
    }
    assert_eq!(report.dispatches[0].threadgroups, 3);
    assert_eq!(report.dispatches[0].threads, [130, 1, 1]);
    assert!(report.traffic().is_none());
}

#[test]
fn traffic_is_counted_when_asked_for() {
    let device = Device::cpu();
    let library = library(
        &device,
        "kernel void twice(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= 2.0f; }",
    );
    let buffer = device.new_buffer_with_slice(&[1.5f32; 100]).unwrap();
    let options = ExecutionOptions::new().with_count_traffic(true);
    let report = run_on(&buffer, &library, "twice", 100, options).unwrap();
    let traffic = report.traffic().unwrap();
    assert_eq!((traffic.device_read, traffic.device_written), (400, 400));
    assert_eq!(buffer.to_vec::<f32>().unwrap(), [3.0; 100]);
}

#[test]
fn each_dispatch_sees_what_the_one_before_wrote() {
    let device = Device::cpu();
    let library = library(
        &device,
        "kernel void add(device float *x [[buffer(0)]], constant float &a [[buffer(1)]],
                         uint i [[thread_position_in_grid]]) { x[i] += a; }
         kernel void square(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= x[i]; }",
    );
    assert_eq!(library.kernel_names(), ["add", "square"]);
    let x = device.new_buffer_with_slice(&[1.0f32, 2.0, 3.0]).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&library.pipeline("add").unwrap())
        .set_buffer(0, &x, 0);
    encoder.set_value(1, &1.0f32).unwrap().dispatch_threads(3, 32).unwrap();
    encoder.set_value(1, &0.5f32).unwrap().dispatch_threads(1, 32).unwrap();
    encoder
        .set_pipeline(&library.pipeline("square").unwrap())
        .set_buffer(0, &x, 4);
    encoder.dispatch_threads(2, 32).unwrap();
    let report = encoder.run().unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap(), [2.5, 9.0, 16.0]);
    let names: Vec<&str> = report.dispatches.iter().map(|d| d.kernel.as_str()).collect();
    assert_eq!(names, ["add", "add", "square"]);
}

#[test]
fn function_constants_choose_the_code() {
    let device = Device::cpu();
    let library = library(
        &device,
        "constant bool negate [[function_constant(0)]];
         constant int by [[function_constant(1)]];
         kernel void scale(device int *x [[buffer(0)]], uint i [[thread_position_in_grid]])
         { x[i] = negate ? -x[i] * by : x[i] * by; }",
    );
    let run = |negate: bool, by: i32| {
        let x = device.new_buffer_with_slice(&[1i32, 2, 3]).unwrap();
        let constants = FunctionConstants::new().with(0, negate).with(1, by);
        let pipeline = library
            .pipeline_with("scale", &constants, &ExecutionOptions::new())
            .unwrap();
        let mut encoder = device.new_queue().encoder();
        encoder
            .set_pipeline(&pipeline)
            .set_buffer(0, &x, 0)
            .dispatch_threads(3, 32)
            .unwrap();
        encoder.run().unwrap();
        x.to_vec::<i32>().unwrap()
    };
    assert_eq!(run(false, 5), [5, 10, 15]);
    assert_eq!(run(true, 2), [-2, -4, -6]);
}

#[test]
fn a_pipeline_needs_its_function_constants() {
    let device = Device::cpu();
    let library = library(
        &device,
        "constant bool negate [[function_constant(2)]]; constant int by [[function_constant(3)]];
         constant int more [[function_constant(4)]];
         kernel void k(device int *x [[buffer(0)]]) {
           x[0] = negate ? -by : 1;
           if (is_function_constant_defined(more)) x[0] += more;
         }",
    );
    let refuse = |constants| {
        let result = library.pipeline_with("k", &constants, &ExecutionOptions::new());
        result.err().map(|e| e.to_string())
    };
    let text = refuse(FunctionConstants::new()).expect("`negate` has no value");
    assert!(
        text.contains("error[E0775]: the function constant 'negate' (index 2, 'bool') has no value"),
        "{text}"
    );
    assert!(text.contains("--constant \"2=bool VALUE\""), "{text}");
    // `by` is read only if `negate` is true.
    let text = refuse(FunctionConstants::new().with(2, true)).expect("`by` has no value");
    assert!(
        text.contains("'by' (index 3, 'int')") && !text.contains("'negate'"),
        "{text}"
    );
    assert_eq!(refuse(FunctionConstants::new().with(2, false)), None);
    assert_eq!(refuse(FunctionConstants::new().with(2, true).with(3, 4)), None);
    // Inspecting needs no values.
    assert!(library.kernel("k", &FunctionConstants::new()).is_ok());
    assert!(library.check("k", &FunctionConstants::new()).is_ok());
}

#[test]
fn unknown_function_constants_are_refused() {
    let device = Device::cpu();
    let library = library(
        &device,
        "constant bool negate [[function_constant(2)]];
         kernel void k(device int *x [[buffer(0)]]) { x[0] = negate ? -1 : 1; }",
    );
    let refuse = |constants| {
        let result = library.pipeline_with("k", &constants, &ExecutionOptions::new());
        result.err().map(|e| e.to_string())
    };
    assert_eq!(
        refuse(FunctionConstants::new().with(0, true)).as_deref(),
        Some("kernel `k`: there is no function constant function_constant(0) (declared: 2: bool `negate`)")
    );
    assert_eq!(
        refuse(FunctionConstants::new().with_named("negat", true)).as_deref(),
        Some("kernel `k`: there is no function constant named `negat` (declared: 2: bool `negate`)")
    );
    assert_eq!(refuse(FunctionConstants::new().with_named("negate", true)), None);
}

#[test]
fn the_same_request_is_compiled_once() {
    let device = Device::cpu();
    let body = "kernel void k(device int *x [[buffer(0)]]) { x[0] = 1; }";
    let first = library(&device, body).pipeline("k").unwrap();
    let again = library(&device.clone(), body).pipeline("k").unwrap();
    assert!(std::sync::Arc::ptr_eq(first.ir(), again.ir()));
    let other = library(&Device::cpu(), body).pipeline("k").unwrap();
    assert!(!std::sync::Arc::ptr_eq(first.ir(), other.ir()));
}

#[test]
fn threadgroup_memory_of_the_dispatch() {
    let device = Device::cpu();
    let library = library(
        &device,
        "kernel void reverse(device int *x [[buffer(0)]], threadgroup int *t [[threadgroup(0)]],
                             uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]])
         { t[i] = x[i]; threadgroup_barrier(mem_flags::mem_threadgroup); x[i] = t[n - 1 - i]; }",
    );
    let pipeline = library.pipeline("reverse").unwrap();
    let run = |bytes: usize| {
        let x = device.new_buffer_with_slice(&(0..96i32).collect::<Vec<_>>()).unwrap();
        let mut encoder = device.new_queue().encoder();
        encoder
            .set_pipeline(&pipeline)
            .set_buffer(0, &x, 0)
            .set_threadgroup_memory_length(0, bytes);
        encoder.dispatch_threadgroups(1, 96)?;
        encoder.run()?;
        x.to_vec::<i32>()
    };
    assert_eq!(run(96 * 4).unwrap(), (0..96).rev().collect::<Vec<_>>());
    assert!(matches!(run(95 * 4), Err(Error::Fault { .. })));
}

#[test]
fn tensor_handles_in_a_matmul_of_ragged_shape() {
    let device = Device::cpu();
    let library = library(
        &device,
        "kernel void matmul(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                            tensor<device half, dextents<int, 2>> b [[buffer(1)]],
                            tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                            uint2 tgid [[threadgroup_position_in_grid]])
         {
             constexpr auto descriptor = matmul2d_descriptor(64, 32, dynamic_length_v<int>, false, false);
             matmul2d<descriptor, execution_simdgroups<4>> op;
             auto ta = a.slice(0, tgid.y * 64);
             auto tb = b.slice(tgid.x * 32, 0);
             auto tc = c.slice(tgid.x * 32, tgid.y * 64);
             op.run(ta, tb, tc);
         }",
    );
    let (m, n, k) = (83, 47, 101);
    let tensor = |x: usize, y: usize, format, v: Option<&[f32]>| {
        let t = device.new_tensor(&TensorDescriptor::new([x, y], format)).unwrap();
        if let Some(v) = v {
            t.write_f32(v).unwrap();
        }
        t
    };
    let a = tensor(k, m, ElementFormat::F16, Some(&values(m * k, 1)));
    let b = tensor(n, k, ElementFormat::F16, Some(&values(k * n, 2)));
    let wanted = matmul(&a.read_f32().unwrap(), &b.read_f32().unwrap(), m, n, k);
    for path in device.available_tile_paths() {
        let options = ExecutionOptions::new().with_tile_path(path.parse::<TilePath>().unwrap());
        let pipeline = library
            .pipeline_with("matmul", &FunctionConstants::new(), &options)
            .unwrap();
        assert_eq!(pipeline.required_simdgroups(), Some(4));
        let c = tensor(n, m, ElementFormat::F32, None);
        let mut encoder = device.new_queue().encoder();
        encoder
            .set_pipeline(&pipeline)
            .set_tensor(0, &a)
            .set_tensor(1, &b)
            .set_tensor(2, &c);
        encoder
            .dispatch_threadgroups([n.div_ceil(32), m.div_ceil(64)], 128)
            .unwrap();
        let report = encoder.run().unwrap();
        assert_eq!(report.dispatches[0].path, path);
        assert_close(&c.read_f32().unwrap(), &wanted, 1e-4);
    }
}

#[test]
fn multi_plane_tensors_in_a_matmul() {
    let device = Device::cpu();
    let library = library(
        &device,
        "using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;
         using mxfp8 = tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, scales>;
         kernel void matmul(mxfp8 a [[buffer(0)]], mxfp8 b [[buffer(1)]],
                            tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                            uint2 tgid [[threadgroup_position_in_grid]])
         {
             constexpr auto descriptor = matmul2d_descriptor(32, 32, dynamic_length_v<int>, false, true);
             matmul2d<descriptor, execution_simdgroups<4>> op;
             auto ta = a.slice(0, tgid.y * 32);
             auto tb = b.slice(0, tgid.x * 32);
             auto tc = c.slice(tgid.x * 32, tgid.y * 32);
             op.run(ta, tb, tc);
         }",
    );
    let (m, n, k) = (45, 70, 96);
    let mx = |rows: usize| {
        TensorDescriptor::new([k, rows], ElementFormat::Fp8E4M3).with_plane(
            PlaneType::Scales,
            AuxiliaryPlaneDescriptor::new().with_block_factors([32, 1]),
        )
    };
    // The left operand in the device's memory, the right one over two buffers.
    let a = device.new_tensor(&mx(m)).unwrap();
    a.quantise(&values(m * k, 3).iter().map(|v| v * 40.0).collect::<Vec<_>>())
        .unwrap();
    let (data, scales) = (
        device.new_buffer(k * n).unwrap(),
        device.new_buffer(k / 32 * n).unwrap(),
    );
    let planes = Attachments::new()
        .with(PlaneType::Data, &data, 0)
        .with(PlaneType::Scales, &scales, 0);
    let b = device.new_tensor_with_attachments(&mx(n), &planes).unwrap();
    b.quantise(&values(n * k, 4)).unwrap();
    let c = device
        .new_tensor(&TensorDescriptor::new([n, m], ElementFormat::F32))
        .unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder.set_pipeline(&library.pipeline("matmul").unwrap());
    encoder.set_tensor(0, &a).set_tensor(1, &b).set_tensor(2, &c);
    encoder
        .dispatch_threadgroups([n.div_ceil(32), m.div_ceil(32)], 128)
        .unwrap();
    encoder.run().unwrap();
    let (left, rows) = (a.dequantise().unwrap(), b.dequantise().unwrap());
    let right: Vec<f32> = (0..k * n).map(|i| rows[i % n * k + i / n]).collect();
    let wanted = matmul(&left, &right, m, n, k);
    assert_close(&c.read_f32().unwrap(), &wanted, 2e-3);
}

#[test]
fn handles_in_a_buffer_need_use_resource() {
    let device = Device::cpu();
    let library = library(
        &device,
        "struct Table { tensor<device float, dextents<int, 1>> t[2]; };
         kernel void gather(constant Table &table [[buffer(0)]], device float *out [[buffer(1)]],
                            uint i [[thread_position_in_grid]])
         { out[i] = table.t[0][i] + table.t[1][i]; }",
    );
    let pipeline = library.pipeline("gather").unwrap();
    let tensor = |v: &[f32]| {
        let t = device
            .new_tensor(&TensorDescriptor::new([3], ElementFormat::F32))
            .unwrap();
        t.write_f32(v).unwrap();
        t
    };
    let (x, y) = (tensor(&[1.0, 2.0, 3.0]), tensor(&[10.0, 20.0, 30.0]));
    let out = device.new_buffer(12).unwrap();
    let run = |resident: bool| {
        let mut encoder = device.new_queue().encoder();
        encoder
            .set_pipeline(&pipeline)
            .set_value(0, &[x.resource_id(), y.resource_id()])?
            .set_buffer(1, &out, 0);
        if resident {
            encoder.use_resource(&x).use_resource(&y);
        }
        encoder.dispatch_threads(3, 32)?;
        encoder.run()
    };
    let error = run(false).unwrap_err();
    assert!(matches!(error, Error::Fault { .. }), "{error}");
    run(true).unwrap();
    assert_eq!(out.to_vec::<f32>().unwrap(), [11.0, 22.0, 33.0]);
}

#[test]
fn a_fault_ends_the_dispatch_and_nothing_else() {
    let device = Device::cpu();
    let library = library(
        &device,
        "kernel void off_by_one(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]])\n{ x[i + 1] = 1.0f; }",
    );
    let buffer = device.new_buffer(64 * 4).unwrap();
    let error = run_on(&buffer, &library, "off_by_one", 64, ExecutionOptions::new()).unwrap_err();
    let Error::Fault { kernel, message } = &error else {
        panic!("{error}")
    };
    assert_eq!(kernel, "off_by_one");
    for part in [
        "'x'",
        "byte offset 256",
        "256 bytes",
        "index 64",
        "test.metal:7:",
        "thread (63, 0, 0)",
    ] {
        assert!(message.contains(part), "{part} is not in: {message}");
    }
    run_on(&buffer, &library, "off_by_one", 63, ExecutionOptions::new()).unwrap();
}

#[test]
fn endless_loops_can_be_bounded() {
    let device = Device::cpu();
    let library = library(
        &device,
        "kernel void spin(device volatile int *x [[buffer(0)]], uint i [[thread_position_in_grid]])
         { while (x[0] == 0) { x[1] += 1; } }",
    );
    let buffer = device.new_buffer(8).unwrap();
    let options = ExecutionOptions::new().with_instruction_budget(1_000_000);
    let error = run_on(&buffer, &library, "spin", 1, options).unwrap_err();
    assert!(error.to_string().contains("budget of 1000000 instructions"), "{error}");
}

#[test]
fn bad_source_and_unknown_kernels() {
    let device = Device::cpu();
    let bad = device.new_library(
        "kernel void k(device float *x) { x[0] = y; }",
        "bad.metal",
        &CompileOptions::default(),
    );
    let error = bad.unwrap_err();
    let Error::Compile(diagnostics) = &error else {
        panic!("{error}")
    };
    assert!(diagnostics.has_errors());
    assert!(error.to_string().contains("bad.metal:1:"), "{error}");
    let library = library(
        &device,
        "kernel void known(device float *x [[buffer(0)]]) { x[0] = 1.0f; }",
    );
    assert_eq!(
        library.pipeline("knwon").unwrap_err().to_string(),
        "test.metal has no kernel `knwon`; did you mean `known`? (it has: known)"
    );
    let missing = device.new_library_from_file("/nonexistent/k.metal", &CompileOptions::default());
    assert!(matches!(missing, Err(Error::ReadSource { .. })));
}
