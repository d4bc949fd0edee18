//! What a program holds, as data for people and machines.

use std::collections::{BTreeMap, HashSet};

use super::{Body, Detail, Program, ValueType};

/// An overview of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Callable functions.
    pub functions: Vec<FunctionSummary>,
    /// Operations outside the decompositions that some carry, by name without version, most frequent first. Bodies
    /// of private graphs count once.
    pub operations: Vec<(String, usize)>,
    /// Composite operations by name, with the number of their graphs.
    pub composites: Vec<(String, usize)>,
    /// Constants by element type.
    pub weights: Vec<WeightSummary>,
    /// Metal kernels.
    pub kernels: Vec<KernelSummary>,
    /// Operations that cannot be run.
    pub unsupported: Vec<(String, usize)>,
}

/// A callable function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionSummary {
    /// Its name.
    pub name: String,
    /// Inputs that are passed on each call.
    pub inputs: Vec<PortSummary>,
    /// States that the caller owns.
    pub states: Vec<PortSummary>,
    /// Results.
    pub outputs: Vec<PortSummary>,
}

/// An input, a state or a result.
#[derive(Debug, Clone, PartialEq)]
pub struct PortSummary {
    /// Its name.
    pub name: String,
    /// Its element type: "float32".
    pub element: String,
    /// Its extents; `None` is free.
    pub shape: Vec<Option<u64>>,
}

/// Constants of one element type.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightSummary {
    /// The element type.
    pub element: String,
    /// Number of distinct constants.
    pub tensors: usize,
    /// Elements in all of them.
    pub elements: u64,
    /// Bytes that they take in the file.
    pub bytes: u64,
}

/// A Metal kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSummary {
    /// Function name in the source.
    pub name: String,
    /// Call sites.
    pub calls: usize,
    /// The Metal source.
    pub source: String,
}

impl Program {
    /// An overview of the program.
    pub fn summary(&self) -> Summary {
        let mut count = Count::default();
        let mut composites = BTreeMap::new();
        for graph in self.graphs() {
            if let Some(composite) = &graph.composite {
                *composites.entry(composite.name.clone()).or_insert(0) += 1;
            }
            count.body(self, &graph.body);
        }
        let functions = self.graphs().iter().filter(|g| !g.private).map(|graph| {
            let mut out = FunctionSummary {
                name: graph.name.clone(),
                inputs: vec![],
                states: vec![],
                outputs: vec![],
            };
            for port in &graph.inputs {
                match &port.ty {
                    ValueType::Tensor(e, shape) => out.inputs.push(summary(&port.name, *e, shape)),
                    ValueType::Handle(e, shape) => out.states.push(summary(&port.name, *e, shape)),
                    _ => {}
                }
            }
            for port in &graph.outputs {
                if let ValueType::Tensor(e, shape) = &port.ty {
                    out.outputs.push(summary(&port.name, *e, shape));
                }
            }
            out
        });
        let mut operations: Vec<(String, usize)> = count.operations.into_iter().collect();
        operations.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Summary {
            functions: functions.collect(),
            operations,
            composites: composites.into_iter().collect(),
            weights: count.weights.into_values().collect(),
            kernels: count.kernels.into_values().collect(),
            unsupported: self.unsupported().to_vec(),
        }
    }
}

fn summary(name: &str, element: crate::bytecode::ElementType, shape: &[Option<u64>]) -> PortSummary {
    PortSummary {
        name: name.to_string(),
        element: element.name().to_string(),
        shape: shape.to_vec(),
    }
}

#[derive(Default)]
struct Count {
    operations: BTreeMap<String, usize>,
    weights: BTreeMap<&'static str, WeightSummary>,
    kernels: BTreeMap<String, KernelSummary>,
    seen: HashSet<(usize, usize)>,
}

impl Count {
    fn body(&mut self, program: &Program, body: &Body) {
        for instr in &body.instrs {
            let name = program.module().op_name(instr.name);
            let base = name.rsplit_once("_v").map_or(name, |(base, _)| base);
            let base = base.strip_prefix("primitive.").unwrap_or(base);
            *self.operations.entry(base.to_string()).or_insert(0) += 1;
            match &instr.detail {
                Detail::Constant(constant) => {
                    if !self
                        .seen
                        .insert((constant.bytes.as_ptr() as usize, constant.bytes.len()))
                    {
                        continue;
                    }
                    let entry = self
                        .weights
                        .entry(constant.element.name())
                        .or_insert_with(|| WeightSummary {
                            element: constant.element.name().to_string(),
                            tensors: 0,
                            elements: 0,
                            bytes: 0,
                        });
                    entry.tensors += 1;
                    entry.elements += constant.elements().unwrap_or(0) as u64;
                    entry.bytes += constant.bytes.len() as u64;
                }
                Detail::Kernel { name, source } => {
                    let entry = self.kernels.entry(name.to_string()).or_insert_with(|| KernelSummary {
                        name: name.to_string(),
                        calls: 0,
                        source: source.to_string(),
                    });
                    entry.calls += 1;
                }
                Detail::Bodies(bodies) => bodies.iter().for_each(|b| self.body(program, b)),
                _ => {}
            }
        }
    }
}
