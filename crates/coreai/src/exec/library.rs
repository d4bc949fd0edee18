//! Our own kernels, in Metal source under `kernels/`, for the operations that take the time.

use anymetal::CompileOptions;

use crate::array::Array;
use crate::bytecode::ElementType;
use crate::error::OpError;

use super::dispatch::Dispatcher;
use super::kernel::{Output, buffer_of};
use super::native::{Activation, AttentionShape, linear_shape};

const LINEAR: &str = include_str!("../../../../kernels/linear.metal");
const MATMUL: &str = include_str!("../../../../kernels/matmul.metal");
const ATTENTION: &str = include_str!("../../../../kernels/flash_attention.metal");
const ACTIVATIONS_H: &str = include_str!("../../../../kernels/include/anymetal/activations.h");
const ATTENTION_H: &str = include_str!("../../../../kernels/include/anymetal/flash_attention.h");
const REDUCE_H: &str = include_str!("../../../../kernels/include/anymetal/threadgroup_reduce.h");

/// Products with fewer multiplications than this are not worth a dispatch.
pub(super) const MIN_LINEAR_WORK: usize = 1 << 15;

/// How our sources are compiled: their headers come from this program, not from the disk.
pub(super) fn options() -> CompileOptions {
    let headers = [
        ("anymetal/activations.h", ACTIVATIONS_H),
        ("anymetal/flash_attention.h", ATTENTION_H),
        ("anymetal/threadgroup_reduce.h", REDUCE_H),
    ];
    CompileOptions {
        allow_files: false,
        virtual_files: headers
            .iter()
            .map(|(name, text)| (name.to_string(), text.to_string()))
            .collect(),
        ..CompileOptions::default()
    }
}

fn type_name(element: ElementType) -> Option<&'static str> {
    match element {
        ElementType::F32 => Some("f32"),
        ElementType::F16 => Some("f16"),
        ElementType::BF16 => Some("bf16"),
        _ => None,
    }
}

fn fail(error: anymetal::Error) -> OpError {
    OpError::Kernel(error.to_string())
}

/// The int that Metal's structs hold.
fn int(value: usize) -> Result<i32, OpError> {
    i32::try_from(value).map_err(|_| OpError::invalid(format!("an extent of {value} is too large for a kernel")))
}

/// x · wᵀ (+ bias), then an activation; `None` when the host should do it.
pub(super) fn linear(
    dispatcher: &Dispatcher,
    x: &Array,
    w: &Array,
    bias: Option<&Array>,
    activation: Activation,
) -> Result<Option<Array>, OpError> {
    let shape = linear_shape(x, w)?;
    let (n, k) = (w.shape()[0], w.shape()[1]);
    let m: usize = shape[..shape.len() - 1].iter().product();
    let Some(element) = type_name(x.element()) else {
        return Ok(None);
    };
    if m.saturating_mul(n).saturating_mul(k) < MIN_LINEAR_WORK {
        return Ok(None);
    }
    let bias_name = if bias.is_some() { "_bias" } else { "" };
    let activation = match activation {
        Activation::None => "",
        Activation::Relu => "_relu",
        Activation::Silu => "_silu",
        Activation::Gelu => "_gelu",
        Activation::GeluTanh => "_gelu_tanh",
    };
    let rows = if m <= 32 { 16 } else { 64 };
    let name = format!("linear_{element}{bias_name}{activation}_{rows}x64");
    let pipeline = dispatcher.own_pipeline(&name, LINEAR, "linear.metal")?;
    let output = Output::new(dispatcher, x.element(), &shape)?;
    let mut encoder = dispatcher.queue().encoder();
    encoder
        .set_pipeline(&pipeline)
        .set_buffer(0, &buffer_of(dispatcher, x)?, 0)
        .set_buffer(1, &buffer_of(dispatcher, w)?, 0)
        .set_buffer(2, &output.buffer, 0)
        .set_value(3, &[int(m)?, int(n)?, int(k)?])
        .map_err(fail)?;
    if let Some(bias) = bias {
        encoder.set_buffer(4, &buffer_of(dispatcher, bias)?, 0);
    }
    encoder
        .dispatch_threadgroups([n.div_ceil(64), m.div_ceil(rows)], 128)
        .map_err(fail)?;
    encoder.run().map_err(fail)?;
    output.finish().map(Some)
}

/// a · b for [.., M, K] and [.., K, N] arrays. Each of the two has either all matrices of the batch or one for all.
pub(super) fn matmul(dispatcher: &Dispatcher, a: &Array, b: &Array, shape: &[usize]) -> Result<Array, OpError> {
    let element = type_name(a.element()).ok_or_else(|| OpError::Element(a.element().to_string()))?;
    let (&[.., m, k], &[.., n]) = (a.shape(), b.shape()) else {
        return Err(OpError::invalid(format!("matrices {a:?} and {b:?} do not multiply")));
    };
    let output = Output::new(dispatcher, a.element(), shape)?;
    let batch: usize = shape[..shape.len() - 2].iter().product();
    if batch * m * n == 0 {
        return output.finish();
    }
    let rows = if m <= 32 { 16 } else { 64 };
    let name = format!("matmul_{element}_nn_{rows}x64");
    let pipeline = dispatcher.own_pipeline(&name, MATMUL, "matmul.metal")?;
    let step = |array: &Array, size: usize| if array.len() > size { size as i64 } else { 0 };
    let mut sizes = Vec::new();
    for value in [m, n, k, k, n, n] {
        sizes.extend_from_slice(&int(value)?.to_le_bytes());
    }
    for value in [step(a, m * k), step(b, k * n), (m * n) as i64] {
        sizes.extend_from_slice(&value.to_le_bytes());
    }
    let mut encoder = dispatcher.queue().encoder();
    encoder
        .set_pipeline(&pipeline)
        .set_buffer(0, &buffer_of(dispatcher, a)?, 0)
        .set_buffer(1, &buffer_of(dispatcher, b)?, 0)
        .set_buffer(2, &output.buffer, 0)
        .set_bytes(3, &sizes)
        .map_err(fail)?;
    encoder
        .dispatch_threadgroups([n.div_ceil(64), m.div_ceil(rows), batch], 128)
        .map_err(fail)?;
    encoder.run().map_err(fail)?;
    output.finish()
}

/// Fused attention over [B, H, T, D] arrays; the mask is added to the scores.
pub(super) fn attention(
    dispatcher: &Dispatcher,
    operands: [&Array; 3],
    mask: Option<&Array>,
    scale: f32,
    shape: &AttentionShape,
) -> Result<Array, OpError> {
    let [q, k, v] = operands;
    let element = type_name(q.element()).ok_or_else(|| OpError::Element(q.element().to_string()))?;
    let masked = if mask.is_some() { "_additive" } else { "" };
    let name = format!("flash_attention_{element}_d{}{masked}", shape.dim);
    let pipeline = dispatcher.own_pipeline(&name, ATTENTION, "flash_attention.metal")?;
    let output = Output::new(dispatcher, q.element(), q.shape())?;
    if q.is_empty() {
        return output.finish();
    }
    // The mask's strides; an extent of 1 repeats.
    let (mut row, mut head, mut batch) = (0, 0, 0);
    if let Some(mask) = mask {
        let [mb, mh, mq, mk] = *mask.shape() else {
            return Err(OpError::invalid(format!("{mask:?} is no attention mask of rank 4")));
        };
        row = if mq == 1 { 0 } else { mk };
        head = if mh == 1 { 0 } else { mq * mk };
        batch = if mb == 1 { 0 } else { mh * mq * mk };
    }
    let ints = [
        int(shape.queries)?,
        int(shape.keys)?,
        int(shape.heads)?,
        int(shape.kv_heads)?,
        0,
        scale.to_bits() as i32,
        int(row)?,
        int(head)?,
        int(batch)?,
    ];
    let mut encoder = dispatcher.queue().encoder();
    encoder
        .set_pipeline(&pipeline)
        .set_buffer(0, &buffer_of(dispatcher, q)?, 0)
        .set_buffer(1, &buffer_of(dispatcher, k)?, 0)
        .set_buffer(2, &buffer_of(dispatcher, v)?, 0)
        .set_buffer(3, &output.buffer, 0)
        .set_value(4, &ints)
        .map_err(fail)?;
    if let Some(mask) = mask {
        encoder.set_buffer(5, &buffer_of(dispatcher, mask)?, 0);
    }
    let groups = [shape.queries.div_ceil(64), shape.heads, shape.batch];
    encoder.dispatch_threadgroups(groups, 128).map_err(fail)?;
    encoder.run().map_err(fail)?;
    output.finish()
}
