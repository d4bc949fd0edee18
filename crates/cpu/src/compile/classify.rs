//! Which values are the same in all lanes of a strip, which may be affine in the lane, and which are neither.
//!
//! This is the uniformity that strips need: a local is uniform when every lane that reads a value of it took part in
//! setting it, so that one copy serves them all, whatever lanes were masked off at the time. Lanes that have returned never read
//! again and do not count.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use anymetal_ir::{
    AddressSpace, BinaryOp, Block, Builtin, GroupOp, Kernel, LocalId, Op, ShuffleOp, TensorRef, Type, ValueId,
};

/// How a value varies over a strip.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    Uniform,
    /// Integers and pointers that may be `base + lane · stride`.
    Affine,
    Plain,
}

/// A map body, by the order of appearance; 0 is outside of all.
pub(crate) type MapId = u32;

#[derive(Debug)]
pub(crate) struct Classes {
    pub values: Vec<Class>,
    /// The map that a value is defined in.
    pub home: Vec<MapId>,
    /// Locals by (local, map): a local used in a map only is that map's own.
    pub locals: HashMap<(LocalId, MapId), Class>,
    /// Locals that every use finds set, because the block that holds all of them sets them first.
    pub set_first: HashSet<(LocalId, MapId)>,
}

/// True when strips span threadgroups, so that only what is the same for the whole dispatch is uniform.
fn builtin(builtin: Builtin, dense: bool) -> Class {
    use Builtin::*;
    match builtin {
        DispatchThreadsPerThreadgroup(_)
        | ThreadsPerGrid(_)
        | ThreadgroupsPerGrid(_)
        | DispatchSimdgroupsPerThreadgroup
        | ThreadsPerSimdgroup => Class::Uniform,
        ThreadgroupPositionInGrid(_)
        | ThreadsPerThreadgroup(_)
        | SimdgroupsPerThreadgroup
        | QuadgroupsPerThreadgroup
            if !dense =>
        {
            Class::Uniform
        }
        _ => Class::Affine,
    }
}

/// A place in the tree: the enclosing constructs, outermost first, with the block taken in each.
type Path = Rc<Vec<(u32, u8)>>;

struct AccessSite {
    path: Path,
    /// Class of the value, for a set.
    set: Option<ValueId>,
}

struct Construct {
    is_loop: bool,
    /// Takes part in `Break` depths.
    breakable: bool,
    divergent: bool,
}

struct Walk<'k> {
    kernel: &'k Kernel,
    dense: bool,
    classes: Classes,
    constructs: Vec<Construct>,
    next_construct: u32,
    next_map: MapId,
    map: MapId,
    path: Vec<(u32, u8)>,
    shared_path: Option<Path>,
    sites: HashMap<(LocalId, MapId), Vec<AccessSite>>,
    changed: bool,
}

/// Classifies everything. `dense` says that strips may span threadgroups.
pub(crate) fn classify(kernel: &Kernel, dense: bool) -> Classes {
    let mut walk = Walk {
        kernel,
        dense,
        classes: Classes {
            values: vec![Class::Uniform; kernel.values.len()],
            home: vec![0; kernel.values.len()],
            locals: HashMap::new(),
            set_first: HashSet::new(),
        },
        constructs: Vec::new(),
        next_construct: 0,
        next_map: 0,
        map: 0,
        path: Vec::new(),
        shared_path: None,
        sites: HashMap::new(),
        changed: true,
    };
    while walk.changed {
        walk.changed = false;
        walk.next_construct = 0;
        walk.next_map = 0;
        walk.sites.clear();
        walk.block(&kernel.body);
        walk.locals();
    }
    walk.classes
}

impl Walk<'_> {
    /// Class of an operand as the current block sees it: inside a map, what comes from outside is uniform.
    fn of(&self, value: ValueId) -> Class {
        if self.classes.home[value.index()] != self.map {
            return Class::Uniform;
        }
        self.classes.values[value.index()]
    }

    fn join(&self, values: &[ValueId]) -> Class {
        values
            .iter()
            .map(|&value| self.of(value))
            .max()
            .unwrap_or(Class::Uniform)
    }

    fn set(&mut self, value: ValueId, class: Class) {
        let at = value.index();
        if self.classes.home[at] != self.map {
            self.classes.home[at] = self.map;
            self.changed = true;
        }
        if class > self.classes.values[at] {
            self.classes.values[at] = class;
            self.changed = true;
        }
    }

    fn current_path(&mut self) -> Path {
        if self.shared_path.is_none() {
            self.shared_path = Some(Rc::new(self.path.clone()));
        }
        self.shared_path.clone().unwrap_or_default()
    }

    fn enter(&mut self, construct: u32, side: u8, block: &Block) {
        self.path.push((construct, side));
        self.shared_path = None;
        self.block(block);
        self.path.pop();
        self.shared_path = None;
    }

    fn construct(&mut self, is_loop: bool, breakable: bool, divergent: bool) -> u32 {
        let id = self.next_construct;
        self.next_construct += 1;
        if let Some(known) = self.constructs.get_mut(id as usize) {
            if divergent && !known.divergent {
                known.divergent = true;
                self.changed = true;
            }
        } else {
            self.constructs.push(Construct {
                is_loop,
                breakable,
                divergent,
            });
        }
        id
    }

    /// A jump out of constructs: where some lanes may stay behind, the constructs that it leaves are divergent.
    fn jump(&mut self, level: u32) {
        let mut target = None;
        let mut count = 0;
        for (at, &(id, _)) in self.path.iter().enumerate().rev() {
            if self.constructs[id as usize].breakable {
                if count == level {
                    target = Some(at);
                    break;
                }
                count += 1;
            }
        }
        let Some(target) = target else { return };
        let divergent = self.path[target + 1..]
            .iter()
            .any(|&(id, _)| self.constructs[id as usize].divergent);
        if divergent {
            for &(id, _) in &self.path[target..] {
                let construct = &mut self.constructs[id as usize];
                if construct.breakable && !construct.divergent {
                    construct.divergent = true;
                    self.changed = true;
                }
            }
        }
    }

    fn tensor(&self, tensor: &TensorRef, indices: &[ValueId]) -> Class {
        let mut values = vec![tensor.pointer];
        values.extend(&tensor.base_extents);
        values.extend(&tensor.strides);
        values.extend(&tensor.origin);
        values.extend(indices);
        for extent in &tensor.extents {
            if let anymetal_ir::Extent::Dynamic(value) = extent {
                values.push(*value);
            }
        }
        self.join(&values)
    }

    fn block(&mut self, block: &Block) {
        for inst in &block.insts {
            let pure = |class: Class| {
                if class == Class::Uniform {
                    Class::Uniform
                } else {
                    Class::Plain
                }
            };
            let integer = |walk: &Self, value: ValueId| match walk.kernel.ty(value) {
                Type::Scalar(scalar) => scalar.is_integer(),
                Type::Pointer(_) => true,
            };
            let class = match &inst.op {
                Op::Const(_)
                | Op::MemoryPointer(_)
                | Op::ArgumentPointer(_)
                | Op::ArgumentTensor(_)
                | Op::NullPointer(_)
                | Op::CoopCompatible { .. }
                | Op::CoopIteratorCompatible { .. } => Class::Uniform,
                Op::Builtin(which) => {
                    let class = builtin(*which, self.dense);
                    // In a map a position is that of the scope's first lane.
                    if self.map != 0 { Class::Uniform } else { class }
                }
                Op::Unary { operand, .. }
                | Op::Decode { operand, .. }
                | Op::Encode { operand, .. }
                | Op::Frexp { operand }
                | Op::Modf { operand } => pure(self.of(*operand)),
                Op::Binary { op, lhs, rhs, .. } => {
                    let class = self.join(&[*lhs, *rhs]);
                    let affine = integer(self, *lhs)
                        && matches!(
                            op,
                            BinaryOp::Add
                                | BinaryOp::Sub
                                | BinaryOp::Mul
                                | BinaryOp::Shl
                                | BinaryOp::Div
                                | BinaryOp::Rem
                                | BinaryOp::Shr
                                | BinaryOp::And
                                | BinaryOp::Min
                                | BinaryOp::Max
                        );
                    if affine { class } else { pure(class) }
                }
                Op::Ternary { a, b, c, .. } => pure(self.join(&[*a, *b, *c])),
                Op::Compare { lhs, rhs, .. } => pure(self.join(&[*lhs, *rhs])),
                Op::Select {
                    condition,
                    then,
                    otherwise,
                } => pure(self.join(&[*condition, *then, *otherwise])),
                Op::Convert { operand, to, saturate } => {
                    let class = self.of(*operand);
                    if integer(self, *operand) && to.is_integer() && !saturate {
                        // Offsets of lanes may turn out to be those of a matrix.
                        if to.bits() == 64 {
                            class.min(Class::Affine)
                        } else {
                            class
                        }
                    } else {
                        pure(class)
                    }
                }
                Op::Bitcast { operand, to } => {
                    let class = self.of(*operand);
                    let to_integer = to.scalar().is_none_or(|scalar| scalar.is_integer());
                    if integer(self, *operand) && to_integer {
                        class
                    } else {
                        pure(class)
                    }
                }
                Op::LocalGet(local) => {
                    let path = self.current_path();
                    self.sites
                        .entry((*local, self.map))
                        .or_default()
                        .push(AccessSite { path, set: None });
                    self.classes
                        .locals
                        .get(&(*local, self.map))
                        .copied()
                        .unwrap_or(Class::Uniform)
                }
                Op::LocalSet { local, value } => {
                    let path = self.current_path();
                    self.sites.entry((*local, self.map)).or_default().push(AccessSite {
                        path,
                        set: Some(*value),
                    });
                    Class::Uniform
                }
                Op::TensorQuery { handle, .. } => pure(self.of(*handle)),
                Op::PointerOffset { pointer, offset } => self.join(&[*pointer, *offset]),
                Op::PointerDiff { lhs, rhs } => pure(self.join(&[*lhs, *rhs])),
                Op::Load { pointer, .. } => {
                    let thread = self.kernel.ty(*pointer) == Type::Pointer(AddressSpace::Thread);
                    if thread && self.map == 0 {
                        Class::Plain
                    } else {
                        pure(self.of(*pointer))
                    }
                }
                Op::Atomic { .. } => Class::Plain,
                Op::TensorLoad { tensor, indices, .. } => {
                    if tensor.space == AddressSpace::Thread && self.map == 0 {
                        Class::Plain
                    } else {
                        pure(self.tensor(tensor, indices))
                    }
                }
                Op::TensorElementPointer { tensor, indices } => self.tensor(tensor, indices),
                Op::Group { op, operand, .. } => match op {
                    GroupOp::Min | GroupOp::Max | GroupOp::And | GroupOp::Or => pure(self.of(*operand)),
                    _ => Class::Plain,
                },
                Op::Shuffle { op, operand, .. } => match op {
                    ShuffleOp::Shuffle
                    | ShuffleOp::ShuffleXor
                    | ShuffleOp::ShuffleDown
                    | ShuffleOp::ShuffleUp
                    | ShuffleOp::RotateDown
                    | ShuffleOp::RotateUp
                    | ShuffleOp::Broadcast
                    | ShuffleOp::BroadcastFirst => pure(self.of(*operand)),
                },
                Op::Vote { .. } | Op::SimdgroupMatrixMultiply { .. } => Class::Plain,
                Op::CoopGet { .. }
                | Op::CoopValid { .. }
                | Op::CoopIndex { .. }
                | Op::CoopMapSlot { .. }
                | Op::CoopElement(_) => Class::Plain,
                Op::CoopElementIndex => Class::Affine,
                Op::CoopMap { body, .. } => {
                    self.next_map += 1;
                    let outer = std::mem::replace(&mut self.map, self.next_map);
                    let id = self.construct(false, false, false);
                    self.enter(id, 0, body);
                    self.map = outer;
                    Class::Uniform
                }
                Op::If {
                    condition,
                    then,
                    otherwise,
                } => {
                    let divergent = self.of(*condition) != Class::Uniform;
                    let id = self.construct(false, false, divergent);
                    self.enter(id, 0, then);
                    self.enter(id, 1, otherwise);
                    Class::Uniform
                }
                Op::Loop { body, latch, .. } => {
                    let id = self.construct(true, true, false);
                    self.enter(id, 0, body);
                    self.enter(id, 1, latch);
                    Class::Uniform
                }
                Op::Scope { body } => {
                    let id = self.construct(false, true, false);
                    self.enter(id, 0, body);
                    Class::Uniform
                }
                Op::Break(level) | Op::Continue(level) => {
                    self.jump(*level);
                    Class::Uniform
                }
                Op::TensorStore { .. }
                | Op::Store { .. }
                | Op::Barrier { .. }
                | Op::Fence(_)
                | Op::CoopInit(_)
                | Op::CoopCopy { .. }
                | Op::CoopSet { .. }
                | Op::CoopLoad { .. }
                | Op::CoopStore { .. }
                | Op::CoopConvert { .. }
                | Op::CoopReduce { .. }
                | Op::CoopElementSet { .. }
                | Op::Matmul { .. }
                | Op::Convolution { .. }
                | Op::Return => Class::Uniform,
            };
            for result in inst.results() {
                self.set(result, class);
            }
        }
    }

    /// Joins what is stored into each local.
    fn locals(&mut self) {
        let sites = std::mem::take(&mut self.sites);
        for (key, sites) in &sites {
            let (_, map) = *key;
            // A local that a map only reads comes from outside, as a uniform value.
            let Some(first) = sites.first() else { continue };
            let mut home = first.path.len();
            for site in sites {
                let common = first
                    .path
                    .iter()
                    .zip(site.path.iter())
                    .take_while(|(a, b)| a == b)
                    .count();
                home = home.min(common);
            }
            // A value may live on into the next iteration of a loop around all accesses unless each iteration sets it first.
            let sets_first = first.set.is_some() && first.path.len() == home;
            if sets_first {
                self.classes.set_first.insert(*key);
            }
            if !sets_first
                && let Some(outermost) = first.path[..home]
                    .iter()
                    .position(|&(id, _)| self.constructs[id as usize].is_loop)
            {
                home = outermost;
            }
            let outer = std::mem::replace(&mut self.map, map);
            let mut class = Class::Uniform;
            for site in sites {
                let Some(value) = site.set else { continue };
                class = class.max(self.of(value));
                let divergent = site.path[home.min(site.path.len())..]
                    .iter()
                    .any(|&(id, _)| self.constructs[id as usize].divergent);
                if divergent {
                    let integer = match self.kernel.local(key.0).ty {
                        Type::Scalar(scalar) => scalar.is_integer(),
                        Type::Pointer(_) => true,
                    };
                    class = class.max(if integer { Class::Affine } else { Class::Plain });
                }
            }
            self.map = outer;
            let old = self.classes.locals.get(key).copied().unwrap_or(Class::Uniform);
            if class > old || !self.classes.locals.contains_key(key) {
                self.classes.locals.insert(*key, class.max(old));
                self.changed |= class > old;
            }
        }
    }
}
