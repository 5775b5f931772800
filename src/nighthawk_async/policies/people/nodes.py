"""Nodes in the tree of observers for waiting questions and requests for approval."""

from collections.abc import Generator
from contextlib import contextmanager

from ...observation import observed
from ...values.validation import type_name
from .request import ApprovalRequest, Question


def question_node(question: Question) -> observed:
    """Return the context manager of the wait for an answer; it yields its node, None without observers."""
    return observed(
        "question",
        "ask_user",
        state="waiting",
        inputs=lambda: {"prompt": question.prompt, "type": type_name(question.schema)},
        attributes=lambda: {"nighthawk.question.id": question.id},
    )


@contextmanager
def approval_node(request: ApprovalRequest) -> Generator[None, None, None]:
    """Observe the wait for an approval."""
    question_node = observed(
        "question",
        "request_approval",
        state="waiting",
        inputs=lambda: {"action": request.action, "arguments": request.arguments},
        attributes=lambda: {
            "nighthawk.approval.id": request.id,
            "nighthawk.approval.digest": request.digest,
            "nighthawk.approval.quorum": request.quorum,
        },
    )
    with question_node as node:
        try:
            yield
        finally:
            if node is not None:
                node.set_attributes({"nighthawk.approval.status": request.status})
                if request.ballot.votes.is_remembered:
                    node.set_attributes({"nighthawk.approval.remembered": "run"})
                if request.role is not None:
                    node.set_attributes({"nighthawk.approval.role": request.role})
        if node is not None:
            node.end("completed", outputs={"approvers": [vote.approver for vote in request.approvals]})
