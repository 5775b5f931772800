"""Answers requests from recordings, and records what is missing. Knows no files.

Steps on several event loops and threads may ask at the same time.
"""

import difflib
import threading
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import msgspec

from ..ports import Model
from ..types.messages import Message
from ..types.model import ModelEvent, ModelRequest
from .errors import CassetteError, CassetteMissError
from .exchange import RecordedExchange, record_consumed, record_error, record_events
from .file import dump_value
from .redaction import Redactor
from .requests import canonical_messages, canonical_request, digest_of
from .streams import RecordingStream, ReplayStream, ResponseRecord

__all__ = ["Recorder"]

_RESPONSE_FIELDS = ("response", "usage", "finish", "error")
_MAX_DIFFERENCE_LINES = 60
_MAX_LINE_CHARACTERS = 100
_MAX_COMPARED = 40
_MAX_STEPS = 20
_HOW_TO_RECORD = (
    "Record what is missing with mode='new', or everything anew with mode='all'; "
    "in pytest with --record=new or --record=all."
)


class Recorder:
    """The interceptor of a cassette.

    A recording fits a request of the same step path, the same model and the same canonical request. Where
    several fit, they are used in the order in which they were recorded, each once.

    Args:
        recordings: What to replay, in the order of recording.
        records: Whether requests without a recording go to their model and are recorded.
        redactor: Keeps secrets out.
        label: What to call the cassette in errors.
    """

    def __init__(
        self, recordings: Sequence[RecordedExchange], *, records: bool, redactor: Redactor, label: str
    ) -> None:
        self._recordings = recordings
        self._records = records
        self._redactor = redactor
        self._label = label
        self._lock = threading.Lock()
        self._unused: defaultdict[tuple[tuple[str, ...], str], deque[int]] = defaultdict(deque)
        for position, exchange in enumerate(recordings):
            self._unused[exchange.step, exchange.digest].append(position)
        self._taken: list[RecordedExchange | None] = []
        self._conversations: list[tuple[Message, ...]] = []  # those of `_taken`
        self._in_progress: set[int] = set()
        self._is_closed = False
        self.replayed = 0
        self.first_miss: CassetteMissError | None = None

    @property
    def is_offline(self) -> bool:
        """Whether no request goes to its model."""
        return not self._records

    @property
    def recorded(self) -> list[RecordedExchange]:
        """The exchanges recorded so far, in the order of the requests."""
        with self._lock:
            return [exchange for exchange in self._taken if exchange is not None]

    @property
    def unused(self) -> tuple[RecordedExchange, ...]:
        """The recordings that no request has used so far."""
        with self._lock:
            positions = sorted(position for each in self._unused.values() for position in each)
        return tuple(self._recordings[position] for position in positions)

    @property
    def in_progress(self) -> int:
        """The number of responses in progress."""
        return len(self._in_progress)

    def without_late_secrets(self) -> list[RecordedExchange]:
        """Return the recorded exchanges, without secrets that became known only later."""
        with self._lock:
            return [
                self._without_late_secrets(exchange, messages)
                for exchange, messages in zip(self._taken, self._conversations, strict=True)
                if exchange is not None
            ]

    def close(self) -> None:
        """Refuse every request from now on, and record nothing more."""
        with self._lock:
            self._is_closed = True

    def stream(
        self, model: Model, request: ModelRequest, step_path: tuple[str, ...]
    ) -> AbstractAsyncContextManager[AsyncIterator[ModelEvent]]:
        """Replay or record the response to a request; see `ModelInterceptor.stream`.

        Raises:
            CassetteError: The cassette is closed.
            CassetteMissError: No recording fits, and the cassette does not record.
        """
        with self._lock:
            self._redactor.learn(request.settings)
            canonical = canonical_request(request, redact=self._redactor.redact)
            digest = digest_of(model.name, canonical)
            if self._is_closed:
                raise CassetteError(f"The cassette {self._label} is closed; leave it after its last step.")
            if positions := self._unused[step_path, digest]:
                self.replayed += 1
                return ReplayStream(self._recordings[positions.popleft()])
            if not self._records:
                raise self._miss(step_path, model.name, canonical, digest)
            asked = RecordedExchange(step=step_path, model=model.name, digest=digest, request=canonical)
            position = len(self._taken)
            self._taken.append(None)
            self._conversations.append(request.messages)
            self._in_progress.add(position)
        return RecordingStream(partial(model.stream, request), partial(self._keep, position, asked))

    def _keep(self, position: int, asked: RecordedExchange, record: ResponseRecord) -> None:
        """Take a response that is over."""
        with self._lock:
            self._in_progress.discard(position)
            if self._is_closed or record.is_broken:
                return
            exchange = msgspec.structs.replace(
                asked,
                **record_events(record.events),
                consumed=record_consumed(record.consumed, record.events),
                error=None if record.error is None else record_error(record.error),
                cancelled_after_seconds=record.cancelled_after_seconds,
                left_early=not record.is_whole and record.cancelled_after_seconds is None,
            )
            self._taken[position] = _change_response(exchange, self._redactor.redact)

    def _without_late_secrets(
        self, exchange: RecordedExchange, messages: tuple[Message, ...]
    ) -> RecordedExchange:
        request: dict[str, Any] = self._redactor.redact_secrets(exchange.request)
        if messages:  # made anew, because digests of what went into them cannot be redacted
            request["messages"] = canonical_messages(messages, redact=self._redactor.redact)
        digest = digest_of(exchange.model, request)
        asked = msgspec.structs.replace(exchange, request=request, digest=digest)
        return _change_response(asked, self._redactor.redact_secrets)

    def _miss(
        self, step: tuple[str, ...], model_name: str, request: dict[str, Any], digest: str
    ) -> CassetteMissError:
        reason = _describe_miss(step, model_name, request, self._recordings, digest=digest)
        miss = CassetteMissError(f"{self._label}: {reason}")
        self.first_miss = self.first_miss or miss
        return miss


def _change_response(exchange: RecordedExchange, change: Callable[[Any], Any]) -> RecordedExchange:
    form: dict[str, Any] = msgspec.to_builtins(exchange)
    changed = {name: change(form[name]) for name in _RESPONSE_FIELDS if name in form}
    return msgspec.convert({**form, **changed}, RecordedExchange)


def _describe_miss(
    step: tuple[str, ...],
    model_name: str,
    request: Mapping[str, Any],
    recordings: Sequence[RecordedExchange],
    *,
    digest: str,
) -> str:
    """Describe the reason for a missing recording, and the remedy.

    Args:
        step: Where the request comes from.
        model_name: The model id.
        request: The canonical request.
        recordings: All recordings of the cassette.
        digest: What identifies model and request.
    """
    same_step = [each for each in recordings if each.step == step]
    times = sum(each.digest == digest for each in same_step)
    if times:
        details = f"This very request is recorded {times} times, and every recording is used."
    elif same_step:
        details = _difference(model_name, request, same_step)
    else:
        details = _known_steps(recordings)
    return (
        f"No recording is left for this request of {_show(step)} to {model_name}. {details}\n{_HOW_TO_RECORD}"
    )


def _difference(model_name: str, request: Mapping[str, Any], recordings: list[RecordedExchange]) -> str:
    asked = _lines(model_name, request)
    candidates = [_lines(each.model, each.request) for each in recordings[:_MAX_COMPARED]]
    nearest = max(candidates, key=lambda lines: _likeness(lines, asked))
    difference = [
        line.rstrip() for line in difflib.unified_diff(nearest, asked, "recorded", "asked", n=2, lineterm="")
    ]
    cut = len(difference) - _MAX_DIFFERENCE_LINES
    if cut > 0:
        difference = [*difference[:_MAX_DIFFERENCE_LINES], f"… {cut} more lines"]
    head = f"The nearest of {len(recordings)} recordings of this step differs so:"
    return "\n".join([head, *difference])


def _known_steps(recordings: Sequence[RecordedExchange]) -> str:
    steps = list(dict.fromkeys(_show(each.step) for each in recordings))
    if not steps:
        return "Nothing is recorded."
    shown = [f"- {each}" for each in steps[:_MAX_STEPS]]
    if len(steps) > _MAX_STEPS:
        shown.append(f"… {len(steps) - _MAX_STEPS} more")
    return "\n".join(["There are recordings of these steps only:", *shown])


def _lines(model_name: str, request: Mapping[str, Any]) -> list[str]:
    """A request as lines; long ones are cut in pieces, so that a difference inside them can be seen."""
    text = dump_value({"model": model_name, **request})
    return [piece for line in text.splitlines() for piece in _pieces(line)]


def _pieces(line: str) -> Iterator[str]:
    yield line[:_MAX_LINE_CHARACTERS]
    for start in range(_MAX_LINE_CHARACTERS, len(line), _MAX_LINE_CHARACTERS):
        yield line[start : start + _MAX_LINE_CHARACTERS]


def _likeness(lines: list[str], asked: list[str]) -> float:
    return difflib.SequenceMatcher(None, lines, asked, autojunk=False).ratio()


def _show(step: tuple[str, ...]) -> str:
    return " > ".join(step) if step else "no step"
