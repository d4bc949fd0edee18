//! Types of the language as checking sees them: monomorphic, cheap to clone, compared structurally.
//!
//! A [`Type`] has no qualifiers; a [`QualType`] adds constness, an address space and a reference. Records, enums and
//! closures are named by an id into the tables of [`super::context::Sema`]. Types that Metal's headers declare and that the compiler knows
//! (tensors, cooperative tensors, extents, atomics, …) are [`Object`]s.

use std::rc::Rc;

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, Const, ConvolutionDescriptor, CoopRole, LayoutKind, MatmulDescriptor, Scalar};

use super::value::FunctionRef;

/// An address space (the IR's enum).
pub type Space = AddressSpace;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The position in its table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

ids! {
    /// An instantiated struct, class or union.
    RecordId;
    /// An enum.
    EnumId;
    /// One evaluation of a lambda expression; its captures are in the table.
    ClosureId;
    /// A compile-time variable.
    CellId;
    /// A namespace.
    NamespaceId;
    /// A class template, alias template, or a template template argument.
    TemplateId;
}

/// A type without qualifiers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `void`
    Void,
    /// A number or `bool`. `int` and `int32_t` are one type.
    Scalar(Scalar),
    /// An element format (`metal_fp8_e4m3_format`). A value is its code.
    Format(ElementFormat),
    /// `float4`, `vec<T, N>`, `packed_float3`.
    Vector {
        /// Component.
        scalar: Scalar,
        /// 2, 3, 4, 8 or 16.
        len: u8,
        /// A `packed_` vector: alignment of the component, size without padding.
        packed: bool,
    },
    /// `float4x4` (columns × rows); `columns` column vectors.
    Matrix {
        /// Component.
        scalar: Scalar,
        /// Columns.
        columns: u8,
        /// Rows.
        rows: u8,
    },
    /// A pointer; the pointee carries the address space.
    Pointer(Rc<QualType>),
    /// `T[n]`
    Array(Rc<QualType>, u64),
    /// A struct, class or union.
    Record(RecordId),
    /// An enum.
    Enum(EnumId),
    /// A pointer to function, or a function.
    Function(Rc<FunctionType>),
    /// The type of a lambda expression.
    Closure(ClosureId),
    /// The type of `nullptr`.
    Nullptr,
    /// A set of functions named by an expression, not yet resolved.
    Overloads(Rc<Vec<FunctionRef>>),
    /// A type that the library defines.
    Object(Rc<Object>),
}

/// A function's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionType {
    /// The returned type.
    pub result: QualType,
    /// The parameters.
    pub params: Vec<QualType>,
}

/// Whether a type is a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Reference {
    /// No.
    #[default]
    None,
    /// `T &`
    Lvalue,
    /// `T &&`
    Rvalue,
}

/// A type with its qualifiers. For a reference the qualifiers are those of the referred type.
#[derive(Clone, Debug)]
pub struct QualType {
    /// The type.
    pub ty: Type,
    /// `const`
    pub is_const: bool,
    /// `volatile`
    pub is_volatile: bool,
    /// The address space, where one was written or deduced.
    pub space: Option<Space>,
    /// `&` or `&&`
    pub reference: Reference,
    /// The element type of a `metal::array`, which is copied where an array of C becomes a pointer. No part of the identity.
    pub of_class: bool,
}

impl QualType {
    fn identity(&self) -> (&Type, bool, bool, Option<Space>, Reference) {
        (&self.ty, self.is_const, self.is_volatile, self.space, self.reference)
    }
}

impl PartialEq for QualType {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for QualType {}

impl std::hash::Hash for QualType {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl From<Type> for QualType {
    fn from(ty: Type) -> Self {
        QualType {
            ty,
            is_const: false,
            is_volatile: false,
            space: None,
            reference: Reference::None,
            of_class: false,
        }
    }
}

impl From<Scalar> for QualType {
    fn from(scalar: Scalar) -> Self {
        Type::Scalar(scalar).into()
    }
}

impl From<Scalar> for Type {
    fn from(scalar: Scalar) -> Self {
        Type::Scalar(scalar)
    }
}

impl QualType {
    /// The same with `const`.
    pub fn with_const(mut self) -> Self {
        self.is_const = true;
        self
    }

    /// The same in an address space.
    pub fn in_space(mut self, space: Space) -> Self {
        self.space = Some(space);
        self
    }

    /// The same as an lvalue reference.
    pub fn lref(mut self) -> Self {
        self.reference = Reference::Lvalue;
        self
    }

    /// Is it a reference of either kind?
    pub fn is_reference(&self) -> bool {
        self.reference != Reference::None
    }

    /// The referred type with its qualifiers.
    pub fn without_reference(&self) -> QualType {
        QualType {
            reference: Reference::None,
            ..self.clone()
        }
    }

    /// The address space, `thread` where none is given.
    pub fn space_or_thread(&self) -> Space {
        self.space.unwrap_or(Space::Thread)
    }
}

impl Type {
    /// `bool`
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);
    /// `int`
    pub const INT: Type = Type::Scalar(Scalar::I32);
    /// `uint`
    pub const UINT: Type = Type::Scalar(Scalar::U32);
    /// `size_t`
    pub const SIZE: Type = Type::Scalar(Scalar::U64);
    /// `float`
    pub const FLOAT: Type = Type::Scalar(Scalar::F32);

    /// A vector, or the scalar itself for length 1.
    pub fn vector(scalar: Scalar, len: u8) -> Type {
        if len == 1 {
            Type::Scalar(scalar)
        } else {
            Type::Vector {
                scalar,
                len,
                packed: false,
            }
        }
    }

    /// A pointer to a type in a space.
    pub fn pointer(ty: impl Into<QualType>, space: Space) -> Type {
        Type::Pointer(Rc::new(ty.into().in_space(space)))
    }

    /// A library type.
    pub fn object(object: Object) -> Type {
        Type::Object(Rc::new(object))
    }

    /// The scalar of a scalar or vector.
    pub fn component(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(scalar) | Type::Vector { scalar, .. } => Some(*scalar),
            _ => None,
        }
    }

    /// 1 for a scalar, the length of a vector, `None` for the rest.
    pub fn lanes(&self) -> Option<u8> {
        match self {
            Type::Scalar(_) => Some(1),
            Type::Vector { len, .. } => Some(*len),
            _ => None,
        }
    }

    /// The same shape with another component; `None` unless scalar or vector.
    pub fn with_component(&self, scalar: Scalar) -> Option<Type> {
        self.lanes().map(|n| Type::vector(scalar, n))
    }

    /// The library object behind it.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Type::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The scalar, if it is one.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match self {
            Type::Scalar(scalar) => Some(*scalar),
            _ => None,
        }
    }
}

/// A type that Metal's headers declare as a template over compiler builtins. Owned by [`super::library`]: add variants there as needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// `extents<I, E…>`. Leaves: one `index` value for each dynamic extent.
    Extents(ExtentsType),
    /// `tensor<T, E, D, Tags…>`.
    Tensor(TensorType),
    /// `cooperative_tensor<…>`. One [`super::value::Leaf::Coop`] leaf.
    Coop(CoopType),
    /// An iterator of a cooperative tensor. Leaves: the tensor, an `i32` slot.
    CoopIterator(CoopType),
    /// `execution_simdgroups<N>`; 0 is `execution_thread`. No leaves.
    ExecutionScope(u32),
    /// `matmul2d<D, Scope>`. No leaves.
    Matmul {
        /// The descriptor.
        descriptor: MatmulDescriptor,
        /// SIMD-groups of the scope; 0 is one thread.
        simdgroups: u32,
        /// The template argument: the value of `matmul2d<…>::descriptor`.
        constant: Rc<Constant>,
    },
    /// `convolution2d<D, Scope>`. Leaves: the offsets, two `i32` values.
    Convolution {
        /// The descriptor.
        descriptor: ConvolutionDescriptor,
        /// SIMD-groups of the scope.
        simdgroups: u32,
        /// The template argument: the value of `convolution2d<…>::descriptor`.
        constant: Rc<Constant>,
    },
    /// The scale plane object of an inline tensor. Leaves: the pointer.
    ScalePlane(PlaneType),
    /// `atomic<T>`. One leaf in memory.
    Atomic(Scalar),
    /// `simdgroup_matrix<T, C, R>`. Leaves: the two elements of the lane.
    SimdgroupMatrix(Scalar, u8, u8),
    /// `packed_numeric_type<Format, N>`. Leaves: the bytes of its storage.
    Packed(ElementFormat, u8),
    /// `numeric_limits<T>`. No leaves.
    Limits(Scalar),
    /// An instance of a predicate such as `is_same<A, B>`. No leaves.
    Truth(bool),
    /// A tag type without leaves: `tensor_handle`, `tensor_inline`, `tensor_offset`, `tensor_plane_scales`, …
    Tag(&'static str),
}

/// `extents<I, E…>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExtentsType {
    /// Index type.
    pub index: Scalar,
    /// Static extents; `None` for a dynamic one.
    pub extents: Vec<Option<u64>>,
}

/// How a tensor type holds its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorStorage {
    /// `tensor_handle`. Leaves: the `u64` handle; 8 bytes in memory.
    Handle,
    /// `tensor_handle` with `tensor_offset`. Leaves: handle, origin (rank × i64), dynamic extents of the view (i64 each).
    Offset,
    /// `tensor_inline`. Leaves: as the library lays them out.
    Inline,
}

/// `tensor<T, E, D, Tags…>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Element format.
    pub format: ElementFormat,
    /// Address space of the elements.
    pub space: Space,
    /// The element type is `const`.
    pub is_const: bool,
    /// The element type is `volatile` or `coherent`.
    pub is_volatile: bool,
    /// The extents.
    pub extents: ExtentsType,
    /// Where the data is.
    pub storage: TensorStorage,
    /// The scale plane tag.
    pub plane: Option<PlaneType>,
}

/// `tensor_blockwise<tensor_plane_scales, T, B…>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaneType {
    /// Element format of the scales.
    pub format: ElementFormat,
    /// Address space of the scales.
    pub space: Space,
    /// Block factors.
    pub block: Vec<u32>,
}

/// What identifies the type of a cooperative tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CoopType {
    /// Role in its operation.
    pub role: CoopRole,
    /// Element type as written.
    pub element: ElementFormat,
    /// Element formats of the left and right operands that it was obtained for.
    pub operands: (ElementFormat, ElementFormat),
    /// `CoordType`
    pub index: Scalar,
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// SIMD-groups of the scope.
    pub simdgroups: u32,
    /// Lane layout.
    pub layout: LayoutKind,
    /// The operation's descriptor.
    pub descriptor: MatmulDescriptor,
    /// Of the destination of a convolution: its descriptor. The rank is 4 then, rows are places, columns output channels.
    pub convolution: Option<ConvolutionDescriptor>,
}

/// A template argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TemplateArg {
    /// A type.
    Type(QualType),
    /// A constant, compared by its canonical value.
    Value(Constant),
    /// A template.
    Template(TemplateId),
    /// A parameter pack.
    Pack(Vec<TemplateArg>),
}

/// A compile-time constant with its type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Constant {
    /// Its type.
    pub ty: Type,
    /// Its leaves in order.
    pub leaves: Vec<ConstLeaf>,
}

/// A leaf of a constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ConstLeaf {
    /// A number.
    Number(Const),
    /// A function.
    Function(FunctionRef),
}

impl Constant {
    /// A scalar constant of a type.
    pub fn scalar(ty: Type, value: Const) -> Self {
        Constant {
            ty,
            leaves: vec![ConstLeaf::Number(value)],
        }
    }

    /// An integer of a scalar type.
    pub fn int(scalar: Scalar, value: i64) -> Self {
        let mask = if scalar.bits() >= 64 {
            u64::MAX
        } else {
            (1 << scalar.bits()) - 1
        };
        Constant::scalar(
            scalar.into(),
            Const {
                ty: scalar,
                bits: value as u64 & mask,
            },
        )
    }

    /// `true` or `false`.
    pub fn bool(value: bool) -> Self {
        Constant::int(Scalar::Bool, i64::from(value))
    }

    /// The single number, if it is one.
    pub fn number(&self) -> Option<Const> {
        match self.leaves.as_slice() {
            [ConstLeaf::Number(value)] => Some(*value),
            _ => None,
        }
    }

    /// The single integer (or `bool`), if it is one.
    pub fn as_int(&self) -> Option<i128> {
        self.number()
            .filter(|value| !value.ty.is_float())
            .map(anymetal_ir::builder::fold::to_int)
    }
}
