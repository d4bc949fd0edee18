//! Random kernels, the same for the same seed. They always end, stay in bounds and never race.

use anymetal_ir::{
    Access, AddressSpace, Argument, ArgumentId, ArgumentKind, BinaryOp, Block, Builder, Builtin, CompareOp, Const,
    CoopId, CoopRole, Cooperative, GroupOp, GroupWidth, Kernel, LayoutKind, LocalId, MathMode, MatmulDescriptor,
    MemoryId, MemoryObject, Op, Scalar, ShuffleOp, Type, UnaryOp, Unroll, ValueId, VoteOp,
};

pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

const TYPES: [Scalar; 7] = [
    Scalar::Bool,
    Scalar::I32,
    Scalar::U32,
    Scalar::F32,
    Scalar::I64,
    Scalar::U16,
    Scalar::I8,
];

struct Generator {
    rng: Rng,
    b: Builder,
    /// Visible values, block by block.
    scopes: Vec<Vec<ValueId>>,
    locals: Vec<LocalId>,
    /// Kinds of enclosing targets: true for loops.
    targets: Vec<bool>,
    tiles: Vec<CoopId>,
    array: MemoryId,
    fuel: usize,
    with_tiles: bool,
}

/// A random kernel.
pub fn kernel(seed: u64) -> Kernel {
    let mut b = Builder::new("random");
    for (i, access) in [Access::ReadWrite, Access::ReadOnly].into_iter().enumerate() {
        b.argument(Argument {
            name: format!("a{i}"),
            index: i as u32,
            kind: ArgumentKind::Buffer {
                space: AddressSpace::Device,
                type_name: "uint".into(),
                size: 4,
                align: 4,
                element_size: 4,
                reference: false,
            },
            access,
        });
    }
    let array = b.memory(MemoryObject {
        name: "array".into(),
        space: AddressSpace::Thread,
        size: 32,
        align: 4,
        element_size: 4,
        data: Vec::new(),
    });
    let mut locals = Vec::new();
    for ty in TYPES {
        for _ in 0..2 {
            locals.push(b.local(format!("{ty}"), ty));
        }
    }
    let descriptor = MatmulDescriptor {
        m: 12,
        n: 20,
        k: Some(16),
        transpose_left: false,
        transpose_right: false,
        relaxed_precision: false,
        accumulate: false,
    };
    let tiles = [
        (CoopRole::Destination, 12, 20),
        (CoopRole::Destination, 12, 20),
        (CoopRole::RowReduction, 12, 1),
        (CoopRole::ColumnReduction, 1, 20),
    ]
    .map(|(role, rows, columns)| {
        b.cooperative(Cooperative {
            name: "t".into(),
            role,
            element: Scalar::F32,
            rows,
            columns,
            simdgroups: 1,
            layout: if seed.is_multiple_of(2) {
                LayoutKind::R
            } else {
                LayoutKind::S
            },
            descriptor,
            spatial: None,
        })
    })
    .to_vec();
    let mut this = Generator {
        rng: Rng::new(seed),
        b,
        scopes: vec![Vec::new()],
        locals,
        targets: Vec::new(),
        tiles,
        array,
        fuel: 70,
        with_tiles: seed.is_multiple_of(3),
    };
    this.block(0);
    this.finish()
}

impl Generator {
    fn emit(&mut self, op: Op, ty: Scalar) -> ValueId {
        // Not through the folding helpers of the builder: the passes shall find something.
        let value = self.b.emit(op, &[ty.into()]);
        self.scopes.last_mut().unwrap().push(value);
        value
    }

    /// A visible value of a type, or a new one.
    fn value(&mut self, ty: Scalar) -> ValueId {
        let list: Vec<ValueId> = self
            .scopes
            .iter()
            .flatten()
            .copied()
            .filter(|value| self.b.ty(*value) == Type::Scalar(ty))
            .collect();
        if !list.is_empty() && self.rng.below(4) != 0 {
            // Later values are likelier.
            let at = self.rng.below(list.len()).max(self.rng.below(list.len()));
            return list[at];
        }
        match self.rng.below(3) {
            0 => {
                let locals: Vec<LocalId> = self
                    .locals
                    .iter()
                    .copied()
                    .filter(|local| self.b.kernel().local(*local).ty == Type::Scalar(ty))
                    .collect();
                let local = self.rng.pick(&locals);
                self.emit(Op::LocalGet(local), ty)
            }
            1 if ty == Scalar::U32 => {
                let builtin = self.rng.pick(&[
                    Builtin::ThreadIndexInSimdgroup,
                    Builtin::SimdgroupIndexInThreadgroup,
                    Builtin::ThreadgroupPositionInGrid(0),
                    Builtin::ThreadPositionInGrid(0),
                    Builtin::ThreadsPerSimdgroup,
                ]);
                self.emit(Op::Builtin(builtin), ty)
            }
            _ => self.small(ty),
        }
    }

    fn small(&mut self, ty: Scalar) -> ValueId {
        let n = self.rng.below(9) as i64 - 3;
        let bits = match ty {
            Scalar::Bool => (n & 1) as u64,
            Scalar::F32 => u64::from((n as f32 * 0.5).to_bits()),
            Scalar::I64 => n as u64,
            ty => n as u64 & ((1 << ty.bits()) - 1),
        };
        self.emit(Op::Const(Const { ty, bits }), ty)
    }

    fn statement(&mut self, depth: usize) {
        self.fuel = self.fuel.saturating_sub(1);
        let ty = self.rng.pick(&TYPES);
        match self.rng.below(if depth < 4 { 24 } else { 15 }) {
            0..4 => {
                self.arithmetic(ty);
            }
            4 => {
                let (a, b) = (self.value(ty), self.value(ty));
                let op = self.rng.pick(&[
                    CompareOp::Eq,
                    CompareOp::Ne,
                    CompareOp::Lt,
                    CompareOp::Le,
                    CompareOp::Gt,
                    CompareOp::Ge,
                ]);
                self.emit(Op::Compare { op, lhs: a, rhs: b }, Scalar::Bool);
            }
            5 => {
                let from = self.rng.pick(&TYPES);
                let operand = self.value(from);
                self.emit(
                    Op::Convert {
                        operand,
                        to: ty,
                        saturate: false,
                    },
                    ty,
                );
            }
            6 => {
                let condition = self.value(Scalar::Bool);
                let (then, otherwise) = (self.value(ty), self.value(ty));
                self.emit(
                    Op::Select {
                        condition,
                        then,
                        otherwise,
                    },
                    ty,
                );
            }
            7..10 => {
                let local = self.rng.pick(&self.locals.clone());
                let Type::Scalar(ty) = self.b.kernel().local(local).ty else {
                    return;
                };
                let value = self.value(ty);
                self.b.set(local, value);
            }
            10..13 => self.memory(),
            13 => self.group(),
            14 => {
                if self.rng.below(8) == 0 && depth > 0 {
                    let condition = self.value(Scalar::Bool);
                    self.b.push_block();
                    self.b.emit_void(Op::Return);
                    let then = self.b.pop_block();
                    self.b.if_(condition, then, Block::default());
                }
            }
            15..19 => {
                let condition = self.value(Scalar::Bool);
                let then = self.nested(depth);
                let otherwise = if self.rng.below(2) == 0 {
                    self.nested(depth)
                } else {
                    Block::default()
                };
                self.b.if_(condition, then, otherwise);
            }
            19 => {
                self.targets.push(false);
                let body = self.nested(depth);
                self.targets.pop();
                self.b.emit_void(Op::Scope { body });
            }
            20 if self.with_tiles => self.tile_loop(),
            _ => self.counted(depth),
        }
        // A way out now and then.
        if !self.targets.is_empty() && self.rng.below(9) == 0 {
            let condition = self.value(Scalar::Bool);
            let at = self.rng.below(self.targets.len());
            let level = (self.targets.len() - 1 - at) as u32;
            self.b.push_block();
            if self.targets[at] && self.rng.below(2) == 0 {
                self.b.emit_void(Op::Continue(level));
            } else {
                self.b.emit_void(Op::Break(level));
            }
            let then = self.b.pop_block();
            self.b.if_(condition, then, Block::default());
        }
    }

    fn arithmetic(&mut self, ty: Scalar) {
        if ty == Scalar::Bool || self.rng.below(8) == 0 {
            let op = match ty {
                Scalar::F32 => self.rng.pick(&[UnaryOp::Neg, UnaryOp::Abs]),
                Scalar::Bool => UnaryOp::Not,
                _ => self.rng.pick(&[UnaryOp::Neg, UnaryOp::Not]),
            };
            let operand = self.value(ty);
            let mode = MathMode::Precise;
            self.emit(Op::Unary { op, operand, mode }, ty);
            return;
        }
        let op = match ty {
            Scalar::F32 => self.rng.pick(&[
                BinaryOp::Add,
                BinaryOp::Sub,
                BinaryOp::Mul,
                BinaryOp::Div,
                BinaryOp::Max,
            ]),
            _ => self.rng.pick(&[
                BinaryOp::Add,
                BinaryOp::Sub,
                BinaryOp::Mul,
                BinaryOp::Div,
                BinaryOp::Rem,
                BinaryOp::And,
                BinaryOp::Or,
                BinaryOp::Xor,
                BinaryOp::Shl,
                BinaryOp::Shr,
                BinaryOp::Min,
            ]),
        };
        let (lhs, rhs) = (self.value(ty), self.value(ty));
        let mode = MathMode::Precise;
        self.emit(Op::Binary { op, lhs, rhs, mode }, ty);
    }

    /// A pointer to one of eight words.
    fn pointer(&mut self, space: AddressSpace, base: Op) -> ValueId {
        let pointer = self.b.emit(base, &[Type::Pointer(space)]);
        let offset = if self.rng.below(3) != 0 {
            let bits = self.rng.below(8) as u64 * 4;
            self.emit(Op::Const(Const { ty: Scalar::I64, bits }), Scalar::I64)
        } else {
            let index = self.value(Scalar::I64);
            let mask = self.b.emit(
                Op::Const(Const {
                    ty: Scalar::I64,
                    bits: 28,
                }),
                &[Scalar::I64.into()],
            );
            self.emit(
                Op::Binary {
                    op: BinaryOp::And,
                    lhs: index,
                    rhs: mask,
                    mode: MathMode::Precise,
                },
                Scalar::I64,
            )
        };
        self.b
            .emit(Op::PointerOffset { pointer, offset }, &[Type::Pointer(space)])
    }

    fn memory(&mut self) {
        let (space, base) = match self.rng.below(4) {
            0 => (
                AddressSpace::Device,
                Op::ArgumentPointer(ArgumentId(self.rng.below(2) as u32)),
            ),
            _ => (AddressSpace::Thread, Op::MemoryPointer(self.array)),
        };
        let writable = base != Op::ArgumentPointer(ArgumentId(1));
        // Half of the arrays are accessed at constant offsets only.
        let pointer = self.pointer(space, base);
        let ty = if space == AddressSpace::Thread || self.rng.below(2) == 0 {
            Scalar::I32
        } else {
            Scalar::U32
        };
        if writable && self.rng.below(2) == 0 {
            let value = self.value(ty);
            self.b.store(pointer, vec![value], 4);
        } else {
            self.emit(
                Op::Load {
                    pointer,
                    ty: ty.into(),
                    count: 1,
                    align: 4,
                },
                ty,
            );
        }
    }

    fn group(&mut self) {
        let operand = self.value(Scalar::I32);
        match self.rng.below(4) {
            0 => {
                let width = self.rng.pick(&[GroupWidth::Simd, GroupWidth::Quad]);
                let op = self.rng.pick(&[GroupOp::Sum, GroupOp::Max]);
                self.emit(Op::Group { op, width, operand }, Scalar::I32);
            }
            1 => {
                let index = self.value(Scalar::U32);
                let op = self.rng.pick(&[ShuffleOp::BroadcastFirst, ShuffleOp::ShuffleXor]);
                let width = GroupWidth::Simd;
                self.emit(
                    Op::Shuffle {
                        op,
                        width,
                        operand,
                        index,
                    },
                    Scalar::I32,
                );
            }
            _ => {
                let question = self.value(Scalar::Bool);
                let op = self.rng.pick(&[VoteOp::All, VoteOp::Any]);
                let width = GroupWidth::Simd;
                let operand = Some(question);
                self.emit(Op::Vote { op, width, operand }, Scalar::Bool);
            }
        }
    }

    fn nested(&mut self, depth: usize) -> Block {
        self.b.push_block();
        self.scopes.push(Vec::new());
        self.block(depth + 1);
        self.scopes.pop();
        self.b.pop_block()
    }

    fn block(&mut self, depth: usize) {
        let n = if depth == 0 { 30 } else { 1 + self.rng.below(6) };
        for _ in 0..n {
            if self.fuel > 0 {
                self.statement(depth);
            }
        }
    }

    /// `for (i = 0; i < bound; ++i) { inside(i) }` with a counter of its own.
    fn for_loop(&mut self, bound: ValueId, inside: impl FnOnce(&mut Self, ValueId)) {
        let i = self.b.local("i", Scalar::I32);
        let zero = self.small_int(0);
        self.b.set(i, zero);
        self.b.push_block();
        self.scopes.push(Vec::new());
        let at = self.emit(Op::LocalGet(i), Scalar::I32);
        let done = self.emit(
            Op::Compare {
                op: CompareOp::Ge,
                lhs: at,
                rhs: bound,
            },
            Scalar::Bool,
        );
        self.b.push_block();
        self.b.emit_void(Op::Break(0));
        let then = self.b.pop_block();
        self.b.if_(done, then, Block::default());
        self.targets.push(true);
        inside(self, at);
        self.targets.pop();
        self.scopes.pop();
        let body = self.b.pop_block();
        self.b.push_block();
        let old = self.b.get(i);
        let one = self.b.constant(Scalar::I32, 1);
        let op = Op::Binary {
            op: BinaryOp::Add,
            lhs: old,
            rhs: one,
            mode: MathMode::Precise,
        };
        let new = self.b.emit(op, &[Scalar::I32.into()]);
        self.b.set(i, new);
        let latch = self.b.pop_block();
        let unroll = self.rng.pick(&[Unroll::Default, Unroll::Full, Unroll::Never]);
        self.b.loop_(body, latch, unroll);
        if self.rng.below(4) == 0 {
            self.emit(Op::LocalGet(i), Scalar::I32);
        }
    }

    fn small_int(&mut self, n: u64) -> ValueId {
        self.b.emit(
            Op::Const(Const {
                ty: Scalar::I32,
                bits: n,
            }),
            &[Scalar::I32.into()],
        )
    }

    fn counted(&mut self, depth: usize) {
        let bound = if self.rng.below(2) == 0 {
            let n = self.rng.below(4) as u64;
            self.small_int(n)
        } else {
            let value = self.value(Scalar::I32);
            let three = self.small_int(3);
            self.emit(
                Op::Binary {
                    op: BinaryOp::And,
                    lhs: value,
                    rhs: three,
                    mode: MathMode::Precise,
                },
                Scalar::I32,
            )
        };
        self.for_loop(bound, |this, _| this.block(depth + 1));
    }

    /// A loop over the elements of a tile, most of the time of a shape that becomes a map.
    fn tile_loop(&mut self) {
        let tile = self.tiles[0];
        let capacity = self.b.kernel().coop(tile).capacity();
        let bound = self.small_int(u64::from(capacity));
        let other = self.tiles[1];
        let reductions = [self.tiles[2], self.tiles[3]];
        if self.rng.below(3) == 0 {
            self.b.emit_void(Op::CoopInit(other));
        }
        self.for_loop(bound, |this, slot| {
            // Values from outside may be varying: then the loop stays.
            let outside = this.value(Scalar::F32);
            let x = this.emit(Op::CoopGet { coop: tile, slot }, Scalar::F32);
            let to = this.rng.pick(&reductions);
            let from = other;
            let mapped = this.b.emit(Op::CoopMapSlot { to, from, slot }, &[Scalar::I32.into()]);
            let y = this.emit(Op::CoopGet { coop: to, slot: mapped }, Scalar::F32);
            let column = this.b.emit(
                Op::CoopIndex { coop: tile, slot },
                &[Scalar::I32.into(), Scalar::I32.into()],
            );
            let row = ValueId(column.0 + 1);
            let op = this.rng.pick(&[CompareOp::Le, CompareOp::Ne]);
            let condition = this.emit(
                Op::Compare {
                    op,
                    lhs: column,
                    rhs: row,
                },
                Scalar::Bool,
            );
            this.b.push_block();
            this.b.emit_void(Op::CoopSet {
                coop: tile,
                slot,
                value: outside,
            });
            let then = this.b.pop_block();
            this.b.if_(condition, then, Block::default());
            let sum = this.emit(
                Op::Binary {
                    op: BinaryOp::Add,
                    lhs: x,
                    rhs: y,
                    mode: MathMode::Precise,
                },
                Scalar::F32,
            );
            this.b.emit_void(Op::CoopSet {
                coop: other,
                slot,
                value: sum,
            });
        });
    }

    /// Writes what locals hold, so that nothing is dead.
    fn finish(mut self) -> Kernel {
        let base = self.b.emit(
            Op::ArgumentPointer(ArgumentId(0)),
            &[Type::Pointer(AddressSpace::Device)],
        );
        for (i, local) in self.locals.clone().into_iter().enumerate() {
            let value = self.b.get(local);
            let offset = self.b.constant(Scalar::I64, 128 + 8 * i as u64);
            let pointer = self.b.offset(base, offset);
            self.b.store(pointer, vec![value], 1);
        }
        if self.with_tiles {
            self.write_tiles(base);
        }
        self.b.finish()
    }

    /// Writes a sum of all slots of each tile.
    fn write_tiles(&mut self, base: ValueId) {
        for (i, coop) in self.tiles.clone().into_iter().enumerate() {
            let mut sum = self.b.float(Scalar::F32, 0.0);
            for slot in 0..self.b.kernel().coop(coop).capacity() {
                let slot = self.small_int(slot.into());
                let element = self.b.emit(Op::CoopGet { coop, slot }, &[Scalar::F32.into()]);
                sum = self.b.binary(BinaryOp::Add, sum, element, MathMode::Precise);
            }
            let offset = self.b.constant(Scalar::I64, 64 + 4 * i as u64);
            let pointer = self.b.offset(base, offset);
            self.b.store(pointer, vec![sum], 4);
        }
    }
}
