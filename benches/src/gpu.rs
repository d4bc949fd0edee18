//! The measurements on a GPU: kernels of `kernels/` at the sizes that a GPU needs, in device time.
//!
//! Each is recorded as a graph of a few dispatches, which is replayed until the seconds are over; a time is the graph's, by events of
//! the device, over its dispatches. The peers are in `tools/bench_cuda.py`.

use std::time::{Duration, Instant};

use anymetal::{Buffer, CommandEncoder, Device, ElementFormat, ExecutionOptions, FunctionConstants, Pipeline, Size};

use crate::kernels::{ints, library};
use crate::{Options, Result, random};

/// What `--device cuda` measures.
pub const NAMES: [&str; 9] = [
    "matmul",
    "fp8",
    "mxfp8",
    "linear",
    "prompt",
    "attention",
    "elementwise",
    "rows",
    "transpose",
];

/// One kernel with what is bound to it.
struct Work<'a> {
    pipeline: &'a Pipeline,
    /// Buffers from index 0 on, with byte offsets.
    buffers: Vec<(&'a Buffer, usize)>,
    /// Bytes behind them, if any.
    bytes: Vec<u8>,
    grid: Size,
    threads: Size,
    /// The grid is in threads instead of threadgroups.
    exact: bool,
}

impl Work<'_> {
    fn encode(&self, encoder: &mut CommandEncoder) -> Result<()> {
        encoder.set_pipeline(self.pipeline);
        for (index, (buffer, offset)) in self.buffers.iter().enumerate() {
            encoder.set_buffer(index as u32, buffer, *offset);
        }
        if !self.bytes.is_empty() {
            encoder.set_bytes(self.buffers.len() as u32, &self.bytes)?;
        }
        match self.exact {
            true => encoder.dispatch_threads(self.grid, self.threads)?,
            false => encoder.dispatch_threadgroups(self.grid, self.threads)?,
        };
        Ok(())
    }
}

/// A kernel of attention, for any dimension of a head.
struct AttentionForm {
    name: &'static str,
    format: ElementFormat,
    /// What follows the dimension in the kernel's name.
    suffix: &'static str,
    simdgroups: usize,
}

/// Measures the named groups.
pub fn run(device: &Device, names: &[String], options: &Options) -> Result<()> {
    let bench = Bench { device, options };
    for name in names {
        match name.as_str() {
            "matmul" => bench.matmul()?,
            "fp8" => bench.fp8()?,
            "mxfp8" => bench.mxfp8()?,
            "linear" => bench.linear()?,
            "prompt" => bench.prompt()?,
            "attention" => bench.attention()?,
            "elementwise" => bench.elementwise()?,
            "rows" => bench.rows()?,
            "transpose" => bench.transpose()?,
            other => return Err(format!("unknown benchmark {other}: choose from {}", NAMES.join(", ")).into()),
        }
    }
    Ok(())
}

struct Bench<'a> {
    device: &'a Device,
    options: &'a Options,
}

impl Bench<'_> {
    /// A kernel of a file of `kernels/`, its accesses checked if the options say so.
    fn pipeline(&self, file: &str, kernel: &str) -> Result<Pipeline> {
        let options = ExecutionOptions::new().with_checked(self.options.checked);
        Ok(library(self.device, file)?.pipeline_with(kernel, &FunctionConstants::new(), &options)?)
    }

    /// Replays the works until the seconds are over and prints the time of one.
    fn report(&self, name: &str, shape: &str, works: &[Work<'_>]) -> Result<()> {
        if !format!("{name} {shape}").contains(&self.options.shape) {
            return Ok(());
        }
        let mut encoder = self.device.new_queue().encoder();
        for work in works {
            work.encode(&mut encoder)?;
        }
        let graph = encoder.finish()?;
        for _ in 0..2 {
            graph.run()?;
        }
        let start = Instant::now();
        let mut times: Vec<Duration> = Vec::new();
        while times.len() < 5 || start.elapsed().as_secs_f64() < self.options.seconds {
            times.push(graph.run()?.time() / works.len() as u32);
        }
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "{}",
            serde_json::json!({
                "name": name, "shape": shape, "peer": null, "unit": "ms", "min": ms(times[0]),
                "median": ms(times[times.len() / 2]), "runs": times.len(), "path": self.device.tile_path(),
            })
        );
        Ok(())
    }

    /// Random elements: a million different ones, repeated.
    fn filled(&self, format: ElementFormat, count: usize, seed: u64) -> Result<Buffer> {
        const PERIOD: usize = 1 << 20;
        let part = format.pack_f32(&random(PERIOD.min(count), seed), anymetal::Saturation::Default);
        let mut bytes = part.clone();
        while bytes.len() < format.bytes_for(count) {
            let left = format.bytes_for(count) - bytes.len();
            bytes.extend_from_slice(&part[..left.min(part.len())]);
        }
        Ok(self.device.new_buffer_with_bytes(&bytes)?)
    }

    /// Bytes that are codes of `ue8m0` between ¼ and 4.
    fn scales(&self, count: usize) -> Result<Buffer> {
        let codes: Vec<u8> = (0..count).map(|i| 125 + (i * 7 % 5) as u8).collect();
        Ok(self.device.new_buffer_with_bytes(&codes)?)
    }

    fn matmul(&self) -> Result<()> {
        for n in [4096usize, 8192] {
            for (name, format) in [("bf16", ElementFormat::BF16), ("f16", ElementFormat::F16)] {
                for form in ["nt", "nn"] {
                    let kernel = self.pipeline("matmul.metal", &format!("matmul_{name}_{form}_128x256"))?;
                    let [a, b] = [1, 2].map(|seed| self.filled(format, n * n, seed));
                    let (a, b, c) = (a?, b?, self.device.new_buffer(n * n * 2)?);
                    let mut bytes = ints(&[n as i32; 6]);
                    bytes.extend([0u8; 24]);
                    let work = Work {
                        pipeline: &kernel,
                        buffers: vec![(&a, 0), (&b, 0), (&c, 0)],
                        bytes,
                        grid: [n / 256, n / 128, 1].into(),
                        threads: 256.into(),
                        exact: false,
                    };
                    self.report(&format!("matmul_{name}_{form}"), &format!("{n}x{n}x{n}"), &[work])?;
                }
            }
        }
        Ok(())
    }

    fn fp8(&self) -> Result<()> {
        let kernel = self.pipeline("fp8_matmul.metal", "fp8_matmul_f16_128x192")?;
        for n in [4096usize, 8192] {
            let [a, b] = [1, 2].map(|seed| self.filled(ElementFormat::Fp8E4M3, n * n, seed));
            let (a, b, c) = (a?, b?, self.device.new_buffer(n * n * 2)?);
            let work = Work {
                pipeline: &kernel,
                buffers: vec![(&a, 0), (&b, 0), (&c, 0)],
                bytes: ints(&[n as i32; 3]),
                grid: [n.div_ceil(192), n / 128, 1].into(),
                threads: 256.into(),
                exact: false,
            };
            self.report("matmul_fp8", &format!("{n}x{n}x{n}"), &[work])?;
        }
        Ok(())
    }

    fn mxfp8(&self) -> Result<()> {
        let n = 8192usize;
        let kernel = self.pipeline("mxfp8_matmul.metal", "mxfp8_matmul_inline_f32_128x256")?;
        let [a, b] = [1, 2].map(|seed| self.filled(ElementFormat::Fp8E4M3, n * n, seed));
        let (a, b, scales) = (a?, b?, self.scales(n * n / 32)?);
        let c = self.device.new_buffer(n * n * 4)?;
        let work = Work {
            pipeline: &kernel,
            buffers: vec![(&a, 0), (&scales, 0), (&b, 0), (&scales, 0), (&c, 0)],
            bytes: ints(&[n as i32; 3]),
            grid: [n / 256, n / 128, 1].into(),
            threads: 256.into(),
            exact: false,
        };
        self.report("mxfp8_matmul", &format!("{n}x{n}x{n}"), &[work])
    }

    /// Few rows by quantised weights that lie in more memory than any cache holds.
    fn linear(&self) -> Result<()> {
        const N: usize = 8192;
        const WEIGHTS: usize = 512 << 20;
        let x = self.filled(ElementFormat::F16, 16 * N, 1)?;
        let y = self.device.new_buffer(16 * N * 4)?;
        let weights = self.filled(ElementFormat::Fp8E4M3, WEIGHTS, 2)?;
        for (name, format) in [
            ("int4", ElementFormat::Int4B),
            ("mxint4", ElementFormat::Int4B),
            ("mxfp4", ElementFormat::Fp4E2M1),
            ("mxfp8", ElementFormat::Fp8E4M3),
        ] {
            let bytes = format.bytes_for(N * N);
            let matrices = WEIGHTS / bytes;
            let scales = self.scales(N * N / 32 * matrices)?;
            for rows in [1usize, 8, 16] {
                let columns = if format.bits() == 8 && rows > 8 { 64 } else { 32 };
                let kernel = format!("quantised_linear_{name}_f16_{columns}");
                let kernel = self.pipeline("quantised_linear.metal", &kernel)?;
                let works: Vec<Work<'_>> = (0..matrices)
                    .map(|matrix| Work {
                        pipeline: &kernel,
                        buffers: vec![
                            (&x, 0),
                            (&weights, matrix * bytes),
                            (&scales, matrix * (N * N / 32)),
                            (&y, 0),
                        ],
                        bytes: ints(&[rows as i32, N as i32, N as i32]),
                        grid: [N / columns, 1, 1].into(),
                        threads: (8 * columns).into(),
                        exact: false,
                    })
                    .collect();
                self.report(&format!("linear_{name}"), &format!("{rows}x{N}x{N}"), &works)?;
            }
        }
        Ok(())
    }

    /// Many rows by quantised weights, as a prompt has them.
    fn prompt(&self) -> Result<()> {
        const N: usize = 4096;
        let x = self.filled(ElementFormat::F16, N * N, 1)?;
        let (y, scales) = (self.device.new_buffer(N * N * 2)?, self.scales(N * N / 32)?);
        for (name, format) in [
            ("int4", ElementFormat::Int4B),
            ("mxint4", ElementFormat::Int4B),
            ("mxfp4", ElementFormat::Fp4E2M1),
            ("mxfp8", ElementFormat::Fp8E4M3),
        ] {
            let kernel = format!("quantised_linear_{name}_f16_128x256");
            let kernel = self.pipeline("quantised_linear.metal", &kernel)?;
            let weights = self.filled(format, N * N, 2)?;
            let work = Work {
                pipeline: &kernel,
                buffers: vec![(&x, 0), (&weights, 0), (&scales, 0), (&y, 0)],
                bytes: ints(&[N as i32; 3]),
                grid: [N / 256, N / 128, 1].into(),
                threads: 256.into(),
                exact: false,
            };
            self.report(&format!("linear_{name}"), &format!("{N}x{N}x{N}"), &[work])?;
        }
        Ok(())
    }

    fn attention(&self) -> Result<()> {
        let (bf16, f32) = (ElementFormat::BF16, ElementFormat::F32);
        let eight = |suffix| AttentionForm {
            name: "bf16",
            format: bf16,
            suffix,
            simdgroups: 8,
        };
        let four = |name, format| AttentionForm {
            name,
            format,
            suffix: "",
            simdgroups: 4,
        };
        self.attention_of(&eight("_x8"), &[64, 128], &[1024, 4096, 16384])?;
        self.attention_of(&eight("_causal_x8"), &[64, 128], &[1024, 4096, 16384])?;
        self.attention_of(&four("bf16_simdgroups", bf16), &[64, 128], &[256, 4096])?;
        self.attention_of(&four("f32", f32), &[32, 64, 128], &[256, 4096])
    }

    /// 16 heads, and 16 k tokens in all, so that the work grows with the length alone.
    fn attention_of(&self, form: &AttentionForm, dims: &[usize], lengths: &[usize]) -> Result<()> {
        const HEADS: usize = 16;
        let element = if form.format == ElementFormat::F32 {
            "f32"
        } else {
            "bf16"
        };
        let causal = if form.suffix.contains("_causal") { "_causal" } else { "" };
        for (&dim, &length) in dims
            .iter()
            .flat_map(|dim| lengths.iter().map(move |length| (dim, length)))
        {
            let batch = 16384 / length;
            let count = batch * HEADS * length * dim;
            let [q, k, v] = [1, 2, 3].map(|seed| self.filled(form.format, count, seed));
            let (q, k, v) = (q?, k?, v?);
            let o = self.device.new_buffer(count * form.format.bits() / 8)?;
            let kernel = self.pipeline(
                "flash_attention.metal",
                &format!("flash_attention_{element}_d{dim}{}", form.suffix),
            )?;
            let mut bytes = ints(&[length as i32, length as i32, HEADS as i32, HEADS as i32, 0]);
            bytes.extend((1.0 / (dim as f32).sqrt()).to_le_bytes());
            bytes.extend([0u8; 12]);
            let work = Work {
                pipeline: &kernel,
                buffers: vec![(&q, 0), (&k, 0), (&v, 0), (&o, 0)],
                bytes,
                grid: [length / (16 * form.simdgroups), HEADS, batch].into(),
                threads: (32 * form.simdgroups).into(),
                exact: false,
            };
            let shape = format!("{batch}x{HEADS}x{length}x{dim}");
            self.report(&format!("attention_{}{causal}", form.name), &shape, &[work])?;
        }
        Ok(())
    }

    /// GELU of 1 GiB.
    fn elementwise(&self) -> Result<()> {
        for (name, format, size) in [
            ("gelu_f32", ElementFormat::F32, 4),
            ("gelu_tanh_f32", ElementFormat::F32, 4),
            ("gelu_bf16", ElementFormat::BF16, 2),
        ] {
            let kernel = self.pipeline("gelu.metal", name)?;
            let count = (1usize << 30) / size;
            let x = self.filled(format, count, 1)?;
            let y = self.device.new_buffer(count * size)?;
            let work = Work {
                pipeline: &kernel,
                buffers: vec![(&x, 0), (&y, 0)],
                bytes: Vec::new(),
                grid: count.into(),
                threads: 256.into(),
                exact: true,
            };
            self.report(name, "1GiB", &[work])?;
        }
        Ok(())
    }

    /// Norms and softmax of 1 GiB in rows of 4096.
    fn rows(&self) -> Result<()> {
        const COLUMNS: usize = 4096;
        for (type_name, format, size) in [("f32", ElementFormat::F32, 4), ("bf16", ElementFormat::BF16, 2)] {
            let rows = (1usize << 30) / size / COLUMNS;
            let x = self.filled(format, rows * COLUMNS, 1)?;
            let weight = self.filled(format, COLUMNS, 2)?;
            let y = self.device.new_buffer(rows * COLUMNS * size)?;
            let mut norm = ints(&[COLUMNS as i32]);
            norm.extend(1e-5f32.to_le_bytes());
            for (name, file, buffers, bytes) in [
                (
                    "softmax",
                    "softmax.metal",
                    vec![(&x, 0), (&y, 0)],
                    ints(&[COLUMNS as i32]),
                ),
                (
                    "rms_norm",
                    "rms_norm.metal",
                    vec![(&x, 0), (&weight, 0), (&y, 0)],
                    norm.clone(),
                ),
                (
                    "layer_norm",
                    "layer_norm.metal",
                    vec![(&x, 0), (&weight, 0), (&weight, 0), (&y, 0)],
                    norm.clone(),
                ),
            ] {
                let name = format!("{name}_{type_name}");
                let kernel = self.pipeline(file, &name)?;
                let work = Work {
                    pipeline: &kernel,
                    buffers,
                    bytes,
                    grid: rows.into(),
                    threads: 256.into(),
                    exact: false,
                };
                self.report(&name, &format!("{rows}x{COLUMNS}"), &[work])?;
            }
        }
        Ok(())
    }

    fn transpose(&self) -> Result<()> {
        const N: usize = 16384;
        let kernel = self.pipeline("transpose.metal", "transpose_f32")?;
        let x = self.filled(ElementFormat::F32, N * N, 1)?;
        let y = self.device.new_buffer(N * N * 4)?;
        let work = Work {
            pipeline: &kernel,
            buffers: vec![(&x, 0), (&y, 0)],
            bytes: ints(&[N as i32, N as i32]),
            grid: [N / 64, N / 64, 1].into(),
            threads: [64, 4, 1].into(),
            exact: false,
        };
        self.report("transpose_f32", &format!("{N}x{N}"), &[work])
    }
}
