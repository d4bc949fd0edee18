//! Lowering of values, memory and lane communication.

use std::collections::HashMap;

use anymetal_ir::{
    AddressSpace, AtomicOp, BinaryOp, Builtin, GroupOp, Kernel, LocalId, LocationId, Op, Scalar, Type, ValueId, VoteOp,
};

use super::arithmetic::Product;
use super::classify::{Class, Classes, MapId, classify};
use super::control::Positions;
use super::dot::Waiting;
use super::program::{Access, AffineKind, Block, Inst, Lanes, MatrixOperand, Program, Reg};
use crate::fault::CompileError;
use crate::lanes::{Isa, convert, decode, float, int};

/// What a virtual register is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Virtual {
    pub size: u8,
    pub class: Class,
    /// Lives in the area of map bodies.
    pub in_map: bool,
    /// Never shared with another value: constants, built-ins and locals.
    pub permanent: bool,
}

pub(super) struct Lower<'k> {
    pub kernel: &'k Kernel,
    pub isa: Isa,
    pub classes: Classes,
    pub positions: Positions,
    pub vregs: Vec<Virtual>,
    values: Vec<Option<Reg>>,
    constants: HashMap<(u8, u64), Reg>,
    constant_bits: HashMap<u32, u64>,
    pub constant_list: Vec<(Reg, u64)>,
    /// Tensor arguments: the register that holds the handle.
    handles: Vec<(u32, Reg)>,
    pub builtins: Vec<(Builtin, Reg)>,
    locals: HashMap<(LocalId, MapId), Reg>,
    /// Integer operations already done with registers that cannot change.
    pub memo: HashMap<(BinaryOp, u32, u32), Reg>,
    pub products: HashMap<ValueId, Product>,
    pub waiting: Waiting<'k>,
    pub map: MapId,
    pub maps: MapId,
    pub captures: Vec<(Reg, Reg)>,
    /// In a map: the tile that it runs over.
    pub over: Option<u32>,
    pub out: Block,
    pub location: LocationId,
    queries: u32,
    pub depth: u32,
    pub deepest: [u32; 2],
    pub effects: anymetal_ir::passes::Effects,
    /// Compiles for the sanitizer.
    pub watch: Option<super::watch::Watch>,
    /// Copies of tiles whose source is dead afterwards, by the address of their instruction.
    pub moves: std::collections::HashSet<usize>,
}

/// Compiles a kernel. `dense` says that strips may span threadgroups.
pub(crate) fn lower(kernel: &Kernel, isa: Isa, dense: bool, watch: bool) -> Result<Program, CompileError> {
    let mut lower = Lower {
        kernel,
        isa,
        classes: classify(kernel, dense),
        positions: Positions::of(kernel),
        vregs: Vec::new(),
        values: vec![None; kernel.values.len()],
        constants: HashMap::new(),
        constant_bits: HashMap::new(),
        constant_list: Vec::new(),
        handles: Vec::new(),
        builtins: Vec::new(),
        locals: HashMap::new(),
        memo: HashMap::new(),
        products: HashMap::new(),
        waiting: Waiting::default(),
        map: 0,
        maps: 0,
        captures: Vec::new(),
        over: None,
        out: Block::default(),
        location: LocationId::default(),
        queries: 0,
        depth: 0,
        deepest: [0; 2],
        effects: anymetal_ir::passes::Effects::of(kernel),
        watch: watch.then(|| super::watch::Watch::of(kernel)),
        moves: match watch {
            true => Default::default(),
            false => super::moves::moves(kernel),
        },
    };
    let body = lower.block(&kernel.body)?;
    let mut program = Program {
        body,
        constants: lower.constant_list,
        builtins: lower.builtins,
        handles: lower.handles,
        ..Program::default()
    };
    let classes = &lower.classes;
    program.zeroed = lower
        .locals
        .iter()
        .filter(|(key, reg)| key.1 == 0 && !classes.set_first.contains(key) && reg.tag >= Reg::PLAIN)
        .map(|(_, &reg)| reg)
        .collect();
    program.queries = lower.queries;
    program.main.depth = lower.deepest[0] + 1;
    program.map.depth = lower.deepest[1] + 1;
    if lower.watch.is_none() {
        super::fuse::fuse(&mut program.body, &mut lower.vregs, isa);
    }
    super::allocate::allocate(&mut program, &lower.vregs);
    Ok(program)
}

impl<'k> Lower<'k> {
    pub fn unsupported(&self, what: impl Into<String>) -> CompileError {
        CompileError::Unsupported {
            what: what.into(),
            location: self.kernel.locations.describe(self.location),
        }
    }

    pub fn malformed(&self, what: impl Into<String>) -> CompileError {
        CompileError::Malformed {
            what: what.into(),
            location: self.kernel.locations.describe(self.location),
        }
    }

    pub fn push(&mut self, inst: Inst) {
        let inst = match &self.watch {
            Some(watch) => watch.wrap(inst, self.location),
            None => inst,
        };
        self.out.insts.push((inst, self.location));
    }

    /// A new virtual register.
    pub fn register(&mut self, size: u8, class: Class, permanent: bool) -> Reg {
        let at = self.vregs.len() as u32;
        self.vregs.push(Virtual {
            size,
            class,
            in_map: self.map != 0,
            permanent,
        });
        Reg {
            at,
            tag: match class {
                Class::Uniform => Reg::UNIFORM,
                // The allocator numbers tags.
                Class::Affine => 0,
                Class::Plain => Reg::PLAIN,
            },
            size,
        }
    }

    pub fn class(&self, reg: Reg) -> Class {
        self.vregs[reg.at as usize].class
    }

    pub fn joined(&self, regs: &[Reg]) -> Class {
        regs.iter().map(|&reg| self.class(reg)).max().unwrap_or(Class::Uniform)
    }

    /// A constant; the same one is kept once.
    pub fn constant(&mut self, size: u8, bits: u64) -> Reg {
        if let Some(&reg) = self.constants.get(&(size, bits)) {
            return reg;
        }
        let reg = self.register(size, Class::Uniform, true);
        self.constants.insert((size, bits), reg);
        self.constant_bits.insert(reg.at, bits);
        self.constant_list.push((reg, bits));
        reg
    }

    pub fn as_constant(&self, reg: Reg) -> Option<u64> {
        self.constant_bits.get(&reg.at).copied()
    }

    pub fn scalar(&self, value: ValueId) -> Scalar {
        self.kernel.ty(value).scalar().unwrap_or(Scalar::U64)
    }

    fn size(ty: Type) -> u8 {
        match ty {
            Type::Scalar(scalar) => scalar.size() as u8,
            Type::Pointer(_) => 8,
        }
    }

    /// The alignment that an access is checked for: the one its type needs. A thread's own memory is split by lanes, so
    /// only the elements are checked there.
    fn checked_align(&self, pointer: ValueId, align: u32, size: u8) -> u32 {
        if self.kernel.ty(pointer) == Type::Pointer(AddressSpace::Thread) {
            align.min(u32::from(size))
        } else {
            align
        }
    }

    /// The register that a result is to be written to.
    pub fn define(&mut self, value: ValueId) -> Reg {
        let size = Self::size(self.kernel.ty(value));
        let reg = self.register(size, self.classes.values[value.index()], false);
        self.values[value.index()] = Some(reg);
        reg
    }

    pub fn bind(&mut self, value: ValueId, reg: Reg) {
        self.values[value.index()] = Some(reg);
    }

    /// What stands in a map body for a register from outside.
    fn captured(&mut self, reg: Reg) -> Reg {
        if reg.is_uniform() {
            return reg;
        }
        if let Some(&(_, inside)) = self.captures.iter().find(|(outside, _)| *outside == reg) {
            return inside;
        }
        let inside = self.register(reg.size, Class::Uniform, false);
        self.captures.push((reg, inside));
        inside
    }

    /// The register of a value that was lowered.
    pub(super) fn lowered(&self, value: ValueId) -> Option<Reg> {
        self.values.get(value.index()).copied().flatten()
    }

    /// The register that holds a value.
    pub fn value(&mut self, value: ValueId) -> Result<Reg, CompileError> {
        self.force(value)?;
        let Some(reg) = self.values.get(value.index()).copied().flatten() else {
            return Err(self.malformed(format!("{value} is used before it is defined")));
        };
        if self.map != 0 && !self.vregs[reg.at as usize].in_map {
            return Ok(self.captured(reg));
        }
        Ok(reg)
    }

    pub fn all(&mut self, values: &[ValueId]) -> Result<Vec<Reg>, CompileError> {
        values.iter().map(|&value| self.value(value)).collect()
    }

    fn local(&mut self, local: LocalId) -> Reg {
        if let Some(&reg) = self.locals.get(&(local, self.map)) {
            return reg;
        }
        let class = self
            .classes
            .locals
            .get(&(local, self.map))
            .copied()
            .unwrap_or(Class::Uniform);
        let size = Self::size(self.kernel.local(local).ty);
        let reg = self.register(size, class, true);
        self.locals.insert((local, self.map), reg);
        reg
    }

    /// One instruction of the IR, now or when its result is used.
    pub fn inst(&mut self, inst: &'k anymetal_ir::Inst) -> Result<(), CompileError> {
        self.location = inst.location;
        if self.wait(inst)? {
            return Ok(());
        }
        if inst.op.is_terminator()
            || matches!(
                inst.op,
                Op::LocalSet { .. } | Op::CoopMap { .. } | Op::If { .. } | Op::Loop { .. } | Op::Scope { .. }
            )
        {
            self.force_all()?;
        }
        self.lower_now(inst)
    }

    /// One instruction of the IR.
    pub(super) fn lower_now(&mut self, inst: &'k anymetal_ir::Inst) -> Result<(), CompileError> {
        self.location = inst.location;
        let result = inst.first;
        if self.watch.is_some() {
            self.watch_inst(inst)?;
        }
        match &inst.op {
            Op::Const(value) => {
                let reg = self.constant(value.ty.size() as u8, value.bits);
                self.bind(result, reg);
            }
            Op::Builtin(which) => {
                let reg = match self.builtins.iter().find(|(known, _)| known == which) {
                    Some(&(_, reg)) => reg,
                    None => {
                        let map = std::mem::replace(&mut self.map, 0);
                        let class = if map == 0 {
                            self.classes.values[result.index()]
                        } else {
                            Class::Affine
                        };
                        let reg = self.register(4, class, true);
                        self.map = map;
                        self.builtins.push((*which, reg));
                        reg
                    }
                };
                self.bind(result, reg);
            }
            Op::Unary { op, operand, mode } => {
                let ty = self.scalar(*operand);
                let a = self.value(*operand)?;
                self.unary(result, *op, ty, *mode, *operand, a)?;
            }
            Op::Binary { op, lhs, rhs, mode } => self.ir_binary(result, *op, *lhs, *rhs, *mode)?,
            Op::Ternary { op, a, b, c, .. } => {
                let ty = self.scalar(*a);
                let f = if ty.is_float() {
                    float::ternary(*op, ty, self.isa)
                } else {
                    int::ternary(*op, ty, self.isa)
                };
                let f = f.ok_or_else(|| self.malformed(format!("{op:?} of {ty}")))?;
                let (a, b, c) = (self.value(*a)?, self.value(*b)?, self.value(*c)?);
                let out = self.define(result);
                self.push(Inst::Op3 { f, out, a, b, c });
            }
            Op::Compare { op, lhs, rhs } => {
                let ty = self.scalar(*lhs);
                let f = convert::compare(*op, ty, self.isa);
                let (a, b) = (self.value(*lhs)?, self.value(*rhs)?);
                let out = self.define(result);
                let either = self.class(a).max(self.class(b)) == Class::Affine;
                if either && ty.is_integer() {
                    self.push(Inst::Affine {
                        kind: AffineKind::Compare(*op),
                        ty,
                        lanes: Lanes::Two(f),
                        out,
                        a,
                        b,
                    });
                } else {
                    self.push(Inst::Op2 { f, out, a, b });
                }
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => {
                let (a, b, c) = (self.value(*condition)?, self.value(*then)?, self.value(*otherwise)?);
                let f = convert::select(u32::from(b.size), self.isa);
                let out = self.define(result);
                self.push(Inst::Op3 { f, out, a, b, c });
            }
            Op::Convert { operand, to, saturate } => {
                let from = self.scalar(*operand);
                let whole = from.is_integer() && to.is_integer() && from.size() == to.size();
                if whole && !*saturate && self.same_bits(result, *operand)? {
                    return Ok(());
                }
                let f = if *saturate {
                    convert::convert_saturating(from, *to, self.isa)
                } else {
                    convert::convert(from, *to, self.isa)
                };
                self.conversion(result, *operand, from, *to, f)?;
            }
            Op::Bitcast { operand, to } => {
                let from = self.scalar(*operand);
                let to = to.scalar().unwrap_or(Scalar::U64);
                if from.size() != to.size() {
                    return Err(self.malformed(format!("a bitcast of {from} to {to}")));
                }
                if self.same_bits(result, *operand)? {
                    return Ok(());
                }
                let f = convert::copy(to.size(), self.isa);
                // Same-width conversion of integers is the identity on bits.
                self.conversion(result, *operand, from, to, f)?;
            }
            Op::Decode { operand, format } => {
                let f =
                    decode::decode(*format, self.isa).ok_or_else(|| self.malformed(format!("decode of {format}")))?;
                let a = self.value(*operand)?;
                let out = self.define(result);
                self.push(Inst::Op1 { f, out, a });
            }
            Op::Encode {
                operand,
                format,
                saturate,
            } => {
                let f =
                    convert::encode(*format, *saturate).ok_or_else(|| self.malformed(format!("encode of {format}")))?;
                let a = self.value(*operand)?;
                let out = self.define(result);
                self.push(Inst::Op1 { f, out, a });
            }
            Op::Frexp { operand } | Op::Modf { operand } => {
                let ty = self.scalar(*operand);
                let pair = if matches!(inst.op, Op::Frexp { .. }) {
                    float::frexp(ty)
                } else {
                    float::modf(ty)
                };
                let (first, second) = pair.ok_or_else(|| self.malformed(format!("parts of {ty}")))?;
                let a = self.value(*operand)?;
                let out = self.define(result);
                self.push(Inst::Op1 { f: first, out, a });
                let out = self.define(ValueId(result.0 + 1));
                self.push(Inst::Op1 { f: second, out, a });
            }
            Op::LocalGet(local) => {
                if self.map != 0 && !self.positions.is_set_in(*local, self.map) {
                    // A local from outside, which the map only reads.
                    let map = std::mem::replace(&mut self.map, 0);
                    let outside = self.local(*local);
                    self.map = map;
                    let inside = self.captured(outside);
                    self.bind(result, inside);
                    return Ok(());
                }
                let reg = self.local(*local);
                if self.positions.can_alias(*local, self.map, result) {
                    self.bind(result, reg);
                } else {
                    let copy = convert::copy(u32::from(reg.size), self.isa);
                    let out = self.define(result);
                    self.push(Inst::LocalGet { copy, out, local: reg });
                }
            }
            Op::LocalSet { local, value } => {
                if self.map != 0 && self.positions.outlives_map(*local) {
                    let name = self.kernel.local(*local).name.clone();
                    return Err(self.malformed(format!(
                        "a loop over cooperative elements sets '{name}', which lives outside of it"
                    )));
                }
                let value = self.value(*value)?;
                let local = self.local(*local);
                let size = u32::from(local.size);
                self.push(Inst::LocalSet {
                    copy: convert::copy(size, self.isa),
                    blend: convert::blend(size, self.isa),
                    local,
                    value,
                });
                self.memo.clear();
                self.products.clear();
            }
            Op::MemoryPointer(memory) => {
                let object = 1 + self.kernel.arguments.len() as u64 + u64::from(memory.0);
                let reg = self.constant(8, object << 48);
                self.bind(result, reg);
            }
            Op::ArgumentPointer(argument) => {
                let reg = self.constant(8, (1 + u64::from(argument.0)) << 48);
                self.bind(result, reg);
            }
            Op::ArgumentTensor(argument) => {
                let reg = match self.handles.iter().find(|(known, _)| *known == argument.0) {
                    Some(&(_, reg)) => reg,
                    None => {
                        let reg = self.register(8, Class::Uniform, true);
                        self.handles.push((argument.0, reg));
                        reg
                    }
                };
                self.bind(result, reg);
            }
            Op::NullPointer(_) => {
                let reg = self.constant(8, 0);
                self.bind(result, reg);
            }
            Op::TensorQuery { handle, spec, field } => {
                let handle = self.value(*handle)?;
                let out = self.define(result);
                self.push(Inst::TensorQuery {
                    handle,
                    spec: spec.clone(),
                    field: *field,
                    out,
                    memory: self.queries,
                });
                self.queries += 1;
            }
            Op::PointerOffset { pointer, offset } => {
                let (pointer, offset) = (self.value(*pointer)?, self.value(*offset)?);
                let f = convert::pointer_offset(self.isa);
                let out = self.define(result);
                let kind = Some(AffineKind::PointerOffset);
                self.push_binary(kind, Scalar::U64, f, out, pointer, offset);
            }
            Op::PointerDiff { lhs, rhs } => {
                let (a, b) = (self.value(*lhs)?, self.value(*rhs)?);
                let f = convert::pointer_diff(self.isa);
                let out = self.define(result);
                self.push(Inst::Op2 { f, out, a, b });
            }
            Op::Load {
                pointer,
                ty,
                count,
                align,
            } => {
                let pointer_id = *pointer;
                let pointer = self.value(pointer_id)?;
                let values = (0..*count).map(|i| self.define(ValueId(result.0 + i))).collect();
                let size = Self::size(*ty);
                self.push(Inst::Load(Box::new(Access {
                    pointer,
                    values,
                    size,
                    boolean: *ty == Type::Scalar(Scalar::Bool),
                    align: self.checked_align(pointer_id, *align, size),
                    predicate: None,
                })));
            }
            Op::Store { pointer, values, align } => {
                let pointer_id = *pointer;
                let pointer = self.value(pointer_id)?;
                let values = match self.stored_words(pointer_id, values) {
                    Some(words) => words,
                    None => self.all(values)?,
                };
                let size = values.first().map_or(1, |reg| reg.size);
                self.push(Inst::Store(Box::new(Access {
                    pointer,
                    values,
                    size,
                    boolean: false,
                    align: self.checked_align(pointer_id, *align, size),
                    predicate: None,
                })));
            }
            Op::Atomic {
                op,
                pointer,
                values,
                ty,
            } => {
                let supported = match (op, ty) {
                    (_, Scalar::I32 | Scalar::U32) => true,
                    (AtomicOp::And | AtomicOp::Or | AtomicOp::Xor, Scalar::F32) => false,
                    (_, Scalar::F32 | Scalar::U64) => true,
                    _ => false,
                };
                if !supported {
                    return Err(self.unsupported(format!("atomic {op:?} on {ty}")));
                }
                let pointer = self.value(*pointer)?;
                let values = self.all(values)?;
                let out = (inst.count > 0).then(|| self.define(result));
                let success = (inst.count > 1).then(|| self.define(ValueId(result.0 + 1)));
                self.push(Inst::Atomic {
                    op: *op,
                    ty: *ty,
                    pointer,
                    values,
                    out,
                    success,
                });
            }
            Op::Barrier { scope, flags } => {
                // Where no memory is ordered, SIMD-groups cannot tell whether the others are there; MLX puts such barriers
                // where some SIMD-groups go another way.
                let ordered = flags.device || flags.threadgroup || flags.texture;
                self.push(Inst::Barrier(if ordered {
                    *scope
                } else {
                    anymetal_ir::Scope::Simdgroup
                }));
            }
            Op::Fence(_) => self.push(Inst::Fence),
            Op::Group { op, width, operand } => {
                let ty = self.scalar(*operand);
                let a = self.value(*operand)?;
                if self.class(a) == Class::Uniform
                    && matches!(op, GroupOp::Min | GroupOp::Max | GroupOp::And | GroupOp::Or)
                {
                    self.bind(result, a);
                    return Ok(());
                }
                let out = self.define(result);
                self.push(Inst::Group {
                    op: *op,
                    width: *width,
                    ty,
                    out,
                    a,
                });
            }
            Op::Shuffle {
                op,
                width,
                operand,
                index,
            } => {
                let a = self.value(*operand)?;
                if self.class(a) == Class::Uniform {
                    self.bind(result, a);
                    return Ok(());
                }
                let index_ty = self.scalar(*index);
                let index = self.value(*index)?;
                let out = self.define(result);
                self.push(Inst::Shuffle {
                    op: *op,
                    width: *width,
                    out,
                    a,
                    index,
                    index_ty,
                });
            }
            Op::Vote { op, width, operand } => {
                let a = match (op, operand) {
                    (VoteOp::ActiveMask | VoteOp::IsFirst, _) => None,
                    (_, Some(operand)) => Some(self.value(*operand)?),
                    (_, None) => return Err(self.malformed("a vote without an operand")),
                };
                let out = self.define(result);
                self.push(Inst::Vote {
                    op: *op,
                    width: *width,
                    out,
                    a,
                });
            }
            Op::SimdgroupMatrixMultiply { a, b, c, ty } => {
                let mut operand = |values: &[ValueId; 2]| -> Result<MatrixOperand, CompileError> {
                    Ok(MatrixOperand {
                        ty: self.scalar(values[0]),
                        values: [self.value(values[0])?, self.value(values[1])?],
                    })
                };
                let operands = Box::new((operand(a)?, operand(b)?, c.as_ref().map(&mut operand).transpose()?));
                let out = [self.define(result), self.define(ValueId(result.0 + 1))];
                self.push(Inst::SimdgroupMatrixMultiply { operands, ty: *ty, out });
            }
            Op::TensorLoad {
                tensor,
                indices,
                bounds,
            } => self.tensor_load(result, tensor, indices, *bounds)?,
            Op::TensorStore {
                tensor,
                indices,
                value,
                bounds,
            } => self.tensor_store(tensor, indices, *value, *bounds)?,
            Op::TensorElementPointer { tensor, indices } => self.tensor_pointer(result, tensor, indices)?,
            Op::If { .. } | Op::Loop { .. } | Op::Scope { .. } | Op::Break(_) | Op::Continue(_) | Op::Return => {
                self.control(&inst.op)?
            }
            Op::CoopInit(_)
            | Op::CoopCopy { .. }
            | Op::CoopGet { .. }
            | Op::CoopSet { .. }
            | Op::CoopValid { .. }
            | Op::CoopIndex { .. }
            | Op::CoopMapSlot { .. }
            | Op::CoopLoad { .. }
            | Op::CoopStore { .. }
            | Op::CoopConvert { .. }
            | Op::CoopCompatible { .. }
            | Op::CoopIteratorCompatible { .. }
            | Op::CoopReduce { .. }
            | Op::CoopMap { .. }
            | Op::CoopElement(_)
            | Op::CoopElementSet { .. }
            | Op::CoopElementIndex
            | Op::Matmul { .. }
            | Op::Convolution { .. } => self.cooperative(inst)?,
        }
        Ok(())
    }

    /// Forgets what holds inside a block only.
    pub fn fresh_block<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        // Locals may change on the way in, in the block, and on the way out.
        self.products.clear();
        self.memo.clear();
        let out = std::mem::take(&mut self.out);
        let result = body(self);
        self.out = out;
        self.products.clear();
        self.memo.clear();
        result
    }
}
