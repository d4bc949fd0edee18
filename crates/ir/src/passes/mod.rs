//! Analyses and passes that every backend wants.

pub mod coop_map;
pub mod effects;
pub mod uniformity;

pub use effects::{Effects, Root, Roots, Usage};
pub use uniformity::{Control, Uniformity, UniformityInfo};
