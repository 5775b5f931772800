"""Facts about model families: what they can do and what their endpoint calls things. Floor 1.

Models that run on this machine have their own table, `catalog.local`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..types.model import ModelCapabilities

__all__ = ["MODELS", "UNKNOWN_MODEL", "ModelFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One family of models.

    Args:
        pattern: The model ids it covers, with `*` for any characters and `?` for one.
        capabilities: What the models can do.
        setting_names: What the endpoint calls a setting that others call by the name on the left.
    """

    pattern: str
    capabilities: ModelCapabilities
    setting_names: Mapping[str, str] = field(default_factory=dict[str, str])


_MULTIMODAL = ModelCapabilities(structured_output=True, images=True, documents=True)

# Reasoning models refuse `max_tokens`, which does not count their reasoning.
_REASONING_NAMES = {"max_tokens": "max_completion_tokens"}


def _openai(name: str, capabilities: ModelCapabilities, **setting_names: str) -> ModelFacts:
    return ModelFacts(pattern=f"openai-*:{name}", capabilities=capabilities, setting_names=setting_names)


MODELS: tuple[ModelFacts, ...] = (
    _openai("gpt-5*", replace(_MULTIMODAL, context_window=400_000), **_REASONING_NAMES),
    _openai("gpt-4.1*", replace(_MULTIMODAL, context_window=1_047_576)),
    _openai("gpt-4o*-audio*", ModelCapabilities(audio=True, context_window=128_000)),
    _openai("gpt-audio*", ModelCapabilities(audio=True, context_window=128_000)),
    _openai("gpt-4o*", replace(_MULTIMODAL, context_window=128_000)),
    _openai("o[134]*", replace(_MULTIMODAL, context_window=200_000), **_REASONING_NAMES),
)
"""The families, first match first."""

UNKNOWN_MODEL = ModelFacts(pattern="*", capabilities=ModelCapabilities())
"""What is assumed of a model that no row covers."""
