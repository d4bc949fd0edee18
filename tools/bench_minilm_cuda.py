"""MiniLM on a GPU against PyTorch's eager mode, with seeded weights: the real ones need not travel to the machine with the GPU.

    python tools/bench_minilm_cuda.py pack EXPORT OUTPUT
    python tools/bench_minilm_cuda.py run OUTPUT --time-model PATH [--device cuda] [--shapes 1x64 32x128]

`pack` takes the folder that tools/export_minilm.py wrote and writes the asset without its weights (0.1 MB) to the folder OUTPUT: needs
tools/requirements.txt. `run` fills in random weights from a fixed seed, gives the same to a PyTorch model, and compares results and
times: needs PyTorch and NumPy only. PATH is the example `time_model` of crates/coreai:

    cargo build --release -p anymetal-coreai --example time_model
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

HIDDEN, HEADS, LAYERS = 384, 12, 6


def pack(export: pathlib.Path, output: pathlib.Path) -> None:
    import minilm_model

    asset = export / "minilm.aimodel"
    data = (asset / "main.mlirb").read_bytes()
    empty = bytearray(data)
    table = []
    for name, tensor in minilm_model.load().state_dict().items():
        # Of the two token types the graph uses the first.
        tensor = tensor[0] if name == "types.weight" else tensor
        values = tensor.numpy().tobytes()
        at = data.find(values)
        if at < 0:
            raise SystemExit(f"the asset does not hold {name} as it is; export it again with tools/export_minilm.py")
        empty[at : at + len(values)] = bytes(len(values))
        table.append((name, list(tensor.shape), at))
    output.mkdir(parents=True, exist_ok=True)
    (output / "main.mlirb.gz").write_bytes(gzip.compress(bytes(empty), 9))
    (output / "weights.json").write_text(json.dumps(table))
    shutil.copy(asset / "metadata.json", output)


def fill(folder: pathlib.Path, asset: pathlib.Path) -> dict[str, np.ndarray]:
    """Writes the asset with random weights and gives them by name."""
    data = bytearray(gzip.decompress((folder / "main.mlirb.gz").read_bytes()))
    source = np.random.default_rng(5)
    weights = {}
    for name, shape, at in json.loads((folder / "weights.json").read_text()):
        values = source.standard_normal(shape, dtype=np.float32)
        if name.endswith("norm.weight"):
            values = 1 + 0.1 * values
        elif name.endswith("bias"):
            values = 0.1 * values
        elif name.startswith("layers"):
            values = 0.06 * values
        else:
            values = 0.5 * values
        weights[name] = values = values.astype(np.float32)
        data[at : at + values.nbytes] = values.tobytes()
    (asset / "main.mlirb").write_bytes(data)
    (asset / "main.hash").write_bytes(hashlib.sha256(data).digest())
    shutil.copy(folder / "metadata.json", asset)
    return weights


def model(weights: dict[str, torch.Tensor], ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The graph of tools/minilm_model.py over a table of weights."""

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (HIDDEN,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    batch, length = ids.shape
    x = F.embedding(ids, weights["words.weight"]) + weights["positions.weight"][:length] + weights["types.weight"]
    x = norm(x, "norm")
    keep = mask.to(torch.float32)
    additive = (1.0 - keep[:, None, None, :]) * -1.0e9
    for layer in (f"layers.{i}" for i in range(LAYERS)):
        shape = (batch, length, HEADS, HIDDEN // HEADS)
        q, k, v = (linear(x, f"{layer}.{part}").view(shape).transpose(1, 2) for part in ("query", "key", "value"))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=additive).transpose(1, 2).reshape(x.shape)
        x = norm(x + linear(context, f"{layer}.attention_output"), f"{layer}.attention_norm")
        x = norm(x + linear(F.gelu(linear(x, f"{layer}.intermediate")), f"{layer}.output"), f"{layer}.output_norm")
    weight = keep[:, :, None]
    pooled = (x * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
    return pooled / pooled.norm(dim=1, keepdim=True).clamp(min=1e-12)


def inputs(batch: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and mask of sentences of length/2 to length tokens; one sentence has all."""
    source = np.random.default_rng(batch * length)
    ids = source.integers(1000, 30000, (batch, length)).astype(np.int32)
    lengths = source.integers(length // 2, length + 1, batch) if batch > 1 else [length]
    mask = (np.arange(length) < np.reshape(lengths, (-1, 1))).astype(np.int32)
    return ids * mask, mask


def eager(call, device: str) -> float:
    """The median time of a call in ms, the result on the host."""
    times = []
    for _ in range(70):
        start = time.perf_counter()
        call().cpu()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[10:])


def run(folder: pathlib.Path, time_model: pathlib.Path, device: str, shapes: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        work = pathlib.Path(place)
        asset = work / "minilm.aimodel"
        asset.mkdir()
        weights = {name: torch.from_numpy(values).to(device) for name, values in fill(folder, asset).items()}
        for shape in shapes:
            arrays = inputs(*map(int, shape.split("x")))
            there = [torch.from_numpy(array).to(device) for array in arrays]
            want = model(weights, *there).cpu().numpy()
            for name, array in zip(("ids", "mask", "want"), (*arrays, want)):
                np.save(work / f"{name}.npy", array)
            print(f"{shape}: PyTorch eager, median {eager(lambda: model(weights, *there), device):.3f} ms")
            command = [time_model, asset, "60", f"ids={work}/ids.npy", f"attention_mask={work}/mask.npy", "--", work / "want.npy"]
            for trust in (True, False):
                environment = {**os.environ, "ANYMETAL_DEVICE": device}
                if trust:
                    environment["ANYMETAL_TRUST"] = "1"
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                lines = [line for line in done.stdout.splitlines() if trust or line.startswith("best call")]
                print("  " + ("trusted" if trust else "checked") + "\n    " + "\n    ".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("export", type=pathlib.Path)
    packing.add_argument("output", type=pathlib.Path)
    running = commands.add_parser("run")
    running.add_argument("folder", type=pathlib.Path)
    running.add_argument("--time-model", type=pathlib.Path, required=True)
    running.add_argument("--device", default="cuda")
    running.add_argument("--shapes", nargs="+", default=["1x16", "1x64", "1x128", "16x64", "32x128", "32x256"])
    arguments = parser.parse_args()
    if arguments.command == "pack":
        pack(arguments.export, arguments.output)
    else:
        run(arguments.folder, arguments.time_model, arguments.device, arguments.shapes)


if __name__ == "__main__":
    main()
