//! From types as written to types.

use std::rc::Rc;

use anymetal_ir::Scalar;

use super::context::*;
use super::library::LibEntity;
use super::types::*;
use super::value::*;
use crate::ast::{self, BuiltinTy, TyKind};

/// The IR's address space for the tree's.
pub fn space_of(space: ast::AddressSpace) -> Space {
    match space {
        ast::AddressSpace::Device => Space::Device,
        ast::AddressSpace::Constant => Space::Constant,
        ast::AddressSpace::Threadgroup => Space::Threadgroup,
        ast::AddressSpace::Thread => Space::Thread,
    }
}

/// Adds the qualifiers of the tree to a type.
pub fn qualify(mut ty: QualType, quals: &ast::Quals) -> QualType {
    ty.is_const |= quals.is_const;
    ty.is_volatile |= quals.is_volatile || quals.is_coherent;
    if let Some((space, _)) = quals.space {
        ty.space = Some(space_of(space));
    }
    ty
}

/// A pointer type; the pointee gets an explicit space.
pub fn pointer_to(mut pointee: QualType) -> Type {
    pointee.space = Some(pointee.space_or_thread());
    if pointee.space == Some(Space::Constant) {
        // The space says it.
        pointee.is_const = false;
    }
    pointee.reference = Reference::None;
    Type::Pointer(Rc::new(pointee))
}

impl Sema<'_> {
    /// The type that is written.
    pub fn resolve_type(&mut self, ty: &ast::Ty) -> Res<QualType> {
        let base: QualType = match &ty.kind {
            TyKind::Builtin(b) => self.builtin_ty(*b, ty.span)?.into(),
            TyKind::Path(path) => match self.resolve_path(path)? {
                Entity::Type(t) => t,
                Entity::Library(LibEntity::Type(t)) => t,
                Entity::Template(id) => {
                    let name = self.templates[id.index()].name.clone();
                    return self.err("E0434", format!("'{name}' needs template arguments here"), path.span);
                }
                Entity::Library(LibEntity::Template { name, .. }) => {
                    // A group of templates that share a description is named as it is written.
                    let written = path.to_string();
                    let name = if name.contains(' ') { &*written } else { name };
                    return self.bare_template(name, path.span);
                }
                Entity::Pack(_) => {
                    return self.err(
                        "E0445",
                        format!("the parameter pack '{path}' is not expanded: write '{path}...'"),
                        path.span,
                    );
                }
                _ => {
                    return self.err("E0446", format!("'{path}' does not name a type"), path.span);
                }
            },
            TyKind::Auto | TyKind::DecltypeAuto => {
                return self.err(
                    "E0447",
                    "'auto' is not allowed here: there is nothing to deduce it from",
                    ty.span,
                );
            }
            TyKind::Decltype(e) => self.decltype(e)?,
            TyKind::Pointer(inner) => {
                let pointee = self.resolve_type(inner)?;
                if pointee.is_reference() {
                    return self.err("E0448", "a pointer to a reference is not possible", ty.span);
                }
                pointer_to(pointee).into()
            }
            TyKind::LRef(inner) => {
                let mut t = self.resolve_type(inner)?;
                t.reference = Reference::Lvalue;
                t
            }
            TyKind::RRef(inner) => {
                let mut t = self.resolve_type(inner)?;
                if t.reference == Reference::None {
                    t.reference = Reference::Rvalue;
                }
                t
            }
            TyKind::Array(inner, bound) => {
                let element = self.resolve_type(inner)?;
                if matches!(element.ty, Type::Array(_, u64::MAX)) && !element.is_reference() {
                    return self.err("E0458", "only the first bound of an array can be left out", ty.span);
                }
                let n = match bound {
                    Some(e) => self.array_bound(e)?,
                    None => u64::MAX,
                };
                array_of(
                    QualType {
                        of_class: false,
                        ..element
                    },
                    n,
                )
            }
            TyKind::Function(f) => {
                let result = self.resolve_type(&f.ret)?;
                let params = f
                    .params
                    .iter()
                    .map(|p| self.resolve_type(&p.ty))
                    .collect::<Res<Vec<_>>>()?;
                Type::Function(Rc::new(FunctionType { result, params })).into()
            }
            TyKind::MemberPointer(..) => {
                return self.err("E0449", "pointers to members are not supported", ty.span);
            }
            TyKind::Record(d) => {
                if d.name.is_some()
                    && d.members.is_none()
                    && let Some(name) = &d.name
                {
                    // `struct S` used as a type.
                    match self.lookup(&name.name, name.span)? {
                        Some(Entity::Type(t)) => t,
                        _ => {
                            return self.err("E0433", format!("unknown name '{}'", name.name), name.span);
                        }
                    }
                } else {
                    let env = self.env.clone();
                    let id = self.inline_record(d, &env);
                    Type::Record(id).into()
                }
            }
            TyKind::Enum(d) => {
                if d.enumerators.is_none()
                    && let Some(name) = &d.name
                {
                    match self.lookup(&name.name, name.span)? {
                        Some(Entity::Type(t)) => t,
                        _ => {
                            return self.err("E0433", format!("unknown name '{}'", name.name), name.span);
                        }
                    }
                } else {
                    let env = self.env.clone();
                    Type::Enum(self.enum_of(d, &env)?).into()
                }
            }
        };
        Ok(match &ty.kind {
            // Qualifiers at the level of a function's pointer type `void (*f)(int)` say nothing of the function.
            TyKind::Pointer(inner) if matches!(inner.kind, TyKind::Function(_)) => match &base.ty {
                Type::Pointer(p) => qualify(p.ty.clone().into(), &ty.quals),
                _ => base,
            },
            _ => qualify(base, &ty.quals),
        })
    }

    fn builtin_ty(&mut self, b: BuiltinTy, span: crate::source::Span) -> Res<Type> {
        Ok(match b {
            BuiltinTy::Void => Type::Void,
            BuiltinTy::Bool => Scalar::Bool.into(),
            BuiltinTy::Char => Scalar::I8.into(),
            BuiltinTy::UChar => Scalar::U8.into(),
            BuiltinTy::Short => Scalar::I16.into(),
            BuiltinTy::UShort => Scalar::U16.into(),
            BuiltinTy::Int => Scalar::I32.into(),
            BuiltinTy::UInt => Scalar::U32.into(),
            BuiltinTy::Long => Scalar::I64.into(),
            BuiltinTy::ULong => Scalar::U64.into(),
            BuiltinTy::Float => Scalar::F32.into(),
            BuiltinTy::Double => {
                return self.err_help("E0450", "'double' is not supported in Metal", span, "use 'float'");
            }
        })
    }

    /// An array bound.
    pub fn array_bound(&mut self, e: &ast::Expr) -> Res<u64> {
        let c = self.constant_expr(e)?;
        match c.as_int() {
            Some(n) if (0..=1 << 32).contains(&n) => Ok(n as u64),
            Some(n) => self.err("E0451", format!("an array cannot have {n} elements"), e.span),
            None => self.err("E0451", "an array bound must be an integer", e.span),
        }
    }

    /// The record of a declaration inside a type, one for each scope that is instantiated around it.
    pub fn inline_record(&mut self, d: &std::sync::Arc<ast::RecordDecl>, env: &Rc<Env>) -> RecordId {
        let key = (std::sync::Arc::as_ptr(d) as usize, Rc::as_ptr(env) as usize);
        if let Some(id) = self.record_ids.get(&key) {
            return *id;
        }
        let id = self.new_record(d.clone(), env, None, super::declare::record_name(d));
        self.record_ids.insert(key, id);
        id
    }

    /// `decltype(e)`
    pub fn decltype(&mut self, e: &ast::Expr) -> Res<QualType> {
        if let ast::ExprKind::Path(path) = &e.kind
            && let Entity::Variable(_, declared) = self.unevaluated(|s| s.resolve_path(path))?
        {
            return Ok(declared);
        }
        let member = matches!(e.kind, ast::ExprKind::Member { .. });
        let operand = self.unevaluated(|s| s.expr(e))?;
        Ok(match operand {
            Operand::Value(value) => value.ty.into(),
            Operand::Place(place) if member => {
                let mut t = place.qual_type();
                t.space = None;
                t
            }
            Operand::Place(place) => {
                let id = matches!(e.kind, ast::ExprKind::Path(_));
                let mut t = place.qual_type();
                if !id {
                    t.reference = Reference::Lvalue;
                } else if t.space == Some(Space::Thread) {
                    t.space = None;
                }
                t
            }
        })
    }

    /// A type with `auto` in it, deduced from an operand.
    pub fn deduce_auto(&mut self, ty: &ast::Ty, operand: &Operand) -> Res<QualType> {
        let mut t = match &ty.kind {
            TyKind::Auto | TyKind::DecltypeAuto => decayed(operand),
            TyKind::LRef(inner) | TyKind::RRef(inner) if has_auto(inner) => {
                let mut t = match operand {
                    Operand::Place(place) => {
                        let mut t = place.qual_type();
                        t.is_volatile = place.is_volatile;
                        t
                    }
                    Operand::Value(value) => QualType::from(value.ty.clone()),
                };
                if !matches!(inner.kind, TyKind::Auto)
                    && let Type::Pointer(_) = &t.ty
                {
                    t.ty = self.deduce_auto(inner, operand)?.ty;
                }
                t = qualify(t, &inner.quals);
                t.reference = match (&ty.kind, operand) {
                    (TyKind::RRef(_), Operand::Value(_)) => Reference::Rvalue,
                    _ => Reference::Lvalue,
                };
                t
            }
            TyKind::Pointer(inner) if has_auto(inner) => {
                let decayed = decayed(operand);
                let Type::Pointer(pointee) = &decayed.ty else {
                    return self.err(
                        "E0452",
                        format!(
                            "'auto *' needs a pointer, and this is '{}'",
                            self.type_name(operand.ty())
                        ),
                        ty.span,
                    );
                };
                pointer_to(qualify((**pointee).clone(), &inner.quals)).into()
            }
            _ => return self.resolve_type(ty),
        };
        if !matches!(ty.kind, TyKind::LRef(_) | TyKind::RRef(_)) {
            t = qualify(t, &ty.quals);
        }
        Ok(t)
    }
}

/// Does the type contain `auto`?
pub fn has_auto(ty: &ast::Ty) -> bool {
    match &ty.kind {
        TyKind::Auto | TyKind::DecltypeAuto => true,
        TyKind::Pointer(t) | TyKind::LRef(t) | TyKind::RRef(t) | TyKind::Array(t, _) => has_auto(t),
        _ => false,
    }
}

/// The type of an initialiser after array-to-pointer decay, without qualifiers.
pub fn decayed(operand: &Operand) -> QualType {
    match operand.ty() {
        Type::Array(element, _) if element.of_class => operand.ty().clone().into(),
        _ => to_first(operand),
    }
}

/// An array of either kind as a pointer to its first element.
pub fn to_first(operand: &Operand) -> QualType {
    match (operand.ty(), operand) {
        (Type::Array(element, _), Operand::Place(place)) => {
            let mut pointee = (**element).clone();
            pointee.of_class = false;
            pointee.is_const |= place.is_const && place.space() != Space::Constant;
            pointee.space = Some(place.space());
            pointer_to(pointee).into()
        }
        (ty, _) => ty.clone().into(),
    }
}

/// An array type: qualifiers of the element go to the array.
pub fn array_of(mut element: QualType, n: u64) -> QualType {
    let (is_const, is_volatile, space) = (element.is_const, element.is_volatile, element.space);
    element.is_const = false;
    element.is_volatile = false;
    element.space = None;
    QualType {
        ty: Type::Array(Rc::new(element), n),
        is_const,
        is_volatile,
        space,
        reference: Reference::None,
        of_class: false,
    }
}
