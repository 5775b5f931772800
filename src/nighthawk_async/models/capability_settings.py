"""The model setting `capabilities`, which corrects what the catalog says of a model. Floor 4."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..errors import ConfigurationError
from ..types.model import ModelCapabilities

__all__ = ["overridden_capabilities"]


def overridden_capabilities(
    capabilities: ModelCapabilities, overrides: Mapping[str, Any]
) -> ModelCapabilities:
    """What a model can do, as the catalog says and the setting corrects it.

    Args:
        capabilities: What the catalog says.
        overrides: Fields of `ModelCapabilities` and their values.

    Raises:
        ConfigurationError: There is no such field, or the value does not fit it.
    """
    if not overrides:
        return capabilities
    known = {each.name for each in fields(ModelCapabilities)}
    unknown = sorted(overrides.keys() - known)
    if unknown:
        raise ConfigurationError(
            f"No capability of a model is called {unknown[0]!r}; there are {', '.join(sorted(known))}."
        )
    try:
        return TypeAdapter(ModelCapabilities).validate_python({**asdict(capabilities), **overrides})
    except ValidationError as error:
        faults = [f"{each['loc'][0]!r}: {each['msg']}" for each in error.errors()]
        raise ConfigurationError(f"Bad model setting 'capabilities': {'; '.join(faults)}.") from error
