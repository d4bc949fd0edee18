//! SIMD-group and quad-group functions, barriers and fences.
//!
//! Lanes are named as the kernel sees them, and translated where an instruction wants hardware lanes. Which lanes take part is the
//! matter of [`control`](super::control). Reductions of 32-bit integers are one instruction for any set of lanes; others are butterflies
//! where all 32 lanes take part, and a walk over the lanes that do in the rare other case.

use anymetal_ir::{BinaryOp, GroupOp, GroupWidth, MemFlags, Scalar, Scope, ShuffleOp, ValueId, VoteOp};

use super::{Lower, Result};
use crate::ptx::{Class, Reg};
use crate::{emit, ptx};

/// Stands in the text for the barrier of a threadgroup, which counts threads if the backend has some of its own.
pub(crate) const BARRIER: &str = "THREADGROUP_BARRIER";
/// The same where lanes of a SIMD-group may come apart.
pub(crate) const BARRIER_APART: &str = "THREADGROUP_APART_BARRIER";

impl Lower<'_> {
    pub fn barrier(&mut self, scope: Scope, flags: MemFlags) -> Result {
        match scope {
            Scope::Simdgroup => {
                let mask = self.member_mask();
                ptx!(self, "bar.warp.sync {mask}");
                if flags.device {
                    ptx!(self, "membar.cta");
                }
            }
            // Orders shared and device memory among the threads that meet, whatever the flags say.
            Scope::Threadgroup if self.control.apart() => ptx!(self, "{BARRIER_APART}"),
            Scope::Threadgroup => ptx!(self, "{BARRIER}"),
        }
        Ok(())
    }

    pub fn fence(&mut self, flags: MemFlags) -> Result {
        if flags.device || flags.texture {
            ptx!(self, "membar.gl");
        } else if flags.threadgroup {
            ptx!(self, "membar.cta");
        }
        Ok(())
    }

    /// The value of a register in another hardware lane. All lanes that are here take part.
    pub fn shuffle_register(&mut self, value: Reg, hardware_lane: impl std::fmt::Display) -> Reg {
        let mask = self.member_mask();
        let word = |lower: &mut Self, word: Reg| emit!(lower, B32, "shfl.sync.idx.b32", word, hardware_lane, 31, mask);
        match value.class {
            Class::Pred => {
                let bits = self.pred_to_u32(value);
                let bits = word(self, bits);
                emit!(self, Pred, "setp.ne.b32", bits, 0)
            }
            Class::B16 => {
                let bits = self.float_bits(value);
                let bits = word(self, bits);
                emit!(self, B16, "cvt.u16.u32", bits)
            }
            Class::B32 => word(self, value),
            Class::F32 => {
                let bits = self.float_bits(value);
                let bits = word(self, bits);
                emit!(self, F32, "mov.b32", bits)
            }
            Class::B64 => {
                let (low, high) = (self.reg(Class::B32), self.reg(Class::B32));
                ptx!(self, "mov.b64 {{{low}, {high}}}, {value}");
                let (low, high) = (word(self, low), word(self, high));
                emit!(self, B64, "mov.b64", format!("{{{low}, {high}}}"))
            }
        }
    }

    /// True in all lanes if all 32 lanes of the SIMD-group are here.
    fn all_here(&mut self) -> Reg {
        if self.never_partial() {
            return emit!(self, Pred, "setp.eq.b32", 0, 0);
        }
        match self.active_mask() {
            Some(mask) => emit!(self, Pred, "setp.eq.b32", mask, -1),
            None => emit!(self, Pred, "setp.eq.u32", self.live_lanes(), 32),
        }
    }

    /// True if it is known that all lanes of all SIMD-groups run all SIMD-group functions.
    fn never_partial(&self) -> bool {
        self.active_mask().is_none() && self.has_whole_simdgroups()
    }

    /// The lanes that are here, in hardware order.
    fn present(&mut self) -> Reg {
        match self.active_mask() {
            Some(mask) => mask,
            None => {
                let all = emit!(self, Pred, "setp.eq.b32", 0, 0);
                emit!(self, B32, "vote.sync.ballot.b32", all, "0xffffffff")
            }
        }
    }

    /// A mask of hardware lanes as one of the kernel's lanes.
    fn virtual_mask(&mut self, mask: Reg) -> Reg {
        if !self.permuted_lanes {
            return mask;
        }
        // Lane bits (3, 2, 1) hold (b2, b1, b3): two exchanges of index bits put them in order.
        let mut x = mask;
        for (distance, chosen) in [(6, 0x00cc_00ccu32), (2, 0x0c0c_0c0c)] {
            let shifted = emit!(self, B32, "shr.u32", x, distance);
            let difference = emit!(self, B32, "and.b32", emit!(self, B32, "xor.b32", shifted, x), chosen);
            let back = emit!(self, B32, "shl.b32", difference, distance);
            x = emit!(self, B32, "xor.b32", emit!(self, B32, "xor.b32", x, difference), back);
        }
        x
    }

    /// Position of the lowest set bit.
    fn lowest_bit(&mut self, mask: Reg) -> Reg {
        emit!(self, B32, "clz.b32", emit!(self, B32, "brev.b32", mask))
    }

    /// The first lane of this lane's quad-group, as the kernel counts.
    fn quad_start(&mut self) -> Reg {
        emit!(self, B32, "and.b32", self.geometry.lane, 28)
    }

    /// The four lanes of this lane's quad-group in the low bits of a mask of the kernel's lanes.
    fn quad_bits(&mut self, mask: Reg) -> Reg {
        let start = self.quad_start();
        emit!(self, B32, "and.b32", emit!(self, B32, "shr.u32", mask, start), 15)
    }

    pub fn group(&mut self, to: ValueId, op: GroupOp, width: GroupWidth, operand: ValueId) -> Result {
        let ty = self.scalar(operand);
        let value = self.value(operand);
        let result = match (width, scan_of(op)) {
            (GroupWidth::Simd, None) => match self.one_instruction(op, ty, value) {
                Some(result) => result,
                None => self.reduce_group(op, ty, value)?,
            },
            (GroupWidth::Simd, Some(exclusive)) => self.scan_group(op, ty, value, exclusive)?,
            (GroupWidth::Quad, scan) => self.quad_group(op, ty, value, scan)?,
        };
        self.bind(to, result);
        Ok(())
    }

    /// Reductions that the hardware does for any set of lanes.
    fn one_instruction(&mut self, op: GroupOp, ty: Scalar, value: Reg) -> Option<Reg> {
        let mask = self.member_mask();
        if ty == Scalar::Bool {
            return Some(match op {
                GroupOp::Sum | GroupOp::Or | GroupOp::Max => emit!(self, Pred, "vote.sync.any.pred", value, mask),
                GroupOp::Product | GroupOp::And | GroupOp::Min => emit!(self, Pred, "vote.sync.all.pred", value, mask),
                _ => {
                    let ballot = emit!(self, B32, "vote.sync.ballot.b32", value, mask);
                    let odd = emit!(self, B32, "and.b32", emit!(self, B32, "popc.b32", ballot), 1);
                    emit!(self, Pred, "setp.ne.b32", odd, 0)
                }
            });
        }
        if value.class != Class::B32 {
            return None;
        }
        let s = if ty.is_signed() { "s32" } else { "u32" };
        let name = match op {
            GroupOp::Sum => format!("redux.sync.add.{s}"),
            GroupOp::Min => format!("redux.sync.min.{s}"),
            GroupOp::Max => format!("redux.sync.max.{s}"),
            GroupOp::And => "redux.sync.and.b32".into(),
            GroupOp::Or => "redux.sync.or.b32".into(),
            GroupOp::Xor => "redux.sync.xor.b32".into(),
            _ => return None,
        };
        let result = emit!(self, B32, &name, value, mask);
        Some(if op == GroupOp::Sum {
            self.normalise(result, ty)
        } else {
            result
        })
    }

    fn combine_in_group(&mut self, op: GroupOp, ty: Scalar, a: Reg, b: Reg) -> Result<Reg> {
        self.arithmetic(binary_of(op), ty, a, b)
    }

    /// `mov` into a register that exists.
    fn assign(&mut self, to: Reg, from: Reg) {
        ptx!(self, "mov.{} {to}, {from}", to.class.ptx());
    }

    /// A reduction over the lanes that are here.
    fn reduce_group(&mut self, op: GroupOp, ty: Scalar, value: Reg) -> Result<Reg> {
        let result = self.reg(value.class);
        let (some, done) = (self.writer.label(), self.writer.label());
        let all = self.all_here();
        ptx!(self, "@!{all} bra.uni {some}");
        let mut total = value;
        for distance in [16, 8, 4, 2, 1] {
            let other = self.butterfly(total, distance);
            total = self.combine_in_group(op, ty, total, other)?;
        }
        self.assign(result, total);
        self.writer.place(done);

        let body = self.writer.begin_aside();
        self.writer.place(some);
        let present = self.present();
        let rest = self.copy(present);
        let first = self.lowest_bit(rest);
        let start = self.shuffle_register(value, first);
        self.assign(result, start);
        let head = self.writer.label();
        self.writer.place(head);
        let less = emit!(self, B32, "sub.s32", rest, 1);
        ptx!(self, "and.b32 {rest}, {rest}, {less}");
        let none = emit!(self, Pred, "setp.eq.b32", rest, 0);
        ptx!(self, "@{none} bra.uni {done}");
        let lane = self.lowest_bit(rest);
        let other = self.shuffle_register(value, lane);
        let total = self.combine_in_group(op, ty, result, other)?;
        self.assign(result, total);
        ptx!(self, "bra.uni {head}");
        self.writer.end_aside(body);
        Ok(result)
    }

    /// The value of the hardware lane whose number differs in these bits; all lanes are here.
    fn butterfly(&mut self, value: Reg, distance: u32) -> Reg {
        match value.class {
            Class::F32 | Class::B32 => {
                let to = self.reg(value.class);
                let mask = self.member_mask();
                ptx!(self, "shfl.sync.bfly.b32 {to}, {value}, {distance}, 31, {mask}");
                to
            }
            _ => {
                let lane = emit!(self, B32, "xor.b32", self.geometry.hardware_lane, distance);
                self.shuffle_register(value, lane)
            }
        }
    }

    /// A running combination over the lanes that are here, in the kernel's order.
    fn scan_group(&mut self, op: GroupOp, ty: Scalar, value: Reg, exclusive: bool) -> Result<Reg> {
        let own = self.geometry.lane;
        let result = self.reg(value.class);
        let (some, done) = (self.writer.label(), self.writer.label());
        let all = self.all_here();
        ptx!(self, "@!{all} bra.uni {some}");
        let mut total = value;
        for distance in [1, 2, 4, 8, 16] {
            let lane = emit!(self, B32, "sub.s32", own, distance);
            let before = self.hardware_lane_of(lane);
            let other = self.shuffle_register(total, before);
            let sum = self.combine_in_group(op, ty, other, total)?;
            let has = emit!(self, Pred, "setp.ge.u32", own, distance);
            total = self.select_registers(has, sum, total);
        }
        if exclusive {
            let lane = emit!(self, B32, "sub.s32", own, 1);
            let before = self.hardware_lane_of(lane);
            let other = self.shuffle_register(total, before);
            let start = self.group_identity(op, ty);
            let has = emit!(self, Pred, "setp.ne.b32", own, 0);
            total = self.select_registers(has, other, start);
        }
        self.assign(result, total);
        self.writer.place(done);

        let body = self.writer.begin_aside();
        self.writer.place(some);
        let present = self.present();
        let present = self.virtual_mask(present);
        let rest = self.copy(present);
        let start = self.group_identity(op, ty);
        let running = self.copy(start);
        self.assign(result, start);
        let head = self.writer.label();
        self.writer.place(head);
        let lane = self.lowest_bit(rest);
        let from = self.hardware_lane_of(lane);
        let other = self.shuffle_register(value, from);
        let next = self.combine_in_group(op, ty, running, other)?;
        let mine = emit!(self, Pred, "setp.eq.b32", lane, own);
        let here = if exclusive { running } else { next };
        let kept = self.select_registers(mine, here, result);
        self.assign(result, kept);
        self.assign(running, next);
        let less = emit!(self, B32, "sub.s32", rest, 1);
        ptx!(self, "and.b32 {rest}, {rest}, {less}");
        let more = emit!(self, Pred, "setp.ne.b32", rest, 0);
        ptx!(self, "@{more} bra.uni {head}");
        ptx!(self, "bra.uni {done}");
        self.writer.end_aside(body);
        Ok(result)
    }

    /// Reductions and scans over the four lanes of a quad-group.
    fn quad_group(&mut self, op: GroupOp, ty: Scalar, value: Reg, scan: Option<bool>) -> Result<Reg> {
        let present = self.present();
        let present = self.virtual_mask(present);
        let bits = self.quad_bits(present);
        let start = self.quad_start();
        let own = emit!(self, B32, "and.b32", self.geometry.lane, 3);
        let mut running = self.group_identity(op, ty);
        let mut result = running;
        for i in 0..4 {
            let lane = emit!(self, B32, "or.b32", start, i);
            let from = self.hardware_lane_of(lane);
            let other = self.shuffle_register(value, from);
            let bit = emit!(self, B32, "and.b32", bits, 1 << i);
            let takes_part = emit!(self, Pred, "setp.ne.b32", bit, 0);
            let next = self.combine_in_group(op, ty, running, other)?;
            let next = self.select_registers(takes_part, next, running);
            if let Some(exclusive) = scan {
                let mine = emit!(self, Pred, "setp.eq.b32", own, i);
                let here = if exclusive { running } else { next };
                result = self.select_registers(mine, here, result);
            }
            running = next;
        }
        Ok(if scan.is_some() { result } else { running })
    }

    /// What a reduction or a scan begins with: combining it with a value gives the value.
    fn group_identity(&mut self, op: GroupOp, ty: Scalar) -> Reg {
        let low = 1u64 << (ty.bits() - 1);
        let ones = u64::MAX >> (64 - ty.bits());
        let bits = match (binary_of(op), ty) {
            // Minus zero leaves every number as it is.
            (BinaryOp::Add, Scalar::F16 | Scalar::BF16 | Scalar::F32) if scan_of(op).is_none() => low,
            (BinaryOp::Mul, Scalar::F16) => 0x3c00,
            (BinaryOp::Mul, Scalar::BF16) => 0x3f80,
            (BinaryOp::Mul, Scalar::F32) => 0x3f80_0000,
            (BinaryOp::Mul, _) => 1,
            // NaN gives way to every number in `min` and `max`.
            (BinaryOp::Min | BinaryOp::Max, Scalar::F16) => 0x7e00,
            (BinaryOp::Min | BinaryOp::Max, Scalar::BF16) => 0x7fc0,
            (BinaryOp::Min | BinaryOp::Max, Scalar::F32) => 0x7fc0_0000,
            (BinaryOp::Min, ty) if ty.is_signed() => low - 1,
            (BinaryOp::Max, ty) if ty.is_signed() => low,
            (BinaryOp::Min | BinaryOp::And, _) => ones,
            _ => 0,
        };
        self.constant_register(ty, bits)
    }

    pub fn shuffle(
        &mut self,
        to: ValueId,
        op: ShuffleOp,
        width: GroupWidth,
        operand: ValueId,
        index: ValueId,
    ) -> Result {
        let value = self.value(operand);
        let own_lane = self.geometry.lane;
        let (start, own, span) = match width {
            GroupWidth::Simd => (None, own_lane, 32),
            GroupWidth::Quad => (Some(self.quad_start()), emit!(self, B32, "and.b32", own_lane, 3), 4u32),
        };
        let by = self.value(index);
        let by = if by.class == Class::B64 {
            emit!(self, B32, "cvt.u32.u64", by)
        } else {
            by
        };
        let source = match op {
            ShuffleOp::Shuffle | ShuffleOp::Broadcast => by,
            ShuffleOp::ShuffleXor => emit!(self, B32, "xor.b32", own, by),
            ShuffleOp::ShuffleDown | ShuffleOp::ShuffleUp => {
                // Far steps stay outside instead of wrapping around.
                let by = if self.constant(index).is_some_and(|by| by < 64) {
                    by
                } else if self.scalar(index).is_signed() {
                    emit!(self, B32, "max.s32", emit!(self, B32, "min.s32", by, 64), -64)
                } else {
                    emit!(self, B32, "min.u32", by, 64)
                };
                let name = if op == ShuffleOp::ShuffleDown {
                    "add.s32"
                } else {
                    "sub.s32"
                };
                emit!(self, B32, name, own, by)
            }
            ShuffleOp::RotateDown | ShuffleOp::RotateUp => {
                let name = if op == ShuffleOp::RotateDown {
                    "add.s32"
                } else {
                    "sub.s32"
                };
                emit!(self, B32, "and.b32", emit!(self, B32, name, own, by), span - 1)
            }
            ShuffleOp::BroadcastFirst => {
                let present = self.present();
                let mut mask = self.virtual_mask(present);
                if start.is_some() {
                    mask = self.quad_bits(mask);
                }
                self.lowest_bit(mask)
            }
        };
        // A lane that does not exist gives the reader its own value.
        let (lane, exists) = match start {
            Some(start) => {
                let inside = emit!(self, Pred, "setp.lt.u32", source, span);
                let lane = emit!(self, B32, "add.s32", start, source);
                (
                    lane,
                    emit!(self, Pred, "setp.lt.and.u32", lane, self.live_lanes(), inside),
                )
            }
            None => (source, emit!(self, Pred, "setp.lt.u32", source, self.live_lanes())),
        };
        let lane = emit!(self, B32, "selp.b32", lane, own_lane, exists);
        let lane = self.hardware_lane_of(lane);
        let result = self.shuffle_register(value, lane);
        self.bind(to, result);
        Ok(())
    }

    pub fn vote(&mut self, to: ValueId, op: VoteOp, width: GroupWidth, operand: Option<ValueId>) -> Result {
        let mask = self.member_mask();
        let vote = match operand {
            Some(operand) => self.value(operand),
            None => emit!(self, Pred, "setp.eq.b32", 0, 0),
        };
        let quad = width == GroupWidth::Quad;
        let result = match op {
            VoteOp::All if !quad => emit!(self, Pred, "vote.sync.all.pred", vote, mask),
            VoteOp::Any if !quad => emit!(self, Pred, "vote.sync.any.pred", vote, mask),
            _ => {
                let question = if matches!(op, VoteOp::ActiveMask | VoteOp::IsFirst) {
                    emit!(self, Pred, "setp.eq.b32", 0, 0)
                } else if op == VoteOp::All {
                    // No lane says no.
                    emit!(self, Pred, "not.pred", vote)
                } else {
                    vote
                };
                let ballot = emit!(self, B32, "vote.sync.ballot.b32", question, mask);
                let mut ballot = self.virtual_mask(ballot);
                if quad {
                    ballot = self.quad_bits(ballot);
                }
                match op {
                    VoteOp::All => emit!(self, Pred, "setp.eq.b32", ballot, 0),
                    VoteOp::Any => emit!(self, Pred, "setp.ne.b32", ballot, 0),
                    VoteOp::IsFirst => {
                        let first = self.lowest_bit(ballot);
                        let own = if quad {
                            emit!(self, B32, "and.b32", self.geometry.lane, 3)
                        } else {
                            self.geometry.lane
                        };
                        emit!(self, Pred, "setp.eq.b32", first, own)
                    }
                    VoteOp::Ballot | VoteOp::ActiveMask => emit!(self, B64, "cvt.u64.u32", ballot),
                }
            }
        };
        self.bind(to, result);
        Ok(())
    }
}

/// For a scan: whether it excludes the lane itself.
const fn scan_of(op: GroupOp) -> Option<bool> {
    match op {
        GroupOp::PrefixInclusiveSum | GroupOp::PrefixInclusiveProduct => Some(false),
        GroupOp::PrefixExclusiveSum | GroupOp::PrefixExclusiveProduct => Some(true),
        _ => None,
    }
}

/// What combines two lanes.
const fn binary_of(op: GroupOp) -> BinaryOp {
    match op {
        GroupOp::Sum | GroupOp::PrefixInclusiveSum | GroupOp::PrefixExclusiveSum => BinaryOp::Add,
        GroupOp::Product | GroupOp::PrefixInclusiveProduct | GroupOp::PrefixExclusiveProduct => BinaryOp::Mul,
        GroupOp::Min => BinaryOp::Min,
        GroupOp::Max => BinaryOp::Max,
        GroupOp::And => BinaryOp::And,
        GroupOp::Or => BinaryOp::Or,
        GroupOp::Xor => BinaryOp::Xor,
    }
}
