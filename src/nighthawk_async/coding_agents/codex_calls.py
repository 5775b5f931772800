"""Calls of tools in a thread of Codex: their order, native and found tools, boundaries of turns.

Codex asks for the calls of one response in any order. It announces them in theirs:

    announced(0) announced(1) requested(1) announced(2) requested(0) → begin 0, 1 … requested(2) → begin 2

A call that was not announced comes from a script that the model wrote ("code mode"). It begins when it is
requested, but not while a response that may announce it is incomplete.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import anyio
import msgspec
from msgspec import Struct

from ..kernel.tools import FIND_TOOL_NAME
from ..types.json import is_json_mapping
from ..types.messages import ToolCall, ToolDefinition, UserContent
from .codex_protocol import NativeItem, NativeOutput, ToolCallRequest, text_of_content
from .turns import NativeCall


class Boundary:
    """The boundary before the next turn of a step, which may be crossed before the turn begins.

    Args:
        cross: Crosses it; see `AgentTask.turn_boundary`.
    """

    def __init__(self, cross: Callable[[], Awaitable[tuple[UserContent, ...]]]) -> None:
        self._cross = cross
        self._lock = anyio.Lock()
        self._crossed: tuple[UserContent, ...] | None = None

    async def cross_early(self) -> tuple[UserContent, ...]:
        """Cross it now, and return the messages that arrived; nothing when it has been crossed."""
        async with self._lock:
            if self._crossed is not None:
                return ()
            self._crossed = await self._cross()
            return self._crossed

    async def cross(self) -> tuple[UserContent, ...]:
        """Cross it for a turn that begins, and return the messages since the last turn."""
        async with self._lock:
            if (crossed := self._crossed) is None:
                return await self._cross()
            self._crossed = None
            return crossed


Call = TypeVar("Call")


class CallOrder(Generic[Call]):
    """Puts the requested calls of one thread in order. Each method returns the calls that may begin now."""

    def __init__(self) -> None:
        self._expected: deque[str] = deque()
        self._requested: dict[str, deque[Call]] = {}
        self._is_incomplete = True

    @property
    def is_waiting(self) -> bool:
        """Whether a call of a complete response has not been requested yet."""
        return not self._is_incomplete and any(each not in self._requested for each in self._expected)

    @property
    def is_settled(self) -> bool:
        """Whether no call is expected, because the current response is complete and all its calls began."""
        return not (self._is_incomplete or self._expected or self._requested)

    def response_began(self) -> None:
        """Note that a response is incomplete: it may announce calls."""
        self._is_incomplete = True

    def announced(self, call_id: str) -> list[Call]:
        """Note that the model has asked for a call."""
        self._is_incomplete = True
        self._expected.append(call_id)
        return [*self._begin()]

    def requested(self, call_id: str, call: Call) -> list[Call]:
        """Note that Codex has requested a call."""
        self._requested.setdefault(call_id, deque()).append(call)
        return [*self._begin()]

    def answered(self, call_id: str) -> list[Call]:
        """Note that a call has its result: if it never began, Codex refused it without requesting it."""
        if call_id in self._expected and call_id not in self._requested:
            self._expected.remove(call_id)
        return [*self._begin()]

    def response_completed(self) -> list[Call]:
        """Note that the response is complete, so that it announces no further call."""
        self._is_incomplete = False
        return [*self._begin()]

    def give_up(self) -> list[Call]:
        """Expect no more the calls that were announced and not requested: Codex has had time."""
        self._expected = deque(each for each in self._expected if each in self._requested)
        return [*self._begin()]

    def turn_ended(self) -> None:
        """Forget the calls that never began."""
        self._expected.clear()
        self._requested.clear()
        self._is_incomplete = True

    def _begin(self) -> Iterator[Call]:
        while self._expected and self._expected[0] in self._requested:
            yield self._take(self._expected.popleft())
        if not self._is_incomplete:
            for call_id in [each for each in self._requested if each not in self._expected]:
                while call_id in self._requested:
                    yield self._take(call_id)

    def _take(self, call_id: str) -> Call:
        waiting = self._requested[call_id]
        call = waiting.popleft()
        if not waiting:
            del self._requested[call_id]
        return call


FOUND_TOOL_CALLER = ToolDefinition(
    name="nh_call_found_tool",
    description=f"Call a tool that {FIND_TOOL_NAME} has found, in a later response.",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool."},
            "arguments": {"type": "object", "description": "Its arguments."},
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    },
)
"""The tool that calls those that were found."""


class _Arguments(Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}


def called_tool(request: ToolCallRequest) -> ToolCall:
    """The call that a request of Codex means.

    Args:
        request: The request.
    """
    if request.tool == FOUND_TOOL_CALLER.name:
        try:
            found = msgspec.json.decode(request.arguments, type=_Arguments)
        except msgspec.MsgspecError:
            pass  # the call is refused, as that of any unknown tool
        else:
            arguments = msgspec.json.encode(found.arguments).decode()
            return ToolCall(id=request.call_id, name=found.name, arguments=arguments)
    return ToolCall(id=request.call_id, name=request.tool, arguments=request.arguments)


_NAMES = {"Bash": "shell"}
_FAILED = ("failed", "declined")
_MAX_CHARACTERS = 100_000


def native_name(name: str) -> str:
    """The name of a tool in settings and permissions."""
    return _NAMES.get(name, name)


class NativeRun:
    """A call that Codex carries out, and what is known of its result.

    Args:
        native: The call.
    """

    def __init__(self, native: NativeCall) -> None:
        self.native = native
        self._output: list[str] = []
        self._item: NativeItem | None = None
        self._reported = ""

    @property
    def rewritten(self) -> str | None:
        """The result that its model is to see, if a hook has changed it; None otherwise."""
        shown = None if self.native.shown is None else text_of_content(self.native.shown.content)
        return None if shown == self._reported else shown

    def note(self, message: NativeItem | NativeOutput) -> None:
        """Note output, or the end."""
        if isinstance(message, NativeOutput):
            self._output.append(message.text)
        elif message.has_ended:
            self._item = message
            if message.status in _FAILED:  # the gate may not be asked about it
                self.end()

    def end(self, response: object = None) -> None:
        """Note that it has its result. A command may go on in the background.

        Args:
            response: The result in the words of Codex.
        """
        if self.native.has_ended.is_set() or self.native.allowed is None or self._reported:
            return
        item = self._item
        self._reported = self._text(response)
        is_error = item is not None and item.status in _FAILED
        self.native.finish((self._reported,), is_error=is_error)

    def _text(self, response: object) -> str:
        details: Mapping[str, Any] = {} if self._item is None else self._item.details
        if response:
            text = response if isinstance(response, str) else msgspec.json.encode(response).decode()
            return text[:_MAX_CHARACTERS]
        output = details.get("aggregatedOutput") or "".join(self._output)
        code = details.get("exitCode")
        changes: Sequence[Mapping[str, Any]] = details.get("changes") or ()
        lines = [
            str(output).rstrip()[:_MAX_CHARACTERS],
            *(f"{_kind(each)} {each.get('path')}" for each in changes),
            "" if code is None else f"exit code {code}",
        ]
        return "\n".join(filter(None, lines)) or "done"


def _kind(change: Mapping[str, Any]) -> str:
    kind = change.get("kind")
    return str(kind.get("type")) if is_json_mapping(kind) else str(kind)
