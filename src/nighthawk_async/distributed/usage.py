"""The service "usage": what a call on a worker consumes counts in the program as it happens.

Every model request, step and correction is reported at once, in order, so that it counts even if the call is
cancelled or its worker is lost afterwards. A call that is placed again consumes again, and counts again.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ..errors import CorrectionCause
from ..runtime.environment import Environment
from ..runtime.usage_meter import UsageMeter
from ..types.usage import Usage
from .messages import encode
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "usage"


class _Request(Struct, frozen=True, tag="request", array_like=True):
    model_name: str
    usage: Usage


class _Step(Struct, frozen=True, tag="step", array_like=True):
    pass


class _Correction(Struct, frozen=True, tag="correction", array_like=True):
    cause: CorrectionCause


_Report: TypeAlias = _Request | _Step | _Correction

_decode = msgspec.msgpack.Decoder(_Report).decode


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_UsagePart | None":
    """Begin to count, for a call within a run."""
    return None if environment is None else _UsagePart(environment)


class _UsagePart(ProgramPart):
    """Counts the usage of one placement of a call for the caller.

    Args:
        environment: The environment of the caller.
    """

    def __init__(self, environment: Environment) -> None:
        self._meter = environment.usage_meter
        step = environment.step
        self._step_meter = None if step is None else step.actor.progress.usage_meter

    def note(self, body: bytes) -> None:
        report: _Report = _decode(body)
        match report:
            case _Request(model_name, usage):
                self._meter.add(model_name, usage)
                if self._step_meter is not None:
                    self._step_meter.add(model_name, usage)
            case _Step():
                self._meter.count_step()
            case _Correction(cause):
                self._meter.count_correction(cause)


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
        self._channel.tell(TOPIC, encode(_Request(model_name, usage)))

    def count_step(self) -> None:
        self._channel.tell(TOPIC, encode(_Step()))

    def count_correction(self, cause: CorrectionCause) -> None:
        self._channel.tell(TOPIC, encode(_Correction(cause)))
