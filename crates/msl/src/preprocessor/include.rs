//! `#include`: which file a name means, and reading it.
//!
//! Order for `"name"`: beside the including file, then as for `<name>`: files in memory, the `-I` directories in order, the
//! embedded system headers. A compilation with `allow_files` off never touches the disk.

use std::path::{Path, PathBuf};

use super::{Preprocessor, Step, limits};
use crate::diagnostics::Diagnostic;
use crate::headers;
use crate::options::CompileOptions;
use crate::source::{FileId, FileOrigin, Span};
use crate::token::{Punct, Token, TokenKind};

/// What identifies a file for `#pragma once`, and what its own includes are relative to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FilePlace {
    /// A file in memory, by name.
    Virtual(String),
    /// A file on disk.
    Disk(PathBuf),
    /// An embedded header.
    System(&'static str),
}

impl FilePlace {
    /// The place of the main source: beside it, includes are searched in memory and on disk.
    pub(super) fn of_main(file_name: &str, options: &CompileOptions) -> FilePlace {
        if options.allow_files {
            FilePlace::Disk(PathBuf::from(file_name))
        } else {
            FilePlace::Virtual(file_name.into())
        }
    }
}

enum Found {
    Text {
        place: FilePlace,
        text: String,
        shown: String,
    },
    Embedded(&'static headers::Header),
    Unreadable(String),
}

impl Preprocessor<'_> {
    /// `#include`; `rest` is the header name, possibly through macros.
    pub(super) fn include(&mut self, span: Span, rest: &[Token], once: bool) -> Step {
        let Some((name, quoted)) = self.header_name(rest)? else {
            return self.report(
                Diagnostic::error("E0101", "'#include' needs a file name", span)
                    .help("write '#include <name>' or '#include \"name\"'"),
            );
        };
        let at = match (rest.first(), rest.last()) {
            (Some(a), Some(b)) => a.span.to(b.span),
            _ => span,
        };
        self.includes += 1;
        if self.includes > limits::INCLUDE_COUNT {
            return self.fatal(Diagnostic::error(
                "E0116",
                format!("more than {} files are included", limits::INCLUDE_COUNT),
                at,
            ));
        }
        if self.include_depth >= limits::INCLUDE_DEPTH {
            return self.fatal(
                Diagnostic::error(
                    "E0116",
                    format!("includes are nested more than {} deep", limits::INCLUDE_DEPTH),
                    at,
                )
                .label(format!("while including '{name}'"))
                .help("does the file include itself? start it with '#pragma once'"),
            );
        }
        match self.find(&name, quoted, span.file) {
            None => self.fatal(self.not_found(&name, quoted, at)),
            Some(Found::Unreadable(why)) => {
                self.fatal(Diagnostic::error("E0101", format!("cannot read '{name}': {why}"), at))
            }
            Some(Found::Embedded(header)) => {
                let key = headers::canonical(header.name);
                self.system_headers.insert(key.to_string());
                self.enter_file(
                    FilePlace::System(header.name),
                    header.text,
                    header.name,
                    once,
                    FileOrigin::System,
                )
            }
            Some(Found::Text { place, text, shown }) => self.enter_file(place, &text, &shown, once, FileOrigin::User),
        }
    }

    fn enter_file(&mut self, place: FilePlace, text: &str, shown: &str, once: bool, origin: FileOrigin) -> Step {
        if self.once.contains(&place) {
            return Ok(());
        }
        if once || origin == FileOrigin::System {
            self.once.insert(place.clone());
        }
        let id = self.sources.add_file(shown, text, origin);
        self.places.insert(id, place);
        self.include_depth += 1;
        let result = self.file(id, text);
        self.include_depth -= 1;
        result
    }

    /// `#pragma once`
    pub(super) fn mark_once(&mut self, file: FileId) {
        if let Some(place) = self.places.get(&file) {
            self.once.insert(place.clone());
        }
    }

    /// Does `__has_include` find it?
    pub(super) fn can_include(&self, name: &str, quoted: bool, from: FileId) -> bool {
        matches!(
            self.find(name, quoted, from),
            Some(Found::Text { .. } | Found::Embedded(_))
        )
    }

    /// The name of an `#include` and whether it was quoted. Macros are expanded when it is neither form.
    pub(super) fn header_name(&mut self, tokens: &[Token]) -> Step<Option<(String, bool)>> {
        if let Some(name) = self.literal_header(tokens) {
            return Ok(Some(name));
        }
        let expanded = self.expand(tokens.to_vec())?;
        Ok(spelled_header(&expanded))
    }

    fn literal_header(&self, tokens: &[Token]) -> Option<(String, bool)> {
        let first = tokens.first()?;
        if first.is(Punct::Lt) && first.span.expansion == Default::default() {
            // As written: `a//b` or `a b` between the brackets is part of the name.
            let close = tokens.iter().find(|t| t.is(Punct::Gt))?;
            let file = self.sources.get(first.span.file)?;
            let name = file.text.get(first.span.hi as usize..close.span.lo as usize)?;
            return Some((name.trim().to_string(), false));
        }
        match &first.kind {
            TokenKind::Str(_) => spelled_header(&tokens[..1]),
            _ => None,
        }
    }

    fn find(&self, name: &str, quoted: bool, from: FileId) -> Option<Found> {
        if quoted && let Some(found) = self.beside(name, from) {
            return Some(found);
        }
        if let Some(found) = self.in_memory(name) {
            return Some(found);
        }
        if self.options.allow_files {
            for dir in &self.options.include_dirs {
                if let Some(found) = on_disk(&dir.join(name)) {
                    return Some(found);
                }
            }
        }
        headers::find(name).map(Found::Embedded)
    }

    fn beside(&self, name: &str, from: FileId) -> Option<Found> {
        match self.places.get(&from)? {
            FilePlace::Virtual(own) => self.in_memory(&sibling(own, name)),
            FilePlace::Disk(own) => {
                if let Some(found) = own.to_str().and_then(|own| self.in_memory(&sibling(own, name))) {
                    return Some(found);
                }
                if !self.options.allow_files {
                    return None;
                }
                on_disk(&own.parent().unwrap_or(Path::new("")).join(name))
            }
            FilePlace::System(_) => None,
        }
    }

    fn in_memory(&self, name: &str) -> Option<Found> {
        let key = normalise(name);
        let text = self
            .options
            .virtual_files
            .get(name)
            .or_else(|| self.options.virtual_files.get(&key))?;
        Some(Found::Text {
            place: FilePlace::Virtual(key.clone()),
            text: text.clone(),
            shown: key,
        })
    }

    fn not_found(&self, name: &str, quoted: bool, at: Span) -> Diagnostic {
        let d = Diagnostic::error("E0101", format!("file '{name}' not found"), at).label("included here");
        if headers::REFUSED.contains(&name) {
            return d.note(
                "this header is for graphics or ray tracing: anymetal runs compute kernels on buffers and tensors",
            );
        }
        let d = if !self.options.allow_files {
            d.note("files on disk are not read for this source")
        } else if self.options.include_dirs.is_empty() {
            d.help("name its directory with -I")
        } else {
            let dirs: Vec<String> = self
                .options
                .include_dirs
                .iter()
                .map(|p| p.display().to_string())
                .collect();
            d.note(format!("searched in: {}", dirs.join(", ")))
        };
        match headers::closest(name) {
            Some(near) if !quoted => d.help(format!("did you mean <{near}>?")),
            _ => d,
        }
    }
}

/// The header name in expanded tokens.
fn spelled_header(tokens: &[Token]) -> Option<(String, bool)> {
    let first = tokens.first()?;
    if let TokenKind::Str(text) = &first.kind {
        // No escapes in a header name.
        let name = text.as_str().strip_prefix('"')?.strip_suffix('"')?;
        return (!name.is_empty()).then(|| (name.to_string(), true));
    }
    if !first.is(Punct::Lt) {
        return None;
    }
    let close = tokens.iter().position(|t| t.is(Punct::Gt))?;
    let name: String = tokens[1..close].iter().map(Token::text).collect();
    (!name.is_empty()).then_some((name, false))
}

fn on_disk(path: &Path) -> Option<Found> {
    if !path.is_file() {
        return None;
    }
    let shown = path.display().to_string();
    if std::fs::metadata(path).is_ok_and(|m| m.len() > limits::FILE_BYTES as u64) {
        return Some(Found::Unreadable(format!("larger than {} bytes", limits::FILE_BYTES)));
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) => return Some(Found::Unreadable(e.to_string())),
    };
    match String::from_utf8(bytes) {
        Ok(text) => {
            let place = FilePlace::Disk(path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
            Some(Found::Text { place, text, shown })
        }
        Err(_) => Some(Found::Unreadable("it is not UTF-8 text".to_string())),
    }
}

/// `name` beside the file `own`, in the name space of files in memory.
fn sibling(own: &str, name: &str) -> String {
    match own.rsplit_once('/') {
        Some((dir, _)) => normalise(&format!("{dir}/{name}")),
        None => normalise(name),
    }
}

/// Resolves `.` and `..` in a name.
fn normalise(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|p| !p.is_empty() && *p != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
