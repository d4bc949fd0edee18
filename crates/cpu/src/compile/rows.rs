//! Loops over a tile in which each row has numbers of its own, as softmax has them: `x ← x · a`, `x ← exp(x · a + b)` and `x ← exp2(x · a + b)` with
//! the same `a` and `b` for all elements of a row, or of the tile, and the sums of the rows after an exponential. Each is one pass over the tile.

use anymetal_ir::{BinaryOp, Block as IrBlock, CoopId, Op, ReduceAxis, ReduceOp, Scalar, TernaryOp, UnaryOp, ValueId};

use super::classify::Class;
use super::lower::Lower;
use super::program::{Inst, Reg, RowFunction, RowMap, RowOperand};
use crate::fault::CompileError;

/// What a row must be a multiple of: the widest vector.
const WIDTH: u32 = 16;

/// What an operand of the body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    Element,
    Row(CoopId),
    Outside(ValueId),
}

/// A body in terms of operands.
struct Form {
    factor: Option<Operand>,
    addend: Option<Operand>,
    negative: bool,
    function: RowFunction,
}

impl<'k> Lower<'k> {
    /// The map as one pass by rows, if it is one; nothing is lowered otherwise.
    pub(super) fn row_map(&mut self, over: CoopId, body: &'k IrBlock) -> Result<Option<RowMap>, CompileError> {
        let tile = self.kernel.coop(over);
        if self.watch.is_some()
            || tile.element != Scalar::F32
            || !tile.columns.is_multiple_of(WIDTH)
            || tile.columns == 0
        {
            return Ok(None);
        }
        let Some(form) = self.row_form(over, body) else {
            return Ok(None);
        };
        let mut operand = |operand: Option<Operand>| -> Result<Option<Option<RowOperand>>, CompileError> {
            Ok(Some(match operand {
                None | Some(Operand::Element) => None,
                Some(Operand::Row(coop)) => Some(RowOperand::Rows(coop.0)),
                Some(Operand::Outside(value)) => {
                    let reg = self.value(value)?;
                    if self.class(reg) != Class::Uniform {
                        return Ok(None);
                    }
                    Some(RowOperand::Value(reg))
                }
            }))
        };
        let (Some(factor), Some(addend)) = (operand(form.factor)?, operand(form.addend)?) else {
            return Ok(None);
        };
        Ok(Some(RowMap {
            over: over.0,
            factor,
            addend,
            negative: form.negative,
            function: form.function,
            sums: None,
        }))
    }

    fn row_form(&self, over: CoopId, body: &'k IrBlock) -> Option<Form> {
        let define = |value: ValueId| {
            body.insts
                .iter()
                .find(|inst| inst.results().any(|result| result == value))
                .map(|inst| &inst.op)
        };
        let operand = |value: ValueId| match define(value) {
            None => (self.kernel.ty(value).scalar() == Some(Scalar::F32)).then_some(Operand::Outside(value)),
            Some(Op::CoopElement(coop)) if *coop == over => Some(Operand::Element),
            Some(Op::CoopElement(coop)) => self.is_row_of(*coop, over).then_some(Operand::Row(*coop)),
            Some(_) => None,
        };
        // The other one of two operands, where one is the element.
        let beside_element = |a: ValueId, b: ValueId| match (operand(a)?, operand(b)?) {
            (Operand::Element, Operand::Element) => None,
            (Operand::Element, other) | (other, Operand::Element) => Some(other),
            _ => None,
        };
        let (last, before) = body.insts.split_last()?;
        let Op::CoopElementSet { coop, value } = &last.op else {
            return None;
        };
        if *coop != over {
            return None;
        }
        let (function, argument) = match define(*value)? {
            Op::Unary {
                op: UnaryOp::Exp,
                operand,
                ..
            } => (RowFunction::Exp, *operand),
            Op::Unary {
                op: UnaryOp::Exp2,
                operand,
                ..
            } => (RowFunction::Exp2, *operand),
            _ => (RowFunction::None, *value),
        };
        let plain = Form {
            factor: None,
            addend: None,
            negative: false,
            function,
        };
        let form = match define(argument)? {
            Op::Ternary {
                op: TernaryOp::Fma,
                a,
                b,
                c,
                ..
            } => Form {
                factor: Some(beside_element(*a, *b)?),
                addend: Some(operand(*c)?),
                ..plain
            },
            Op::Binary {
                op: BinaryOp::Mul,
                lhs,
                rhs,
                ..
            } => Form {
                factor: Some(beside_element(*lhs, *rhs)?),
                ..plain
            },
            Op::Binary {
                op: BinaryOp::Add,
                lhs,
                rhs,
                ..
            } => Form {
                addend: Some(beside_element(*lhs, *rhs)?),
                ..plain
            },
            Op::Binary {
                op: BinaryOp::Sub,
                lhs,
                rhs,
                ..
            } if operand(*lhs)? == Operand::Element => Form {
                addend: Some(operand(*rhs)?),
                negative: true,
                ..plain
            },
            _ => return None,
        };
        // Nothing else may be in the body: reads of elements, the operation, and the function.
        let others = before
            .iter()
            .filter(|inst| !matches!(inst.op, Op::CoopElement(_)))
            .count();
        let expected = if function == RowFunction::None { 1 } else { 2 };
        let linear = function != RowFunction::None || form.addend.is_none();
        let is_element = |operand| operand == Some(Operand::Element);
        (others == expected && linear && !is_element(form.addend)).then_some(form)
    }

    /// Does a tile hold a number for each row of another?
    fn is_row_of(&self, rows: CoopId, of: CoopId) -> bool {
        let (rows, of) = (self.kernel.coop(rows), self.kernel.coop(of));
        rows.element == Scalar::F32 && rows.columns == 1 && (rows.rows, rows.simdgroups) == (of.rows, of.simdgroups)
    }

    /// Lets the pass just before take the sums of its rows along; false where it cannot.
    pub(super) fn sums_of_rows(
        &mut self,
        (to, from): (CoopId, CoopId),
        (axis, op): (ReduceAxis, ReduceOp),
        identity: Reg,
    ) -> bool {
        let fits = (axis, op) == (ReduceAxis::Rows, ReduceOp::Sum)
            && self.class(identity) == Class::Uniform
            && self.is_row_of(to, from);
        match self.out.insts.last_mut() {
            Some((Inst::RowMap(map), _))
                if fits && map.over == from.0 && map.function != RowFunction::None && map.sums.is_none() =>
            {
                map.sums = Some((to.0, identity));
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::program::Block;
    use crate::lanes::Isa;

    /// The lane program of a body with a tile of 16 × 64, `coop0`, and reduction tensors of it, `coop1` and `coop2`.
    fn program(body: &str) -> Block {
        let rows = "f32 rows 16 columns 1 simdgroups 1 layout R matmul {16 64 64}";
        let text = format!(
            "kernel \"k\" {{\n  cooperative coop0 \"a\" destination f32 rows 16 columns 64 simdgroups 1 layout R matmul {{16 64 64}}\n  \
             cooperative coop1 \"b\" row_reduction {rows}\n  cooperative coop2 \"c\" row_reduction {rows}\n  \
             body {{\n %0: f32 = const f32 0.5\n %1: f32 = const f32 0.0\n{body}}}\n}}\n"
        );
        let kernel = anymetal_ir::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        crate::compile::lower(&kernel, Isa::Portable, false, false)
            .expect("it compiles")
            .body
    }

    fn only_map(body: &str) -> Option<RowMap> {
        match &program(body).insts[..] {
            [(Inst::RowMap(map), _)] => Some(**map),
            _ => None,
        }
    }

    const ELEMENTS: &str = "%2: f32 = coop.element coop0\n%3: f32 = coop.element coop1\n";

    fn map(operations: &str) -> String {
        format!("coop.map coop0 {{\n{ELEMENTS}{operations}\n}}\n")
    }

    #[test]
    fn forms_of_a_softmax_are_passes() {
        let rows = Some(RowOperand::Rows(1));
        let scaled = only_map(&map(
            "%4: f32 = fma %2, %0, %3 fast\n%5: f32 = exp2 %4 fast\ncoop.element_set coop0, %5",
        ))
        .expect("a pass");
        assert!(matches!(scaled.factor, Some(RowOperand::Value(_))) && scaled.addend == rows && !scaled.negative);
        assert_eq!((scaled.function, scaled.sums), (RowFunction::Exp2, None));

        let shifted = map("%4: f32 = sub %2, %3 fast\n%5: f32 = exp %4 fast\ncoop.element_set coop0, %5");
        let summed = only_map(&format!("{shifted}coop.reduce coop2, coop0 rows sum %1\n")).expect("one pass");
        assert_eq!((summed.factor, summed.addend, summed.negative), (None, rows, true));
        assert!(summed.function == RowFunction::Exp && summed.sums.is_some_and(|(to, _)| to == 2));

        let product = only_map(&map("%4: f32 = mul %3, %2 fast\ncoop.element_set coop0, %4")).expect("a pass");
        assert_eq!(
            (product.factor, product.addend, product.function),
            (rows, None, RowFunction::None)
        );
    }

    #[test]
    fn others_are_not() {
        for operations in [
            // Not the element minus the row's number, a sum without a function, a square, another function, a second use.
            "%4: f32 = sub %3, %2 fast\n%5: f32 = exp %4 fast\ncoop.element_set coop0, %5",
            "%4: f32 = add %2, %3 fast\ncoop.element_set coop0, %4",
            "%4: f32 = mul %2, %2 fast\ncoop.element_set coop0, %4",
            "%4: f32 = sub %2, %3 fast\n%5: f32 = sin %4 fast\ncoop.element_set coop0, %5",
            "%4: f32 = sub %2, %3 fast\n%5: f32 = exp %4 fast\n%6: f32 = add %4, %5 fast\ncoop.element_set coop0, %6",
        ] {
            assert!(only_map(&map(operations)).is_none(), "{operations}");
        }
        // The sums of something else, or its maximum.
        let product = map("%4: f32 = mul %2, %3 fast\ncoop.element_set coop0, %4");
        for reduction in ["rows sum", "rows max"] {
            let insts = program(&format!("{product}coop.reduce coop2, coop0 {reduction} %1\n")).insts;
            assert!(matches!(
                insts[..],
                [(Inst::RowMap(_), _), (Inst::CoopReduce { .. }, _)]
            ));
        }
    }
}
