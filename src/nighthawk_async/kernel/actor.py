"""The task that owns a StepContext and serves its mailbox.

Every change of a running step's state goes through here, one message at a time and in the order of posting.
Awaitables are awaited outside the actor, in the task of the sender, so that they run in parallel; the result
comes back as a message. A message that mentions a name whose assignment is still being awaited waits for it:
calls that depend on each other keep their order, and independent ones do not wait.
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from msgspec import Struct

from ..errors import ExecutionError, NighthawkError, StepEndedError, ToolEvaluationError
from ..observation import NodeWriter, find_node_writer, using_node_writer
from ..parallel import TaskEndedError
from ..parallel.resource_keeper import ResourceKeeper
from ..parallel.task_current import find_positions, using_positions
from ..parallel.task_node import Positions, get_task_hooks
from ..tracing import find_trace_context, using_trace_context
from ..types.messages import UserContent
from ..types.unset import UNSET
from .assignment import parse_target_path
from .commands import (
    Assign,
    Awaited,
    BlockingCall,
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
from .steering import Steering
from .usage_meter import StepProgress, StepSnapshot, preview_values

if TYPE_CHECKING:
    from ..tracing import TraceContext


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

_PLAIN = CommandGuard()


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
        call_guard: The guard of the calls of the step's code; None for none. Set it before the step begins.
        progress: The progress of the step.
        slot: The admission slot of the step; None before admission, and in a run without a limit.
        keeper: The keeper of the step's resources; None before it begins.
    """

    def __init__(
        self,
        context: StepContext,
        *,
        parent: "StepActor | None" = None,
        keeps_places: bool = False,
    ) -> None:
        super().__init__(context.step_id)
        self._keeps_places = keeps_places
        self.guard: CommandGuard = _PLAIN
        self.context = context
        self.call_guard: CallGuard | None = None
        self._has_stopped_serving = False
        self._claimed: dict[Pending[object], frozenset[str]] = {}
        self._deferred: list[_Envelope] = []
        self.progress: StepProgress = StepProgress(None if parent is None else parent.progress)
        self.slot: Slot | None = None
        self._has_begun = False
        self.keeper: ResourceKeeper | None = None
        self._is_started = False
        self._messages: deque[_Envelope | Callable[[], object]] = deque()
        self._sent: anyio.Event | None = None  # while the task of the actor waits for a message

    # Most steps in flight have had no message yet, so what serves messages is made for the first one.
    @cached_property
    def _state(self) -> StepState:
        return StepState(
            context=self.context, namespace=StepNamespace(self.context), call_guard=self.call_guard
        )

    @cached_property
    def call_nodes(self) -> dict[int, NodeWriter]:
        """The nodes of the tool calls that have not ended, by identity, if the tree is observed."""
        return {}

    def in_flight(self) -> AbstractContextManager[None]:
        """Return a context manager during which changes by other steps to what it binds are reported."""
        self._has_begun = True
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
        except NighthawkError:
            if guard is not None:
                guard.raise_failure()
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
