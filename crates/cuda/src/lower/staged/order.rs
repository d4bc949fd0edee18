//! The order in which blocks take the threadgroups of a grid.

use anymetal_ir::{Block, Kernel, Op, Operand};

use crate::lower::Lower;
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Rows of threadgroups that are walked together.
const ROWS: u32 = 8;

/// True if the kernel multiplies tiles of whole threadgroups out of memory, neighbours of which share operands.
pub(crate) fn shares_operands(kernel: &Kernel) -> bool {
    fn any(block: &Block) -> bool {
        block.insts.iter().any(|inst| match &inst.op {
            Op::Matmul {
                simdgroups: 4..,
                left: Operand::Tensor(_),
                right: Operand::Tensor(_),
                ..
            } => true,
            Op::If { then, otherwise, .. } => any(then) || any(otherwise),
            Op::Loop { body, latch, .. } => any(body) || any(latch),
            Op::Scope { body } => any(body),
            _ => false,
        })
    }
    any(&kernel.body)
}

impl Lower<'_> {
    /// The position of this block's threadgroup in the grid, where that is not the block's own position.
    ///
    /// Blocks start in the order of their index. Where neighbours share operands they walk eight rows of threadgroups together, column by
    /// column: those that run at the same time then need fewer rows and columns of the operands, which stay in the second-level cache.
    pub fn group_position(&mut self) -> Option<[Reg; 3]> {
        if !shares_operands(self.kernel) {
            return None;
        }
        let position: [Reg; 3] = ["x", "y", "z"].map(|dimension| {
            let reg = self.reg(Class::B32);
            ptx!(self, "mov.u32 {reg}, %ctaid.{dimension}");
            reg
        });
        let [columns, rows] = ["x", "y"].map(|dimension| {
            let reg = self.reg(Class::B32);
            ptx!(self, "mov.u32 {reg}, %nctaid.{dimension}");
            reg
        });
        let [index, band, inside, first, height, x, y] = std::array::from_fn(|_| self.reg(Class::B32));
        // A single row of threadgroups is walked as it is.
        let (single, known) = (self.reg(Class::Pred), self.writer.label());
        ptx!(self, "setp.eq.u32 {single}, {rows}, 1");
        ptx!(self, "mov.b32 {x}, {}", position[0]);
        ptx!(self, "mov.b32 {y}, {}", position[1]);
        ptx!(self, "@{single} bra.uni {known}");
        ptx!(self, "mad.lo.u32 {index}, {}, {columns}, {}", position[1], position[0]);
        ptx!(self, "mul.lo.u32 {inside}, {columns}, {ROWS}");
        ptx!(self, "div.u32 {band}, {index}, {inside}");
        ptx!(self, "mul.lo.u32 {first}, {band}, {inside}");
        ptx!(self, "sub.u32 {inside}, {index}, {first}");
        ptx!(self, "mul.lo.u32 {first}, {band}, {ROWS}");
        ptx!(self, "sub.u32 {height}, {rows}, {first}");
        ptx!(self, "min.u32 {height}, {height}, {ROWS}");
        ptx!(self, "div.u32 {x}, {inside}, {height}");
        ptx!(self, "mul.lo.u32 {y}, {x}, {height}");
        ptx!(self, "sub.u32 {y}, {inside}, {y}");
        ptx!(self, "add.u32 {y}, {y}, {first}");
        self.writer.place(known);
        Some([x, y, position[2]])
    }
}
