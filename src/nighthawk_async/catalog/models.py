"""Facts about the models of all providers: what they can do and what their endpoint calls things.

Models that run on this machine have their own table, `catalog.local`. Users correct a row by the model
setting `capabilities`.
"""

import re
from fnmatch import fnmatchcase

from ..types.model import ModelCapabilities
from .model_facts import ModelFacts
from .models_anthropic import ANTHROPIC_MODELS
from .models_google import GOOGLE_MODELS
from .models_open import OPEN_MODELS
from .models_openai import OPENAI_MODELS

__all__ = ["MODELS", "UNKNOWN_MODEL", "ModelFacts", "find_model_facts"]

MODELS: tuple[ModelFacts, ...] = (*OPENAI_MODELS, *ANTHROPIC_MODELS, *GOOGLE_MODELS, *OPEN_MODELS)
"""The families, first match first."""

UNKNOWN_MODEL = ModelFacts(pattern="*", capabilities=ModelCapabilities())
"""What is assumed of a model that no row covers."""

_WILDCARD = re.compile(r"[*?[]")


def find_model_facts(model_id: str) -> ModelFacts:
    """The row that covers a model; `UNKNOWN_MODEL` when none does.

    Args:
        model_id: The model, `provider:name`.
    """
    return next((facts for facts in MODELS if _covers(facts.pattern, model_id)), UNKNOWN_MODEL)


def _covers(pattern: str, model_id: str) -> bool:
    """Whether a pattern covers a model. Compiling the patterns of all models would take 8 ms."""
    return model_id.startswith(_WILDCARD.split(pattern, maxsplit=1)[0]) and fnmatchcase(model_id, pattern)
