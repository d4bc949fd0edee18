//! The sanitizer's look at tile operations: who takes part, which elements were ever set, what memory they touch.

use anymetal_ir::{Finding, FindingCode, LocationId, Spot};

use std::ops::Range;

use super::{Outcome, Worker};
use crate::compile::program::{Convolution, Inst, Reg, TileOperand, View, Watched};
use crate::fault::AccessKind;
use crate::lanes::CHUNK;
use crate::sanitize::Sanitizer;
use crate::sanitize::order::Actor;
use crate::sanitize::shadow::Touch;

/// A number that tells tiles of different role, shape or operation apart.
fn shape_key(parts: &[usize]) -> u32 {
    let mut key = 17u64;
    for &part in parts {
        key = key.wrapping_mul(0x100_0193).wrapping_add(part as u64);
    }
    (key ^ key >> 31) as u32
}

impl<'d> Worker<'d> {
    /// The elements of an instance of a tile in the sanitizer's table.
    fn elements_of(&self, coop: u32, instance: usize) -> std::ops::Range<usize> {
        let count = self.tiles[coop as usize].elements();
        instance * count..(instance + 1) * count
    }

    fn set_tile(&self, sanitizer: &mut Sanitizer, coop: u32, instance: usize, set: bool) {
        let range = self.elements_of(coop, instance);
        if let Some(part) = sanitizer.tiles[coop as usize].get_mut(range) {
            part.fill(set);
        }
    }

    /// A finding if an element of a tile, of those that `wanted` picks by (row, column), was never set.
    fn want_tile(
        &self,
        sanitizer: &mut Sanitizer,
        coop: u32,
        instance: usize,
        at: LocationId,
        wanted: impl Fn(usize, usize) -> bool,
        does: &str,
    ) {
        let columns = self.tiles[coop as usize].columns.max(1);
        let range = self.elements_of(coop, instance);
        let part = sanitizer.tiles[coop as usize].get(range).unwrap_or(&[]);
        let unset = part
            .iter()
            .enumerate()
            .find(|&(i, &set)| !set && wanted(i / columns, i % columns))
            .map(|(i, _)| i);
        if let Some(element) = unset {
            self.unset_tile(sanitizer, coop, (instance, element), at, does);
        }
    }

    fn unset_tile(
        &self,
        sanitizer: &mut Sanitizer,
        coop: u32,
        (instance, element): (usize, usize),
        at: LocationId,
        does: &str,
    ) {
        let code = FindingCode::UninitialisedCooperative;
        if !sanitizer.is_new(code, at, LocationId::default()) {
            return;
        }
        let kernel = self.shared.kernel;
        let info = &self.shared.coops[coop as usize].coop;
        let columns = info.columns.max(1) as usize;
        let name = if info.name.is_empty() {
            "a cooperative tensor".to_string()
        } else {
            format!("cooperative tensor `{}`", info.name)
        };
        sanitizer.report(Finding {
            code,
            kernel: kernel.name.clone(),
            message: format!(
                "{does} {name}, whose element [{}, {}] was never set",
                element % columns,
                element / columns
            ),
            spot: Spot::new(
                &kernel.locations,
                at,
                format!("not set, in SIMD-group {}", instance * info.simdgroups.max(1) as usize),
            ),
            related: Vec::new(),
            notes: vec![
                "the contents of a cooperative tensor are unspecified until they are written; here they were NaN"
                    .to_string(),
            ],
            help: "set all elements first (a loop over `get_capacity()`), `load` them, or run in mode `multiply`"
                .to_string(),
            count: 1,
        });
    }

    /// An access to slots of a cooperative tensor.
    pub(super) fn watch_slots(
        &mut self,
        sanitizer: &mut Sanitizer,
        coop: u32,
        slot: Reg,
        write: bool,
        watched: &Watched,
    ) {
        let at = watched.location;
        let info = &self.shared.coops[coop as usize];
        for lane in 0..self.lanes.live {
            if !self.is_active(lane) {
                continue;
            }
            let bits = i64::from(self.lane_value(slot, lane) as u32 as i32);
            let (instance, inside) = (lane / info.lanes, lane % info.lanes);
            let Some(element) = info.element(bits, inside) else {
                let unchecked = !watched.checked || !(0..i64::from(info.capacity)).contains(&bits);
                if unchecked && sanitizer.is_new(FindingCode::InvalidSlot, at, LocationId::default()) {
                    self.invalid_slot(sanitizer, coop, bits, (lane, write), at);
                }
                continue;
            };
            let index = self.elements_of(coop, instance).start + element;
            if write {
                if let Some(set) = sanitizer.tiles[coop as usize].get_mut(index) {
                    *set = true;
                }
            } else if sanitizer.tiles[coop as usize].get(index) == Some(&false) {
                self.unset_tile(sanitizer, coop, (instance, element), at, "this reads");
            }
        }
    }

    fn invalid_slot(
        &self,
        sanitizer: &mut Sanitizer,
        coop: u32,
        slot: i64,
        (lane, write): (usize, bool),
        at: LocationId,
    ) {
        let kernel = self.shared.kernel;
        let info = &self.shared.coops[coop as usize];
        let verb = if write { "write to" } else { "read of" };
        let why = if (0..i64::from(info.capacity)).contains(&slot) {
            "holds no element of the tile in this thread".to_string()
        } else {
            format!("is outside of the capacity, which is {}", info.capacity)
        };
        sanitizer.report(Finding {
            code: FindingCode::InvalidSlot,
            kernel: kernel.name.clone(),
            message: format!(
                "{verb} slot {slot} of cooperative tensor `{}`, which {why}",
                info.coop.name
            ),
            spot: Spot::new(&kernel.locations, at, format!("in thread {lane}")),
            related: Vec::new(),
            notes: vec![format!(
                "the tile has {} rows and {} columns; which slots are valid depends on the device",
                info.coop.rows, info.coop.columns
            )],
            help: "ask `is_valid_element(i)` first, or use `get(i)` and `set(i, value)`, and count slots by `get_capacity()`"
                .to_string(),
            count: 1,
        });
    }

    /// The other operations on tiles, before they run. Whatever is wrong with their operands is left for them to say.
    pub(super) fn watch_tiles(&mut self, sanitizer: &mut Sanitizer, inst: &'d Inst, at: LocationId) -> Outcome {
        match inst {
            Inst::CoopInit(coop) => {
                let tile = self.tiles[*coop as usize];
                for (instance, _) in self.active_instances(tile.simdgroups) {
                    self.set_tile(sanitizer, *coop, instance, false);
                }
            }
            Inst::CoopCopy { to, from, .. } => {
                let tile = self.tiles[*to as usize];
                for (instance, _) in self.active_instances(tile.simdgroups) {
                    let part: Vec<bool> = sanitizer.tiles[*from as usize]
                        .get(self.elements_of(*from, instance))
                        .map_or_else(Vec::new, <[bool]>::to_vec);
                    let range = self.elements_of(*to, instance);
                    if let Some(target) = sanitizer.tiles[*to as usize].get_mut(range)
                        && target.len() == part.len()
                    {
                        target.copy_from_slice(&part);
                    }
                }
            }
            Inst::CoopLoad { coop, view } => {
                let tile = self.tiles[*coop as usize];
                self.watch_scope(sanitizer, tile.simdgroups, "`load`", at);
                let key = self.tile_key(*coop);
                for (instance, lane) in self.active_instances(tile.simdgroups) {
                    let clip = clip(view.origin.len(), tile.columns, tile.rows);
                    let who = (instance, lane, tile.simdgroups);
                    match self.spatial_part(*coop) {
                        Some(part) => self.watch_part(sanitizer, view, who, part, (Touch::Read, key), at),
                        None => self.watch_region(sanitizer, view, who, clip, (Touch::Read, key), at),
                    }
                    self.set_tile(sanitizer, *coop, instance, true);
                }
            }
            Inst::CoopStore { coop, view } => {
                let tile = self.tiles[*coop as usize];
                self.watch_scope(sanitizer, tile.simdgroups, "`store`", at);
                let key = self.tile_key(*coop);
                for (instance, lane) in self.active_instances(tile.simdgroups) {
                    let valid = self
                        .region(view, lane, crate::fault::AccessKind::Write)
                        .map_or([0; 2], |region| region.valid);
                    let rank = view.origin.len();
                    // Elements past the tensor's end are not stored.
                    let spatial = self.shared.coops[*coop as usize].coop.spatial.is_some();
                    let stored =
                        |row: usize, column: usize| spatial || rank == 1 || (column < valid[0] && row < valid[1]);
                    self.want_tile(sanitizer, *coop, instance, at, stored, "this stores");
                    let clip = clip(rank, tile.columns, tile.rows);
                    let who = (instance, lane, tile.simdgroups);
                    match self.spatial_part(*coop) {
                        Some(part) => self.watch_part(sanitizer, view, who, part, (Touch::Write, key), at),
                        None => self.watch_region(sanitizer, view, who, clip, (Touch::Write, key), at),
                    }
                }
            }
            Inst::CoopReduce { to, from, .. } => {
                let tile = self.tiles[*from as usize];
                self.watch_scope(sanitizer, tile.simdgroups, "a reduction", at);
                for (instance, _) in self.active_instances(tile.simdgroups) {
                    self.want_tile(sanitizer, *from, instance, at, |_, _| true, "this reduces");
                    self.set_tile(sanitizer, *to, instance, true);
                }
            }
            Inst::CoopMap { tiles, .. } => {
                // Formed by a pass, which sanitized kernels do not go through; a map sets what it is over.
                for &coop in tiles {
                    for (instance, _) in self.active_instances(self.tiles[coop as usize].simdgroups) {
                        self.set_tile(sanitizer, coop, instance, true);
                    }
                }
            }
            Inst::Matmul {
                descriptor,
                simdgroups,
                left,
                right,
                destination,
                ..
            } => {
                let simdgroups = *simdgroups as usize;
                // Threads may run their products in any control flow.
                let runs: Vec<(usize, usize)> = if simdgroups == 0 {
                    let lanes = (0..self.lanes.live).filter(|&lane| self.is_active(lane));
                    lanes.map(|lane| (lane, lane)).collect()
                } else {
                    self.watch_scope(sanitizer, simdgroups, "`run`", at);
                    self.active_instances(simdgroups).collect()
                };
                let (m, n) = (descriptor.m as usize, descriptor.n as usize);
                let k = descriptor.k.map(|k| k as usize);
                let turned = |turn: bool, pair: [Option<usize>; 2]| if turn { [pair[1], pair[0]] } else { pair };
                let inputs = [
                    (left, turned(descriptor.transpose_left, [k, Some(m)]), "left"),
                    (right, turned(descriptor.transpose_right, [Some(n), k]), "right"),
                ];
                // Only products of threads take memory of a thread; without this, its region would be refused and go unwatched.
                self.copies.wanted = simdgroups == 0;
                for (instance, lane) in runs {
                    self.copies.clear();
                    let who = (instance, lane, simdgroups);
                    for (side, (operand, clip, name)) in inputs.iter().enumerate() {
                        match operand {
                            TileOperand::View(view) => {
                                let key = shape_key(&[side + 1, m, n, k.unwrap_or(0)]);
                                self.watch_region(sanitizer, view, who, *clip, (Touch::Read, key), at);
                            }
                            TileOperand::Coop(coop) => {
                                let does = format!("`run` multiplies its {name} operand,");
                                self.want_tile(sanitizer, *coop, instance, at, |_, _| true, &does);
                            }
                        }
                    }
                    match destination {
                        TileOperand::View(view) => {
                            let touch = if descriptor.accumulate {
                                Touch::Both
                            } else {
                                Touch::Write
                            };
                            let key = shape_key(&[3, m, n]);
                            self.watch_region(sanitizer, view, who, [Some(n), Some(m)], (touch, key), at);
                        }
                        TileOperand::Coop(coop) => {
                            if descriptor.accumulate {
                                let does = "`run` accumulates into";
                                self.want_tile(sanitizer, *coop, instance, at, |_, _| true, does);
                            }
                            self.set_tile(sanitizer, *coop, instance, true);
                        }
                    }
                }
                self.copies.wanted = false;
            }
            Inst::Convolution(conv) => self.watch_convolution(sanitizer, conv, at),
            _ => {}
        }
        Ok(())
    }

    /// The part of a tensor that a convolution's destination covers.
    fn spatial_part(&self, coop: u32) -> Option<[Range<usize>; 4]> {
        let coop = &self.shared.coops[coop as usize].coop;
        let [width, height, batch] = coop.spatial?.map(|size| size as usize);
        Some([0..coop.columns as usize, 0..width, 0..height, 0..batch])
    }

    fn watch_convolution(&mut self, sanitizer: &mut Sanitizer, conv: &Convolution, at: LocationId) {
        let d = &conv.descriptor;
        let simdgroups = conv.simdgroups as usize;
        self.watch_scope(sanitizer, simdgroups, "`run`", at);
        let sizes = d.destination.map(|size| size as usize);
        for (instance, lane) in self.active_instances(simdgroups) {
            let who = (instance, lane, simdgroups);
            // From the first to the last place that the kernel reaches, inside of the source.
            let reach = |worker: &Self, axis: usize| {
                let offset = i64::from(worker.lane_value(conv.offsets[axis], lane) as u32 as i32);
                let around = i64::from(d.kernel[axis] - 1) * i64::from(d.dilations[axis]);
                let first = offset - around / 2;
                let last = first + i64::from(d.strides[axis]) * (sizes[1 + axis] as i64 - 1) + around;
                let end = (last + 1).clamp(0, i64::from(d.source[1 + axis])) as usize;
                (first.max(0) as usize).min(end)..end
            };
            let source = [
                0..d.source[0] as usize,
                reach(self, 0),
                reach(self, 1),
                0..d.source[3] as usize,
            ];
            let key = |part: usize| shape_key(&[8 + part, sizes[0], sizes[1], sizes[2]]);
            self.watch_part(sanitizer, &conv.activation, who, source, (Touch::Read, key(0)), at);
            let weights = [
                0..sizes[0],
                0..d.source[0] as usize,
                0..d.kernel[0] as usize,
                0..d.kernel[1] as usize,
            ];
            self.watch_part(sanitizer, &conv.weights, who, weights, (Touch::Read, key(1)), at);
            match &conv.destination {
                TileOperand::View(view) => {
                    let touch = if d.accumulate { Touch::Both } else { Touch::Write };
                    let part = sizes.map(|size| 0..size);
                    self.watch_part(sanitizer, view, who, part, (touch, key(2)), at);
                }
                TileOperand::Coop(coop) => {
                    if d.accumulate {
                        let does = "`run` accumulates into";
                        self.want_tile(sanitizer, *coop, instance, at, |_, _| true, does);
                    }
                    self.set_tile(sanitizer, *coop, instance, true);
                }
            }
        }
    }

    /// As [`Worker::watch_region`], for views of rank 4.
    fn watch_part(
        &mut self,
        sanitizer: &mut Sanitizer,
        view: &View,
        (instance, lane, simdgroups): (usize, usize, usize),
        part: [Range<usize>; 4],
        (touch, key): (Touch, u32),
        at: LocationId,
    ) {
        let kind = match touch {
            Touch::Read => AccessKind::Read,
            _ => AccessKind::Write,
        };
        let actor = Actor::tile(instance, simdgroups, key);
        for run in self.runs4(view, lane, kind, part) {
            let Some(space) = self.watched_space(run.pointer) else {
                return;
            };
            self.watch_run(sanitizer, space, (run.address, run.bytes), (actor, touch), at);
        }
    }

    /// Tells the layouts of tiles apart; a destination has the key that a product into memory has.
    fn tile_key(&self, coop: u32) -> u32 {
        let info = &self.shared.coops[coop as usize].coop;
        let d = &info.descriptor;
        if info.role == anymetal_ir::CoopRole::Destination {
            return shape_key(&[3, d.m as usize, d.n as usize]);
        }
        shape_key(&[4 + info.role as usize, info.rows as usize, info.columns as usize, CHUNK])
    }
}

/// The part of a view that a tile covers.
fn clip(rank: usize, columns: usize, rows: usize) -> [Option<usize>; 2] {
    if rank == 1 {
        [Some(columns * rows), Some(1)]
    } else {
        [Some(columns), Some(rows)]
    }
}
