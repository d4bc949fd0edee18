//! SIMD-group and quad-group functions, barriers and fences.

use anymetal_ir::{GroupOp, GroupWidth, MemFlags, Scope, ShuffleOp, ValueId, VoteOp};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn barrier(&mut self, _scope: Scope, _flags: MemFlags) -> Result {
        self.unsupported("this operation")
    }

    pub fn fence(&mut self, _flags: MemFlags) -> Result {
        self.unsupported("this operation")
    }

    pub fn group(&mut self, _to: ValueId, _op: GroupOp, _width: GroupWidth, _operand: ValueId) -> Result {
        self.unsupported("this operation")
    }

    pub fn shuffle(
        &mut self,
        _to: ValueId,
        _op: ShuffleOp,
        _width: GroupWidth,
        _operand: ValueId,
        _index: ValueId,
    ) -> Result {
        self.unsupported("this operation")
    }

    pub fn vote(&mut self, _to: ValueId, _op: VoteOp, _width: GroupWidth, _operand: Option<ValueId>) -> Result {
        self.unsupported("this operation")
    }
}
