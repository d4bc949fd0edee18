//! Tensor handles and views: queries, elements, addresses.

use anymetal_ir::{ArgumentId, Bounds, TensorField, TensorRef, TensorSpec, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn argument_tensor(&mut self, _to: ValueId, _id: ArgumentId) -> Result {
        self.unsupported("this operation")
    }

    pub fn tensor_query(&mut self, _to: ValueId, _handle: ValueId, _spec: &TensorSpec, _field: TensorField) -> Result {
        self.unsupported("this operation")
    }

    pub fn tensor_load(&mut self, _to: ValueId, _tensor: &TensorRef, _indices: &[ValueId], _bounds: Bounds) -> Result {
        self.unsupported("this operation")
    }

    pub fn tensor_store(
        &mut self,
        _tensor: &TensorRef,
        _indices: &[ValueId],
        _value: ValueId,
        _bounds: Bounds,
    ) -> Result {
        self.unsupported("this operation")
    }

    pub fn tensor_element_pointer(&mut self, _to: ValueId, _tensor: &TensorRef, _indices: &[ValueId]) -> Result {
        self.unsupported("this operation")
    }
}
