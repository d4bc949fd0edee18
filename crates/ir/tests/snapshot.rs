//! Small kernels before and after all passes, reviewed like code. `ANYMETAL_UPDATE_SNAPSHOTS=1` writes the results anew.

use anymetal_ir::passes::optimize;
use anymetal_ir::{parse, verify};

fn snapshot(name: &str) {
    let folder = format!("{}/tests/snapshots", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(format!("{folder}/{name}.ir")).expect("the kernel");
    let mut kernel = parse(&text).expect("a kernel in text form");
    verify(&kernel).expect("a sound kernel");
    optimize(&mut kernel);
    verify(&kernel).expect("a sound kernel after the passes");
    let path = format!("{folder}/{name}.optimized.ir");
    if std::env::var_os("ANYMETAL_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, kernel.to_string()).expect("a writable folder");
    }
    let expected = std::fs::read_to_string(&path).expect("the snapshot");
    assert_eq!(kernel.to_string(), expected, "{path}");
}

#[test]
fn element_loops() {
    snapshot("element_loops");
}
