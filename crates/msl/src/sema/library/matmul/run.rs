//! `run(left, right, destination)`.

use anymetal_ir::{CoopRole, Op, Operand as TileOperand};

use super::rules::{self, Kind};
use super::{Operation, rows};
use crate::sema::context::{Res, Sema};
use crate::sema::library::args::{self, expect_count};
use crate::sema::library::{Call, coop, view};
use crate::sema::value::Operand;

pub(super) fn run(sema: &mut Sema<'_>, operation: Operation, call: &Call<'_>) -> Res<Operand> {
    let Operation { descriptor, scope } = operation;
    expect_count(sema, call, 3..=3)?;
    sema.runtime_only()?;
    let mut kinds = Vec::with_capacity(3);
    for (at, side) in ["left", "right", "destination"].into_iter().enumerate() {
        let operand = args::operand(sema, call, at)?;
        match Kind::of_type(operand.ty()) {
            Some(kind) => kinds.push(kind),
            None => {
                let name = sema.type_name(operand.ty());
                return sema.err(
                    "E0894",
                    format!("the {side} operand of 'run' must be a tensor or cooperative tensor, not '{name}'"),
                    call.args[at].span(),
                );
            }
        }
    }
    for (at, side) in ["left", "right", "destination"].into_iter().enumerate() {
        if matches!(args::operand(sema, call, at)?, Operand::Value(_)) {
            sema.refuse(
                "E0857",
                format!("the {side} operand of 'run' is a temporary"),
                call.args[at].span(),
                "operands are bound to references: store it in a variable first",
            )?;
        }
    }
    let formats = (kinds[0].format(), kinds[1].format());
    rows::check(sema, formats.0, formats.1, kinds[2].format(), call.span)?;
    for (at, kind) in kinds.iter().enumerate() {
        rules::check_operand(sema, &descriptor, scope, at, kind, call)?;
    }
    if let Kind::Coop(tensor) = &kinds[2]
        && tensor.operands != formats
    {
        return sema.err_help(
            "E0895",
            "Input types must match cooperative tensor types",
            call.span,
            format!(
                "the destination was obtained for '{}' and '{}', the operands are '{}' and '{}'",
                tensor.operands.0.msl_name(),
                tensor.operands.1.msl_name(),
                formats.0.msl_name(),
                formats.1.msl_name()
            ),
        );
    }
    let cooperative = |kind: &Kind| matches!(kind, Kind::Coop(ty) if ty.role != CoopRole::Destination);
    let broken = match kinds.iter().filter(|&kind| cooperative(kind)).count() {
        0 => rules::memory_rule(scope, descriptor.m, descriptor.n),
        1 => None,
        _ => rules::cooperative_rule(descriptor.m, descriptor.n, descriptor.k.unwrap_or(0)),
    };
    rules::refuse(sema, broken, call.span)?;
    rules::check_scales(sema, &descriptor, &kinds, call.span)?;
    super::require_simdgroups(sema, scope);
    let mut tiles = Vec::with_capacity(3);
    for (at, kind) in kinds.iter().enumerate() {
        let operand = args::operand(sema, call, at)?.clone();
        tiles.push(match kind {
            Kind::Tensor(_) => TileOperand::Tensor(Box::new(view::view(sema, &operand)?)),
            Kind::Coop(_) => TileOperand::Coop(coop::of_operand(sema, &operand)?),
        });
    }
    let mut tiles = tiles.into_iter();
    if let (Some(left), Some(right), Some(destination)) = (tiles.next(), tiles.next(), tiles.next()) {
        sema.builder.emit_void(Op::Matmul {
            descriptor,
            simdgroups: scope,
            left,
            right,
            destination,
        });
    }
    Ok(Operand::void())
}
