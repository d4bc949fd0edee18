//! `convolution2d` and its static rules (reference 7). Its destination is a cooperative tensor of rank 4, which is held as a matrix: a
//! row for each place (x fastest, then y, then batch), a column for each output channel.

use std::rc::Rc;

use anymetal_formats::ElementFormat;
use anymetal_ir::{BinaryOp, ConvolutionDescriptor, CoopRole, MathMode, Op, Operand as TileOperand, Scalar};

use super::args::{self, expect_count, flatten, integers, type_at};
use super::matmul::{coordinate_type, element_at, layout};
use super::{Call, LibEntity, coop, view};
use crate::sema::context::{Res, Sema};
use crate::sema::types::{CoopType, Object, QualType, Space, TemplateArg, TensorType, Type};
use crate::sema::value::{Leaf, Operand, Value};
use crate::source::Span;

/// `convolution2d`, of namespace `mpp::tensor_ops`. Its descriptor is a struct of the prelude.
pub fn lookup(name: &str) -> Option<LibEntity> {
    (name == "convolution2d").then_some(LibEntity::Template {
        name: "convolution2d",
        instantiate,
        deduce: None,
    })
}

/// The integers of a `convolution2d_descriptor`, in the order of its members.
const FIELDS: usize = 19;

fn instantiate(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let args = flatten(args);
    let given = match args.first() {
        Some(TemplateArg::Value(value)) => integers(value)
            .filter(|fields| fields.len() == FIELDS)
            .map(|fields| (fields, Rc::new(value.clone()))),
        _ => None,
    };
    let Some((fields, constant)) = given else {
        return sema.err_help(
            "E0970",
            "the first template argument of 'convolution2d' must be a constant 'convolution2d_descriptor'",
            span,
            "declare it as 'constexpr auto descriptor = convolution2d_descriptor(…);'",
        );
    };
    let scope = type_at(sema, "convolution2d", &args, 1, span)?;
    let simdgroups = match scope.ty.as_object() {
        Some(Object::ExecutionScope(simdgroups @ 1..)) => *simdgroups,
        _ => {
            return sema.err_help(
                "E0971",
                format!(
                    "the scope of 'convolution2d' must be 'execution_simdgroups<N>', not '{}'",
                    sema.qual_name(scope)
                ),
                span,
                "a convolution is run by all SIMD-groups of a threadgroup",
            );
        }
    };
    // The enumerators that exist are 0.
    for (at, message) in [
        (10, "only nhwc activation layout supported currently"),
        (11, "only hwio weights layout supported currently"),
    ] {
        if fields[at] != 0 {
            return sema.err("E0972", message, span);
        }
    }
    if fields[16] != 1 {
        return sema.err_help(
            "E0972",
            "only group size 1 supported currently",
            span,
            format!("groups is {}", fields[16]),
        );
    }
    let descriptor = ConvolutionDescriptor {
        destination: sizes(sema, "destination_dimensions", &fields[0..4], span)?,
        source: sizes(sema, "source_dimensions", &fields[4..8], span)?,
        kernel: sizes(sema, "kernel_dimensions", &fields[8..10], span)?,
        strides: sizes(sema, "strides", &fields[12..14], span)?,
        dilations: sizes(sema, "dilations", &fields[14..16], span)?,
        relaxed_precision: fields[17] != 0,
        accumulate: fields[18] != 0,
    };
    Ok(Type::object(Object::Convolution {
        descriptor,
        simdgroups,
        constant,
    })
    .into())
}

/// Positive sizes of the descriptor.
fn sizes<const N: usize>(sema: &Sema<'_>, name: &str, fields: &[i128], span: Span) -> Res<[u32; N]> {
    let mut out = [0; N];
    for (at, (out, &field)) in out.iter_mut().zip(fields).enumerate() {
        let component = ["x", "y", "z", "w"].get(at).copied().unwrap_or("?");
        *out = match u32::try_from(field) {
            Ok(size @ 1..=65536) => size,
            _ => {
                return sema.err(
                    "E0973",
                    format!("convolution2d_descriptor: {name}.{component} = {field} is not in 1…65536"),
                    span,
                );
            }
        };
    }
    Ok(out)
}

/// The rows of reference 7.3.
fn supported(activation: ElementFormat, weights: ElementFormat, destination: ElementFormat) -> bool {
    use ElementFormat::*;
    match (activation, weights) {
        (F16, F16) => matches!(destination, F16 | F32),
        (F32, F32) => destination == F32,
        (BF16, BF16) => matches!(destination, BF16 | F32),
        (I8 | U8, I8 | U8) => matches!(destination, F16 | F32 | I32),
        _ => false,
    }
}

fn check_formats(
    sema: &Sema<'_>,
    activation: ElementFormat,
    weights: ElementFormat,
    destination: ElementFormat,
    span: Span,
) -> Res<()> {
    if supported(activation, weights, destination) {
        return Ok(());
    }
    use ElementFormat::{BF16, F16, F32, I32};
    let names: Vec<&str> = [F32, F16, BF16, I32]
        .into_iter()
        .filter(|&to| supported(activation, weights, to))
        .map(ElementFormat::msl_name)
        .collect();
    let help = if names.is_empty() {
        "activation and weights are both half, both float, both bfloat, or integers of 8 bits".to_string()
    } else {
        format!("these operands can have a destination of {}", names.join(" or "))
    };
    sema.err_help(
        "E0974",
        format!(
            "Unsupported type: convolution2d has no row for activation '{}', weights '{}', destination '{}'",
            activation.msl_name(),
            weights.msl_name(),
            destination.msl_name()
        ),
        span,
        help,
    )
}

/// Member functions of `convolution2d<…>`.
pub fn method(
    sema: &mut Sema<'_>,
    descriptor: &ConvolutionDescriptor,
    simdgroups: u32,
    object: &Operand,
    call: &Call<'_>,
) -> Option<Res<Operand>> {
    Some(match call.name {
        "set_offsets" => set_offsets(sema, object, call),
        "run" => run(sema, descriptor, simdgroups, object, call),
        "get_destination_cooperative_tensor" => (|| {
            expect_count(sema, call, 0..=0)?;
            let ty = destination_type(sema, descriptor, simdgroups, call.name, call.template_args, call.span)?;
            require_simdgroups(sema, simdgroups);
            coop::create(sema, &ty).map(Operand::Value)
        })(),
        _ => return None,
    })
}

/// The type behind `cooperative_tensor_destination_t<…>`.
pub fn member_alias(
    sema: &mut Sema<'_>,
    descriptor: &ConvolutionDescriptor,
    simdgroups: u32,
    name: &str,
    args: &[TemplateArg],
    span: Span,
) -> Option<Res<QualType>> {
    (name == "cooperative_tensor_destination_t").then(|| {
        destination_type(sema, descriptor, simdgroups, name, args, span).map(|ty| Type::object(Object::Coop(ty)).into())
    })
}

fn destination_type(
    sema: &mut Sema<'_>,
    descriptor: &ConvolutionDescriptor,
    simdgroups: u32,
    name: &str,
    args: &[TemplateArg],
    span: Span,
) -> Res<CoopType> {
    let args = flatten(args);
    let mut formats = [ElementFormat::F32; 2];
    for (at, format) in formats.iter_mut().enumerate() {
        let ty = type_at(sema, name, &args, at, span)?;
        *format = match ty.ty.as_object() {
            Some(Object::Tensor(tensor)) => tensor.format,
            _ => {
                let side = ["Activation", "Weights"][at];
                return sema.err_help(
                    "E0975",
                    format!("{side} must be a tensor, not '{}'", sema.qual_name(ty)),
                    span,
                    "pass the operand's type: 'decltype(tile)'",
                );
            }
        };
    }
    let element = element_at(sema, name, &args, 2, span)?;
    let index = coordinate_type(sema, name, &args, 3, span)?;
    if !coop::element_allowed(CoopRole::Destination, element) {
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
    let Some(product) = descriptor.as_product() else {
        return sema.err("E0859", "a cooperative tensor of this many elements is too large", span);
    };
    Ok(CoopType {
        role: CoopRole::Destination,
        element,
        operands: (formats[0], formats[1]),
        index,
        rows: product.m,
        columns: product.n,
        simdgroups,
        layout: layout(sema, &product, formats[0], formats[1]),
        descriptor: product,
        convolution: Some(*descriptor),
    })
}

/// A convolution is run by the whole threadgroup, so this is what a threadgroup must have, one SIMD-group too.
fn require_simdgroups(sema: &mut Sema<'_>, simdgroups: u32) {
    let location = sema.builder.location();
    let required = &mut sema.builder.kernel_mut().required_simdgroups;
    if !required.iter().any(|(count, _)| *count == simdgroups) {
        required.push((simdgroups, location));
    }
}

/// `set_offsets(int2(x, y))`
fn set_offsets(sema: &mut Sema<'_>, object: &Operand, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let offsets = sema.init(&Type::vector(Scalar::I32, 2), &call.args[0], call.args[0].span())?;
    match object {
        Operand::Place(place) if !place.is_const => {
            let value = Value {
                ty: place.ty.clone(),
                leaves: offsets.leaves,
            };
            sema.store(place, &value)?;
            Ok(Operand::void())
        }
        _ => sema.err_help(
            "E0976",
            "'set_offsets' changes the operation, which is const or a temporary",
            call.span,
            "declare the operation as a variable that is not 'const'",
        ),
    }
}

/// Rank, index type, address space and constness of one operand in memory.
fn check_tensor(sema: &mut Sema<'_>, ty: &TensorType, at: usize, call: &Call<'_>) -> Res<()> {
    let span = call.args[at].span();
    let side = ["Activation", "Weights", "Destination"][at];
    let rank = ty.extents.extents.len();
    if rank != 4 {
        return sema.err_help(
            "E0977",
            format!("{side} must have rank 4, not {rank}"),
            span,
            [
                "its extents are (channels, width, height, batch)",
                "its extents are (output channels, input channels, kernel width, kernel height)",
                "its extents are (output channels, width, height, batch)",
            ][at],
        );
    }
    if ty.extents.index != Scalar::I32 {
        return sema.err_help(
            "E0897",
            "Index type must be int",
            span,
            format!(
                "the extents are of '{}'",
                crate::sema::layout::scalar_name(ty.extents.index)
            ),
        );
    }
    if !matches!(ty.space, Space::Device | Space::Threadgroup) {
        return sema.err(
            "E0866",
            format!("Unsupported address space: {side} is in {} memory", ty.space),
            span,
        );
    }
    if at == 2 && ty.is_const {
        return sema.err_help(
            "E0854",
            "the elements of the destination are const",
            span,
            "declare the tensor without 'const' elements",
        );
    }
    Ok(())
}

/// `run(activation, weights, destination)`
fn run(
    sema: &mut Sema<'_>,
    descriptor: &ConvolutionDescriptor,
    simdgroups: u32,
    object: &Operand,
    call: &Call<'_>,
) -> Res<Operand> {
    expect_count(sema, call, 3..=3)?;
    sema.runtime_only()?;
    let mut formats = Vec::with_capacity(3);
    let mut views = Vec::with_capacity(3);
    let mut tile = None;
    for at in 0..3 {
        let operand = args::operand(sema, call, at)?.clone();
        match operand.ty().as_object().cloned() {
            Some(Object::Tensor(ty)) => {
                check_tensor(sema, &ty, at, call)?;
                formats.push(ty.format);
                views.push(operand);
            }
            Some(Object::Coop(ty)) if at == 2 => {
                formats.push(ty.element);
                tile = Some((ty, operand));
            }
            _ => {
                let name = sema.type_name(operand.ty());
                let message = match at {
                    0 => "Activation must be a tensor",
                    1 => "Weights must be a tensor",
                    _ => "Destination must be a tensor or cooperative tensor",
                };
                return sema.err("E0975", format!("{message}, not '{name}'"), call.args[at].span());
            }
        }
    }
    check_formats(sema, formats[0], formats[1], formats[2], call.span)?;
    if let Some((ty, _)) = &tile {
        if ty.convolution != Some(*descriptor) || ty.simdgroups != simdgroups {
            return sema.err_help(
                "E0978",
                "this cooperative tensor is not a destination of this convolution",
                call.args[2].span(),
                "obtain it with 'get_destination_cooperative_tensor' of the same operation",
            );
        }
        if ty.operands != (formats[0], formats[1]) {
            return sema.err_help(
                "E0895",
                "Input types must match cooperative tensor types",
                call.span,
                format!(
                    "the destination was obtained for '{}' and '{}', the operands are '{}' and '{}'",
                    ty.operands.0.msl_name(),
                    ty.operands.1.msl_name(),
                    formats[0].msl_name(),
                    formats[1].msl_name()
                ),
            );
        }
    }
    require_simdgroups(sema, simdgroups);
    let offsets = sema.rvalue(object.clone())?.leaves;
    let offsets = match offsets.as_slice() {
        [x, y] => [sema.materialize(x)?, sema.materialize(y)?],
        // Named by its type only, as a static member would be.
        _ => {
            let zero = Sema::int_leaf(Scalar::I32, 0);
            [sema.materialize(&zero)?, sema.materialize(&zero)?]
        }
    };
    let mut tensors = Vec::with_capacity(3);
    for operand in &views {
        tensors.push(Box::new(view::view(sema, operand)?));
    }
    let destination = match tile {
        Some((_, operand)) => Some(TileOperand::Coop(coop::of_operand(sema, &operand)?)),
        None => tensors.pop().map(TileOperand::Tensor),
    };
    if let (Some(weights), Some(activation), Some(destination)) = (tensors.pop(), tensors.pop(), destination) {
        sema.builder.emit_void(Op::Convolution {
            descriptor: Box::new(*descriptor),
            simdgroups,
            offsets,
            activation,
            weights,
            destination,
        });
    }
    Ok(Operand::void())
}

/// The four coordinates of an element from its column and row in the matrix: channel, x, y, batch.
pub fn coordinates(
    sema: &mut Sema<'_>,
    descriptor: &ConvolutionDescriptor,
    column: Leaf,
    row: &Leaf,
) -> Res<Vec<Leaf>> {
    let [_, width, height, _] = descriptor.destination;
    let size = |value: u32| Sema::int_leaf(Scalar::I32, value.into());
    let mut op = |op, a: &Leaf, b: &Leaf| sema.binary_leaf(op, a, b, MathMode::Precise);
    let x = op(BinaryOp::Rem, row, &size(width))?;
    let line = op(BinaryOp::Div, row, &size(width))?;
    let y = op(BinaryOp::Rem, &line, &size(height))?;
    let batch = op(BinaryOp::Div, &line, &size(height))?;
    Ok(vec![column, x, y, batch])
}
