"""Decoding of JSON from outside, and helpers for all decoders.

The nesting of decoded values is limited, so that code that walks through them afterwards (prompts,
recordings, telemetry, validators) does not come near Python's recursion limit.

`ObjectScan` finds the end of a JSON object while its text is still arriving. It counts brackets outside
strings and validates nothing: a text that ends here may still be malformed JSON. Every character is looked at
once, however the text was cut.
"""

import re
from itertools import accumulate
from typing import Any, cast
from uuid import uuid4

import msgspec

from ..errors import ModelProtocolError
from .redaction import excerpt


def new_call_id(prefix: str = "call") -> str:
    """Make a unique id for a call, across all conversations.

    Args:
        prefix: The beginning of the ids of the protocol.
    """
    return f"{prefix}_{uuid4().hex}"


def total_count(*parts: int) -> int:
    """The sum of the parts; negative if one of them is, since then the others are not reliable either.

    Args:
        parts: The parts.
    """
    return sum(parts) if min(parts) >= 0 else -1


_NOT_SPACE = re.compile(r"[^ \t\r\n]")
_STRUCTURE = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')


class JsonObjectScanner:
    """Scans fragments of one JSON text and detects when the object is closed."""

    __slots__ = ("_depth", "_has_begun", "_is_in_string", "_is_object", "_skips_one", "is_complete")

    def __init__(self) -> None:
        self._depth = 0
        self._has_begun = False
        self._is_in_string = False
        self._is_object = False
        self._skips_one = False
        self.is_complete = False
        """Whether the object is closed."""

    def feed(self, fragment: str) -> int:
        """Add the next fragment.

        Args:
            fragment: The next characters of the text.

        Returns:
            The number of characters of the fragment that belong to the object: all of them until it closes,
            and none after.
        """
        if self.is_complete:
            return 0
        if not self._has_begun and (first := _NOT_SPACE.search(fragment)) is not None:
            self._has_begun = True
            self._is_object = first[0] == "{"
        if not self._is_object:
            return len(fragment)
        position = 0
        if self._skips_one and fragment:
            self._skips_one = False
            position = 1
        while (match := self._next_mark(fragment, position)) is not None:
            position = self._take(match[0], match.end(), len(fragment))
            if self.is_complete:
                return position
        return len(fragment)

    def _next_mark(self, fragment: str, position: int) -> re.Match[str] | None:
        return (_IN_STRING if self._is_in_string else _STRUCTURE).search(fragment, position)

    def _take(self, character: str, position: int, length: int) -> int:
        if character == '"':
            self._is_in_string = not self._is_in_string
        elif character == "\\":
            self._skips_one = position == length
            return position + 1
        elif character in "{[":
            self._depth += 1
        else:
            self._depth -= 1
            self.is_complete = self._depth == 0
        return position


NOT_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The errors for bytes or texts that are not the expected JSON."""

MAX_DEPTH = 128
"""The greatest nesting depth of arrays and objects."""

_NOT_A_NUMBER = re.compile(r"[\[:,]\s*-?(?:NaN|Infinity)\b")
_NOTHING = (b"", b"null")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = dict(zip(b"[{]}", (1, 1, -1, -1), strict=True))
_BRACKETS_AT_ONCE = 64 * 1024


def decode_json(data: bytes | str) -> Any:
    """Decode a JSON document.

    Args:
        data: The document.

    Raises:
        msgspec.DecodeError: It is no JSON, or nested too deeply.
        UnicodeError: It is no UTF-8, or holds a lone surrogate.
    """
    check_depth(data)
    return msgspec.json.decode(data)


def describe_not_json(error: Exception, text: str) -> str:
    """Describe the fault of a text that is no JSON, with the reason if Python's own parser gives one.

    Args:
        error: The decoding error, one of `NOT_JSON`.
        text: The text.
    """
    return f"{error}; JSON has no NaN and no Infinity" if _NOT_A_NUMBER.search(text) else str(error)


def check_response(data: bytes, *, complaint: str) -> None:
    """Refuse a response, or an event of one, that is nested too deeply.

    Args:
        data: The document.
        complaint: The protocol's complaint about documents that it does not know.

    Raises:
        ModelProtocolError: It is.
    """
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:  # usually
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
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:  # usually
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
    """Whether a raw field is present and not null.

    Args:
        raw: The field.
    """
    return bytes(raw) not in _NOTHING


def as_object(value: object) -> dict[str, Any]:
    """A JSON object; empty for any other value.

    Args:
        value: A decoded JSON value.
    """
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
