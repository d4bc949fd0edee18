//! Functions of `<metal_math>` that are no single instruction.

use anymetal_ir::{Inst, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn frexp(&mut self, _inst: &Inst, _operand: ValueId) -> Result {
        self.unsupported("this operation")
    }

    pub fn modf(&mut self, _inst: &Inst, _operand: ValueId) -> Result {
        self.unsupported("this operation")
    }
}
