//! Levels of values, locals and control flow.

use anymetal_ir::passes::{Uniformity, UniformityInfo};
use anymetal_ir::{BinaryOp, Block, Builder, Builtin, CompareOp, LocalId, MathMode, Op, Scalar, Unroll, ValueId};

fn builtin_value(b: &mut Builder, builtin: Builtin) -> ValueId {
    b.emit(Op::Builtin(builtin), &[Scalar::U32.into()])
}

/// `for (i = 0; i < limit; i++) {}` in the open block; returns the local and the value of `i` in the body.
fn counted(b: &mut Builder, i: LocalId, limit: ValueId) -> ValueId {
    let zero = b.int(Scalar::U32, 0);
    b.set(i, zero);
    b.push_block();
    let inside = b.get(i);
    let done = b.compare(CompareOp::Ge, inside, limit);
    b.push_block();
    b.emit_void(Op::Break(0));
    let then = b.pop_block();
    b.if_(done, then, Block::default());
    let body = b.pop_block();
    b.push_block();
    let old = b.get(i);
    let one = b.int(Scalar::U32, 1);
    let new = b.binary(BinaryOp::Add, old, one, MathMode::Precise);
    b.set(i, new);
    let latch = b.pop_block();
    b.loop_(body, latch, Unroll::Default);
    inside
}

#[test]
fn counter_of_uniform_loop_is_uniform() {
    let mut b = Builder::new("k");
    let i = b.local("i", Scalar::U32);
    let limit = builtin_value(&mut b, Builtin::ThreadgroupsPerGrid(0));
    let inside = counted(&mut b, i, limit);
    let after = b.get(i);
    let info = UniformityInfo::of(&b.finish());
    assert_eq!(info.value(inside), Uniformity::Dispatch);
    assert_eq!(info.value(after), Uniformity::Dispatch);
    assert_eq!(info.control[0].body, Uniformity::Dispatch);
}

#[test]
fn counter_of_divergent_loop_is_uniform_inside_only_if_unused_after() {
    for used_after in [false, true] {
        let mut b = Builder::new("k");
        let i = b.local("i", Scalar::U32);
        let limit = builtin_value(&mut b, Builtin::ThreadIndexInSimdgroup);
        let inside = counted(&mut b, i, limit);
        if used_after {
            b.get(i);
        }
        let info = UniformityInfo::of(&b.finish());
        let expected = if used_after {
            Uniformity::Varying
        } else {
            Uniformity::Dispatch
        };
        assert_eq!(info.value(inside), expected);
        assert_eq!(info.control[0].exit, Uniformity::Varying);
        assert_eq!(info.control[0].body, Uniformity::Varying);
    }
}

#[test]
fn divergent_loop_in_a_uniform_loop_needs_the_set_inside() {
    for reset_inside in [false, true] {
        let mut b = Builder::new("k");
        let (outer, j) = (b.local("outer", Scalar::U32), b.local("j", Scalar::U32));
        let limit = builtin_value(&mut b, Builtin::ThreadgroupsPerGrid(0));
        let lane = builtin_value(&mut b, Builtin::ThreadIndexInSimdgroup);
        let zero = b.int(Scalar::U32, 0);
        if !reset_inside {
            b.set(j, zero);
        }
        b.push_block();
        let inside = counted(&mut b, j, lane);
        let mut inner = b.pop_block();
        if !reset_inside {
            // Drop the constant's set in front of the loop.
            inner.insts.retain(|inst| !matches!(inst.op, Op::LocalSet { .. }));
        }
        b.push_block();
        counted(&mut b, outer, limit);
        let mut block = b.pop_block();
        let Op::Loop { body, .. } = &mut block.insts.last_mut().unwrap().op else {
            panic!()
        };
        body.insts.extend(inner.insts);
        let mut kernel = b.finish();
        kernel.body.insts.extend(block.insts);
        let info = UniformityInfo::of(&kernel);
        let expected = if reset_inside {
            Uniformity::Dispatch
        } else {
            Uniformity::Varying
        };
        assert_eq!(info.value(inside), expected, "{reset_inside}");
        assert_eq!(info.local(outer), Uniformity::Dispatch);
    }
}

#[test]
fn set_under_varying_condition() {
    let mut b = Builder::new("k");
    let (x, y) = (b.local("x", Scalar::U32), b.local("y", Scalar::U32));
    let lane = builtin_value(&mut b, Builtin::ThreadIndexInSimdgroup);
    let group = builtin_value(&mut b, Builtin::SimdgroupIndexInThreadgroup);
    let zero = b.int(Scalar::U32, 0);
    for (local, value) in [(x, lane), (y, group)] {
        b.set(local, zero);
        let first = b.compare(CompareOp::Eq, value, zero);
        b.push_block();
        let one = b.int(Scalar::U32, 1);
        b.set(local, one);
        let then = b.pop_block();
        b.if_(first, then, Block::default());
    }
    let after = [b.get(x), b.get(y)];
    let info = UniformityInfo::of(&b.finish());
    assert_eq!(info.value(after[0]), Uniformity::Varying);
    assert_eq!(info.value(after[1]), Uniformity::Simdgroup);
    assert_eq!(info.control[0].body, Uniformity::Varying);
    assert_eq!(info.control[1].body, Uniformity::Simdgroup);
}

#[test]
fn divergent_continue_and_return() {
    let mut b = Builder::new("k");
    let i = b.local("i", Scalar::U32);
    let n = b.local("n", Scalar::U32);
    let limit = builtin_value(&mut b, Builtin::ThreadgroupsPerGrid(0));
    let lane = builtin_value(&mut b, Builtin::ThreadIndexInSimdgroup);
    let zero = b.int(Scalar::U32, 0);
    b.set(n, zero);
    b.push_block();
    counted(&mut b, i, limit);
    let mut block = b.pop_block();
    let Op::Loop { body, .. } = &mut block.insts.last_mut().unwrap().op else {
        panic!()
    };
    b.push_block();
    let odd = b.compare(CompareOp::Eq, lane, zero);
    b.push_block();
    b.emit_void(Op::Continue(0));
    let then = b.pop_block();
    b.if_(odd, then, Block::default());
    let old = b.get(n);
    let one = b.int(Scalar::U32, 1);
    let new = b.binary(BinaryOp::Add, old, one, MathMode::Precise);
    b.set(n, new);
    body.insts.extend(b.pop_block().insts);
    let mut kernel = b.finish();
    kernel.body.insts.extend(block.insts);
    let info = UniformityInfo::of(&kernel);
    assert_eq!(info.local(i), Uniformity::Dispatch);
    assert_eq!(info.local(n), Uniformity::Varying);
    assert_eq!(info.control[0].body, Uniformity::Varying);
    assert_eq!(info.control[0].latch, Uniformity::Dispatch);
}
