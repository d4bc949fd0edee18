//! The text form of a kernel. [`mod@crate::parse`] reads it back to the same kernel.

use std::fmt::{self, Write};

use crate::builder::fold;
use crate::kernel::{Argument, ArgumentKind, Block, Inst, Kernel, MemoryObject};
use crate::location::{LocationId, Locations};
use crate::op::{Const, MathMode, MemFlags, Op, Unroll};
use crate::tensor::{
    ConvolutionDescriptor, Cooperative, Extent, MatmulDescriptor, Operand, TensorField, TensorRef, TensorSpec,
};
use crate::types::{Scalar, ValueId};

/// The text form of a kernel.
pub fn print(kernel: &Kernel) -> String {
    kernel.to_string()
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer {
            kernel: self,
            out: String::new(),
            indent: 1,
        };
        printer.kernel()?;
        f.write_str(&printer.out)
    }
}

/// The text form of one instruction (with its nested blocks), for messages.
pub fn print_inst(kernel: &Kernel, inst: &Inst) -> String {
    let mut printer = Printer {
        kernel,
        out: String::new(),
        indent: 0,
    };
    match printer.inst(inst) {
        Ok(()) => printer.out.trim_end().to_string(),
        Err(fmt::Error) => String::new(),
    }
}

struct Printer<'a> {
    kernel: &'a Kernel,
    out: String,
    indent: usize,
}

fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                out.push_str(&format!("\\u{{{:x}}}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A constant as the text form writes it: floats in decimal where that is exact, in bits otherwise.
fn constant(value: Const) -> String {
    if value.ty == Scalar::Bool && value.bits <= 1 {
        return if value.bits == 1 { "true" } else { "false" }.to_string();
    }
    if value.ty.is_float() {
        let number = fold::to_float(value) as f32;
        if number.is_finite() {
            return format!("{number:?}");
        }
        return format!("0x{:x}", value.bits);
    }
    if value.ty == Scalar::Bool || (value.ty.bits() < 64 && value.bits >> value.ty.bits() != 0) {
        return format!("0x{:x}", value.bits);
    }
    fold::to_int(value).to_string()
}

fn values(list: &[ValueId]) -> String {
    let list: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("[{}]", list.join(", "))
}

fn numbers(list: &[u32]) -> String {
    let list: Vec<String> = list.iter().map(ToString::to_string).collect();
    format!("[{}]", list.join(", "))
}

fn mode(mode: MathMode) -> &'static str {
    match mode {
        MathMode::Fast => " fast",
        MathMode::Precise => "",
    }
}

fn flags(flags: MemFlags) -> String {
    let mut out = String::new();
    for (set, name) in [
        (flags.device, " device"),
        (flags.threadgroup, " threadgroup"),
        (flags.texture, " texture"),
    ] {
        if set {
            out.push_str(name);
        }
    }
    out
}

fn tensor(tensor: &TensorRef) -> String {
    let extents: Vec<String> = tensor
        .extents
        .iter()
        .map(|extent| match extent {
            Extent::Rest => "rest".to_string(),
            Extent::Dynamic(value) => value.to_string(),
            Extent::Static(n) => n.to_string(),
        })
        .collect();
    let mut out = format!(
        "{{{} {} {} base {} strides {} origin {} extents [{}]",
        tensor.pointer,
        tensor.space,
        tensor.format.short_name(),
        values(&tensor.base_extents),
        values(&tensor.strides),
        values(&tensor.origin),
        extents.join(", ")
    );
    if let Some(plane) = &tensor.scales {
        out.push_str(&format!(
            " scales {{{} {} {} block {} strides {}}}",
            plane.pointer,
            plane.space,
            plane.format.short_name(),
            numbers(&plane.block),
            values(&plane.strides)
        ));
    }
    if let Some(root) = tensor.root {
        out.push_str(&format!(" root {root}"));
    }
    out.push('}');
    out
}

fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Tensor(view) => tensor(view),
        Operand::Coop(coop) => coop.to_string(),
    }
}

fn spec(spec: &TensorSpec) -> String {
    let extents: Vec<String> = spec
        .extents
        .iter()
        .map(|extent| extent.map_or("?".to_string(), |n| n.to_string()))
        .collect();
    let scale = spec
        .scale_block
        .as_ref()
        .map_or(String::new(), |block| format!(" scale {}", numbers(block)));
    format!(
        "{{{} {} {} [{}]{scale}}}",
        spec.format.short_name(),
        spec.space,
        spec.index,
        extents.join(", ")
    )
}

fn descriptor(d: &MatmulDescriptor) -> String {
    let k = d.k.map_or("?".to_string(), |k| k.to_string());
    let mut out = format!("{{{} {} {k}", d.m, d.n);
    for (set, name) in [
        (d.transpose_left, " transpose_left"),
        (d.transpose_right, " transpose_right"),
        (d.relaxed_precision, " relaxed_precision"),
        (d.accumulate, " accumulate"),
    ] {
        if set {
            out.push_str(name);
        }
    }
    out.push('}');
    out
}

fn convolution(d: &ConvolutionDescriptor) -> String {
    let mut out = format!(
        "{{destination {} source {} kernel {} strides {} dilations {}",
        numbers(&d.destination),
        numbers(&d.source),
        numbers(&d.kernel),
        numbers(&d.strides),
        numbers(&d.dilations)
    );
    for (set, name) in [
        (d.relaxed_precision, " relaxed_precision"),
        (d.accumulate, " accumulate"),
    ] {
        if set {
            out.push_str(name);
        }
    }
    out.push('}');
    out
}

fn location(id: LocationId) -> String {
    if id.0 == 0 {
        String::new()
    } else {
        format!(" !{}", id.0)
    }
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn kernel(&mut self) -> fmt::Result {
        let kernel = self.kernel;
        self.out = format!("kernel {} {{\n", quote(&kernel.name));
        if let Some(n) = kernel.max_threads {
            self.line(&format!("max_threads {n}"));
        }
        for (n, at) in &kernel.required_simdgroups {
            self.line(&format!("required_simdgroups {n}{}", location(*at)));
        }
        for (i, argument) in kernel.arguments.iter().enumerate() {
            self.argument(i, argument);
        }
        for (i, object) in kernel.memory.iter().enumerate() {
            self.memory(i, object);
        }
        for (i, local) in kernel.locals.iter().enumerate() {
            self.line(&format!("local ${i} {} {}", quote(&local.name), local.ty));
        }
        for (i, coop) in kernel.cooperatives.iter().enumerate() {
            self.coop(i, coop);
        }
        self.undefined();
        let standard = Locations::default();
        for (i, file) in kernel.locations.files.iter().enumerate() {
            if standard.files.get(i) != Some(file) {
                self.line(&format!("file {i} {}", quote(file)));
            }
        }
        for (i, entry) in kernel.locations.entries.iter().enumerate() {
            if standard.entries.get(i) == Some(entry) {
                continue;
            }
            let inlined = entry.inlined_at.map_or(String::new(), |at| format!(" in !{}", at.0));
            self.line(&format!(
                "loc !{i} {} {} {}{inlined}",
                entry.file, entry.line, entry.column
            ));
        }
        self.line("body {");
        self.block(&kernel.body)?;
        self.line("}");
        self.out.push_str("}\n");
        Ok(())
    }

    /// Values that no instruction defines any more keep their types in a list; `bool` goes without saying, except for the
    /// last value, so that the table keeps its length.
    fn undefined(&mut self) {
        let kernel = self.kernel;
        let mut defined = vec![false; kernel.values.len()];
        kernel.body.for_each_inst(&mut |inst| {
            for value in inst.results() {
                if let Some(slot) = defined.get_mut(value.index()) {
                    *slot = true;
                }
            }
        });
        let missing: Vec<String> = defined
            .iter()
            .enumerate()
            .filter(|&(i, defined)| {
                !defined && (i + 1 == kernel.values.len() || kernel.values[i].ty != Scalar::Bool.into())
            })
            .map(|(i, _)| format!("%{i}: {}", kernel.values[i].ty))
            .collect();
        if !missing.is_empty() {
            self.line(&format!("undefined [{}]", missing.join(", ")));
        }
    }

    fn argument(&mut self, i: usize, argument: &Argument) {
        let kind = match &argument.kind {
            ArgumentKind::Buffer {
                space,
                type_name,
                size,
                align,
                element_size,
                reference,
            } => format!(
                "buffer {} {space} {} size {size} align {align} element {element_size}{}",
                argument.index,
                quote(type_name),
                if *reference { " reference" } else { "" }
            ),
            ArgumentKind::Tensor(tensor) => format!("tensor {} {}", argument.index, spec(tensor)),
            ArgumentKind::Threadgroup { size, align } => {
                format!("threadgroup {} size {size} align {align}", argument.index)
            }
        };
        self.line(&format!(
            "argument arg{i} {} {kind} access {}",
            quote(&argument.name),
            argument.access.text()
        ));
    }

    fn memory(&mut self, i: usize, object: &MemoryObject) {
        let mut text = format!(
            "memory @{i} {} {} size {} align {} element {}",
            quote(&object.name),
            object.space,
            object.size,
            object.align,
            object.element_size
        );
        if !object.data.is_empty() {
            text.push_str(" data \"");
            for byte in &object.data {
                text.push_str(&format!("{byte:02x}"));
            }
            text.push('"');
        }
        self.line(&text);
    }

    fn coop(&mut self, i: usize, coop: &Cooperative) {
        let spatial = coop
            .spatial
            .map_or(String::new(), |sizes| format!(" spatial {}", numbers(&sizes)));
        self.line(&format!(
            "cooperative coop{i} {} {} {} rows {} columns {} simdgroups {} layout {} matmul {}{spatial}",
            quote(&coop.name),
            coop.role.text(),
            coop.element,
            coop.rows,
            coop.columns,
            coop.simdgroups,
            coop.layout.text(),
            descriptor(&coop.descriptor)
        ));
    }

    fn block(&mut self, block: &Block) -> fmt::Result {
        self.indent += 1;
        for inst in &block.insts {
            self.inst(inst)?;
        }
        self.indent -= 1;
        Ok(())
    }

    fn ty(&self, value: ValueId) -> String {
        self.kernel
            .values
            .get(value.index())
            .map_or("?".to_string(), |info| info.ty.to_string())
    }

    fn results(&self, inst: &Inst) -> String {
        let types: Vec<String> = inst.results().map(|value| self.ty(value)).collect();
        match types.as_slice() {
            [] => String::new(),
            [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|ty| ty == first) => {
                let last = ValueId(inst.first.0 + inst.count - 1);
                format!("{}..{last}: {first} = ", inst.first)
            }
            _ => {
                let list: Vec<String> = inst
                    .results()
                    .zip(&types)
                    .map(|(value, ty)| format!("{value}: {ty}"))
                    .collect();
                format!("{} = ", list.join(", "))
            }
        }
    }

    fn inst(&mut self, inst: &Inst) -> fmt::Result {
        let head = self.results(inst);
        let tail = location(inst.location);
        match &inst.op {
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                self.line(&format!("{head}if {condition}{tail} {{"));
                self.block(then)?;
                if !otherwise.insts.is_empty() {
                    self.line("} else {");
                    self.block(otherwise)?;
                }
                self.line("}");
            }
            Op::Loop { body, latch, unroll } => {
                let unroll = match unroll {
                    Unroll::Default => String::new(),
                    Unroll::Full => " unroll full".to_string(),
                    Unroll::Count(n) => format!(" unroll {n}"),
                    Unroll::Never => " unroll never".to_string(),
                };
                self.line(&format!("{head}loop{unroll}{tail} {{"));
                self.block(body)?;
                if !latch.insts.is_empty() {
                    self.line("} latch {");
                    self.block(latch)?;
                }
                self.line("}");
            }
            Op::Scope { body } => {
                self.line(&format!("{head}scope{tail} {{"));
                self.block(body)?;
                self.line("}");
            }
            Op::CoopMap { over, body } => {
                self.line(&format!("{head}coop.map {over}{tail} {{"));
                self.block(body)?;
                self.line("}");
            }
            op => {
                let mut text = head;
                simple(op, &mut text)?;
                text.push_str(&tail);
                self.line(&text);
            }
        }
        Ok(())
    }
}

/// An operation without nested blocks.
fn simple(op: &Op, out: &mut String) -> fmt::Result {
    match op {
        Op::Const(value) => write!(out, "const {} {}", value.ty, constant(*value)),
        Op::Builtin(builtin) => {
            let (name, dimension) = builtin.text();
            write!(out, "builtin {name}")?;
            match dimension {
                None => Ok(()),
                Some(d) => write!(out, ".{}", ["x", "y", "z"].get(d as usize).unwrap_or(&"?")),
            }
        }
        Op::Unary { op, operand, mode: m } => write!(out, "{} {operand}{}", op.text(), mode(*m)),
        Op::Binary { op, lhs, rhs, mode: m } => write!(out, "{} {lhs}, {rhs}{}", op.text(), mode(*m)),
        Op::Ternary { op, a, b, c, mode: m } => write!(out, "{} {a}, {b}, {c}{}", op.text(), mode(*m)),
        Op::Compare { op, lhs, rhs } => write!(out, "cmp.{} {lhs}, {rhs}", op.text()),
        Op::Select {
            condition,
            then,
            otherwise,
        } => write!(out, "select {condition}, {then}, {otherwise}"),
        Op::Convert { operand, to, saturate } => write!(
            out,
            "convert {operand} to {to}{}",
            if *saturate { " saturate" } else { "" }
        ),
        Op::Bitcast { operand, to } => write!(out, "bitcast {operand} to {to}"),
        Op::Decode { operand, format } => write!(out, "decode {operand} {}", format.short_name()),
        Op::Encode {
            operand,
            format,
            saturate,
        } => write!(
            out,
            "encode {operand} {}{}",
            format.short_name(),
            if *saturate { " saturate" } else { "" }
        ),
        Op::Frexp { operand } => write!(out, "frexp {operand}"),
        Op::Modf { operand } => write!(out, "modf {operand}"),
        Op::LocalGet(local) => write!(out, "get {local}"),
        Op::LocalSet { local, value } => write!(out, "set {local}, {value}"),
        Op::MemoryPointer(id) => write!(out, "memory {id}"),
        Op::ArgumentPointer(id) => write!(out, "argument {id}"),
        Op::ArgumentTensor(id) => write!(out, "handle {id}"),
        Op::TensorQuery { handle, spec: s, field } => {
            write!(out, "query {handle} {} ", spec(s))?;
            match field {
                TensorField::Pointer => write!(out, "pointer"),
                TensorField::Extent(d) => write!(out, "extent {d}"),
                TensorField::Stride(d) => write!(out, "stride {d}"),
                TensorField::ScalePointer => write!(out, "scale_pointer"),
                TensorField::ScaleStride(d) => write!(out, "scale_stride {d}"),
            }
        }
        Op::NullPointer(space) => write!(out, "null {space}"),
        Op::PointerOffset { pointer, offset } => write!(out, "offset {pointer}, {offset}"),
        Op::PointerDiff { lhs, rhs } => write!(out, "diff {lhs}, {rhs}"),
        Op::Load {
            pointer,
            ty,
            count,
            align,
        } => write!(out, "load {pointer} {ty} x{count} align {align}"),
        Op::Store {
            pointer,
            values: list,
            align,
        } => write!(out, "store {pointer}, {} align {align}", values(list)),
        Op::Atomic {
            op,
            pointer,
            values: list,
            ty,
        } => write!(out, "atomic.{} {pointer} {ty}, {}", op.text(), values(list)),
        Op::TensorLoad {
            tensor: t,
            indices,
            bounds,
        } => write!(out, "tensor.load {} {} {}", tensor(t), values(indices), bounds.text()),
        Op::TensorStore {
            tensor: t,
            indices,
            value,
            bounds,
        } => write!(
            out,
            "tensor.store {} {} {}, {value}",
            tensor(t),
            values(indices),
            bounds.text()
        ),
        Op::TensorElementPointer { tensor: t, indices } => {
            write!(out, "tensor.pointer {} {}", tensor(t), values(indices))
        }
        Op::Barrier { scope, flags: f } => write!(out, "barrier {}{}", scope.text(), flags(*f)),
        Op::Fence(f) => write!(out, "fence{}", flags(*f)),
        Op::Group { op, width, operand } => {
            write!(out, "group.{} {} {operand}", op.text(), width.text())
        }
        Op::Shuffle {
            op,
            width,
            operand,
            index,
        } => write!(out, "shuffle.{} {} {operand}, {index}", op.text(), width.text()),
        Op::Vote { op, width, operand } => {
            write!(out, "vote.{} {}", op.text(), width.text())?;
            match operand {
                Some(operand) => write!(out, " {operand}"),
                None => Ok(()),
            }
        }
        Op::SimdgroupMatrixMultiply { a, b, c, ty } => {
            write!(out, "simd_matrix.multiply {ty} {}, {}, {}, {}", a[0], a[1], b[0], b[1])?;
            match c {
                Some(c) => write!(out, ", {}, {}", c[0], c[1]),
                None => Ok(()),
            }
        }
        Op::CoopInit(coop) => write!(out, "coop.init {coop}"),
        Op::CoopCopy { to, from } => write!(out, "coop.copy {to}, {from}"),
        Op::CoopGet { coop, slot } => write!(out, "coop.get {coop} {slot}"),
        Op::CoopSet { coop, slot, value } => write!(out, "coop.set {coop} {slot}, {value}"),
        Op::CoopValid { coop, slot } => write!(out, "coop.valid {coop} {slot}"),
        Op::CoopIndex { coop, slot } => write!(out, "coop.index {coop} {slot}"),
        Op::CoopMapSlot { to, from, slot } => write!(out, "coop.map_slot {to}, {from} {slot}"),
        Op::CoopLoad { coop, tensor: t } => write!(out, "coop.load {coop} {}", tensor(t)),
        Op::CoopStore { coop, tensor: t } => write!(out, "coop.store {coop} {}", tensor(t)),
        Op::CoopConvert { to, from } => write!(out, "coop.convert {to}, {from}"),
        Op::CoopCompatible { to, from } => write!(out, "coop.compatible {to}, {from}"),
        Op::CoopIteratorCompatible { from, to } => {
            write!(out, "coop.iterator_compatible {to}, {from}")
        }
        Op::CoopReduce {
            to,
            from,
            axis,
            op,
            identity,
        } => write!(out, "coop.reduce {to}, {from} {} {} {identity}", axis.text(), op.text()),
        Op::CoopElement(coop) => write!(out, "coop.element {coop}"),
        Op::CoopElementSet { coop, value } => write!(out, "coop.element_set {coop}, {value}"),
        Op::CoopElementIndex => write!(out, "coop.element_index"),
        Op::Convolution {
            descriptor: d,
            simdgroups,
            offsets,
            activation,
            weights,
            destination,
        } => write!(
            out,
            "convolution {} simdgroups {simdgroups} offsets {}, {} activation {} weights {} destination {}",
            convolution(d),
            offsets[0],
            offsets[1],
            tensor(activation),
            tensor(weights),
            operand(destination)
        ),
        Op::Matmul {
            descriptor: d,
            simdgroups,
            left,
            right,
            destination,
        } => write!(
            out,
            "matmul {} simdgroups {simdgroups} left {} right {} destination {}",
            descriptor(d),
            operand(left),
            operand(right),
            operand(destination)
        ),
        Op::Break(depth) => write!(out, "break {depth}"),
        Op::Continue(depth) => write!(out, "continue {depth}"),
        Op::Return => write!(out, "return"),
        // Printed with their blocks by the caller.
        Op::If { .. } | Op::Loop { .. } | Op::Scope { .. } | Op::CoopMap { .. } => Ok(()),
    }
}
