"""Budgets and usage over worker processes that end in the middle of requests."""

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import Processes
from nighthawk_async.testing.model_reply import ModelReply, RecordedRequest, ReplyPacing
from nighthawk_async.testing.model_server import ModelServer
from tests.budget_functions import act, act_or_die

from .budget_support import DONE, USED, executor_of

pytestmark = pytest.mark.anyio

TOKENS = USED.input_tokens + USED.output_tokens
SLOW = ModelReply(tool_calls=DONE.tool_calls, usage=USED, pacing=ReplyPacing(first_byte_seconds=0.02))


KILLED = 99
"""The number whose worker ends while the server has its request; others end at random moments."""


async def test_a_budget_is_exact_over_workers_that_are_killed_at_random(tmp_path: Path) -> None:
    """Each lost request is charged its upper bound, each other one what it used; nothing stays reserved."""
    total = nh.budget(tokens=10_000_000, thresholds=())
    chance = random.Random(7)
    dying = set(chance.sample(range(10, 40), 4))
    calls = [(number, str(tmp_path), "soon" if number in dying else "") for number in range(10, 40)]
    calls.insert(15, (KILLED, str(tmp_path), "served"))
    killed: list[int] = []

    def reply(request: RecordedRequest) -> ModelReply:
        if f"number: int = {KILLED}".encode() in request.content and not killed:
            killed.append(int((tmp_path / str(KILLED)).read_text(encoding="utf-8")))
            with suppress(ProcessLookupError):  # another one has just ended it
                os.kill(killed[0], signal.SIGKILL)
        return SLOW

    async with (
        ModelServer(reply) as server,
        Processes(2, max_concurrent_per_worker=4, max_placements=50) as workers,
        nh.run(executor_of(server.base_url), budget=total) as run,
    ):
        bound = await asked_for_one_request()
        results = await parallel.map(act_or_die, calls, on=workers)
        sent = len(server.requests)
    settled = (total.usage.input_tokens + total.usage.output_tokens) // TOKENS
    lost = total.usage.requests - settled
    assert sorted(results) == [*range(10, 40), KILLED]
    assert total.reserved == nh.policies.BudgetAmounts()
    assert total.spent.turns == total.usage.requests >= sent, "what the server has seen is charged"
    assert lost >= len(killed) == 1
    assert total.spent.tokens == settled * TOKENS + lost * bound
    # A worker may be lost between the report to the budget and the one to the run.
    assert total.usage.requests - 5 <= run.usage_meter.usage.requests <= total.usage.requests


async def asked_for_one_request() -> int:
    """Return the upper bound of the tokens of one request; nothing is sent."""
    with nh.budget(tokens=0), pytest.raises(nh.BudgetExceededError) as caught:
        await act(10)
    return int(caught.value.asked)
