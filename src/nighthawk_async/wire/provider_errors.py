"""The provider's own message in the many shapes in which error bodies come.

An object with `message`, `type` and `code`, bare or under `error`; a text under `error`, `message` or
`detail`; either of these in a list.
"""

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import ContentFilterError, ModelErrorKind, ModelStatusError
from ..lazy_exports import LazyModule
from ..types.json import is_json_list, is_json_mapping
from ..types.model import ResponseFailed
from .json_text import NOT_JSON, as_object, decode_json
from .redaction import excerpt

if TYPE_CHECKING:
    from . import error_kinds
else:
    error_kinds = LazyModule(f"{__package__}.error_kinds")  # most requests succeed

_TRANSIENT_BELOW_500 = frozenset({408, 409, 429})

# Groq refuses a faulty tool call of the model with HTTP 400, or in the stream; another answer may be right.
_FAULTY_CALLS = frozenset({"tool_use_failed"})


def is_transient_status(status: int, headers: Mapping[str, str] | None = None) -> bool:
    """Whether the same request may succeed later.

    Args:
        status: The HTTP status code.
        headers: The response's headers, names in lower case; `x-should-retry` takes precedence.
    """
    advice = (headers or {}).get("x-should-retry", "").strip().lower()
    if advice in ("true", "false"):
        return advice == "true"
    return status in _TRANSIENT_BELOW_500 or status >= 500


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return the delay that the endpoint asks for, in seconds; None for none, or for an invalid one.

    Args:
        headers: The response's headers, names in lower case.
        now: The current time, for an endpoint that names a date; None reads the clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    return seconds if seconds is not None else _seconds_until(text, now or datetime.now(UTC))


def retry_info_seconds(error: object) -> float | None:
    """Return the delay that a Google API asks for, in seconds; None for none.

    Args:
        error: The error object of a response's body: its `details` may hold a `retryDelay` such as `34.5s`.
    """
    details = error.get("details") if is_json_mapping(error) else None
    if not is_json_list(details):
        return None
    for detail in details:
        delay = detail.get("retryDelay") if is_json_mapping(detail) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _seconds_until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a year that no machine can count
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


_TRANSIENT_WORDS = (
    "internal",
    "overloaded",
    "rate_limit",
    "ratelimit",
    "server_error",
    "timeout",
    "unavailable",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMessage:
    """The provider's own description of an error.

    Args:
        message: One bounded line without secrets.
        error_type: The provider's own name of the error, when it gave one.
        is_transient: Whether that name means that the same request may succeed later.
        is_faulty_call: Whether the model has made a faulty tool call, and may make a right one.
        kind: The kind of the error, where its code or its text says.
        category: The kind of content that a filter refused, where it names one.
    """

    message: str
    error_type: str | None = None
    is_transient: bool = False
    is_faulty_call: bool = False
    kind: ModelErrorKind | None = field(default=None, compare=False)
    category: str | None = field(default=None, compare=False)

    @property
    def is_final(self) -> bool:
        """Whether the same request will not succeed later, whatever the status says."""
        return self.kind in error_kinds.FINAL_KINDS


def provider_message(
    content: object, secrets: Sequence[str] = (), *, status: int | None = None
) -> ProviderMessage:
    """The message in an error object, in any of the providers' shapes.

    Args:
        content: A decoded JSON value.
        secrets: Texts that must not appear in the message.
        status: The HTTP status code; None inside a stream.
    """
    error = _unwrap(content)
    if not is_json_mapping(error):
        message = _message_of(error, secrets)
        return ProviderMessage(
            message=message, kind=error_kinds.kind_of(None, message, status=status, outer=content)
        )
    names = [error.get(key) for key in ("type", "code", "status")]
    name = next((each for each in names if isinstance(each, str) and each), None)
    message = _with_cause(_message_of(error, secrets), error, secrets)
    kind = error_kinds.kind_of(error, message, status=status, outer=_holder(content, error))
    says_transient = kind in _PASSING_KINDS or any(_says_transient(each) for each in names)
    return ProviderMessage(
        message=message,
        error_type=excerpt(name, secrets, limit=100) if name is not None else None,
        is_transient=kind not in error_kinds.FINAL_KINDS and says_transient,
        is_faulty_call=any(isinstance(each, str) and each in _FAULTY_CALLS for each in names),
        kind=kind,
        category=error_kinds.filter_category(error) if kind == "content_filter" else None,
    )


_PASSING_KINDS = ("rate_limit", "overloaded")


def _holder(content: object, error: Mapping[str, Any]) -> object:
    """The part that may hold an error's code beside it: the object around it, or the error of a gateway."""
    metadata = as_object(error.get("metadata"))
    raw = metadata.get("raw")
    if isinstance(raw, str):
        with suppress(*NOT_JSON):
            return _unwrap(decode_json(raw))
    return _unwrap(raw) if raw else content if content is not error else None


def _message_of(error: object, secrets: Sequence[str]) -> str:
    if not is_json_mapping(error):
        return excerpt(_as_text(error), secrets)
    message = next((error[key] for key in ("message", "detail", "msg") if error.get(key)), error)
    return excerpt(_as_text(message), secrets)


def _with_cause(message: str, error: Mapping[str, Any], secrets: Sequence[str]) -> str:
    """The message with what the provider behind a gateway says: OpenRouter's own words never change."""
    metadata = as_object(error.get("metadata"))
    raw: object = metadata.get("raw")
    if isinstance(raw, str):
        with suppress(*NOT_JSON):
            raw = decode_json(raw)
    if not raw:
        return message
    said = _message_of(_unwrap(raw), secrets)
    name = metadata.get("provider_name")
    place = f"{excerpt(name, secrets, limit=100)}: " if isinstance(name, str) and name else ""
    return message if said in message else f"{message} ({place}{said})"


def find_bare_error(content: bytes, secrets: Sequence[str] = ()) -> ProviderMessage | None:
    """The message of an error object in place of a response; None when there is no such object.

    Args:
        content: The bytes that arrived, or their beginning.
        secrets: Texts that must not appear in the message.
    """
    try:
        decoded: object = decode_json(content)
    except NOT_JSON:
        return None
    if not is_json_mapping(decoded):
        return None
    return provider_message(decoded, secrets) if decoded.get("error") else None


def response_failure(data: bytes, *, transient_types: Set[str] = frozenset()) -> ResponseFailed:
    """The end of a response in which the provider reports an error.

    Args:
        data: The event or the document that reports it, or its part that does.
        transient_types: Names of errors after which the same request may succeed, besides those that imply
            it.
    """
    try:
        content: object = decode_json(data)
    except NOT_JSON:
        content = data.decode(errors="replace")
    fields = as_object(content)
    if fields.get("type") == "error":  # the event's own type, not the error's
        content = {name: value for name, value in fields.items() if name != "type"}
    said = provider_message(content)
    return ResponseFailed(
        message=said.message,
        error_type=said.error_type,
        is_transient=not said.is_final and (said.is_transient or said.error_type in transient_types),
        kind=said.kind,
    )


def status_error(
    status: int, headers: Mapping[str, str], body: bytes, *, secrets: Sequence[str] = (), advice: str = ""
) -> ModelStatusError:
    """The error for an HTTP error status, with an excerpt of the provider's message.

    Args:
        status: The HTTP status code.
        headers: The response's headers; names in lower case.
        body: The beginning of the response's body.
        secrets: Texts that must not appear in the message.
        advice: Added to the message.
    """
    retry_after = retry_after_seconds(headers)
    try:
        content: object = decode_json(body)
    except NOT_JSON:
        message = excerpt(body, secrets)
        said = ProviderMessage(message=message, kind=error_kinds.kind_of(None, message, status=status))
    else:
        said = provider_message(content, secrets, status=status)
        message = said.message
        retry_after = retry_info_seconds(_unwrap(content)) if retry_after is None else retry_after
    if 300 <= status < 400 and (location := headers.get("location")):
        message = f"the endpoint has moved to {excerpt(location, secrets)}"
    error = ModelStatusError.in_kind(said.kind)(
        (f"HTTP {status}: {message}" if message else f"HTTP {status} without a message") + advice,
        status=status,
        is_transient=_is_transient(said, status, headers),
        retry_after_seconds=retry_after,
        error_type=said.error_type,
    )
    if isinstance(error, ContentFilterError):
        error.category, error.explanation = said.category, said.message
    return error


def _is_transient(said: ProviderMessage, status: int, headers: Mapping[str, str]) -> bool:
    if said.is_final:
        return False
    return is_transient_status(status, headers) or said.is_faulty_call


def _unwrap(content: object) -> object:
    if is_json_list(content) and content:
        content = content[0]
    error = content.get("error") if is_json_mapping(content) else None
    return error or content


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _says_transient(name: object) -> bool:
    if isinstance(name, str) and not name.isdecimal():
        lowered = name.lower()
        if lowered in _FAULTY_CALLS:
            return True
        return any(word in lowered for word in _TRANSIENT_WORDS)
    try:
        status = int(cast("Any", name))
    except (TypeError, ValueError):
        return False
    return 400 <= status <= 599 and is_transient_status(status)
