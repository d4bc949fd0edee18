"""Makes tests/kernels/packed_unpack_*.metal and packed_pack.metal with ml_dtypes: what `unpack` and `pack` give in a kernel.

Each run of the files is one format, one element type and one count (a file for each format of `unpack`); the expected numbers and codes are literals from
ml_dtypes (E4M3's default clamps here, ml_dtypes gives NaN: the clamped codes are put in by the rule).

    python tools/packed_tests.py
"""

from pathlib import Path

import ml_dtypes
import numpy as np

FOLDER = Path(__file__).parent.parent / "tests/kernels"

# Metal's name, bits, ml_dtypes type, element types that hold all values.
FORMATS = {
    "metal_fp8_e4m3_format": (8, ml_dtypes.float8_e4m3fn, ["float", "half", "bfloat"]),
    "metal_fp8_e5m2_format": (8, ml_dtypes.float8_e5m2, ["float", "half", "bfloat"]),
    "metal_fp8_ue8m0_format": (8, ml_dtypes.float8_e8m0fnu, ["float", "bfloat"]),
    "metal_fp4_e2m1_format": (4, ml_dtypes.float4_e2m1fn, ["float", "half", "bfloat"]),
    "int4b_format": (4, ml_dtypes.int4, ["float", "half", "bfloat"]),
    "uint4b_format": (4, ml_dtypes.uint4, ["float", "half", "bfloat"]),
    "int8b_format": (8, np.int8, ["float", "half", "bfloat"]),
    "uint8b_format": (8, np.uint8, ["float", "half", "bfloat"]),
}


def literals(key, values):
    """An annotation with a list, wrapped."""
    words = []
    for value in values:
        value = float(value)
        words.append("nan" if np.isnan(value) else repr(value).removesuffix(".0") if value != 0 or np.signbit(value) else "0")
    words = [f"{word}," for word in words[:-1]] + words[-1:]
    lines, line = [], f"// {key} ["
    for word in words:
        if len(line) + len(word) > 118:
            lines.append(line.rstrip())
            line = "//     "
        line += word + " "
    return "\n".join(lines + [line.rstrip() + "]"])


def table(dtype, bits):
    return np.arange(1 << bits, dtype=np.uint8).view(dtype).astype(np.float64)


def unpack_runs(name, bits, dtype, types):
    out = []
    values = table(dtype, bits)
    for at, element in enumerate(types):
        # One count of each kind; all of them for float.
        counts = [2, 4, 8, 16] if element == "float" else [[4, 8], [8, 16], [2, 8]][at]
        for count in counts:
            out.append(f"// run: {name} to {element}{count}")
            out.append(f"// flags: -D FORMAT={name} -D T={element} -D N={count}")
            out.append(f"// arg 1: buffer {element}[{256 * 8 // bits}] = zeros")
            out.append(literals(f"arg 3: buffer float[{1 << bits}] =", values))
            index = "i" if bits == 8 else "i % 2 == 0 ? (i / 2) % 16 : floor(i / 32)"
            out.append(f'// expect 1: formula "a3[{index}]"')
            nan = bits == 8 and "e5m2" in name
            # NaN codes other than the format's own become that one, with their sign.
            back = "(i % 128 > 124 ? floor(i / 128) * 128 + 126 : i)" if nan else "i"
            out.append(f'// expect 2: formula "{back}"')
    return "\n".join(out)


UNPACK = """// `unpack` of every code, and `pack` of what comes out, against ml_dtypes. Made by tools/packed_tests.py.
//
// kernel: codes
// arg 0: buffer uchar[256] = iota
// arg 2: buffer uchar[256] = zeros
// grid: threads 128 1 1
// threads: 32 1 1
// tolerance: exact
%s

#include <metal_stdlib>
#include <metal_packed_numeric>
using namespace metal;

using packed = packed_numeric_type<FORMAT, N>;

kernel void codes(device const uchar* bytes [[buffer(0)]],
                  device T* numbers [[buffer(1)]],
                  device uchar* again [[buffer(2)]],
                  constant float* [[maybe_unused]] table [[buffer(3)]],
                  uint id [[thread_position_in_grid]])
{
    // A storage of a single byte is `uchar`, a longer one a vector of bytes.
    constexpr uint SIZE = sizeof(packed);
    const uint groups = 256 / SIZE;
    for (uint group = id; group < groups; group += 128) {
        using storage = typename packed::storage_type;
        const packed codes(*reinterpret_cast<device const storage*>(bytes + group * SIZE));
        const vec<T, N> values = unpack<T>(codes);
        for (int i = 0; i < N; i++) {
            numbers[group * N + i] = values[i];
        }
        const auto back = pack<FORMAT>(values);
        static_assert(is_same_v<decltype(back), const packed>, "the type of pack");
        *reinterpret_cast<device storage*>(again + group * SIZE) = back.as_storage_type();
    }
}
"""


def hard_inputs(values):
    """Positive numbers where rounding is hard: values, midpoints, one f32 step beside them, and past the end."""
    finite = np.unique(np.abs(values[np.isfinite(values)])).astype(np.float32)
    chosen = finite if len(finite) < 20 else finite[[0, 1, 2, 3, 7, 8, 9, 15, 16, 40, 41, 62, 63, 100, len(finite) - 2, len(finite) - 1]]
    inputs = list(chosen)
    for value in chosen:
        at = np.searchsorted(finite, value)
        if at + 1 < len(finite):
            middle = np.float32((np.float64(value) + np.float64(finite[at + 1])) / 2)
            inputs += [np.nextafter(middle, np.float32(0)), middle, np.nextafter(middle, np.float32(np.inf))]
    top = finite[-1]
    inputs += [np.float32(top * f) for f in (1.03, 1.0357, 1.0625, 1.1, 2, 1000)]
    return np.array(inputs, np.float32)


def expected(values, x, mode, saturation, name):
    """The code of one number, by exhaustive search over the format's values."""
    finite = [(float(v), code) for code, v in enumerate(values) if np.isfinite(v)]
    top = max(v for v, _ in finite)
    low = min(v for v, _ in finite)
    negative = bool(np.signbit(np.float64(x)))
    half = len(values) // 2
    # A float's sign is its top bit, and zero has both.
    signed = [(v, code) for code, v in enumerate(values) if np.isfinite(v) and (code >= half) == negative]
    if mode == "toward_zero":
        if "e4m3" in name and saturation == "none" and abs(x) >= 480:
            return 0x7F | (0x80 if negative else 0)
        if "fp" in name:
            return max((abs(v), code) for v, code in signed if abs(v) <= abs(x))[1]
        return next(code for v, code in finite if v == np.clip(np.trunc(x), low, top))
    distance = min(abs(v - x) for v, _ in finite)
    ties = sorted(code for v, code in finite if abs(v - x) == distance)
    if "fp" in name:
        ties = [code for code in ties if (code >= half) == negative]
    code = next((code for code in ties if code % 2 == 0), ties[0])
    if "e5m2" in name and saturation != "saturate" and abs(x) >= 61440:
        return 0x7C | (0x80 if x < 0 else 0)
    if "e4m3" in name and saturation == "none" and abs(x) > 464:
        return 0x7F | (0x80 if x < 0 else 0)
    assert low <= values[code] <= top
    return code


def pack_runs():
    out = []
    for name, (bits, dtype, _) in FORMATS.items():
        if "ue8m0" in name or "8b" in name:
            continue
        values = table(dtype, bits)
        inputs = hard_inputs(values)
        inputs = np.concatenate([inputs, -inputs])
        inputs = np.concatenate([inputs, np.zeros(-len(inputs) % 8, np.float32)])
        if "fp8" in name:
            # The search agrees with ml_dtypes, which overflows to NaN and infinity.
            other = inputs.astype(dtype).view(np.uint8)
            search = [expected(values, float(x), "nearest_even", "none", name) for x in inputs]
            assert list(other) == search, name
        for mode in ["nearest_even", "toward_zero"]:
            for saturation in ["format_default", "saturate", "none"] if "fp8" in name else ["format_default"]:
                codes = [expected(values, float(x), mode, saturation, name) for x in inputs]
                if bits == 4:
                    codes = [codes[i] | codes[i + 1] << 4 for i in range(0, len(codes), 2)]
                out.append(f"// run: {name} {mode} {saturation}")
                out.append(f"// flags: -D FORMAT={name} -D ROUNDING={mode} -D SATURATION={saturation}")
                out.append(literals(f"arg 0: buffer float[{len(inputs)}] =", inputs))
                out.append(f"// arg 1: buffer uchar[{len(codes)}] = zeros")
                out.append(f"// grid: threads {len(inputs) // 8} 1 1")
                out.append(literals("expect 1:", codes))
    return "\n".join(out)


PACK = """// `pack` with its roundings and saturations, at the numbers where they differ. Made by tools/packed_tests.py.
//
// kernel: rounded
// threads: 32 1 1
// tolerance: exact
%s

#include <metal_stdlib>
#include <metal_packed_numeric>
using namespace metal;

kernel void rounded(device const vec<float, 8>* numbers [[buffer(0)]],
                    device uchar* bytes [[buffer(1)]],
                    uint id [[thread_position_in_grid]])
{
    const auto codes = pack<FORMAT, rounding_mode::ROUNDING, saturation_mode::SATURATION>(numbers[id]);
    using storage = typename remove_cv_t<decltype(codes)>::storage_type;
    *reinterpret_cast<device storage*>(bytes + id * sizeof(storage)) = codes.as_storage_type();
}
"""

for name, (bits, dtype, types) in FORMATS.items():
    short = name.removeprefix("metal_").removesuffix("_format").replace("4b", "4").replace("8b", "8")
    (FOLDER / f"packed_unpack_{short}.metal").write_text(UNPACK % unpack_runs(name, bits, dtype, types))
(FOLDER / "packed_pack.metal").write_text(PACK % pack_runs())
