//! Builds a kernel instruction by instruction, folding constants on the way.

use crate::kernel::{Argument, Block, Inst, Kernel, Local, MemoryObject, ValueInfo};
use crate::location::{Location, LocationId};
use crate::op::{BinaryOp, CompareOp, Const, MathMode, Op, TernaryOp, UnaryOp, Unroll};
use crate::tensor::Cooperative;
use crate::types::{ArgumentId, CoopId, LocalId, MemoryId, Scalar, Type, ValueId};

/// Builds one [`Kernel`].
///
/// Blocks are built on a stack: [`Builder::push_block`] opens one, [`Builder::pop_block`] closes it and returns it, to be
/// put into an `If`, `Loop`, `Scope` or `CoopMap`. Instructions go to the innermost open block.
pub struct Builder {
    kernel: Kernel,
    blocks: Vec<Block>,
    location: LocationId,
    constants: Vec<Option<Const>>,
}

impl Builder {
    /// A builder with an open body.
    pub fn new(name: impl Into<String>) -> Self {
        Builder {
            kernel: Kernel {
                name: name.into(),
                ..Kernel::default()
            },
            blocks: vec![Block::default()],
            location: LocationId::default(),
            constants: Vec::new(),
        }
    }

    /// The kernel so far (its body is set by [`Builder::finish`]).
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The kernel so far, to fill in what is not an instruction.
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// Adds an argument.
    pub fn argument(&mut self, argument: Argument) -> ArgumentId {
        self.kernel.arguments.push(argument);
        ArgumentId(self.kernel.arguments.len() as u32 - 1)
    }

    /// Adds a memory object.
    pub fn memory(&mut self, object: MemoryObject) -> MemoryId {
        self.kernel.memory.push(object);
        MemoryId(self.kernel.memory.len() as u32 - 1)
    }

    /// Adds a mutable local.
    pub fn local(&mut self, name: impl Into<String>, ty: impl Into<Type>) -> LocalId {
        self.kernel.locals.push(Local {
            name: name.into(),
            ty: ty.into(),
        });
        LocalId(self.kernel.locals.len() as u32 - 1)
    }

    /// Adds a cooperative tensor.
    pub fn cooperative(&mut self, cooperative: Cooperative) -> CoopId {
        self.kernel.cooperatives.push(cooperative);
        CoopId(self.kernel.cooperatives.len() as u32 - 1)
    }

    /// Interns a location.
    pub fn add_location(&mut self, location: Location) -> LocationId {
        self.kernel.locations.add(location)
    }

    /// Sets the location of the instructions to come.
    pub fn set_location(&mut self, location: LocationId) {
        self.location = location;
    }

    /// The location of the instructions to come.
    pub fn location(&self) -> LocationId {
        self.location
    }

    /// Emits an operation with results of the given types; returns the first result's id (meaningless without results).
    pub fn emit(&mut self, op: Op, results: &[Type]) -> ValueId {
        let first = ValueId(self.kernel.values.len() as u32);
        for &ty in results {
            self.kernel.values.push(ValueInfo { ty });
            self.constants.push(None);
        }
        if let Op::Const(value) = &op {
            self.constants[first.index()] = Some(*value);
        }
        let inst = Inst {
            op,
            first,
            count: results.len() as u32,
            location: self.location,
        };
        self.blocks
            .last_mut()
            .expect("the body is open until finish")
            .insts
            .push(inst);
        first
    }

    /// Emits an operation without results.
    pub fn emit_void(&mut self, op: Op) {
        self.emit(op, &[]);
    }

    /// How many blocks are open, the body among them.
    pub fn open_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Opens a block.
    pub fn push_block(&mut self) {
        self.blocks.push(Block::default());
    }

    /// Closes the innermost block and returns it. The body itself is closed by [`Builder::finish`] only.
    pub fn pop_block(&mut self) -> Block {
        debug_assert!(self.blocks.len() > 1, "pop_block without push_block");
        self.blocks.pop().unwrap_or_default()
    }

    /// Adds the instructions of a closed block to the innermost open one.
    pub fn append(&mut self, block: Block) {
        if let Some(open) = self.blocks.last_mut() {
            open.insts.extend(block.insts);
        }
    }

    /// True if the last instruction of the innermost block leaves it (break, continue, return).
    pub fn is_terminated(&self) -> bool {
        let last = self.blocks.last().and_then(|block| block.insts.last());
        matches!(
            last.map(|inst| &inst.op),
            Some(Op::Break(_) | Op::Continue(_) | Op::Return)
        )
    }

    /// Ends the kernel.
    pub fn finish(mut self) -> Kernel {
        while self.blocks.len() > 1 {
            self.blocks.pop();
        }
        self.kernel.body = self.blocks.pop().unwrap_or_default();
        self.kernel
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> Type {
        self.kernel.ty(value)
    }

    /// The scalar type of a value that is known to be a scalar; `u64` for a pointer.
    pub fn scalar(&self, value: ValueId) -> Scalar {
        self.ty(value).scalar().unwrap_or(Scalar::U64)
    }

    /// The constant behind a value, if it is one.
    pub fn as_const(&self, value: ValueId) -> Option<Const> {
        self.constants[value.index()]
    }

    /// A constant from raw bits.
    pub fn constant(&mut self, ty: Scalar, bits: u64) -> ValueId {
        let mask = if ty.bits() >= 64 {
            u64::MAX
        } else {
            (1u64 << ty.bits()) - 1
        };
        self.emit(Op::Const(Const { ty, bits: bits & mask }), &[ty.into()])
    }

    /// An integer (or `bool`) constant.
    pub fn int(&mut self, ty: Scalar, value: i64) -> ValueId {
        self.constant(ty, value as u64)
    }

    /// A float constant, rounded to nearest even.
    pub fn float(&mut self, ty: Scalar, value: f64) -> ValueId {
        self.constant(ty, crate::builder::fold::float_bits(ty, value))
    }

    /// A unary operation whose result has the operand's type.
    pub fn unary(&mut self, op: UnaryOp, operand: ValueId, mode: MathMode) -> ValueId {
        let ty = match op {
            UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::IsFinite | UnaryOp::IsNormal | UnaryOp::SignBit => {
                Scalar::Bool.into()
            }
            UnaryOp::Ilogb => Scalar::I32.into(),
            _ => self.ty(operand),
        };
        if let Some(value) = self.as_const(operand).and_then(|value| fold::unary(op, value)) {
            return self.constant(value.ty, value.bits);
        }
        self.emit(Op::Unary { op, operand, mode }, &[ty])
    }

    /// A binary operation.
    pub fn binary(&mut self, op: BinaryOp, lhs: ValueId, rhs: ValueId, mode: MathMode) -> ValueId {
        if let (Some(a), Some(b)) = (self.as_const(lhs), self.as_const(rhs))
            && let Some(value) = fold::binary(op, a, b)
        {
            return self.constant(value.ty, value.bits);
        }
        if let Some(same) = self.identity(op, lhs, rhs) {
            return same;
        }
        let ty = self.ty(lhs);
        self.emit(Op::Binary { op, lhs, rhs, mode }, &[ty])
    }

    /// `x + 0`, `x · 1` and the like for integers.
    fn identity(&self, op: BinaryOp, lhs: ValueId, rhs: ValueId) -> Option<ValueId> {
        if !self.ty(lhs).scalar()?.is_integer() {
            return None;
        }
        let is = |value: ValueId, bits: u64| self.as_const(value).is_some_and(|c| c.bits == bits);
        match op {
            BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor if is(rhs, 0) => Some(lhs),
            BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor if is(lhs, 0) => Some(rhs),
            BinaryOp::Sub | BinaryOp::Shl | BinaryOp::Shr if is(rhs, 0) => Some(lhs),
            BinaryOp::Mul | BinaryOp::Div if is(rhs, 1) => Some(lhs),
            BinaryOp::Mul if is(lhs, 1) => Some(rhs),
            BinaryOp::Mul if is(lhs, 0) => Some(lhs),
            BinaryOp::Mul if is(rhs, 0) => Some(rhs),
            _ => None,
        }
    }

    /// A ternary operation.
    pub fn ternary(&mut self, op: TernaryOp, a: ValueId, b: ValueId, c: ValueId, mode: MathMode) -> ValueId {
        let ty = self.ty(a);
        self.emit(Op::Ternary { op, a, b, c, mode }, &[ty])
    }

    /// A comparison.
    pub fn compare(&mut self, op: CompareOp, lhs: ValueId, rhs: ValueId) -> ValueId {
        if let (Some(a), Some(b)) = (self.as_const(lhs), self.as_const(rhs))
            && let Some(result) = fold::compare(op, a, b)
        {
            return self.constant(Scalar::Bool, u64::from(result));
        }
        self.emit(Op::Compare { op, lhs, rhs }, &[Scalar::Bool.into()])
    }

    /// `condition ? then : otherwise`, both evaluated.
    pub fn select(&mut self, condition: ValueId, then: ValueId, otherwise: ValueId) -> ValueId {
        if let Some(c) = self.as_const(condition) {
            return if c.bits != 0 { then } else { otherwise };
        }
        let ty = self.ty(then);
        self.emit(
            Op::Select {
                condition,
                then,
                otherwise,
            },
            &[ty],
        )
    }

    /// A value conversion; nothing is emitted for the same type.
    pub fn convert(&mut self, operand: ValueId, to: Scalar) -> ValueId {
        if self.ty(operand) == Type::Scalar(to) {
            return operand;
        }
        if let Some(value) = self.as_const(operand).and_then(|value| fold::convert(value, to)) {
            return self.constant(value.ty, value.bits);
        }
        self.emit(
            Op::Convert {
                operand,
                to,
                saturate: false,
            },
            &[to.into()],
        )
    }

    /// The current value of a local.
    pub fn get(&mut self, local: LocalId) -> ValueId {
        let ty = self.kernel.local(local).ty;
        self.emit(Op::LocalGet(local), &[ty])
    }

    /// Sets a local.
    pub fn set(&mut self, local: LocalId, value: ValueId) {
        self.emit_void(Op::LocalSet { local, value });
    }

    /// `pointer + offset` bytes (`i64`).
    pub fn offset(&mut self, pointer: ValueId, offset: ValueId) -> ValueId {
        if self.as_const(offset).is_some_and(|c| c.bits == 0) {
            return pointer;
        }
        let ty = self.ty(pointer);
        self.emit(Op::PointerOffset { pointer, offset }, &[ty])
    }

    /// Loads `count` consecutive scalars; returns their ids in order.
    pub fn load(&mut self, pointer: ValueId, ty: impl Into<Type>, count: u32, align: u32) -> Vec<ValueId> {
        let ty = ty.into();
        let first = self.emit(
            Op::Load {
                pointer,
                ty,
                count,
                align,
            },
            &vec![ty; count as usize],
        );
        (first.0..first.0 + count).map(ValueId).collect()
    }

    /// Stores consecutive scalars.
    pub fn store(&mut self, pointer: ValueId, values: Vec<ValueId>, align: u32) {
        self.emit_void(Op::Store { pointer, values, align });
    }

    /// An `If` from two closed blocks.
    pub fn if_(&mut self, condition: ValueId, then: Block, otherwise: Block) {
        self.emit_void(Op::If {
            condition,
            then,
            otherwise,
        });
    }

    /// A `Loop` from two closed blocks.
    pub fn loop_(&mut self, body: Block, latch: Block, unroll: Unroll) {
        self.emit_void(Op::Loop { body, latch, unroll });
    }
}

/// Constant folding. Every function returns `None` where it does not fold.
pub mod fold {
    use half::{bf16, f16};

    use crate::op::{BinaryOp, CompareOp, Const, UnaryOp};
    use crate::types::Scalar;

    /// The bits of a float constant, rounded once to nearest even.
    pub fn float_bits(ty: Scalar, value: f64) -> u64 {
        match ty {
            Scalar::F16 => u64::from(f16::from_f32(to_odd(value)).to_bits()),
            Scalar::BF16 => u64::from(bf16::from_f32(to_odd(value)).to_bits()),
            _ => u64::from((value as f32).to_bits()),
        }
    }

    /// Rounds to the `f32` next to zero, with the last bit set if that is inexact: rounding the result again to a format
    /// with fewer bits gives what rounding the number itself gives.
    fn to_odd(value: f64) -> f32 {
        let nearest = value as f32;
        if f64::from(nearest) == value || value.is_nan() {
            return nearest;
        }
        let bits = nearest.to_bits();
        let toward_zero = if f64::from(nearest).abs() > value.abs() {
            bits - 1
        } else {
            bits
        };
        f32::from_bits(toward_zero | 1)
    }

    /// The number behind a float constant.
    pub fn to_float(value: Const) -> f64 {
        match value.ty {
            Scalar::F16 => f16::from_bits(value.bits as u16).to_f64(),
            Scalar::BF16 => bf16::from_bits(value.bits as u16).to_f64(),
            Scalar::F32 => f64::from(f32::from_bits(value.bits as u32)),
            _ => to_int(value) as f64,
        }
    }

    /// The number behind an integer or `bool` constant.
    pub fn to_int(value: Const) -> i128 {
        let bits = value.ty.bits();
        if value.ty.is_signed() && bits < 64 && value.bits >> (bits - 1) != 0 {
            i128::from(value.bits) - (1i128 << bits)
        } else if value.ty == Scalar::I64 {
            i128::from(value.bits as i64)
        } else {
            i128::from(value.bits)
        }
    }

    fn int(ty: Scalar, value: i128) -> Const {
        let mask = if ty.bits() >= 64 {
            u64::MAX
        } else {
            (1u64 << ty.bits()) - 1
        };
        Const {
            ty,
            bits: value as u64 & mask,
        }
    }

    fn float(ty: Scalar, value: f64) -> Const {
        Const {
            ty,
            bits: float_bits(ty, value),
        }
    }

    /// Negation, complement, absolute value, and the operations that count or reverse bits.
    pub fn unary(op: UnaryOp, value: Const) -> Option<Const> {
        let ty = value.ty;
        match op {
            UnaryOp::Neg if ty.is_float() => Some(Const {
                ty,
                bits: value.bits ^ (1 << (ty.bits() - 1)),
            }),
            UnaryOp::Abs if ty.is_float() => Some(Const {
                ty,
                bits: value.bits & !(1 << (ty.bits() - 1)),
            }),
            UnaryOp::Neg if ty.is_integer() => Some(int(ty, -to_int(value))),
            UnaryOp::Not if ty == Scalar::Bool => Some(Const {
                ty,
                bits: value.bits ^ 1,
            }),
            UnaryOp::Not if ty.is_integer() => Some(int(ty, !to_int(value))),
            UnaryOp::Abs if ty.is_integer() => Some(int(ty, to_int(value).abs())),
            UnaryOp::Popcount if ty.is_integer() => Some(int(ty, value.bits.count_ones().into())),
            UnaryOp::Clz if ty.is_integer() => Some(int(ty, (value.bits.leading_zeros() - (64 - ty.bits())).into())),
            UnaryOp::Ctz if ty.is_integer() => Some(int(ty, value.bits.trailing_zeros().min(ty.bits()).into())),
            UnaryOp::ReverseBits if ty.is_integer() => {
                Some(int(ty, (value.bits.reverse_bits() >> (64 - ty.bits())).into()))
            }
            _ => None,
        }
    }

    /// Arithmetic on integers, and the four operations on floats.
    pub fn binary(op: BinaryOp, a: Const, b: Const) -> Option<Const> {
        let ty = a.ty;
        if ty.is_float() {
            if b.ty != ty {
                return None;
            }
            let (x, y) = (to_float(a), to_float(b));
            // f64 arithmetic on f32 operands rounds to the same f32 as f32 arithmetic (double rounding is innocuous here).
            let result = match op {
                BinaryOp::Add => x + y,
                BinaryOp::Sub => x - y,
                BinaryOp::Mul => x * y,
                BinaryOp::Div => x / y,
                _ => return None,
            };
            // Which NaN comes out is the backend's business.
            return (!result.is_nan()).then(|| float(ty, result));
        }
        let (x, y) = (to_int(a), to_int(b));
        let count = (y as u64 & u64::from(ty.bits().max(8) - 1)) as u32;
        let value = match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            // The low 64 bits of the product are right even if 128 do not hold it.
            BinaryOp::Mul => x.wrapping_mul(y),
            BinaryOp::Div | BinaryOp::Rem if y == 0 => 0,
            BinaryOp::Div => x / y,
            BinaryOp::Rem => x % y,
            BinaryOp::And => x & y,
            BinaryOp::Or => x | y,
            BinaryOp::Xor => x ^ y,
            BinaryOp::Shl if ty.is_integer() => x << count,
            BinaryOp::Shr if ty.is_integer() => x >> count,
            BinaryOp::Min => x.min(y),
            BinaryOp::Max => x.max(y),
            _ => return None,
        };
        Some(int(ty, value))
    }

    /// All comparisons.
    pub fn compare(op: CompareOp, a: Const, b: Const) -> Option<bool> {
        fn apply<T: PartialOrd>(op: CompareOp, a: T, b: T) -> bool {
            match op {
                CompareOp::Eq => a == b,
                CompareOp::Ne => a != b,
                CompareOp::Lt => a < b,
                CompareOp::Le => a <= b,
                CompareOp::Gt => a > b,
                CompareOp::Ge => a >= b,
            }
        }
        Some(if a.ty.is_float() {
            apply(op, to_float(a), to_float(b))
        } else {
            apply(op, to_int(a), to_int(b))
        })
    }

    /// All conversions.
    pub fn convert(value: Const, to: Scalar) -> Option<Const> {
        let nonzero = if value.ty.is_float() {
            to_float(value) != 0.0
        } else {
            value.bits != 0
        };
        Some(if to == Scalar::Bool {
            Const {
                ty: to,
                bits: u64::from(nonzero),
            }
        } else if to.is_float() {
            if !value.ty.is_float() && to_int(value).unsigned_abs() > 1 << 53 {
                return None;
            }
            float(to, to_float(value))
        } else if value.ty.is_float() {
            let x = to_float(value);
            let (low, high) = if to.is_signed() {
                (-(1i128 << (to.bits() - 1)), (1i128 << (to.bits() - 1)) - 1)
            } else {
                (0, (1i128 << to.bits()) - 1)
            };
            int(to, (x.trunc() as i128).clamp(low, high))
        } else {
            int(to, to_int(value))
        })
    }
}
