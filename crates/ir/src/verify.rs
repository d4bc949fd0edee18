//! The verifier: what every kernel must satisfy before a backend sees it.
//!
//! It checks structure (values are defined once and used where they are visible, branches leave blocks that exist), types
//! of operands and results, address spaces, alignments, tensor ranks, and the roles and shapes of cooperative tensors. It
//! does not check the rules of the source language, nor anything that depends on the launch.

use std::fmt;

use crate::kernel::{ArgumentKind, Block, Inst, Kernel};
use crate::op::{AtomicOp, Op, VoteOp};
use crate::print::print_inst;
use crate::tensor::{CoopRole, Cooperative, Extent, TensorField};
use crate::tensor::{TensorRef, TensorSpec, element_scalar};
use crate::types::{AddressSpace, CoopId, Scalar, Type, ValueId};
use crate::verify_types::{binary_types, ternary_type, unary_type};

/// Blocks nested deeper than this are refused (the passes and backends recurse).
pub const MAX_NESTING: usize = 256;

/// A rule that a kernel breaks, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: `{instruction}`: {problem}")]
pub struct VerifyError {
    /// `file:line:column` of the instruction.
    pub location: String,
    /// The first line of its text form; the kernel's name for a problem of a declaration.
    pub instruction: String,
    /// The rule.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Problem {
    #[error("{0} does not exist")]
    NoSuchValue(ValueId),
    #[error("{0} is used where it is not visible")]
    NotVisible(ValueId),
    #[error("{0} is defined twice")]
    Redefined(ValueId),
    #[error("{value} has type {found}, expected {expected}")]
    OperandType {
        value: ValueId,
        found: Type,
        expected: String,
    },
    #[error("{found} results, expected {expected}")]
    ResultCount { found: u32, expected: usize },
    #[error("result {value} has type {found}, expected {expected}")]
    ResultType {
        value: ValueId,
        found: Type,
        expected: Type,
    },
    #[error("{what} {index} does not exist")]
    NoSuchPart { what: &'static str, index: u32 },
    #[error("there is no enclosing loop or scope {0}")]
    Depth(u32),
    #[error("`continue` must name a loop around it, neither a scope nor the loop of its own latch")]
    ContinueOfScope,
    #[error("an alignment must be a power of two, found {0}")]
    Alignment(u32),
    #[error("the constant's bits exceed its type")]
    ConstantBits,
    #[error("blocks are nested deeper than {MAX_NESTING}")]
    Nesting,
    #[error("{0} memory cannot be written")]
    ReadOnlySpace(AddressSpace),
    #[error("the tensor's {part} has {found} entries, its rank is {rank}")]
    Rank {
        part: &'static str,
        found: usize,
        rank: usize,
    },
    #[error("{coop}: {rule}")]
    Cooperative { coop: CoopId, rule: &'static str },
    #[error("only allowed inside a map")]
    OutsideMap,
    #[error("not allowed inside a map")]
    InsideMap,
    #[error("{0}")]
    Rule(&'static str),
}

pub(crate) type Check = Result<(), Problem>;

/// Checks a kernel; the first problem in program order is reported.
pub fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    declarations(kernel).map_err(|problem| VerifyError {
        location: kernel.locations.describe(Default::default()),
        instruction: kernel.name.clone(),
        problem,
    })?;
    let mut verifier = Verifier {
        kernel,
        visible: vec![false; kernel.values.len()],
        defined: vec![false; kernel.values.len()],
        targets: Vec::new(),
        map: None,
        depth: 0,
    };
    verifier.block(&kernel.body)
}

fn declarations(kernel: &Kernel) -> Check {
    let power = |align: u32| {
        if align.is_power_of_two() {
            Ok(())
        } else {
            Err(Problem::Alignment(align))
        }
    };
    for argument in &kernel.arguments {
        match &argument.kind {
            ArgumentKind::Buffer { space, align, .. } => {
                power(*align)?;
                if !matches!(space, AddressSpace::Device | AddressSpace::Constant) {
                    return Err(Problem::Rule("a buffer argument is in device or constant space"));
                }
            }
            ArgumentKind::Threadgroup { align, .. } => power(*align)?,
            ArgumentKind::Tensor(spec) => tensor_spec(spec)?,
        }
    }
    for object in &kernel.memory {
        power(object.align)?;
        if object.space == AddressSpace::Device {
            return Err(Problem::Rule("a kernel owns no device memory"));
        }
        if object.space == AddressSpace::Constant {
            if object.data.len() as u64 != object.size {
                return Err(Problem::Rule("a constant table's data must fill its size"));
            }
        } else if !object.data.is_empty() {
            return Err(Problem::Rule("only constant tables have data"));
        }
    }
    for (i, coop) in kernel.cooperatives.iter().enumerate() {
        let rule = |rule| {
            Err(Problem::Cooperative {
                coop: CoopId(i as u32),
                rule,
            })
        };
        if coop.rows == 0 || coop.columns == 0 || coop.simdgroups == 0 {
            return rule("rows, columns and SIMD-groups must not be 0");
        }
        if coop.rows > 1 << 14 || coop.columns > 1 << 14 || coop.simdgroups > 64 {
            return rule("rows, columns or SIMD-groups are beyond any threadgroup");
        }
        match coop.role {
            CoopRole::RowReduction if coop.columns != 1 => {
                return rule("a row reduction has one column");
            }
            CoopRole::ColumnReduction if coop.rows != 1 => {
                return rule("a column reduction has one row");
            }
            _ => {}
        }
        if coop.element == Scalar::Bool {
            return rule("elements are numbers");
        }
    }
    Ok(())
}

fn tensor_spec(spec: &TensorSpec) -> Check {
    if spec.extents.is_empty() || spec.extents.len() > anymetal_formats::MAX_RANK {
        return Err(Problem::Rule("a tensor has between 1 and 16 dimensions"));
    }
    if !matches!(spec.space, AddressSpace::Device | AddressSpace::Constant) {
        return Err(Problem::Rule("a tensor handle is in device or constant space"));
    }
    if !spec.index.is_integer() {
        return Err(Problem::Rule("a tensor's index type is an integer"));
    }
    match &spec.scale_block {
        Some(block) if block.len() != spec.extents.len() => Err(Problem::Rank {
            part: "scale block",
            found: block.len(),
            rank: spec.extents.len(),
        }),
        Some(block) if block.contains(&0) => Err(Problem::Rule("a scale block factor is 0")),
        _ => Ok(()),
    }
}

pub(crate) struct Verifier<'a> {
    kernel: &'a Kernel,
    visible: Vec<bool>,
    defined: Vec<bool>,
    /// Enclosing loops (true) and scopes (false) that a branch may name.
    targets: Vec<bool>,
    pub(crate) map: Option<CoopId>,
    depth: usize,
}

impl Verifier<'_> {
    fn block(&mut self, block: &Block) -> Result<(), VerifyError> {
        for inst in &block.insts {
            self.inst(inst).map_err(|problem| VerifyError {
                location: self.kernel.locations.describe(inst.location),
                instruction: first_line(self.kernel, inst),
                problem,
            })?;
            self.nested(inst)?;
        }
        for value in block.insts.iter().flat_map(Inst::results) {
            self.visible[value.index()] = false;
        }
        Ok(())
    }

    fn nested(&mut self, inst: &Inst) -> Result<(), VerifyError> {
        if !inst.op.is_structured() {
            return Ok(());
        }
        if self.depth >= MAX_NESTING {
            return Err(VerifyError {
                location: self.kernel.locations.describe(inst.location),
                instruction: "…".to_string(),
                problem: Problem::Nesting,
            });
        }
        self.depth += 1;
        match &inst.op {
            Op::If { then, otherwise, .. } => {
                self.block(then)?;
                self.block(otherwise)?;
            }
            Op::Loop { body, latch, .. } => {
                self.targets.push(true);
                self.block(body)?;
                // The latch may leave the loop, but not continue it.
                self.targets.pop();
                self.targets.push(false);
                self.block(latch)?;
                self.targets.pop();
            }
            Op::Scope { body } => {
                self.targets.push(false);
                self.block(body)?;
                self.targets.pop();
            }
            Op::CoopMap { over, body } => {
                let targets = std::mem::take(&mut self.targets);
                self.map = Some(*over);
                self.block(body)?;
                self.map = None;
                self.targets = targets;
            }
            _ => {}
        }
        self.depth -= 1;
        Ok(())
    }

    fn inst(&mut self, inst: &Inst) -> Check {
        let mut seen = Ok(());
        inst.op.for_each_operand(|value| {
            if seen.is_ok() {
                seen = match self.visible.get(value.index()) {
                    None => Err(Problem::NoSuchValue(value)),
                    Some(false) => Err(Problem::NotVisible(value)),
                    Some(true) => Ok(()),
                };
            }
        });
        seen?;
        self.map_rules(&inst.op)?;
        let types = self.types(&inst.op)?;
        if types.len() != inst.count as usize {
            return Err(Problem::ResultCount {
                found: inst.count,
                expected: types.len(),
            });
        }
        for (value, expected) in inst.results().zip(types) {
            let Some(info) = self.kernel.values.get(value.index()) else {
                return Err(Problem::NoSuchValue(value));
            };
            if info.ty != expected {
                return Err(Problem::ResultType {
                    value,
                    found: info.ty,
                    expected,
                });
            }
            if std::mem::replace(&mut self.defined[value.index()], true) {
                return Err(Problem::Redefined(value));
            }
            self.visible[value.index()] = true;
        }
        Ok(())
    }

    pub(crate) fn coop(&self, id: CoopId) -> Result<&Cooperative, Problem> {
        self.kernel.cooperatives.get(id.index()).ok_or(Problem::NoSuchPart {
            what: "cooperative tensor",
            index: id.0,
        })
    }

    fn ty(&self, value: ValueId) -> Type {
        self.kernel.ty(value)
    }

    pub(crate) fn expect(&self, value: ValueId, expected: impl Into<Type>) -> Check {
        let expected = expected.into();
        if self.ty(value) == expected {
            return Ok(());
        }
        Err(self.wrong(value, expected))
    }

    fn wrong(&self, value: ValueId, expected: impl fmt::Display) -> Problem {
        Problem::OperandType {
            value,
            found: self.ty(value),
            expected: expected.to_string(),
        }
    }

    fn scalar(&self, value: ValueId) -> Result<Scalar, Problem> {
        self.ty(value).scalar().ok_or_else(|| self.wrong(value, "a scalar"))
    }

    fn pointer(&self, value: ValueId) -> Result<AddressSpace, Problem> {
        match self.ty(value) {
            Type::Pointer(space) => Ok(space),
            Type::Scalar(_) => Err(self.wrong(value, "a pointer")),
        }
    }

    /// Types of the results, given that the operands are right.
    fn types(&self, op: &Op) -> Result<Vec<Type>, Problem> {
        let one = |ty: Type| Ok(vec![ty]);
        let none = Ok(Vec::new());
        match op {
            Op::Const(value) => {
                if value.ty.bits() < 64 && value.bits >> value.ty.bits() != 0 {
                    return Err(Problem::ConstantBits);
                }
                one(value.ty.into())
            }
            Op::Builtin(_) => one(Scalar::U32.into()),
            Op::Unary { op, operand, .. } => {
                let ty = self.scalar(*operand)?;
                let result = unary_type(*op, ty)
                    .ok_or_else(|| self.wrong(*operand, format!("a type that `{}` takes", op.text())))?;
                one(result.into())
            }
            Op::Binary { op, lhs, rhs, .. } => {
                let ty = self.scalar(*lhs)?;
                let right = binary_types(*op, ty)
                    .ok_or_else(|| self.wrong(*lhs, format!("a type that `{}` takes", op.text())))?;
                self.expect(*rhs, right)?;
                one(ty.into())
            }
            Op::Ternary { op, a, b, c, .. } => {
                let ty = self.scalar(*a)?;
                if !ternary_type(*op, ty) {
                    return Err(self.wrong(*a, format!("a type that `{}` takes", op.text())));
                }
                self.expect(*b, ty)?;
                self.expect(*c, ty)?;
                one(ty.into())
            }
            Op::Compare { lhs, rhs, .. } => {
                self.expect(*rhs, self.ty(*lhs))?;
                one(Scalar::Bool.into())
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => {
                self.expect(*condition, Scalar::Bool)?;
                self.expect(*otherwise, self.ty(*then))?;
                one(self.ty(*then))
            }
            Op::Convert { operand, to, .. } => {
                self.scalar(*operand)?;
                one((*to).into())
            }
            Op::Bitcast { operand, to } => {
                let from = self.ty(*operand);
                let size = |ty: Type| match ty {
                    Type::Pointer(_) => 8,
                    Type::Scalar(scalar) => scalar.size(),
                };
                let pointers = [from, *to].iter().filter(|ty| matches!(ty, Type::Pointer(_))).count();
                let integer = |ty: Type| ty.scalar().is_none_or(|s| matches!(s, Scalar::U64 | Scalar::I64));
                if size(from) != size(*to) || (pointers == 1 && !(integer(from) && integer(*to))) {
                    return Err(self.wrong(*operand, format!("a type that has the size of {to}")));
                }
                one(*to)
            }
            Op::Decode { operand, .. } => {
                self.expect(*operand, Scalar::U8)?;
                one(Scalar::F32.into())
            }
            Op::Encode { operand, .. } => {
                self.expect(*operand, Scalar::F32)?;
                one(Scalar::U8.into())
            }
            Op::Frexp { operand } | Op::Modf { operand } => {
                let ty = self.scalar(*operand)?;
                if !ty.is_float() {
                    return Err(self.wrong(*operand, "a float"));
                }
                let second = match op {
                    Op::Frexp { .. } => Scalar::I32,
                    _ => ty,
                };
                Ok(vec![ty.into(), second.into()])
            }
            Op::LocalGet(local) => match self.kernel.locals.get(local.index()) {
                Some(local) => one(local.ty),
                None => Err(Problem::NoSuchPart {
                    what: "local",
                    index: local.0,
                }),
            },
            Op::LocalSet { local, value } => match self.kernel.locals.get(local.index()) {
                Some(local) => self.expect(*value, local.ty).and(none),
                None => Err(Problem::NoSuchPart {
                    what: "local",
                    index: local.0,
                }),
            },
            Op::MemoryPointer(id) => match self.kernel.memory.get(id.index()) {
                Some(object) => one(Type::Pointer(object.space)),
                None => Err(Problem::NoSuchPart {
                    what: "memory object",
                    index: id.0,
                }),
            },
            Op::ArgumentPointer(id) => match self.kernel.arguments.get(id.index()).map(|a| &a.kind) {
                Some(ArgumentKind::Buffer { space, .. }) => one(Type::Pointer(*space)),
                Some(ArgumentKind::Threadgroup { .. }) => one(Type::Pointer(AddressSpace::Threadgroup)),
                Some(ArgumentKind::Tensor(_)) => Err(Problem::Rule("a tensor argument has a handle, not a pointer")),
                None => Err(Problem::NoSuchPart {
                    what: "argument",
                    index: id.0,
                }),
            },
            Op::ArgumentTensor(id) => match self.kernel.arguments.get(id.index()).map(|a| &a.kind) {
                Some(ArgumentKind::Tensor(_)) => one(Scalar::U64.into()),
                Some(_) => Err(Problem::Rule("only a tensor argument has a handle")),
                None => Err(Problem::NoSuchPart {
                    what: "argument",
                    index: id.0,
                }),
            },
            Op::TensorQuery { handle, spec, field } => {
                self.expect(*handle, Scalar::U64)?;
                tensor_spec(spec)?;
                let rank = spec.extents.len();
                match *field {
                    TensorField::Pointer => one(Type::Pointer(spec.space)),
                    TensorField::ScalePointer if spec.scale_block.is_some() => one(Type::Pointer(spec.space)),
                    TensorField::ScaleStride(d) if spec.scale_block.is_some() && (d as usize) < rank => {
                        one(Scalar::I64.into())
                    }
                    TensorField::Extent(d) | TensorField::Stride(d) if (d as usize) < rank => one(Scalar::I64.into()),
                    _ => Err(Problem::Rule("the tensor has no such part")),
                }
            }
            Op::NullPointer(space) => one(Type::Pointer(*space)),
            Op::PointerOffset { pointer, offset } => {
                let space = self.pointer(*pointer)?;
                self.expect(*offset, Scalar::I64)?;
                one(Type::Pointer(space))
            }
            Op::PointerDiff { lhs, rhs } => {
                let space = self.pointer(*lhs)?;
                self.expect(*rhs, Type::Pointer(space))?;
                one(Scalar::I64.into())
            }
            Op::Load {
                pointer,
                ty,
                count,
                align,
            } => {
                self.pointer(*pointer)?;
                aligned(*align)?;
                if *count == 0 {
                    return Err(Problem::Rule("a load loads at least one scalar"));
                }
                Ok(vec![*ty; *count as usize])
            }
            Op::Store { pointer, values, align } => {
                writable(self.pointer(*pointer)?)?;
                aligned(*align)?;
                let Some((first, rest)) = values.split_first() else {
                    return Err(Problem::Rule("a store stores at least one scalar"));
                };
                for value in rest {
                    self.expect(*value, self.ty(*first))?;
                }
                none
            }
            Op::Atomic {
                op,
                pointer,
                values,
                ty,
            } => self.atomic(*op, *pointer, values, *ty),
            Op::TensorLoad { tensor, indices, .. } => {
                self.tensor(tensor)?;
                self.indices(tensor, indices)?;
                one(element_scalar(tensor.format).into())
            }
            Op::TensorStore {
                tensor, indices, value, ..
            } => {
                self.tensor(tensor)?;
                self.indices(tensor, indices)?;
                writable(tensor.space)?;
                self.expect(*value, element_scalar(tensor.format)).and(none)
            }
            Op::TensorElementPointer { tensor, indices } => {
                self.tensor(tensor)?;
                self.indices(tensor, indices)?;
                if tensor.format.is_sub_byte() {
                    return Err(Problem::Rule("an element of a sub-byte format has no address"));
                }
                one(Type::Pointer(tensor.space))
            }
            Op::Barrier { .. } | Op::Fence(_) | Op::Return => none,
            Op::Group { operand, .. } => {
                let ty = self.scalar(*operand)?;
                if ty == Scalar::Bool {
                    return Err(self.wrong(*operand, "a number"));
                }
                one(ty.into())
            }
            Op::Shuffle { operand, index, .. } => {
                let ty = self.scalar(*operand)?;
                let index_ty = self.scalar(*index)?;
                if !matches!(index_ty, Scalar::U16 | Scalar::U32 | Scalar::I32) {
                    return Err(self.wrong(*index, "u16, u32 or i32"));
                }
                one(ty.into())
            }
            Op::SimdgroupMatrixMultiply { a, b, c, ty } => {
                for pair in [Some(a), Some(b), c.as_ref()].into_iter().flatten() {
                    let element = self.scalar(pair[0])?;
                    if !element.is_float() {
                        return Err(self.wrong(pair[0], "f16, bf16 or f32"));
                    }
                    self.expect(pair[1], element)?;
                }
                if !ty.is_float() {
                    return Err(Problem::Rule("the product of SIMD-group matrices is f16, bf16 or f32"));
                }
                Ok(vec![(*ty).into(); 2])
            }
            Op::Vote { op, operand, .. } => match (op, operand) {
                (VoteOp::All | VoteOp::Any, Some(operand)) => {
                    self.expect(*operand, Scalar::Bool)?;
                    one(Scalar::Bool.into())
                }
                (VoteOp::Ballot, Some(operand)) => {
                    self.expect(*operand, Scalar::Bool)?;
                    one(Scalar::U64.into())
                }
                (VoteOp::ActiveMask, None) => one(Scalar::U64.into()),
                (VoteOp::IsFirst, None) => one(Scalar::Bool.into()),
                _ => Err(Problem::Rule("a vote has an operand exactly if it asks a question")),
            },
            Op::Matmul {
                descriptor,
                simdgroups,
                left,
                right,
                destination,
            } => self.matmul(descriptor, *simdgroups, left, right, destination).and(none),
            Op::Convolution {
                descriptor,
                simdgroups,
                offsets,
                activation,
                weights,
                destination,
            } => {
                for offset in offsets {
                    self.expect(*offset, Scalar::I32)?;
                }
                self.convolution(descriptor, *simdgroups, activation, weights, destination)
                    .and(none)
            }
            Op::If { condition, .. } => self.expect(*condition, Scalar::Bool).and(none),
            Op::Loop { .. } | Op::Scope { .. } => none,
            Op::Break(depth) | Op::Continue(depth) => {
                let at = self.targets.len().checked_sub(*depth as usize + 1);
                match at.map(|at| self.targets[at]) {
                    None => Err(Problem::Depth(*depth)),
                    Some(false) if matches!(op, Op::Continue(_)) => Err(Problem::ContinueOfScope),
                    Some(_) => none,
                }
            }
            _ => self.coop_op(op),
        }
    }

    fn atomic(&self, op: AtomicOp, pointer: ValueId, values: &[ValueId], ty: Scalar) -> Result<Vec<Type>, Problem> {
        let space = self.pointer(pointer)?;
        if !matches!(space, AddressSpace::Device | AddressSpace::Threadgroup) {
            return Err(self.wrong(pointer, "a device or threadgroup pointer"));
        }
        let bits = matches!(op, AtomicOp::And | AtomicOp::Or | AtomicOp::Xor);
        let min_max = matches!(op, AtomicOp::Min | AtomicOp::Max);
        let allowed = match ty {
            Scalar::I32 | Scalar::U32 => true,
            Scalar::F32 => !bits && !min_max,
            Scalar::U64 => min_max,
            _ => false,
        };
        if !allowed {
            return Err(Problem::Rule("no such atomic operation on this type"));
        }
        let (operands, results) = match op {
            AtomicOp::Load => (0, vec![ty.into()]),
            AtomicOp::Store => (1, Vec::new()),
            AtomicOp::CompareExchangeWeak => (2, vec![ty.into(), Scalar::Bool.into()]),
            _ => (1, vec![ty.into()]),
        };
        if values.len() != operands {
            return Err(Problem::Rule("wrong number of values for this atomic operation"));
        }
        for value in values {
            self.expect(*value, ty)?;
        }
        // A 64-bit minimum or maximum gives nothing back in Metal, but a result does no harm.
        Ok(results)
    }

    fn i64s(&self, values: &[ValueId]) -> Check {
        values.iter().try_for_each(|value| self.expect(*value, Scalar::I64))
    }

    pub(crate) fn tensor(&self, tensor: &TensorRef) -> Check {
        let rank = tensor.origin.len();
        if rank == 0 || rank > anymetal_formats::MAX_RANK {
            return Err(Problem::Rule("a tensor has between 1 and 16 dimensions"));
        }
        for (part, found) in [
            ("base extents", tensor.base_extents.len()),
            ("strides", tensor.strides.len()),
            ("extents", tensor.extents.len()),
        ] {
            if found != rank {
                return Err(Problem::Rank { part, found, rank });
            }
        }
        self.expect(tensor.pointer, Type::Pointer(tensor.space))?;
        self.i64s(&tensor.base_extents)?;
        self.i64s(&tensor.strides)?;
        self.i64s(&tensor.origin)?;
        for extent in &tensor.extents {
            if let Extent::Dynamic(value) = extent {
                self.expect(*value, Scalar::I64)?;
            }
        }
        if let Some(plane) = &tensor.scales {
            for (part, found) in [
                ("scale block", plane.block.len()),
                ("scale strides", plane.strides.len()),
            ] {
                if found != rank {
                    return Err(Problem::Rank { part, found, rank });
                }
            }
            if plane.block.contains(&0) {
                return Err(Problem::Rule("a scale block factor is 0"));
            }
            self.expect(plane.pointer, Type::Pointer(plane.space))?;
            self.i64s(&plane.strides)?;
        }
        if tensor
            .root
            .is_some_and(|root| root.index() >= self.kernel.arguments.len())
        {
            return Err(Problem::Rule("the tensor's root is not an argument"));
        }
        Ok(())
    }

    fn indices(&self, tensor: &TensorRef, indices: &[ValueId]) -> Check {
        if indices.len() != tensor.origin.len() {
            return Err(Problem::Rank {
                part: "index",
                found: indices.len(),
                rank: tensor.origin.len(),
            });
        }
        self.i64s(indices)
    }
}

fn aligned(align: u32) -> Check {
    if align.is_power_of_two() {
        Ok(())
    } else {
        Err(Problem::Alignment(align))
    }
}

pub(crate) fn writable(space: AddressSpace) -> Check {
    match space {
        AddressSpace::Constant => Err(Problem::ReadOnlySpace(space)),
        _ => Ok(()),
    }
}

fn first_line(kernel: &Kernel, inst: &Inst) -> String {
    // Nested blocks are not printed: their values may not be sound yet.
    let mut shallow = inst.clone();
    for block in shallow.op.blocks_mut().into_iter().flatten() {
        block.insts.clear();
    }
    let text = print_inst(kernel, &shallow);
    text.lines().next().unwrap_or_default().to_string()
}
