//! Sizes of threadgroups as numbers, where all threadgroups of a launch have one size.

use anymetal_ir::passes::{control, dce, forward};
use anymetal_ir::{Builtin, Const, Kernel, Op, Scalar};

/// What a builtin is for threadgroups of a size.
fn number(builtin: Builtin, size: [u32; 3]) -> Option<u32> {
    let threads: u32 = size.iter().product();
    Some(match builtin {
        Builtin::ThreadsPerThreadgroup(d) | Builtin::DispatchThreadsPerThreadgroup(d) => *size.get(d as usize)?,
        Builtin::SimdgroupsPerThreadgroup | Builtin::DispatchSimdgroupsPerThreadgroup => threads.div_ceil(32),
        Builtin::QuadgroupsPerThreadgroup => threads.div_ceil(4),
        _ => return None,
    })
}

/// True if the kernel's code depends on the size of a threadgroup: it asks for it or for a thread's position in it, or reduces over
/// SIMD-groups.
pub(crate) fn asks_for_sizes(kernel: &Kernel) -> bool {
    let mut asks = false;
    kernel.body.for_each_inst(&mut |inst| {
        asks |= match inst.op {
            Op::Builtin(Builtin::ThreadPositionInThreadgroup(_)) => true,
            Op::Builtin(builtin) => number(builtin, [1; 3]).is_some(),
            Op::Group { .. } | Op::Shuffle { .. } => true,
            _ => false,
        };
    });
    asks
}

/// Puts the numbers in, and folds what follows from them.
pub(super) fn run(kernel: &mut Kernel, size: [u32; 3]) {
    let mut changed = false;
    kernel.body.for_each_inst_mut(&mut |inst| {
        if let Op::Builtin(builtin) = inst.op
            && let Some(number) = number(builtin, size)
        {
            inst.op = Op::Const(Const {
                ty: Scalar::U32,
                bits: u64::from(number),
            });
            changed = true;
        }
    });
    if changed {
        control::simplify(kernel);
        forward::run(kernel);
        dce::run(kernel);
    }
}
