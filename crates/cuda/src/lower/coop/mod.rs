//! Cooperative tensors in registers.

use anymetal_ir::{Inst, Kernel};

use super::{ColumnMap, Lower, Result};

/// The registers of all cooperative tensors.
#[derive(Default)]
pub(crate) struct CoopState {}

/// True if the kernel can relate slots to lanes (element access outside maps, `simdgroup_matrix`).
pub(crate) fn slots_are_visible(_kernel: &Kernel) -> bool {
    false
}

/// How the kernel's tiles hold columns.
pub(crate) fn column_map(_kernel: &Kernel) -> ColumnMap {
    ColumnMap::Natural
}

impl<'k> Lower<'k> {
    /// Gives every cooperative tensor its registers.
    pub fn prepare_coops(&mut self) -> Result {
        Ok(())
    }

    /// Every `Coop…` operation.
    pub fn cooperative(&mut self, _inst: &'k Inst) -> Result {
        self.unsupported("this operation")
    }
}
