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

/// An `f32` constant, as PTX writes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct F32(pub f32);

impl fmt::Display for F32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0f{:08X}", self.0.to_bits())
    }
}

/// An `f64` constant, as PTX writes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct F64(pub f64);

impl fmt::Display for F64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0d{:016X}", self.0.to_bits())
    }
}

/// The body of an entry as it grows.
#[derive(Default)]
pub struct Writer {
    body: String,
    deferred: String,
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

    /// One instruction: its name, the register of its result, its operands.
    pub fn inst(&mut self, name: &str, to: Reg, operands: &[&dyn fmt::Display]) {
        let _ = write!(self.body, "\t{name} {to}");
        for operand in operands {
            let _ = write!(self.body, ", {operand}");
        }
        self.body.push_str(";\n");
    }

    /// Lets what follows be written behind the end of the kernel, until [`end_aside`](Self::end_aside) with what this returns. For
    /// code that runs rarely: it begins with a label and ends with a branch.
    pub fn begin_aside(&mut self) -> String {
        std::mem::take(&mut self.body)
    }

    /// Ends what [`begin_aside`](Self::begin_aside) began.
    pub fn end_aside(&mut self, body: String) {
        let aside = std::mem::replace(&mut self.body, body);
        self.deferred.push_str(&aside);
    }

    /// Declarations of all registers, then the body, then what was put aside.
    pub fn finish(self) -> String {
        let mut out = String::new();
        for class in Class::ALL {
            let count = self.registers[class as usize];
            if count > 0 {
                let _ = writeln!(out, "\t.reg .{} %{}<{count}>;", class.ptx(), class.prefix());
            }
        }
        out.push_str(&self.body);
        out.push_str(&self.deferred);
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

/// Writes one PTX instruction with a result in a new register of a class, which it returns: `emit!(lower, B32, "add.s32", a, 1)`.
/// Operands may be `emit!` themselves.
#[macro_export]
#[doc(hidden)]
macro_rules! emit {
    ($lower:expr, $class:ident, $name:expr $(, $operand:expr)* $(,)?) => {{
        let operands: &[&dyn std::fmt::Display] = &[$(&$operand),*];
        let to = $lower.writer.reg($crate::ptx::Class::$class);
        $lower.writer.inst($name, to, operands);
        to
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Holder {
        writer: Writer,
    }

    #[test]
    fn instructions_nest_and_asides_come_last() {
        let mut lower = Holder {
            writer: Writer::default(),
        };
        let sum = emit!(lower, F32, "add.f32", emit!(lower, F32, "mov.f32", F32(1.0)), F32(-2.0));
        let (aside, back) = (lower.writer.label(), lower.writer.label());
        let body = lower.writer.begin_aside();
        lower.writer.place(aside);
        ptx!(lower, "bra {back}");
        lower.writer.end_aside(body);
        lower.writer.place(back);
        ptx!(lower, "mov.f32 {sum}, {}", F64(1.0));
        assert_eq!(
            lower.writer.finish(),
            "\t.reg .f32 %f<2>;\n\tmov.f32 %f0, 0f3F800000;\n\tadd.f32 %f1, %f0, 0fC0000000;\n$L1:\n\tmov.f32 %f1, 0d3FF0000000000000;\n\
             $L0:\n\tbra $L1;\n"
        );
    }
}
