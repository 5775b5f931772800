"""Requests with an idempotency key: each is a run with a journal, and its response answers repetitions.

The application runs once for a key at a time. All requests with the key, the first one included, read the
same response while it is made. So the client that began it may leave, and others may join.

Source: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from ..actors import BareTaskGroup
from ..journal.errors import RunInProgressError, RunPrunedError
from ..journal_ports import JournalStore, RunJournal
from ..kernel.environment import get_environment, using_environment
from ..kernel.run import keeping_resources
from ..parallel.task_current import find_positions, open_task_root
from .admission import RefusedError
from .exchange import Inbox, Outbox
from .kept_response import KeptResponse, ResponseCollector
from .problems import (
    BODY_TOO_LARGE,
    CANCELLED,
    IDEMPOTENCY_KEY_EXPIRED,
    IDEMPOTENCY_KEY_REUSED,
    MALFORMED_IDEMPOTENCY_KEY,
    REQUEST_IN_PROGRESS,
    Problem,
)
from .protocol import Application, AsgiScope, Message, Receive, Send, header_values, read_whole_body
from .request_identity import find_run_id, fingerprint_of
from .work import Work

_HEADER = b"idempotency-key"
_MOST_CHARACTERS = 255
_MOST_BYTES = 16 * 1024 * 1024
"""The maximum size of the body of a request, which is held in memory."""

_REQUEST = "http-request"
_RESPONSE = "http-response"
"""The places of the values that are kept, below that of the run."""

ClientOf: TypeAlias = Callable[[AsgiScope], str | None]


class DurableRequest(Struct, frozen=True, kw_only=True):
    """A request with an idempotency key.

    Args:
        run_id: The id of its run.
        fingerprint: The digest of its content, which a repetition must have too.
        body: Its body.
    """

    run_id: str
    fingerprint: str
    body: bytes


class SharedResponse:
    """A response that is being made, for all requests with its key.

    Args:
        fingerprint: The digest of the request's content.
    """

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._messages: list[Message] = []
        self.error: Exception | None = None
        """The error with which it has ended."""
        self._is_ended = False
        self._changed = anyio.Event()

    def add(self, message: Message) -> None:
        """Add a message of the application."""
        self._messages.append(message)
        self._change()

    def end(self, error: Exception | None = None) -> None:
        """End it.

        Args:
            error: The error that all its requests raise; None for none.
        """
        self._is_ended = True
        self.error = error
        self._change()

    def abandon(self, problem: Problem | None) -> None:
        """End it because the request that makes it was cancelled; nothing happens if it has ended.

        Args:
            problem: The problem for all its requests. None lets one of them make another response, unless
                they have read a part of this one.
        """
        if self._is_ended:
            return
        if problem is None and self._messages:
            problem = CANCELLED
        self.end(None if problem is None else RefusedError(problem))

    async def forward(self, send: Send) -> bool:
        """Send the messages, from the first one on.

        Args:
            send: Sends a message to the client.

        Returns:
            Whether there was a response; else another request has to make it.

        Raises:
            Exception: The error that it has ended with.
        """
        number = 0
        while True:
            while number < len(self._messages):
                await send(dict(self._messages[number]))
                number += 1
            if self._is_ended:
                break
            await self._changed.wait()
        if self.error is not None:
            raise self.error
        return number > 0

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class DurableRequests:
    """The requests of a service that have an idempotency key.

    Args:
        store: The store of their runs.
        client_of: Returns the client of a request; None when clients are unknown.
    """

    def __init__(self, store: JournalStore, client_of: ClientOf | None) -> None:
        self._store = store
        self._client_of = client_of
        self._in_progress: dict[str, SharedResponse] = {}

    @staticmethod
    def find_key(asgi_scope: AsgiScope) -> str | None:
        """Return the idempotency key of a request, without quotation marks; None for none.

        Args:
            asgi_scope: The request.

        Raises:
            RefusedError: It is empty, too long or given twice, or has characters that are not printable.
        """
        values = header_values(asgi_scope, _HEADER)
        if not values:
            return None
        key = values[0].strip()
        if len(key) > 1 and key[0] == key[-1] == '"':
            key = key[1:-1]
        is_one = len(values) == 1 and 0 < len(key) <= _MOST_CHARACTERS
        if not (is_one and key.isascii() and key.isprintable()):
            raise RefusedError(MALFORMED_IDEMPOTENCY_KEY)
        return key

    @staticmethod
    def scope_for_app(asgi_scope: AsgiScope) -> AsgiScope:
        """Return the request as the application gets it: without what concerns a single connection.

        Args:
            asgi_scope: The request.
        """
        headers = asgi_scope.get("headers") or ()
        extensions: dict[str, object] = asgi_scope.get("extensions") or {}
        return {
            **asgi_scope,
            "headers": [(name, value) for name, value in headers if name.lower() != b"last-event-id"],
            "extensions": {
                name: value for name, value in extensions.items() if not name.startswith("http.response.")
            },
        }

    async def serve(
        self, app: Application, asgi_scope: AsgiScope, *, key: str, inbox: Inbox, outbox: Outbox, work: Work
    ) -> None:
        """Answer a request: run the application, join a request in progress, or send a recorded response.

        Args:
            app: The application.
            asgi_scope: The request, as `scope_for_app` returns it.
            key: Its idempotency key.
            inbox: The messages of its client.
            outbox: The response to its client.
            work: The work, which can be ended.

        Raises:
            RefusedError: The request is not like the first one with this key, is in progress elsewhere, or
                was answered so long ago that its response was deleted.
            Exception: An error of the application.
        """
        too_large = RefusedError(BODY_TOO_LARGE)
        body = await read_whole_body(inbox.receive, most_bytes=_MOST_BYTES, too_large=too_large)
        if body is None:
            return
        request = self._identify(asgi_scope, key, body)
        while (shared := self._in_progress.get(request.run_id)) is not None:
            _check_fingerprint(request, shared.fingerprint)
            if await shared.forward(outbox.send):
                return
        shared = self._in_progress[request.run_id] = SharedResponse(request.fingerprint)
        try:
            with work.outliving_client():
                async with BareTaskGroup() as tasks:
                    tasks.start_soon(_forward_while_there, shared, outbox)
                    await self._make_response(app, asgi_scope, request, shared)
        finally:
            del self._in_progress[request.run_id]
            shared.abandon(work.problem)
        if outbox.refusal is not None:
            raise shared.error or outbox.refusal

    def _identify(self, asgi_scope: AsgiScope, key: str, body: bytes) -> DurableRequest:
        client = None if self._client_of is None else self._client_of(asgi_scope)
        return DurableRequest(
            run_id=find_run_id(asgi_scope, key, client),
            fingerprint=fingerprint_of(asgi_scope, body),
            body=body,
        )

    async def _make_response(
        self, app: Application, asgi_scope: AsgiScope, request: DurableRequest, shared: SharedResponse
    ) -> None:
        """Find the recorded response, or run the application; an error goes to all requests with the key."""
        try:
            recorded = await self._find_recorded(request)
            if recorded is None:
                await self._call(app, asgi_scope, request, shared)
            else:
                for message in recorded.messages():
                    shared.add(message)
        except RunInProgressError:
            shared.end(RefusedError(REQUEST_IN_PROGRESS))
        except RunPrunedError:  # it is not run again: nobody knows whether that would repeat an effect
            shared.end(RefusedError(IDEMPOTENCY_KEY_EXPIRED))
        except Exception as error:
            shared.end(error)
        else:
            shared.end()

    async def _find_recorded(self, request: DurableRequest) -> KeptResponse | None:
        values = await self._store.find_values(request.run_id, (_REQUEST, _RESPONSE))
        if _REQUEST in values:
            _check_fingerprint(request, values[_REQUEST]["fingerprint"])
        return KeptResponse(**values[_RESPONSE]) if _RESPONSE in values else None

    async def _call(
        self, app: Application, asgi_scope: AsgiScope, request: DurableRequest, shared: SharedResponse
    ) -> None:
        """Run the application in the next life of the request's run."""
        try:
            async with _life(self._store, request.run_id) as (journal, root):
                first = journal.find_value(f"{root}/{_REQUEST}")
                if first is None:
                    about = {"method": asgi_scope["method"], "path": str(asgi_scope.get("path", ""))}
                    journal.keep_value(f"{root}/{_REQUEST}", {"fingerprint": request.fingerprint, **about})
                else:
                    _check_fingerprint(request, first[0]["fingerprint"])
                is_kept = await _call_and_keep(app, asgi_scope, request.body, shared, journal, root)
                if not is_kept:  # the life does not end regularly, so the next one tries again
                    raise _NotKeptError("the response was not recorded, because it does not end the request")
        except _NotKeptError:
            return


class _NotKeptError(Exception):
    """The response does not end the request."""


@asynccontextmanager
async def _life(store: JournalStore, run_id: str) -> AsyncGenerator[tuple[RunJournal, str], None]:
    """Let the block be a life of a run within the run of the service, with its connections and limits.

    Yields:
        The journal, and the place of the run.
    """
    environment = get_environment()
    reference = replace(environment.execution_ref, run_id=run_id)
    async with store.open_run(run_id) as journal:
        with (
            using_environment(replace(environment, journal=journal, execution_ref=reference)),
            open_task_root("request"),
        ):
            root = find_positions().path
            journal.begin(root)
            async with keeping_resources():
                yield journal, root


async def _call_and_keep(
    app: Application,
    asgi_scope: AsgiScope,
    body: bytes,
    shared: SharedResponse,
    journal: RunJournal,
    root: str,
) -> bool:
    """Call the application, and record its response before the last of it is sent; return whether it was."""
    collector = ResponseCollector()
    is_kept = False
    answered = anyio.Event()

    async def send(message: Message) -> None:
        nonlocal is_kept
        await checkpoint()
        collector.add(message)
        response = collector.response
        if response is not None and not is_kept and response.is_final:
            if journal.find_value(f"{root}/{_RESPONSE}") is None:
                await journal.keep_value(f"{root}/{_RESPONSE}", response.as_value())()
            is_kept = True
        shared.add(message)
        if response is not None:
            answered.set()

    await app(asgi_scope, _receive_from(body, answered), send)
    return is_kept


async def _forward_while_there(shared: SharedResponse, outbox: Outbox) -> None:
    """Send the response to the client that has begun it, as long as it is there."""
    try:
        await shared.forward(outbox.send)
    except OSError as error:
        if error is not outbox.refusal:
            raise


def _receive_from(body: bytes, answered: anyio.Event) -> Receive:
    """Return a function that gives the application the body, and the end of its client after its response.

    Before it, clients come and go. Some frameworks, such as Quart, end only when they are told of the end.
    """
    is_read = False

    async def receive() -> Any:
        nonlocal is_read
        if is_read:
            await answered.wait()
            return {"type": "http.disconnect"}
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _check_fingerprint(request: DurableRequest, fingerprint: str) -> None:
    if request.fingerprint != fingerprint:
        raise RefusedError(IDEMPOTENCY_KEY_REUSED)
