"""The service "usage": what a call on a worker consumes counts in the program as it happens.

Every model request, step and correction is reported at once, in order, so that it counts even if the call is
cancelled or its worker is lost afterwards. When the call is placed again, what it finds recorded has counted
already; see `counting`. A request that is charged to a budget of the program is reported with its charge.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ..errors import CorrectionCause
from ..kernel.environment import Environment
from ..kernel.usage_meter import UsageMeter
from ..types.outcomes import Reading
from ..types.usage import Usage
from .counting import EACH_TIME
from .messages import encode
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "usage"


class _Request(Struct, frozen=True, tag="request", array_like=True):
    key: str
    model_name: str
    usage: Usage


class _Step(Struct, frozen=True, tag="step", array_like=True):
    key: str


class _Correction(Struct, frozen=True, tag="correction", array_like=True):
    key: str
    cause: CorrectionCause


class _Read(Struct, frozen=True, tag="reading", array_like=True):
    key: str
    reading: Reading


_Report: TypeAlias = _Request | _Step | _Correction | _Read

_decode = msgspec.msgpack.Decoder(_Report).decode


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_UsagePart | None":
    """Begin to count, for a call within a run."""
    return None if environment is None else _UsagePart(environment)


def add_usage(environment: Environment, model_name: str, usage: Usage) -> None:
    """Count the usage of a request on a worker for its caller.

    Args:
        environment: The environment of the caller.
        model_name: The model id.
        usage: The usage.
    """
    step = environment.step
    of_step = () if step is None else (step.actor.progress.usage_meter,)
    environment.usage_meter.add(model_name, usage, *of_step)


class _UsagePart(ProgramPart):
    """Counts the usage of one placement of a call for the caller.

    Args:
        environment: The environment of the caller.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def note(self, body: bytes) -> None:
        report: _Report = _decode(body)
        self.counted.add(report.key)
        match report:
            case _Request(model_name=model_name, usage=usage):
                add_usage(self._environment, model_name, usage)
            case _Step():
                self._environment.usage_meter.count_step()
            case _Correction(cause=cause):
                self._environment.usage_meter.count_correction(cause)
            case _Read(reading=reading):
                self._environment.usage_meter.count_reading(reading)


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Report the usage of a call on a worker."""
    assert environment is not None, "usage is counted for calls within a run"
    yield replace(environment, usage_meter=UsageMeter(receiver=_Reporter(channel)))


class _Reporter:
    """Reports usage to the program; a `UsageReceiver`."""

    def __init__(self, channel: CallChannel) -> None:
        self._channel = channel

    def add(self, model_name: str, usage: Usage) -> None:
        if usage == Usage():
            self._channel.tell(TOPIC, encode(_Request(EACH_TIME, model_name, usage)))  # nothing was sent
            return
        key = self._channel.counting.take_key("request")
        if key is not None and not self._channel.counting.is_settled(key):
            self._channel.tell(TOPIC, encode(_Request(key, model_name, usage)))

    def count_step(self) -> None:
        key = self._channel.counting.take_key("step")
        if key is not None:
            self._channel.tell(TOPIC, encode(_Step(key)))

    def count_correction(self, cause: CorrectionCause) -> None:
        key = self._channel.counting.take_key("correction")
        if key is not None:
            self._channel.tell(TOPIC, encode(_Correction(key, cause)))

    def count_reading(self, reading: Reading) -> None:
        key = self._channel.counting.take_key("reading")
        if key is not None:
            self._channel.tell(TOPIC, encode(_Read(key, reading)))
