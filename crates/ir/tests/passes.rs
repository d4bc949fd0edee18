//! Every pass keeps what random kernels compute, and what the analyses claim holds while they run.

mod common;

use anymetal_ir::passes::{
    UniformityInfo, control, coop_map, dce, effects, forward, licm, optimize, scalars, tiles, unroll,
};
use anymetal_ir::{Kernel, parse, verify};
use common::{interpreter::run, random};

fn seeds() -> std::ops::Range<u64> {
    let start = std::env::var("ANYMETAL_IR_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    start..start + 60
}

fn checked(kernel: &Kernel, what: &str) {
    if let Err(error) = verify(kernel) {
        panic!("after {what}: {error}\n{kernel}");
    }
}

#[track_caller]
fn same(before: &Kernel, after: &Kernel, seed: u64, what: &str) {
    let equal = run(before, None, seed) == run(after, None, seed);
    assert!(equal, "seed {seed}, {what}\n{before}\n{after}");
}

#[track_caller]
fn preserved(name: &str, pass: impl Fn(&mut Kernel)) {
    let mut changed = 0;
    for seed in seeds() {
        let before = random::kernel(seed);
        checked(&before, "generation");
        let mut after = before.clone();
        pass(&mut after);
        checked(&after, name);
        changed += u32::from(after != before);
        same(&before, &after, seed, name);
    }
    assert!(changed > 20, "{name} changed {changed} kernels only");
}

#[test]
fn control_flow() {
    preserved("control", control::simplify);
}

#[test]
fn forwarding() {
    preserved("forward", forward::run);
}

#[test]
fn dead_code() {
    preserved("dce", dce::run);
}

#[test]
fn compaction() {
    preserved("compact", |kernel| {
        dce::run(kernel);
        dce::compact(kernel);
    });
}

#[test]
fn invariant_code() {
    preserved("licm", licm::run);
}

#[test]
fn unrolling() {
    preserved("unroll", |kernel| {
        unroll::run(kernel);
    });
}

#[test]
fn dead_tiles() {
    for seed in seeds().filter(|seed| seed.is_multiple_of(3)) {
        let before = random::kernel(seed);
        let mut after = before.clone();
        tiles::run(&mut after);
        checked(&after, "tiles");
        same(&before, &after, seed, "tiles");
    }
}

#[test]
fn scalar_replacement() {
    preserved("scalars", |kernel| {
        forward::run(kernel);
        scalars::run(kernel);
    });
}

#[test]
fn element_loops() {
    let mut formed = 0;
    for seed in seeds().filter(|seed| seed.is_multiple_of(3)) {
        let before = random::kernel(seed);
        let mut after = before.clone();
        formed += coop_map::form(&mut after);
        checked(&after, "coop_map");
        same(&before, &after, seed, "coop_map");
    }
    assert!(formed > 10, "{formed} loops only became maps");
}

#[test]
fn everything() {
    preserved("optimize", optimize);
}

#[test]
fn optimizing_twice_changes_little() {
    for seed in seeds().take(100) {
        let mut kernel = random::kernel(seed);
        optimize(&mut kernel);
        let once = run(&kernel, None, seed);
        optimize(&mut kernel);
        checked(&kernel, "optimizing twice");
        assert_eq!(once, run(&kernel, None, seed), "seed {seed}");
    }
}

#[test]
fn uniformity_holds_at_run_time() {
    for seed in seeds() {
        let mut kernel = random::kernel(seed);
        let info = UniformityInfo::of(&kernel);
        run(&kernel, Some(&info), seed);
        optimize(&mut kernel);
        let info = UniformityInfo::of(&kernel);
        run(&kernel, Some(&info), seed);
    }
}

#[test]
fn text_form_round_trips() {
    for seed in seeds() {
        let mut kernel = random::kernel(seed);
        for _ in 0..2 {
            let text = kernel.to_string();
            let back = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert_eq!(back.to_string(), text);
            assert_eq!(back, kernel, "seed {seed}");
            optimize(&mut kernel);
        }
    }
}

#[test]
fn access_is_what_the_kernel_does() {
    use anymetal_ir::Access;
    for seed in seeds() {
        let mut kernel = random::kernel(seed);
        effects::set_access(&mut kernel);
        // The end of each kernel writes argument 0; nothing writes argument 1.
        assert!(matches!(
            kernel.arguments[0].access,
            Access::WriteOnly | Access::ReadWrite
        ));
        assert!(matches!(kernel.arguments[1].access, Access::ReadOnly | Access::Unused));
    }
}
