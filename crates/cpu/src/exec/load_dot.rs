//! Chains over words where they lie ([`crate::lanes::load_dot`]).

use super::memory::Active;
use super::{Outcome, Value, Worker};
use crate::compile::program::{Access, Digits, Dot, LoadDot};
use crate::lanes::dot::Areas;
use crate::lanes::load_dot::{Lanes, MAX_CHAINS, MAX_WORDS, Rows};
use crate::lanes::{self, CHUNK, Src};

impl<'d> Worker<'d> {
    /// Where the lanes' registers lie.
    fn areas(&self) -> Areas {
        Areas {
            uniform: self.uniform,
            lanes: self.lanes.base,
            cap: self.lanes.cap,
        }
    }

    /// A chain over registers.
    #[inline(never)]
    pub(super) fn dot(&mut self, dot: &'d Dot) {
        for &word in &dot.tagged {
            // Writes their lanes out.
            self.src(word);
        }
        let sum = self.src(dot.sum);
        let (chunks, out) = self.dst(dot.out);
        let areas = self.areas();
        if dot.ends.is_empty() {
            // SAFETY: the compiler chose the loop for the registers' types; steps are the terms.
            return unsafe { (dot.f)(chunks, out, sum, &areas, &dot.steps) };
        }
        // What comes after may read the local that the result goes to.
        for chunk in 0..chunks.max(1) {
            let mut sums = [0f32; CHUNK];
            // SAFETY: as above; all registers have elements of four bytes.
            unsafe {
                let areas = Areas {
                    lanes: areas.lanes.add(chunk * 4 * CHUNK),
                    ..areas
                };
                let sum = Src {
                    ptr: sum.ptr.add(chunk * sum.step),
                    ..sum
                };
                let one = chunks.min(1);
                (dot.f)(one, sums.as_mut_ptr().cast(), sum, &areas, &dot.steps);
                lanes::dot::finish(&mut sums, &areas, &dot.ends, self.shared.isa);
                *out.cast::<[f32; CHUNK]>().add(chunk) = sums;
            }
        }
    }

    /// The digits of factors.
    #[inline(never)]
    pub(super) fn digits(&mut self, digits: &'d Digits) {
        let out = self.ptr(digits.out).cast();
        // SAFETY: the compiler chose the loop; no register is tagged, and the allocator keeps those that are written apart.
        unsafe { (digits.f)(self.lanes.chunks, &self.areas(), &digits.places, out) }
    }

    /// A load whose words chains cut up. Where lanes have to be looked at one by one, words go through registers.
    #[inline(never)]
    pub(super) fn load_dot(&mut self, load: &'d LoadDot) -> Outcome {
        let Some(lanes) = self.lanes_of(&load.access) else {
            self.load(&load.access)?;
            load.dots.iter().for_each(|dot| self.dot(dot));
            return Ok(());
        };
        let mut kept = [std::ptr::null_mut::<u32>(); MAX_WORDS];
        for (to, &word) in kept.iter_mut().zip(&load.plan.kept) {
            *to = self.dst(load.access.values[word]).1.cast();
        }
        let nowhere = Src {
            ptr: std::ptr::null(),
            step: 0,
        };
        let mut ends = [(std::ptr::null_mut::<u8>(), nowhere); MAX_CHAINS];
        for (end, dot) in ends.iter_mut().zip(&load.dots) {
            let sum = self.src(dot.sum);
            *end = (self.dst(dot.out).1, sum);
        }
        let (kept, ends) = (&kept[..load.plan.kept.len()], &ends[..load.dots.len()]);
        // SAFETY: all words of the live lanes were found readable; registers have whole chunks, and the allocator gives an
        // output no register that the instruction reads.
        unsafe { (load.f)(&lanes, &self.areas(), &load.plan, kept, ends) }
        Ok(())
    }

    /// Where the words of the live lanes lie, if all of them are readable: those of lanes that are off too.
    fn lanes_of(&mut self, access: &'d Access) -> Option<Lanes> {
        let active = self.active(None);
        if let Active::None = active {
            return None;
        }
        let bytes = u64::from(access.size) * access.values.len() as u64;
        let (rows, pointer, ahead) = match self.value(access.pointer) {
            Value::Uniform(_) => return None,
            Value::Affine { base, stride } => {
                let stride = stride as i64;
                let last = stride.checked_mul(self.lanes.live as i64 - 1)?;
                let low = base.wrapping_add(last.min(0) as u64);
                let span = last.unsigned_abs().checked_add(bytes)?;
                if access.align > 1 && !(base | stride as u64).is_multiple_of(u64::from(access.align)) {
                    return None;
                }
                let from = self.address(low, span, false)?.wrapping_offset(-(last.min(0) as isize));
                let ahead = match stride as u64 == bytes {
                    true => self.reads_on(base, span),
                    false => 0,
                };
                let stride = stride as isize;
                (Rows::Strided { from, stride }, base, ahead)
            }
            Value::Plane(plane) if self.lanes.width.is_multiple_of(16) => {
                let rows = self.plane_rows(plane, bytes, access.align)?;
                (rows, plane.base, 0)
            }
            Value::Plane(_) | Value::Lanes => {
                let pointers = self.src(access.pointer).ptr.cast::<u64>();
                let start = self.one_object(pointers, access, bytes, false)?;
                // SAFETY: there is a pointer for each live lane.
                let (first, last) = unsafe { (*pointers, *pointers.add(self.lanes.live - 1)) };
                // Lanes that read most of a span between them.
                let span = last.wrapping_sub(first).wrapping_add(bytes);
                let ahead = match span <= 2 * bytes * self.lanes.live as u64 {
                    true => self.reads_on(first, span),
                    false => 0,
                };
                (Rows::Pointers { start, pointers }, first, ahead)
            }
        };
        if self.traffic.is_some() {
            let lanes = self.count(active);
            self.note(pointer, lanes * bytes, false);
        }
        Some(Lanes {
            rows,
            count: self.lanes.live,
            bytes: bytes as usize,
            ahead,
        })
    }
}
