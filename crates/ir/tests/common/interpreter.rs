//! A reference interpreter: all lanes of two threadgroups of two SIMD-groups in lockstep under masks, no speed. It checks
//! what the uniformity analysis claims while it runs.
//!
//! Every lane has its own copy of argument 0, so that lanes never race; other arguments are shared and read only.

use std::collections::HashMap;

use anymetal_ir::builder::fold;
use anymetal_ir::passes::{Uniformity, UniformityInfo};
use anymetal_ir::{
    BinaryOp, Block, Builtin, Const, GroupOp, GroupWidth, Kernel, LocalId, Op, Scalar, ShuffleOp, TernaryOp, Type,
    UnaryOp, ValueId, VoteOp,
};

pub const LANES: usize = 128;
const GROUP: usize = 64;
const SIMD: usize = 32;
/// Bytes of each argument.
pub const BUFFER: usize = 256;

type Mask = u128;

struct Target {
    broke: Mask,
    continued: Mask,
}

pub struct Machine<'a> {
    kernel: &'a Kernel,
    info: Option<&'a UniformityInfo>,
    values: Vec<[u64; LANES]>,
    locals: Vec<[u64; LANES]>,
    /// The one cell of a uniform local, by local and unit.
    cells: HashMap<(LocalId, usize), u64>,
    own: Vec<Vec<u8>>,
    shared: Vec<u8>,
    thread: Vec<Vec<Vec<u8>>>,
    tiles: Vec<HashMap<(u32, u32), u64>>,
    targets: Vec<Target>,
    /// In a map: the slot that each lane is at.
    slot: Option<u32>,
    returned: Mask,
    control: usize,
}

/// Runs a kernel and returns each lane's copy of argument 0; with `info`, every claim is checked.
pub fn run(kernel: &Kernel, info: Option<&UniformityInfo>, seed: u64) -> Vec<Vec<u8>> {
    let byte = |i: usize| ((seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 7 * 8)) as usize ^ (i * 37)) as u8;
    let initial: Vec<u8> = (0..BUFFER).map(byte).collect();
    let mut machine = Machine {
        kernel,
        info,
        values: vec![[0; LANES]; kernel.values.len()],
        locals: vec![[0; LANES]; kernel.locals.len()],
        cells: HashMap::new(),
        own: vec![initial.clone(); LANES],
        shared: initial,
        thread: vec![
            kernel
                .memory
                .iter()
                .map(|object| vec![0; object.size as usize])
                .collect();
            LANES
        ],
        tiles: vec![HashMap::new(); LANES],
        targets: Vec::new(),
        slot: None,
        returned: 0,
        control: 0,
    };
    machine.block(&kernel.body, !0);
    machine.own
}

fn lanes(mask: Mask) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}

/// The unit that a lane belongs to at a level.
fn unit(level: Uniformity, lane: usize) -> usize {
    match level {
        Uniformity::Dispatch => 0,
        Uniformity::Threadgroup => lane / GROUP,
        Uniformity::Simdgroup => lane / SIMD,
        Uniformity::Varying => lane,
    }
}

fn count_structured(block: &Block) -> usize {
    let mut n = 0;
    block.for_each_inst(&mut |inst| n += usize::from(inst.op.is_structured()));
    n
}

impl Machine<'_> {
    fn get(&self, value: ValueId, lane: usize) -> u64 {
        self.values[value.index()][lane]
    }

    fn constant(&self, value: ValueId, lane: usize) -> Const {
        Const {
            ty: self.kernel.ty(value).scalar().unwrap_or(Scalar::U64),
            bits: self.get(value, lane),
        }
    }

    /// Returns the lanes that reach the end.
    fn block(&mut self, block: &Block, mut mask: Mask) -> Mask {
        for inst in &block.insts {
            if mask == 0 && self.info.is_none() {
                return 0;
            }
            mask = self.inst(inst, mask);
            self.check(inst, mask);
        }
        mask
    }

    fn check(&mut self, inst: &anymetal_ir::Inst, mask: Mask) {
        let Some(info) = self.info else { return };
        for value in inst.results() {
            let level = info.value(value);
            let mut seen = HashMap::new();
            for lane in lanes(mask) {
                let bits = self.get(value, lane);
                let first = *seen.entry(unit(level, lane)).or_insert(bits);
                assert_eq!(first, bits, "{value} is not {level:?}\n{}", self.kernel);
            }
        }
    }

    /// Checks that a unit runs together or not at all.
    fn together(&self, level: Uniformity, mask: Mask, what: &str) {
        for lane in lanes(mask) {
            for other in 0..LANES {
                assert!(
                    unit(level, lane) != unit(level, other) || mask >> other & 1 != 0,
                    "{what} is not {level:?}\n{}",
                    self.kernel
                );
            }
        }
    }

    fn inst(&mut self, inst: &anymetal_ir::Inst, mask: Mask) -> Mask {
        match &inst.op {
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                let control = self.enter(mask);
                let mut taken = 0;
                for lane in lanes(mask) {
                    if self.get(*condition, lane) != 0 {
                        taken |= 1 << lane;
                    }
                }
                if let Some(info) = self.info {
                    self.together(info.control[control].body, taken, "then");
                    self.together(info.control[control].body, mask & !taken, "else");
                }
                let a = self.block(then, taken);
                let b = self.block(otherwise, mask & !taken);
                return a | b;
            }
            Op::Loop { body, latch, .. } => {
                let control = self.enter(mask);
                let first = self.control;
                let after = first + count_structured(body) + count_structured(latch);
                self.targets.push(Target { broke: 0, continued: 0 });
                let mut active = mask;
                let mut budget = 64;
                loop {
                    self.control = first;
                    if let Some(info) = self.info {
                        // The body as a whole: those that are still in the loop.
                        self.together(info.control[control].latch, active, "loop");
                    }
                    let mut at_end = self.block(body, active);
                    let top = self.targets.len() - 1;
                    at_end |= std::mem::take(&mut self.targets[top].continued);
                    active = self.block(latch, at_end);
                    budget -= 1;
                    assert!(budget > 0, "a loop does not end\n{}", self.kernel);
                    if active == 0 {
                        break;
                    }
                }
                self.control = after;
                return self.targets.pop().map_or(0, |target| target.broke);
            }
            Op::Scope { body } => {
                self.enter(mask);
                self.targets.push(Target { broke: 0, continued: 0 });
                let end = self.block(body, mask);
                return end | self.targets.pop().map_or(0, |target| target.broke);
            }
            Op::CoopMap { over, body } => {
                self.enter(mask);
                let first = self.control;
                let layout = self.kernel.coop(*over).layout();
                for slot in 0..layout.capacity() {
                    self.control = first;
                    let mut valid = 0;
                    for lane in lanes(mask) {
                        if layout.position(0, lane as u32 % 32, slot).is_some() {
                            valid |= 1 << lane;
                        }
                    }
                    self.slot = Some(slot);
                    // Locals of a map belong to an element: what is left of the last one must not be read.
                    self.block(body, valid);
                    self.slot = None;
                }
                self.control = first + count_structured(body);
                return mask;
            }
            Op::Break(depth) => {
                let at = self.targets.len() - 1 - *depth as usize;
                self.targets[at].broke |= mask;
                return 0;
            }
            Op::Continue(depth) => {
                let at = self.targets.len() - 1 - *depth as usize;
                self.targets[at].continued |= mask;
                return 0;
            }
            Op::Return => {
                self.returned |= mask;
                return 0;
            }
            Op::LocalSet { local, value } => {
                for lane in lanes(mask) {
                    let bits = self.get(*value, lane);
                    self.locals[local.index()][lane] = bits;
                    if let Some(info) = self.info {
                        self.cells.insert((*local, unit(info.local(*local), lane)), bits);
                    }
                }
            }
            Op::LocalGet(local) => {
                for lane in lanes(mask) {
                    let bits = self.locals[local.index()][lane];
                    self.values[inst.first.index()][lane] = bits;
                    if let Some(info) = self.info {
                        let cell = self.cells.get(&(*local, unit(info.local(*local), lane)));
                        assert_eq!(
                            cell.copied().unwrap_or(0),
                            bits,
                            "{local} has no one cell at {:?}\n{}",
                            info.local(*local),
                            self.kernel
                        );
                    }
                }
            }
            Op::Store { pointer, values, .. } => {
                for lane in lanes(mask) {
                    let mut at = self.get(*pointer, lane);
                    for value in values {
                        let size = self.kernel.ty(*value).scalar().map_or(8, Scalar::size) as usize;
                        let bits = self.get(*value, lane).to_le_bytes();
                        self.bytes(lane, at, size).copy_from_slice(&bits[..size]);
                        at += size as u64;
                    }
                }
            }
            Op::Load { pointer, ty, count, .. } => {
                let size = ty.scalar().map_or(8, Scalar::size) as usize;
                for lane in lanes(mask) {
                    let base = self.get(*pointer, lane);
                    for i in 0..*count {
                        let at = base + u64::from(i) * size as u64;
                        let mut bits = [0; 8];
                        bits[..size].copy_from_slice(self.bytes(lane, at, size));
                        let value = inst.first.index() + i as usize;
                        self.values[value][lane] = u64::from_le_bytes(bits);
                    }
                }
            }
            Op::Group { op, width, operand } => self.group(*op, *width, *operand, inst.first, mask),
            Op::Shuffle { op, operand, index, .. } => {
                for lane in lanes(mask) {
                    let base = lane / SIMD * SIMD;
                    let at = match op {
                        ShuffleOp::BroadcastFirst => (base..).find(|l| mask >> l & 1 != 0).unwrap_or(lane),
                        ShuffleOp::ShuffleXor => base + ((lane % SIMD) ^ (self.get(*index, lane) as usize % SIMD)),
                        _ => base + self.get(*index, lane) as usize % SIMD,
                    };
                    let at = if mask >> at & 1 != 0 { at } else { lane };
                    self.values[inst.first.index()][lane] = self.get(*operand, at);
                }
            }
            Op::Vote { op, operand, .. } => {
                for lane in lanes(mask) {
                    let base = lane / SIMD * SIMD;
                    let active: Vec<usize> = (base..base + SIMD).filter(|l| mask >> l & 1 != 0).collect();
                    let yes = |l: &usize| operand.is_some_and(|value| self.get(value, *l) != 0);
                    self.values[inst.first.index()][lane] = match op {
                        VoteOp::All => u64::from(active.iter().all(yes)),
                        VoteOp::Any => u64::from(active.iter().any(yes)),
                        VoteOp::Ballot => active.iter().filter(|l| yes(l)).map(|l| 1 << (l - base)).sum(),
                        VoteOp::ActiveMask => active.iter().map(|l| 1 << (l - base)).sum(),
                        VoteOp::IsFirst => u64::from(active[0] == lane),
                    };
                }
            }
            Op::CoopSet { coop, slot, value } => {
                for lane in lanes(mask) {
                    let slot = self.get(*slot, lane) as u32;
                    if self
                        .kernel
                        .coop(*coop)
                        .layout()
                        .position(0, lane as u32 % 32, slot)
                        .is_some()
                    {
                        let bits = self.get(*value, lane);
                        self.tiles[lane].insert((coop.0, slot), bits);
                    }
                }
            }
            Op::CoopElementSet { coop, value } => {
                let slot = self.slot.expect("in a map");
                for lane in lanes(mask) {
                    let bits = self.get(*value, lane);
                    self.tiles[lane].insert((coop.0, slot), bits);
                }
            }
            Op::CoopInit(coop) => {
                for lane in lanes(mask) {
                    self.tiles[lane].retain(|key, _| key.0 != coop.0);
                }
            }
            Op::Barrier { .. } => {}
            op => {
                for lane in lanes(mask) {
                    for (i, bits) in self.pure(op, lane, inst).into_iter().enumerate() {
                        self.values[inst.first.index() + i][lane] = bits;
                    }
                }
            }
        }
        mask
    }

    fn enter(&mut self, mask: Mask) -> usize {
        let control = self.control;
        self.control += 1;
        if let Some(info) = self.info {
            self.together(info.control[control].entry, mask, "entry");
        }
        control
    }

    /// Pointers are (object + 1) · 2³² + offset: object 0 is argument 0, 1 argument 1, 2 and up memory objects.
    fn bytes(&mut self, lane: usize, address: u64, size: usize) -> &mut [u8] {
        let (object, at) = ((address >> 32) as usize - 1, address as u32 as usize);
        let object = match object {
            0 => &mut self.own[lane],
            1 => &mut self.shared,
            n => &mut self.thread[lane][n - 2],
        };
        &mut object[at..at + size]
    }

    fn group(&mut self, op: GroupOp, width: GroupWidth, operand: ValueId, to: ValueId, mask: Mask) {
        let width = match width {
            GroupWidth::Simd => SIMD,
            GroupWidth::Quad => 4,
        };
        for base in (0..LANES).step_by(width) {
            let active: Vec<usize> = (base..base + width).filter(|l| mask >> l & 1 != 0).collect();
            let op = match op {
                GroupOp::Sum | GroupOp::PrefixInclusiveSum => BinaryOp::Add,
                GroupOp::Max => BinaryOp::Max,
                _ => BinaryOp::Min,
            };
            let Some((first, rest)) = active.split_first() else {
                continue;
            };
            let mut sum = self.constant(operand, *first);
            for lane in rest {
                let next = self.constant(operand, *lane);
                sum.bits = binary(op, sum, next);
            }
            for lane in active {
                self.values[to.index()][lane] = sum.bits;
            }
        }
    }

    fn pure(&mut self, op: &Op, lane: usize, inst: &anymetal_ir::Inst) -> Vec<u64> {
        let kernel = self.kernel;
        let one = |bits: u64| vec![bits];
        let bool = |value: bool| vec![u64::from(value)];
        match op {
            Op::Const(value) => one(value.bits),
            Op::Builtin(builtin) => one(match builtin {
                Builtin::ThreadPositionInGrid(0) => lane as u64,
                Builtin::ThreadIndexInThreadgroup => (lane % GROUP) as u64,
                Builtin::ThreadIndexInSimdgroup => (lane % SIMD) as u64,
                Builtin::SimdgroupIndexInThreadgroup => (lane % GROUP / SIMD) as u64,
                Builtin::ThreadgroupPositionInGrid(0) => (lane / GROUP) as u64,
                Builtin::ThreadsPerSimdgroup => 32,
                _ => 1,
            }),
            Op::Unary { op, operand, .. } => {
                let value = self.constant(*operand, lane);
                one(match (op, fold::unary(*op, value)) {
                    (_, Some(value)) if value.ty == Scalar::F32 => {
                        u64::from(canonical(f32::from_bits(value.bits as u32)).to_bits())
                    }
                    (_, Some(value)) => value.bits,
                    (UnaryOp::Sqrt, None) => fold::float_bits(value.ty, fold::to_float(value).sqrt()),
                    (op, None) => panic!("{op:?}"),
                })
            }
            Op::Binary { op, lhs, rhs, .. } => one(binary(*op, self.constant(*lhs, lane), self.constant(*rhs, lane))),
            Op::Ternary { op, a, b, c, .. } => {
                assert_eq!(*op, TernaryOp::Fma);
                let [a, b, c] = [a, b, c].map(|v| f32::from_bits(self.get(*v, lane) as u32));
                one(u64::from(canonical(a.mul_add(b, c)).to_bits()))
            }
            Op::Compare { op, lhs, rhs } => {
                let (a, b) = (self.constant(*lhs, lane), self.constant(*rhs, lane));
                bool(fold::compare(*op, a, b).expect("comparisons fold"))
            }
            Op::Select {
                condition,
                then,
                otherwise,
            } => one(if self.get(*condition, lane) != 0 {
                self.get(*then, lane)
            } else {
                self.get(*otherwise, lane)
            }),
            Op::Convert { operand, to, .. } => {
                let value = self.constant(*operand, lane);
                one(match fold::convert(value, *to) {
                    Some(value) => value.bits,
                    // 64-bit integers beyond 2⁵³ to f32.
                    None if value.ty.is_signed() => u64::from((value.bits as i64 as f32).to_bits()),
                    None => u64::from((value.bits as f32).to_bits()),
                })
            }
            Op::Bitcast { operand, .. } => one(self.get(*operand, lane)),
            Op::ArgumentPointer(id) => one((u64::from(id.0) + 1) << 32),
            Op::MemoryPointer(id) => one((u64::from(id.0) + 3) << 32),
            Op::PointerOffset { pointer, offset } => {
                one(self.get(*pointer, lane).wrapping_add(self.get(*offset, lane)))
            }
            Op::CoopGet { coop, slot } => {
                let slot = self.get(*slot, lane) as u32;
                one(self.tiles[lane].get(&(coop.0, slot)).copied().unwrap_or(0))
            }
            Op::CoopElement(coop) => {
                let slot = self.element_slot(*coop, lane);
                one(self.tiles[lane].get(&(coop.0, slot)).copied().unwrap_or(0))
            }
            Op::CoopValid { coop, slot } => {
                let slot = self.get(*slot, lane) as u32;
                bool(
                    kernel
                        .coop(*coop)
                        .layout()
                        .position(0, lane as u32 % 32, slot)
                        .is_some(),
                )
            }
            Op::CoopIndex { coop, slot } => {
                let slot = self.get(*slot, lane) as u32;
                self.index(*coop, slot, lane)
            }
            Op::CoopElementIndex => {
                let slot = self.slot.expect("in a map");
                let over = self.map_tile(inst.count);
                self.index(over, slot, lane)
            }
            Op::CoopMapSlot { to, from, slot } => {
                let slot = self.get(*slot, lane) as u32;
                one(u64::from(self.mapped(*to, *from, slot, lane)))
            }
            op => panic!("the interpreter does not know {op:?}"),
        }
    }

    fn map_tile(&self, count: u32) -> anymetal_ir::CoopId {
        // Tests use one shape of tiles, so any tile or reduction will do.
        let reduction = count == 1;
        let at = self
            .kernel
            .cooperatives
            .iter()
            .position(|coop| (coop.rows == 1 || coop.columns == 1) == reduction);
        anymetal_ir::CoopId(at.expect("a tile") as u32)
    }

    fn index(&self, coop: anymetal_ir::CoopId, slot: u32, lane: usize) -> Vec<u64> {
        let tile = self.kernel.coop(coop);
        let (row, column) = tile.layout().position(0, lane as u32 % 32, slot).unwrap_or((0, 0));
        if tile.columns == 1 {
            vec![u64::from(row)]
        } else if tile.rows == 1 {
            vec![u64::from(column)]
        } else {
            vec![u64::from(column), u64::from(row)]
        }
    }

    /// The slot of a reduction tensor that holds the row or column of an element.
    fn mapped(&self, to: anymetal_ir::CoopId, from: anymetal_ir::CoopId, slot: u32, lane: usize) -> u32 {
        let lane = lane as u32 % 32;
        let (to, from) = (self.kernel.coop(to), self.kernel.coop(from));
        let Some((row, column)) = from.layout().position(0, lane, slot) else {
            return 0;
        };
        let wanted = if to.columns == 1 { (row, 0) } else { (0, column) };
        (0..to.capacity())
            .find(|slot| to.layout().position(0, lane, *slot) == Some(wanted))
            .expect("a reduction has a slot for every element of the lane")
    }

    fn element_slot(&self, coop: anymetal_ir::CoopId, lane: usize) -> u32 {
        let slot = self.slot.expect("in a map");
        let tile = self.kernel.coop(coop);
        // Tests map over tiles only, not over reductions.
        if tile.rows == 1 || tile.columns == 1 {
            self.mapped(coop, self.map_tile(2), slot, lane)
        } else {
            slot
        }
    }
}

fn canonical(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}

fn binary(op: BinaryOp, a: Const, b: Const) -> u64 {
    if a.ty == Scalar::F32 {
        let (x, y) = (f32::from_bits(a.bits as u32), f32::from_bits(b.bits as u32));
        let value = match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            BinaryOp::Min => x.min(y),
            BinaryOp::Max => x.max(y),
            op => panic!("{op:?}"),
        };
        return u64::from(canonical(value).to_bits());
    }
    match (op, fold::binary(op, a, b)) {
        (_, Some(value)) => value.bits,
        (BinaryOp::Div | BinaryOp::Rem, None) => 0,
        (op, None) => panic!("{op:?} {a:?} {b:?}"),
    }
}

/// The type of a value, for generators.
#[allow(dead_code)]
pub fn scalar(kernel: &Kernel, value: ValueId) -> Scalar {
    match kernel.ty(value) {
        Type::Scalar(scalar) => scalar,
        Type::Pointer(_) => Scalar::U64,
    }
}
