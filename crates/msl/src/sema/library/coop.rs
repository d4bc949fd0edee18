//! `cooperative_tensor`, its iterators, and row and column reductions (reference 5 and 6).

use std::rc::Rc;

use anymetal_formats::ElementFormat;
use anymetal_ir::{
    BinaryOp, CompareOp, CoopId, CoopRole, Cooperative, Layout, MathMode, Op, ReduceAxis, ReduceOp, Scalar, ValueId,
};

use super::args::{self, element_type, expect_count};
use super::{Call, LibEntity, convolution, coop_element, view};
use crate::sema::context::{Res, Sema};
use crate::sema::layout::format_scalar;
use crate::sema::types::{CoopType, ExtentsType, Object, QualType, Space, Type};
use crate::sema::value::{LValue, Leaf, Operand, Place, Slot, Value};
use crate::source::Span;

/// The reductions and iterator queries of `mpp::tensor_ops`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    match name {
        "reduce_rows" | "reduce_columns" => Some(LibEntity::Function(reduce, "mpp::tensor_ops")),
        "is_iterator_compatible" => Some(LibEntity::Function(is_iterator_compatible, "mpp::tensor_ops")),
        _ => None,
    }
}

impl CoopType {
    /// The lane layout.
    pub fn lanes(&self) -> Layout {
        Layout {
            kind: self.layout,
            rows: self.rows,
            columns: self.columns,
            simdgroups: self.simdgroups,
            role: self.role,
        }
    }

    /// The rank of the tile.
    pub fn rank(&self) -> usize {
        match self.role {
            CoopRole::RowReduction | CoopRole::ColumnReduction => 1,
            _ if self.convolution.is_some() => 4,
            _ => 2,
        }
    }
}

/// Most elements of one cooperative tensor: four times a threadgroup of 1024 threads with 255 registers of 32 bits each.
const MAX_ELEMENTS: u64 = 1 << 20;

/// A new cooperative tensor of a type, constructed where this is called.
pub fn create(sema: &mut Sema<'_>, ty: &CoopType) -> Res<Value> {
    sema.runtime_only()?;
    if u64::from(ty.rows) * u64::from(ty.columns) > MAX_ELEMENTS {
        return sema.err(
            "E0859",
            format!(
                "a cooperative tensor of {} × {} elements (rows × columns) is too large: the threads of a threadgroup hold at most {MAX_ELEMENTS}",
                ty.rows, ty.columns
            ),
            sema.span,
        );
    }
    let coop = sema.builder.cooperative(Cooperative {
        name: String::new(),
        role: ty.role,
        element: anymetal_ir::tile_scalar(ty.element),
        rows: ty.rows,
        columns: ty.columns,
        simdgroups: ty.simdgroups,
        layout: ty.layout,
        descriptor: ty.descriptor,
        spatial: ty.convolution.map(|conv| {
            let [_, width, height, batch] = conv.destination;
            [width, height, batch]
        }),
    });
    sema.builder.emit_void(Op::CoopInit(coop));
    Ok(Value::one(Type::object(Object::Coop(ty.clone())), Leaf::Coop(coop)))
}

/// The cooperative tensor behind an operand.
pub fn of_operand(sema: &mut Sema<'_>, operand: &Operand) -> Res<CoopId> {
    let value = sema.rvalue(operand.clone())?;
    match value.leaves.first() {
        Some(Leaf::Coop(coop)) => Ok(*coop),
        _ => {
            let name = sema.type_name(&value.ty);
            sema.err(
                "E0860",
                format!("expected a cooperative tensor, not '{name}'"),
                sema.span,
            )
        }
    }
}

/// The cooperative tensor type of an operand.
pub fn type_of(operand: &Operand) -> Option<&CoopType> {
    match operand.ty().as_object() {
        Some(Object::Coop(ty)) => Some(ty),
        _ => None,
    }
}

fn iterator(ty: &CoopType, coop: CoopId, slot: Leaf) -> Operand {
    Value {
        ty: Type::object(Object::CoopIterator(ty.clone())),
        leaves: vec![Leaf::Coop(coop), slot],
    }
    .into()
}

/// The parts of an iterator: its tensor and its slot.
fn iterator_parts(sema: &mut Sema<'_>, operand: &Operand) -> Res<(CoopId, Leaf)> {
    let value = sema.rvalue(operand.clone())?;
    match value.leaves.as_slice() {
        [Leaf::Coop(coop), slot] => Ok((*coop, slot.clone())),
        _ => sema.err("E0861", "expected an iterator of a cooperative tensor", sema.span),
    }
}

fn element_place(ty: &CoopType, coop: CoopId, slot: Leaf) -> Operand {
    LValue {
        ty: element_type(ty.element),
        is_const: false,
        is_volatile: false,
        place: Place::CoopElement {
            coop,
            slot: Box::new(slot),
        },
    }
    .into()
}

/// The slot that an argument means: an index, an iterator, or a pointer to an element.
fn slot_argument(sema: &mut Sema<'_>, call: &Call<'_>, at: usize) -> Res<Leaf> {
    let operand = args::operand(sema, call, at)?.clone();
    match operand.ty().as_object() {
        Some(Object::CoopIterator(_)) => Ok(iterator_parts(sema, &operand)?.1),
        _ => {
            let value = sema.rvalue(operand)?;
            if let Some(Leaf::Place(place)) = value.leaf()
                && let Place::CoopElement { slot, .. } = &place.place
            {
                return Ok((**slot).clone());
            }
            args::scalar_of(sema, &value, Scalar::I32, call.args[at].span())
        }
    }
}

fn slot_value(sema: &mut Sema<'_>, slot: &Leaf) -> Res<ValueId> {
    let slot = sema.convert_leaf(slot, Scalar::I32)?;
    sema.materialize(&slot)
}

/// Tells the sanitizer that the access that follows is one that checks its slot (`get`, `set`); the answer is unused, so
/// that passes remove the question.
fn ask_validity(sema: &mut Sema<'_>, coop: CoopId, slot: ValueId) -> Res<()> {
    sema.emit1(Op::CoopValid { coop, slot }, Scalar::Bool)?;
    Ok(())
}

/// An argument that becomes an element: a number, or the code of a format type.
fn element_value(sema: &mut Sema<'_>, call: &Call<'_>, at: usize, element: ElementFormat) -> Res<Leaf> {
    if !element.is_format_type() {
        return args::scalar(sema, call, at, format_scalar(element));
    }
    let operand = args::operand(sema, call, at)?.clone();
    let value = sema.rvalue(operand)?;
    match value.leaf() {
        Some(leaf) if value.ty == Type::Format(element) => Ok(leaf.clone()),
        _ => {
            let name = sema.type_name(&value.ty);
            sema.err(
                "E0865",
                format!("'{name}' does not convert to '{}'", element.msl_name()),
                call.args[at].span(),
            )
        }
    }
}

/// Member functions of a cooperative tensor.
pub fn method(sema: &mut Sema<'_>, ty: &CoopType, object: &Operand, call: &Call<'_>) -> Option<Res<Operand>> {
    let ty = ty.clone();
    Some(match call.name {
        "get_rank" => Ok(Value::one(Scalar::U64, Sema::int_leaf(Scalar::U64, ty.rank() as i128)).into()),
        "get_capacity" => {
            let capacity = i128::from(ty.lanes().capacity());
            Ok(Value::one(Scalar::U16, Sema::int_leaf(Scalar::U16, capacity)).into())
        }
        "get_mask" => sema.err_help(
            "E0862",
            "a cooperative tensor has no member 'get_mask'",
            call.span,
            "the member is 'is_valid_element(i)'",
        ),
        "begin" | "cbegin" => of_operand(sema, object).map(|coop| iterator(&ty, coop, Sema::int_leaf(Scalar::I32, 0))),
        "end" | "cend" => {
            let capacity = i128::from(ty.lanes().capacity());
            of_operand(sema, object).map(|coop| iterator(&ty, coop, Sema::int_leaf(Scalar::I32, capacity)))
        }
        "get_iterator" => (|| {
            let coop = of_operand(sema, object)?;
            Ok(iterator(&ty, coop, slot_argument(sema, call, 0)?))
        })(),
        "is_valid_element" => (|| {
            let coop = of_operand(sema, object)?;
            let slot = slot_argument(sema, call, 0)?;
            let slot = slot_value(sema, &slot)?;
            let leaf = sema.emit1(Op::CoopValid { coop, slot }, Scalar::Bool)?;
            Ok(Value::one(Scalar::Bool, leaf).into())
        })(),
        "get_multidimensional_index" => multidimensional_index(sema, &ty, object, call),
        "get" => (|| {
            let coop = of_operand(sema, object)?;
            expect_count(sema, call, 1..=1)?;
            let slot = slot_argument(sema, call, 0)?;
            let asked = slot_value(sema, &slot)?;
            ask_validity(sema, coop, asked)?;
            let leaf = coop_element::get(sema, coop, &slot, &element_type(ty.element))?;
            Ok(Value::one(element_type(ty.element), leaf).into())
        })(),
        "set" => (|| {
            expect_count(sema, call, 2..=2)?;
            let coop = of_operand(sema, object)?;
            let slot = slot_argument(sema, call, 0)?;
            let value = element_value(sema, call, 1, ty.element)?;
            let asked = slot_value(sema, &slot)?;
            ask_validity(sema, coop, asked)?;
            coop_element::set(sema, coop, &slot, &element_type(ty.element), &value)?;
            Ok(Operand::void())
        })(),
        "map_iterator" => map_iterator(sema, &ty, object, call),
        "load" => transfer(sema, &ty, object, call, true),
        "store" => transfer(sema, &ty, object, call, false),
        _ => return None,
    })
}

fn multidimensional_index(sema: &mut Sema<'_>, ty: &CoopType, object: &Operand, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    sema.runtime_only()?;
    let coop = of_operand(sema, object)?;
    let slot = slot_argument(sema, call, 0)?;
    let slot = slot_value(sema, &slot)?;
    let rank = ty.rank();
    let parts = rank.min(2);
    let first = sema
        .builder
        .emit(Op::CoopIndex { coop, slot }, &vec![Scalar::I32.into(); parts]);
    let mut parts: Vec<Leaf> = (0..parts as u32).map(|d| Leaf::Value(ValueId(first.0 + d))).collect();
    if let Some(conv) = &ty.convolution {
        let row = parts.remove(1);
        parts = convolution::coordinates(sema, conv, parts.remove(0), &row)?;
    }
    let mut leaves = Vec::with_capacity(rank);
    for part in &parts {
        leaves.push(sema.convert_leaf(part, ty.index)?);
    }
    let element = Rc::new(QualType::from(ty.index));
    Ok(Value {
        ty: Type::Array(element, rank as u64),
        leaves,
    }
    .into())
}

/// The rules that `map_iterator` and `is_iterator_compatible` share; the message of the first that is broken.
fn map_rule(from: &CoopType, to: &CoopType) -> Option<String> {
    if from.role != CoopRole::Destination || from.convolution.is_some() {
        return Some("map_iterator: the iterator must come from a matmul2d destination cooperative tensor".into());
    }
    if from.simdgroups != 1 || to.simdgroups != 1 {
        return Some("map_iterator requires a single SIMD group".into());
    }
    match to.role {
        CoopRole::RowReduction if from.rows != to.rows => Some(format!(
            "map_iterator: the tile has {} rows, the row reduction {}",
            from.rows, to.rows
        )),
        CoopRole::ColumnReduction if from.columns != to.columns => Some(format!(
            "map_iterator: the tile has {} columns, the column reduction {}",
            from.columns, to.columns
        )),
        CoopRole::RowReduction | CoopRole::ColumnReduction => None,
        _ => Some("map_iterator: the receiver must be a row or column reduction cooperative tensor".into()),
    }
}

fn map_iterator(sema: &mut Sema<'_>, ty: &CoopType, object: &Operand, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    sema.runtime_only()?;
    let source = args::operand(sema, call, 0)?.clone();
    let Some(Object::CoopIterator(from_ty)) = source.ty().as_object().cloned() else {
        let name = sema.type_name(source.ty());
        return sema.err(
            "E0861",
            format!("'map_iterator' takes an iterator of another cooperative tensor, not '{name}'"),
            call.span,
        );
    };
    if let Some(message) = map_rule(&from_ty, ty) {
        return sema.err("E0863", message, call.span);
    }
    if from_ty.element != ty.element {
        return sema.err(
            "E0864",
            format!(
                "map_iterator: the element types differ ('{}' and '{}')",
                from_ty.element.msl_name(),
                ty.element.msl_name()
            ),
            call.span,
        );
    }
    let to = of_operand(sema, object)?;
    let (from, slot) = iterator_parts(sema, &source)?;
    let slot = slot_value(sema, &slot)?;
    let mapped = sema.emit1(Op::CoopMapSlot { to, from, slot }, Scalar::I32)?;
    Ok(iterator(ty, to, mapped))
}

fn is_iterator_compatible(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 2..=2)?;
    sema.runtime_only()?;
    let (source, destination) = (
        args::operand(sema, call, 0)?.clone(),
        args::operand(sema, call, 1)?.clone(),
    );
    let (Some(a), Some(b)) = (type_of(&source).cloned(), type_of(&destination).cloned()) else {
        return sema.err(
            "E0860",
            "'is_iterator_compatible' takes two cooperative tensors",
            call.span,
        );
    };
    if map_rule(&a, &b).is_some() {
        return Ok(sema.bool_value(false).into());
    }
    let (from, to) = (of_operand(sema, &source)?, of_operand(sema, &destination)?);
    let leaf = sema.emit1(Op::CoopIteratorCompatible { from, to }, Scalar::Bool)?;
    Ok(Value::one(Scalar::Bool, leaf).into())
}

/// `load(tensor)` and `store(tensor)`: element types match, memory is device or threadgroup, ranks fit.
fn transfer(sema: &mut Sema<'_>, ty: &CoopType, object: &Operand, call: &Call<'_>, load: bool) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    sema.runtime_only()?;
    let source = args::operand(sema, call, 0)?.clone();
    let Some(Object::Tensor(memory)) = source.ty().as_object().cloned() else {
        let name = sema.type_name(source.ty());
        return sema.err(
            "E0842",
            format!("'{}' takes a tensor, not '{name}'", call.name),
            call.span,
        );
    };
    if memory.format != ty.element {
        return sema.err(
            "E0865",
            format!(
                "Tensor datatype does not match cooperative tensor: '{}' and '{}'",
                memory.format.msl_name(),
                ty.element.msl_name()
            ),
            call.span,
        );
    }
    if !matches!(memory.space, Space::Device | Space::Threadgroup) {
        return sema.err(
            "E0866",
            format!("Unsupported address space: {} memory", memory.space),
            call.span,
        );
    }
    let rank = memory.extents.extents.len();
    if rank != 1 && rank != ty.rank() {
        return sema.err(
            "E0867",
            format!(
                "a cooperative tensor of rank {} cannot be moved to or from a tensor of rank {rank}",
                ty.rank()
            ),
            call.span,
        );
    }
    if memory.is_const && !load {
        return sema.err_help(
            "E0854",
            "the elements of this tensor are const",
            call.span,
            "declare the tensor without 'const' elements",
        );
    }
    let coop = of_operand(sema, object)?;
    let tensor = Box::new(view::view(sema, &source)?);
    sema.builder.emit_void(if load {
        Op::CoopLoad { coop, tensor }
    } else {
        Op::CoopStore { coop, tensor }
    });
    Ok(Operand::void())
}

/// Operators of cooperative tensors and their iterators.
pub fn operator(sema: &mut Sema<'_>, operator: &str, operands: &[Operand], span: Span) -> Option<Res<Operand>> {
    match operands.first()?.ty().as_object()? {
        Object::Coop(ty) if operator == "[]" => {
            let ty = ty.clone();
            Some((|| {
                let coop = of_operand(sema, &operands[0])?;
                let [_, index] = operands else {
                    return sema.err(
                        "E0868",
                        format!(
                            "a cooperative tensor takes one slot index, {} given",
                            operands.len() - 1
                        ),
                        span,
                    );
                };
                let value = sema.rvalue(index.clone())?;
                let slot = args::scalar_of(sema, &value, Scalar::I32, span)?;
                Ok(element_place(&ty, coop, slot))
            })())
        }
        Object::CoopIterator(ty) => {
            let ty = ty.clone();
            iterator_operator(sema, &ty, operator, operands, span)
        }
        _ => None,
    }
}

fn iterator_operator(
    sema: &mut Sema<'_>,
    ty: &CoopType,
    operator: &str,
    operands: &[Operand],
    span: Span,
) -> Option<Res<Operand>> {
    let compare = match operator {
        "==" => Some(CompareOp::Eq),
        "!=" => Some(CompareOp::Ne),
        "<" => Some(CompareOp::Lt),
        "<=" => Some(CompareOp::Le),
        ">" => Some(CompareOp::Gt),
        ">=" => Some(CompareOp::Ge),
        _ => None,
    };
    let step = match operator {
        "++" | "p++" => Some(1),
        "--" | "p--" => Some(-1),
        _ => None,
    };
    let unknown = |sema: &mut Sema<'_>| {
        sema.err(
            "E0869",
            format!("an iterator of a cooperative tensor has no operator '{operator}' with these operands"),
            span,
        )
    };
    Some((|| {
        let (coop, slot) = iterator_parts(sema, &operands[0])?;
        let other = operands.get(1);
        let unary = step.is_some() || operator == "*";
        if unary == other.is_some() {
            return unknown(sema);
        }
        if let (Some(compare), Some(other)) = (compare, other) {
            let (_, other) = iterator_parts(sema, other)?;
            let leaf = sema.compare_leaf(compare, &slot, &other)?;
            return Ok(Value::one(Scalar::Bool, leaf).into());
        }
        if let Some(step) = step {
            let step = Sema::int_leaf(Scalar::I32, step);
            let moved = sema.binary_leaf(BinaryOp::Add, &slot, &step, MathMode::Precise)?;
            write_slot(sema, &operands[0], &moved, span)?;
            return Ok(if operator.starts_with('p') {
                iterator(ty, coop, slot)
            } else {
                operands[0].clone()
            });
        }
        match (operator, other) {
            ("*", None) => Ok(element_place(ty, coop, slot)),
            ("=", Some(other)) => {
                let (of, moved) = iterator_parts(sema, other)?;
                if of != coop {
                    return sema.err_help(
                        "E0870",
                        "this iterator cannot be moved to another cooperative tensor",
                        span,
                        "declare another iterator",
                    );
                }
                write_slot(sema, &operands[0], &moved, span)?;
                Ok(operands[0].clone())
            }
            ("[]" | "+" | "-" | "+=" | "-=", Some(other)) => {
                if let ("-", Some(Object::CoopIterator(_))) = (operator, other.ty().as_object()) {
                    let (_, other) = iterator_parts(sema, other)?;
                    let distance = sema.binary_leaf(BinaryOp::Sub, &slot, &other, MathMode::Precise)?;
                    return Ok(Value::one(Scalar::I32, distance).into());
                }
                let value = sema.rvalue(other.clone())?;
                let count = args::scalar_of(sema, &value, Scalar::I32, span)?;
                let op = if operator.starts_with('-') {
                    BinaryOp::Sub
                } else {
                    BinaryOp::Add
                };
                let moved = sema.binary_leaf(op, &slot, &count, MathMode::Precise)?;
                match operator {
                    "[]" => Ok(element_place(ty, coop, moved)),
                    "+" | "-" => Ok(iterator(ty, coop, moved)),
                    _ => {
                        write_slot(sema, &operands[0], &moved, span)?;
                        Ok(operands[0].clone())
                    }
                }
            }
            _ => unknown(sema),
        }
    })())
}

/// Writes the slot of an iterator variable.
fn write_slot(sema: &mut Sema<'_>, variable: &Operand, slot: &Leaf, span: Span) -> Res<()> {
    match variable {
        Operand::Place(LValue {
            place: Place::Slots(slots),
            is_const: false,
            ..
        }) if slots.len() == 2 => {
            let target: Slot = slots[1].clone();
            sema.write_slot(&target, slot)
        }
        _ => sema.err_help(
            "E0870",
            "this iterator cannot be changed",
            span,
            "copy it to a variable that is not 'const'",
        ),
    }
}

/// Member functions of an iterator.
pub fn iterator_method(sema: &mut Sema<'_>, object: &Operand, call: &Call<'_>) -> Option<Res<Operand>> {
    if call.name != "is_valid_element" {
        return None;
    }
    Some((|| {
        let (coop, slot) = iterator_parts(sema, object)?;
        let slot = slot_value(sema, &slot)?;
        let leaf = sema.emit1(Op::CoopValid { coop, slot }, Scalar::Bool)?;
        Ok(Value::one(Scalar::Bool, leaf).into())
    })())
}

/// `reduce_rows(source, destination, op = sum, identity = 0)` and `reduce_columns`.
fn reduce(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 2..=4)?;
    sema.runtime_only()?;
    let rows = call.name == "reduce_rows";
    let (source, destination) = (
        args::operand(sema, call, 0)?.clone(),
        args::operand(sema, call, 1)?.clone(),
    );
    let (Some(from), Some(to)) = (type_of(&source).cloned(), type_of(&destination).cloned()) else {
        return sema.err(
            "E0860",
            format!("'{}' takes two cooperative tensors", call.name),
            call.span,
        );
    };
    if let Some(message) = reduce_rule(call.name, rows, &from, &to) {
        return sema.err("E0871", message, call.span);
    }
    let op = if call.args.len() > 2 {
        let value = args::value(sema, call, 2)?;
        let leaf = value.leaf().and_then(|leaf| sema.int_of(leaf));
        match leaf {
            Some(0) => ReduceOp::Sum,
            Some(1) => ReduceOp::Max,
            Some(2) => ReduceOp::Min,
            _ => {
                return sema.err_help(
                    "E0872",
                    format!("the reduction operation of '{}' must be a constant", call.name),
                    call.args[2].span(),
                    "write 'reduction_operation::sum', 'reduction_operation::max' or 'reduction_operation::min'",
                );
            }
        }
    } else {
        ReduceOp::Sum
    };
    let scalar = format_scalar(to.element);
    let identity = if call.args.len() > 3 {
        args::scalar(sema, call, 3, scalar)?
    } else {
        if op != ReduceOp::Sum {
            sema.warn(
                "W0873",
                format!(
                    "'{}' starts from the identity of a sum (0) whatever the operation is; pass the identity",
                    call.name
                ),
                call.span,
            );
        }
        sema.convert_leaf(&Sema::int_leaf(Scalar::I32, 0), scalar)?
    };
    let (from, to) = (of_operand(sema, &source)?, of_operand(sema, &destination)?);
    let identity = sema.materialize(&identity)?;
    let axis = if rows { ReduceAxis::Rows } else { ReduceAxis::Columns };
    sema.builder.emit_void(Op::CoopReduce {
        to,
        from,
        axis,
        op,
        identity,
    });
    Ok(Operand::void())
}

/// The static rules of reference 6; the message of the first that is broken.
fn reduce_rule(name: &str, rows: bool, from: &CoopType, to: &CoopType) -> Option<String> {
    let wanted = if rows {
        CoopRole::RowReduction
    } else {
        CoopRole::ColumnReduction
    };
    if from.role != CoopRole::Destination || from.convolution.is_some() {
        return Some(format!(
            "{name}: the source must be a matmul2d destination cooperative tensor"
        ));
    }
    if to.role != wanted {
        let kind = if rows { "row" } else { "column" };
        return Some(format!(
            "{name}: the destination must be a {kind} reduction cooperative tensor"
        ));
    }
    if from.simdgroups != 1 || to.simdgroups != 1 {
        return Some(format!("{name} requires a single SIMD group"));
    }
    if from.descriptor != to.descriptor {
        return Some(format!(
            "{name}: source and destination come from different matmul2d descriptors"
        ));
    }
    if from.operands != to.operands || from.element != to.element {
        return Some(format!(
            "{name}: source and destination were obtained for different element types"
        ));
    }
    None
}

/// Member types.
pub fn member_type(ty: &CoopType, name: &str) -> Option<QualType> {
    let element = || QualType::from(element_type(ty.element));
    Some(match name {
        "element_type" | "value_type" => element(),
        "reference" | "const_reference" => element().lref(),
        "index_type" => ty.index.into(),
        "size_type" => match ty.index {
            Scalar::I16 | Scalar::U16 => Scalar::U16.into(),
            _ => Scalar::U32.into(),
        },
        "data_handle_type" => Type::pointer(element_type(ty.element), Space::Thread).into(),
        "rank_type" => Scalar::U64.into(),
        "thread_index_type" | "thread_size_type" => Scalar::U16.into(),
        "iterator" | "const_iterator" => Type::object(Object::CoopIterator(ty.clone())).into(),
        "layout" => Type::object(Object::Tag("cooperative_tensor layout")).into(),
        "extents_type" => {
            let extents = ExtentsType {
                index: ty.index,
                extents: vec![None; ty.rank()],
            };
            Type::object(Object::Extents(extents)).into()
        }
        _ => return None,
    })
}

/// Element formats that a cooperative tensor can have.
pub fn element_allowed(role: CoopRole, format: ElementFormat) -> bool {
    use ElementFormat::{BF16, F16, F32, I32};
    match role {
        // Whatever a row of matmul2d has.
        CoopRole::Left | CoopRole::Right => !matches!(format, I32),
        _ => matches!(format, F16 | BF16 | F32 | I32),
    }
}
