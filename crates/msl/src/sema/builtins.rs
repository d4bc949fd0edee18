//! What names mean before any declaration: types and templates of the language, functions of the compiler.

use anymetal_formats::ElementFormat;
use anymetal_ir::Scalar;

use super::context::*;
use super::library::{self, LibEntity};
use super::types::*;
use super::value::*;
use crate::source::Span;

/// A scalar, vector, matrix or format type by its name.
fn builtin_type(name: &str) -> Option<Type> {
    if let Some(scalar) = scalar_by_name(name) {
        return Some(Type::Scalar(scalar));
    }
    if let Some(rest) = name.strip_prefix("packed_") {
        let (scalar, len) = vector_name(rest)?;
        return Some(Type::Vector {
            scalar,
            len,
            packed: true,
        });
    }
    if let Some((scalar, len)) = vector_name(name) {
        return Some(Type::vector(scalar, len));
    }
    let bytes = name.as_bytes();
    if bytes.len() > 3 && bytes[bytes.len() - 2] == b'x' {
        let digit = |b: u8| (b'2'..=b'4').contains(&b).then(|| b - b'0');
        let scalar = scalar_by_name(&name[..name.len() - 3])?;
        let columns = digit(bytes[bytes.len() - 3])?;
        let rows = digit(bytes[bytes.len() - 1])?;
        return scalar.is_float().then_some(Type::Matrix { scalar, columns, rows });
    }
    let format = ElementFormat::from_msl_name(name)?;
    format.is_format_type().then_some(Type::Format(format))
}

fn vector_name(name: &str) -> Option<(Scalar, u8)> {
    let last = name.bytes().last()?;
    if !(b'2'..=b'4').contains(&last) {
        return None;
    }
    let base = &name[..name.len() - 1];
    if base.ends_with(|c: char| c.is_ascii_digit()) || base.ends_with("_t") {
        return None;
    }
    Some((scalar_by_name(base)?, last - b'0'))
}

fn scalar_by_name(name: &str) -> Option<Scalar> {
    Some(match name {
        "bool" => Scalar::Bool,
        "char" | "int8_t" | "schar" => Scalar::I8,
        "uchar" | "uint8_t" => Scalar::U8,
        "short" | "int16_t" => Scalar::I16,
        "ushort" | "uint16_t" => Scalar::U16,
        "int" | "int32_t" => Scalar::I32,
        "uint" | "uint32_t" => Scalar::U32,
        "long" | "int64_t" | "ptrdiff_t" | "intptr_t" => Scalar::I64,
        "ulong" | "uint64_t" | "size_t" | "uintptr_t" => Scalar::U64,
        "half" | "float16_t" => Scalar::F16,
        "bfloat" => Scalar::BF16,
        "float" => Scalar::F32,
        _ => return None,
    })
}

/// `vec<T, N>`
fn vec_template(s: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let (Some(TemplateArg::Type(t)), Some(TemplateArg::Value(n))) = (args.first(), args.get(1)) else {
        return s.err("E0431", "'vec' takes a scalar type and a length", span);
    };
    match (t.ty.as_scalar(), n.as_int()) {
        (Some(scalar), Some(len @ (1 | 2 | 3 | 4 | 8 | 16))) => Ok(Type::vector(scalar, len as u8).into()),
        (Some(_), _) => s.err("E0431", format!("'vec' has no length {}", s.constant_name(n)), span),
        _ => s.err("E0431", format!("'{}' is no scalar type", s.qual_name(t)), span),
    }
}

/// `uniform<T>`: a promise that all threads hold the same value, which nothing here depends on.
fn uniform_template(s: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    match args {
        [TemplateArg::Type(t)] => Ok(t.clone()),
        _ => s.err("E0431", "'uniform' takes a type", span),
    }
}

/// `is_convertible<From, To>`
fn is_convertible(s: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    let [TemplateArg::Type(from), TemplateArg::Type(to)] = args else {
        return s.err("E0431", "'is_convertible' takes two types", span);
    };
    let (from, to) = (from.clone(), to.clone());
    let value = from.ty == Type::Void && to.ty == Type::Void
        || s.unevaluated(|s| {
            let operand = s.declared(&from)?;
            Ok(s.rank(&Arg::Operand(operand, span), &to).is_some())
        })
        .unwrap_or(false);
    Ok(Type::object(Object::Truth(value)).into())
}

/// `matrix<T, C, R>`
fn matrix_template(s: &mut Sema<'_>, args: &[TemplateArg], span: Span) -> Res<QualType> {
    if let [TemplateArg::Type(t), TemplateArg::Value(c), TemplateArg::Value(r)] = args
        && let (Some(scalar), Some(columns @ 2..=4), Some(rows @ 2..=4)) = (t.ty.as_scalar(), c.as_int(), r.as_int())
    {
        return Ok(Type::Matrix {
            scalar,
            columns: columns as u8,
            rows: rows as u8,
        }
        .into());
    }
    s.err("E0431", "'matrix' takes a float type, 2…4 columns and 2…4 rows", span)
}

/// The type of the argument that tells a compiler builtin how exact to be.
const MATH_TAG: &str = "math mode";

/// `__metal_exp(x, mode)` and the like: what `metal::exp` is made of in Apple's headers. Some sources call them directly.
fn compiler_builtin(s: &mut Sema<'_>, call: &library::Call<'_>) -> Res<Operand> {
    let name = call.name.strip_prefix("__metal_").unwrap_or(call.name);
    let (name, drops_tag) = match name {
        // `__metal_get_thread_index_in_simdgroup(ushort())` takes the type of its result.
        "get_thread_index_in_simdgroup" => {
            return thread_index(s, call, anymetal_ir::Builtin::ThreadIndexInSimdgroup);
        }
        "get_simdgroup_index_in_threadgroup" => {
            return thread_index(s, call, anymetal_ir::Builtin::SimdgroupIndexInThreadgroup);
        }
        "get_simdgroup_size" | "get_threads_per_simdgroup" => {
            return thread_index(s, call, anymetal_ir::Builtin::ThreadsPerSimdgroup);
        }
        name => (name, true),
    };
    // The builtins of these take integers alone, and numbers convert as for any function of C. (MLX passes `float` in a function
    // that nobody calls.)
    let to_int = matches!(name, "simd_and" | "simd_or" | "simd_xor");
    let args: Vec<Arg> = call
        .args
        .iter()
        .filter(|arg| {
            !(drops_tag
                && matches!(arg.operand().and_then(|o| o.ty().as_object()), Some(Object::Tag(t)) if *t == MATH_TAG))
        })
        .cloned()
        .collect();
    // `__metal_frexp(x, &e)` passes a pointer where the function takes a reference.
    let mut operands = Vec::with_capacity(args.len());
    for arg in args {
        operands.push(match arg {
            Arg::Operand(o, at) if matches!(o.ty(), Type::Pointer(_)) => Arg::Operand(s.deref_operand(o, at)?, at),
            Arg::Operand(o, at) if to_int && o.ty().as_scalar().is_some_and(Scalar::is_float) => {
                Arg::Operand(s.convert(o, &Type::Scalar(Scalar::I32), false, at)?.into(), at)
            }
            arg => arg,
        });
    }
    match library::lookup(s, "metal", name) {
        Some(LibEntity::Function(function, namespace)) => {
            let mut call_with = |args: &[Arg]| {
                function(
                    s,
                    &library::Call {
                        name,
                        namespace,
                        span: call.span,
                        template_args: call.template_args,
                        args,
                    },
                )
            };
            match (call_with(&operands), operands.split_last()) {
                // The mode may be a plain number.
                (Err(fail), Some((_, rest))) => call_with(rest).map_err(|_| fail),
                (result, _) => result,
            }
        }
        _ => s.err("E0433", format!("unknown compiler builtin '{}'", call.name), call.span),
    }
}

/// `assert(condition)`, which a Mac checks in builds for its debugger only: the condition has to compile.
fn assertion(s: &mut Sema<'_>, call: &library::Call<'_>) -> Res<Operand> {
    match call.args {
        [Arg::Operand(condition, at)] => {
            s.to_bool(condition.clone(), *at)?;
            Ok(Operand::void())
        }
        _ => s.err("E0482", "'assert' takes one argument", call.span),
    }
}

/// `make_uniform(x)`
fn make_uniform(s: &mut Sema<'_>, call: &library::Call<'_>) -> Res<Operand> {
    match call.args {
        [Arg::Operand(operand, _)] => Ok(s.rvalue(operand.clone())?.into()),
        _ => s.err("E0482", "'make_uniform' takes one argument", call.span),
    }
}

fn thread_index(s: &mut Sema<'_>, call: &library::Call<'_>, builtin: anymetal_ir::Builtin) -> Res<Operand> {
    let scalar = match call.args.first().and_then(Arg::operand).map(Operand::ty) {
        Some(Type::Scalar(scalar)) => *scalar,
        _ => Scalar::U32,
    };
    let leaf = s.emit1(anymetal_ir::Op::Builtin(builtin), Scalar::U32)?;
    let leaf = s.convert_leaf(&leaf, scalar)?;
    Ok(Value::one(scalar, leaf).into())
}

/// What a name means that nobody declared.
pub(super) fn builtin_entity(name: &str) -> Option<Entity> {
    if let Some(ty) = builtin_type(name) {
        return Some(Entity::Type(ty.into()));
    }
    match name {
        "vec" => Some(Entity::Library(LibEntity::Template {
            name: "vec",
            instantiate: vec_template,
            deduce: None,
        })),
        "uniform" => Some(Entity::Library(LibEntity::Template {
            name: "uniform",
            instantiate: uniform_template,
            deduce: None,
        })),
        "is_convertible" => Some(Entity::Library(LibEntity::Template {
            name: "is_convertible",
            instantiate: is_convertible,
            deduce: None,
        })),
        "matrix" => Some(Entity::Library(LibEntity::Template {
            name: "matrix",
            instantiate: matrix_template,
            deduce: None,
        })),
        "make_uniform" => Some(Entity::Functions(FunctionSet {
            user: Vec::new(),
            library: Some((make_uniform, "metal")),
            args: Vec::new(),
        })),
        "assert" => Some(Entity::Functions(FunctionSet {
            user: Vec::new(),
            library: Some((assertion, "metal")),
            args: Vec::new(),
        })),
        "__METAL_MAYBE_FAST_MATH__" | "__METAL_FAST_MATH__" | "__METAL_PRECISE_MATH__" => Some(Entity::Operand(
            Value::empty(Type::object(Object::Tag(MATH_TAG))).into(),
        )),
        _ if name.starts_with("__metal_") => Some(Entity::Functions(FunctionSet {
            user: Vec::new(),
            library: Some((compiler_builtin, "metal")),
            args: Vec::new(),
        })),
        "nullptr_t" => Some(Entity::Type(Type::Nullptr.into())),
        _ => None,
    }
}
