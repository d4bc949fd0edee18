//! `extents` and `dextents` (reference 1.2).

use super::Call;
use super::args::{self, expect_count, extent, flatten, int_at, type_at};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{ExtentsType, Object, QualType, TemplateArg, Type};
use crate::sema::value::{Arg, Leaf, Operand, Value};
use crate::source::Span;
use anymetal_ir::Scalar;

/// `MTL_TENSOR_MAX_RANK`.
const MAX_RANK: usize = 16;

pub(super) fn index_scalar(sema: &Sema<'_>, ty: &QualType, span: Span) -> Res<Scalar> {
    match ty.ty {
        Type::Scalar(scalar) if scalar.is_integer() => Ok(scalar),
        _ => sema.err(
            "E0825",
            format!(
                "the index type of extents must be an integer type, not '{}'",
                sema.qual_name(ty)
            ),
            span,
        ),
    }
}

pub(super) fn instantiate_extents(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let index = index_scalar(sema, type_at(sema, "extents", &args, 0, span)?, span)?;
    let mut extents = Vec::new();
    for at in 1..args.len() {
        extents.push(extent_at(sema, "extents", &args, at, span)?);
    }
    check_rank(sema, extents.len() as i128, span)?;
    Ok(Type::object(Object::Extents(ExtentsType { index, extents })).into())
}

/// A static extent among template arguments; `None` for `dynamic_extent`, as `size_t` or as −1 of a signed type.
pub(super) fn extent_at(sema: &Sema<'_>, what: &str, args: &[TemplateArg], at: usize, span: Span) -> Res<Option<u64>> {
    let value = int_at(sema, what, args, at, span)?;
    if value < -1 {
        return sema.err_help(
            "E0855",
            format!("an extent of '{what}' cannot be {value}"),
            span,
            "an extent is a count of elements, or 'dynamic_extent'",
        );
    }
    Ok(extent(value))
}

pub(super) fn instantiate_dextents(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let index = index_scalar(sema, type_at(sema, "dextents", &args, 0, span)?, span)?;
    let rank = int_at(sema, "dextents", &args, 1, span)?;
    let rank = check_rank(sema, rank, span)?;
    Ok(Type::object(Object::Extents(ExtentsType {
        index,
        extents: vec![None; rank],
    }))
    .into())
}

pub(super) fn check_rank(sema: &Sema<'_>, rank: i128, span: Span) -> Res<usize> {
    match usize::try_from(rank) {
        Ok(rank) if rank <= MAX_RANK => Ok(rank),
        _ => sema.err("E0826", format!("a tensor's rank is 0 to {MAX_RANK}, not {rank}"), span),
    }
}

/// `extents<…>(a, b)`: one argument for each dimension or for each dynamic one.
pub fn construct_extents(sema: &mut Sema<'_>, ty: &ExtentsType, args: &[Arg], span: Span) -> Res<Operand> {
    let whole = Type::object(Object::Extents(ty.clone()));
    if let [Arg::Operand(operand, _)] = args
        && let Some(Object::Extents(from)) = operand.ty().as_object()
    {
        let from = from.clone();
        let value = sema.rvalue(operand.clone())?;
        return convert_extents(sema, &from, &value, ty, span).map(Operand::Value);
    }
    let (rank, dynamic) = (ty.rank(), ty.dynamic());
    if args.is_empty() {
        let leaves = vec![Sema::int_leaf(ty.index, 0); dynamic];
        return Ok(Value { ty: whole, leaves }.into());
    }
    let mut leaves = Vec::new();
    for arg in args {
        match arg {
            Arg::Operand(operand, span) => {
                let value = sema.rvalue(operand.clone())?;
                if matches!(value.ty, Type::Array(..)) {
                    leaves.extend(value.leaves);
                } else {
                    leaves.push(args::scalar_of(sema, &value, ty.index, *span)?);
                }
            }
            Arg::List(items, span) => {
                let inner: Vec<Arg> = items.iter().map(|(_, item)| item.clone()).collect();
                return construct_extents(sema, ty, &inner, *span);
            }
        }
    }
    if leaves.len() != rank && leaves.len() != dynamic {
        let or = if dynamic == rank {
            String::new()
        } else {
            format!(", or {dynamic} (one for each dynamic extent)")
        };
        return sema.err(
            "E0827",
            format!("extents of rank {rank} take {rank} values{or}, {} given", leaves.len()),
            span,
        );
    }
    if leaves.len() == rank && rank != dynamic {
        let mut kept = Vec::new();
        for (leaf, fixed) in leaves.into_iter().zip(&ty.extents) {
            match (fixed, sema.int_of(&leaf)) {
                (None, _) => kept.push(leaf),
                (Some(fixed), Some(given)) if i128::from(*fixed) != given => {
                    return sema.err(
                        "E0828",
                        format!("extent {given} is given where the type says {fixed}"),
                        span,
                    );
                }
                _ => {}
            }
        }
        leaves = kept;
    }
    let leaves = leaves
        .iter()
        .map(|leaf| sema.convert_leaf(leaf, ty.index))
        .collect::<Res<_>>()?;
    Ok(Value { ty: whole, leaves }.into())
}

/// All extents of a value as `i64` leaves.
pub fn extent_leaves(sema: &mut Sema<'_>, ty: &ExtentsType, value: &Value) -> Res<Vec<Leaf>> {
    let mut dynamic = value.leaves.iter();
    let mut out = Vec::with_capacity(ty.rank());
    for fixed in &ty.extents {
        match fixed {
            Some(fixed) => out.push(Sema::int_leaf(Scalar::I64, i128::from(*fixed))),
            None => {
                let leaf = dynamic
                    .next()
                    .cloned()
                    .unwrap_or_else(|| Sema::int_leaf(Scalar::I64, 0));
                out.push(sema.convert_leaf(&leaf, Scalar::I64)?);
            }
        }
    }
    Ok(out)
}

pub(super) fn convert_extents(
    sema: &mut Sema<'_>,
    from: &ExtentsType,
    value: &Value,
    to: &ExtentsType,
    span: Span,
) -> Res<Value> {
    if from.rank() != to.rank() {
        return sema.err(
            "E0829",
            format!(
                "extents of rank {} cannot become extents of rank {}",
                from.rank(),
                to.rank()
            ),
            span,
        );
    }
    let all = extent_leaves(sema, from, value)?;
    let mut leaves = Vec::new();
    for (leaf, fixed) in all.iter().zip(&to.extents) {
        if fixed.is_none() {
            leaves.push(sema.convert_leaf(leaf, to.index)?);
        }
    }
    Ok(Value {
        ty: Type::object(Object::Extents(to.clone())),
        leaves,
    })
}

/// `extent(r)`, `rank()`, `static_extent(r)`, …
pub fn extents_method(
    sema: &mut Sema<'_>,
    ty: &ExtentsType,
    object: &Operand,
    call: &Call<'_>,
) -> Option<Res<Operand>> {
    let count = |value: usize| Ok(sema_int(Scalar::U64, value as i128));
    Some(match call.name {
        "rank" => count(ty.rank()),
        "rank_dynamic" => count(ty.dynamic()),
        "static_extent" => static_extent(sema, ty, call),
        "extent" => (|| {
            let value = sema.rvalue(object.clone())?;
            let leaves = extent_leaves(sema, ty, &value)?;
            let at = dimension(sema, call, ty.rank())?;
            let leaf = sema.convert_leaf(&leaves[at], ty.index)?;
            Ok(Value::one(ty.index, leaf).into())
        })(),
        _ => return None,
    })
}

pub(super) fn sema_int(scalar: Scalar, value: i128) -> Operand {
    Value::one(scalar, Sema::int_leaf(scalar, value)).into()
}

/// A constant dimension index of a call.
pub(super) fn dimension(sema: &mut Sema<'_>, call: &Call<'_>, rank: usize) -> Res<usize> {
    expect_count(sema, call, 1..=1)?;
    let leaf = args::scalar(sema, call, 0, Scalar::I64)?;
    match sema.int_of(&leaf) {
        Some(at) if (0..rank as i128).contains(&at) => Ok(at as usize),
        Some(at) => sema.err(
            "E0831",
            format!("dimension {at} is outside a tensor of rank {rank}"),
            call.args[0].span(),
        ),
        None => sema.err_help(
            "E0832",
            "the dimension must be a constant here",
            call.args[0].span(),
            "unroll the loop over dimensions by hand",
        ),
    }
}

pub(super) fn static_extent(sema: &mut Sema<'_>, ty: &ExtentsType, call: &Call<'_>) -> Res<Operand> {
    let at = dimension(sema, call, ty.rank())?;
    Ok(sema_int(
        Scalar::U64,
        ty.extents[at].map_or(i128::from(u64::MAX), i128::from),
    ))
}
