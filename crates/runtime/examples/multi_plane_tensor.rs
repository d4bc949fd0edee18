//! A tensor with a plane of scale factors beside its data (MXFP8): the host side of the talk's listing "Declare a
//! multi-plane tensor with scale factors", first in memory of the device's, then over buffers of one's own.
//!
//!     cargo run -p anymetal --example multi_plane_tensor

use anymetal::{
    Attachments, AuxiliaryPlaneDescriptor, Device, ElementFormat, PlaneType, Result, TensorDescriptor, TensorUsage,
};

const COLUMNS: usize = 256;
const ROWS: usize = 16;

fn main() -> Result<()> {
    let device = Device::system_default();

    // One UE8M0 scale for 32 neighbours along dimension 0.
    let scales = AuxiliaryPlaneDescriptor::new()
        .with_data_type(ElementFormat::Fp8UE8M0)
        .with_block_factors([32, 1]);
    let descriptor = TensorDescriptor::new([COLUMNS, ROWS], ElementFormat::Fp8E4M3)
        .with_usage(TensorUsage::COMPUTE)
        .with_plane(PlaneType::Scales, scales);

    let tensor = device.new_tensor(&descriptor)?;
    for plane in tensor.planes() {
        println!(
            "{:>6}: {} of {}, {} bytes",
            plane.plane, plane.dimensions, plane.format, plane.byte_size
        );
    }

    // Values over many orders of magnitude: each block finds its own scale.
    let values: Vec<f32> = (0..COLUMNS * ROWS).map(|i| (i as f32 + 0.5).powi(3)).collect();
    tensor.quantise(&values)?;
    let back = tensor.dequantise()?;
    let error = values
        .iter()
        .zip(&back)
        .map(|(x, y)| ((x - y) / x).abs())
        .fold(0f32, f32::max);
    println!("largest relative error after quantisation: {error:.3}");

    // The same planes in buffers of one's own, as a model file would provide them.
    let data = device.new_buffer_with_bytes(&tensor.read_plane(PlaneType::Data)?)?;
    let factors = device.new_buffer_with_bytes(&tensor.read_plane(PlaneType::Scales)?)?;
    let attachments = Attachments::new()
        .with(PlaneType::Data, &data, 0)
        .with(PlaneType::Scales, &factors, 0);
    let shared = device.new_tensor_with_attachments(&descriptor, &attachments)?;
    assert_eq!(shared.dequantise()?, back);
    println!("the tensor over two buffers holds the same values");
    Ok(())
}
