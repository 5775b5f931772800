"""Errors of asking people.

    NighthawkError
    ├── HumanError                  asking people did not succeed
    │   ├── InvalidAnswerError          the answers did not match the schema
    │   ├── ArgumentsChangedError       the action is not the approved one
    │   └── ApprovalDeniedError, NoHumanError
    │       └── NobodyToApproveError        there is nobody to ask, which counts as a denial
    ├── AnswerRefusedError          an answer does not count; the request is as it was before
    │   ├── WrongDigestError            it is for another action, or for other arguments
    │   ├── UnknownApproverError        it comes from a person who is not an approver
    │   ├── EscalationRefusedError      the request cannot be handed on so
    │   │   └── UnknownRoleError            there is no such role
    │   └── RequestClosedError          it comes too late
    ├── NotRememberedError          an approval that is to be revoked is not remembered
    └── UndigestibleArgumentError   an argument has no stable JSON form that an approval could be bound to

`HumanError`, `NoHumanError` and `ApprovalDeniedError` are defined in `errors`. An `AnswerRefusedError` is
raised to the caller that answers, the others to the caller that asks.
"""

from ...errors import ApprovalDeniedError, HumanError, NighthawkError, NoHumanError
from ...pickling import set_public_module


class InvalidAnswerError(HumanError):
    """A question was answered several times, and no answer matched its schema."""


class ArgumentsChangedError(HumanError):
    """The action differs from the approved one: it needs an approval of its own."""


class NobodyToApproveError(NoHumanError, ApprovalDeniedError):
    """There is nobody to ask for an approval, so it is denied."""


class AnswerRefusedError(NighthawkError):
    """An answer to a request for approval does not count. The request is as it was before."""


class WrongDigestError(AnswerRefusedError):
    """The approval is for another action, or for other arguments."""


class UnknownApproverError(AnswerRefusedError):
    """The answer comes from a person who is not among the approvers."""


class EscalationRefusedError(AnswerRefusedError):
    """A request cannot be handed on to a role: it was already, or the role has too few people."""


class UnknownRoleError(EscalationRefusedError):
    """There is no such role to hand a request on to."""


class RequestClosedError(AnswerRefusedError):
    """The answer comes too late: the request is already approved, denied, expired or cancelled."""


class NotRememberedError(NighthawkError):
    """There is no such remembered approval: it was revoked, it has expired, or its run has ended."""


class UndigestibleArgumentError(NighthawkError):
    """An argument has no stable JSON form that an approval could be bound to."""


set_public_module("human", globals())
