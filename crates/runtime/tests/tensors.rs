//! Tensors on the host: creation, slices, planes, and every refusal with its text.

use anymetal::{
    Attachments, AuxiliaryPlaneDescriptor, Device, ElementFormat, Error, Extents, PlaneType, StorageMode,
    TensorDescriptor,
};
use half::f16;

fn text<T>(result: anymetal::Result<T>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

fn mxfp8(dimensions: [usize; 2]) -> TensorDescriptor {
    TensorDescriptor::new(dimensions, ElementFormat::Fp8E4M3)
        .with_plane(PlaneType::Scales, AuxiliaryPlaneDescriptor::new())
}

#[test]
fn a_device_tensor_has_no_strides_and_no_buffer() {
    let device = Device::cpu();
    let tensor = device
        .new_tensor(&TensorDescriptor::new([5, 3], ElementFormat::I32))
        .unwrap();
    assert!(tensor.strides().is_none() && tensor.buffer(PlaneType::Data).is_none());
    assert_eq!(tensor.read_f32().unwrap(), [0.0; 15]);
    let strided = TensorDescriptor::new([5, 3], ElementFormat::I32).with_packed_strides();
    let error = device.new_tensor(&strided).unwrap_err();
    assert!(matches!(&error, Error::Descriptor(d) if d.code() == 2));
    assert_eq!(
        error.to_string(),
        "invalid tensor descriptor (MTLTensorDomain code 2): Strides should be nil for a tensor that the device \
         allocates; remove the strides, or create the tensor from a buffer"
    );
    let huge = TensorDescriptor::new([1 << 40, 1 << 15], ElementFormat::F32);
    assert!(device.new_tensor(&huge).is_err());
}

#[test]
fn resource_ids_are_distinct_and_not_null() {
    let device = Device::cpu();
    let new = || {
        device
            .new_tensor(&TensorDescriptor::new([1], ElementFormat::F32))
            .unwrap()
    };
    let (a, b) = (new(), new());
    assert!(a.resource_id() != 0 && a.resource_id() != b.resource_id());
    assert!(a.same_as(&a.clone()) && !a.same_as(&b));
}

#[test]
fn a_tensor_in_a_buffer_shares_its_bytes() {
    let device = Device::cpu();
    let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let buffer = device.new_buffer_with_slice(&values).unwrap();
    let descriptor = TensorDescriptor::new([5, 3, 2], ElementFormat::F32).with_strides([1, 8, 30]);
    let tensor = buffer.new_tensor(&descriptor, 8).unwrap();
    let expected = |x: usize, y: usize, z: usize| (2 + x + 8 * y + 30 * z) as f32;
    let all = tensor.read_f32().unwrap();
    for (i, value) in all.iter().enumerate() {
        assert_eq!(*value, expected(i % 5, i / 5 % 3, i / 15), "element {i}");
    }
    // A box in the middle, out and in again at another place.
    let mut part = [0f32; 2 * 2 * 2];
    tensor.get_slice(&mut part, &[1, 1, 0], &[2, 2, 2]).unwrap();
    assert_eq!(part[7], expected(2, 2, 1));
    tensor.replace_slice(&[7.5f32; 4], &[3, 0, 1], &[2, 2, 1]).unwrap();
    let back = buffer.to_vec::<f32>().unwrap();
    assert_eq!(back[2 + 3 + 30], 7.5);
    assert_eq!(back[2 + 4 + 8 + 30], 7.5);
    assert_eq!(back[2 + 2 + 30], values[2 + 2 + 30]);
    assert_eq!(back.iter().filter(|v| **v == 7.5).count(), 4);
    assert_eq!(
        tensor
            .buffer(PlaneType::Data)
            .map(|(b, offset)| (b.same_as(&buffer), offset)),
        Some((true, 8))
    );
}

#[test]
fn host_strides_leave_gaps_alone() {
    let device = Device::cpu();
    let tensor = device
        .new_tensor(&TensorDescriptor::new([3, 2], ElementFormat::F16))
        .unwrap();
    tensor.write_f32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let mut host = [f16::NEG_ONE; 8];
    let bytes = bytemuck::cast_slice_mut(&mut host);
    tensor
        .get_bytes(PlaneType::Data, &[0, 0], &[3, 2], bytes, Some(&[1, 5]))
        .unwrap();
    let host: Vec<f32> = host.iter().map(|v| v.to_f32()).collect();
    assert_eq!(host, [1.0, 2.0, 3.0, -1.0, -1.0, 4.0, 5.0, 6.0]);
}

#[test]
fn scalars_have_one_element() {
    let device = Device::cpu();
    let tensor = device
        .new_tensor(&TensorDescriptor::new([], ElementFormat::F32))
        .unwrap();
    tensor.write_f32(&[3.5]).unwrap();
    assert_eq!(tensor.read_f32().unwrap(), [3.5]);
    assert_eq!(tensor.rank(), 0);
}

#[test]
fn sub_byte_slices_are_whole_bytes() {
    let device = Device::cpu();
    let tensor = device
        .new_tensor(&TensorDescriptor::new([32, 2], ElementFormat::Int2B))
        .unwrap();
    tensor
        .replace_bytes(PlaneType::Data, &[4, 1], &[8, 1], &[0b01_10_11_00, 0xff], None)
        .unwrap();
    let values = tensor.read_f32().unwrap();
    assert_eq!(values[36..44], [0.0, -1.0, -2.0, 1.0, -1.0, -1.0, -1.0, -1.0]);
    assert!(values[..36].iter().chain(&values[44..]).all(|v| *v == 0.0));
    let mut out = [0; 2];
    assert_eq!(
        text(tensor.get_bytes(PlaneType::Data, &[2, 0], &[8, 1], &mut out, None)),
        "the slice's origin in dimension 0 is 2; with elements of int2 it must be a multiple of 4"
    );
    assert_eq!(
        text(tensor.get_bytes(PlaneType::Data, &[0, 0], &[6, 1], &mut out, None)),
        "the slice's size in dimension 0 is 6; with elements of int2 it must be a multiple of 4"
    );
}

#[test]
fn planes_have_coordinates_of_their_own() {
    let device = Device::cpu();
    let tensor = device.new_tensor(&mxfp8([64, 3])).unwrap();
    let values: Vec<f32> = (0..192).map(|i| (i as f32 - 96.0) * 0.125).collect();
    tensor.quantise(&values).unwrap();
    let back = tensor.dequantise().unwrap();
    for (x, y) in values.iter().zip(&back) {
        // Half a step of three mantissa bits, or the clamping of the MX rule at 448/512 of a binade.
        assert!((x - y).abs() <= x.abs() / 8.0 + 1e-6, "{x} became {y}");
    }
    let mut scales = [0; 2];
    tensor
        .get_bytes(PlaneType::Scales, &[0, 1], &[2, 1], &mut scales, None)
        .unwrap();
    assert_eq!(scales, tensor.read_plane(PlaneType::Scales).unwrap()[2..4]);
    assert_eq!(
        text(tensor.get_bytes(PlaneType::Scales, &[1, 0], &[2, 1], &mut scales, None)),
        "the slice reaches from 1 to 3 in dimension 0 of the scales plane, which has 2 elements there"
    );
    let plain = device
        .new_tensor(&TensorDescriptor::new([64, 3], ElementFormat::Fp8E4M3))
        .unwrap();
    assert_eq!(text(plain.quantise(&values)), "the tensor has no scales plane");
    assert_eq!(text(plain.dequantise()), "the tensor has no scales plane");
}

#[test]
fn attachments_place_each_plane() {
    let device = Device::cpu();
    let both = device.new_buffer(256 + 12).unwrap();
    let scales = device.new_buffer_with_slice(&[127u8, 128, 126, 127, 127, 127]).unwrap();
    let attachments = Attachments::new()
        .with(PlaneType::Data, &both, 0)
        .with(PlaneType::Scales, &scales, 0);
    let tensor = device
        .new_tensor_with_attachments(&mxfp8([64, 3]), &attachments)
        .unwrap();
    tensor.write_f32(&[1.0; 192]).unwrap();
    let values = tensor.dequantise().unwrap();
    assert_eq!((values[0], values[32], values[64], values[96]), (1.0, 2.0, 0.5, 1.0));
    assert_eq!(both.with_bytes(|b| b[0]), 0x38);
    let one = Attachments::new().with(PlaneType::Data, &both, 0);
    assert_eq!(
        text(device.new_tensor_with_attachments(&mxfp8([64, 3]), &one)),
        "invalid tensor descriptor (MTLTensorDomain code 2): the scales plane has no buffer attached"
    );
    let shifted = attachments.clone().with(PlaneType::Data, &both, 64);
    assert_eq!(
        text(device.new_tensor_with_attachments(&mxfp8([64, 3]), &shifted)),
        "invalid tensor descriptor (MTLTensorDomain code 2): the data plane of fp8_e4m3 starts at byte 64 of its \
         buffer; the offset must be a multiple of 128"
    );
}

#[test]
fn scales_with_host_strides_in_a_shared_buffer() {
    // Both planes in one buffer, the data rows with gaps, the scales packed behind them.
    let device = Device::cpu();
    let buffer = device.new_buffer(3 * 256 + 8).unwrap();
    let descriptor = mxfp8([64, 3]).with_strides([1, 256]);
    let attachments = Attachments::new()
        .with(PlaneType::Data, &buffer, 0)
        .with(PlaneType::Scales, &buffer, 640);
    let tensor = device.new_tensor_with_attachments(&descriptor, &attachments).unwrap();
    assert_eq!(tensor.buffer(PlaneType::Scales).unwrap().1, 640);
    // Rows of scales four elements apart on the host.
    let host = [10u8, 11, 99, 99, 20, 21, 99, 99, 30, 31];
    tensor
        .replace_bytes(PlaneType::Scales, &[0, 0], &[2, 3], &host, Some(&[1, 4]))
        .unwrap();
    assert_eq!(buffer.with_bytes(|b| b[640..646].to_vec()), [10, 11, 20, 21, 30, 31]);
    let mut back = [0u8; 5];
    tensor
        .get_bytes(PlaneType::Scales, &[1, 0], &[1, 2], &mut back, Some(&[1, 3]))
        .unwrap();
    assert_eq!(back, [11, 0, 0, 21, 0]);
    tensor.write_plane(PlaneType::Data, &[7; 192]).unwrap();
    assert_eq!(
        buffer.with_bytes(|b| (b[63], b[64], b[256], b[575], b[576])),
        (7, 0, 7, 7, 0)
    );
    assert_eq!(
        text(tensor.get_bytes(PlaneType::Scales, &[0, 0], &[2, 3], &mut [0; 9], Some(&[1, 1]))),
        "strides[1] of the host bytes is 1; it must be at least strides[0] times dimensions[0], 2"
    );
}

#[test]
fn attachments_are_set_got_and_reset() {
    let device = Device::cpu();
    let (a, b) = (device.new_buffer(512).unwrap(), device.new_buffer(512).unwrap());
    let mut attachments = Attachments::new();
    assert!(attachments.get(PlaneType::Data).is_none());
    attachments.set(PlaneType::Data, &a, 0);
    attachments.set(PlaneType::Data, &b, 128);
    let (buffer, offset) = attachments.get(PlaneType::Data).unwrap();
    assert!(buffer.same_as(&b) && offset == 128);
    attachments.reset();
    assert!(attachments.get(PlaneType::Data).is_none());
    assert_eq!(
        text(device.new_tensor_with_attachments(&mxfp8([64, 3]), &attachments)),
        "invalid tensor descriptor (MTLTensorDomain code 2): the data plane has no buffer attached"
    );
}

#[test]
fn private_tensors_are_for_kernels_only() {
    let device = Device::cpu();
    let descriptor = TensorDescriptor::new([4], ElementFormat::F32).with_storage_mode(StorageMode::Private);
    let tensor = device.new_tensor(&descriptor).unwrap();
    let refused = "the tensor's storage mode is private; only shared tensors can be read or written by the host, so use a \
                   kernel or make it shared";
    assert_eq!(text(tensor.read_f32()), refused);
    assert_eq!(text(tensor.write_f32(&[0.0; 4])), refused);
    assert_eq!(text(tensor.replace_slice(&[0f32], &[0], &[1])), refused);
    let options = anymetal::CompileOptions::default();
    let source = "#include <metal_stdlib>\n#include <metal_tensor>\nusing namespace metal;
        kernel void fill(tensor<device float, dextents<int, 1>> t [[buffer(0)]], uint i [[thread_position_in_grid]]) { t[int(i)] = i; }
        kernel void read(tensor<device float, dextents<int, 1>> t [[buffer(0)]], device float *o [[buffer(1)]],
                         uint i [[thread_position_in_grid]]) { o[i] = t[int(i)]; }";
    let library = device.new_library(source, "p.metal", &options).unwrap();
    let out = device.new_buffer(16).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder
        .set_pipeline(&library.pipeline("fill").unwrap())
        .set_tensor(0, &tensor);
    encoder.dispatch_threads([4, 1, 1], [32, 1, 1]).unwrap();
    encoder
        .set_pipeline(&library.pipeline("read").unwrap())
        .set_tensor(0, &tensor)
        .set_buffer(1, &out, 0);
    encoder.dispatch_threads([4, 1, 1], [32, 1, 1]).unwrap();
    encoder.run().unwrap();
    assert_eq!(out.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn error_numbers_are_metals() {
    let device = Device::cpu();
    let code = |descriptor: &TensorDescriptor| device.new_tensor(descriptor).unwrap_err().tensor_domain_code();
    assert_eq!(code(&TensorDescriptor::new([0], ElementFormat::F32)), Some(2));
    assert_eq!(code(&TensorDescriptor::new([1 << 56], ElementFormat::F32)), Some(1));
    let rank: Error = Extents::new(&[1; 17]).unwrap_err().into();
    assert_eq!(rank.tensor_domain_code(), Some(2));
    let tensor = device
        .new_tensor(&TensorDescriptor::new([1], ElementFormat::F32))
        .unwrap();
    assert_eq!(tensor.dequantise().unwrap_err().tensor_domain_code(), None);
}

#[test]
fn slices_that_do_not_fit() {
    let device = Device::cpu();
    let tensor = device
        .new_tensor(&TensorDescriptor::new([4, 3], ElementFormat::F32))
        .unwrap();
    let mut out = [0f32; 12];
    let get = |out: &mut [f32], origin: &[usize], size: &[usize]| text(tensor.get_slice(out, origin, size));
    assert_eq!(
        get(&mut out, &[0], &[4, 3]),
        "the tensor has 2 dimensions, but the slice's origin has 1"
    );
    assert_eq!(
        get(&mut out, &[0, 0], &[4, 3, 1]),
        "the tensor has 2 dimensions, but the slice's dimensions has 3"
    );
    assert_eq!(
        get(&mut out, &[0, 2], &[4, 2]),
        "the slice reaches from 2 to 4 in dimension 1 of the data plane, which has 3 elements there"
    );
    assert!(tensor.get_slice(&mut out, &[usize::MAX, 0], &[2, 1]).is_err());
    assert_eq!(
        get(&mut out[..11], &[0, 0], &[4, 3]),
        "the slice covers 48 bytes of host memory, 44 were given"
    );
    let strided = |out: &mut [f32], strides: &[usize]| {
        let bytes = bytemuck::cast_slice_mut(out);
        text(tensor.get_bytes(PlaneType::Data, &[0, 0], &[4, 3], bytes, Some(strides)))
    };
    assert_eq!(
        strided(&mut out, &[1, 3]),
        "strides[1] of the host bytes is 3; it must be at least strides[0] times dimensions[0], 4"
    );
    assert_eq!(
        strided(&mut out, &[1, 5]),
        "the slice covers 56 bytes of host memory, 48 were given"
    );
    assert_eq!(
        text(tensor.replace_slice(&[f16::ZERO; 24], &[0, 0], &[4, 3])),
        "the data plane holds f32, not elements of 2 bytes"
    );
    assert_eq!(
        text(tensor.write_f32(&[0.0; 11])),
        "the slice covers 48 bytes of host memory, 44 were given"
    );
    // An empty slice is nothing to do.
    tensor.get_slice::<f32>(&mut [], &[4, 0], &[0, 3]).unwrap();
}

#[test]
fn buffers_check_their_ranges() {
    let device = Device::cpu();
    let buffer = device.new_buffer(10).unwrap();
    assert_eq!(
        text(buffer.read_vec::<f32>(4, 2)),
        "2 elements of 4 bytes from byte 4 on do not lie inside the buffer of 10 bytes"
    );
    assert!(buffer.read_vec::<f32>(0, usize::MAX).is_err());
    assert!(buffer.to_vec::<f32>().is_err());
    assert_eq!(
        text(buffer.write(8, &[1u32])),
        "bytes 8 to 12 lie outside the memory, which has 10 bytes"
    );
    let owner = std::sync::Arc::new(vec![1u8, 2, 3]);
    let shared = device.new_buffer_no_copy(owner, 0..3).unwrap();
    assert_eq!(text(shared.write(0, &[0u8])), "the memory is read-only");
    assert_eq!(shared.to_vec::<u8>().unwrap(), [1, 2, 3]);
}
