//! Simpler control flow: scopes without exits dissolve, loops that run once become scopes, and early exits at the end of
//! a branch turn into `else`.

use crate::kernel::{Block, Inst, Kernel};
use crate::op::Op;

/// Simplifies the control flow of a kernel.
pub fn simplify(kernel: &mut Kernel) {
    block(&mut kernel.body);
}

fn block(this: &mut Block) {
    let insts = std::mem::take(&mut this.insts);
    for mut inst in insts {
        if !inst.op.is_structured() {
            let last = inst.op.is_terminator();
            this.insts.push(inst);
            if last {
                // What follows never runs.
                return;
            }
            continue;
        }
        for inner in inst.op.blocks_mut().into_iter().flatten() {
            block(inner);
        }
        if let Op::Loop { body, .. } = &mut inst.op {
            tail(body, &Op::Continue(0));
            let once = matches!(body.insts.last().map(|inst| &inst.op), Some(Op::Break(0)));
            if once && exits(body, 0).continues == 0 {
                let body = std::mem::take(body);
                inst.op = Op::Scope { body };
            }
        }
        if let Op::Scope { body } = &mut inst.op {
            tail(body, &Op::Break(0));
            if exits(body, 0).breaks == 0 {
                let mut body = std::mem::take(body);
                lower(&mut body, 0);
                let ends = body.insts.last().is_some_and(|inst| inst.op.is_terminator());
                this.insts.append(&mut body.insts);
                if ends {
                    return;
                }
                continue;
            }
        }
        this.insts.push(inst);
    }
}

/// Removes `exit` where the end of the block does the same, and moves what follows a branch that ends in `exit` into the
/// other branch.
fn tail(this: &mut Block, exit: &Op) {
    loop {
        if this.insts.last().is_some_and(|inst| inst.op == *exit) {
            this.insts.pop();
            continue;
        }
        // The first branch that leaves early.
        let ends = |block: &Block| block.insts.last().is_some_and(|inst| inst.op == *exit);
        let early = this
            .insts
            .iter()
            .position(|inst| matches!(&inst.op, Op::If { then, otherwise, .. } if ends(then) || ends(otherwise)));
        if let Some(at) = early {
            let rest = this.insts.split_off(at + 1);
            if let Op::If { then, otherwise, .. } = &mut this.insts[at].op {
                let (leaves, stays) = if ends(then) {
                    (then, otherwise)
                } else {
                    (otherwise, then)
                };
                leaves.insts.pop();
                let stays_ends = stays.insts.last().is_some_and(|inst| inst.op.is_terminator());
                if !stays_ends {
                    stays.insts.extend(rest);
                }
            }
        }
        // Both branches of a last `If` end where the block ends.
        if let Some(Inst {
            op: Op::If { then, otherwise, .. },
            ..
        }) = this.insts.last_mut()
        {
            tail(then, exit);
            tail(otherwise, exit);
        }
        return;
    }
}

/// How often a block leaves the loop or scope at `depth`.
#[derive(Default)]
struct Exits {
    breaks: usize,
    continues: usize,
}

fn exits(block: &Block, depth: u32) -> Exits {
    let mut found = Exits::default();
    for inst in &block.insts {
        match &inst.op {
            Op::Break(d) => found.breaks += usize::from(*d == depth),
            Op::Continue(d) => found.continues += usize::from(*d == depth),
            op => {
                let inner = |block: &Block, depth: u32, found: &mut Exits| {
                    let inside = exits(block, depth);
                    found.breaks += inside.breaks;
                    found.continues += inside.continues;
                };
                match op {
                    Op::If { then, otherwise, .. } => {
                        inner(then, depth, &mut found);
                        inner(otherwise, depth, &mut found);
                    }
                    Op::Loop { body, latch, .. } => {
                        inner(body, depth + 1, &mut found);
                        inner(latch, depth + 1, &mut found);
                    }
                    Op::Scope { body } => inner(body, depth + 1, &mut found),
                    // No exit leads out of a map.
                    _ => {}
                }
            }
        }
    }
    found
}

/// Counts one loop or scope less for every exit beyond `depth`.
pub(crate) fn lower(block: &mut Block, depth: u32) {
    for inst in &mut block.insts {
        match &mut inst.op {
            Op::Break(d) | Op::Continue(d) => *d -= u32::from(*d > depth),
            Op::If { then, otherwise, .. } => {
                lower(then, depth);
                lower(otherwise, depth);
            }
            Op::Loop { body, latch, .. } => {
                lower(body, depth + 1);
                lower(latch, depth + 1);
            }
            Op::Scope { body } => lower(body, depth + 1),
            _ => {}
        }
    }
}
