"""The embedded model for real: `xllamacpp` and the pulled weights, where this machine has them."""

import importlib.util
from collections.abc import Sequence

import anyio
import httpx
import pytest

import nighthawk_async as nh
from nighthawk_async.catalog.local import LOCAL_MODELS
from nighthawk_async.cli.demo_functions import classify
from nighthawk_async.models.local import create_local_model, open_local_server
from nighthawk_async.models.local_process import LocalServerLaunch
from nighthawk_async.models.weights import are_weights_whole, weights_path
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelRequest, ResponseFinished, ResponseFormat, TextDelta

NAME = "smollm2-135m"


def _why_not() -> str:
    weights = LOCAL_MODELS[NAME].weights
    if importlib.util.find_spec("xllamacpp") is None:
        return "the extra 'local' is not installed"
    if weights is None or not are_weights_whole(weights, weights_path(weights)):
        return f"the weights are not here: nighthawk-async models pull {NAME}"
    return ""


pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "everything is here"),
]


def ask_for(schema: dict[str, object], question: str) -> ModelRequest:
    return ModelRequest(
        messages=(UserMessage(content=(question,)),),
        response_format=ResponseFormat(name="answer", schema=schema),
    )


def an_object(name: str, schema: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}


async def test_a_natural_function_runs_on_the_real_model() -> None:
    executor = nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(model=f"local:{NAME}")
    )
    with anyio.fail_after(240):
        async with nh.run(executor) as run:
            label = await classify(
                "The lamp flickers, smells of burnt plastic and frightens me. Do not buy this."
            )
    assert label == "negative"
    assert run.usage_meter.usage.requests == 1
    assert run.usage_meter.usage.output_tokens > 0
    assert run.usage_meter.usage.is_complete


@nh.natural_function
async def read_order(order: str) -> tuple[int, float]:
    quantity: int
    price: float
    """natural
    Set <:quantity> to the number of pieces in <order>, <:price> to the price of one piece.
    """
    return quantity, price


async def test_two_numbers_are_read_by_the_real_model_in_one_request() -> None:
    executor = nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(model=f"local:{NAME}")
    )
    with anyio.fail_after(240):
        async with nh.run(executor) as run:
            english = await read_order("Seven books for 12.40 each.")
            arabic = await read_order("من فضلكم 10 أقلام بسعر 2.25 للقلم.")
    assert (english, arabic) == ((7, 12.4), (10, 2.25))
    assert run.usage_meter.usage.requests == 2


PRICES = {"blue lamp": 12, "red chair": 45}


def price_of(product: str) -> int:
    """The price of a product."""
    return PRICES[product]


def times(first: int, second: int) -> int:
    """Multiply two numbers."""
    return first * second


@nh.natural_function
async def look_up(product: str) -> int:
    """natural
    Look up the price of <product> with <price_of> and set <:price> to it.
    """
    price: int
    return price


@nh.natural_function
async def area(width: int, height: int) -> int:
    """natural
    Set <:size> to <times> of <width> and <height>.
    """
    size: int
    return size


@pytest.mark.weekly
async def test_functions_are_called_by_the_real_model() -> None:
    executor = nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(model=f"local:{NAME}")
    )
    with anyio.fail_after(240):
        async with nh.run(executor) as run:
            assert await look_up("blue lamp") == 12
            assert await look_up("red chair") == 45
            assert await area(173, 29) == 5017
    assert run.usage_meter.usage.requests == 6


async def test_a_response_names_the_model_and_no_path() -> None:
    """It goes to traces, and to clients of services."""
    request = ask_for(an_object("number", {"type": "integer"}), "Which number is this: seven?")
    with anyio.fail_after(240):
        async with create_local_model(NAME, settings={}).stream(request) as events:
            finished = [event async for event in events if isinstance(event, ResponseFinished)]
    assert finished[0].model_name is not None
    assert "smollm2-135m" in finished[0].model_name.lower()
    assert "/" not in finished[0].model_name


async def test_steps_at_once_share_one_server_of_their_run(monkeypatch: pytest.MonkeyPatch) -> None:
    started = await _count_starts(monkeypatch, ["Good. I love it.", "Bad. I hate it."] * 3)
    assert started == 1


async def _count_starts(monkeypatch: pytest.MonkeyPatch, reviews: Sequence[str]) -> int:
    from nighthawk_async.models.local_process import ServerProcess

    spawn = ServerProcess.spawn
    starts = 0

    async def count(*arguments: object) -> ServerProcess:
        nonlocal starts
        starts += 1
        return await spawn(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ServerProcess, "spawn", count)
    executor = nh.AgentStepExecutor.from_configuration(
        configuration=nh.StepExecutorConfiguration(model=f"local:{NAME}")
    )
    with anyio.fail_after(240):
        async with nh.run(executor), anyio.create_task_group() as tasks:
            for review in reviews:
                tasks.start_soon(classify, review)
    return starts


async def test_cancelling_requests_frees_the_servers_slots() -> None:
    """Twelve endless answers would hold all slots for a long time; cancelled, they must not."""
    endless = ask_for(
        an_object("numbers", {"type": "array", "items": {"type": "integer"}, "minItems": 900}), "Count."
    )
    short = ask_for(an_object("number", {"type": "integer"}), "Which number is this: seven?")
    model = create_local_model(NAME, settings={"max_tokens": None})

    async def never_ends() -> None:
        async with model.stream(endless) as events:
            async for _ in events:
                answering.set()

    executor = nh.AgentStepExecutor.from_model(model=model)
    with anyio.fail_after(240):
        async with nh.run(executor):
            for _ in range(3):
                answering = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    for _ in range(4):
                        tasks.start_soon(never_ends)
                    await answering.wait()
                    tasks.cancel_scope.cancel()
            with anyio.fail_after(240):
                async with model.stream(short) as events:
                    received = [event async for event in events]
    assert isinstance(received[-1], ResponseFinished)
    assert "number" in "".join(event.text for event in received if isinstance(event, TextDelta))


ENDPOINTS = [
    "/",
    "/index.html",
    "/health",
    "/v1/health",
    "/models",
    "/v1/models",
    "/props",
    "/slots",
    "/slots/0",
    "/metrics",
    "/api/tags",
    "/api/show",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/lora-adapters",
    "/tools",
    "/completion",
    "/completions",
    "/v1/completions",
    "/chat/completions",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/embedding",
    "/v1/embeddings",
    "/infill",
    "/no-such-path",
]
ANSWERS_TO_WEB_PAGES = ("access-control-allow-origin", "access-control-allow-headers")


async def test_the_server_answers_nobody_without_its_key_and_no_web_page() -> None:
    weights = LOCAL_MODELS[NAME].weights
    assert weights is not None
    launch = LocalServerLaunch(
        gguf=weights_path(weights),
        context_tokens=256,
        parallel_requests=1,
        threads=1,
        start_timeout=60,
    )
    origin = {"origin": "https://elsewhere.example"}
    with anyio.fail_after(240):
        async with (
            open_local_server(launch) as server,
            server.admit() as access,
            httpx.AsyncClient(timeout=240) as client,
        ):
            outside = access.address.removesuffix("/nighthawk")
            assert outside != access.address
            for base, statuses in ((access.address, {401}), (outside, {401, 404})):
                for path in ENDPOINTS:
                    for headers in ({}, {"authorization": "Bearer none"}, {"x-api-key": "none"}):
                        for method in ("GET", "POST"):
                            answer = await client.request(method, base + path, headers={**headers, **origin})
                            assert answer.status_code in statuses, (method, path, answer.text)
                            assert weights.file_name not in answer.text
                            assert not any(answer.headers.get(each) for each in ANSWERS_TO_WEB_PAGES)
            asks = {f"access-control-request-{what}": "POST" for what in ("method", "headers")}
            url = f"{access.address}/v1/chat/completions"
            preflight = await client.options(url, headers={**origin, **asks})
            assert not any(preflight.headers.get(each) for each in ANSWERS_TO_WEB_PAGES)
            assert preflight.headers.get("access-control-allow-credentials") != "true"
            key = {"authorization": f"Bearer {access.key}"}
            allowed = await client.get(f"{access.address}/v1/models", headers={**key, **origin})
            assert allowed.status_code == 200
            assert not any(allowed.headers.get(each) for each in ANSWERS_TO_WEB_PAGES)


async def test_a_file_that_is_no_model_is_a_clear_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("models") / "broken.gguf"
    path.write_bytes(b"GGUF and nothing else")
    model = create_local_model(str(path))
    with (
        anyio.fail_after(240),
        pytest.raises(nh.ConfigurationError, match="cannot serve the file") as failure,
    ):
        async with model.stream(ask_for(an_object("a", {"type": "integer"}), "?")):
            raise AssertionError("a stream was opened")
    assert str(path) in str(failure.value)
