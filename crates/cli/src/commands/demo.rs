//! `anymetal demo`.

use super::Outcome;

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Options {}

/// Placeholder until the models crate is joined.
pub fn run(_: &Options) -> Outcome {
    Err("`demo` is not built yet".to_string())
}
