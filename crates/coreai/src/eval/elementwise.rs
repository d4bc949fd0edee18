//! Element-wise operations, casts and broadcasting.

use std::borrow::Cow;

use super::math;
use super::movement::broadcast_view;
use crate::array::{Array, checked_len};
use crate::bytecode::ElementType::{self, *};
use crate::error::OpError;
use crate::program::{Binary, Unary};
use crate::scalar::{Numbers, decode, store_f32, store_f64, store_int};

/// NumPy's rule: shapes are aligned at the right, and an extent of 1 stretches.
pub(crate) fn broadcast_shape(a: &[usize], b: &[usize]) -> Result<Vec<usize>, OpError> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| {
        if i + s.len() >= rank { s[i + s.len() - rank] } else { 1 }
    };
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            _ => Err(OpError::invalid(format!("shapes {a:?} and {b:?} do not broadcast"))),
        })
        .collect()
}

pub(super) fn broadcast_shapes(a: &Array, b: &Array, element: ElementType) -> Result<Array, OpError> {
    let shape = broadcast_shape(&super::extents(a)?, &super::extents(b)?)?;
    let values: Vec<i128> = shape.iter().map(|&d| d as i128).collect();
    Ok(store_int(element, &[values.len()], &values)?)
}

pub(super) fn unary(op: Unary, x: &Array) -> Result<Array, OpError> {
    let (element, shape) = (x.element(), x.shape());
    if element.is_complex() {
        return complex_unary(op, x);
    }
    if element == Bool && op != Unary::Not {
        return Err(OpError::Element(element.to_string()));
    }
    match decode(x)? {
        Numbers::F32(v) => {
            // The match stands outside the loop, so that each loop is straight-line code.
            let out = match op {
                Unary::Abs => map(&v, f32::abs),
                Unary::Acos => map(&v, f32::acos),
                Unary::Acosh => map(&v, f32::acosh),
                Unary::Asin => map(&v, f32::asin),
                Unary::Asinh => map(&v, f32::asinh),
                Unary::Atan => map(&v, f32::atan),
                Unary::Atanh => map(&v, f32::atanh),
                Unary::Cos => map(&v, f32::cos),
                Unary::Cosh => map(&v, f32::cosh),
                Unary::Erf => map(&v, math::erf),
                Unary::Exp => map(&v, math::exp),
                Unary::Log => map(&v, f32::ln),
                Unary::Relu => map(&v, relu),
                Unary::Round => map(&v, f32::round_ties_even),
                Unary::Rsqrt => map(&v, |x| 1.0 / x.sqrt()),
                Unary::Sigmoid => map(&v, sigmoid),
                Unary::Silu => map(&v, |x| x * sigmoid(x)),
                Unary::Sin => map(&v, f32::sin),
                Unary::Sinh => map(&v, f32::sinh),
                Unary::Sqrt => map(&v, f32::sqrt),
                Unary::Tan => map(&v, f32::tan),
                Unary::Tanh => map(&v, f32::tanh),
                Unary::Not => return Err(OpError::Element(element.to_string())),
            };
            Ok(store_f32(element, shape, out)?)
        }
        Numbers::F64(v) => {
            let f: fn(f64) -> f64 = match op {
                Unary::Abs => f64::abs,
                Unary::Acos => f64::acos,
                Unary::Acosh => f64::acosh,
                Unary::Asin => f64::asin,
                Unary::Asinh => f64::asinh,
                Unary::Atan => f64::atan,
                Unary::Atanh => f64::atanh,
                Unary::Cos => f64::cos,
                Unary::Cosh => f64::cosh,
                Unary::Erf => math::erf64,
                Unary::Exp => f64::exp,
                Unary::Log => f64::ln,
                Unary::Relu => |x| if x < 0.0 { 0.0 } else { x },
                Unary::Round => f64::round_ties_even,
                Unary::Rsqrt => |x| 1.0 / x.sqrt(),
                Unary::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
                Unary::Silu => |x| x / (1.0 + (-x).exp()),
                Unary::Sin => f64::sin,
                Unary::Sinh => f64::sinh,
                Unary::Sqrt => f64::sqrt,
                Unary::Tan => f64::tan,
                Unary::Tanh => f64::tanh,
                Unary::Not => return Err(OpError::Element(element.to_string())),
            };
            Ok(store_f64(element, shape, v.iter().map(|&x| f(x)).collect())?)
        }
        Numbers::Int(v) => {
            let out: Vec<i128> = match op {
                Unary::Abs => v.iter().map(|x| x.abs()).collect(),
                Unary::Relu => v.iter().map(|&x| x.max(0)).collect(),
                Unary::Round => v,
                Unary::Not if element == Bool => v.iter().map(|&x| i128::from(x == 0)).collect(),
                _ => return Err(OpError::Element(element.to_string())),
            };
            Ok(store_int(element, shape, &out)?)
        }
    }
}

#[inline(always)]
fn map(v: &[f32], f: impl Fn(f32) -> f32) -> Vec<f32> {
    v.iter().map(|&x| f(x)).collect()
}

/// Keeps NaN, as PyTorch does.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + math::exp(-x))
}

/// GELU by its `approximate` attribute: 0 exact, 1 tanh, 2 sigmoid.
pub(super) fn gelu(x: &Array, mode: u64) -> Result<Array, OpError> {
    const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
    match decode(x)? {
        Numbers::F32(v) => {
            let out = match mode {
                0 => map(&v, |x| 0.5 * x * (1.0 + math::erf(x * std::f32::consts::FRAC_1_SQRT_2))),
                1 => map(&v, |x| {
                    let u = SQRT_2_OVER_PI as f32 * (x + 0.044715 * x * x * x);
                    // 0.5 (1 + tanh u) is sigmoid(2 u).
                    x * sigmoid(2.0 * u)
                }),
                2 => map(&v, |x| x * sigmoid(1.702 * x)),
                other => return Err(OpError::invalid(format!("GELU form {other} is not known"))),
            };
            Ok(store_f32(x.element(), x.shape(), out)?)
        }
        Numbers::F64(v) => {
            let f: fn(f64) -> f64 = match mode {
                0 => |x| 0.5 * x * (1.0 + math::erf64(x * std::f64::consts::FRAC_1_SQRT_2)),
                1 => |x| 0.5 * x * (1.0 + (SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)).tanh()),
                2 => |x| x / (1.0 + (-1.702 * x).exp()),
                other => return Err(OpError::invalid(format!("GELU form {other} is not known"))),
            };
            Ok(store_f64(x.element(), x.shape(), v.iter().map(|&x| f(x)).collect())?)
        }
        Numbers::Int(_) => Err(OpError::Element(x.element().to_string())),
    }
}

pub(super) fn cast(x: &Array, to: ElementType) -> Result<Array, OpError> {
    if x.element() == to {
        return Ok(x.clone());
    }
    let shape = x.shape();
    if x.element().is_complex() || to.is_complex() {
        return complex_cast(x, to);
    }
    match decode(x)? {
        Numbers::F32(v) if to.is_float() => Ok(store_f32(to, shape, v.into_owned())?),
        Numbers::F64(v) if to.is_float() => Ok(store_f64(to, shape, v.into_owned())?),
        Numbers::F32(v) if to == Bool => Ok(Array::from_bools(
            shape,
            &v.iter().map(|&x| x != 0.0).collect::<Vec<_>>(),
        )?),
        Numbers::F64(v) if to == Bool => Ok(Array::from_bools(
            shape,
            &v.iter().map(|&x| x != 0.0).collect::<Vec<_>>(),
        )?),
        Numbers::F32(v) => Ok(store_int(to, shape, &v.iter().map(|&x| x as i128).collect::<Vec<_>>())?),
        Numbers::F64(v) => Ok(store_int(to, shape, &v.iter().map(|&x| x as i128).collect::<Vec<_>>())?),
        Numbers::Int(v) if to == F64 => Ok(store_f64(to, shape, v.iter().map(|&x| x as f64).collect())?),
        Numbers::Int(v) if to.is_float() => Ok(store_f32(to, shape, v.iter().map(|&x| x as f32).collect())?),
        Numbers::Int(v) => Ok(store_int(to, shape, &v)?),
    }
}

/// Applies `f` to broadcast operands.
fn zip<T: Copy, U>(
    a: (&[T], &[usize]),
    b: (&[T], &[usize]),
    out: &[usize],
    f: impl Fn(T, T) -> U,
) -> Result<Vec<U>, OpError> {
    let (av, bv) = (a.0, b.0);
    if a.1 == b.1 || (av.len() == bv.len() && av.len() == out.iter().product::<usize>()) {
        return Ok(av.iter().zip(bv).map(|(&x, &y)| f(x, y)).collect());
    }
    let total = out.iter().product::<usize>();
    if bv.len() == 1 && av.len() == total {
        return Ok(av.iter().map(|&x| f(x, bv[0])).collect());
    }
    if av.len() == 1 && bv.len() == total {
        return Ok(bv.iter().map(|&y| f(av[0], y)).collect());
    }
    // One operand repeats as a whole: a bias.
    if av.len() == total && is_suffix(b.1, out) && !bv.is_empty() {
        let mut values = Vec::with_capacity(total);
        for chunk in av.chunks_exact(bv.len()) {
            values.extend(chunk.iter().zip(bv).map(|(&x, &y)| f(x, y)));
        }
        return Ok(values);
    }
    let (ra, rb) = (spread(av, a.1, out), spread(bv, b.1, out));
    Ok(ra.iter().zip(rb.iter()).map(|(&x, &y)| f(x, y)).collect())
}

/// True when `shape`, without leading ones, is the end of `out`.
fn is_suffix(shape: &[usize], out: &[usize]) -> bool {
    let first = shape.iter().position(|&d| d != 1).unwrap_or(shape.len());
    out.ends_with(&shape[first..])
}

fn spread<'a, T: Copy>(v: &'a [T], shape: &[usize], out: &[usize]) -> Cow<'a, [T]> {
    if shape == out {
        Cow::Borrowed(v)
    } else {
        Cow::Owned(broadcast_view(shape, out).collect(v))
    }
}

pub(super) fn binary(op: Binary, a: &Array, b: &Array, result: ElementType) -> Result<Array, OpError> {
    if a.element() != b.element() {
        return Err(OpError::invalid(format!(
            "operands are {} and {}",
            a.element(),
            b.element()
        )));
    }
    let shape = broadcast_shape(a.shape(), b.shape())?;
    checked_len(a.element(), &shape)?;
    if a.element().is_complex() {
        return complex_binary(op, a, b, &shape);
    }
    match (decode(a)?, decode(b)?) {
        (Numbers::F32(x), Numbers::F32(y)) => {
            let (x, y) = ((&*x, a.shape()), (&*y, b.shape()));
            let out = match op {
                Binary::Add => zip(x, y, &shape, |x, y| x + y)?,
                Binary::Sub => zip(x, y, &shape, |x, y| x - y)?,
                Binary::Mul => zip(x, y, &shape, |x, y| x * y)?,
                Binary::Divide => zip(x, y, &shape, |x, y| x / y)?,
                Binary::FloorDivide => zip(x, y, &shape, |x, y| (x / y).floor())?,
                Binary::Modulo => zip(x, y, &shape, |x, y| x % y)?,
                Binary::Pow => zip(x, y, &shape, pow32)?,
                Binary::Maximum => zip(x, y, &shape, |x, y| if x > y || x.is_nan() { x } else { y })?,
                Binary::Minimum => zip(x, y, &shape, |x, y| if x < y || x.is_nan() { x } else { y })?,
                Binary::Equal => return bools(&shape, zip(x, y, &shape, |x, y| x == y)?),
                Binary::NotEqual => return bools(&shape, zip(x, y, &shape, |x, y| x != y)?),
                Binary::Greater => return bools(&shape, zip(x, y, &shape, |x, y| x > y)?),
                _ => return Err(OpError::Element(a.element().to_string())),
            };
            Ok(store_f32(result, &shape, out)?)
        }
        (Numbers::F64(x), Numbers::F64(y)) => {
            let (x, y) = ((&*x, a.shape()), (&*y, b.shape()));
            let f: fn(f64, f64) -> f64 = match op {
                Binary::Add => |x, y| x + y,
                Binary::Sub => |x, y| x - y,
                Binary::Mul => |x, y| x * y,
                Binary::Divide => |x, y| x / y,
                Binary::FloorDivide => |x, y| (x / y).floor(),
                Binary::Modulo => |x, y| x % y,
                Binary::Pow => f64::powf,
                Binary::Maximum => |x, y| if x > y || x.is_nan() { x } else { y },
                Binary::Minimum => |x, y| if x < y || x.is_nan() { x } else { y },
                Binary::Equal => return bools(&shape, zip(x, y, &shape, |x, y| x == y)?),
                Binary::NotEqual => return bools(&shape, zip(x, y, &shape, |x, y| x != y)?),
                Binary::Greater => return bools(&shape, zip(x, y, &shape, |x, y| x > y)?),
                _ => return Err(OpError::Element(a.element().to_string())),
            };
            Ok(store_f64(result, &shape, zip(x, y, &shape, f)?)?)
        }
        (Numbers::Int(x), Numbers::Int(y)) => {
            let (x, y) = ((&*x, a.shape()), (&*y, b.shape()));
            if matches!(op, Binary::Divide | Binary::FloorDivide | Binary::Modulo) && y.0.contains(&0) {
                return Err(OpError::invalid("integer division by zero"));
            }
            let boolean = a.element() == Bool;
            let f: fn(i128, i128) -> i128 = match op {
                Binary::Add if boolean => |x, y| x | y,
                Binary::Mul if boolean => |x, y| x & y,
                Binary::Add => |x, y| x.wrapping_add(y),
                Binary::Sub => |x, y| x.wrapping_sub(y),
                Binary::Mul => |x, y| x.wrapping_mul(y),
                Binary::Divide => |x, y| x / y,
                Binary::FloorDivide => |x, y| x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0),
                Binary::Modulo => |x, y| x % y,
                Binary::Pow => int_pow,
                Binary::Maximum => |x, y| x.max(y),
                Binary::Minimum => |x, y| x.min(y),
                Binary::BitwiseAnd => |x, y| x & y,
                Binary::BitwiseOr => |x, y| x | y,
                Binary::BitwiseXor => |x, y| x ^ y,
                Binary::LogicalAnd => |x, y| i128::from(x != 0 && y != 0),
                Binary::LogicalOr => |x, y| i128::from(x != 0 || y != 0),
                Binary::LogicalXor => |x, y| i128::from((x != 0) != (y != 0)),
                Binary::Equal => return bools(&shape, zip(x, y, &shape, |x, y| x == y)?),
                Binary::NotEqual => return bools(&shape, zip(x, y, &shape, |x, y| x != y)?),
                Binary::Greater => return bools(&shape, zip(x, y, &shape, |x, y| x > y)?),
            };
            Ok(store_int(result, &shape, &zip(x, y, &shape, f)?)?)
        }
        _ => Err(OpError::Element(a.element().to_string())),
    }
}

fn bools(shape: &[usize], values: Vec<bool>) -> Result<Array, OpError> {
    Ok(Array::from_bools(shape, &values)?)
}

fn pow32(x: f32, y: f32) -> f32 {
    if y == 2.0 { x * x } else { x.powf(y) }
}

/// Integer power, wrapping; a negative exponent gives 0 except for bases 1 and -1.
fn int_pow(x: i128, y: i128) -> i128 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        };
    }
    let (mut base, mut exponent, mut out) = (x, y, 1i128);
    while exponent > 0 {
        if exponent & 1 == 1 {
            out = out.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    out
}

pub(super) fn select(condition: &Array, a: &Array, b: &Array) -> Result<Array, OpError> {
    if condition.element() != Bool {
        return Err(OpError::invalid(format!(
            "the condition is {}, not bool",
            condition.element()
        )));
    }
    if a.element() != b.element() {
        return Err(OpError::invalid(format!(
            "the choices are {} and {}",
            a.element(),
            b.element()
        )));
    }
    let shape = broadcast_shape(&broadcast_shape(condition.shape(), a.shape())?, b.shape())?;
    checked_len(a.element(), &shape)?;
    let chosen = spread(condition.bytes(), condition.shape(), &shape);
    fn pick<T: bytemuck::Pod + Send + Sync>(
        chosen: &[u8],
        a: &Array,
        b: &Array,
        shape: &[usize],
    ) -> Result<Array, OpError> {
        let missing = || OpError::Element(a.element().to_string());
        let (x, y) = (a.raw::<T>().ok_or_else(missing)?, b.raw::<T>().ok_or_else(missing)?);
        let (x, y) = (spread(x, a.shape(), shape), spread(y, b.shape(), shape));
        let out = chosen
            .iter()
            .zip(x.iter().zip(y.iter()))
            .map(|(&c, (&x, &y))| if c != 0 { x } else { y });
        Ok(Array::from_vec(a.element(), shape, out.collect::<Vec<T>>())?)
    }
    match a.element().size() {
        1 => pick::<u8>(&chosen, a, b, &shape),
        2 => pick::<u16>(&chosen, a, b, &shape),
        4 => pick::<u32>(&chosen, a, b, &shape),
        8 => pick::<u64>(&chosen, a, b, &shape),
        _ => Err(OpError::Element(a.element().to_string())),
    }
}

/// The element type of the parts of complex numbers.
fn part_type(element: ElementType) -> Result<ElementType, OpError> {
    Ok(match element {
        ComplexF64 => F64,
        ComplexF32 => F32,
        ComplexF16 => F16,
        ComplexBF16 => BF16,
        other => return Err(OpError::Element(other.to_string())),
    })
}

/// The parts of a complex array, interleaved, as f64.
fn parts(x: &Array) -> Result<Vec<f64>, OpError> {
    let mut shape = x.shape().to_vec();
    shape.push(2);
    let real = Array::new(part_type(x.element())?, &shape, x.shared().clone())?;
    match decode(&real)? {
        Numbers::F32(v) => Ok(v.iter().map(|&x| f64::from(x)).collect()),
        Numbers::F64(v) => Ok(v.into_owned()),
        Numbers::Int(_) => Err(OpError::Element(x.element().to_string())),
    }
}

fn store_parts(element: ElementType, shape: &[usize], values: Vec<f64>) -> Result<Array, OpError> {
    let mut doubled = shape.to_vec();
    doubled.push(2);
    let real = store_f64(part_type(element)?, &doubled, values)?;
    Ok(Array::new(element, shape, real.shared().clone())?)
}

pub(super) fn create_complex(re: &Array, im: &Array, element: ElementType) -> Result<Array, OpError> {
    if re.shape() != im.shape() {
        return Err(OpError::invalid(format!(
            "the parts have shapes {:?} and {:?}",
            re.shape(),
            im.shape()
        )));
    }
    let (a, b) = (re.to_f32()?, im.to_f32()?);
    let values = a
        .iter()
        .zip(&b)
        .flat_map(|(&x, &y)| [f64::from(x), f64::from(y)])
        .collect();
    store_parts(element, re.shape(), values)
}

pub(super) fn complex_part(x: &Array, part: usize, element: ElementType) -> Result<Array, OpError> {
    let values = parts(x)?.into_iter().skip(part).step_by(2).collect();
    Ok(store_f64(element, x.shape(), values)?)
}

fn complex_cast(x: &Array, to: ElementType) -> Result<Array, OpError> {
    if x.element().is_complex() && to.is_complex() {
        return store_parts(to, x.shape(), parts(x)?);
    }
    if to.is_complex() {
        let values = x.to_f32()?.iter().flat_map(|&v| [f64::from(v), 0.0]).collect();
        return store_parts(to, x.shape(), values);
    }
    cast(&complex_part(x, 0, part_type(x.element())?)?, to)
}

fn complex_unary(op: Unary, x: &Array) -> Result<Array, OpError> {
    let v = parts(x)?;
    let f: fn([f64; 2]) -> [f64; 2] = match op {
        Unary::Exp => |[a, b]| [a.exp() * b.cos(), a.exp() * b.sin()],
        Unary::Log => |[a, b]| [a.hypot(b).ln(), b.atan2(a)],
        Unary::Cos => |[a, b]| [a.cos() * b.cosh(), -a.sin() * b.sinh()],
        Unary::Sigmoid => |[a, b]| divide([1.0, 0.0], [1.0 + (-a).exp() * b.cos(), -(-a).exp() * b.sin()]),
        Unary::Silu => |[a, b]| divide([a, b], [1.0 + (-a).exp() * b.cos(), -(-a).exp() * b.sin()]),
        _ => return Err(OpError::Element(x.element().to_string())),
    };
    let out = v.as_chunks::<2>().0.iter().flat_map(|&z| f(z)).collect();
    store_parts(x.element(), x.shape(), out)
}

fn divide([a, b]: [f64; 2], [c, d]: [f64; 2]) -> [f64; 2] {
    let norm = c * c + d * d;
    [(a * c + b * d) / norm, (b * c - a * d) / norm]
}

fn complex_binary(op: Binary, a: &Array, b: &Array, shape: &[usize]) -> Result<Array, OpError> {
    let (av, bv) = (parts(a)?, parts(b)?);
    let x = spread(av.as_chunks::<2>().0, a.shape(), shape);
    let y = spread(bv.as_chunks::<2>().0, b.shape(), shape);
    let pairs = x.iter().copied().zip(y.iter().copied());
    let f: fn([f64; 2], [f64; 2]) -> [f64; 2] = match op {
        Binary::Add => |[a, b], [c, d]| [a + c, b + d],
        Binary::Sub => |[a, b], [c, d]| [a - c, b - d],
        Binary::Mul => |[a, b], [c, d]| [a * c - b * d, a * d + b * c],
        Binary::Divide => divide,
        Binary::Pow => |[a, b], [c, d]| {
            let (r, t) = (a.hypot(b).ln(), b.atan2(a));
            let (m, p) = ((c * r - d * t).exp(), d * r + c * t);
            [m * p.cos(), m * p.sin()]
        },
        Binary::Equal => return bools(shape, pairs.map(|(x, y)| x == y).collect()),
        Binary::NotEqual => return bools(shape, pairs.map(|(x, y)| x != y).collect()),
        _ => return Err(OpError::Element(a.element().to_string())),
    };
    store_parts(a.element(), shape, pairs.flat_map(|(x, y)| f(x, y)).collect())
}
