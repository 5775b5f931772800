"""Inspecting tool calls and commits before they happen (specification 8.3 and 10).

An oversight object sees each tool call before it runs and each commit before it reaches the Python variables,
and answers with `Accept`, `Reject`, `Rewrite` or `Abort`. `policy` calls it.

Completion gates are checks that decide whether a step is done; `verifier` calls them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from ...errors import NighthawkError
from ...kernel.commit import StepCommit
from ...types.outcomes import Abort, StepOutcome
from ...types.unset import UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The proposed end of a step, for a check. Everything was validated, and nothing is committed yet.

    Args:
        step_id: The block.
        program: The program text as the model sees it.
        outcome: The outcome that the model proposes.
        bindings: The values of the write bindings.
        return_value: The value of a `return` outcome; None for other outcomes.
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
        feedback: The missing things; the model sees them in its next turn.
    """

    feedback: str


CheckAnswer: TypeAlias = bool | str | Continue | None
"""True, None and an empty text: done. False, another text or `Continue`: go on."""

Check: TypeAlias = Callable[[Proposal], CheckAnswer | Awaitable[CheckAnswer]]
"""A check: a Python function, `def` or `async def`, or a natural function."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verification:
    """A check and its bound; make it with `verification`."""

    check: Check
    max_refusals: int = 3


Verify: TypeAlias = Check | Verification | Sequence[Check | Verification]
"""The values that `verify=` takes."""


def verification(check: Check, *, max_refusals: int = 3) -> Verification:
    """Make a check that decides whether steps are done.

    Args:
        check: Receives a `Proposal` and returns whether the step is done, or what is missing. A synchronous
            check is called in a worker thread.
        max_refusals: The greatest number of outcomes of one step that it refuses; with the last refusal the
            step fails.

    Raises:
        NighthawkError: The check cannot be called, or the number is not positive.
    """
    if not callable(cast("object", check)):
        raise NighthawkError(f"A check is a function of a Proposal, not {check!r}.")
    if type(cast("object", max_refusals)) is not int or max_refusals < 1:
        raise NighthawkError(f"max_refusals must be a whole number from 1, not {max_refusals!r}.")
    return Verification(check=check, max_refusals=max_refusals)


def checked_verifications(verify: Verify | None) -> tuple[Verification, ...]:
    """Return the verifications of an argument, each object once.

    Raises:
        NighthawkError: The argument is anything else.
    """
    if verify is None:
        return ()
    given = cast("Sequence[Check | Verification]", verify if isinstance(verify, list | tuple) else (verify,))
    verifications = (each if isinstance(each, Verification) else verification(each) for each in given)
    return tuple(dict.fromkeys(verifications))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallInspection:
    """A tool call that is about to run.

    Args:
        step_id: The step that calls.
        tool_name: The tool.
        arguments: The arguments as the model gave them, parsed; read-only throughout.
    """

    step_id: str
    tool_name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accept:
    """Allow the tool call or commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Refuse the tool call or commit.

    Args:
        reason: The reason. It is sent to the model, and to the caller when the model cannot answer again.
        guidance: How to proceed instead.
    """

    reason: str
    guidance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Replace the arguments of the tool call, or the values of the commit.

    Args:
        values: The arguments to use instead, or the bindings to commit instead; validated again. For a
            commit, None keeps the bindings. The return expression sees them unless it was already evaluated.
        return_value: The value to return instead, for the commit of a `return` outcome; validated. The return
            expression is then not evaluated, unless it already was.
    """

    values: Mapping[str, Any] | None = None
    return_value: object = UNSET


Decision: TypeAlias = Accept | Reject | Rewrite | Abort
"""The answer of oversight."""


@runtime_checkable
class Oversight(Protocol):
    """Inspects the tool calls and commits of steps. Both methods may be `async def`."""

    def inspect_tool_call(self, inspection: ToolCallInspection) -> Decision | Awaitable[Decision]:
        """Decide about a tool call."""
        ...

    def inspect_step_commit(self, commit: StepCommit) -> Decision | Awaitable[Decision]:
        """Decide about a commit."""
        ...


def checked_oversight(oversight: Oversight | None) -> Oversight | None:
    """Return an oversight object, or None for none.

    Raises:
        NighthawkError: The argument is anything else.
    """
    if not isinstance(cast("object", oversight), Oversight | None):
        raise NighthawkError(
            f"{oversight!r} is no oversight: it needs the methods inspect_tool_call and inspect_step_commit."
        )
    return oversight
