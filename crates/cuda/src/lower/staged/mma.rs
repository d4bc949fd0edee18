//! Products of stages by `mma.sync`, each warp for itself, fragments by `ldmatrix`.

use super::engine::{Engine, put};
use super::plan::{Input, LINE, Plan, Side, Unit};
use crate::ptx::{Class, Reg};

/// What a warp needs to multiply stages.
pub(super) enum Multiplier {
    /// Descriptors of stage 0.
    Warpgroup { left: Reg, right: Reg },
    /// Shared addresses of this lane's matrix rows in stage 0.
    Warp { left: Rows, right: Rows },
}

/// Where a lane's part of fragments lies. Along K: one register for each step of K, and 16 rows more are 16 lines more. Otherwise: one register for
/// each 16 rows (four for elements of 32 bits, which `ldmatrix` does not transpose), and a step of K more is as many lines more.
pub(super) struct Rows {
    along_k: bool,
    registers: Vec<Reg>,
}

/// Elements of K of an instruction: 32 bytes.
const fn k_of_instruction(plan: &Plan) -> u32 {
    plan.step() / k_steps()
}

impl Rows {
    /// Register and offset for 16 rows (columns) and 16 of K.
    fn at(&self, plan: &Plan, block: u32, k: u32) -> (Reg, u32) {
        if self.along_k {
            (self.registers[k as usize], block * 16 * LINE)
        } else {
            (self.registers[block as usize], k * k_of_instruction(plan) * LINE)
        }
    }
}

/// Instructions along K in a stage.
const fn k_steps() -> u32 {
    LINE / 32
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
            for k in 0..k_steps() {
                let (chunk, register) = (self.r(), self.r());
                put!(self, "add.u32 {chunk}, {upper_k}, {}", 2 * k);
                put!(self, "xor.b32 {chunk}, {chunk}, {low}");
                put!(self, "mad.lo.u32 {register}, {chunk}, 16, {base}");
                registers.push(register);
            }
        } else if plan.input.bytes() == 4 {
            registers = self.words_across(first, lane, base, blocks);
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

    /// Addresses of this lane's 32-bit elements of an operand that runs across K: for each 16 rows, those of its row and of the eighth row after it, each
    /// at its step of K and at the fourth after it.
    fn words_across(&mut self, first: Reg, lane: Reg, base: Reg, blocks: u32) -> Vec<Reg> {
        let (row, step) = (self.r(), self.r());
        put!(self, "shr.u32 {row}, {lane}, 2");
        put!(self, "add.u32 {row}, {row}, {first}");
        put!(self, "and.b32 {step}, {lane}, 3");
        let mut registers = Vec::new();
        // Boxes of 32 rows are alike: where a warp begins with one, the addresses of two blocks serve for all.
        let alike = (16 * blocks).is_multiple_of(self.plan.box_rows());
        for block in 0..if alike { 2 } else { blocks } {
            for (upper_row, upper_k) in [(0, 0), (0, 4), (8, 0), (8, 4)] {
                let (at, line, chunk, register) = (self.r(), self.r(), self.r(), self.r());
                put!(self, "add.u32 {at}, {row}, {}", 16 * block + upper_row);
                put!(self, "add.u32 {line}, {step}, {upper_k}");
                put!(self, "bfe.u32 {chunk}, {at}, 2, 3");
                put!(self, "xor.b32 {chunk}, {chunk}, {line}");
                put!(self, "mad.lo.u32 {register}, {chunk}, 16, {base}");
                put!(self, "mad.lo.u32 {register}, {line}, {LINE}, {register}");
                put!(self, "and.b32 {chunk}, {at}, 3");
                put!(self, "mad.lo.u32 {register}, {chunk}, 4, {register}");
                put!(self, "shr.u32 {at}, {at}, 5");
                put!(
                    self,
                    "mad.lo.u32 {register}, {at}, {}, {register}",
                    self.plan.step() * LINE
                );
                registers.push(register);
            }
        }
        registers
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
        if self.plan.input == Input::F32 {
            self.multiply_split(left, right, sums);
            return;
        }
        let plan = self.plan;
        let pairs = plan.warp_columns() / 16;
        for k in 0..k_steps() {
            let a: Vec<[Reg; 4]> = (0..plan.blocks())
                .map(|block| self.load_fragment(left, Side::Left, block, k))
                .collect();
            for pair in 0..pairs {
                let b = self.load_fragment(right, Side::Right, pair, k);
                for (block, a) in a.iter().enumerate() {
                    for half in 0..2 {
                        let at = (block * 2 * pairs as usize + 2 * pair as usize + half) * 4;
                        self.mma(&sums[at..at + 4], a, [b[2 * half], b[2 * half + 1]]);
                    }
                }
            }
        }
    }

    /// Multiplies a stage of `f32`: each element is the sum of two `tf32`, of whose four products the smallest is left out.
    ///
    /// Where there are registers for it, the sums of a stage are added to those of all by ordinary additions, because the tensor cores truncate.
    fn multiply_split(&mut self, left: &Rows, right: &Rows, sums: &[Reg]) {
        let plan = self.plan;
        let pairs = plan.warp_columns() / 16;
        let parts: Vec<Reg> = if plan.promotes() {
            sums.iter().map(|_| self.writer.reg(Class::F32)).collect()
        } else {
            sums.to_vec()
        };
        if plan.promotes() {
            for part in &parts {
                put!(self, "mov.f32 {part}, 0f00000000");
            }
        }
        // Beside many sums there is room for the elements of two blocks only.
        let at_once = if plan.sums() > 64 { 2 } else { plan.blocks() };
        for k in 0..k_steps() {
            for first in (0..plan.blocks()).step_by(at_once as usize) {
                let blocks = first..(first + at_once).min(plan.blocks());
                let a: Vec<(u32, [[Reg; 4]; 2])> = blocks
                    .map(|block| {
                        let elements = self.load_fragment(left, Side::Left, block, k);
                        (block, self.split(elements))
                    })
                    .collect();
                for pair in 0..pairs {
                    let elements = self.load_fragment(right, Side::Right, pair, k);
                    let b = self.split(elements);
                    // The small products first.
                    for (x, y) in [(1, 0), (0, 1), (0, 0)] {
                        for (block, a) in &a {
                            for half in 0..2 {
                                let at = ((block * 2 * pairs + 2 * pair) as usize + half) * 4;
                                self.mma(&parts[at..at + 4], &a[x], [b[y][2 * half], b[y][2 * half + 1]]);
                            }
                        }
                    }
                }
            }
        }
        if plan.promotes() {
            for (sum, part) in sums.iter().zip(&parts) {
                put!(self, "add.f32 {sum}, {sum}, {part}");
            }
        }
    }

    /// Each element as its nearest number of 11 bits, and the rest.
    fn split(&mut self, elements: [Reg; 4]) -> [[Reg; 4]; 2] {
        let high = elements.map(|element| {
            let high = self.r();
            put!(self, "add.u32 {high}, {element}, 0x1000");
            put!(self, "and.b32 {high}, {high}, 0xffffe000");
            high
        });
        let low = std::array::from_fn(|index| {
            let (low, bits) = (self.writer.reg(Class::F32), self.r());
            let [whole, part] = [self.writer.reg(Class::F32), self.writer.reg(Class::F32)];
            put!(self, "mov.b32 {whole}, {}", elements[index]);
            put!(self, "mov.b32 {part}, {}", high[index]);
            put!(self, "sub.f32 {low}, {whole}, {part}");
            put!(self, "mov.b32 {bits}, {low}");
            bits
        });
        [high, low]
    }

    /// One `mma.sync` of 16 rows and 8 columns.
    fn mma(&mut self, sums: &[Reg], a: &[Reg; 4], b: [Reg; 2]) {
        let d = sums.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        let (k, input) = (k_of_instruction(&self.plan), self.plan.input.ptx());
        put!(
            self,
            "mma.sync.aligned.m16n8k{k}.row.col.f32.{input}.{input}.f32 {{{d}}}, {{{}, {}, {}, {}}}, {{{}, {}}}, {{{d}}}",
            a[0],
            a[1],
            a[2],
            a[3],
            b[0],
            b[1]
        );
    }

    /// 16 rows (columns) by 32 bytes of K: of the left operand both halves of rows of the lower half of K first, of the right one both halves of K of the
    /// lower columns.
    fn load_fragment(&mut self, rows: &Rows, side: Side, block: u32, k: u32) -> [Reg; 4] {
        let plan = self.plan;
        let to = [self.r(), self.r(), self.r(), self.r()];
        if plan.input.bytes() == 4 && !rows.along_k {
            let order = match side {
                Side::Left => [0, 2, 1, 3],
                Side::Right => [0, 1, 2, 3],
            };
            let held = rows.registers.len() as u32 / 4;
            let offset = (k * k_of_instruction(&plan) + block / held * plan.step()) * LINE;
            for (to, part) in to.iter().zip(order) {
                let address = rows.registers[(4 * (block % held)) as usize + part];
                put!(self, "ld.shared.b32 {to}, [{address}+{offset}]");
            }
        } else {
            let (address, offset) = rows.at(&plan, block, k);
            let transposed = if rows.along_k { "" } else { ".trans" };
            put!(
                self,
                "ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 {{{}, {}, {}, {}}}, [{address}+{offset}]",
                to[0],
                to[1],
                to[2],
                to[3]
            );
        }
        if plan.input == Input::TF32 {
            for to in to {
                let float = self.writer.reg(Class::F32);
                put!(self, "mov.b32 {float}, {to}");
                put!(self, "cvt.rna.tf32.f32 {to}, {float}");
            }
        }
        to
    }
}
