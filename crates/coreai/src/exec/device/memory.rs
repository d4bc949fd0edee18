//! Which buffer each memory of a plan lies in: values that are not needed at the same time share one.

use super::{DevicePlan, Source};

/// The buffers of a plan: the size of each, and the buffer of each memory.
pub(super) struct Assignment {
    pub sizes: Vec<usize>,
    pub buffer: Vec<usize>,
}

/// A buffer that is more than this many times too large is not taken.
const MAX_WASTE: usize = 4;

/// Gives each memory a buffer. Inputs and results have their own: the host writes or reads them as a whole, and inputs stay as
/// they are while a call is repeated.
pub(super) fn assign(plan: &DevicePlan) -> Assignment {
    let count = plan.memories.len();
    let mut last = vec![0usize; count];
    for (i, action) in plan.actions.iter().enumerate() {
        let (reads, writes) = action.touches();
        for id in reads.into_iter().chain(writes) {
            last[id as usize] = i;
        }
    }
    let kept = plan.outputs.iter().filter_map(|(source, ..)| match source {
        Source::Memory(id, _) => Some(*id),
        Source::Constant(_) => None,
    });
    let own: Vec<u32> = kept.chain(plan.inputs.iter().copied()).collect();
    for &id in &own {
        last[id as usize] = usize::MAX;
    }
    let mut out = Assignment {
        sizes: Vec::new(),
        buffer: vec![usize::MAX; count],
    };
    for id in own {
        if out.buffer[id as usize] == usize::MAX {
            out.buffer[id as usize] = out.sizes.len();
            out.sizes.push(plan.memories[id as usize]);
        }
    }
    let mut free: Vec<usize> = Vec::new();
    for (i, action) in plan.actions.iter().enumerate() {
        let (reads, writes) = action.touches();
        for &id in &writes {
            if out.buffer[id as usize] != usize::MAX {
                continue;
            }
            let size = plan.memories[id as usize];
            // The smallest that is large enough; else a new one.
            let best = free
                .iter()
                .enumerate()
                .filter(|(_, b)| out.sizes[**b] >= size && out.sizes[**b] <= size.saturating_mul(MAX_WASTE).max(4096))
                .min_by_key(|(_, b)| out.sizes[**b])
                .map(|(at, _)| at);
            out.buffer[id as usize] = match best {
                Some(at) => free.swap_remove(at),
                None => {
                    out.sizes.push(size);
                    out.sizes.len() - 1
                }
            };
        }
        let mut ended: Vec<u32> = reads.into_iter().chain(writes).collect();
        ended.sort_unstable();
        ended.dedup();
        for id in ended {
            if last[id as usize] == i {
                free.push(out.buffer[id as usize]);
            }
        }
    }
    out
}
