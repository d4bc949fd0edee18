//! Braced lists: arrays, records and unions from their items, designated ones among them.

use anymetal_ir::Scalar;

use super::context::*;
use super::types::*;
use super::value::*;
use crate::ast::{Init, Name};
use crate::source::Span;

impl Sema<'_> {
    pub(super) fn list_init(
        &mut self,
        ty: &Type,
        items: &[(Option<Designator>, Arg)],
        span: Span,
        _outer: Span,
    ) -> Res<Value> {
        match ty {
            Type::Scalar(_) | Type::Enum(_) | Type::Pointer(_) => match items {
                [] => self.zero_or_null(ty),
                [(None, arg)] => self.init(ty, arg, span),
                _ => self.err(
                    "E0470",
                    format!("too many initialisers for '{}'", self.type_name(ty)),
                    span,
                ),
            },
            Type::Array(element, n) => {
                let items = match items {
                    [(None, Arg::List(inner, _))] if self.is_inner_array(element, *n, inner)? => inner,
                    items => items,
                };
                let mut at = 0;
                let value = self.aggregate(ty, items, &mut at, span)?;
                self.all_used(ty, items.len(), at, span)?;
                Ok(value)
            }
            Type::Record(id) => {
                self.complete_record(*id)?;
                if let [(None, Arg::Operand(operand, _))] = items
                    && (operand.ty() == ty || self.derives(&operand.ty().clone(), *id))
                {
                    return self.init(ty, &items[0].1, span);
                }
                if self.records[id.index()].constructors.is_empty() {
                    let mut at = 0;
                    let value = self.aggregate(ty, items, &mut at, span)?;
                    self.all_used(ty, items.len(), at, span)?;
                    return Ok(value);
                }
                let args: Vec<Arg> = items.iter().map(|(_, arg)| arg.clone()).collect();
                self.construct_record(*id, &args, true, true, span)
            }
            _ => {
                let args: Vec<Arg> = items.iter().map(|(_, arg)| arg.clone()).collect();
                let operand = self.construct(ty, &args, true, span)?;
                self.rvalue(operand)
            }
        }
    }

    /// Is the one inner list of a braced list the array inside a `metal::array`, and not its first element? C++ takes it for the array
    /// always; a list of too many items for that is an element here.
    fn is_inner_array(&mut self, element: &QualType, n: u64, inner: &[(Option<Designator>, Arg)]) -> Res<bool> {
        if !element.of_class {
            return Ok(false);
        }
        let (given, nested) = (
            inner.len() as u64,
            inner.iter().any(|(_, arg)| matches!(arg, Arg::List(..))),
        );
        let room = match &element.ty {
            // The elements are no lists, so this is none either.
            Type::Scalar(_) | Type::Enum(_) | Type::Pointer(_) => return Ok(true),
            Type::Array(..) if !nested => n.saturating_mul(self.leaf_kinds(&element.ty)?.len() as u64),
            Type::Record(id) if !nested => {
                self.complete_record(*id)?;
                match self.records[id.index()].constructors.is_empty() {
                    true => n.saturating_mul(self.leaf_kinds(&element.ty)?.len() as u64),
                    false => n,
                }
            }
            _ => n,
        };
        Ok(given <= room)
    }

    pub(super) fn all_used(&self, ty: &Type, n: usize, used: usize, span: Span) -> Res<()> {
        if used < n {
            return self.err(
                "E0470",
                format!("too many initialisers for '{}'", self.type_name(ty)),
                span,
            );
        }
        Ok(())
    }

    /// Refuses an array of `n` such elements if its values would fill the memory.
    pub(super) fn has_room(&self, element: &Value, n: u64, span: Span) -> Res<()> {
        self.array_leaves(element.leaves.len(), n, span).map(|_| ())
    }

    /// The scalars of an array of `n` elements of `one` each, which are refused if they would fill the memory.
    pub(super) fn array_leaves(&self, one: usize, n: u64, span: Span) -> Res<u64> {
        let count = (one as u64).saturating_mul(n);
        if count > MAX_LEAVES {
            return self.err_help(
                "E0495",
                "this array is too large",
                span,
                format!(
                    "an array that has values here has at most {MAX_LEAVES} scalars; keep large ones in device memory"
                ),
            );
        }
        Ok(count)
    }

    /// Initialises an array or record from items, beginning with item `at`; inner braces may be left out.
    pub(super) fn aggregate(
        &mut self,
        ty: &Type,
        items: &[(Option<Designator>, Arg)],
        at: &mut usize,
        span: Span,
    ) -> Res<Value> {
        let mut leaves = Vec::new();
        match ty {
            Type::Array(element, n) if items.iter().skip(*at).any(|(d, _)| d.is_some()) => {
                return self.designated_array(element, *n, items, at, span);
            }
            Type::Array(element, n) => {
                let mut i = 0;
                while i < *n {
                    if *at >= items.len() {
                        let zero = self.value_init(&element.ty, span)?;
                        self.has_room(&zero, n - i, span)?;
                        for _ in i..*n {
                            leaves.extend(zero.leaves.iter().cloned());
                        }
                        break;
                    }
                    let value = self.aggregate_item(element, items, at, span)?;
                    leaves.extend(value.leaves);
                    i += 1;
                }
            }
            Type::Record(id) => {
                if self.is_union(*id) {
                    return self.union_init(*id, items, at, span);
                }
                let fields = self.records[id.index()].fields.clone();
                if items.iter().skip(*at).any(|(name, _)| name.is_some()) {
                    return self.designated(*id, items, at, span);
                }
                for field in &fields {
                    let value = if *at < items.len() {
                        self.aggregate_item(&field.ty, items, at, span)?
                    } else {
                        let so_far = self.partial_object(ty, &leaves)?;
                        self.field_default(*id, field, so_far, span)?
                    };
                    leaves.extend(value.leaves);
                }
            }
            _ => return self.err("E0471", "this type is no aggregate", span),
        }
        Ok(Value { ty: ty.clone(), leaves })
    }

    fn union_init(
        &mut self,
        id: RecordId,
        items: &[(Option<Designator>, Arg)],
        at: &mut usize,
        span: Span,
    ) -> Res<Value> {
        let fields = self.records[id.index()].fields.clone();
        let ty = Type::Record(id);
        let Some(mut field) = fields.first().cloned() else {
            return self.zero(&ty);
        };
        if *at >= items.len() {
            return self.zero(&ty);
        }
        if let Some(Designator::Elements(..)) = &items[*at].0 {
            return self.no_elements(&ty, span);
        }
        if let Some(Designator::Field(name)) = &items[*at].0 {
            match fields.iter().find(|f| f.name == *name) {
                Some(f) => field = f.clone(),
                None => return self.no_member(&ty, name, span),
            }
        }
        let value = self.init(&field.ty.ty, &items[*at].1, span)?;
        *at += 1;
        let temporary = self.new_memory("union", &ty, Space::Thread, 0)?;
        let zero = self.zero(&ty)?;
        self.store(&temporary, &zero)?;
        let part = self.part(&temporary, &field.ty, 0, 0)?;
        self.store(&part, &value)?;
        self.load(&temporary)
    }

    fn designated(
        &mut self,
        id: RecordId,
        items: &[(Option<Designator>, Arg)],
        at: &mut usize,
        span: Span,
    ) -> Res<Value> {
        let fields = self.records[id.index()].fields.clone();
        let ty = Type::Record(id);
        let mut parts: Vec<Option<Value>> = vec![None; fields.len()];
        let mut next = 0;
        while *at < items.len() {
            let (name, arg) = &items[*at];
            if let Some(Designator::Elements(..)) = name {
                return self.no_elements(&ty, span);
            }
            if let Some(Designator::Field(name)) = name {
                match fields.iter().position(|f| f.name == *name) {
                    Some(i) => next = i,
                    None => return self.no_member(&ty, name, span),
                }
            }
            let Some(field) = fields.get(next) else {
                break;
            };
            let value = self.field_init(field, arg, span)?;
            parts[next] = Some(value);
            next += 1;
            *at += 1;
        }
        let mut leaves = Vec::new();
        for (field, part) in fields.iter().zip(parts) {
            let value = match part {
                Some(value) => value,
                None => {
                    let so_far = self.partial_object(&ty, &leaves)?;
                    self.field_default(id, field, so_far, span)?
                }
            };
            leaves.extend(value.leaves);
        }
        Ok(Value { ty, leaves })
    }

    /// `{[2] = x, [4 ... 7] = y}`: an item without a designator goes on behind the one before it, the rest is zero.
    fn designated_array(
        &mut self,
        element: &QualType,
        n: u64,
        items: &[(Option<Designator>, Arg)],
        at: &mut usize,
        span: Span,
    ) -> Res<Value> {
        let zero = self.value_init(&element.ty, span)?;
        self.has_room(&zero, n, span)?;
        let mut parts = vec![zero; n as usize];
        let mut next = 0;
        while *at < items.len() {
            let (first, last) = match &items[*at].0 {
                Some(Designator::Elements(first, last)) => (*first, *last),
                Some(Designator::Field(name)) => {
                    let name = name.clone();
                    return self.no_member(&super::tyres::array_of(element.clone(), n).ty, &name, span);
                }
                None => (next, next),
            };
            if last >= n {
                let at = items[*at].1.span();
                return self.err("E0481", format!("there is no element {last} in an array of {n}"), at);
            }
            if let (Type::Array(..), Arg::Operand(o, here)) = (&element.ty, &items[*at].1)
                && o.ty() != &element.ty
            {
                return self.err(
                    "E0481",
                    "where elements are numbered, an inner array needs its braces",
                    *here,
                );
            }
            let value = self.aggregate_item(element, items, at, span)?;
            parts[first as usize..=last as usize].fill(value);
            next = last + 1;
        }
        let leaves = parts.into_iter().flat_map(|part| part.leaves).collect();
        Ok(Value {
            ty: super::tyres::array_of(element.clone(), n).ty,
            leaves,
        })
    }

    fn no_elements<T>(&self, ty: &Type, span: Span) -> Res<T> {
        let name = self.type_name(ty);
        self.err(
            "E0481",
            format!("'{name}' is no array: it has no numbered elements"),
            span,
        )
    }

    fn no_member<T>(&self, ty: &Type, name: &Name, span: Span) -> Res<T> {
        self.err(
            "E0472",
            format!("'{}' has no member '{name}'", self.type_name(ty)),
            span,
        )
    }

    fn aggregate_item(
        &mut self,
        ty: &QualType,
        items: &[(Option<Designator>, Arg)],
        at: &mut usize,
        span: Span,
    ) -> Res<Value> {
        let arg = &items[*at].1;
        let nested = match (&ty.ty, arg) {
            (_, Arg::List(..)) => false,
            (Type::Array(..), Arg::Operand(o, _)) => o.ty() != &ty.ty,
            (Type::Record(id), Arg::Operand(o, _)) => {
                let id = *id;
                self.complete_record(id)?;
                o.ty() != &ty.ty
                    && self.records[id.index()].constructors.is_empty()
                    && self.rank_operand(&o.clone(), &ty.ty).is_none()
            }
            _ => false,
        };
        if nested {
            return self.aggregate(&ty.ty, items, at, span);
        }
        *at += 1;
        let field = Field {
            name: Name::from(""),
            ty: ty.clone(),
            offset: 0,
            leaf: 0,
            align: 0,
            init: None,
        };
        self.field_init(&field, arg, span)
    }

    /// The value of a data member; a reference member holds its place.
    fn field_init(&mut self, field: &Field, arg: &Arg, span: Span) -> Res<Value> {
        if field.ty.is_reference() {
            let place = self.bind_reference(&field.ty, arg, span)?;
            return Ok(Value::one(field.ty.ty.clone(), Leaf::Place(std::rc::Rc::new(place))));
        }
        self.init(&field.ty.ty, arg, span)
    }

    /// An object whose first leaves are known, for the initialisers of the members that follow.
    fn partial_object(&mut self, ty: &Type, leaves: &[Leaf]) -> Res<LValue> {
        let kinds = self.leaf_kinds(ty)?;
        let missing = kinds.iter().skip(leaves.len()).map(|kind| match kind {
            LeafKind::Value(ir) => Leaf::Undef(*ir),
            _ => Leaf::Undef(Scalar::U8.into()),
        });
        let slots = leaves.iter().cloned().chain(missing).map(Slot::Fixed).collect();
        Ok(super::bind::slots_place(ty, slots))
    }

    /// The default member initialiser, or zero. The initialiser sees the members before it.
    pub(super) fn field_default(&mut self, id: RecordId, field: &Field, this: LValue, span: Span) -> Res<Value> {
        if let Some(var) = field.init.clone()
            && let Some(init) = &var.init
        {
            let env = self.records[id.index()].env.clone();
            let env = Env::of(&env, EnvKind::This(Box::new(this)));
            return self.within(env, |s| {
                let args = s.init_args(init)?;
                s.direct_init(&field.ty, &args, matches!(init, Init::Brace(_)), span)
            });
        }
        if field.ty.is_reference() {
            return self.err(
                "E0463",
                format!("the reference member '{}' must be initialised", field.name),
                span,
            );
        }
        self.value_init(&field.ty.ty, span)
    }
}

/// How many elements an array without a bound gets from a braced list.
pub(super) fn list_length(items: &[(Option<Designator>, Arg)]) -> u64 {
    let (mut next, mut length) = (0u64, 0u64);
    for (designator, _) in items {
        next = match designator {
            Some(Designator::Elements(_, last)) => last.saturating_add(1),
            _ => next.saturating_add(1),
        };
        length = length.max(next);
    }
    length
}
