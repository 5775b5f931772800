"""Reports of a program's work to the live tree, node by node.

A node is one thing that goes on: a run, a step, a tool call, a task. Whoever watches makes a node the current
one, and what begins below it reports to it. Nobody watches by default, and then a report costs one look at a
context variable. Who watches, and how a report becomes something to look at, is not known here (`observe`).
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import Literal, Protocol, TypeAlias

from .types.usage import Usage

NodeKind: TypeAlias = Literal[
    "request",
    "run",
    "function",
    "step",
    "model_request",
    "tool_call",
    "group",
    "task",
    "actor",
    "pool",
    "job",
    "question",
]
"""What a node is.

An HTTP request of a service, a run, the call of a natural function, a step, a model request, a tool call,
parallel calls that belong together, a task, an actor, a pool, a job of a pool, or a question to a person.
"""

NodeState: TypeAlias = Literal[
    "waiting", "running", "suspended", "completed", "raised", "failed", "cancelled"
]
"""Where a node stands. The last four are ends; `raised` is that of a step whose outcome is `raise`."""

TranscriptKind: TypeAlias = Literal["text", "reasoning", "tool_call", "tool_result", "message", "note"]
"""What a part of a transcript is.

The model's text or reasoning, a tool call or its result, a message that was delivered to the model while it
worked, or a note of the library's own.
"""

Inputs: TypeAlias = Mapping[str, object]


class NodeControl(Protocol):
    """Control of a node by observers. Everything happens on the event loop of the node."""

    def request_cancel(self, reason: str | None) -> None:
        """Ask it to end."""
        ...


class NodeWriter(Protocol):
    """Takes what is told of one node. Every method may be called from any thread, and returns at once.

    Values are looked at when they are told and not kept.
    """

    @property
    def is_watched(self) -> bool:
        """Whether somebody waits for changes in it, or in what it is below."""
        ...

    def begin_child(
        self,
        kind: NodeKind,
        name: str,
        *,
        state: NodeState = "running",
        source: str | None = None,
        inputs: Inputs | None = None,
        attributes: Mapping[str, str | int | float | bool] | None = None,
        control: NodeControl | None = None,
        speaks_above: bool = False,
    ) -> "NodeWriter":
        """Something begins below the node.

        Args:
            kind: The kind of the node.
            name: The name of the node.
            state: Its first state.
            source: The place in the program, `module:line`.
            inputs: Its inputs, by name.
            attributes: Its further attributes, under the names that traces use.
            control: The control of it, on the present event loop. What it offers beyond cancelling is
                found by its methods: `steer(text)`, `suspend()`, `resume()`.
            speaks_above: Whether what is written to it belongs to the transcript of this node, of which it
                shows its own part.
        """
        ...

    def change_state(self, state: NodeState) -> None:
        """It waits, runs or is suspended from now on."""
        ...

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """More is known of it."""
        ...

    def set_control(self, control: NodeControl | None) -> None:
        """It can be influenced in another way from now on, or no longer."""
        ...

    def write(self, kind: TranscriptKind, text: str, *, key: str | None = None) -> None:
        """Continue its transcript: a text of the kind and key of the last part goes on with that part.

        Args:
            kind: The kind of the part.
            text: More of it.
            key: The name and id of a tool call, for its parts.
        """
        ...

    def set_usage(self, usage: Usage) -> None:
        """Set its own usage so far, without that of nodes below; replaces earlier reports."""
        ...

    def set_outputs(self, outputs: Inputs) -> None:
        """Set its outputs so far, by name; replaces earlier reports. Its end has the last word."""
        ...

    def count_retry(self) -> None:
        """It is tried again."""
        ...

    def end(
        self,
        state: NodeState,
        *,
        outputs: Inputs | None = None,
        error: BaseException | None = None,
    ) -> None:
        """It has ended; only the first end counts.

        Args:
            state: How: `completed`, `raised`, `failed` or `cancelled`.
            outputs: Its outputs, by name.
            error: The error that ended it.
        """
        ...


_node_writer: ContextVar[NodeWriter | None] = ContextVar("nighthawk_async_node_writer")
_everywhere: NodeWriter | None = None


def find_node_writer() -> NodeWriter | None:
    """The node in force, below which things begin; None when nobody watches."""
    return _node_writer.get(_everywhere)


@contextmanager
def using_node_writer_everywhere(writer: NodeWriter) -> Generator[None, None, None]:
    """Put a node in force in the whole process where no other one is, for the extent of the `with` statement.

    Before Python 3.14, threads of `threading` begin without the context variables of whoever starts them.
    """
    global _everywhere
    before, _everywhere = _everywhere, writer
    try:
        yield
    finally:
        _everywhere = before


def _take_back(token: Token[NodeWriter | None]) -> None:
    with suppress(ValueError):  # a generator is closed in another context than that in which it began
        _node_writer.reset(token)


class using_node_writer:  # noqa: N801  (a context manager that reads as a function at its call)
    """Put a node in force for the extent of the `with` statement; None for nobody who watches."""

    __slots__ = ("_token", "_writer")

    def __init__(self, writer: NodeWriter | None) -> None:
        self._writer = writer

    def __enter__(self) -> NodeWriter | None:
        self._token = _node_writer.set(self._writer)
        return self._writer

    def __exit__(self, *exc_details: object) -> None:
        _take_back(self._token)


class observed:  # noqa: N801  (a context manager that reads as a function at its call)
    """Tell whoever watches of what goes on in the `with` statement; gives its node, None when nobody does.

    What begins inside is below it. It ends with the statement: `completed`, `failed` by an exception or
    `cancelled` by what is none, unless it was told to have ended otherwise before.

    Args:
        kind: The kind of the node.
        name: The name of the node.
        state: Its first state.
        source: The place in the program, `module:line`.
        inputs: Gives what it works with, by name; called when somebody watches.
        attributes: Gives what else is known of it; called when somebody watches.
        control: The control of it.
    """

    __slots__ = (
        "_attributes",
        "_control",
        "_inputs",
        "_kind",
        "_name",
        "_source",
        "_state",
        "_token",
        "_writer",
    )

    def __init__(
        self,
        kind: NodeKind,
        name: str,
        *,
        state: NodeState = "running",
        source: str | None = None,
        inputs: Callable[[], Inputs] | None = None,
        attributes: Callable[[], Mapping[str, str | int | float | bool]] | None = None,
        control: NodeControl | None = None,
    ) -> None:
        self._kind: NodeKind = kind
        self._name = name
        self._state: NodeState = state
        self._source = source
        self._inputs = inputs
        self._attributes = attributes
        self._control = control
        self._writer: NodeWriter | None = None
        self._token: Token[NodeWriter | None] | None = None

    def __enter__(self) -> NodeWriter | None:
        parent = find_node_writer()
        if parent is None:
            return None
        self._writer = parent.begin_child(
            self._kind,
            self._name,
            state=self._state,
            source=self._source,
            inputs=None if self._inputs is None else self._inputs(),
            attributes=None if self._attributes is None else self._attributes(),
            control=self._control,
        )
        self._inputs = None  # nothing is kept of the values
        self._token = _node_writer.set(self._writer)
        return self._writer

    def __exit__(self, exc_type: object, exc: BaseException | None, traceback: object) -> None:
        if self._writer is None or self._token is None:
            return
        _take_back(self._token)
        if exc is None:
            self._writer.end("completed")
        else:
            self._writer.end("failed" if isinstance(exc, Exception) else "cancelled", error=exc)
