//! Assets from Apple's exporter against PyTorch's results.

mod common;

use std::collections::HashMap;

use anymetal_coreai::{Array, Model};
use common::{assets, cases, check};

/// Runs every case three times: the walk that makes the plan, the plan, and the plan again.
fn run(name: &str, tolerance: f32) {
    let model = Model::load(assets().join(format!("{name}.aimodel"))).unwrap();
    let function = model.function("main").unwrap();
    for (i, case) in cases(name).iter().enumerate() {
        let inputs: Vec<(&str, Array)> = case
            .inputs
            .iter()
            .map(|(n, a)| (n.as_str(), a.clone()))
            .collect();
        for round in 0..3 {
            let outputs = function.run(&inputs).unwrap();
            assert_eq!(outputs.len(), case.outputs.len(), "{name}");
            for (output, got) in &outputs {
                let want = &case.outputs.iter().find(|(n, _)| n == output).unwrap().1;
                check(
                    &format!("{name} case {i} round {round} {output}"),
                    got,
                    want,
                    tolerance,
                );
            }
        }
    }
}

#[test]
fn linear_norm_gelu() {
    run("linear_norm_gelu", 2e-6);
}

#[test]
fn encoder_with_dynamic_batch_and_length() {
    run("encoder", 1e-5);
}

#[test]
fn decoder_with_dynamic_length() {
    run("decoder", 2e-5);
}

#[test]
fn unary() {
    run("unary", 1e-6);
}

#[test]
fn binary() {
    run("binary", 1e-6);
}

#[test]
fn integers() {
    run("integers", 0.0);
}

#[test]
fn reductions() {
    run("reductions", 2e-6);
}

#[test]
fn movement() {
    run("movement", 1e-6);
}

#[test]
fn vision() {
    run("vision", 1e-5);
}

#[test]
fn conv1d() {
    run("conv1d", 2e-6);
}

#[test]
fn narrow_floats() {
    run("mlp_half", 2e-3);
    run("mlp_bfloat", 2e-2);
}

#[test]
fn branches_depend_on_values() {
    run("branches", 1e-6);
}

#[test]
fn state_is_read_and_replaced() {
    let model = Model::load(assets().join("cache.aimodel")).unwrap();
    let function = model.function("main").unwrap();
    assert_eq!(function.states().len(), 1);
    let name = function.states()[0].name.clone();
    let x = Array::from_values(&[4], vec![0f32, 1.0, 2.0, 3.0]).unwrap();
    let error = function.run(&[("x", x.clone())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "state {name:?} is missing; pass an array of float32[4], it is read and replaced by the call"
        )
    );
    let mut states = HashMap::from([(
        name.clone(),
        Array::from_values(&[4], vec![1f32; 4]).unwrap(),
    )]);
    for round in 1..4 {
        let out = function
            .run_with_state(&[("x", x.clone())], &mut states)
            .unwrap();
        let total: Vec<f32> = (0..4).map(|i| 1.0 + (i * round) as f32).collect();
        assert_eq!(states[&name].values::<f32>().unwrap(), total);
        assert_eq!(
            out[0].1.values::<f32>().unwrap(),
            total.iter().map(|v| v * 2.0).collect::<Vec<_>>()
        );
    }
}
