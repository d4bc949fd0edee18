//! What `run` refuses (reference 2.5 and 4.5): one function for each rule, over what the types say.

use anymetal_formats::ElementFormat;
use anymetal_ir::{CoopRole, MatmulDescriptor, Scalar};

use crate::sema::context::{Res, Sema};
use crate::sema::library::{Call, object_name};
use crate::sema::types::{CoopType, Object, Space, TensorType, Type};
use crate::source::Span;

/// The scope `execution_thread`, where others count their SIMD-groups.
pub const THREAD: u32 = 0;

/// An operand of `run` as far as rules are concerned.
#[derive(Clone)]
pub(super) enum Kind {
    Tensor(TensorType),
    Coop(CoopType),
}

impl Kind {
    pub fn of_type(ty: &Type) -> Option<Self> {
        match ty.as_object()? {
            Object::Tensor(ty) => Some(Kind::Tensor(ty.clone())),
            Object::Coop(ty) => Some(Kind::Coop(ty.clone())),
            _ => None,
        }
    }

    pub fn format(&self) -> ElementFormat {
        match self {
            Kind::Tensor(ty) => ty.format,
            Kind::Coop(ty) => ty.element,
        }
    }

    pub fn is_cooperative(&self) -> bool {
        matches!(self, Kind::Coop(_))
    }

    fn is_scaled(&self) -> bool {
        matches!(self, Kind::Tensor(TensorType { plane: Some(_), .. }))
    }
}

/// May a tensor in this memory be an operand? Constant memory has no encoding in Apple's library; it is accepted here.
pub fn space_allowed(scope: u32, space: Space, destination: bool) -> bool {
    match space {
        Space::Device => true,
        Space::Constant => !destination,
        Space::Threadgroup => scope != THREAD,
        Space::Thread => scope == THREAD,
    }
}

/// May operands and destinations of this scope be cooperative tensors?
pub fn cooperative_allowed(scope: u32, destination: bool) -> bool {
    if destination { scope != THREAD } else { scope == 1 }
}

/// A rule on sizes that is broken: code, message, note. Each can be let through by `--lenient`.
pub type Broken = (&'static str, &'static str, String);

/// The constant K of a scope.
pub fn inner_rule(scope: u32, k: Option<u32>) -> Option<Broken> {
    let k = k.filter(|k| k % 16 != 0 && scope != THREAD)?;
    Some(("E0879", "K must be dynamic or a multiple of 16", format!("k is {k}")))
}

/// M and N when no input is cooperative. Threads take any.
pub fn memory_rule(scope: u32, m: u32, n: u32) -> Option<Broken> {
    let note = || format!("m is {m}, n is {n}");
    if scope == THREAD {
        None
    } else if !m.is_multiple_of(8) || !n.is_multiple_of(8) {
        Some(("E0892", "M and N must be multiples of 8", note()))
    } else if !m.is_multiple_of(16) && !n.is_multiple_of(16) {
        Some(("E0893", "At least one of M or N must be a multiple of 16", note()))
    } else {
        None
    }
}

/// M, N and K when both inputs are cooperative.
pub fn cooperative_rule(m: u32, n: u32, k: u32) -> Option<Broken> {
    let sizes = [m, n, k];
    if sizes.iter().all(|size| [16, 32].contains(size)) && sizes.contains(&32) {
        return None;
    }
    Some((
        "E0908",
        "With two cooperative inputs M, N and K must be 16 or 32, and at least one 32",
        format!("m is {m}, n is {n}, k is {k}"),
    ))
}

pub(super) fn refuse(sema: &mut Sema<'_>, broken: Option<Broken>, span: Span) -> Res<()> {
    match broken {
        Some((code, message, note)) => sema.refuse(code, message, span, note),
        None => Ok(()),
    }
}

/// Rows and columns of an operand (0 left, 1 right, 2 destination) as it is stored.
pub(super) fn stored_shape(descriptor: &MatmulDescriptor, at: usize) -> (u32, u32) {
    let k = descriptor.k.unwrap_or(0);
    match (at, descriptor.transpose_left, descriptor.transpose_right) {
        (0, false, _) => (descriptor.m, k),
        (0, true, _) => (k, descriptor.m),
        (1, _, false) => (k, descriptor.n),
        (1, _, true) => (descriptor.n, k),
        _ => (descriptor.m, descriptor.n),
    }
}

/// Rank, index type, address space, constness and shape of one operand.
pub(super) fn check_operand(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    scope: u32,
    at: usize,
    kind: &Kind,
    call: &Call<'_>,
) -> Res<()> {
    let span = call.args[at].span();
    let side = ["left", "right", "destination"][at];
    match kind {
        Kind::Tensor(ty) => check_tensor(sema, scope, side, ty, span),
        Kind::Coop(ty) => check_cooperative(sema, descriptor, scope, at, ty, span),
    }
}

fn check_tensor(sema: &mut Sema<'_>, scope: u32, side: &str, ty: &TensorType, span: Span) -> Res<()> {
    let destination = side == "destination";
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
    if destination && (ty.is_const || ty.space == Space::Constant) {
        return sema.err_help(
            "E0854",
            "the elements of the destination are const",
            span,
            "declare the tensor in 'device' or 'threadgroup' memory without 'const'",
        );
    }
    if space_allowed(scope, ty.space, destination) {
        return Ok(());
    }
    let help = if scope == THREAD {
        "the operands of 'execution_thread' are in 'device' or 'thread' memory"
    } else {
        "the operands of SIMD-groups are in 'device' or 'threadgroup' memory; those in 'thread' memory take 'execution_thread'"
    };
    sema.err_help(
        "E0866",
        format!(
            "Unsupported address space: the {side} operand is in {} memory",
            ty.space
        ),
        span,
        help,
    )
}

fn check_cooperative(
    sema: &mut Sema<'_>,
    descriptor: &MatmulDescriptor,
    scope: u32,
    at: usize,
    ty: &CoopType,
    span: Span,
) -> Res<()> {
    let side = ["left", "right", "destination"][at];
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
    if ty.simdgroups != scope {
        let name = |count| object_name(&Object::ExecutionScope(count));
        return sema.err(
            "E0899",
            format!(
                "this cooperative tensor belongs to the scope '{}', the operation to '{}'",
                name(ty.simdgroups),
                name(scope)
            ),
            span,
        );
    }
    let shape = stored_shape(descriptor, at);
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
    Ok(())
}

/// Scale planes (reference 2.5).
pub(super) fn check_scales(sema: &mut Sema<'_>, descriptor: &MatmulDescriptor, kinds: &[Kind], span: Span) -> Res<()> {
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
    let scaled = kinds.iter().any(Kind::is_scaled);
    if scaled && kinds.get(2).is_some_and(|kind| kind.format() == ElementFormat::I32) {
        return sema.err_help(
            "E0909",
            "a product of scaled operands is no integer",
            span,
            "multiply the scaled integers by half or bfloat elements, into half, bfloat or float",
        );
    }
    Ok(())
}

/// A destination that becomes an input (reference 5.5).
pub(super) fn check_conversion(
    sema: &Sema<'_>,
    descriptor: &MatmulDescriptor,
    input: &CoopType,
    source: &CoopType,
    span: Span,
) -> Res<()> {
    let (transposed, flag) = if input.role == CoopRole::Left {
        (descriptor.transpose_left, "transpose_left")
    } else {
        (descriptor.transpose_right, "transpose_right")
    };
    if transposed {
        return sema.err_help(
            "E0888",
            "Input cooperative tensor cannot be transposed",
            span,
            format!("pass {flag} = false in the descriptor"),
        );
    }
    if source.role != CoopRole::Destination || source.convolution.is_some() || source.simdgroups != 1 {
        return sema.err(
            "E0889",
            "only a matmul2d destination cooperative tensor of a single SIMD group can become an input",
            span,
        );
    }
    if source.index != Scalar::I32 || input.index != Scalar::I32 {
        return sema.err_help(
            "E0889",
            "a cooperative tensor whose coordinates are not 'int' cannot become an input",
            span,
            "obtain both without the template argument CoordType",
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
