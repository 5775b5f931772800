"""Server-sent events from bytes, with chunk boundaries anywhere.

Not a codec: it does not interpret the events. It splits *bytes*, only on CR, LF and CRLF; text line splitters
also split on U+2028, U+2029 and U+0085, which are legal inside JSON strings. Whole lines are passed on as
bytes, so a chunk boundary inside a character does no harm.

Source: the event stream format of the HTML standard, section "Server-sent events".
"""

import msgspec

from ..errors import ModelProtocolError

DEFAULT_MAX_EVENT_BYTES = 32 * 1024 * 1024

_MAX_STRAY_BYTES = 4 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class ServerSentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event.

    Args:
        data: The payload; several `data:` lines are joined with line feeds. Never empty.
        event: The event's type; empty when the server named none.
        id: The last event id the server set; empty when it set none.
    """

    data: bytes
    event: str = ""
    id: str = ""


class ServerSentEventDecoder:
    """Collects bytes and returns the events that they complete.

    Args:
        max_event_bytes: Bytes that one line, and the data of one event, may have.
    """

    def __init__(self, *, max_event_bytes: int = DEFAULT_MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._unfinished_line: list[bytes] = []
        self._unfinished_bytes = 0
        self._is_at_start = True
        self._skips_line_feed = False
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event = ""
        self._id = ""
        self._stray: list[bytes] = []
        self._stray_bytes = 0
        self.retry_milliseconds: int | None = None
        """The reconnection time the server asked for, when it did."""

    @property
    def stray(self) -> bytes:
        """The beginning of data that is no event stream, for the message of the error that follows."""
        return b"\n".join(self._stray)[:_MAX_STRAY_BYTES]

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Add bytes and return the events that they complete, oldest first.

        Args:
            data: Any number of bytes.

        Raises:
            ModelProtocolError: A line or an event is larger than the bound.
        """
        if self._skips_line_feed and data:
            self._skips_line_feed = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        lines = data.splitlines()  # bytes: splits only on CR, LF and CRLF
        if data.endswith((b"\n", b"\r")):
            self._skips_line_feed = data.endswith(b"\r")
            rest = b""
        else:
            rest = lines.pop()
        events: list[ServerSentEvent] = []
        if lines:
            lines[0] = self._finish_line(lines[0])
            self._take_lines(lines, events)
        if rest:
            self._keep_unfinished(rest)
        return events

    def finish(self) -> list[ServerSentEvent]:
        """Process the end of input and return the event that no blank line completed, if any.

        Raises:
            ModelProtocolError: The event is larger than the bound.
        """
        events: list[ServerSentEvent] = []
        self._take_lines([self._finish_line(b""), b""], events)
        return events

    def _keep_unfinished(self, rest: bytes) -> None:
        self._unfinished_line.append(rest)
        self._unfinished_bytes += len(rest)
        self._check_size(self._unfinished_bytes)

    def _finish_line(self, end: bytes) -> bytes:
        if self._unfinished_line:
            end = b"".join([*self._unfinished_line, end])
            self._unfinished_line.clear()
            self._unfinished_bytes = 0
        if self._is_at_start:
            self._is_at_start = False
            end = end.removeprefix(_BYTE_ORDER_MARK)
        return end

    def _take_lines(self, lines: list[bytes], events: list[ServerSentEvent]) -> None:
        for line in lines:
            if not line:
                if self._data:
                    self._dispatch(events)
                self._event = ""
            elif line.startswith(b"data:"):
                self._add_data(line[6:] if line[5:6] == b" " else line[5:])
            elif not line.startswith(b":"):
                self._take_field(line)

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        data = b"\n".join(self._data) if len(self._data) > 1 else self._data[0]
        self._data.clear()
        self._data_bytes = 0
        if data:
            events.append(ServerSentEvent(data=data, event=self._event, id=self._id))

    def _add_data(self, value: bytes) -> None:
        self._data.append(value)
        self._data_bytes += len(value) + 1
        self._check_size(self._data_bytes)

    def _take_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._add_data(value)
        elif field == b"event":
            self._event = value.decode(errors="replace")
        elif field == b"id":
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        elif field == b"retry":
            if value.isdigit():
                self.retry_milliseconds = int(value[:18])
        elif field == b"error":
            # Older llama.cpp servers write `error: {...}`, which is not standard: an event named "error".
            self._event = "error"
            self._add_data(value)
        else:
            self._keep_stray(line)

    def _keep_stray(self, line: bytes) -> None:
        if self._stray_bytes < _MAX_STRAY_BYTES:
            self._stray.append(line[:_MAX_STRAY_BYTES])
            self._stray_bytes += len(line)

    def _check_size(self, size: int) -> None:
        if size > self._max_event_bytes:
            raise ModelProtocolError(f"The stream holds an event of over {self._max_event_bytes:,} bytes.")
