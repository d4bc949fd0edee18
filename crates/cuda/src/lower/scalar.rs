//! Constants, arithmetic, comparisons and selection.

use anymetal_ir::{BinaryOp, CompareOp, Const, MathMode, TernaryOp, UnaryOp, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn const_(&mut self, _to: ValueId, _c: Const) -> Result {
        self.unsupported("this operation")
    }

    pub fn unary(&mut self, _to: ValueId, _op: UnaryOp, _operand: ValueId, _mode: MathMode) -> Result {
        self.unsupported("this operation")
    }

    pub fn binary(&mut self, _to: ValueId, _op: BinaryOp, _lhs: ValueId, _rhs: ValueId, _mode: MathMode) -> Result {
        self.unsupported("this operation")
    }

    pub fn ternary(&mut self, _to: ValueId, _op: TernaryOp, _operands: [ValueId; 3], _mode: MathMode) -> Result {
        self.unsupported("this operation")
    }

    pub fn compare(&mut self, _to: ValueId, _op: CompareOp, _lhs: ValueId, _rhs: ValueId) -> Result {
        self.unsupported("this operation")
    }

    pub fn select(&mut self, _to: ValueId, _condition: ValueId, _then: ValueId, _otherwise: ValueId) -> Result {
        self.unsupported("this operation")
    }
}
