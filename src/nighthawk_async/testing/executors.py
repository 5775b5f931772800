"""Step executors that answer from a script or a function."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import ExecutionError
from ..kernel.context import StepContext
from ..types.outcomes import (
    BreakStepOutcome,
    ContinueStepOutcome,
    PassStepOutcome,
    RaiseStepOutcome,
    ReturnStepOutcome,
    StepOutcome,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall:
    """One step that an executor was asked to run, in its state at the beginning.

    Args:
        step_id: The block, `python_module:line`.
        natural_program: The program text as a model would see it.
        binding_names: The names of the write bindings.
        binding_types: The type of each write binding; `object` when unknown.
        allowed_step_kinds: The outcome kinds that the block may end with.
        raise_error_types: The exception types that a `raise` outcome may name as `raise_error_type`.
        step_locals: The step locals: a copy of the mapping, not of the objects.
        referenced_globals: The globals that the program mentions.
    """

    step_id: str
    natural_program: str
    binding_names: tuple[str, ...]
    binding_types: Mapping[str, object]
    allowed_step_kinds: tuple[str, ...]
    raise_error_types: tuple[str, ...]
    step_locals: Mapping[str, object]
    referenced_globals: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResponse:
    """The end of a step.

    Args:
        outcome: The outcome.
        bindings: The values of write bindings to commit.
    """

    outcome: StepOutcome = field(default_factory=PassStepOutcome)
    bindings: Mapping[str, object] = field(default_factory=dict[str, object])


def pass_response(**bindings: object) -> StepResponse:
    """End the block normally, with these write bindings."""
    return StepResponse(bindings=bindings)


def return_response(return_expression: str, /, **bindings: object) -> StepResponse:
    """Return the value of a Python expression over the step's names, with these write bindings."""
    return StepResponse(outcome=ReturnStepOutcome(return_expression=return_expression), bindings=bindings)


def break_response(**bindings: object) -> StepResponse:
    """Leave the enclosing loop, with these write bindings."""
    return StepResponse(outcome=BreakStepOutcome(), bindings=bindings)


def continue_response(**bindings: object) -> StepResponse:
    """Continue with the next iteration of the enclosing loop, with these write bindings."""
    return StepResponse(outcome=ContinueStepOutcome(), bindings=bindings)


def raise_response(
    raise_message: str, /, raise_error_type: str | None = None, **bindings: object
) -> StepResponse:
    """Raise an exception, with these write bindings.

    Args:
        raise_message: The message.
        raise_error_type: The name of the exception type; None for `ExecutionError`.
        **bindings: The values of write bindings to commit.
    """
    outcome = RaiseStepOutcome(raise_message=raise_message, raise_error_type=raise_error_type)
    return StepResponse(outcome=outcome, bindings=bindings)


class CallbackExecutor:
    """Answers each step with the result of a function.

    Args:
        callback: Returns the response to a call; may be `async def`.
    """

    def __init__(self, callback: Callable[[StepCall], StepResponse | Awaitable[StepResponse]]) -> None:
        self._callback = callback
        self.calls: list[StepCall] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without the calls so far."""
        return CallbackExecutor, (self._callback,)

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        """Record the call and answer it (specification 14.1)."""
        call = StepCall(
            step_id=step_context.step_id,
            natural_program=processed_natural_program,
            binding_names=tuple(binding_names),
            binding_types=dict(step_context.binding_types),
            allowed_step_kinds=allowed_step_kinds,
            raise_error_types=tuple(step_context.raise_error_types),
            step_locals=dict(step_context.step_locals),
            referenced_globals=dict(step_context.referenced_globals),
        )
        self.calls.append(call)
        answer = self._callback(call)
        response = await answer if inspect.isawaitable(answer) else answer
        assigned = {name: value for name, value in response.bindings.items() if name in binding_names}
        step_context.step_locals.update(assigned)  # so that a return expression sees them
        return response.outcome, dict(response.bindings)


class ScriptedExecutor(CallbackExecutor):
    """Answers steps with responses in order.

    Args:
        responses: The responses; each is used once.
        default_response: The response when none is left; with None a further step raises `ExecutionError`.
    """

    def __init__(
        self, responses: Iterable[StepResponse] = (), *, default_response: StepResponse | None = None
    ) -> None:
        super().__init__(self._next_response)
        self._responses = list(responses)
        self._default_response = default_response

    @property
    def local_only_reason(self) -> str | None:
        """The reason why workers cannot have it, or None. A copy there has a list `calls` of its own."""
        if not self._responses:
            return None
        return "a ScriptedExecutor uses each of its responses once. Use a CallbackExecutor instead."

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it without the calls so far."""
        return partial(ScriptedExecutor, default_response=self._default_response), (self._responses,)

    @property
    def remaining_responses(self) -> int:
        """The number of unused responses."""
        return max(0, len(self._responses) - len(self.calls))

    def _next_response(self, call: StepCall) -> StepResponse:
        position = len(self.calls) - 1
        if position < len(self._responses):
            return self._responses[position]
        if self._default_response is not None:
            return self._default_response
        raise ExecutionError(
            f"ScriptedExecutor has {len(self._responses)} responses and none for call {position + 1}, "
            f"step {call.step_id}: {call.natural_program.strip()[:200]}"
        )
