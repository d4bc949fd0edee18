//! Few rows by quantised columns: each weight is read once, by wide loads, and decoded in registers.
//!
//! A layer of a language model that writes a token at a time waits for its weights, so bytes in flight count. The weights are the rows of
//! `mma`'s left operand (16 at a time), the activation's rows its 8 columns. SIMD-groups share out the tile's columns, 64 each, and K, window by
//! window; partial sums meet in shared memory. Sums of a block of 32 are multiplied by their scale. Scales that could take that out of range
//! (or are NaN) are noticed on the way, and the product is left to the general path.

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, MatmulDescriptor, Operand};

use super::MAX_K;
use super::emit::{Wide, Word, advance, both, branch_if, branch_unless, def, float, step};
use super::region::{Region, region};
use super::target::store_one;
use super::unit::{Unit, unit_of, widen};
use crate::lower::check::AccessKind;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Columns that a SIMD-group takes at most.
const COLUMNS: u32 = 64;
/// Elements along K that share a scale, and that a lane's row has a run of.
const BLOCK: u32 = 32;
/// Distance of rows in the shared sums, in elements: spreads a fragment's stores over all banks.
const fn pitch(columns: u32) -> u32 {
    columns + 4
}

/// How a product of few rows is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    unit: Unit,
    format: ElementFormat,
    scaled: bool,
    /// Columns of the tile, and of a SIMD-group.
    columns: u32,
    own_columns: u32,
    /// SIMD-groups that share columns and split K.
    splits: u32,
    simdgroups: u32,
    /// Blocks of K in a window.
    blocks: u32,
}

impl Cut {
    /// The cut of a product that this path has.
    fn of(
        descriptor: &MatmulDescriptor,
        simdgroups: u32,
        left: &Region,
        right: &Region,
        target: &Region,
    ) -> Option<Cut> {
        use ElementFormat as E;
        let device = |region: &Region| matches!(region.space, AddressSpace::Device | AddressSpace::Constant);
        let columns = descriptor.n;
        let own_columns = columns.min(COLUMNS);
        let groups = columns / own_columns;
        let fits = descriptor.m <= 16
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
        let known = matches!(
            (left.format, right.format),
            (
                E::F16,
                E::Int4B | E::UInt4B | E::Fp4E2M1 | E::Fp8E4M3 | E::Fp8E5M2 | E::I8 | E::U8
            ) | (E::BF16, E::Int4B | E::UInt4B | E::I8 | E::U8)
        );
        (fits && known).then_some(Cut {
            unit,
            format: right.format,
            scaled,
            columns,
            own_columns,
            splits: simdgroups / groups,
            simdgroups,
            blocks: if right.bits() == 4 { 4 } else { 2 },
        })
    }

    fn window(&self) -> u32 {
        self.blocks * BLOCK
    }

    /// Rows of weights of a lane.
    fn lines(&self) -> u32 {
        self.own_columns / 8
    }

    /// Words of 8 weights.
    fn words(&self) -> u32 {
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

    fn shared_bytes(&self) -> u32 {
        self.splits * 16 * pitch(self.columns) * 4
    }
}

/// A window of weights in registers.
struct Window {
    /// By line and block.
    weights: Vec<Vec<Vec<Reg>>>,
    /// By line: the codes of the window's blocks.
    scales: Vec<Reg>,
}

/// Addresses of a SIMD-group, moved from window to window.
struct Cursor {
    weights: Vec<Reg>,
    scales: Vec<Reg>,
    activation: Vec<Reg>,
    scale_step: Wide,
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
        let Some(cut) = Cut::of(descriptor, simdgroups, &activation, &weights, &target) else {
            return Ok(false);
        };
        let (general, done) = (self.writer.label(), self.writer.label());
        let Some(end) = self.few_condition(descriptor, &cut, &activation, &weights, general) else {
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
        let shared = def!(self, B32, "mov.u32", "smem");
        // The least and the greatest scale.
        let range = [self.u32(100 << 23), self.u32(100 << 23)];
        let (many, summed) = (self.writer.label(), self.writer.label());
        let row_count = rows.reg(self);
        let more = def!(self, Pred, "setp.gt.s32", "{row_count}, 8");
        if descriptor.m > 8 {
            branch_if(self, more, many);
        }
        self.few_sums(&cut, &activation, &weights, rows, columns, end, 1, range, shared);
        if descriptor.m > 8 {
            ptx!(self, "bra.uni {summed}");
            self.writer.place(many);
            self.few_sums(&cut, &activation, &weights, rows, columns, end, 2, range, shared);
        }
        self.writer.place(summed);
        let threads = 32 * simdgroups;
        if cut.scaled {
            let low = def!(self, Pred, "setp.lt.u32", "{}, {}", range[0], 40u32 << 23);
            let rare = self.reg(Class::Pred);
            ptx!(self, "setp.gt.or.u32 {rare}, {}, {}, {low}", range[1], 240u32 << 23);
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
        if !self.staged_matmul(descriptor, simdgroups, left, right, destination)? {
            self.matmul(descriptor, simdgroups, left, right, destination)?;
        }
        self.writer.place(done);
        Ok(true)
    }

    /// Goes to `general` where wide loads do not fit. K, or `None` where they never fit.
    fn few_condition(
        &mut self,
        descriptor: &MatmulDescriptor,
        cut: &Cut,
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
        let rest = def!(self, B32, "and.b32", "{end}, {}", cut.window() - 1);
        let mut all = Some(def!(self, Pred, "setp.eq.u32", "{rest}, 0"));
        let word_bytes = 4 * cut.words();
        let mut loads = vec![(activation.pointer, activation.first, activation.strides[1], 16, 8)];
        loads.push((weights.pointer, weights.first, weights.strides[1], word_bytes, 8));
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
            loads.push((scales.pointer, first, scales.strides[1], cut.blocks, cut.blocks));
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
    fn few_first_scale(&mut self, weights: &Region) -> Wide {
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
    #[allow(clippy::too_many_arguments)]
    fn few_sums(
        &mut self,
        cut: &Cut,
        activation: &Region,
        weights: &Region,
        rows: Word,
        columns: Word,
        end: Reg,
        row_blocks: u32,
        range: [Reg; 2],
        shared: Reg,
    ) {
        let simdgroup = self.geometry.simdgroup;
        let (g, t) = (self.geometry.fragment_row, self.geometry.fragment_pair);
        let groups = cut.columns / cut.own_columns;
        let split = def!(self, B32, "div.u32", "{simdgroup}, {groups}");
        let before = def!(self, B32, "mul.lo.u32", "{split}, {groups}");
        let group = def!(self, B32, "sub.u32", "{simdgroup}, {before}");
        let first_column = def!(self, B32, "mul.lo.u32", "{group}, {}", cut.own_columns);
        let tiles = cut.own_columns / 16;
        let sums: Vec<[Reg; 4]> = (0..tiles * row_blocks)
            .map(|_| [0; 4].map(|_| def!(self, F32, "mov.f32", "0f00000000")))
            .collect();

        let windows = def!(self, B32, "div.u32", "{end}, {}", cut.window());
        let left = def!(self, B32, "sub.s32", "{windows}, {split}");
        let finished = self.writer.label();
        let none = def!(self, Pred, "setp.le.s32", "{left}, 0");
        branch_if(self, none, finished);

        // Where this lane begins: its rows, and its run in the SIMD-group's first window.
        let first_k = def!(self, B32, "mul.lo.u32", "{split}, {}", cut.window());
        let lane_k = def!(self, B32, "mad.lo.u32", "{t}, 8, {first_k}");
        let lane_k = Word::Reg(lane_k).widen(self);
        let bits = Wide::Known(cut.format.bits() as i64);
        let line_address = |l: &mut Self, region: &Region, line: Reg, inside: Word, bits: Wide| {
            let last = inside.add(l, Word::Known(-1));
            let line = def!(l, B32, "min.s32", "{line}, {last}");
            let line = Word::Reg(line).widen(l);
            let across = line.mul(l, region.strides[1]);
            let index = across.add(l, lane_k);
            let index = region.first.add(l, index);
            let bit = index.mul(l, bits).reg(l);
            let bytes = def!(l, B64, "shr.s64", "{bit}, 3");
            advance(l, region.pointer, Wide::Reg(bytes))
        };
        let mut cursor = Cursor {
            weights: Vec::new(),
            scales: Vec::new(),
            activation: Vec::new(),
            scale_step: Wide::Known(i64::from(cut.splits * cut.blocks)),
        };
        for line in 0..cut.lines() {
            let line = def!(self, B32, "add.u32", "{g}, {}", 8 * line);
            let line = def!(self, B32, "add.u32", "{line}, {first_column}");
            let address = line_address(self, weights, line, columns, bits);
            cursor.weights.push(address);
            if let Some(scales) = &weights.scales {
                let last = columns.add(self, Word::Known(-1));
                let line = def!(self, B32, "min.s32", "{line}, {last}");
                let line = Word::Reg(line).widen(self);
                let across = line.mul(self, scales.strides[1]);
                let first = self.few_first_scale(weights);
                let at = first.add(self, across);
                let block = def!(self, B32, "mul.lo.u32", "{split}, {}", cut.blocks);
                let block = Word::Reg(block).widen(self);
                let at = at.add(self, block);
                let address = advance(self, scales.pointer, at);
                cursor.scales.push(address);
            }
        }
        for block in 0..row_blocks {
            let line = def!(self, B32, "add.u32", "{g}, {}", 8 * block);
            let address = line_address(self, activation, line, rows, Wide::Known(16));
            cursor.activation.push(address);
        }

        // Two windows in turn: one is decoded while the other one is on its way.
        let done = def!(self, B32, "mov.b32", "0");
        let again = self.writer.label();
        let first = self.few_load(cut, &cursor);
        let second = self.few_buffer(cut);
        self.writer.place(again);
        for (here, there) in [(&first, &second), (&second, &first)] {
            let next = def!(self, B32, "add.s32", "{done}, {}", cut.splits);
            let more = def!(self, Pred, "setp.lt.s32", "{next}, {left}");
            self.few_next(cut, &cursor, there, more);
            self.few_multiply(cut, here, &cursor, &sums, row_blocks, range);
            self.few_advance_activation(cut, &cursor);
            ptx!(self, "mov.b32 {done}, {next}");
            branch_unless(self, more, finished);
        }
        ptx!(self, "bra.uni {again}");
        self.writer.place(finished);

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

    /// Registers for a window.
    fn few_buffer(&mut self, cut: &Cut) -> Window {
        let lines = cut.lines();
        Window {
            weights: (0..lines)
                .map(|_| {
                    (0..cut.blocks)
                        .map(|_| (0..cut.words()).map(|_| self.reg(Class::B32)).collect())
                        .collect()
                })
                .collect(),
            scales: if cut.scaled {
                (0..lines).map(|_| self.reg(Class::B32)).collect()
            } else {
                Vec::new()
            },
        }
    }

    fn few_load(&mut self, cut: &Cut, cursor: &Cursor) -> Window {
        let window = self.few_buffer(cut);
        self.few_fill(cut, cursor, &window);
        window
    }

    /// Loads the window that the addresses are at.
    fn few_fill(&mut self, cut: &Cut, cursor: &Cursor, window: &Window) {
        for (line, &address) in cursor.weights.iter().enumerate() {
            for block in 0..cut.blocks {
                let offset = block * BLOCK * cut.format.bits() as u32 / 8;
                let words = &window.weights[line][block as usize];
                match words.as_slice() {
                    [word] => ptx!(self, "ld.global.L2::128B.b32 {word}, [{address}+{offset}]"),
                    [a, b] => ptx!(self, "ld.global.L2::128B.v2.b32 {{{a}, {b}}}, [{address}+{offset}]"),
                    _ => unreachable!("eight weights have one word or two"),
                }
            }
        }
        for (&scales, &address) in window.scales.iter().zip(&cursor.scales) {
            let ty = if cut.blocks == 4 { "b32" } else { "u16" };
            ptx!(self, "ld.global.{ty} {scales}, [{address}]");
        }
    }

    /// Moves on to the SIMD-group's next window and loads it, if there is one.
    fn few_next(&mut self, cut: &Cut, cursor: &Cursor, window: &Window, more: Reg) {
        let skip = self.writer.label();
        branch_unless(self, more, skip);
        let bytes = cut.splits * cut.window() * cut.format.bits() as u32 / 8;
        for &address in &cursor.weights {
            step(self, address, Wide::Known(bytes.into()));
        }
        for &address in &cursor.scales {
            step(self, address, cursor.scale_step);
        }
        self.few_fill(cut, cursor, window);
        self.writer.place(skip);
    }

    fn few_advance_activation(&mut self, cut: &Cut, cursor: &Cursor) {
        for &address in &cursor.activation {
            step(self, address, Wide::Known(i64::from(2 * cut.splits * cut.window())));
        }
    }

    /// Multiplies a window.
    fn few_multiply(
        &mut self,
        cut: &Cut,
        window: &Window,
        cursor: &Cursor,
        sums: &[[Reg; 4]],
        row_blocks: u32,
        range: [Reg; 2],
    ) {
        for block in 0..cut.blocks {
            let activation: Vec<Vec<Reg>> = cursor
                .activation
                .iter()
                .map(|&address| {
                    let w: Vec<Reg> = (0..4).map(|_| self.reg(Class::B32)).collect();
                    let offset = 2 * BLOCK * block;
                    ptx!(
                        self,
                        "ld.global.v4.b32 {{{}, {}, {}, {}}}, [{address}+{offset}]",
                        w[0],
                        w[1],
                        w[2],
                        w[3]
                    );
                    if !cut.crossed() {
                        return w;
                    }
                    // Pairs (e, e + 4).
                    let pair =
                        |l: &mut Self, a: Reg, b: Reg, selector: &str| def!(l, B32, "prmt.b32", "{a}, {b}, {selector}");
                    vec![
                        pair(self, w[0], w[2], "0x5410"),
                        pair(self, w[0], w[2], "0x7632"),
                        pair(self, w[1], w[3], "0x5410"),
                        pair(self, w[1], w[3], "0x7632"),
                    ]
                })
                .collect();
            for mb in 0..cut.own_columns / 16 {
                let halves = [0, 1].map(|h| {
                    let words = &window.weights[(2 * mb + h) as usize][block as usize];
                    self.few_decode(cut, words)
                });
                let scales = [0, 1].map(|h| {
                    cut.scaled
                        .then(|| self.few_scale(window.scales[(2 * mb + h) as usize], block, range))
                });
                for nb in 0..row_blocks {
                    let sum = sums[(mb * row_blocks + nb) as usize];
                    let to = match scales[0] {
                        Some(_) => [0; 4].map(|_| def!(self, F32, "mov.f32", "0f00000000")),
                        None => sum,
                    };
                    let x = &activation[nb as usize];
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
    }

    /// The scale of a block as `f32`, of the codes of a window; codes 0 and 255 are found out by their range.
    fn few_scale(&mut self, codes: Reg, block: u32, range: [Reg; 2]) -> Reg {
        let shifted = match block {
            3 => def!(self, B32, "shr.u32", "{codes}, 1"),
            block => def!(self, B32, "shl.b32", "{codes}, {}", 23 - 8 * block),
        };
        let bits = def!(self, B32, "and.b32", "{shifted}, {}", 0x7f80_0000);
        let [least, greatest] = range;
        ptx!(self, "min.u32 {least}, {least}, {bits}");
        ptx!(self, "max.u32 {greatest}, {greatest}, {bits}");
        def!(self, F32, "mov.b32", "{bits}")
    }

    /// Eight weights as four words of the unit; see [`Cut::crossed`] for their order, [`Cut::factor`] for what FP4 lacks.
    fn few_decode(&mut self, cut: &Cut, words: &[Reg]) -> Vec<Reg> {
        use ElementFormat as E;
        let signed = cut.format == E::Int4B;
        match (cut.format, cut.unit) {
            (E::Int4B | E::UInt4B, Unit::F16) => {
                // 1024 + code, and 1024 + 16 · code for the upper one of a byte.
                let magic = 0x6400_6400u32 | if signed { 0x0008_0008 } else { 0 };
                let magic_high = 0x6400_6400u32 | if signed { 0x0080_0080 } else { 0 };
                // Signed codes are counted from −8.
                let low_less: u16 = if signed { 0xe408 } else { 0xe400 };
                let high_less: u16 = if signed { 0xd480 } else { 0xd400 };
                let twice = |bits: u16| u32::from(bits) | u32::from(bits) << 16;
                let low_less = self.u32(twice(low_less));
                let high_less = self.u32(twice(high_less));
                let sixteenth = self.u32(0x2c00_2c00);
                let upper = def!(self, B32, "shr.u32", "{}, 8", words[0]);
                let mut out = Vec::new();
                for word in [words[0], upper] {
                    let low = def!(self, B32, "lop3.b32", "{word}, {}, {magic}, 0x6a", 0x000f_000fu32);
                    let high = def!(self, B32, "lop3.b32", "{word}, {}, {magic_high}, 0x6a", 0x00f0_00f0u32);
                    out.push(def!(self, B32, "add.rn.f16x2", "{low}, {low_less}"));
                    out.push(def!(self, B32, "fma.rn.f16x2", "{high}, {sixteenth}, {high_less}"));
                }
                out
            }
            (E::Int4B | E::UInt4B, _) => {
                let magic = 0x4300_4300u32 | if signed { 0x0008_0008 } else { 0 };
                let less = self.u32(if signed { 0xc308_c308 } else { 0xc300_c300 });
                let one = self.u32(0x3f80_3f80);
                (0..4)
                    .map(|i| {
                        let word = match i {
                            0 => words[0],
                            i => def!(self, B32, "shr.u32", "{}, {}", words[0], 4 * i),
                        };
                        let code = def!(self, B32, "lop3.b32", "{word}, {}, {magic}, 0x6a", 0x000f_000fu32);
                        def!(self, B32, "fma.rn.bf16x2", "{code}, {one}, {less}")
                    })
                    .collect()
            }
            (E::Fp4E2M1, _) => {
                // The sign at bit 15, the rest at bits 11 … 9 of each half.
                (0..4)
                    .map(|i| {
                        let at_top = match i {
                            3 => words[0],
                            i => def!(self, B32, "shl.b32", "{}, {}", words[0], 12 - 4 * i),
                        };
                        let place = match i {
                            2 => def!(self, B32, "shl.b32", "{}, 1", words[0]),
                            3 => def!(self, B32, "shr.u32", "{}, 3", words[0]),
                            i => def!(self, B32, "shl.b32", "{}, {}", words[0], 9 - 4 * i),
                        };
                        let magnitude = def!(self, B32, "and.b32", "{place}, {}", 0x0e00_0e00u32);
                        def!(self, B32, "lop3.b32", "{at_top}, {}, {magnitude}, 0xea", 0x8000_8000u32)
                    })
                    .collect()
            }
            (format, unit) => widen(self, words, 8, format, unit),
        }
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
        let (again, done) = (self.writer.label(), self.writer.label());
        self.writer.place(again);
        let finished = def!(self, Pred, "setp.ge.u32", "{number}, {}", descriptor.m * cut.columns);
        ptx!(self, "@{finished} bra {done}");
        let row = def!(self, B32, "div.u32", "{number}, {}", cut.columns);
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
