//! Few rows by quantised columns: each weight is read once, by wide loads, and decoded in registers.
//!
//! A layer of a language model that writes a token at a time waits for its weights, so bytes in flight count: each SIMD-group copies windows of
//! its own into a ring in shared memory, several ahead. The weights are the rows of `mma`'s left operand (16 at a time), the activation's rows
//! its 8 columns. SIMD-groups share out the tile's columns, 32 each, and K, window by window; partial sums meet in shared memory. Sums of a
//! block of 32 are multiplied by their scale. Scales that could take that out of range (or are NaN) are noticed on the way, and the
//! product is left to the general path.

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, ArgumentKind, MatmulDescriptor, Operand};

use super::MAX_K;
use super::emit::{Wide, Word, both, branch_if, branch_unless, def, float, step};
use super::few_ring::Cursor;
use super::region::{Region, region};
use super::target::store_one;
use super::unit::{Unit, unit_of};
use crate::lower::check::AccessKind;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Columns that a SIMD-group takes at most: few, so that many SIMD-groups hide each other's latencies.
const COLUMNS: u32 = 32;
/// Elements along K that share a scale, and that a lane's row has a run of.
pub(super) const BLOCK: u32 = 32;
/// Blocks of K in a window.
pub(super) const BLOCKS: u32 = 4;
/// Elements along K in a window.
pub(super) const WINDOW: u32 = BLOCK * BLOCKS;
/// SIMD-groups of threadgroups of which two share a multiprocessor.
const SMALL: u32 = 8;
/// Distance of rows in the shared sums, in elements: spreads a fragment's stores over all banks.
const fn pitch(columns: u32) -> u32 {
    columns + 4
}

/// True if a product is one of few rows by quantised columns, whatever its operands' places.
pub(crate) fn has_few_rows(descriptor: &MatmulDescriptor, left: ElementFormat, right: ElementFormat) -> bool {
    use ElementFormat as E;
    let known = matches!(
        (left, right),
        (
            E::F16,
            E::Int4B | E::UInt4B | E::Fp4E2M1 | E::Fp8E4M3 | E::Fp8E5M2 | E::I8 | E::U8
        ) | (E::BF16, E::Int4B | E::UInt4B | E::I8 | E::U8)
    );
    known && descriptor.m <= 16
}

/// How a product of few rows is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub unit: Unit,
    pub format: ElementFormat,
    pub scaled: bool,
    /// Columns of the tile, and of a SIMD-group.
    columns: u32,
    pub own_columns: u32,
    /// SIMD-groups that share columns and split K.
    pub splits: u32,
    pub simdgroups: u32,
    /// Windows in a SIMD-group's ring.
    pub stages: u32,
    /// Blocks of the activation that are in registers, or on their way there.
    pub held: u32,
    /// Distance of a SIMD-group's windows: 1, or the number of splits.
    pub apart: u32,
}

impl Cut {
    /// The cut of a product that this path has.
    fn of(
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        left: &Region,
        right: &Region,
        target: &Region,
        room: u32,
    ) -> Option<Cut> {
        let device = |region: &Region| matches!(region.space, AddressSpace::Device | AddressSpace::Constant);
        let columns = descriptor.n;
        let own_columns = columns.min(COLUMNS);
        let groups = columns / own_columns;
        let fits = has_few_rows(descriptor, left.format, right.format)
            && !descriptor.transpose_left
            && descriptor.transpose_right
            && simdgroups >= 2
            && columns.is_multiple_of(16)
            && columns.is_multiple_of(own_columns)
            && simdgroups.is_multiple_of(groups)
            && [left, right, target].into_iter().all(device)
            && left.scales.is_none();
        let scaled = match &right.scales {
            Some(scales) if scales.block[..] == [BLOCK, 1] => true,
            Some(_) => return None,
            None => false,
        };
        let unit = unit_of(descriptor, left.format, right.format);
        let mut cut = Cut {
            unit,
            format: right.format,
            scaled,
            columns,
            own_columns,
            splits: simdgroups / groups.max(1),
            simdgroups,
            stages: 0,
            held: BLOCKS,
            apart: simdgroups / groups.max(1),
        };
        // No more than it takes to hide memory's latency: the rest of the memory caches the activation.
        let each = (simdgroups * cut.stage_bytes()).max(1);
        let enough = (48 << 10).max(simdgroups * (6 << 10));
        cut.stages = (enough / each).clamp(3, 6).min(room / each);
        (fits && cut.stages >= 2).then_some(cut)
    }

    /// For more than eight rows. Twice the activation takes twice the cache, and twice the registers, which scaled sums need as well. Windows
    /// beside each other reuse the activation's lines, but not those of the scales.
    fn of_many_rows(self) -> Cut {
        let narrow = self.format.bits() == 4;
        Cut {
            stages: 2,
            held: if narrow && self.scaled { BLOCKS / 2 } else { BLOCKS },
            apart: if narrow && !self.scaled { 1 } else { self.splits },
            ..self
        }
    }

    /// Bytes of a row of weights in a window.
    pub fn row_bytes(&self) -> u32 {
        WINDOW * self.format.bits() as u32 / 8
    }

    /// Bytes of a window: the weights, then the scales of each row's blocks.
    pub fn stage_bytes(&self) -> u32 {
        self.own_columns * (self.row_bytes() + if self.scaled { BLOCKS } else { 0 })
    }

    /// Rows of weights of a lane.
    pub fn lines(&self) -> u32 {
        self.own_columns / 8
    }

    /// Words of 8 weights.
    pub fn words(&self) -> u32 {
        8 * self.format.bits() as u32 / 32
    }

    /// Weights come out as pairs (e, e + 4), not (2·e, 2·e + 1).
    fn crossed(&self) -> bool {
        self.format.bits() == 4
    }

    /// What sums are multiplied by in the end: FP4 is decoded without its factor.
    fn factor(&self) -> f32 {
        if self.format == ElementFormat::Fp4E2M1 {
            16384.0
        } else {
            1.0
        }
    }

    /// Rings, or the sums that replace them.
    fn shared_bytes(&self) -> u32 {
        let rings = self.simdgroups * self.stages * self.stage_bytes();
        rings.max(self.splits * 16 * pitch(self.columns) * 4)
    }
}

impl Lower<'_> {
    /// Lowers the product if it is one of few rows by quantised columns; false if not.
    pub fn few_rows_matmul(
        &mut self,
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        left: &Operand,
        right: &Operand,
        destination: &Operand,
    ) -> Result<bool> {
        let (Operand::Tensor(a), Operand::Tensor(b), Operand::Tensor(c)) = (left, right, destination) else {
            return Ok(false);
        };
        if self.options.checked || !self.options.target.has_fp8_conversion() || descriptor.m > 16 || simdgroups < 2 {
            return Ok(false);
        }
        let activation = region(self, a, AccessKind::Read)?;
        let weights = region(self, b, AccessKind::Read)?;
        let target = region(self, c, AccessKind::Write)?;
        let room = self.few_room();
        let Some(cut) = Cut::of(descriptor, simdgroups, &activation, &weights, &target, room) else {
            return Ok(false);
        };
        let (general, done) = (self.writer.label(), self.writer.label());
        let Some(end) = self.few_condition(descriptor, &activation, &weights, general) else {
            return Ok(false);
        };
        let rows = activation.inside(self, 1, Word::Known(0), Some(descriptor.m));
        let columns = weights.inside(self, 1, Word::Known(0), Some(descriptor.n));
        for inside in [rows, columns] {
            let inside = inside.reg(self);
            let none = def!(self, Pred, "setp.eq.s32", "{inside}, 0");
            branch_if(self, none, general);
        }
        self.stage(cut.shared_bytes());
        // Two small threadgroups share a multiprocessor, so that one begins where the other ends.
        let whole = if room >= 128 << 10 { 227 << 10 } else { 99 << 10 };
        if simdgroups <= SMALL && 2 * (cut.shared_bytes() + 1024) <= whole {
            self.min_blocks = self.min_blocks.max(2);
        }
        let shared = def!(self, B32, "mov.u32", "smem");
        // Has the upper bit of each byte as long as all scales are between 2⁻⁶³ and 2⁶⁴.
        let usual = self.u32(u32::MAX);
        let (many, summed) = (self.writer.label(), self.writer.label());
        let row_count = rows.reg(self);
        let more = def!(self, Pred, "setp.gt.s32", "{row_count}, 8");
        if descriptor.m > 8 {
            branch_if(self, more, many);
        }
        self.few_sums(&cut, &activation, &weights, rows, columns, end, 1, usual, shared);
        if descriptor.m > 8 {
            ptx!(self, "bra.uni {summed}");
            self.writer.place(many);
            self.few_sums(
                &cut.of_many_rows(),
                &activation,
                &weights,
                rows,
                columns,
                end,
                2,
                usual,
                shared,
            );
        }
        self.writer.place(summed);
        let threads = 32 * simdgroups;
        if cut.scaled {
            let bits = def!(self, B32, "and.b32", "{usual}, {}", 0x8080_8080u32);
            let rare = def!(self, Pred, "setp.ne.u32", "{bits}, {}", 0x8080_8080u32);
            let any = self.reg(Class::Pred);
            ptx!(self, "barrier.red.or.pred {any}, 0, {threads}, {rare}");
            branch_if(self, any, general);
        } else {
            ptx!(self, "barrier.sync 0, {threads}");
        }
        self.few_store(descriptor, &cut, &target, rows, columns, shared);
        ptx!(self, "barrier.sync 0, {threads}");
        ptx!(self, "bra.uni {done}");
        self.writer.place(general);
        self.wait_for_predecessor();
        self.has_waited();
        if !self.staged_matmul(descriptor, simdgroups, left, right, destination)? {
            self.matmul(descriptor, simdgroups, left, right, destination)?;
        }
        self.writer.place(done);
        Ok(true)
    }

    /// Shared memory that rings may take: a kernel's own takes 32 KB at most.
    fn few_room(&self) -> u32 {
        let kernel = self.kernel;
        let own = kernel
            .memory
            .iter()
            .any(|object| object.space == AddressSpace::Threadgroup)
            || kernel
                .arguments
                .iter()
                .any(|argument| matches!(argument.kind, ArgumentKind::Threadgroup { .. }));
        let room = match self.options.target.sm {
            90 | 100 | 103 => 208,
            _ => 94,
        };
        1024 * (room - if own { 32 } else { 0 })
    }

    /// Goes to `general` where wide loads do not fit. K, or `None` where they never fit.
    fn few_condition(
        &mut self,
        descriptor: &MatmulDescriptor,
        activation: &Region,
        weights: &Region,
        general: crate::ptx::Label,
    ) -> Option<Reg> {
        let mut end = match descriptor.k {
            Some(k) => Wide::Known(k.into()),
            None => activation.extents[0],
        };
        for valid in [activation.valid[0], weights.valid[0], Wide::Known(MAX_K)] {
            end = end.min(self, valid);
        }
        let end = match end {
            Wide::Known(end) => self.u32(end as u32),
            Wide::Reg(end) => def!(self, B32, "cvt.u32.u64", "{end}"),
        };
        // Whole windows, and addresses that are multiples of the loads.
        let rest = def!(self, B32, "and.b32", "{end}, {}", WINDOW - 1);
        let mut all = Some(def!(self, Pred, "setp.eq.u32", "{rest}, 0"));
        let mut loads = vec![(activation.pointer, activation.first, activation.strides[1], 16, 8)];
        let elements = 128 / weights.bits();
        loads.push((weights.pointer, weights.first, weights.strides[1], 16, elements));
        // Lines of a tile are 32 bits of 16 bytes apart at most.
        let most = (1i64 << 36) / i64::from(descriptor.n.next_power_of_two());
        match weights.strides[1] {
            Wide::Known(stride) if (0..most).contains(&stride) => {}
            Wide::Known(_) => return None,
            Wide::Reg(stride) => {
                let near = def!(self, Pred, "setp.lt.u64", "{stride}, {most}");
                all = both(self, all, Some(near));
            }
        }
        for stride in [activation.strides[0], weights.strides[0]] {
            match stride {
                Wide::Known(1) => {}
                Wide::Known(_) => return None,
                Wide::Reg(stride) => {
                    let one = def!(self, Pred, "setp.eq.s64", "{stride}, 1");
                    all = both(self, all, Some(one));
                }
            }
        }
        if let Some(scales) = &weights.scales {
            match scales.strides[0] {
                Wide::Known(1) => {}
                Wide::Known(_) => return None,
                Wide::Reg(stride) => {
                    let one = def!(self, Pred, "setp.eq.s64", "{stride}, 1");
                    all = both(self, all, Some(one));
                }
            }
            let first = self.few_first_scale(weights);
            loads.push((scales.pointer, first, scales.strides[1], BLOCKS, BLOCKS));
            // Windows begin where blocks do.
            let phase = weights.origin[0];
            loads.push((weights.pointer, phase, Wide::Known(0), 1, BLOCK));
        }
        for (pointer, first, stride, bytes, elements) in loads {
            let mut low = def!(self, B32, "cvt.u32.u64", "{pointer}");
            low = def!(self, B32, "and.b32", "{low}, {}", bytes - 1);
            for part in [first, stride] {
                let part = match part {
                    Wide::Known(n) => self.u32(n as u32),
                    Wide::Reg(part) => def!(self, B32, "cvt.u32.u64", "{part}"),
                };
                let part = def!(self, B32, "and.b32", "{part}, {}", elements - 1);
                low = def!(self, B32, "or.b32", "{low}, {part}");
            }
            let fits = def!(self, Pred, "setp.eq.u32", "{low}, 0");
            all = both(self, all, Some(fits));
        }
        if let Some(all) = all {
            branch_unless(self, all, general);
        }
        Some(end)
    }

    /// Number of the scale of the region's first element.
    pub(super) fn few_first_scale(&mut self, weights: &Region) -> Wide {
        let Some(scales) = &weights.scales else {
            return Wide::Known(0);
        };
        let block = match weights.origin[0] {
            Wide::Known(origin) => Wide::Known(origin >> 5),
            Wide::Reg(origin) => Wide::Reg(def!(self, B64, "shr.s64", "{origin}, 5")),
        };
        let along = block.mul(self, scales.strides[0]);
        let across = weights.origin[1].mul(self, scales.strides[1]);
        along.add(self, across)
    }

    /// A SIMD-group's part of the sums of `8 · row_blocks` rows, into shared memory.
    fn few_sums(
        &mut self,
        cut: &Cut,
        activation: &Region,
        weights: &Region,
        rows: Word,
        columns: Word,
        end: Reg,
        row_blocks: u32,
        usual: Reg,
        shared: Reg,
    ) {
        let simdgroup = self.geometry.simdgroup;
        let (g, t) = (self.geometry.fragment_row, self.geometry.fragment_pair);
        let groups = cut.columns / cut.own_columns;
        let split = self.divided(simdgroup, groups);
        let before = def!(self, B32, "mul.lo.u32", "{split}, {groups}");
        let group = def!(self, B32, "sub.u32", "{simdgroup}, {before}");
        let first_column = def!(self, B32, "mul.lo.u32", "{group}, {}", cut.own_columns);
        let tiles = cut.own_columns / 16;
        let sums: Vec<[Reg; 4]> = (0..tiles * row_blocks)
            .map(|_| [0; 4].map(|_| def!(self, F32, "mov.f32", "0f00000000")))
            .collect();

        // Each split has a run of windows, or windows split, split + splits, ….
        let windows = self.divided(end, WINDOW);
        let most = def!(self, B32, "add.s32", "{windows}, {}", cut.splits - 1);
        let most = self.divided(most, cut.splits);
        let first_window = match cut.apart {
            1 => def!(self, B32, "mul.lo.u32", "{split}, {most}"),
            _ => split,
        };
        let left = def!(self, B32, "sub.s32", "{windows}, {first_window}");
        let left = match cut.apart {
            1 => def!(self, B32, "min.s32", "{left}, {most}"),
            _ => {
                let left = def!(self, B32, "add.s32", "{left}, {}", cut.splits - 1);
                self.divided(left, cut.splits)
            }
        };
        let left = def!(self, B32, "max.s32", "{left}, 0");
        let cursor = self.few_cursor(
            cut,
            activation,
            weights,
            rows,
            columns,
            [first_window, first_column],
            row_blocks,
            shared,
        );
        let to_load = self.copy(left);
        let load_stage = self.few_fill(cut, &cursor, to_load);
        // Weights are on their way; the activation may be what the launch in front writes.
        self.wait_for_predecessor();
        let finished = self.writer.label();
        let none = def!(self, Pred, "setp.le.s32", "{left}, 0");
        branch_if(self, none, finished);
        let x: Vec<Vec<Reg>> = (0..cut.held)
            .map(|_| (0..4 * row_blocks).map(|_| self.reg(Class::B32)).collect())
            .collect();
        for block in 0..cut.held {
            self.few_activation(cut, &cursor, block, &x, None);
        }
        let stage = self.u32(0);
        let again = self.writer.label();
        self.writer.place(again);
        ptx!(self, "cp.async.wait_group {}", cut.stages - 2);
        // Every lane's copies are there, and every lane is done with the stage that is filled next.
        ptx!(self, "bar.warp.sync 0xffffffff");
        self.few_copy(cut, &cursor, load_stage, to_load);
        // The activation's elements are loaded ahead, into the same registers as soon as they are free.
        let ahead = def!(self, Pred, "setp.gt.s32", "{left}, 1");
        self.few_multiply(cut, &cursor, stage, &x, &sums, row_blocks, usual, ahead);
        for &address in &cursor.activation {
            step(self, address, Wide::Known((2 * cut.apart * WINDOW).into()));
        }
        self.few_next_stage(cut, stage);
        ptx!(self, "sub.s32 {left}, {left}, 1");
        let more = def!(self, Pred, "setp.gt.s32", "{left}, 0");
        branch_if(self, more, again);
        self.writer.place(finished);
        ptx!(self, "cp.async.wait_all");
        // The sums take the place of the rings.
        ptx!(self, "barrier.sync 0, {}", 32 * cut.simdgroups);

        // Row 8·nb + 2·t + i, column 16·mb + 8·h + g of the split's own matrix.
        let split_rows = def!(self, B32, "mul.lo.u32", "{split}, 16");
        let row = def!(self, B32, "mad.lo.u32", "{t}, 2, {split_rows}");
        let column = def!(self, B32, "add.u32", "{first_column}, {g}");
        let place = def!(self, B32, "mad.lo.u32", "{row}, {}, {column}", pitch(cut.columns));
        let place = def!(self, B32, "mad.lo.u32", "{place}, 4, {shared}");
        for mb in 0..tiles {
            for nb in 0..row_blocks {
                let block = sums[(mb * row_blocks + nb) as usize];
                for (e, sum) in block.into_iter().enumerate() {
                    let (h, i) = (e as u32 / 2, e as u32 % 2);
                    let offset = 4 * ((8 * nb + i) * pitch(cut.columns) + 16 * mb + 8 * h);
                    ptx!(self, "st.shared.f32 [{place}+{offset}], {sum}");
                }
            }
        }
    }

    /// Multiplies a window.
    fn few_multiply(
        &mut self,
        cut: &Cut,
        cursor: &Cursor,
        stage: Reg,
        x: &[Vec<Reg>],
        sums: &[[Reg; 4]],
        row_blocks: u32,
        usual: Reg,
        ahead: Reg,
    ) {
        let places: Vec<Reg> = (cursor.places.iter())
            .map(|place| def!(self, B32, "add.u32", "{place}, {stage}"))
            .collect();
        let stage = def!(self, B32, "add.u32", "{stage}, {}", cursor.ring);
        let scales = self.few_scales(cut, stage, usual);
        for pair in 0..BLOCKS / 2 {
            let blocks = [2 * pair, 2 * pair + 1];
            let activation = blocks.map(|block| {
                let held = &x[(block % cut.held) as usize];
                let crossed: Vec<Vec<Reg>> = held.chunks_exact(4).map(|x| self.few_crossed(cut, x)).collect();
                if cut.crossed() {
                    let next = block + cut.held;
                    self.few_activation(cut, cursor, next, x, (next >= BLOCKS).then_some(ahead));
                }
                crossed
            });
            for mb in 0..cut.own_columns / 16 {
                let words = self.few_words(cut, &places, pair, mb);
                for (i, block) in blocks.into_iter().enumerate() {
                    let halves = [0, 1].map(|h| self.few_decode(cut, &words[h][i]));
                    let scales = [0, 1].map(|h| {
                        let codes = scales.get(2 * mb as usize + h).copied();
                        codes.map(|codes| self.few_scale(codes, block))
                    });
                    for (nb, x) in activation[i].iter().enumerate() {
                        let sum = sums[(mb * row_blocks) as usize + nb];
                        let to = match scales[0] {
                            Some(_) => [0; 4].map(|_| def!(self, F32, "mov.f32", "0f00000000")),
                            None => sum,
                        };
                        for step in 0..2 {
                            let words = |half: &[Reg]| [half[2 * step], half[2 * step + 1]];
                            let (low, high) = (words(&halves[0]), words(&halves[1]));
                            super::unit::multiply(self, cut.unit, to, &low, &high, &words(x));
                        }
                        for (e, sum) in sum.into_iter().enumerate() {
                            if let Some(scale) = scales[e / 2] {
                                ptx!(self, "fma.rn.f32 {sum}, {}, {scale}, {sum}", to[e]);
                            }
                        }
                    }
                }
            }
            if !cut.crossed() {
                for block in blocks {
                    let next = block + cut.held;
                    self.few_activation(cut, cursor, next, x, (next >= BLOCKS).then_some(ahead));
                }
            }
        }
    }

    /// A block's elements of a row in the order that weights come out in.
    fn few_crossed(&mut self, cut: &Cut, x: &[Reg]) -> Vec<Reg> {
        if !cut.crossed() {
            return x.to_vec();
        }
        // Pairs (e, e + 4).
        [(0, "0x5410"), (0, "0x7632"), (1, "0x5410"), (1, "0x7632")]
            .map(|(i, selector)| def!(self, B32, "prmt.b32", "{}, {}, {selector}", x[i], x[i + 2]))
            .to_vec()
    }

    /// The codes of a window's scales, of each of this lane's lines; notes which are usual.
    fn few_scales(&mut self, cut: &Cut, stage: Reg, usual: Reg) -> Vec<Reg> {
        if !cut.scaled {
            return Vec::new();
        }
        let (g, t) = (self.geometry.fragment_row, self.geometry.fragment_pair);
        let first = cut.own_columns * cut.row_bytes();
        let place = def!(self, B32, "mad.lo.u32", "{g}, {}, {stage}", BLOCKS * cut.lines());
        // The four lanes of a row look at a quarter of its scales each. Codes of 64 … 191 have two different bits at the top.
        let quarter = match cut.lines() {
            2 => def!(self, B32, "and.b32", "{t}, 1"),
            _ => t,
        };
        let own = def!(self, B32, "mad.lo.u32", "{quarter}, {BLOCKS}, {place}");
        for part in 0..cut.lines().div_ceil(4) {
            let codes = def!(self, B32, "ld.shared.b32", "[{own}+{}]", first + 4 * BLOCKS * part);
            let below = def!(self, B32, "shl.b32", "{codes}, 1");
            ptx!(self, "lop3.b32 {usual}, {codes}, {below}, {usual}, 0x28");
        }
        let codes: Vec<Reg> = (0..cut.lines()).map(|_| self.reg(Class::B32)).collect();
        for (i, codes) in codes.chunks(4).enumerate() {
            let list: Vec<String> = codes.iter().map(ToString::to_string).collect();
            let offset = first + 4 * BLOCKS * i as u32;
            ptx!(
                self,
                "ld.shared.v{}.b32 {{{}}}, [{place}+{offset}]",
                list.len(),
                list.join(", ")
            );
        }
        codes
    }

    /// Weights of a pair of blocks and 16 columns: of each half of the columns and each block, the words of this lane.
    fn few_words(&mut self, cut: &Cut, places: &[Reg], pair: u32, mb: u32) -> [[Vec<Reg>; 2]; 2] {
        let line_bytes = 8 * cut.row_bytes();
        if cut.words() == 1 {
            let [a, b, c, d] = [0; 4].map(|_| self.reg(Class::B32));
            ptx!(
                self,
                "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{a}, {b}, {c}, {d}}}, [{}+{}]",
                places[pair as usize],
                2 * mb * line_bytes
            );
            return [[vec![a], vec![b]], [vec![c], vec![d]]];
        }
        [0, 1].map(|h| {
            [0, 1].map(|i| {
                let (a, b) = (self.reg(Class::B32), self.reg(Class::B32));
                let (place, offset) = (places[(2 * pair + i) as usize], (2 * mb + h) * line_bytes);
                ptx!(self, "ld.shared.v2.b32 {{{a}, {b}}}, [{place}+{offset}]");
                vec![a, b]
            })
        })
    }

    /// Adds up the splits' sums and stores the tile.
    fn few_store(
        &mut self,
        descriptor: &MatmulDescriptor,
        cut: &Cut,
        target: &Region,
        rows: Word,
        columns: Word,
        shared: Reg,
    ) {
        let out_rows = target.inside(self, 1, Word::Known(0), Some(descriptor.m));
        let out_columns = target.inside(self, 0, Word::Known(0), Some(descriptor.n));
        let threads = 32 * cut.simdgroups;
        let number = self.copy(self.geometry.hardware_thread);
        let all = out_rows.reg(self);
        let all = def!(self, B32, "mul.lo.u32", "{all}, {}", cut.columns);
        let (again, done) = (self.writer.label(), self.writer.label());
        self.writer.place(again);
        let finished = def!(self, Pred, "setp.ge.u32", "{number}, {all}");
        ptx!(self, "@{finished} bra {done}");
        let row = self.divided(number, cut.columns);
        let before = def!(self, B32, "mul.lo.u32", "{row}, {}", cut.columns);
        let column = def!(self, B32, "sub.u32", "{number}, {before}");
        ptx!(self, "add.u32 {number}, {number}, {threads}");
        let inside = def!(self, Pred, "setp.lt.s32", "{row}, {out_rows}");
        let inside_column = def!(self, Pred, "setp.lt.s32", "{column}, {out_columns}");
        let inside = def!(self, Pred, "and.pred", "{inside}, {inside_column}");
        ptx!(self, "@!{inside} bra {again}");
        let place = def!(self, B32, "mad.lo.u32", "{row}, {}, {column}", pitch(cut.columns));
        let place = def!(self, B32, "mad.lo.u32", "{place}, 4, {shared}");
        let mut sum = None;
        for split in 0..cut.splits {
            let part = self.reg(Class::F32);
            let offset = split * 16 * pitch(cut.columns) * 4;
            ptx!(self, "ld.shared.f32 {part}, [{place}+{offset}]");
            sum = Some(match sum {
                None => part,
                Some(sum) => def!(self, F32, "add.rn.f32", "{sum}, {part}"),
            });
        }
        let Some(mut sum) = sum else { return };
        if cut.factor() != 1.0 {
            sum = def!(self, F32, "mul.rn.f32", "{sum}, {}", float(cut.factor()));
        }
        // What the operands do not have counts as zero.
        let row_there = def!(self, Pred, "setp.lt.s32", "{row}, {rows}");
        let there = def!(self, Pred, "setp.lt.s32", "{column}, {columns}");
        let there = def!(self, Pred, "and.pred", "{there}, {row_there}");
        let sum = def!(self, F32, "selp.f32", "{sum}, 0f00000000, {there}");
        let (x, y) = (Word::Reg(column).widen(self), Word::Reg(row).widen(self));
        let x = x.mul(self, target.strides[0]);
        let y = y.mul(self, target.strides[1]);
        let index = x.add(self, y);
        let index = target.first.add(self, index);
        store_one(self, target, index, sum, descriptor.accumulate);
        ptx!(self, "bra {again}");
        self.writer.place(done);
    }
}
