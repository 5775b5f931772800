"""Errors of asking people that are raised beside what raises them.

    NighthawkError
    ├── HumanError                  a person was asked, in vain
    │   ├── InvalidAnswerError          the answers did not fit the question
    │   ├── ArgumentsChangedError       what is about to happen is not what was approved
    │   └── ApprovalDeniedError, NoHumanError
    │       └── NobodyToApproveError        nobody is there to be asked, and that means no
    ├── AnswerRefusedError          an answer does not count; the request is as it was before
    │   ├── WrongDigestError            it is for another action, or for other arguments
    │   ├── UnknownApproverError        it comes from somebody who is not asked
    │   └── RequestClosedError          it comes too late
    └── UndigestibleArgumentError   an argument has no stable JSON form that an approval could be bound to

`HumanError`, `NoHumanError` and `ApprovalDeniedError` stand in `errors`. An `AnswerRefusedError` reaches who
answers, the others reach who asks.
"""

from ...errors import ApprovalDeniedError, HumanError, NighthawkError, NoHumanError


class InvalidAnswerError(HumanError):
    """A question was answered several times, and no answer fitted its schema."""


class ArgumentsChangedError(HumanError):
    """The action differs from the approved one: it needs an approval of its own."""


class NobodyToApproveError(NoHumanError, ApprovalDeniedError):
    """Nobody is there to be asked for an approval, so it is denied."""


class AnswerRefusedError(NighthawkError):
    """An answer to a request for approval does not count. The request is as it was before."""


class WrongDigestError(AnswerRefusedError):
    """The approval is for another action, or for other arguments."""


class UnknownApproverError(AnswerRefusedError):
    """The answer comes from somebody who is not among the approvers."""


class RequestClosedError(AnswerRefusedError):
    """The answer comes too late: the request is approved, denied, expired or cancelled already."""


class UndigestibleArgumentError(NighthawkError):
    """An argument has no stable JSON form that an approval could be bound to."""
