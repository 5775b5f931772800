"""Questions and requests for approval of the runs of a store, which are answered over the dashboard."""

import json
from collections.abc import Awaitable
from typing import Any

from ...errors import NighthawkError
from ...journal import JournalStore, JournalStoreError, JournalValueError, QuestionRow
from ...journal.answer_check import find_mismatch
from ...journal.store_tree import StoreTree, approvals_of
from ...observe.page.summaries import Summary
from ...policies.people.errors import (
    AnswerRefusedError,
    RequestClosedError,
    UnknownApproverError,
    UnknownRoleError,
    WrongDigestError,
)
from ...policies.people.remembered import RememberedApproval
from ...policies.people.request import exact_number
from .approvals import (
    AnswerBody,
    approval_as_json,
    check_one_form,
    check_revocation,
    choices_in,
    chosen,
    remembered_as_json,
    shown_choices,
    visible,
)
from .request import RefusalError, bad_request, not_allowed, not_now, not_valid, store_is_away


class StoredQuestions:
    """The questions of a store by their nodes; answers go into the store.

    Args:
        store: The store.
        followed: The tree of its runs.
    """

    def __init__(self, store: JournalStore, followed: StoreTree) -> None:
        self._store = store
        self._followed = followed

    def describe(self, node_id: str) -> Summary | None:
        """Describe the question that can be answered at a node; None for none."""
        row = self._followed.find_question(node_id)
        if row is None:
            remembered = self._followed.find_remembered(node_id)
            return None if remembered is None else _remembered_as_json(remembered, node_id)
        return _question_as_json(row) if row.kind == "question" else _request_as_json(row)

    async def remembered(self) -> list[Summary]:
        """Return the approvals that are remembered for equal calls, each with its node."""
        found = self._followed.remembered_nodes
        return [_remembered_as_json(approval, node_id) for node_id, approval in found.items()]

    async def answer(self, node_id: str, body: AnswerBody, actor: str) -> None:
        """Answer the question or the request at a node, or revoke the approval there.

        Args:
            node_id: The id of the node.
            body: The answer.
            actor: The person who answers.

        Raises:
            RefusalError: Nothing is asked there any more, the answer is not valid, other people are asked, or
                the store cannot be written.
        """
        row = self._followed.find_question(node_id)
        giving = self._revoking(node_id, body, actor) if row is None else self._giving(row, body, actor)
        try:
            await giving
        except JournalStoreError as error:
            raise RefusalError(store_is_away(str(error))) from None
        except UnknownApproverError:
            raise RefusalError(not_allowed(f"{actor} is not among the approvers.")) from None
        except UnknownRoleError:
            raise RefusalError(not_valid("There is no such role.")) from None
        except (RequestClosedError, WrongDigestError) as error:
            raise RefusalError(not_now(_sentence(error))) from None
        except (AnswerRefusedError, JournalValueError) as error:
            problem = not_valid if row is not None and row.kind == "question" else not_now
            raise RefusalError(problem(_sentence(error))) from None
        except NighthawkError as error:  # there is no such question any more
            raise RefusalError(not_now(_sentence(error))) from None
        finally:
            self._followed.make_due()

    def _giving(self, row: QuestionRow, body: AnswerBody, actor: str) -> Awaitable[None]:
        """Return what gives the answer to the store."""
        if row.kind == "question":
            return self._store.answer(row.id, _answer_to(row, body))
        if body.answer not in ("approve", "deny", "escalate"):
            raise RefusalError(bad_request("The answer to a request is approve, deny or escalate."))
        if body.answer == "escalate":
            return self._store.escalate(row.id, body.role, voter=actor, reason=body.reason)
        is_approval = body.answer == "approve"
        return self._store.vote(
            row.id,
            approve=is_approval,
            voter=actor,
            digest=body.digest if is_approval else None,
            reason="" if is_approval else body.reason,
            remember=body.remember if is_approval else None,
        )

    def _revoking(self, node_id: str, body: AnswerBody, actor: str) -> Awaitable[None]:
        """Return what revokes the approval at a node in the store."""
        approval = self._followed.find_remembered(node_id)
        if approval is None:
            raise RefusalError(not_now("Nothing is asked here, or no more."))
        check_revocation(body)
        return self._store.revoke(approval.id, by=actor, reason=body.reason)


def _sentence(error: Exception) -> str:
    text = visible(str(error)).rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def _answer_to(row: QuestionRow, body: AnswerBody) -> object:
    """The answer in a request. The store checks it, and in the end the run does."""
    check_one_form(body)
    if body.has_answer:
        return body.answer
    if body.choice is not None:
        return chosen(row.schema, body.choice)
    if body.text is None:
        raise RefusalError(not_valid("The question has no default, or the store does not know it."))
    return _typed_answer(row, body.text)


def _typed_answer(row: QuestionRow, typed: str) -> object:
    """The value of a typed text: as JSON where that matches, or else the text itself."""
    if (row.schema or {}).get("type") == "string":
        return typed
    text = typed.strip()
    try:
        value: object = json.loads(text, parse_float=exact_number)
    except (ValueError, RecursionError):
        return text
    is_text = find_mismatch(value, row.schema) is not None and find_mismatch(text, row.schema) is None
    return text if is_text else value


def _question_as_json(row: QuestionRow) -> Summary:
    content: Any = row.content
    return {
        "type": "question",
        "prompt": visible(content["prompt"]),
        "schema": None if row.schema is None else dict(row.schema),
        "type_name": visible(content["type"]),
        "choices": shown_choices(choices_in(row.schema)),
        "attempt": 1,
        "error": None,
        "has_default": False,
        "default": None,
    }


def _request_as_json(row: QuestionRow) -> Summary:
    content: Any = row.content
    return approval_as_json(
        action=content["action"],
        arguments=content["arguments"],
        digest=content["digest"],
        quorum=content["quorum"],
        approvers=row.approvers,
        approvals=approvals_of(row),
        expires_at=row.expires_at,
        roles=row.roles,
        role=row.role,
    )


def _remembered_as_json(approval: RememberedApproval, node_id: str) -> Summary:
    return remembered_as_json(
        node_id,
        action=approval.action,
        arguments=approval.arguments,
        digest=approval.digest,
        approvals=[vote.approver for vote in approval.approvals],
        expires_at=None if approval.expires_at is None else approval.expires_at.timestamp(),
    )
