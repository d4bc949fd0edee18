//! Divergent control flow, locals, and how grids are cut, against scalar code.

mod common;

use anymetal_cpu::{DispatchOptions, FaultKind, Launch};
use anymetal_ir::{Access, BinaryOp, Builder, Builtin, CompareOp, MathMode, Op, Scalar, Unroll};
use common::*;

const P: MathMode = MathMode::Precise;

#[test]
fn adds_two_arrays_of_any_length() {
    let mut b = Builder::new("add");
    let (x, y, z) = (
        buffer(&mut b, "x", 4, Access::ReadOnly),
        buffer(&mut b, "y", 4, Access::ReadOnly),
        buffer(&mut b, "z", 4, Access::ReadWrite),
    );
    let (x, y, z) = (pointer(&mut b, x), pointer(&mut b, y), pointer(&mut b, z));
    let i = gid(&mut b);
    let p = load_at(&mut b, x, i, Scalar::F32);
    let q = load_at(&mut b, y, i, Scalar::F32);
    let sum = add(&mut b, p, q);
    store_at(&mut b, z, i, sum);
    let kernel = compile(b.finish());
    for n in [1u32, 31, 32, 33, 255, 256, 257, 1000, 5003] {
        for group in [1, 7, 32, 64, 256, 1024] {
            let xs: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
            let ys: Vec<f32> = (0..n).map(|i| 1.0 / (i as f32 + 1.0)).collect();
            let z = memory(&vec![0f32; n as usize]);
            run(&kernel, &[&memory(&xs), &memory(&ys), &z], n, group);
            for (i, &got) in contents::<f32>(&z).iter().enumerate() {
                assert_eq!(got, xs[i] + ys[i], "{i} of {n}, group {group}");
            }
        }
    }
}

/// Collatz steps with a bound: a loop whose lanes leave at different times, by two ways, with a `continue`.
#[test]
fn loops_end_lane_by_lane() {
    let mut b = Builder::new("collatz");
    let out = buffer(&mut b, "out", 4, Access::ReadWrite);
    let out = pointer(&mut b, out);
    let i = gid(&mut b);
    let (n, steps) = (b.local("n", Scalar::U32), b.local("steps", Scalar::U32));
    let one = u32c(&mut b, 1);
    let start = add(&mut b, i, one);
    b.set(n, start);
    let zero = u32c(&mut b, 0);
    b.set(steps, zero);
    b.push_block(); // body
    {
        let v = b.get(n);
        let one = u32c(&mut b, 1);
        let done = b.compare(CompareOp::Eq, v, one);
        b.push_block();
        b.emit_void(Op::Break(0));
        let then = b.pop_block();
        b.push_block();
        let otherwise = b.pop_block();
        b.if_(done, then, otherwise);
        let s = b.get(steps);
        let limit = u32c(&mut b, 50);
        let late = b.compare(CompareOp::Ge, s, limit);
        b.push_block();
        let marker = u32c(&mut b, 1000);
        b.set(steps, marker);
        b.emit_void(Op::Break(0));
        let then = b.pop_block();
        b.push_block();
        let otherwise = b.pop_block();
        b.if_(late, then, otherwise);
        let v = b.get(n);
        let one = u32c(&mut b, 1);
        let odd = b.binary(BinaryOp::And, v, one, P);
        let zero = u32c(&mut b, 0);
        let even = b.compare(CompareOp::Eq, odd, zero);
        b.push_block();
        let v = b.get(n);
        let one = u32c(&mut b, 1);
        let half = b.binary(BinaryOp::Shr, v, one, P);
        b.set(n, half);
        b.emit_void(Op::Continue(0));
        let then = b.pop_block();
        b.push_block();
        let otherwise = b.pop_block();
        b.if_(even, then, otherwise);
        let v = b.get(n);
        let three = u32c(&mut b, 3);
        let triple = b.binary(BinaryOp::Mul, v, three, P);
        let one = u32c(&mut b, 1);
        let next = add(&mut b, triple, one);
        b.set(n, next);
    }
    let body = b.pop_block();
    b.push_block(); // latch
    let s = b.get(steps);
    let one = u32c(&mut b, 1);
    let s = add(&mut b, s, one);
    b.set(steps, s);
    let latch = b.pop_block();
    b.loop_(body, latch, Unroll::Default);
    let s = b.get(steps);
    store_at(&mut b, out, i, s);
    let kernel = compile(b.finish());
    let count = 700;
    let reference = |i: u32| {
        let (mut n, mut steps) = (i + 1, 0);
        loop {
            if n == 1 {
                break;
            }
            if steps >= 50 {
                steps = 1000;
                break;
            }
            if n % 2 == 0 {
                n /= 2;
            } else {
                n = 3 * n + 1;
            }
            steps += 1;
        }
        steps
    };
    for group in [32, 256] {
        let out = memory(&vec![0u32; count]);
        run(&kernel, &[&out], count as u32, group);
        for (i, &got) in contents::<u32>(&out).iter().enumerate() {
            assert_eq!(got, reference(i as u32), "{i}");
        }
    }
}

/// Nested loops; the inner one leaves the outer one (break 1), continues it (continue 1) or returns, lane by lane.
#[test]
fn jumps_reach_outer_constructs() {
    let mut b = Builder::new("jumps");
    let out = buffer(&mut b, "out", 4, Access::ReadWrite);
    let out = pointer(&mut b, out);
    let id = gid(&mut b);
    let total = b.local("total", Scalar::U32);
    let (i, j) = (b.local("i", Scalar::U32), b.local("j", Scalar::U32));
    let zero = u32c(&mut b, 0);
    b.set(total, zero);
    b.set(i, zero);
    let when = |b: &mut Builder, op: CompareOp, x, y, jump: Op| {
        let c = b.compare(op, x, y);
        b.push_block();
        b.emit_void(jump);
        let then = b.pop_block();
        b.push_block();
        let otherwise = b.pop_block();
        b.if_(c, then, otherwise);
    };
    let bump = |b: &mut Builder, local, by: i64| {
        let v = b.get(local);
        let by = u32c(b, by);
        let v = add(b, v, by);
        b.set(local, v);
    };
    b.push_block(); // outer body
    {
        let v = b.get(i);
        let five = u32c(&mut b, 5);
        when(&mut b, CompareOp::Ge, v, five, Op::Break(0));
        let zero = u32c(&mut b, 0);
        b.set(j, zero);
        b.push_block(); // inner body
        {
            let w = b.get(j);
            let four = u32c(&mut b, 4);
            when(&mut b, CompareOp::Ge, w, four, Op::Break(0));
            bump(&mut b, total, 1);
            let (v, w) = (b.get(i), b.get(j));
            let product = b.binary(BinaryOp::Mul, v, w, P);
            let seven = u32c(&mut b, 7);
            let key = b.binary(BinaryOp::Rem, id, seven, P);
            let s = add(&mut b, product, key);
            let eight = u32c(&mut b, 8);
            when(&mut b, CompareOp::Eq, s, eight, Op::Break(1));
            let three = u32c(&mut b, 3);
            when(&mut b, CompareOp::Eq, s, three, Op::Continue(1));
            // total is stored before the return, so that it can be seen.
            let twelve = u32c(&mut b, 12);
            let c = b.compare(CompareOp::Eq, s, twelve);
            b.push_block();
            let t = b.get(total);
            let mark = u32c(&mut b, 500);
            let t = add(&mut b, t, mark);
            store_at(&mut b, out, id, t);
            b.emit_void(Op::Return);
            let then = b.pop_block();
            b.push_block();
            bump(&mut b, total, 10);
            let otherwise = b.pop_block();
            b.if_(c, then, otherwise);
        }
        let body = b.pop_block();
        b.push_block();
        bump(&mut b, j, 1);
        let latch = b.pop_block();
        b.loop_(body, latch, Unroll::Default);
        bump(&mut b, total, 100);
    }
    let body = b.pop_block();
    b.push_block();
    bump(&mut b, i, 1);
    let latch = b.pop_block();
    b.loop_(body, latch, Unroll::Default);
    let t = b.get(total);
    store_at(&mut b, out, id, t);
    let kernel = compile(b.finish());
    let reference = |id: u32| {
        let mut total = 0;
        'outer: for i in 0..5u32 {
            for j in 0..4u32 {
                total += 1;
                let s = i * j + id % 7;
                if s == 8 {
                    break 'outer;
                }
                if s == 3 {
                    continue 'outer;
                }
                if s == 12 {
                    return total + 500;
                }
                total += 10;
            }
            total += 100;
        }
        total
    };
    for n in [1u32, 40, 300] {
        let out = memory(&vec![0u32; n as usize]);
        run(&kernel, &[&out], n, 64);
        for (i, &got) in contents::<u32>(&out).iter().enumerate() {
            assert_eq!(got, reference(i as u32), "{i} of {n}");
        }
    }
}

#[test]
fn scopes_break_forward() {
    let mut b = Builder::new("scope");
    let out = buffer(&mut b, "out", 4, Access::ReadWrite);
    let out = pointer(&mut b, out);
    let id = gid(&mut b);
    let r = b.local("r", Scalar::U32);
    b.push_block();
    {
        b.set(r, id);
        let two = u32c(&mut b, 2);
        let m = b.binary(BinaryOp::Rem, id, two, P);
        let zero = u32c(&mut b, 0);
        let c = b.compare(CompareOp::Eq, m, zero);
        b.push_block();
        b.emit_void(Op::Break(0));
        let then = b.pop_block();
        b.push_block();
        let otherwise = b.pop_block();
        b.if_(c, then, otherwise);
        let k = u32c(&mut b, 100);
        let v = b.get(r);
        let v = add(&mut b, v, k);
        b.set(r, v);
    }
    let body = b.pop_block();
    b.emit_void(Op::Scope { body });
    let v = b.get(r);
    store_at(&mut b, out, id, v);
    let kernel = compile(b.finish());
    let out = memory(&[0u32; 100]);
    run(&kernel, &[&out], 100, 32);
    for (i, &got) in contents::<u32>(&out).iter().enumerate() {
        assert_eq!(got, i as u32 + if i % 2 == 0 { 0 } else { 100 });
    }
}

#[test]
fn every_builtin_in_every_cut() {
    let all: Vec<Builtin> = (0..3)
        .flat_map(|d| {
            [
                Builtin::ThreadPositionInGrid(d),
                Builtin::ThreadPositionInThreadgroup(d),
                Builtin::ThreadgroupPositionInGrid(d),
                Builtin::ThreadsPerThreadgroup(d),
                Builtin::DispatchThreadsPerThreadgroup(d),
                Builtin::ThreadsPerGrid(d),
                Builtin::ThreadgroupsPerGrid(d),
            ]
        })
        .chain([
            Builtin::ThreadIndexInThreadgroup,
            Builtin::ThreadIndexInSimdgroup,
            Builtin::SimdgroupIndexInThreadgroup,
            Builtin::SimdgroupsPerThreadgroup,
            Builtin::DispatchSimdgroupsPerThreadgroup,
            Builtin::ThreadsPerSimdgroup,
            Builtin::ThreadIndexInQuadgroup,
            Builtin::QuadgroupIndexInThreadgroup,
            Builtin::QuadgroupsPerThreadgroup,
        ])
        .collect();
    // With and without a barrier: strips inside a threadgroup, and along the grid.
    for barrier in [false, true] {
        let mut b = Builder::new("builtins");
        let out = buffer(&mut b, "out", 4, Access::ReadWrite);
        let out = pointer(&mut b, out);
        let position: Vec<_> = (0..3)
            .map(|d| builtin(&mut b, Builtin::ThreadPositionInGrid(d)))
            .collect();
        let size: Vec<_> = (0..3).map(|d| builtin(&mut b, Builtin::ThreadsPerGrid(d))).collect();
        if barrier {
            b.emit_void(Op::Barrier {
                scope: anymetal_ir::Scope::Threadgroup,
                flags: Default::default(),
            });
        }
        let zy = b.binary(BinaryOp::Mul, position[2], size[1], P);
        let row = add(&mut b, zy, position[1]);
        let row = b.binary(BinaryOp::Mul, row, size[0], P);
        let linear = add(&mut b, row, position[0]);
        let count = u32c(&mut b, all.len() as i64);
        let base = b.binary(BinaryOp::Mul, linear, count, P);
        for (k, &which) in all.iter().enumerate() {
            let value = builtin(&mut b, which);
            let k = u32c(&mut b, k as i64);
            let at = add(&mut b, base, k);
            store_at(&mut b, out, at, value);
        }
        let kernel = compile(b.finish());
        for (grid, group) in [
            ([70, 5, 3], [16, 2, 2]),
            ([300, 2, 1], [64, 1, 1]),
            ([5, 7, 1], [2, 3, 1]),
            ([130, 1, 1], [1, 1, 1]),
            ([64, 9, 2], [32, 8, 1]),
        ] {
            let threads = (grid[0] * grid[1] * grid[2]) as usize;
            let out = memory(&vec![u32::MAX; threads * all.len()]);
            run_with(
                &kernel,
                &[&out],
                Launch::threads(grid, group),
                &DispatchOptions::default(),
            )
            .unwrap();
            let got = contents::<u32>(&out);
            for linear in 0..threads as u32 {
                let at = [linear % grid[0], linear / grid[0] % grid[1], linear / grid[0] / grid[1]];
                let tg: [u32; 3] = std::array::from_fn(|d| at[d] / group[d]);
                let inside: [u32; 3] = std::array::from_fn(|d| at[d] % group[d]);
                let size: [u32; 3] = std::array::from_fn(|d| group[d].min(grid[d] - tg[d] * group[d]));
                let index = inside[0] + size[0] * (inside[1] + size[1] * inside[2]);
                let total: u32 = size.iter().product();
                for (k, which) in all.iter().enumerate() {
                    let want = match *which {
                        Builtin::ThreadPositionInGrid(d) => at[d as usize],
                        Builtin::ThreadPositionInThreadgroup(d) => inside[d as usize],
                        Builtin::ThreadgroupPositionInGrid(d) => tg[d as usize],
                        Builtin::ThreadsPerThreadgroup(d) => size[d as usize],
                        Builtin::DispatchThreadsPerThreadgroup(d) => group[d as usize],
                        Builtin::ThreadsPerGrid(d) => grid[d as usize],
                        Builtin::ThreadgroupsPerGrid(d) => grid[d as usize].div_ceil(group[d as usize]),
                        Builtin::ThreadIndexInThreadgroup => index,
                        Builtin::ThreadIndexInSimdgroup => index % 32,
                        Builtin::SimdgroupIndexInThreadgroup => index / 32,
                        Builtin::SimdgroupsPerThreadgroup => total.div_ceil(32),
                        Builtin::DispatchSimdgroupsPerThreadgroup => group.iter().product::<u32>().div_ceil(32),
                        Builtin::ThreadsPerSimdgroup => 32,
                        Builtin::ThreadIndexInQuadgroup => index % 4,
                        Builtin::QuadgroupIndexInThreadgroup => index / 4,
                        Builtin::QuadgroupsPerThreadgroup => total.div_ceil(4),
                    };
                    let value = got[linear as usize * all.len() + k];
                    assert_eq!(value, want, "{which:?} of {at:?} in {grid:?}/{group:?}");
                }
            }
        }
    }
}

#[test]
fn an_endless_loop_meets_its_budget() {
    let mut b = Builder::new("endless");
    b.push_block();
    let body = b.pop_block();
    b.push_block();
    let latch = b.pop_block();
    b.loop_(body, latch, Unroll::Default);
    let kernel = compile(b.finish());
    let options = DispatchOptions {
        budget: Some(10_000),
        ..DispatchOptions::default()
    };
    let result = run_with(&kernel, &[], Launch::threads([64, 1, 1], [32, 1, 1]), &options);
    assert_eq!(fault(result).kind, FaultKind::Budget { budget: 10_000 });
}
