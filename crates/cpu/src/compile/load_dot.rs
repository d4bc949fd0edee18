//! A load and the chains ([`super::dot`]) over the words that it loads become one instruction ([`crate::lanes::load_dot`]).
//!
//! A chain moves up to the load if what it reads is there already, as it is where a kernel reads its activations first. Else the load waits
//! for the chain, where nothing between them but arithmetic stands: accesses keep their order.

use std::collections::{BTreeMap, HashMap, HashSet};

use anymetal_ir::LocationId;

use super::classify::Class;
use super::lower::Virtual;
use super::operands::Role;
use super::program::{Access, Block, Digits, Dot, Factor, Inst, LoadDot, Reg};
use crate::lanes::dot::Term;
use crate::lanes::load_dot::{self, Chain, MAX_CHAINS, MAX_QUADS, MAX_WORDS, Plan};
use crate::lanes::{Isa, digits};

/// Steps below which a chain is left alone.
const LEAST: usize = 4;

/// What is known of a block on the way through it.
#[derive(Default)]
struct Seen {
    /// The load of a word, by register: its place in the block.
    words: HashMap<u32, usize>,
    /// Where registers were written.
    written: HashMap<u32, usize>,
    /// Chains of each load, and their number of quads.
    chains: BTreeMap<usize, (Vec<usize>, usize)>,
}

/// What stands in a place of a block, and what comes before it.
type Place = (Vec<(Inst, LocationId)>, Option<(Inst, LocationId)>);

/// Joins what can be joined in a block, but not in those inside it. `uses` says how many operands each register is.
pub(super) fn join(block: &mut Block, vregs: &mut Vec<Virtual>, uses: &[u32], isa: Isa) {
    let Some(f) = load_dot::load_dot(isa) else { return };
    let mut seen = Seen::default();
    for at in 0..block.insts.len() {
        let inst = &mut block.insts[at].0;
        if !inst.blocks().is_empty() {
            // Locals may be written inside.
            seen.words.clear();
            continue;
        }
        match inst {
            Inst::Load(access) if takes(access, vregs) => {
                seen.words.extend(access.values.iter().map(|value| (value.at, at)));
            }
            Inst::Dot(dot) => seen.chain(at, dot, vregs),
            _ => {}
        }
        inst.visit(&mut |reg, role| {
            if role != Role::Use {
                seen.written.insert(reg.at, at);
            }
        });
    }
    // Which chains go where, by the load.
    let mut joined: BTreeMap<usize, (usize, Vec<usize>)> = BTreeMap::new();
    for (&load, (chains, _)) in &seen.chains {
        let up: Vec<usize> = seen.up(block, load, chains);
        let place = match chains.last() {
            Some(&last) if up.len() < chains.len() && may_sink(block, load, chains) => (last, chains.clone()),
            _ => (load, up),
        };
        if !place.1.is_empty() {
            joined.insert(load, place);
        }
    }
    if joined.is_empty() {
        return;
    }
    let mut insts: Vec<Place> = std::mem::take(&mut block.insts)
        .into_iter()
        .map(|inst| (Vec::new(), Some(inst)))
        .collect();
    for (load, (place, chains)) in joined {
        let dots = chains.iter().filter_map(|&at| match insts[at].1.take() {
            Some((Inst::Dot(dot), _)) => Some(*dot),
            _ => None,
        });
        let dots: Vec<Dot> = dots.collect();
        if let Some((Inst::Load(access), location)) = insts[load].1.take() {
            let kept = kept(&access, &dots, uses);
            let inst = Inst::LoadDot(Box::new(LoadDot {
                f,
                access: *access,
                kept,
                dots,
                plan: Plan::default(),
            }));
            insts[place].1 = Some((inst, location));
        }
    }
    make_digits(&mut insts, &seen, vregs, isa);
    block.insts = insts
        .into_iter()
        .flat_map(|(before, inst)| before.into_iter().chain(inst))
        .collect();
}

/// Uses of factors from which their digits are worth making.
const OFTEN: usize = 4;

/// Makes the digits of factors that several chains multiply by, before the first of these.
fn make_digits(insts: &mut [Place], seen: &Seen, vregs: &mut Vec<Virtual>, isa: Isa) {
    let Some(f) = digits::digits(isa) else { return };
    // Chains by their factors: (instruction, number of the chain).
    let mut by_factors: BTreeMap<Vec<u32>, Vec<(usize, usize)>> = BTreeMap::new();
    for (at, (_, inst)) in insts.iter().enumerate() {
        let Some((Inst::LoadDot(load), _)) = inst else { continue };
        for (number, dot) in load.dots.iter().enumerate() {
            if let Some(numbers) = numbers_of(dot, load) {
                let key = numbers.iter().flatten().map(|reg| reg.at).collect();
                by_factors.entry(key).or_default().push((at, number));
            }
        }
    }
    for (key, chains) in by_factors {
        let Some(&(first, number)) = chains.first().filter(|_| chains.len() >= OFTEN) else {
            continue;
        };
        // The factors are made before, and not again.
        let lasting = |reg: &u32| {
            let written = seen.written.get(reg);
            !vregs[*reg as usize].permanent && written.is_none_or(|&at| at < first)
        };
        if !key.iter().all(lasting) {
            continue;
        }
        let Some((Inst::LoadDot(load), location)) = &insts[first].1 else {
            continue;
        };
        let (Some(numbers), location) = (numbers_of(&load.dots[number], load), *location) else {
            continue;
        };
        let size = 4 * digits::words(numbers.len()) as u8;
        vregs.push(Virtual {
            size,
            class: Class::Plain,
            in_map: false,
            permanent: false,
        });
        let out = Reg {
            at: vregs.len() as u32 - 1,
            tag: Reg::PLAIN,
            size,
        };
        for (at, number) in chains {
            if let Some((Inst::LoadDot(load), _)) = &mut insts[at].1 {
                load.dots[number].digits = Some(out);
            }
        }
        let inst = Inst::Digits(Box::new(Digits {
            f,
            numbers,
            out,
            places: Vec::new(),
        }));
        insts[first].0.push((inst, location));
    }
}

/// The factors of a chain's quads, if it may be summed in integers.
fn numbers_of(dot: &Dot, load: &LoadDot) -> Option<Vec<[Reg; 4]>> {
    let word = |reg: Reg| load.access.values.iter().position(|value| *value == reg);
    let steps: Option<Vec<_>> = dot
        .terms
        .iter()
        .map(|term| Some((word(term.word)?, term.shift, term.mask)))
        .collect();
    let quads = load_dot::quads(&steps?, dot.terms.first()?.code)?;
    let numbers = quads.quads.iter().map(|(_, steps)| {
        let [a, b, c, d] = steps.map(|step| step.map(|step| dot.terms[step].x));
        Some([a?, b?, c?, d?])
    });
    numbers.collect::<Option<Vec<_>>>().filter(|_| quads.integers)
}

/// Whether a load may wait for the last of its chains: nothing between looks at the words or at the chains' sums, touches memory or gives way
/// to other lanes, or changes what the load and the chains read.
fn may_sink(block: &mut Block, load: usize, chains: &[usize]) -> bool {
    let (Some(&last), Inst::Load(access)) = (chains.last(), &block.insts[load].0) else {
        return false;
    };
    let pointer = access.pointer.at;
    // What only the load and the chains may touch, and what nothing may write.
    let mut own: HashSet<u32> = HashSet::new();
    let mut read: HashSet<u32> = HashSet::new();
    for at in [load].iter().chain(chains) {
        block.insts[*at].0.visit(&mut |reg, role| {
            match role {
                Role::Def => own.insert(reg.at),
                Role::Use | Role::Local => read.insert(reg.at),
            };
        });
    }
    for at in (load + 1..last).filter(|at| !chains.contains(at)) {
        let inst = &mut block.insts[at].0;
        let mut apart = matches!(
            inst,
            Inst::Op1 { .. } | Inst::Op2 { .. } | Inst::Op3 { .. } | Inst::Affine { .. } | Inst::Dot(_)
        );
        inst.visit(&mut |reg, role| {
            // What is made between may be read by chains after it, which are sorted.
            let late = role != Role::Use && read.contains(&reg.at) && (reg.at == pointer || chains[0] < at);
            apart &= !own.contains(&reg.at) && !late;
        });
        if !apart {
            return false;
        }
    }
    true
}

/// Whether a load may be joined with chains.
fn takes(access: &Access, vregs: &[Virtual]) -> bool {
    let plain = |reg: &Reg| vregs[reg.at as usize].class == Class::Plain;
    access.size == 4
        && !access.boolean
        && access.predicate.is_none()
        && access.values.len() <= MAX_WORDS
        && !access.pointer.is_uniform()
        && access.values.iter().all(plain)
}

/// The values that something else than the chains looks at.
fn kept(access: &Access, dots: &[Dot], uses: &[u32]) -> u32 {
    let mut kept = 0;
    for (k, value) in access.values.iter().enumerate() {
        let terms = dots.iter().flat_map(|dot| &dot.terms).map(|term| term.word);
        let halves = dots.iter().flat_map(|dot| dot.halves());
        let here = terms.chain(halves).filter(|word| word == value).count();
        if uses[value.at as usize] as usize > here {
            kept |= 1 << k;
        }
    }
    kept
}

impl Seen {
    /// Takes a chain whose words come from one load, if its steps go together.
    fn chain(&mut self, at: usize, dot: &Dot, vregs: &[Virtual]) {
        let Some(first) = dot.terms.first() else { return };
        let Some(&load) = self.words.get(&first.word.at) else {
            return;
        };
        let here = |word: Reg| self.words.get(&word.at) == Some(&load);
        let plain = |reg: Reg| vregs[reg.at as usize].class == Class::Plain;
        let fits = dot.fast
            && dot.terms.len() >= LEAST
            && plain(dot.out)
            && dot.terms.iter().all(|term| here(term.word) && term.code == first.code && plain(term.x))
            // Halves come out of the same words.
            && dot.halves().into_iter().all(here);
        if !fits {
            return;
        }
        // Any numbering of the words groups the steps alike.
        let steps = dot
            .terms
            .iter()
            .map(|term| (term.word.at as usize, term.shift, term.mask));
        let steps: Vec<_> = steps.collect();
        let Some(load_dot::Quads { quads, .. }) = load_dot::quads(&steps, first.code) else {
            return;
        };
        let (chains, total) = self.chains.entry(load).or_default();
        // Steps that seldom share a word are as well off in a loop of their own.
        if chains.len() < MAX_CHAINS && *total + quads.len() <= MAX_QUADS && quads.len() * 2 <= steps.len() {
            *total += quads.len();
            chains.push(at);
        }
    }

    /// The chains that may move up to the load, where what they read has to be.
    fn up(&self, block: &mut Block, load: usize, chains: &[usize]) -> Vec<usize> {
        let mut up = Vec::new();
        let mut sums: HashSet<u32> = HashSet::new();
        for &at in chains {
            let Inst::Dot(dot) = &mut block.insts[at].0 else {
                continue;
            };
            let (out, mut there) = (dot.out.at, true);
            dot.visit(&mut |reg, role| {
                let written = self.written.get(&reg.at);
                there &= role != Role::Use || sums.contains(&reg.at) || written.is_none_or(|&at| at <= load);
            });
            if there {
                sums.insert(out);
                up.push(at);
            }
        }
        up
    }
}

impl LoadDot {
    /// Makes the plan of the loop, once registers are placed.
    pub(super) fn place_steps(&mut self) {
        let word_of = |reg: Reg| {
            let values = &self.access.values;
            values.iter().position(|value| *value == reg).unwrap_or(0)
        };
        let mut used = 0;
        let mut chains = Vec::new();
        for dot in &mut self.dots {
            dot.place_steps();
            let terms: Vec<(usize, Term)> = dot
                .terms
                .iter()
                .map(|term| (word_of(term.word), term.placed()))
                .collect();
            let steps: Vec<_> = terms
                .iter()
                .map(|(word, term)| (*word, term.shift, term.mask))
                .collect();
            let Some(load_dot::Quads { kind, quads, .. }) =
                dot.terms.first().and_then(|term| load_dot::quads(&steps, term.code))
            else {
                continue;
            };
            let quads = quads.into_iter().map(|(mut quad, of)| {
                used |= 1u32 << quad.word;
                // Every quad has a step; its factor stands in for those that are missing.
                let some = of.iter().flatten().next().copied().unwrap_or(0);
                quad.x = of.map(|step| terms[step.unwrap_or(some)].1.x);
                quad
            });
            let quads = quads.collect();
            used |= dot.halves().iter().fold(0, |used, &word| used | 1 << word_of(word));
            let ends = dot.after.iter().map(|after| {
                after.map(|factor| match factor {
                    Factor::Reg(reg) => load_dot::Operand::Float(reg.place()),
                    Factor::Half { word, shift } => load_dot::Operand::Half {
                        word: word_of(word),
                        shift,
                    },
                })
            });
            let ends = ends.collect();
            chains.push(Chain {
                kind,
                quads,
                terms,
                ends,
                digits: dot.digits.map(|reg| reg.at),
            });
        }
        self.plan = Plan::new(self.access.values.len(), used, self.kept, chains);
    }
}
