//! Operations of ours that replace whole composites or chains, on the host.

use crate::array::{Array, checked_len};
use crate::bytecode::ElementType;
use crate::error::OpError;
use crate::eval;
use crate::program::{Composite, CompositeValue};

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
    /// Normalisation over the last dimension. Operands: x, gamma, beta; or x, a, gamma, beta when `residual`, which
    /// adds a to x first.
    LayerNorm { eps: f32, residual: bool },
    /// x · rsqrt(mean x² + eps) · scale over the last dimension.
    RmsNorm { eps: f32 },
}

impl Native {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear {
                activation: Activation::None,
                ..
            } => "linear",
            Self::Linear { .. } => "linear with activation",
            Self::LayerNorm { residual: true, .. } => "add and layer norm",
            Self::LayerNorm { .. } => "layer norm",
            Self::RmsNorm { .. } => "RMS norm",
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
        if !matches!(
            x.element(),
            ElementType::F32 | ElementType::F16 | ElementType::BF16
        ) || width == 0
        {
            return None;
        }
        match composite.name.as_str() {
            "layer_norm"
                if operands.len() == 3 && composite.inputs == ["input", "gamma", "beta"] =>
            {
                let Some(CompositeValue::List(axes)) = composite.attribute("axes") else {
                    return None;
                };
                let fits =
                    matches!(axes.as_slice(), [axis] if is_last(axis)) && vectors(&operands[1..]);
                fits.then_some(Self::LayerNorm {
                    eps: float("eps")?,
                    residual: false,
                })
            }
            "rms_norm" if operands.len() == 2 && composite.inputs == ["input", "scale"] => {
                let fits = is_last(composite.attribute("axes")?) && vectors(&operands[1..]);
                fits.then_some(Self::RmsNorm { eps: float("eps")? })
            }
            _ => None,
        }
    }

    /// A linear layer for x [.., K] and w [N, K], when the types allow it.
    pub fn linear(x: &Array, w: &Array) -> Option<Self> {
        let fits = x.rank() >= 2
            && x.element() == w.element()
            && matches!(
                x.element(),
                ElementType::F32 | ElementType::F16 | ElementType::BF16
            )
            && x.shape().last() == w.shape().last();
        fits.then_some(Self::Linear {
            bias: false,
            activation: Activation::None,
        })
    }

    /// Computes on the host.
    pub fn run(&self, operands: &[Array]) -> Result<Vec<Array>, OpError> {
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
                linear(x, w, bias, *activation).map(|a| vec![a])
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
        }
    }
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

fn linear(
    x: &Array,
    w: &Array,
    bias: Option<&Array>,
    activation: Activation,
) -> Result<Array, OpError> {
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
        Activation::Relu => values
            .iter_mut()
            .for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
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

fn layer_norm(
    x: &Array,
    added: Option<&Array>,
    gamma: &Array,
    beta: &Array,
    eps: f32,
) -> Result<Array, OpError> {
    let width = gamma.len();
    let (g, b) = (gamma.to_f32()?, beta.to_f32()?);
    let mut out = x.to_f32()?;
    if let Some(added) = added {
        if added.shape() != x.shape() {
            return Err(OpError::invalid(format!(
                "{added:?} cannot be added to {x:?}"
            )));
        }
        // The sum is rounded to the element type, as the separate addition would.
        out.iter_mut()
            .zip(added.to_f32()?)
            .for_each(|(x, a)| *x += a);
        if x.element() != ElementType::F32 {
            out = crate::scalar::store_f32(x.element(), x.shape(), out)?.to_f32()?;
        }
    }
    if width == 0 || b.len() != width || out.len() % width != 0 {
        return Err(OpError::invalid(format!(
            "{gamma:?} and {beta:?} do not fit {x:?}"
        )));
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
        row.iter_mut()
            .zip(&s)
            .for_each(|(x, s)| *x = *x * factor * s);
    }
    Ok(crate::scalar::store_f32(x.element(), x.shape(), out)?)
}
