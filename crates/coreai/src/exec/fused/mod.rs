//! Kernels of our own making: chains of element-wise operations and data movement, and reductions over them, become one
//! kernel each, generated as IR.

mod affine;
mod emit;
mod map_kernel;
mod math;
mod node;
mod ops;
mod row_kernel;

pub(super) use affine::Affine;
pub(super) use emit::{Check, FIRST_INPUT, OUTPUT, STATUS, TERMS};
pub(super) use map_kernel::{Form, Generated, SPLIT_TAIL, map_kernel, split_width};
pub(super) use node::{MapOp, Memory, Node};
pub(super) use ops::{Lowered, Operand, Reduced, layer_norm, lower, rms_norm};
pub(super) use row_kernel::{RowProgram, Stage};
