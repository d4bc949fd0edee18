//! Lowering of cooperative tensors and tile operations.

use anymetal_ir::passes::Root;
use anymetal_ir::{CoopId, CoopRole, Inst as IrInst, Op, Operand, TensorRef, ValueId};

use super::lower::Lower;
use super::places::{TileShape, in_place};
use super::program::{Convolution, Inst, TileOperand};
use crate::fault::CompileError;
use crate::lanes::CHUNK;

impl<'k> Lower<'k> {
    fn tile_operand(&mut self, operand: &Operand) -> Result<TileOperand, CompileError> {
        Ok(match operand {
            Operand::Tensor(tensor) => TileOperand::View(Box::new(self.view(tensor)?)),
            Operand::Coop(coop) => TileOperand::Coop(coop.0),
        })
    }

    /// True if nothing in the kernel writes the memory behind a tensor; what is bound to two arguments is the dispatch's
    /// business.
    fn is_unwritten(&self, tensor: &TensorRef) -> bool {
        let unwritten = |pointer: ValueId| {
            let roots = self.effects.roots(pointer);
            !roots.unknown
                && !roots.known.is_empty()
                && roots
                    .known
                    .iter()
                    .all(|&root| matches!(root, Root::Argument(_)) && self.effects.never_written(self.kernel, root))
        };
        unwritten(tensor.pointer) && tensor.scales.as_ref().is_none_or(|plane| unwritten(plane.pointer))
    }

    /// One instruction on cooperative tensors.
    pub fn cooperative(&mut self, inst: &'k IrInst) -> Result<(), CompileError> {
        let result = inst.first;
        match &inst.op {
            Op::CoopInit(coop) => self.push(Inst::CoopInit(coop.0)),
            Op::CoopCopy { to, from } | Op::CoopConvert { to, from } => {
                let (a, b) = (self.kernel.coop(*to), self.kernel.coop(*from));
                if (a.rows, a.columns, a.element) != (b.rows, b.columns, b.element) {
                    return Err(self.malformed(format!(
                        "copy of a {} × {} tile of {} into one of {} × {} of {}",
                        b.rows, b.columns, b.element, a.rows, a.columns, a.element
                    )));
                }
                let moves = a.simdgroups == b.simdgroups && self.moves.contains(&(std::ptr::from_ref(inst) as usize));
                self.push(Inst::CoopCopy {
                    to: to.0,
                    from: from.0,
                    moves,
                });
            }
            Op::CoopGet { coop, slot } => {
                let slot = self.value(*slot)?;
                let out = self.define(result);
                self.push(Inst::CoopGet {
                    coop: coop.0,
                    slot,
                    out,
                });
            }
            Op::CoopSet { coop, slot, value } => {
                let (slot, value) = (self.value(*slot)?, self.value(*value)?);
                self.push(Inst::CoopSet {
                    coop: coop.0,
                    slot,
                    value,
                });
            }
            Op::CoopValid { coop, slot } => {
                let slot = self.value(*slot)?;
                let out = self.define(result);
                self.push(Inst::CoopValid {
                    coop: coop.0,
                    slot,
                    out,
                });
            }
            Op::CoopIndex { coop, slot } => {
                let slot = self.value(*slot)?;
                let column = self.define(result);
                let row = (inst.count > 1).then(|| self.define(ValueId(result.0 + 1)));
                self.push(Inst::CoopIndex {
                    coop: coop.0,
                    slot,
                    column,
                    row,
                });
            }
            Op::CoopMapSlot { to, from, slot } => {
                let slot = self.value(*slot)?;
                let out = self.define(result);
                self.push(Inst::CoopMapSlot {
                    to: to.0,
                    from: from.0,
                    slot,
                    out,
                });
            }
            Op::CoopLoad { coop, tensor } => {
                let view = Box::new(self.view(tensor)?);
                self.push(Inst::CoopLoad { coop: coop.0, view });
            }
            Op::CoopStore { coop, tensor } => {
                let view = Box::new(self.view(tensor)?);
                self.push(Inst::CoopStore { coop: coop.0, view });
            }
            Op::CoopCompatible { to, from } => {
                let out = self.define(result);
                self.push(Inst::CoopCompatible {
                    to: to.0,
                    from: from.0,
                    out,
                });
            }
            Op::CoopIteratorCompatible { from, to } => {
                let (from, to) = (self.kernel.coop(*from), self.kernel.coop(*to));
                let same = from.layout == to.layout && from.simdgroups == to.simdgroups && from.element == to.element;
                let fits = match to.role {
                    CoopRole::RowReduction => to.rows == from.rows,
                    CoopRole::ColumnReduction => to.columns == from.columns,
                    _ => (to.rows, to.columns) == (from.rows, from.columns),
                };
                let answer = self.constant(1, u64::from(same && fits));
                self.bind(result, answer);
            }
            Op::CoopReduce {
                to,
                from,
                axis,
                op,
                identity,
            } => {
                let identity = self.value(*identity)?;
                if self.sums_of_rows((*to, *from), (*axis, *op), identity) {
                    return Ok(());
                }
                self.push(Inst::CoopReduce {
                    to: to.0,
                    from: from.0,
                    axis: *axis,
                    op: *op,
                    identity,
                });
            }
            Op::CoopMap { over, body } => {
                if self.map != 0 {
                    return Err(self.malformed("a loop over cooperative elements inside another"));
                }
                self.maps += 1;
                if let Some(map) = self.row_map(*over, body)? {
                    self.push(Inst::RowMap(Box::new(map)));
                    return Ok(());
                }
                self.map = self.maps;
                self.over = Some(over.0);
                let mut tiles = vec![over.0];
                body.for_each_inst(&mut |inst| {
                    if let Op::CoopElement(coop) | Op::CoopElementSet { coop, .. } = &inst.op
                        && !tiles.contains(&coop.0)
                    {
                        tiles.push(coop.0);
                    }
                });
                let depth = std::mem::replace(&mut self.depth, 0);
                let captures = std::mem::take(&mut self.captures);
                let body = self.block(body);
                let location = inst.location;
                self.location = location;
                let captures = std::mem::replace(&mut self.captures, captures);
                self.depth = depth;
                self.over = None;
                self.map = 0;
                let mut body = body?;
                let shape = |coop: u32, instances: usize| {
                    let tile = self.kernel.coop(CoopId(coop));
                    let over = self.kernel.coop(*over);
                    TileShape {
                        elements: tile.rows as usize * tile.columns as usize * instances,
                        same: (tile.rows, tile.columns) == (over.rows, over.columns),
                    }
                };
                let mut of_chunks = None;
                // The sanitizer wants to see each element read and set.
                if self.watch.is_none() {
                    if !shape(over.0, 1).elements.is_multiple_of(CHUNK) {
                        let mut other = body.clone();
                        let any = in_place(&mut other, &self.vregs, |coop| shape(coop, CHUNK));
                        of_chunks = any.then(|| Box::new(other));
                    }
                    in_place(&mut body, &self.vregs, |coop| shape(coop, 1));
                }
                self.push(Inst::CoopMap {
                    over: over.0,
                    captures,
                    tiles,
                    body: Box::new(body),
                    of_chunks,
                });
            }
            Op::CoopElement(coop) => {
                let over = self.in_map()?;
                let out = self.define(result);
                self.push(Inst::CoopElement {
                    coop: coop.0,
                    over,
                    out,
                });
            }
            Op::CoopElementSet { coop, value } => {
                self.in_map()?;
                let value = self.value(*value)?;
                self.push(Inst::CoopElementSet { coop: coop.0, value });
            }
            Op::CoopElementIndex => {
                let over = self.in_map()?;
                let column = self.define(result);
                let row = (inst.count > 1).then(|| self.define(ValueId(result.0 + 1)));
                self.push(Inst::CoopElementIndex { over, column, row });
            }
            Op::Matmul {
                descriptor,
                simdgroups,
                left,
                right,
                destination,
            } => {
                let share = [left, right].map(|operand| match operand {
                    Operand::Tensor(tensor) => self.is_unwritten(tensor),
                    Operand::Coop(_) => false,
                });
                let left = self.tile_operand(left)?;
                let right = self.tile_operand(right)?;
                let destination = self.tile_operand(destination)?;
                self.push(Inst::Matmul {
                    descriptor: *descriptor,
                    simdgroups: *simdgroups,
                    left,
                    right,
                    destination,
                    share,
                });
            }
            Op::Convolution {
                descriptor,
                simdgroups,
                offsets,
                activation,
                weights,
                destination,
            } => {
                let conv = Convolution {
                    descriptor: **descriptor,
                    simdgroups: *simdgroups,
                    offsets: [self.value(offsets[0])?, self.value(offsets[1])?],
                    activation: self.view(activation)?,
                    weights: self.view(weights)?,
                    destination: self.tile_operand(destination)?,
                    share_weights: self.is_unwritten(weights),
                };
                self.push(Inst::Convolution(Box::new(conv)));
            }
            _ => return Err(self.malformed("not an operation on cooperative tensors")),
        }
        Ok(())
    }

    fn in_map(&self) -> Result<u32, CompileError> {
        self.over
            .ok_or_else(|| self.malformed("an element of a cooperative tensor outside of a loop over it"))
    }
}
