//! From a counted loop to its map: the walk over the body, where everything must be element-wise.

use std::collections::{HashMap, HashSet};

use super::counted::is_slot_type;
use super::{Class, Formed, Pass, Rejected, shape};
use crate::kernel::{Block, Inst};
use crate::op::{Const, Op};
use crate::passes::effects::Root;
use crate::passes::uniformity::Uniformity;
use crate::tensor::CoopRole;
use crate::types::{AddressSpace, CoopId, LocalId, Scalar, Type, ValueId};

impl Pass<'_> {
    /// Checks a loop and builds its map.
    pub(super) fn candidate(
        &mut self,
        before: &[Inst],
        body: &Block,
        latch: &Block,
        control: usize,
    ) -> Result<Formed, Rejected> {
        let counters = self.counters(before, body, latch)?;
        let (header, capacity) = self.header(body, &counters)?;
        let mut walk = Walk {
            pass: self,
            counters: &counters,
            over: None,
            classes: HashMap::new(),
            local_classes: HashMap::new(),
            set_inside: HashSet::new(),
            gets_inside: HashMap::new(),
            operands_outside: Vec::new(),
            hoisted: Vec::new(),
            replaced: HashMap::new(),
            defined: HashSet::new(),
            exits: Vec::new(),
            continues: false,
            dependent: HashSet::new(),
            dependent_locals: HashSet::new(),
            reads: Vec::new(),
            store: None,
        };
        body.for_each_inst(&mut |inst| {
            walk.defined.extend(inst.results());
            match &inst.op {
                Op::LocalSet { local, .. } => {
                    walk.set_inside.insert(*local);
                }
                Op::LocalGet(local) => *walk.gets_inside.entry(*local).or_default() += 1,
                _ => {}
            }
        });
        for local in walk.set_inside.iter() {
            if walk.gets_inside.get(local).copied().unwrap_or(0) != walk.pass.gets[local.index()] {
                return Err("a local that the body sets is read elsewhere");
            }
        }
        let mut out = Vec::new();
        let mut assigned = Some(HashSet::new());
        // The header's test goes; what it computes may be used further on.
        for inst in &body.insts[..header] {
            let mut of_slot = false;
            inst.op.for_each_operand(|value| {
                of_slot |= matches!(walk.class(value), Class::Slot | Class::Test);
            });
            if of_slot && matches!(inst.op, Op::Compare { .. } | Op::Unary { .. }) {
                walk.classes.insert(inst.first, Class::Test);
            } else {
                walk.inst(inst, &mut out, &mut assigned)?;
            }
        }
        walk.insts(&body.insts[header + 1..], &mut out, &mut assigned)?;
        let over = walk.over.ok_or("no tile is accessed")?;
        walk.separate()?;
        let (outside, hoisted, continues) = (
            std::mem::take(&mut walk.operands_outside),
            std::mem::take(&mut walk.hoisted),
            walk.continues,
        );
        let tile = self.kernel.coop(over);
        if tile.capacity() != capacity {
            return Err("the loop does not run over the whole capacity");
        }
        let required = if tile.simdgroups > 1 {
            Uniformity::Threadgroup
        } else {
            Uniformity::Simdgroup
        };
        if self.info.control[control].entry > required {
            return Err("not all lanes of the scope run the loop together");
        }
        if outside.iter().any(|level| *level > required) {
            return Err("a value from outside differs between lanes");
        }
        let mut map = Block { insts: out };
        if continues {
            // `Continue` of the loop becomes `Break` of a scope at the same depth.
            let location = body.insts[header].location;
            let scope = Inst {
                op: Op::Scope { body: map },
                first: body.insts[header].first,
                count: 0,
                location,
            };
            map = Block { insts: vec![scope] };
        }
        let kept = counters
            .iter()
            .copied()
            .filter(|counter| {
                // Reads in the header, the body and the latch went with the loop.
                let mut inside = 0;
                for block in [body, latch] {
                    block.for_each_inst(&mut |inst| {
                        inside += u32::from(matches!(&inst.op, Op::LocalGet(l) if l == counter));
                    });
                }
                inside != self.gets[counter.index()]
            })
            .collect();
        Ok(Formed {
            before: hoisted,
            map: Op::CoopMap { over, body: map },
            counters: kept,
            capacity,
        })
    }
}

/// The locals that are set for certain at a point; `None` where control does not come.
type Assigned = Option<HashSet<LocalId>>;

fn meet(a: &mut Assigned, b: Assigned) {
    match (a.as_mut(), b) {
        (Some(a), Some(b)) => a.retain(|local| b.contains(local)),
        (None, b) => *a = b,
        (Some(_), None) => {}
    }
}

/// An inner loop or scope of the body, while it is walked.
struct Exit {
    is_loop: bool,
    at_break: Assigned,
    at_continue: Assigned,
}

struct Walk<'p, 'k> {
    pass: &'p mut Pass<'k>,
    counters: &'p [LocalId],
    over: Option<CoopId>,
    classes: HashMap<ValueId, Class>,
    local_classes: HashMap<LocalId, Class>,
    set_inside: HashSet<LocalId>,
    gets_inside: HashMap<LocalId, u32>,
    /// The levels of what comes from outside.
    operands_outside: Vec<Uniformity>,
    hoisted: Vec<Inst>,
    replaced: HashMap<ValueId, ValueId>,
    defined: HashSet<ValueId>,
    exits: Vec<Exit>,
    continues: bool,
    /// Values that differ from element to element.
    dependent: HashSet<ValueId>,
    dependent_locals: HashSet<LocalId>,
    /// Pointers that memory is read through.
    reads: Vec<ValueId>,
    /// The pointer of the only store.
    store: Option<ValueId>,
}

impl Walk<'_, '_> {
    fn class(&self, value: ValueId) -> Class {
        self.classes.get(&value).copied().unwrap_or(Class::Other)
    }

    /// Takes note that the slot number is used with this tile.
    fn over(&mut self, coop: CoopId) -> Result<(), Rejected> {
        let Some(over) = self.over else {
            self.over = Some(coop);
            return Ok(());
        };
        if shape(self.pass.kernel.coop(over)) != shape(self.pass.kernel.coop(coop)) {
            return Err("tiles of different layouts share a slot number");
        }
        Ok(())
    }

    /// Checks an access to a tile; true if it is through `map_iterator`.
    fn access(&mut self, coop: CoopId, slot: ValueId) -> Result<bool, Rejected> {
        match self.class(slot) {
            Class::Slot => self.over(coop).map(|()| false),
            Class::Mapped(to) if shape(self.pass.kernel.coop(to)) == shape(self.pass.kernel.coop(coop)) => Ok(true),
            _ => Err("a tile is accessed by another slot number"),
        }
    }

    fn insts(&mut self, insts: &[Inst], out: &mut Vec<Inst>, assigned: &mut Assigned) -> Result<(), Rejected> {
        for inst in insts {
            self.inst(inst, out, assigned)?;
        }
        Ok(())
    }

    fn nested(&mut self, block: &Block, assigned: &mut Assigned) -> Result<Block, Rejected> {
        let mut out = Vec::new();
        self.insts(&block.insts, &mut out, assigned)?;
        Ok(Block { insts: out })
    }

    /// An ordinary operand: not a slot; uniform if it comes from outside.
    fn plain(&mut self, value: ValueId) -> Result<ValueId, Rejected> {
        if self.class(value) != Class::Other {
            return Err("a slot number is used as a number");
        }
        if !self.defined.contains(&value) {
            self.operands_outside.push(self.pass.info.value(value));
        }
        Ok(self.replaced.get(&value).copied().unwrap_or(value))
    }

    fn inst(&mut self, inst: &Inst, out: &mut Vec<Inst>, assigned: &mut Assigned) -> Result<(), Rejected> {
        let mut depends = match &inst.op {
            Op::CoopGet { .. } | Op::CoopIndex { .. } => true,
            Op::LocalGet(local) => self.dependent_locals.contains(local),
            _ => false,
        };
        inst.op
            .for_each_operand(|value| depends |= self.dependent.contains(&value));
        if depends {
            self.dependent.extend(inst.results());
            if let Op::LocalSet { local, .. } = &inst.op {
                self.dependent_locals.insert(*local);
            }
        }
        let mut push = |op: Op| {
            out.push(Inst {
                op,
                first: inst.first,
                count: inst.count,
                location: inst.location,
            });
        };
        match &inst.op {
            Op::LocalGet(local) => {
                if self.counters.contains(local) {
                    self.classes.insert(inst.first, Class::Slot);
                } else if !self.set_inside.contains(local) {
                    self.operands_outside.push(self.pass.info.local(*local));
                    self.hoisted.push(inst.clone());
                } else {
                    if assigned.as_ref().is_some_and(|set| !set.contains(local)) {
                        return Err("a local is carried from one iteration to the next");
                    }
                    let class = self.local_classes.get(local).copied();
                    let class = class.unwrap_or(Class::Other);
                    if class == Class::Other {
                        push(inst.op.clone());
                    } else {
                        self.classes.insert(inst.first, class);
                    }
                }
            }
            Op::LocalSet { local, value } => {
                let class = self.class(*value);
                if *self.local_classes.entry(*local).or_insert(class) != class {
                    return Err("a local holds slot numbers and other things");
                }
                if class == Class::Other {
                    let value = self.plain(*value)?;
                    push(Op::LocalSet { local: *local, value });
                }
                if let Some(set) = assigned {
                    set.insert(*local);
                }
            }
            Op::Convert { operand, to, .. } if self.class(*operand) != Class::Other && is_slot_type(*to) => {
                self.classes.insert(inst.first, self.class(*operand));
            }
            Op::CoopGet { coop, slot } => {
                self.access(*coop, *slot)?;
                push(Op::CoopElement(*coop));
            }
            Op::CoopSet { coop, slot, value } => {
                if self.access(*coop, *slot)? {
                    return Err("a reduction tensor is written through `map_iterator`");
                }
                let value = self.plain(*value)?;
                push(Op::CoopElementSet { coop: *coop, value });
            }
            Op::CoopValid { coop, slot } => {
                self.access(*coop, *slot)?;
                let value = Const {
                    ty: Scalar::Bool,
                    bits: 1,
                };
                push(Op::Const(value));
            }
            Op::CoopIndex { coop, slot } => {
                if self.access(*coop, *slot)? {
                    // The row or the column of the element that the map is at.
                    let (column, row) = (self.pass.fresh(Scalar::I32), self.pass.fresh(Scalar::I32));
                    self.defined.extend([column, row]);
                    out.push(Inst {
                        op: Op::CoopElementIndex,
                        first: column,
                        count: 2,
                        location: inst.location,
                    });
                    let role = self.pass.kernel.coop(*coop).role;
                    let index = if role == CoopRole::RowReduction { row } else { column };
                    self.replaced.insert(inst.first, index);
                } else {
                    push(Op::CoopElementIndex);
                }
            }
            Op::CoopMapSlot { to, from, slot } => {
                if self.access(*from, *slot)? {
                    return Err("`map_iterator` from a reduction tensor");
                }
                let (to_tile, from_tile) = (self.pass.kernel.coop(*to), self.pass.kernel.coop(*from));
                let fits = match to_tile.role {
                    CoopRole::RowReduction => to_tile.rows == from_tile.rows,
                    CoopRole::ColumnReduction => to_tile.columns == from_tile.columns,
                    _ => false,
                };
                if !fits || shape(from_tile).reduction.is_some() {
                    return Err("`map_iterator` between shapes that do not match");
                }
                self.classes.insert(inst.first, Class::Mapped(*to));
            }
            Op::If {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.plain(*condition)?;
                let mut at_else = assigned.clone();
                let then = self.nested(then, assigned)?;
                let otherwise = self.nested(otherwise, &mut at_else)?;
                meet(assigned, at_else);
                push(Op::If {
                    condition,
                    then,
                    otherwise,
                });
            }
            Op::Scope { body } => {
                self.exits.push(Exit {
                    is_loop: false,
                    at_break: None,
                    at_continue: None,
                });
                let body = self.nested(body, assigned)?;
                if let Some(exit) = self.exits.pop() {
                    meet(assigned, exit.at_break);
                }
                push(Op::Scope { body });
            }
            Op::Loop { body, latch, unroll } => {
                self.exits.push(Exit {
                    is_loop: true,
                    at_break: None,
                    at_continue: None,
                });
                let mut inside = assigned.clone();
                let body = self.nested(body, &mut inside)?;
                if let Some(exit) = self.exits.last_mut() {
                    meet(&mut inside, exit.at_continue.take());
                }
                let latch = self.nested(latch, &mut inside)?;
                *assigned = self.exits.pop().and_then(|exit| exit.at_break);
                push(Op::Loop {
                    body,
                    latch,
                    unroll: *unroll,
                });
            }
            Op::Break(depth) => {
                let at = self.exits.len().checked_sub(*depth as usize + 1);
                let at = at.ok_or("the loop has another exit")?;
                meet(&mut self.exits[at].at_break, assigned.take());
                push(Op::Break(*depth));
            }
            Op::Continue(depth) => match self.exits.len().checked_sub(*depth as usize + 1) {
                Some(at) if self.exits[at].is_loop => {
                    meet(&mut self.exits[at].at_continue, assigned.take());
                    push(Op::Continue(*depth));
                }
                None if *depth as usize == self.exits.len() => {
                    *assigned = None;
                    self.continues = true;
                    push(Op::Break(*depth));
                }
                _ => return Err("the loop continues another loop"),
            },
            Op::Load { pointer, .. } => {
                self.readable(*pointer)?;
                self.reads.push(*pointer);
                self.rewritten(inst, out)?;
            }
            Op::TensorLoad { tensor, .. } => {
                self.readable(tensor.pointer)?;
                self.reads.push(tensor.pointer);
                if let Some(plane) = &tensor.scales {
                    self.readable(plane.pointer)?;
                    self.reads.push(plane.pointer);
                }
                self.rewritten(inst, out)?;
            }
            Op::Store { pointer, .. } => {
                let differs = self.dependent.contains(pointer);
                self.stored(*pointer, differs)?;
                self.rewritten(inst, out)?;
            }
            Op::TensorStore { tensor, indices, .. } => {
                if tensor.format.is_sub_byte() {
                    return Err("elements that share a byte are written");
                }
                let differs = indices.iter().any(|index| self.dependent.contains(index));
                self.stored(tensor.pointer, differs)?;
                self.rewritten(inst, out)?;
            }
            Op::TensorQuery { .. } => self.rewritten(inst, out)?,
            Op::Builtin(_) => {
                self.operands_outside.push(self.pass.info.value(inst.first));
                push(inst.op.clone());
            }
            op if op.is_pure() => self.rewritten(inst, out)?,
            _ => return Err("the body does something that is not element-wise"),
        }
        Ok(())
    }

    fn rewritten(&mut self, inst: &Inst, out: &mut Vec<Inst>) -> Result<(), Rejected> {
        let mut inst = inst.clone();
        let mut result = Ok(());
        inst.op.for_each_operand_mut(|value| match self.plain(*value) {
            Ok(new) => *value = new,
            Err(reason) => result = Err(reason),
        });
        out.push(inst);
        result
    }

    /// Takes note of a store; `differs` says whether elements write to different places.
    fn stored(&mut self, pointer: ValueId, differs: bool) -> Result<(), Rejected> {
        let private = Type::Pointer(AddressSpace::Thread);
        if self.pass.kernel.ty(pointer) == private {
            return Err("lane-private memory is written");
        }
        if !differs {
            return Err("elements are written to the same place");
        }
        // Inside an inner loop the same element may write several times.
        if self.exits.iter().any(|exit| exit.is_loop) || self.store.replace(pointer).is_some() {
            return Err("there is more than one store");
        }
        Ok(())
    }

    /// Checks that nothing reads what the store may write.
    fn separate(&self) -> Result<(), Rejected> {
        let Some(store) = self.store else {
            return Ok(());
        };
        let effects = &self.pass.effects;
        let kernel = &*self.pass.kernel;
        let written = effects.roots(store);
        for &read in &self.reads {
            let constant = kernel.ty(read) == Type::Pointer(AddressSpace::Constant);
            let from = effects.roots(read);
            let apart = kernel.ty(read) != kernel.ty(store)
                || (!from.unknown && !written.unknown && !from.known.iter().any(|root| written.known.contains(root)));
            if !constant && !apart {
                return Err("the store may write what the body reads");
            }
        }
        Ok(())
    }

    /// Memory that every lane of the scope sees alike.
    fn readable(&mut self, pointer: ValueId) -> Result<(), Rejected> {
        let roots = self.pass.effects.roots(pointer);
        let thread = Type::Pointer(AddressSpace::Thread);
        if self.pass.kernel.ty(pointer) != thread {
            return Ok(());
        }
        if roots.unknown || roots.known.is_empty() {
            return Err("lane-private memory is read");
        }
        for root in &roots.known {
            match root {
                Root::Memory(id) => self.operands_outside.push(self.pass.info.memory[id.index()]),
                Root::Argument(_) => return Err("lane-private memory is read"),
            }
        }
        Ok(())
    }
}
