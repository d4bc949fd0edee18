//! The `anymetal` command.

fn main() {}
