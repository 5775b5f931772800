"""People in the loop: asking for answers and approvals, and the handlers that reach people. Floor 6.

`nighthawk_async.run(human=…)` and `scope(human=…)` activate a handler.
"""

from .errors import AnswerTimeoutError, ApprovalDeniedError, ApprovalExpiredError, HumanError, NoHumanError
from .policies.people.approvals import Approval, request_approval
from .policies.people.ballot import ApprovalStatus, Vote
from .policies.people.errors import (
    AnswerRefusedError,
    ArgumentsChangedError,
    InvalidAnswerError,
    NobodyToApproveError,
    RequestClosedError,
    UndigestibleArgumentError,
    UnknownApproverError,
    WrongDigestError,
)
from .policies.people.questions import ask_user
from .policies.people.request import ApprovalRequest, HumanHandler, Question
from .policies.people.terminal import TerminalHandler

__all__ = [
    "AnswerRefusedError",
    "AnswerTimeoutError",
    "Approval",
    "ApprovalDeniedError",
    "ApprovalExpiredError",
    "ApprovalRequest",
    "ApprovalStatus",
    "ArgumentsChangedError",
    "HumanError",
    "HumanHandler",
    "InvalidAnswerError",
    "NoHumanError",
    "NobodyToApproveError",
    "Question",
    "RequestClosedError",
    "TerminalHandler",
    "UndigestibleArgumentError",
    "UnknownApproverError",
    "Vote",
    "WrongDigestError",
    "ask_user",
    "request_approval",
]
