"""Model settings on the command line. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from ..errors import ConfigurationError

__all__ = ["parse_settings"]


def parse_settings(texts: Sequence[str], *, base_url: str | None = None) -> dict[str, Any]:
    """The settings that options give.

    Args:
        texts: Each `NAME=VALUE`, the value as JSON; what is no JSON is a text.
        base_url: The value of the setting `base_url`, when an option of its own gives it.

    Raises:
        ConfigurationError: A text has no name or no `=`. The message does not show the value.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise ConfigurationError("A model setting is given as NAME=VALUE, for example temperature=0.2.")
        settings[name.strip()] = _parse_value(value)
    return settings if base_url is None else {**settings, "base_url": base_url}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
