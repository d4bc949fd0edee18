//! `atomic<T>` and the `atomic_*_explicit` functions.

use anymetal_ir::{AtomicOp, Op, Scalar, Type as IrType, ValueId};

use super::args::{self, expect_count, flatten, type_at};
use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{Object, QualType, Space, TemplateArg, Type};
use crate::sema::value::{LValue, Leaf, Operand, Place, Value};
use crate::source::Span;

const FUNCTIONS: &[(&str, AtomicOp)] = &[
    ("atomic_load_explicit", AtomicOp::Load),
    ("atomic_store_explicit", AtomicOp::Store),
    ("atomic_exchange_explicit", AtomicOp::Exchange),
    ("atomic_compare_exchange_weak_explicit", AtomicOp::CompareExchangeWeak),
    ("atomic_fetch_add_explicit", AtomicOp::Add),
    ("atomic_fetch_sub_explicit", AtomicOp::Sub),
    ("atomic_fetch_and_explicit", AtomicOp::And),
    ("atomic_fetch_or_explicit", AtomicOp::Or),
    ("atomic_fetch_xor_explicit", AtomicOp::Xor),
    ("atomic_fetch_min_explicit", AtomicOp::Min),
    ("atomic_fetch_max_explicit", AtomicOp::Max),
    ("atomic_min_explicit", AtomicOp::Min),
    ("atomic_max_explicit", AtomicOp::Max),
];

/// Declarations of namespace `metal`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    let ty = |scalar| Some(LibEntity::Type(Type::object(Object::Atomic(scalar)).into()));
    match name {
        // `_atomic` is the class behind the alias `atomic`; sources name it too.
        "atomic" | "_atomic" => {
            return Some(LibEntity::Template {
                name: "atomic",
                instantiate,
                deduce: None,
            });
        }
        "atomic_int" => return ty(Scalar::I32),
        "atomic_uint" => return ty(Scalar::U32),
        "atomic_float" => return ty(Scalar::F32),
        "atomic_bool" => return ty(Scalar::Bool),
        "atomic_ulong" => return ty(Scalar::U64),
        _ => {}
    }
    FUNCTIONS
        .iter()
        .any(|(known, _)| *known == name)
        .then_some(LibEntity::Function(call, "metal"))
}

fn instantiate(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let ty = type_at(sema, "atomic", &args, 0, span)?;
    match ty.ty {
        Type::Scalar(scalar @ (Scalar::I32 | Scalar::U32 | Scalar::F32 | Scalar::U64 | Scalar::Bool)) => {
            Ok(Type::object(Object::Atomic(scalar)).into())
        }
        _ => sema.err(
            "E0915",
            format!(
                "'atomic<{}>' does not exist: its argument must be int, uint, float, ulong or bool",
                sema.qual_name(ty)
            ),
            span,
        ),
    }
}

/// The address and type behind a pointer (or place) of an atomic.
fn target(sema: &mut Sema<'_>, call: &Call<'_>, writes: bool) -> Res<(ValueId, Scalar, Space)> {
    let operand = args::operand(sema, call, 0)?.clone();
    let span = call.args[0].span();
    if let Operand::Place(LValue {
        ty: Type::Object(object),
        place: Place::Memory {
            pointer, offset, space, ..
        },
        ..
    }) = &operand
        && let Object::Atomic(scalar) = **object
    {
        let pointer = sema.address(*pointer, *offset);
        return Ok((pointer, scalar, *space));
    }
    if let Operand::Place(LValue {
        ty: Type::Array(element, _),
        place: Place::Memory {
            pointer, offset, space, ..
        },
        ..
    }) = &operand
        && let Some(Object::Atomic(scalar)) = element.ty.as_object()
    {
        let pointer = sema.address(*pointer, *offset);
        return Ok((pointer, *scalar, *space));
    }
    let value = sema.rvalue(operand)?;
    if let Type::Pointer(pointee) = &value.ty
        && let Some(Object::Atomic(scalar)) = pointee.ty.as_object()
        && let Some(leaf) = value.leaf()
    {
        if writes && pointee.is_const {
            return sema.err_help(
                "E0914",
                format!("'{}' cannot change a const atomic", call.name),
                span,
                "declare the pointer without 'const'",
            );
        }
        return Ok((sema.materialize(leaf)?, *scalar, pointee.space_or_thread()));
    }
    let name = sema.type_name(&value.ty);
    sema.err(
        "E0916",
        format!("'{}' takes a pointer to an atomic, not '{name}'", call.name),
        span,
    )
}

fn call(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    sema.runtime_only()?;
    let found = FUNCTIONS.iter().find(|(known, _)| *known == call.name);
    let Some(&(_, op)) = found else {
        return sema.err("E0810", format!("'{}' is not declared", call.name), call.span);
    };
    let counts = match op {
        AtomicOp::Load => 2..=3,
        AtomicOp::CompareExchangeWeak => 5..=6,
        _ => 3..=4,
    };
    expect_count(sema, call, counts)?;
    let (pointer, ty, space) = target(sema, call, op != AtomicOp::Load)?;
    if !matches!(space, Space::Device | Space::Threadgroup) {
        return sema.err(
            "E0917",
            format!(
                "'{}' takes an atomic in device or threadgroup memory, not in {space} memory",
                call.name
            ),
            call.args[0].span(),
        );
    }
    let bitwise = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
    let arithmetic = bitwise || matches!(op, AtomicOp::Add | AtomicOp::Sub | AtomicOp::Min | AtomicOp::Max);
    let exists = match ty {
        Scalar::Bool => !arithmetic,
        Scalar::F32 => !bitwise && !matches!(op, AtomicOp::Min | AtomicOp::Max),
        Scalar::U64 => matches!(op, AtomicOp::Min | AtomicOp::Max),
        _ => true,
    };
    if !exists {
        let name = crate::sema::layout::scalar_name(ty);
        return sema.err(
            "E0918",
            format!("'{}' does not exist for 'atomic<{name}>'", call.name),
            call.span,
        );
    }
    match op {
        AtomicOp::Load => {
            let leaf = sema.emit1(
                Op::Atomic {
                    op,
                    pointer,
                    values: vec![],
                    ty,
                },
                ty,
            )?;
            Ok(Value::one(ty, leaf).into())
        }
        AtomicOp::Store => {
            let leaf = args::scalar(sema, call, 1, ty)?;
            let values = vec![sema.materialize(&leaf)?];
            sema.builder.emit_void(Op::Atomic {
                op,
                pointer,
                values,
                ty,
            });
            Ok(Operand::void())
        }
        AtomicOp::CompareExchangeWeak => compare_exchange(sema, call, pointer, ty),
        _ => {
            let leaf = args::scalar(sema, call, 1, ty)?;
            let values = vec![sema.materialize(&leaf)?];
            let leaf = sema.emit1(
                Op::Atomic {
                    op,
                    pointer,
                    values,
                    ty,
                },
                ty,
            )?;
            Ok(Value::one(ty, leaf).into())
        }
    }
}

/// The second argument points at the expected value, which receives the value found.
fn compare_exchange(sema: &mut Sema<'_>, call: &Call<'_>, pointer: ValueId, ty: Scalar) -> Res<Operand> {
    let value = args::value(sema, call, 1)?;
    let (Type::Pointer(pointee), Some(leaf)) = (&value.ty, value.leaf()) else {
        return sema.err(
            "E0919",
            "the expected value is passed by pointer: '&expected'",
            call.args[1].span(),
        );
    };
    let address = sema.materialize(leaf)?;
    let place = sema.deref(address, pointee)?;
    let expected = sema.load(&place)?;
    let expected = args::scalar_of(sema, &expected, ty, call.args[1].span())?;
    let expected = sema.materialize(&expected)?;
    let desired = args::scalar(sema, call, 2, ty)?;
    let desired = sema.materialize(&desired)?;
    let op = Op::Atomic {
        op: AtomicOp::CompareExchangeWeak,
        pointer,
        values: vec![expected, desired],
        ty,
    };
    let found = sema.builder.emit(op, &[IrType::Scalar(ty), Scalar::Bool.into()]);
    sema.store(&place, &Value::one(ty, Leaf::Value(found)))?;
    Ok(Value::one(Scalar::Bool, Leaf::Value(ValueId(found.0 + 1))).into())
}
