"""Makes models/demo.aimodel: a small transformer whose attention is the FlashAttention kernel of kernels/.

    python tools/make_demo_model.py [OUTPUT_FOLDER]      (default: models/ of this checkout)

A byte-level decoder: 2 layers, hidden size 128, 4 query heads of 32 over 2 key heads (grouped-query), causal attention,
RMSNorm, SwiGLU. The weights are random from a fixed seed: the model shows that the graph and the kernel run, not what
a language model says.

Input:   ids     int32 [1, T], bytes, 1 <= T <= 256
Output:  logits  float32 [1, T, 256]

Beside the asset: demo_ids.npy and demo_logits.npy, an input of 77 bytes and PyTorch's output for it.
"""

from __future__ import annotations

import argparse
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import export_common
import metal_attention

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, LAYERS, LENGTH = 128, 4, 2, 32, 256, 2, 256
TEXT = b"Metal tensors carry their scales beside their data; a kernel sees one object."


class RMSNorm(nn.Module):
    """x / rms(x) · weight over the last axis."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN) + 0.1 * torch.randn(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    """Attention and SwiGLU, each behind an RMSNorm and added to its input."""

    def __init__(self, attention) -> None:  # noqa: ANN001
        super().__init__()
        self.attention = attention
        self.norm1, self.norm2 = RMSNorm(), RMSNorm()
        self.query = nn.Linear(HIDDEN, HEADS * HEAD_DIM, bias=False)
        self.key = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.value = nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False)
        self.output = nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
        self.gate = nn.Linear(HIDDEN, INNER, bias=False)
        self.up = nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        y = self.norm1(x)
        q = self.query(y).view(batch, length, HEADS, HEAD_DIM).transpose(1, 2)
        k = self.key(y).view(batch, length, KV_HEADS, HEAD_DIM).transpose(1, 2)
        v = self.value(y).view(batch, length, KV_HEADS, HEAD_DIM).transpose(1, 2)
        x = x + self.output(self.attention(q, k, v).transpose(1, 2).reshape(batch, length, HEADS * HEAD_DIM))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """ids int32 [1, T] -> logits float32 [1, T, 256]."""

    def __init__(self, attention) -> None:  # noqa: ANN001
        super().__init__()
        self.bytes = nn.Embedding(256, HIDDEN)
        self.positions = nn.Embedding(LENGTH, HIDDEN)
        self.layers = nn.ModuleList([Layer(attention) for _ in range(LAYERS)])
        self.norm = RMSNorm()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.bytes(ids) + self.positions.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.bytes.weight.T


def main() -> None:
    default = pathlib.Path(__file__).resolve().parent.parent / "models"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path, nargs="?", default=default)
    folder = parser.parse_args().output

    torch.manual_seed(330)
    kernel, attention = metal_attention.flash_attention(
        "demo_attention", HEAD_DIM, heads_outer=True, masked=False, causal=True
    )
    model = Decoder(attention).eval()
    ids = torch.tensor([list(TEXT)], dtype=torch.int32)
    with torch.no_grad():
        logits = model(ids)

    asset = export_common.replace(folder / "demo.aimodel")
    export_common.convert(
        model,
        (ids,),
        asset,
        input_names=["ids"],
        output_names=["logits"],
        kernels=[kernel],
        dynamic_shapes={"ids": {1: torch.export.Dim("length", min=2, max=LENGTH)}},
    )
    np.save(folder / "demo_ids.npy", ids.numpy())
    np.save(folder / "demo_logits.npy", logits.numpy())
    export_common.check_no_paths(asset)
    export_common.describe(asset)


if __name__ == "__main__":
    main()
