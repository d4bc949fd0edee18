//! Analyses and passes that every backend wants.

pub mod contract;
pub mod control;
pub mod coop_map;
pub mod copy;
pub mod dce;
pub mod effects;
pub mod forward;
pub mod licm;
pub mod loops;
mod peephole;
pub mod scalars;
pub mod tiles;
pub mod uniformity;
pub mod unroll;

pub use effects::{Effects, Root, Roots, Usage};
pub use uniformity::{Control, Uniformity, UniformityInfo};

use crate::kernel::Kernel;

/// Runs all passes in the order that suits kernels as the front end lowers them. The kernel must satisfy the
/// [verifier](mod@crate::verify), and does so afterwards.
pub fn optimize(kernel: &mut Kernel) {
    simplify(kernel);
    if scalars::run(kernel) {
        simplify(kernel);
    }
    simplify(kernel);
    licm::run(kernel);
    coop_map::form(kernel);
    // What is still a loop may unroll; element loops are worth more as maps.
    if unroll::run(kernel) {
        simplify(kernel);
        if scalars::run(kernel) {
            simplify(kernel);
        }
    }
    // Maps bring new constants and, in their bodies, branches that become `select`.
    simplify(kernel);
    licm::run(kernel);
    tiles::run(kernel);
    contract::run(kernel);
    forward::run(kernel);
    dce::run(kernel);
    dce::compact(kernel);
    effects::set_access(kernel);
}

/// One round of folding, forwarding and removal.
fn simplify(kernel: &mut Kernel) {
    control::simplify(kernel);
    forward::run(kernel);
    dce::run(kernel);
}
