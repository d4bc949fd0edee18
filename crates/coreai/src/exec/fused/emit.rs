//! Writes expressions as instructions of the kernel IR.
//!
//! Narrow floats are held as `f32` that has been rounded to their type, integers and bools in their own type, so every
//! operation gives what the host evaluator gives. A point of the iteration space may stand for several elements along the
//! innermost dimension; then loads that are consecutive there become one.

use std::collections::HashMap;
use std::sync::Arc;

use anymetal::ir::{
    Access, AddressSpace, Argument, ArgumentKind, BinaryOp, Builder, CompareOp, Const, MathMode, Op, Scalar, Type,
    UnaryOp, ValueId,
};

use crate::bytecode::ElementType;
use crate::program::Binary;

use super::affine::Affine;
use super::math;
use super::node::{Indirect, MapOp, Memory, Node};

/// The IR's type of elements in memory; `None` for types that kernels of ours do not take.
pub(crate) fn scalar_of(element: ElementType) -> Option<Scalar> {
    Some(match element {
        ElementType::F32 => Scalar::F32,
        ElementType::F16 => Scalar::F16,
        ElementType::BF16 => Scalar::BF16,
        ElementType::I64 => Scalar::I64,
        ElementType::I32 => Scalar::I32,
        ElementType::I16 => Scalar::I16,
        ElementType::I8 => Scalar::I8,
        ElementType::U64 => Scalar::U64,
        ElementType::U32 => Scalar::U32,
        ElementType::U16 => Scalar::U16,
        ElementType::U8 => Scalar::U8,
        ElementType::Bool => Scalar::Bool,
        _ => return None,
    })
}

/// The type that an element is held in.
pub(crate) fn held(element: ElementType) -> Option<Scalar> {
    let scalar = scalar_of(element)?;
    Some(if scalar.is_float() { Scalar::F32 } else { scalar })
}

/// A place in the iteration space: an index for each dimension (`i32` or `i64`); along the last one it stands for `lanes`
/// consecutive elements.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub index: Vec<ValueId>,
    pub lanes: u32,
}

/// A memory that the kernel reads, in the order of its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub memory: Memory,
    pub element: ElementType,
}

/// A computed index that must be checked when the kernel has run: pairs of status words, from word `2 · site` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The index must lie in -extent..extent.
    Index { extent: usize, origin: u32 },
    /// The divisor must not be zero.
    Divisor,
}

/// Writes one kernel.
pub(crate) struct Emitter {
    pub b: Builder,
    /// Type of indices: `i32` where every place fits, else `i64`.
    index: Scalar,
    pub inputs: Vec<Input>,
    pub checks: Vec<Check>,
    /// Results of the reductions of this row.
    pub rows: Vec<ValueId>,
    /// Extents of the iteration space.
    shape: Vec<usize>,
    memo: HashMap<usize, Vec<ValueId>>,
    status: Option<anymetal::ir::ArgumentId>,
    pointers: HashMap<usize, ValueId>,
}

/// Buffer index of a kernel's result.
pub(crate) const OUTPUT: u32 = 0;
/// Buffer index of the status words.
pub(crate) const STATUS: u32 = 1;
/// Buffer index of the result as terms of products, where a kernel writes both.
pub(crate) const TERMS: u32 = 30;
/// Buffer index of the first input.
pub(crate) const FIRST_INPUT: u32 = 2;
/// Inputs that a kernel may have.
pub(crate) const MAX_INPUTS: usize = 24;

fn buffer(name: String, index: u32, element: ElementType, access: Access) -> Option<Argument> {
    let scalar = scalar_of(element)?;
    Some(Argument {
        name,
        index,
        kind: ArgumentKind::Buffer {
            space: AddressSpace::Device,
            type_name: scalar.name().to_string(),
            size: scalar.size(),
            align: scalar.size(),
            element_size: scalar.size(),
            reference: false,
        },
        access,
    })
}

impl Emitter {
    /// A kernel over `shape` that evaluates `nodes` and writes elements of `output`.
    pub fn new(name: &str, shape: &[usize], nodes: &[&Arc<Node>], output: ElementType) -> Option<Self> {
        let mut b = Builder::new(name);
        b.argument(buffer("out".into(), OUTPUT, output, Access::WriteOnly)?);
        let mut inputs: Vec<Input> = Vec::new();
        let mut wide = shape.iter().product::<usize>() > i32::MAX as usize;
        let mut fits = true;
        for node in nodes {
            node.visit(&mut |node| match &**node {
                Node::Load {
                    memory, element, at, ..
                } => {
                    fits &= scalar_of(*element).is_some();
                    wide |= reach(at, shape) > i64::from(i32::MAX);
                    if let Memory::Constant(array) = memory {
                        wide |= array.len() > i32::MAX as usize;
                    }
                    if !inputs.iter().any(|i| i.memory.same(memory)) {
                        inputs.push(Input {
                            memory: memory.clone(),
                            element: *element,
                        });
                    }
                }
                Node::Guard { tests, .. } => {
                    wide |= tests.iter().any(|(t, _)| reach(t, shape) > i64::from(i32::MAX));
                }
                Node::Deferred { .. } => fits = false,
                other => fits &= scalar_of(other.element()).is_some(),
            });
        }
        if !fits || inputs.len() > MAX_INPUTS {
            return None;
        }
        for (i, input) in inputs.iter().enumerate() {
            let access = Access::ReadOnly;
            b.argument(buffer(format!("in{i}"), FIRST_INPUT + i as u32, input.element, access)?);
        }
        Some(Self {
            b,
            index: if wide { Scalar::I64 } else { Scalar::I32 },
            inputs,
            checks: Vec::new(),
            rows: Vec::new(),
            shape: shape.to_vec(),
            memo: HashMap::new(),
            status: None,
            pointers: HashMap::new(),
        })
    }

    /// The type of indices.
    pub fn index_type(&self) -> Scalar {
        self.index
    }

    /// A constant of the index type.
    pub fn int(&mut self, value: i64) -> ValueId {
        self.b.int(self.index, value)
    }

    /// A float constant.
    pub fn f32(&mut self, value: f64) -> ValueId {
        self.b.float(Scalar::F32, value)
    }

    /// A binary operation in precise mode.
    pub fn bin(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        self.b.binary(op, a, b, MathMode::Precise)
    }

    /// A unary operation in precise mode.
    pub fn un(&mut self, op: UnaryOp, a: ValueId) -> ValueId {
        self.b.unary(op, a, MathMode::Precise)
    }

    /// Forgets values: those of another point, or of a block that was closed.
    pub fn forget(&mut self) {
        self.memo.clear();
    }

    /// Evaluates with another set of known values, which keeps what is found.
    pub fn with_memo<R>(&mut self, memo: &mut HashMap<usize, Vec<ValueId>>, body: impl FnOnce(&mut Self) -> R) -> R {
        std::mem::swap(&mut self.memo, memo);
        let result = body(self);
        std::mem::swap(&mut self.memo, memo);
        result
    }

    /// Splits a flat index (of the index type) over `extents`.
    pub fn split(&mut self, flat: ValueId, extents: &[usize]) -> Vec<ValueId> {
        let mut out = vec![flat; extents.len()];
        let mut rest = flat;
        for d in (0..extents.len()).rev() {
            if d == 0 {
                out[0] = rest;
            } else {
                let extent = self.int(extents[d] as i64);
                // Flat indices are not negative: unsigned division is cheaper.
                let unsigned = if self.index == Scalar::I32 {
                    Scalar::U32
                } else {
                    Scalar::U64
                };
                let (a, b) = (self.b.convert(rest, unsigned), self.b.convert(extent, unsigned));
                let quotient = self.bin(BinaryOp::Div, a, b);
                let product = self.bin(BinaryOp::Mul, quotient, b);
                let remainder = self.bin(BinaryOp::Sub, a, product);
                out[d] = self.b.convert(remainder, self.index);
                rest = self.b.convert(quotient, self.index);
            }
        }
        out
    }

    /// The value of a form at a point (its first element).
    fn form(&mut self, form: &Affine, point: &Point) -> ValueId {
        let mut sum = self.int(form.offset);
        for (d, &coef) in form.coefs.iter().enumerate() {
            if coef == 0 || self.shape[d] == 1 {
                continue;
            }
            let factor = self.int(coef);
            let term = self.bin(BinaryOp::Mul, point.index[d], factor);
            sum = self.bin(BinaryOp::Add, sum, term);
        }
        sum
    }

    /// What a form grows by from one lane to the next.
    fn step(&self, form: &Affine) -> i64 {
        match (form.coefs.last(), self.shape.last()) {
            (Some(&coef), Some(&extent)) if extent > 1 => coef,
            _ => 0,
        }
    }

    fn argument_pointer(&mut self, argument: u32) -> ValueId {
        self.b.emit(
            Op::ArgumentPointer(anymetal::ir::ArgumentId(argument)),
            &[Type::Pointer(AddressSpace::Device)],
        )
    }

    /// Pointers to all arguments, for use anywhere below.
    pub fn prologue(&mut self) {
        for i in 0..=self.inputs.len() {
            let pointer = self.argument_pointer(i as u32);
            self.pointers.insert(i, pointer);
        }
    }

    /// A pointer to element `at` of argument `argument`.
    fn place(&mut self, argument: usize, at: ValueId, size: u32) -> ValueId {
        let pointer = self.pointers[&argument];
        let (at, size) = (
            self.b.convert(at, Scalar::I64),
            self.b.int(Scalar::I64, i64::from(size)),
        );
        let bytes = self.bin(BinaryOp::Mul, at, size);
        self.b.offset(pointer, bytes)
    }

    /// Adds the argument for terms; gives what [`Emitter::store_to`] takes. Call it where everything below sees it.
    pub fn terms(&mut self) -> Option<usize> {
        let id = self
            .b
            .argument(buffer("terms".into(), TERMS, ElementType::BF16, Access::WriteOnly)?);
        let pointer = self.argument_pointer(id.0);
        self.pointers.insert(id.index(), pointer);
        Some(id.index())
    }

    /// Writes held values as consecutive elements of the result, from element `at` on.
    pub fn store(&mut self, element: ElementType, at: ValueId, values: &[ValueId]) -> Option<()> {
        self.store_to(0, element, at, values)
    }

    /// The same for any argument that is written.
    pub fn store_to(&mut self, argument: usize, element: ElementType, at: ValueId, values: &[ValueId]) -> Option<()> {
        let scalar = scalar_of(element)?;
        let values: Vec<ValueId> = values.iter().map(|&v| self.b.convert(v, scalar)).collect();
        let count = values.len() as u32;
        let pointer = self.place(argument, at, scalar.size());
        let align = (scalar.size() * count).min(16);
        self.b.store(pointer, values, align);
        Some(())
    }

    /// The values of a node at a point, one a lane.
    pub fn node(&mut self, node: &Arc<Node>, point: &Point) -> Option<Vec<ValueId>> {
        let key = Arc::as_ptr(node) as usize;
        if let Some(found) = self.memo.get(&key) {
            return Some(found.clone());
        }
        let lanes = point.lanes as usize;
        let values = match &**node {
            Node::Load {
                memory,
                element,
                at,
                indirect,
            } => self.load(memory, *element, at, indirect, point)?,
            Node::Literal {
                element,
                value,
                integer,
            } => {
                let ty = held(*element)?;
                let one = if ty == Scalar::F32 {
                    self.f32(*value)
                } else {
                    self.b.int(ty, *integer)
                };
                vec![one; lanes]
            }
            Node::Row(stage, _) => vec![*self.rows.get(*stage as usize)?; lanes],
            Node::Deferred { .. } => return None,
            Node::Op { op, args, element } => {
                let mut columns = Vec::new();
                for arg in args {
                    columns.push((self.node(arg, point)?, arg.element()));
                }
                let divisor = match (op, args.get(1)) {
                    (MapOp::Binary(Binary::Divide | Binary::FloorDivide | Binary::Modulo), Some(divisor)) => {
                        held(divisor.element())?.is_integer() && !is_nonzero(divisor)
                    }
                    _ => false,
                };
                let mut out = Vec::new();
                for lane in 0..lanes {
                    let operands: Vec<(ValueId, ElementType)> = columns
                        .iter()
                        .map(|(values, element)| (values[lane], *element))
                        .collect();
                    if divisor {
                        let zero = self.b.int(held(operands[1].1)?, 0);
                        let bad = self.b.compare(CompareOp::Eq, operands[1].0, zero);
                        self.check(Check::Divisor, bad, operands[1].0);
                    }
                    out.push(math::apply(self, *op, &operands, *element)?);
                }
                out
            }
            Node::Guard { tests, inside, outside } => self.guard(tests, inside, outside, point)?,
        };
        self.memo.insert(key, values.clone());
        Some(values)
    }

    fn load(
        &mut self,
        memory: &Memory,
        element: ElementType,
        at: &Affine,
        indirect: &[Indirect],
        point: &Point,
    ) -> Option<Vec<ValueId>> {
        let scalar = scalar_of(element)?;
        let argument = 1 + self.inputs.iter().position(|i| i.memory.same(memory))?;
        let lanes = point.lanes as usize;
        let step = self.step(at);
        // Each computed index, checked and wrapped, as a number of elements.
        let mut moves: Vec<Vec<ValueId>> = Vec::new();
        let mut steady = true;
        for i in indirect {
            steady &= !varies(&i.index, self.shape.len(), self.shape.last().copied().unwrap_or(1));
            let index = self.node(&i.index, point)?;
            let mut places = Vec::new();
            for (lane, &value) in index.iter().enumerate() {
                if lane > 0 && steady {
                    places.push(places[0]);
                    continue;
                }
                places.push(self.wrapped(value, i)?);
            }
            moves.push(places);
        }
        let base = self.form(at, point);
        let address = |me: &mut Self, lane: usize| {
            let mut place = base;
            if step != 0 && lane > 0 {
                let more = me.int(step * lane as i64);
                place = me.bin(BinaryOp::Add, place, more);
            }
            for one in &moves {
                place = me.bin(BinaryOp::Add, place, one[lane]);
            }
            place
        };
        let whole = lanes as i64;
        let last = self.shape.len().saturating_sub(1);
        let vector = lanes > 1
            && step == 1
            && steady
            && at.offset % whole == 0
            && at.coefs.iter().take(last).all(|c| c % whole == 0)
            && indirect.iter().all(|i| i.stride % whole == 0);
        let mut raw = Vec::new();
        if vector {
            let place = address(self, 0);
            let pointer = self.place(argument, place, scalar.size());
            let align = (scalar.size() * lanes as u32).min(16).min(alignment(memory));
            raw = self.b.load(pointer, scalar, lanes as u32, align);
        } else {
            for lane in 0..lanes {
                if lane > 0 && step == 0 && steady {
                    raw.push(raw[0]);
                    continue;
                }
                let place = address(self, lane);
                let pointer = self.place(argument, place, scalar.size());
                raw.push(self.b.load(pointer, scalar, 1, scalar.size())[0]);
            }
        }
        let ty = held(element)?;
        Some(raw.into_iter().map(|v| self.b.convert(v, ty)).collect())
    }

    /// A computed index in 0..extent, times its stride. One that lies outside is reported and taken as 0.
    fn wrapped(&mut self, value: ValueId, indirect: &Indirect) -> Option<ValueId> {
        let wide = self.b.convert(value, Scalar::I64);
        let extent = self.b.int(Scalar::I64, indirect.extent as i64);
        let zero = self.b.int(Scalar::I64, 0);
        let negative = self.b.compare(CompareOp::Lt, wide, zero);
        let turned = self.bin(BinaryOp::Add, wide, extent);
        let at = self.b.select(negative, turned, wide);
        let low = self.b.compare(CompareOp::Lt, at, zero);
        let high = self.b.compare(CompareOp::Ge, at, extent);
        let bad = self.bin(BinaryOp::Or, low, high);
        let check = Check::Index {
            extent: indirect.extent,
            origin: indirect.origin,
        };
        self.check(check, bad, wide);
        let safe = self.b.select(bad, zero, at);
        let stride = self.b.int(Scalar::I64, indirect.stride);
        let place = self.bin(BinaryOp::Mul, safe, stride);
        Some(self.b.convert(place, self.index))
    }

    /// Reports `value` at a new site where `bad` is true.
    fn check(&mut self, check: Check, bad: ValueId, value: ValueId) {
        let site = self.checks.len() as i64;
        self.checks.push(check);
        let status = match self.status {
            Some(status) => status,
            None => {
                let argument = buffer("status".into(), STATUS, ElementType::I64, Access::WriteOnly);
                let id = match argument {
                    Some(argument) => self.b.argument(argument),
                    None => return,
                };
                self.status = Some(id);
                id
            }
        };
        self.b.push_block();
        let pointer = self
            .b
            .emit(Op::ArgumentPointer(status), &[Type::Pointer(AddressSpace::Device)]);
        let offset = self.b.int(Scalar::I64, 16 * site);
        let pointer = self.b.offset(pointer, offset);
        let one = self.b.int(Scalar::I64, 1);
        let wide = self.b.convert(value, Scalar::I64);
        self.b.store(pointer, vec![one, wide], 8);
        let then = self.b.pop_block();
        self.b.if_(bad, then, Default::default());
    }

    fn guard(
        &mut self,
        tests: &[(Affine, i64)],
        inside: &Arc<Node>,
        outside: &Arc<Node>,
        point: &Point,
    ) -> Option<Vec<ValueId>> {
        let ty = held(inside.element())?;
        let mut out = Vec::new();
        for lane in 0..point.lanes as usize {
            let mut at = point.clone();
            at.lanes = 1;
            if lane > 0
                && let Some(last) = at.index.last_mut()
            {
                let more = self.b.int(self.index, lane as i64);
                *last = self.b.binary(BinaryOp::Add, *last, more, MathMode::Precise);
            }
            let mut all = None;
            for (form, extent) in tests {
                let (value, zero, extent) = (self.form(form, &at), self.int(0), self.int(*extent));
                let low = self.b.compare(CompareOp::Ge, value, zero);
                let high = self.b.compare(CompareOp::Lt, value, extent);
                let both = self.bin(BinaryOp::And, low, high);
                all = Some(match all {
                    None => both,
                    Some(before) => self.bin(BinaryOp::And, before, both),
                });
            }
            let Some(condition) = all else {
                out.push(self.node(inside, &at)?[0]);
                continue;
            };
            let result = self.b.local("guarded", ty);
            let branch = |me: &mut Self, node: &Arc<Node>| {
                // What is computed in a branch is not visible after it; what lanes share is another point's.
                let outer = std::mem::take(&mut me.memo);
                me.b.push_block();
                let value = me.node(node, &at).map(|v| v[0]);
                if let Some(value) = value {
                    me.b.set(result, value);
                }
                me.memo = outer;
                let block = me.b.pop_block();
                value.map(|_| block)
            };
            let then = branch(self, inside)?;
            let otherwise = branch(self, outside)?;
            self.b.if_(condition, then, otherwise);
            out.push(self.b.get(result));
        }
        Some(out)
    }

    /// The kernel for threadgroups of at most `threads` threads, optimised, with the memories it reads and what must be checked when it has run.
    pub fn finish(self, threads: usize) -> (anymetal::ir::Kernel, Vec<Input>, Vec<Check>) {
        let mut kernel = self.b.finish();
        kernel.max_threads = Some(threads as u32);
        anymetal::ir::passes::optimize(&mut kernel);
        (kernel, self.inputs, self.checks)
    }
}

/// A constant of a scalar type's bits, for tests of literals.
pub(crate) fn constant_bits(constant: Option<Const>) -> Option<u64> {
    constant.map(|c| c.bits)
}

fn is_nonzero(node: &Node) -> bool {
    matches!(node, Node::Literal { integer, .. } if *integer != 0)
}

/// The largest number that a form can come to, in size.
fn reach(form: &Affine, shape: &[usize]) -> i64 {
    form.coefs
        .iter()
        .zip(shape)
        .fold(form.offset.abs(), |sum, (&coef, &extent)| {
            sum.saturating_add(coef.abs().saturating_mul(extent.saturating_sub(1) as i64))
        })
}

/// True unless the node is the same all along the innermost dimension.
fn varies(node: &Arc<Node>, rank: usize, extent: usize) -> bool {
    if extent == 1 || rank == 0 {
        return false;
    }
    node.forms().iter().any(|form| form.coefs[rank - 1] != 0)
}

/// What the address of a memory is a multiple of, at most 16.
fn alignment(memory: &Memory) -> u32 {
    match memory {
        Memory::Value(_) => 16,
        Memory::Constant(array) => 1 << (array.bytes().as_ptr() as usize).trailing_zeros().min(4),
    }
}
