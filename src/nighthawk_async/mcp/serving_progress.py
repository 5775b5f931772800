"""Progress of a served call for its client: the live tree below it, as numbers that only grow."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from ..asgi.event_stream_live import count_progress, reported_progress
from ..observe.node_words import progress_text
from ..observe.tree import TaskTree
from ..observe.views import NodeView
from .json_data import characters

SendProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
"""Sends the progress, the total if it is known, and a message."""

_MIN_INTERVAL_SECONDS = 0.1

_WORDS = {
    "function": "",
    "step": "step ",
    "model_request": "waiting for the model",
    "tool_call": "tool ",
    "question": "waiting for an answer",
    "group": "",
    "task": "",
}
"""The beginning of the message of each kind of node; kinds with a whole message are shown without a name."""

_NAMELESS = ("model_request", "question")


async def report_progress(tree: TaskTree, node_id: str, send: SendProgress) -> None:
    """Send the progress of a node until it ends.

    Args:
        tree: The tree that records it.
        node_id: The id of the node.
        send: Sends it.
    """
    progress = GrowingProgress()
    async with tree.watch(node_id, min_interval=_MIN_INTERVAL_SECONDS) as changes:
        async for view in changes:
            step = progress.next(view)
            if step is not None:
                progress_so_far, total, message = step
                await send(progress_so_far, total, None if message is None else characters(message))


class GrowingProgress:
    """Progress whose value grows with each report, as the protocol demands.

    Units of work that have ended count as one each: steps, and the calls of `parallel.map` and its siblings.
    Where there is one unit or none, the numbers of `nighthawk_async.progress` count instead. A report in
    between, of what goes on, counts as a part of the next unit.
    """

    def __init__(self) -> None:
        self._done = 0.0
        self._reports = 0
        self._message: str | None = None

    def next(self, view: NodeView) -> tuple[float, float | None, str | None] | None:
        """Return the progress, the total and a message; None when nothing new is to be said.

        Args:
            view: The newest view of the call.
        """
        counts, reported = count_progress(view), reported_progress(view)
        done, of_all = float(counts.done), float(counts.total)
        if counts.total <= 1 and isinstance(given := reported.get("done"), int | float):
            known = reported.get("total")
            done, of_all = float(given), float(known) if isinstance(known, int | float) else 0.0
        message = describe_activity(view)
        if done > self._done:
            self._done, self._reports = done, 0
        elif message is None or message == self._message:
            return None
        else:
            self._reports += 1
        self._message = message
        value = self._done + self._reports / (self._reports + 1)
        return value, of_all if of_all > 1 and of_all >= value else None, message


def describe_activity(view: NodeView) -> str | None:
    """Return what goes on in a call: the names of its newest activity and those around it; None for nothing.

    Transcripts and values are left out: they quote models and errors, which are not for clients.

    Args:
        view: The view of the call.
    """
    path: list[str] = []
    if reported := progress_text(view):
        path.append(reported)
    node = _newest_running(view.children)
    while node is not None:
        words = _describe(node)
        if words and (not path or path[-1] != words):
            path.append(words)
        node = _newest_running(node.children)
    return ", ".join(path) or None


def _newest_running(nodes: Iterable[NodeView]) -> NodeView | None:
    return next((node for node in reversed(tuple(nodes)) if not node.is_ended), None)


def _describe(node: NodeView) -> str:
    words = _WORDS.get(node.kind)
    if words is None:
        return ""
    named = words if node.kind in _NAMELESS else f"{words}{node.name}"
    reported = progress_text(node)
    return f"{named}: {reported}" if reported else named
