"""The model that summarises older turns of a step."""

from collections.abc import Mapping
from typing import Any

from ..configuration import Compaction, parse_model_id
from ..ports import Model

_SETTINGS_OF_ONE_MODEL = ("capabilities", "max_tokens")


def summary_model(
    compaction: Compaction, model: Model, settings: Mapping[str, Any]
) -> tuple[Model, Mapping[str, Any]]:
    """Return the model that summarises, and the settings of its request.

    Args:
        compaction: The settings of compaction.
        model: The model of the step.
        settings: The settings of the step's requests.

    Raises:
        ConfigurationError: The model cannot be had.
    """
    model_id = compaction.model
    if model_id is None or model_id == model.name:
        return model, settings
    from .providers import create_model  # here, because most summaries are made by the step's model

    is_same_provider = parse_model_id(model_id).provider == model.name.partition(":")[0]
    own = {name: value for name, value in settings.items() if name not in _SETTINGS_OF_ONE_MODEL}
    own = own if is_same_provider else {}
    return create_model(model_id, settings=own), own
