//! A one-lane interpreter of straight IR, to check what a kernel computes without a backend.

#![allow(dead_code)]

use std::collections::HashMap;

use anymetal_ir::builder::fold::{self, to_float, to_int};
use anymetal_ir::{
    AddressSpace, ArgumentKind, BinaryOp, Block, Const, Kernel, Op, Scalar, TernaryOp, Type, UnaryOp, ValueId,
};
use anymetal_msl::{CompileOptions, FunctionConstantValues, Library};

/// Compiles a source and lowers one of its kernels; panics with the diagnostics if it does not.
pub fn lower(source: &str, kernel: &str) -> Kernel {
    specialize(source, kernel, &FunctionConstantValues::default())
}

/// As [`lower`], with function constants.
pub fn specialize(source: &str, kernel: &str, values: &FunctionConstantValues) -> Kernel {
    let options = CompileOptions::default();
    let library = Library::compile(source, "test.metal", &options).unwrap_or_else(|e| panic!("{}", e.render()));
    let kernel = library
        .specialize(kernel, values)
        .unwrap_or_else(|e| panic!("{}", e.render()));
    if let Err(e) = anymetal_ir::verify(&kernel) {
        panic!("{e}\n{}", anymetal_ir::print(&kernel));
    }
    kernel
}

/// The rendered errors of a source; panics if there are none.
pub fn errors(source: &str) -> String {
    match Library::compile(source, "test.metal", &CompileOptions::default()) {
        Ok(_) => panic!("the source compiles"),
        Err(e) => e.render(),
    }
}

/// The body of a kernel `k(device float *out, device const float *in)` is run for thread 0; what it leaves in `out`.
pub fn run_floats(source: &str, input: &[f32], outputs: usize) -> Vec<f32> {
    let kernel = lower(source, "k");
    let mut machine = Machine::new(&kernel);
    machine.buffers.push(vec![0; outputs * 4]);
    machine
        .buffers
        .push(input.iter().flat_map(|x| x.to_le_bytes()).collect());
    machine.run();
    machine.buffers[0]
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

/// As [`run_floats`], with `int` buffers.
pub fn run_ints(source: &str, input: &[i32], outputs: usize) -> Vec<i32> {
    run_ints_with(source, input, outputs, &FunctionConstantValues::default())
}

/// As [`run_ints`], with function constants.
pub fn run_ints_with(source: &str, input: &[i32], outputs: usize, values: &FunctionConstantValues) -> Vec<i32> {
    let kernel = specialize(source, "k", values);
    let mut machine = Machine::new(&kernel);
    machine.buffers.push(vec![0; outputs * 4]);
    machine
        .buffers
        .push(input.iter().flat_map(|x| x.to_le_bytes()).collect());
    machine.run();
    machine.buffers[0]
        .chunks_exact(4)
        .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

enum Flow {
    Next,
    Break(u32),
    Continue(u32),
    Return,
}

/// A lane and its memory. Buffer `i` is what `[[buffer(i)]]` is bound to.
pub struct Machine<'k> {
    kernel: &'k Kernel,
    values: HashMap<ValueId, u64>,
    locals: Vec<u64>,
    memory: Vec<Vec<u8>>,
    /// Bound buffers.
    pub buffers: Vec<Vec<u8>>,
    steps: u64,
}

impl<'k> Machine<'k> {
    pub fn new(kernel: &'k Kernel) -> Self {
        let memory = kernel
            .memory
            .iter()
            .map(|m| {
                let mut bytes = m.data.clone();
                bytes.resize(m.size as usize, 0);
                bytes
            })
            .collect();
        Machine {
            kernel,
            values: HashMap::new(),
            locals: vec![0; kernel.locals.len()],
            memory,
            buffers: Vec::new(),
            steps: 0,
        }
    }

    pub fn run(&mut self) {
        let kernel = self.kernel;
        self.block(&kernel.body);
    }

    fn get(&self, id: ValueId) -> u64 {
        self.values[&id]
    }

    fn constant(&self, id: ValueId) -> Const {
        let ty = self.kernel.ty(id).scalar().unwrap_or(Scalar::U64);
        Const { ty, bits: self.get(id) }
    }

    fn bytes(&mut self, pointer: u64, n: usize) -> &mut [u8] {
        let (object, offset) = ((pointer >> 40) as usize, (pointer & ((1 << 40) - 1)) as usize);
        assert!(object != 0, "null pointer");
        let list = if object >= 1000 {
            &mut self.memory[object - 1000]
        } else {
            &mut self.buffers[object - 1]
        };
        let size = list.len();
        list.get_mut(offset..offset + n)
            .unwrap_or_else(|| panic!("access at {offset} of {size} bytes"))
    }

    fn block(&mut self, block: &Block) -> Flow {
        for inst in &block.insts {
            self.steps += 1;
            assert!(self.steps < 2_000_000, "endless loop");
            let flow = self.op(&inst.op, inst.first);
            if !matches!(flow, Flow::Next) {
                return flow;
            }
        }
        Flow::Next
    }

    fn set(&mut self, id: ValueId, bits: u64) -> Flow {
        self.values.insert(id, bits);
        Flow::Next
    }

    fn op(&mut self, op: &Op, first: ValueId) -> Flow {
        let size = |ty: Type| match ty {
            Type::Scalar(s) => s.size() as usize,
            Type::Pointer(_) => 8,
        };
        match op {
            Op::Const(c) => self.set(first, c.bits),
            Op::Builtin(_) | Op::NullPointer(_) => self.set(first, 0),
            Op::Unary { op, operand, .. } => {
                let c = self.constant(*operand);
                let r = fold::unary(*op, c).map_or_else(|| unary(*op, c), |c| c.bits);
                self.set(first, r)
            }
            Op::Binary { op, lhs, rhs, .. } => {
                let (a, b) = (self.constant(*lhs), self.constant(*rhs));
                let r = fold::binary(*op, a, b).map_or_else(|| binary(*op, a, b), |c| c.bits);
                self.set(first, r)
            }
            Op::Ternary { op, a, b, c, .. } => {
                let [a, b, c] = [*a, *b, *c].map(|v| to_float(self.constant(v)));
                let r = match op {
                    TernaryOp::Fma => a.mul_add(b, c),
                    TernaryOp::Clamp => a.max(b).min(c),
                    TernaryOp::Median3 => a.max(b).min(a.min(b).max(c)),
                    TernaryOp::BitSelect => {
                        let [a, b, c] = [a, b, c].map(|x| x as i64);
                        ((a & !c) | (b & c)) as f64
                    }
                };
                let ty = self.kernel.ty(first).scalar().unwrap();
                let bits = if ty.is_float() {
                    fold::float_bits(ty, r)
                } else {
                    r as i64 as u64 & mask(ty)
                };
                self.set(first, bits)
            }
            Op::Compare { op, lhs, rhs } => {
                let (a, b) = (self.constant(*lhs), self.constant(*rhs));
                let r = fold::compare(*op, a, b).expect("compare");
                self.set(first, u64::from(r))
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => {
                let chosen = if self.get(*condition) != 0 { then } else { otherwise };
                let bits = self.get(*chosen);
                self.set(first, bits)
            }
            Op::Convert { operand, to, saturate } => {
                let mut from = self.constant(*operand);
                if *saturate && !from.ty.is_float() && !to.is_float() {
                    let (low, high) = range(*to);
                    from.bits = to_int(from).clamp(low, high) as u64 & mask(from.ty);
                }
                let r = fold::convert(from, *to).expect("convert");
                self.set(first, r.bits)
            }
            Op::Modf { operand } => {
                let (x, ty) = (
                    to_float(self.constant(*operand)),
                    self.kernel.ty(first).scalar().unwrap(),
                );
                let whole = fold::float_bits(ty, x.trunc());
                self.values.insert(ValueId(first.0 + 1), whole);
                self.set(first, fold::float_bits(ty, x - x.trunc()))
            }
            Op::Frexp { operand } => {
                let (x, ty) = (
                    to_float(self.constant(*operand)),
                    self.kernel.ty(first).scalar().unwrap(),
                );
                let exponent = x.abs().log2().floor() as i32 + 1;
                let bits = u64::from(exponent as u32);
                self.values.insert(ValueId(first.0 + 1), bits);
                self.set(first, fold::float_bits(ty, x / f64::from(exponent).exp2()))
            }
            Op::Bitcast { operand, .. } => {
                let bits = self.get(*operand);
                self.set(first, bits)
            }
            Op::LocalGet(l) => {
                let bits = self.locals[l.index()];
                self.set(first, bits)
            }
            Op::LocalSet { local, value } => {
                self.locals[local.index()] = self.get(*value);
                Flow::Next
            }
            Op::MemoryPointer(id) => self.set(first, (1000 + u64::from(id.0)) << 40),
            Op::ArgumentPointer(id) => {
                let argument = &self.kernel.arguments[id.index()];
                assert!(matches!(argument.kind, ArgumentKind::Buffer { .. }));
                self.set(first, (1 + u64::from(argument.index)) << 40)
            }
            Op::PointerOffset { pointer, offset } => {
                let bits = self.get(*pointer).wrapping_add(self.get(*offset));
                self.set(first, bits)
            }
            Op::PointerDiff { lhs, rhs } => {
                let bits = self.get(*lhs).wrapping_sub(self.get(*rhs));
                self.set(first, bits)
            }
            Op::Load { pointer, ty, count, .. } => {
                let (p, n) = (self.get(*pointer), size(*ty));
                for i in 0..*count {
                    let mut bits = [0u8; 8];
                    bits[..n].copy_from_slice(self.bytes(p + u64::from(i) * n as u64, n));
                    let mut v = u64::from_le_bytes(bits);
                    if *ty == Type::Scalar(Scalar::Bool) {
                        v = u64::from(v != 0);
                    }
                    self.values.insert(ValueId(first.0 + i), v);
                }
                Flow::Next
            }
            Op::Store { pointer, values, .. } => {
                let p = self.get(*pointer);
                for (i, v) in values.iter().enumerate() {
                    let n = size(self.kernel.ty(*v));
                    let bits = self.get(*v).to_le_bytes();
                    self.bytes(p + (i * n) as u64, n).copy_from_slice(&bits[..n]);
                }
                Flow::Next
            }
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                if self.get(*condition) != 0 {
                    self.block(then)
                } else {
                    self.block(otherwise)
                }
            }
            Op::Loop { body, latch, .. } => loop {
                match self.block(body) {
                    Flow::Break(0) => return Flow::Next,
                    Flow::Break(n) => return Flow::Break(n - 1),
                    Flow::Continue(0) | Flow::Next => {}
                    Flow::Continue(n) => return Flow::Continue(n - 1),
                    Flow::Return => return Flow::Return,
                }
                match self.block(latch) {
                    Flow::Next => {}
                    _ => panic!("the latch leaves the loop"),
                }
            },
            Op::Scope { body } => match self.block(body) {
                Flow::Break(0) => Flow::Next,
                Flow::Break(n) => Flow::Break(n - 1),
                Flow::Continue(0) => panic!("continue of a scope"),
                Flow::Continue(n) => Flow::Continue(n - 1),
                flow => flow,
            },
            Op::Break(n) => Flow::Break(*n),
            Op::Continue(n) => Flow::Continue(*n),
            Op::Return => Flow::Return,
            Op::Barrier { .. } | Op::Fence(_) => Flow::Next,
            other => panic!("the test interpreter does not know {other:?}"),
        }
    }
}

fn mask(ty: Scalar) -> u64 {
    if ty.bits() >= 64 {
        u64::MAX
    } else {
        (1 << ty.bits()) - 1
    }
}

/// The least and the greatest value of an integer type.
fn range(ty: Scalar) -> (i128, i128) {
    if ty.is_signed() {
        (-(1 << (ty.bits() - 1)), (1 << (ty.bits() - 1)) - 1)
    } else {
        (0, mask(ty).into())
    }
}

fn unary(op: UnaryOp, c: Const) -> u64 {
    let x = to_float(c);
    let r = match op {
        UnaryOp::Abs => x.abs(),
        UnaryOp::Exp => x.exp(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Fract => x - x.floor(),
        UnaryOp::Exp2 => x.exp2(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Saturate => x.clamp(0.0, 1.0),
        UnaryOp::Sign if x == 0.0 => 0.0,
        UnaryOp::Sign => x.signum(),
        UnaryOp::IsNan => return u64::from(x.is_nan()),
        UnaryOp::Popcount => return u64::from(c.bits.count_ones()),
        UnaryOp::Clz => return u64::from((c.bits << (64 - c.ty.bits())).leading_zeros()),
        UnaryOp::Ctz => return u64::from(c.bits.trailing_zeros()),
        UnaryOp::ReverseBits => return c.bits.reverse_bits() >> (64 - c.ty.bits()),
        _ => panic!("{op:?}"),
    };
    fold::float_bits(c.ty, r)
}

fn binary(op: BinaryOp, a: Const, b: Const) -> u64 {
    if !a.ty.is_float() {
        let (x, y) = (to_int(a), to_int(b));
        let r = match op {
            BinaryOp::Mul => x.wrapping_mul(y),
            BinaryOp::Div | BinaryOp::Rem => 0,
            BinaryOp::MulHi => (x * y) >> a.ty.bits(),
            BinaryOp::AbsDiff => (x - y).abs(),
            BinaryOp::Hadd => (x + y) >> 1,
            BinaryOp::Rhadd => (x + y + 1) >> 1,
            BinaryOp::AddSat => (x + y).clamp(range(a.ty).0, range(a.ty).1),
            BinaryOp::SubSat => (x - y).clamp(range(a.ty).0, range(a.ty).1),
            BinaryOp::Rotate => {
                let (bits, count) = (a.bits & mask(a.ty), y.rem_euclid(a.ty.bits().into()));
                let back = (i128::from(a.ty.bits()) - count) % i128::from(a.ty.bits());
                i128::from(bits << count | bits >> back)
            }
            _ => panic!("{op:?}"),
        };
        return r as u64 & mask(a.ty);
    }
    let (x, y) = (to_float(a), to_float(b));
    let r = match op {
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::Pow => x.powf(y),
        BinaryOp::Fmod => x % y,
        BinaryOp::Copysign => x.copysign(y),
        _ => panic!("{op:?}"),
    };
    fold::float_bits(a.ty, r)
}

/// The address space of a pointer value.
pub fn space(kernel: &Kernel, value: ValueId) -> Option<AddressSpace> {
    match kernel.ty(value) {
        Type::Pointer(space) => Some(space),
        Type::Scalar(_) => None,
    }
}
