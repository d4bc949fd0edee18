//! Cooperative tensors as whole tiles: slots, maps over elements, and reductions.

use std::sync::OnceLock;

use anymetal_ir::{CoopRole, Cooperative, ReduceAxis, ReduceOp, Scalar};

use super::affine::{Plane, Tag};
use super::mask::Mask;
use super::reduce::{reduce_f32, reduce_float, reduce_i32};
use super::{MapPlace, Outcome, Value, Worker, read, write};
use crate::compile::program::{Block, Inst, Reg};
use crate::lanes::scalar::{Bf16, F16};
use crate::lanes::{CHUNK, convert};

/// What does not change from dispatch to dispatch.
#[derive(Debug)]
pub(crate) struct CoopInfo {
    pub coop: Cooperative,
    pub capacity: u32,
    /// Lanes of an instance.
    pub lanes: usize,
    /// Element offset in the tile, or −1, by slot and lane of the instance; made on first use.
    positions: OnceLock<Vec<i32>>,
    /// Slot by (lane, element offset).
    slots: OnceLock<std::collections::HashMap<(usize, usize), u32>>,
}

impl CoopInfo {
    pub fn new(coop: Cooperative) -> Self {
        CoopInfo {
            capacity: coop.capacity(),
            lanes: 32 * coop.simdgroups.max(1) as usize,
            coop,
            positions: OnceLock::new(),
            slots: OnceLock::new(),
        }
    }

    fn positions(&self) -> &[i32] {
        self.positions.get_or_init(|| {
            let layout = self.coop.layout();
            let mut out = Vec::with_capacity(self.capacity as usize * self.lanes);
            for slot in 0..self.capacity {
                for lane in 0..self.lanes as u32 {
                    let place = layout.position(lane / 32, lane % 32, slot);
                    out.push(place.map_or(-1, |(row, column)| (row * self.coop.columns + column) as i32));
                }
            }
            out
        })
    }

    /// Element offset of a slot, if it is valid.
    pub(super) fn element(&self, slot: i64, lane: usize) -> Option<usize> {
        if !(0..i64::from(self.capacity)).contains(&slot) {
            return None;
        }
        let at = self.positions()[slot as usize * self.lanes + lane];
        usize::try_from(at).ok()
    }

    /// Element offsets of a slot in the lanes of an instance, −1 for those that have none.
    fn elements_of(&self, slot: i64) -> Option<&[i32]> {
        let slot = usize::try_from(slot)
            .ok()
            .filter(|&slot| slot < self.capacity as usize)?;
        self.positions().get(slot * self.lanes..)?.get(..self.lanes)
    }
}

/// Walks over the instances of a scope that take part.
pub(super) struct Instances {
    next: usize,
    count: usize,
    /// Lanes of an instance.
    lanes: usize,
    live: usize,
    /// A byte for each live lane; without it all take part.
    mask: Option<*const u8>,
}

impl Iterator for Instances {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        while self.next < self.count {
            let instance = self.next;
            self.next += 1;
            let first = instance * self.lanes;
            let Some(mask) = self.mask else {
                return Some((instance, first));
            };
            let end = (first + self.lanes).min(self.live);
            // SAFETY: masks have a byte for each live lane.
            if let Some(lane) = (first..end).find(|&lane| unsafe { *mask.add(lane) != 0 }) {
                return Some((instance, lane));
            }
        }
        None
    }
}

/// The slot of each lane.
#[derive(Clone, Copy)]
enum Slots {
    One(i64),
    /// A register, and the bytes of its elements.
    Lanes(*const u8, u8),
}

impl Slots {
    #[inline(always)]
    fn of(self, lane: usize) -> i64 {
        match self {
            Slots::One(slot) => slot,
            // SAFETY: the register holds a slot for each lane.
            Slots::Lanes(slots, size) => slot_of(unsafe { read(slots.add(lane * size as usize), size) }),
        }
    }
}

/// Runs a body with the unsigned type of a size.
macro_rules! of_size {
    ($size:expr, $t:ident => $body:expr) => {
        match $size {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}

/// Elements of a tile, for the lanes of an instance; zero where there is none.
///
/// # Safety
/// Places that are not negative must be inside the tile, and `to` have room for as many elements of the size.
unsafe fn take(tile: *const u8, to: *mut u8, places: &[i32], size: u8) {
    of_size!(size, T => for (lane, &at) in places.iter().enumerate() {
        // SAFETY: by the function's contract.
        unsafe {
            let value = if at < 0 { 0 } else { tile.cast::<T>().add(at as usize).read_unaligned() };
            to.cast::<T>().add(lane).write_unaligned(value);
        }
    });
}

/// Sets elements of a tile from the lanes of an instance, `step` bytes apart.
///
/// # Safety
/// As for [`take`], with elements readable at `from`.
unsafe fn put(tile: *mut u8, from: *const u8, step: usize, places: &[i32], size: u8) {
    of_size!(size, T => for (lane, &at) in places.iter().enumerate() {
        if at >= 0 {
            // SAFETY: by the function's contract.
            unsafe {
                let value = from.add(lane * step).cast::<T>().read_unaligned();
                tile.cast::<T>().add(at as usize).write_unaligned(value);
            }
        }
    });
}

/// Slots are `i32`.
fn slot_of(bits: u64) -> i64 {
    i64::from(bits as u32 as i32)
}

impl<'d> Worker<'d> {
    fn info(&self, coop: u32) -> &'d CoopInfo {
        let shared: &'d super::Shared<'d> = self.shared;
        &shared.coops[coop as usize]
    }

    /// Instances that the strip has of a scope.
    pub(super) fn instances(&self, simdgroups: usize) -> usize {
        self.lanes.live.div_ceil(CHUNK * simdgroups.max(1))
    }

    /// Instances with at least one active lane, and that lane. The mask must not change before the end.
    pub(super) fn active_instances(&self, simdgroups: usize) -> Instances {
        Instances {
            next: 0,
            count: match self.lanes.current {
                Mask::None => 0,
                _ => self.instances(simdgroups),
            },
            lanes: CHUNK * simdgroups.max(1),
            live: self.lanes.live,
            mask: match self.lanes.current {
                Mask::Part(slot) => Some(self.mask_ptr(slot)),
                _ => None,
            },
        }
    }

    pub(super) fn cooperative(&mut self, inst: &'d Inst) -> Outcome {
        match inst {
            Inst::CoopInit(coop) => {
                let tile = self.tiles[*coop as usize];
                for (instance, _) in self.active_instances(tile.simdgroups) {
                    // SAFETY: the tile has that many bytes.
                    unsafe { tile.instance(instance).write_bytes(0, tile.elements() * tile.size) };
                }
            }
            Inst::CoopCopy { to, from, moves } => {
                let (at, source) = (*to as usize, *from as usize);
                let (to, from) = (self.tiles[at], self.tiles[source]);
                if *moves && self.lanes.current == Mask::All && to.stride == from.stride {
                    self.tiles[at].base = from.base;
                    self.tiles[source].base = to.base;
                    return Ok(());
                }
                for (instance, _) in self.active_instances(to.simdgroups) {
                    // SAFETY: the compiler checked that the tiles have the same shape; a tile may be copied to itself.
                    unsafe {
                        std::ptr::copy(from.instance(instance), to.instance(instance), to.elements() * to.size);
                    }
                }
            }
            Inst::CoopGet { coop, slot, out } => {
                let (info, tile) = (self.info(*coop), self.tiles[*coop as usize]);
                let size = out.size;
                if let Some(places) = self.one_slot(*slot, info) {
                    let to = self.dst(*out).1;
                    for instance in 0..self.lanes.live / info.lanes {
                        let to = to.wrapping_add(instance * info.lanes * size as usize);
                        // SAFETY: positions are inside the tile; the register holds all lanes.
                        unsafe { take(tile.instance(instance), to, places, size) };
                    }
                    return Ok(());
                }
                self.per_lane(*slot, *out, info.lanes, |slot, instance, inside| {
                    match info.element(slot, inside) {
                        // SAFETY: positions are inside the tile.
                        Some(at) => unsafe { read(tile.instance(instance).add(at * size as usize), size) },
                        None => 0,
                    }
                });
            }
            Inst::CoopSet { coop, slot, value } => {
                let (info, tile) = (self.info(*coop), self.tiles[*coop as usize]);
                let slots = self.slots(*slot);
                let from = self.src(*value);
                let size = value.size;
                let step = if from.step == 0 { 0 } else { size as usize };
                let live = self.lanes.live;
                let active = self.active(None);
                if let (super::memory::Active::All, Some(places)) = (active, self.one_slot(*slot, info)) {
                    for instance in 0..live / info.lanes {
                        let from = from.ptr.wrapping_add(instance * info.lanes * step);
                        // SAFETY: positions are inside the tile; the register holds all lanes, or one element if its step is 0.
                        unsafe { put(tile.instance(instance), from, step, places, size) };
                    }
                    return Ok(());
                }
                for (instance, first) in (0..live).step_by(info.lanes.max(1)).enumerate() {
                    for inside in 0..info.lanes.min(live - first) {
                        let lane = first + inside;
                        if active.has(lane)
                            && let Some(at) = info.element(slots.of(lane), inside)
                        {
                            // SAFETY: positions are inside the tile; the register holds all lanes, or one element if its step is 0.
                            unsafe {
                                let value = read(from.ptr.add(lane * step), size);
                                write(tile.instance(instance).add(at * size as usize), size, value);
                            }
                        }
                    }
                }
            }
            Inst::CoopValid { coop, slot, out } => {
                let info = self.info(*coop);
                self.per_lane(*slot, *out, info.lanes, |slot, _, inside| {
                    u64::from(info.element(slot, inside).is_some())
                });
            }
            Inst::CoopIndex {
                coop,
                slot,
                column,
                row,
            } => {
                let info = self.info(*coop);
                let columns = info.coop.columns.max(1) as usize;
                let role = info.coop.role;
                let place = move |slot: i64, inside: usize| {
                    let at = info.element(slot, inside).unwrap_or(0);
                    (at / columns, at % columns)
                };
                self.per_lane(*slot, *column, info.lanes, |slot, _, inside| match role {
                    CoopRole::RowReduction => place(slot, inside).0 as u64,
                    _ => place(slot, inside).1 as u64,
                });
                if let Some(row) = row {
                    self.per_lane(*slot, *row, info.lanes, |slot, _, inside| place(slot, inside).0 as u64);
                }
            }
            Inst::CoopMapSlot { to, from, slot, out } => {
                let (to, from) = (self.info(*to), self.info(*from));
                let columns = from.coop.columns.max(1) as usize;
                let inverse = to.inverse();
                self.per_lane(*slot, *out, from.lanes, |slot, _, lane| {
                    let Some(at) = from.element(slot, lane) else {
                        return 0;
                    };
                    let wanted = match to.coop.role {
                        CoopRole::RowReduction => at / columns,
                        CoopRole::ColumnReduction => at % columns,
                        _ => at,
                    };
                    inverse.get(&(lane, wanted)).map_or(0, |&slot| slot as u64)
                });
            }
            Inst::CoopLoad { coop, view } => return self.coop_load(*coop, view),
            Inst::CoopStore { coop, view } => return self.coop_store(*coop, view),
            Inst::CoopCompatible { to, from, out } => {
                let (to, from) = (&self.info(*to).coop, &self.info(*from).coop);
                let compatible = !self.shared.options.force_incompatible
                    && (to.rows, to.columns, to.element) == (from.rows, from.columns, from.element)
                    && to.simdgroups == from.simdgroups;
                self.set_all(*out, u64::from(compatible));
            }
            Inst::CoopReduce {
                to,
                from,
                axis,
                op,
                identity,
            } => self.coop_reduce(*to, *from, *axis, *op, *identity),
            Inst::CoopMap {
                over,
                captures,
                tiles,
                body,
                of_chunks,
            } => return self.coop_map(*over, captures, tiles, body, of_chunks.as_deref()),
            Inst::RowMap(map) => self.row_map(map),
            Inst::CoopElement { coop, over, out } => self.coop_element(*coop, *over, *out),
            Inst::CoopElementSet { coop, value } => self.coop_element_set(*coop, *value),
            Inst::CoopElementIndex { over, column, row } => {
                self.coop_element_index(*over, *column, *row);
            }
            Inst::Matmul {
                descriptor,
                simdgroups,
                left,
                right,
                destination,
                share,
            } => {
                return self.matmul(descriptor, *simdgroups as usize, left, right, destination, *share);
            }
            Inst::Convolution(conv) => return self.convolution(conv),
            Inst::Watched(watched) => return self.watched(watched),
            Inst::WatchIndex { op, ty, a, b, location } => self.watch_index(*op, *ty, *a, *b, *location),
            _ => {}
        }
        Ok(())
    }

    /// A value for each live lane from the slot there, its instance of `lanes` lanes, and its place in that.
    fn per_lane(&mut self, slot: Reg, out: Reg, lanes: usize, f: impl Fn(i64, usize, usize) -> u64) {
        let slots = self.slots(slot);
        let (_, to) = self.dst(out);
        let live = self.lanes.live;
        for (instance, first) in (0..live).step_by(lanes.max(1)).enumerate() {
            for inside in 0..lanes.min(live - first) {
                let lane = first + inside;
                let value = f(slots.of(lane), instance, inside);
                // SAFETY: the register holds all lanes.
                unsafe { write(to.add(lane * out.size as usize), out.size, value) };
            }
        }
    }

    /// The element offsets of a slot that all lanes name, in whole instances.
    fn one_slot(&mut self, slot: Reg, info: &'d CoopInfo) -> Option<&'d [i32]> {
        match self.slots(slot) {
            Slots::One(slot) if self.lanes.live.is_multiple_of(info.lanes.max(1)) => info.elements_of(slot),
            _ => None,
        }
    }

    /// The slots in a register.
    fn slots(&mut self, reg: Reg) -> Slots {
        match self.value(reg) {
            Value::Uniform(bits) | Value::Affine { base: bits, stride: 0 } => Slots::One(slot_of(bits)),
            _ => Slots::Lanes(self.src(reg).ptr, reg.size),
        }
    }

    /// Runs a body once for each element of a tile, for each instance that takes part. Instances whose tiles lie side by
    /// side, and that see the same values from outside, run together.
    fn coop_map(
        &mut self,
        over: u32,
        captures: &[(Reg, Reg)],
        tiles: &[u32],
        body: &'d Block,
        of_chunks: Option<&'d Block>,
    ) -> Outcome {
        let tile = self.tiles[over as usize];
        let joins = tiles.iter().all(|&coop| {
            let part = self.tiles[coop as usize];
            // Rows go on from one instance to the next; columns do not.
            part.stride == part.elements() * part.size
                && (part.columns == 1 || part.rows == tile.rows)
                && part.simdgroups == tile.simdgroups
        });
        let mut active = self.active_instances(tile.simdgroups);
        let mut pending = active.next();
        while let Some((instance, leader)) = pending {
            let mut count = 1;
            loop {
                pending = active.next();
                let Some((next, lane)) = pending else { break };
                let same = joins
                    && next == instance + count
                    && captures
                        .iter()
                        .all(|&(outside, _)| self.lane_value(outside, lane) == self.lane_value(outside, leader));
                if !same {
                    break;
                }
                count += 1;
            }
            for &(outside, inside) in captures {
                let value = self.lane_value(outside, leader);
                // SAFETY: a uniform register holds 32 elements.
                unsafe { super::splat(self.ptr(inside), inside.size, CHUNK, value) };
            }
            std::mem::swap(&mut self.lanes, &mut self.idle);
            let total = tile.elements() * count;
            let body = of_chunks
                .filter(|_| joins && total.is_multiple_of(CHUNK))
                .unwrap_or(body);
            let result = self.map_elements(tile.columns, total, instance, leader, body);
            self.map = None;
            std::mem::swap(&mut self.lanes, &mut self.idle);
            if let Err(mut raised) = result {
                raised.lane = leader;
                return Err(raised);
            }
        }
        Ok(())
    }

    fn map_elements(
        &mut self,
        columns: usize,
        total: usize,
        instance: usize,
        leader: usize,
        body: &'d Block,
    ) -> Outcome {
        let mut element = 0;
        while element < total {
            let lanes = &mut self.lanes;
            lanes.live = lanes.cap.min(total - element);
            lanes.chunks = lanes.live.div_ceil(CHUNK);
            // Rows of planes are those of the tile.
            lanes.width = columns.max(1);
            lanes.rectangle = (
                lanes.live.clamp(1, lanes.width),
                lanes.live.div_ceil(lanes.width).max(1),
            );
            lanes.current = Mask::All;
            lanes.returned = Mask::None;
            lanes.frames.clear();
            lanes.tags.fill(Tag::new(Plane::line(0, 0)));
            let live = lanes.live;
            self.map = Some(MapPlace {
                instance,
                element,
                lane: leader,
            });
            self.run(body)?;
            element += live;
        }
        Ok(())
    }

    fn coop_element(&mut self, coop: u32, over: u32, out: Reg) {
        let Some(place) = self.map else { return };
        let (tile, over) = (self.tiles[coop as usize], self.tiles[over as usize]);
        let (_, to) = self.dst(out);
        let live = self.lanes.live;
        let size = out.size;
        let from = tile.instance(place.instance);
        let bytes = size as usize;
        if (tile.rows, tile.columns) == (over.rows, over.columns) {
            // SAFETY: elements are inside the tile, the register holds all lanes.
            unsafe {
                std::ptr::copy_nonoverlapping(from.add(place.element * bytes), to, live * bytes);
            }
            return;
        }
        let columns = over.columns.max(1);
        if tile.columns == 1 {
            let (row, column) = (place.element / columns, place.element % columns);
            let f = convert::spread(size, self.shared.isa);
            // SAFETY: rows are inside the reduction tensor (those of several instances lie side by side when they run
            // together), the register holds all lanes.
            unsafe { f(from.add(row * bytes), column, columns, live, to) };
            return;
        }
        let mut lane = 0;
        while lane < live {
            let at = place.element + lane;
            let column = at % columns;
            let run = (columns - column).min(live - lane);
            // SAFETY: columns are inside the reduction tensor, lanes inside the register.
            unsafe {
                let from = from.add(column.min(tile.columns - run) * bytes);
                std::ptr::copy_nonoverlapping(from, to.add(lane * bytes), run * bytes);
            }
            lane += run;
        }
    }

    fn coop_element_set(&mut self, coop: u32, value: Reg) {
        let Some(place) = self.map else { return };
        let tile = self.tiles[coop as usize];
        let from = self.src(value);
        let size = value.size;
        let bytes = size as usize;
        let live = self.lanes.live;
        // SAFETY: elements are inside the tile; the register holds all lanes, or 32 equal elements.
        unsafe {
            let to = tile.instance(place.instance).add(place.element * bytes);
            match self.lanes.current {
                Mask::All if from.step != 0 => {
                    std::ptr::copy_nonoverlapping(from.ptr, to, live * bytes);
                }
                Mask::All => super::splat(to, size, live, read(from.ptr, size)),
                _ => {
                    let step = if from.step == 0 { 0 } else { bytes };
                    for lane in 0..live {
                        if self.is_active(lane) {
                            write(to.add(lane * bytes), size, read(from.ptr.add(lane * step), size));
                        }
                    }
                }
            }
        }
    }

    fn coop_element_index(&mut self, over: u32, column: Reg, row: Option<Reg>) {
        let Some(place) = self.map else { return };
        let tile = self.tiles[over as usize];
        // A reduction tensor has one coordinate.
        let columns = if row.is_some() {
            tile.columns.max(1)
        } else {
            tile.elements().max(1)
        };
        let rows = tile.elements() / columns;
        let live = self.lanes.live;
        let (first_row, first_column) = (place.element / columns % rows.max(1), place.element % columns);
        // Whole rows of one instance are planes, and so is a part of one row.
        let one_row = first_column + live <= columns;
        let planar =
            one_row || (first_column == 0 && columns == self.lanes.width && first_row + live.div_ceil(columns) <= rows);
        if let (true, Some(tag), true) = (
            planar,
            column.tag_index(),
            row.is_none_or(|row| row.tag_index().is_some()),
        ) {
            let down = if one_row { 0 } else { 1 };
            self.lanes.tags[tag] = Tag::new(Plane {
                base: first_column as u64,
                stride: 1,
                row: (columns as u64 * down).wrapping_neg(),
            });
            if let Some(tag) = row.and_then(Reg::tag_index) {
                self.lanes.tags[tag] = Tag::new(Plane {
                    base: first_row as u64,
                    stride: 0,
                    row: down,
                });
            }
            return;
        }
        let to_column = self.dst(column).1.cast::<i32>();
        let to_row = row.map(|row| self.dst(row).1.cast::<i32>());
        let (mut row, mut column) = (first_row, first_column);
        let mut lane = 0;
        while lane < live {
            let run = (columns - column).min(live - lane);
            // SAFETY: the registers hold all lanes of `i32`.
            unsafe {
                for i in 0..run {
                    to_column.add(lane + i).write((column + i) as i32);
                }
                if let Some(to_row) = to_row {
                    std::slice::from_raw_parts_mut(to_row.add(lane), run).fill(row as i32);
                }
            }
            lane += run;
            column = 0;
            // Rows start anew in each instance.
            row = if row + 1 == rows { 0 } else { row + 1 };
        }
    }

    fn coop_reduce(&mut self, to: u32, from: u32, axis: ReduceAxis, op: ReduceOp, identity: Reg) {
        let element = self.info(from).coop.element;
        let (to, from) = (self.tiles[to as usize], self.tiles[from as usize]);
        let isa = self.shared.isa;
        // Rows of instances that lie side by side are rows of one tile.
        let together = axis == ReduceAxis::Rows
            && self.lanes.current == Mask::All
            && identity.is_uniform()
            && from.stride == from.elements() * from.size
            && (to.stride, to.elements()) == (from.rows * to.size, from.rows);
        let joined = if together { self.instances(from.simdgroups) } else { 1 };
        for (instance, leader) in self.active_instances(from.simdgroups) {
            if together && instance > 0 {
                break;
            }
            let identity = self.lane_value(identity, leader);
            let (source, target) = (from.instance(instance), to.instance(instance));
            let count = match axis {
                ReduceAxis::Rows => from.rows.min(to.elements()) * joined,
                ReduceAxis::Columns => from.columns.min(to.elements()),
            };
            let shape = (from.rows * joined, from.columns);
            // SAFETY: the source holds rows · columns elements, the target `count`.
            unsafe {
                match element {
                    Scalar::F32 => {
                        reduce_f32(isa, axis, op, source.cast(), shape, target.cast(), count, identity);
                    }
                    Scalar::F16 => reduce_float::<F16>(axis, op, source, shape, target, count, identity),
                    Scalar::BF16 => {
                        reduce_float::<Bf16>(axis, op, source, shape, target, count, identity);
                    }
                    Scalar::I32 => reduce_i32(axis, op, source, shape, target, count, identity),
                    _ => {}
                }
            }
        }
    }
}

impl CoopInfo {
    fn inverse(&self) -> &std::collections::HashMap<(usize, usize), u32> {
        self.slots.get_or_init(|| {
            let mut out = std::collections::HashMap::new();
            for slot in 0..self.capacity {
                for lane in 0..self.lanes {
                    if let Some(at) = self.element(i64::from(slot), lane) {
                        out.entry((lane, at)).or_insert(slot);
                    }
                }
            }
            out
        })
    }
}
