//! The parts of a tensor value, and the view that operations of the IR take.

use super::tensor_spec;
use crate::sema::context::{Res, Sema};
use crate::sema::types::{Object, TensorStorage, TensorType, Type};
use crate::sema::value::{Leaf, LeafKind, Operand, Value};
use crate::source::Span;
use anymetal_ir::{
    BinaryOp, Extent, MathMode, Op, Scalar, ScalePlane, TensorField, TensorRef, Type as IrType, ValueId,
};

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
pub(super) struct Parts {
    pub(super) pointer: Leaf,
    pub(super) base: Vec<Leaf>,
    pub(super) strides: Vec<Leaf>,
    pub(super) origin: Vec<Leaf>,
    /// `None`: all that is left of the base.
    pub(super) extents: Vec<Option<Leaf>>,
    pub(super) scales: Option<(Leaf, Vec<Leaf>)>,
}

pub(super) fn query(sema: &mut Sema<'_>, ty: &TensorType, handle: ValueId, field: TensorField) -> Res<Leaf> {
    let result = match field {
        TensorField::Pointer => IrType::Pointer(ty.space),
        TensorField::ScalePointer => IrType::Pointer(ty.plane.as_ref().map_or(ty.space, |plane| plane.space)),
        _ => Scalar::I64.into(),
    };
    let mut spec = Box::new(tensor_spec(ty));
    if ty.storage == TensorStorage::Offset {
        // The type of a slice has the extents of the view; what the bound tensor has is not known here.
        spec.extents.fill(None);
    }
    sema.emit1(Op::TensorQuery { handle, spec, field }, result)
}

pub(super) fn parts(sema: &mut Sema<'_>, ty: &TensorType, value: &Value) -> Res<Parts> {
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
                (value.leaves[1..=rank].to_vec(), value.leaves[rank + 1..].iter())
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
pub(super) fn view_extents(ty: &TensorType, whole: bool, rest: &mut std::slice::Iter<'_, Leaf>) -> Vec<Option<Leaf>> {
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
        return sema.err("E0842", format!("expected a tensor, not '{name}'"), sema.span);
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

/// Static → dynamic extents, handle → handle with offset. `None` if there is no such conversion.
pub fn convert(sema: &mut Sema<'_>, from: &Operand, to: &TensorType, dry: bool, _span: Span) -> Option<Res<Value>> {
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
    let storage =
        ty.storage == to.storage || (ty.storage, to.storage) == (TensorStorage::Handle, TensorStorage::Offset);
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
pub(super) fn rebuild(sema: &mut Sema<'_>, handle_of: &Value, parts: Parts, to: &TensorType) -> Res<Value> {
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
pub(super) fn extent_of(sema: &mut Sema<'_>, parts: &Parts, d: usize) -> Res<Leaf> {
    match &parts.extents[d] {
        Some(leaf) => Ok(leaf.clone()),
        None => sema.binary_leaf(BinaryOp::Sub, &parts.base[d], &parts.origin[d], MathMode::Precise),
    }
}
