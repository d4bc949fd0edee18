//! Operations of ours that replace whole composites or chains, on the host.

use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::eval;
use crate::program::{Composite, CompositeValue};

use super::dispatch::Dispatcher;
use super::library;

/// What follows a linear layer in the same pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activation {
    None,
    Relu,
    Silu,
    Gelu,
    GeluTanh,
}

/// A fused operation.
#[derive(Clone, Debug)]
pub(super) enum Native {
    /// x · wᵀ (+ bias) then an activation. Operands: x [.., K], w [N, K], bias [N] when `bias`.
    Linear { bias: bool, activation: Activation },
    /// A batch of matrix products of this result shape.
    Matmul { shape: Vec<usize> },
    /// Normalisation over the last dimension. Operands: x, gamma, beta; or x, a, gamma, beta when `residual`, which
    /// adds a to x first.
    LayerNorm { eps: f32, residual: bool },
    /// x · rsqrt(mean x² + eps) · scale over the last dimension.
    RmsNorm { eps: f32 },
    /// softmax(q · kᵀ · scale + mask) · v. Operands: q, k, v [B, H, T, D], and a mask when there is one: added if it is a
    /// float, else false means -10000.
    Attention { scale: f32, shape: AttentionShape },
}

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttentionShape {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub dim: usize,
}

impl Native {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear {
                activation: Activation::None,
                ..
            } => "linear",
            Self::Linear { .. } => "linear with activation",
            Self::Matmul { .. } => "matmul",
            Self::LayerNorm { residual: true, .. } => "add and layer norm",
            Self::LayerNorm { .. } => "layer norm",
            Self::RmsNorm { .. } => "RMS norm",
            Self::Attention { .. } => "attention",
        }
    }

    /// The replacement of a composite, when there is one for these operands.
    pub fn composite(composite: &Composite, operands: &[Array]) -> Option<Self> {
        let x = operands.first()?;
        let width = *x.shape().last()?;
        let float = |name: &str| match composite.attribute(name) {
            Some(CompositeValue::Float(v)) => Some(*v as f32),
            _ => None,
        };
        let is_last = |value: &CompositeValue| matches!(value, CompositeValue::Integer(a) if *a == -1 || *a == x.rank() as i64 - 1);
        let vectors = |arrays: &[Array]| {
            arrays
                .iter()
                .all(|a| a.shape() == [width] && a.element() == x.element())
        };
        if !matches!(x.element(), ElementType::F32 | ElementType::F16 | ElementType::BF16) || width == 0 {
            return None;
        }
        match composite.name.as_str() {
            "layer_norm" if operands.len() == 3 && composite.inputs == ["input", "gamma", "beta"] => {
                let Some(CompositeValue::List(axes)) = composite.attribute("axes") else {
                    return None;
                };
                let fits = matches!(axes.as_slice(), [axis] if is_last(axis)) && vectors(&operands[1..]);
                fits.then_some(Self::LayerNorm {
                    eps: float("eps")?,
                    residual: false,
                })
            }
            "rms_norm" if operands.len() == 2 && composite.inputs == ["input", "scale"] => {
                let fits = is_last(composite.attribute("axes")?) && vectors(&operands[1..]);
                fits.then_some(Self::RmsNorm { eps: float("eps")? })
            }
            "scaled_dot_product_attention" => attention_of(composite, operands),
            _ => None,
        }
    }

    /// A linear layer for x [.., K] and w [N, K], when the types allow it.
    pub fn linear(x: &Array, w: &Array) -> Option<Self> {
        let fits = x.rank() >= 2
            && x.element() == w.element()
            && matches!(x.element(), ElementType::F32 | ElementType::F16 | ElementType::BF16)
            && x.shape().last() == w.shape().last();
        fits.then_some(Self::Linear {
            bias: false,
            activation: Activation::None,
        })
    }

    /// A batch of products, when a kernel covers and is worth it.
    pub fn matmul(a: &Array, b: &Array) -> Option<Self> {
        let (&[ref ba @ .., m, ka], &[ref bb @ .., kb, n]) = (a.shape(), b.shape()) else {
            return None;
        };
        let batch = eval::broadcast_shape(ba, bb).ok()?;
        let count: usize = batch.iter().product();
        let whole = |own: &[usize]| own.iter().product::<usize>() == 1 || own.iter().product::<usize>() == count;
        let fits = ka == kb
            && ka > 0
            && whole(ba)
            && whole(bb)
            && a.element() == b.element()
            && matches!(a.element(), ElementType::F32 | ElementType::F16 | ElementType::BF16)
            && m.saturating_mul(n).saturating_mul(ka).saturating_mul(count) >= library::MIN_LINEAR_WORK;
        let mut shape = batch;
        shape.extend([m, n]);
        fits.then_some(Self::Matmul { shape })
    }

    /// Computes, by a kernel or on the host.
    pub fn run(&self, dispatcher: &Dispatcher, operands: &[Array]) -> Result<Vec<Array>, OpError> {
        let missing = || OpError::invalid(format!("{} has too few operands", self.name()));
        let x = operands.first().ok_or_else(missing)?;
        match self {
            Self::Linear { bias, activation } => {
                let w = operands.get(1).ok_or_else(missing)?;
                let bias = if *bias {
                    Some(operands.get(2).ok_or_else(missing)?)
                } else {
                    None
                };
                let fast = library::linear(dispatcher, x, w, bias, *activation)?;
                fast.map_or_else(|| linear(x, w, bias, *activation), Ok)
                    .map(|a| vec![a])
            }
            Self::Matmul { shape } => {
                let b = operands.get(1).ok_or_else(missing)?;
                library::matmul(dispatcher, x, b, shape).map(|a| vec![a])
            }
            Self::LayerNorm { eps, residual } => {
                let rest = &operands[1..];
                let (added, rest) = if *residual {
                    (rest.first(), rest.get(1..))
                } else {
                    (None, Some(rest))
                };
                let Some([gamma, beta]) = rest else {
                    return Err(missing());
                };
                layer_norm(x, added, gamma, beta, *eps).map(|a| vec![a])
            }
            Self::RmsNorm { eps } => {
                let scale = operands.get(1).ok_or_else(missing)?;
                rms_norm(x, scale, *eps).map(|a| vec![a])
            }
            Self::Attention { scale, shape } => {
                let [q, k, v, mask @ ..] = operands else {
                    return Err(missing());
                };
                let mask = mask.first().map(|m| additive_mask(m, q.element())).transpose()?;
                library::attention(dispatcher, [q, k, v], mask.as_ref(), *scale, shape).map(|a| vec![a])
            }
        }
    }
}

/// The attention kernel for a composite, when it covers these operands.
fn attention_of(composite: &Composite, operands: &[Array]) -> Option<Native> {
    let names: Vec<&str> = composite.inputs.iter().map(String::as_str).collect();
    let masked = match names.as_slice() {
        ["query", "key", "value"] => false,
        ["query", "key", "value", "attn_mask"] => true,
        _ => return None,
    };
    if operands.len() != names.len() {
        return None;
    }
    let zero = |name: &str| matches!(composite.attribute(name), None | Some(CompositeValue::Integer(0)));
    let (q, k, v) = (&operands[0], &operands[1], &operands[2]);
    let (&[batch, heads, queries, dim], &[kb, kv_heads, keys, kd]) = (q.shape(), k.shape()) else {
        return None;
    };
    let fits = zero("is_causal")
        && zero("window_size")
        && v.shape() == k.shape()
        && (kb, kd) == (batch, dim)
        && [32, 64, 80, 128].contains(&dim)
        && keys > 0
        && kv_heads > 0
        && heads % kv_heads == 0
        && [k, v].iter().all(|a| a.element() == q.element());
    let mask_fits = !masked || {
        let mask = &operands[3];
        let wanted = [batch, heads, queries, keys];
        let kind = mask.element() == q.element() || mask.element() == ElementType::Bool;
        let lead = 4usize.saturating_sub(mask.rank());
        kind && mask.rank() <= 4
            && mask.shape().last() == Some(&keys)
            && mask
                .shape()
                .iter()
                .zip(&wanted[lead..])
                .all(|(&m, &w)| m == w || m == 1)
    };
    let scale = match composite.attribute("scale") {
        Some(CompositeValue::Float(scale)) => *scale as f32,
        None => 1.0 / (dim as f32).sqrt(),
        _ => return None,
    };
    let shape = AttentionShape {
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        dim,
    };
    (fits && mask_fits).then_some(Native::Attention { scale, shape })
}

/// The mask as numbers to add, with rank 4.
fn additive_mask(mask: &Array, element: ElementType) -> Result<Array, OpError> {
    let mut shape = vec![1; 4usize.saturating_sub(mask.rank())];
    shape.extend_from_slice(mask.shape());
    if mask.element() == element {
        return Ok(mask.reshaped(&shape)?);
    }
    // The decomposition adds -10000 where the mask is false, not minus infinity.
    let values = mask.bytes().iter().map(|&b| if b != 0 { 0.0 } else { -1e4 }).collect();
    Ok(crate::scalar::store_f32(element, &shape, values)?)
}

/// The shape of x · wᵀ.
pub(super) fn linear_shape(x: &Array, w: &Array) -> Result<Vec<usize>, OpError> {
    let misfit = || OpError::invalid(format!("{x:?} does not go through a linear layer of {w:?}"));
    let (&k, rest) = x.shape().split_last().ok_or_else(misfit)?;
    let [n, wk] = *w.shape() else {
        return Err(misfit());
    };
    if k != wk {
        return Err(misfit());
    }
    let mut shape = rest.to_vec();
    shape.push(n);
    checked_len(x.element(), &shape)?;
    Ok(shape)
}

fn linear(x: &Array, w: &Array, bias: Option<&Array>, activation: Activation) -> Result<Array, OpError> {
    let shape = linear_shape(x, w)?;
    let (n, k) = (w.shape()[0], w.shape()[1]);
    let m = shape[..shape.len() - 1].iter().product::<usize>();
    let right = eval::permuted(w, &[1, 0])?.to_f32()?;
    let left = x.to_f32()?;
    let mut out = vec![0f32; m * n];
    eval::matmul_f32(&left, &right, &mut out, m, n, k);
    let bias = bias.map(Array::to_f32).transpose()?;
    if let Some(bias) = bias.filter(|b| b.len() == n && n > 0) {
        for row in out.chunks_exact_mut(n) {
            row.iter_mut().zip(&bias).for_each(|(x, b)| *x += b);
        }
    }
    activate(&mut out, activation);
    Ok(crate::scalar::store_f32(x.element(), &shape, out)?)
}

pub(super) fn activate(values: &mut [f32], activation: Activation) {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    match activation {
        Activation::None => {}
        Activation::Relu => values.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
        Activation::Silu => values.iter_mut().for_each(|x| *x /= 1.0 + eval::exp(-*x)),
        Activation::Gelu => values
            .iter_mut()
            .for_each(|x| *x = 0.5 * *x * (1.0 + eval::erf(*x * std::f32::consts::FRAC_1_SQRT_2))),
        Activation::GeluTanh => values.iter_mut().for_each(|x| {
            let u = SQRT_2_OVER_PI * (*x + 0.044715 * *x * *x * *x);
            *x /= 1.0 + eval::exp(-2.0 * u);
        }),
    }
}

fn layer_norm(x: &Array, added: Option<&Array>, gamma: &Array, beta: &Array, eps: f32) -> Result<Array, OpError> {
    let width = gamma.len();
    let (g, b) = (gamma.to_f32()?, beta.to_f32()?);
    let mut out = x.to_f32()?;
    if let Some(added) = added {
        if added.shape() != x.shape() {
            return Err(OpError::invalid(format!("{added:?} cannot be added to {x:?}")));
        }
        // The sum is rounded to the element type, as the separate addition would.
        out.iter_mut().zip(added.to_f32()?).for_each(|(x, a)| *x += a);
        if x.element() != ElementType::F32 {
            out = crate::scalar::store_f32(x.element(), x.shape(), out)?.to_f32()?;
        }
    }
    if width == 0 || b.len() != width || out.len() % width != 0 {
        return Err(OpError::invalid(format!("{gamma:?} and {beta:?} do not fit {x:?}")));
    }
    for row in out.chunks_exact_mut(width) {
        let mean = eval::sum(row) / width as f32;
        row.iter_mut().for_each(|x| *x -= mean);
        let scale = 1.0 / (eval::sum_of_squares(row) / width as f32 + eps).sqrt();
        row.iter_mut()
            .zip(g.iter().zip(&b))
            .for_each(|(x, (g, b))| *x = *x * scale * g + b);
    }
    Ok(crate::scalar::store_f32(x.element(), x.shape(), out)?)
}

fn rms_norm(x: &Array, scale: &Array, eps: f32) -> Result<Array, OpError> {
    let width = scale.len();
    let s = scale.to_f32()?;
    let mut out = x.to_f32()?;
    if width == 0 || out.len() % width != 0 {
        return Err(OpError::invalid(format!("{scale:?} does not fit {x:?}")));
    }
    for row in out.chunks_exact_mut(width) {
        let factor = 1.0 / (eval::sum_of_squares(row) / width as f32 + eps).sqrt();
        row.iter_mut().zip(&s).for_each(|(x, s)| *x = *x * factor * s);
    }
    Ok(crate::scalar::store_f32(x.element(), x.shape(), out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern.
    fn numbers(count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 173.0).collect()
    }

    #[test]
    fn norms_match_double_precision() {
        let (rows, width) = (7, 37);
        let (x, a) = (numbers(rows * width), numbers(rows * width + 5)[5..].to_vec());
        let (g, b) = (numbers(width + 3)[3..].to_vec(), numbers(width + 9)[9..].to_vec());
        let array = |v: &[f32]| Array::from_values(&[v.len()], v.to_vec()).unwrap();
        let matrix = |v: &[f32]| Array::from_values(&[rows, width], v.to_vec()).unwrap();
        let (gamma, beta) = (array(&g), array(&b));
        let plain = layer_norm(&matrix(&x), None, &gamma, &beta, 1e-5).unwrap();
        let summed = layer_norm(&matrix(&x), Some(&matrix(&a)), &gamma, &beta, 1e-5).unwrap();
        let rms = rms_norm(&matrix(&x), &gamma, 1e-6).unwrap();
        for r in 0..rows {
            let at = r * width..(r + 1) * width;
            let row: Vec<f64> = x[at.clone()].iter().map(|&v| f64::from(v)).collect();
            let sum: Vec<f64> = row.iter().zip(&a[at]).map(|(x, &a)| x + f64::from(a)).collect();
            for (got, row) in [(&plain, &row), (&summed, &sum)] {
                let mean = row.iter().sum::<f64>() / width as f64;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
                for c in 0..width {
                    let want = (row[c] - mean) / (variance + 1e-5).sqrt() * f64::from(g[c]) + f64::from(b[c]);
                    let got = f64::from(got.values::<f32>().unwrap()[r * width + c]);
                    assert!((got - want).abs() < 1e-5 * (1.0 + want.abs()), "{got} {want}");
                }
            }
            let square = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
            for c in 0..width {
                let want = row[c] / (square + 1e-6).sqrt() * f64::from(g[c]);
                let got = f64::from(rms.values::<f32>().unwrap()[r * width + c]);
                assert!((got - want).abs() < 1e-5 * (1.0 + want.abs()), "{got} {want}");
            }
        }
    }

    #[test]
    fn activations_match_double_precision() {
        let x = numbers(999);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let all: [(Activation, &dyn Fn(f64) -> f64); 4] = [
            (Activation::Relu, &|x| x.max(0.0)),
            (Activation::Silu, &|x| x * sigmoid(x)),
            (Activation::Gelu, &|x| 0.5 * x * (1.0 + eval::erf64(x / 2f64.sqrt()))),
            (Activation::GeluTanh, &|x| {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                0.5 * x * (1.0 + u.tanh())
            }),
        ];
        for (activation, f) in all {
            let mut out = x.clone();
            activate(&mut out, activation);
            for (&got, &x) in out.iter().zip(&x) {
                let want = f(f64::from(x));
                assert!(
                    (f64::from(got) - want).abs() < 1e-6 * (1.0 + want.abs()),
                    "{activation:?} {x}: {got}"
                );
            }
        }
    }
}
