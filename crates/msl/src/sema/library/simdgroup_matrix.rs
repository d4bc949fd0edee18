//! `simdgroup_matrix<T, 8, 8>`: a matrix that a SIMD-group holds, two elements a lane.
//!
//! A value is those two elements (layout S of reference 5.6): lane bits b4…b0 hold row `b1 + 2·b2 + 4·b4` and the columns from
//! `2·b0 + 4·b3` on. So arrays, copies, members and `thread_elements()` are those of any small vector; loads and stores are memory accesses of
//! each lane, and only products are an operation of their own.

use anymetal_ir::{BinaryOp, Builtin, CompareOp, MathMode, Op, Scalar, Type as IrType, ValueId};

use super::args::{self, expect_count, flatten, int_at, type_at};
use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::layout::scalar_name;
use crate::sema::types::{Object, QualType, Space, TemplateArg, Type};
use crate::sema::value::{Arg, LValue, Leaf, Operand, Place, Value};
use crate::source::Span;

/// Rows and columns.
const N: u8 = 8;

/// Declarations of namespace `metal`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    let alias = |scalar| {
        Some(LibEntity::Type(
            Type::object(Object::SimdgroupMatrix(scalar, N, N)).into(),
        ))
    };
    match name {
        "simdgroup_matrix" => Some(LibEntity::Template {
            name: "simdgroup_matrix",
            instantiate,
            deduce: None,
        }),
        "simdgroup_half8x8" => alias(Scalar::F16),
        "simdgroup_bfloat8x8" => alias(Scalar::BF16),
        "simdgroup_float8x8" => alias(Scalar::F32),
        "make_filled_simdgroup_matrix" => Some(LibEntity::Function(filled, "metal")),
        "simdgroup_load" => Some(LibEntity::Function(load, "metal")),
        "simdgroup_store" => Some(LibEntity::Function(store, "metal")),
        "simdgroup_multiply" | "simdgroup_multiply_accumulate" => Some(LibEntity::Function(multiply, "metal")),
        _ => None,
    }
}

fn instantiate(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let element = type_at(sema, "simdgroup_matrix", &args, 0, span)?;
    let Type::Scalar(scalar @ (Scalar::F16 | Scalar::BF16 | Scalar::F32)) = element.ty else {
        return sema.err(
            "E0960",
            format!(
                "the elements of a simdgroup_matrix are half, bfloat or float, not '{}'",
                sema.qual_name(element)
            ),
            span,
        );
    };
    let columns = int_at(sema, "simdgroup_matrix", &args, 1, span)?;
    // `make_filled_simdgroup_matrix<T, 8>` leaves the rows to be what the columns are.
    let rows = if args.len() > 2 {
        int_at(sema, "simdgroup_matrix", &args, 2, span)?
    } else {
        columns
    };
    if (columns, rows) != (i128::from(N), i128::from(N)) {
        return sema.err(
            "E0961",
            format!("a simdgroup_matrix has 8 columns and 8 rows, not {columns} and {rows}"),
            span,
        );
    }
    Ok(Type::object(Object::SimdgroupMatrix(scalar, N, N)).into())
}

/// The element type behind a matrix type.
fn element_of(ty: &Type) -> Option<Scalar> {
    match ty.as_object() {
        Some(Object::SimdgroupMatrix(scalar, ..)) => Some(*scalar),
        _ => None,
    }
}

/// A matrix argument, by value.
fn matrix(sema: &mut Sema<'_>, call: &Call<'_>, at: usize) -> Res<(Scalar, Value)> {
    let value = args::value(sema, call, at)?;
    match element_of(&value.ty) {
        Some(scalar) => Ok((scalar, value)),
        None => {
            let name = sema.type_name(&value.ty);
            sema.err(
                "E0962",
                format!(
                    "argument {} of '{}' must be a simdgroup_matrix, not '{name}'",
                    at + 1,
                    call.name
                ),
                call.args[at].span(),
            )
        }
    }
}

/// The matrix that a call writes: its first argument.
fn target(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<(Scalar, LValue)> {
    let operand = args::operand(sema, call, 0)?.clone();
    let span = call.args[0].span();
    let Some(scalar) = element_of(operand.ty()) else {
        let name = sema.type_name(operand.ty());
        return sema.err(
            "E0962",
            format!("argument 1 of '{}' must be a simdgroup_matrix, not '{name}'", call.name),
            span,
        );
    };
    match operand {
        Operand::Place(place) if !place.is_const => Ok((scalar, place)),
        _ => sema.err_help(
            "E0963",
            format!("'{}' writes its first argument, which cannot be changed", call.name),
            span,
            "pass a variable that is not 'const'",
        ),
    }
}

/// Constructs a matrix: nothing (elements are undefined), a copy, or a scalar on the diagonal.
pub fn construct(sema: &mut Sema<'_>, ty: &Type, scalar: Scalar, args: &[Arg], span: Span) -> Option<Res<Operand>> {
    match args {
        [] => Some(sema.undefined(ty).map(Operand::Value)),
        [Arg::Operand(operand, _)] if operand.ty() == ty => Some(Ok(operand.clone())),
        [Arg::Operand(operand, _)] if matches!(operand.ty(), Type::Scalar(_)) => {
            let operand = operand.clone();
            Some((|| {
                let value = sema.rvalue(operand)?;
                let value = args::scalar_of(sema, &value, scalar, span)?;
                let zero = sema.convert_leaf(&Sema::int_leaf(Scalar::I32, 0), scalar)?;
                if sema.const_of(&value).is_some_and(|c| c.bits == 0) {
                    return Ok(Value {
                        ty: ty.clone(),
                        leaves: vec![zero.clone(), zero],
                    }
                    .into());
                }
                sema.runtime_only()?;
                let (row, column) = place_of_lane(sema, Scalar::I32)?;
                let mut leaves = Vec::with_capacity(2);
                for i in 0..2 {
                    let column = add(sema, &column, &Sema::int_leaf(Scalar::I32, i))?;
                    let here = sema.compare_leaf(CompareOp::Eq, &row, &column)?;
                    leaves.push(sema.select_leaf(&here, &value, &zero)?);
                }
                Ok(Value { ty: ty.clone(), leaves }.into())
            })())
        }
        _ => None,
    }
}

/// `make_filled_simdgroup_matrix<T, 8, 8>(value)`
fn filled(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let ty = instantiate(sema, call.template_args, call.span)?.ty;
    let Some(scalar) = element_of(&ty) else {
        return sema.err("E0962", "a simdgroup_matrix is needed", call.span);
    };
    let leaf = args::scalar(sema, call, 0, scalar)?;
    Ok(Value {
        ty,
        leaves: vec![leaf.clone(), leaf],
    }
    .into())
}

fn binary(sema: &mut Sema<'_>, op: BinaryOp, a: &Leaf, b: &Leaf) -> Res<Leaf> {
    sema.binary_leaf(op, a, b, MathMode::Precise)
}

fn add(sema: &mut Sema<'_>, a: &Leaf, b: &Leaf) -> Res<Leaf> {
    binary(sema, BinaryOp::Add, a, b)
}

/// Row and first column of this lane.
fn place_of_lane(sema: &mut Sema<'_>, ty: Scalar) -> Res<(Leaf, Leaf)> {
    let lane = sema.emit1(Op::Builtin(Builtin::ThreadIndexInSimdgroup), Scalar::U32)?;
    // Bits of the lane from `bit` on, moved up to `to`.
    let bits = |sema: &mut Sema<'_>, mask: i128, left: i128| -> Res<Leaf> {
        let kept = binary(sema, BinaryOp::And, &lane, &Sema::int_leaf(Scalar::U32, mask))?;
        let (op, count) = if left < 0 {
            (BinaryOp::Shr, -left)
        } else {
            (BinaryOp::Shl, left)
        };
        binary(sema, op, &kept, &Sema::int_leaf(Scalar::U32, count))
    };
    let (low, high) = (bits(sema, 0b110, -1)?, bits(sema, 0b10000, -2)?);
    let row = binary(sema, BinaryOp::Or, &low, &high)?;
    let (low, high) = (bits(sema, 0b1, 1)?, bits(sema, 0b1000, -1)?);
    let column = binary(sema, BinaryOp::Or, &low, &high)?;
    Ok((sema.convert_leaf(&row, ty)?, sema.convert_leaf(&column, ty)?))
}

/// Where this lane's elements are in memory.
struct Addresses {
    first: ValueId,
    /// Of the second element, unless it follows the first.
    second: Option<ValueId>,
}

/// Reads `pointer, elements_per_row = 8, matrix_origin = 0, transpose = false` from the second argument on.
fn addresses(sema: &mut Sema<'_>, call: &Call<'_>, scalar: Scalar, writes: bool) -> Res<Addresses> {
    let span = call.args[1].span();
    let operand = args::operand(sema, call, 1)?.clone();
    let decayed = sema.decay(operand, span)?;
    let value = sema.rvalue(decayed)?;
    let (Type::Pointer(pointee), Some(leaf)) = (&value.ty, value.leaf()) else {
        let name = sema.type_name(&value.ty);
        return sema.err(
            "E0964",
            format!("'{}' takes a pointer to elements, not '{name}'", call.name),
            span,
        );
    };
    if pointee.ty != Type::Scalar(scalar) {
        return sema.err_help(
            "E0964",
            format!(
                "'{}' of a matrix of '{}' takes a pointer to '{}', not to '{}'",
                call.name,
                scalar_name(scalar),
                scalar_name(scalar),
                sema.qual_name(pointee)
            ),
            span,
            "declare the matrix with the element type of the memory",
        );
    }
    let space = pointee.space_or_thread();
    let allowed = match space {
        Space::Device | Space::Threadgroup => true,
        Space::Constant => !writes,
        Space::Thread => false,
    };
    if !allowed || (writes && pointee.is_const) {
        let what = if pointee.is_const && space != Space::Constant {
            format!("const {space}")
        } else {
            space.to_string()
        };
        return sema.err(
            "E0965",
            format!("'{}' has no version for {what} memory", call.name),
            span,
        );
    }
    let pointer = sema.materialize(leaf)?;
    let pitch = if call.args.len() > 2 {
        args::scalar(sema, call, 2, Scalar::I64)?
    } else {
        Sema::int_leaf(Scalar::I64, i128::from(N))
    };
    let transposed = if call.args.len() > 4 {
        args::scalar(sema, call, 4, Scalar::Bool)?
    } else {
        Sema::int_leaf(Scalar::Bool, 0)
    };
    // The origin is a place of the memory's rows, whatever is transposed.
    let mut start = Sema::int_leaf(Scalar::I64, 0);
    if call.args.len() > 3 {
        let origin = sema.init(&Type::vector(Scalar::U64, 2), &call.args[3], call.args[3].span())?;
        let column = sema.convert_leaf(&origin.leaves[0], Scalar::I64)?;
        let row = sema.convert_leaf(&origin.leaves[1], Scalar::I64)?;
        let rows = binary(sema, BinaryOp::Mul, &row, &pitch)?;
        start = add(sema, &rows, &column)?;
    }
    let size = Sema::int_leaf(Scalar::I64, i128::from(scalar.size()));
    let (row, column) = place_of_lane(sema, Scalar::I64)?;
    let offset = |sema: &mut Sema<'_>, base: ValueId, elements: &Leaf| -> Res<ValueId> {
        let bytes = binary(sema, BinaryOp::Mul, elements, &size)?;
        let bytes = sema.materialize(&bytes)?;
        Ok(sema.builder.offset(base, bytes))
    };
    // What all lanes share comes first, so that it is computed once.
    let base = offset(sema, pointer, &start)?;
    match sema.int_of(&transposed) {
        Some(0) => {
            let rows = binary(sema, BinaryOp::Mul, &row, &pitch)?;
            let inside = add(sema, &rows, &column)?;
            Ok(Addresses {
                first: offset(sema, base, &inside)?,
                second: None,
            })
        }
        known => {
            let (down, along) = match known {
                Some(_) => (column, row),
                None => (
                    sema.select_leaf(&transposed, &column, &row)?,
                    sema.select_leaf(&transposed, &row, &column)?,
                ),
            };
            let one = Sema::int_leaf(Scalar::I64, 1);
            let step = match known {
                Some(_) => pitch.clone(),
                None => sema.select_leaf(&transposed, &pitch, &one)?,
            };
            let rows = binary(sema, BinaryOp::Mul, &down, &pitch)?;
            let inside = add(sema, &rows, &along)?;
            let first = offset(sema, base, &inside)?;
            Ok(Addresses {
                first,
                second: Some(offset(sema, first, &step)?),
            })
        }
    }
}

/// `simdgroup_load(matrix, pointer, elements_per_row = 8, matrix_origin = 0, transpose = false)`
fn load(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 2..=5)?;
    sema.runtime_only()?;
    let (scalar, place) = target(sema, call)?;
    let at = addresses(sema, call, scalar, false)?;
    let align = scalar.size();
    let mut values = sema
        .builder
        .load(at.first, scalar, if at.second.is_some() { 1 } else { 2 }, align);
    if let Some(second) = at.second {
        values.extend(sema.builder.load(second, scalar, 1, align));
    }
    let value = Value {
        ty: place.ty.clone(),
        leaves: values.into_iter().map(Leaf::Value).collect(),
    };
    sema.store(&place, &value)?;
    Ok(Operand::void())
}

/// `simdgroup_store(matrix, pointer, elements_per_row = 8, matrix_origin = 0, transpose = false)`
fn store(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 2..=5)?;
    sema.runtime_only()?;
    let (scalar, value) = matrix(sema, call, 0)?;
    let at = addresses(sema, call, scalar, true)?;
    let elements = pair(sema, &value)?;
    let align = scalar.size();
    match at.second {
        None => sema.builder.store(at.first, elements.to_vec(), align),
        Some(second) => {
            sema.builder.store(at.first, vec![elements[0]], align);
            sema.builder.store(second, vec![elements[1]], align);
        }
    }
    Ok(Operand::void())
}

fn pair(sema: &mut Sema<'_>, value: &Value) -> Res<[ValueId; 2]> {
    Ok([sema.materialize(&value.leaves[0])?, sema.materialize(&value.leaves[1])?])
}

/// The product of two matrices, plus a third.
fn product(sema: &mut Sema<'_>, a: &Value, b: &Value, c: Option<&Value>, ty: Scalar) -> Res<Vec<Leaf>> {
    sema.runtime_only()?;
    let (a, b) = (pair(sema, a)?, pair(sema, b)?);
    let c = match c {
        Some(c) => Some(pair(sema, c)?),
        None => None,
    };
    let first = sema.builder.emit(
        Op::SimdgroupMatrixMultiply { a, b, c, ty },
        &[IrType::Scalar(ty), IrType::Scalar(ty)],
    );
    Ok(vec![Leaf::Value(first), Leaf::Value(ValueId(first.0 + 1))])
}

/// `simdgroup_multiply(d, a, b)` and `simdgroup_multiply_accumulate(d, a, b, c)`
fn multiply(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    let accumulates = call.name == "simdgroup_multiply_accumulate";
    let count = if accumulates { 4 } else { 3 };
    expect_count(sema, call, count..=count)?;
    sema.runtime_only()?;
    let (scalar, place) = target(sema, call)?;
    let (_, a) = matrix(sema, call, 1)?;
    let (_, b) = matrix(sema, call, 2)?;
    let c = if accumulates {
        Some(matrix(sema, call, 3)?.1)
    } else {
        None
    };
    let leaves = product(sema, &a, &b, c.as_ref(), scalar)?;
    let value = Value {
        ty: place.ty.clone(),
        leaves,
    };
    sema.store(&place, &value)?;
    Ok(Operand::void())
}

/// `a * b` of matrices of one type.
pub fn operator(sema: &mut Sema<'_>, operator: &str, operands: &[Operand], _span: Span) -> Option<Res<Operand>> {
    let [a, b] = operands else { return None };
    if operator != "*" || a.ty() != b.ty() {
        return None;
    }
    let scalar = element_of(a.ty())?;
    let (a, b) = (a.clone(), b.clone());
    Some((|| {
        let (a, b) = (sema.rvalue(a)?, sema.rvalue(b)?);
        let leaves = product(sema, &a, &b, None, scalar)?;
        Ok(Value {
            ty: a.ty.clone(),
            leaves,
        }
        .into())
    })())
}

/// `thread_elements()`: the two elements of this lane as a `vec<T, 2>` that can be written.
pub fn method(sema: &mut Sema<'_>, scalar: Scalar, object: &Operand, call: &Call<'_>) -> Option<Res<Operand>> {
    if call.name != "thread_elements" {
        return None;
    }
    let ty = Type::vector(scalar, 2);
    Some(expect_count(sema, call, 0..=0).map(|()| {
        match object {
            Operand::Place(place) => {
                debug_assert!(matches!(place.place, Place::Slots(_) | Place::Memory { .. }));
                LValue { ty, ..place.clone() }.into()
            }
            Operand::Value(value) => Value {
                ty,
                leaves: value.leaves.clone(),
            }
            .into(),
        }
    }))
}
