"""Partial values as a service: values of steps on workers reach the caller's `partial_values()`.

A slow connection skips values between, as a slow reader does; the last values of a step always come.
"""

import logging
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from ..kernel.environment import Environment
from ..policies.partial_readers import readers_of, with_readers
from ..types.execution import PartialSink, PartialValues
from .errors import CrossingError
from .scope_pickling import dump_part, load_part
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "partials"

_logger = logging.getLogger("nighthawk")


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_PartialsPart | None":
    """Begin to pass the values of steps on, if somebody reads them; see `services.BeginService`."""
    sinks = () if environment is None else readers_of(environment.policies)
    return _PartialsPart(sinks) if sinks else None


class _PartialsPart(ProgramPart):
    """The part in the program.

    Args:
        sinks: The readers.
    """

    def __init__(self, sinks: tuple[PartialSink, ...]) -> None:
        self._sinks = sinks

    def note(self, body: bytes) -> None:
        """Take values, and the ids of steps that have ended."""
        items: list[bytes | str] = msgspec.msgpack.decode(body)
        for each in items:
            for sink in self._sinks:
                if isinstance(each, str):
                    sink.step_ended(each)
                else:
                    sink.put(load_part(each, "partial values"))


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Send the values of the steps of a call to the program; see `services.EnterService`."""
    assert environment is not None, "readers belong to scopes"
    sink = _ProgramSink(channel)
    try:
        yield with_readers(environment, (sink,))
    finally:
        channel.tell(TOPIC, sink.take())


class _ProgramSink:
    """Collects the values of steps until they are sent; from any thread."""

    def __init__(self, channel: CallChannel) -> None:
        self._channel = channel
        self._collected: deque[PartialValues | str] = deque()
        self._is_waiting = False

    @property
    def is_listening(self) -> bool:
        """Whether it wants values: as long as the call lasts."""
        return True

    def put(self, partial: PartialValues) -> None:
        """Take the values of a step."""
        self._add(partial)

    def step_ended(self, execution_id: str) -> None:
        """Note that a step has ended."""
        self._add(execution_id)

    def take(self) -> bytes:
        """Return what was collected, encoded, without values that newer ones replace."""
        self._is_waiting = False
        taken = [self._collected.popleft() for _ in range(len(self._collected))]
        newest = {_subject(each): each for each in taken}
        bodies = [body for each in newest.values() if (body := _encoded(each)) is not None]
        return msgspec.msgpack.encode(bodies)

    def _add(self, item: PartialValues | str) -> None:
        self._collected.append(item)
        if not self._is_waiting:
            self._is_waiting = True
            self._channel.tell_soon(TOPIC, self.take)


def _subject(item: PartialValues | str) -> object:
    return item if isinstance(item, str) else (item.execution_ref.execution_id,)


def _encoded(item: PartialValues | str) -> bytes | str | None:
    if isinstance(item, str):
        return item
    try:
        return dump_part(item, "partial values of a step")
    except CrossingError as error:
        _logger.warning("%s The reader of partial values does not see them.", error)
        return None
