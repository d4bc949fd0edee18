//! Weights decoded by kernels themselves: GGUF's Q4_1 and Q4_K and NVFP4, beside our own int4 and the memory's speed.

use std::time::Duration;

use anymetal::{Buffer, Device, ElementFormat, Queue};

use crate::kernels::{filled, ints, pipeline};
use crate::products::{WEIGHTS, packed_weights};
use crate::{Result, measure, report, report_peer};

const N: usize = 4096;

/// A kernel that decodes.
struct Case {
    name: &'static str,
    file: &'static str,
    /// Its name before the element type of X.
    kernel: &'static str,
    /// Bytes of a matrix, scales in a plane of their own not counted.
    bytes: usize,
    /// Bytes of that plane.
    scales: usize,
}

const Q4_1: usize = N * (N / 32) * 20;
const Q4_K: usize = N * (N / 256) * 144;
const E2M1: usize = N * N / 2;
const E4M3: usize = N * N / 16;

const fn case(name: &'static str, file: &'static str, kernel: &'static str, bytes: usize, scales: usize) -> Case {
    Case {
        name,
        file,
        kernel,
        bytes,
        scales,
    }
}

/// One row by 4096 × 4096 weights, over at least 1 GiB of them before the first ones come again; and 16 rows through a tile. Only names
/// and shapes that contain `wanted` are measured.
pub fn custom(seconds: f64, wanted: &str) -> Result<()> {
    let device = Device::system_default();
    let (weights, rate) = packed_weights(&device)?;
    let y = device.new_buffer(16 * N * 4)?;
    let x = filled(&device, ElementFormat::F16, 16 * N, 1)?;
    let queue = device.new_queue();
    let native = native(seconds, &device, &queue, [&x, &weights, &y])?;
    let native_rate = (N * N / 2) as f64 / native.as_secs_f64();
    for (rows, case) in [
        (1, case("q4_1", "gguf_matmul.metal", "q4_1_vector", Q4_1, 0)),
        (1, case("q4_k", "gguf_matmul.metal", "q4_k_vector", Q4_K, 0)),
        (1, case("nvfp4", "nvfp4_matmul.metal", "nvfp4_vector", E2M1, E4M3)),
        (16, case("q4_1", "gguf_matmul.metal", "q4_1_tile", Q4_1, 0)),
        (
            16,
            case("q4_1_cooperative", "gguf_matmul.metal", "q4_1_cooperative", Q4_1, 0),
        ),
        (16, case("q4_k", "gguf_matmul.metal", "q4_k_tile", Q4_K, 0)),
        (16, case("nvfp4", "nvfp4_matmul.metal", "nvfp4_tile", E2M1, E4M3)),
    ] {
        let (name, shape) = (format!("custom_{}", case.name), format!("{rows}x{N}x{N}"));
        if !format!("{name} {shape}").contains(wanted) {
            continue;
        }
        let kernel = pipeline(&device, case.file, &format!("{}_f16", case.kernel))?;
        let read = case.bytes + case.scales;
        let matrices = WEIGHTS / read;
        let mut sizes = ints(&[rows as i32, N as i32, N as i32]);
        sizes.extend(1f32.to_le_bytes());
        let (groups, threads) = match case.kernel.rsplit_once('_') {
            Some((_, "vector")) => ([N / 32, rows, 1], 128),
            Some((_, "tile")) => ([N / 64, rows.div_ceil(32), 1], 128),
            _ => ([N / 128, rows.div_ceil(16), 1], 128),
        };
        let mut matrix = 0;
        let times = measure(seconds / 2.0, || {
            matrix = (matrix + 1) % matrices;
            let mut encoder = queue.encoder();
            encoder
                .set_pipeline(&kernel)
                .set_buffer(0, &x, 0)
                .set_buffer(1, &weights, matrix * read);
            let mut next = 2;
            if case.scales > 0 {
                encoder.set_buffer(next, &weights, matrix * read + case.bytes);
                next += 1;
            }
            encoder.set_buffer(next, &y, 0);
            let size = if case.scales > 0 { sizes.len() } else { 12 };
            encoder.set_bytes(next + 1, &sizes[..size])?;
            encoder.dispatch_threadgroups(groups, threads)?;
            encoder.run()?;
            Ok(())
        })?;
        report(&name, &shape, times);
        report_peer(
            &name,
            &shape,
            Some("two-core read"),
            vec![Duration::from_secs_f64(read as f64 / rate)],
        );
        if rows == 1 {
            // The time in which our int4 goes through as many bytes.
            let as_native = Duration::from_secs_f64(read as f64 / native_rate);
            report_peer(&name, &shape, Some("our int4, per byte"), vec![as_native]);
        }
    }
    Ok(())
}

/// One row by int4 weights in `matmul2d`: the median.
fn native(seconds: f64, device: &Device, queue: &Queue, [x, weights, y]: [&Buffer; 3]) -> Result<Duration> {
    let kernel = pipeline(device, "quantised_linear.metal", "quantised_linear_int4_f16")?;
    let bytes = N * N / 2;
    let sizes = ints(&[1, N as i32, N as i32]);
    let mut matrix = 0;
    let mut times = measure(seconds / 2.0, || {
        matrix = (matrix + 1) % (WEIGHTS / bytes);
        let mut encoder = queue.encoder();
        encoder
            .set_pipeline(&kernel)
            .set_buffer(0, x, 0)
            .set_buffer(1, weights, matrix * bytes)
            .set_buffer(2, weights, 0)
            .set_buffer(3, y, 0);
        encoder.set_bytes(4, &sizes)?;
        encoder.dispatch_threadgroups([N / 128, 1, 1], 128)?;
        encoder.run()?;
        Ok(())
    })?;
    times.sort();
    Ok(times[times.len() / 2])
}
