"""Keeping secrets out of cassettes.

Which names say that their value is a secret, `wire.redaction` knows, as for errors and logs. A cassette takes
for secrets only what such a name says: whatever else it replaced would change what a replay does.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeAlias, cast
from urllib.parse import unquote_plus

from pydantic import BaseModel, SecretStr

from ..catalog.providers import PROVIDERS
from ..wire.redaction import credential_forms, find_secrets, is_secret_name, redact


def encoded(value: object) -> bytes:
    """The one JSON text of what JSON can hold.

    Args:
        value: Texts, numbers, lists and dictionaries.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def plain(value: object) -> Any:
    """The value as text, numbers, lists and dictionaries.

    Args:
        value: Anything that a request or a response may hold.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": short_hash(value)}
    if isinstance(value, BaseModel):
        return plain(value.model_dump(exclude_unset=True))
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in cast("Mapping[object, object]", value).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable):
        return [plain(each) for each in cast("Iterable[object]", value)]
    return str(value)


def short_hash(content: bytes) -> str:
    """A digest that is long enough to tell contents apart, and short enough to be read.

    Args:
        content: Any bytes.
    """
    return hashlib.sha256(content).hexdigest()[:16]


Redaction: TypeAlias = str | Callable[[str], str]
"""A text that must not be written, or a function from a text to the text without what must not be."""

REDACTED = "[redacted]"

_MIN_SECRET_CHARACTERS = 8  # a key is never shorter, and a shorter word may stand in any prompt
_MIN_UNNAMED_SECRET_CHARACTERS = 16  # longer than dates and words, shorter than signatures
_QUERY_FIELD = re.compile(r"(?P<name>[?&][^=&#\s]+)=(?P<value>[^&#\s]+)")
_PASSWORD = re.compile(r"(?P<before>://[^/?#\s:@]*):[^/?#\s@]+(?=@)")


class Redactor:
    """Replaces secrets in whatever JSON can hold.

    Secrets are what the settings it has met hold under names of secrets, what the environment variables of
    all providers bring to their endpoints, what looks like a key, and what the user names.

    Args:
        redactions: The names that the user gives.
    """

    def __init__(self, redactions: Iterable[Redaction] = ()) -> None:
        given = tuple(redactions)
        self._functions = [each for each in given if not isinstance(each, str)]
        self._named = [each for each in given if isinstance(each, str) and each]
        self._secrets: set[str] = set()
        self._add(_secrets_of_environment())

    def learn(self, settings: Mapping[str, Any]) -> None:
        """Take the secrets of a request's settings, and of its environment, for secrets from now on.

        Args:
            settings: All settings of the request.
        """
        self._add(find_secrets({name: _spelled_out(value) for name, value in settings.items()}))
        self._add(_secrets_of_base_url(settings.get("base_url")))
        self._add(_secrets_of_environment())

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
        forms = (form for secret in secrets for part in _parts(secret) for form in credential_forms(part))
        self._secrets.update(form for form in forms if len(form) >= _MIN_SECRET_CHARACTERS)


def hide_secrets(value: Any, *, is_secret: bool = False) -> Any:
    """The value with `[redacted]` in place of the secrets that its names, and the URLs in it, tell of.

    Args:
        value: A value that JSON can hold.
        is_secret: Whether the value itself stands under a secret name.
    """
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: hide_secrets(each, is_secret=_names_secret(name, is_secret)) for name, each in items}
    if isinstance(value, list):
        return [hide_secrets(each, is_secret=is_secret) for each in cast("list[Any]", value)]
    if value is None or isinstance(value, bool):
        return value
    if is_secret:
        return REDACTED
    return _without_credentials(value) if isinstance(value, str) and "://" in value else value


def _names_secret(name: str, is_inside_secret: bool) -> bool:
    """Whether `find_secrets` takes a text of that name for a secret."""
    return any(find_secrets({name: "text"}, is_secret=is_inside_secret))


def _without_credentials(url: str) -> str:
    def hide(match: re.Match[str]) -> str:
        is_secret = is_secret_name(unquote_plus(match["name"]))
        return f"{match['name']}={REDACTED if is_secret else match['value']}"

    return _QUERY_FIELD.sub(hide, _PASSWORD.sub(rf"\g<before>:{REDACTED}", url))


def _parts(secret: str) -> Iterator[str]:
    """A secret, and the values in it when it is a list of cookies."""
    yield secret.strip()
    for cookie in secret.split(";"):
        yield cookie.partition("=")[2].strip()


def _secrets_of_environment() -> Iterator[str]:
    """The secrets that environment variables bring to the endpoints of all providers."""
    for facts in PROVIDERS.values():
        for variable in facts.key_variables:
            yield os.environ.get(variable, "")
        headers = {name: os.environ.get(variable, "") for name, variable in facts.header_variables.items()}
        yield from find_secrets(headers)
        yield from _secrets_of_base_url(os.environ.get(facts.base_url_variable))


def _secrets_of_base_url(url: object) -> Iterator[str]:
    """The secrets of a base URL: what its names tell of, and long values of any name, such as `sig`."""
    if not isinstance(url, str):
        return
    yield from find_secrets(url)
    for match in _QUERY_FIELD.finditer(url):
        if len(match["value"]) >= _MIN_UNNAMED_SECRET_CHARACTERS:
            yield match["value"]
            yield unquote_plus(match["value"])


def _spelled_out(value: object) -> Any:
    """A setting as JSON, texts that hide themselves included."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {
            str(name): _spelled_out(each) for name, each in cast("Mapping[object, object]", value).items()
        }
    return plain(value)


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {change(name): _change_texts(each, change) for name, each in items}
    if isinstance(value, list | tuple):
        return [_change_texts(each, change) for each in cast("list[Any] | tuple[Any, ...]", value)]
    return value


def _encodable(text: str) -> str:
    """The text without halves of characters, which no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
