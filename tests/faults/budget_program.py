"""A program that spends from a budget of a day until it is killed; see `test_budget_kills`."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import killing, model_response, tool_call
from tests.unit.journal.durable_runs import AnsweringModel, shout

ASKED = "asked.txt"
LIMITS: dict[str, Any] = {
    "name": "team",
    "turns": 100,
    "tokens": 1_000_000,
    "steps": 100,
    "per": timedelta(days=2),
}
"""Those of the budget: a window that does not end during a test."""
USED = nh.Usage(requests=1, input_tokens=10_000, output_tokens=50)
WORDS = ("ant", "bee", "cow", "dog")


class MarkedModel(AnsweringModel):
    """Notes each request in a file, and passes marks."""

    capabilities = nh.models.ModelCapabilities(max_output_tokens=50)

    def __init__(self, folder: Path) -> None:
        assign = tool_call("nh_assign", target_path="loud", expression="word.upper()")
        super().__init__(
            lambda prompt, turn: model_response(assign, tool_call("nh_outcome", kind="pass"), usage=USED)
        )
        self._folder = folder

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        """Stream the response to a request."""
        killing.mark("reserved")
        with (self._folder / ASKED).open("a") as file:
            file.write("asked\n")
        async with super().stream(request) as events:
            killing.mark("answered")
            yield events
        killing.mark("ended")


def main(folder: str, address: str, backend: str, is_durable: bool) -> Any:
    """One life."""

    async def one_life() -> list[str]:
        with nh.journal.open(address) as store:
            budget = nh.budget(**LIMITS, store=store)
            executor = nh.AgentStepExecutor.from_model(MarkedModel(Path(folder)))
            options: dict[str, Any] = {"journal": store, "run_id": "run-1"} if is_durable else {}
            async with nh.run(executor, budget=budget, **options):
                return [await shout(word) for word in WORDS]

    return anyio.run(one_life, backend=backend)
