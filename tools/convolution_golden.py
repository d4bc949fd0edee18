"""Makes tests/kernels/convolution_golden.metal: convolution2d against PyTorch's conv2d, with borders, strides and dilations that differ in
x and y. The inputs are the test format's `random` fills, which this script computes too; PyTorch works in f64 on them.

    python tools/convolution_golden.py > tests/kernels/convolution_golden.metal
"""

import numpy as np
import torch

CASES = [
    # name, (C, W, H, N), (O, KW, KH), (x, y) strides, dilations, offsets, (W, H) of the destination
    ("borders all around", (3, 6, 5, 2), (5, 3, 3), (1, 1), (1, 1), (0, 0), (6, 5)),
    ("stride 2 and dilation 2", (4, 9, 7, 1), (3, 3, 2), (2, 1), (1, 2), (1, -1), (4, 7)),
    ("far outside", (2, 5, 4, 1), (3, 5, 1), (3, 2), (2, 1), (-2, 3), (3, 3)),
]

HEAD = """// convolution2d against PyTorch 2's conv2d (made by tools/convolution_golden.py).
//
// kernel: golden
// grid: threadgroups 1 1 1
// threads: 64 1 1
// tolerance: abs 2e-6 rel 2e-6
"""

KERNEL = """
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

kernel void golden(tensor<device half, dextents<int, 4>> activation [[buffer(0)]],
                   tensor<device half, dextents<int, 4>> weights [[buffer(1)]],
                   tensor<device float, dextents<int, 4>> destination [[buffer(2)]])
{
    constexpr auto descriptor = convolution2d_descriptor(
        SIZES, convolution2d_activation_layout::nhwc, convolution2d_weights_layout::hwio, STRIDES, DILATIONS);
    convolution2d<descriptor, execution_simdgroups<2>> op;
    op.set_offsets(OFFSETS);
    op.run(activation, weights, destination);
}"""


def random_half(seed, count):
    """`random(seed)` of docs/test-format.md as half."""
    mask = (1 << 64) - 1
    out = np.empty(count)
    for i in range(count):
        z = ((seed << 32) + i + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        out[i] = -1 + (z >> 11) / 2**53 * 2
    return out.astype(np.float16).astype(np.float64)


def convolve(x, w, strides, dilations, offsets, size):
    """PyTorch has no offsets: they become padding or cropping on the near side, and enough zeros are added on the far side."""
    for axis, (kernel, offset) in enumerate(zip((w.shape[3], w.shape[2]), offsets)):
        near = (kernel - 1) * dilations[axis] // 2 - offset
        reach = (size[axis] - 1) * strides[axis] + (kernel - 1) * dilations[axis] + 1
        far = max(0, reach - near - x.shape[3 - axis])
        pads = [near, far, 0, 0] if axis == 0 else [0, 0, near, far]
        x = torch.nn.functional.pad(x, pads)
    y = torch.nn.functional.conv2d(x, w, stride=strides[::-1], dilation=dilations[::-1])
    return y[:, :, : size[1], : size[0]]


def wrapped(values):
    """Literals on continued lines of a test's header."""
    lines, line = [], "// expect 2: ["
    for i, value in enumerate(values):
        text = f"{value:.9g}" + ("]" if i + 1 == len(values) else ", ")
        if len(line) + len(text) > 130:
            lines.append(line.rstrip())
            line = "//     "
        line += text
    return "\n".join(lines + [line.rstrip()])


def pair(values):
    return f"int2({values[0]},{values[1]})"


print(HEAD.rstrip())
for name, (c, w, h, n), (o, kw, kh), strides, dilations, offsets, size in CASES:
    x = random_half(1, c * w * h * n).reshape(n, h, w, c).transpose(0, 3, 1, 2)
    k = random_half(2, o * c * kw * kh).reshape(kh, kw, c, o).transpose(3, 2, 0, 1)
    y = convolve(torch.from_numpy(x.copy()), torch.from_numpy(k.copy()), strides, dilations, offsets, size)
    assert y.shape == (n, o, size[1], size[0]), y.shape
    sizes = f"int4({o},{size[0]},{size[1]},{n}),int4({c},{w},{h},{n}),int2({kw},{kh})"
    print("//")
    print(f"// run: {name}")
    print(f"// flags: -D SIZES={sizes} -D STRIDES={pair(strides)} -D DILATIONS={pair(dilations)} -D OFFSETS={pair(offsets)}")
    print(f"// arg 0: tensor half ({c}, {w}, {h}, {n}) = random(1)")
    print(f"// arg 1: tensor half ({o}, {c}, {kw}, {kh}) = random(2)")
    print(f"// arg 2: tensor float ({o}, {size[0]}, {size[1]}, {n}) = fill(9)")
    print(wrapped(y.permute(0, 2, 3, 1).reshape(-1).tolist()))
print(KERNEL)
