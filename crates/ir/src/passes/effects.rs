//! What a kernel reads and writes, by the object that a pointer comes from.
//!
//! Two different arguments may still be bound to overlapping memory: "never written" here means never written *through
//! this argument* (or through a pointer of unknown origin). A dispatch that binds overlapping ranges has to know.

use crate::kernel::{Access, ArgumentKind, Block, Inst, Kernel};
use crate::op::{AtomicOp, Op};
use crate::tensor::{Operand, TensorField, TensorRef};
use crate::types::{AddressSpace, ArgumentId, MemoryId, Scalar, Type, ValueId};

/// An object that a pointer or a tensor handle may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// Bound to the kernel.
    Argument(ArgumentId),
    /// Owned by the kernel.
    Memory(MemoryId),
}

/// The objects that a value may point into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The known ones, sorted.
    pub known: Vec<Root>,
    /// True if there may be others: the pointer was loaded from memory or made from an integer.
    pub unknown: bool,
}

impl Roots {
    /// The only object, if there is exactly one.
    pub fn only(&self) -> Option<Root> {
        match (self.known.as_slice(), self.unknown) {
            ([root], false) => Some(*root),
            _ => None,
        }
    }

    fn add(&mut self, root: Root) {
        if let Err(at) = self.known.binary_search(&root) {
            self.known.insert(at, root);
        }
    }

    /// Joins; true if that changed something.
    fn join(&mut self, other: &Roots) -> bool {
        let before = (self.known.len(), self.unknown);
        for &root in &other.known {
            self.add(root);
        }
        self.unknown |= other.unknown;
        before != (self.known.len(), self.unknown)
    }
}

/// How an object is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Its memory is read.
    pub read: bool,
    /// Its memory is written.
    pub written: bool,
    /// Its extents, strides or addresses are asked for, or its address is compared.
    pub queried: bool,
    /// Its pointer or handle is stored to memory or turned into an integer, or passed where it cannot be followed.
    pub escapes: bool,
}

/// The result of the analysis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// By [`ArgumentId`].
    pub arguments: Vec<Usage>,
    /// By [`MemoryId`].
    pub memory: Vec<Usage>,
    /// Reads through pointers of unknown origin, by address space (in the order of [`AddressSpace`]).
    pub unknown_reads: [bool; 4],
    /// Writes through pointers of unknown origin.
    pub unknown_writes: [bool; 4],
    /// By [`ValueId`]: what a pointer (or a `u64` tensor handle) points into; empty for other values.
    pub roots: Vec<Roots>,
}

impl Effects {
    /// Analyses a kernel.
    pub fn of(kernel: &Kernel) -> Effects {
        Analysis::run(kernel)
    }

    /// The objects behind a pointer or handle.
    pub fn roots(&self, value: ValueId) -> &Roots {
        &self.roots[value.index()]
    }

    /// True if nothing that the kernel does writes to this object: no store through a pointer that may come from it, and
    /// no store through a pointer of unknown origin that may reach it.
    pub fn never_written(&self, kernel: &Kernel, root: Root) -> bool {
        match root {
            Root::Argument(id) => {
                let usage = self.arguments[id.index()];
                match &kernel.arguments[id.index()].kind {
                    ArgumentKind::Buffer { space, .. } => {
                        *space == AddressSpace::Constant || (!usage.written && !self.unknown_writes[*space as usize])
                    }
                    ArgumentKind::Tensor(_) => !usage.written && !self.unknown_writes[AddressSpace::Device as usize],
                    ArgumentKind::Threadgroup { .. } => {
                        !usage.written && !self.unknown_writes[AddressSpace::Threadgroup as usize]
                    }
                }
            }
            Root::Memory(id) => {
                let usage = self.memory[id.index()];
                let space = kernel.memory_object(id).space;
                space == AddressSpace::Constant
                    || !(usage.written || usage.escapes && self.unknown_writes[space as usize])
            }
        }
    }

    /// True if the memory behind a pointer is not written during the dispatch: constant space, or only objects that are
    /// [never written](Effects::never_written).
    pub fn reads_constant_memory(&self, kernel: &Kernel, pointer: ValueId) -> bool {
        if kernel.ty(pointer) == Type::Pointer(AddressSpace::Constant) {
            return true;
        }
        let roots = self.roots(pointer);
        !roots.unknown && roots.known.iter().all(|&root| self.never_written(kernel, root))
    }
}

/// Sets [`crate::Argument::access`] from what the kernel does. An argument whose pointer escapes counts as read and
/// written where the kernel reads and writes through pointers of unknown origin.
pub fn set_access(kernel: &mut Kernel) {
    let effects = Effects::of(kernel);
    for (argument, usage) in kernel.arguments.iter_mut().zip(&effects.arguments) {
        let space = match &argument.kind {
            ArgumentKind::Buffer { space, .. } => *space,
            ArgumentKind::Tensor(spec) => spec.space,
            ArgumentKind::Threadgroup { .. } => AddressSpace::Threadgroup,
        } as usize;
        let read = usage.read || (usage.escapes && effects.unknown_reads[space]);
        let written = usage.written || (usage.escapes && effects.unknown_writes[space]);
        argument.access = match (read, written) {
            (true, true) => Access::ReadWrite,
            (true, false) => Access::ReadOnly,
            (false, true) => Access::WriteOnly,
            (false, false) if usage.queried || usage.escapes => Access::ReadOnly,
            (false, false) => Access::Unused,
        };
    }
}

struct Analysis<'a> {
    kernel: &'a Kernel,
    effects: Effects,
    locals: Vec<Roots>,
    changed: bool,
}

impl<'a> Analysis<'a> {
    fn run(kernel: &'a Kernel) -> Effects {
        let mut this = Analysis {
            kernel,
            effects: Effects {
                arguments: vec![Usage::default(); kernel.arguments.len()],
                memory: vec![Usage::default(); kernel.memory.len()],
                roots: vec![Roots::default(); kernel.values.len()],
                ..Effects::default()
            },
            locals: vec![Roots::default(); kernel.locals.len()],
            changed: true,
        };
        // Locals may carry pointers around loops, so origins need a fixed point.
        while this.changed {
            this.changed = false;
            this.origins(&kernel.body);
        }
        kernel.body.for_each_inst(&mut |inst| this.accesses(inst));
        this.effects
    }

    fn join(&mut self, value: ValueId, roots: &Roots) {
        self.changed |= self.effects.roots[value.index()].join(roots);
    }

    fn origins(&mut self, block: &Block) {
        for inst in &block.insts {
            self.origin(inst);
            for block in inst.op.blocks().into_iter().flatten() {
                self.origins(block);
            }
        }
    }

    fn origin(&mut self, inst: &Inst) {
        let known = |root| Roots {
            known: vec![root],
            unknown: false,
        };
        let unknown = Roots {
            known: Vec::new(),
            unknown: true,
        };
        let roots = match &inst.op {
            Op::MemoryPointer(id) => known(Root::Memory(*id)),
            Op::ArgumentPointer(id) | Op::ArgumentTensor(id) => known(Root::Argument(*id)),
            Op::TensorQuery {
                handle,
                field: TensorField::Pointer | TensorField::ScalePointer,
                ..
            } => {
                let roots = self.effects.roots(*handle);
                if roots.known.is_empty() { unknown } else { roots.clone() }
            }
            Op::PointerOffset { pointer, .. } => self.effects.roots(*pointer).clone(),
            Op::TensorElementPointer { tensor, .. } => self.effects.roots(tensor.pointer).clone(),
            Op::Select { then, otherwise, .. } => {
                let mut roots = self.effects.roots(*then).clone();
                roots.join(self.effects.roots(*otherwise));
                roots
            }
            Op::LocalGet(local) => self.locals[local.index()].clone(),
            Op::LocalSet { local, value } => {
                let roots = self.effects.roots(*value).clone();
                self.changed |= self.locals[local.index()].join(&roots);
                return;
            }
            Op::Bitcast {
                to: Type::Pointer(_), ..
            } => unknown,
            Op::Load {
                ty: Type::Pointer(_) | Type::Scalar(Scalar::U64),
                ..
            }
            | Op::Shuffle { .. } => {
                // A `u64` may be a handle; shuffled pointers are not followed.
                for value in inst.results() {
                    if matches!(self.kernel.ty(value), Type::Pointer(_) | Type::Scalar(Scalar::U64)) {
                        self.join(value, &unknown);
                    }
                }
                return;
            }
            _ => return,
        };
        self.join(inst.first, &roots);
    }

    fn touch(&mut self, pointer: ValueId, read: bool, written: bool) {
        let roots = self.effects.roots[pointer.index()].clone();
        for root in roots.known {
            let usage = self.usage(root);
            usage.read |= read;
            usage.written |= written;
        }
        if roots.unknown
            && let Type::Pointer(space) = self.kernel.ty(pointer)
        {
            self.effects.unknown_reads[space as usize] |= read;
            self.effects.unknown_writes[space as usize] |= written;
        }
    }

    fn usage(&mut self, root: Root) -> &mut Usage {
        match root {
            Root::Argument(id) => &mut self.effects.arguments[id.index()],
            Root::Memory(id) => &mut self.effects.memory[id.index()],
        }
    }

    fn tensor(&mut self, tensor: &TensorRef, read: bool, written: bool) {
        self.touch(tensor.pointer, read, written);
        if let Some(plane) = &tensor.scales {
            self.touch(plane.pointer, read, false);
        }
    }

    fn query(&mut self, value: ValueId) {
        for root in self.effects.roots[value.index()].known.clone() {
            self.usage(root).queried = true;
        }
    }

    fn escape(&mut self, value: ValueId) {
        for root in self.effects.roots[value.index()].known.clone() {
            self.usage(root).escapes = true;
        }
    }

    fn accesses(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Load { pointer, .. } => self.touch(*pointer, true, false),
            Op::Store { pointer, values, .. } => {
                self.touch(*pointer, false, true);
                values.iter().for_each(|&value| self.escape(value));
            }
            Op::Atomic {
                op, pointer, values, ..
            } => {
                self.touch(*pointer, !matches!(op, AtomicOp::Store), !matches!(op, AtomicOp::Load));
                values.iter().for_each(|&value| self.escape(value));
            }
            Op::TensorLoad { tensor, .. } | Op::CoopLoad { tensor, .. } => self.tensor(tensor, true, false),
            Op::TensorStore { tensor, value, .. } => {
                // A sub-byte element is merged into its byte.
                self.tensor(tensor, tensor.format.is_sub_byte(), true);
                self.escape(*value);
            }
            Op::CoopStore { tensor, .. } => self.tensor(tensor, false, true),
            Op::Matmul {
                descriptor,
                left,
                right,
                destination,
                ..
            } => {
                for operand in [left, right] {
                    if let Operand::Tensor(tensor) = operand {
                        self.tensor(tensor, true, false);
                    }
                }
                if let Operand::Tensor(tensor) = destination {
                    self.tensor(tensor, descriptor.accumulate, true);
                }
            }
            Op::Convolution {
                descriptor,
                activation,
                weights,
                destination,
                ..
            } => {
                self.tensor(activation, true, false);
                self.tensor(weights, true, false);
                if let Operand::Tensor(tensor) = destination {
                    self.tensor(tensor, descriptor.accumulate, true);
                }
            }
            // Known operations on pointers and handles that `origin` follows, or that only look at the address.
            Op::PointerOffset { .. } | Op::Select { .. } | Op::LocalSet { .. } | Op::TensorElementPointer { .. } => {}
            Op::PointerDiff { lhs, rhs } | Op::Compare { lhs, rhs, .. } => {
                self.query(*lhs);
                self.query(*rhs);
            }
            Op::TensorQuery { handle, .. } => self.query(*handle),
            other => other.for_each_operand(|value| self.escape(value)),
        }
    }
}
