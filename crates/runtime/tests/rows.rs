//! Row kernels as the GPU backend prepares them, run on the CPU: the versions that keep a row in registers, for rows that take them and
//! rows that do not, against softmax and norms in `f64`.

use std::path::Path;
use std::sync::Arc;

use anymetal::{CompileOptions, Device, ElementFormat, FunctionConstants, HostMemory, Saturation, ir, ptx};
use anymetal_cpu::{BoundArgument, CpuKernel, CpuOptions, DispatchOptions, Launch, NoTensors};

const ROWS: usize = 3;

/// What a row comes to, by the row and the vectors of its kernel.
type Reference = fn(&[f64], &[Vec<f64>]) -> Vec<f64>;

fn kernel(file: &str, name: &str) -> ir::Kernel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
    let options = CompileOptions {
        include_dirs: vec![folder.join("include")],
        ..CompileOptions::default()
    };
    let library = Device::cpu()
        .new_library_from_file(folder.join(file), &options)
        .unwrap();
    library.kernel(name, &FunctionConstants::new()).unwrap()
}

fn prepared(file: &str, name: &str, threads: u32) -> ir::Kernel {
    let options = ptx::PtxOptions {
        shape: Some([threads, 1, 1]),
        threads: 256,
        ..ptx::PtxOptions::default()
    };
    let prepared = anymetal_cuda::prepared(&kernel(file, name), &options);
    assert_eq!(ir::verify(&prepared), Ok(()));
    prepared
}

/// Numbers from -2 to 2 that a format holds.
fn numbers(format: ElementFormat, count: usize, seed: u64) -> (Vec<u8>, Vec<f64>) {
    let mut state = seed;
    let values: Vec<f32> = (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 22) as f32 - 2.0
        })
        .collect();
    let bytes = format.pack_f32(&values, Saturation::Default);
    let exact = format.unpack(&bytes, count).unwrap();
    (bytes, exact.into_iter().map(f64::from).collect())
}

/// Runs a prepared kernel on rows; `skip` elements lie in front of the first.
fn check(
    kernel: &Arc<CpuKernel>,
    format: ElementFormat,
    columns: usize,
    skip: usize,
    threads: u32,
    vectors: usize,
    has_epsilon: bool,
    reference: Reference,
) {
    let size = format.bits() / 8;
    let (bytes, x) = numbers(format, skip + ROWS * columns, 1);
    let input = HostMemory::from_bytes(&bytes).unwrap();
    let parameters: Vec<(Vec<u8>, Vec<f64>)> = (0..vectors).map(|i| numbers(format, columns, 2 + i as u64)).collect();
    let weights: Vec<HostMemory> = parameters
        .iter()
        .map(|(bytes, _)| HostMemory::from_bytes(bytes).unwrap())
        .collect();
    let weight_values: Vec<Vec<f64>> = parameters.into_iter().map(|(_, values)| values).collect();
    // What lies around the rows stays what it is.
    let guard = vec![0x5au8; (skip + ROWS * columns + 64) * size];
    let output = HostMemory::from_bytes(&guard).unwrap();
    let mut sizes = (columns as i32).to_le_bytes().to_vec();
    if has_epsilon {
        sizes.extend(1e-5f32.to_le_bytes());
    }
    let sizes = HostMemory::from_bytes(&sizes).unwrap();
    let from = |memory: &HostMemory, offset: usize| {
        let mut bound = BoundArgument::buffer(memory);
        if let BoundArgument::Buffer { offset: at, .. } = &mut bound {
            *at = offset;
        }
        bound
    };
    let mut arguments = vec![from(&input, skip * size)];
    arguments.extend(weights.iter().map(|memory| from(memory, 0)));
    arguments.push(from(&output, skip * size));
    arguments.push(from(&sizes, 0));
    let launch = Launch::threadgroups([ROWS as u32, 1, 1], [threads, 1, 1]);
    kernel
        .dispatch(&arguments, &launch, &DispatchOptions::default(), &NoTensors)
        .unwrap();
    let got = output.with_bytes(<[u8]>::to_vec);
    let (start, end) = (skip * size, (skip + ROWS * columns) * size);
    assert!(
        got[..start].iter().chain(&got[end..]).all(|&byte| byte == 0x5a),
        "wrote outside its rows"
    );
    let got = format.unpack(&got[start..end], ROWS * columns).unwrap();
    // Norms add terms that cancel; their results are about 1.
    let floor = if has_epsilon { 0.3 } else { 0.0 };
    // Results in half may be subnormal.
    let floor = if format == ElementFormat::F16 {
        f64::max(floor, 1e-5)
    } else {
        floor
    };
    let tolerance = if format == ElementFormat::F32 {
        3e-6
    } else {
        1.0 / 250.0
    };
    for (row, (got, x)) in got.chunks(columns).zip(x[skip..].chunks(columns)).enumerate() {
        for (i, (got, want)) in got.iter().zip(reference(x, &weight_values)).enumerate() {
            let got = f64::from(*got);
            assert!(
                (got - want).abs() <= tolerance * (floor + want.abs()),
                "{columns} columns after {skip}: row {row}, column {i}: {got}, not {want}"
            );
        }
    }
}

fn softmax(x: &[f64], _: &[Vec<f64>]) -> Vec<f64> {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / sum).collect()
}

fn rms_norm(x: &[f64], weights: &[Vec<f64>]) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let factor = 1.0 / (mean + 1e-5).sqrt();
    x.iter().zip(&weights[0]).map(|(x, w)| x * factor * w).collect()
}

fn layer_norm(x: &[f64], weights: &[Vec<f64>]) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / x.len() as f64;
    let factor = 1.0 / (variance + 1e-5).sqrt();
    let scaled = x.iter().zip(&weights[0]).map(|(x, w)| (x - mean) * factor * w);
    scaled.zip(&weights[1]).map(|(x, b)| x + b).collect()
}

fn rows(file: &str, stem: &str, vectors: usize, has_epsilon: bool, reference: Reference) {
    for (suffix, format) in [
        ("f32", ElementFormat::F32),
        ("bf16", ElementFormat::BF16),
        ("f16", ElementFormat::F16),
    ] {
        for threads in [64u32, 256] {
            let prepared = prepared(file, &format!("{stem}_{suffix}"), threads);
            let kernel = Arc::new(CpuKernel::compile(Arc::new(prepared), &CpuOptions::default()).unwrap());
            let most = threads as usize * 16;
            // The longest row that a thread keeps, parts of it, a single vector, and lengths and places that take the loops.
            for columns in [
                most,
                most / 2,
                most - 8,
                8 * (threads as usize + 1),
                16,
                8,
                7,
                1,
                most - 4,
                most + 8,
                most + 3,
                3 * most + 8 * threads as usize + 8,
                3 * most + 7,
            ] {
                for skip in [0, 3] {
                    check(&kernel, format, columns, skip, threads, vectors, has_epsilon, reference);
                }
            }
        }
    }
}

#[test]
fn softmax_keeps_rows() {
    rows("softmax.metal", "softmax", 0, false, softmax);
}

#[test]
fn rms_norm_keeps_rows() {
    rows("rms_norm.metal", "rms_norm", 1, true, rms_norm);
}

#[test]
fn layer_norm_keeps_rows() {
    rows("layer_norm.metal", "layer_norm", 2, true, layer_norm);
}

/// The row kernels have a version for short rows: a branch at the top whose one side has all vector loads and no loop.
#[test]
fn short_rows_have_a_version_without_loops() {
    for (file, name) in [
        ("softmax.metal", "softmax_f32"),
        ("rms_norm.metal", "rms_norm_bf16"),
        ("layer_norm.metal", "add_layer_norm_f16"),
    ] {
        let kernel = prepared(file, name, 256);
        let branch = kernel.body.insts.iter().find_map(|inst| match &inst.op {
            ir::Op::If { then, otherwise, .. } => Some((then, otherwise)),
            _ => None,
        });
        let loops = |block: &ir::Block| {
            let mut count = 0;
            block.for_each_inst(&mut |inst| count += usize::from(matches!(inst.op, ir::Op::Loop { .. })));
            count
        };
        let (then, otherwise) = branch.unwrap();
        assert_eq!(loops(then), 0, "{name}");
        assert!(loops(otherwise) > 0, "{name}");
        // Long rows go by vectors too.
        let mut vectors = 0;
        otherwise.for_each_inst(&mut |inst| {
            if let ir::Op::Loop { body, .. } = &inst.op {
                let wide = |inst: &ir::Inst| matches!(&inst.op, ir::Op::Load { count, .. } if *count > 1);
                vectors += usize::from(body.insts.iter().any(wide));
            }
        });
        assert!(vectors >= 2, "{name}");
    }
}

/// Threads that keep 32 bytes of a row fill a multiprocessor; with more they have the registers that they need.
#[test]
fn threads_that_keep_little_fill_the_multiprocessor() {
    let options = ptx::PtxOptions {
        shape: Some([256, 1, 1]),
        threads: 256,
        whole: true,
        target: ptx::Target {
            sm: 90,
            arch_specific: true,
        },
        ..ptx::PtxOptions::default()
    };
    for (name, full) in [
        ("layer_norm_bf16", true),
        ("layer_norm_f32", false),
        ("add_layer_norm_bf16", false),
    ] {
        let module = anymetal_cuda::compile(&kernel("layer_norm.metal", name), &options).unwrap();
        assert_eq!(module.text.contains(".minnctapersm 8\n"), full, "{name}");
    }
}
