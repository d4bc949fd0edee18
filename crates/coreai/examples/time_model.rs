//! Times a function of a model on `.npy` inputs and compares its first result with another one:
//!
//!     cargo run --release -p anymetal-coreai --example time_model -- MODEL.aimodel ROUNDS NAME=FILE.npy... [-- WANT.npy]

use std::time::Instant;

use anymetal::Device;
use anymetal_coreai::{Array, ElementType, ModelOptions, Placement};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [model, rounds, rest @ ..] = args.as_slice() else {
        return Err("usage: MODEL.aimodel ROUNDS NAME=FILE.npy... [-- WANT.npy]".into());
    };
    let start = Instant::now();
    // ANYMETAL_PLACEMENT=host|device compares where operations run.
    let placement = match std::env::var("ANYMETAL_PLACEMENT").as_deref() {
        Ok("host") => Placement::Host,
        Ok("device") => Placement::Device,
        _ => Placement::Auto,
    };
    // ANYMETAL_DEVICE=cpu|cuda|cuda:N
    let device = std::env::var("ANYMETAL_DEVICE").unwrap_or_else(|_| "cpu".into());
    let options = ModelOptions::new()
        .placement(placement)
        .device(Device::by_name(&device)?);
    let model = options.trust(std::env::var("ANYMETAL_TRUST").is_ok()).load(model)?;
    println!("load {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let function = model.function(&model.function_names()[0])?;
    let mut inputs = Vec::new();
    let mut want = None;
    for (i, arg) in rest.iter().enumerate() {
        match arg.split_once('=') {
            Some((name, file)) => inputs.push((name, npy(file)?)),
            None if arg == "--" => want = rest.get(i + 1).map(|f| npy(f)).transpose()?,
            None => {}
        }
    }
    let mut times = Vec::new();
    for round in 0..rounds.parse::<usize>()? {
        let start = Instant::now();
        let outputs = function.run(&inputs)?;
        let time = start.elapsed().as_secs_f64() * 1e3;
        if round == 0 {
            println!("first call {time:.1} ms");
            if let Some(want) = &want {
                let (a, b) = (outputs[0].1.to_f32()?, want.to_f32()?);
                let far = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
                println!("largest difference {far:e} in {} values", b.len());
            }
        } else {
            times.push(time);
        }
    }
    times.sort_by(f64::total_cmp);
    if let (Some(best), Some(median)) = (times.first(), times.get(times.len() / 2)) {
        println!("best call {best:.3} ms, median {median:.3} ms");
    }
    for step in function.profile(&inputs)? {
        println!(
            "{:9.3} ms {:5} {}",
            step.time.as_secs_f64() * 1e3,
            step.count,
            step.name
        );
    }
    match function.plan_summary(&inputs)? {
        Some(Err(why)) => println!("not planned: {why}"),
        Some(Ok(summary)) => {
            if let Some(why) = summary.fallback {
                println!("step by step: {why}");
            }
        }
        None => {}
    }
    Ok(())
}

/// Reads a little-endian C-order array of f32 or i32.
fn npy(file: &str) -> Result<Array, Box<dyn std::error::Error>> {
    let bytes = std::fs::read(file)?;
    let length = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = std::str::from_utf8(&bytes[10..10 + length])?;
    let element = if header.contains("'<i4'") {
        ElementType::I32
    } else {
        ElementType::F32
    };
    let shape = header
        .split('(')
        .nth(1)
        .and_then(|s| s.split(')').next())
        .ok_or("no shape")?;
    let shape: Vec<usize> = shape.split(',').filter_map(|d| d.trim().parse().ok()).collect();
    Ok(Array::from_bytes(element, &shape, &bytes[10 + length..])?)
}
