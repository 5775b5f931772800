"""Keeping secrets out of cassettes. Floor 5."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import SecretStr

from ..catalog.providers import PROVIDERS
from ..wire.redaction import redact

__all__ = ["REDACTED", "Redaction", "Redactor", "is_secret_setting"]

Redaction: TypeAlias = str | Callable[[str], str]
"""A text that must not be written, or a function from a text to the text without what must not be."""

REDACTED = "[redacted]"

_MIN_SECRET_CHARACTERS = 8  # a key is never shorter, and a shorter word may stand in any prompt
_SECRET_NAME = re.compile(
    r"(^|[_-])(api[_-]?key|authorization|password|secret|(auth|access)[_-]token)$", re.I
)


class Redactor:
    """Replaces secrets in whatever JSON can hold.

    Secrets are the keys in the environment variables of all providers, the keys and headers of the settings
    it has met, what looks like a key, and what the user names.

    Args:
        redactions: What the user names.
    """

    def __init__(self, redactions: Iterable[Redaction] = ()) -> None:
        given = tuple(redactions)
        self._functions = [each for each in given if not isinstance(each, str)]
        self._named = [each for each in given if isinstance(each, str) and each]
        self._secrets: set[str] = set()
        for facts in PROVIDERS.values():
            self._add(os.environ.get(variable, "") for variable in facts.key_variables)

    def learn(self, settings: Mapping[str, Any]) -> None:
        """Take the secrets of a request's settings for secrets from now on.

        Args:
            settings: All settings of the request.
        """
        self._add([_text_of(settings.get("api_key"))])
        headers: object = settings.get("extra_headers")
        if isinstance(headers, Mapping):
            for value in cast("Mapping[str, object]", headers).values():
                text = _text_of(value)
                self._add([text, text.rpartition(" ")[2]])
        base_url = urlsplit(_text_of(settings.get("base_url")))
        self._add([base_url.password or ""])
        self._add(value for name, value in parse_qsl(base_url.query) if is_secret_setting(name))

    def redact(self, value: Any) -> Any:
        """The value with every text in it redacted, names of fields included.

        Args:
            value: A text, a list, a dictionary, or what stands in them.
        """
        return _change_texts(value, self._redact_text)

    def redact_secrets(self, value: Any) -> Any:
        """The same without the user's functions, for what went through them before.

        Args:
            value: A text, a list, a dictionary, or what stands in them.
        """
        return _change_texts(value, self._redact_secrets)

    def _redact_text(self, text: str) -> str:
        for function in self._functions:
            text = function(text)
        for secret in self._named:
            text = text.replace(secret, REDACTED)
        return self._redact_secrets(text)

    def _redact_secrets(self, text: str) -> str:
        return _encodable(redact(text, tuple(self._secrets)))

    def _add(self, secrets: Iterable[str]) -> None:
        stripped = (secret.strip() for secret in secrets)
        self._secrets.update(secret for secret in stripped if len(secret) >= _MIN_SECRET_CHARACTERS)


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {change(name): _change_texts(each, change) for name, each in items}
    if isinstance(value, list | tuple):
        return [_change_texts(each, change) for each in cast("list[Any] | tuple[Any, ...]", value)]
    return value


def is_secret_setting(name: str) -> bool:
    """Whether the name of a setting says that its value is a secret.

    Args:
        name: The name.
    """
    return _SECRET_NAME.search(name) is not None


def _encodable(text: str) -> str:
    """The text without halves of characters, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _text_of(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return value if isinstance(value, str) else ""
