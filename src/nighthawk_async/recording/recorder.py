"""Replays requests from recordings, and records missing ones. No I/O with files.

Steps on several event loops and threads may send requests at the same time.
"""

import difflib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from ..errors import ConfigurationError, ModelError
from ..kernel.environment import SourcePolicy, find_environment
from ..kernel.fold import Events, ModelCall, OpenRequest, OpenResponse
from ..ports import ForwardedStream, ResponseStream
from ..types.messages import Message
from ..types.model import (
    ModelEvent,
    ResponseFinished,
)
from ..types.usage import Usage
from .exchange import (
    RecordedExchange,
    record_consumed,
    record_error,
    record_events,
    replay_consumed,
    replay_error,
    replay_events,
    with_texts,
)
from .file import CassetteError, CassetteMissError, dump_value
from .redaction import Redactor
from .requests import canonical_messages, canonical_request, digest_of

_GRACE_SECONDS = 30.0


@dataclass(slots=True, kw_only=True)
class ResponseRecord:
    """The recorded response to a request.

    Args:
        events: The events so far.
        consumed: The usage of the request, when the model reported it outside its events.
        error: The error of the request.
        cancelled_after_seconds: The seconds after which it was cancelled.
        has_ended: Whether the program read it to its end.
        is_broken: Whether it ended in a way that cannot be replayed.
    """

    events: list[ModelEvent] = field(default_factory=list[ModelEvent])
    consumed: Usage | None = None
    error: ModelError | ConfigurationError | None = None
    cancelled_after_seconds: float | None = None
    has_ended: bool = False
    is_broken: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the response is complete: no event could have followed."""
        is_finished = bool(self.events) and isinstance(self.events[-1], ResponseFinished)
        return is_finished or self.has_ended or self.error is not None or self.is_broken


class RecordingStream(ForwardedStream):
    """Forwards a response and records it.

    Args:
        open_stream: Opens the response.
        keep: Called with the record when the response has ended.
    """

    def __init__(
        self,
        open_stream: OpenResponse,
        keep: Callable[[ResponseRecord], None],
    ) -> None:
        self._open_stream = open_stream
        self._keep = keep
        self._record = ResponseRecord()
        self._began = 0.0

    async def __aenter__(self) -> Self:
        self._began = anyio.current_time()
        try:
            await self.enter_source(self._open_stream())
        except BaseException as error:
            self._note_failure(error)
            self._finish()
            raise
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if isinstance(exception, anyio.get_cancelled_exc_class()):
            self._note_failure(exception)
        try:
            return await super().__aexit__(exception_type, exception, traceback)
        finally:
            self._finish()

    async def __anext__(self) -> ModelEvent:
        try:
            event = await super().__anext__()
        except StopAsyncIteration:
            self._record.has_ended = True
            raise
        except BaseException as error:
            self._note_failure(error)
            raise
        self._record.events.append(event)
        return event

    def _finish(self) -> None:
        usage = self.usage
        self._record.consumed = None if usage is None else usage.credible()
        self._keep(self._record)

    def _note_failure(self, error: BaseException) -> None:
        if self._record.is_whole:
            return
        if isinstance(error, anyio.get_cancelled_exc_class()):
            self._record.cancelled_after_seconds = round(anyio.current_time() - self._began, 3)
        elif isinstance(error, ModelError | ConfigurationError):
            self._record.error = error
        else:
            self._record.is_broken = True


class ReplayStream(ResponseStream):
    """Replays a recorded response.

    A request that was cancelled during the recording waits to be cancelled again, for the recorded time and
    half a minute more.

    Args:
        exchange: The recording.
        is_whole: Whether what is complete comes at once, as from a journal that had it complete: the only
            checkpoint comes on entering.
    """

    def __init__(self, exchange: RecordedExchange, *, is_whole: bool = False) -> None:
        self._exchange = exchange
        self._is_whole = is_whole
        self._events = deque(replay_events(exchange))

    @property
    def usage(self) -> Usage | None:
        """The recorded usage of the request, if it was more than its events reported."""
        return replay_consumed(self._exchange)

    @property
    def is_replay(self) -> bool:
        """True: no model is asked."""
        return True

    async def __aenter__(self) -> Self:
        await checkpoint()
        if not self._events and not self._exchange.left_early:
            await self._end()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._events.clear()

    async def __anext__(self) -> ModelEvent:
        if not self._is_whole:
            await checkpoint()
        if not self._events:
            await self._end()
            raise StopAsyncIteration
        return self._events.popleft()

    async def _end(self) -> None:
        exchange = self._exchange
        if exchange.error is not None:
            raise replay_error(exchange.error)
        if exchange.cancelled_after_seconds is not None:
            await anyio.sleep(exchange.cancelled_after_seconds + _GRACE_SECONDS)
            raise self._went_on("was cancelled")
        if exchange.left_early:
            raise self._went_on("was left before its end")

    def _went_on(self, how: str) -> CassetteMissError:
        exchange = self._exchange
        return CassetteMissError(
            f"The response of {exchange.model} to {' > '.join(exchange.step)} {how} when it was recorded, "
            "and now the program goes on with it. Record everything anew with mode='all', in pytest with "
            "--record=all."
        )


_MAX_DIFFERENCE_LINES = 60
_MAX_LINE_CHARACTERS = 100
_MAX_COMPARED = 40
_MAX_STEPS = 20
_HOW_TO_RECORD = (
    "Record what is missing with mode='new', or everything anew with mode='all'; "
    "in pytest with --record=new or --record=all."
)


class Recorder(SourcePolicy):
    """The responses of a cassette, in place of those of models.

    A recording fits a request with the same step path, model and canonical request. Several that fit are used
    in the order of recording, each once.

    Args:
        recordings: The recordings to replay, in the order of recording.
        records: Whether requests without a recording are sent to their model and recorded.
        redactor: Replaces secrets in recordings.
        label: The name of the cassette in errors.
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
        """Whether no request is sent to its model."""
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
        """Return the recorded exchanges, without secrets that became known only after a request."""
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

    def around_request(self, call: ModelCall, open_request: OpenRequest) -> Events:
        """Replay or record the response to a request.

        Raises:
            CassetteError: The cassette is closed.
            CassetteMissError: No recording fits, and the cassette does not record.
        """
        model_name, request, environment = call.model.name, call.request, find_environment()
        step_path = () if environment is None else environment.step_path
        with self._lock:
            self._redactor.learn(request.settings)
            canonical = canonical_request(request, redact=self._redactor.redact)
            digest = digest_of(model_name, canonical)
            if self._is_closed:
                raise CassetteError(f"The cassette {self._label} is closed; leave it after its last step.")
            if positions := self._unused[step_path, digest]:
                self.replayed += 1
                return ReplayStream(self._recordings[positions.popleft()])
            if not self._records:
                raise self._miss(step_path, model_name, canonical, digest)
            asked = RecordedExchange(step=step_path, model=model_name, digest=digest, request=canonical)
            position = len(self._taken)
            self._taken.append(None)
            self._conversations.append(request.messages)
            self._in_progress.add(position)
        return RecordingStream(open_request, lambda record: self._keep(position, asked, record))

    def _keep(self, position: int, asked: RecordedExchange, record: ResponseRecord) -> None:
        """Keep the record of a response that has ended."""
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
            self._taken[position] = with_texts(exchange, self._redactor.redact)

    def _without_late_secrets(
        self, exchange: RecordedExchange, messages: tuple[Message, ...]
    ) -> RecordedExchange:
        request: dict[str, Any] = self._redactor.redact_secrets(exchange.request)
        if messages:  # computed again, because a digest of unredacted content cannot be redacted
            request["messages"] = canonical_messages(messages, redact=self._redactor.redact)
        digest = digest_of(exchange.model, request)
        asked = msgspec.structs.replace(exchange, request=request, digest=digest)
        return with_texts(asked, self._redactor.redact_secrets)

    def _miss(
        self, step: tuple[str, ...], model_name: str, request: dict[str, Any], digest: str
    ) -> CassetteMissError:
        reason = _describe_miss(step, model_name, request, self._recordings, digest=digest)
        miss = CassetteMissError(f"{self._label}: {reason}")
        self.first_miss = self.first_miss or miss
        return miss


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
        step: The step of the request.
        model_name: The model id.
        request: The canonical request.
        recordings: All recordings of the cassette.
        digest: The digest of model and request.
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
    """Return a request as lines; long lines are split, so that differences inside them can be seen."""
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
