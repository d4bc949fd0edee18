//! Sums in registers to and from a destination in memory.

use super::engine::{Engine, put};
use crate::ptx::{Class, Reg};

/// Element type of a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Output {
    F32,
    F16,
    BF16,
}

impl Output {
    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Output::F32 => 4,
            Output::F16 | Output::BF16 => 2,
        }
    }

    /// The type in conversions.
    const fn ptx(self) -> &'static str {
        match self {
            Output::F32 => "f32",
            Output::F16 => "f16",
            Output::BF16 => "bf16",
        }
    }
}

/// A destination in device memory whose columns lie side by side. All registers hold the same value in the whole threadgroup.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// `.b64`: address of the tile's first element.
    pub address: Reg,
    /// `.b64`: bytes from a row to the next.
    pub pitch: Reg,
    /// `.b32`: rows that exist (`s32`, may be 0 or less).
    pub rows: Reg,
    /// `.b32`: columns that exist (`s32`).
    pub columns: Reg,
    /// Element type.
    pub element: Output,
}

/// Bytes after a row of a warp's patch in shared memory, so that rows begin in different banks.
const PAD: u32 = 16;

impl Engine<'_> {
    /// The first row and column of this warp in block 0, and its lane.
    fn warp_place(&mut self) -> (Reg, Reg, Reg) {
        let plan = self.plan;
        let (high, low, _) = plan.row_steps();
        let (index, row, part, column, lane) = (self.r(), self.r(), self.r(), self.r(), self.r());
        let side_by_side = plan.column_warps();
        put!(self, "div.u32 {index}, {}, {side_by_side}", self.warp);
        put!(self, "rem.u32 {column}, {}, {side_by_side}", self.warp);
        put!(self, "mul.lo.u32 {column}, {column}, {}", plan.warp_columns());
        put!(self, "and.b32 {part}, {index}, 3");
        put!(self, "mul.lo.u32 {row}, {part}, {low}");
        put!(self, "shr.u32 {part}, {index}, 2");
        put!(self, "mad.lo.u32 {row}, {part}, {high}, {row}");
        put!(self, "and.b32 {lane}, {}, 31", self.thread);
        (row, column, lane)
    }

    /// Row and column of this thread's first sum.
    fn first_place(&mut self) -> (Reg, Reg) {
        let (row, first, lane) = self.warp_place();
        let (place, part, column) = (self.r(), self.r(), self.r());
        put!(self, "shr.u32 {part}, {lane}, 2");
        put!(self, "add.u32 {place}, {row}, {part}");
        put!(self, "and.b32 {column}, {lane}, 3");
        put!(self, "mad.lo.u32 {column}, {column}, 2, {first}");
        (place, column)
    }

    /// The address of an element of the tile.
    fn element_address(&mut self, target: &Target, row: Reg, column: Reg) -> Reg {
        let (address, wide) = (self.d(), self.d());
        put!(self, "cvt.u64.u32 {wide}, {row}");
        put!(
            self,
            "mad.lo.u64 {address}, {wide}, {}, {}",
            target.pitch,
            target.address
        );
        put!(
            self,
            "mad.wide.u32 {address}, {column}, {}, {address}",
            target.element.bytes()
        );
        address
    }

    /// True if pairs of elements can be moved at once: address and pitch are multiples of `bytes`.
    fn aligned(&mut self, target: &Target, bytes: u32) -> Reg {
        let (all, low, aligned) = (self.d(), self.r(), self.p());
        put!(self, "or.b64 {all}, {}, {}", target.address, target.pitch);
        put!(self, "cvt.u32.u64 {low}, {all}");
        put!(self, "and.b32 {low}, {low}, {}", bytes - 1);
        put!(self, "setp.eq.u32 {aligned}, {low}, 0");
        aligned
    }

    /// Adds the destination to the sums.
    pub fn add_target(&mut self, target: &Target, sums: &[Reg]) {
        self.each_pair(target, sums, |this, address, offset, element, sum, there| {
            let value = this.writer.reg(Class::F32);
            match element {
                Output::F32 => {
                    put!(this, "mov.f32 {value}, 0f00000000");
                    put!(this, "@{there} ld.global.f32 {value}, [{address}+{offset}]");
                }
                _ => {
                    let half = this.writer.reg(Class::B16);
                    put!(this, "mov.b16 {half}, 0");
                    put!(this, "@{there} ld.global.b16 {half}, [{address}+{offset}]");
                    if element == Output::F16 {
                        put!(this, "cvt.f32.f16 {value}, {half}");
                    } else {
                        let zero = this.writer.reg(Class::B16);
                        put!(this, "mov.b16 {zero}, 0");
                        put!(this, "mov.b32 {value}, {{{zero}, {half}}}");
                    }
                }
            }
            put!(this, "add.f32 {sum}, {sum}, {value}");
        });
    }

    /// Calls `body` for each sum with the address of its row's first element of this thread, its offset, and whether it exists.
    fn each_pair(
        &mut self,
        target: &Target,
        sums: &[Reg],
        mut body: impl FnMut(&mut Self, Reg, u32, Output, Reg, Reg),
    ) {
        let plan = self.plan;
        let (_, _, of_block) = plan.row_steps();
        let bytes = target.element.bytes();
        let (row, column) = self.first_place();
        for block in 0..plan.blocks() {
            for h in 0..2 {
                let (this_row, row_there) = (self.r(), self.p());
                put!(self, "add.u32 {this_row}, {row}, {}", block * of_block + 8 * h);
                put!(self, "setp.lt.s32 {row_there}, {this_row}, {}", target.rows);
                let address = self.element_address(target, this_row, column);
                let left = self.r();
                put!(self, "sub.s32 {left}, {}, {column}", target.columns);
                for pair in 0..plan.warp_columns() / 8 {
                    for i in 0..2 {
                        let there = self.p();
                        put!(self, "setp.gt.and.s32 {there}, {left}, {}, {row_there}", 8 * pair + i);
                        let sum = sums[plan.sum_at(block, pair, h) + i as usize];
                        body(self, address, (8 * pair + i) * bytes, target.element, sum, there);
                    }
                }
            }
        }
    }

    /// Writes the sums.
    pub fn store(&mut self, target: &Target, sums: &[Reg]) {
        let plan = self.plan;
        let patches = plan.warps * 16 * (plan.warp_columns() * target.element.bytes() + PAD);
        if target.element != Output::F32 && patches <= plan.barriers() {
            self.store_through_shared(target, sums);
            return;
        }
        let (slow, end) = (self.writer.label(), self.writer.label());
        let aligned = self.aligned(target, 2 * target.element.bytes());
        let whole = self.p();
        put!(self, "setp.ge.and.s32 {whole}, {}, {}, {aligned}", target.rows, plan.m);
        put!(self, "setp.ge.and.s32 {whole}, {}, {}, {whole}", target.columns, plan.n);
        put!(self, "@!{whole} bra {slow}");
        self.store_pairs(target, sums);
        put!(self, "bra.uni {end}");
        self.writer.place(slow);
        self.each_pair(
            target,
            sums,
            |this, address, offset, element, sum, there| match element {
                Output::F32 => put!(this, "@{there} st.global.f32 [{address}+{offset}], {sum}"),
                _ => {
                    let half = this.writer.reg(Class::B16);
                    put!(this, "cvt.rn.{}.f32 {half}, {sum}", element.ptx());
                    put!(this, "@{there} st.global.b16 [{address}+{offset}], {half}");
                }
            },
        );
        self.writer.place(end);
    }

    /// Two sums as two packed 16-bit elements.
    fn pack(&mut self, element: Output, low: Reg, high: Reg) -> Reg {
        let packed = self.r();
        put!(self, "cvt.rn.{}x2.f32 {packed}, {high}, {low}", element.ptx());
        packed
    }

    /// Writes a tile that exists whole, pair by pair.
    fn store_pairs(&mut self, target: &Target, sums: &[Reg]) {
        let plan = self.plan;
        let (_, _, of_block) = plan.row_steps();
        let bytes = target.element.bytes();
        let (row, column) = self.first_place();
        for block in 0..plan.blocks() {
            for h in 0..2 {
                let this_row = self.r();
                put!(self, "add.u32 {this_row}, {row}, {}", block * of_block + 8 * h);
                let address = self.element_address(target, this_row, column);
                for pair in 0..plan.warp_columns() / 8 {
                    let at = plan.sum_at(block, pair, h);
                    let (low, high, offset) = (sums[at], sums[at + 1], 8 * pair * bytes);
                    if target.element == Output::F32 {
                        put!(self, "st.global.v2.f32 [{address}+{offset}], {{{low}, {high}}}");
                    } else {
                        let packed = self.pack(target.element, low, high);
                        put!(self, "st.global.b32 [{address}+{offset}], {packed}");
                    }
                }
            }
        }
    }

    /// Writes 16-bit elements by way of shared memory, so that rows leave in chunks of 16 bytes. Each warp has a patch of its own.
    fn store_through_shared(&mut self, target: &Target, sums: &[Reg]) {
        let plan = self.plan;
        let (_, _, of_block) = plan.row_steps();
        let row_bytes = plan.warp_columns() * 2 + PAD;
        let (row, column, lane) = self.warp_place();
        let (patch, mine, part) = (self.r(), self.r(), self.r());
        put!(
            self,
            "mad.lo.u32 {patch}, {}, {}, {}",
            self.warp,
            16 * row_bytes,
            self.shared
        );
        put!(self, "shr.u32 {part}, {lane}, 2");
        put!(self, "mad.lo.u32 {mine}, {part}, {row_bytes}, {patch}");
        put!(self, "and.b32 {part}, {lane}, 3");
        put!(self, "mad.lo.u32 {mine}, {part}, 4, {mine}");
        let aligned = self.aligned(target, 16);
        for block in 0..plan.blocks() {
            put!(self, "bar.warp.sync 0xffffffff");
            for h in 0..2 {
                for pair in 0..plan.warp_columns() / 8 {
                    let at = plan.sum_at(block, pair, h);
                    let packed = self.pack(target.element, sums[at], sums[at + 1]);
                    put!(
                        self,
                        "st.shared.b32 [{mine}+{}], {packed}",
                        8 * h * row_bytes + 16 * pair
                    );
                }
            }
            put!(self, "bar.warp.sync 0xffffffff");
            self.store_patch(target, patch, (row, block * of_block, column), lane, aligned);
        }
    }

    /// Writes a warp's patch of 16 rows, which begins at tile row `row + more` and a column.
    fn store_patch(
        &mut self,
        target: &Target,
        patch: Reg,
        (row, more, column): (Reg, u32, Reg),
        lane: Reg,
        aligned: Reg,
    ) {
        let plan = self.plan;
        let (chunks, row_bytes) = (plan.warp_columns() / 8, plan.warp_columns() * 2 + PAD);
        let (index, at_row, chunk) = (self.r(), self.r(), self.r());
        put!(self, "mov.b32 {index}, {lane}");
        let (top, next) = (self.writer.label(), self.writer.label());
        self.writer.place(top);
        put!(self, "div.u32 {at_row}, {index}, {chunks}");
        put!(self, "mul.lo.u32 {chunk}, {at_row}, {chunks}");
        put!(self, "sub.u32 {chunk}, {index}, {chunk}");
        let (from, place, left) = (self.r(), self.r(), self.r());
        put!(self, "mad.lo.u32 {from}, {at_row}, {row_bytes}, {patch}");
        put!(self, "mad.lo.u32 {from}, {chunk}, 16, {from}");
        put!(self, "add.u32 {place}, {at_row}, {row}");
        put!(self, "add.u32 {place}, {place}, {more}");
        let (row_there, whole) = (self.p(), self.p());
        put!(self, "setp.lt.s32 {row_there}, {place}, {}", target.rows);
        put!(self, "mad.lo.u32 {left}, {chunk}, 8, {column}");
        let address = self.element_address(target, place, left);
        put!(self, "sub.s32 {left}, {}, {left}", target.columns);
        let words: Vec<Reg> = (0..4).map(|_| self.r()).collect();
        let list = words.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
        put!(self, "ld.shared.v4.b32 {{{list}}}, [{from}]");
        put!(self, "setp.ge.and.s32 {whole}, {left}, 8, {aligned}");
        put!(self, "and.pred {whole}, {whole}, {row_there}");
        put!(self, "@{whole} st.global.v4.b32 [{address}], {{{list}}}");
        put!(self, "@{whole} bra {next}");
        for (word, &packed) in words.iter().enumerate() {
            let halves = [self.writer.reg(Class::B16), self.writer.reg(Class::B16)];
            put!(self, "mov.b32 {{{}, {}}}, {packed}", halves[0], halves[1]);
            for (half, value) in halves.iter().enumerate() {
                let (element, there) = (2 * word + half, self.p());
                put!(self, "setp.gt.and.s32 {there}, {left}, {element}, {row_there}");
                put!(self, "@{there} st.global.b16 [{address}+{}], {value}", 2 * element);
            }
        }
        self.writer.place(next);
        let more_left = self.p();
        put!(self, "add.u32 {index}, {index}, 32");
        put!(self, "setp.lt.u32 {more_left}, {index}, {}", 16 * chunks);
        put!(self, "@{more_left} bra {top}");
    }
}
