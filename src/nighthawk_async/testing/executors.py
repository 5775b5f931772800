"""Step executors that answer from a script or a function."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, cast

from ..errors import ConfigurationError, ExecutionError
from ..kernel.context import StepContext
from ..types.json import is_mapping
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


Answer: TypeAlias = StepResponse | Mapping[str, object]
"""A response, or the values of write bindings as a mapping, as in `pass_response`."""


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
        callback: Returns the response to a call, or a mapping with the values of write bindings; may be
            `async def`.

    Raises:
        ConfigurationError: The callback cannot be called, or returns something else (in the step).
    """

    def __init__(self, callback: Callable[[StepCall], Answer | Awaitable[Answer]]) -> None:
        if not callable(callback):
            raise ConfigurationError(
                "CallbackExecutor takes a function from a step to its response, not "
                f"{type(callback).__name__}. A list of responses is for a ScriptedExecutor."
            )
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
        response = _response_of(
            await answer if inspect.isawaitable(answer) else answer, "The answer of the callback"
        )
        assigned = {name: value for name, value in response.bindings.items() if name in binding_names}
        step_context.step_locals.update(assigned)  # so that a return expression sees them
        return response.outcome, dict(response.bindings)


class ScriptedExecutor(CallbackExecutor):
    """Answers steps with responses in order.

        ScriptedExecutor([{"label": "urgent"}, return_response("label.upper()"), raise_response("too long")])

    Args:
        responses: The responses; each is used once. A mapping ends its block with these values of write
            bindings, as `pass_response` does.
        default_response: The response when none is left; with None a further step raises `ExecutionError`.

    Raises:
        ConfigurationError: Something is no response. The text says what to write.
    """

    def __init__(self, responses: Iterable[Answer] = (), *, default_response: Answer | None = None) -> None:
        super().__init__(self._next_response)
        self._responses = [
            _response_of(each, f"Response {position}") for position, each in enumerate(_listed(responses), 1)
        ]
        self._default_response = (
            None if default_response is None else _response_of(default_response, "default_response")
        )

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


def _listed(responses: object) -> list[object]:
    """Return the responses that a script is given.

    Raises:
        ConfigurationError: They are one response, or no responses at all.
    """
    if isinstance(responses, StepResponse) or is_mapping(responses):
        raise ConfigurationError("ScriptedExecutor takes a list of responses; put square brackets around it.")
    if isinstance(responses, str | bytes) or not isinstance(responses, Iterable):
        raise ConfigurationError(
            f"ScriptedExecutor takes a list of responses, not {type(responses).__name__}. {_ADVICE}"
        )
    return list(cast("Iterable[object]", responses))


def _response_of(answer: object, name: str) -> StepResponse:
    """Return an answer as a response.

    Raises:
        ConfigurationError: It is none.
    """
    if isinstance(answer, StepResponse):
        return answer
    if is_mapping(answer):
        wrong = next((key for key in answer if not isinstance(key, str)), None)
        if wrong is None:
            return StepResponse(bindings={str(name): value for name, value in answer.items()})
        raise ConfigurationError(
            f"{name} has the key {wrong!r}; the keys of a mapping are the names of write bindings."
        )
    text = f"{name} is {answer!r:.100}, which is no response of a step. "
    if isinstance(answer, BaseException):
        text += f"To raise it, write raise_response({str(answer)!r:.60}, {type(answer).__name__!r}). "
    elif isinstance(answer, _OUTCOMES):
        text += "Write StepResponse(outcome=…). "
    raise ConfigurationError(text + _ADVICE)


_OUTCOMES = (
    PassStepOutcome,
    ReturnStepOutcome,
    BreakStepOutcome,
    ContinueStepOutcome,
    RaiseStepOutcome,
)
_ADVICE = (
    'Write {"name": value} to assign write bindings, return_response("expression") to return a value, '
    'raise_response("message") to raise an error, or pass_response() where a block only has to end.'
)
