"""The FlashAttention kernel of `kernels/` as a TorchMetalKernel, for models that are exported with it.

The Metal source is read from `kernels/include/anymetal/flash_attention.h`, the one place where it is written; the kernel
body here only picks the head and the rows of a SIMD-group and calls it.
"""

from __future__ import annotations

import pathlib

import torch
import torch.nn.functional as F
from coreai_torch import MetalParameter, TorchMetalKernel

HELPER = pathlib.Path(__file__).resolve().parent.parent / "kernels/include/anymetal/flash_attention.h"

SIMDGROUPS = 4  # of 32 threads in a threadgroup; each owns 16 rows of queries
ROWS = 16 * SIMDGROUPS

BODY = """
    threadgroup float scratch[{simdgroups} * anymetal::attention_scratch_floats<{head_dim}>()];
    {mask}
    anymetal::flash_attention_handles<{head_dim}, {causal}, anymetal::{mask_kind}, {relaxed}, {heads_outer},
                                      anymetal::attention_rows, anymetal::attention_keys>(
        query, key, value, result, head_mask, {scale!r}f, {causal_offset}, int(tgid.z), int(tgid.y),
        int(tgid.x * {simdgroups} + sgid) * anymetal::attention_rows,
        scratch + sgid * anymetal::attention_scratch_floats<{head_dim}>());
"""


def flash_attention(
    name: str,
    head_dim: int,
    *,
    heads_outer: bool,
    masked: bool,
    causal: bool = False,
    relaxed: bool = False,
) -> tuple[TorchMetalKernel, object]:
    """A kernel and the function that calls it.

    name         of the custom operation; once a process
    heads_outer  tensors are [B, H, T, D], else [B, T, H, D]
    masked       a last argument is a float mask [B or 1, H or 1, Tq or 1, Tk or 1], added to the scores
    causal       key j takes part in row i only if j <= i
    relaxed      the second product may round the probabilities to the precision of the tensor units

    The function takes query, key, value and the mask if there is one, and returns a tensor like query. K and V may
    have fewer heads than Q.
    """
    scale = head_dim**-0.5
    body = BODY.format(
        simdgroups=SIMDGROUPS,
        head_dim=head_dim,
        causal=str(causal).lower(),
        causal_offset=0,
        heads_outer=str(heads_outer).lower(),
        relaxed=str(relaxed).lower(),
        scale=scale,
        mask_kind="attention_mask_additive" if masked else "attention_mask_none",
        mask=(
            "auto head_mask = anymetal::attention_mask_from_handle<float>(mask, int(tgid.z), int(tgid.y));"
            if masked
            else "anymetal::attention_mask<float> head_mask = {nullptr, 0, 0};"
        ),
    )
    heads_axis, rows_axis = (1, 2) if heads_outer else (2, 1)

    def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        if not heads_outer:
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=k.shape[1] != q.shape[1]
        )
        return (out if heads_outer else out.transpose(1, 2)).contiguous()

    def with_mask(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        return reference(query, key, value, mask)

    def without_mask(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return reference(query, key, value, None)

    for function in (with_mask, without_mask):  # the exporter resolves annotations in this module
        function.__annotations__ = {n: torch.Tensor for n in function.__annotations__}

    kernel = TorchMetalKernel(
        name,
        input_names=["query", "key", "value"] + (["mask"] if masked else []),
        result_names=["result"],
        src=body,
        torch_defn=with_mask if masked else without_mask,
        metal_params=[
            MetalParameter(name="tgid", dtype="uint3", attr="threadgroup_position_in_grid"),
            MetalParameter(name="sgid", dtype="uint", attr="simdgroup_index_in_threadgroup"),
        ],
        helper_src=HELPER.read_text(),
    )

    def call(query: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        blocks = (query.shape[rows_axis] + ROWS - 1) // ROWS
        return kernel(
            query,
            *rest,
            threads_per_grid=(blocks * 32 * SIMDGROUPS, query.shape[heads_axis], query.shape[0]),
            threads_per_thread_group=(32 * SIMDGROUPS, 1, 1),
            result_shapes=[list(query.shape)],
        )

    return kernel, call
