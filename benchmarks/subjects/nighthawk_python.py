"""Nighthawk, the project that this one follows: natural functions over Chat Completions.

With the option `is_sync` the natural function is a plain one, and the steps are those of a script that calls
it again and again. Nighthawk asks for responses in one piece, and carries out the calls of one response one
after the other.

Nighthawk counts tokens with tiktoken, which downloads a vocabulary when its cache lacks it. Nothing is
downloaded here: without the vocabulary each byte is one token, which spares Nighthawk the loading of it.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from pathlib import Path

import nighthawk as nh
import tiktoken
from tiktoken.registry import ENCODINGS

from . import harness
from .two_turns import SENT_AT, call, two_turns

SCRIPTS = two_turns(
    assign=call("nh_assign", target_path="result", expression=str(harness.EXPECTED)),
    wait=call("nh_eval", expression="await wait()"),
    note=call("nh_eval", expression=f"note('{SENT_AT}')"),
    end={"calls": [call("final_result", result={"kind": "pass"})]},
)


async def wait() -> str:
    """Wait a moment."""
    return await harness.tool_body()


def note(sent_at: str) -> str:
    """Take a note of the time."""
    return harness.tool_started(sent_at)


@nh.natural_function
async def assign() -> int:
    """Have the model set a variable."""
    result: int = 0
    """natural
    Set <:result> to forty-two.
    """
    return result


@nh.natural_function
def assign_synchronously() -> int:
    """Have the model set a variable, in a script."""
    result: int = 0
    """natural
    Set <:result> to forty-two.
    """
    return result


@nh.natural_function
async def wait_once() -> None:
    """Have the model call one tool."""
    """natural
    Call <wait> once.
    """


@nh.natural_function
async def wait_eight_times() -> None:
    """Have the model call eight tools."""
    """natural
    Call <wait> eight times at once.
    """


@nh.natural_function
async def take_note() -> None:
    """Have the model call a tool and go on."""
    """natural
    Call <note> with the time.
    """


FUNCTIONS: dict[str, Callable[[], Awaitable[int | None]]] = {
    "assign": assign,
    "one-tool": wait_once,
    "eight-tools": wait_eight_times,
    "tool-start": take_note,
}


BYTES = "bytes"

CACHED_VOCABULARY = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The file of tiktoken's cache that holds the vocabulary of current models, o200k_base."""


def tokenizer_encoding() -> str | None:
    """None for Nighthawk's own choice, which needs the vocabulary; otherwise an encoding without a file."""
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or Path(tempfile.gettempdir(), "data-gym-cache")
    if Path(folder, CACHED_VOCABULARY).exists():
        return None
    ENCODINGS[BYTES] = tiktoken.Encoding(
        name=BYTES,
        pat_str=r"\s+|\S+",
        mergeable_ranks={bytes([value]): value for value in range(256)},
        special_tokens={},
    )
    return BYTES


def make_executor(base_url: str) -> nh.AgentStepExecutor:
    """The executor; where the provider is, the environment says."""
    os.environ["OPENAI_BASE_URL"] = base_url
    os.environ["OPENAI_API_KEY"] = "none"
    configuration = nh.StepExecutorConfiguration(
        model="openai-chat:benchmark", tokenizer_encoding=tokenizer_encoding()
    )
    return nh.AgentStepExecutor.from_configuration(configuration=configuration)


def check(kind: str, value: int | None) -> None:
    """Refuse a wrong result."""
    if kind == "assign" and value != harness.EXPECTED:
        raise ValueError(f"the function gave {value}")


@asynccontextmanager
async def open_async_steps(base_url: str, kind: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """One run for all steps."""

    async def step() -> None:
        check(kind, await FUNCTIONS[kind]())

    with nh.run(make_executor(base_url)):
        yield step


@contextmanager
def open_sync_steps(base_url: str, kind: str) -> Iterator[Callable[[], None]]:
    """One run for all steps of a script."""

    def step() -> None:
        check(kind, assign_synchronously())

    with nh.run(make_executor(base_url)):
        yield step


def open_steps(
    base_url: str, kind: str, *, is_sync: bool = False
) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]] | AbstractContextManager[Callable[[], None]]:
    """Steps of async natural functions, or of plain ones."""
    return open_sync_steps(base_url, kind) if is_sync else open_async_steps(base_url, kind)


if __name__ == "__main__":
    harness.main(open_steps, SCRIPTS)
