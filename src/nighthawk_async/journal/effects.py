"""Calls that take effect outside of the program: at most once in all lives of a run, or with the same key.

A call is recorded before it begins and when it has ended. A later life gets the recorded result. A call that
had begun and is not known to have ended is in doubt: it is never repeated silently.
"""

import hashlib
import inspect
import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial, wraps
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

import msgspec
from anyio import from_thread
from anyio.lowlevel import checkpoint
from msgspec import Struct

from ..natural.tree import CLOSURE_NAMES
from ..parallel import is_async_callable
from ..parallel.event_loop import is_worker_thread
from ..runtime.model_access import find_interception_error
from ..runtime.places import using_function_place
from ..runtime.stable_digest import stable_digests
from ..runtime.tool_function import EFFECT_MARK
from ..signatures import keep_names, read_signature, type_hints
from ..types.usage import Usage
from .acknowledgement import Acknowledgement
from .doubts import ask_whether_it_happened, has_person
from .errors import CallInDoubtError, JournalError, check_inputs
from .recorded_errors import CallFailure, rebuilt_error, recorded_error
from .recorder import RunRecorder, find_recorder
from .records import Record
from .values import decode_value

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Mode: TypeAlias = Literal["once", "repeatable", "every_life"]

_KEY = "idempotency_key"
_KEY_CHARACTERS = 32


class Happened(Struct, frozen=True):
    """The answer of a `reconcile` function for a call that took effect.

    Needed only where the result is None, which alone says that it did not.

    Args:
        result: The result of the call.
    """

    result: object = None


class EndedCall(Struct, frozen=True, kw_only=True):
    """The body of the record of a result: a value, or an exception.

    Args:
        value: The value, encoded.
        failure: The exception; None for a value.
        usage: The usage of the call by model, and `steps` their number; for stages, which later lives skip.
    """

    value: bytes = b""
    failure: CallFailure | None = None
    usage: Mapping[str, Usage] = {}
    steps: int = 0


class Effect:
    """A function whose calls take effect.

    Args:
        function: The function.
        mode: The way in which lives treat its calls.
        reconcile: Returns the result of a call in doubt that took effect, and None otherwise.
    """

    def __init__(
        self, function: Callable[..., Any], mode: Mode, reconcile: Callable[..., Any] | None = None
    ) -> None:
        self.function = function
        self.mode: Mode = mode
        self.reconcile = reconcile
        self.name = getattr(function, "__name__", type(function).__name__)
        self.is_async = is_async_callable(function)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the function."""
        return read_signature(self.function)

    @cached_property
    def takes_key(self) -> bool:
        """Whether the function takes the key of each call."""
        return _KEY in self.signature.parameters

    @cached_property
    def result_type(self) -> object:
        """The declared type of the results; None when there is none."""
        return type_hints(self.function).get("return")

    def inputs_of(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Mapping[str, object]:
        """The arguments of a call, by name; without the object of a method."""
        names = list(self.signature.parameters)
        is_method = bool(args) and names[:1] in (["self"], ["cls"])
        try:
            bound = self.signature.bind_partial(*args, **keywords).arguments
        except TypeError:  # the call will say so
            bound = dict(keywords)
        return {name: bound[name] for name in names[is_method:] if name in bound and name != _KEY}

    def call_of(self, args: tuple[Any, ...], keywords: Mapping[str, Any], key: str) -> Callable[[], Any]:
        """The call with its arguments, and with its key where the function takes one."""
        given = {**keywords, _KEY: key} if self.takes_key else keywords
        return partial(self.function, *args, **given)

    def reconciliation_of(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any], key: str
    ) -> Callable[[], Any] | None:
        """The question whether a call took effect; None where nobody can tell."""
        if self.mode == "repeatable":
            return lambda: None  # it may be made again
        if self.reconcile is None:
            return None
        takes_key = _KEY in read_signature(self.reconcile).parameters
        return partial(self.reconcile, *args, **({**keywords, _KEY: key} if takes_key else keywords))


class EffectCall:
    """One call of an effect in a run with a journal.

    Args:
        recorder: The journal of the run.
        place: The place of the call.
        effect: The function.
        call: The call, with its arguments.
        reconcile: Asks whether a call in doubt took effect; None where nobody can tell.
        inputs: The arguments, by name, which have to be the recorded ones; None where the response that asks
            for the call has them.
    """

    def __init__(
        self,
        recorder: RunRecorder,
        place: str,
        effect: Effect,
        call: Callable[[], Any],
        reconcile: Callable[[], Any] | None,
        inputs: Mapping[str, object] | None = None,
    ) -> None:
        self._recorder = recorder
        self._inputs = inputs
        self._place = place
        self._effect = effect
        self._call = call
        self._reconcile = reconcile

    def run(self) -> Any:
        """Make the call in a thread, or get its recorded result; see `run_async`."""
        self._check_inputs()
        if (ended := self._find_end()) is not None:
            return self._replay(ended)
        self._recorder.begin_new_in_thread(self._place)
        self._recorder.check_may_begin()
        with self._in_progress():
            if self._is_in_doubt():
                with self._reconciling() as reconcile:
                    answer = reconcile()
                if answer is not None:
                    return self._happened(answer)
            else:
                self._begin().wait_in_thread()
            if (held := self._recorder.hold()) is not None:
                held.wait_in_thread()
            with self._keeping_failure():
                result = self._call()
            if not inspect.isawaitable(result):
                return self._keep_result(result)
        return self._wait_in_progress(result)

    async def run_async(self) -> Any:
        """Make the call, or get its recorded result.

        Raises:
            CallInDoubtError: The call had begun in an earlier life, and nobody knows whether it took effect.
            JournalDivergenceError: It has other arguments than the recorded one.
            RunParked: The run is being parked, so the call was not begun.
            JournalError: The call cannot be recorded.
            Exception: The error of the call, or the recorded one.
        """
        self._check_inputs()
        if (ended := self._find_end()) is not None:
            await checkpoint()
            return self._replay(ended)
        await self._recorder.begin_new(self._place)
        self._recorder.check_may_begin()
        with self._in_progress():
            if self._is_in_doubt():
                with self._reconciling() as reconcile:
                    answer = reconcile()
                    answer = await answer if inspect.isawaitable(answer) else answer
                if answer is not None:
                    return self._happened(answer)
            else:
                await self._begin().wait()
            if (held := self._recorder.hold()) is not None:
                await held.wait()
            return await self._wait(self._call())

    @contextmanager
    def _in_progress(self) -> Generator[None, None, None]:
        """Keep the run from being parked, unless the call itself waits and may be begun again later.

        Any other call is not interrupted, because it would be in doubt.
        """
        activity = self._recorder.activity
        if activity is None:
            yield
        elif self._reconcile is None and not self._is_in_doubt():
            with activity.busy():
                yield
        else:
            activity.open_place(self._place)
            try:
                yield
            finally:
                activity.close_place(self._place)

    async def _wait_in_progress(self, call: Awaitable[Any]) -> Any:
        with self._in_progress():
            return await self._wait(call)

    async def _wait(self, call: Awaitable[Any]) -> Any:
        with self._keeping_failure():
            result = await call
        return self._keep_result(result)

    def _check_inputs(self) -> None:
        """Check that this is the recorded call, so that it does not get the result of another one."""
        record = None if self._inputs is None else self._recorder.find_record(self._place, "intent")
        if record is not None:
            recorded = msgspec.msgpack.decode(record.body, type=dict[str, str])
            check_inputs(self._place, "call", recorded, stable_digests(self._inputs or {}))

    def _find_end(self) -> Record | None:
        record = self._recorder.find_record(self._place, "result")
        return record or self._recorder.find_handled(self._place, "result")

    def _is_in_doubt(self) -> bool:
        return self._recorder.find_record(self._place, "intent") is not None

    def _begin(self) -> Acknowledgement[None]:
        """Record that the call begins; it may when that is durable."""
        digests = stable_digests(self._inputs or {})
        return self._recorder.add(self._place, "intent", msgspec.msgpack.encode(digests))

    @contextmanager
    def _reconciling(self) -> Generator[Callable[[], Any], None, None]:
        """Ask whether the call took effect. While nobody knows, no model and no policy may repeat it."""
        self._recorder.check_new(self._place)  # for a replay, which asks nobody
        reconcile = self._reconcile or self._find_person()
        if reconcile is None:
            raise self._in_doubt(
                "nobody knows whether it took effect. It is not repeated. Give nighthawk_async.once a "
                "reconcile function that finds out, give the run a handler that asks a person (human=), or "
                "decorate the function with nighthawk_async.repeatable if it may be repeated."
            )
        try:
            yield reconcile
        except JournalError:
            raise
        except Exception as error:
            who = "a person" if self._reconcile is None else "its reconcile function"
            what = f"the question to {who} failed ({type(error).__name__}: {error})"
            raise self._in_doubt(f"{what}. It is not repeated. The next life asks again.") from error

    def _find_person(self) -> Callable[[], Any] | None:
        """The question to a person; None where nobody can be asked, or the caller cannot wait."""
        if not has_person() or not (self._effect.is_async or is_worker_thread()):
            return None
        return self._ask_person if self._effect.is_async else partial(from_thread.run, self._ask_person)

    async def _ask_person(self) -> Happened | None:
        key = idempotency_key(self._recorder.run_id, self._place)
        result = await ask_whether_it_happened(
            self._recorder, self._place, self._effect.name, key, self._effect.result_type
        )
        return None if result is None else Happened(*result)

    def _in_doubt(self, text: str) -> CallInDoubtError:
        return CallInDoubtError(
            f"{self._place}: {self._effect.name} had begun when its process ended, and {text}",
            place=self._place,
            idempotency_key=idempotency_key(self._recorder.run_id, self._place),
        )

    def _happened(self, answer: object) -> Any:
        return self._keep_result(answer.result if isinstance(answer, Happened) else answer)

    def _keep_result(self, result: Any) -> Any:
        place, declared = f"{self._place}, result", self._effect.result_type
        value = self._recorder.encode_value(result, place=place, declared=declared)
        self._recorder.add(
            self._place, "result", msgspec.msgpack.encode(self._with_usage(EndedCall(value=value)))
        )
        return result

    def _with_usage(self, ended: EndedCall) -> EndedCall:
        """The end of a call with its usage, where later lives would miss that."""
        return ended

    @contextmanager
    def _keeping_failure(self) -> Generator[None, None, None]:
        """Record the exception of the call, and raise what later lives raise.

        An exception is the end of a call that nobody knows more about. Otherwise, if it ends the life, the
        next one makes the call again, or asks whether it took effect.
        """
        try:
            yield
        except Exception as error:
            if find_interception_error(error) is not None:
                raise  # the call did not end: it could not go on
            failure, raised = recorded_error(error, self._place)
            body = msgspec.msgpack.encode(self._with_usage(EndedCall(failure=failure)))
            if self._reconcile is None:
                self._recorder.add(self._place, "result", body)
            else:
                self._recorder.add_failure(self._place, "result", body, raised)
            if raised is error:
                raise
            raise raised from error

    def _replay(self, record: Record) -> Any:
        ended = msgspec.msgpack.decode(record.body, type=EndedCall)
        if ended.failure is not None:
            error = rebuilt_error(ended.failure, self._place)
            self._recorder.note_raised(record.place, error)
            raise error
        return decode_value(ended.value, place=f"{self._place}, result", declared=self._effect.result_type)


def idempotency_key(run_id: str, place: str) -> str:
    """The key of a call: the same in every life of the run, and another one for each call."""
    return hashlib.sha256(f"{run_id}\n{place}".encode()).hexdigest()[:_KEY_CHARACTERS]


@overload
def once(
    function: Callable[Parameters, Result], /, *, reconcile: Callable[..., Any] | None = None
) -> Callable[Parameters, Result]: ...
@overload
def once(
    *, reconcile: Callable[..., Any] | None = None
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]: ...
def once(
    function: Callable[..., Any] | None = None, /, *, reconcile: Callable[..., Any] | None = None
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

    Raises (a call):
        CallInDoubtError: The call is in doubt, and there is nobody to ask, or the question failed.
        JournalValueError: The result or the exception cannot be stored. The call may have taken effect; the
            next life is in doubt.
        JournalDivergenceError: The recorded call had other arguments.
        JournalError: The call cannot be recorded, so it was not begun.
    """
    return _decorator(function, "once", reconcile)


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


def _decorator(function: Callable[..., Any] | None, mode: Mode, reconcile: Callable[..., Any] | None) -> Any:
    if function is None:
        return partial(_decorator, mode=mode, reconcile=reconcile)
    if not callable(function):
        raise TypeError(f"{mode} decorates a function, not {function!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{mode} cannot record the values of a generator; decorate what consumes it")
    keep_names(function, inspect.currentframe())
    effect = Effect(function, mode, reconcile)
    if reconcile is not None and is_async_callable(reconcile) and not effect.is_async:
        raise TypeError(f"{effect.name} is synchronous, so its reconcile function has to be, too")
    wrapped = _async_effect(effect) if effect.is_async else _sync_effect(effect)
    if effect.takes_key:
        parameters = [each for name, each in effect.signature.parameters.items() if name != _KEY]
        wrapped.__signature__ = effect.signature.replace(parameters=parameters)
    setattr(wrapped, EFFECT_MARK, mode)
    return wrapped


def _async_effect(effect: Effect) -> Any:
    @wraps(effect.function)
    async def call_effect(*args: Any, **keywords: Any) -> Any:
        with using_function_place(effect.name, lambda: (args, keywords), checks_end=False) as place:
            call = _find_call(effect, place, args, keywords)
            return await (_unrecorded(effect, args, keywords)() if call is None else call.run_async())

    return call_effect


def _sync_effect(effect: Effect) -> Any:
    @wraps(effect.function)
    def call_effect(*args: Any, **keywords: Any) -> Any:
        with using_function_place(effect.name, lambda: (args, keywords), checks_end=False) as place:
            call = _find_call(effect, place, args, keywords)
            return _unrecorded(effect, args, keywords)() if call is None else call.run()

    return call_effect


def _unrecorded(effect: Effect, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Callable[[], Any]:
    """The call in a run without a journal."""
    return effect.call_of(args, keywords, keywords.get(_KEY) or uuid.uuid4().hex)


def _find_call(
    effect: Effect, place: str, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> EffectCall | None:
    """The call in a run with a journal; None without one."""
    recorder = find_recorder()
    if recorder is None:
        return None
    place = recorder.relative(place)
    key = idempotency_key(recorder.run_id, place)
    reconcile = effect.reconciliation_of(args, keywords, key)
    inputs = effect.inputs_of(args, keywords)
    return EffectCall(recorder, place, effect, effect.call_of(args, keywords, key), reconcile, inputs)


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
    effect_call = EffectCall(recorder, place, effect, call, None)
    return effect_call.run_async if effect.is_async else effect_call.run


def _has_blocks(function: Callable[..., object]) -> bool:
    """Whether a function is natural itself; what it wraps is the function that it was made from."""
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    code = getattr(function, "__code__", None)
    return CLOSURE_NAMES[0] in getattr(code, "co_freevars", ())
