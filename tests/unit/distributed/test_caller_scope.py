"""The scope of a caller on workers: it is there as it is locally, or is refused by name."""

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async import parallel, resilience
from nighthawk_async.distributed import CrossingError, LocalOnlyError, Processes
from nighthawk_async.errors import StepRejectedError
from nighthawk_async.hooks import Hooks, StepStarted
from nighthawk_async.placements import call_placed
from nighthawk_async.policies.attempts.samples import using_seed
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedExecutor,
    ScriptedModel,
    cassette,
    return_response,
)
from tests import worker_scopes as crossed
from tests.in_memory_workers import InMemoryWorkers
from tests.unit.skills.folders import write_skill

pytestmark = pytest.mark.anyio


@pytest.fixture
async def workers() -> AsyncGenerator[InMemoryWorkers, None]:
    async with InMemoryWorkers() as workers:
        yield workers


def hooks_of(function: Callable[[StepStarted], object]) -> Hooks:
    hooks = Hooks()
    hooks.on(StepStarted, function)
    return hooks


async def described(workers: parallel.Placement, **scope: Any) -> dict[str, Any]:
    """Describe a scope on a worker; it is the same as here."""
    async with nh.run(CallbackExecutor(crossed.answer)), nh.scope(**scope):
        here = await crossed.described(0)
        assert await call_placed(workers, crossed.described, 0) == here
    return here


async def test_settings_cross(workers: InMemoryWorkers) -> None:
    there = await described(
        workers,
        system_prompt_suffix_fragments=["Be brief."],
        user_prompt_suffix_fragments=["Now."],
        max_depth=3,
        concurrent_mutation="error",
        implicit_references={"settings": crossed.Settings(), "path": Path("a"), "kind": crossed.Settings},
    )
    assert there["system"] == ["Be brief."]
    assert there["max_depth"] == 3
    assert list(there["references"]) == ["settings", "path", "kind"]


async def test_tools_cross(workers: InMemoryWorkers) -> None:
    listed = await described(workers, tools=[crossed.look_up])
    assert "look_up" in listed["tools"]
    deferred = await described(workers, tools=[nh.tool_set([crossed.is_short], deferred=True)])
    assert "is_short (deferred)" in deferred["tools"]
    replaced = await described(workers, mode="replace", tools=[crossed.is_short])
    assert replaced["tools"] == ["is_short"]


async def test_what_has_been_used_here_crosses_as_well(workers: InMemoryWorkers) -> None:
    async with (
        nh.run(ScriptedModel(crossed.model_that_looks_up)),
        nh.scope(
            mode="replace",
            tools=[crossed.look_up],
            permissions=nh.permissions(allow=[crossed.look_up, "nh_*"], default="deny"),
        ),
    ):
        assert await crossed.step("a") == "look_up"
        assert await call_placed(workers, crossed.step, "a") == "look_up"
        with nh.scope(past=nh.transcript()):
            assert (await call_placed(workers, crossed.described, 0))["past"]


async def test_a_tool_that_is_registered_later_crosses(workers: InMemoryWorkers) -> None:
    async with nh.run(CallbackExecutor(crossed.answer)):
        assert "is_short" not in (await call_placed(workers, crossed.described, 0))["tools"]
        nh.tool(crossed.is_short)
        assert "is_short" in (await call_placed(workers, crossed.described, 0))["tools"]


async def test_policies_cross(workers: InMemoryWorkers, tmp_path: Path) -> None:
    write_skill(tmp_path, "sums")
    there = await described(
        workers,
        hooks=[crossed.hooks, hooks_of(crossed.note_again)],
        oversight=crossed.NoCommits(),
        verify=crossed.never_done,
        permissions=nh.permissions(allow=nh.policies.rule("look_up", when=crossed.is_short), default="deny"),
        resilience=resilience.Baseline(timeout=5, retries=2),
        policies=[crossed.PlainPolicy(), crossed.CopiedPolicy()],
        skills=nh.skills.load(tmp_path),
    )
    assert len(there["policies"]) >= 7
    assert there["skills"] == ["sums"]


async def test_a_block_names_a_skill_as_it_does_in_the_program(
    workers: InMemoryWorkers, tmp_path: Path
) -> None:
    write_skill(tmp_path, "tidy-up")
    async with nh.run(CallbackExecutor(crossed.answer), skills=nh.skills.load(tmp_path)):
        assert await crossed.tidied("a") == "done"
        assert await call_placed(workers, crossed.tidied, "a") == "done"


async def test_hooks_are_called_once(workers: InMemoryWorkers) -> None:
    crossed.began.clear()
    async with nh.run(CallbackExecutor(crossed.answer), run_id="first", hooks=crossed.hooks):
        assert await call_placed(workers, crossed.steps_in_scope, 0) == "done"
        assert crossed.began == ["first"]
        late = hooks_of(crossed.note_again)
        async with nh.scope(hooks=late):
            await call_placed(workers, crossed.step, "a")
            late.on(StepStarted, crossed.note_step)
            crossed.began.clear()
            await call_placed(workers, crossed.step, "a")
        assert crossed.began == ["first", "again", "first"]


async def test_oversight_and_checks_hold(workers: InMemoryWorkers) -> None:
    async with nh.run(CallbackExecutor(crossed.answer), oversight=crossed.NoCommits()):
        with pytest.raises(StepRejectedError, match="no commits today"):
            await call_placed(workers, crossed.step, "a")


async def test_a_cache_in_a_file_crosses(workers: InMemoryWorkers, tmp_path: Path) -> None:
    async with nh.run(CallbackExecutor(crossed.answer)), resilience.cached(store=tmp_path / "responses.db"):
        assert (await call_placed(workers, crossed.described, 0))["cache"]
    async with nh.run(CallbackExecutor(crossed.answer)):
        assert not (await call_placed(workers, crossed.described, 0))["cache"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "method of a list": ({"verify": [].append}, r"the checks .*'append' of a list"),
    "method of an object": ({"verify": crossed.Counting().count}, "the checks .*Counting has attributes"),
    "lambda": ({"verify": lambda _: None}, "the checks .*not at the top level of a module"),
    "policy": ({"policies": crossed.CountingPolicy()}, "the policies .*CountingPolicy has attributes"),
    "hooks": (
        {"policies": crossed.HookedPolicy(hooks_of(crossed.note_step))},
        "the policies .*hooks are called in",
    ),
    "list": ({"implicit_references": {"words": ["a"]}}, "reference 'words' .* a list may change"),
    "object": (
        {"implicit_references": {"it": crossed.Counting()}},
        "reference 'it' .* a Counting may change",
    ),
    "answers": ({"step_executor": ScriptedModel([])}, "the executor .* a ScriptedModel uses each"),
    "responses": (
        {"step_executor": ScriptedExecutor([return_response("a")])},
        "the executor .* a ScriptedExecutor uses each",
    ),
    "callback": (
        {"step_executor": CallbackExecutor(lambda _: return_response("a"))},
        "the executor .*lambda",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_would_differ_is_refused_by_name(workers: InMemoryWorkers, name: str) -> None:
    scope, message = REFUSED[name]
    async with nh.run(CallbackExecutor(crossed.answer)), nh.scope(**scope):
        with pytest.raises(CrossingError, match=message):
            await call_placed(workers, crossed.step, "a")


async def test_recorders_and_memory_stay_in_the_program(workers: InMemoryWorkers, tmp_path: Path) -> None:
    async with nh.run(CallbackExecutor(crossed.answer)):
        async with cassette(tmp_path / "cassette.yaml"):
            with pytest.raises(LocalOnlyError, match="a cassette"):
                await call_placed(workers, crossed.step, "a")
        async with resilience.cached():
            with pytest.raises(CrossingError, match=r"the response cache .*memory of this process"):
                await call_placed(workers, crossed.step, "a")


async def test_the_seed_of_a_trial_crosses(workers: InMemoryWorkers) -> None:
    async with nh.run(CallbackExecutor(crossed.answer)):
        with using_seed(7):
            assert await call_placed(workers, crossed.seed, 0) == 7
        assert await call_placed(workers, crossed.seed, 0) is None


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_everything_crosses_to_processes() -> None:
    async with (
        Processes(1) as workers,
        nh.run(CallbackExecutor(crossed.answer), hooks=crossed.hooks, tools=[crossed.look_up]),
        nh.scope(
            verify=crossed.never_done,
            permissions=nh.permissions(allow=crossed.look_up, default="deny"),
            implicit_references={"settings": crossed.Settings()},
        ),
    ):
        here = await crossed.described(0)
        assert await call_placed(workers, crossed.described, 0) == here
