"""The tools that the official conformance suite calls, as far as a server of tools has them."""

import base64
from typing import Any, Literal

import anyio
from pydantic import BaseModel, Field

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, pass_response

__all__ = ["TOOLS", "make_run"]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


async def test_simple_text() -> str:
    """A text."""
    return "This is a simple text response for testing."


async def test_image_content() -> nh.BinaryContent:
    """An image."""
    return nh.BinaryContent(data=PIXEL, media_type="image/png")


async def test_audio_content() -> nh.BinaryContent:
    """A sound."""
    return nh.BinaryContent(data=b"RIFF$\0\0\0WAVE", media_type="audio/wav")


async def test_embedded_resource() -> nh.BinaryContent:
    """A resource."""
    return nh.BinaryContent(data=b"This is an embedded resource content.", media_type="text/plain")


async def test_multiple_content_types() -> list[str | nh.BinaryContent]:
    """A text, an image and a resource."""
    image = nh.BinaryContent(data=PIXEL, media_type="image/png")
    data = nh.BinaryContent(data=b'{"test":"data","value":123}', media_type="application/json")
    return ["Multiple content types test:", image, data]


async def test_error_handling() -> str:
    """Always raises."""
    raise RuntimeError("This tool intentionally returns an error for testing")


async def test_tool_with_progress() -> str:
    """Works on three parts, one after the other."""

    async def work(part: int) -> int:
        await anyio.sleep(0.3)  # so that each part is reported
        return part

    parts = await nh.parallel.map(work, range(4), max_concurrent=1)
    return f"{len(parts)} parts"


class Contact(BaseModel):
    """The person at the client."""

    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


async def test_elicitation(message: str) -> str:
    """Asks the person at the client."""
    contact = await nh.ask_user(message, schema=Contact)
    return f"User response: {contact}"


class Defaults(BaseModel):
    """A field of each plain type."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


async def test_elicitation_sep1034_defaults() -> str:
    """Asks for defaults."""
    return f"Elicitation completed: {await nh.ask_user('Check these', schema=Defaults)}"


def make_run() -> Any:
    """Return a run whose model sets nothing."""
    return nh.run(CallbackExecutor(lambda call: pass_response()))


TOOLS = [
    test_simple_text,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    test_error_handling,
    test_tool_with_progress,
    test_elicitation,
    test_elicitation_sep1034_defaults,
]
