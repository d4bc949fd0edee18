//! Elements of views: addresses, loads and stores of elements and codes.

use anymetal_formats::ElementFormat;
use anymetal_ir::{AddressSpace, Bounds, Extent, Scalar, TensorRef, ValueId, element_scalar};

use super::{Int, address_class, state_space};
use crate::lower::check::AccessKind;
use crate::lower::{Lower, Result};
use crate::ptx;
use crate::ptx::{Class, Reg};

/// Where an element is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Where it is.
    pub space: AddressSpace,
    /// What it is.
    pub format: ElementFormat,
    /// The address of its byte.
    pub address: Reg,
    /// Bytes to add to the address.
    pub displacement: i64,
    /// The bit of the byte where it begins, `.b32`; 0 for formats of whole bytes.
    pub shift: Int,
}

impl Place {}

/// How an element is loaded: the type in `ld`, and the class of its register.
fn memory_type(format: ElementFormat) -> (&'static str, Class) {
    match element_scalar(format) {
        Scalar::Bool | Scalar::U8 => ("u8", Class::B32),
        Scalar::I8 => ("s8", Class::B32),
        Scalar::I16 => ("s16", Class::B32),
        Scalar::U16 => ("u16", Class::B32),
        Scalar::I32 | Scalar::U32 => ("b32", Class::B32),
        Scalar::I64 | Scalar::U64 => ("b64", Class::B64),
        Scalar::F16 | Scalar::BF16 => ("b16", Class::B16),
        Scalar::F32 => ("f32", Class::F32),
    }
}

impl<'k> Lower<'k> {
    /// The place of an element of less than a byte that is `offset` elements after the one at bit `phase` of the byte at `base`.
    pub fn bit_place(
        &mut self,
        space: AddressSpace,
        format: ElementFormat,
        base: Reg,
        phase: Int,
        offset: Int,
    ) -> Place {
        let class = address_class(space);
        let bits = format.bits() as i64;
        let bit = self.int_mul(offset, Int::Const(bits), class);
        let bit = self.int_add(bit, phase, class);
        let (address, shift) = match bit {
            Int::Const(bit) => (
                self.int_add(Int::Reg(base), Int::Const(bit >> 3), class),
                Int::Const(bit & 7),
            ),
            Int::Reg(_) => {
                let bit = self.int_reg(bit, class);
                let byte = self.reg(class);
                let ty = super::signed(class);
                ptx!(self, "shr.{ty} {byte}, {bit}, 3");
                let low = self.int_reg(Int::Reg(bit), Class::B32);
                let shift = self.reg(Class::B32);
                ptx!(self, "and.b32 {shift}, {low}, 7");
                (self.int_add(Int::Reg(base), Int::Reg(byte), class), Int::Reg(shift))
            }
        };
        Place {
            space,
            format,
            address: self.int_reg(address, class),
            displacement: 0,
            shift,
        }
    }

    /// Loads an element as its scalar, a format type's code as `u8`, in the register class of `element_scalar`; a `bool` as 0 or another
    /// number. Zero where the predicate does not hold.
    pub fn load_code(&mut self, place: &Place, predicate: Option<Reg>) -> Reg {
        let (ty, class) = memory_type(place.format);
        let (space, address, displacement) = (state_space(place.space), place.address, place.displacement);
        let code = self.reg(class);
        match predicate {
            Some(predicate) => {
                let zero = if class == Class::F32 { "0f00000000" } else { "0" };
                ptx!(self, "mov.{} {code}, {zero}", class.ptx());
                ptx!(self, "@{predicate} ld.{space}.{ty} {code}, [{address}+{displacement}]");
            }
            None => ptx!(self, "ld.{space}.{ty} {code}, [{address}+{displacement}]"),
        }
        if place.format.bits() >= 8 {
            return code;
        }
        let to = self.reg(Class::B32);
        match place.shift {
            Int::Const(shift) => ptx!(self, "bfe.u32 {to}, {code}, {shift}, {}", place.format.bits()),
            Int::Reg(shift) => ptx!(self, "bfe.u32 {to}, {code}, {shift}, {}", place.format.bits()),
        }
        to
    }

    /// Stores what [`load_code`](Self::load_code) loads, where the predicate holds. Elements of less than a byte are merged into their
    /// word by atomic operations, so that neighbours may be stored at the same time.
    pub fn store_code(&mut self, place: &Place, code: Reg, predicate: Option<Reg>) {
        let guard = predicate.map_or(String::new(), |predicate| format!("@{predicate} "));
        let (space, address, displacement) = (state_space(place.space), place.address, place.displacement);
        let bits = place.format.bits();
        if bits >= 8 {
            let (ty, _) = memory_type(place.format);
            let ty = if ty == "s8" {
                "u8"
            } else if ty == "s16" {
                "u16"
            } else {
                ty
            };
            ptx!(self, "{guard}st.{space}.{ty} [{address}+{displacement}], {code}");
            return;
        }
        let shift = self.int_reg(place.shift, Class::B32);
        let mask = (1u32 << bits) - 1;
        let (own, value, hole) = (self.reg(Class::B32), self.reg(Class::B32), self.reg(Class::B32));
        ptx!(self, "and.b32 {own}, {code}, {mask}");
        if place.space == AddressSpace::Thread {
            let (field, old, new) = (self.reg(Class::B32), self.reg(Class::B32), self.reg(Class::B32));
            ptx!(self, "mov.b32 {old}, 0");
            ptx!(self, "{guard}ld.local.u8 {old}, [{address}+{displacement}]");
            ptx!(self, "shl.b32 {value}, {own}, {shift}");
            ptx!(self, "shl.b32 {field}, {}, {shift}", mask);
            ptx!(self, "not.b32 {hole}, {field}");
            ptx!(self, "lop3.b32 {new}, {old}, {hole}, {value}, 0xea");
            ptx!(self, "{guard}st.local.u8 [{address}+{displacement}], {new}");
            return;
        }
        let class = address_class(place.space);
        let at = self.int_add(Int::Reg(address), Int::Const(displacement), class);
        let at = self.int_reg(at, class);
        let low = self.int_reg(Int::Reg(at), Class::B32);
        let (byte, total, word) = (self.reg(Class::B32), self.reg(Class::B32), self.reg(class));
        ptx!(self, "and.b32 {byte}, {low}, 3");
        ptx!(self, "mad.lo.u32 {total}, {byte}, 8, {shift}");
        ptx!(self, "and.{} {word}, {at}, -4", class.ptx());
        ptx!(self, "shl.b32 {value}, {own}, {total}");
        let field = self.u32(mask);
        let field_there = self.reg(Class::B32);
        ptx!(self, "shl.b32 {field_there}, {field}, {total}");
        ptx!(self, "not.b32 {hole}, {field_there}");
        ptx!(self, "{guard}red.{space}.and.b32 [{word}], {hole}");
        ptx!(self, "{guard}red.{space}.or.b32 [{word}], {value}");
    }

    /// A code as a cooperative tensor holds it ([`tile_scalar`]): format types become integers or halves, exactly.
    pub fn tile_value(&mut self, format: ElementFormat, code: Reg) -> Reg {
        match format {
            ElementFormat::Int4B | ElementFormat::Int2B => {
                let to = self.reg(Class::B32);
                ptx!(self, "bfe.s32 {to}, {code}, 0, {}", format.bits());
                to
            }
            ElementFormat::Fp4E2M1 => self.small_float(code, 9, 7, 3, "0x7400", None),
            ElementFormat::Fp8E4M3 => self.small_float(code, 7, 0x7f, 7, "0x5c00", Some(0x7f)),
            ElementFormat::Fp8E5M2 => {
                let (shifted, to) = (self.reg(Class::B32), self.reg(Class::B16));
                ptx!(self, "shl.b32 {shifted}, {code}, 8");
                ptx!(self, "cvt.u16.u32 {to}, {shifted}");
                to
            }
            _ => code,
        }
    }

    /// A float of at most 8 bits as `f16`: its magnitude shifted to the place in an `f16` and multiplied by a power of two.
    fn small_float(&mut self, code: Reg, shift: u32, magnitude: u32, sign: u32, factor: &str, nan: Option<u32>) -> Reg {
        let [low, placed, high, bits] = [(); 4].map(|()| self.reg(Class::B32));
        ptx!(self, "and.b32 {low}, {code}, {magnitude}");
        ptx!(self, "shl.b32 {placed}, {low}, {shift}");
        ptx!(self, "shl.b32 {high}, {code}, {}", 15 - sign);
        ptx!(self, "lop3.b32 {bits}, {high}, 0x8000, {placed}, 0xea");
        let (half, to) = (self.reg(Class::B16), self.reg(Class::B16));
        ptx!(self, "cvt.u16.u32 {half}, {bits}");
        let scale = self.reg(Class::B16);
        ptx!(self, "mov.b16 {scale}, {factor}");
        ptx!(self, "mul.rn.f16 {to}, {half}, {scale}");
        let Some(nan) = nan else {
            return to;
        };
        let (is_nan, not_a_number, either) = (self.reg(Class::Pred), self.reg(Class::B16), self.reg(Class::B16));
        ptx!(self, "setp.eq.u32 {is_nan}, {low}, {nan}");
        ptx!(self, "mov.b16 {not_a_number}, 0x7fff");
        ptx!(self, "selp.b16 {either}, {not_a_number}, {to}, {is_nan}");
        either
    }

    /// Where `T[…]` or `get(…)` finds its element, and whether it exists.
    fn element_place(
        &mut self,
        tensor: &TensorRef,
        indices: &[ValueId],
        bounds: Option<Bounds>,
    ) -> Result<(Place, Option<Reg>)> {
        let class = address_class(tensor.space);
        let bits = tensor.format.bits() as i64;
        let mut offset = Int::Const(0);
        let mut exists = None;
        if bounds == Some(Bounds::Fault) && self.options.checked {
            let limits: Vec<Int> = (0..indices.len()).map(|d| self.element_bound(tensor, d)).collect();
            let indices: Vec<Int> = indices.iter().map(|&index| self.int(index)).collect();
            exists = self.check_subscript(tensor, &indices, &limits);
        }
        for (d, &index) in indices.iter().enumerate() {
            let mut index = self.int(index);
            let origin = self.int(tensor.origin[d]);
            if bounds == Some(Bounds::Clip) {
                let bound = self.element_bound(tensor, d);
                index = match bound {
                    Int::Const(1) => Int::Const(0),
                    Int::Const(_) => index,
                    Int::Reg(bound) => {
                        let single = self.reg(Class::Pred);
                        ptx!(self, "setp.eq.s64 {single}, {bound}, 1");
                        self.int_select(single, Int::Const(0), index, Class::B64)
                    }
                };
                let inside = self.element_inside(index, bound, origin);
                exists = self.both(exists, inside);
            }
            let at = self.int_add(origin, index, Class::B64);
            let stride = self.int(tensor.strides[d]);
            let part = self.int_mul(at, stride, Class::B64);
            offset = self.int_add(offset, part, Class::B64);
        }
        let pointer = self.value(tensor.pointer);
        if bits < 8 {
            let place = self.bit_place(tensor.space, tensor.format, pointer, Int::Const(0), offset);
            return Ok((place, exists));
        }
        let bytes = self.int_mul(offset, Int::Const(bits / 8), Class::B64);
        let (address, displacement) = match bytes {
            Int::Const(bytes) if i32::try_from(bytes).is_ok() => (pointer, bytes),
            bytes => {
                let address = self.int_add(Int::Reg(pointer), bytes, class);
                (self.int_reg(address, class), 0)
            }
        };
        let place = Place {
            space: tensor.space,
            format: tensor.format,
            address,
            displacement,
            shift: Int::Const(0),
        };
        Ok((place, exists))
    }

    /// How many elements a dimension of a view has inside its tensor, `i64`.
    fn element_bound(&mut self, tensor: &TensorRef, d: usize) -> Int {
        let (base, origin) = (self.int(tensor.base_extents[d]), self.int(tensor.origin[d]));
        let rest = self.int_sub(base, origin, Class::B64);
        let own = match tensor.extents[d] {
            Extent::Rest => return rest,
            Extent::Dynamic(value) => self.int(value),
            Extent::Static(extent) => Int::Const(extent as i64),
        };
        self.int_min(rest, own, Class::B64)
    }

    /// `0 ≤ index < bound`, and the element is not before the tensor's first; `None` if that is known.
    pub(super) fn element_inside(&mut self, index: Int, bound: Int, origin: Int) -> Option<Reg> {
        let mut inside = None;
        let mut require = |lower: &mut Self, condition: &str, a: Int, b: Int| {
            let (a, b) = (lower.int_reg(a, Class::B64), lower.int_reg(b, Class::B64));
            let holds = lower.reg(Class::Pred);
            match inside {
                Some(so_far) => ptx!(lower, "setp.{condition}.and.s64 {holds}, {a}, {b}, {so_far}"),
                None => ptx!(lower, "setp.{condition}.s64 {holds}, {a}, {b}"),
            }
            inside = Some(holds);
        };
        match (index, bound) {
            (Int::Const(index), Int::Const(bound)) if (0..bound).contains(&index) => {}
            (Int::Const(0..), _) => require(self, "lt", index, bound),
            _ => {
                require(self, "ge", index, Int::Const(0));
                require(self, "lt", index, bound);
            }
        }
        if !matches!(origin, Int::Const(0..)) {
            require(self, "ge", origin, Int::Const(0));
        }
        inside
    }

    /// `T[…]` or `get(…)`: a format type gives its code.
    pub fn tensor_load(&mut self, to: ValueId, tensor: &TensorRef, indices: &[ValueId], bounds: Bounds) -> Result {
        let (place, exists) = self.element_place(tensor, indices, Some(bounds))?;
        let exists = self.check_element(tensor, &place, exists, AccessKind::Read);
        let code = self.load_code(&place, exists);
        if tensor.format == ElementFormat::Bool {
            let truth = self.define(to);
            ptx!(self, "setp.ne.u32 {truth}, {code}, 0");
        } else {
            self.bind(to, code);
        }
        Ok(())
    }

    /// `T[…] = value` or `set(…)`.
    pub fn tensor_store(&mut self, tensor: &TensorRef, indices: &[ValueId], value: ValueId, bounds: Bounds) -> Result {
        let (place, exists) = self.element_place(tensor, indices, Some(bounds))?;
        let exists = self.check_element(tensor, &place, exists, AccessKind::Write);
        let mut code = self.value(value);
        if code.class == Class::Pred {
            let byte = self.reg(Class::B32);
            ptx!(self, "selp.b32 {byte}, 1, 0, {code}");
            code = byte;
        }
        self.store_code(&place, code, exists);
        Ok(())
    }

    /// `&T[…]`.
    pub fn tensor_element_pointer(&mut self, to: ValueId, tensor: &TensorRef, indices: &[ValueId]) -> Result {
        if tensor.format.bits() < 8 {
            return self.unsupported(format!("the address of an element of {}", tensor.format.msl_name()));
        }
        let (place, _) = self.element_place(tensor, indices, None)?;
        let class = address_class(tensor.space);
        let address = self.int_add(Int::Reg(place.address), Int::Const(place.displacement), class);
        let address = self.int_reg(address, class);
        self.bind(to, address);
        Ok(())
    }
}
