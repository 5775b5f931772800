"""JSON of requests and responses, for any content of the conversation.

A conversation holds texts from any source, and arguments as models wrote them. Neither may break a request.

The nesting of decoded values is limited, so that code that walks through them afterwards (prompts,
recordings, telemetry, validators) does not come near Python's recursion limit.

`JsonObjectScanner` finds the end of a JSON object while its text is still arriving. It counts brackets
outside strings and validates nothing: a text that ends here may still be malformed JSON. Every character is
looked at once, however the text was cut.
"""

import json
import re
from collections.abc import Mapping
from itertools import accumulate
from typing import Any
from uuid import uuid4

import msgspec

from ..errors import ConfigurationError, ModelProtocolError
from ..types.json import is_json_mapping, is_json_object, is_list_or_tuple, is_mapping
from ..types.model import ModelRequest, NamedToolChoice
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
        while True:
            match = (_IN_STRING if self._is_in_string else _STRUCTURE).search(fragment, position)
            if match is None:
                return len(fragment)
            position = self._take(match[0], match.end(), len(fragment))
            if self.is_complete:
                return position

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


class _TwiceError(Exception):
    """An object gives a field twice."""


class _Number(list[str]):
    """The text of a number, which may have more digits than Python reads."""

    def __init__(self, text: str) -> None:
        super().__init__(("number", text))


def has_duplicates(text: str) -> bool:
    """Whether an object in a JSON text gives the same field two different values.

    Args:
        text: A JSON text that `decode_json` takes.
    """
    try:
        _READER.decode(text)
    except _TwiceError:
        return True
    return False


def _fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs) and any(each != fields[name] for name, each in pairs):
        raise _TwiceError
    return fields


_READER = json.JSONDecoder(object_pairs_hook=_fields, parse_int=_Number, parse_float=_Number)


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
    return value if is_json_object(value) else {}


NO_TEXT = "[no text]"
"""The placeholder for an empty text, if the endpoint refuses an empty one."""


def check_tool_choice(request: ModelRequest) -> None:
    """Refuse a request that demands a call which its tools do not allow.

    Args:
        request: The request.

    Raises:
        ConfigurationError: It demands a call and offers no tool, or not the one that it demands.
    """
    choice = request.tool_choice
    if not request.tools and choice not in ("auto", "none"):
        raise ConfigurationError("The request demands a tool call but offers no tool.")
    if isinstance(choice, NamedToolChoice) and all(tool.name != choice.name for tool in request.tools):
        raise ConfigurationError(f"The request demands the tool {choice.name!r} but does not offer it.")


def refuse_deferred_tools(request: ModelRequest, *, protocol: str) -> None:
    """Refuse deferred tools in a protocol that has no search for them.

    Args:
        request: The request.
        protocol: The protocol's name, for errors.

    Raises:
        ConfigurationError: The request holds some.
    """
    deferred = next((tool.name for tool in request.tools if tool.is_deferred), None)
    if deferred is not None:
        raise ConfigurationError(
            f"The tool {deferred!r} is to be found by the search of the provider, which the protocol "
            f"{protocol} does not have; choose search='lexical', or another protocol."
        )


def request_json(body: Mapping[str, Any]) -> bytes:
    """The body of a request as JSON, its entries in their order.

    Args:
        body: The body.

    Raises:
        ConfigurationError: It holds a value that is not JSON.
    """
    try:
        return msgspec.json.encode(body, enc_hook=_plain)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_lone_surrogates(body), enc_hook=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The model settings or tool schemas hold a value that is not JSON: {error}"
        ) from error


def arguments_object(arguments: str) -> msgspec.Raw | dict[str, Any]:
    """The arguments of a past tool call, for protocols that carry them as an object.

    The model's text is sent back unchanged, byte for byte, if it is a JSON object. Anything else is wrapped,
    so that the model sees what it wrote and the endpoint does not refuse the conversation.

    Args:
        arguments: The text of `ToolCall.arguments`.
    """
    try:
        decoded: object = decode_json(arguments)
    except NOT_JSON:
        decoded = None
    return msgspec.Raw(arguments) if isinstance(decoded, dict) else {"malformed_arguments": arguments}


def valid_arguments(arguments: str) -> str:
    """The arguments of a past tool call, for protocols that carry them as a text.

    As `arguments_object`: servers that put past calls into a chat template parse them, and answer with an
    error if they cannot.

    Args:
        arguments: The text of `ToolCall.arguments`.
    """
    sent = arguments_object(arguments)
    return request_json(sent).decode() if isinstance(sent, dict) else arguments


def _plain(value: object) -> object:
    """A mapping of any kind, such as a read-only view, as a dictionary."""
    if is_json_mapping(value):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _without_lone_surrogates(value: object) -> object:
    """The same value with every lone surrogate, which no UTF-8 text may hold, replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if is_mapping(value):
        return {_without_lone_surrogates(key): _without_lone_surrogates(each) for key, each in value.items()}
    if is_list_or_tuple(value):
        return [_without_lone_surrogates(each) for each in value]
    return value


def split_documents(data: bytes) -> list[bytes]:
    """The JSON objects in an event that holds several, one after the other; none if it holds anything else.

    Args:
        data: The data of the event.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return []
    decoder, documents, position = json.JSONDecoder(), list[bytes](), 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        documents.append(text[position:end].encode())
        position = end
    return documents
