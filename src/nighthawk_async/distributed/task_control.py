"""Tasks as a service: a call on a worker belongs to the task of its caller, whose handle controls its work.

The task on the worker has the identity of the caller's. What runs in it registers its control there, as a
natural step does; then a control of the same powers is registered with the task in the program.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import anyio
import msgspec
from msgspec import Struct

from ..kernel.environment import Environment
from ..parallel.errors import AlreadyResumedError, NotSuspendedError, TaskEndedError
from ..parallel.task_current import enter_node, find_node, find_own_node
from ..parallel.task_node import TaskControl, TaskNode
from .crossing_errors import decode_error, encode_error
from .messages import encode
from .scope_pickling import dump_part, load_part
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "task"

_logger = logging.getLogger("nighthawk")


class _Setup(Struct, frozen=True):
    """The identity of the caller's task, and the request for it to end."""

    id: str
    name: str
    parent_id: str | None
    root_id: str
    is_to_end: bool
    reason: str | None


class _Do(Struct, frozen=True, tag="do"):
    """An order to the control of what runs in the task, with the pickled arguments."""

    name: Literal["steer", "suspend", "resume", "stop"]
    arguments: bytes


class _AskToEnd(Struct, frozen=True, tag="end"):
    """An order for the task to end by itself."""

    reason: str | None


class _TakeSnapshot(Struct, frozen=True, tag="snapshot"):
    """An order for a snapshot of what runs in the task."""

    number: int


_Order: TypeAlias = _Do | _AskToEnd | _TakeSnapshot


class _Controlled(Struct, frozen=True, tag="controlled"):
    """A notice whether something runs in the task that can be controlled."""

    is_controlled: bool


class _Suspended(Struct, frozen=True, tag="suspended"):
    """A notice that it has parked, or goes on."""

    is_suspended: bool


class _Taken(Struct, frozen=True, tag="taken"):
    """A snapshot, pickled, or the error instead."""

    number: int
    body: bytes = b""
    error: bytes | None = None


_Notice: TypeAlias = _Controlled | _Suspended | _Taken

_decode_order = msgspec.msgpack.Decoder(_Order).decode
_decode_notice = msgspec.msgpack.Decoder(_Notice).decode


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> "_TaskPart | None":
    """Begin to control what a call does from the task of its caller; see `services.BeginService`."""
    own = find_own_node()
    if own.parent_id is None and environment is None:  # nobody has a handle of the root of an event loop
        return None
    return _TaskPart(own, find_node(), send_order)


class _TaskPart(ProgramPart):
    """The part in the program.

    Args:
        own: The item of a combinator that calls, or else the task.
        node: The task of the caller, whose handle controls it.
        send_order: Sends orders to the worker.
    """

    def __init__(self, own: TaskNode, node: TaskNode, send_order: SendOrder) -> None:
        self._own = own
        self._node = node
        self._send_order = send_order
        self._control: _RemoteControl | None = None
        node.listeners.append(self._ask_to_end)

    def setup(self) -> bytes:
        """Return the identity of the task."""
        node = self._own
        return encode(
            _Setup(
                id=node.id,
                name=node.name,
                parent_id=node.parent_id,
                root_id=node.root_id,
                is_to_end=node.request is not None,
                reason=None if node.request is None else node.request.reason,
            )
        )

    def note(self, body: bytes) -> None:
        """Take a notice."""
        match _decode_notice(body):
            case _Controlled(is_controlled=True):
                self._remove_control()
                self._control = _RemoteControl(self._send_order)
                self._node.add_control(self._control)
            case _Controlled():
                self._remove_control()
            case _Suspended(is_suspended=is_suspended) if self._control is not None:
                self._control.note_suspended(is_suspended=is_suspended)
                if self._node.writer is not None:
                    self._node.writer.change_state("suspended" if is_suspended else "running")
            case _Taken() as taken if self._control is not None:
                self._control.note_taken(taken)
            case _:
                pass

    def end(self, *, is_lost: bool) -> None:
        """Remove the control."""
        self._node.listeners.remove(self._ask_to_end)
        self._remove_control()

    def _ask_to_end(self) -> None:
        request = self._node.request
        self._send_order(encode(_AskToEnd(None if request is None else request.reason)))

    def _remove_control(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.note_ended()
            self._node.remove_control(control)


class _RemoteControl:
    """Control of what runs on a worker; see `parallel.TaskControl`.

    Args:
        send_order: Sends orders to the worker.
    """

    def __init__(self, send_order: SendOrder) -> None:
        self._send_order = send_order
        self._state: Literal["running", "suspending", "suspended", "resuming", "ended"] = "running"
        self._parkings = 0
        self._changed = anyio.Event()
        self._snapshots: dict[int, _Taken | None] = {}
        self._number = 0

    @property
    def is_suspended(self) -> bool:
        """Whether it is parked."""
        return self._state == "suspended"

    def steer(self, *content: Any) -> None:
        """Deliver content; what cannot cross raises `CrossingError`."""
        self._refuse_ended()
        self._do("steer", content, "what a task on a worker is steered with")

    async def snapshot(self) -> Any:
        """Return a snapshot. Its values are copies; if one cannot cross, `CrossingError` is raised."""
        self._refuse_ended()
        self._number += 1
        number = self._number
        self._snapshots[number] = None
        try:
            self._send_order(encode(_TakeSnapshot(number)))
            while (taken := self._snapshots[number]) is None:
                await self._changed.wait()
                self._refuse_ended()
        finally:
            del self._snapshots[number]
        if taken.error is not None:
            raise decode_error(taken.error)
        return load_part(taken.body, "snapshot")

    def suspend(self) -> None:
        """Ask it to park."""
        self._refuse_ended()
        if self._state in ("running", "resuming"):
            self._state = "suspending"
            self._do("suspend")

    async def wait_suspended(self) -> None:
        """Wait until it is parked."""
        before = self._parkings - self.is_suspended
        await anyio.lowlevel.checkpoint()
        while self._parkings == before:
            self._refuse_ended()
            await self._changed.wait()

    def resume(self, input: Any = None) -> None:
        """Let it continue."""
        self._refuse_ended()
        if self._state == "running":
            raise NotSuspendedError("the work on the worker is not suspended")
        if self._state == "resuming":
            raise AlreadyResumedError("the work on the worker was resumed already and has not gone on yet")
        self._do("resume", (input,), "what a task on a worker is resumed with")
        self._state = "resuming"

    def stop(self, reason: str) -> None:
        """Ask it to fail."""
        self._refuse_ended()
        self._do("stop", (reason,))

    def request_cancel(self, reason: str | None) -> None:
        """Do nothing: the task on the worker is asked to end."""

    def note_suspended(self, *, is_suspended: bool) -> None:
        """Note that it has parked, or goes on."""
        self._parkings += is_suspended
        self._change("suspended" if is_suspended else "running")

    def note_taken(self, taken: _Taken) -> None:
        """Note a snapshot."""
        if taken.number in self._snapshots:
            self._snapshots[taken.number] = taken
            self._change(self._state)

    def note_ended(self) -> None:
        """Note that it has ended."""
        self._change("ended")

    def _change(self, state: Literal["running", "suspending", "suspended", "resuming", "ended"]) -> None:
        self._state = state
        self._changed.set()
        self._changed = anyio.Event()

    def _do(
        self,
        name: Literal["steer", "suspend", "resume", "stop"],
        arguments: tuple[Any, ...] = (),
        subject: str = "",
    ) -> None:
        self._send_order(encode(_Do(name, dump_part(arguments, subject))))

    def _refuse_ended(self) -> None:
        if self._state == "ended":
            raise TaskEndedError("the work on the worker has ended")


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Make a call on a worker part of the caller's task; see `services.EnterService`."""
    given = msgspec.msgpack.decode(setup, type=_Setup)
    before = find_node()
    root = TaskNode(id=given.root_id, name=given.root_id, parent=None, owner=None)
    parent = None
    if given.parent_id is not None:
        parent = TaskNode(id=given.parent_id, name=given.parent_id, parent=root, owner=None)
    node = TaskNode(id=given.id, name=given.name, parent=parent, owner=before)
    node.keeper = before.keeper
    task = _TaskOnWorker(channel, node)
    channel.on_order(TOPIC, task.take_order)
    if given.is_to_end:
        node.ask_to_end(given.reason)
    enter_node(node)
    try:
        yield environment
    finally:
        node.end()


class _TaskOnWorker:
    """The counterpart on the worker.

    Args:
        channel: The way to the program.
        node: The task there.
    """

    def __init__(self, channel: CallChannel, node: TaskNode) -> None:
        self._channel = channel
        self._node = node
        node.on_controlled = lambda is_controlled: self._tell(_Controlled(is_controlled))
        node.on_suspended = lambda is_suspended: self._tell(_Suspended(is_suspended))

    def take_order(self, body: bytes) -> None:
        """Carry out an order."""
        order = _decode_order(body)
        control = self._node.control
        match order:
            case _AskToEnd(reason=reason):
                self._node.ask_to_end(reason)
            case _TakeSnapshot(number=number) if control is not None:
                self._channel.start_soon(lambda: self._take_snapshot(control, number))
            case _Do(name=name, arguments=arguments) if control is not None:
                try:
                    getattr(control, name)(*load_part(arguments, name))
                except Exception as error:  # there is no caller to raise to
                    _logger.warning("task %s refuses to %s: %s", self._node.id, name, error)
            case _:
                pass  # it has ended meanwhile, as the program is about to learn

    async def _take_snapshot(self, control: TaskControl, number: int) -> None:
        try:
            snapshot = await control.snapshot()
            taken = _Taken(number, dump_part(snapshot, "a value in the snapshot"))
        except Exception as error:
            taken = _Taken(number, error=encode_error(error, self._channel.worker))
        self._tell(taken)

    def _tell(self, notice: _Notice) -> None:
        self._channel.tell(TOPIC, encode(notice))
