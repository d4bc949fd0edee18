//! Conversions: which exist, how good they are for overload resolution, and what they emit.

use std::rc::Rc;

use anymetal_ir::{CompareOp, Op, Scalar, Type as IrType};

use super::context::*;
use super::library;
use super::types::*;
use super::tyres::decayed;
use super::value::*;
use crate::source::Span;

/// How good a conversion is; smaller is better.
pub type Rank = u32;

/// Only qualifiers are added.
pub const QUALIFY: Rank = 1;
/// An integral or floating promotion.
pub const PROMOTE: Rank = 10;
/// Derived to base.
pub const UPCAST: Rank = 15;
/// Another standard conversion.
pub const CONVERT: Rank = 20;
/// Scalar to vector, pointer to `bool`.
pub const SPLAT: Rank = 25;
/// A constructor or conversion function.
pub const USER: Rank = 30;

impl Sema<'_> {
    /// The implicit conversion of an argument to a parameter type; `None` if there is none.
    pub fn rank(&mut self, arg: &Arg, to: &QualType) -> Option<Rank> {
        let operand = match arg {
            Arg::Operand(operand, _) => operand,
            Arg::List(items, _) => return self.rank_list(items, to),
        };
        if !to.is_reference() {
            return self.rank_operand(operand, &to.ty);
        }
        match operand {
            Operand::Place(place) => {
                let wanted = to.space_or_thread();
                let space = known_space(place, wanted);
                let bitfield_like = matches!(place.place, Place::Swizzle { .. } if to.is_const);
                if place.ty == to.ty && space == wanted && !bitfield_like {
                    if place.is_const && !to.is_const && space != Space::Constant {
                        return None;
                    }
                    if to.reference == Reference::Rvalue {
                        return Some(CONVERT);
                    }
                    return Some(if place.is_const == to.is_const { 0 } else { QUALIFY });
                }
                if space == wanted
                    && let Type::Record(base) = to.ty
                    && self.derives(&place.ty, base)
                    && (to.is_const || !place.is_const)
                {
                    return Some(UPCAST);
                }
                if (to.is_const || to.reference == Reference::Rvalue) && wanted == Space::Thread {
                    // A temporary: a conversion makes one anyway, a copy out of another address space counts as one.
                    let r = self.rank_operand(operand, &to.ty)?;
                    return Some(match r {
                        _ if bitfield_like => r + QUALIFY,
                        _ if r < PROMOTE => r + CONVERT,
                        _ => r,
                    });
                }
                None
            }
            Operand::Value(_) => {
                let object = matches!(to.ty, Type::Object(_));
                if to.is_const || to.reference == Reference::Rvalue {
                    if to.space_or_thread() != Space::Thread && to.space != Some(Space::Constant) {
                        return None;
                    }
                    let r = self.rank_operand(operand, &to.ty)?;
                    return Some(if to.reference == Reference::Rvalue {
                        r
                    } else {
                        r + QUALIFY
                    });
                }
                let _ = object;
                None
            }
        }
    }

    fn rank_list(&mut self, items: &[(Option<Designator>, Arg)], to: &QualType) -> Option<Rank> {
        match &to.ty {
            Type::Scalar(_) | Type::Enum(_) | Type::Pointer(_) => match items {
                [] => Some(0),
                [(_, arg)] => self.rank(arg, &to.ty.clone().into()),
                _ => None,
            },
            Type::Vector { len, .. } => (items.len() <= *len as usize).then_some(USER),
            Type::Matrix { .. } => Some(USER),
            Type::Array(_, n) => (items.len() as u64 <= *n).then_some(USER),
            Type::Record(id) => {
                self.complete_record(*id).ok()?;
                let record = &self.records[id.index()];
                let fits = if record.constructors.is_empty() {
                    items.len() <= record.leaves.len().max(record.fields.len())
                } else {
                    record.constructors.iter().any(|c| {
                        c.decl.params.len() >= items.len()
                            && c.decl.params[items.len()..].iter().all(|p| p.default.is_some())
                    })
                };
                fits.then_some(USER)
            }
            Type::Object(_) => Some(USER),
            _ => None,
        }
    }

    /// The conversion of a value (reference binding aside).
    pub fn rank_operand(&mut self, operand: &Operand, to: &Type) -> Option<Rank> {
        let from = operand.ty();
        if from == to {
            return Some(0);
        }
        match (from, to) {
            (Type::Scalar(a), Type::Scalar(b)) => Some(rank_scalar(*a, *b)),
            (Type::Enum(id), Type::Scalar(b)) => {
                let e = &self.enums[id.index()];
                (!e.is_scoped).then(|| rank_scalar(e.underlying, *b).max(PROMOTE))
            }
            (Type::Scalar(a), Type::Vector { scalar, .. }) => Some(SPLAT + u32::from(a != scalar)),
            (Type::Enum(_), Type::Vector { .. }) => None,
            (Type::Vector { scalar, len, .. }, Type::Vector { scalar: s, len: n, .. }) => {
                (scalar == s && len == n).then_some(QUALIFY)
            }
            (Type::Array(..), Type::Pointer(_)) => {
                let decayed = decayed(operand).ty;
                if matches!(decayed, Type::Array(..)) {
                    return None;
                }
                if let (Operand::Place(place), Type::Pointer(p), Type::Pointer(q)) = (operand, to, &decayed)
                    && place.is_known()
                    && p.is_const
                    && p.ty == q.ty
                    && p.space_or_thread() == Space::Thread
                {
                    return Some(QUALIFY);
                }
                self.rank_pointer(&decayed, to)
            }
            (Type::Pointer(_), Type::Pointer(_)) => self.rank_pointer(from, to),
            (Type::Pointer(_), Type::Scalar(Scalar::Bool)) => Some(SPLAT),
            (Type::Nullptr, Type::Pointer(_)) => Some(CONVERT),
            (Type::Overloads(set), Type::Function(f)) => {
                let n = f.params.len();
                set.iter().any(|g| g.decl.params.len() == n).then_some(0)
            }
            (Type::Closure(_), Type::Function(_)) => Some(CONVERT),
            (Type::Record(_), Type::Record(base)) if self.derives(&from.clone(), *base) => Some(UPCAST),
            _ => self.rank_user(operand, to),
        }
    }

    fn rank_user(&mut self, operand: &Operand, to: &Type) -> Option<Rank> {
        if matches!(operand.ty(), Type::Object(_)) || matches!(to, Type::Object(_)) {
            let span = self.span;
            if let Some(Ok(_)) = library::convert(self, operand, to, true, span) {
                return Some(CONVERT);
            }
        }
        if let Type::Record(_) = operand.ty()
            && self.conversion_function(operand, to).is_some()
        {
            return Some(USER);
        }
        if let Type::Record(id) = to {
            self.complete_record(*id).ok()?;
            if self.converting_depth > 0 {
                return None;
            }
            self.converting_depth += 1;
            let args = [Arg::Operand(operand.clone(), self.span)];
            let candidates: Vec<FunctionRef> = self.records[id.index()]
                .constructors
                .iter()
                .filter(|c| !c.decl.specs.is_explicit)
                .cloned()
                .collect();
            let found = candidates.iter().any(|c| self.viable(c, &args, None).is_some());
            self.converting_depth -= 1;
            return found.then_some(USER);
        }
        None
    }

    /// The conversion function of a class for a target type, with its template arguments.
    fn conversion_function(&mut self, operand: &Operand, to: &Type) -> Option<(FunctionRef, Vec<TemplateArg>)> {
        let Type::Record(id) = operand.ty() else {
            return None;
        };
        let this = match operand {
            Operand::Place(place) => Some(place.clone()),
            Operand::Value(_) => None,
        };
        let mut best: Option<(Rank, FunctionRef, Vec<TemplateArg>)> = None;
        let mut ids = vec![*id];
        while let Some(id) = ids.pop() {
            self.complete_record(id).ok()?;
            ids.extend(self.records[id.index()].bases.iter().copied());
            for f in self.records[id.index()].conversions.clone() {
                let crate::ast::FunctionKind::Conversion(ty) = &f.decl.kind else {
                    continue;
                };
                let Some(on_this) = self.rank_this(&f, this.as_ref()) else {
                    continue;
                };
                let mut env = f.env.clone();
                let mut own = Vec::new();
                if let Some(header) = &f.decl.template {
                    match self.deduce_conversion(&f, ty, header, to) {
                        Some(args) => own = args,
                        None => continue,
                    }
                    env = self.template_env(&env, header, &own);
                }
                let Some(result) = self.attempt(|s| s.within(env, |s| s.resolve_type(ty))) else {
                    continue;
                };
                let r = match (&result.ty, to) {
                    (a, b) if a == b => u32::from(f.decl.template.is_some()),
                    (Type::Scalar(a), Type::Scalar(b)) => rank_scalar(*a, *b),
                    (Type::Scalar(_), Type::Vector { .. }) => SPLAT,
                    _ => continue,
                };
                let r = 2 * r + on_this;
                if best.as_ref().is_none_or(|(b, ..)| r < *b) {
                    best = Some((r, f, own));
                }
            }
        }
        best.map(|(_, f, own)| (f, own))
    }

    /// The template arguments of `template <…> operator T()` for a target type.
    fn deduce_conversion(
        &mut self,
        f: &FunctionRef,
        ty: &crate::ast::Ty,
        header: &crate::ast::TemplateHeader,
        to: &Type,
    ) -> Option<Vec<TemplateArg>> {
        let mut b = super::deduce::Bindings {
            header,
            args: vec![None; header.params.len()],
        };
        let env = f.env.clone();
        let target = QualType::from(to.clone());
        let matched = self.within(env.clone(), |s| s.unify(ty, &target, &mut b));
        if !matched {
            return None;
        }
        let args = std::mem::take(&mut b.args);
        let span = self.span;
        let own = self.attempt(|s| s.finish_args(header, args, &env, span))?;
        if let Some(e) = &header.requires {
            let scope = self.template_env(&env, header, &own);
            let c = self.attempt(|s| s.within(scope, |s| s.constant_expr(e)))?;
            if c.as_int() == Some(0) {
                return None;
            }
        }
        Some(own)
    }

    fn rank_pointer(&mut self, from: &Type, to: &Type) -> Option<Rank> {
        let (Type::Pointer(a), Type::Pointer(b)) = (from, to) else {
            return None;
        };
        if a.space != b.space || (a.is_const && !b.is_const && b.space != Some(Space::Constant)) {
            return None;
        }
        if a.ty == b.ty {
            return Some(if a.is_const == b.is_const && a.is_volatile == b.is_volatile {
                0
            } else {
                QUALIFY
            });
        }
        match (&a.ty, &b.ty) {
            (_, Type::Void) => Some(CONVERT),
            (x @ Type::Record(_), Type::Record(base)) if self.derives(x, *base) => Some(UPCAST),
            _ => None,
        }
    }

    /// Converts to a type, as initialisation does (`explicit` allows what a cast allows).
    pub fn convert(&mut self, operand: Operand, to: &Type, explicit: bool, span: Span) -> Res<Value> {
        if operand.ty() == to && !matches!(to, Type::Array(..)) {
            return self.rvalue_copy(operand);
        }
        if let (Type::Array(..), Type::Pointer(_)) = (operand.ty(), to) {
            let operand = match (operand, to) {
                (Operand::Place(place), Type::Pointer(p))
                    if p.space_or_thread() == Space::Thread && place.is_known() =>
                {
                    // A constant array where thread memory is wanted: a copy.
                    let value = self.load(&place)?;
                    let mut copy = self.new_memory("copy", &place.ty, Space::Thread, 0)?;
                    self.store(&copy, &value)?;
                    copy.is_const = true;
                    copy.into()
                }
                (operand, _) => operand,
            };
            let pointer = self.decay(operand, span)?;
            return self.convert(pointer, to, explicit, span);
        }
        if matches!(operand.ty(), Type::Object(_)) || matches!(to, Type::Object(_)) {
            if let Some(result) = library::convert(self, &operand, to, false, span) {
                return result;
            }
            if explicit
                && let Some(result) = library::construct(self, to, &[Arg::Operand(operand.clone(), span)], false, span)
            {
                let operand = result?;
                return self.rvalue(operand);
            }
        }
        if let Type::Record(_) = operand.ty() {
            if let Type::Record(base) = to
                && self.derives(operand.ty(), *base)
            {
                let place = self.place_of(operand)?;
                if let Some(part) = self.upcast(&place, *base)? {
                    return self.load(&part);
                }
                return self.no_conversion(&place.ty, to, span);
            }
            if let Some((f, own)) = self.conversion_function(&operand, to) {
                let this = self.place_of(operand)?;
                let result = self.inline_call(&f, &own, Some(this), Vec::new(), span)?;
                return self.convert(result, to, explicit, span);
            }
        }
        if let Type::Record(id) = to {
            return self.construct_record(*id, &[Arg::Operand(operand, span)], false, explicit, span);
        }
        if let (Type::Overloads(set), Type::Function(f)) = (operand.ty(), to) {
            let found = set.iter().find(|g| self.fits_function(g, f));
            let Some(g) = found else {
                return self.no_conversion(operand.ty(), to, span);
            };
            return Ok(Value::one(to.clone(), Leaf::Function(g.clone())));
        }
        let from = operand.ty().clone();
        let value = self.rvalue(operand)?;
        match (&from, to) {
            (Type::Scalar(_), Type::Scalar(s)) => {
                let leaf = self.convert_leaf(&value.leaves[0], *s)?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Enum(id), Type::Scalar(s)) => {
                if self.enums[id.index()].is_scoped && !explicit {
                    return self.no_conversion(&from, to, span);
                }
                let leaf = self.convert_leaf(&value.leaves[0], *s)?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Format(format), Type::Scalar(s)) if explicit => {
                let leaf = library::packed::decode(self, &value.leaves[0], *format, *s)?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Scalar(_), Type::Format(format)) if explicit => {
                let leaf = library::packed::encode_nearest(self, &value.leaves[0], *format)?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Scalar(_) | Type::Enum(_), Type::Enum(id)) if explicit => {
                let s = self.enums[id.index()].underlying;
                let leaf = self.convert_leaf(&value.leaves[0], s)?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Scalar(_), Type::Vector { scalar, len, .. }) => {
                let leaf = self.convert_leaf(&value.leaves[0], *scalar)?;
                Ok(Value {
                    ty: to.clone(),
                    leaves: vec![leaf; *len as usize],
                })
            }
            (Type::Vector { scalar, len, .. }, Type::Vector { scalar: s, len: n, .. })
                if len == n && (scalar == s || explicit) =>
            {
                let leaves = value
                    .leaves
                    .iter()
                    .map(|leaf| self.convert_leaf(leaf, *s))
                    .collect::<Res<Vec<_>>>()?;
                Ok(Value { ty: to.clone(), leaves })
            }
            (
                Type::Matrix { columns, rows, .. },
                Type::Matrix {
                    scalar,
                    columns: c,
                    rows: r,
                },
            ) if columns == c && rows == r => {
                let leaves = value
                    .leaves
                    .iter()
                    .map(|leaf| self.convert_leaf(leaf, *scalar))
                    .collect::<Res<Vec<_>>>()?;
                Ok(Value { ty: to.clone(), leaves })
            }
            (Type::Nullptr, Type::Pointer(p)) => {
                let leaf = self.null_leaf(p.space_or_thread())?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Pointer(a), Type::Pointer(b)) => {
                if a.space_or_thread() != b.space_or_thread() {
                    return self.err_help(
                        "E0464",
                        format!(
                            "a pointer into '{}' memory cannot become a pointer into '{}' memory",
                            a.space_or_thread(),
                            b.space_or_thread()
                        ),
                        span,
                        "address spaces are disjoint: pass the pointer with its own space",
                    );
                }
                if !explicit && self.rank_pointer(&from, to).is_none() {
                    return self.no_conversion(&from, to, span);
                }
                Ok(Value {
                    ty: to.clone(),
                    leaves: value.leaves,
                })
            }
            (Type::Pointer(_), Type::Scalar(Scalar::Bool)) => {
                let leaf = self.convert_leaf(&value.leaves[0], Scalar::Bool)?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Nullptr, Type::Scalar(Scalar::Bool)) => Ok(self.bool_value(false)),
            (Type::Pointer(_), Type::Scalar(Scalar::U64 | Scalar::I64)) if explicit => {
                let operand = self.materialize(&value.leaves[0])?;
                let op = Op::Bitcast {
                    operand,
                    to: IrType::Scalar(Scalar::U64),
                };
                let leaf = self.emit1(op, Scalar::U64)?;
                let leaf = self.convert_leaf(&leaf, to.as_scalar().unwrap_or(Scalar::U64))?;
                Ok(Value::one(to.clone(), leaf))
            }
            (Type::Scalar(s), Type::Pointer(p)) if explicit && !s.is_float() => {
                let leaf = self.convert_leaf(&value.leaves[0], Scalar::U64)?;
                let operand = self.materialize(&leaf)?;
                let space = IrType::Pointer(p.space_or_thread());
                let leaf = self.emit1(Op::Bitcast { operand, to: space }, space)?;
                Ok(Value::one(to.clone(), leaf))
            }
            (_, Type::Void) if explicit => Ok(Value::void()),
            (Type::Closure(_), Type::Function(_)) => self.err(
                "E0465",
                "a lambda cannot be stored in a pointer to function: pass it as a template or 'auto' parameter",
                span,
            ),
            (Type::Array(a, n), Type::Array(b, m)) if a.ty == b.ty && n == m => Ok(Value {
                ty: to.clone(),
                leaves: value.leaves,
            }),
            _ => self.no_conversion(&from, to, span),
        }
    }

    fn no_conversion<T>(&self, from: &Type, to: &Type, span: Span) -> Res<T> {
        let message = format!(
            "'{}' does not convert to '{}'",
            self.type_name(from),
            self.type_name(to)
        );
        let d = self.diagnostic("E0466", message, span);
        let d = match (from, to) {
            (Type::Vector { len, .. }, Type::Vector { len: n, .. }) if len == n => d.help(format!(
                "vectors convert only explicitly: write '{}(…)'",
                self.type_name(to)
            )),
            (Type::Enum(_), Type::Scalar(_)) => d.help("use 'static_cast'"),
            (Type::Format(_), _) | (_, Type::Format(_)) => d.help(
                "element formats convert only explicitly: write 'float(element)' or 'metal_fp8_e4m3_format(number)'",
            ),
            (Type::Pointer(a), Type::Pointer(b)) if a.ty == b.ty && a.is_const && !b.is_const => {
                d.note("the pointed-to type is 'const'")
            }
            _ => d,
        };
        Err(Fail::Error(Box::new(d)))
    }

    /// An rvalue of an operand; a cooperative tensor is copied.
    pub fn rvalue_copy(&mut self, operand: Operand) -> Res<Value> {
        match operand {
            Operand::Value(value) => Ok(value),
            Operand::Place(place) => {
                let mut value = self.load(&place)?;
                for leaf in &mut value.leaves {
                    if let Leaf::Coop(from) = leaf
                        && matches!(&*value_object(&value.ty), Some(o) if is_coop(o))
                    {
                        *leaf = Leaf::Coop(self.copy_coop(*from)?);
                    }
                }
                Ok(value)
            }
        }
    }

    fn copy_coop(&mut self, from: anymetal_ir::CoopId) -> Res<anymetal_ir::CoopId> {
        self.foldable()?;
        let description = self.builder.kernel().coop(from).clone();
        let to = self.builder.cooperative(description);
        self.builder.emit_void(Op::CoopInit(to));
        self.builder.emit_void(Op::CoopCopy { to, from });
        Ok(to)
    }

    /// A null pointer.
    pub fn null_leaf(&mut self, space: Space) -> Res<Leaf> {
        let ty = IrType::Pointer(space);
        if self.const_eval > 0 {
            return Ok(Leaf::Undef(ty));
        }
        self.emit1(Op::NullPointer(space), ty)
    }

    /// An array as a pointer to its first element; other operands as they are.
    pub fn decay(&mut self, operand: Operand, span: Span) -> Res<Operand> {
        let Type::Array(..) = operand.ty() else {
            return Ok(operand);
        };
        let place = self.place_of(operand)?;
        if self.const_eval > 0 && place.is_known() {
            let ty = super::tyres::to_first(&Operand::Place(place.clone())).ty;
            return Ok(Value::one(ty, Leaf::Place(std::rc::Rc::new(place))).into());
        }
        let place = self.in_memory(place, span)?;
        let ty = super::tyres::to_first(&Operand::Place(place.clone())).ty;
        let leaf = self.address_leaf(&place, span)?;
        Ok(Value::one(ty, leaf).into())
    }

    /// The address of a place in memory.
    pub fn address_leaf(&mut self, place: &LValue, span: Span) -> Res<Leaf> {
        match &place.place {
            Place::Memory { pointer, offset, .. } => {
                self.runtime_only()?;
                let pointer = self.address(*pointer, *offset);
                Ok(Leaf::Value(pointer))
            }
            Place::TensorElement { tensor, .. } if tensor.format.is_sub_byte() => self.err_help(
                "E0526",
                format!(
                    "an element of '{}' is less than a byte and has no address",
                    tensor.format.msl_name()
                ),
                span,
                "keep the pointer that the tensor was made from",
            ),
            Place::TensorElement { tensor, indices, .. } => {
                let op = Op::TensorElementPointer {
                    tensor: Box::new((**tensor).clone()),
                    indices: indices.clone(),
                };
                self.emit1(op, IrType::Pointer(tensor.space))
            }
            Place::CoopElement { .. } => self.err("E0467", "an element of a cooperative tensor has no address", span),
            _ => self.err("E0468", "this expression has no address", span),
        }
    }

    /// A place of an operand: itself, or a temporary that holds the value.
    pub fn place_of(&mut self, operand: Operand) -> Res<LValue> {
        match operand {
            Operand::Place(place) => Ok(place),
            Operand::Value(value) => Ok(LValue {
                ty: value.ty,
                is_const: false,
                is_volatile: false,
                place: Place::Slots(value.leaves.into_iter().map(Slot::Fixed).collect()),
            }),
        }
    }

    /// The same object in memory. Constant arrays become tables, other values a temporary.
    pub fn in_memory(&mut self, place: LValue, _span: Span) -> Res<LValue> {
        let Place::Slots(slots) = &place.place else {
            return Ok(place);
        };
        self.runtime_only()?;
        if place.is_const
            && let Some(table) = self.table(&place.ty, slots)?
        {
            return Ok(table);
        }
        let value = self.load(&place)?;
        let mut temporary = self.new_memory("temporary", &place.ty, Space::Thread, 0)?;
        self.store(&temporary, &value)?;
        temporary.is_const = place.is_const;
        Ok(temporary)
    }

    /// A constant table with the contents of constant slots; `None` if one is not constant.
    fn table(&mut self, ty: &Type, slots: &[Slot]) -> Res<Option<LValue>> {
        let offsets = self.leaf_offsets(ty)?;
        let (size, align) = self.size_align(ty)?;
        if offsets.len() != slots.len() {
            return Ok(None);
        }
        let mut data = vec![0u8; size as usize];
        for (slot, offset) in slots.iter().zip(offsets.iter()) {
            let leaf = match slot {
                Slot::Fixed(leaf) => leaf.clone(),
                Slot::Cell(cell) => self.cells[cell.index()].clone(),
                Slot::Local(_) => return Ok(None),
            };
            let Some(c) = self.const_of(&leaf) else {
                return Ok(None);
            };
            let n = c.ty.size() as usize;
            let at = *offset as usize;
            data[at..at + n].copy_from_slice(&c.bits.to_le_bytes()[..n]);
        }
        let id = match self.tables.get(&data) {
            Some(id) => *id,
            None => {
                let element_size = self.innermost_size(ty);
                let id = self.builder.memory(anymetal_ir::MemoryObject {
                    name: "table".to_string(),
                    space: Space::Constant,
                    size,
                    align: align.max(16),
                    element_size,
                    data: data.clone(),
                });
                self.tables.insert(data, id);
                id
            }
        };
        let pointer = self
            .builder
            .emit(Op::MemoryPointer(id), &[IrType::Pointer(Space::Constant)]);
        Ok(Some(LValue {
            ty: ty.clone(),
            is_const: true,
            is_volatile: false,
            place: Place::Memory {
                pointer,
                offset: 0,
                space: Space::Constant,
                align: align.max(1),
            },
        }))
    }

    /// A condition.
    pub fn to_bool(&mut self, operand: Operand, span: Span) -> Res<Leaf> {
        let former = self.at(span);
        let result = match operand.ty() {
            Type::Scalar(_) | Type::Pointer(_) | Type::Record(_) | Type::Nullptr => {
                let value = self.convert(operand, &Type::BOOL, false, span)?;
                value.leaves[0].clone()
            }
            Type::Enum(_) => {
                let value = self.convert(operand, &Type::BOOL, true, span)?;
                value.leaves[0].clone()
            }
            Type::Array(..) => Self::int_leaf(Scalar::Bool, 1),
            Type::Object(_) => {
                let value = self.convert(operand, &Type::BOOL, true, span)?;
                value.leaves[0].clone()
            }
            ty => {
                let ty = ty.clone();
                let d = self.diagnostic("E0469", format!("'{}' is no condition", self.type_name(&ty)), span);
                let d = if matches!(ty, Type::Vector { .. }) {
                    d.help("reduce it with 'any(…)' or 'all(…)'")
                } else {
                    d
                };
                return Err(Fail::Error(Box::new(d)));
            }
        };
        self.at(former);
        Ok(result)
    }

    /// The comparison of two pointers or a pointer with null.
    pub fn compare_pointers(&mut self, op: CompareOp, a: &Leaf, b: &Leaf) -> Res<Leaf> {
        self.compare_leaf(op, a, b)
    }
}

fn value_object(ty: &Type) -> Rc<Option<Object>> {
    Rc::new(ty.as_object().cloned())
}

fn is_coop(object: &Object) -> bool {
    matches!(object, Object::Coop(_))
}

/// The rank of a conversion between scalars.
pub fn rank_scalar(from: Scalar, to: Scalar) -> Rank {
    if from == to {
        return 0;
    }
    match (from, to) {
        (Scalar::Bool | Scalar::I8 | Scalar::U8 | Scalar::I16 | Scalar::U16, Scalar::I32) => PROMOTE,
        (Scalar::F16 | Scalar::BF16, Scalar::F32) => PROMOTE,
        _ => CONVERT,
    }
}

/// The space of a place, where a known constant may be taken for an object in `constant` memory.
pub fn known_space(place: &LValue, wanted: Space) -> Space {
    if matches!(wanted, Space::Constant | Space::Thread) && place.is_known() {
        wanted
    } else {
        place.space()
    }
}
