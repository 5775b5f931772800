"""A server that takes so many requests within a while, on a virtual clock; all but the sockets is real."""

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import anyio

from nighthawk_async.models.http_pool import HttpPool
from nighthawk_async.models.pacing import Pacer
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model

_ANSWER = b'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@dataclass(kw_only=True)
class CrowdedServer:
    """Answers so many requests within each window, and refuses the others.

    Args:
        most: Requests it takes within a window.
        window_seconds: How long a window is.
        retry_after: The delay that it asks those for whom it refuses.
        answer_seconds: How long an answer takes.
        refusal_seconds: How long a refusal takes.
    """

    most: int
    window_seconds: float
    retry_after: str = "1"
    answer_seconds: float = 0.2
    refusal_seconds: float = 0.05
    asked: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    taken: list[str] = field(default_factory=list[str])
    refused: int = 0
    _recent: deque[float] = field(default_factory=deque[float])

    def take(self, body: bytes) -> bool:
        """Whether there is room for a request; it is counted."""
        now = anyio.current_time()
        self.asked.append((now, body.decode()))
        while self._recent and self._recent[0] + self.window_seconds <= now:
            self._recent.popleft()
        if len(self._recent) >= self.most:
            self.refused += 1
            return False
        self._recent.append(now)
        self.taken.append(body.decode())
        return True

    def model(self, pacer: Pacer | None, **settings: Any) -> Model:
        """A model at this server whose requests share a pacer; None for that of the run."""

        @asynccontextmanager
        async def give_pool() -> AsyncGenerator[HttpPool, None]:
            yield _Pool(self)  # pyright: ignore[reportReturnType]

        @asynccontextmanager
        async def give_pacer(key: object) -> AsyncGenerator[Pacer, None]:
            yield pacer

        return create_model(
            "openai-chat:crowded",
            settings={"base_url": "http://127.0.0.1:1/v1", **settings},
            environment={},
            pool_source=give_pool,
            **({} if pacer is None else {"pacer_source": give_pacer}),
        )


class _Pool:
    def __init__(self, server: CrowdedServer) -> None:
        self._server = server

    def request(self, url: object, headers: Mapping[str, str], body: bytes, **options: object) -> "_Exchange":
        return _Exchange(self._server, body)


class _Exchange:
    was_sent = True
    was_cut = False

    def __init__(self, server: CrowdedServer, body: bytes) -> None:
        self._server = server
        self._request = body
        self._chunks: list[bytes] = []
        self.status = 0
        self.headers: Mapping[str, str] = {}

    async def __aenter__(self) -> Self:
        if self._server.take(self._request):
            await anyio.sleep(self._server.answer_seconds)
            self.status, self.headers = 200, {"content-type": "text/event-stream"}
            self._chunks = [_ANSWER]
        else:
            await anyio.sleep(self._server.refusal_seconds)
            self.status, self.headers = 429, {"retry-after": self._server.retry_after}
        return self

    async def __aexit__(self, *reason: object) -> None:
        self._chunks = []

    @property
    def is_at_end(self) -> bool:
        return not self._chunks

    async def read_chunk(self) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""
