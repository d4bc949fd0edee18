"""Makes the small assets without kernels that the tests of crates/coreai run: every operation family of the dialect.

    python tools/make_op_assets.py [OUTPUT_FOLDER]     (default: crates/coreai/tests/assets)

For each asset NAME.aimodel the file NAME.golden.json holds cases: inputs and PyTorch's outputs as
{"dtype": "float32", "shape": [2, 3], "data": [...]}. `aicode/NAME.txt` holds the raw generic print of three of them, made
by the exporter's own parser, which the reader's print is compared with.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

import export_common

FOLDER: pathlib.Path
PRINTED = {"linear_norm_gelu", "branches", "cache"}


class Call(nn.Module):
    """A module that only calls one function."""

    def __init__(self, function) -> None:  # noqa: ANN001
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor):  # noqa: ANN201
        return self.function(*args)


def encode_value(value: float | int | bool) -> float | int | bool | str:
    """A number as JSON has it: nine digits are enough for a float32, and NaN and infinity are strings."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)


def encode(tensor: torch.Tensor) -> dict:
    """A tensor as JSON, with the runtime's names of types; int64 and float64 are narrowed as the exporter does."""
    if tensor.dtype == torch.int64:
        tensor = tensor.to(torch.int32)
    if tensor.dtype == torch.float64:
        tensor = tensor.to(torch.float32)
    data = tensor.detach().to(torch.float32) if tensor.is_floating_point() else tensor
    values = [encode_value(v) for v in data.flatten().tolist()]
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "data": values}


def write(name: str, model: nn.Module, inputs: dict[str, torch.Tensor], more: list[dict[str, torch.Tensor]] = (),
          dynamic_shapes: object = None) -> None:
    """Exports one asset with one or several cases."""
    model = model.eval()
    samples = tuple(inputs.values())
    with torch.no_grad():
        first = model(*samples)
    count = len(first) if isinstance(first, tuple) else 1
    outputs = [f"y{i}" for i in range(count)]
    asset = export_common.replace(FOLDER / f"{name}.aimodel")
    export_common.convert(model, samples, asset, input_names=list(inputs), output_names=outputs,
                          dynamic_shapes=dynamic_shapes)
    export_common.check_no_paths(asset)
    cases = []
    for case in [inputs, *more]:
        with torch.no_grad():
            result = model(*case.values())
        result = result if isinstance(result, tuple) else (result,)
        cases.append({"inputs": {k: encode(v) for k, v in case.items()},
                      "outputs": {k: encode(v) for k, v in zip(outputs, result)}})
    (FOLDER / f"{name}.golden.json").write_text(json.dumps({"cases": cases}) + "\n")
    if name in PRINTED:
        write_print(asset, FOLDER / "aicode" / f"{name}.txt")
    print(name, sum(f.stat().st_size for f in asset.rglob("*")))


def write_print(asset: pathlib.Path, path: pathlib.Path) -> None:
    """The generic print of the stored form."""
    import coreai.authoring.context
    from coreai._compiler import ir

    context = coreai.authoring.context.Context()._mlir_context
    module = ir.Module.parse((asset / "main.mlirb").read_bytes(), context=context)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(module.operation.get_asm(enable_debug_info=False, large_elements_limit=None))


def linear_norm_gelu() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU())
    write("linear_norm_gelu", model, {"x": torch.randn(3, 8)})


class Encoder(nn.Module):
    """A two-layer encoder of BERT's kind with padding mask and mean pooling."""

    def __init__(self, width: int = 12, heads: int = 3, layers: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.words = nn.Embedding(50, width)
        self.places = nn.Embedding(32, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        make = lambda: nn.ModuleDict({  # noqa: E731
            "q": nn.Linear(width, width), "k": nn.Linear(width, width), "v": nn.Linear(width, width),
            "o": nn.Linear(width, width), "n1": nn.LayerNorm(width, eps=1e-12), "up": nn.Linear(width, 4 * width),
            "down": nn.Linear(4 * width, width), "n2": nn.LayerNorm(width, eps=1e-12)})
        self.layers = nn.ModuleList([make() for _ in range(layers)])

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length = ids.shape
        x = self.norm(self.words(ids) + self.places(torch.arange(length, device=ids.device)))
        keep = mask[:, None, None, :].bool()
        for layer in self.layers:
            split = lambda t: t.view(batch, length, self.heads, -1).transpose(1, 2)  # noqa: E731
            a = F.scaled_dot_product_attention(split(layer["q"](x)), split(layer["k"](x)), split(layer["v"](x)), keep)
            x = layer["n1"](x + layer["o"](a.transpose(1, 2).reshape(batch, length, -1)))
            x = layer["n2"](x + layer["down"](F.gelu(layer["up"](x))))
        m = mask.unsqueeze(-1).float()
        pooled = (x * m).sum(1) / m.sum(1).clamp(min=1e-9)
        return x, F.normalize(pooled, dim=1)


def encoder() -> None:
    def case(batch: int, length: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(0, 50, (batch, length))
        mask = (torch.arange(length)[None, :] < torch.randint(1, length + 1, (batch, 1))).to(torch.int64)
        return {"ids": ids, "mask": mask}

    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", max=32)
    shapes = ({0: batch, 1: length}, {0: batch, 1: length})
    write("encoder", Encoder(), case(2, 7), [case(1, 3), case(5, 31)], shapes)


class Decoder(nn.Module):
    """One layer of Llama's kind: RMS norm, rotary positions, grouped heads, causal attention, gated MLP."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, self.d = heads, groups, width // heads
        self.words = nn.Embedding(40, width)
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.d, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, t = ids.shape
        x = self.words(ids)
        h = self.norm(x)
        position = torch.cumsum(torch.ones_like(ids), 1) - 1
        angle = position[:, None, :, None].float() / 100.0 ** (torch.arange(0, self.d, 2).float() / self.d)
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        turn = lambda v: v * cos + torch.cat([-v[..., self.d // 2:], v[..., : self.d // 2]], -1) * sin  # noqa: E731
        q = turn(self.q(h).view(b, t, self.heads, self.d).transpose(1, 2))
        k, v = self.kv(h).view(b, t, 2 * self.groups, self.d).transpose(1, 2).split(self.groups, 1)
        k = turn(k).repeat_interleave(self.heads // self.groups, 1)
        v = v.repeat_interleave(self.heads // self.groups, 1)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, -1))
        h = self.norm(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        logits = x @ self.words.weight.t()
        return logits, logits.argmax(-1)


def decoder() -> None:
    length = torch.export.Dim("length", min=2, max=64)
    write("decoder", Decoder(), {"ids": torch.randint(0, 40, (1, 6))},
          [{"ids": torch.randint(0, 40, (1, 17))}], ({1: length},))


def families() -> None:
    x = torch.randn(2, 3, 5)
    unit = torch.rand(2, 3, 5) * 1.9 - 0.95
    write("unary", Call(lambda x, u: (
        x.abs(), u.acos(), u.asin(), x.atan(), x.cos(), x.cosh(), x.sin(), x.sinh(), x.tan(), x.tanh(), x.erf(), x.exp(),
        x.abs().log(), x.abs().sqrt(), x.abs().rsqrt(), x.round(), x.relu(), x.sigmoid(), F.silu(x), F.gelu(x),
        F.gelu(x, approximate="tanh"), (x.abs() + 1).acosh(), x.asinh(), u.atanh(), x.floor(), x.ceil(), x.sign(),
        F.hardswish(x), F.leaky_relu(x))), {"x": x * 2, "u": unit})
    y = torch.randn(3, 1)
    write("binary", Call(lambda x, y: (
        x + y, x - y, x * y, x / y, torch.floor_divide(x, y), torch.fmod(x, y), torch.remainder(x, y), x.abs() ** y,
        torch.maximum(x, y), torch.minimum(x, y), x == y, x != y, x > y, x < y, x >= y, x <= y,
        torch.where(x > y, x, y), (x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), ~(x > 0),
        torch.clamp(x, -0.5, 0.5), x.pow(2), 3 - x)), {"x": x, "y": y})
    i, j = torch.randint(-50, 50, (4, 5), dtype=torch.int32), torch.randint(1, 9, (5,), dtype=torch.int32)
    write("integers", Call(lambda i, j: (
        i + j, i - j, i * j, torch.div(i, j, rounding_mode="trunc"), torch.div(i, j, rounding_mode="floor"),
        torch.fmod(i, j), torch.remainder(i, j), i & j, i | j, i ^ j, i.abs(), torch.maximum(i, j), i.float() / j,
        (i * 1.5).to(torch.int32), i > j, i.bool(), (i > 0).float())), {"i": i, "j": j})
    write("reductions", Call(lambda x: (
        x.sum(), x.sum(1), x.mean((0, 2), keepdim=True), x.amax(-1), x.amin((0, 1)), x.prod(2), (x > 0).any(1),
        (x > -2).all(2), x.argmax(1), x.softmax(1), x.log_softmax(-1), x.cumsum(1),
        x.topk(2).values, x.topk(2).indices,
        x.logsumexp(2), x.max(1).values, x.norm(dim=-1))), {"x": x})
    write("movement", Call(lambda x, k: (
        x.reshape(5, 6), x.permute(2, 0, 1).contiguous(), x.unsqueeze(1), x[:, 1:, ::2], x[1:2], x.flip(1), torch.cat([x, x * 2], 1),
        torch.stack([x, -x], -1), x.expand(4, 2, 3, 5), x.repeat(1, 2, 1), F.pad(x, (1, 2, 0, 1), value=3.0),
        F.pad(x, (2, 1), mode="reflect"), F.pad(x, (2, 1), mode="replicate"), F.pad(x, (2, 1), mode="circular"),
        x.split([2, 3], 2)[1], x.chunk(2, 0)[0], x.gather(2, k), x[:, torch.tensor([2, 0])], x.index_select(2, torch.tensor([4, 1, 1])),
        x.scatter(2, k, 7.0), torch.roll(x, 2, 2), x.tril(), torch.arange(5) * x,
        x[:1].squeeze(0), torch.zeros_like(x), x.index_put((torch.tensor([0, 1]),), torch.ones(3, 5)),
        torch.einsum("abc,adc->abd", x, x), x.masked_fill(x > 0, -1.0))),
        {"x": x, "k": torch.randint(0, 5, (2, 3, 2))})
    write("vision", nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4),
        nn.GroupNorm(2, 8), nn.SiLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 6, 3, stride=2, padding=1, output_padding=1),
        nn.PixelShuffle(1), nn.Upsample(scale_factor=2, mode="nearest"), nn.AvgPool2d(3, stride=2, padding=1),
        nn.Upsample(scale_factor=1.5, mode="bilinear"), nn.Conv2d(6, 2, 1)), {"x": torch.randn(2, 3, 19, 22)})
    write("conv1d", nn.Sequential(nn.Conv1d(4, 6, 5, padding=2), nn.GELU(), nn.Conv1d(6, 3, 2, stride=2)),
          {"x": torch.randn(1, 4, 21)})
    for name, dtype in [("half", torch.float16), ("bfloat", torch.bfloat16)]:
        model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5), nn.Softmax(-1)).to(dtype)
        write(f"mlp_{name}", model, {"x": torch.randn(3, 8).to(dtype)})


def attention() -> None:
    """Attention that the fused kernel covers, and products large enough for a kernel."""
    q, k, v = torch.randn(1, 4, 9, 32), torch.randn(1, 2, 11, 32), torch.randn(1, 2, 11, 32)
    keep = torch.rand(1, 1, 1, 11) < 0.7
    keep[..., 0] = True
    sdpa = F.scaled_dot_product_attention
    wide = lambda t: t.repeat_interleave(2, 1)  # noqa: E731
    write("attention", Call(lambda q, k, v, keep, bias: (
        sdpa(q, wide(k), wide(v)), sdpa(q, wide(k), wide(v), keep), sdpa(q, wide(k), wide(v), bias, scale=0.3),
        sdpa(q, wide(k), wide(v), is_causal=True), sdpa(q.half(), wide(k).half(), wide(v).half()))),
        {"q": q, "k": k, "v": v, "keep": keep, "bias": torch.randn(9, 11)})
    write("products", Call(lambda x, y, z: (x @ y, y @ x[0], z @ y, (x.half() @ y.half()).float())),
          {"x": torch.randn(2, 33, 40), "y": torch.randn(40, 33), "z": torch.randn(1, 1, 3, 40)})


class Compressed(nn.Module):
    """Weights as tables, with block-wise scales, and sparse."""

    def __init__(self) -> None:
        super().__init__()
        from coreai_torch._compression import custom_layers as layers

        self.weights = nn.ModuleList([
            layers.PalettizeModule(torch.randint(0, n, (8, 12), dtype=torch.uint8), torch.randn(groups, 1, n, 1))
            for n, groups in [(2, 1), (4, 2), (16, 4), (64, 1), (256, 1)]])
        self.weights.append(layers.PalettizeModule(torch.randint(0, 16, (4, 12), dtype=torch.uint8),
                                                   torch.randn(2, 1, 16, 2), 0))
        data = torch.randint(-8, 8, (8, 12), dtype=torch.int8)
        scale = torch.rand(8, 3) + 0.5
        self.weights += [layers.WeightDequantizeModule(data, scale, input_dtype=torch.int8),
                         layers.WeightDequantizeModule(data, scale, zero_point=torch.randint(-4, 4, (8, 3), dtype=torch.int8),
                                                       input_dtype=torch.int8),
                         layers.WeightDequantizeModule(data, scale, minval=torch.randn(8, 3), input_dtype=torch.int8),
                         layers.WeightDequantizeModule(torch.randn(8, 12).to(torch.float8_e4m3fn), scale)]
        mask = torch.rand(8, 12) < 0.4
        self.weights.append(layers.SparseModule(torch.randn(int(mask.sum())), mask))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x @ weight().t() for weight in self.weights)


def compressed() -> None:
    write("compressed", Compressed(), {"x": torch.randn(2, 12)})


class Branches(nn.Module):
    """A data-dependent branch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2 + 1, lambda x: x.sin() - 3, (x,))


def control() -> None:
    write("branches", Branches(), {"x": torch.ones(3, 2)}, [{"x": -torch.ones(3, 2)}])


class Loop(nn.Module):
    """A loop whose length depends on its data: doubles until the sum passes a bound."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,))[0]


def loop() -> None:
    write("loop", Loop(), {"x": torch.ones(2, 3)}, [{"x": torch.full((2, 3), 40.0)}])


class Cache(nn.Module):
    """A buffer that each call updates."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


def state() -> None:
    write("cache", Cache(), {"x": torch.arange(4.0)})


def main() -> None:
    global FOLDER
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="crates/coreai/tests/assets", type=pathlib.Path)
    parser.add_argument("--only", help="make only the assets of this function")
    options = parser.parse_args()
    FOLDER = options.folder.resolve()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for make in [linear_norm_gelu, encoder, decoder, families, attention, compressed, control, loop, state]:
        if options.only in (None, make.__name__):
            torch.manual_seed(2026)
            make()


if __name__ == "__main__":
    main()
