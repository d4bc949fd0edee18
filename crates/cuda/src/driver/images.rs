//! Memory that a launch lends its kernel for widened copies of arguments ([`ImageRequest`](crate::ImageRequest)).

use std::sync::Arc;

use super::context::Context;
use super::error::DriverError;
use super::memory::DeviceMemory;
use super::module::Stream;
use super::parameters::BoundArgument;
use crate::options::ImageRequest;

/// Blocks from which on the copies are worth their making.
const BLOCKS: u64 = 8;
/// Bytes that a launch lends at most.
const MOST: u64 = 8 << 30;
/// Alignment of each copy.
const ALIGN: u64 = 256;

/// What was lent.
pub(super) struct Images {
    /// Flags of all copies, then the copies.
    memory: DeviceMemory,
    flag_bytes: u64,
    /// For each request: address of the copy, address of its flags.
    pub places: Vec<Place>,
}

/// Where a copy and its flags are: addresses, or offsets in the memory.
type Place = (u64, u64);

/// Places for arguments of so many bytes, bytes of all flags, and bytes in all; `None` if that is too much.
fn layout(requests: &[ImageRequest], bytes: &[u64]) -> Option<(Vec<Place>, u64, u64)> {
    let mut at = 0u64;
    let mut flags = Vec::with_capacity(requests.len());
    for (request, &bytes) in requests.iter().zip(bytes) {
        flags.push(at);
        at = at.checked_add(request.flag_bytes(bytes))?;
    }
    let flag_bytes = at;
    let mut places = Vec::with_capacity(requests.len());
    for ((request, &bytes), flags) in requests.iter().zip(bytes).zip(flags) {
        at = at.checked_next_multiple_of(ALIGN)?;
        places.push((at, flags));
        at = at.checked_add(request.image_bytes(bytes))?;
    }
    (at <= MOST).then_some((places, flag_bytes, at))
}

impl Images {
    /// Lends memory if threadgroups share operands, and there is enough of it.
    pub fn lend(
        context: &Arc<Context>,
        requests: &[ImageRequest],
        bound: &[BoundArgument],
        grid: [u32; 3],
    ) -> Option<Images> {
        if requests.is_empty() || grid[0] < 2 || grid[1] < 2 || u64::from(grid[0]) * u64::from(grid[1]) < BLOCKS {
            return None;
        }
        let bytes = requests
            .iter()
            .map(|request| match bound.get(request.argument.index()) {
                Some(BoundArgument::Buffer { bytes, .. }) => Some(*bytes),
                Some(BoundArgument::Value { value, .. }) => Some(value.len() as u64),
                Some(BoundArgument::Tensor(tensor)) => Some(tensor.bytes),
                _ => None,
            });
        let bytes = bytes.collect::<Option<Vec<u64>>>()?;
        let (offsets, flag_bytes, total) = layout(requests, &bytes)?;
        // Without memory to spare the kernel does without.
        let memory = context.allocate(usize::try_from(total).ok()?).ok()?;
        let base = memory.address();
        let places = offsets
            .iter()
            .map(|(image, flags)| (base + image, base + flags))
            .collect();
        Some(Images {
            memory,
            flag_bytes,
            places,
        })
    }

    /// Clears the flags, in the order of a stream.
    pub fn clear(&self, stream: Stream) -> Result<(), DriverError> {
        let context = self.memory.context();
        context.enter()?;
        // SAFETY: the flags lie inside the allocation.
        let code =
            unsafe { (context.functions().set_bytes)(self.memory.address(), 0, self.flag_bytes as usize, stream.0) };
        context.check("cuMemsetD8Async", code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anymetal_ir::ArgumentId;

    #[test]
    fn copies_and_flags_do_not_overlap() {
        let request = |argument, growth| ImageRequest {
            argument: ArgumentId(argument),
            growth,
            levels: false,
        };
        let (places, flags, total) = layout(&[request(0, 2), request(1, 2)], &[1000, 4096]).unwrap();
        // 2 and 8 pieces of 4 rows of 128 bytes, one more for a part of a piece, and two counters.
        assert_eq!(flags, 4 * (5 + 11));
        assert_eq!(places, [(256, 0), (2304, 20)]);
        assert_eq!(total, 2304 + 8192);
        let levels = ImageRequest {
            levels: true,
            ..request(0, 4)
        };
        assert_eq!(levels.image_bytes(1000), 4000 + 4 * 7 + 16);
    }

    #[test]
    fn too_much_is_not_lent() {
        let request = ImageRequest {
            argument: ArgumentId(0),
            growth: 2,
            levels: false,
        };
        assert_eq!(layout(&[request], &[MOST / 2]), None);
        assert_eq!(layout(&[request], &[u64::MAX]), None);
    }
}
