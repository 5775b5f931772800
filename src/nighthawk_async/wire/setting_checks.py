"""Checks the settings that a protocol knows, and gives the rest through. Floor 1."""

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from ..errors import ConfigurationError
from .transport_settings import TRANSPORT_SETTINGS

__all__ = ["checked_settings", "refuse_reserved_settings", "refuse_settings"]

_OPEN = ConfigDict(extra="allow", hide_input_in_errors=True)


def checked_settings(settings: Mapping[str, Any], form: type[Any]) -> dict[str, Any]:
    """The settings that concern a request's body, those that are None left out.

    Settings that the form does not name come through as they are.

    Args:
        settings: All settings of a request.
        form: The typed dictionary of the protocol, of `types.settings`.

    Raises:
        ConfigurationError: A setting has a bad value; the message names it and does not show the value.
    """
    relevant = {
        name: value
        for name, value in settings.items()
        if name not in TRANSPORT_SETTINGS and value is not None
    }
    if not relevant:
        return {}
    try:
        checked = _adapter(form).validate_python(relevant)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))!r}: {each['msg']}" for each in error.errors()]
        raise ConfigurationError(f"Bad model setting {'; '.join(faults)}.") from None
    return cast("dict[str, Any]", checked)


def refuse_settings(settings: Mapping[str, Any], names: frozenset[str], *, protocol: str) -> None:
    """Refuse settings that a protocol has no word for.

    Args:
        settings: Settings of a request.
        names: The settings that the protocol lacks.
        protocol: What to call the protocol.

    Raises:
        ConfigurationError: One of them is set.
    """
    for name in sorted(names):
        if settings.get(name) is not None:
            raise ConfigurationError(
                f"The {protocol} protocol has no setting {name!r}; leave it out, or pass what the endpoint "
                "understands in its place through extra_body."
            )


def refuse_reserved_settings(settings: Mapping[str, Any], names: frozenset[str]) -> None:
    """Refuse settings whose names belong to parts of the body that only the library writes.

    Args:
        settings: Settings of a request.
        names: The names of those parts.

    Raises:
        ConfigurationError: One of them is there.
    """
    for name in sorted(names & settings.keys()):
        raise ConfigurationError(
            f"Model setting {name!r} is written by the library; leave it out, or give it through extra_body."
        )


@cache
def _adapter(form: type[Any]) -> TypeAdapter[Any]:
    """The checker of a form, which takes milliseconds to build."""
    return TypeAdapter(with_config(_OPEN)(form))
