//! Views of tensors at run time, and loads and stores of whole tiles.

use std::sync::OnceLock;

use anymetal_formats::ElementFormat;
use anymetal_ir::{Scalar, tile_scalar};

use super::objects::split;
use super::{Outcome, Worker, raise, read, write};
use crate::compile::program::{View, ViewExtent};
use crate::fault::{AccessKind, FaultKind};
use crate::lanes::convert::offset_pointer;

/// A view of rank 1 or 2, as one lane sees it, with its valid region checked against its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub format: ElementFormat,
    /// Address of element (0, 0) of the *base*; only the valid region may be read.
    pub base: *mut u8,
    /// Pointer value of the same.
    pub pointer: u64,
    /// Origin of the view in the base, by dimension.
    pub origin: [i64; 2],
    /// The view's own extents.
    pub extents: [usize; 2],
    /// What is left of them inside the base.
    pub valid: [usize; 2],
    /// In elements.
    pub strides: [i64; 2],
    pub scales: Option<Scales>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Scales {
    pub base: *mut u8,
    pub block: [usize; 2],
    pub strides: [i64; 2],
}

/// What a tile holds for each code of a format type: the bits of a half, or an integer's low byte.
fn tile_values(format: ElementFormat) -> &'static [u16] {
    static TABLES: [OnceLock<Vec<u16>>; 8] = [const { OnceLock::new() }; 8];
    let at = match format {
        ElementFormat::Int4B => 0,
        ElementFormat::UInt4B => 1,
        ElementFormat::Int2B => 2,
        ElementFormat::UInt2B => 3,
        ElementFormat::Fp4E2M1 => 4,
        ElementFormat::Fp8E4M3 => 5,
        ElementFormat::Fp8E5M2 => 6,
        _ => 7,
    };
    TABLES[at].get_or_init(|| {
        let value = |code: u64| match tile_scalar(format) {
            Scalar::F16 => ElementFormat::F16.encode(format.decode(code)) as u16,
            Scalar::I8 => u16::from(format.decode(code) as i8 as u8),
            _ => u16::from(format.decode(code) as u8),
        };
        (0..1 << format.bits().min(8)).map(value).collect()
    })
}

impl Region {
    /// Element index of the view's element (x, y) in the base.
    pub fn index(&self, x: usize, y: usize) -> i64 {
        (self.origin[0] + x as i64) * self.strides[0] + (self.origin[1] + y as i64) * self.strides[1]
    }

    /// Bytes of the valid region.
    pub fn valid_bytes(&self) -> u64 {
        (self.valid[0] as u64)
            .saturating_mul(self.valid[1] as u64)
            .saturating_mul(self.format.bits() as u64)
            / 8
    }

    /// The part of the region that a tile of so many columns and rows covers.
    pub fn within(&self, columns: usize, rows: usize) -> Region {
        let [x, y] = self.valid;
        // The elements of a reduction tile run along the only dimension of its tensor.
        let valid = if columns == 1 || rows == 1 {
            [x.min(columns * rows), y.min(columns * rows)]
        } else {
            [x.min(columns), y.min(rows)]
        };
        Region { valid, ..*self }
    }

    /// The byte of a valid element of a format type, and the bit in it where the element's code starts.
    fn code_place(&self, x: usize, y: usize) -> (*mut u8, u32) {
        let at = self.index(x, y) * self.format.bits() as i64;
        (self.base.wrapping_offset((at >> 3) as isize), (at & 7) as u32)
    }

    /// A valid element of a format type as a tile holds it.
    ///
    /// # Safety
    /// The element must be in the valid part.
    unsafe fn unpacked(&self, x: usize, y: usize) -> u64 {
        let (place, shift) = self.code_place(x, y);
        // SAFETY: by the function's contract.
        let byte = unsafe { *place };
        let code = usize::from(byte >> shift) & ((1 << self.format.bits()) - 1);
        u64::from(tile_values(self.format)[code])
    }

    /// Writes a tile's element as a valid element of a format type.
    ///
    /// # Safety
    /// The element must be in the valid part, which no other lane writes.
    unsafe fn pack(&self, x: usize, y: usize, bits: u64) {
        let value = match tile_scalar(self.format) {
            Scalar::F16 => ElementFormat::F16.decode(bits),
            Scalar::I8 => f64::from(bits as u8 as i8),
            _ => f64::from(bits as u8),
        };
        let (place, shift) = self.code_place(x, y);
        let mask = (((1u32 << self.format.bits()) - 1) << shift) as u8;
        let code = ((self.format.encode(value) as u32) << shift) as u8;
        // SAFETY: by the function's contract.
        unsafe { *place = (*place & !mask) | (code & mask) };
    }

    /// Address of a valid element, for formats of whole bytes.
    pub fn address(&self, x: usize, y: usize) -> *mut u8 {
        let bytes = (self.format.bits() / 8) as i64;
        self.base.wrapping_offset((self.index(x, y) * bytes) as isize)
    }
}

/// The first byte of a span and the one after its last, counted from the pointer: for elements one by one whose places fit 64 bits.
#[inline(always)]
fn near_bytes<const D: usize>(
    bits: usize,
    origin: [i64; D],
    valid: [usize; D],
    strides: [i64; D],
    block: [usize; D],
) -> Option<(i64, i64)> {
    let (mut low, mut high) = (0i64, 0i64);
    for d in 0..D {
        if block[d] != 1 {
            return None;
        }
        let first = origin[d].checked_mul(strides[d])?;
        let last = origin[d].checked_add(valid[d] as i64 - 1)?.checked_mul(strides[d])?;
        low = low.checked_add(first.min(last))?;
        high = high.checked_add(first.max(last))?;
    }
    let bits = bits as i64;
    let end = high.checked_mul(bits)?.checked_add(bits + 7)?;
    Some((low.checked_mul(bits)?.div_euclid(8), end.div_euclid(8)))
}

/// The same for all spans.
#[inline(never)]
fn far_bytes<const D: usize>(
    bits: usize,
    origin: [i64; D],
    valid: [usize; D],
    strides: [i64; D],
    block: [usize; D],
) -> (i128, i128) {
    let (mut low, mut high) = (0i128, 0i128);
    for d in 0..D {
        let first = i128::from(origin[d] / block[d] as i64) * i128::from(strides[d]);
        let last = i128::from((origin[d] + valid[d] as i64 - 1) / block[d] as i64) * i128::from(strides[d]);
        low += first.min(last);
        high += first.max(last);
    }
    let bits = bits as i128;
    ((low * bits).div_euclid(8), (high * bits + bits + 7).div_euclid(8))
}

impl<'d> Worker<'d> {
    /// Looks at a view of rank 1 or 2 as a lane sees it: static extents that overhang are a fault, the valid region must be in memory.
    pub(super) fn region(&mut self, view: &View, lane: usize, access: AccessKind) -> Outcome<Region> {
        let rank = view.origin.len();
        if rank == 0 || rank > 2 {
            let reason = format!(
                "a tile operation on tensor '{}' of rank {rank}; it takes rank 1 or 2",
                view.name
            );
            return raise(FaultKind::TileOperation { reason }, lane);
        }
        let value = |worker: &Self, reg| worker.lane_value(reg, lane) as i64;
        let base_extents =
            |worker: &Self| -> Vec<i64> { view.base_extents.iter().map(|&reg| value(worker, reg)).collect() };
        let mut region = Region {
            format: view.format,
            base: std::ptr::null_mut(),
            pointer: self.lane_value(view.pointer, lane),
            origin: [0; 2],
            extents: [1; 2],
            valid: [1; 2],
            strides: [0; 2],
            scales: None,
        };
        for d in 0..rank {
            let origin = value(self, view.origin[d]);
            let rest = value(self, view.base_extents[d]).saturating_sub(origin).max(0);
            let (own, is_static) = match view.extents[d] {
                ViewExtent::Rest => (rest, false),
                ViewExtent::Dynamic(reg) => (value(self, reg).max(0), false),
                ViewExtent::Static(extent) => (extent as i64, true),
            };
            if is_static && (own > rest || origin < 0) && !self.shared.options.static_overhang_zero {
                let kind = FaultKind::StaticOverhang {
                    tensor: view.name.clone(),
                    dimension: d as u32,
                    origin,
                    extent: own,
                    tensor_extents: base_extents(self),
                };
                return raise(kind, lane);
            }
            if origin < 0 {
                let kind = FaultKind::TensorIndex {
                    access,
                    tensor: view.name.clone(),
                    coordinates: view.origin.iter().map(|&reg| value(self, reg)).collect(),
                    extents: base_extents(self),
                };
                return raise(kind, lane);
            }
            region.origin[d] = origin;
            region.extents[d] = own as usize;
            region.valid[d] = own.min(rest) as usize;
            region.strides[d] = value(self, view.strides[d]);
        }
        let nothing = region.valid.contains(&0);
        if nothing {
            region.valid = [0; 2];
        }
        let bits = view.format.bits();
        region.base = self.span(
            region.pointer,
            bits,
            region.origin,
            region.valid,
            region.strides,
            [1, 1],
            access,
            lane,
        )?;
        if let Some(plane) = &view.scales {
            let mut scales = Scales {
                base: std::ptr::null_mut(),
                block: [1; 2],
                strides: [0; 2],
            };
            for d in 0..rank {
                scales.block[d] = plane.block.get(d).map_or(1, |&block| block.max(1) as usize);
                scales.strides[d] = plane.strides.get(d).map_or(0, |&reg| value(self, reg));
            }
            let pointer = self.lane_value(plane.pointer, lane);
            scales.base = self.span(
                pointer,
                plane.format.bits(),
                region.origin,
                region.valid,
                scales.strides,
                scales.block,
                AccessKind::Read,
                lane,
            )?;
            region.scales = Some(scales);
        }
        Ok(region)
    }

    /// Checks that a valid region lies in its object; the address of the base's first element.
    pub(super) fn span<const D: usize>(
        &mut self,
        pointer: u64,
        bits: usize,
        origin: [i64; D],
        valid: [usize; D],
        strides: [i64; D],
        block: [usize; D],
        access: AccessKind,
        lane: usize,
    ) -> Outcome<*mut u8> {
        if valid[0] == 0 {
            return Ok(std::ptr::null_mut());
        }
        let (first_byte, end_byte) = match near_bytes(bits, origin, valid, strides, block) {
            Some((first, end)) => (i128::from(first), i128::from(end)),
            None => far_bytes(bits, origin, valid, strides, block),
        };
        let (number, offset) = split(pointer);
        let (start, end) = (i128::from(offset) + first_byte, i128::from(offset) + end_byte);
        let object = self.object(number);
        let inside = object.is_some_and(|object| {
            start >= 0 && end <= i128::from(object.length) && (access == AccessKind::Read || object.writable)
        });
        match object {
            Some(object) if object.lane_unit != 0 && !self.copies.wanted => {
                let reason = "a tile operation of SIMD-groups on a tensor in thread memory".to_string();
                raise(FaultKind::TileOperation { reason }, lane)
            }
            Some(object) if inside && object.lane_unit != 0 => {
                let copy = self.stage_own(number, &object, start as u64..end as u64, lane);
                // The copy starts with byte `start` of the object.
                Ok(copy.wrapping_offset(offset as isize - start as isize))
            }
            // SAFETY: the result is an address in or around the object; only bytes of the checked span are used.
            Some(object) if inside => Ok(object.ptr.wrapping_offset(offset as isize)),
            _ => {
                let at = first_byte.clamp(-(1 << 46), 1 << 46) as i64;
                let bytes = (end_byte - first_byte).clamp(1, 1 << 46) as u64;
                let at = offset_pointer(pointer, at as u64);
                let kind = self.refusal(at, bytes, access);
                raise(kind, lane)
            }
        }
    }

    pub(super) fn note_region(&mut self, region: &Region, write: bool) {
        if self.traffic.is_none() {
            return;
        }
        let number = split(region.pointer).0;
        if self.object(number).is_some_and(|object| object.lane_unit != 0) {
            return;
        }
        let threadgroup = self.object(number).is_some_and(|object| object.threadgroup);
        let mut bytes = region.valid_bytes();
        if let Some(scales) = region.scales {
            let count = |d: usize| region.valid[d].div_ceil(scales.block[d]) as u64;
            bytes = bytes.saturating_add(count(0).saturating_mul(count(1)));
        }
        if let Some(traffic) = &mut self.traffic {
            let counter = match (threadgroup, write) {
                (false, false) => &mut traffic.device_read,
                (false, true) => &mut traffic.device_written,
                (true, false) => &mut traffic.threadgroup_read,
                (true, true) => &mut traffic.threadgroup_written,
            };
            *counter = counter.saturating_add(bytes);
        }
    }

    /// How the columns and rows of a tile index a view: (step of x by column, by row), (step of y by column, by row).
    fn axes(rank: usize, region: &Region, rows: usize, columns: usize) -> [[usize; 2]; 2] {
        if rank == 1 {
            // A vector runs along the columns, unless it has as many elements as there are rows and not as many as columns.
            let length = region.extents[0];
            let along_rows = columns == 1 || (length != columns && length == rows && rows != 1);
            return if along_rows { [[0, 1], [0, 0]] } else { [[1, 0], [0, 0]] };
        }
        [[1, 0], [0, 1]]
    }

    pub(super) fn coop_load(&mut self, coop: u32, view: &View) -> Outcome {
        let tile = self.tiles[coop as usize];
        if self.shared.coops[coop as usize].coop.spatial.is_some() {
            return self.spatial_load(coop, view);
        }
        for (instance, lane) in self.active_instances(tile.simdgroups) {
            let region = self.region(view, lane, AccessKind::Read)?;
            self.note_region(&region.within(tile.columns, tile.rows), false);
            let size = tile.size;
            let bits = region.format.bits();
            let widened =
                region.format.is_format_type() && usize::from(tile_scalar(region.format).size() as u8) == size;
            if bits != size * 8 && !widened {
                return self.mismatch(view, size, lane);
            }
            let to = tile.instance(instance);
            let axes = Self::axes(view.origin.len(), &region, tile.rows, tile.columns);
            // A dimension of extent 1 is repeated.
            let clamp = [region.extents[0] == 1, region.extents[1] == 1];
            for row in 0..tile.rows {
                let place = |column: usize| {
                    let mut at = [0usize; 2];
                    for d in 0..2 {
                        at[d] = if clamp[d] {
                            0
                        } else {
                            axes[d][0] * column + axes[d][1] * row
                        };
                    }
                    at
                };
                let start = place(0);
                let line = row * tile.columns * size;
                let straight =
                    axes[0] == [1, 0] && !widened && !clamp[0] && region.strides[0] == 1 && start[1] < region.valid[1];
                // SAFETY: elements are inside the tile; the region's valid part is inside its memory.
                unsafe {
                    if straight {
                        let count = region.valid[0].min(tile.columns);
                        let from = region.address(0, start[1]);
                        std::ptr::copy_nonoverlapping(from, to.add(line), count * size);
                        to.add(line + count * size)
                            .write_bytes(0, (tile.columns - count) * size);
                        continue;
                    }
                    for column in 0..tile.columns {
                        let [x, y] = place(column);
                        let inside = x < region.valid[0] && y < region.valid[1];
                        let value = if !inside {
                            0
                        } else if widened {
                            region.unpacked(x, y)
                        } else {
                            read(region.address(x, y), size as u8)
                        };
                        write(to.add(line + column * size), size as u8, value);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn coop_store(&mut self, coop: u32, view: &View) -> Outcome {
        let tile = self.tiles[coop as usize];
        if self.shared.coops[coop as usize].coop.spatial.is_some() {
            return self.spatial_store(coop, view);
        }
        for (instance, lane) in self.active_instances(tile.simdgroups) {
            let region = self.region(view, lane, AccessKind::Write)?;
            self.note_region(&region.within(tile.columns, tile.rows), true);
            let size = tile.size;
            let widened =
                region.format.is_format_type() && usize::from(tile_scalar(region.format).size() as u8) == size;
            if region.format.bits() != size * 8 && !widened {
                return self.mismatch(view, size, lane);
            }
            let from = tile.instance(instance);
            let axes = Self::axes(view.origin.len(), &region, tile.rows, tile.columns);
            for row in 0..tile.rows {
                let line = row * tile.columns * size;
                let place = |column: usize| {
                    [
                        axes[0][0] * column + axes[0][1] * row,
                        axes[1][0] * column + axes[1][1] * row,
                    ]
                };
                let start = place(0);
                // SAFETY: as for a load.
                unsafe {
                    if axes[0] == [1, 0] && region.strides[0] == 1 && axes[1] == [0, 1] && !widened {
                        if start[1] < region.valid[1] {
                            let count = region.valid[0].min(tile.columns);
                            let to = region.address(0, start[1]);
                            std::ptr::copy_nonoverlapping(from.add(line), to, count * size);
                        }
                        continue;
                    }
                    for column in 0..tile.columns {
                        let [x, y] = place(column);
                        if x < region.valid[0] && y < region.valid[1] {
                            let value = read(from.add(line + column * size), size as u8);
                            if widened {
                                region.pack(x, y, value);
                            } else {
                                write(region.address(x, y), size as u8, value);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn mismatch(&mut self, view: &View, size: usize, lane: usize) -> Outcome {
        let reason = format!(
            "tensor '{}' has elements of {}, the cooperative tensor elements of {size} bytes",
            view.name,
            view.format.msl_name()
        );
        raise(FaultKind::TileOperation { reason }, lane)
    }
}
