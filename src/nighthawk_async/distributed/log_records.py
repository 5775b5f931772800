"""Log records of workers, handled by the loggers of the program.

A worker process handles none itself, so that nothing is logged twice: each record goes to the program, if a
logger there would handle one of its level, and has the attribute `worker` there.
"""

import logging
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

import msgspec

Value: TypeAlias = str | int | float | bool | None
Record: TypeAlias = dict[str, Value]

MOST_CHARACTERS = 65_536
"""The number of characters of a message or a traceback that are kept."""

_MOST_VALUE_CHARACTERS = 2_000
_MOST_VALUES = 64
_MOST_WAITING = 10_000
"""The number of records that wait to be sent; further ones are dropped, and counted."""

_NEVER = 1 << 30
_LEFT_OUT = frozenset(
    {"msg", "message", "args", "exc_info", "exc_text", "stack_info", "relativeCreated", "call"}
)
_plain = (str, int, float, bool, type(None))

encode_records = msgspec.msgpack.Encoder().encode
_decode_records = msgspec.msgpack.Decoder(list[Record]).decode


def log_levels() -> dict[str, int]:
    """Return the least level that is handled, for each logger that differs from those above it.

    The root logger has the empty name.
    """
    loggers = list(logging.root.manager.loggerDict.items())
    return {
        "": _least_level(logging.root),
        **{name: _least_level(each) for name, each in loggers if _is_configured(each)},
    }


def _is_configured(logger: object) -> bool:
    return isinstance(logger, logging.Logger) and bool(
        logger.level or logger.handlers or logger.disabled or not logger.propagate
    )


def _least_level(logger: object) -> int:
    assert isinstance(logger, logging.Logger), "placeholders are not configured"
    if logger.disabled:
        return _NEVER
    handlers: list[logging.Handler] = []
    above: logging.Logger | None = logger
    while above is not None:
        handlers += above.handlers
        above = above.parent if above.propagate else None
    if not handlers and logging.lastResort is not None:
        handlers.append(logging.lastResort)
    least = min((each.level for each in handlers), default=_NEVER)
    return max(logger.getEffectiveLevel(), least, logging.root.manager.disable + 1, 1)


def apply_levels(levels: Mapping[str, int]) -> None:
    """Give the loggers of this process, a worker, the levels of the program's; see `log_levels`."""
    logging.disable(logging.NOTSET)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name not in levels:
            logger.disabled = False
            logger.setLevel(logging.NOTSET)
    for name, level in levels.items():
        logger = logging.getLogger(name or None)
        logger.disabled = False
        logger.setLevel(level)


class LogForwarder:
    """Takes the log records of a worker process, and has them sent to the program.

    Args:
        find_call: Returns the number of the call that the caller is part of; None for none.
    """

    def __init__(self, find_call: Callable[[], int | None]) -> None:
        self._find_call = find_call
        self._records: deque[Record] = deque()
        self._dropped = 0
        self._is_waiting = False
        self._send_soon: Callable[[Callable[[], bytes]], None] | None = None

    @contextmanager
    def installed(self) -> Generator[None, None, None]:
        """Take every record of the process during the `with` statement, instead of its handlers.

        Handlers are not removed one by one, because modules that calls import later may add others.
        """
        before = logging.Logger.callHandlers

        def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
            self.take(record)

        setattr(logging.Logger, "callHandlers", call_handlers)  # noqa: B010
        try:
            yield
        finally:
            setattr(logging.Logger, "callHandlers", before)  # noqa: B010

    def begin(self, send_soon: Callable[[Callable[[], bytes]], None]) -> None:
        """Send the records so far, and those to come.

        Args:
            send_soon: Has a function called soon, and its result sent.
        """
        self._send_soon = send_soon
        if self._records:
            self._wake()

    def take(self, record: logging.LogRecord) -> None:
        """Take a record; from any thread."""
        if len(self._records) >= _MOST_WAITING:
            self._dropped += 1
            return
        self._records.append(_as_data(record, self._find_call()))
        self._wake()

    def _wake(self) -> None:
        if self._send_soon is not None and not self._is_waiting:
            self._is_waiting = True
            self._send_soon(self._take_all)

    def _take_all(self) -> bytes:
        self._is_waiting = False
        taken = [self._records.popleft() for _ in range(len(self._records))]
        dropped, self._dropped = self._dropped, 0
        if dropped:
            text = f"{dropped:,} log records were dropped: they came faster than they could be sent"
            record = logging.LogRecord("nighthawk", logging.WARNING, __file__, 0, text, None, None)
            taken.append(_as_data(record, None))
        return encode_records(taken)


def _as_data(record: logging.LogRecord, call: int | None) -> Record:
    """Return a record as plain data of bounded size."""
    data: Record = {}
    for name, value in record.__dict__.items():
        if name not in _LEFT_OUT and isinstance(value, _plain) and len(data) < _MOST_VALUES:
            data[_sendable(str(name), _MOST_VALUE_CHARACTERS)] = _sendable_value(value)
    try:
        message = record.getMessage()
    except Exception:  # the arguments do not fit, or their code fails
        message = f"{record.msg!s} (its arguments do not fit)"
    data["msg"] = _sendable(message, MOST_CHARACTERS)
    error = record.exc_text
    if not error and record.exc_info and record.exc_info[1] is not None:
        error = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
    if error:
        data["exc_text"] = _sendable(error[-MOST_CHARACTERS:], MOST_CHARACTERS)
    if record.stack_info:
        data["stack_info"] = _sendable(str(record.stack_info), MOST_CHARACTERS)
    data["call"] = call
    return data


def _sendable_value(value: Value) -> Value:
    if isinstance(value, str):
        return _sendable(value, _MOST_VALUE_CHARACTERS)
    if isinstance(value, int) and value.bit_length() > 63:
        return _sendable(f"{value:#x}", _MOST_VALUE_CHARACTERS)
    return bool(value) if isinstance(value, bool) else value


def _sendable(text: str, most_characters: int) -> str:
    shown = text if len(text) <= most_characters else f"{text[: most_characters - 1]}…"
    return str(shown) if shown.isascii() else shown.encode(errors="replace").decode()


def handle_records(
    body: bytes, worker: str, in_context: Callable[[int | None, Callable[[], None]], None]
) -> None:
    """Handle the records of a worker, in the program.

    Args:
        body: The records.
        worker: The name of the worker.
        in_context: Calls a function in the context of a call; in that of the caller for None.
    """
    for data in _decode_records(body):
        call = data.pop("call", None)
        record = logging.makeLogRecord(data)
        record.worker = worker
        in_context(call if isinstance(call, int) else None, lambda record=record: _handle(record))


def _handle(record: logging.LogRecord) -> None:
    try:
        logging.getLogger(record.name).handle(record)
    except Exception:  # the user's filters and handlers may raise anything
        if logging.raiseExceptions:
            traceback.print_exc(file=sys.stderr)
