"""Open models behind servers compatible with Chat Completions. Data only.

Who serves them decides what they can do: whether tools are parsed, whether a schema is kept to, how long the
context is, what a token costs. So a row says no more than what the name of a model promises wherever it is
served, and everything else stays as it is for models of which nothing is known.
"""

from ..types.model import ModelCapabilities
from .model_facts import ModelFacts

__all__ = ["OPEN_MODELS"]

_SEES = ModelCapabilities(images=True)


def _open(name: str, capabilities: ModelCapabilities, source: str) -> ModelFacts:
    return ModelFacts(
        pattern=f"openai-chat:{name}", capabilities=capabilities, source=f"{source}; read on 2026-11-21"
    )


OPEN_MODELS: tuple[ModelFacts, ...] = (
    _open(
        "*gpt-oss*",
        ModelCapabilities(reasoning=True, context_window=131_072),
        "the model card of gpt-oss (three reasoning efforts, 131,072 tokens)",
    ),
    _open("*[Qq]wen*[Vv][Ll]*", _SEES, "the model cards of Qwen2-VL, Qwen2.5-VL and Qwen3-VL"),
    _open("*[Ll]lama-3.2-*[Vv]ision*", _SEES, "the model card of Llama 3.2 Vision"),
    _open("*[Pp]ixtral*", _SEES, "the model card of Pixtral"),
    _open("*[Ll]lava*", _SEES, "the model card of LLaVA"),
)
"""The families, first match first."""
