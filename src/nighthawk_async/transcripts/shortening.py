"""Shorter conversations: without tool calls, and with a summary in place of older turns."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, TypeAlias

from ..compaction.compaction import summary_of, text_lines
from ..compaction.plan import SUMMARY_TOKENS, summarized_turns_in, summary_message
from ..errors import ConfigurationError, TranscriptError
from ..kernel.environment import Environment, find_environment
from ..kernel.tools import OUTCOME_TOOL_NAME
from ..models.other_model import other_model
from ..ports import Model
from ..types.messages import AssistantMessage, Message, ToolCall, ToolResultsMessage, UserMessage

_CHARACTERS_PER_TOKEN = 3
"""A low estimate, so that turns that may not fit are shortened before."""

CallChoice: TypeAlias = str | Callable[[ToolCall], object]
"""The name of a tool, or a function that returns whether a call is meant."""

Summarize: TypeAlias = Callable[[str], str | Awaitable[str]]
"""A function of the text of some turns to their summary."""


def without_calls(messages: Sequence[Message], choices: Collection[CallChoice]) -> tuple[Message, ...]:
    """Return messages without some calls, and without their results.

    Args:
        messages: The messages; each call has its result.
        choices: The calls to drop; empty for all but those that deliver an outcome.

    Raises:
        TypeError: A choice is neither a name nor a function.
    """
    for choice in choices:
        if not isinstance(choice, str) and not callable(choice):
            raise TypeError(f"without_calls takes names of tools and functions of a call, not {choice!r}")
    kept: list[Message] = []
    dropped: frozenset[int] = frozenset()
    for message in messages:
        match message:
            case AssistantMessage():
                dropped = frozenset(
                    position for position, call in enumerate(message.tool_calls) if _is_chosen(call, choices)
                )
                _add_response(kept, _without(message, dropped) if dropped else message)
            case ToolResultsMessage():
                results = [each for place, each in enumerate(message.results) if place not in dropped]
                if results:
                    kept.append(ToolResultsMessage(results=tuple(results)) if dropped else message)
            case UserMessage():
                kept.append(message)
    return tuple(kept)


def _is_chosen(call: ToolCall, choices: Collection[CallChoice]) -> bool:
    if not choices:
        return call.name != OUTCOME_TOOL_NAME
    return any(call.name == choice if isinstance(choice, str) else choice(call) for choice in choices)


def _without(message: AssistantMessage, dropped: Collection[int]) -> AssistantMessage | None:
    """The response without some calls; None when nothing is left of it.

    What the provider wants back holds the calls, signed in part, so it goes with them, and the reasoning too.
    """
    calls = tuple(call for position, call in enumerate(message.tool_calls) if position not in dropped)
    left = replace(message, tool_calls=calls, reasoning="", provider_content=None)
    return left if calls or left.text.strip() or left.media else None


def _add_response(kept: list[Message], response: AssistantMessage | None) -> None:
    """Add a response; one that now follows another directly becomes a part of it, as providers demand."""
    if response is None:
        return
    before = kept[-1] if kept else None
    if not isinstance(before, AssistantMessage) or before.tool_calls or before.provider_content is not None:
        kept.append(response)
        return
    kept[-1] = AssistantMessage(
        text="\n\n".join(filter(None, (before.text, response.text))),
        tool_calls=response.tool_calls,
        media=(*before.media, *response.media),
        citations=(*before.citations, *response.citations),
    )


async def compacted(
    opening: Sequence[Message],
    turns: Sequence[Sequence[Message]],
    *,
    summarize: Summarize | None,
    model: Model | str | None,
    place: str,
) -> tuple[Message, ...]:
    """Return the opening, and a summary in place of turns.

    Args:
        opening: The messages before the first response, which may end with an earlier summary.
        turns: The turns to summarise; at least one.
        summarize: The function that summarises; None for a model.
        model: The model that summarises; None for that of the run.
        place: The transcript, for errors.

    Raises:
        TranscriptError: The function has given no summary.
        ConfigurationError: There is no model, or both a model and a function.
        ModelError: The request failed.
        BudgetExceededError: A budget has no room for it.
        ExecutionError: The model has given no summary, or the turns are too long for it.
    """
    if summarize is not None and model is not None:
        raise ConfigurationError("compacted has both summarize=… and model=…; give one of them.")
    counts = [summarized_turns_in(message) for message in opening]
    end = next((index for index, count in enumerate(counts) if count is not None), len(opening))
    # What follows an earlier summary was said to a turn that is summarised now.
    staying, messages = opening[:end], [*opening[end:], *(message for turn in turns for message in turn)]
    count = len(turns) + sum(filter(None, counts))
    if summarize is not None:
        summary = await _summary_of_function(summarize, messages, place)
    else:
        summary = await _summary_of_model(model, messages, staying, place)
    return (*staying, summary_message(summary, count))


async def _summary_of_function(summarize: Summarize, messages: Iterable[Message], place: str) -> str:
    given = summarize("\n".join(text_lines(messages)))
    return _checked_summary(await given if isawaitable(given) else given, place)


def _checked_summary(given: object, place: str) -> str:
    if not isinstance(given, str) or not given.strip():
        what = f"{type(given).__name__!r}" if not isinstance(given, str) else "an empty text"
        raise TranscriptError(f"{place}: the function that summarises must return a text, and gave {what}")
    return given.strip()


async def _summary_of_model(
    model: Model | str | None, messages: Sequence[Message], opening: Iterable[Message], place: str
) -> str:
    environment = find_environment()
    asked, settings = _asked(model, environment)
    texts = (item for message in opening for item in message.content if isinstance(item, str))
    return await summary_of(
        messages,
        model=asked,
        settings=settings,
        program="\n".join(texts),
        rate=1 / _CHARACTERS_PER_TOKEN,
        max_tokens=min(SUMMARY_TOKENS, (asked.capabilities.context_window or SUMMARY_TOKENS * 10) // 10),
        place=place,
        report=_nobody if environment is None else environment.usage_meter.add,
    )


def _asked(model: Model | str | None, environment: Environment | None) -> tuple[Model, Mapping[str, Any]]:
    """The model to ask, and the settings of its requests."""
    if model is not None and not isinstance(model, str):
        return model, {}
    executor = None if environment is None else environment.step_executor
    configuration: Any = getattr(executor, "configuration", None)
    of_run: Model | None = getattr(executor, "model", None)
    if of_run is None:
        raise ConfigurationError(
            "compacted needs a model, and there is no run with one here: open a run, or give a Model as "
            "model=… "
            "or a function as summarize=…."
        )
    compaction = None if configuration is None else configuration.compaction
    model_id = model or (None if compaction is None else compaction.model)
    return other_model(model_id, of_run, {} if configuration is None else configuration.model_settings)


def _nobody(model_name: str, usage: object) -> None:
    """Counts for nobody, outside of every run."""
