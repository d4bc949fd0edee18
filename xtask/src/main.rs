//! Test, bench and regeneration commands of the workspace.

fn main() {}
