"""`stream_text`: the text that a function's block writes, piece by piece, while its model's answer streams.

    made ── iterated, or entered ──► running ── the call has ended, all was given ──► ended
                                        └── left, closed, dropped, or cancelled ───► ended

The call runs in a task of its own: in one of `async with`, or, where the stream is only iterated over, in the
task group of whoever iterates. What was given is never taken back: where a text is written anew, the stream
waits until the new one goes on beyond it.
"""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, get_args, overload

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from ..errors import NighthawkError, TextReplacedError
from ..kernel.declared_types import return_type
from ..kernel.environment import Environment, find_task_keeper, get_environment, using_environment
from ..kernel.step import Step
from ..parallel.calling import call_any
from ..parallel.event_loop import LoopEvent
from ..types.execution import RETURN_NAME, PartialValues
from ..types.unset import UNSET
from .partial_readers import readers_of, with_readers

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class _Text:
    """The text of one call so far, from any thread, and what of it was given.

    Args:
        binding: The binding whose text it is; None for the only one.
        environment: The environment in which the call is made.
    """

    def __init__(self, binding: str | None, environment: Environment) -> None:
        self._binding = binding
        self._outer = environment.step
        self._names: dict[str, str] = {}
        self._block: object = None
        self._lock = threading.Lock()  # steps of synchronous functions run on other loops
        self._armed: LoopEvent | None = None
        self._latest = ""
        self.given = ""
        self.is_over = False

    @property
    def is_listening(self) -> bool:
        """Whether it wants values: always; see `PartialSink`."""
        return True

    def wants(self, step: Step) -> bool:
        """Whether a step that begins writes the text: one of the call itself, not of what its blocks call.

        Raises:
            NighthawkError: It is not clear which text is meant.
        """
        if get_environment().step is not self._outer:
            return False
        name = self._name_in(step)
        if name is None:
            return False
        if self._binding is None and self._block not in (None, step.context.step_id):
            raise NighthawkError(
                f"stream_text: the blocks {self._block} and {step.context.step_id} both write a text; say "
                "which one is meant with binding="
            )
        self._block = step.context.step_id
        self._names[step.context.execution_ref.execution_id or ""] = name
        return True

    def _name_in(self, step: Step) -> str | None:
        """The name of the text among the values of a step; None if it writes none."""
        context = step.context
        can_return = "return" in context.allowed_kinds
        if self._binding is not None:
            is_there = self._binding in context.binding_types or (self._binding == RETURN_NAME and can_return)
            return self._binding if is_there else None
        names = [name for name, annotation in context.binding_types.items() if _is_text(annotation)]
        if not names and can_return and _is_text(return_type(context)):
            return RETURN_NAME
        if len(names) > 1:
            raise NighthawkError(
                f"stream_text: step {context.step_id} writes several texts, {', '.join(names)}; say which "
                "one is meant with binding="
            )
        return names[0] if names else None

    def put(self, partial: PartialValues) -> None:
        """Take the values of a step; see `PartialSink`."""
        name = self._names.get(partial.execution_ref.execution_id or "", self._binding)
        if name is None:  # of a step on a worker
            texts = [key for key, value in partial.values.items() if isinstance(value, str)]
            name = texts[0] if len(texts) == 1 else None
        value = partial.values.get(name or "")
        if isinstance(value, str):
            with self._lock:
                self._latest = value
            self._wake()

    def step_ended(self, execution_id: str) -> None:
        """Take that a step has ended: another one may follow; see `PartialSink`."""

    def end(self) -> None:
        """Note that no more text follows."""
        self.is_over = True
        self._wake()

    async def next(self) -> str:
        """Wait for the next piece; empty when there is no more.

        Raises:
            TextReplacedError: The text that was written at last does not begin with what was given.
        """
        while True:
            with self._lock:
                piece = self._take()
                if piece or self.is_over:
                    return piece
                event = self._armed = LoopEvent()
            await event.wait()

    def _take(self) -> str:
        if self._latest.startswith(self.given):
            piece = self._latest[len(self.given) :]
            self.given = self._latest
            return piece
        if self.is_over:
            raise TextReplacedError(
                "The text that was streamed is not the one that was written at last: an answer was refused "
                "and written anew, or a hook changed it. `text` of the error has the last one.",
                text=self._latest,
            )
        return ""

    def _wake(self) -> None:
        with self._lock:
            event, self._armed = self._armed, None
        if event is not None:
            event.set()


def _is_text(annotation: object) -> bool:
    """Whether a type is `str`, also annotated, or an optional one."""
    if annotation is str:
        return True
    if (parts := get_args(annotation)) and hasattr(annotation, "__metadata__"):
        return _is_text(parts[0])
    return {*parts} == {str, type(None)}


class _Call:
    """The call of a function, and its end. The stream refers to it, and it to no stream.

    Args:
        call: Makes it.
        text: The text that it writes.
        environment: The environment in which it is made.
    """

    def __init__(self, call: Callable[[], Awaitable[Any]], text: _Text, environment: Environment) -> None:
        self._call = call
        self._environment = with_readers(environment, (*readers_of(environment.policies), text))
        self.text = text
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()
        self.result: object = UNSET
        self.error: BaseException | None = None

    async def run(self) -> None:
        """Make it; an exception of it is kept for whoever iterates."""
        try:
            with self.scope, using_environment(self._environment):
                self.result = await self._call()
        except Exception as error:
            self.error = error
        finally:
            self.text.end()
            self.ended.set()

    async def stop(self) -> None:
        """End it, and wait until it has ended."""
        self.scope.cancel()
        with anyio.CancelScope(shield=True):
            await self.ended.wait()


class TextStream(AsyncIterator[str], Generic[Result_co]):
    """The pieces of a text while it is written; made by `stream_text`.

    Iterate over it once, in one task. Joined, the pieces are the text.
    """

    def __init__(self, make_call: Callable[[], Awaitable[Result_co]], binding: str | None) -> None:
        environment = get_environment()
        self._call = _Call(make_call, _Text(binding, environment), environment)
        self._keeper = find_task_keeper() or environment.run_state.find_keeper()
        self._guard = anyio.ResourceGuard("waiting for text")
        self._task_group: TaskGroup | None = None
        self._is_started = False

    async def __aenter__(self) -> "TextStream[Result_co]":
        self._start_once()
        self._task_group = anyio.create_task_group()
        await self._task_group.__aenter__()
        self._task_group.start_soon(self._call.run, name="stream_text")
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._task_group is not None
        self._call.scope.cancel()
        await self._task_group.__aexit__(None, None, None)

    def __aiter__(self) -> "TextStream[Result_co]":
        return self

    async def __anext__(self) -> str:
        with self._guard:
            await checkpoint()
            if not self._is_started:
                self._start_where_it_is_iterated()
            try:
                if piece := await self._call.text.next():
                    return piece
                await self._call.ended.wait()
            except BaseException:
                await self._call.stop()
                raise
            if self._call.error is not None:
                raise self._call.error
            raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the call, unless it has ended, and wait for its end."""
        if self._is_started:
            await self._call.stop()
        self._is_started = True

    @property
    def text(self) -> str:
        """The text that was given so far; at the end, the whole text."""
        return self._call.text.given

    @property
    def result(self) -> Result_co:
        """The result of the function.

        Raises:
            NighthawkError: It has not returned yet.
        """
        if self._call.error is not None:
            raise self._call.error
        if self._call.result is UNSET:
            raise NighthawkError("The function has not returned yet: iterate over the text to its end first.")
        result: Any = self._call.result
        return result

    def _start_once(self) -> None:
        if self._is_started:
            raise NighthawkError("A stream of text runs one call, once; call stream_text again.")
        self._is_started = True

    def _start_where_it_is_iterated(self) -> None:
        self._start_once()
        keeper = find_task_keeper() or self._keeper
        if keeper is None or keeper.is_ending or not keeper.is_here:
            raise NighthawkError(
                "Nothing here can hold the call of stream_text: its run has ended, belongs to another event "
                "loop, or was entered with `with`. Use `async with nighthawk_async.stream_text(…) as text:`."
            )
        keeper.task_group.start_soon(self._call.run, name="stream_text")

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None and self._task_group is None and self._is_started and not call.text.is_over:
            keeper = self._keeper
            if keeper is not None and keeper.is_here:
                call.scope.cancel()


@overload
def stream_text(
    function: Callable[Arguments, Awaitable[Result]], /, *args: Arguments.args, **kwargs: Arguments.kwargs
) -> TextStream[Result]: ...
@overload
def stream_text(
    function: Callable[..., Awaitable[Result]], /, *args: Any, binding: str | None, **kwargs: Any
) -> TextStream[Result]: ...
@overload
def stream_text(
    function: Callable[..., Result], /, *args: Any, binding: str | None = ..., **kwargs: Any
) -> TextStream[Result]: ...
def stream_text(
    function: Callable[..., Any], /, *args: Any, binding: str | None = None, **kwargs: Any
) -> TextStream[Any]:
    """Call a function, and give the text that its block writes, piece by piece, while it is written.

        async for piece in nh.stream_text(answer, question):
            print(piece, end="", flush=True)

    Joined, the pieces are the text. The call ends with the iteration: an exception of the function is raised
    there, and cancelling whoever iterates cancels it. With `async with nh.stream_text(…) as text:`, leaving
    the block early ends it too; otherwise call `aclose()`, or drop the stream. Afterwards, `text.text` is the
    whole text, and `text.result` is what the function returned.

    An answer that is refused and written anew does not show: the stream goes on where the new text goes
    beyond what was given.

    Args:
        function: A natural function, or one that calls natural functions, `async def` or `def`; the latter
            runs in a worker thread.
        args: Its arguments.
        binding: The name of the write binding, or `return` for the return value. None for the only write
            binding whose type is `str`, or, without one, the return value. A parameter of the function that
            is called `binding` is given by its position.
        kwargs: Its keyword arguments.

    Returns:
        An async iterator, and an async context manager.

    Raises:
        NighthawkError: No run is active; while iterating, nothing can hold the call, or it is not clear which
            text is meant.
        TextReplacedError: While iterating, at the end: the text was replaced after a part of it was given.
        Exception: While iterating, whatever the function raises.
    """
    return TextStream(partial(call_any, partial(function, *args, **kwargs)), binding)
