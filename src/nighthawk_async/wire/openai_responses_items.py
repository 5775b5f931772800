"""The output items of one Responses answer: what arrived of each, and which one an event speaks of. Floor 1.

Events name their item by its place in the output and by its id, and servers disagree about both: llama.cpp
sends no places, and ids of calls only as `call_id`; others send another id in every event, or place 0 for
every item, or one id for several items. So an id that is known decides, then the place, then which item of
that type is still open.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..types.messages import ProviderContent
from .openai_responses_calls import FunctionCall
from .openai_responses_events import Item, arguments_text
from .openai_responses_input import PROTOCOL

__all__ = ["OutputItem", "OutputItems", "StreamedPart"]


@dataclass(slots=True, eq=False)
class StreamedPart:
    """The text that was handed out of one part."""

    is_refusal: bool = False
    fragments: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.fragments)

    def settle(self, whole: str) -> str:
        """Take in the whole text, and return what of it was not handed out yet."""
        text = self.text
        missing = whole[len(text) :] if whole.startswith(text) else ""
        if missing:
            self.fragments.append(missing)
        return missing

    def to_content(self) -> dict[str, Any]:
        """The part as the protocol writes it."""
        if self.is_refusal:
            return {"type": "refusal", "refusal": self.text}
        return {"type": "output_text", "text": self.text, "annotations": []}


@dataclass(slots=True, kw_only=True, eq=False)
class OutputItem:
    """One output item. `form` is the item as the server gave it when it was done."""

    type: str
    has_id: bool = False
    call: FunctionCall | None = None
    parts: dict[tuple[str, int], StreamedPart] = field(default_factory=dict[tuple[str, int], StreamedPart])
    form: Mapping[str, Any] | None = None

    def part(self, place: str, index: int, *, is_refusal: bool = False) -> StreamedPart:
        """The part at that place (`content` or `summary`) and index there."""
        part = self.parts.setdefault((place, index), StreamedPart())
        part.is_refusal |= is_refusal
        return part

    def to_provider(self) -> Mapping[str, Any] | None:
        """The item as it goes back to the provider: what was handed out of it, neither more nor less."""
        match self.type:
            case "message":
                return self._message()
            case "function_call":
                return self._function_call()
            case _:
                return self.form

    def _message(self) -> Mapping[str, Any] | None:
        parts = [part for _, part in sorted(self.parts.items()) if part.fragments]
        if not parts:
            return None
        form = self.form or {"type": "message", "role": "assistant"}
        if _texts(form.get("content")) == [part.text for part in parts]:
            return form
        return {**form, "content": [part.to_content() for part in parts]}

    def _function_call(self) -> Mapping[str, Any] | None:
        call = self.call.completed if self.call else None
        if call is None:
            return None
        form = self.form or {"type": "function_call"}
        return {**form, "call_id": call.id, "name": call.name, "arguments": call.arguments}


class OutputItems:
    """The items of one response, in their order."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self._by_id: dict[tuple[str, str], list[OutputItem]] = {}
        self._by_index: dict[int, OutputItem] = {}

    def begin(self, item: Item, index: int | None) -> OutputItem:
        """The item that an event adds."""
        return self._identify(self._insert(item.type, len(self._items)), _ids_of(item), index)

    def find(self, type: str, *, id: str | None, index: int | None) -> OutputItem:
        """The item of that type to which an event adds something; a new one when there is none."""
        found = next(reversed(self._with_id(type, id)), None) or self._at(type, index)
        if found is None and (index is None or index in self._by_index):
            found = next((each for each in reversed(self._items) if _is_open(each, type)), None)
        if found is None:
            found = self._insert(type, len(self._items))
        return self._identify(found, (id,) if id else (), index)

    def find_done(self, item: Item, index: int | None) -> OutputItem:
        """The item of which this is the final form; a new one when there is none.

        A call's form is not guessed to be that of a call with another id: it would get wrong arguments.
        """
        type, ids = item.type or "", _ids_of(item)
        named = [each for id in ids for each in self._with_id(type, id)]
        placed = self._at(type, index)
        found = next((each for each in (*named, placed) if each is not None and each.form is None), None)
        if found is None:  # the same form once more
            found = next(iter(self._with_id(type, ids[0])), None) if ids else placed
        if found is None:
            guesses = (each for each in self._items if _is_open(each, type))
            found = next((each for each in guesses if not (each.call and each.has_id and ids)), None)
        return self._identify(found or self._insert(type, len(self._items)), ids, index)

    def merge(self, output: Sequence[Item]) -> list[OutputItem]:
        """The items that the finished response lists, each matched with the one that was streamed.

        Ids decide where they agree. Otherwise the first listed item of a type is the first streamed item of
        that type, and so on, unless they are different calls: some servers give every item another id in the
        end.
        """
        matched: dict[int, OutputItem] = {}
        for position, item in enumerate(output):
            named = (each for id in _ids_of(item) for each in self._with_id(item.type or "", id))
            self._match(matched, position, named)
        for position, item in enumerate(output):
            if position not in matched:
                self._match(matched, position, (each for each in self._items if _could_be(each, item)))
        place = 0
        for position, item in enumerate(output):
            found = matched.get(position) or self._insert(item.type, place)
            matched[position] = self._identify(found, _ids_of(item), None)
            place = self._items.index(found) + 1
        return [matched[position] for position in range(len(output))]

    def to_provider_content(self) -> ProviderContent | None:
        """All items, when the provider wants more of them back than text and calls.

        Reasoning at the end is left out: the provider refuses it without the item that it led to.
        """
        items = [form for item in self._items if (form := item.to_provider()) is not None]
        while items and items[-1].get("type") == "reasoning":
            items.pop()
        if not any(_is_wanted_back(item) for item in items):
            return None
        return ProviderContent(protocol=PROTOCOL, items=tuple(items))

    def _insert(self, type: str | None, place: int) -> OutputItem:
        item = OutputItem(type=type or "")
        self._items.insert(place, item)
        return item

    def _identify(self, item: OutputItem, ids: Sequence[str], index: int | None) -> OutputItem:
        item.has_id |= bool(ids)
        for id in ids:
            named = self._by_id.setdefault((item.type, id), [])
            if item not in named:
                named.append(item)
        if index is not None:
            self._by_index[index] = item
        return item

    def _with_id(self, type: str, id: str | None) -> list[OutputItem]:
        return self._by_id.get((type, id or ""), [])

    def _at(self, type: str, index: int | None) -> OutputItem | None:
        item = self._by_index.get(index) if index is not None else None
        return item if item is not None and item.type == type else None

    def _match(self, matched: dict[int, OutputItem], position: int, found: Iterable[OutputItem]) -> None:
        taken = matched.values()
        item = next((each for each in found if each not in taken), None)
        if item is not None:
            matched[position] = item


def _is_open(item: OutputItem, type: str) -> bool:
    return item.type == type and item.form is None


def _could_be(streamed: OutputItem, listed: Item) -> bool:
    if streamed.type != listed.type or streamed.call is None:
        return streamed.type == listed.type
    call = streamed.call
    has_same_name = not call.name or call.name == listed.name
    return has_same_name and call.said_arguments in (None, arguments_text(listed.arguments))


def _ids_of(item: Item) -> tuple[str, ...]:
    return tuple(each for each in (item.id, item.call_id) if each)


def _texts(content: object) -> list[str]:
    """The texts of a message's content, where it is in the protocol's form."""
    found: list[str] = []
    for each in cast("list[object]", content) if isinstance(content, list) else ():
        if isinstance(each, Mapping):
            fields = cast("Mapping[str, Any]", each)
            found.append(str(fields.get("refusal" if fields.get("type") == "refusal" else "text") or ""))
    return [text for text in found if text]


def _is_wanted_back(item: Mapping[str, Any]) -> bool:
    """Whether an item holds more than text or a call.

    Reasoning, whatever else is encrypted (a compacted conversation), and the phase of a message, without
    which models that have phases work worse.
    """
    return item.get("type") == "reasoning" or bool(item.get("encrypted_content") or item.get("phase"))
