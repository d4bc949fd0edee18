//! The container: sections, strings, extents of attributes and types, properties and resources.

use std::ops::Range;

use super::BytecodeError;
use super::attributes::AttrId;
use super::cursor::{Cursor, check_index};
use super::ir::Region;
use super::types::TypeId;
use crate::bytes::SharedBytes;

/// Index of a resource (a weight blob).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResourceId(pub u32);

/// The newest version of the `aicode` dialect's encodings that this reader knows.
const DIALECT_VERSION: u64 = 2;

const NAMES: [&str; 9] = [
    "String",
    "Dialect",
    "AttrType",
    "AttrTypeOffset",
    "IR",
    "Resource",
    "ResourceOffset",
    "DialectVersions",
    "Properties",
];

#[derive(Clone)]
struct Resource {
    name: u32,
    data: Range<usize>,
}

/// An indexed bytecode file.
pub struct Module {
    file: SharedBytes,
    producer: String,
    strings: Vec<Range<usize>>,
    op_names: Vec<u32>,
    attrs: Vec<Range<usize>>,
    types: Vec<Range<usize>>,
    properties: Vec<Range<usize>>,
    resources: Vec<Resource>,
    root: Region,
}

impl Module {
    /// Indexes `file` and reads its operations.
    pub fn read(file: SharedBytes) -> Result<Self, BytecodeError> {
        let mut module = Self {
            file: file.clone(),
            producer: String::new(),
            strings: Vec::new(),
            op_names: Vec::new(),
            attrs: Vec::new(),
            types: Vec::new(),
            properties: Vec::new(),
            resources: Vec::new(),
            root: Region::default(),
        };
        let data: &[u8] = &file;
        let mut c = Cursor::new(data, 0);
        if data.len() < 4 || data[..4] != *b"ML\xefR" {
            let found: Vec<String> = data.iter().take(4).map(|b| format!("{b:02x}")).collect();
            let found = if found.is_empty() {
                "an empty file".into()
            } else {
                found.join(" ")
            };
            return Err(BytecodeError::Magic { found });
        }
        c.take(4, "magic number")?;
        let offset = c.offset();
        let version = c.varint("bytecode version")?;
        if version != 6 {
            return Err(BytecodeError::Version { offset, found: version });
        }
        let offset = c.offset();
        let mut producer = Vec::new();
        loop {
            match c.byte("producer name")? {
                0 => break,
                byte => producer.push(byte),
            }
        }
        module.producer = String::from_utf8(producer).map_err(|_| BytecodeError::Utf8 { offset })?;

        let mut sections: [Option<Cursor<'_>>; 9] = Default::default();
        while !c.is_empty() {
            let section = c.section()?;
            let Some(slot) = sections.get_mut(section.id as usize) else {
                return Err(BytecodeError::BadValue {
                    what: "section id",
                    offset: section.offset,
                    value: u64::from(section.id),
                });
            };
            if slot.is_some() {
                return Err(BytecodeError::Section {
                    what: NAMES[section.id as usize],
                    problem: "occurs twice",
                });
            }
            *slot = Some(section.body);
        }
        let mut need = |id: usize| {
            sections[id].take().ok_or(BytecodeError::Section {
                what: NAMES[id],
                problem: "is missing",
            })
        };
        module.read_strings(need(0)?)?;
        module.read_dialects(need(1)?)?;
        let (attr_types, offsets) = (need(2)?, need(3)?);
        module.read_attr_type_offsets(offsets, &attr_types)?;
        let ir = need(4)?;
        module.read_properties(sections[8].take())?;
        module.read_resources(sections[5].take(), sections[6].take())?;
        module.root = module.read_ir(ir)?;
        Ok(module)
    }

    /// The producer string of the file's header, such as "MLIR22.0.0git".
    pub fn producer(&self) -> &str {
        &self.producer
    }

    /// The top-level operations.
    pub fn root(&self) -> &Region {
        &self.root
    }

    /// The name of an operation without the dialect's prefix: "primitive.add_v1".
    pub fn op_name(&self, index: u32) -> &str {
        self.op_names.get(index as usize).map_or("", |&id| self.string_at(id))
    }

    /// Number of resources (weight blobs).
    pub fn resource_count(&self) -> usize {
        self.resources.len()
    }

    /// Name of a resource.
    pub fn resource_name(&self, id: ResourceId) -> &str {
        self.resources.get(id.0 as usize).map_or("", |r| self.string_at(r.name))
    }

    /// The bytes of a resource, as a range of the mapped file. `None` for an unknown id.
    pub fn resource(&self, id: ResourceId) -> Option<SharedBytes> {
        self.file.slice(self.resources.get(id.0 as usize)?.data.clone())
    }

    pub(crate) fn file(&self) -> &SharedBytes {
        &self.file
    }

    pub(super) fn attr_count(&self) -> usize {
        self.attrs.len()
    }

    pub(super) fn type_count(&self) -> usize {
        self.types.len()
    }

    pub(super) fn property_count(&self) -> usize {
        self.properties.len()
    }

    pub(super) fn op_name_count(&self) -> usize {
        self.op_names.len()
    }

    fn cursor(&self, range: &Range<usize>) -> Cursor<'_> {
        Cursor::new(&self.file[range.clone()], range.start)
    }

    pub(super) fn attr_cursor(&self, id: AttrId) -> Result<Cursor<'_>, BytecodeError> {
        let i = check_index(u64::from(id.0), self.attrs.len(), "attribute", 0)?;
        Ok(self.cursor(&self.attrs[i]))
    }

    pub(super) fn type_cursor(&self, id: TypeId) -> Result<Cursor<'_>, BytecodeError> {
        let i = check_index(u64::from(id.0), self.types.len(), "type", 0)?;
        Ok(self.cursor(&self.types[i]))
    }

    /// The encoded properties of an operation.
    pub(crate) fn property_cursor(&self, id: u32) -> Result<Cursor<'_>, BytecodeError> {
        let i = check_index(u64::from(id), self.properties.len(), "property", 0)?;
        Ok(self.cursor(&self.properties[i]))
    }

    pub(super) fn read_string(&self, c: &mut Cursor<'_>) -> Result<&str, BytecodeError> {
        let index = c.index("string", self.strings.len())?;
        Ok(self.string_at(index as u32))
    }

    fn string_at(&self, index: u32) -> &str {
        // Checked to be UTF-8 when the table was read; an empty text can only come from an index that is not ours.
        self.strings
            .get(index as usize)
            .and_then(|range| std::str::from_utf8(&self.file[range.clone()]).ok())
            .unwrap_or("")
    }

    fn read_strings(&mut self, mut c: Cursor<'_>) -> Result<(), BytecodeError> {
        let count = c.count("string table")?;
        let mut lengths = Vec::with_capacity(count);
        for _ in 0..count {
            lengths.push(c.varint("string length")?);
        }
        for &length in lengths.iter().rev() {
            let start = c.offset();
            let bytes = c.take_u64(length, "string")?;
            let [text @ .., 0] = bytes else {
                return Err(BytecodeError::Malformed {
                    what: "a string does not end with NUL".into(),
                    offset: start,
                });
            };
            if std::str::from_utf8(text).is_err() {
                return Err(BytecodeError::Utf8 { offset: start });
            }
            self.strings.push(start..start + text.len());
        }
        c.finish("the string table")
    }

    fn read_dialects(&mut self, mut c: Cursor<'_>) -> Result<(), BytecodeError> {
        let count = c.count("dialect table")?;
        for _ in 0..count {
            let offset = c.offset();
            let (name, versioned) = c.flag_varint("dialect name")?;
            let name = check_index(name, self.strings.len(), "string", offset)?;
            let version = if versioned {
                let mut body = c.section()?.body;
                let version = body.varint("dialect version")?;
                body.finish("a dialect version")?;
                version
            } else {
                0
            };
            let name = self.string_at(name as u32);
            if name != "aicode" || version > DIALECT_VERSION {
                return Err(BytecodeError::Dialect {
                    offset,
                    name: name.to_string(),
                    version,
                });
            }
        }
        let offset = c.offset();
        let total = c.count("operation names")?;
        while !c.is_empty() {
            c.index("dialect", count)?;
            let names = c.count("operation names")?;
            for _ in 0..names {
                let at = c.offset();
                let (name, _registered) = c.flag_varint("operation name")?;
                self.op_names
                    .push(check_index(name, self.strings.len(), "string", at)? as u32);
            }
        }
        if self.op_names.len() != total {
            let what = format!("{} operation names are listed, {total} announced", self.op_names.len());
            return Err(BytecodeError::Malformed { what, offset });
        }
        Ok(())
    }

    fn read_attr_type_offsets(&mut self, mut c: Cursor<'_>, data: &Cursor<'_>) -> Result<(), BytecodeError> {
        let attrs = c.count("attribute table")?;
        let types = c.count("type table")?;
        let end = data.offset() + data.remaining();
        let mut at = data.offset();
        for (count, is_attr) in [(attrs, true), (types, false)] {
            let mut table = Vec::with_capacity(count);
            while table.len() < count {
                c.varint("dialect")?;
                let group_offset = c.offset();
                let group = c.count("attribute group")?;
                if group > count - table.len() || group == 0 {
                    return Err(BytecodeError::BadValue {
                        what: "attribute group size",
                        offset: group_offset,
                        value: group as u64,
                    });
                }
                for _ in 0..group {
                    let offset = c.offset();
                    let (size, custom) = c.flag_varint("attribute size")?;
                    if !custom {
                        let what = "an attribute or type is written as text, which this dialect never does".into();
                        return Err(BytecodeError::Malformed { what, offset });
                    }
                    if size > (end - at) as u64 {
                        return Err(BytecodeError::Truncated {
                            what: "the attribute table",
                            offset,
                            needed: size,
                            available: end - at,
                        });
                    }
                    table.push(at..at + size as usize);
                    at += size as usize;
                }
            }
            if is_attr {
                self.attrs = table;
            } else {
                self.types = table;
            }
        }
        c.finish("the attribute table")?;
        if at != end {
            return Err(BytecodeError::Trailing {
                what: "the attributes",
                offset: at,
                left: end - at,
            });
        }
        Ok(())
    }

    fn read_properties(&mut self, section: Option<Cursor<'_>>) -> Result<(), BytecodeError> {
        let Some(mut c) = section else { return Ok(()) };
        let count = c.count("property table")?;
        for _ in 0..count {
            let size = c.varint("property size")?;
            let start = c.offset();
            let bytes = c.take_u64(size, "properties")?;
            self.properties.push(start..start + bytes.len());
        }
        c.finish("the property table")
    }

    fn read_resources(&mut self, data: Option<Cursor<'_>>, offsets: Option<Cursor<'_>>) -> Result<(), BytecodeError> {
        let Some(mut c) = offsets else { return Ok(()) };
        let mut data = data.ok_or(BytecodeError::Section {
            what: NAMES[5],
            problem: "is missing",
        })?;
        let external_offset = c.offset();
        let external = c.varint("external resource groups")?;
        if external != 0 {
            return Err(BytecodeError::BadValue {
                what: "number of external resource groups",
                offset: external_offset,
                value: external,
            });
        }
        while !c.is_empty() {
            c.varint("resource dialect")?;
            let count = c.count("resource group")?;
            for _ in 0..count {
                let name = c.index("string", self.strings.len())? as u32;
                let size = c.varint("resource size")?;
                let kind_offset = c.offset();
                let kind = c.byte("resource kind")?;
                let start = data.offset();
                let mut body = Cursor::new(data.take_u64(size, "a resource")?, start);
                if kind != 0 {
                    return Err(BytecodeError::BadValue {
                        what: "resource kind",
                        offset: kind_offset,
                        value: u64::from(kind),
                    });
                }
                let align = body.varint("resource alignment")?;
                let length = body.varint("resource length")?;
                body.align(align, "resource alignment")?;
                let start = body.offset();
                let bytes = body.take_u64(length, "resource data")?;
                self.resources.push(Resource {
                    name,
                    data: start..start + bytes.len(),
                });
                body.finish("a resource")?;
            }
        }
        data.finish("the resources")
    }
}
