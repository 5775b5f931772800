"""Responses of HTTP servers, bounded in size, as `httpx2` reads them."""

from collections.abc import AsyncIterator

import httpx2

_EVENT_STREAM = "text/event-stream"


def bound(response: httpx2.Response, max_bytes: int) -> None:
    """Let the body of a response end with an error where it gets too large; streams of events have no end.

    Args:
        response: The response, whose body is not read yet.
        max_bytes: The most bytes.

    Raises:
        ReadError: It is compressed, which was not asked for.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise httpx2.ReadError(f"its answer is compressed ({encoding!r}), which was not asked for")
    if not response.headers.get("content-type", "").lower().startswith(_EVENT_STREAM):
        assert isinstance(response.stream, httpx2.AsyncByteStream), "the client is asynchronous"
        response.stream = _BoundedStream(response.stream, max_bytes)


class _BoundedStream(httpx2.AsyncByteStream):
    """A body that raises where it gets too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream = stream
        self._left = max_bytes
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise httpx2.ReadError(
                    f"its answer has more than {self._max_bytes:,} bytes (max_message_bytes)"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
