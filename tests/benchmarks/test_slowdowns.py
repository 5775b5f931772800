"""`--against` flags steps that became slow in the ways in which they do, and leaves unchanged ones alone.

The bursts are real: steps of a floor against the model server. Their time is counted in whole delays of the
server, so that a processor that is busy with other things changes nothing.
"""

from collections.abc import Iterator

import pytest

from tests.benchmarks.made_up import CommandLine

BURST = """
import atexit
import time
from contextlib import ExitStack, asynccontextmanager
from functools import cache

import anyio
import httpx

from benchmarks.server.running import running_server
from benchmarks.subjects import bare_loop, server_client, single_connections

FIRST_BYTE_SECONDS = 0.1
IDEAL_SECONDS = FIRST_BYTE_SECONDS * len(bare_loop.SCRIPTS["assign"]["turns"])

{open_steps}

async def seconds_of_burst(base_url, steps):
    async with open_steps(base_url) as step:
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for _ in range(steps):
                group.start_soon(step)
        return time.perf_counter() - began

@cache
def base_url():
    stack = ExitStack()
    atexit.register(stack.close)
    script = {{**bare_loop.SCRIPTS["assign"], "first_byte_seconds": FIRST_BYTE_SECONDS}}
    return server_client.put_script(stack.enter_context(running_server()), "burst", script)

def burst(steps):
    seconds = anyio.run(seconds_of_burst, base_url(), steps)
    return {{"over_ideal": seconds // IDEAL_SECONDS}}

BENCHMARKS = (
    Benchmark(
        name="burst", what="one of six steps", run=burst, operations=6, quick_operations=1, rounds=3,
        is_warmed_up=False,
    ),
)
"""

SINGLE_CONNECTIONS = """
def open_steps(base_url):
    return single_connections.open_steps(base_url, "assign")
"""

SLEEP_INSERTED = """
@asynccontextmanager
async def open_steps(base_url):
    async with single_connections.open_steps(base_url, "assign") as step:
        async def sleepy_step():
            time.sleep(FIRST_BYTE_SECONDS)
            await step()
        yield sleepy_step
"""

POOL_SHARED = """
@asynccontextmanager
async def open_steps(base_url):
    limits = httpx.Limits(max_connections=2)
    async with httpx.AsyncClient(limits=limits, timeout=60, headers=single_connections.HEADERS) as client:
        async def ask(messages):
            body = bare_loop.request_body(messages, is_streamed=False)
            response = await client.post(f"{base_url}/chat/completions", content=body)
            return response.raise_for_status().json()["choices"][0]["message"]

        async def step():
            await bare_loop.converse(ask)

        yield step
"""


def burst_of(open_steps: str) -> str:
    return BURST.format(open_steps=open_steps)


@pytest.fixture(scope="module")
def measured_before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The figures of a burst over single connections."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        command_line = CommandLine(tmp_path_factory.mktemp("before"), monkeypatch)
        assert command_line.run(burst_of(SINGLE_CONNECTIONS)) == 0
        yield str(command_line.figures("results"))


@pytest.mark.parametrize("open_steps", [SLEEP_INSERTED, POOL_SHARED], ids=["sleep", "pool"])
def test_a_slowdown_of_a_burst_is_flagged(
    command_line: CommandLine,
    measured_before: str,
    capsys: pytest.CaptureFixture[str],
    open_steps: str,
) -> None:
    assert command_line.run(burst_of(open_steps), "--against", measured_before) == 1
    assert "REGRESSION: burst (over_ideal)" in capsys.readouterr().out
    assert "burst (over_ideal)" in (command_line.results("results") / "results.md").read_text("utf-8")


def test_a_burst_that_did_not_change_is_not_flagged(
    command_line: CommandLine, measured_before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(burst_of(SINGLE_CONNECTIONS), "--against", measured_before) == 0
    assert "1 lines compared, 0 regressions" in capsys.readouterr().out
