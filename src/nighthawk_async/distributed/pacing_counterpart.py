"""The service "pacing" on a worker: its requests ask the program for their turn."""

from collections.abc import Generator, Hashable, Iterable
from contextlib import contextmanager
from itertools import count

from ..kernel.environment import Environment
from ..models.pacing import PACER_MAKER, Demand, Pacer, Permit
from ..wire.rate_limits import RateLimit
from . import pacing_service as wire
from .grants import ask_for_grant
from .messages import encode
from .services import CallChannel
from .worker import find_channel

_NUMBERS = count()


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Have the requests of a call on a worker wait in the program."""
    with PACER_MAKER.active(_ProgramPacer):
        yield environment


class _ProgramPacer(Pacer):
    """The pacer of the program, for the requests of a worker to one endpoint.

    Args:
        key: Identifies the endpoint and its credentials.
    """

    def __init__(self, key: Hashable) -> None:
        super().__init__()
        # An object with credentials has no identity in the program, so those of one origin count as one.
        self._account = key if isinstance(key, str) else f"{key[0]} signed" if isinstance(key, tuple) else ""

    def admit_nowait(self, demand: Demand, *, turn: int | None = None) -> Permit | None:
        """Return a permit if the call is outside the program's runs; None to ask the program."""
        return super().admit_nowait(demand, turn=turn) if find_channel() is None else None

    async def admit(self, demand: Demand, *, turn: int | None = None) -> Permit:
        """Wait until the program lets the request be sent; see `Pacer.admit`."""
        channel = find_channel()
        if channel is None or wire.TOPIC not in channel.message.services:
            return await super().admit(demand, turn=turn)
        number = next(_NUMBERS)
        question = wire.Admit(number, self._account, demand, turn)
        giving_back = encode(wire.Return(number))
        answer = await ask_for_grant(channel, wire.TOPIC, encode(question), giving_back)
        return _ProgramPermit(channel, number, wire.decode_turn(answer))


class _ProgramPermit(Permit):
    """A permit of the program.

    Args:
        channel: The channel of the call.
        number: Its number.
        turn: The request's position in the queue.
    """

    def __init__(self, channel: CallChannel, number: int, turn: int) -> None:
        self._channel = channel
        self._number = number
        self._own_turn = turn
        self._is_accepted = self._is_answered = self._is_released = False
        self._tokens: int | None = None

    @property
    def turn(self) -> int:
        """The request's position in the queue."""
        return self._own_turn

    def reported(self, rate_limits: Iterable[RateLimit]) -> None:
        """Report the head of the response; see `Permit.reported`."""
        self._tell(wire.Answered(self._number, tuple(rate_limits)))

    def accepted(self) -> None:
        """Note that the server accepted the request; see `Permit.accepted`."""
        self._is_accepted = True

    def refused(self, seconds: float) -> None:
        """Report that the server refused the request; see `Permit.refused`."""
        self._tell(wire.Refused(self._number, seconds))

    def correct(self, tokens: int) -> None:
        """Note the actual usage of the request; see `Permit.correct`."""
        self._tokens = tokens

    def release(self) -> None:
        """Report that the response has ended, or never came. Doing so twice does nothing."""
        if not self._is_released:
            self._is_released = True
            self._tell(wire.Released(self._number, self._is_accepted, self._tokens))

    def _tell(self, report: wire.Report) -> None:
        self._channel.tell(wire.TOPIC, encode(report))
