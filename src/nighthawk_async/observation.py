"""Reports of a program's work to the live tree, node by node.

A node is one activity: a run, a step, a tool call, a task. An observer makes a node the current one, and
activities that begin below it report to it. There are no observers by default, and then a report costs one
read of a context variable. This module does not know the observers or how they display reports (`observe`).
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
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
    "resource",
]
"""The kind of a node.

An HTTP request of a service, a run, the call of a natural function, a step, a model request, a tool call,
parallel calls that belong together, a task, an actor, a pool, a job of a pool, a question to a person, or a
resource that lives with a task.
"""

NodeState: TypeAlias = Literal[
    "waiting", "running", "suspended", "completed", "raised", "failed", "cancelled"
]
"""The state of a node. The last four are final; `raised` is for a step whose outcome is `raise`."""

TranscriptKind: TypeAlias = Literal["text", "reasoning", "tool_call", "tool_result", "message", "note"]
"""The kind of a part of a transcript.

The model's text or reasoning, a tool call or its result, a message that was delivered to the model while it
worked, or a note from the library.
"""

EVALUATION = "nighthawk.evaluation."
"""The beginning of the names of attributes about evaluations.

`subject` and `trials` belong to an evaluation, `digest` to a case, `status` to a trial.
"""

Inputs: TypeAlias = Mapping[str, object]

READ_AS = "nighthawk.read_as"
"""The attribute with the forms in which an answer or a call was read that was not as it should be."""

WORKER = "nighthawk.worker"
"""The attribute with the name of the worker on which the work of a node runs."""

PROGRESS = "nighthawk.progress"
"""The attribute with the progress that the code of a node has reported last, as a text."""

PROGRESS_DONE = f"{PROGRESS}.done"
PROGRESS_TOTAL = f"{PROGRESS}.total"
"""The attributes with its numbers; an empty text for one that was not given."""


class Preview(str):
    """A value as text that was made where the value is, on a worker; it is shown as it is."""

    __slots__ = ()


class PreviewedError(Exception):
    """An error as text that was made where it was raised, on a worker; it is shown as that one.

    Args:
        type_name: The name of its type.
        message: Its message.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        self.message = message


class NodeControl(Protocol):
    """Control of a node by observers. All of it runs on the event loop of the node.

    One that offers fewer actions than it has methods has an attribute `offered`, a frozenset of their names.
    """

    def request_cancel(self, reason: str | None) -> None:
        """Ask it to end."""
        ...


class NodeWriter(Protocol):
    """Receives the reports about one node. Every method may be called from any thread, and returns at once.

    Values are read when they are reported, and not kept.
    """

    @property
    def is_watched(self) -> bool:
        """Whether anything waits for changes in it or in its ancestors."""
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
        at: float | None = None,
    ) -> "NodeWriter":
        """Report the beginning of an activity below the node.

        Args:
            kind: The kind of the node.
            name: The name of the node.
            state: Its first state.
            source: The place in the program, `module:line`.
            inputs: Its inputs, by name.
            attributes: Its further attributes, under the names that traces use.
            control: The control of it, on the current event loop. Optional methods offer more than
                cancelling: `steer(text)`, `suspend()`, `resume()`.
            speaks_above: Whether text written to it belongs to the transcript of this node, of which it shows
                its own part.
            at: The time of the beginning, in Unix seconds; None for now.
        """
        ...

    def change_state(self, state: NodeState) -> None:
        """Report that it waits, runs or is suspended from now on."""
        ...

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Add attributes to it."""
        ...

    def set_control(self, control: NodeControl | None) -> None:
        """Replace its control from now on; None removes it."""
        ...

    def write(self, kind: TranscriptKind, text: str, *, key: str | None = None) -> None:
        """Continue its transcript: a text of the same kind and key as the last part is appended to it.

        Args:
            kind: The kind of the part.
            text: More of it.
            key: The name and id of a tool call, for its parts.
        """
        ...

    def set_usage(self, usage: Usage, *, model: str | None = None) -> None:
        """Set its own usage of a model so far, without that of nodes below; replaces earlier reports.

        Args:
            usage: The usage.
            model: The model id, `provider:model`, or the name that an agent gives the model; None when it is
                the name of the node.
        """
        ...

    def set_outputs(self, outputs: Inputs) -> None:
        """Set its outputs so far, by name; replaces earlier reports. Outputs given to `end` win."""
        ...

    def count_retry(self) -> None:
        """Report that it is retried."""
        ...

    def end(
        self,
        state: NodeState,
        *,
        outputs: Inputs | None = None,
        error: BaseException | None = None,
        at: float | None = None,
    ) -> None:
        """Report its end; only the first end counts.

        Args:
            state: The final state: `completed`, `raised`, `failed` or `cancelled`.
            outputs: Its outputs, by name.
            error: The error that ended it.
            at: The time of the end, in Unix seconds; None for now.
        """
        ...


# Tasks, actors and evaluations are nodes, too, with or without a run. It is set only where somebody observes.
_node_writer: ContextVar[NodeWriter | None] = ContextVar("nighthawk_async_node_writer")
_everywhere: NodeWriter | None = None


def find_node_writer() -> NodeWriter | None:
    """Return the current node, the parent of new nodes; None without observers."""
    return _node_writer.get(_everywhere)


@contextmanager
def using_node_writer_everywhere(writer: NodeWriter) -> Generator[None, None, None]:
    """Make a node the process-wide default during the `with` statement.

    It is current wherever no other node is. Before Python 3.14, threads of `threading` begin without the
    context variables of the thread that starts them.
    """
    global _everywhere
    before, _everywhere = _everywhere, writer
    try:
        yield
    finally:
        _everywhere = before


def _take_back(token: Token[NodeWriter | None]) -> None:
    try:  # noqa: SIM105  (each step comes here several times, and `suppress` takes three more calls)
        _node_writer.reset(token)
    except ValueError:  # a generator may be closed in another context than it began in
        pass


class using_node_writer:  # noqa: N801  (a context manager that reads as a function at its call)
    """Make a node the current one during the `with` statement; None for no observer."""

    __slots__ = ("_token", "_writer")

    def __init__(self, writer: NodeWriter | None) -> None:
        self._writer = writer

    def __enter__(self) -> NodeWriter | None:
        self._token = _node_writer.set(self._writer)
        return self._writer

    def __exit__(self, *exc_details: object) -> None:
        _take_back(self._token)


class observed:  # noqa: N801  (a context manager that reads as a function at its call)
    """Report the `with` statement as a node to observers; yields the node, None without observers.

    Activities inside become its children. It ends with the statement: `completed`, `failed` by an exception
    or `cancelled` by another `BaseException`, unless another end was reported before.

    Args:
        kind: The kind of the node.
        name: The name of the node.
        state: Its first state.
        source: The place in the program, `module:line`.
        inputs: Returns its inputs, by name; called only when something observes.
        attributes: Returns its further attributes; called only when something observes.
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
        self._inputs = None  # no references to the values are kept
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
