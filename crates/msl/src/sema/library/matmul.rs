//! `matmul2d` and its static rules (reference 3, 4 and 5.5).

use std::rc::Rc;

use anymetal_formats::ElementFormat;
use anymetal_ir::{CoopRole, LayoutKind, MatmulDescriptor, Op, Operand as TileOperand, Scalar};

use super::args::{self, element_format, expect_count, flatten, int_at, integers, type_at};
use super::{Call, LibEntity, coop, view};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{CoopType, Object, QualType, Space, TemplateArg, TensorType, Type};
use crate::sema::value::{Operand, Value};
use crate::source::Span;

/// Execution scopes, of namespace `metal`.
pub fn lookup_scope(name: &str) -> Option<LibEntity> {
    let scope = |n| Some(LibEntity::Type(Type::object(Object::ExecutionScope(n)).into()));
    match name {
        "execution_simdgroup" => scope(1),
        "execution_thread" => scope(0),
        "execution_simdgroups" => Some(LibEntity::Template {
            name: "execution_simdgroups",
            instantiate: instantiate_scope,
            deduce: None,
        }),
        _ => None,
    }
}

/// `matmul2d`, of namespace `mpp::tensor_ops`. Its descriptor is a struct of the prelude.
pub fn lookup(name: &str) -> Option<LibEntity> {
    match name {
        "matmul2d" => Some(LibEntity::Template {
            name: "matmul2d",
            instantiate,
            deduce: None,
        }),
        _ => None,
    }
}

fn instantiate_scope(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let count = int_at(sema, "execution_simdgroups", &args, 0, span)?;
    if !(1..=32).contains(&count) {
        return sema.err(
            "E0874",
            format!("'execution_simdgroups<{count}>': a threadgroup has 1 to 32 SIMD-groups"),
            span,
        );
    }
    Ok(Type::object(Object::ExecutionScope(count as u32)).into())
}

fn instantiate(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let given = match args.first() {
        Some(TemplateArg::Value(value)) => integers(value)
            .filter(|fields| fields.len() == 7)
            .map(|fields| (fields, Rc::new(value.clone()))),
        _ => None,
    };
    let Some((fields, constant)) = given else {
        return sema.err_help(
            "E0875",
            "the first template argument of 'matmul2d' must be a constant 'matmul2d_descriptor'",
            span,
            "declare it as 'constexpr auto descriptor = matmul2d_descriptor(…);'",
        );
    };
    let scope = type_at(sema, "matmul2d", &args, 1, span)?;
    let Some(Object::ExecutionScope(simdgroups)) = scope.ty.as_object() else {
        return sema.err_help(
            "E0876",
            format!(
                "Scope template argument should be of op_scope type, not '{}'",
                sema.qual_name(scope)
            ),
            span,
            "use 'execution_simdgroup' or 'execution_simdgroups<N>'",
        );
    };
    let simdgroups = *simdgroups;
    if simdgroups == 0 {
        return sema.err_help(
            "E0877",
            "'matmul2d' with the scope 'execution_thread' is not supported yet",
            span,
            "use 'execution_simdgroup': one SIMD-group computes the tile",
        );
    }
    let size = |name: &str, value: i128| match u32::try_from(value) {
        Ok(value @ 1..=65536) => Ok(value),
        _ => sema.err(
            "E0878",
            format!("matmul2d_descriptor: {name} = {value} is not in 1…65536"),
            span,
        ),
    };
    let (m, n) = (size("m", fields[0])?, size("n", fields[1])?);
    // −1 is dynamic_extent, INT_MAX is dynamic_length_v; 0 is used as if dynamic in the specification's examples.
    let dynamic = [-1, 0, i128::from(i32::MAX)].contains(&fields[2]);
    let k = if dynamic { None } else { Some(size("k", fields[2])?) };
    let descriptor = MatmulDescriptor {
        m,
        n,
        k,
        transpose_left: fields[3] != 0,
        transpose_right: fields[4] != 0,
        relaxed_precision: fields[5] != 0,
        accumulate: fields[6] != 0,
    };
    if k.is_some_and(|k| k % 16 != 0) {
        sema.refuse(
            "E0879",
            "K must be dynamic or a multiple of 16",
            span,
            format!("k is {}", fields[2]),
        )?;
    }
    Ok(Type::object(Object::Matmul {
        descriptor,
        simdgroups,
        constant,
    })
    .into())
}

/// An operand of `run` as far as rules are concerned.
#[derive(Clone)]
enum Kind {
    Tensor(TensorType),
    Coop(CoopType),
}

impl Kind {
    fn of_type(ty: &Type) -> Option<Self> {
        match ty.as_object()? {
            Object::Tensor(ty) => Some(Kind::Tensor(ty.clone())),
            Object::Coop(ty) => Some(Kind::Coop(ty.clone())),
            _ => None,
        }
    }

    fn format(&self) -> ElementFormat {
        match self {
            Kind::Tensor(ty) => ty.format,
            Kind::Coop(ty) => ty.element,
        }
    }
}

/// The rows of reference 4.4: is this triple of element types supported?
fn supported(left: ElementFormat, right: ElementFormat, destination: ElementFormat) -> bool {
    use ElementFormat::*;
    match (left, right) {
        (F16, F16) | (F16, I8 | U8) | (I8 | U8, F16) => matches!(destination, F16 | F32),
        (F16 | F32 | BF16, F32) | (F32, F16 | BF16 | I8 | U8) | (I8 | U8, F32) => destination == F32,
        (I8, I8) | (U8, U8) | (I8, Int4B | Int2B) | (U8, UInt4B | UInt2B) => destination == I32,
        (BF16, BF16) | (BF16, I8 | U8) | (I8 | U8, BF16) => matches!(destination, BF16 | F32),
        (BF16, F16) | (F16, BF16) => matches!(destination, BF16 | F16 | F32),
        (F16, Int4B | UInt4B | Int2B | UInt2B) => matches!(destination, F16 | F32),
        (BF16, Int4B | UInt4B | Int2B | UInt2B) => matches!(destination, BF16 | F32),
        (F16, Fp4E2M1 | Fp8E4M3 | Fp8E5M2) => matches!(destination, F16 | F32),
        (Fp4E2M1, Fp4E2M1) | (Fp8E4M3, Fp8E4M3) | (Fp8E5M2, Fp8E5M2) => {
            matches!(destination, F16 | F32)
        }
        _ => false,
    }
}

fn check_formats(
    sema: &Sema<'_>,
    left: ElementFormat,
    right: ElementFormat,
    destination: ElementFormat,
    span: Span,
) -> Res<()> {
    if supported(left, right, destination) {
        return Ok(());
    }
    let note = format!(
        "left '{}', right '{}', destination '{}'",
        left.msl_name(),
        right.msl_name(),
        destination.msl_name()
    );
    let help = destinations(left, right);
    sema.err_help(
        "E0880",
        format!("Unsupported type: matmul2d has no row for {note}"),
        span,
        help,
    )
}

/// What would be allowed instead.
fn destinations(left: ElementFormat, right: ElementFormat) -> String {
    let names: Vec<&str> = [
        ElementFormat::F32,
        ElementFormat::F16,
        ElementFormat::BF16,
        ElementFormat::I32,
    ]
    .into_iter()
    .filter(|&destination| supported(left, right, destination))
    .map(ElementFormat::msl_name)
    .collect();
    if names.is_empty() {
        "these operand types cannot be multiplied; convert one of them first".to_string()
    } else {
        format!("these operands can have a destination of {}", names.join(" or "))
    }
}

/// Strict float products have layout S, tensor-unit products layout R (reference 5.6).
pub(super) fn layout(
    sema: &Sema<'_>,
    descriptor: &MatmulDescriptor,
    left: ElementFormat,
    right: ElementFormat,
) -> LayoutKind {
    if sema.options.permuted_layout {
        return LayoutKind::Permuted;
    }
    let float = left == ElementFormat::F32 || right == ElementFormat::F32;
    if float && !descriptor.relaxed_precision {
        LayoutKind::S
    } else {
        LayoutKind::R
    }
}

/// Member functions of `matmul2d<…>`.
pub fn method(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    call: &Call<'_>,
) -> Option<Res<Operand>> {
    let descriptor = *descriptor;
    let operands = |role| move |sema: &mut Sema<'_>| destination(sema, &descriptor, simdgroups, role, call);
    Some(match call.name {
        "run" => run(sema, &descriptor, simdgroups, call),
        "get_destination_cooperative_tensor" => operands(CoopRole::Destination)(sema),
        "get_row_reduction_destination_cooperative_tensor" => operands(CoopRole::RowReduction)(sema),
        "get_column_reduction_destination_cooperative_tensor" => operands(CoopRole::ColumnReduction)(sema),
        "get_left_input_cooperative_tensor" => input(sema, &descriptor, simdgroups, CoopRole::Left, call),
        "get_right_input_cooperative_tensor" => input(sema, &descriptor, simdgroups, CoopRole::Right, call),
        "is_compatible_as_left_input" => compatible(sema, &descriptor, simdgroups, CoopRole::Left, call),
        "is_compatible_as_right_input" => compatible(sema, &descriptor, simdgroups, CoopRole::Right, call),
        _ => return None,
    })
}

/// The type behind `cooperative_tensor_destination_t<…>` and its siblings.
pub fn member_alias(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    name: &str,
    args: &[TemplateArg],
    span: Span,
) -> Option<Res<QualType>> {
    let role = match name {
        "cooperative_tensor_left_input_t" => CoopRole::Left,
        "cooperative_tensor_right_input_t" => CoopRole::Right,
        "cooperative_tensor_destination_t" => CoopRole::Destination,
        "cooperative_tensor_row_reduction_destination_t" => CoopRole::RowReduction,
        "cooperative_tensor_column_reduction_destination_t" => CoopRole::ColumnReduction,
        _ => return None,
    };
    let ty = match role {
        CoopRole::Left | CoopRole::Right => input_type(sema, descriptor, simdgroups, role, name, args, span),
        _ => destination_type(sema, descriptor, simdgroups, role, name, args, span),
    };
    Some(ty.map(|ty| Type::object(Object::Coop(ty)).into()))
}

pub(super) fn coordinate_type(sema: &Sema<'_>, name: &str, args: &[TemplateArg], at: usize, span: Span) -> Res<Scalar> {
    if args.len() <= at {
        return Ok(Scalar::I32);
    }
    match type_at(sema, name, args, at, span)?.ty {
        Type::Scalar(scalar @ (Scalar::I16 | Scalar::U16 | Scalar::I32 | Scalar::U32)) => Ok(scalar),
        _ => sema.err(
            "E0881",
            format!(
                "the coordinate type of '{name}' must be short, ushort, int or uint, not '{}'",
                sema.qual_name(type_at(sema, name, args, at, span)?)
            ),
            span,
        ),
    }
}

pub(super) fn element_at(
    sema: &Sema<'_>,
    name: &str,
    args: &[TemplateArg],
    at: usize,
    span: Span,
) -> Res<ElementFormat> {
    let ty = type_at(sema, name, args, at, span)?;
    match element_format(&ty.ty) {
        Some(format) => Ok(format),
        None => sema.err(
            "E0882",
            format!(
                "template argument {} of '{name}' must be an element type, not '{}'",
                at + 1,
                sema.qual_name(ty)
            ),
            span,
        ),
    }
}

fn destination_type(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    role: CoopRole,
    name: &str,
    args: &[TemplateArg],
    span: Span,
) -> Res<CoopType> {
    let args = flatten(args);
    let mut formats = [ElementFormat::F32; 2];
    let mut cooperative = false;
    for (at, format) in formats.iter_mut().enumerate() {
        let ty = type_at(sema, name, &args, at, span)?;
        match Kind::of_type(&ty.ty) {
            Some(kind) => {
                *format = kind.format();
                cooperative |= matches!(kind, Kind::Coop(_));
            }
            None => {
                return sema.err_help(
                    "E0883",
                    format!(
                        "template argument {} of '{name}' must be a tensor type, not '{}'",
                        at + 1,
                        sema.qual_name(ty)
                    ),
                    span,
                    "pass the operand's type: 'decltype(tile)'",
                );
            }
        }
    }
    let element = element_at(sema, name, &args, 2, span)?;
    let index = coordinate_type(sema, name, &args, 3, span)?;
    if !coop::element_allowed(role, element) {
        return sema.err(
            "E0884",
            format!(
                "cooperative tensor data type can only be one of float, half, bfloat, int, not '{}'",
                element.msl_name()
            ),
            span,
        );
    }
    check_formats(sema, formats[0], formats[1], element, span)?;
    if !cooperative {
        check_memory_tile(sema, descriptor, span)?;
    }
    let (rows, columns) = match role {
        CoopRole::RowReduction => (descriptor.m, 1),
        CoopRole::ColumnReduction => (1, descriptor.n),
        _ => (descriptor.m, descriptor.n),
    };
    Ok(CoopType {
        role,
        element,
        operands: (formats[0], formats[1]),
        index,
        rows,
        columns,
        simdgroups,
        layout: layout(sema, descriptor, formats[0], formats[1]),
        descriptor: *descriptor,
        convolution: None,
    })
}

fn destination(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    role: CoopRole,
    call: &Call<'_>,
) -> Res<Operand> {
    expect_count(sema, call, 0..=0)?;
    let ty = destination_type(
        sema,
        descriptor,
        simdgroups,
        role,
        call.name,
        call.template_args,
        call.span,
    )?;
    require_simdgroups(sema, simdgroups);
    coop::create(sema, &ty).map(Operand::Value)
}

fn input_type(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    role: CoopRole,
    name: &str,
    args: &[TemplateArg],
    span: Span,
) -> Res<CoopType> {
    let args = flatten(args);
    let left = element_at(sema, name, &args, 0, span)?;
    let right = element_at(sema, name, &args, 1, span)?;
    let destination = element_at(sema, name, &args, 2, span)?;
    let index = coordinate_type(sema, name, &args, 3, span)?;
    check_formats(sema, left, right, destination, span)?;
    if simdgroups != 1 {
        return sema.err_help(
            "E0885",
            "Input cooperative tensors require a single SIMD group",
            span,
            "use the scope 'execution_simdgroup'",
        );
    }
    let Some(k) = descriptor.k else {
        return sema.err_help(
            "E0886",
            "Inner dimension cannot be dynamic with input cooperative tensors",
            span,
            "give the descriptor a constant k",
        );
    };
    let element = if role == CoopRole::Left { left } else { right };
    if !coop::element_allowed(role, element) {
        return sema.err(
            "E0887",
            format!(
                "input cooperative tensors of '{}' are not supported yet",
                element.msl_name()
            ),
            span,
        );
    }
    let (rows, columns) = match (role, descriptor.transpose_left, descriptor.transpose_right) {
        (CoopRole::Left, false, _) => (descriptor.m, k),
        (CoopRole::Left, true, _) => (k, descriptor.m),
        (_, _, false) => (k, descriptor.n),
        (_, _, true) => (descriptor.n, k),
    };
    Ok(CoopType {
        role,
        element,
        operands: (left, right),
        index,
        rows,
        columns,
        simdgroups,
        layout: layout(sema, descriptor, left, right),
        descriptor: *descriptor,
        convolution: None,
    })
}

/// The rules of reference 5.5 for a destination that becomes an input.
fn conversion_rule(
    sema: &Sema<'_>,
    descriptor: &MatmulDescriptor,
    role: CoopRole,
    input: &CoopType,
    source: &CoopType,
    span: Span,
) -> Res<()> {
    let transposed = if role == CoopRole::Left {
        descriptor.transpose_left
    } else {
        descriptor.transpose_right
    };
    if transposed {
        return sema.err_help(
            "E0888",
            "Input cooperative tensor cannot be transposed",
            span,
            if role == CoopRole::Left {
                "pass transpose_left = false in the descriptor"
            } else {
                "pass transpose_right = false in the descriptor"
            },
        );
    }
    if source.role != CoopRole::Destination || source.convolution.is_some() || source.simdgroups != 1 {
        return sema.err(
            "E0889",
            "only a matmul2d destination cooperative tensor of a single SIMD group can become an input",
            span,
        );
    }
    if source.element != input.element {
        return sema.err(
            "E0890",
            format!(
                "the source's elements are '{}', the input's are '{}'",
                source.element.msl_name(),
                input.element.msl_name()
            ),
            span,
        );
    }
    if (source.rows, source.columns) != (input.rows, input.columns) {
        return sema.err(
            "E0891",
            format!(
                "the source is {} × {}, the input {} × {} (rows × columns)",
                source.rows, source.columns, input.rows, input.columns
            ),
            span,
        );
    }
    Ok(())
}

fn input(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    role: CoopRole,
    call: &Call<'_>,
) -> Res<Operand> {
    expect_count(sema, call, 0..=1)?;
    let ty = input_type(
        sema,
        descriptor,
        simdgroups,
        role,
        call.name,
        call.template_args,
        call.span,
    )?;
    if call.args.is_empty() {
        return coop::create(sema, &ty).map(Operand::Value);
    }
    let source = args::operand(sema, call, 0)?.clone();
    let Some(from_ty) = coop::type_of(&source).cloned() else {
        let name = sema.type_name(source.ty());
        return sema.err(
            "E0860",
            format!("'{}' takes a cooperative tensor, not '{name}'", call.name),
            call.span,
        );
    };
    conversion_rule(sema, descriptor, role, &ty, &from_ty, call.span)?;
    let from = coop::of_operand(sema, &source)?;
    let value = coop::create(sema, &ty)?;
    let to = coop::of_operand(sema, &Operand::Value(value.clone()))?;
    sema.builder.emit_void(Op::CoopConvert { to, from });
    Ok(value.into())
}

fn compatible(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    role: CoopRole,
    call: &Call<'_>,
) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let ty = input_type(
        sema,
        descriptor,
        simdgroups,
        role,
        call.name,
        call.template_args,
        call.span,
    )?;
    let source = args::operand(sema, call, 0)?.clone();
    let Some(from_ty) = coop::type_of(&source).cloned() else {
        let name = sema.type_name(source.ty());
        return sema.err(
            "E0860",
            format!("'{}' takes a cooperative tensor, not '{name}'", call.name),
            call.span,
        );
    };
    conversion_rule(sema, descriptor, role, &ty, &from_ty, call.span)?;
    let from = coop::of_operand(sema, &source)?;
    // The query is about layouts; a tensor of the input's layout stands for it and is never touched.
    let value = coop::create(sema, &ty)?;
    let to = coop::of_operand(sema, &Operand::Value(value))?;
    let leaf = sema.emit1(Op::CoopCompatible { to, from }, Scalar::Bool)?;
    Ok(Value::one(Scalar::Bool, leaf).into())
}

/// m and n of a tile in memory (reference 4.5).
fn check_memory_tile(sema: &mut Sema<'_>, descriptor: &MatmulDescriptor, span: Span) -> Res<()> {
    let (m, n) = (descriptor.m, descriptor.n);
    if m % 8 != 0 || n % 8 != 0 {
        sema.refuse(
            "E0892",
            "M and N must be multiples of 8",
            span,
            format!("m is {m}, n is {n}"),
        )?;
    } else if m % 16 != 0 && n % 16 != 0 {
        sema.refuse(
            "E0893",
            "At least one of M or N must be a multiple of 16",
            span,
            format!("m is {m}, n is {n}"),
        )?;
    }
    Ok(())
}

/// m, n and k when both inputs are cooperative tensors (reference 4.5).
fn check_cooperative_tile(sema: &mut Sema<'_>, descriptor: &MatmulDescriptor, span: Span) -> Res<()> {
    let sizes = [descriptor.m, descriptor.n, descriptor.k.unwrap_or(0)];
    if sizes.iter().all(|size| [16, 32].contains(size)) && sizes.contains(&32) {
        return Ok(());
    }
    let [m, n, k] = sizes;
    sema.refuse(
        "E0908",
        "With two cooperative inputs M, N and K must be 16 or 32, and at least one 32",
        span,
        format!("m is {m}, n is {n}, k is {k}"),
    )
}

/// `execution_simdgroups<N>` with N > 1 asks for a threadgroup of exactly N SIMD-groups.
fn require_simdgroups(sema: &mut Sema<'_>, simdgroups: u32) {
    if simdgroups > 1 {
        let location = sema.builder.location();
        let required = &mut sema.builder.kernel_mut().required_simdgroups;
        if !required.iter().any(|(count, _)| *count == simdgroups) {
            required.push((simdgroups, location));
        }
    }
}

/// `run(left, right, destination)`
fn run(sema: &mut Sema<'_>, descriptor: &MatmulDescriptor, simdgroups: u32, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 3..=3)?;
    sema.runtime_only()?;
    let mut kinds = Vec::with_capacity(3);
    for (at, side) in ["left", "right", "destination"].into_iter().enumerate() {
        let operand = args::operand(sema, call, at)?;
        match Kind::of_type(operand.ty()) {
            Some(kind) => kinds.push(kind),
            None => {
                let name = sema.type_name(operand.ty());
                return sema.err(
                    "E0894",
                    format!("the {side} operand of 'run' must be a tensor or cooperative tensor, not '{name}'"),
                    call.args[at].span(),
                );
            }
        }
    }
    let [left, right, destination] = [kinds[0].clone(), kinds[1].clone(), kinds[2].clone()];
    check_formats(sema, left.format(), right.format(), destination.format(), call.span)?;
    for (at, kind) in kinds.iter().enumerate() {
        check_operand(sema, descriptor, simdgroups, at, kind, call)?;
    }
    if let Kind::Coop(to) = &destination
        && to.operands != (left.format(), right.format())
    {
        return sema.err_help(
            "E0895",
            "Input types must match cooperative tensor types",
            call.span,
            format!(
                "the destination was obtained for '{}' and '{}', the operands are '{}' and '{}'",
                to.operands.0.msl_name(),
                to.operands.1.msl_name(),
                left.format().msl_name(),
                right.format().msl_name()
            ),
        );
    }
    if !kinds
        .iter()
        .any(|kind| matches!(kind, Kind::Coop(ty) if ty.role != CoopRole::Destination))
    {
        check_memory_tile(sema, descriptor, call.span)?;
    }
    if matches!((&left, &right), (Kind::Coop(_), Kind::Coop(_))) {
        check_cooperative_tile(sema, descriptor, call.span)?;
    }
    check_scales(sema, descriptor, &kinds, call.span)?;
    require_simdgroups(sema, simdgroups);
    let mut tiles = Vec::with_capacity(3);
    for (at, kind) in kinds.iter().enumerate() {
        let operand = args::operand(sema, call, at)?.clone();
        tiles.push(match kind {
            Kind::Tensor(_) => TileOperand::Tensor(Box::new(view::view(sema, &operand)?)),
            Kind::Coop(_) => TileOperand::Coop(coop::of_operand(sema, &operand)?),
        });
    }
    let mut tiles = tiles.into_iter();
    if let (Some(left), Some(right), Some(destination)) = (tiles.next(), tiles.next(), tiles.next()) {
        sema.builder.emit_void(Op::Matmul {
            descriptor: *descriptor,
            simdgroups,
            left,
            right,
            destination,
        });
    }
    Ok(Operand::void())
}

/// Rank, index type, address space, constness and shape of one operand.
fn check_operand(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    simdgroups: u32,
    at: usize,
    kind: &Kind,
    call: &Call<'_>,
) -> Res<()> {
    let span = call.args[at].span();
    let side = ["left", "right", "destination"][at];
    match kind {
        Kind::Tensor(ty) => {
            let rank = ty.extents.extents.len();
            if rank != 2 {
                return sema.err(
                    "E0896",
                    format!("the {side} operand has rank {rank}; matmul2d takes rank 2"),
                    span,
                );
            }
            if ty.extents.index != Scalar::I32 {
                return sema.err_help(
                    "E0897",
                    "Index type must be int",
                    span,
                    format!(
                        "the {side} operand's extents are of '{}'",
                        crate::sema::layout::scalar_name(ty.extents.index)
                    ),
                );
            }
            if !matches!(ty.space, Space::Device | Space::Threadgroup | Space::Constant) {
                return sema.err(
                    "E0866",
                    format!(
                        "Unsupported address space: the {side} operand is in {} memory",
                        ty.space
                    ),
                    span,
                );
            }
            if at == 2 && (ty.is_const || ty.space == Space::Constant) {
                return sema.err_help(
                    "E0854",
                    "the elements of the destination are const",
                    span,
                    "declare the tensor in 'device' or 'threadgroup' memory without 'const'",
                );
            }
        }
        Kind::Coop(ty) => {
            let wanted = [CoopRole::Left, CoopRole::Right, CoopRole::Destination][at];
            if ty.role != wanted || ty.convolution.is_some() {
                return sema.err_help(
                    "E0898",
                    format!("this cooperative tensor is not a {side} operand"),
                    span,
                    match at {
                        0 => "obtain it with 'get_left_input_cooperative_tensor'",
                        1 => "obtain it with 'get_right_input_cooperative_tensor'",
                        _ => "obtain it with 'get_destination_cooperative_tensor'",
                    },
                );
            }
            if ty.simdgroups != simdgroups {
                let scope = |count| super::object_name(&Object::ExecutionScope(count));
                return sema.err(
                    "E0899",
                    format!(
                        "this cooperative tensor belongs to the scope '{}', the operation to '{}'",
                        scope(ty.simdgroups),
                        scope(simdgroups)
                    ),
                    span,
                );
            }
            let k = descriptor.k.unwrap_or(0);
            let shape = match (at, descriptor.transpose_left, descriptor.transpose_right) {
                (0, false, _) => (descriptor.m, k),
                (0, true, _) => (k, descriptor.m),
                (1, _, false) => (k, descriptor.n),
                (1, _, true) => (descriptor.n, k),
                _ => (descriptor.m, descriptor.n),
            };
            if (ty.rows, ty.columns) != shape {
                return sema.err(
                    "E0900",
                    format!(
                        "this cooperative tensor is {} × {}, the operation's {side} operand {} × {} (rows × columns)",
                        ty.rows, ty.columns, shape.0, shape.1
                    ),
                    span,
                );
            }
        }
    }
    Ok(())
}

/// The rules of reference 2.5 for scale planes.
fn check_scales(sema: &mut Sema<'_>, descriptor: &MatmulDescriptor, kinds: &[Kind], span: Span) -> Res<()> {
    for (at, kind) in kinds.iter().enumerate() {
        let Kind::Tensor(TensorType { plane: Some(plane), .. }) = kind else {
            continue;
        };
        if at == 2 {
            return sema.err("E0901", "Destination tensor cannot have scale factors", span);
        }
        if plane.format != ElementFormat::Fp8UE8M0 {
            return sema.err(
                "E0902",
                format!(
                    "scale dtype must be 'metal_fp8_ue8m0_format', not '{}'",
                    plane.format.msl_name()
                ),
                span,
            );
        }
        if plane.block.is_empty() || plane.block.len() > 2 {
            return sema.err(
                "E0903",
                format!("a scale plane has 1 or 2 block sizes, not {}", plane.block.len()),
                span,
            );
        }
        if plane.block[0] != 32 {
            return sema.err(
                "E0904",
                format!("Scale block size 0 must be 32, not {}", plane.block[0]),
                span,
            );
        }
        if plane.block.get(1).is_some_and(|&block| block != 1) {
            return sema.err(
                "E0905",
                format!("Scale block size 1 must be 1, not {}", plane.block[1]),
                span,
            );
        }
        if at == 0 && descriptor.transpose_left {
            sema.refuse(
                "E0906",
                "Left tensor must not be transposed if it has scale factors",
                span,
                "store A with K innermost (extents (K, M)) and pass transpose_left = false",
            )?;
        }
        if at == 1 && !descriptor.transpose_right {
            sema.refuse(
                "E0907",
                "Right tensor must be transposed if it has scale factors",
                span,
                "store B with K innermost (extents (K, N)) and pass transpose_right = true",
            )?;
        }
    }
    Ok(())
}
