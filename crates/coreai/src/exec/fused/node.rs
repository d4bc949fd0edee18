//! Expressions: what each element of an array is, as a function of its index, without memory of its own.
//!
//! Every node belongs to an iteration space (a shape), over whose dimensions its affine forms count. Operations that move
//! data only change the forms of the leaves, so a chain of them costs nothing until somebody needs the elements.

use std::collections::HashMap;
use std::sync::Arc;

use crate::array::Array;
use crate::bytecode::ElementType;
use crate::program::{Binary, Unary};

use super::affine::Affine;

/// Memory that an expression reads.
#[derive(Clone, Debug)]
pub(crate) enum Memory {
    /// A value that was written to memory, by number.
    Value(u32),
    /// A constant.
    Constant(Array),
}

impl Memory {
    /// True for the same bytes.
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => a == b,
            (Self::Constant(a), Self::Constant(b)) => {
                a.bytes().as_ptr() == b.bytes().as_ptr() && a.bytes().len() == b.bytes().len()
            }
            _ => false,
        }
    }
}

/// What an operation computes from its operands' elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MapOp {
    Unary(Unary),
    Binary(Binary),
    /// Condition, then, otherwise.
    Select,
    /// GELU in one of its forms.
    Gelu(u64),
    /// To the node's element type.
    Cast,
}

/// An index into memory that is itself computed.
#[derive(Clone, Debug)]
pub(crate) struct Indirect {
    pub index: Arc<Node>,
    /// Valid are -extent to extent - 1.
    pub extent: usize,
    /// Elements from one index to the next.
    pub stride: i64,
    /// The step of the plan that asks for it, for messages.
    pub origin: u32,
}

/// A value for each index of the iteration space.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// An element in memory.
    Load {
        memory: Memory,
        element: ElementType,
        at: Affine,
        indirect: Vec<Indirect>,
    },
    /// The same number everywhere: the value of a float, or an integer.
    Literal {
        element: ElementType,
        value: f64,
        integer: i64,
    },
    /// An operation on elements. Narrow floats compute in `f32` and are rounded.
    Op {
        op: MapOp,
        args: Vec<Arc<Node>>,
        element: ElementType,
    },
    /// `inside` where every form lies in 0..its extent, else `outside`.
    Guard {
        tests: Vec<(Affine, i64)>,
        inside: Arc<Node>,
        outside: Arc<Node>,
    },
    /// The result of a reduction of this row. Only in the kernels that make it. Its number, and its element type.
    Row(u32, ElementType),
    /// The result of a reduction that has not been computed, by number, at an index of the reduction's outer dimensions.
    Deferred {
        reduction: u32,
        element: ElementType,
        at: Vec<Affine>,
    },
}

impl Node {
    /// A dense array of this shape.
    pub fn dense(memory: Memory, element: ElementType, shape: &[usize]) -> Arc<Self> {
        Arc::new(Self::Load {
            memory,
            element,
            at: Affine::dense(shape),
            indirect: Vec::new(),
        })
    }

    /// A float literal.
    pub fn float(element: ElementType, value: f64) -> Arc<Self> {
        Arc::new(Self::Literal {
            element,
            value,
            integer: 0,
        })
    }

    /// Zero in any type.
    pub fn zero(element: ElementType) -> Arc<Self> {
        Self::float(element, 0.0)
    }

    /// An operation.
    pub fn op(op: MapOp, args: Vec<Arc<Node>>, element: ElementType) -> Arc<Self> {
        Arc::new(Self::Op { op, args, element })
    }

    /// A constant of one element as a literal.
    pub fn literal(array: &Array) -> Option<Arc<Self>> {
        use crate::scalar::{Numbers, decode};
        if array.len() != 1 {
            return None;
        }
        let element = array.element();
        let (value, integer) = match decode(array).ok()? {
            Numbers::F32(v) => (f64::from(*v.first()?), 0),
            Numbers::F64(_) => return None,
            // Integers are kept by their low 64 bits.
            Numbers::Int(v) => (0.0, *v.first()? as i64),
        };
        Some(Arc::new(Self::Literal {
            element,
            value,
            integer,
        }))
    }

    /// The element type.
    pub fn element(&self) -> ElementType {
        match self {
            Self::Load { element, .. }
            | Self::Literal { element, .. }
            | Self::Op { element, .. }
            | Self::Row(_, element)
            | Self::Deferred { element, .. } => *element,
            Self::Guard { inside, .. } => inside.element(),
        }
    }

    /// The memory and the first element there, when this is a dense array of the space's shape.
    pub fn as_dense(&self, shape: &[usize]) -> Option<(&Memory, usize)> {
        match self {
            Self::Load {
                memory, at, indirect, ..
            } if indirect.is_empty() => {
                let dense = Affine::dense(shape);
                let same = (0..shape.len()).all(|d| shape[d] == 1 || at.coefs[d] == dense.coefs[d]);
                let offset = usize::try_from(at.offset).ok()?;
                same.then_some((memory, offset))
            }
            _ => None,
        }
    }

    /// Applies `leaf` to every affine form and rebuilds what changed. Shared nodes stay shared.
    fn rebuilt(
        self: &Arc<Self>,
        form: &mut dyn FnMut(&Affine) -> Option<Affine>,
        done: &mut Memo,
    ) -> Option<Arc<Self>> {
        let key = Arc::as_ptr(self) as usize;
        if let Some(found) = done.get(&key) {
            return Some(found.clone());
        }
        let new = match &**self {
            Self::Load {
                memory,
                element,
                at,
                indirect,
            } => Self::Load {
                memory: memory.clone(),
                element: *element,
                at: form(at)?,
                indirect: indirect
                    .iter()
                    .map(|i| {
                        let index = i.index.rebuilt(form, done)?;
                        Some(Indirect { index, ..*i })
                    })
                    .collect::<Option<_>>()?,
            },
            Self::Literal { .. } | Self::Row(..) => return Some(self.clone()),
            Self::Op { op, args, element } => Self::Op {
                op: *op,
                args: args.iter().map(|a| a.rebuilt(form, done)).collect::<Option<_>>()?,
                element: *element,
            },
            Self::Guard { tests, inside, outside } => Self::Guard {
                tests: tests
                    .iter()
                    .map(|(test, extent)| Some((form(test)?, *extent)))
                    .collect::<Option<_>>()?,
                inside: inside.rebuilt(form, done)?,
                outside: outside.rebuilt(form, done)?,
            },
            Self::Deferred { reduction, element, at } => Self::Deferred {
                reduction: *reduction,
                element: *element,
                at: at.iter().map(&mut *form).collect::<Option<_>>()?,
            },
        };
        let new = Arc::new(new);
        done.insert(key, new.clone());
        Some(new)
    }

    /// The node over another space, each of whose elements has the index `map` in this one.
    pub fn mapped(self: &Arc<Self>, map: &[Affine], rank: usize) -> Arc<Self> {
        self.rebuilt(&mut |form| Some(form.through(map, rank)), &mut Memo::new())
            .unwrap_or_else(|| self.clone())
    }

    /// The node over a space with the same elements in the same order; `None` when a form is not affine there.
    pub fn reshaped(self: &Arc<Self>, from: &[usize], to: &[usize]) -> Option<Arc<Self>> {
        if from == to {
            return Some(self.clone());
        }
        self.rebuilt(&mut |form| form.reshaped(from, to), &mut Memo::new())
    }

    /// The node over its own shape stretched to `to`.
    pub fn stretched(self: &Arc<Self>, from: &[usize], to: &[usize]) -> Arc<Self> {
        if from == to {
            return self.clone();
        }
        let lead = to.len().saturating_sub(from.len());
        let map: Vec<Affine> = from
            .iter()
            .enumerate()
            .map(|(d, &extent)| {
                if extent == 1 {
                    Affine::constant(0, to.len())
                } else {
                    Affine::index(d + lead, to.len(), 1, 0)
                }
            })
            .collect();
        self.mapped(&map, to.len())
    }

    /// Calls `f` for this node and those below, once for each.
    pub fn visit(self: &Arc<Self>, f: &mut dyn FnMut(&Arc<Node>)) {
        fn go(node: &Arc<Node>, seen: &mut std::collections::HashSet<usize>, f: &mut dyn FnMut(&Arc<Node>)) {
            if !seen.insert(Arc::as_ptr(node) as usize) {
                return;
            }
            f(node);
            match &**node {
                Node::Load { indirect, .. } => indirect.iter().for_each(|i| go(&i.index, seen, f)),
                Node::Op { args, .. } => args.iter().for_each(|a| go(a, seen, f)),
                Node::Guard { inside, outside, .. } => {
                    go(inside, seen, f);
                    go(outside, seen, f);
                }
                Node::Literal { .. } | Node::Row(..) | Node::Deferred { .. } => {}
            }
        }
        go(self, &mut std::collections::HashSet::new(), f);
    }

    /// The same with some nodes replaced; `f` is asked before the node's own children are looked at.
    pub fn replaced(self: &Arc<Self>, f: &dyn Fn(&Node) -> Option<Arc<Node>>) -> Arc<Self> {
        fn go(node: &Arc<Node>, f: &dyn Fn(&Node) -> Option<Arc<Node>>, done: &mut Memo) -> Arc<Node> {
            let key = Arc::as_ptr(node) as usize;
            if let Some(found) = done.get(&key) {
                return found.clone();
            }
            let new = match f(node) {
                Some(other) => other,
                None => match &**node {
                    Node::Load {
                        memory,
                        element,
                        at,
                        indirect,
                    } if !indirect.is_empty() => Arc::new(Node::Load {
                        memory: memory.clone(),
                        element: *element,
                        at: at.clone(),
                        indirect: indirect
                            .iter()
                            .map(|i| Indirect {
                                index: go(&i.index, f, done),
                                ..*i
                            })
                            .collect(),
                    }),
                    Node::Op { op, args, element } => {
                        Node::op(*op, args.iter().map(|a| go(a, f, done)).collect(), *element)
                    }
                    Node::Guard { tests, inside, outside } => Arc::new(Node::Guard {
                        tests: tests.clone(),
                        inside: go(inside, f, done),
                        outside: go(outside, f, done),
                    }),
                    _ => node.clone(),
                },
            };
            done.insert(key, new.clone());
            new
        }
        go(self, f, &mut Memo::new())
    }

    /// Every affine form below.
    pub fn forms(self: &Arc<Self>) -> Vec<Affine> {
        let mut out = Vec::new();
        self.visit(&mut |node| match &**node {
            Node::Load { at, .. } => out.push(at.clone()),
            Node::Guard { tests, .. } => out.extend(tests.iter().map(|(test, _)| test.clone())),
            Node::Deferred { at, .. } => out.extend(at.iter().cloned()),
            _ => {}
        });
        out
    }

    /// How much there is below: loads, and operations.
    pub fn size(self: &Arc<Self>) -> (usize, usize) {
        let (mut loads, mut operations) = (0, 0);
        self.visit(&mut |node| match &**node {
            Node::Load { .. } => loads += 1,
            Node::Op { .. } | Node::Guard { .. } => operations += 1,
            _ => {}
        });
        (loads, operations)
    }
}

/// Nodes already rebuilt, by address. The originals are alive as long as the root is.
type Memo = HashMap<usize, Arc<Node>>;
