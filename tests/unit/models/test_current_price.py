"""A model's price comes from genai-prices where that knows it, else from the catalog."""

import importlib
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async import observe
from nighthawk_async.catalog.models import find_model_facts
from nighthawk_async.hooks import AfterModelRequest
from nighthawk_async.models import pricing
from nighthawk_async.models.pricing import CurrentPrice, listed_price
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import HasCurrentPrice, Model
from nighthawk_async.testing import ModelReply, ModelServer
from nighthawk_async.types.messages import ToolCall
from nighthawk_async.types.model import ModelPrice

genai_prices = pytest.importorskip("genai_prices")

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
NOVEMBER = datetime(2026, 11, 25, tzinfo=UTC)

DEAR = ModelPrice(
    input=Decimal(1_000),
    output=Decimal(9_000),
    cache_read=Decimal(500),
    cache_write=Decimal(2_000),
    cache_write_1h=Decimal(4_000),
)


@pytest.fixture(autouse=True)
def forget_prices() -> Iterator[None]:
    """No price is known before a test, and none of a test's after it."""
    forget()
    yield
    forget()


def forget() -> None:
    pricing._import_library.cache_clear()
    listed_price.cache_clear()


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """genai-prices is not installed."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)


@pytest.fixture
def dear_models() -> Iterator[None]:
    """A program that has given genai-prices other prices: a `dear` model at the loopback."""
    types = genai_prices.types
    prices = types.ModelPrice(
        input_mtok=DEAR.input,
        output_mtok=DEAR.output,
        cache_read_mtok=DEAR.cache_read,
        cache_write_mtok=DEAR.cache_write,
        cache_write_1h_mtok=DEAR.cache_write_1h,
    )
    model = types.ModelInfo(id="dear", match=types.ClauseEquals("gpt-4.1"), prices=prices)
    provider = types.Provider(id="near", name="Near", api_pattern=r"http://127\.0\.0\.1", models=[model])
    snapshot = genai_prices.data_snapshot.DataSnapshot(providers=[provider], from_auto_update=False)
    genai_prices.data_snapshot.set_custom_snapshot(snapshot)
    try:
        yield
    finally:
        genai_prices.data_snapshot.set_custom_snapshot(None)


def model_of(model_id: str, **settings: Any) -> Model:
    return create_model(model_id, environment={}, settings={"api_key": "k", **settings})


async def price_of(model_id: str, **settings: Any) -> ModelPrice | None:
    model = model_of(model_id, **settings)
    assert isinstance(model, HasCurrentPrice)
    price = await model.load_price()
    assert model.capabilities.price == price
    return price


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model_id", "base_url", "input_price"),
    [
        ("openai-responses:gpt-5.4-nano", None, "0.2"),
        ("openai-chat:gpt-4.1", None, "2"),
        ("openai-chat:gpt-5-mini-2025-08-07", None, "0.25"),
        ("anthropic:claude-haiku-4-5", None, "1"),
        ("google:gemini-2.5-pro", None, "1.25"),
        ("openai-chat:gpt-5", "https://our-name.openai.azure.com/openai/v1", "1.25"),
        ("openai-responses:claude-opus-5", "https://our-name.services.ai.azure.com/openai/v1", "5"),
        ("openai-chat:deepseek-chat", "https://api.deepseek.com/v1", None),
        ("openai-chat:openai/gpt-5", "https://openrouter.ai/api/v1", "1.25"),
    ],
)
async def test_the_provider_is_known_by_the_address_of_requests(
    model_id: str, base_url: str | None, input_price: str | None
) -> None:
    price = await price_of(model_id, **({} if base_url is None else {"base_url": base_url}))
    assert price is not None
    assert input_price is None or price.input == Decimal(input_price)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("model_id", "base_url"),
    [
        ("openai-chat:gpt-oss-120b", "http://127.0.0.1:1/v1"),
        ("openai-chat:no-such-model", OPENAI),
        ("openai-chat:no-such-model", "https://gateway.example/v1"),
    ],
)
async def test_a_model_that_neither_knows_has_no_price(model_id: str, base_url: str) -> None:
    assert await price_of(model_id, base_url=base_url) is None


@pytest.mark.anyio
@pytest.mark.parametrize("model_id", ["google:gemini-4-carbon", "anthropic:claude-mythos-5"])
async def test_the_catalog_has_the_price_of_a_model_that_genai_prices_lacks(model_id: str) -> None:
    price = await price_of(model_id)
    assert price is not None
    assert price is find_model_facts(model_id).capabilities.price


@pytest.mark.anyio
async def test_a_server_of_ones_own_costs_what_the_catalog_says() -> None:
    price = await price_of("openai-chat:gpt-4.1", base_url="http://127.0.0.1:1/v1")
    assert price is find_model_facts("openai-chat:gpt-4.1").capabilities.price


@pytest.mark.anyio
@pytest.mark.usefixtures("dear_models")
async def test_a_price_of_the_users_own_comes_first() -> None:
    own = {"price": {"input": "3", "output": "4"}}
    price = await price_of("openai-chat:gpt-4.1", base_url="http://127.0.0.1:1/v1", capabilities=own)
    assert price == ModelPrice(input=Decimal(3), output=Decimal(4))
    with_other = {"images": False}
    price = await price_of("openai-chat:gpt-4.1", base_url="http://127.0.0.1:1/v1", capabilities=with_other)
    assert price == DEAR


@pytest.mark.anyio
@pytest.mark.usefixtures("absent")
async def test_without_genai_prices_the_catalog_is_asked_alone() -> None:
    for model_id in ("openai-chat:gpt-4.1", "google:gemini-4-argon"):
        price = await price_of(model_id)
        assert price is not None
        assert price is find_model_facts(model_id).capabilities.price
    assert await price_of("openai-chat:deepseek-chat", base_url="https://api.deepseek.com/v1") is None


@pytest.mark.anyio
async def test_an_installation_that_cannot_be_imported_counts_as_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(genai_prices, "calc_price", broken_import)
    price = await price_of("openai-chat:gpt-4.1")
    assert price is find_model_facts("openai-chat:gpt-4.1").capabilities.price
    assert "genai-prices is not used: ImportError('no data')" in caplog.text


def broken_import(*args: object, **settings: object) -> None:
    raise ImportError("no data")


def test_a_price_in_tiers_rises_where_the_catalogs_does() -> None:
    price = listed_price(GOOGLE, "gemini-2.5-pro", at=NOVEMBER)
    assert price == find_model_facts("google:gemini-2.5-pro").capabilities.price
    assert price is not None
    assert (price.for_request(200_000).input, price.for_request(200_001).input) == (
        Decimal("1.25"),
        Decimal("2.5"),
    )


def test_prices_may_rise_more_than_once_and_not_all_at_the_same_length(
    dear_models: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = genai_prices.types
    rising = types.TieredPrices(
        base=Decimal(1), tiers=[types.Tier(start=100, price=Decimal(2)), types.Tier(200, Decimal(3))]
    )
    later = types.TieredPrices(base=Decimal(5), tiers=[types.Tier(start=150, price=Decimal(7))])
    prices = types.ModelPrice(input_mtok=rising, output_mtok=later, cache_read_mtok=Decimal("0.5"))
    (provider,) = genai_prices.data_snapshot.get_snapshot().providers
    monkeypatch.setattr(provider.models[0], "prices", prices)
    price = listed_price("http://127.0.0.1/v1", "gpt-4.1", at=NOVEMBER)
    assert price is not None
    shown = [(price.for_request(sent).input, price.for_request(sent).output) for sent in (100, 101, 151, 201)]
    assert shown == [(1, 5), (2, 5), (2, 7), (3, 7)]
    assert {price.for_request(sent).cache_read for sent in (1, 101, 151, 201)} == {Decimal("0.5")}
    assert price.for_request(201).cache_write is None


def test_a_price_changes_on_its_day() -> None:
    before = listed_price(GOOGLE, "gemini-4-argon", at=datetime(2026, 11, 30, 23, 59, tzinfo=UTC))
    after = listed_price(GOOGLE, "gemini-4-argon", at=datetime(2026, 12, 1, tzinfo=UTC))
    assert before == find_model_facts("google:gemini-4-argon").capabilities.price
    assert before is not None
    assert after is not None
    assert (after.input, after.output) == (2 * before.input, 2 * before.output)


@pytest.mark.anyio
async def test_a_model_that_lives_long_gets_the_price_of_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = model_of("google:gemini-4-argon")
    assert isinstance(model, HasCurrentPrice)
    inputs: list[Decimal] = []
    for day in (datetime(2026, 11, 30, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)):
        monkeypatch.setattr(pricing, "time", day.timestamp)
        price = await model.load_price()
        assert price is not None
        inputs.append(price.input)
    assert inputs == [2, 4]


@pytest.mark.parametrize("name", ["gpt-audio", "gpt-4o-transcribe"])
def test_a_model_whose_sound_costs_more_has_no_price_unless_the_catalog_has_that_of_text(name: str) -> None:
    assert listed_price(OPENAI, name, at=NOVEMBER) is None
    assert listed_price(GOOGLE, "gemini-2.5-flash", at=NOVEMBER) is None
    price = CurrentPrice(urlsplit(GOOGLE), "gemini-2.5-flash", DEAR).find()
    assert price == find_model_facts("google:gemini-2.5-flash").capabilities.price


@pytest.mark.parametrize(
    "model_id", ["anthropic:claude-opus-5", "anthropic:claude-haiku-5-5", "openai-responses:gpt-6-sol"]
)
def test_batches_do_not_change_the_price_of_a_request(model_id: str) -> None:
    provider, _, name = model_id.partition(":")
    base_url = ANTHROPIC if provider == "anthropic" else OPENAI
    assert (
        listed_price(base_url, name, at=NOVEMBER, is_text_known=True)
        == find_model_facts(model_id).capabilities.price
    )


@pytest.mark.parametrize(
    "model_id",
    [
        "openai-responses:gpt-5.5",
        "openai-responses:gpt-5.4-pro",
        "openai-chat:gpt-4o-mini",
        "openai-chat:o3",
        "anthropic:claude-sonnet-5-5",
        "anthropic:claude-fable-5-2",
        "google:gemini-3.5-flash",
    ],
)
def test_the_catalog_and_genai_prices_agree(model_id: str) -> None:
    provider, _, name = model_id.partition(":")
    base_url = {"anthropic": ANTHROPIC, "google": GOOGLE}.get(provider, OPENAI)
    assert listed_price(base_url, name, at=NOVEMBER) == find_model_facts(model_id).capabilities.price


@nh.natural_function
async def act() -> None:
    """natural
    Do something.
    """


@asynccontextmanager
async def served() -> AsyncIterator[nh.StepExecutorConfiguration]:
    """A model at the loopback that ends each step at once."""
    done = ToolCall(id="1", name="nh_outcome", arguments='{"kind": "pass"}')
    used = nh.Usage(
        requests=1, input_tokens=1_000, output_tokens=100, cache_read_tokens=200, cache_write_tokens=0
    )
    reply = ModelReply(tool_calls=(done,), usage=used)
    async with ModelServer(lambda request: reply) as server:
        settings = {"base_url": server.base_url, "api_key": "k", "max_tokens": 1_000}
        yield nh.StepExecutorConfiguration(model="openai-chat:gpt-4.1", model_settings=settings)


@pytest.mark.anyio
@pytest.mark.usefixtures("dear_models")
async def test_a_request_costs_the_same_in_every_view_from_the_first_on() -> None:
    costs: list[Decimal] = []
    hooks = nh.Hooks()

    async def note(event: AfterModelRequest) -> None:
        assert event.usage is not None
        costs.append(event.usage.cost)

    hooks.on(AfterModelRequest, note)
    async with served() as configuration:
        with observe.recording() as tree:
            async with nh.run(configuration, hooks=hooks) as run, nh.budget(cost=1_000_000) as budget:
                await act()
        costs += [run.usage_meter.usage.cost, budget.cost]
        costs += [view.usage.cost for view in tree.snapshot().walk() if view.kind == "model_request"]
    assert costs == [Decimal("1.8")] * 4


@pytest.mark.anyio
@pytest.mark.usefixtures("dear_models")
async def test_without_observers_and_budgets_a_request_costs_that_too() -> None:
    async with served() as configuration, nh.run(configuration) as run:
        await act()
    assert run.usage_meter.usage.cost == Decimal("1.8")


@pytest.mark.anyio
@pytest.mark.usefixtures("dear_models")
async def test_the_first_request_does_not_wait_for_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    has_arrived = Event()
    calc_price = genai_prices.calc_price

    def calc_price_later(*args: Any, **settings: Any) -> Any:
        assert has_arrived.wait(10), "the request waits for the prices"
        return calc_price(*args, **settings)

    def answer(request: object) -> ModelReply:
        has_arrived.set()
        done = ToolCall(id="1", name="nh_outcome", arguments='{"kind": "pass"}')
        return ModelReply(
            tool_calls=(done,), usage=nh.Usage(requests=1, input_tokens=1_000, output_tokens=100)
        )

    monkeypatch.setattr(genai_prices, "calc_price", calc_price_later)
    async with ModelServer(answer) as server:
        settings = {"base_url": server.base_url, "api_key": "k", "max_tokens": 1_000}
        configuration = nh.StepExecutorConfiguration(model="openai-chat:gpt-4.1", model_settings=settings)
        async with nh.run(configuration) as run:
            await act()
            first = run.usage_meter.usage.cost
            await act()
    assert (first, run.usage_meter.usage.cost) == (Decimal("1.9"), Decimal("3.8"))
    assert run.usage_meter.usage.unpriced_requests == 0


@pytest.mark.anyio
@pytest.mark.usefixtures("dear_models")
async def test_a_budget_reserves_by_the_price_that_it_charges_by() -> None:
    async with served() as configuration, nh.run(configuration):
        with pytest.raises(nh.BudgetExceededError, match="no room"):
            async with nh.budget(cost=9):  # a response of 1,000 tokens alone may cost 9 dollars
                await act()


@pytest.mark.anyio
@pytest.mark.usefixtures("dear_models")
async def test_requests_that_begin_together_wait_for_one_import_and_a_cancelled_one_for_none() -> None:
    models = [model_of("openai-chat:gpt-4.1", base_url="http://127.0.0.1:1/v1") for _ in range(50)]
    with anyio.CancelScope() as scope:
        scope.cancel()
        await price_of("openai-chat:gpt-4.1")
    assert scope.cancelled_caught
    async with anyio.create_task_group() as tasks:
        for model in models:
            assert isinstance(model, HasCurrentPrice)
            tasks.start_soon(model.load_price)
    assert [model.capabilities.price for model in models] == [DEAR] * len(models)


@pytest.mark.anyio
@pytest.mark.usefixtures("dear_models")
async def test_a_cancelled_request_leaves_a_long_import_and_another_one_gets_the_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, released, imported = Event(), Event(), importlib.import_module

    def slow_import(name: str) -> ModuleType:
        if name == "genai_prices":
            began.set()
            assert released.wait(60)
        return imported(name)

    monkeypatch.setattr(importlib, "import_module", slow_import)
    first, second = (model_of("openai-chat:gpt-4.1", base_url="http://127.0.0.1:1/v1") for _ in range(2))
    assert isinstance(first, HasCurrentPrice)
    assert isinstance(second, HasCurrentPrice)
    try:
        async with anyio.create_task_group() as others:
            async with anyio.create_task_group() as cancelled:
                cancelled.start_soon(first.load_price)
                await anyio.to_thread.run_sync(began.wait)
                others.start_soon(second.load_price)
                await anyio.wait_all_tasks_blocked()
                cancelled.cancel_scope.cancel()
            assert first.capabilities.price != DEAR
            released.set()
    finally:
        released.set()
    assert second.capabilities.price == DEAR


LAZY = """
import sys
import anyio
import nighthawk_async as nh
from nighthawk_async.models.providers import create_model
from nighthawk_async.testing import ModelReply, ModelServer
from nighthawk_async.types.messages import ToolCall

@nh.natural_function
async def act() -> None:
    '''natural
    Do something.
    '''

async def main():
    done = ToolCall(id="1", name="nh_outcome", arguments='{"kind": "pass"}')
    used = nh.Usage(requests=1, input_tokens=1_000)
    async with ModelServer([ModelReply(tool_calls=(done,), usage=used)]) as server:
        settings = {"base_url": server.base_url, "api_key": "k"}
        configuration = nh.StepExecutorConfiguration(model="openai-chat:gpt-4.1", model_settings=settings)
        async with nh.run(configuration) as run:
            assert "genai_prices" not in sys.modules
            await act()
            assert "genai_prices" in sys.modules
    print(run.usage_meter.usage.cost)

anyio.run(main)
"""


def test_genai_prices_is_imported_when_the_first_request_begins(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LAZY, encoding="utf-8")
    command = [sys.executable, str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (ended.stdout.strip(), ended.stderr) == ("0.0020000", "")
