"""Equal model requests are answered with the response to the first of them."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async import resilience
from nighthawk_async.mcp.methods import ConnectedServer
from nighthawk_async.resilience import Baseline, MemoryStore, SqliteStore, cached, ensemble, retrying, vote
from nighthawk_async.testing import (
    ModelReply,
    ModelServer,
    RecordedRequest,
    ScriptedModel,
    model_response,
    tool_call,
)

from .cached_models import Counting, Gated, answer, number

pytestmark = pytest.mark.anyio

EACH_STORE = pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "sqlite"])


def store_of(in_memory: bool, folder: Path) -> MemoryStore | SqliteStore:
    return MemoryStore() if in_memory else SqliteStore(folder / "responses.db")


# ---- equal requests


@EACH_STORE
async def test_of_500_equal_steps_at_once_one_asks_the_model(in_memory: bool, tmp_path: Path) -> None:
    model = Counting()
    async with nh.run(model), cached(store=store_of(in_memory, tmp_path)):
        assert await nh.parallel.map(number, ["a"] * 500) == [1] * 500
        usage = nh.get_usage_meter().usage
    assert model.asked == 1
    assert usage == nh.Usage(
        requests=1,
        input_tokens=10,
        output_tokens=5,
        cached_requests=499,
        unpriced_requests=usage.unpriced_requests,
    )
    assert str(usage) == "15 tokens, 499 cached"


@EACH_STORE
async def test_responses_outlive_the_run_and_the_cache(in_memory: bool, tmp_path: Path) -> None:
    store, model = store_of(in_memory, tmp_path), Counting()
    for _ in range(3):
        async with nh.run(model), cached(store=store):
            assert await number("a") == 1
    assert model.asked == 1
    assert store.statistics().entries == 1


async def test_other_texts_are_other_requests() -> None:
    model = Counting()
    async with nh.run(model), cached():
        assert [await number(text) for text in ("a", "b", "a", "b")] == [1, 2, 1, 2]


async def test_every_turn_of_a_step_is_answered_and_its_tools_run_again() -> None:
    calls: list[str] = []

    def look(text: str) -> str:
        calls.append(text)
        return text * len(calls)

    @nh.natural_function
    async def looked(text: str) -> int:
        value: int = nh.unset
        """natural
        Set <:value> by <look> at <text>.
        """
        return value

    def respond(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            return model_response(tool_call("nh_eval", expression="look(text)"))
        return answer(len(str(request.messages[-1])))

    model = ScriptedModel(respond)
    async with nh.run(model), cached():
        first, second = await looked("a"), await looked("a")
    assert calls == ["a", "a"]
    assert first != second  # the second call gave something else, so the request after it is another one
    assert len(model.requests) == 3


# ---- what it holds for


async def test_a_function_may_have_a_cache_of_its_own() -> None:
    @resilience.cached
    async def decorated(text: str) -> int:
        return await number(text)

    model = Counting()
    wrapped = cached(number, store=MemoryStore())
    async with nh.run(model):
        assert [await decorated("a"), await decorated("a")] == [1, 1]
        assert [await wrapped("a"), await wrapped("a")] == [2, 2]
        assert await number("a") == 3


async def test_a_synchronous_function_has_it_in_its_thread() -> None:
    @nh.natural_function
    def sync_number(text: str) -> int:
        value: int = nh.unset
        """natural
        Set <:value> to the number of <text>.
        """
        return value

    held = cached(sync_number)
    async with nh.run(Counting()):
        assert [await to_thread.run_sync(held, "a") for _ in range(2)] == [1, 1]


async def test_the_innermost_cache_counts_and_none_turns_it_off() -> None:
    outer = cached()
    async with nh.run(Counting()):
        with outer:
            assert await number("a") == 1
            with cached(store=None):
                assert await number("a") == 2
            with cached(), outer:
                assert await number("a") == 1
            assert await number("a") == 1
        assert await number("a") == 3


async def test_one_cache_may_be_entered_by_many_tasks_at_once() -> None:
    held, model = cached(), Counting()

    async def within(text: str) -> int:
        async with held:
            await checkpoint()
            return await number(text)

    async with nh.run(model):
        assert await nh.parallel.map(within, ["a"] * 20) == [1] * 20
        assert await number("a") == 2


async def test_a_path_is_the_same_store_wherever_it_is_named(tmp_path: Path) -> None:
    path, model = tmp_path / "responses.db", Counting()

    async def within(name: Any) -> int:
        async with cached(store=name):
            return await number("a")

    async with nh.run(model):
        names = [path, str(path), f"sqlite:///{path}"]
        assert await nh.parallel.map(within, names) == [1, 1, 1]


@pytest.mark.parametrize("store", [3, "", ":memory:", "postgresql://x", object()])
def test_a_bad_store_is_refused(store: Any) -> None:
    with pytest.raises(resilience.InvalidPolicyError, match="store"):
        cached(store=store)


def test_a_model_is_no_function() -> None:
    with pytest.raises(TypeError, match="cached needs a function"):
        cached(Counting())  # type: ignore[type-var]


# ---- one at a time


async def test_the_next_one_asks_when_the_first_is_cancelled() -> None:
    began, results = anyio.Event(), list[int]()

    async def gate(asked: int) -> None:
        if asked == 1:
            began.set()
            await anyio.sleep_forever()

    model = Gated(gate)

    async def ask() -> None:
        results.append(await number("a"))

    async def first(*, task_status: Any) -> None:
        with anyio.CancelScope() as scope:
            task_status.started(scope)
            await number("a")

    async with nh.run(model), cached(), anyio.create_task_group() as group:
        scope = await group.start(first)
        await began.wait()
        for _ in range(10):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
    assert results == [2] * 10
    assert model.asked == 2


async def test_waiting_for_another_request_can_be_cancelled() -> None:
    release = anyio.Event()
    model = Gated(lambda asked: release.wait())
    async with nh.run(model), cached(), anyio.create_task_group() as group:
        group.start_soon(number, "a")
        await anyio.wait_all_tasks_blocked()
        with anyio.CancelScope() as scope:
            group.start_soon(_cancel, scope)
            await number("a")
        assert scope.cancelled_caught
        release.set()
    assert model.asked == 1


async def test_all_that_wait_fail_with_the_error_of_the_first_and_nothing_is_kept() -> None:
    release, store = anyio.Event(), MemoryStore()

    async def gate(asked: int) -> None:
        await release.wait()
        if asked == 1:
            raise nh.errors.ModelStatusError("busy", status=503, is_transient=True, retry_after_seconds=7)

    model = Gated(gate)
    async with nh.run(model), cached(store=store):
        async with anyio.create_task_group() as group:
            group.start_soon(_release, release)
            outcomes = await nh.parallel.settle(number, ["a"] * 5)
        errors = [outcome.error for outcome in outcomes if isinstance(outcome, nh.parallel.Failed)]
        assert [(type(error).__name__, str(error)) for error in errors] == [
            ("ModelStatusError", str(errors[0]))
        ] * 5
        assert len({id(error) for error in errors}) == 5
        assert store.statistics().entries == 0
        assert await number("a") == 2


async def _cancel(scope: anyio.CancelScope) -> None:
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


async def _release(event: anyio.Event) -> None:
    await anyio.wait_all_tasks_blocked()
    event.set()


async def test_retries_of_equal_steps_meet_again() -> None:
    async def gate(asked: int) -> None:
        if asked == 1:
            await anyio.wait_all_tasks_blocked()
            raise nh.errors.ModelStatusError("busy", status=503, is_transient=True)

    model = Gated(gate)
    baseline = Baseline(retries=retrying(attempts=3, wait=0))
    async with nh.run(model, resilience=baseline), cached():
        assert await nh.parallel.map(number, ["a"] * 20) == [2] * 20
    assert model.asked == 2


def test_event_loops_in_several_threads_share_a_cache() -> None:
    model, store, count = Counting(), MemoryStore(), 4
    results: list[int] = []

    async def main() -> None:
        async with nh.run(model), cached(store=store):
            results.extend(await nh.parallel.map(number, ["a"] * 25))

    async def all_loops() -> None:
        async with anyio.create_task_group() as group:
            for index in range(count):
                backend = ("trio", "asyncio")[index % 2]
                group.start_soon(to_thread.run_sync, partial(anyio.run, main, backend=backend))

    anyio.run(all_loops)
    assert results == [1] * 25 * count
    assert model.asked == 1


# ---- answers of their own


async def test_the_calls_of_a_vote_have_answers_of_their_own() -> None:
    model = Counting()
    panel = vote(number, count=3, decide=sorted)
    async with nh.run(model), cached():
        assert [await panel("a"), await panel("a"), await number("a")] == [[1, 2, 3], [1, 2, 3], 1]
    assert model.asked == 3


async def test_votes_of_votes_have_answers_of_their_own() -> None:
    model = Counting()
    panel = vote(vote(number, count=2, decide=sum), count=2, decide=sum)
    async with nh.run(model), cached():
        assert [await panel("a"), await panel("a")] == [10, 10]


def _replies(request: RecordedRequest) -> ModelReply:
    _replies.count += 1  # type: ignore[attr-defined]
    call = tool_call("nh_outcome", kind="pass", bindings={"value": _replies.count})  # type: ignore[attr-defined]
    return ModelReply(tool_calls=(call,))


async def test_the_calls_of_an_ensemble_have_answers_of_their_own() -> None:
    _replies.count = 0  # type: ignore[attr-defined]
    panel = ensemble(
        number,
        {"openai-chat:large": 2, "openai-chat:small": 1},
        reconcile=lambda answers: sorted(each.value for each in answers),
    )
    async with ModelServer(_replies) as server:
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:large", model_settings={"base_url": server.base_url}
        )
        async with nh.run(configuration), cached():
            assert [await panel("a"), await panel("a")] == [[1, 2, 3]] * 2
        assert len(server.requests) == 3


def wrong_first() -> ScriptedModel:
    """A model whose first answer is no number."""
    model = ScriptedModel(lambda request: answer("none" if len(model.requests) == 1 else 4))
    return model


@pytest.mark.parametrize("form", ["function", "block", "baseline"])
async def test_an_attempt_does_not_get_the_answer_that_has_failed(form: str) -> None:
    model = wrong_first()
    configuration = nh.StepExecutorConfiguration(max_corrective_turns=0)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)

    async def attempts() -> int:
        if form == "baseline":
            with nh.scope(resilience=Baseline(retries=retrying(wait=0))):
                return await number("a")
        if form == "function":
            return await retrying(number, wait=0)("a")
        async for attempt in retrying(wait=0):
            with attempt:
                return await number("a")
        raise AssertionError("no attempt")

    async with nh.run(executor), cached():
        assert [await attempts() for _ in range(3)] == [4, 4, 4]
    assert len(model.requests) == 2


# ---- what is not cached


@pytest.mark.parametrize("reason", ["length", "content_filter", "other", "pause"])
async def test_a_response_that_is_not_whole_is_not_kept(reason: Any) -> None:
    store = MemoryStore()
    model = ScriptedModel(lambda request: answer(1, finish_reason=reason))
    async with nh.run(model), cached(store=store):
        await nh.parallel.settle(number, ["a"] * 3)
    assert store.statistics().entries == 0
    assert len(model.requests) >= 3


async def test_a_response_that_breaks_off_is_not_kept() -> None:
    store = MemoryStore()
    cut = nh.testing.ModelResponse(events=answer(1).events[:-1])
    model = ScriptedModel([cut, answer(2)])
    async with nh.run(model), cached(store=store):
        with pytest.raises(nh.errors.ModelProtocolError):
            await number("a")
        assert store.statistics().entries == 0
        assert await number("a") == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"store": True},
        {"background": True},
        {"extra_body": {"store": True}},
        {"extra_body": {"tools": [{"type": "web_search"}]}},
        {"extra_body": {"previous_response_id": "r"}},
        {"mcp_servers": [{"url": "https://example.com"}]},
        {"web_search_options": {}},
    ],
    ids=lambda settings: next(iter(settings)),
)
async def test_requests_with_which_the_provider_acts_are_not_cached(settings: dict[str, Any]) -> None:
    model = Counting()
    configuration = nh.StepExecutorConfiguration(model_settings=settings)
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor), cached():
        assert [await number("a"), await number("a")] == [1, 2]


@nh.once
async def pay(amount: int) -> None:
    """Pay."""


class Till:
    @nh.once
    async def pay(self, amount: int) -> None:
        """Pay."""


class Files(ConnectedServer):
    """Stands for a server of the Model Context Protocol."""


@nh.repeatable
async def price(text: str) -> int:
    return 1


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (pay, [1, 2]),
        (Till(), [1, 2]),
        (Till().pay, [1, 2]),
        (Files(), [1, 2]),
        (price, [1, 1]),
        (len, [1, 1]),
    ],
)
async def test_steps_that_may_call_what_happens_once_are_not_cached(named: Any, expected: list[int]) -> None:
    @nh.natural_function
    async def careful(text: str) -> int:
        value: int = nh.unset
        """natural
        Set <:value> by <named> and <text>.
        """
        assert named
        return value

    async with nh.run(Counting()), cached():
        assert [await careful("a"), await careful("a")] == expected


async def test_steps_with_a_tool_that_happens_once_are_not_cached() -> None:
    async with nh.run(Counting(), tools=[pay]), cached():
        assert [await number("a"), await number("a")] == [1, 2]
    async with nh.run(Counting(), tools=[price]), cached():
        assert [await number("a"), await number("a")] == [1, 1]
