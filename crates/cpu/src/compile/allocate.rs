//! Gives every virtual register its place.
//!
//! A register is free again after the last use of its value; a value that is used in a loop it was not defined in lives to the
//! loop's end. An output never takes the place of an input of the same instruction.

use std::collections::HashMap;

use super::classify::Class;
use super::lower::Virtual;
use super::operands::Role;
use super::program::{Block, Program, Reg};
use crate::lanes::CHUNK;

#[derive(Clone, Copy, Default)]
struct Interval {
    first: u32,
    last: u32,
}

struct Scan<'v> {
    at: u32,
    intervals: Vec<Interval>,
    loops: Vec<(u32, Vec<u32>)>,
    vregs: &'v [Virtual],
}

impl Scan<'_> {
    fn touch(&mut self, reg: u32, role: Role) {
        let at = self.at;
        let interval = &mut self.intervals[reg as usize];
        if interval.first == 0 {
            interval.first = at;
        }
        interval.last = interval.last.max(at);
        if role == Role::Use {
            let first = interval.first;
            if let Some((_, extend)) = self.loops.iter_mut().find(|(start, _)| *start > first) {
                extend.push(reg);
            }
        }
    }

    fn block(&mut self, block: &mut Block) {
        for (inst, _) in &mut block.insts {
            self.at += 1;
            inst.visit(&mut |reg, role| self.touch(reg.at, role));
            let loops = matches!(inst, super::program::Inst::Loop { .. })
                // A map body runs once for each chunk of elements.
                || matches!(inst, super::program::Inst::CoopMap { .. });
            if loops {
                self.loops.push((self.at, Vec::new()));
                // What is captured is defined before the body's first instruction, outside of its repetition.
                self.at += 1;
            }
            for nested in inst.blocks() {
                self.block(nested);
            }
            if loops && let Some((_, extend)) = self.loops.pop() {
                self.at += 1;
                for reg in extend {
                    let interval = &mut self.intervals[reg as usize];
                    interval.last = interval.last.max(self.at);
                }
            }
        }
    }
}

/// One register area: bytes so far, and the free places by size.
#[derive(Default)]
struct Area {
    bytes: u32,
    free: HashMap<u8, Vec<u32>>,
}

impl Area {
    fn take(&mut self, size: u8) -> u32 {
        if let Some(place) = self.free.get_mut(&size).and_then(Vec::pop) {
            return place;
        }
        let place = self.bytes.next_multiple_of(u32::from(size));
        self.bytes = place + u32::from(size);
        place
    }
}

/// Places all registers of a program and rewrites its operands.
pub(super) fn allocate(program: &mut Program, vregs: &[Virtual]) {
    let mut scan = Scan {
        at: 0,
        intervals: vec![Interval::default(); vregs.len()],
        loops: Vec::new(),
        vregs,
    };
    scan.block(&mut program.body);
    let end = scan.at + 1;
    let mut intervals = scan.intervals;
    for (interval, vreg) in intervals.iter_mut().zip(scan.vregs) {
        if vreg.permanent {
            *interval = Interval { first: 0, last: end };
        }
    }
    let mut order: Vec<u32> = (0..vregs.len() as u32).collect();
    order.sort_by_key(|&reg| intervals[reg as usize].first);
    // Areas: uniform, main, map.
    let mut areas = [Area::default(), Area::default(), Area::default()];
    let mut tags = [0u32; 2];
    let mut placed: Vec<Reg> = Vec::with_capacity(vregs.len());
    placed.resize(
        vregs.len(),
        Reg {
            at: 0,
            tag: Reg::PLAIN,
            size: 1,
        },
    );
    let mut active: std::collections::BinaryHeap<std::cmp::Reverse<(u32, u32)>> = std::collections::BinaryHeap::new();
    let area_of = |vreg: &Virtual| match vreg.class {
        Class::Uniform => 0,
        _ => 1 + usize::from(vreg.in_map),
    };
    for reg in order {
        let interval = intervals[reg as usize];
        let vreg = vregs[reg as usize];
        while let Some(&std::cmp::Reverse((last, done))) = active.peek() {
            if last >= interval.first {
                break;
            }
            active.pop();
            let done = done as usize;
            areas[area_of(&vregs[done])]
                .free
                .entry(vregs[done].size)
                .or_default()
                .push(placed[done].at / if area_of(&vregs[done]) == 0 { CHUNK as u32 } else { 1 });
        }
        let area = area_of(&vreg);
        let place = areas[area].take(vreg.size);
        placed[reg as usize] = Reg {
            at: if area == 0 { place * CHUNK as u32 } else { place },
            tag: match vreg.class {
                Class::Uniform => Reg::UNIFORM,
                Class::Plain => Reg::PLAIN,
                Class::Affine => {
                    let tag = &mut tags[area - 1];
                    *tag += 1;
                    *tag - 1
                }
            },
            size: vreg.size,
        };
        if !vreg.permanent {
            active.push(std::cmp::Reverse((interval.last, reg)));
        }
    }
    rewrite(&mut program.body, &placed);
    for (reg, _) in &mut program.constants {
        *reg = placed[reg.at as usize];
    }
    for reg in &mut program.zeroed {
        *reg = placed[reg.at as usize];
    }
    for (_, reg) in &mut program.builtins {
        *reg = placed[reg.at as usize];
    }
    for (_, reg) in &mut program.handles {
        *reg = placed[reg.at as usize];
    }
    program.uniform_bytes = areas[0].bytes.next_multiple_of(8) * CHUNK as u32;
    program.main.lane_bytes = areas[1].bytes.next_multiple_of(8);
    program.map.lane_bytes = areas[2].bytes.next_multiple_of(8);
    program.main.tags = tags[0];
    program.map.tags = tags[1];
}

fn rewrite(block: &mut Block, placed: &[Reg]) {
    for (inst, _) in &mut block.insts {
        inst.visit(&mut |reg, _| *reg = placed[reg.at as usize]);
        inst.place_steps();
        for nested in inst.blocks() {
            rewrite(nested, placed);
        }
    }
}
