//! Contraction: a fast `f32` product that only feeds a fast sum becomes a fused multiply-add.

use std::collections::HashMap;

use crate::kernel::{Block, Kernel};
use crate::op::{BinaryOp, MathMode, Op, TernaryOp};
use crate::types::{Scalar, ValueId};

/// Contracts what the math mode allows.
pub fn run(kernel: &mut Kernel) {
    let mut uses = vec![0u32; kernel.values.len()];
    kernel.body.for_each_inst(&mut |inst| {
        inst.op.for_each_operand(|value| uses[value.index()] += 1);
    });
    let mut body = std::mem::take(&mut kernel.body);
    block(&mut body, kernel, &uses);
    kernel.body = body;
}

fn block(this: &mut Block, kernel: &Kernel, uses: &[u32]) {
    let mut products: HashMap<ValueId, (ValueId, ValueId)> = HashMap::new();
    for inst in &mut this.insts {
        for inner in inst.op.blocks_mut().into_iter().flatten() {
            block(inner, kernel, uses);
        }
        let Op::Binary {
            op,
            lhs,
            rhs,
            mode: MathMode::Fast,
        } = inst.op
        else {
            continue;
        };
        if kernel.ty(inst.first) != Scalar::F32.into() {
            continue;
        }
        match op {
            BinaryOp::Mul => {
                products.insert(inst.first, (lhs, rhs));
            }
            BinaryOp::Add => {
                let product = |value: ValueId| products.get(&value).filter(|_| uses[value.index()] == 1).copied();
                let fused = match (product(lhs), product(rhs)) {
                    (Some((a, b)), _) => Some((a, b, rhs)),
                    (None, Some((a, b))) => Some((a, b, lhs)),
                    (None, None) => None,
                };
                if let Some((a, b, c)) = fused {
                    inst.op = Op::Ternary {
                        op: TernaryOp::Fma,
                        a,
                        b,
                        c,
                        mode: MathMode::Fast,
                    };
                }
            }
            _ => {}
        }
    }
}
