//! SIMD-group and quad-group functions, barriers and fences.

use anymetal_ir::{
    BinaryOp, Builtin, CompareOp, GroupOp, GroupWidth, MathMode, MemFlags, Op, Scalar, Scope, ShuffleOp, VoteOp,
};

use super::args::{self, expect_count};
use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{Object, Type};
use crate::sema::value::{Leaf, Operand, Value};

const REDUCTIONS: &[(&str, GroupOp)] = &[
    ("sum", GroupOp::Sum),
    ("product", GroupOp::Product),
    ("min", GroupOp::Min),
    ("max", GroupOp::Max),
    ("and", GroupOp::And),
    ("or", GroupOp::Or),
    ("xor", GroupOp::Xor),
    ("prefix_inclusive_sum", GroupOp::PrefixInclusiveSum),
    ("prefix_exclusive_sum", GroupOp::PrefixExclusiveSum),
    ("prefix_inclusive_product", GroupOp::PrefixInclusiveProduct),
    ("prefix_exclusive_product", GroupOp::PrefixExclusiveProduct),
];

const SHUFFLES: &[(&str, ShuffleOp)] = &[
    ("shuffle", ShuffleOp::Shuffle),
    ("shuffle_xor", ShuffleOp::ShuffleXor),
    ("shuffle_down", ShuffleOp::ShuffleDown),
    ("shuffle_up", ShuffleOp::ShuffleUp),
    ("shuffle_rotate_down", ShuffleOp::RotateDown),
    ("shuffle_rotate_up", ShuffleOp::RotateUp),
    ("broadcast", ShuffleOp::Broadcast),
    ("broadcast_first", ShuffleOp::BroadcastFirst),
];

const VOTES: &[(&str, VoteOp)] = &[
    ("all", VoteOp::All),
    ("any", VoteOp::Any),
    ("ballot", VoteOp::Ballot),
    ("active_threads_mask", VoteOp::ActiveMask),
    ("is_first", VoteOp::IsFirst),
];

fn split(name: &str) -> Option<(GroupWidth, &str)> {
    name.strip_prefix("simd_")
        .map(|rest| (GroupWidth::Simd, rest))
        .or_else(|| name.strip_prefix("quad_").map(|rest| (GroupWidth::Quad, rest)))
}

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Declarations of namespace `metal`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    match name {
        "threadgroup_barrier" | "simdgroup_barrier" => {
            return Some(LibEntity::Function(barrier, "metal"));
        }
        "atomic_thread_fence" => return Some(LibEntity::Function(fence, "metal")),
        "simd_vote" | "quad_vote" => {
            return Some(LibEntity::Type(Type::object(Object::Tag("simd_vote")).into()));
        }
        _ => {}
    }
    let (_, rest) = split(name)?;
    if find(REDUCTIONS, rest).is_some() {
        Some(LibEntity::Function(reduction, "metal"))
    } else if find(SHUFFLES, rest).is_some() {
        Some(LibEntity::Function(shuffle, "metal"))
    } else if find(VOTES, rest).is_some() {
        Some(LibEntity::Function(vote, "metal"))
    } else if rest == "shuffle_and_fill_down" || rest == "shuffle_and_fill_up" {
        Some(LibEntity::Function(shuffle_and_fill, "metal"))
    } else {
        None
    }
}

fn not_yet(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    sema.err("E0910", format!("'{}' is not supported yet", call.name), call.span)
}

/// `simd_shuffle_and_fill_down(data, fill, delta[, modulo])` and its siblings: the lanes of a segment of `modulo` lanes take
/// the value of `delta` lanes further (before); what comes from past the segment's end is taken from the lanes of `fill` that
/// would follow (precede) there.
fn shuffle_and_fill(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 3..=4)?;
    sema.runtime_only()?;
    let Some((width, _)) = split(call.name) else {
        return not_yet(sema, call);
    };
    let (lanes, index) = match width {
        GroupWidth::Simd => (32, Builtin::ThreadIndexInSimdgroup),
        GroupWidth::Quad => (4, Builtin::ThreadIndexInQuadgroup),
    };
    let (data, scalar) = numbers(sema, call, 0)?;
    let fill = args::operand(sema, call, 1)?.clone();
    let fill = sema.convert(fill, &data.ty, false, call.args[1].span())?;
    let delta = args::scalar(sema, call, 2, Scalar::U32)?;
    let modulo = match call.args.get(3) {
        None => Sema::int_leaf(Scalar::U32, lanes),
        Some(arg) => {
            let leaf = args::scalar(sema, call, 3, Scalar::U32)?;
            if let Some(known) = sema.int_of(&leaf)
                && !(2..=lanes).contains(&known) | !(known as u32).is_power_of_two()
            {
                return sema.err_help(
                    "E0912",
                    format!("{known} lanes are no part of the group that '{}' works on", call.name),
                    arg.span(),
                    format!("'modulo' is a power of two from 2 to {lanes}"),
                );
            }
            leaf
        }
    };
    let p = MathMode::Precise;
    let lane = sema.emit1(Op::Builtin(index), Scalar::U32)?;
    let one = Sema::int_leaf(Scalar::U32, 1);
    let mask = sema.binary_leaf(BinaryOp::Sub, &modulo, &one, p)?;
    let inside = sema.binary_leaf(BinaryOp::And, &lane, &mask, p)?;
    let first = sema.binary_leaf(BinaryOp::Sub, &lane, &inside, p)?;
    let (target, own) = if call.name.ends_with("down") {
        let target = sema.binary_leaf(BinaryOp::Add, &inside, &delta, p)?;
        let own = sema.compare_leaf(CompareOp::Lt, &target, &modulo)?;
        (target, own)
    } else {
        let target = sema.binary_leaf(BinaryOp::Sub, &inside, &delta, p)?;
        let own = sema.compare_leaf(CompareOp::Ge, &inside, &delta)?;
        (target, own)
    };
    let target = sema.binary_leaf(BinaryOp::And, &target, &mask, p)?;
    let source = sema.binary_leaf(BinaryOp::Add, &first, &target, p)?;
    let index = sema.materialize(&source)?;
    let mut leaves = Vec::with_capacity(data.leaves.len());
    for (data, fill) in data.leaves.iter().zip(&fill.leaves) {
        let mut moved = Vec::with_capacity(2);
        for leaf in [data, fill] {
            let operand = sema.materialize(leaf)?;
            let op = ShuffleOp::Shuffle;
            let op = Op::Shuffle {
                op,
                width,
                operand,
                index,
            };
            moved.push(sema.emit1(op, scalar)?);
        }
        leaves.push(sema.select_leaf(&own, &moved[0], &moved[1])?);
    }
    Ok(Value { ty: data.ty, leaves }.into())
}

/// The number or vector argument of a group function.
fn numbers(sema: &mut Sema<'_>, call: &Call<'_>, at: usize) -> Res<(Value, Scalar)> {
    let value = args::value(sema, call, at)?;
    match value.ty.component() {
        Some(scalar) => Ok((value, scalar)),
        None => {
            let name = sema.type_name(&value.ty);
            sema.err(
                "E0813",
                format!("'{}' takes numbers and vectors, not '{name}'", call.name),
                call.args[at].span(),
            )
        }
    }
}

fn reduction(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    sema.runtime_only()?;
    let Some((width, op)) = split(call.name).and_then(|(width, rest)| Some((width, find(REDUCTIONS, rest)?))) else {
        return not_yet(sema, call);
    };
    let (value, scalar) = numbers(sema, call, 0)?;
    let bitwise = matches!(op, GroupOp::And | GroupOp::Or | GroupOp::Xor);
    if bitwise && scalar.is_float() {
        return sema.err(
            "E0815",
            format!(
                "'{}' takes integers, not '{}'",
                call.name,
                crate::sema::layout::scalar_name(scalar)
            ),
            call.args[0].span(),
        );
    }
    let mut leaves = Vec::with_capacity(value.leaves.len());
    for leaf in &value.leaves {
        let operand = sema.materialize(leaf)?;
        leaves.push(sema.emit1(Op::Group { op, width, operand }, scalar)?);
    }
    Ok(Value { ty: value.ty, leaves }.into())
}

fn shuffle(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    let Some((width, op)) = split(call.name).and_then(|(width, rest)| Some((width, find(SHUFFLES, rest)?))) else {
        return not_yet(sema, call);
    };
    let count = if op == ShuffleOp::BroadcastFirst { 1 } else { 2 };
    expect_count(sema, call, count..=count)?;
    sema.runtime_only()?;
    let (value, scalar) = numbers(sema, call, 0)?;
    let index = if count == 2 {
        args::scalar(sema, call, 1, Scalar::U32)?
    } else {
        Sema::int_leaf(Scalar::U32, 0)
    };
    let index = sema.materialize(&index)?;
    let mut leaves = Vec::with_capacity(value.leaves.len());
    for leaf in &value.leaves {
        let operand = sema.materialize(leaf)?;
        leaves.push(sema.emit1(
            Op::Shuffle {
                op,
                width,
                operand,
                index,
            },
            scalar,
        )?);
    }
    Ok(Value { ty: value.ty, leaves }.into())
}

fn vote(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    let Some((width, op)) = split(call.name).and_then(|(width, rest)| Some((width, find(VOTES, rest)?))) else {
        return not_yet(sema, call);
    };
    let asks = matches!(op, VoteOp::All | VoteOp::Any | VoteOp::Ballot);
    let count = usize::from(asks);
    expect_count(sema, call, count..=count)?;
    sema.runtime_only()?;
    let operand = if asks {
        let leaf = args::scalar(sema, call, 0, Scalar::Bool)?;
        Some(sema.materialize(&leaf)?)
    } else {
        None
    };
    let mask = matches!(op, VoteOp::Ballot | VoteOp::ActiveMask);
    let scalar = if mask { Scalar::U64 } else { Scalar::Bool };
    let leaf = sema.emit1(Op::Vote { op, width, operand }, scalar)?;
    let ty = if mask {
        Type::object(Object::Tag("simd_vote"))
    } else {
        Type::BOOL
    };
    Ok(Value { ty, leaves: vec![leaf] }.into())
}

/// Members of `simd_vote`: `all()`, `any()`, and the explicit conversion to a mask.
pub fn vote_method(sema: &mut Sema<'_>, object: &Operand, call: &Call<'_>) -> Option<Res<Operand>> {
    let test = match call.name {
        "any" => anymetal_ir::CompareOp::Ne,
        "all" => anymetal_ir::CompareOp::Eq,
        _ => return None,
    };
    Some((|| {
        let value = sema.rvalue(object.clone())?;
        // `all` means all active threads.
        let against = if call.name == "all" {
            sema.emit1(
                Op::Vote {
                    op: VoteOp::ActiveMask,
                    width: GroupWidth::Simd,
                    operand: None,
                },
                Scalar::U64,
            )?
        } else {
            Sema::int_leaf(Scalar::U64, 0)
        };
        let leaf = sema.compare_leaf(test, &value.leaves[0], &against)?;
        Ok(Value::one(Scalar::Bool, leaf).into())
    })())
}

/// The memory flags of a call's argument.
fn flags(sema: &mut Sema<'_>, call: &Call<'_>, at: usize) -> Res<MemFlags> {
    let value = args::value(sema, call, at)?;
    let bits = value.leaf().and_then(|leaf: &Leaf| sema.int_of(leaf));
    let Some(bits) = bits else {
        return sema.err_help(
            "E0911",
            format!("the memory flags of '{}' must be a constant", call.name),
            call.args[at].span(),
            "write 'mem_flags::mem_device', 'mem_flags::mem_threadgroup' or both joined by '|'",
        );
    };
    Ok(MemFlags {
        device: bits & 1 != 0,
        threadgroup: bits & 2 != 0,
        texture: bits & 4 != 0,
    })
}

fn barrier(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=2)?;
    sema.runtime_only()?;
    let flags = flags(sema, call, 0)?;
    let scope = if call.name == "threadgroup_barrier" {
        Scope::Threadgroup
    } else {
        Scope::Simdgroup
    };
    sema.builder.emit_void(Op::Barrier { scope, flags });
    Ok(Operand::void())
}

fn fence(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=3)?;
    sema.runtime_only()?;
    let flags = flags(sema, call, 0)?;
    sema.builder.emit_void(Op::Fence(flags));
    Ok(Operand::void())
}
