//! Reader of MLIR bytecode (version 6) with the `aicode` dialect's own attribute and type encodings.
//!
//! The container is indexed once: strings, attribute and type extents, properties and resources become tables of byte
//! ranges, and only the operation tree is built eagerly. Attributes and types are decoded one level at a time when
//! somebody asks, so a hostile nesting of attributes costs nothing until it is printed, and printing is bounded.
//!
//! Nothing that the file says is believed: each count is compared with the bytes that are left, each index with its
//! table, and regions may nest only [`MAX_REGION_DEPTH`] deep.

mod attributes;
mod cursor;
mod ir;
mod module;
mod types;

pub(crate) use attributes::extend;
pub use attributes::{Attr, AttrId, SourceLocation};
pub use ir::{Block, Op, Region, ValueId};
pub use module::{Module, ResourceId};
pub use types::{Dim, ElementType, TensorType, Type, TypeId};

/// How deep regions may nest. Real programs need about eight levels.
pub const MAX_REGION_DEPTH: usize = 64;

/// What is wrong with a bytecode file. Offsets count bytes from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BytecodeError {
    /// The file does not begin with MLIR's magic number.
    #[error(
        "byte 0: this is not MLIR bytecode (it must begin with 4d 4c ef 52, found {found}); give the main.mlirb of an .aimodel directory"
    )]
    Magic {
        /// The first bytes in hexadecimal.
        found: String,
    },
    /// A container version that this reader does not know.
    #[error(
        "byte {offset}: MLIR bytecode version {found} is not supported (this reader knows version 6); export the model with coreai-core 1.0"
    )]
    Version {
        /// Where the version stands.
        offset: usize,
        /// The version found.
        found: u64,
    },
    /// A dialect other than `aicode`, or a version of it that this reader does not know.
    #[error(
        "byte {offset}: dialect {name:?} version {version} is not supported (this reader knows \"aicode\" up to version 2); export the model with coreai-core 1.0"
    )]
    Dialect {
        /// Where the dialect is declared.
        offset: usize,
        /// Its name.
        name: String,
        /// Its version, 0 when it has none.
        version: u64,
    },
    /// The data ends too early.
    #[error(
        "byte {offset}: the data ends inside {what} ({needed} bytes needed, {available} left); the asset is truncated or damaged: copy or export it again"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where.
        offset: usize,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are left.
        available: usize,
    },
    /// A count that is larger than the bytes which could hold that many items.
    #[error(
        "byte {offset}: {what} says {count} items but only {available} bytes follow; the asset is damaged: copy or export it again"
    )]
    Count {
        /// What was counted.
        what: &'static str,
        /// Where the count stands.
        offset: usize,
        /// The count.
        count: u64,
        /// Bytes that are left.
        available: usize,
    },
    /// An index past the end of its table.
    #[error(
        "byte {offset}: {what} {index} does not exist (the table has {len}); the asset is damaged: copy or export it again"
    )]
    Index {
        /// The kind of index.
        what: &'static str,
        /// Where it stands.
        offset: usize,
        /// Its value.
        index: u64,
        /// Entries of the table.
        len: usize,
    },
    /// Bytes are left over after something that should have used all of them.
    #[error("byte {offset}: {left} bytes are left over after {what}; the asset is damaged: copy or export it again")]
    Trailing {
        /// What ended early.
        what: &'static str,
        /// Where.
        offset: usize,
        /// Bytes left over.
        left: usize,
    },
    /// A value outside the set that is allowed.
    #[error("byte {offset}: {what} {value} is not allowed here; the asset is damaged or from a newer exporter")]
    BadValue {
        /// What has the value.
        what: &'static str,
        /// Where.
        offset: usize,
        /// The value.
        value: u64,
    },
    /// A section that must be there is not, or is there twice.
    #[error("{what} section {problem}; the asset is damaged: copy or export it again")]
    Section {
        /// The section's name.
        what: &'static str,
        /// "is missing" or "occurs twice".
        problem: &'static str,
    },
    /// Text that is not UTF-8.
    #[error("byte {offset}: a string is not valid UTF-8; the asset is damaged: copy or export it again")]
    Utf8 {
        /// Where the string starts.
        offset: usize,
    },
    /// Regions nest too deep.
    #[error("byte {offset}: regions nest more than {limit} deep; the asset is damaged or hostile")]
    Depth {
        /// Where the limit was passed.
        offset: usize,
        /// The limit.
        limit: usize,
    },
    /// An operand names a value that is not defined before it.
    #[error("byte {offset}: operand names value {value}, which is not defined here; the asset is damaged")]
    Value {
        /// Where the operand stands.
        offset: usize,
        /// The value's number in the file.
        value: u64,
    },
    /// Something else does not fit together.
    #[error("byte {offset}: {what}; the asset is damaged or from a newer exporter")]
    Malformed {
        /// What does not fit.
        what: String,
        /// Where.
        offset: usize,
    },
}
