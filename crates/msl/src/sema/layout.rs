//! Size, alignment and leaves of types, and their names.

use std::rc::Rc;

use anymetal_formats::ElementFormat;
use anymetal_ir::{Scalar, Type as IrType};

use super::context::{Res, Sema};
use super::emit::ir_size;
use super::library;
use super::types::*;
use super::value::LeafKind;

/// The scalar that an element of a format is in registers: itself, or `u8` for a format type's code.
pub fn format_scalar(format: ElementFormat) -> Scalar {
    match format {
        ElementFormat::Bool => Scalar::Bool,
        ElementFormat::I8 => Scalar::I8,
        ElementFormat::U8 => Scalar::U8,
        ElementFormat::I16 => Scalar::I16,
        ElementFormat::U16 => Scalar::U16,
        ElementFormat::I32 => Scalar::I32,
        ElementFormat::U32 => Scalar::U32,
        ElementFormat::I64 => Scalar::I64,
        ElementFormat::U64 => Scalar::U64,
        ElementFormat::F16 => Scalar::F16,
        ElementFormat::BF16 => Scalar::BF16,
        ElementFormat::F32 => Scalar::F32,
        _ => Scalar::U8,
    }
}

/// The element format of a scalar.
pub fn scalar_format(scalar: Scalar) -> ElementFormat {
    match scalar {
        Scalar::Bool => ElementFormat::Bool,
        Scalar::I8 => ElementFormat::I8,
        Scalar::U8 => ElementFormat::U8,
        Scalar::I16 => ElementFormat::I16,
        Scalar::U16 => ElementFormat::U16,
        Scalar::I32 => ElementFormat::I32,
        Scalar::U32 => ElementFormat::U32,
        Scalar::I64 => ElementFormat::I64,
        Scalar::U64 => ElementFormat::U64,
        Scalar::F16 => ElementFormat::F16,
        Scalar::BF16 => ElementFormat::BF16,
        Scalar::F32 => ElementFormat::F32,
    }
}

/// Metal's name of a scalar type.
pub fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::I8 => "char",
        Scalar::U8 => "uchar",
        Scalar::I16 => "short",
        Scalar::U16 => "ushort",
        Scalar::I32 => "int",
        Scalar::U32 => "uint",
        Scalar::I64 => "long",
        Scalar::U64 => "ulong",
        Scalar::F16 => "half",
        Scalar::BF16 => "bfloat",
        Scalar::F32 => "float",
    }
}

impl Sema<'_> {
    /// The leaves of a type, in order.
    pub fn leaf_kinds(&mut self, ty: &Type) -> Res<Rc<[LeafKind]>> {
        let value = |ir: IrType, n: usize| -> Rc<[LeafKind]> { vec![LeafKind::Value(ir); n].into() };
        Ok(match ty {
            Type::Void | Type::Closure(_) | Type::Overloads(_) => value(Scalar::U8.into(), 0),
            Type::Format(_) => value(Scalar::U8.into(), 1),
            Type::Scalar(scalar) => value((*scalar).into(), 1),
            Type::Vector { scalar, len, .. } => value((*scalar).into(), *len as usize),
            Type::Matrix { scalar, columns, rows } => value((*scalar).into(), *columns as usize * *rows as usize),
            Type::Pointer(pointee) => value(IrType::Pointer(pointee.space_or_thread()), 1),
            Type::Nullptr => value(Scalar::U64.into(), 0),
            Type::Enum(id) => value(self.enums[id.index()].underlying.into(), 1),
            Type::Function(_) => vec![LeafKind::Function].into(),
            Type::Array(element, n) => {
                let one = if element.is_reference() {
                    vec![LeafKind::Place].into()
                } else {
                    self.leaf_kinds(&element.ty)?
                };
                let count = self.array_leaves(one.len(), *n, self.span)?;
                let mut all = Vec::with_capacity(count as usize);
                for _ in 0..*n {
                    all.extend_from_slice(&one);
                }
                all.into()
            }
            Type::Record(id) => {
                self.complete_record(*id)?;
                self.records[id.index()].leaves.clone()
            }
            Type::Object(object) => library::object_leaves(self, object).into(),
        })
    }

    /// Byte offsets of the leaves of a type in memory.
    pub fn leaf_offsets(&mut self, ty: &Type) -> Res<Rc<[u64]>> {
        Ok(match ty {
            Type::Scalar(_) | Type::Pointer(_) | Type::Enum(_) | Type::Function(_) | Type::Format(_) => vec![0].into(),
            Type::Vector { scalar, len, .. } => {
                let size = u64::from(scalar.size());
                (0..u64::from(*len)).map(|i| i * size).collect()
            }
            Type::Matrix { scalar, columns, rows } => {
                let column = self.size_align(&Type::vector(*scalar, *rows))?.0;
                let size = u64::from(scalar.size());
                (0..u64::from(*columns))
                    .flat_map(|c| (0..u64::from(*rows)).map(move |r| c * column + r * size))
                    .collect()
            }
            Type::Array(element, n) => {
                let one = self.leaf_offsets(&element.ty)?;
                let (size, _) = self.size_align(&element.ty)?;
                (0..*n).flat_map(|i| one.iter().map(move |o| i * size + o)).collect()
            }
            Type::Record(id) => {
                self.complete_record(*id)?;
                self.records[id.index()].offsets.clone()
            }
            Type::Object(object) => {
                let kinds = library::object_leaves(self, object);
                let mut at = 0;
                let mut out = Vec::new();
                for kind in kinds {
                    out.push(at);
                    at += match kind {
                        LeafKind::Value(ir) => ir_size(ir),
                        _ => 8,
                    };
                }
                out.into()
            }
            _ => Rc::from([]),
        })
    }

    /// Size and alignment in bytes.
    pub fn size_align(&mut self, ty: &Type) -> Res<(u64, u32)> {
        Ok(match ty {
            Type::Scalar(scalar) => (scalar.size().into(), scalar.size()),
            Type::Vector {
                scalar,
                len,
                packed: true,
            } => (u64::from(scalar.size()) * u64::from(*len), scalar.size()),
            Type::Vector { scalar, len, .. } => {
                let n = if *len == 3 { 4 } else { u32::from(*len) };
                (u64::from(scalar.size() * n), scalar.size() * n)
            }
            Type::Matrix { scalar, columns, rows } => {
                let (size, align) = self.size_align(&Type::vector(*scalar, *rows))?;
                (size * u64::from(*columns), align)
            }
            Type::Pointer(_) | Type::Nullptr | Type::Function(_) => (8, 8),
            Type::Array(element, n) => {
                let (size, align) = if element.is_reference() {
                    (8, 8)
                } else {
                    self.size_align(&element.ty)?
                };
                if let Type::Format(format) = element.ty
                    && format.is_sub_byte()
                {
                    return self.err_help(
                        "E0525",
                        format!(
                            "'{}' elements are less than a byte: there is no array of them",
                            format.msl_name()
                        ),
                        self.span,
                        "declare an array of 'uchar' and a 'tensor_inline' over it",
                    );
                }
                match size.checked_mul(*n) {
                    Some(total) if total < 1 << 40 => (total, align),
                    _ => {
                        return self.err_help(
                            "E0495",
                            "this array is too large",
                            self.span,
                            "a type has less than 2⁴⁰ bytes: take a pointer or a tensor, whose extents are not part of the type",
                        );
                    }
                }
            }
            Type::Record(id) => {
                self.complete_record(*id)?;
                let record = &self.records[id.index()];
                (record.size, record.align)
            }
            Type::Enum(id) => {
                let size = self.enums[id.index()].underlying.size();
                (size.into(), size)
            }
            Type::Closure(_) | Type::Overloads(_) => (1, 1),
            Type::Format(format) => (format.bytes_for(1) as u64, 1),
            Type::Object(object) => library::object_layout(self, object).unwrap_or((1, 1)),
            Type::Void => {
                return self.err("E0494", "'void' has no size", self.span);
            }
        })
    }

    /// Size in bytes of the innermost scalar of a type, so that faults can name an index.
    pub fn innermost_size(&mut self, ty: &Type) -> u32 {
        match ty {
            Type::Array(element, _) => self.innermost_size(&element.ty.clone()),
            Type::Scalar(scalar) | Type::Vector { scalar, .. } | Type::Matrix { scalar, .. } => scalar.size(),
            Type::Pointer(_) => 8,
            Type::Object(object) => match **object {
                Object::Atomic(scalar) | Object::SimdgroupMatrix(scalar, ..) => scalar.size(),
                _ => 1,
            },
            _ => 1,
        }
    }

    /// The type's name as a user would write it.
    pub fn type_name(&self, ty: &Type) -> String {
        match ty {
            Type::Void => "void".into(),
            Type::Scalar(scalar) => scalar_name(*scalar).into(),
            Type::Format(format) => format.msl_name().to_string(),
            Type::Vector { scalar, len, packed } => {
                let name = scalar_name(*scalar);
                if *packed {
                    format!("packed_{name}{len}")
                } else if *len <= 4 {
                    format!("{name}{len}")
                } else {
                    format!("vec<{name}, {len}>")
                }
            }
            Type::Matrix { scalar, columns, rows } => format!("{}{columns}x{rows}", scalar_name(*scalar)),
            Type::Pointer(pointee) => format!("{} *", self.qual_name(pointee)),
            Type::Array(element, n) => {
                // C++ writes the outermost bound first.
                let mut bounds = format!("[{n}]");
                let mut element = element.clone();
                while let Type::Array(inner, m) = &element.ty {
                    bounds.push_str(&format!("[{m}]"));
                    element = inner.clone();
                }
                format!("{}{bounds}", self.qual_name(&element))
            }
            Type::Record(id) => self.records[id.index()].name.clone(),
            Type::Enum(id) => self.enums[id.index()].name.clone(),
            Type::Function(f) => {
                let params: Vec<String> = f.params.iter().map(|p| self.qual_name(p)).collect();
                format!("{} ({})", self.qual_name(&f.result), params.join(", "))
            }
            Type::Closure(_) => "lambda".into(),
            Type::Nullptr => "nullptr_t".into(),
            Type::Overloads(_) => "overloaded function".into(),
            Type::Object(object) => library::object_name(object),
        }
    }

    /// The name of a qualified type.
    pub fn qual_name(&self, ty: &QualType) -> String {
        let mut out = String::new();
        let mut qualifiers = String::new();
        if let Some(space) = ty.space
            && space != Space::Thread
        {
            qualifiers.push_str(space.name());
            qualifiers.push(' ');
        }
        if ty.is_const {
            qualifiers.push_str("const ");
        }
        if ty.is_volatile {
            qualifiers.push_str("volatile ");
        }
        if matches!(ty.ty, Type::Pointer(_)) {
            out.push_str(&self.type_name(&ty.ty));
            out.push_str(qualifiers.trim_end());
        } else {
            out.push_str(&qualifiers);
            out.push_str(&self.type_name(&ty.ty));
        }
        match ty.reference {
            Reference::None => {}
            Reference::Lvalue => out.push_str(" &"),
            Reference::Rvalue => out.push_str(" &&"),
        }
        out.trim_end().to_string()
    }

    /// `<float, 4>`
    pub fn args_name(&self, args: &[TemplateArg]) -> String {
        let parts: Vec<String> = args.iter().map(|arg| self.arg_name(arg)).collect();
        format!("<{}>", parts.join(", "))
    }

    /// A template argument's name.
    pub fn arg_name(&self, arg: &TemplateArg) -> String {
        match arg {
            TemplateArg::Type(ty) => self.qual_name(ty),
            TemplateArg::Value(value) => self.constant_name(value),
            TemplateArg::Template(id) => self.templates[id.index()].name.to_string(),
            TemplateArg::Pack(args) => {
                let parts: Vec<String> = args.iter().map(|arg| self.arg_name(arg)).collect();
                parts.join(", ")
            }
        }
    }

    /// A constant as a user would write it.
    pub fn constant_name(&self, value: &Constant) -> String {
        let leaf = |leaf: &ConstLeaf| match leaf {
            ConstLeaf::Number(c) if c.ty == Scalar::Bool => (c.bits != 0).to_string(),
            ConstLeaf::Number(c) if c.ty.is_float() => anymetal_ir::builder::fold::to_float(*c).to_string(),
            ConstLeaf::Number(c) => anymetal_ir::builder::fold::to_int(*c).to_string(),
            ConstLeaf::Function(f) => f.decl.name.name.to_string(),
        };
        match (&value.ty, value.leaves.as_slice()) {
            (Type::Scalar(_), [one]) => leaf(one),
            (Type::Enum(id), [ConstLeaf::Number(c)]) => {
                let e = &self.enums[id.index()];
                match e.values.iter().find(|(_, v)| v == c) {
                    Some((name, _)) => format!("{}::{name}", e.name),
                    None => format!("({}){}", e.name, c.bits),
                }
            }
            (_, [one]) => leaf(one),
            (ty, leaves) => {
                let parts: Vec<String> = leaves.iter().map(leaf).collect();
                format!("{}{{{}}}", self.type_name(ty), parts.join(", "))
            }
        }
    }
}
