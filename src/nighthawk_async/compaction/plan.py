"""Decides what a compaction replaces: tool results by digests, and older turns by a summary; no I/O."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..agent.task import Conversation, characters_in, characters_of
from ..kernel.usage_meter import begins_turn
from ..prompt.plain_text import break_delimiters
from ..types.compaction import CompactionPlan, ResultDigest
from ..types.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
from ..wire.json_text import NOT_JSON

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


SUMMARY_TOKENS = 1_500
"""The room for a summary; less in a small context."""

_PART_OF_SUMMARY = 10
_PART_OF_GAIN = 10
_PART_OF_ASSIGNMENTS = 4
"""Answers to assignments stay word for word up to 1/n of the conversation, where n is this number."""

_MOST_PLANNED_ARGUMENTS = 300

SUMMARY_HEADING = "<<<NH:SUMMARY>>>\nSummary of {turns}, which left the conversation for want of room:"
VERBATIM_HEADING = "Still true, word for word:"
SUMMARY_END = "<<<NH:END_SUMMARY>>>"


class _Assignment(Struct):
    """The argument of an assignment that names its target."""

    target_path: str


class _Marks(Struct, frozen=True, kw_only=True):
    """Sizes of a conversation in tokens.

    Args:
        target: The size to come down to.
        enough: The size with which digests alone are enough, so that the next compaction is not near.
        summary: The size of a summary.
        gain: The least gain for which the prefix of the requests is changed while there is room.
    """

    target: int
    enough: int
    summary: int
    gain: int


def plan_compaction(
    conversation: Conversation, *, model_name: str, tokens: int, keep_turns: int
) -> CompactionPlan | None:
    """Plan the compaction of a conversation; None when there is nothing to gain.

    Args:
        conversation: The conversation; it has a threshold.
        model_name: The model id.
        tokens: Its size.
        keep_turns: The number of latest turns that stay whole.
    """
    sent, marks = conversation.sent, _marks(conversation)
    rate = tokens / max(1, conversation.characters)
    recent = _index_of_recent(sent, keep_turns)
    whole = results_to_keep(conversation, sent)
    digests: list[ResultDigest] = []
    after = float(tokens)
    for digest in digests_of(sent, recent, whole, program=conversation.program):
        if after <= marks.target:
            break
        digests.append(digest)
        after -= _saved(digest) * rate
    summarized: list[Message] = []
    if after > marks.enough:
        summarized, after = _summarized(conversation, digests, recent, after, marks, rate)
    if tokens - after < (marks.gain if tokens <= conversation.room else 1):
        return None
    replaced = set(map(id, summarized))
    return CompactionPlan(
        model_name=model_name,
        context_window=conversation.context_window or 0,
        tokens=tokens,
        tokens_after=int(after),
        digests=tuple(each for each in digests if id(sent[each.message_index]) not in replaced),
        summarized=tuple(summarized),
    )


def _marks(conversation: Conversation) -> _Marks:
    settings, window, threshold = conversation.compaction, conversation.context_window, conversation.threshold
    assert settings is not None
    assert window is not None
    assert threshold is not None
    target = int(threshold * settings.target / settings.threshold)
    return _Marks(
        target=target,
        enough=(target + threshold) // 2,
        summary=min(SUMMARY_TOKENS, window // _PART_OF_SUMMARY),
        gain=threshold // _PART_OF_GAIN,
    )


def _index_of_recent(messages: Sequence[Message], keep_turns: int) -> int:
    """The index of the first message of the latest turns."""
    starts = [index for index in range(len(messages)) if begins_turn(messages, index)]
    if len(starts) <= keep_turns:
        return starts[0] if starts else len(messages)
    return starts[-keep_turns]


def _saved(digest: ResultDigest) -> int:
    return characters_in(digest.result.content) - len(digest.text)


def _summarized(
    conversation: Conversation,
    digests: Iterable[ResultDigest],
    recent: int,
    after: float,
    marks: _Marks,
    rate: float,
) -> tuple[list[Message], float]:
    """Return the messages that a summary replaces, whole turns from the oldest on, and the size then."""
    saved: dict[int, int] = {}
    for digest in digests:
        saved[digest.message_index] = saved.get(digest.message_index, 0) + _saved(digest)
    removed: list[Message] = []
    left = after + marks.summary
    for index, message in enumerate(conversation.sent[:recent]):
        if removed and left <= marks.target and begins_turn(conversation.sent, index):
            break
        if conversation.is_kept(message):
            continue
        removed.append(message)
        left -= (characters_of(message) - saved.get(index, 0)) * rate
    left += sum(map(len, verbatim_lines(conversation, removed).values())) * rate
    has_turn = any(isinstance(message, AssistantMessage) for message in removed)
    is_worth_it = after - left >= marks.gain or (after > conversation.room and left < after)
    return (removed, left) if has_turn and is_worth_it else ([], after)


def results_to_keep(conversation: Conversation, messages: Iterable[Message]) -> list[ToolResult]:
    """Return the results that stay whole: the answers to the latest assignments, and to the refused outcome.

    Args:
        conversation: The conversation.
        messages: The messages to look at.
    """
    answers = _answers(conversation, messages)
    sizes = {about: characters_in(result.content) for about, (_, result) in answers.items()}
    return [answers[about][1] for about in _latest_within(conversation, sizes)]


def _answers(
    conversation: Conversation, messages: Iterable[Message]
) -> dict[str, tuple[ToolCall, ToolResult]]:
    """The latest answers that matter with their calls, by what they are about; oldest first."""
    found: dict[str, tuple[ToolCall, ToolResult]] = {}
    calls: tuple[ToolCall, ...] = ()
    past = _past_of(conversation)
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls = message.tool_calls
        elif isinstance(message, ToolResultsMessage) and id(message) not in past:
            for call, result in zip(calls, message.results, strict=False):
                about = _about(conversation, message, call)
                if about:
                    _drop(found, about)
                    found[about] = (call, result)
    return found


def _past_of(conversation: Conversation) -> set[int]:
    """The ids of the messages of earlier steps, whose names are not those of this one."""
    is_begun = [message is conversation.program for message in conversation.sent]
    return set(map(id, conversation.sent[: is_begun.index(True) if any(is_begun) else 0]))


def _drop(by_subject: dict[str, Any], about: str) -> None:
    """Drop what a later answer replaces: the same subject, and its fields."""
    for each in [each for each in by_subject if each == about or each.startswith(f"{about}.")]:
        del by_subject[each]


def _latest_within(conversation: Conversation, sizes: dict[str, int]) -> list[str]:
    """The latest subjects that have room, oldest first: the refusal and the latest assignment always.

    Args:
        conversation: The conversation.
        sizes: The characters that each subject takes, oldest first.
    """
    room = conversation.characters // _PART_OF_ASSIGNMENTS
    kept: list[str] = []
    for about, size in reversed(sizes.items()):
        if about != _REFUSAL:
            room -= size
        is_latest = all(other == _REFUSAL for other in kept)
        if room >= 0 or is_latest or about == _REFUSAL:
            kept.append(about)
    return kept[::-1]


_REFUSAL = "nh_outcome"


def _about(conversation: Conversation, message: Message, call: ToolCall) -> str:
    """The subject of an answer that stays; empty for any other."""
    if call.name == "nh_outcome":
        return _REFUSAL if message is conversation.refusal else ""
    if call.name != "nh_assign":
        return ""
    try:
        path = msgspec.json.decode(call.arguments, type=_Assignment).target_path
    except NOT_JSON:
        return ""
    root = path.partition(".")[0].partition("[")[0].strip()
    return f"nh_assign {path}" if root in conversation.write_names else ""


def verbatim_lines(conversation: Conversation, removed: Sequence[Message]) -> dict[str, str]:
    """The lines that stay word for word once some messages are removed, with those of earlier summaries.

    What the messages that stay say anew is left out.

    Args:
        conversation: The conversation.
        removed: The messages.
    """
    lines = dict(conversation.verbatim)
    for about, (call, result) in _answers(conversation, removed).items():
        arguments = call.arguments
        short = (
            arguments
            if len(arguments) <= _MOST_PLANNED_ARGUMENTS
            else f"{arguments[:_MOST_PLANNED_ARGUMENTS]}…"
        )
        _drop(lines, about)
        lines[about] = f"{result.name}({short}) -> {_text(result.content)}"
    refusal, gone = conversation.refusal, set(map(id, removed))
    if isinstance(refusal, UserMessage) and id(refusal) in gone:
        lines[_REFUSAL] = _text(refusal.content)
    staying = [message for message in conversation.sent if id(message) not in gone]
    if any(message is refusal for message in staying):
        lines.pop(_REFUSAL, None)
    for about in _answers(conversation, staying):
        _drop(lines, about)
    sizes = {about: len(line) for about, line in lines.items()}
    return {about: lines[about] for about in _latest_within(conversation, sizes)}


def _text(content: Sequence[UserContent]) -> str:
    return " ".join(item if isinstance(item, str) else f"<{type(item).__name__}>" for item in content)


def compact(conversation: Conversation, plan: CompactionPlan, request_tools: int) -> int:
    """Compact a conversation.

    Args:
        conversation: The conversation.
        plan: The compaction, with its summary if turns are summarised.
        request_tools: The number of tools in the next request.

    Returns:
        An estimate of its size afterwards.
    """
    rate = plan.tokens / max(1, conversation.characters)
    if plan.summarized:
        conversation.verbatim = verbatim_lines(conversation, plan.summarized)
        conversation.summarized_turns += count_turns(plan.summarized)
    before, sent = conversation.characters, _messages_after(conversation, plan)
    after = before - sum(map(characters_of, conversation.sent)) + sum(map(characters_of, sent))
    tokens = max(1, int(plan.tokens - (before - after) * rate))
    conversation.replace(sent, tokens=tokens, request_tools=request_tools)
    return tokens


def _messages_after(conversation: Conversation, plan: CompactionPlan) -> list[Message]:
    texts: dict[int, dict[int, str]] = {}
    for digest in plan.digests:
        texts.setdefault(digest.message_index, {})[digest.result_index] = digest.text
    removed = set(map(id, plan.summarized))
    result: list[Message] = []
    for index, message in enumerate(conversation.sent):
        if plan.summarized and message is plan.summarized[0]:
            result.append(_summary_message(conversation, plan.summary or ""))
        if id(message) not in removed:
            result.append(_shortened(message, texts.get(index, {})))
            if message is conversation.refusal:
                conversation.refusal = result[-1]
    return result


def _shortened(message: Message, texts: dict[int, str]) -> Message:
    if not texts or not isinstance(message, ToolResultsMessage):
        return message
    results = [
        ToolResult(
            call_id=result.call_id, name=result.name, content=(texts[position],), is_error=result.is_error
        )
        if position in texts
        else result
        for position, result in enumerate(message.results)
    ]
    return ToolResultsMessage(results=tuple(results))


def count_turns(messages: Sequence[Message]) -> int:
    """The number of turns that begin in some messages."""
    return sum(begins_turn(messages, index) for index in range(len(messages)))


def _summary_message(conversation: Conversation, summary: str) -> UserMessage:
    return summary_message(summary, conversation.summarized_turns, tuple(conversation.verbatim.values()))


def summary_message(summary: str, turns: int, verbatim: Sequence[str] = ()) -> UserMessage:
    """The message that stands in place of earlier turns.

    Args:
        summary: The summary.
        turns: The number of turns.
        verbatim: Lines that stay word for word.
    """
    parts = [
        SUMMARY_HEADING.format(turns="an earlier turn" if turns == 1 else f"{turns} earlier turns"),
        summary.strip(),
    ]
    if verbatim:
        parts += ["", VERBATIM_HEADING, *verbatim]
    return UserMessage(content=("\n".join([parts[0], *map(break_delimiters, parts[1:]), SUMMARY_END]),))


def summarized_turns_in(message: Message) -> int | None:
    """The number of turns that a message of `summary_message` stands for; None for any other message."""
    first = message.content[0] if isinstance(message, UserMessage) and message.content else None
    found = _SUMMARY.match(first) if isinstance(first, str) else None
    return None if found is None else int(found["count"] or 1)


_SUMMARY = re.compile(r"<<<NH:SUMMARY>>>\nSummary of (?:an earlier turn|(?P<count>\d{1,9}) earlier turns),")
