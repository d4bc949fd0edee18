//! What Metal's and MPP's headers declare: the hooks through which checking asks for it.
//!
//! The library answers by name and by object type. Two ways to define something:
//! - in Rust, behind the functions of this module, where operations of the IR are emitted through [`Sema`]'s helpers;
//! - in Metal source in [`PRELUDE`], which is parsed before the user's source (traits, small structs, enums, templates over builtins).

mod args;
mod atomic;
pub mod availability;
mod bits;
mod convolution;
mod coop;
pub mod coop_element;
mod extents;
mod group;
mod math;
mod matmul;
mod matrix;
pub(super) mod packed;
mod simdgroup_matrix;
mod tensor;
mod traits;
mod view;

pub use matmul::table::tables as tensorops_tables;

use super::context::{Res, Sema};
use super::types::*;
use super::value::*;
use crate::source::Span;

/// Declarations in Metal source that come before every user's source.
pub const PRELUDE: &str = include_str!("prelude.metal");

/// What the library remembers during one lowering.
#[derive(Debug, Default)]
pub struct LibraryState {
    /// The type whose static member was asked for last; read by the function that it named.
    subject: Option<Type>,
}

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
    match namespace {
        "mpp::tensor_ops" => matmul::lookup(name)
            .or_else(|| convolution::lookup(name))
            .or_else(|| coop::lookup(name)),
        "metal" => tensor::lookup(name)
            .or_else(|| matmul::lookup_scope(name))
            .or_else(|| math::lookup(namespace, name))
            .or_else(|| group::lookup(name))
            .or_else(|| simdgroup_matrix::lookup(name))
            .or_else(|| atomic::lookup(name))
            .or_else(|| traits::lookup(name))
            .or_else(|| bits::lookup(name))
            .or_else(|| packed::lookup(name))
            .or_else(|| matrix::lookup(name)),
        "metal::fast" | "metal::precise" => math::lookup(namespace, name),
        "" => bits::lookup(name),
        _ => None,
    }
}

/// Does the code say that the library does not have something (yet)? In a function that no kernel needs that is a warning.
pub fn is_unsupported(code: &str) -> bool {
    matches!(code, "E0810" | "E0910")
}

/// The leaves of an object type.
pub fn object_leaves(_sema: &Sema<'_>, object: &Object) -> Vec<LeafKind> {
    use anymetal_ir::{Scalar, Type as IrType};
    let value = |ty: IrType| LeafKind::Value(ty);
    match object {
        Object::Extents(ty) => {
            let dynamic = ty.extents.iter().filter(|extent| extent.is_none()).count();
            vec![value(ty.index.into()); dynamic]
        }
        Object::Tensor(ty) => view::leaves(ty),
        Object::Coop(_) => vec![LeafKind::Coop],
        Object::SimdgroupMatrix(scalar, ..) => vec![value((*scalar).into()); 2],
        Object::CoopIterator(_) => vec![LeafKind::Coop, value(Scalar::I32.into())],
        Object::ScalePlane(plane) => vec![value(IrType::Pointer(plane.space))],
        Object::Atomic(scalar) => vec![value((*scalar).into())],
        Object::Packed(format, count) => vec![value(Scalar::U8.into()); format.bytes_for((*count).into())],
        Object::Tag("simd_vote") => vec![value(Scalar::U64.into())],
        Object::Convolution { .. } => vec![value(Scalar::I32.into()); 2],
        Object::ExecutionScope(_) | Object::Matmul { .. } | Object::Limits(_) | Object::Truth(_) | Object::Tag(_) => {
            Vec::new()
        }
    }
}

/// Size and alignment of an object type in memory; `None` if it cannot be in memory.
pub fn object_layout(_sema: &Sema<'_>, object: &Object) -> Option<(u64, u32)> {
    match object {
        Object::Tensor(TensorType {
            storage: TensorStorage::Handle,
            ..
        }) => Some((8, 8)),
        Object::Atomic(scalar) => Some((scalar.size().into(), scalar.size())),
        Object::SimdgroupMatrix(scalar, ..) => Some(((2 * scalar.size()).into(), 2 * scalar.size())),
        // As its storage: a vector of three bytes takes four.
        Object::Packed(format, count) => {
            let bytes = format.bytes_for((*count).into()).next_power_of_two() as u32;
            Some((bytes.into(), bytes))
        }
        Object::Extents(ty) => {
            let dynamic = ty.extents.iter().filter(|extent| extent.is_none()).count() as u64;
            Some(((u64::from(ty.index.size()) * dynamic).max(1), ty.index.size()))
        }
        _ => None,
    }
}

/// The name of an object type as a user would write it.
pub fn object_name(object: &Object) -> String {
    let extents = |ty: &ExtentsType| {
        let index = super::layout::scalar_name(ty.index);
        if ty.extents.iter().all(Option::is_none) {
            return format!("dextents<{index}, {}>", ty.extents.len());
        }
        let list: Vec<String> = ty
            .extents
            .iter()
            .map(|e| e.map_or("dynamic_extent".to_string(), |e| e.to_string()))
            .collect();
        format!("extents<{index}, {}>", list.join(", "))
    };
    match object {
        Object::Extents(ty) => extents(ty),
        Object::Tensor(ty) => {
            let constness = if ty.is_const && ty.space != Space::Constant {
                "const "
            } else {
                ""
            };
            let storage = match ty.storage {
                TensorStorage::Handle => "tensor_handle",
                TensorStorage::Offset => "tensor_handle, tensor_offset",
                TensorStorage::Inline => "tensor_inline",
            };
            let plane = ty.plane.as_ref().map_or(String::new(), |plane| {
                format!(", {}", object_name(&Object::ScalePlane(plane.clone())))
            });
            format!(
                "tensor<{} {constness}{}, {}, {storage}{plane}>",
                ty.space,
                ty.format.msl_name(),
                extents(&ty.extents)
            )
        }
        Object::Coop(ty) | Object::CoopIterator(ty) => {
            let role = match ty.role {
                anymetal_ir::CoopRole::Left => "left input",
                anymetal_ir::CoopRole::Right => "right input",
                anymetal_ir::CoopRole::Destination => "destination",
                anymetal_ir::CoopRole::RowReduction => "row reduction",
                anymetal_ir::CoopRole::ColumnReduction => "column reduction",
            };
            let base = format!(
                "cooperative_tensor<{}, {} × {}, {role}>",
                ty.element.msl_name(),
                ty.columns,
                ty.rows
            );
            if matches!(object, Object::CoopIterator(_)) {
                format!("{base}::iterator")
            } else {
                base
            }
        }
        Object::ExecutionScope(0) => "execution_thread".to_string(),
        Object::ExecutionScope(1) => "execution_simdgroup".to_string(),
        Object::ExecutionScope(count) => format!("execution_simdgroups<{count}>"),
        Object::Matmul {
            descriptor, simdgroups, ..
        } => {
            let k = descriptor.k.map_or("dynamic".to_string(), |k| k.to_string());
            let scope = object_name(&Object::ExecutionScope(*simdgroups));
            format!("matmul2d<{} × {} × {k}, {scope}>", descriptor.m, descriptor.n)
        }
        Object::Convolution {
            descriptor, simdgroups, ..
        } => {
            let [channels, width, height, batch] = descriptor.destination;
            let scope = object_name(&Object::ExecutionScope(*simdgroups));
            format!("convolution2d<{channels} × {width} × {height} × {batch}, {scope}>")
        }
        Object::ScalePlane(plane) => {
            let block: Vec<String> = plane.block.iter().map(u32::to_string).collect();
            format!(
                "tensor_blockwise<tensor_plane_scales, {} {}, {}>",
                plane.space,
                plane.format.msl_name(),
                block.join(", ")
            )
        }
        Object::Atomic(scalar) => format!("atomic<{}>", super::layout::scalar_name(*scalar)),
        Object::Packed(format, count) => format!("packed_numeric_type<{}, {count}>", format.msl_name()),
        Object::SimdgroupMatrix(scalar, columns, rows) => {
            format!(
                "simdgroup_matrix<{}, {columns}, {rows}>",
                super::layout::scalar_name(*scalar)
            )
        }
        Object::Limits(scalar) => {
            format!("numeric_limits<{}>", super::layout::scalar_name(*scalar))
        }
        Object::Truth(value) => format!("bool_constant<{value}>"),
        Object::Tag(name) => (*name).to_string(),
    }
}

/// The template name and arguments of an object type, so that `tensor<T, E, D>` can be deduced from it.
pub fn template_of(_sema: &Sema<'_>, ty: &Type) -> Option<(&'static str, Vec<TemplateArg>)> {
    use anymetal_ir::Scalar;
    let int = |value: u64| TemplateArg::Value(Constant::int(Scalar::I32, value as i64));
    match ty.as_object()? {
        Object::Extents(ty) => {
            let mut args = vec![TemplateArg::Type(ty.index.into())];
            args.extend(
                ty.extents
                    .iter()
                    .map(|extent| TemplateArg::Value(Constant::int(Scalar::U64, extent.map_or(-1, |e| e as i64)))),
            );
            Some(("extents", args))
        }
        Object::Tensor(ty) => {
            let element = QualType {
                is_const: ty.is_const,
                ..QualType::from(args::element_type(ty.format))
            };
            let tag = |name| TemplateArg::Type(Type::object(Object::Tag(name)).into());
            let mut args = vec![
                TemplateArg::Type(element.in_space(ty.space)),
                TemplateArg::Type(Type::object(Object::Extents(ty.extents.clone())).into()),
                tag(if ty.storage == TensorStorage::Inline {
                    "tensor_inline"
                } else {
                    "tensor_handle"
                }),
            ];
            if ty.storage == TensorStorage::Offset {
                args.push(tag("tensor_offset"));
            }
            if let Some(plane) = &ty.plane {
                args.push(TemplateArg::Type(
                    Type::object(Object::ScalePlane(plane.clone())).into(),
                ));
            }
            Some(("tensor", args))
        }
        Object::Atomic(scalar) => Some(("atomic", vec![TemplateArg::Type((*scalar).into())])),
        Object::SimdgroupMatrix(scalar, columns, rows) => Some((
            "simdgroup_matrix",
            vec![
                TemplateArg::Type((*scalar).into()),
                int((*columns).into()),
                int((*rows).into()),
            ],
        )),
        Object::Packed(format, count) => Some(("packed_numeric_type", packed::template_args(*format, *count))),
        Object::ExecutionScope(count) if *count > 0 => Some(("execution_simdgroups", vec![int(u64::from(*count))])),
        Object::Coop(ty) => {
            let extents = ExtentsType {
                index: ty.index,
                extents: vec![None; ty.rank()],
            };
            Some((
                "cooperative_tensor",
                vec![
                    TemplateArg::Type(args::element_type(ty.element).into()),
                    TemplateArg::Type(Type::object(Object::Extents(extents)).into()),
                    TemplateArg::Type(Type::Void.into()),
                ],
            ))
        }
        _ => None,
    }
}

/// A call of a member function of an object (or vector, scalar, …). `None` if there is no such member.
pub fn call_method(sema: &mut Sema<'_>, object: &Operand, call: &Call<'_>) -> Option<Res<Operand>> {
    // `array<T, N>` is an array that is copied as a value.
    if let (Type::Array(_, count), "size" | "max_size") = (object.ty(), call.name) {
        let leaf = Sema::int_leaf(anymetal_ir::Scalar::U64, i128::from(*count));
        return Some(Ok(Value::one(anymetal_ir::Scalar::U64, leaf).into()));
    }
    match object.ty().as_object()?.clone() {
        Object::Extents(ty) => extents::extents_method(sema, &ty, object, call),
        Object::Tensor(ty) => tensor::method(sema, &ty, object, call),
        Object::Coop(ty) => coop::method(sema, &ty, object, call),
        Object::CoopIterator(_) => coop::iterator_method(sema, object, call),
        Object::Matmul {
            descriptor, simdgroups, ..
        } => {
            availability::matmul(sema, call);
            matmul::method(sema, &descriptor, simdgroups, call)
        }
        Object::Convolution {
            descriptor, simdgroups, ..
        } => convolution::method(sema, &descriptor, simdgroups, object, call),
        Object::ExecutionScope(count) if call.name == "size" => Some(Ok(sema
            .int_value(anymetal_ir::Scalar::U32, i64::from(count.max(1)))
            .into())),
        Object::Limits(scalar) => traits::call_limit(sema, scalar, call),
        Object::Tag("simd_vote") => group::vote_method(sema, object, call),
        Object::SimdgroupMatrix(scalar, ..) => simdgroup_matrix::method(sema, scalar, object, call),
        Object::Packed(format, count) => packed::method(sema, (format, count), object, call),
        _ => None,
    }
}

/// A data member of an object. `None` if there is no such member.
pub fn field(sema: &mut Sema<'_>, object: &Operand, name: &str, span: Span) -> Option<Res<Operand>> {
    let ty = object.ty().clone();
    match static_member(sema, &ty, name, span)? {
        Ok(LibEntity::Value(value)) => Some(Ok(value.into())),
        Ok(_) => None,
        Err(fail) => Some(Err(fail)),
    }
}

/// A static member or member type of an object type: `T::element_type`, `matmul2d<…>::descriptor`.
pub fn static_member(sema: &mut Sema<'_>, ty: &Type, name: &str, _span: Span) -> Option<Res<LibEntity>> {
    use anymetal_ir::Scalar;
    let member_type = |ty: Option<QualType>| ty.map(|ty| Ok(LibEntity::Type(ty)));
    let object = ty.as_object()?.clone();
    match &object {
        Object::Extents(extents) => {
            let found = match name {
                "index_type" => Some(extents.index.into()),
                "size_type" | "rank_type" => Some(QualType::from(Scalar::U64)),
                _ => None,
            };
            if found.is_none() && matches!(name, "rank" | "rank_dynamic" | "static_extent") {
                return Some(Ok(on_subject(sema, ty)));
            }
            member_type(found)
        }
        Object::Tensor(tensor) => {
            if matches!(
                name,
                "get_rank" | "get_static_extent" | "has_static_extent" | "has_all_static_extent"
            ) {
                return Some(Ok(on_subject(sema, ty)));
            }
            member_type(tensor::member_type(tensor, name))
        }
        Object::Coop(coop) => {
            if matches!(name, "get_rank" | "get_capacity") {
                return Some(Ok(on_subject(sema, ty)));
            }
            member_type(coop::member_type(coop, name))
        }
        Object::Tag("simd_vote") if name == "vote_t" => Some(Ok(LibEntity::Type(Scalar::U64.into()))),
        Object::CoopIterator(coop) if name == "value_type" => {
            Some(Ok(LibEntity::Type(args::element_type(coop.element).into())))
        }
        Object::Packed(format, count) if name == "storage_type" => {
            Some(Ok(LibEntity::Type(packed::storage(*format, *count).into())))
        }
        Object::ScalePlane(plane) if name == "data_handle_type" => {
            Some(Ok(LibEntity::Type(Type::pointer(Scalar::U8, plane.space).into())))
        }
        Object::ExecutionScope(count) if name == "static_size" => {
            let leaf = Sema::int_leaf(Scalar::U32, i128::from((*count).max(1)));
            Some(Ok(LibEntity::Value(Value::one(Scalar::U32, leaf))))
        }
        Object::Matmul {
            simdgroups, constant, ..
        } => {
            if name == "descriptor" {
                let operand = sema.operand_of(constant);
                return Some(sema.rvalue(operand).map(LibEntity::Value));
            }
            if name == "scope" {
                return Some(Ok(LibEntity::Type(
                    Type::object(Object::ExecutionScope(*simdgroups)).into(),
                )));
            }
            let alias: LibInstantiate = match name {
                "cooperative_tensor_left_input_t" => {
                    |s, a, at| member_alias(s, "cooperative_tensor_left_input_t", a, at)
                }
                "cooperative_tensor_right_input_t" => {
                    |s, a, at| member_alias(s, "cooperative_tensor_right_input_t", a, at)
                }
                "cooperative_tensor_destination_t" => {
                    |s, a, at| member_alias(s, "cooperative_tensor_destination_t", a, at)
                }
                "cooperative_tensor_row_reduction_destination_t" => {
                    |s, a, at| member_alias(s, "cooperative_tensor_row_reduction_destination_t", a, at)
                }
                "cooperative_tensor_column_reduction_destination_t" => {
                    |s, a, at| member_alias(s, "cooperative_tensor_column_reduction_destination_t", a, at)
                }
                _ => return None,
            };
            sema.library.subject = Some(ty.clone());
            Some(Ok(LibEntity::Template {
                name: "member alias",
                instantiate: alias,
                deduce: None,
            }))
        }
        Object::Convolution {
            simdgroups, constant, ..
        } => match name {
            "descriptor" => {
                let operand = sema.operand_of(constant);
                Some(sema.rvalue(operand).map(LibEntity::Value))
            }
            "scope" => Some(Ok(LibEntity::Type(
                Type::object(Object::ExecutionScope(*simdgroups)).into(),
            ))),
            "cooperative_tensor_destination_t" => {
                sema.library.subject = Some(ty.clone());
                Some(Ok(LibEntity::Template {
                    name: "member alias",
                    instantiate: |s, a, at| member_alias(s, "cooperative_tensor_destination_t", a, at),
                    deduce: None,
                }))
            }
            _ => None,
        },
        Object::Limits(scalar) => {
            if traits::is_limit_function(name) {
                return Some(Ok(on_subject(sema, ty)));
            }
            traits::limit(*scalar, name).map(|value| Ok(LibEntity::Value(value)))
        }
        Object::Truth(value) => match name {
            "value" => {
                let leaf = Sema::int_leaf(Scalar::Bool, i128::from(*value));
                Some(Ok(LibEntity::Value(Value::one(Scalar::Bool, leaf))))
            }
            "type" => Some(Ok(LibEntity::Type(ty.clone().into()))),
            "value_type" => Some(Ok(LibEntity::Type(Scalar::Bool.into()))),
            _ => None,
        },
        _ => None,
    }
}

/// A static member function: it is called as a member function of an object of the type, of which it needs no leaves.
fn on_subject(sema: &mut Sema<'_>, ty: &Type) -> LibEntity {
    sema.library.subject = Some(ty.clone());
    LibEntity::Function(
        |sema, call| {
            let Some(ty) = sema.library.subject.clone() else {
                return sema.err("E0810", format!("'{}' is not declared", call.name), call.span);
            };
            let object = Operand::Value(Value::empty(ty));
            match call_method(sema, &object, call) {
                Some(result) => result,
                None => sema.err("E0810", format!("'{}' is not declared", call.name), call.span),
            }
        },
        "metal",
    )
}

/// The member alias templates of `matmul2d<…>` and `convolution2d<…>`, of the type that was asked last.
fn member_alias(sema: &mut Sema<'_>, name: &str, args: &[TemplateArg], span: Span) -> Res<QualType> {
    if let Some(Type::Object(object)) = sema.library.subject.clone()
        && let Object::Matmul {
            descriptor, simdgroups, ..
        } = &*object
        && let Some(ty) = matmul::member_alias(sema, descriptor, *simdgroups, name, args, span)
    {
        return ty;
    }
    if let Some(Type::Object(object)) = sema.library.subject.clone()
        && let Object::Convolution {
            descriptor, simdgroups, ..
        } = &*object
        && let Some(ty) = convolution::member_alias(sema, descriptor, *simdgroups, name, args, span)
    {
        return ty;
    }
    sema.err("E0810", format!("'{name}' is not declared"), span)
}

/// An operator with at least one object operand: `[]` (object, indices…), `()`, `*`, `->`, `++`, `--`, `p++`, `p--`, `+`, `==`, `=`, `+=`, …
/// `None` if the operator is not defined for these.
pub fn operator(sema: &mut Sema<'_>, operator: &str, operands: &[Operand], span: Span) -> Option<Res<Operand>> {
    if let ("+", [count, iterator]) = (operator, operands)
        && let (None, Some(Object::CoopIterator(_))) = (count.ty().as_object(), iterator.ty().as_object())
    {
        return coop::operator(sema, operator, &[iterator.clone(), count.clone()], span);
    }
    match operands.first()?.ty().as_object()? {
        Object::Tensor(_) if operator == "[]" => {
            let indices: Vec<Arg> = operands[1..]
                .iter()
                .map(|operand| Arg::Operand(operand.clone(), span))
                .collect();
            Some(tensor::element(sema, &operands[0], &indices, span))
        }
        Object::Truth(value) if operator == "()" => Some(Ok(sema.bool_value(*value).into())),
        Object::Coop(_) | Object::CoopIterator(_) => coop::operator(sema, operator, operands, span),
        Object::SimdgroupMatrix(..) => simdgroup_matrix::operator(sema, operator, operands, span),
        _ => None,
    }
}

/// Constructs an object type from arguments (`T(…)`, `T{…}`, `T x(…)`, also default construction with none). `None` if
/// the arguments do not fit.
pub fn construct(sema: &mut Sema<'_>, ty: &Type, args: &[Arg], _braces: bool, span: Span) -> Option<Res<Operand>> {
    match ty.as_object()?.clone() {
        Object::Extents(extents) => Some(extents::construct_extents(sema, &extents, args, span)),
        Object::Tensor(tensor) => Some(tensor::construct(sema, &tensor, args, span)),
        Object::ScalePlane(plane) => Some(construct_plane(sema, ty, &plane, args, span)),
        Object::Packed(format, count) => Some(packed::construct(sema, ty, (format, count), args, span)),
        Object::Matmul { .. } | Object::ExecutionScope(_) | Object::Limits(_) | Object::Truth(_) | Object::Tag(_)
            if args.is_empty() =>
        {
            Some(Ok(Value::empty(ty.clone()).into()))
        }
        Object::Convolution { .. } if args.is_empty() => {
            let zero = Sema::int_leaf(anymetal_ir::Scalar::I32, 0);
            Some(Ok(Value {
                ty: ty.clone(),
                leaves: vec![zero.clone(), zero],
            }
            .into()))
        }
        Object::SimdgroupMatrix(scalar, ..) => simdgroup_matrix::construct(sema, ty, scalar, args, span),
        Object::Coop(coop) if args.is_empty() => Some(coop::create(sema, &coop).map(Operand::Value)),
        // A copy.
        _ => match args {
            [Arg::Operand(operand, _)] if operand.ty() == ty => Some(Ok(operand.clone())),
            _ => None,
        },
    }
}

/// `scales_plane(pointer)`
fn construct_plane(sema: &mut Sema<'_>, ty: &Type, plane: &PlaneType, args: &[Arg], span: Span) -> Res<Operand> {
    let [Arg::Operand(operand, _)] = args else {
        return sema.err(
            "E0848",
            format!(
                "a scale plane is constructed from one pointer, {} arguments given",
                args.len()
            ),
            span,
        );
    };
    if operand.ty() == ty {
        return Ok(operand.clone());
    }
    let value = sema.rvalue(operand.clone())?;
    match (&value.ty, value.leaf()) {
        (Type::Pointer(pointee), Some(leaf))
            if matches!(pointee.ty, Type::Scalar(anymetal_ir::Scalar::U8) | Type::Format(_))
                && pointee.space_or_thread() == plane.space =>
        {
            Ok(Value {
                ty: ty.clone(),
                leaves: vec![leaf.clone()],
            }
            .into())
        }
        _ => {
            let name = sema.type_name(&value.ty);
            sema.err(
                "E0848",
                format!(
                    "a scale plane is constructed from a pointer to {} uchar, not '{name}'",
                    plane.space
                ),
                span,
            )
        }
    }
}

/// Converts a value implicitly to or from an object type (tensor handle → offset, static → dynamic extents, …).
/// `None` if there is no such conversion. Must not emit when `dry` is set; then only the answer matters.
pub fn convert(sema: &mut Sema<'_>, value: &Operand, to: &Type, dry: bool, span: Span) -> Option<Res<Value>> {
    match (value.ty().as_object(), to) {
        (Some(Object::Tensor(_)), Type::Object(object)) => match &**object {
            Object::Tensor(to) => view::convert(sema, value, to, dry, span),
            _ => None,
        },
        (Some(Object::Extents(from)), Type::Object(object)) => match &**object {
            Object::Extents(extents) if extents.extents.len() == from.extents.len() => {
                if dry {
                    return Some(Ok(Value::empty(to.clone())));
                }
                let extents = extents.clone();
                let args = [Arg::Operand(value.clone(), span)];
                Some(extents::construct_extents(sema, &extents, &args, span).and_then(|made| sema.rvalue(made)))
            }
            _ => None,
        },
        (Some(Object::Truth(truth)), Type::Scalar(anymetal_ir::Scalar::Bool)) => Some(Ok(sema.bool_value(*truth))),
        // The explicit conversion of a vote to its mask.
        (Some(Object::Tag("simd_vote")), Type::Scalar(anymetal_ir::Scalar::U64)) => {
            if dry {
                return Some(Ok(Value::empty(to.clone())));
            }
            Some(sema.rvalue(value.clone()).map(|value| Value {
                ty: to.clone(),
                leaves: value.leaves,
            }))
        }
        _ => None,
    }
}

/// The value of a tensor argument of the kernel: leaves for a handle that `Op::ArgumentTensor` gives.
pub fn tensor_spec(tensor: &TensorType) -> anymetal_ir::TensorSpec {
    let extents = tensor.extents.extents.clone();
    anymetal_ir::TensorSpec {
        format: tensor.format,
        space: tensor.space,
        extents,
        index: tensor.extents.index,
        scale_block: tensor.plane.as_ref().map(|plane| plane.block.clone()),
    }
}
