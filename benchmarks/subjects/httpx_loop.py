"""A floor: the bare loop over one httpx client that all steps share, as whoever writes it by hand begins.

The client may open as many connections as there are steps; with httpx's own limit of 100, most of a large
burst would fail.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from . import harness
from .bare_loop import SCRIPTS, converse, message_of_stream, request_body

UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=None)
HEADERS = {"Authorization": "Bearer none", "Content-Type": "application/json"}


@asynccontextmanager
async def open_steps(
    base_url: str, kind: str, *, is_streamed: bool = False
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Open the client; see `harness`.

    Args:
        base_url: The base URL of the model.
        kind: The kind of the steps.
        is_streamed: Whether responses are asked for as streams, or in one piece.
    """
    url = f"{base_url}/chat/completions"
    async with httpx.AsyncClient(limits=UNLIMITED, timeout=120, headers=HEADERS) as client:

        async def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
            body = request_body(messages, is_streamed=is_streamed)
            if is_streamed:
                async with client.stream("POST", url, content=body) as response:
                    response.raise_for_status()
                    return await message_of_stream(response.aiter_lines())
            response = await client.post(url, content=body)
            return response.raise_for_status().json()["choices"][0]["message"]

        async def step() -> None:
            await converse(ask)

        yield step


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
