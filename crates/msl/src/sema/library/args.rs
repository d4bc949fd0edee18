//! Reading template arguments and call arguments of library declarations.

use anymetal_formats::ElementFormat;
use anymetal_ir::{Scalar, builder::fold};

use super::Call;
use crate::sema::context::{Res, Sema};
use crate::sema::layout::scalar_format;
use crate::sema::types::{ConstLeaf, Constant, QualType, TemplateArg, Type};
use crate::sema::value::{Arg, Leaf, Operand, Value};
use crate::source::Span;

/// Template arguments with packs opened.
pub fn flatten(args: &[TemplateArg]) -> Vec<TemplateArg> {
    let mut out = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            TemplateArg::Pack(inner) => out.extend(flatten(inner)),
            other => out.push(other.clone()),
        }
    }
    out
}

/// The type at a position.
pub fn type_at<'a>(sema: &Sema<'_>, what: &str, args: &'a [TemplateArg], at: usize, span: Span) -> Res<&'a QualType> {
    match args.get(at) {
        Some(TemplateArg::Type(ty)) => Ok(ty),
        Some(TemplateArg::Template(_)) if what.starts_with("matmul2d") && at == 1 => sema.err_help(
            "E0840",
            "the scope of 'matmul2d' is a class template without its arguments",
            span,
            "write 'execution_simdgroup' for one SIMD-group, or 'execution_simdgroups<N>' for N",
        ),
        Some(other) => sema.err(
            "E0820",
            format!(
                "template argument {} of '{what}' must be a type, not '{}'",
                at + 1,
                sema.arg_name(other)
            ),
            span,
        ),
        None => sema.err(
            "E0821",
            format!("'{what}' needs template argument {} (a type)", at + 1),
            span,
        ),
    }
}

/// The integer at a position.
pub fn int_at(sema: &Sema<'_>, what: &str, args: &[TemplateArg], at: usize, span: Span) -> Res<i128> {
    match args.get(at) {
        Some(TemplateArg::Value(value)) if value.as_int().is_some() => Ok(value.as_int().unwrap_or(0)),
        Some(other) => sema.err(
            "E0822",
            format!(
                "template argument {} of '{what}' must be an integer, not '{}'",
                at + 1,
                sema.arg_name(other)
            ),
            span,
        ),
        None => sema.err(
            "E0821",
            format!("'{what}' needs template argument {} (an integer)", at + 1),
            span,
        ),
    }
}

/// The integers of a class-type constant, in order.
pub fn integers(value: &Constant) -> Option<Vec<i128>> {
    value
        .leaves
        .iter()
        .map(|leaf| match leaf {
            ConstLeaf::Number(number) if !number.ty.is_float() => Some(fold::to_int(*number)),
            _ => None,
        })
        .collect()
}

/// The element format that a type is in a tensor.
pub fn element_format(ty: &Type) -> Option<ElementFormat> {
    match ty {
        Type::Scalar(scalar) => Some(scalar_format(*scalar)),
        Type::Format(format) => Some(*format),
        _ => None,
    }
}

/// The type that an element format is in the language.
pub fn element_type(format: ElementFormat) -> Type {
    if format.is_format_type() {
        Type::Format(format)
    } else {
        Type::Scalar(crate::sema::layout::format_scalar(format))
    }
}

/// The static extent behind a template argument; `dynamic_extent` (all ones) is `None`.
pub fn extent(value: i128) -> Option<u64> {
    if value < 0 || value >= i128::from(u64::MAX) {
        None
    } else {
        Some(value as u64)
    }
}

/// The operand of a call's argument; a braced list is an error.
pub fn operand<'a>(sema: &Sema<'_>, call: &Call<'a>, at: usize) -> Res<&'a Operand> {
    match call.args.get(at) {
        Some(arg) => arg.operand().map_or_else(
            || {
                sema.err(
                    "E0812",
                    format!("'{}' takes no braced list here", call.name),
                    arg.span(),
                )
            },
            Ok,
        ),
        None => sema.err(
            "E0811",
            format!("'{}' needs argument {}, {} given", call.name, at + 1, call.args.len()),
            call.span,
        ),
    }
}

/// Checks the count of arguments.
pub fn expect_count(sema: &Sema<'_>, call: &Call<'_>, counts: std::ops::RangeInclusive<usize>) -> Res<()> {
    if counts.contains(&call.args.len()) {
        return Ok(());
    }
    let wanted = match (counts.start(), counts.end()) {
        (0, 0) => "no arguments".to_string(),
        (1, 1) => "1 argument".to_string(),
        (least, most) if least == most => format!("{least} arguments"),
        (least, most) => format!("{least} to {most} arguments"),
    };
    sema.err(
        "E0811",
        format!("'{}' takes {wanted}, {} given", call.name, call.args.len()),
        call.span,
    )
}

/// An argument as an rvalue.
pub fn value(sema: &mut Sema<'_>, call: &Call<'_>, at: usize) -> Res<Value> {
    let operand = operand(sema, call, at)?.clone();
    sema.rvalue(operand)
}

/// An argument as one scalar leaf, converted.
pub fn scalar(sema: &mut Sema<'_>, call: &Call<'_>, at: usize, to: Scalar) -> Res<Leaf> {
    let value = value(sema, call, at)?;
    let span = call.args[at].span();
    scalar_of(sema, &value, to, span)
}

/// A value as one scalar leaf, converted.
pub fn scalar_of(sema: &mut Sema<'_>, value: &Value, to: Scalar, span: Span) -> Res<Leaf> {
    match (&value.ty, value.leaf()) {
        (Type::Scalar(_) | Type::Enum(_), Some(leaf)) => {
            let leaf = leaf.clone();
            sema.convert_leaf(&leaf, to)
        }
        _ => {
            let ty = sema.type_name(&value.ty);
            sema.err("E0823", format!("expected a number, not '{ty}'"), span)
        }
    }
}

/// All leaves of an index list: scalars one by one, or one array (or vector) of them, as `i64` leaves.
pub fn indices(sema: &mut Sema<'_>, args: &[Arg], rank: usize, what: &str, span: Span) -> Res<Vec<Leaf>> {
    let mut leaves = Vec::new();
    for arg in args {
        match arg {
            Arg::Operand(operand, _) => {
                let value = sema.rvalue(operand.clone())?;
                let plain = matches!(value.ty, Type::Scalar(_) | Type::Enum(_));
                let listed =
                    args.len() == 1 && matches!(value.ty, Type::Array(..) | Type::Vector { .. } | Type::Record(_));
                if !plain && !listed {
                    let ty = sema.type_name(&value.ty);
                    return sema.err(
                        "E0823",
                        format!("integers are needed for {what}, not '{ty}'"),
                        arg.span(),
                    );
                }
                leaves.extend(value.leaves);
            }
            Arg::List(items, _) => {
                let inner: Vec<Arg> = items.iter().map(|(_, item)| item.clone()).collect();
                leaves.extend(indices(sema, &inner, rank, what, span)?);
            }
        }
    }
    if leaves.len() != rank {
        return sema.err(
            "E0824",
            format!(
                "{rank} values are needed for {what} of rank {rank}, {} given",
                leaves.len()
            ),
            span,
        );
    }
    leaves.iter().map(|leaf| sema.convert_leaf(leaf, Scalar::I64)).collect()
}
