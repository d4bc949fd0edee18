//! Scalar replacement: lane-private arrays that are only accessed at constant offsets, always as the same scalars, become
//! locals.

use std::collections::HashMap;

use crate::builder::fold;
use crate::kernel::{Block, Inst, Kernel, Local};
use crate::op::{Const, Op};
use crate::types::{AddressSpace, LocalId, MemoryId, Type, ValueId};

/// Objects with more elements than this stay in memory.
const MAX_ELEMENTS: usize = 256;

/// Replaces what can be replaced; returns true if something changed.
pub fn run(kernel: &mut Kernel) -> bool {
    if !kernel.memory.iter().any(|object| object.space == AddressSpace::Thread) {
        return false;
    }
    let mut found = Found {
        kernel,
        constants: HashMap::new(),
        places: HashMap::new(),
        spoiled: kernel
            .memory
            .iter()
            .map(|object| object.space != AddressSpace::Thread)
            .collect(),
        elements: vec![HashMap::new(); kernel.memory.len()],
    };
    found.block(&kernel.body);
    let Found {
        places,
        mut spoiled,
        elements,
        ..
    } = found;
    let mut locals: HashMap<(MemoryId, i64), LocalId> = HashMap::new();
    for (i, elements) in elements.iter().enumerate() {
        if spoiled[i] {
            continue;
        }
        let mut sorted: Vec<(i64, Type)> = elements.iter().map(|(at, ty)| (*at, *ty)).collect();
        sorted.sort_unstable_by_key(|(at, _)| *at);
        let overlaps = sorted.windows(2).any(|pair| pair[0].0 + size(pair[0].1) > pair[1].0);
        let outside = sorted
            .iter()
            .any(|(at, ty)| *at < 0 || (*at + size(*ty)) as u64 > kernel.memory[i].size);
        if overlaps || outside || sorted.len() > MAX_ELEMENTS {
            spoiled[i] = true;
            continue;
        }
        for (at, ty) in sorted {
            let name = format!("{}+{at}", kernel.memory[i].name);
            kernel.locals.push(Local { name, ty });
            let local = LocalId(kernel.locals.len() as u32 - 1);
            locals.insert((MemoryId(i as u32), at), local);
        }
    }
    if locals.is_empty() {
        return false;
    }
    let mut body = std::mem::take(&mut kernel.body);
    rewrite(&mut body, &places, &locals, kernel);
    kernel.body = body;
    true
}

fn size(ty: Type) -> i64 {
    match ty {
        Type::Scalar(scalar) => i64::from(scalar.size()),
        Type::Pointer(_) => 8,
    }
}

struct Found<'a> {
    kernel: &'a Kernel,
    constants: HashMap<ValueId, Const>,
    /// Pointers to a known byte of an object.
    places: HashMap<ValueId, (MemoryId, i64)>,
    spoiled: Vec<bool>,
    elements: Vec<HashMap<i64, Type>>,
}

impl Found<'_> {
    fn block(&mut self, block: &Block) {
        for inst in &block.insts {
            self.inst(inst);
            for inner in inst.op.blocks().into_iter().flatten() {
                self.block(inner);
            }
        }
    }

    fn spoil(&mut self, value: ValueId) {
        if let Some((id, _)) = self.places.get(&value) {
            self.spoiled[id.index()] = true;
        }
    }

    fn access(&mut self, pointer: ValueId, types: impl Iterator<Item = Type>) {
        let Some(&(id, at)) = self.places.get(&pointer) else {
            return;
        };
        let mut at = at;
        for ty in types {
            if *self.elements[id.index()].entry(at).or_insert(ty) != ty {
                self.spoiled[id.index()] = true;
            }
            at += size(ty);
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Const(value) => {
                self.constants.insert(inst.first, *value);
            }
            Op::MemoryPointer(id) => {
                self.places.insert(inst.first, (*id, 0));
            }
            Op::PointerOffset { pointer, offset } => {
                match (self.places.get(pointer), self.constants.get(offset)) {
                    (Some(&(id, at)), Some(constant)) => {
                        let at = at.saturating_add(fold::to_int(*constant) as i64);
                        // Far outside is outside; sums cannot overflow then.
                        self.places.insert(inst.first, (id, at.clamp(-(1 << 40), 1 << 40)));
                    }
                    (Some(_), None) => self.spoil(*pointer),
                    _ => {}
                }
            }
            Op::Load { pointer, ty, count, .. } => self.access(*pointer, std::iter::repeat_n(*ty, *count as usize)),
            Op::Store { pointer, values, .. } => {
                let kernel = self.kernel;
                self.access(*pointer, values.iter().map(|value| kernel.ty(*value)));
                values.iter().for_each(|value| self.spoil(*value));
            }
            op => {
                let mut operands = Vec::new();
                op.for_each_operand(|value| operands.push(value));
                operands.into_iter().for_each(|value| self.spoil(value));
            }
        }
    }
}

fn rewrite(
    block: &mut Block,
    places: &HashMap<ValueId, (MemoryId, i64)>,
    locals: &HashMap<(MemoryId, i64), LocalId>,
    kernel: &Kernel,
) {
    let insts = std::mem::take(&mut block.insts);
    for mut inst in insts {
        for inner in inst.op.blocks_mut().into_iter().flatten() {
            rewrite(inner, places, locals, kernel);
        }
        let local = |pointer: ValueId, at: i64| {
            let (id, base) = places.get(&pointer)?;
            locals.get(&(*id, base + at)).copied()
        };
        match &inst.op {
            Op::Load { pointer, ty, .. } if local(*pointer, 0).is_some() => {
                for (i, value) in inst.results().enumerate() {
                    let Some(local) = local(*pointer, i as i64 * size(*ty)) else {
                        continue;
                    };
                    block.insts.push(Inst {
                        op: Op::LocalGet(local),
                        first: value,
                        count: 1,
                        location: inst.location,
                    });
                }
            }
            Op::Store { pointer, values, .. } if local(*pointer, 0).is_some() => {
                let mut at = 0;
                for &value in values {
                    if let Some(local) = local(*pointer, at) {
                        block.insts.push(Inst {
                            op: Op::LocalSet { local, value },
                            first: value,
                            count: 0,
                            location: inst.location,
                        });
                    }
                    at += size(kernel.ty(value));
                }
            }
            _ => block.insts.push(inst),
        }
    }
}
