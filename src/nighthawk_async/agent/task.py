"""The task of an agent: its protocol, the messages of one step, and the error for those that are too large.

The size is the reported usage of the last request and its response, plus the content added since. That
content is counted only when it could matter: a text of n UTF-8 bytes has at most n tokens. `compaction`,
which is loaded once the size has passed the threshold, replaces messages that are sent, and no others.

Their requests cannot be measured before they are sent: a task or a turn is refused when a budget has nothing
left, and reported usage is charged afterwards, so that one turn can exceed a budget.
"""

import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter
from typing import Any, Literal, Protocol, runtime_checkable

import anyio.to_thread
from msgspec import Struct

from ..configuration import Answers, Compaction, StepExecutorConfiguration
from ..errors import ContextTooLongError, ExecutionError, NighthawkError
from ..kernel.environment import find_environment
from ..observation import NodeWriter
from ..parallel import is_async_callable
from ..pickling import set_public_module
from ..ports import Model
from ..prompt.plain_text import MULTIMODAL_ITEM_TOKENS
from ..prompt.tokens import TokenCounter
from ..signatures import read_signature
from ..threads import thread_limiter
from ..types.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
from ..types.model import ModelRequest
from ..types.outcomes import OutcomeKind, StepOutcome
from ..types.quick_init import quick_init
from ..types.usage import Usage
from .answer_form import AnswerForm, flat_schema
from .outcome_codec import answer_from_mapping
from .refusals import count_readings


class ContextWindowError(ExecutionError, ContextTooLongError):
    """A request is too large for the context of its model, also after compaction. It was not sent.

    Args:
        message: The failure, naming the step, with the sizes of the parts.
        tokens: The size of the request.
        context_window: The size of the context in tokens.
        parts: The sizes of its parts in tokens, by name.
    """

    def __init__(self, message: str, *, tokens: int, context_window: int, parts: Mapping[str, int]) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.context_window = context_window
        self.parts = parts


set_public_module("executors", globals())


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


_CHATTER_CHARACTERS = 500
"""The number of characters of a text beside calls that are sent back."""

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

        Of a long text beside calls only the beginning is sent back: the calls and their results say more. A
        provider that wants its content back unchanged gets it whole.

        Args:
            message: The response.
            usage: The usage that was reported for it; None for none.
            request_tools: The number of tools in its request.
        """
        sent = _without_chatter(message)
        if sent is not message and self.sent is self.messages:
            self.sent = [*self.messages]
        self._append(message, sent)
        if self.context_window is None:
            return
        message = sent
        reported = self._size_after(message, usage)
        self._held_characters = 0
        if reported is None:
            self._count_in(message)
            return
        self._set_base(reported, request_tools)
        self._characters += characters_of(message)

    def _append(self, message: Message, sent: Message | None = None) -> None:
        self.messages.append(message)
        if self.sent is not self.messages:
            self.sent.append(sent or message)

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


def _without_chatter(message: AssistantMessage) -> AssistantMessage:
    """The response as it is sent back: of a long text beside calls, the beginning."""
    left_out = len(message.text) - _CHATTER_CHARACTERS
    if not message.tool_calls or message.provider_content is not None or left_out <= 0:
        return message
    note = f"… [{left_out:,} more characters of this text beside calls are left out]"
    return replace(message, text=message.text[:_CHATTER_CHARACTERS] + note)


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


_OTHERS = re.compile(r"\b(?:str|bytes|int|float|bool|list|dict|tuple|None)\b")


class WatchMessages(Protocol):
    """Shows an agent the messages for its model; see `AgentTask`."""

    def __call__(
        self, watcher: Callable[[tuple[UserContent, ...]], object] | None, at_most: int | None = None, /
    ) -> object:
        """Show a watcher all messages that wait, or end that; see `AgentTask`."""
        ...


def _watch_nothing(watcher: object, at_most: object = None) -> None:
    pass


def _keep_nothing(messages: Sequence[Message]) -> None:
    """Do nothing: the task is not that of a step."""


async def _refuse_bindings(bindings: Mapping[str, object]) -> None:
    raise ExecutionError(f"this task takes no values of write bindings as data: {', '.join(bindings)}")


def _begin_freely(
    call: ToolCall, execute: Callable[[ToolCall], Awaitable[ToolResult]]
) -> Callable[[], Awaitable[ToolResult]]:
    """Begin a call that nothing checks: the task is not that of a step."""
    return lambda: execute(call)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentTask:
    """One step, as an agent sees it.

    Args:
        step_id: The block.
        system_prompt: The rendered system prompt.
        user_prompt: The rendered user prompt, text and media in order.
        tools: The tools on offer, without the one that delivers the outcome.
        begin_tool_call: Begins a tool call, in order; returns an awaitable of its result.
        outcome_transport: The transport of the outcome.
        allowed_kinds: The outcome kinds the block may end with.
        raise_error_types: The names a `raise` outcome may give as `raise_error_type`.
        conclude: Validates an outcome, and passes it to checks, hooks and oversight; raises `ExecutionError`
            with the reason when it is refused, `VerificationError` when a check refuses it,
            `StepRejectedError` when a hook or oversight rejects the commit. A check that has refused too
            often refuses every further outcome.
        settings: Settings of the model's endpoint.
        max_turns: Model requests allowed.
        max_tool_calls: Tool calls allowed.
        max_corrective_turns: Malformed answers allowed.
        max_tool_argument_bytes: Bytes allowed in an outcome; `begin_tool_call` limits those of tool calls.
        turn_boundary: Await it before each model request, or, without a model, wherever the work may pause.
            It waits while the step is suspended, and raises when the step was stopped or its task was asked
            to end: let that propagate. It returns the messages that arrived for the model since the last
            call; put them into the request. Each call begins a turn.
        watch_messages: Call it with a function while a response is received, and with None at its end. The
            function gets the messages that wait for the next turn, whenever one arrives, for providers that
            take them into a running response. `turn_boundary` delivers them nevertheless, or the first of
            them: as many as a second argument says, when a provider goes on with those by itself.
        may_end: Await it before returning an outcome. It waits and raises likewise. False means that messages
            wait for the model: take another turn if one is left. An outcome returned nevertheless counts, and
            the messages are reported as undelivered.
        report_usage: Counts the usage of one model request, by model id.
        answer_form: The ways to answer the block; None for outcomes without data. Agents of your own use
            `answer_schema` and `take_answer`.
        set_bindings: Sets write bindings to values that are data, decoded JSON, as `nh_assign` would; call it
            before `conclude`. It raises `ExecutionError` naming the bad ones and their faults; the others are
            set.
        word_refusal: Phrases an error that refuses an answer for the model, with the allowed values.
        found_tools: Returns the deferred tools that the model has found so far, in the order in which they
            were found. Call it before each model request, and append them to the tools of the request: only
            then can they be called. Empty where no tools are deferred.
        site: The address of the block, `python_module:function:number`, for `ModelRequest.site`.
        conversation: The messages of the step, for the library's own agent. Agents of your own keep theirs as
            they like.
        past: The messages that the conversation begins with, before the user prompt; see
            `nighthawk_async.scope`.
        keep_messages: Keeps all messages of the conversation, those of the past included, for
            `nighthawk_async.transcript`. Call it when the work ends, in whatever way.
        answers: Whether answers that are not as they should be are read where they can mean one thing, or
            refused; see `StepExecutorConfiguration`.
        begin_native_call: Begins a call of a tool that the agent has of its own and carries out by itself,
            such as a shell. Like other calls it passes permissions, approvals, hooks, oversight and budgets,
            under the name in the call, best of the form `Agent.Tool`. The second argument is a function that
            gets the call once it is allowed, lets the agent carry it out, and returns its result. Returns an
            awaitable of the result that the agent's model is to see; for a refused call, the function is
            never called, and the result is the reason, an error.
    """

    step_id: str
    system_prompt: str
    user_prompt: tuple[UserContent, ...]
    tools: tuple[ToolDefinition, ...]
    begin_tool_call: Callable[[ToolCall], Callable[[], Awaitable[ToolResult]]]
    outcome_transport: Literal["tool", "native"]
    allowed_kinds: tuple[OutcomeKind, ...]
    raise_error_types: tuple[str, ...]
    conclude: Callable[[StepOutcome], Awaitable[object]]
    settings: Mapping[str, Any] = field(repr=False)  # may hold a key
    max_turns: int
    max_tool_calls: int
    max_corrective_turns: int
    max_tool_argument_bytes: int
    turn_boundary: Callable[[], Awaitable[tuple[UserContent, ...]]]
    may_end: Callable[[], Awaitable[bool]]
    report_usage: Callable[[str, Usage], None]
    answer_form: AnswerForm | None = None
    set_bindings: Callable[[Mapping[str, object]], Awaitable[None]] = _refuse_bindings
    word_refusal: Callable[[NighthawkError], str] = str
    found_tools: Callable[[], tuple[ToolDefinition, ...]] = tuple
    site: str = ""
    conversation: Conversation = field(default_factory=Conversation, repr=False)
    past: tuple[Message, ...] = ()
    keep_messages: Callable[[Sequence[Message]], None] = _keep_nothing
    watch_messages: WatchMessages = _watch_nothing
    begin_native_call: Callable[
        [ToolCall, Callable[[ToolCall], Awaitable[ToolResult]]], Callable[[], Awaitable[ToolResult]]
    ] = _begin_freely
    answers: Answers = "lenient"

    @property
    def form(self) -> AnswerForm:
        """The ways to answer the block."""
        return self.answer_form or AnswerForm(
            allowed_kinds=self.allowed_kinds, raise_error_types=self.raise_error_types
        )

    @property
    def answer_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of an answer: the outcome, and values of write bindings as data."""
        return flat_schema(self.form)

    async def take_answer(self, answer: Mapping[str, Any]) -> StepOutcome:
        """Set the write bindings that an answer gives as data.

        Args:
            answer: The decoded JSON of an answer, as `answer_schema` describes it.

        Returns:
            The outcome that the answer gives, to be concluded or returned.

        Raises:
            ExecutionError: It is no answer to this block; the message names the fault and its place.
        """
        parsed = answer_from_mapping(answer, self.form, is_strict=self.answers == "strict")
        count_readings(parsed.readings)
        if parsed.bindings:
            await self.set_bindings(parsed.bindings)
        return parsed.outcome


@runtime_checkable
class StepExecutionAgent(Protocol):
    """Produces the outcome of one step, by any means.

    An agent that never calls `turn_boundary` has no turns: its step can be suspended and stopped only before
    it begins and at its end, before anything is committed; when its task is asked to end it finishes, and its
    outcome counts. Messages for its model are reported as undelivered.
    """

    async def run(self, task: AgentTask) -> StepOutcome:
        """Run a step.

        Args:
            task: The step.

        Returns:
            The outcome. The write bindings are those that tool calls assigned and `set_bindings` set.

        Raises:
            ExecutionError: There is no acceptable outcome.
            ModelError: A model request failed.
        """
        ...


def objection_to_agent(agent: object) -> str | None:
    """Return the reason why an object is no agent; None when it may be one.

    Agents of other libraries also have a method `run`, which takes a prompt instead of a task.

    Args:
        agent: Any object.
    """
    run = getattr(agent, "run", None)
    if isinstance(agent, type) or not callable(run):
        return "it has no method run(task)"
    try:
        signature = read_signature(run)
    except (TypeError, ValueError):  # of a function that is not written in Python
        return None
    if not _takes_a_task([*signature.parameters.values()]):
        return f"its method run takes {signature}, not a task"
    is_async = is_async_callable(run) or is_async_callable(inspect.unwrap(run))
    if not is_async and not re.search("Awaitable|Coroutine", str(signature.return_annotation)):
        return "its method run is not `async def`"
    return None


def _takes_a_task(parameters: list[Parameter]) -> bool:
    """Whether parameters fit a call with an `AgentTask` alone, and are meant for one."""
    if not parameters or any(_is_required(each) for each in parameters[1:]):
        return False
    first = parameters[0]
    if first.kind is Parameter.VAR_POSITIONAL:
        return True
    if first.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        return False
    if first.default is not Parameter.empty and first.name != "task":
        return False
    annotation = first.annotation if isinstance(first.annotation, str) else _text_of(first.annotation)
    return "AgentTask" in annotation or _OTHERS.search(annotation) is None


def _text_of(annotation: object) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _is_required(parameter: Parameter) -> bool:
    variadic = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return parameter.default is Parameter.empty and parameter.kind not in variadic


class _BudgetedTurns(Struct, frozen=True, eq=False):
    """Begins turns that are charged."""

    plain: Callable[[], Awaitable[tuple[UserContent, ...]]]
    begin: Callable[[], Awaitable[None]]

    async def __call__(self) -> tuple[UserContent, ...]:
        messages = await self.plain()
        await self.begin()
        return messages


class _ChargedUsage(Struct, frozen=True, eq=False):
    """Counts usage and charges it."""

    plain: Callable[[str, Usage], None]
    charge: Callable[[str, Usage], Usage]

    def __call__(self, model_name: str, usage: Usage) -> None:
        counted = usage
        try:
            counted = self.charge(model_name, usage)
        finally:
            self.plain(model_name, counted)


class _ReportedUsage:
    """Counts usage and reports it to observers of the step. The requests have no nodes of their own."""

    def __init__(self, plain: Callable[[str, Usage], None], node: NodeWriter) -> None:
        self.plain = plain
        self._node = node
        self._usage: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def __call__(self, model_name: str, usage: Usage) -> None:
        self.plain(model_name, usage)
        with self._lock:
            so_far = self._usage.get(model_name, Usage()) + usage.credible()
            self._usage[model_name] = so_far
            self._node.set_usage(so_far, model=model_name)


async def foreign_task(task: AgentTask, node: NodeWriter | None) -> AgentTask:
    """The task as the user's own agent gets it.

    Args:
        task: The task.
        node: The node of the step; None without observers.

    Raises:
        BudgetExceededError: A budget allows no turn, or has nothing left; the agent may never ask.
        ConfigurationError: Under a budget of cost, an agent used a model of unknown price.
    """
    if node is not None:
        task = replace(task, report_usage=_ReportedUsage(task.report_usage, node))
    return await _budgeted_task(task)


async def _budgeted_task(task: AgentTask) -> AgentTask:
    """The task, its turns and usage charged to the active budgets; the same one without budgets."""
    environment = find_environment()
    metering = None if environment is None else environment.policies.metering
    if metering is None or not metering.is_charging:
        return task
    await metering.check_turn()
    return replace(
        task,
        turn_boundary=_BudgetedTurns(task.turn_boundary, metering.begin_turn),
        report_usage=_ChargedUsage(task.report_usage, metering.charge),
    )


def plain_task(task: AgentTask) -> AgentTask:
    """The original task: the user's own agent passed it on to one whose requests are reported and charged.

    Args:
        task: The task.
    """
    if isinstance(task.turn_boundary, _BudgetedTurns):
        task = replace(task, turn_boundary=task.turn_boundary.plain)
    while isinstance(task.report_usage, _ChargedUsage | _ReportedUsage):
        task = replace(task, report_usage=task.report_usage.plain)
    return task
