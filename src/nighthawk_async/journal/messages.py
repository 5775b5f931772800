"""Messages from other processes, each received once in all lives of a run."""

import time
from collections.abc import Callable, Hashable
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint

from ..actors.errors import check_seconds
from ..errors import NighthawkError
from ..kernel.calls import take_place
from .activity import DurableWait
from .errors import JournalDivergenceError
from .mailboxes import Choice, Choose, ReceivedMessages, check_names
from .message_table import Message
from .recorder import RunRecorder, find_recorder
from .values import decode_value

_MOST_MESSAGES = 10_000
"""The messages of a mailbox among which batches by key are looked for."""
_AFTER_WINDOW_SECONDS = 0.001
"""A window is over when this much has passed after it: a message of its last moment still belongs to it."""


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
    messages = await _receive("receive()", name, timeout, _first, 1)
    return _values(messages)[0]


async def receive_batch(
    name: str,
    *,
    count: int,
    window: float,
    key: Callable[[Any], Hashable] | None = None,
    timeout: float | None = None,  # noqa: ASYNC109  (counts over all lives)
) -> list[Any]:
    """Receive several messages of a mailbox together.

        mails = await nh.journal.receive_batch("mail", count=20, window=60, key=lambda mail: mail["customer"])

    The first message that nobody has received opens the batch. It ends with `count` messages, or `window`
    seconds after that message was sent: the times of sending decide, not those of looking. Each message is
    received once in all lives of the run, by `receive` or by this function.

    Args:
        name: The name of the mailbox.
        count: The most messages of a batch.
        window: Seconds after the first message.
        key: The part of a value that is the same for all messages of a batch. Messages with another key stay
            in the mailbox; of several batches that have ended, the oldest is received. None for any message.
        timeout: The longest wait for the end of a batch, in seconds, by the clock of the wall over all lives;
            None for as long as it takes.

    Returns:
        The values that were sent, in order: at least one.

    Raises:
        TimeoutError: No batch ended in time; in every later life, too.
        NighthawkError: The run has no journal, or an argument is invalid.
        JournalError: The messages cannot be received.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NighthawkError(f"count must be a whole number of at least 1, not {count!r}")
    _check_seconds("window", window)

    def choose(pending: list[Message], now: float) -> Choice:
        return _first_batch(name, count, window, key, pending, now)

    messages = await _receive(
        "receive_batch()", name, timeout, choose, count if key is None else _MOST_MESSAGES
    )
    return _values(messages)


async def _receive(
    frame: str, name: str, seconds: float | None, choose: Choose, limit: int
) -> tuple[Message, ...]:
    """Receive messages, or find their record."""
    recorder = find_recorder()
    if recorder is None:
        raise NighthawkError(
            "receive needs a run with a journal: nighthawk_async.run(…, journal=…, run_id=…)"
        )
    check_names(recorder.run_id, name)
    _check_seconds("timeout", seconds, or_none=True)
    place = recorder.relative(take_place(frame, name))
    ends_at, left = _begin(recorder, place, name, seconds)
    record = recorder.find_record(place, "message")
    if record is not None:
        await checkpoint()
        await recorder.delivery.deliver(record)
        messages = msgspec.msgpack.decode(record.body, type=ReceivedMessages).messages
    else:
        await recorder.begin_new_wait(place)
        inbox = recorder.inbox
        wait = DurableWait(
            place=place,
            ends_at=ends_at,
            is_due=lambda database: inbox.has_news(name, choose, limit, database),
        )

        def choose_until(pending: list[Message], now: float) -> Choice:
            choice = choose(pending, now)
            ends = (ends_at, None if choice.due_in is None else time.time() + choice.due_in)
            wait.ends_at = min((end for end in ends if end is not None), default=None)
            return choice

        async def take() -> tuple[Message, ...]:
            taken = await recorder.inbox.take(name, left, choose_until, limit)
            received = ReceivedMessages(name=name, messages=taken)
            recorder.add(place, "message", msgspec.msgpack.encode(received))
            return taken

        messages = await recorder.wait_durably(wait, take)
    if not messages:
        raise TimeoutError(f"no message {name!r} came in time")
    return messages


def _first(messages: list[Message], now: float) -> Choice:
    return Choice(messages=tuple(messages[:1]))


def _first_batch(
    name: str,
    count: int,
    window: float,
    key: Callable[[Any], Hashable] | None,
    messages: list[Message],
    now: float,
) -> Choice:
    """The oldest batch that has ended; else the time at which the first one will."""
    batches: dict[Hashable, list[Message]] = {}
    for message in messages:
        of_key = None if key is None else key(decode_value(message.body, place=f"a message {name!r}"))
        batch = batches.setdefault(of_key, [])
        if len(batch) < count and (not batch or message.at <= batch[0].at + window):
            batch.append(message)
    ended = [each for each in batches.values() if len(each) == count or now > each[0].at + window]
    if ended:
        oldest: list[Message] = min(ended, key=lambda each: each[-1].number)
        return Choice(messages=tuple(oldest))
    ends = [each[0].at + window for each in batches.values()]
    return Choice(due_in=max(0.0, min(ends) - now) + _AFTER_WINDOW_SECONDS if ends else None)


def _values(messages: tuple[Message, ...]) -> list[Any]:
    return [decode_value(each.body, place="a message") for each in messages]


def _check_seconds(name: str, seconds: float | None, *, or_none: bool = False) -> None:
    try:
        check_seconds(name, seconds, or_none=or_none)
    except ValueError as error:
        raise NighthawkError(str(error)) from None


def _begin(
    recorder: RunRecorder, place: str, name: str, timeout: float | None
) -> tuple[float | None, float | None]:
    """Record that a message is waited for, or find the record; return the end of the wait and the rest."""
    record = recorder.find_record(place, "value")
    if record is None:
        ends_at = None if timeout is None else time.time() + timeout
        recorder.add(place, "value", recorder.encode_value((name, ends_at), place=place))
        return ends_at, timeout
    recorded_name, ends_at = decode_value(record.body, place=place)
    if recorded_name != name:
        with recorder.delivery.noting_divergence():
            raise JournalDivergenceError(
                f"{place}: the run waited for a message {recorded_name!r} there, and now for {name!r}: "
                "the program has changed since. Guard new code with nighthawk_async.journal.patched(name).",
                place=place,
            )
    return ends_at, None if ends_at is None else ends_at - time.time()
