//! `anymetal test`: annotated kernels.

pub mod compare;
pub mod header;
pub mod junit;
pub mod runner;
