//! Prints bytecode in MLIR's generic form, for tests and for people. The output is bounded.

use std::collections::HashSet;
use std::fmt::Write;

use super::lower::read_properties;
use crate::bytecode::{Attr, AttrId, Block, Module, Op, Region, Type, TypeId, ValueId};
use crate::error::ProgramError;

/// Attributes nest at most this deep in print.
const MAX_DEPTH: usize = 24;

/// Prints the operations of `module` as MLIR's generic form prints the `aicode` dialect. Printing stops with an
/// ellipsis after `limit` bytes (hostile attributes may be exponentially large).
pub fn print(module: &Module, limit: usize) -> Result<String, ProgramError> {
    let mut printer = Printer {
        module,
        out: String::from("module {\n"),
        limit,
    };
    let root = module.root();
    for block in &root.blocks {
        let mut names = Names::new(root.value_types.len());
        printer.block(block, &mut names, Next::default(), &root.value_types, 1)?;
    }
    if printer.full() {
        printer.out.push_str("\n…");
    }
    printer.out.push_str("}\n");
    Ok(printer.out)
}

struct Printer<'m> {
    module: &'m Module,
    out: String,
    limit: usize,
}

#[derive(Clone, Copy, Default)]
struct Next {
    value: usize,
    arg: usize,
}

/// Names by value, the given names that are taken, and the number of conflicts so far (one count for all names).
struct Names(Vec<String>, HashSet<&'static str>, usize);

impl Names {
    fn new(count: usize) -> Self {
        Self(vec![String::new(); count], HashSet::new(), 0)
    }

    /// A name of its own for a value that the dialect names.
    fn own(&mut self, base: &'static str) -> String {
        if self.1.insert(base) {
            return format!("%{base}");
        }
        self.2 += 1;
        format!("%{base}_{}", self.2 - 1)
    }

    fn set(&mut self, value: ValueId, name: String) {
        if let Some(slot) = self.0.get_mut(value.0 as usize) {
            *slot = name;
        }
    }

    fn get(&self, value: ValueId) -> &str {
        self.0.get(value.0 as usize).map_or("?", String::as_str)
    }
}

impl Printer<'_> {
    fn full(&self) -> bool {
        self.out.len() > self.limit
    }

    fn put(&mut self, args: std::fmt::Arguments<'_>) {
        if !self.full() {
            // Writing to a String cannot fail.
            let _ = self.out.write_fmt(args);
        }
    }

    fn block(
        &mut self,
        block: &Block,
        names: &mut Names,
        start: Next,
        types: &[TypeId],
        indent: usize,
    ) -> Result<(), ProgramError> {
        let mut next = start;
        for &arg in &block.args {
            names.set(arg, format!("%arg{}", next.arg));
            next.arg += 1;
        }
        for op in &block.ops {
            if let ("dataflow.read_handle_v1", &[output, token]) = (self.module.op_name(op.name), op.results.as_slice())
            {
                let name = names.own("output");
                names.set(output, name);
                let name = names.own("out_token");
                names.set(token, name);
                continue;
            }
            for (i, &result) in op.results.iter().enumerate() {
                let suffix = if op.results.len() > 1 {
                    format!("#{i}")
                } else {
                    String::new()
                };
                names.set(result, format!("%{}{suffix}", next.value));
            }
            next.value += usize::from(!op.results.is_empty());
        }
        if !block.args.is_empty() {
            let args: Vec<String> = block
                .args
                .iter()
                .map(|&a| Ok(format!("{}: {}", names.get(a), self.type_of(types, a)?)))
                .collect::<Result<_, ProgramError>>()?;
            self.put(format_args!("{}^bb0({}):\n", "  ".repeat(indent - 1), args.join(", ")));
        }
        for op in &block.ops {
            self.op(op, names, next, types, indent)?;
            if self.full() {
                break;
            }
        }
        Ok(())
    }

    fn op(
        &mut self,
        op: &Op,
        names: &mut Names,
        next: Next,
        types: &[TypeId],
        indent: usize,
    ) -> Result<(), ProgramError> {
        self.put(format_args!("{}", "  ".repeat(indent)));
        if let Some(&first) = op.results.first() {
            match op.results.len() {
                1 => self.put(format_args!("{} = ", names.get(first))),
                _ if !names.get(first).ends_with("#0") => {
                    let all: Vec<&str> = op.results.iter().map(|&r| names.get(r)).collect();
                    self.put(format_args!("{} = ", all.join(", ")));
                }
                n => self.put(format_args!("{}:{n} = ", names.get(first).trim_end_matches("#0"))),
            }
        }
        let operands: Vec<&str> = op.operands.iter().map(|&v| names.get(v)).collect();
        self.put(format_args!(
            "\"aicode.{}\"({})",
            self.module.op_name(op.name),
            operands.join(", ")
        ));
        let properties = read_properties(self.module, op)?;
        if !properties.is_empty() {
            let mut text = Vec::new();
            for (name, id) in properties {
                text.push(format!("{name} = {}", self.attr(id)?));
            }
            self.put(format_args!(" <{{{}}}>", text.join(", ")));
        }
        if !op.regions.is_empty() {
            self.put(format_args!(" ("));
            for (i, region) in op.regions.iter().enumerate() {
                self.put(format_args!("{}{{\n", if i > 0 { ", " } else { "" }));
                self.region(region, names, next, types, indent)?;
                self.put(format_args!("{}}}", "  ".repeat(indent)));
            }
            self.put(format_args!(")"));
        }
        let of = |printer: &Self, values: &[ValueId]| -> Result<Vec<String>, ProgramError> {
            values.iter().map(|&v| printer.type_of(types, v)).collect()
        };
        let operands = of(self, &op.operands)?.join(", ");
        let results = of(self, &op.results)?;
        let results = match results.as_slice() {
            [one] => one.clone(),
            many => format!("({})", many.join(", ")),
        };
        self.put(format_args!(" : ({operands}) -> {results}\n"));
        Ok(())
    }

    fn region(
        &mut self,
        region: &Region,
        names: &mut Names,
        next: Next,
        types: &[TypeId],
        indent: usize,
    ) -> Result<(), ProgramError> {
        for block in &region.blocks {
            if region.isolated {
                let mut inner = Names::new(region.value_types.len());
                self.block(block, &mut inner, next, &region.value_types, indent + 1)?;
            } else {
                self.block(block, names, next, types, indent + 1)?;
            }
        }
        Ok(())
    }

    fn type_of(&self, types: &[TypeId], value: ValueId) -> Result<String, ProgramError> {
        match types.get(value.0 as usize) {
            Some(&ty) => self.ty(ty, 0),
            None => Ok("?".into()),
        }
    }

    fn ty(&self, id: TypeId, depth: usize) -> Result<String, ProgramError> {
        if depth > MAX_DEPTH {
            return Ok("…".into());
        }
        Ok(match self.module.ty(id)? {
            Type::Tensor(t) => {
                let mut out = String::from("!aicode.tensor_v1<");
                if !t.shape.is_empty() {
                    let dims: Vec<String> = t
                        .shape
                        .iter()
                        .map(|d| d.map_or(i64::MIN.to_string(), |d| d.to_string()))
                        .collect();
                    let _ = write!(out, "[{}] : ", dims.join(", "));
                }
                let _ = write!(out, "!aicode.{}_v1", t.element.dialect_name());
                if let Some(encoding) = t.encoding {
                    let _ = write!(out, ", {}", self.attr(encoding)?);
                }
                out + ">"
            }
            Type::Element(element) => format!("!aicode.{}_v1", element.dialect_name()),
            Type::Function { results, operands } => {
                let list = |ids: &[TypeId]| -> Result<String, ProgramError> {
                    let all: Vec<String> = ids
                        .iter()
                        .take(self.limit)
                        .map(|&t| self.ty(t, depth + 1))
                        .collect::<Result<_, _>>()?;
                    Ok(all.join(", "))
                };
                let spaced = |text: String| {
                    if text.is_empty() { text } else { format!(" {text}") }
                };
                format!(
                    "!aicode.function_v1<(operands{}) -> (results{})>",
                    spaced(list(&operands)?),
                    spaced(list(&results)?)
                )
            }
            Type::Handle(inner) => format!("!aicode.handle_v1<{}>", self.ty(inner, depth + 1)?),
            Type::Token => "!aicode.token_v1".into(),
            Type::Symbol => "!aicode.param.symbol_v1".into(),
            Type::Other(code) => format!("!aicode.type_{code}"),
        })
    }

    fn attr(&self, id: AttrId) -> Result<String, ProgramError> {
        let mut out = String::new();
        self.write_attr(id, &mut out, 0)?;
        Ok(out)
    }

    fn write_attr(&self, id: AttrId, out: &mut String, depth: usize) -> Result<(), ProgramError> {
        if depth > MAX_DEPTH || out.len() > self.limit {
            out.push('…');
            return Ok(());
        }
        match self.module.attr(id)? {
            Attr::String(text) => {
                let _ = write!(out, "#aicode.serialization.string<\"{}\">", escape(text));
            }
            Attr::Integer { width, unsigned, bits } => {
                let value = crate::bytecode::extend(width, unsigned, bits);
                let sign = if unsigned { "unsigned" } else { "signed" };
                let _ = write!(out, "#aicode.serialization.integer<({width}bit {sign}) {value}>");
            }
            Attr::WideInteger { width, unsigned, words } => {
                let sign = if unsigned { "unsigned" } else { "signed" };
                let _ = write!(out, "#aicode.serialization.integer<({width}bit {sign}) {words:x?}>");
            }
            Attr::Float { width, bits } => {
                let text = match width {
                    16 => float_text(half::f16::from_bits(bits as u16).to_f64(), 5),
                    32 => float_text(f64::from(f32::from_bits(bits as u32)), 9),
                    _ => float_text(f64::from_bits(bits), 17),
                };
                let _ = write!(out, "#aicode.serialization.float<({width}bit) {text}>");
            }
            Attr::Type(ty) => {
                let _ = write!(out, "#aicode.serialization.type<{}>", self.ty(ty, depth)?);
            }
            Attr::Array(items) => {
                out.push_str("#aicode.serialization.array<");
                if !items.is_empty() {
                    out.push('[');
                    self.write_list(&items, out, depth)?;
                    out.push(']');
                }
                out.push('>');
            }
            Attr::DenseElements { splat, bytes, .. } => {
                let _ = write!(out, "#aicode.serialization.dense_elements<[splat = {splat}] \"");
                let room = self.limit.saturating_sub(out.len());
                base64(&bytes[..bytes.len().min(room)], out);
                out.push_str("\">");
            }
            Attr::DenseResource(resource) => {
                let _ = write!(
                    out,
                    "#aicode.serialization.dense_resource<{}>",
                    self.module.resource_name(resource)
                );
            }
            Attr::Opaque { name, values } => {
                let _ = write!(out, "#aicode.serialization.opaque<\"{}\" = [", escape(name));
                self.write_list(&values, out, depth)?;
                out.push_str("]>");
            }
            Attr::Dictionary(items) => {
                out.push_str("#aicode.serialization.dictionary<{");
                for (i, &item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    match self.module.attr(item)? {
                        Attr::Opaque { name, values } => {
                            let _ = write!(out, "<\"{}\" = [", escape(name));
                            self.write_list(&values, out, depth)?;
                            out.push_str("]>");
                        }
                        _ => self.write_attr(item, out, depth + 1)?,
                    }
                    if out.len() > self.limit {
                        break;
                    }
                }
                out.push_str("}>");
            }
            Attr::HwConstraints {
                alignments,
                interleave,
                backing,
                base,
            } => {
                let names = ["?", "AXIOSurface", "AXMTLBuffer", "AXHeap"];
                let backing = names.get(backing as usize).unwrap_or(&"?");
                let text = |v: &[i64]| v.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
                let _ = write!(
                    out,
                    "#aicode.ax.hw_constraints_v1<{backing}, alignments: [{}], interleave: [{}]",
                    text(&alignments),
                    text(&interleave)
                );
                if let Some(base) = base {
                    out.push_str(", baseEncoding: ");
                    self.write_attr(base, out, depth + 1)?;
                }
                out.push('>');
            }
            Attr::SymbolRef(path) => {
                let _ = write!(out, "#aicode.symbol_ref_v1<{}>", path.join("::"));
            }
            Attr::ParamConstant { value, ty } => {
                out.push_str("#aicode.param.constant_v1<binding{ [");
                self.write_attr(value, out, depth + 1)?;
                let _ = write!(out, "] : {} }}>", self.ty(ty, depth)?);
            }
            Attr::Enum { code, value } => write_enum(code, value, out),
            Attr::SparseEncoding {
                scheme,
                position_width,
                coordinate_width,
                non_zeros,
                block_size,
            } => {
                let _ = write!(
                    out,
                    "#aicode.sparse_tensor_encoding<{scheme}, {non_zeros:?}, {position_width}, {coordinate_width}, {block_size:?}>"
                );
            }
            Attr::Unit => out.push_str("#aicode.unit"),
            Attr::Other { code, payload } => {
                let _ = write!(out, "#aicode.attribute_{code}<\"");
                let room = self.limit.saturating_sub(out.len());
                base64(&payload[..payload.len().min(room)], out);
                out.push_str("\">");
            }
        }
        Ok(())
    }

    fn write_list(&self, items: &[AttrId], out: &mut String, depth: usize) -> Result<(), ProgramError> {
        for (i, &item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            self.write_attr(item, out, depth + 1)?;
            if out.len() > self.limit {
                break;
            }
        }
        Ok(())
    }
}

fn write_enum(code: u64, value: u64, out: &mut String) {
    let (kind, names): (&str, &[&str]) = match code {
        17 => (
            "padding_mode_v1",
            &["circular", "constant", "reflect", "replicate", "symmetric"],
        ),
        19 => ("approximate_v1", &["none", "tanh", "sigmoid"]),
        20 => ("scatter_mode_v1", &["update", "add", "sub", "mul", "div", "max", "min"]),
        25 => ("scan_combiner_v1", &["sum", "product", "min", "max"]),
        43 => ("interpolation_mode_v1", &["linear", "nearest_neighbor"]),
        _ => ("enum", &[]),
    };
    match names.get(value as usize) {
        Some(name) => {
            let _ = write!(out, "#aicode.{kind}<{name}>");
        }
        None => {
            let _ = write!(out, "#aicode.{kind}<{value}>");
        }
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b'"' => out.push_str("\\22"),
            0x20..=0x7e => out.push(byte as char),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out
}

fn base64(bytes: &[u8], out: &mut String) {
    const TABLE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |w, &b| w << 8 | u32::from(b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(TABLE[(word >> (18 - 6 * i)) as usize & 63] as char);
            } else {
                out.push('=');
            }
        }
    }
}

/// A float as LLVM prints it: `precision` significant digits without trailing zeros, scientific when more than three
/// zeros would be needed.
fn float_text(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN".into()
        } else {
            format!("{}Inf", if value < 0.0 { "-" } else { "+" })
        };
    }
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0".into()
        } else {
            "0".into()
        };
    }
    // All digits, exactly. LLVM first cuts an estimated number of them off, then rounds what is still too long.
    let text = format!("{:.1100e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut exponent: i32 = exponent.parse().unwrap_or(0);
    let all: String = mantissa.chars().filter(|c| *c != '.').collect();
    let all = all.trim_end_matches('0');
    let length = (all.len() as i32).max(exponent + 1);
    let bits = value.abs().log2() + f64::from(length - 1 - exponent) * std::f64::consts::LOG2_10;
    let wanted_bits = (precision as i32 * 196 + 58) / 59;
    let cut = ((bits.floor() as i32 + 1 - wanted_bits).max(0) * 59 / 196).max(0);
    let mut digits: Vec<u8> = all
        .bytes()
        .take((length - cut).max(1) as usize)
        .map(|b| b - b'0')
        .collect();
    if digits.len() > precision {
        let up = digits[precision] >= 5;
        digits.truncate(precision);
        if up {
            match digits.iter().rposition(|&d| d != 9) {
                Some(i) => {
                    digits[i] += 1;
                    digits.truncate(i + 1);
                }
                None => {
                    digits = vec![1];
                    exponent += 1;
                }
            }
        }
    }
    let digits: String = digits.iter().map(|&d| (b'0' + d) as char).collect();
    let digits = digits.trim_end_matches('0');
    let n = digits.len() as i32;
    let sign = if value < 0.0 { "-" } else { "" };
    let least = exponent - n + 1;
    let scientific = if least >= 0 {
        least > 3 && n + least > precision as i32
    } else {
        exponent < -3
    };
    if scientific {
        let tail = if n == 1 { "0" } else { &digits[1..] };
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}.{tail}E{mark}{}", &digits[..1], exponent.abs());
    }
    if least >= 0 {
        format!("{sign}{digits}{}", "0".repeat(least as usize))
    } else if exponent >= 0 {
        let point = exponent as usize + 1;
        format!("{sign}{}.{}", &digits[..point], &digits[point..])
    } else {
        format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_llvm_prints_them() {
        assert_eq!(float_text(f64::from(1e-5f32), 9), "9.99999974E-6");
        assert_eq!(float_text(1.0, 9), "1");
        assert_eq!(float_text(-1.5, 9), "-1.5");
        assert_eq!(float_text(f64::from(0.1f32), 9), "0.100000001");
        assert_eq!(float_text(10000.0, 9), "10000");
    }

    #[test]
    fn base64_pads() {
        let mut out = String::new();
        base64(&[1, 0, 0, 0], &mut out);
        assert_eq!(out, "AQAAAA==");
    }
}
