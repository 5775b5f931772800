"""The service "limits": rate-limited functions on workers are called when it is their turn in the program."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from ..kernel.environment import Environment
from ..models.pacing import PacingLimits, Start
from .grants import Grants
from .messages import encode
from .services import ProgramPart, SendOrder

if TYPE_CHECKING:
    from ..resilience.rate_limit import SharedLimit

TOPIC = "limits"


class Enter(Struct, frozen=True, array_like=True):
    """Begin a call when it is its turn; the answer is the tokens that it reserves.

    Args:
        number: The number of the call, which the worker gives.
        name: The name of the limit.
        limits: Its numbers.
        tokens: The tokens that the call will use; None for the average.
    """

    number: int
    name: str
    limits: PacingLimits
    tokens: int | None


class Settle(Struct, frozen=True, tag=True, array_like=True):
    """A call has ended, and has used tokens; None when unknown."""

    number: int
    tokens: int | None


class Return(Struct, frozen=True, tag=True, array_like=True):
    """A call does not begin; perhaps its turn has not come yet."""

    number: int


Report: TypeAlias = Settle | Return

decode_tokens = msgspec.msgpack.Decoder(int).decode
_decode_question = msgspec.msgpack.Decoder(Enter).decode
_decode_report = msgspec.msgpack.Decoder(Report).decode


def begin(environment: Environment | None, worker: str, attempt: int, send_order: SendOrder) -> "_LimitsPart":
    """Begin to limit the calls of functions, within runs and outside of them."""
    return _LimitsPart()


class _Begun(NamedTuple):
    """A call that has begun on a worker."""

    limit: "SharedLimit"
    start: Start

    def give_back(self) -> None:
        self.limit.give_back(self.start)


class _LimitsPart(ProgramPart):
    """The rate limits of the program for one placement of a call."""

    def __init__(self) -> None:
        self._calls: Grants[_Begun] = Grants(_Begun.give_back)

    async def answer(self, body: bytes) -> bytes:
        from ..resilience.rate_limit import shared_limit  # here, because few programs limit functions

        question = _decode_question(body)
        limit = shared_limit(question.name, question.limits)
        start = limit.enter_nowait(question.tokens) or await limit.enter(question.tokens)
        self._calls.add(question.number, _Begun(limit, start))
        return encode(start.tokens)

    def note(self, body: bytes) -> None:
        report: Report = _decode_report(body)
        if isinstance(report, Return):
            self._calls.return_one(report.number)
            return
        begun = self._calls.take(report.number)
        if begun is not None:
            begun.limit.settle(begun.start, report.tokens)

    def end(self, *, is_lost: bool) -> None:
        self._calls.end()  # what they have reserved counts, because nobody knows what they have used
