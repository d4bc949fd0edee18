//! Positions and sizes of the launch, and the entry of the kernel.

use anymetal_ir::{Builtin, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    /// Sets the registers of [`Geometry`](super::Geometry) and ends dead lanes.
    pub fn prologue(&mut self) {}

    pub fn builtin(&mut self, _to: ValueId, _builtin: Builtin) -> Result {
        self.unsupported("this operation")
    }
}
