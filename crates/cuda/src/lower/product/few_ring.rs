//! The rings of products of few rows: what a SIMD-group copies ahead, and where from.

use super::emit::{Wide, Word, advance, branch_if, def, step};
use super::few::{BLOCK, BLOCKS, Cut, WINDOW};
use super::region::Region;
use crate::lower::Lower;
use crate::ptx;
use crate::ptx::Reg;

/// Addresses of a lane, moved from window to window.
pub(super) struct Cursor {
    /// The 16 bytes of the tile's first line that this lane copies first, and how far from there those of its lines are, in units of
    /// 16 bytes.
    pub weights: Reg,
    pub lines: Vec<Reg>,
    /// Of four lines, the scales.
    pub scales: Vec<Reg>,
    pub activation: Vec<Reg>,
    /// Where in a stage this lane's copies of line 0 go: weights (one or two), scales.
    pub weights_to: Vec<Reg>,
    pub scales_to: Option<Reg>,
    /// Where in a stage this lane's weights are: of each pair of blocks, or of each block.
    pub places: Vec<Reg>,
    /// The ring.
    pub ring: Reg,
}

impl Lower<'_> {
    /// Where a lane copies from and to.
    pub(super) fn few_cursor(
        &mut self,
        cut: &Cut,
        activation: &Region,
        weights: &Region,
        rows: Word,
        columns: Word,
        [first_window, first_column]: [Reg; 2],
        row_blocks: u32,
        shared: Reg,
    ) -> Cursor {
        let (g, t) = (self.geometry.fragment_row, self.geometry.fragment_pair);
        let bits = weights.bits();
        let first_k = def!(self, B32, "mul.lo.u32", "{first_window}, {WINDOW}");
        let line_address = |l: &mut Self, region: &Region, line: Reg, inside: Word, k: Reg| {
            let last = inside.add(l, Word::Known(-1));
            let line = def!(l, B32, "min.s32", "{line}, {last}");
            let line = Word::Reg(line).widen(l);
            let across = line.mul(l, region.strides[1]);
            let k = Word::Reg(k).widen(l);
            let index = across.add(l, k);
            let index = region.first.add(l, index);
            let bit = index.mul(l, Wide::Known(region.bits().into())).reg(l);
            let bytes = def!(l, B64, "shr.s64", "{bit}, 3");
            advance(l, region.pointer, Wide::Reg(bytes))
        };
        // 16 bytes of each line's 64 (or two of 128).
        let copy_k = def!(self, B32, "mad.lo.u32", "{t}, {}, {first_k}", 128 / bits);
        let run_k = def!(self, B32, "mad.lo.u32", "{t}, 8, {first_k}");
        let first = Word::Reg(copy_k).widen(self);
        let first = weights.first.add(self, first);
        let first = first.mul(self, Wide::Known(bits.into())).reg(self);
        let first = def!(self, B64, "shr.s64", "{first}, 3");
        let last_column = columns.add(self, Word::Known(-1));
        let pitch = weights.strides[1].mul(self, Wide::Known(bits.into())).reg(self);
        let pitch = def!(self, B64, "shr.u64", "{pitch}, 7");
        let pitch = def!(self, B32, "cvt.u32.u64", "{pitch}");
        let mut cursor = Cursor {
            weights: advance(self, weights.pointer, Wide::Reg(first)),
            lines: Vec::new(),
            scales: Vec::new(),
            activation: Vec::new(),
            weights_to: Vec::new(),
            scales_to: None,
            places: Vec::new(),
            ring: shared,
        };
        for line in 0..cut.lines() {
            let line = def!(self, B32, "add.u32", "{g}, {}", 8 * line);
            let line = def!(self, B32, "add.u32", "{line}, {first_column}");
            let line = def!(self, B32, "min.s32", "{line}, {last_column}");
            cursor.lines.push(def!(self, B32, "mul.lo.u32", "{line}, {pitch}"));
        }
        for block in 0..row_blocks {
            let line = def!(self, B32, "add.u32", "{g}, {}", 8 * block);
            cursor
                .activation
                .push(line_address(self, activation, line, rows, run_k));
        }
        let ring_bytes = cut.stages * cut.stage_bytes();
        let simdgroup = self.geometry.simdgroup;
        let ring = def!(self, B32, "mad.lo.u32", "{simdgroup}, {ring_bytes}, {shared}");
        cursor.ring = ring;
        cursor.places = self.few_places(cut, ring);
        let row = def!(self, B32, "mad.lo.u32", "{g}, {}, {ring}", cut.row_bytes());
        for part in 0..cut.row_bytes() / 64 {
            let chunk = def!(self, B32, "add.u32", "{t}, {}", 4 * part);
            let swizzle = self.few_swizzle(cut);
            let chunk = def!(self, B32, "xor.b32", "{chunk}, {swizzle}");
            cursor
                .weights_to
                .push(def!(self, B32, "mad.lo.u32", "{chunk}, 16, {row}"));
        }
        if let Some(scales) = &weights.scales {
            // Lane pair t copies the scales of lines t, t + 4, …; those of a lane's rows lie beside each other.
            let line = def!(self, B32, "mad.lo.u32", "{t}, 8, {g}");
            let to = def!(self, B32, "mad.lo.u32", "{g}, {}, {t}", cut.lines());
            let to = def!(self, B32, "mad.lo.u32", "{to}, {BLOCKS}, {ring}");
            let to = def!(self, B32, "add.u32", "{to}, {}", cut.own_columns * cut.row_bytes());
            cursor.scales_to = Some(to);
            let last = columns.add(self, Word::Known(-1));
            let first = self.few_first_scale(weights);
            let block = def!(self, B32, "mul.lo.u32", "{first_window}, {BLOCKS}");
            let block = Word::Reg(block).widen(self);
            let first = first.add(self, block);
            for part in 0..cut.lines().div_ceil(4) {
                let line = def!(self, B32, "add.u32", "{line}, {}", 32 * part);
                let line = def!(self, B32, "add.u32", "{line}, {first_column}");
                let line = def!(self, B32, "min.s32", "{line}, {last}");
                let line = Word::Reg(line).widen(self);
                let across = line.mul(self, scales.strides[1]);
                let at = first.add(self, across);
                cursor.scales.push(advance(self, scales.pointer, at));
            }
        }
        // Loops move them.
        cursor.weights = self.copy(cursor.weights);
        for address in cursor.scales.iter_mut().chain(&mut cursor.activation) {
            *address = self.copy(*address);
        }
        cursor
    }

    /// Where in the first stage this lane reads weights.
    fn few_places(&mut self, cut: &Cut, ring: Reg) -> Vec<Reg> {
        if cut.words() == 1 {
            // Lane 8·m + r has the address of row r of matrix m, which is block m % 2 of a pair, line m / 2 of two.
            let lane = self.geometry.hardware_lane;
            let row = def!(self, B32, "and.b32", "{lane}, 7");
            let line = def!(self, B32, "shr.u32", "{lane}, 4");
            let line = def!(self, B32, "mad.lo.u32", "{line}, 8, {row}");
            let line = def!(self, B32, "mad.lo.u32", "{line}, {}, {ring}", cut.row_bytes());
            let swizzle = def!(self, B32, "shr.u32", "{row}, 1");
            let odd = def!(self, B32, "shr.u32", "{lane}, 3");
            let odd = def!(self, B32, "and.b32", "{odd}, 1");
            return (0..BLOCKS / 2)
                .map(|pair| {
                    let chunk = def!(self, B32, "add.u32", "{odd}, {}", 2 * pair);
                    let chunk = def!(self, B32, "xor.b32", "{chunk}, {swizzle}");
                    def!(self, B32, "mad.lo.u32", "{chunk}, 16, {line}")
                })
                .collect();
        }
        // Eight bytes, half of a chunk of 16.
        let (g, t) = (self.geometry.fragment_row, self.geometry.fragment_pair);
        let row = def!(self, B32, "mad.lo.u32", "{g}, {}, {ring}", cut.row_bytes());
        let odd = def!(self, B32, "and.b32", "{t}, 1");
        let row = def!(self, B32, "mad.lo.u32", "{odd}, 8, {row}");
        let half = def!(self, B32, "shr.u32", "{t}, 1");
        let swizzle = self.few_swizzle(cut);
        (0..BLOCKS)
            .map(|block| {
                let chunk = def!(self, B32, "add.u32", "{half}, {}", 2 * block);
                let chunk = def!(self, B32, "xor.b32", "{chunk}, {swizzle}");
                def!(self, B32, "mad.lo.u32", "{chunk}, 16, {row}")
            })
            .collect()
    }

    /// What the 16-byte chunks of a lane's rows are exchanged by, so that a fragment's loads fall into all banks.
    pub(super) fn few_swizzle(&mut self, cut: &Cut) -> Reg {
        let g = self.geometry.fragment_row;
        if cut.row_bytes() == 64 {
            let half = def!(self, B32, "shr.u32", "{g}, 1");
            def!(self, B32, "and.b32", "{half}, 3")
        } else {
            let low = def!(self, B32, "and.b32", "{g}, 3");
            def!(self, B32, "shl.b32", "{low}, 1")
        }
    }

    /// Fills the ring but for one stage, a group for each. The offset of the stage that is next.
    pub(super) fn few_fill(&mut self, cut: &Cut, cursor: &Cursor, to_load: Reg) -> Reg {
        let most = cut.stages - 1;
        let lines = self.few_lines(cursor);
        for window in 0..most {
            let there = def!(self, Pred, "setp.gt.s32", "{to_load}, {window}");
            let stage = window * cut.stage_bytes();
            let along = window * cut.apart;
            for (line, &from) in lines.iter().enumerate() {
                for (part, &to) in cursor.weights_to.iter().enumerate() {
                    let (to_offset, offset) = (
                        stage + line as u32 * 8 * cut.row_bytes(),
                        along * cut.row_bytes() + 64 * part as u32,
                    );
                    ptx!(
                        self,
                        "@{there} cp.async.cg.shared.global.L2::128B [{to}+{to_offset}], [{from}+{offset}], 16"
                    );
                }
            }
            if let Some(to) = cursor.scales_to {
                for (part, &from) in cursor.scales.iter().enumerate() {
                    let there = match self.few_has_scales(cut, part as u32) {
                        Some(lane) => def!(self, Pred, "and.pred", "{there}, {lane}"),
                        None => there,
                    };
                    let (to_offset, offset) = (stage + part as u32 * 4 * BLOCKS, along * BLOCKS);
                    ptx!(
                        self,
                        "@{there} cp.async.ca.shared.global [{to}+{to_offset}], [{from}+{offset}], {BLOCKS}"
                    );
                }
            }
            ptx!(self, "cp.async.commit_group");
        }
        let count = def!(self, B32, "min.u32", "{to_load}, {most}");
        ptx!(self, "sub.s32 {to_load}, {to_load}, {count}");
        for (addresses, bytes) in [(&[cursor.weights][..], cut.row_bytes()), (&cursor.scales[..], BLOCKS)] {
            let bytes = def!(self, B64, "mul.wide.u32", "{count}, {}", cut.apart * bytes);
            for &address in addresses {
                ptx!(self, "add.s64 {address}, {address}, {bytes}");
            }
        }
        def!(self, B32, "mul.lo.u32", "{count}, {}", cut.stage_bytes())
    }

    /// The addresses of this lane's lines.
    fn few_lines(&mut self, cursor: &Cursor) -> Vec<Reg> {
        let first = cursor.weights;
        let address = |&line: &Reg| def!(self, B64, "mad.wide.u32", "{line}, 16, {first}");
        cursor.lines.iter().map(address).collect()
    }

    /// Whether this lane copies scales in a part of the lines; `None` if all lanes do: narrow tiles have no line for the last ones.
    pub(super) fn few_has_scales(&mut self, cut: &Cut, part: u32) -> Option<Reg> {
        if cut.lines() >= 4 * (part + 1) {
            return None;
        }
        let pair = self.geometry.fragment_pair;
        let line = def!(self, B32, "add.u32", "{pair}, {}", 4 * part);
        Some(def!(self, Pred, "setp.lt.u32", "{line}, {}", cut.lines()))
    }

    /// Copies the next window into the stage that is next, if there is one; a group in any case.
    pub(super) fn few_copy(&mut self, cut: &Cut, cursor: &Cursor, stage: Reg, to_load: Reg) {
        let skip = self.writer.label();
        let none = def!(self, Pred, "setp.le.s32", "{to_load}, 0");
        branch_if(self, none, skip);
        for (line, from) in self.few_lines(cursor).into_iter().enumerate() {
            for (part, &to) in cursor.weights_to.iter().enumerate() {
                let to = def!(self, B32, "add.u32", "{to}, {stage}");
                let offset = line as u32 * 8 * cut.row_bytes();
                ptx!(
                    self,
                    "cp.async.cg.shared.global.L2::128B [{to}+{offset}], [{from}+{}], 16",
                    64 * part
                );
            }
        }
        step(self, cursor.weights, Wide::Known((cut.apart * cut.row_bytes()).into()));
        if let Some(to) = cursor.scales_to {
            let to = def!(self, B32, "add.u32", "{to}, {stage}");
            for (part, &from) in cursor.scales.iter().enumerate() {
                let guard = match self.few_has_scales(cut, part as u32) {
                    Some(lane) => format!("@{lane} "),
                    None => String::new(),
                };
                let offset = part as u32 * 4 * BLOCKS;
                ptx!(
                    self,
                    "{guard}cp.async.ca.shared.global [{to}+{offset}], [{from}], {BLOCKS}"
                );
                step(self, from, Wide::Known((cut.apart * BLOCKS).into()));
            }
        }
        ptx!(self, "sub.s32 {to_load}, {to_load}, 1");
        self.few_next_stage(cut, stage);
        self.writer.place(skip);
        ptx!(self, "cp.async.commit_group");
    }

    /// A number that is not negative, divided by a known one.
    pub(super) fn divided(&mut self, number: Reg, by: u32) -> Reg {
        match by.is_power_of_two() {
            true => def!(self, B32, "shr.u32", "{number}, {}", by.trailing_zeros()),
            false => def!(self, B32, "div.u32", "{number}, {by}"),
        }
    }

    pub(super) fn few_next_stage(&mut self, cut: &Cut, stage: Reg) {
        let bytes = cut.stage_bytes();
        ptx!(self, "add.u32 {stage}, {stage}, {bytes}");
        let end = def!(self, Pred, "setp.eq.u32", "{stage}, {}", cut.stages * bytes);
        ptx!(self, "selp.b32 {stage}, 0, {stage}, {end}");
    }

    /// Loads the activation's elements of a block, counted from this window's first, into the registers that are its turn; `there` if those of
    /// the next window are.
    pub(super) fn few_activation(
        &mut self,
        cut: &Cut,
        cursor: &Cursor,
        block: u32,
        to: &[Vec<Reg>],
        there: Option<Reg>,
    ) {
        let to = &to[(block % cut.held) as usize];
        let offset = 2 * (BLOCK * (block % BLOCKS) + block / BLOCKS * cut.apart * WINDOW);
        let guard = there.map_or(String::new(), |there| format!("@{there} "));
        for (&address, to) in cursor.activation.iter().zip(to.chunks_exact(4)) {
            ptx!(
                self,
                "{guard}ld.global.v4.b32 {{{}, {}, {}, {}}}, [{address}+{offset}]",
                to[0],
                to[1],
                to[2],
                to[3]
            );
        }
    }
}
