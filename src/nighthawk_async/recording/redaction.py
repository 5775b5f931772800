"""Redaction of secrets in cassettes.

The names of secrets are those of `wire.redaction`, as for errors and logs. A cassette treats only values with
such names as secrets: any other replacement would change the behaviour of a replay.
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
from ..types.json import is_json_list, is_json_object, is_list_or_tuple, is_mapping
from ..wire.redaction import credential_forms, find_secrets, is_secret_name, redact


def encoded(value: object) -> bytes:
    """Return the canonical JSON of a value.

    Args:
        value: Texts, numbers, lists and dictionaries.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def plain(value: object) -> Any:
    """Return a value as texts, numbers, lists and dictionaries.

    Args:
        value: Any value in a request or response.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, bytes):
        return {"bytes": len(value), "sha256": short_hash(value)}
    if isinstance(value, BaseModel):
        return plain(value.model_dump(exclude_unset=True))
    if is_mapping(value):
        return {str(name): plain(each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable):
        return [plain(each) for each in cast("Iterable[object]", value)]
    return str(value)


def short_hash(content: bytes) -> str:
    """Return a digest that distinguishes contents and is short enough to read.

    Args:
        content: Any bytes.
    """
    return hashlib.sha256(content).hexdigest()[:16]


Redaction: TypeAlias = str | Callable[[str], str]
"""A text to remove, or a function that returns a text without its secrets."""

REDACTED = "[redacted]"

_MIN_SECRET_CHARACTERS = 8  # keys are never shorter, and a shorter word may occur in any prompt
_MIN_UNNAMED_SECRET_CHARACTERS = 16  # longer than dates and words, shorter than signatures
_QUERY_FIELD = re.compile(r"(?P<name>[?&][^=&#\s]+)=(?P<value>[^&#\s]+)")
_PASSWORD = re.compile(r"(?P<before>://[^/?#\s:@]*):[^/?#\s@]+(?=@)")


class Redactor:
    """Replaces secrets in JSON data.

    Secrets are the values with secret names in the settings that it has learned, the credentials in the
    environment variables of all providers, texts that look like a key, and those of the user's redactions.

    Args:
        redactions: The user's redactions.
    """

    def __init__(self, redactions: Iterable[Redaction] = ()) -> None:
        given = tuple(redactions)
        self._functions = [each for each in given if not isinstance(each, str)]
        self._named = [each for each in given if isinstance(each, str) and each]
        self._secrets: set[str] = set()
        self._credentials: list[Any] = []
        self._add(_secrets_of_environment())

    def learn(self, settings: Mapping[str, Any]) -> None:
        """Add the secrets in a request's settings, and in the present environment variables.

        Args:
            settings: All settings of the request.
        """
        self._add(find_secrets({name: _spelled_out(value) for name, value in settings.items()}))
        self._add(_secrets_of_base_url(settings.get("base_url")))
        self._add(_secrets_of_environment())
        credentials = settings.get("credentials")
        if hasattr(credentials, "known_secrets") and all(
            each is not credentials for each in self._credentials
        ):
            self._credentials.append(credentials)

    def redact(self, value: Any) -> Any:
        """Return a value with every text in it redacted, names of fields included.

        Args:
            value: JSON data.
        """
        return _change_texts(value, self._redact_text)

    def redact_secrets(self, value: Any) -> Any:
        """Return a value without known secrets, for data that the user's redactions have already processed.

        Args:
            value: JSON data.
        """
        return _change_texts(value, self._redact_secrets)

    def _redact_text(self, text: str) -> str:
        for function in self._functions:
            text = function(text)
        for secret in self._named:
            text = text.replace(secret, REDACTED)
        return self._redact_secrets(text)

    def _redact_secrets(self, text: str) -> str:
        for credentials in self._credentials:  # their secrets change
            self._add(credentials.known_secrets())
        return _encodable(redact(text, tuple(self._secrets)))

    def _add(self, secrets: Iterable[str]) -> None:
        forms = (form for secret in secrets for part in _parts(secret) for form in credential_forms(part))
        self._secrets.update(form for form in forms if len(form) >= _MIN_SECRET_CHARACTERS)


def hide_secrets(value: Any, *, is_secret: bool = False) -> Any:
    """Return a value with `[redacted]` in place of values with secret names and credentials in URLs.

    Args:
        value: JSON data.
        is_secret: Whether the value itself has a secret name.
    """
    if is_json_object(value):
        items = value.items()
        return {name: hide_secrets(each, is_secret=_names_secret(name, is_secret)) for name, each in items}
    if is_json_list(value):
        return [hide_secrets(each, is_secret=is_secret) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if is_secret:
        return REDACTED
    return _without_credentials(value) if isinstance(value, str) and "://" in value else value


def _names_secret(name: str, is_inside_secret: bool) -> bool:
    """Whether `find_secrets` treats a text of this name as a secret."""
    return any(find_secrets({name: "text"}, is_secret=is_inside_secret))


def _without_credentials(url: str) -> str:
    def hide(match: re.Match[str]) -> str:
        is_secret = is_secret_name(unquote_plus(match["name"]))
        return f"{match['name']}={REDACTED if is_secret else match['value']}"

    return _QUERY_FIELD.sub(hide, _PASSWORD.sub(rf"\g<before>:{REDACTED}", url))


def _parts(secret: str) -> Iterator[str]:
    """Yield a secret, and the values in it if it is a list of cookies."""
    yield secret.strip()
    for cookie in secret.split(";"):
        yield cookie.partition("=")[2].strip()


def _secrets_of_environment() -> Iterator[str]:
    """Yield the secrets in the environment variables of all providers."""
    for facts in PROVIDERS.values():
        for variable in facts.key_variables:
            yield os.environ.get(variable, "")
        headers = {name: os.environ.get(variable, "") for name, variable in facts.header_variables.items()}
        yield from find_secrets(headers)
        yield from _secrets_of_base_url(os.environ.get(facts.base_url_variable))


def _secrets_of_base_url(url: object) -> Iterator[str]:
    """Yield the secrets in a base URL: values with secret names, and long values of any name, as `sig`."""
    if not isinstance(url, str):
        return
    yield from find_secrets(url)
    for match in _QUERY_FIELD.finditer(url):
        if len(match["value"]) >= _MIN_UNNAMED_SECRET_CHARACTERS:
            yield match["value"]
            yield unquote_plus(match["value"])


def _spelled_out(value: object) -> Any:
    """Return a setting as JSON data, with secrets in plain text."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if hasattr(value, "known_secrets"):  # what it reports, its text is none
        return None
    if is_mapping(value):
        return {str(name): _spelled_out(each) for name, each in value.items()}
    return plain(value)


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if is_json_object(value):
        return {change(name): _change_texts(each, change) for name, each in value.items()}
    if is_list_or_tuple(value):
        return [_change_texts(each, change) for each in value]
    return value


def _encodable(text: str) -> str:
    """Return the text without lone surrogates, which cannot be written to a file."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text
