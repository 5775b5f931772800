"""People in the loop: asking for answers and approvals, and the handlers that reach somebody. Floor 5.

`nighthawk_async.run(human=…)` and `scope(human=…)` put a handler in force.
"""

from .errors import AnswerTimeoutError, ApprovalDeniedError, ApprovalExpiredError, HumanError, NoHumanError
from .runtime.human.approval import Approval
from .runtime.human.approvals import request_approval
from .runtime.human.errors import (
    AnswerRefusedError,
    ArgumentsChangedError,
    InvalidAnswerError,
    NobodyToApproveError,
    RequestClosedError,
    UndigestibleArgumentError,
    UnknownApproverError,
    WrongDigestError,
)
from .runtime.human.handler import HumanHandler
from .runtime.human.question import Question
from .runtime.human.questions import ask_user
from .runtime.human.request import ApprovalRequest
from .runtime.human.terminal import TerminalHandler
from .runtime.human.votes import ApprovalStatus, Vote

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
