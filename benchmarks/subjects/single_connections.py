"""A floor: the bare loop where each request in flight has a transport of one connection, called directly.

Transports that are free wait on a list, the last one on top; all share one SSL context.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from . import harness
from .bare_loop import SCRIPTS, converse, message_of_stream, request_body

ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1)
HEADERS = {"Authorization": "Bearer none", "Content-Type": "application/json"}


@asynccontextmanager
async def open_steps(
    base_url: str, kind: str, *, is_streamed: bool = False
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Open the list of transports; see `harness`.

    Args:
        base_url: The base URL of the model.
        kind: The kind of the steps.
        is_streamed: Whether responses are asked for as streams, or in one piece.
    """
    url = httpx.URL(f"{base_url}/chat/completions")
    context = ssl.create_default_context()
    free: list[httpx.AsyncHTTPTransport] = []

    async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
        body = request_body(messages, is_streamed=is_streamed)
        request = httpx.Request("POST", url, headers=HEADERS, content=body)
        transport = free.pop() if free else httpx.AsyncHTTPTransport(verify=context, limits=ONE)
        try:
            message = await message_of(await transport.handle_async_request(request), request)
        except BaseException:
            await transport.aclose()
            raise
        free.append(transport)
        return message

    async def message_of(response: httpx.Response, request: httpx.Request) -> dict[str, Any]:
        response.request = request
        response.raise_for_status()
        if is_streamed:
            message = await message_of_stream(response.aiter_lines())
            await response.aclose()
            return message
        await response.aread()
        return response.json()["choices"][0]["message"]

    async def step() -> None:
        await converse(ask)

    try:
        yield step
    finally:
        for transport in free:
            await transport.aclose()


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
