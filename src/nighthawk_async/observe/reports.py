"""Reports about nodes as data, where the tree is in another process: on a worker.

Values are read and shown on the worker, under the limits of the program's tree. Reports are collected and
sent together, and the text that a model streams is joined, so that it costs little. `mirrored` is the other
side.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count, groupby
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from ..observation import NodeControl, NodeKind, NodeState, TranscriptKind
from ..prompt.plain_text import clean_text, type_name
from ..types.json import is_list_or_tuple
from ..types.usage import Usage
from .controls import HeldControl
from .errors import NotControllableError
from .previews import PreviewLimits, preview_attributes, preview_error, preview_name, preview_values, shorten
from .views import ControlName

Attributes: TypeAlias = dict[str, str | int | float | bool]

CALLER = 0
"""The number of the node of the caller, below which the others are."""


class Begun(Struct, array_like=True, tag=1):
    """A node has begun."""

    node: int
    parent: int
    kind: NodeKind
    name: str
    state: NodeState
    source: str | None
    inputs: dict[str, str]
    attributes: Attributes
    offered: list[ControlName] | None
    speaks_above: bool
    at: float


class StateChanged(Struct, array_like=True, tag=2):
    """A node waits, runs or is suspended."""

    node: int
    state: NodeState


class AttributesSet(Struct, array_like=True, tag=3):
    """A node has further attributes."""

    node: int
    attributes: Attributes


class ControlSet(Struct, array_like=True, tag=4):
    """A node has another control, which offers these actions; None for no control."""

    node: int
    offered: list[ControlName] | None


class Written(Struct, array_like=True, tag=5):
    """The transcript of a node goes on."""

    node: int
    kind: TranscriptKind
    text: str
    key: str | None


class UsageSet(Struct, array_like=True, tag=6):
    """A node has used so much of a model."""

    node: int
    usage: Usage
    model: str | None


class OutputsSet(Struct, array_like=True, tag=7):
    """A node has these outputs so far."""

    node: int
    outputs: dict[str, str]


class RetryCounted(Struct, array_like=True, tag=8):
    """A node is retried."""

    node: int


class HasEnded(Struct, array_like=True, tag=9):
    """A node has ended, maybe with an error: the name of its type, and its message."""

    node: int
    state: NodeState
    outputs: dict[str, str] | None
    error: tuple[str, str] | None
    at: float


Report: TypeAlias = (
    Begun
    | StateChanged
    | AttributesSet
    | ControlSet
    | Written
    | UsageSet
    | OutputsSet
    | RetryCounted
    | HasEnded
)


class Reports(Struct, array_like=True, frozen=True):
    """Reports in their order, and the time on the worker at which they were sent."""

    reports: list[Report]
    at: float


class Control(Struct, array_like=True, frozen=True, tag=1):
    """An order to control a node."""

    node: int
    name: ControlName
    arguments: list[str | None]


class Watched(Struct, array_like=True, frozen=True, tag=2):
    """A notice that the nodes are watched from now on, or no longer."""

    is_watched: bool


Order: TypeAlias = Control | Watched

decode_reports = msgspec.msgpack.Decoder(Reports).decode
_decode_order = msgspec.msgpack.Decoder(Order).decode


def _plain(value: object) -> str | int | float:
    """Return a value of a class derived from a plain one as that, and any other as text."""
    for plain in (str, int, float):
        if isinstance(value, plain):
            return plain(value)
    return type_name(type(value))


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)

_logger = logging.getLogger("nighthawk")


class Reporter:
    """Collects the reports of one call on a worker, and controls its nodes.

    Args:
        limits: The limits of the program's tree.
        is_watched: Whether the node of the caller is watched.
        send_soon: Has `take` called soon, and its result sent.
    """

    def __init__(
        self,
        limits: PreviewLimits,
        *,
        is_watched: bool,
        send_soon: Callable[[Callable[[], bytes]], None],
    ) -> None:
        self.limits = limits
        self.is_watched = is_watched
        self.numbers = count(CALLER + 1)
        self._controls: dict[int, HeldControl] = {}
        self._reports: deque[Report] = deque()
        self._is_waiting = False
        self._send_soon = send_soon

    def add(self, report: Report) -> None:
        """Add a report; from any thread, and from finalizers: nothing is locked here."""
        self._reports.append(report)
        if not self._is_waiting:
            self._is_waiting = True
            self._send_soon(self.take)

    @property
    def has_reports(self) -> bool:
        """Whether there are reports that were not taken."""
        return bool(self._reports)

    def take(self) -> bytes:
        """Return the reports so far, encoded."""
        self._is_waiting = False
        taken = [self._reports.popleft() for _ in range(len(self._reports))]
        return _encoded(Reports(list(_joined(taken, 2 * self.limits.transcript)), time.time()))

    def set_control(self, number: int, control: NodeControl | None) -> list[ControlName] | None:
        """Keep the control of a node; return the actions that it offers."""
        if control is None:
            self._controls.pop(number, None)
            return None
        held = self._controls[number] = HeldControl(control)
        return list(held.all_offered)

    def take_order(self, body: bytes) -> None:
        """Take an order of the program."""
        order = _decode_order(body)
        if isinstance(order, Watched):
            self.is_watched = order.is_watched
            return
        control = self._controls.get(order.node)
        if control is None:  # it has ended meanwhile
            return
        try:
            control.carry_out(str(order.node), order.name, *order.arguments)
        except NotControllableError as error:
            _logger.warning("a node on a worker was not controlled: %s", error)


class ReportingWriter:
    """Reports about one node of a call on a worker; see `observation.NodeWriter`.

    Args:
        reporter: The reporter of the call.
        number: The number of the node.
        kind: Its kind; None for the node of the caller.
    """

    __slots__ = ("_has_ended", "_reporter", "kind", "number")

    def __init__(self, reporter: Reporter, number: int = CALLER, kind: NodeKind | None = None) -> None:
        self._reporter = reporter
        self._has_ended = False
        self.number = number
        self.kind = kind

    @property
    def limits(self) -> PreviewLimits:
        """The numbers of characters that are kept."""
        return self._reporter.limits

    @property
    def is_watched(self) -> bool:
        """Whether something in the program watches the node of the caller or one above it."""
        return self._reporter.is_watched

    def begin_child(
        self,
        kind: NodeKind,
        name: str,
        *,
        state: NodeState = "running",
        source: str | None = None,
        inputs: Mapping[str, object] | None = None,
        attributes: Mapping[str, str | int | float | bool] | None = None,
        control: NodeControl | None = None,
        speaks_above: bool = False,
        at: float | None = None,
    ) -> "ReportingWriter":
        """Report the beginning of a child."""
        reporter, limit = self._reporter, self._reporter.limits.value
        number = next(reporter.numbers)
        begun = Begun(
            node=number,
            parent=self.number,
            kind=kind,
            name=preview_name(name),
            state=state,
            source=None if source is None else shorten(source, limit),
            inputs=dict(preview_values(inputs, limit)),
            attributes=dict(preview_attributes(attributes, limit)),
            offered=reporter.set_control(number, control),
            speaks_above=speaks_above,
            at=time.time() if at is None else at,
        )
        reporter.add(begun)
        return ReportingWriter(reporter, number, kind)

    def change_state(self, state: NodeState) -> None:
        """Report its state."""
        self._reporter.add(StateChanged(self.number, state))

    def set_attributes(self, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Report attributes."""
        shown = preview_attributes(attributes, self._reporter.limits.value)
        self._reporter.add(AttributesSet(self.number, dict(shown)))

    def set_control(self, control: NodeControl | None) -> None:
        """Replace its control."""
        if not self._has_ended:
            self._reporter.add(ControlSet(self.number, self._reporter.set_control(self.number, control)))

    def write(self, kind: TranscriptKind, text: str, *, key: str | None = None) -> None:
        """Report more of its transcript."""
        shown_key = None if key is None else preview_name(key)
        self._reporter.add(Written(self.number, kind, clean_text(text), shown_key))

    def set_usage(self, usage: Usage, *, model: str | None = None) -> None:
        """Report its own usage of a model so far."""
        self._reporter.add(UsageSet(self.number, usage, None if model is None else preview_name(model)))

    def set_outputs(self, outputs: Mapping[str, object]) -> None:
        """Report its outputs so far."""
        shown = preview_values(outputs, self._reporter.limits.value)
        self._reporter.add(OutputsSet(self.number, dict(shown)))

    def count_retry(self) -> None:
        """Report a retry."""
        self._reporter.add(RetryCounted(self.number))

    def end(
        self,
        state: NodeState,
        *,
        outputs: Mapping[str, object] | None = None,
        error: BaseException | None = None,
        at: float | None = None,
    ) -> None:
        """Report its end; only the first end counts."""
        if self._has_ended:
            return
        self._has_ended = True
        reporter, limit = self._reporter, self._reporter.limits.value
        reporter.set_control(self.number, None)
        shown = preview_error(error, limit)
        ended = HasEnded(
            node=self.number,
            state=state,
            outputs=None if outputs is None else dict(preview_values(outputs, limit)),
            error=None if shown is None else (shown.type, shown.message),
            at=time.time() if at is None else at,
        )
        reporter.add(ended)


def _joined(reports: Iterable[Report], most_characters: int) -> Iterable[Report]:
    """Yield reports, with texts in succession that continue the same part joined to one."""
    for _, same in groupby(reports, key=_joined_key):
        first, *others = same
        if isinstance(first, Written):
            text = "".join((first.text, *(cast("Written", each).text for each in others)))
            if len(text) > most_characters:  # the rest would be removed
                text = text[: most_characters // 2] + text[-(most_characters // 2) :]
            yield Written(first.node, first.kind, text, first.key)
        else:
            yield first


def _joined_key(report: Report) -> object:
    return (report.node, report.kind, report.key) if isinstance(report, Written) else id(report)


def _encoded(value: Reports | Order) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # texts may hold lone surrogates
        return _encoder.encode(_without_surrogates(msgspec.to_builtins(value)))


def encode_order(order: Order) -> bytes:
    """Encode an order to a worker."""
    return _encoded(order)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if is_list_or_tuple(value):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {_without_surrogates(name): _without_surrogates(each) for name, each in pairs}
    return value
