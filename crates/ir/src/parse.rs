//! Reads the text form of a kernel back (see [`mod@crate::print`]). The text may be hostile: errors say where, nothing panics,
//! nesting is limited. The result is well formed as a data structure; [`mod@crate::verify`] says whether it makes sense.

use anymetal_formats::ElementFormat;

use crate::builder::fold;
use crate::kernel::{Access, Argument, ArgumentKind, Block, Inst, Kernel, Local, MemoryObject, ValueInfo};
use crate::lex::{Spanned, Token, lex};
use crate::location::{Location, LocationId};
use crate::op::{Const, Unroll};
use crate::tensor::{ConvolutionDescriptor, CoopRole, Cooperative, LayoutKind, MatmulDescriptor, TensorSpec};
use crate::types::{AddressSpace, ArgumentId, CoopId, LocalId, MemoryId, Scalar, Type, ValueId};

/// Blocks nested deeper than this are refused.
pub const MAX_NESTING: usize = 200;

/// Where and why a text is not a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct ParseError {
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
    /// What was found and what was expected.
    pub message: String,
}

/// Reads a kernel.
pub fn parse(text: &str) -> std::result::Result<Kernel, ParseError> {
    let mut parser = Parser {
        tokens: lex(text)?,
        at: 0,
        kernel: Kernel::default(),
        types: Vec::new(),
        depth: 0,
    };
    parser.kernel()?;
    Ok(parser.kernel)
}

pub(crate) struct Parser {
    tokens: Vec<Spanned>,
    at: usize,
    kernel: Kernel,
    /// Types of values by id, as they are defined.
    types: Vec<Option<Type>>,
    depth: usize,
}

pub(crate) type Result<T> = std::result::Result<T, ParseError>;

impl Parser {
    pub(crate) fn peek(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].token
    }

    pub(crate) fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    pub(crate) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    pub(crate) fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        let spanned = &self.tokens[self.at.min(self.tokens.len() - 1)];
        Err(ParseError {
            line: spanned.line,
            column: spanned.column,
            message: message.into(),
        })
    }

    /// Where the parser is, to come back to for an error.
    pub(crate) fn mark(&self) -> usize {
        self.at
    }

    /// The error that the token at `mark` is not what was expected.
    pub(crate) fn expected_at<T>(&mut self, mark: usize, what: &str) -> Result<T> {
        self.at = mark;
        self.expected(what)
    }

    pub(crate) fn expected<T>(&self, what: &str) -> Result<T> {
        self.error(format!("expected {what}, found {}", self.peek().describe()))
    }

    pub(crate) fn is_symbol(&self, c: char) -> bool {
        *self.peek() == Token::Symbol(c)
    }

    pub(crate) fn symbol(&mut self, c: char) -> Result<()> {
        if !self.is_symbol(c) {
            return self.expected(&format!("`{c}`"));
        }
        self.next();
        Ok(())
    }

    pub(crate) fn take_symbol(&mut self, c: char) -> bool {
        let found = self.is_symbol(c);
        if found {
            self.next();
        }
        found
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(text) if text == word);
        if found {
            self.next();
        }
        found
    }

    pub(crate) fn keyword(&mut self, word: &str) -> Result<()> {
        if !self.take_word(word) {
            return self.expected(&format!("`{word}`"));
        }
        Ok(())
    }

    /// A word that `read` understands.
    pub(crate) fn named<T>(&mut self, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<T> {
        if let Token::Word(text) = self.peek()
            && let Some(value) = read(text)
        {
            self.next();
            return Ok(value);
        }
        self.expected(what)
    }

    fn text(&mut self) -> Result<String> {
        if let Token::Text(text) = self.peek() {
            let text = text.clone();
            self.next();
            return Ok(text);
        }
        self.expected("a string")
    }

    pub(crate) fn number<T: TryFrom<u64>>(&mut self) -> Result<T> {
        if let Token::Number(text) = self.peek() {
            let value = match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            };
            if let Some(value) = value.and_then(|value| T::try_from(value).ok()) {
                self.next();
                return Ok(value);
            }
            return self.expected("a number in range");
        }
        self.expected("a number")
    }

    pub(crate) fn id(&mut self, sigil: char, what: &str) -> Result<u32> {
        if let Token::Id(c, n) = *self.peek()
            && c == sigil
        {
            self.next();
            return Ok(n);
        }
        self.expected(what)
    }

    /// The id of a value that has been defined above.
    pub(crate) fn value(&mut self) -> Result<ValueId> {
        if let Token::Id('%', n) = *self.peek()
            && !matches!(self.types.get(n as usize), Some(Some(_)))
        {
            return self.error(format!("%{n} is not defined above"));
        }
        Ok(ValueId(self.id('%', "a value")?))
    }

    pub(crate) fn local(&mut self) -> Result<LocalId> {
        if let Token::Id('$', n) = *self.peek()
            && n as usize >= self.kernel.locals.len()
        {
            return self.error(format!("there is no local ${n}"));
        }
        Ok(LocalId(self.id('$', "a local")?))
    }

    pub(crate) fn memory_id(&mut self) -> Result<MemoryId> {
        if let Token::Id('@', n) = *self.peek()
            && n as usize >= self.kernel.memory.len()
        {
            return self.error(format!("there is no memory object @{n}"));
        }
        Ok(MemoryId(self.id('@', "a memory object")?))
    }

    fn numbered(&mut self, prefix: &str, what: &str) -> Result<u32> {
        self.named(what, |text| text.strip_prefix(prefix)?.parse().ok())
    }

    pub(crate) fn coop(&mut self) -> Result<CoopId> {
        let start = self.at;
        let n = self.numbered("coop", "a cooperative tensor")?;
        if n as usize >= self.kernel.cooperatives.len() {
            self.at = start;
            return self.error(format!("there is no cooperative tensor coop{n}"));
        }
        Ok(CoopId(n))
    }

    pub(crate) fn argument_id(&mut self) -> Result<ArgumentId> {
        let start = self.at;
        let n = self.numbered("arg", "an argument")?;
        if n as usize >= self.kernel.arguments.len() {
            self.at = start;
            return self.error(format!("there is no argument arg{n}"));
        }
        Ok(ArgumentId(n))
    }

    pub(crate) fn scalar(&mut self) -> Result<Scalar> {
        self.named("a scalar type", Scalar::from_text)
    }

    pub(crate) fn space(&mut self) -> Result<AddressSpace> {
        self.named("an address space", AddressSpace::from_text)
    }

    pub(crate) fn format(&mut self) -> Result<ElementFormat> {
        self.named("an element format", |text| {
            ElementFormat::ALL
                .into_iter()
                .find(|format| format.short_name() == text)
        })
    }

    pub(crate) fn ty(&mut self) -> Result<Type> {
        if self.take_word("ptr") {
            self.symbol('<')?;
            let space = self.space()?;
            self.symbol('>')?;
            return Ok(Type::Pointer(space));
        }
        Ok(Type::Scalar(self.named("a type", Scalar::from_text)?))
    }

    /// `[a, b, …]`
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.symbol('[')?;
        let mut out = Vec::new();
        if self.take_symbol(']') {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.take_symbol(']') {
                return Ok(out);
            }
            self.symbol(',')?;
        }
    }

    pub(crate) fn values(&mut self) -> Result<Vec<ValueId>> {
        self.list(Self::value)
    }

    /// A constant of a type, as the printer writes it.
    pub(crate) fn constant(&mut self, ty: Scalar) -> Result<Const> {
        if ty == Scalar::Bool {
            for (word, bits) in [("true", 1), ("false", 0)] {
                if self.take_word(word) {
                    return Ok(Const { ty, bits });
                }
            }
        }
        let Token::Number(text) = self.peek() else {
            return self.expected("a number");
        };
        let mask = if ty.bits() >= 64 {
            u64::MAX
        } else {
            (1 << ty.bits()) - 1
        };
        let bits = if let Some(hex) = text.strip_prefix("0x") {
            u64::from_str_radix(hex, 16).ok()
        } else if ty.is_float() {
            let number: Option<f64> = match ty {
                Scalar::F32 => text.parse::<f32>().ok().map(f64::from),
                _ => text.parse().ok(),
            };
            number.map(|number| fold::float_bits(ty, number))
        } else {
            let number: Option<i128> = text.parse().ok();
            let low = if ty.is_signed() { -(1i128 << (ty.bits() - 1)) } else { 0 };
            number
                .filter(|n| *n >= low && *n <= i128::from(mask))
                .map(|n| n as u64 & mask)
        };
        let Some(bits) = bits else {
            return self.expected(&format!("a constant of type {ty}"));
        };
        self.next();
        Ok(Const { ty, bits })
    }

    pub(crate) fn location(&mut self) -> Result<LocationId> {
        let Token::Id('!', n) = *self.peek() else {
            return Ok(LocationId(0));
        };
        if n as usize >= self.kernel.locations.entries.len() {
            return self.error(format!("there is no location !{n}"));
        }
        self.next();
        Ok(LocationId(n))
    }

    fn kernel(&mut self) -> Result<()> {
        self.keyword("kernel")?;
        self.kernel.name = self.text()?;
        self.symbol('{')?;
        // Locations come last in the text, but are named before.
        let mut required = Vec::new();
        loop {
            let Token::Word(word) = self.peek().clone() else {
                return self.expected("a declaration or `body`");
            };
            match word.as_str() {
                "max_threads" => {
                    self.next();
                    self.kernel.max_threads = Some(self.number()?);
                }
                "required_simdgroups" => {
                    self.next();
                    let n = self.number()?;
                    let at = match *self.peek() {
                        Token::Id('!', at) => {
                            self.next();
                            at
                        }
                        _ => 0,
                    };
                    required.push((n, LocationId(at)));
                }
                "argument" => self.argument()?,
                "memory" => self.memory()?,
                "local" => self.local_declaration()?,
                "cooperative" => self.cooperative()?,
                "undefined" => {
                    self.next();
                    self.list(|this| {
                        let id = this.id('%', "a value")?;
                        this.symbol(':')?;
                        let ty = this.ty()?;
                        this.define(id, ty)
                    })?;
                    // Their types are known, but nothing may use them.
                }
                "file" => {
                    self.next();
                    let at: usize = self.number()?;
                    let name = self.text()?;
                    let files = &mut self.kernel.locations.files;
                    match at {
                        at if at < files.len() => files[at] = name,
                        at if at == files.len() => files.push(name),
                        _ => return self.error("file numbers must count up by one"),
                    }
                }
                "loc" => self.location_entry()?,
                "body" => break,
                _ => return self.expected("a declaration or `body`"),
            }
        }
        let locations = self.kernel.locations.entries.len();
        if required.iter().any(|(_, at)| at.0 as usize >= locations) {
            return self.error("required_simdgroups names a location that does not exist");
        }
        self.kernel.required_simdgroups = required;
        self.keyword("body")?;
        self.symbol('{')?;
        self.kernel.body = self.block()?;
        self.symbol('}')?;
        if *self.peek() != Token::End {
            return self.expected("the end of the text");
        }
        // A number that is left out belongs to a value that nothing defines any more; its type does not matter.
        let left_out = Type::Scalar(Scalar::Bool);
        let values = self
            .types
            .iter()
            .map(|ty| ValueInfo {
                ty: ty.unwrap_or(left_out),
            })
            .collect();
        self.kernel.values = values;
        Ok(())
    }

    fn index(&mut self, found: u32, expected: usize) -> Result<()> {
        if found as usize != expected {
            return self.error(format!(
                "declarations count up by one: expected number {expected}, found {found}"
            ));
        }
        Ok(())
    }

    fn argument(&mut self) -> Result<()> {
        self.next();
        let n = self.numbered("arg", "an argument")?;
        self.index(n, self.kernel.arguments.len())?;
        let name = self.text()?;
        let Token::Word(kind) = self.next() else {
            return self.expected("`buffer`, `tensor` or `threadgroup`");
        };
        let index = self.number()?;
        let kind = match kind.as_str() {
            "buffer" => {
                let space = self.space()?;
                let type_name = self.text()?;
                self.keyword("size")?;
                let size = self.number()?;
                self.keyword("align")?;
                let align = self.number()?;
                self.keyword("element")?;
                let element_size = self.number()?;
                ArgumentKind::Buffer {
                    space,
                    type_name,
                    size,
                    align,
                    element_size,
                    reference: self.take_word("reference"),
                }
            }
            "tensor" => ArgumentKind::Tensor(self.spec()?),
            "threadgroup" => {
                self.keyword("size")?;
                let size = self.number()?;
                self.keyword("align")?;
                let align = self.number()?;
                ArgumentKind::Threadgroup { size, align }
            }
            _ => {
                return self.error("an argument is a `buffer`, a `tensor` or `threadgroup` memory");
            }
        };
        self.keyword("access")?;
        let access = self.named("an access", Access::from_text)?;
        self.kernel.arguments.push(Argument {
            name,
            index,
            kind,
            access,
        });
        Ok(())
    }

    fn memory(&mut self) -> Result<()> {
        self.next();
        let n = self.id('@', "a memory object")?;
        self.index(n, self.kernel.memory.len())?;
        let name = self.text()?;
        let space = self.space()?;
        self.keyword("size")?;
        let size = self.number()?;
        self.keyword("align")?;
        let align = self.number()?;
        self.keyword("element")?;
        let element_size = self.number()?;
        let mut data = Vec::new();
        if self.take_word("data") {
            let start = self.at;
            let text = self.text()?;
            let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
            let Some(digits) = digits.filter(|digits| digits.len() % 2 == 0) else {
                self.at = start;
                return self.error("data is an even number of hexadecimal digits");
            };
            data = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        }
        self.kernel.memory.push(MemoryObject {
            name,
            space,
            size,
            align,
            element_size,
            data,
        });
        Ok(())
    }

    fn local_declaration(&mut self) -> Result<()> {
        self.next();
        let n = self.id('$', "a local")?;
        self.index(n, self.kernel.locals.len())?;
        let name = self.text()?;
        let ty = self.ty()?;
        self.kernel.locals.push(Local { name, ty });
        Ok(())
    }

    fn cooperative(&mut self) -> Result<()> {
        self.next();
        let n = self.numbered("coop", "a cooperative tensor")?;
        self.index(n, self.kernel.cooperatives.len())?;
        let name = self.text()?;
        let role = self.named("a role", CoopRole::from_text)?;
        let element = self.scalar()?;
        self.keyword("rows")?;
        let rows = self.number()?;
        self.keyword("columns")?;
        let columns = self.number()?;
        self.keyword("simdgroups")?;
        let simdgroups = self.number()?;
        self.keyword("layout")?;
        let layout = self.named("a layout", LayoutKind::from_text)?;
        self.keyword("matmul")?;
        let descriptor = self.descriptor()?;
        let spatial = if self.take_word("spatial") {
            Some(self.sizes()?)
        } else {
            None
        };
        self.kernel.cooperatives.push(Cooperative {
            name,
            role,
            element,
            rows,
            columns,
            simdgroups,
            layout,
            descriptor,
            spatial,
        });
        Ok(())
    }

    fn location_entry(&mut self) -> Result<()> {
        self.next();
        let at = self.id('!', "a location")? as usize;
        let file: u32 = self.number()?;
        let line = self.number()?;
        let column = self.number()?;
        let inlined_at = if self.take_word("in") {
            Some(LocationId(self.id('!', "a location")?))
        } else {
            None
        };
        let entries = self.kernel.locations.entries.len();
        if file as usize >= self.kernel.locations.files.len() {
            return self.error(format!("there is no file {file}"));
        }
        if inlined_at.is_some_and(|outer| outer.0 as usize >= entries) {
            return self.error("a call site must come before what is inlined there");
        }
        let entry = Location {
            file,
            line,
            column,
            inlined_at,
        };
        match at {
            at if at < entries => self.kernel.locations.entries[at] = entry,
            at if at == entries => self.kernel.locations.entries.push(entry),
            _ => return self.error("location numbers must count up by one"),
        }
        Ok(())
    }

    pub(crate) fn spec(&mut self) -> Result<TensorSpec> {
        self.symbol('{')?;
        let format = self.format()?;
        let space = self.space()?;
        let index = self.scalar()?;
        let extents = self.list(|this| {
            if this.take_symbol('?') {
                Ok(None)
            } else {
                this.number().map(Some)
            }
        })?;
        let scale_block = if self.take_word("scale") {
            Some(self.list(Self::number)?)
        } else {
            None
        };
        self.symbol('}')?;
        Ok(TensorSpec {
            format,
            space,
            extents,
            index,
            scale_block,
        })
    }

    pub(crate) fn descriptor(&mut self) -> Result<MatmulDescriptor> {
        self.symbol('{')?;
        let m = self.number()?;
        let n = self.number()?;
        let k = if self.take_symbol('?') {
            None
        } else {
            Some(self.number()?)
        };
        let descriptor = MatmulDescriptor {
            m,
            n,
            k,
            transpose_left: self.take_word("transpose_left"),
            transpose_right: self.take_word("transpose_right"),
            relaxed_precision: self.take_word("relaxed_precision"),
            accumulate: self.take_word("accumulate"),
        };
        self.symbol('}')?;
        Ok(descriptor)
    }

    /// `[a, b, …]` of a fixed length.
    fn sizes<const N: usize>(&mut self) -> Result<[u32; N]> {
        let sizes: Vec<u32> = self.list(Self::number)?;
        match sizes.try_into() {
            Ok(sizes) => Ok(sizes),
            Err(sizes) => self.error(format!("{N} sizes are needed here, not {}", sizes.len())),
        }
    }

    pub(crate) fn convolution(&mut self) -> Result<ConvolutionDescriptor> {
        self.symbol('{')?;
        self.keyword("destination")?;
        let destination = self.sizes()?;
        self.keyword("source")?;
        let source = self.sizes()?;
        self.keyword("kernel")?;
        let kernel = self.sizes()?;
        self.keyword("strides")?;
        let strides = self.sizes()?;
        self.keyword("dilations")?;
        let descriptor = ConvolutionDescriptor {
            destination,
            source,
            kernel,
            strides,
            dilations: self.sizes()?,
            relaxed_precision: self.take_word("relaxed_precision"),
            accumulate: self.take_word("accumulate"),
        };
        self.symbol('}')?;
        Ok(descriptor)
    }

    /// Notes the type of a new value. Ids are dense in the end, so an id far beyond the text's length is an error.
    fn define(&mut self, id: u32, ty: Type) -> Result<()> {
        let at = id as usize;
        if at >= self.tokens.len() * 64 {
            return self.error(format!("%{id} is out of range for a text of this length"));
        }
        if at >= self.types.len() {
            self.types.resize(at + 1, None);
        }
        if self.types[at].is_some() {
            return self.error(format!("%{id} is defined twice"));
        }
        self.types[at] = Some(ty);
        Ok(())
    }

    /// Instructions up to the closing brace, which is taken too.
    pub(crate) fn block(&mut self) -> Result<Block> {
        if self.depth >= MAX_NESTING {
            return self.error(format!("blocks are nested deeper than {MAX_NESTING}"));
        }
        self.depth += 1;
        let mut insts = Vec::new();
        while !self.take_symbol('}') {
            insts.push(self.inst()?);
        }
        self.depth -= 1;
        Ok(Block { insts })
    }

    fn inst(&mut self) -> Result<Inst> {
        let (first, types) = self.results()?;
        let mut location = LocationId(0);
        let op = self.op(&mut location)?;
        if !op.is_structured() {
            location = self.location()?;
        }
        let mut count = 0;
        for ty in types {
            self.define(first + count, ty)?;
            count += 1;
        }
        Ok(Inst {
            op,
            first: ValueId(first),
            count,
            location,
        })
    }

    /// `%3: f32 =`, `%3: f32, %4: i32 =`, `%3..%6: f32 =` or nothing.
    fn results(&mut self) -> Result<(u32, Vec<Type>)> {
        let Token::Id('%', first) = *self.peek() else {
            return Ok((self.types.len() as u32, Vec::new()));
        };
        self.next();
        if *self.peek() == Token::Range {
            self.next();
            let last = self.id('%', "the last result")?;
            let count = last.checked_sub(first).filter(|n| *n < 4096);
            let Some(count) = count else {
                return self.error("a range of results counts up, by 4096 at most");
            };
            self.symbol(':')?;
            let ty = self.ty()?;
            self.symbol('=')?;
            return Ok((first, vec![ty; count as usize + 1]));
        }
        let mut types = Vec::new();
        loop {
            self.symbol(':')?;
            types.push(self.ty()?);
            if !self.take_symbol(',') {
                break;
            }
            let id = self.id('%', "a result")?;
            if Some(id) != first.checked_add(types.len() as u32) {
                return self.error("results must have consecutive numbers");
            }
        }
        self.symbol('=')?;
        Ok((first, types))
    }

    pub(crate) fn unroll(&mut self) -> Result<Unroll> {
        if !self.take_word("unroll") {
            return Ok(Unroll::Default);
        }
        if self.take_word("full") {
            return Ok(Unroll::Full);
        }
        if self.take_word("never") {
            return Ok(Unroll::Never);
        }
        Ok(Unroll::Count(self.number()?))
    }
}
