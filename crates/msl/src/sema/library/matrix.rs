//! Functions of `<metal_matrix>`: `transpose` and `determinant`.

use anymetal_ir::{BinaryOp, MathMode, Scalar, UnaryOp};

use super::args::{self, expect_count};
use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::types::Type;
use crate::sema::value::{Leaf, Operand, Value};

/// Declarations of namespace `metal`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    match name {
        "transpose" => Some(LibEntity::Function(transpose, "metal")),
        "determinant" => Some(LibEntity::Function(determinant, "metal")),
        _ => None,
    }
}

/// The matrix argument: component type, columns, rows, and its components column by column.
fn matrix(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<(Scalar, u8, u8, Vec<Leaf>)> {
    expect_count(sema, call, 1..=1)?;
    let value = args::value(sema, call, 0)?;
    match value.ty {
        Type::Matrix { scalar, columns, rows } => Ok((scalar, columns, rows, value.leaves)),
        ty => {
            let name = sema.type_name(&ty);
            sema.err(
                "E0932",
                format!("'{}' takes a matrix, not '{name}'", call.name),
                call.args[0].span(),
            )
        }
    }
}

fn transpose(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    let (scalar, columns, rows, leaves) = matrix(sema, call)?;
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    let leaves = (0..rows)
        .flat_map(|row| (0..columns).map(move |column| column * rows + row))
        .map(|at| leaves[at].clone())
        .collect();
    let ty = Type::Matrix {
        scalar,
        columns: rows as u8,
        rows: columns as u8,
    };
    Ok(Value { ty, leaves }.into())
}

fn determinant(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    let (scalar, columns, rows, leaves) = matrix(sema, call)?;
    if columns != rows {
        return sema.err(
            "E0933",
            format!("'determinant' takes a square matrix, not {columns} columns of {rows}"),
            call.args[0].span(),
        );
    }
    let columns: Vec<&[Leaf]> = leaves.chunks(rows.into()).collect();
    let mode = super::math::mode_of(sema, call.namespace);
    let leaf = expand(sema, &columns, 0, mode)?;
    Ok(Value::one(scalar, leaf).into())
}

/// The determinant of the columns from row `from` on, expanded along that row. There are at most four columns.
fn expand(sema: &mut Sema<'_>, columns: &[&[Leaf]], from: usize, mode: MathMode) -> Res<Leaf> {
    if let [column] = columns {
        return Ok(column[from].clone());
    }
    let mut total: Option<Leaf> = None;
    for (at, column) in columns.iter().enumerate() {
        let mut others = columns.to_vec();
        others.remove(at);
        let minor = expand(sema, &others, from + 1, mode)?;
        let product = sema.binary_leaf(BinaryOp::Mul, &column[from], &minor, mode)?;
        total = Some(match total {
            None => product,
            Some(sum) if at % 2 == 1 => {
                let negative = sema.unary_leaf(UnaryOp::Neg, &product, mode)?;
                sema.binary_leaf(BinaryOp::Add, &sum, &negative, mode)?
            }
            Some(sum) => sema.binary_leaf(BinaryOp::Add, &sum, &product, mode)?,
        });
    }
    match total {
        Some(total) => Ok(total),
        None => sema.err("E0933", "'determinant' takes a matrix with columns", sema.span),
    }
}
