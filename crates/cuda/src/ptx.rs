//! PTX as text: registers, labels, lines.

use std::fmt::{self, Write as _};

use anymetal_ir::{AddressSpace, Scalar, Type};

/// A register class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// `.pred`: every `bool`.
    Pred,
    /// `.b16`: `f16` and `bf16`.
    B16,
    /// `.b32`: integers of up to 32 bits (sign- or zero-extended by their type), packed halves, shared and local addresses.
    B32,
    /// `.b64`: 64-bit integers, global addresses.
    B64,
    /// `.f32`.
    F32,
}

impl Class {
    const ALL: [Class; 5] = [Class::Pred, Class::B16, Class::B32, Class::B64, Class::F32];

    /// The class that holds a scalar.
    pub const fn of_scalar(scalar: Scalar) -> Class {
        match scalar {
            Scalar::Bool => Class::Pred,
            Scalar::F16 | Scalar::BF16 => Class::B16,
            Scalar::F32 => Class::F32,
            Scalar::I64 | Scalar::U64 => Class::B64,
            _ => Class::B32,
        }
    }

    /// The class that holds a value of a type.
    pub const fn of(ty: Type) -> Class {
        match ty {
            Type::Scalar(scalar) => Class::of_scalar(scalar),
            Type::Pointer(AddressSpace::Device | AddressSpace::Constant) => Class::B64,
            Type::Pointer(_) => Class::B32,
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Class::Pred => "p",
            Class::B16 => "h",
            Class::B32 => "r",
            Class::B64 => "d",
            Class::F32 => "f",
        }
    }

    /// The type of `mov` and of declarations.
    pub const fn ptx(self) -> &'static str {
        match self {
            Class::Pred => "pred",
            Class::B16 => "b16",
            Class::B32 => "b32",
            Class::B64 => "b64",
            Class::F32 => "f32",
        }
    }
}

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reg {
    /// Its class.
    pub class: Class,
    /// Its number in the class.
    pub number: u32,
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}{}", self.class.prefix(), self.number)
    }
}

/// A label.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Label(u32);

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$L{}", self.0)
    }
}

/// The body of an entry as it grows.
#[derive(Default)]
pub struct Writer {
    body: String,
    registers: [u32; 5],
    labels: u32,
}

impl Writer {
    /// A new register.
    pub fn reg(&mut self, class: Class) -> Reg {
        let count = &mut self.registers[class as usize];
        let number = *count;
        *count += 1;
        Reg { class, number }
    }

    /// A new label, to be [placed](Self::place) once.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Puts a label here.
    pub fn place(&mut self, label: Label) {
        let _ = writeln!(self.body, "{label}:");
    }

    /// One instruction, without the semicolon.
    pub fn line(&mut self, text: fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "\t{text};");
    }

    /// Declarations of all registers, then the body.
    pub fn finish(self) -> String {
        let mut out = String::new();
        for class in Class::ALL {
            let count = self.registers[class as usize];
            if count > 0 {
                let _ = writeln!(out, "\t.reg .{} %{}<{count}>;", class.ptx(), class.prefix());
            }
        }
        out.push_str(&self.body);
        out
    }
}

/// Writes one PTX instruction (without its semicolon) to something that has a `writer` field of type [`Writer`].
#[macro_export]
#[doc(hidden)]
macro_rules! ptx {
    ($lower:expr, $($format:tt)*) => {
        $lower.writer.line(format_args!($($format)*))
    };
}
