"""People in the loop: asking for answers and approvals, and the handlers that reach people.

`nighthawk_async.run(human=…)` and `scope(human=…)` activate a handler.
"""

from .errors import AnswerTimeoutError, ApprovalDeniedError, ApprovalExpiredError, HumanError, NoHumanError
from .policies.people.approvals import Approval, request_approval
from .policies.people.ballot import ApprovalStatus, Remember, Vote
from .policies.people.errors import (
    AnswerRefusedError,
    ArgumentsChangedError,
    EscalationRefusedError,
    InvalidAnswerError,
    NobodyToApproveError,
    NotRememberedError,
    RequestClosedError,
    UndigestibleArgumentError,
    UnknownApproverError,
    UnknownRoleError,
    WrongDigestError,
)
from .policies.people.questions import ask_user
from .policies.people.remembered import RememberedApproval, remembered_approvals, revoke_approval
from .policies.people.request import ApprovalRequest, HumanHandler, Question
from .policies.people.roles import Role, with_roles
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
    "EscalationRefusedError",
    "HumanError",
    "HumanHandler",
    "InvalidAnswerError",
    "NoHumanError",
    "NobodyToApproveError",
    "NotRememberedError",
    "Question",
    "Remember",
    "RememberedApproval",
    "RequestClosedError",
    "Role",
    "TerminalHandler",
    "UndigestibleArgumentError",
    "UnknownApproverError",
    "UnknownRoleError",
    "Vote",
    "WrongDigestError",
    "ask_user",
    "remembered_approvals",
    "request_approval",
    "revoke_approval",
    "with_roles",
]
