"""`ensemble`: run a function on several models at once and combine their answers."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, overload

from ..configuration import parse_model_id
from ..kernel.environment import get_step_executor
from ..kernel.other_models import executors_for
from ..parallel import is_async_callable
from ..parallel.calling import call_any
from ..scopes import scope
from ..signatures import read_signature
from ..tracing import note_named_event
from ..types.json import is_mapping, is_whole_number
from ..values.error_text import describe_error
from .errors import EnsembleError, InvalidPolicyError
from .transforming import Call, Transformer, checked_callable, checked_count, function_name
from .voting import Deciding, MakeCall, Tally, Votes, make_calls, make_calls_from_sync

Decided = TypeVar("Decided")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[Value_co]):
    """The result of one run of an ensemble.

    Args:
        model: The model id.
        value: The value that the function returned.
    """

    model: str
    value: Value_co


Arguments: TypeAlias = Mapping[str, Any]
"""What was asked: the arguments of the call, by the names of the parameters."""

Reconcile: TypeAlias = (
    Callable[[list[Answer[Result]]], Decided] | Callable[[list[Answer[Result]], Arguments], Decided]
)
"""Combines all answers into one value, with what was asked if it takes that too."""


@overload
def ensemble(
    function: Callable[Parameters, Result],
    /,
    models: Mapping[str, int],
    *,
    allow_fail: int = 0,
    reconcile: None = None,
) -> Callable[Parameters, Result]: ...


@overload
def ensemble(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
    /,
    models: Mapping[str, int],
    *,
    allow_fail: int = 0,
    reconcile: Reconcile[Result, Coroutine[Any, Any, Decided]],
) -> Callable[Parameters, Coroutine[Any, Any, Decided]]: ...


@overload
def ensemble(
    function: Callable[Parameters, Coroutine[Any, Any, Result]],
    /,
    models: Mapping[str, int],
    *,
    allow_fail: int = 0,
    reconcile: Reconcile[Result, Decided],
) -> Callable[Parameters, Coroutine[Any, Any, Decided]]: ...


@overload
def ensemble(
    function: Callable[Parameters, Result],
    /,
    models: Mapping[str, int],
    *,
    allow_fail: int = 0,
    reconcile: Reconcile[Result, Decided],
) -> Callable[Parameters, Decided]: ...


@overload
def ensemble(*, models: Mapping[str, int], allow_fail: int = 0, reconcile: None = None) -> "Ensemble": ...


@overload
def ensemble(
    *,
    models: Mapping[str, int],
    allow_fail: int = 0,
    reconcile: Reconcile[Result, Coroutine[Any, Any, Decided]],
) -> Deciding[Result, Decided]: ...


@overload
def ensemble(
    *,
    models: Mapping[str, int],
    allow_fail: int = 0,
    reconcile: Reconcile[Result, Decided],
) -> Deciding[Result, Decided]: ...


def ensemble(
    function: Callable[..., Any] | None = None,
    /,
    models: Mapping[str, int] | None = None,
    *,
    allow_fail: int = 0,
    reconcile: Reconcile[Any, Any] | None = None,
) -> Any:
    """Call a function several times at once, on several models, and combine their answers into one result.

        find_bug = ensemble(find_bug_alone, {"openai-responses:gpt-5.4": 2, "google:gemini-3-pro": 1})

        @ensemble(models={"openai-responses:gpt-5.4": 3}, allow_fail=1, reconcile=merge)
        async def find_bug(code: str) -> str: ...

    It needs a run whose executor takes a configuration. Each call gets a scope of its own with another model.
    The rest of the configuration stays, except for the settings of one model (`capabilities`, `extra_body`)
    and, when the provider changes, those of one provider (`api_key`, `base_url`, `credentials`,
    `extra_headers`, `idempotency_header`): keys stay with their provider. The executors of all models are
    made before the first call, so when a key is missing, nothing is sent.

    When more calls fail than allowed, the rest are cancelled. Synchronous functions, and errors that other
    calls cannot make up for, are treated as by `vote`.

    Args:
        function: The function; None returns a decorator.
        models: The number of calls on each model, by model id.
        allow_fail: The greatest number of calls that may fail.
        reconcile: A function, natural or not, that makes the result from the list of `Answer`s, which are in
            the order of the models. If it has a second parameter without a default, or one called
            `question`, that gets the arguments of the call, by name. It is called outside of the scopes, so
            on the caller's own model. A synchronous `reconcile` of an async function is called in a worker
            thread. None takes the value that most calls returned, and cancels the rest when the winner is
            certain.

    Returns:
        The function with the same parameters, returning what `reconcile` returns; or a decorator.

    Raises:
        InvalidPolicyError: An argument is invalid.
        UnknownModelError: A model id is not of the form `provider:model`.
        TypeError: The function cannot be called, or is a generator, or `reconcile` is async when the function
            is not.
        ConfigurationError: Raised by the function, as are its subclasses: a model is not available.
        EnsembleError: Raised by the function: too many calls failed.
        VoteError: Raised by the function: values cannot be compared for equality, and there is no
            `reconcile`.
    """
    places = _checked_models(models)
    if not is_whole_number(allow_fail) or not 0 <= allow_fail < len(places):
        raise InvalidPolicyError(
            f"allow_fail is a whole number from 0 to {len(places) - 1}, one less than there are calls, "
            f"not {allow_fail!r}"
        )
    checked_callable("reconcile", reconcile, may_be_async=True)
    transformer = Ensemble(places, allow_fail=allow_fail, reconcile=reconcile)
    return transformer if function is None else transformer(function)


class Ensemble(Transformer):
    """Combines the answers of several models. Made by `ensemble`.

    Args:
        places: The model of each call.
        allow_fail: The greatest number of calls that may fail.
        reconcile: Makes the result from the answers; None for a plurality.
    """

    __slots__ = ("_allow_fail", "_places", "_reconcile", "_takes_question")

    title = "ensemble"

    def __init__(
        self, places: tuple[str, ...], *, allow_fail: int, reconcile: Reconcile[Any, Any] | None
    ) -> None:
        self._places = places
        self._allow_fail = allow_fail
        self._reconcile = reconcile
        self._takes_question = reconcile is not None and _takes_question(reconcile)

    def check(self, function: object) -> None:
        """Refuse a synchronous function when `reconcile` is async."""
        super().check(function)
        if is_async_callable(self._reconcile) and not is_async_callable(function):
            raise TypeError(f"reconcile is async, but {function_name(function)} is not")

    def run(self, call: Call[Any]) -> Any:
        """Make the calls in worker threads and reconcile their answers."""
        votes, tally = self._begin()
        make_calls_from_sync(call, tally, title=self.title, wrap=self._on_models())
        self._check_success(tally, call.name)
        if self._reconcile is None:
            return votes.leader
        return Call(function=self._reconcile, args=self._seen(tally, call), kwargs={})()

    async def run_async(self, call: Call[Awaitable[Any]]) -> Any:
        """Make the calls and reconcile their answers."""
        votes, tally = self._begin()
        await make_calls(call, tally, title=self.title, wrap=self._on_models())
        self._check_success(tally, call.name)
        if self._reconcile is None:
            return votes.leader
        return await call_any(self._reconcile, *self._seen(tally, call))

    def _begin(self) -> tuple[Votes[Any], Tally[Any]]:
        votes, count = Votes[Any](), len(self._places)
        return votes, Tally(count, count - self._allow_fail, votes=votes if self._reconcile is None else None)

    def _on_models(self) -> MakeCall:
        """Return a function that makes each call on its model. All executors are made here."""
        executors = executors_for(get_step_executor(), dict.fromkeys(self._places))

        async def call_on_model(position: int, call: Callable[[], Awaitable[Any]]) -> Any:
            async with scope(model=executors[self._places[position]]):
                return await call()

        return call_on_model

    def _seen(self, tally: Tally[Any], call: Call[Any]) -> tuple[Any, ...]:
        """The arguments of `reconcile`: the answers, and perhaps what was asked."""
        answers = [
            Answer(model=self._places[position], value=tally.values[position])
            for position in sorted(tally.values)
        ]
        return (answers, _arguments(call)) if self._takes_question else (answers,)

    def _check_success(self, tally: Tally[Any], name: str) -> None:
        count, failed = len(self._places), len(tally.errors)
        counts = {
            "nighthawk.ensemble.count": count,
            "nighthawk.ensemble.succeeded": len(tally.values),
            "nighthawk.ensemble.failed": failed,
        }
        if tally.has_succeeded:
            note_named_event("nighthawk.ensemble.answered", counts)
            return
        note_named_event("nighthawk.ensemble.failed", counts)
        errors = tally.errors_in_order()
        models = [self._places[position] for position in sorted(tally.errors)]
        what = f"{failed} of {count} calls of {name} failed, and {self._allow_fail} may"
        error = EnsembleError(
            f"{what}; the first that failed, on {models[0]}: {describe_error(errors[0])}",
            errors=errors,
            models=models,
        )
        raise error.without_content(what) from ExceptionGroup(f"the calls of {name} that failed", errors)


def _takes_question(reconcile: Callable[..., Any]) -> bool:
    """Whether a function takes what was asked beside the answers."""
    try:
        parameters = list(read_signature(reconcile).parameters.values())
    except (TypeError, ValueError):  # some functions of C have none
        return False
    takes = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    further = [each for each in parameters if each.kind in takes][1:2]
    return any(each.name == "question" or each.default is inspect.Parameter.empty for each in further)


def _arguments(call: Call[Any]) -> dict[str, Any]:
    """The arguments of a call by name, defaults included; by position where the function has no signature."""
    try:
        bound = read_signature(call.function).bind(*call.args, **call.kwargs)
    except ValueError:
        return {str(position): value for position, value in enumerate(call.args)} | dict(call.kwargs)
    bound.apply_defaults()
    return bound.arguments


def _checked_models(models: object) -> tuple[str, ...]:
    """Return the model of each call."""
    if not is_mapping(models) or not models:
        raise InvalidPolicyError(f"models says how many calls to make on each model, by model id: {models!r}")
    for model in models:
        if not isinstance(model, str):
            raise InvalidPolicyError(f"models has model ids, texts, for keys, not {model!r}")
        parse_model_id(model)
    return tuple(
        chain.from_iterable(
            repeat(model, checked_count(f"models[{model!r}]", count))
            for model, count in models.items()
            if isinstance(model, str)  # as all are
        )
    )
