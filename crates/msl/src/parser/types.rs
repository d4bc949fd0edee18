//! Type names and the specifiers of a declaration.

use super::{Context, PResult, Parser, refuse};
use crate::ast::{
    AddressSpace, Attr, BuiltinTy, Decl, Path, PathRoot, Quals, RecordKind, Segment, Specifiers, Ty, TyKind,
};
use crate::diagnostics::Diagnostic;
use crate::source::Span;
use crate::token::{Punct, TokenKind};

use super::scope::NameKind;

/// Words that cannot be identifiers.
pub(super) fn is_keyword(word: &str) -> bool {
    matches!(
        word,
        "alignas"
            | "alignof"
            | "asm"
            | "auto"
            | "bool"
            | "break"
            | "case"
            | "catch"
            | "char"
            | "class"
            | "const"
            | "constexpr"
            | "consteval"
            | "constinit"
            | "const_cast"
            | "continue"
            | "decltype"
            | "default"
            | "delete"
            | "do"
            | "double"
            | "dynamic_cast"
            | "else"
            | "enum"
            | "explicit"
            | "extern"
            | "false"
            | "float"
            | "for"
            | "friend"
            | "goto"
            | "if"
            | "inline"
            | "int"
            | "long"
            | "mutable"
            | "namespace"
            | "new"
            | "noexcept"
            | "nullptr"
            | "operator"
            | "private"
            | "protected"
            | "public"
            | "register"
            | "reinterpret_cast"
            | "return"
            | "short"
            | "signed"
            | "sizeof"
            | "static"
            | "static_assert"
            | "static_cast"
            | "struct"
            | "switch"
            | "template"
            | "this"
            | "thread_local"
            | "throw"
            | "true"
            | "try"
            | "typedef"
            | "typeid"
            | "typename"
            | "union"
            | "unsigned"
            | "using"
            | "virtual"
            | "void"
            | "volatile"
            | "while"
            | "device"
            | "constant"
            | "threadgroup"
            | "thread"
            | "kernel"
            | "vertex"
            | "fragment"
            | "concept"
            | "requires"
            | "__attribute__"
            | "__asm__"
            | "__asm"
            | "dynamic_extent_never"
    )
}

/// Words of a built-in arithmetic type.
pub(super) fn is_arithmetic_word(word: &str) -> bool {
    matches!(
        word,
        "void" | "bool" | "char" | "short" | "int" | "long" | "float" | "double" | "signed" | "unsigned"
    )
}

fn address_space(word: &str) -> Option<AddressSpace> {
    Some(match word {
        "device" | "__device" => AddressSpace::Device,
        "constant" | "__constant" => AddressSpace::Constant,
        "threadgroup" | "__threadgroup" => AddressSpace::Threadgroup,
        "thread" | "__thread" => AddressSpace::Thread,
        _ => return None,
    })
}

/// The specifiers at the start of a declaration.
#[derive(Debug, Default)]
pub(super) struct DeclSpecs {
    pub specs: Specifiers,
    pub ty: Option<Ty>,
    pub kernel: Option<Span>,
    pub attrs: Vec<Attr>,
    pub typedef: bool,
    /// A named record or enum defined here; its declaration comes before that of the declarators.
    pub defined: Option<Decl>,
}

impl Parser<'_> {
    /// Does a qualifier (`const`, an address space, …) stand here?
    pub(super) fn at_qualifier(&self) -> bool {
        self.word().is_some_and(|w| {
            address_space(w).is_some()
                || matches!(w, "const" | "volatile" | "restrict" | "__restrict" | "__restrict__")
                || (w == "coherent" && self.coherent_here())
        })
    }

    /// `coherent` is a qualifier before a type or in `coherent(device)`, `coherent(system)`, and an identifier elsewhere.
    fn coherent_here(&self) -> bool {
        match &self.peek_nth(1).kind {
            TokenKind::Ident(_) => true,
            TokenKind::Punct(Punct::LParen) => matches!(
                self.peek_nth(2).ident().map(|n| n.as_str()),
                Some("device" | "system" | "threadgroup")
            ),
            TokenKind::Punct(p) => matches!(p, Punct::Star | Punct::Amp),
            _ => false,
        }
    }

    /// Consumes one qualifier, if there is one.
    pub(super) fn qualifier(&mut self, quals: &mut Quals) -> PResult<bool> {
        let Some(word) = self.word() else {
            return Ok(false);
        };
        if let Some(space) = address_space(word) {
            let span = self.span();
            // `thread` is what a type without an address space has, so Metal's compiler takes it beside another one, which counts.
            let plain = |space| space == AddressSpace::Thread;
            if let Some((old, first)) = quals.space
                && old != space
                && !plain(old)
                && !plain(space)
            {
                return Err(Box::new(
                    Diagnostic::error(
                        "E0304",
                        format!(
                            "address spaces '{}' and '{}' exclude each other",
                            old.keyword(),
                            space.keyword()
                        ),
                        span,
                    )
                    .label("second address space")
                    .secondary(first, "first address space"),
                ));
            }
            if quals.space.is_none_or(|(old, _)| plain(old)) {
                quals.space = Some((space, span));
            }
        } else {
            match word {
                "const" => quals.is_const = true,
                "volatile" => quals.is_volatile = true,
                "restrict" | "__restrict" | "__restrict__" => {}
                "coherent" if self.coherent_here() => {
                    quals.is_coherent = true;
                    if self.nth_is(1, Punct::LParen) {
                        self.bump();
                        self.bump();
                        self.bump();
                        self.expect(Punct::RParen)?;
                        return Ok(true);
                    }
                }
                _ => return Ok(false),
            }
        }
        self.bump();
        Ok(true)
    }

    /// All qualifiers at this point.
    pub(super) fn qualifiers(&mut self, quals: &mut Quals) -> PResult<()> {
        while self.qualifier(quals)? {}
        Ok(())
    }

    /// The specifiers of a declaration: storage, qualifiers, attributes and one type.
    pub(super) fn decl_specifiers(&mut self, context: Context) -> PResult<DeclSpecs> {
        self.enter()?;
        let mut out = DeclSpecs::default();
        let mut quals = Quals::default();
        let start = self.span();
        let mut type_start = start;
        let mut type_end = start;
        loop {
            if self.at_attribute() {
                self.attributes(&mut out.attrs)?;
                continue;
            }
            if self.qualifier(&mut quals)? {
                if out.ty.is_some() {
                    type_end = self.last_span();
                }
                continue;
            }
            let Some(word) = self.word() else { break };
            let specs = &mut out.specs;
            match word {
                "static" => specs.is_static = true,
                "extern" => specs.is_extern = true,
                "inline" | "__inline" | "__inline__" | "__forceinline" => specs.is_inline = true,
                "constexpr" | "consteval" | "constinit" => specs.is_constexpr = true,
                "friend" => specs.is_friend = true,
                "mutable" => specs.is_mutable = true,
                "explicit" => {
                    specs.is_explicit = true;
                    if self.nth_is(1, Punct::LParen) {
                        self.bump();
                        self.skip_group();
                        continue;
                    }
                }
                "__extension__" => {}
                "typedef" => out.typedef = true,
                "kernel" | "__kernel" => out.kernel = Some(self.span()),
                _ => {
                    if out.ty.is_some() {
                        break;
                    }
                    refuse::keyword(word, self.span())?;
                    type_start = self.span();
                    match self.type_specifier(context, &mut out)? {
                        Some(ty) => {
                            type_end = self.last_span();
                            out.ty = Some(ty);
                        }
                        None => break,
                    }
                    continue;
                }
            }
            self.bump();
        }
        if let Some(ty) = &mut out.ty {
            merge_quals(&mut ty.quals, quals)?;
            ty.span = type_start.to(type_end);
        } else if quals != Quals::default() && !self.at_constructor_like() {
            self.leave();
            return self.expected("a type");
        }
        self.leave();
        Ok(out)
    }

    /// After qualifiers without a type only an operator, constructor or destructor may follow.
    fn at_constructor_like(&self) -> bool {
        self.at_word("operator") || self.at(Punct::Tilde)
    }

    /// One type specifier, without qualifiers. `None` when there is none (a constructor's name follows, for one).
    fn type_specifier(&mut self, context: Context, out: &mut DeclSpecs) -> PResult<Option<Ty>> {
        let start = self.span();
        let Some(word) = self.word() else {
            return Ok(None);
        };
        if is_arithmetic_word(word) {
            let kind = TyKind::Builtin(self.arithmetic()?);
            return Ok(Some(self.plain(kind, start)));
        }
        match word {
            "auto" => {
                self.bump();
                return Ok(Some(self.plain(TyKind::Auto, start)));
            }
            "decltype" | "__typeof__" | "typeof" => {
                let kind = self.decltype()?;
                if let TyKind::Decltype(e) = kind {
                    if self.at(Punct::ColonColon) {
                        let path = self.path_after_root(PathRoot::Decltype(e), start, true)?;
                        return Ok(Some(self.plain(TyKind::Path(path), start)));
                    }
                    return Ok(Some(self.plain(TyKind::Decltype(e), start)));
                }
                return Ok(Some(self.plain(kind, start)));
            }
            "typename" if self.peek_nth(1).ident().is_some_and(|w| w.as_str() == "decltype") => {
                self.bump();
                return self.type_specifier(context, out);
            }
            "typename" => {
                self.bump();
                let path = self.path(true)?;
                return Ok(Some(self.plain(TyKind::Path(path), start)));
            }
            "struct" | "class" | "union" => {
                let kind = match word {
                    "struct" => RecordKind::Struct,
                    "class" => RecordKind::Class,
                    _ => RecordKind::Union,
                };
                return self.record_specifier(kind, out).map(Some);
            }
            "enum" => return self.enum_specifier(out).map(Some),
            _ => {}
        }
        if is_keyword(word) || self.at_constructor_name(context) {
            return Ok(None);
        }
        let path = self.path(true)?;
        self.check_library(&path)?;
        Ok(Some(self.plain(TyKind::Path(path), start)))
    }

    pub(super) fn plain(&self, kind: TyKind, start: Span) -> Ty {
        Ty {
            kind,
            quals: Quals::default(),
            span: self.since(start),
        }
    }

    /// Is this the name of a constructor: `X(` inside `X`, or `X::X(` and `X<T>::X(` outside?
    fn at_constructor_name(&mut self, context: Context) -> bool {
        if context == Context::Record {
            if self.pending_name().is_none_or(|n| self.peek().ident() != Some(&n)) {
                return false;
            }
            if self.nth_is(1, Punct::Lt) {
                // `X<T>(…)`, which C++17 allows for a constructor of `X<T>`.
                let mark = self.mark();
                self.bump();
                let found = self.template_args().is_ok() && self.at(Punct::LParen);
                self.reset(mark);
                return found;
            }
            return self.nth_is(1, Punct::LParen);
        }
        if context != Context::Namespace {
            return false;
        }
        if self.nth_is(1, Punct::LParen) {
            // A deduction guide.
            return self
                .word()
                .is_some_and(|w| self.scopes.kind(w) == NameKind::TypeTemplate)
                && self.at_guide();
        }
        if !self.nth_is(1, Punct::ColonColon) && !self.nth_is(1, Punct::Lt) {
            return false;
        }
        let mark = self.mark();
        let path = self.path(true);
        let here = self.at(Punct::LParen);
        self.reset(mark);
        match path {
            Ok(path) if path.segments.len() >= 2 && here => {
                path.segments[path.segments.len() - 2].ident.name == path.last().ident.name
            }
            _ => false,
        }
    }

    /// `X(…) ->`
    fn at_guide(&mut self) -> bool {
        let mark = self.mark();
        self.bump();
        self.skip_group();
        let arrow = self.at(Punct::Arrow);
        self.reset(mark);
        arrow
    }

    /// `decltype(e)`, `decltype(auto)`
    pub(super) fn decltype(&mut self) -> PResult<TyKind> {
        self.bump();
        let open = self.expect(Punct::LParen)?;
        if self.at_word("auto") && self.nth_is(1, Punct::RParen) {
            self.bump();
            self.bump();
            return Ok(TyKind::DecltypeAuto);
        }
        let no_gt = std::mem::replace(&mut self.no_gt, false);
        let e = self.expression()?;
        self.no_gt = no_gt;
        self.expect_close(Punct::RParen, open)?;
        Ok(TyKind::Decltype(Box::new(e)))
    }

    /// `unsigned long int` and its like, in any order.
    pub(super) fn arithmetic(&mut self) -> PResult<BuiltinTy> {
        let start = self.span();
        let mut base: Option<&str> = None;
        let (mut signed, mut unsigned, mut short, mut long) = (false, false, false, 0);
        while let Some(word) = self.word() {
            let repeated = match word {
                "signed" => std::mem::replace(&mut signed, true),
                "unsigned" => std::mem::replace(&mut unsigned, true),
                "short" => std::mem::replace(&mut short, true),
                "long" => {
                    long += 1;
                    long > 2
                }
                "const" | "volatile" if matches!(self.peek_nth(1).ident(), Some(n) if is_arithmetic_word(n)) => {
                    // `unsigned const int` is rare enough to ask for the usual order.
                    return self.expected("the qualifier before or after the whole type");
                }
                _ if is_arithmetic_word(word) => base.replace(word).is_some(),
                _ => break,
            };
            self.bump();
            if repeated {
                return Err(Box::new(
                    Diagnostic::error("E0305", "these type words do not go together", self.since(start))
                        .label("not a type"),
                ));
            }
        }
        let ty = match (base.unwrap_or("int"), signed, unsigned, short, long) {
            ("void", false, false, false, 0) => BuiltinTy::Void,
            ("bool", false, false, false, 0) => BuiltinTy::Bool,
            ("float", false, false, false, 0) => BuiltinTy::Float,
            ("double", false, false, false, 0 | 1) => BuiltinTy::Double,
            ("char", _, false, false, 0) => BuiltinTy::Char,
            ("char", false, true, false, 0) => BuiltinTy::UChar,
            ("int", _, false, true, 0) => BuiltinTy::Short,
            ("int", false, true, true, 0) => BuiltinTy::UShort,
            ("int", _, false, false, 0) => BuiltinTy::Int,
            ("int", false, true, false, 0) => BuiltinTy::UInt,
            ("int", _, false, false, 1 | 2) => BuiltinTy::Long,
            ("int", false, true, false, 1 | 2) => BuiltinTy::ULong,
            _ => {
                return Err(Box::new(
                    Diagnostic::error("E0305", "these type words do not go together", self.since(start))
                        .label("not a type"),
                ));
            }
        };
        Ok(ty)
    }

    /// A type alone, as in a cast or a template argument: specifiers and an abstract declarator.
    pub(super) fn type_id(&mut self) -> PResult<Ty> {
        self.enter()?;
        let base = self.type_specifiers_only()?;
        let ty = self.abstract_declarator(base)?;
        self.leave();
        Ok(ty)
    }

    /// A type without declarator: qualifiers and one specifier, in any order.
    pub(super) fn type_specifiers_only(&mut self) -> PResult<Ty> {
        let start = self.span();
        let mut specs = DeclSpecs::default();
        let mut quals = Quals::default();
        self.qualifiers(&mut quals)?;
        let found = match self.word() {
            Some(word) => {
                refuse::keyword(word, self.span())?;
                self.type_specifier(Context::Block, &mut specs)?
            }
            None if self.at(Punct::ColonColon) => {
                let path = self.path(true)?;
                Some(self.plain(TyKind::Path(path), start))
            }
            None => None,
        };
        let Some(mut ty) = found else {
            return self.expected("a type");
        };
        self.qualifiers(&mut quals)?;
        merge_quals(&mut ty.quals, quals)?;
        ty.span = self.since(start);
        Ok(ty)
    }

    /// Nothing but a path, without qualifiers or declarator?
    pub(super) fn bare_path(ty: &Ty) -> Option<&Path> {
        match &ty.kind {
            TyKind::Path(path) if ty.quals == Quals::default() => Some(path),
            _ => None,
        }
    }

    /// Could this type not also be an expression? A bare path is a type when its name is known as one.
    pub(super) fn is_certainly_type(&self, ty: &Ty) -> bool {
        match Self::bare_path(ty) {
            Some(path) => self.kind_of(path).is_type(),
            None => true,
        }
    }

    /// What a path names. With template arguments, a type template gives a type.
    pub(super) fn kind_of(&self, path: &Path) -> NameKind {
        let names: Vec<_> = path.segments.iter().map(|s: &Segment| &s.ident.name).collect();
        self.scopes.path_kind(&path.root, &names)
    }
}

/// Adds the qualifiers of a declaration to those of its type.
fn merge_quals(into: &mut Quals, more: Quals) -> PResult<()> {
    into.is_const |= more.is_const;
    into.is_volatile |= more.is_volatile;
    into.is_coherent |= more.is_coherent;
    if more.space.is_some() {
        into.space = more.space;
    }
    Ok(())
}
