"""The outside of the killed program: a service that books items, a model, people. Each writes down its calls.

The files are lines of text, written durably. They are what the checks compare with the records.
"""

import os
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.parallel import task_current
from nighthawk_async.testing import model_response, tool_call
from nighthawk_async.testing.killing import mark
from tests.unit.journal.durable_runs import ResponseEvents

BOOKINGS = "bookings.txt"
READINGS = "readings.txt"
RECONCILED = "reconciled.txt"
ASKED = "asked.txt"
QUESTIONS = "questions.txt"

_folder = Path()
_life = 0


def enter_life(folder: Path, life: int) -> None:
    """Use the files of a folder, in one of the lives of the program."""
    global _folder, _life
    _folder, _life = folder, life
    random.seed(os.urandom(8))


def append_line(name: str, line: str) -> None:
    """Append a line to a file of the program, durably."""
    with (_folder / name).open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def lines_of(folder: Path, name: str) -> list[str]:
    """The lines of a file of the program."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def make_booking(item: str, key: str) -> str:
    """Book an item: the effect, between two moments at which the process may be killed."""
    mark("booking")
    append_line(BOOKINGS, f"{key} {item}")
    mark("booked")
    return f"booked {item}"


def _find(item: str, key: str) -> str | None:
    append_line(RECONCILED, key)
    mark("reconciling")
    return f"booked {item}" if f"{key} {item}" in lines_of(_folder, BOOKINGS) else None


async def find_booking(item: str, *, idempotency_key: str) -> str | None:
    """Find out whether a booking took effect."""
    return _find(item, idempotency_key)


@nh.once(reconcile=find_booking)
async def book(item: str, *, idempotency_key: str = "") -> str:
    """Book an item."""
    booked = make_booking(item, idempotency_key)
    await anyio.sleep(random.random() / 500)
    return booked


def find_booking_in_thread(item: str, *, idempotency_key: str) -> str | None:
    """Find out whether a booking took effect, for synchronous code."""
    return _find(item, idempotency_key)


@nh.once(reconcile=find_booking_in_thread)
def book_in_thread(item: str, *, idempotency_key: str = "") -> str:
    """Book an item, for synchronous code."""
    return make_booking(item, idempotency_key)


@nh.once
async def book_blindly(item: str, *, idempotency_key: str = "") -> str:
    """Book an item. Nobody can be asked whether it took effect."""
    return make_booking(item, idempotency_key)


@nh.repeatable
async def read(item: str, *, idempotency_key: str = "") -> str:
    """Read something from outside, which is another one each time."""
    append_line(READINGS, f"{idempotency_key} {item}")
    mark("read outside")
    await anyio.lowlevel.checkpoint()
    return f"{item} {os.urandom(4).hex()}"


class People:
    """Answer questions, and write down which ones they were asked."""

    async def ask(self, question: nh.human.Question) -> object:
        """Answer one question."""
        append_line(QUESTIONS, f"{_life} {question.id}")
        mark("asking")
        await anyio.sleep(random.random() / 500)
        return f"yes, {question.prompt}"

    async def approve(self, request: nh.human.ApprovalRequest) -> None:
        """Approve one action."""
        append_line(QUESTIONS, f"{_life} {request.id}")
        request.approve("ann", digest=request.digest)


class AskedModel:
    """Books what the prompt says, in two responses, and writes down each request with its place.

    Prompts with `primary` always fail, and all in the first call of the function `flaky`.
    """

    name = "asked:model"
    capabilities = nh.models.ModelCapabilities()

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the next response."""
        turn = sum(1 for message in request.messages if isinstance(message, nh.models.AssistantMessage))
        place = task_current.find_positions().path
        append_line(ASKED, f"{_life} {place}")
        await anyio.sleep(random.random() / 200)
        prompt = str(request.messages[0])
        if "primary" in prompt or "/flaky()[0]/" in place:
            raise ModelStatusError("no capacity", status=503, is_transient=True)
        yield ResponseEvents(_answer(prompt, turn))


def _answer(prompt: str, turn: int) -> nh.testing.ModelResponse:
    if turn > 0:
        return model_response(tool_call("nh_outcome", kind="pass"))
    if "tools" in prompt:
        return model_response(
            tool_call("nh_exec", statements="history.append(item)"),
            tool_call("reserve", item="first tool"),
            tool_call("reserve", item="second tool"),
            tool_call("nh_assign", target_path="note", expression="'reserved'"),
        )
    if "refused" in prompt:
        return model_response(
            tool_call("nh_outcome", kind="raise", raise_message="full", raise_error_type="ValueError")
        )
    function = "book_in_thread" if "book_in_thread" in prompt else "book"
    return model_response(
        tool_call("nh_exec", statements="history.append(item)"),
        tool_call("nh_assign", target_path="note", expression=f"{function}(item)"),
    )
