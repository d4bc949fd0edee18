//! Assets from Apple's exporter against PyTorch's results.

mod common;

use std::collections::HashMap;

use anymetal_coreai::{Array, Model, ModelOptions, Placement};
use common::{assets, cases, check};

/// Runs every case three times: the walk that makes the plan, the plan, and the plan again. Once with the host evaluator,
/// once with generated kernels.
fn run(name: &str, tolerance: f32) {
    for placement in [Placement::Host, Placement::Device] {
        run_at(name, placement, tolerance);
    }
}

/// The asset `name` with its operations at `placement`.
fn model_at(name: &str, placement: Placement) -> Model {
    let options = ModelOptions::new().placement(placement);
    options.load(assets().join(format!("{name}.aimodel"))).unwrap()
}

fn run_at(name: &str, placement: Placement, tolerance: f32) {
    let model = model_at(name, placement);
    let function = model.function("main").unwrap();
    for (i, case) in cases(name).iter().enumerate() {
        let inputs: Vec<(&str, Array)> = case.inputs.iter().map(|(n, a)| (n.as_str(), a.clone())).collect();
        for round in 0..3 {
            let outputs = function.run(&inputs).unwrap();
            assert_eq!(outputs.len(), case.outputs.len(), "{name}");
            for (output, got) in &outputs {
                let want = &case.outputs.iter().find(|(n, _)| n == output).unwrap().1;
                let what = format!("{name} at {placement:?} case {i} round {round} {output}");
                check(&what, got, want, tolerance);
            }
        }
        if let Some(Ok(summary)) = function.plan_summary(&inputs).unwrap() {
            assert_eq!(summary.fallback, None, "{name}: {summary:?}");
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
fn attention_composites_and_products_run_as_kernels() {
    run("attention", 2e-3);
    run("products", 2e-3);
    for (name, step, count) in [("attention", "attention", 5), ("products", "matmul", 3)] {
        let model = Model::load(assets().join(format!("{name}.aimodel"))).unwrap();
        let function = model.function("main").unwrap();
        let case = &cases(name)[0];
        let inputs: Vec<(&str, Array)> = case.inputs.iter().map(|(n, a)| (n.as_str(), a.clone())).collect();
        let outputs = function.run(&inputs).unwrap();
        // The 32-bit results are as close as PyTorch's own kernels are to each other.
        for (output, got) in outputs.iter().take(3) {
            let want = &case.outputs.iter().find(|(n, _)| n == output).unwrap().1;
            check(&format!("{name} {output}"), got, want, 2e-6);
        }
        let summary = function.plan_summary(&inputs).unwrap().unwrap().unwrap();
        assert!(summary.steps.contains(&(step.to_string(), count)), "{summary:?}");
    }
}

#[test]
fn loops_depend_on_values() {
    run("loop", 1e-6);
}

#[test]
fn compressed_weights() {
    run("compressed", 1e-5);
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
        format!("state {name:?} is missing; pass an array of float32[4], it is read and replaced by the call")
    );
    let mut states = HashMap::from([(name.clone(), Array::from_values(&[4], vec![1f32; 4]).unwrap())]);
    for round in 1..4 {
        let out = function.run_with_state(&[("x", x.clone())], &mut states).unwrap();
        let total: Vec<f32> = (0..4).map(|i| 1.0 + (i * round) as f32).collect();
        assert_eq!(states[&name].values::<f32>().unwrap(), total);
        assert_eq!(
            out[0].1.values::<f32>().unwrap(),
            total.iter().map(|v| v * 2.0).collect::<Vec<_>>()
        );
    }
}

/// Runs an asset with kernels; each file NAME.TENSOR.npy is an input or the result.
fn run_kernel(name: &str, inputs: &[&str], output: &str, tolerance: f32) {
    let model = Model::load(assets().join(format!("{name}.aimodel"))).unwrap();
    let function = model.function("main").unwrap();
    let array = |tensor: &str| common::npy(&assets().join(format!("{name}.{tensor}.npy")));
    let inputs: Vec<(&str, Array)> = inputs.iter().map(|&n| (n, array(n))).collect();
    for round in 0..2 {
        let outputs = function.run(&inputs).unwrap();
        check(
            &format!("{name} round {round}"),
            &outputs[0].1,
            &array(output),
            tolerance,
        );
    }
}

#[test]
fn kernels_in_assets() {
    run_kernel("kernel_add", &["x", "y"], "z", 0.0);
    run_kernel("kernel_scalars", &["x"], "y", 1e-6);
    run_kernel("kernel_sum_rows", &["x"], "y", 1e-6);
    run_kernel("kernel_transpose", &["x"], "y", 0.0);
    run_kernel("kernel_transpose_f16", &["x"], "y", 0.0);
}

#[test]
fn attention_kernels_in_assets() {
    run_kernel("kernel_attention", &["q", "k", "v"], "out", 1e-5);
    run_kernel("kernel_attention_masked", &["q", "k", "v", "mask"], "out", 1e-5);
}

#[test]
fn a_kernel_that_does_not_compile_is_named() {
    let error = Model::load(assets().join("kernel_broken.aimodel"))
        .map(|_| ())
        .unwrap_err()
        .to_string();
    let (_, error) = error.split_once("kernel_broken.aimodel: ").unwrap();
    let lines: Vec<&str> = error.lines().take(3).collect();
    assert_eq!(
        lines,
        [
            "kernel \"broken_lcrlqqhb\" in the asset does not compile:",
            "error[E0433]: unknown name 'undefined_name'",
            " --> broken_lcrlqqhb.metal:7:244",
        ]
    );
}
