"""Times the peers of `cargo xtask bench` on this machine: PyTorch and Apple's interpreter.

    python tools/bench_peers.py [--threads 2] [--only NAME[,NAME]] [--minilm FOLDER] [--seconds 3]

Prints one JSON object a line: name, shape, peer, unit ("ms"), min, median, runs. Names: matmul, attention, gelu, rms_norm, softmax,
transpose, minilm, interpreter. --minilm is the folder that tools/export_minilm.py wrote; without it the interpreter is skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

import bench_peers_lanes as lanes
import minilm_model

MINILM_TOKENS = 64  # tokens of each sentence in the MiniLM measurements


def report(name: str, shape: str, peer: str, times: list[float]) -> None:
    """Prints one result; times in seconds."""
    print(json.dumps({"name": name, "shape": shape, "peer": peer, "unit": "ms", "min": round(min(times) * 1e3, 4),
                      "median": round(statistics.median(times) * 1e3, 4), "runs": len(times)}), flush=True)


def measure(function: Callable[[], object], seconds: float) -> list[float]:
    """Times of repeated calls: at least three, then until `seconds` are over.

    Two calls before them warm up. A first call that takes longer than `seconds` is the only one: PyTorch's bfloat16
    product takes a minute on processors without bfloat16 instructions.
    """
    start = time.perf_counter()
    function()
    first = time.perf_counter() - start
    if first > seconds:
        return [first]
    function()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def matmul(seconds: float) -> None:
    slow: set[str] = set()
    for n in (512, 2048):
        shape = f"{n}x{n}x{n}"
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16)):
            if name in slow:
                continue
            a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
            times = measure(lambda: a @ b, seconds)
            report(f"matmul_{name}", shape, "torch", times)
            # Without half or bfloat instructions 512³ takes a tenth of a second in PyTorch, and 2048³ minutes.
            if n == 512 and min(times) > 0.02:
                slow.add(name)
        a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8) for _ in range(2))
        report("matmul_i8", shape, "torch._int_mm", measure(lambda: torch._int_mm(a, b), seconds))
        int8_linear(shape, n, seconds)


def int8_linear(shape: str, n: int, seconds: float) -> None:
    """oneDNN's own int8 product, as PyTorch's quantised linear layer calls it: u8 by s8, packed beforehand, into float."""
    a = torch.randint(0, 256, (n, n), dtype=torch.uint8)
    b = torch.randint(-128, 128, (n, n), dtype=torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(b, [n, n])
    scale, zero = torch.ones(n), torch.zeros(n, dtype=torch.int64)
    report("matmul_i8", shape, "oneDNN, packed",
           measure(lambda: torch.ops.onednn.qlinear_pointwise(a, 1.0, 0, packed, scale, zero, None, 1.0, 0,
                                                              torch.float32, "none", [], ""), seconds))


def gelu(seconds: float) -> None:
    x = torch.randn(64 << 20)
    report("gelu_f32", "67108864", "torch", measure(lambda: F.gelu(x), seconds))


def rms_norm(seconds: float) -> None:
    x, weight = torch.randn(16384, 4096), torch.randn(4096)
    report("rms_norm_f32", "16384x4096", "torch", measure(lambda: F.rms_norm(x, (4096,), weight, 1e-5), seconds))


def minilm_inputs(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`batch` rows of fixed token ids, no padding."""
    ids = torch.randint(1000, 30000, (batch, MINILM_TOKENS), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    return ids, torch.ones_like(ids)


def minilm(seconds: float) -> None:
    model = minilm_model.load()
    for batch in (1, 16):
        inputs = minilm_inputs(batch)
        report("minilm", f"{batch}x{MINILM_TOKENS}", "torch", measure(lambda: model(*inputs), seconds))


def interpreter(seconds: float, folder: pathlib.Path) -> None:
    from coreai.authoring import AIModelAsset
    from coreai.runtime import NDArray

    async def run() -> None:
        asset = AIModelAsset.load(str(folder / "minilm_plain.aimodel"))
        async with asset.executable() as model:
            function = model.load_function("main")
            for batch in (1, 16):
                ids, mask = (NDArray(np.ascontiguousarray(x.numpy())) for x in minilm_inputs(batch))
                times: list[float] = []
                end = time.perf_counter() + seconds
                while len(times) < 3 or time.perf_counter() < end:
                    start = time.perf_counter()
                    await function(inputs={"ids": ids, "attention_mask": mask})
                    times.append(time.perf_counter() - start)
                report("minilm", f"{batch}x{MINILM_TOKENS}", "coreai interpreter", times[1:])

    asyncio.run(run())


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="matmul,attention,gelu,rms_norm,softmax,transpose,minilm,interpreter")
    parser.add_argument("--minilm", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    functions = {"matmul": matmul, "gelu": gelu, "rms_norm": rms_norm, "minilm": minilm}
    functions |= lanes.functions(measure, report)
    with torch.inference_mode():
        for name in arguments.only.split(","):
            if name == "interpreter":
                if arguments.minilm is None:
                    print("interpreter: skipped, no --minilm", file=sys.stderr)
                else:
                    interpreter(arguments.seconds, arguments.minilm)
            elif name in functions:
                functions[name](arguments.seconds)
            else:
                parser.error(f"unknown benchmark {name}: choose from {', '.join(functions)}, interpreter")


if __name__ == "__main__":
    main()
