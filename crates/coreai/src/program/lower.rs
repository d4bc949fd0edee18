//! From the bytecode's operation tree to graphs with decoded properties.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::opcode::property_names;
use super::*;
use crate::bytecode::{Attr, Block, Op, Region, Type, TypeId};

/// How many attributes of a composite are read before it is refused; real ones have a handful.
const MAX_COMPOSITE_VALUES: usize = 4096;

pub(super) fn lower(module: Arc<Module>) -> Result<Program, ProgramError> {
    let m = module.clone();
    let mut lowering = Lowering {
        module: &m,
        types: HashMap::new(),
        names: HashMap::new(),
        unsupported: BTreeMap::new(),
    };
    let root = single_block(m.root()).map(|b| b.ops.as_slice()).unwrap_or(&[]);
    let [asset] = root else {
        let what = format!("the file has {} top-level operations, an asset has one", root.len());
        return Err(ProgramError::Bytecode(BytecodeError::Malformed { what, offset: 0 }));
    };
    if m.op_name(asset.name) != "serialization.asset" {
        return Err(op_error(
            &m,
            asset,
            "the top-level operation must be serialization.asset",
        ));
    }
    let properties = lowering.properties(asset)?;
    let version = match properties.get("version") {
        Some(&id) => m.attr_integer(id)?.and_then(|v| u64::try_from(v).ok()).unwrap_or(0),
        None => 0,
    };
    let ops: &[Op] = match asset.regions.as_slice() {
        [region] => single_block(region).map(|b| b.ops.as_slice()).unwrap_or(&[]),
        _ => return Err(op_error(&m, asset, "it must have one region")),
    };
    let mut headers = Vec::new();
    let mut by_name = HashMap::new();
    for op in ops {
        if m.op_name(op.name) != "dataflow.graph_v1" {
            *lowering.unsupported.entry(m.op_name(op.name).to_string()).or_insert(0) += 1;
            continue;
        }
        let graph = lowering.header(op)?;
        if by_name.insert(graph.name.clone(), headers.len()).is_some() {
            return Err(op_error(&m, op, format!("two graphs are named {:?}", graph.name)));
        }
        headers.push((graph, op));
    }
    lowering.names = by_name.clone();
    let mut graphs = Vec::with_capacity(headers.len());
    for (mut graph, op) in headers {
        graph.body = lowering.graph_body(op, &graph)?;
        graphs.push(graph);
    }
    let unsupported = lowering.unsupported.into_iter().collect();
    Ok(Program {
        module,
        version,
        graphs,
        by_name,
        unsupported,
    })
}

struct Lowering<'m> {
    module: &'m Module,
    types: HashMap<TypeId, ValueType>,
    names: HashMap<String, usize>,
    unsupported: BTreeMap<String, usize>,
}

fn op_error(module: &Module, op: &Op, what: impl Into<String>) -> ProgramError {
    ProgramError::Op {
        op: module.op_name(op.name).to_string(),
        what: what.into(),
        offset: op.offset,
    }
}

fn single_block(region: &Region) -> Option<&Block> {
    match region.blocks.as_slice() {
        [block] => Some(block),
        _ => None,
    }
}

/// The properties of `op` that are present, by name.
pub(super) fn read_properties(module: &Module, op: &Op) -> Result<Vec<(&'static str, AttrId)>, ProgramError> {
    let names = property_names(module.op_name(op.name));
    let mut out = Vec::new();
    let Some(id) = op.properties else {
        if names.iter().any(|(_, optional)| !optional) {
            return Err(op_error(module, op, "its properties are missing"));
        }
        return Ok(out);
    };
    let mut c = module.property_cursor(id)?;
    for &(name, optional) in names {
        let offset = c.offset();
        let value = c.varint("property")?;
        let index = match (optional, value) {
            (true, 0) => continue,
            (true, v) => v >> 1,
            (false, v) => v,
        };
        out.push((name, module.checked_attr(index, offset)?));
    }
    c.finish("properties")?;
    Ok(out)
}

impl Lowering<'_> {
    fn properties(&self, op: &Op) -> Result<HashMap<&'static str, AttrId>, ProgramError> {
        Ok(read_properties(self.module, op)?.into_iter().collect())
    }

    fn value_type(&mut self, id: TypeId) -> Result<ValueType, ProgramError> {
        if let Some(ty) = self.types.get(&id) {
            return Ok(ty.clone());
        }
        let ty = match self.module.ty(id)? {
            Type::Tensor(t) => ValueType::Tensor(t.element, t.shape),
            Type::Handle(inner) => match self.module.ty(inner)? {
                Type::Tensor(t) => ValueType::Handle(t.element, t.shape),
                _ => ValueType::Other,
            },
            Type::Token => ValueType::Token,
            _ => ValueType::Other,
        };
        self.types.insert(id, ty.clone());
        Ok(ty)
    }

    /// Everything of a graph but its body.
    fn header(&mut self, op: &Op) -> Result<Graph, ProgramError> {
        let m = self.module;
        let properties = self.properties(op)?;
        let flag =
            |key: &str| -> Result<bool, ProgramError> { Ok(m.attr_integer(properties[key])?.is_some_and(|v| v != 0)) };
        let name = m
            .attr_string(properties["name"])?
            .ok_or_else(|| op_error(m, op, "its name is not a string"))?
            .to_string();
        let function = match m.attr(properties["functionType"])? {
            Attr::Type(id) => m.ty(id)?,
            _ => return Err(op_error(m, op, "functionType is not a type")),
        };
        let Type::Function { results, operands } = function else {
            return Err(op_error(m, op, "functionType is not a function type"));
        };
        let composite = match properties.get("compositeDecl") {
            Some(&id) => self.composite(id)?,
            None => None,
        };
        Ok(Graph {
            name,
            private: flag("isPrivate")?,
            composite,
            inputs: self.ports(op, properties["argAttrs"], &operands)?,
            outputs: self.ports(op, properties["resAttrs"], &results)?,
            body: Body::default(),
        })
    }

    fn ports(&mut self, op: &Op, attrs: AttrId, types: &[TypeId]) -> Result<Vec<Port>, ProgramError> {
        let m = self.module;
        let lists = m.attr_array(attrs)?.unwrap_or_default();
        if !lists.is_empty() && lists.len() != types.len() {
            return Err(op_error(
                m,
                op,
                "it names another number of arguments or results than it has",
            ));
        }
        let mut out = Vec::with_capacity(types.len());
        for (i, &ty) in types.iter().enumerate() {
            let mut name = String::new();
            for entry in lists
                .get(i)
                .map(|&id| m.attr_array(id))
                .transpose()?
                .flatten()
                .unwrap_or_default()
            {
                if let Attr::Opaque {
                    name: "aicode.name",
                    values,
                } = m.attr(entry)?
                    && let Some(text) = values.first().map(|&v| m.attr_string(v)).transpose()?.flatten()
                {
                    name = text.to_string();
                }
            }
            out.push(Port {
                name,
                ty: self.value_type(ty)?,
            });
        }
        Ok(out)
    }

    fn composite(&self, id: AttrId) -> Result<Option<Composite>, ProgramError> {
        let Attr::Opaque { name, values } = self.module.attr(id)? else {
            return Ok(None);
        };
        let mut composite = Composite {
            name: name.to_string(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: Vec::new(),
        };
        let mut budget = MAX_COMPOSITE_VALUES;
        for value in values {
            let Attr::Opaque { name, values } = self.module.attr(value)? else {
                continue;
            };
            let Some(&first) = values.first() else {
                continue;
            };
            match (name, self.module.attr(first)?) {
                ("input_names", Attr::Array(items)) => composite.inputs = self.strings(&items)?,
                ("output_names", Attr::Array(items)) => composite.outputs = self.strings(&items)?,
                ("op_attrs", Attr::Dictionary(items)) => {
                    for item in items {
                        if let Attr::Opaque { name, values } = self.module.attr(item)?
                            && let Some(&v) = values.first()
                            && let Some(v) = self.composite_value(v, &mut budget)?
                        {
                            composite.attributes.push((name.to_string(), v));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(Some(composite))
    }

    fn strings(&self, items: &[AttrId]) -> Result<Vec<String>, ProgramError> {
        let mut out = Vec::with_capacity(items.len());
        for &item in items {
            out.push(self.module.attr_string(item)?.unwrap_or_default().to_string());
        }
        Ok(out)
    }

    fn composite_value(&self, id: AttrId, budget: &mut usize) -> Result<Option<CompositeValue>, ProgramError> {
        if *budget == 0 {
            return Ok(None);
        }
        *budget -= 1;
        Ok(match self.module.attr(id)? {
            Attr::Integer { .. } => self
                .module
                .attr_integer(id)?
                .and_then(|v| i64::try_from(v).ok())
                .map(CompositeValue::Integer),
            Attr::Float { width: 64, bits } => Some(CompositeValue::Float(f64::from_bits(bits))),
            Attr::Float { width: 32, bits } => Some(CompositeValue::Float(f64::from(f32::from_bits(bits as u32)))),
            Attr::Float { width: 16, bits } => Some(CompositeValue::Float(half::f16::from_bits(bits as u16).to_f64())),
            Attr::String(text) => Some(CompositeValue::Text(text.to_string())),
            Attr::Array(items) => {
                // One level only: an array may contain itself in a damaged file.
                let mut out = Vec::new();
                for item in items {
                    if !matches!(self.module.attr(item)?, Attr::Array(_)) {
                        out.extend(self.composite_value(item, budget)?);
                    }
                }
                Some(CompositeValue::List(out))
            }
            _ => None,
        })
    }

    fn graph_body(&mut self, op: &Op, graph: &Graph) -> Result<Body, ProgramError> {
        let body = match op.regions.as_slice() {
            [region] if region.isolated => self.isolated(op, region)?,
            _ => {
                return Err(op_error(self.module, op, "it must have one isolated region"));
            }
        };
        if body.args.len() != graph.inputs.len() {
            return Err(op_error(
                self.module,
                op,
                "its body has another number of arguments than its type",
            ));
        }
        let outputs = body
            .instrs
            .last()
            .filter(|i| i.code == OpCode::Output)
            .map(|i| i.operands.len());
        if outputs != Some(graph.outputs.len()) {
            return Err(op_error(
                self.module,
                op,
                "its body does not end with the outputs of its type",
            ));
        }
        Ok(body)
    }

    fn isolated(&mut self, op: &Op, region: &Region) -> Result<Body, ProgramError> {
        let mut body = self.body(op, region, &region.value_types)?;
        body.value_count = region.value_types.len();
        body.drops = last_uses(&body);
        Ok(body)
    }

    fn body(&mut self, op: &Op, region: &Region, types: &[TypeId]) -> Result<Body, ProgramError> {
        let Some(block) = single_block(region) else {
            return Err(op_error(self.module, op, "each of its regions must have one block"));
        };
        let mut body = Body {
            args: block.args.iter().map(|v| v.0).collect(),
            ..Body::default()
        };
        for op in &block.ops {
            body.instrs.push(self.instr(op, types)?);
        }
        Ok(body)
    }

    fn instr(&mut self, op: &Op, types: &[TypeId]) -> Result<Instr, ProgramError> {
        let m = self.module;
        let name = m.op_name(op.name);
        let mut result_types = Vec::with_capacity(op.results.len());
        for value in &op.results {
            let ty = types.get(value.0 as usize).copied();
            result_types.push(match ty {
                Some(ty) => self.value_type(ty)?,
                None => return Err(op_error(m, op, "a result has no type")),
            });
        }
        let code = match (OpCode::from_name(name), op.regions.as_slice()) {
            (Some(code), _) => code,
            // An operation that carries its decomposition can be run without knowing it.
            (None, [region]) if region.isolated && is_decomposition(m, op, region) => OpCode::Decomposed,
            (None, _) => {
                *self.unsupported.entry(name.to_string()).or_insert(0) += 1;
                OpCode::Unknown
            }
        };
        let detail = match code {
            OpCode::Constant => {
                let value = self.property(op, "value")?;
                Detail::Constant(self.constant(op, value, &result_types)?)
            }
            OpCode::Gelu => self.mode(op, "approximate")?,
            OpCode::Pad => self.mode(op, "padding_mode")?,
            OpCode::Scan => self.mode(op, "combiner")?,
            OpCode::Interpolate => self.mode(op, "interpolation_mode")?,
            OpCode::ScatterAlongAxis => self.mode(op, "scatter_mode")?,
            OpCode::Invoke => {
                let callee = self.property(op, "callee")?;
                Detail::Invoke(self.callee(op, callee)?)
            }
            OpCode::Metal4Kernel => {
                let text = |key| -> Result<Arc<str>, ProgramError> {
                    let id = self.property(op, key)?;
                    Ok(m.attr_string(id)?
                        .ok_or_else(|| op_error(m, op, format!("{key} is not a string")))?
                        .into())
                };
                if op.operands.len() < 2 + op.results.len() {
                    return Err(op_error(m, op, "it has too few operands"));
                }
                Detail::Kernel {
                    name: text("kernel_name")?,
                    source: text("kernel_source")?,
                }
            }
            OpCode::If | OpCode::While => {
                if op.regions.len() != 2 || op.regions.iter().any(|r| r.isolated) {
                    return Err(op_error(m, op, "it must have two regions that see its surroundings"));
                }
                let mut bodies = Vec::new();
                for region in &op.regions {
                    bodies.push(self.body(op, region, types)?);
                }
                Detail::Bodies(bodies)
            }
            OpCode::Decomposed => Detail::Bodies(vec![self.isolated(op, &op.regions[0])?]),
            _ => Detail::None,
        };
        Ok(Instr {
            code,
            name: op.name,
            operands: op.operands.iter().map(|v| v.0).collect(),
            results: op.results.iter().map(|v| v.0).collect(),
            types: result_types,
            detail,
            location: op.location,
        })
    }

    fn property(&self, op: &Op, key: &str) -> Result<AttrId, ProgramError> {
        self.properties(op)?
            .get(key)
            .copied()
            .ok_or_else(|| op_error(self.module, op, format!("property {key} is missing")))
    }

    fn mode(&self, op: &Op, key: &str) -> Result<Detail, ProgramError> {
        match self.module.attr(self.property(op, key)?)? {
            Attr::Enum { value, .. } => Ok(Detail::Mode(value)),
            _ => Err(op_error(
                self.module,
                op,
                format!("property {key} is not an enumeration"),
            )),
        }
    }

    fn callee(&self, op: &Op, id: AttrId) -> Result<usize, ProgramError> {
        let m = self.module;
        let inner = match m.attr(id)? {
            Attr::ParamConstant { value, .. } => m.attr(value)?,
            other => other,
        };
        let Attr::SymbolRef(path) = inner else {
            return Err(op_error(m, op, "its callee is not a symbol"));
        };
        let name = path.last().copied().unwrap_or_default();
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| op_error(m, op, format!("it calls {name:?}, which the program does not have")))
    }

    fn constant(&self, op: &Op, id: AttrId, types: &[ValueType]) -> Result<Constant, ProgramError> {
        let m = self.module;
        let [ValueType::Tensor(element, dims)] = types else {
            return Err(op_error(m, op, "a constant must have one tensor result"));
        };
        let mut shape = Vec::with_capacity(dims.len());
        for dim in dims {
            match dim.and_then(|d| usize::try_from(d).ok()) {
                Some(d) => shape.push(d),
                None => return Err(op_error(m, op, "a constant's shape must be static")),
            }
        }
        let (splat, packed, bytes) = match m.attr(id)? {
            Attr::DenseElements { splat, bytes, offset } => {
                (splat, false, m.file().slice(offset..offset + bytes.len()))
            }
            Attr::DenseResource(resource) => (false, true, m.resource(resource)),
            _ => return Err(op_error(m, op, "its value is not constant data")),
        };
        let bytes = bytes.ok_or_else(|| op_error(m, op, "its data lies outside the file"))?;
        let constant = Constant {
            element: *element,
            shape,
            splat,
            packed,
            bytes,
        };
        constant.check().map_err(|e| op_error(m, op, e.to_string()))?;
        Ok(constant)
    }
}

/// True when the region computes the operation from its operands.
fn is_decomposition(module: &Module, op: &Op, region: &Region) -> bool {
    single_block(region).is_some_and(|block| {
        block.args.len() == op.operands.len()
            && block.ops.last().is_some_and(|last| {
                module.op_name(last.name) == "dataflow.yield_v1" && last.operands.len() == op.results.len()
            })
    })
}

/// For each operation, the values whose last use it is; values that nobody uses end where they are defined.
fn last_uses(body: &Body) -> Vec<Vec<u32>> {
    fn uses(instr: &Instr, out: &mut Vec<u32>) {
        out.extend(&instr.operands);
        if let (OpCode::If | OpCode::While, Detail::Bodies(bodies)) = (instr.code, &instr.detail) {
            for body in bodies {
                body.instrs.iter().for_each(|i| uses(i, out));
            }
        }
    }
    let mut last = vec![None; body.value_count];
    let mut mark = |value: u32, at: usize| {
        if let Some(slot) = last.get_mut(value as usize) {
            *slot = Some(at);
        }
    };
    let mut used = Vec::new();
    for (i, instr) in body.instrs.iter().enumerate() {
        used.clear();
        uses(instr, &mut used);
        used.extend(&instr.results);
        used.iter().for_each(|&v| mark(v, i));
    }
    let mut out = vec![Vec::new(); body.instrs.len()];
    for (value, at) in last.into_iter().enumerate() {
        if let Some(at) = at {
            out[at].push(value as u32);
        }
    }
    out
}
