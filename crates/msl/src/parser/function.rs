//! What follows the parameter list of a function: trailing type, member initialisers, body.

use std::sync::Arc;

use super::decl::Headers;
use super::declarator::{Declarator, FunctionPart};
use super::types::DeclSpecs;
use super::{Context, PResult, Parser, refuse};
use crate::ast::{Body, Decl, FunctionDecl, FunctionKind, FunctionTy, Init, MemberInit, Ty, TyKind};
use crate::source::Span;
use crate::token::{Punct, TokenKind};

use super::scope::NameKind;

impl Parser<'_> {
    /// The rest of a function: trailing type, member initialisers, body. The scope of its parameters is open and closed here.
    pub(super) fn function(
        &mut self,
        context: Context,
        headers: &Headers,
        specs: &DeclSpecs,
        d: Declarator,
        part: FunctionPart,
        is_special: bool,
        start: Span,
        scopes: usize,
        out: &mut Vec<Decl>,
    ) -> PResult<bool> {
        let Some(ident) = d.name.ident else {
            return self.expected("a name");
        };
        if specs.typedef {
            let span = self.since(start);
            let kind = TyKind::Function(Box::new(FunctionTy {
                ret: d.ty,
                params: part.params,
            }));
            let ty = Ty {
                kind,
                quals: Default::default(),
                span,
            };
            self.scopes.reset(scopes);
            return self.typedef(ident, headers, ty, span, out).map(|()| false);
        }
        let mut ret = d.ty;
        let mut kind = FunctionKind::Plain;
        if let Some(ty) = d.name.conversion {
            kind = FunctionKind::Conversion(ty);
        } else if ident.name.starts_with('~') {
            kind = FunctionKind::Destructor;
        } else if is_special {
            kind = FunctionKind::Constructor;
        }
        if self.eat(Punct::Arrow) {
            let ty = self.type_id()?;
            if kind == FunctionKind::Constructor && context == Context::Namespace && d.name.qualifier.is_empty() {
                kind = FunctionKind::DeductionGuide;
            }
            ret = ty;
        }
        let mut attrs = specs.attrs.clone();
        attrs.extend(d.attrs);
        attrs.extend(part.attrs);
        self.attributes(&mut attrs)?;
        let mut fn_specs = specs.specs;
        fn_specs.is_noexcept |= part.noexcept;
        // Headers beyond the function's own belong to the enclosing templates of its qualifier.
        let generic_qualifiers = d.name.qualifier.iter().filter(|s| s.args.is_some()).count();
        let outer_count = headers.len().min(generic_qualifiers);
        let template = headers.get(outer_count..).and_then(|h| h.last()).cloned();
        let is_template = template.as_ref().is_some_and(|h| !h.params.is_empty());
        if d.name.qualifier.is_empty() && kind != FunctionKind::DeductionGuide {
            let name_kind = if is_template {
                NameKind::ValueTemplate
            } else {
                NameKind::Value
            };
            if matches!(kind, FunctionKind::Plain) {
                self.scopes
                    .declare_at(&ident.name, name_kind, scopes, !headers.is_empty());
                if context == Context::Record {
                    self.scopes.declare_member(&ident.name, is_template);
                }
            }
        }
        let mut function = FunctionDecl {
            name: ident,
            qualifier: d.name.qualifier,
            kind,
            template,
            outer_templates: headers[..outer_count].to_vec(),
            spec_args: d.name.args,
            kernel: kernel_span(&specs.kernel, &attrs),
            ret,
            params: part.params,
            this_quals: part.quals,
            specs: fn_specs,
            attrs,
            member_inits: Vec::new(),
            body: Body::None,
            span: self.since(start),
        };
        let finished = self.function_end(context, &mut function, scopes, out)?;
        self.scopes.reset(scopes);
        Ok(finished)
    }

    /// Member initialisers and body, now or after the record.
    fn function_end(
        &mut self,
        context: Context,
        function: &mut FunctionDecl,
        scopes: usize,
        out: &mut Vec<Decl>,
    ) -> PResult<bool> {
        if self.at(Punct::Assign) {
            self.bump();
            if self.eat_word("default") {
                function.body = Body::Default;
            } else if self.eat_word("delete") {
                function.body = Body::Delete;
            } else if matches!(&self.peek().kind, TokenKind::Number(n) if n.as_str() == "0") {
                return Err(refuse::unsupported("virtual functions are", self.span()));
            } else {
                return self.expected("'default' or 'delete'");
            }
            out.push(Decl::Function(Arc::new(function.clone())));
            return Ok(false);
        }
        if self.at_word("try") {
            refuse::keyword("try", self.span())?;
        }
        if !self.at(Punct::LBrace) && !self.at(Punct::Colon) {
            out.push(Decl::Function(Arc::new(function.clone())));
            return Ok(false);
        }
        if context == Context::Block {
            return Err(refuse::unsupported_help(
                "a function inside a function is",
                function.name.span,
                "use a lambda: auto f = [&](int x) { … };",
            ));
        }
        if context == Context::Record {
            self.defer_body(function, scopes, out.len())?;
            out.push(Decl::Function(Arc::new(function.clone())));
            return Ok(true);
        }
        self.function_body(function)?;
        out.push(Decl::Function(Arc::new(function.clone())));
        Ok(true)
    }

    /// `: a(1), b{2} { … }`
    pub(super) fn function_body(&mut self, function: &mut FunctionDecl) -> PResult<()> {
        if self.eat(Punct::Colon) {
            loop {
                let member = self.path(true)?;
                let init = if self.at(Punct::LBrace) {
                    Init::Brace(self.init_list()?)
                } else {
                    let open = self.span();
                    if !self.at(Punct::LParen) {
                        return self.expected("'(' or '{' after the member");
                    }
                    let args = self.call_args()?;
                    Init::Paren(args, self.since(open))
                };
                self.eat(Punct::Ellipsis);
                function.member_inits.push(MemberInit { member, init });
                if !self.eat(Punct::Comma) {
                    break;
                }
            }
        }
        if !self.at(Punct::LBrace) {
            return self.expected("the body of the function");
        }
        function.body = Body::Block(self.compound()?);
        Ok(())
    }
}

/// Where a function was marked as a kernel.
pub(super) fn kernel_span(keyword: &Option<Span>, attrs: &[crate::ast::Attr]) -> Option<Span> {
    keyword.or_else(|| {
        attrs
            .iter()
            .find(|a| a.scope.is_none() && a.name == "kernel")
            .map(|a| a.span)
    })
}
