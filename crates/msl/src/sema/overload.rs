//! Overload resolution: which of several functions a call means.

use super::context::*;
use super::convert::Rank;
use super::library::{self, Call, LibEntity, LibFunction};
use super::ordering::{Candidate, Fit};
use super::types::*;
use super::tyres::{has_auto, space_of};
use super::value::*;
use crate::ast;
use crate::source::Span;
use anymetal_ir::MathMode;

impl Sema<'_> {
    /// Is the function viable for the arguments? Its template arguments and how well the arguments fit.
    pub fn viable(
        &mut self,
        f: &FunctionRef,
        args: &[Arg],
        this: Option<&LValue>,
    ) -> Option<(Vec<TemplateArg>, Vec<Fit>)> {
        let given = f.args.clone();
        self.viable_with(f, &given, args, this)
    }

    pub(super) fn viable_with(
        &mut self,
        f: &FunctionRef,
        explicit: &[TemplateArg],
        args: &[Arg],
        this: Option<&LValue>,
    ) -> Option<(Vec<TemplateArg>, Vec<Fit>)> {
        let params = &f.decl.params;
        let variadic = params.last().is_some_and(|p| p.is_pack);
        let required = params.iter().filter(|p| p.default.is_none() && !p.is_pack).count();
        if args.len() < required || (args.len() > params.len() && !variadic) {
            return None;
        }
        let template_args = match &f.decl.template {
            Some(header) if !header.params.is_empty() => self.deduce_call(f, explicit, args)?,
            _ if !explicit.is_empty() => return None,
            _ => Vec::new(),
        };
        let mut fits = Vec::with_capacity(args.len() + 1);
        fits.push(Fit::object(self.rank_this(f, this)?));
        let env = match &f.decl.template {
            Some(header) => self.template_env(&f.env.clone(), header, &template_args),
            None => f.env.clone(),
        };
        let ok = self.attempt(|s| {
            s.within(env, |s| {
                for (i, arg) in args.iter().enumerate() {
                    let param = params.get(i).or(params.last());
                    let Some(param) = param else {
                        return Err(Fail::Reported);
                    };
                    fits.push(s.rank_param(param, arg, i >= params.len() - 1)?);
                }
                if let Some(header) = &f.decl.template
                    && let Some(e) = &header.requires
                    && s.constant_expr(e)?.as_int() == Some(0)
                {
                    return Err(Fail::Reported);
                }
                if f.decl.template.is_some() && depends(&f.decl.ret) {
                    s.resolve_type(&f.decl.ret)?;
                }
                Ok(())
            })
        });
        ok.map(|()| (template_args, fits))
    }

    /// How well an object fits the qualifiers of a member function; `None` if it may not be called.
    pub fn rank_this(&mut self, f: &FunctionRef, this: Option<&LValue>) -> Option<Rank> {
        let wanted = f.decl.this_quals.space.map_or(Space::Thread, |(s, _)| space_of(s));
        if matches!(f.decl.kind, ast::FunctionKind::Constructor) {
            // Objects are made in thread memory and stored from there.
            return Some(u32::from(wanted != Space::Thread));
        }
        let is_member = f.record.is_some() && !f.decl.specs.is_static;
        let (true, Some(this)) = (is_member, this) else {
            return Some(0);
        };
        if this.is_const
            && !f.decl.this_quals.is_const
            && f.decl.this_quals.space.map(|s| s.0) != Some(ast::AddressSpace::Constant)
            && this.space() != Space::Constant
        {
            return None;
        }
        // What is computed at compile time or held in registers has no place that could be the wrong one.
        if wanted != super::convert::known_space(this, wanted) {
            return None;
        }
        Some(u32::from(this.is_const != f.decl.this_quals.is_const) + 2 * u32::from(wanted != this.space()))
    }

    pub(super) fn rank_param(&mut self, param: &ast::Param, arg: &Arg, last: bool) -> Res<Fit> {
        if has_auto(&param.ty) {
            let Arg::Operand(operand, _) = arg else {
                return Err(Fail::Reported);
            };
            let t = self.deduce_auto(&param.ty, operand)?;
            let rank = self.rank(arg, &t).ok_or(Fail::Reported)?;
            return Ok(Fit::new(rank, t.is_reference()));
        }
        if param.is_pack && last {
            // The element types were deduced from the arguments themselves.
            let by_reference = matches!(param.ty.kind, ast::TyKind::LRef(_) | ast::TyKind::RRef(_));
            return Ok(Fit::new(0, by_reference));
        }
        let t = self.param_type(&param.ty)?;
        let rank = self.rank(arg, &t).ok_or(Fail::Reported)?;
        Ok(Fit::new(rank, t.is_reference()))
    }

    /// A parameter's type: arrays and functions decay.
    pub fn param_type(&mut self, ty: &ast::Ty) -> Res<QualType> {
        let t = self.resolve_type(ty)?;
        Ok(match &t.ty {
            // `metal::array` is an array type too, and is passed by value.
            Type::Array(element, _) if matches!(ty.kind, ast::TyKind::Array(..)) => {
                let mut pointee = (**element).clone();
                pointee.space = t.space.or(pointee.space);
                pointee.is_const |= t.is_const;
                super::tyres::pointer_to(pointee).into()
            }
            _ => t,
        })
    }

    /// Chooses among overloads.
    pub fn choose(
        &mut self,
        candidates: &[FunctionRef],
        args: &[Arg],
        explicit: &[TemplateArg],
        this: Option<&LValue>,
        what: &str,
        span: Span,
    ) -> Res<(FunctionRef, Vec<TemplateArg>)> {
        match self.best(candidates, args, explicit, this, what, span)? {
            Some(found) => Ok((found.function, found.template_args)),
            None => self.no_match(candidates, args, explicit, this, what, span),
        }
    }

    /// The candidate that fits best, if one takes the arguments.
    pub(super) fn best(
        &mut self,
        candidates: &[FunctionRef],
        args: &[Arg],
        explicit: &[TemplateArg],
        this: Option<&LValue>,
        what: &str,
        span: Span,
    ) -> Res<Option<Candidate>> {
        let mut viable = self.viable_among(candidates, args, explicit, this);
        if viable.is_empty() {
            return Ok(None);
        }
        let best = match self.best_of(&viable) {
            Ok(best) => best,
            Err(rivals) => {
                let rivals: Vec<&FunctionRef> = rivals.iter().map(|i| &viable[*i].function).collect();
                return self.ambiguous(&rivals, args, what, span);
            }
        };
        let mut found = viable.swap_remove(best);
        if found.function.decl.template.is_some()
            && let Some(spec) = self.specialisation(&found.function, candidates, &found.template_args, args)
        {
            found.function = spec;
            found.template_args = Vec::new();
        }
        Ok(Some(found))
    }

    /// The candidates that take the arguments.
    pub(super) fn viable_among(
        &mut self,
        candidates: &[FunctionRef],
        args: &[Arg],
        explicit: &[TemplateArg],
        this: Option<&LValue>,
    ) -> Vec<Candidate> {
        let mut viable: Vec<Candidate> = Vec::new();
        for f in candidates {
            if is_specialisation(f) {
                continue;
            }
            let given = if explicit.is_empty() {
                f.args.clone()
            } else {
                explicit.to_vec()
            };
            if let Some((template_args, fits)) = self.viable_with(f, &given, args, this) {
                viable.push(Candidate {
                    function: f.clone(),
                    template_args,
                    fits,
                    arguments: args.len(),
                });
            }
        }
        viable
    }

    /// The error of a call that several functions take equally well.
    pub(super) fn ambiguous<T>(&self, rivals: &[&FunctionRef], args: &[Arg], what: &str, span: Span) -> Res<T> {
        let types = self.args_types(args);
        let message = format!(
            "the call of '{what}' with the arguments {types} is ambiguous: {} functions take them, and none of them better than all others",
            rivals.len()
        );
        let mut d = self.diagnostic("E0493", message, span);
        for f in rivals.iter().take(4) {
            d = d.secondary(f.decl.span, "candidate");
        }
        if rivals.len() > 4 {
            d = d.note(format!("{} more candidates are not shown", rivals.len() - 4));
        }
        let d = d.help("cast an argument to the type of the parameter that is meant");
        Err(Fail::Error(Box::new(d)))
    }

    /// An explicit specialisation of a function template for these arguments.
    pub(super) fn specialisation(
        &mut self,
        f: &FunctionRef,
        candidates: &[FunctionRef],
        template_args: &[TemplateArg],
        args: &[Arg],
    ) -> Option<FunctionRef> {
        for spec in candidates.iter().filter(|g| is_specialisation(g)) {
            if spec.decl.params.len() != f.decl.params.len() {
                continue;
            }
            let env = spec.env.clone();
            let patterns = spec.decl.spec_args.clone().unwrap_or_default();
            let Some(own) = self.attempt(|s| s.within(env.clone(), |s| s.template_args(&patterns))) else {
                continue;
            };
            if !own
                .iter()
                .zip(template_args)
                .all(|(a, b)| super::deduce::same_arg(a, b))
            {
                continue;
            }
            // What the arguments leave open, the parameter types decide.
            let fits = self.attempt(|s| {
                s.within(env, |s| {
                    for (param, arg) in spec.decl.params.iter().zip(args) {
                        let t = s.param_type(&param.ty)?;
                        if s.rank(arg, &t).is_none_or(|r| r > super::convert::QUALIFY) {
                            return Err(Fail::Reported);
                        }
                    }
                    Ok(())
                })
            });
            if fits.is_some() || own.len() == template_args.len() {
                let mut spec = spec.clone();
                spec.args = Vec::new();
                return Some(spec);
            }
        }
        None
    }

    pub(super) fn no_match<T>(
        &mut self,
        candidates: &[FunctionRef],
        args: &[Arg],
        explicit: &[TemplateArg],
        this: Option<&LValue>,
        what: &str,
        span: Span,
    ) -> Res<T> {
        let wrong: Vec<String> = candidates.iter().filter_map(|f| self.wrong_object(f, this)).collect();
        let message = match this {
            Some(this) if !candidates.is_empty() && wrong.len() == candidates.len() => format!(
                "'{what}' cannot be called on an object of the type '{}'",
                self.qual_name(&this.qual_type())
            ),
            _ => format!("no '{what}' takes the arguments {}", self.args_types(args)),
        };
        let mut d = self.diagnostic("E0482", message, span);
        if let [f] = candidates {
            if let Some(reason) = self.why_not(f, args, explicit, this) {
                d = d.note(reason);
            }
            d = d.secondary(f.decl.span, "declared here");
        } else {
            for f in candidates.iter().take(4) {
                d = d.secondary(f.decl.span, "candidate");
            }
            let mut reasons = wrong.clone();
            reasons.dedup();
            if let [reason] = reasons.as_slice() {
                d = d.note(reason.clone());
            }
        }
        if let (Some(this), [f, ..]) = (this, candidates)
            && wrong.len() == candidates.len()
        {
            let (space, name) = (this.space(), &f.decl.name.name);
            let qualifiers = match this.is_const && space != Space::Constant || f.decl.this_quals.is_const {
                true => format!("const {space}"),
                false => space.to_string(),
            };
            d = d.help(format!(
                "write '{qualifiers}' after the parameters of '{name}' (beside the function that is there, if other objects use that)"
            ));
        }
        Err(Fail::Error(Box::new(d)))
    }

    /// Why a member function cannot be called on the object.
    fn wrong_object(&mut self, f: &FunctionRef, this: Option<&LValue>) -> Option<String> {
        let object = this?;
        if self.rank_this(f, this).is_some() {
            return None;
        }
        let wanted = f.decl.this_quals.space.map_or(Space::Thread, |(s, _)| space_of(s));
        if wanted == super::convert::known_space(object, wanted) {
            return Some("the object is 'const', and the function is not".into());
        }
        let unqualified = match f.decl.this_quals.space {
            None => ", which is what a function without an address space takes",
            Some(_) => "",
        };
        let space = object.space();
        Some(format!(
            "the object is in '{space}' memory, and the function takes objects in '{wanted}' memory{unqualified}"
        ))
    }

    pub(super) fn why_not(
        &mut self,
        f: &FunctionRef,
        args: &[Arg],
        explicit: &[TemplateArg],
        this: Option<&LValue>,
    ) -> Option<String> {
        let params = &f.decl.params;
        let required = params.iter().filter(|p| p.default.is_none() && !p.is_pack).count();
        let variadic = params.last().is_some_and(|p| p.is_pack);
        if args.len() < required || (args.len() > params.len() && !variadic) {
            return Some(if required == params.len() {
                format!("it takes {required} arguments, not {}", args.len())
            } else {
                format!("it takes {required} to {} arguments, not {}", params.len(), args.len())
            });
        }
        let mut env = f.env.clone();
        if let Some(header) = &f.decl.template
            && !header.params.is_empty()
        {
            match self.deduce_call(f, explicit, args) {
                Some(own) => env = self.template_env(&env, header, &own),
                None => return Some("its template arguments cannot be deduced".into()),
            }
        }
        if let Some(reason) = self.wrong_object(f, this) {
            return Some(reason);
        }
        for (i, (param, arg)) in params.iter().zip(args).enumerate() {
            if has_auto(&param.ty) || param.is_pack {
                continue;
            }
            let t = self.attempt(|s| s.within(env.clone(), |s| s.param_type(&param.ty)))?;
            if self.rank(arg, &t).is_none() {
                return Some(format!(
                    "argument {} does not convert to '{}'",
                    i + 1,
                    self.qual_name(&t)
                ));
            }
        }
        None
    }

    /// Calls one of the functions of a name, those in the namespaces of the arguments' classes among them.
    pub fn call_set(
        &mut self,
        set: &FunctionSet,
        name: &str,
        args: Vec<Arg>,
        this: Option<LValue>,
        span: Span,
    ) -> Res<Operand> {
        let mut set = set.clone();
        if this.is_none() {
            self.add_associated(&mut set.user, name, &args);
        }
        self.call_among(&set, name, args, this, span)
    }

    /// Calls one of a set of functions.
    pub(super) fn call_among(
        &mut self,
        set: &FunctionSet,
        name: &str,
        args: Vec<Arg>,
        this: Option<LValue>,
        span: Span,
    ) -> Res<Operand> {
        let user = &set.user;
        let found = self.best(user, &args, &set.args, this.as_ref(), name, span);
        if let Some((function, namespace)) = set.library {
            let exact = matches!(&found, Ok(Some(found)) if found.fits.iter().all(|fit| fit.is_exact()));
            if !exact {
                let former = self.at(span);
                let math = self.math;
                match namespace {
                    "metal::fast" => self.math = MathMode::Fast,
                    "metal::precise" => self.math = MathMode::Precise,
                    _ => {}
                }
                let result = function(
                    self,
                    &Call {
                        name,
                        namespace,
                        span,
                        template_args: &set.args,
                        args: &args,
                    },
                );
                self.math = math;
                self.at(former);
                match (result, found) {
                    (Err(_), Ok(Some(found))) => {
                        return self.inline_call(&found.function, &found.template_args, this, args, span);
                    }
                    (Err(_), Err(fail)) => return Err(fail),
                    (result, _) => return result,
                }
            }
        }
        match found? {
            Some(found) => self.inline_call(&found.function, &found.template_args, this, args, span),
            None => self.no_match(user, &args, &set.args, this.as_ref(), name, span),
        }
    }

    /// Adds the functions of a name in the namespaces of the arguments' classes and enumerations.
    pub fn add_associated(&mut self, user: &mut Vec<FunctionRef>, name: &str, args: &[Arg]) {
        for ns in self.associated(args) {
            for entity in self.namespaces[ns.index()].names.get(name).into_iter().flatten() {
                if let Entity::Functions(set) = entity {
                    for f in &set.user {
                        if !user.contains(f) {
                            user.push(f.clone());
                        }
                    }
                }
            }
        }
    }

    /// The namespaces of the classes and enumerations of arguments, also behind pointers and in arrays.
    pub(super) fn associated(&self, args: &[Arg]) -> Vec<NamespaceId> {
        let mut out = Vec::new();
        for operand in args.iter().filter_map(Arg::operand) {
            let ns = match element(operand.ty()) {
                Type::Record(id) => self.records[id.index()].env.namespace(),
                Type::Enum(id) => self.enums[id.index()].namespace,
                _ => None,
            };
            out.extend(ns.filter(|ns| !out.contains(ns)));
        }
        out
    }

    /// The library's function of a name in the namespaces of arguments: of objects and enumerations of the library.
    pub(super) fn associated_library(&mut self, name: &str, args: &[Arg]) -> Option<(LibFunction, &'static str)> {
        let of_library = |operand: &Operand| matches!(element(operand.ty()), Type::Object(_));
        let mut paths: Vec<String> = Vec::new();
        if args.iter().filter_map(Arg::operand).any(of_library) {
            paths.extend(["metal".to_string(), "mpp::tensor_ops".to_string()]);
        }
        for ns in self.associated(args) {
            paths.push(self.namespaces[ns.index()].path.clone());
        }
        paths.iter().find_map(|path| match library::lookup(self, path, name) {
            Some(LibEntity::Function(function, namespace)) => Some((function, namespace)),
            _ => None,
        })
    }
}

/// What a pointer points at, and what an array has.
fn element(ty: &Type) -> &Type {
    match ty {
        Type::Pointer(to) | Type::Array(to, _) => element(&to.ty),
        ty => ty,
    }
}

pub(super) fn is_specialisation(f: &FunctionRef) -> bool {
    f.decl.template.as_ref().is_some_and(|t| t.params.is_empty())
}

/// May resolving the returned type fail (`enable_if_t<…>`, `typename T::x`)?
pub(super) fn depends(ty: &ast::Ty) -> bool {
    match &ty.kind {
        ast::TyKind::Path(path) => path.segments.len() > 1 || path.segments.iter().any(|s| s.args.is_some()),
        ast::TyKind::Decltype(_) => true,
        ast::TyKind::LRef(t) | ast::TyKind::Pointer(t) => depends(t),
        _ => false,
    }
}
