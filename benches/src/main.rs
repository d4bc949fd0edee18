//! Our side of `cargo xtask bench`: times the kernels of `kernels/` and MiniLM, and prints one JSON object a line.
//!
//! ```text
//! anymetal-bench [--only NAME[,NAME]] [--shape TEXT] [--minilm FOLDER] [--seconds S] [--device cuda [--checked]]
//! ```
//! `--shape` keeps the measurements of attention and of weights decoded in kernels whose name and shape (as in
//! "attention_f32 8x1024x64") contain the text; on a GPU it does so for all. `--device cuda` measures other sizes, in device time: see
//! `gpu.rs`; with `--checked` every access of the kernels is checked there, as it always is on the CPU.
//! Keys: name, shape, peer (null: ours), unit ("ms"), min, median, runs, path. The names are those of
//! `tools/bench_peers.py`, whose method this repeats: two calls to warm up, then at least three and until the seconds are
//! over. Data is random; run from the root of the repository.

mod bandwidth;
mod custom;
mod gpu;
mod kernels;
mod lanes;
mod peak;
mod products;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anymetal_coreai::{Array, Model};

/// What to measure.
struct Options {
    device: String,
    only: Option<Vec<String>>,
    shape: String,
    minilm: Option<PathBuf>,
    seconds: f64,
    checked: bool,
}

const NAMES: [&str; 11] = [
    "matmul",
    "mxfp8",
    "linear",
    "custom",
    "attention",
    "gelu",
    "rms_norm",
    "softmax",
    "transpose",
    "minilm",
    "compile",
];

/// An error of a benchmark is only shown.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn parse() -> Result<Options> {
    let mut options = Options {
        device: "cpu".to_string(),
        only: None,
        shape: String::new(),
        minilm: None,
        seconds: 3.0,
        checked: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--checked" {
            options.checked = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--device" => options.device = value,
            "--only" => options.only = Some(value.split(',').map(str::to_string).collect()),
            "--shape" => options.shape = value,
            "--minilm" => options.minilm = Some(value.into()),
            "--seconds" => options.seconds = value.parse()?,
            _ => return Err(format!("unknown option {word}").into()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match parse().and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let all = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    if options.device != "cpu" {
        let device = anymetal::Device::by_name(&options.device)?;
        let names = options.only.clone().unwrap_or_else(|| all(&gpu::NAMES));
        return gpu::run(&device, &names, options);
    }
    for name in &options.only.clone().unwrap_or_else(|| all(&NAMES)) {
        match name.as_str() {
            "matmul" => products::matmul(options.seconds)?,
            "mxfp8" => products::mxfp8(options.seconds)?,
            "linear" => products::linear(options.seconds)?,
            "custom" => custom::custom(options.seconds, &options.shape)?,
            "attention" => lanes::attention(options.seconds, &options.shape)?,
            "softmax" => lanes::softmax(options.seconds)?,
            "transpose" => lanes::transpose(options.seconds)?,
            "gelu" => kernels::gelu(options.seconds)?,
            "rms_norm" => kernels::rms_norm(options.seconds)?,
            "compile" => kernels::compile(options.seconds)?,
            "minilm" => match &options.minilm {
                Some(folder) => minilm(options.seconds, folder)?,
                None => eprintln!("minilm: skipped, no --minilm"),
            },
            // Apple's interpreter is a second peer of the same measurement.
            "interpreter" => {}
            other => {
                return Err(format!("unknown benchmark {other}: choose from {}", NAMES.join(", ")).into());
            }
        }
    }
    Ok(())
}

/// Times of repeated calls: two to warm up, then at least three and until the seconds are over.
pub(crate) fn measure(seconds: f64, mut call: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    call()?;
    call()?;
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 3 || start.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// Prints one measurement.
pub(crate) fn report(name: &str, shape: &str, times: Vec<Duration>) {
    report_peer(name, shape, None, times);
}

/// Prints one measurement: of a peer of the same name and shape, where one is named.
pub(crate) fn report_peer(name: &str, shape: &str, peer: Option<&str>, mut times: Vec<Duration>) {
    times.sort();
    let ms = |time: Duration| (time.as_secs_f64() * 1e7).round() / 1e4;
    println!(
        "{}",
        serde_json::json!({
            "name": name, "shape": shape, "peer": peer, "unit": "ms", "min": ms(times[0]),
            "median": ms(times[times.len() / 2]), "runs": times.len(),
            "path": anymetal::Device::system_default().tile_path(),
        })
    );
}

/// Numbers in [−1, 1) that are the same each time.
pub(crate) fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
        })
        .collect()
}

/// MiniLM end to end on fixed token ids, without padding.
fn minilm(seconds: f64, folder: &std::path::Path) -> Result<()> {
    const TOKENS: usize = 64;
    let model = Model::load(folder.join("minilm.aimodel"))?;
    let names = model.function_names();
    let function = model.function(names.first().map_or("main", String::as_str))?;
    for batch in [1usize, 16] {
        let ids: Vec<i32> = random(batch * TOKENS, 1)
            .iter()
            .map(|x| 1000 + ((x + 1.0) * 14_500.0) as i32)
            .collect();
        let ids = Array::from_values(&[batch, TOKENS], ids)?;
        let mask = Array::from_values(&[batch, TOKENS], vec![1i32; batch * TOKENS])?;
        let times = measure(seconds, || {
            function.run(&[("ids", ids.clone()), ("attention_mask", mask.clone())])?;
            Ok(())
        })?;
        report("minilm", &format!("{batch}x{TOKENS}"), times);
    }
    Ok(())
}
