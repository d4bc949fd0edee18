//! Lowering of control flow, and where values and locals live in the order of instructions.

use std::collections::{HashMap, HashSet};

use anymetal_ir::{Block as IrBlock, Kernel, LocalId, Op, ValueId};

use super::classify::MapId;
use super::dot::Waiting;
use super::lower::Lower;
use super::program::{AffineKind, Block, Comparison, Inst, Lanes, Reg};
use crate::fault::CompileError;

/// Positions of definitions, last uses and sets of locals, in program order; a use in a loop that does not hold the
/// definition counts as a use at the loop's end.
#[derive(Default)]
pub(super) struct Positions {
    defined: Vec<u32>,
    last_use: Vec<u32>,
    uses: Vec<u32>,
    sets: HashMap<(LocalId, MapId), Vec<u32>>,
    gets: HashMap<LocalId, HashSet<MapId>>,
}

struct Scan<'p> {
    positions: &'p mut Positions,
    at: u32,
    map: MapId,
    maps: MapId,
    /// Start of each loop around, and the values to extend to its end.
    loops: Vec<(u32, Vec<ValueId>)>,
}

impl Positions {
    pub fn of(kernel: &Kernel) -> Self {
        let count = kernel.values.len();
        let mut positions = Positions {
            defined: vec![0; count],
            last_use: vec![0; count],
            uses: vec![0; count],
            ..Positions::default()
        };
        let mut scan = Scan {
            positions: &mut positions,
            at: 1,
            map: 0,
            maps: 0,
            loops: Vec::new(),
        };
        scan.block(&kernel.body);
        positions
    }

    /// How many operands a value is.
    pub fn uses(&self, value: ValueId) -> u32 {
        self.uses[value.index()]
    }

    /// True if the local does not change between a read of it and the last use of what was read.
    pub fn can_alias(&self, local: LocalId, map: MapId, read: ValueId) -> bool {
        let (from, to) = (self.defined[read.index()], self.last_use[read.index()]);
        match self.sets.get(&(local, map)) {
            Some(sets) => {
                let after = sets.partition_point(|&at| at <= from);
                // The set that uses the value itself reads before it writes.
                sets.get(after).is_none_or(|&at| at >= to)
            }
            None => true,
        }
    }

    pub fn is_set_in(&self, local: LocalId, map: MapId) -> bool {
        self.sets.contains_key(&(local, map))
    }

    /// True if a local is read in more than one map, or in a map and outside.
    pub fn outlives_map(&self, local: LocalId) -> bool {
        self.gets.get(&local).is_some_and(|maps| maps.len() > 1)
    }
}

impl Scan<'_> {
    fn block(&mut self, block: &IrBlock) {
        for inst in &block.insts {
            let at = self.at;
            self.at += 1;
            let (loops, positions) = (&mut self.loops, &mut *self.positions);
            inst.op.for_each_operand(|value| {
                let index = value.index();
                positions.last_use[index] = positions.last_use[index].max(at);
                positions.uses[index] += 1;
                // The outermost loop that began after the definition.
                if let Some((_, extend)) = loops.iter_mut().find(|(start, _)| *start > positions.defined[index]) {
                    extend.push(value);
                }
            });
            for result in inst.results() {
                self.positions.defined[result.index()] = at;
            }
            match &inst.op {
                Op::LocalSet { local, .. } => self.positions.sets.entry((*local, self.map)).or_default().push(at),
                Op::LocalGet(local) => {
                    self.positions.gets.entry(*local).or_default().insert(self.map);
                }
                _ => {}
            }
            let is_loop = matches!(inst.op, Op::Loop { .. });
            let is_map = matches!(inst.op, Op::CoopMap { .. });
            let outer = self.map;
            if is_map {
                self.maps += 1;
                self.map = self.maps;
            }
            if is_loop {
                self.loops.push((at, Vec::new()));
            }
            for block in inst.op.blocks().into_iter().flatten() {
                self.block(block);
            }
            self.map = outer;
            if is_loop && let Some((_, extend)) = self.loops.pop() {
                let end = self.at;
                self.at += 1;
                for value in extend {
                    let last = &mut self.positions.last_use[value.index()];
                    *last = (*last).max(end);
                }
            }
        }
    }
}

/// True if control may leave `block` for a construct `level` or more breakable constructs outside of it, or for good.
fn leaves(block: &IrBlock, level: u32) -> bool {
    block.insts.iter().any(|inst| match &inst.op {
        Op::Return => true,
        Op::Break(n) | Op::Continue(n) => *n >= level,
        Op::If { then, otherwise, .. } => leaves(then, level) || leaves(otherwise, level),
        Op::Loop { body, latch, .. } => leaves(body, level + 1) || leaves(latch, level + 1),
        Op::Scope { body } => leaves(body, level + 1),
        _ => false,
    })
}

fn cost(block: &mut Block) -> u64 {
    let mut total = block.insts.len() as u64;
    for (inst, _) in &mut block.insts {
        for nested in inst.blocks() {
            total += cost(nested);
        }
    }
    total
}

impl<'k> Lower<'k> {
    /// Lowers a block.
    pub fn block(&mut self, block: &'k IrBlock) -> Result<Block, CompileError> {
        self.fresh_block(|lower| {
            let side = usize::from(lower.map != 0);
            lower.deepest[side] = lower.deepest[side].max(lower.depth);
            for inst in &block.insts {
                lower.inst(inst)?;
                if inst.op.is_terminator() {
                    // Nothing after it runs.
                    break;
                }
            }
            // What still waits has no use.
            lower.waiting = Waiting::default();
            Ok(std::mem::take(&mut lower.out))
        })
    }

    fn nested(&mut self, block: &'k IrBlock) -> Result<Block, CompileError> {
        let location = self.location;
        self.depth += 1;
        let result = self.block(block);
        self.depth -= 1;
        self.location = location;
        result
    }

    /// Takes the comparison that was just lowered into the branch that it is for.
    fn take_comparison(&mut self, condition: Reg) -> Option<Box<Comparison>> {
        let (
            Inst::Affine {
                kind: AffineKind::Compare(op),
                ty,
                lanes: Lanes::Two(f),
                out,
                a,
                b,
            },
            _,
        ) = self.out.insts.last()?
        else {
            return None;
        };
        if *out != condition {
            return None;
        }
        let comparison = Comparison {
            op: *op,
            ty: *ty,
            f: *f,
            a: *a,
            b: *b,
        };
        self.out.insts.pop();
        Some(Box::new(comparison))
    }

    /// Lowers an instruction of control flow.
    pub fn control(&mut self, op: &'k Op) -> Result<(), CompileError> {
        let depth = self.depth;
        match op {
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                let single = self.positions.uses(*condition) == 1;
                let condition = self.value(*condition)?;
                let compare = if single { self.take_comparison(condition) } else { None };
                let leaves = leaves(then, 0) || leaves(otherwise, 0);
                let inst = Inst::If {
                    condition,
                    compare,
                    then: self.nested(then)?,
                    otherwise: self.nested(otherwise)?,
                    depth,
                    leaves,
                };
                self.push(inst);
            }
            Op::Loop { body, latch, .. } => {
                let leaves = leaves(body, 1) || leaves(latch, 1);
                let (mut body, mut latch) = (self.nested(body)?, self.nested(latch)?);
                let cost = 1 + cost(&mut body) + cost(&mut latch);
                self.push(Inst::Loop {
                    body,
                    latch,
                    depth,
                    leaves,
                    cost,
                });
            }
            Op::Scope { body } => {
                let leaves = leaves(body, 1);
                let body = self.nested(body)?;
                self.push(Inst::Scope { body, depth, leaves });
            }
            Op::Break(level) => self.push(Inst::Break(*level)),
            Op::Continue(level) => self.push(Inst::Continue(*level)),
            Op::Return => self.push(Inst::Return),
            _ => return Err(self.malformed("not control flow")),
        }
        // What the nested blocks set may have changed what was computed before.
        Ok(())
    }
}
