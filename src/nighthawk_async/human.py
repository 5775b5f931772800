"""People in the loop: asking for answers and approvals, and the handlers that reach somebody. Floor 6.

`nighthawk_async.run(human=…)` and `scope(human=…)` put a handler in force.
"""

from .errors import AnswerTimeoutError, ApprovalDeniedError, ApprovalExpiredError, HumanError, NoHumanError
from .policies.people.approval import Approval
from .policies.people.approvals import request_approval
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
from .policies.people.handler import HumanHandler
from .policies.people.question import Question
from .policies.people.questions import ask_user
from .policies.people.request import ApprovalRequest
from .policies.people.terminal import TerminalHandler
from .policies.people.votes import ApprovalStatus, Vote

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
