"""PyTorch's embeddings of 50 sentences of 3 to 200 words, to compare `anymetal run` with.

    python tools/minilm_reference.py OUTPUT_FOLDER

writes OUTPUT_FOLDER/sentences.txt       one sentence a line
       OUTPUT_FOLDER/ids.npy             int32 [50, L], token ids of all sentences, padded with 0 to the longest
       OUTPUT_FOLDER/attention_mask.npy  int32 [50, L], 1 for a token
       OUTPUT_FOLDER/single.npy          float32 [50, 384], each sentence embedded alone
       OUTPUT_FOLDER/batches.npy         float32 [50, 384], embedded in padded batches of 16, 16, 16 and 2
       OUTPUT_FOLDER/pairs.npy           int32 [1225, 2], all pairs of sentences, most similar first

The sentences are made from word lists by a fixed recipe; no file but the model is read.
"""

from __future__ import annotations

import argparse
import pathlib
import random

import numpy as np
import torch

import minilm_model

COUNT, BATCH = 50, 16

SUBJECTS = ["the cook", "a nurse", "our neighbour", "the old clockmaker", "a young cellist", "the harbour pilot", "my aunt",
            "the librarian", "a tired student", "the goalkeeper", "an engineer from Lyon", "the beekeeper"]
VERBS = ["repairs", "describes", "forgets", "carries", "paints", "measures", "sells", "admires", "studies", "hides"]
OBJECTS = ["a wooden boat", "the broken radio", "three loaves of bread", "an unfinished letter", "the northern bridge",
           "a jar of honey", "the weather report", "a map of the islands", "her first violin", "the quarterly accounts"]
PLACES = ["in the market", "near the railway station", "on the top floor", "behind the school", "at the hospital",
          "by the river", "in a crowded theatre", "under the lighthouse"]
TIMES = ["before sunrise", "every Tuesday", "during the storm", "in late autumn", "after the match", "at noon", "once a year"]
LINKS = ["while", "because", "although", "and", "until", "so that"]


def sentence(words: int, source: random.Random) -> str:
    """A sentence of exactly `words` words: clauses joined by conjunctions, cut at the end."""
    text: list[str] = []
    while len(text) < words:
        if text:
            text.append(source.choice(LINKS))
        for part in (SUBJECTS, VERBS, OBJECTS, PLACES, TIMES):
            text += source.choice(part).split()
    text = text[:words]
    return text[0].capitalize() + " " + " ".join(text[1:]) + "."


def sentences() -> list[str]:
    """50 sentences; lengths rise from 3 to 200 words, in a fixed shuffled order."""
    source = random.Random(26)
    lengths = [round(3 * (200 / 3) ** (i / (COUNT - 1))) for i in range(COUNT)]
    source.shuffle(lengths)
    return [sentence(n, source) for n in lengths]


def pad(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids padded with 0 to the longest row, and the mask of the real tokens."""
    width = max(map(len, rows))
    ids = np.zeros((len(rows), width), np.int32)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    texts = sentences()
    tokens = [e.ids for e in minilm_model.tokenizer().encode_batch(texts)]
    model = minilm_model.load()

    def embed(rows: list[list[int]]) -> np.ndarray:
        ids, mask = pad(rows)
        with torch.no_grad():
            return model(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()

    single = np.concatenate([embed([row]) for row in tokens])
    batches = np.concatenate([embed(tokens[i : i + BATCH]) for i in range(0, COUNT, BATCH)])
    similarity = single.astype(np.float64) @ single.T.astype(np.float64)
    pairs = sorted(((i, j) for i in range(COUNT) for j in range(i)), key=lambda p: -similarity[p])

    (folder / "sentences.txt").write_text("\n".join(texts) + "\n")
    ids, mask = pad(tokens)
    for name, value in {"ids": ids, "attention_mask": mask, "single": single, "batches": batches,
                        "pairs": np.array(pairs, np.int32)}.items():
        np.save(folder / f"{name}.npy", value)
    print(f"{COUNT} sentences, {min(map(len, tokens))} to {max(map(len, tokens))} tokens; "
          f"single against batches: {np.abs(single - batches).max():.1e}")


if __name__ == "__main__":
    main()
