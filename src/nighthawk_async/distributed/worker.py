"""A worker: makes the calls that the program sends it, in one run for its life."""

import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context, copy_context
from itertools import count
from os import getpid
from types import MappingProxyType
from typing import Any, Protocol, cast, runtime_checkable

import anyio
from anyio.abc import TaskGroup

from ..actors import BareTaskGroup
from ..actors.task_group import is_cancelled
from ..kernel.environment import Environment, get_environment, using_environment
from ..kernel.features import Feature
from ..kernel.policy import NO_POLICIES
from ..kernel.run import Run
from ..kernel.run_state import DEFAULT_MAX_DEPTH, LOOP_SUBSTITUTE
from ..parallel.calling import call_any
from ..parallel.event_loop import LoopEvent
from ..parallel.task_current import change_place, enter_positions
from ..parallel.task_node import Positions
from ..tracing import trace_context_of, using_trace_context
from . import messages
from .caller_scope import LoadedScope, decode_scope, loaded_scope
from .counting import Counting
from .crossing import ReceivedArguments, decode_crossing, imported_function
from .crossing_errors import decode_error, encode_error
from .errors import LocalOnlyError
from .idle_executor import IdleExecutor
from .log_records import LogForwarder, apply_levels
from .messages import (
    Answer,
    Ask,
    Call,
    Content,
    Drop,
    Ended,
    Forget,
    Keep,
    Logged,
    LogLevels,
    Order,
    Stop,
    Tell,
    Withdraw,
)
from .outbox import Outbox
from .services import CHARGES, enter_functions
from .worker_store import WorkerStore, find_store

_MOST_SCOPES = 16


class WorkerEndpoint(Protocol):
    """The worker's end of the connection with the program."""

    async def send(self, messages: Sequence[bytes]) -> None:
        """Send messages, in order."""
        ...

    async def receive(self) -> bytes:
        """Wait for the next message.

        Raises:
            EndOfStream: The program has ended, or has closed the connection.
        """
        ...


_BLOCKING_SECONDS = 0.01
"""The seconds for which a blocked event loop waits for messages, before it sends those of threads."""


@runtime_checkable
class BlockingEndpoint(Protocol):
    """A worker's end that can also be used while the event loop is blocked, on the thread of the loop."""

    def exchange(self, messages: Sequence[bytes], seconds: float) -> list[bytes]:
        """Send messages, and return those that are received in time; blocks the thread.

        Args:
            messages: The messages to send, after all that were given to `send`.
            seconds: The longest wait for a message, in seconds.

        Raises:
            EndOfStream: The program has ended.
            BrokenResourceError: The program has ended.
        """
        ...


_current_call = Feature["_RunningCall | None"](None)


def _note_memory(error: MemoryError, function: str, worker: str, others: int) -> None:
    beside = f", beside {others} other calls" if others else ""
    error.add_note(
        f"{function} was refused memory on {worker}{beside}. A limit of the process (ulimit -v, RLIMIT_AS) "
        "or of the machine was reached: have the call take less, give each worker fewer calls at once "
        "(max_concurrent_per_worker), or raise the limit."
    )


def worker_name() -> str | None:
    """Return the name of the worker on which the caller runs; None in the program itself."""
    call = _current_call.get()
    return None if call is None else call.worker


def find_channel() -> "_RunningCall | None":
    """Return the channel of the call that the caller is part of; None in the program itself."""
    return _current_call.get()


def find_call() -> int | None:
    """Return the number of the call that the caller is part of; None outside every call."""
    call = _current_call.get()
    return None if call is None else call.message.number


class Worker:
    """Makes the calls that arrive at an endpoint.

    Args:
        name: Its name.
        endpoint: Its end of the connection.
        logs: Takes the log records of its process; None where the program handles them itself.
    """

    def __init__(self, name: str, endpoint: WorkerEndpoint, logs: LogForwarder | None = None) -> None:
        self._logs = logs
        self.name = name
        self.store: WorkerStore | None = None
        self._endpoint = endpoint
        self._outbox = Outbox()
        self._calls: dict[int, _RunningCall] = {}
        self._kept: dict[bytes, bytes] = {}
        self._questions: dict[int, _Question] = {}
        self._numbers = count()
        self._scopes: dict[bytes, LoadedScope] = {}
        self._is_stopped = False
        self._receiving = anyio.CancelScope()
        self._start_call: Callable[[_RunningCall], object] = _refuse_call

    @property
    def has_durable_calls(self) -> bool:
        """Whether it makes calls of a run with a journal, which the next life of the run makes again."""
        return any("journal" in call.message.services for call in tuple(self._calls.values()))

    def ready_message(self) -> messages.Ready:
        """Return the answer to the first message of the program, once its modules are loaded."""
        self.store = find_store()
        writer = "" if self.store is None else self.store.writer
        return messages.Ready(process=getpid(), host=socket.gethostname(), writer=writer)

    async def serve(self) -> bool:
        """Make calls until the program stops the worker, or has ended; return whether it was stopped."""
        outside = copy_context()  # of calls from outside every run
        if self._logs is not None:
            self._logs.begin(self._send_records_soon)
        run = Run(
            IdleExecutor(),
            run_id=None,
            sync_backend="trio",
            max_concurrent_steps=None,
            max_depth=DEFAULT_MAX_DEPTH,
            resolve_policies=lambda: NO_POLICIES,
            is_traced=False,
        )
        is_stopped = False
        try:
            async with BareTaskGroup() as sending:
                sending.start_soon(self._outbox.send_all, self._endpoint.send)
                async with run:
                    self._run, self._base = run, get_environment()
                    self._base.run_state.is_stand_in = True
                    async with BareTaskGroup() as group:
                        is_stopped = await self._receive(group, outside)
                        group.cancel_scope.cancel()
                sending.cancel_scope.cancel()
        finally:
            if self.store is not None:
                await self.store.close()
        return is_stopped

    async def _receive(self, group: TaskGroup, outside: Context) -> bool:
        self._group = group
        self._start_call = lambda call: outside.copy().run(group.start_soon, self._make, call)
        with self._receiving, suppress(anyio.EndOfStream):
            while True:
                self._take(await self._endpoint.receive())
        return self._is_stopped

    def _take(self, body: bytes) -> None:
        """Take a message of the program."""
        match messages.decode_to_worker(body):
            case Call() as call:
                running = _RunningCall(self, call)
                self._calls[call.number] = running
                self._start_call(running)
            case Withdraw(number=number):
                if number in self._calls:
                    self._calls[number].scope.cancel()
            case Answer() as answer:
                if answer.number in self._questions:
                    self._questions[answer.number].answer(answer)
            case Order(call=number, topic=topic, body=order):
                if number in self._calls:
                    self._calls[number].take_order(topic, order)
            case LogLevels(levels=levels):
                if self._logs is not None:
                    apply_levels(levels)
            case Keep(digest=digest, body=content):
                self._kept[digest] = content
            case Drop(digest=digest):
                self._kept.pop(digest, None)
            case Stop():
                self._is_stopped = True
                self._receiving.cancel()
            case _:
                pass

    @property
    def blocks_loop(self) -> bool:
        """Whether the caller runs on the thread of the worker's event loop."""
        return self._outbox.is_here

    @property
    def exchanges_blocked(self) -> bool:
        """Whether messages can be exchanged while the event loop is blocked."""
        return isinstance(self._endpoint, BlockingEndpoint)

    def exchange_until(self, is_done: Callable[[], bool]) -> None:
        """Exchange messages until a condition holds; the caller blocks the event loop meanwhile.

        Raises:
            BrokenResourceError: The program has ended.
            EndOfStream: The program has ended.
        """
        endpoint = cast("BlockingEndpoint", self._endpoint)
        while not is_done():
            for body in endpoint.exchange(self._outbox.take_all(), _BLOCKING_SECONDS):
                self._take(body)

    async def _make(self, call: "_RunningCall") -> None:
        number = call.message.number
        end: Ended | None = None
        try:
            with call.scope:
                end = Ended(number=number, value=await call.make())
        except anyio.get_cancelled_exc_class():
            if is_cancelled():
                raise  # else the call has cancelled itself, as it can on asyncio
        except BaseException as error:  # one that ends the program is for the program, not for the worker
            if isinstance(error, MemoryError):  # which says nothing by itself
                _note_memory(error, call.message.function, self.name, len(self._calls) - 1)
            end = Ended(number=number, error=encode_error(error, self.name))
        finally:
            del self._calls[number]
            if not self._is_failing:
                is_late = anyio.current_time() >= call.scope.deadline
                self.put(end or Ended(number=number, is_cancelled=True, is_late=is_late))

    @property
    def _is_failing(self) -> bool:
        """Whether the worker ends without being stopped, so that the program places its calls again."""
        return self._group.cancel_scope.cancel_called and not self._is_stopped

    def put(self, message: messages.FromWorker) -> None:
        """Send a message soon; from any thread."""
        self._outbox.put(messages.encode(message))

    def put_report(self, make: Callable[[], messages.FromWorker]) -> None:
        """Send a message that is made when it is sent; from any thread."""
        self._outbox.put_report(lambda: messages.encode(make()))

    def start_soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task that ends with the worker at the latest."""
        self._group.start_soon(work)

    def _send_records_soon(self, take: Callable[[], bytes]) -> None:
        self.put_report(lambda: Logged(records=take()))

    def content(self, content: Content) -> bytes:
        """Return a content that was sent, or is kept."""
        return self._kept[content.digest] if content.digest else content.body

    def scope(self, body: bytes) -> LoadedScope:
        """Return a caller's scope; the same for equal ones among the last."""
        found = self._scopes.get(body)
        if found is None:
            found = loaded_scope(decode_scope(body), self._base)
            self._scopes[body] = found
            if len(self._scopes) > _MOST_SCOPES:
                del self._scopes[next(iter(self._scopes))]
        return found

    def extent(self) -> Any:
        """The extent of the worker's run."""
        return self._run.extent("call")

    async def ask(self, call: int, topic: str, body: bytes) -> bytes:
        """Ask the program; see `CallChannel.ask`."""
        number, question = next(self._numbers), _Question()
        self._questions[number] = question
        self.put(Ask(call=call, number=number, topic=topic, body=body))
        try:
            return await question.wait()
        except anyio.get_cancelled_exc_class():
            self.put(Forget(number=number))
            raise
        finally:
            del self._questions[number]


def _refuse_call(call: "_RunningCall") -> None:
    raise AssertionError("the worker makes no calls yet")


class _Question:
    """A question to the program that waits for its answer."""

    def __init__(self) -> None:
        self._answered = LoopEvent()
        self._answer: Answer | None = None

    def answer(self, answer: Answer) -> None:
        self._answer = answer
        self._answered.set()

    async def wait(self) -> bytes:
        await self._answered.wait()
        assert self._answer is not None
        if self._answer.error is not None:
            raise decode_error(self._answer.error)
        return self._answer.body


class _RunningCall:
    """A call in progress on a worker; it is the channel of its services."""

    def __init__(self, worker: Worker, message: Call) -> None:
        self.message = message
        self.scope = anyio.CancelScope()
        if message.seconds is not None:
            self.scope.deadline = anyio.current_time() + message.seconds
        self.counting = Counting(message.counted)
        self._worker = worker
        self._orders: dict[str, Callable[[bytes], None]] = {}
        self._before_questions: Callable[[], Awaitable[None]] | None = None
        self.charges = 0
        self._lock = threading.Lock()
        # Taken now: what the worker keeps may be dropped before the call begins.
        self._args = [worker.content(each) for each in message.args]
        self._keywords = {name: worker.content(each) for name, each in message.keywords.items()}
        self._scope = worker.content(message.scope)

    @property
    def worker(self) -> str:
        """The name of the worker."""
        return self._worker.name

    @property
    def attempt(self) -> int:
        """The number of times that the call was placed before."""
        return self.message.attempt

    async def ask(self, topic: str, body: bytes) -> bytes:
        """Ask the program; see `CallChannel.ask`."""
        if self._before_questions is not None:
            await self._before_questions()
        return await self._worker.ask(self.message.number, topic, body)

    def tell(self, topic: str, body: bytes) -> None:
        """Report to the program; see `CallChannel.tell`."""
        self._worker.put(Tell(call=self.message.number, topic=topic, body=body))
        if topic in CHARGES:
            with self._lock:
                self.charges += 1

    def tell_soon(self, topic: str, take: Callable[[], bytes]) -> None:
        """Report with others; see `CallChannel.tell_soon`."""
        number = self.message.number
        self._worker.put_report(lambda: Tell(call=number, topic=topic, body=take()))

    def start_soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task; see `CallChannel.start_soon`."""
        self._worker.start_soon(work)

    @property
    def blocks_loop(self) -> bool:
        """Whether the caller blocks the event loop; see `CallChannel.blocks_loop`."""
        return self._worker.blocks_loop

    @property
    def exchanges_blocked(self) -> bool:
        """Whether the event loop may be blocked; see `CallChannel.exchanges_blocked`."""
        return self._worker.exchanges_blocked

    def exchange_until(self, is_done: Callable[[], bool]) -> None:
        """Exchange messages; see `CallChannel.exchange_until`."""
        self._worker.exchange_until(is_done)

    @property
    def store(self) -> WorkerStore | None:
        """The store of the worker; see `CallChannel.store`."""
        return self._worker.store

    @property
    def is_withdrawn(self) -> bool:
        """Whether it is cancelled; see `CallChannel.is_withdrawn`."""
        return self.scope.cancel_called

    def before_questions(self, wait: Callable[[], Awaitable[None]]) -> None:
        """Have questions wait for something; see `CallChannel.before_questions`."""
        self._before_questions = wait

    def wait_blocking(self, is_done: Callable[[], bool]) -> None:
        """Wait for a synchronous natural function; see `LOOP_SUBSTITUTE`.

        Raises:
            LocalOnlyError: It would wait for ever: its requests wait for messages.
        """
        if not self.blocks_loop:
            return
        if not self.exchanges_blocked:
            raise LocalOnlyError(
                "on this worker, a synchronous natural function cannot be called on the event loop, which "
                "has to pass its requests on. Make it `async def`, or call it in a thread, with "
                "anyio.to_thread.run_sync for example."
            )
        self.exchange_until(is_done)

    def on_order(self, topic: str, take: Callable[[bytes], None]) -> None:
        """Take orders; see `CallChannel.on_order`."""
        self._orders[topic] = take

    def take_order(self, topic: str, body: bytes) -> None:
        """Take an order of the program; without effect if nothing takes those of its topic."""
        take = self._orders.get(topic)
        if take is not None:
            take(body)

    async def make(self) -> bytes:
        """Make the call, and return its result, encoded."""
        _current_call.set(self)
        LOOP_SUBSTITUTE.set(self.wait_blocking)
        change_place(is_placed=True)
        function = imported_function(self.message.function)
        arguments = ReceivedArguments(function, self._args, self._keywords)
        async with self._entered():
            with using_trace_context(trace_context_of(self.message.trace_parent)):
                result = await call_any(function.bound(arguments.keywords), *arguments.args)
            arguments.check_unchanged()
            return function.encode_result(result)

    @asynccontextmanager
    async def _entered(self) -> AsyncGenerator[None, None]:
        """Enter the scope of the caller."""
        async with AsyncExitStack() as stack:
            environment: Environment | None = None
            if self._scope:
                await stack.enter_async_context(self._worker.extent())
                loaded = self._worker.scope(self._scope)
                loaded.enter()
                environment = loaded.environment
            for topic, enter in enter_functions(list(self.message.services)):
                service = enter(self, self.message.services[topic], environment)
                if isinstance(service, AbstractAsyncContextManager):
                    environment = await stack.enter_async_context(service)
                else:
                    environment = stack.enter_context(service)
            if environment is not None:
                stack.enter_context(using_environment(environment))
            enter_positions(Positions(self.message.place))
            change_place(values=MappingProxyType(self._task_values()))
            yield

    def _task_values(self) -> dict[str, object]:
        return {
            name: decode_crossing(body, None, f"the task-local value {name!r}")
            for name, body in self.message.task_values.items()
        }
