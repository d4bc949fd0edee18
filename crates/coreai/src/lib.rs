//! Reads Core AI assets (.aimodel) and runs them through anymetal.
//!
//! An asset is opened ([`Asset`]), its program is built ([`Program`]), and its functions are planned once for each
//! set of input shapes and then dispatched.

#![warn(missing_docs)]

pub mod array;
mod asset;
pub mod bytecode;
mod bytes;
mod error;
mod eval;
mod exec;
mod program;
mod scalar;

pub use array::{Array, ArrayError};
pub use asset::{Asset, Metadata, OpenOptions};
pub use bytecode::ElementType;
pub use bytes::{AlignedBytes, SharedBytes};
pub use error::{AssetError, OpError, ProgramError, RunError};
pub use exec::{Function, InputSpec, Model, ModelOptions, OutputSpec, PlanSummary, StepTime};
pub use program::{
    Binary, Composite, CompositeValue, Constant, FunctionSummary, Graph, KernelSummary, OpCode,
    Port, PortSummary, Program, Reduction, Summary, Unary, ValueType, WeightSummary, print,
};
