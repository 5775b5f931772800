"""Inspecting tool calls and commits before they happen (specification 8.3 and 10).

An oversight object sees each tool call before it is carried out and each commit before it reaches the Python
variables, and answers with `Accept`, `Reject`, `Rewrite` or `Abort`. It is asked in `policy`.

Completion gates are checks that say whether a step is done; they are asked in `verifier`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from ...errors import NighthawkError
from ...runtime.policy import StepCommit
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
        feedback: The missing things; the model sees them in its next turn.
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
        max_refusals: The greatest number of outcomes of one step that it refuses; with the last of them the
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
    """The verifications of an argument, each object once.

    Raises:
        NighthawkError: It is something else.
    """
    if verify is None:
        return ()
    given = cast("Sequence[Check | Verification]", verify if isinstance(verify, list | tuple) else (verify,))
    verifications = (each if isinstance(each, Verification) else verification(each) for each in given)
    return tuple(dict.fromkeys(verifications))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallInspection:
    """A tool call about to be carried out.

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
    """Let it happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Do not let it happen.

    Args:
        reason: The reason. It reaches the model, and the caller when the model cannot answer again.
        guidance: The remedy.
    """

    reason: str
    guidance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Let something else happen.

    Args:
        values: The arguments to use instead, or the bindings to commit instead; validated anew. None, for a
            commit, leaves the bindings. The return expression sees them, unless it was evaluated already.
        return_value: The value to return instead, for the commit of a `return` outcome; validated. The return
            expression is then not evaluated, unless it was already.
    """

    values: Mapping[str, Any] | None = None
    return_value: object = UNSET


Decision: TypeAlias = Accept | Reject | Rewrite | Abort
"""What oversight answers."""


@runtime_checkable
class Oversight(Protocol):
    """Inspects what steps do. Both methods may be `async def`."""

    def inspect_tool_call(self, inspection: ToolCallInspection) -> Decision | Awaitable[Decision]:
        """Decide about a tool call."""
        ...

    def inspect_step_commit(self, commit: StepCommit) -> Decision | Awaitable[Decision]:
        """Decide about a commit."""
        ...


def checked_oversight(oversight: Oversight | None) -> Oversight | None:
    """An oversight object, or None for none.

    Raises:
        NighthawkError: It is something else.
    """
    if not isinstance(cast("object", oversight), Oversight | None):
        raise NighthawkError(
            f"{oversight!r} is no oversight: it needs the methods inspect_tool_call and inspect_step_commit."
        )
    return oversight
