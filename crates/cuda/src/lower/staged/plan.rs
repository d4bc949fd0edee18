//! What a staged product is: tile, operands, pipeline depth, and where everything lies in shared memory.

use super::tensor_map::MAP_BYTES;

/// Bytes of a line of a staged operand: one row of the 128-byte swizzle.
pub const LINE: u32 = 128;
/// Lines that repeat the swizzle.
const ATOM: u32 = 8;
/// Bytes of a swizzle atom; stages and operands begin at multiples of it.
pub const ATOM_BYTES: u32 = LINE * ATOM;
/// Rows of a warpgroup instruction.
pub const WGMMA_ROWS: u32 = 64;

/// What the tensor cores read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// `half`.
    F16,
    /// `bfloat`.
    BF16,
    /// fp8 e4m3.
    E4M3,
    /// `float`, as exact as sums in `float` are.
    F32,
    /// `float`, rounded to 11 significant bits.
    TF32,
}

impl Input {
    /// Bytes of an element.
    pub const fn bytes(self) -> u32 {
        match self {
            Input::F16 | Input::BF16 => 2,
            Input::E4M3 => 1,
            Input::F32 | Input::TF32 => 4,
        }
    }

    /// The type in the names of instructions.
    pub const fn ptx(self) -> &'static str {
        match self {
            Input::F16 => "f16",
            Input::BF16 => "bf16",
            Input::E4M3 => "e4m3",
            Input::F32 | Input::TF32 => "tf32",
        }
    }

    /// `elemtype` of a tensor map.
    pub const fn map_code(self) -> u32 {
        match self {
            Input::F16 => 6,
            Input::BF16 => 10,
            Input::E4M3 => 0,
            Input::F32 | Input::TF32 => 7,
        }
    }
}

/// Which operand of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Side {
    Left,
    Right,
}

/// What multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// `wgmma`: 64 rows by four warps, all columns; operands straight from shared memory.
    Warpgroup,
    /// `mma.sync`: each warp for itself, so many side by side in a row of warps.
    Warp {
        /// Warps side by side.
        columns: u32,
    },
}

/// Which part of the tile a warp holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bands {
    /// Any.
    Free,
    /// Its band of rows, as a cooperative tensor has it: with `wgmma`, not 16 rows of each 64.
    Rows,
    /// Its band of columns.
    Columns,
}

/// A product of a whole threadgroup whose operands pass through shared memory in stages.
///
/// A stage holds 128 bytes along K of both operands (64 elements of 16 bits). An operand is a sequence of *lines* of 128 bytes, swizzled as
/// `wgmma` and tensor maps know it: 16-byte chunk `c` of line `l` lies at `128·l + 16·(c ^ (l & 7))`.
/// If K runs along memory, a line is a row (column) of the tile, in the order of [`Plan::row_of_line`]. Otherwise lines come in boxes of
/// 64, one for each 64 rows (columns): line `64·q + k` is rows `64·q…` at step `k` of K. (With elements of 32 bits, 32 instead of 64.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Rows of the tile.
    pub m: u32,
    /// Columns of the tile.
    pub n: u32,
    /// Warps of the threadgroup.
    pub warps: u32,
    /// What multiplies.
    pub unit: Unit,
    /// Element type of both operands as staged.
    pub input: Input,
    /// K runs along memory in the left operand.
    pub left_along_k: bool,
    /// K runs along memory in the right operand.
    pub right_along_k: bool,
    /// Stages of the pipeline.
    pub stages: u32,
    /// Which part of the tile each warp has to hold.
    pub bands: Bands,
}

impl Plan {
    /// Elements of K in a stage.
    pub const fn step(&self) -> u32 {
        LINE / self.input.bytes()
    }

    /// K runs along memory in an operand.
    pub const fn along_k(&self, side: Side) -> bool {
        match side {
            Side::Left => self.left_along_k,
            Side::Right => self.right_along_k,
        }
    }

    /// Rows (columns) of the tile in an operand.
    pub const fn extent(&self, side: Side) -> u32 {
        match side {
            Side::Left => self.m,
            Side::Right => self.n,
        }
    }

    /// Rows (columns) in a line of an operand that does not run along K.
    pub const fn box_rows(&self) -> u32 {
        LINE / self.input.bytes()
    }

    /// Lines of an operand in a stage.
    pub const fn lines(&self, side: Side) -> u32 {
        if self.along_k(side) {
            self.extent(side)
        } else {
            self.extent(side).div_ceil(self.box_rows()) * self.step()
        }
    }

    /// Offset of an operand in a stage.
    pub const fn offset(&self, side: Side) -> u32 {
        match side {
            Side::Left => 0,
            Side::Right => self.lines(Side::Left) * LINE,
        }
    }

    /// Bytes of a stage.
    pub const fn stage_bytes(&self) -> u32 {
        (self.lines(Side::Left) + self.lines(Side::Right)) * LINE
    }

    /// Offset of the barriers: first those that say a stage is full, then those that say it is empty.
    pub const fn barriers(&self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Offset of the two tensor maps as they are put together.
    pub const fn maps(&self) -> u32 {
        (self.barriers() + 16 * self.stages).next_multiple_of(MAP_BYTES)
    }

    /// Bytes of shared memory in all.
    pub const fn shared_bytes(&self) -> u32 {
        self.maps() + 2 * MAP_BYTES
    }

    /// Threads of the threadgroup.
    pub const fn threads(&self) -> u32 {
        32 * self.warps
    }

    /// Warpgroups.
    pub const fn groups(&self) -> u32 {
        self.warps / 4
    }

    /// Warps side by side.
    pub const fn column_warps(&self) -> u32 {
        match self.unit {
            Unit::Warpgroup => 1,
            Unit::Warp { columns } => columns,
        }
    }

    /// Columns of a warp.
    pub const fn warp_columns(&self) -> u32 {
        self.n / self.column_warps()
    }

    /// 16-row blocks of a warp.
    pub const fn blocks(&self) -> u32 {
        self.m * self.column_warps() / (16 * self.warps)
    }

    /// 32-bit sums that a thread holds.
    pub const fn sums(&self) -> u32 {
        self.blocks() * self.warp_columns() / 2
    }

    /// Sums of a stage are added to the sums of all in `f32`: the tensor cores keep fewer bits of sums of fp8, and truncate sums of `float`.
    pub const fn promotes(&self) -> bool {
        match self.input {
            Input::E4M3 => true,
            Input::F32 => self.sums() <= 64,
            _ => false,
        }
    }

    /// Sums take so many registers that a whole stage does not fit beside them.
    pub const fn spares_registers(&self) -> bool {
        self.sums() > 96
    }

    /// Whether the tile can be made this way at all.
    pub const fn fits(&self) -> bool {
        let split = match self.unit {
            Unit::Warpgroup => {
                matches!(self.warps, 4 | 8)
                    && self.input.bytes() <= 2
                    && self.m.is_multiple_of(WGMMA_ROWS * self.groups())
                    && self.n <= 256
                    && match self.bands {
                        Bands::Free => true,
                        Bands::Rows => self.blocks() == 1 || self.left_along_k,
                        Bands::Columns => false,
                    }
            }
            Unit::Warp { columns } => {
                matches!(self.warps, 1 | 2 | 4 | 8 | 16)
                    && self.warps.is_multiple_of(columns)
                    && self.m.is_multiple_of(16 * self.warps / columns)
                    && self.n.is_multiple_of(16 * columns)
                    && (self.left_along_k || self.m.is_multiple_of(self.box_rows()))
                    && match self.bands {
                        Bands::Free => true,
                        Bands::Rows => columns == 1,
                        Bands::Columns => columns == self.warps,
                    }
                    && self.input.bytes() >= 2
                    && (self.left_along_k && self.right_along_k || self.stride() <= self.step())
            }
        };
        split
            && self.m >= 16
            && self.m.is_multiple_of(16)
            && self.n >= 16
            && self.n.is_multiple_of(16)
            && self.lines(Side::Left).is_multiple_of(self.stride())
            && self.lines(Side::Right).is_multiple_of(self.stride())
            && (self.input.bytes() >= 2 || (self.left_along_k && self.right_along_k))
            // Two numbers for each element leave no room for many addresses.
            && (!matches!(self.input, Input::F32) || self.sums() <= 64 || (self.left_along_k && self.right_along_k))
            && self.blocks() > 0
            && self.sums() <= if self.input.bytes() == 1 { 96 } else { 128 }
    }

    /// Lines that the threadgroup moves at once, a chunk of 16 bytes a thread.
    pub const fn stride(&self) -> u32 {
        self.threads() / 8
    }

    /// The tile row of a warp's 16-row block is `index / 4` times the first, `index % 4` times the second (where the index is of the warp in its
    /// column of warps) and the block times the third of these.
    pub const fn row_steps(&self) -> (u32, u32, u32) {
        let of_warp = 16 * self.blocks();
        match self.unit {
            Unit::Warpgroup if !matches!(self.bands, Bands::Rows) => (WGMMA_ROWS * self.blocks(), 16, WGMMA_ROWS),
            _ => (4 * of_warp, of_warp, 16),
        }
    }

    /// The left operand's lines are not in the order of the tile's rows: `wgmma` gives rows 16·w of 64 to warp w, a band wants them elsewhere.
    pub const fn reordered(&self) -> bool {
        matches!(self.unit, Unit::Warpgroup) && matches!(self.bands, Bands::Rows) && self.blocks() > 1
    }

    /// Of a sum of a warp: its block of 8 rows, its block of 8 columns, and which of two neighbouring columns it is.
    pub const fn place_of(&self, sum: u32) -> (u32, u32, u32) {
        let (block, at) = (sum / 4 / (self.warp_columns() / 8), sum % 4);
        (2 * block + at / 2, sum / 4 % (self.warp_columns() / 8), at % 2)
    }

    /// The first of a thread's two sums in a 16-row block, a block of 8 columns and a half of 8 rows: the inverse of [`Self::place_of`].
    pub const fn sum_at(&self, block: u32, columns: u32, half: u32) -> usize {
        (4 * (block * (self.warp_columns() / 8) + columns) + 2 * half) as usize
    }

    /// The tile row of a line of the left operand, if K runs along memory.
    pub const fn row_of_line(&self, line: u32) -> u32 {
        if !self.reordered() {
            return line;
        }
        let (of_group, of_warp, of_block) = self.row_steps();
        let (slice, row) = (line / 16, line % 16);
        let (warp, block) = (slice % 4, slice / 4 % self.blocks());
        slice / (4 * self.blocks()) * of_group + warp * of_warp + block * of_block + row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Plan = Plan {
        m: 128,
        n: 256,
        warps: 8,
        unit: Unit::Warpgroup,
        input: Input::BF16,
        left_along_k: true,
        right_along_k: true,
        stages: 4,
        bands: Bands::Free,
    };

    #[test]
    fn large_tiles_fit_the_registers_and_the_shared_memory() {
        assert!(LARGE.fits());
        assert_eq!((LARGE.sums(), LARGE.stage_bytes()), (128, 48 * 1024));
        assert!(LARGE.shared_bytes() <= 227 * 1024);
        assert!(!Plan { n: 272, ..LARGE }.fits());
        assert!(!Plan { m: 64, ..LARGE }.fits());
    }

    #[test]
    fn bands_are_a_permutation_of_the_rows() {
        let plan = Plan {
            n: 128,
            warps: 4,
            bands: Bands::Rows,
            ..LARGE
        };
        assert!(plan.fits() && plan.reordered());
        let mut rows: Vec<u32> = (0..128).map(|line| plan.row_of_line(line)).collect();
        // Warp 1 of 64-row block 0 has lines 16…31, and its band begins at row 32; block 1 has the band's second half.
        assert_eq!((rows[16], rows[64 + 16]), (32, 48));
        rows.sort_unstable();
        assert!(rows.iter().copied().eq(0..128));
    }

    #[test]
    fn warps_cover_the_tile_once() {
        for unit in [Unit::Warpgroup, Unit::Warp { columns: 4 }, Unit::Warp { columns: 1 }] {
            for bands in [Bands::Free, Bands::Rows] {
                let plan = Plan {
                    n: 128,
                    unit,
                    bands,
                    ..LARGE
                };
                if !plan.fits() {
                    continue;
                }
                let (high, low, of_block) = plan.row_steps();
                let mut rows: Vec<u32> = (0..plan.warps / plan.column_warps())
                    .flat_map(|w| (0..plan.blocks()).map(move |b| w / 4 * high + w % 4 * low + b * of_block))
                    .collect();
                rows.sort_unstable();
                assert!(rows.iter().copied().eq((0..plan.m).step_by(16)), "{plan:?}");
            }
        }
    }
}
