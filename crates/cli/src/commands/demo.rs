//! `anymetal demo`: what the repository ships, run and checked.
//!
//! Three parts: the talk's quantised matrix product, FlashAttention fused against unfused, and a PyTorch model exported
//! with that attention kernel inside it. Each result is compared with a reference that shares no code with the executor.

use std::path::{Path, PathBuf};

use anymetal::{
    AuxiliaryPlaneDescriptor, Buffer, CompileOptions, Device, DispatchReport, ElementFormat, ExecutionOptions,
    FunctionConstants, Library, PlaneType, TensorDescriptor, Traffic,
};
use anymetal_coreai::{Array, ModelOptions};

use super::{Outcome, bytes, milliseconds, text};
use crate::npy;
use crate::spec::reference::{Attention, Values};

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Options {
    /// Where it runs: cpu, cuda, cuda:N
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const ATTENTION_HEADER: &str = include_str!("../../../../kernels/include/anymetal/flash_attention.h");
const FLASH_ATTENTION: &str = include_str!("../../../../kernels/flash_attention.metal");
const UNFUSED: &str = include_str!("../../../../kernels/attention_unfused.metal");
const SOFTMAX: &str = include_str!("../../../../kernels/softmax.metal");
const REDUCE_HEADER: &str = include_str!("../../../../kernels/include/anymetal/threadgroup_reduce.h");
const MXFP8: &str = include_str!("../../../../kernels/mxfp8_matmul.metal");

/// What one part came to.
struct Part {
    title: &'static str,
    what: Vec<String>,
    /// Largest difference from the reference, and what is allowed.
    error: f64,
    allowed: f64,
    reference: &'static str,
    path: String,
    ms: f64,
    traffic: Vec<(&'static str, Traffic)>,
}

/// Runs the demo.
pub fn run(options: &Options) -> Outcome {
    let device = Device::by_name(&options.device).map_err(text)?;
    if !options.json {
        println!(
            "anymetal on {} ({} {}), {}{}",
            device.name(),
            device.cores(),
            if device.gpu().is_some() {
                "multiprocessors"
            } else {
                "cores"
            },
            if device.gpu().is_some() { "" } else { "tile path " },
            device.tile_path()
        );
    }
    let mut fine = true;
    let mut all = Vec::new();
    for part in [quantised_matmul, attention, model] {
        let part = part(&device)?;
        fine &= part.error <= part.allowed;
        if options.json {
            all.push(json(&part));
        } else {
            print(&part);
        }
    }
    if options.json {
        println!("{}", serde_json::json!({"ok": fine, "parts": all}));
    } else if fine {
        println!("\nAll three agree with their references.");
    }
    Ok(fine)
}

fn print(part: &Part) {
    println!("\n{}", part.title);
    for line in &part.what {
        println!("  {line}");
    }
    let verdict = if part.error <= part.allowed { "ok" } else { "WRONG" };
    println!("  time        {:.2} ms on the {} path", part.ms, part.path);
    println!(
        "  difference  {:.1e} from {} (allowed {:.0e}): {verdict}",
        part.error, part.reference, part.allowed
    );
    for (name, traffic) in part
        .traffic
        .iter()
        .filter(|(_, traffic)| *traffic != Traffic::default())
    {
        println!(
            "  {name:<11} device memory {} read, {} written; threadgroup memory {} read, {} written",
            bytes(traffic.device_read),
            bytes(traffic.device_written),
            bytes(traffic.threadgroup_read),
            bytes(traffic.threadgroup_written)
        );
    }
}

fn json(part: &Part) -> serde_json::Value {
    let traffic: Vec<_> = part
        .traffic
        .iter()
        .map(|(name, t)| {
            serde_json::json!({
                "name": name, "device_read": t.device_read, "device_written": t.device_written,
                "threadgroup_read": t.threadgroup_read, "threadgroup_written": t.threadgroup_written,
            })
        })
        .collect();
    serde_json::json!({
        "title": part.title, "what": part.what, "difference": part.error, "allowed": part.allowed,
        "reference": part.reference, "path": part.path, "ms": part.ms, "traffic": traffic,
    })
}

/// Numbers in [−1, 1), the same each time.
fn random(count: usize, seed: u64) -> Vec<f32> {
    let format = ElementFormat::F32;
    let fill = crate::spec::Fill::Random { seed, range: None };
    // A random fill reads no file and cannot fail.
    fill.values(format, count, Path::new(""))
        .unwrap_or_default()
        .iter()
        .map(|&value| value as f32)
        .collect()
}

fn library(device: &Device, source: &str, name: &str) -> Result<Library, String> {
    let mut options = CompileOptions::default();
    for (file, header) in [
        ("anymetal/flash_attention.h", ATTENTION_HEADER),
        ("anymetal/threadgroup_reduce.h", REDUCE_HEADER),
    ] {
        options.virtual_files.insert(file.to_string(), header.to_string());
    }
    device.new_library(source, name, &options).map_err(text)
}

/// Runs a kernel once to warm up and (on the CPU) count bytes, then three times for the fastest report.
fn fastest(
    device: &Device,
    library: &Library,
    kernel: &str,
    mut run: impl FnMut(&anymetal::Pipeline) -> anymetal::Result<DispatchReport>,
) -> Result<(DispatchReport, Traffic), String> {
    let pipeline = |count: bool| {
        let options = ExecutionOptions::default().with_count_traffic(count);
        library
            .pipeline_with(kernel, &FunctionConstants::new(), &options)
            .map_err(text)
    };
    let counted = run(&pipeline(device.gpu().is_none())?).map_err(text)?;
    let timed = pipeline(false)?;
    let mut best = run(&timed).map_err(text)?;
    for _ in 0..2 {
        let next = run(&timed).map_err(text)?;
        if next.time < best.time {
            best = next;
        }
    }
    Ok((best, counted.traffic.unwrap_or_default()))
}

/// The talk's 7:19 listing: MXFP8 × MXFP8 through tensors with a scale plane.
fn quantised_matmul(device: &Device) -> Result<Part, String> {
    const M: usize = 320;
    const N: usize = 272;
    const K: usize = 512;
    let library = library(device, MXFP8, "kernels/mxfp8_matmul.metal")?;
    let multi_plane = |rows: usize, seed: u64| -> Result<anymetal::Tensor, String> {
        let plane = AuxiliaryPlaneDescriptor::new().with_block_factors([32, 1]);
        let descriptor = TensorDescriptor::new([K, rows], ElementFormat::Fp8E4M3).with_plane(PlaneType::Scales, plane);
        let tensor = device.new_tensor(&descriptor).map_err(text)?;
        tensor.quantise(&random(K * rows, seed)).map_err(text)?;
        Ok(tensor)
    };
    let (a, b) = (multi_plane(M, 1)?, multi_plane(N, 2)?);
    let c = device
        .new_tensor(&TensorDescriptor::new([N, M], ElementFormat::F32))
        .map_err(text)?;
    let queue = device.new_queue();
    let (report, traffic) = fastest(device, &library, "mxfp8_matmul_handle_f32", |pipeline| {
        let mut encoder = queue.encoder();
        encoder
            .set_pipeline(pipeline)
            .set_tensor(0, &a)
            .set_tensor(1, &b)
            .set_tensor(2, &c);
        encoder.dispatch_threadgroups([N.div_ceil(64), M.div_ceil(64), 1], 128)?;
        Ok(encoder.run()?.dispatches.remove(0))
    })?;
    let (a, b, c) = (
        a.dequantise().map_err(text)?,
        b.dequantise().map_err(text)?,
        c.read_f32().map_err(text)?,
    );
    let mut error = 0f64;
    for row in 0..M {
        for column in 0..N {
            let pairs = a[row * K..][..K].iter().zip(&b[column * K..][..K]);
            let exact: f64 = pairs.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            error = error.max((exact - f64::from(c[row * N + column])).abs());
        }
    }
    Ok(Part {
        title: "1. Quantised matrix product (matmul2d, MXFP8 × MXFP8)",
        what: vec![
            format!("{M} × {K} times {K} × {N}; fp8 e4m3 with one ue8m0 scale for each 32 elements; float result"),
            format!(
                "{} threadgroups of 4 SIMD-groups, tiles of 64 × 64, cut at the edges",
                report.threadgroups
            ),
        ],
        error,
        allowed: 1e-4,
        reference: "the sum of the dequantised elements in f64",
        path: report.path,
        ms: report.time.as_secs_f64() * 1e3,
        traffic: vec![("traffic", traffic)],
    })
}

/// FlashAttention in one kernel, and the same in three.
fn attention(device: &Device) -> Result<Part, String> {
    const HEADS: usize = 8;
    const LENGTH: usize = 500;
    const DIM: usize = 64;
    let scale = 1.0 / (DIM as f32).sqrt();
    let count = HEADS * LENGTH * DIM;
    let data: Vec<Vec<f32>> = (3..6).map(|seed| random(count, seed)).collect();
    let buffers = data
        .iter()
        .map(|values| device.new_buffer_with_slice(values))
        .collect::<Result<Vec<_>, _>>();
    let buffers = buffers.map_err(text)?;
    let out = device.new_buffer(count * 4).map_err(text)?;
    let queue = device.new_queue();
    let fused = library(device, FLASH_ATTENTION, "kernels/flash_attention.metal")?;
    let (length, heads) = (LENGTH as i32, HEADS as i32);
    let mut sizes = ints(&[length, length, heads, heads, 0]);
    sizes.extend(scale.to_le_bytes());
    sizes.extend(ints(&[0, 0, 0]));
    let (report, traffic) = fastest(device, &fused, "flash_attention_f32_d64", |pipeline| {
        let mut encoder = queue.encoder();
        encoder.set_pipeline(pipeline);
        for (index, buffer) in buffers.iter().chain([&out]).enumerate() {
            encoder.set_buffer(index as u32, buffer, 0);
        }
        encoder.set_bytes(4, &sizes)?;
        encoder.dispatch_threadgroups([LENGTH.div_ceil(64), HEADS, 1], 128)?;
        Ok(encoder.run()?.dispatches.remove(0))
    })?;
    let fused_result = out.to_vec::<f32>().map_err(text)?;
    let (unfused_ms, unfused_traffic) = unfused(device, &buffers, &out, [HEADS, LENGTH, DIM], scale)?;
    let unfused_result = out.to_vec::<f32>().map_err(text)?;
    let values = |at: usize| Values {
        format: ElementFormat::F32,
        extents: vec![DIM, LENGTH, HEADS],
        elements: data[at].iter().map(|&value| f64::from(value)).collect(),
    };
    let exact = Attention {
        scale: Some(scale.into()),
        ..Attention::default()
    }
    .values(&values(0), &values(1), &values(2), None)?;
    let distance = |got: &[f32]| {
        got.iter()
            .zip(&exact)
            .map(|(got, want)| (f64::from(*got) - want).abs())
            .fold(0.0, f64::max)
    };
    let error = distance(&fused_result).max(distance(&unfused_result));
    let ms = report.time.as_secs_f64() * 1e3;
    Ok(Part {
        title: "2. FlashAttention in one kernel (cooperative tensors, reduce_rows, map_iterator)",
        what: vec![
            format!("{HEADS} heads × {LENGTH} positions × {DIM}, float; each SIMD-group owns 16 rows"),
            format!("the same attention in three kernels, scores through memory: {unfused_ms:.2} ms"),
        ],
        error,
        allowed: 1e-5,
        reference: "softmax(Q·Kᵀ)·V in f64",
        path: report.path,
        ms,
        traffic: vec![("fused", traffic), ("unfused", unfused_traffic)],
    })
}

fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Scores, softmax and product as three kernels: time in ms and bytes of all three.
fn unfused(
    device: &Device,
    qkv: &[Buffer],
    out: &Buffer,
    [heads, length, dim]: [usize; 3],
    scale: f32,
) -> Result<(f64, Traffic), String> {
    let scores = device.new_buffer(heads * length * length * 4).map_err(text)?;
    let products = library(device, UNFUSED, "kernels/attention_unfused.metal")?;
    let softmax = library(device, SOFTMAX, "kernels/softmax.metal")?;
    let queue = device.new_queue();
    let mut sizes = ints(&[length as i32, length as i32, dim as i32]);
    sizes.extend(scale.to_le_bytes());
    let tiles = length.div_ceil(64);
    let mut total = Traffic::default();
    let mut ms = 0.0;
    let mut add = |(report, traffic): (DispatchReport, Traffic)| {
        ms += report.time.as_secs_f64() * 1e3;
        total.device_read += traffic.device_read;
        total.device_written += traffic.device_written;
        total.threadgroup_read += traffic.threadgroup_read;
        total.threadgroup_written += traffic.threadgroup_written;
    };
    add(fastest(device, &products, "attention_scores_f32", |pipeline| {
        let mut encoder = queue.encoder();
        encoder
            .set_pipeline(pipeline)
            .set_buffer(0, &qkv[0], 0)
            .set_buffer(1, &qkv[1], 0)
            .set_buffer(2, &scores, 0);
        encoder.set_bytes(3, &sizes)?;
        encoder.dispatch_threadgroups([tiles, tiles, heads], 128)?;
        Ok(encoder.run()?.dispatches.remove(0))
    })?);
    let before = scores.to_vec::<u8>().map_err(text)?;
    add(fastest(device, &softmax, "softmax_f32", |pipeline| {
        // It works in place: each run starts from the scores.
        scores.write(0, &before)?;
        let mut encoder = queue.encoder();
        encoder
            .set_pipeline(pipeline)
            .set_buffer(0, &scores, 0)
            .set_buffer(1, &scores, 0);
        encoder.set_bytes(2, &ints(&[length as i32]))?;
        encoder.dispatch_threadgroups([heads * length, 1, 1], 128)?;
        Ok(encoder.run()?.dispatches.remove(0))
    })?);
    add(fastest(device, &products, "attention_values_f32", |pipeline| {
        let mut encoder = queue.encoder();
        encoder
            .set_pipeline(pipeline)
            .set_buffer(0, &scores, 0)
            .set_buffer(1, &qkv[2], 0)
            .set_buffer(2, out, 0);
        encoder.set_bytes(3, &sizes)?;
        encoder.dispatch_threadgroups([dim.div_ceil(64), tiles, heads], 128)?;
        Ok(encoder.run()?.dispatches.remove(0))
    })?);
    Ok((ms, total))
}

/// Where the shipped model is: beside the sources it was built from, or in `models/` of the current folder.
fn models_folder() -> Result<PathBuf, String> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    [PathBuf::from("models"), built]
        .into_iter()
        .find(|folder| folder.join("demo.aimodel").is_dir())
        .ok_or_else(|| "models/demo.aimodel is not here; run the demo in the repository's root".to_string())
}

/// The exported model with a custom kernel inside.
fn model(device: &Device) -> Result<Part, String> {
    let folder = models_folder()?;
    let start = std::time::Instant::now();
    let model = ModelOptions::new()
        .device(device.clone())
        .load(folder.join("demo.aimodel"))
        .map_err(text)?;
    let loaded = start.elapsed();
    let function = super::run::choose(&model, None)?;
    let input = npy::read(&folder.join("demo_ids.npy")).map_err(text)?;
    let want = npy::read(&folder.join("demo_logits.npy")).map_err(text)?.values();
    let spec = function.inputs().into_iter().next().ok_or("the model has no input")?;
    let ids = Array::from_bytes(spec.element, &input.shape, &input.bytes).map_err(text)?;
    let call = || function.run(&[(spec.name.as_str(), ids.clone())]).map_err(text);
    // The first call plans for the input's shape.
    call()?;
    let mut best = std::time::Duration::MAX;
    let mut outputs = Vec::new();
    for _ in 0..3 {
        let start = std::time::Instant::now();
        outputs = call()?;
        best = best.min(start.elapsed());
    }
    let got = crate::inputs::to_npy(&outputs[0].1)?.values();
    if got.len() != want.len() {
        return Err(format!("the model gave {} numbers, PyTorch {}", got.len(), want.len()));
    }
    let error = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let summary = model.program().summary();
    let calls: usize = summary.kernels.iter().map(|kernel| kernel.calls).sum();
    let operations: usize = summary.operations.iter().map(|(_, count)| count).sum();
    let weights: u64 = summary.weights.iter().map(|weight| weight.bytes).sum();
    Ok(Part {
        title: "3. A PyTorch model with that kernel inside (models/demo.aimodel)",
        what: vec![
            format!(
                "{operations} operations, {} of weights, {calls} calls of its Metal kernel",
                bytes(weights)
            ),
            format!(
                "loaded and compiled in {}, input {:?}",
                milliseconds(loaded),
                input.shape
            ),
        ],
        error,
        allowed: 1e-4,
        reference: "PyTorch's output",
        path: device.tile_path(),
        ms: best.as_secs_f64() * 1e3,
        traffic: Vec::new(),
    })
}
