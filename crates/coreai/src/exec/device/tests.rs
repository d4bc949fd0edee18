//! Generated kernels against the host evaluator, operation by operation and in random chains.

use anymetal::Device;
use half::{bf16, f16};

use super::Prepared;
use crate::array::Array;
use crate::bytecode::{AttrId, ElementType};
use crate::exec::dispatch::Dispatcher;
use crate::exec::native::{Activation, Native};
use crate::exec::plan::{Plan, SlotType, Source, Step, StepOp};
use crate::program::{Binary, OpCode, Reduction, Unary};

/// Numbers without a pattern.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    fn array(&mut self, element: ElementType, shape: &[usize]) -> Array {
        let n: usize = shape.iter().product();
        let floats: Vec<f32> = (0..n).map(|_| 3.0 * self.float()).collect();
        let ints: Vec<i64> = (0..n).map(|_| self.below(200) as i64 - 100).collect();
        match element {
            ElementType::F32 => Array::from_values(shape, floats),
            ElementType::F16 => Array::from_values(shape, floats.iter().map(|&v| f16::from_f32(v)).collect()),
            ElementType::BF16 => Array::from_values(shape, floats.iter().map(|&v| bf16::from_f32(v)).collect()),
            ElementType::Bool => Array::from_bools(shape, &ints.iter().map(|v| v % 2 == 0).collect::<Vec<_>>()),
            ElementType::I64 => Array::from_values(shape, ints),
            ElementType::I32 => Array::from_values(shape, ints.iter().map(|&v| v as i32).collect()),
            ElementType::I16 => Array::from_values(shape, ints.iter().map(|&v| v as i16).collect()),
            ElementType::I8 => Array::from_values(shape, ints.iter().map(|&v| v as i8).collect()),
            ElementType::U64 => Array::from_values(shape, ints.iter().map(|&v| v.unsigned_abs()).collect()),
            ElementType::U32 => Array::from_values(shape, ints.iter().map(|&v| v.unsigned_abs() as u32).collect()),
            ElementType::U16 => Array::from_values(shape, ints.iter().map(|&v| v.unsigned_abs() as u16).collect()),
            _ => Array::from_values(shape, ints.iter().map(|&v| v.unsigned_abs() as u8).collect()),
        }
        .unwrap()
    }
}

fn ints(values: &[i32]) -> Array {
    Array::from_values(&[values.len()], values.to_vec()).unwrap()
}

fn int(value: i32) -> Array {
    Array::scalar(value)
}

/// A plan that is made step by step, with the values that the host evaluator gives.
struct Chain {
    dispatcher: Dispatcher,
    plan: Plan,
    inputs: Vec<Array>,
    values: Vec<Array>,
}

impl Chain {
    fn new() -> Self {
        Self {
            dispatcher: Dispatcher::new(Device::cpu()),
            plan: Plan::default(),
            inputs: Vec::new(),
            values: Vec::new(),
        }
    }

    fn slot(&mut self, array: Array) -> Source {
        self.plan.slots.push(SlotType {
            element: array.element(),
            shape: array.shape().to_vec(),
        });
        self.values.push(array);
        Source::Slot(self.values.len() as u32 - 1)
    }

    fn input(&mut self, array: &Array) -> Source {
        let source = self.slot(array.clone());
        self.plan.inputs.push(self.values.len() as u32 - 1);
        self.inputs.push(array.clone());
        source
    }

    fn value(&self, source: &Source) -> Array {
        match source {
            Source::Slot(slot) => self.values[*slot as usize].clone(),
            Source::Const(array) | Source::Transposed(array) => array.clone(),
        }
    }

    /// Adds a step; `None` when the host evaluator refuses it.
    fn step(&mut self, op: StepOp, inputs: &[Source]) -> Option<Vec<Source>> {
        let operands: Vec<Array> = inputs.iter().map(|s| self.value(s)).collect();
        let results = self.dispatcher.run(&op, &operands).ok()?;
        let outputs: Vec<Source> = results.into_iter().map(|a| self.slot(a)).collect();
        self.plan.steps.push(Step {
            op,
            inputs: inputs.to_vec(),
            outputs: outputs
                .iter()
                .map(|s| match s {
                    Source::Slot(slot) => *slot,
                    _ => 0,
                })
                .collect(),
            name: 0,
            location: AttrId(0),
        });
        Some(outputs)
    }

    fn host(&mut self, code: OpCode, mode: u64, element: ElementType, inputs: &[Source]) -> Option<Source> {
        let op = StepOp::Host {
            code,
            mode,
            elements: vec![element],
        };
        self.step(op, inputs).map(|mut all| all.swap_remove(0))
    }

    /// Runs the plan twice with the given results and compares. `kernels` demands that the host computes nothing.
    fn check(mut self, what: &str, outputs: &[Source], tolerance: f32, kernels: bool) {
        self.plan.outputs = outputs.to_vec();
        let prepared = Prepared::new(&self.plan, &self.dispatcher).unwrap_or_else(|e| panic!("{what}: {e}"));
        let counts = prepared.counts();
        if kernels {
            assert!(
                counts.iter().all(|(name, _)| !name.starts_with("host")),
                "{what}: {counts:?}"
            );
        }
        for round in 0..2 {
            let got = prepared.run(&self.dispatcher, &self.inputs, &mut [], None);
            let got = got.unwrap_or_else(|e| panic!("{what}: {}", e.error));
            for (got, source) in got.iter().zip(outputs) {
                let want = self.value(source);
                assert_eq!((got.element(), got.shape()), (want.element(), want.shape()), "{what}");
                close(&format!("{what}, round {round} ({counts:?})"), got, &want, tolerance);
            }
        }
    }
}

fn close(what: &str, got: &Array, want: &Array, tolerance: f32) {
    if !got.element().is_float() {
        assert_eq!(got.bytes(), want.bytes(), "{what}: {got} instead of {want}");
        return;
    }
    let (a, b) = (got.to_f32().unwrap(), want.to_f32().unwrap());
    for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
        let fine = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * (1.0 + y.abs());
        assert!(fine, "{what}, element {i}: {x} instead of {y}");
    }
}

const FLOATS: [ElementType; 3] = [ElementType::F32, ElementType::F16, ElementType::BF16];
const INTS: [ElementType; 8] = [
    ElementType::I64,
    ElementType::I32,
    ElementType::I16,
    ElementType::I8,
    ElementType::U64,
    ElementType::U32,
    ElementType::U16,
    ElementType::U8,
];

/// A rounding step of the type, or what two implementations of a function may differ by.
fn tolerance(element: ElementType) -> f32 {
    match element {
        ElementType::F16 => 2e-3,
        ElementType::BF16 => 2e-2,
        _ => 4e-6,
    }
}

#[test]
fn unary_operations_and_casts() {
    use Unary::*;
    let all = [
        Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, Cos, Cosh, Erf, Exp, Log, Not, Relu, Round, Rsqrt, Sigmoid, Silu,
        Sin, Sinh, Sqrt, Tan, Tanh,
    ];
    let mut random = Random(7);
    let types: Vec<ElementType> = FLOATS.iter().chain(&INTS).copied().chain([ElementType::Bool]).collect();
    for &element in &types {
        for (op, shape) in all.iter().flat_map(|&op| [(op, vec![5, 7]), (op, vec![8, 512])]) {
            let mut chain = Chain::new();
            let x = chain.input(&random.array(element, &shape));
            if let Some(y) = chain.host(OpCode::Unary(op), 0, element, &[x]) {
                // Rust's atanh loses digits near -1.
                let factor = if op == Atanh { 10.0 } else { 1.0 };
                chain.check(&format!("{op:?} of {element}"), &[y], factor * tolerance(element), true);
            }
        }
        for mode in 0..3 {
            let mut chain = Chain::new();
            let x = chain.input(&random.array(element, &[3, 40]));
            if let Some(y) = chain.host(OpCode::Gelu, mode, element, &[x]) {
                chain.check(&format!("GELU {mode} of {element}"), &[y], tolerance(element), true);
            }
        }
        for &to in &types {
            let mut chain = Chain::new();
            let x = chain.input(&random.array(element, &[3, 40]));
            let y = chain.host(OpCode::Cast, 0, to, &[x]).unwrap();
            chain.check(&format!("cast of {element} to {to}"), &[y], 0.0, true);
        }
    }
}

#[test]
fn binary_operations_broadcast() {
    use Binary::*;
    let all = [
        Add,
        Sub,
        Mul,
        Divide,
        FloorDivide,
        Modulo,
        Pow,
        Maximum,
        Minimum,
        BitwiseAnd,
        BitwiseOr,
        BitwiseXor,
        LogicalAnd,
        LogicalOr,
        LogicalXor,
        Equal,
        NotEqual,
        Greater,
    ];
    let mut random = Random(99);
    let shapes: [(&[usize], &[usize]); 5] = [
        (&[4, 5, 6], &[4, 5, 6]),
        (&[4, 5, 6], &[6]),
        (&[4, 1, 6], &[5, 1]),
        (&[2, 64, 32], &[64, 32]),
        (&[3, 1], &[1]),
    ];
    for &element in FLOATS.iter().chain(&INTS).chain(&[ElementType::Bool]) {
        for op in all {
            for (a, b) in shapes {
                let mut chain = Chain::new();
                let (x, y) = (random.array(element, a), random.array(element, b));
                let result = match op {
                    Equal | NotEqual | Greater | LogicalAnd | LogicalOr | LogicalXor => ElementType::Bool,
                    _ => element,
                };
                let (x, y) = (chain.input(&x), chain.input(&y));
                if let Some(z) = chain.host(OpCode::Binary(op), 0, result, &[x, y]) {
                    let what = format!("{op:?} of {element} {a:?} {b:?}");
                    // What bools and computed integer powers mean is left to the evaluator.
                    let kernels = element.is_float() || !matches!(op, Pow | Divide | FloorDivide | Modulo);
                    chain.check(
                        &what,
                        &[z],
                        10.0 * tolerance(element),
                        kernels || (op != Pow && element != ElementType::Bool),
                    );
                }
            }
        }
    }
}

#[test]
fn division_by_zero_and_bad_indices_are_errors() {
    for (code, message) in [
        (OpCode::Binary(Binary::Divide), "integer division by zero"),
        (OpCode::GatherNd, "index 7 is out of bounds for a dimension of 4"),
    ] {
        let mut chain = Chain::new();
        let (a, good) = (ints(&[5, 6, 7, 8]), ints(&[1, 2, 3, -1]));
        let x = chain.input(&a);
        let mut y = chain.input(&good);
        if code == OpCode::GatherNd {
            y = chain.step(StepOp::Alias { shape: vec![4, 1] }, &[y]).unwrap().remove(0);
        }
        let z = chain.host(code, 0, ElementType::I32, &[x, y]).unwrap();
        chain.plan.outputs = vec![z];
        let prepared = Prepared::new(&chain.plan, &chain.dispatcher).unwrap();
        let bad = if code == OpCode::GatherNd {
            ints(&[0, 1, 7, 2])
        } else {
            ints(&[1, 2, 0, 3])
        };
        for _ in 0..2 {
            let error = prepared
                .run(&chain.dispatcher, &[a.clone(), bad.clone()], &mut [], None)
                .unwrap_err();
            assert_eq!(
                (error.error.to_string().as_str(), error.step),
                (message, chain.plan.steps.len() - 1)
            );
            // The next call is not touched by it.
            assert!(
                prepared
                    .run(&chain.dispatcher, &[a.clone(), good.clone()], &mut [], None)
                    .is_ok()
            );
        }
    }
}

/// Operations that move data, with operands that fit `x`.
fn movements(random: &mut Random, element: ElementType, shape: &[usize]) -> Vec<(OpCode, u64, Vec<Array>)> {
    let rank = shape.len();
    let mut order: Vec<i32> = (0..rank as i32).collect();
    for i in (1..rank).rev() {
        order.swap(i, random.below(i + 1));
    }
    let axis = random.below(rank);
    let start: Vec<i32> = shape.iter().map(|&d| random.below(d) as i32).collect();
    let end: Vec<i32> = shape.iter().map(|&d| d as i32).collect();
    let step: Vec<i32> = shape.iter().map(|_| 1 + random.below(2) as i32).collect();
    let back: Vec<i32> = shape.iter().map(|_| -1).collect();
    let before: Vec<i32> = shape.iter().map(|_| -1000).collect();
    let mut wide = vec![3usize];
    wide.extend_from_slice(shape);
    let padding: Vec<i32> = (0..2 * rank).map(|_| random.below(3) as i32).collect();
    let fill = random.array(element, &[]);
    let updated: Vec<usize> = shape.iter().zip(&start).map(|(&d, &s)| d - s as usize).collect();
    let ones = vec![1; rank];
    let reps: Vec<i32> = shape.iter().map(|_| 1 + random.below(2) as i32).collect();
    let to: Vec<i32> = wide.iter().map(|&d| d as i32).collect();
    let mut joined = shape.to_vec();
    joined[axis] = 3;
    let index: Vec<i32> = (0..shape.iter().product::<usize>())
        .map(|_| random.below(2 * shape[axis]) as i32 - shape[axis] as i32)
        .collect();
    vec![
        (OpCode::Transpose, 0, vec![ints(&order)]),
        (OpCode::Slice, 0, vec![ints(&start), ints(&end), ints(&step)]),
        (OpCode::Slice, 0, vec![ints(&end), ints(&before), ints(&back)]),
        (OpCode::Reverse, 0, vec![ints(&[axis as i32])]),
        (OpCode::BroadcastTo, 0, vec![ints(&to)]),
        (OpCode::Tile, 0, vec![ints(&reps)]),
        (OpCode::Pad, 1, vec![ints(&padding), fill]),
        (
            OpCode::SliceUpdate,
            0,
            vec![ints(&start), ints(&end), ints(&ones), random.array(element, &updated)],
        ),
        (
            OpCode::GatherAlongAxis,
            0,
            vec![Array::from_values(shape, index).unwrap(), int(axis as i32)],
        ),
        (
            OpCode::GatherNd,
            0,
            vec![Array::from_values(&[2, 2, 1], vec![0, -1, 0, shape[0] as i32 - 1]).unwrap()],
        ),
        (OpCode::Concat, axis as u64, vec![random.array(element, &joined)]),
    ]
}

fn move_step(
    chain: &mut Chain,
    x: &Source,
    code: OpCode,
    mode: u64,
    element: ElementType,
    operands: &[Array],
) -> Option<Source> {
    let mut all = vec![x.clone()];
    all.extend(operands.iter().map(|a| Source::Const(a.clone())));
    if code == OpCode::Concat {
        all.insert(0, Source::Const(int(mode as i32)));
        // The same array on both sides of another one.
        all.push(x.clone());
    }
    chain.host(code, mode, element, &all)
}

#[test]
fn movement_operations() {
    let mut random = Random(3);
    for &element in FLOATS.iter().chain(&INTS).chain(&[ElementType::Bool]) {
        for shape in [&[6][..], &[4, 5], &[2, 3, 8], &[2, 1, 3, 4]] {
            for (code, mode, operands) in movements(&mut random, element, shape) {
                let mut chain = Chain::new();
                let x = chain.input(&random.array(element, shape));
                let y = move_step(&mut chain, &x, code, mode, element, &operands);
                let y = y.unwrap_or_else(|| panic!("{code:?} {shape:?} {operands:?}"));
                chain.check(&format!("{code:?} of {element}{shape:?}"), &[y], 0.0, true);
            }
        }
    }
}

#[test]
fn reductions_and_softmax() {
    let mut random = Random(11);
    let all = [
        Reduction::Sum,
        Reduction::Mean,
        Reduction::Max,
        Reduction::Min,
        Reduction::Product,
        Reduction::Any,
        Reduction::All,
    ];
    let cases: [(&[usize], &[i32]); 9] = [
        (&[7], &[0]),
        (&[3, 40], &[1]),
        (&[3, 40], &[0]),
        (&[2, 70, 33], &[1]),
        (&[2, 5, 384], &[2]),
        (&[2, 3, 4, 5], &[1, 3]),
        (&[2, 3, 4, 5], &[0, 1, 2, 3]),
        (&[3, 5000], &[1]),
        (&[1, 100_000], &[1]),
    ];
    for &element in FLOATS.iter().chain(&INTS).chain(&[ElementType::Bool]) {
        for (shape, axes) in cases {
            for op in all {
                let mut chain = Chain::new();
                let x = chain.input(&random.array(element, shape));
                if op == Reduction::Product && element.is_float() && shape.contains(&5000) {
                    continue;
                }
                if let Some(y) = chain.host(OpCode::Reduce(op), 0, element, &[x, Source::Const(ints(axes))]) {
                    let what = format!("{op:?} of {element}{shape:?} over {axes:?}");
                    chain.check(&what, &[y], 5.0 * tolerance(element), true);
                }
            }
        }
        for (shape, axis) in [(&[3, 40][..], 1), (&[3, 40], 0), (&[2, 4, 500], -1), (&[2, 3000], 1)] {
            let mut chain = Chain::new();
            let x = chain.input(&random.array(element, shape));
            if let Some(y) = chain.host(OpCode::Softmax, 0, element, &[x, Source::Const(int(axis))]) {
                chain.check(
                    &format!("softmax of {element}{shape:?}"),
                    &[y],
                    tolerance(element),
                    true,
                );
            }
        }
    }
}

#[test]
fn small_products() {
    let mut random = Random(23);
    for element in [ElementType::F32, ElementType::F16, ElementType::I32, ElementType::I8] {
        for (a, b) in [
            (&[3, 4][..], &[4, 5][..]),
            (&[2, 3, 4], &[4, 5]),
            (&[2, 1, 3, 4], &[3, 4, 5]),
            (&[1, 1], &[1, 1]),
        ] {
            let mut chain = Chain::new();
            let (x, y) = (random.array(element, a), random.array(element, b));
            let (x, y) = (chain.input(&x), chain.input(&y));
            let z = chain.host(OpCode::BatchMatmul, 0, element, &[x, y]).unwrap();
            chain.check(
                &format!("{element} {a:?} times {b:?}"),
                &[z],
                5.0 * tolerance(element),
                true,
            );
        }
    }
}

/// A norm as exporters write it when they take it apart.
#[test]
fn norms_in_parts_are_one_kernel() {
    let mut random = Random(5);
    let f32 = ElementType::F32;
    let mut chain = Chain::new();
    let x = chain.input(&random.array(f32, &[2, 9, 96]));
    let weight = Source::Const(random.array(f32, &[96]));
    let scalar = |v: f32| Source::Const(Array::scalar(v));
    let power = chain
        .host(OpCode::Binary(Binary::Pow), 0, f32, &[x.clone(), scalar(2.0)])
        .unwrap();
    let mean = chain
        .host(
            OpCode::Reduce(Reduction::Mean),
            0,
            f32,
            &[power, Source::Const(ints(&[2]))],
        )
        .unwrap();
    let moved = chain
        .host(OpCode::Binary(Binary::Add), 0, f32, &[mean, scalar(1e-5)])
        .unwrap();
    let root = chain.host(OpCode::Unary(Unary::Rsqrt), 0, f32, &[moved]).unwrap();
    let scaled = chain.host(OpCode::Binary(Binary::Mul), 0, f32, &[x, root]).unwrap();
    let y = chain
        .host(OpCode::Binary(Binary::Mul), 0, f32, &[scaled, weight])
        .unwrap();
    let mut plan = std::mem::take(&mut chain.plan);
    plan.outputs = vec![y.clone()];
    let prepared = Prepared::new(&plan, &chain.dispatcher).unwrap();
    let total: usize = prepared.counts().iter().map(|(_, n)| n).sum();
    assert_eq!(total, 1, "{:?}", prepared.counts());
    chain.plan = plan;
    chain.check("RMS norm in parts", &[y], 2e-6, true);
}

#[test]
fn random_chains_agree_with_the_evaluator() {
    for seed in 0..300u64 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (seed * 7919 + 1));
        let element = if random.below(3) == 0 {
            ElementType::I32
        } else {
            ElementType::F32
        };
        let mut chain = Chain::new();
        let shapes: [&[usize]; 4] = [&[2, 3, 8], &[4, 6], &[3, 1, 5], &[16]];
        let shape = shapes[random.below(4)];
        let mut values = vec![chain.input(&random.array(element, shape))];
        let other = random.array(element, shape);
        values.push(chain.input(&other));
        let mut trace = Vec::new();
        for _ in 0..3 + random.below(8) {
            let x = values[random.below(values.len())].clone();
            let own = chain.value(&x);
            let made = match random.below(6) {
                0 => {
                    let op = [Unary::Abs, Unary::Relu, Unary::Round][random.below(3)];
                    trace.push(format!("{op:?}"));
                    chain.host(OpCode::Unary(op), 0, element, &[x])
                }
                1 => {
                    let op = [Binary::Add, Binary::Sub, Binary::Maximum, Binary::Minimum][random.below(4)];
                    let y = values[random.below(values.len())].clone();
                    trace.push(format!("{op:?}"));
                    chain.host(OpCode::Binary(op), 0, element, &[x, y])
                }
                2 if own.rank() > 0 && own.len() < 4000 => {
                    let mut all = movements(&mut random, element, own.shape());
                    let (code, mode, operands) = all.swap_remove(random.below(all.len()));
                    trace.push(format!("{code:?}"));
                    move_step(&mut chain, &x, code, mode, element, &operands)
                }
                3 if own.rank() > 0 => {
                    let axis = random.below(own.rank()) as i32;
                    let op = [Reduction::Sum, Reduction::Max][random.below(2)];
                    trace.push(format!("{op:?} over {axis}"));
                    chain.host(OpCode::Reduce(op), 0, element, &[x, Source::Const(ints(&[axis]))])
                }
                4 => {
                    let mut to = own.shape().to_vec();
                    if to.len() > 1 && random.below(2) == 0 {
                        let last = to.pop().unwrap_or(1);
                        if let Some(end) = to.last_mut() {
                            *end *= last;
                        }
                    } else {
                        to.insert(random.below(to.len() + 1), 1);
                    }
                    trace.push(format!("as {to:?}"));
                    chain
                        .step(StepOp::Alias { shape: to }, &[x])
                        .map(|mut v| v.swap_remove(0))
                }
                _ => {
                    let half = Source::Const(if element == ElementType::F32 {
                        Array::scalar(0.5f32)
                    } else {
                        int(3)
                    });
                    trace.push("scale".into());
                    chain.host(OpCode::Binary(Binary::Mul), 0, element, &[x, half])
                }
            };
            // The evaluator refuses what does not fit together.
            values.extend(made);
        }
        let outputs: Vec<Source> = values[2..].iter().rev().take(2).cloned().collect();
        chain.check(&format!("seed {seed}: {trace:?}"), &outputs, 1e-4, true);
    }
}

#[test]
fn linear_layers_of_every_size() {
    let mut random = Random(41);
    let f32 = ElementType::F32;
    let cases = [
        (f32, [5, 7, 12]),
        (f32, [1, 64, 384]),
        (f32, [33, 50, 132]),
        (f32, [40, 70, 30]),
        (f32, [300, 70, 264]),
        (f32, [257, 130, 512]),
        (f32, [200, 24, 40]),
        (ElementType::F16, [300, 70, 264]),
        (ElementType::BF16, [20, 70, 64]),
    ];
    for (element, [m, n, k]) in cases {
        for (bias, activation) in [
            (false, Activation::None),
            (true, Activation::None),
            (true, Activation::Gelu),
            (true, Activation::Silu),
        ] {
            let mut chain = Chain::new();
            let x = chain.input(&random.array(element, &[m, k]));
            let y = chain.input(&random.array(element, &[m, k]));
            let sum = chain
                .host(OpCode::Binary(Binary::Add), 0, element, &[x.clone(), y])
                .unwrap();
            let mut outputs = Vec::new();
            // Three layers of one input, as attention has them, one of another, and a last one of another shape.
            for (i, from) in [&x, &x, &sum, &x, &x].into_iter().enumerate() {
                let rows = if i == 4 { n + 1 } else { n };
                let mut inputs = vec![from.clone(), Source::Const(random.array(element, &[rows, k]))];
                if bias {
                    inputs.push(Source::Const(random.array(element, &[rows])));
                }
                let op = StepOp::Native(Native::Linear { bias, activation });
                outputs.extend(chain.step(op, &inputs).unwrap());
            }
            let what = format!("{activation:?} of {element} {m}×{n}×{k}");
            // Sums of absolute products are about 4·k; terms may miss 3·2⁻¹⁸ of them, and miss less than a tenth of that.
            let allowed = if element == f32 {
                4e-6 * k as f32
            } else {
                4.0 * tolerance(element)
            };
            chain.check(&what, &outputs, allowed, true);
        }
    }
}

/// A norm that writes terms, a GELU inside a split, and a residual sum in a norm.
#[test]
fn a_feed_forward_block() {
    let mut random = Random(77);
    let f32 = ElementType::F32;
    for rows in [21, 300] {
        let mut chain = Chain::new();
        let mut weight = |shape: &[usize], scale: f32| {
            let array = random.array(f32, shape);
            let values = array.to_f32().unwrap().iter().map(|v| v * scale).collect();
            Source::Const(Array::from_values(shape, values).unwrap())
        };
        let norm = [weight(&[256], 0.5), weight(&[256], 0.1)];
        let (up, down) = (weight(&[512, 256], 0.03), weight(&[256, 512], 0.03));
        let (up_bias, down_bias) = (weight(&[512], 0.1), weight(&[256], 0.1));
        let x = chain.input(&Random(3).array(f32, &[3, rows / 3, 256]));
        let native = |chain: &mut Chain, native: Native, inputs: &[Source]| {
            chain.step(StepOp::Native(native), inputs).unwrap().remove(0)
        };
        let layer_norm = |residual| Native::LayerNorm { eps: 1e-6, residual };
        let y = native(&mut chain, layer_norm(false), &[x, norm[0].clone(), norm[1].clone()]);
        let linear = |activation| Native::Linear { bias: true, activation };
        let z = native(&mut chain, linear(Activation::Gelu), &[y.clone(), up, up_bias]);
        let z = native(&mut chain, linear(Activation::None), &[z, down, down_bias]);
        let out = native(&mut chain, layer_norm(true), &[z, y, norm[0].clone(), norm[1].clone()]);
        chain.check(&format!("a block of {rows} rows"), &[out], 3e-5, true);
    }
}
