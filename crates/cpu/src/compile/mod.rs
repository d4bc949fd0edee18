//! From kernel IR to a lane program.

pub(crate) mod allocate;
mod arithmetic;
pub(crate) mod classify;
mod control;
mod coop;
mod dot;
mod fuse;
mod load_dot;
mod lower;
mod moves;
pub(crate) mod operands;
mod places;
pub(crate) mod program;
mod rows;
mod tensor;
mod watch;

pub(crate) use lower::lower;
