//! The inner engine: a pipeline of stages in shared memory and the warpgroup instructions that read them.

use super::plan::{ATOM_BYTES, Input, LINE, Plan, Side, WGMMA_ROWS};
use crate::ptx::{Class, Reg, Writer};

/// An operand in device memory as the engine wants it. All registers hold the same value in the whole threadgroup.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// `.b64`: address of the tile's first element.
    pub address: Reg,
    /// `.b64`: bytes between neighbours in the dimension that does not run along memory.
    pub pitch: Reg,
    /// `.b32`: rows (columns) that exist from there on, at least 1.
    pub rows: Reg,
    /// `.b32`: elements along K that exist.
    pub depth: Reg,
}

/// Emits a product.
pub struct Engine<'w> {
    /// Where the text goes.
    pub writer: &'w mut Writer,
    /// What is made.
    pub plan: Plan,
    /// `.b32`: shared address of the staging area, a multiple of 1024.
    pub shared: Reg,
    /// `.b32`: linear thread index.
    pub thread: Reg,
    /// `.b32`: warp index, known by the hardware to be the same in the warp.
    pub warp: Reg,
}

macro_rules! put {
    ($engine:expr, $($format:tt)*) => {
        $engine.writer.line(format_args!($($format)*))
    };
}
pub(super) use put;

/// The constant part of a `wgmma` descriptor: 128-byte swizzle, offsets of neighbouring atoms.
///
/// Along K only the stride between groups of eight lines counts. Across K, that is the stride between eight steps of K, and the leading
/// offset leads to the next 64 rows (columns).
fn descriptor_bits(plan: &Plan, side: Side) -> u64 {
    let stride = u64::from(ATOM_BYTES >> 4);
    let leading = if plan.along_k(side) {
        1
    } else {
        u64::from(plan.step() * LINE) >> 4
    };
    (1 << 62) | (stride << 32) | (leading << 16)
}

impl Engine<'_> {
    pub(super) fn r(&mut self) -> Reg {
        self.writer.reg(Class::B32)
    }

    pub(super) fn d(&mut self) -> Reg {
        self.writer.reg(Class::B64)
    }

    pub(super) fn p(&mut self) -> Reg {
        self.writer.reg(Class::Pred)
    }

    /// All threads of the threadgroup wait.
    pub fn barrier(&mut self) {
        put!(self, "bar.sync 0, {}", self.plan.threads());
    }

    /// `steps = ceil(depth / step)`.
    pub(super) fn steps(&mut self, depth: Reg) -> Reg {
        let (steps, step) = (self.r(), self.plan.step());
        put!(self, "add.u32 {steps}, {depth}, {}", step - 1);
        put!(self, "shr.u32 {steps}, {steps}, {}", step.trailing_zeros());
        steps
    }

    /// The descriptor of an operand of stage 0 for this warpgroup.
    pub(super) fn descriptor(&mut self, side: Side) -> Reg {
        let (start, descriptor) = (self.r(), self.d());
        put!(self, "add.u32 {start}, {}, {}", self.shared, self.plan.offset(side));
        if side == Side::Left && self.plan.groups() > 1 {
            let group = self.r();
            put!(self, "shr.u32 {group}, {}, 2", self.warp);
            put!(
                self,
                "mad.lo.u32 {start}, {group}, {}, {start}",
                self.plan.blocks() * self.block_bytes()
            );
        }
        put!(self, "shr.u32 {start}, {start}, 4");
        put!(self, "cvt.u64.u32 {descriptor}, {start}");
        put!(
            self,
            "or.b64 {descriptor}, {descriptor}, 0x{:x}",
            descriptor_bits(&self.plan, side)
        );
        descriptor
    }

    /// Bytes from one 64-row block of the left operand to the next.
    const fn block_bytes(&self) -> u32 {
        if self.plan.left_along_k {
            WGMMA_ROWS * LINE
        } else {
            self.plan.step() * LINE
        }
    }

    /// Issues the products of one stage, whose descriptors are in registers, as one group. Without `keep` what the sums held is dropped.
    pub(super) fn multiply_stage(&mut self, left: Reg, right: Reg, sums: &[Reg], keep: bool) {
        let plan = self.plan;
        // 32 bytes of K an instruction: along lines, or 16 lines further.
        let advance = |side: Side| if plan.along_k(side) { 32 >> 4 } else { LINE };
        let per_block = (plan.n / 2) as usize;
        put!(self, "wgmma.fence.sync.aligned");
        for k in 0..LINE / 32 {
            let b = self.d();
            put!(self, "add.u64 {b}, {right}, {}", k * advance(Side::Right));
            for block in 0..plan.blocks() {
                let a = self.d();
                let offset = k * advance(Side::Left) + block * (self.block_bytes() >> 4);
                put!(self, "add.u64 {a}, {left}, {offset}");
                let at = block as usize * per_block;
                self.wgmma(&sums[at..at + per_block], &a.to_string(), b, keep || k > 0);
            }
        }
        put!(self, "wgmma.commit_group.sync.aligned");
    }

    /// One warpgroup instruction. `left` is a descriptor or a list of registers.
    pub(super) fn wgmma(&mut self, sums: &[Reg], left: &str, right: Reg, keep: bool) {
        let plan = self.plan;
        let (input, k) = (plan.input.ptx(), 32 / plan.input.bytes());
        let list = sums.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        let transposes = if plan.input == Input::E4M3 {
            String::new()
        } else if left.starts_with('{') {
            format!(", {}", u32::from(!plan.right_along_k))
        } else {
            format!(
                ", {}, {}",
                u32::from(!plan.left_along_k),
                u32::from(!plan.right_along_k)
            )
        };
        put!(
            self,
            "wgmma.mma_async.sync.aligned.m64n{}k{k}.f32.{input}.{input} {{{list}}}, {left}, {right}, {}, 1, 1{transposes}",
            plan.n,
            u32::from(keep)
        );
    }

    /// Waits until at most `pending` groups of products are under way.
    pub(super) fn wait_products(&mut self, pending: u32) {
        put!(self, "wgmma.wait_group.sync.aligned {pending}");
    }
}
