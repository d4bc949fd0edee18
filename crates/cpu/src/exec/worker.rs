//! Setting up a worker for a dispatch.

use std::cell::RefCell;

use anymetal_ir::{AddressSpace, ArgumentKind};

use super::affine::Tag;
use super::arena::{Arena, Planner};
use super::mask::{Mask, SLOTS};
use super::objects::Object;
use super::strip::StripInfo;
use super::{LaneState, Shared, Tile, Worker};
use crate::compile::program::{AreaSizes, Program};
use crate::lanes::CHUNK;
use crate::launch::Traffic;
use crate::tile::Scratch;

/// Lanes of a strip of elements.
const MAP_LANES: usize = 1024;

thread_local! {
    /// What a thread keeps from one dispatch to the next.
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Kept {
    arena: Arena,
    scratch: Scratch,
    buffers: super::matmul::Buffers,
    convolution: super::convolution::Buffers,
}

/// Parts of the arena of one lane state.
struct LanePlan {
    base: usize,
    masks: usize,
    cap: usize,
    sizes: AreaSizes,
}

impl LanePlan {
    fn new(planner: &mut Planner, sizes: AreaSizes, cap: usize) -> Self {
        // One more slot for the lanes that have returned.
        let slots = (sizes.depth + 1) * SLOTS + 1;
        LanePlan {
            base: planner.take(sizes.lane_bytes as usize * cap),
            masks: planner.take(slots as usize * cap),
            cap,
            sizes,
        }
    }

    fn state(&self, arena: *mut u8) -> LaneState {
        // SAFETY: the planner placed the parts inside the arena.
        let (base, masks) = unsafe { (arena.add(self.base), arena.add(self.masks)) };
        LaneState {
            base,
            masks,
            cap: self.cap,
            chunks: 0,
            live: 0,
            width: CHUNK,
            rectangle: (1, 1),
            current: Mask::None,
            returned: Mask::None,
            returned_slot: (self.sizes.depth + 1) * SLOTS,
            frames: Vec::new(),
            tags: vec![Tag::LANES; self.sizes.tags as usize],
        }
    }
}

impl<'d> Worker<'d> {
    /// Makes a worker of this thread and lends it to `body`. `handles` and `group_bytes` are by argument.
    pub fn with<T>(
        shared: &'d Shared<'d>,
        program: &'d Program,
        handles: &[u64],
        group_bytes: &[u64],
        body: impl FnOnce(&mut Worker<'d>) -> T,
    ) -> T {
        // A dispatch from inside of another on the same thread finds nothing kept and starts anew.
        let mut kept = KEPT.with_borrow_mut(Option::take).unwrap_or_default();
        let cap = shared.plan.cap;
        let mut planner = Planner::default();
        let uniform = planner.take(program.uniform_bytes as usize);
        let main = LanePlan::new(&mut planner, program.main, cap);
        let map = LanePlan::new(&mut planner, program.map, MAP_LANES);
        let temporary = planner.take(cap.max(MAP_LANES));
        let simdgroups = cap / CHUNK;
        let tiles: Vec<(usize, Tile)> = shared
            .coops
            .iter()
            .map(|info| {
                let coop = &info.coop;
                let scope = coop.simdgroups.max(1) as usize;
                let size = coop.element.size() as usize;
                let (rows, columns) = (coop.rows as usize, coop.columns as usize);
                let stride = (rows * columns * size).next_multiple_of(64);
                let at = planner.take(stride * simdgroups.div_ceil(scope));
                let tile = Tile {
                    base: std::ptr::null_mut(),
                    stride,
                    rows,
                    columns,
                    size,
                    simdgroups: scope,
                };
                (at, tile)
            })
            .collect();
        // Threadgroup and thread memory: object, place, length and unit.
        let mut own: Vec<(usize, usize, u64, u32)> = Vec::new();
        for (at, argument) in shared.kernel.arguments.iter().enumerate() {
            if let ArgumentKind::Threadgroup { .. } = argument.kind {
                let length = group_bytes[at];
                own.push((1 + at, planner.take(length as usize), length, 0));
            }
        }
        for (at, memory) in shared.kernel.memory.iter().enumerate() {
            let number = 1 + shared.kernel.arguments.len() + at;
            match memory.space {
                AddressSpace::Threadgroup => {
                    let place = planner.take(memory.size as usize);
                    own.push((number, place, memory.size, 0));
                }
                AddressSpace::Thread => {
                    let unit = match memory.element_size {
                        1 | 2 | 4 | 8 => memory.element_size,
                        _ => 4,
                    };
                    let bytes = memory.size.next_multiple_of(u64::from(unit)) as usize;
                    own.push((number, planner.take(bytes * cap), memory.size, unit));
                }
                _ => {}
            }
        }
        let arena = kept.arena.reserve(planner.total() + 64);
        let mut objects: Vec<Object> = shared.objects.iter().map(|(object, _)| *object).collect();
        for (number, place, length, unit) in own {
            objects[number] = Object {
                // SAFETY: the planner placed it inside the arena.
                ptr: unsafe { arena.add(place) },
                length,
                writable: true,
                lane_unit: unit,
                threadgroup: unit == 0,
                streams: false,
            };
            let bytes = if unit == 0 {
                length as usize
            } else {
                length.next_multiple_of(u64::from(unit)) as usize * cap
            };
            // SAFETY: as above. What an earlier dispatch left there is not this kernel's to read.
            unsafe { objects[number].ptr.write_bytes(0, bytes) };
        }
        {
            let registry = shared.registry.read().unwrap_or_else(|e| e.into_inner());
            objects.extend(registry.objects.iter().map(|(object, _)| *object));
        }
        let mut worker = Worker {
            shared,
            program,
            // SAFETY: as above.
            uniform: unsafe { arena.add(uniform) },
            lanes: main.state(arena),
            idle: map.state(arena),
            objects,
            tiles: tiles
                .into_iter()
                .map(|(at, tile)| Tile {
                    // SAFETY: as above.
                    base: unsafe { arena.add(at) },
                    ..tile
                })
                .collect(),
            queries: vec![(0, 0); program.queries as usize],
            map: None,
            strip: StripInfo::default(),
            budget: 0,
            traffic: shared.options.traffic.then(Traffic::default),
            sanitizer: shared
                .sanitize
                .map(|options| Box::new(crate::sanitize::Sanitizer::new(options))),
            // SAFETY: as above.
            temporary: unsafe { arena.add(temporary) },
            tile_scratch: std::mem::take(&mut kept.scratch),
            matmul_buffer: std::mem::take(&mut kept.buffers),
            convolution_buffer: std::mem::take(&mut kept.convolution),
            known_left: Default::default(),
            known_right: Default::default(),
            copies: Default::default(),
        };
        for &(reg, bits) in &program.constants {
            worker.set_all(reg, bits);
        }
        for &(argument, reg) in &program.handles {
            worker.set_all(reg, handles[argument as usize]);
        }
        let result = body(&mut worker);
        super::stream::fence();
        kept.scratch = std::mem::take(&mut worker.tile_scratch);
        kept.buffers = std::mem::take(&mut worker.matmul_buffer);
        kept.convolution = std::mem::take(&mut worker.convolution_buffer);
        drop(worker);
        KEPT.set(Some(kept));
        result
    }

    /// Counted bytes, when they are counted.
    pub fn counted(&self) -> Option<Traffic> {
        self.traffic
    }
}
