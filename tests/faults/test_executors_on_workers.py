"""Batches and coding agents in calls on worker processes."""

import json
import re
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async import parallel
from nighthawk_async.distributed import Processes
from nighthawk_async.errors import BudgetExceededError
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest
from nighthawk_async.types.usage import Usage
from tests.faults.coding_agents.claude_code import Claude, nh_call, reply
from tests.unit.mcp.support import processes
from tests.worker_steps import double

pytestmark = pytest.mark.anyio

OUTCOME = nh_call("nh_outcome", kind="pass")


def doubled(request: RecordedRequest) -> ModelReply:
    found = re.search(r"number: int = (\d+)", request.content.decode())
    assert found is not None
    answer = {"result": {"kind": "pass", "bindings": {"result": 2 * int(found[1])}}}
    return ModelReply(text=json.dumps(answer), usage=Usage(requests=1, input_tokens=1000, output_tokens=100))


async def test_steps_on_a_worker_share_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(doubled) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        model = nh.StepExecutorConfiguration(
            model="anthropic:tested", model_settings={"structured_output": True}
        )
        batched = nh.batched(model, max_requests=4, window_seconds=60)
        async with nh.run(batched) as run, Processes(2, max_concurrent_per_worker=4) as workers:
            assert await parallel.map(double, range(8), on=workers) == [2 * each for each in range(8)]
            usage = run.usage_meter.usage
        assert [len(batch.requests) for batch in server.batches.all] == [4, 4]
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (8, 8_000, 800)


async def test_a_coding_agent_works_beside_its_worker_and_spends_from_the_program(tmp_path: Path) -> None:
    def answer(request: RecordedRequest) -> ModelReply:
        return reply(nh_call("nh_assign", target_path="result", expression="2 * number"), OUTCOME)

    claude = Claude("fake", tmp_path, answer)
    async with (
        claude.serving(),
        nh.run(claude.configuration()) as run,
        Processes(1, max_concurrent_per_worker=2) as workers,
    ):
        with nh.budget(turns=3) as budget:
            assert await parallel.map(double, [1, 2], on=workers) == [2, 4]
            assert (budget.spent.turns, run.usage_meter.usage.requests) == (2, 2)
            ended = await parallel.settle(double, [3, 4], max_concurrent=1, on=workers)
    assert [type(each) for each in ended.errors()] == [BudgetExceededError]
    assert len(claude.requests) == 3
    assert processes() == []
