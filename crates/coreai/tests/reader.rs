//! The reader against the exporter's own print of the stored form.

mod common;

use anymetal_coreai::{Asset, print};
use common::assets;

#[test]
fn prints_as_the_exporter_prints() {
    for name in ["linear_norm_gelu", "branches", "cache"] {
        let asset = Asset::open(assets().join(format!("{name}.aimodel"))).unwrap();
        let got = print(asset.module(), 1 << 24).unwrap();
        let want = std::fs::read_to_string(assets().join(format!("aicode/{name}.txt"))).unwrap();
        for (i, (g, w)) in got.lines().zip(want.lines()).enumerate() {
            assert_eq!(g, w, "{name} line {}", i + 1);
        }
        assert_eq!(got.lines().count(), want.trim_end().lines().count(), "{name}");
    }
}
