//! Speed of the tile products on each path of this machine, one thread: GFLOP/s, best of several runs.
//!
//! `cargo run --release -p anymetal-cpu --example tile_speed [path …]`

use std::hint::black_box;
use std::time::Instant;

use anymetal_cpu::tile::{
    OperandView, PackedLeft, PackedRight, Product, Scratch, TilePath, available_paths, matmul, multiply,
};
use anymetal_formats::ElementFormat::{self, *};

/// Seconds of the fastest of several runs, each at least a millisecond long.
fn best(mut work: impl FnMut()) -> f64 {
    work();
    let start = Instant::now();
    work();
    let once = start.elapsed().as_secs_f64();
    let repeat = (2e-3 / once).ceil().max(1.0) as usize;
    let runs = if once > 0.05 { 3 } else { 12 };
    if once > 0.05
        && let Some(start) = processor_seconds()
    {
        for _ in 0..runs {
            work();
        }
        let spent = processor_seconds().unwrap_or(start) - start;
        return spent / runs as f64;
    }
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..repeat {
                work();
            }
            start.elapsed().as_secs_f64() / repeat as f64
        })
        .fold(f64::INFINITY, f64::min)
}

/// What this thread has run for: long runs are preempted on a busy machine. Linux only.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split(' ').next()?.parse::<f64>().ok()? * 1e-9)
}

fn bytes(format: ElementFormat, count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9u32;
    let values = (0..count).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 24) * 2.0 - 1.0
    });
    let scale = if format.is_float() { 1.0 } else { 8.0 };
    format.pack(values.map(|x| x * scale), Default::default())
}

fn main() {
    let named: Vec<TilePath> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    for path in TilePath::ALL {
        if let Some(missing) = path.missing() {
            println!("{path}: skipped, this machine lacks {missing}");
        }
    }
    println!(
        "{:9} {:22} {:>16} {:>3} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "path", "formats", "m x n x k", "", "one call", "packed", "pack l us", "pack r us", "mul us"
    );
    let shapes = [
        (2048, 2048, 2048),
        (128, 128, 2048),
        (64, 32, 2048),
        (16, 64, 64),
        (64, 64, 64),
        (128, 128, 64),
        (128, 64, 64),
        (1, 4096, 4096),
    ];
    for &path in available_paths() {
        if !named.is_empty() && !named.contains(&path) {
            continue;
        }
        for (left, right, relaxed) in [
            (F32, F32, false),
            (BF16, BF16, false),
            (F16, F16, false),
            (F32, BF16, true),
            (Fp8E4M3, Fp8E4M3, false),
            (F16, Fp4E2M1, false),
            (I8, I8, false),
        ] {
            for (m, n, k) in shapes {
                if m == 2048 && path == TilePath::Portable {
                    continue;
                }
                for transposed in [false, true] {
                    speed(path, (left, right, relaxed), (m, n, k), transposed);
                }
            }
        }
    }
}

fn speed(
    path: TilePath,
    (left, right, relaxed): (ElementFormat, ElementFormat, bool),
    (m, n, k): (usize, usize, usize),
    transposed: bool,
) {
    let (a, b) = (bytes(left, m * k), bytes(right, k * n));
    let a = OperandView::from_bytes(&a, left, m, k).expect("enough bytes");
    let b = if transposed {
        OperandView::from_bytes(&b, right, n, k).map(OperandView::transposed)
    } else {
        OperandView::from_bytes(&b, right, k, n)
    }
    .expect("enough bytes");
    let product = Product::choose(path, left, right, relaxed).expect("a supported pair");
    let mut scratch = Scratch::default();
    let mut sums = vec![0.0f32; m * n];
    let mut integers = vec![0i32; m * n];
    let whole = left != I8;
    let one = best(|| {
        let result = if whole {
            matmul(&mut scratch, path, &a, &b, relaxed, &mut sums[..], n, false)
        } else {
            matmul(&mut scratch, path, &a, &b, relaxed, &mut integers[..], n, false)
        };
        result.expect("shapes match");
        black_box((&sums, &integers));
    });
    let (mut l, mut r) = (PackedLeft::default(), PackedRight::default());
    let pack_left = best(|| l.pack(&product, &a, &mut scratch));
    let pack_right = best(|| r.pack(&product, &b, &mut scratch));
    let packed = best(|| {
        let result = if whole {
            multiply(&l, &r, &mut sums[..], n, false)
        } else {
            multiply(&l, &r, &mut integers[..], n, false)
        };
        result.expect("shapes match");
        black_box((&sums, &integers));
    });
    let flops = 2.0 * (m * n * k) as f64 * 1e-9;
    println!(
        "{:9} {:22} {:>16} {:>3} {:9.1} {:9.1} {:9.2} {:9.2} {:9.2}",
        path.name(),
        format!("{left} x {right}{}", if relaxed { " relaxed" } else { "" }),
        format!("{m}x{n}x{k}"),
        if transposed { "T" } else { "" },
        flops / one,
        flops / packed,
        pack_left * 1e6,
        pack_right * 1e6,
        packed * 1e6,
    );
}
