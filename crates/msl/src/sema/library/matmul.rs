//! `matmul2d` and its static rules (reference 3, 4 and 5.5).

mod cooperative;
pub mod rows;
pub mod rules;
mod run;
pub mod table;

pub(super) use cooperative::{coordinate_type, element_at, layout};

use std::rc::Rc;

use anymetal_ir::{CoopRole, MatmulDescriptor};

use super::args::{flatten, int_at, integers, type_at};
use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{Object, QualType, TemplateArg, Type};
use crate::sema::value::Operand;
use crate::source::Span;

/// Execution scopes, of namespace `metal`.
pub fn lookup_scope(name: &str) -> Option<LibEntity> {
    let scope = |n| Some(LibEntity::Type(Type::object(Object::ExecutionScope(n)).into()));
    match name {
        "execution_simdgroup" => scope(1),
        "execution_thread" => scope(rules::THREAD),
        "execution_threads" => Some(LibEntity::Template {
            name: "execution_threads",
            instantiate: instantiate_threads,
            deduce: None,
        }),
        "execution_simdgroups" => Some(LibEntity::Template {
            name: "execution_simdgroups",
            instantiate: instantiate_scope,
            deduce: None,
        }),
        _ => None,
    }
}

/// `matmul2d`, of namespace `mpp::tensor_ops`. Its descriptor is a struct of the prelude.
pub fn lookup(name: &str) -> Option<LibEntity> {
    match name {
        "matmul2d" => Some(LibEntity::Template {
            name: "matmul2d",
            instantiate,
            deduce: None,
        }),
        _ => None,
    }
}

fn instantiate_threads(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let count = int_at(sema, "execution_threads", &args, 0, span)?;
    if count != 1 {
        return sema.err("E0874", "Only execution_thread<1> is supported", span);
    }
    Ok(Type::object(Object::ExecutionScope(rules::THREAD)).into())
}

fn instantiate_scope(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let count = int_at(sema, "execution_simdgroups", &args, 0, span)?;
    if !(1..=32).contains(&count) {
        return sema.err(
            "E0874",
            format!("'execution_simdgroups<{count}>': a threadgroup has 1 to 32 SIMD-groups"),
            span,
        );
    }
    Ok(Type::object(Object::ExecutionScope(count as u32)).into())
}

fn instantiate(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let given = match args.first() {
        Some(TemplateArg::Value(value)) => integers(value)
            .filter(|fields| fields.len() == 7)
            .map(|fields| (fields, Rc::new(value.clone()))),
        _ => None,
    };
    let Some((fields, constant)) = given else {
        return sema.err_help(
            "E0875",
            "the first template argument of 'matmul2d' must be a constant 'matmul2d_descriptor'",
            span,
            "declare it as 'constexpr auto descriptor = matmul2d_descriptor(…);'",
        );
    };
    let scope = type_at(sema, "matmul2d", &args, 1, span)?;
    let Some(Object::ExecutionScope(simdgroups)) = scope.ty.as_object() else {
        return sema.err_help(
            "E0876",
            format!(
                "Scope template argument should be of op_scope type, not '{}'",
                sema.qual_name(scope)
            ),
            span,
            "use 'execution_simdgroup', 'execution_simdgroups<N>' or 'execution_thread'",
        );
    };
    let simdgroups = *simdgroups;
    let size = |name: &str, value: i128| match u32::try_from(value) {
        Ok(value @ 1..=65536) => Ok(value),
        _ => sema.err(
            "E0878",
            format!("matmul2d_descriptor: {name} = {value} is not in 1…65536"),
            span,
        ),
    };
    let (m, n) = (size("m", fields[0])?, size("n", fields[1])?);
    // −1 is dynamic_extent, INT_MAX is dynamic_length_v; 0 is used as if dynamic in the specification's examples.
    let dynamic = [-1, 0, i128::from(i32::MAX)].contains(&fields[2]);
    let k = if dynamic { None } else { Some(size("k", fields[2])?) };
    let descriptor = MatmulDescriptor {
        m,
        n,
        k,
        transpose_left: fields[3] != 0,
        transpose_right: fields[4] != 0,
        relaxed_precision: fields[5] != 0,
        accumulate: fields[6] != 0,
    };
    rules::refuse(sema, rules::inner_rule(simdgroups, k), span)?;
    Ok(Type::object(Object::Matmul {
        descriptor,
        simdgroups,
        constant,
    })
    .into())
}

/// A `matmul2d` type: what it computes, and the scope that does (its SIMD-groups, or [`rules::THREAD`]).
#[derive(Clone, Copy)]
struct Operation {
    descriptor: MatmulDescriptor,
    scope: u32,
}

/// Member functions of `matmul2d<…>`.
pub fn method(sema: &mut Sema<'_>, descriptor: &MatmulDescriptor, scope: u32, call: &Call<'_>) -> Option<Res<Operand>> {
    let operation = Operation {
        descriptor: *descriptor,
        scope,
    };
    let destination = |sema: &mut Sema<'_>, role| cooperative::destination(sema, operation, role, call);
    Some(match call.name {
        "run" => run::run(sema, operation, call),
        "get_destination_cooperative_tensor" => destination(sema, CoopRole::Destination),
        "get_row_reduction_destination_cooperative_tensor" => destination(sema, CoopRole::RowReduction),
        "get_column_reduction_destination_cooperative_tensor" => destination(sema, CoopRole::ColumnReduction),
        "get_left_input_cooperative_tensor" => cooperative::input(sema, operation, CoopRole::Left, call),
        "get_right_input_cooperative_tensor" => cooperative::input(sema, operation, CoopRole::Right, call),
        "is_compatible_as_left_input" => cooperative::compatible(sema, operation, CoopRole::Left, call),
        "is_compatible_as_right_input" => cooperative::compatible(sema, operation, CoopRole::Right, call),
        _ => return None,
    })
}

/// The type behind `cooperative_tensor_destination_t<…>` and its siblings.
pub fn member_alias(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    scope: u32,
    name: &str,
    args: &[TemplateArg],
    span: Span,
) -> Option<Res<QualType>> {
    let role = match name {
        "cooperative_tensor_left_input_t" => CoopRole::Left,
        "cooperative_tensor_right_input_t" => CoopRole::Right,
        "cooperative_tensor_destination_t" => CoopRole::Destination,
        "cooperative_tensor_row_reduction_destination_t" => CoopRole::RowReduction,
        "cooperative_tensor_column_reduction_destination_t" => CoopRole::ColumnReduction,
        _ => return None,
    };
    let operation = Operation {
        descriptor: *descriptor,
        scope,
    };
    let request = cooperative::Request {
        operation,
        role,
        name,
        args,
        span,
    };
    let ty = request.tensor_type(sema);
    Some(ty.map(|ty| Type::object(Object::Coop(ty)).into()))
}

/// `execution_simdgroups<N>` with N > 1 asks for a threadgroup of exactly N SIMD-groups.
fn require_simdgroups(sema: &mut Sema<'_>, scope: u32) {
    if scope > 1 {
        let location = sema.builder.location();
        let required = &mut sema.builder.kernel_mut().required_simdgroups;
        if !required.iter().any(|(count, _)| *count == scope) {
            required.push((scope, location));
        }
    }
}
