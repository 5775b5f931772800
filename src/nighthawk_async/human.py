"""People in the loop: asking for answers and approvals, and the handlers that reach people.

`nighthawk_async.run(human=…)` and `scope(human=…)` activate a handler.
"""

from .errors import (
    AnswerTimeoutError as AnswerTimeoutError,
    ApprovalDeniedError,
    ApprovalExpiredError,
    HumanError,
    NoHumanError,
)
from .policies.people.approvals import Approval as Approval, request_approval as request_approval
from .policies.people.ballot import ApprovalStatus as ApprovalStatus, Remember as Remember, Vote as Vote
from .policies.people.errors import (
    AnswerRefusedError as AnswerRefusedError,
    ArgumentsChangedError as ArgumentsChangedError,
    EscalationRefusedError as EscalationRefusedError,
    InvalidAnswerError as InvalidAnswerError,
    NobodyToApproveError as NobodyToApproveError,
    NotRememberedError as NotRememberedError,
    RequestClosedError as RequestClosedError,
    UndigestibleArgumentError as UndigestibleArgumentError,
    UnknownApproverError as UnknownApproverError,
    UnknownRoleError as UnknownRoleError,
    WrongDigestError as WrongDigestError,
)
from .policies.people.questions import ask_user as ask_user
from .policies.people.remembered import (
    RememberedApproval as RememberedApproval,
    remembered_approvals,
    revoke_approval,
)
from .policies.people.request import ApprovalRequest, HumanHandler, Question
from .policies.people.roles import Role, with_roles
from .policies.people.terminal import TerminalHandler

__all__ = [
    "ApprovalDeniedError",
    "ApprovalExpiredError",
    "ApprovalRequest",
    "HumanError",
    "HumanHandler",
    "NoHumanError",
    "Question",
    "Role",
    "TerminalHandler",
    "remembered_approvals",
    "revoke_approval",
    "with_roles",
]
