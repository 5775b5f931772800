"""Stages: parts of a run that are done once, whose results later lives get without running them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import anyio
import msgspec

from ..causes import ends_run, leaves_of
from ..errors import ConfigurationError, ModelError, NighthawkError
from ..kernel.calls import below_place, current_place, identity_version, using_function_place
from ..kernel.commit import find_interception_error
from ..kernel.environment import find_environment, find_journal, using_environment
from ..kernel.usage_meter import UsageMeter
from ..observation import observed
from ..parallel import is_async_callable
from ..policies.attempts.resilience import ExponentialWait, RetryPolicy
from ..policies.budgets.policy import active_accounts
from ..policies.budgets.request import charge_replayed
from ..signatures import keep_names
from ..types.json import is_whole_number
from .carried_values import without_owner
from .changed_arguments import WatchedCall, changed_error, closure_of, mutable_defaults
from .effect_call import Effect, EffectCall, EndedCall
from .open_lives import check_outside
from .recorder import RunRecorder, find_recorder
from .records import Record

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]


def stage(
    name: str, *, retries: int = 0, on: Errors | None = None, wait: float | None = None
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorate a part of a run that is done once: its result is recorded, and later lives skip the part.

        @nh.journal.stage("extract", retries=2)
        async def extract(pages: list[str]) -> list[Fact]: ...

        facts = await extract(pages)

    A stage that was in progress when a life ended continues from the records inside it. A stage is for the
    value that it returns: it must not change its arguments, `self`, or the variables around it, because later
    lives would miss that.
    Without a journal, the function is called as it is, with its retries.

    Args:
        name: The name of the stage, in the places of its records and in the tree of the run.
        retries: The number of times that the stage is begun anew after an error. Effects in it are then made
            again.
        on: The errors after which it is; None for all but `ConfigurationError`s and those of a model that
            are not transient. Errors that `nighthawk_async.resilience.retrying` never retries end the stage
            in any case.
        wait: The seconds to wait before it is; None for waits that double. No wait is made twice.

    Raises:
        NighthawkError: The name is empty, or contains one of `/[]()~#:`; or a number is negative.
        TypeError: It decorates something else than an async function.

    Raises (a call):
        JournalValueError: The result cannot be stored, or the stage has changed an argument, its object or a
            variable around it.
        JournalDivergenceError: The recorded stage had other arguments, or the program has changed.
        Exception: The error of the function. If it ends the life, the next one tries again.
    """
    if not name or any(character in name for character in "/[]()~#:"):
        raise NighthawkError(f"the name of a stage is not empty and contains none of '/[]()~#:': {name!r}")
    if not is_whole_number(retries) or retries < 0:
        raise NighthawkError(f"retries is a number that is not negative, not {retries!r}")
    if wait is not None and not wait >= 0:
        raise NighthawkError(f"wait is a number of seconds that is not negative, not {wait!r}")
    policy = RetryPolicy(
        attempts=retries + 1,
        on=(Exception,) if on is None else on if isinstance(on, tuple) else (on,),
        retry_if=_may_pass if on is None else None,
        wait=ExponentialWait() if wait is None else lambda attempt, error: wait,
    )

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        if not is_async_callable(function):
            raise TypeError(f"stage decorates an async function, not {function!r}")
        return cast("Callable[Parameters, Result]", _stage_function(name, function, policy))

    return decorate


def _may_pass(error: Exception) -> bool:
    """Whether another attempt may succeed: no model has refused for good, and nothing is missing."""
    leaves = list(leaves_of(error))
    has_refused = any(isinstance(each, ModelError) and not each.is_transient for each in leaves)
    return not has_refused and not any(isinstance(each, ConfigurationError) for each in leaves)


def _stage_function(name: str, function: Callable[..., Any], policy: RetryPolicy) -> Callable[..., Any]:
    keep_names(function, inspect.currentframe())
    effect = Effect(function, "repeatable")

    @wraps(function)
    async def call_stage(*args: Any, **keywords: Any) -> Any:
        def inputs() -> Mapping[str, object]:
            return effect.inputs_of(args, keywords)

        def shown() -> Mapping[str, object]:
            return without_owner(inputs())

        placing = shown if identity_version() == 1 else inputs
        with (
            observed("function", f"stage {name}", inputs=shown),
            using_function_place(f"stage:{name}", placing, checks_end=False),
        ):
            return await _Stage(effect, policy, args, keywords).run()

    return call_stage


class _Stage:
    """One call of a stage."""

    def __init__(
        self, effect: Effect, policy: RetryPolicy, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> None:
        self._effect = effect
        self._policy = policy
        self._function = partial(effect.function, *args, **keywords)
        self._inputs = effect.inputs_of(args, keywords)
        self._values = {**mutable_defaults(effect.signature), **self._inputs}

    async def run(self) -> Any:
        body = self._run_once if self._policy.attempts == 1 else self._run_attempts
        return await self._recorded(body, self._inputs)

    async def _run_once(self) -> Any:
        journal = find_journal()
        if journal is None:
            return await self._function()
        watched = WatchedCall(self._values, self._read_variables)
        watched.begin()
        changed: list[str] = []
        try:
            result = await watched.follow(self._function(), is_alone=True)
        except Exception as error:
            changed = watched.end()
            if find_interception_error(error) is not None:
                raise
            self._refuse_changes(changed, error)
            raise
        finally:
            changed = changed or watched.end()
        self._refuse_changes(changed, None)
        journal.leave(current_place(), is_recorded=True)
        return result

    def _read_variables(self) -> Mapping[str, object]:
        return closure_of(self._effect.function)

    def _refuse_changes(self, changed: Sequence[str], error: Exception | None) -> None:
        """Refuse what later lives, which skip the stage, would miss."""
        if changed:
            raise changed_error(current_place(), "the stage", changed) from error

    async def _run_attempts(self) -> Any:
        place, attempt = current_place(), 0
        while True:
            attempt += 1
            try:
                with below_place(f"{place}/attempt[{attempt}]"):
                    return await self._recorded(self._run_once)
            except Exception as error:
                wait = None if ends_run(error) else self._policy.wait_after(error, attempt)
                if wait is None:
                    raise
            if not _is_begun(f"{place}/attempt[{attempt + 1}]"):
                await anyio.sleep(wait)

    async def _recorded(self, body: Callable[[], Any], inputs: Mapping[str, object] | None = None) -> Any:
        """Run a part at the present place, or get its recorded result."""
        recorder = find_recorder()
        if recorder is None:
            check_outside(self._effect.name)
            return await body()
        return await _StageCall(recorder, self._effect, body, inputs).run_async()


def _is_begun(place: str) -> bool:
    """Whether an earlier life has begun an attempt, and has waited before it."""
    recorder = find_recorder()
    return recorder is not None and recorder.find_record(recorder.relative(place), "intent") is not None


class _StageCall(EffectCall):
    """A stage or an attempt at it: a call that continues from the records inside it until it has ended."""

    _is_held_in_doubt = False

    def __init__(
        self,
        recorder: RunRecorder,
        effect: Effect,
        body: Callable[[], Any],
        inputs: Mapping[str, object] | None,
    ) -> None:
        place = recorder.relative(current_place())
        super().__init__(recorder, place, effect, self._metered, lambda: None, inputs)
        self._body = body
        self._meter = UsageMeter()

    async def _metered(self) -> Any:
        environment = find_environment()
        assert environment is not None
        self._meter = UsageMeter(environment.usage_meter)
        with using_environment(replace(environment, usage_meter=self._meter)):
            return await self._body()

    def _with_usage(self, ended: EndedCall) -> EndedCall:
        return msgspec.structs.replace(ended, usage=self._meter.usage_by_model, steps=self._meter.steps)

    def _replay(self, record: Record) -> Any:
        ended = msgspec.msgpack.decode(record.body, type=EndedCall)
        environment = find_environment()
        assert environment is not None
        for model_name, usage in ended.usage.items():
            environment.usage_meter.add(model_name, usage)
        for _ in range(ended.steps):
            environment.usage_meter.count_step()
        charge_replayed(active_accounts(), ended.usage, ended.steps)
        return super()._replay(record)
