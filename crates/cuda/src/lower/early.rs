//! Launches that begin before the one in front of them has ended (programmatic dependent launch, compute capability 9.0).
//!
//! Every kernel waits for the launch in front of it (`griddepcontrol.wait`: that one has ended, and what it wrote is there) before it touches memory,
//! and only then lets the next one begin. So whatever runs beside a kernel's beginning is the launch directly in front of it, and nothing
//! older. All kernels wait at their entry, except those whose first work is a product of few rows: these begin to copy weights before
//! they wait, and tell in [`PtxModule::early_reads`](crate::PtxModule::early_reads) which arguments they read by then. Whoever launches them makes sure that the
//! launch in front does not write those.

use anymetal_ir::passes::Root;
use anymetal_ir::{ArgumentId, Block, Op, Operand, ValueId};

use super::Lower;
use super::product::has_few_rows;
use crate::ptx;

/// What a block does before its first product.
enum Beginning {
    /// Nothing that has to wait; no product yet.
    Free,
    /// A product that can wait for itself.
    Product,
    /// Something that has to wait.
    Bound,
}

impl Lower<'_> {
    /// At the entry: waits, or leaves it to the product that the kernel begins with.
    pub(super) fn begin_dependence(&mut self) {
        self.waits = self.options.target.sm >= 90 && !self.options.checked;
        if !self.waits {
            return;
        }
        self.wait_pending = true;
        let mut reads = Vec::new();
        let whole = !self.kernel.required_simdgroups.is_empty() && self.options.unaliased;
        if whole && matches!(self.beginning(&self.kernel.body, &mut reads), Beginning::Product) {
            reads.sort_unstable();
            reads.dedup();
            self.early_reads = reads;
        } else {
            self.wait_for_predecessor();
            self.wait_pending = false;
        }
    }

    /// Waits for the launch in front of this one, if that has not been done on the way here.
    pub(super) fn wait_for_predecessor(&mut self) {
        if self.wait_pending {
            ptx!(self, "griddepcontrol.wait");
            ptx!(self, "griddepcontrol.launch_dependents");
        }
    }

    /// From here on every way has waited.
    pub(super) fn has_waited(&mut self) {
        self.wait_pending = false;
    }

    fn beginning(&self, block: &Block, reads: &mut Vec<ArgumentId>) -> Beginning {
        for inst in &block.insts {
            match &inst.op {
                op if op.is_pure() => {}
                Op::LocalGet(_) | Op::LocalSet { .. } | Op::TensorQuery { .. } => {}
                Op::Load { pointer, .. } if self.reads_early(*pointer, reads) => {}
                Op::Scope { body } => match self.beginning(body, reads) {
                    Beginning::Free => {}
                    other => return other,
                },
                Op::Matmul {
                    descriptor,
                    left: Operand::Tensor(left),
                    right: Operand::Tensor(right),
                    ..
                } if has_few_rows(descriptor, left.format, right.format) => {
                    let scales = right.scales.iter().map(|scales| scales.pointer);
                    let all = [right.pointer].into_iter().chain(scales);
                    return match all.into_iter().all(|pointer| self.reads_early(pointer, reads)) {
                        true => Beginning::Product,
                        false => Beginning::Bound,
                    };
                }
                _ => return Beginning::Bound,
            }
        }
        Beginning::Free
    }

    /// Notes the arguments behind a pointer; false if there may be something else, or the kernel writes it.
    fn reads_early(&self, pointer: ValueId, reads: &mut Vec<ArgumentId>) -> bool {
        let roots = self.effects.roots(pointer);
        if roots.unknown || roots.known.is_empty() {
            return false;
        }
        roots.known.iter().all(|&root| {
            if let Root::Argument(id) = root {
                reads.push(id);
            }
            self.effects.never_written(self.kernel, root)
        })
    }
}
