"""Observers: the active node and trace context, carried to the place of the work.

A step actor carries commands out in a task of its own, whose context variables are those of its step. What a
command brings about belongs below the tool call that posted it.
"""

from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct
from opentelemetry.context import Context

from ..observation import NodeWriter, find_node_writer, using_node_writer
from ..trace_context import find_trace_context, using_trace_context

__all__ = ["Watchers", "find_watchers"]


class Watchers(Struct, frozen=True, kw_only=True, eq=False):
    """The observers at one place.

    Args:
        node: The node in force; None when nobody watches the tree.
        trace_context: The trace context in force; None when there is no trace.
    """

    node: NodeWriter | None
    trace_context: Context | None

    @contextmanager
    def in_force(self) -> Generator[None, None, None]:
        """Let them watch what happens in the `with` statement, which must not wait."""
        with using_trace_context(self.trace_context), using_node_writer(self.node):
            yield


def find_watchers() -> Watchers | None:
    """Return the observers of the caller; None for none."""
    node, trace_context = find_node_writer(), find_trace_context()
    if node is None and trace_context is None:
        return None
    return Watchers(node=node, trace_context=trace_context)
