//! The operation tree: regions, blocks, operations and the numbering of values.
//!
//! An isolated region starts a table of its own. On entry to any region its announced number of values is reserved
//! after everything that is reserved already, so sibling regions reuse numbers of the file. Here each value gets a number that
//! is unique inside its isolated region instead, in order of definition.

use super::attributes::AttrId;
use super::cursor::{Cursor, check_index};
use super::types::TypeId;
use super::{BytecodeError, MAX_REGION_DEPTH, Module};

/// A value, unique inside the isolated region that defines it; index into [`Region::value_types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A region: blocks, and for an isolated one the types of all values inside it.
#[derive(Debug, Clone, Default)]
pub struct Region {
    /// The blocks; programs of this dialect have one.
    pub blocks: Vec<Block>,
    /// Nothing inside refers to values outside.
    pub isolated: bool,
    /// Types by [`ValueId`]; empty unless isolated.
    pub value_types: Vec<TypeId>,
}

/// A block: arguments and operations in order.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Arguments.
    pub args: Vec<ValueId>,
    /// Operations; the last one is the terminator.
    pub ops: Vec<Op>,
}

/// An operation.
#[derive(Debug, Clone)]
pub struct Op {
    /// Index for [`Module::op_name`].
    pub name: u32,
    /// Its encoded properties.
    pub properties: Option<u32>,
    /// Where in the model's source it comes from.
    pub location: AttrId,
    /// Operands.
    pub operands: Vec<ValueId>,
    /// Results.
    pub results: Vec<ValueId>,
    /// Regions.
    pub regions: Vec<Region>,
    /// Where it stands in the file.
    pub offset: usize,
}

/// Values of one isolated region while it is read. Memory grows with the values that are defined, not with the
/// numbers that the file reserves.
#[derive(Default)]
struct Scope {
    /// The regions that are open: first file number of each, and the values that it has defined so far.
    open: Vec<(u64, Vec<u32>)>,
    /// File numbers reserved so far.
    reserved: u64,
    types: Vec<TypeId>,
}

impl Scope {
    fn define(&mut self, file: u64, limit: u64, ty: TypeId, offset: usize) -> Result<ValueId, BytecodeError> {
        let open = self.open.last_mut().filter(|_| file < limit);
        let Some((_, defined)) = open else {
            let what = "a region defines more values than it announces".to_string();
            return Err(BytecodeError::Malformed { what, offset });
        };
        let id = self.types.len() as u32;
        self.types.push(ty);
        defined.push(id);
        Ok(ValueId(id))
    }

    fn lookup(&self, file: u64, offset: usize) -> Result<ValueId, BytecodeError> {
        let open = self.open.iter().rev().find(|(start, _)| *start <= file);
        open.and_then(|(start, defined)| defined.get(usize::try_from(file - start).ok()?))
            .map(|&id| ValueId(id))
            .ok_or(BytecodeError::Value { offset, value: file })
    }
}

/// The next and the last file number of the region being read.
struct Numbers {
    next: u64,
    end: u64,
}

impl Module {
    pub(super) fn read_ir(&self, mut c: Cursor<'_>) -> Result<Region, BytecodeError> {
        let mut scope = Scope::default();
        let mut numbers = Numbers { next: 0, end: 0 };
        let block = self.read_block(&mut c, &mut scope, &mut numbers, 0)?;
        c.finish("the operations")?;
        Ok(Region {
            blocks: vec![block],
            isolated: true,
            value_types: scope.types,
        })
    }

    fn read_region(&self, c: &mut Cursor<'_>, scope: &mut Scope, depth: usize) -> Result<Vec<Block>, BytecodeError> {
        if depth > MAX_REGION_DEPTH {
            return Err(BytecodeError::Depth {
                offset: c.offset(),
                limit: MAX_REGION_DEPTH,
            });
        }
        let count = c.count("blocks of a region")?;
        let mut blocks = Vec::new();
        if count == 0 {
            return Ok(blocks);
        }
        // Every value takes a byte of its own for its type, so this bounds the reservation by the file's size.
        let values = c.count("values of a region")? as u64;
        let start = scope.reserved;
        scope.reserved += values;
        scope.open.push((start, Vec::new()));
        let mut numbers = Numbers {
            next: start,
            end: start + values,
        };
        for _ in 0..count {
            blocks.push(self.read_block(c, scope, &mut numbers, depth)?);
        }
        scope.reserved = start;
        scope.open.pop();
        Ok(blocks)
    }

    fn read_block(
        &self,
        c: &mut Cursor<'_>,
        scope: &mut Scope,
        numbers: &mut Numbers,
        depth: usize,
    ) -> Result<Block, BytecodeError> {
        let offset = c.offset();
        let (ops, has_args) = c.flag_varint("operations of a block")?;
        let ops = c.check_count(ops, offset, "operations of a block")?;
        let mut block = Block::default();
        if has_args {
            let count = c.count("block arguments")?;
            for _ in 0..count {
                let offset = c.offset();
                let (ty, has_location) = c.flag_varint("argument type")?;
                let ty = TypeId(check_index(ty, self.type_count(), "type", offset)? as u32);
                if has_location {
                    self.read_attr_id(c)?;
                }
                block.args.push(scope.define(numbers.next, numbers.end, ty, offset)?);
                numbers.next += 1;
            }
            if c.boolean("use-list mask")? {
                skip_use_lists(c, count)?;
            }
        }
        for _ in 0..ops {
            block.ops.push(self.read_op(c, scope, numbers, depth)?);
        }
        Ok(block)
    }

    fn read_op(
        &self,
        c: &mut Cursor<'_>,
        scope: &mut Scope,
        numbers: &mut Numbers,
        depth: usize,
    ) -> Result<Op, BytecodeError> {
        let offset = c.offset();
        let name = c.index("operation name", self.op_name_count())? as u32;
        let mask_offset = c.offset();
        let mask = c.byte("operation mask")?;
        if mask & 0x80 != 0 {
            return Err(BytecodeError::BadValue {
                what: "operation mask",
                offset: mask_offset,
                value: u64::from(mask),
            });
        }
        let location = self.read_attr_id(c)?;
        if mask & 0x01 != 0 {
            self.read_attr_id(c)?;
        }
        let properties = if mask & 0x40 != 0 {
            Some(c.index("property", self.property_count())? as u32)
        } else {
            None
        };
        let mut result_types = Vec::new();
        if mask & 0x02 != 0 {
            let count = c.count("results")?;
            for _ in 0..count {
                result_types.push(self.read_type_id(c)?);
            }
        }
        let mut operands = Vec::new();
        if mask & 0x04 != 0 {
            let count = c.count("operands")?;
            operands.reserve(count);
            for _ in 0..count {
                let at = c.offset();
                let value = c.varint("operand")?;
                operands.push(scope.lookup(value, at)?);
            }
        }
        if mask & 0x08 != 0 {
            let what = "an operation has successor blocks, which this dialect never has".to_string();
            return Err(BytecodeError::Malformed { what, offset });
        }
        if mask & 0x20 != 0 {
            skip_use_lists(c, result_types.len())?;
        }
        let mut results = Vec::with_capacity(result_types.len());
        for ty in result_types {
            results.push(scope.define(numbers.next, numbers.end, ty, offset)?);
            numbers.next += 1;
        }
        let mut regions = Vec::new();
        if mask & 0x10 != 0 {
            let at = c.offset();
            let (count, isolated) = c.flag_varint("regions")?;
            let count = c.check_count(count, at, "regions")?;
            for _ in 0..count {
                regions.push(if isolated {
                    let section = c.section()?;
                    if section.id != 4 {
                        return Err(BytecodeError::BadValue {
                            what: "section id of a region",
                            offset: section.offset,
                            value: u64::from(section.id),
                        });
                    }
                    let mut body = section.body;
                    let mut inner = Scope::default();
                    let blocks = self.read_region(&mut body, &mut inner, depth + 1)?;
                    body.finish("a region")?;
                    Region {
                        blocks,
                        isolated: true,
                        value_types: inner.types,
                    }
                } else {
                    let blocks = self.read_region(c, scope, depth + 1)?;
                    Region {
                        blocks,
                        isolated: false,
                        value_types: Vec::new(),
                    }
                });
            }
        }
        Ok(Op {
            name,
            properties,
            location,
            operands,
            results,
            regions,
            offset,
        })
    }
}

/// Use-list orders carry no meaning for us; only their size matters.
fn skip_use_lists(c: &mut Cursor<'_>, values: usize) -> Result<(), BytecodeError> {
    let lists = if values > 1 { c.count("use-lists")? } else { 1 };
    for _ in 0..lists {
        if values > 1 {
            c.varint("use-list value")?;
        }
        let offset = c.offset();
        let (count, _pairs) = c.flag_varint("use-list length")?;
        let count = c.check_count(count, offset, "use-list")?;
        for _ in 0..count {
            c.varint("use-list entry")?;
        }
    }
    Ok(())
}
