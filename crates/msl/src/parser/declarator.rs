//! Declarators: what stands around a declared name, `*p`, `(&a)[4]`, `f(int x) const`.

use super::{Context, PResult, Parser, types};
use crate::ast::{Attr, Expr, FunctionTy, Ident, Name, Param, Path, PathRoot, Quals, Segment, TemplateArg, Ty, TyKind};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::{Punct, TokenKind};

use super::scope::NameKind;

/// The name in a declarator.
#[derive(Debug, Default)]
pub(super) struct DeclName {
    pub qualifier: Vec<Segment>,
    pub ident: Option<Ident>,
    pub args: Option<Vec<TemplateArg>>,
    /// The type of a conversion operator.
    pub conversion: Option<Box<Ty>>,
}

/// The parameter list and what follows it, when the declarator declares a function.
#[derive(Debug)]
pub(super) struct FunctionPart {
    pub params: Vec<Param>,
    pub quals: Quals,
    pub noexcept: bool,
    pub attrs: Vec<Attr>,
}

/// A whole declarator.
#[derive(Debug)]
pub(super) struct Declarator {
    pub name: DeclName,
    pub ty: Ty,
    /// Present when the outermost thing declared is a function; `ty` is then what it returns.
    pub function: Option<FunctionPart>,
    pub attrs: Vec<Attr>,
}

impl Parser<'_> {
    /// `*`, `&`, `&&` with their qualifiers.
    fn pointer_operators(&mut self, mut ty: Ty) -> PResult<Ty> {
        let mut count = 0;
        loop {
            let start = ty.span;
            let kind = match self.punct() {
                Some(Punct::Star) => TyKind::Pointer as fn(Box<Ty>) -> TyKind,
                Some(Punct::Amp) => TyKind::LRef,
                Some(Punct::AndAnd) => TyKind::RRef,
                _ => return Ok(ty),
            };
            count += 1;
            self.check_chain(count)?;
            self.bump();
            let mut quals = Quals::default();
            self.qualifiers(&mut quals)?;
            ty = Ty {
                kind: kind(Box::new(ty)),
                quals,
                span: self.since(start),
            };
        }
    }

    /// A declarator without a name: of a cast, a template argument, an unnamed parameter.
    pub(super) fn abstract_declarator(&mut self, base: Ty) -> PResult<Ty> {
        let ty = self.pointer_operators(base)?;
        let nested = self.at(Punct::LParen)
            && matches!(
                self.peek_nth(1).kind,
                TokenKind::Punct(Punct::Star | Punct::Amp | Punct::AndAnd)
            )
            && !matches!(self.peek_nth(2).kind, TokenKind::Ident(_));
        if nested {
            let open = self.pos;
            self.skip_group();
            let ty = self.type_suffixes(ty)?;
            let end = self.mark();
            self.pos = open + 1;
            let ty = self.abstract_declarator(ty)?;
            self.expect(Punct::RParen)?;
            self.reset(end);
            return Ok(ty);
        }
        self.type_suffixes(ty)
    }

    /// `[n]` and, for keyword types, `(params)` of a function type.
    fn type_suffixes(&mut self, ty: Ty) -> PResult<Ty> {
        if self.at(Punct::LParen) && !matches!(ty.kind, TyKind::Path(_) | TyKind::Decltype(_)) {
            let mark = self.mark();
            if let Ok(params) = self.parameters() {
                let span = self.since(ty.span);
                let kind = TyKind::Function(Box::new(FunctionTy { ret: ty, params }));
                return Ok(Ty {
                    kind,
                    quals: Quals::default(),
                    span,
                });
            }
            self.reset(mark);
            return Ok(ty);
        }
        self.array_suffixes(ty)
    }

    /// `[n][m]`, the first being the outermost.
    fn array_suffixes(&mut self, base: Ty) -> PResult<Ty> {
        let mut sizes: Vec<(Option<Box<Expr>>, Span)> = Vec::new();
        while self.at(Punct::LBracket) && !self.nth_is(1, Punct::LBracket) {
            let open = self.bump().span;
            self.check_chain(sizes.len())?;
            let no_gt = std::mem::replace(&mut self.no_gt, false);
            let size = if self.at(Punct::RBracket) {
                None
            } else {
                Some(Box::new(self.expression()?))
            };
            self.no_gt = no_gt;
            let close = self.expect_close(Punct::RBracket, open)?;
            sizes.push((size, close));
        }
        let mut ty = base;
        let end = sizes.last().map(|(_, close)| *close);
        for (size, _) in sizes.into_iter().rev() {
            let span = end.map_or(ty.span, |end| ty.span.to(end));
            ty = Ty {
                kind: TyKind::Array(Box::new(ty), size),
                quals: Quals::default(),
                span,
            };
        }
        Ok(ty)
    }

    /// A declarator with a name. In a parameter the name may be missing.
    pub(super) fn declarator(&mut self, base: Ty, context: Context, parameter: bool) -> PResult<Declarator> {
        self.enter()?;
        let ty = self.pointer_operators(base)?;
        let mut attrs = Vec::new();
        if !parameter || self.at_attribute() {
            self.attributes(&mut attrs)?;
        }
        let result = if self.at_nested_declarator() {
            let open = self.pos;
            self.skip_group();
            let ty = if self.at(Punct::LParen) {
                let params = self.parameters()?;
                let span = self.since(ty.span);
                Ty {
                    kind: TyKind::Function(Box::new(FunctionTy { ret: ty, params })),
                    quals: Quals::default(),
                    span,
                }
            } else {
                self.array_suffixes(ty)?
            };
            let end = self.mark();
            self.pos = open + 1;
            let mut inner = self.declarator(ty, context, parameter)?;
            self.expect(Punct::RParen)?;
            self.reset(end);
            inner.attrs.append(&mut attrs);
            inner
        } else {
            let name = self.declared_name(parameter)?;
            if !name.qualifier.is_empty() {
                // The parameters of a member defined outside see the names of its record; the caller closes both scopes.
                let path: Vec<&Name> = name.qualifier.iter().map(|s| &s.ident.name).collect();
                self.scopes.open_path(&path);
                self.scopes.push();
            }
            let function = if self.at(Punct::LParen) && !parameter && self.at_parameters(context, &name) {
                Some(self.function_part(&name)?)
            } else {
                None
            };
            let ty = if function.is_some() {
                ty
            } else {
                self.array_suffixes(ty)?
            };
            Declarator {
                name,
                ty,
                function,
                attrs,
            }
        };
        self.leave();
        let mut result = result;
        self.attributes(&mut result.attrs)?;
        Ok(result)
    }

    /// `(*`, `(&`: a declarator in parentheses. `(name)(` is one too.
    pub(super) fn at_nested_declarator(&self) -> bool {
        if !self.at(Punct::LParen) {
            return false;
        }
        match &self.peek_nth(1).kind {
            TokenKind::Punct(Punct::Star | Punct::Amp | Punct::AndAnd) => true,
            TokenKind::Ident(name) => {
                !types::is_keyword(name)
                    && self.nth_is(2, Punct::RParen)
                    && (self.nth_is(3, Punct::LParen) || self.nth_is(3, Punct::LBracket))
            }
            _ => false,
        }
    }

    /// The name of a declarator: `x`, `X<T>::y`, `f<float>`, `operator+`, `~X`.
    fn declared_name(&mut self, optional: bool) -> PResult<DeclName> {
        let mut name = DeclName::default();
        let mut count = 0;
        loop {
            count += 1;
            self.check_chain(count)?;
            if self.at(Punct::Tilde) {
                let start = self.bump().span;
                let ident = self.ident("the name of a destructor")?;
                name.ident = Some(Ident {
                    name: Name::new(format!("~{}", ident.name)),
                    span: start.to(ident.span),
                });
                return Ok(name);
            }
            if self.at_word("operator") {
                let (ident, conversion) = self.operator_name()?;
                name.ident = Some(ident);
                name.conversion = conversion;
                if self.at(Punct::Lt) {
                    name.args = Some(self.template_args()?);
                }
                return Ok(name);
            }
            let missing = !matches!(self.word(), Some(w) if !types::is_keyword(w));
            if missing && optional && name.qualifier.is_empty() {
                return Ok(name);
            }
            let ident = self.ident("a name")?;
            let args = if self.at(Punct::Lt) && !optional {
                Some(self.template_args()?)
            } else {
                None
            };
            if self.at(Punct::ColonColon) {
                self.bump();
                if self.at(Punct::Star) {
                    return Err(super::refuse::unsupported("pointers to members are", self.span()));
                }
                name.qualifier.push(Segment {
                    ident,
                    args,
                    template_keyword: false,
                });
                self.eat_word("template");
                continue;
            }
            name.ident = Some(ident);
            name.args = args;
            return Ok(name);
        }
    }

    /// `operator+`, `operator[]`, `operator T`
    pub(super) fn operator_name(&mut self) -> PResult<(Ident, Option<Box<Ty>>)> {
        let start = self.bump().span;
        let spelled = match self.peek().kind {
            TokenKind::Punct(Punct::LParen) if self.nth_is(1, Punct::RParen) => {
                self.bump();
                "()".to_string()
            }
            TokenKind::Punct(Punct::LBracket) if self.nth_is(1, Punct::RBracket) => {
                self.bump();
                "[]".to_string()
            }
            TokenKind::Punct(
                p @ (Punct::LParen
                | Punct::LBracket
                | Punct::LBrace
                | Punct::RBrace
                | Punct::Semi
                | Punct::Hash
                | Punct::HashHash
                | Punct::ColonColon
                | Punct::Colon
                | Punct::Question
                | Punct::Dot
                | Punct::Ellipsis),
            ) => {
                return self.expected(&format!("an operator that can be overloaded, not '{}'", p.spelling()));
            }
            TokenKind::Punct(p) => p.spelling().to_string(),
            TokenKind::Str(_) => {
                return Err(super::refuse::unsupported("user-defined literals are", self.span()));
            }
            TokenKind::Ident(_) => {
                let base = self.type_specifiers_only()?;
                let ty = self.pointer_operators(base)?;
                let ident = Ident {
                    name: Name::from("operator T"),
                    span: self.since(start),
                };
                return Ok((ident, Some(Box::new(ty))));
            }
            _ => return self.expected("an operator"),
        };
        self.bump();
        let ident = Ident {
            name: Name::new(format!("operator{spelled}")),
            span: self.since(start),
        };
        Ok((ident, None))
    }

    /// After a name, is `(` the start of a parameter list, rather than of an initialiser?
    fn at_parameters(&mut self, context: Context, name: &DeclName) -> bool {
        if context == Context::Record || name.conversion.is_some() || !name.qualifier.is_empty() {
            return true;
        }
        let next = self.peek_nth(1);
        if next.is(Punct::RParen) || next.is(Punct::Ellipsis) {
            return true;
        }
        if let Some(word) = next.ident() {
            if is_qualifier_word(word) || matches!(word.as_str(), "typename" | "struct" | "enum" | "class" | "auto") {
                return true;
            }
            if !types::is_keyword(word) && self.scopes.kind(word).is_value() {
                return false;
            }
            if context == Context::Block && !types::is_keyword(word) && self.scopes.kind(word) == NameKind::Unknown {
                return false;
            }
        } else if !(next.is(Punct::LBracket) || next.is(Punct::ColonColon)) {
            return false;
        }
        let mark = self.mark();
        let scopes = self.scopes.mark();
        self.scopes.push();
        let parsed = self.parameters();
        self.scopes.reset(scopes);
        self.reset(mark);
        match parsed {
            Ok(_) => true,
            // At namespace scope a parameter list with a mistake is more likely than an initialiser; and what is refused by
            // name was meant as a type.
            Err(d) => context == Context::Namespace || matches!(d.code, "E0310" | "E0311" | "E0312"),
        }
    }

    /// `(params)` and what may follow: qualifiers of `this`, `noexcept`, attributes. The trailing return type is the caller's.
    fn function_part(&mut self, _name: &DeclName) -> PResult<FunctionPart> {
        let params = self.parameters()?;
        let mut part = FunctionPart {
            params,
            quals: Quals::default(),
            noexcept: false,
            attrs: Vec::new(),
        };
        loop {
            if self.qualifier(&mut part.quals)? {
                continue;
            }
            if self.at_attribute() {
                self.attributes(&mut part.attrs)?;
                continue;
            }
            if self.eat_word("noexcept") {
                part.noexcept = true;
                if self.at(Punct::LParen) {
                    self.skip_group();
                }
                continue;
            }
            if self.at_word("override") || self.at_word("final") {
                return Err(super::refuse::unsupported("virtual functions are", self.span()));
            }
            if self.at(Punct::Amp) || self.at(Punct::AndAnd) {
                // Reference qualifiers change overload resolution only.
                self.bump();
                continue;
            }
            return Ok(part);
        }
    }

    /// `(int a, float b = 1, ...)`; the names are declared in the innermost scope.
    pub(super) fn parameters(&mut self) -> PResult<Vec<Param>> {
        self.enter()?;
        let open = self.expect(Punct::LParen)?;
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let mut params = Vec::new();
        if self.at_word("void") && self.nth_is(1, Punct::RParen) {
            self.bump();
        }
        while !self.at(Punct::RParen) {
            if self.at(Punct::Ellipsis) {
                return Err(Box::new(
                    Diagnostic::error("E0310", "variadic functions are not supported", self.span())
                        .label("used here")
                        .help("use a parameter pack: template <typename... T> f(T... args)"),
                ));
            }
            params.push(self.parameter()?);
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.expect_close(Punct::RParen, open)?;
        self.no_gt = no_gt;
        self.leave();
        Ok(params)
    }

    fn parameter(&mut self) -> PResult<Param> {
        let start = self.span();
        let mut specs = self.decl_specifiers(Context::Block)?;
        let Some(base) = specs.ty.take() else {
            return self.expected("a parameter type");
        };
        let mut is_pack = false;
        // `T... x`, `thread T&... x`
        let ty = self.pointer_operators(base)?;
        if self.eat(Punct::Ellipsis) {
            is_pack = true;
        }
        let d = self.declarator(ty, Context::Block, true)?;
        let mut attrs = specs.attrs;
        attrs.extend(d.attrs);
        if let Some(name) = &d.name.ident {
            if is_pack {
                self.scopes.declare_pack(&name.name, NameKind::Value);
            } else {
                self.scopes.declare(&name.name, NameKind::Value);
            }
        }
        let default = if self.eat(Punct::Assign) {
            Some(if self.at(Punct::LBrace) {
                self.init_list()?
            } else {
                self.assignment()?
            })
        } else {
            None
        };
        self.attributes(&mut attrs)?;
        Ok(Param {
            name: d.name.ident,
            ty: d.ty,
            default,
            attrs,
            is_pack,
            span: self.since(start),
        })
    }
}

/// Words that begin a parameter and cannot begin an expression.
fn is_qualifier_word(word: &str) -> bool {
    matches!(
        word,
        "const" | "volatile" | "device" | "constant" | "threadgroup" | "thread" | "coherent"
    )
}

/// The path that a declarator's name spells.
pub(super) fn name_path(name: &DeclName, span: Span) -> Option<Path> {
    let ident = name.ident.clone()?;
    let mut segments = name.qualifier.clone();
    segments.push(Segment {
        ident,
        args: name.args.clone(),
        template_keyword: false,
    });
    Some(Path {
        root: PathRoot::Scope,
        segments,
        span,
    })
}
