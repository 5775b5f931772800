"""`max_concurrent_steps` for calls on workers: the program gives the slots, to all workers together."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

import msgspec

from ..kernel.environment import Environment
from ..kernel.run_state import Slot, StepAdmission
from ..parallel.event_loop import EventLoop
from .errors import LocalOnlyError
from .grants import Grants, ask_for_grant
from .messages import encode
from .services import CallChannel, ProgramPart, SendOrder

TOPIC = "steps"

_decode = msgspec.msgpack.Decoder(int).decode


class _StepsPart(ProgramPart):
    """The slots that the steps of one placement of a call have, in the program."""

    def __init__(self, admission: StepAdmission) -> None:
        self._admission = admission
        self._grants = Grants[Slot](admission.leave)

    async def answer(self, body: bytes) -> bytes:
        """Wait for a slot."""
        slot = await self._admission.enter()
        self._grants.add(_decode(body), slot)
        return b""

    def note(self, body: bytes) -> None:
        """Free a slot."""
        self._grants.return_one(_decode(body))

    def end(self, *, is_lost: bool) -> None:
        """Free all slots."""
        for slot in self._grants.end():
            self._admission.leave(slot)


def begin(
    environment: Environment | None, worker: str, attempt: int, send_order: SendOrder
) -> _StepsPart | None:
    """Begin the service, if the run has a limit; steps within a step in flight share its slot."""
    if environment is None or environment.run_state.admission is None:
        return None
    slot = None if environment.step is None else environment.step.actor.slot
    return None if slot is not None and slot.steps else _StepsPart(environment.run_state.admission)


class _ProgramSlot(Slot):
    """A slot of the program, on a worker."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _ProgramAdmission(StepAdmission):
    """Admits steps of a call when the program gives slots."""

    def __init__(self, channel: CallChannel) -> None:
        super().__init__(1)
        self._channel = channel
        self._numbers = count()
        self._loop = EventLoop()

    async def enter(self, parent: Slot | None = None) -> Slot:
        """Take a slot for a step; see `StepAdmission.enter`.

        Raises:
            LocalOnlyError: The step runs on another event loop than the call.
        """
        if parent is not None and parent.steps:
            parent.steps += 1
            return parent
        if not self._loop.is_here:
            raise LocalOnlyError(
                "the run has max_concurrent_steps, and a synchronous natural function blocks the event loop "
                "of the worker that would ask for a slot: call it with anyio.to_thread.run_sync, or make it "
                "`async def`"
            )
        slot = _ProgramSlot(next(self._numbers))
        number = encode(slot.number)
        await ask_for_grant(self._channel, TOPIC, number, number)
        return slot

    def leave(self, slot: Slot) -> None:
        """Report that a step in a slot has ended; the last one frees the slot."""
        slot.steps -= 1
        if not slot.steps and isinstance(slot, _ProgramSlot):
            self._channel.tell(TOPIC, encode(slot.number))


@contextmanager
def enter(
    channel: CallChannel, setup: bytes, environment: Environment | None
) -> Generator[Environment | None, None, None]:
    """Have the steps of a call wait for slots of the program."""
    assert environment is not None, "the program begins it for calls in a run"
    yield replace(environment, run_state=environment.run_state.admitting(_ProgramAdmission(channel)))
