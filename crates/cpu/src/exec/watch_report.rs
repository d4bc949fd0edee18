//! What the sanitizer says of an access to shared memory: races and reads of what nobody wrote.

use anymetal_ir::{Finding, FindingCode, LocationId, Spot};

use super::Worker;
use super::watch::Place;
use crate::sanitize::shadow::{Met, Stamp, Touch};
use crate::sanitize::{Sanitizer, Space};

impl<'d> Worker<'d> {
    /// How messages call the bytes at a pointer.
    pub(super) fn call(&self, address: usize) -> String {
        let inside = |object: &&super::objects::Object| {
            object.lane_unit == 0
                && (object.ptr as usize..object.ptr as usize + object.length as usize).contains(&address)
        };
        let found = self
            .objects
            .iter()
            .enumerate()
            .skip(1)
            .find(|(_, object)| inside(object));
        let Some((number, object)) = found else {
            return "memory".to_string();
        };
        let name = self.shared.name(number);
        let offset = address - object.ptr as usize;
        let size = name.element_size.max(1) as usize;
        if size > 1 || object.length == 1 {
            format!("`{}[{}]`", name.name, offset / size)
        } else {
            format!("`{}` at byte {offset}", name.name)
        }
    }

    /// Makes findings of what an access met.
    pub(super) fn judge(&mut self, sanitizer: &mut Sanitizer, place: &Place, met: Met, stamp: &Stamp, touch: Touch) {
        if met.fresh && touch != Touch::Write && place.space == Space::Threadgroup {
            self.fresh_threadgroup(sanitizer, place, stamp);
        }
        if let Some((earlier, wrote)) = met.race {
            self.race(sanitizer, place, met.at, (earlier, wrote), stamp, touch);
        }
    }

    fn fresh_threadgroup(&mut self, sanitizer: &mut Sanitizer, place: &Place, stamp: &Stamp) {
        let code = FindingCode::UninitialisedThreadgroup;
        if !sanitizer.is_new(code, stamp.location, LocationId::default()) {
            return;
        }
        let name = if place.name.is_empty() {
            self.call(place.address)
        } else {
            place.name.clone()
        };
        let kernel = self.shared.kernel;
        sanitizer.report(Finding {
            code,
            kernel: kernel.name.clone(),
            message: format!("threadgroup memory {name} is read before anything was written there"),
            spot: Spot::new(
                &kernel.locations,
                stamp.location,
                format!("{} reads {name} here", stamp.actor.describe()),
            ),
            related: Vec::new(),
            notes: vec![format!(
                "threadgroup memory holds arbitrary bytes when a threadgroup starts{}",
                self.in_group(stamp)
            )],
            help:
                "write it first: let the threads fill the array, then `threadgroup_barrier(mem_flags::mem_threadgroup)`"
                    .to_string(),
            count: 1,
        });
    }

    fn in_group(&self, stamp: &Stamp) -> String {
        let [x, y, z] = self.group_position(stamp.group);
        format!(" (here: threadgroup ({x}, {y}, {z}))")
    }

    fn group_position(&self, group: u32) -> [u32; 3] {
        let [x, y, _] = self.shared.plan.groups;
        let at = group.saturating_sub(1);
        [at % x.max(1), at / x.max(1) % y.max(1), at / x.max(1) / y.max(1)]
    }

    fn race(
        &mut self,
        sanitizer: &mut Sanitizer,
        place: &Place,
        at: usize,
        (earlier, wrote): (Stamp, bool),
        stamp: &Stamp,
        touch: Touch,
    ) {
        let between_groups = earlier.group != stamp.group;
        let code = match (place.space, between_groups) {
            (Space::Threadgroup, _) => FindingCode::ThreadgroupRace,
            (Space::Device, false) => FindingCode::DeviceRace,
            (Space::Device, true) => FindingCode::GroupRace,
        };
        if !sanitizer.is_new(code, stamp.location, earlier.location) {
            return;
        }
        let weak = sanitizer.space(place.space).weak;
        let kernel = self.shared.kernel;
        let locations = &kernel.locations;
        let name = if place.name.is_empty() {
            self.call(place.address + at)
        } else {
            place.name.clone()
        };
        let (space, flag) = match place.space {
            Space::Threadgroup => ("threadgroup", "mem_flags::mem_threadgroup"),
            Space::Device => ("device", "mem_flags::mem_device"),
        };
        let verb = |writes: bool, atomic: bool| match (writes, atomic) {
            (true, true) => "changes atomically",
            (true, false) => "writes",
            (false, true) => "reads atomically",
            (false, false) => "reads",
        };
        let writes = touch != Touch::Read;
        let who = |stamp: &Stamp| {
            let mut text = stamp.actor.describe();
            if between_groups {
                let [x, y, z] = self.group_position(stamp.group);
                text += &format!(" of threadgroup ({x}, {y}, {z})");
            }
            text
        };
        let lines = if wrote && writes {
            "both write it"
        } else {
            "one of them writes it"
        };
        let message = if between_groups {
            format!("data race on {space} memory {name}: two threadgroups of one dispatch access it and {lines}")
        } else {
            format!("data race on {space} memory {name}: nothing orders two accesses and {lines}")
        };
        let again = stamp.location == earlier.location;
        let mut notes = Vec::new();
        let same_simdgroup =
            earlier.actor.simdgroup().is_some() && earlier.actor.simdgroup() == stamp.actor.simdgroup();
        if !between_groups {
            notes.push(if same_simdgroup {
                format!(
                    "both are in SIMD-group {}{}; its threads are not promised to run in lock-step",
                    earlier.actor.simdgroup().unwrap_or(0),
                    self.in_group(stamp)
                )
            } else {
                format!("they are in different SIMD-groups{}", self.in_group(stamp))
            });
        }
        let mut related = Vec::new();
        if !again {
            related.push(Spot::new(
                locations,
                earlier.location,
                format!("{} {} it here", who(&earlier), verb(wrote, earlier.atomic)),
            ));
        } else {
            notes.push(format!("the other access is by {}, at the same place", who(&earlier)));
        }
        let useless = weak.filter(|weak| weak.tick > earlier.tick && !between_groups);
        if let Some(weak) = useless {
            related.push(Spot::new(
                locations,
                weak.location,
                format!("this barrier does not order {space} memory"),
            ));
        }
        let barrier = if same_simdgroup && place.space == Space::Threadgroup {
            format!("`simdgroup_barrier({flag})`")
        } else {
            format!("`threadgroup_barrier({flag})`")
        };
        let (line, other) = (locations.get(stamp.location).line, locations.get(earlier.location).line);
        let help = if between_groups {
            "threadgroups run in any order: give each its own elements, use atomics, or split the work into two dispatches"
                .to_string()
        } else if useless.is_some() {
            format!("give the barrier {flag}, or add {barrier}")
        } else if again {
            let loops = if earlier.tick == stamp.tick {
                String::new()
            } else {
                format!("; if the two are iterations of a loop, put {barrier} between")
            };
            match stamp.actor.index() {
                Some(_) => format!(
                    "give each thread its own element, let one thread do it (`if (thread_index == 0)`), or use an atomic{loops}"
                ),
                None => format!("give each SIMD-group a tile of its own, or let one do it{loops}"),
            }
        } else if other >= line {
            format!("put {barrier} where the loop starts over, between the two accesses")
        } else {
            format!("put {barrier} between the two lines")
        };
        sanitizer.report(Finding {
            code,
            kernel: kernel.name.clone(),
            message,
            spot: Spot::new(
                locations,
                stamp.location,
                format!("{} {} {name} here", who(stamp), verb(writes, stamp.atomic)),
            ),
            related,
            notes,
            help,
            count: 1,
        });
    }
}
