//! Communication between lanes, all active or not.

mod common;

use anymetal_ir::{
    Access, BinaryOp, Builder, Builtin, CompareOp, GroupOp, GroupWidth, MathMode, Op, Scalar, ShuffleOp, ValueId,
    VoteOp,
};
use common::*;

const P: MathMode = MathMode::Precise;

/// Runs `make` on x[gid] where gid % 3 ≠ skip (all lanes for skip = 3), and stores the result there.
fn run_group(n: u32, group: u32, skip: i64, make: impl Fn(&mut Builder, ValueId, ValueId) -> ValueId) -> Vec<u32> {
    let mut b = Builder::new("simd");
    let y = buffer(&mut b, "y", 4, Access::ReadWrite);
    let y = pointer(&mut b, y);
    let i = gid(&mut b);
    let lane = builtin(&mut b, Builtin::ThreadIndexInSimdgroup);
    let three = u32c(&mut b, 3);
    let m = b.binary(BinaryOp::Rem, i, three, P);
    let skip = u32c(&mut b, skip);
    let c = b.compare(CompareOp::Ne, m, skip);
    b.push_block();
    let v = make(&mut b, i, lane);
    let v = b.convert(v, Scalar::U32);
    store_at(&mut b, y, i, v);
    let then = b.pop_block();
    b.push_block();
    let otherwise = b.pop_block();
    b.if_(c, then, otherwise);
    let y = memory(&vec![0xdead_beefu32; n as usize]);
    run(&compile(b.finish()), &[&y], n, group);
    contents(&y)
}

/// The first thread of a thread's group.
fn base(i: usize, group: usize, width: usize) -> usize {
    let threadgroup = i / group * group;
    threadgroup + (i - threadgroup) / width * width
}

/// Lanes of the SIMD-group (or quad-group) of `i` that are active.
fn peers(i: usize, n: usize, group: usize, width: usize, skip: usize) -> Vec<usize> {
    let threadgroup = i / group * group;
    let first = base(i, group, width);
    let end = (first + width).min(threadgroup + group).min(n);
    (first..end).filter(|&j| j % 3 != skip).collect()
}

fn check(
    make: impl Fn(&mut Builder, ValueId, ValueId) -> ValueId,
    width: usize,
    reference: impl Fn(usize, usize, &[usize]) -> Option<u32>,
) {
    for (n, group) in [(32, 32), (100, 64), (300, 300), (77, 40), (520, 512)] {
        for skip in [3usize, 0, 1] {
            let got = run_group(n, group, skip as i64, &make);
            for (i, &got) in got.iter().enumerate() {
                if i % 3 == skip {
                    assert_eq!(got, 0xdead_beef);
                    continue;
                }
                let peers = peers(i, n as usize, group as usize, width, skip);
                if let Some(want) = reference(i, base(i, group as usize, width), &peers) {
                    assert_eq!(got, want, "lane {i} of {n}/{group}, without {skip}");
                }
            }
        }
    }
}

fn squares(b: &mut Builder, i: ValueId) -> ValueId {
    let v = b.binary(BinaryOp::Mul, i, i, P);
    let k = u32c(b, 12345);
    b.binary(BinaryOp::Xor, v, k, P)
}

fn square(i: usize) -> u32 {
    (i as u32 * i as u32) ^ 12345
}

#[test]
fn reductions_and_scans() {
    for (width, lanes) in [(GroupWidth::Simd, 32), (GroupWidth::Quad, 4)] {
        for op in [
            GroupOp::Sum,
            GroupOp::Product,
            GroupOp::Min,
            GroupOp::Max,
            GroupOp::And,
            GroupOp::Or,
            GroupOp::Xor,
            GroupOp::PrefixInclusiveSum,
            GroupOp::PrefixExclusiveSum,
            GroupOp::PrefixInclusiveProduct,
            GroupOp::PrefixExclusiveProduct,
        ] {
            check(
                |b, i, _| {
                    let operand = squares(b, i);
                    b.emit(Op::Group { op, width, operand }, &[Scalar::U32.into()])
                },
                lanes,
                |i, _, peers| {
                    let all = peers.iter().map(|&j| square(j));
                    let before = peers.iter().filter(|&&j| j < i).map(|&j| square(j));
                    let sum = |v: &mut dyn Iterator<Item = u32>| v.fold(0, u32::wrapping_add);
                    let product = |v: &mut dyn Iterator<Item = u32>| v.fold(1, u32::wrapping_mul);
                    let mut all = all;
                    let mut before = before;
                    Some(match op {
                        GroupOp::Sum => sum(&mut all),
                        GroupOp::Product => product(&mut all),
                        GroupOp::Min => all.min().unwrap(),
                        GroupOp::Max => all.max().unwrap(),
                        GroupOp::And => all.fold(u32::MAX, |a, b| a & b),
                        GroupOp::Or => all.fold(0, |a, b| a | b),
                        GroupOp::Xor => all.fold(0, |a, b| a ^ b),
                        GroupOp::PrefixInclusiveSum => sum(&mut before).wrapping_add(square(i)),
                        GroupOp::PrefixExclusiveSum => sum(&mut before),
                        GroupOp::PrefixInclusiveProduct => product(&mut before).wrapping_mul(square(i)),
                        GroupOp::PrefixExclusiveProduct => product(&mut before),
                    })
                },
            );
        }
    }
}

#[test]
fn float_sums_are_close_and_the_same_in_all_lanes() {
    check(
        |b, i, _| {
            let x = b.convert(i, Scalar::F32);
            let third = b.float(Scalar::F32, 1.0 / 3.0);
            let x = b.binary(BinaryOp::Mul, x, third, P);
            let s = b.emit(
                Op::Group {
                    op: GroupOp::Sum,
                    width: GroupWidth::Simd,
                    operand: x,
                },
                &[Scalar::F32.into()],
            );
            let k = b.float(Scalar::F32, 3.0);
            let s = b.binary(BinaryOp::Mul, s, k, P);
            b.unary(anymetal_ir::UnaryOp::Rint, s, P)
        },
        32,
        |_, _, peers| Some(peers.iter().sum::<usize>() as u32),
    );
}

#[test]
fn shuffles() {
    for (width, lanes) in [(GroupWidth::Simd, 32usize), (GroupWidth::Quad, 4)] {
        for (op, index) in [
            (ShuffleOp::Shuffle, 3),
            (ShuffleOp::ShuffleXor, 1),
            (ShuffleOp::ShuffleDown, 2),
            (ShuffleOp::ShuffleUp, 1),
            (ShuffleOp::RotateDown, 3),
            (ShuffleOp::RotateUp, 3),
            (ShuffleOp::Broadcast, 2),
            (ShuffleOp::BroadcastFirst, 0),
        ] {
            check(
                |b, i, _| {
                    let operand = squares(b, i);
                    let index = b.int(Scalar::U16, index);
                    b.emit(
                        Op::Shuffle {
                            op,
                            width,
                            operand,
                            index,
                        },
                        &[Scalar::U32.into()],
                    )
                },
                lanes,
                |i, base, peers| {
                    let own = i - base;
                    let index = index as usize;
                    let source = match op {
                        ShuffleOp::Shuffle | ShuffleOp::Broadcast => index,
                        ShuffleOp::ShuffleXor => own ^ index,
                        ShuffleOp::ShuffleDown => {
                            if own + index < lanes {
                                own + index
                            } else {
                                own
                            }
                        }
                        ShuffleOp::ShuffleUp => own.checked_sub(index).unwrap_or(own),
                        ShuffleOp::RotateDown => (own + index) % lanes,
                        ShuffleOp::RotateUp => (own + lanes - index) % lanes,
                        ShuffleOp::BroadcastFirst => peers[0] - base,
                    };
                    // What an inactive lane gives is not defined.
                    peers.contains(&(base + source)).then(|| square(base + source))
                },
            );
        }
    }
}

fn asks(op: VoteOp) -> bool {
    matches!(op, VoteOp::All | VoteOp::Any | VoteOp::Ballot)
}

#[test]
fn votes() {
    for op in [
        VoteOp::All,
        VoteOp::Any,
        VoteOp::Ballot,
        VoteOp::ActiveMask,
        VoteOp::IsFirst,
    ] {
        check(
            |b, i, _| {
                let limit = u32c(b, 50);
                let c = b.compare(CompareOp::Lt, i, limit);
                let ty = match op {
                    VoteOp::Ballot | VoteOp::ActiveMask => Scalar::U64,
                    _ => Scalar::Bool,
                };
                b.emit(
                    Op::Vote {
                        op,
                        width: GroupWidth::Simd,
                        operand: asks(op).then_some(c),
                    },
                    &[ty.into()],
                )
            },
            32,
            |i, _, peers| {
                let yes = peers.iter().filter(|&&j| j < 50).count();
                Some(match op {
                    VoteOp::All => u32::from(yes == peers.len()),
                    VoteOp::Any => u32::from(yes > 0),
                    VoteOp::IsFirst => u32::from(peers[0] == i),
                    // The position of the mask depends on the group's start; the count does not.
                    VoteOp::Ballot | VoteOp::ActiveMask => return None,
                })
            },
        );
    }
    // Masks, bit by bit, in one full group.
    let ballot = |op| {
        run_group(32, 32, 1, |b, i, _| {
            let limit = u32c(b, 20);
            let c = b.compare(CompareOp::Lt, i, limit);
            b.emit(
                Op::Vote {
                    op,
                    width: GroupWidth::Simd,
                    operand: asks(op).then_some(c),
                },
                &[Scalar::U64.into()],
            )
        })
    };
    let active = (0..32).filter(|i| i % 3 != 1).fold(0u32, |m, i| m | 1 << i);
    assert_eq!(ballot(VoteOp::ActiveMask)[0], active);
    assert_eq!(ballot(VoteOp::Ballot)[0], active & ((1 << 20) - 1));
}
