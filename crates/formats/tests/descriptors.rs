//! Every rule on descriptors, with the message that breaks it.

use anymetal_formats::ElementFormat::*;
use anymetal_formats::{
    AuxiliaryPlaneDescriptor, AuxiliaryPlanes, Extents, PlaneType, StorageMode, Strides, TensorDescriptor, TensorUsage,
};

fn scales() -> AuxiliaryPlaneDescriptor {
    AuxiliaryPlaneDescriptor::default()
}

fn refused(descriptor: TensorDescriptor) -> String {
    let error = descriptor.validate().unwrap_err();
    assert_eq!(error.code(), 2);
    error.to_string()
}

#[test]
fn defaults_are_metals() {
    let d = TensorDescriptor::default();
    assert_eq!(d.dimensions, Extents::from([1]));
    assert_eq!(d.data_type, F32);
    assert_eq!(d.usage.bits(), 3);
    assert!(d.strides.is_none() && !d.is_multi_plane());
    assert_eq!((d.storage_mode, d.storage_mode.host_value()), (StorageMode::Shared, 0));
    assert_eq!(scales().data_type, Fp8UE8M0);
    assert_eq!(scales().block_factors, Extents::from([32]));
    assert_eq!(format!("{:?}", d.usage), "{Compute, Render}");
    assert!(TensorUsage::from_bits(8).is_none());
}

#[test]
fn shapes() {
    assert_eq!(
        refused(TensorDescriptor::new([4, 0], F32)),
        "dimension 1 of the tensor is 0; every dimension must be greater than 0"
    );
    assert_eq!(
        refused(TensorDescriptor::new([usize::MAX / 8, 16], F32)),
        format!(
            "a tensor of dimensions [{}, 16] does not fit the address space",
            usize::MAX / 8
        )
    );
    assert_eq!(
        refused(TensorDescriptor::new([33, 2], Fp8E4M3)),
        "dimensions[0] is 33, but a tensor of fp8_e4m3 needs a multiple of 32 elements there; pad the innermost dimension"
    );
    assert_eq!(
        refused(TensorDescriptor::new([], Int4B)),
        "a tensor of rank 0 cannot have a format data type (int4); give it at least one dimension"
    );
    assert!(TensorDescriptor::new([], F32).validate().is_ok());
    assert_eq!(TensorDescriptor::new([], F32).device_layout().unwrap().byte_size, 4);
    assert!(TensorDescriptor::new([1; 16], U8).validate().is_ok());
}

#[test]
fn strides() {
    let new = |format| TensorDescriptor::new([64, 3, 2], format);
    assert_eq!(
        refused(new(F32).with_strides([1, 64])),
        "the tensor has 3 dimensions but 2 strides"
    );
    assert_eq!(
        refused(new(F32).with_strides([2, 128, 384])),
        "strides[0] is 2; it must be 1"
    );
    assert_eq!(
        refused(new(Int4B).with_strides([1, 64, 768])),
        "strides[1] is 64 elements of int4; it must be a multiple of 128 bytes (256 elements)"
    );
    assert!(new(Int4B).with_strides([1, 256, 768]).validate().is_ok());
    assert!(new(F32).with_strides([1, usize::MAX / 2, 1]).validate().is_err());
    let ml = |strides: [usize; 3]| new(F16).with_usage(TensorUsage::MACHINE_LEARNING).with_strides(strides);
    assert_eq!(
        refused(ml([1, 65, 195])),
        "strides[1] is 65 elements of f16; with machine-learning usage it must be a multiple of 64 bytes"
    );
    assert_eq!(
        refused(ml([1, 64, 200])),
        "strides[2] is 200; with machine-learning usage it must be strides[1] times dimensions[1], 192"
    );
    assert!(ml([1, 64, 192]).validate().is_ok());
    assert!(ml([1, 64, 192]).buffer_layout(0, 1 << 20).is_ok());
    assert_eq!(
        ml([1, 64, 192]).buffer_layout(128, 1 << 20).unwrap_err().to_string(),
        "a tensor with machine-learning usage must start at offset 0 of its buffer, not 128"
    );
}

#[test]
fn planes() {
    let new = |format| TensorDescriptor::new([64, 5], format);
    let with = |format, plane| new(format).with_plane(PlaneType::Scales, plane);
    assert_eq!(
        refused(with(F16, scales())),
        "a tensor with auxiliary planes needs elements of at most one byte, f16 has 2 bytes"
    );
    assert_eq!(
        refused(with(Fp8E4M3, scales().with_data_type(U8))),
        "the scales plane has data type u8; only fp8_ue8m0 is supported"
    );
    assert_eq!(
        refused(with(Fp8E4M3, scales().with_block_factors([16, 1]))),
        "block factor 0 of the scales plane is 16; it must be 32"
    );
    assert_eq!(
        refused(with(Fp8E4M3, scales().with_block_factors([32, 5]))),
        "block factor 1 of the scales plane is 5; it must be 1"
    );
    assert_eq!(
        refused(with(Fp8E4M3, scales().with_block_factors([32, 1, 1]))),
        "the scales plane has 3 block factors for a tensor of 2 dimensions"
    );
    assert_eq!(
        refused(new(Fp8E4M3).with_plane(PlaneType::Data, scales())),
        "the data plane cannot be an auxiliary plane; describe it with the tensor's data type"
    );
    assert_eq!(
        refused(with(Fp8E4M3, scales()).with_usage(TensorUsage::MACHINE_LEARNING)),
        "a tensor with auxiliary planes cannot have machine-learning usage"
    );
    assert_eq!(
        refused(TensorDescriptor::new([40, 5], U8).with_plane(PlaneType::Scales, scales())),
        "dimensions[0] is 40, which is not a multiple of the scales plane's block factor 32"
    );
    assert_eq!(
        refused(TensorDescriptor::new([], U8).with_plane(PlaneType::Scales, scales())),
        "a tensor of rank 0 cannot have auxiliary planes; give it at least one dimension"
    );
    assert!(with(I8, scales().with_block_factors([32, 1])).validate().is_ok());
}

#[test]
fn extents_and_plane_maps() {
    // Ranks 0 to 16; past the rank there is no extent (Metal answers −1).
    for rank in 0..=16 {
        let values: Vec<usize> = (1..=rank).collect();
        let extents = Extents::new(&values).unwrap();
        assert_eq!((extents.rank(), extents.extent(rank)), (rank, None));
        assert_eq!(extents.extent_at(rank), -1);
        for (d, &value) in values.iter().enumerate() {
            assert_eq!(extents.extent_at(d), value as i64);
        }
    }
    assert_eq!(
        Extents::new(&[1; 17]).unwrap_err().to_string(),
        "a tensor has at most 16 dimensions, 17 were given"
    );
    assert_eq!(Extents::from([usize::MAX]).extent_at(0), i64::MAX);
    let mut map = AuxiliaryPlanes::new();
    assert!(map.is_empty() && map.get(PlaneType::Scales).is_none());
    map.set(PlaneType::Scales, scales());
    map.set(PlaneType::Scales, scales().with_block_factors([32, 1]));
    assert_eq!(
        map.get(PlaneType::Scales).unwrap().block_factors,
        Extents::from([32, 1])
    );
    map.reset();
    assert!(map.is_empty() && map.get(PlaneType::Scales).is_none());
    assert_eq!((PlaneType::Data.host_value(), PlaneType::Scales.host_value()), (0, 1));
    assert_eq!(
        (
            TensorUsage::COMPUTE.bits(),
            TensorUsage::RENDER.bits(),
            TensorUsage::MACHINE_LEARNING.bits()
        ),
        (1, 2, 4)
    );
}

#[test]
fn private_tensors_have_no_buffer() {
    let d = TensorDescriptor::new([8], F32).with_storage_mode(StorageMode::Private);
    assert_eq!((d.storage_mode.host_value(), d.device_layout().is_ok()), (2, true));
    let error = d.with_packed_strides().buffer_layout(0, 32).unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (
            2,
            "a tensor in a buffer has the buffer's storage mode, shared, not private; let the device allocate private tensors"
        )
    );
}

#[test]
fn size_and_alignment_of_the_data_plane() {
    let text = |d: TensorDescriptor| d.size_and_align().unwrap_err().to_string();
    assert_eq!(
        text(TensorDescriptor::new([64, 5], F32)),
        "strides should not be nil for a tensor in a buffer; give one stride for each of its 2 dimensions"
    );
    let d = TensorDescriptor::new([64, 5], Fp4E2M1).with_strides([1, 256]);
    assert_eq!(d.size_and_align(), Ok((4 * 128 + 32, 128)));
    // Scales are not counted.
    assert_eq!(
        d.with_plane(PlaneType::Scales, scales()).size_and_align(),
        Ok((4 * 128 + 32, 128))
    );
    assert_eq!(
        TensorDescriptor::new([], U16).with_packed_strides().size_and_align(),
        Ok((2, 2))
    );
}

#[test]
fn device_layout() {
    let d = TensorDescriptor::new([64, 5], Fp4E2M1).with_plane(PlaneType::Scales, scales());
    let layout = d.device_layout().unwrap();
    assert_eq!(layout.data().byte_size, 160);
    let s = layout.plane(PlaneType::Scales).unwrap();
    assert_eq!((s.offset, s.byte_size), (256, 10));
    assert_eq!(s.dimensions, Extents::from([2, 5]));
    assert_eq!(s.strides, Strides::from([1, 2]));
    assert_eq!(s.block_factors, Extents::from([32, 1]));
    assert_eq!((layout.byte_size, layout.alignment), (266, 128));
    let error = TensorDescriptor::new([64], F32)
        .with_strides([1])
        .device_layout()
        .unwrap_err();
    assert_eq!(error.code(), 2);
    assert_eq!(
        error.to_string(),
        "Strides should be nil for a tensor that the device allocates; remove the strides, or create the tensor from a buffer"
    );
}

#[test]
fn buffer_layout() {
    let d = TensorDescriptor::new([5, 3], F32).with_strides([1, 8]);
    let layout = d.buffer_layout(4, 88).unwrap();
    assert_eq!((layout.data().offset, layout.data().byte_size), (4, 84));
    assert_eq!(d.size_and_align(), Ok((84, 4)));
    let text = |r: Result<_, anymetal_formats::DescriptorError>| r.unwrap_err().to_string();
    assert_eq!(
        text(d.buffer_layout(2, 88)),
        "the data plane of f32 starts at byte 2 of its buffer; the offset must be a multiple of 4"
    );
    assert_eq!(
        text(d.buffer_layout(8, 88)),
        "the data plane needs 84 bytes from byte 8 on, but its buffer has 88"
    );
    assert!(d.buffer_layout(usize::MAX - 3, 88).is_err());
    assert_eq!(
        text(TensorDescriptor::new([5, 3], F32).buffer_layout(0, 88)),
        "strides should not be nil for a tensor in a buffer; give one stride for each of its 2 dimensions"
    );
    let d = TensorDescriptor::new([128, 3], Fp8E4M3).with_packed_strides();
    assert_eq!(
        text(d.buffer_layout(64, 4096)),
        "the data plane of fp8_e4m3 starts at byte 64 of its buffer; the offset must be a multiple of 128"
    );
    assert_eq!(
        text(d.with_plane(PlaneType::Scales, scales()).buffer_layout(0, 4096)),
        "a tensor made from one buffer has only a data plane; use buffer attachments for auxiliary planes"
    );
}

#[test]
fn attachments() {
    let d = TensorDescriptor::new([128, 3], Fp8E4M3).with_plane(PlaneType::Scales, scales());
    let both = [(PlaneType::Data, 0, 384), (PlaneType::Scales, 128, 140)];
    let layout = d.attachments_layout(&both).unwrap();
    assert_eq!(layout.plane(PlaneType::Scales).unwrap().offset, 128);
    let text = |r: Result<_, anymetal_formats::DescriptorError>| r.unwrap_err().to_string();
    assert_eq!(
        text(d.attachments_layout(&both[..1])),
        "the scales plane has no buffer attached"
    );
    let plain = TensorDescriptor::new([128, 3], Fp8E4M3);
    assert_eq!(
        text(plain.attachments_layout(&both)),
        "a buffer is attached for the scales plane, but the descriptor has no such plane"
    );
    let strided = d.clone().with_strides([1, 256]);
    assert_eq!(
        text(strided.attachments_layout(&both)),
        "the data plane needs 640 bytes from byte 0 on, but its buffer has 384"
    );
    let small = [(PlaneType::Data, 0, 384), (PlaneType::Scales, 0, 11)];
    assert_eq!(
        text(d.attachments_layout(&small)),
        "the scales plane needs 12 bytes from byte 0 on, but its buffer has 11"
    );
}
