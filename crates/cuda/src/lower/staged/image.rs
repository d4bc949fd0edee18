//! Images: operands that are widened once for all threadgroups of a dispatch.
//!
//! Widening inside the pipeline repeats for every tile that an operand takes part in. Where tiles are many, the backend lends the kernel memory for a
//! widened copy of the operand instead, and some words that are zero when the kernel starts ([`words`]).
//!
//! If the grid is large enough to need all rows, all warps of the blocks that run first share the work: each takes pieces (rows, one or a few)
//! from one counter until there are none left, and adds what it did to another; a block multiplies once all is done. If not (one matrix of a
//! stack of them), a block widens what nobody has taken among the rows that it needs, by a word for each piece that goes from 0 to 1, and to 2 when the
//! piece is done, and waits for the rest. Either way, whoever is waited for is running and waits for nobody, so all of it ends.

use super::decode::{Packing, Scales};
use super::engine::{Engine, put};
use crate::options::ImageRequest;
use crate::ptx::Reg;

/// Elements that a lane moves at once: it writes 16 bytes, so that a warp writes whole lines.
const MOVED: u32 = 8;
/// Elements that a warp moves at once.
const SPAN: u32 = 32 * MOVED;
/// Spans that a warp has under way.
const BATCH: u32 = 8;
/// Rows of at least so many elements are pieces of their own.
const LONG_ROW: u32 = 4096;
/// Rows in a piece, as a shift, where they are shorter or where pieces have words.
const PIECE: u32 = ImageRequest::PIECE_ROWS.trailing_zeros();

/// Offsets of the words: the next piece, pieces that are done, and a word for each piece of rows.
mod words {
    pub const NEXT: u32 = 0;
    pub const DONE: u32 = 4;
    pub const PIECES: u32 = 4 * crate::options::ImageRequest::HEADER_WORDS;
}

/// An operand and its image. K runs along memory; all registers hold the same value in the whole threadgroup.
pub struct Original {
    /// `.b64`: address of element (0, 0).
    pub pointer: Reg,
    /// `.b64`: bytes between rows.
    pub pitch: Reg,
    /// `.b32`: rows of the whole operand.
    pub rows: Reg,
    /// `.b32`: elements of a row, a multiple of [`UNIT`](super::decode::UNIT).
    pub depth: Reg,
    /// How elements are packed.
    pub packing: Packing,
    /// Scales, from row 0 on.
    pub scales: Option<Scales>,
    /// `.b64`: where the image of element (0, 0) goes.
    pub image: Reg,
    /// `.b64`: the words.
    pub flags: Reg,
    /// `.b64`: the levels of all rows, where there are any.
    pub levels: Option<Reg>,
    /// `.b32`: the first row that this threadgroup needs.
    pub first: Reg,
    /// `.b32`: how many it needs, at least 1.
    pub count: Reg,
}

/// What a warp has loaded of some spans: packed words and scale code of each.
struct Loaded {
    words: Vec<Vec<Reg>>,
    codes: Vec<Reg>,
}

impl Engine<'_> {
    /// Returns when the rows that this threadgroup needs of each operand are there, for the threads that issue bulk copies and, after a
    /// barrier, for all. `whole`: the grid needs all rows.
    pub fn make_images(&mut self, originals: &[Original], whole: Reg) {
        let (single, end) = (self.writer.label(), self.writer.label());
        put!(self, "@!{whole} bra {single}");
        self.share_pieces(originals);
        put!(self, "bra.uni {end}");
        self.writer.place(single);
        for original in originals {
            self.take_pieces(original);
        }
        for original in originals {
            self.wait_pieces(original);
        }
        self.writer.place(end);
        // What was written with ordinary stores is read by bulk copies.
        put!(self, "fence.proxy.async");
    }

    fn lane(&mut self) -> Reg {
        let lane = self.r();
        put!(self, "and.b32 {lane}, {}, 31", self.thread);
        lane
    }

    /// Lane 0's value for the warp.
    fn broadcast(&mut self, value: Reg) {
        put!(self, "shfl.sync.idx.b32 {value}, {value}, 0, 31, 0xffffffff");
    }

    /// What this warp wrote is there for whoever sees what lane 0 writes next.
    fn publish(&mut self) {
        put!(self, "fence.proxy.async");
        put!(self, "fence.acq_rel.gpu");
        put!(self, "bar.warp.sync 0xffffffff");
    }

    /// Widens pieces of all operands together with all other warps, and waits for the last of them.
    fn share_pieces(&mut self, originals: &[Original]) {
        let Some(first) = originals.first() else {
            return;
        };
        let header = first.flags;
        // Pieces of each operand, and where its pieces end.
        let (mut shifts, mut ends) = (Vec::new(), Vec::new());
        let mut total = self.r();
        put!(self, "mov.b32 {total}, 0");
        for original in originals {
            let (long, shift, pieces, end) = (self.p(), self.r(), self.r(), self.r());
            put!(self, "setp.ge.u32 {long}, {}, {LONG_ROW}", original.depth);
            put!(self, "selp.b32 {shift}, 0, {PIECE}, {long}");
            put!(self, "shl.b32 {pieces}, 1, {shift}");
            put!(self, "add.u32 {pieces}, {pieces}, {}", original.rows);
            put!(self, "sub.u32 {pieces}, {pieces}, 1");
            put!(self, "shr.u32 {pieces}, {pieces}, {shift}");
            put!(self, "add.u32 {end}, {total}, {pieces}");
            shifts.push(shift);
            ends.push(end);
            total = end;
        }
        let (lane, leads) = (self.lane(), self.p());
        put!(self, "setp.eq.u32 {leads}, {lane}, 0");
        let (piece, next, done, made) = (self.r(), self.r(), self.r(), self.r());
        let (all, top, last, wait, end) = (
            self.p(),
            self.writer.label(),
            self.writer.label(),
            self.writer.label(),
            self.writer.label(),
        );
        // Most blocks come when all is done.
        put!(self, "ld.acquire.gpu.global.b32 {done}, [{header}+{}]", words::DONE);
        self.broadcast(done);
        put!(self, "setp.eq.u32 {all}, {done}, {total}");
        put!(self, "@{all} bra {end}");
        put!(self, "mov.b32 {made}, 0");
        put!(
            self,
            "@{leads} atom.relaxed.gpu.global.add.u32 {piece}, [{header}+{}], 1",
            words::NEXT
        );
        self.broadcast(piece);
        self.writer.place(top);
        put!(self, "setp.ge.u32 {all}, {piece}, {total}");
        put!(self, "@{all} bra {last}");
        // The next piece's number comes while this one is widened.
        put!(
            self,
            "@{leads} atom.relaxed.gpu.global.add.u32 {next}, [{header}+{}], 1",
            words::NEXT
        );
        let joined = self.writer.label();
        for (index, original) in originals.iter().enumerate() {
            let (other, skip, row, rows, left) = (self.p(), self.writer.label(), self.r(), self.r(), self.r());
            put!(self, "setp.ge.u32 {other}, {piece}, {}", ends[index]);
            put!(self, "@{other} bra {skip}");
            match index.checked_sub(1) {
                Some(before) => put!(self, "sub.u32 {row}, {piece}, {}", ends[before]),
                None => put!(self, "mov.b32 {row}, {piece}"),
            }
            put!(self, "shl.b32 {row}, {row}, {}", shifts[index]);
            put!(self, "shl.b32 {rows}, 1, {}", shifts[index]);
            put!(self, "sub.u32 {left}, {}, {row}", original.rows);
            put!(self, "min.u32 {rows}, {rows}, {left}");
            self.widen_rows(original, row, rows);
            put!(self, "bra.uni {joined}");
            self.writer.place(skip);
        }
        self.writer.place(joined);
        put!(self, "add.u32 {made}, {made}, 1");
        put!(self, "mov.b32 {piece}, {next}");
        self.broadcast(piece);
        put!(self, "bra.uni {top}");
        self.writer.place(last);
        let none = self.p();
        put!(self, "setp.eq.u32 {none}, {made}, 0");
        put!(self, "@{none} bra {wait}");
        self.publish();
        put!(
            self,
            "@{leads} red.release.gpu.global.add.u32 [{header}+{}], {made}",
            words::DONE
        );
        // Only the warps that issue copies wait.
        self.writer.place(wait);
        put!(self, "setp.ge.u32 {none}, {}, 2", self.warp);
        put!(self, "@{none} bra {end}");
        let again = self.writer.label();
        self.writer.place(again);
        put!(self, "ld.acquire.gpu.global.b32 {done}, [{header}+{}]", words::DONE);
        put!(self, "setp.ne.u32 {all}, {done}, {total}");
        put!(self, "@{all} bra {again}");
        put!(self, "bar.warp.sync 0xffffffff");
        self.writer.place(end);
    }

    /// The first and last piece of an operand that this threadgroup needs.
    fn pieces(&mut self, original: &Original) -> (Reg, Reg) {
        let (piece, last) = (self.r(), self.r());
        put!(self, "shr.u32 {piece}, {}, {PIECE}", original.first);
        put!(self, "add.u32 {last}, {}, {}", original.first, original.count);
        put!(self, "sub.u32 {last}, {last}, 1");
        put!(self, "shr.u32 {last}, {last}, {PIECE}");
        (piece, last)
    }

    /// Widens the pieces that nobody has taken; each warp looks at every so many.
    fn take_pieces(&mut self, original: &Original) {
        let (piece, last) = self.pieces(original);
        let (lane, leads) = (self.lane(), self.p());
        put!(self, "setp.eq.u32 {leads}, {lane}, 0");
        put!(self, "add.u32 {piece}, {piece}, {}", self.warp);
        let (top, next, end) = (self.writer.label(), self.writer.label(), self.writer.label());
        self.writer.place(top);
        let (over, at, state, taken) = (self.p(), self.d(), self.r(), self.p());
        put!(self, "setp.gt.u32 {over}, {piece}, {last}");
        put!(self, "@{over} bra {end}");
        put!(self, "mad.wide.u32 {at}, {piece}, 4, {}", original.flags);
        put!(
            self,
            "@{leads} atom.relaxed.gpu.global.cas.b32 {state}, [{at}+{}], 0, 1",
            words::PIECES
        );
        self.broadcast(state);
        put!(self, "setp.ne.u32 {taken}, {state}, 0");
        put!(self, "@{taken} bra {next}");
        let (row, rows) = (self.r(), self.r());
        put!(self, "shl.b32 {row}, {piece}, {PIECE}");
        put!(self, "sub.u32 {rows}, {}, {row}", original.rows);
        put!(self, "min.u32 {rows}, {rows}, {}", 1 << PIECE);
        self.widen_rows(original, row, rows);
        self.publish();
        put!(self, "@{leads} st.release.gpu.global.b32 [{at}+{}], 2", words::PIECES);
        self.writer.place(next);
        put!(self, "add.u32 {piece}, {piece}, {}", self.plan.warps);
        put!(self, "bra.uni {top}");
        self.writer.place(end);
    }

    /// Waits until all pieces that the threadgroup needs are done: each lane of a warp looks at every 32nd.
    fn wait_pieces(&mut self, original: &Original) {
        let (piece, last) = self.pieces(original);
        let lane = self.lane();
        put!(self, "add.u32 {piece}, {piece}, {lane}");
        let (top, again, end) = (self.writer.label(), self.writer.label(), self.writer.label());
        self.writer.place(top);
        let (over, at, state, waits) = (self.p(), self.d(), self.r(), self.p());
        put!(self, "setp.gt.u32 {over}, {piece}, {last}");
        put!(self, "@{over} bra {end}");
        put!(self, "mad.wide.u32 {at}, {piece}, 4, {}", original.flags);
        self.writer.place(again);
        put!(self, "ld.acquire.gpu.global.b32 {state}, [{at}+{}]", words::PIECES);
        put!(self, "setp.ne.u32 {waits}, {state}, 2");
        put!(self, "@{waits} bra {again}");
        put!(self, "add.u32 {piece}, {piece}, 32");
        put!(self, "bra {top}");
        self.writer.place(end);
        put!(self, "bar.warp.sync 0xffffffff");
    }

    /// This warp widens rows from `row` on, at least one. The spans of a batch are loaded while those of the one before are widened.
    fn widen_rows(&mut self, original: &Original, row: Reg, rows: Reg) {
        let packing = original.packing;
        let lane = self.lane();
        // Elements of the row before this lane's, in the batch that is loaded next; its row, and how many are left.
        let (at, place, left) = (self.r(), self.r(), self.r());
        put!(self, "mul.lo.u32 {at}, {lane}, {MOVED}");
        put!(self, "mov.b32 {place}, {row}");
        put!(self, "mov.b32 {left}, {rows}");
        let (first, image_pitch, level) = (self.r(), self.d(), self.r());
        put!(self, "mov.b32 {first}, {at}");
        put!(
            self,
            "mul.lo.u64 {image_pitch}, {}, {}",
            original.pitch,
            packing.growth()
        );
        let ahead = self.batch(original);
        let now = self.batch(original);
        let (more, top) = (self.p(), self.writer.label());
        put!(self, "setp.ne.u32 {more}, {left}, 0");
        self.load_batch(original, &ahead, place, at, more);
        self.writer.place(top);
        let to_at = self.r();
        put!(self, "mov.b32 {to_at}, {at}");
        let (to, wide) = (self.d(), self.d());
        put!(self, "cvt.u64.u32 {wide}, {place}");
        put!(self, "mad.lo.u64 {to}, {wide}, {image_pitch}, {}", original.image);
        put!(self, "mad.wide.u32 {to}, {at}, 2, {to}");
        for (to, from) in now.words.iter().flatten().zip(ahead.words.iter().flatten()) {
            put!(self, "mov.b32 {to}, {from}");
        }
        for (to, from) in now.codes.iter().zip(&ahead.codes) {
            put!(self, "mov.b32 {to}, {from}");
        }
        if let (Some(levels), Some(scales)) = (original.levels, original.scales) {
            let (inside, known) = (self.p(), self.writer.label());
            put!(self, "setp.ne.u32 {inside}, {at}, {first}");
            put!(self, "@{inside} bra {known}");
            let found = self.make_level(original, scales, levels, place);
            put!(self, "mov.b32 {level}, {found}");
            self.writer.place(known);
        }
        // The same for all lanes: where the batch begins, not this lane's part of it.
        let (begin, wraps) = (self.r(), self.p());
        put!(self, "add.u32 {at}, {at}, {}", BATCH * SPAN);
        put!(self, "sub.u32 {begin}, {at}, {first}");
        put!(self, "setp.ge.u32 {wraps}, {begin}, {}", original.depth);
        put!(self, "@{wraps} mov.b32 {at}, {first}");
        put!(self, "@{wraps} add.u32 {place}, {place}, 1");
        put!(self, "@{wraps} sub.u32 {left}, {left}, 1");
        put!(self, "setp.ne.u32 {more}, {left}, 0");
        self.load_batch(original, &ahead, place, at, more);
        for (span, (words, &code)) in (0..BATCH).zip(now.words.iter().zip(&now.codes)) {
            let there = self.span_there(original, to_at, span);
            let scale = original.scales.map(|_| match original.levels {
                Some(_) => self.level_scale(packing, code, level),
                None => self.scale(code),
            });
            let wide = self.widen(packing, words, scale);
            let list = wide.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
            put!(self, "@{there} st.global.v4.b32 [{to}+{}], {{{list}}}", 2 * SPAN * span);
        }
        put!(self, "@{more} bra {top}");
    }

    fn batch(&mut self, original: &Original) -> Loaded {
        let words = MOVED * original.packing.bits() / 32;
        Loaded {
            words: (0..BATCH).map(|_| (0..words).map(|_| self.r()).collect()).collect(),
            codes: match original.scales {
                Some(_) => (0..BATCH).map(|_| self.r()).collect(),
                // Not read.
                None => vec![self.thread; BATCH as usize],
            },
        }
    }

    /// True if this lane's part of a span exists.
    fn span_there(&mut self, original: &Original, at: Reg, span: u32) -> Reg {
        let (place, there) = (self.r(), self.p());
        put!(self, "add.u32 {place}, {at}, {}", span * SPAN);
        put!(self, "setp.lt.u32 {there}, {place}, {}", original.depth);
        there
    }

    /// Loads this lane's parts of the spans from element `at` of a row on, if there are `more`.
    fn load_batch(&mut self, original: &Original, to: &Loaded, row: Reg, at: Reg, more: Reg) {
        let bits = original.packing.bits();
        let (from, wide, offset) = (self.d(), self.d(), self.r());
        put!(self, "cvt.u64.u32 {wide}, {row}");
        put!(
            self,
            "mad.lo.u64 {from}, {wide}, {}, {}",
            original.pitch,
            original.pointer
        );
        put!(self, "mul.lo.u32 {offset}, {at}, {bits}");
        put!(self, "shr.u32 {offset}, {offset}, 3");
        put!(self, "mad.wide.u32 {from}, {offset}, 1, {from}");
        let scales = original.scales.map(|scales| {
            let address = self.d();
            put!(
                self,
                "mad.lo.u64 {address}, {wide}, {}, {}",
                scales.pitch,
                scales.address
            );
            put!(self, "shr.u32 {offset}, {at}, 5");
            put!(self, "mad.wide.u32 {address}, {offset}, 1, {address}");
            address
        });
        for span in 0..BATCH {
            let there = self.span_there(original, at, span);
            put!(self, "and.pred {there}, {there}, {more}");
            let words = &to.words[span as usize];
            let list = words.iter().map(Reg::to_string).collect::<Vec<_>>().join(", ");
            let (vector, list) = match words.len() {
                1 => (String::new(), list),
                n => (format!(".v{n}"), format!("{{{list}}}")),
            };
            put!(
                self,
                "@{there} ld.global{vector}.b32 {list}, [{from}+{}]",
                span * SPAN * bits / 8
            );
            if let Some(address) = scales {
                let code = to.codes[span as usize];
                put!(self, "@{there} ld.global.u8 {code}, [{address}+{}]", span * SPAN / 32);
            }
        }
    }
}
