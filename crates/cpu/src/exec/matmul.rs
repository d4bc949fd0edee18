//! `matmul2d`: takes operands from views and tiles, packs them, shares what can be shared, and multiplies.

use anymetal_formats::ElementFormat;
use anymetal_ir::{MatmulDescriptor, Scalar};

use super::coop_io::Region;
use super::panels::{PanelKey, fresh, this_thread};
use super::{Outcome, Worker, raise};
use crate::compile::program::{TileOperand, Varies, View};
use crate::fault::{AccessKind, FaultKind};
use crate::lanes::scalar::{Bf16, F16, Float};
use crate::pool::default_workers;
use crate::tile::model;
use crate::tile::{
    Accumulation, AccumulatorMut, FewLeft, FewProduct, Lane, OperandView, PackedLeft, PackedRight, Product, ScaleView,
    TileError, TilePath, multiply, multiply_few, multiply_view, vector,
};

/// Memory that products reuse.
#[derive(Default)]
pub(super) struct Buffers {
    sums_f32: Vec<f32>,
    sums_i32: Vec<i32>,
}

/// Valid rows up to which the right operand is not packed.
const FEW_ROWS: usize = 4;

/// Elements of an operand below which it is packed for each product anew: finding it again would take as long.
const FEW_ELEMENTS: usize = 4096;

/// Bytes of a packed matrix, all threads' copies together, up to which each thread packs what it needs of it for itself. Larger ones
/// do not stay in caches anyway.
const OWN_BYTES: usize = 4 << 20;

/// The format of a tile's elements.
pub(super) fn format_of(scalar: Scalar) -> ElementFormat {
    match scalar {
        Scalar::Bool => ElementFormat::Bool,
        Scalar::I8 => ElementFormat::I8,
        Scalar::U8 => ElementFormat::U8,
        Scalar::I16 => ElementFormat::I16,
        Scalar::U16 => ElementFormat::U16,
        Scalar::I32 => ElementFormat::I32,
        Scalar::U32 => ElementFormat::U32,
        Scalar::I64 => ElementFormat::I64,
        Scalar::U64 => ElementFormat::U64,
        Scalar::F16 => ElementFormat::F16,
        Scalar::BF16 => ElementFormat::BF16,
        Scalar::F32 => ElementFormat::F32,
    }
}

/// An operand resolved for one instance: rows × columns as the product sees them.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub region: Region,
    /// Dimension of the view that rows (columns) run along.
    pub row_dimension: usize,
    pub rows: usize,
    pub columns: usize,
    pub in_memory: bool,
}

impl Source {
    fn column_dimension(&self) -> usize {
        1 - self.row_dimension
    }

    pub(super) fn valid(&self) -> (usize, usize) {
        (
            self.region.valid[self.row_dimension].min(self.rows),
            self.region.valid[self.column_dimension()].min(self.columns),
        )
    }

    /// # Safety
    /// The region's valid part must stay readable and unwritten while the view is used.
    unsafe fn view(&self) -> OperandView<'static> {
        let region = &self.region;
        let (row, column) = (self.row_dimension, self.column_dimension());
        let (valid_rows, valid_columns) = self.valid();
        // SAFETY: by the function's contract; the worker checked the valid part against its object.
        let view = unsafe {
            OperandView::new(
                region.base,
                region.format,
                (self.rows, self.columns),
                (region.strides[row], region.strides[column]),
            )
        };
        let mut view = view.origin(region.index(0, 0)).valid(valid_rows, valid_columns);
        if let Some(scales) = &region.scales {
            // SAFETY: the scales of the valid part were checked too.
            let plane = unsafe {
                ScaleView::new(
                    scales.base,
                    (scales.block[row], scales.block[column]),
                    (scales.strides[row], scales.strides[column]),
                )
            };
            view = view.scales(plane.phase(region.origin[row] as usize, region.origin[column] as usize));
        }
        view
    }

    fn key(&self, product: Product) -> PanelKey {
        let region = &self.region;
        let (rows, columns) = self.valid();
        PanelKey {
            base: region.base as usize,
            format: region.format,
            product,
            origin: region.origin,
            shape: [self.rows, self.columns],
            valid: [rows, columns],
            strides: region.strides,
            scales: region
                .scales
                .map(|scales| (scales.base as usize, scales.block, scales.strides)),
            transposed: self.row_dimension == 0,
            owner: 0,
        }
    }

    /// True where a thread had better pack the operand for itself than fetch what another has packed from that one's cache: where
    /// packing is one pass over memory, and not too much for all `workers`.
    fn is_quick(&self, product: &Product, lane: Lane, workers: usize) -> bool {
        let region = &self.region;
        let one_pass = match lane {
            Lane::Bf16 => region.format == ElementFormat::BF16,
            Lane::I8 | Lane::U8 => region.format.bits() == 8,
            _ => false,
        };
        let bytes = region.extents[0]
            .saturating_mul(region.extents[1])
            .saturating_mul(lane.bytes_per_element() * workers);
        let dense = region.strides[self.column_dimension()] == 1;
        product.path() == TilePath::Amx && one_pass && dense && region.scales.is_none() && bytes <= OWN_BYTES
    }
}

impl<'d> Worker<'d> {
    /// An operand as an instance sees it. `row_dimension` is the view's dimension that rows run along.
    pub(super) fn source(
        &mut self,
        operand: &TileOperand,
        instance: usize,
        lane: usize,
        (rows, columns): (Option<usize>, Option<usize>),
        row_dimension: usize,
    ) -> Outcome<Source> {
        let region = match operand {
            TileOperand::View(view) => return self.view_source(view, lane, (rows, columns), row_dimension),
            TileOperand::Coop(coop) => {
                let tile = self.tiles[*coop as usize];
                let element = self.shared.coops[*coop as usize].coop.element;
                Region {
                    format: format_of(element),
                    base: tile.instance(instance),
                    pointer: 0,
                    origin: [0; 2],
                    extents: [tile.columns, tile.rows],
                    valid: [tile.columns, tile.rows],
                    strides: [1, tile.columns as i64],
                    scales: None,
                }
            }
        };
        Ok(Source {
            rows: rows.unwrap_or(region.extents[row_dimension]),
            columns: columns.unwrap_or(region.extents[1 - row_dimension]),
            region,
            row_dimension,
            in_memory: false,
        })
    }

    /// An operand in memory, likewise.
    pub(super) fn view_source(
        &mut self,
        view: &View,
        lane: usize,
        (rows, columns): (Option<usize>, Option<usize>),
        row_dimension: usize,
    ) -> Outcome<Source> {
        let region = self.region(view, lane, AccessKind::Read)?;
        Ok(Source {
            rows: rows.unwrap_or(region.extents[row_dimension]),
            columns: columns.unwrap_or(region.extents[1 - row_dimension]),
            region,
            row_dimension,
            in_memory: true,
        })
    }

    pub(super) fn matmul(
        &mut self,
        descriptor: &MatmulDescriptor,
        simdgroups: usize,
        left: &'d TileOperand,
        right: &'d TileOperand,
        destination: &'d TileOperand,
        share: [bool; 2],
    ) -> Outcome {
        if simdgroups == 0 {
            return self.matmul_of_threads(descriptor, [left, right, destination]);
        }
        if let Some(job) = self.joined(descriptor, simdgroups, left, right, destination)? {
            return self.multiply(descriptor, &job, share);
        }
        // Instances with the same right operand whose rows follow each other make one product.
        let mut job: Option<Job> = None;
        let same_for_all = matches!(right, TileOperand::View(view) if view.varies == Varies::Nothing);
        let mut known_right: Option<Source> = None;
        for (instance, lane) in self.active_instances(simdgroups) {
            let known = known_right.filter(|_| same_for_all);
            let next = self.job(descriptor, [left, right, destination], instance, lane, known)?;
            known_right = Some(next.right);
            if let Some(current) = &mut job {
                if current.extend(&next) {
                    continue;
                }
                let done = std::mem::replace(current, next);
                self.multiply(descriptor, &done, share)?;
            } else {
                job = Some(next);
            }
        }
        match job {
            Some(job) => self.multiply(descriptor, &job, share),
            None => Ok(()),
        }
    }

    /// The product of one instance, its operands looked at as a lane sees them, the destination last. `known_right` is the
    /// right operand if it is the same for all instances.
    pub(super) fn job(
        &mut self,
        descriptor: &MatmulDescriptor,
        [left, right, destination]: [&TileOperand; 3],
        instance: usize,
        lane: usize,
        known_right: Option<Source>,
    ) -> Outcome<Job> {
        let row_of = |transposed: bool| if transposed { 0 } else { 1 };
        let (m, n) = (descriptor.m as usize, descriptor.n as usize);
        let k = descriptor.k.map(|k| k as usize);
        let left = self.source(left, instance, lane, (Some(m), k), row_of(descriptor.transpose_left))?;
        // A dynamic K is what the left operand has.
        let k = k.unwrap_or(left.columns);
        let right = match known_right {
            Some(known) if known.rows == k => known,
            _ => self.source(
                right,
                instance,
                lane,
                (Some(k), Some(n)),
                row_of(descriptor.transpose_right),
            )?,
        };
        for source in [&left, &right] {
            let elements = (source.rows as u64).saturating_mul(source.columns as u64);
            if elements > crate::limits::OPERAND_ELEMENTS {
                let reason = format!(
                    "an operand of {} × {} elements is too large for one product",
                    source.rows, source.columns
                );
                return raise(FaultKind::TileOperation { reason }, lane);
            }
            if source.in_memory {
                self.note_region(&clipped(source), false);
            }
        }
        let target = self.target(destination, instance, lane, (m, n))?;
        Ok(Job {
            left,
            right,
            target,
            lane,
        })
    }

    pub(super) fn multiply(&mut self, descriptor: &MatmulDescriptor, job: &Job, share: [bool; 2]) -> Outcome {
        let Job {
            left,
            right,
            target,
            lane,
        } = job;
        let (m, n) = (left.rows, right.columns);
        // SAFETY: the regions were checked; a kernel that writes its operands while an operation reads them races, as on
        // a GPU, and gets some value or other.
        let (left_view, right_view) = unsafe { (left.view(), right.view()) };
        let path = self.shared.tile_path;
        let relaxed = descriptor.relaxed_precision;
        let refused = |error: TileError| {
            raise(
                FaultKind::TileOperation {
                    reason: error.to_string(),
                },
                *lane,
            )
        };
        if self.shared.options.tensor_unit && !integers(&left_view, &right_view) {
            let sums = model::tensor_unit(&left_view, &right_view, relaxed);
            target.finish_tensor_unit(&sums, descriptor.accumulate);
            return Ok(());
        }
        let product = match Product::choose(path, left_view.kind(), right_view.kind(), relaxed) {
            Ok(product) => product,
            Err(error) => return refused(error),
        };
        // A few rows are multiplied with the right operand as it lies.
        let sums_are_f32 = product.accumulation == Accumulation::F32;
        let few_way = sums_are_f32
            .then(|| FewProduct::choose(path, &left_view, &right_view))
            .flatten();
        let few = sums_are_f32 && (few_way.is_some() || left.valid().0 <= FEW_ROWS);
        let scratch = &mut self.tile_scratch;
        let buffers = &mut self.matmul_buffer;
        let shared = |source: &Source, share: bool| {
            source.in_memory
                && share
                && !self.shared.aliased
                && !few
                && source.rows.saturating_mul(source.columns) >= FEW_ELEMENTS
        };
        let workers = self.shared.options.threads.unwrap_or_else(default_workers);
        let owner = |source: &Source, lane: Lane| match source.is_quick(&product, lane, workers) {
            true => this_thread(),
            false => 0,
        };
        let (right_owner, left_owner) = (owner(right, product.right_lane()), owner(left, product.left_lane()));
        let right_cell = if shared(right, share[1]) {
            let bytes = (right.rows + 16) * (right.columns + 64) * 4;
            let panels = &self.shared.panels;
            let mut key = right.key(product);
            key.owner = right_owner;
            self.known_right.cell(key, |key| panels.right(key, bytes))
        } else {
            None
        };
        let right_panel: Option<&PackedRight> = right_cell.as_ref().map(|cell| {
            cell.get_or_init(|| {
                let bytes = right.rows * right.columns * product.right_lane().bytes_per_element();
                let mut packed: PackedRight = fresh(bytes, right_owner);
                packed.pack(&product, &right_view, scratch);
                packed
            })
        });
        // A packed left operand serves all products of its rows; with a right one that is not shared there are none.
        let left_cell = if right_panel.is_some() && shared(left, share[0]) {
            let bytes = (left.rows + 16) * (left.columns + 64) * 4;
            let panels = &self.shared.panels;
            let mut key = left.key(product);
            key.owner = left_owner;
            self.known_left.cell(key, |key| panels.left(key, bytes))
        } else {
            None
        };
        let left_panel: Option<&PackedLeft> = left_cell.as_ref().map(|cell| {
            cell.get_or_init(|| {
                let bytes = left.rows * left.columns * product.left_lane().bytes_per_element();
                let mut packed: PackedLeft = fresh(bytes, left_owner);
                packed.pack(&product, &left_view, scratch);
                packed
            })
        });
        // The rows of a few go with every threadgroup's columns.
        let few_cell = match few_way {
            Some(way) if left.in_memory && share[0] && !self.shared.aliased => {
                let bytes = left.rows * left.columns * 4;
                let key = (left.key(product), way);
                self.shared.panels.few(key, bytes).map(|cell| (way, cell))
            }
            _ => None,
        };
        let few_left: Option<(&FewProduct, &FewLeft)> = few_cell.as_ref().map(|(way, cell)| {
            let packed = cell.get_or_init(|| {
                let mut packed: FewLeft = fresh(FewLeft::bytes(way, left.valid().0, left.valid().1), 0);
                packed.pack(way, &left_view, scratch);
                packed
            });
            (way, packed)
        });
        let mut product_into = |mut sums: AccumulatorMut<'_>, stride: usize, accumulate: bool| {
            if let (Some((way, packed)), AccumulatorMut::F32(sums)) = (few_left, &mut sums) {
                return multiply_few(scratch, way, packed, &left_view, &right_view, sums, stride, accumulate);
            }
            match (left_panel, right_panel) {
                (Some(left), Some(right)) => multiply(left, right, sums, stride, accumulate),
                (None, Some(right)) => multiply_view(scratch, &product, &left_view, right, sums, stride, accumulate),
                _ => crate::tile::matmul(
                    scratch,
                    path,
                    &left_view,
                    &right_view,
                    relaxed,
                    sums,
                    stride,
                    accumulate,
                ),
            }
        };
        let accumulate = descriptor.accumulate;
        // Block scales can take elements out of the range of f32 whose products are in it.
        let scaled = left.region.scales.is_some() || right.region.scales.is_some();
        let result = match product.accumulation {
            Accumulation::F32 => match target.direct(&[ElementFormat::F32], m, n).filter(|_| !scaled) {
                Some((sums, stride)) => {
                    // SAFETY: the rows were checked against the object. Gaps between rows are not touched by the product;
                    // they may belong to other threadgroups, whose writes go elsewhere.
                    let sums = AccumulatorMut::F32(unsafe { &mut *sums });
                    product_into(sums, stride, accumulate)
                }
                None => {
                    buffers.sums_f32.resize(m * n, 0.0);
                    let sums = AccumulatorMut::F32(&mut buffers.sums_f32);
                    let result = product_into(sums, n, false);
                    if scaled && result.is_ok() && !buffers.sums_f32.iter().all(|sum| sum.is_finite()) {
                        let wide = model::wide(&left_view, &right_view);
                        for (row, sums) in wide.values.chunks_exact(wide.cols.max(1)).enumerate() {
                            buffers.sums_f32[row * n..][..wide.cols].copy_from_slice(sums);
                        }
                    }
                    if result.is_ok() {
                        target.finish_f32(path, &mut buffers.sums_f32, n, accumulate);
                    }
                    result
                }
            },
            Accumulation::I32 => match target.direct(&[ElementFormat::I32, ElementFormat::U32], m, n) {
                Some((sums, stride)) => {
                    // SAFETY: as above.
                    let sums = AccumulatorMut::I32(unsafe { &mut *sums });
                    product_into(sums, stride, accumulate)
                }
                None => {
                    buffers.sums_i32.resize(m * n, 0);
                    let sums = AccumulatorMut::I32(&mut buffers.sums_i32);
                    let result = product_into(sums, n, false);
                    if result.is_ok() {
                        target.finish_i32(&buffers.sums_i32, n, accumulate);
                    }
                    result
                }
            },
        };
        result.or_else(refused)
    }

    /// Where a product goes.
    fn target(
        &mut self,
        destination: &TileOperand,
        instance: usize,
        lane: usize,
        (m, n): (usize, usize),
    ) -> Outcome<Target> {
        match destination {
            TileOperand::Coop(coop) => {
                let tile = self.tiles[*coop as usize];
                let element = self.shared.coops[*coop as usize].coop.element;
                if (tile.rows, tile.columns) != (m, n) {
                    let reason = format!(
                        "a {m} × {n} product into a cooperative tensor of {} × {}",
                        tile.rows, tile.columns
                    );
                    return raise(FaultKind::TileOperation { reason }, lane);
                }
                Ok(Target {
                    base: tile.instance(instance),
                    format: format_of(element),
                    rows: m,
                    columns: n,
                    row_stride: n as i64,
                    column_stride: 1,
                })
            }
            TileOperand::View(view) => {
                let mut region = self.region(view, lane, AccessKind::Write)?;
                region.valid = [region.valid[0].min(n), region.valid[1].min(m)];
                self.note_region(&region, true);
                Ok(Target {
                    base: if region.valid[0] == 0 {
                        std::ptr::null_mut()
                    } else {
                        region.address(0, 0)
                    },
                    format: region.format,
                    rows: region.valid[1],
                    columns: region.valid[0],
                    row_stride: region.strides[1],
                    column_stride: region.strides[0],
                })
            }
        }
    }
}

/// Is it a product of two integer operands, which sums integers?
fn integers(left: &OperandView<'_>, right: &OperandView<'_>) -> bool {
    [left, right]
        .into_iter()
        .all(|view| view.format().is_integer() && !view.kind().scaled)
}

/// One product.
pub(super) struct Job {
    pub left: Source,
    pub right: Source,
    pub target: Target,
    /// For faults.
    pub lane: usize,
}

impl Job {
    /// Is any element of the destination there to be written?
    pub(super) fn writes(&self) -> bool {
        self.target.rows > 0 && self.target.columns > 0
    }

    /// Takes in the product of another instance, if its rows follow these.
    fn extend(&mut self, next: &Job) -> bool {
        let (a, b) = (&self.left.region, &next.left.region);
        let row = self.left.row_dimension;
        let rows = self.left.rows;
        if self.left.valid().0 != rows
            || self.target.rows != rows
            || self.left.columns != next.left.columns
            || self.left.valid().1 != next.left.valid().1
            || self.left.in_memory != next.left.in_memory
            || a.scales.is_some()
            || b.scales.is_some()
            || (a.format, a.strides) != (b.format, b.strides)
            || !same_place(&self.right, &next.right)
        {
            return false;
        }
        let bytes = |count: i64, format: ElementFormat| count.wrapping_mul((format.bits() / 8) as i64) as usize;
        let mut origin = a.origin;
        origin[row] += rows as i64;
        let same_base = a.base == b.base && origin == b.origin;
        let next_base = a.format.bits() >= 8
            && a.origin == b.origin
            && (a.base as usize).wrapping_add(bytes(rows as i64 * a.strides[row], a.format)) == b.base as usize;
        let (t, u) = (&self.target, &next.target);
        let follows = t.format.bits() >= 8
            && (t.format, t.columns, t.row_stride, t.column_stride)
                == (u.format, u.columns, u.row_stride, u.column_stride)
            && (t.base as usize).wrapping_add(bytes(rows as i64 * t.row_stride, t.format)) == u.base as usize;
        if !(same_base || next_base) || !follows {
            return false;
        }
        self.left.rows += next.left.rows;
        self.left.region.valid[row] = rows + next.left.valid().0;
        self.target.rows += next.target.rows;
        true
    }
}

/// Do two operands mean the same elements?
pub(super) fn same_place(a: &Source, b: &Source) -> bool {
    let scales = |source: &Source| {
        source
            .region
            .scales
            .map(|scales| (scales.base, scales.block, scales.strides))
    };
    (a.rows, a.columns, a.row_dimension, a.valid()) == (b.rows, b.columns, b.row_dimension, b.valid())
        && (a.region.base, a.region.format, a.region.origin, a.region.strides)
            == (b.region.base, b.region.format, b.region.origin, b.region.strides)
        && scales(a) == scales(b)
}

/// The part of an operand that a product reads.
fn clipped(source: &Source) -> Region {
    let mut region = source.region;
    let (rows, columns) = source.valid();
    region.valid[source.row_dimension] = rows;
    region.valid[source.column_dimension()] = columns;
    region
}

/// The writable part of a destination.
pub(super) struct Target {
    pub base: *mut u8,
    pub format: ElementFormat,
    pub rows: usize,
    pub columns: usize,
    /// In elements.
    pub row_stride: i64,
    pub column_stride: i64,
}

impl Target {
    /// The destination itself as an accumulator: all of it there, of one of the formats (4 bytes each), rows without gaps
    /// inside.
    pub(super) fn direct<T>(&self, formats: &[ElementFormat], m: usize, n: usize) -> Option<(*mut [T], usize)> {
        let fits = formats.contains(&self.format)
            && (self.rows, self.columns) == (m, n)
            && self.column_stride == 1
            && self.row_stride >= n as i64
            && (self.base as usize).is_multiple_of(4)
            && m > 0;
        if !fits {
            return None;
        }
        let stride = self.row_stride as usize;
        let sums = std::ptr::slice_from_raw_parts_mut(self.base.cast::<T>(), (m - 1) * stride + n);
        Some((sums, stride))
    }

    /// Calls `f` with the address of each element and its index in a product of `n` columns.
    fn each(&self, n: usize, mut f: impl FnMut(*mut u8, usize)) {
        let bytes = (self.format.bits() / 8) as i64;
        for row in 0..self.rows {
            for column in 0..self.columns {
                let at = row as i64 * self.row_stride + column as i64 * self.column_stride;
                let place = self.base.wrapping_offset((at * bytes) as isize);
                f(place, row * n + column);
            }
        }
    }

    /// Rounds once and stores, adding what was there when `accumulate`; the sums are spoilt.
    pub(super) fn finish_f32(&self, path: TilePath, sums: &mut [f32], n: usize, accumulate: bool) {
        if self.finish_rows(path, sums, n, accumulate) {
            return;
        }
        fn store<T: Float>(target: &Target, sums: &[f32], n: usize, accumulate: bool) {
            target.each(n, |place, at| {
                let place = place.cast::<T>();
                // SAFETY: the element is in the checked part of the destination.
                unsafe {
                    let mut value = sums[at];
                    if accumulate {
                        value += place.read_unaligned().widen();
                    }
                    place.write_unaligned(T::narrow(value));
                }
            });
        }
        match self.format {
            ElementFormat::F16 => store::<F16>(self, sums, n, accumulate),
            ElementFormat::BF16 => store::<Bf16>(self, sums, n, accumulate),
            ElementFormat::F32 => store::<f32>(self, sums, n, accumulate),
            ElementFormat::I32 => self.each(n, |place, at| {
                // SAFETY: as above.
                unsafe { place.cast::<i32>().write_unaligned(sums[at] as i32) };
            }),
            _ => {}
        }
    }

    /// [`finish_f32`](Self::finish_f32) by whole rows, where the destination's lie without gaps; false where they do not.
    fn finish_rows(&self, path: TilePath, sums: &mut [f32], n: usize, accumulate: bool) -> bool {
        type Widen = fn(TilePath, &[u16], &mut [f32]);
        type Narrow = fn(TilePath, &[f32], &mut [u16]);
        let (widen, narrow): (Widen, Narrow) = match self.format {
            ElementFormat::F16 => (vector::f16_to_f32, vector::f32_to_f16),
            ElementFormat::BF16 => (vector::bf16_to_f32, vector::f32_to_bf16),
            _ => return false,
        };
        if self.column_stride != 1 || !self.base.addr().is_multiple_of(2) {
            return false;
        }
        let mut old = [0.0f32; 128];
        for row in 0..self.rows {
            let place = self
                .base
                .cast::<u16>()
                .wrapping_offset((row as i64 * self.row_stride) as isize);
            // SAFETY: the row's columns are in the checked part of the destination, and aligned.
            let place = unsafe { std::slice::from_raw_parts_mut(place, self.columns) };
            let sums = &mut sums[row * n..row * n + self.columns];
            if accumulate {
                for (place, sums) in place.chunks(old.len()).zip(sums.chunks_mut(old.len())) {
                    widen(path, place, &mut old);
                    sums.iter_mut().zip(&old).for_each(|(sum, old)| *sum += old);
                }
            }
            narrow(path, sums, place);
        }
        true
    }

    /// Stores what the tensor unit would. Elements that the valid parts do not reach are sums of nothing.
    fn finish_tensor_unit(&self, sums: &model::Sums, accumulate: bool) {
        fn store<T: Float>(target: &Target, sums: &model::Sums, accumulate: bool) {
            target.each(target.columns, |place, at| {
                let (row, column) = (at / target.columns, at % target.columns);
                let reached = row < sums.rows && column < sums.cols;
                let sum = if reached {
                    sums.values[row * sums.cols + column]
                } else {
                    0.0
                };
                let place = place.cast::<T>();
                // SAFETY: the element is in the checked part of the destination.
                unsafe {
                    let sum = if accumulate {
                        place.read_unaligned().widen() + sum
                    } else {
                        sum
                    };
                    place.write_unaligned(T::narrow(model::finished(sum, target.format)));
                }
            });
        }
        match self.format {
            ElementFormat::F16 => store::<F16>(self, sums, accumulate),
            ElementFormat::BF16 => store::<Bf16>(self, sums, accumulate),
            _ => store::<f32>(self, sums, accumulate),
        }
    }

    pub(super) fn finish_i32(&self, sums: &[i32], n: usize, accumulate: bool) {
        fn store<T: Float>(target: &Target, sums: &[i32], n: usize, accumulate: bool) {
            target.each(n, |place, at| {
                let place = place.cast::<T>();
                // SAFETY: the element is in the checked part of the destination.
                unsafe {
                    let mut value = f64::from(sums[at]);
                    if accumulate {
                        value += f64::from(place.read_unaligned().widen());
                    }
                    place.write_unaligned(T::narrow64(value));
                }
            });
        }
        match self.format {
            ElementFormat::I32 | ElementFormat::U32 => self.each(n, |place, at| {
                let place = place.cast::<i32>();
                // SAFETY: as above.
                unsafe {
                    let old = if accumulate { place.read_unaligned() } else { 0 };
                    place.write_unaligned(old.wrapping_add(sums[at]));
                }
            }),
            ElementFormat::F16 => store::<F16>(self, sums, n, accumulate),
            ElementFormat::BF16 => store::<Bf16>(self, sums, n, accumulate),
            ElementFormat::F32 => store::<f32>(self, sums, n, accumulate),
            _ => {}
        }
    }
}
