//! From a fault record to words.

use anymetal_ir::fault::{AccessKind, Fault, FaultKind, ThreadPosition};
use anymetal_ir::{AddressSpace, ArgumentKind, Extent, Kernel, LocationId, Op, Operand, TensorRef};

use crate::abi::{FaultCode, FaultRecord};
use crate::driver::parameters::{BoundTensor, Launch};

/// Set in [`FaultRecord::OBJECT`] for memory objects.
const MEMORY_OBJECT: u32 = 0x8000_0000;

/// The record's words.
struct Record<'a>(&'a [u8]);

impl Record<'_> {
    fn u32(&self, at: u32) -> u32 {
        let at = at as usize;
        let bytes = self.0.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    fn i64(&self, at: u32) -> i64 {
        let low = u64::from(self.u32(at));
        (low | u64::from(self.u32(at + 4)) << 32) as i64
    }

    fn words(&self, at: u32, count: u32) -> Vec<i64> {
        (0..count.min(4)).map(|i| self.i64(at + 8 * i)).collect()
    }
}

/// What a fault is about.
struct Object {
    name: String,
    space: AddressSpace,
    element_size: u32,
}

/// The fault in a record, if one was recorded.
pub(super) fn read(kernel: &Kernel, record: &[u8], launch: &Launch, handles: &[BoundTensor]) -> Option<Box<Fault>> {
    let record = Record(record);
    if record.u32(FaultRecord::STATE) == 0 {
        return None;
    }
    let location = LocationId(record.u32(FaultRecord::LOCATION));
    Some(Box::new(Fault {
        kernel: kernel.name.clone(),
        locations: kernel.locations.chain(location),
        kind: kind(kernel, &record, location, handles),
        thread: thread(&record, launch),
    }))
}

fn kind(kernel: &Kernel, record: &Record, location: LocationId, handles: &[BoundTensor]) -> FaultKind {
    let code = record.u32(FaultRecord::CODE);
    let object = object(kernel, record.u32(FaultRecord::OBJECT));
    let offset = record.i64(FaultRecord::OFFSET);
    let is = |wanted: FaultCode| code == wanted as u32;
    let access = if is(FaultCode::WriteOutside) || (!is(FaultCode::ReadOutside) && writes(kernel, location)) {
        AccessKind::Write
    } else if is(FaultCode::AtomicOutside) {
        AccessKind::Atomic
    } else {
        AccessKind::Read
    };
    let name = |object: Option<Object>| object.map_or_else(|| "tensor".to_string(), |object| object.name);
    if is(FaultCode::ReadOutside) || is(FaultCode::WriteOutside) || is(FaultCode::AtomicOutside) {
        return match object {
            None => FaultKind::NullPointer { access },
            Some(object) => FaultKind::OutOfBounds {
                access,
                object: object.name,
                space: object.space,
                offset,
                bytes: record.u32(FaultRecord::SIZE).into(),
                element_size: object.element_size,
                length: record.i64(FaultRecord::BYTES) as u64,
            },
        };
    }
    let rank = record.u32(FaultRecord::RANK);
    if is(FaultCode::Misaligned) {
        return FaultKind::Misaligned {
            access,
            object: object.map_or_else(|| "memory".to_string(), |object| object.name),
            offset,
            align: record.u32(FaultRecord::SIZE),
        };
    }
    if is(FaultCode::SubscriptOutside) {
        return FaultKind::TensorIndex {
            access,
            tensor: name(object),
            coordinates: record.words(FaultRecord::COORDINATES, rank),
            extents: record.words(FaultRecord::EXTENTS, rank),
        };
    }
    if is(FaultCode::TileOutside) {
        let origin = record.words(FaultRecord::COORDINATES, rank);
        let extents = record.words(FaultRecord::EXTENTS, rank);
        if let Some((dimension, extent)) = overhang(kernel, location, &origin, &extents) {
            return FaultKind::StaticOverhang {
                tensor: name(object),
                dimension,
                origin: origin[dimension as usize],
                extent,
                tensor_extents: extents,
            };
        }
        let reason = format!(
            "a tile from {} reaches past the memory of tensor '{}' with extents {} (innermost first)",
            list(&origin),
            name(object),
            list(&extents)
        );
        return FaultKind::TileOperation { reason };
    }
    if is(FaultCode::NullHandle) {
        return FaultKind::NullPointer { access };
    }
    if is(FaultCode::UnknownHandle) {
        return FaultKind::UnknownTensor { handle: offset as u64 };
    }
    if is(FaultCode::Divergent) {
        let here = record.u32(FaultRecord::SIZE);
        if at(kernel, location, |op| matches!(op, Op::SimdgroupMatrixMultiply { .. })) {
            let reason = format!(
                "a product of simdgroup matrices needs all 32 threads of its SIMD-group, only {here} are here: it must be in \
                 control flow that is uniform over the SIMD-group, in a threadgroup of whole SIMD-groups"
            );
            return FaultKind::TileOperation { reason };
        }
        return FaultKind::DivergentBarrier {
            arrived: record.u32(FaultRecord::SIZE),
            expected: record.i64(FaultRecord::BYTES) as u32,
        };
    }
    let reason = if is(FaultCode::PartialSimdgroup) {
        format!(
            "a product of simdgroup matrices needs all 32 threads of its SIMD-group, only {offset} are here: it must be in control \
             flow that is uniform over the SIMD-group, in a threadgroup of whole SIMD-groups"
        )
    } else if is(FaultCode::HandleMismatch) {
        let known = handles.iter().find(|tensor| tensor.handle == offset as u64);
        format!(
            "the tensor behind a handle ('{}') does not fit the type that the kernel declares for it",
            known.map_or("unknown", |tensor| &tensor.name)
        )
    } else {
        format!("the kernel reported a fault with the unknown code {code}")
    };
    FaultKind::TileOperation { reason }
}

/// The argument or memory object that a record names.
fn object(kernel: &Kernel, number: u32) -> Option<Object> {
    if number & MEMORY_OBJECT != 0 {
        let object = kernel.memory.get((number & !MEMORY_OBJECT) as usize)?;
        return Some(Object {
            name: object.name.clone(),
            space: object.space,
            element_size: object.element_size,
        });
    }
    let argument = kernel.arguments.get(number.checked_sub(1)? as usize)?;
    let (space, element_size) = match &argument.kind {
        ArgumentKind::Buffer {
            space, element_size, ..
        } => (*space, *element_size),
        ArgumentKind::Tensor(spec) => (spec.space, spec.format.bytes_for(1) as u32),
        ArgumentKind::Threadgroup { .. } => (AddressSpace::Threadgroup, 1),
    };
    Some(Object {
        name: argument.name.clone(),
        space,
        element_size,
    })
}

/// The dimension and the static extent of a tile at a location that does not fit its tensor.
fn overhang(kernel: &Kernel, location: LocationId, origin: &[i64], extents: &[i64]) -> Option<(u32, i64)> {
    let mut found = None;
    let mut look = |tensor: &TensorRef| {
        if found.is_some() || tensor.extents.len() != origin.len() {
            return;
        }
        let dimensions = tensor.extents.iter().zip(origin).zip(extents);
        for (d, ((extent, &origin), &all)) in dimensions.enumerate() {
            if let Extent::Static(extent) = *extent
                && (origin < 0 || extent as i64 > all.saturating_sub(origin))
            {
                found = found.or(Some((d as u32, extent as i64)));
            }
        }
    };
    kernel.body.for_each_inst(&mut |inst| {
        if inst.location != location {
            return;
        }
        match &inst.op {
            Op::CoopLoad { tensor, .. } | Op::CoopStore { tensor, .. } => look(tensor),
            Op::Matmul {
                left,
                right,
                destination,
                ..
            } => {
                for operand in [left, right, destination] {
                    if let Operand::Tensor(tensor) = operand {
                        look(tensor);
                    }
                }
            }
            Op::Convolution {
                activation,
                weights,
                destination,
                ..
            } => {
                look(activation);
                look(weights);
                if let Operand::Tensor(tensor) = destination {
                    look(tensor);
                }
            }
            _ => {}
        }
    });
    found
}

/// True if an instruction at a location is one of those.
fn at(kernel: &Kernel, location: LocationId, wanted: impl Fn(&Op) -> bool) -> bool {
    let mut found = false;
    kernel
        .body
        .for_each_inst(&mut |inst| found |= inst.location == location && wanted(&inst.op));
    found
}

/// True if the instruction at a location stores.
fn writes(kernel: &Kernel, location: LocationId) -> bool {
    at(kernel, location, |op| {
        matches!(op, Op::Store { .. } | Op::TensorStore { .. } | Op::CoopStore { .. })
    })
}

fn thread(record: &Record, launch: &Launch) -> ThreadPosition {
    let threadgroup: [u32; 3] = std::array::from_fn(|d| record.u32(FaultRecord::GROUP + 4 * d as u32));
    let index = record.u32(FaultRecord::THREAD);
    // Threadgroups at the edges are smaller.
    let start = |d: usize| threadgroup[d].wrapping_mul(launch.threadgroup[d]);
    let size = |d: usize| {
        let left = launch.threads[d].saturating_sub(start(d));
        launch.threadgroup[d].min(left).max(1)
    };
    let inside = [index % size(0), index / size(0) % size(1), index / size(0) / size(1)];
    ThreadPosition {
        grid: std::array::from_fn(|d| start(d).wrapping_add(inside[d])),
        threadgroup,
        index,
    }
}

fn list(values: &[i64]) -> String {
    let words: Vec<String> = values.iter().map(i64::to_string).collect();
    format!("({})", words.join(", "))
}

#[cfg(test)]
mod tests {
    use anymetal_ir::{Access, Argument, Location, MemoryObject};

    use super::*;

    fn kernel() -> Kernel {
        let mut kernel = Kernel {
            name: "copy".into(),
            arguments: vec![Argument {
                name: "to".into(),
                index: 0,
                kind: ArgumentKind::Buffer {
                    space: AddressSpace::Device,
                    type_name: "float".into(),
                    size: 4,
                    align: 4,
                    element_size: 4,
                    reference: false,
                },
                access: Access::WriteOnly,
            }],
            memory: vec![MemoryObject {
                name: "shared".into(),
                space: AddressSpace::Threadgroup,
                size: 64,
                align: 4,
                element_size: 4,
                data: Vec::new(),
            }],
            ..Kernel::default()
        };
        kernel.locations.files.push("copy.metal".into());
        kernel.locations.add(Location {
            file: 1,
            line: 7,
            column: 3,
            inlined_at: None,
        });
        kernel
    }

    const LAUNCH: Launch = Launch {
        threads: [100, 3, 1],
        threadgroup: [64, 2, 1],
    };

    fn record(fields: &[(u32, u64, usize)]) -> Vec<u8> {
        let mut bytes = vec![0; FaultRecord::LENGTH as usize];
        for &(at, value, width) in fields {
            bytes[at as usize..at as usize + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        bytes
    }

    #[test]
    fn nothing_recorded_is_no_fault() {
        assert_eq!(read(&kernel(), &record(&[]), &LAUNCH, &[]), None);
    }

    /// Word for word what the CPU says of the same fault.
    #[test]
    fn an_access_outside_a_buffer() {
        let bytes = record(&[
            (FaultRecord::STATE, 1, 4),
            (FaultRecord::CODE, FaultCode::WriteOutside as u64, 4),
            (FaultRecord::LOCATION, 1, 4),
            (FaultRecord::OBJECT, 1, 4),
            (FaultRecord::OFFSET, 400, 8),
            (FaultRecord::BYTES, 400, 8),
            (FaultRecord::SIZE, 4, 4),
            // The threadgroup at the edge has 36 x 1 threads.
            (FaultRecord::THREAD, 5, 4),
            (FaultRecord::GROUP, 1, 4),
            (FaultRecord::GROUP + 4, 1, 4),
        ]);
        let fault = read(&kernel(), &bytes, &LAUNCH, &[]).unwrap();
        assert_eq!(
            fault.to_string(),
            "out-of-bounds write of 4 bytes at byte offset 400 of device 'to', which has 400 bytes (index 100 of 100 elements)\n  \
             --> copy.metal:7:3 in kernel 'copy'\n  thread (69, 2, 0) of the grid, index 5 in threadgroup (1, 1, 0)"
        );
    }

    #[test]
    fn other_kinds() {
        let with = |code: FaultCode, more: &[(u32, u64, usize)]| {
            let mut fields = vec![(FaultRecord::STATE, 1, 4), (FaultRecord::CODE, code as u64, 4)];
            fields.extend_from_slice(more);
            read(&kernel(), &record(&fields), &LAUNCH, &[])
                .unwrap()
                .kind
                .to_string()
        };
        let shared = (FaultRecord::OBJECT, 0x8000_0000, 4);
        let offset = (FaultRecord::OFFSET, (-4i64) as u64, 8);
        assert_eq!(
            with(
                FaultCode::AtomicOutside,
                &[shared, offset, (FaultRecord::SIZE, 4, 4), (FaultRecord::BYTES, 64, 8)]
            ),
            "out-of-bounds atomic operation of 4 bytes at byte offset -4 of threadgroup 'shared', which has 64 bytes (index -1 of 16 \
             elements)"
        );
        assert_eq!(with(FaultCode::ReadOutside, &[]), "read through a null pointer");
        let subscript = [
            (FaultRecord::OBJECT, 1, 4),
            (FaultRecord::RANK, 2, 4),
            (FaultRecord::COORDINATES, 9, 8),
            (FaultRecord::COORDINATES + 8, 1, 8),
            (FaultRecord::EXTENTS, 8, 8),
            (FaultRecord::EXTENTS + 8, 2, 8),
        ];
        assert_eq!(
            with(FaultCode::SubscriptOutside, &subscript),
            "out-of-bounds read of tensor 'to' at [9, 1] with extents (8, 2) (innermost first); in framework order index (1, 9) of shape \
             (2, 8)"
        );
        assert_eq!(
            with(FaultCode::UnknownHandle, &[(FaultRecord::OFFSET, 0x10, 8)]),
            "tensor handle 0x10 names no tensor of this dispatch"
        );
        assert!(with(FaultCode::HandleMismatch, &[]).contains("does not fit"));
    }
}
