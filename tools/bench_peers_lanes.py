"""PyTorch's attention, softmax and transpose, for tools/bench_peers.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

Measure = Callable[[Callable[[], object], float], list[float]]
Report = Callable[[str, str, str, list[float]], None]


def functions(measure: Measure, report: Report) -> dict[str, Callable[[float], None]]:
    """The measurements by name; each takes the seconds to repeat its work for."""

    def attention(seconds: float) -> None:
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            for length, dim in ((1024, 64), (1024, 128), (4096, 64), (4096, 128)):
                q, k, v = (torch.randn(1, 8, length, dim).to(dtype) for _ in range(3))
                times = measure(lambda: F.scaled_dot_product_attention(q, k, v), seconds)
                # Our kernel has two branches; the peer of both is the same call.
                for suffix in ("", "_fallback"):
                    report(f"attention_{name}{suffix}", f"8x{length}x{dim}", "torch", times)

    def softmax(seconds: float) -> None:
        x = torch.randn(16384, 4096)
        report("softmax_f32", "16384x4096", "torch", measure(lambda: F.softmax(x, -1), seconds))

    def transpose(seconds: float) -> None:
        x = torch.randn(4096, 4096)
        report("transpose_f32", "4096x4096", "torch", measure(lambda: x.t().contiguous(), seconds))

    return {"attention": attention, "softmax": softmax, "transpose": transpose}
