"""The service "pacing": requests of workers to an endpoint wait for their turn in the program.

The program's pacer knows the requests of all workers and its own, so the limits of a provider, those of the
configuration and the slowdown after a refusal hold over all of them together.
"""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct

from ..kernel.environment import Environment, using_environment
from ..models.pacing import Demand, Permit
from ..wire.rate_limits import RateLimit
from .grants import Grants
from .messages import encode
from .services import ProgramPart, SendOrder

if TYPE_CHECKING:
    from ..models.http_pool import PacerShelf

TOPIC = "pacing"


class Admit(Struct, frozen=True, array_like=True):
    """Wait until a request may be sent; the answer is its turn.

    Args:
        number: The number of the permit, which the worker gives.
        account: Identifies the endpoint and its credentials, and reveals neither.
        demand: The demand of the request.
        turn: The turn that it had before, when it is sent again; None for a new request.
    """

    number: int
    account: str
    demand: Demand
    turn: int | None


class Answered(Struct, frozen=True, tag=True, array_like=True):
    """The head of the response has arrived, or never will."""

    number: int
    rate_limits: tuple[RateLimit, ...]


class Refused(Struct, frozen=True, tag=True, array_like=True):
    """The server refused the request; see `Permit.refused`."""

    number: int
    seconds: float


class Released(Struct, frozen=True, tag=True, array_like=True):
    """The request has ended.

    Args:
        number: The number of the permit.
        is_accepted: Whether the server had accepted it.
        tokens: The tokens that it used; None when unknown.
    """

    number: int
    is_accepted: bool
    tokens: int | None


class Return(Struct, frozen=True, tag=True, array_like=True):
    """The request is not sent; perhaps its turn has not come yet."""

    number: int


Report: TypeAlias = Answered | Refused | Released | Return

decode_turn = msgspec.msgpack.Decoder(int).decode
_decode_question = msgspec.msgpack.Decoder(Admit).decode
_decode_report = msgspec.msgpack.Decoder(Report).decode


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_PacingPart | None":
    """Begin to pace the requests of a call, which wait as those of the caller's run."""
    return None if environment is None else _PacingPart(environment)


class _Held(NamedTuple):
    """A permit of a worker's request, and the shelf that keeps its pacer."""

    permit: Permit
    shelf: "PacerShelf"
    account: str

    def release(self) -> None:
        self.permit.release()
        self.shelf.give_back(self.account)


class _PacingPart(ProgramPart):
    """Paces the requests of one placement of a call.

    Args:
        environment: The environment of the caller.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._permits: Grants[_Held] = Grants(_Held.release)

    async def answer(self, body: bytes) -> bytes:
        from ..models.http_pool import shelf_of_run  # here, because calls may send no requests

        question = _decode_question(body)
        with using_environment(self._environment):
            shelf = await shelf_of_run()
        pacer = shelf.take(question.account)
        try:
            permit = await pacer.admit(question.demand, turn=question.turn)
        except BaseException:
            shelf.give_back(question.account)
            raise
        self._permits.add(question.number, _Held(permit, shelf, question.account))
        return encode(permit.turn)

    def note(self, body: bytes) -> None:
        report: Report = _decode_report(body)
        if isinstance(report, Return):
            self._permits.return_one(report.number)
            return
        held = self._permits.find(report.number)
        if held is None:
            return
        match report:
            case Answered():
                held.permit.reported(report.rate_limits)
            case Refused():
                held.permit.refused(report.seconds)
            case Released():
                if report.is_accepted:
                    held.permit.accepted()
                if report.tokens is not None:
                    held.permit.correct(report.tokens)
                self._permits.return_one(report.number)

    def end(self, *, is_lost: bool) -> None:
        for held in self._permits.end():
            held.release()
