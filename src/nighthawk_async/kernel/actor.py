"""The task that owns a StepContext and serves its mailbox, and the steering of its step.

Every change of a running step's state goes through here, one message at a time and in the order of posting.
Awaitables are awaited outside the actor, in the task of the sender, so that they run in parallel; the result
comes back as a message. A message that mentions a name whose assignment is still being awaited waits for it:
calls that depend on each other keep their order, and independent ones do not wait.

Steering is messages for the model, suspending, stopping, ending. It is plain state that changes at once; the
step reads it at its turn boundaries:

    begin() -> turn_boundary() -> model request, tool calls -> turn_boundary() -> … -> may_end() -> the end

At a boundary the step waits while it is suspended; then it fails if it was stopped, and ends if its task was
asked to end. Every step has the first boundary, so a task that was asked to end begins no further step,
with any executor; for an executor without turns the whole step is one turn. Messages are delivered at the
next boundary, in the order of their arrival, each once. A message that arrives while the model ends the block
causes one more turn, so that the model sees it before anything is committed. Once the end is certain, nothing
more is accepted.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from msgspec import Struct

from ..errors import ExecutionError, NighthawkError, StepEndedError, StepStoppedError, ToolEvaluationError
from ..observation import NodeState, NodeWriter, find_node_writer, using_node_writer
from ..parallel import TaskCancelledError, TaskEndedError, current_task, raise_if_cancel_requested
from ..parallel.task_current import Parking, find_positions, using_positions
from ..parallel.task_node import Positions, ResourceKeeper, get_task_hooks
from ..threads import BlockingCall
from ..tracing import find_trace_context, using_trace_context
from ..types.code import CodeLevel
from ..types.messages import UserContent, checked_steering
from ..types.unset import UNSET
from .assignment import parse_target_path
from .commands import (
    Assign,
    Awaited,
    Call,
    CallGuard,
    Command,
    CommandGuard,
    Evaluate,
    Execute,
    PausedCode,
    Resume,
    StepState,
)
from .context import StepContext, StepNamespace
from .run_state import Slot
from .usage_meter import StepProgress, StepSnapshot, preview_values

if TYPE_CHECKING:
    from ..tracing import TraceContext


ParkingMoment: TypeAlias = Literal["suspended", "resumed"]
"""The moments at which a step is about to park, and goes on."""

Result = TypeVar("Result")


class Steering:
    """Steering of one step. Everything happens on the event loop of the step.

    `StepActor` derives from it, so that tools inside the step can steer it as the handle of its task can.
    Requests take effect at the next turn boundary, when the tools of the current turn have finished; the end
    of the step, before anything is committed, is one too.

    Args:
        step_id: The block, for errors.

    Attributes:
        node: The node of the step; None while it is not observed.
        task_node: The node of its task, which is suspended with it; None for none.
        on_suspended: Called with True when it parks, and with False when it goes on; None for none.
    """

    __slots__ = (
        *("_accepted", "_at_most", "_cancel_request", "_interruptible", "_is_closed", "_made_parking"),
        *("_parking_observer", "_stands", "_step_id", "_taken", "_was_to_park", "_watcher"),
        *("node", "on_suspended", "stop_reason", "task_node"),
    )

    def __init__(self, step_id: str) -> None:
        self._step_id = step_id
        self._accepted: list[UserContent] = []
        self._taken = 0
        self._at_most: int | None = None
        self._was_to_park = False
        self._made_parking: Parking | None = None  # most steps are never asked to park
        self._cancel_request: tuple[str | None] | None = None
        self._interruptible: anyio.CancelScope | None = None
        self._is_closed = False
        self._parking_observer: Callable[[ParkingMoment], Awaitable[None]] | None = None
        self._watcher: Callable[[tuple[UserContent, ...]], object] | None = None
        self.stop_reason: str | None = None
        self.node: NodeWriter | None = None
        self.task_node: NodeWriter | None = None
        self.on_suspended: Callable[[bool], object] | None = None
        self._stands: NodeState = "waiting"

    @property
    def _parking(self) -> Parking:
        if self._made_parking is None:
            self._made_parking = Parking("step")
            if self._is_closed:
                self._made_parking.close()
        return self._made_parking

    @property
    def accepted(self) -> tuple[UserContent, ...]:
        """Every message that has arrived so far, delivered or not."""
        return tuple(self._accepted)

    @property
    def is_to_park(self) -> bool:
        """Whether it was asked to park, now or when it ended."""
        made = self._made_parking
        return self._was_to_park or (made is not None and made.state in ("suspending", "suspended"))

    @property
    def is_suspended(self) -> bool:
        """Whether the step is parked and waits to be resumed."""
        return self._made_parking is not None and self._made_parking.is_suspended

    def steer(self, *content: UserContent) -> None:
        """Deliver a message to the model at its next turn, in the order of the messages, exactly once.

        A message that arrives during the turn in which the model ends the block gives it one more turn.
        Empty texts are ignored.

        Raises:
            TaskEndedError: The step has ended.
            NighthawkError: It is not content.
        """
        self._refuse_ended()
        self._accept(checked_steering(content))

    def stop(self, reason: str) -> None:
        """Ask the step to fail at its next boundary, parked or not. The first reason counts.

        Raises:
            TaskEndedError: The step has ended.
        """
        self._refuse_ended()
        self.stop_reason = self.stop_reason or reason
        self._have_noticed()

    def suspend(self) -> None:
        """Ask the step to park at its next boundary. Asking again changes nothing.

        Raises:
            TaskEndedError: The step has ended.
        """
        self._parking.suspend()
        self._interrupt()

    async def wait_suspended(self) -> None:
        """Wait until the step is parked. Do not call it in the step's own tools: it parks after they finish.

        Raises:
            TaskEndedError: The step ended before it parked.
        """
        await self._parking.wait_suspended()

    def resume(self, input: UserContent | Sequence[UserContent] | None = None) -> None:
        """Let the step go on, or withdraw the request to park.

        Args:
            input: A message for its model, after those that arrived before; None for none.

        Raises:
            NotSuspendedError: It was not suspended.
            AlreadyResumedError: It was resumed already and has not gone on yet.
            TaskEndedError: The step has ended.
            NighthawkError: The input is not content.
        """
        items = tuple(cast("Sequence[Any]", input)) if isinstance(input, list | tuple) else (input,)
        message = [] if input is None else checked_steering(items)
        self._parking.resume()
        self._accept(message)

    def request_cancel(self, reason: str | None) -> None:
        """Ask the step to end at its next boundary, parked or not, as cancelled.

        If there is an outcome already, it counts.
        """
        self._cancel_request = self._cancel_request or (reason,)
        self._have_noticed()

    def observe_parking(self, observer: Callable[[ParkingMoment], Awaitable[None]]) -> None:
        """Call an observer when the step is about to park and when it goes on; not when it is cancelled."""
        self._parking_observer = observer

    async def begin(self) -> None:
        """Wait while the step is suspended, before it begins.

        Raises:
            StepStoppedError: The step was stopped.
            TaskCancelledError: The task of the step was asked to end.
        """
        await self._park()
        self._raise_if_stopped()
        raise_if_cancel_requested()
        if self._cancel_request is not None:
            (reason,) = self._cancel_request
            raise TaskCancelledError(task_id=current_task().id, reason=reason, forced=False)

    async def interruptible(self, waiting: Awaitable[Result]) -> Result | None:
        """Wait for something before the step begins, until the step is asked to park, stop or end.

        Returns:
            The result of waiting; None if the wait was cancelled, because the step was asked to park, stop or
            end. If both happen at the same moment, either is possible.
        """
        try:
            with anyio.CancelScope() as self._interruptible:
                return await waiting
        finally:
            self._interruptible = None
        return None

    async def turn_boundary(self) -> tuple[UserContent, ...]:
        """Begin a turn: wait while the step is suspended, then take the messages for the model.

        Returns:
            The messages that arrived since the last turn, in order, or as many as `watch_messages` said.

        Raises:
            StepStoppedError: The step was stopped.
            TaskCancelledError: The task of the step was asked to end.
        """
        await checkpoint_if_cancelled()  # a call in a worker thread may have outlasted a cancellation
        await self.begin()
        return self._take()

    async def may_end(self) -> bool:
        """Wait while the step is suspended, before it ends with its model's outcome.

        Returns:
            False if messages wait for the model, so that another turn is needed. A step whose task was asked
            to end may always end.

        Raises:
            StepStoppedError: The step was stopped.
        """
        await self._park()
        self._raise_if_stopped()
        return self._taken == len(self._accepted) or self._cancel_request is not None

    def watch_messages(
        self, watcher: Callable[[tuple[UserContent, ...]], object] | None, at_most: int | None = None
    ) -> None:
        """Show the messages that wait for the next turn, now and whenever one arrives; it delivers them.

        Args:
            watcher: Gets all that wait, in order; None to end that.
            at_most: The number of messages that the next turn delivers; None for all.
        """
        self._watcher, self._at_most = watcher, at_most
        self._accept([])

    def _accept(self, messages: list[UserContent]) -> None:
        self._accepted += messages
        if self._watcher is not None and self._taken < len(self._accepted):
            self._watcher(tuple(self._accepted[self._taken :]))

    def end_steering(self) -> tuple[UserContent, ...]:
        """Accept nothing more, and return the messages that were not delivered. Idempotent."""
        if self._is_closed:
            return ()
        self._is_closed = True
        self._was_to_park = self.is_to_park
        if self._made_parking is not None:
            self._made_parking.close()
        self._at_most = None
        return self._take()

    def _take(self) -> tuple[UserContent, ...]:
        end = None if self._at_most is None else self._taken + self._at_most
        messages = tuple(self._accepted[self._taken : end])
        self._taken += len(messages)
        self._at_most = None
        return messages

    async def _park(self) -> None:
        if self._made_parking is None and not self._is_closed:
            return
        if self._parking.state == "running":  # it is not asked to park
            return
        observer = self._parking_observer if self._parking.state == "suspending" else None
        if observer is not None:
            await observer("suspended")
        if self._parking.state != "suspending":
            await self._parking.park()
        else:
            with self._shown_parked():
                await self._parking.park()
        if observer is not None:
            await observer("resumed")

    @contextmanager
    def _shown_parked(self) -> Generator[None, None, None]:
        if self.node is not None:
            self.node.change_state("suspended")
        if self.task_node is not None:
            self.task_node.change_state("suspended")
        if self.on_suspended is not None:
            self.on_suspended(True)
        try:
            yield
        finally:
            if self.node is not None:
                self.node.change_state(self._stands)
            if self.task_node is not None:
                self.task_node.change_state("running")
            if self.on_suspended is not None:
                self.on_suspended(False)

    def _have_noticed(self) -> None:
        """Have the step notice that it is to end."""
        self._parking.release()
        self._interrupt()

    def _interrupt(self) -> None:
        if self._interruptible is not None:
            self._interruptible.cancel()

    def _raise_if_stopped(self) -> None:
        if self.stop_reason is not None:
            what = f"step {self._step_id} was stopped"
            raise StepStoppedError(f"{what}: {self.stop_reason}").without_content(what)

    def _refuse_ended(self) -> None:
        if self._is_closed:
            raise TaskEndedError(f"step {self._step_id} has ended")


class Observers(Struct, frozen=True, kw_only=True, eq=False):
    """The observers of the sender of a message.

    Args:
        node: The active node; None if nobody observes the tree.
        trace_context: The active trace context; None if there is no trace.
        positions: The place of the sender; None without a journal.
    """

    node: NodeWriter | None
    trace_context: "TraceContext | None"
    positions: Positions | None

    def call(
        self, function: Callable[[Command, StepState], object], command: Command, state: StepState
    ) -> object:
        """Have a function execute a command while they are active."""
        place = nullcontext() if self.positions is None else using_positions(self.positions)
        with using_trace_context(self.trace_context), using_node_writer(self.node), place:
            return function(command, state)


def find_observers(*, keeps_places: bool) -> Observers | None:
    """Return the observers of the caller; None for none.

    Args:
        keeps_places: Whether the run has a journal.
    """
    node, trace_context = find_node_writer(), find_trace_context()
    positions = find_positions() if keeps_places and get_task_hooks().find_decisions() is not None else None
    if node is None and trace_context is None and positions is None:
        return None
    return Observers(node=node, trace_context=trace_context, positions=positions)


Result = TypeVar("Result")


class Pending(Generic[Result]):
    """A reply on its way to the sender of a command.

    A sender that is cancelled while waiting abandons the command: if it was not executed yet, it never is.
    """

    __slots__ = ("_arrived", "_error", "_value", "command", "is_abandoned")

    def __init__(self, command: Command) -> None:
        self.command = command
        self.is_abandoned = False
        self._arrived = anyio.Event()
        self._value: Result | None = None
        self._error: Exception | None = None

    def resolve(self, value: Result) -> None:
        """Deliver the value."""
        self._value = value
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        """Deliver a failure."""
        self._error = error
        self._arrived.set()

    async def wait(self) -> Result:
        """Wait for the reply; raises the failure that was delivered."""
        try:
            await self._arrived.wait()
        except BaseException:  # cancelled
            self.is_abandoned = True
            if type(self._value) is Awaited:
                self._value.close()
            raise
        if self._error is not None:
            await checkpoint_if_cancelled()  # the end of the step may have cancelled the caller too
            raise self._error
        return cast("Result", self._value)


class _Envelope(Struct, frozen=True, kw_only=True, eq=False):
    command: Command
    reply: Pending[object]
    observers: Observers | None


class StepActor(Steering):
    """Owns one StepContext while its step runs.

    The `post_…` methods are synchronous and fix the order of the messages; `settle` waits for what they
    return. Every reply raises `StepEndedError` when the step ends first.

    The actor can steer, suspend, stop and inspect the step, as the handle of its task can: see `Steering`.
    All of this raises `TaskEndedError` when the step has ended.

    Args:
        context: The state to own.
        parent: The actor of the parent step; None for none.
        keeps_places: Whether the run has a journal, so that commands are made at the places of their senders.

    Attributes:
        context: The state. Read it only between messages.
        guard: The guard that executes the commands. Set it before the step begins.
        coding: The level of the step's code; None for that of a program. Set it before the step begins.
        call_guard: The guard of the calls of the step's code; None for none. Set it before the step begins.
        progress: The progress of the step.
        slot: The admission slot of the step; None before admission, and in a run without a limit.
        keeper: The keeper of the step's resources; None before it begins.
    """

    guard: CommandGuard = CommandGuard()

    def __init__(
        self,
        context: StepContext,
        *,
        parent: "StepActor | None" = None,
        keeps_places: bool = False,
    ) -> None:
        super().__init__(context.step_id)
        self._keeps_places = keeps_places
        self.context = context
        self.call_guard: CallGuard | None = None
        self.coding: CodeLevel | None = None
        self._has_stopped_serving = False
        self._claimed: dict[Pending[object], frozenset[str]] = {}
        self._deferred: list[_Envelope] = []
        self.progress: StepProgress = StepProgress(None if parent is None else parent.progress)
        self.slot: Slot | None = None
        self._has_begun = self._is_started = False
        self.keeper: ResourceKeeper | None = None
        self._messages: deque[_Envelope | Callable[[], object]] = deque()
        self._sent: anyio.Event | None = None  # while the task of the actor waits for a message

    # Most steps in flight have had no message yet, so what serves messages is made for the first one.
    @cached_property
    def _state(self) -> StepState:
        return StepState(
            context=self.context,
            namespace=StepNamespace(self.context),
            step_code=None if self.coding is None else self.coding.step_code(self),
            call_guard=self.call_guard,
        )

    @cached_property
    def call_nodes(self) -> dict[int, NodeWriter]:
        """The nodes of the tool calls that have not ended, by identity, if the tree is observed."""
        return {}

    def _have_noticed(self) -> None:
        super()._have_noticed()
        self.context.phase = "ending"  # its code ends too

    def in_flight(self) -> AbstractContextManager[None]:
        """Begin, as the step is admitted; changes by others to what it binds are reported meanwhile."""
        self._has_begun = True
        self._stands = "running"
        if self.node is not None:
            self.node.change_state("running")
        return self.guard.in_flight()

    def serve_in(self, task_group: TaskGroup) -> None:
        """Execute messages in a task of its own, from the first one until `close`.

        Most steps in flight wait for their model and have had no message, so the task starts with the first
        one. It gets the current context, no matter who sends that message.

        Args:
            task_group: The task group of the task.
        """
        self.keeper = ResourceKeeper("step", self.context.step_id, task_group)
        if self._messages:
            self._begin_to_serve()

    def _begin_to_serve(self) -> None:
        if self.keeper is not None and not self._is_started:
            self._is_started = True
            self.keeper.context.run(self.keeper.task_group.start_soon, self._serve)

    async def _serve(self) -> None:
        # No `Mailbox`: this is made in each step, has one receiver, and its messages have an order already.
        await checkpoint()  # what the model sends with the first call comes before it, as telemetry.md shows
        while not self._has_stopped_serving:
            if not self._messages:
                self._sent = anyio.Event()
                await self._sent.wait()
                continue
            message = self._messages.popleft()
            if isinstance(message, _Envelope):
                self._admit(message)
            else:
                message()
            if self._messages:
                await checkpoint()

    def close(self) -> None:
        """Accept no more messages, and fail those that were not executed."""
        self.end_steering()
        self.context.phase = "ended"
        self._has_stopped_serving = True
        if "call_nodes" in vars(self):
            for node in self.call_nodes.values():
                node.end("cancelled")
        left = [*self._deferred, *self._messages]
        self._deferred.clear()
        self._messages.clear()
        if self._sent is not None:
            self._sent.set()
        for message in left:
            if isinstance(message, _Envelope):
                message.reply.fail(self._ended())

    def post_evaluate(self, expression: str) -> Pending[object]:
        """Ask for the value of an expression."""
        return self._post(Evaluate(expression=expression))

    def post_assign(self, target_path: str, expression: str = "", *, data: object = UNSET) -> Pending[object]:
        """Ask for an assignment; the reply is the value as it was stored.

        Args:
            target_path: The target.
            expression: The expression whose value is assigned.
            data: A decoded JSON value to assign instead.

        Raises:
            ToolBoundaryError: The target path does not follow the grammar.
        """
        return self._post(Assign(target=parse_target_path(target_path), expression=expression, data=data))

    def post_made(self, name: str, value: object) -> Pending[object]:
        """Ask for a write binding to be set to a Python object that the model made."""
        return self._post(Assign(target=parse_target_path(name), made=value))

    def post_execute(self, statements: str, *, text: str | None = None) -> Pending[object]:
        """Ask for a cell to be executed; the reply is what it leaves, `ChangedNames`.

        Args:
            statements: The code.
            text: A raw text that it sees under the name `text`; None for none.
        """
        return self._post(Execute(statements=statements, text=text))

    def post_call(self, name: str, call: Callable[[], object]) -> Pending[object]:
        """Ask for a function to be called in the actor's turn."""
        return self._post(Call(name=name, call=call))

    async def settle(self, pending: Pending[object], *, may_await: bool = True) -> object:
        """Wait for a reply, and for its value if that is awaitable.

        Args:
            pending: The reply of a `post_…` method.
            may_await: Whether the value may be awaitable; a `BlockingCall` always may.

        Raises:
            ToolEvaluationError: The code is not Python, or raised.
            ToolValidationError: The value does not match the type of the binding or field it was assigned to.
            ToolBoundaryError: The target cannot be assigned.
            ExecutionError: The value is awaitable and must not be.
            HookError: A rule of the active permissions failed.
            StepEndedError: The step has ended.
        """
        guard = self.call_guard
        try:
            reply = await self._settle(pending, may_await=may_await)
        except NighthawkError as error:
            if guard is not None:
                guard.raise_failure()
            if isinstance(error, ToolEvaluationError):
                self.context.note_failure(error)
            raise
        finally:
            if pending in self._claimed:
                self._send(lambda: self._release(pending))
        if guard is not None:
            guard.raise_failure()
        return reply

    async def snapshot(self) -> StepSnapshot:
        """Return an immutable view of the step between two messages; works while it waits for admission too.

        Raises:
            TaskEndedError: The step has ended.
        """
        if not self._has_begun:  # nothing has happened yet
            await checkpoint()
            return self._view()
        try:
            return cast("StepSnapshot", await self._post(Call(name="snapshot", call=self._view)).wait())
        except StepEndedError as error:
            raise TaskEndedError(str(error)) from None  # like every method that steers the step

    async def turn_boundary(self) -> tuple[UserContent, ...]:
        """Begin a turn, and count it; see `Steering.turn_boundary`."""
        messages = await super().turn_boundary()
        self.progress.turns += 1
        if messages and self.node is not None:
            self._write_messages(self.node, messages)
        return messages

    def _write_messages(self, node: NodeWriter, messages: tuple[UserContent, ...]) -> None:
        for message in messages:
            text = message if isinstance(message, str) else f"<{type(message).__name__}>"
            node.write("message", f"{text}\n")

    async def _settle(self, pending: Pending[object], *, may_await: bool) -> object:
        reply = await pending.wait()
        while type(reply) is Awaited:
            try:
                value = await self._await_value(reply, may_await=may_await)
            except BaseException:
                if reply.undo is not None:
                    reply.undo()
                raise
            if reply.continuation is None:
                return value
            reply = await self._post(Resume(continuation=reply.continuation, value=value)).wait()
        return reply

    async def _await_value(self, reply: Awaited, *, may_await: bool) -> object:
        if not may_await and type(reply.awaitable) not in (BlockingCall, PausedCode):
            reply.close()
            raise ExecutionError(
                f"step {self.context.step_id}: a synchronous natural function cannot return an awaitable; "
                "make the function `async def`"
            )
        try:
            return await self.guard.await_value(reply.awaitable)
        except self.guard.verdicts:
            raise
        except (Exception, SystemExit) as error:  # as in the actor's turn
            message = reply.describe(error)
            raise ToolEvaluationError(message).without_content(type(error).__name__) from error

    def _post(self, command: Command) -> Pending[object]:
        observers = find_observers(keeps_places=self._keeps_places)
        envelope = _Envelope(command=command, reply=Pending(command), observers=observers)
        if not self._send(envelope):
            envelope.reply.fail(self._ended())
        return envelope.reply

    def _send(self, message: _Envelope | Callable[[], object]) -> bool:
        if self._has_stopped_serving:
            return False
        self._messages.append(message)
        if self._sent is None:
            self._begin_to_serve()
        else:
            self._sent.set()
        return True

    def _admit(self, envelope: _Envelope) -> None:
        """Execute a message, or defer it until the names it mentions have their values."""
        claimed = frozenset[str]().union(
            *self._claimed.values(), *(deferred.command.claims(self._state) for deferred in self._deferred)
        )
        if claimed and claimed & (envelope.command.reads() | envelope.command.claims(self._state)):
            self._deferred.append(envelope)
        else:
            self._execute(envelope)

    def _execute(self, envelope: _Envelope) -> None:
        if envelope.reply.is_abandoned:
            return
        try:
            if envelope.observers is None:
                reply = self.guard.execute(envelope.command, self._state)
            else:
                reply = envelope.observers.call(self.guard.execute, envelope.command, self._state)
        except Exception as error:  # the sender gets every error
            envelope.reply.fail(error)
            return
        if type(reply) is Awaited and type(envelope.command) is not Resume:  # it keeps its claims
            self._claimed[envelope.reply] = envelope.command.claims(self._state) | reply.claims
        envelope.reply.resolve(reply)

    def _release(self, pending: Pending[object]) -> None:
        self._claimed.pop(pending, None)
        deferred, self._deferred = self._deferred, []
        for envelope in deferred:
            self._admit(envelope)

    def _view(self) -> StepSnapshot:
        context = self.context
        return StepSnapshot(
            step_id=context.step_id,
            locals=MappingProxyType(dict(context.step_locals)),
            local_previews=preview_values(context.step_locals),
            assigned_names=frozenset(context.assigned_names),
            turns=self.progress.turns,
            tool_calls=self.progress.calls_in_flight,
            usage=self.progress.usage_meter.usage,
            is_suspended=self.is_suspended,
            stop_reason=self.stop_reason,
        )

    def _ended(self) -> StepEndedError:
        return StepEndedError(f"step {self.context.step_id} has ended")
