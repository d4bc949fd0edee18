"""Makes the small assets with custom kernels that the tests of crates/coreai run.

    python tools/make_test_assets.py [OUTPUT_FOLDER]     (default: crates/coreai/tests/assets)

For each asset NAME.aimodel the files NAME.INPUT.npy and NAME.OUTPUT.npy hold one input and PyTorch's output.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
import torch
from coreai_torch import MetalParameter, TorchMetalKernel
from torch import nn

import export_common
import metal_attention

FOLDER: pathlib.Path


class Call(nn.Module):
    """A module that only calls one function."""

    def __init__(self, function) -> None:  # noqa: ANN001
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


def write(name: str, model: nn.Module, inputs: dict[str, torch.Tensor], output: str, kernels: list[TorchMetalKernel],
          dynamic_shapes: object = None) -> None:
    """Exports one asset with its example."""
    samples = tuple(inputs.values())
    with torch.no_grad():
        result = model(*samples)
    asset = export_common.replace(FOLDER / f"{name}.aimodel")
    export_common.convert(model, samples, asset, input_names=list(inputs), output_names=[output], kernels=kernels,
                          dynamic_shapes=dynamic_shapes)
    export_common.check_no_paths(asset)
    for key, value in {**inputs, output: result}.items():
        np.save(FOLDER / f"{name}.{key}.npy", value.numpy())
    print(name)
    export_common.describe(asset)


POSITION = [MetalParameter(name="id", dtype="uint", attr="thread_position_in_grid")]


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def scale_and_shift(x: torch.Tensor, alpha: float, shift: int, negate: bool) -> torch.Tensor:
    result = x * alpha + shift
    return -result if negate else result


def transpose_and_double(x: torch.Tensor) -> torch.Tensor:
    return (2 * x.T).contiguous()


def sum_rows(x: torch.Tensor) -> torch.Tensor:
    return x.sum(1)


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def elementwise() -> None:
    """Two inputs, one element a thread."""
    kernel = TorchMetalKernel("add", ["x", "y"], ["z"], "z[id] = x[id] + y[id];", add, POSITION)
    inputs = {"x": torch.randn(16), "y": torch.randn(16)}
    write("kernel_add", Call(lambda x, y: kernel(
        x, y, threads_per_grid=(16, 1, 1), threads_per_thread_group=(16, 1, 1), result_shapes=[[16]])), inputs, "z", [kernel])


def scalars() -> None:
    """Python scalars, which the exporter passes as rank-0 constants and bakes into the body as well."""
    body = """
        float value = x[id] * alpha + float(shift);
        y[id] = negate ? -value : value;"""
    kernel = TorchMetalKernel("scalars", ["x", "alpha", "shift", "negate"], ["y"], body, scale_and_shift, POSITION)
    call = lambda x, a, s, n: kernel(x, a, s, n, threads_per_grid=(37, 1, 1), threads_per_thread_group=(32, 1, 1),
                                     result_shapes=[[37]])
    write("kernel_scalars", Call(lambda x: call(x, 0.5, 3, False) * call(x, -1.25, -7, True)), {"x": torch.randn(37)}, "y",
          [kernel])


def two_dimensions() -> None:
    """Reversed dimensions, a non-uniform grid and a dynamic shape: y[N, M] from x[M, N]."""
    body = """
        if (id.x < uint(x.get_extent(0)) && id.y < uint(x.get_extent(1))) {
            y[id.y, id.x] = TYPE(2) * x[id.x, id.y];
        }"""
    kernel = TorchMetalKernel(
        "transpose2", ["x"], ["y"], body, transpose_and_double,
        [MetalParameter(name="id", dtype="uint2", attr="thread_position_in_grid")], template_dtypes={"x": "TYPE"})
    call = lambda x: kernel(x, threads_per_grid=(x.shape[1], x.shape[0], 1), threads_per_thread_group=(8, 4, 1),
                            result_shapes=[[x.shape[1], x.shape[0]]])
    rows, columns = torch.export.Dim("rows", min=2, max=100), torch.export.Dim("columns", min=2, max=100)
    write("kernel_transpose", Call(call), {"x": torch.randn(13, 21)}, "y", [kernel], (({0: rows, 1: columns},),))
    write("kernel_transpose_f16", Call(call), {"x": torch.randn(5, 9).half()}, "y", [kernel])


def reduction() -> None:
    """Threadgroup memory, a barrier and a SIMD-group sum: one threadgroup a row."""
    body = """
        threadgroup float partial[4];
        float sum = 0.0f;
        for (int i = tid; i < x.get_extent(0); i += 128) {
            sum += x[i, row];
        }
        sum = simd_sum(sum);
        if (lane == 0) {
            partial[group] = sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (tid == 0) {
            y[row] = partial[0] + partial[1] + partial[2] + partial[3];
        }"""
    params = [("row", "uint", "threadgroup_position_in_grid"), ("tid", "uint", "thread_index_in_threadgroup"),
              ("lane", "uint", "thread_index_in_simdgroup"), ("group", "uint", "simdgroup_index_in_threadgroup")]
    kernel = TorchMetalKernel("sum_rows", ["x"], ["y"], body, sum_rows,
                              [MetalParameter(name=n, dtype=d, attr=a) for n, d, a in params])
    write("kernel_sum_rows", Call(lambda x: kernel(
        x, threads_per_grid=(9 * 128, 1, 1), threads_per_thread_group=(128, 1, 1), result_shapes=[[9]])),
        {"x": torch.randn(9, 1000)}, "y", [kernel])


def attention() -> None:
    """The FlashAttention kernel of kernels/: static and causal, then dynamic with a mask and grouped queries."""
    kernel, call = metal_attention.flash_attention("attention_causal", 64, heads_outer=True, masked=False, causal=True)
    q, k, v = (torch.randn(1, 2, 77, 64) for _ in range(3))
    write("kernel_attention", Call(call), {"q": q, "k": k, "v": v}, "out", [kernel])

    kernel, call = metal_attention.flash_attention("attention_masked", 32, heads_outer=False, masked=True)
    mask = torch.where(torch.rand(2, 1, 1, 50) < 0.3, -1.0e9, 0.0)
    inputs = {"q": torch.randn(2, 50, 4, 32), "k": torch.randn(2, 50, 2, 32), "v": torch.randn(2, 50, 2, 32), "mask": mask}
    batch, length = torch.export.Dim("batch", min=1, max=8), torch.export.Dim("length", min=2, max=512)
    write("kernel_attention_masked", Call(call), inputs, "out", [kernel],
          (({0: batch, 1: length}, {0: batch, 1: length}, {0: batch, 1: length}, {0: batch, 3: length}),))


def broken() -> None:
    """A kernel that does not compile: the asset must be refused with the kernel's name and line."""
    kernel = TorchMetalKernel("broken", ["x"], ["y"], "y[id] = x[id] + undefined_name;", add_one, POSITION)
    write("kernel_broken", Call(lambda x: kernel(
        x, threads_per_grid=(16, 1, 1), threads_per_thread_group=(16, 1, 1), result_shapes=[[16]])), {"x": torch.randn(16)},
        "y", [kernel])


def main() -> None:
    global FOLDER
    default = pathlib.Path(__file__).resolve().parent.parent / "crates/coreai/tests/assets"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path, nargs="?", default=default)
    FOLDER = parser.parse_args().output
    torch.manual_seed(4)
    elementwise()
    scalars()
    two_dimensions()
    reduction()
    attention()
    broken()


if __name__ == "__main__":
    main()
