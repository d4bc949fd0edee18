//! The functions of Metal's math, common, integer, relational and geometric headers.
//!
//! A function of these headers works component by component on scalars and vectors; [`TABLE`] says by which operation.
//! Argument types follow Metal's overloads: all arguments get one component type, a scalar beside a vector is repeated.

use anymetal_ir::{BinaryOp, CompareOp, MathMode, Op, Scalar, TernaryOp, Type as IrType, UnaryOp};

use super::{Call, LibEntity};
use crate::sema::context::{Res, Sema};
use crate::sema::types::Type;
use crate::sema::value::{Leaf, Operand, Value};

/// How a function is built from operations.
#[derive(Clone, Copy)]
enum Rule {
    /// One float argument.
    Float1(UnaryOp),
    /// One integer argument.
    Int1(UnaryOp),
    /// One argument of any arithmetic type.
    Any1(UnaryOp),
    /// A question about a float; the result is `bool`.
    Test(UnaryOp),
    /// Two floats.
    Float2(BinaryOp),
    /// Two integers.
    Int2(BinaryOp),
    /// Two of any arithmetic type.
    Any2(BinaryOp),
    /// Three of any arithmetic type.
    Any3(TernaryOp),
    /// Three floats.
    Float3(TernaryOp),
    /// Its own function.
    Special(Special),
}

type Special = fn(&mut Sema<'_>, &Call<'_>, &mut Args) -> Res<Value>;

/// The arguments of a call as leaves of one shape.
pub struct Args {
    /// Components of each argument.
    pub lanes: u8,
    /// One row of leaves for each argument, each `lanes` long.
    pub rows: Vec<Vec<Leaf>>,
    /// Component type of each argument, as given.
    pub scalars: Vec<Scalar>,
    /// Fast or precise.
    pub mode: MathMode,
}

use Rule::{Any1, Any2, Any3, Float1, Float2, Float3, Int1, Int2, Special as S, Test};

/// Name, count of arguments, rule.
const TABLE: &[(&str, usize, Rule)] = &[
    ("abs", 1, Any1(UnaryOp::Abs)),
    ("absdiff", 2, Int2(BinaryOp::AbsDiff)),
    ("acos", 1, Float1(UnaryOp::Acos)),
    ("acosh", 1, Float1(UnaryOp::Acosh)),
    ("addsat", 2, Int2(BinaryOp::AddSat)),
    ("all", 1, S(all)),
    ("any", 1, S(any)),
    ("asin", 1, Float1(UnaryOp::Asin)),
    ("asinh", 1, Float1(UnaryOp::Asinh)),
    ("atan", 1, Float1(UnaryOp::Atan)),
    ("atan2", 2, Float2(BinaryOp::Atan2)),
    ("atanh", 1, Float1(UnaryOp::Atanh)),
    ("ceil", 1, Float1(UnaryOp::Ceil)),
    ("clamp", 3, Any3(TernaryOp::Clamp)),
    ("clz", 1, Int1(UnaryOp::Clz)),
    ("copysign", 2, Float2(BinaryOp::Copysign)),
    ("cos", 1, Float1(UnaryOp::Cos)),
    ("cosh", 1, Float1(UnaryOp::Cosh)),
    ("cospi", 1, Float1(UnaryOp::Cospi)),
    ("cross", 2, S(cross)),
    ("ctz", 1, Int1(UnaryOp::Ctz)),
    ("distance", 2, S(distance)),
    ("distance_squared", 2, S(distance_squared)),
    ("divide", 2, Float2(BinaryOp::Div)),
    ("dot", 2, S(dot)),
    ("exp", 1, Float1(UnaryOp::Exp)),
    ("exp10", 1, Float1(UnaryOp::Exp10)),
    ("exp2", 1, Float1(UnaryOp::Exp2)),
    ("extract_bits", 3, S(extract_bits)),
    ("fabs", 1, Float1(UnaryOp::Abs)),
    ("faceforward", 3, S(faceforward)),
    ("fdim", 2, Float2(BinaryOp::Fdim)),
    ("floor", 1, Float1(UnaryOp::Floor)),
    ("fma", 3, Float3(TernaryOp::Fma)),
    ("fmax", 2, Float2(BinaryOp::Max)),
    ("fmax3", 3, S(max3)),
    ("fmedian3", 3, Float3(TernaryOp::Median3)),
    ("fmin", 2, Float2(BinaryOp::Min)),
    ("fmin3", 3, S(min3)),
    ("fmod", 2, Float2(BinaryOp::Fmod)),
    ("fract", 1, Float1(UnaryOp::Fract)),
    ("hadd", 2, Int2(BinaryOp::Hadd)),
    ("ilogb", 1, Float1(UnaryOp::Ilogb)),
    ("insert_bits", 4, S(insert_bits)),
    ("isfinite", 1, Test(UnaryOp::IsFinite)),
    ("isinf", 1, Test(UnaryOp::IsInf)),
    ("isnan", 1, Test(UnaryOp::IsNan)),
    ("isnormal", 1, Test(UnaryOp::IsNormal)),
    ("isordered", 2, S(is_ordered)),
    ("isunordered", 2, S(is_unordered)),
    ("ldexp", 2, S(ldexp)),
    ("length", 1, S(length)),
    ("length_squared", 1, S(length_squared)),
    ("log", 1, Float1(UnaryOp::Log)),
    ("log10", 1, Float1(UnaryOp::Log10)),
    ("log2", 1, Float1(UnaryOp::Log2)),
    ("mad24", 3, S(mad)),
    ("madhi", 3, S(madhi)),
    ("madsat", 3, S(madsat)),
    ("max", 2, Any2(BinaryOp::Max)),
    ("max3", 3, S(max3)),
    ("median3", 3, Any3(TernaryOp::Median3)),
    ("min", 2, Any2(BinaryOp::Min)),
    ("min3", 3, S(min3)),
    ("mix", 3, S(mix)),
    ("mul24", 2, Int2(BinaryOp::Mul)),
    ("mulhi", 2, Int2(BinaryOp::MulHi)),
    ("nextafter", 2, Float2(BinaryOp::Nextafter)),
    ("normalize", 1, S(normalize)),
    ("popcount", 1, Int1(UnaryOp::Popcount)),
    ("pow", 2, Float2(BinaryOp::Pow)),
    ("powr", 2, Float2(BinaryOp::Powr)),
    ("reflect", 2, S(reflect)),
    ("reverse_bits", 1, Int1(UnaryOp::ReverseBits)),
    ("rhadd", 2, Int2(BinaryOp::Rhadd)),
    ("rint", 1, Float1(UnaryOp::Rint)),
    ("rotate", 2, Int2(BinaryOp::Rotate)),
    ("round", 1, Float1(UnaryOp::Round)),
    ("rsqrt", 1, Float1(UnaryOp::Rsqrt)),
    ("saturate", 1, Float1(UnaryOp::Saturate)),
    ("select", 3, S(select)),
    ("sign", 1, Float1(UnaryOp::Sign)),
    ("signbit", 1, Test(UnaryOp::SignBit)),
    ("sin", 1, Float1(UnaryOp::Sin)),
    ("sinh", 1, Float1(UnaryOp::Sinh)),
    ("sinpi", 1, Float1(UnaryOp::Sinpi)),
    ("smoothstep", 3, S(smoothstep)),
    ("sqrt", 1, Float1(UnaryOp::Sqrt)),
    ("step", 2, S(step)),
    ("subsat", 2, Int2(BinaryOp::SubSat)),
    ("tan", 1, Float1(UnaryOp::Tan)),
    ("tanh", 1, Float1(UnaryOp::Tanh)),
    ("tanpi", 1, Float1(UnaryOp::Tanpi)),
    ("trunc", 1, Float1(UnaryOp::Trunc)),
];

/// Functions with results behind their arguments, which are not component by component.
const WITH_RESULTS: &[&str] = &["frexp", "modf", "sincos"];

/// The function behind a name of a namespace, if these headers declare it.
pub fn lookup(namespace: &str, name: &str) -> Option<LibEntity> {
    let namespace = match namespace {
        "metal" => "metal",
        "metal::fast" => "metal::fast",
        "metal::precise" => "metal::precise",
        _ => return None,
    };
    if WITH_RESULTS.contains(&name) {
        return Some(LibEntity::Function(call_with_results, namespace));
    }
    TABLE.binary_search_by_key(&name, |entry| entry.0).ok()?;
    Some(LibEntity::Function(call, namespace))
}

/// The accuracy that a namespace or the options ask for.
pub fn mode_of(sema: &Sema<'_>, namespace: &str) -> MathMode {
    match namespace {
        "metal::fast" => MathMode::Fast,
        "metal::precise" => MathMode::Precise,
        _ => sema.math,
    }
}

fn call(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    let Ok(at) = TABLE.binary_search_by_key(&call.name, |entry| entry.0) else {
        return sema.err("E0810", format!("'{}' is not declared", call.name), call.span);
    };
    let (_, count, rule) = TABLE[at];
    let mut args = Args::of(sema, call, count)?;
    let mode = args.mode;
    let value = match rule {
        Float1(op) => {
            args.unify_float(sema, call)?;
            args.map(sema, |sema, x| sema.unary_leaf(op, &x[0], mode))?
        }
        Int1(op) => {
            args.unify_integer(sema, call)?;
            args.map(sema, |sema, x| sema.unary_leaf(op, &x[0], mode))?
        }
        Any1(op) => {
            args.unify(sema, call)?;
            args.map(sema, |sema, x| sema.unary_leaf(op, &x[0], mode))?
        }
        Test(op) => {
            args.unify_float(sema, call)?;
            args.map(sema, |sema, x| sema.unary_leaf(op, &x[0], MathMode::Precise))?
        }
        Float2(op) => {
            args.unify_float(sema, call)?;
            args.map(sema, |sema, x| sema.binary_leaf(op, &x[0], &x[1], mode))?
        }
        Int2(op) => {
            args.unify_integer(sema, call)?;
            args.map(sema, |sema, x| sema.binary_leaf(op, &x[0], &x[1], mode))?
        }
        Any2(op) => {
            args.unify(sema, call)?;
            args.map(sema, |sema, x| sema.binary_leaf(op, &x[0], &x[1], mode))?
        }
        Any3(op) => {
            args.unify(sema, call)?;
            args.map(sema, |sema, x| sema.ternary_leaf(op, &x[0], &x[1], &x[2], mode))?
        }
        Float3(op) => {
            args.unify_float(sema, call)?;
            args.map(sema, |sema, x| sema.ternary_leaf(op, &x[0], &x[1], &x[2], mode))?
        }
        S(special) => special(sema, call, &mut args)?,
    };
    Ok(value.into())
}

impl Args {
    /// Evaluates the arguments of a call and brings them to one count of components.
    pub fn of(sema: &mut Sema<'_>, call: &Call<'_>, count: usize) -> Res<Self> {
        if call.args.len() != count {
            let wanted = if count == 1 {
                "1 argument".to_string()
            } else {
                format!("{count} arguments")
            };
            return sema.err(
                "E0811",
                format!("'{}' takes {wanted}, {} given", call.name, call.args.len()),
                call.span,
            );
        }
        let mut args = Args {
            lanes: 1,
            rows: Vec::new(),
            scalars: Vec::new(),
            mode: mode_of(sema, call.namespace),
        };
        for arg in call.args {
            let Some(operand) = arg.operand() else {
                return sema.err("E0812", format!("'{}' takes no braced list", call.name), arg.span());
            };
            let value = sema.rvalue(operand.clone())?;
            let (Some(scalar), Some(lanes)) = (value.ty.component(), value.ty.lanes()) else {
                let ty = sema.type_name(&value.ty);
                return sema.err(
                    "E0813",
                    format!("'{}' takes numbers and vectors, not '{ty}'", call.name),
                    arg.span(),
                );
            };
            if lanes > 1 && args.lanes > 1 && lanes != args.lanes {
                return sema.err(
                    "E0814",
                    format!(
                        "'{}' takes vectors of one length, not {} and {lanes}",
                        call.name, args.lanes
                    ),
                    arg.span(),
                );
            }
            args.lanes = args.lanes.max(lanes);
            args.scalars.push(scalar);
            args.rows.push(value.leaves);
        }
        for row in &mut args.rows {
            if row.len() == 1 {
                *row = vec![row[0].clone(); args.lanes as usize];
            }
        }
        Ok(args)
    }

    /// Brings all arguments to a component type.
    pub fn convert(&mut self, sema: &mut Sema<'_>, to: Scalar) -> Res<Scalar> {
        for (row, scalar) in self.rows.iter_mut().zip(&mut self.scalars) {
            for leaf in row {
                *leaf = sema.convert_leaf(leaf, to)?;
            }
            *scalar = to;
        }
        Ok(to)
    }

    /// The common type of any arithmetic arguments, as overload resolution would find it.
    pub fn unify(&mut self, sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Scalar> {
        if self.scalars.iter().any(|scalar| scalar.is_float()) {
            return self.unify_float(sema, call);
        }
        self.unify_integer(sema, call)
    }

    /// The common float type; integers become it.
    pub fn unify_float(&mut self, sema: &mut Sema<'_>, _call: &Call<'_>) -> Res<Scalar> {
        let floats: Vec<Scalar> = self
            .scalars
            .iter()
            .copied()
            .filter(|scalar| scalar.is_float())
            .collect();
        let to = match floats.split_first() {
            None => Scalar::F32,
            Some((&first, rest)) if rest.iter().all(|&scalar| scalar == first) => first,
            Some(_) => Scalar::F32,
        };
        self.convert(sema, to)
    }

    /// The common integer type. Signed and unsigned arguments of one call are ambiguous, as in Metal, unless one is a literal-like constant.
    pub fn unify_integer(&mut self, sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Scalar> {
        if let Some(scalar) = self.scalars.iter().find(|scalar| scalar.is_float()) {
            return sema.err(
                "E0815",
                format!(
                    "'{}' takes integers, not '{}'",
                    call.name,
                    crate::sema::layout::scalar_name(*scalar)
                ),
                call.span,
            );
        }
        let widest = self
            .scalars
            .iter()
            .copied()
            .max_by_key(|scalar| (scalar.bits(), !scalar.is_signed()));
        let widest = widest.unwrap_or(Scalar::I32);
        let to = if widest == Scalar::Bool { Scalar::I32 } else { widest };
        let mixed = self.scalars.iter().zip(&self.rows).find(|(scalar, row)| {
            scalar.bits() == to.bits()
                && scalar.is_signed() != to.is_signed()
                && row.iter().any(|leaf| sema.int_of(leaf).is_none_or(|value| value < 0))
        });
        if let Some((scalar, _)) = mixed {
            let (a, b) = (
                crate::sema::layout::scalar_name(*scalar),
                crate::sema::layout::scalar_name(to),
            );
            return sema.err_help(
                "E0816",
                format!("the call of '{}' with '{a}' and '{b}' is ambiguous", call.name),
                call.span,
                format!("convert one argument: '{b}(…)'"),
            );
        }
        self.convert(sema, to)
    }

    /// Applies a function to each component; the results make a vector (or a scalar).
    pub fn map(&self, sema: &mut Sema<'_>, mut f: impl FnMut(&mut Sema<'_>, &[Leaf]) -> Res<Leaf>) -> Res<Value> {
        let mut leaves = Vec::with_capacity(self.lanes as usize);
        for lane in 0..self.lanes as usize {
            let column: Vec<Leaf> = self.rows.iter().map(|row| row[lane].clone()).collect();
            leaves.push(f(sema, &column)?);
        }
        let scalar = match leaves.first().and_then(|leaf| sema.leaf_type(leaf)) {
            Some(IrType::Scalar(scalar)) => scalar,
            _ => Scalar::F32,
        };
        Ok(Value {
            ty: Type::vector(scalar, self.lanes),
            leaves,
        })
    }
}

fn all(sema: &mut Sema<'_>, _: &Call<'_>, args: &mut Args) -> Res<Value> {
    args.convert(sema, Scalar::Bool)?;
    fold_row(sema, &args.rows[0], BinaryOp::And, MathMode::Precise)
}

fn any(sema: &mut Sema<'_>, _: &Call<'_>, args: &mut Args) -> Res<Value> {
    args.convert(sema, Scalar::Bool)?;
    fold_row(sema, &args.rows[0], BinaryOp::Or, MathMode::Precise)
}

/// Combines the components of a row from left to right.
fn fold_row(sema: &mut Sema<'_>, row: &[Leaf], op: BinaryOp, mode: MathMode) -> Res<Value> {
    let mut total = row[0].clone();
    for leaf in &row[1..] {
        total = sema.binary_leaf(op, &total, leaf, mode)?;
    }
    let scalar = match sema.leaf_type(&total) {
        Some(IrType::Scalar(scalar)) => scalar,
        _ => Scalar::F32,
    };
    Ok(Value::one(Type::Scalar(scalar), total))
}

fn product_sum(sema: &mut Sema<'_>, a: &[Leaf], b: &[Leaf], mode: MathMode) -> Res<Leaf> {
    let mut total = sema.binary_leaf(BinaryOp::Mul, &a[0], &b[0], mode)?;
    for (x, y) in a.iter().zip(b).skip(1) {
        total = sema.ternary_leaf(TernaryOp::Fma, x, y, &total, mode)?;
    }
    Ok(total)
}

fn dot(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_float(sema, call)?;
    let total = product_sum(sema, &args.rows[0], &args.rows[1], args.mode)?;
    Ok(Value::one(scalar, total))
}

fn length_squared(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_float(sema, call)?;
    let total = product_sum(sema, &args.rows[0], &args.rows[0], args.mode)?;
    Ok(Value::one(scalar, total))
}

fn length(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let square = length_squared(sema, call, args)?;
    let root = sema.unary_leaf(UnaryOp::Sqrt, &square.leaves[0], args.mode)?;
    Ok(Value::one(square.ty, root))
}

fn difference(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<()> {
    args.unify_float(sema, call)?;
    let mode = args.mode;
    let value = args.map(sema, |sema, x| sema.binary_leaf(BinaryOp::Sub, &x[0], &x[1], mode))?;
    args.rows = vec![value.leaves];
    args.scalars.truncate(1);
    Ok(())
}

fn distance(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    difference(sema, call, args)?;
    length(sema, call, args)
}

fn distance_squared(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    difference(sema, call, args)?;
    length_squared(sema, call, args)
}

fn normalize(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let square = length_squared(sema, call, args)?;
    let mode = args.mode;
    let factor = sema.unary_leaf(UnaryOp::Rsqrt, &square.leaves[0], mode)?;
    args.map(sema, |sema, x| sema.binary_leaf(BinaryOp::Mul, &x[0], &factor, mode))
}

fn cross(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_float(sema, call)?;
    if args.lanes != 3 {
        return sema.err(
            "E0817",
            format!("'cross' takes vectors of 3 components, not {}", args.lanes),
            call.span,
        );
    }
    let (a, b, mode) = (args.rows[0].clone(), args.rows[1].clone(), args.mode);
    let mut leaves = Vec::with_capacity(3);
    for i in 0..3 {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        let left = sema.binary_leaf(BinaryOp::Mul, &a[j], &b[k], mode)?;
        let right = sema.binary_leaf(BinaryOp::Mul, &a[k], &b[j], mode)?;
        leaves.push(sema.binary_leaf(BinaryOp::Sub, &left, &right, mode)?);
    }
    Ok(Value {
        ty: Type::vector(scalar, 3),
        leaves,
    })
}

/// `i − 2·dot(n, i)·n`
fn reflect(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_float(sema, call)?;
    let mode = args.mode;
    let along = product_sum(sema, &args.rows[1], &args.rows[0], mode)?;
    let two = Sema::float_leaf(scalar, 2.0);
    let twice = sema.binary_leaf(BinaryOp::Mul, &two, &along, mode)?;
    args.map(sema, |sema, x| {
        let part = sema.binary_leaf(BinaryOp::Mul, &twice, &x[1], mode)?;
        sema.binary_leaf(BinaryOp::Sub, &x[0], &part, mode)
    })
}

/// `dot(nref, i) < 0 ? n : −n`
fn faceforward(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_float(sema, call)?;
    let mode = args.mode;
    let along = product_sum(sema, &args.rows[2], &args.rows[1], mode)?;
    let zero = Sema::float_leaf(scalar, 0.0);
    let negative = sema.compare_leaf(CompareOp::Lt, &along, &zero)?;
    args.map(sema, |sema, x| {
        let flipped = sema.unary_leaf(UnaryOp::Neg, &x[0], mode)?;
        sema.select_leaf(&negative, &x[0], &flipped)
    })
}

fn three(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args, op: BinaryOp) -> Res<Value> {
    args.unify(sema, call)?;
    let mode = args.mode;
    args.map(sema, |sema, x| {
        let first = sema.binary_leaf(op, &x[0], &x[1], mode)?;
        sema.binary_leaf(op, &first, &x[2], mode)
    })
}

fn min3(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    three(sema, call, args, BinaryOp::Min)
}

fn max3(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    three(sema, call, args, BinaryOp::Max)
}

/// `x + (y − x)·a`
fn mix(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    args.unify_float(sema, call)?;
    let mode = args.mode;
    args.map(sema, |sema, x| {
        let span = sema.binary_leaf(BinaryOp::Sub, &x[1], &x[0], mode)?;
        sema.ternary_leaf(TernaryOp::Fma, &span, &x[2], &x[0], mode)
    })
}

/// `x < edge ? 0 : 1`
fn step(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_float(sema, call)?;
    let (zero, one) = (Sema::float_leaf(scalar, 0.0), Sema::float_leaf(scalar, 1.0));
    args.map(sema, |sema, x| {
        let below = sema.compare_leaf(CompareOp::Lt, &x[1], &x[0])?;
        sema.select_leaf(&below, &zero, &one)
    })
}

/// `t = saturate((x − a) / (b − a)); t·t·(3 − 2·t)`
fn smoothstep(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_float(sema, call)?;
    let mode = args.mode;
    let (two, three) = (Sema::float_leaf(scalar, 2.0), Sema::float_leaf(scalar, 3.0));
    args.map(sema, |sema, x| {
        let top = sema.binary_leaf(BinaryOp::Sub, &x[2], &x[0], mode)?;
        let bottom = sema.binary_leaf(BinaryOp::Sub, &x[1], &x[0], mode)?;
        let ratio = sema.binary_leaf(BinaryOp::Div, &top, &bottom, mode)?;
        let t = sema.unary_leaf(UnaryOp::Saturate, &ratio, mode)?;
        let twice = sema.binary_leaf(BinaryOp::Mul, &two, &t, mode)?;
        let rest = sema.binary_leaf(BinaryOp::Sub, &three, &twice, mode)?;
        let square = sema.binary_leaf(BinaryOp::Mul, &t, &t, mode)?;
        sema.binary_leaf(BinaryOp::Mul, &square, &rest, mode)
    })
}

/// `c ? b : a`, component by component.
fn select(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let condition = match (args.rows.pop(), args.scalars.pop()) {
        (Some(row), Some(_)) => row,
        _ => return sema.err("E0811", "'select' takes 3 arguments", call.span),
    };
    args.unify(sema, call)?;
    let mut leaves = Vec::with_capacity(args.lanes as usize);
    for (lane, chosen) in condition.iter().enumerate() {
        // The parameter is bool: a number is converted as an argument is.
        let bit = sema.convert_leaf(chosen, Scalar::Bool)?;
        leaves.push(sema.select_leaf(&bit, &args.rows[1][lane], &args.rows[0][lane])?);
    }
    Ok(Value {
        ty: Type::vector(args.scalars[0], args.lanes),
        leaves,
    })
}

fn is_ordered(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    args.unify_float(sema, call)?;
    args.map(sema, |sema, x| {
        let a = sema.compare_leaf(CompareOp::Eq, &x[0], &x[0])?;
        let b = sema.compare_leaf(CompareOp::Eq, &x[1], &x[1])?;
        sema.binary_leaf(BinaryOp::And, &a, &b, MathMode::Precise)
    })
}

fn is_unordered(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let ordered = is_ordered(sema, call, args)?;
    let mut leaves = Vec::new();
    for leaf in &ordered.leaves {
        leaves.push(sema.unary_leaf(UnaryOp::Not, leaf, MathMode::Precise)?);
    }
    Ok(Value { ty: ordered.ty, leaves })
}

fn ldexp(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let exponents = args.rows.pop().unwrap_or_default();
    args.scalars.truncate(1);
    let scalar = args.unify_float(sema, call)?;
    let mut leaves = Vec::with_capacity(exponents.len());
    for (x, exponent) in args.rows[0].iter().zip(&exponents) {
        let exponent = sema.convert_leaf(exponent, Scalar::I32)?;
        leaves.push(sema.binary_leaf(BinaryOp::Ldexp, x, &exponent, args.mode)?);
    }
    Ok(Value {
        ty: Type::vector(scalar, args.lanes),
        leaves,
    })
}

fn mad(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    args.unify_integer(sema, call)?;
    args.map(sema, |sema, x| {
        let product = sema.binary_leaf(BinaryOp::Mul, &x[0], &x[1], MathMode::Precise)?;
        sema.binary_leaf(BinaryOp::Add, &product, &x[2], MathMode::Precise)
    })
}

fn madhi(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    args.unify_integer(sema, call)?;
    args.map(sema, |sema, x| {
        let product = sema.binary_leaf(BinaryOp::MulHi, &x[0], &x[1], MathMode::Precise)?;
        sema.binary_leaf(BinaryOp::Add, &product, &x[2], MathMode::Precise)
    })
}

/// `a·b + c`, saturated: computed in the next wider type.
fn madsat(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = args.unify_integer(sema, call)?;
    let wide = match (scalar.bits(), scalar.is_signed()) {
        (8, true) | (16, true) => Scalar::I32,
        (8, false) | (16, false) => Scalar::U32,
        (32, true) => Scalar::I64,
        (32, false) => Scalar::U64,
        _ => {
            return sema.err("E0818", "'madsat' on 64-bit integers is not supported", call.span);
        }
    };
    args.map(sema, |sema, x| {
        let [a, b, c] = [0, 1, 2].map(|i| sema.convert_leaf(&x[i], wide));
        let product = sema.binary_leaf(BinaryOp::Mul, &a?, &b?, MathMode::Precise)?;
        let total = sema.binary_leaf(BinaryOp::AddSat, &product, &c?, MathMode::Precise)?;
        let operand = sema.materialize(&total)?;
        sema.emit1(
            Op::Convert {
                operand,
                to: scalar,
                saturate: true,
            },
            scalar,
        )
    })
}

/// `extract_bits(x, offset, bits)`: the bits, sign-extended for signed types.
fn extract_bits(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = first_scalar(sema, call, args)?;
    args.convert(sema, scalar)?;
    let width = Sema::int_leaf(scalar, i128::from(scalar.bits()));
    let p = MathMode::Precise;
    args.map(sema, |sema, x| {
        let used = sema.binary_leaf(BinaryOp::Add, &x[1], &x[2], p)?;
        let left = sema.binary_leaf(BinaryOp::Sub, &width, &used, p)?;
        let right = sema.binary_leaf(BinaryOp::Sub, &width, &x[2], p)?;
        let up = sema.binary_leaf(BinaryOp::Shl, &x[0], &left, p)?;
        let down = sema.binary_leaf(BinaryOp::Shr, &up, &right, p)?;
        // No bits give 0: the shift by the full width would wrap.
        let zero = Sema::int_leaf(scalar, 0);
        let none = sema.compare_leaf(CompareOp::Eq, &x[2], &zero)?;
        sema.select_leaf(&none, &zero, &down)
    })
}

/// `insert_bits(base, insert, offset, bits)`
fn insert_bits(sema: &mut Sema<'_>, call: &Call<'_>, args: &mut Args) -> Res<Value> {
    let scalar = first_scalar(sema, call, args)?;
    args.convert(sema, scalar)?;
    let p = MathMode::Precise;
    let (zero, one) = (Sema::int_leaf(scalar, 0), Sema::int_leaf(scalar, 1));
    let (full, width) = (
        Sema::int_leaf(scalar, -1),
        Sema::int_leaf(scalar, i128::from(scalar.bits())),
    );
    args.map(sema, |sema, x| {
        let power = sema.binary_leaf(BinaryOp::Shl, &one, &x[3], p)?;
        let low = sema.binary_leaf(BinaryOp::Sub, &power, &one, p)?;
        let all = sema.compare_leaf(CompareOp::Eq, &x[3], &width)?;
        let low = sema.select_leaf(&all, &full, &low)?;
        let none = sema.compare_leaf(CompareOp::Eq, &x[3], &zero)?;
        let low = sema.select_leaf(&none, &zero, &low)?;
        let mask = sema.binary_leaf(BinaryOp::Shl, &low, &x[2], p)?;
        let moved = sema.binary_leaf(BinaryOp::Shl, &x[1], &x[2], p)?;
        sema.ternary_leaf(TernaryOp::BitSelect, &x[0], &moved, &mask, p)
    })
}

fn first_scalar(sema: &mut Sema<'_>, call: &Call<'_>, args: &Args) -> Res<Scalar> {
    if args.scalars[0].is_integer() {
        return Ok(args.scalars[0]);
    }
    sema.err(
        "E0815",
        format!(
            "'{}' takes integers, not '{}'",
            call.name,
            crate::sema::layout::scalar_name(args.scalars[0])
        ),
        call.span,
    )
}

/// `frexp(x, exponent&)`, `modf(x, whole&)`, `sincos(x, cosine&)`.
fn call_with_results(sema: &mut Sema<'_>, call: &Call<'_>) -> Res<Operand> {
    let [input, Some(Operand::Place(out))] = [0, 1].map(|i| call.args.get(i).and_then(|arg| arg.operand())) else {
        return sema.err(
            "E0819",
            format!("'{}' takes a value and a variable for its second result", call.name),
            call.span,
        );
    };
    let Some(input) = input.cloned() else {
        return sema.err("E0812", format!("'{}' takes no braced list", call.name), call.span);
    };
    let out = out.clone();
    let value = sema.rvalue(input)?;
    let (Some(scalar), Some(lanes)) = (value.ty.component(), value.ty.lanes()) else {
        let name = sema.type_name(&value.ty);
        return sema.err(
            "E0813",
            format!("'{}' takes numbers and vectors, not '{name}'", call.name),
            call.span,
        );
    };
    let scalar = if scalar.is_float() { scalar } else { Scalar::F32 };
    let mode = mode_of(sema, call.namespace);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let other = if call.name == "frexp" { Scalar::I32 } else { scalar };
    for leaf in &value.leaves {
        let leaf = sema.convert_leaf(leaf, scalar)?;
        if call.name == "sincos" {
            first.push(sema.unary_leaf(UnaryOp::Sin, &leaf, mode)?);
            second.push(sema.unary_leaf(UnaryOp::Cos, &leaf, mode)?);
            continue;
        }
        sema.foldable()?;
        let operand = sema.materialize(&leaf)?;
        let op = if call.name == "frexp" {
            Op::Frexp { operand }
        } else {
            Op::Modf { operand }
        };
        let id = sema.builder.emit(op, &[scalar.into(), other.into()]);
        first.push(Leaf::Value(id));
        second.push(Leaf::Value(anymetal_ir::ValueId(id.0 + 1)));
    }
    let result = Value {
        ty: Type::vector(other, lanes),
        leaves: second,
    };
    if out.ty != result.ty {
        let (got, wanted) = (sema.type_name(&out.ty), sema.type_name(&result.ty));
        return sema.err(
            "E0819",
            format!("the second result of '{}' is '{wanted}', not '{got}'", call.name),
            call.span,
        );
    }
    sema.store(&out, &result)?;
    Ok(Value {
        ty: Type::vector(scalar, lanes),
        leaves: first,
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn table_is_sorted() {
        assert!(
            TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "the table is searched by bisection"
        );
    }
}
