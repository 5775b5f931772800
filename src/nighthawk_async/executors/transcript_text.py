"""A transcript as text for people."""

from collections.abc import Iterator, Sequence

from ..recording.redaction import Redactor
from ..runtime.conversations import begins_turn
from ..types.messages import AssistantMessage, Message, ToolResultsMessage, UserContent
from ..wire.media import describe_media
from .provider_calls import native_calls_in


def shown_conversation(
    heading: str,
    system_prompt: str,
    messages: Sequence[Message],
    *,
    max_characters: int | None,
    show_secrets: bool,
) -> str:
    """Return a conversation as text.

    Args:
        heading: The first line.
        system_prompt: The system prompt.
        messages: The messages.
        max_characters: The number of characters of one text that are shown; None for all.
        show_secrets: Whether credentials, and texts that look like a key, are shown.
    """
    text = "\n\n".join([heading, *_sections(system_prompt, messages, max_characters)])
    return text if show_secrets else Redactor().redact_secrets(text)


def _sections(system_prompt: str, messages: Sequence[Message], max_characters: int | None) -> Iterator[str]:
    if system_prompt:
        yield f"── system\n{_cut(system_prompt, max_characters)}"
    turn = 0
    for index, message in enumerate(messages):
        turn += begins_turn(messages, index)
        yield "\n".join([_title(message, turn), *_lines(message, max_characters)])


def _title(message: Message, turn: int) -> str:
    if isinstance(message, AssistantMessage):
        return f"── model, turn {turn}"
    return "── results" if isinstance(message, ToolResultsMessage) else "── user"


def _lines(message: Message, max_characters: int | None) -> Iterator[str]:
    if isinstance(message, AssistantMessage):
        if message.reasoning:
            yield f"(reasoning) {_cut(message.reasoning, max_characters)}"
        if message.text:
            yield _cut(message.text, max_characters)
        for native in native_calls_in(message):
            if native.arguments:
                yield f"→ {native.name} (by the provider) {_cut(native.arguments, max_characters)}"
            if native.result:
                mark = "✗" if native.is_error else "←"
                yield f"{mark} {native.name} (by the provider) {_cut(native.result, max_characters)}"
        for call in message.tool_calls:
            yield f"→ {call.name} {_cut(call.arguments, max_characters)}"
    elif isinstance(message, ToolResultsMessage):
        for result in message.results:
            shown = " ".join(_item(item, max_characters) for item in result.content)
            yield f"{'✗' if result.is_error else '←'} {result.name} {shown}"
    else:
        for item in message.content:
            yield _item(item, max_characters)


def _item(item: UserContent, max_characters: int | None) -> str:
    return _cut(item, max_characters) if isinstance(item, str) else f"[{describe_media(item)}]"


def _cut(text: str, max_characters: int | None) -> str:
    """The beginning and the end of a text, with the number of characters left out."""
    if max_characters is None or len(text) <= max_characters:
        return text
    beginning, end = max_characters - max_characters // 2, max_characters // 2
    left_out = f" … {len(text) - max_characters:,} characters … "
    return text[:beginning] + left_out + text[len(text) - end :]
