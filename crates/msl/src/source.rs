//! Source files, spans and macro expansions.
//!
//! A [`Span`] is a byte range of one file. A token that comes out of a macro points at the place where the macro was
//! used in the file (its expansion site) and remembers the expansion, so that a diagnostic can show both the use and
//! the definition. A token that was written as a macro *argument* keeps its own place.

use std::sync::Arc;

/// Index of a file in a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileId(pub u32);

/// Index of a macro expansion in a [`SourceMap`]; [`ExpansionId::NONE`] for text that is in the file as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ExpansionId(pub u32);

impl ExpansionId {
    /// Not from a macro.
    pub const NONE: ExpansionId = ExpansionId(0);
}

/// A byte range `lo..hi` of a file, with the macro expansion it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub lo: u32,
    /// One past the last byte.
    pub hi: u32,
    /// The innermost macro expansion that produced this text.
    pub expansion: ExpansionId,
}

impl Span {
    /// A span of text that is in the file as written.
    pub fn new(file: FileId, lo: u32, hi: u32) -> Self {
        Span {
            file,
            lo,
            hi,
            expansion: ExpansionId::NONE,
        }
    }

    /// The smallest span that covers both. Spans of different files keep the first.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        let expansion = if self.expansion == other.expansion {
            self.expansion
        } else {
            ExpansionId::NONE
        };
        Span {
            file: self.file,
            lo: self.lo.min(other.lo),
            hi: self.hi.max(other.hi),
            expansion,
        }
    }

    /// The empty span just before this one.
    pub fn start(self) -> Span {
        Span { hi: self.lo, ..self }
    }

    /// The empty span just after this one.
    pub fn end(self) -> Span {
        Span { lo: self.hi, ..self }
    }
}

/// Where a file came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// The source text given to the compiler, or a file that it includes.
    User,
    /// A header that is built into the compiler.
    System,
    /// Text made by the compiler: `-D` definitions, pasted tokens.
    Internal,
}

/// One source file, held in memory.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name shown in diagnostics.
    pub name: String,
    /// The whole text.
    pub text: Arc<str>,
    /// Where it came from.
    pub origin: FileOrigin,
    line_starts: Vec<u32>,
    /// Bytes that begin no character: a column is a difference of bytes less these, however long the line is.
    inside_characters: Vec<u32>,
}

impl SourceFile {
    /// 1-based line and column (in characters) of a byte offset.
    pub fn line_col(&self, offset: u32) -> (u32, u32) {
        let line = self.line_starts.partition_point(|&s| s <= offset).saturating_sub(1);
        let start = self.line_starts[line];
        let end = offset.min(self.text.len() as u32).max(start);
        let inside = |end: u32| self.inside_characters.partition_point(|&at| at < end) as u32;
        (line as u32 + 1, end - start - (inside(end) - inside(start)) + 1)
    }

    /// The text of a 1-based line, without its line ending. Empty when there is no such line.
    pub fn line(&self, line: u32) -> &str {
        let index = line.saturating_sub(1) as usize;
        let Some(&start) = self.line_starts.get(index) else {
            return "";
        };
        let end = self.line_starts.get(index + 1).map_or(self.text.len(), |&e| e as usize);
        self.text
            .get(start as usize..end)
            .unwrap_or("")
            .trim_end_matches(['\n', '\r'])
    }

    /// How many lines the file has.
    pub fn line_count(&self) -> u32 {
        self.line_starts.len() as u32
    }
}

/// One use of a macro.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// The macro's name.
    pub name: String,
    /// The name in its `#define`.
    pub definition: Span,
    /// Where it was used: a place in a file for an outermost macro, the same place for a nested one.
    pub call_site: Span,
    /// The expansion in whose body this one was used.
    pub parent: ExpansionId,
}

/// All the files and macro expansions of one compilation.
#[derive(Clone, Debug)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    expansions: Vec<Expansion>,
}

impl Default for SourceMap {
    fn default() -> Self {
        SourceMap::new()
    }
}

impl SourceMap {
    /// An empty map.
    pub fn new() -> Self {
        SourceMap {
            files: Vec::new(),
            expansions: Vec::new(),
        }
    }

    /// Adds a file and returns its id.
    pub fn add_file(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>, origin: FileOrigin) -> FileId {
        let text: Arc<str> = text.into();
        let mut line_starts = vec![0u32];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(i, _)| i as u32 + 1),
        );
        let inside_characters = (0u32..)
            .zip(text.bytes())
            .filter(|(_, b)| b & 0xc0 == 0x80)
            .map(|(i, _)| i)
            .collect();
        self.files.push(SourceFile {
            name: name.into(),
            text,
            origin,
            line_starts,
            inside_characters,
        });
        FileId(self.files.len() as u32 - 1)
    }

    /// Records a macro expansion.
    pub fn add_expansion(&mut self, expansion: Expansion) -> ExpansionId {
        self.expansions.push(expansion);
        ExpansionId(self.expansions.len() as u32)
    }

    /// The expansion behind an id; `None` for [`ExpansionId::NONE`].
    pub fn expansion(&self, id: ExpansionId) -> Option<&Expansion> {
        (id.0 as usize).checked_sub(1).and_then(|i| self.expansions.get(i))
    }

    /// The file behind an id; `None` when the id is from another map.
    pub fn get(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// All files in the order they were read.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The text a span covers; empty when the span is not of this map.
    pub fn snippet(&self, span: Span) -> &str {
        self.get(span.file)
            .and_then(|f| f.text.get(span.lo as usize..span.hi as usize))
            .unwrap_or("")
    }

    /// `file:line:column` of a span's start, as diagnostics print it.
    pub fn location(&self, span: Span) -> String {
        match self.get(span.file) {
            Some(file) => {
                let (line, col) = file.line_col(span.lo);
                format!("{}:{line}:{col}", file.name)
            }
            None => "<unknown>".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns() {
        let mut map = SourceMap::new();
        let id = map.add_file("a.metal", "ab\ncé d\n", FileOrigin::User);
        let file = map.get(id).unwrap();
        assert_eq!(file.line_col(0), (1, 1));
        assert_eq!(file.line_col(3), (2, 1));
        assert_eq!(file.line_col(5), (2, 3));
        assert_eq!(file.line_col(6), (2, 3));
        assert_eq!(file.line_col(7), (2, 4));
        assert_eq!(file.line_col(99), (3, 1));
        assert_eq!(file.line(2), "cé d");
        assert_eq!(file.line(9), "");
        assert_eq!(map.location(Span::new(id, 3, 4)), "a.metal:2:1");
    }

    #[test]
    fn joining_spans() {
        let a = Span::new(FileId(0), 4, 6);
        let b = Span::new(FileId(0), 1, 2);
        assert_eq!(a.to(b), Span::new(FileId(0), 1, 6));
        assert_eq!(a.to(Span::new(FileId(1), 0, 1)), a);
    }
}
