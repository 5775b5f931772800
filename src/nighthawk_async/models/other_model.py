"""A model beside that of a step, such as the one that summarises its older turns."""

from collections.abc import Mapping
from typing import Any

from ..configuration import parse_model_id
from ..ports import Model

_SETTINGS_OF_ONE_MODEL = ("capabilities", "max_tokens")


def other_model(
    model_id: str | None, model: Model, settings: Mapping[str, Any]
) -> tuple[Model, Mapping[str, Any]]:
    """Return another model, and the settings of its requests; keys stay with their provider.

    Args:
        model_id: The id of the other model; None for the model of the step.
        model: The model of the step.
        settings: The settings of the step's requests.

    Raises:
        ConfigurationError: The model cannot be had.
    """
    if model_id is None or model_id == model.name:
        return model, settings
    from .providers import create_model  # here, because most steps ask one model

    is_same_provider = parse_model_id(model_id).provider == model.name.partition(":")[0]
    own = {name: value for name, value in settings.items() if name not in _SETTINGS_OF_ONE_MODEL}
    own = own if is_same_provider else {}
    return create_model(model_id, settings=own), own
