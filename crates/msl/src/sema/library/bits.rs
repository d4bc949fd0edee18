//! `as_type<T>(x)`: the same bits as another scalar or vector of the same size.

use anymetal_ir::{BinaryOp, Const, MathMode, Op, Scalar};

use super::args::{self, expect_count, flatten, type_at};
use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::types::Type;
use crate::sema::value::{Leaf, Operand, Value};

/// `as_type` is found without a namespace too.
pub fn lookup(name: &str) -> Option<LibEntity> {
    (name == "as_type").then_some(LibEntity::Function(as_type, "metal"))
}

fn as_type(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let targets = flatten(call.template_args);
    let to = type_at(sema, "as_type", &targets, 0, call.span)?.ty.clone();
    let value = args::value(sema, call, 0)?;
    let shape = |ty: &Type| {
        let scalar = ty.component().filter(|scalar| *scalar != Scalar::Bool)?;
        Some((scalar, u32::from(ty.lanes()?)))
    };
    let bytes = |(scalar, lanes): (Scalar, u32)| scalar.size() * lanes;
    let (from_shape, to_shape) = (shape(&value.ty), shape(&to));
    let (Some(from), Some(into)) = (from_shape, to_shape) else {
        let name = sema.type_name(if from_shape.is_none() { &value.ty } else { &to });
        return sema.err(
            "E0935",
            format!("'as_type' takes scalars and vectors of numbers, not '{name}'"),
            call.span,
        );
    };
    if bytes(from) != bytes(into) {
        let (a, b) = (sema.type_name(&value.ty), sema.type_name(&to));
        return sema.err(
            "E0936",
            format!(
                "'as_type' needs types of one size: '{a}' has {} bytes, '{b}' has {}",
                bytes(from),
                bytes(into)
            ),
            call.span,
        );
    }
    let leaves = recast(sema, &value.leaves, from.0, into.0)?;
    Ok(Value { ty: to, leaves }.into())
}

/// The unsigned integer of a scalar's size.
fn unsigned(scalar: Scalar) -> Scalar {
    match scalar.size() {
        1 => Scalar::U8,
        2 => Scalar::U16,
        4 => Scalar::U32,
        _ => Scalar::U64,
    }
}

/// One leaf as another scalar of its size.
fn bitcast(sema: &mut Sema<'_>, leaf: &Leaf, to: Scalar) -> Res<Leaf> {
    if let Some(value) = sema.const_of(leaf) {
        return Ok(Leaf::Const(Const {
            ty: to,
            bits: value.bits,
        }));
    }
    if sema.leaf_type(leaf) == Some(to.into()) {
        return Ok(leaf.clone());
    }
    let operand = sema.materialize(leaf)?;
    sema.emit1(Op::Bitcast { operand, to: to.into() }, to)
}

/// Components of one size cut into, or joined to, components of another; the first is the lowest in memory.
fn recast(sema: &mut Sema<'_>, leaves: &[Leaf], from: Scalar, to: Scalar) -> Res<Vec<Leaf>> {
    let (narrow, wide) = (from.size().min(to.size()), from.size().max(to.size()));
    let parts = (wide / narrow) as usize;
    let mut out = Vec::new();
    if from.size() == to.size() {
        for leaf in leaves {
            out.push(bitcast(sema, leaf, to)?);
        }
    } else if from.size() > to.size() {
        for leaf in leaves {
            let whole = bitcast(sema, leaf, unsigned(from))?;
            for part in 0..parts {
                let shift = Sema::int_leaf(unsigned(from), (part as u32 * to.bits()).into());
                let moved = sema.binary_leaf(BinaryOp::Shr, &whole, &shift, MathMode::Precise)?;
                let cut = sema.convert_leaf(&moved, unsigned(to))?;
                out.push(bitcast(sema, &cut, to)?);
            }
        }
    } else {
        for group in leaves.chunks(parts) {
            let mut whole = Sema::int_leaf(unsigned(to), 0);
            for (part, leaf) in group.iter().enumerate() {
                let bits = bitcast(sema, leaf, unsigned(from))?;
                let bits = sema.convert_leaf(&bits, unsigned(to))?;
                let shift = Sema::int_leaf(unsigned(to), (part as u32 * from.bits()).into());
                let moved = sema.binary_leaf(BinaryOp::Shl, &bits, &shift, MathMode::Precise)?;
                whole = sema.binary_leaf(BinaryOp::Or, &whole, &moved, MathMode::Precise)?;
            }
            out.push(bitcast(sema, &whole, to)?);
        }
    }
    Ok(out)
}
