//! Function constants: their values, and which of them a kernel needs.
//!
//! A constant without a value reads as zero, so that a source can be checked before any pipeline is made of it. What the kernel reads
//! that way in code that stays is kept in [`Unset`]; making a pipeline fails for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anymetal_ir::Scalar;

use super::context::*;
use super::types::*;
use super::value::*;
use crate::ast::{self, Attr, ExprKind};
use crate::diagnostics::Diagnostic;
use crate::source::Span;

/// Values bound to function constants, by index or by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FunctionConstantValues {
    /// By `[[function_constant(n)]]`.
    pub by_index: BTreeMap<u32, ConstantValue>,
    /// By name.
    pub by_name: BTreeMap<String, ConstantValue>,
}

/// The value of a function constant; converted to the constant's type.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstantValue {
    /// `bool`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A vector.
    Vector(Vec<ConstantValue>),
}

impl FunctionConstantValues {
    fn get(&self, index: u32, name: &str) -> Option<&ConstantValue> {
        self.by_index.get(&index).or_else(|| self.by_name.get(name))
    }
}

/// Function constants without a value, by their position in [`Sema::function_constants`].
#[derive(Debug, Default)]
pub struct Unset {
    /// Those that were read in code that is not thrown away, and where.
    pub reads: Vec<(usize, Span)>,
    /// Those that `is_function_constant_defined` asks for.
    pub asked: Vec<usize>,
}

impl Sema<'_> {
    /// A program-scope function constant.
    pub fn function_constant(&mut self, v: &Arc<ast::VarDecl>, attr: &Attr) -> Res<Entity> {
        let Some(arg) = attr.args.first() else {
            return self.err("E0760", "'function_constant' needs an index", attr.span);
        };
        let index = match self.constant_expr(arg)?.as_int() {
            Some(n) if (0..=65535).contains(&n) => n as u32,
            _ => {
                return self.err(
                    "E0760",
                    "the index of a function constant is a number from 0 to 65535",
                    arg.span,
                );
            }
        };
        let name = v.name.as_ref().map_or_else(String::new, |n| n.name.to_string());
        let mut ty = self.resolve_type(&v.ty)?;
        if ty.ty.lanes().is_none() {
            return self.err(
                "E0761",
                format!("a function constant cannot be a '{}'", self.qual_name(&ty)),
                v.span,
            );
        }
        ty.is_const = true;
        let value = match self.constants.get(index, &name).cloned() {
            Some(value) => Some(self.constant_leaves(&ty.ty, &value, &name, v.span)?),
            None => None,
        };
        let at = match self.function_constants.iter().position(|c| c.name == name) {
            Some(at) => at,
            None => {
                self.function_constants.push(FunctionConstant {
                    name,
                    index,
                    ty: ty.ty.clone(),
                    span: v.span,
                });
                self.function_constants.len() - 1
            }
        };
        if !self.touched.contains(&at) {
            self.touched.push(at);
        }
        let value = match value {
            Some(value) => value,
            None => {
                self.unset.reads.push((at, v.span));
                self.zero(&ty.ty)?
            }
        };
        let place = self.fixed_variable(&ty.ty, value);
        Ok(Entity::Variable(place.into(), ty))
    }

    fn constant_leaves(&mut self, ty: &Type, value: &ConstantValue, name: &str, span: Span) -> Res<Value> {
        let scalar = ty.component().unwrap_or(Scalar::I32);
        let one = |value: &ConstantValue| -> Option<Leaf> {
            Some(match value {
                ConstantValue::Bool(b) if scalar.is_float() => Self::float_leaf(scalar, f64::from(*b)),
                ConstantValue::Bool(b) => Self::int_leaf(scalar, i128::from(*b)),
                ConstantValue::Int(n) if scalar == Scalar::Bool => Self::int_leaf(scalar, i128::from(*n != 0)),
                ConstantValue::Int(n) if scalar.is_float() => Self::float_leaf(scalar, *n as f64),
                ConstantValue::Int(n) => Self::int_leaf(scalar, i128::from(*n)),
                ConstantValue::Float(x) if scalar.is_float() => Self::float_leaf(scalar, *x),
                ConstantValue::Float(x) => Self::int_leaf(scalar, *x as i128),
                ConstantValue::Vector(_) => return None,
            })
        };
        let leaves: Option<Vec<Leaf>> = match value {
            ConstantValue::Vector(items) => items.iter().map(one).collect(),
            value => one(value).map(|leaf| vec![leaf]),
        };
        match leaves {
            Some(leaves) if Some(leaves.len() as u8) == ty.lanes() => Ok(Value { ty: ty.clone(), leaves }),
            _ => self.err(
                "E0762",
                format!(
                    "the value given for the function constant '{name}' does not fit '{}'",
                    self.type_name(ty)
                ),
                span,
            ),
        }
    }

    /// `is_function_constant_defined(name)`
    pub fn is_constant_defined(&mut self, args: &[ast::Expr], span: Span) -> Res<Operand> {
        let name = match args {
            [
                ast::Expr {
                    kind: ExprKind::Path(path),
                    ..
                },
            ] => {
                // Asking is no reading.
                self.thrown_away += 1;
                let found = self.resolve_path(path);
                self.thrown_away -= 1;
                found?;
                path.last().ident.name.to_string()
            }
            _ => {
                return self.err(
                    "E0763",
                    "'is_function_constant_defined' takes the name of a function constant",
                    span,
                );
            }
        };
        let Some(at) = self.function_constants.iter().position(|c| c.name == name) else {
            return self.err("E0763", format!("'{name}' is not a function constant"), span);
        };
        if !self.unset.asked.contains(&at) {
            self.unset.asked.push(at);
        }
        let defined = self.constants.get(self.function_constants[at].index, &name).is_some();
        Ok(self.bool_value(defined).into())
    }

    /// A declaration is used: what its value depends on is read, unless the use is thrown away.
    pub(super) fn reads_unset(&mut self, at: u32, span: Span) {
        if self.thrown_away > 0 {
            return;
        }
        let d = &self.deferred[at as usize];
        let itself = matches!(&d.decl, DeferredDecl::Var(v) if v.attrs.iter().any(|a| a.name == "function_constant"));
        for &(constant, within) in &d.unset {
            if self.unset.reads.iter().all(|(seen, _)| *seen != constant) {
                self.unset.reads.push((constant, if itself { span } else { within }));
            }
        }
    }

    /// What keeps the lowered kernel from being a pipeline: function constants that it reads and that have no value. One that the
    /// source asks for with `is_function_constant_defined` is optional.
    pub(super) fn unset_constants(&self) -> Vec<Diagnostic> {
        let missing = self.unset.reads.iter().filter(|(at, _)| !self.unset.asked.contains(at));
        missing
            .map(|&(at, span)| {
                let c = &self.function_constants[at];
                let (name, index, ty) = (&c.name, c.index, self.type_name(&c.ty));
                let message = format!("the function constant '{name}' (index {index}, '{ty}') has no value");
                let mut d = Diagnostic::error("E0775", message, span).label("the kernel reads it here");
                if span != c.span {
                    d = d.secondary(c.span, "declared here");
                }
                d.help(format!(
                    "give constant {index} a value when the pipeline is made (on the command line: --constant \"{index}={ty} VALUE\"), or make \
                     it optional: read it only where 'is_function_constant_defined({name})' is true"
                ))
            })
            .collect()
    }
}
