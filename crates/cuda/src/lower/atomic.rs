//! Atomic operations.

use anymetal_ir::{AtomicOp, Inst, Scalar, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn atomic(
        &mut self,
        _inst: &Inst,
        _op: AtomicOp,
        _pointer: ValueId,
        _values: &[ValueId],
        _ty: Scalar,
    ) -> Result {
        self.unsupported("this operation")
    }
}
