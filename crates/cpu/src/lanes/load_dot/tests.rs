//! Chains over words in memory, against `f64`.

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
    // The last chunk has factors without digits.
    let registers: Vec<f32> = (0..(FACTORS + 2) * LANES)
        .map(|i| match i % LANES / CHUNK == CHUNKS - 1 {
            true => random.next() as i32 as f32 / 2e9,
            false => ((random.next() >> 21) as f32 - 1024.0) / 1024.0,
        })
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
                    let pointers: Vec<u64> = (0..LANES).map(|lane| (9 << 48) | (4 * first(lane) as u64)).collect();
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
                                After::TimesPlusProduct(a, b, c) => (sum * a + b * c, size * a.abs() + (b * c).abs()),
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
