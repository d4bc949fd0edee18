//! What a kernel may ask of this executor at most. A kernel may be someone else's code: what it declares must not make the
//! process run out of memory.

use anymetal_ir::{AddressSpace, Kernel, LocationId, Op};

use crate::fault::CompileError;

/// Bytes of thread arrays of one thread.
pub(crate) const THREAD_BYTES: u64 = 256 << 10;
/// Elements of one cooperative tensor, and of the destination of one product.
pub(crate) const TILE_ELEMENTS: u64 = 1 << 22;
/// Bytes of all cooperative tensors of one SIMD-group.
pub(crate) const TILE_BYTES: u64 = 16 << 20;
/// Elements of an operand of one product.
pub(crate) const OPERAND_ELEMENTS: u64 = 1 << 30;

/// Products in each sum of a convolution.
pub(crate) const CONVOLUTION_DEPTH: u64 = 1 << 24;

/// Refuses kernels that are past the limits, or use what this executor does not run.
pub(crate) fn check(kernel: &Kernel) -> Result<(), CompileError> {
    let refuse = |what: String, location: LocationId| CompileError::Unsupported {
        what,
        location: kernel.locations.describe(location),
    };
    let thread = kernel
        .memory
        .iter()
        .filter(|object| object.space == AddressSpace::Thread)
        .fold(0u64, |sum, object| sum.saturating_add(object.size));
    if thread > THREAD_BYTES {
        let what = format!("{thread} bytes of arrays in each thread (at most {THREAD_BYTES})");
        return Err(refuse(what, LocationId::default()));
    }
    let mut tiles = 0u64;
    for coop in &kernel.cooperatives {
        let elements = u64::from(coop.rows).saturating_mul(u64::from(coop.columns));
        if elements > TILE_ELEMENTS {
            let what = format!(
                "a cooperative tensor of {} × {} elements (at most {TILE_ELEMENTS} in all)",
                coop.rows, coop.columns
            );
            return Err(refuse(what, LocationId::default()));
        }
        tiles = tiles.saturating_add(elements * u64::from(coop.element.size()));
    }
    if tiles > TILE_BYTES {
        let what = format!("{tiles} bytes of cooperative tensors (at most {TILE_BYTES})");
        return Err(refuse(what, LocationId::default()));
    }
    let mut refused = None;
    kernel.body.for_each_inst(&mut |inst| {
        if let Op::Convolution { descriptor, .. } = &inst.op {
            let (places, depth, columns) = (
                descriptor.places(),
                descriptor.depth(),
                u64::from(descriptor.destination[0]),
            );
            if places.saturating_mul(columns) > TILE_ELEMENTS
                || depth > CONVOLUTION_DEPTH
                || depth.saturating_mul(columns) > OPERAND_ELEMENTS
            {
                let what = format!("a convolution of {places} × {columns} elements with {depth} products in each");
                refused.get_or_insert((what, inst.location));
            }
        }
        let Op::Matmul { descriptor, .. } = &inst.op else {
            return;
        };
        let (m, n) = (u64::from(descriptor.m), u64::from(descriptor.n));
        let k = u64::from(descriptor.k.unwrap_or(1));
        if m.saturating_mul(n) > TILE_ELEMENTS || m.max(n).saturating_mul(k) > OPERAND_ELEMENTS {
            let what = format!("a product of {m} × {n} elements over {k}");
            refused.get_or_insert((what, inst.location));
        }
    });
    match refused {
        Some((what, location)) => Err(refuse(what, location)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anymetal_ir::{Builder, MemoryObject};

    #[test]
    fn huge_thread_arrays_are_refused() {
        let mut b = Builder::new("huge");
        b.memory(MemoryObject {
            name: "a".into(),
            space: AddressSpace::Thread,
            size: u64::MAX,
            align: 4,
            element_size: 4,
            data: Vec::new(),
        });
        let error = check(&b.finish()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "<unknown>:0:0: 18446744073709551615 bytes of arrays in each thread (at most 262144) is not supported on the CPU"
        );
    }
}
