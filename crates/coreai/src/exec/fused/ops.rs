//! What each operation of the dialect is as an expression or a reduction.

use std::sync::Arc;

use crate::array::Array;
use crate::bytecode::ElementType;
use crate::eval;
use crate::program::{Binary, OpCode, Reduction, Unary};

use super::affine::Affine;
use super::emit::{held, scalar_of};
use super::node::{Indirect, MapOp, Node};
use super::row_kernel::{RowProgram, Stage};

/// An operand.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub node: Arc<Node>,
    pub shape: Vec<usize>,
    /// Its value, when that is known.
    pub constant: Option<Array>,
}

impl Operand {
    /// The operand as an expression over `to`.
    fn over(&self, to: &[usize]) -> Arc<Node> {
        self.node.stretched(&self.shape, to)
    }
}

/// A reduction over the last dimensions of a space, not yet in memory.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    pub stage: Stage,
    /// The space, and how many of its dimensions count rows.
    pub shape: Vec<usize>,
    pub outer: usize,
    /// What a row's result is turned into: an expression with [`Node::Row`] 0.
    pub finish: Arc<Node>,
    /// For each dimension of the result, which of the outer dimensions it counts.
    pub kept: Vec<Option<usize>>,
}

/// What becomes of an operation.
pub(crate) enum Lowered {
    /// Each result as an expression over its shape.
    Nodes(Vec<Arc<Node>>),
    /// One result, whose elements are those of `node` over `space` in row-major order.
    Dense { node: Arc<Node>, space: Vec<usize> },
    /// One result by a reduction.
    Reduced(Reduced),
    /// One result: memory written by the program, of the program's shape, whose dimensions the result has in the order
    /// `order`.
    Rows { program: RowProgram, order: Vec<usize> },
    /// This operand must be in memory first.
    NeedsMemory(usize),
}

/// The operation over operands, or `None` when the host must compute it.
pub(crate) fn lower(
    code: OpCode,
    mode: u64,
    elements: &[ElementType],
    operands: &[Operand],
    shapes: &[Vec<usize>],
    origin: u32,
) -> Option<Lowered> {
    let (&element, shape) = (elements.first()?, shapes.first()?);
    scalar_of(element)?;
    let x = operands.first()?;
    let rank = shape.len();
    let map = |op: MapOp, args: &[Operand]| {
        // Kernels know what they can hold; the check here keeps what they cannot out of chains.
        let fits = args.iter().all(|a| held(a.node.element()).is_some());
        let args = args.iter().map(|a| a.over(shape)).collect();
        fits.then(|| Lowered::Nodes(vec![Node::op(op, args, element)]))
    };
    match code {
        OpCode::Unary(op) if takes_unary(op, x.node.element()) => map(MapOp::Unary(op), &operands[..1]),
        OpCode::Binary(op) if operands.len() >= 2 && takes_binary(op, x.node.element(), &operands[1]) => {
            map(MapOp::Binary(op), &operands[..2])
        }
        OpCode::Where if operands.len() >= 3 => map(MapOp::Select, &operands[..3]),
        OpCode::Gelu if mode <= 2 && x.node.element().is_float() => map(MapOp::Gelu(mode), &operands[..1]),
        OpCode::Cast if x.node.element() == element => Some(Lowered::Nodes(vec![x.node.clone()])),
        OpCode::Cast => map(MapOp::Cast, &operands[..1]),
        OpCode::BroadcastTo | OpCode::BroadcastInDims => Some(Lowered::Nodes(vec![x.over(shape)])),
        OpCode::Transpose => {
            let order = integers(operands.get(1)?)?;
            let mut forms = vec![Affine::constant(0, rank); x.shape.len()];
            for (i, p) in order.into_iter().enumerate() {
                *forms.get_mut(eval::axis(p, x.shape.len()).ok()?)? = Affine::index(i, rank, 1, 0);
            }
            Some(Lowered::Nodes(vec![x.node.mapped(&forms, rank)]))
        }
        OpCode::Slice => {
            let ranges = ranges(x, &operands[1..])?;
            let forms: Vec<Affine> = (0..rank)
                .map(|d| {
                    // A dimension of one element needs no stride, and a huge stride must not overflow.
                    let step = if ranges[d].2 > 1 { ranges[d].1 as i64 } else { 0 };
                    Affine::index(d, rank, step, ranges[d].0 as i64)
                })
                .collect();
            Some(Lowered::Nodes(vec![x.node.mapped(&forms, rank)]))
        }
        OpCode::SliceUpdate => {
            let ranges = ranges(x, operands.get(1..4)?)?;
            if ranges.iter().any(|r| r.1 != 1) {
                return None;
            }
            let sizes: Vec<usize> = ranges.iter().map(|r| r.2).collect();
            let update = operands.get(4)?.over(&sizes);
            let forms: Vec<Affine> = (0..rank)
                .map(|d| Affine::index(d, rank, 1, -(ranges[d].0 as i64)))
                .collect();
            let tests: Vec<(Affine, i64)> = forms.iter().cloned().zip(sizes.iter().map(|&s| s as i64)).collect();
            guarded(tests, update.mapped(&forms, rank), x.node.clone(), shape)
        }
        OpCode::Split => {
            let axis = eval::axis(single(operands.get(2)?)?, rank).ok()?;
            let mut start = 0;
            let mut nodes = Vec::new();
            for part in shapes {
                let mut forms: Vec<Affine> = (0..rank).map(|d| Affine::index(d, rank, 1, 0)).collect();
                forms[axis].offset = start;
                nodes.push(x.node.mapped(&forms, rank));
                start += part[axis] as i64;
            }
            Some(Lowered::Nodes(nodes))
        }
        OpCode::Reverse => {
            let mut forms: Vec<Affine> = (0..rank).map(|d| Affine::index(d, rank, 1, 0)).collect();
            for axis in eval::axes(operands.get(1)?.constant.as_ref()?, rank).ok()? {
                forms[axis] = Affine::index(axis, rank, -1, shape[axis] as i64 - 1);
            }
            Some(Lowered::Nodes(vec![x.node.mapped(&forms, rank)]))
        }
        OpCode::Tile => Some(tile(x, operands.get(1)?, shape)?),
        OpCode::Pad if mode == 1 => {
            let padding = integers(operands.get(1)?)?;
            let fill = operands.get(2)?.over(shape);
            let mut forms = Vec::new();
            let mut tests = Vec::new();
            for (d, (&from, &to)) in x.shape.iter().zip(shape).enumerate() {
                let form = Affine::index(d, rank, 1, -padding.get(2 * d).copied()?);
                if from != to {
                    tests.push((form.clone(), from as i64));
                }
                forms.push(form);
            }
            guarded(tests, x.node.mapped(&forms, rank), fill, shape)
        }
        OpCode::Concat => concat(operands, shape),
        OpCode::GatherNd => gather_nd(operands, shape, origin),
        OpCode::GatherAlongAxis => {
            let axis = eval::axis(single(operands.get(2)?)?, rank).ok()?;
            let index = operands.get(1)?;
            gathered(x, |at| {
                let mut own = at.clone();
                own.coefs[axis] = 0;
                let through = Indirect {
                    index: index_node(index.node.clone())?,
                    extent: x.shape[axis],
                    stride: at.coefs[axis],
                    origin,
                };
                Some((own, vec![through]))
            })
        }
        OpCode::Reduce(op) => reduce(op, x, operands.get(1)?, element),
        OpCode::Softmax => softmax(x, single(operands.get(1)?)?, element),
        OpCode::BatchMatmul => batch_matmul(x, operands.get(1)?, shape, element),
        _ => None,
    }
}

fn integers(operand: &Operand) -> Option<Vec<i64>> {
    eval::integers(operand.constant.as_ref()?).ok()
}

fn single(operand: &Operand) -> Option<i64> {
    eval::single(operand.constant.as_ref()?).ok()
}

fn ranges(x: &Operand, operands: &[Operand]) -> Option<Vec<(isize, isize, usize)>> {
    let [start, end, step, ..] = operands else {
        return None;
    };
    let constant = |o: &Operand| o.constant.clone();
    eval::slice_ranges(&x.shape, &constant(start)?, &constant(end)?, &constant(step)?).ok()
}

fn takes_unary(op: Unary, element: ElementType) -> bool {
    match held(element) {
        Some(anymetal::ir::Scalar::F32) => op != Unary::Not,
        Some(anymetal::ir::Scalar::Bool) => op == Unary::Not,
        Some(_) => matches!(op, Unary::Abs | Unary::Relu | Unary::Round),
        None => false,
    }
}

fn takes_binary(op: Binary, element: ElementType, right: &Operand) -> bool {
    use Binary::*;
    if right.node.element() != element {
        return false;
    }
    match held(element) {
        Some(anymetal::ir::Scalar::F32) => !matches!(
            op,
            BitwiseAnd | BitwiseOr | BitwiseXor | LogicalAnd | LogicalOr | LogicalXor
        ),
        Some(anymetal::ir::Scalar::Bool) => !matches!(op, Divide | FloorDivide | Modulo | Pow),
        Some(_) => op != Pow || matches!(&*right.node, Node::Literal { integer: 0..=64, .. }),
        None => false,
    }
}

/// An index that the kernel can widen.
fn index_node(node: Arc<Node>) -> Option<Arc<Node>> {
    let ty = held(node.element())?;
    ty.is_integer().then_some(node)
}

fn guarded(tests: Vec<(Affine, i64)>, inside: Arc<Node>, outside: Arc<Node>, shape: &[usize]) -> Option<Lowered> {
    if inside.element() != outside.element() {
        return None;
    }
    // A dimension that is covered whole needs no test.
    let tests: Vec<(Affine, i64)> = tests
        .into_iter()
        .enumerate()
        .filter(|(d, (form, extent))| {
            let rank = shape.len();
            let whole = rank > *d && form.offset == 0 && *extent == shape[*d] as i64 && form.coefs[*d] == 1;
            !whole
        })
        .map(|(_, test)| test)
        .collect();
    if tests.is_empty() {
        return Some(Lowered::Nodes(vec![inside]));
    }
    Some(Lowered::Nodes(vec![Arc::new(Node::Guard { tests, inside, outside })]))
}

fn concat(operands: &[Operand], shape: &[usize]) -> Option<Lowered> {
    let (dim, parts) = operands.split_first()?;
    let rank = shape.len();
    let axis = eval::axis(single(dim)?, rank).ok()?;
    let mut start = 0i64;
    let mut pieces = Vec::new();
    for part in parts {
        let extent = part.shape[axis] as i64;
        if extent == 0 {
            continue;
        }
        let mut forms: Vec<Affine> = (0..rank).map(|d| Affine::index(d, rank, 1, 0)).collect();
        forms[axis].offset = -start;
        pieces.push((forms[axis].clone(), extent, part.node.mapped(&forms, rank)));
        start += extent;
    }
    // Before the last piece each is tried in turn.
    let (_, _, mut all) = pieces.pop()?;
    for (form, extent, node) in pieces.into_iter().rev() {
        if node.element() != all.element() {
            return None;
        }
        all = Arc::new(Node::Guard {
            tests: vec![(form, extent)],
            inside: node,
            outside: all,
        });
    }
    Some(Lowered::Nodes(vec![all]))
}

fn tile(x: &Operand, reps: &Operand, shape: &[usize]) -> Option<Lowered> {
    let reps = integers(reps)?;
    let rank = shape.len();
    let at = |list: &[usize], i: usize| {
        if i + list.len() >= rank {
            list[i + list.len() - rank]
        } else {
            1
        }
    };
    let reps: Vec<usize> = reps.iter().map(|&r| r as usize).collect();
    let mut space = Vec::new();
    let mut forms = Vec::new();
    for d in 0..rank {
        space.extend([at(&reps, d), at(&x.shape, d)]);
        if d + x.shape.len() >= rank {
            forms.push(Affine::index(2 * d + 1, 2 * rank, 1, 0));
        }
    }
    let node = x.node.mapped(&forms, 2 * rank);
    Some(match node.reshaped(&space, shape) {
        Some(node) => Lowered::Nodes(vec![node]),
        None => Lowered::Dense { node, space },
    })
}

/// `x` at another place and through indices, both made from the place where it is loaded. A gather reads memory, so an `x` that is computed
/// or gathered itself has to be stored first.
fn gathered(x: &Operand, place: impl FnOnce(&Affine) -> Option<(Affine, Vec<Indirect>)>) -> Option<Lowered> {
    match &*x.node {
        Node::Load {
            memory,
            element,
            at,
            indirect,
        } if indirect.is_empty() => {
            let (at, indirect) = place(at)?;
            let load = Node::Load {
                memory: memory.clone(),
                element: *element,
                at,
                indirect,
            };
            Some(Lowered::Nodes(vec![Arc::new(load)]))
        }
        _ => Some(Lowered::NeedsMemory(0)),
    }
}

fn gather_nd(operands: &[Operand], shape: &[usize], origin: u32) -> Option<Lowered> {
    let (x, indices) = (operands.first()?, operands.get(1)?);
    let (&count, lead) = indices.shape.split_last()?;
    let rank = shape.len();
    gathered(x, |at| {
        let mut own = Affine::constant(at.offset, rank);
        for d in count..x.shape.len() {
            own.coefs[lead.len() + d - count] = at.coefs[d];
        }
        let mut all = Vec::new();
        for c in 0..count {
            let mut forms: Vec<Affine> = (0..lead.len()).map(|d| Affine::index(d, rank, 1, 0)).collect();
            forms.push(Affine::constant(c as i64, rank));
            all.push(Indirect {
                index: index_node(indices.node.mapped(&forms, rank))?,
                extent: x.shape[c],
                stride: at.coefs[c],
                origin,
            });
        }
        Some((own, all))
    })
}

/// The type that reductions of an element type give before they are stored.
fn row_element(element: ElementType) -> ElementType {
    match element {
        ElementType::F16 | ElementType::BF16 => ElementType::F32,
        ElementType::I8 | ElementType::I16 => ElementType::I32,
        ElementType::U8 | ElementType::U16 => ElementType::U32,
        other => other,
    }
}

/// `node` in another type.
fn cast(node: Arc<Node>, element: ElementType) -> Arc<Node> {
    if node.element() == element {
        node
    } else {
        Node::op(MapOp::Cast, vec![node], element)
    }
}

fn binary(op: Binary, a: Arc<Node>, b: Arc<Node>) -> Arc<Node> {
    let element = a.element();
    Node::op(MapOp::Binary(op), vec![a, b], element)
}

fn unary(op: Unary, a: Arc<Node>) -> Arc<Node> {
    let element = a.element();
    Node::op(MapOp::Unary(op), vec![a], element)
}

fn reduce(op: Reduction, x: &Operand, dims: &Operand, element: ElementType) -> Option<Lowered> {
    let rank = x.shape.len();
    let axes = eval::axes(dims.constant.as_ref()?, rank).ok()?;
    let source = x.node.element();
    if x.shape.contains(&0) || op.is_logical() != (source == ElementType::Bool) {
        return None;
    }
    if op == Reduction::Mean && !source.is_float() {
        return None;
    }
    let outer: Vec<usize> = (0..rank).filter(|d| !axes.contains(d)).collect();
    let order: Vec<usize> = outer.iter().chain(&axes).copied().collect();
    let mut forms = vec![Affine::constant(0, rank); rank];
    for (i, &d) in order.iter().enumerate() {
        forms[d] = Affine::index(i, rank, 1, 0);
    }
    let columns: usize = axes.iter().map(|&a| x.shape[a]).product();
    let row = row_element(source);
    let mut finish = Arc::new(Node::Row(0, row));
    if op == Reduction::Mean {
        finish = binary(Binary::Divide, finish, Node::float(ElementType::F32, columns as f64));
    }
    Some(Lowered::Reduced(Reduced {
        stage: Stage {
            op: if op == Reduction::Mean { Reduction::Sum } else { op },
            value: x.node.mapped(&forms, rank),
        },
        shape: order.iter().map(|&d| x.shape[d]).collect(),
        outer: outer.len(),
        finish: cast(finish, element),
        kept: (0..rank).map(|d| outer.iter().position(|&o| o == d)).collect(),
    }))
}

fn softmax(x: &Operand, dim: i64, element: ElementType) -> Option<Lowered> {
    let rank = x.shape.len();
    let axis = eval::axis(dim, rank).ok()?;
    if !element.is_float() || x.shape.contains(&0) {
        return None;
    }
    let order: Vec<usize> = (0..rank).filter(|&d| d != axis).chain([axis]).collect();
    let mut forms = vec![Affine::constant(0, rank); rank];
    for (i, &d) in order.iter().enumerate() {
        forms[d] = Affine::index(i, rank, 1, 0);
    }
    let value = cast(x.node.mapped(&forms, rank), ElementType::F32);
    let row = |i| Arc::new(Node::Row(i, ElementType::F32));
    let power = unary(Unary::Exp, binary(Binary::Sub, value.clone(), row(0)));
    let scale = binary(Binary::Divide, Node::float(ElementType::F32, 1.0), row(1));
    let program = RowProgram {
        shape: order.iter().map(|&d| x.shape[d]).collect(),
        outer: rank - 1,
        stages: vec![
            Stage {
                op: Reduction::Max,
                value,
            },
            Stage {
                op: Reduction::Sum,
                value: power.clone(),
            },
        ],
        result: cast(binary(Binary::Mul, power, scale), element),
        by_element: true,
        output: element,
        terms: false,
    };
    Some(Lowered::Rows { program, order })
}

fn batch_matmul(a: &Operand, b: &Operand, shape: &[usize], element: ElementType) -> Option<Lowered> {
    let (&[.., m, k], &[.., kb, n]) = (a.shape.as_slice(), b.shape.as_slice()) else {
        return None;
    };
    if k != kb || k == 0 || shape.contains(&0) || a.node.element() != element || element == ElementType::Bool {
        return None;
    }
    // Rows are elements of the result, columns run over k.
    let rank = shape.len() + 1;
    let batch = &shape[..shape.len() - 2];
    let place = |operand: &Operand, rows: usize, columns: usize| {
        let own = operand.shape.len() - 2;
        let lead = batch.len() - own;
        let mut forms: Vec<Affine> = (0..own)
            .map(|d| {
                if operand.shape[d] == 1 {
                    Affine::constant(0, rank)
                } else {
                    Affine::index(d + lead, rank, 1, 0)
                }
            })
            .collect();
        forms.push(Affine::index(rows, rank, 1, 0));
        forms.push(Affine::index(columns, rank, 1, 0));
        cast(operand.node.mapped(&forms, rank), row_element(element))
    };
    let (row, column, inner) = (rank - 3, rank - 2, rank - 1);
    let product = binary(Binary::Mul, place(a, row, inner), place(b, inner, column));
    let mut space = batch.to_vec();
    space.extend([m, n, k]);
    Some(Lowered::Reduced(Reduced {
        stage: Stage {
            op: Reduction::Sum,
            value: product,
        },
        shape: space,
        outer: rank - 1,
        finish: cast(Arc::new(Node::Row(0, row_element(element))), element),
        kept: (0..rank - 1).map(Some).collect(),
    }))
}

/// Normalisation of the last dimension to mean 0 and variance 1, then scaled and moved; `added` is added first, as an
/// addition of its own would be.
pub(crate) fn layer_norm(x: &Operand, added: Option<&Operand>, weights: [&Operand; 2], eps: f32) -> Option<RowProgram> {
    let (shape, element) = (&x.shape, x.node.element());
    let width = *shape.last()?;
    let mut sum = x.node.clone();
    if let Some(added) = added {
        sum = binary(Binary::Add, sum, added.over(shape));
    }
    let value = cast(sum, ElementType::F32);
    let row = |i| Arc::new(Node::Row(i, ElementType::F32));
    let float = |v| Node::float(ElementType::F32, v);
    let mean = binary(Binary::Divide, row(0), float(width as f64));
    let centred = binary(Binary::Sub, value.clone(), mean);
    let variance = binary(Binary::Divide, row(1), float(width as f64));
    let scale = unary(Unary::Rsqrt, binary(Binary::Add, variance, float(f64::from(eps))));
    let [gamma, beta] = weights.map(|w| cast(w.over(shape), ElementType::F32));
    let scaled = binary(Binary::Mul, binary(Binary::Mul, centred.clone(), scale), gamma);
    Some(RowProgram {
        shape: shape.clone(),
        outer: shape.len() - 1,
        stages: vec![
            Stage {
                op: Reduction::Sum,
                value,
            },
            Stage {
                op: Reduction::Sum,
                value: binary(Binary::Mul, centred.clone(), centred),
            },
        ],
        result: cast(binary(Binary::Add, scaled, beta), element),
        by_element: true,
        output: element,
        terms: false,
    })
}

/// x · rsqrt(mean x² + eps) · scale over the last dimension.
pub(crate) fn rms_norm(x: &Operand, scale: &Operand, eps: f32) -> Option<RowProgram> {
    let (shape, element) = (&x.shape, x.node.element());
    let width = *shape.last()?;
    let value = cast(x.node.clone(), ElementType::F32);
    let row = Arc::new(Node::Row(0, ElementType::F32));
    let mean = binary(Binary::Divide, row, Node::float(ElementType::F32, width as f64));
    let factor = unary(
        Unary::Rsqrt,
        binary(Binary::Add, mean, Node::float(ElementType::F32, f64::from(eps))),
    );
    let scale = cast(scale.over(shape), ElementType::F32);
    Some(RowProgram {
        shape: shape.clone(),
        outer: shape.len() - 1,
        stages: vec![Stage {
            op: Reduction::Sum,
            value: binary(Binary::Mul, value.clone(), value.clone()),
        }],
        result: cast(binary(Binary::Mul, binary(Binary::Mul, value, factor), scale), element),
        by_element: true,
        output: element,
        terms: false,
    })
}
