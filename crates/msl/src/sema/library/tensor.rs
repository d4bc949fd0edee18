//! `extents`, `tensor` and its slices (reference 1.2–1.7, 2.5).
//!
//! Leaves of a tensor value, in order:
//! - handle: the `u64` handle;
//! - offset: the handle, the origin (`rank` × `i64`), the dynamic extents of the view (`i64` each);
//! - inline: the pointer, base extents, strides, origin (`rank` × `i64` each), the dynamic extents of the view, then with a
//!   scale plane its pointer and its strides (`rank` × `i64`).

use std::rc::Rc;

use anymetal_ir::{
    BinaryOp, Bounds, CompareOp, Extent, MathMode, Op, Scalar, ScalePlane, TensorField, TensorRef,
    Type as IrType, ValueId,
};

use super::args::{
    self, element_format, element_type, expect_count, extent, flatten, int_at, type_at,
};
use super::{Call, LibEntity, tensor_spec};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{
    Constant, ExtentsType, Object, PlaneType, QualType, Space, TemplateArg, TensorStorage,
    TensorType, Type,
};
use crate::sema::value::{Arg, LValue, Leaf, LeafKind, Operand, Place, Value};
use crate::source::Span;

/// `MTL_TENSOR_MAX_RANK`.
const MAX_RANK: usize = 16;

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

fn tag(name: &'static str) -> Option<LibEntity> {
    Some(LibEntity::Type(Type::object(Object::Tag(name)).into()))
}

// ---- extents

fn index_scalar(sema: &Sema<'_>, ty: &QualType, span: Span) -> Res<Scalar> {
    match ty.ty {
        Type::Scalar(scalar) if scalar.is_integer() => Ok(scalar),
        _ => sema.err(
            "E0825",
            format!(
                "the index type of extents must be an integer type, not '{}'",
                sema.qual_name(ty)
            ),
            span,
        ),
    }
}

fn instantiate_extents(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let index = index_scalar(sema, type_at(sema, "extents", &args, 0, span)?, span)?;
    let mut extents = Vec::new();
    for at in 1..args.len() {
        extents.push(extent_at(sema, "extents", &args, at, span)?);
    }
    check_rank(sema, extents.len() as i128, span)?;
    Ok(Type::object(Object::Extents(ExtentsType { index, extents })).into())
}

/// A static extent among template arguments; `None` for `dynamic_extent`, as `size_t` or as −1 of a signed type.
fn extent_at(
    sema: &Sema<'_>,
    what: &str,
    args: &[TemplateArg],
    at: usize,
    span: Span,
) -> Res<Option<u64>> {
    let value = int_at(sema, what, args, at, span)?;
    if value < -1 {
        return sema.err_help(
            "E0855",
            format!("an extent of '{what}' cannot be {value}"),
            span,
            "an extent is a count of elements, or 'dynamic_extent'",
        );
    }
    Ok(extent(value))
}

fn instantiate_dextents(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let index = index_scalar(sema, type_at(sema, "dextents", &args, 0, span)?, span)?;
    let rank = int_at(sema, "dextents", &args, 1, span)?;
    let rank = check_rank(sema, rank, span)?;
    Ok(Type::object(Object::Extents(ExtentsType {
        index,
        extents: vec![None; rank],
    }))
    .into())
}

fn check_rank(sema: &Sema<'_>, rank: i128, span: Span) -> Res<usize> {
    match usize::try_from(rank) {
        Ok(rank) if rank <= MAX_RANK => Ok(rank),
        _ => sema.err(
            "E0826",
            format!("a tensor's rank is 0 to {MAX_RANK}, not {rank}"),
            span,
        ),
    }
}

impl ExtentsType {
    /// The rank.
    pub fn rank(&self) -> usize {
        self.extents.len()
    }

    fn dynamic(&self) -> usize {
        self.extents
            .iter()
            .filter(|extent| extent.is_none())
            .count()
    }
}

/// `extents<…>(a, b)`: one argument for each dimension or for each dynamic one.
pub fn construct_extents(
    sema: &mut Sema<'_>,
    ty: &ExtentsType,
    args: &[Arg],
    span: Span,
) -> Res<Operand> {
    let whole = Type::object(Object::Extents(ty.clone()));
    if let [Arg::Operand(operand, _)] = args
        && let Some(Object::Extents(from)) = operand.ty().as_object()
    {
        let from = from.clone();
        let value = sema.rvalue(operand.clone())?;
        return convert_extents(sema, &from, &value, ty, span).map(Operand::Value);
    }
    let (rank, dynamic) = (ty.rank(), ty.dynamic());
    if args.is_empty() {
        let leaves = vec![Sema::int_leaf(ty.index, 0); dynamic];
        return Ok(Value { ty: whole, leaves }.into());
    }
    let mut leaves = Vec::new();
    for arg in args {
        match arg {
            Arg::Operand(operand, span) => {
                let value = sema.rvalue(operand.clone())?;
                if matches!(value.ty, Type::Array(..)) {
                    leaves.extend(value.leaves);
                } else {
                    leaves.push(args::scalar_of(sema, &value, ty.index, *span)?);
                }
            }
            Arg::List(items, span) => {
                let inner: Vec<Arg> = items.iter().map(|(_, item)| item.clone()).collect();
                return construct_extents(sema, ty, &inner, *span);
            }
        }
    }
    if leaves.len() != rank && leaves.len() != dynamic {
        let or = if dynamic == rank {
            String::new()
        } else {
            format!(", or {dynamic} (one for each dynamic extent)")
        };
        return sema.err(
            "E0827",
            format!(
                "extents of rank {rank} take {rank} values{or}, {} given",
                leaves.len()
            ),
            span,
        );
    }
    if leaves.len() == rank && rank != dynamic {
        let mut kept = Vec::new();
        for (leaf, fixed) in leaves.into_iter().zip(&ty.extents) {
            match (fixed, sema.int_of(&leaf)) {
                (None, _) => kept.push(leaf),
                (Some(fixed), Some(given)) if i128::from(*fixed) != given => {
                    return sema.err(
                        "E0828",
                        format!("extent {given} is given where the type says {fixed}"),
                        span,
                    );
                }
                _ => {}
            }
        }
        leaves = kept;
    }
    let leaves = leaves
        .iter()
        .map(|leaf| sema.convert_leaf(leaf, ty.index))
        .collect::<Res<_>>()?;
    Ok(Value { ty: whole, leaves }.into())
}

/// All extents of a value as `i64` leaves.
pub fn extent_leaves(sema: &mut Sema<'_>, ty: &ExtentsType, value: &Value) -> Res<Vec<Leaf>> {
    let mut dynamic = value.leaves.iter();
    let mut out = Vec::with_capacity(ty.rank());
    for fixed in &ty.extents {
        match fixed {
            Some(fixed) => out.push(Sema::int_leaf(Scalar::I64, i128::from(*fixed))),
            None => {
                let leaf = dynamic
                    .next()
                    .cloned()
                    .unwrap_or_else(|| Sema::int_leaf(Scalar::I64, 0));
                out.push(sema.convert_leaf(&leaf, Scalar::I64)?);
            }
        }
    }
    Ok(out)
}

fn convert_extents(
    sema: &mut Sema<'_>,
    from: &ExtentsType,
    value: &Value,
    to: &ExtentsType,
    span: Span,
) -> Res<Value> {
    if from.rank() != to.rank() {
        return sema.err(
            "E0829",
            format!(
                "extents of rank {} cannot become extents of rank {}",
                from.rank(),
                to.rank()
            ),
            span,
        );
    }
    let all = extent_leaves(sema, from, value)?;
    let mut leaves = Vec::new();
    for (leaf, fixed) in all.iter().zip(&to.extents) {
        if fixed.is_none() {
            leaves.push(sema.convert_leaf(leaf, to.index)?);
        }
    }
    Ok(Value {
        ty: Type::object(Object::Extents(to.clone())),
        leaves,
    })
}

/// `extent(r)`, `rank()`, `static_extent(r)`, …
pub fn extents_method(
    sema: &mut Sema<'_>,
    ty: &ExtentsType,
    object: &Operand,
    call: &Call<'_>,
) -> Option<Res<Operand>> {
    let count = |value: usize| Ok(sema_int(Scalar::U64, value as i128));
    Some(match call.name {
        "rank" => count(ty.rank()),
        "rank_dynamic" => count(ty.dynamic()),
        "static_extent" => static_extent(sema, ty, call),
        "extent" => (|| {
            let value = sema.rvalue(object.clone())?;
            let leaves = extent_leaves(sema, ty, &value)?;
            let at = dimension(sema, call, ty.rank())?;
            let leaf = sema.convert_leaf(&leaves[at], ty.index)?;
            Ok(Value::one(ty.index, leaf).into())
        })(),
        _ => return None,
    })
}

fn sema_int(scalar: Scalar, value: i128) -> Operand {
    Value::one(scalar, Sema::int_leaf(scalar, value)).into()
}

/// A constant dimension index of a call.
fn dimension(sema: &mut Sema<'_>, call: &Call<'_>, rank: usize) -> Res<usize> {
    expect_count(sema, call, 1..=1)?;
    let leaf = args::scalar(sema, call, 0, Scalar::I64)?;
    match sema.int_of(&leaf) {
        Some(at) if (0..rank as i128).contains(&at) => Ok(at as usize),
        Some(at) => sema.err(
            "E0831",
            format!("dimension {at} is outside a tensor of rank {rank}"),
            call.args[0].span(),
        ),
        None => sema.err_help(
            "E0832",
            "the dimension must be a constant here",
            call.args[0].span(),
            "unroll the loop over dimensions by hand",
        ),
    }
}

fn static_extent(sema: &mut Sema<'_>, ty: &ExtentsType, call: &Call<'_>) -> Res<Operand> {
    let at = dimension(sema, call, ty.rank())?;
    Ok(sema_int(
        Scalar::U64,
        ty.extents[at].map_or(i128::from(u64::MAX), i128::from),
    ))
}

// ---- tensor types

fn instantiate_blockwise(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
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
            format!(
                "'{}' cannot be the element type of a plane",
                sema.qual_name(element)
            ),
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
                return sema.err(
                    "E0835",
                    format!("block size {factor} is not positive"),
                    span,
                );
            }
        }
    }
    Ok(Type::object(Object::ScalePlane(PlaneType {
        format,
        space,
        block,
    }))
    .into())
}

fn instantiate_tensor(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let element = type_at(sema, "tensor", &args, 0, span)?.clone();
    let Some(format) = element_format(&element.ty) else {
        return sema.err_help(
            "E0830",
            format!(
                "'{}' cannot be the element type of a tensor",
                sema.qual_name(&element)
            ),
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
    if tensor.storage != TensorStorage::Inline
        && !matches!(tensor.space, Space::Device | Space::Constant)
    {
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
fn deduce_tensor(sema: &mut Sema<'_>, args: &[Arg], span: Span) -> Res<Type> {
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
            format!(
                "'{}' cannot be the element type of a tensor",
                sema.qual_name(&pointee)
            ),
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

/// The leaves of a tensor type.
pub fn leaves(ty: &TensorType) -> Vec<LeafKind> {
    let rank = ty.extents.rank();
    let numbers = |n: usize| std::iter::repeat_n(LeafKind::Value(Scalar::I64.into()), n);
    let mut out = Vec::new();
    match ty.storage {
        TensorStorage::Handle => out.push(LeafKind::Value(Scalar::U64.into())),
        TensorStorage::Offset => {
            out.push(LeafKind::Value(Scalar::U64.into()));
            out.extend(numbers(rank + ty.extents.dynamic()));
        }
        TensorStorage::Inline => {
            out.push(LeafKind::Value(IrType::Pointer(ty.space)));
            out.extend(numbers(3 * rank + ty.extents.dynamic()));
            if let Some(plane) = &ty.plane {
                out.push(LeafKind::Value(IrType::Pointer(plane.space)));
                out.extend(numbers(rank));
            }
        }
    }
    out
}

/// The parts of a tensor value as leaves.
struct Parts {
    pointer: Leaf,
    base: Vec<Leaf>,
    strides: Vec<Leaf>,
    origin: Vec<Leaf>,
    /// `None`: all that is left of the base.
    extents: Vec<Option<Leaf>>,
    scales: Option<(Leaf, Vec<Leaf>)>,
}

fn query(sema: &mut Sema<'_>, ty: &TensorType, handle: ValueId, field: TensorField) -> Res<Leaf> {
    let result = match field {
        TensorField::Pointer => IrType::Pointer(ty.space),
        TensorField::ScalePointer => {
            IrType::Pointer(ty.plane.as_ref().map_or(ty.space, |plane| plane.space))
        }
        _ => Scalar::I64.into(),
    };
    let mut spec = Box::new(tensor_spec(ty));
    if ty.storage == TensorStorage::Offset {
        // The type of a slice has the extents of the view; what the bound tensor has is not known here.
        spec.extents.fill(None);
    }
    sema.emit1(
        Op::TensorQuery {
            handle,
            spec,
            field,
        },
        result,
    )
}

fn parts(sema: &mut Sema<'_>, ty: &TensorType, value: &Value) -> Res<Parts> {
    let rank = ty.extents.rank();
    let dims = 0..rank as u32;
    match ty.storage {
        TensorStorage::Handle | TensorStorage::Offset => {
            sema.runtime_only()?;
            let handle = sema.materialize(&value.leaves[0])?;
            let pointer = query(sema, ty, handle, TensorField::Pointer)?;
            let base = dims
                .clone()
                .map(|d| query(sema, ty, handle, TensorField::Extent(d)))
                .collect::<Res<_>>()?;
            let strides = dims
                .clone()
                .map(|d| query(sema, ty, handle, TensorField::Stride(d)))
                .collect::<Res<_>>()?;
            let scales = match &ty.plane {
                Some(_) => {
                    let pointer = query(sema, ty, handle, TensorField::ScalePointer)?;
                    let strides = dims
                        .map(|d| query(sema, ty, handle, TensorField::ScaleStride(d)))
                        .collect::<Res<_>>()?;
                    Some((pointer, strides))
                }
                None => None,
            };
            let zero = Sema::int_leaf(Scalar::I64, 0);
            let (origin, mut rest) = if ty.storage == TensorStorage::Handle {
                (vec![zero; rank], [].iter())
            } else {
                (
                    value.leaves[1..=rank].to_vec(),
                    value.leaves[rank + 1..].iter(),
                )
            };
            let whole = ty.storage == TensorStorage::Handle;
            let extents = view_extents(ty, whole, &mut rest);
            Ok(Parts {
                pointer,
                base,
                strides,
                origin,
                extents,
                scales,
            })
        }
        TensorStorage::Inline => {
            let part = |n: usize| value.leaves[1 + n * rank..1 + (n + 1) * rank].to_vec();
            let mut rest = value.leaves[1 + 3 * rank..].iter();
            let extents = view_extents(ty, false, &mut rest);
            let scales = ty.plane.as_ref().and_then(|_| {
                let pointer = rest.next()?.clone();
                Some((pointer, rest.cloned().collect()))
            });
            Ok(Parts {
                pointer: value.leaves[0].clone(),
                base: part(0),
                strides: part(1),
                origin: part(2),
                extents,
                scales,
            })
        }
    }
}

/// The extents of a view; for a whole tensor what is left of the base.
fn view_extents(
    ty: &TensorType,
    whole: bool,
    rest: &mut std::slice::Iter<'_, Leaf>,
) -> Vec<Option<Leaf>> {
    ty.extents
        .extents
        .iter()
        .map(|fixed| match fixed {
            Some(fixed) => Some(Sema::int_leaf(Scalar::I64, i128::from(*fixed))),
            None if whole => None,
            None => rest.next().cloned(),
        })
        .collect()
}

/// The view of a tensor operand, for an operation of the IR.
pub fn view(sema: &mut Sema<'_>, operand: &Operand) -> Res<TensorRef> {
    let Some(Object::Tensor(ty)) = operand.ty().as_object() else {
        let name = sema.type_name(operand.ty());
        return sema.err(
            "E0842",
            format!("expected a tensor, not '{name}'"),
            sema.span,
        );
    };
    let ty = ty.clone();
    let value = sema.rvalue(operand.clone())?;
    let parts = parts(sema, &ty, &value)?;
    let ids = |sema: &mut Sema<'_>, leaves: &[Leaf]| -> Res<Vec<ValueId>> {
        leaves.iter().map(|leaf| sema.materialize(leaf)).collect()
    };
    let pointer = sema.materialize(&parts.pointer)?;
    let base_extents = ids(sema, &parts.base)?;
    let strides = ids(sema, &parts.strides)?;
    let origin = ids(sema, &parts.origin)?;
    let mut extents = Vec::new();
    for (leaf, fixed) in parts.extents.iter().zip(&ty.extents.extents) {
        extents.push(match (fixed, leaf) {
            (Some(fixed), _) => Extent::Static(*fixed),
            (None, Some(leaf)) => Extent::Dynamic(sema.materialize(leaf)?),
            (None, None) => Extent::Rest,
        });
    }
    let scales = match (&ty.plane, &parts.scales) {
        (Some(plane), Some((pointer, strides))) => Some(ScalePlane {
            pointer: sema.materialize(pointer)?,
            space: plane.space,
            format: plane.format,
            block: plane.block.clone(),
            strides: ids(sema, strides)?,
        }),
        _ => None,
    };
    Ok(TensorRef {
        pointer,
        space: ty.space,
        format: ty.format,
        base_extents,
        strides,
        origin,
        extents,
        scales,
        root: None,
    })
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
            format!("a 'tensor_inline' tensor takes a pointer, extents, strides and a plane; {} arguments given", args.len()),
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
fn packed(sema: &mut Sema<'_>, extents: &[Leaf]) -> Res<Vec<Leaf>> {
    let mut stride = Sema::int_leaf(Scalar::I64, 1);
    let mut out = Vec::with_capacity(extents.len());
    for extent in extents {
        out.push(stride.clone());
        stride = sema.binary_leaf(BinaryOp::Mul, &stride, extent, MathMode::Precise)?;
    }
    Ok(out)
}

/// The pointer argument of a constructor: to the element type, or to bytes for a format type.
fn data_pointer(sema: &mut Sema<'_>, ty: &TensorType, arg: &Arg) -> Res<Leaf> {
    let span = arg.span();
    let Some(operand) = arg.operand().cloned() else {
        return sema.err("E0812", "a tensor's first argument is a pointer", span);
    };
    let (pointee, leaf) = match operand {
        Operand::Place(LValue {
            ty: Type::Array(element, _),
            place:
                Place::Memory {
                    pointer,
                    offset,
                    space,
                    ..
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
    let bytes =
        matches!(pointee.ty, Type::Scalar(Scalar::U8 | Scalar::I8)) && ty.format.is_format_type();
    if !bytes && element_format(&pointee.ty) != Some(ty.format) {
        let (from, to) = (
            sema.qual_name(&pointee),
            sema.type_name(&element_type(ty.format)),
        );
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
fn constructor_extents(sema: &mut Sema<'_>, ty: &TensorType, arg: &Arg) -> Res<Vec<Leaf>> {
    let operand = match arg {
        Arg::Operand(operand, _)
            if matches!(operand.ty().as_object(), Some(Object::Extents(_))) =>
        {
            operand.clone()
        }
        other => construct_extents(sema, &ty.extents, std::slice::from_ref(other), other.span())?,
    };
    let Some(Object::Extents(from)) = operand.ty().as_object().cloned() else {
        return sema.err(
            "E0836",
            "the second argument of a tensor is its extents",
            arg.span(),
        );
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
        .map(|(leaf, fixed)| {
            fixed.map_or(leaf, |fixed| Sema::int_leaf(Scalar::I64, i128::from(fixed)))
        })
        .collect())
}

/// Static → dynamic extents, handle → handle with offset. `None` if there is no such conversion.
pub fn convert(
    sema: &mut Sema<'_>,
    from: &Operand,
    to: &TensorType,
    dry: bool,
    _span: Span,
) -> Option<Res<Value>> {
    let Some(Object::Tensor(ty)) = from.ty().as_object() else {
        return None;
    };
    let ty = ty.clone();
    let fits = ty
        .extents
        .extents
        .iter()
        .zip(&to.extents.extents)
        .all(|(a, b)| b.is_none() || a.is_none() || a == b);
    let storage = ty.storage == to.storage
        || (ty.storage, to.storage) == (TensorStorage::Handle, TensorStorage::Offset);
    if ty.format != to.format
        || ty.space != to.space
        || (ty.is_const && !to.is_const)
        || ty.extents.rank() != to.extents.rank()
        || ty.plane != to.plane
        || !fits
        || !storage
    {
        return None;
    }
    let whole = Type::object(Object::Tensor(to.clone()));
    if dry {
        return Some(Ok(Value::empty(whole)));
    }
    Some((|| {
        let value = sema.rvalue(from.clone())?;
        if ty.storage == to.storage && ty.storage == TensorStorage::Handle {
            return Ok(Value {
                ty: whole,
                leaves: value.leaves,
            });
        }
        let parts = parts(sema, &ty, &value)?;
        rebuild(sema, &value, parts, to)
    })())
}

/// A value of a view type from its parts. `handle_of` gives the handle of a handle tensor.
fn rebuild(sema: &mut Sema<'_>, handle_of: &Value, parts: Parts, to: &TensorType) -> Res<Value> {
    let mut leaves = Vec::new();
    if to.storage == TensorStorage::Inline {
        leaves.push(parts.pointer.clone());
        leaves.extend(parts.base.iter().cloned());
        leaves.extend(parts.strides.iter().cloned());
    } else {
        leaves.push(handle_of.leaves[0].clone());
    }
    leaves.extend(parts.origin.iter().cloned());
    for (d, fixed) in to.extents.extents.iter().enumerate() {
        if fixed.is_none() {
            leaves.push(extent_of(sema, &parts, d)?);
        }
    }
    if to.storage == TensorStorage::Inline
        && let Some((pointer, strides)) = parts.scales
    {
        leaves.push(pointer);
        leaves.extend(strides);
    }
    Ok(Value {
        ty: Type::object(Object::Tensor(to.clone())),
        leaves,
    })
}

/// The run-time extent of a view.
fn extent_of(sema: &mut Sema<'_>, parts: &Parts, d: usize) -> Res<Leaf> {
    match &parts.extents[d] {
        Some(leaf) => Ok(leaf.clone()),
        None => sema.binary_leaf(
            BinaryOp::Sub,
            &parts.base[d],
            &parts.origin[d],
            MathMode::Precise,
        ),
    }
}

/// `t.slice(i, j)` and `t.slice<E0, E1>(i, j)`.
fn slice(sema: &mut Sema<'_>, ty: &TensorType, object: &Operand, call: &Call<'_>) -> Res<Operand> {
    let rank = ty.extents.rank();
    let explicit = flatten(call.template_args);
    if !explicit.is_empty() && explicit.len() != rank {
        return sema.err_help(
            "E0852",
            format!("no matching member function: slice of a tensor of rank {rank} takes {rank} extents, {} given", explicit.len()),
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
                format!("no matching member function: a slice of {fixed} elements in dimension {d} of a tensor with {of}"),
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
    let indices = args::indices(
        sema,
        args,
        ty.extents.rank(),
        "an element of a tensor",
        span,
    )?;
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
pub fn method(
    sema: &mut Sema<'_>,
    ty: &TensorType,
    object: &Operand,
    call: &Call<'_>,
) -> Option<Res<Operand>> {
    let rank = ty.extents.rank();
    let flag = |value: bool| Ok(sema_int(Scalar::Bool, i128::from(value)));
    Some(match call.name {
        "get_rank" => Ok(sema_int(Scalar::U64, rank as i128)),
        "get_static_extent" => static_extent(sema, &ty.extents, call),
        "has_static_extent" => {
            dimension(sema, call, rank).and_then(|d| flag(ty.extents.extents[d].is_some()))
        }
        "has_all_static_extent" => flag(ty.extents.dynamic() == 0),
        "get_extent" => run_time(sema, ty, object, call, true),
        "get_stride" => run_time(sema, ty, object, call, false),
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
        "get" | "load" => clipped(sema, ty, object, call.args, call.span)
            .and_then(|place| sema.load(&place).map(Operand::Value)),
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
                Type::Scalar(scalar) => {
                    Value::one(scalar, args::scalar_of(sema, &value, scalar, call.span)?)
                }
                _ => value,
            };
            sema.store(&place, &value)?;
            Ok(Operand::void())
        })(),
        _ => return None,
    })
}

fn clipped(
    sema: &mut Sema<'_>,
    ty: &TensorType,
    object: &Operand,
    args: &[Arg],
    span: Span,
) -> Res<LValue> {
    match element(sema, object, args, span)? {
        Operand::Place(LValue {
            place: Place::TensorElement {
                tensor, indices, ..
            },
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

/// `get_extent(r)` and `get_stride(r)`; the dimension may be known at run time only.
fn run_time(
    sema: &mut Sema<'_>,
    ty: &TensorType,
    object: &Operand,
    call: &Call<'_>,
    extent: bool,
) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let at = args::scalar(sema, call, 0, Scalar::I64)?;
    let value = sema.rvalue(object.clone())?;
    let parts = parts(sema, ty, &value)?;
    let mut all = Vec::new();
    for d in 0..ty.extents.rank() {
        all.push(if extent {
            extent_of(sema, &parts, d)?
        } else {
            parts.strides[d].clone()
        });
    }
    let leaf = match sema.int_of(&at) {
        Some(_) => all[dimension(sema, call, all.len())?].clone(),
        None => {
            let Some(mut chosen) = all.first().cloned() else {
                return sema.err(
                    "E0831",
                    "a tensor of rank 0 has no dimensions",
                    call.args[0].span(),
                );
            };
            for (d, leaf) in all.iter().enumerate().skip(1) {
                let is =
                    sema.compare_leaf(CompareOp::Eq, &at, &Sema::int_leaf(Scalar::I64, d as i128))?;
                chosen = sema.select_leaf(&is, leaf, &chosen)?;
            }
            chosen
        }
    };
    let leaf = sema.convert_leaf(&leaf, ty.extents.index)?;
    Ok(Value::one(ty.extents.index, leaf).into())
}

fn is_null_tensor(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
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
        sema.compare_leaf(
            CompareOp::Ne,
            &value.leaves[0],
            &Sema::int_leaf(Scalar::U64, 0),
        )?
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
