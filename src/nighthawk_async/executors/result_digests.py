"""Digests of tool results: a line in place of a result that names what was there and how to see it again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from ..types.compaction import ResultDigest
from ..types.messages import AssistantMessage, Message, ToolCall, ToolResult, ToolResultsMessage, UserContent
from ..wire.json_text import NOT_JSON
from .conversation import characters_in

_LEAST_CHARACTERS = 400
"""A shorter result stays whole: its digest would not be much shorter."""

_START = "[Shortened: "
_MOST_PARSED = 200_000
_MOST_ARGUMENTS = 60
_MOST_OF_BEGINNING = 80
_MOST_KEYS = 6

_AGAIN: Mapping[str, str] = {
    "nh_eval": "Evaluate it again to see it, unless that changes something.",
    "nh_assign": "The value is still there: see it with nh_eval.",
    "nh_exec": "What it set is still there: see it with nh_eval.",
    "nh_skill": "Read it again before you go on with what it is for.",
}
_CALL_AGAIN = "To see it again, repeat the call if it only reads."
_OF_EARLIER_STEP = "An earlier step made this call, and had names of its own."


def digests_of(
    messages: Sequence[Message], end: int, whole: Iterable[ToolResult], *, program: Message | None
) -> Iterator[ResultDigest]:
    """Yield digests of the tool results at the beginning of a conversation, oldest first.

    Args:
        messages: The conversation.
        end: The index of the first message that stays whole.
        whole: Results that stay whole.
        program: The message with the program of the step; those before it are of its past.
    """
    kept = set(map(id, whole))
    is_past = any(message is program for message in messages)
    for index, message in enumerate(messages[:end]):
        is_past = is_past and message is not program
        if not isinstance(message, ToolResultsMessage):
            continue
        calls = _calls_before(messages, index)
        for position, result in enumerate(message.results):
            if id(result) in kept or not _is_long(result):
                continue
            call = calls[position] if position < len(calls) else None
            text = digest_of(result, call, is_past=is_past)
            if len(text) < characters_in(result.content):
                yield ResultDigest(result=result, text=text, message_index=index, result_index=position)


def _is_long(result: ToolResult) -> bool:
    """Whether a result is worth a digest, and is none yet."""
    first = result.content[0] if result.content else ""
    is_digest = isinstance(first, str) and first.startswith(_START)
    return characters_in(result.content) >= _LEAST_CHARACTERS and not is_digest


def _calls_before(messages: Sequence[Message], index: int) -> tuple[ToolCall, ...]:
    before = messages[index - 1] if index else None
    return before.tool_calls if isinstance(before, AssistantMessage) else ()


def digest_of(result: ToolResult, call: ToolCall | None, *, is_past: bool = False) -> str:
    """The digest of a tool result.

    Args:
        result: The result.
        call: The call that it answers; None if that is not known.
        is_past: Whether an earlier step made the call, so that its names may be gone.
    """
    arguments = "" if call is None else _cut(_one_line(call.arguments), _MOST_ARGUMENTS)
    size = sum(len(item) for item in result.content if isinstance(item, str))
    kind, beginning = _described(result.content)
    outcome = "failed with" if result.is_error else "gave"
    parts = [f"{_START}{result.name}({arguments}) {outcome} {kind} of {size:,} characters"]
    if beginning:
        parts.append(f", beginning: {_cut(beginning, _MOST_OF_BEGINNING)}")
    again = _OF_EARLIER_STEP if is_past else _AGAIN.get(result.name, _CALL_AGAIN)
    return f"{''.join(parts)}. {again}]"


def _described(content: Sequence[UserContent]) -> tuple[str, str]:
    """The kind of a result, and its beginning on one line."""
    media = [_kind_of_medium(item) for item in content if not isinstance(item, str)]
    text = "".join(item for item in content if isinstance(item, str))
    kind, beginning = _described_text(text)
    return ", ".join([*([kind] if text else []), *media]), beginning


def _described_text(text: str) -> tuple[str, str]:
    try:
        value: object = msgspec.json.decode(text) if len(text) <= _MOST_PARSED else None
    except NOT_JSON:
        value = None
    if isinstance(value, dict) and "value" in value:  # a result of this library
        projected = cast("Mapping[str, Any]", value)
        value = projected["error"] if projected.get("error") is not None else projected["value"]
    match value:
        case str():
            return "a text", _one_line(value[: _MOST_OF_BEGINNING * 4])
        case dict():
            names = list(map(str, cast("Mapping[object, object]", value)))
            more = "" if len(names) <= _MOST_KEYS else ", …"
            return f"an object with {', '.join(names[:_MOST_KEYS])}{more}", _beginning_of(text)
        case list():
            count = len(cast("Sequence[object]", value))
            return f"a list of {count:,} item{'s' * (count != 1)}", _beginning_of(text)
        case _:
            return "a text", _beginning_of(text)


def _beginning_of(text: str) -> str:
    return _one_line(text[: _MOST_OF_BEGINNING * 4].removeprefix('{"value": '))


def _kind_of_medium(item: object) -> str:
    return str(getattr(item, "media_type", None) or type(item).__name__)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
