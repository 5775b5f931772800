"""Requests for the progress of a call: one begins it, others come back to it."""

from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus

import anyio

from ..actors import BareTaskGroup
from ..errors import NighthawkError
from .event_stream_call import Call, StreamedCall, StreamSettings
from .event_stream_client import StreamClient
from .event_stream_live import LiveStream, parse_event_id
from .event_stream_outcome import NOBODY_CAME_BACK
from .problem_log import is_cancellation, log_problem
from .problems import find_problem
from .request_in_force import RequestInForce

__all__ = ["CallStreams"]


class CallStreams:
    """Answers requests with the progress of a call, which each of them begins unless it comes back.

    Args:
        call: The call.
        settings: What `stream_response` was told.
    """

    def __init__(self, call: Call, settings: StreamSettings) -> None:
        self._call = call
        self._settings = settings

    async def serve(self, client: StreamClient) -> None:
        """Answer one request.

        Args:
            client: The request.

        Raises:
            NighthawkError: Clients may come back and no middleware is there.
            Exception: What the call raises before anything has begun, and later what is none of the
                library's own errors, after the client was told.
        """
        if client.request is None and self._settings.resume_seconds:
            raise NighthawkError("resume_seconds needs NighthawkMiddleware around the application")
        if client.seen:
            await self._resume(client)
        else:
            await self._begin(client)

    async def _begin(self, client: StreamClient) -> None:
        stream = LiveStream(
            path=client.path,
            is_resumable=self._settings.resume_seconds > 0,
            tells_internals=self._settings.tells_internals,
        )
        streamed = StreamedCall(self._call, stream, self._settings, client.request)
        delivery = client.delivery(stream)
        delivery.on_disconnect = streamed.end_with_request
        stream.attach(delivery)
        with self._keeping(stream, client.request):
            async with BareTaskGroup() as tasks:
                tasks.start_soon(streamed.carry_out)
                await delivery.carry_out(lambda: streamed.error is not None)
                await self._wait_for_reader(stream)
                streamed.cancel(NOBODY_CAME_BACK)
        if streamed.error is not None:
            problem = find_problem(streamed.error)
            if not delivery.is_started or problem is None:
                raise streamed.error
            log_problem(
                "the call of an event stream has failed",
                problem,
                streamed.error,
                is_expected=client.has_left and is_cancellation(streamed.error),
            )

    async def _resume(self, client: StreamClient) -> None:
        request = client.request
        stream_id, number = parse_event_id(client.seen) or ("", 0)
        stream = None if request is None else request.streams.find(stream_id, client.path)
        if request is None or stream is None or stream.has_told_all(number):
            await client.answer(HTTPStatus.NO_CONTENT)
            return
        delivery = client.delivery(stream)
        # The call ends with the service too, which is then told.
        delivery.on_disconnect = lambda: request.work.end_reason == "shut_down"
        stream.attach(delivery, seen=number)
        await delivery.carry_out()

    @contextmanager
    def _keeping(self, stream: LiveStream, request: RequestInForce | None) -> Generator[None, None, None]:
        """Let clients come back."""
        seconds = self._settings.resume_seconds
        if request is None or not seconds:
            yield
            return
        with request.work.outliving_client(), request.streams.keeping(stream, seconds):
            yield

    async def _wait_for_reader(self, stream: LiveStream) -> None:
        """Wait for the end, or until nobody has read for too long. Nobody can come back who has got no id."""
        while not stream.is_ended and stream.is_known:
            if stream.reader is not None:
                await stream.wait_for_change()
                continue
            with anyio.move_on_after(self._settings.resume_seconds):
                while stream.reader is None and not stream.is_ended:
                    await stream.wait_for_change()
            if stream.reader is None:
                return
