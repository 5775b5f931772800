"""Completion gates: checks that say whether a step is done. Asking them is `verifier`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ...errors import NighthawkError
from ...types.outcomes import StepOutcome

__all__ = [
    "Check",
    "CheckAnswer",
    "Continue",
    "Proposal",
    "Verification",
    "Verify",
    "checked_verifications",
    "verification",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The proposed end of a step, for a check. Everything was validated, and nothing is committed yet.

    Args:
        step_id: Which block it is.
        program: The program text as the model sees it.
        outcome: The outcome that the model proposes.
        bindings: The values of the write bindings.
        return_value: The value that a `return` outcome gives; None for other outcomes.
    """

    step_id: str
    program: str
    outcome: StepOutcome
    bindings: Mapping[str, Any]
    return_value: Any = None


@dataclass(frozen=True, slots=True)
class Continue:
    """The answer of a check when the step is not done.

    Args:
        feedback: What is missing; the model sees it in its next turn.
    """

    feedback: str


CheckAnswer: TypeAlias = bool | str | Continue | None
"""True and None: done. False, a text or `Continue`: go on. An empty text finds nothing missing: done."""

Check: TypeAlias = Callable[[Proposal], CheckAnswer | Awaitable[CheckAnswer]]
"""A check: a Python function, `def` or `async def`, or a natural function."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verification:
    """A check and its bound; make it with `verification`."""

    check: Check
    max_refusals: int = 3


Verify: TypeAlias = Check | Verification | Sequence[Check | Verification]
"""What `verify=` takes."""


def verification(check: Check, *, max_refusals: int = 3) -> Verification:
    """A check that decides whether steps are done.

    Args:
        check: Sees a `Proposal` and says done, or what is missing. A synchronous check is called in a worker
            thread.
        max_refusals: How many outcomes of one step it may refuse; with the last of them the step fails.

    Raises:
        NighthawkError: The check cannot be called, or the number is not positive.
    """
    if not callable(cast("object", check)):
        raise NighthawkError(f"A check is a function of a Proposal, not {check!r}.")
    if type(cast("object", max_refusals)) is not int or max_refusals < 1:
        raise NighthawkError(f"max_refusals must be a whole number from 1, not {max_refusals!r}.")
    return Verification(check=check, max_refusals=max_refusals)


def checked_verifications(verify: Verify | None) -> tuple[Verification, ...]:
    """The verifications of an argument, each object once.

    Raises:
        NighthawkError: It is something else.
    """
    if verify is None:
        return ()
    given = cast("Sequence[Check | Verification]", verify if isinstance(verify, list | tuple) else (verify,))
    verifications = (each if isinstance(each, Verification) else verification(each) for each in given)
    return tuple(dict.fromkeys(verifications))
