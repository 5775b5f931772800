"""One call that takes effect outside of the program, in a run with a journal; `effects` has the decorators.

A call is recorded before it begins and when it has ended. A later life gets the recorded result. A call that
had begun and is not known to have ended is in doubt: it is never repeated silently.
"""

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, get_args, get_origin

import msgspec
from anyio import from_thread
from anyio.lowlevel import checkpoint
from msgspec import Struct

from ..kernel.calls import new_arguments, using_function_place
from ..kernel.commit import find_interception_error
from ..parallel import is_async_callable
from ..parallel.event_loop import is_worker_thread
from ..signatures import read_signature, type_hints
from ..types.usage import Usage
from ..values.stable_digest import VERSION, digests_of_version_1, stable_digests
from .acknowledgement import Acknowledgement
from .carried_values import carried_by, without_owner
from .changed_arguments import WatchedCall, changed_error
from .doubts import ask_whether_it_happened, has_person, shown_arguments
from .durable_ends import DurableEnd
from .errors import CallInDoubtError, JournalError, JournalValueError, check_inputs
from .known_objects import first_digest
from .recorded_errors import CallFailure, rebuilt_error, recorded_error
from .recorder import RunRecorder, find_recorder
from .records import Intent, Record, read_intent
from .values import check_declared, decode_value

Mode: TypeAlias = Literal["once", "repeatable", "every_life"]

IDEMPOTENCY_KEY = "idempotency_key"
"""The name of the parameter that takes the key of a call."""

_KEY_CHARACTERS, _MOST_CHARACTERS = 32, 2_000  # of a key; of the reason why something could not be stored


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
        refusal: The reason why the value or the exception could not be stored; empty where it was.
        usage: The usage of the call by model, and `steps` their number; for stages, which later lives skip.
    """

    value: bytes = b""
    failure: CallFailure | None = None
    refusal: str = ""
    usage: Mapping[str, Usage] = {}
    steps: int = 0


class Effect:
    """A function whose calls take effect.

    Args:
        function: The function.
        mode: The way in which lives treat its calls.
        reconcile: Returns the result of a call in doubt that took effect, and None otherwise.
        durable: Whether a call returns only when its end is durable; None where nobody else could say
            whether it took effect.
        is_harmless: Whether its author says that calls may be made any number of times.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        mode: Mode,
        reconcile: Callable[..., Any] | None = None,
        durable: bool | None = None,
        *,
        is_harmless: bool = False,
    ) -> None:
        self.function = function
        self.is_harmless = is_harmless
        self.mode: Mode = mode
        self.reconcile = reconcile
        self.is_durable = durable if durable is not None else mode == "once" and reconcile is None
        self.name = getattr(function, "__name__", type(function).__name__)
        self.is_async = is_async_callable(function)

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the function."""
        return read_signature(self.function)

    @cached_property
    def takes_key(self) -> bool:
        """Whether the function takes the key of each call."""
        return IDEMPOTENCY_KEY in self.signature.parameters

    @cached_property
    def result_type(self) -> object:
        """The declared type of the results; None when there is none."""
        declared = type_hints(self.function).get("return")
        # What is declared for a function that only returns what is to be awaited.
        return get_args(declared)[-1] if get_origin(declared) in (Awaitable, Coroutine) else declared

    def inputs_of(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Mapping[str, object]:
        """The arguments of a call, by name, the object of a method, and what the function carries."""
        names = self.signature.parameters
        try:
            bound = self.signature.bind_partial(*args, **keywords).arguments
        except TypeError:  # the call will say so
            bound = dict(keywords)
        given = {name: bound[name] for name in names if name in bound and name != IDEMPOTENCY_KEY}
        return {**given, **self._carried()}

    def placed(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> using_function_place:
        """Give a call a place of its own during the `with` statement."""

        def placing() -> object:
            carried = new_arguments(self._carried())
            return (args, keywords, carried) if carried else (args, keywords)

        return using_function_place(self.name, placing, checks_end=False)

    def _carried(self) -> Mapping[str, object]:
        return carried_by(self.function, None if find_recorder() is None else first_digest)

    def call_of(self, args: tuple[Any, ...], keywords: Mapping[str, Any], key: str) -> Callable[[], Any]:
        """The call with its arguments, and with its key where the function takes one."""
        given = {**keywords, IDEMPOTENCY_KEY: key} if self.takes_key else keywords
        return partial(self.function, *args, **given)

    def reconciliation_of(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any], key: str
    ) -> Callable[[], Any] | None:
        """The question whether a call took effect; None where nobody can tell."""
        if self.mode == "repeatable":
            return lambda: None  # it may be made again
        if self.reconcile is None:
            return None
        takes_key = IDEMPOTENCY_KEY in read_signature(self.reconcile).parameters
        return partial(
            self.reconcile, *args, **({**keywords, IDEMPOTENCY_KEY: key} if takes_key else keywords)
        )


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
        values: What it must not change in place, by name.
    """

    _is_held_in_doubt = True  # not where a call goes on from records inside it, which hold on their own

    def __init__(
        self,
        recorder: RunRecorder,
        place: str,
        effect: Effect,
        call: Callable[[], Any],
        reconcile: Callable[[], Any] | None,
        inputs: Mapping[str, object] | None = None,
        values: Mapping[str, object] | None = None,
    ) -> None:
        self._values = values or {}
        self._recorder = recorder
        self._inputs = inputs
        self._place = place
        self._effect = effect
        self._call = call
        self._reconcile = reconcile
        self._end = DurableEnd(
            place, effect.name, is_awaited=effect.is_durable, departures=recorder.departures
        )

    def run(self) -> Any:
        """Make the call in a thread, or get its recorded result; see `run_async`."""
        self._check_inputs()
        if (ended := self._find_end()) is not None:
            self._recorder.delivery.deliver_in_thread(ended)
            return self._replay(ended)
        self._recorder.delivery.reach(self._place)
        self._recorder.begin_new_in_thread(self._place, self._hold_in_thread)
        self._recorder.check_may_begin()
        with self._in_progress():
            if self._is_in_doubt():
                with self._reconciling() as reconcile:
                    answer = reconcile()
                if answer is not None:
                    with self._end:
                        return self._happened(answer)
                if self._is_held_in_doubt:
                    self._recorder.holding.hold_in_thread(self._place, {})
                if (held := self._recorder.hold()) is not None:
                    held.wait_in_thread()
            else:
                self._recorder.holding.let_others_hold_in_thread(self._place)
                with self._beginning() as begun:
                    begun.wait_in_thread()
                    if (held := self._recorder.hold()) is not None:
                        held.wait_in_thread()
            with self._end:
                with self._keeping_failure(WatchedCall(self._values)):
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
            JournalValueError: The result cannot be stored. Where the type says so, the call was not begun;
                otherwise it has ended, and no life makes it again, unless it may be repeated.
            JournalError: The call cannot be recorded.
            Exception: The error of the call, or the recorded one.
        """
        self._check_inputs()
        if (ended := self._find_end()) is not None:
            await checkpoint()
            await self._recorder.delivery.deliver(ended)
            return self._replay(ended)
        self._recorder.delivery.reach(self._place)
        await self._recorder.begin_new(self._place, self._hold)
        self._recorder.check_may_begin()
        with self._in_progress():
            if self._is_in_doubt():
                with self._reconciling() as reconcile:
                    answer = reconcile()
                    answer = await answer if inspect.isawaitable(answer) else answer
                if answer is not None:
                    async with self._end:
                        return self._happened(answer)
                if self._is_held_in_doubt:
                    await self._recorder.holding.hold(self._place, {})
                if (held := self._recorder.hold()) is not None:
                    await held.wait()
            else:
                await self._recorder.holding.let_others_hold(self._place)
                with self._beginning() as begun:
                    await begun.wait()
                    if (held := self._recorder.hold()) is not None:
                        await held.wait()
            return await self._wait(self._call())

    async def _hold(self) -> None:
        if not self._is_in_doubt():
            await self._recorder.holding.hold(self._place, self._digests)

    def _hold_in_thread(self) -> None:
        if not self._is_in_doubt():
            self._recorder.holding.hold_in_thread(self._place, self._digests)

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
        async with self._end:
            watched = WatchedCall(self._values)
            with self._keeping_failure(watched):
                result = await watched.follow(call)
            return self._keep_result(result)

    def _check_inputs(self) -> None:
        """Check that this is the recorded call, so that it does not get the result of another one."""
        record = None if self._inputs is None else self._recorder.find_intent(self._place)
        if record is not None and self._inputs is not None:
            with self._recorder.delivery.noting_divergence():
                check_call(self._place, record, self._inputs)

    @cached_property
    def _digests(self) -> Mapping[str, str]:
        """The digests of its arguments; the first time, the run says what it does not know of them."""
        return self._recorder.known_objects.digests(self._place, "call", self._inputs or {})

    def _find_end(self) -> Record | None:
        recorder, place = self._recorder, self._place
        return recorder.find_record(place, "result") or recorder.find_handled(place, "result")

    def _is_in_doubt(self) -> bool:
        return self._recorder.find_intent(self._place) is not None

    @contextmanager
    def _beginning(self) -> Generator[Acknowledgement[None], None, None]:
        """Record that the call begins; it may when that is durable. An error means that it does not.

        Raises:
            JournalValueError: Its result can never be stored.
        """
        place, rules = f"{self._place}, result", self._recorder.rules
        check_declared(self._effect.result_type, place=place, rules=rules)
        begins = Intent(VERSION, dict(self._digests), self._effect.is_harmless)
        body = msgspec.msgpack.encode(begins)
        intent, begun = self._recorder.begin_effect(self._place, body)
        try:
            yield begun
        except BaseException:
            self._recorder.withdraw(intent)
            raise

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
        watched = WatchedCall(self._values)
        watched.begin()
        try:
            yield reconcile
        except JournalError:
            raise
        except Exception as error:
            who = "a person" if self._reconcile is None else "its reconcile function"
            what = f"the question to {who} failed ({type(error).__name__}: {error})"
            raise self._in_doubt(f"{what}. It is not repeated. The next life asks again.") from error
        finally:
            changed = watched.end()
        if changed:
            raise changed_error(self._place, f"the reconcile function of {self._effect.name}", changed)

    def _find_person(self) -> Callable[[], Any] | None:
        """The question to a person; None where nobody can be asked, or the caller cannot wait."""
        if not has_person() or not (self._effect.is_async or is_worker_thread()):
            return None
        return self._ask_person if self._effect.is_async else lambda: from_thread.run(self._ask_person)

    async def _ask_person(self) -> Happened | None:
        key = idempotency_key(self._recorder.run_id, self._place)
        result = await ask_whether_it_happened(
            self._recorder, self._place, self._effect.name, key, self._effect.result_type
        )
        return None if result is None else Happened(*result)

    def _in_doubt(self, text: str) -> CallInDoubtError:
        key = idempotency_key(self._recorder.run_id, self._place)
        arguments = shown_arguments(without_owner(self._inputs or {}))
        shown = ", ".join(f"{name}={value}" for name, value in arguments.items())
        return CallInDoubtError(
            f"{self._place}: {self._effect.name}({shown}) had begun when its process ended, and {text} Its "
            f"key is {key}.",
            place=self._place,
            idempotency_key=key,
            arguments=arguments,
        )

    def _happened(self, answer: object) -> Any:
        return self._keep_result(answer.result if isinstance(answer, Happened) else answer)

    def _keep_result(self, result: Any) -> Any:
        place, declared = f"{self._place}, result", self._effect.result_type
        try:
            value = self._recorder.encode_value(result, place=place, declared=declared)
            body = msgspec.msgpack.encode(self._with_usage(EndedCall(value=value)))
            self._end.written = self._recorder.add(self._place, "result", body)
        except JournalValueError as refusal:
            self._keep_refusal(refusal, is_final=self._effect.mode == "once")
            raise
        return result

    def _keep_refusal(self, refusal: JournalValueError, *, is_final: bool) -> None:
        """Record that the call has ended, in a way that cannot be stored: then no life is in doubt about it.

        Args:
            refusal: The error that says so.
            is_final: Whether no later life may make the call again.
        """
        ended = EndedCall(refusal=str(refusal)[:_MOST_CHARACTERS])
        self._keep_error(msgspec.msgpack.encode(self._with_usage(ended)), refusal, is_final=is_final)

    def _keep_error(self, body: bytes, error: BaseException, *, is_final: bool) -> None:
        """Record the error that the call has ended with."""
        if is_final:
            self._end.written = self._recorder.add(self._place, "result", body)
        else:
            self._end.written = self._recorder.add_failure(self._place, "result", body, error)

    def _with_usage(self, ended: EndedCall) -> EndedCall:
        """The end of a call with its usage, where later lives would miss that."""
        return ended

    @contextmanager
    def _keeping_failure(self, watched: WatchedCall) -> Generator[None, None, None]:
        """Record the exception of the call, and raise what later lives raise.

        An exception is the end of a call that nobody knows more about. Otherwise, if it ends the life, the
        next one makes the call again, or asks whether it took effect.

        Raises:
            JournalValueError: The call has changed its arguments, or the exception cannot be stored.
        """
        watched.begin()
        try:
            yield
        except Exception as error:
            changed = watched.end()
            if find_interception_error(error) is not None:
                raise  # the call did not end: it could not go on
            self._refuse_changes(changed, error)
            try:
                failure, raised = recorded_error(error, self._place)
            except JournalValueError as refusal:
                self._keep_refusal(refusal, is_final=self._reconcile is None)
                raise
            body = msgspec.msgpack.encode(self._with_usage(EndedCall(failure=failure)))
            self._keep_error(body, raised, is_final=self._reconcile is None)
            if raised is error:
                raise
            raise raised from error
        except BaseException:
            watched.end()
            raise
        self._refuse_changes(watched.end(), None)

    def _refuse_changes(self, changed: Sequence[str], error: Exception | None) -> None:
        """Refuse a call that has changed its arguments, as one whose result cannot be stored."""
        if not changed:
            return
        refusal = changed_error(self._place, f"the call of {self._effect.name} was made, and", changed)
        self._keep_refusal(refusal, is_final=self._effect.mode == "once")
        raise refusal from error

    def _replay(self, record: Record) -> Any:
        ended = msgspec.msgpack.decode(record.body, type=EndedCall)
        if ended.failure is not None or ended.refusal:
            error = (
                self._refusal(ended) if ended.failure is None else rebuilt_error(ended.failure, self._place)
            )
            self._recorder.note_raised(record.place, error)
            raise error
        return decode_value(ended.value, place=f"{self._place}, result", declared=self._effect.result_type)

    def _refusal(self, ended: EndedCall) -> JournalValueError:
        return JournalValueError(
            f"{self._place}: the call of {self._effect.name} ended in an earlier life with something that "
            f"could not be stored. It is not made again, and its result is lost: {ended.refusal}",
            place=self._place,
        )


def check_call(place: str, intent: Record, inputs: Mapping[str, object]) -> None:
    """Compare the arguments of a call with those of the recorded one, by the rule of the record.

    Args:
        place: The place of the call.
        intent: The record of its beginning.
        inputs: The present arguments by name.

    Raises:
        JournalDivergenceError: They differ.
    """
    begun = read_intent(intent)
    if begun.version == 1:
        check_inputs(place, "call", begun.inputs, digests_of_version_1(without_owner(inputs)))
        return
    present = stable_digests(inputs)
    check_inputs(place, "call", begun.inputs, {**dict.fromkeys(begun.inputs, ""), **present})


def effect_place(recorder: RunRecorder, place: str, inputs: Mapping[str, object]) -> str:
    """The place of a call: another one than that of a call that only cleanup made, with other arguments."""
    return recorder.beside_cleanup.find_place(
        place, recorder.find_intent, lambda intent: check_call(place, intent, inputs)
    )


def idempotency_key(run_id: str, place: str) -> str:
    """The key of a call: the same in every life of the run, and another one for each call."""
    return hashlib.sha256(f"{run_id}\n{place}".encode()).hexdigest()[:_KEY_CHARACTERS]
