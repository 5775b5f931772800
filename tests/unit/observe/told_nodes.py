"""A node that keeps what it is told, and its tree as text, for tests of who tells what."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from nighthawk_async.observation import NodeControl, NodeKind, NodeState, TranscriptKind, using_node_writer
from nighthawk_async.types.usage import Usage

_MOMENTS = count(1)

ENDS = ("completed", "raised", "failed", "cancelled")


class ToldNode:
    """Keeps what it is told. Refuses to be told of an end twice, and of anything after it."""

    def __init__(self, kind: str, name: str, *, state: NodeState = "running", **told: Any) -> None:
        self.kind = kind
        self.name = name
        self.states: list[NodeState] = [state]
        self.source: str | None = told.get("source")
        self.inputs: dict[str, object] = dict(told.get("inputs") or {})
        self.attributes: dict[str, object] = dict(told.get("attributes") or {})
        self.control: Any = told.get("control")
        self.children: list[ToldNode] = []
        self.outputs: dict[str, object] = {}
        self.error: BaseException | None = None
        self.written: list[tuple[str, str | None, str]] = []
        self.usages: list[Usage] = []
        self.retries = 0
        self.ended_at = 0
        self.speaks_in: ToldNode | None = None

    @property
    def state(self) -> NodeState:
        """Where it stands."""
        return self.states[-1]

    def begin_child(self, kind: NodeKind, name: str, **told: Any) -> "ToldNode":
        """See `NodeWriter`."""
        child = ToldNode(kind, name, **told)
        child.speaks_in = self if told.get("speaks_above") else None
        self.children.append(child)
        return child

    def change_state(self, state: NodeState) -> None:
        """See `NodeWriter`."""
        assert self.state not in ENDS, f"{self.kind} {self.name} has ended"
        self.states.append(state)

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """See `NodeWriter`."""
        self.attributes.update(attributes)

    def set_control(self, control: NodeControl | None) -> None:
        """See `NodeWriter`."""
        self.control = control

    def write(self, kind: TranscriptKind, text: str, *, key: str | None = None) -> None:
        """See `NodeWriter`."""
        assert self.state not in ENDS, f"{self.kind} {self.name} has ended"
        if self.speaks_in is not None:
            self.speaks_in.write(kind, text, key=key)
        if self.written and self.written[-1][:2] == (kind, key):
            text = self.written.pop()[2] + text
        self.written.append((kind, key, text))

    def set_usage(self, usage: Usage, *, model: str | None = None) -> None:
        """See `NodeWriter`."""
        self.usages.append(usage)

    is_watched = True

    def set_outputs(self, outputs: Mapping[str, object]) -> None:
        """See `NodeWriter`."""
        assert self.state not in ENDS, f"{self.kind} {self.name} has ended"
        self.outputs = dict(outputs)

    def count_retry(self) -> None:
        """See `NodeWriter`."""
        self.retries += 1

    def end(
        self,
        state: NodeState,
        *,
        outputs: Mapping[str, object] | None = None,
        error: BaseException | None = None,
        at: float | None = None,
    ) -> None:
        """See `NodeWriter`; only the first end counts."""
        assert state in ENDS
        if self.state not in ENDS:
            self.states.append(state)
            self.outputs, self.error = dict(outputs or {}), error
            self.ended_at = next(_MOMENTS)

    def watching(self) -> using_node_writer:
        """Put it in force for the extent of a `with` statement."""
        return using_node_writer(self)

    def walk(self) -> "Iterator[ToldNode]":
        """It, and everything below it, each before what is below that."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, kind: str, name: str | None = None) -> "ToldNode":
        """The first of a kind below it."""
        return next(node for node in self.walk() if node.kind == kind and name in (None, node.name))

    def draw(self) -> list[str]:
        """Everything below it, one line for each, with its kind, its name and where it stands."""
        return [line for child in self.children for line in child._lines("")]

    def _lines(self, indentation: str) -> Iterator[str]:
        name = "" if self.kind == "step" else f" {self.name}"
        yield f"{indentation}{self.kind}{name}: {self.state}"
        for child in self.children:
            yield from child._lines(indentation + "  ")


def root() -> ToldNode:
    """A node for a test to put in force."""
    return ToldNode("tree", "root")
