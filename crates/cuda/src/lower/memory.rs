//! Pointers, loads and stores.

use std::collections::HashMap;
use std::fmt::Write as _;

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, ArgumentId, ArgumentKind, BinaryOp, Inst, MemoryId, Scalar, Type, ValueId};

use super::check::AccessKind;
use super::{Lower, Result};
use crate::ptx::{Class, Reg};
use crate::{emit, ptx};

/// An address as a register and a constant, which memory instructions add for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    /// `.b64` for device and constant memory, `.b32` for threadgroup and thread memory.
    pub base: Reg,
    /// Added to it.
    pub offset: i64,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.offset {
            0 => write!(f, "[{}]", self.base),
            offset => write!(f, "[{}+{offset}]", self.base),
        }
    }
}

impl From<Reg> for Address {
    fn from(base: Reg) -> Self {
        Address { base, offset: 0 }
    }
}

impl Address {
    /// The same address so many bytes further on.
    pub fn plus(self, bytes: i64) -> Address {
        Address {
            base: self.base,
            offset: self.offset + bytes,
        }
    }
}

/// What is known of values that addresses are made of.
#[derive(Default)]
pub(crate) struct AddressForms {
    /// Pointers and 64-bit integers as a register plus a constant.
    sums: HashMap<ValueId, Address>,
    /// 64-bit integers that extend a 32-bit register (`true`: with its sign).
    wide: HashMap<ValueId, (Reg, bool)>,
    /// The same by the register that the extension went to.
    extended: HashMap<Reg, (Reg, bool)>,
    /// The low 32 bits of 64-bit integers.
    low: HashMap<ValueId, Reg>,
    /// `f32` values that were decoded from 8-bit floats: the code.
    pub(super) decoded: HashMap<ValueId, (Reg, ElementFormat)>,
    /// `f32` values that were widened from `half`: the `half`.
    pub(super) halves: HashMap<ValueId, Reg>,
    /// `f32` values that are fused products and sums: their operands.
    pub(super) fused: HashMap<ValueId, [Reg; 3]>,
    /// The kernel has pointers of 32 bits, so `low` is worth its text.
    short_pointers: bool,
}

impl AddressForms {
    /// Takes over what another state knows of a value.
    pub fn copy(&mut self, from: &AddressForms, value: ValueId) {
        if let Some(&sum) = from.sums.get(&value) {
            self.sums.insert(value, sum);
        }
        if let Some(&wide) = from.wide.get(&value) {
            self.wide.insert(value, wide);
        }
        if let Some(&low) = from.low.get(&value) {
            self.low.insert(value, low);
        }
        if let Some(&decoded) = from.decoded.get(&value) {
            self.decoded.insert(value, decoded);
        }
        if let Some(&half) = from.halves.get(&value) {
            self.halves.insert(value, half);
        }
    }
}

/// Constants that an address may carry.
const MAX_OFFSET: i64 = 1 << 22;

/// One register of a vector access.
const VECTOR: [&str; 5] = ["", "", ".v2", "", ".v4"];

impl Lower<'_> {
    pub fn declare_memory(&mut self) -> Result {
        self.forms.short_pointers = self.kernel.values.iter().any(|value| {
            matches!(
                value.ty,
                Type::Pointer(AddressSpace::Threadgroup | AddressSpace::Thread)
            )
        });
        for (index, object) in self.kernel.memory.iter().enumerate() {
            let size = object.size.max(1);
            let align = object.align.max(1).next_power_of_two();
            match object.space {
                AddressSpace::Thread => {
                    let _ = writeln!(
                        self.entry_declarations,
                        "\t.local .align {align} .b8 local{index}[{size}];"
                    );
                }
                AddressSpace::Constant => {
                    let mut bytes: Vec<String> = object.data.iter().map(u8::to_string).collect();
                    bytes.resize(bytes.len().max(1), "0".into());
                    // At least 16, so that tables are read in wide pieces where the kernel promises it.
                    let _ = writeln!(
                        self.module_declarations,
                        ".global .align {} .b8 table{index}[{size}] = {{{}}};",
                        align.max(16),
                        bytes.join(", ")
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub fn memory_pointer(&mut self, to: ValueId, id: MemoryId) -> Result {
        let address = self.object_address(id);
        let reg = self.materialise(address);
        self.forms.sums.insert(to, address);
        self.bind(to, reg);
        Ok(())
    }

    /// Where a memory object begins.
    pub fn object_address(&mut self, id: MemoryId) -> Address {
        let index = id.index();
        match self.kernel.memory_object(id).space {
            AddressSpace::Threadgroup => Address {
                base: self.objects_base(),
                offset: self.threadgroup_offset(id) as i64,
            },
            AddressSpace::Thread => {
                let wide = emit!(self, B64, "mov.u64", format!("local{index}"));
                emit!(self, B32, "cvt.u32.u64", wide).into()
            }
            _ => emit!(self, B64, "mov.u64", format!("table{index}")).into(),
        }
    }

    pub fn argument_pointer(&mut self, to: ValueId, id: ArgumentId) -> Result {
        let at = self.parameters.argument(id);
        let reg = match self.kernel.arguments[id.index()].kind {
            ArgumentKind::Threadgroup { .. } => {
                let offset = self.parameter(Class::B32, at);
                emit!(self, B32, "add.s32", offset, emit!(self, B32, "mov.u32", "smem"))
            }
            _ => self.parameter(Class::B64, at),
        };
        self.argument_pointers.insert(reg, id);
        self.bind(to, reg);
        Ok(())
    }

    pub fn null_pointer(&mut self, to: ValueId, space: AddressSpace) -> Result {
        let reg = self.define(to);
        let class = Class::of(Type::Pointer(space));
        ptx!(self, "mov.{} {reg}, 0", class.ptx());
        Ok(())
    }

    /// A pointer's address.
    pub fn address(&self, pointer: ValueId) -> Address {
        match self.forms.sums.get(&pointer) {
            Some(&address) => address,
            None => self.value(pointer).into(),
        }
    }

    /// An address in one register.
    pub fn materialise(&mut self, address: Address) -> Reg {
        match (address.offset, address.base.class) {
            (0, _) => address.base,
            (offset, Class::B64) => emit!(self, B64, "add.s64", address.base, offset),
            (offset, _) => emit!(self, B32, "add.s32", address.base, offset as i32),
        }
    }

    pub fn pointer_offset(&mut self, to: ValueId, pointer: ValueId, offset: ValueId) -> Result {
        let base = self.address(pointer);
        let long = base.base.class == Class::B64;
        let mut address = match self.constant(offset) {
            Some(bytes) => base.plus(bytes as i64),
            None => {
                let by = match self.forms.sums.get(&offset) {
                    Some(&sum) => sum,
                    None => self.value(offset).into(),
                };
                let sum = if long {
                    emit!(self, B64, "add.s64", base.base, by.base)
                } else {
                    let low = self.low_of_sum(offset, by);
                    emit!(self, B32, "add.s32", base.base, low)
                };
                Address {
                    base: sum,
                    offset: base.offset + by.offset,
                }
            }
        };
        let reg = self.materialise(address);
        if address.offset.abs() > MAX_OFFSET {
            address = reg.into();
        }
        self.forms.sums.insert(to, address);
        self.bind(to, reg);
        Ok(())
    }

    /// The low half of the register of a sum.
    fn low_of_sum(&mut self, value: ValueId, sum: Address) -> Reg {
        match self.forms.low.get(&value) {
            Some(&low) if sum.offset == 0 => low,
            _ => emit!(self, B32, "cvt.u32.u64", sum.base),
        }
    }

    pub fn pointer_diff(&mut self, to: ValueId, lhs: ValueId, rhs: ValueId) -> Result {
        let (a, b) = (self.value(lhs), self.value(rhs));
        let result = if a.class == Class::B64 {
            emit!(self, B64, "sub.s64", a, b)
        } else {
            emit!(self, B64, "cvt.s64.s32", emit!(self, B32, "sub.s32", a, b))
        };
        self.bind(to, result);
        Ok(())
    }

    /// Lets a 64-bit integer be another.
    pub(super) fn alias(&mut self, to: ValueId, from: ValueId) {
        let reg = self.value(from);
        self.bind(to, reg);
        if let Some(&sum) = self.forms.sums.get(&from) {
            self.forms.sums.insert(to, sum);
        }
        if let Some(&wide) = self.forms.wide.get(&from) {
            self.forms.wide.insert(to, wide);
        }
        if let Some(&low) = self.forms.low.get(&from) {
            self.forms.low.insert(to, low);
        }
    }

    /// Remembers that a 64-bit value extends a narrower one.
    pub(super) fn note_wide(&mut self, to: ValueId, operand: ValueId, from: Scalar, scalar: Scalar, result: Reg) {
        if scalar.bits() == 64 && from.is_integer() && from.bits() <= 32 {
            let reg = self.value(operand);
            self.forms.wide.insert(to, (reg, from.is_signed()));
            self.forms.low.insert(to, reg);
            self.forms.extended.insert(result, (reg, from.is_signed()));
        } else if scalar.bits() == 64 && from.is_integer() && result == self.value(operand) {
            // The same number with another sign.
            if let Some(&sum) = self.forms.sums.get(&operand) {
                self.forms.sums.insert(to, sum);
            }
            if let Some(&wide) = self.forms.wide.get(&operand) {
                self.forms.wide.insert(to, wide);
            }
            if let Some(&low) = self.forms.low.get(&operand) {
                self.forms.low.insert(to, low);
            }
        }
    }

    /// The low 32 bits of a 64-bit integer, if they are at hand: as text, a register or a constant.
    fn low_text(&self, value: ValueId) -> Option<String> {
        match self.constant(value) {
            Some(bits) => Some((bits as u32 as i32).to_string()),
            None => self.forms.low.get(&value).map(Reg::to_string),
        }
    }

    /// Additions and products of 64-bit integers, where one can be had from 32-bit operands or becomes a part of addresses.
    pub(super) fn wide_binary(&mut self, to: ValueId, op: BinaryOp, lhs: ValueId, rhs: ValueId) -> Option<Reg> {
        if self.forms.short_pointers
            && let (Some(a), Some(b)) = (self.low_text(lhs), self.low_text(rhs))
        {
            let name = match op {
                BinaryOp::Add => Some("add.s32"),
                BinaryOp::Sub => Some("sub.s32"),
                BinaryOp::Mul => Some("mul.lo.s32"),
                BinaryOp::And => Some("and.b32"),
                BinaryOp::Or => Some("or.b32"),
                // A count from 32 on gives zero, as the low half then is.
                BinaryOp::Shl if self.constant(rhs).is_some_and(|count| count < 64) => Some("shl.b32"),
                _ => None,
            };
            if let Some(name) = name {
                let low = emit!(self, B32, name, a, b);
                self.forms.low.insert(to, low);
            }
        }
        match op {
            BinaryOp::Add | BinaryOp::Sub => {
                let (variable, bytes) = match (self.constant(lhs), self.constant(rhs)) {
                    (_, Some(c)) if op == BinaryOp::Sub => (lhs, (c as i64).wrapping_neg()),
                    (_, Some(c)) => (lhs, c as i64),
                    (Some(c), None) if op == BinaryOp::Add => (rhs, c as i64),
                    _ => return None,
                };
                let sum = match self.forms.sums.get(&variable) {
                    Some(&sum) => sum,
                    None => self.value(variable).into(),
                };
                let sum = Address {
                    base: sum.base,
                    offset: sum.offset.wrapping_add(bytes),
                };
                if sum.offset.unsigned_abs() > MAX_OFFSET as u64 {
                    return None;
                }
                self.forms.sums.insert(to, sum);
                Some(self.materialise(sum))
            }
            BinaryOp::Mul | BinaryOp::Shl => {
                if let Some(product) = self.product_of_sum(to, op, lhs, rhs) {
                    return Some(product);
                }
                let (wide, other) = match (self.forms.wide.get(&lhs), self.forms.wide.get(&rhs)) {
                    (Some(&wide), _) => (wide, rhs),
                    (None, Some(&wide)) if op == BinaryOp::Mul => (wide, lhs),
                    _ => return None,
                };
                let (reg, signed) = wide;
                let name = if signed { "mul.wide.s32" } else { "mul.wide.u32" };
                if let Some(factor) = self.constant(other) {
                    let factor = match op {
                        BinaryOp::Shl if factor < 31 => 1i64 << factor,
                        BinaryOp::Mul => factor as i64,
                        _ => return None,
                    };
                    let fits = if signed {
                        i32::try_from(factor).is_ok()
                    } else {
                        u32::try_from(factor).is_ok()
                    };
                    return fits.then(|| emit!(self, B64, name, reg, factor));
                }
                match self.forms.wide.get(&other) {
                    Some(&(second, other_signed)) if other_signed == signed && op == BinaryOp::Mul => {
                        Some(emit!(self, B64, name, reg, second))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// `(extended + number) · factor` as a product plus a number.
    fn product_of_sum(&mut self, to: ValueId, op: BinaryOp, lhs: ValueId, rhs: ValueId) -> Option<Reg> {
        let (sum, factor) = match (self.constant(lhs), self.constant(rhs)) {
            (_, Some(c)) if op == BinaryOp::Shl && c < 31 => (lhs, 1i64 << c),
            (_, Some(c)) if op == BinaryOp::Mul => (lhs, c as i64),
            (Some(c), None) if op == BinaryOp::Mul => (rhs, c as i64),
            _ => return None,
        };
        let sum = *self.forms.sums.get(&sum)?;
        let &(reg, signed) = self.forms.extended.get(&sum.base)?;
        let offset = sum.offset.checked_mul(factor)?;
        let fits = if signed {
            i32::try_from(factor).is_ok()
        } else {
            u32::try_from(factor).is_ok()
        };
        if !fits || offset.unsigned_abs() > MAX_OFFSET as u64 {
            return None;
        }
        let name = if signed { "mul.wide.s32" } else { "mul.wide.u32" };
        let product = Address {
            base: emit!(self, B64, name, reg, factor),
            offset,
        };
        self.forms.sums.insert(to, product);
        Some(self.materialise(product))
    }

    pub fn load(&mut self, inst: &Inst, pointer: ValueId, ty: Type, count: u32, align: u32) -> Result {
        let space = self.space_of(pointer);
        let size = match ty {
            Type::Scalar(scalar) => scalar.size(),
            Type::Pointer(_) => 8,
        };
        let address = self.address(pointer);
        let guard = self.check_access(pointer, address, u64::from(size * count), align, AccessKind::Read);
        let read_only = self.is_read_only(pointer);
        let values = self.load_from(space, address, ty, count, align, read_only, guard);
        for (value, reg) in inst.results().zip(values) {
            self.bind(value, reg);
        }
        Ok(())
    }

    /// Whether nothing writes to what a pointer points into while the kernel runs.
    pub fn is_read_only(&self, pointer: ValueId) -> bool {
        let shared = matches!(self.space_of(pointer), AddressSpace::Device | AddressSpace::Constant);
        shared && self.options.unaliased && self.effects.reads_constant_memory(self.kernel, pointer)
    }

    /// The address space of a pointer.
    pub fn space_of(&self, pointer: ValueId) -> AddressSpace {
        match self.kernel.ty(pointer) {
            Type::Pointer(space) => space,
            Type::Scalar(_) => AddressSpace::Device,
        }
    }

    /// Loads consecutive scalars (or pointers), in accesses as wide as the alignment allows. With a guard, lanes for which it is
    /// false get zeros.
    pub fn load_from(
        &mut self,
        space: AddressSpace,
        address: Address,
        ty: Type,
        count: u32,
        align: u32,
        read_only: bool,
        guard: Option<Reg>,
    ) -> Vec<Reg> {
        let size = match ty {
            Type::Scalar(scalar) => scalar.size(),
            Type::Pointer(_) => 8,
        };
        let mut out = Vec::with_capacity(count as usize);
        let total = size * count;
        let mut at = 0;
        while at < total {
            let piece = piece(at, total, align);
            let here = address.plus(i64::from(at));
            if piece < size {
                // Less aligned than its type: put together from parts.
                let parts: Vec<Reg> = (0..size / piece)
                    .map(|i| {
                        let part = here.plus(i64::from(i * piece));
                        self.load_words(space, part, piece, read_only, guard)[0]
                    })
                    .collect();
                let whole = self.join_parts(&parts, piece);
                out.push(self.value_of_bits(whole, ty));
                at += size;
                continue;
            }
            let words = self.load_words(space, here, piece, read_only, guard);
            self.split_words(&words, ty, size, piece, &mut out);
            at += piece;
        }
        out
    }

    /// One access of 1, 2 or 4 bytes (a zero-extended `.b32`), 8 (`.b64` if the address is for that alone) or 16: words of 4 bytes
    /// from 4 on.
    fn load_words(
        &mut self,
        space: AddressSpace,
        address: Address,
        bytes: u32,
        read_only: bool,
        guard: Option<Reg>,
    ) -> Vec<Reg> {
        let count = (bytes / 4).max(1) as usize;
        let words: Vec<Reg> = (0..count).map(|_| self.reg(Class::B32)).collect();
        let name = format!("ld.{}{}", space_name(space), if read_only { ".nc" } else { "" });
        let ty = match bytes {
            1 => "u8",
            2 => "u16",
            _ => "b32",
        };
        let list = list(&words);
        if let (Some(place), None) = (self.value_place(address, bytes), guard) {
            ptx!(self, "ld.param{}.{ty} {list}, [args+{place}]", VECTOR[count]);
            return words;
        }
        let guard = match guard {
            Some(guard) => {
                for &word in &words {
                    ptx!(self, "mov.b32 {word}, 0");
                }
                format!("@{guard} ")
            }
            None => String::new(),
        };
        ptx!(self, "{guard}{name}{}.{ty} {list}, {address}", VECTOR[count]);
        words
    }

    /// Where in the parameter block a copy of some bytes of an argument is.
    fn value_place(&self, address: Address, bytes: u32) -> Option<u32> {
        if !self.options.values {
            return None;
        }
        let id = self.argument_pointers.get(&address.base)?;
        let place = self.parameters.values[id.index()]?;
        let ArgumentKind::Buffer { size, .. } = self.kernel.arguments[id.index()].kind else {
            return None;
        };
        let at = u32::try_from(address.offset).ok()?;
        (at.checked_add(bytes)? <= size).then_some(place + at)
    }

    /// Parts of 1, 2 or 4 bytes, low first, as one number of up to 64 bits.
    fn join_parts(&mut self, parts: &[Reg], bytes: u32) -> Reg {
        if parts.len() as u32 * bytes <= 4 {
            let mut whole = parts[0];
            for (i, &part) in parts.iter().enumerate().skip(1) {
                let shifted = emit!(self, B32, "shl.b32", part, 8 * bytes * i as u32);
                whole = emit!(self, B32, "or.b32", whole, shifted);
            }
            return whole;
        }
        let half = parts.len() / 2;
        let (low, high) = (
            self.join_parts(&parts[..half], bytes),
            self.join_parts(&parts[half..], bytes),
        );
        emit!(self, B64, "mov.b64", format!("{{{low}, {high}}}"))
    }

    /// A value of a type from its bits: a zero-extended `.b32`, or a `.b64`.
    pub fn value_of_bits(&mut self, bits: Reg, ty: Type) -> Reg {
        match ty {
            Type::Pointer(AddressSpace::Threadgroup | AddressSpace::Thread) => emit!(self, B32, "cvt.u32.u64", bits),
            Type::Pointer(_) => bits,
            Type::Scalar(Scalar::Bool) => emit!(self, Pred, "setp.ne.b32", bits, 0),
            Type::Scalar(ty @ (Scalar::F16 | Scalar::BF16 | Scalar::F32)) => self.round_float_bits(bits, ty),
            Type::Scalar(Scalar::I8) => emit!(self, B32, "cvt.s32.s8", bits),
            Type::Scalar(Scalar::I16) => emit!(self, B32, "cvt.s32.s16", bits),
            Type::Scalar(_) => bits,
        }
    }

    /// The bits of a value as memory holds it: a `.b32` whose upper part may be anything, or a `.b64`.
    pub fn bits_of_value(&mut self, value: Reg, ty: Type) -> Reg {
        match (ty, value.class) {
            (Type::Pointer(_), Class::B32) => emit!(self, B64, "cvt.u64.u32", value),
            (_, Class::Pred) => self.pred_to_u32(value),
            (_, Class::B16 | Class::F32) => self.float_bits(value),
            _ => value,
        }
    }

    /// Splits the words of an access into values.
    fn split_words(&mut self, words: &[Reg], ty: Type, size: u32, bytes: u32, out: &mut Vec<Reg>) {
        match size {
            8 => {
                for pair in words.chunks(2) {
                    let whole = emit!(self, B64, "mov.b64", list(pair));
                    out.push(self.value_of_bits(whole, ty));
                }
            }
            4 => {
                for &word in words {
                    out.push(self.value_of_bits(word, ty));
                }
            }
            _ if bytes == size => out.push(self.value_of_bits(words[0], ty)),
            2 => {
                for &word in words.iter() {
                    if matches!(ty, Type::Scalar(Scalar::F16 | Scalar::BF16)) {
                        let (low, high) = (self.reg(Class::B16), self.reg(Class::B16));
                        ptx!(self, "mov.b32 {{{low}, {high}}}, {word}");
                        self.half_words.insert(low, (word, false));
                        self.half_words.insert(high, (word, true));
                        out.extend([low, high]);
                    } else if ty == Type::Scalar(Scalar::I16) {
                        out.push(emit!(self, B32, "cvt.s32.s16", word));
                        out.push(emit!(self, B32, "shr.s32", word, 16));
                    } else {
                        out.push(emit!(self, B32, "and.b32", word, 0xffff));
                        out.push(emit!(self, B32, "shr.u32", word, 16));
                    }
                }
            }
            _ => {
                // Bytes: of one half-word, or of whole words.
                let each = bytes.min(4);
                for &word in words {
                    for i in 0..each {
                        let name = if ty == Type::Scalar(Scalar::I8) {
                            "bfe.s32"
                        } else {
                            "bfe.u32"
                        };
                        let byte = emit!(self, B32, name, word, 8 * i, 8);
                        let value = if ty == Type::Scalar(Scalar::Bool) {
                            self.value_of_bits(byte, ty)
                        } else {
                            byte
                        };
                        out.push(value);
                    }
                }
            }
        }
    }

    pub fn store(&mut self, pointer: ValueId, values: &[ValueId], align: u32) -> Result {
        let Some(&first) = values.first() else { return Ok(()) };
        let ty = self.kernel.ty(first);
        let space = self.space_of(pointer);
        let size = match ty {
            Type::Scalar(scalar) => scalar.size(),
            Type::Pointer(_) => 8,
        };
        let address = self.address(pointer);
        let bytes = u64::from(size) * values.len() as u64;
        let guard = self.check_access(pointer, address, bytes, align, AccessKind::Write);
        let regs: Vec<Reg> = values.iter().map(|&value| self.value(value)).collect();
        self.store_to(space, address, ty, &regs, align, guard);
        Ok(())
    }

    /// Stores consecutive scalars (or pointers), in accesses as wide as the alignment allows. With a guard, lanes for which it is
    /// false store nothing.
    pub fn store_to(
        &mut self,
        space: AddressSpace,
        address: Address,
        ty: Type,
        values: &[Reg],
        align: u32,
        guard: Option<Reg>,
    ) {
        let size = match ty {
            Type::Scalar(scalar) => scalar.size(),
            Type::Pointer(_) => 8,
        };
        let total = size * values.len() as u32;
        let name = format!(
            "{}st.{}",
            guard.map(|guard| format!("@{guard} ")).unwrap_or_default(),
            space_name(space)
        );
        let mut at = 0;
        while at < total {
            let piece = piece(at, total, align);
            let here = address.plus(i64::from(at));
            let first = (at / size) as usize;
            if piece < size {
                let bits = self.bits_of_value(values[first], ty);
                for i in 0..size / piece {
                    let part = here.plus(i64::from(i * piece));
                    if bits.class == Class::B64 {
                        let shifted = emit!(self, B64, "shr.u64", bits, 8 * i * piece);
                        ptx!(self, "{name}.b{} {part}, {shifted}", 8 * piece);
                    } else {
                        let shifted = emit!(self, B32, "shr.u32", bits, 8 * i * piece);
                        ptx!(self, "{name}.b{} {part}, {shifted}", 8 * piece);
                    }
                }
                at += size;
                continue;
            }
            let chunk = &values[first..first + (piece / size) as usize];
            let words = self.pack_words(chunk, ty, size);
            ptx!(
                self,
                "{name}{}.b{} {here}, {}",
                VECTOR[words.len()],
                8 * if words.len() == 1 { piece } else { 4 },
                list(&words)
            );
            at += piece;
        }
    }

    /// Values of one access as words: one register for up to 8 bytes of one 64-bit value, else `.b32` words.
    fn pack_words(&mut self, values: &[Reg], ty: Type, size: u32) -> Vec<Reg> {
        if size == 8 {
            if let [value] = values {
                return vec![self.bits_of_value(*value, ty)];
            }
            let mut words = Vec::new();
            for &value in values {
                let bits = self.bits_of_value(value, ty);
                let (low, high) = (self.reg(Class::B32), self.reg(Class::B32));
                ptx!(self, "mov.b64 {{{low}, {high}}}, {bits}");
                words.extend([low, high]);
            }
            return words;
        }
        if size == 4 {
            return values.to_vec();
        }
        let per_word = (4 / size) as usize;
        values
            .chunks(per_word)
            .map(|chunk| {
                if let [low, high] = chunk
                    && low.class == Class::B16
                {
                    return emit!(self, B32, "mov.b32", format!("{{{low}, {high}}}"));
                }
                let mut word = self.bits_of_value(chunk[0], ty);
                for (i, &value) in chunk.iter().enumerate().skip(1) {
                    let bits = self.bits_of_value(value, ty);
                    word = emit!(self, B32, "bfi.b32", bits, word, 8 * size * i as u32, 8 * size);
                }
                word
            })
            .collect()
    }
}

/// The next piece of an access: a power of two of bytes, at most 16, that the alignment allows.
fn piece(at: u32, total: u32, align: u32) -> u32 {
    let aligned = if at == 0 {
        align.max(1)
    } else {
        align.max(1).min(1 << at.trailing_zeros())
    };
    let left = total - at;
    let fitting = 1 << (31 - left.leading_zeros());
    // An alignment is a power of two, whatever the caller says.
    (1 << aligned.trailing_zeros().min(4)).min(fitting)
}

/// `{a, b}`, or a register alone.
pub(crate) fn list(regs: &[Reg]) -> String {
    if let [reg] = regs {
        return reg.to_string();
    }
    let names: Vec<String> = regs.iter().map(Reg::to_string).collect();
    format!("{{{}}}", names.join(", "))
}

/// The state space in `ld` and `st`.
pub(crate) const fn space_name(space: AddressSpace) -> &'static str {
    match space {
        AddressSpace::Device | AddressSpace::Constant => "global",
        AddressSpace::Threadgroup => "shared",
        AddressSpace::Thread => "local",
    }
}

#[cfg(test)]
mod tests {
    use super::piece;

    #[test]
    fn pieces_respect_the_alignment() {
        // Three floats at a multiple of 16: 8 and 4 bytes.
        assert_eq!((piece(0, 12, 16), piece(8, 12, 16)), (8, 4));
        // Eight halves, aligned to 16, to 4, to 2.
        assert_eq!((piece(0, 16, 16), piece(0, 16, 4), piece(6, 16, 2)), (16, 4, 2));
        assert_eq!(piece(4, 32, 8), 4);
    }
}
