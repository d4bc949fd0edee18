//! Macro definitions and expansion.
//!
//! Expansion works on a stack of tokens. A macro's replacement is pushed back with an end marker below it; while the marker
//! is on the stack the macro is disabled, and a mention of it is marked `no_expand` for good. That is the rule of the C
//! standard in the usual reading: an argument list may begin inside a replacement and end after it.

use std::collections::HashMap;
use std::rc::Rc;

use super::{Preprocessor, Step, limits};
use crate::ast::Name;
use crate::diagnostics::Diagnostic;
use crate::lexer;
use crate::source::{Expansion, ExpansionId, FileId, FileOrigin, Span};
use crate::token::{Punct, Token, TokenKind};

/// A macro definition.
#[derive(Debug)]
pub(super) struct Macro {
    /// The name in its `#define`.
    pub definition: Span,
    /// Parameter names; `None` for an object-like macro.
    pub params: Option<Vec<Name>>,
    /// The last parameter takes all remaining arguments.
    pub variadic: bool,
    /// The replacement.
    pub body: Vec<Token>,
}

/// Macros whose value is made on the spot.
pub(super) fn is_dynamic(name: &str) -> bool {
    matches!(
        name,
        "__FILE__" | "__LINE__" | "__COUNTER__" | "__FILE_NAME__" | "__INCLUDE_LEVEL__"
    )
}

impl Preprocessor<'_> {
    /// `#define`; `rest` begins with the name.
    pub(super) fn define(&mut self, span: Span, rest: &[Token]) -> Step {
        let Some(name) = rest.first().and_then(|t| t.ident()).cloned() else {
            let at = rest.first().map_or(span, |t| t.span);
            return self.report(Diagnostic::error("E0104", "macro name missing after '#define'", at));
        };
        let definition = rest[0].span;
        if matches!(
            name.as_str(),
            "defined" | "__has_include" | "__VA_ARGS__" | "__VA_OPT__"
        ) {
            return self.report(Diagnostic::error(
                "E0104",
                format!("'{name}' cannot be a macro name"),
                definition,
            ));
        }
        let mut params = None;
        let mut variadic = false;
        let mut at = 1;
        if rest.get(1).is_some_and(|t| t.is(Punct::LParen) && !t.space_before) {
            let mut names: Vec<Name> = Vec::new();
            at = 2;
            loop {
                let Some(token) = rest.get(at) else {
                    return self.report(
                        Diagnostic::error("E0104", "')' missing in the parameter list of a macro", definition)
                            .label(format!("parameters of '{name}'")),
                    );
                };
                at += 1;
                match &token.kind {
                    TokenKind::Punct(Punct::RParen) => break,
                    TokenKind::Punct(Punct::Comma) if !names.is_empty() && !variadic => {}
                    TokenKind::Punct(Punct::Ellipsis) if !variadic => {
                        variadic = true;
                        // `args...` names the rest `args`; a bare `...` names it `__VA_ARGS__`.
                        let named = rest.get(at.wrapping_sub(2)).and_then(|t| t.ident()).is_some();
                        if !named {
                            names.push(self.interner.intern("__VA_ARGS__"));
                        }
                    }
                    TokenKind::Ident(p) if !variadic => {
                        if names.contains(p) {
                            return self.report(Diagnostic::error(
                                "E0104",
                                format!("duplicate macro parameter '{p}'"),
                                token.span,
                            ));
                        }
                        names.push(p.clone());
                    }
                    _ => {
                        return self.report(
                            Diagnostic::error(
                                "E0104",
                                format!("unexpected {} in the parameter list of a macro", token.describe()),
                                token.span,
                            )
                            .label("expected a parameter name, ',' or ')'"),
                        );
                    }
                }
            }
            params = Some(names);
        }
        let mut body: Vec<Token> = rest[at.min(rest.len())..].to_vec();
        if let Some(first) = body.first_mut() {
            first.space_before = false;
        }
        if body.first().is_some_and(|t| t.is(Punct::HashHash)) || body.last().is_some_and(|t| t.is(Punct::HashHash)) {
            return self.report(
                Diagnostic::error("E0108", "'##' cannot stand at either end of a macro", definition)
                    .label(format!("in the definition of '{name}'")),
            );
        }
        let same = |old: &Macro| {
            old.params == params
                && old.variadic == variadic
                && old.body.len() == body.len()
                && old.body.iter().zip(&body).all(|(a, b)| a.kind == b.kind)
        };
        if let Some(old) = self.macros.get(&name)
            && !same(old)
        {
            let previous = old.definition;
            let origin = self.sources.get(previous.file).map(|f| f.origin);
            if origin == Some(FileOrigin::User) {
                let d = Diagnostic::warning("W0104", format!("macro '{name}' is redefined"), definition)
                    .label("defined again here")
                    .secondary(previous, "the previous definition");
                self.report(d)?;
            }
        }
        self.macros.insert(
            name,
            Rc::new(Macro {
                definition,
                params,
                variadic,
                body,
            }),
        );
        Ok(())
    }

    /// Expands all macros in a run of tokens.
    pub(super) fn expand(&mut self, tokens: Vec<Token>) -> Step<Vec<Token>> {
        self.expand_nested(tokens, &mut HashMap::new(), 0)
    }

    /// `active` counts the macros whose replacements are being rescanned.
    fn expand_nested(
        &mut self,
        tokens: Vec<Token>,
        active: &mut HashMap<Name, usize>,
        depth: usize,
    ) -> Step<Vec<Token>> {
        if depth > limits::ARGUMENT_DEPTH {
            let span = tokens.first().map_or(Span::default(), |t| t.span);
            return self.fatal(
                Diagnostic::error(
                    "E0113",
                    format!("macro arguments are nested more than {} deep", limits::ARGUMENT_DEPTH),
                    span,
                )
                .label("while expanding this"),
            );
        }
        let mut stack = tokens;
        stack.reverse();
        let mut out = Vec::with_capacity(stack.len());
        while let Some(mut token) = stack.pop() {
            let name = match &token.kind {
                TokenKind::EndMacro(name) => {
                    deactivate(active, name);
                    continue;
                }
                TokenKind::Ident(name) if !token.no_expand => name.clone(),
                _ => {
                    out.push(token);
                    continue;
                }
            };
            if name.as_str() == "_Pragma" {
                self.pragma_operator(&token, &mut stack, active, &mut out)?;
                continue;
            }
            if is_dynamic(&name) {
                out.push(self.dynamic(&name, &token));
                continue;
            }
            let Some(definition) = self.macros.get(&name).cloned() else {
                out.push(token);
                continue;
            };
            if active.get(&name).is_some_and(|n| *n > 0) {
                token.no_expand = true;
                out.push(token);
                continue;
            }
            let args = match &definition.params {
                None => None,
                Some(params) => {
                    if !next_is_open_paren(&stack) {
                        out.push(token);
                        continue;
                    }
                    let args = self.arguments(&name, &token, &definition, params.len(), &mut stack, active)?;
                    match args {
                        Some(args) => Some(args),
                        // The call was malformed and has been reported: leave the name alone.
                        None => continue,
                    }
                }
            };
            let expansion = self.sources.add_expansion(Expansion {
                name: name.to_string(),
                definition: definition.definition,
                call_site: token.span,
                parent: token.span.expansion,
            });
            let site = Span {
                expansion,
                ..token.span
            };
            let mut body = self.substitute(&definition, args, site, active, depth)?;
            if let Some(first) = body.first_mut() {
                first.space_before = token.space_before;
                first.line_start = token.line_start;
            }
            self.expanded += body.len() + 1;
            if self.expanded > limits::EXPANSION_TOKENS {
                return self.fatal(
                    Diagnostic::error(
                        "E0114",
                        format!("macro expansion produces more than {} tokens", limits::EXPANSION_TOKENS),
                        Span {
                            expansion: ExpansionId::NONE,
                            ..token.span
                        },
                    )
                    .label(format!("while expanding '{name}'")),
                );
            }
            *active.entry(name.clone()).or_insert(0) += 1;
            stack.push(Token::new(TokenKind::EndMacro(name), token.span));
            stack.extend(body.into_iter().rev());
        }
        Ok(out)
    }

    /// `__LINE__` and its like.
    fn dynamic(&mut self, name: &str, token: &Token) -> Token {
        let file = self.sources.get(token.span.file);
        let kind = match name {
            "__LINE__" => {
                let line = file.map_or(0, |f| f.line_col(token.span.lo).0);
                TokenKind::Number(self.interner.intern(&line.to_string()))
            }
            "__COUNTER__" => {
                let n = self.counter;
                self.counter += 1;
                TokenKind::Number(self.interner.intern(&n.to_string()))
            }
            "__INCLUDE_LEVEL__" => TokenKind::Number(self.interner.intern(&self.include_depth.to_string())),
            _ => {
                let path = file.map_or("", |f| f.name.as_str());
                let shown = if name == "__FILE__" {
                    path
                } else {
                    path.rsplit('/').next().unwrap_or(path)
                };
                let text = format!("\"{}\"", shown.replace('\\', "\\\\").replace('"', "\\\""));
                TokenKind::Str(self.interner.intern(&text))
            }
        };
        Token { kind, ..token.clone() }
    }

    /// Takes the arguments of a call off the stack. `None` when the call is malformed (already reported).
    fn arguments(
        &mut self,
        name: &Name,
        token: &Token,
        definition: &Macro,
        params: usize,
        stack: &mut Vec<Token>,
        active: &mut HashMap<Name, usize>,
    ) -> Step<Option<Vec<Vec<Token>>>> {
        let mut args: Vec<Vec<Token>> = vec![Vec::new()];
        let mut depth = 0usize;
        loop {
            let Some(t) = stack.pop() else {
                let d = Diagnostic::error("E0109", format!("unterminated call of macro '{name}'"), token.span)
                    .label("the argument list is not closed")
                    .secondary(definition.definition, "defined here");
                self.report(d)?;
                return Ok(None);
            };
            match &t.kind {
                TokenKind::EndMacro(ended) => {
                    deactivate(active, ended);
                    continue;
                }
                TokenKind::Punct(Punct::LParen) => {
                    depth += 1;
                    if depth == 1 {
                        continue;
                    }
                }
                TokenKind::Punct(Punct::RParen) => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                TokenKind::Punct(Punct::Comma) if depth == 1 && !(definition.variadic && args.len() >= params) => {
                    args.push(Vec::new());
                    continue;
                }
                // A name that is disabled here stays disabled.
                TokenKind::Ident(n) if active.get(n).is_some_and(|c| *c > 0) => {
                    let mut t = t;
                    t.no_expand = true;
                    push_arg(&mut args, t);
                    continue;
                }
                _ => {}
            }
            push_arg(&mut args, t);
        }
        let given = args.len();
        if params == 0 && given == 1 && args[0].is_empty() {
            return Ok(Some(Vec::new()));
        }
        if definition.variadic && given + 1 == params {
            args.push(Vec::new());
            return Ok(Some(args));
        }
        if given != params {
            let wants = match (definition.variadic, params) {
                (true, n) => format!("at least {}", n - 1),
                (false, n) => n.to_string(),
            };
            let d = Diagnostic::error(
                "E0109",
                format!(
                    "macro '{name}' takes {wants} argument{}, got {given}",
                    if wants == "1" { "" } else { "s" }
                ),
                token.span,
            )
            .label("called here")
            .secondary(definition.definition, "defined here");
            self.report(d)?;
            return Ok(None);
        }
        Ok(Some(args))
    }

    /// The replacement with its arguments in place, stringised and pasted.
    fn substitute(
        &mut self,
        definition: &Macro,
        args: Option<Vec<Vec<Token>>>,
        site: Span,
        active: &mut HashMap<Name, usize>,
        depth: usize,
    ) -> Step<Vec<Token>> {
        let params = definition.params.as_deref().unwrap_or(&[]);
        let mut call = Call {
            params,
            variadic: definition.variadic,
            args: args.unwrap_or_default(),
            expanded: vec![None; params.len()],
            site,
        };
        let replaced = self.replace(&definition.body, &mut call, active, depth)?;
        self.paste(replaced, site)
    }

    /// Arguments and `#`; `##` stays for [`Preprocessor::paste`].
    fn replace(
        &mut self,
        body: &[Token],
        call: &mut Call<'_>,
        active: &mut HashMap<Name, usize>,
        depth: usize,
    ) -> Step<Vec<Token>> {
        let function_like = !call.params.is_empty();
        let mut out: Vec<Token> = Vec::with_capacity(body.len());
        let mut i = 0;
        while i < body.len() {
            let token = &body[i];
            if function_like
                && token.is(Punct::Hash)
                && let Some(n) = body.get(i + 1).and_then(|t| call.param(t))
            {
                let text = stringise(&call.args[n]);
                let mut string = Token::new(TokenKind::Str(self.interner.intern(&text)), call.site);
                string.space_before = token.space_before;
                out.push(string);
                i += 2;
                continue;
            }
            if call.variadic && token.is_ident("__VA_OPT__") && body.get(i + 1).is_some_and(|t| t.is(Punct::LParen)) {
                let Some(close) = matching_paren(body, i + 1) else {
                    self.report(Diagnostic::error("E0108", "'__VA_OPT__' is not closed", token.span))?;
                    return Ok(out);
                };
                let last = call.params.len() - 1;
                let present = !self.expanded_arg(call, last, active, depth)?.is_empty();
                if present {
                    let inner = self.replace(&body[i + 2..close], call, active, depth)?;
                    out.extend(inner);
                } else {
                    out.push(Token::new(TokenKind::Placemarker, call.site));
                }
                i = close + 1;
                continue;
            }
            let Some(n) = call.param(token) else {
                let mut copy = token.clone();
                copy.span = call.site;
                copy.line_start = false;
                if token.is(Punct::HashHash) {
                    // Told apart from a `##` that comes in an argument.
                    copy.no_expand = true;
                }
                out.push(copy);
                i += 1;
                continue;
            };
            let pasted_before = i > 0 && body[i - 1].is(Punct::HashHash);
            let pasted_after = body.get(i + 1).is_some_and(|t| t.is(Punct::HashHash));
            let comma_paste =
                pasted_before && call.variadic && n + 1 == call.params.len() && i >= 2 && body[i - 2].is(Punct::Comma);
            if comma_paste {
                // `, ## __VA_ARGS__`: the comma goes when there is no argument, and nothing is pasted otherwise.
                out.pop();
                if call.args[n].is_empty() {
                    out.pop();
                    i += 1;
                    continue;
                }
            }
            let raw = (pasted_before && !comma_paste) || pasted_after;
            let arg = if raw {
                call.args[n].clone()
            } else {
                self.expanded_arg(call, n, active, depth)?
            };
            if arg.is_empty() {
                out.push(Token::new(TokenKind::Placemarker, call.site));
            }
            for (k, mut t) in arg.into_iter().enumerate() {
                if k == 0 {
                    t.space_before = token.space_before;
                }
                t.line_start = false;
                out.push(t);
            }
            i += 1;
        }
        Ok(out)
    }

    /// An argument after full expansion, made once a call.
    fn expanded_arg(
        &mut self,
        call: &mut Call<'_>,
        n: usize,
        active: &mut HashMap<Name, usize>,
        depth: usize,
    ) -> Step<Vec<Token>> {
        if let Some(done) = &call.expanded[n] {
            return Ok(done.clone());
        }
        let result = self.expand_nested(call.args[n].clone(), active, depth + 1)?;
        call.expanded[n] = Some(result.clone());
        Ok(result)
    }

    /// Applies `##` and drops placemarkers.
    fn paste(&mut self, tokens: Vec<Token>, site: Span) -> Step<Vec<Token>> {
        let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
        let mut tokens = tokens.into_iter();
        while let Some(token) = tokens.next() {
            let operator = token.is(Punct::HashHash) && token.no_expand;
            if !operator {
                out.push(token);
                continue;
            }
            let (Some(left), Some(right)) = (out.pop(), tokens.next()) else {
                continue;
            };
            if matches!(right.kind, TokenKind::Placemarker) {
                out.push(left);
                continue;
            }
            if matches!(left.kind, TokenKind::Placemarker) {
                out.push(right);
                continue;
            }
            let text = format!("{}{}", left.text(), right.text());
            let mut errors = Vec::new();
            let mut pasted = lexer::lex(FileId::default(), &text, &mut self.interner, &mut errors);
            match (pasted.pop(), pasted.is_empty() && errors.is_empty()) {
                (Some(mut one), true) => {
                    one.span = site;
                    one.line_start = false;
                    one.space_before = left.space_before;
                    out.push(one);
                }
                _ => {
                    let d = Diagnostic::error(
                        "E0108",
                        format!(
                            "pasting {} and {} does not give one token",
                            left.describe(),
                            right.describe()
                        ),
                        site,
                    )
                    .label("in this macro");
                    self.report(d)?;
                    out.push(left);
                    out.push(right);
                }
            }
        }
        out.retain(|t| !matches!(t.kind, TokenKind::Placemarker));
        Ok(out)
    }

    /// `_Pragma("text")`
    fn pragma_operator(
        &mut self,
        token: &Token,
        stack: &mut Vec<Token>,
        active: &mut HashMap<Name, usize>,
        out: &mut Vec<Token>,
    ) -> Step {
        let mut parts = Vec::new();
        while parts.len() < 3 {
            match stack.pop() {
                Some(Token {
                    kind: TokenKind::EndMacro(name),
                    ..
                }) => deactivate(active, &name),
                Some(t) => parts.push(t),
                None => break,
            }
        }
        if let [
            open,
            Token {
                kind: TokenKind::Str(text),
                ..
            },
            close,
        ] = parts.as_slice()
            && open.is(Punct::LParen)
            && close.is(Punct::RParen)
        {
            let text = lexer::unescape(text);
            let mut tokens = lexer::lex(FileId::default(), &text, &mut self.interner, &mut Vec::new());
            for t in &mut tokens {
                t.span = token.span;
                t.line_start = false;
            }
            if let Some(pragma) = self.parse_pragma(token.span, &tokens)? {
                out.push(pragma);
            }
            return Ok(());
        }
        self.report(
            Diagnostic::error("E0115", "'_Pragma' takes one string in parentheses", token.span)
                .help("write _Pragma(\"clang loop unroll(full)\")"),
        )
    }
}

/// One call of a macro while its body is replaced.
struct Call<'m> {
    params: &'m [Name],
    variadic: bool,
    args: Vec<Vec<Token>>,
    expanded: Vec<Option<Vec<Token>>>,
    site: Span,
}

impl Call<'_> {
    /// The index of the parameter a token names.
    fn param(&self, token: &Token) -> Option<usize> {
        let name = token.ident()?;
        let n = self.params.iter().position(|p| p == name)?;
        (n < self.args.len()).then_some(n)
    }
}

fn push_arg(args: &mut [Vec<Token>], token: Token) {
    if let Some(last) = args.last_mut() {
        last.push(token);
    }
}

fn deactivate(active: &mut HashMap<Name, usize>, name: &Name) {
    if let Some(n) = active.get_mut(name) {
        *n = n.saturating_sub(1);
    }
}

/// Is the next real token `(`?
fn next_is_open_paren(stack: &[Token]) -> bool {
    stack
        .iter()
        .rev()
        .find(|t| !matches!(t.kind, TokenKind::EndMacro(_)))
        .is_some_and(|t| t.is(Punct::LParen))
}

/// The index of the `)` that closes the `(` at `open`.
fn matching_paren(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, t) in tokens.iter().enumerate().skip(open) {
        if t.is(Punct::LParen) {
            depth += 1;
        } else if t.is(Punct::RParen) {
            depth -= 1;
            if depth == 0 {
                return Some(i);
            }
        }
    }
    None
}

/// `#x`: the spelling of an argument as a string literal.
fn stringise(tokens: &[Token]) -> String {
    let mut out = String::from("\"");
    for (i, t) in tokens.iter().enumerate() {
        if i > 0 && (t.space_before || t.line_start) {
            out.push(' ');
        }
        let literal = matches!(t.kind, TokenKind::Str(_) | TokenKind::Char(_));
        for c in t.text().chars() {
            if literal && matches!(c, '"' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out.push('"');
    out
}
