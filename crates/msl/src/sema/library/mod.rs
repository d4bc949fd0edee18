//! What Metal's and MPP's headers declare: the hooks through which checking asks for it.
//!
//! The library answers by name and by object type. Two ways to define something:
//! - in Rust, behind the functions of this module, where operations of the IR are emitted through [`Sema`]'s helpers;
//! - in Metal source in [`PRELUDE`], which is parsed before the user's source (traits, small structs, enums, templates over builtins).

mod math;

use super::context::{Res, Sema};
use super::types::*;
use super::value::*;
use crate::source::Span;

/// Declarations in Metal source that come before every user's source.
pub const PRELUDE: &str = include_str!("prelude.metal");

/// What the library remembers during one lowering.
#[derive(Debug, Default)]
pub struct LibraryState {}

/// A call of a library function.
#[derive(Debug)]
pub struct Call<'c> {
    /// The name it was called by.
    pub name: &'c str,
    /// `metal`, `metal::fast`, `metal::precise`, `mpp::tensor_ops`, …
    pub namespace: &'c str,
    /// The whole call.
    pub span: Span,
    /// Explicit template arguments.
    pub template_args: &'c [TemplateArg],
    /// The arguments.
    pub args: &'c [Arg],
}

/// Implements a library function: checks the call, emits, returns the result.
pub type LibFunction = fn(&mut Sema<'_>, &Call<'_>) -> Res<Operand>;

/// Makes a type from template arguments.
pub type LibInstantiate = fn(&mut Sema<'_>, &[TemplateArg], Span) -> Res<QualType>;

/// Deduces class template arguments from constructor arguments.
pub type LibDeduce = fn(&mut Sema<'_>, &[Arg], Span) -> Res<Type>;

/// What a name of the library means.
#[derive(Clone, Debug)]
pub enum LibEntity {
    /// A function, and its qualified namespace.
    Function(LibFunction, &'static str),
    /// A type.
    Type(QualType),
    /// A class or alias template.
    Template {
        /// Its name.
        name: &'static str,
        /// From arguments.
        instantiate: LibInstantiate,
        /// From constructor arguments.
        deduce: Option<LibDeduce>,
    },
    /// A constant.
    Value(Value),
}

/// Looks a name up in a namespace of the library (`metal`, `metal::fast`, `mpp::tensor_ops`, …; empty for the global one).
/// Scalar and vector type names are known to the caller.
pub fn lookup(_sema: &mut Sema<'_>, namespace: &str, name: &str) -> Option<LibEntity> {
    math::lookup(namespace, name)
}

/// The leaves of an object type.
pub fn object_leaves(_sema: &Sema<'_>, _object: &Object) -> Vec<LeafKind> {
    Vec::new()
}

/// Size and alignment of an object type in memory; `None` if it cannot be in memory.
pub fn object_layout(_sema: &Sema<'_>, _object: &Object) -> Option<(u64, u32)> {
    None
}

/// The name of an object type as a user would write it.
pub fn object_name(_sema: &Sema<'_>, _object: &Object) -> String {
    "object".to_string()
}

/// The template name and arguments of an object type, so that `tensor<T, E, D>` can be deduced from it.
pub fn template_of(_sema: &Sema<'_>, _ty: &Type) -> Option<(&'static str, Vec<TemplateArg>)> {
    None
}

/// A call of a member function of an object (or vector, scalar, …). `None` if there is no such member.
pub fn call_method(
    _sema: &mut Sema<'_>,
    _object: &Operand,
    _call: &Call<'_>,
) -> Option<Res<Operand>> {
    None
}

/// A data member of an object. `None` if there is no such member.
pub fn field(
    _sema: &mut Sema<'_>,
    _object: &Operand,
    _name: &str,
    _span: Span,
) -> Option<Res<Operand>> {
    None
}

/// A static member or member type of an object type: `T::element_type`, `matmul2d<…>::descriptor`.
pub fn static_member(
    _sema: &mut Sema<'_>,
    _ty: &Type,
    _name: &str,
    _span: Span,
) -> Option<Res<LibEntity>> {
    None
}

/// An operator with at least one object operand: `[]` (object, indices…), `()`, `*`, `->`, `++`, `--`, `p++`, `p--`, `+`, `==`, `=`, `+=`, …
/// `None` if the operator is not defined for these.
pub fn operator(
    _sema: &mut Sema<'_>,
    _operator: &str,
    _args: &[Operand],
    _span: Span,
) -> Option<Res<Operand>> {
    None
}

/// Constructs an object type from arguments (`T(…)`, `T{…}`, `T x(…)`, also default construction with none). `None` if
/// the arguments do not fit.
pub fn construct(
    _sema: &mut Sema<'_>,
    _ty: &Type,
    _args: &[Arg],
    _braces: bool,
    _span: Span,
) -> Option<Res<Operand>> {
    None
}

/// Converts a value implicitly to or from an object type (tensor handle → offset, static → dynamic extents, …).
/// `None` if there is no such conversion. Must not emit when `dry` is set; then only the answer matters.
pub fn convert(
    _sema: &mut Sema<'_>,
    _value: &Operand,
    _to: &Type,
    _dry: bool,
    _span: Span,
) -> Option<Res<Value>> {
    None
}

/// The value of a tensor argument of the kernel: leaves for a handle that `Op::ArgumentTensor` gives.
pub fn tensor_spec(_tensor: &TensorType) -> anymetal_ir::TensorSpec {
    let extents = _tensor.extents.extents.clone();
    anymetal_ir::TensorSpec {
        format: _tensor.format,
        space: _tensor.space,
        extents,
        index: _tensor.extents.index,
        scale_block: _tensor.plane.as_ref().map(|plane| plane.block.clone()),
    }
}
