//! `matmul2d` with the scope `execution_thread`: each lane multiplies for itself, in loops.

use anymetal_formats::ElementFormat;
use anymetal_ir::{MatmulDescriptor, Operand};

use super::emit::{Wide, Word, def};
use super::outer_dimension;
use super::region::{Region, load_code, region};
use super::unit::{Unit, decode_scale, floats, unit_of};
use crate::lower::check::AccessKind;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

impl Lower<'_> {
    pub(super) fn matmul_of_threads(
        &mut self,
        descriptor: &MatmulDescriptor,
        left: &Operand,
        right: &Operand,
        destination: &Operand,
    ) -> Result {
        let (Operand::Tensor(left), Operand::Tensor(right), Operand::Tensor(destination)) = (left, right, destination)
        else {
            return self.unsupported("a cooperative operand of a product of one thread");
        };
        let left = region(self, left, AccessKind::Read)?;
        let right = region(self, right, AccessKind::Read)?;
        let target = region(self, destination, AccessKind::Write)?;
        let integers = matches!(unit_of(descriptor, left.format, right.format), Unit::Bytes { .. });
        let (row_of, column_of) = (outer_dimension(descriptor, false), outer_dimension(descriptor, true));
        let k = match descriptor.k {
            Some(k) => Wide::Known(k.into()),
            None => left.extents[1 - row_of],
        };
        let k = k.min(self, left.valid[1 - row_of]);
        let k = k.min(self, right.valid[1 - column_of]);
        let k = k.min(self, Wide::Known(super::MAX_K));
        let end = match k {
            Wide::Known(k) => Word::Known(k as i32),
            Wide::Reg(k) => Word::Reg(def!(self, B32, "cvt.u32.u64", "{k}")),
        };
        let rows = target.inside(self, 1, Word::Known(0), Some(descriptor.m));
        let columns = target.inside(self, 0, Word::Known(0), Some(descriptor.n));
        let row = self.u32(0);
        let column = self.u32(0);
        let (rows_again, rows_done) = (self.writer.label(), self.writer.label());
        let (columns_again, columns_done) = (self.writer.label(), self.writer.label());
        let (k_again, k_done) = (self.writer.label(), self.writer.label());
        self.writer.place(rows_again);
        let finished = def!(self, Pred, "setp.ge.s32", "{row}, {rows}");
        ptx!(self, "@{finished} bra {rows_done}");
        ptx!(self, "mov.b32 {column}, 0");
        self.writer.place(columns_again);
        let finished = def!(self, Pred, "setp.ge.s32", "{column}, {columns}");
        ptx!(self, "@{finished} bra {columns_done}");

        let sum = self.reg(if integers { Class::B32 } else { Class::F32 });
        let at = self.u32(0);
        if integers {
            ptx!(self, "mov.b32 {sum}, 0");
        } else {
            ptx!(self, "mov.f32 {sum}, 0f00000000");
        }
        let row_inside = self.line_is_inside(&left, row_of, row);
        let column_inside = self.line_is_inside(&right, column_of, column);
        self.writer.place(k_again);
        let finished = def!(self, Pred, "setp.ge.s32", "{at}, {end}");
        ptx!(self, "@{finished} bra {k_done}");
        let place = |outer: usize, line: Reg| if outer == 1 { [at, line] } else { [line, at] };
        let a = self.thread_element(&left, place(row_of, row), row_inside, integers);
        let b = self.thread_element(&right, place(column_of, column), column_inside, integers);
        if integers {
            ptx!(self, "mad.lo.s32 {sum}, {a}, {b}, {sum}");
        } else {
            ptx!(self, "fma.rn.f32 {sum}, {a}, {b}, {sum}");
        }
        ptx!(self, "add.s32 {at}, {at}, 1");
        ptx!(self, "bra {k_again}");
        self.writer.place(k_done);

        let index = self.element_number(&target, [column, row]);
        super::target::store_one(self, &target, index, sum, descriptor.accumulate);
        ptx!(self, "add.s32 {column}, {column}, 1");
        ptx!(self, "bra {columns_again}");
        self.writer.place(columns_done);
        ptx!(self, "add.s32 {row}, {row}, 1");
        ptx!(self, "bra {rows_again}");
        self.writer.place(rows_done);
        Ok(())
    }

    fn line_is_inside(&mut self, region: &Region, dimension: usize, at: Reg) -> Reg {
        let inside = region.inside(self, dimension, Word::Known(0), None);
        def!(self, Pred, "setp.lt.s32", "{at}, {inside}")
    }

    /// The element number of (x, y) in a region.
    fn element_number(&mut self, region: &Region, place: [Reg; 2]) -> Wide {
        let mut index = region.first;
        for (d, at) in place.into_iter().enumerate() {
            let at = Word::Reg(at).widen(self);
            let offset = at.mul(self, region.strides[d]);
            index = index.add(self, offset);
        }
        index
    }

    /// An element as `f32` or `s32`, zero where the condition does not hold; with its scale.
    fn thread_element(&mut self, region: &Region, place: [Reg; 2], inside: Reg, integers: bool) -> Reg {
        let index = self.element_number(region, place);
        let code = load_code(self, region, index, Some(inside));
        if integers {
            return match region.format {
                ElementFormat::I8 => def!(self, B32, "cvt.s32.s8", "{code}"),
                ElementFormat::Int4B => def!(self, B32, "bfe.s32", "{code}, 0, 4"),
                ElementFormat::Int2B => def!(self, B32, "bfe.s32", "{code}, 0, 2"),
                _ => code,
            };
        }
        let value = floats(self, &[code], 1, region.format)[0];
        let Some(scales) = &region.scales else {
            return value;
        };
        let mut offset = Wide::Known(0);
        for (d, at) in place.into_iter().enumerate() {
            let at = Word::Reg(at).widen(self);
            let at = region.origin[d].add(self, at);
            let block = scales.block[d];
            let at = match at {
                Wide::Known(at) => Wide::Known(at / i64::from(block)),
                Wide::Reg(_) if block == 1 => at,
                Wide::Reg(at) => Wide::Reg(def!(self, B64, "div.s64", "{at}, {block}")),
            };
            let along = at.mul(self, scales.strides[d]);
            offset = offset.add(self, along);
        }
        let address = super::emit::advance(self, scales.pointer, offset);
        let code = super::region::load_bits(self, scales.space, address, 0, 8, Some(inside));
        let scale = decode_scale(self, code);
        def!(self, F32, "mul.rn.f32", "{value}, {scale}")
    }
}
