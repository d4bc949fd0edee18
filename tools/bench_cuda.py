"""Our kernels on a GPU beside PyTorch's, in one run, as ratios.

    python tools/bench_cuda.py PROGRAM [--only NAME[,NAME]] [--shape TEXT] [--seconds 0.3] [--rounds 2] [--checked] [--json]

PROGRAM is the built `anymetal-bench`; run from the root of the repository. Names: those of `anymetal-bench --device cuda`.

Method: for each group of measurements our process and the peers run in turn (ours, peers, ours, peers, in separate processes of ours and in
this one). Both sides repeat the same work after a warm-up, on random data, and are timed by events of the device: no host time counts. A number is the
lowest median of the rounds; a ratio is the peer's time over ours: above 1 ours is faster. Peers: torch.matmul (cuBLAS) for products, torch._scaled_mm for fp8,
torch.matmul in bfloat16 of the same shape beside products of quantised weights, SDPA's flash and cuDNN kernels for attention, a device-to-device copy of as many bytes as
the kernel reads and writes for everything that is bound by memory. With --checked our kernels that check every access are one more peer: their ratio
is what checking costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

NAMES = ("matmul", "fp8", "mxfp8", "linear", "prompt", "attention", "elementwise", "rows", "transpose")
Results = dict[tuple[str, str, str], float]


def measure(calls: list[Callable[[], object]], seconds: float) -> float:
    """Median device time in milliseconds of one of the calls, which run one after another."""
    for call in calls[:2] * 2:
        call()
    torch.cuda.synchronize()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for call in calls:
            call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / len(calls))
    return statistics.median(times)


def copy_of(size: int, seconds: float) -> float:
    """Milliseconds to copy `size` bytes within the device's memory."""
    source = torch.empty(size, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return measure([lambda: target.copy_(source)], seconds)


def normal(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def matmul(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    for n in (4096, 8192):
        for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
            a, b = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)
            shape = f"{n}x{n}x{n}"
            keep(f"matmul_{name}_nt", shape, "torch.matmul", measure([lambda: a @ b.T], seconds))
            keep(f"matmul_{name}_nn", shape, "torch.matmul", measure([lambda: a @ b], seconds))


def fp8(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    one = torch.ones((), device="cuda")
    for n in (4096, 8192):
        a, b = (normal(n, n, dtype=torch.float32).to(torch.float8_e4m3fn) for _ in range(2))
        call = lambda: torch._scaled_mm(a, b.T, scale_a=one, scale_b=one, out_dtype=torch.float16)  # noqa: E731
        keep("matmul_fp8", f"{n}x{n}x{n}", "torch._scaled_mm", measure([call], seconds))


def mxfp8(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    n = 8192
    a, b = normal(n, n, dtype=torch.bfloat16), normal(n, n, dtype=torch.bfloat16)
    keep("mxfp8_matmul", f"{n}x{n}x{n}", "torch.matmul bf16", measure([lambda: a @ b.T], seconds))


def linear(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    n = 8192
    weights = [normal(n, n, dtype=torch.bfloat16) for _ in range(4)]
    rate = (1 << 30) / copy_of(1 << 30, seconds) * 2  # bytes a millisecond, read and written
    for rows in (1, 8, 16):
        x = normal(rows, n, dtype=torch.bfloat16)
        dense = measure([lambda w=w: x @ w.T for w in weights], seconds)
        for name, bits, scales in (("int4", 4, 0), ("mxint4", 4, 1), ("mxfp4", 4, 1), ("mxfp8", 8, 1)):
            shape = f"{rows}x{n}x{n}"
            size = n * n * bits // 8 + scales * n * n // 32
            keep(f"linear_{name}", shape, "copy bandwidth", size / rate)
            keep(f"linear_{name}", shape, "torch.matmul bf16", dense)


def prompt(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    n = 4096
    x, w = normal(n, n, dtype=torch.float16), normal(n, n, dtype=torch.float16)
    dense = measure([lambda: x @ w.T], seconds)
    for name in ("int4", "mxint4", "mxfp4", "mxfp8"):
        keep(f"linear_{name}", f"{n}x{n}x{n}", "torch.matmul f16", dense)


def attention(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    heads = 16
    for dim in (64, 128):
        for length in (1024, 4096, 16384):
            batch = 16384 // length
            q, k, v = (normal(batch, heads, length, dim, dtype=torch.bfloat16) for _ in range(3))
            for causal in (False, True):
                name = "attention_bf16" + ("_causal" if causal else "")
                for backend, peer in ((SDPBackend.FLASH_ATTENTION, "SDPA flash"), (SDPBackend.CUDNN_ATTENTION, "SDPA cuDNN")):
                    call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: B023, E731
                    with sdpa_kernel(backend):
                        keep(name, f"{batch}x{heads}x{length}x{dim}", peer, measure([call], seconds))


def elementwise(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    copy = copy_of(1 << 30, seconds)
    for name in ("gelu_f32", "gelu_tanh_f32", "gelu_bf16"):
        keep(name, "1GiB", "copy", copy)


def rows(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    copy = copy_of(1 << 30, seconds)
    for name in ("softmax", "rms_norm", "layer_norm"):
        keep(f"{name}_f32", "65536x4096", "copy", copy)
        keep(f"{name}_bf16", "131072x4096", "copy", copy)


def transpose(seconds: float, keep: Callable[[str, str, str, float], None]) -> None:
    keep("transpose_f32", "16384x16384", "copy", copy_of(1 << 30, seconds))


def ours(program: str, name: str, seconds: float, shape: str, *more: str) -> Results:
    """What our process prints for a group."""
    command = [program, "--device", "cuda", "--only", name, "--seconds", str(seconds), "--shape", shape, *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{name}: {done.stderr.strip()[-400:]}", flush=True)
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {(line["name"], line["shape"], ""): line["median"] for line in lines}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--shape", default="")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--checked", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    for name in options.only.split(","):
        if name not in NAMES:
            parser.error(f"no measurement {name}: choose from {', '.join(NAMES)}")
        best: Results = {}
        peers: Results = {}

        def keep(name: str, shape: str, peer: str, time: float, peers: Results = peers) -> None:
            key = (name, shape, peer)
            peers[key] = min(time, peers.get(key, time))

        for _ in range(options.rounds):
            for key, value in ours(options.program, name, options.seconds, options.shape).items():
                best[key] = min(value, best.get(key, value))
            if options.checked:
                for (name_, shape, _), value in ours(options.program, name, options.seconds, options.shape, "--checked").items():
                    keep(name_, shape, "ours, checked", value)
            globals()[name](options.seconds, keep)
            torch.cuda.empty_cache()
        for (name_, shape, _), time_ in best.items():
            for (other, other_shape, peer), theirs in peers.items():
                if (other, other_shape) != (name_, shape):
                    continue
                if options.json:
                    print(json.dumps({"name": name_, "shape": shape, "ours": time_, "peer": peer, "theirs": theirs, "unit": "ms", "ratio": theirs / time_}))
                else:
                    print(f"{name_:<22} {shape:<18} {time_:9.4f} ms  {peer:<18} {theirs:9.4f}  ratio {theirs / time_:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
