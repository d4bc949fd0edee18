//! Golden cases: arrays as JSON, made by tools/make_op_assets.py.

// Each test file uses its own part of this.
#![allow(dead_code)]

use std::path::PathBuf;

use anymetal_coreai::{Array, ElementType};
use half::{bf16, f16};
use serde_json::Value;

/// The folder of the assets.
pub fn assets() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/assets")
}

/// One case: inputs and expected outputs by name.
pub struct Case {
    pub inputs: Vec<(String, Array)>,
    pub outputs: Vec<(String, Array)>,
}

/// The cases of asset `name`.
pub fn cases(name: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(assets().join(format!("{name}.golden.json"))).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let arrays = |value: &Value| -> Vec<(String, Array)> {
        value
            .as_object()
            .unwrap()
            .iter()
            .map(|(k, v)| (k.clone(), array(v)))
            .collect()
    };
    let cases = value["cases"].as_array().unwrap();
    cases
        .iter()
        .map(|c| Case {
            inputs: arrays(&c["inputs"]),
            outputs: arrays(&c["outputs"]),
        })
        .collect()
}

fn array(value: &Value) -> Array {
    let shape: Vec<usize> = value["shape"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d.as_u64().unwrap() as usize)
        .collect();
    let data = value["data"].as_array().unwrap();
    let number = |v: &Value| match v {
        Value::String(text) => text.parse::<f64>().unwrap(),
        Value::Bool(b) => f64::from(u8::from(*b)),
        v => v.as_f64().unwrap(),
    };
    let values: Vec<f64> = data.iter().map(number).collect();
    match value["dtype"].as_str().unwrap() {
        "float32" => Array::from_values(&shape, values.iter().map(|&v| v as f32).collect()),
        "float16" => Array::from_values(&shape, values.iter().map(|&v| f16::from_f64(v)).collect()),
        "bfloat16" => Array::from_values(&shape, values.iter().map(|&v| bf16::from_f64(v)).collect()),
        "int32" => Array::from_values(&shape, values.iter().map(|&v| v as i32).collect()),
        "uint32" => Array::from_values(&shape, values.iter().map(|&v| v as u32).collect()),
        "bool" => Array::from_bools(&shape, &values.iter().map(|&v| v != 0.0).collect::<Vec<_>>()),
        other => panic!("type {other}"),
    }
    .unwrap()
}

/// Panics unless `got` has the type, the shape and, within the tolerance, the values of `want`.
pub fn check(what: &str, got: &Array, want: &Array, tolerance: f32) {
    // PyTorch's argmax and sort give int64, which the exporter narrows; argmax itself is uint32 in the dialect.
    let both = (got.element(), want.element());
    assert!(
        both.0 == both.1 || matches!(both, (ElementType::U32, ElementType::I32)),
        "{what}: {} instead of {}",
        both.0,
        both.1
    );
    assert_eq!(got.shape(), want.shape(), "{what}");
    let (a, b) = (got.to_f32().unwrap(), want.to_f32().unwrap());
    for (i, (&x, &y)) in a.iter().zip(&b).enumerate() {
        let close = x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * (1.0 + y.abs());
        assert!(close, "{what}, element {i}: {x} instead of {y}");
    }
}

/// A little-endian C-order `.npy` file.
pub fn npy(path: &std::path::Path) -> Array {
    let bytes = std::fs::read(path).unwrap();
    let length = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
    let element = match header.split("'descr': '").nth(1).unwrap().split('\'').next().unwrap() {
        "<f4" => ElementType::F32,
        "<f2" => ElementType::F16,
        "<i4" => ElementType::I32,
        "|b1" => ElementType::Bool,
        other => panic!("type {other}"),
    };
    let shape = header.split("'shape': (").nth(1).unwrap().split(')').next().unwrap();
    let shape: Vec<usize> = shape.split(',').filter_map(|d| d.trim().parse().ok()).collect();
    Array::from_bytes(element, &shape, &bytes[10 + length..]).unwrap()
}
