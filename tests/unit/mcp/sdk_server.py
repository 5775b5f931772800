"""A server written with the official package, of version 1 or 2; run as a script.

Its arguments are a folder, in which it notes what happens, and the transport: `stdio`, or the name of an HTTP
server and a port.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
from pydantic import BaseModel

FOLDER = Path(sys.argv[1])


class Person(BaseModel):
    name: str


try:
    from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
    from mcp.server.mcpserver.exceptions import ToolError

    server: Any = MCPServer("sdk", instructions="A server for tests.")

    async def who() -> Elicit[Person]:
        return Elicit("Who are you?", Person)

    @server.tool()
    async def ask(person: Annotated[Person, Resolve(who)]) -> str:
        """Ask a person."""
        return f"Hello {person.name}"

except ImportError:
    from mcp.server.fastmcp import Context, FastMCP  # pyright: ignore
    from mcp.server.fastmcp.exceptions import ToolError

    server = FastMCP("sdk", instructions="A server for tests.")

    @server.tool()
    async def ask(context: Context) -> str:  # pyright: ignore
        """Ask a person."""
        answer: Any = await context.elicit("Who are you?", Person)
        return f"Hello {answer.data.name}"


def reads(function: Any) -> Any:
    try:
        from mcp_types import ToolAnnotations

        return server.tool(annotations=ToolAnnotations(read_only_hint=True))(function)
    except ImportError:
        from mcp.types import ToolAnnotations as OldAnnotations

        return server.tool(annotations=OldAnnotations(readOnlyHint=True))(function)


@reads
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@reads
async def work(steps: int, context: Context) -> str:  # pyright: ignore
    """Report progress."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
    return "worked"


@reads
async def wait() -> str:
    """Wait until the call is cancelled."""
    try:
        (FOLDER / "waiting").touch()
        await anyio.sleep(600)
    finally:
        (FOLDER / "cancelled").touch()
    return ""


@reads
async def pause(seconds: float) -> float:
    """Take some time."""
    await anyio.sleep(seconds)
    return seconds


@server.tool()
def fail(text: str) -> str:
    """Fail."""
    raise ToolError(text)


@server.tool()
async def change_tools(context: Context) -> str:  # pyright: ignore
    """Offer one more tool."""
    server.add_tool(add, name="late")
    if hasattr(context, "notify_tools_changed"):
        await context.notify_tools_changed()
    else:
        await context.session.send_tool_list_changed()
    return "changed"


@server.resource("sdk://note")
def note() -> str:
    return "a note"


def http_app() -> Any:
    return server.streamable_http_app()


def serve(transport: str, port: int) -> None:
    if transport == "stdio":
        anyio.run(server.run_stdio_async)
    elif transport == "uvicorn":
        import uvicorn

        uvicorn.run(http_app(), port=port, log_level="warning")
    else:
        import hypercorn.trio
        import trio
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"127.0.0.1:{port}"]
        trio.run(partial(hypercorn.trio.serve, http_app(), config))


if __name__ == "__main__":
    serve(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
