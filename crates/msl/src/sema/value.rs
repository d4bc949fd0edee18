//! Values, places and what else an expression can denote.
//!
//! An rvalue is flat: a [`Value`] has the scalar *leaves* of its type in order (the components of a vector, the fields of a struct,
//! the parts of a tensor view). A leaf that is known at compile time is [`Leaf::Const`]; constant folding and constant evaluation are nothing but
//! operations on such leaves. An lvalue names a [`Place`]; references bind to places, so nothing needs an address to be passed by
//! reference.

use std::rc::Rc;
use std::sync::Arc;

use anymetal_ir::{Bounds, Const, CoopId, LocalId, TensorRef, Type as IrType, ValueId};

use super::context::Env;
use super::types::{CellId, QualType, RecordId, Space, TemplateArg, Type};
use crate::ast;
use crate::source::Span;

/// One leaf of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Leaf {
    /// A number known at compile time.
    Const(Const),
    /// A scalar or pointer of the kernel.
    Value(ValueId),
    /// A cooperative tensor.
    Coop(CoopId),
    /// What a reference (a member of reference type, a capture) is bound to.
    Place(Rc<LValue>),
    /// A function.
    Function(FunctionRef),
    /// A scalar or pointer that was never set: reads as zero.
    Undef(IrType),
}

/// What a leaf of a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKind {
    /// A scalar or pointer.
    Value(IrType),
    /// A cooperative tensor.
    Coop,
    /// A reference.
    Place,
    /// A function.
    Function,
}

/// An rvalue.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its type; never a reference.
    pub ty: Type,
    /// Its leaves, as [`super::context::Sema::leaf_kinds`] lists them.
    pub leaves: Vec<Leaf>,
}

impl Value {
    /// A value of a type with one leaf.
    pub fn one(ty: impl Into<Type>, leaf: Leaf) -> Self {
        Value {
            ty: ty.into(),
            leaves: vec![leaf],
        }
    }

    /// A value of a type without leaves.
    pub fn empty(ty: Type) -> Self {
        Value { ty, leaves: Vec::new() }
    }

    /// `void`
    pub fn void() -> Self {
        Value::empty(Type::Void)
    }

    /// The only leaf; `None` if there is another number of leaves.
    pub fn leaf(&self) -> Option<&Leaf> {
        match self.leaves.as_slice() {
            [leaf] => Some(leaf),
            _ => None,
        }
    }

    /// The only leaf as a constant.
    pub fn as_const(&self) -> Option<Const> {
        match self.leaf() {
            Some(Leaf::Const(value)) => Some(*value),
            _ => None,
        }
    }
}

/// Where an lvalue lives.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A variable without an address, one slot for each leaf.
    Slots(Vec<Slot>),
    /// Memory.
    Memory {
        /// The address.
        pointer: ValueId,
        /// Bytes added to it.
        offset: i64,
        /// The space it points into.
        space: Space,
        /// Alignment in bytes that is known of the address (offset included).
        align: u32,
    },
    /// Components of a vector.
    Swizzle {
        /// The vector.
        base: Box<LValue>,
        /// Which, in order.
        lanes: Vec<u8>,
    },
    /// A component of a vector in slots, chosen at run time.
    VectorElement {
        /// The vector.
        base: Box<LValue>,
        /// An `i32` value.
        index: ValueId,
    },
    /// An element of a cooperative tensor.
    CoopElement {
        /// The tensor.
        coop: CoopId,
        /// An `i32` leaf.
        slot: Box<Leaf>,
    },
    /// `T[x, y]`
    TensorElement {
        /// The view.
        tensor: Rc<TensorRef>,
        /// One `i64` for each dimension.
        indices: Vec<ValueId>,
        /// What happens outside.
        bounds: Bounds,
    },
}

/// Where one leaf of a variable is.
#[derive(Clone, Debug, PartialEq)]
pub enum Slot {
    /// A local of the kernel.
    Local(LocalId),
    /// A compile-time variable of the constant evaluator.
    Cell(CellId),
    /// A leaf that never changes.
    Fixed(Leaf),
}

/// An lvalue.
#[derive(Clone, Debug, PartialEq)]
pub struct LValue {
    /// Its type; never a reference.
    pub ty: Type,
    /// It may not be written.
    pub is_const: bool,
    /// Every access happens.
    pub is_volatile: bool,
    /// Where it is.
    pub place: Place,
}

impl LValue {
    /// The type as `decltype((x))` would qualify it, without the reference.
    pub fn qual_type(&self) -> QualType {
        QualType {
            ty: self.ty.clone(),
            is_const: self.is_const,
            is_volatile: self.is_volatile,
            space: Some(self.space()),
            reference: super::types::Reference::None,
            of_class: false,
        }
    }

    /// A constant object whose contents are known: it can be a table in `constant` memory.
    pub fn is_known(&self) -> bool {
        self.is_const
            && matches!(&self.place, Place::Slots(slots) if slots
                .iter()
                .all(|slot| matches!(slot, Slot::Fixed(Leaf::Const(_)))))
    }

    /// The address space.
    pub fn space(&self) -> Space {
        match &self.place {
            Place::Memory { space, .. } => *space,
            Place::Swizzle { base, .. } | Place::VectorElement { base, .. } => base.space(),
            Place::TensorElement { tensor, .. } => tensor.space,
            Place::Slots(_) if matches!(self.ty, Type::Array(..)) && self.is_known() => Space::Constant,
            Place::Slots(_) | Place::CoopElement { .. } => Space::Thread,
        }
    }
}

/// The result of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// An rvalue.
    Value(Value),
    /// An lvalue.
    Place(LValue),
}

impl Operand {
    /// Its type.
    pub fn ty(&self) -> &Type {
        match self {
            Operand::Value(value) => &value.ty,
            Operand::Place(place) => &place.ty,
        }
    }

    /// `void`
    pub fn void() -> Self {
        Operand::Value(Value::void())
    }
}

impl From<Value> for Operand {
    fn from(value: Value) -> Self {
        Operand::Value(value)
    }
}

impl From<LValue> for Operand {
    fn from(place: LValue) -> Self {
        Operand::Place(place)
    }
}

/// An argument of a call or an item of a braced list, evaluated.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An expression.
    Operand(Operand, Span),
    /// `{…}`, whose type depends on what it initialises. Each item with its designator.
    List(Vec<(Option<Designator>, Arg)>, Span),
}

/// Which part of an aggregate an item of a braced list initialises.
#[derive(Clone, Debug, PartialEq)]
pub enum Designator {
    /// `.name =`
    Field(ast::Name),
    /// `[first ... last] =`, both included; `[i] =` has two equal numbers.
    Elements(u64, u64),
}

impl Arg {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Arg::Operand(_, span) | Arg::List(_, span) => *span,
        }
    }

    /// The operand, unless it is a braced list.
    pub fn operand(&self) -> Option<&Operand> {
        match self {
            Arg::Operand(operand, _) => Some(operand),
            Arg::List(..) => None,
        }
    }
}

/// A function (or function template) in the place it was declared.
#[derive(Clone)]
pub struct FunctionRef {
    /// The declaration.
    pub decl: Arc<ast::FunctionDecl>,
    /// The scopes around the declaration.
    pub env: Rc<Env>,
    /// The class instance it is a member of.
    pub record: Option<RecordId>,
    /// Template arguments that are already chosen (`f<float>` named without a call).
    pub args: Vec<TemplateArg>,
}

impl PartialEq for FunctionRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.decl, &other.decl) && self.record == other.record && self.args == other.args
    }
}

impl Eq for FunctionRef {}

impl std::hash::Hash for FunctionRef {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.decl).hash(state);
        self.record.hash(state);
    }
}

impl std::fmt::Debug for FunctionRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.decl.name.name)
    }
}
