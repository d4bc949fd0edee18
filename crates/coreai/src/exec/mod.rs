//! Running models: a walk over the graph for one set of input shapes records a plan, which later calls only dispatch.

mod device;
mod dispatch;
mod fuse;
mod fused;
mod kernel;
mod library;
mod model;
mod native;
mod plan;
mod walk;

pub use model::{Function, InputSpec, Model, ModelOptions, OutputSpec, Placement};
pub use plan::{PlanSummary, StepTime};
