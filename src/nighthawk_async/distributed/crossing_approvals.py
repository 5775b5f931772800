"""Requests for approval as bytes, and back."""

import math
from datetime import datetime

from msgspec import Struct

from ..policies.people.ballot import ApprovalStatus, Ballot, Vote
from ..policies.people.request import ApprovalRequest
from ..types.execution import ExecutionRef
from ..types.json import JsonableValue
from .scope_pickling import dump_part, load_part


class CrossedApproval(Struct, frozen=True):
    """A request for approval that has crossed, with the answers that it had; the arguments are pickled."""

    id: str
    action: str
    arguments: bytes
    digest: str
    quorum: int
    approvers: list[str] | None
    created_at: datetime
    execution_ref: ExecutionRef | None
    given: list[Vote]
    status: ApprovalStatus
    roles: dict[str, list[str]] = {}
    implementation: str = ""


def crossed_approval(request: ApprovalRequest) -> CrossedApproval:
    """Return a request as it crosses.

    Raises:
        CrossingError: An argument cannot cross.
    """
    return CrossedApproval(
        id=request.id,
        action=request.action,
        arguments=dump_part(dict(request.arguments), "the arguments of a request for approval"),
        digest=request.digest,
        quorum=request.quorum,
        approvers=None if request.ballot.votes.asked is None else sorted(request.ballot.votes.asked),
        created_at=request.created_at,
        execution_ref=request.execution_ref,
        given=list(request.answers),
        status=request.status,
        roles={name: sorted(people) for name, people in request.roles.items()},
        implementation=request.implementation,
    )


def rebuilt_approval(crossed: CrossedApproval, *, seconds: float = math.inf) -> ApprovalRequest:
    """Return a request that has crossed, with a ballot of its own.

    Args:
        crossed: The request.
        seconds: The seconds until it expires; infinity for never.
    """
    approvers = None if crossed.approvers is None else frozenset(crossed.approvers)
    roles = {name: frozenset(people) for name, people in crossed.roles.items()}
    ballot = Ballot(quorum=crossed.quorum, approvers=approvers, timeout=seconds, roles=roles)
    for vote in crossed.given:
        ballot.votes.add(vote)
    ballot.votes.status = crossed.status
    arguments: dict[str, JsonableValue] = load_part(crossed.arguments, "arguments")
    return ApprovalRequest(
        id=crossed.id,
        action=crossed.action,
        arguments=arguments,
        digest=crossed.digest,
        quorum=crossed.quorum,
        created_at=crossed.created_at,
        execution_ref=crossed.execution_ref,
        ballot=ballot,
        implementation=crossed.implementation,
    )
