//! Overload resolution: which of several functions a call means.

use super::context::*;
use super::convert::Rank;
use super::library::Call;
use super::types::*;
use super::tyres::{has_auto, space_of};
use super::value::*;
use crate::ast;
use crate::source::Span;
use anymetal_ir::MathMode;

impl Sema<'_> {
    /// Is the function viable for the arguments? Its template arguments and the ranks of the conversions.
    pub fn viable(
        &mut self,
        f: &FunctionRef,
        args: &[Arg],
        this: Option<&LValue>,
    ) -> Option<(Vec<TemplateArg>, Vec<Rank>)> {
        let given = f.args.clone();
        self.viable_with(f, &given, args, this)
    }

    pub(super) fn viable_with(
        &mut self,
        f: &FunctionRef,
        explicit: &[TemplateArg],
        args: &[Arg],
        this: Option<&LValue>,
    ) -> Option<(Vec<TemplateArg>, Vec<Rank>)> {
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
        let mut ranks = Vec::with_capacity(args.len() + 1);
        ranks.push(self.rank_this(f, this)?);
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
                    ranks.push(s.rank_param(param, arg, i >= params.len() - 1)?);
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
        ok.map(|()| (template_args, ranks))
    }

    /// How well an object fits the qualifiers of a member function; `None` if it may not be called.
    pub fn rank_this(&mut self, f: &FunctionRef, this: Option<&LValue>) -> Option<Rank> {
        let is_member =
            f.record.is_some() && !f.decl.specs.is_static && !matches!(f.decl.kind, ast::FunctionKind::Constructor);
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
        let wanted = f.decl.this_quals.space.map_or(Space::Thread, |(s, _)| space_of(s));
        // What is computed at compile time or held in registers has no place that could be the wrong one.
        if wanted != super::convert::known_space(this, wanted) {
            return None;
        }
        Some(u32::from(this.is_const != f.decl.this_quals.is_const))
    }

    pub(super) fn rank_param(&mut self, param: &ast::Param, arg: &Arg, last: bool) -> Res<Rank> {
        if has_auto(&param.ty) {
            let Arg::Operand(operand, _) = arg else {
                return Err(Fail::Reported);
            };
            let t = self.deduce_auto(&param.ty, operand)?;
            return self.rank(arg, &t).map(|r| r + 1).ok_or(Fail::Reported);
        }
        if param.is_pack && last {
            // The element types were deduced from the arguments themselves.
            return Ok(1);
        }
        let t = self.param_type(&param.ty)?;
        self.rank(arg, &t).ok_or(Fail::Reported)
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
        match self.best(candidates, args, explicit, this)? {
            Some((f, template_args, _)) => Ok((f, template_args)),
            None => self.no_match(candidates, args, explicit, this, what, span),
        }
    }

    pub(super) fn best(
        &mut self,
        candidates: &[FunctionRef],
        args: &[Arg],
        explicit: &[TemplateArg],
        this: Option<&LValue>,
    ) -> Res<Option<Candidate>> {
        let mut best: Option<Candidate> = None;
        for f in candidates {
            if is_specialisation(f) {
                continue;
            }
            let given = if explicit.is_empty() {
                f.args.clone()
            } else {
                explicit.to_vec()
            };
            let Some((template_args, ranks)) = self.viable_with(f, &given, args, this) else {
                continue;
            };
            let better = match &best {
                None => true,
                Some((g, _, other)) => is_better(f, &ranks, g, other),
            };
            if better {
                best = Some((f.clone(), template_args, ranks));
            }
        }
        let Some((f, template_args, ranks)) = best else {
            return Ok(None);
        };
        if f.decl.template.is_some()
            && let Some(spec) = self.specialisation(&f, candidates, &template_args, args)
        {
            return Ok(Some((spec, Vec::new(), ranks)));
        }
        Ok(Some((f, template_args, ranks)))
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
        let types = self.args_types(args);
        let mut d = self.diagnostic("E0482", format!("no '{what}' takes the arguments {types}"), span);
        if let [f] = candidates {
            if let Some(reason) = self.why_not(f, args, explicit, this) {
                d = d.note(reason);
            }
            d = d.secondary(f.decl.span, "declared here");
        } else {
            for f in candidates.iter().take(4) {
                d = d.secondary(f.decl.span, "candidate");
            }
        }
        Err(Fail::Error(Box::new(d)))
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
        if self.rank_this(f, this).is_none() {
            return Some("the object is 'const' or in another address space, and the function is not".into());
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

    /// Calls one of a set of functions.
    pub fn call_set(
        &mut self,
        set: &FunctionSet,
        name: &str,
        args: Vec<Arg>,
        this: Option<LValue>,
        span: Span,
    ) -> Res<Operand> {
        let mut user = set.user.clone();
        if this.is_none() {
            self.add_associated(&mut user, name, &args);
        }
        let found = self.best(&user, &args, &set.args, this.as_ref())?;
        if let Some((function, namespace)) = set.library {
            let exact = found
                .as_ref()
                .is_some_and(|(_, _, ranks)| ranks.iter().all(|r| *r < super::convert::PROMOTE));
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
                    (Err(_), Some((f, template_args, _))) => {
                        return self.inline_call(&f, &template_args, this, args, span);
                    }
                    (result, _) => return result,
                }
            }
        }
        match found {
            Some((f, template_args, _)) => self.inline_call(&f, &template_args, this, args, span),
            None => self.no_match(&user, &args, &set.args, this.as_ref(), name, span),
        }
    }

    /// Adds the functions of a name in the namespaces of the arguments' classes.
    pub fn add_associated(&mut self, user: &mut Vec<FunctionRef>, name: &str, args: &[Arg]) {
        for arg in args {
            let Some(operand) = arg.operand() else {
                continue;
            };
            let mut env = match operand.ty() {
                Type::Record(id) => Some(self.records[id.index()].env.clone()),
                _ => None,
            };
            while let Some(e) = env {
                if let EnvKind::Namespace(ns) = e.kind {
                    if let Some(list) = self.namespaces[ns.index()].names.get(name) {
                        for entity in list {
                            if let Entity::Functions(set) = entity {
                                for f in &set.user {
                                    if !user.contains(f) {
                                        user.push(f.clone());
                                    }
                                }
                            }
                        }
                    }
                    break;
                }
                env = e.parent.clone();
            }
        }
    }
}

/// A function that takes the arguments, its template arguments, and how well each argument fits.
type Candidate = (FunctionRef, Vec<TemplateArg>, Vec<Rank>);

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

pub(super) fn is_better(f: &FunctionRef, a: &[Rank], g: &FunctionRef, b: &[Rank]) -> bool {
    let worse = a.iter().zip(b).any(|(x, y)| x > y);
    let better = a.iter().zip(b).any(|(x, y)| x < y);
    if better != worse {
        return better;
    }
    if better && worse {
        return a.iter().sum::<u32>() < b.iter().sum::<u32>();
    }
    let template = |f: &FunctionRef| f.decl.template.is_some() || f.decl.params.iter().any(|p| has_auto(&p.ty));
    match (template(f), template(g)) {
        (false, true) => true,
        (true, false) => false,
        (false, false) => false,
        (true, true) => {
            let score = |f: &FunctionRef| -> (u32, bool) {
                (
                    f.decl
                        .params
                        .iter()
                        .map(|p| super::instance::ty_speciality(&p.ty))
                        .sum(),
                    f.decl.template.as_ref().is_some_and(|t| t.requires.is_some()),
                )
            };
            let variadic = |f: &FunctionRef| f.decl.params.last().is_some_and(|p| p.is_pack);
            match (variadic(f), variadic(g)) {
                (false, true) => true,
                (true, false) => false,
                _ => score(f) > score(g),
            }
        }
    }
}
