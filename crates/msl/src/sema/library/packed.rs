//! Element formats as values, and `packed_numeric_type` with `pack` and `unpack` (reference 2.2, 2.3, `<metal_packed_numeric>`).
//!
//! A value of a format type (`metal_fp8_e4m3_format x = t.get(i, j)`) is its code in one `uchar` leaf; it is copied, stored, and
//! converted explicitly to and from numbers. A `packed_numeric_type<Format, N>` has the bytes of its storage as leaves.

use anymetal_formats::ElementFormat;
use anymetal_ir::{BinaryOp, CompareOp, Const, MathMode, Op, Scalar, UnaryOp};

use super::args::{self, element_format, element_type, expect_count, flatten, int_at, type_at};
use super::{Call, LibEntity};
use crate::options::MetalStd;
use crate::sema::context::{Res, Sema};
use crate::sema::types::{Object, QualType, TemplateArg, Type};
use crate::sema::value::{Arg, Leaf, Operand, Value};
use crate::source::Span;

/// Declarations of `<metal_packed_numeric>` in namespace `metal`.
pub fn lookup(name: &str) -> Option<LibEntity> {
    match name {
        "packed_numeric_type" => Some(LibEntity::Template {
            name: "packed_numeric_type",
            instantiate,
            deduce: None,
        }),
        "pack" => Some(LibEntity::Function(pack, "metal")),
        "unpack" => Some(LibEntity::Function(unpack, "metal")),
        // The 8-bit integers are formats by another name.
        "int8b_format" => Some(LibEntity::Type(Scalar::I8.into())),
        "uint8b_format" => Some(LibEntity::Type(Scalar::U8.into())),
        _ => None,
    }
}

/// The storage of a packed type: `uchar` for one byte, else a vector of them.
pub fn storage(format: ElementFormat, count: u8) -> Type {
    Type::vector(Scalar::U8, format.bytes_for(count.into()) as u8)
}

/// The format behind a type that may be packed: at most 8 bits, no `bool`.
fn packable(ty: &Type) -> Option<ElementFormat> {
    element_format(ty).filter(|format| format.bits() <= 8 && *format != ElementFormat::Bool)
}

fn instantiate(sema: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    if sema.options.std < MetalStd::Metal4_0 {
        return sema.err_help(
            "E0923",
            "'packed_numeric_type' needs Metal 4",
            span,
            "compile with -std=metal4.0 or later",
        );
    }
    let args = flatten(args);
    let format = type_at(sema, "packed_numeric_type", &args, 0, span)?.clone();
    let Some(found) = packable(&format.ty) else {
        return sema.err_help(
            "E0924",
            format!("'{}' is no element format of at most 8 bits", sema.qual_name(&format)),
            span,
            "write 'packed_numeric_type<metal_fp8_e4m3_format, 8>'",
        );
    };
    let count = int_at(sema, "packed_numeric_type", &args, 1, span)?;
    match u8::try_from(count) {
        Ok(count @ (1 | 2 | 3 | 4 | 8 | 16)) if usize::from(count) * found.bits() % 8 == 0 => {
            Ok(Type::object(Object::Packed(found, count)).into())
        }
        _ => sema.err_help(
            "E0925",
            format!(
                "'packed_numeric_type' does not hold {count} elements of {} bits",
                found.bits()
            ),
            span,
            "the count is 2, 4, 8 or 16, and the elements fill whole bytes",
        ),
    }
}

/// `packed_numeric_type<F, N>(storage)`; without arguments all codes are 0.
pub fn construct(
    sema: &mut Sema<'_>,
    ty: &Type,
    (format, count): (ElementFormat, u8),
    args: &[Arg],
    span: Span,
) -> Res<Operand> {
    let storage = storage(format, count);
    let leaves = match args {
        [] => sema.zero(&storage)?.leaves,
        [Arg::Operand(operand, _)] if operand.ty() == ty => return Ok(operand.clone()),
        [arg] => sema.init(&storage, arg, arg.span())?.leaves,
        _ => {
            let (name, storage) = (sema.type_name(ty), sema.type_name(&storage));
            return sema.err_help(
                "E0926",
                format!(
                    "'{name}' is constructed from its storage, {} arguments given",
                    args.len()
                ),
                span,
                format!("pass one '{storage}'"),
            );
        }
    };
    Ok(Value { ty: ty.clone(), leaves }.into())
}

/// Member functions of a packed value.
pub fn method(
    sema: &mut Sema<'_>,
    (format, count): (ElementFormat, u8),
    object: &Operand,
    call: &Call<'_>,
) -> Option<Res<Operand>> {
    (call.name == "as_storage_type").then(|| {
        expect_count(sema, call, 0..=0)?;
        let leaves = sema.rvalue(object.clone())?.leaves;
        let ty = storage(format, count);
        Ok(Value { ty, leaves }.into())
    })
}

/// Metal's compilers since 4.1 have `pack` and `unpack`, and for 2-bit formats none of them.
fn available(sema: &mut Sema<'_>, call: &Call<'_>, format: ElementFormat) -> Res<()> {
    if sema.options.std < MetalStd::Metal4_1 {
        return sema.err_help(
            "E0923",
            format!("'{}' needs Metal 4.1", call.name),
            call.span,
            "compile with -std=metal4.1",
        );
    }
    if format.bits() == 2 {
        return sema.refuse(
            "E0927",
            format!(
                "there is no '{}' for the 2-bit format '{}'",
                call.name,
                format.msl_name()
            ),
            call.span,
            "take the elements out of 'as_storage_type()' by shifts, or let 'matmul2d' take the format",
        );
    }
    Ok(())
}

/// `unpack<T>(packed)`: `vec<T, N>` with T = float, half or bfloat.
fn unpack(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let targets = flatten(call.template_args);
    let to = type_at(sema, "unpack", &targets, 0, call.span)?.clone();
    let scalar = match to.ty {
        Type::Scalar(scalar) if scalar.is_float() => scalar,
        _ => {
            let name = sema.qual_name(&to);
            return sema.err_help(
                "E0928",
                format!("'unpack' gives float, half or bfloat, not '{name}'"),
                call.span,
                "write 'unpack<float>(packed)'",
            );
        }
    };
    let value = args::value(sema, call, 0)?;
    let Some(&Object::Packed(format, count)) = value.ty.as_object() else {
        let name = sema.type_name(&value.ty);
        return sema.err_help(
            "E0929",
            format!("'unpack' takes a 'packed_numeric_type', not '{name}'"),
            call.args[0].span(),
            "construct one from its storage: 'packed_numeric_type<FORMAT, N>(bytes)'",
        );
    };
    available(sema, call, format)?;
    let bits = format.bits() as u32;
    let mut leaves = Vec::with_capacity(count.into());
    for i in 0..u32::from(count) {
        let byte = value.leaves[(i * bits / 8) as usize].clone();
        let code = if bits == 8 {
            byte
        } else {
            let shift = Sema::int_leaf(Scalar::U8, (i * bits % 8).into());
            let mask = Sema::int_leaf(Scalar::U8, (1 << bits) - 1);
            let moved = sema.binary_leaf(BinaryOp::Shr, &byte, &shift, MathMode::Precise)?;
            sema.binary_leaf(BinaryOp::And, &moved, &mask, MathMode::Precise)?
        };
        leaves.push(decode(sema, &code, format, scalar)?);
    }
    let ty = Type::vector(scalar, count);
    Ok(Value { ty, leaves }.into())
}

/// How `pack` rounds and what it makes of values past the largest finite one.
#[derive(Clone, Copy)]
struct Rounding {
    toward_zero: bool,
    /// `None`: the format's default.
    saturate: Option<bool>,
}

/// `pack<Format[, rounding_mode[, saturation_mode]]>(vec<T, N>)`
fn pack(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    expect_count(sema, call, 1..=1)?;
    let targets = flatten(call.template_args);
    let format = type_at(sema, "pack", &targets, 0, call.span)?.clone();
    let Some(format) = packable(&format.ty) else {
        let name = sema.qual_name(&format);
        return sema.err_help(
            "E0924",
            format!("'{name}' is no element format of at most 8 bits"),
            call.span,
            "write 'pack<metal_fp8_e4m3_format>(vector)'",
        );
    };
    available(sema, call, format)?;
    let mut rounding = Rounding {
        toward_zero: false,
        saturate: None,
    };
    if targets.len() > 1 {
        rounding.toward_zero = int_at(sema, "pack", &targets, 1, call.span)? != 0;
    }
    if targets.len() > 2 {
        rounding.saturate = match int_at(sema, "pack", &targets, 2, call.span)? {
            0 => None,
            1 => Some(true),
            _ => Some(false),
        };
    }
    let value = args::value(sema, call, 0)?;
    let shape = value
        .ty
        .component()
        .filter(|scalar| scalar.is_float())
        .zip(value.ty.lanes());
    let fits = |count: &u8| matches!(count, 1 | 2 | 3 | 4 | 8 | 16) && usize::from(*count) * format.bits() % 8 == 0;
    let Some(count) = shape.map(|(_, count)| count).filter(fits) else {
        let name = sema.type_name(&value.ty);
        return sema.err_help(
            "E0931",
            format!("'pack' cannot make '{}' elements of '{name}'", format.msl_name()),
            call.args[0].span(),
            "it takes a vector of float, half or bfloat whose elements fill whole bytes of the format",
        );
    };
    let bits = format.bits() as u32;
    let mut bytes: Vec<Leaf> = Vec::new();
    for (i, leaf) in value.leaves.iter().enumerate() {
        let code = encode(sema, leaf, format, rounding)?;
        let at = i as u32 * bits % 8;
        if at == 0 {
            bytes.push(code);
        } else if let Some(byte) = bytes.last_mut() {
            let shift = Sema::int_leaf(Scalar::U8, at.into());
            let moved = sema.binary_leaf(BinaryOp::Shl, &code, &shift, MathMode::Precise)?;
            *byte = sema.binary_leaf(BinaryOp::Or, byte, &moved, MathMode::Precise)?;
        }
    }
    let ty = Type::object(Object::Packed(format, count));
    Ok(Value { ty, leaves: bytes }.into())
}

/// A code as a number; exact in `half` and `bfloat` wherever these have the value.
pub fn decode(sema: &mut Sema<'_>, code: &Leaf, format: ElementFormat, to: Scalar) -> Res<Leaf> {
    let number = if !format.is_format_type() {
        sema.bitcast_leaf(code, super::super::layout::format_scalar(format))?
    } else if let Some(known) = sema.const_of(code) {
        Leaf::Const(Const {
            ty: Scalar::F32,
            bits: format.decode_f32(known.bits).to_bits().into(),
        })
    } else {
        let operand = sema.materialize(code)?;
        sema.emit1(Op::Decode { operand, format }, Scalar::F32)?
    };
    sema.convert_leaf(&number, to)
}

/// The code nearest to a number, ties to even: what an explicit conversion to a format gives.
pub fn encode_nearest(sema: &mut Sema<'_>, number: &Leaf, format: ElementFormat) -> Res<Leaf> {
    let rounding = Rounding {
        toward_zero: false,
        saturate: None,
    };
    encode(sema, number, format, rounding)
}

fn encode(sema: &mut Sema<'_>, number: &Leaf, format: ElementFormat, rounding: Rounding) -> Res<Leaf> {
    use ElementFormat::{Fp8E4M3, Fp8UE8M0};
    let x = sema.convert_leaf(number, Scalar::F32)?;
    if !format.is_format_type() {
        let op = if rounding.toward_zero {
            UnaryOp::Trunc
        } else {
            UnaryOp::Rint
        };
        let whole = sema.unary_leaf(op, &x, MathMode::Precise)?;
        let operand = sema.materialize(&whole)?;
        let to = super::super::layout::format_scalar(format);
        let op = Op::Convert {
            operand,
            to,
            saturate: true,
        };
        let code = sema.emit1(op, to)?;
        return sema.bitcast_leaf(&code, Scalar::U8);
    }
    let operand = sema.materialize(&x)?;
    let saturate = match format {
        // The default is a clamp already, and what clamping is switched off for is put in below.
        Fp8E4M3 => false,
        _ => rounding.saturate == Some(true),
    };
    let op = Op::Encode {
        operand,
        format,
        saturate,
    };
    let mut code = sema.emit1(op, Scalar::U8)?;
    if rounding.toward_zero && format != Fp8UE8M0 {
        code = step_toward_zero(sema, &x, &code, format)?;
    } else if rounding.toward_zero {
        // Without a sign the next lower code is the one toward zero; code 0 has none.
        let value = decode(sema, &code, format, Scalar::F32)?;
        let over = sema.compare_leaf(CompareOp::Gt, &value, &x)?;
        let zero = sema.compare_leaf(CompareOp::Ne, &code, &Sema::int_leaf(Scalar::U8, 0))?;
        let over = sema.binary_leaf(BinaryOp::And, &over, &zero, MathMode::Precise)?;
        let one = Sema::int_leaf(Scalar::U8, 1);
        let lower = sema.binary_leaf(BinaryOp::Sub, &code, &one, MathMode::Precise)?;
        code = sema.select_leaf(&over, &lower, &code)?;
    }
    if rounding.saturate == Some(false) && format == Fp8E4M3 {
        // What the hardware's conversion does without saturation: NaN from past the midpoint to the first code it lacks
        // (rounding to nearest), or from that code on (toward zero).
        let limit = if rounding.toward_zero { 479.999_97f32 } else { 464.0 };
        let magnitude = sema.unary_leaf(UnaryOp::Abs, &x, MathMode::Precise)?;
        let limit = Leaf::Const(Const {
            ty: Scalar::F32,
            bits: limit.to_bits().into(),
        });
        let over = sema.compare_leaf(CompareOp::Gt, &magnitude, &limit)?;
        let nan = sema.binary_leaf(
            BinaryOp::Or,
            &code,
            &Sema::int_leaf(Scalar::U8, 0x7f),
            MathMode::Precise,
        )?;
        code = sema.select_leaf(&over, &nan, &code)?;
    }
    Ok(code)
}

/// The code itself, or the neighbour of smaller magnitude if it lies farther from zero than the number.
fn step_toward_zero(sema: &mut Sema<'_>, x: &Leaf, code: &Leaf, format: ElementFormat) -> Res<Leaf> {
    let p = MathMode::Precise;
    let value = decode(sema, code, format, Scalar::F32)?;
    let far = sema.unary_leaf(UnaryOp::Abs, &value, p)?;
    let near = sema.unary_leaf(UnaryOp::Abs, x, p)?;
    let over = sema.compare_leaf(CompareOp::Gt, &far, &near)?;
    let one = Sema::int_leaf(Scalar::U8, 1);
    let lower = sema.binary_leaf(BinaryOp::Sub, code, &one, p)?;
    // Floats are sign and magnitude; negative integers go toward zero upwards (and −1 becomes 0).
    let lower = if format.is_integer() {
        let upper = sema.binary_leaf(BinaryOp::Add, code, &one, p)?;
        let mask = Sema::int_leaf(Scalar::U8, (1 << format.bits()) - 1);
        let upper = sema.binary_leaf(BinaryOp::And, &upper, &mask, p)?;
        let zero = Leaf::Const(Const {
            ty: Scalar::F32,
            bits: 0,
        });
        let negative = sema.compare_leaf(CompareOp::Lt, &value, &zero)?;
        sema.select_leaf(&negative, &upper, &lower)?
    } else {
        lower
    };
    sema.select_leaf(&over, &lower, code)
}

/// The template arguments of a packed type, for deduction.
pub fn template_args(format: ElementFormat, count: u8) -> Vec<TemplateArg> {
    vec![
        TemplateArg::Type(element_type(format).into()),
        TemplateArg::Value(crate::sema::types::Constant::int(Scalar::I32, count.into())),
    ]
}
