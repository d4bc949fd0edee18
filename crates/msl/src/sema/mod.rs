//! Checking and lowering: from the tree to the kernel IR in one walk.
//!
//! The walk is an abstract interpreter. Expressions yield [operands](value::Operand): values made of scalar leaves, or places. Every call is
//! lowered in place with its parameters bound to operands, every template is walked under bindings of its parameters, and a
//! leaf that is a constant stays one, so constant evaluation needs no second evaluator: see [`context::Sema`].

pub mod context;
pub mod emit;
pub mod kernel;
pub mod layout;
pub mod library;
pub mod record;
pub mod types;
pub mod value;
