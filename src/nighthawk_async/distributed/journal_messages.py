"""Messages about a part of a run with a journal, between the program and the worker that records there."""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..journal.parts import PartEnd, RunPart
from ..journal.records import Record

TOPIC = "journal"


class Setup(Struct, frozen=True, kw_only=True):
    """The parts that the journal on a worker is made from.

    Args:
        part: The part of the run.
        limits: Whether a limit around the call expired in an earlier life; None where there are none.
        writes: Whether the worker may append to the store of the run itself, if it reaches it.
        waits: Whether to ask with `Open` before the call begins.
    """

    part: RunPart
    limits: bool | None
    writes: bool = False
    waits: bool = False


class Append(Struct, frozen=True, tag=True, kw_only=True):
    """Records to append, in order."""

    records: list[Record]


class Await(Struct, frozen=True, tag=True, kw_only=True):
    """A request for `Done` when everything that was sent before is durable.

    Args:
        number: Its number.
        renews: Whether it is about the lease of the run instead: that this life still has the run.
    """

    number: int
    renews: bool = False


class LimitsReached(Struct, frozen=True, tag=True):
    """The call is about to begin something that no earlier life has recorded."""


class FunctionEnded(Struct, frozen=True, tag=True):
    """A function has ended in the call."""


class Leave(Struct, frozen=True, tag=True, kw_only=True):
    """The call has ended: nothing more is recorded.

    Args:
        end: The errors that it leaves.
        failure: The error, encoded, because of which not everything was recorded; None for none.
    """

    end: PartEnd
    failure: bytes | None = None


class Done(Struct, frozen=True, tag=True, kw_only=True):
    """The answer to `Await`; the only order.

    Args:
        number: The number of the request.
        error: The failure, encoded; None for none.
    """

    number: int
    error: bytes | None = None


class Open(Struct, frozen=True, tag=True):
    """The question whether the call may begin.

    It may when the worker is one of the run's writers, and everything is durable that the program has
    recorded before. The answer has the records that a lost worker has left in the part.
    """


class OpenQuestion(Struct, frozen=True, tag=True, kw_only=True):
    """Let people answer a question through the store; see `AskedQuestion`.

    Args:
        id: Its id.
        place: Its place, relative to the run.
        kind: Its kind.
        content: Its parts and the schema of the answers, as the journal writes values.
        ends_at: The time at which it ends without an answer, in seconds since 1970; None for never.
    """

    id: str
    place: str
    kind: Literal["question", "approval"]
    content: bytes
    ends_at: float | None


class CloseQuestion(Struct, frozen=True, tag=True, kw_only=True):
    """Accept no answer any more."""

    id: str


class NoteCounted(Struct, frozen=True, tag=True, kw_only=True):
    """The votes on a question up to a number have counted, and have not decided the request."""

    id: str
    number: int


class UseAnswers(Struct, frozen=True, tag=True, kw_only=True):
    """Use the answers to a question that was opened; see `journal_ports.GivenAnswers`.

    Args:
        id: The question.
        method: The method.
        after: The argument of `next_vote`.
    """

    id: str
    method: Literal["next_answer", "find_answer", "refuse", "claim", "next_vote"]
    after: int = 0


class NoteEscalation(Struct, frozen=True, tag=True, kw_only=True):
    """A request for approval was handed on to a role, not through the store.

    Args:
        id: The request.
        voter: The person who handed it on.
        role: The role.
        reason: The reason.
    """

    id: str
    voter: str
    role: str
    reason: str


class FindRemembered(Struct, frozen=True, tag=True, kw_only=True):
    """Return the approvals that count for equal calls of the run."""


class RememberApproval(Struct, frozen=True, tag=True, kw_only=True):
    """Let an approval count for equal calls of the run.

    Args:
        id: The request.
        approval: What was to run and the approvals, as the store keeps them.
    """

    id: str
    approval: bytes


class RevokeApproval(Struct, frozen=True, tag=True, kw_only=True):
    """Let an approval count for no further call: as a report, or as a question, to wait for it.

    Args:
        id: The request.
        voter: The person.
        reason: The reason.
    """

    id: str
    voter: str
    reason: str


Report: TypeAlias = (
    Append
    | Await
    | LimitsReached
    | FunctionEnded
    | Leave
    | CloseQuestion
    | NoteCounted
    | NoteEscalation
    | RevokeApproval
)
Question: TypeAlias = Open | OpenQuestion | UseAnswers | FindRemembered | RememberApproval | RevokeApproval

decode_setup = msgspec.msgpack.Decoder(Setup).decode
decode_done = msgspec.msgpack.Decoder(Done).decode
decode_records = msgspec.msgpack.Decoder(list[Record]).decode
_decode_report = msgspec.msgpack.Decoder(Report).decode
_decode_question = msgspec.msgpack.Decoder(Question).decode


def decode_report(body: bytes) -> Report:
    """Decode a report of a worker."""
    return _decode_report(body)


def decode_question(body: bytes) -> Question:
    """Decode a question of a worker."""
    return _decode_question(body)
