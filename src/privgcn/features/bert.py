"""Texts through a transformer in batches, so that no text moves a bit of another's vector.

Of a text with token codes t_1 .. t_n and last layer H [n, width], the vector is mean_i H_i.

The forward pass of BERT is written out here: importing ``transformers`` takes longer than
encoding a hundred texts, and PyTorch's own encoder layer gives a text other bits from call to
call. Where the processor or the GPU multiplies bfloat16 numbers by itself, that is what the
layers are computed in: three times as fast, and the cosine between a vector and that of
float32 is above 0.999.
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


def wider() -> int:
    """How many times as many texts as on a CPU fill batches of this device."""
    return 1 if kernel()[0] == "cpu" else 8


def encoded(
    tokens: Codes, forward: Forward, *, width: int, longest: int, pad: int = 0
) -> npt.NDArray[np.float32]:
    """One vector for each text.

    Args:
        tokens: The token codes of each text.
        forward: A model on the device of ``kernel``: codes and a mask to its last layer.
        width: Of the last layer.
        longest: Most tokens of a text.
        pad: The code that fills a row up.

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
    """The length of a row of so many tokens: an eighth longer at most, where it is long."""
    step = max(_LEAST_STEP, (1 << max(0, length - 1).bit_length()) // 8)
    return max(1, -(-length // step)) * step


class Bert:
    """BERT without dropout (Devlin et al., 2019): token codes to the last layer."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        import torch

        device, number = kernel()
        dtype = getattr(torch, number)
        self._weights = {name: own.to(device, dtype) for name, own in weights.items()}
        self.width = weights["embeddings.position_embeddings.weight"].shape[1]
        self._layers = 1 + max(
            int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")
        )
        for layer in range(self._layers):
            own = f"encoder.layer.{layer}.attention.self"
            for kind in ("weight", "bias"):  # one product instead of three
                three = (f"{own}.{name}.{kind}" for name in ("query", "key", "value"))
                self._weights[f"{own}.{kind}"] = torch.cat([*map(self._weights.pop, three)])

    def __call__(self, codes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The last layer, (texts, tokens, width), of codes where ``mask`` is true."""
        from torch.nn import functional

        texts, tokens = codes.shape
        word, position, kind = (
            self._weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        hidden = self._norm("embeddings", word[codes] + position[:tokens] + kind[0])
        for layer in range(self._layers):
            own = f"encoder.layer.{layer}"
            three = self._linear(f"{own}.attention.self", hidden)
            query, key, value = three.view(texts, tokens, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask[:, None, None, :]
            )
            mixed = mixed.transpose(1, 2).reshape(texts, tokens, self.width)
            mixed = self._linear(f"{own}.attention.output.dense", mixed)
            hidden = self._norm(f"{own}.attention.output", hidden + mixed)
            wide = functional.gelu(self._linear(f"{own}.intermediate.dense", hidden))
            narrow = self._linear(f"{own}.output.dense", wide)
            hidden = self._norm(f"{own}.output", hidden + narrow)
        return hidden

    def _linear(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        return functional.linear(rows, *self._pair(name))

    def _norm(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        weight, bias = self._pair(f"{name}.LayerNorm")
        return functional.layer_norm(rows, (self.width,), weight, bias, _EPSILON)

    def _pair(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
