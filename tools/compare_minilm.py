"""Compares the embeddings of `anymetal run` with PyTorch's.

    python tools/compare_minilm.py --anymetal PATH --model FOLDER --reference FOLDER

FOLDER of --model      what tools/export_minilm.py wrote
FOLDER of --reference  what tools/minilm_reference.py wrote

Checks, with exit code 1 and a line that says what failed:
- each of the 50 sentences alone: cosine with PyTorch's embedding >= 0.9999;
- the same in padded batches of 16;
- all 1225 pairs of sentences ranked by similarity as PyTorch ranks them (pairs whose similarities differ by less than
  1e-5 may change places).
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

COSINE, TIE = 0.9999, 1e-5


def embed(arguments: argparse.Namespace, sentences: pathlib.Path, batch: int, folder: str) -> np.ndarray:
    """Embeddings of the sentences by `anymetal run`, [count, 384]."""
    subprocess.run(
        [arguments.anymetal, "run", arguments.model / "minilm.aimodel", "--tokenizer", arguments.model / "tokenizer.json",
         "--input", f"ids=@{sentences}", "--batch", str(batch), "--output", folder],
        check=True, stdout=subprocess.DEVNULL,
    )
    return np.load(pathlib.Path(folder) / "embedding.npy")


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def ranking_error(embeddings: np.ndarray, pairs: np.ndarray) -> float:
    """How far the similarities are from descending along the given order of pairs."""
    unit = embeddings.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    similarity = (unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(1)
    return float(np.max(similarity[1:] - np.minimum.accumulate(similarity)[:-1], initial=0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anymetal", required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--reference", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    reference = arguments.reference
    pairs = np.load(reference / "pairs.npy")
    failures = []
    for batch, name in ((1, "single"), (16, "batches")):
        with tempfile.TemporaryDirectory() as folder:
            ours = embed(arguments, reference / "sentences.txt", batch, folder)
        theirs = np.load(reference / f"{name}.npy")
        worst = cosines(ours, theirs).min()
        ranking = ranking_error(ours, pairs)
        print(f"   {name}: lowest cosine {worst:.7f}, largest step against PyTorch's ranking {ranking:.1e}")
        if not worst >= COSINE:
            failures.append(f"{name}: lowest cosine {worst} is below {COSINE}")
        if ranking > TIE:
            failures.append(f"{name}: the ranking of pairs differs by {ranking}")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
