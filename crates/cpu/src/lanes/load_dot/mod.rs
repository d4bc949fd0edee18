//! Chains of [`super::dot`] over words that are cut up where they lie: each lane's words come from memory straight into registers, a chunk
//! at a time, so neither words nor codes nor partial sums are stored between.
//!
//! The steps of a chain are gathered into *quads*, which cut the same bits out of the four bytes of a word. Numbers are left where they
//! stand in the word, `code · 2⁸ʲ` for byte `j`: each byte has a sum of its own, which is scaled at the end. So steps are added in another
//! order than the chain's, which only fast math allows, and the scaled sums may overflow where the chain does not: a result that is not
//! finite is computed again step by step.

mod sixteen;
#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

use self::sixteen::Sixteen;
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
        Isa::Avx2 => Some(load_dot_avx2),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Some(load_dot_avx512),
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
    for chain in &plan.chains {
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
                let digits = chain.digits.map(|at| {
                    let first = areas.lanes.add(at as usize * areas.cap).cast::<u32>();
                    first.add(lane / CHUNK * digits::words(quads.len()) * CHUNK)
                });
                // Lanes without digits have no number for a power: then the group goes the other way.
                let has_digits = |digits: &*const u32| {
                    let power = digits.add((digits::words(quads.len()) - 1) * CHUNK).cast::<f32>();
                    V::are_numbers(V::add(V::floats(power), V::floats(power.add(HALF))))
                };
                if let Some(digits) = digits.filter(has_digits) {
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
                }
                x = &x[quads.len()..];
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
#[target_feature(enable = "avx2,fma,f16c,bmi2")]
unsafe fn load_dot_avx2(lanes: &Lanes, areas: &Areas, plan: &Plan, kept: &[*mut u32], ends: &[(*mut u8, Src)]) {
    // SAFETY: the caller's promise is the body's.
    unsafe { groups::<sixteen::x86::Avx2>(lanes, areas, plan, kept, ends) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
unsafe fn load_dot_avx512(lanes: &Lanes, areas: &Areas, plan: &Plan, kept: &[*mut u32], ends: &[(*mut u8, Src)]) {
    // SAFETY: as above.
    unsafe { groups::<sixteen::x86::Avx512>(lanes, areas, plan, kept, ends) }
}
