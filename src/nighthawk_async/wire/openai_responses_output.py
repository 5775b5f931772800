"""Model events out of the output of one Responses answer, as it arrives.

It knows what the model said and called, and not how the answer ended. What comes only in an item's final
form, or only in the finished response, and never came in pieces, is handed out once.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from ..types.messages import ProviderContent
from ..types.model import ModelEvent, ReasoningDelta, TextDelta
from .openai_responses_calls import FunctionCalls
from .openai_responses_events import Event, Item, Part, arguments_text, decode_as, text_parts
from .openai_responses_items import OutputItem, OutputItems
from .response_json import is_something

__all__ = ["ResponseOutput", "is_output_event"]

_TEXTS = {
    "response.output_text": ("message", "content"),
    "response.refusal": ("message", "content"),
    "response.reasoning_text": ("reasoning", "content"),
    "response.reasoning_summary_text": ("reasoning", "summary"),
}
"""For each kind of text, by the beginning of its events' names: the type of its item, and its place there."""

_OTHERS = frozenset({"response.content_part", "response.function_call_arguments", "response.output_item"})


def is_output_event(name: str) -> bool:
    """Whether events of that name bring output that this library understands.

    Args:
        name: The event's type.
    """
    stem = name.rpartition(".")[0]
    return stem in _TEXTS or stem in _OTHERS


class ResponseOutput:
    """The output of one answer so far."""

    def __init__(self) -> None:
        self._items = OutputItems()
        self._calls = FunctionCalls()
        self._has_text = False
        self._has_refusal = False

    @property
    def has_calls(self) -> bool:
        """Whether a call was handed out as complete."""
        return self._calls.has_completed

    @property
    def waiting_calls(self) -> int:
        """The number of calls that have begun and were not emitted."""
        return self._calls.waiting

    @property
    def is_refusal(self) -> bool:
        """Whether the model said nothing but that it refuses."""
        return self._has_refusal and not self._has_text

    def feed(self, name: str, event: Event) -> list[ModelEvent]:
        """Take in one event of the stream; unknown ones are ignored.

        Args:
            name: The event's type.
            event: The event.

        Raises:
            ModelProtocolError: What the event holds is not what its type promises.
        """
        stem, _, ending = name.rpartition(".")
        if stem in _TEXTS and ending in ("delta", "done"):
            return self._take_text(stem, event, is_whole=ending == "done")
        match name:
            case "response.output_item.added" if is_something(event.item):
                return self._begin_item(decode_as(Item, event.item), event.output_index)
            case "response.output_item.done" if is_something(event.item):
                item = decode_as(Item, event.item)
                return self._take_item(self._items.find_done(item, event.output_index), item, event.item)
            case "response.content_part.done" if is_something(event.part):
                return self._take_part(event, decode_as(Part, event.part))
            case "response.function_call_arguments.delta" | "response.function_call_arguments.done":
                return self._take_arguments(event)
            case _:
                return []

    def finish(self, output: Sequence[msgspec.Raw], *, is_cut_off: bool) -> list[ModelEvent]:
        """Take note that the response is finished.

        Args:
            output: The items that the finished response lists; some servers list none.
            is_cut_off: Whether it was stopped on its way; then calls that were not done are dropped.

        Raises:
            ModelProtocolError: An item is not what its type promises, or a complete call has no name.
        """
        items = [decode_as(Item, raw) for raw in output]
        events: list[ModelEvent] = []
        for found, item, raw in zip(self._items.merge(items), items, output, strict=True):
            events += self._take_item(found, item, raw)
        return events + self._calls.finish(is_cut_off=is_cut_off)

    def to_provider_content(self) -> ProviderContent | None:
        """The output in the provider's form, when it wants more of it back than text and calls."""
        return self._items.to_provider_content()

    def _find(self, type: str, event: Event) -> OutputItem:
        return self._items.find(type, id=event.item_id, index=event.output_index)

    def _take_text(self, stem: str, event: Event, *, is_whole: bool) -> list[ModelEvent]:
        type_of_item, place = _TEXTS[stem]
        index = event.summary_index if place == "summary" else event.content_index
        item = self._find(type_of_item, event)
        if is_whole:
            part = Part(type=stem.rpartition(".")[2], text=event.text, refusal=event.refusal)
            return self._settle(item, place, index or 0, part)
        if not event.delta:
            return []
        is_refusal = stem == "response.refusal"
        item.part(place, index or 0, is_refusal=is_refusal).add(event.delta)
        return self._hand_out(item, event.delta, is_refusal=is_refusal)

    def _take_part(self, event: Event, part: Part) -> list[ModelEvent]:
        item = self._find("reasoning" if part.type == "reasoning_text" else "message", event)
        return self._settle(item, "content", event.content_index or 0, part)

    def _settle(self, item: OutputItem, place: str, index: int, part: Part) -> list[ModelEvent]:
        streamed = item.part(place, index, is_refusal=part.is_refusal)
        return self._hand_out(item, streamed.settle(part.whole), is_refusal=part.is_refusal)

    def _hand_out(self, item: OutputItem, text: str, *, is_refusal: bool) -> list[ModelEvent]:
        if not text:
            return []
        if item.type == "reasoning":
            return [ReasoningDelta(text=text)]
        self._has_refusal |= is_refusal
        self._has_text |= not is_refusal
        return [TextDelta(text=text)]

    def _begin_item(self, item: Item, index: int | None) -> list[ModelEvent]:
        begun = self._items.begin(item, index)
        if item.type != "function_call":
            return []
        begun.call = self._calls.begin()
        return self._calls.describe(begun.call, id=item.call_id or "", name=item.name or "")

    def _take_arguments(self, event: Event) -> list[ModelEvent]:
        item = self._find("function_call", event)
        item.call = item.call or self._calls.begin()
        events = self._calls.describe(item.call, id="", name=event.name or "")
        if event.delta is not None:
            return events + self._calls.add(item.call, event.delta)
        return events + self._calls.conclude(item.call, arguments_text(event.arguments), is_call_done=False)

    def _take_item(self, found: OutputItem, item: Item, raw: msgspec.Raw) -> list[ModelEvent]:
        """Take in the final form of an item: of each, only what its pieces did not bring already."""
        found.form = found.form or decode_as(dict[str, Any], raw)
        if item.type == "function_call":
            return self._take_call(found, item)
        events: list[ModelEvent] = []
        if item.type in ("message", "reasoning"):
            for place, parts in (("summary", item.summary), ("content", item.content)):
                for index, part in enumerate(text_parts(parts)):
                    events += self._settle(found, place, index, part)
        return events

    def _take_call(self, found: OutputItem, item: Item) -> list[ModelEvent]:
        call = found.call = found.call or self._calls.begin()
        if item.status == "incomplete":
            return self._calls.drop(call)
        events = self._calls.describe(call, id=item.call_id or item.id or "", name=item.name or "")
        return events + self._calls.conclude(call, arguments_text(item.arguments), is_call_done=True)
