//! Instructions that are two in one ([`crate::compile`]'s `fuse`).

use anymetal_ir::LocationId;

use super::mask::Mask;
use super::{Outcome, Value, Worker};
use crate::compile::program::{Access, Inst, Operation, Reg, SetLocal};
use crate::lanes::{CHUNK, Src};

impl<'d> Worker<'d> {
    /// An instruction inside of another.
    #[inline(never)]
    fn inner(&mut self, inst: &'d Inst) -> Outcome {
        self.step(inst)
    }

    /// Sets locals to what an instruction gives: in their registers where all lanes take part, else by merging.
    pub(super) fn set_local(&mut self, direct: &'d Inst, apart: &'d Inst, sets: &'d [SetLocal]) -> Outcome {
        match self.lanes.current {
            Mask::Part(slot) => {
                self.inner(apart)?;
                for set in sets {
                    self.merge(set.blend, set.local, set.value, slot);
                }
                Ok(())
            }
            _ => self.inner(direct),
        }
    }

    /// An operation on what is loaded for it alone.
    pub(super) fn of_memory(
        &mut self,
        access: &'d Access,
        location: LocationId,
        operation: Operation,
        out: Reg,
        operands: &[Reg; 3],
    ) -> Outcome {
        let Some(&value) = access.values.first() else {
            return Ok(());
        };
        let memory = match self.in_place(access) {
            Some(memory) => memory,
            None => {
                if let Err(mut raised) = self.load(access) {
                    raised.location = location;
                    return Err(raised);
                }
                self.src(value)
            }
        };
        let mut source = |reg: Reg| if reg == value { memory } else { self.src(reg) };
        // SAFETY: the compiler chose the loop for the registers' types; sources have all chunks.
        unsafe {
            match operation {
                Operation::One(f) => {
                    let a = source(operands[0]);
                    let (chunks, out) = self.dst(out);
                    f(chunks, out, a);
                }
                Operation::Two(f) => {
                    let (a, b) = (source(operands[0]), source(operands[1]));
                    let (chunks, out) = self.dst(out);
                    f(chunks, out, a, b);
                }
                Operation::Three(f) => {
                    let (a, b, c) = (source(operands[0]), source(operands[1]), source(operands[2]));
                    let (chunks, out) = self.dst(out);
                    f(chunks, out, a, b, c);
                }
            }
        }
        Ok(())
    }

    /// The memory of a load as a source, if it has the elements of whole chunks one after another.
    #[inline(always)]
    fn in_place(&mut self, access: &Access) -> Option<Src> {
        let Value::Affine { base, stride } = self.value(access.pointer) else {
            return None;
        };
        let size = u64::from(access.size);
        if stride != size || access.align > u32::from(access.size) {
            return None;
        }
        let step = CHUNK * access.size as usize;
        let span = (self.lanes.chunks * step) as u64;
        let start = self.address(base, span, false)?;
        if !(start as usize).is_multiple_of(access.size as usize)
            || !base.is_multiple_of(u64::from(access.align.max(1)))
        {
            return None;
        }
        self.noted(base, size);
        self.ask_for_next(base, start, stride as isize, span);
        Some(Src { ptr: start, step })
    }
}
