"""Questions and requests for approval that are answered over the dashboard.

Each appears as its own node, and is answered under that node's id.
"""

import json
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec
from pydantic.errors import PydanticInvalidForJsonSchema

from ...command_risks import risks_of_arguments
from ...errors import NoHumanError, ToolValidationError
from ...observation import find_node_writer
from ...observe.page.summaries import ANSWERABLE, Summary
from ...observe.tree import TaskTree, find_node_id, find_tree
from ...parallel.event_loop import LoopEvent
from ...policies.people.ballot import Remember
from ...policies.people.errors import AnswerRefusedError, NotRememberedError
from ...policies.people.request import ApprovalRequest, Question, typed_answer
from ...types.json import JsonableValue
from ...values.validation import type_adapter, type_name
from .request import RefusalError, bad_request, not_allowed, not_now, not_valid

_MAX_CHOICES = 200


class AnswerBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer to a question or to a request for approval. A question is answered in one of four forms.

    Args:
        stream: The identity of the tree in which the node was seen.
        answer: The answer itself; `approve`, `deny` or `escalate` for a request, `revoke` for an approval
            that is remembered.
        text: The text that a person typed, parsed as the question's type without losing digits.
        choice: The index of the choice, from 0.
        default: Whether to use the question's default.
        digest: The digest of the action that the person saw, for an approval.
        reason: The reason for a denial, for handing a request on, and for revoking an approval.
        remember: `run` for an approval that counts for equal calls of the run as well.
        role: The role that a request is handed on to.
    """

    stream: str
    answer: object = msgspec.UNSET
    text: str | None = None
    choice: int | None = None
    default: bool = False
    digest: str | None = None
    reason: str = ""
    remember: Remember | None = None
    role: str = ""

    @property
    def has_answer(self) -> bool:
        """Whether the answer itself is given."""
        return self.answer is not msgspec.UNSET


def answer_to(question: Question, body: AnswerBody) -> object:
    """Return the answer to a question, once it is found valid.

    Args:
        question: The question.
        body: The request.

    Raises:
        RefusalError: The request has no answer, or several, or the answer is not valid.
    """
    check_one_form(body)
    answer = _stated_answer(question, body)
    try:
        question.validate(answer)
    except ToolValidationError as error:
        raise RefusalError(not_valid(str(error))) from None
    return answer


def check_one_form(body: AnswerBody) -> None:
    """Refuse a request that has no answer, or several.

    Raises:
        RefusalError: It has none, or several.
    """
    if [body.has_answer, body.text is not None, body.choice is not None, body.default].count(True) != 1:
        raise RefusalError(bad_request("The answer is one of answer, text, choice and default."))


def question_as_json(question: Question) -> Summary:
    """Convert a question to JSON. Its choices are texts, because a browser would round large numbers.

    Args:
        question: The question.
    """
    schema = _schema_of(question)
    return {
        "type": "question",
        "prompt": visible(question.prompt),
        "schema": schema,
        "type_name": visible(type_name(question.schema)),
        "choices": shown_choices(choices_in(schema)),
        "attempt": question.attempt,
        "error": None if question.error is None else visible(question.error),
        "has_default": question.has_default,
        "default": _shown_default(question),
    }


def visible(text: str) -> str:
    """Escape invisible characters and those that change the reading direction.

    Args:
        text: The text.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
        for each in text
    )


def _shown_default(question: Question) -> str | None:
    """The default as text; None for values whose own code would have to say what they are."""
    default = question.default
    if type(default) is str:
        return visible(default)
    is_plain = default is None or type(default) in (bool, int, float)
    return str(default) if question.has_default and is_plain else None


def _stated_answer(question: Question, body: AnswerBody) -> object:
    if body.has_answer:
        return body.answer
    if body.text is not None:
        return typed_answer(body.text, question)
    if body.choice is not None:
        return chosen(_schema_of(question), body.choice)
    if not question.has_default:
        raise RefusalError(not_valid("The question has no default."))
    return question.default


def _schema_of(question: Question) -> dict[str, JsonableValue] | None:
    try:
        return type_adapter(question.schema).json_schema()
    except PydanticInvalidForJsonSchema:
        return None


def choices_in(schema: Mapping[str, Any] | None) -> list[JsonableValue] | None:
    """Return the values that match a schema when they can be enumerated; None when they cannot."""
    return None if schema is None else _choices_of(schema, schema)


def chosen(schema: Mapping[str, Any] | None, number: int) -> JsonableValue:
    """Return a value that matches a schema by its number, from 0.

    Raises:
        RefusalError: There is none.
    """
    choices = choices_in(schema) or []
    if not 0 <= number < len(choices):
        raise RefusalError(not_valid("There is no such choice."))
    return choices[number]


def _choices_of(schema: Any, root: Any) -> list[JsonableValue] | None:
    """Return the values that match a schema when they can be enumerated; None when they cannot.

    Args:
        schema: The schema, or a part of it.
        root: The whole schema, which holds the definitions.
    """
    match schema:
        case {"enum": list()}:
            choices: list[JsonableValue] = schema["enum"]
            return choices if len(choices) <= _MAX_CHOICES else None
        case {"const": value}:
            return [value]
        case {"type": "boolean"}:
            return [True, False]
        case {"type": "null"}:
            return [None]
        case {"$ref": str(reference)}:
            return _choices_of(root.get("$defs", {}).get(reference.rpartition("/")[2]), root)
        case {"anyOf": list()}:
            parts = [_choices_of(each, root) for each in schema["anyOf"]]
            known = [part for part in parts if part is not None]
            return [value for part in known for value in part] if len(known) == len(parts) else None
        case _:
            return None


def shown_choices(choices: list[JsonableValue] | None) -> list[JsonableValue] | None:
    """Return choices as texts, because a browser would round large numbers; None for none."""
    return None if choices is None else [*map(_choice_as_text, choices)]


def _choice_as_text(value: JsonableValue) -> str:
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


Answer = TypeVar("Answer")
Subject = TypeVar("Subject")


class _Vote(msgspec.Struct, frozen=True):
    """A person's vote on a request; without a digest it is a denial, or hands the request on to a role."""

    approver: str
    digest: str | None = None
    reason: str = ""
    remember: Remember | None = None
    role: str = ""


class AskedPeople(Protocol):
    """The questions that people can answer at a dashboard, by the ids of their nodes."""

    def describe(self, node_id: str) -> Summary | None:
        """Describe the question that can be answered at a node; None for none."""
        ...

    async def answer(self, node_id: str, body: AnswerBody, actor: str) -> None:
        """Answer the question or the request at a node, or revoke the approval there.

        Raises:
            RefusalError: Nothing is asked there any more, the answer is not valid, or other people are asked.
        """
        ...

    async def remembered(self) -> list[Summary]:
        """Return the approvals that are remembered for equal calls, each with its node."""
        ...


class DashboardHandler:
    """Asks the people at a dashboard; `Dashboard.human` is one.

    Args:
        can_answer: Whether the dashboard accepts answers.
        shown_tree: Returns the tree that the dashboard shows; None for the active one.
    """

    def __init__(self, *, can_answer: bool, shown_tree: Callable[[], TaskTree | None]) -> None:
        self._can_answer = can_answer
        self._shown_tree = shown_tree
        self._questions: dict[str, _Pending[Question, object]] = {}
        self._requests: dict[str, _Pending[ApprovalRequest, _Vote]] = {}
        self._remembered: WeakValueDictionary[str, ApprovalRequest] = WeakValueDictionary()  # by node

    async def ask(self, question: Question) -> object:
        """Wait until a question is answered.

        Raises:
            NoHumanError: The dashboard cannot show it, or accepts no answers.
        """
        pending: _Pending[Question, object] = _Pending(question)
        with self._answerable(self._questions, pending):
            return await pending.take()

    async def approve(self, request: ApprovalRequest) -> None:
        """Accept votes until a request is decided.

        Raises:
            NoHumanError: The dashboard cannot show it, or accepts no answers.
        """
        seconds = request.remaining_seconds
        expires_at = None if math.isinf(seconds) else time.time() + seconds
        pending: _Pending[ApprovalRequest, _Vote] = _Pending(request, expires_at)
        with self._answerable(self._requests, pending) as node_id:
            try:
                while request.is_pending:
                    _count_vote(request, await pending.take())
            finally:
                if request.ballot.votes.is_remembered:
                    self._remembered[node_id] = request

    def describe(self, node_id: str) -> Summary | None:
        """Describe the request that can be answered at a node; None for none."""
        question = self._questions.get(node_id)
        if question is not None:
            return question_as_json(question.subject)
        request = self._requests.get(node_id)
        if request is not None:
            return _request_as_json(request)
        remembered = self._find_remembered(node_id)
        return None if remembered is None else _remembered_as_json(remembered, node_id)

    async def remembered(self) -> list[Summary]:
        """Return the approvals that are remembered for equal calls, each with its node."""
        found = [(node_id, self._find_remembered(node_id)) for node_id in list(self._remembered)]
        return [_remembered_as_json(request, node_id) for node_id, request in found if request is not None]

    def _find_remembered(self, node_id: str) -> ApprovalRequest | None:
        request = self._remembered.get(node_id)
        return request if request is not None and request.is_remembered else None

    async def answer(self, node_id: str, body: AnswerBody, actor: str) -> None:
        """Answer the question or the request at a node.

        Args:
            node_id: The id of the node.
            body: The answer.
            actor: The person who answers.

        Raises:
            RefusalError: Nothing is asked there any more, the answer is not valid, or other people are asked.
        """
        if (question := self._questions.get(node_id)) is not None:
            _answer_question(question, body)
        elif (request := self._requests.get(node_id)) is not None:
            _answer_request(request, body, actor)
        elif (remembered := self._find_remembered(node_id)) is not None:
            _revoke(remembered, body, actor)
        else:
            raise RefusalError(not_now("Nothing is asked here, or no more."))

    @contextmanager
    def _answerable(
        self, asked: "dict[str, _Pending[Subject, Answer]]", pending: "_Pending[Subject, Answer]"
    ) -> Generator[str, None, None]:
        """Allow the active node to be answered; yield its id.

        Args:
            asked: The pending requests by node.
            pending: The pending request at this one.
        """
        node_id, writer = self._find_place(), find_node_writer()
        asked[node_id] = pending
        if writer is not None:
            writer.set_attributes({ANSWERABLE: True})
        try:
            yield node_id
        finally:
            asked.pop(node_id, None)
            if writer is not None:
                writer.set_attributes({ANSWERABLE: False})

    def _find_place(self) -> str:
        node_id = find_node_id()
        if node_id is None:
            raise NoHumanError("Nobody would see a question on the dashboard: nothing is recorded here.")
        if self._shown_tree() not in (None, find_tree()):
            raise NoHumanError("Nobody would see a question on the dashboard: it shows another task tree.")
        if not self._can_answer:
            raise NoHumanError("Nobody can answer on the dashboard: it has no token and is read-only.")
        return node_id


class _Pending(Generic[Subject, Answer]):
    """The answers to one question or request, from any thread.

    Args:
        subject: The question, or the request.
        expires_at: The time at which it expires, in Unix seconds; None when it is unknown.
    """

    def __init__(self, subject: Subject, expires_at: float | None = None) -> None:
        self.subject = subject
        self.expires_at = expires_at
        self.is_answered = False
        self.approvers: set[str] = set()
        self._answers: deque[Answer] = deque()
        self._event = LoopEvent()

    def give(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._event.set()

    async def take(self) -> Answer:
        while not self._answers:
            self._event = event = LoopEvent()
            if not self._answers:  # one may have come just before the event was created
                await event.wait()
        return self._answers.popleft()


def _count_vote(request: ApprovalRequest, vote: _Vote) -> None:
    with suppress(AnswerRefusedError):  # it was checked on arrival; the request may have ended since
        if vote.role:
            request.escalate_to(vote.role, by=vote.approver, reason=vote.reason)
        elif vote.digest is None:
            request.deny(vote.approver, vote.reason)
        else:
            request.approve(vote.approver, digest=vote.digest, remember=vote.remember)
    writer = find_node_writer()
    if writer is not None:
        writer.set_attributes({"approval.approvals": len(request.approvals)})


def _answer_question(pending: _Pending[Question, object], body: AnswerBody) -> None:
    answer = answer_to(pending.subject, body)
    if pending.is_answered:
        raise RefusalError(not_now("It was answered just now."))
    pending.is_answered = True
    pending.give(answer)


def _answer_request(pending: _Pending[ApprovalRequest, _Vote], body: AnswerBody, actor: str) -> None:
    request = pending.subject
    if body.answer not in ("approve", "deny", "escalate"):
        raise RefusalError(bad_request("The answer to a request is approve, deny or escalate."))
    if not request.is_pending:
        raise RefusalError(not_now(f"The request is {request.status} already."))
    if request.approvers is not None and actor not in request.approvers:
        raise RefusalError(not_allowed(f"{actor} is not among the approvers."))
    if body.answer == "deny":
        pending.approvers.discard(actor)
        pending.give(_Vote(actor, reason=body.reason))
    elif body.answer == "escalate":
        _check_role(request, body.role)
        pending.approvers.intersection_update(request.roles[body.role])
        pending.give(_Vote(actor, reason=body.reason, role=body.role))
    elif body.digest != request.digest:
        raise RefusalError(not_now("The approval is for another action, or for other arguments."))
    elif actor in pending.approvers:
        raise RefusalError(not_now(f"{actor} has approved already: it takes {request.quorum} people."))
    else:
        pending.approvers.add(actor)
        pending.give(_Vote(actor, request.digest, remember=body.remember))


def _check_role(request: ApprovalRequest, role: str) -> None:
    """Refuse a role that a request cannot be handed on to.

    Raises:
        RefusalError: It cannot.
    """
    if role not in request.roles:
        raise RefusalError(not_valid("There is no such role."))
    if role == request.role:
        raise RefusalError(not_now(f"The role {role} has the request already."))
    if len(request.roles[role]) < request.quorum:
        raise RefusalError(not_now(f"The role {role} has too few people: it takes {request.quorum}."))


def _revoke(request: ApprovalRequest, body: AnswerBody, actor: str) -> None:
    check_revocation(body)
    try:
        request.revoke(actor, body.reason)
    except NotRememberedError:
        raise RefusalError(not_now("The approval was revoked just now.")) from None


def check_revocation(body: AnswerBody) -> None:
    """Refuse what is no answer to an approval that is remembered.

    Raises:
        RefusalError: It is something else.
    """
    if body.answer != "revoke":
        raise RefusalError(bad_request("The approval is remembered: the answer is revoke."))


def _request_as_json(pending: _Pending[ApprovalRequest, _Vote]) -> Summary:
    request = pending.subject
    return approval_as_json(
        action=request.action,
        arguments=request.arguments,
        digest=request.digest,
        quorum=request.quorum,
        approvers=request.approvers,
        approvals=[vote.approver for vote in request.approvals],
        expires_at=pending.expires_at,
        roles=request.roles,
        role=request.role,
    )


def _remembered_as_json(request: ApprovalRequest, node_id: str) -> Summary:
    seconds = request.remaining_seconds
    return remembered_as_json(
        node_id,
        action=request.action,
        arguments=request.arguments,
        digest=request.digest,
        approvals=[vote.approver for vote in request.approvals],
        expires_at=None if math.isinf(seconds) else time.time() + seconds,
    )


def remembered_as_json(
    node_id: str,
    *,
    action: str,
    arguments: Mapping[str, object],
    digest: str,
    approvals: Collection[str],
    expires_at: float | None,
) -> Summary:
    """Convert an approval that is remembered to JSON, with the id of its node."""
    return {
        "type": "remembered",
        "node": node_id,
        **_shown_action(action, arguments, digest),
        "approvals": [*approvals],
        "expires_at": expires_at,
    }


def approval_as_json(
    *,
    action: str,
    arguments: Mapping[str, object],
    digest: str,
    quorum: int,
    approvers: Collection[str] | None,
    approvals: Collection[str],
    expires_at: float | None,
    roles: Mapping[str, Collection[str]],
    role: str | None,
) -> Summary:
    """Convert a request for approval to JSON; see `ApprovalRequest`.

    Its arguments are a text, because a browser would round large numbers.
    """
    return {
        "type": "approval",
        **_shown_action(action, arguments, digest),
        "quorum": quorum,
        "approvers": None if approvers is None else [*sorted(approvers)],
        "approvals": [*approvals],
        "expires_at": expires_at,
        "roles": {name: [*sorted(people)] for name, people in roles.items()},
        "role": role,
    }


def _shown_action(action: str, arguments: Mapping[str, object], digest: str) -> Summary:
    return {
        "action": visible(action),
        "arguments": visible(json.dumps(arguments, ensure_ascii=False, indent=2)),
        "risks": [*sorted(risks_of_arguments(arguments) or ())],
        "digest": digest,
    }
