//! Which loops become pipelines, by the PTX that comes out.

use std::error::Error;

use crate::{PtxOptions, compile};

/// Causal attention of eight SIMD-groups, heads of 64 columns, as the front end makes it of `kernels/flash_attention.metal`.
const ATTENTION: &str = include_str!("attention.ir");

/// How the launch is in which loops are merged.
fn whole() -> PtxOptions {
    PtxOptions {
        threads: 256,
        whole: true,
        ..PtxOptions::default()
    }
}

fn ptx(text: &str, options: &PtxOptions) -> Result<String, Box<dyn Error>> {
    let kernel = anymetal_ir::parse(text)?;
    Ok(compile(&kernel, options)?.text)
}

fn count(text: &str, what: &str) -> usize {
    text.lines().filter(|line| line.contains(what)).count()
}

#[test]
fn attention_is_a_pipeline() -> Result<(), Box<dyn Error>> {
    let text = ptx(ATTENTION, &whole())?;
    // Scores before the loop, in it, and without a pipeline; sums in the loop and without.
    assert_eq!(
        count(&text, "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16"),
        5 * 64 / 16
    );
    assert_eq!(count(&text, "cp.async.bulk.tensor.2d"), 4);
    assert_eq!(count(&text, "mma.sync.aligned"), 0);
    // Room for two blocks on a multiprocessor.
    assert!(text.contains(".minnctapersm 2"));
    Ok(())
}

#[test]
fn in_the_pipeline_scores_are_issued_before_the_sums() -> Result<(), Box<dyn Error>> {
    let text = ptx(ATTENTION, &whole())?;
    let marks: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            ["cvt.rn.bf16x2", "wait_group.sync", "wgmma.mma", "ex2.approx"]
                .into_iter()
                .find(|mark| line.contains(mark))
        })
        .collect();
    let mut runs = marks;
    runs.dedup();
    assert_eq!(
        runs[..10],
        [
            "wgmma.mma",       // scores of tile 0
            "wait_group.sync", // for them
            "ex2.approx",      // the body on scores
            "wait_group.sync", // for the sums, and until nothing reads P
            "cvt.rn.bf16x2",   // P
            "wgmma.mma",       // scores of the next tile, then sums
            "wait_group.sync", // for the scores; and after the loop
            "wgmma.mma",       // without a pipeline
            "wait_group.sync",
            "ex2.approx",
        ]
    );
    Ok(())
}

#[test]
fn other_launches_and_kernels_multiply_one_by_one() -> Result<(), Box<dyn Error>> {
    let merged = |text: &str, options: &PtxOptions| Ok::<bool, Box<dyn Error>>(ptx(text, options)?.contains("wgmma"));
    assert!(merged(ATTENTION, &whole())?);
    for options in [
        PtxOptions {
            whole: false,
            ..whole()
        },
        PtxOptions {
            threads: 192,
            ..whole()
        },
        PtxOptions {
            unaliased: false,
            ..whole()
        },
        PtxOptions {
            checked: true,
            ..whole()
        },
        PtxOptions {
            target: crate::Target::SM_80,
            ..whole()
        },
    ] {
        assert!(!merged(ATTENTION, &options)?, "{options:?}");
    }
    // The keys of each SIMD-group are its own.
    let own = ATTENTION.replacen(
        "builtin threadgroup_position_in_grid.y",
        "builtin simdgroup_index_in_threadgroup",
        1,
    );
    assert_ne!(own, ATTENTION);
    assert!(!merged(&own, &whole())?);
    // A strict second product does not round P.
    let strict = ATTENTION.replace(" relaxed_precision accumulate", " accumulate");
    assert_ne!(strict, ATTENTION);
    assert!(!merged(&strict, &whole())?);
    Ok(())
}
