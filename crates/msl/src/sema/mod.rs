//! Checking and lowering: from the tree to the kernel IR in one walk.
//!
//! The walk is an abstract interpreter. Expressions yield [operands](value::Operand): values made of scalar leaves, or places. Every call is
//! lowered in place with its parameters bound to operands, every template is walked under bindings of its parameters, and a
//! leaf that is a constant stays one, so constant evaluation needs no second evaluator: see [`context::Sema`].

mod aggregate;
pub mod api;
mod assign;
pub mod bind;
mod builtins;
pub mod call;
mod cast;
pub mod construct;
pub mod context;
pub mod convert;
pub mod declare;
pub mod deduce;
pub mod emit;
pub mod expr;
mod flow;
pub mod function_constant;
pub mod instance;
pub mod kernel;
mod lambda;
pub mod layout;
pub mod library;
mod member;
pub mod names;
pub mod ops;
mod ordering;
mod overload;
pub mod record;
mod spelling;
pub mod stmt;
pub mod tail;
pub mod types;
pub mod tyres;
pub mod uses;
pub mod value;
