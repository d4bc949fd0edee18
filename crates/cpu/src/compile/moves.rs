//! Copies of tiles whose source is not looked at again: they may exchange the two tiles' memory instead.
//!
//! Liveness of one tile at a time, backward over the structured control flow. A tile dies where an operation sets all of it
//! without reading it.

use std::collections::HashSet;

use anymetal_ir::passes::tiles::fills;
use anymetal_ir::{Block, CoopId, Inst, Kernel, Op, Operand};

/// The copies (by the address of their instruction) that are moves.
pub(super) fn moves(kernel: &Kernel) -> HashSet<usize> {
    let mut sources: Vec<CoopId> = Vec::new();
    kernel.body.for_each_inst(&mut |inst| {
        if let Op::CoopCopy { from, .. } | Op::CoopConvert { from, .. } = inst.op
            && !sources.contains(&from)
        {
            sources.push(from);
        }
    });
    let mut out = HashSet::new();
    for tile in sources {
        let mut walk = Walk {
            tile,
            frames: Vec::new(),
            copies: Vec::new(),
        };
        walk.block(&kernel.body, false);
        // A copy in a loop is met more than once; it is a move if the tile is dead each time.
        let live: HashSet<usize> = walk
            .copies
            .iter()
            .filter(|(_, live)| *live)
            .map(|&(at, _)| at)
            .collect();
        out.extend(walk.copies.iter().map(|&(at, _)| at).filter(|at| !live.contains(at)));
    }
    out
}

/// Whether the tile is live where control goes from inside a loop or scope.
struct Frame {
    after: bool,
    again: bool,
}

struct Walk {
    tile: CoopId,
    frames: Vec<Frame>,
    /// Copies from the tile, and whether it is live after them.
    copies: Vec<(usize, bool)>,
}

impl Walk {
    fn frame(&self, level: u32) -> Option<&Frame> {
        self.frames
            .len()
            .checked_sub(1 + level as usize)
            .map(|at| &self.frames[at])
    }

    /// Is the tile live before a block, if it is live after it or not?
    fn block(&mut self, block: &Block, after: bool) -> bool {
        block.insts.iter().rev().fold(after, |live, inst| self.inst(inst, live))
    }

    fn inst(&mut self, inst: &Inst, after: bool) -> bool {
        match &inst.op {
            Op::Break(level) => self.frame(*level).is_none_or(|frame| frame.after),
            Op::Continue(level) => self.frame(*level).is_none_or(|frame| frame.again),
            Op::Return => false,
            Op::If { then, otherwise, .. } => {
                let (then, otherwise) = (self.block(then, after), self.block(otherwise, after));
                then || otherwise
            }
            Op::Scope { body, .. } => {
                self.frames.push(Frame { after, again: after });
                let live = self.block(body, after);
                self.frames.pop();
                live
            }
            Op::Loop { body, latch, .. } => {
                let mut head = false;
                loop {
                    self.frames.push(Frame { after, again: true });
                    let again = self.block(latch, head);
                    self.frames.pop();
                    self.frames.push(Frame { after, again });
                    let before = self.block(body, again);
                    self.frames.pop();
                    if before == head {
                        return head;
                    }
                    head = before;
                }
            }
            Op::CoopMap { body, .. } => {
                // Elements that a body sets are not all of them, for all that is known here.
                self.block(body, after) || after
            }
            op => {
                if let Op::CoopCopy { from, .. } | Op::CoopConvert { from, .. } = op
                    && *from == self.tile
                {
                    self.copies.push((std::ptr::from_ref(inst) as usize, after));
                }
                let reads = op.cooperatives().iter().any(|&(tile, written)| {
                    let accumulates = matches!(op, Op::Matmul { descriptor, destination: Operand::Coop(to), .. }
                        if *to == tile && descriptor.accumulate);
                    tile == self.tile && (!written || accumulates)
                });
                reads || (after && fills(op) != Some(self.tile))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the copies of a body are moves, in order. `%0` is a condition.
    fn answers(body: &str) -> Vec<bool> {
        let tile = "f32 rows 16 columns 32 simdgroups 1 layout R matmul {16 32 16}";
        let text = format!(
            "kernel \"k\" {{\n  cooperative coop0 \"a\" destination {tile}\n  cooperative coop1 \"b\" destination {tile}\n  \
             body {{\n %0: bool = const bool true\n %1: i32 = const i32 0\n{body}}}\n}}\n"
        );
        let kernel = anymetal_ir::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let moves = moves(&kernel);
        let mut out = Vec::new();
        kernel.body.for_each_inst(&mut |inst| {
            if matches!(inst.op, Op::CoopCopy { .. } | Op::CoopConvert { .. }) {
                out.push(moves.contains(&(std::ptr::from_ref(inst) as usize)));
            }
        });
        out
    }

    const FILL: &str = "coop.init coop0\n";
    const COPY: &str = "coop.copy coop1, coop0\n";
    const READ: &str = "%2: f32 = coop.get coop0 %1\n";

    #[test]
    fn straight_code() {
        assert_eq!(answers(&format!("{FILL}{COPY}")), [true]);
        assert_eq!(answers(&format!("{FILL}{COPY}{READ}")), [false]);
        assert_eq!(answers(&format!("{FILL}{COPY}{FILL}{READ}")), [true]);
        // The second copy reads what the first one left.
        assert_eq!(answers(&format!("{FILL}{COPY}{COPY}")), [false, true]);
    }

    #[test]
    fn loops_come_back() {
        let again = format!("loop {{\n{COPY}if %0 {{\nbreak 0\n}}\n}} latch {{\n}}\n");
        assert_eq!(answers(&format!("{FILL}{again}")), [false]);
        let filled = format!("loop {{\n{FILL}{COPY}if %0 {{\nbreak 0\n}}\n}} latch {{\n}}\n");
        assert_eq!(answers(&filled), [true]);
        assert_eq!(answers(&format!("{filled}{READ}")), [false]);
        // Filled on one path only.
        let sometimes = format!("loop {{\nif %0 {{\n{FILL}}}\n{COPY}if %0 {{\nbreak 0\n}}\n}} latch {{\n}}\n");
        assert_eq!(answers(&sometimes), [false]);
        // The latch looks.
        let latch = format!("loop {{\n{FILL}{COPY}if %0 {{\nbreak 0\n}}\n}} latch {{\n{READ}}}\n");
        assert_eq!(answers(&latch), [false]);
    }

    #[test]
    fn branches_and_maps() {
        assert_eq!(
            answers(&format!("{FILL}if %0 {{\n{COPY}}} else {{\n{READ}}}\n")),
            [true]
        );
        assert_eq!(answers(&format!("{FILL}if %0 {{\n{COPY}}}\n{READ}")), [false]);
        let map = "coop.map coop1 {\n%3: f32 = coop.element coop0\ncoop.element_set coop1, %3\n}\n";
        assert_eq!(answers(&format!("{FILL}{COPY}{map}")), [false]);
        assert_eq!(
            answers(&format!("{FILL}scope {{\n{COPY}if %0 {{\nreturn\n}}\n}}\n")),
            [true]
        );
    }
}
