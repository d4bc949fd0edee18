"""Makes crates/formats/tests/golden/{encode,codes,rounding,double}.txt with ml_dtypes and NumPy: what the codes of the small
formats mean, and how numbers round into them.

    python tools/formats_golden.py crates/formats/tests/golden

encode.txt    `FORMAT INPUT CODE`: inputs (the bits of an f64 in hexadecimal, all exact in f32) where rounding is hard: every
              representable value, every midpoint between neighbours, one f32 step to both sides of it, values past the ends,
              and random ones. Overflow goes to NaN in E4M3 and to infinity in E5M2: saturation off.
codes.txt     `FORMAT BITS…`: the value of every code as the bits of an f32.
rounding.txt  `FORMAT SOURCE SATURATION FIRST:CODE …`: all 65536 values of f16 or bf16 (SOURCE) rounded into FORMAT, as runs: from
              the source code FIRST on, up to the next run, the result is CODE. SATURATION is `overflow` or `clamp`.
double.txt    `FORMAT INPUT CODE` for f64 inputs close to midpoints, where rounding to f32 first goes to the wrong side.

ml_dtypes rounds from f32. For f64 inputs it would round twice, so here an f64 is rounded to f32 *to odd* first, which makes a
second rounding to nearest right. Integer formats are not rounded by ml_dtypes (its casts truncate and wrap): NumPy's `rint` and
`clip` do that, and ml_dtypes gives the codes. Two results of ml_dtypes are replaced, see docs/formats-and-tensors.md: what lies
below 2^-126 in E8M0 (ml_dtypes says NaN for zero and rounds everything between 2^-127 and 2^-126 up; here zero is the smallest
scale and the nearest code is taken) and a negative NaN in E2M1 (ml_dtypes says +0, here every NaN is -0).
"""

import pathlib
import struct
import sys

import ml_dtypes
import numpy as np

FLOATS = {
    "fp4_e2m1": (ml_dtypes.float4_e2m1fn, 16),
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 256),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 256),
    "bf16": (ml_dtypes.bfloat16, 65536),
    "f16": (np.float16, 65536),
}
SCALE = ml_dtypes.float8_e8m0fnu
INTEGERS = {
    "i8": (np.int8, 256),
    "u8": (np.uint8, 256),
    "int4": (ml_dtypes.int4, 16),
    "uint4": (ml_dtypes.uint4, 16),
    "int2": (ml_dtypes.int2, 4),
    "uint2": (ml_dtypes.uint2, 4),
}
LIMITS = {"i8": (-128, 127), "u8": (0, 255), "int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1), "uint2": (0, 3)}


def hard_inputs(dtype, codes, rng):
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
        middles = (up + low) / 2
        middles = middles[np.isfinite(middles)].astype(np.float32)
    top = values.max()
    ends = np.array([0.0, -0.0, np.inf, -np.inf, top * 1.03, top * 1.0625, top * 1.07, top * 2, -top * 1.5], np.float32)
    ends = np.concatenate([ends, np.array([464.0, 464.00003, 61439.996, 61440.0, 1e-30, -1e-40], np.float32)])
    scale = np.float32(2.0) ** rng.integers(-12, 12, 60).astype(np.float32)
    chance = rng.standard_normal(60).astype(np.float32) * scale
    near = np.concatenate([np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(-np.inf))])
    return np.concatenate([values, middles, near, ends, chance]).astype(np.float32), middles


def to_code(name, x, clamp):
    """The codes of f32 values `x` in a format, as unsigned integers."""
    x = x.astype(np.float32)
    if name in INTEGERS:
        low, high = LIMITS[name]
        whole = np.clip(np.rint(np.nan_to_num(x, nan=0.0)), low, high).astype(np.int32)
        dtype, codes = INTEGERS[name]
        return whole.astype(dtype).view(np.uint8) & (codes - 1)
    if name == "fp8_ue8m0":
        if clamp:
            x = np.where(x == np.inf, np.float32(2.0**127), np.minimum(x, np.float32(2.0**127)))
        y = x.astype(SCALE).view(np.uint8)
        small = (x >= 0) & (x < np.float32(2.0**-126))
        return np.where(small, x >= np.float32(1.5 * 2.0**-127), y)
    dtype, codes = FLOATS[name]
    if clamp:
        top = np.float32(ml_dtypes.finfo(dtype).max)
        x = np.where(np.isnan(x), x, np.clip(x, -top, top))
    y = x.astype(dtype).view(np.uint16 if codes == 65536 else np.uint8)
    return np.where(np.isnan(x), 8, y) if name == "fp4_e2m1" else y


def bits64(value):
    return struct.unpack("<Q", struct.pack("<d", float(value)))[0]


def to_odd(x):
    """f64 to f32, rounded toward zero with the last bit set where that lost something."""
    y = x.astype(np.float32)
    over = np.abs(y.astype(np.float64)) > np.abs(x)
    y = np.where(over, np.nextafter(y, np.float32(0)), y)
    bits = y.view(np.uint32) | (y.astype(np.float64) != x).astype(np.uint32)
    return bits.view(np.float32)


def encode_lines():
    rng = np.random.default_rng(330)
    for name, (dtype, codes) in FLOATS.items():
        x, _ = hard_inputs(dtype, codes, rng)
        width = np.uint16 if codes == 65536 else np.uint8
        for value, code in zip(x, x.astype(dtype).view(width)):
            yield f"{name} {bits64(value):016x} {int(code):x}"


def code_lines():
    every = {name: pair for name, pair in {**FLOATS, **INTEGERS}.items() if pair[1] <= 256}
    for name, (dtype, codes) in {**every, "fp8_ue8m0": (SCALE, 256)}.items():
        values = np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float32)
        yield name + " " + " ".join(f"{int(b):x}" for b in values.view(np.uint32))


def rounding_lines():
    sources = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
    for name in ["fp4_e2m1", "fp8_e4m3", "fp8_e5m2", "fp8_ue8m0", *INTEGERS]:
        for source, dtype in sources.items():
            x = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(dtype).astype(np.float32)
            for saturation in ["overflow", "clamp"]:
                codes = to_code(name, x, saturation == "clamp")
                starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
                runs = " ".join(f"{int(s):x}:{int(codes[s]):x}" for s in starts)
                yield f"{name} {source} {saturation} {runs}"


def double_lines():
    rng = np.random.default_rng(331)
    for name, (dtype, codes) in FLOATS.items():
        _, middles = hard_inputs(dtype, codes, rng)
        middles = middles.astype(np.float64)[:: 8 if codes == 65536 else 1]
        near = np.concatenate([middles * (1 + 2.0**-40), middles * (1 - 2.0**-40), np.nextafter(middles, np.inf)])
        near = near[(near != 0) & (np.abs(near) > 2.0**-130)]
        for value, code in zip(near, to_code(name, to_odd(near), False)):
            yield f"{name} {bits64(value):016x} {int(code):x}"


def main():
    folder = pathlib.Path(sys.argv[1])
    parts = {"encode": encode_lines, "codes": code_lines, "rounding": rounding_lines, "double": double_lines}
    with np.errstate(all="ignore"):
        for name, lines in parts.items():
            (folder / f"{name}.txt").write_text("".join(line + "\n" for line in lines()))


main()
