//! `anymetal run`.

use super::Outcome;

/// Options of `run`.
#[derive(clap::Args)]
pub struct Options {}

/// Placeholder until the models crate is joined.
pub fn run(_: &Options) -> Outcome {
    Err("`run` is not built yet".to_string())
}
