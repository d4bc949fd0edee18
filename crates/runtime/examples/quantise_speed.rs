//! How fast quantisation and its inverse are here, in GB/s of the values' bytes, beside copying the same values.
//!
//! cargo run --release -p anymetal --example quantise_speed [MEBIBYTES]

use std::time::Instant;

use anymetal::quantise::{FORMATS, QuantiseOptions, dequantise_into, quantise_bytes, quantise_into};
use anymetal::{ElementFormat, Extents};

fn best(rounds: usize, mut body: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        body();
        start.elapsed().as_secs_f64()
    };
    (0..rounds).map(once).fold(f64::INFINITY, f64::min)
}

fn main() -> anymetal::Result<()> {
    let mebibytes: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(256);
    let columns = 4096;
    let rows = mebibytes * (1 << 20) / 4 / columns;
    let values: Vec<f32> = (0..columns * rows)
        .map(|i| ((i * 7919 % 10007) as f32 - 5003.0) / 1000.0)
        .collect();
    let dimensions = Extents::from([columns, rows]);
    let bytes: &[u8] = bytemuck::cast_slice(&values);
    let mut copy = vec![0u8; bytes.len()];
    let gigabytes = bytes.len() as f64 / 1e9;
    let time = best(5, || copy.copy_from_slice(bytes));
    println!("copying on one core        {:6.1} GB/s", gigabytes / time);
    println!("format     quantise  with metrics  from bf16  dequantise   (GB/s of f32 values; of bf16 values)");
    for format in FORMATS {
        // Into memory that has been touched: fresh pages would be most of the time.
        let mut data = vec![1u8; format.bytes_for(values.len())];
        let mut scales = vec![1u8; values.len() / 32];
        let mut speed = |options: QuantiseOptions, source: ElementFormat| {
            let bytes = &bytes[..columns * rows * source.bits() / 8];
            let time = best(4, || {
                // The inputs are right, so there is no error to look at.
                let _ = quantise_into(bytes, source, &dimensions, &options, &mut data, &mut scales);
            });
            bytes.len() as f64 / 1e9 / time
        };
        let options = QuantiseOptions::new(format);
        let plain = speed(options.clone(), ElementFormat::F32);
        let measured = speed(options.clone().with_metrics(true), ElementFormat::F32);
        let half = speed(options.clone(), ElementFormat::BF16);
        let (quantised, _) = quantise_bytes(bytes, ElementFormat::F32, &dimensions, &options)?;
        let mut back = vec![0f32; values.len()];
        let time = best(4, || {
            let _ = dequantise_into(format, &dimensions, &quantised.data, &quantised.scales, &mut back);
        });
        println!(
            "{:<10} {plain:8.1}  {measured:12.1}  {half:9.1}  {:10.1}",
            format.to_string(),
            gigabytes / time
        );
    }
    Ok(())
}
