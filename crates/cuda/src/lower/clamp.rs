//! Clamps of 64-bit indices that keep byte offsets from wrapping around: without checks they change nothing that may happen.

use std::collections::{HashMap, HashSet};

use anymetal_ir::{BinaryOp, Kernel, Op, Scalar, Type, ValueId};

/// An index is kept within ±2^47.
const LIMIT: i64 = 1 << 47;

/// The minima and maxima with ±2^47 whose results are offsets of pointers and nothing else. An index past them is far outside of any
/// memory, so that leaving them out cannot change a kernel that stays inside.
pub(super) fn index_clamps(kernel: &Kernel) -> HashSet<ValueId> {
    let mut constants = HashMap::new();
    let mut candidates = HashMap::new();
    let mut products = HashSet::new();
    kernel.body.for_each_inst(&mut |inst| match &inst.op {
        Op::Const(c) if c.ty == Scalar::I64 => {
            constants.insert(inst.first, c.bits as i64);
        }
        Op::Binary { op, lhs, rhs, .. } if kernel.ty(inst.first) == Type::Scalar(Scalar::I64) => match op {
            BinaryOp::Min if constants.get(rhs) == Some(&LIMIT) => {
                candidates.insert(inst.first, *lhs);
            }
            BinaryOp::Max if constants.get(rhs) == Some(&-LIMIT) => {
                candidates.insert(inst.first, *lhs);
            }
            BinaryOp::Mul | BinaryOp::Shl if constants.contains_key(rhs) => {
                products.insert(inst.first);
            }
            _ => {}
        },
        _ => {}
    });
    if candidates.is_empty() {
        return HashSet::new();
    }
    // What a value is used for: by others of these, as an offset, or otherwise.
    let mut feeds: HashMap<ValueId, Vec<ValueId>> = HashMap::new();
    let mut elsewhere = HashSet::new();
    kernel.body.for_each_inst(&mut |inst| {
        let chained = candidates.contains_key(&inst.first) || products.contains(&inst.first);
        let offset = match inst.op {
            Op::PointerOffset { offset, .. } => Some(offset),
            _ => None,
        };
        let mut pointer_uses = 0;
        inst.op.for_each_operand(|operand| {
            if inst.count == 1 && chained {
                feeds.entry(operand).or_default().push(inst.first);
            } else if offset == Some(operand) && pointer_uses == 0 {
                pointer_uses += 1;
            } else {
                elsewhere.insert(operand);
            }
        });
    });
    // Whatever feeds something that is used elsewhere is used elsewhere.
    let all: Vec<ValueId> = candidates.keys().copied().chain(products.iter().copied()).collect();
    loop {
        let before = elsewhere.len();
        for &value in &all {
            let taints = feeds
                .get(&value)
                .is_some_and(|uses| uses.iter().any(|used| elsewhere.contains(used)));
            if taints {
                elsewhere.insert(value);
            }
        }
        if elsewhere.len() == before {
            break;
        }
    }
    candidates
        .into_keys()
        .filter(|value| !elsewhere.contains(value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(body: &str) -> Kernel {
        let text = format!(
            "kernel \"k\" {{\n  argument arg0 \"x\" buffer 0 device \"float\" size 4 align 4 element 4 access write\n  file 1 \"k\"\n  \
             loc !1 1 1 1\n  body {{\n{body}  }}\n}}\n"
        );
        anymetal_ir::parse(&text).expect("the test's kernel")
    }

    #[test]
    fn only_offsets_are_freed() {
        let start = "    %0: ptr<device> = argument arg0 !1\n    %1: u32 = builtin thread_position_in_grid.x !1\n    \
                     %2: i64 = convert %1 to i64 !1\n    %3: i64 = const i64 140737488355328 !1\n    \
                     %4: i64 = const i64 -140737488355328 !1\n    %5: i64 = const i64 4 !1\n    %6: i64 = min %2, %3 !1\n    \
                     %7: i64 = max %6, %4 !1\n    %8: i64 = mul %7, %5 !1\n    %9: ptr<device> = offset %0, %8 !1\n";
        let free = index_clamps(&kernel(&format!("{start}    store %9, [%1] align 4 !1\n")));
        assert_eq!(free, HashSet::from([ValueId(6), ValueId(7)]));
        let kept = index_clamps(&kernel(&format!("{start}    store %9, [%8] align 8 !1\n")));
        assert_eq!(kept, HashSet::new());
    }
}
