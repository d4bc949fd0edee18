//! `anymetal devices`: what can run kernels here.

use anymetal::Device;

use super::{Outcome, bytes};

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
                    "id": device.id(),
                    "gpu": gpu_json(device),
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
        println!("{}: {}", device.id(), device.name());
        if let Some(gpu) = device.gpu() {
            let free = device.gpu_memory().ok().flatten().map_or(0, |(free, _)| free);
            println!(
                "  target             {}, driver {}",
                device.tile_path(),
                gpu.driver_version()
            );
            println!("  multiprocessors    {}", gpu.multiprocessors);
            println!(
                "  memory             {}, {} free; L2 {}",
                bytes(gpu.memory),
                bytes(free),
                bytes(gpu.l2.into())
            );
            println!(
                "  shared memory      {} bytes a threadgroup, {} a multiprocessor",
                gpu.shared_per_block, gpu.shared_per_multiprocessor
            );
            println!(
                "  threads            {} in a threadgroup, SIMD-groups of 32",
                limits.max_threads_per_threadgroup
            );
            println!("  threadgroup memory {} bytes", limits.max_threadgroup_memory_length);
            continue;
        }
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
    // Why there are no GPUs, for those who expect one.
    if let Err(why) = Device::cuda(0) {
        println!("cuda: {why}");
    }
    Ok(true)
}

fn gpu_json(device: &Device) -> serde_json::Value {
    let Some(gpu) = device.gpu() else {
        return serde_json::Value::Null;
    };
    serde_json::json!({
        "sm": gpu.sm,
        "driver": gpu.driver_version(),
        "multiprocessors": gpu.multiprocessors,
        "memory": gpu.memory,
        "free": device.gpu_memory().ok().flatten().map(|(free, _)| free),
        "shared_per_threadgroup": gpu.shared_per_block,
        "shared_per_multiprocessor": gpu.shared_per_multiprocessor,
        "l2": gpu.l2,
    })
}
