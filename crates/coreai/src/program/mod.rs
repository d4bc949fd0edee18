//! The program of an asset: graphs with their inputs and outputs, and bodies ready for planning.

mod constants;
mod inspect;
mod lower;
mod opcode;
mod print;

use std::collections::HashMap;
use std::sync::Arc;

use crate::bytecode::{AttrId, BytecodeError, Dim, ElementType, Module, SourceLocation};
use crate::error::ProgramError;

pub use constants::Constant;
pub use inspect::{FunctionSummary, KernelSummary, PortSummary, Summary, WeightSummary};
pub use opcode::{Binary, OpCode, Reduction, Unary};
pub use print::print;

/// A program.
pub struct Program {
    module: Arc<Module>,
    version: u64,
    graphs: Vec<Graph>,
    by_name: HashMap<String, usize>,
    unsupported: Vec<(String, usize)>,
}

/// A named graph: a callable function when it is public, a composite or sub-module when it is private.
#[derive(Debug)]
pub struct Graph {
    /// Its name; may contain dots.
    pub name: String,
    /// Only called by other graphs.
    pub private: bool,
    /// What composite operation it stands for.
    pub composite: Option<Composite>,
    /// Arguments in order, states first.
    pub inputs: Vec<Port>,
    /// Results in order, tokens of states first.
    pub outputs: Vec<Port>,
    pub(crate) body: Body,
}

/// An argument or result of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Its name; empty when the asset gives none.
    pub name: String,
    /// Its type.
    pub ty: ValueType,
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueType {
    /// A tensor; `None` extents are known at run time only.
    Tensor(ElementType, Vec<Dim>),
    /// State memory that holds such a tensor.
    Handle(ElementType, Vec<Dim>),
    /// Orders accesses to a state.
    Token,
    /// A type that values of a runnable program never have.
    Other,
}

impl std::fmt::Display for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tensor(element, shape) | Self::Handle(element, shape) => {
                write!(f, "{element}{}", dims_text(shape))
            }
            Self::Token => f.write_str("token"),
            Self::Other => f.write_str("?"),
        }
    }
}

/// `[2, ?, 64]`.
pub(crate) fn dims_text(shape: &[Dim]) -> String {
    let dims: Vec<String> = shape
        .iter()
        .map(|d| d.map_or_else(|| "?".to_string(), |d| d.to_string()))
        .collect();
    format!("[{}]", dims.join(", "))
}

/// The declaration of a composite operation: a private graph whose body may be replaced by a better kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Composite {
    /// Its stable name: "scaled_dot_product_attention", "layer_norm".
    pub name: String,
    /// Names of the arguments in order.
    pub inputs: Vec<String>,
    /// Names of the results in order.
    pub outputs: Vec<String>,
    /// Attributes by name.
    pub attributes: Vec<(String, CompositeValue)>,
}

impl Composite {
    /// The attribute `name`.
    pub fn attribute(&self, name: &str) -> Option<&CompositeValue> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
}

/// The value of a composite's attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum CompositeValue {
    /// An integer or bool.
    Integer(i64),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<CompositeValue>),
}

/// The operations of a graph or of a region.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub args: Vec<u32>,
    pub instrs: Vec<Instr>,
    /// Values of the isolated region; non-isolated bodies use the numbers of their parent.
    pub value_count: usize,
    /// For each operation of an isolated body, the values that nothing after it needs.
    pub drops: Vec<Vec<u32>>,
}

/// One operation, ready to be planned or evaluated.
#[derive(Debug)]
pub(crate) struct Instr {
    pub code: OpCode,
    /// For [`Module::op_name`].
    pub name: u32,
    pub operands: Vec<u32>,
    pub results: Vec<u32>,
    pub types: Vec<ValueType>,
    pub detail: Detail,
    pub location: AttrId,
}

/// What an operation needs beside its operands.
#[derive(Debug)]
pub(crate) enum Detail {
    None,
    Constant(Constant),
    /// Index of the graph.
    Invoke(usize),
    /// The value of an enumeration property (GELU form, padding, scan, scatter or interpolation mode).
    Mode(u64),
    /// A Metal kernel: function name and source.
    Kernel {
        name: Arc<str>,
        source: Arc<str>,
    },
    /// Bodies of `if` (then, else), `while` (before, after), or a decomposition (one).
    Bodies(Vec<Body>),
}

impl Program {
    /// Builds the program of `module`.
    pub fn new(module: Module) -> Result<Self, ProgramError> {
        lower::lower(Arc::new(module))
    }

    /// The bytecode underneath.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The serialisation version: the newest "introduced in" date of its operations, such as 20260409.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All graphs, public and private.
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }

    /// Names of the callable functions.
    pub fn function_names(&self) -> Vec<String> {
        self.graphs
            .iter()
            .filter(|g| !g.private)
            .map(|g| g.name.clone())
            .collect()
    }

    /// The callable function `name`.
    pub fn function(&self, name: &str) -> Result<usize, ProgramError> {
        match self.by_name.get(name) {
            Some(&i) if !self.graphs[i].private => Ok(i),
            _ => Err(ProgramError::NoFunction {
                name: name.to_string(),
                known: self.function_names(),
            }),
        }
    }

    /// Operations that cannot be run, with their counts.
    pub fn unsupported(&self) -> &[(String, usize)] {
        &self.unsupported
    }

    /// Where in the model's source an operation comes from.
    pub fn location(&self, id: AttrId) -> Result<Option<SourceLocation>, BytecodeError> {
        self.module.location(id)
    }
}
