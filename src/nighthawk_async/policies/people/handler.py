"""Handlers that ask people on behalf of a run; the host installs them."""

from typing import Protocol, runtime_checkable

from ...errors import NighthawkError
from .question import Question
from .request import ApprovalRequest

__all__ = ["HumanHandler", "checked_human_handler"]


@runtime_checkable
class HumanHandler(Protocol):
    """Asks people. A program installs one with `run(…, human=…)` or `scope(human=…)`.

    Both methods are carried out in a task of whoever asks, and cancelled when nobody waits for the answer any
    more. Several may be in progress at once. What they raise reaches who asked; `NoHumanError` says that
    nobody can be reached. What `approve` raises once the request has ended is logged and changes nothing.
    """

    async def ask(self, question: Question) -> object:
        """Get an answer. One that does not fit is asked for again, with `question.error` set."""
        ...

    async def approve(self, request: ApprovalRequest) -> None:
        """See to it that the request is answered.

        The method may answer it itself, give it to others and wait with `request.wait_closed()`, or return:
        the request stays open until enough people approved, somebody denied, time is over, or nobody waits
        for it any more.
        """
        ...


def checked_human_handler(handler: object) -> HumanHandler | None:
    """Return the handler that asks people; None for none.

    Raises:
        NighthawkError: It is neither; a method is missing, or it is a class.
    """
    if handler is None:
        return None
    if isinstance(handler, type) or not isinstance(handler, HumanHandler):
        raise NighthawkError(f"{handler!r} is no human handler: it needs the methods ask and approve.")
    return handler
