//! Reads one operation of the text form.

use crate::lex::Token;
use crate::location::LocationId;
use crate::op::{
    AtomicOp, BinaryOp, Bounds, Builtin, CompareOp, GroupOp, GroupWidth, MathMode, MemFlags, Op, ReduceAxis, ReduceOp,
    Scope, ShuffleOp, TernaryOp, UnaryOp, VoteOp,
};
use crate::parse::{Parser, Result};
use crate::tensor::{Extent, Operand, ScalePlane, TensorField, TensorRef};
use crate::types::ValueId;

impl Parser {
    /// One operation, without results and without the location that follows it; `location` is set for operations with
    /// blocks, whose location stands before the first brace.
    pub(crate) fn op(&mut self, location: &mut LocationId) -> Result<Op> {
        let Token::Word(name) = self.peek().clone() else {
            return self.expected("an operation");
        };
        let start = self.mark();
        self.next();
        Ok(match name.as_str() {
            "if" => {
                let condition = self.value()?;
                *location = self.location()?;
                self.symbol('{')?;
                let then = self.block()?;
                let otherwise = if self.take_word("else") {
                    self.symbol('{')?;
                    self.block()?
                } else {
                    Default::default()
                };
                Op::If {
                    condition,
                    then,
                    otherwise,
                }
            }
            "loop" => {
                let unroll = self.unroll()?;
                *location = self.location()?;
                self.symbol('{')?;
                let body = self.block()?;
                let latch = if self.take_word("latch") {
                    self.symbol('{')?;
                    self.block()?
                } else {
                    Default::default()
                };
                Op::Loop { body, latch, unroll }
            }
            "scope" => {
                *location = self.location()?;
                self.symbol('{')?;
                Op::Scope { body: self.block()? }
            }
            _ => return self.flat_op(&name, start, location),
        })
    }

    /// An operation without blocks, or a map, after its name. Apart, so that the frames of nested blocks stay small.
    #[inline(never)]
    fn flat_op(&mut self, name: &str, start: usize, location: &mut LocationId) -> Result<Op> {
        if let Some(op) = UnaryOp::from_text(name) {
            return Ok(Op::Unary {
                op,
                operand: self.value()?,
                mode: self.mode(),
            });
        }
        if let Some(op) = BinaryOp::from_text(name) {
            let (lhs, rhs) = self.pair()?;
            let mode = self.mode();
            return Ok(Op::Binary { op, lhs, rhs, mode });
        }
        if let Some(op) = TernaryOp::from_text(name) {
            let (a, b) = self.pair()?;
            self.symbol(',')?;
            let c = self.value()?;
            let mode = self.mode();
            return Ok(Op::Ternary { op, a, b, c, mode });
        }
        if let Some((family, rest)) = name.split_once('.')
            && let Some(op) = self.family(family, rest, location)?
        {
            return Ok(op);
        }
        Ok(match name {
            "const" => {
                let ty = self.scalar()?;
                Op::Const(self.constant(ty)?)
            }
            "builtin" => Op::Builtin(self.named("a builtin", |text| match text.split_once('.') {
                None => Builtin::from_text(text, None),
                Some((name, dimension)) => {
                    let d = ["x", "y", "z"].iter().position(|d| *d == dimension)?;
                    Builtin::from_text(name, Some(d as u8))
                }
            })?),
            "select" => {
                let (condition, then) = self.pair()?;
                self.symbol(',')?;
                Op::Select {
                    condition,
                    then,
                    otherwise: self.value()?,
                }
            }
            "convert" => {
                let operand = self.value()?;
                self.keyword("to")?;
                Op::Convert {
                    operand,
                    to: self.scalar()?,
                    saturate: self.take_word("saturate"),
                }
            }
            "bitcast" => {
                let operand = self.value()?;
                self.keyword("to")?;
                Op::Bitcast {
                    operand,
                    to: self.ty()?,
                }
            }
            "decode" => Op::Decode {
                operand: self.value()?,
                format: self.format()?,
            },
            "encode" => Op::Encode {
                operand: self.value()?,
                format: self.format()?,
                saturate: self.take_word("saturate"),
            },
            "frexp" => Op::Frexp { operand: self.value()? },
            "modf" => Op::Modf { operand: self.value()? },
            "get" => Op::LocalGet(self.local()?),
            "set" => {
                let local = self.local()?;
                self.symbol(',')?;
                Op::LocalSet {
                    local,
                    value: self.value()?,
                }
            }
            "memory" => Op::MemoryPointer(self.memory_id()?),
            "argument" => Op::ArgumentPointer(self.argument_id()?),
            "handle" => Op::ArgumentTensor(self.argument_id()?),
            "query" => {
                let handle = self.value()?;
                let spec = Box::new(self.spec()?);
                let field = self.field()?;
                Op::TensorQuery { handle, spec, field }
            }
            "null" => Op::NullPointer(self.space()?),
            "offset" => {
                let (pointer, offset) = self.pair()?;
                Op::PointerOffset { pointer, offset }
            }
            "diff" => {
                let (lhs, rhs) = self.pair()?;
                Op::PointerDiff { lhs, rhs }
            }
            "load" => {
                let pointer = self.value()?;
                let ty = self.ty()?;
                let count = self.named("a count like `x4`", |text| text.strip_prefix('x')?.parse().ok())?;
                self.keyword("align")?;
                Op::Load {
                    pointer,
                    ty,
                    count,
                    align: self.number()?,
                }
            }
            "store" => {
                let pointer = self.value()?;
                self.symbol(',')?;
                let values = self.values()?;
                self.keyword("align")?;
                Op::Store {
                    pointer,
                    values,
                    align: self.number()?,
                }
            }
            "barrier" => Op::Barrier {
                scope: self.named("a scope", Scope::from_text)?,
                flags: self.flags(),
            },
            "fence" => Op::Fence(self.flags()),
            "matmul" => {
                let descriptor = self.descriptor()?;
                self.keyword("simdgroups")?;
                let simdgroups = self.number()?;
                self.keyword("left")?;
                let left = self.operand()?;
                self.keyword("right")?;
                let right = self.operand()?;
                self.keyword("destination")?;
                Op::Matmul {
                    descriptor,
                    simdgroups,
                    left,
                    right,
                    destination: self.operand()?,
                }
            }
            "convolution" => self.convolution_op()?,
            "break" => Op::Break(self.number()?),
            "continue" => Op::Continue(self.number()?),
            "return" => Op::Return,
            _ => return self.expected_at(start, "an operation"),
        })
    }

    /// What follows the name of a convolution.
    fn convolution_op(&mut self) -> Result<Op> {
        let descriptor = Box::new(self.convolution()?);
        self.keyword("simdgroups")?;
        let simdgroups = self.number()?;
        self.keyword("offsets")?;
        let offsets = self.pair()?.into();
        self.keyword("activation")?;
        let activation = Box::new(self.tensor()?);
        self.keyword("weights")?;
        let weights = Box::new(self.tensor()?);
        self.keyword("destination")?;
        Ok(Op::Convolution {
            descriptor,
            simdgroups,
            offsets,
            activation,
            weights,
            destination: self.operand()?,
        })
    }

    /// `family.rest`; `None` for a name that is not in the family.
    fn family(&mut self, family: &str, rest: &str, location: &mut LocationId) -> Result<Option<Op>> {
        Ok(Some(match family {
            "cmp" => {
                let Some(op) = CompareOp::from_text(rest) else {
                    return Ok(None);
                };
                let (lhs, rhs) = self.pair()?;
                Op::Compare { op, lhs, rhs }
            }
            "atomic" => {
                let Some(op) = AtomicOp::from_text(rest) else {
                    return Ok(None);
                };
                let pointer = self.value()?;
                let ty = self.scalar()?;
                self.symbol(',')?;
                Op::Atomic {
                    op,
                    pointer,
                    values: self.values()?,
                    ty,
                }
            }
            "group" => {
                let Some(op) = GroupOp::from_text(rest) else {
                    return Ok(None);
                };
                Op::Group {
                    op,
                    width: self.width()?,
                    operand: self.value()?,
                }
            }
            "shuffle" => {
                let Some(op) = ShuffleOp::from_text(rest) else {
                    return Ok(None);
                };
                let width = self.width()?;
                let (operand, index) = self.pair()?;
                Op::Shuffle {
                    op,
                    width,
                    operand,
                    index,
                }
            }
            "vote" => {
                let Some(op) = VoteOp::from_text(rest) else {
                    return Ok(None);
                };
                let width = self.width()?;
                // The next line may begin with a result, which a `:` or `..` follows.
                let operand = match (self.peek(), self.peek_second()) {
                    (Token::Id('%', _), Token::Symbol(':') | Token::Range) => None,
                    (Token::Id('%', _), _) => Some(self.value()?),
                    _ => None,
                };
                Op::Vote { op, width, operand }
            }
            "simd_matrix" if rest == "multiply" => {
                let ty = self.scalar()?;
                let a = self.pair()?;
                self.symbol(',')?;
                let b = self.pair()?;
                let c = if self.take_symbol(',') {
                    Some(self.pair()?)
                } else {
                    None
                };
                Op::SimdgroupMatrixMultiply {
                    a: a.into(),
                    b: b.into(),
                    c: c.map(Into::into),
                    ty,
                }
            }
            "tensor" => match rest {
                "load" => Op::TensorLoad {
                    tensor: Box::new(self.tensor()?),
                    indices: self.values()?,
                    bounds: self.bounds()?,
                },
                "store" => {
                    let tensor = Box::new(self.tensor()?);
                    let indices = self.values()?;
                    let bounds = self.bounds()?;
                    self.symbol(',')?;
                    Op::TensorStore {
                        tensor,
                        indices,
                        value: self.value()?,
                        bounds,
                    }
                }
                "pointer" => Op::TensorElementPointer {
                    tensor: Box::new(self.tensor()?),
                    indices: self.values()?,
                },
                _ => return Ok(None),
            },
            "coop" => return self.coop_op(rest, location),
            _ => return Ok(None),
        }))
    }

    fn coop_op(&mut self, name: &str, location: &mut LocationId) -> Result<Option<Op>> {
        Ok(Some(match name {
            "init" => Op::CoopInit(self.coop()?),
            "copy" | "convert" | "compatible" | "iterator_compatible" => {
                let to = self.coop()?;
                self.symbol(',')?;
                let from = self.coop()?;
                match name {
                    "copy" => Op::CoopCopy { to, from },
                    "convert" => Op::CoopConvert { to, from },
                    "compatible" => Op::CoopCompatible { to, from },
                    _ => Op::CoopIteratorCompatible { from, to },
                }
            }
            "get" => Op::CoopGet {
                coop: self.coop()?,
                slot: self.value()?,
            },
            "set" => {
                let coop = self.coop()?;
                let (slot, value) = self.pair()?;
                Op::CoopSet { coop, slot, value }
            }
            "valid" => Op::CoopValid {
                coop: self.coop()?,
                slot: self.value()?,
            },
            "index" => Op::CoopIndex {
                coop: self.coop()?,
                slot: self.value()?,
            },
            "map_slot" => {
                let to = self.coop()?;
                self.symbol(',')?;
                Op::CoopMapSlot {
                    to,
                    from: self.coop()?,
                    slot: self.value()?,
                }
            }
            "load" => Op::CoopLoad {
                coop: self.coop()?,
                tensor: Box::new(self.tensor()?),
            },
            "store" => Op::CoopStore {
                coop: self.coop()?,
                tensor: Box::new(self.tensor()?),
            },
            "reduce" => {
                let to = self.coop()?;
                self.symbol(',')?;
                Op::CoopReduce {
                    to,
                    from: self.coop()?,
                    axis: self.named("`rows` or `columns`", ReduceAxis::from_text)?,
                    op: self.named("a reduction", ReduceOp::from_text)?,
                    identity: self.value()?,
                }
            }
            "map" => {
                let over = self.coop()?;
                *location = self.location()?;
                self.symbol('{')?;
                Op::CoopMap {
                    over,
                    body: self.block()?,
                }
            }
            "element" => Op::CoopElement(self.coop()?),
            "element_set" => {
                let coop = self.coop()?;
                self.symbol(',')?;
                Op::CoopElementSet {
                    coop,
                    value: self.value()?,
                }
            }
            "element_index" => Op::CoopElementIndex,
            _ => return Ok(None),
        }))
    }

    fn pair(&mut self) -> Result<(ValueId, ValueId)> {
        let first = self.value()?;
        self.symbol(',')?;
        Ok((first, self.value()?))
    }

    fn mode(&mut self) -> MathMode {
        if self.take_word("fast") {
            MathMode::Fast
        } else {
            MathMode::Precise
        }
    }

    fn width(&mut self) -> Result<GroupWidth> {
        self.named("`simd` or `quad`", GroupWidth::from_text)
    }

    fn bounds(&mut self) -> Result<Bounds> {
        self.named("`fault` or `clip`", Bounds::from_text)
    }

    fn flags(&mut self) -> MemFlags {
        MemFlags {
            device: self.take_word("device"),
            threadgroup: self.take_word("threadgroup"),
            texture: self.take_word("texture"),
        }
    }

    fn field(&mut self) -> Result<TensorField> {
        let Token::Word(name) = self.peek().clone() else {
            return self.expected("a part of a tensor");
        };
        let start = self.mark();
        self.next();
        Ok(match name.as_str() {
            "pointer" => TensorField::Pointer,
            "extent" => TensorField::Extent(self.number()?),
            "stride" => TensorField::Stride(self.number()?),
            "scale_pointer" => TensorField::ScalePointer,
            "scale_stride" => TensorField::ScaleStride(self.number()?),
            _ => return self.expected_at(start, "a part of a tensor"),
        })
    }

    fn operand(&mut self) -> Result<Operand> {
        if self.is_symbol('{') {
            Ok(Operand::Tensor(Box::new(self.tensor()?)))
        } else {
            Ok(Operand::Coop(self.coop()?))
        }
    }

    fn tensor(&mut self) -> Result<TensorRef> {
        self.symbol('{')?;
        let pointer = self.value()?;
        let space = self.space()?;
        let format = self.format()?;
        self.keyword("base")?;
        let base_extents = self.values()?;
        self.keyword("strides")?;
        let strides = self.values()?;
        self.keyword("origin")?;
        let origin = self.values()?;
        self.keyword("extents")?;
        let extents = self.list(|this| {
            if this.take_word("rest") {
                Ok(Extent::Rest)
            } else if matches!(this.peek(), Token::Id('%', _)) {
                Ok(Extent::Dynamic(this.value()?))
            } else {
                Ok(Extent::Static(this.number()?))
            }
        })?;
        let scales = if self.take_word("scales") {
            self.symbol('{')?;
            let pointer = self.value()?;
            let space = self.space()?;
            let format = self.format()?;
            self.keyword("block")?;
            let block = self.list(Self::number)?;
            self.keyword("strides")?;
            let strides = self.values()?;
            self.symbol('}')?;
            Some(ScalePlane {
                pointer,
                space,
                format,
                block,
                strides,
            })
        } else {
            None
        };
        let root = if self.take_word("root") {
            Some(self.argument_id()?)
        } else {
            None
        };
        self.symbol('}')?;
        Ok(TensorRef {
            pointer,
            space,
            format,
            base_extents,
            strides,
            origin,
            extents,
            scales,
            root,
        })
    }
}
