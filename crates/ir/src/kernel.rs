//! A kernel and its parts.

use anymetal_formats::ElementFormat;

use crate::location::{LocationId, Locations};
use crate::op::Op;
use crate::tensor::{Cooperative, TensorSpec};
use crate::types::{AddressSpace, CoopId, LocalId, MemoryId, Type, ValueId};

/// A sequence of instructions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// In order.
    pub insts: Vec<Inst>,
}

/// One instruction: an operation, and the values that it defines.
#[derive(Clone, Debug)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// The first result; results have consecutive ids.
    pub first: ValueId,
    /// How many results it has.
    pub count: u32,
    /// Where it comes from.
    pub location: LocationId,
}

impl PartialEq for Inst {
    /// `first` means nothing where there are no results.
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op
            && self.count == other.count
            && (self.count == 0 || self.first == other.first)
            && self.location == other.location
    }
}

impl Inst {
    /// The results in order.
    pub fn results(&self) -> impl Iterator<Item = ValueId> + use<> {
        (self.first.0..self.first.0 + self.count).map(ValueId)
    }
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueInfo {
    /// Its type.
    pub ty: Type,
}

/// A mutable scalar or pointer without an address. It is undefined (zero on our backends) until it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The source's name, for the text form.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// Memory that the kernel owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryObject {
    /// The source's name.
    pub name: String,
    /// `threadgroup` (one a threadgroup), `thread` (one a lane) or `constant` (one for all, with data).
    pub space: AddressSpace,
    /// Bytes.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// Size in bytes of the innermost scalar that the source declares, so that faults can name an index; 1 if unknown.
    pub element_size: u32,
    /// The contents of a constant table; empty otherwise.
    pub data: Vec<u8>,
}

/// How a kernel uses an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub enum Access {
    #[default]
    ReadOnly,
    WriteOnly,
    ReadWrite,
    /// Bound but not used.
    Unused,
}

/// A scale plane as a kernel's argument type declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaneSpec {
    /// Element format of the plane.
    pub format: ElementFormat,
    /// Block factors.
    pub block: Vec<u32>,
}

/// An argument of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The parameter's name.
    pub name: String,
    /// `n` of `[[buffer(n)]]` or `[[threadgroup(n)]]`.
    pub index: u32,
    /// What is bound there.
    pub kind: ArgumentKind,
    /// How it is used (declared constness at first; narrowed by the effects pass).
    pub access: Access,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A pointer or reference to memory.
    Buffer {
        /// `device` or `constant`.
        space: AddressSpace,
        /// The pointee's type in Metal's words, for reflection and messages.
        type_name: String,
        /// Size of the pointee in bytes; what a reference needs at least.
        size: u32,
        /// Alignment of the pointee in bytes; the binding offset must be a multiple.
        align: u32,
        /// Size in bytes of the innermost scalar, so that faults can name an index; 1 if unknown.
        element_size: u32,
        /// True for `T&`: exactly one object is bound.
        reference: bool,
    },
    /// A tensor handle.
    Tensor(TensorSpec),
    /// A `threadgroup T*` whose length the dispatch sets.
    Threadgroup {
        /// Size of the pointee in bytes.
        size: u32,
        /// Alignment of the pointee in bytes.
        align: u32,
    },
}

/// One entry point, whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Its host name.
    pub name: String,
    /// Arguments in the order of the source.
    pub arguments: Vec<Argument>,
    /// Threadgroup, thread and constant memory.
    pub memory: Vec<MemoryObject>,
    /// All values, in order of definition.
    pub values: Vec<ValueInfo>,
    /// All locals.
    pub locals: Vec<Local>,
    /// All cooperative tensors.
    pub cooperatives: Vec<Cooperative>,
    /// Locations of instructions.
    pub locations: Locations,
    /// `[[max_total_threads_per_threadgroup(n)]]`.
    pub max_threads: Option<u32>,
    /// The `N > 1` of each `execution_simdgroups<N>` operation: the dispatch must have exactly N SIMD-groups.
    pub required_simdgroups: Vec<(u32, LocationId)>,
    /// The code.
    pub body: Block,
}

impl Kernel {
    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> Type {
        self.values[value.index()].ty
    }

    /// The cooperative tensor behind an id.
    pub fn coop(&self, id: CoopId) -> &Cooperative {
        &self.cooperatives[id.index()]
    }

    /// The local behind an id.
    pub fn local(&self, id: LocalId) -> &Local {
        &self.locals[id.index()]
    }

    /// The memory object behind an id.
    pub fn memory_object(&self, id: MemoryId) -> &MemoryObject {
        &self.memory[id.index()]
    }

    /// Bytes of static threadgroup memory, each object at its alignment, in order.
    pub fn static_threadgroup_bytes(&self) -> u64 {
        let mut at = 0u64;
        for object in self
            .memory
            .iter()
            .filter(|object| object.space == AddressSpace::Threadgroup)
        {
            at = at.next_multiple_of(u64::from(object.align.max(1))) + object.size;
        }
        at
    }
}
