//! The kernel IR: what a Metal kernel is after its source language is forgotten and before a device is known.
//!
//! # What a kernel is
//! A [`Kernel`] is one entry point, whole: every function call is inlined, every template instantiated, every
//! function constant folded in. It has [`Argument`]s (buffers, tensors, threadgroup memory), [`MemoryObject`]s
//! (threadgroup and thread arrays, constant tables), mutable [`Local`]s, [`Cooperative`] tensors, and one [`Block`].
//!
//! # What a value is
//! A value ([`ValueId`]) is a *scalar or a pointer of one lane*, assigned once, by the instruction that defines it, and
//! visible in the rest of its block and in the blocks nested there. There are no vectors: a `float4` is four values,
//! and only loads and stores move several consecutive scalars at once. There are no aggregates either. State that
//! changes lives in a *local* (a mutable scalar or pointer that has no address, read by [`Op::LocalGet`], written by
//! [`Op::LocalSet`]) or in memory. Locals take the place of block arguments, so loops carry no phi nodes.
//!
//! # What a lane is
//! A lane is one thread of the grid. 32 consecutive lanes of a threadgroup (by linear thread index) are a SIMD-group;
//! the last SIMD-group of a threadgroup may be partial. The geometry is *virtual*: ids come from [`Op::Builtin`]
//! operations, and a backend may run lanes and threadgroups in any order, together or apart, between barriers.
//!
//! # When things happen
//! Control flow is structured: [`Op::If`], [`Op::Loop`], [`Op::Scope`], left by [`Op::Break`], [`Op::Continue`] and
//! [`Op::Return`]. Each lane runs its own instructions in order; lanes of a SIMD-group meet at SIMD-group operations,
//! cooperative operations of their scope and barriers, lanes of a threadgroup at threadgroup barriers and at
//! operations whose scope is the threadgroup. Barriers are never removed by a pass.
//!
//! # What memory is
//! Bytes with an address space and an explicit alignment on every access. A pointer is opaque: it comes from an
//! argument, a memory object, a tensor handle or another pointer plus a byte offset. Backends check accesses against
//! the object that the pointer came from.
//!
//! # What a tensor is
//! A tensor view is not a value but a bundle of values, the [`TensorRef`]: the base (pointer, extents, strides, scale
//! plane), which is constant for a dispatch in nearly all kernels, the origin of the view in the base, and its extents.
//! `slice` therefore only adds to the origin; the valid extents of the base are never lost, so that an operation knows
//! where an edge tile ends. A tensor handle (an argument, or eight bytes in a buffer) is a `u64` value whose parts are
//! read by [`Op::TensorQuery`].
//!
//! # What a cooperative tensor is
//! A mutable tile owned by a SIMD-group (or by the whole threadgroup), declared in [`Kernel::cooperatives`]. Its
//! elements are spread over lanes by a [`Layout`], a bit-linear map from (slot, lane) to (row, column) that is data, not
//! code. [`Op::CoopGet`] and [`Op::CoopSet`] see that layout; [`Op::CoopMap`], reductions, load and store do not, so a
//! backend is free to hold the tile in another way where only those are used.
//!
//! # Where an instruction comes from
//! Every instruction has a location: file, line, column and the chain of call sites it was inlined at.

pub mod builder;
pub mod checks;
pub mod fault;
pub mod finding;
pub mod kernel;
mod lex;
pub mod location;
mod names;
pub mod op;
pub mod parse;
mod parse_op;
pub mod passes;
pub mod print;
pub mod tensor;
pub mod types;
pub mod verify;
mod verify_coop;
pub mod verify_types;
mod walk;

pub use builder::Builder;
pub use finding::{Finding, FindingCode, SourcePoint, Spot};
pub use kernel::{Access, Argument, ArgumentKind, Block, Inst, Kernel, Local, MemoryObject, PlaneSpec, ValueInfo};
pub use location::{Location, LocationId, Locations};
pub use op::*;
pub use parse::{ParseError, parse};
pub use print::print;
pub use tensor::*;
pub use types::*;
pub use verify::{VerifyError, verify};
