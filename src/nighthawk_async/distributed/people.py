"""People as a service: questions and requests for approval of calls on workers reach the program's handler.

The handler is asked below the mirrored node of the question, in the context of the call. A question is
withdrawn when the asking code is cancelled, or its worker is lost; a call that is placed again asks again,
unless a journal has recorded the answer.
"""

import math
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ..actors import BareTaskGroup
from ..kernel.commands import await_value
from ..kernel.environment import Environment
from ..observation import using_node_writer
from ..policies.people.ballot import Vote
from ..policies.people.default_handler import find_default_handler, using_default_handler
from ..policies.people.errors import AnswerRefusedError
from ..policies.people.policy import PeoplePolicy
from ..policies.people.remembered import RunApprovals, approvals_of
from ..policies.people.request import ApprovalRequest, HumanHandler, Question
from ..policies.people.roles import roles_from, roles_of
from ..types.execution import ExecutionRef
from .crossing_approvals import CrossedApproval, crossed_approval, rebuilt_approval
from .live_tree import mirrored_node, number_of_node
from .messages import encode
from .scope_pickling import dump_part, load_part
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "people"


class _Setup(Struct, frozen=True):
    """The handler of the scope, and the default one of runs that begin in the call; each by its roles."""

    handler: dict[str, list[str]] | None
    default: dict[str, list[str]] | None


class _Ask(Struct, frozen=True, tag="ask"):
    """A question, with its node, and whether the scope's handler is asked or the default one."""

    node: int
    id: str
    prompt: str
    schema: bytes
    default: bytes | None
    attempt: int
    error: str | None
    execution_ref: ExecutionRef | None
    is_default_handler: bool


class _Approve(Struct, frozen=True, tag="approve"):
    """A request for approval, which expires in some seconds."""

    node: int
    request: CrossedApproval
    seconds: float | None
    is_default_handler: bool


_Request: TypeAlias = _Ask | _Approve


class _Given(Struct, frozen=True):
    """An order for a request: a person's answer."""

    id: str
    vote: Vote
    seconds: float | None = None


class _Answered(Struct, frozen=True):
    """An answer, pickled; None for the default."""

    body: bytes | None


_decode_request = msgspec.msgpack.Decoder(_Request).decode


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_PeoplePart | None":
    """Begin to answer the questions of a call; see `services.BeginService`."""
    policy = None if environment is None else environment.policies.find(PeoplePolicy)
    default = find_default_handler()
    if policy is None and default is None:
        return None
    approvals, is_durable = None, False
    if environment is not None and not environment.run_state.is_stand_in:
        approvals, is_durable = approvals_of(environment.run_state), environment.journal is not None
    handler = None if policy is None else policy.handler
    return _PeoplePart(handler, default, send_order, approvals=approvals, is_durable=is_durable)


class _PeoplePart(ProgramPart):
    """The part in the program.

    Args:
        handler: The handler of the caller's scope; None for none.
        default: The default handler of runs; None for none.
        send_order: Sends people's answers to the worker.
        approvals: The remembered approvals of the run; None where there are none.
        is_durable: Whether the run has a journal, in which the worker itself remembers approvals.
    """

    def __init__(
        self,
        handler: HumanHandler | None,
        default: HumanHandler | None,
        send_order: SendOrder,
        *,
        approvals: RunApprovals | None,
        is_durable: bool,
    ) -> None:
        self._handler = handler
        self._default = default
        self._send_order = send_order
        self._approvals = approvals
        self._is_durable = is_durable

    def setup(self) -> bytes:
        """Return which handlers there are."""
        return encode(_Setup(handler=_roles_in(self._handler), default=_roles_in(self._default)))

    async def answer(self, body: bytes) -> bytes:
        """Ask people, and return their answer."""
        request = _decode_request(body)
        handler = self._default if request.is_default_handler else self._handler
        assert handler is not None, "the worker asks handlers that there are"
        with using_node_writer(mirrored_node(request.node)):
            if isinstance(request, _Ask):
                return await _ask(handler, request)
            await self._approve(handler, request)
            return b""

    async def _approve(self, handler: HumanHandler, asked: _Approve) -> None:
        seconds = math.inf if asked.seconds is None else asked.seconds
        request = rebuilt_approval(asked.request, seconds=seconds)
        ballot = request.ballot
        ballot.on_vote = lambda vote: self._send_order(encode(_given(request, vote)))
        approvals = self._approvals
        try:
            if approvals is None:
                await _have_approved(handler, request)
            elif not approvals.count(request):
                with approvals.waiting(request):
                    await _have_approved(handler, request)
            if approvals is not None and ballot.votes.is_remembered:
                (approvals.announce if self._is_durable else approvals.add)(request)
        finally:
            ballot.end("cancelled" if ballot.remaining_seconds else "expired")


def _roles_in(handler: HumanHandler | None) -> dict[str, list[str]] | None:
    if handler is None:
        return None
    return {name: sorted(people) for name, people in roles_of(handler).items()}


async def _have_approved(handler: HumanHandler, request: ApprovalRequest) -> None:
    """Have people asked until the request is decided; an approval that is remembered meanwhile counts."""
    async with BareTaskGroup() as group:
        group.start_soon(_hand_over, handler, request)
        await request.wait_closed()
        group.cancel_scope.cancel()


async def _hand_over(handler: HumanHandler, request: ApprovalRequest) -> None:
    await await_value(handler.approve(request))


def _given(request: ApprovalRequest, vote: Vote) -> _Given:
    seconds = request.remaining_seconds
    return _Given(request.id, vote, None if math.isinf(seconds) else seconds)


async def _ask(handler: HumanHandler, asked: _Ask) -> bytes:
    question = Question(
        id=asked.id,
        prompt=asked.prompt,
        schema=load_part(asked.schema, "schema"),
        attempt=asked.attempt,
        error=asked.error,
        execution_ref=asked.execution_ref,
    )
    if asked.default is not None:
        question = replace(question, default=load_part(asked.default, "default"))
    answer = await await_value(handler.ask(question))
    if question.has_default and answer is question.default:
        return encode(_Answered(None))
    return encode(_Answered(dump_part(answer, "the answer of a person")))


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Let a call on a worker ask the program's people; see `services.EnterService`."""
    given = msgspec.msgpack.decode(setup, type=_Setup)
    requests: dict[str, ApprovalRequest] = {}
    channel.on_order(TOPIC, lambda body: _take_vote(requests, body))
    if environment is not None and given.handler is not None:
        handler = _ProgramHandler(channel, requests, given.handler, is_default=False)
        policies = environment.policies.with_policy(PeoplePolicy(handler))
        environment = replace(environment, policies=policies)
    default = None
    if given.default is not None:
        default = _ProgramHandler(channel, requests, given.default, is_default=True)
    with using_default_handler(default):
        yield environment


def _take_vote(requests: Mapping[str, ApprovalRequest], body: bytes) -> None:
    """Count a person's answer, which the program has counted already."""
    given = msgspec.msgpack.decode(body, type=_Given)
    request = requests.get(given.id)
    if request is None:  # it has ended meanwhile
        return
    with suppress(AnswerRefusedError):  # it has expired here
        request.ballot.count_crossed(given.vote, math.inf if given.seconds is None else given.seconds)


class _ProgramHandler:
    """Asks people through the program; see `human.HumanHandler`.

    Args:
        channel: The way to the program.
        requests: The requests for approval that people are asked for, by their ids.
        roles: The people of the roles that requests may be handed on to.
        is_default: Whether the default handler of the program is asked.
    """

    def __init__(
        self,
        channel: CallChannel,
        requests: dict[str, ApprovalRequest],
        roles: Mapping[str, Collection[str]],
        *,
        is_default: bool,
    ) -> None:
        self.approver_roles = roles_from(roles)
        self._channel = channel
        self._requests = requests
        self._is_default = is_default

    async def ask(self, question: Question) -> object:
        """Ask a question."""
        default = (
            dump_part(question.default, "the default answer of a question") if question.has_default else None
        )
        asked = _Ask(
            node=number_of_node(),
            id=question.id,
            prompt=question.prompt,
            schema=dump_part(question.schema, "the type of the answer to a question. Define it in a module"),
            default=default,
            attempt=question.attempt,
            error=question.error,
            execution_ref=question.execution_ref,
            is_default_handler=self._is_default,
        )
        body = await self._channel.ask(TOPIC, encode(asked))
        answered = msgspec.msgpack.decode(body, type=_Answered)
        return question.default if answered.body is None else load_part(answered.body, "answer")

    async def approve(self, request: ApprovalRequest) -> None:
        """Ask for an approval."""
        seconds = request.remaining_seconds
        asked = _Approve(
            node=number_of_node(),
            request=crossed_approval(request),
            seconds=None if math.isinf(seconds) else seconds,
            is_default_handler=self._is_default,
        )
        self._requests[request.id] = request
        try:
            await self._channel.ask(TOPIC, encode(asked))
        finally:
            del self._requests[request.id]
