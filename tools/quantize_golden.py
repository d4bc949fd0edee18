"""Makes crates/runtime/tests/golden/quantised.safetensors with NumPy and ml_dtypes: matrices, and what they become in blocks of 32
with power-of-two scales. Written from the text of the OCP Microscaling Formats specification v1.0 (section 6.3) and without looking
at any Rust of this repository.

    python tools/quantize_golden.py crates/runtime/tests/golden/quantised.safetensors

Inputs `f32`, `f16`, `bf16` are matrices of 45 columns, which is no whole number of blocks: rows are padded with zeros. For each input X
and format F the file has `F/X/data` (packed bytes), `F/X/scales` (bytes) and `F/X/back` (F32, padding included).
"""

import json
import struct
import sys

import ml_dtypes
import numpy as np

BLOCK = 32
# Element type, largest element, exponent of the largest power of two, bits.
FORMATS = {
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 448, 8, 8),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 57344, 15, 8),
    "fp4_e2m1": (ml_dtypes.float4_e2m1fn, 6, 2, 4),
    "i8": (np.int8, 127, 6, 8),
    "int4": (ml_dtypes.int4, 7, 2, 4),
    "int2": (ml_dtypes.int2, 1, 0, 2),
}


def quantise(x, name):
    dtype, top, emax, bits = FORMATS[name]
    rows, columns = x.shape
    padded = -(-columns // BLOCK) * BLOCK
    wide = np.zeros((rows, padded), np.float64)
    wide[:, :columns] = x.astype(np.float64)
    blocks = wide.reshape(-1, BLOCK)
    bad = ~np.isfinite(blocks).all(axis=1)
    largest = np.abs(np.where(bad[:, None], 0, blocks)).max(axis=1)
    # frexp: largest = m · 2^e with ½ ≤ m < 1.
    exponent = np.where(largest > 0, np.frexp(largest)[1] - 1 - emax, -127)
    exponent = np.clip(exponent, -127, 127)
    scaled = blocks / np.exp2(np.where(bad, 0, exponent))[:, None]
    scaled = np.where(np.isnan(scaled), scaled, np.clip(scaled, -top, top))
    if name in ("i8", "int4", "int2"):
        codes = np.rint(np.nan_to_num(scaled, nan=0.0)).astype(np.int32).astype(dtype)
        raw = codes.view(np.uint8) & ((1 << bits) - 1)
    else:
        codes = scaled.astype(np.float32).astype(dtype)
        raw = codes.view(np.uint8)
        if name == "fp4_e2m1":
            raw = np.where(np.isnan(scaled), 8, raw).astype(np.uint8)
    scales = np.where(bad, 255, exponent + 127).astype(np.uint8)
    factor = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    back = (codes.astype(np.float64) * factor[:, None]).astype(np.float32).reshape(rows, padded)
    per_byte = 8 // bits
    raw = raw.reshape(-1, per_byte).astype(np.uint32)
    data = sum(raw[:, i] << (i * bits) for i in range(per_byte)).astype(np.uint8)
    return data, scales, back


def inputs():
    rng = np.random.default_rng(27)
    x = rng.standard_normal((12, 45)) * np.exp2(rng.integers(-3, 4, (12, 45)))
    x[1] *= 2.0**-133
    x[2] *= 2.0**100
    x[3] = np.round(x[3] * 4) / 8
    x[4, :32] = 0
    x[5, 7] = np.nan
    x[6, 40] = -np.inf
    x[7] = np.linspace(-1, 1, 45) * 2.0**-126
    x[8] *= np.exp2(rng.integers(-20, 20, 45))
    x[9, ::2] = -0.0
    with np.errstate(all="ignore"):
        return {
            "f32": x.astype(np.float32),
            "f16": x[[0, 3, 4, 5, 6, 8, 9]].astype(np.float16),
            "bf16": x.astype(ml_dtypes.bfloat16),
        }


def main():
    types = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
    entries = []
    for name, x in inputs().items():
        entries.append((name, types[name], list(x.shape), x.tobytes()))
        for format_name in FORMATS:
            with np.errstate(all="ignore"):
                data, scales, back = quantise(x, format_name)
            entries.append((f"{format_name}/{name}/back", "F32", list(back.shape), back.tobytes()))
            entries.append((f"{format_name}/{name}/data", "U8", list(data.shape), data.tobytes()))
            entries.append((f"{format_name}/{name}/scales", "U8", list(scales.shape), scales.tobytes()))
    header, offset = {}, 0
    for name, dtype, shape, payload in entries:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(payload)]}
        offset += len(payload)
    text = json.dumps(header).encode()
    with open(sys.argv[1], "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(payload for *_, payload in entries))


main()
