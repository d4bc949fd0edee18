//! Structured control flow as branches and labels.

use anymetal_ir::{Block, Unroll, ValueId};

use super::{Lower, Result};

/// The operations that can be left, innermost last.
#[derive(Default)]
pub(crate) struct ControlState {}

impl<'k> Lower<'k> {
    pub fn if_(&mut self, _condition: ValueId, _then: &'k Block, _otherwise: &'k Block) -> Result {
        self.unsupported("this operation")
    }

    pub fn loop_(&mut self, _body: &'k Block, _latch: &'k Block, _unroll: Unroll) -> Result {
        self.unsupported("this operation")
    }

    pub fn scope(&mut self, _body: &'k Block) -> Result {
        self.unsupported("this operation")
    }

    pub fn break_(&mut self, _depth: u32) -> Result {
        self.unsupported("this operation")
    }

    pub fn continue_(&mut self, _depth: u32) -> Result {
        self.unsupported("this operation")
    }

    pub fn return_(&mut self) -> Result {
        self.unsupported("this operation")
    }
}
