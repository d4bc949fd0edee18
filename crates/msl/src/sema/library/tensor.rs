//! `extents`, `tensor` and its slices (reference 1.2–1.7, 2.5).
//!
//! Leaves of a tensor value, in order:
//! - handle: the `u64` handle;
//! - offset: the handle, the origin (`rank` × `i64`), the dynamic extents of the view (`i64` each);
//! - inline: the pointer, base extents, strides, origin (`rank` × `i64` each), the dynamic extents of the view, then with a
//!   scale plane its pointer and its strides (`rank` × `i64`).

use super::extents::*;
use super::view::*;
use std::rc::Rc;

use anymetal_ir::{BinaryOp, Bounds, CompareOp, MathMode, Scalar};

use super::args::{self, element_format, element_type, expect_count, flatten, int_at, type_at};
use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{
    Constant, ExtentsType, Object, PlaneType, QualType, Space, TemplateArg, TensorStorage, TensorType, Type,
};
use crate::sema::value::{Arg, LValue, Leaf, LeafKind, Operand, Place, Value};
use crate::source::Span;

/// Declarations of `<metal_tensor>` in namespace `metal`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    let template = |name, instantiate, deduce| {
        Some(LibEntity::Template {
            name,
            instantiate,
            deduce,
        })
    };
    match name {
        "extents" => template("extents", instantiate_extents, None),
        "dextents" => template("dextents", instantiate_dextents, None),
        "tensor" => template("tensor", instantiate_tensor, Some(deduce_tensor)),
        "tensor_blockwise" => template("tensor_blockwise", instantiate_blockwise, None),
        "tensor_handle" => tag("tensor_handle"),
        "tensor_inline" => tag("tensor_inline"),
        "tensor_offset" => tag("tensor_offset"),
        "tensor_plane_scales" => tag("tensor_plane_scales"),
        "dynamic_extent" => {
            let value = Constant::int(Scalar::U64, -1);
            let leaf = value.number().map(Leaf::Const)?;
            Some(LibEntity::Value(Value::one(Scalar::U64, leaf)))
        }
        "is_null_tensor" => Some(LibEntity::Function(is_null_tensor, "metal")),
        _ => None,
    }
}

pub(super) fn tag(name: &'static str) -> Option<LibEntity> {
    Some(LibEntity::Type(Type::object(Object::Tag(name)).into()))
}

// ---- extents

impl ExtentsType {
    /// The rank.
    pub fn rank(&self) -> usize {
        self.extents.len()
    }

    pub(super) fn dynamic(&self) -> usize {
        self.extents.iter().filter(|extent| extent.is_none()).count()
    }
}

// ---- tensor types

pub(super) fn instantiate_blockwise(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let plane = type_at(sema, "tensor_blockwise", &args, 0, span)?;
    if plane.ty.as_object() != Some(&Object::Tag("tensor_plane_scales")) {
        return sema.err_help(
            "E0833",
            format!(
                "the first template argument of 'tensor_blockwise' must be a plane tag, not '{}'",
                sema.qual_name(plane)
            ),
            span,
            "the only plane is 'tensor_plane_scales'",
        );
    }
    let element = type_at(sema, "tensor_blockwise", &args, 1, span)?;
    let Some(format) = element_format(&element.ty) else {
        return sema.err_help(
            "E0834",
            format!("'{}' cannot be the element type of a plane", sema.qual_name(element)),
            span,
            "write 'device metal_fp8_ue8m0_format'",
        );
    };
    let space = element.space.unwrap_or(Space::Device);
    let mut block = Vec::new();
    for at in 2..args.len() {
        let factor = int_at(sema, "tensor_blockwise", &args, at, span)?;
        match u32::try_from(factor) {
            Ok(factor) if factor > 0 => block.push(factor),
            _ => {
                return sema.err("E0835", format!("block size {factor} is not positive"), span);
            }
        }
    }
    Ok(Type::object(Object::ScalePlane(PlaneType { format, space, block })).into())
}

pub(super) fn instantiate_tensor(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let element = type_at(sema, "tensor", &args, 0, span)?.clone();
    let Some(format) = element_format(&element.ty) else {
        return sema.err_help(
            "E0830",
            format!("'{}' cannot be the element type of a tensor", sema.qual_name(&element)),
            span,
            "use a scalar type or a format type such as 'int4b_format'",
        );
    };
    let extents = type_at(sema, "tensor", &args, 1, span)?;
    let Some(Object::Extents(extents)) = extents.ty.as_object() else {
        return sema.err_help(
            "E0836",
            format!(
                "the second template argument of 'tensor' must be extents, not '{}'",
                sema.qual_name(extents)
            ),
            span,
            "write 'dextents<int, RANK>' or 'extents<int, E0, E1>'",
        );
    };
    let mut tensor = TensorType {
        format,
        space: element.space.unwrap_or(Space::Thread),
        is_const: element.is_const || element.space == Some(Space::Constant),
        is_volatile: element.is_volatile,
        extents: extents.clone(),
        storage: TensorStorage::Handle,
        plane: None,
    };
    for at in 2..args.len() {
        let tag = type_at(sema, "tensor", &args, at, span)?;
        match (at, tag.ty.as_object()) {
            (2, Some(Object::Tag("tensor_handle"))) => {}
            (2, Some(Object::Tag("tensor_inline"))) => tensor.storage = TensorStorage::Inline,
            (2, _) => {
                return sema.err(
                    "E0837",
                    "tensor: Descriptor template parameter must be one of tensor_handle or tensor_inline",
                    span,
                );
            }
            (_, Some(Object::Tag("tensor_offset"))) if tensor.storage != TensorStorage::Inline => {
                tensor.storage = TensorStorage::Offset;
            }
            (_, Some(Object::ScalePlane(plane))) => tensor.plane = Some(plane.clone()),
            _ => {
                return sema.err_help(
                    "E0838",
                    format!("'{}' is not a tag of this tensor", sema.qual_name(tag)),
                    span,
                    "the tags are 'tensor_offset' (after 'tensor_handle') and 'tensor_blockwise<…>'",
                );
            }
        }
    }
    if tensor.storage != TensorStorage::Inline && !matches!(tensor.space, Space::Device | Space::Constant) {
        return sema.err_help(
            "E0839",
            format!(
                "the elements of a 'tensor_handle' tensor are in device or constant memory, not {}",
                tensor.space
            ),
            span,
            "write 'tensor<device T, …>', or 'tensor_inline' for other memory",
        );
    }
    Ok(Type::object(Object::Tensor(tensor)).into())
}

/// `tensor(pointer, extents[, strides])`
pub(super) fn deduce_tensor(sema: &mut Sema<'_>, args: &[Arg], span: Span) -> Res<Type> {
    let pointee = match args.first().and_then(Arg::operand).map(Operand::ty) {
        Some(Type::Pointer(pointee)) => Some((**pointee).clone()),
        Some(Type::Array(element, _)) => match args[0].operand() {
            Some(Operand::Place(place)) => Some((**element).clone().in_space(place.space())),
            _ => None,
        },
        _ => None,
    };
    let extents = match args.get(1).and_then(Arg::operand).map(Operand::ty) {
        Some(Type::Object(object)) => match &**object {
            Object::Extents(extents) => Some(extents.clone()),
            _ => None,
        },
        _ => None,
    };
    let (Some(pointee), Some(extents)) = (pointee, extents) else {
        return sema.err_help(
            "E0841",
            "the template arguments of 'tensor' cannot be deduced from these arguments",
            span,
            "write 'tensor(pointer, dextents<int, 2>(columns, rows))'",
        );
    };
    let Some(format) = element_format(&pointee.ty) else {
        return sema.err_help(
            "E0830",
            format!("'{}' cannot be the element type of a tensor", sema.qual_name(&pointee)),
            span,
            "use a scalar type or a format type such as 'int4b_format'",
        );
    };
    Ok(Type::object(Object::Tensor(TensorType {
        format,
        space: pointee.space_or_thread(),
        is_const: pointee.is_const || pointee.space == Some(Space::Constant),
        is_volatile: pointee.is_volatile,
        extents,
        storage: TensorStorage::Inline,
        plane: None,
    })))
}

/// Constructs a tensor from a pointer, extents, strides and a plane, or from another tensor.
pub fn construct(sema: &mut Sema<'_>, ty: &TensorType, args: &[Arg], span: Span) -> Res<Operand> {
    let whole = Type::object(Object::Tensor(ty.clone()));
    if args.is_empty() {
        let leaves = leaves(ty)
            .into_iter()
            .map(|kind| match kind {
                LeafKind::Value(ir) => Leaf::Undef(ir),
                _ => Leaf::Undef(Scalar::U64.into()),
            })
            .collect();
        return Ok(Value { ty: whole, leaves }.into());
    }
    if let [Arg::Operand(operand, _)] = args
        && matches!(operand.ty().as_object(), Some(Object::Tensor(_)))
    {
        return match convert(sema, operand, ty, false, span) {
            Some(value) => value.map(Operand::Value),
            None => {
                let (from, to) = (sema.type_name(operand.ty()), sema.type_name(&whole));
                sema.err_help(
                    "E0843",
                    format!("a '{from}' does not convert to a '{to}'"),
                    span,
                    "elements, memory, rank, planes and static extents must agree, and constness can only be added",
                )
            }
        };
    }
    if ty.storage != TensorStorage::Inline {
        return sema.err_help(
            "E0844",
            "a 'tensor_handle' tensor is not constructed in a kernel",
            span,
            "bind it as an argument, or declare the type with 'tensor_inline'",
        );
    }
    let rank = ty.extents.rank();
    if args.len() < 2 || args.len() > 4 {
        return sema.err(
            "E0845",
            format!(
                "a 'tensor_inline' tensor takes a pointer, extents, strides and a plane; {} arguments given",
                args.len()
            ),
            span,
        );
    }
    let pointer = data_pointer(sema, ty, &args[0])?;
    let base = constructor_extents(sema, ty, &args[1])?;
    let mut rest = &args[2..];
    let is_plane = |arg: &Arg| {
        arg.operand()
            .is_some_and(|operand| matches!(operand.ty().as_object(), Some(Object::ScalePlane(_))))
    };
    let strides = match rest.first() {
        Some(arg) if !is_plane(arg) => {
            rest = &rest[1..];
            args::indices(
                sema,
                std::slice::from_ref(arg),
                rank,
                "the strides of a tensor",
                arg.span(),
            )?
        }
        _ => packed(sema, &base)?,
    };
    let zero = Sema::int_leaf(Scalar::I64, 0);
    let mut leaves = vec![pointer];
    leaves.extend(base.iter().cloned());
    leaves.extend(strides);
    leaves.extend(vec![zero; rank]);
    for (leaf, fixed) in base.iter().zip(&ty.extents.extents) {
        if fixed.is_none() {
            leaves.push(leaf.clone());
        }
    }
    match (&ty.plane, rest.first()) {
        (None, None) => {}
        (Some(plane), Some(arg)) if is_plane(arg) => {
            let operand = arg.operand().cloned().unwrap_or_else(Operand::void);
            let value = sema.rvalue(operand)?;
            leaves.push(value.leaves[0].clone());
            // Scales of consecutive blocks are packed: ceil(extent / block) along dimension 0, and so on.
            let mut counts = Vec::new();
            for (d, extent) in base.iter().enumerate() {
                let factor = i128::from(plane.block.get(d).copied().unwrap_or(1));
                let rounded = Sema::int_leaf(Scalar::I64, factor - 1);
                let sum = sema.binary_leaf(BinaryOp::Add, extent, &rounded, MathMode::Precise)?;
                let factor = Sema::int_leaf(Scalar::I64, factor);
                counts.push(sema.binary_leaf(BinaryOp::Div, &sum, &factor, MathMode::Precise)?);
            }
            leaves.extend(packed(sema, &counts)?);
        }
        (Some(_), None) => {
            return sema.err_help(
                "E0846",
                "the tensor has a scale plane, but no plane object is given",
                span,
                "pass an object of the plane's type, constructed from a pointer, as the last argument",
            );
        }
        (_, Some(arg)) => {
            return sema.err_help(
                "E0847",
                "this argument is not a plane object of the tensor's type",
                arg.span(),
                "a plane is declared by a 'tensor_blockwise<…>' tag of the tensor and constructed from a pointer",
            );
        }
    }
    Ok(Value { ty: whole, leaves }.into())
}

/// Strides of a packed layout: 1, e₀, e₀·e₁, …
pub(super) fn packed(sema: &mut Sema<'_>, extents: &[Leaf]) -> Res<Vec<Leaf>> {
    let mut stride = Sema::int_leaf(Scalar::I64, 1);
    let mut out = Vec::with_capacity(extents.len());
    for extent in extents {
        out.push(stride.clone());
        stride = sema.binary_leaf(BinaryOp::Mul, &stride, extent, MathMode::Precise)?;
    }
    Ok(out)
}

/// The pointer argument of a constructor: to the element type, or to bytes for a format type.
pub(super) fn data_pointer(sema: &mut Sema<'_>, ty: &TensorType, arg: &Arg) -> Res<Leaf> {
    let span = arg.span();
    let Some(operand) = arg.operand().cloned() else {
        return sema.err("E0812", "a tensor's first argument is a pointer", span);
    };
    let (pointee, leaf) = match operand {
        Operand::Place(LValue {
            ty: Type::Array(element, _),
            place: Place::Memory {
                pointer, offset, space, ..
            },
            ..
        }) => {
            let pointer = sema.address(pointer, offset);
            ((*element).clone().in_space(space), Leaf::Value(pointer))
        }
        operand => {
            let value = sema.rvalue(operand)?;
            match (&value.ty, value.leaf()) {
                (Type::Pointer(pointee), Some(leaf)) => ((**pointee).clone(), leaf.clone()),
                _ => {
                    let name = sema.type_name(&value.ty);
                    return sema.err(
                        "E0848",
                        format!("a tensor's first argument is a pointer, not '{name}'"),
                        span,
                    );
                }
            }
        }
    };
    let bytes = matches!(pointee.ty, Type::Scalar(Scalar::U8 | Scalar::I8)) && ty.format.is_format_type();
    if !bytes && element_format(&pointee.ty) != Some(ty.format) {
        let (from, to) = (sema.qual_name(&pointee), sema.type_name(&element_type(ty.format)));
        return sema.err(
            "E0849",
            format!("the pointer is to '{from}', the tensor's elements are '{to}'"),
            span,
        );
    }
    if pointee.space_or_thread() != ty.space {
        return sema.err(
            "E0850",
            format!(
                "the pointer is to {} memory, the tensor's elements are in {} memory",
                pointee.space_or_thread(),
                ty.space
            ),
            span,
        );
    }
    if pointee.is_const && !ty.is_const {
        return sema.err_help(
            "E0851",
            "the pointer is to const elements, the tensor's are not const",
            span,
            "declare the tensor with 'const' elements, or cast the const away",
        );
    }
    Ok(leaf)
}

/// All extents of a constructor's second argument.
pub(super) fn constructor_extents(sema: &mut Sema<'_>, ty: &TensorType, arg: &Arg) -> Res<Vec<Leaf>> {
    let operand = match arg {
        Arg::Operand(operand, _) if matches!(operand.ty().as_object(), Some(Object::Extents(_))) => operand.clone(),
        other => construct_extents(sema, &ty.extents, std::slice::from_ref(other), other.span())?,
    };
    let Some(Object::Extents(from)) = operand.ty().as_object().cloned() else {
        return sema.err("E0836", "the second argument of a tensor is its extents", arg.span());
    };
    if from.rank() != ty.extents.rank() {
        return sema.err(
            "E0829",
            format!(
                "extents of rank {} are given to a tensor of rank {}",
                from.rank(),
                ty.extents.rank()
            ),
            arg.span(),
        );
    }
    let value = sema.rvalue(operand)?;
    let given = extent_leaves(sema, &from, &value)?;
    Ok(given
        .into_iter()
        .zip(&ty.extents.extents)
        .map(|(leaf, fixed)| fixed.map_or(leaf, |fixed| Sema::int_leaf(Scalar::I64, i128::from(fixed))))
        .collect())
}

/// `t.slice(i, j)` and `t.slice<E0, E1>(i, j)`.
pub(super) fn slice(sema: &mut Sema<'_>, ty: &TensorType, object: &Operand, call: &Call<'_>) -> Res<Operand> {
    let rank = ty.extents.rank();
    let explicit = flatten(call.template_args);
    if !explicit.is_empty() && explicit.len() != rank {
        return sema.err_help(
            "E0852",
            format!(
                "no matching member function: slice of a tensor of rank {rank} takes {rank} extents, {} given",
                explicit.len()
            ),
            call.span,
            "'dynamic_extent' stands for the rest of a dimension",
        );
    }
    let indices = args::indices(sema, call.args, rank, "a slice of a tensor", call.span)?;
    let value = sema.rvalue(object.clone())?;
    let parts = parts(sema, ty, &value)?;
    let mut to = ty.clone();
    if to.storage == TensorStorage::Handle {
        to.storage = TensorStorage::Offset;
    }
    let (mut origin, mut extents) = (Vec::new(), Vec::new());
    for (d, index) in indices.iter().enumerate() {
        let fixed = match explicit.get(d) {
            Some(_) => extent_at(sema, "slice", &explicit, d, call.span)?,
            None => None,
        };
        if let (Some(fixed), Some(of)) = (fixed, ty.extents.extents[d])
            && fixed > of
        {
            return sema.err(
                "E0853",
                format!(
                    "no matching member function: a slice of {fixed} elements in dimension {d} of a tensor with {of}"
                ),
                call.span,
            );
        }
        to.extents.extents[d] = fixed;
        origin.push(sema.binary_leaf(BinaryOp::Add, &parts.origin[d], index, MathMode::Precise)?);
        let before = extent_of(sema, &parts, d)?;
        let rest = sema.binary_leaf(BinaryOp::Sub, &before, index, MathMode::Precise)?;
        extents.push(match fixed {
            Some(fixed) => Some(Sema::int_leaf(Scalar::I64, i128::from(fixed))),
            None => Some(rest),
        });
    }
    let parts = Parts {
        origin,
        extents,
        ..parts
    };
    rebuild(sema, &value, parts, &to).map(Operand::Value)
}

/// `T[x, y]`, or `T[array]`.
pub fn element(sema: &mut Sema<'_>, object: &Operand, args: &[Arg], span: Span) -> Res<Operand> {
    let Some(Object::Tensor(ty)) = object.ty().as_object() else {
        return sema.err("E0842", "expected a tensor", span);
    };
    let ty = ty.clone();
    let indices = args::indices(sema, args, ty.extents.rank(), "an element of a tensor", span)?;
    let tensor = view(sema, object)?;
    let indices = indices
        .iter()
        .map(|leaf| sema.materialize(leaf))
        .collect::<Res<Vec<_>>>()?;
    Ok(LValue {
        ty: element_type(ty.format),
        is_const: ty.is_const,
        is_volatile: ty.is_volatile,
        place: Place::TensorElement {
            tensor: Rc::new(tensor),
            indices,
            bounds: Bounds::Fault,
        },
    }
    .into())
}

/// Member functions of a tensor.
pub fn method(sema: &mut Sema<'_>, ty: &TensorType, object: &Operand, call: &Call<'_>) -> Option<Res<Operand>> {
    let rank = ty.extents.rank();
    let flag = |value: bool| Ok(sema_int(Scalar::Bool, i128::from(value)));
    Some(match call.name {
        "get_rank" => Ok(sema_int(Scalar::U64, rank as i128)),
        "get_static_extent" => static_extent(sema, &ty.extents, call),
        "has_static_extent" => dimension(sema, call, rank).and_then(|d| flag(ty.extents.extents[d].is_some())),
        "has_all_static_extent" => flag(ty.extents.dynamic() == 0),
        "get_extent" => run_time(sema, ty, object, call, Asked::Extent),
        "get_stride" => run_time(sema, ty, object, call, Asked::Stride),
        "get_stride_bytes" if sema.options.std >= crate::options::MetalStd::Metal4_1 => {
            run_time(sema, ty, object, call, Asked::StrideBytes)
        }
        "extents" => (|| {
            let value = sema.rvalue(object.clone())?;
            let parts = parts(sema, ty, &value)?;
            let mut leaves = Vec::new();
            for (d, fixed) in ty.extents.extents.iter().enumerate() {
                if fixed.is_none() {
                    let leaf = extent_of(sema, &parts, d)?;
                    leaves.push(sema.convert_leaf(&leaf, ty.extents.index)?);
                }
            }
            Ok(Value {
                ty: Type::object(Object::Extents(ty.extents.clone())),
                leaves,
            }
            .into())
        })(),
        "slice" => slice(sema, ty, object, call),
        "get" | "load" => {
            clipped(sema, ty, object, call.args, call.span).and_then(|place| sema.load(&place).map(Operand::Value))
        }
        "set" | "store" => (|| {
            let Some((value, indices)) = call.args.split_first() else {
                return sema.err("E0811", "'set' takes a value and indices", call.span);
            };
            let place = clipped(sema, ty, object, indices, call.span)?;
            if ty.is_const {
                return sema.err_help(
                    "E0854",
                    "the elements of this tensor are const",
                    call.span,
                    "declare the tensor without 'const' elements",
                );
            }
            let Some(operand) = value.operand().cloned() else {
                return sema.err("E0812", "'set' takes no braced list", value.span());
            };
            let value = sema.rvalue(operand)?;
            let value = match element_type(ty.format) {
                Type::Scalar(scalar) => Value::one(scalar, args::scalar_of(sema, &value, scalar, call.span)?),
                // A format converts only explicitly: its own type, or an error that says so.
                format => sema.convert(value.into(), &format, false, call.span)?,
            };
            sema.store(&place, &value)?;
            Ok(Operand::void())
        })(),
        _ => return None,
    })
}

pub(super) fn clipped(sema: &mut Sema<'_>, ty: &TensorType, object: &Operand, args: &[Arg], span: Span) -> Res<LValue> {
    match element(sema, object, args, span)? {
        Operand::Place(LValue {
            place: Place::TensorElement { tensor, indices, .. },
            ..
        }) => Ok(LValue {
            ty: element_type(ty.format),
            is_const: ty.is_const,
            is_volatile: ty.is_volatile,
            place: Place::TensorElement {
                tensor,
                indices,
                bounds: Bounds::Clip,
            },
        }),
        _ => sema.err("E0842", "expected an element of a tensor", span),
    }
}

/// What [`run_time`] is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Extent,
    /// In elements.
    Stride,
    /// In bytes; a stride of less than a byte is 0.
    StrideBytes,
}

/// `get_extent(r)`, `get_stride(r)` and `get_stride_bytes(r)`; the dimension may be known at run time only.
pub(super) fn run_time(
    sema: &mut Sema<'_>,
    ty: &TensorType,
    object: &Operand,
    call: &Call<'_>,
    asked: Asked,
) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let at = args::scalar(sema, call, 0, Scalar::I64)?;
    let value = sema.rvalue(object.clone())?;
    let parts = parts(sema, ty, &value)?;
    let mut all = Vec::new();
    for d in 0..ty.extents.rank() {
        all.push(match asked {
            Asked::Extent => extent_of(sema, &parts, d)?,
            Asked::Stride => parts.strides[d].clone(),
            Asked::StrideBytes => {
                let bits = Sema::int_leaf(Scalar::I64, ty.format.bits() as i128);
                let bits = sema.binary_leaf(BinaryOp::Mul, &parts.strides[d], &bits, MathMode::Precise)?;
                let three = Sema::int_leaf(Scalar::I64, 3);
                sema.binary_leaf(BinaryOp::Shr, &bits, &three, MathMode::Precise)?
            }
        });
    }
    let leaf = match sema.int_of(&at) {
        Some(_) => all[dimension(sema, call, all.len())?].clone(),
        None => {
            let Some(mut chosen) = all.first().cloned() else {
                return sema.err("E0831", "a tensor of rank 0 has no dimensions", call.args[0].span());
            };
            for (d, leaf) in all.iter().enumerate().skip(1) {
                let is = sema.compare_leaf(CompareOp::Eq, &at, &Sema::int_leaf(Scalar::I64, d as i128))?;
                chosen = sema.select_leaf(&is, leaf, &chosen)?;
            }
            chosen
        }
    };
    let leaf = sema.convert_leaf(&leaf, ty.extents.index)?;
    Ok(Value::one(ty.extents.index, leaf).into())
}

pub(super) fn is_null_tensor(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let operand = args::operand(sema, call, 0)?.clone();
    let Some(Object::Tensor(ty)) = operand.ty().as_object() else {
        let name = sema.type_name(operand.ty());
        return sema.err(
            "E0842",
            format!("'is_null_tensor' takes a tensor, not '{name}'"),
            call.span,
        );
    };
    let storage = ty.storage;
    let value = sema.rvalue(operand)?;
    let leaf = if storage == TensorStorage::Inline {
        sema.convert_leaf(&value.leaves[0], Scalar::Bool)?
    } else {
        sema.compare_leaf(CompareOp::Ne, &value.leaves[0], &Sema::int_leaf(Scalar::U64, 0))?
    };
    let null = sema.unary_leaf(anymetal_ir::UnaryOp::Not, &leaf, MathMode::Precise)?;
    Ok(Value::one(Scalar::Bool, null).into())
}

/// Member types.
pub fn member_type(ty: &TensorType, name: &str) -> Option<QualType> {
    let element = element_type(ty.format);
    let unsigned = |scalar: Scalar| match scalar {
        Scalar::I8 => Scalar::U8,
        Scalar::I16 => Scalar::U16,
        Scalar::I32 => Scalar::U32,
        Scalar::I64 => Scalar::U64,
        other => other,
    };
    Some(match name {
        "value_type" => element.into(),
        "element_type" => QualType {
            is_const: ty.is_const,
            ..QualType::from(element)
        }
        .in_space(ty.space),
        "reference" => QualType {
            is_const: ty.is_const,
            ..QualType::from(element)
        }
        .in_space(ty.space)
        .lref(),
        "extents_type" => Type::object(Object::Extents(ty.extents.clone())).into(),
        "index_type" => ty.extents.index.into(),
        "size_type" => unsigned(ty.extents.index).into(),
        "rank_type" => Scalar::U64.into(),
        "data_handle_type" => {
            let pointee = if ty.format.is_format_type() {
                Type::Scalar(Scalar::U8)
            } else {
                element
            };
            let pointee = QualType {
                is_const: ty.is_const,
                ..QualType::from(pointee)
            };
            Type::pointer(pointee, ty.space).into()
        }
        _ => return None,
    })
}
