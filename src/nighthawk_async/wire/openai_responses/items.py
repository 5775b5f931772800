"""The output items of one Responses answer: their content so far, and the matching of events to items.

Events name their item by its place in the output and by its id, and servers disagree about both: llama.cpp
sends no places, and ids of calls only as `call_id`; others send another id in every event, or place 0 for
every item, or one id for several items. So an id that is known decides, then the place, then which item of
that type is still open.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...types.json import is_json_list, is_json_mapping
from ...types.messages import ProviderContent
from .events import FunctionCall, Item, arguments_text
from .input import PROTOCOL, SEARCH_ITEMS
from .native_tools import NATIVE_ITEMS


@dataclass(slots=True, eq=False)
class StreamedPart:
    """The text of one part that was emitted, whether its citations were, and its place in the answer."""

    is_refusal: bool = False
    fragments: list[str] = field(default_factory=list[str])
    characters: int = 0
    begins_at: int = 0
    is_cited: bool = False

    def add(self, text: str, *, begins_at: int = 0) -> None:
        """Add more of the text; `begins_at` is its place in the text of the answer."""
        if not self.fragments:
            self.begins_at = begins_at
        self.fragments.append(text)
        self.characters += len(text)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self.fragments)

    def settle(self, whole: str, *, begins_at: int = 0) -> str:
        """Set the whole text, and return the part that was not emitted yet."""
        if len(whole) <= self.characters:  # usually; a server may repeat it with every event
            return ""
        text = self.text
        missing = whole[len(text) :] if whole.startswith(text) else ""
        if missing:
            self.add(missing, begins_at=begins_at)
        return missing

    def to_content(self) -> dict[str, Any]:
        """The part in the protocol's form."""
        if self.is_refusal:
            return {"type": "refusal", "refusal": self.text}
        return {"type": "output_text", "text": self.text, "annotations": []}


@dataclass(slots=True, kw_only=True, eq=False)
class OutputItem:
    """One output item. `form` is the item as the server sent it when it was done.

    `is_started` concerns native calls: whether their beginning was emitted.
    """

    type: str
    ids: set[str] = field(default_factory=set[str])
    call: FunctionCall | None = None
    parts: dict[tuple[str, int], StreamedPart] = field(default_factory=dict[tuple[str, int], StreamedPart])
    form: Mapping[str, Any] | None = None
    is_taken: bool = False
    is_started: bool = False

    def part(self, place: str, index: int, *, is_refusal: bool = False) -> StreamedPart:
        """The part at that place (`content` or `summary`) and index there."""
        part = self.parts.setdefault((place, index), StreamedPart())
        part.is_refusal |= is_refusal
        return part

    def to_provider(self) -> Mapping[str, Any] | None:
        """The item to send back to the provider: exactly the emitted content."""
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


class _Candidates:
    """Finds the first item for which a condition still holds; for an item, it stops holding once and for all.

    Each item is skipped only once, however many there are and however often one is searched.
    """

    __slots__ = ("_holds", "_items", "_position")

    def __init__(self, items: list[OutputItem], holds: Callable[[OutputItem], bool]) -> None:
        self._items = items
        self._holds = holds
        self._position = 0

    def first(self) -> OutputItem | None:
        items = self._items
        while self._position < len(items) and not self._holds(items[self._position]):
            self._position += 1
        return items[self._position] if self._position < len(items) else None


class _ItemsOfId:
    """The items with one id, in the order in which they got it."""

    __slots__ = ("_items", "open_ones", "untaken_ones")

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self.open_ones = _Candidates(self._items, _is_open)
        self.untaken_ones = _Candidates(self._items, _is_untaken)

    def add(self, item: OutputItem) -> None:
        self._items.append(item)

    def first(self) -> OutputItem | None:
        return self._items[0] if self._items else None

    def last(self) -> OutputItem | None:
        return self._items[-1] if self._items else None


class _ItemsOfType:
    """The items of one type, in order."""

    __slots__ = ("_items", "_latest", "guessable_ones", "open_ones")

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self._latest: list[OutputItem] = []
        self.open_ones = _Candidates(self._items, _is_open)
        self.guessable_ones = _Candidates(self._items, _is_guessable)

    def add(self, item: OutputItem) -> None:
        self._items.append(item)
        self._latest.append(item)

    def last_open(self) -> OutputItem | None:
        while self._latest and not _is_open(self._latest[-1]):
            self._latest.pop()
        return self._latest[-1] if self._latest else None


class _SimilarItems:
    """The streamed items that may be the same as a listed one.

    These are the items of its type; of calls, those whose name and arguments are the same or unknown.
    """

    def __init__(self, streamed: Sequence[OutputItem]) -> None:
        self._positions = {id(item): position for position, item in enumerate(streamed)}
        groups: defaultdict[tuple[str | None, ...], list[OutputItem]] = defaultdict(list)
        for item in streamed:
            groups[_outline(item)].append(item)
        self._candidates = {key: _Candidates(items, _is_untaken) for key, items in groups.items()}

    def first(self, listed: Item) -> OutputItem | None:
        """The first of them that is not taken yet."""
        type = listed.type or ""
        keys: list[tuple[str | None, ...]] = [(type,)]
        if type == "function_call":
            arguments = arguments_text(listed.arguments)
            keys += [(type, name, said) for name in ("", listed.name) for said in (None, arguments)]
        found = (self._candidates[key].first() for key in dict.fromkeys(keys) if key in self._candidates)
        similar = [each for each in found if each is not None]
        return min(similar, key=lambda item: self._positions[id(item)], default=None)


def _outline(item: OutputItem) -> tuple[str | None, ...]:
    return (item.type,) if item.call is None else (item.type, item.call.name, item.call.said_arguments)


def _is_open(item: OutputItem) -> bool:
    return item.form is None


def _is_guessable(item: OutputItem) -> bool:
    """Whether an item is open and, if it is a call, its id did not come yet."""
    return item.form is None and not (item.call and item.ids)


def _is_untaken(item: OutputItem) -> bool:
    return not item.is_taken


class OutputItems:
    """The items of one response, in their order."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []
        self._by_type: defaultdict[str, _ItemsOfType] = defaultdict(_ItemsOfType)
        self._by_id: defaultdict[tuple[str, str], _ItemsOfId] = defaultdict(_ItemsOfId)
        self._by_index: dict[int, OutputItem] = {}

    def begin(self, item: Item, index: int | None) -> OutputItem:
        """The item that an event adds."""
        return self._identify(self._append(item.type), _ids_of(item), index)

    def find(self, type: str, *, id: str | None, index: int | None) -> OutputItem:
        """The item of that type to which an event adds something; a new one when there is none."""
        found = self._by_id[type, id].last() if id else None
        found = found or self._at(type, index)
        if found is None and (index is None or index in self._by_index):
            found = self._by_type[type].last_open()
        return self._identify(found or self._append(type), (id,) if id else (), index)

    def find_done(self, item: Item, index: int | None) -> OutputItem:
        """The item of which this is the final form; a new one when there is none.

        A call's form is never assigned to a call with another id, which would get wrong arguments.
        """
        type, ids = item.type or "", _ids_of(item)
        named = (self._by_id[type, id].open_ones.first() for id in ids)
        placed = self._at(type, index)
        found = next((each for each in (*named, placed) if each is not None and _is_open(each)), None)
        if found is None:  # the same form again
            found = self._by_id[type, ids[0]].first() if ids else placed
        if found is None:
            of_type = self._by_type[type]
            found = (of_type.guessable_ones if ids else of_type.open_ones).first()
        return self._identify(found or self._append(type), ids, index)

    def merge(self, output: Sequence[Item]) -> list[OutputItem]:
        """The items that the finished response lists, each matched with the one that was streamed.

        Ids decide if they agree. Otherwise the first listed item of a type is the first streamed item of that
        type, and so on, unless they are different calls: some servers give every item a different id at the
        end.
        """
        matched: dict[int, OutputItem] = {}
        for position, item in enumerate(output):
            named = (self._by_id[item.type or "", id].untaken_ones.first() for id in _ids_of(item))
            self._match(matched, position, next((each for each in named if each is not None), None))
        if len(matched) < len(output):
            similar = _SimilarItems(self._items)
            for position, item in enumerate(output):
                if position not in matched:
                    self._match(matched, position, similar.first(item))
        return self._in_order(output, matched)

    def _in_order(self, output: Sequence[Item], matched: Mapping[int, OutputItem]) -> list[OutputItem]:
        """The listed items; those that were never streamed come right after the one listed before them."""
        listed: list[OutputItem] = []
        behind: defaultdict[OutputItem | None, list[OutputItem]] = defaultdict(list)
        last_streamed: OutputItem | None = None
        for position, item in enumerate(output):
            if position in matched:
                found = last_streamed = matched[position]
            else:
                found = OutputItem(type=item.type or "")
                behind[last_streamed].append(found)
            listed.append(self._identify(found, _ids_of(item), None))
        streamed, self._items = self._items, list(behind[None])
        for item in streamed:
            self._items += (item, *behind.get(item, ()))
        return listed

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

    @property
    def native_calls(self) -> list[Mapping[str, Any]]:
        """The calls of native tools that are done, as the server sent them."""
        return [item.form for item in self._items if item.type in NATIVE_ITEMS and item.form is not None]

    def _append(self, type: str | None) -> OutputItem:
        item = OutputItem(type=type or "")
        self._items.append(item)
        self._by_type[item.type].add(item)
        return item

    def _identify(self, item: OutputItem, ids: Sequence[str], index: int | None) -> OutputItem:
        for id in ids:
            if id not in item.ids:
                item.ids.add(id)
                self._by_id[item.type, id].add(item)
        if index is not None:
            self._by_index[index] = item
        return item

    def _at(self, type: str, index: int | None) -> OutputItem | None:
        item = self._by_index.get(index) if index is not None else None
        return item if item is not None and item.type == type else None

    def _match(self, matched: dict[int, OutputItem], position: int, found: OutputItem | None) -> None:
        if found is not None:
            found.is_taken = True
            matched[position] = found


def _ids_of(item: Item) -> tuple[str, ...]:
    return tuple(each for each in (item.id, item.call_id) if each)


def _texts(content: object) -> list[str]:
    """The texts of a message's content, if it is in the protocol's form."""
    found: list[str] = []
    for each in content if is_json_list(content) else ():
        if is_json_mapping(each):
            found.append(str(each.get("refusal" if each.get("type") == "refusal" else "text") or ""))
    return [text for text in found if text]


def _is_wanted_back(item: Mapping[str, Any]) -> bool:
    """Whether an item holds more than text or a call.

    That is reasoning, other encrypted content (a compacted conversation), the phase of a message, without
    which models that have phases work worse, calls of native tools with their results, and a search for tools
    with the tools that it has loaded. A call of a loaded tool has a namespace.
    """
    if item.get("type") in ("reasoning", *SEARCH_ITEMS, *NATIVE_ITEMS):
        return True
    return any(item.get(name) for name in ("encrypted_content", "namespace", "phase"))
