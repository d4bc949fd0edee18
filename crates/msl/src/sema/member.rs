//! Members, swizzles and subscripts.

use super::context::*;
use super::library::{self};
use super::types::*;
use super::value::*;
use crate::ast::{self, Expr};
use crate::source::Span;
use anymetal_ir::Scalar;
use std::rc::Rc;

impl Sema<'_> {
    /// The object of a member access; `->` is followed.
    pub fn member_object(&mut self, base: &Expr, arrow: bool, span: Span) -> Res<Operand> {
        let mut object = self.expr(base)?;
        self.at(span);
        if arrow {
            let mut steps = 0;
            while let Type::Record(_) = object.ty() {
                match self.user_operator("operator->", &[object.clone()], span) {
                    Some(result) if steps < 16 => object = result?,
                    _ => {
                        return self.err(
                            "E0511",
                            format!("'{}' is no pointer: use '.'", self.type_name(object.ty())),
                            span,
                        );
                    }
                }
                steps += 1;
            }
            object = self.deref_operand(object, span)?;
            return Ok(object);
        }
        self.object_itself(object, span)
    }

    /// An operand before `.`, which is no pointer.
    pub(super) fn object_itself(&mut self, object: Operand, span: Span) -> Res<Operand> {
        if let Type::Pointer(_) = object.ty() {
            return self.err_help(
                "E0511",
                format!("'{}' is a pointer", self.type_name(object.ty())),
                span,
                "use '->'",
            );
        }
        Ok(object)
    }

    /// `object.member`
    pub fn member(&mut self, object: Operand, member: &ast::Path, span: Span) -> Res<Operand> {
        let name = member.last().ident.name.clone();
        match object.ty().clone() {
            Type::Record(id) => {
                let place = match object {
                    Operand::Place(place) => place,
                    Operand::Value(value) => {
                        let ty = value.ty.clone();
                        if self.const_eval == 0 && self.is_union(id) {
                            self.new_variable("temporary", &ty, value, false)?
                        } else {
                            self.place_of(value.into())?
                        }
                    }
                };
                if member.segments.len() > 1 {
                    let mut path = member.clone();
                    path.segments.pop();
                    if let Entity::Type(QualType {
                        ty: Type::Record(base), ..
                    }) = self.resolve_path(&path)?
                        && let Some(part) = self.upcast(&place, base)?
                        && let Some(Entity::Variable(operand, _) | Entity::Operand(operand)) =
                            self.record_member(base, &name, Some(&part), span)?
                    {
                        return Ok(operand);
                    }
                }
                match self.record_member(id, &name, Some(&place), span)? {
                    Some(Entity::Variable(operand, _) | Entity::Operand(operand)) => Ok(operand),
                    Some(Entity::Functions(_)) => self.err(
                        "E0512",
                        format!("the member function '{name}' can only be called"),
                        span,
                    ),
                    Some(_) => self.err("E0512", format!("'{name}' is a type, not a member of the object"), span),
                    None => self.err(
                        "E0472",
                        format!("'{}' has no member '{name}'", self.type_name(&place.ty)),
                        member.span,
                    ),
                }
            }
            Type::Vector { scalar, len, .. } => self.swizzle(object, &name, scalar, len, span),
            Type::Object(_) => match library::field(self, &object, &name, span) {
                Some(result) => result,
                None => self.err(
                    "E0472",
                    format!("'{}' has no member '{name}'", self.type_name(object.ty())),
                    member.span,
                ),
            },
            ty => self.err(
                "E0472",
                format!("'{}' has no members", self.type_name(&ty)),
                member.span,
            ),
        }
    }

    pub(super) fn swizzle(&mut self, object: Operand, name: &str, scalar: Scalar, len: u8, span: Span) -> Res<Operand> {
        let Some(lanes) = swizzle_lanes(name, len) else {
            return self.err(
                "E0513",
                format!("'{}' has no component '{name}'", self.type_name(object.ty())),
                span,
            );
        };
        self.lanes(object, lanes, scalar)
    }

    /// Components of a vector.
    pub fn lanes(&mut self, object: Operand, lanes: Vec<u8>, scalar: Scalar) -> Res<Operand> {
        let ty = Type::vector(scalar, lanes.len() as u8);
        match object {
            Operand::Value(value) => {
                let leaves = lanes.iter().map(|&l| value.leaves[l as usize].clone()).collect();
                Ok(Value { ty, leaves }.into())
            }
            Operand::Place(base) => {
                let mut repeated = lanes.clone();
                repeated.sort_unstable();
                repeated.dedup();
                let is_const = base.is_const || repeated.len() != lanes.len();
                let is_volatile = base.is_volatile;
                let place = match (&base.place, lanes.as_slice()) {
                    (
                        Place::Memory {
                            pointer,
                            offset,
                            space,
                            align,
                        },
                        [lane],
                    ) => {
                        let bytes = u64::from(*lane) * u64::from(scalar.size());
                        Place::Memory {
                            pointer: *pointer,
                            offset: offset + bytes as i64,
                            space: *space,
                            align: super::emit::aligned(*align, bytes),
                        }
                    }
                    (Place::Slots(slots), [lane]) => Place::Slots(vec![slots[*lane as usize].clone()]),
                    (
                        Place::Swizzle {
                            base: inner,
                            lanes: outer,
                        },
                        _,
                    ) => Place::Swizzle {
                        base: inner.clone(),
                        lanes: lanes.iter().map(|&l| outer[l as usize]).collect(),
                    },
                    _ => Place::Swizzle {
                        base: Box::new(base),
                        lanes,
                    },
                };
                Ok(LValue {
                    ty,
                    is_const,
                    is_volatile,
                    place,
                }
                .into())
            }
        }
    }

    /// `base[i, …]`
    pub fn index(&mut self, base: Operand, mut indices: Vec<Operand>, span: Span) -> Res<Operand> {
        match base.ty().clone() {
            Type::Object(_) => {
                let mut operands = vec![base];
                operands.append(&mut indices);
                return match library::operator(self, "[]", &operands, span) {
                    Some(result) => result,
                    None => self.err(
                        "E0514",
                        format!("'{}' cannot be indexed", self.type_name(operands[0].ty())),
                        span,
                    ),
                };
            }
            Type::Record(_) => {
                let args = indices.into_iter().map(|o| Arg::Operand(o, span)).collect();
                return self.call_member(base, "operator[]", Vec::new(), args, span);
            }
            _ => {}
        }
        let (Some(index), true) = (indices.pop(), indices.is_empty()) else {
            return self.err(
                "E0515",
                format!("'{}' takes one index", self.type_name(base.ty())),
                span,
            );
        };
        let index = self.integer_index(index, span)?;
        match base.ty().clone() {
            Type::Array(element, n) => self.index_array(base, &element, n, &index, span),
            Type::Pointer(pointee) => {
                let value = self.rvalue(base)?;
                if let Some(Leaf::Place(_)) = value.leaf()
                    && self.int_of(&index) == Some(0)
                {
                    return Ok(self.pointee(&value, &pointee)?.into());
                }
                let moved = self.pointer_add(&value, &pointee, &index, false, span)?;
                Ok(self.pointee(&moved, &pointee)?.into())
            }
            Type::Vector { scalar, len, .. } => self.index_vector(base, scalar, len, &index, span),
            Type::Matrix { scalar, columns, rows } => self.index_matrix(base, scalar, columns, rows, &index, span),
            ty => self.err("E0514", format!("'{}' cannot be indexed", self.type_name(&ty)), span),
        }
    }

    pub(super) fn integer_index(&mut self, index: Operand, span: Span) -> Res<Leaf> {
        let index = match index.ty() {
            Type::Record(_) | Type::Enum(_) => self.arithmetic(index, span)?,
            _ => index,
        };
        let value = self.rvalue(index)?;
        match &value.ty {
            Type::Scalar(scalar) if !scalar.is_float() => Ok(value.leaves[0].clone()),
            ty => self.err(
                "E0516",
                format!("an index must be an integer, and this is '{}'", self.type_name(ty)),
                span,
            ),
        }
    }

    pub(super) fn index_array(
        &mut self,
        base: Operand,
        element: &QualType,
        n: u64,
        index: &Leaf,
        span: Span,
    ) -> Res<Operand> {
        let mut place = self.place_of(base)?;
        let known = self.int_of(index);
        if let Some(i) = known
            && n != u64::MAX
            && (i < 0 || i >= i128::from(n))
        {
            if self.const_eval > 0 {
                return self.err(
                    "E0517",
                    format!("index {i} is outside of an array of {n} elements"),
                    span,
                );
            }
            self.warn(
                "W0402",
                format!("index {i} is outside of an array of {n} elements"),
                span,
            );
        }
        if let (Place::Slots(_), Some(i)) = (&place.place, known)
            && i >= 0
            && i < i128::from(n)
        {
            let count = if element.is_reference() {
                1
            } else {
                self.leaf_kinds(&element.ty)?.len()
            };
            return Ok(self.part(&place, element, i as usize * count, 0)?.into());
        }
        if let Place::Slots(slots) = &place.place {
            if self.const_eval > 0 {
                return self.err(
                    "E0420",
                    "this is not a constant expression: its value is known at run time only",
                    span,
                );
            }
            if !place.is_const && slots.iter().any(|s| matches!(s, Slot::Local(_))) {
                return self.err(
                    "E0518",
                    "this array is held in registers and cannot be indexed at run time",
                    span,
                );
            }
            place = self.in_memory(place, span)?;
        }
        let (size, align) = self.size_align(&element.ty)?;
        let is_const = place.is_const || element.is_const;
        let Place::Memory {
            pointer,
            offset,
            space,
            align: known_align,
        } = place.place
        else {
            return self.err("E0514", "this array cannot be indexed", span);
        };
        let target = match known {
            Some(i) => Place::Memory {
                pointer,
                offset: offset + i as i64 * size as i64,
                space,
                align: super::emit::aligned(known_align, (i as u64).wrapping_mul(size)),
            },
            None => {
                let pointer = self.address(pointer, offset);
                let pointer = self.advance(pointer, index, size)?;
                Place::Memory {
                    pointer,
                    offset: 0,
                    space,
                    align: align.min(known_align).max(1),
                }
            }
        };
        Ok(LValue {
            ty: element.ty.clone(),
            is_const,
            is_volatile: place.is_volatile,
            place: target,
        }
        .into())
    }

    /// A pointer plus `index` elements of `size` bytes.
    pub fn advance(&mut self, pointer: anymetal_ir::ValueId, index: &Leaf, size: u64) -> Res<anymetal_ir::ValueId> {
        let index = self.convert_leaf(index, Scalar::I64)?;
        let size = Self::int_leaf(Scalar::I64, size.into());
        let math = self.math;
        let bytes = self.binary_leaf(anymetal_ir::BinaryOp::Mul, &index, &size, math)?;
        let bytes = self.materialize(&bytes)?;
        Ok(self.builder.offset(pointer, bytes))
    }

    pub(super) fn index_vector(
        &mut self,
        base: Operand,
        scalar: Scalar,
        len: u8,
        index: &Leaf,
        span: Span,
    ) -> Res<Operand> {
        if let Some(i) = self.int_of(index) {
            if i < 0 || i >= i128::from(len) {
                return self.err("E0517", format!("component {i} of a vector of {len}"), span);
            }
            return self.lanes(base, vec![i as u8], scalar);
        }
        self.runtime_only()?;
        let place = self.place_of(base)?;
        let ty = Type::Scalar(scalar);
        let is_const = place.is_const;
        let is_volatile = place.is_volatile;
        let target = match &place.place {
            Place::Memory {
                pointer, offset, space, ..
            } => {
                let pointer = self.address(*pointer, *offset);
                let pointer = self.advance(pointer, index, scalar.size().into())?;
                Place::Memory {
                    pointer,
                    offset: 0,
                    space: *space,
                    align: scalar.size(),
                }
            }
            _ => {
                let index = self.convert_leaf(index, Scalar::I32)?;
                let index = self.materialize(&index)?;
                Place::VectorElement {
                    base: Box::new(place),
                    index,
                }
            }
        };
        Ok(LValue {
            ty,
            is_const,
            is_volatile,
            place: target,
        }
        .into())
    }

    pub(super) fn index_matrix(
        &mut self,
        base: Operand,
        scalar: Scalar,
        columns: u8,
        rows: u8,
        index: &Leaf,
        span: Span,
    ) -> Res<Operand> {
        let column: QualType = Type::vector(scalar, rows).into();
        let (size, _) = self.size_align(&column.ty)?;
        let place = self.place_of(base)?;
        if let Some(i) = self.int_of(index) {
            if i < 0 || i >= i128::from(columns) {
                return self.err("E0517", format!("column {i} of {columns}"), span);
            }
            let leaf = i as usize * rows as usize;
            return Ok(self.part(&place, &column, leaf, i as u64 * size)?.into());
        }
        let place = match &place.place {
            Place::Slots(slots) if slots.iter().any(|s| matches!(s, Slot::Local(_))) && !place.is_const => {
                // Reading is all that a register matrix allows here.
                let value = self.load(&place)?;
                let fixed = self.place_of(value.into())?;
                self.in_memory(fixed, span)?
            }
            _ => self.in_memory(place, span)?,
        };
        let array = array_like(&column, columns);
        let as_array = LValue {
            ty: array.clone(),
            ..place
        };
        self.index_array(as_array.into(), &column, columns.into(), index, span)
    }
}

pub(super) fn array_like(column: &QualType, columns: u8) -> Type {
    Type::Array(Rc::new(column.clone()), columns.into())
}

/// The components that a swizzle names, or `None`.
pub fn swizzle_lanes(name: &str, len: u8) -> Option<Vec<u8>> {
    let all: Vec<u8> = match name {
        "lo" => (0..len.div_ceil(2)).collect(),
        "hi" if len == 3 => return None,
        "hi" => (len / 2..len).collect(),
        "even" => (0..len).step_by(2).collect(),
        "odd" => (1..len).step_by(2).collect(),
        _ if (name.starts_with('s') || name.starts_with('S')) && name.len() > 1 => name[1..]
            .chars()
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect::<Option<_>>()?,
        _ => {
            let table = if name.chars().all(|c| "xyzw".contains(c)) {
                "xyzw"
            } else if name.chars().all(|c| "rgba".contains(c)) {
                "rgba"
            } else {
                return None;
            };
            name.chars()
                .map(|c| table.find(c).map(|i| i as u8))
                .collect::<Option<_>>()?
        }
    };
    let fits = matches!(all.len(), 1 | 2 | 3 | 4 | 8 | 16) && all.iter().all(|&l| l < len);
    fits.then_some(all)
}
