//! `numeric_limits`, type traits that need the compiler, `array`, and the names of format types.

use std::rc::Rc;

use anymetal_formats::ElementFormat;
use anymetal_ir::{Scalar, builder::fold};

use super::args::{flatten, int_at, type_at};
use super::{Call, LibEntity};
use crate::sema::context::{Entity, Res, Sema};
use crate::sema::types::{Object, QualType, Reference, TemplateArg, TensorStorage, Type};
use crate::sema::value::{Leaf, Operand, Value};
use crate::source::Span;

/// Declarations of namespace `metal`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    let format = |format| Some(LibEntity::Type(Type::Format(format).into()));
    match name {
        "int4b_format" => return format(ElementFormat::Int4B),
        "uint4b_format" => return format(ElementFormat::UInt4B),
        "int2b_format" => return format(ElementFormat::Int2B),
        "uint2b_format" => return format(ElementFormat::UInt2B),
        "metal_fp4_e2m1_format" => return format(ElementFormat::Fp4E2M1),
        "metal_fp8_e4m3_format" => return format(ElementFormat::Fp8E4M3),
        "metal_fp8_e5m2_format" => return format(ElementFormat::Fp8E5M2),
        "metal_fp8_ue8m0_format" => return format(ElementFormat::Fp8UE8M0),
        "array" => {
            return Some(LibEntity::Template {
                name: "array",
                instantiate: instantiate_array,
                deduce: None,
            });
        }
        "numeric_limits" => {
            return Some(LibEntity::Template {
                name: "numeric_limits",
                instantiate: instantiate_limits,
                deduce: None,
            });
        }
        _ => {}
    }
    if let Some(instantiate) = truth_template(name) {
        return Some(LibEntity::Template {
            name: "type trait",
            instantiate,
            deduce: None,
        });
    }
    let instantiate: super::LibInstantiate = match name {
        "remove_cv_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "remove_cv_t", args, span, |ty| QualType {
                is_const: false,
                is_volatile: false,
                ..ty
            })
        },
        "remove_const_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "remove_const_t", args, span, |ty| QualType {
                is_const: false,
                ..ty
            })
        },
        "remove_reference_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "remove_reference_t", args, span, |ty| QualType {
                reference: Reference::None,
                ..ty
            })
        },
        "remove_cvref_t" | "decay_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "remove_cvref_t", args, span, |ty| ty.ty.into())
        },
        "remove_addrspace_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "remove_addrspace_t", args, span, |ty| QualType {
                space: None,
                ..ty
            })
        },
        "remove_pointer_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "remove_pointer_t", args, span, |ty| match &ty.ty {
                Type::Pointer(pointee) => (**pointee).clone(),
                _ => ty,
            })
        },
        "add_const_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "add_const_t", args, span, QualType::with_const)
        },
        "make_unsigned_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "make_unsigned_t", args, span, |ty| signedness(ty, false))
        },
        "make_signed_t" => |sema: &mut Sema<'_>, args: &[TemplateArg], span: Span| {
            adjusted(sema, "make_signed_t", args, span, |ty| signedness(ty, true))
        },
        _ => return None,
    };
    Some(LibEntity::Template {
        name: "type trait",
        instantiate,
        deduce: None,
    })
}

fn adjusted(
    sema: &mut Sema<'_>,
    name: &str,
    args: &[TemplateArg],
    span: Span,
    f: impl FnOnce(QualType) -> QualType,
) -> Res<QualType> {
    let args = flatten(args);
    Ok(f(type_at(sema, name, &args, 0, span)?.clone()))
}

fn signedness(ty: QualType, signed: bool) -> QualType {
    let Type::Scalar(scalar) = ty.ty else {
        return ty;
    };
    let to = match (scalar.size(), signed) {
        (1, true) => Scalar::I8,
        (1, false) => Scalar::U8,
        (2, true) => Scalar::I16,
        (2, false) => Scalar::U16,
        (4, true) => Scalar::I32,
        (4, false) => Scalar::U32,
        (_, true) => Scalar::I64,
        (_, false) => Scalar::U64,
    };
    QualType { ty: to.into(), ..ty }
}

/// `metal::array<T, N>` behaves as an array that is copied as a value.
fn instantiate_array(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let mut element = type_at(sema, "array", &args, 0, span)?.clone();
    element.of_class = true;
    let count = int_at(sema, "array", &args, 1, span)?;
    match u64::try_from(count) {
        Ok(count) => Ok(Type::Array(Rc::new(element), count).into()),
        Err(_) => sema.err("E0920", format!("'array' cannot have {count} elements"), span),
    }
}

/// `numeric_limits<T>` has no object: the type itself stands for it, wrapped so that its members are found.
fn instantiate_limits(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let ty = type_at(sema, "numeric_limits", &args, 0, span)?;
    match ty.ty {
        Type::Scalar(scalar) => Ok(Type::object(Object::Limits(scalar)).into()),
        Type::Record(_) => match user_limits(sema, ty, span)? {
            Some(own) => Ok(own),
            None => no_limits(sema, ty, span),
        },
        _ => no_limits(sema, ty, span),
    }
}

/// A class that specialises `metal::_numeric_limits_impl`, the name behind Apple's `numeric_limits`, has the members of its specialisation.
fn user_limits(sema: &mut Sema<'_>, ty: &QualType, span: Span) -> Res<Option<QualType>> {
    let found = sema
        .namespaces
        .iter()
        .find(|n| n.path == "metal")
        .and_then(|n| n.names.get("_numeric_limits_impl"))
        .and_then(|entities| {
            entities.iter().find_map(|entity| match entity {
                Entity::Template(id) => Some(*id),
                _ => None,
            })
        });
    let Some(id) = found else { return Ok(None) };
    let entity = sema.instantiate(id, vec![TemplateArg::Type(ty.clone())], span)?;
    let Entity::Type(own) = entity else { return Ok(None) };
    let Type::Record(record) = own.ty else { return Ok(None) };
    sema.complete_record(record)?;
    let specialised = sema.records[record.index()].decl.spec_args.is_some();
    Ok(specialised.then_some(own))
}

fn no_limits(sema: &mut Sema<'_>, ty: &QualType, span: Span) -> Res<QualType> {
    sema.err(
        "E0921",
        format!(
            "'numeric_limits<{}>' has no members: its argument must be a number type",
            sema.qual_name(ty)
        ),
        span,
    )
}

/// A member of `numeric_limits<T>`: functions without arguments, and constants.
pub fn limit(scalar: Scalar, name: &str) -> Option<Value> {
    let bits = scalar.bits();
    let integer = |value: i128| Some(Value::one(scalar, Sema::int_leaf(scalar, value)));
    let raw = |bits: u64| Some(Value::one(scalar, Leaf::Const(anymetal_ir::Const { ty: scalar, bits })));
    let number = |value: i128| Some(Value::one(Scalar::I32, Sema::int_leaf(Scalar::I32, value)));
    let flag = |value: bool| {
        Some(Value::one(
            Scalar::Bool,
            Sema::int_leaf(Scalar::Bool, i128::from(value)),
        ))
    };
    // Largest finite, smallest normal, epsilon, infinity, quiet NaN; significand digits.
    let float: Option<([u64; 5], i128)> = match scalar {
        Scalar::F16 => Some(([0x7bff, 0x0400, 0x1400, 0x7c00, 0x7e00], 11)),
        Scalar::BF16 => Some(([0x7f7f, 0x0080, 0x3c00, 0x7f80, 0x7fc0], 8)),
        Scalar::F32 => Some(([0x7f7f_ffff, 0x0080_0000, 0x3400_0000, 0x7f80_0000, 0x7fc0_0000], 24)),
        _ => None,
    };
    match (name, float) {
        ("is_specialized", _) => return flag(true),
        ("is_signed", _) => return flag(scalar.is_signed()),
        ("is_integer", _) => return flag(!scalar.is_float()),
        ("is_exact", _) => return flag(!scalar.is_float()),
        ("has_infinity" | "has_quiet_NaN", _) => return flag(scalar.is_float()),
        ("radix", _) => return number(2),
        ("digits10", Some((_, digits))) => return number((digits - 1) * 301 / 1000),
        ("max_digits10", Some((_, digits))) => return number(digits * 301 / 1000 + 2),
        ("digits10", None) => {
            let digits = i128::from(bits) - i128::from(scalar.is_signed());
            return number(digits * 301 / 1000);
        }
        ("digits", Some((_, digits))) => return number(digits),
        ("digits", None) => return number(i128::from(bits) - i128::from(scalar.is_signed())),
        ("max", Some((values, _))) => return raw(values[0]),
        ("lowest", Some((values, _))) => return raw(values[0] | 1 << (bits - 1)),
        ("min" | "denorm_min", Some((values, _))) => {
            return raw(if name == "min" { values[1] } else { 1 });
        }
        ("epsilon", Some((values, _))) => return raw(values[2]),
        ("infinity", Some((values, _))) => return raw(values[3]),
        ("quiet_NaN" | "signaling_NaN", Some((values, _))) => return raw(values[4]),
        ("round_error", Some(_)) => return raw(fold::float_bits(scalar, 0.5)),
        _ => {}
    }
    let (low, high) = if scalar.is_signed() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    match name {
        "max" => integer(high),
        "min" | "lowest" => integer(low),
        "epsilon" | "infinity" | "quiet_NaN" | "signaling_NaN" | "denorm_min" | "round_error" => integer(0),
        _ => None,
    }
}

/// The functions among the members of `numeric_limits`, called through [`super::static_member`].
pub fn is_limit_function(name: &str) -> bool {
    matches!(
        name,
        "max"
            | "min"
            | "lowest"
            | "epsilon"
            | "infinity"
            | "quiet_NaN"
            | "signaling_NaN"
            | "denorm_min"
            | "round_error"
    )
}

/// Yes-or-no traits of types (`is_floating_point_v<T>`); `None` for another name.
pub fn predicate(name: &str, args: &[TemplateArg]) -> Option<bool> {
    let args = flatten(args);
    let types: Vec<&QualType> = args
        .iter()
        .map_while(|arg| match arg {
            TemplateArg::Type(ty) => Some(ty),
            _ => None,
        })
        .collect();
    let first = types.first()?;
    let scalar = match first.ty {
        Type::Scalar(scalar) => Some(scalar),
        _ => None,
    };
    let tensor = match first.ty.as_object() {
        Some(Object::Tensor(tensor)) => Some(tensor),
        _ => None,
    };
    Some(match name {
        "is_same" => types.len() == 2 && types[0] == types[1],
        "is_floating_point" => scalar.is_some_and(Scalar::is_float),
        "is_integral" => scalar.is_some_and(|scalar| !scalar.is_float()),
        "is_arithmetic" | "is_scalar" => scalar.is_some(),
        "is_signed" => scalar.is_some_and(Scalar::is_signed),
        "is_unsigned" => scalar.is_some_and(|scalar| !scalar.is_signed()),
        "is_pointer" => matches!(first.ty, Type::Pointer(_)),
        "is_const" => first.is_const,
        "is_reference" | "is_lvalue_reference" => first.is_reference(),
        "is_void" => first.ty == Type::Void,
        "is_enum" => matches!(first.ty, Type::Enum(_)),
        "is_array" => matches!(first.ty, Type::Array(..)),
        "is_class" => matches!(first.ty, Type::Record(_) | Type::Object(_)),
        "is_vector" => matches!(first.ty, Type::Vector { .. }),
        "is_tensor_handle" => tensor.is_some_and(|tensor| tensor.storage != TensorStorage::Inline),
        "is_tensor_inline" => tensor.is_some_and(|tensor| tensor.storage == TensorStorage::Inline),
        "has_tensor_offset" => tensor.is_some_and(|tensor| tensor.storage == TensorStorage::Offset),
        "has_tensor_blockwise" | "is_tensor_blockwise" => tensor.is_some_and(|tensor| tensor.plane.is_some()),
        "is_execution_thread" => first.ty.as_object() == Some(&Object::ExecutionScope(0)),
        "is_execution_simdgroups" => {
            matches!(first.ty.as_object(), Some(Object::ExecutionScope(count)) if *count > 0)
        }
        _ => return None,
    })
}

macro_rules! truth_templates {
    ($($name:literal)*) => {
        /// The class template of a predicate: its instance is a truth with a `value`.
        fn truth_template(name: &str) -> Option<super::LibInstantiate> {
            Some(match name {
                $($name => |sema, args, span| match predicate($name, args) {
                    Some(value) => Ok(Type::object(Object::Truth(value)).into()),
                    None => sema.err("E0922", concat!("'", $name, "' takes types"), span),
                },)*
                _ => return None,
            })
        }
    };
}

truth_templates! {
    "is_same" "is_floating_point" "is_integral" "is_arithmetic" "is_scalar"
    "is_signed" "is_unsigned" "is_pointer" "is_const" "is_reference"
    "is_lvalue_reference" "is_void" "is_enum" "is_array" "is_class"
    "is_vector" "is_tensor_handle" "is_tensor_inline" "has_tensor_offset" "has_tensor_blockwise"
    "is_tensor_blockwise" "is_execution_thread" "is_execution_simdgroups"
}

/// A call of a limit's function.
pub fn call_limit(sema: &mut Sema<'_>, scalar: Scalar, call: &Call<'_>) -> Option<Res<Operand>> {
    let value = limit(scalar, call.name)?;
    if !call.args.is_empty() {
        return Some(sema.err("E0811", format!("'{}' takes no arguments", call.name), call.span));
    }
    Some(Ok(value.into()))
}
