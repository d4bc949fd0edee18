//! Products of tiles: `matmul2d`, `convolution2d`, `simdgroup_matrix`.

use anymetal_ir::{ConvolutionDescriptor, Inst, MatmulDescriptor, Operand, Scalar, TensorRef, ValueId};

use super::{Lower, Result};

impl Lower<'_> {
    pub fn matmul(
        &mut self,
        _descriptor: &MatmulDescriptor,
        _simdgroups: u32,
        _left: &Operand,
        _right: &Operand,
        _destination: &Operand,
    ) -> Result {
        self.unsupported("this operation")
    }

    pub fn convolution(
        &mut self,
        _descriptor: &ConvolutionDescriptor,
        _simdgroups: u32,
        _offsets: [ValueId; 2],
        _activation: &TensorRef,
        _weights: &TensorRef,
        _destination: &Operand,
    ) -> Result {
        self.unsupported("this operation")
    }

    pub fn simdgroup_matrix(
        &mut self,
        _inst: &Inst,
        _a: [ValueId; 2],
        _b: [ValueId; 2],
        _c: Option<[ValueId; 2]>,
        _ty: Scalar,
    ) -> Result {
        self.unsupported("this operation")
    }
}
