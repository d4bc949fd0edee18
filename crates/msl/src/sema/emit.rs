//! Operations on leaves: folded where all operands are known, emitted otherwise; loads and stores of places.

use anymetal_ir::builder::fold;
use anymetal_ir::{
    BinaryOp, CompareOp, Const, MathMode, MemoryObject, Op, Scalar, TernaryOp, Type as IrType, UnaryOp, ValueId,
};

use super::context::{Res, Sema};
use super::library::coop_element;
use super::types::*;
use super::value::*;

impl Sema<'_> {
    /// A leaf for a value that the builder made.
    pub fn leaf(&self, value: ValueId) -> Leaf {
        match self.builder.as_const(value) {
            Some(c) => Leaf::Const(c),
            None => Leaf::Value(value),
        }
    }

    /// A constant integer (or `bool`) leaf.
    pub fn int_leaf(scalar: Scalar, value: i128) -> Leaf {
        let mask = if scalar.bits() >= 64 {
            u64::MAX
        } else {
            (1 << scalar.bits()) - 1
        };
        Leaf::Const(Const {
            ty: scalar,
            bits: value as u64 & mask,
        })
    }

    /// A constant float leaf.
    pub fn float_leaf(scalar: Scalar, value: f64) -> Leaf {
        Leaf::Const(Const {
            ty: scalar,
            bits: fold::float_bits(scalar, value),
        })
    }

    /// An integer value of a scalar type.
    pub fn int_value(&self, scalar: Scalar, value: i64) -> Value {
        Value::one(scalar, Self::int_leaf(scalar, value.into()))
    }

    /// A `bool` value.
    pub fn bool_value(&self, value: bool) -> Value {
        self.int_value(Scalar::Bool, value.into())
    }

    /// The IR value of a scalar or pointer leaf. An error in constant mode unless the leaf is a constant.
    pub fn materialize(&mut self, leaf: &Leaf) -> Res<ValueId> {
        match leaf {
            Leaf::Const(c) => Ok(self.builder.constant(c.ty, c.bits)),
            Leaf::Value(value) => {
                self.runtime_only()?;
                Ok(*value)
            }
            Leaf::Undef(IrType::Scalar(scalar)) => Ok(self.builder.constant(*scalar, 0)),
            Leaf::Undef(IrType::Pointer(space)) => {
                Ok(self.builder.emit(Op::NullPointer(*space), &[IrType::Pointer(*space)]))
            }
            Leaf::Place(place) if matches!(place.place, Place::Memory { .. }) => {
                let leaf = self.address_leaf(&place.clone(), self.span)?;
                self.materialize(&leaf)
            }
            // A pointer to a known constant, made where constants are evaluated and followed at run time.
            Leaf::Place(place) if self.const_eval == 0 && place.is_known() => {
                let place = self.in_memory((**place).clone(), self.span)?;
                let leaf = self.address_leaf(&place, self.span)?;
                self.materialize(&leaf)
            }
            Leaf::Place(_) => self.err_help(
                "E0500",
                "the address of this variable is needed, and the variable is held in registers",
                self.span,
                "take its address where it is declared ('&x' in the same function), or pass it by reference",
            ),
            Leaf::Coop(_) | Leaf::Function(_) => self.err(
                "E0499",
                "this object has no value that can be stored or computed with",
                self.span,
            ),
        }
    }

    /// Fails in constant mode.
    pub fn runtime_only(&self) -> Res<()> {
        if self.const_eval > 0 {
            return self.err(
                "E0420",
                "this is not a constant expression: its value is known at run time only",
                self.span,
            );
        }
        Ok(())
    }

    /// The type of a scalar or pointer leaf.
    pub fn leaf_type(&self, leaf: &Leaf) -> Option<IrType> {
        match leaf {
            Leaf::Const(c) => Some(c.ty.into()),
            Leaf::Value(value) => Some(self.builder.ty(*value)),
            Leaf::Undef(ty) => Some(*ty),
            _ => None,
        }
    }

    /// The constant behind a leaf; zero for one never set.
    pub fn const_of(&self, leaf: &Leaf) -> Option<Const> {
        match leaf {
            Leaf::Const(c) => Some(*c),
            Leaf::Undef(IrType::Scalar(ty)) => Some(Const { ty: *ty, bits: 0 }),
            Leaf::Value(value) => self.builder.as_const(*value),
            _ => None,
        }
    }

    /// The integer behind a leaf.
    pub fn int_of(&self, leaf: &Leaf) -> Option<i128> {
        self.const_of(leaf).filter(|c| !c.ty.is_float()).map(fold::to_int)
    }

    /// A unary operation.
    pub fn unary_leaf(&mut self, op: UnaryOp, a: &Leaf, mode: MathMode) -> Res<Leaf> {
        if let Some(c) = self.const_of(a)
            && let Some(r) = fold::unary(op, c)
        {
            return Ok(Leaf::Const(r));
        }
        self.foldable()?;
        let a = self.materialize(a)?;
        let r = self.builder.unary(op, a, mode);
        Ok(self.leaf(r))
    }

    /// A binary operation; both operands have one type.
    pub fn binary_leaf(&mut self, op: BinaryOp, a: &Leaf, b: &Leaf, mode: MathMode) -> Res<Leaf> {
        if let (Some(x), Some(y)) = (self.const_of(a), self.const_of(b))
            && let Some(r) = fold::binary(op, x, y)
        {
            return Ok(Leaf::Const(r));
        }
        self.foldable()?;
        let a = self.materialize(a)?;
        let b = self.materialize(b)?;
        let r = self.builder.binary(op, a, b, mode);
        Ok(self.leaf(r))
    }

    /// A ternary operation.
    pub fn ternary_leaf(&mut self, op: TernaryOp, a: &Leaf, b: &Leaf, c: &Leaf, mode: MathMode) -> Res<Leaf> {
        self.foldable()?;
        let a = self.materialize(a)?;
        let b = self.materialize(b)?;
        let c = self.materialize(c)?;
        let r = self.builder.ternary(op, a, b, c, mode);
        Ok(self.leaf(r))
    }

    /// A comparison.
    pub fn compare_leaf(&mut self, op: CompareOp, a: &Leaf, b: &Leaf) -> Res<Leaf> {
        if let (Some(x), Some(y)) = (self.const_of(a), self.const_of(b))
            && let Some(r) = fold::compare(op, x, y)
        {
            return Ok(Self::int_leaf(Scalar::Bool, r.into()));
        }
        self.foldable()?;
        let a = self.materialize(a)?;
        let b = self.materialize(b)?;
        let r = self.builder.compare(op, a, b);
        Ok(self.leaf(r))
    }

    /// `c ? a : b`, both evaluated. Leaves that are no scalars must be equal.
    pub fn select_leaf(&mut self, c: &Leaf, a: &Leaf, b: &Leaf) -> Res<Leaf> {
        if let Some(known) = self.const_of(c) {
            return Ok(if known.bits != 0 { a } else { b }.clone());
        }
        if a == b {
            return Ok(a.clone());
        }
        self.foldable()?;
        let c = self.materialize(c)?;
        let a = self.materialize(a)?;
        let b = self.materialize(b)?;
        let r = self.builder.select(c, a, b);
        Ok(self.leaf(r))
    }

    /// A value conversion between scalar types.
    pub fn convert_leaf(&mut self, a: &Leaf, to: Scalar) -> Res<Leaf> {
        match self.leaf_type(a) {
            Some(IrType::Scalar(from)) if from == to => return Ok(a.clone()),
            Some(IrType::Pointer(_)) if to == Scalar::Bool => {
                self.foldable()?;
                let p = self.materialize(a)?;
                let ty = self.builder.ty(p);
                if let IrType::Pointer(space) = ty {
                    let null = self.builder.emit(Op::NullPointer(space), &[ty]);
                    let r = self.builder.compare(CompareOp::Ne, p, null);
                    return Ok(Leaf::Value(r));
                }
            }
            _ => {}
        }
        if let Some(c) = self.const_of(a)
            && let Some(r) = fold::convert(c, to)
        {
            return Ok(Leaf::Const(r));
        }
        self.foldable()?;
        let a = self.materialize(a)?;
        let r = self.builder.convert(a, to);
        Ok(self.leaf(r))
    }

    /// In constant mode, what did not fold is an error.
    pub fn foldable(&self) -> Res<()> {
        if self.const_eval > 0 {
            return self.err(
                "E0421",
                "this is not a constant expression: the operation cannot be evaluated at compile time",
                self.span,
            );
        }
        Ok(())
    }

    /// Emits an operation with one scalar or pointer result.
    pub fn emit1(&mut self, op: Op, ty: impl Into<IrType>) -> Res<Leaf> {
        self.foldable()?;
        let r = self.builder.emit(op, &[ty.into()]);
        Ok(Leaf::Value(r))
    }

    /// A leaf as an `i64` value, for offsets and tensor indices.
    pub fn index_value(&mut self, leaf: &Leaf) -> Res<ValueId> {
        let leaf = self.convert_leaf(leaf, Scalar::I64)?;
        self.materialize(&leaf)
    }

    /// A pointer leaf plus a constant number of bytes.
    pub fn offset_const(&mut self, pointer: ValueId, bytes: i64) -> ValueId {
        if bytes == 0 {
            return pointer;
        }
        let offset = self.builder.int(Scalar::I64, bytes);
        self.builder.offset(pointer, offset)
    }

    /// The address of a place in memory.
    pub fn address(&mut self, pointer: ValueId, offset: i64) -> ValueId {
        self.offset_const(pointer, offset)
    }

    /// New locals for a type, all leaves of which are scalars, pointers or fixed.
    pub fn new_slots(&mut self, name: &str, ty: &Type) -> Res<Vec<Slot>> {
        let kinds = self.leaf_kinds(ty)?;
        let mut slots = Vec::with_capacity(kinds.len());
        for (i, kind) in kinds.iter().enumerate() {
            let LeafKind::Value(ir) = kind else {
                return self.err(
                    "E0498",
                    format!("'{}' cannot be stored in a variable here", self.type_name(ty)),
                    self.span,
                );
            };
            if self.const_eval > 0 {
                let cell = self.cell(Leaf::Undef(*ir));
                slots.push(Slot::Cell(cell));
            } else {
                let name = if kinds.len() == 1 {
                    name.to_string()
                } else {
                    format!("{name}.{i}")
                };
                slots.push(Slot::Local(self.builder.local(name, *ir)));
            }
        }
        Ok(slots)
    }

    /// Reads one slot.
    pub fn read_slot(&mut self, slot: &Slot) -> Res<Leaf> {
        match slot {
            Slot::Local(local) => {
                self.runtime_only()?;
                let value = self.builder.get(*local);
                Ok(Leaf::Value(value))
            }
            Slot::Cell(cell) => Ok(self.cells[cell.index()].clone()),
            Slot::Fixed(leaf) => Ok(leaf.clone()),
        }
    }

    /// Writes one slot.
    pub fn write_slot(&mut self, slot: &Slot, leaf: &Leaf) -> Res<()> {
        match slot {
            Slot::Local(local) => {
                self.runtime_only()?;
                let value = self.materialize(leaf)?;
                self.builder.set(*local, value);
                Ok(())
            }
            Slot::Cell(cell) => {
                self.cells[cell.index()] = leaf.clone();
                Ok(())
            }
            Slot::Fixed(former) if former == leaf => Ok(()),
            Slot::Fixed(_) => self.err(
                "E0497",
                "this object is fixed where it is declared and cannot be assigned another",
                self.span,
            ),
        }
    }

    /// The value in a place.
    pub fn load(&mut self, place: &LValue) -> Res<Value> {
        let ty = place.ty.clone();
        let leaves = match &place.place {
            Place::Slots(slots) => slots.iter().map(|slot| self.read_slot(slot)).collect::<Res<Vec<_>>>()?,
            Place::Memory {
                pointer, offset, align, ..
            } => {
                self.runtime_only()?;
                self.load_memory(&ty, *pointer, *offset, *align)?
            }
            Place::Swizzle { base, lanes } => {
                let all = self.load(base)?;
                lanes.iter().map(|&lane| all.leaves[lane as usize].clone()).collect()
            }
            Place::VectorElement { base, index } => {
                let all = self.load(base)?;
                let index = *index;
                vec![self.pick_lane(&all.leaves, index)?]
            }
            Place::CoopElement { coop, slot } => {
                vec![coop_element::get(self, *coop, slot, &place.ty)?]
            }
            Place::TensorElement {
                tensor,
                indices,
                bounds,
            } => {
                let scalar = super::layout::format_scalar(tensor.format);
                let op = Op::TensorLoad {
                    tensor: Box::new((**tensor).clone()),
                    indices: indices.clone(),
                    bounds: *bounds,
                };
                vec![self.emit1(op, scalar)?]
            }
        };
        Ok(Value { ty, leaves })
    }

    /// The element `index` (an `i32` value) of a list of leaves, by selects.
    fn pick_lane(&mut self, leaves: &[Leaf], index: ValueId) -> Res<Leaf> {
        let mut result = leaves[0].clone();
        for (i, leaf) in leaves.iter().enumerate().skip(1) {
            let at = self.builder.int(Scalar::I32, i as i64);
            let is = self.builder.compare(CompareOp::Eq, index, at);
            result = self.select_leaf(&Leaf::Value(is), leaf, &result)?;
        }
        Ok(result)
    }

    /// The leaves of a type at an address.
    fn load_memory(&mut self, ty: &Type, pointer: ValueId, offset: i64, align: u32) -> Res<Vec<Leaf>> {
        let kinds = self.leaf_kinds(ty)?;
        let offsets = self.leaf_offsets(ty)?;
        let mut leaves = Vec::with_capacity(kinds.len());
        for (first, count) in runs(&kinds, &offsets) {
            let LeafKind::Value(ir) = kinds[first] else {
                return self.err(
                    "E0496",
                    format!("'{}' cannot be read from memory", self.type_name(ty)),
                    self.span,
                );
            };
            let at = offset + offsets[first] as i64;
            let address = self.address(pointer, at);
            let align = aligned(align, offsets[first]);
            let values = self.builder.load(address, ir, count as u32, align);
            leaves.extend(values.into_iter().map(Leaf::Value));
        }
        Ok(leaves)
    }

    /// Writes a value of the place's own type.
    pub fn store(&mut self, place: &LValue, value: &Value) -> Res<()> {
        match &place.place {
            Place::Slots(slots) => {
                if let (Some(Leaf::Coop(from)), [Slot::Fixed(Leaf::Coop(to))]) = (value.leaf(), slots.as_slice()) {
                    if from != to {
                        self.runtime_only()?;
                        self.builder.emit_void(Op::CoopCopy { to: *to, from: *from });
                    }
                    return Ok(());
                }
                for (slot, leaf) in slots.iter().zip(&value.leaves) {
                    // What was never set need not be copied.
                    if !matches!(leaf, Leaf::Undef(_)) || matches!(slot, Slot::Cell(_)) {
                        self.write_slot(slot, leaf)?;
                    }
                }
            }
            Place::Memory {
                pointer, offset, align, ..
            } => {
                self.runtime_only()?;
                self.store_memory(value, *pointer, *offset, *align)?;
            }
            Place::Swizzle { base, lanes } => {
                if let Place::Slots(slots) = &base.place {
                    for (&lane, leaf) in lanes.iter().zip(&value.leaves) {
                        self.write_slot(&slots[lane as usize], leaf)?;
                    }
                } else {
                    let mut all = self.load(base)?;
                    for (&lane, leaf) in lanes.iter().zip(&value.leaves) {
                        all.leaves[lane as usize] = leaf.clone();
                    }
                    self.store(base, &all)?;
                }
            }
            Place::VectorElement { base, index } => {
                let mut all = self.load(base)?;
                for i in 0..all.leaves.len() {
                    let at = self.builder.int(Scalar::I32, i as i64);
                    let is = self.builder.compare(CompareOp::Eq, *index, at);
                    all.leaves[i] = self.select_leaf(&Leaf::Value(is), &value.leaves[0], &all.leaves[i])?;
                }
                self.store(base, &all)?;
            }
            Place::CoopElement { coop, slot } => {
                coop_element::set(self, *coop, slot, &place.ty, &value.leaves[0])?;
            }
            Place::TensorElement {
                tensor,
                indices,
                bounds,
            } => {
                self.runtime_only()?;
                let value = self.materialize(&value.leaves[0])?;
                self.builder.emit_void(Op::TensorStore {
                    tensor: Box::new((**tensor).clone()),
                    indices: indices.clone(),
                    value,
                    bounds: *bounds,
                });
            }
        }
        Ok(())
    }

    fn store_memory(&mut self, value: &Value, pointer: ValueId, offset: i64, align: u32) -> Res<()> {
        let kinds = self.leaf_kinds(&value.ty)?;
        let offsets = self.leaf_offsets(&value.ty)?;
        for (first, count) in runs(&kinds, &offsets) {
            let leaves = &value.leaves[first..first + count];
            if leaves.iter().all(|leaf| matches!(leaf, Leaf::Undef(_))) {
                continue;
            }
            let mut values = Vec::with_capacity(count);
            for leaf in &value.leaves[first..first + count] {
                values.push(self.materialize(leaf)?);
            }
            let at = offset + offsets[first] as i64;
            let address = self.address(pointer, at);
            let align = aligned(align, offsets[first]);
            self.builder.store(address, values, align);
        }
        Ok(())
    }

    /// The rvalue of an operand.
    pub fn rvalue(&mut self, operand: Operand) -> Res<Value> {
        match operand {
            Operand::Value(value) => Ok(value),
            Operand::Place(place) => self.load(&place),
        }
    }

    /// A new memory object in thread or threadgroup space for a type, as a place.
    pub fn new_memory(&mut self, name: &str, ty: &Type, space: Space, align: u32) -> Res<LValue> {
        self.runtime_only()?;
        let (size, natural) = self.size_align(ty)?;
        let align = natural.max(align).max(1);
        let element_size = self.innermost_size(ty);
        let id = self.builder.memory(MemoryObject {
            name: name.to_string(),
            space,
            size: size.max(1),
            align,
            element_size,
            data: Vec::new(),
        });
        let pointer = self.builder.emit(Op::MemoryPointer(id), &[IrType::Pointer(space)]);
        Ok(LValue {
            ty: ty.clone(),
            is_const: false,
            is_volatile: false,
            place: Place::Memory {
                pointer,
                offset: 0,
                space,
                align,
            },
        })
    }

    /// The place that a pointer value points at.
    pub fn deref(&mut self, pointer: ValueId, pointee: &QualType) -> Res<LValue> {
        if let Type::Format(format) = pointee.ty
            && format.is_sub_byte()
        {
            return self.err_help(
                "E0524",
                format!(
                    "an element of '{}' is less than a byte and has no address",
                    format.msl_name()
                ),
                self.span,
                "read it through a tensor or as bytes: 'device uchar *'",
            );
        }
        let (_, align) = self.size_align(&pointee.ty)?;
        Ok(LValue {
            ty: pointee.ty.clone(),
            is_const: pointee.is_const || pointee.space == Some(Space::Constant),
            is_volatile: pointee.is_volatile,
            place: Place::Memory {
                pointer,
                offset: 0,
                space: pointee.space_or_thread(),
                align: align.max(1),
            },
        })
    }
}

/// The alignment known at `offset` from an address aligned to `align`.
pub fn aligned(align: u32, offset: u64) -> u32 {
    if offset == 0 {
        align
    } else {
        align.min(1 << offset.trailing_zeros().min(16))
    }
}

/// Splits leaves into runs of equal scalars that follow each other in memory: (first, count).
fn runs(kinds: &[LeafKind], offsets: &[u64]) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::new();
    for i in 0..kinds.len() {
        if let Some((first, count)) = out.last_mut()
            && kinds[*first] == kinds[i]
            && *count < 16
            && let LeafKind::Value(ir) = kinds[i]
            && offsets[i] == offsets[*first] + *count as u64 * ir_size(ir)
        {
            *count += 1;
            continue;
        }
        out.push((i, 1));
    }
    out
}

/// Bytes of a scalar or pointer in memory.
pub fn ir_size(ty: IrType) -> u64 {
    match ty {
        IrType::Scalar(scalar) => scalar.size().into(),
        IrType::Pointer(_) => 8,
    }
}
