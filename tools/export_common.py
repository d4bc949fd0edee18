"""What every export script shares: reproducible conversion and a check that no local path reaches the asset."""

from __future__ import annotations

import hashlib
import pathlib
import random
import shutil
import warnings

import coreai.authoring.metal
import torch

warnings.filterwarnings("ignore", message="coreai-torch has only been validated")

from coreai_torch import TorchConverter, TorchMetalKernel, get_decomp_table  # noqa: E402


def convert(
    model: torch.nn.Module,
    samples: tuple[torch.Tensor, ...],
    path: pathlib.Path,
    *,
    input_names: list[str],
    output_names: list[str],
    kernels: list[TorchMetalKernel] | None = None,
    dynamic_shapes: dict | None = None,
) -> None:
    """Exports `model` and writes it to `path` (a folder that ends in .aimodel, replaced if it exists)."""
    with torch.no_grad():
        program = torch.export.export(model, samples, dynamic_shapes=dynamic_shapes)
    program = program.run_decompositions(get_decomp_table())
    converter = TorchConverter(mode=TorchConverter.Mode.RELEASE)
    if kernels:
        converter.register_custom_kernels(kernels)
    converter.add_exported_program(program, input_names=input_names, output_names=output_names)
    # The exporter ends a kernel's name in random letters; drawn from a fixed seed, two exports differ less.
    coreai.authoring.metal.choice = random.Random(2026).choice
    converter.to_coreai().save_asset(path)


def check_no_paths(asset: pathlib.Path) -> None:
    """Fails if a file of the asset holds the path of the home folder, this checkout or the working folder."""
    words = [str(pathlib.Path.home()), str(pathlib.Path(__file__).resolve().parent.parent), str(pathlib.Path.cwd())]
    for file in sorted(asset.rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            for word in words:
                if word != "/" and word.encode() in data:
                    raise SystemExit(f"{file}: holds the local path {word}")


def describe(asset: pathlib.Path) -> None:
    """Prints the files of an asset with their sizes and the hash of the graph."""
    for file in sorted(asset.rglob("*")):
        if file.is_file():
            print(f"  {file.relative_to(asset.parent)}  {file.stat().st_size:,} bytes")
    graph = next(asset.rglob("main.mlirb"))
    print(f"  sha256 of {graph.name}: {hashlib.sha256(graph.read_bytes()).hexdigest()}")


def replace(path: pathlib.Path) -> pathlib.Path:
    """Removes an asset that an earlier run left, and makes its parent folder."""
    if path.exists():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
