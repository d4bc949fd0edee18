//! How a cooperative tensor lies in registers.
//!
//! Each SIMD-group holds its band of the tile in 8 × 8 blocks, each block as an `mma` accumulator holds it: hardware lane 4·g + t has
//! row g, columns 2·t and 2·t + 1 of every block. Where the kernel can see slots of layout R, the columns of 16-column blocks are
//! permuted instead ([`ColumnMap::R`]), so that each slot is a register of its lane.

use anymetal_ir::{CoopId, CoopRole, Cooperative, LayoutKind, Scalar};

use super::super::{ColumnMap, Lower};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// How elements are put into registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    /// A register for each element.
    Single,
    /// A `.b32` for the two neighbours of a block's row: the left one in bits 0–15. 8-bit elements are extended to 16 bits by their type.
    Pairs,
}

/// The shape of a cooperative tensor in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tile {
    /// Role in its operation.
    pub role: CoopRole,
    /// Element type.
    pub element: Scalar,
    /// Rows of the tile of all SIMD-groups.
    pub rows: u32,
    /// Columns of the tile of all SIMD-groups.
    pub columns: u32,
    /// SIMD-groups that share it.
    pub simdgroups: u32,
    /// Rows of a SIMD-group's band.
    pub band_rows: u32,
    /// Columns of a SIMD-group's band.
    pub band_columns: u32,
    /// SIMD-group s has rows from s · `band_rows` on, and all columns; if false columns from s · `band_columns` on, and all rows.
    pub by_rows: bool,
    /// Blocks of 8 rows that a SIMD-group holds. Of a column reduction 1.
    pub row_blocks: u32,
    /// Blocks of 8 columns that a SIMD-group holds, even with [`ColumnMap::R`]. Of a row reduction 1.
    pub column_blocks: u32,
    /// Where the columns of a block are.
    pub column_map: ColumnMap,
    /// How elements are put into registers; reduction tensors have single ones.
    pub storage: Storage,
    /// The layout as the kernel sees it.
    pub layout: LayoutKind,
}

impl Tile {
    pub fn of(coop: &Cooperative, map: ColumnMap) -> Tile {
        let layout = coop.layout();
        let (band_rows, band_columns, by_rows) = layout.band();
        let column_map = match (map, coop.layout) {
            (ColumnMap::R, LayoutKind::R) => ColumnMap::R,
            _ => ColumnMap::Natural,
        };
        let reduction = matches!(coop.role, CoopRole::RowReduction | CoopRole::ColumnReduction);
        let column_blocks = match (coop.role, column_map) {
            (CoopRole::RowReduction, _) => 1,
            (_, ColumnMap::R) => 2 * band_columns.div_ceil(16),
            (_, ColumnMap::Natural) => band_columns.div_ceil(8),
        };
        Tile {
            role: coop.role,
            element: coop.element,
            rows: coop.rows,
            columns: coop.columns,
            simdgroups: coop.simdgroups.max(1),
            band_rows,
            band_columns,
            by_rows,
            row_blocks: if coop.role == CoopRole::ColumnReduction {
                1
            } else {
                band_rows.div_ceil(8)
            },
            column_blocks,
            column_map,
            storage: if coop.element.size() < 4 && !reduction {
                Storage::Pairs
            } else {
                Storage::Single
            },
            layout: coop.layout,
        }
    }

    /// True for a row or column reduction.
    pub fn is_reduction(&self) -> bool {
        matches!(self.role, CoopRole::RowReduction | CoopRole::ColumnReduction)
    }

    /// Elements that a lane holds, padding included.
    pub fn elements(&self) -> u32 {
        match self.role {
            CoopRole::RowReduction => self.row_blocks,
            CoopRole::ColumnReduction => 2 * self.column_blocks,
            _ => 2 * self.row_blocks * self.column_blocks,
        }
    }

    /// Registers that a lane needs.
    pub fn registers(&self) -> u32 {
        match self.storage {
            Storage::Single => self.elements(),
            Storage::Pairs => self.elements() / 2,
        }
    }

    /// The class of its registers.
    pub fn class(&self) -> Class {
        match self.storage {
            Storage::Single => Class::of_scalar(self.element),
            Storage::Pairs => Class::B32,
        }
    }

    /// Column of register (nb, i), counted from the lane's first column.
    pub fn column_offset(&self, nb: u32, i: u32) -> u32 {
        match self.column_map {
            ColumnMap::Natural => 8 * nb + i,
            ColumnMap::R => 16 * (nb / 2) + 2 * (nb % 2) + i,
        }
    }

    /// Columns between the first columns of lane pairs t and t + 1.
    pub fn pair_step(&self) -> u32 {
        match self.column_map {
            ColumnMap::Natural => 2,
            ColumnMap::R => 4,
        }
    }

    /// True if some lane of some SIMD-group has no element of the tile in row block `rb`.
    pub fn row_may_pad(&self, rb: u32) -> bool {
        let first = if self.by_rows {
            (self.simdgroups - 1) * self.band_rows
        } else {
            0
        };
        self.role != CoopRole::ColumnReduction && first + 8 * rb + 7 >= self.rows
    }

    /// True if some lane of some SIMD-group has no element of the tile in register column (nb, i).
    pub fn column_may_pad(&self, nb: u32, i: u32) -> bool {
        if self.role == CoopRole::RowReduction {
            return false;
        }
        let last = self.column_offset(nb, i) + 3 * self.pair_step();
        let first = if self.by_rows {
            0
        } else {
            (self.simdgroups - 1) * self.band_columns
        };
        last >= self.band_columns || first + last >= self.columns
    }

    /// True if any register can be padding.
    pub fn may_pad(&self) -> bool {
        (0..self.row_blocks).any(|rb| self.row_may_pad(rb))
            || (0..self.column_blocks).any(|nb| self.column_may_pad(nb, 0) || self.column_may_pad(nb, 1))
    }
}

/// A lane's place in a tile: coordinates of its first element.
#[derive(Clone, Copy)]
pub(crate) struct LanePlace {
    /// Row of row block 0.
    pub row: Reg,
    /// Column of register column (0, 0).
    pub column: Reg,
}

impl Lower<'_> {
    /// The shape of a cooperative tensor.
    pub fn tile(&self, id: CoopId) -> Tile {
        self.coops.tiles[id.index()]
    }

    /// The register of an element of 32 bits, or of a reduction tensor (of which one coordinate does not count).
    pub fn tile_reg(&self, id: CoopId, rb: u32, nb: u32, i: u32) -> Reg {
        let tile = &self.coops.tiles[id.index()];
        debug_assert_eq!(tile.storage, Storage::Single);
        let at = match tile.role {
            CoopRole::RowReduction => rb,
            CoopRole::ColumnReduction => 2 * nb + i,
            _ => 2 * (rb * tile.column_blocks + nb) + i,
        };
        self.coops.registers[id.index()][at as usize]
    }

    /// The register of two elements of 16 or 8 bits, those of i = 0 and 1.
    pub fn tile_pair(&self, id: CoopId, rb: u32, nb: u32) -> Reg {
        let tile = &self.coops.tiles[id.index()];
        debug_assert_eq!(tile.storage, Storage::Pairs);
        self.coops.registers[id.index()][(rb * tile.column_blocks + nb) as usize]
    }

    /// All registers of a tile, in order of (rb, nb, i) or (rb, nb).
    pub fn tile_registers(&self, id: CoopId) -> Vec<Reg> {
        self.coops.registers[id.index()].clone()
    }

    /// Registers of all tiles of the kernel.
    pub fn tile_registers_in_all(&self) -> usize {
        self.coops.registers.iter().map(Vec::len).sum()
    }

    /// So many that a thread needs nearly all that there are, wherever the tiles are used.
    pub fn has_many_tile_registers(&self) -> bool {
        self.tile_registers_in_all() >= 320
    }

    /// Computes this lane's first row and column in a tile, with its SIMD-group's band.
    pub fn lane_place(&mut self, tile: &Tile) -> LanePlace {
        let geometry = self.geometry;
        let row = match (tile.by_rows && tile.simdgroups > 1, tile.role) {
            (_, CoopRole::ColumnReduction) => self.u32(0),
            (true, _) => {
                let row = self.reg(Class::B32);
                let (band, simdgroup) = (tile.band_rows, geometry.simdgroup);
                ptx!(self, "mad.lo.u32 {row}, {simdgroup}, {band}, {}", geometry.fragment_row);
                row
            }
            (false, _) => geometry.fragment_row,
        };
        if tile.role == CoopRole::RowReduction {
            let column = self.u32(0);
            return LanePlace { row, column };
        }
        let column = self.reg(Class::B32);
        ptx!(
            self,
            "mul.lo.u32 {column}, {}, {}",
            geometry.fragment_pair,
            tile.pair_step()
        );
        if tile.by_rows || tile.simdgroups == 1 {
            return LanePlace { row, column };
        }
        let own = self.reg(Class::B32);
        ptx!(
            self,
            "mad.lo.u32 {own}, {}, {}, {column}",
            geometry.simdgroup,
            tile.band_columns
        );
        LanePlace { row, column: own }
    }

    /// The row of row block `rb` of this lane.
    pub fn place_row(&mut self, place: LanePlace, rb: u32) -> Reg {
        self.plus(place.row, 8 * rb)
    }

    /// The column of register column (nb, i) of this lane.
    pub fn place_column(&mut self, tile: &Tile, place: LanePlace, nb: u32, i: u32) -> Reg {
        self.plus(place.column, tile.column_offset(nb, i))
    }

    /// A predicate that is true where this lane has an element of the tile in row block `rb`; `None` if it always has.
    pub fn row_valid(&mut self, tile: &Tile, place: LanePlace, rb: u32) -> Option<Reg> {
        if !tile.row_may_pad(rb) {
            return None;
        }
        let row = self.place_row(place, rb);
        let valid = self.reg(Class::Pred);
        ptx!(self, "setp.lt.u32 {valid}, {row}, {}", tile.rows);
        Some(valid)
    }

    /// A predicate that is true where this lane has an element of the tile in register column (nb, i); `None` if it always has.
    pub fn column_valid(&mut self, tile: &Tile, place: LanePlace, nb: u32, i: u32) -> Option<Reg> {
        if !tile.column_may_pad(nb, i) {
            return None;
        }
        let column = self.place_column(tile, place, nb, i);
        let mut valid = self.reg(Class::Pred);
        ptx!(self, "setp.lt.u32 {valid}, {column}, {}", tile.columns);
        if !tile.by_rows && tile.column_offset(nb, i) + 3 * tile.pair_step() >= tile.band_columns {
            let local = self.reg(Class::B32);
            let pair = self.geometry.fragment_pair;
            let (step, offset) = (tile.pair_step(), tile.column_offset(nb, i));
            ptx!(self, "mad.lo.u32 {local}, {pair}, {step}, {offset}");
            let both = self.reg(Class::Pred);
            ptx!(self, "setp.lt.and.u32 {both}, {local}, {}, {valid}", tile.band_columns);
            valid = both;
        }
        Some(valid)
    }

    /// `register + number`, `.b32`.
    pub fn plus(&mut self, register: Reg, number: u32) -> Reg {
        if number == 0 {
            return register;
        }
        let to = self.reg(Class::B32);
        ptx!(self, "add.u32 {to}, {register}, {number}");
        to
    }

    /// Both predicates, where there are any.
    pub fn both(&mut self, a: Option<Reg>, b: Option<Reg>) -> Option<Reg> {
        match (a, b) {
            (Some(a), Some(b)) => {
                let both = self.reg(Class::Pred);
                ptx!(self, "and.pred {both}, {a}, {b}");
                Some(both)
            }
            (a, b) => a.or(b),
        }
    }
}
