//! Times of lane programs: nanoseconds for each lane and operation, and element-wise kernels over large arrays.
//!
//! `cargo bench -p anymetal-cpu --bench lanes`

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use anymetal_cpu::{CpuKernel, DispatchOptions, HostMemory, Launch};
use anymetal_ir::{
    Access, BinaryOp, Builder, Builtin, CompareOp, GroupOp, GroupWidth, Kernel, MathMode, Op, Scalar, TernaryOp,
    UnaryOp, Unroll, ValueId,
};
use common::*;

const F: MathMode = MathMode::Fast;

/// Seconds of processor time of this thread, where the system tells.
fn processor_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds * 1e-9)
}

fn time(kernel: &CpuKernel, buffers: &[&HostMemory], launch: Launch, threads: usize) -> f64 {
    let options = DispatchOptions {
        threads: Some(threads),
        ..DispatchOptions::default()
    };
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        // One worker is this thread: its processor time tells more on a busy machine.
        let (start, processor) = (Instant::now(), processor_time());
        run_with(kernel, buffers, launch, &options).unwrap();
        let taken = match (processor, processor_time()) {
            (Some(before), Some(after)) if threads == 1 => after - before,
            _ => start.elapsed().as_secs_f64(),
        };
        best = best.min(taken);
    }
    best
}

/// `count` dependent operations in a loop of 1000 iterations on registers.
fn chain(ty: Scalar, op: impl Fn(&mut Builder, ValueId, ValueId) -> ValueId) -> Kernel {
    let mut b = Builder::new("chain");
    let y = buffer(&mut b, "y", ty.size(), Access::ReadWrite);
    let y = pointer(&mut b, y);
    let i = gid(&mut b);
    let v = b.convert(i, ty);
    let acc = b.local("acc", ty);
    b.set(acc, v);
    let n = b.local("n", Scalar::U32);
    let zero = u32c(&mut b, 0);
    b.set(n, zero);
    b.push_block();
    let count = b.get(n);
    let limit = u32c(&mut b, 1000);
    let done = b.compare(CompareOp::Ge, count, limit);
    b.push_block();
    b.emit_void(Op::Break(0));
    let then = b.pop_block();
    b.push_block();
    let otherwise = b.pop_block();
    b.if_(done, then, otherwise);
    let mut x = b.get(acc);
    for _ in 0..16 {
        x = op(&mut b, x, v);
    }
    b.set(acc, x);
    let body = b.pop_block();
    b.push_block();
    let count = b.get(n);
    let one = u32c(&mut b, 1);
    let count = add(&mut b, count, one);
    b.set(n, count);
    let latch = b.pop_block();
    b.loop_(body, latch, Unroll::Never);
    let x = b.get(acc);
    store_at(&mut b, y, i, x);
    b.finish()
}

fn gelu() -> Kernel {
    let mut b = Builder::new("gelu");
    let x = buffer(&mut b, "x", 4, Access::ReadOnly);
    let y = buffer(&mut b, "y", 4, Access::ReadWrite);
    let (x, y) = (pointer(&mut b, x), pointer(&mut b, y));
    let i = gid(&mut b);
    let v = load_at(&mut b, x, i, Scalar::F32);
    let c = |b: &mut Builder, v: f64| b.float(Scalar::F32, v);
    let mul = |b: &mut Builder, p, q| b.binary(BinaryOp::Mul, p, q, F);
    let plus = |b: &mut Builder, p, q| b.binary(BinaryOp::Add, p, q, F);
    let (k0, k1, half, one) = (
        c(&mut b, 0.797_884_560_8),
        c(&mut b, 0.044715),
        c(&mut b, 0.5),
        c(&mut b, 1.0),
    );
    let cube = mul(&mut b, v, v);
    let cube = mul(&mut b, cube, v);
    let inner = mul(&mut b, cube, k1);
    let inner = plus(&mut b, inner, v);
    let inner = mul(&mut b, inner, k0);
    let t = b.unary(UnaryOp::Tanh, inner, F);
    let t = plus(&mut b, t, one);
    let h = mul(&mut b, v, half);
    let r = mul(&mut b, h, t);
    store_at(&mut b, y, i, r);
    b.finish()
}

/// One threadgroup a row; sums by `simd_sum` and threadgroup memory.
fn rms_norm(columns: i64, group: i64) -> Kernel {
    let mut b = Builder::new("rms_norm");
    let x = buffer(&mut b, "x", 4, Access::ReadOnly);
    let y = buffer(&mut b, "y", 4, Access::ReadWrite);
    let (x, y) = (pointer(&mut b, x), pointer(&mut b, y));
    let tile = b.memory(anymetal_ir::MemoryObject {
        name: "sums".into(),
        space: anymetal_ir::AddressSpace::Threadgroup,
        size: 128,
        align: 4,
        element_size: 4,
        data: Vec::new(),
    });
    let tile = b.emit(
        Op::MemoryPointer(tile),
        &[anymetal_ir::Type::Pointer(anymetal_ir::AddressSpace::Threadgroup)],
    );
    let row = builtin(&mut b, Builtin::ThreadgroupPositionInGrid(0));
    let t = builtin(&mut b, Builtin::ThreadIndexInThreadgroup);
    let lane = builtin(&mut b, Builtin::ThreadIndexInSimdgroup);
    let sg = builtin(&mut b, Builtin::SimdgroupIndexInThreadgroup);
    let columns_value = u32c(&mut b, columns);
    let base = b.binary(BinaryOp::Mul, row, columns_value, F);
    let k = b.local("k", Scalar::U32);
    let sum = b.local("sum", Scalar::F32);
    let zero = b.float(Scalar::F32, 0.0);
    b.set(sum, zero);
    let each = |b: &mut Builder, body: &dyn Fn(&mut Builder, ValueId)| {
        b.set(k, t);
        b.push_block();
        let at = b.get(k);
        let end = u32c(b, columns);
        let done = b.compare(CompareOp::Ge, at, end);
        b.push_block();
        b.emit_void(Op::Break(0));
        let then = b.pop_block();
        b.push_block();
        let otherwise = b.pop_block();
        b.if_(done, then, otherwise);
        let at = b.get(k);
        let index = add(b, base, at);
        body(b, index);
        let block = b.pop_block();
        b.push_block();
        let at = b.get(k);
        let step = u32c(b, group);
        let at = add(b, at, step);
        b.set(k, at);
        let latch = b.pop_block();
        b.loop_(block, latch, Unroll::Default);
    };
    each(&mut b, &|b, index| {
        let v = load_at(b, x, index, Scalar::F32);
        let s = b.get(sum);
        let p = b.binary(BinaryOp::Mul, v, v, F);
        let s = b.binary(BinaryOp::Add, s, p, F);
        b.set(sum, s);
    });
    let group_sum = |b: &mut Builder, operand| {
        b.emit(
            Op::Group {
                op: GroupOp::Sum,
                width: GroupWidth::Simd,
                operand,
            },
            &[Scalar::F32.into()],
        )
    };
    let barrier = |b: &mut Builder| {
        b.emit_void(Op::Barrier {
            scope: anymetal_ir::Scope::Threadgroup,
            flags: Default::default(),
        });
    };
    let s = b.get(sum);
    let s = group_sum(&mut b, s);
    store_at(&mut b, tile, sg, s);
    barrier(&mut b);
    let count = u32c(&mut b, group / 32);
    let inside = b.compare(CompareOp::Lt, lane, count);
    let none = u32c(&mut b, 0);
    let at = b.select(inside, lane, none);
    let part = load_at(&mut b, tile, at, Scalar::F32);
    let zero = b.float(Scalar::F32, 0.0);
    let part = b.select(inside, part, zero);
    let total = group_sum(&mut b, part);
    let scale = b.float(Scalar::F32, 1.0 / columns as f64);
    let mean = b.binary(BinaryOp::Mul, total, scale, F);
    let eps = b.float(Scalar::F32, 1e-6);
    let mean = b.binary(BinaryOp::Add, mean, eps, F);
    let r = b.unary(UnaryOp::Rsqrt, mean, F);
    each(&mut b, &|b, index| {
        let v = load_at(b, x, index, Scalar::F32);
        let v = b.binary(BinaryOp::Mul, v, r, F);
        store_at(b, y, index, v);
    });
    b.finish()
}

fn main() {
    let lanes = 256u32;
    let small = HostMemory::zeroed(8 * lanes as usize * 64).unwrap();
    let per_op = |name: &str, kernel: Kernel| {
        let kernel = compile(kernel);
        for strips in [1u32, 64] {
            let launch = Launch::threads([lanes * strips, 1, 1], [256, 1, 1]);
            let seconds = time(&kernel, &[&small], launch, 1);
            let ns = seconds * 1e9 / f64::from(lanes * strips) / 16_000.0;
            println!("{name:<24} {ns:.4} ns a lane-operation ({strips} strips)");
        }
    };
    per_op(
        "f32 add",
        chain(Scalar::F32, |b, x, v| b.binary(BinaryOp::Add, x, v, MathMode::Precise)),
    );
    per_op(
        "f32 fma",
        chain(Scalar::F32, |b, x, v| b.ternary(TernaryOp::Fma, x, v, v, F)),
    );
    per_op(
        "f32 max",
        chain(Scalar::F32, |b, x, v| b.binary(BinaryOp::Max, x, v, F)),
    );
    per_op(
        "u32 add",
        chain(Scalar::U32, |b, x, v| {
            let x = b.binary(BinaryOp::Xor, x, v, F);
            b.binary(BinaryOp::Add, x, v, F)
        }),
    );
    per_op(
        "f16 add",
        chain(Scalar::F16, |b, x, v| b.binary(BinaryOp::Add, x, v, F)),
    );
    for op in [
        UnaryOp::Exp,
        UnaryOp::Log,
        UnaryOp::Sin,
        UnaryOp::Tanh,
        UnaryOp::Rsqrt,
        UnaryOp::Atan,
    ] {
        for mode in [MathMode::Precise, MathMode::Fast] {
            per_op(
                &format!("{op:?} {mode:?}"),
                chain(Scalar::F32, |b, x, _| b.unary(op, x, mode)),
            );
        }
    }
    let n = 64usize << 20;
    let (x, y) = (HostMemory::zeroed(4 * n).unwrap(), HostMemory::zeroed(4 * n).unwrap());
    x.with_bytes_mut(|bytes| {
        for (i, chunk) in bytes.chunks_exact_mut(4).enumerate() {
            chunk.copy_from_slice(&(((i % 2001) as f32 - 1000.0) * 0.004).to_le_bytes());
        }
    })
    .unwrap();
    for threads in [1, 2] {
        let launch = Launch::threads([n as u32, 1, 1], [256, 1, 1]);
        let seconds = time(&compile(gelu()), &[&x, &y], launch, threads);
        println!(
            "GELU 256 MiB, {threads} threads: {:.1} ms, {:.2} ns an element",
            seconds * 1e3,
            seconds * 1e9 / n as f64
        );
        for (columns, group) in [(4096i64, 256i64), (4096, 1024), (1024, 256)] {
            let launch = Launch::threadgroups([(n as i64 / columns) as u32, 1, 1], [group as u32, 1, 1]);
            let seconds = time(&compile(rms_norm(columns, group)), &[&x, &y], launch, threads);
            println!(
                "RMSNorm {columns} by {group}, 256 MiB, {threads} threads: {:.1} ms",
                seconds * 1e3
            );
        }
    }
}
