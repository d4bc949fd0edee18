//! Numbers of every type as bits, and kernels of one operation checked over many of them.

use anymetal_cpu::{CpuKernel, HostMemory};
use anymetal_ir::{Access, BinaryOp, Builder, MathMode, Scalar, ValueId};
use half::{bf16, f16};

use super::{buffer, builtin, compile, gid, load_at, pointer, run, store_at, u32c};

pub const P: MathMode = MathMode::Precise;
pub const COUNT: usize = 300;

/// A number of any type: exact in both halves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    Int(i128),
    Float(f64),
}

pub fn decode(ty: Scalar, bits: u64) -> Number {
    match ty {
        Scalar::F32 => Number::Float(f64::from(f32::from_bits(bits as u32))),
        Scalar::F16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
        Scalar::BF16 => Number::Float(bf16::from_bits(bits as u16).to_f64()),
        _ => {
            let width = ty.size() * 8;
            let shifted = (bits << (64 - width)) as i64;
            Number::Int(if ty.is_signed() {
                i128::from(shifted >> (64 - width))
            } else {
                i128::from((shifted as u64) >> (64 - width))
            })
        }
    }
}

pub fn encode(ty: Scalar, number: Number) -> u64 {
    match (ty, number) {
        (Scalar::F32, Number::Float(x)) => u64::from((x as f32).to_bits()),
        (Scalar::F16, Number::Float(x)) => u64::from(f16::from_f64(x).to_bits()),
        (Scalar::BF16, Number::Float(x)) => u64::from(bf16::from_f64(x).to_bits()),
        (_, Number::Int(x)) => {
            let width = ty.size() * 8;
            (x as u64) << (64 - width) >> (64 - width)
        }
        (ty, Number::Float(_)) => panic!("a float for {ty}"),
    }
}

pub fn same(ty: Scalar, a: u64, b: u64) -> bool {
    a == b
        || match (decode(ty, a), decode(ty, b)) {
            (Number::Float(a), Number::Float(b)) => a.is_nan() && b.is_nan(),
            _ => false,
        }
}

/// Bit patterns that cover corners first and are spread out then.
pub fn inputs(ty: Scalar, seed: u64) -> Vec<u64> {
    let width = ty.size() * 8;
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    if ty == Scalar::Bool {
        return (0..COUNT as u64).map(|i| (i * 7 + seed) / 3 % 2).collect();
    }
    let mut corners: Vec<u64> = if ty.is_float() {
        [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -2.5,
            3.0,
            65504.0,
            1e-7,
            -1e-7,
            6e-8,
            1e-40,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            100.0,
            -7.25,
            0.999,
        ]
        .iter()
        .map(|&x| encode(ty, Number::Float(x)))
        .collect()
    } else {
        vec![
            0,
            1,
            2,
            3,
            7,
            8,
            31,
            32,
            mask,
            mask - 1,
            mask >> 1,
            (mask >> 1) + 1,
            100,
            255,
        ]
    };
    let n = corners.len();
    // Each list cycles the corners at its own pace, so that all pairs meet.
    let period = if seed == 0 { 1 } else { n };
    let mut out: Vec<u64> = (0..n * n).map(|i| corners[i / period % n]).collect();
    corners.clear();
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed + 1);
    while out.len() < 2 * COUNT {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        out.push((state >> 7) & mask);
    }
    out
}

pub fn bytes(ty: Scalar, values: &[u64]) -> HostMemory {
    let size = ty.size() as usize;
    let all: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes()[..size].to_vec())
        .collect();
    HostMemory::from_bytes(&all).unwrap()
}

pub fn values(ty: Scalar, memory: &HostMemory) -> Vec<u64> {
    let size = ty.size() as usize;
    memory.with_bytes(|bytes| {
        bytes
            .chunks_exact(size)
            .map(|chunk| {
                let mut wide = [0; 8];
                wide[..size].copy_from_slice(chunk);
                u64::from_le_bytes(wide)
            })
            .collect()
    })
}

/// A kernel of `inputs` operands and one result. With `uniform`, all lanes compute with the element that the grid's size
/// names, so that the operation is a uniform one.
pub fn kernel_of(
    types: &[Scalar],
    result: Scalar,
    uniform: bool,
    make: impl FnOnce(&mut Builder, &[ValueId]) -> ValueId,
) -> CpuKernel {
    let mut b = Builder::new("op");
    let arguments: Vec<_> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| buffer(&mut b, &format!("in{i}"), ty.size(), Access::ReadOnly))
        .collect();
    let out = buffer(&mut b, "out", result.size(), Access::ReadWrite);
    let i = gid(&mut b);
    let at = if uniform {
        let size = builtin(&mut b, anymetal_ir::Builtin::ThreadsPerGrid(0));
        let one = u32c(&mut b, 1);
        b.binary(BinaryOp::Sub, size, one, P)
    } else {
        i
    };
    let operands: Vec<_> = arguments
        .iter()
        .zip(types)
        .map(|(&argument, &ty)| {
            let base = pointer(&mut b, argument);
            load_at(&mut b, base, at, ty)
        })
        .collect();
    let value = make(&mut b, &operands);
    let out = pointer(&mut b, out);
    store_at(&mut b, out, i, value);
    compile(b.finish())
}

/// Runs an operation over all inputs and compares with `reference` on bits.
pub fn check(
    name: &str,
    types: &[Scalar],
    result: Scalar,
    make: impl Fn(&mut Builder, &[ValueId]) -> ValueId,
    reference: impl Fn(&[u64]) -> Option<u64>,
) {
    let lists: Vec<Vec<u64>> = types.iter().enumerate().map(|(i, &ty)| inputs(ty, i as u64)).collect();
    let count = lists.iter().map(Vec::len).min().unwrap();
    let memories: Vec<HostMemory> = types.iter().zip(&lists).map(|(&ty, list)| bytes(ty, list)).collect();
    let out = bytes(result, &vec![0; count]);
    let mut all: Vec<&HostMemory> = memories.iter().collect();
    all.push(&out);
    run(&kernel_of(types, result, false, &make), &all, count as u32, 64);
    let got = values(result, &out);
    for i in 0..count {
        let operands: Vec<u64> = lists.iter().map(|list| list[i]).collect();
        if let Some(want) = reference(&operands) {
            assert!(
                same(result, got[i], want),
                "{name} of {operands:x?} is {:x} ({:?}), not {want:x} ({:?})",
                got[i],
                decode(result, got[i]),
                decode(result, want)
            );
        }
    }
    // The uniform operation on a few of them.
    let uniform = kernel_of(types, result, true, &make);
    for count in [1u32, 5, 33, 90] {
        run(&uniform, &all, count, 32);
        let first = values(result, &out)[0];
        assert!(same(result, first, got[count as usize - 1]), "uniform {name}");
    }
}

pub const INTS: [Scalar; 8] = [
    Scalar::I8,
    Scalar::U8,
    Scalar::I16,
    Scalar::U16,
    Scalar::I32,
    Scalar::U32,
    Scalar::I64,
    Scalar::U64,
];
pub const FLOATS: [Scalar; 3] = [Scalar::F16, Scalar::BF16, Scalar::F32];

pub fn int(ty: Scalar, bits: u64) -> i128 {
    match decode(ty, bits) {
        Number::Int(x) => x,
        Number::Float(_) => panic!("not an integer"),
    }
}

pub fn float(ty: Scalar, bits: u64) -> f64 {
    match decode(ty, bits) {
        Number::Float(x) => x,
        Number::Int(_) => panic!("not a float"),
    }
}
