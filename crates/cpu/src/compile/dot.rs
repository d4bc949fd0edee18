//! Chains of multiply-adds with codes cut out of words become one instruction ([`crate::lanes::dot`]).
//!
//! The parts of a code, `float((word >> shift) & mask)` or the decoding of four bits, are not lowered where they stand but where they are
//! used; a multiply-add that uses one begins a chain, or goes on with the chain that its sum is. What anything else asks for is lowered
//! then. A local's register may stand for a value read before, so nothing waits across a set or past the end of a block.
//!
//! Bytes that lie in whole words are loaded as words, and cut out of them too. A half cut out of a word is widened in one instruction.

use std::collections::HashMap;

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, BinaryOp, Inst as IrInst, MathMode, Op, Scalar, Type, ValueId};

use super::classify::Class;
use super::lower::Lower;
use super::program::{Access, Dot, DotTerm, Factor, Inst, Reg};
use crate::fault::CompileError;
use crate::lanes::dot::{self, After, Code};
use crate::lanes::load_dot::MAX_ENDS;
use crate::lanes::{convert, float, int};

/// What waits for its use.
#[derive(Default)]
pub(super) struct Waiting<'k> {
    /// Parts of codes, each used once.
    codes: HashMap<ValueId, &'k IrInst>,
    /// Products with a code, each used once, which a chain may begin with.
    starts: HashMap<ValueId, &'k IrInst>,
    chains: HashMap<ValueId, Chain>,
    bytes: HashMap<ValueId, Byte>,
    /// Halves cut out of a word: the word and the lowest bit. Each is used once.
    halves: HashMap<ValueId, (Reg, u32)>,
    /// Products with such a half, each used once.
    products: HashMap<ValueId, [Factor; 2]>,
}

struct Chain {
    sum: Reg,
    terms: Vec<DotTerm>,
    /// All steps are fast.
    fast: bool,
    /// What is done with the sum, which ends the chain.
    after: Vec<After<Factor>>,
    location: anymetal_ir::LocationId,
}

/// A byte of a word that was loaded.
struct Byte {
    word: Reg,
    shift: u32,
    /// Uses that have not been cut out of the word.
    left: u32,
}

/// A 32-bit word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Value(ValueId),
    Register(Reg),
}

/// Bits cut out of a word: `(word >> shift) & mask`.
#[derive(Clone, Copy)]
struct Cut {
    word: Word,
    shift: u32,
    mask: u32,
}

/// A product with a code that waits.
#[derive(Clone, Copy)]
struct Step {
    of: ValueId,
    x: ValueId,
    cut: Cut,
    code: Code,
}

impl<'k> Lower<'k> {
    /// Takes an instruction that can wait. True if it did.
    pub(super) fn wait(&mut self, inst: &'k IrInst) -> Result<bool, CompileError> {
        let result = inst.first;
        let varies = inst.count > 0 && self.classes.values[result.index()] == Class::Plain;
        if !varies {
            return Ok(false);
        }
        let once = self.positions.uses(result) == 1;
        match &inst.op {
            Op::Binary {
                op: BinaryOp::Shr | BinaryOp::And,
                lhs,
                rhs,
                ..
            } if once && self.known(*rhs).is_some() => {
                let word = matches!(self.scalar(*lhs), Scalar::U32 | Scalar::I32);
                Ok(word && self.codes_with(inst) || self.cuts_with(inst))
            }
            Op::Convert {
                operand,
                to,
                saturate: false,
            } if once => match to {
                Scalar::F32 if self.scalar(*operand) == Scalar::F16 => self.half_of_word(result, *operand),
                Scalar::F32 => Ok(self.cut(*operand).is_some() && self.codes_with(inst)),
                Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::I32 => Ok(self.cuts_with(inst)),
                _ => Ok(false),
            },
            Op::Bitcast {
                operand,
                to: Type::Scalar(Scalar::F16),
            } if once => Ok(self.cut(*operand).is_some_and(|cut| cut.mask == 0xffff) && self.codes_with(inst)),
            Op::Decode {
                operand,
                format: ElementFormat::Fp4E2M1,
            } if once => Ok(self.cut(*operand).is_some_and(|cut| cut.mask == 15) && self.codes_with(inst)),
            Op::Binary {
                op: BinaryOp::Mul,
                lhs,
                rhs,
                ..
            } if once && self.scalar(*lhs) == Scalar::F32 => {
                let product = self.code(*lhs).is_some() || self.code(*rhs).is_some();
                if product {
                    self.waiting.starts.insert(result, inst);
                    return Ok(true);
                }
                self.wait_for_product(result, *lhs, *rhs)
            }
            Op::Binary {
                op: BinaryOp::Add,
                lhs,
                rhs,
                ..
            } if self.scalar(*lhs) == Scalar::F32 => match self.last_use_of_chain(*lhs, *rhs) {
                Some((chain, other)) => {
                    let other = self.factor(other)?;
                    self.goes_on(result, chain, After::Plus(other))
                }
                None => Ok(false),
            },
            Op::Ternary {
                op: anymetal_ir::TernaryOp::Fma,
                a,
                b,
                c,
                mode,
            } if self.scalar(*a) == Scalar::F32 => self.wait_for_chain(inst, [*a, *b, *c], *mode == MathMode::Fast),
            Op::Load {
                pointer,
                ty: Type::Scalar(Scalar::U8),
                count,
                align,
            } => self.load_as_words(inst, *pointer, *count, *align),
            _ => Ok(false),
        }
    }

    /// A multiply-add that goes on with a chain, or begins one.
    fn wait_for_chain(&mut self, inst: &'k IrInst, [a, b, c]: [ValueId; 3], fast: bool) -> Result<bool, CompileError> {
        let Some(step) = self.step(a, b) else {
            return self.wait_for_end(inst.first, [a, b, c]);
        };
        let last_use = self.positions.uses(c) == 1;
        let room = |chain: &Chain| chain.terms.len() < dot::MAX_TERMS && chain.after.is_empty();
        let chain = if last_use && self.waiting.chains.get(&c).is_some_and(room) {
            self.waiting.chains.remove(&c)
        } else {
            None
        };
        let first = match self.waiting.starts.get(&c) {
            Some(IrInst {
                op: Op::Binary { lhs, rhs, mode, .. },
                location,
                ..
            }) if last_use => self
                .step(*lhs, *rhs)
                .map(|first| (first, *mode == MathMode::Fast, *location)),
            _ => None,
        };
        let mut chain = match (chain, first) {
            (Some(chain), _) => chain,
            (None, Some((first, fast, location))) => {
                self.waiting.starts.remove(&c);
                // x · code + (−0) is x · code, its sign included.
                let sum = self.constant(4, u64::from((-0f32).to_bits()));
                Chain {
                    sum,
                    terms: vec![self.term(first)?],
                    fast,
                    after: Vec::new(),
                    location,
                }
            }
            (None, None) => Chain {
                sum: self.value(c)?,
                terms: Vec::new(),
                fast,
                after: Vec::new(),
                location: inst.location,
            },
        };
        let term = self.term(step)?;
        chain.terms.push(term);
        chain.fast &= fast;
        self.waiting.chains.insert(inst.first, chain);
        Ok(true)
    }

    /// A waiting chain among two values, of which this is the last use, and the other value.
    fn last_use_of_chain(&self, a: ValueId, b: ValueId) -> Option<(ValueId, ValueId)> {
        let last = |value: ValueId| {
            let chain = self.waiting.chains.get(&value);
            let here = self.map == 0 && self.watch.is_none();
            here && a != b && self.positions.uses(value) == 1 && chain.is_some_and(|chain| chain.after.len() < MAX_ENDS)
        };
        match (last(a), last(b)) {
            (true, _) => Some((a, b)),
            (false, true) => Some((b, a)),
            (false, false) => None,
        }
    }

    /// Lets what is done with a chain's sum wait with it.
    fn goes_on(&mut self, result: ValueId, chain: ValueId, after: After<Factor>) -> Result<bool, CompileError> {
        let Some(mut chain) = self.waiting.chains.remove(&chain) else {
            return Err(self.malformed("a chain that is not there"));
        };
        chain.after.push(after);
        self.waiting.chains.insert(result, chain);
        Ok(true)
    }

    /// A value as an operand of what is done with a sum. It does not wait any longer.
    fn factor(&mut self, value: ValueId) -> Result<Factor, CompileError> {
        match self.waiting.halves.remove(&value) {
            Some((word, shift)) => Ok(Factor::Half { word, shift }),
            None => self.value(value).map(Factor::Reg),
        }
    }

    /// A product of a chain's sum, or of a half of a word.
    fn wait_for_product(&mut self, result: ValueId, a: ValueId, b: ValueId) -> Result<bool, CompileError> {
        if let Some((chain, other)) = self.last_use_of_chain(a, b) {
            let other = self.factor(other)?;
            return self.goes_on(result, chain, After::Times(other));
        }
        let either = self.waiting.halves.contains_key(&a) || self.waiting.halves.contains_key(&b);
        if either && a != b {
            let product = [self.factor(a)?, self.factor(b)?];
            self.waiting.products.insert(result, product);
        }
        Ok(either && a != b)
    }

    /// A multiply-add of a chain's sum.
    fn wait_for_end(&mut self, result: ValueId, [a, b, c]: [ValueId; 3]) -> Result<bool, CompileError> {
        let Some((chain, times)) = self.last_use_of_chain(a, b).filter(|&(chain, _)| chain != c) else {
            return Ok(false);
        };
        let times = self.factor(times)?;
        let after = match self.waiting.products.remove(&c) {
            Some([x, y]) => After::TimesPlusProduct(times, x, y),
            None => After::TimesPlus(times, self.factor(c)?),
        };
        self.goes_on(result, chain, after)
    }

    /// The product of two values, of which one is a waiting code.
    fn step(&self, a: ValueId, b: ValueId) -> Option<Step> {
        let (of, x, (cut, code)) = match (self.code(a), self.code(b)) {
            (_, Some(code)) => (b, a, code),
            (Some(code), None) => (a, b, code),
            (None, None) => return None,
        };
        Some(Step { of, x, cut, code })
    }

    fn term(&mut self, Step { of, x, cut, code }: Step) -> Result<DotTerm, CompileError> {
        self.drop_code(of, cut.word);
        Ok(DotTerm {
            word: self.word(cut.word)?,
            x: self.value(x)?,
            shift: cut.shift,
            mask: cut.mask,
            code,
        })
    }

    fn word(&mut self, word: Word) -> Result<Reg, CompileError> {
        match word {
            Word::Value(value) => self.value(value),
            Word::Register(reg) => Ok(reg),
        }
    }

    /// Lets an instruction wait.
    fn codes_with(&mut self, inst: &'k IrInst) -> bool {
        self.waiting.codes.insert(inst.first, inst);
        true
    }

    /// Lets an instruction wait if it cuts bits out of a word.
    fn cuts_with(&mut self, inst: &'k IrInst) -> bool {
        self.waiting.codes.insert(inst.first, inst);
        let cuts = self.cut(inst.first).is_some();
        if !cuts {
            self.waiting.codes.remove(&inst.first);
        }
        cuts
    }

    /// Widens the lower or upper half of a word in one instruction. True if `operand` is one.
    fn half_of_word(&mut self, result: ValueId, operand: ValueId) -> Result<bool, CompileError> {
        let Some(Op::Bitcast { operand: bits, .. }) = self.waiting.codes.get(&operand).map(|inst| &inst.op) else {
            return Ok(false);
        };
        let Some(cut) = self.cut(*bits) else {
            return Ok(false);
        };
        if convert::half_of_word(cut.shift, self.isa).is_none() {
            return Ok(false);
        }
        self.drop_code(operand, cut.word);
        let word = self.word(cut.word)?;
        if self.map != 0 || self.watch.is_some() {
            self.push_half(result, word, cut.shift)?;
        } else {
            self.waiting.halves.insert(result, (word, cut.shift));
        }
        Ok(true)
    }

    /// Widens a half of a word.
    fn push_half(&mut self, result: ValueId, word: Reg, shift: u32) -> Result<(), CompileError> {
        let f = convert::half_of_word(shift, self.isa).ok_or_else(|| self.malformed("a half of a word"))?;
        let out = self.define(result);
        self.push(Inst::Op1 { f, out, a: word });
        Ok(())
    }

    /// The register of a factor.
    fn factor_reg(&mut self, factor: Factor) -> Result<Reg, CompileError> {
        match factor {
            Factor::Reg(reg) => Ok(reg),
            Factor::Half { word, shift } => {
                let f = convert::half_of_word(shift, self.isa).ok_or_else(|| self.malformed("a half of a word"))?;
                let out = self.register(4, Class::Plain, false);
                self.push(Inst::Op1 { f, out, a: word });
                Ok(out)
            }
        }
    }

    /// Loads bytes as words, of which they are cut out. False where that is not the same: a thread's own memory lies byte by byte.
    fn load_as_words(
        &mut self,
        inst: &'k IrInst,
        pointer: ValueId,
        count: u32,
        align: u32,
    ) -> Result<bool, CompileError> {
        let space = self.kernel.ty(pointer);
        if count == 0 || !count.is_multiple_of(4) || self.watch.is_some() || self.map != 0 {
            return Ok(false);
        }
        if !matches!(space, Type::Pointer(space) if space != AddressSpace::Thread) {
            return Ok(false);
        }
        let pointer = self.value(pointer)?;
        let words: Vec<Reg> = (0..count / 4).map(|_| self.register(4, Class::Plain, false)).collect();
        for i in 0..count {
            let value = ValueId(inst.first.0 + i);
            let byte = Byte {
                word: words[i as usize / 4],
                shift: i % 4 * 8,
                left: self.positions.uses(value),
            };
            if byte.left > 0 {
                self.waiting.bytes.insert(value, byte);
            }
        }
        self.push(Inst::Load(Box::new(Access {
            pointer,
            values: words,
            size: 4,
            boolean: false,
            align,
            predicate: None,
        })));
        Ok(true)
    }

    /// The words that are stored byte by byte, if these bytes are all theirs.
    pub(super) fn stored_words(&mut self, pointer: ValueId, values: &[ValueId]) -> Option<Vec<Reg>> {
        let (groups, []) = values.as_chunks::<4>() else {
            return None;
        };
        // A thread's own memory lies byte by byte.
        if !matches!(self.kernel.ty(pointer), Type::Pointer(space) if space != AddressSpace::Thread) {
            return None;
        }
        let word = |group: &[ValueId; 4]| {
            let bytes = &self.waiting.bytes;
            let word = bytes.get(&group[0])?.word;
            let of_word = |(i, value)| {
                bytes
                    .get(value)
                    .is_some_and(|byte: &Byte| byte.word == word && byte.shift == 8 * i as u32)
            };
            group.iter().enumerate().all(of_word).then_some(word)
        };
        let words: Vec<Reg> = groups.iter().map(word).collect::<Option<_>>()?;
        values
            .iter()
            .for_each(|&value| self.drop_code(value, Word::Value(value)));
        Some(words)
    }

    /// Lowers a value that waits, if it does.
    pub(super) fn force(&mut self, value: ValueId) -> Result<(), CompileError> {
        let inst = self.waiting.codes.remove(&value);
        if let Some(inst) = inst.or_else(|| self.waiting.starts.remove(&value)) {
            let location = self.location;
            self.lower_now(inst)?;
            self.location = location;
        } else if let Some(chain) = self.waiting.chains.remove(&value) {
            let out = self.define(value);
            let f = dot::dot(self.isa, chain.terms.iter().map(|term| term.code));
            let location = std::mem::replace(&mut self.location, chain.location);
            self.push(Inst::Dot(Box::new(Dot {
                f,
                out,
                sum: chain.sum,
                terms: chain.terms,
                fast: chain.fast,
                after: chain.after,
                digits: None,
                steps: Vec::new(),
                ends: Vec::new(),
                tagged: Vec::new(),
            })));
            self.location = location;
        } else if let Some((word, shift)) = self.waiting.halves.remove(&value) {
            self.push_half(value, word, shift)?;
        } else if let Some([a, b]) = self.waiting.products.remove(&value) {
            let (a, b) = (self.factor_reg(a)?, self.factor_reg(b)?);
            let Some(float::Plan::Own(f)) = float::binary(BinaryOp::Mul, Scalar::F32, self.isa) else {
                return Err(self.malformed("a product"));
            };
            let out = self.define(value);
            self.push(Inst::Op2 { f, out, a, b });
        } else if let Some(byte) = self.waiting.bytes.remove(&value) {
            let mut word = byte.word;
            if byte.shift > 0 {
                let by = self.constant(4, u64::from(byte.shift));
                let f = int::binary(BinaryOp::Shr, Scalar::U32, self.isa)
                    .ok_or_else(|| self.malformed("a shift of a word"))?;
                word = self.register(4, Class::Plain, false);
                self.push(Inst::Op2 {
                    f,
                    out: word,
                    a: byte.word,
                    b: by,
                });
            }
            let out = self.define(value);
            let f = convert::convert(Scalar::U32, Scalar::U8, self.isa);
            self.push(Inst::Op1 { f, out, a: word });
        }
        Ok(())
    }

    /// Lowers all that waits, in the order of the source.
    pub(super) fn force_all(&mut self) -> Result<(), CompileError> {
        let waiting = &self.waiting;
        let mut values: Vec<ValueId> = waiting.codes.keys().copied().collect();
        values.extend(
            waiting
                .starts
                .keys()
                .chain(waiting.chains.keys())
                .chain(waiting.halves.keys())
                .chain(waiting.products.keys())
                .chain(waiting.bytes.keys()),
        );
        values.sort_by_key(|value| value.0);
        values.into_iter().try_for_each(|value| self.force(value))
    }

    fn known(&self, value: ValueId) -> Option<u64> {
        let reg = self.lowered(value)?;
        self.as_constant(reg)
    }

    /// The bits that a waiting instruction cuts out of a word, if as a number they are below 2³¹.
    fn cut(&self, value: ValueId) -> Option<Cut> {
        if let Some(byte) = self.waiting.bytes.get(&value) {
            return Some(Cut {
                word: Word::Register(byte.word),
                shift: byte.shift,
                mask: 0xff,
            });
        }
        let masked = |cut: Cut, mask: u32| Cut {
            mask: cut.mask & mask,
            ..cut
        };
        match &self.waiting.codes.get(&value)?.op {
            Op::Binary {
                op: BinaryOp::Shr,
                lhs,
                rhs,
                ..
            } => {
                let ty = self.scalar(*lhs);
                let by = self.known(*rhs)? as u32 % ty.bits();
                if let Some(cut) = self.cut(*lhs) {
                    // Bits that stay clear of the type's sign.
                    let positive = !ty.is_signed() || cut.mask < 1 << (ty.bits() - 1);
                    return (positive && cut.shift + by < 32).then_some(Cut {
                        word: cut.word,
                        shift: cut.shift + by,
                        mask: cut.mask >> by,
                    });
                }
                (ty == Scalar::U32 && by > 0).then_some(Cut {
                    word: Word::Value(*lhs),
                    shift: by,
                    mask: u32::MAX >> by,
                })
            }
            Op::Binary {
                op: BinaryOp::And,
                lhs,
                rhs,
                ..
            } => {
                let bits = self.known(*rhs)? as u32;
                if bits > i32::MAX as u32 {
                    return None;
                }
                if let Some(cut) = self.cut(*lhs) {
                    return Some(masked(cut, bits));
                }
                // An arithmetic shift differs above the bits that came from the word.
                if let Some(Op::Binary {
                    op: BinaryOp::Shr,
                    lhs: word,
                    rhs,
                    ..
                }) = self.waiting.codes.get(lhs).map(|inst| &inst.op)
                    && self.scalar(*word) == Scalar::I32
                {
                    let shift = self.known(*rhs)? as u32 % 32;
                    if bits <= u32::MAX >> shift {
                        return Some(Cut {
                            word: Word::Value(*word),
                            shift,
                            mask: bits,
                        });
                    }
                }
                matches!(self.scalar(*lhs), Scalar::U32 | Scalar::I32).then_some(Cut {
                    word: Word::Value(*lhs),
                    shift: 0,
                    mask: bits,
                })
            }
            Op::Convert { operand, to, .. } => {
                let most = match to {
                    Scalar::U8 => 0xff,
                    Scalar::U16 => 0xffff,
                    Scalar::U32 | Scalar::I32 => i32::MAX as u32,
                    _ => return None,
                };
                let from = self.scalar(*operand);
                match self.cut(*operand) {
                    // Bits that the operand's type does not take for a sign.
                    Some(cut) => (!from.is_signed() || cut.mask < 1 << (from.bits() - 1)).then_some(masked(cut, most)),
                    None => (to.bits() < 32 && matches!(from, Scalar::U32 | Scalar::I32)).then_some(Cut {
                        word: Word::Value(*operand),
                        shift: 0,
                        mask: most,
                    }),
                }
            }
            _ => None,
        }
    }

    /// The bits behind a waiting number, and what they are a code of.
    fn code(&self, value: ValueId) -> Option<(Cut, Code)> {
        match &self.waiting.codes.get(&value)?.op {
            Op::Convert {
                operand,
                to: Scalar::F32,
                ..
            } => self.cut(*operand).map(|cut| (cut, Code::Integer)),
            Op::Decode { operand, .. } => self.cut(*operand).map(|cut| (cut, Code::E2m1)),
            _ => None,
        }
    }

    /// Forgets the parts of a code that was cut out of `word`.
    fn drop_code(&mut self, value: ValueId, word: Word) {
        if let Some(byte) = self.waiting.bytes.get_mut(&value) {
            byte.left -= 1;
            if byte.left == 0 {
                self.waiting.bytes.remove(&value);
            }
            return;
        }
        if word == Word::Value(value) {
            return;
        }
        let Some(inst) = self.waiting.codes.remove(&value) else {
            return;
        };
        match &inst.op {
            Op::Convert { operand, .. } | Op::Decode { operand, .. } | Op::Bitcast { operand, .. } => {
                self.drop_code(*operand, word);
            }
            Op::Binary { lhs, .. } => self.drop_code(*lhs, word),
            _ => {}
        }
    }
}
