"""The transcript of a step: its whole conversation with a model, as a value and as text for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..agent.provider_calls import native_calls_in
from ..errors import TranscriptError
from ..kernel.tools import OUTCOME_TOOL_NAME
from ..kernel.usage_meter import LastStep, begins_turn, find_last_step
from ..lazy_exports import LazyModule
from ..recording.redaction import Redactor
from ..types.messages import (
    AssistantMessage,
    Citation,
    Message,
    ToolCall,
    ToolResult,
    ToolResultsMessage,
    UserContent,
    UserMessage,
)
from ..types.outcomes import OutcomeKind
from ..types.usage import Usage
from ..wire.media import describe_media
from .file import read_transcript, transcript_json

if TYPE_CHECKING:
    from ..ports import Model
    from . import shortening
    from .shortening import CallChoice, Summarize
else:
    shortening = LazyModule(f"{__package__}.shortening")  # few transcripts are made shorter


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
        for medium in message.media:
            yield f"[made {_item(medium, max_characters)[1:]}"
        for citation in message.citations:
            yield f"(cites) {_cut(_source(citation), max_characters)}"
    elif isinstance(message, ToolResultsMessage):
        for result in message.results:
            shown = " ".join(_item(item, max_characters) for item in result.content)
            yield f"{'✗' if result.is_error else '←'} {result.name} {shown}"
    else:
        for item in message.content:
            yield _item(item, max_characters)


def _item(item: UserContent, max_characters: int | None) -> str:
    return _cut(item, max_characters) if isinstance(item, str) else f"[{describe_media(item)}]"


def _source(citation: Citation) -> str:
    named = (citation.title, citation.url, citation.file_id, citation.location)
    quoted = f": {citation.cited_text!r}" if citation.cited_text else ""
    return " · ".join(filter(None, named)) + quoted


def _cut(text: str, max_characters: int | None) -> str:
    """The beginning and the end of a text, with the number of characters left out."""
    if max_characters is None or len(text) <= max_characters:
        return text
    beginning, end = max_characters - max_characters // 2, max_characters // 2
    left_out = f" … {len(text) - max_characters:,} characters … "
    return text[:beginning] + left_out + text[len(text) - end :]


_SHOWN_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Transcript:
    """The conversation of one step with its model; `nighthawk_async.transcript` makes it.

        await triage(mail)
        transcript = nh.transcript()
        transcript.save("triage.json")
        with nh.scope(past=nh.Transcript.load("triage.json")[:-1]):
            await triage(mail)  # begins with the conversation, without its last turn

    A turn is one response of the model, with the messages to it since the response before and the results of
    its calls; what the provider sent after a pause belongs to it. `len` is the number of turns, and a slice
    keeps some of them: `transcript[:-1]`. The messages before the first response, which have the program and
    its values, always stay.

    Every call has its result: calls that had none when the step ended get one that says so, and the accepted
    outcome gets `accepted`.

    Args:
        step_id: The block, `python_module:line`.
        model: The id of the model; empty for an agent of the program's own.
        system_prompt: The system prompt.
        messages: The messages, oldest first, those of the step's own past included.
        tools: The names of the tools that were offered, without the one that delivers the outcome.
        usage: The usage of the step, including that of the steps that its tool calls executed.
        outcome: The kind of the outcome; None for a step that failed or was cancelled, and when the last turn
            was trimmed.
        error: The error of the step, in words; `cancelled` for a cancelled one, and otherwise None.

    Raises:
        TranscriptError: A call has no result, or a result has no call.
    """

    step_id: str
    model: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    outcome: OutcomeKind | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        _check_pairs(self.messages)

    def __len__(self) -> int:
        return sum(begins_turn(self.messages, index) for index in range(len(self.messages)))

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, turns: slice) -> "Transcript":
        """Return the transcript with these turns only, and with the messages before the first one.

        Args:
            turns: A slice of neighbouring turns.

        Raises:
            TypeError: It is no such slice.
        """
        if not isinstance(cast("object", turns), slice) or turns.step not in (None, 1):
            raise TypeError(f"A transcript takes a slice of turns, as in transcript[:-1], not {turns!r}.")
        opening, all_turns = _split(self.messages)
        start, stop, _ = turns.indices(len(all_turns))
        kept = all_turns[start:stop]
        messages = (*opening, *(message for turn in kept for message in turn))
        is_end_kept = not all_turns or (bool(kept) and stop == len(all_turns))
        return replace(
            self,
            messages=messages,
            outcome=self.outcome if is_end_kept else None,
            error=self.error if is_end_kept else None,
        )

    def __str__(self) -> str:
        return self.show()

    def __repr__(self) -> str:
        end = f"error={self.error!r}" if self.error is not None else f"outcome={self.outcome!r}"
        return f"<Transcript of {self.step_id!r}, model={self.model!r}, turns={len(self)}, {end}>"

    def trimmed(self, *, turns: int) -> "Transcript":
        """Return the transcript with its last turns only, and with the messages before the first one.

        Args:
            turns: The number of turns to keep; all if there are fewer.

        Raises:
            ValueError: The number is negative.
        """
        if turns < 0:
            raise ValueError(f"turns must be at least 0, not {turns}; transcript[:-1] drops the last turn")
        return self[max(len(self) - turns, 0) :]

    def without_calls(self, *calls: "CallChoice") -> "Transcript":
        """Return the transcript without tool calls, and without their results.

            transcript.without_calls()  # all of them, but for those that delivered outcomes
            transcript.without_calls("nh_exec", lambda call: call.name.startswith("tracker_"))

        What is left is a conversation that every provider takes: each call that stays has its result, a
        response of which nothing is left goes, and one that now follows another directly becomes a part of
        it. The reasoning of a response that loses calls goes with them, since the provider signs it together
        with the calls. Calls that the provider carried out by itself stay.

        Args:
            *calls: The calls to drop: names of tools, and functions that return whether a `ToolCall` is
                meant. None for all calls but `nh_outcome`, whose arguments are the model's answers.

        Raises:
            TypeError: One of them is neither a name nor a function.
        """
        return replace(self, messages=shortening.without_calls(self.messages, calls))

    async def compacted(
        self,
        *,
        keep_turns: int = 4,
        summarize: "Summarize | None" = None,
        model: "Model | str | None" = None,
    ) -> "Transcript":
        """Return the transcript with a summary in place of its older turns.

            short = await transcript.compacted(keep_turns=2)
            with nh.scope(past=short):
                ...

        The summary is a message of the form that the compaction of a step's conversation gives it. An earlier
        summary is summarised anew. The messages before the first response stay, and so do the last turns,
        whole. A transcript without older turns is returned as it is; nothing is asked then.

        A model is asked as by a step: within the budgets of the run, seen by its hooks, recorded by cassettes
        and journals, counted in `nh.runtime.get_usage_meter()`. Long tool results are digested first where
        the turns would not fit its context.

        Args:
            keep_turns: The number of last turns that stay.
            summarize: A function of the text of the older turns to their summary; an async function, a
                natural function or a plain one.
            model: The model that summarises, in place of a function: a model, or the id of one in a run. None
                for the model that summarises the conversations of steps in the run (`Compaction.model`),
                which is the one of the run by default.

        Raises:
            ValueError: The number is negative.
            ConfigurationError: There is no model, or both a model and a function.
            TranscriptError: The function has given no summary.
            ContextTooLongError: The older turns are too long for the model.
            ModelError: The request failed.
            BudgetExceededError: A budget has no room for it.
            ExecutionError: The model has given no summary.
        """
        if keep_turns < 0:
            raise ValueError(f"keep_turns must be at least 0, not {keep_turns}")
        opening, turns = _split(self.messages)
        older = turns[: max(len(turns) - keep_turns, 0)]
        if not older:
            return self
        place = f"transcript of {self.step_id}"
        beginning = await shortening.compacted(opening, older, summarize=summarize, model=model, place=place)
        return replace(self, messages=(*beginning, *(each for turn in turns[len(older) :] for each in turn)))

    def show(self, *, max_characters: int | None = _SHOWN_CHARACTERS, show_secrets: bool = False) -> str:
        """Return the conversation as text for people; media are described.

        Args:
            max_characters: The number of characters of one text that are shown; None for all.
            show_secrets: Whether credentials of providers, and texts that look like a key, are shown.

        Raises:
            ValueError: The number is negative.
        """
        if max_characters is not None and max_characters < 0:
            raise ValueError(f"max_characters must be at least 0 or None, not {max_characters}")

        return shown_conversation(
            self._heading,
            self.system_prompt,
            self.messages,
            max_characters=max_characters,
            show_secrets=show_secrets,
        )

    @property
    def _heading(self) -> str:
        turns = f"{len(self)} turn" if len(self) == 1 else f"{len(self)} turns"
        end = self.error or self.outcome or "no outcome"
        return " · ".join(filter(None, (f"step {self.step_id}", self.model, turns, str(self.usage), end)))

    def to_json(self, *, show_secrets: bool = False) -> str:
        """Return the transcript as JSON, which `from_json` reads; media are base64.

        Prompts and tool results hide the values with secret names already, as the model saw them.

        Args:
            show_secrets: Whether credentials of providers, and texts that look like a key, are kept. Without
                them the text may differ from the one that the model saw.
        """
        return transcript_json(
            {
                "step_id": self.step_id,
                "model": self.model,
                "system_prompt": self.system_prompt,
                "messages": self.messages,
                "tools": self.tools,
                "usage": self.usage,
                "outcome": self.outcome,
                "error": self.error,
            },
            show_secrets=show_secrets,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> "Transcript":
        """Return the transcript that a text holds.

        Args:
            text: The text of `to_json`.

        Raises:
            TranscriptError: It is no transcript of this version; the message names the place of the fault.
        """
        return cls(**read_transcript(text))

    def save(self, path: str | PathLike[str], *, show_secrets: bool = False) -> None:
        """Write the transcript to a file, as `to_json` does; no reader sees it half written.

        Writes at once: in async code, call it in a worker thread when the transcript may be large.

        Args:
            path: The file; its folder is created if it is missing.
            show_secrets: As for `to_json`.

        Raises:
            OSError: The file cannot be written.
        """
        from ..recording.file import write_atomically

        write_atomically(Path(path), self.to_json(show_secrets=show_secrets))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Transcript":
        """Return the transcript in a file.

        Args:
            path: The file.

        Raises:
            OSError: The file cannot be read.
            TranscriptError: It holds no transcript of this version; the message names the place of the fault.
        """
        content = Path(path).read_bytes()
        try:
            return cls.from_json(content)
        except TranscriptError as error:
            raise TranscriptError(f"{path}: {error}") from error.__cause__


def transcript() -> Transcript:
    """Return the transcript of the last step of the current task, whether it has succeeded or failed.

    The last step is the last one that the code of this task awaited, or called in synchronous code: after
    `await triage(mail)` that of the last block that `triage` executed, also in an `except` clause and after a
    cancellation. Steps of other tasks, those of combinators and tool calls included, are the last ones there;
    let these tasks return their transcripts. A task keeps the conversation of its last step until it begins
    another one.

    Raises:
        TranscriptError: No step has ended in the task, or the last one had no conversation with a model.
    """
    last = find_last_step()
    if last is None:
        raise TranscriptError(
            "No step has ended in this task. Call nighthawk_async.transcript in the task that awaits it."
        )
    if last.conversation is None or last.usage_meter is None:
        reason = "its executor asks no model" if last.error is None else f"it failed before: {last.error}"
        what = f"step {last.step_id}: no conversation with a model"
        raise TranscriptError(f"{what}; {reason}").without_content(what)
    conversation = last.conversation
    return Transcript(
        step_id=last.step_id,
        model=conversation.model,
        system_prompt=conversation.system_prompt,
        messages=tuple(_with_all_results(conversation.messages, last)),
        tools=conversation.tools,
        usage=last.usage_meter.usage,
        outcome=last.outcome,
        error=last.error,
    )


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """The messages before the first response, and the turns. What follows the last turn belongs to it."""
    opening: list[Message] = []
    turns: list[list[Message]] = []
    before: list[Message] = []  # messages to the next response
    for index, message in enumerate(messages):
        match message:
            case AssistantMessage() if begins_turn(messages, index):
                turns.append([*before, message])
                before = []
            case AssistantMessage() | ToolResultsMessage():
                turns[-1].append(message)
            case UserMessage():
                (before if turns else opening).append(message)
    if turns:
        turns[-1] += before
    return opening, turns


def _with_all_results(messages: Sequence[Message], last: LastStep) -> Iterator[Message]:
    """Yield messages, with a result for each of the last calls that the end of the step left without one."""
    end = len(messages)
    is_answered_in_part = end > 1 and isinstance(messages[-1], ToolResultsMessage)
    asking = messages[-2] if is_answered_in_part else messages[-1] if messages else None
    if not isinstance(asking, AssistantMessage) or not asking.tool_calls:
        yield from messages
        return
    known = list(messages[-1].results) if isinstance(messages[-1], ToolResultsMessage) else []
    yield from messages[: end - 1] if is_answered_in_part else messages
    results: list[ToolResult] = []
    for call in asking.tool_calls:
        is_known = bool(known) and known[0].call_id == call.id
        results.append(known.pop(0) if is_known else _result_at_end(call, last))
    yield ToolResultsMessage(results=(*results, *known))


def _result_at_end(call: ToolCall, last: LastStep) -> ToolResult:
    """The result of a call that was not answered, because the step ended."""
    is_outcome = call.name == OUTCOME_TOOL_NAME
    if is_outcome and last.error is None:
        return ToolResult(call_id=call.id, name=call.name, content=("accepted",))
    reason = "not accepted; the step failed" if is_outcome else "no result; the step ended before"
    text = f"{reason}: {last.error}" if last.error is not None else reason
    return ToolResult(call_id=call.id, name=call.name, content=(text,), is_error=True)


def _check_pairs(messages: Sequence[Message]) -> None:
    """Check that the results of each response follow it, one for each call and in the same order.

    Raises:
        TranscriptError: They do not, or something is no message.
    """
    asked: list[str] = []
    for number, message in enumerate(messages):
        given: list[str] = []
        if isinstance(message, ToolResultsMessage):
            given = [result.call_id for result in message.results]
        elif not isinstance(cast("object", message), UserMessage | AssistantMessage):
            raise TranscriptError(f"messages[{number}] is no message: {type(message).__name__!r}")
        if given != asked:
            raise TranscriptError(
                f"messages[{number}] must hold the results of the calls before it: it has results of "
                f"{given}, and the calls are {asked}"
            )
        asked = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    if asked:
        raise TranscriptError(f"the last message has calls without results: {asked}")
