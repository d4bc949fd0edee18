//! Reads Core AI assets (.aimodel) and runs them through anymetal.
//!
//! An asset is opened ([`Asset`]), its program is built ([`Program`]), and its functions are planned once for each
//! set of input shapes and then dispatched ([`Model`], [`Function`]). How, stands in `docs/models.md`.
//!
//! ```no_run
//! use anymetal_coreai::{Array, Model};
//!
//! let model = Model::load("minilm.aimodel")?;
//! let embed = model.function("main")?;
//! let ids = Array::from_values(&[1, 4], vec![101, 7592, 2088, 102])?;
//! let mask = Array::from_values(&[1, 4], vec![1; 4])?;
//! for (name, array) in embed.run(&[("ids", ids), ("attention_mask", mask)])? {
//!     println!("{name}: {array}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use exec::{Function, InputSpec, Model, ModelOptions, OutputSpec, Placement, PlanSummary, StepTime};
pub use program::{
    Binary, Composite, CompositeValue, Constant, FunctionSummary, Graph, KernelSummary, OpCode, Port, PortSummary,
    Program, Reduction, Summary, Unary, ValueType, WeightSummary, print,
};
