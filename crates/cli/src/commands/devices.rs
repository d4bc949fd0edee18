//! `anymetal devices`: what can run kernels here.

use anymetal::Device;

use super::Outcome;

/// Options of `devices`.
#[derive(clap::Args)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the devices.
pub fn run(options: &Options) -> Outcome {
    let devices = Device::all();
    if options.json {
        let list: Vec<_> = devices
            .iter()
            .map(|device| {
                let limits = device.limits();
                serde_json::json!({
                    "name": device.name(),
                    "cores": device.cores(),
                    "tile_path": device.tile_path(),
                    "tile_paths": device.available_tile_paths(),
                    "max_threads_per_threadgroup": limits.max_threads_per_threadgroup,
                    "max_threadgroup_memory": limits.max_threadgroup_memory_length,
                })
            })
            .collect();
        println!("{}", serde_json::json!({"devices": list}));
        return Ok(true);
    }
    for device in devices {
        let limits = device.limits();
        println!("{}", device.name());
        println!("  cores              {}", device.cores());
        println!(
            "  tile path          {} (of {})",
            device.tile_path(),
            device.available_tile_paths().join(", ")
        );
        println!(
            "  threads            {} in a threadgroup, SIMD-groups of 32",
            limits.max_threads_per_threadgroup
        );
        println!("  threadgroup memory {} bytes", limits.max_threadgroup_memory_length);
    }
    Ok(true)
}
