//! What lives on lane loops: FlashAttention, and SIMT kernels without a matrix product.

use anymetal::{Device, ElementFormat, ExecutionOptions, FunctionConstants, Size};

use crate::kernels::{filled, ints, library, time};
use crate::{Result, report};

/// FlashAttention by eight SIMD-groups, 8 heads, not causal: lengths 1024 and 4096, head dimensions 64 and 128, in `f32` and `bf16`. The names
/// with `_fallback` answer the layout query of the second product with false, so P goes through threadgroup memory.
/// Only names and shapes that contain `wanted` are measured.
pub fn attention(seconds: f64, wanted: &str) -> Result<()> {
    const HEADS: usize = 8;
    let device = Device::system_default();
    let library = library(&device, "flash_attention.metal")?;
    for (name, format) in [("f32", ElementFormat::F32), ("bf16", ElementFormat::BF16)] {
        for (length, dim) in [(1024, 64), (1024, 128), (4096, 64), (4096, 128)] {
            let [q, k, v, o] = [1, 2, 3, 4].map(|seed| filled(&device, format, HEADS * length * dim, seed));
            let (q, k, v, o) = (q?, k?, v?, o?);
            let mut sizes = ints(&[length as i32, length as i32, HEADS as i32, HEADS as i32, 0]);
            sizes.extend((1.0 / (dim as f32).sqrt()).to_le_bytes());
            sizes.extend([0u8; 12]);
            let groups = [length / 128, HEADS, 1];
            for (suffix, fallback) in [("", false), ("_fallback", true)] {
                let name = format!("attention_{name}{suffix}");
                let shape = format!("{HEADS}x{length}x{dim}");
                if !format!("{name} {shape}").contains(wanted) {
                    continue;
                }
                let pipeline = library.pipeline_with(
                    &format!("flash_{}_d{dim}_x8", name.trim_end_matches("_fallback")),
                    &FunctionConstants::new(),
                    &ExecutionOptions::new().with_force_incompatible(fallback),
                )?;
                let buffers = [&q, &k, &v, &o];
                let times = time(seconds, &device, &pipeline, &buffers, (4, &sizes), groups, 256)?;
                report(&name, &shape, times);
            }
        }
    }
    Ok(())
}

/// Softmax of rows on 256 MiB.
pub fn softmax(seconds: f64) -> Result<()> {
    const ROWS: usize = 16384;
    const COLUMNS: usize = 4096;
    let device = Device::system_default();
    let pipeline = library(&device, "softmax.metal")?.pipeline("softmax_f32")?;
    let x = filled(&device, ElementFormat::F32, ROWS * COLUMNS, 1)?;
    let y = device.new_buffer(ROWS * COLUMNS * 4)?;
    let sizes = ints(&[COLUMNS as i32]);
    let times = time(seconds, &device, &pipeline, &[&x, &y], (2, &sizes), [ROWS, 1, 1], 256)?;
    report("softmax_f32", &format!("{ROWS}x{COLUMNS}"), times);
    Ok(())
}

/// Transpose through threadgroup memory on 64 MiB.
pub fn transpose(seconds: f64) -> Result<()> {
    const N: usize = 4096;
    let device = Device::system_default();
    let pipeline = library(&device, "transpose.metal")?.pipeline("transpose_f32")?;
    let x = filled(&device, ElementFormat::F32, N * N, 1)?;
    let y = device.new_buffer(N * N * 4)?;
    let sizes = ints(&[N as i32, N as i32]);
    let times = time(
        seconds,
        &device,
        &pipeline,
        &[&x, &y],
        (2, &sizes),
        [N / 64, N / 64, 1],
        Size::from([64, 4, 1]),
    )?;
    report("transpose_f32", &format!("{N}x{N}"), times);
    Ok(())
}
