//! Checked mode for tensors: subscripts, and the boxes of tile operations.

use anymetal_ir::passes::Root;
use anymetal_ir::{Extent, TensorRef};

use super::{Int, View, address_class};
use crate::abi::FaultCode;
use crate::lower::check::{AccessKind, Fault};
use crate::lower::memory::Address;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

impl<'k> Lower<'k> {
    /// A view that a tile operation writes.
    pub fn written_view(&mut self, tensor: &TensorRef) -> Result<View> {
        let mut view = self.resolve_view(tensor)?;
        self.check_view(tensor, &mut view, AccessKind::Write);
        Ok(view)
    }

    /// A view that a tile operation reads.
    pub fn view(&mut self, tensor: &TensorRef) -> Result<View> {
        let mut view = self.resolve_view(tensor)?;
        self.check_view(tensor, &mut view, AccessKind::Read);
        Ok(view)
    }

    /// The argument that a tensor is known to be, as [`FaultRecord::OBJECT`](crate::abi::FaultRecord::OBJECT) says it.
    pub fn object_of(&self, tensor: &TensorRef) -> u32 {
        match self.effects.roots(tensor.pointer).only() {
            Some(Root::Argument(id)) => 1 + id.0,
            Some(Root::Memory(id)) => 0x8000_0000 + id.0,
            None => tensor.root.map_or(0, |id| 1 + id.0),
        }
    }

    /// In checked mode: nothing of a view that does not lie in its memory is valid, and a fault is recorded; as it is for a static extent
    /// that reaches past the tensor.
    fn check_view(&mut self, tensor: &TensorRef, view: &mut View, kind: AccessKind) {
        if !self.options.checked || view.valid.contains(&Int::Const(0)) {
            return;
        }
        self.check_static_extents(tensor);
        let (fine, done) = (self.reg(Class::Pred), self.writer.label());
        ptx!(self, "setp.eq.u32 {fine}, 0, 0");
        let class = view.class();
        let mut last = Int::Const(0);
        for d in 0..view.valid.len() {
            if let Int::Reg(valid) = view.valid[d] {
                let nothing = self.reg(Class::Pred);
                ptx!(self, "setp.eq.u32 {nothing}, {valid}, 0");
                ptx!(self, "@{nothing} bra {done}");
            }
            let end = self.int_sub(view.valid[d], Int::Const(1), Class::B32);
            let part = self.int_mul(end, view.strides[d], class);
            last = self.int_add(last, part, class);
        }
        let last = if view.bits() < 8 {
            self.bit_place(view.space, view.format, view.base, view.phase, last)
                .address
        } else {
            let address = self.int_add(Int::Reg(view.base), last, class);
            self.int_reg(address, class)
        };
        let size = u64::from(view.bits().div_ceil(8));
        for base in [view.base, last] {
            let inside = self.check_access(tensor.pointer, Address { base, offset: 0 }, size, 1, kind);
            if let Some(inside) = inside {
                ptx!(self, "and.pred {fine}, {fine}, {inside}");
            }
        }
        self.writer.place(done);
        if let Some(valid) = view.valid.first_mut() {
            let whole = *valid;
            let checked = self.int_select(fine, whole, Int::Const(0), Class::B32);
            *valid = checked;
        }
    }

    fn check_static_extents(&mut self, tensor: &TensorRef) {
        if self.options.static_overhang_zero {
            return;
        }
        for (d, extent) in tensor.extents.iter().enumerate() {
            let Extent::Static(extent) = *extent else { continue };
            let (base, origin) = (self.int(tensor.base_extents[d]), self.int(tensor.origin[d]));
            if let (Int::Const(base), Int::Const(origin)) = (base, origin)
                && origin >= 0
                && extent as i64 <= base.saturating_sub(origin)
            {
                continue;
            }
            let rest = self.int_sub(base, origin, Class::B64);
            let (rest, origin) = (self.int_reg(rest, Class::B64), self.int_reg(origin, Class::B64));
            let (reaches, fits) = (self.reg(Class::Pred), self.reg(Class::Pred));
            ptx!(self, "setp.ge.s64 {reaches}, {rest}, {extent}");
            ptx!(self, "setp.ge.and.s64 {fits}, {origin}, 0, {reaches}");
            let object = self.object_of(tensor);
            self.fault_unless(fits, FaultCode::TileOutside, |lower| Fault {
                object,
                coordinates: lower.long(&tensor.origin),
                extents: lower.long(&tensor.base_extents),
                ..Fault::default()
            });
        }
    }

    /// `i64` values in registers.
    fn long(&mut self, values: &[anymetal_ir::ValueId]) -> Vec<Reg> {
        values
            .iter()
            .map(|&value| {
                let int = self.int(value);
                self.int_reg(int, Class::B64)
            })
            .collect()
    }

    /// In checked mode: a predicate that a subscript is inside its view, with the fault recorded where it is not.
    pub(super) fn check_subscript(&mut self, tensor: &TensorRef, indices: &[Int], bounds: &[Int]) -> Option<Reg> {
        if !self.options.checked {
            return None;
        }
        let mut inside = None;
        for (&index, &bound) in indices.iter().zip(bounds) {
            let own = self.element_inside(index, bound, Int::Const(0));
            inside = self.both(inside, own);
        }
        let inside = inside?;
        let object = self.object_of(tensor);
        self.fault_unless(inside, FaultCode::SubscriptOutside, |lower| {
            let mut registers = |ints: &[Int]| ints.iter().map(|&int| lower.int_reg(int, Class::B64)).collect();
            Fault {
                object,
                coordinates: registers(indices),
                extents: registers(bounds),
                ..Fault::default()
            }
        });
        Some(inside)
    }

    /// In checked mode: a predicate that an element lies in its memory, for those that the guard lets through.
    pub(super) fn check_element(
        &mut self,
        tensor: &TensorRef,
        place: &super::Place,
        guard: Option<Reg>,
        kind: AccessKind,
    ) -> Option<Reg> {
        if !self.options.checked {
            return guard;
        }
        let size = place.format.bits().div_ceil(8) as u64;
        let class = address_class(place.space);
        let address = self.int_add(Int::Reg(place.address), Int::Const(place.displacement), class);
        let base = self.int_reg(address, class);
        let address = Address { base, offset: 0 };
        let Some(guard) = guard else {
            return self.check_access(tensor.pointer, address, size, size as u32, kind);
        };
        let (allowed, skip) = (self.reg(Class::Pred), self.writer.label());
        ptx!(self, "setp.ne.u32 {allowed}, 0, 0");
        ptx!(self, "@!{guard} bra {skip}");
        match self.check_access(tensor.pointer, address, size, size as u32, kind) {
            Some(inside) => ptx!(self, "or.pred {allowed}, {inside}, {inside}"),
            None => ptx!(self, "setp.eq.u32 {allowed}, 0, 0"),
        }
        self.writer.place(skip);
        Some(allowed)
    }
}
