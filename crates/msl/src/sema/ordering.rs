//! Which of two functions that take a call is the better one, by C++'s rules.
//!
//! A function is better if none of its arguments converts worse and one converts better. Where all convert alike, a function goes
//! before a template, and of two templates the more specialised one goes first: the one whose parameters the other could take,
//! but not the other way round (partial ordering). Written types are matched for that, with the template parameters of one
//! side as unknowns and those of the other as types that equal nothing else.

use std::cmp::Ordering;
use std::sync::LazyLock;

use super::context::*;
use super::convert::{QUALIFY, Rank};
use super::deduce::{Bindings, same_arg, ty_mentions};
use super::types::*;
use super::tyres::has_auto;
use super::value::*;
use crate::ast::{self, TemplateArgKind, TemplateHeader, Ty, TyKind};

/// How well an argument fits a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Smaller is better.
    rank: Rank,
    /// The same without what binding a reference adds: against a parameter that takes a value, only this counts.
    converts: Rank,
    by_reference: bool,
}

impl Fit {
    /// The fit of the object that a member function is called on.
    pub fn object(rank: Rank) -> Self {
        Fit {
            rank,
            converts: 0,
            by_reference: true,
        }
    }

    /// The fit of an argument to a parameter.
    pub fn new(rank: Rank, by_reference: bool) -> Self {
        let converts = match rank % 5 {
            r if by_reference => rank - r.min(QUALIFY),
            _ => rank,
        };
        Fit {
            rank,
            converts,
            by_reference,
        }
    }

    /// Nothing is converted but qualifiers.
    pub fn is_exact(self) -> bool {
        self.rank < super::convert::PROMOTE
    }

    /// `Less` is better.
    fn against(self, other: Fit) -> Ordering {
        if self.by_reference == other.by_reference {
            self.rank.cmp(&other.rank)
        } else {
            self.converts.cmp(&other.converts)
        }
    }
}

/// A function that takes the arguments, its template arguments, and how well each argument fits.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The function.
    pub function: FunctionRef,
    /// Its template arguments.
    pub template_args: Vec<TemplateArg>,
    /// The object first, then the arguments. (For a free operator, whose first argument is what the object of a member would be, the
    /// arguments alone.)
    pub fits: Vec<Fit>,
    /// How many arguments its parameters take.
    pub arguments: usize,
}

/// Could the parameters of one template take those of another?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Yes,
    No,
    /// Aliases that depend on template parameters stand in the way.
    Unsure,
}

impl Taken {
    fn when(yes: bool) -> Self {
        if yes { Taken::Yes } else { Taken::No }
    }

    fn and(self, next: impl FnOnce() -> Taken) -> Taken {
        match self {
            Taken::No => Taken::No,
            Taken::Yes => next(),
            Taken::Unsure => match next() {
                Taken::No => Taken::No,
                _ => Taken::Unsure,
            },
        }
    }
}

/// The two sides of a match: a pattern with unknowns, and what it is to take.
struct Sides<'a> {
    pattern: &'a FunctionRef,
    given: &'a FunctionRef,
    /// Unknowns that took a type without template parameters.
    known: Bindings<'a>,
    /// Unknowns that took a written type of the other side.
    written: Vec<Option<Ty>>,
}

/// A template without parameters, for functions with `auto` parameters.
static NO_HEADER: LazyLock<TemplateHeader> = LazyLock::new(|| TemplateHeader {
    params: Vec::new(),
    requires: None,
    span: crate::source::Span::default(),
});

fn header(f: &FunctionRef) -> &TemplateHeader {
    f.decl.template.as_ref().unwrap_or(&NO_HEADER)
}

impl Sema<'_> {
    /// The position of the one candidate that is better than all others; `Err` with all that none of the others beats.
    pub(super) fn best_of(&mut self, candidates: &[Candidate]) -> Result<usize, Vec<usize>> {
        let mut best = 0;
        for i in 1..candidates.len() {
            if self.compare(&candidates[i], &candidates[best]) == Some(Ordering::Less) {
                best = i;
            }
        }
        let mut rivals = vec![best];
        for (i, other) in candidates.iter().enumerate() {
            if i != best && self.compare(&candidates[best], other) != Some(Ordering::Less) {
                rivals.push(i);
            }
        }
        match rivals.as_slice() {
            [_] => Ok(best),
            _ => Err(rivals),
        }
    }

    /// `Less` if the first is the better one; `None` if neither is.
    fn compare(&mut self, a: &Candidate, b: &Candidate) -> Option<Ordering> {
        let (mut better, mut worse) = (false, false);
        for (x, y) in a.fits.iter().zip(&b.fits) {
            match x.against(*y) {
                Ordering::Less => better = true,
                Ordering::Greater => worse = true,
                Ordering::Equal => {}
            }
        }
        match (better, worse) {
            (true, false) => return Some(Ordering::Less),
            (false, true) => return Some(Ordering::Greater),
            (true, true) => return None,
            (false, false) => {}
        }
        let (f, g) = (&a.function, &b.function);
        match (is_template(f), is_template(g)) {
            (false, true) => Some(Ordering::Less),
            (true, false) => Some(Ordering::Greater),
            (true, true) if a.arguments == b.arguments => self.more_specialised(f, g, a.arguments),
            (true, true) => None,
            (false, false) => self.declared_twice(f, g),
        }
    }

    /// A declaration and the definition of one function, written in different words.
    fn declared_twice(&mut self, f: &FunctionRef, g: &FunctionRef) -> Option<Ordering> {
        let order = by_body(f, g)?;
        if f.decl.params.len() != g.decl.params.len() {
            return None;
        }
        for (x, y) in f.decl.params.iter().zip(&g.decl.params) {
            let (e, h) = (f.env.clone(), g.env.clone());
            let x = self.attempt(|s| s.within(e, |s| s.param_type(&x.ty)))?;
            let y = self.attempt(|s| s.within(h, |s| s.param_type(&y.ty)))?;
            if x != y {
                return None;
            }
        }
        Some(order)
    }

    /// Partial ordering of two templates for a call with `n` arguments.
    fn more_specialised(&mut self, f: &FunctionRef, g: &FunctionRef, n: usize) -> Option<Ordering> {
        let f_fits_g = self.takes_all(g, f, n);
        let g_fits_f = self.takes_all(f, g, n);
        match (f_fits_g, g_fits_f) {
            (Taken::Yes, Taken::No) => return Some(Ordering::Less),
            (Taken::No, Taken::Yes) => return Some(Ordering::Greater),
            (Taken::No, Taken::No) => return None,
            (Taken::Yes, Taken::Yes) => {}
            _ => {
                // Where matching does not tell, the longer pattern is taken for the more special one.
                let score = |f: &FunctionRef| -> u32 {
                    let params = f.decl.params.iter();
                    params.map(|p| super::instance::ty_speciality(&p.ty)).sum()
                };
                match score(g).cmp(&score(f)) {
                    Ordering::Equal => {}
                    order => return Some(order),
                }
            }
        }
        let by_reference = |s: &mut bool, t: &mut bool| {
            for (x, y) in f.decl.params.iter().zip(&g.decl.params).take(n) {
                let (inner_x, inner_y) = match (&x.ty.kind, &y.ty.kind) {
                    (TyKind::LRef(a) | TyKind::RRef(a), TyKind::LRef(b) | TyKind::RRef(b)) => (a, b),
                    _ => continue,
                };
                match (&x.ty.kind, &y.ty.kind) {
                    (TyKind::LRef(_), TyKind::RRef(_)) => *s = true,
                    (TyKind::RRef(_), TyKind::LRef(_)) => *t = true,
                    _ => {
                        *s |= inner_x.quals.is_const && !inner_y.quals.is_const;
                        *t |= !inner_x.quals.is_const && inner_y.quals.is_const;
                    }
                }
            }
        };
        let (mut first, mut second) = (false, false);
        by_reference(&mut first, &mut second);
        match (first, second) {
            (true, false) => return Some(Ordering::Less),
            (false, true) => return Some(Ordering::Greater),
            _ => {}
        }
        let variadic = |f: &FunctionRef| f.decl.params.last().is_some_and(|p| p.is_pack);
        let constrained = |f: &FunctionRef| header(f).requires.is_some();
        match (variadic(f), variadic(g), constrained(f), constrained(g)) {
            (false, true, ..) | (_, _, true, false) => Some(Ordering::Less),
            (true, false, ..) | (_, _, false, true) => Some(Ordering::Greater),
            _ => by_body(f, g),
        }
    }

    /// Could the parameters of `pattern` be deduced from those of `given`?
    fn takes_all(&mut self, pattern: &FunctionRef, given: &FunctionRef, n: usize) -> Taken {
        let unknowns = header(pattern);
        let mut sides = Sides {
            pattern,
            given,
            known: Bindings {
                header: unknowns,
                args: vec![None; unknowns.params.len()],
            },
            written: vec![None; unknowns.params.len()],
        };
        let mut result = Taken::Yes;
        for i in 0..n {
            let at = |f: &FunctionRef| -> Option<usize> {
                let last = f.decl.params.len().checked_sub(1)?;
                Some(i.min(last))
            };
            let (Some(p), Some(a)) = (at(pattern), at(given)) else {
                return Taken::Unsure;
            };
            let (p, a) = (&pattern.decl.params[p], &given.decl.params[a]);
            if a.is_pack && !p.is_pack {
                return Taken::No;
            }
            result = result.and(|| self.takes_param(&p.ty, &a.ty, &mut sides));
        }
        result
    }

    /// One pair of parameters: references and the qualifiers of the parameter itself do not count.
    fn takes_param(&mut self, p: &Ty, a: &Ty, sides: &mut Sides<'_>) -> Taken {
        fn bare(ty: &Ty) -> Ty {
            let inner = match &ty.kind {
                TyKind::LRef(t) | TyKind::RRef(t) => t,
                _ => ty,
            };
            Ty {
                quals: ast::Quals::default(),
                ..inner.clone()
            }
        }
        self.takes(&bare(p), &bare(a), sides)
    }

    fn takes(&mut self, p: &Ty, a: &Ty, sides: &mut Sides<'_>) -> Taken {
        if matches!(p.kind, TyKind::Auto | TyKind::DecltypeAuto) {
            return Taken::Yes;
        }
        let unknowns = header(sides.pattern);
        let opaque = depends(a, header(sides.given));
        if !depends(p, unknowns) {
            return if opaque {
                Taken::No
            } else {
                self.same_types(p, a, sides)
            };
        }
        if let Some(i) = unknown(p, unknowns) {
            return self.takes_whole(i, p, a, opaque, sides);
        }
        if is_not_deduced(p, unknowns) {
            return Taken::Yes;
        }
        if !opaque {
            let env = sides.given.env.clone();
            let Some(t) = self.attempt(|s| s.within(env, |s| s.resolve_type(a))) else {
                return Taken::Unsure;
            };
            let env = sides.pattern.env.clone();
            let took = self.within(env, |s| {
                s.trial += 1;
                let took = s.unify(p, &t, &mut sides.known);
                s.trial -= 1;
                took
            });
            let torn = sides.known.args.iter().zip(&sides.written);
            return Taken::when(took && torn.clone().all(|(x, y)| x.is_none() || y.is_none()));
        }
        let (c, d) = (&p.quals, &a.quals);
        if c.is_const != d.is_const || c.space.map(|s| s.0) != d.space.map(|s| s.0) {
            return Taken::No;
        }
        match (&p.kind, &a.kind) {
            (TyKind::Pointer(x), TyKind::Pointer(y))
            | (TyKind::LRef(x), TyKind::LRef(y))
            | (TyKind::RRef(x), TyKind::RRef(y))
            | (TyKind::Array(x, _), TyKind::Array(y, _)) => self.takes(x, y, sides),
            (TyKind::Function(x), TyKind::Function(y)) if x.params.len() == y.params.len() => {
                let mut taken = self.takes(&x.ret, &y.ret, sides);
                for (x, y) in x.params.iter().zip(&y.params) {
                    taken = taken.and(|| self.takes(&x.ty, &y.ty, sides));
                }
                taken
            }
            (TyKind::Path(x), TyKind::Path(y)) => match (&x.last().args, &y.last().args) {
                (Some(m), Some(n)) if x.last().ident.name == y.last().ident.name => {
                    self.takes_template_args(m, n, sides)
                }
                // A parameter of the other template is no instance of anything.
                (_, None) if y.as_ident().is_some() => Taken::No,
                _ => Taken::Unsure,
            },
            (_, TyKind::Path(y)) if y.as_ident().is_none() => Taken::Unsure,
            _ => Taken::No,
        }
    }

    /// An unknown takes a type whole.
    fn takes_whole(&mut self, i: usize, p: &Ty, a: &Ty, opaque: bool, sides: &mut Sides<'_>) -> Taken {
        let (c, d) = (&p.quals, &a.quals);
        if (c.is_const && !d.is_const) || (c.space.is_some() && c.space.map(|s| s.0) != d.space.map(|s| s.0)) {
            return Taken::No;
        }
        if header(sides.pattern).params[i].is_pack {
            return Taken::Yes;
        }
        let mut rest = a.clone();
        rest.quals.is_const &= !c.is_const;
        rest.quals.space = rest.quals.space.filter(|_| c.space.is_none());
        if opaque {
            if sides.known.args[i].is_some() {
                return Taken::No;
            }
            return match &sides.written[i] {
                Some(former) => Taken::when(key(former) == key(&rest)),
                None => {
                    sides.written[i] = Some(rest);
                    Taken::Yes
                }
            };
        }
        let env = sides.given.env.clone();
        let Some(t) = self.attempt(|s| s.within(env, |s| s.resolve_type(&rest))) else {
            return Taken::Unsure;
        };
        let arg = TemplateArg::Type(t);
        match &sides.known.args[i] {
            _ if sides.written[i].is_some() => Taken::No,
            Some(former) => Taken::when(same_arg(former, &arg)),
            None => {
                sides.known.args[i] = Some(arg);
                Taken::Yes
            }
        }
    }

    fn takes_template_args(&mut self, p: &[ast::TemplateArg], a: &[ast::TemplateArg], sides: &mut Sides<'_>) -> Taken {
        if p.last().is_some_and(|p| p.is_pack) {
            return Taken::when(a.len() + 1 >= p.len());
        }
        if p.len() != a.len() {
            return Taken::Unsure;
        }
        let mut taken = Taken::Yes;
        for (p, a) in p.iter().zip(a) {
            taken = taken.and(|| match (written_type(p), written_type(a)) {
                (Some(p), Some(a)) => self.takes(&p, &a, sides),
                (None, None) => self.same_values(p, a, sides),
                // A value's name against a number.
                (Some(p), None) => match unknown(&p, header(sides.pattern)) {
                    Some(_) => Taken::Yes,
                    None => Taken::Unsure,
                },
                (None, Some(a)) if depends(&a, header(sides.given)) => Taken::No,
                (None, Some(_)) => Taken::Unsure,
            });
        }
        taken
    }

    fn same_values(&mut self, p: &ast::TemplateArg, a: &ast::TemplateArg, sides: &Sides<'_>) -> Taken {
        let mut value = |f: &FunctionRef, arg: &ast::TemplateArg| {
            let env = f.env.clone();
            let args = self.attempt(|s| s.within(env, |s| s.template_args(std::slice::from_ref(arg))))?;
            args.into_iter().next()
        };
        match (value(sides.pattern, p), value(sides.given, a)) {
            (Some(x), Some(y)) => Taken::when(same_arg(&x, &y)),
            _ => Taken::Unsure,
        }
    }

    fn same_types(&mut self, p: &Ty, a: &Ty, sides: &Sides<'_>) -> Taken {
        let mut resolve = |f: &FunctionRef, ty: &Ty| {
            let env = f.env.clone();
            self.attempt(|s| s.within(env, |s| s.resolve_type(ty)))
        };
        match (resolve(sides.pattern, p), resolve(sides.given, a)) {
            (Some(x), Some(y)) => Taken::when(x == y),
            // A constant of a template's argument, say.
            _ => match (written_value(p), written_value(a)) {
                (Some(p), Some(a)) => self.same_values(&p, &a, sides),
                _ => Taken::Unsure,
            },
        }
    }
}

pub(super) fn is_template(f: &FunctionRef) -> bool {
    f.decl.template.is_some() || f.decl.params.iter().any(|p| has_auto(&p.ty))
}

/// The one with a body goes before a declaration of the same function.
fn by_body(f: &FunctionRef, g: &FunctionRef) -> Option<Ordering> {
    let defined = |f: &FunctionRef| !matches!(f.decl.body, ast::Body::None);
    match (defined(f), defined(g)) {
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        _ => None,
    }
}

fn depends(ty: &Ty, header: &TemplateHeader) -> bool {
    let named = |p: &ast::TemplateParam| p.name.as_ref().is_some_and(|n| ty_mentions(ty, &n.name));
    has_auto(ty) || header.params.iter().any(named)
}

/// The template parameter that a type is.
fn unknown(ty: &Ty, header: &TemplateHeader) -> Option<usize> {
    let TyKind::Path(path) = &ty.kind else {
        return None;
    };
    let ident = path.as_ident()?;
    let is = |p: &ast::TemplateParam| p.name.as_ref().is_some_and(|n| n.name == ident.name);
    header.params.iter().position(is)
}

/// A type whose template parameters cannot be deduced from it: `typename T::x`, `decltype(…)`.
fn is_not_deduced(ty: &Ty, header: &TemplateHeader) -> bool {
    let TyKind::Path(path) = &ty.kind else {
        return matches!(ty.kind, TyKind::Decltype(_));
    };
    let Some((last, scopes)) = path.segments.split_last() else {
        return true;
    };
    let outer = Ty {
        kind: TyKind::Path(ast::Path {
            segments: scopes.to_vec(),
            ..path.clone()
        }),
        ..ty.clone()
    };
    (!scopes.is_empty() && depends(&outer, header)) || last.args.is_none()
}

/// A template argument that may be a type.
fn written_type(arg: &ast::TemplateArg) -> Option<Ty> {
    match &arg.kind {
        TemplateArgKind::Type(ty) => Some(ty.clone()),
        TemplateArgKind::Path(path) => Some(Ty {
            kind: TyKind::Path(path.clone()),
            quals: ast::Quals::default(),
            span: arg.span,
        }),
        TemplateArgKind::Expr(e) => match &e.kind {
            ast::ExprKind::Path(path) => Some(Ty {
                kind: TyKind::Path(path.clone()),
                quals: ast::Quals::default(),
                span: arg.span,
            }),
            _ => None,
        },
    }
}

/// The same the other way round.
fn written_value(ty: &Ty) -> Option<ast::TemplateArg> {
    match &ty.kind {
        TyKind::Path(path) => Some(ast::TemplateArg {
            kind: TemplateArgKind::Path(path.clone()),
            is_pack: false,
            span: ty.span,
        }),
        _ => None,
    }
}

/// A type's words without its place in the source.
fn key(ty: &Ty) -> String {
    let mut out = String::new();
    if ty.quals.is_const {
        out.push_str("const ");
    }
    if let Some((space, _)) = ty.quals.space {
        out.push_str(space.keyword());
        out.push(' ');
    }
    match &ty.kind {
        TyKind::Builtin(b) => out.push_str(&format!("{b:?}")),
        TyKind::Pointer(t) => out.push_str(&format!("*{}", key(t))),
        TyKind::LRef(t) => out.push_str(&format!("&{}", key(t))),
        TyKind::RRef(t) => out.push_str(&format!("&&{}", key(t))),
        TyKind::Path(path) => {
            for s in &path.segments {
                out.push_str("::");
                out.push_str(&s.ident.name);
                for arg in s.args.iter().flatten() {
                    match written_type(arg) {
                        Some(t) => out.push_str(&format!("<{}", key(&t))),
                        None => out.push_str(&format!("<@{:?}", arg.span)),
                    }
                }
            }
        }
        _ => out.push_str(&format!("@{:?}", ty.span)),
    }
    out
}
