//! Small pieces of PTX that products are put together from.

use std::fmt;

use anymetal_ir::AddressSpace;

use crate::lower::Lower;
use crate::ptx;
use crate::ptx::{Class, Label, Reg};

/// An instruction whose destination is a new register: `mnemonic d, arguments`.
pub(super) fn define(l: &mut Lower, class: Class, mnemonic: &str, arguments: fmt::Arguments<'_>) -> Reg {
    let d = l.reg(class);
    ptx!(l, "{mnemonic} {d}, {arguments}");
    d
}

/// [`define`] with a format string.
macro_rules! def {
    ($l:expr, $class:ident, $mnemonic:expr, $($format:tt)*) => {
        $crate::lower::product::emit::define($l, $crate::ptx::Class::$class, $mnemonic, format_args!($($format)*))
    };
}
pub(super) use def;

/// A 64-bit quantity that is a number, or only known when the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wide {
    Known(i64),
    Reg(Reg),
}

impl Wide {
    pub fn reg(self, l: &mut Lower) -> Reg {
        match self {
            Wide::Known(number) => l.i64(number),
            Wide::Reg(reg) => reg,
        }
    }

    pub fn known(self) -> Option<i64> {
        match self {
            Wide::Known(number) => Some(number),
            Wide::Reg(_) => None,
        }
    }

    pub fn add(self, l: &mut Lower, other: Wide) -> Wide {
        match (self, other) {
            (Wide::Known(a), Wide::Known(b)) => Wide::Known(a.wrapping_add(b)),
            (Wide::Known(0), x) | (x, Wide::Known(0)) => x,
            (Wide::Reg(a), Wide::Known(b)) | (Wide::Known(b), Wide::Reg(a)) => {
                Wide::Reg(def!(l, B64, "add.s64", "{a}, {b}"))
            }
            (Wide::Reg(a), Wide::Reg(b)) => Wide::Reg(def!(l, B64, "add.s64", "{a}, {b}")),
        }
    }

    pub fn sub(self, l: &mut Lower, other: Wide) -> Wide {
        match (self, other) {
            (a, Wide::Known(b)) => a.add(l, Wide::Known(b.wrapping_neg())),
            (a, Wide::Reg(b)) => {
                let a = a.reg(l);
                Wide::Reg(def!(l, B64, "sub.s64", "{a}, {b}"))
            }
        }
    }

    pub fn mul(self, l: &mut Lower, other: Wide) -> Wide {
        match (self, other) {
            (Wide::Known(a), Wide::Known(b)) => Wide::Known(a.wrapping_mul(b)),
            (Wide::Known(0), _) | (_, Wide::Known(0)) => Wide::Known(0),
            (Wide::Known(1), x) | (x, Wide::Known(1)) => x,
            (Wide::Reg(a), Wide::Known(b)) | (Wide::Known(b), Wide::Reg(a)) => match b {
                _ if b > 0 && b.count_ones() == 1 => Wide::Reg(def!(l, B64, "shl.b64", "{a}, {}", b.trailing_zeros())),
                _ => Wide::Reg(def!(l, B64, "mul.lo.s64", "{a}, {b}")),
            },
            (Wide::Reg(a), Wide::Reg(b)) => Wide::Reg(def!(l, B64, "mul.lo.s64", "{a}, {b}")),
        }
    }

    pub fn min(self, l: &mut Lower, other: Wide) -> Wide {
        match (self, other) {
            (Wide::Known(a), Wide::Known(b)) => Wide::Known(a.min(b)),
            (Wide::Reg(a), Wide::Known(b)) | (Wide::Known(b), Wide::Reg(a)) => {
                Wide::Reg(def!(l, B64, "min.s64", "{a}, {b}"))
            }
            (Wide::Reg(a), Wide::Reg(b)) if a == b => self,
            (Wide::Reg(a), Wide::Reg(b)) => Wide::Reg(def!(l, B64, "min.s64", "{a}, {b}")),
        }
    }

    pub fn max(self, l: &mut Lower, other: i64) -> Wide {
        match self {
            Wide::Known(a) => Wide::Known(a.max(other)),
            Wide::Reg(a) => Wide::Reg(def!(l, B64, "max.s64", "{a}, {other}")),
        }
    }
}

/// A 32-bit quantity, likewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Known(i32),
    Reg(Reg),
}

impl Word {
    pub fn reg(self, l: &mut Lower) -> Reg {
        match self {
            Word::Known(number) => l.u32(number as u32),
            Word::Reg(reg) => reg,
        }
    }

    pub fn add(self, l: &mut Lower, other: Word) -> Word {
        match (self, other) {
            (Word::Known(a), Word::Known(b)) => Word::Known(a.wrapping_add(b)),
            (Word::Known(0), x) | (x, Word::Known(0)) => x,
            (Word::Reg(a), Word::Known(b)) | (Word::Known(b), Word::Reg(a)) => {
                Word::Reg(def!(l, B32, "add.s32", "{a}, {b}"))
            }
            (Word::Reg(a), Word::Reg(b)) => Word::Reg(def!(l, B32, "add.s32", "{a}, {b}")),
        }
    }

    pub fn min(self, l: &mut Lower, other: Word) -> Word {
        match (self, other) {
            (Word::Known(a), Word::Known(b)) => Word::Known(a.min(b)),
            (Word::Reg(a), Word::Known(b)) | (Word::Known(b), Word::Reg(a)) => {
                Word::Reg(def!(l, B32, "min.s32", "{a}, {b}"))
            }
            (Word::Reg(a), Word::Reg(b)) if a == b => self,
            (Word::Reg(a), Word::Reg(b)) => Word::Reg(def!(l, B32, "min.s32", "{a}, {b}")),
        }
    }

    /// Sign-extended.
    pub fn widen(self, l: &mut Lower) -> Wide {
        match self {
            Word::Known(a) => Wide::Known(a.into()),
            Word::Reg(a) => Wide::Reg(def!(l, B64, "cvt.s64.s32", "{a}")),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Known(number) => number.fmt(f),
            Word::Reg(reg) => reg.fmt(f),
        }
    }
}

/// The state space of loads and stores: `global`, `shared` or `local`.
pub(super) fn state_space(space: AddressSpace) -> &'static str {
    match space {
        AddressSpace::Device | AddressSpace::Constant => "global",
        AddressSpace::Threadgroup => "shared",
        AddressSpace::Thread => "local",
    }
}

/// An address and a number of bytes.
pub(super) fn advance(l: &mut Lower, address: Reg, bytes: Wide) -> Reg {
    match (address.class, bytes) {
        (_, Wide::Known(0)) => address,
        (Class::B64, Wide::Known(bytes)) => def!(l, B64, "add.s64", "{address}, {bytes}"),
        (Class::B64, Wide::Reg(bytes)) => def!(l, B64, "add.s64", "{address}, {bytes}"),
        (_, Wide::Known(bytes)) => def!(l, B32, "add.s32", "{address}, {}", bytes as i32),
        (_, Wide::Reg(bytes)) => {
            let narrow = def!(l, B32, "cvt.u32.u64", "{bytes}");
            def!(l, B32, "add.s32", "{address}, {narrow}")
        }
    }
}

/// Adds bytes to an address register in place.
pub(super) fn step(l: &mut Lower, address: Reg, bytes: Wide) {
    match (address.class, bytes) {
        (_, Wide::Known(0)) => {}
        (Class::B64, Wide::Known(bytes)) => ptx!(l, "add.s64 {address}, {address}, {bytes}"),
        (Class::B64, Wide::Reg(bytes)) => ptx!(l, "add.s64 {address}, {address}, {bytes}"),
        (_, Wide::Known(bytes)) => ptx!(l, "add.s32 {address}, {address}, {}", bytes as i32),
        (_, Wide::Reg(bytes)) => {
            let narrow = def!(l, B32, "cvt.u32.u64", "{bytes}");
            ptx!(l, "add.s32 {address}, {address}, {narrow}");
        }
    }
}

/// `and.pred` of conditions, some of which hold always (`None`).
pub(super) fn both(l: &mut Lower, a: Option<Reg>, b: Option<Reg>) -> Option<Reg> {
    match (a, b) {
        (Some(a), Some(b)) => Some(def!(l, Pred, "and.pred", "{a}, {b}")),
        (x, None) | (None, x) => x,
    }
}

/// A branch that all lanes of a SIMD-group take alike.
pub(super) fn branch_if(l: &mut Lower, condition: Reg, to: Label) {
    ptx!(l, "@{condition} bra.uni {to}");
}

/// Likewise, if the condition does not hold.
pub(super) fn branch_unless(l: &mut Lower, condition: Reg, to: Label) {
    ptx!(l, "@!{condition} bra.uni {to}");
}

/// A 16-bit register with the low half of a word.
pub(super) fn low_half(l: &mut Lower, word: Reg) -> Reg {
    def!(l, B16, "cvt.u16.u32", "{word}")
}

/// `f32` as a literal.
pub(super) fn float(value: f32) -> String {
    format!("0f{:08X}", value.to_bits())
}
