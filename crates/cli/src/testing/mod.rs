//! `anymetal test`: annotated kernels.

pub mod compare;
pub mod findings;
pub mod header;
pub mod junit;
pub mod runner;
