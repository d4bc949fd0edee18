//! Kernels: arguments and built-in attributes.

use std::sync::Arc;

use anymetal_ir::{Access, Argument, ArgumentKind, Builtin, Op, Scalar, TensorSpec, Type as IrType};

use super::context::*;
use super::library;
use super::types::*;
use super::value::*;
use crate::ast::{self, Attr};
use crate::source::Span;

/// Attributes that a kernel parameter may have and that this compiler does not support.
const REFUSED: &[(&str, &str)] = &[
    ("texture", "textures are not supported"),
    ("sampler", "samplers are not supported"),
    ("stage_in", "'stage_in' is not supported in compute kernels here"),
    ("imageblock_data", "imageblocks are not supported"),
    ("payload", "ray tracing and object stages are not supported"),
];

impl Sema<'_> {
    /// Lowers a kernel into the builder.
    pub fn lower_kernel(&mut self, f: &FunctionRef, template_args: &[TemplateArg]) -> Res<()> {
        let span = f.decl.span;
        let mut env = f.env.clone();
        if let Some(header) = &f.decl.template {
            env = self.template_env(&env, header, template_args);
        }
        let env = Env::names(&env);
        let ast::Body::Block(body) = &f.decl.body else {
            return self.err(
                "E0488",
                format!("'{}' is declared but not defined", f.decl.name.name),
                span,
            );
        };
        self.visited.insert(Arc::as_ptr(&f.decl) as usize);
        if !template_args.is_empty() {
            let what = format!("{}{}", f.decl.name.name, self.args_name(template_args));
            self.frames.push(Frame {
                what,
                span: self.span,
                decl: None,
                record: None,
                inlined_at: None,
            });
        }
        self.current_uses = self.uses_of(body);
        self.within(env.clone(), |s| {
            let ret = s.resolve_type(&f.decl.ret)?;
            if ret.ty != Type::Void {
                return s.err("E0764", "a kernel returns 'void'", f.decl.ret.span);
            }
            s.kernel_attributes(&f.decl.attrs)?;
            let used = s.used_indices(&f.decl.params)?;
            let mut next = (0u32, 0u32);
            let mut failed = None;
            for param in &f.decl.params {
                s.at(param.span);
                if let Err(fail) = s.kernel_param(param, &env, &used, &mut next) {
                    s.report_fail(fail);
                    if let Some(name) = &param.name {
                        env.bind(name.name.clone(), Entity::Poison);
                    }
                    failed = Some(());
                }
            }
            s.at(body.span);
            s.control.push(Control::Function(ReturnTarget {
                ty: Some(Type::Void.into()),
                is_kernel: true,
                ..ReturnTarget::default()
            }));
            let ast::StmtKind::Compound(list) = &body.kind else {
                return Err(Fail::Reported);
            };
            s.statements(list)?;
            s.control.clear();
            match failed {
                Some(()) => Err(Fail::Reported),
                None => Ok(()),
            }
        })
    }

    fn kernel_attributes(&mut self, attrs: &[Attr]) -> Res<()> {
        for attr in attrs {
            if attr.name == "max_total_threads_per_threadgroup"
                && let Some(arg) = attr.args.first()
            {
                match self.constant_expr(arg)?.as_int() {
                    Some(n) if (1..=1024).contains(&n) => {
                        self.builder.kernel_mut().max_threads = Some(n as u32);
                    }
                    _ => {
                        return self.err(
                            "E0765",
                            "'max_total_threads_per_threadgroup' is a number from 1 to 1024",
                            arg.span,
                        );
                    }
                }
            }
        }
        Ok(())
    }

    /// Indices that the source gives: (buffer or not, index).
    fn used_indices(&mut self, params: &[ast::Param]) -> Res<Vec<(bool, u32)>> {
        let mut used = Vec::new();
        for param in params {
            for attr in &param.attrs {
                if attr.name == "buffer" || attr.name == "threadgroup" {
                    let index = self.attr_index(attr)?;
                    let key = (attr.name == "buffer", index);
                    let optional = param.attrs.iter().any(|a| a.name == "function_constant");
                    if used.contains(&key) && !optional {
                        return self.err("E0766", format!("'{}({index})' is used twice", attr.name), attr.span);
                    }
                    used.push(key);
                }
            }
        }
        Ok(used)
    }

    fn attr_index(&mut self, attr: &Attr) -> Res<u32> {
        let limit = 31;
        match attr.args.first() {
            Some(arg) => match self.constant_expr(arg)?.as_int() {
                Some(n) if (0..limit).contains(&n) => Ok(n as u32),
                _ => self.err(
                    "E0767",
                    format!("the index of '{}' is a number from 0 to 30", attr.name),
                    arg.span,
                ),
            },
            None => self.err("E0767", format!("'{}' needs an index", attr.name), attr.span),
        }
    }

    fn kernel_param(
        &mut self,
        param: &ast::Param,
        env: &std::rc::Rc<Env>,
        used: &[(bool, u32)],
        next: &mut (u32, u32),
    ) -> Res<()> {
        let name = param.name.as_ref().map_or_else(String::new, |n| n.name.to_string());
        for attr in &param.attrs {
            if let Some((_, why)) = REFUSED.iter().find(|(n, _)| attr.name == **n) {
                return self.err("E0768", *why, attr.span);
            }
        }
        let mut ty = self.param_type(&param.ty)?;
        let builtin = param.attrs.iter().find(|a| builtin_named(&a.name).is_some());
        if let Some(attr) = builtin {
            let value = self.builtin_value(attr, &ty, param.span)?;
            let uses = self.current_uses.clone();
            let key = ast::Name::from(name.as_str());
            let fixed = !uses.changes(&key);
            let mut place = if fixed {
                self.fixed_variable(&ty.ty, value)
            } else {
                let taken = uses.address_taken.contains(&key);
                self.new_variable(&name, &ty.ty, value, taken)?
            };
            place.is_const = ty.is_const;
            return self.bind_argument(param, env, place, ty);
        }
        let mut bound = true;
        if let Some(attr) = param.attrs.iter().find(|a| a.name == "function_constant")
            && let Some(arg) = attr.args.first()
        {
            let leaf = self.in_const_mode(|s| {
                let operand = s.expr(arg)?;
                s.to_bool(operand, arg.span)
            })?;
            bound = self.const_of(&leaf).is_some_and(|c| c.bits != 0);
        }
        let given = param
            .attrs
            .iter()
            .find(|a| a.name == "buffer" || a.name == "threadgroup");
        let is_threadgroup = match (&ty.ty, ty.reference) {
            (_, Reference::Lvalue) => ty.space == Some(Space::Threadgroup),
            (Type::Pointer(p), _) => p.space == Some(Space::Threadgroup),
            _ => false,
        };
        let index = match given {
            Some(attr) => {
                if (attr.name == "threadgroup") != is_threadgroup {
                    return self.err(
                        "E0769",
                        format!("'{}' does not fit a '{}'", attr.name, self.qual_name(&ty)),
                        attr.span,
                    );
                }
                self.attr_index(attr)?
            }
            None => {
                let counter = if is_threadgroup { &mut next.1 } else { &mut next.0 };
                while used.contains(&(!is_threadgroup, *counter)) {
                    *counter += 1;
                }
                *counter += 1;
                *counter - 1
            }
        };
        if ty.is_reference() && ty.space.is_none() {
            return self.err_help(
                "E0770",
                format!("the argument '{name}' needs an address space"),
                param.span,
                "write 'device' or 'constant' before its type",
            );
        }
        match ty.ty.clone() {
            Type::Pointer(pointee) if !ty.is_reference() => {
                let place = self.pointer_argument(&name, index, &ty, &pointee, bound, param.span)?;
                self.bind_argument(param, env, place, ty)
            }
            Type::Object(object) if !ty.is_reference() && matches!(&*object, Object::Tensor(_)) => {
                let Object::Tensor(tensor) = &*object else {
                    return Err(Fail::Reported);
                };
                if tensor.storage != TensorStorage::Handle {
                    return self.err(
                        "E0771",
                        format!(
                            "'{}' cannot be a kernel argument: only 'tensor_handle' tensors are bound by the host",
                            self.type_name(&ty.ty)
                        ),
                        param.span,
                    );
                }
                let leaf = if bound {
                    let spec: TensorSpec = library::tensor_spec(tensor);
                    let id = self.builder.argument(Argument {
                        name,
                        index,
                        kind: ArgumentKind::Tensor(spec),
                        access: access(tensor.is_const || tensor.space == Space::Constant),
                    });
                    self.emit1(Op::ArgumentTensor(id), Scalar::U64)?
                } else {
                    Self::int_leaf(Scalar::U64, 0)
                };
                let value = Value::one(ty.ty.clone(), leaf);
                let mut place = self.fixed_variable(&ty.ty, value);
                place.is_const = ty.is_const;
                self.bind_argument(param, env, place, ty)
            }
            _ if ty.is_reference() => {
                let space = ty.space_or_thread();
                if space == Space::Thread {
                    return self.err(
                        "E0770",
                        format!("the argument '{name}' cannot be in 'thread' memory"),
                        param.span,
                    );
                }
                let mut pointee = ty.without_reference();
                pointee.space = Some(space);
                let pointer = self.argument_pointer(&name, index, &pointee, true, bound, param.span)?;
                let mut place = self.deref(pointer, &pointee)?;
                place.is_const = ty.is_const || space == Space::Constant;
                ty.space = Some(space);
                self.bind_argument(param, env, place, ty)
            }
            _ => self.err_help(
                "E0772",
                format!("a '{}' cannot be passed to a kernel by value", self.qual_name(&ty)),
                param.span,
                "pass it as 'constant T &', or give the parameter a built-in attribute",
            ),
        }
    }

    fn bind_argument(&mut self, param: &ast::Param, env: &std::rc::Rc<Env>, place: LValue, ty: QualType) -> Res<()> {
        if let Some(name) = &param.name {
            env.bind(name.name.clone(), Entity::Variable(Operand::Place(place), ty));
        }
        Ok(())
    }

    fn pointer_argument(
        &mut self,
        name: &str,
        index: u32,
        ty: &QualType,
        pointee: &QualType,
        bound: bool,
        span: Span,
    ) -> Res<LValue> {
        if pointee.space_or_thread() == Space::Thread {
            return self.err_help(
                "E0770",
                format!("the pointer argument '{name}' needs an address space"),
                span,
                "write 'device', 'constant' or 'threadgroup' before its type",
            );
        }
        let pointer = self.argument_pointer(name, index, pointee, false, bound, span)?;
        let value = Value::one(ty.ty.clone(), Leaf::Value(pointer));
        let uses = self.current_uses.clone();
        let key = ast::Name::from(name);
        let taken = uses.address_taken.contains(&key);
        let mut place = if !uses.changes(&key) {
            self.fixed_variable(&ty.ty, value)
        } else {
            self.new_variable(name, &ty.ty, value, taken)?
        };
        place.is_const = ty.is_const;
        Ok(place)
    }

    fn argument_pointer(
        &mut self,
        name: &str,
        index: u32,
        pointee: &QualType,
        reference: bool,
        bound: bool,
        span: Span,
    ) -> Res<anymetal_ir::ValueId> {
        let space = pointee.space_or_thread();
        if !bound {
            let leaf = self.null_leaf(space)?;
            return self.materialize(&leaf);
        }
        let (size, align) = match pointee.ty {
            Type::Void => (1, 1),
            _ => self.size_align(&pointee.ty)?,
        };
        if size > u64::from(u32::MAX) {
            return self.err("E0773", "this argument's type is too large", span);
        }
        let kind = if space == Space::Threadgroup {
            ArgumentKind::Threadgroup {
                size: size as u32,
                align,
            }
        } else {
            ArgumentKind::Buffer {
                space,
                type_name: self.type_name(&pointee.ty),
                size: size as u32,
                align,
                element_size: self.innermost_size(&pointee.ty),
                reference,
            }
        };
        let read_only = pointee.is_const || space == Space::Constant;
        let id = self.builder.argument(Argument {
            name: name.to_string(),
            index,
            kind,
            access: access(read_only),
        });
        Ok(self.builder.emit(Op::ArgumentPointer(id), &[IrType::Pointer(space)]))
    }

    fn builtin_value(&mut self, attr: &Attr, ty: &QualType, span: Span) -> Res<Value> {
        let (Some(scalar), Some(lanes)) = (ty.ty.component(), ty.ty.lanes()) else {
            return self.err(
                "E0774",
                format!("'{}' cannot be a '{}'", attr.name, self.qual_name(ty)),
                span,
            );
        };
        let vector = builtin_is_vector(&attr.name);
        if !scalar.is_integer() || lanes > 3 || (!vector && lanes > 1) {
            return self.err_help(
                "E0774",
                format!("'{}' cannot be a '{}'", attr.name, self.qual_name(ty)),
                span,
                if vector {
                    "use 'uint', 'uint2', 'uint3' or their 'ushort' forms"
                } else {
                    "use 'uint' or 'ushort'"
                },
            );
        }
        let mut leaves = Vec::new();
        for lane in 0..lanes {
            let Some(builtin) = builtin_named(&attr.name).map(|f| f(lane)) else {
                return Err(Fail::Reported);
            };
            let leaf = self.emit1(Op::Builtin(builtin), Scalar::U32)?;
            leaves.push(self.convert_leaf(&leaf, scalar)?);
        }
        Ok(Value {
            ty: ty.ty.clone(),
            leaves,
        })
    }
}

fn access(read_only: bool) -> Access {
    if read_only { Access::ReadOnly } else { Access::ReadWrite }
}

fn builtin_is_vector(name: &str) -> bool {
    matches!(
        name,
        "thread_position_in_grid"
            | "thread_position_in_threadgroup"
            | "threadgroup_position_in_grid"
            | "threads_per_threadgroup"
            | "dispatch_threads_per_threadgroup"
            | "threads_per_grid"
            | "threadgroups_per_grid"
    )
}

/// The built-in behind an attribute, by dimension.
fn builtin_named(name: &str) -> Option<fn(u8) -> Builtin> {
    Some(match name {
        "thread_position_in_grid" => Builtin::ThreadPositionInGrid,
        "thread_position_in_threadgroup" => Builtin::ThreadPositionInThreadgroup,
        "threadgroup_position_in_grid" => Builtin::ThreadgroupPositionInGrid,
        "threads_per_threadgroup" => Builtin::ThreadsPerThreadgroup,
        "dispatch_threads_per_threadgroup" => Builtin::DispatchThreadsPerThreadgroup,
        "threads_per_grid" => Builtin::ThreadsPerGrid,
        "threadgroups_per_grid" => Builtin::ThreadgroupsPerGrid,
        "thread_index_in_threadgroup" => |_| Builtin::ThreadIndexInThreadgroup,
        "thread_index_in_simdgroup" => |_| Builtin::ThreadIndexInSimdgroup,
        "simdgroup_index_in_threadgroup" => |_| Builtin::SimdgroupIndexInThreadgroup,
        "simdgroups_per_threadgroup" => |_| Builtin::SimdgroupsPerThreadgroup,
        "dispatch_simdgroups_per_threadgroup" => |_| Builtin::DispatchSimdgroupsPerThreadgroup,
        "threads_per_simdgroup" | "thread_execution_width" => |_| Builtin::ThreadsPerSimdgroup,
        "thread_index_in_quadgroup" => |_| Builtin::ThreadIndexInQuadgroup,
        "quadgroup_index_in_threadgroup" => |_| Builtin::QuadgroupIndexInThreadgroup,
        "quadgroups_per_threadgroup" => |_| Builtin::QuadgroupsPerThreadgroup,
        _ => return None,
    })
}
