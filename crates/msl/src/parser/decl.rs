//! Declarations at namespace scope and in blocks.

use std::sync::Arc;

use super::declarator::{Declarator, name_path};
use super::function::kernel_span;
use super::types::DeclSpecs;
use super::{Context, PResult, Parser, refuse};
use crate::ast::{
    AliasDecl, Attr, Decl, Ident, Init, Instantiation, InstantiationTarget, Name, NamespaceDecl, Path, PathRoot,
    Segment, StaticAssert, TemplateArg, TemplateArgKind, TemplateHeader, Ty, TyKind, VarDecl,
};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::{Pragma, Punct, TokenKind};

use super::scope::NameKind;

/// Template headers before a declaration; the innermost is last.
pub(super) type Headers = Vec<TemplateHeader>;

impl Parser<'_> {
    /// One declaration at namespace scope; an error is reported and skipped.
    pub(super) fn namespace_member(&mut self, out: &mut Vec<Decl>) {
        let mark = self.mark();
        let scopes = self.scopes.mark();
        if let Err(d) = self.declaration(Context::Namespace, out) {
            self.report(*d);
            self.depth = mark.depth;
            self.scopes.reset(scopes);
            self.pending.clear();
            self.recover(mark.pos);
            if self.pos == mark.pos {
                self.bump();
            }
        }
    }

    /// One declaration, with its `;`.
    pub(super) fn declaration(&mut self, context: Context, out: &mut Vec<Decl>) -> PResult<()> {
        self.enter()?;
        self.declaration_inner(context, out)?;
        self.leave();
        Ok(())
    }

    fn declaration_inner(&mut self, context: Context, out: &mut Vec<Decl>) -> PResult<()> {
        let start = self.span();
        if let TokenKind::Pragma(pragma) = &self.peek().kind {
            if let Pragma::Fp(fp) = **pragma {
                out.push(Decl::FpPragma(fp, start));
            }
            self.bump();
            return Ok(());
        }
        if self.eat(Punct::Semi) {
            return Ok(());
        }
        match self.word() {
            Some("namespace") => return self.namespace(out, false),
            Some("inline") if self.peek_nth(1).is_ident("namespace") => {
                self.bump();
                return self.namespace(out, true);
            }
            Some("using") => return self.using(None, out),
            Some("static_assert" | "_Static_assert") => {
                let decl = self.static_assert()?;
                out.push(Decl::StaticAssert(decl));
                return Ok(());
            }
            Some("extern") if matches!(self.peek_nth(1).kind, TokenKind::Str(_)) => {
                return self.linkage(context, out);
            }
            Some("extern") if self.peek_nth(1).is_ident("template") => {
                self.bump();
            }
            _ => {}
        }
        if self.at_word("template") {
            return self.template_declaration(context, out);
        }
        self.simple_declaration(context, Vec::new(), true, out)
    }

    /// A declaration in a condition: no `;` after it.
    pub(super) fn declaration_without_semicolon(&mut self, context: Context) -> PResult<Vec<Decl>> {
        let mut out = Vec::new();
        self.simple_declaration(context, Vec::new(), false, &mut out)?;
        Ok(out)
    }

    fn namespace(&mut self, out: &mut Vec<Decl>, is_inline: bool) -> PResult<()> {
        let start = self.bump().span;
        let mut attrs = Vec::new();
        self.attributes(&mut attrs)?;
        if self.at(Punct::LBrace) {
            return self.namespace_body(out, None, is_inline, start);
        }
        let name = self.ident("the name of a namespace")?;
        self.attributes(&mut attrs)?;
        if self.eat(Punct::Assign) {
            let target = self.path(true)?;
            self.expect(Punct::Semi)?;
            self.scopes.alias_namespace(&name.name, &target);
            out.push(Decl::NamespaceAlias {
                name,
                target,
                span: self.since(start),
            });
            return Ok(());
        }
        if self.eat(Punct::ColonColon) {
            // `namespace a::b {` is `namespace a { namespace b {`.
            self.enter()?;
            self.scopes.open(Some(&name.name), NameKind::Namespace);
            let inline = self.eat_word("inline");
            let mut decls = Vec::new();
            self.pos -= 1;
            let result = self.namespace(&mut decls, inline);
            self.scopes.pop();
            result?;
            self.leave();
            out.push(Decl::Namespace(NamespaceDecl {
                name: Some(name),
                is_inline,
                decls,
                span: self.since(start),
            }));
            return Ok(());
        }
        self.namespace_body(out, Some(name), is_inline, start)
    }

    fn namespace_body(
        &mut self,
        out: &mut Vec<Decl>,
        name: Option<crate::ast::Ident>,
        is_inline: bool,
        start: Span,
    ) -> PResult<()> {
        let open = self.expect(Punct::LBrace)?;
        self.scopes.open(name.as_ref().map(|n| &n.name), NameKind::Namespace);
        if is_inline {
            self.scopes.expose_to_parent();
        }
        let mut decls = Vec::new();
        while !self.at(Punct::RBrace) && !self.at_eof() && self.errors < self.max_errors {
            self.namespace_member(&mut decls);
        }
        self.scopes.pop();
        if self.errors < self.max_errors {
            self.expect_close(Punct::RBrace, open)?;
        }
        out.push(Decl::Namespace(NamespaceDecl {
            name,
            is_inline,
            decls,
            span: self.since(start),
        }));
        Ok(())
    }

    /// `extern "C" { … }`: linkage means nothing here.
    fn linkage(&mut self, context: Context, out: &mut Vec<Decl>) -> PResult<()> {
        self.bump();
        self.bump();
        if !self.at(Punct::LBrace) {
            return self.declaration(context, out);
        }
        let open = self.bump().span;
        while !self.at(Punct::RBrace) && !self.at_eof() && self.errors < self.max_errors {
            self.namespace_member(out);
        }
        self.expect_close(Punct::RBrace, open)?;
        Ok(())
    }

    /// `using namespace a;`, `using a::b;`, `using X = T;`
    pub(super) fn using(&mut self, template: Option<TemplateHeader>, out: &mut Vec<Decl>) -> PResult<()> {
        let start = self.bump().span;
        if self.eat_word("namespace") {
            let path = self.path(true)?;
            self.expect(Punct::Semi)?;
            self.scopes.make_visible(&path);
            out.push(Decl::UsingNamespace(path));
            return Ok(());
        }
        if self.at_word("enum") {
            return Err(refuse::unsupported("'using enum' is", self.span()));
        }
        if self.peek().ident().is_some() && (self.nth_is(1, Punct::Assign) || self.nth_is(1, Punct::LBracket)) {
            let name = self.ident("a name")?;
            let mut attrs = Vec::new();
            self.attributes(&mut attrs)?;
            self.expect(Punct::Assign)?;
            let ty = self.alias_target(out)?;
            self.expect(Punct::Semi)?;
            let kind = if template.is_some() {
                NameKind::TypeTemplate
            } else {
                NameKind::Type
            };
            self.declare_outside_template(&name.name, kind, template.is_some());
            out.push(Decl::Alias(Arc::new(AliasDecl {
                name,
                template,
                ty,
                span: self.since(start),
            })));
            return Ok(());
        }
        self.eat_word("typename");
        loop {
            let path = self.path(false)?;
            self.scopes.import(&path);
            out.push(Decl::Using(path));
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.expect(Punct::Semi)?;
        Ok(())
    }

    /// The type of an alias, which may define a record.
    fn alias_target(&mut self, out: &mut Vec<Decl>) -> PResult<Ty> {
        let specs = self.decl_specifiers(Context::Block)?;
        out.extend(specs.defined);
        let Some(ty) = specs.ty else {
            return self.expected("a type");
        };
        self.abstract_declarator(ty)
    }

    /// Declares a name in the scope around the template parameters.
    pub(super) fn declare_outside_template(&mut self, name: &crate::ast::Name, kind: NameKind, in_template: bool) {
        if in_template {
            self.scopes.declare_below(name, kind);
        } else {
            self.scopes.declare(name, kind);
        }
    }

    pub(super) fn static_assert(&mut self) -> PResult<StaticAssert> {
        let start = self.bump().span;
        let open = self.expect(Punct::LParen)?;
        let cond = self.assignment()?;
        let message = if self.eat(Punct::Comma) {
            match self.peek().kind {
                TokenKind::Str(_) => Some(self.string()),
                _ => return self.expected("a string"),
            }
        } else {
            None
        };
        self.expect_close(Punct::RParen, open)?;
        self.expect(Punct::Semi)?;
        Ok(StaticAssert {
            cond,
            message,
            span: self.since(start),
        })
    }

    /// `template <…> declaration` or an explicit instantiation.
    fn template_declaration(&mut self, context: Context, out: &mut Vec<Decl>) -> PResult<()> {
        let start = self.span();
        if !self.nth_is(1, Punct::Lt) {
            self.bump();
            return self.instantiation(start, out);
        }
        let scopes = self.scopes.mark();
        // One scope holds the parameters of all headers, so that the declared name goes right below it.
        self.scopes.push();
        let mut headers = Vec::new();
        while self.at_word("template") && self.nth_is(1, Punct::Lt) {
            let start = self.bump().span;
            headers.push(self.template_header(start)?);
            self.check_chain(headers.len())?;
        }
        let result = if self.at_word("using") {
            let header = headers.pop();
            self.using(header, out)
        } else {
            self.simple_declaration(context, headers, true, out)
        };
        self.scopes.reset(scopes);
        result
    }

    /// After `template`: `[[host_name("x")]] kernel void f<float>(…);`
    fn instantiation(&mut self, start: Span, out: &mut Vec<Decl>) -> PResult<()> {
        let mut attrs = Vec::new();
        self.attributes(&mut attrs)?;
        if matches!(self.word(), Some("struct" | "class" | "union")) {
            self.bump();
            let path = self.path(true)?;
            self.expect(Punct::Semi)?;
            let target = InstantiationTarget::Record(path);
            out.push(Decl::Instantiation(Instantiation {
                attrs,
                kernel: None,
                target,
                span: self.since(start),
            }));
            return Ok(());
        }
        let scopes = self.scopes.mark();
        self.scopes.push();
        let mut specs = self.decl_specifiers(Context::Namespace)?;
        let Some(ty) = specs.ty.take() else {
            return self.expected("a type");
        };
        attrs.append(&mut specs.attrs);
        let d = self.declarator(ty, Context::Namespace, false)?;
        attrs.extend(d.attrs);
        self.scopes.reset(scopes);
        let Some(path) = name_path(&d.name, self.since(start)) else {
            return self.expected("a name");
        };
        let target = match d.function {
            Some(part) => InstantiationTarget::Function {
                path,
                ret: d.ty,
                params: part.params,
            },
            None => InstantiationTarget::FunctionByType { path, ty: d.ty },
        };
        if self.at(Punct::LBrace) {
            return Err(Box::new(
                Diagnostic::error("E0307", "an explicit instantiation has no body", self.span())
                    .label("body given here")
                    .help("write 'template <>' for a specialisation"),
            ));
        }
        self.expect(Punct::Semi)?;
        let kernel = kernel_span(&specs.kernel, &attrs);
        out.push(Decl::Instantiation(Instantiation {
            attrs,
            kernel,
            target,
            span: self.since(start),
        }));
        Ok(())
    }

    /// Specifiers and declarators: variables, functions, typedefs, records.
    pub(super) fn simple_declaration(
        &mut self,
        context: Context,
        headers: Headers,
        semicolon: bool,
        out: &mut Vec<Decl>,
    ) -> PResult<()> {
        let start = self.span();
        self.record_headers = headers.clone();
        let mut specs = self.decl_specifiers(context)?;
        self.record_headers.clear();
        let defined = specs.defined.take();
        let has_defined = defined.is_some();
        out.extend(defined);
        if semicolon && self.at(Punct::Semi) {
            self.bump();
            return self.declares_nothing(specs, has_defined, context, start, out);
        }
        if specs.specs.is_friend && !self.nth_is(1, Punct::LParen) && specs.ty.is_none() {
            return self.expected("a declaration");
        }
        let mut count = 0;
        loop {
            count += 1;
            let finished = self.one_declarator(context, &headers, &mut specs, start, out)?;
            if finished {
                return Ok(());
            }
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        if count > 1 && !headers.is_empty() {
            return Err(Box::new(Diagnostic::error(
                "E0307",
                "a template declares one thing at a time",
                self.since(start),
            )));
        }
        if semicolon {
            self.expect(Punct::Semi)?;
        }
        Ok(())
    }

    /// A declaration without declarators: a record, an enum, an anonymous union; or a mistake.
    fn declares_nothing(
        &mut self,
        specs: DeclSpecs,
        has_defined: bool,
        context: Context,
        start: Span,
        out: &mut Vec<Decl>,
    ) -> PResult<()> {
        if has_defined || specs.specs.is_friend {
            return Ok(());
        }
        match specs.ty {
            Some(ty) if matches!(ty.kind, TyKind::Record(_) | TyKind::Enum(_)) => {
                if matches!(&ty.kind, TyKind::Enum(e) if e.name.is_none()) {
                    if let TyKind::Enum(e) = ty.kind {
                        out.push(Decl::Enum(e));
                    }
                    return Ok(());
                }
                let var = VarDecl {
                    name: None,
                    qualifier: Vec::new(),
                    ty,
                    init: None,
                    specs: specs.specs,
                    attrs: specs.attrs,
                    template: None,
                    spec_args: None,
                    bit_width: None,
                    span: self.since(start),
                };
                out.push(Decl::Var(Arc::new(var)));
                Ok(())
            }
            _ if context == Context::Block && specs.ty.is_none() && !specs.attrs.is_empty() => Ok(()),
            _ => Err(Box::new(
                Diagnostic::error("E0307", "this declaration declares nothing", self.since(start))
                    .label("no name follows the type"),
            )),
        }
    }

    /// One declarator with its initialiser or body. True when it was a function with a body, which ends the declaration.
    fn one_declarator(
        &mut self,
        context: Context,
        headers: &Headers,
        specs: &mut DeclSpecs,
        start: Span,
        out: &mut Vec<Decl>,
    ) -> PResult<bool> {
        let scopes = self.scopes.mark();
        self.scopes.push();
        let is_special = specs.ty.is_none();
        let base = match &specs.ty {
            Some(ty) => ty.clone(),
            // A constructor, a destructor, a conversion operator.
            None => Ty {
                kind: TyKind::Builtin(crate::ast::BuiltinTy::Void),
                quals: Default::default(),
                span: self.span().start(),
            },
        };
        if matches!(base.kind, TyKind::Auto) && self.at_structured_binding() {
            return Err(refuse::unsupported_help(
                "structured bindings are",
                self.span(),
                "name the members: auto x = v.x; auto y = v.y;",
            ));
        }
        if context == Context::Record && self.at(Punct::Colon) {
            self.scopes.reset(scopes);
            let var = self.bit_field(base, None, specs, start)?;
            out.push(Decl::Var(Arc::new(var)));
            return Ok(false);
        }
        if is_special && !self.at(Punct::Tilde) && !self.at_word("operator") {
            let named = self.peek().ident().is_some_and(|n| !super::types::is_keyword(n));
            if !named {
                return self.expected(if context == Context::Block {
                    "an expression"
                } else {
                    "a declaration"
                });
            }
        }
        if let (Some(path), true) = (Self::bare_path(&base), self.at(Punct::LParen))
            && !self.at_nested_declarator()
        {
            return Err(Box::new(
                Diagnostic::error("E0308", format!("the type of '{path}' is missing"), path.span)
                    .label("expected a type before this name"),
            ));
        }
        let mut d = self.declarator(base, context, false)?;
        let Some(ident) = d.name.ident.clone() else {
            return self.expected("a name");
        };
        if let Some(part) = d.function.take() {
            let finished = self.function(context, headers, specs, d, part, is_special, start, scopes, out)?;
            return Ok(finished);
        }
        self.scopes.reset(scopes);
        if is_special {
            return Err(Box::new(
                Diagnostic::error("E0301", format!("unknown declaration of '{}'", ident.name), ident.span)
                    .label("expected a type before it"),
            ));
        }
        // `typedef void (f_t)(int);` gives a function type.
        if specs.typedef {
            let ty = vector_type(d.ty, specs.attrs.iter().chain(&d.attrs));
            let span = self.since(start);
            return self.typedef(ident, headers, ty, span, out).map(|()| false);
        }
        let var = self.variable(context, headers, specs, d, start)?;
        out.push(Decl::Var(Arc::new(var)));
        Ok(false)
    }

    /// One name of a typedef.
    pub(super) fn typedef(
        &mut self,
        name: Ident,
        headers: &Headers,
        ty: Ty,
        span: Span,
        out: &mut Vec<Decl>,
    ) -> PResult<()> {
        self.declare_outside_template(&name.name, NameKind::Type, !headers.is_empty());
        let alias = AliasDecl {
            name,
            template: headers.last().cloned(),
            ty,
            span,
        };
        out.push(Decl::Alias(Arc::new(alias)));
        Ok(())
    }

    /// `auto [a, b] =` and `auto &[a, b] =`
    fn at_structured_binding(&self) -> bool {
        let open = |n| self.nth_is(n, Punct::LBracket) && !self.nth_is(n + 1, Punct::LBracket);
        open(0) || (self.at(Punct::Amp) && open(1))
    }

    fn bit_field(
        &mut self,
        ty: Ty,
        name: Option<crate::ast::Ident>,
        specs: &DeclSpecs,
        start: Span,
    ) -> PResult<VarDecl> {
        self.expect(Punct::Colon)?;
        let width = self.conditional()?;
        Ok(VarDecl {
            name,
            qualifier: Vec::new(),
            ty,
            init: None,
            specs: specs.specs,
            attrs: specs.attrs.clone(),
            template: None,
            spec_args: None,
            bit_width: Some(width),
            span: self.since(start),
        })
    }

    fn variable(
        &mut self,
        context: Context,
        headers: &Headers,
        specs: &DeclSpecs,
        d: Declarator,
        start: Span,
    ) -> PResult<VarDecl> {
        let name = d.name.ident.clone();
        let is_template = headers.last().is_some_and(|h| !h.params.is_empty());
        if let (Some(n), true) = (&name, d.name.qualifier.is_empty()) {
            let kind = if is_template {
                NameKind::ValueTemplate
            } else {
                NameKind::Value
            };
            self.declare_outside_template(&n.name, kind, !headers.is_empty());
            if context == Context::Record {
                self.scopes.declare_member(&n.name, is_template);
            }
        }
        if context == Context::Record && self.at(Punct::Colon) {
            return self.bit_field(d.ty, name, specs, start);
        }
        let mut attrs = specs.attrs.clone();
        attrs.extend(d.attrs);
        self.attributes(&mut attrs)?;
        let init = match self.punct() {
            Some(Punct::Assign) => {
                self.bump();
                Some(Init::Copy(if self.at(Punct::LBrace) {
                    self.init_list()?
                } else {
                    self.assignment()?
                }))
            }
            Some(Punct::LBrace) => Some(Init::Brace(self.init_list()?)),
            Some(Punct::LParen) => {
                let open = self.span();
                let args = self.call_args()?;
                Some(Init::Paren(args, self.since(open)))
            }
            _ => None,
        };
        Ok(VarDecl {
            name,
            qualifier: d.name.qualifier,
            ty: d.ty,
            init,
            specs: specs.specs,
            attrs,
            template: headers.last().cloned(),
            spec_args: d.name.args,
            bit_width: None,
            span: self.since(start),
        })
    }
}

/// `typedef float F __attribute__((ext_vector_type(4)))` means `vec<float, 4>`.
fn vector_type<'a>(ty: Ty, attrs: impl Iterator<Item = &'a Attr>) -> Ty {
    let mut size = None;
    for attr in attrs {
        if attr.name == "ext_vector_type" {
            size = attr.args.first().cloned();
        }
    }
    let Some(size) = size else { return ty };
    let span = ty.span;
    let element = TemplateArg {
        kind: TemplateArgKind::Type(ty),
        is_pack: false,
        span,
    };
    let count_span = size.span;
    let count = TemplateArg {
        kind: TemplateArgKind::Expr(size),
        is_pack: false,
        span: count_span,
    };
    let segment = |name: &str, args| Segment {
        ident: Ident {
            name: Name::from(name),
            span,
        },
        args,
        template_keyword: false,
    };
    let segments = vec![segment("metal", None), segment("vec", Some(vec![element, count]))];
    let path = Path {
        root: PathRoot::Global,
        segments,
        span,
    };
    Ty {
        kind: TyKind::Path(path),
        quals: Default::default(),
        span,
    }
}
