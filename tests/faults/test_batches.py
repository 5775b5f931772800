"""Steps through the batch endpoints of providers, at a loopback server."""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.credentials import Token, bearer
from nighthawk_async.errors import ConfigurationError, ModelProviderError, ModelStatusError
from nighthawk_async.models import batch as batch_module
from nighthawk_async.observe import NodeView
from nighthawk_async.parallel import map as parallel_map, settle
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, ScriptedModel, cassette
from nighthawk_async.types.usage import Usage

pytestmark = pytest.mark.anyio

MODELS = ["anthropic:tested", "openai-responses:tested", "openai-chat:tested", "google:tested"]
PRICE = {"price": {"input": "2", "output": "8"}, "structured_output": True}
USAGE = Usage(requests=1, input_tokens=1000, output_tokens=100)
HALF = Decimal("0.0014")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask about batches more often than providers would like."""
    monkeypatch.setattr(batch_module, "_FIRST_POLL_SECONDS", 0.01)


@nh.natural_function
async def double(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    result: int
    return result


@nh.natural_function
def double_now(number: int) -> int:
    """natural
    Set <:result> to twice <number>.
    """
    result: int
    return result


def number_in(request: RecordedRequest) -> int:
    found = re.search(r"number: int = (\d+)", request.content.decode())
    assert found is not None
    return int(found[1])


def doubled(request: RecordedRequest) -> ModelReply:
    answer = {"result": {"kind": "pass", "bindings": {"result": 2 * number_in(request)}}}
    return ModelReply(text=json.dumps(answer), usage=USAGE)


def failing(
    number: int, *statuses: int, otherwise: Callable[[RecordedRequest], ModelReply] = doubled
) -> Callable[[RecordedRequest], ModelReply]:
    """Replies, of which those to one number fail as often as there are statuses."""
    left = list(statuses)

    def answer(request: RecordedRequest) -> ModelReply:
        if number_in(request) == number and left:
            return ModelReply(status=left.pop(0), text="this one fails")
        return otherwise(request)

    return answer


def batched_at(server: ModelServer, model: str = MODELS[0], **options: Any) -> Any:
    """A batched model at a server, with a window that the requests of a test fill."""
    settings = options.pop("settings", {})
    base_url = f"{server.base_url}beta" if model.startswith("google") else server.base_url
    key = {} if "credentials" in settings else {"api_key": "a-secret-key"}
    configuration = nh.StepExecutorConfiguration(
        model=model,
        model_settings={"base_url": base_url, "capabilities": PRICE, **key, **settings},
    )
    return nh.batched(configuration, **{"window_seconds": 0.2, **options})


def direct(model: Any) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    return nh.AgentStepExecutor.from_model(model, configuration=configuration)


@pytest.mark.parametrize("model", MODELS)
async def test_a_hundred_parallel_steps_are_one_batch_at_half_the_price(model: str) -> None:
    async with ModelServer(doubled) as server:
        async with nh.run(direct(batched_at(server, model, max_requests=100, window_seconds=600))) as run:
            results = await parallel_map(double, range(100))
        (batch,) = server.batches.all
    assert results == [2 * each for each in range(100)]
    assert len(batch.requests) == 100
    usage = run.usage_meter.usage
    assert (usage.requests, usage.retries, usage.cost) == (100, 0, 100 * HALF)
    assert usage.is_complete
    assert list(run.usage_meter.usage_by_model) == [model]


@pytest.mark.parametrize("model", MODELS)
async def test_an_item_fails_like_a_single_request(model: str) -> None:
    async with ModelServer(failing(1, 400)) as server:
        async with nh.run(direct(batched_at(server, model, max_requests=3))):
            settled = await settle(double, range(3))
        assert len(server.batches.all) == 1
    assert settled.values() == [0, 4]
    (error,) = settled.errors()
    assert isinstance(error, ModelStatusError)
    assert error.status == 400
    assert "this one fails" in str(error)
    assert str(error).startswith(f"{model}: ")


@pytest.mark.parametrize("model", MODELS)
async def test_an_item_that_failed_for_a_passing_reason_is_part_of_the_next_batch(model: str) -> None:
    async with ModelServer(failing(1, 429, 503)) as server:
        async with nh.run(direct(batched_at(server, model, max_requests=3, window_seconds=0.05))) as run:
            results = await parallel_map(double, range(3))
        assert [len(each.requests) for each in server.batches.all] == [3, 1, 1]
    assert results == [0, 2, 4]
    usage = run.usage_meter.usage
    assert (usage.requests, usage.retries, usage.cost) == (3, 2, 3 * HALF)


async def test_an_item_is_asked_again_no_more_often_than_a_single_request() -> None:
    async with ModelServer(failing(1, *[529] * 9)) as server:
        async with nh.run(direct(batched_at(server, window_seconds=0.01))):
            with pytest.raises(ModelStatusError, match="this one fails") as caught:
                await double(1)
        assert len(server.batches.all) == 3
    assert caught.value.retries == 2


@pytest.mark.parametrize("model", MODELS)
async def test_the_requests_of_an_expired_batch_are_asked_again(model: str) -> None:
    async with ModelServer(doubled) as server:
        server.batches.endings.append("expired")
        async with nh.run(direct(batched_at(server, model, max_requests=2))) as run:
            assert await parallel_map(double, range(2)) == [0, 2]
        assert [each.state for each in server.batches.all] == ["expired", "completed"]
    usage = run.usage_meter.usage
    assert (usage.retries, usage.cost, usage.is_complete) == (2, 2 * HALF, True)


@pytest.mark.parametrize("model", MODELS[1:])
async def test_a_batch_that_the_provider_refuses_fails_each_step(model: str) -> None:
    async with ModelServer(doubled) as server:
        server.batches.endings.append("failed")
        async with nh.run(direct(batched_at(server, model, max_requests=2))):
            errors = (await settle(double, [1, 2])).errors()
    assert all(isinstance(each, ModelProviderError) for each in errors)
    assert all("the batch is refused" in str(each) for each in errors)
    assert errors[0] is not errors[1]


async def test_a_window_ends_by_time_and_by_size() -> None:
    async with ModelServer(doubled) as server:
        async with nh.run(direct(batched_at(server, max_requests=4, window_seconds=0.1))):
            await parallel_map(double, range(10))
        assert [len(each.requests) for each in server.batches.all] == [4, 4, 2]


async def test_a_batch_is_no_larger_than_the_provider_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    from nighthawk_async.models.batch_google import GoogleBatches

    monkeypatch.setattr(GoogleBatches, "max_bytes", 5_000)
    async with ModelServer(doubled) as server:
        async with nh.run(direct(batched_at(server, "google:tested"))):
            assert await parallel_map(double, range(10)) == [2 * each for each in range(10)]
        batches = server.batches.all
        assert len(batches) > 2
        assert sum(len(each.requests) for each in batches) == 10
        sizes = [len(each.content) for each in server.requests if each.path.endswith("GenerateContent")]
        assert max(sizes) <= 5_000


@pytest.mark.parametrize("model", MODELS)
async def test_a_submission_whose_answer_is_lost_is_found_at_the_provider(model: str) -> None:
    async with ModelServer(doubled) as server:
        server.batches.loses = 1
        server.batches.ends_when_listed = True  # Anthropic shows the ids of the items of no other batch
        async with nh.run(direct(batched_at(server, model, max_requests=2))):
            assert await parallel_map(double, range(2)) == [0, 2]
        assert len(server.batches.all) == 1


@pytest.mark.parametrize("status", [502, 504])
async def test_a_submission_that_may_have_arrived_is_looked_for_before_another_one(status: int) -> None:
    async with ModelServer(doubled) as server:
        server.batches.refusals.append(status)
        model = batched_at(server, "google:tested", max_requests=1, settings={"max_retries": 1})
        async with nh.run(direct(model)) as run:
            assert await double(1) == 2
        paths = [each.path.rpartition("/")[2].partition("?")[0] for each in server.requests]
        submission = "tested:batchGenerateContent"
        assert paths == [submission, "batches", submission, "google-1"]
    assert run.usage_meter.usage.retries == 1


ODD = {
    "nothing": b"",
    "list": b"[]",
    "null": b"null",
    "empty": b"{}",
    "numbers": b'{"id": 1, "name": 2, "processing_status": 3, "status": 4, "metadata": 5}',
    "ended": json.dumps(
        {
            "id": "1",
            "name": "batches/1",
            "processing_status": "ended",
            "status": "completed",
            "output_file_id": "2",
            "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": [1]},
            "response": {"inlinedResponses": [1, {"error": "bad"}, {"response": []}]},
            "custom_id": "3",
            "result": {"type": "errored", "error": "bad"},
        }
    ).encode(),
    "failed": json.dumps(
        {
            "id": "1",
            "name": "batches/1",
            "processing_status": "ended",
            "status": "failed",
            "errors": [1],
            "metadata": {"state": "BATCH_STATE_FAILED", "error": 7},
            "custom_id": 3,
        }
    ).encode(),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("model", MODELS)
async def test_an_odd_answer_about_a_batch_is_a_model_error(
    model: str, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(request: RecordedRequest) -> ModelReply:
        return ModelReply(body=ODD[odd])

    async with ModelServer(doubled) as server:
        monkeypatch.setattr(server, "_serve_beside", serve)
        batched = batched_at(server, model, max_requests=1, settings={"max_retries": 0})
        async with nh.run(direct(batched)):
            with pytest.raises(nh.ModelError):
                await double(1)


async def test_a_key_for_each_request_does_not_keep_requests_apart() -> None:
    async with ModelServer(doubled) as server:
        settings = {"idempotency_header": "Idempotency-Key"}
        async with nh.run(direct(batched_at(server, max_requests=2, settings=settings))):
            await parallel_map(double, range(2))
        assert len(server.batches.all) == 1


async def test_a_step_that_outlives_its_run_fails() -> None:
    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = None
        errors: list[Exception] = []

        async def ask() -> None:
            async with run.extent():
                try:
                    await double(1)
                except nh.NighthawkError as error:
                    errors.append(error)

        executor = direct(batched_at(server, max_requests=1))
        async with anyio.create_task_group() as task_group, nh.run(executor) as run:
            task_group.start_soon(ask)
            await server.batches.wait_until(lambda: server.batches.all and server.batches.all[0].polls > 0)
        assert "The run has ended" in str(errors[0])


async def test_a_submission_that_is_refused_fails_each_step() -> None:
    async with ModelServer(doubled) as server:
        model = batched_at(server, max_requests=2, settings={"max_retries": 0})
        server.batches.refusals.append(403)
        async with nh.run(direct(model)):
            errors = (await settle(double, [1, 2])).errors()
    assert [getattr(each, "status", None) for each in errors] == [403, 403]


async def test_a_cancelled_step_leaves_its_batch() -> None:
    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = None
        async with nh.run(direct(batched_at(server, max_requests=2))) as run:
            results: list[int] = []
            scope = anyio.CancelScope()

            async def stay() -> None:
                results.append(await double(1))

            async def leave() -> None:
                with scope:
                    await double(2)

            run.task_group.start_soon(stay)
            run.task_group.start_soon(leave)
            await server.batches.wait_until(lambda: server.batches.all and server.batches.all[0].polls > 0)
            scope.cancel()
            await server.batches.wait_until(lambda: server.batches.all[0].polls > 3)
            assert server.batches.all[0].state == "working"
            server.batches.polls_until_end = 1
        assert results == [2]
        usage = run.usage_meter.usage
        assert usage.requests == 2
        assert not usage.is_complete  # the provider may have worked on the other one


@pytest.mark.parametrize("model", MODELS)
async def test_a_batch_that_all_steps_have_left_is_cancelled(model: str) -> None:
    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = None
        async with nh.run(direct(batched_at(server, model, max_requests=2))):
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(double, 1)
                task_group.start_soon(double, 2)
                await server.batches.wait_until(
                    lambda: server.batches.all and server.batches.all[0].polls > 0
                )
                task_group.cancel_scope.cancel()
            await server.batches.wait_until(lambda: server.batches.all[0].state == "cancelled")
            server.batches.polls_until_end = 1
            assert await parallel_map(double, [3, 4]) == [6, 8]  # the model goes on


async def test_a_step_that_leaves_a_window_sends_nothing() -> None:
    async with ModelServer(doubled) as server:
        async with nh.run(direct(batched_at(server, window_seconds=600))) as run:
            with anyio.move_on_after(0.05):
                await double(1)
        assert server.requests == []
    assert run.usage_meter.usage.input_tokens == 0


async def test_the_end_of_a_run_cancels_its_batches() -> None:
    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = None
        with anyio.CancelScope() as scope:
            async with nh.run(direct(batched_at(server, max_requests=1))) as run:
                run.task_group.start_soon(double, 1)
                await server.batches.wait_until(
                    lambda: server.batches.all and server.batches.all[0].polls > 0
                )
                scope.cancel()
        assert server.batches.all[0].state == "cancelled"


def test_synchronous_functions_in_a_run_that_was_entered_with_with() -> None:
    with ModelServer.in_thread(doubled) as server:
        with nh.run(direct(batched_at(server, window_seconds=0.01))) as run:
            assert double_now(4) == 8
        assert len(server.batches.all) == 1
    assert run.usage_meter.usage.cost == HALF


async def test_a_run_that_was_entered_with_with_says_what_it_lacks_on_a_loop_of_the_program() -> None:
    async with ModelServer(doubled) as server:
        refused = pytest.raises(nh.NighthawkError, match="entered with `async with`")
        with nh.run(direct(batched_at(server))), refused:
            await double(1)


async def test_the_tree_shows_the_wait_and_the_batch() -> None:
    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = None
        with nh.observe.TaskTree().recording() as tree:
            async with nh.run(direct(batched_at(server, max_requests=1))) as run:
                run.task_group.start_soon(double, 1)
                await server.batches.wait_until(
                    lambda: server.batches.all and server.batches.all[0].polls > 0
                )
                (node,) = [each for each in nodes(tree.snapshot()) if each.kind == "model_request"]
                assert node.state == "waiting"
                assert node.attributes["nighthawk.model.batch_id"] == "msgbatch_1"
                server.batches.polls_until_end = 1


@pytest.mark.parametrize("model", MODELS)
async def test_every_call_is_authenticated_and_a_token_that_expires_is_renewed(model: str) -> None:
    tokens = iter(range(100))

    async def fetch() -> Token:
        return Token(f"token-{next(tokens)}", None)

    async with ModelServer(doubled) as server:
        server.batches.polls_until_end = 3
        executor = direct(batched_at(server, model, max_requests=1, settings={"credentials": bearer(fetch)}))
        async with nh.run(executor):
            assert await double(1) == 2
        assert {each.headers["authorization"] for each in server.requests} == {"Bearer token-0"}


async def test_a_budget_sets_aside_the_price_of_a_batch() -> None:
    async with ModelServer(doubled) as server:
        model = batched_at(server, window_seconds=0.01, settings={"max_tokens": 1000})
        full = 1000 * Decimal(8) / 1_000_000  # of the longest response, outside a batch
        async with nh.run(direct(model)):
            with nh.budget(cost=full * Decimal("0.9")):
                assert await double(1) == 2
            with pytest.raises(nh.BudgetExceededError), nh.budget(cost=full * Decimal("0.4")):
                await double(1)
        assert len(server.batches.all) == 1


async def test_responses_of_batches_are_recorded_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "batches.yaml"
    async with ModelServer(doubled) as server:
        executor = direct(batched_at(server, window_seconds=0.01))
        for mode in ("once", "none"):
            with cassette(path, mode=mode):
                async with nh.run(executor) as run:
                    assert await double(5) == 10
            assert run.usage_meter.usage.cost == HALF
        assert len(server.batches.all) == 1


@pytest.mark.parametrize("preset", ["azure", "mistral-chat", "ollama"])
def test_presets_without_a_known_batch_endpoint_are_refused(preset: str) -> None:
    from nighthawk_async.catalog.providers import PROVIDERS

    name = preset if preset in PROVIDERS else preset.removesuffix("-chat")
    configuration = nh.StepExecutorConfiguration(
        model=f"{name}:some", model_settings={"base_url": "http://127.0.0.1:1/v1", "api_key": "k"}
    )
    with pytest.raises(ConfigurationError, match="no batch endpoint of this provider is known"):
        nh.batched(configuration)


def test_other_models_and_bad_arguments_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no batch endpoint"):
        nh.batched(ScriptedModel([]))
    settings = {"base_url": "http://127.0.0.1:1/v1", "api_key": "k"}
    good = nh.StepExecutorConfiguration(model="anthropic:some", model_settings=settings)
    for bad in ({"window_seconds": -1}, {"window_seconds": float("nan")}, {"max_requests": 0}):
        with pytest.raises(ConfigurationError, match=next(iter(bad))):
            nh.batched(good, **bad)  # type: ignore[arg-type]


def nodes(view: NodeView) -> Iterator[NodeView]:
    yield view
    for child in view.children:
        yield from nodes(child)
