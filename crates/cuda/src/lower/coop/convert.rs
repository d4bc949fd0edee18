//! Copies of tiles, and destinations that become inputs.

use anymetal_ir::CoopId;

use super::Storage;
use crate::lower::{ColumnMap, Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

impl<'k> Lower<'k> {
    /// Moves all registers of a tile to one of the same shape.
    pub(super) fn copy_registers(&mut self, to: CoopId, from: CoopId) {
        for (to, from) in self.tile_registers(to).into_iter().zip(self.tile_registers(from)) {
            ptx!(self, "mov.{} {to}, {from}", to.class.ptx());
        }
    }

    /// A destination as an input of the same rows and columns: where the registers hold columns alike, they are it. Padding of an input
    /// is zero.
    pub(super) fn coop_convert(&mut self, to: CoopId, from: CoopId) -> Result {
        let (target, source) = (self.tile(to), self.tile(from));
        if target.simdgroups != 1 || source.simdgroups != 1 {
            return self.unsupported("the conversion of a tile of several SIMD-groups");
        }
        if target.column_map == source.column_map {
            self.copy_registers(to, from);
        } else {
            self.permute_columns(to, from);
        }
        if target.may_pad() {
            self.clear_padding(to);
        }
        Ok(())
    }

    /// Exchanges columns between the four lanes of a row, from the natural order to that of layout R or back.
    fn permute_columns(&mut self, to: CoopId, from: CoopId) {
        let (target, source) = (self.tile(to), self.tile(from));
        let pair = self.geometry.fragment_pair;
        let base = self.reg(Class::B32);
        ptx!(self, "and.b32 {base}, {}, 28", self.geometry.hardware_lane);
        let width = if target.storage == Storage::Single { 2 } else { 1 };
        // For each register column of a 16-column block: the lane that has it, and which of its two blocks.
        let mut routes = Vec::new();
        for j in 0..2 {
            let (lane, part, choice) = (self.reg(Class::B32), self.reg(Class::B32), self.reg(Class::Pred));
            let bit = self.reg(Class::B32);
            match target.column_map {
                // Column 4·t + 2·j is in block t / 2, at lane (2·t + j) mod 4 of the natural order.
                ColumnMap::R => {
                    ptx!(self, "mad.lo.u32 {part}, {pair}, 2, {j}");
                    ptx!(self, "and.b32 {bit}, {pair}, 2");
                    let low = self.reg(Class::B32);
                    ptx!(self, "and.b32 {low}, {part}, 3");
                    ptx!(self, "or.b32 {lane}, {base}, {low}");
                }
                // Column 8·j + 2·t is at lane 2·j + t / 2 of layout R, in its pair t mod 2.
                ColumnMap::Natural => {
                    ptx!(self, "shr.u32 {part}, {pair}, 1");
                    ptx!(self, "and.b32 {bit}, {pair}, 1");
                    let low = self.reg(Class::B32);
                    ptx!(self, "add.u32 {low}, {part}, {}", 2 * j);
                    ptx!(self, "or.b32 {lane}, {base}, {low}");
                }
            }
            ptx!(self, "setp.ne.u32 {choice}, {bit}, 0");
            routes.push((lane, choice));
        }
        for rb in 0..target.row_blocks {
            for nb in 0..target.column_blocks {
                for i in 0..width {
                    let cb = nb / 2;
                    let (lane, choice) = routes[(nb % 2) as usize];
                    let mut parts = Vec::new();
                    for j in 0..2 {
                        let block = 2 * cb + j;
                        if block >= source.column_blocks {
                            parts.push(self.u32(0));
                            continue;
                        }
                        let register = match source.storage {
                            Storage::Single => self.tile_reg(from, rb, block, i),
                            Storage::Pairs => self.tile_pair(from, rb, block),
                        };
                        let (bits, moved) = (self.bits_of(register), self.reg(Class::B32));
                        ptx!(self, "shfl.sync.idx.b32 {moved}, {bits}, {lane}, 31, 0xffffffff");
                        parts.push(moved);
                    }
                    let register = match target.storage {
                        Storage::Single => self.tile_reg(to, rb, nb, i),
                        Storage::Pairs => self.tile_pair(to, rb, nb),
                    };
                    let chosen = self.reg(Class::B32);
                    ptx!(self, "selp.b32 {chosen}, {}, {}, {choice}", parts[1], parts[0]);
                    ptx!(self, "mov.b32 {register}, {chosen}");
                }
            }
        }
    }

    /// A 32-bit register as `.b32`.
    pub(super) fn bits_of(&mut self, register: Reg) -> Reg {
        if register.class == Class::B32 {
            return register;
        }
        let bits = self.reg(Class::B32);
        ptx!(self, "mov.b32 {bits}, {register}");
        bits
    }

    /// Sets the registers' parts that lie outside the tile to zero.
    pub(super) fn clear_padding(&mut self, id: CoopId) {
        let tile = self.tile(id);
        let place = self.lane_place(&tile);
        for rb in 0..tile.row_blocks {
            let row = self.row_valid(&tile, place, rb);
            for nb in 0..tile.column_blocks {
                let valid = [0, 1].map(|i| {
                    let column = self.column_valid(&tile, place, nb, i);
                    self.both(row, column)
                });
                if valid == [None; 2] {
                    continue;
                }
                match tile.storage {
                    Storage::Single => {
                        for (i, valid) in valid.into_iter().enumerate() {
                            let Some(valid) = valid else { continue };
                            let register = self.tile_reg(id, rb, nb, i as u32);
                            let ty = register.class.ptx();
                            let zero = if register.class == Class::F32 {
                                "0f00000000"
                            } else {
                                "0"
                            };
                            ptx!(self, "@!{valid} mov.{ty} {register}, {zero}");
                        }
                    }
                    Storage::Pairs => {
                        let register = self.tile_pair(id, rb, nb);
                        for (valid, keep) in valid.into_iter().zip(["0xffff0000", "0xffff"]) {
                            let Some(valid) = valid else { continue };
                            ptx!(self, "@!{valid} and.b32 {register}, {register}, {keep}");
                        }
                    }
                }
            }
        }
    }
}
