//! Operands of a map body that are tiles themselves.
//!
//! A body that runs straight through reads elements and sets elements, one instruction each, with arithmetic between them.
//! Where an element is only an operand of that arithmetic, the loop of the operation reads the tile where it lies, and
//! where a result is only set, it writes the tile: nothing is copied to a register and back. An operation may change a
//! tile in place, since loops read a chunk before they write it.

use super::classify::Class;
use super::lower::Virtual;
use super::operands::Role;
use super::program::{Block, Inst, Place, Reg};
use crate::lanes::CHUNK;

/// What is known of a tile: elements of one instance, and whether it has the shape that the map runs over.
pub(super) struct TileShape {
    pub elements: usize,
    pub same: bool,
}

/// The places of an arithmetic instruction: output and operands.
fn operation(inst: &Inst) -> Option<(Reg, Vec<Reg>)> {
    Some(match inst {
        Inst::Op1 { out, a, .. } => (*out, vec![*a]),
        Inst::Op2 { out, a, b, .. } => (*out, vec![*a, *b]),
        Inst::Op3 { out, a, b, c, .. } => (*out, vec![*a, *b, *c]),
        _ => return None,
    })
}

/// Rewrites a body; false if there was nothing to rewrite. `shape` tells what a tile is.
pub(super) fn in_place(body: &mut Block, vregs: &[Virtual], shape: impl Fn(u32) -> TileShape) -> bool {
    let straight = body.insts.iter_mut().all(|(inst, _)| {
        inst.blocks().is_empty() && !matches!(inst, Inst::Break(_) | Inst::Continue(_) | Inst::Return)
    });
    if !straight {
        return false;
    }
    // Whole chunks only: the last one of a tile must not reach into what comes after it.
    let whole = |coop: u32| {
        let shape = shape(coop);
        shape.same && shape.elements.is_multiple_of(CHUNK)
    };
    let plain = |reg: Reg| vregs[reg.at as usize].class == Class::Plain && vregs[reg.at as usize].in_map;
    let mut uses: std::collections::HashMap<u32, Vec<usize>> = std::collections::HashMap::new();
    for (at, (inst, _)) in body.insts.iter_mut().enumerate() {
        inst.visit(&mut |reg, role| {
            if role != Role::Def {
                uses.entry(reg.at).or_default().push(at);
            }
        });
    }
    let uses_of = |reg: Reg| uses.get(&reg.at).map_or(&[][..], Vec::as_slice);
    let insts = &body.insts;
    let sets = |coop: u32| {
        insts
            .iter()
            .enumerate()
            .filter(move |(_, (inst, _))| matches!(inst, Inst::CoopElementSet { coop: set, .. } if *set == coop))
            .map(|(at, _)| at)
    };

    // Reads: the register is used by arithmetic only, before the tile is set.
    let mut reads: Vec<(usize, u32, Reg, usize)> = Vec::new();
    let mut copies: Vec<(usize, u32)> = Vec::new();
    for (at, (inst, _)) in insts.iter().enumerate() {
        let Inst::CoopElement { coop, out, .. } = inst else {
            continue;
        };
        let last = uses_of(*out).iter().copied().max().unwrap_or(at);
        let arithmetic = uses_of(*out).iter().all(|&at| operation(&insts[at].0).is_some());
        if whole(*coop) && plain(*out) && arithmetic && sets(*coop).all(|set| set < at || set > last) {
            reads.push((at, *coop, *out, last));
        } else {
            copies.push((at, *coop));
        }
    }
    // Writes: the value is an operation's result with no other use, and the tile is not read between the two.
    let mut writes: Vec<(usize, usize, u32)> = Vec::new();
    for (at, (inst, _)) in insts.iter().enumerate() {
        let Inst::CoopElementSet { coop, value } = inst else {
            continue;
        };
        let made = insts[..at]
            .iter()
            .position(|(inst, _)| operation(inst).is_some_and(|(out, _)| out == *value));
        let Some(made) = made else { continue };
        let unread = reads.iter().all(|&(_, read, _, last)| read != *coop || last <= made)
            && copies.iter().all(|&(copy, read)| read != *coop || copy < made);
        if whole(*coop) && plain(*value) && uses_of(*value).len() == 1 && sets(*coop).count() == 1 && unread {
            writes.push((at, made, *coop));
        }
    }
    if reads.is_empty() && writes.is_empty() {
        return false;
    }
    let place = |reg: Reg| match reads.iter().find(|(_, _, out, _)| *out == reg) {
        Some(&(_, coop, ..)) => Place::Tile(coop),
        None => Place::Reg(reg),
    };
    let mut out = Vec::with_capacity(insts.len());
    for (at, (inst, location)) in std::mem::take(&mut body.insts).into_iter().enumerate() {
        let gone = reads.iter().any(|&(read, ..)| read == at) || writes.iter().any(|&(set, ..)| set == at);
        if gone {
            continue;
        }
        let written = writes
            .iter()
            .find(|&&(_, made, _)| made == at)
            .map(|&(_, _, coop)| coop);
        let target = |reg: Reg| written.map_or(Place::Reg(reg), Place::Tile);
        let touches = written.is_some()
            || operation(&inst)
                .is_some_and(|(_, operands)| operands.iter().any(|&reg| matches!(place(reg), Place::Tile(_))));
        let inst = match inst {
            Inst::Op1 { f, out, a } if touches => Inst::Map1 {
                f,
                out: target(out),
                a: place(a),
            },
            Inst::Op2 { f, out, a, b } if touches => Inst::Map2 {
                f,
                out: target(out),
                a: place(a),
                b: place(b),
            },
            Inst::Op3 { f, out, a, b, c } if touches => Inst::Map3 {
                f,
                out: target(out),
                a: place(a),
                b: place(b),
                c: place(c),
            },
            other => other,
        };
        out.push((inst, location));
    }
    body.insts = out;
    true
}
