//! `anymetal inspect`.

use super::Outcome;

/// Options of `inspect`.
#[derive(clap::Args)]
pub struct Options {}

/// Placeholder until the models crate is joined.
pub fn run(_: &Options) -> Outcome {
    Err("`inspect` is not built yet".to_string())
}
