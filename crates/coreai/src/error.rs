//! Errors of reading, planning and running a model.

use std::path::PathBuf;

use crate::array::ArrayError;
use crate::bytecode::BytecodeError;

/// Why an asset cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AssetError {
    /// The file system says no.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// The path is not an asset.
    #[error(
        "{path}: not a Core AI asset; an .aimodel is a directory that holds main.mlirb, main.hash and metadata.json"
    )]
    NotAnAsset {
        /// The path.
        path: PathBuf,
    },
    /// `main.hash` does not have 32 bytes.
    #[error("{path}: a hash file has 32 bytes, this one has {found}; export the model again, or allow a wrong hash")]
    HashSize {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: usize,
    },
    /// `main.hash` is not the hash of `main.mlirb`.
    #[error(
        "{path}: the file does not match main.hash (expected SHA-256 {expected}, found {found}); it is damaged or was changed: copy or export it again, or allow a wrong hash"
    )]
    WrongHash {
        /// The file that was hashed.
        path: PathBuf,
        /// The hash in `main.hash`.
        expected: String,
        /// The hash of the file.
        found: String,
    },
    /// `metadata.json` is not what it should be.
    #[error("{path}: {what}")]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// An asset format that this crate does not know.
    #[error(
        "{path}: asset version {found:?} is not supported (this reader knows version 2); export the model with coreai-core 1.0"
    )]
    AssetVersion {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: String,
    },
    /// The bytecode is damaged or from an unknown writer.
    #[error("{path}: {error}")]
    Bytecode {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        error: BytecodeError,
    },
    /// The program inside is not one that can be run.
    #[error("{path}: {error}")]
    Program {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ProgramError,
    },
}

/// Why a program that was read is not well formed or cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The bytecode is damaged.
    #[error(transparent)]
    Bytecode(#[from] BytecodeError),
    /// An operation does not have the form that it must have.
    #[error("byte {offset}: {op}: {what}; the asset is damaged or from a newer exporter")]
    Op {
        /// The operation's name.
        op: String,
        /// What is wrong.
        what: String,
        /// Where it stands.
        offset: usize,
    },
    /// Operations that this crate cannot run.
    #[error("the model uses operations that are not supported: {}; export it without them", list(.0))]
    Unsupported(Vec<(String, usize)>),
    /// No graph of this name can be called.
    #[error("no function named {name:?}; the model has {}", names(.known))]
    NoFunction {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// A Metal kernel inside the asset does not compile.
    #[error("kernel {name:?} in the asset does not compile:\n{diagnostics}")]
    Kernel {
        /// The kernel's name.
        name: String,
        /// The compiler's messages.
        diagnostics: String,
    },
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// An input was not given.
    #[error("input {name:?} is missing; the function takes {expected}")]
    MissingInput {
        /// The input.
        name: String,
        /// All inputs with their types.
        expected: String,
    },
    /// An input that the function does not have.
    #[error("{name:?} is not a declared input of this function; it takes {expected}")]
    UnknownInput {
        /// The name given.
        name: String,
        /// All inputs with their types.
        expected: String,
    },
    /// A state array was not given.
    #[error("state {name:?} is missing; pass an array of {expected}, it is read and replaced by the call")]
    MissingState {
        /// The state.
        name: String,
        /// Its type.
        expected: String,
    },
    /// An input has another shape.
    #[error("{name:?} has an invalid shape: {found:?}, expected: {expected}")]
    Shape {
        /// The input.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape expected, `?` for a free extent.
        expected: String,
    },
    /// An input has another element type.
    #[error("{name:?} has an invalid element type: {found}, expected: {expected}")]
    Element {
        /// The input.
        name: String,
        /// Its element type.
        found: String,
        /// The element type expected.
        expected: String,
    },
    /// An operation failed.
    #[error("{op}{at}: {error}")]
    Op {
        /// The operation's name.
        op: String,
        /// " (model.py:12)" or nothing.
        at: String,
        /// What went wrong.
        error: OpError,
    },
    /// A limit against endless or exploding programs was passed.
    #[error("{0}")]
    Limit(String),
    /// The program is not well formed.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// Why an operation cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The operands do not fit together.
    #[error("{0}")]
    Invalid(String),
    /// The element type is not supported for this operation.
    #[error("element type {0} is not supported by this operation")]
    Element(String),
    /// An array cannot be made or read.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A Metal kernel failed.
    #[error("{0}")]
    Kernel(String),
}

impl OpError {
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }
}

fn list(ops: &[(String, usize)]) -> String {
    let items: Vec<String> = ops.iter().map(|(name, count)| format!("{name} ({count}×)")).collect();
    items.join(", ")
}

fn names(known: &[String]) -> String {
    if known.is_empty() {
        "none".to_string()
    } else {
        known.join(", ")
    }
}
