"""Makes crates/formats/tests/golden/encode.txt with ml_dtypes: how numbers round into small float formats.

Each line: format name, the input as the hexadecimal bits of an f64, the code in hexadecimal. Inputs are chosen where
rounding is hard: every representable value, every midpoint between neighbours, one f32 step to both sides of it,
values past the ends, and random ones. ml_dtypes rounds from f32 here, which holds all of these inputs exactly.
E4M3 in ml_dtypes overflows to NaN and E5M2 to infinity: compare with saturation off.

    python tools/formats_golden.py > crates/formats/tests/golden/encode.txt
"""

import struct

import ml_dtypes
import numpy as np

FORMATS = {
    "fp4_e2m1": (ml_dtypes.float4_e2m1fn, 16),
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 256),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 256),
    "bf16": (ml_dtypes.bfloat16, 65536),
    "f16": (np.float16, 65536),
}


def inputs(dtype, codes, rng):
    width = np.uint16 if codes == 65536 else np.uint8
    step = 1 if codes <= 256 else 257
    values = np.arange(0, codes, step, dtype=np.uint32).astype(width).view(dtype).astype(np.float32)
    values = values[np.isfinite(values)]
    values = np.unique(values)
    if codes <= 256:
        middles = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
    else:
        # Neighbours of every 257th value.
        up = (np.arange(0, codes - 1, step, dtype=np.uint32) + 1).astype(width).view(dtype).astype(np.float64)
        low = np.arange(0, codes - 1, step, dtype=np.uint32).astype(width).view(dtype).astype(np.float64)
        middles = ((up + low) / 2)
        middles = middles[np.isfinite(middles)].astype(np.float32)
    top = values.max()
    ends = np.array([0.0, -0.0, np.inf, -np.inf, top * 1.03, top * 1.0625, top * 1.07, top * 2, -top * 1.5], np.float32)
    ends = np.concatenate([ends, np.array([464.0, 464.00003, 61439.996, 61440.0, 1e-30, -1e-40], np.float32)])
    scale = np.float32(2.0) ** rng.integers(-12, 12, 60).astype(np.float32)
    chance = rng.standard_normal(60).astype(np.float32) * scale
    near = np.concatenate([np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(-np.inf))])
    everything = np.concatenate([values, middles, near, ends, chance]).astype(np.float32)
    return everything


def main():
    rng = np.random.default_rng(330)
    for name, (dtype, codes) in FORMATS.items():
        width = np.uint16 if codes == 65536 else np.uint8
        with np.errstate(all="ignore"):
            x = inputs(dtype, codes, rng)
            y = x.astype(dtype).view(width)
        for value, code in zip(x, y):
            bits = struct.unpack("<Q", struct.pack("<d", float(value)))[0]
            print(f"{name} {bits:016x} {int(code):x}")


main()
