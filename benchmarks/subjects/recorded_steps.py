"""`python -m benchmarks.subjects.recorded_steps STEPS LOOP [COUNTED]`: a run of two lives with steps.

Each step has three records. It needs nothing of this folder, so that it also measures other checkouts of the
library: see `benchmarks.checkouts`, which also has valgrind count the instructions of one of the lives.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import model_response, tool_call

__all__: list[str] = []

WARM_STEPS = 20


class Events(AsyncIterator[nh.models.ModelEvent]):
    """The events of a response."""

    def __init__(self, response: nh.testing.ModelResponse) -> None:
        self._events = iter(response.events)

    async def __anext__(self) -> nh.models.ModelEvent:
        event = next(self._events, None)
        if event is None:
            raise StopAsyncIteration
        return event


class Model:
    """Assigns, and ends the block in a second response."""

    name = "canned:model"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self) -> None:
        self._responses = cycle(
            (
                model_response(tool_call("nh_assign", target_path="result", expression="42")),
                model_response(tool_call("nh_outcome", kind="pass")),
            )
        )

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the next response."""
        yield Events(next(self._responses))


@nh.natural_function
async def assign(question: str) -> int:
    """Assign one variable."""
    result: int = 0
    """natural
    Compute <:result>, the answer to <question>.
    """
    return result


class Counting:
    """Lets valgrind count the instructions of one of the lives.

    Args:
        counted: The name of that life; None to count nothing.
    """

    def __init__(self, counted: str | None) -> None:
        self._counted = counted

    def switch(self, name: str, state: str) -> None:
        """Switch the counting on or off, for the life that is counted."""
        if name == self._counted:
            command = ["callgrind_control", f"--instr={state}", str(os.getpid())]
            subprocess.run(command, check=True, capture_output=True)


async def live(steps: int, store: nh.journal.JournalStore, name: str, counting: Counting) -> float:
    """Take steps, one after the other; the processor time of one."""
    async with nh.run(nh.AgentStepExecutor.from_model(Model()), journal=store, run_id="steps"):
        counting.switch(name, "on")
        began = time.process_time()
        for _ in range(steps):
            assert await assign("What is six times seven?") == 42
        spent = time.process_time() - began
        counting.switch(name, "off")
        return spent / steps


async def main(steps: int, folder: Path, counting: Counting) -> dict[str, float]:
    """Take steps that are recorded, and then resume them."""
    with nh.journal.open(f"sqlite:///{folder}/warm.db") as store:
        await live(WARM_STEPS, store, "", counting)
    with nh.journal.open(f"sqlite:///{folder}/runs.db") as store:
        figures = {name: await live(steps, store, name, counting) for name in ("step", "resumed")}
        assert sum(record.kind != "life" for record in store.records("steps")) == 3 * steps
        return figures


if __name__ == "__main__":
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        counting = Counting(sys.argv[3] if len(sys.argv) > 3 else None)
        print(json.dumps(anyio.run(main, int(sys.argv[1]), Path(name), counting, backend=sys.argv[2])))
