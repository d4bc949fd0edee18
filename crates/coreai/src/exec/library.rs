//! Our own kernels, in Metal source under `kernels/`, for the operations that take the time: which kernel, with which sizes,
//! over which grid.

use anymetal::{CommandEncoder, CompileOptions, Pipeline};

use crate::array::Array;
use crate::bytecode::ElementType;
use crate::error::OpError;

use super::dispatch::Dispatcher;
use super::kernel::{Output, buffer_of};
use super::native::{Activation, AttentionShape, linear_shape};

const LINEAR: &str = include_str!("../../../../kernels/linear.metal");
const LINEAR_ROWS: &str = include_str!("../../../../kernels/linear_rows.metal");
const MATMUL: &str = include_str!("../../../../kernels/matmul.metal");
const ATTENTION: &str = include_str!("../../../../kernels/flash_attention.metal");
const ACTIVATIONS_H: &str = include_str!("../../../../kernels/include/anymetal/activations.h");
const ATTENTION_H: &str = include_str!("../../../../kernels/include/anymetal/flash_attention.h");
const REDUCE_H: &str = include_str!("../../../../kernels/include/anymetal/threadgroup_reduce.h");

/// Products with fewer multiplications than this are not worth a dispatch on the processor.
pub(super) const MIN_LINEAR_WORK: usize = 1 << 15;

/// A kernel of ours with its sizes and its grid; what remains is to bind the operands.
pub(super) struct Launch {
    pub pipeline: Pipeline,
    /// Bytes of the sizes, and where they are bound.
    pub sizes: (u32, Vec<u8>),
    pub groups: [usize; 3],
    pub threads: usize,
}

impl Launch {
    /// Starts an encoder with everything but the operands.
    fn encoder(&self, dispatcher: &Dispatcher) -> Result<CommandEncoder, OpError> {
        let mut encoder = dispatcher.queue().encoder();
        encoder.set_pipeline(&self.pipeline);
        encoder.set_bytes(self.sizes.0, &self.sizes.1).map_err(fail)?;
        Ok(encoder)
    }

    fn run(&self, mut encoder: CommandEncoder) -> Result<(), OpError> {
        encoder.dispatch_threadgroups(self.groups, self.threads).map_err(fail)?;
        encoder.run().map_err(fail)?;
        Ok(())
    }
}

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

/// The bytes of ints in a row.
fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The kernel of a linear layer of x [M, K] and w [N, K]: x at 0, w at 1, the result at 2, a bias at 4.
pub(super) fn linear_launch(
    dispatcher: &Dispatcher,
    element: ElementType,
    [m, n, k]: [usize; 3],
    bias: bool,
    activation: Activation,
) -> Result<Launch, OpError> {
    let element = type_name(element).ok_or_else(|| OpError::Element(element.to_string()))?;
    let bias_name = if bias { "_bias" } else { "" };
    let activation = suffix(activation);
    let rows = if m <= 32 { 16 } else { 64 };
    let name = format!("linear_{element}{bias_name}{activation}_{rows}x64");
    Ok(Launch {
        pipeline: dispatcher.own_pipeline(&name, LINEAR, "linear.metal")?,
        sizes: (3, ints(&[int(m)?, int(n)?, int(k)?])),
        groups: [n.div_ceil(64), m.div_ceil(rows), 1],
        threads: 128,
    })
}

fn suffix(activation: Activation) -> &'static str {
    match activation {
        Activation::None => "",
        Activation::Relu => "_relu",
        Activation::Silu => "_silu",
        Activation::Gelu => "_gelu",
        Activation::GeluTanh => "_gelu_tanh",
    }
}

/// The kernel of up to three linear layers of few rows: x at 0; w, the result and a bias of layer i at 2 + 3·i and the next.
pub(super) fn linear_rows_launch(
    dispatcher: &Dispatcher,
    [m, n, k]: [usize; 3],
    layers: usize,
    bias: bool,
    activation: Activation,
) -> Result<Launch, OpError> {
    let bias = if bias { "_bias" } else { "" };
    let name = format!("linear_rows{bias}{}", suffix(activation));
    Ok(Launch {
        pipeline: dispatcher.own_pipeline(&name, LINEAR_ROWS, "linear_rows.metal")?,
        sizes: (1, ints(&[int(m)?, int(n)?, int(k)?])),
        groups: [n.div_ceil(8), m.div_ceil(16), layers],
        threads: 64,
    })
}

/// The kernel of x [M, K] times `layers` matrices w [N, K] with results in `f32`: x at 0, w at 1, the results at 2. For `f16` and
/// `bf16` on devices that stage large tiles.
pub(super) fn wide_matmul_launch(
    dispatcher: &Dispatcher,
    element: ElementType,
    [m, n, k]: [usize; 3],
    layers: usize,
) -> Result<Launch, OpError> {
    let name = type_name(element).ok_or_else(|| OpError::Element(element.to_string()))?;
    let name = format!("matmul_{name}_f32_nt_128x128");
    let mut sizes = ints(&[int(m)?, int(n)?, int(k)?, int(k)?, int(k)?, int(n)?]);
    for step in [0, n * k, m * n] {
        sizes.extend_from_slice(&(step as i64).to_le_bytes());
    }
    Ok(Launch {
        pipeline: dispatcher.own_pipeline(&name, MATMUL, "matmul.metal")?,
        sizes: (3, sizes),
        groups: [n.div_ceil(128), m.div_ceil(128), layers],
        threads: 128,
    })
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
    if type_name(x.element()).is_none() || m.saturating_mul(n).saturating_mul(k) < MIN_LINEAR_WORK {
        return Ok(None);
    }
    let launch = linear_launch(dispatcher, x.element(), [m, n, k], bias.is_some(), activation)?;
    let output = Output::new(dispatcher, x.element(), &shape)?;
    let mut encoder = launch.encoder(dispatcher)?;
    encoder
        .set_buffer(0, &buffer_of(dispatcher, x)?, 0)
        .set_buffer(1, &buffer_of(dispatcher, w)?, 0)
        .set_buffer(2, &output.buffer, 0);
    if let Some(bias) = bias {
        encoder.set_buffer(4, &buffer_of(dispatcher, bias)?, 0);
    }
    launch.run(encoder)?;
    output.finish().map(Some)
}

/// The kernel of a batch of products of shapes `a` and `b`, each of which has either all matrices of the batch or one for
/// all: a at 0, b at 1, the result at 2. The batch must not be empty.
pub(super) fn matmul_launch(
    dispatcher: &Dispatcher,
    element: ElementType,
    a: &[usize],
    b: &[usize],
    shape: &[usize],
) -> Result<Launch, OpError> {
    let name = type_name(element).ok_or_else(|| OpError::Element(element.to_string()))?;
    let (&[.., m, k], &[.., n]) = (a, b) else {
        return Err(OpError::invalid(format!("matrices {a:?} and {b:?} do not multiply")));
    };
    let batch: usize = shape[..shape.len() - 2].iter().product();
    let rows = if m <= 32 { 16 } else { 64 };
    let name = format!("matmul_{name}_nn_{rows}x64");
    let step = |shape: &[usize], size: usize| {
        if shape.iter().product::<usize>() > size {
            size as i64
        } else {
            0
        }
    };
    let mut sizes = ints(&[int(m)?, int(n)?, int(k)?, int(k)?, int(n)?, int(n)?]);
    for value in [step(a, m * k), step(b, k * n), (m * n) as i64] {
        sizes.extend_from_slice(&value.to_le_bytes());
    }
    Ok(Launch {
        pipeline: dispatcher.own_pipeline(&name, MATMUL, "matmul.metal")?,
        sizes: (3, sizes),
        groups: [n.div_ceil(64), m.div_ceil(rows), batch],
        threads: 128,
    })
}

/// a · b for [.., M, K] and [.., K, N] arrays. Each of the two has either all matrices of the batch or one for all.
pub(super) fn matmul(dispatcher: &Dispatcher, a: &Array, b: &Array, shape: &[usize]) -> Result<Array, OpError> {
    let output = Output::new(dispatcher, a.element(), shape)?;
    if shape.contains(&0) {
        return output.finish();
    }
    let launch = matmul_launch(dispatcher, a.element(), a.shape(), b.shape(), shape)?;
    let mut encoder = launch.encoder(dispatcher)?;
    encoder
        .set_buffer(0, &buffer_of(dispatcher, a)?, 0)
        .set_buffer(1, &buffer_of(dispatcher, b)?, 0)
        .set_buffer(2, &output.buffer, 0);
    launch.run(encoder)?;
    output.finish()
}

/// The kernel of fused attention: q, k, v at 0 to 2, the result at 3, a mask of rank 4 at 5.
pub(super) fn attention_launch(
    dispatcher: &Dispatcher,
    element: ElementType,
    mask: Option<&[usize]>,
    scale: f32,
    shape: &AttentionShape,
) -> Result<Launch, OpError> {
    let element = type_name(element).ok_or_else(|| OpError::Element(element.to_string()))?;
    let masked = if mask.is_some() { "_additive" } else { "" };
    let name = format!("flash_attention_{element}_d{}{masked}", shape.dim);
    // The mask's strides; an extent of 1 repeats.
    let (mut row, mut head, mut batch) = (0, 0, 0);
    if let Some(mask) = mask {
        let [mb, mh, mq, mk] = *mask else {
            return Err(OpError::invalid(format!("{mask:?} is no attention mask of rank 4")));
        };
        row = if mq == 1 { 0 } else { mk };
        head = if mh == 1 { 0 } else { mq * mk };
        batch = if mb == 1 { 0 } else { mh * mq * mk };
    }
    let sizes = ints(&[
        int(shape.queries)?,
        int(shape.keys)?,
        int(shape.heads)?,
        int(shape.kv_heads)?,
        0,
        scale.to_bits() as i32,
        int(row)?,
        int(head)?,
        int(batch)?,
    ]);
    Ok(Launch {
        pipeline: dispatcher.own_pipeline(&name, ATTENTION, "flash_attention.metal")?,
        sizes: (4, sizes),
        groups: [shape.queries.div_ceil(64), shape.heads, shape.batch],
        threads: 128,
    })
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
    let output = Output::new(dispatcher, q.element(), q.shape())?;
    if q.is_empty() {
        return output.finish();
    }
    let launch = attention_launch(dispatcher, q.element(), mask.map(Array::shape), scale, shape)?;
    let mut encoder = launch.encoder(dispatcher)?;
    encoder
        .set_buffer(0, &buffer_of(dispatcher, q)?, 0)
        .set_buffer(1, &buffer_of(dispatcher, k)?, 0)
        .set_buffer(2, &buffer_of(dispatcher, v)?, 0)
        .set_buffer(3, &output.buffer, 0);
    if let Some(mask) = mask {
        encoder.set_buffer(5, &buffer_of(dispatcher, mask)?, 0);
    }
    launch.run(encoder)?;
    output.finish()
}
