"""Decodes the JSON that comes from outside, and what all decoders ask of it.

Whatever is decoded here is nested so little that nobody who walks through it afterwards (prompts, recordings,
telemetry, validators) comes near the recursion limit of Python.
"""

import re
from itertools import accumulate
from typing import Any, cast

import msgspec

from ..errors import ModelProtocolError
from .redaction import excerpt

__all__ = [
    "MAX_DEPTH",
    "NOT_JSON",
    "as_object",
    "check_depth",
    "check_response",
    "decode_json",
    "describe_not_json",
    "is_something",
]

NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What is raised where bytes or texts are not the JSON that was expected."""

MAX_DEPTH = 128
"""How deep arrays and objects may stand within each other."""

_NOT_A_NUMBER = re.compile(r"[\[:,]\s*-?(?:NaN|Infinity)\b")
_NOTHING = (b"", b"null")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = dict(zip(b"[{]}", (1, 1, -1, -1), strict=True))
_BRACKETS_AT_ONCE = 64 * 1024


def decode_json(data: bytes | str) -> Any:
    """The value that a JSON document spells.

    Args:
        data: The document.

    Raises:
        msgspec.DecodeError: It is no JSON, or nested too deeply.
        UnicodeError: It is no UTF-8, or holds half a character.
    """
    check_depth(data)
    return msgspec.json.decode(data)


def describe_not_json(error: Exception, text: str) -> str:
    """Describe the fault of a text that is no JSON, with the reason where Python's own parser gives one.

    Args:
        error: What reading it raised, one of `NOT_JSON`.
        text: The text.
    """
    return f"{error}; JSON has no NaN and no Infinity" if _NOT_A_NUMBER.search(text) else str(error)


def check_response(data: bytes, *, complaint: str) -> None:
    """Refuse a response, or an event of one, that is nested too deeply.

    Args:
        data: The document.
        complaint: What the protocol says of documents that it does not know.

    Raises:
        ModelProtocolError: It is.
    """
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:  # as a rule
        return
    try:
        check_depth(data)
    except msgspec.DecodeError as error:
        raise ModelProtocolError(f"{complaint} ({error}): {excerpt(data)}") from error


def check_depth(data: bytes | str) -> None:
    """Refuse JSON that is nested too deeply.

    Args:
        data: A document.

    Raises:
        msgspec.DecodeError: It is nested too deeply.
    """
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:  # as a rule
        return
    brackets = _STRING.sub(b"", data).translate(None, _OTHERS)
    depth = 0
    for start in range(0, len(brackets), _BRACKETS_AT_ONCE):
        steps = map(_STEPS.__getitem__, brackets[start : start + _BRACKETS_AT_ONCE])
        depths = list(accumulate(steps, initial=depth))
        if max(depths) > MAX_DEPTH:
            raise msgspec.DecodeError(f"JSON is nested deeper than {MAX_DEPTH} levels")
        depth = depths[-1]


def is_something(raw: msgspec.Raw) -> bool:
    """Whether a raw field is there and not null.

    Args:
        raw: The field.
    """
    return bytes(raw) not in _NOTHING


def as_object(value: object) -> dict[str, Any]:
    """A JSON object; empty for whatever is none.

    Args:
        value: A decoded JSON value.
    """
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
