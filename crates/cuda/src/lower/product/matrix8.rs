//! Products of `simdgroup_matrix`: 8 × 8, two elements a lane in the order of an `mma` accumulator.

use anymetal_ir::{Inst, Scalar, ValueId};

use super::emit::def;
use crate::abi::FaultCode;
use crate::lower::check::Fault;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Label, Reg};

impl Lower<'_> {
    /// `d = a·b (+ c)`, summed in `f32` and rounded once.
    pub fn simdgroup_matrix(
        &mut self,
        inst: &Inst,
        a: [ValueId; 2],
        b: [ValueId; 2],
        c: Option<[ValueId; 2]>,
        ty: Scalar,
    ) -> Result {
        let skip = self.check_whole_simdgroup();
        let element = |l: &Lower, values: [ValueId; 2]| l.ty(values[0]).scalar().unwrap_or(Scalar::F32);
        let (left, right) = (element(self, a), element(self, b));
        let sums = match c {
            Some(c) => c.map(|value| {
                let value = self.value(value);
                let wide = self.matrix_float(value, element(self, c));
                self.copy(wide)
            }),
            None => [0, 1].map(|_| def!(self, F32, "mov.f32", "0f00000000")),
        };
        let (a, b) = (a.map(|value| self.value(value)), b.map(|value| self.value(value)));
        match (left, right) {
            (Scalar::F16, Scalar::F16) | (Scalar::BF16, Scalar::BF16) => self.matrix_halves(sums, a, b, left),
            (Scalar::F32, _) | (_, Scalar::F32) => {
                let a = a.map(|value| self.matrix_float(value, left));
                let b = b.map(|value| self.matrix_float(value, right));
                self.matrix_floats(sums, a, b);
            }
            // tf32 holds both.
            _ => {
                let a = a.map(|value| self.matrix_float(value, left));
                let b = b.map(|value| self.matrix_float(value, right));
                self.matrix_tf32(sums, a, b);
            }
        }
        for (to, sum) in inst.results().zip(sums) {
            match ty {
                Scalar::F16 | Scalar::BF16 => {
                    let to = self.define(to);
                    ptx!(self, "cvt.rn.{ty}.f32 {to}, {sum}");
                }
                _ => self.bind(to, sum),
            }
        }
        if let Some(skip) = skip {
            self.writer.place(skip);
        }
        Ok(())
    }

    /// In checked mode: a fault where not all lanes of the SIMD-group are here, and a label to go to then.
    fn check_whole_simdgroup(&mut self) -> Option<Label> {
        if !self.options.checked {
            return None;
        }
        let active = self.reg(Class::B32);
        ptx!(self, "activemask.b32 {active}");
        let whole = def!(self, Pred, "setp.eq.u32", "{active}, {}", u32::MAX);
        self.fault_unless(whole, FaultCode::PartialSimdgroup, |lower| {
            let count = def!(lower, B32, "popc.b32", "{active}");
            Fault {
                offset: Some(def!(lower, B64, "cvt.u64.u32", "{count}")),
                ..Fault::default()
            }
        });
        let skip = self.writer.label();
        ptx!(self, "@!{whole} bra {skip}");
        Some(skip)
    }

    fn matrix_float(&mut self, value: Reg, from: Scalar) -> Reg {
        match from {
            Scalar::F16 => def!(self, F32, "cvt.f32.f16", "{value}"),
            Scalar::BF16 => {
                let word = def!(self, B32, "cvt.u32.u16", "{value}");
                let word = def!(self, B32, "shl.b32", "{word}, 16");
                def!(self, F32, "mov.b32", "{word}")
            }
            _ => value,
        }
    }

    fn transposed(&mut self, word: Reg) -> Reg {
        def!(self, B32, "movmatrix.sync.aligned.m8n8.trans.b16", "{word}")
    }

    fn matrix_halves(&mut self, [d0, d1]: [Reg; 2], a: [Reg; 2], b: [Reg; 2], ty: Scalar) {
        let a = def!(self, B32, "mov.b32", "{{{}, {}}}", a[0], a[1]);
        let b = def!(self, B32, "mov.b32", "{{{}, {}}}", b[0], b[1]);
        let b = self.transposed(b);
        let nothing = self.u32(0);
        let [d2, d3] = [0, 1].map(|_| def!(self, F32, "mov.f32", "0f00000000"));
        ptx!(
            self,
            "mma.sync.aligned.m16n8k8.row.col.f32.{ty}.{ty}.f32 {{{d0}, {d1}, {d2}, {d3}}}, {{{a}, {nothing}}}, {{{b}}}, {{{d0}, {d1}, {d2}, {d3}}}"
        );
    }

    fn matrix_tf32(&mut self, [d0, d1]: [Reg; 2], a: [Reg; 2], b: [Reg; 2]) {
        let [a0, a1] = a.map(|value| def!(self, B32, "mov.b32", "{value}"));
        // The right operand by halves of its words.
        let [x, y] = b.map(|value| def!(self, B32, "mov.b32", "{value}"));
        let low = def!(self, B32, "prmt.b32", "{x}, {y}, 0x5410");
        let high = def!(self, B32, "prmt.b32", "{x}, {y}, 0x7632");
        let (low, high) = (self.transposed(low), self.transposed(high));
        let b0 = def!(self, B32, "prmt.b32", "{low}, {high}, 0x5410");
        let b1 = def!(self, B32, "prmt.b32", "{low}, {high}, 0x7632");
        let nothing = self.u32(0);
        let [d2, d3] = [0, 1].map(|_| def!(self, F32, "mov.f32", "0f00000000"));
        ptx!(
            self,
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {nothing}, {a1}, {nothing}}}, \
             {{{b0}, {b1}}}, {{{d0}, {d1}, {d2}, {d3}}}"
        );
    }

    /// Step by step: element (g, k) of the left operand is in lane 4·g + k / 2, (k, 2·t + i) of the right one in lane 4·k + t.
    fn matrix_floats(&mut self, sums: [Reg; 2], a: [Reg; 2], b: [Reg; 2]) {
        let (g, t) = (self.geometry.fragment_row, self.geometry.fragment_pair);
        for k in 0..8u32 {
            let lane = def!(self, B32, "mad.lo.u32", "{g}, 4, {}", k / 2);
            let x = self.matrix_shuffle(a[(k % 2) as usize], lane);
            let lane = def!(self, B32, "add.u32", "{t}, {}", 4 * k);
            for i in 0..2 {
                let y = self.matrix_shuffle(b[i], lane);
                let sum = sums[i];
                ptx!(self, "fma.rn.f32 {sum}, {x}, {y}, {sum}");
            }
        }
    }

    fn matrix_shuffle(&mut self, value: Reg, lane: Reg) -> Reg {
        let to = self.reg(Class::F32);
        ptx!(self, "shfl.sync.idx.b32 {to}, {value}, {lane}, 31, 0xffffffff");
        to
    }
}
