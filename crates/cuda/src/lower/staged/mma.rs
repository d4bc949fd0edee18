//! Products of stages by `mma.sync`, each warp for itself, fragments by `ldmatrix`.

use super::engine::{Engine, put};
use super::plan::{LINE, Plan, Side, Unit};
use crate::ptx::Reg;

/// What a warp needs to multiply stages.
pub(super) enum Multiplier {
    /// Descriptors of stage 0.
    Warpgroup { left: Reg, right: Reg },
    /// Shared addresses of this lane's matrix rows in stage 0.
    Warp { left: Rows, right: Rows },
}

/// Where a lane's rows for `ldmatrix` lie. Along K: one register for each 16 of K, and 16 rows more are 16 lines more. Otherwise: one register for
/// each 16 rows, and 16 of K more are 16 lines more.
pub(super) struct Rows {
    along_k: bool,
    registers: Vec<Reg>,
}

impl Rows {
    /// Register and offset for 16 rows (columns) and 16 of K.
    fn at(&self, block: u32, k: u32) -> (Reg, u32) {
        if self.along_k {
            (self.registers[k as usize], block * 16 * LINE)
        } else {
            (self.registers[block as usize], k * 16 * LINE)
        }
    }
}

/// Steps of 16 along K in a stage.
const fn k_steps(plan: &Plan) -> u32 {
    plan.step() / 16
}

impl Engine<'_> {
    /// Prepares the addresses that every stage shares.
    pub(super) fn multiplier(&mut self) -> Multiplier {
        if self.plan.unit == Unit::Warpgroup {
            let left = self.descriptor(Side::Left);
            let right = self.descriptor(Side::Right);
            return Multiplier::Warpgroup { left, right };
        }
        Multiplier::Warp {
            left: self.rows(Side::Left),
            right: self.rows(Side::Right),
        }
    }

    fn rows(&mut self, side: Side) -> Rows {
        let plan = self.plan;
        let along_k = plan.along_k(side);
        let columns = plan.column_warps();
        let (first, lane, low, bit3, bit4) = (self.r(), self.r(), self.r(), self.r(), self.r());
        let blocks = match side {
            Side::Left => {
                put!(self, "div.u32 {first}, {}, {columns}", self.warp);
                put!(self, "mul.lo.u32 {first}, {first}, {}", 16 * plan.blocks());
                plan.blocks()
            }
            Side::Right => {
                put!(self, "rem.u32 {first}, {}, {columns}", self.warp);
                put!(self, "mul.lo.u32 {first}, {first}, {}", plan.warp_columns());
                plan.warp_columns() / 16
            }
        };
        put!(self, "and.b32 {lane}, {}, 31", self.thread);
        put!(self, "and.b32 {low}, {lane}, 7");
        put!(self, "bfe.u32 {bit3}, {lane}, 3, 1");
        put!(self, "bfe.u32 {bit4}, {lane}, 4, 1");
        // Of the four 8 × 8 matrices, which bit chooses the upper eight rows (columns) and which the upper eight of K: the left operand's
        // registers go by rows first, the right one's by K first.
        let (upper_row, upper_k) = match side {
            Side::Left => (bit3, bit4),
            Side::Right => (bit4, bit3),
        };
        let base = self.r();
        put!(self, "add.u32 {base}, {}, {}", self.shared, plan.offset(side));
        let mut registers = Vec::new();
        if along_k {
            let line = self.r();
            put!(self, "mad.lo.u32 {line}, {upper_row}, 8, {first}");
            put!(self, "add.u32 {line}, {line}, {low}");
            put!(self, "mad.lo.u32 {base}, {line}, {LINE}, {base}");
            for k in 0..k_steps(&plan) {
                let (chunk, register) = (self.r(), self.r());
                put!(self, "add.u32 {chunk}, {upper_k}, {}", 2 * k);
                put!(self, "xor.b32 {chunk}, {chunk}, {low}");
                put!(self, "mad.lo.u32 {register}, {chunk}, 16, {base}");
                registers.push(register);
            }
        } else {
            let line = self.r();
            put!(self, "mad.lo.u32 {line}, {upper_k}, 8, {low}");
            put!(self, "mad.lo.u32 {base}, {line}, {LINE}, {base}");
            for block in 0..blocks {
                let (row, chunk, register) = (self.r(), self.r(), self.r());
                put!(self, "add.u32 {row}, {first}, {}", 16 * block);
                put!(self, "bfe.u32 {chunk}, {row}, 3, 3");
                put!(self, "add.u32 {chunk}, {chunk}, {upper_row}");
                put!(self, "xor.b32 {chunk}, {chunk}, {low}");
                put!(self, "mad.lo.u32 {register}, {chunk}, 16, {base}");
                put!(self, "shr.u32 {row}, {row}, 6");
                put!(self, "mad.lo.u32 {register}, {row}, {}, {register}", plan.step() * LINE);
                registers.push(register);
            }
        }
        Rows { along_k, registers }
    }

    /// Multiplies a stage, whose index is in a register. By warpgroups, the products are under way after this.
    pub(super) fn multiply(&mut self, multiplier: &Multiplier, stage: Reg, sums: &[Reg]) {
        let plan = self.plan;
        match multiplier {
            Multiplier::Warpgroup { left, right } => {
                let (offset, wide, a, b) = (self.r(), self.d(), self.d(), self.d());
                put!(self, "mul.lo.u32 {offset}, {stage}, {}", plan.stage_bytes() >> 4);
                put!(self, "cvt.u64.u32 {wide}, {offset}");
                put!(self, "add.u64 {a}, {left}, {wide}");
                put!(self, "add.u64 {b}, {right}, {wide}");
                self.multiply_stage(a, b, sums, !plan.promotes());
            }
            Multiplier::Warp { left, right } => {
                let offset = self.r();
                put!(self, "mul.lo.u32 {offset}, {stage}, {}", plan.stage_bytes());
                let left = self.moved(left, offset);
                let right = self.moved(right, offset);
                self.multiply_by_warps(&left, &right, sums);
            }
        }
    }

    fn moved(&mut self, rows: &Rows, offset: Reg) -> Rows {
        let registers = rows.registers.iter().map(|register| {
            let moved = self.r();
            put!(self, "add.u32 {moved}, {register}, {offset}");
            moved
        });
        Rows {
            along_k: rows.along_k,
            registers: registers.collect(),
        }
    }

    fn multiply_by_warps(&mut self, left: &Rows, right: &Rows, sums: &[Reg]) {
        let plan = self.plan;
        let pairs = plan.warp_columns() / 16;
        let input = plan.input.ptx();
        for k in 0..k_steps(&plan) {
            let a: Vec<[Reg; 4]> = (0..plan.blocks())
                .map(|block| self.load_matrices(left, block, k))
                .collect();
            for pair in 0..pairs {
                let b = self.load_matrices(right, pair, k);
                for (block, a) in a.iter().enumerate() {
                    for half in 0..2 {
                        let at = (block * 2 * pairs as usize + 2 * pair as usize + half) * 4;
                        let d = sums[at..at + 4]
                            .iter()
                            .map(Reg::to_string)
                            .collect::<Vec<_>>()
                            .join(", ");
                        put!(
                            self,
                            "mma.sync.aligned.m16n8k16.row.col.f32.{input}.{input}.f32 {{{d}}}, {{{}, {}, {}, {}}}, {{{}, {}}}, {{{d}}}",
                            a[0],
                            a[1],
                            a[2],
                            a[3],
                            b[2 * half],
                            b[2 * half + 1]
                        );
                    }
                }
            }
        }
    }

    /// Four 8 × 8 matrices: 16 rows (columns) by 16 of K.
    fn load_matrices(&mut self, rows: &Rows, block: u32, k: u32) -> [Reg; 4] {
        let (address, offset) = rows.at(block, k);
        let to = [self.r(), self.r(), self.r(), self.r()];
        let transposed = if rows.along_k { "" } else { ".trans" };
        put!(
            self,
            "ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 {{{}, {}, {}, {}}}, [{address}+{offset}]",
            to[0],
            to[1],
            to[2],
            to[3]
        );
        to
    }
}
