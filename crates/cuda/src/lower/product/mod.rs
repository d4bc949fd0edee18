//! Products of tiles: `matmul2d`, `convolution2d`, `simdgroup_matrix`.
//!
//! The general path: each SIMD-group multiplies for itself, its operands straight from memory (or from the registers of cooperative tensors) in
//! `mma.sync`, or by fused multiply-adds where no tensor core is exact enough ([`unit`]). Operands in memory are [`lines`] along K; [`contract`] is
//! the loop over them, [`target`] where sums go. Faster paths of whole threadgroups are in [`staged`](super::staged).

mod contract;
mod convolution;
mod emit;
mod few;
mod few_decode;
mod few_ring;
mod fragments;
mod lines;
mod matrix8;
mod region;
mod scales;
mod shape;
mod target;
mod thread;
mod unit;

pub(super) use self::few::has_few_rows;

use anymetal_formats::ElementFormat;
use anymetal_ir::{CoopId, MatmulDescriptor, Operand, Scalar};

use self::contract::{Contraction, Side, Sums};
use self::emit::{Wide, Word, branch_if, def};
use self::fragments::Fragments;
use self::lines::{Feed, Lines, Map, feed_for};
use self::region::{Region, region};
use self::scales::{ScaleLines, Scales};
use self::target::{Target, clear_outside, store_to_tile};
use self::unit::Unit;
use super::check::AccessKind;
use super::coop::Storage;
use super::{ColumnMap, Lower, Result};
use crate::ptx;
use crate::ptx::Class;

/// K at most, so that positions in it stay in 32 bits.
const MAX_K: i64 = 0x7fff_ff00;

/// An operand before a tile of it is chosen.
enum Source {
    Memory(Region),
    Registers(CoopId),
}

impl Source {
    fn format(&self, l: &Lower) -> ElementFormat {
        match self {
            Source::Memory(region) => region.format,
            Source::Registers(id) => match l.kernel.coop(*id).element {
                Scalar::F16 => ElementFormat::F16,
                Scalar::BF16 => ElementFormat::BF16,
                Scalar::F32 => ElementFormat::F32,
                Scalar::I8 => ElementFormat::I8,
                Scalar::U8 => ElementFormat::U8,
                _ => ElementFormat::I32,
            },
        }
    }

    fn scaled(&self) -> bool {
        matches!(self, Source::Memory(region) if region.scales.is_some())
    }
}

/// A product whose operands are resolved.
struct Product<'a> {
    descriptor: &'a MatmulDescriptor,
    sources: [Source; 2],
    unit: Unit,
    /// How each operand is fed, and the maps of rows and columns.
    feeds: [Feed; 2],
    maps: [Map; 2],
    run: u32,
    elements: u32,
    /// Where K ends in memory, and K if it is known.
    end: Word,
    known_k: Option<u32>,
}

/// The dimension of a stored operand that its lines are counted along: rows of the left one, columns of the right one.
fn outer_dimension(descriptor: &MatmulDescriptor, right: bool) -> usize {
    match (
        right,
        if right {
            descriptor.transpose_right
        } else {
            descriptor.transpose_left
        },
    ) {
        (false, false) => 1,
        (false, true) => 0,
        (true, false) => 0,
        (true, true) => 1,
    }
}

/// The unit of a product: one that applies scales to sums of blocks of 32 along K, or fused multiply-adds where scales lie otherwise.
fn unit_of_sources(l: &Lower, descriptor: &MatmulDescriptor, sources: &[Source; 2]) -> Unit {
    let along_k = |(side, source): (usize, &Source)| match source {
        Source::Memory(region) => region.scales.as_ref().is_none_or(|scales| {
            let outer = outer_dimension(descriptor, side == 1);
            scales.block[outer] == 1 && scales.block[1 - outer] == 32
        }),
        Source::Registers(_) => true,
    };
    if !sources.iter().enumerate().all(along_k) {
        return Unit::Fma;
    }
    unit::unit_of(descriptor, sources[0].format(l), sources[1].format(l))
}

impl<'k> Lower<'k> {
    /// `matmul2d`.
    pub fn matmul(
        &mut self,
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        left: &Operand,
        right: &Operand,
        destination: &Operand,
    ) -> Result {
        if simdgroups == 0 {
            return self.matmul_of_threads(descriptor, left, right, destination);
        }
        let mut source = |operand: &Operand| match operand {
            Operand::Tensor(tensor) => region(self, tensor, AccessKind::Read).map(Source::Memory),
            Operand::Coop(id) => Ok(Source::Registers(*id)),
        };
        let sources = [source(left)?, source(right)?];
        if simdgroups == 1 {
            // What other lanes wrote is there.
            ptx!(self, "bar.warp.sync 0xffffffff");
        }
        match destination {
            Operand::Tensor(tensor) => {
                let target = region(self, tensor, AccessKind::Write)?;
                self.matmul_to_memory(descriptor, simdgroups, sources, &target)?;
            }
            Operand::Coop(id) => self.matmul_to_tile(descriptor, sources, *id)?,
        }
        if simdgroups == 1 && matches!(destination, Operand::Tensor(_)) {
            ptx!(self, "bar.warp.sync 0xffffffff");
        }
        Ok(())
    }

    /// Decides how to multiply: instruction, feeds, maps. `lines` are those of a tile by side, `free` says whose map may be chosen.
    fn plan<'a>(
        &mut self,
        descriptor: &'a MatmulDescriptor,
        sources: [Source; 2],
        lines: [u32; 2],
        free: [bool; 2],
        columns: ColumnMap,
    ) -> Result<Product<'a>> {
        let unit = unit_of_sources(self, descriptor, &sources);
        let scaled = unit != Unit::Fma && sources.iter().any(Source::scaled);
        let mut feeds = [Feed::Single; 2];
        let mut maps = [
            Map::Natural,
            if columns == ColumnMap::R { Map::R } else { Map::Natural },
        ];
        let mut registers_run = None;
        let mut along_bits = 0;
        for side in 0..2 {
            let transposed = [descriptor.transpose_left, descriptor.transpose_right][side];
            match &sources[side] {
                Source::Registers(id) => {
                    let tile = self.tile(*id);
                    let by_rows = (side == 0) != transposed;
                    if unit == Unit::Fma && tile.column_map == ColumnMap::R {
                        return self
                            .unsupported("a product in float of a cooperative input whose slots the kernel addresses");
                    }
                    let run = Fragments::natural_run(&tile, by_rows);
                    registers_run = Some(registers_run.map_or(run, |other: u32| other.max(run)));
                }
                Source::Memory(region) => {
                    // K runs along memory if it is dimension 0.
                    let along = outer_dimension(descriptor, side == 1) == 1;
                    let (feed, map) = feed_for(
                        region.format,
                        along,
                        free[side],
                        lines[side],
                        unit,
                        (side == 1).then(|| maps[1].accumulated()),
                    );
                    feeds[side] = feed;
                    if let Some(map) = map {
                        maps[side] = map;
                    }
                    if along {
                        along_bits = along_bits.max(region.bits());
                    }
                }
            }
        }
        let (run, elements) = match (registers_run, unit) {
            (Some(run), _) => (run, run),
            (None, Unit::Fma) => {
                // Wide tiles have their sums in most registers.
                let wide = lines[1] >= 64 && !descriptor.transpose_right;
                let run = if along_bits == 0 || wide { 2 } else { 4 };
                (run, run)
            }
            _ if scaled => (8, 8),
            _ => {
                let run = match along_bits {
                    0 => unit.per_lane(),
                    bits => (128 / bits).clamp(unit.per_lane(), 16),
                };
                (run, run)
            }
        };
        // Where K ends: what is missing counts as zero.
        let outer = [0, 1].map(|side| outer_dimension(descriptor, side == 1));
        let mut end = match descriptor.k {
            Some(k) => Wide::Known(k.into()),
            None => match &sources[0] {
                Source::Memory(region) => region.extents[1 - outer[0]],
                Source::Registers(id) => {
                    let coop = self.kernel.coop(*id);
                    Wide::Known(
                        if descriptor.transpose_left {
                            coop.rows
                        } else {
                            coop.columns
                        }
                        .into(),
                    )
                }
            },
        };
        let known_k = end.known().map(|k| k.clamp(0, MAX_K) as u32);
        for side in 0..2 {
            if let Source::Memory(region) = &sources[side] {
                end = end.min(self, region.valid[1 - outer[side]]);
            }
        }
        let end = match end.min(self, Wide::Known(MAX_K)) {
            Wide::Known(end) => Word::Known(end as i32),
            Wide::Reg(end) => Word::Reg(def!(self, B32, "cvt.u32.u64", "{end}")),
        };
        Ok(Product {
            descriptor,
            sources,
            unit,
            feeds,
            maps,
            run,
            elements,
            end,
            known_k,
        })
    }

    /// The sides of a tile that begins at some row and column, what of it is inside, its scales, and where its K ends.
    fn sides(
        &mut self,
        product: &Product<'_>,
        start: [Word; 2],
        lines: [u32; 2],
        most: [u32; 2],
        masked: bool,
    ) -> Result<(Vec<Side>, [Word; 2], Scales, Word)> {
        let mut sides = Vec::new();
        let mut inside = [Word::Known(lines[0] as i32), Word::Known(lines[1] as i32)];
        let mut scales = Scales::default();
        let mut end = product.end;
        for side in 0..2 {
            let transposed = [product.descriptor.transpose_left, product.descriptor.transpose_right][side];
            match &product.sources[side] {
                Source::Registers(id) => sides.push(Side::Registers(Fragments {
                    id: *id,
                    tile: self.tile(*id),
                    by_rows: (side == 0) != transposed,
                    right: side == 1,
                    wants_r: product.maps[side] == Map::R,
                    run: product.run,
                })),
                Source::Memory(region) => {
                    let outer = outer_dimension(product.descriptor, side == 1);
                    let mut bounded = region.clone();
                    bounded.valid[outer] = region.valid[outer].min(self, Wide::Known(most[side].into()));
                    inside[side] = bounded.inside(self, outer, start[side], Some(lines[side]));
                    let fma = product.unit == Unit::Fma;
                    let map = if fma && side == 1 {
                        product.maps[1].accumulated()
                    } else {
                        product.maps[side]
                    };
                    let blocks = lines[side].div_ceil(8);
                    let blocks = if product.maps[side] == Map::R {
                        blocks.next_multiple_of(2)
                    } else {
                        blocks
                    };
                    if region.scales.is_some() && !fma {
                        let (map, count) = if side == 1 {
                            (product.maps[1].accumulated(), 2 * blocks)
                        } else {
                            (map, blocks)
                        };
                        let lines = ScaleLines::new(self, region, outer, map, count, start[side], inside[side]);
                        let Some(lines) = lines else {
                            return self
                                .unsupported("a product with block scales that do not run along K in blocks of 32");
                        };
                        if side == 0 {
                            scales.left = Some(lines)
                        } else {
                            scales.right = Some(lines)
                        }
                    }
                    if inside[side] != Word::Known(lines[side] as i32) {
                        // Nothing is read of an operand without lines.
                        end = match (inside[side], end) {
                            (Word::Known(0), _) => Word::Known(0),
                            (Word::Known(_), end) => end,
                            (Word::Reg(inside), end) => {
                                let none = def!(self, Pred, "setp.eq.s32", "{inside}, 0");
                                Word::Reg(def!(self, B32, "selp.b32", "0, {end}, {none}"))
                            }
                        };
                    }
                    sides.push(Side::Memory(Box::new(Lines {
                        region: region.clone(),
                        outer,
                        k: 1 - outer,
                        map,
                        blocks: if fma && side == 1 { 2 * blocks } else { blocks },
                        start: start[side],
                        inside: inside[side],
                        lines: lines[side],
                        masked,
                        places: None,
                        feed: product.feeds[side],
                        scaled: fma && region.scales.is_some(),
                        whole: fma,
                    })));
                }
            }
        }
        Ok((sides, inside, scales, end))
    }

    fn matmul_to_tile(&mut self, descriptor: &MatmulDescriptor, sources: [Source; 2], id: CoopId) -> Result {
        let tile = self.tile(id);
        let lines = [tile.band_rows, tile.band_columns];
        let product = self.plan(descriptor, sources, lines, [false; 2], tile.column_map)?;
        let in_place = tile.storage == Storage::Single && tile.element == product.unit.sum();
        let start = |l: &mut Lower, split: bool, band: u32| match split && tile.simdgroups > 1 {
            true => {
                let simdgroup = l.geometry.simdgroup;
                Word::Reg(def!(l, B32, "mul.lo.u32", "{simdgroup}, {band}"))
            }
            false => Word::Known(0),
        };
        let start = [
            start(self, tile.by_rows, tile.band_rows),
            start(self, !tile.by_rows, tile.band_columns),
        ];
        let accumulating = in_place && descriptor.accumulate;
        let (sides, inside, scales, end) =
            self.sides(&product, start, lines, [tile.rows, tile.columns], accumulating)?;
        let sums = if in_place {
            let sums = Sums {
                row_blocks: tile.row_blocks,
                column_blocks: tile.column_blocks,
                regs: self.tile_registers(id),
            };
            if !descriptor.accumulate {
                sums.clear(self);
            }
            sums
        } else {
            Sums::zero(
                self,
                tile.row_blocks,
                tile.column_blocks,
                Class::of_scalar(product.unit.sum()),
            )
        };
        self.contract(&product, &sides, &sums, &scales, end);
        if !accumulating {
            let maps = [product.maps[0], product.maps[1].accumulated()];
            clear_outside(self, &sums, maps, inside, lines);
        }
        if !in_place {
            store_to_tile(self, id, &sums, descriptor.accumulate);
        }
        Ok(())
    }

    fn contract(&mut self, product: &Product<'_>, sides: &[Side], sums: &Sums, scales: &Scales, end: Word) {
        let scaled = scales.left.is_some() || scales.right.is_some();
        Contraction {
            unit: product.unit,
            left: &sides[0],
            right: &sides[1],
            sums,
            end,
            known: product.known_k,
            run: product.run,
            elements: product.elements,
            scales: scaled.then_some(scales),
        }
        .emit(self);
    }

    /// The SIMD-groups share out the tiles of a destination in memory.
    fn matmul_to_memory(
        &mut self,
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        sources: [Source; 2],
        target: &Region,
    ) -> Result {
        let unit = unit_of_sources(self, descriptor, &sources);
        let size = [descriptor.m, descriptor.n];
        // An operand in registers belongs to one SIMD-group and is one tile.
        let registers = [0, 1].map(|side| matches!(sources[side], Source::Registers(_)));
        let scaled = sources
            .iter()
            .any(|source| matches!(source, Source::Memory(region) if region.scales.is_some()));
        let shape = shape::tile(self, unit, size, simdgroups, registers, scaled);
        let free = [!registers[0], !registers[1]];
        let product = self.plan(descriptor, sources, shape.lines, free, ColumnMap::Natural)?;
        let columns = size[1].div_ceil(shape.lines[1]);
        let total = size[0].div_ceil(shape.lines[0]) * columns;
        let done = self.writer.label();
        let number = if simdgroups > 1 {
            let number = self.copy(self.geometry.simdgroup);
            if total < simdgroups {
                let none = def!(self, Pred, "setp.ge.u32", "{number}, {total}");
                branch_if(self, none, done);
            }
            Word::Reg(number)
        } else if total > 1 {
            Word::Reg(self.u32(0))
        } else {
            Word::Known(0)
        };
        let again = self.writer.label();
        self.writer.place(again);
        let start = match number {
            Word::Known(_) => [Word::Known(0); 2],
            Word::Reg(number) => {
                let (row, column) = if columns == 1 {
                    (Word::Reg(number), Word::Known(0))
                } else {
                    let row = def!(self, B32, "div.u32", "{number}, {columns}");
                    let before = def!(self, B32, "mul.lo.u32", "{row}, {columns}");
                    let column = def!(self, B32, "sub.u32", "{number}, {before}");
                    (Word::Reg(row), Word::Reg(column))
                };
                let first = |l: &mut Lower, at: Word, lines: u32| match at {
                    Word::Known(at) => Word::Known(at * lines as i32),
                    Word::Reg(at) => Word::Reg(def!(l, B32, "mul.lo.u32", "{at}, {lines}")),
                };
                [first(self, row, shape.lines[0]), first(self, column, shape.lines[1])]
            }
        };
        let (sides, inside, scales, end) = self.sides(&product, start, shape.lines, size, false)?;
        let blocks = shape.lines.map(|lines| lines.div_ceil(8));
        let sums = Sums::zero(self, blocks[0], blocks[1], Class::of_scalar(product.unit.sum()));
        self.contract(&product, &sides, &sums, &scales, end);
        let maps = [product.maps[0], product.maps[1].accumulated()];
        clear_outside(self, &sums, maps, inside, shape.lines);
        let mut clipped = target.clone();
        for (dimension, most) in [(0, descriptor.n), (1, descriptor.m)] {
            clipped.valid[dimension] = target.valid[dimension].min(self, Wide::Known(most.into()));
        }
        Target {
            region: &clipped,
            rows: maps[0],
            columns: maps[1],
            start,
            size: shape.lines,
            accumulate: descriptor.accumulate,
            places: None,
        }
        .store(self, &sums);
        if let Word::Reg(number) = number
            && total > simdgroups
        {
            ptx!(self, "add.u32 {number}, {number}, {simdgroups}");
            let more = def!(self, Pred, "setp.lt.u32", "{number}, {total}");
            branch_if(self, more, again);
        }
        self.writer.place(done);
        Ok(())
    }
}
