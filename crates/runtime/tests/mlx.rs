//! Kernels of MLX, compiled from a checkout as they are and compared with f64.
//!
//! `ANYMETAL_MLX` names the checkout (the folder that holds `mlx/backend/metal/kernels`); without it the tests say so and pass.
//! The kernels address the slots of cooperative tensors and of SIMD-group matrices by lane (reference 5.6), so a wrong layout shows here. Only the
//! instantiations that are run are compiled: the source below includes MLX's own headers and instantiates with MLX's own macro.

use std::path::PathBuf;

use anymetal::{CompileOptions, Device, ExecutionOptions, FunctionConstants, Library, MetalStd};
use half::{bf16, f16};

/// A number type of the kernels.
trait Element: bytemuck::Pod {
    const NAME: &'static str;
    /// Half a unit in the last place of 1.
    const ROUNDING: f64;
    fn of(x: f64) -> Self;
    fn f64(self) -> f64;
}

impl Element for f16 {
    const NAME: &'static str = "half";
    const ROUNDING: f64 = 1.0 / 2048.0;
    fn of(x: f64) -> Self {
        f16::from_f64(x)
    }
    fn f64(self) -> f64 {
        self.to_f64()
    }
}

impl Element for bf16 {
    const NAME: &'static str = "bfloat";
    const ROUNDING: f64 = 1.0 / 256.0;
    fn of(x: f64) -> Self {
        bf16::from_f64(x)
    }
    fn f64(self) -> f64 {
        self.to_f64()
    }
}

impl Element for f32 {
    const NAME: &'static str = "float";
    const ROUNDING: f64 = 1.0 / 16_777_216.0;
    fn of(x: f64) -> Self {
        x as f32
    }
    fn f64(self) -> f64 {
        self.into()
    }
}

/// Numbers in [-1, 1), the same for the same seed.
fn random<T: Element>(n: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            T::of((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
        })
        .collect()
}

/// The checkout, unless there is none.
fn checkout() -> Option<PathBuf> {
    let path = std::env::var_os("ANYMETAL_MLX").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: ANYMETAL_MLX does not name a checkout of MLX");
    }
    path
}

fn compile(mlx: PathBuf, headers: &[&str], instances: &[String]) -> Library {
    let mut source = String::from("#include <metal_stdlib>\n");
    for header in headers {
        source += &format!("#include \"mlx/backend/metal/kernels/{header}\"\n");
    }
    source += &instances.join("\n");
    let options = CompileOptions {
        std: MetalStd::Metal4_0,
        include_dirs: vec![mlx],
        fast_math: false,
        ..CompileOptions::default()
    };
    match Device::cpu().new_library(&source, "mlx.metal", &options) {
        Ok(library) => library,
        Err(error) => panic!("{error}"),
    }
}

/// Bytes of a struct that the host writes field by field.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn ints(mut self, values: &[i32]) -> Self {
        self.0.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }
    fn floats(mut self, values: &[f32]) -> Self {
        self.0.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }
    fn longs(mut self, values: &[i64]) -> Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        self
    }
    fn done(mut self) -> Vec<u8> {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0
    }
}

/// One product: D[b] = A[b]·B[b], or alpha·A[b]·B[b] + beta·C[b].
struct Product {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    /// Batch offsets through shape and strides in memory, instead of one stride each.
    strided_batch: bool,
    axpby: Option<(f32, f32)>,
}

/// Block sizes of a kernel: BM, BN, BK, WM, WN.
type Blocks = [usize; 5];

fn run_product<T: Element>(library: &Library, kernel: &str, blocks: Blocks, transposed: (bool, bool), p: &Product) {
    let [bm, bn, bk, wm, wn] = blocks;
    let Product { m, n, k, batch, .. } = *p;
    let a = random::<T>(batch * m * k, 1);
    let b = random::<T>(batch * k * n, 2);
    // The epilogue of `steel_gemm_fused` reads whole blocks of rows of C, past its last row: that much room is there.
    let c = random::<T>(batch * m * n + bm * n, 3);
    let device = Device::cpu();
    let constants = FunctionConstants::new()
        .with(10, p.strided_batch)
        .with(100, p.axpby.is_some())
        .with(110, p.axpby.is_some())
        .with(200, m % bm == 0)
        .with(201, n % bn == 0)
        .with(202, k % bk == 0);
    let pipeline = library
        .pipeline_with(kernel, &constants, &ExecutionOptions::default())
        .unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let (lda, ldb) = (if transposed.0 { m } else { k }, if transposed.1 { k } else { n });
    let (tiles_n, tiles_m) = (n.div_ceil(bn), m.div_ceil(bm));
    let int = |x: usize| x as i32;
    let params = Bytes::default()
        .ints(&[m, n, k, lda, ldb, n, tiles_n, tiles_m].map(int))
        .longs(&[m * k, k * n, m * n].map(|x| x as i64))
        .ints(&[0, int(k / bk), 1])
        .done();
    let d = device.new_buffer(batch * m * n * size_of::<T>()).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder.set_pipeline(&pipeline);
    encoder.set_buffer(0, &device.new_buffer_with_slice(&a).unwrap(), 0);
    encoder.set_buffer(1, &device.new_buffer_with_slice(&b).unwrap(), 0);
    encoder.set_buffer(3, &d, 0);
    encoder.set_bytes(4, &params).unwrap();
    if let Some((alpha, beta)) = p.axpby {
        let addmm = Bytes::default()
            .ints(&[int(n), 1])
            .longs(&[(m * n) as i64])
            .floats(&[alpha, beta]);
        encoder.set_buffer(2, &device.new_buffer_with_slice(&c).unwrap(), 0);
        encoder.set_bytes(5, &addmm.done()).unwrap();
    }
    if p.strided_batch {
        let strides = Bytes::default().longs(&[m * k, k * n, m * n].map(|x| x as i64)).done();
        encoder.set_bytes(6, &int(batch).to_le_bytes()).unwrap();
        encoder.set_bytes(7, &strides).unwrap();
    }
    encoder
        .dispatch_threadgroups([tiles_n, tiles_m, batch], [32, wn, wm])
        .unwrap_or_else(|error| panic!("{kernel}: {error}"));
    encoder.run().unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let got: Vec<T> = d.to_vec().unwrap();
    for z in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let (mut sum, mut size) = (0.0, 0.0);
                for x in 0..k {
                    let left = a[z * m * k + if transposed.0 { x * m + i } else { i * k + x }].f64();
                    let right = b[z * k * n + if transposed.1 { j * k + x } else { x * n + j }].f64();
                    sum += left * right;
                    size += (left * right).abs();
                }
                let at = z * m * n + i * n + j;
                let want = match p.axpby {
                    Some((alpha, beta)) => f64::from(alpha) * sum + f64::from(beta) * c[at].f64(),
                    None => sum,
                };
                let allowed = T::ROUNDING * (want.abs() + 1.0) * 1.01 + k as f64 * size / 16_777_216.0;
                let difference = (got[at].f64() - want).abs();
                assert!(
                    difference <= allowed,
                    "{kernel} {m}x{n}x{k}, batch {z}, row {i}, column {j}: {} instead of {want}",
                    got[at].f64()
                );
            }
        }
    }
}

/// The four transposes in one type: ragged and aligned shapes, batches of both kinds, `alpha·A·B + beta·C`.
fn products<T: Element>(mlx: PathBuf, headers: &[&str], blocks: Blocks) {
    let [bm, bn, bk, wm, wn] = blocks;
    let transposes = [
        ("nn", false, false),
        ("nt", false, true),
        ("tn", true, false),
        ("tt", true, true),
    ];
    let instances: Vec<String> = transposes
        .iter()
        .map(|(name, left, right)| {
            format!(
                "instantiate_kernel(\"{name}\", gemm, {}, {bm}, {bn}, {bk}, {wm}, {wn}, {left}, {right}, float)",
                T::NAME
            )
        })
        .collect();
    let library = compile(mlx, headers, &instances);
    let plain = |m, n, k| Product {
        m,
        n,
        k,
        batch: 1,
        strided_batch: false,
        axpby: None,
    };
    for (name, left, right) in transposes {
        let run = |p: &Product| run_product::<T>(&library, name, blocks, (left, right), p);
        run(&plain(77, 53, bk + 41));
        run(&plain(bm, 2 * bn, 2 * bk));
        run(&Product {
            batch: 2,
            ..plain(bm, 19, bk)
        });
        run(&Product {
            batch: 3,
            strided_batch: true,
            axpby: Some((1.5, -0.25)),
            ..plain(21, bn, 37)
        });
    }
}

const FUSED: &[&str] = &["utils.h", "steel/gemm/gemm.h", "steel/gemm/kernels/steel_gemm_fused.h"];
const FUSED_NAX: &[&str] = &[
    "utils.h",
    "steel/gemm/gemm_nax.h",
    "steel/gemm/kernels/steel_gemm_fused_nax.h",
];

#[test]
fn steel_gemm_fused_nax_half() {
    let Some(mlx) = checkout() else { return };
    products::<f16>(mlx, FUSED_NAX, [64, 64, 256, 2, 2]);
}

#[test]
fn steel_gemm_fused_nax_bfloat() {
    let Some(mlx) = checkout() else { return };
    products::<bf16>(mlx, FUSED_NAX, [64, 128, 64, 2, 4]);
}

#[test]
fn steel_gemm_fused_half() {
    let Some(mlx) = checkout() else { return };
    products::<f16>(mlx, FUSED, [32, 32, 16, 2, 2]);
}

#[test]
fn steel_gemm_fused_float() {
    let Some(mlx) = checkout() else { return };
    products::<f32>(mlx, FUSED, [64, 32, 32, 2, 2]);
}

#[derive(Clone, Copy, PartialEq)]
enum Mask {
    None,
    Causal,
    /// Added to the scores.
    Added,
    /// True where a key takes part.
    Bool,
}

fn attention<T: Element>(mlx: PathBuf, d: usize) {
    let (bq, bk) = (64, 32);
    let instance = |name: &str, mask: &str| {
        format!(
            "instantiate_kernel(\"{name}\", attention_nax, {}, {bq}, {bk}, {d}, 4, 1, {mask}, float)",
            T::NAME
        )
    };
    let headers = &["utils.h", "steel/attn/kernels/steel_attention_nax.h"];
    let library = compile(mlx, headers, &[instance("added", T::NAME), instance("bool", "bool")]);
    for (ql, kl, mask) in [
        (77, 101, Mask::None),
        (77, 101, Mask::Causal),
        (64, 96, Mask::None),
        (70, 70, Mask::Added),
        (33, 64, Mask::Bool),
    ] {
        run_attention::<T>(&library, d, ql, kl, mask, (bq, bk));
    }
}

fn run_attention<T: Element>(library: &Library, d: usize, ql: usize, kl: usize, mask: Mask, (bq, bk): (usize, usize)) {
    let (batch, heads, group) = (2, 4, 2);
    let kv_heads = heads / group;
    let scale = 1.0 / (d as f64).sqrt();
    let q = random::<T>(batch * heads * ql * d, 11);
    let k = random::<T>(batch * kv_heads * kl * d, 12);
    let v = random::<T>(batch * kv_heads * kl * d, 13);
    let added = random::<T>(heads * ql * kl, 14);
    let masked = mask == Mask::Added || mask == Mask::Bool;
    let constants = FunctionConstants::new()
        .with(200, ql.is_multiple_of(bq))
        .with(201, kl.is_multiple_of(bk))
        .with(300, masked)
        .with(301, mask == Mask::Causal)
        .with(302, false);
    let name = if mask == Mask::Bool { "bool" } else { "added" };
    let pipeline = library
        .pipeline_with(name, &constants, &ExecutionOptions::default())
        .unwrap_or_else(|error| panic!("{error}"));
    let strides = |heads: usize, length: usize| [heads * length * d, length * d, d].map(|x| x as i64);
    let int = |x: usize| x as i32;
    let params = Bytes::default()
        .ints(&[batch, heads, d, ql, kl, group].map(int))
        .floats(&[scale as f32])
        .ints(&[ql.div_ceil(bq), kl.div_ceil(bk), ql / bq, kl / bk, ql % bq, kl % bk].map(int))
        .ints(&[kl as i32 - ql as i32])
        .longs(&strides(heads, ql))
        .longs(&strides(kv_heads, kl))
        .longs(&strides(kv_heads, kl))
        .longs(&strides(heads, ql))
        .done();
    let device = Device::cpu();
    let o = device.new_buffer(q.len() * size_of::<T>()).unwrap();
    let mut encoder = device.new_queue().encoder();
    encoder.set_pipeline(&pipeline);
    encoder.set_buffer(0, &device.new_buffer_with_slice(&q).unwrap(), 0);
    encoder.set_buffer(1, &device.new_buffer_with_slice(&k).unwrap(), 0);
    encoder.set_buffer(2, &device.new_buffer_with_slice(&v).unwrap(), 0);
    encoder.set_buffer(3, &o, 0);
    encoder.set_bytes(4, &params).unwrap();
    if masked {
        // One mask for all of the batch.
        let strides = Bytes::default().longs(&[0, (ql * kl) as i64, kl as i64]).done();
        encoder.set_bytes(5, &strides).unwrap();
        let bits: Vec<u8> = added.iter().map(|x| u8::from(x.f64() > -0.5)).collect();
        let buffer = if mask == Mask::Bool {
            device.new_buffer_with_slice(&bits).unwrap()
        } else {
            device.new_buffer_with_slice(&added).unwrap()
        };
        encoder.set_buffer(6, &buffer, 0);
    }
    encoder
        .dispatch_threadgroups([ql.div_ceil(bq), heads, batch], [32, 4, 1])
        .unwrap_or_else(|error| panic!("{error}"));
    encoder.run().unwrap_or_else(|error| panic!("{error}"));
    let got: Vec<T> = o.to_vec().unwrap();
    for (z, h, i) in (0..batch).flat_map(|z| (0..heads).flat_map(move |h| (0..ql).map(move |i| (z, h, i)))) {
        let row = &q[((z * heads + h) * ql + i) * d..][..d];
        let base = (z * kv_heads + h / group) * kl;
        let scores: Vec<f64> = (0..kl)
            .map(|j| {
                let key = &k[(base + j) * d..][..d];
                let dot: f64 = row.iter().zip(key).map(|(a, b)| a.f64() * b.f64()).sum();
                let extra = added[(h * ql + i) * kl + j].f64();
                let hidden = match mask {
                    Mask::Causal => j > i + kl - ql,
                    Mask::Bool => extra <= -0.5,
                    _ => false,
                };
                if hidden {
                    f64::NEG_INFINITY
                } else {
                    dot * scale + if mask == Mask::Added { extra } else { 0.0 }
                }
            })
            .collect();
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
        let total: f64 = weights.iter().sum();
        for x in 0..d {
            let want: f64 = weights
                .iter()
                .enumerate()
                .map(|(j, w)| w * v[(base + j) * d + x].f64())
                .sum::<f64>()
                / total;
            let value = got[((z * heads + h) * ql + i) * d + x].f64();
            // Scaled queries and weights are rounded to the element type before the products.
            let allowed = 4.0 * T::ROUNDING + 1e-4;
            assert!(
                (value - want).abs() <= allowed,
                "{} attention {ql}x{kl} d {d}, batch {z}, head {h}, row {i}, column {x}: {value} instead of {want}",
                T::NAME
            );
        }
    }
}

#[test]
fn steel_attention_nax_half() {
    let Some(mlx) = checkout() else { return };
    attention::<f16>(mlx, 64);
}

#[test]
fn steel_attention_nax_bfloat() {
    let Some(mlx) = checkout() else { return };
    attention::<bf16>(mlx, 128);
}
