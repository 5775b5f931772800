"""The live tree as a service: the nodes of calls on workers, below the nodes of their callers."""

from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from ..kernel.environment import Environment
from ..kernel.features import Feature
from ..observation import WORKER, NodeWriter, PreviewedError, find_node_writer, using_node_writer
from ..observe.mirrored import MirroredNodes
from ..observe.previews import PreviewLimits
from ..observe.reports import CALLER, Reporter, ReportingWriter
from ..observe.tree import TreeNodeWriter
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "tree"

_OF_CALLS = ("task", "job")
"""The kinds of nodes that are those of one call."""


class _Setup(Struct, frozen=True):
    """The limits of the tree, and whether the node of the caller is watched."""

    limits: PreviewLimits
    is_watched: bool


_current = Feature["_TreePart | None"](None)


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_TreePart | None":
    """Begin to show what a call does; see `services.BeginService`."""
    caller = find_node_writer()
    if caller is None:
        return None
    if _current.get() is not None:  # it was placed before
        caller.count_retry()
    part = _TreePart(caller, worker, send_order)
    _current.set(part)  # in the context of the call
    return part


class _TreePart(ProgramPart):
    """The part in the program.

    Args:
        caller: The node of the caller.
        worker: The name of the worker.
        send_order: Sends orders to it.
    """

    def __init__(self, caller: NodeWriter, worker: str, send_order: SendOrder) -> None:
        self._caller = caller
        self._worker = worker
        is_of_call = isinstance(caller, TreeNodeWriter | ReportingWriter) and caller.kind in _OF_CALLS
        if is_of_call:
            caller.set_attributes({WORKER: worker})
        self.nodes = MirroredNodes(caller, worker, is_shown=not is_of_call, send_order=send_order)

    def setup(self) -> bytes:
        """Return the limits of the tree."""
        caller = self._caller
        is_known = isinstance(caller, TreeNodeWriter | ReportingWriter)
        limits = caller.limits if is_known else PreviewLimits()
        return msgspec.msgpack.encode(_Setup(limits, caller.is_watched))

    def note(self, body: bytes) -> None:
        """Take reports."""
        self.nodes.take(body)

    def note_lost(self, reason: str) -> None:
        """End the nodes that have not ended as failed."""
        message = f"worker {self._worker} was lost ({reason})"
        self.nodes.end("failed", PreviewedError("WorkerLostError", message))
        self._caller.write("note", f"{message}\n")

    def end(self, *, is_lost: bool) -> None:
        """End the nodes that have not ended, because the call has."""
        self.nodes.end("cancelled", None)


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Report what a call does; see `services.EnterService`."""
    given = msgspec.msgpack.decode(setup, type=_Setup)
    reporter = Reporter(
        given.limits,
        is_watched=given.is_watched,
        send_soon=lambda take: channel.tell_soon(TOPIC, take),
    )
    channel.on_order(TOPIC, reporter.take_order)
    with using_node_writer(ReportingWriter(reporter)):
        try:
            yield environment
        finally:
            if reporter.has_reports:
                channel.tell(TOPIC, reporter.take())


def number_of_node() -> int:
    """Return the number of the current node, on a worker; that of the caller's node if nothing observes."""
    writer = find_node_writer()
    return writer.number if isinstance(writer, ReportingWriter) else CALLER


def mirrored_node(number: int) -> NodeWriter | None:
    """Return a node of a call, in the program and in the context of the call; None if nothing observes."""
    part = _current.get()
    return find_node_writer() if part is None else part.nodes.node(number)
