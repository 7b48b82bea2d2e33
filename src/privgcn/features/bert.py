"""Texts through a transformer in batches, so that no text moves a bit of another's vector.

Of a text with token codes t_1 .. t_n and last layer H [n, width], the vector is mean_i H_i.

The forward pass of BERT is written out here: importing ``transformers`` takes longer than
encoding a hundred texts. Where the processor or the GPU multiplies bfloat16 numbers by itself,
that is what the layers are computed in: three times as fast, and the cosine between a vector
and that of float32 is above 0.999.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from privgcn.features.base import Ready

if TYPE_CHECKING:
    import torch

Codes = list[list[int]]
Forward = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]

# Tokens in a batch: more leave the processor's cache, and of the last batch more are wasted.
_BATCH_CPU = 1024
_BATCH_GPU = 16_384
_LEAST_STEP = 8
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


class Encoder:
    """Runs a model over texts in batches, on the GPU where there is one.

    Args:
        tokenize: Texts to token codes, none longer than ``longest``.
        load: Makes the model on a device: codes and a mask to its last layer.
        width: Of the last layer.
        longest: Most tokens of a text.
        pad: The code that fills a row up.
    """

    def __init__(
        self,
        tokenize: Callable[[list[str]], Codes],
        load: Callable[[torch.device], Forward],
        *,
        width: int,
        longest: int,
        pad: int = 0,
    ) -> None:
        import torch

        self._device = torch.device(kernel()[0])
        self._tokenize, self._forward = tokenize, load(self._device)
        self._width, self._longest, self._pad = width, longest, pad

    def encode(self, texts: list[str], ready: Ready) -> npt.NDArray[np.float32]:
        """One vector for each text.

        Guarantees:
            A text's vector has the same bits whatever other texts there are. Matrix products
            round a row by the shape of its batch, so all batches of a length have one shape,
            and a text's own length alone says which that is.
        """
        import torch

        tokens = self._tokenize(texts)
        lengths = np.array([min(_padded(len(row)), self._longest) for row in tokens], dtype=int)
        out = np.empty((len(texts), self._width), dtype=np.float32)
        budget = _BATCH_CPU if self._device.type == "cpu" else _BATCH_GPU
        with torch.inference_mode():
            for length in np.unique(lengths)[::-1].tolist():
                size = max(1, budget // length)
                order = np.flatnonzero(lengths == length)
                for start in range(0, len(order), size):
                    rows = order[start : start + size]
                    batch = [tokens[row] for row in rows]
                    out[rows] = self._mean(batch, (size, length))[: len(rows)].cpu().numpy()
                    ready(len(rows))
        return out

    def _mean(self, tokens: Codes, shape: tuple[int, int]) -> torch.Tensor:
        import torch

        codes = torch.full(shape, self._pad, dtype=torch.long)
        mask = torch.zeros(shape, dtype=torch.bool)
        for row, own in enumerate(tokens):
            codes[row, : len(own)] = torch.tensor(own, dtype=torch.long)
            mask[row, : len(own)] = True
        # Rows that fill up the batch have one token: attention to none is no number.
        mask[~mask.any(dim=1), 0] = True
        codes, mask = codes.to(self._device), mask.to(self._device)
        hidden = self._forward(codes, mask).float()
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        mean: torch.Tensor = (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        return mean


def _padded(length: int) -> int:
    """The length of a row of so many tokens: an eighth longer at most, where it is long."""
    step = max(_LEAST_STEP, (1 << max(0, length - 1).bit_length()) // 8)
    return max(1, -(-length // step)) * step


class Bert:
    """BERT without dropout (Devlin et al., 2019): token codes to the last layer.

    Args:
        weights: Tensors under the names that Hugging Face gives them.
        device: Where to compute.
    """

    def __init__(self, weights: dict[str, torch.Tensor], device: torch.device) -> None:
        import torch

        number = getattr(torch, kernel()[1])
        self._weights = {name: own.to(device, number) for name, own in weights.items()}
        self.width = weights["embeddings.position_embeddings.weight"].shape[1]
        self._layers = 1 + max(
            int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")
        )
        for layer in range(self._layers):
            # One product instead of three.
            own = f"encoder.layer.{layer}.attention.self"
            for kind in ("weight", "bias"):
                three = [
                    self._weights.pop(f"{own}.{n}.{kind}") for n in ("query", "key", "value")
                ]
                self._weights[f"{own}.{kind}"] = torch.cat(three)

    def __call__(self, codes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The last layer, (texts, tokens, width), of codes where ``mask`` is true."""
        from torch.nn import functional

        texts, tokens = codes.shape
        word, position, kind = (
            self._weights[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        hidden = self._norm("embeddings.", word[codes] + position[:tokens] + kind[0])
        for layer in range(self._layers):
            own = f"encoder.layer.{layer}."
            three = self._linear(f"{own}attention.self", hidden)
            query, key, value = three.view(texts, tokens, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask[:, None, None, :]
            )
            mixed = mixed.transpose(1, 2).reshape(texts, tokens, self.width)
            mixed = self._linear(f"{own}attention.output.dense", mixed)
            hidden = self._norm(f"{own}attention.output.", hidden + mixed)
            wide = functional.gelu(self._linear(f"{own}intermediate.dense", hidden))
            narrow = self._linear(f"{own}output.dense", wide)
            hidden = self._norm(f"{own}output.", hidden + narrow)
        return hidden

    def _linear(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        return functional.linear(
            rows, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        )

    def _norm(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        weight, bias = (self._weights[f"{name}LayerNorm.{kind}"] for kind in ("weight", "bias"))
        return functional.layer_norm(rows, (self.width,), weight, bias, _EPSILON)
