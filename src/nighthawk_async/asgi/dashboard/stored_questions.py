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
    WrongDigestError,
)
from ...policies.people.request import exact_number
from .approvals import (
    AnswerBody,
    approval_as_json,
    check_one_form,
    choices_in,
    chosen,
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
            return None
        return _question_as_json(row) if row.kind == "question" else _request_as_json(row)

    async def answer(self, node_id: str, body: AnswerBody, actor: str) -> None:
        """Answer the question or the request at a node.

        Args:
            node_id: The id of the node.
            body: The answer.
            actor: The person who answers.

        Raises:
            RefusalError: Nothing is asked there any more, the answer is not valid, other people are asked, or
                the store cannot be written.
        """
        row = self._followed.find_question(node_id)
        if row is None:
            raise RefusalError(not_now("Nothing is asked here, or no more."))
        giving = self._giving(row, body, actor)
        try:
            await giving
        except JournalStoreError as error:
            raise RefusalError(store_is_away(str(error))) from None
        except UnknownApproverError:
            raise RefusalError(not_allowed(f"{actor} is not among the approvers.")) from None
        except (RequestClosedError, WrongDigestError) as error:
            raise RefusalError(not_now(_sentence(error))) from None
        except (AnswerRefusedError, JournalValueError) as error:
            problem = not_valid if row.kind == "question" else not_now
            raise RefusalError(problem(_sentence(error))) from None
        except NighthawkError as error:  # there is no such question any more
            raise RefusalError(not_now(_sentence(error))) from None
        finally:
            self._followed.make_due()

    def _giving(self, row: QuestionRow, body: AnswerBody, actor: str) -> Awaitable[None]:
        """Return what gives the answer to the store."""
        if row.kind == "question":
            return self._store.answer(row.id, _answer_to(row, body))
        if body.answer not in ("approve", "deny"):
            raise RefusalError(bad_request("The answer to a request is approve or deny."))
        is_approval = body.answer == "approve"
        return self._store.vote(
            row.id,
            approve=is_approval,
            voter=actor,
            digest=body.digest if is_approval else None,
            reason="" if is_approval else body.reason,
        )


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
        approvers=content["approvers"],
        approvals=approvals_of(row),
        expires_at=row.expires_at,
    )
