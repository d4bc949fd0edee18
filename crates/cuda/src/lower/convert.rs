//! Conversions between types and element formats.

use anymetal_formats::ElementFormat;
use anymetal_ir::{Scalar, Type, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn convert(&mut self, _to: ValueId, _operand: ValueId, _scalar: Scalar, _saturate: bool) -> Result {
        self.unsupported("this operation")
    }

    pub fn bitcast(&mut self, _to: ValueId, _operand: ValueId, _ty: Type) -> Result {
        self.unsupported("this operation")
    }

    pub fn decode(&mut self, _to: ValueId, _operand: ValueId, _format: ElementFormat) -> Result {
        self.unsupported("this operation")
    }

    pub fn encode(&mut self, _to: ValueId, _operand: ValueId, _format: ElementFormat, _saturate: bool) -> Result {
        self.unsupported("this operation")
    }
}
