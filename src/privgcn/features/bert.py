"""Texts through a transformer in batches, so that no text moves a bit of another's vector.

Of a text with token codes t_1 .. t_n and last layer H [n, width], the vector is mean_i H_i.

The forward pass of BERT is written out here: importing ``transformers`` takes longer than
encoding a hundred texts, and PyTorch's own encoder layer gives a text other bits from call to
call. Layers are computed in bfloat16 where the device has it: three times as fast, and the
cosine between a vector and that of float32 is above 0.999.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Codes = list[list[int]]
Forward = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]

# Tokens in a batch. More are a little faster, but waste more in a length's last batch.
_BATCH_CPU = 256
_BATCH_GPU = 16_384
_LEAST_STEP = 4
_HEADS = 12
_EPSILON = 1e-12


@cache
def kernel() -> tuple[str, str]:
    """The device that encodes and the type of number it computes in."""
    import torch

    if torch.cuda.is_available():
        return "cuda", "bfloat16" if torch.cuda.is_bf16_supported() else "float32"
    fast = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return "cpu", "bfloat16" if fast else "float32"


def encoded(
    tokens: Codes, forward: Forward, *, width: int, longest: int, pad: int = 0
) -> npt.NDArray[np.float32]:
    """One vector for each text, given the codes of its at most ``longest`` tokens.

    ``forward`` takes codes, filled up by ``pad``, and a mask to a last layer of this ``width``.

    Guarantees:
        A text's vector has the same bits whatever other texts there are. Matrix products
        round a row by the shape of its batch, so all batches of a length have one shape,
        and a text's own length alone says which that is.
    """
    import torch

    lengths = np.array([min(_padded(len(row)), longest) for row in tokens], dtype=int)
    out = np.empty((len(tokens), width), dtype=np.float32)
    budget = _BATCH_CPU if kernel()[0] == "cpu" else _BATCH_GPU
    with torch.inference_mode():
        for length in np.unique(lengths)[::-1].tolist():
            size = max(1, budget // length)
            order = np.flatnonzero(lengths == length)
            for start in range(0, len(order), size):
                rows = order[start : start + size]
                batch = [tokens[row] for row in rows]
                means = mean_layer(batch, (size, length), forward, pad)
                out[rows] = means[: len(rows)].cpu().numpy()
    return out


def mean_layer(
    tokens: Codes, shape: tuple[int, int], forward: Forward, pad: int
) -> torch.Tensor:
    """The mean of the last layer over the tokens of each text of a batch of this shape."""
    import torch

    codes = torch.full(shape, pad, dtype=torch.long)
    mask = torch.zeros(shape, dtype=torch.bool)
    for row, own in enumerate(tokens):
        codes[row, : len(own)] = torch.tensor(own, dtype=torch.long)
        mask[row, : len(own)] = True
    # Rows that fill up the batch have one token: attention to none is no number.
    mask[~mask.any(dim=1), 0] = True
    device = kernel()[0]
    hidden = forward(codes.to(device), mask.to(device)).float()
    weight = mask.unsqueeze(-1).to(hidden)
    return (hidden * weight).sum(dim=1) / weight.sum(dim=1)


def _padded(length: int) -> int:
    # An eighth longer at most, where a row is long.
    step = max(_LEAST_STEP, (1 << max(0, length - 1).bit_length()) // 8)
    return max(1, -(-length // step)) * step


def forward_pass(weights: dict[str, torch.Tensor]) -> Forward:
    """BERT without dropout (Devlin et al., 2019): codes and their mask to the last layer."""
    import torch
    from torch.nn import functional

    device, number = kernel()
    table = {name: own.to(device, getattr(torch, number)) for name, own in weights.items()}
    word, position, kind = (
        table[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    )
    numbers = [int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")]
    layers = [f"encoder.layer.{number}" for number in range(1 + max(numbers))]
    for layer in layers:
        own = f"{layer}.attention.self"
        for part in ("weight", "bias"):  # one product instead of three
            three = (table.pop(f"{own}.{name}.{part}") for name in ("query", "key", "value"))
            table[f"{own}.{part}"] = torch.cat([*three])

    def linear(name: str, rows: torch.Tensor) -> torch.Tensor:
        return functional.linear(rows, table[f"{name}.weight"], table[f"{name}.bias"])

    def norm(name: str, rows: torch.Tensor) -> torch.Tensor:
        scale, shift = (table[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(rows, scale.shape, scale, shift, _EPSILON)

    def forward(codes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        texts, tokens = codes.shape
        hidden = norm("embeddings", word[codes] + position[:tokens] + kind[0])
        for layer in layers:
            three = linear(f"{layer}.attention.self", hidden)
            query, key, value = three.view(texts, tokens, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask[:, None, None, :]
            )
            mixed = mixed.transpose(1, 2).reshape(texts, tokens, -1)
            mixed = linear(f"{layer}.attention.output.dense", mixed)
            hidden = norm(f"{layer}.attention.output", hidden + mixed)
            wide = functional.gelu(linear(f"{layer}.intermediate.dense", hidden))
            hidden = norm(f"{layer}.output", hidden + linear(f"{layer}.output.dense", wide))
        return hidden

    return forward
