"""Messages from other processes, each received once in all lives of a run."""

import time
from functools import partial
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint

from ..actors.errors import check_seconds
from ..errors import NighthawkError
from ..runtime.environment import find_journal
from ..runtime.places import take_place
from .errors import JournalDivergenceError
from .mailboxes import ReceivedMessage, check_names
from .recorder import RunRecorder
from .values import decode_value, encode_value


async def receive(name: str, *, timeout: float | None = None) -> Any:  # noqa: ASYNC109  (counts over all lives)
    """Receive the next message that was sent to the run with `JournalStore.send`.

    Messages of one name are received in the order in which they were sent, each once in all lives of the run.
    They may be sent before the run begins, and while no process works on it. A later life gets the recorded
    message.

    Args:
        name: The name of the mailbox.
        timeout: The longest wait, in seconds, by the clock of the wall over all lives; None for as long as it
            takes, 0 to look once.

    Returns:
        The value that was sent.

    Raises:
        TimeoutError: No message came in time; in every later life, too.
        NighthawkError: The run has no journal, or an argument is invalid.
        JournalError: The message cannot be received.
    """
    recorder = find_journal()
    if recorder is None:
        raise NighthawkError(
            "receive needs a run with a journal: nighthawk_async.run(…, journal=…, run_id=…)"
        )
    assert isinstance(recorder, RunRecorder)
    check_names(recorder.run_id, name)
    try:
        check_seconds("timeout", timeout, or_none=True)
    except ValueError as error:
        raise NighthawkError(str(error)) from None
    place = recorder.relative(take_place("receive()", name))
    ends_at, seconds = _begin(recorder, place, name, timeout)
    record = recorder.find_record(place, "message")
    if record is not None:
        await checkpoint()
        received = msgspec.msgpack.decode(record.body, type=ReceivedMessage)
    else:
        received = await recorder.wait_durably(
            place,
            partial(_take, recorder, place, name, seconds),
            ends_at=ends_at,
            is_due=partial(recorder.inbox.has_news, name),
        )
    if not received.number:
        raise TimeoutError(f"no message {name!r} came in time")
    return decode_value(received.body, place=place)


async def _take(recorder: RunRecorder, place: str, name: str, seconds: float | None) -> ReceivedMessage:
    """Wait for a message, and record it, or that none came in time."""
    message = await recorder.inbox.take(name, seconds)
    received = ReceivedMessage(name=name, number=0)
    if message is not None:
        received = ReceivedMessage(name=name, number=message.number, body=message.body)
    recorder.add(place, "message", msgspec.msgpack.encode(received))
    return received


def _begin(
    recorder: RunRecorder, place: str, name: str, timeout: float | None
) -> tuple[float | None, float | None]:
    """Record that a message is waited for, or find the record; return the end of the wait and the rest."""
    record = recorder.find_record(place, "value")
    if record is None:
        ends_at = None if timeout is None else time.time() + timeout
        recorder.add(place, "value", encode_value((name, ends_at), place=place))
        return ends_at, timeout
    recorded_name, ends_at = decode_value(record.body, place=place)
    if recorded_name != name:
        raise JournalDivergenceError(
            f"{place}: the run waited for a message {recorded_name!r} there, and now for {name!r}: "
            "the program has changed since. Guard new code with nighthawk_async.journal.patched(name).",
            place=place,
        )
    return ends_at, None if ends_at is None else ends_at - time.time()
