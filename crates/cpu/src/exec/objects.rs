//! What pointers point into.
//!
//! A pointer is 64 bits: the number of an object in the upper 16, a signed byte offset in the lower 48. Object 0 is what null
//! points to. Then come the kernel's arguments, its memory objects, and the planes of bound tensors.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::AtomicBool;

use anymetal_ir::{AddressSpace, Kernel};

use crate::fault::{AccessKind, FaultKind};
use crate::launch::{DispatchOptions, TensorBinding, TensorTable};

/// A run of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object {
    pub ptr: *mut u8,
    pub length: u64,
    pub writable: bool,
    /// Zero for bytes that all lanes share. Otherwise each lane has `length` bytes of its own, cut into units of this many
    /// bytes; unit `u` of lane `l` lies at `(u · lanes + l) · unit`.
    pub lane_unit: u32,
    /// Counted as threadgroup memory.
    pub threadgroup: bool,
    /// Large, and not read by the kernel: stores go past the caches.
    pub streams: bool,
}

// SAFETY: an object is an address with a length; who dereferences it answers for that.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    pub const NULL: Object = Object {
        ptr: std::ptr::null_mut(),
        length: 0,
        writable: false,
        lane_unit: 0,
        threadgroup: false,
        streams: false,
    };
}

/// How an object is called in messages.
#[derive(Clone, Debug)]
pub(crate) struct ObjectName {
    pub name: String,
    pub space: AddressSpace,
    pub element_size: u32,
}

/// A tensor that a handle leads to.
#[derive(Clone, Debug)]
pub(crate) struct KnownTensor {
    pub binding: TensorBinding,
    /// Pointer to element (0, …, 0).
    pub pointer: u64,
    /// Pointer to the first scale; null without scales.
    pub scales: u64,
}

/// Tensors and their objects; grows when a kernel takes a handle from memory.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub objects: Vec<(Object, ObjectName)>,
    pub tensors: Vec<KnownTensor>,
    pub by_handle: HashMap<u64, usize>,
}

/// What all workers of a dispatch share.
pub(crate) struct Shared<'d> {
    pub kernel: &'d Kernel,
    pub options: &'d DispatchOptions,
    /// Objects that are not a worker's own, by number; the entries of those that are have no address.
    pub objects: Vec<(Object, ObjectName)>,
    /// Number of the first object in the registry.
    pub first_registered: usize,
    pub registry: RwLock<Registry>,
    pub table: &'d dyn TensorTable,
    /// A worker met a fault: the others stop at the next loop iteration.
    pub stopped: AtomicBool,
    pub panels: super::panels::PanelCache,
    /// Memories that the dispatch has locked, by number, and whether for writing.
    pub locked: Vec<(u64, bool)>,
    /// Two arguments share memory that is written: no operand may be kept.
    pub aliased: bool,
    pub plan: super::StripPlan,
    pub isa: crate::lanes::Isa,
    pub tile_path: crate::tile::TilePath,
    pub coops: &'d [super::coop::CoopInfo],
    /// For kernels that are compiled for the sanitizer.
    pub sanitize: Option<&'d crate::sanitize::SanitizeOptions>,
}

impl Shared<'_> {
    pub fn name(&self, object: usize) -> ObjectName {
        if let Some((_, name)) = self.objects.get(object) {
            return name.clone();
        }
        let registry = self.registry.read().unwrap_or_else(|e| e.into_inner());
        registry
            .objects
            .get(object.wrapping_sub(self.first_registered))
            .map_or_else(
                || ObjectName {
                    name: "unknown".to_string(),
                    space: AddressSpace::Device,
                    element_size: 1,
                },
                |(_, name)| name.clone(),
            )
    }

    /// Takes in a tensor from the table; false if its memory is none that the dispatch has locked.
    pub fn register(&self, binding: TensorBinding) -> bool {
        let locked = |memory: &crate::HostMemory| {
            self.locked
                .iter()
                .find(|(id, _)| *id == memory.id())
                .map(|&(_, writes)| writes)
        };
        let Some(writes) = locked(&binding.memory) else {
            return false;
        };
        if let Some(plane) = &binding.scales
            && locked(&plane.memory).is_none()
        {
            return false;
        }
        let mut registry = self.registry.write().unwrap_or_else(|e| e.into_inner());
        if !registry.by_handle.contains_key(&binding.handle) {
            registry.add(self.first_registered, binding, writes);
        }
        true
    }
}

/// Lowest and highest element that strides reach, and whether there is one at all.
fn reach(extents: &[u64], strides: &[i64]) -> Option<(i64, i64)> {
    let (mut low, mut high) = (0i64, 0i64);
    for (&extent, &stride) in extents.iter().zip(strides) {
        if extent == 0 {
            return None;
        }
        let most = stride.saturating_mul(extent as i64 - 1);
        if most < 0 {
            low = low.saturating_add(most);
        } else {
            high = high.saturating_add(most);
        }
    }
    Some((low, high))
}

impl Registry {
    /// An object over a plane, and the pointer to its first element. The object ends where the memory does, whatever the
    /// strides say.
    fn plane(
        &mut self,
        first_registered: usize,
        memory: &crate::HostMemory,
        offset: usize,
        bits: usize,
        (extents, strides): (&[u64], &[i64]),
        name: ObjectName,
        writable: bool,
    ) -> u64 {
        let (low, high) = reach(extents, strides).unwrap_or((0, -1));
        let byte = |elements: i64| -> i64 {
            (i128::from(elements) * bits as i128)
                .div_euclid(8)
                .clamp(-(1 << 46), 1 << 46) as i64
        };
        let start = (offset as i64 + byte(low)).clamp(0, memory.len() as i64);
        let end = if high < low {
            start
        } else {
            let last = i128::from(high) * bits as i128 + bits as i128;
            let end = offset as i128 + (last + 7).div_euclid(8);
            end.clamp(i128::from(start), memory.len() as i128) as i64
        };
        let object = Object {
            // SAFETY: start is inside the memory or at its end.
            ptr: unsafe { memory.as_ptr().add(start as usize) },
            length: (end - start) as u64,
            writable: writable && memory.is_writable(),
            ..Object::NULL
        };
        self.objects.push((object, name));
        let number = (first_registered + self.objects.len() - 1) as u64;
        (number << 48) | ((offset as i64 - start) as u64 & ((1 << 48) - 1))
    }

    /// Takes a tensor in.
    pub fn add(&mut self, first_registered: usize, binding: TensorBinding, writable: bool) {
        let name = |suffix: &str, bits: usize| ObjectName {
            name: format!("{}{suffix}", binding.name),
            space: AddressSpace::Device,
            element_size: (bits / 8).max(1) as u32,
        };
        let bits = binding.format.bits();
        let pointer = self.plane(
            first_registered,
            &binding.memory,
            binding.offset,
            bits,
            (&binding.extents, &binding.strides),
            name("", bits),
            writable,
        );
        let scales = match &binding.scales {
            Some(plane) => {
                let extents: Vec<u64> = binding
                    .extents
                    .iter()
                    .zip(&plane.block)
                    .map(|(&extent, &block)| extent.div_ceil(u64::from(block.max(1))))
                    .collect();
                self.plane(
                    first_registered,
                    &plane.memory,
                    plane.offset,
                    plane.format.bits(),
                    (&extents, &plane.strides),
                    name(" (scales)", plane.format.bits()),
                    false,
                )
            }
            None => 0,
        };
        let index = self.tensors.len();
        self.by_handle.insert(binding.handle, index);
        self.tensors.push(KnownTensor {
            binding,
            pointer,
            scales,
        });
    }
}

/// Object number and byte offset of a pointer.
#[inline(always)]
pub(super) fn split(pointer: u64) -> (usize, i64) {
    ((pointer >> 48) as usize, ((pointer << 16) as i64) >> 16)
}

impl super::Worker<'_> {
    /// The object that a pointer leads to.
    #[inline(always)]
    pub(super) fn object(&mut self, number: usize) -> Option<Object> {
        match self.objects.get(number) {
            Some(&object) if number != 0 => Some(object),
            _ => self.object_slow(number),
        }
    }

    /// Tensors that other workers have found since.
    #[cold]
    fn object_slow(&mut self, number: usize) -> Option<Object> {
        if number == 0 {
            return None;
        }
        let registry = self.shared.registry.read().unwrap_or_else(|e| e.into_inner());
        let known = self.objects.len() - self.shared.first_registered;
        let more = registry.objects.get(known..).unwrap_or(&[]);
        self.objects.extend(more.iter().map(|(object, _)| *object));
        self.objects.get(number).copied()
    }

    /// Why an access is refused.
    #[cold]
    pub(super) fn refusal(&mut self, pointer: u64, bytes: u64, access: AccessKind) -> FaultKind {
        let (number, offset) = split(pointer);
        let Some(object) = self.object(number) else {
            return FaultKind::NullPointer { access };
        };
        let name = self.shared.name(number);
        let inside = offset >= 0 && offset as u64 + bytes <= object.length;
        if access != AccessKind::Read && !object.writable && inside {
            return FaultKind::ReadOnly { object: name.name };
        }
        FaultKind::OutOfBounds {
            access,
            object: name.name,
            space: name.space,
            offset,
            bytes,
            element_size: name.element_size,
            length: object.length,
        }
    }

    /// The host address of `bytes` shared bytes, or `None` if the access is not allowed.
    #[inline(always)]
    pub(super) fn address(&mut self, pointer: u64, bytes: u64, write: bool) -> Option<*mut u8> {
        let (number, offset) = split(pointer);
        let object = self.object(number)?;
        if offset < 0
            || object.lane_unit != 0
            || (offset as u64).checked_add(bytes).is_none_or(|end| end > object.length)
            || (write && !object.writable)
        {
            return None;
        }
        // SAFETY: the offset is inside the object.
        Some(unsafe { object.ptr.add(offset as usize) })
    }
}
