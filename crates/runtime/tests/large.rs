//! Tensors and buffers of more than 2^31 elements, of which only a few pages are ever touched, and indices that no memory has.

use anymetal::{
    AuxiliaryPlaneDescriptor, Buffer, CompileOptions, Device, ElementFormat, Error, Pipeline, PlaneType, Tensor,
    TensorDescriptor,
};

const SOURCE: &str = r#"
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void through_tensor(tensor<device uchar, dextents<int, 2>> t [[buffer(0)]],
                           device const int *at [[buffer(1)]],
                           uint i [[thread_position_in_grid]])
{
    int x = at[2 * i], y = at[2 * i + 1];
    t[x, y] = t[x, y] + 1;
}

kernel void through_inline(device uchar *p [[buffer(0)]],
                           device const long *at [[buffer(1)]],
                           device long *size [[buffer(2)]],
                           uint i [[thread_position_in_grid]])
{
    tensor<device uchar, dextents<long, 1>, tensor_inline> t(p, dextents<long, 1>(size[0]));
    t[at[i]] = t[at[i]] + 1;
}

kernel void through_pointer(device uchar *p [[buffer(0)]],
                            device const long *at [[buffer(1)]],
                            uint i [[thread_position_in_grid]])
{
    p[at[i]] += 1;
}

kernel void through_words(device uint *p [[buffer(0)]],
                          device const long *at [[buffer(1)]],
                          uint i [[thread_position_in_grid]])
{
    p[at[i]] += 1;
}

kernel void through_two_steps(device uint *p [[buffer(0)]],
                              device const long *at [[buffer(1)]],
                              uint i [[thread_position_in_grid]])
{
    device uint *q = p + at[0];
    q += at[1];
    q[i] += 1;
}

kernel void by_line(device uint *p [[buffer(0)]], constant ulong &start [[buffer(1)]], uint i [[thread_position_in_grid]])
{
    p[start + i] += 1;
}

using scales = tensor_blockwise<tensor_plane_scales, device metal_fp8_ue8m0_format, 32, 1>;

kernel void product(tensor<device half, dextents<int, 2>> a [[buffer(0)]],
                    tensor<device metal_fp8_e4m3_format, dextents<int, 2>, tensor_handle, scales> b [[buffer(1)]],
                    tensor<device float, dextents<int, 2>> c [[buffer(2)]],
                    constant int &row [[buffer(3)]])
{
    constexpr auto descriptor = matmul2d_descriptor(16, 32, dynamic_length_v<int>, false, true);
    matmul2d<descriptor, execution_simdgroups<4>> op;
    auto right = b.slice(0, row);
    op.run(a, right, c);
}
"#;

fn pipeline(name: &str) -> Pipeline {
    let library = Device::cpu().new_library(SOURCE, "large.metal", &CompileOptions::default());
    library
        .unwrap_or_else(|e| panic!("{e}"))
        .pipeline(name)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Four gibibytes that cost nothing until they are touched; `None` where the system does not give out so much address space.
fn four_gibibytes() -> Option<Buffer> {
    match Device::cpu().new_buffer(1 << 32) {
        Ok(buffer) => Some(buffer),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn byte(buffer: &Buffer, at: usize) -> u8 {
    buffer.with_bytes(|bytes| bytes[at])
}

/// Runs a kernel on `threads` threads over a buffer and some indices.
fn run(name: &str, buffer: &Buffer, at: &[i64], threads: usize) -> Result<(), Error> {
    let device = Device::cpu();
    let at = device.new_buffer_with_slice(at)?;
    let size = device.new_buffer_with_slice(&[buffer.length() as i64])?;
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&pipeline(name))
        .set_buffer(0, buffer, 0)
        .set_buffer(1, &at, 0);
    if name == "through_inline" {
        encoder.set_buffer(2, &size, 0);
    }
    encoder.dispatch_threads([threads, 1, 1], [32, 1, 1])?;
    encoder.run().map(|_| ())
}

#[test]
fn tensors_of_more_than_2_31_elements() {
    let Some(buffer) = four_gibibytes() else { return };
    // 2^32 elements, rows of 2^16.
    let (columns, rows) = (1 << 16, 1 << 16);
    let descriptor = TensorDescriptor::new([columns, rows], ElementFormat::U8).with_packed_strides();
    let tensor = buffer.new_tensor(&descriptor, 0).unwrap();
    assert_eq!(tensor.element_count(), 1 << 32);
    let places = [
        (0, 0),
        (columns - 1, 32767),
        (0, 32768),
        (5, 65535),
        (columns - 1, rows - 1),
    ];
    for (i, &(x, y)) in places.iter().enumerate() {
        tensor.replace_slice(&[i as u8 + 10], &[x, y], &[1, 1]).unwrap();
        assert_eq!(byte(&buffer, y * columns + x), i as u8 + 10);
    }
    let device = Device::cpu();
    let at: Vec<i32> = places.iter().flat_map(|&(x, y)| [x as i32, y as i32]).collect();
    let at = device.new_buffer_with_slice(&at).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&pipeline("through_tensor"))
        .set_tensor(0, &tensor)
        .set_buffer(1, &at, 0);
    encoder.dispatch_threads([places.len(), 1, 1], [32, 1, 1]).unwrap();
    encoder.run().unwrap();
    for (i, &(x, y)) in places.iter().enumerate() {
        let mut value = [0u8];
        tensor.get_slice(&mut value, &[x, y], &[1, 1]).unwrap();
        assert_eq!(value[0], i as u8 + 11, "element {x}, {y}");
    }
    // The same bytes through pointers and an inline tensor with 64-bit indices.
    let at: Vec<i64> = places.iter().map(|&(x, y)| (y * columns + x) as i64).collect();
    run("through_pointer", &buffer, &at, at.len()).unwrap();
    run("through_inline", &buffer, &at, at.len()).unwrap();
    for (i, &at) in at.iter().enumerate() {
        assert_eq!(byte(&buffer, at as usize), i as u8 + 13);
    }
    // A strided view whose last row lies beyond 2^31 elements.
    let strided = TensorDescriptor::new([3, 2], ElementFormat::U8).with_strides([1, (1 << 32) - 8]);
    let tensor = buffer.new_tensor(&strided, 0).unwrap();
    tensor.write_f32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    assert_eq!(byte(&buffer, (1 << 32) - 6), 6);
    assert_eq!(tensor.read_f32().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

fn tensor(descriptor: &TensorDescriptor) -> Option<Tensor> {
    match Device::cpu().new_tensor(descriptor) {
        Ok(tensor) => Some(tensor),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

#[test]
fn sub_byte_tensors_of_2_33_elements() {
    for (format, per_byte) in [
        (ElementFormat::Int4B, 2),
        (ElementFormat::UInt2B, 4),
        (ElementFormat::Fp4E2M1, 2),
    ] {
        let (columns, rows) = (1 << 17, 1 << 16);
        let descriptor = TensorDescriptor::new([columns, rows], format);
        let Some(tensor) = tensor(&descriptor) else { return };
        let (x, y) = (columns - per_byte, rows - 1);
        tensor
            .replace_bytes(PlaneType::Data, &[x, y], &[per_byte, 1], &[0xe4], None)
            .unwrap();
        tensor
            .replace_bytes(PlaneType::Data, &[x, y / 2], &[per_byte, 1], &[0x1b], None)
            .unwrap();
        let mut last = [0; 2];
        tensor
            .get_bytes(PlaneType::Data, &[x - per_byte, y], &[2 * per_byte, 1], &mut last, None)
            .unwrap();
        assert_eq!(last, [0, 0xe4], "{format}");
        tensor
            .get_bytes(
                PlaneType::Data,
                &[x - per_byte, y / 2],
                &[2 * per_byte, 1],
                &mut last,
                None,
            )
            .unwrap();
        assert_eq!(last, [0, 0x1b], "{format}");
    }
}

#[test]
fn a_product_with_scales_beyond_2_31_elements() {
    let (k, rows) = (64, 1 << 26);
    let scales = AuxiliaryPlaneDescriptor::new().with_block_factors([32, 1]);
    let descriptor = TensorDescriptor::new([k, rows], ElementFormat::Fp8E4M3).with_plane(PlaneType::Scales, scales);
    let Some(b) = tensor(&descriptor) else { return };
    let device = Device::cpu();
    let new = |dimensions: [usize; 2], format| device.new_tensor(&TensorDescriptor::new(dimensions, format)).unwrap();
    let (a, c) = (new([k, 16], ElementFormat::F16), new([32, 16], ElementFormat::F32));
    let left: Vec<f32> = (0..k * 16).map(|i| (i % 17) as f32 - 8.0).collect();
    a.write_f32(&left).unwrap();
    // The last 27 rows, so that five columns of the result lie past the end and stay as they are.
    let (row, used) = (rows - 27, 27);
    let right: Vec<f32> = (0..k * used).map(|i| ((i % 13) as f32 - 6.0) * 0.5).collect();
    let quantised = anymetal::quantise::quantise(&right, &[k, used].into(), ElementFormat::Fp8E4M3).unwrap();
    b.replace_bytes(PlaneType::Data, &[0, row], &[k, used], &quantised.data, None)
        .unwrap();
    b.replace_bytes(PlaneType::Scales, &[0, row], &[k / 32, used], &quantised.scales, None)
        .unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&pipeline("product"))
        .set_tensor(0, &a)
        .set_tensor(1, &b)
        .set_tensor(2, &c);
    encoder.set_value(3, &(row as i32)).unwrap();
    encoder.dispatch_threadgroups([1, 1, 1], [128, 1, 1]).unwrap();
    encoder.run().unwrap();
    let back = quantised.dequantise().unwrap();
    let result = c.read_f32().unwrap();
    for m in 0..16 {
        for n in 0..32 {
            let exact = (0..k).map(|i| {
                if n < used {
                    f64::from(left[m * k + i]) * f64::from(back[n * k + i])
                } else {
                    0.0
                }
            });
            let exact: f64 = exact.sum();
            assert!(
                (f64::from(result[m * 32 + n]) - exact).abs() < 1e-3,
                "{m} {n}: {} {exact}",
                result[m * 32 + n]
            );
        }
    }
}

#[test]
fn indices_that_would_wrap_are_faults() {
    let device = Device::cpu();
    let buffer = device.new_buffer(4096).unwrap();
    let fault = |name: &str, at: &[i64]| match run(name, &buffer, at, at.len()) {
        Err(Error::Fault { message, .. }) => message,
        other => panic!("{name} {at:?}: {other:?}"),
    };
    // Times four (or modulo 2^48) each of these is the offset of an element that exists.
    for at in [
        1i64 << 62,
        1 << 61,
        1 << 46,
        (1 << 46) + 5,
        i64::MIN,
        -(1 << 62),
        -(1 << 46),
        (1 << 62) + 3,
        i64::MAX,
    ] {
        let message = fault("through_words", &[at]);
        assert!(message.contains("out-of-bounds"), "{at}: {message}");
        // Beside lanes that are right, so that the addresses form no line.
        let message = fault("through_words", &[0, 7, 1, at]);
        assert!(message.contains("out-of-bounds"), "{at}: {message}");
    }
    for at in [1i64 << 48, -(1 << 48), (1 << 48) + 5, 1 << 62, i64::MIN] {
        fault("through_pointer", &[at]);
        fault("through_pointer", &[3, at, 9]);
        fault("through_inline", &[at]);
        fault("through_inline", &[3, at, 9]);
    }
    fault("through_two_steps", &[1 << 45, 1 << 45]);
    fault("through_two_steps", &[1 << 62, 1 << 62]);
    for start in [1u64 << 62, 1 << 63, (1 << 46) - 3, u64::MAX - 5, 1 << 61] {
        let mut encoder = device.new_queue().encoder();
        encoder.set_pipeline(&pipeline("by_line")).set_buffer(0, &buffer, 0);
        encoder.set_value(1, &start).unwrap();
        encoder.dispatch_threads([5, 1, 1], [32, 1, 1]).unwrap();
        assert!(matches!(encoder.run(), Err(Error::Fault { .. })), "{start}");
    }
    // An inline tensor that claims more than its memory has.
    let at = device.new_buffer_with_slice(&[5000i64]).unwrap();
    let size = device.new_buffer_with_slice(&[i64::MAX]).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&pipeline("through_inline"))
        .set_buffer(0, &buffer, 0)
        .set_buffer(1, &at, 0)
        .set_buffer(2, &size, 0);
    encoder.dispatch_threads([1, 1, 1], [32, 1, 1]).unwrap();
    assert!(matches!(encoder.run(), Err(Error::Fault { .. })));
}
