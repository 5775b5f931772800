"""Facts about the models of all providers: what they can do and what their endpoint calls things. Floor 1.

Models that run on this machine have their own table, `catalog.local`. Users correct a row by the model
setting `capabilities`.
"""

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


def find_model_facts(model_id: str) -> ModelFacts:
    """The row that covers a model; `UNKNOWN_MODEL` when none does.

    Args:
        model_id: The model, `provider:name`.
    """
    return next((facts for facts in MODELS if fnmatchcase(model_id, facts.pattern)), UNKNOWN_MODEL)
