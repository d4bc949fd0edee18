//! `convolution2d` as a product: a row for each place of the destination, K over channels, in a loop over the places of the kernel.

use anymetal_ir::{ConvolutionDescriptor, MatmulDescriptor, Operand, TensorRef, ValueId};

use super::contract::{Contraction, Side, Sums};
use super::emit::{Wide, Word, both, branch_if, def};
use super::lines::{Feed, Lines, Map, feed_for};
use super::region::{Region, region, wide};
use super::target::{Target, clear_outside, store_to_tile};
use super::unit::Unit;
use super::{MAX_K, shape};
use crate::lower::check::AccessKind;
use crate::lower::coop::Storage;
use crate::lower::{ColumnMap, Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// A place of the destination: coordinates x, y and batch, of a row of the product.
#[derive(Clone, Copy)]
struct Place {
    x: Reg,
    y: Reg,
    n: Reg,
}

/// What all tiles of a convolution share.
struct Convolution<'a> {
    d: &'a ConvolutionDescriptor,
    offsets: [Word; 2],
    activation: Region,
    weights: Region,
    unit: Unit,
    feed: Feed,
    columns: Map,
    run: u32,
    /// Channels that both operands have.
    end: Word,
    /// Width, height and batch of the activation, as far as it is there.
    bounds: [Word; 3],
    /// Kernel places along x and y that the weights have.
    kernel: [Word; 2],
}

fn word(l: &mut Lower, value: Wide) -> Word {
    match value {
        Wide::Known(value) => Word::Known(value as i32),
        Wide::Reg(value) => Word::Reg(def!(l, B32, "cvt.u32.u64", "{value}")),
    }
}

impl Lower<'_> {
    /// `convolution2d`.
    pub fn convolution(
        &mut self,
        descriptor: &ConvolutionDescriptor,
        simdgroups: u32,
        offsets: [ValueId; 2],
        activation: &TensorRef,
        weights: &TensorRef,
        destination: &Operand,
    ) -> Result {
        let d = descriptor;
        let Some(product) = d.as_product() else {
            return self.unsupported("a convolution of more than 2³² places");
        };
        if activation.origin.len() != 4 || weights.origin.len() != 4 {
            return self.unsupported("a convolution of tensors of another rank than 4");
        }
        let activation = region(self, activation, AccessKind::Read)?;
        let weights = region(self, weights, AccessKind::Read)?;
        let unit = Unit::choose(activation.format, weights.format, d.relaxed_precision);
        let offsets = offsets.map(|offset| match wide(self, offset) {
            Wide::Known(bits) => Word::Known(bits as i32),
            Wide::Reg(reg) => Word::Reg(reg),
        });
        let mut bounds = [Word::Known(0); 3];
        for (axis, bound) in bounds.iter_mut().enumerate() {
            let size = activation.valid[1 + axis].min(self, Wide::Known(d.source[1 + axis].into()));
            *bound = word(self, size);
        }
        let kernel = [0, 1].map(|axis| {
            let size = weights.valid[2 + axis].min(self, Wide::Known(d.kernel[axis].into()));
            word(self, size)
        });
        let channels = activation.valid[0].min(self, weights.valid[1]);
        let channels = channels.min(self, Wide::Known(i64::from(d.source[0]).min(MAX_K)));
        let mut end = word(self, channels);
        // Without a single element of the activation there is nothing that a row outside could be read from instead.
        for bound in bounds {
            end = match bound {
                Word::Known(0) => Word::Known(0),
                Word::Known(_) => end,
                Word::Reg(bound) => {
                    let none = def!(self, Pred, "setp.eq.s32", "{bound}, 0");
                    Word::Reg(def!(self, B32, "selp.b32", "0, {end}, {none}"))
                }
            };
        }
        let mut convolution = Convolution {
            d,
            offsets,
            activation,
            weights,
            unit,
            feed: Feed::Single,
            columns: Map::Natural,
            run: 0,
            end,
            bounds,
            kernel,
        };
        match destination {
            Operand::Tensor(tensor) => {
                let target = region(self, tensor, AccessKind::Write)?;
                convolution.store_in_memory(self, &product, simdgroups, &target)
            }
            Operand::Coop(id) => {
                let tile = self.tile(*id);
                let lines = [tile.band_rows, tile.band_columns];
                if tile.column_map == ColumnMap::R {
                    convolution.columns = Map::R;
                }
                convolution.choose_feed(false, lines[1]);
                let split = |l: &mut Lower, split: bool, band: u32| match split && tile.simdgroups > 1 {
                    true => {
                        let simdgroup = l.geometry.simdgroup;
                        Word::Reg(def!(l, B32, "mul.lo.u32", "{simdgroup}, {band}"))
                    }
                    false => Word::Known(0),
                };
                let start = [
                    split(self, tile.by_rows, tile.band_rows),
                    split(self, !tile.by_rows, tile.band_columns),
                ];
                let in_place = tile.storage == Storage::Single && tile.element == unit.sum();
                let accumulating = in_place && d.accumulate;
                let sums = if in_place {
                    let sums = Sums {
                        row_blocks: tile.row_blocks,
                        column_blocks: tile.column_blocks,
                        regs: self.tile_registers(*id),
                    };
                    if !d.accumulate {
                        sums.clear(self);
                    }
                    sums
                } else {
                    Sums::zero(self, tile.row_blocks, tile.column_blocks, Class::of_scalar(unit.sum()))
                };
                convolution.sum(self, &sums, start, lines, [product.m, product.n], accumulating);
                if !in_place {
                    store_to_tile(self, *id, &sums, d.accumulate);
                }
                Ok(())
            }
        }
    }
}

impl Convolution<'_> {
    fn choose_feed(&mut self, free: bool, columns: u32) {
        let (feed, map) = feed_for(self.weights.format, false, free, columns, self.unit, None);
        self.feed = feed;
        if let Some(map) = map {
            self.columns = map;
        }
        let bits = self.activation.bits();
        self.run = match self.unit {
            Unit::Fma => 4,
            unit => (128 / bits).clamp(unit.per_lane(), 16),
        };
    }

    fn store_in_memory(
        &mut self,
        l: &mut Lower,
        product: &MatmulDescriptor,
        simdgroups: u32,
        target: &Region,
    ) -> Result {
        let size = [product.m, product.n];
        let shape = shape::tile(l, self.unit, size, simdgroups, [false; 2], false);
        self.choose_feed(true, shape.lines[1]);
        let columns = size[1].div_ceil(shape.lines[1]);
        let total = size[0].div_ceil(shape.lines[0]).saturating_mul(columns);
        let (again, done) = (l.writer.label(), l.writer.label());
        let number = match simdgroups {
            1 => l.u32(0),
            _ => l.copy(l.geometry.simdgroup),
        };
        l.writer.place(again);
        let finished = def!(l, Pred, "setp.ge.u32", "{number}, {total}");
        branch_if(l, finished, done);
        let row = def!(l, B32, "div.u32", "{number}, {columns}");
        let before = def!(l, B32, "mul.lo.u32", "{row}, {columns}");
        let column = def!(l, B32, "sub.u32", "{number}, {before}");
        let start = [
            Word::Reg(def!(l, B32, "mul.lo.u32", "{row}, {}", shape.lines[0])),
            Word::Reg(def!(l, B32, "mul.lo.u32", "{column}, {}", shape.lines[1])),
        ];
        let blocks = shape.lines.map(|lines| lines.div_ceil(8));
        let sums = Sums::zero(l, blocks[0], blocks[1], Class::of_scalar(self.unit.sum()));
        self.sum(l, &sums, start, shape.lines, size, false);
        let mut clipped = target.clone();
        clipped.valid[0] = target.valid[0].min(l, Wide::Known(product.n.into()));
        let places = (0..blocks[0])
            .map(|rb| {
                let (row, place) = self.place(l, start[0], rb);
                let mut inside = def!(l, Pred, "setp.lt.u32", "{row}, {}", product.m);
                let mut index = target.first;
                for (axis, at) in [place.x, place.y, place.n].into_iter().enumerate() {
                    let valid = target.inside(l, 1 + axis, Word::Known(0), None);
                    let there = def!(l, Pred, "setp.lt.s32", "{at}, {valid}");
                    inside = both(l, Some(inside), Some(there)).unwrap_or(inside);
                    let at = Word::Reg(at).widen(l);
                    let offset = at.mul(l, target.strides[1 + axis]);
                    index = index.add(l, offset);
                }
                let mask = def!(l, B32, "selp.b32", "-1, 0, {inside}");
                (index.reg(l), mask)
            })
            .collect();
        Target {
            region: &clipped,
            rows: Map::Natural,
            columns: self.columns.accumulated(),
            start,
            size: shape.lines,
            accumulate: self.d.accumulate,
            places: Some(places),
        }
        .store(l, &sums);
        ptx!(l, "add.u32 {number}, {number}, {simdgroups}");
        ptx!(l, "bra.uni {again}");
        l.writer.place(done);
        Ok(())
    }

    /// The row of this lane's row block, and the place that it is.
    fn place(&self, l: &mut Lower, start: Word, rb: u32) -> (Reg, Place) {
        let [_, width, height, _] = self.d.destination;
        let line = Map::Natural.line(l, rb);
        let row = start.add(l, Word::Reg(line)).reg(l);
        let divide = |l: &mut Lower, n: Reg, by: u32| -> (Reg, Reg) {
            let quotient = def!(l, B32, "div.u32", "{n}, {by}");
            let whole = def!(l, B32, "mul.lo.u32", "{quotient}, {by}");
            (quotient, def!(l, B32, "sub.u32", "{n}, {whole}"))
        };
        let (rest, x) = divide(l, row, width);
        let (n, y) = divide(l, rest, height);
        (row, Place { x, y, n })
    }

    /// `sums +=` the products of all kernel places for a tile of rows and columns from `start` on.
    fn sum(&self, l: &mut Lower, sums: &Sums, start: [Word; 2], lines: [u32; 2], most: [u32; 2], masked: bool) {
        let d = self.d;
        let mut weights = self.weights.clone();
        weights.valid[0] = weights.valid[0].min(l, Wide::Known(most[1].into()));
        let inside = weights.inside(l, 0, start[1], Some(lines[1]));
        let end = match inside {
            Word::Known(0) => Word::Known(0),
            Word::Known(_) => self.end,
            Word::Reg(inside) => {
                let none = def!(l, Pred, "setp.eq.s32", "{inside}, 0");
                Word::Reg(def!(l, B32, "selp.b32", "0, {}, {none}", self.end))
            }
        };
        let places: Vec<(Reg, Place)> = (0..sums.row_blocks).map(|rb| self.place(l, start[0], rb)).collect();
        let (kx, ky) = (l.u32(0), l.u32(0));
        let (rows, row_done) = (l.writer.label(), l.writer.label());
        let (places_again, places_done) = (l.writer.label(), l.writer.label());
        l.writer.place(rows);
        let finished = def!(l, Pred, "setp.ge.s32", "{ky}, {}", self.kernel[1]);
        branch_if(l, finished, row_done);
        ptx!(l, "mov.b32 {kx}, 0");
        l.writer.place(places_again);
        let finished = def!(l, Pred, "setp.ge.s32", "{kx}, {}", self.kernel[0]);
        branch_if(l, finished, places_done);

        // Where this place of the kernel falls, less what the row adds.
        let shift = [(kx, 0), (ky, 1)].map(|(k, axis)| {
            let dilation = d.dilations[axis] as i32;
            let centre = (d.kernel[axis] as i32 - 1) * dilation / 2;
            let along = def!(l, B32, "mad.lo.s32", "{k}, {dilation}, {}", -centre);
            Word::Reg(along).add(l, self.offsets[axis])
        });
        let begins = places
            .iter()
            .map(|&(row, place)| {
                let mut index = self.activation.first;
                let mut inside = def!(l, Pred, "setp.lt.u32", "{row}, {}", most[0]);
                for (axis, at) in [(0, place.x), (1, place.y), (2, place.n)] {
                    let at = match axis {
                        2 => at,
                        axis => {
                            let shift = shift[axis];
                            def!(l, B32, "mad.lo.s32", "{at}, {}, {shift}", d.strides[axis])
                        }
                    };
                    // Unsigned, so that places before the first are outside too.
                    let there = def!(l, Pred, "setp.lt.u32", "{at}, {}", self.bounds[axis]);
                    inside = both(l, Some(inside), Some(there)).unwrap_or(inside);
                    let at = Word::Reg(at).widen(l);
                    let offset = at.mul(l, self.activation.strides[1 + axis]);
                    index = index.add(l, offset);
                }
                let index = index.reg(l);
                let first = self.activation.first.reg(l);
                let index = def!(l, B64, "selp.b64", "{index}, {first}, {inside}");
                (index, def!(l, B32, "selp.b32", "-1, 0, {inside}"))
            })
            .collect();
        for (k, dimension) in [(kx, 2), (ky, 3)] {
            let at = Word::Reg(k).widen(l);
            let offset = at.mul(l, weights.strides[dimension]);
            weights.first = weights.first.add(l, offset);
        }
        let fma = self.unit == Unit::Fma;
        let left = Side::Memory(Box::new(Lines {
            region: self.activation.clone(),
            outer: 1,
            k: 0,
            map: Map::Natural,
            blocks: sums.row_blocks,
            start: Word::Known(0),
            inside: Word::Known(lines[0] as i32),
            lines: lines[0],
            masked: true,
            places: Some(begins),
            feed: Feed::Along,
            scaled: false,
            whole: fma,
        }));
        let right = Side::Memory(Box::new(Lines {
            region: weights,
            outer: 0,
            k: 1,
            map: if fma { self.columns.accumulated() } else { self.columns },
            blocks: if fma {
                2 * sums.column_blocks
            } else {
                sums.column_blocks
            },
            start: start[1],
            inside,
            lines: lines[1],
            masked,
            places: None,
            feed: self.feed,
            scaled: false,
            whole: fma,
        }));
        Contraction {
            unit: self.unit,
            left: &left,
            right: &right,
            sums,
            end,
            known: None,
            run: self.run,
            elements: self.run,
            scales: None,
        }
        .emit(l);
        ptx!(l, "add.s32 {kx}, {kx}, 1");
        ptx!(l, "bra.uni {places_again}");
        l.writer.place(places_done);
        ptx!(l, "add.s32 {ky}, {ky}, 1");
        ptx!(l, "bra.uni {rows}");
        l.writer.place(row_done);
        if !masked {
            let maps = [Map::Natural, self.columns.accumulated()];
            clear_outside(l, sums, maps, [Word::Known(lines[0] as i32), inside], lines);
        }
    }
}
