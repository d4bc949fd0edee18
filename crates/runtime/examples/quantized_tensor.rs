//! A tensor with a quantised data type, owned by the device: the host side of the talk's listing "Creating a tensor with
//! a quantized data type".
//!
//!     cargo run -p anymetal --example quantized_tensor

use anymetal::{Device, ElementFormat, PlaneType, Result, TensorDescriptor, TensorUsage};

const COLUMNS: usize = 128;
const ROWS: usize = 64;

fn main() -> Result<()> {
    let device = Device::system_default();

    // Dimensions are listed from the innermost: columns, then rows. Rows of a format type are whole groups of 32
    // elements.
    let descriptor = TensorDescriptor::new([COLUMNS, ROWS], ElementFormat::Fp8E4M3).with_usage(TensorUsage::COMPUTE);
    let tensor = device.new_tensor(&descriptor)?;

    // E4M3 has three mantissa bits, no infinity, and 448 as its largest value.
    let values: Vec<f32> = (0..COLUMNS * ROWS).map(|i| (i as f32 - 4096.0) / 8.0).collect();
    tensor.write_f32(&values)?;
    let rounded = tensor.read_f32()?;
    for i in [0, 1000, 4097, 5000, 8191] {
        println!("{:>9} is stored as {:>7}", values[i], rounded[i]);
    }
    let bytes = tensor.plane(PlaneType::Data).map_or(0, |plane| plane.byte_size);
    println!(
        "{COLUMNS} x {ROWS} elements in {bytes} bytes; as half they would take {}",
        COLUMNS * ROWS * 2
    );
    Ok(())
}
