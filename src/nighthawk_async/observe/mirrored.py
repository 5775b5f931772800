"""Nodes of a worker in the program's tree: what `reports` sends takes effect here."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from ..errors import NighthawkError
from ..observation import WORKER, NodeState, NodeWriter, Preview, PreviewedError
from .reports import (
    CALLER,
    AttributesSet,
    Begun,
    Control,
    ControlSet,
    HasEnded,
    Order,
    OutputsSet,
    Report,
    RetryCounted,
    StateChanged,
    UsageSet,
    Watched,
    Written,
    decode_reports,
    encode_order,
)
from .views import ControlName

_MOST_ENDED = 1_000
"""The number of nodes that have ended whose later reports are still taken."""


class MirroredNodes:
    """The nodes of one call on a worker, below the node of its caller.

    Args:
        caller: The node of the caller.
        worker: The name of the worker.
        is_shown: Whether the uppermost nodes show the worker.
        send_order: Sends an order to the worker.
    """

    def __init__(
        self, caller: NodeWriter, worker: str, *, is_shown: bool, send_order: Callable[[bytes], None]
    ) -> None:
        self._caller = caller
        self._worker = worker
        self._is_shown = is_shown
        self._send_order = send_order
        self._open: dict[int, NodeWriter] = {}
        self._ended: OrderedDict[int, NodeWriter] = OrderedDict()
        self._is_watched = caller.is_watched
        self._behind = float("inf")  # of the clock of the worker, at most, in seconds

    def node(self, number: int) -> NodeWriter:
        """Return a node; that of the caller for one that is not known any more."""
        return self._open.get(number) or self._ended.get(number) or self._caller

    def take(self, body: bytes) -> None:
        """Take reports."""
        batch = decode_reports(body)
        self._behind = min(self._behind, time.time() - batch.at)
        for report in batch.reports:
            self._take(report)
        if self._is_watched != self._caller.is_watched:
            self._is_watched = self._caller.is_watched
            self._order(Watched(self._is_watched))

    def end(self, state: NodeState, error: PreviewedError | None) -> None:
        """End the nodes that have not ended, those below others first."""
        for number, node in reversed(tuple(self._open.items())):
            node.end(state, error=error)
            self._note_ended(number)

    def _take(self, report: Report) -> None:
        if isinstance(report, Begun):
            self._begin(report)
            return
        node = self.node(report.node)
        match report:
            case StateChanged(state=state):
                node.change_state(state)
            case AttributesSet(attributes=attributes):
                node.set_attributes(attributes)
            case ControlSet(offered=offered):
                node.set_control(self._control(report.node, offered))
            case Written():
                node.write(report.kind, report.text, key=report.key)
            case UsageSet():
                node.set_usage(report.usage, model=report.model)
            case OutputsSet(outputs=outputs):
                node.set_outputs(_previews(outputs))
            case RetryCounted():
                node.count_retry()
            case HasEnded():
                outputs = None if report.outputs is None else _previews(report.outputs)
                error = None if report.error is None else PreviewedError(*report.error)
                if report.node != CALLER:
                    node.end(report.state, outputs=outputs, error=error, at=report.at + self._behind)
                    self._note_ended(report.node)

    def _begin(self, report: Begun) -> None:
        attributes = report.attributes
        if report.parent == CALLER and self._is_shown:
            attributes = {**attributes, WORKER: self._worker}
        self._open[report.node] = self.node(report.parent).begin_child(
            report.kind,
            report.name,
            state=report.state,
            source=report.source,
            inputs=_previews(report.inputs),
            attributes=attributes,
            control=self._control(report.node, report.offered),
            speaks_above=report.speaks_above,
            at=report.at + self._behind,
        )

    def _note_ended(self, number: int) -> None:
        node = self._open.pop(number, None)
        if node is None:
            return
        self._ended[number] = node
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def _control(self, number: int, offered: list[ControlName] | None) -> "_RemoteControl | None":
        return None if offered is None else _RemoteControl(number, frozenset(offered), self._order)

    def _order(self, order: Order) -> None:
        self._send_order(encode_order(order))


class _RemoteControl:
    """Control of a node whose work runs on a worker.

    Args:
        number: The number of the node.
        offered: The actions that it offers.
        order: Sends an order.
    """

    __slots__ = ("_number", "_order", "offered")

    def __init__(
        self, number: int, offered: frozenset[ControlName], order: Callable[[Control], None]
    ) -> None:
        self._number = number
        self._order = order
        self.offered = offered

    def request_cancel(self, reason: str | None) -> None:
        self._carry_out("cancel", reason)

    def steer(self, *content: object) -> None:
        self._carry_out("steer", *map(_text, content))

    def suspend(self) -> None:
        self._carry_out("suspend")

    def resume(self, input: object = None) -> None:
        self._carry_out("resume", *(() if input is None else (_text(input),)))

    def _carry_out(self, name: ControlName, *arguments: str | None) -> None:
        self._order(Control(self._number, name, list(arguments)))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    raise NighthawkError(f"a node on a worker is steered with texts, not with {type(content).__name__}")


def _previews(shown: Mapping[str, str]) -> Mapping[str, object]:
    return {name: Preview(text) for name, text in shown.items()}
