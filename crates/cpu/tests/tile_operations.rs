//! `matmul2d` on tensors and cooperative tensors, element access, and the faults that go with them.

mod common;

use anymetal_cpu::{BoundArgument, DispatchOptions, FaultKind, Launch, NoTensors, TensorMismatch};
use anymetal_formats::ElementFormat as F;
use anymetal_ir::{
    Access, BinaryOp, Bounds, Builder, Builtin, CoopRole, Extent, LayoutKind, MathMode, MatmulDescriptor, Op, Operand,
    ReduceAxis, ReduceOp, Scalar, TensorRef, ValueId,
};
use common::tensors::*;
use common::*;

const P: MathMode = MathMode::Precise;

fn value(x: usize, y: usize, seed: usize) -> f64 {
    ((x * 31 + y * 17 + seed * 7) % 13) as f64 - 6.0
}

fn i64c(b: &mut Builder, v: i64) -> ValueId {
    b.int(Scalar::I64, v)
}

/// Threadgroup position · size, as `i64`.
fn tile_origin(b: &mut Builder, dimension: u8, size: i64) -> ValueId {
    let tg = builtin(b, Builtin::ThreadgroupPositionInGrid(dimension));
    let tg = b.convert(tg, Scalar::I64);
    let size = i64c(b, size);
    b.binary(BinaryOp::Mul, tg, size, P)
}

struct Case {
    formats: [F; 3],
    shape: (usize, usize, usize),
    transposed: (bool, bool),
    accumulate: bool,
    simdgroups: u32,
    coop: bool,
    static_k: Option<u32>,
}

/// One tile of 32 × 16 a threadgroup, edge tiles through dynamic extents; the whole product against f64.
fn run_case(case: &Case) {
    let (m, n, k) = case.shape;
    let mut b = Builder::new("matmul");
    let (ta, tb) = case.transposed;
    let a = tensor(&mut b, "a", case.formats[0], Access::ReadOnly);
    let w = tensor(&mut b, "b", case.formats[1], Access::ReadOnly);
    let c = tensor(&mut b, "c", case.formats[2], Access::ReadWrite);
    let x = tile_origin(&mut b, 0, 16);
    let y = tile_origin(&mut b, 1, 32);
    let zero = i64c(&mut b, 0);
    let rest = [Extent::Rest; 2];
    let mut at = |view: &TensorRef, p, q| slice(&mut b, view, &[p, q], &rest);
    let left = if ta { at(&a, y, zero) } else { at(&a, zero, y) };
    let right = if tb { at(&w, zero, x) } else { at(&w, x, zero) };
    let destination = at(&c, x, y);
    let d = MatmulDescriptor {
        transpose_left: ta,
        transpose_right: tb,
        accumulate: case.accumulate,
        ..descriptor(32, 16, case.static_k)
    };
    let simdgroups = case.simdgroups;
    let element = match case.formats[2] {
        F::F16 => Scalar::F16,
        F::BF16 => Scalar::BF16,
        F::I32 => Scalar::I32,
        _ => Scalar::F32,
    };
    let operand = |view: &TensorRef| Operand::Tensor(Box::new(view.clone()));
    if case.coop {
        let tile = coop(
            &mut b,
            CoopRole::Destination,
            element,
            (32, 16),
            simdgroups,
            LayoutKind::R,
            d,
        );
        if case.accumulate {
            b.emit_void(Op::CoopLoad {
                coop: tile,
                tensor: Box::new(destination.clone()),
            });
        }
        b.emit_void(Op::Matmul {
            descriptor: d,
            simdgroups,
            left: operand(&left),
            right: operand(&right),
            destination: Operand::Coop(tile),
        });
        b.emit_void(Op::CoopStore {
            coop: tile,
            tensor: Box::new(destination),
        });
    } else {
        b.emit_void(Op::Matmul {
            descriptor: d,
            simdgroups,
            left: operand(&left),
            right: operand(&right),
            destination: operand(&destination),
        });
    }
    let kernel = compile(b.finish());
    let place = |t: bool, x: usize, y: usize| if t { (y, x) } else { (x, y) };
    let size = |t: bool, p: usize, q: usize| if t { [q, p] } else { [p, q] };
    let (_, a) = bind(case.formats[0], size(ta, k, m), |x, y| {
        let (x, y) = place(ta, x, y);
        value(x, y, 1)
    });
    let (_, w) = bind(case.formats[1], size(tb, n, k), |x, y| {
        let (x, y) = place(tb, x, y);
        value(x, y, 2)
    });
    let (memory, c) = bind(case.formats[2], [n, m], |x, y| value(x, y, 3));
    let launch = Launch::threadgroups(
        [n.div_ceil(16) as u32, m.div_ceil(32) as u32, 1],
        [32 * simdgroups, 1, 1],
    );
    let options = DispatchOptions {
        traffic: true,
        ..DispatchOptions::default()
    };
    kernel.dispatch(&[a, w, c], &launch, &options, &NoTensors).unwrap();
    let got = unpack(case.formats[2], &memory, m * n);
    let code = |format: F, v: f64| format.decode(format.encode(v));
    let table = |format: F, columns: usize, rows: usize, seed: usize| -> Vec<f64> {
        (0..rows * columns)
            .map(|i| code(format, value(i % columns, i / columns, seed)))
            .collect()
    };
    let (a, w) = (table(case.formats[0], k, m, 1), table(case.formats[1], n, k, 2));
    for y in 0..m {
        for x in 0..n {
            let mut want = if case.accumulate { value(x, y, 3) } else { 0.0 };
            for i in 0..k {
                want += a[y * k + i] * w[i * n + x];
            }
            let want = code(case.formats[2], want);
            let limit = want.abs() * if case.formats[2] == F::BF16 { 0.008 } else { 1e-3 };
            let got = got[y * n + x];
            assert!(
                (got - want).abs() <= limit,
                "({x}, {y}) of {:?} {:?}: {got}, not {want}",
                case.formats,
                case.shape
            );
        }
    }
}

#[test]
fn products_of_every_kind() {
    for formats in [
        [F::F32, F::F32, F::F32],
        [F::F16, F::F16, F::F16],
        [F::F16, F::F16, F::F32],
        [F::BF16, F::BF16, F::BF16],
        [F::BF16, F::F32, F::F32],
        [F::I8, F::I8, F::I32],
        [F::F16, F::I8, F::F16],
        [F::Fp8E4M3, F::Fp8E4M3, F::F32],
        [F::F16, F::Int4B, F::F32],
    ] {
        // Packed formats need whole rows of 32 elements.
        let shapes: &[(usize, usize, usize)] = if formats[1].bits() < 8 {
            &[(40, 32, 32), (33, 64, 96)]
        } else {
            &[(32, 16, 16), (40, 23, 37), (1, 1, 5), (100, 50, 300)]
        };
        for &shape in shapes {
            for (transposed, accumulate, simdgroups, coop) in [
                ((false, false), false, 4, false),
                ((true, false), true, 1, false),
                ((false, true), true, 1, true),
                ((true, true), false, 4, true),
            ] {
                run_case(&Case {
                    formats,
                    shape,
                    transposed,
                    accumulate,
                    simdgroups,
                    coop,
                    static_k: None,
                });
            }
        }
    }
}

#[test]
fn a_static_k_past_the_operand_reads_zeros() {
    run_case(&Case {
        formats: [F::F32; 3],
        shape: (40, 23, 37),
        transposed: (false, false),
        accumulate: false,
        simdgroups: 1,
        coop: true,
        static_k: Some(64),
    });
}

/// Each SIMD-group of a threadgroup multiplies rows of its own; the right operand is shared.
#[test]
fn simdgroups_have_their_own_rows() {
    let mut b = Builder::new("bands");
    let a = tensor(&mut b, "a", F::F32, Access::ReadOnly);
    let w = tensor(&mut b, "b", F::F32, Access::ReadOnly);
    let c = tensor(&mut b, "c", F::F32, Access::ReadWrite);
    let sg = builtin(&mut b, Builtin::SimdgroupIndexInThreadgroup);
    let sg = b.convert(sg, Scalar::I64);
    let sixteen = i64c(&mut b, 16);
    let y = b.binary(BinaryOp::Mul, sg, sixteen, P);
    let zero = i64c(&mut b, 0);
    let rest = [Extent::Rest; 2];
    let left = slice(&mut b, &a, &[zero, y], &rest);
    let right = slice(&mut b, &w, &[zero, zero], &rest);
    let to = slice(&mut b, &c, &[zero, y], &rest);
    let d = descriptor(16, 32, None);
    b.emit_void(Op::Matmul {
        descriptor: d,
        simdgroups: 1,
        left: Operand::Tensor(Box::new(left)),
        right: Operand::Tensor(Box::new(right)),
        destination: Operand::Tensor(Box::new(to)),
    });
    let kernel = compile(b.finish());
    let (_, a) = bind(F::F32, [20, 60], |x, y| value(x, y, 1));
    let (_, w) = bind(F::F32, [32, 20], |x, y| value(x, y, 2));
    let (memory, c) = bind(F::F32, [32, 60], |_, _| 0.0);
    let launch = Launch::threadgroups([1, 1, 1], [128, 1, 1]);
    kernel
        .dispatch(&[a, w, c], &launch, &DispatchOptions::default(), &NoTensors)
        .unwrap();
    for (i, got) in unpack(F::F32, &memory, 60 * 32).into_iter().enumerate() {
        let (x, y) = (i % 32, i / 32);
        let want: f64 = (0..20).map(|k| value(k, y, 1) * value(x, k, 2)).sum();
        assert_eq!(got, want);
    }
}

fn static_kernel(option_origin: i64) -> anymetal_ir::Kernel {
    let mut b = Builder::new("static");
    let a = tensor(&mut b, "a", F::F32, Access::ReadOnly);
    let c = tensor(&mut b, "c", F::F32, Access::ReadWrite);
    let at = i64c(&mut b, option_origin);
    let zero = i64c(&mut b, 0);
    let view = slice(&mut b, &a, &[at, zero], &[Extent::Static(16), Extent::Static(16)]);
    let to = slice(&mut b, &c, &[zero, zero], &[Extent::Rest, Extent::Rest]);
    let d = descriptor(16, 16, Some(16));
    b.emit_void(Op::Matmul {
        descriptor: d,
        simdgroups: 1,
        left: Operand::Tensor(Box::new(view.clone())),
        right: Operand::Tensor(Box::new(view)),
        destination: Operand::Tensor(Box::new(to)),
    });
    b.finish()
}

#[test]
fn static_extents_must_not_overhang() {
    let launch = Launch::threadgroups([1, 1, 1], [32, 1, 1]);
    let (_, a) = bind(F::F32, [20, 16], |x, y| value(x, y, 1));
    let (memory, c) = bind(F::F32, [16, 16], |_, _| 9.0);
    let arguments = [a, c];
    let kernel = compile(static_kernel(4));
    kernel
        .dispatch(&arguments, &launch, &DispatchOptions::default(), &NoTensors)
        .unwrap();
    let kernel = compile(static_kernel(5));
    let result = kernel.dispatch(&arguments, &launch, &DispatchOptions::default(), &NoTensors);
    let text = fault(result).to_string();
    assert!(
        text.starts_with(
            "a static extent of 16 from 5 in dimension 0 goes past the end of tensor 'a' with extents (20, 16) (innermost first); \
             in framework order dimension 1 of shape (16, 20). This is undefined on a Mac: take a dynamic slice at the edge, or allow it with static-overhang zero"
        ),
        "{text}"
    );
    let options = DispatchOptions {
        static_overhang_zero: true,
        ..DispatchOptions::default()
    };
    kernel.dispatch(&arguments, &launch, &options, &NoTensors).unwrap();
    let at = |x: usize, y: usize| if x < 15 { value(x + 5, y, 1) } else { 0.0 };
    for (i, got) in unpack(F::F32, &memory, 256).into_iter().enumerate() {
        let (x, y) = (i % 16, i / 16);
        let want: f64 = (0..16).map(|k| at(k, y) * at(x, k)).sum();
        assert_eq!(got, want);
    }
}

#[test]
fn elements_are_checked_and_clipped() {
    // out[x, y] = in[x + 2, y]: `get` gives zero past the end, `T[…]` a fault.
    for bounds in [Bounds::Clip, Bounds::Fault] {
        for format in [F::F32, F::F16, F::UInt4B, F::Bool] {
            let element = match format {
                F::F32 => Scalar::F32,
                F::F16 => Scalar::F16,
                F::Bool => Scalar::Bool,
                _ => Scalar::U8,
            };
            let mut b = Builder::new("shift");
            let a = tensor(&mut b, "a", format, Access::ReadOnly);
            let c = tensor(&mut b, "c", format, Access::ReadWrite);
            let x = builtin(&mut b, Builtin::ThreadPositionInGrid(0));
            let y = builtin(&mut b, Builtin::ThreadPositionInGrid(1));
            let (x, y) = (b.convert(x, Scalar::I64), b.convert(y, Scalar::I64));
            let two = i64c(&mut b, 2);
            let shifted = add(&mut b, x, two);
            let v = b.emit(
                Op::TensorLoad {
                    tensor: Box::new(a),
                    indices: vec![shifted, y],
                    bounds,
                },
                &[element.into()],
            );
            b.emit_void(Op::TensorStore {
                tensor: Box::new(c),
                indices: vec![x, y],
                value: v,
                bounds,
            });
            let kernel = compile(b.finish());
            let fill = |x: usize, y: usize| ((x * 5 + y * 3) % if format == F::Bool { 2 } else { 16 }) as f64;
            let (_, a) = bind(format, [32, 7], fill);
            let (memory, c) = bind(format, [32, 7], |_, _| 1.0);
            // One column more than there is: `set` drops it.
            let wide = if bounds == Bounds::Clip { 33 } else { 32 };
            let launch = Launch::threads([wide, 7, 1], [16, 4, 1]);
            let result = kernel.dispatch(&[a, c], &launch, &DispatchOptions::default(), &NoTensors);
            if bounds == Bounds::Fault {
                let text = fault(result).to_string();
                assert!(
                    text.starts_with("out-of-bounds read of tensor 'a' at [32, 0] with extents (32, 7) (innermost first); in framework order index (0, 32) of shape (7, 32)"),
                    "{text}"
                );
                continue;
            }
            result.unwrap();
            for (i, got) in unpack(format, &memory, 32 * 7).into_iter().enumerate() {
                let (x, y) = (i % 32, i / 32);
                let want = if x + 2 < 32 { fill(x + 2, y) } else { 0.0 };
                assert_eq!(got, want, "{format} ({x}, {y})");
            }
        }
    }
}

#[test]
fn a_tensor_of_another_type_is_refused() {
    let kernel = compile(static_kernel(0));
    let (_, a) = bind(F::F16, [20, 16], |_, _| 0.0);
    let (_, c) = bind(F::F32, [16, 16], |_, _| 0.0);
    let launch = Launch::threadgroups([1, 1, 1], [32, 1, 1]);
    let error = kernel
        .dispatch(&[a, c.clone()], &launch, &DispatchOptions::default(), &NoTensors)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot launch kernel 'static': argument 'a' at index 0: the kernel expects elements of float, the tensor has half"
    );
    // A null tensor has extents of zero: a static view of it overhangs.
    let result = kernel.dispatch(
        &[BoundArgument::NullTensor, c],
        &launch,
        &DispatchOptions::default(),
        &NoTensors,
    );
    assert!(matches!(fault(result).kind, FaultKind::StaticOverhang { .. }));
    let _ = TensorMismatch::Format {
        expected: F::F32,
        given: F::F16,
    };
}

/// Softmax of rows by a map, against f64; row maxima and sums by reductions, `map_iterator` by row.
#[test]
fn softmax_through_maps_and_reductions() {
    for layout in [LayoutKind::R, LayoutKind::S] {
        let d = descriptor(16, 48, None);
        let mut b = Builder::new("softmax");
        let a = tensor(&mut b, "a", F::F32, Access::ReadOnly);
        let c = tensor(&mut b, "c", F::F32, Access::ReadWrite);
        let sg = builtin(&mut b, Builtin::SimdgroupIndexInThreadgroup);
        let sg64 = b.convert(sg, Scalar::I64);
        let sixteen = i64c(&mut b, 16);
        let y = b.binary(BinaryOp::Mul, sg64, sixteen, P);
        let zero = i64c(&mut b, 0);
        let from = slice(&mut b, &a, &[zero, y], &[Extent::Rest; 2]);
        let to = slice(&mut b, &c, &[zero, y], &[Extent::Rest; 2]);
        let tile = coop(&mut b, CoopRole::Destination, Scalar::F32, (16, 48), 1, layout, d);
        let most = coop(&mut b, CoopRole::RowReduction, Scalar::F32, (16, 1), 1, layout, d);
        let sums = coop(&mut b, CoopRole::RowReduction, Scalar::F32, (16, 1), 1, layout, d);
        b.emit_void(Op::CoopLoad {
            coop: tile,
            tensor: Box::new(from),
        });
        let low = b.float(Scalar::F32, f64::NEG_INFINITY);
        b.emit_void(Op::CoopReduce {
            to: most,
            from: tile,
            axis: ReduceAxis::Rows,
            op: ReduceOp::Max,
            identity: low,
        });
        // A value that differs between SIMD-groups comes in from outside.
        let shift = b.convert(sg, Scalar::F32);
        let f32_ = [Scalar::F32.into()];
        b.push_block();
        let v = b.emit(Op::CoopElement(tile), &f32_);
        let m = b.emit(Op::CoopElement(most), &f32_);
        let v = b.binary(BinaryOp::Sub, v, m, P);
        let v = b.unary(anymetal_ir::UnaryOp::Exp, v, P);
        b.emit_void(Op::CoopElementSet { coop: tile, value: v });
        let body = b.pop_block();
        b.emit_void(Op::CoopMap { over: tile, body });
        let none = b.float(Scalar::F32, 0.0);
        b.emit_void(Op::CoopReduce {
            to: sums,
            from: tile,
            axis: ReduceAxis::Rows,
            op: ReduceOp::Sum,
            identity: none,
        });
        b.push_block();
        let v = b.emit(Op::CoopElement(tile), &f32_);
        let s = b.emit(Op::CoopElement(sums), &f32_);
        let v = b.binary(BinaryOp::Div, v, s, P);
        let v = b.binary(BinaryOp::Add, v, shift, P);
        // Odd columns are negated, under a mask.
        let index = b.emit(Op::CoopElementIndex, &[Scalar::I32.into(), Scalar::I32.into()]);
        let one = b.int(Scalar::I32, 1);
        let odd = b.binary(BinaryOp::And, index, one, P);
        let odd = b.convert(odd, Scalar::Bool);
        b.emit_void(Op::CoopElementSet { coop: tile, value: v });
        b.push_block();
        let n = b.unary(anymetal_ir::UnaryOp::Neg, v, P);
        b.emit_void(Op::CoopElementSet { coop: tile, value: n });
        let then = b.pop_block();
        b.push_block();
        let otherwise = b.pop_block();
        b.if_(odd, then, otherwise);
        let body = b.pop_block();
        b.emit_void(Op::CoopMap { over: tile, body });
        b.emit_void(Op::CoopStore {
            coop: tile,
            tensor: Box::new(to),
        });
        let kernel = compile(b.finish());
        let (_, a) = bind(F::F32, [48, 60], |x, y| value(x, y, 5) * 0.7);
        let (memory, c) = bind(F::F32, [48, 60], |_, _| 0.0);
        let launch = Launch::threadgroups([1, 1, 1], [128, 1, 1]);
        kernel
            .dispatch(&[a, c], &launch, &DispatchOptions::default(), &NoTensors)
            .unwrap();
        let got = unpack(F::F32, &memory, 48 * 60);
        for y in 0..60 {
            let row: Vec<f64> = (0..48).map(|x| f64::from((value(x, y, 5) * 0.7) as f32)).collect();
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|v| (v - most).exp()).sum();
            for x in 0..48 {
                let want = (row[x] - most).exp() / total + (y / 16) as f64;
                let want = if x % 2 == 1 { -want } else { want };
                let got = got[y * 48 + x];
                assert!((got - want).abs() < 1e-6, "({x}, {y}): {got}, not {want}");
            }
        }
    }
}

/// Slots: every element is reached once, at the place that the layout says; reductions are found by `map_iterator`.
#[test]
fn slots_follow_the_layout() {
    for (layout, simdgroups) in [(LayoutKind::R, 1u32), (LayoutKind::S, 1), (LayoutKind::R, 4)] {
        let d = descriptor(32, 16, None);
        let mut b = Builder::new("slots");
        let c = tensor(&mut b, "c", F::F32, Access::ReadWrite);
        let rows = tensor_of_rank(&mut b, "rows", F::F32, Access::ReadWrite, 1);
        let tile = coop(
            &mut b,
            CoopRole::Destination,
            Scalar::F32,
            (32, 16),
            simdgroups,
            layout,
            d,
        );
        let red = coop(
            &mut b,
            CoopRole::RowReduction,
            Scalar::F32,
            (32, 1),
            simdgroups,
            layout,
            d,
        );
        let capacity = b.kernel().coop(tile).capacity();
        let f = |b: &mut Builder, v| b.convert(v, Scalar::F32);
        for slot in 0..capacity as i64 {
            let slot = b.int(Scalar::I32, slot);
            let column = b.emit(
                Op::CoopIndex { coop: tile, slot },
                &[Scalar::I32.into(), Scalar::I32.into()],
            );
            let row = ValueId(column.0 + 1);
            let old = b.emit(Op::CoopGet { coop: tile, slot }, &[Scalar::F32.into()]);
            let (x, y) = (f(&mut b, column), f(&mut b, row));
            let hundred = b.float(Scalar::F32, 100.0);
            let v = b.binary(BinaryOp::Mul, y, hundred, P);
            let v = b.binary(BinaryOp::Add, v, x, P);
            let v = b.binary(BinaryOp::Add, v, old, P);
            b.emit_void(Op::CoopSet {
                coop: tile,
                slot,
                value: v,
            });
            if simdgroups == 1 {
                let to = b.emit(
                    Op::CoopMapSlot {
                        to: red,
                        from: tile,
                        slot,
                    },
                    &[Scalar::I32.into()],
                );
                let valid = b.emit(Op::CoopValid { coop: tile, slot }, &[Scalar::Bool.into()]);
                let one = b.float(Scalar::F32, 1.0);
                let nothing = b.float(Scalar::F32, -1.0);
                let mark = b.select(valid, one, nothing);
                let v = b.binary(BinaryOp::Add, y, mark, P);
                b.emit_void(Op::CoopSet {
                    coop: red,
                    slot: to,
                    value: v,
                });
            }
        }
        b.emit_void(Op::CoopStore {
            coop: tile,
            tensor: Box::new(c),
        });
        b.emit_void(Op::CoopStore {
            coop: red,
            tensor: Box::new(rows),
        });
        let kernel = compile(b.finish());
        let (memory, c) = bind(F::F32, [16, 32], |_, _| 0.0);
        let (row_memory, rows) = bind(F::F32, [32, 1], |_, _| 0.0);
        let BoundArgument::Tensor(mut rows) = rows else {
            panic!()
        };
        rows.extents.truncate(1);
        rows.strides.truncate(1);
        let launch = Launch::threadgroups([1, 1, 1], [32 * simdgroups, 1, 1]);
        kernel
            .dispatch(
                &[c, BoundArgument::Tensor(rows)],
                &launch,
                &DispatchOptions::default(),
                &NoTensors,
            )
            .unwrap();
        for (i, got) in unpack(F::F32, &memory, 512).into_iter().enumerate() {
            assert_eq!(got, (i / 16 * 100 + i % 16) as f64, "{layout:?}");
        }
        if simdgroups == 1 {
            for (i, got) in unpack(F::F32, &row_memory, 32).into_iter().enumerate() {
                assert_eq!(got, i as f64 + 1.0);
            }
        }
    }
}

/// A product becomes the left input of another, by conversion where the query allows it; a broadcast bias is loaded first.
#[test]
fn a_destination_becomes_an_input() {
    for force_incompatible in [false, true] {
        let first = descriptor(16, 32, Some(32));
        let second = MatmulDescriptor {
            accumulate: true,
            ..descriptor(16, 32, Some(32))
        };
        let mut b = Builder::new("chain");
        let a = tensor(&mut b, "a", F::F32, Access::ReadOnly);
        let w = tensor(&mut b, "w", F::F32, Access::ReadOnly);
        let bias = tensor(&mut b, "bias", F::F32, Access::ReadOnly);
        let c = tensor(&mut b, "c", F::F32, Access::ReadWrite);
        let tile = coop(
            &mut b,
            CoopRole::Destination,
            Scalar::F32,
            (16, 32),
            1,
            LayoutKind::R,
            first,
        );
        let left = coop(&mut b, CoopRole::Left, Scalar::F32, (16, 32), 1, LayoutKind::R, second);
        let out = coop(
            &mut b,
            CoopRole::Destination,
            Scalar::F32,
            (16, 32),
            1,
            LayoutKind::R,
            second,
        );
        let operand = |t: &TensorRef| Operand::Tensor(Box::new(t.clone()));
        b.emit_void(Op::Matmul {
            descriptor: first,
            simdgroups: 1,
            left: operand(&a),
            right: operand(&w),
            destination: Operand::Coop(tile),
        });
        let fits = b.emit(Op::CoopCompatible { to: left, from: tile }, &[Scalar::Bool.into()]);
        b.push_block();
        b.emit_void(Op::CoopConvert { to: left, from: tile });
        let then = b.pop_block();
        b.push_block();
        // The fallback of this test: through the destination tensor.
        b.emit_void(Op::CoopStore {
            coop: tile,
            tensor: Box::new(c.clone()),
        });
        b.emit_void(Op::CoopLoad {
            coop: left,
            tensor: Box::new(c.clone()),
        });
        let otherwise = b.pop_block();
        b.if_(fits, then, otherwise);
        b.emit_void(Op::CoopLoad {
            coop: out,
            tensor: Box::new(bias),
        });
        b.emit_void(Op::Matmul {
            descriptor: second,
            simdgroups: 1,
            left: Operand::Coop(left),
            right: operand(&w),
            destination: Operand::Coop(out),
        });
        b.emit_void(Op::CoopStore {
            coop: out,
            tensor: Box::new(c),
        });
        let kernel = compile(b.finish());
        let (_, a) = bind(F::F32, [32, 16], |x, y| value(x, y, 1));
        let (_, w) = bind(F::F32, [32, 32], |x, y| value(x, y, 2));
        // One row, repeated.
        let (_, bias) = bind(F::F32, [32, 1], |x, _| x as f64);
        let (memory, c) = bind(F::F32, [32, 16], |_, _| 0.0);
        let options = DispatchOptions {
            force_incompatible,
            ..DispatchOptions::default()
        };
        kernel
            .dispatch(
                &[a, w, bias, c],
                &Launch::threadgroups([1, 1, 1], [32, 1, 1]),
                &options,
                &NoTensors,
            )
            .unwrap();
        let first: Vec<f64> = (0..16 * 32)
            .map(|i| (0..32).map(|k| value(k, i / 32, 1) * value(i % 32, k, 2)).sum())
            .collect();
        for (i, got) in unpack(F::F32, &memory, 512).into_iter().enumerate() {
            let (x, y) = (i % 32, i / 32);
            let want: f64 = (0..32).map(|k| first[y * 32 + k] * value(x, k, 2)).sum::<f64>() + x as f64;
            assert_eq!(got, want, "({x}, {y})");
        }
    }
}
