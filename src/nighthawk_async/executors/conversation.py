"""The messages of one step: all of them, those that its next request sends, and their size in tokens.

The size is the reported usage of the last request and its response, plus the content added since. That
content is counted only when it could matter: a text of n UTF-8 bytes has at most n tokens. `compaction`,
which is loaded once the size has passed the threshold, replaces messages that are sent, and no others.
"""

import json
from collections.abc import Iterable, Iterator

import anyio.to_thread

from ..configuration import Compaction, StepExecutorConfiguration
from ..ports import Model
from ..prompt.room import MULTIMODAL_ITEM_TOKENS
from ..prompt.tokens import TokenCounter
from ..threads import thread_limiter
from ..types.messages import (
    AssistantMessage,
    Message,
    ToolDefinition,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
from ..types.model import ModelRequest
from ..types.usage import Usage

_CHARACTERS_PER_TOKEN = 3
"""A low estimate, so that the room runs out early rather than late."""

_MOST_BYTES_PER_CHARACTER = 4
"""Those of a character in UTF-8."""

_MOST_CHARACTERS_PER_TOKEN = 16
"""A reported usage with more characters per token than this cannot be true."""

_LONG_CHARACTERS = 200_000
"""Longer texts are counted in a worker thread, because that would block the event loop for too long."""

_GREATEST_RESERVE = 0.5
"""The part of the context that is kept free for an answer at most."""

_FULL = 0.95
"""The part of the room at which the context counts as full, because sizes are estimates."""


_MOST_TOOL_TEXTS = 500
_TOOL_TEXTS: dict[int, tuple[ToolDefinition, str]] = {}
"""Texts of definitions of tools, by the identity of the definition, which is kept alive."""


class Conversation:
    """The conversation of one step. Where the size of the context is unknown, nothing is counted.

    Args:
        context_window: The size of the model's context in tokens; None when it is not known.
        counter: Counts tokens; None for a conversation that is never compacted.
        compaction: The settings of compaction; None for none.
        output_tokens: The number of tokens that an answer may have, and that the context must have room for.
        write_names: The names of the write bindings.

    Attributes:
        room: The size at which the context is full, room for an answer left out; 0 without a threshold.
        threshold: The size from which on the conversation is compacted; None for never.
        messages: All messages, as they were; compaction does not change them.
        sent: The messages of the next request.
        program: The message with the program; None before `begin`.
        refusal: The message with the last refusal of an outcome; None for none.
        summarized_turns: The number of turns that summaries have replaced.
        verbatim: Lines that stand in for messages that a summary replaced, by what they are about.
    """

    def __init__(
        self,
        *,
        context_window: int | None = None,
        counter: TokenCounter | None = None,
        compaction: Compaction | None = None,
        output_tokens: int = 0,
        write_names: Iterable[str] = (),
    ) -> None:
        self.context_window = context_window
        self.counter = counter
        self.compaction = compaction
        self.write_names = write_names
        self.room, self.threshold = self._limits(output_tokens)
        self._restart("")

    @classmethod
    def of_step(
        cls,
        configuration: StepExecutorConfiguration,
        model: Model | None,
        counter: TokenCounter,
        write_names: Iterable[str],
    ) -> "Conversation":
        """The conversation of a step.

        Args:
            configuration: The configuration of its executor.
            model: Its model; None when that is not known.
            counter: Counts tokens.
            write_names: The names of the write bindings.
        """
        capabilities = None if model is None else model.capabilities
        if capabilities is None or capabilities.context_window is None:
            return cls()
        settings = configuration.model_settings
        limit = settings.get("max_tokens")
        is_left_to_provider = settings.get("context_management") is not None
        return cls(
            context_window=capabilities.context_window,
            counter=counter,
            compaction=None if is_left_to_provider else configuration.compaction,
            output_tokens=limit if isinstance(limit, int) else capabilities.max_output_tokens or 0,
            write_names=write_names,
        )

    def _limits(self, output_tokens: int) -> tuple[int, int | None]:
        window, compaction = self.context_window, self.compaction
        if window is None or compaction is None or self.counter is None:
            return 0, None
        room = window - min(output_tokens, int(window * _GREATEST_RESERVE))
        return int(room * _FULL), min(int(window * compaction.threshold), room)

    def _restart(self, system_prompt: str) -> None:
        self.messages: list[Message] = []
        self.sent = self.messages  # until messages are replaced
        self.program: Message | None = None
        self.refusal: Message | None = None
        self.summarized_turns = 0
        self.verbatim: dict[str, str] = {}
        self._kept: set[int] = set()
        self._base: int | None = None  # what was reported, or estimated from that; None if nothing was
        self._tools = 0  # the number of tools that the base includes
        self._uncounted: list[Message] = []
        self._counted = 0
        self._system_characters = len(system_prompt)
        self._added_characters = self._characters = self._system_characters
        self._held_characters = 0

    def begin(self, system_prompt: str, program: UserMessage, *, past: Iterable[Message] = ()) -> None:
        """Begin the conversation, anew if there was one.

        Args:
            system_prompt: The system prompt.
            program: The message with the program.
            past: Messages before it.
        """
        self._restart(system_prompt)
        for message in past:
            self.add(message)
        self.program = program
        self.add(program, is_kept=True)

    def add(self, message: Message, *, is_kept: bool = False) -> None:
        """Add a message.

        Args:
            message: The message.
            is_kept: Whether it must never be summarised.
        """
        self._append(message)
        if is_kept:
            self._kept.add(id(message))
        if self.context_window is not None:
            self._count_in(message)

    def add_refusal(self, message: Message) -> None:
        """Add the message that refuses an outcome; it stays true until the next one."""
        self.refusal = message
        self.add(message)

    def add_response(self, message: AssistantMessage, usage: Usage | None, request_tools: int) -> None:
        """Add a response, and take the size of the conversation from its usage.

        Args:
            message: The response.
            usage: The usage that was reported for it; None for none.
            request_tools: The number of tools in its request.
        """
        self._append(message)
        if self.context_window is None:
            return
        reported = self._size_after(message, usage)
        self._held_characters = 0
        if reported is None:
            self._count_in(message)
            return
        self._set_base(reported, request_tools)
        self._characters += characters_of(message)

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        if self.sent is not self.messages:
            self.sent.append(message)

    def is_kept(self, message: Message) -> bool:
        """Whether a message must never be summarised."""
        return id(message) in self._kept

    def hold(self, content: Iterable[UserContent]) -> None:
        """Count a result that is going to be part of the next message."""
        if self.context_window is not None:
            self._held_characters += characters_in(content)

    @property
    def estimate(self) -> int:
        """An estimate of its size in tokens, without any counting."""
        added = (self._added_characters + self._held_characters) // _CHARACTERS_PER_TOKEN
        return (self._base or 0) + added

    @property
    def characters(self) -> int:
        """The number of characters that are sent, tools not included; media count by what they take."""
        return self._characters

    def may_be_due(self, request: ModelRequest) -> bool:
        """Whether the size of a request may exceed the threshold, so that it has to be counted."""
        if self.threshold is None:
            return False
        characters = self._added_characters + sum(map(len, self._uncounted_fixed(request)))
        if (self._base or 0) + _MOST_BYTES_PER_CHARACTER * characters <= self.threshold:
            return False  # as in most steps
        return self._most_tokens(request) > self.threshold

    async def find_excess(self, request: ModelRequest) -> int | None:
        """Return the size of a request in tokens if it exceeds the threshold; None if it does not."""
        tokens = await self.count(request)
        return None if self.threshold is None or tokens <= self.threshold else tokens

    async def count(self, request: ModelRequest) -> int:
        """Return the size of a request in tokens: as reported, and counted where nothing was reported."""
        uncounted = self._uncounted_texts()
        texts = [*uncounted, *self._uncounted_fixed(request)]
        counter = self.counter
        assert counter is not None
        if counter.is_loaded and sum(map(len, texts)) <= _LONG_CHARACTERS:
            counts = list(map(counter.count, texts))
        else:
            counts = await anyio.to_thread.run_sync(
                lambda: list(map(counter.count, texts)), limiter=thread_limiter()
            )
        self._counted += sum(counts[: len(uncounted)])
        fixed = sum(counts[len(uncounted) :])
        self._uncounted = []
        return (self._base or 0) + self._counted + fixed

    def replace(self, sent: Iterable[Message], *, tokens: int, request_tools: int) -> None:
        """Send other messages from now on. They are counted anew if no usage has been reported.

        Args:
            sent: The messages.
            tokens: An estimate of the size with them.
            request_tools: The number of tools that it includes.
        """
        self.sent = list(sent)
        self._characters = self._added_characters = self._system_characters
        if self._base is None:
            self._uncounted, self._counted = [], 0
            for message in self.sent:
                self._count_in(message)
        else:
            self._characters += sum(map(characters_of, self.sent))
            self._set_base(tokens, request_tools)

    def _count_in(self, message: Message) -> None:
        characters = characters_of(message)
        self._characters += characters
        self._added_characters += characters
        if isinstance(message, ToolResultsMessage):
            self._held_characters = 0
        if self.threshold is not None:
            self._uncounted.append(message)
            if not isinstance(message, AssistantMessage):
                self._counted += MULTIMODAL_ITEM_TOKENS * _count_media(message.content)

    def _set_base(self, tokens: int, request_tools: int) -> None:
        self._base, self._tools = tokens, request_tools
        self._uncounted.clear()
        self._counted = self._added_characters = 0

    def _size_after(self, message: AssistantMessage, usage: Usage | None) -> int | None:
        """The size after a response by its usage; None if that was not reported, or cannot be true."""
        if usage is None or not usage.is_complete or not usage.input_tokens:
            return None
        if usage.input_tokens * _MOST_CHARACTERS_PER_TOKEN < self._characters:
            return None
        is_sent_back = message.provider_content is not None
        output = usage.output_tokens - (0 if is_sent_back else usage.reasoning_tokens)
        return usage.input_tokens + output

    def _most_tokens(self, request: ModelRequest) -> int:
        uncounted = sum(map(_count_bytes, self._uncounted_texts()))
        fixed = sum(map(_count_bytes, self._uncounted_fixed(request)))
        return (self._base or 0) + self._counted + uncounted + fixed

    def _uncounted_texts(self) -> list[str]:
        """The texts of the messages that were not counted."""
        return [text for message in self._uncounted for text in texts_of(message)]

    def _uncounted_fixed(self, request: ModelRequest) -> Iterator[str]:
        """Yield what a request has beside its messages and what the base does not include."""
        if self._base is None:
            yield request.system_prompt
            if request.response_format is not None:
                yield _json(request.response_format.schema)
        yield from map(text_of_tool, request.tools[0 if self._base is None else self._tools :])


def texts_of(message: Message) -> Iterator[str]:
    """Yield the texts of a message."""
    if not isinstance(message, AssistantMessage):
        yield from (item for item in message.content if isinstance(item, str))
        return
    yield message.text
    if message.provider_content is not None:
        yield message.reasoning
    for call in message.tool_calls:
        yield call.name
        yield call.arguments


def characters_of(message: Message) -> int:
    """The number of characters of a message; media count by what they take."""
    if not isinstance(message, AssistantMessage):
        return characters_in(message.content)
    return sum(map(len, texts_of(message)))


def characters_in(content: Iterable[UserContent]) -> int:
    """The number of characters of some content; media count by what they take."""
    per_medium = MULTIMODAL_ITEM_TOKENS * _CHARACTERS_PER_TOKEN
    return sum([len(item) if isinstance(item, str) else per_medium for item in content])


def text_of_tool(tool: ToolDefinition) -> str:
    """The text that a tool adds to a request. Most definitions are the same objects in all steps."""
    known = _TOOL_TEXTS.get(id(tool))
    if known is not None and known[0] is tool:
        return known[1]
    text = f"{tool.name} {tool.description} {_json(tool.parameters)}"
    if len(_TOOL_TEXTS) >= _MOST_TOOL_TEXTS:
        _TOOL_TEXTS.clear()
    _TOOL_TEXTS[id(tool)] = tool, text
    return text


def _count_media(content: Iterable[UserContent]) -> int:
    return sum([not isinstance(item, str) for item in content])


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
