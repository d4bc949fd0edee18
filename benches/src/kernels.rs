//! The kernels of `kernels/`, each bound once and dispatched again and again.

use anymetal_coreai::{Asset, Program};

use anymetal::{Buffer, CompileOptions, Device, ElementFormat, Library, Pipeline, Saturation, Size};

use crate::{Result, measure, random, report};

/// A file of `kernels/`.
pub(crate) fn library(device: &Device, file: &str) -> Result<Library> {
    let options = CompileOptions {
        include_dirs: vec!["kernels/include".into()],
        ..CompileOptions::default()
    };
    Ok(device.new_library_from_file(format!("kernels/{file}"), &options)?)
}

/// A kernel of a file of `kernels/`.
pub(crate) fn pipeline(device: &Device, file: &str, kernel: &str) -> Result<Pipeline> {
    Ok(library(device, file)?.pipeline(kernel)?)
}

/// A buffer of random elements.
pub(crate) fn filled(device: &Device, format: ElementFormat, count: usize, seed: u64) -> Result<Buffer> {
    Ok(device.new_buffer_with_bytes(&format.pack_f32(&random(count, seed), Saturation::Default))?)
}

/// Dispatches a kernel over bound buffers until the seconds are over.
pub(crate) fn time(
    seconds: f64,
    device: &Device,
    pipeline: &Pipeline,
    buffers: &[&Buffer],
    bytes: (u32, &[u8]),
    groups: impl Into<Size>,
    threads: impl Into<Size>,
) -> Result<Vec<std::time::Duration>> {
    let queue = device.new_queue();
    let (groups, threads) = (groups.into(), threads.into());
    measure(seconds, || {
        let mut encoder = queue.encoder();
        encoder.set_pipeline(pipeline);
        for (index, buffer) in buffers.iter().enumerate() {
            encoder.set_buffer(index as u32, buffer, 0);
        }
        encoder.set_bytes(bytes.0, bytes.1)?;
        encoder.dispatch_threadgroups(groups, threads)?;
        encoder.run()?;
        Ok(())
    })
}

/// The bytes of `int` arguments.
pub(crate) fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// GELU (exact) on 256 MiB.
pub fn gelu(seconds: f64) -> Result<()> {
    const COUNT: usize = 64 << 20;
    let device = Device::system_default();
    let pipeline = pipeline(&device, "gelu.metal", "gelu_f32")?;
    let (x, y) = (
        filled(&device, ElementFormat::F32, COUNT, 1)?,
        device.new_buffer(COUNT * 4)?,
    );
    let queue = device.new_queue();
    let times = measure(seconds, || {
        let mut encoder = queue.encoder();
        encoder
            .set_pipeline(&pipeline)
            .set_buffer(0, &x, 0)
            .set_buffer(1, &y, 0);
        for argument in pipeline.arguments().iter().filter(|argument| argument.index > 1) {
            encoder.set_bytes(argument.index, &(COUNT as u64).to_le_bytes())?;
        }
        encoder.dispatch_threads(COUNT, 256)?;
        encoder.run()?;
        Ok(())
    })?;
    report("gelu_f32", &COUNT.to_string(), times);
    Ok(())
}

/// RMSNorm with `simd_sum` on 256 MiB.
pub fn rms_norm(seconds: f64) -> Result<()> {
    const ROWS: usize = 16384;
    const COLUMNS: usize = 4096;
    let device = Device::system_default();
    let pipeline = pipeline(&device, "rms_norm.metal", "rms_norm_f32")?;
    let x = filled(&device, ElementFormat::F32, ROWS * COLUMNS, 1)?;
    let weight = filled(&device, ElementFormat::F32, COLUMNS, 2)?;
    let y = device.new_buffer(ROWS * COLUMNS * 4)?;
    let mut sizes = ints(&[COLUMNS as i32]);
    sizes.extend(1e-5f32.to_le_bytes());
    let times = time(
        seconds,
        &device,
        &pipeline,
        &[&x, &weight, &y],
        (3, &sizes),
        [ROWS, 1, 1],
        256,
    )?;
    report("rms_norm_f32", &format!("{ROWS}x{COLUMNS}"), times);
    Ok(())
}

/// From source to a pipeline that is ready to run: the FlashAttention kernel as an asset carries it (one kernel with its
/// helper source), and the whole of `kernels/flash_attention.metal` with all its instantiations.
pub fn compile(seconds: f64) -> Result<()> {
    let asset = Asset::open("models/demo.aimodel")?;
    let kernel = Program::new(asset.into_module())?
        .summary()
        .kernels
        .into_iter()
        .next()
        .ok_or("no kernel")?;
    let file = std::fs::read_to_string("kernels/flash_attention.metal")?;
    let options = CompileOptions {
        include_dirs: vec!["kernels/include".into()],
        ..CompileOptions::default()
    };
    for (shape, source, name) in [
        ("one kernel", &kernel.source, kernel.name.as_str()),
        ("all instantiations", &file, "flash_attention_f32_d64"),
    ] {
        let times = measure(seconds, || {
            // A new device has an empty cache.
            let device = Device::cpu();
            device
                .new_library(source, "flash_attention.metal", &options)?
                .pipeline(name)?;
            Ok(())
        })?;
        report("compile_flash_attention", shape, times);
    }
    Ok(())
}
