//! What stands behind a name: variables, references and parameters bound to arguments.

use std::rc::Rc;

use super::context::*;
use super::types::*;
use super::tyres::has_auto;
use super::value::*;
use crate::ast;
use crate::source::Span;

impl Sema<'_> {
    /// Binds a reference parameter or variable to an argument.
    pub fn bind_reference(&mut self, ty: &QualType, arg: &Arg, span: Span) -> Res<LValue> {
        if let Arg::Operand(Operand::Place(place), _) = arg {
            let wanted = ty.space_or_thread();
            let same_space = super::convert::known_space(place, wanted) == wanted || ty.space.is_none();
            if same_space && place.ty == ty.ty {
                if place.is_const && !ty.is_const && place.space() != Space::Constant {
                    let name = self.qual_name(ty);
                    return self.err("E0483", format!("'{name}' cannot be bound to a 'const' object"), span);
                }
                let mut place = place.clone();
                place.is_const |= ty.is_const;
                return Ok(place);
            }
            if same_space
                && let Type::Record(base) = ty.ty
                && self.derives(&place.ty.clone(), base)
                && let Some(mut part) = self.upcast(&place.clone(), base)?
            {
                part.is_const |= ty.is_const;
                return Ok(part);
            }
            if place.ty == ty.ty && place.space() != wanted && !ty.is_const {
                return self.err(
                    "E0484",
                    format!(
                        "a reference to '{wanted}' memory cannot be bound to an object in '{}' memory",
                        place.space()
                    ),
                    span,
                );
            }
        }
        if ty.reference == Reference::Lvalue && !ty.is_const {
            let what = match arg {
                Arg::Operand(operand, _) => format!(
                    "{} of type '{}'",
                    match operand {
                        Operand::Place(_) => "an object",
                        Operand::Value(_) => "a temporary",
                    },
                    self.type_name(operand.ty())
                ),
                Arg::List(..) => "a braced list".into(),
            };
            return self.err_help(
                "E0485",
                format!("'{}' cannot be bound to {what}", self.qual_name(ty)),
                span,
                "store it in a variable first",
            );
        }
        let value = self.init(&ty.ty, arg, span)?;
        if ty.reference == Reference::Rvalue {
            return self.new_variable("temporary", &ty.ty, value, false);
        }
        let mut place = self.place_of(value.into())?;
        place.is_const = ty.is_const;
        if self.const_eval == 0 && self.needs_memory(&place.ty)? {
            place = self.in_memory(place, span)?;
        }
        Ok(place)
    }

    /// A new variable with a value.
    pub fn new_variable(&mut self, name: &str, ty: &Type, value: Value, address_taken: bool) -> Res<LValue> {
        let kinds = self.leaf_kinds(ty)?;
        if self.const_eval > 0 {
            let slots = value
                .leaves
                .into_iter()
                .zip(kinds.iter())
                .map(|(leaf, kind)| match kind {
                    LeafKind::Value(_) => Slot::Cell(self.cell(leaf)),
                    _ => Slot::Fixed(leaf),
                })
                .collect();
            return Ok(slots_place(ty, slots));
        }
        let storable = kinds.iter().all(|k| matches!(k, LeafKind::Value(_)));
        let forced = address_taken && !kinds.is_empty() && storable;
        if forced || self.needs_memory(ty)? {
            let place = self.new_memory(name, ty, Space::Thread, 0)?;
            self.store(&place, &value)?;
            return Ok(place);
        }
        let mut slots = Vec::with_capacity(kinds.len());
        for (i, (leaf, kind)) in value.leaves.iter().zip(kinds.iter()).enumerate() {
            slots.push(match kind {
                LeafKind::Value(_) if matches!(leaf, Leaf::Place(_)) => Slot::Fixed(leaf.clone()),
                LeafKind::Value(ir) => {
                    let name = if kinds.len() == 1 {
                        name.to_string()
                    } else {
                        format!("{name}.{i}")
                    };
                    let local = self.builder.local(name, *ir);
                    if !matches!(leaf, Leaf::Undef(_)) {
                        let v = self.materialize(leaf)?;
                        self.builder.set(local, v);
                    }
                    Slot::Local(local)
                }
                _ => Slot::Fixed(leaf.clone()),
            });
        }
        Ok(slots_place(ty, slots))
    }

    /// A variable that never changes.
    pub fn fixed_variable(&mut self, ty: &Type, value: Value) -> LValue {
        let mut place = slots_place(ty, value.leaves.into_iter().map(Slot::Fixed).collect());
        place.is_const = true;
        place
    }

    /// Binds parameters in a scope.
    pub fn bind_params(&mut self, params: &[ast::Param], args: Vec<Arg>, env: &Rc<Env>, span: Span) -> Res<()> {
        let mut args = args.into_iter();
        for param in params {
            if param.is_pack {
                let mut items = Vec::new();
                for arg in args.by_ref() {
                    items.push(self.bind_pack_item(param, arg, items.len(), span)?);
                }
                if let Some(name) = &param.name {
                    env.bind(name.name.clone(), Entity::OperandPack(items));
                }
                continue;
            }
            let arg = match (args.next(), &param.default) {
                (Some(arg), _) => arg,
                (None, Some(default)) => self.arg(default)?,
                (None, None) => return self.err("E0487", "too few arguments", span),
            };
            let (place, declared) = self.bind_param(param, arg, span)?;
            if let Some(name) = &param.name {
                env.bind(name.name.clone(), Entity::Variable(Operand::Place(place), declared));
            }
        }
        if args.next().is_some() {
            return self.err("E0487", "too many arguments", span);
        }
        Ok(())
    }

    pub(super) fn bind_param(&mut self, param: &ast::Param, arg: Arg, span: Span) -> Res<(LValue, QualType)> {
        let ty = if has_auto(&param.ty) {
            match &arg {
                Arg::Operand(operand, _) => self.deduce_auto(&param.ty, operand)?,
                Arg::List(..) => {
                    return self.err("E0447", "'auto' cannot be deduced from a braced list", span);
                }
            }
        } else {
            self.param_type(&param.ty)?
        };
        let at = arg.span();
        if ty.is_reference() {
            let place = self.bind_reference(&ty, &arg, at)?;
            let taken = param
                .name
                .as_ref()
                .is_some_and(|n| self.current_uses.address_taken.contains(&n.name));
            if taken && self.const_eval == 0 && self.unevaluated == 0 {
                let place = self.addressable(place)?;
                return Ok((place, ty));
            }
            return Ok((place, ty));
        }
        let value = self.init(&ty.ty, &arg, at)?;
        let name = param.name.as_ref().map(|n| &n.name);
        let uses = self.current_uses.clone();
        let taken = name.is_some_and(|n| uses.address_taken.contains(n));
        let assigned = name.is_some_and(|n| uses.assigned.contains(n));
        let fixed = !taken
            && !uses.tail_params
            && (ty.is_const || (!assigned && is_bundle(&ty.ty)))
            && !self.needs_memory(&ty.ty)?;
        let mut place = if fixed {
            self.fixed_variable(&ty.ty, value)
        } else {
            self.new_variable(name.map_or("parameter", |n| n), &ty.ty, value, taken)?
        };
        place.is_const = ty.is_const;
        Ok((place, ty))
    }

    /// One element of a function parameter pack: the pattern is bound with each template pack at that element.
    pub(super) fn bind_pack_item(&mut self, param: &ast::Param, arg: Arg, index: usize, span: Span) -> Res<Operand> {
        let scope = Env::names(&self.env.clone());
        for name in super::lambda::names_in_type(&param.ty) {
            if let Ok(Some(Entity::Pack(items))) = self.lookup(&name, span)
                && let Some(item) = items.get(index)
            {
                scope.bind(name, self.entity_of(item));
            }
        }
        let (place, _) = self.within(scope, |s| s.bind_param(param, arg, span))?;
        Ok(place.into())
    }

    /// Memory that stands for a variable in registers while a function that takes its address runs.
    pub(super) fn addressable(&mut self, place: LValue) -> Res<LValue> {
        let Place::Slots(slots) = &place.place else {
            return Ok(place);
        };
        let kinds = self.leaf_kinds(&place.ty)?;
        let plain = !kinds.is_empty() && kinds.iter().all(|k| matches!(k, LeafKind::Value(_)));
        let storable = !matches!(place.ty, Type::Object(_));
        if !plain || !storable || slots.iter().any(|s| matches!(s, Slot::Fixed(Leaf::Place(_)))) {
            return Ok(place);
        }
        let value = self.load(&place)?;
        let mut memory = self.new_memory("reference", &place.ty, Space::Thread, 0)?;
        self.store(&memory, &value)?;
        memory.is_const = place.is_const;
        if !place.is_const && slots.iter().all(|s| matches!(s, Slot::Local(_))) {
            self.copy_back.push((place, memory.clone()));
        }
        Ok(memory)
    }

    /// Copies memory that stood for variables back to them.
    pub fn write_back(&mut self, pending: usize) -> Res<()> {
        let list: Vec<(LValue, LValue)> = self.copy_back.drain(pending..).collect();
        for (variable, memory) in list {
            let value = self.load(&memory)?;
            self.store(&variable, &value)?;
        }
        Ok(())
    }
}

/// A place of slots.
pub fn slots_place(ty: &Type, slots: Vec<Slot>) -> LValue {
    LValue {
        ty: ty.clone(),
        is_const: false,
        is_volatile: false,
        place: Place::Slots(slots),
    }
}

/// Library objects whose parts are better kept as they are while nothing assigns them.
pub fn is_bundle(ty: &Type) -> bool {
    let Type::Object(object) = ty else { return false };
    !matches!(
        **object,
        Object::CoopIterator(_)
            | Object::Atomic(_)
            | Object::SimdgroupMatrix(..)
            | Object::Packed(..)
            | Object::Convolution { .. }
    )
}
