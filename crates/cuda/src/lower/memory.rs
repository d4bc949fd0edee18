//! Pointers, loads and stores.

use anymetal_ir::{AddressSpace, ArgumentId, Inst, MemoryId, Type, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn declare_memory(&mut self) -> Result {
        self.unsupported("this operation")
    }

    pub fn memory_pointer(&mut self, _to: ValueId, _id: MemoryId) -> Result {
        self.unsupported("this operation")
    }

    pub fn argument_pointer(&mut self, _to: ValueId, _id: ArgumentId) -> Result {
        self.unsupported("this operation")
    }

    pub fn null_pointer(&mut self, _to: ValueId, _space: AddressSpace) -> Result {
        self.unsupported("this operation")
    }

    pub fn pointer_offset(&mut self, _to: ValueId, _pointer: ValueId, _offset: ValueId) -> Result {
        self.unsupported("this operation")
    }

    pub fn pointer_diff(&mut self, _to: ValueId, _lhs: ValueId, _rhs: ValueId) -> Result {
        self.unsupported("this operation")
    }

    pub fn load(&mut self, _inst: &Inst, _pointer: ValueId, _ty: Type, _count: u32, _align: u32) -> Result {
        self.unsupported("this operation")
    }

    pub fn store(&mut self, _pointer: ValueId, _values: &[ValueId], _align: u32) -> Result {
        self.unsupported("this operation")
    }
}
