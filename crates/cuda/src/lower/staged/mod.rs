//! Products of a threadgroup through shared memory.

use anymetal_ir::{MatmulDescriptor, Operand};

use super::{Lower, Result};

impl Lower<'_> {
    /// Lowers the product if this path has it; false if not.
    pub fn staged_matmul(
        &mut self,
        _descriptor: &MatmulDescriptor,
        _simdgroups: u32,
        _left: &Operand,
        _right: &Operand,
        _destination: &Operand,
    ) -> Result<bool> {
        Ok(false)
    }
}
