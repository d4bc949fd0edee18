//! Pairs of instructions that become one: a load and the only operation that uses what it loads, which may read memory where it lies;
//! an operation whose only use is the local that it sets, which may write the local's register; and a load of several values for a store of
//! them, as when a tile is brought to threadgroup memory, which need not go through registers.
//!
//! All save passes over the lanes and an instruction. Neighbours are joined, so that nothing happens between the two; between a load and the
//! store of its values may be what computes the store's address.

use super::classify::Class;
use super::lower::Virtual;
use super::operands::Role;
use super::program::{Access, Block, Copy, Dot, Inst, LoadDot, Operation, Reg, SetLocal};
use crate::lanes::Isa;

/// Joins what can be joined, before registers are placed.
pub(super) fn fuse(body: &mut Block, vregs: &mut Vec<Virtual>, isa: Isa) {
    let mut uses = vec![0u32; vregs.len()];
    count(body, &mut uses);
    join_loads(body, vregs, &uses, isa);
    let fuse = Fuse { vregs, uses };
    fuse.block(body);
}

/// Joins loads with chains over what they load.
fn join_loads(block: &mut Block, vregs: &mut Vec<Virtual>, uses: &[u32], isa: Isa) {
    super::load_dot::join(block, vregs, uses, isa);
    for (inst, _) in &mut block.insts {
        // Bodies of maps have operands of their own, tiles.
        if !matches!(inst, Inst::CoopMap { .. }) {
            inst.blocks()
                .into_iter()
                .for_each(|nested| join_loads(nested, vregs, uses, isa));
        }
    }
}

/// How many operands each register is.
fn count(block: &mut Block, uses: &mut [u32]) {
    for (inst, _) in &mut block.insts {
        inst.visit(&mut |reg, role| {
            if role == Role::Use {
                uses[reg.at as usize] += 1;
            }
        });
        for nested in inst.blocks() {
            count(nested, uses);
        }
    }
}

struct Fuse<'v> {
    vregs: &'v [Virtual],
    uses: Vec<u32>,
}

impl Fuse<'_> {
    fn block(&self, block: &mut Block) {
        let mut out: Vec<(Inst, anymetal_ir::LocationId)> = Vec::with_capacity(block.insts.len());
        for (mut inst, location) in std::mem::take(&mut block.insts) {
            // Bodies of maps have operands of their own, tiles.
            if !matches!(inst, Inst::CoopMap { .. }) {
                inst.blocks().into_iter().for_each(|nested| self.block(nested));
            }
            if let Some(copies) = self.copy(&mut out, &inst) {
                out.push((Inst::Copy(copies), location));
                continue;
            }
            let before = out.last();
            if let Some((joined, at)) =
                before.and_then(|(last, at)| self.of_memory(last, *at, &inst).map(|inst| (inst, location)))
            {
                out.pop();
                out.push((joined, at));
            } else if let Some((joined, at)) = out
                .last()
                .and_then(|(last, at)| self.local_instead(last, &inst).map(|inst| (inst, *at)))
            {
                out.pop();
                out.push((joined, at));
            } else {
                out.push((inst, location));
            }
        }
        block.insts = out;
    }

    fn is_plain(&self, reg: Reg) -> bool {
        self.vregs[reg.at as usize].class == Class::Plain
    }

    /// A store and the load whose values it stores, if these have no other use and only registers are computed between the two, or
    /// loaded, or copied likewise: such copies join this one. The load and these copies are taken out of what comes before.
    fn copy(&self, before: &mut Vec<(Inst, anymetal_ir::LocationId)>, inst: &Inst) -> Option<Vec<Copy>> {
        let Inst::Store(store) = inst else { return None };
        if store.values.len() < 2 || store.predicate.is_some() {
            return None;
        }
        let (mut copies, mut loads) = (None, false);
        let mut at = before.len();
        let (load, location) = loop {
            at = at.checked_sub(1)?;
            match &before[at] {
                (Inst::Load(load), location) if load.values.contains(&store.values[0]) => break (load, *location),
                // Its loads come before its stores, and so does this one. No load may come between its stores and this one.
                (Inst::Copy(_), _) if copies.is_none() && !loads => copies = Some(at),
                (Inst::Load(_), _) => loads = true,
                (Inst::Op1 { .. } | Inst::Op2 { .. } | Inst::Op3 { .. } | Inst::Affine { .. }, _) => {}
                _ => return None,
            }
        };
        let alone = |reg: &Reg| self.is_plain(*reg) && self.uses[reg.at as usize] == 1;
        let fits = load.values == store.values && load.size == store.size;
        if !fits || load.boolean || load.predicate.is_some() || !load.values.iter().all(alone) {
            return None;
        }
        let copy = Copy {
            load: Access::clone(load),
            location,
            store: Access::clone(store),
        };
        let mut all = match copies.map(|at| before.remove(at).0) {
            Some(Inst::Copy(copies)) => copies,
            _ => Vec::new(),
        };
        before.remove(at);
        all.push(copy);
        Some(all)
    }

    /// An operation on what `load` loads, if it is the only one.
    fn of_memory(&self, load: &Inst, location: anymetal_ir::LocationId, inst: &Inst) -> Option<Inst> {
        let Inst::Load(access) = load else { return None };
        let [value] = access.values[..] else { return None };
        if access.boolean || access.predicate.is_some() || !self.is_plain(value) {
            return None;
        }
        let (operation, out, operands) = match *inst {
            Inst::Op1 { f, out, a } => (Operation::One(f), out, [a, a, a]),
            Inst::Op2 { f, out, a, b } => (Operation::Two(f), out, [a, b, b]),
            Inst::Op3 { f, out, a, b, c } => (Operation::Three(f), out, [a, b, c]),
            _ => return None,
        };
        let here = operands[..operation.operands()]
            .iter()
            .filter(|&&operand| operand == value)
            .count();
        if here == 0 || here as u32 != self.uses[value.at as usize] {
            return None;
        }
        Some(Inst::OfMemory {
            access: access.clone(),
            location,
            operation,
            out,
            operands,
        })
    }

    /// A set of a local by one of the chains before it.
    fn local_instead_of_chain(&self, load: &LoadDot, last: &Inst, set: SetLocal) -> Option<Inst> {
        let SetLocal { local, value, .. } = set;
        let chain = load.dots.iter().position(|dot| dot.out == value)?;
        // Chains before and after it do not look at the local, nor do its own steps.
        let reads = |(at, dot): (usize, &Dot)| {
            let after = dot.after.iter().flat_map(|after| after.operands());
            let after = after.map(|mut factor| *factor.reg());
            dot.terms.iter().any(|term| term.x == local)
                || (at != chain && (dot.sum == local || after.into_iter().any(|reg| reg == local)))
        };
        if load.dots.iter().enumerate().any(reads) {
            return None;
        }
        let mut direct = load.clone();
        direct.dots[chain].out = local;
        Some(Inst::SetLocal {
            direct: Box::new(Inst::LoadDot(Box::new(direct))),
            apart: Box::new(last.clone()),
            sets: vec![set],
        })
    }

    /// A set of a local by the operation before it, if that has no other use.
    fn local_instead(&self, last: &Inst, inst: &Inst) -> Option<Inst> {
        let Inst::LocalSet {
            blend, local, value, ..
        } = *inst
        else {
            return None;
        };
        let (mine, other) = (self.vregs[local.at as usize], self.vregs[value.at as usize]);
        if self.uses[value.at as usize] != 1 || mine.class != other.class || mine.class == Class::Uniform {
            return None;
        }
        let set = SetLocal { blend, local, value };
        // The other element of a matrix.
        if let Inst::SetLocal { direct, apart, sets } = last {
            let Inst::SimdgroupMatrixMultiply {
                out: [first, second], ..
            } = **direct
            else {
                return None;
            };
            if second != value || first == local {
                return None;
            }
            let (mut direct, mut sets) = (direct.clone(), sets.clone());
            if let Inst::SimdgroupMatrixMultiply { out, .. } = &mut *direct {
                out[1] = local;
            }
            sets.push(set);
            return Some(Inst::SetLocal {
                direct,
                apart: apart.clone(),
                sets,
            });
        }
        let mut direct = last.clone();
        let out = match &mut direct {
            Inst::Op1 { out, .. } | Inst::Op2 { out, .. } | Inst::Op3 { out, .. } | Inst::OfMemory { out, .. } => out,
            Inst::Affine { out, kind, .. } if !matches!(kind, super::program::AffineKind::Compare(_)) => out,
            // Operands are read before elements are written.
            Inst::SimdgroupMatrixMultiply { out, .. } => &mut out[0],
            // A step of a chain is read after the sum is written.
            // What a chain reads besides its first sum and what comes after it, it reads once the local is written.
            Inst::LoadDot(load) => return self.local_instead_of_chain(load, last, set),
            Inst::Dot(dot) if dot.terms.iter().all(|term| term.word != local && term.x != local) => &mut dot.out,
            _ => return None,
        };
        if *out != value {
            return None;
        }
        *out = local;
        Some(Inst::SetLocal {
            direct: Box::new(direct),
            apart: Box::new(last.clone()),
            sets: vec![set],
        })
    }
}
