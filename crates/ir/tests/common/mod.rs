//! What the tests of passes share.

pub mod interpreter;
pub mod random;
