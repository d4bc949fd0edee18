//! Elements by slot: what a kernel sees of the lane layout.

use anymetal_ir::{CoopId, CoopRole, Inst, LayoutKind, ValueId};

use super::{LanePlace, Storage, Tile};
use crate::lower::view::Int;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Where a slot is, in numbers that may be known at run time only.
struct SlotPlace {
    /// The slot is one of the tile's, and its element is not padding.
    valid: Validity,
    /// Row of the tile.
    row: Int,
    /// Column of the tile.
    column: Int,
}

/// What is known of a slot.
#[derive(Clone, Copy)]
enum Validity {
    Always,
    Never,
    If(Reg),
}

/// The registers (rb, nb, i) of a slot.
pub(super) fn register_of_slot(tile: &Tile, slot: u32) -> (u32, u32, u32) {
    let r = tile.layout == LayoutKind::R;
    match tile.role {
        CoopRole::RowReduction => (slot, 0, 0),
        CoopRole::ColumnReduction => (0, slot / 2, slot % 2),
        _ if r => {
            let block = slot / 4;
            let (rb, cb) = (block % tile.row_blocks, block / tile.row_blocks);
            (rb, 2 * cb + (slot / 2) % 2, slot % 2)
        }
        _ => (slot / 2 / tile.column_blocks, slot / 2 % tile.column_blocks, slot % 2),
    }
}

impl<'k> Lower<'k> {
    /// An `i32` slot.
    fn slot(&self, slot: ValueId) -> Int {
        match self.constant(slot) {
            Some(bits) => Int::Const((bits as u32 as i32).into()),
            None => Int::Reg(self.value(slot)),
        }
    }

    /// Quotient and remainder of a slot number by a number.
    fn split_slot(&mut self, slot: Int, by: u32) -> (Int, Int) {
        match slot {
            Int::Const(slot) => (Int::Const(slot / i64::from(by)), Int::Const(slot % i64::from(by))),
            Int::Reg(_) if by == 1 => (slot, Int::Const(0)),
            Int::Reg(slot) => {
                let (quotient, remainder) = (self.reg(Class::B32), self.reg(Class::B32));
                ptx!(self, "div.u32 {quotient}, {slot}, {by}");
                ptx!(self, "rem.u32 {remainder}, {slot}, {by}");
                (Int::Reg(quotient), Int::Reg(remainder))
            }
        }
    }

    fn times(&mut self, a: Int, by: i64) -> Int {
        self.int_mul(a, Int::Const(by), Class::B32)
    }

    fn sum(&mut self, a: Int, b: Int) -> Int {
        self.int_add(a, b, Class::B32)
    }

    /// Where a slot of this lane is.
    fn slot_place(&mut self, id: CoopId, slot: Int) -> SlotPlace {
        let tile = self.tile(id);
        let capacity = self.kernel.coop(id).capacity();
        if let Int::Const(number) = slot
            && !(0..i64::from(capacity)).contains(&number)
        {
            return SlotPlace {
                valid: Validity::Never,
                row: Int::Const(0),
                column: Int::Const(0),
            };
        }
        let place = self.lane_place(&tile);
        let (row_offset, column_offset) = self.slot_offsets(&tile, slot);
        let row = self.sum(Int::Reg(place.row), row_offset);
        let column = self.sum(Int::Reg(place.column), column_offset);
        let valid = match slot {
            Int::Const(number) => {
                let (rb, nb, i) = register_of_slot(&tile, number as u32);
                let (row, column) = (self.row_valid(&tile, place, rb), self.column_valid(&tile, place, nb, i));
                self.both(row, column).map_or(Validity::Always, Validity::If)
            }
            Int::Reg(slot) => {
                Validity::If(self.dynamic_valid(&tile, place, slot, capacity, row, column, column_offset))
            }
        };
        SlotPlace { valid, row, column }
    }

    /// Row and column of a slot, counted from the lane's first.
    fn slot_offsets(&mut self, tile: &Tile, slot: Int) -> (Int, Int) {
        let zero = Int::Const(0);
        match (tile.role, tile.layout) {
            (CoopRole::RowReduction, _) => (self.times(slot, 8), zero),
            (CoopRole::ColumnReduction, LayoutKind::S) => {
                let (block, i) = self.split_slot(slot, 2);
                let column = self.times(block, 8);
                (zero, self.sum(column, i))
            }
            (CoopRole::ColumnReduction, _) => {
                let (block, i) = self.split_slot(slot, 4);
                let column = self.times(block, 16);
                (zero, self.sum(column, i))
            }
            (_, LayoutKind::S) => {
                let (block, i) = self.split_slot(slot, 2);
                let (rb, nb) = self.split_slot(block, tile.column_blocks);
                let (row, column) = (self.times(rb, 8), self.times(nb, 8));
                (row, self.sum(column, i))
            }
            _ => {
                let (block, i) = self.split_slot(slot, 4);
                let (cb, rb) = self.split_slot(block, tile.row_blocks);
                let (row, column) = (self.times(rb, 8), self.times(cb, 16));
                (row, self.sum(column, i))
            }
        }
    }

    fn dynamic_valid(
        &mut self,
        tile: &Tile,
        place: LanePlace,
        slot: Reg,
        capacity: u32,
        row: Int,
        column: Int,
        column_offset: Int,
    ) -> Reg {
        let mut valid = self.reg(Class::Pred);
        ptx!(self, "setp.lt.u32 {valid}, {slot}, {capacity}");
        let mut limits = Vec::new();
        if tile.role != CoopRole::ColumnReduction {
            limits.push((row, tile.rows));
        }
        if tile.role != CoopRole::RowReduction {
            limits.push((column, tile.columns));
            if !tile.by_rows {
                let first = self.reg(Class::B32);
                ptx!(
                    self,
                    "mul.lo.u32 {first}, {}, {}",
                    self.geometry.fragment_pair,
                    tile.pair_step()
                );
                let local = self.sum(Int::Reg(first), column_offset);
                limits.push((local, tile.band_columns));
            }
        }
        let _ = place;
        for (number, limit) in limits {
            let number = self.int_reg(number, Class::B32);
            let both = self.reg(Class::Pred);
            ptx!(self, "setp.lt.and.u32 {both}, {number}, {limit}, {valid}");
            valid = both;
        }
        valid
    }

    pub(super) fn coop_valid(&mut self, to: ValueId, coop: CoopId, slot: ValueId) -> Result {
        let slot = self.slot(slot);
        match self.slot_place(coop, slot).valid {
            Validity::Always => self.known(to, true),
            Validity::Never => self.known(to, false),
            Validity::If(valid) => {
                self.bind(to, valid);
                Ok(())
            }
        }
    }

    pub(super) fn coop_index(&mut self, inst: &Inst, coop: CoopId, slot: ValueId) -> Result {
        let tile = self.tile(coop);
        let slot = self.slot(slot);
        let place = self.slot_place(coop, slot);
        let coordinates: &[Int] = match tile.role {
            CoopRole::RowReduction => &[place.row],
            CoopRole::ColumnReduction => &[place.column],
            _ => &[place.column, place.row],
        };
        for (result, &coordinate) in inst.results().zip(coordinates) {
            let coordinate = match place.valid {
                Validity::Always => coordinate,
                Validity::Never => Int::Const(0),
                Validity::If(valid) => self.int_select(valid, coordinate, Int::Const(0), Class::B32),
            };
            let register = self.int_reg(coordinate, Class::B32);
            self.bind(result, register);
        }
        Ok(())
    }

    pub(super) fn coop_get(&mut self, to: ValueId, coop: CoopId, slot: ValueId) -> Result {
        let tile = self.tile(coop);
        let slot = self.slot(slot);
        let valid = self.slot_place(coop, slot).valid;
        let class = Class::of_scalar(tile.element);
        let zero = if class == Class::F32 { "0f00000000" } else { "0" };
        let element = match (slot, valid) {
            (_, Validity::Never) => {
                let nothing = self.reg(class);
                ptx!(self, "mov.{} {nothing}, {zero}", class.ptx());
                nothing
            }
            (Int::Const(number), _) => {
                let (rb, nb, i) = register_of_slot(&tile, number as u32);
                self.tile_element(coop, rb, nb, i)
            }
            (Int::Reg(slot), _) => self.selected(coop, slot),
        };
        let result = match valid {
            Validity::If(valid) => {
                let result = self.reg(class);
                if class == Class::B16 {
                    let nothing = self.reg(class);
                    ptx!(self, "mov.b16 {nothing}, 0");
                    ptx!(self, "selp.b16 {result}, {element}, {nothing}, {valid}");
                } else {
                    ptx!(self, "selp.{} {result}, {element}, {zero}, {valid}", class.ptx());
                }
                result
            }
            _ => self.copy(element),
        };
        self.bind(to, result);
        Ok(())
    }

    /// The element of a slot that is known at run time only, by a tree of selections over the slot's bits. The slot is one of the tile's.
    fn selected(&mut self, coop: CoopId, slot: Reg) -> Reg {
        let tile = self.tile(coop);
        let capacity = self.kernel.coop(coop).capacity();
        let mut level: Vec<Reg> = (0..capacity)
            .map(|slot| {
                let (rb, nb, i) = register_of_slot(&tile, slot);
                self.tile_element(coop, rb, nb, i)
            })
            .collect();
        let mut bit = 0;
        while level.len() > 1 {
            let (masked, set) = (self.reg(Class::B32), self.reg(Class::Pred));
            ptx!(self, "and.b32 {masked}, {slot}, {}", 1u32 << bit);
            ptx!(self, "setp.ne.u32 {set}, {masked}, 0");
            level = level
                .chunks(2)
                .map(|pair| match *pair {
                    [even, odd] => {
                        let to = self.reg(even.class);
                        ptx!(self, "selp.{} {to}, {odd}, {even}, {set}", even.class.ptx());
                        to
                    }
                    _ => pair[0],
                })
                .collect();
            bit += 1;
        }
        level[0]
    }

    pub(super) fn coop_set(&mut self, coop: CoopId, slot: ValueId, value: ValueId) -> Result {
        let tile = self.tile(coop);
        let slot = self.slot(slot);
        let valid = self.slot_place(coop, slot).valid;
        let value = self.value(value);
        let guard = match valid {
            Validity::Never => return Ok(()),
            Validity::Always => None,
            Validity::If(valid) => Some(valid),
        };
        match slot {
            Int::Const(number) => self.set_slot(coop, &tile, number as u32, value, guard),
            Int::Reg(slot) => {
                // A slot that is not valid equals none.
                let at = match guard {
                    Some(valid) => {
                        let at = self.reg(Class::B32);
                        ptx!(self, "selp.b32 {at}, {slot}, -1, {valid}");
                        at
                    }
                    None => slot,
                };
                for number in 0..self.kernel.coop(coop).capacity() {
                    let this = self.reg(Class::Pred);
                    ptx!(self, "setp.eq.s32 {this}, {at}, {number}");
                    self.set_slot(coop, &tile, number, value, Some(this));
                }
            }
        }
        Ok(())
    }

    /// Writes the register of a slot, where the guard holds.
    fn set_slot(&mut self, coop: CoopId, tile: &Tile, slot: u32, value: Reg, guard: Option<Reg>) {
        let (rb, nb, i) = register_of_slot(tile, slot);
        let guard = guard.map_or(String::new(), |guard| format!("@{guard} "));
        match tile.storage {
            Storage::Single => {
                let register = self.tile_reg(coop, rb, nb, i);
                ptx!(self, "{guard}mov.{} {register}, {value}", register.class.ptx());
            }
            Storage::Pairs => {
                let register = self.tile_pair(coop, rb, nb);
                let bits = if value.class == Class::B16 {
                    let bits = self.reg(Class::B32);
                    ptx!(self, "cvt.u32.u16 {bits}, {value}");
                    bits
                } else {
                    value
                };
                let selector = if i == 0 { "0x3254" } else { "0x5410" };
                ptx!(self, "{guard}prmt.b32 {register}, {register}, {bits}, {selector}");
            }
        }
    }

    /// The slot of a reduction tensor for the row (column) of a tile's slot, which is in the same lane.
    pub(super) fn coop_map_slot(&mut self, to: ValueId, target: CoopId, from: CoopId, slot: ValueId) -> Result {
        let (reduction, tile) = (self.tile(target), self.tile(from));
        let slot = self.slot(slot);
        let valid = self.slot_place(from, slot).valid;
        let r = tile.layout == LayoutKind::R;
        let mapped = match reduction.role {
            CoopRole::RowReduction if r => {
                let (block, _) = self.split_slot(slot, 4);
                self.split_slot(block, tile.row_blocks).1
            }
            CoopRole::RowReduction => {
                let (block, _) = self.split_slot(slot, 2);
                self.split_slot(block, tile.column_blocks).0
            }
            _ if reduction.layout != tile.layout => Int::Const(0),
            _ if r => {
                let (block, place) = self.split_slot(slot, 4);
                let (cb, _) = self.split_slot(block, tile.row_blocks);
                let first = self.times(cb, 4);
                self.sum(first, place)
            }
            _ => {
                let (block, place) = self.split_slot(slot, 2);
                let (_, nb) = self.split_slot(block, tile.column_blocks);
                let first = self.times(nb, 2);
                self.sum(first, place)
            }
        };
        let mapped = match valid {
            Validity::Always => mapped,
            Validity::Never => Int::Const(0),
            Validity::If(valid) => self.int_select(valid, mapped, Int::Const(0), Class::B32),
        };
        if let Int::Const(number) = mapped {
            let constant = anymetal_ir::Const {
                ty: anymetal_ir::Scalar::I32,
                bits: number as u32 as u64,
            };
            self.constants[to.index()] = Some(constant);
            return self.const_(to, constant);
        }
        let register = self.int_reg(mapped, Class::B32);
        self.bind(to, register);
        Ok(())
    }
}
