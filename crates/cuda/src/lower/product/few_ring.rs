//! The rings of products of few rows: what a SIMD-group copies ahead, and where from.

use super::emit::{Wide, Word, advance, branch_if, def, step};
use super::few::{BLOCK, BLOCKS, Cut, WINDOW};
use super::region::Region;
use crate::lower::Lower;
use crate::ptx;
use crate::ptx::Reg;

/// Addresses of a lane, moved from window to window.
pub(super) struct Cursor {
    /// Of each line, the 16 bytes that this lane copies first.
    pub weights: Vec<Reg>,
    /// Of two lines, the scales.
    pub scales: Vec<Reg>,
    pub activation: Vec<Reg>,
    /// Where in a stage this lane's copies of line 0 go: weights (one or two), scales.
    pub weights_to: Vec<Reg>,
    pub scales_to: Option<Reg>,
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
        [split, first_column]: [Reg; 2],
        row_blocks: u32,
        shared: Reg,
    ) -> Cursor {
        let (g, t) = (self.geometry.fragment_row, self.geometry.fragment_pair);
        let bits = weights.bits();
        let first_k = def!(self, B32, "mul.lo.u32", "{split}, {WINDOW}");
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
        let mut cursor = Cursor {
            weights: Vec::new(),
            scales: Vec::new(),
            activation: Vec::new(),
            weights_to: Vec::new(),
            scales_to: None,
            ring: shared,
        };
        for line in 0..cut.lines() {
            let line = def!(self, B32, "add.u32", "{g}, {}", 8 * line);
            let line = def!(self, B32, "add.u32", "{line}, {first_column}");
            cursor.weights.push(line_address(self, weights, line, columns, copy_k));
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
            // Lane pair t copies the scales of lines t, t + 4, ….
            let line = def!(self, B32, "mad.lo.u32", "{t}, 8, {g}");
            let to = def!(self, B32, "mad.lo.u32", "{line}, {BLOCKS}, {ring}");
            let to = def!(self, B32, "add.u32", "{to}, {}", cut.own_columns * cut.row_bytes());
            cursor.scales_to = Some(to);
            let last = columns.add(self, Word::Known(-1));
            let first = self.few_first_scale(weights);
            let block = def!(self, B32, "mul.lo.u32", "{split}, {BLOCKS}");
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
        for address in cursor
            .weights
            .iter_mut()
            .chain(&mut cursor.scales)
            .chain(&mut cursor.activation)
        {
            *address = self.copy(*address);
        }
        cursor
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
        for window in 0..most {
            let there = def!(self, Pred, "setp.gt.s32", "{to_load}, {window}");
            let stage = window * cut.stage_bytes();
            let along = window * cut.splits;
            for (line, &from) in cursor.weights.iter().enumerate() {
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
                    let (to_offset, offset) = (stage + part as u32 * 32 * BLOCKS, along * BLOCKS);
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
        for (addresses, bytes) in [(&cursor.weights, cut.row_bytes()), (&cursor.scales, BLOCKS)] {
            let bytes = def!(self, B64, "mul.wide.u32", "{count}, {}", cut.splits * bytes);
            for &address in addresses {
                ptx!(self, "add.s64 {address}, {address}, {bytes}");
            }
        }
        def!(self, B32, "mul.lo.u32", "{count}, {}", cut.stage_bytes())
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
        for (line, &from) in cursor.weights.iter().enumerate() {
            for (part, &to) in cursor.weights_to.iter().enumerate() {
                let to = def!(self, B32, "add.u32", "{to}, {stage}");
                let offset = line as u32 * 8 * cut.row_bytes();
                ptx!(
                    self,
                    "cp.async.cg.shared.global.L2::128B [{to}+{offset}], [{from}+{}], 16",
                    64 * part
                );
            }
            step(self, from, Wide::Known((cut.splits * cut.row_bytes()).into()));
        }
        if let Some(to) = cursor.scales_to {
            let to = def!(self, B32, "add.u32", "{to}, {stage}");
            for (part, &from) in cursor.scales.iter().enumerate() {
                let guard = match self.few_has_scales(cut, part as u32) {
                    Some(lane) => format!("@{lane} "),
                    None => String::new(),
                };
                let offset = part as u32 * 32 * BLOCKS;
                ptx!(
                    self,
                    "{guard}cp.async.ca.shared.global [{to}+{offset}], [{from}], {BLOCKS}"
                );
                step(self, from, Wide::Known((cut.splits * BLOCKS).into()));
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

    /// Loads the activation's elements of a block of a window.
    pub(super) fn few_activation(&mut self, cursor: &Cursor, block: u32, to: &[Reg]) {
        for (nb, &address) in cursor.activation.iter().enumerate() {
            if let [a, b, c, d, ..] = to[4 * (nb * BLOCKS as usize + block as usize)..] {
                ptx!(
                    self,
                    "ld.global.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}+{}]",
                    2 * BLOCK * block
                );
            }
        }
    }
}
