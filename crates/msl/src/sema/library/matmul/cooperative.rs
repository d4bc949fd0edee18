//! How cooperative tensors are obtained from a `matmul2d`: types, fresh tensors, conversions of destinations into inputs.

use anymetal_formats::ElementFormat;
use anymetal_ir::{CoopRole, LayoutKind, MatmulDescriptor, Op, Scalar};

use super::rules::{self, Kind, THREAD};
use super::{Operation, rows};
use crate::sema::context::{Res, Sema};
use crate::sema::library::args::{self, element_format, expect_count, flatten, type_at};
use crate::sema::library::{Call, coop};
use crate::sema::types::{CoopType, TemplateArg};
use crate::sema::value::{Operand, Value};
use crate::source::Span;

/// What a getter or alias was asked for.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub operation: Operation,
    pub role: CoopRole,
    /// As written, for messages.
    pub name: &'a str,
    pub args: &'a [TemplateArg],
    pub span: Span,
}

impl<'a> Request<'a> {
    pub fn of_call(operation: Operation, role: CoopRole, call: &'a Call<'_>) -> Self {
        Request {
            operation,
            role,
            name: call.name,
            args: call.template_args,
            span: call.span,
        }
    }

    /// The type of the tensor.
    pub fn tensor_type(&self, sema: &mut Sema<'_>) -> Res<CoopType> {
        let args = flatten(self.args);
        match self.role {
            CoopRole::Left | CoopRole::Right => self.input_type(sema, &args),
            _ => self.destination_type(sema, &args),
        }
    }

    fn operand_at(&self, sema: &Sema<'_>, args: &[TemplateArg], at: usize) -> Res<Kind> {
        let ty = type_at(sema, self.name, args, at, self.span)?;
        match Kind::of_type(&ty.ty) {
            Some(kind) => Ok(kind),
            None => sema.err_help(
                "E0883",
                format!(
                    "template argument {} of '{}' must be a tensor type, not '{}'",
                    at + 1,
                    self.name,
                    sema.qual_name(ty)
                ),
                self.span,
                "pass the operand's type: 'decltype(tile)'",
            ),
        }
    }

    fn destination_type(&self, sema: &mut Sema<'_>, args: &[TemplateArg]) -> Res<CoopType> {
        let Operation { descriptor, scope } = self.operation;
        if !rules::cooperative_allowed(scope, true) {
            return sema.err_help(
                "E0877",
                "'execution_thread' has no cooperative destination",
                self.span,
                "pass a tensor in 'device' or 'thread' memory to 'run', or use the scope 'execution_simdgroup'",
            );
        }
        let (left, right) = (self.operand_at(sema, args, 0)?, self.operand_at(sema, args, 1)?);
        let element = element_at(sema, self.name, args, 2, self.span)?;
        let index = coordinate_type(sema, self.name, args, 3, self.span)?;
        if !coop::element_allowed(self.role, element) {
            return sema.err(
                "E0884",
                format!(
                    "cooperative tensor data type can only be one of float, half, bfloat, int, not '{}'",
                    element.msl_name()
                ),
                self.span,
            );
        }
        let operands = (left.format(), right.format());
        rows::check(sema, operands.0, operands.1, element, self.span)?;
        if !left.is_cooperative() && !right.is_cooperative() {
            rules::refuse(sema, rules::memory_rule(scope, descriptor.m, descriptor.n), self.span)?;
        }
        let (rows, columns) = match self.role {
            CoopRole::RowReduction => (descriptor.m, 1),
            CoopRole::ColumnReduction => (1, descriptor.n),
            _ => (descriptor.m, descriptor.n),
        };
        Ok(self.make(sema, element, operands, index, (rows, columns)))
    }

    fn input_type(&self, sema: &mut Sema<'_>, args: &[TemplateArg]) -> Res<CoopType> {
        let Operation { descriptor, scope } = self.operation;
        let operands = (
            element_at(sema, self.name, args, 0, self.span)?,
            element_at(sema, self.name, args, 1, self.span)?,
        );
        let destination = element_at(sema, self.name, args, 2, self.span)?;
        let index = coordinate_type(sema, self.name, args, 3, self.span)?;
        rows::check(sema, operands.0, operands.1, destination, self.span)?;
        if !rules::cooperative_allowed(scope, false) {
            let help = if scope == THREAD {
                "a thread takes its operands from 'device' or 'thread' memory; cooperative ones take 'execution_simdgroup'"
            } else {
                "use the scope 'execution_simdgroup'"
            };
            return sema.err_help(
                "E0885",
                "Input cooperative tensors require a single SIMD group",
                self.span,
                help,
            );
        }
        if descriptor.k.is_none() {
            return sema.err_help(
                "E0886",
                "Inner dimension cannot be dynamic with input cooperative tensors",
                self.span,
                "give the descriptor a constant k",
            );
        }
        let left = self.role == CoopRole::Left;
        let element = if left { operands.0 } else { operands.1 };
        let shape = rules::stored_shape(&descriptor, if left { 0 } else { 1 });
        Ok(self.make(sema, element, operands, index, shape))
    }

    fn make(
        &self,
        sema: &Sema<'_>,
        element: ElementFormat,
        operands: (ElementFormat, ElementFormat),
        index: Scalar,
        (rows, columns): (u32, u32),
    ) -> CoopType {
        let Operation { descriptor, scope } = self.operation;
        CoopType {
            role: self.role,
            element,
            operands,
            index,
            rows,
            columns,
            simdgroups: scope,
            layout: layout(sema, &descriptor, operands.0, operands.1),
            descriptor,
            convolution: None,
        }
    }
}

/// The coordinate type at a position of a getter's template arguments; `int` where it is left out.
pub(in crate::sema::library) fn coordinate_type(
    sema: &Sema<'_>,
    name: &str,
    args: &[TemplateArg],
    at: usize,
    span: Span,
) -> Res<Scalar> {
    if args.len() <= at {
        return Ok(Scalar::I32);
    }
    let ty = type_at(sema, name, args, at, span)?;
    if let Some(scalar @ (Scalar::I16 | Scalar::U16 | Scalar::I32 | Scalar::U32)) = ty.ty.as_scalar() {
        return Ok(scalar);
    }
    sema.err(
        "E0881",
        format!(
            "the coordinate type of '{name}' must be short, ushort, int or uint, not '{}'",
            sema.qual_name(ty)
        ),
        span,
    )
}

/// The element type at a position of a getter's template arguments.
pub(in crate::sema::library) fn element_at(
    sema: &Sema<'_>,
    name: &str,
    args: &[TemplateArg],
    at: usize,
    span: Span,
) -> Res<ElementFormat> {
    let ty = type_at(sema, name, args, at, span)?;
    match element_format(&ty.ty) {
        Some(format) => Ok(format),
        None => sema.err(
            "E0882",
            format!(
                "template argument {} of '{name}' must be an element type, not '{}'",
                at + 1,
                sema.qual_name(ty)
            ),
            span,
        ),
    }
}

/// Strict float products have layout S, tensor-unit products layout R (reference 5.6).
pub(in crate::sema::library) fn layout(
    sema: &Sema<'_>,
    descriptor: &MatmulDescriptor,
    left: ElementFormat,
    right: ElementFormat,
) -> LayoutKind {
    let float = left == ElementFormat::F32 || right == ElementFormat::F32;
    if sema.options.permuted_layout {
        LayoutKind::Permuted
    } else if float && !descriptor.relaxed_precision {
        LayoutKind::S
    } else {
        LayoutKind::R
    }
}

/// `get_destination_cooperative_tensor` and the two for reductions.
pub(super) fn destination(sema: &mut Sema<'_>, operation: Operation, role: CoopRole, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 0..=0)?;
    let ty = Request::of_call(operation, role, call).tensor_type(sema)?;
    super::require_simdgroups(sema, operation.scope);
    coop::create(sema, &ty).map(Operand::Value)
}

/// `get_left_input_cooperative_tensor` and its mirror, fresh or from a destination.
pub(super) fn input(sema: &mut Sema<'_>, operation: Operation, role: CoopRole, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 0..=1)?;
    let ty = Request::of_call(operation, role, call).tensor_type(sema)?;
    if call.args.is_empty() {
        return coop::create(sema, &ty).map(Operand::Value);
    }
    let source = convertible(sema, operation, &ty, call)?;
    let from = coop::of_operand(sema, &source)?;
    let value = coop::create(sema, &ty)?;
    let to = coop::of_operand(sema, &Operand::Value(value.clone()))?;
    sema.builder.emit_void(Op::CoopConvert { to, from });
    Ok(value.into())
}

/// `is_compatible_as_left_input` and its mirror.
pub(super) fn compatible(sema: &mut Sema<'_>, operation: Operation, role: CoopRole, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    if flatten(call.template_args).len() > 3 {
        return sema.err("E0881", format!("'{}' takes no coordinate type", call.name), call.span);
    }
    let ty = Request::of_call(operation, role, call).tensor_type(sema)?;
    let source = convertible(sema, operation, &ty, call)?;
    let from = coop::of_operand(sema, &source)?;
    // The query is about layouts; a tensor of the input's layout stands for it and is never touched.
    let value = coop::create(sema, &ty)?;
    let to = coop::of_operand(sema, &Operand::Value(value))?;
    let leaf = sema.emit1(Op::CoopCompatible { to, from }, Scalar::Bool)?;
    Ok(Value::one(Scalar::Bool, leaf).into())
}

/// The destination that a call would convert into an input of this type.
fn convertible(sema: &mut Sema<'_>, operation: Operation, ty: &CoopType, call: &Call<'_>) -> Res<Operand> {
    let source = args::operand(sema, call, 0)?.clone();
    let Some(from) = coop::type_of(&source).cloned() else {
        let name = sema.type_name(source.ty());
        return sema.err(
            "E0860",
            format!("'{}' takes a cooperative tensor, not '{name}'", call.name),
            call.span,
        );
    };
    rules::check_conversion(sema, &operation.descriptor, ty, &from, call.span)?;
    Ok(source)
}
