//! `convolution2d`: the activation's elements are laid out as the rows of a matrix (one for each place of the destination tile, with all
//! kernel places and channels), which is multiplied with the weights as they lie. Also loads and stores of its rank-4 tiles.

use std::ops::Range;

use anymetal_formats::ElementFormat;
use anymetal_ir::ConvolutionDescriptor;

use super::coop_io::Region;
use super::matmul::{Target, format_of};
use super::panels::{PanelKey, fresh};
use super::{Outcome, Worker, raise, read, write};
use crate::compile::program::{Convolution, TileOperand, View, ViewExtent};
use crate::fault::{AccessKind, FaultKind};
use crate::tile::{Accumulation, AccumulatorMut, OperandView, PackedRight, Product, TileError, multiply_view};

/// Bytes of the activation's matrix that are laid out at a time.
const PANEL_BYTES: usize = 512 << 10;

/// Rows that are laid out at a time at least, as long as they have no more bytes than this.
const PANEL_ROWS: usize = 32;
const PANEL_LIMIT: usize = 16 << 20;

/// Memory that convolutions reuse.
#[derive(Default)]
pub(super) struct Buffers {
    /// Rows of the activation's matrix; as words, so that they are aligned.
    rows: Vec<u64>,
    right: PackedRight,
    sums_f32: Vec<f32>,
    sums_i32: Vec<i32>,
}

/// A view of rank 1 to 4 as one lane sees it, with its valid part checked against its memory. Dimensions that it does not
/// have are of extent 1 and stride 0.
#[derive(Clone, Copy, Debug)]
struct Region4 {
    format: ElementFormat,
    /// Address of element 0 of the base.
    base: *mut u8,
    pointer: u64,
    origin: [i64; 4],
    extents: [usize; 4],
    valid: [usize; 4],
    /// In elements.
    strides: [i64; 4],
}

impl Region4 {
    /// Address of a valid element. Formats have whole bytes here.
    fn address(&self, at: [usize; 4]) -> *mut u8 {
        let index: i64 = (0..4).map(|d| (self.origin[d] + at[d] as i64) * self.strides[d]).sum();
        let bytes = (self.format.bits() / 8) as i64;
        self.base.wrapping_offset((index * bytes) as isize)
    }

    /// The same for the executor's counters of memory traffic.
    fn flat(&self, sizes: [usize; 4]) -> Region {
        let elements = (0..4).map(|d| self.valid[d].min(sizes[d])).product();
        Region {
            format: self.format,
            base: self.base,
            pointer: self.pointer,
            origin: [0; 2],
            extents: [elements, 1],
            valid: [elements, 1],
            strides: [1, 0],
            scales: None,
        }
    }
}

/// A part of the weights that is a matrix as it lies: rows are channels of one kernel place after another.
struct Block {
    /// Kernel places, counted along x first.
    places: Range<usize>,
    /// Address of its first element.
    base: *mut u8,
    rows: usize,
    valid_rows: usize,
}

/// The weights as matrices: one if kernel places follow each other in memory, else one for each place.
fn blocks(d: &ConvolutionDescriptor, weights: &Region4) -> Vec<Block> {
    let [kw, kh] = d.kernel.map(|k| k as usize);
    let channels = d.source[0] as usize;
    let valid_channels = channels.min(weights.valid[1]);
    if weights.valid.contains(&0) {
        return Vec::new();
    }
    let strides = weights.strides;
    let follow = weights.valid[1..]
        == [
            weights.valid[1].max(channels),
            weights.valid[2].max(kw),
            weights.valid[3].max(kh),
        ]
        && (kw == 1 || strides[2] == channels as i64 * strides[1])
        && (kh == 1 || strides[3] == (channels * kw) as i64 * strides[1]);
    if follow {
        return vec![Block {
            places: 0..kw * kh,
            base: weights.address([0; 4]),
            rows: channels * kw * kh,
            valid_rows: channels * kw * kh,
        }];
    }
    (0..kw * kh)
        .filter(|at| at % kw < weights.valid[2] && at / kw < weights.valid[3])
        .map(|at| Block {
            places: at..at + 1,
            base: weights.address([0, 0, at % kw, at / kw]),
            rows: channels,
            valid_rows: valid_channels,
        })
        .collect()
}

/// The activation as a convolution reads it.
struct Source<'s> {
    d: &'s ConvolutionDescriptor,
    region: Region4,
    offsets: [i64; 2],
}

impl Source<'_> {
    /// Where a kernel place falls in dimension `axis` (0 is x), for a place of the destination; `None` outside.
    fn place(&self, axis: usize, at: usize, k: usize) -> Option<usize> {
        let d = self.d;
        let (kernel, dilation) = (i64::from(d.kernel[axis]), i64::from(d.dilations[axis]));
        let place = self.offsets[axis] + i64::from(d.strides[axis]) * at as i64 + dilation * k as i64
            - (kernel - 1) * dilation / 2;
        let size = self.region.valid[1 + axis].min(d.source[1 + axis] as usize);
        usize::try_from(place).ok().filter(|&place| place < size)
    }

    /// Lays out some rows of the matrix, with the channels of some kernel places in each.
    ///
    /// # Safety
    /// The region's valid part must be readable; `out` must have room for the rows.
    unsafe fn lay_out(&self, rows: Range<usize>, places: &Range<usize>, out: &mut [u8]) {
        let d = self.d;
        let region = &self.region;
        let size = region.format.bits() / 8;
        let (width, height) = (d.destination[1] as usize, d.destination[2] as usize);
        let kw = d.kernel[0] as usize;
        let channels = d.source[0] as usize;
        let valid = channels.min(region.valid[0]);
        let batch = region.valid[3].min(d.source[3] as usize);
        let line = channels * places.len() * size;
        // Kernel places side by side are side by side in the activation too.
        let runs = region.strides[0] == 1
            && region.strides[1] == channels as i64
            && valid == channels
            && d.dilations[0] == 1
            && places.len().is_multiple_of(kw);
        out[..rows.len() * line].fill(0);
        for (i, row) in rows.enumerate() {
            let (x, y, n) = (row % width, row / width % height, row / (width * height));
            if n >= batch {
                continue;
            }
            let out = &mut out[i * line..][..line];
            let mut at = places.start;
            while at < places.end {
                let (kx, ky) = (at % kw, at / kw);
                let step = if runs { kw } else { 1 };
                let to = (at - places.start) * channels * size;
                at += step;
                let Some(sy) = self.place(1, y, ky) else { continue };
                // The first and last place along x that are inside.
                let mut inside = (kx..kx + step).filter_map(|k| Some((k, self.place(0, x, k)?)));
                let Some((first, sx)) = inside.next() else { continue };
                let count = 1 + inside.count();
                let to = &mut out[to + (first - kx) * channels * size..];
                let from = region.address([0, sx, sy, n]);
                // SAFETY: the elements are in the valid part; with runs they follow each other.
                unsafe {
                    if region.strides[0] == 1 {
                        let bytes = if runs { count * channels } else { valid } * size;
                        std::ptr::copy_nonoverlapping(from, to[..bytes].as_mut_ptr(), bytes);
                        continue;
                    }
                    for c in 0..valid {
                        let value = read(region.address([c, sx, sy, n]), size as u8);
                        write(to[c * size..][..size].as_mut_ptr(), size as u8, value);
                    }
                }
            }
        }
    }
}

/// Consecutive elements of a view of rank 4.
pub(super) struct Run4 {
    /// Object and offset of the base.
    pub pointer: u64,
    pub address: usize,
    pub bytes: usize,
}

impl<'d> Worker<'d> {
    /// The elements of a part of a view that are in its tensor, for the sanitizer; none if the view itself is wrong.
    pub(super) fn runs4(&mut self, view: &View, lane: usize, access: AccessKind, part: [Range<usize>; 4]) -> Vec<Run4> {
        let Ok(region) = self.region4(view, lane, access) else {
            return Vec::new();
        };
        let [channels, x, y, n]: [Range<usize>; 4] =
            std::array::from_fn(|d| part[d].start.min(region.valid[d])..part[d].end.min(region.valid[d]));
        let size = region.format.bits() / 8;
        let step = if region.strides[0] == 1 { channels.len() } else { 1 };
        let mut out = Vec::new();
        for n in n {
            for y in y.clone() {
                for x in x.clone() {
                    out.extend(channels.clone().step_by(step.max(1)).map(|c| Run4 {
                        pointer: region.pointer,
                        address: region.address([c, x, y, n]) as usize,
                        bytes: step * size,
                    }));
                }
            }
        }
        out
    }

    /// As [`Worker::region`], for views of up to four dimensions.
    fn region4(&mut self, view: &View, lane: usize, access: AccessKind) -> Outcome<Region4> {
        let rank = view.origin.len();
        if !(1..=4).contains(&rank) || view.format.bits() < 8 {
            let reason = format!(
                "tensor '{}' of rank {rank} with elements of {} in a convolution; it takes rank 4 and whole bytes",
                view.name,
                view.format.msl_name()
            );
            return raise(FaultKind::TileOperation { reason }, lane);
        }
        let value = |worker: &Self, reg| worker.lane_value(reg, lane) as i64;
        let base_extents: Vec<i64> = view.base_extents.iter().map(|&reg| value(self, reg)).collect();
        let origins: Vec<i64> = view.origin.iter().map(|&reg| value(self, reg)).collect();
        let mut region = Region4 {
            format: view.format,
            base: std::ptr::null_mut(),
            pointer: self.lane_value(view.pointer, lane),
            origin: [0; 4],
            extents: [1; 4],
            valid: [1; 4],
            strides: [0; 4],
        };
        for d in 0..rank {
            let origin = origins[d];
            let rest = base_extents[d].saturating_sub(origin).max(0);
            let (own, is_static) = match view.extents[d] {
                ViewExtent::Rest => (rest, false),
                ViewExtent::Dynamic(reg) => (value(self, reg).max(0), false),
                ViewExtent::Static(extent) => (extent as i64, true),
            };
            if is_static && (own > rest || origin < 0) && !self.shared.options.static_overhang_zero {
                let kind = FaultKind::StaticOverhang {
                    tensor: view.name.clone(),
                    dimension: d as u32,
                    origin,
                    extent: own,
                    tensor_extents: base_extents,
                };
                return raise(kind, lane);
            }
            if origin < 0 {
                let kind = FaultKind::TensorIndex {
                    access,
                    tensor: view.name.clone(),
                    coordinates: origins,
                    extents: base_extents,
                };
                return raise(kind, lane);
            }
            region.origin[d] = origin;
            region.extents[d] = own as usize;
            region.valid[d] = own.min(rest) as usize;
            region.strides[d] = value(self, view.strides[d]);
        }
        if region.valid.contains(&0) {
            region.valid = [0; 4];
        }
        region.base = self.span(
            region.pointer,
            view.format.bits(),
            region.origin,
            region.valid,
            region.strides,
            [1; 4],
            access,
            lane,
        )?;
        Ok(region)
    }

    pub(super) fn convolution(&mut self, conv: &'d Convolution) -> Outcome {
        let d = &conv.descriptor;
        let sizes = |list: [u32; 4]| list.map(|size| size as usize);
        for (instance, lane) in self.active_instances(conv.simdgroups as usize) {
            let offsets = conv
                .offsets
                .map(|reg| i64::from(self.lane_value(reg, lane) as u32 as i32));
            let activation = self.region4(&conv.activation, lane, AccessKind::Read)?;
            let weights = self.region4(&conv.weights, lane, AccessKind::Read)?;
            self.note_region(&activation.flat(sizes(d.source)), false);
            let kernel = [d.destination[0], d.source[0], d.kernel[0], d.kernel[1]];
            self.note_region(&weights.flat(sizes(kernel)), false);
            let targets = self.targets(conv, instance, lane)?;
            let source = Source {
                d,
                region: activation,
                offsets,
            };
            let result = self.convolve(&source, &weights, &targets, conv.share_weights);
            if let Err(error) = result {
                let reason = error.to_string();
                return raise(FaultKind::TileOperation { reason }, lane);
            }
        }
        Ok(())
    }

    /// Where the rows of a convolution go: each part with the number of its first row.
    fn targets(&mut self, conv: &Convolution, instance: usize, lane: usize) -> Outcome<Vec<(usize, Target)>> {
        let [columns, width, height, batch] = conv.descriptor.destination.map(|size| size as usize);
        match &conv.destination {
            TileOperand::Coop(coop) => {
                let tile = self.tiles[*coop as usize];
                let rows = width * height * batch;
                if (tile.rows, tile.columns) != (rows, columns) {
                    let reason = format!(
                        "a convolution of {rows} × {columns} elements into a cooperative tensor of {} × {}",
                        tile.rows, tile.columns
                    );
                    return raise(FaultKind::TileOperation { reason }, lane);
                }
                let target = Target {
                    base: tile.instance(instance),
                    format: format_of(self.shared.coops[*coop as usize].coop.element),
                    rows,
                    columns,
                    row_stride: columns as i64,
                    column_stride: 1,
                };
                Ok(vec![(0, target)])
            }
            TileOperand::View(view) => {
                let region = self.region4(view, lane, AccessKind::Write)?;
                self.note_region(&region.flat([columns, width, height, batch]), true);
                let lines =
                    (0..batch.min(region.valid[3])).flat_map(|n| (0..height.min(region.valid[2])).map(move |y| (n, y)));
                Ok(lines
                    .map(|(n, y)| {
                        let target = Target {
                            base: region.address([0, 0, y, n]),
                            format: region.format,
                            rows: width.min(region.valid[1]),
                            columns: columns.min(region.valid[0]),
                            row_stride: region.strides[1],
                            column_stride: region.strides[0],
                        };
                        ((n * height + y) * width, target)
                    })
                    .collect())
            }
        }
    }

    fn convolve(
        &mut self,
        source: &Source<'_>,
        weights: &Region4,
        targets: &[(usize, Target)],
        share_weights: bool,
    ) -> Result<(), TileError> {
        let d = source.d;
        let shared: &'d super::Shared<'d> = self.shared;
        let (rows, columns) = (d.places() as usize, d.destination[0] as usize);
        let format = source.region.format;
        let product = Product::choose(shared.tile_path, format, weights.format, d.relaxed_precision)?;
        let Buffers {
            rows: panel,
            right,
            sums_f32,
            sums_i32,
        } = &mut self.convolution_buffer;
        let scratch = &mut self.tile_scratch;
        let floats = product.accumulation == Accumulation::F32;
        // A tile of floats is its own accumulator.
        let direct = match targets {
            [(0, target)] if floats => target.direct(&[ElementFormat::F32], rows, columns),
            _ => None,
        };
        let accumulate = d.accumulate && direct.is_some();
        if floats && direct.is_none() {
            sums_f32.clear();
            sums_f32.resize(rows * columns, 0.0);
        } else if !floats {
            sums_i32.clear();
            sums_i32.resize(rows * columns, 0);
        }
        let parts = blocks(d, weights);
        if parts.is_empty()
            && let Some((sums, _)) = direct
            && !accumulate
        {
            // SAFETY: the tile is this instance's own.
            unsafe { (*sums).fill(0.0) };
        }
        for (number, block) in parts.iter().enumerate() {
            // SAFETY: the valid part of the weights was checked; a kernel that writes its operands meanwhile races.
            let view = unsafe {
                OperandView::new(
                    block.base,
                    weights.format,
                    (block.rows, columns),
                    (weights.strides[1], weights.strides[0]),
                )
            };
            let view = view.valid(block.valid_rows, weights.valid[0]);
            let key = PanelKey {
                base: block.base as usize,
                format: weights.format,
                product,
                origin: [0; 2],
                shape: [block.rows, columns],
                valid: [block.valid_rows, weights.valid[0].min(columns)],
                strides: [weights.strides[0], weights.strides[1]],
                scales: None,
                transposed: false,
                owner: 0,
            };
            let cell = if share_weights && !shared.aliased {
                shared.panels.right(key, (block.rows + 16) * (columns + 64) * 4)
            } else {
                None
            };
            let packed: &PackedRight = match &cell {
                Some(cell) => cell.get_or_init(|| {
                    let bytes = block.rows * columns * product.right_lane().bytes_per_element();
                    let mut packed: PackedRight = fresh(bytes, 0);
                    packed.pack(&product, &view, scratch);
                    packed
                }),
                None => {
                    right.pack(&product, &view, scratch);
                    right
                }
            };
            let line = block.rows * (format.bits() / 8);
            // Some rows at least, unless they are very long.
            let least = (PANEL_LIMIT / line.max(1)).clamp(1, PANEL_ROWS);
            let together = (PANEL_BYTES / line.max(1)).max(least).min(rows);
            panel.resize((together * line).div_ceil(8), 0);
            for first in (0..rows).step_by(together) {
                let count = together.min(rows - first);
                // SAFETY: the buffer holds the rows; the valid part of the activation was checked.
                let left = unsafe {
                    let bytes = std::slice::from_raw_parts_mut(panel.as_mut_ptr().cast::<u8>(), count * line);
                    source.lay_out(first..first + count, &block.places, bytes);
                    let stride = block.rows as i64;
                    OperandView::new(bytes.as_ptr(), format, (count, block.rows), (stride, 1))
                };
                let part = first * columns..(first + count) * columns;
                let sums = match direct {
                    // SAFETY: the tile is this instance's own.
                    Some((sums, _)) => AccumulatorMut::F32(unsafe { &mut (&mut *sums)[part] }),
                    None if floats => AccumulatorMut::F32(&mut sums_f32[part]),
                    None => AccumulatorMut::I32(&mut sums_i32[part]),
                };
                multiply_view(
                    scratch,
                    &product,
                    &left,
                    packed,
                    sums,
                    columns,
                    accumulate || number > 0,
                )?;
            }
        }
        if direct.is_some() {
            return Ok(());
        }
        for (first, target) in targets {
            if floats {
                target.finish_f32(
                    shared.tile_path,
                    &mut sums_f32[first * columns..],
                    columns,
                    d.accumulate,
                );
            } else {
                target.finish_i32(&sums_i32[first * columns..], columns, d.accumulate);
            }
        }
        Ok(())
    }

    /// `load` of a convolution's destination: dimensions of extent 1 are repeated, so a vector runs along the channels; outside of the
    /// tensor elements are zero.
    pub(super) fn spatial_load(&mut self, coop: u32, view: &View) -> Outcome {
        self.spatial(coop, view, AccessKind::Read, |region, place, line, columns, size| {
            let clamp = |d: usize, at: usize| if region.extents[d] == 1 { 0 } else { at };
            let [x, y, n] = [0, 1, 2].map(|i| clamp(i + 1, place[i]));
            let inside = x < region.valid[1] && y < region.valid[2] && n < region.valid[3];
            let count = match (inside, region.extents[0]) {
                (false, _) => 0,
                (true, 1) => columns,
                (true, _) => columns.min(region.valid[0]),
            };
            // SAFETY: the line is in the tile, the sources in the valid part of the tensor.
            unsafe {
                line.add(count * size).write_bytes(0, (columns - count) * size);
                if region.strides[0] == 1 && region.extents[0] != 1 && count > 0 {
                    std::ptr::copy_nonoverlapping(region.address([0, x, y, n]), line, count * size);
                    return;
                }
                for column in 0..count {
                    let value = read(region.address([clamp(0, column), x, y, n]), size as u8);
                    write(line.add(column * size), size as u8, value);
                }
            }
        })
    }

    /// `store` of a convolution's destination, clipped to the tensor.
    pub(super) fn spatial_store(&mut self, coop: u32, view: &View) -> Outcome {
        self.spatial(
            coop,
            view,
            AccessKind::Write,
            |region, [x, y, n], line, columns, size| {
                if x >= region.valid[1] || y >= region.valid[2] || n >= region.valid[3] {
                    return;
                }
                let count = columns.min(region.valid[0]);
                // SAFETY: as for a load.
                unsafe {
                    if region.strides[0] == 1 {
                        std::ptr::copy_nonoverlapping(line, region.address([0, x, y, n]), count * size);
                        return;
                    }
                    for column in 0..count {
                        let value = read(line.add(column * size), size as u8);
                        write(region.address([column, x, y, n]), size as u8, value);
                    }
                }
            },
        )
    }

    /// Calls `f` with each line of a tile of rank 4: the view, the place (x, y, batch), the address in the tile, its elements, and the bytes of
    /// each.
    fn spatial(
        &mut self,
        coop: u32,
        view: &View,
        access: AccessKind,
        f: impl Fn(&Region4, [usize; 3], *mut u8, usize, usize),
    ) -> Outcome {
        let tile = self.tiles[coop as usize];
        let [width, height, batch] = self.shared.coops[coop as usize].coop.spatial.unwrap_or([1; 3]);
        let (width, height, batch) = (width as usize, height as usize, batch as usize);
        for (instance, lane) in self.active_instances(tile.simdgroups) {
            let region = self.region4(view, lane, access)?;
            if region.format.bits() != tile.size * 8 {
                let reason = format!(
                    "tensor '{}' has elements of {}, the cooperative tensor elements of {} bytes",
                    view.name,
                    view.format.msl_name(),
                    tile.size
                );
                return raise(FaultKind::TileOperation { reason }, lane);
            }
            let touched = region.flat([tile.columns, width, height, batch]);
            self.note_region(&touched, access == AccessKind::Write);
            let base = tile.instance(instance);
            for row in 0..tile.rows.min(width * height * batch) {
                let place = [row % width, row / width % height, row / (width * height)];
                // SAFETY: the line is inside the tile.
                let line = unsafe { base.add(row * tile.columns * tile.size) };
                f(&region, place, line, tile.columns, tile.size);
            }
        }
        Ok(())
    }
}
