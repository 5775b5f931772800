"""Results of servers: as Python values, checked against the schemas of their tools, or as errors.

The package `mcp` would check structured results too, but it matches the patterns of a schema, and follows
references that multiply: a server could hold the event loop for as long as it likes.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from http import HTTPStatus
from importlib import import_module
from itertools import chain
from threading import local
from time import perf_counter
from typing import Any, cast

from anyio import from_thread
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic_core import from_json

from ..errors import ErrorKind
from ..journal.registered_types import is_registered
from ..journal.values import register
from ..pickling import PicklableError
from ..threads import call_in_thread
from ..types.json import is_json_list, is_json_mapping
from ..types.messages import BinaryContent
from .connection import Connection
from .errors import ServerCallError, ServerToolError
from .methods import ToolFacts
from .values import ERROR_KIND, IS_JSON, LinkedResource, PromptText, ResourceContent

_UNKNOWN_MEDIA_TYPE = "application/octet-stream"


def value_of(result: CallToolResult, tool: ToolFacts) -> object:
    """Return the result of a tool: structured content as it is, otherwise its content.

    A single item stands for itself: one text is a `str`, also if it is JSON, unless the server is one of this
    library and says that it stands for a value. Several are a list.
    Images and other bytes count as content: structured content has them as text, if at all.
    """
    has_structured = "structured_content" in result.model_fields_set and (
        result.structured_content is not None or tool.output_schema is not None or not result.content
    )  # many servers write null for what they do not have
    if has_structured and not any(map(_is_binary, result.content)):
        return tool.unwrapped(result.structured_content)
    value = content_of(result)
    if isinstance(value, str) and (result.meta or {}).get(IS_JSON) is True:
        with suppress(ValueError):
            return from_json(value)
    return value


def _is_binary(content: object) -> bool:
    if isinstance(content, EmbeddedResource):
        return isinstance(content.resource, BlobResourceContents)
    return isinstance(content, ImageContent | AudioContent)


def content_of(result: CallToolResult) -> object:
    """Return the content of a result, without its structured content."""
    items = [content_value(each) for each in result.content]
    return items[0] if len(items) == 1 else items or None


def text_of(result: CallToolResult) -> str:
    """Return the text of a result, for errors."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent)).strip()


def content_value(content: object) -> object:
    """Return one item of content."""
    match content:
        case TextContent():
            return content.text
        case ImageContent() | AudioContent():
            return BinaryContent(data=_decoded(content.data), media_type=content.mime_type)
        case ResourceLink():
            return LinkedResource(
                uri=content.uri,
                name=content.title or content.name,
                description=content.description or "",
                media_type=content.mime_type,
                size=content.size,
            )
        case EmbeddedResource():
            return resource_value(content.resource)
        case _:  # a kind of content that later versions of the protocol have
            return cast("Any", content).model_dump(by_alias=True, mode="json", exclude_none=True)


def resource_value(contents: TextResourceContents | BlobResourceContents) -> ResourceContent:
    """Return the contents of a resource."""
    if isinstance(contents, TextResourceContents):
        return ResourceContent(uri=contents.uri, media_type=contents.mime_type, content=contents.text)
    media_type = contents.mime_type or _UNKNOWN_MEDIA_TYPE
    data = BinaryContent(data=_decoded(contents.blob), media_type=media_type)
    return ResourceContent(uri=contents.uri, media_type=contents.mime_type, content=data)


def prompt_texts(messages: Sequence[PromptMessage]) -> list[PromptText]:
    """Return the messages of a prompt."""
    return [PromptText(role=each.role, content=content_value(each.content)) for each in messages]


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (ValueError, binascii.Error):
        return text.encode()


def _register_for_journals() -> None:
    """Let journals store the values that results are made of."""
    for kind in (BinaryContent, LinkedResource, ResourceContent, PromptText):
        if not is_registered(kind):
            register(
                kind,
                dump=lambda value: {each.name: getattr(value, each.name) for each in fields(value)},
                load=lambda stored, kind=kind: kind(**stored),
            )


_register_for_journals()


_MAX_CHECKS_AT_ONCE = 5_000
"""The number of checks that are made on the event loop; results with more are checked in a thread."""
_MAX_SECONDS_AT_ONCE = 0.005
_MAX_CHECKS = 5_000_000
_CHECKS_BETWEEN_LOOKS = 200
_PARTS_OF_A_CHECK = 8
"""The parts of a container that are looked at in about the time of a check."""
_MAX_FAULT_CHARACTERS = 1_000
_NOT_CHECKED = ("pattern", "patternProperties", "unevaluatedProperties", "unevaluatedItems")
_COMPARED = ("enum", "const", "dependentRequired")
_FOR_EACH_PART = ("items", "contains", "additionalProperties", "propertyNames")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")


class _Remaining(local):
    """The checks that the result of this thread may still have.

    Attributes:
        checks: Their number.
        next_look: The number at which `look` is called next.
        look: Raises where the check has to end before.
    """

    checks = 0
    next_look = 0
    look: Callable[[], None]

    def begin(self, checks: int, look: Callable[[], None]) -> None:
        """Begin to check a result."""
        self.checks = checks
        self.next_look = checks
        self.look = look

    def take(self, checks: int) -> None:
        """Count checks.

        Raises:
            _TooManyChecksError: There are too many.
        """
        self.checks -= checks
        if self.checks < 0:
            raise _TooManyChecksError("its structured content is too large to be checked")
        if self.checks <= self.next_look:
            self.next_look = self.checks - _CHECKS_BETWEEN_LOOKS
            self.look()


class _TooManyChecksError(PicklableError, RuntimeError):
    """A result needs more checks than it may have."""


_remaining = _Remaining()


async def check_result(schema: Mapping[str, Any], result: CallToolResult) -> None:
    """Check that structured content is of the form that its tool promises; patterns are not matched.

    Args:
        schema: The schema of its results.
        result: The result.

    Raises:
        RuntimeError: It is not, or there is none.
    """
    if "structured_content" not in result.model_fields_set:
        raise RuntimeError("it has an output schema, and returned no structured content")
    content = result.structured_content
    if not _validator_class.cache_info().currsize:
        await call_in_thread(_validator_class)  # a second of imports
    try:
        fault = _fault_at_once(schema, content)
    except _TooManyChecksError:
        fault = await call_in_thread(_fault_of, schema, content, _MAX_CHECKS, from_thread.check_cancelled)
    if fault is not None:
        raise RuntimeError(f"its structured content breaks its output schema: {fault}")


def _fault_at_once(schema: Mapping[str, Any], content: object) -> str | None:
    """Return what is wrong with a small result.

    Raises:
        _TooManyChecksError: It is not small enough for the event loop.
    """
    if _weight_of(content, _MAX_CHECKS_AT_ONCE) > _MAX_CHECKS_AT_ONCE:
        raise _TooManyChecksError("it is large")  # one text of a fault has all of it
    end = perf_counter() + _MAX_SECONDS_AT_ONCE

    def look() -> None:
        if perf_counter() > end:
            raise _TooManyChecksError("it takes long")

    return _fault_of(schema, content, _MAX_CHECKS_AT_ONCE, look)


def _fault_of(
    schema: Mapping[str, Any], content: object, max_checks: int, look: Callable[[], None]
) -> str | None:
    _remaining.begin(max_checks, look)
    registry = _module("referencing").Registry()  # references lead nowhere else
    try:
        error = next(_validator_class()(dict(schema), registry=registry).iter_errors(content), None)
    except RecursionError:
        return "it is nested too deeply"
    if error is None:
        return None
    path = ".".join(map(str, error.absolute_path))
    return (f"at {path}: {error.message}" if path else str(error.message))[:_MAX_FAULT_CHARACTERS]


@cache
def _validator_class() -> Any:
    validators = _module("jsonschema.validators")
    given: Mapping[str, Callable[..., Any]] = validators.Draft202012Validator.VALIDATORS
    counted = {name: _counted(name, check) for name, check in given.items()}
    return validators.extend(validators.Draft202012Validator, counted | {"uniqueItems": _check_unique})


def _module(name: str) -> Any:
    """A module that is slow to import, has no types, and comes with the package `mcp`."""
    return import_module(name)


def _counted(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    def counted(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        _remaining.take(_checks_of(name, value, instance))
        if name in _NOT_CHECKED or (name == "additionalProperties" and "patternProperties" in schema):
            return
        for error in check(validator, value, instance, schema) or ():
            _remaining.take(len(error.message) // _PARTS_OF_A_CHECK)  # it shows all of the value
            yield error

    return counted


def _check_unique(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
    """Check `uniqueItems` by texts, since `jsonschema` compares each item with each other one."""
    if value is not True or not is_json_list(instance):
        return
    _remaining.take(1 + _weight_of(instance))
    if len({json.dumps(_comparable(each), sort_keys=True) for each in instance}) < len(instance):
        yield _module("jsonschema.exceptions").ValidationError("two of its items are equal")


def _comparable(value: Any) -> Any:
    """Return data whose JSON is equal for equal values: 1 is 1.0, and neither is true."""
    if is_json_list(value):
        return [_comparable(each) for each in value]
    if is_json_mapping(value):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, float):
        value = int(value) if value.is_integer() else repr(value)
        return [0, hex(value) if isinstance(value, int) else value]
    return [0, hex(value)] if isinstance(value, int) and not isinstance(value, bool) else value


def _checks_of(name: str, value: Any, instance: Any) -> int:
    """The number of checks that a keyword is like."""
    of_value = _weight_of(value) if name in _COMPARED else _length_of(value)
    of_instance = _length_of(instance)
    if name in _FOR_EACH_PART:
        return 1 + of_instance + of_value * of_instance // _PARTS_OF_A_CHECK
    schemas = of_value if name in _LISTED else 0
    if name == "properties":
        schemas = min(of_value, of_instance)
    return 1 + schemas + (of_value + of_instance) // _PARTS_OF_A_CHECK


def _length_of(value: Any) -> int:
    return len(value) if is_json_list(value) or is_json_mapping(value) else 0


def _weight_of(value: object, most: int | None = None) -> int:
    """The number of parts of data, at any depth; long texts are several. Ends above the number `most`."""
    weight = 0
    level: Sequence[Any] = [value]
    while level:
        inner: list[Any] = []
        for each in level:
            weight += 1
            if isinstance(each, str):
                weight += len(each) // 100
            elif is_json_mapping(each):
                inner.extend(chain(each, each.values()))
            elif is_json_list(each):
                inner.extend(each)
            if most is not None and weight + len(inner) > most:
                return most + 1
        level = inner
    return weight


_BAD_ARGUMENTS = re.compile(r"-32602|validation error|invalid arguments", re.IGNORECASE)
_BAD_STATUS = "Server returned an error response"
_SERVER_ERROR = 500
_TRANSIENT_STATUSES = (408, 425, 429)
_QUOTED_CHARACTERS = 4_000
_KINDS: tuple[ErrorKind, ...] = ("invalid_input", "transient", "execution")


class ConnectionLostError(PicklableError):
    """The connection was lost while a request was in flight.

    Args:
        message: The failure.
        may_have_begun: Whether the server may have begun to work on it.
    """

    def __init__(self, message: str, *, may_have_begun: bool = True) -> None:
        super().__init__(message)
        self.may_have_begun = may_have_begun


def is_unknown_session(error: MCPError, connection: Connection) -> bool:
    """Whether a server behind HTTP has refused a request because it does not know the session any more."""
    return error.code == INVALID_REQUEST and connection.failed_status == HTTPStatus.NOT_FOUND


def is_lost_session(error: MCPError, connection: Connection) -> bool:
    """Whether an error says that the connection is gone, rather than something about the request."""
    if is_unknown_session(error, connection):
        return True
    return error.code == CONNECTION_CLOSED or connection.is_lost.is_set()


def failure_of(error: MCPError, server: str, subject: str, connection: Connection) -> ServerCallError:
    """Return the error of a request that was refused.

    Args:
        error: The refusal.
        server: The name of the server.
        subject: The beginning of the message.
        connection: The connection.
    """
    text = f"{subject}{error.message}"
    if error.code == INVALID_PARAMS:
        return ServerCallError(
            server, text, kind="invalid_input", guidance="Call it again with other arguments."
        )
    status = connection.failed_status
    if error.code == INTERNAL_ERROR and error.message == _BAD_STATUS and status is not None:
        text = f"{subject}server {server!r} answered {connection.failed_status_text}"
        if status >= _SERVER_ERROR or status in _TRANSIENT_STATUSES:
            return ServerCallError(
                server, text, kind="transient", guidance="The same call may succeed later."
            )
    return ServerCallError(server, text, kind="execution")


def raise_if_error(server: str, tool: ToolFacts, result: CallToolResult) -> None:
    """Raise the failure that a tool reports.

    Raises:
        ServerToolError: It reports one.
    """
    if not result.is_error:
        return
    text = text_of(result)[:_QUOTED_CHARACTERS] or "the tool failed without a word"
    raise ServerToolError(
        server, f"{tool.name}: {text}", kind=_kind_of(result, text), content=content_of(result)
    )


def _kind_of(result: CallToolResult, text: str) -> ErrorKind:
    """Return the kind that the server says, or that its words tell."""
    said: object = (result.meta or {}).get(ERROR_KIND)
    for kind in _KINDS:
        if said == kind:
            return kind
    return "invalid_input" if _BAD_ARGUMENTS.search(text) else "execution"
