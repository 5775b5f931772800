"""The service "limits" on a worker: calls of rate-limited functions ask the program for their turn."""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import count

from ..kernel.environment import Environment
from ..models.pacing import LIMIT_FINDER, PacingLimits, Start
from ..parallel.event_loop import shared_time
from . import limit_service as wire
from .grants import ask_for_grant
from .messages import encode
from .services import CallChannel

_NUMBERS = count()


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Have the rate-limited functions of a call on a worker wait in the program."""
    with LIMIT_FINDER.active(lambda name, limits: _ProgramLimit(channel, name, limits)):
        yield environment


class _NumberedStart(Start):
    """A call that has begun.

    Args:
        number: The number of the call.
    """

    number: int = 0


class _ProgramLimit:
    """A rate limit that is kept in the program; a `CallLimit`.

    Args:
        channel: The channel of the call on the worker.
        name: The name of the limit.
        limits: Its numbers.
    """

    def __init__(self, channel: CallChannel, name: str, limits: PacingLimits) -> None:
        self.limits = limits
        self._channel = channel
        self._name = name

    def enter_nowait(self, tokens: int | None) -> Start | None:
        """Return None: the program is to be asked."""
        return None

    async def enter(self, tokens: int | None, *, goes_first: bool = False) -> Start:
        """Begin a call when it is its turn in the program; see `CallLimit.enter`."""
        number = next(_NUMBERS)
        question = wire.Enter(number, self._name, self.limits, tokens)
        giving_back = encode(wire.Return(number))
        answer = await ask_for_grant(self._channel, wire.TOPIC, encode(question), giving_back)
        return _NumberedStart(shared_time(), wire.decode_tokens(answer), self.limits, number=number)

    def settle(self, start: Start, tokens: int | None) -> None:
        """Report the end of a call; see `CallLimit.settle`."""
        assert isinstance(start, _NumberedStart), "the start of another limit"
        self._tell(wire.Settle(start.number, tokens))

    def _tell(self, report: wire.Report) -> None:
        self._channel.tell(wire.TOPIC, encode(report))
