//! Structs, classes, unions and enums.

use std::sync::Arc;

use super::types::DeclSpecs;
use super::{Context, PResult, Parser, refuse, types};
use crate::ast::{
    Access, Attr, Base, Body, Decl, EnumDecl, Enumerator, FunctionDecl, Ident, Member, Name, Path, PathRoot,
    RecordDecl, RecordKind, Segment, Ty, TyKind,
};
use crate::source::Span;
use crate::token::{Punct, TokenKind};

use super::scope::NameKind;

/// A record being read and the bodies to read when it is complete.
#[derive(Default)]
pub(super) struct Pending {
    name: Option<Name>,
    bodies: Vec<DeferredBody>,
}

/// A member function whose body was skipped.
struct DeferredBody {
    /// The member it belongs to.
    index: usize,
    /// The token where its initialisers or body begin.
    pos: usize,
    /// Names of its parameters and template parameters: the scopes above the record's.
    scopes: Vec<usize>,
}

impl Parser<'_> {
    /// The name of the record being read.
    pub(super) fn pending_name(&self) -> Option<Name> {
        self.pending.last().and_then(|p| p.name.clone())
    }

    /// `struct X`, `struct X : B { … }`, `struct { … }`; the current token is the keyword.
    pub(super) fn record_specifier(&mut self, kind: RecordKind, out: &mut DeclSpecs) -> PResult<Ty> {
        let headers = std::mem::take(&mut self.record_headers);
        let start = self.bump().span;
        let mut attrs: Vec<Attr> = Vec::new();
        self.attributes(&mut attrs)?;
        let mut qualifier: Vec<Segment> = Vec::new();
        let mut name: Option<Ident> = None;
        let mut spec_args = None;
        if self.peek().ident().is_some_and(|n| !types::is_keyword(n)) {
            let mut path = self.path(true)?;
            if let Some(last) = path.segments.pop() {
                name = Some(last.ident);
                spec_args = last.args;
            }
            qualifier = path.segments;
        }
        self.attributes(&mut attrs)?;
        self.eat_word("final");
        let head = self.since(start);
        let defines = self.at(Punct::LBrace) || self.at(Punct::Colon);
        let declares = self.at(Punct::Semi) && !out.specs.is_friend;
        if !defines && !declares {
            // `struct X x;`
            let Some(ident) = name else {
                return self.expected("the name or body of the record");
            };
            let mut segments = qualifier;
            segments.push(Segment {
                ident,
                args: spec_args,
                template_keyword: false,
            });
            let path = Path {
                root: PathRoot::Scope,
                segments,
                span: head,
            };
            return Ok(self.plain(TyKind::Path(path), start));
        }
        let is_template = headers.last().is_some_and(|h| !h.params.is_empty()) || spec_args.is_some();
        let name_kind = if is_template {
            NameKind::TypeTemplate
        } else {
            NameKind::Type
        };
        if let (Some(n), true) = (&name, qualifier.is_empty())
            && !(spec_args.is_some() && self.scopes.is_declared(&n.name))
        {
            self.declare_outside_template(&n.name, name_kind, !headers.is_empty());
        }
        let mut record = RecordDecl {
            kind,
            name: name.clone(),
            qualifier,
            template: headers.last().cloned(),
            spec_args,
            bases: Vec::new(),
            members: None,
            attrs,
            span: head,
        };
        if defines {
            self.record_definition(&mut record, name_kind, !headers.is_empty())?;
        }
        let mut late: Vec<Attr> = Vec::new();
        self.attributes(&mut late)?;
        record.attrs.extend(late);
        let record = Arc::new(record);
        match name {
            Some(ident) => {
                let span = ident.span;
                let segment = Segment {
                    ident,
                    args: record.spec_args.clone(),
                    template_keyword: false,
                };
                out.defined = Some(Decl::Record(record));
                let path = Path {
                    root: PathRoot::Scope,
                    segments: vec![segment],
                    span,
                };
                Ok(self.plain(TyKind::Path(path), start))
            }
            None => Ok(self.plain(TyKind::Record(record), start)),
        }
    }

    /// Bases and members.
    fn record_definition(&mut self, record: &mut RecordDecl, kind: NameKind, in_template: bool) -> PResult<()> {
        self.enter()?;
        let name = record.name.as_ref().map(|n| n.name.clone());
        let scopes = self.scopes.mark();
        let qualifier: Vec<&Name> = record.qualifier.iter().map(|s| &s.ident.name).collect();
        if qualifier.is_empty() {
            // A specialisation has a scope of its own: its members may differ.
            let own = record.spec_args.is_some();
            self.scopes
                .open_record(name.as_ref().filter(|_| !own), kind, in_template);
        } else {
            let mut path = qualifier.clone();
            path.extend(name.as_ref());
            if !self.scopes.open_path(&path) {
                self.scopes.push();
            }
        }
        if let Some(n) = &name {
            self.scopes.declare(n, kind);
        }
        let default = if record.kind == RecordKind::Class {
            Access::Private
        } else {
            Access::Public
        };
        if self.eat(Punct::Colon) {
            self.bases(record, default)?;
        }
        self.pending.push(Pending {
            name,
            bodies: Vec::new(),
        });
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let result = self.members(default);
        self.no_gt = no_gt;
        let pending = self.pending.pop().unwrap_or_default();
        let mut members = result?;
        self.deferred_bodies(pending, &mut members)?;
        record.members = Some(members);
        self.scopes.reset(scopes);
        self.leave();
        Ok(())
    }

    fn bases(&mut self, record: &mut RecordDecl, default: Access) -> PResult<()> {
        loop {
            let mut access = default;
            loop {
                match self.word() {
                    Some("public") => access = Access::Public,
                    Some("protected") => access = Access::Protected,
                    Some("private") => access = Access::Private,
                    Some("virtual") => {
                        return Err(refuse::unsupported("virtual bases are", self.span()));
                    }
                    _ => break,
                }
                self.bump();
            }
            let ty = self.type_specifiers_only()?;
            if let TyKind::Path(path) = &ty.kind {
                self.scopes.make_visible(path);
            }
            let is_pack = self.eat(Punct::Ellipsis);
            record.bases.push(Base { access, ty, is_pack });
            if !self.eat(Punct::Comma) {
                return Ok(());
            }
        }
    }

    fn members(&mut self, default: Access) -> PResult<Vec<Member>> {
        let open = self.expect(Punct::LBrace)?;
        let mut access = default;
        let mut members: Vec<Member> = Vec::new();
        while !self.at(Punct::RBrace) {
            if self.at_eof() {
                self.expect_close(Punct::RBrace, open)?;
            }
            if let (Some(word @ ("public" | "protected" | "private")), true) =
                (self.word(), self.nth_is(1, Punct::Colon))
            {
                access = match word {
                    "public" => Access::Public,
                    "protected" => Access::Protected,
                    _ => Access::Private,
                };
                self.bump();
                self.bump();
                continue;
            }
            let mut decls = Vec::new();
            let first = members.len();
            let bodies = self.pending.last().map_or(0, |p| p.bodies.len());
            let mark = self.mark();
            let scopes = self.scopes.mark();
            if let Err(d) = self.declaration(Context::Record, &mut decls) {
                let hopeless = matches!(d.code, "E0302" | "E0303");
                if hopeless || self.errors + 1 >= self.max_errors {
                    return Err(d);
                }
                self.report(*d);
                self.depth = mark.depth;
                self.scopes.reset(scopes);
                if let Some(pending) = self.pending.last_mut() {
                    pending.bodies.truncate(bodies);
                }
                self.recover(mark.pos);
                if self.pos == mark.pos {
                    self.bump();
                }
                continue;
            }
            // Indices of deferred bodies count from the start of this declaration.
            if let Some(pending) = self.pending.last_mut() {
                for body in &mut pending.bodies[bodies..] {
                    body.index += first;
                }
            }
            members.extend(decls.into_iter().map(|decl| Member { access, decl }));
        }
        self.bump();
        Ok(members)
    }

    /// Skips the initialisers and body of a member function and remembers where they are.
    pub(super) fn defer_body(&mut self, _function: &FunctionDecl, scopes: usize, index: usize) -> PResult<()> {
        let pos = self.pos;
        if self.eat(Punct::Colon) {
            // Members with their initialisers, up to the `{` that follows one.
            loop {
                while !self.at(Punct::LParen) && !self.at(Punct::LBrace) {
                    if self.at_eof() || self.at(Punct::Semi) {
                        return self.expected("the body of the function");
                    }
                    if self.at(Punct::Lt) {
                        self.template_args()?;
                    } else {
                        self.bump();
                    }
                }
                self.skip_group();
                self.eat(Punct::Ellipsis);
                if !self.eat(Punct::Comma) {
                    break;
                }
            }
        }
        if !self.at(Punct::LBrace) {
            return self.expected("the body of the function");
        }
        let open = self.span();
        self.skip_group();
        if self.at_eof() && !self.tokens[self.pos.saturating_sub(1)].is(Punct::RBrace) {
            self.expect_close(Punct::RBrace, open)?;
        }
        // The scope of the template parameters, if any, lies right below the function's.
        let scopes = self.scopes.above_record(scopes);
        if let Some(pending) = self.pending.last_mut() {
            pending.bodies.push(DeferredBody { index, pos, scopes });
        }
        Ok(())
    }

    /// Reads the bodies that were skipped, now that all members are known.
    fn deferred_bodies(&mut self, pending: Pending, members: &mut [Member]) -> PResult<()> {
        let end = self.mark();
        for body in pending.bodies {
            let Some(Member {
                decl: Decl::Function(function),
                ..
            }) = members.get_mut(body.index)
            else {
                continue;
            };
            let mut copy = FunctionDecl::clone(function);
            self.pos = body.pos;
            self.split = false;
            self.no_gt = false;
            let scopes = self.scopes.mark();
            self.scopes.push_existing(&body.scopes);
            self.function_body(&mut copy)?;
            self.scopes.reset(scopes);
            debug_assert!(copy.body != Body::None);
            *function = Arc::new(copy);
        }
        self.reset(end);
        Ok(())
    }

    /// `enum X : T { … }`; the current token is `enum`.
    pub(super) fn enum_specifier(&mut self, out: &mut DeclSpecs) -> PResult<Ty> {
        let start = self.bump().span;
        let is_scoped = self.eat_word("class") || self.eat_word("struct");
        let mut attrs = Vec::new();
        self.attributes(&mut attrs)?;
        let name = if self.peek().ident().is_some_and(|n| !types::is_keyword(n)) {
            Some(self.ident("the name of an enum")?)
        } else {
            None
        };
        let head = self.since(start);
        let underlying = if self.at(Punct::Colon) && !self.in_bit_field() {
            self.bump();
            Some(self.type_specifiers_only()?)
        } else {
            None
        };
        let defines = self.at(Punct::LBrace);
        if !(defines || self.at(Punct::Semi) && name.is_some()) {
            let Some(ident) = name else {
                return self.expected("the name or body of the enum");
            };
            let segment = Segment {
                ident,
                args: None,
                template_keyword: false,
            };
            let path = Path {
                root: PathRoot::Scope,
                segments: vec![segment],
                span: head,
            };
            return Ok(self.plain(TyKind::Path(path), start));
        }
        let mut enumerators = None;
        self.scopes.open(name.as_ref().map(|n| &n.name), NameKind::Type);
        if !is_scoped {
            self.scopes.expose_to_parent();
        }
        if defines {
            enumerators = Some(self.enumerators()?);
        }
        self.scopes.pop();
        let decl = Arc::new(EnumDecl {
            name: name.clone(),
            is_scoped,
            underlying,
            enumerators,
            span: head,
        });
        match name {
            Some(ident) => {
                let span = ident.span;
                out.defined = Some(Decl::Enum(decl));
                let segment = Segment {
                    ident,
                    args: None,
                    template_keyword: false,
                };
                let path = Path {
                    root: PathRoot::Scope,
                    segments: vec![segment],
                    span,
                };
                Ok(self.plain(TyKind::Path(path), start))
            }
            None => Ok(self.plain(TyKind::Enum(decl), start)),
        }
    }

    /// `enum X : 3` is a bit-field of type `enum X`.
    fn in_bit_field(&self) -> bool {
        matches!(self.peek_nth(1).kind, TokenKind::Number(_))
    }

    fn enumerators(&mut self) -> PResult<Vec<Enumerator>> {
        let open: Span = self.expect(Punct::LBrace)?;
        let mut list = Vec::new();
        while !self.at(Punct::RBrace) {
            let name = self.ident("an enumerator")?;
            let mut attrs = Vec::new();
            self.attributes(&mut attrs)?;
            let value = if self.eat(Punct::Assign) {
                Some(self.conditional()?)
            } else {
                None
            };
            self.scopes.declare(&name.name, NameKind::Value);
            list.push(Enumerator { name, value });
            if !self.eat(Punct::Comma) {
                break;
            }
        }
        self.expect_close(Punct::RBrace, open)?;
        Ok(list)
    }
}
