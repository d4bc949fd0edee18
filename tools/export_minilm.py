"""Exports all-MiniLM-L6-v2 with its real weights as a Core AI asset whose attention is a custom Metal kernel.

    python tools/export_minilm.py OUTPUT_FOLDER

writes OUTPUT_FOLDER/minilm.aimodel       attention is the FlashAttention kernel of kernels/
       OUTPUT_FOLDER/minilm_plain.aimodel the same model without it, for Apple's interpreter
       OUTPUT_FOLDER/tokenizer.json       the tokenizer: at most 256 tokens, no padding

Inputs:  ids             int32 [B, T]  token ids, 0 in the padding
         attention_mask  int32 [B, T]  1 for a token, 0 in the padding
Output:  embedding       float32 [B, 384], the mean of the token vectors, of length 1

Batch and length are dynamic (1..64 sentences, 2..256 tokens).
"""

from __future__ import annotations

import argparse
import pathlib

import torch

import export_common
import metal_attention
import minilm_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path, help="folder for the assets")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    minilm_model.tokenizer().save(str(arguments.output / "tokenizer.json"))

    kernel, attention = metal_attention.flash_attention(
        "minilm_attention", minilm_model.HEAD_DIM, heads_outer=False, masked=True
    )
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=minilm_model.MAX_TOKENS)
    samples = (torch.ones(2, 16, dtype=torch.int32), torch.ones(2, 16, dtype=torch.int32))
    for name, kernels, model in (
        ("minilm", [kernel], minilm_model.load(attention)),
        ("minilm_plain", None, minilm_model.load()),
    ):
        asset = export_common.replace(arguments.output / f"{name}.aimodel")
        export_common.convert(
            model,
            samples,
            asset,
            input_names=["ids", "attention_mask"],
            output_names=["embedding"],
            kernels=kernels,
            dynamic_shapes={"ids": {0: batch, 1: length}, "attention_mask": {0: batch, 1: length}},
        )
        print(name)
        export_common.describe(asset)


if __name__ == "__main__":
    main()
