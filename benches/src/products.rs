//! Matrix products: square ones in four types, MXFP8 beside bf16, and few rows by quantised weights.

use std::time::Duration;

use anymetal::{Buffer, Device, ElementFormat};

use crate::kernels::{filled, ints, pipeline, time};
use crate::{Result, bandwidth, measure, peak, report, report_peer};

/// A kernel of `kernels/matmul.metal` on square matrices in tiles of 128 × 128.
fn square(seconds: f64, device: &Device, kernel: &str, n: usize, [a, b, c]: [&Buffer; 3]) -> Result<Vec<Duration>> {
    const TILE: usize = 128;
    let pipeline = pipeline(device, "matmul.metal", &format!("matmul_{kernel}_{TILE}x{TILE}"))?;
    let mut sizes = ints(&[n as i32; 6]);
    sizes.extend([0u8; 24]);
    let groups = [n / TILE, n / TILE, 1];
    time(seconds, device, &pipeline, &[a, b, c], (3, &sizes), groups, 128)
}

/// `matmul2d` on 512³ and 2048³: f32, bf16, f16, and int8 into int32.
pub fn matmul(seconds: f64) -> Result<()> {
    let device = Device::system_default();
    for n in [512, 2048] {
        for (name, kernel, format) in [
            ("f32", "f32_nn", ElementFormat::F32),
            ("bf16", "bf16_nn", ElementFormat::BF16),
            ("f16", "f16_nn", ElementFormat::F16),
            ("i8", "i8_i32_nn", ElementFormat::I8),
        ] {
            let (a, b) = match format {
                ElementFormat::I8 => (bytes(&device, n * n, 1, |x| x)?, bytes(&device, n * n, 2, |x| x)?),
                _ => (filled(&device, format, n * n, 1)?, filled(&device, format, n * n, 2)?),
            };
            let c = device.new_buffer(n * n * 4)?;
            let times = square(seconds, &device, kernel, n, [&a, &b, &c])?;
            report(&format!("matmul_{name}"), &format!("{n}x{n}x{n}"), times);
        }
    }
    Ok(())
}

/// MXFP8 × MXFP8 (`kernels/mxfp8_matmul.metal`) at 2048³, beside our bf16 product of the same shape and layout.
pub fn mxfp8(seconds: f64) -> Result<()> {
    const N: usize = 2048;
    let device = Device::system_default();
    let shape = format!("{N}x{N}x{N}");
    let (a, b) = (e4m3(&device, N * N, 1)?, e4m3(&device, N * N, 2)?);
    let scales = scale_codes(&device, N * N / 32)?;
    let c = device.new_buffer(N * N * 4)?;
    let kernel = pipeline(&device, "mxfp8_matmul.metal", "mxfp8_matmul_inline_f32")?;
    let times = time(
        seconds,
        &device,
        &kernel,
        &[&a, &scales, &b, &scales, &c],
        (5, &ints(&[N as i32; 3])),
        [N / 64, N / 64, 1],
        128,
    )?;
    report("mxfp8_matmul", &shape, times);
    let [a, b] = [1, 2].map(|seed| filled(&device, ElementFormat::BF16, N * N, seed));
    let times = square(seconds, &device, "bf16_f32_nt", N, [&a?, &b?, &c])?;
    report_peer("mxfp8_matmul", &shape, Some("our bf16"), times);
    Ok(())
}

/// Bytes of weights that the products with few rows go through before they come back to the first ones.
pub(crate) const WEIGHTS: usize = 1 << 30;

/// [`WEIGHTS`] bytes of packed weights, and how many bytes of them two cores read in a second.
pub(crate) fn packed_weights(device: &Device) -> Result<(Buffer, f64)> {
    let words: Vec<u64> = (0..WEIGHTS as u64 / 8)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0x7777_7777_7777_7777)
        .collect();
    let rate = bandwidth::measure(&words);
    eprintln!("two-core read of {WEIGHTS} bytes: {:.2} GB/s", rate / 1e9);
    // No byte has its sign bit or all of its low bits set: none is a NaN in any format.
    let weights = device.new_buffer_with_bytes(&words.into_iter().flat_map(no_nan).collect::<Vec<u8>>())?;
    Ok((weights, rate))
}

/// `kernels/quantised_linear.metal` with 1, 4 and 16 rows and weights of 4096 × 4096. The peers are memory itself, how long two
/// cores take to read the packed weights, and the multipliers: how long they take at their peak.
pub fn linear(seconds: f64) -> Result<()> {
    const N: usize = 4096;
    let device = Device::system_default();
    let (weights, rate) = packed_weights(&device)?;
    let y = device.new_buffer(16 * N * 4)?;
    let x = filled(&device, ElementFormat::F16, 16 * N, 1)?;
    let queue = device.new_queue();
    let path = device.tile_path();
    let multiplying = peak::measure(&path);
    if let Some(rate) = multiplying {
        eprintln!("two-core multiplication: {:.1} G multiply-adds a second", rate / 1e9);
    }
    for (name, format) in [
        ("int4", ElementFormat::Int4B),
        ("mxfp4", ElementFormat::Fp4E2M1),
        ("mxfp8", ElementFormat::Fp8E4M3),
    ] {
        let kernel = pipeline(
            &device,
            "quantised_linear.metal",
            &format!("quantised_linear_{name}_f16"),
        )?;
        let bytes = format.bytes_for(N * N);
        let matrices = WEIGHTS / bytes;
        let scales = scale_codes(&device, N * N / 32 * matrices)?;
        let read = if name == "int4" { bytes } else { bytes + N * N / 32 };
        for rows in [1usize, 4, 16] {
            let sizes = ints(&[rows as i32, N as i32, N as i32]);
            let mut matrix = 0;
            let times = measure(seconds / 2.0, || {
                matrix = (matrix + 1) % matrices;
                let mut encoder = queue.encoder();
                encoder
                    .set_pipeline(&kernel)
                    .set_buffer(0, &x, 0)
                    .set_buffer(1, &weights, matrix * bytes)
                    .set_buffer(2, &scales, matrix * (N * N / 32))
                    .set_buffer(3, &y, 0);
                encoder.set_bytes(4, &sizes)?;
                encoder.dispatch_threadgroups([N / 128, 1, 1], 128)?;
                encoder.run()?;
                Ok(())
            })?;
            let (name, shape) = (format!("linear_{name}"), format!("{rows}x{N}x{N}"));
            report(&name, &shape, times);
            let bound = Duration::from_secs_f64(read as f64 / rate);
            report_peer(&name, &shape, Some("two-core read"), vec![bound]);
            if let Some(rate) = multiplying {
                let bound = Duration::from_secs_f64(peak::multiply_adds(&path, rows, N * N) / rate);
                report_peer(&name, &shape, Some("two-core multiplication"), vec![bound]);
            }
        }
    }
    Ok(())
}

/// Spreads a word over its bytes, signs included, without a byte that is a NaN in E4M3.
fn no_nan(word: u64) -> [u8; 8] {
    let signs = word.wrapping_mul(0xd6e8_feb8_6659_fd93) & 0x8888_8888_8888_8888;
    let bytes = (word | signs).to_le_bytes();
    bytes.map(|byte| if byte & 0x7f == 0x7f { byte ^ 1 } else { byte })
}

fn bytes(device: &Device, count: usize, seed: u64, code: impl Fn(u8) -> u8) -> Result<Buffer> {
    let bytes: Vec<u8> = crate::random(count, seed)
        .into_iter()
        .map(|x| code(((x + 1.0) * 127.99) as u8))
        .collect();
    Ok(device.new_buffer_with_bytes(&bytes)?)
}

/// E4M3 codes, no NaN among them.
fn e4m3(device: &Device, count: usize, seed: u64) -> Result<Buffer> {
    bytes(device, count, seed, |x| if x & 0x7f == 0x7f { x ^ 1 } else { x })
}

/// UE8M0 codes from 125 to 129: factors from ¼ to 4.
fn scale_codes(device: &Device, count: usize) -> Result<Buffer> {
    let codes: Vec<u8> = (0..count).map(|i| 125 + (i * 7 % 5) as u8).collect();
    Ok(device.new_buffer_with_bytes(&codes)?)
}
