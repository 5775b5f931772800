"""Decorators of functions that take effect outside of the program: at most once in all lives of a run.

See `effect_call` for what happens to a call.
"""

import inspect
import uuid
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast, overload

from ..kernel.tools import EFFECT_MARK
from ..natural.tree import CLOSURE_NAMES
from ..parallel import is_async_callable
from ..signatures import keep_names
from .carried_values import carried_by
from .changed_arguments import telling_changes
from .effect_call import IDEMPOTENCY_KEY, Effect, EffectCall, Mode, effect_place, idempotency_key
from .known_objects import first_digest
from .open_lives import check_outside
from .recorder import RunRecorder, find_recorder

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@overload
def once(
    function: Callable[Parameters, Result],
    /,
    *,
    reconcile: Callable[..., Any] | None = None,
    durable: bool | None = None,
) -> Callable[Parameters, Result]: ...
@overload
def once(
    *, reconcile: Callable[..., Any] | None = None, durable: bool | None = None
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...
def once(
    function: Callable[..., Any] | None = None,
    /,
    *,
    reconcile: Callable[..., Any] | None = None,
    durable: bool | None = None,
) -> Any:
    """Decorate a function that takes effect outside of the program: a payment, a mail, a database change.

        @nh.once(reconcile=find_receipt)
        async def charge(order: Order, *, idempotency_key: str = "") -> Receipt: ...

    In a run with a journal, each call is begun at most once in all lives of the run; later lives get the
    recorded result, or the recorded exception. If a life ends while the call is in progress, the call is in
    doubt, and the next life asks `reconcile`. So it does after an exception that ended a life. Without a
    journal, calls are made as they are.

    Args:
        function: The function, async or not. If it has a parameter `idempotency_key`, it gets a key that is
            the same in every life, for services that accept one. Its return annotation is the type by which
            results are stored.
        reconcile: Gets the arguments of a call in doubt, and `idempotency_key` if it takes that. It returns
            None when the call took no effect, which lets the call begin; otherwise the result of the call,
            as `nighthawk_async.journal.Happened(None)` if that is None. Async or not, as the function is.
            Without it, the handler of the run (`human=`) asks a person; without both, a call in doubt raises
            `CallInDoubtError`. Without it, an exception stays.
        durable: Whether a call returns, or raises its exception, only when that is durable, so that a process
            which ends after the return leaves no doubt. None: yes without `reconcile`, otherwise no.

    Raises (a call):
        CallInDoubtError: The call is in doubt, and there is nobody to ask, or the question failed.
        JournalValueError: The result or the exception cannot be stored, or the call has changed an argument.
            Where the return annotation says so, the call is not begun. Otherwise it has ended, which is
            recorded: later lives raise this, too.
        JournalDivergenceError: The recorded call had other arguments.
        JournalError: The call cannot be recorded, so it was not begun; or, as the text says, it was made, and
            the store failed before its end was durable.
    """
    return _decorator(function, "once", reconcile, durable)


def repeatable(function: Callable[Parameters, Result], /) -> Callable[Parameters, Result]:
    """Decorate a function whose calls may be repeated: reading, or a service that honours the key.

    As `once`, but a call that was in progress when a life ended is made again, with the same
    `idempotency_key`, and so is one whose exception ended a life. A call that has ended otherwise is not.

    Args:
        function: The function; see `once`.
    """
    return cast("Callable[Parameters, Result]", _decorator(function, "repeatable", None))


def every_life(function: Callable[Parameters, Result], /) -> Callable[Parameters, Result]:
    """Decorate a tool that changes objects of the program in memory: it is called again in every life.

    Other tools are effects (see `once`): a later life gets their recorded results, and their changes of
    objects in memory would be missing. Functions that are no tools are called in every life anyway.

    Args:
        function: The function.
    """
    setattr(function, EFFECT_MARK, "every_life")
    return function


def _decorator(
    function: Callable[..., Any] | None,
    mode: Mode,
    reconcile: Callable[..., Any] | None,
    durable: bool | None = None,
) -> Any:
    if function is None:

        def decorate(decorated: Callable[..., Any]) -> Any:
            return _decorator(decorated, mode, reconcile, durable)

        return decorate
    if not callable(function):
        raise TypeError(f"{mode} decorates a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{mode} cannot record the values of a generator; decorate what consumes it")
    keep_names(function, inspect.currentframe())
    effect = Effect(function, mode, reconcile, durable, is_harmless=mode == "repeatable")
    if reconcile is not None and is_async_callable(reconcile) and not effect.is_async:
        raise TypeError(f"{effect.name} is synchronous, so its reconcile function has to be, too")
    wrapped = _async_effect(effect) if effect.is_async else _sync_effect(effect)
    if effect.takes_key:
        parameters = [each for name, each in effect.signature.parameters.items() if name != IDEMPOTENCY_KEY]
        wrapped.__signature__ = effect.signature.replace(parameters=parameters)
    setattr(wrapped, EFFECT_MARK, mode)
    return wrapped


def _async_effect(effect: Effect) -> Any:
    @wraps(effect.function)
    async def call_effect(*args: Any, **keywords: Any) -> Any:
        with effect.placed(args, keywords) as place:
            call = _find_call(effect, place, args, keywords)
            return await (_unrecorded(effect, args, keywords)() if call is None else call.run_async())

    return call_effect


def _sync_effect(effect: Effect) -> Any:
    @wraps(effect.function)
    def call_effect(*args: Any, **keywords: Any) -> Any:
        with effect.placed(args, keywords) as place:
            call = _find_call(effect, place, args, keywords)
            return _unrecorded(effect, args, keywords)() if call is None else call.run()

    return call_effect


def _unrecorded(effect: Effect, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Callable[[], Any]:
    """The call in a run without a journal."""
    return effect.call_of(args, keywords, keywords.get(IDEMPOTENCY_KEY) or uuid.uuid4().hex)


def _find_call(
    effect: Effect, place: str, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> EffectCall | None:
    """The call in a run with a journal; None without one."""
    recorder = find_recorder()
    if recorder is None:
        check_outside(effect.name)
        return None
    inputs = effect.inputs_of(args, keywords)
    place = effect_place(recorder, recorder.relative(place), inputs)
    key = idempotency_key(recorder.run_id, place)
    reconcile, call = effect.reconciliation_of(args, keywords, key), effect.call_of(args, keywords, key)
    return EffectCall(recorder, place, effect, call, reconcile, inputs, values=inputs)


def tool_effect(
    recorder: RunRecorder, place: str, function: Callable[..., object], call: Callable[[], Any]
) -> Callable[[], Any]:
    """The call of a tool: an effect, unless the function is natural or says otherwise.

    Args:
        recorder: The journal of the run.
        place: The place of the call.
        function: The tool's function.
        call: The call, with its arguments.
    """
    if hasattr(function, EFFECT_MARK) or _has_blocks(inspect.unwrap(function, stop=_has_blocks)):
        return call
    effect = Effect(function, "once")
    owner = getattr(inspect.unwrap(function), "__self__", None)  # its arguments are made anew in each life
    told = telling_changes(call, owner, effect.name)
    inputs = recorder.known_objects.first_seen(carried_by(function, first_digest))
    effect_call = EffectCall(recorder, place, effect, told, None, inputs)
    return effect_call.run_async if effect.is_async else effect_call.run


def _has_blocks(function: Callable[..., object]) -> bool:
    """Whether a function is natural itself; what it wraps is the function that it was made from."""
    while isinstance(function, partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return CLOSURE_NAMES[0] in getattr(code, "co_freevars", ())
