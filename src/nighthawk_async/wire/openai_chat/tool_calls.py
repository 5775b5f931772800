"""Tool calls out of the pieces of a Chat Completions answer.

Servers disagree about tool calls: fragments come with or without an index, with an index that repeats for the
next call, with an id in the first fragment, in all, or in none.

- A fragment belongs to the call of its index, or without an index to the call of its id, or else to the last
  call. It begins another call when its id differs, or when it names a tool although the call is already named
  differently or has complete arguments.
- A call is complete as soon as its arguments are a complete JSON object; when it can receive no more
  fragments, since another call took its place; or when the response is finished.
- `{}` alone waits for one of the latter: some servers send it first and the real arguments afterwards.
  Nothing of it is emitted until then, since the emitted pieces must add up to the arguments.
- Completed calls are emitted in the order in which they were started.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from ...errors import ModelProtocolError
from ...types.messages import ToolCall
from ...types.model import ModelEvent, ToolCallArgumentsDelta, ToolCallCompleted, ToolCallStarted
from ..json_text import JsonObjectScanner, new_call_id


class ToolCallFragment(Struct, frozen=True, kw_only=True):
    """A piece of a tool call; an empty text represents a field that the server did not send.

    Args:
        index: The place of the call in the response.
        id: The identifier of the call.
        name: The name of the tool.
        arguments: More of the arguments.
        extra: The data that the provider attaches to the call and wants back with it.
    """

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


_MAX_EMPTY_OBJECT_CHARACTERS = 16


class _PartialCall(Struct, kw_only=True, eq=False):
    position: int
    id: str
    server_id: str
    name: str = ""
    fragments: list[str] = field(default_factory=list[str])
    characters: int = 0
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    scanner: JsonObjectScanner = field(default_factory=JsonObjectScanner)
    is_announced: bool = False
    is_over: bool = False
    is_shown: bool = False

    @property
    def is_complete(self) -> bool:
        return self.scanner.is_complete and not self._may_be_empty_object()

    @property
    def arguments(self) -> str:
        text = "".join(self.fragments)
        return text if text.strip() else "{}"

    @property
    def tool_call(self) -> ToolCall:
        return ToolCall(id=self.id, name=self.name, arguments=self.arguments)

    def is_other_than(self, fragment: ToolCallFragment) -> bool:
        """Whether a fragment that could belong to this call begins another one."""
        if fragment.id and self.server_id:
            return fragment.id != self.server_id
        if fragment.name and self.name:
            return fragment.name != self.name or self.scanner.is_complete
        return bool(fragment.id) and self.scanner.is_complete

    def append(self, text: str) -> str:
        """Add to the arguments and return the part that may be emitted now."""
        if text.strip() and self.scanner.is_complete and self._may_be_empty_object():
            self.fragments.clear()
            self.characters = 0
            self.scanner = JsonObjectScanner()
        text = text[: self.scanner.feed(text)]
        if text:
            self.fragments.append(text)
            self.characters += len(text)
        if self.is_shown:
            return text
        return "" if not self.name or self._may_be_empty_object() else self.take_unshown()

    def take_unshown(self) -> str:
        """Return the arguments held back so far; from now on, all are emitted at once."""
        if self.is_shown or not self.name:
            return ""
        self.is_shown = True
        return "".join(self.fragments)

    def _may_be_empty_object(self) -> bool:
        """Whether the arguments so far are an object without content, or the beginning of one."""
        if self.is_shown or self.characters > _MAX_EMPTY_OBJECT_CHARACTERS:
            return False
        return "".join("".join(self.fragments).split()) in ("", "{", "{}")


class ToolCallAccumulator:
    """The tool calls of one response.

    Args:
        new_id: Makes an id, unique in every conversation, for a call that came without one.
    """

    def __init__(self, new_id: Callable[[], str] | None = None) -> None:
        self._new_id = new_id or new_call_id
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}
        self._by_server_id: dict[str, _PartialCall] = {}
        self._closed: list[_PartialCall] = []  # calls whose arguments were closed since the last call began
        self._completed = 0
        self._is_finished = False

    @property
    def completed(self) -> int:
        """The number of calls emitted as complete."""
        return self._completed

    @property
    def waiting(self) -> int:
        """The number of calls that have begun and were not emitted."""
        return len(self._calls) - self._completed

    @property
    def handed_out(self) -> list[tuple[ToolCall, Mapping[str, Any]]]:
        """The calls emitted as complete, each with the data that the provider attached to it."""
        return [(each.tool_call, each.extra) for each in self._calls[: self._completed]]

    def feed(self, fragment: ToolCallFragment) -> list[ModelEvent]:
        """Add a fragment; after the finish it is ignored."""
        events: list[ModelEvent] = []
        if self._is_finished:
            return events
        call = self._find(fragment)
        if call is None:
            call = self._begin(fragment)
            self._hand_out(events)
        elif not call.name:
            call.name = fragment.name
        call.extra |= fragment.extra
        if call.position >= self._completed:
            self._take_arguments(call, fragment.arguments, events)
            self._hand_out(events)
        return events

    def goes_on(self, index: int | None, text: str, events: list[ModelEvent]) -> bool:
        """Add more arguments to a call that is being emitted; the quick way of `feed`.

        Args:
            index: The place of the call; None if the server did not send it.
            text: More of the arguments.
            events: Takes the events.

        Returns:
            False if there is no such call; then nothing has changed.
        """
        call = None if index is None else self._by_index.get(index)
        if call is None or self._is_finished or not call.is_shown or call.scanner.is_complete:
            return False
        self._take_arguments(call, text, events)
        self._hand_out(events)
        return True

    def finish(self, *, is_cut_off: bool) -> list[ModelEvent]:
        """Record that the response is finished.

        Args:
            is_cut_off: Whether the response was cut off, or may have been; then calls whose arguments are
                incomplete are dropped, and so is a last call without arguments or with `{}`, since the real
                arguments may have been to come.

        Raises:
            ModelProtocolError: A call has no name.
        """
        self._is_finished = True
        if is_cut_off:
            self._calls = [
                call for call in self._calls if call.position < self._completed or call.is_complete
            ]
        events: list[ModelEvent] = []
        for call in self._calls:
            call.is_over = True
            if not call.name:
                raise ModelProtocolError("The response holds a tool call without a name.")
        self._hand_out(events)
        return events

    def _find(self, fragment: ToolCallFragment) -> _PartialCall | None:
        if fragment.index is not None:
            call = self._by_index.get(fragment.index)
        else:
            call = self._by_server_id.get(fragment.id) or (self._calls[-1] if self._calls else None)
        return None if call is None or call.is_other_than(fragment) else call

    def _begin(self, fragment: ToolCallFragment) -> _PartialCall:
        for earlier in self._closed:
            earlier.is_over |= earlier.scanner.is_complete
        self._closed.clear()
        if fragment.index is not None:
            replaced = self._by_index.get(fragment.index)
        else:
            replaced = self._calls[-1] if self._calls else None
        if replaced is not None:
            replaced.is_over = True
        is_taken = fragment.id in self._by_server_id
        call = _PartialCall(
            position=len(self._calls),
            id=fragment.id if fragment.id and not is_taken else self._new_id(),
            server_id=fragment.id,
            name=fragment.name,
        )
        self._calls.append(call)
        if fragment.index is not None:
            self._by_index[fragment.index] = call
        if fragment.id:
            self._by_server_id[fragment.id] = call
        return call

    def _take_arguments(self, call: _PartialCall, text: str, events: list[ModelEvent]) -> None:
        shown = call.append(text)
        if text and call.scanner.is_complete:
            self._closed.append(call)
        if not call.name:
            return
        if not call.is_announced:
            call.is_announced = True
            events.append(ToolCallStarted(index=call.position, id=call.id, name=call.name))
        if shown:
            events.append(ToolCallArgumentsDelta(index=call.position, fragment=shown))

    def _hand_out(self, events: list[ModelEvent]) -> None:
        """Emit every call that is complete and whose predecessors were emitted."""
        while self._completed < len(self._calls):
            call = self._calls[self._completed]
            if not call.name or not (call.is_over or call.is_complete):
                return
            if unshown := call.take_unshown():
                events.append(ToolCallArgumentsDelta(index=call.position, fragment=unshown))
            events.append(ToolCallCompleted(index=call.position, call=call.tool_call))
            self._completed += 1
