//! scratch
use anymetal::*;
use std::time::Instant;
type R<T> = std::result::Result<T, Box<dyn std::error::Error>>;
fn filled(device: &Device, f: ElementFormat, n: usize, seed: u64) -> R<Buffer> {
    let mut s = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let v: Vec<f32> = (0..n).map(|_| { s ^= s << 13; s ^= s >> 7; s ^= s << 17; (s >> 40) as f32 / (1u32 << 23) as f32 - 1.0 }).collect();
    Ok(device.new_buffer_with_bytes(&f.pack_f32(&v, Saturation::Default))?)
}
fn main() -> R<()> {
    let a: Vec<String> = std::env::args().collect();
    let (what, ty) = (a[1].as_str(), a[2].as_str());
    let seconds: f64 = a.last().unwrap().parse()?;
    let device = Device::system_default();
    let mut defines = vec![];
    let format = match ty { "f32" => ElementFormat::F32, "f16" => ElementFormat::F16, _ => ElementFormat::BF16 };
    if what == "attention" {
        let t = match ty { "f32" => 1, "f16" => 2, _ => 4 };
        defines = vec![format!("ATTENTION_TYPES={t}"), "ATTENTION_DIMS=10".to_string(), "ATTENTION_FORMS=1".to_string()];
    }
    let options = CompileOptions { include_dirs: vec!["kernels/include".into()], defines: defines.iter().map(|d| { let (a, b) = d.split_once('=').unwrap(); (a.to_string(), Some(b.to_string())) }).collect(), ..Default::default() };
    let ints = |v: &[i32]| -> Vec<u8> { v.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let (file, kernel, bufs, at, bytes, groups, threads): (&str, String, Vec<Buffer>, u32, Vec<u8>, [usize; 3], [usize; 3]) = match what {
        "attention" => {
            let (l, d): (usize, usize) = (a[3].parse()?, a[4].parse()?);
            let b = (1..5).map(|s| filled(&device, format, 8 * l * d, s)).collect::<R<Vec<_>>>()?;
            let mut s = ints(&[l as i32, l as i32, 8, 8, 0]);
            s.extend((1.0 / (d as f32).sqrt()).to_le_bytes());
            s.extend([0u8; 12]);
            ("flash_attention.metal", format!("flash_attention_{ty}_d{d}"), b, 4, s, [l / 64, 8, 1], [128, 1, 1])
        }
        "softmax" => ("softmax.metal", format!("softmax_{ty}"), vec![filled(&device, format, 16384 * 4096, 1)?, device.new_buffer(16384 * 4096 * 4)?], 2, ints(&[4096]), [16384, 1, 1], [256, 1, 1]),
        "transpose" => ("transpose.metal", format!("transpose_{ty}"), vec![filled(&device, format, 4096 * 4096, 1)?, device.new_buffer(4096 * 4096 * 4)?], 2, ints(&[4096, 4096]), [128, 128, 1], [32, 8, 1]),
        _ => return Err("what".into()),
    };
    let library = device.new_library_from_file(format!("kernels/{file}"), &options)?;
    let pipeline = library.pipeline_with(&kernel, &FunctionConstants::new(), &ExecutionOptions::new().with_force_incompatible(a.iter().any(|x| x == "fallback")))?;
    if std::env::var("IR").is_ok() { println!("{}", anymetal_ir::print(pipeline.ir())); return Ok(()); }
    let queue = device.new_queue();
    let mut times = vec![];
    let start = Instant::now();
    while times.len() < 3 || start.elapsed().as_secs_f64() < seconds {
        let t = Instant::now();
        let mut e = queue.encoder();
        e.set_pipeline(&pipeline);
        for (i, b) in bufs.iter().enumerate() { e.set_buffer(i as u32, b, 0); }
        e.set_bytes(at, &bytes)?;
        e.dispatch_threadgroups(Size::from(groups), Size::from(threads))?;
        e.run()?;
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("{} min {:.2} median {:.2} ({})", a[1..].join(" "), times[0], times[times.len() / 2], times.len());
    Ok(())
}
