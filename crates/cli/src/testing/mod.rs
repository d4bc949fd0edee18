//! `anymetal test`: annotated kernels.

pub mod assemble;
pub mod compare;
pub mod findings;
pub mod header;
pub mod isolated;
pub mod junit;
pub mod runner;
