//! Chains of [`super::dot`] over words that are cut up where they lie: each lane's words come from memory straight into registers, a chunk
//! at a time, so neither words nor codes nor partial sums are stored between.
//!
//! The steps of a chain are gathered into *quads*, which cut the same bits out of the four bytes of a word. Numbers are left where they
//! stand in the word, `code · 2⁸ʲ` for byte `j`: each byte has a sum of its own, which is scaled at the end. So steps are added in another
//! order than the chain's, which only fast math allows, and the scaled sums may overflow where the chain does not: a result that is not
//! finite is computed again step by step.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use super::digits::{self, DIGITS};
use super::dot::{After, Areas, Code, Place, Term};
use super::{CHUNK, Isa, Src};

/// Most words of an access.
pub(crate) const MAX_WORDS: usize = 16;
/// Most quads of all chains of an access.
pub(crate) const MAX_QUADS: usize = 16;
/// Most of what is done with a chain's sum.
pub(crate) const MAX_ENDS: usize = 3;
/// Most chains of an access.
pub(crate) const MAX_CHAINS: usize = 4;

/// Most quads that are added in integers of 16 bits, in which two products of each meet: 2 · 8 · 15 · 128 is below 2¹⁵.
const MAX_DIGITS: usize = 8;
/// The same for E2M1, whose numbers are doubled and 12 added to make them 0 to 24: 2 · 5 · 24 · 128.
const MAX_DIGITS_E2M1: usize = 5;

/// Lanes that go together, and those of a vector of [`Sixteen`].
const GROUP: usize = CHUNK;
const HALF: usize = 16;

/// Where the words of each lane lie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows {
    /// A fixed distance apart.
    Strided { from: *const u8, stride: isize },
    /// A fixed distance apart in each run of `width` lanes, a multiple of 16, and `down` from one run to the next.
    Plane {
        from: *const u8,
        across: isize,
        down: isize,
        width: usize,
    },
    /// Behind a pointer of each lane, whose low 48 bits count from `start`.
    Pointers { start: *const u8, pointers: *const u64 },
}

impl Rows {
    /// Address of a lane's first word.
    #[inline(always)]
    fn of(&self, lane: usize) -> *const u8 {
        const LOW: u64 = (1 << 48) - 1;
        match *self {
            Rows::Strided { from, stride } => from.wrapping_offset(lane as isize * stride),
            Rows::Plane {
                from,
                across,
                down,
                width,
            } => from.wrapping_offset((lane % width) as isize * across + (lane / width) as isize * down),
            // SAFETY: there is a pointer for each live lane.
            Rows::Pointers { start, pointers } => start.wrapping_add(unsafe { *pointers.add(lane) & LOW } as usize),
        }
    }

    /// The distance from lane to lane in sixteen, if there is one.
    #[inline(always)]
    fn step(&self) -> Option<isize> {
        match *self {
            Rows::Strided { stride, .. } => Some(stride),
            Rows::Plane { across, .. } => Some(across),
            Rows::Pointers { .. } => None,
        }
    }
}

/// What the numbers of a chain are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// All eight nibbles of each word: quads come in pairs, low and high.
    Nibbles,
    /// Integers, none of which reaches the word's highest bit.
    Low,
    /// Integers.
    Whole,
    E2m1,
}

/// Steps that cut the same bits out of bytes of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quad {
    pub word: usize,
    /// Of the word, before the masks.
    pub shift: u32,
    /// Byte by byte, zero where there is no step.
    pub masks: [u32; 4],
    /// Factors; any of the chain's where there is no step.
    pub x: [Place; 4],
}

/// A chain.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub kind: Kind,
    pub quads: Vec<Quad>,
    /// The same in the chain's order; `word` is not looked at.
    pub terms: Vec<(usize, Term)>,
    /// What is done with the sum.
    pub ends: Vec<After<Operand>>,
    /// Where the factors' digits ([`super::digits`]) lie, in bytes a lane, if they have been made.
    pub digits: Option<u32>,
}

/// An operand of what is done with a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Float(Place),
    /// The half of a word of the access whose lowest bit is bit 0 or 16.
    Half {
        word: usize,
        shift: u32,
    },
}

/// The lanes of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    pub rows: Rows,
    pub count: usize,
    /// Bytes of a lane.
    pub bytes: usize,
    /// Where memory is likely to be read next, in bytes after what is read now; 0 where it is not.
    pub ahead: usize,
}

/// How the words of an access are used.
#[derive(Clone, Default, Debug)]
pub(crate) struct Plan {
    /// First word and number of words of what is loaded at once: 4, 2 or 1.
    pub blocks: Vec<(usize, usize)>,
    /// Words that something else looks at too.
    pub kept: Vec<usize>,
    pub chains: Vec<Chain>,
}

impl Plan {
    /// How those of `words` words are loaded that chains use, `kept` ones among them (both sets of bits).
    pub fn new(words: usize, used: u32, kept: u32, chains: Vec<Chain>) -> Plan {
        let mut blocks = Vec::new();
        let mut left = used | kept;
        // Four at once where three or more of them are wanted, then two, then one.
        for count in [4, 2, 1] {
            for first in 0..(words + 1).saturating_sub(count) {
                let block = ((1u32 << count) - 1) << first;
                if (left & block).count_ones() as usize * 2 > count {
                    left &= !block;
                    blocks.push((first, count));
                }
            }
        }
        Plan {
            blocks,
            kept: (0..words).filter(|word| kept >> word & 1 != 0).collect(),
            chains,
        }
    }
}

/// Gathers the steps of a chain, as (word of the access, shift, mask), into quads: their word, shift and masks, and the step of each byte.
/// `None` where they do not go together.
pub(crate) fn quads(steps: &[(usize, u32, u32)], code: Code) -> Option<Quads> {
    let mut quads: Vec<(Quad, u32, [Option<usize>; 4])> = Vec::new();
    for (at, &(word, shift, mask)) in steps.iter().enumerate() {
        let (byte, shift) = (shift as usize / 8, shift % 8);
        let same = |(quad, of, steps): &&mut (Quad, u32, [Option<usize>; 4])| {
            quad.word == word && quad.shift == shift && *of == mask && steps[byte].is_none()
        };
        let (quad, steps) = match quads.iter_mut().find(same) {
            Some((quad, _, steps)) => (quad, steps),
            None => {
                let quad = Quad {
                    word,
                    shift,
                    masks: [0; 4],
                    x: [Place::Uniform(0); 4],
                };
                quads.push((quad, mask, [None; 4]));
                let (quad, _, steps) = quads.last_mut()?;
                (quad, steps)
            }
        };
        // Bits beyond the word are zero.
        quad.masks[byte] = (u64::from(mask) << (8 * byte)) as u32 & (u32::MAX >> shift);
        steps[byte] = Some(at);
    }
    quads.sort_by_key(|(quad, ..)| (quad.word, quad.shift));
    let whole = |quad: &Quad| quad.shift <= 4 && quad.masks == [0x0f, 0x0f00, 0x0f_0000, 0x0f00_0000];
    let pairs = quads.chunks(2).all(|pair| match pair {
        [(low, 15, _), (high, 15, _)] => {
            low.word == high.word && low.shift == 0 && high.shift == 4 && whole(low) && whole(high)
        }
        _ => false,
    });
    let most = match code {
        Code::Integer => MAX_DIGITS,
        Code::E2m1 => MAX_DIGITS_E2M1,
    };
    let integers = quads.len() <= most && quads.iter().all(|(quad, mask, _)| *mask == 15 && whole(quad));
    let kind = match code {
        Code::Integer if pairs => Kind::Nibbles,
        Code::Integer if quads.iter().all(|(quad, ..)| quad.masks[3] >> 31 == 0) => Kind::Low,
        Code::Integer => Kind::Whole,
        Code::E2m1 => Kind::E2m1,
    };
    let nibbles = |(quad, mask, steps): &(Quad, u32, [Option<usize>; 4])| {
        quad.shift <= 4 && *mask == 15 && steps.iter().all(Option::is_some)
    };
    // Codes that are wider than their byte and begin in the lowest ones would reach the highest bit there too.
    let apart = |(quad, ..): &(Quad, u32, [Option<usize>; 4])| quad.masks[..3].iter().all(|mask| mask >> 31 == 0);
    if !quads.iter().all(|quad| match kind {
        Kind::E2m1 => nibbles(quad),
        Kind::Nibbles => true,
        Kind::Low | Kind::Whole => apart(quad),
    }) {
        return None;
    }
    let quads = quads.into_iter().map(|(quad, _, steps)| (quad, steps)).collect();
    Some(Quads { kind, integers, quads })
}

/// The steps of a chain.
#[derive(Debug)]
pub(crate) struct Quads {
    pub kind: Kind,
    /// They may be added in integers, given their factors' digits.
    pub integers: bool,
    /// Each quad, and the step of each of its bytes.
    pub quads: Vec<(Quad, [Option<usize>; 4])>,
}

/// The loop: lanes, where registers lie, what is done, where kept words go, and output and first sum of each chain.
pub(crate) type LoadDotFn = unsafe fn(&Lanes, &Areas, &Plan, &[*mut u32], &[(*mut u8, Src)]);

/// The loop for an instruction set, where there is one.
pub(crate) fn load_dot(isa: Isa) -> Option<LoadDotFn> {
    match isa {
        Isa::Portable => None,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => Some(x86::load_dot_avx2),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Some(x86::load_dot_avx512),
    }
}

/// Asks for a cache line.
#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address makes fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// The words of a group: word `k` of lane `i` is `[k][i]`.
#[repr(align(64))]
struct Words(UnsafeCell<MaybeUninit<[[u32; GROUP]; MAX_WORDS]>>);

impl Words {
    /// The lanes of a word. Those that a plan's blocks have are written before they are read.
    #[inline(always)]
    fn lanes(&self, word: usize) -> *mut u32 {
        self.0.get().cast::<u32>().wrapping_add(word % MAX_WORDS * GROUP)
    }
}

/// A group's first sums and steps in the chain's own order.
#[cold]
unsafe fn in_order(words: &Words, terms: &[(usize, Term)], areas: &Areas, chunk: usize, sums: &mut [f32; GROUP]) {
    for (word, term) in terms {
        // SAFETY: the caller has the chunk readable in all operands.
        let (x, words) = unsafe {
            (
                &*areas.chunk(term.x, chunk).cast::<[f32; GROUP]>(),
                &*words.lanes(*word).cast::<[u32; GROUP]>(),
            )
        };
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = x[i].mul_add(term.number(words[i]), *sum);
        }
    }
}

/// Sixteen lanes of an instruction set. No closure may stand around its operations: it would be compiled for plain instructions.
trait Sixteen {
    type Words: Copy;
    type Floats: Copy;
    /// What [`Self::e2m1`] is scaled by, inverted.
    const E2M1_SCALE: f32;

    unsafe fn none() -> Self::Words;
    unsafe fn words(from: *const u32) -> Self::Words;
    unsafe fn store_words(to: *mut u32, words: Self::Words);
    unsafe fn floats(from: *const f32) -> Self::Floats;
    unsafe fn store(to: *mut f32, floats: Self::Floats);
    unsafe fn splat(value: f32) -> Self::Floats;
    unsafe fn right(words: Self::Words, by: u32) -> Self::Words;
    unsafe fn and(words: Self::Words, mask: u32) -> Self::Words;
    /// Signed integers as numbers.
    unsafe fn numbers(words: Self::Words) -> Self::Floats;
    /// The low nibbles of the four bytes as numbers of E2M1, scaled.
    unsafe fn e2m1(words: Self::Words) -> [Self::Floats; 4];
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn fma(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
    /// None is NaN.
    unsafe fn are_numbers(floats: Self::Floats) -> bool;
    /// Four words of each lane, transposed.
    unsafe fn four(from: impl Fn(usize) -> *const u8) -> [Self::Words; 4];
    unsafe fn two(from: impl Fn(usize) -> *const u8) -> [Self::Words; 2];
    unsafe fn one(from: impl Fn(usize) -> *const u8) -> Self::Words;
    /// Two words of each lane, which follow each other, as lanes do.
    unsafe fn pairs(from: *const u8) -> [Self::Words; 2];
    /// Five words of each lane likewise.
    unsafe fn five(from: *const u8) -> [Self::Words; 5];
    /// The halves in the low bits of words that have no others, as numbers.
    unsafe fn halves(words: Self::Words) -> Self::Floats;
    unsafe fn mul(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Adds products of unsigned and signed bytes, two by two, to integers of 16 bits.
    unsafe fn add_products(codes: Self::Words, digits: Self::Words, sums: Self::Words) -> Self::Words;
    /// The sum of both integers of 16 bits.
    unsafe fn both(sums: Self::Words) -> Self::Words;
    /// a − 12 · b
    unsafe fn less_twelve(a: Self::Words, b: Self::Words) -> Self::Words;
    /// Bytes below 16 as codes of E2M1: twice the number and 12.
    unsafe fn risen(codes: Self::Words) -> Self::Words;
}

/// Loads the blocks of half a group.
#[inline(always)]
unsafe fn load_blocks<V: Sixteen>(plan: &Plan, from: impl Fn(usize) -> *const u8, words: &Words, half: usize) {
    // SAFETY: by the contract of the loop.
    unsafe {
        for &(first, count) in &plan.blocks {
            let from = |i: usize| from(i).wrapping_add(4 * first);
            match count {
                4 => {
                    for (k, column) in V::four(from).into_iter().enumerate() {
                        V::store_words(words.lanes(first + k).add(half), column);
                    }
                }
                2 => {
                    for (k, column) in V::two(from).into_iter().enumerate() {
                        V::store_words(words.lanes(first + k).add(half), column);
                    }
                }
                _ => V::store_words(words.lanes(first).add(half), V::one(from)),
            }
        }
    }
}

/// A chain's first sum and steps for half a group.
#[inline(always)]
unsafe fn steps<V: Sixteen>(
    kind: Kind,
    quads: &[Quad],
    x: &[[*const f32; 4]],
    words: &Words,
    lane: usize,
    first: V::Floats,
) -> V::Floats {
    // SAFETY: by the contract of the loop.
    unsafe {
        let mut sums = [V::splat(0.0); 4];
        if kind != Kind::E2m1 {
            sums[0] = first;
        }
        match kind {
            Kind::Nibbles => {
                for (pair, x) in quads.chunks_exact(2).zip(x.chunks_exact(2)) {
                    let low = V::words(words.lanes(pair[0].word).add(lane % GROUP));
                    for (word, x) in [(low, &x[0]), (V::right(low, 4), &x[1])] {
                        for (j, sum) in sums.iter_mut().enumerate() {
                            let number = V::numbers(V::and(word, 0x0f << (8 * j)));
                            *sum = V::fma(V::floats(x[j].wrapping_add(lane)), number, *sum);
                        }
                    }
                }
            }
            _ => {
                for (quad, x) in quads.iter().zip(x) {
                    let mut word = V::words(words.lanes(quad.word).add(lane % GROUP));
                    if quad.shift > 0 {
                        word = V::right(word, quad.shift);
                    }
                    let mut numbers = [V::splat(0.0); 4];
                    match kind {
                        Kind::E2m1 => numbers = V::e2m1(word),
                        _ => {
                            for (j, number) in numbers.iter_mut().enumerate() {
                                *number = V::numbers(match kind {
                                    // Clear of the sign.
                                    Kind::Whole if j == 3 => V::and(V::right(word, 1), quad.masks[3] >> 1),
                                    _ => V::and(word, quad.masks[j]),
                                });
                            }
                        }
                    }
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = V::fma(V::floats(x[j].wrapping_add(lane)), numbers[j], *sum);
                    }
                }
            }
        }
        let [a, b, c, d] = sums;
        let power = |n: u32| 1.0 / (1u32 << n) as f32;
        match kind {
            Kind::E2m1 => V::fma(V::add(V::add(a, b), V::add(c, d)), V::splat(V::E2M1_SCALE), first),
            Kind::Nibbles | Kind::Low | Kind::Whole => {
                let top = if kind == Kind::Whole { 23 } else { 24 };
                let low = V::fma(b, V::splat(power(8)), a);
                V::fma(V::fma(d, V::splat(power(top - 16)), c), V::splat(power(16)), low)
            }
        }
    }
}

/// A chain's first sum and steps for half a group, in integers, given the digits of the group.
#[inline(always)]
unsafe fn integer_steps<V: Sixteen>(
    kind: Kind,
    quads: &[Quad],
    digits: *const u32,
    words: &Words,
    half: usize,
    first: V::Floats,
) -> V::Floats {
    // SAFETY: by the contract of the loop.
    unsafe {
        let mut sums = [V::none(); DIGITS];
        let mut at = digits.add(half);
        if kind == Kind::Nibbles {
            for pair in quads.chunks_exact(2) {
                let word = V::words(words.lanes(pair[0].word).add(half));
                for codes in [V::and(word, 0x0f0f_0f0f), V::and(V::right(word, 4), 0x0f0f_0f0f)] {
                    for sum in &mut sums {
                        *sum = V::add_products(codes, V::words(at), *sum);
                        at = at.add(CHUNK);
                    }
                }
            }
        } else {
            for quad in quads {
                let word = V::words(words.lanes(quad.word).add(half));
                let mut codes = V::and(V::right(word, quad.shift), 0x0f0f_0f0f);
                if kind == Kind::E2m1 {
                    codes = V::risen(codes);
                }
                for sum in &mut sums {
                    *sum = V::add_products(codes, V::words(at), *sum);
                    at = at.add(CHUNK);
                }
            }
        }
        let mut numbers = [V::splat(0.0); DIGITS];
        for (number, sum) in numbers.iter_mut().zip(sums) {
            let mut sum = V::both(sum);
            if kind == Kind::E2m1 {
                sum = V::less_twelve(sum, V::words(at));
            }
            *number = V::numbers(sum);
            at = at.add(CHUNK);
        }
        let sum = V::fma(numbers[1], V::splat(256.0), numbers[0]);
        let mut sum = V::fma(numbers[2], V::splat(65536.0), sum);
        if kind == Kind::E2m1 {
            sum = V::mul(sum, V::splat(0.5));
        }
        V::fma(sum, V::floats(at.cast()), first)
    }
}

/// An operand of what is done with a sum, as an address.
#[derive(Clone, Copy)]
struct Found {
    from: *const u8,
    /// Bytes from chunk to chunk.
    step: usize,
    /// A half of words, and its lowest bit.
    half: bool,
    shift: u32,
}

impl Found {
    const NONE: Found = Found {
        from: std::ptr::null(),
        step: 0,
        half: false,
        shift: 0,
    };

    fn new(operand: Operand, areas: &Areas, words: &Words) -> Found {
        match operand {
            Operand::Float(place) => Found {
                from: areas.chunk(place, 0),
                step: match place {
                    Place::Uniform(_) => 0,
                    Place::Varying(_) => 4 * CHUNK,
                },
                ..Found::NONE
            },
            Operand::Half { word, shift } => Found {
                from: words.lanes(word).cast(),
                half: true,
                shift,
                ..Found::NONE
            },
        }
    }
}

/// An operand of what is done with a sum, for half a group.
#[inline(always)]
unsafe fn operand<V: Sixteen>(found: Found, lane: usize) -> V::Floats {
    // SAFETY: by the contract of the loop.
    unsafe {
        let from = found.from.add(lane / CHUNK * found.step + lane % CHUNK * 4);
        match found.half {
            false => V::floats(from.cast()),
            true => V::halves(V::and(V::right(V::words(from.cast()), found.shift), 0xffff)),
        }
    }
}

/// What is done with a sum, for half a group.
#[inline(always)]
unsafe fn end<V: Sixteen>(end: After<Found>, sum: V::Floats, lane: usize) -> V::Floats {
    // SAFETY: by the contract of the loop.
    unsafe {
        match end {
            After::Times(a) => V::mul(sum, operand::<V>(a, lane)),
            After::Plus(a) => V::add(sum, operand::<V>(a, lane)),
            After::TimesPlus(a, b) => V::fma(sum, operand::<V>(a, lane), operand::<V>(b, lane)),
            After::TimesPlusProduct(a, b, c) => {
                let product = V::mul(operand::<V>(b, lane), operand::<V>(c, lane));
                V::fma(sum, operand::<V>(a, lane), product)
            }
        }
    }
}

/// # Safety
/// All words of all lanes must be readable; registers hold whole chunks; there is a destination for each kept word and an
/// output and first sum for each chain, which no factor overlaps.
#[inline(always)]
unsafe fn groups<V: Sixteen>(lanes: &Lanes, areas: &Areas, plan: &Plan, kept: &[*mut u32], ends: &[(*mut u8, Src)]) {
    let mut x = [[std::ptr::null::<f32>(); 4]; MAX_QUADS];
    let mut of_quads = x.iter_mut();
    for chain in plan.chains.iter().filter(|chain| chain.digits.is_none()) {
        for (quad, x) in chain.quads.iter().zip(&mut of_quads) {
            *x = quad.x.map(|place| areas.chunk(place, 0).cast());
        }
    }
    let words = Words(UnsafeCell::new(MaybeUninit::uninit()));
    let mut found = [After::Plus(Found::NONE); MAX_CHAINS * MAX_ENDS];
    let afters = plan.chains.iter().flat_map(|chain| &chain.ends);
    for (found, after) in found.iter_mut().zip(afters) {
        *found = after.map(|operand| Found::new(operand, areas, &words));
    }
    let rows = &lanes.rows;
    // Lanes that share a cache line.
    let together = (64 / lanes.bytes).clamp(1, HALF);
    let two = lanes.bytes == 8;
    let five = plan.blocks.len() > 1 && lanes.bytes == 20;
    let mut lane = 0;
    while lane < lanes.count {
        // SAFETY: by the function's contract; lanes beyond the last one repeat it.
        unsafe {
            for half in [0, HALF] {
                let lane = lane + half;
                match rows.step() {
                    Some(step) if lane + HALF <= lanes.count => {
                        let first = rows.of(lane);
                        if lanes.ahead > 0 {
                            // Little by little: all at once would hold up what is read now.
                            let end = HALF * lanes.bytes;
                            (0..end)
                                .step_by(64)
                                .for_each(|at| prefetch(first.wrapping_add(lanes.ahead + at)));
                        }
                        if two && step == 8 {
                            for (k, column) in V::pairs(first).into_iter().enumerate() {
                                V::store_words(words.lanes(k).add(half), column);
                            }
                        } else if five && step == 20 {
                            for (k, column) in V::five(first).into_iter().enumerate() {
                                V::store_words(words.lanes(k).add(half), column);
                            }
                        } else {
                            load_blocks::<V>(plan, |i| first.wrapping_offset(i as isize * step), &words, half);
                        }
                    }
                    _ => {
                        let mut at = [std::ptr::null(); HALF];
                        for (i, at) in at.iter_mut().enumerate() {
                            *at = rows.of((lane + i).min(lanes.count - 1));
                        }
                        if lanes.ahead > 0 {
                            at.iter()
                                .step_by(together)
                                .for_each(|at| prefetch(at.wrapping_add(lanes.ahead)));
                        }
                        load_blocks::<V>(plan, |i| at[i], &words, half);
                    }
                }
            }
            for (&word, to) in plan.kept.iter().zip(kept) {
                let from = words.lanes(word);
                V::store_words(to.add(lane), V::words(from));
                V::store_words(to.add(lane + HALF), V::words(from.add(HALF)));
            }
            let (mut x, mut found) = (&x[..], &found[..]);
            for (chain, &(out, sum)) in plan.chains.iter().zip(ends) {
                let quads = &chain.quads[..];
                let sum = sum.ptr.add(lane / CHUNK * sum.step).cast::<f32>();
                let mut sums = [V::floats(sum), V::floats(sum.add(HALF))];
                if let Some(at) = chain.digits {
                    let first = areas.lanes.add(at as usize * areas.cap).cast::<u32>();
                    let digits = first.add(lane / CHUNK * digits::words(quads.len()) * CHUNK);
                    for (h, sum) in sums.iter_mut().enumerate() {
                        *sum = match chain.kind {
                            Kind::E2m1 => integer_steps::<V>(Kind::E2m1, quads, digits, &words, HALF * h, *sum),
                            Kind::Nibbles => integer_steps::<V>(Kind::Nibbles, quads, digits, &words, HALF * h, *sum),
                            _ => integer_steps::<V>(Kind::Low, quads, digits, &words, HALF * h, *sum),
                        };
                    }
                } else {
                    for (h, sum) in sums.iter_mut().enumerate() {
                        let lane = lane + HALF * h;
                        *sum = match chain.kind {
                            Kind::Nibbles => steps::<V>(Kind::Nibbles, quads, x, &words, lane, *sum),
                            Kind::Low => steps::<V>(Kind::Low, quads, x, &words, lane, *sum),
                            Kind::Whole => steps::<V>(Kind::Whole, quads, x, &words, lane, *sum),
                            Kind::E2m1 => steps::<V>(Kind::E2m1, quads, x, &words, lane, *sum),
                        };
                    }
                    x = &x[quads.len()..];
                }
                // Infinity times zero is no number.
                let zero = V::splat(0.0);
                if !V::are_numbers(V::fma(sums[0], zero, V::mul(sums[1], zero))) {
                    let mut exact = *sum.cast::<[f32; GROUP]>();
                    in_order(&words, &chain.terms, areas, lane / CHUNK, &mut exact);
                    sums = [V::floats(exact.as_ptr()), V::floats(exact.as_ptr().add(HALF))];
                }
                for &after in &found[..chain.ends.len()] {
                    for (h, sum) in sums.iter_mut().enumerate() {
                        *sum = end::<V>(after, *sum, lane + HALF * h);
                    }
                }
                found = &found[chain.ends.len()..];
                let out = out.cast::<f32>().add(lane);
                V::store(out, sums[0]);
                V::store(out.add(HALF), sums[1]);
            }
        }
        lane += GROUP;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Areas, Lanes, Plan, Sixteen, Src, groups};
    use crate::lanes::dot::E2M1;

    /// Two vectors of eight.
    struct Avx2;

    /// Twice the numbers that E2M1 codes stand for.
    const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

    /// The same and 12.
    const RISEN: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];

    impl Sixteen for Avx2 {
        type Words = [__m256i; 2];
        type Floats = [__m256; 2];
        /// Doubled, in the highest byte.
        const E2M1_SCALE: f32 = 1.0 / (1 << 25) as f32;

        #[inline(always)]
        unsafe fn none() -> [__m256i; 2] {
            unsafe { [_mm256_setzero_si256(); 2] }
        }

        #[inline(always)]
        unsafe fn add_products(codes: [__m256i; 2], digits: [__m256i; 2], sums: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                [
                    _mm256_add_epi16(sums[0], _mm256_maddubs_epi16(codes[0], digits[0])),
                    _mm256_add_epi16(sums[1], _mm256_maddubs_epi16(codes[1], digits[1])),
                ]
            }
        }

        #[inline(always)]
        unsafe fn both(sums: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                let ones = _mm256_set1_epi16(1);
                [_mm256_madd_epi16(sums[0], ones), _mm256_madd_epi16(sums[1], ones)]
            }
        }

        #[inline(always)]
        unsafe fn less_twelve(a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                let twelve = _mm256_set1_epi32(12);
                [
                    _mm256_sub_epi32(a[0], _mm256_mullo_epi32(b[0], twelve)),
                    _mm256_sub_epi32(a[1], _mm256_mullo_epi32(b[1], twelve)),
                ]
            }
        }

        #[inline(always)]
        unsafe fn risen(codes: [__m256i; 2]) -> [__m256i; 2] {
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(RISEN.as_ptr().cast()));
                [
                    _mm256_shuffle_epi8(table, codes[0]),
                    _mm256_shuffle_epi8(table, codes[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn words(from: *const u32) -> [__m256i; 2] {
            // SAFETY (of all): the caller has sixteen lanes there, and the instruction set was detected.
            unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
        }

        #[inline(always)]
        unsafe fn store_words(to: *mut u32, words: [__m256i; 2]) {
            unsafe {
                _mm256_storeu_si256(to.cast(), words[0]);
                _mm256_storeu_si256(to.add(8).cast(), words[1]);
            }
        }

        #[inline(always)]
        unsafe fn floats(from: *const f32) -> [__m256; 2] {
            unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, floats: [__m256; 2]) {
            unsafe {
                _mm256_storeu_ps(to, floats[0]);
                _mm256_storeu_ps(to.add(8), floats[1]);
            }
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> [__m256; 2] {
            unsafe { [_mm256_set1_ps(value); 2] }
        }

        #[inline(always)]
        unsafe fn right(words: [__m256i; 2], by: u32) -> [__m256i; 2] {
            unsafe {
                let by = _mm_cvtsi32_si128(by as i32);
                [_mm256_srl_epi32(words[0], by), _mm256_srl_epi32(words[1], by)]
            }
        }

        #[inline(always)]
        unsafe fn and(words: [__m256i; 2], mask: u32) -> [__m256i; 2] {
            unsafe {
                let mask = _mm256_set1_epi32(mask as i32);
                [_mm256_and_si256(words[0], mask), _mm256_and_si256(words[1], mask)]
            }
        }

        #[inline(always)]
        unsafe fn numbers(words: [__m256i; 2]) -> [__m256; 2] {
            unsafe { [_mm256_cvtepi32_ps(words[0]), _mm256_cvtepi32_ps(words[1])] }
        }

        #[inline(always)]
        unsafe fn e2m1(words: [__m256i; 2]) -> [[__m256; 2]; 4] {
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(DOUBLED.as_ptr().cast()));
                let top = _mm256_set1_epi32(0xff << 24);
                let mut numbers = [[_mm256_setzero_ps(); 2]; 4];
                for v in 0..2 {
                    let nibbles = _mm256_and_si256(words[v], _mm256_set1_epi8(15));
                    let bytes = _mm256_shuffle_epi8(table, nibbles);
                    numbers[0][v] = _mm256_cvtepi32_ps(_mm256_slli_epi32::<24>(bytes));
                    numbers[1][v] = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_slli_epi32::<16>(bytes), top));
                    numbers[2][v] = _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_slli_epi32::<8>(bytes), top));
                    numbers[3][v] = _mm256_cvtepi32_ps(_mm256_and_si256(bytes, top));
                }
                numbers
            }
        }

        #[inline(always)]
        unsafe fn add(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
        }

        #[inline(always)]
        unsafe fn fma(a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
        }

        #[inline(always)]
        unsafe fn are_numbers(floats: [__m256; 2]) -> bool {
            unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(floats[0], floats[1])) == 0 }
        }

        #[inline(always)]
        unsafe fn four(from: impl Fn(usize) -> *const u8) -> [[__m256i; 2]; 4] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 4];
                for v in 0..2 {
                    // Lanes i and i + 4.
                    let mut rows = [_mm256_setzero_si256(); 4];
                    for (i, row) in rows.iter_mut().enumerate() {
                        let low = _mm_loadu_si128(from(8 * v + i).cast());
                        let high = _mm_loadu_si128(from(8 * v + i + 4).cast());
                        *row = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                    }
                    let low = [
                        _mm256_unpacklo_epi32(rows[0], rows[1]),
                        _mm256_unpacklo_epi32(rows[2], rows[3]),
                    ];
                    let high = [
                        _mm256_unpackhi_epi32(rows[0], rows[1]),
                        _mm256_unpackhi_epi32(rows[2], rows[3]),
                    ];
                    columns[0][v] = _mm256_unpacklo_epi64(low[0], low[1]);
                    columns[1][v] = _mm256_unpackhi_epi64(low[0], low[1]);
                    columns[2][v] = _mm256_unpacklo_epi64(high[0], high[1]);
                    columns[3][v] = _mm256_unpackhi_epi64(high[0], high[1]);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn two(from: impl Fn(usize) -> *const u8) -> [[__m256i; 2]; 2] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 2];
                for v in 0..2 {
                    // Lanes i and i + 1, and i + 4 and i + 5.
                    let mut rows = [_mm256_setzero_si256(); 2];
                    for (i, row) in rows.iter_mut().enumerate() {
                        let mut halves = [_mm_setzero_si128(); 2];
                        for (h, half) in halves.iter_mut().enumerate() {
                            let lane = 8 * v + 4 * h + 2 * i;
                            let (a, b) = (from(lane).cast(), from(lane + 1).cast());
                            *half = _mm_unpacklo_epi32(_mm_loadl_epi64(a), _mm_loadl_epi64(b));
                        }
                        *row = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(halves[0]), halves[1]);
                    }
                    columns[0][v] = _mm256_unpacklo_epi64(rows[0], rows[1]);
                    columns[1][v] = _mm256_unpackhi_epi64(rows[0], rows[1]);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn one(from: impl Fn(usize) -> *const u8) -> [__m256i; 2] {
            unsafe {
                let mut column = [_mm256_setzero_si256(); 2];
                for (v, half) in column.iter_mut().enumerate() {
                    let at = 8 * v;
                    let low = quarter([from(at), from(at + 1), from(at + 2), from(at + 3)]);
                    let high = quarter([from(at + 4), from(at + 5), from(at + 6), from(at + 7)]);
                    *half = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
                }
                column
            }
        }

        #[inline(always)]
        unsafe fn pairs(from: *const u8) -> [[__m256i; 2]; 2] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 2];
                for v in 0..2 {
                    let low = _mm256_loadu_ps(from.add(64 * v).cast());
                    let high = _mm256_loadu_ps(from.add(64 * v + 32).cast());
                    // Two lanes of each in turn.
                    let even = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
                    let odd = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
                    columns[0][v] = _mm256_permute4x64_epi64::<0b11_01_10_00>(even);
                    columns[1][v] = _mm256_permute4x64_epi64::<0b11_01_10_00>(odd);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn five(from: *const u8) -> [[__m256i; 2]; 5] {
            unsafe {
                let mut columns = [[_mm256_setzero_si256(); 2]; 5];
                for v in 0..2 {
                    let mut rows = [_mm256_setzero_si256(); 5];
                    for (i, row) in rows.iter_mut().enumerate() {
                        *row = _mm256_loadu_si256(from.add(160 * v + 32 * i).cast());
                    }
                    macro_rules! column {
                        ($k:literal) => {{
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 1) }>(rows[0], rows[1]);
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 2) }>(column, rows[2]);
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 3) }>(column, rows[3]);
                            let column = _mm256_blend_epi32::<{ holds(8, $k, 4) }>(column, rows[4]);
                            const PLACES: [i32; 8] = places($k);
                            let places = _mm256_loadu_si256(PLACES.as_ptr().cast());
                            columns[$k][v] = _mm256_permutevar8x32_epi32(column, places);
                        }};
                    }
                    column!(0);
                    column!(1);
                    column!(2);
                    column!(3);
                    column!(4);
                }
                columns
            }
        }

        #[inline(always)]
        unsafe fn halves(words: [__m256i; 2]) -> [__m256; 2] {
            unsafe {
                // Four of each vector alternate.
                let both = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(words[0], words[1]));
                [
                    _mm256_cvtph_ps(_mm256_castsi256_si128(both)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(both)),
                ]
            }
        }

        #[inline(always)]
        unsafe fn mul(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
        }
    }

    /// Of five words each of eight (sixteen) lanes, one after another in five vectors: element `p` of vector `v` is word `k` of some lane if
    /// bit `p` is set. Five and the number of lanes have no common divisor, so each place has one.
    const fn holds(lanes: usize, k: usize, v: usize) -> i32 {
        let (mut mask, mut lane) = (0, 0);
        while lane < lanes {
            let at = 5 * lane + k;
            if at / lanes == v {
                mask |= 1 << (at % lanes);
            }
            lane += 1;
        }
        mask
    }

    /// Where word `k` of each lane is.
    const fn places<const LANES: usize>(k: usize) -> [i32; LANES] {
        let (mut places, mut lane) = ([0; LANES], 0);
        while lane < LANES {
            places[lane] = ((5 * lane + k) % LANES) as i32;
            lane += 1;
        }
        places
    }

    /// The words of four lanes.
    #[inline(always)]
    unsafe fn quarter(from: [*const u8; 4]) -> __m128i {
        // SAFETY: the caller has a word at each address.
        unsafe {
            let [a, b, c, d] = from;
            let low = _mm_unpacklo_epi32(_mm_loadu_si32(a), _mm_loadu_si32(b));
            let high = _mm_unpacklo_epi32(_mm_loadu_si32(c), _mm_loadu_si32(d));
            _mm_unpacklo_epi64(low, high)
        }
    }

    /// One vector.
    struct Avx512;

    impl Sixteen for Avx512 {
        type Words = __m512i;
        type Floats = __m512;
        const E2M1_SCALE: f32 = 1.0;

        #[inline(always)]
        unsafe fn none() -> __m512i {
            unsafe { _mm512_setzero_si512() }
        }

        #[inline(always)]
        unsafe fn add_products(codes: __m512i, digits: __m512i, sums: __m512i) -> __m512i {
            unsafe { _mm512_add_epi16(sums, _mm512_maddubs_epi16(codes, digits)) }
        }

        #[inline(always)]
        unsafe fn both(sums: __m512i) -> __m512i {
            unsafe { _mm512_madd_epi16(sums, _mm512_set1_epi16(1)) }
        }

        #[inline(always)]
        unsafe fn less_twelve(a: __m512i, b: __m512i) -> __m512i {
            unsafe { _mm512_sub_epi32(a, _mm512_mullo_epi32(b, _mm512_set1_epi32(12))) }
        }

        #[inline(always)]
        unsafe fn risen(codes: __m512i) -> __m512i {
            unsafe {
                let table = _mm512_broadcast_i32x4(_mm_loadu_si128(RISEN.as_ptr().cast()));
                _mm512_shuffle_epi8(table, codes)
            }
        }

        #[inline(always)]
        unsafe fn words(from: *const u32) -> __m512i {
            // SAFETY (of all): as for AVX2.
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn store_words(to: *mut u32, words: __m512i) {
            unsafe { _mm512_storeu_si512(to.cast(), words) }
        }

        #[inline(always)]
        unsafe fn floats(from: *const f32) -> __m512 {
            unsafe { _mm512_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, floats: __m512) {
            unsafe { _mm512_storeu_ps(to, floats) }
        }

        #[inline(always)]
        unsafe fn splat(value: f32) -> __m512 {
            unsafe { _mm512_set1_ps(value) }
        }

        #[inline(always)]
        unsafe fn right(words: __m512i, by: u32) -> __m512i {
            unsafe { _mm512_srl_epi32(words, _mm_cvtsi32_si128(by as i32)) }
        }

        #[inline(always)]
        unsafe fn and(words: __m512i, mask: u32) -> __m512i {
            unsafe { _mm512_and_si512(words, _mm512_set1_epi32(mask as i32)) }
        }

        #[inline(always)]
        unsafe fn numbers(words: __m512i) -> __m512 {
            unsafe { _mm512_cvtepi32_ps(words) }
        }

        #[inline(always)]
        unsafe fn e2m1(words: __m512i) -> [__m512; 4] {
            unsafe {
                // The permutation looks at four bits.
                let table = _mm512_loadu_ps(E2M1.as_ptr());
                [
                    _mm512_permutexvar_ps(words, table),
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<8>(words), table),
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<16>(words), table),
                    _mm512_permutexvar_ps(_mm512_srli_epi32::<24>(words), table),
                ]
            }
        }

        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_add_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn are_numbers(floats: __m512) -> bool {
            unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(floats, floats) == 0 }
        }

        #[inline(always)]
        unsafe fn four(from: impl Fn(usize) -> *const u8) -> [__m512i; 4] {
            unsafe {
                // Lanes i, i + 4, i + 8 and i + 12.
                let mut rows = [_mm512_setzero_si512(); 4];
                for (i, row) in rows.iter_mut().enumerate() {
                    let mut parts = [_mm_setzero_si128(); 4];
                    for (p, part) in parts.iter_mut().enumerate() {
                        *part = _mm_loadu_si128(from(i + 4 * p).cast());
                    }
                    let first = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(parts[0]), parts[1]);
                    *row = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(first, parts[2]), parts[3]);
                }
                let low = [
                    _mm512_unpacklo_epi32(rows[0], rows[1]),
                    _mm512_unpacklo_epi32(rows[2], rows[3]),
                ];
                let high = [
                    _mm512_unpackhi_epi32(rows[0], rows[1]),
                    _mm512_unpackhi_epi32(rows[2], rows[3]),
                ];
                [
                    _mm512_unpacklo_epi64(low[0], low[1]),
                    _mm512_unpackhi_epi64(low[0], low[1]),
                    _mm512_unpacklo_epi64(high[0], high[1]),
                    _mm512_unpackhi_epi64(high[0], high[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn two(from: impl Fn(usize) -> *const u8) -> [__m512i; 2] {
            unsafe {
                let [a, b] = Avx2::two(from);
                [
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a[0]), a[1]),
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(b[0]), b[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn one(from: impl Fn(usize) -> *const u8) -> __m512i {
            unsafe {
                let [low, high] = Avx2::one(from);
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
            }
        }

        #[inline(always)]
        unsafe fn pairs(from: *const u8) -> [__m512i; 2] {
            unsafe {
                let [a, b] = Avx2::pairs(from);
                [
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a[0]), a[1]),
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(b[0]), b[1]),
                ]
            }
        }

        #[inline(always)]
        unsafe fn five(from: *const u8) -> [__m512i; 5] {
            unsafe {
                let mut columns = [_mm512_setzero_si512(); 5];
                let mut rows = [_mm512_setzero_si512(); 5];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = _mm512_loadu_si512(from.add(64 * i).cast());
                }
                macro_rules! column {
                    ($k:literal) => {{
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 1) as u16, rows[0], rows[1]);
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 2) as u16, column, rows[2]);
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 3) as u16, column, rows[3]);
                        let column = _mm512_mask_blend_epi32(holds(16, $k, 4) as u16, column, rows[4]);
                        const PLACES: [i32; 16] = places($k);
                        columns[$k] = _mm512_permutexvar_epi32(_mm512_loadu_si512(PLACES.as_ptr().cast()), column);
                    }};
                }
                column!(0);
                column!(1);
                column!(2);
                column!(3);
                column!(4);
                columns
            }
        }

        #[inline(always)]
        unsafe fn halves(words: __m512i) -> __m512 {
            unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)) }
        }

        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            unsafe { _mm512_mul_ps(a, b) }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c,bmi2")]
    pub unsafe fn load_dot_avx2(lanes: &Lanes, areas: &Areas, plan: &Plan, kept: &[*mut u32], ends: &[(*mut u8, Src)]) {
        // SAFETY: the caller's promise is the body's.
        unsafe { groups::<Avx2>(lanes, areas, plan, kept, ends) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
    pub unsafe fn load_dot_avx512(
        lanes: &Lanes,
        areas: &Areas,
        plan: &Plan,
        kept: &[*mut u32],
        ends: &[(*mut u8, Src)],
    ) {
        // SAFETY: as above.
        unsafe { groups::<Avx512>(lanes, areas, plan, kept, ends) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::CHUNK;

    const CHUNKS: usize = 3;
    const LANES: usize = CHUNKS * CHUNK;
    const WORDS: usize = 5;
    /// Registers of factors, then one to add, then outputs.
    const FACTORS: usize = 32;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u32 {
            self.0 = self
                .0
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            (self.0 >> 32) as u32
        }
    }

    fn varying(register: usize) -> Place {
        Place::Varying(4 * register as u32)
    }

    /// The chain of steps (word, shift, mask), the factors of which are registers 0, 1, ….
    fn chain(steps: &[(usize, u32, u32)], code: Code, ends: Vec<After<Operand>>) -> (Chain, bool) {
        let found = quads(steps, code).expect("steps that go together");
        let terms = steps.iter().enumerate().map(|(i, &(word, shift, mask))| {
            let term = Term {
                word: varying(0),
                x: varying(i),
                shift,
                mask,
                code,
            };
            (word, term)
        });
        let quads = found.quads.iter().map(|&(mut quad, steps)| {
            let some = steps.iter().flatten().next().copied().unwrap_or(0);
            quad.x = steps.map(|step| varying(step.unwrap_or(some)));
            quad
        });
        let chain = Chain {
            kind: found.kind,
            quads: quads.collect(),
            terms: terms.collect(),
            ends,
            digits: None,
        };
        (chain, found.integers)
    }

    fn sets() -> Vec<Isa> {
        let mut sets = vec![Isa::detect()];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            sets.push(Isa::Avx2);
        }
        sets
    }

    /// Nibbles of words 1 to 4, low and high ones in turn.
    fn nibbles() -> Vec<(usize, u32, u32)> {
        (1..5)
            .flat_map(|word| (0..8).map(move |i| (word, [0, 4, 8, 12, 16, 20, 24, 28][i], 15)))
            .collect()
    }

    /// Every kind of chain, in floats and in integers where they may be, from words that lie in every way, against `f64`; any number of lanes.
    #[test]
    fn chains_agree_with_f64() {
        let bytes: Vec<(usize, u32, u32)> = (0..32).map(|i| (1 + i / 4 % 4, i as u32 % 4 * 8, 255)).collect();
        let odd = vec![
            (0, 3, 7),
            (0, 9, 1),
            (2, 0, 0x7fff_ffff),
            (2, 1, 0xfff),
            (4, 31, 1),
            (0, 17, 3),
        ];
        let some: Vec<(usize, u32, u32)> = nibbles().into_iter().filter(|step| step.1 % 8 == 4).collect();
        let pairs: Vec<(usize, u32, u32)> = nibbles()[..16].to_vec();
        let half = |shift| Operand::Half { word: 0, shift };
        let add = Operand::Float(varying(FACTORS));
        let cases = [
            (
                nibbles(),
                Code::Integer,
                vec![After::TimesPlusProduct(half(0), half(16), add), After::Plus(add)],
            ),
            (some.clone(), Code::Integer, vec![After::Times(half(16))]),
            (some, Code::E2m1, vec![]),
            (pairs, Code::E2m1, vec![After::TimesPlus(add, half(0))]),
            (nibbles(), Code::E2m1, vec![]),
            (bytes, Code::Integer, vec![After::Plus(add)]),
            (odd, Code::Integer, vec![]),
        ];
        let mut random = Random(3);
        let mut words: Vec<u32> = (0..LANES * 8 + 8).map(|_| random.next()).collect();
        // Halves that are moderate numbers.
        words
            .iter_mut()
            .step_by(1)
            .for_each(|word| *word = *word & 0x83ff_83ff | 0x3c00_3800);
        let mut more: Vec<u32> = (0..LANES * 8 + 8).map(|_| random.next()).collect();
        let registers: Vec<f32> = (0..(FACTORS + 2) * LANES)
            .map(|_| random.next() as i32 as f32 / 2e9)
            .collect();
        for isa in sets() {
            let Some(f) = load_dot(isa) else { return };
            for (steps, code, ends) in &cases {
                let (mut one, integers) = chain(steps, *code, ends.clone());
                let digits = crate::lanes::digits::digits(isa).filter(|_| integers);
                for in_integers in [false, true] {
                    if in_integers && digits.is_none() {
                        continue;
                    }
                    for (way, count) in [
                        (0, LANES),
                        (1, LANES - 1),
                        (2, 2 * CHUNK + 16),
                        (3, 17),
                        (4, 5),
                        (5, LANES - 9),
                    ] {
                        // Distances of lanes in words: words one after another, gaps, backwards, planes, pointers.
                        let distance = [5, 8, 7][way % 3];
                        let memory = if way % 2 == 0 { &words } else { &more };
                        let first = |lane: usize| match way {
                            2 => (LANES - lane) * 7,
                            3 => lane % 16 * 5 + lane / 16 * 90,
                            4 => (lane * 37 % 90) * 8,
                            _ => lane * distance,
                        };
                        let pointers: Vec<u64> = (0..LANES).map(|lane| 9 << 48 | 4 * first(lane) as u64).collect();
                        let from = memory.as_ptr().cast::<u8>();
                        let rows = match way {
                            2 => Rows::Strided {
                                from: from.wrapping_add(4 * first(0)),
                                stride: -28,
                            },
                            3 => Rows::Plane {
                                from,
                                across: 20,
                                down: 360,
                                width: 16,
                            },
                            4 => Rows::Pointers {
                                start: from,
                                pointers: pointers.as_ptr(),
                            },
                            _ => Rows::Strided {
                                from,
                                stride: 4 * distance as isize,
                            },
                        };
                        // Factors, what is added, the output; digits behind them.
                        let mut area = registers.clone();
                        area.resize(area.len() + LANES * 32, 0.0);
                        let (base, cap) = (area.as_mut_ptr(), LANES);
                        let areas = Areas {
                            uniform: base.cast::<u8>(),
                            lanes: base.cast::<u8>(),
                            cap,
                        };
                        let at = 4 * (FACTORS + 2);
                        one.digits = in_integers.then_some(at as u32);
                        let used = one.quads.iter().fold(1, |used, quad| used | 1u32 << quad.word);
                        let plan = Plan::new(WORDS, used, 0b01001, vec![one.clone()]);
                        let mut kept = vec![vec![0u32; LANES]; 2];
                        let to: Vec<*mut u32> = kept.iter_mut().map(|kept| kept.as_mut_ptr()).collect();
                        let lanes = Lanes {
                            rows,
                            count,
                            bytes: 4 * WORDS,
                            ahead: if way == 0 { 640 } else { 0 },
                        };
                        // SAFETY: all words, registers and outputs are there.
                        unsafe {
                            if let (true, Some(digits)) = (in_integers, digits) {
                                let numbers: Vec<[Place; 4]> = one.quads.iter().map(|quad| quad.x).collect();
                                digits(CHUNKS, &areas, &numbers, base.add(at / 4 * cap).cast());
                            }
                            let sum = Src {
                                ptr: base.add(FACTORS * LANES).cast(),
                                step: 4 * CHUNK,
                            };
                            let out = base.add((FACTORS + 1) * LANES).cast::<u8>();
                            f(&lanes, &areas, &plan, &to, &[(out, sum)]);
                        }
                        for lane in 0..count {
                            let word = |k: usize| memory[first(lane) + k];
                            let register = |k: usize| f64::from(registers[k * LANES + lane]);
                            let (mut sum, mut size) = (register(FACTORS), register(FACTORS).abs());
                            for (i, &(k, shift, mask)) in steps.iter().enumerate() {
                                let bits = word(k) >> shift & mask;
                                let number = match code {
                                    Code::Integer => f64::from(bits),
                                    Code::E2m1 => {
                                        f64::from(anymetal_formats::ElementFormat::Fp4E2M1.decode_f32(u64::from(bits)))
                                    }
                                };
                                sum += register(i) * number;
                                size += (register(i) * number).abs();
                            }
                            let value = |operand: Operand| match operand {
                                Operand::Float(_) => register(FACTORS),
                                Operand::Half { word: k, shift } => {
                                    let bits = word(k) >> shift & 0xffff;
                                    f64::from(anymetal_formats::ElementFormat::F16.decode_f32(u64::from(bits)))
                                }
                            };
                            for &end in ends {
                                (sum, size) = match end.map(value) {
                                    After::Times(a) => (sum * a, size * a.abs()),
                                    After::Plus(a) => (sum + a, size + a.abs()),
                                    After::TimesPlus(a, b) => (sum * a + b, size * a.abs() + b.abs()),
                                    After::TimesPlusProduct(a, b, c) => {
                                        (sum * a + b * c, size * a.abs() + (b * c).abs())
                                    }
                                };
                            }
                            let got = f64::from(area[(FACTORS + 1) * LANES + lane]);
                            let odd_half = !sum.is_finite();
                            assert!(
                                odd_half || (got - sum).abs() <= 4e-6 * size,
                                "{isa:?} {:?} way {way} lane {lane} integers {in_integers}: {got}, not {sum}",
                                one.kind
                            );
                            assert_eq!((kept[0][lane], kept[1][lane]), (word(0), word(3)), "{isa:?} way {way}");
                        }
                    }
                }
            }
            std::mem::swap(&mut words, &mut more);
        }
    }

    /// Sums that leave the range of their scaled parts, and factors without digits, give what the chain gives.
    #[test]
    fn lanes_that_are_computed_again() {
        let (mut one, _) = chain(&nibbles(), Code::Integer, Vec::new());
        let mut random = Random(9);
        let words: Vec<u32> = (0..LANES * WORDS).map(|_| random.next()).collect();
        for isa in sets() {
            let (Some(f), Some(digits)) = (load_dot(isa), crate::lanes::digits::digits(isa)) else {
                return;
            };
            for in_integers in [false, true] {
                let mut area: Vec<f32> = (0..(FACTORS + 34) * LANES)
                    .map(|i| [1e35, -2e-38, f32::INFINITY, f32::NAN, 3e34][i % LANES % 5] * (1 + i / LANES % 3) as f32)
                    .collect();
                area[FACTORS * LANES..(FACTORS + 1) * LANES].fill(0.0);
                let registers = area.clone();
                let base = area.as_mut_ptr();
                let areas = Areas {
                    uniform: base.cast::<u8>(),
                    lanes: base.cast::<u8>(),
                    cap: LANES,
                };
                let at = 4 * (FACTORS + 2);
                one.digits = in_integers.then_some(at as u32);
                let plan = Plan::new(WORDS, 0b11110, 0, vec![one.clone()]);
                let lanes = Lanes {
                    rows: Rows::Strided {
                        from: words.as_ptr().cast(),
                        stride: 20,
                    },
                    count: LANES,
                    bytes: 20,
                    ahead: 0,
                };
                // SAFETY: all words, registers and outputs are there.
                unsafe {
                    let numbers: Vec<[Place; 4]> = one.quads.iter().map(|quad| quad.x).collect();
                    digits(CHUNKS, &areas, &numbers, base.add(at / 4 * LANES).cast());
                    let sum = Src {
                        ptr: base.add(FACTORS * LANES).cast(),
                        step: 4 * CHUNK,
                    };
                    let out = base.add((FACTORS + 1) * LANES).cast::<u8>();
                    f(&lanes, &areas, &plan, &[], &[(out, sum)]);
                }
                for lane in 0..LANES {
                    let want = one.terms.iter().enumerate().fold(0f32, |sum, (i, (word, term))| {
                        registers[i * LANES + lane].mul_add(term.number(words[lane * WORDS + word]), sum)
                    });
                    let got = area[(FACTORS + 1) * LANES + lane];
                    let close = (got - want).abs() <= want.abs() * 1e-5;
                    assert!(
                        close || got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                        "{lane}: {got} {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn words_are_loaded_together() {
        let blocks = |words, used, kept| Plan::new(words, used, kept, Vec::new()).blocks;
        assert_eq!(blocks(5, 0b11110, 1), [(0, 4), (4, 1)]);
        assert_eq!(blocks(4, 0b1111, 0), [(0, 4)]);
        assert_eq!(blocks(2, 0b11, 0), [(0, 2)]);
        assert_eq!(blocks(8, 0b1100_0001, 0), [(6, 2), (0, 1)]);
        assert_eq!(blocks(3, 0b111, 0), [(0, 2), (2, 1)]);
    }

    #[test]
    fn steps_that_do_not_go_together() {
        // A code that reaches the sign from a byte in the middle, and nibbles of E2M1 that are not all there.
        assert!(quads(&[(0, 8, 0x7fff_ffff)], Code::Integer).is_none());
        assert!(quads(&[(0, 0, 15), (0, 8, 15)], Code::E2m1).is_none());
        assert_eq!(
            quads(&nibbles(), Code::Integer).map(|quads| quads.kind),
            Some(Kind::Nibbles)
        );
    }
}
