"""Writes to a store that a program makes. In a run with a journal, they are effects of the run.

Once it is known that the program has changed, none is made any more.
"""

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ..kernel.calls import new_arguments, take_place
from .active_replay import is_replaying
from .effect_call import Effect, EffectCall, effect_place, idempotency_key
from .mailboxes import Mailboxes
from .recorder import RunRecorder, find_recorder

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class RunWrite:
    """A write to a store, at its place in the run that makes it.

    Args:
        recorder: The journal of the run.
        frame: The frame of its place.
        arguments: What identifies it in tasks that were started by hand.
        inputs: What has to be as it was recorded, by name.
    """

    def __init__(
        self, recorder: RunRecorder, frame: str, arguments: object, inputs: Mapping[str, object]
    ) -> None:
        self._recorder = recorder
        self._inputs = inputs
        place = recorder.relative(take_place(frame, new_arguments(arguments)))
        self._place = effect_place(recorder, place, inputs)
        self.key = idempotency_key(recorder.run_id, self._place)
        """A key that is the same in all lives."""

    async def make(
        self,
        effect: Effect,
        write: Callable[[], Awaitable[Result]],
        *,
        was_made: Callable[[], Awaitable[bool]],
        in_replays: Result,
    ) -> Result:
        """Make the write, or get its recorded result.

        Args:
            effect: Its name, and the type of its result.
            write: Makes it. Made again, it has no effect.
            was_made: Whether the store has it. Then an earlier version of the library made it in an earlier
                life, and recorded nothing of it in the run.
            in_replays: The result in a replay that has no record of it.
        """
        recorder = self._recorder
        if not recorder.knows(self._place):
            if is_replaying():
                return in_replays
            recorder.delivery.check_same(self._place)
            if recorder.epoch > 1 and await was_made():
                return await write()
        result: Result = await EffectCall(
            recorder, self._place, effect, write, lambda: None, self._inputs
        ).run_async()
        return result


async def send_message(
    mailboxes: Mailboxes, run_id: str, name: str, value: object, message_id: str | None
) -> None:
    """Send a message; see `JournalStore.send`."""
    body = mailboxes.encode(run_id, name, value, message_id)
    what = {"run_id": run_id, "name": name}
    # The first of the messages with an id counts, whatever a later one says.
    inputs = {**what, "value": value} if message_id is None else {**what, "id": message_id}
    recorder = find_recorder()
    if recorder is None or (message_id is None and recorder.identity_version == 1):
        refuse_after_divergence("store.send()")
        if not is_replaying():
            await mailboxes.send(run_id, name, body, message_id or uuid.uuid4().hex)
        return
    write = RunWrite(recorder, "store.send()", inputs, inputs)
    id_ = message_id or write.key
    await write.make(
        _SENDING,
        lambda: mailboxes.send(run_id, name, body, id_),
        was_made=lambda: mailboxes.has_message(run_id, name, id_),
        in_replays=None,
    )


async def _send() -> None:
    """The call that sends a message, as the run that makes it records it."""
    raise NotImplementedError


_send.__name__ = "store.send"
_SENDING = Effect(_send, "repeatable")


def refuse_after_divergence(name: str) -> None:
    """Check that the active run may still write to a store.

    Args:
        name: The name of the write.

    Raises:
        JournalDivergenceError: It is known that the program has changed.
    """
    recorder = find_recorder()
    if recorder is not None:
        recorder.delivery.check_same(name)


def written_by_programs(
    write: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, Coroutine[Any, Any, None]]:
    """Have a method that writes to a store do nothing in a replay, and raise after a divergence."""

    @wraps(write)
    async def write_if_allowed(*args: Parameters.args, **keywords: Parameters.kwargs) -> None:
        if not is_replaying():
            refuse_after_divergence(f"store.{write.__name__}()")
            await write(*args, **keywords)

    return write_if_allowed
