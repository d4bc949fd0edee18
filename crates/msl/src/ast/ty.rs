//! Types as written, with their qualifiers.

use std::sync::Arc;

use super::{EnumDecl, Expr, Param, Path, RecordDecl};
use crate::source::Span;

/// Metal's address spaces (MSL specification, chapter 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressSpace {
    /// `device`
    Device,
    /// `constant`
    Constant,
    /// `threadgroup`
    Threadgroup,
    /// `thread`
    Thread,
}

impl AddressSpace {
    /// The keyword.
    pub fn keyword(self) -> &'static str {
        match self {
            AddressSpace::Device => "device",
            AddressSpace::Constant => "constant",
            AddressSpace::Threadgroup => "threadgroup",
            AddressSpace::Thread => "thread",
        }
    }
}

/// Qualifiers of one level of a type, or of a member function's `this`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quals {
    /// `const`
    pub is_const: bool,
    /// `volatile`
    pub is_volatile: bool,
    /// `coherent` or `coherent(device)`
    pub is_coherent: bool,
    /// The address space and where it was written.
    pub space: Option<(AddressSpace, Span)>,
}

/// The types that are keywords in C++. `half`, `uint`, `float4`, `size_t` and the like are paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinTy {
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `char` (signed in Metal), `signed char`
    Char,
    /// `unsigned char`
    UChar,
    /// `short`
    Short,
    /// `unsigned short`
    UShort,
    /// `int`
    Int,
    /// `unsigned int`
    UInt,
    /// `long`, 64 bits
    Long,
    /// `unsigned long`, 64 bits
    ULong,
    /// `float`
    Float,
    /// `double`, which Metal does not have: kept for the error
    Double,
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Ty {
    /// What it is.
    pub kind: TyKind,
    /// The qualifiers of this level: for `device float *const p` the outer pointer is const, the inner `float` is `device`.
    pub quals: Quals,
    /// Where it stands.
    pub span: Span,
}

/// The forms of a type.
#[derive(Clone, Debug, PartialEq)]
pub enum TyKind {
    /// A keyword type.
    Builtin(BuiltinTy),
    /// A named type, with or without `typename`.
    Path(Path),
    /// `auto`
    Auto,
    /// `decltype(auto)`
    DecltypeAuto,
    /// `decltype(e)`
    Decltype(Box<Expr>),
    /// `T *`
    Pointer(Box<Ty>),
    /// `T &`
    LRef(Box<Ty>),
    /// `T &&`
    RRef(Box<Ty>),
    /// `T [n]`; `None` for `T []`.
    Array(Box<Ty>, Option<Box<Expr>>),
    /// A function type, as in `void (*f)(int)`.
    Function(Box<FunctionTy>),
    /// `T C::*`, kept for the error.
    MemberPointer(Box<Ty>, Path),
    /// A struct, class or union defined where its type is used.
    Record(Arc<RecordDecl>),
    /// An enum defined where its type is used.
    Enum(Arc<EnumDecl>),
}

/// A function type.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionTy {
    /// The returned type.
    pub ret: Ty,
    /// The parameters.
    pub params: Vec<Param>,
}
