"""Deferred tools that functions of the program search."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ToolRegistrationError, ToolSearchError
from nighthawk_async.runtime import DeferredTool, ForeignTool
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from tests.cases import every

pytestmark = pytest.mark.anyio


def make(name: str, description: str = "", *parameters: str) -> ForeignTool:
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in parameters}}

    def call(arguments: dict[str, object]) -> str:
        return f"{name} was called"

    return ForeignTool(name=name, description=description, parameters=schema, function=call)


PETS = [
    make("feed_cat", "Feed a cat.", "food"),
    make("walk_dog", "Walk a dog."),
    make("wash_dog", "Wash a dog."),
]
MAIL = [make("send_mail", "Send a mail."), make("read_mail", "Read a mail.")]


@nh.natural_function
async def work() -> None:
    """natural
    Work with the tools.
    """


@nh.natural_function
def work_synchronously() -> None:
    """natural
    Work with the tools.
    """


def finding(*queries: str) -> ModelResponse:
    return model_response(*(tool_call("nh_find_tools", query=query) for query in queries))


END = model_response(tool_call("nh_outcome", kind="pass"))


def offered(model: ScriptedModel) -> list[list[str]]:
    own = ("nh_find_tools", "nh_outcome", "nh_eval", "nh_assign", "nh_exec")
    return [[tool.name for tool in request.tools if tool.name not in own] for request in model.requests]


async def test_a_function_finds_tools_that_can_be_called_then() -> None:
    seen: list[tuple[str, Sequence[DeferredTool]]] = []

    def search(query: str, tools: Sequence[DeferredTool]) -> list[str]:
        seen.append((query, tools))
        return ["walk_dog", "feed_cat", "walk_dog"]

    model = ScriptedModel([finding("le chien"), model_response(tool_call("walk_dog")), END])
    async with nh.run(model, tools=[nh.tool_set(PETS, deferred=True, search=search)]):
        await work()
    assert offered(model) == [[], ["walk_dog", "feed_cat"], ["walk_dog", "feed_cat"]]
    ((query, tools),) = seen
    assert query == "le chien"
    assert tools[0] == DeferredTool(name="feed_cat", description="Feed a cat.", parameters=("food",))
    assert [tool.name for tool in tools] == ["feed_cat", "walk_dog", "wash_dog"]
    assert "walk_dog was called" in str(model.requests[2].messages[-1])
    assert "Walk a dog." in str(model.requests[1].messages[-1])


async def test_an_async_function_finds_tools_in_the_order_of_the_calls() -> None:
    is_slow_done = anyio.Event()

    async def search(query: str, tools: Sequence[DeferredTool]) -> tuple[str, ...]:
        if query == "slow":
            await is_slow_done.wait()
        else:
            is_slow_done.set()
        return ("wash_dog",) if query == "slow" else ("feed_cat",)

    model = ScriptedModel([finding("slow", "fast"), END])
    async with nh.run(model, tools=[nh.tool_set(PETS, deferred=True, search=search)]):
        await work()
    assert offered(model)[1] == ["wash_dog", "feed_cat"]


async def test_each_set_is_searched_in_its_own_way() -> None:
    def of_pets(query: str, tools: Sequence[DeferredTool]) -> set[str]:
        assert {tool.name for tool in tools} == {"feed_cat", "walk_dog", "wash_dog"}
        return {"wash_dog"}

    async def of_more(query: str, tools: Sequence[DeferredTool]) -> list[str]:
        return [tool.name for tool in tools]

    model = ScriptedModel([finding("a mail"), END])
    sets = [
        nh.tool_set(PETS, deferred=True, search=of_pets),
        nh.tool_set(MAIL, deferred=True),
        nh.tool_set([make("more")], deferred=True, search=of_more),
    ]
    async with nh.run(model, tools=sets):
        await work()
    assert offered(model)[1] == ["wash_dog", "more", "read_mail", "send_mail"]


async def test_nothing_found_is_an_empty_list() -> None:
    model = ScriptedModel([finding("a bird"), END])
    async with nh.run(model, tools=[nh.tool_set(PETS, deferred=True, search=lambda query, tools: [])]):
        await work()
    assert offered(model) == [[], []]
    assert '"value": []' in str(model.requests[1].messages[-1])


class Wrong:
    def __call__(self, query: str, tools: Sequence[DeferredTool]) -> list[str]:
        return ["walk_dogs"]


def wrong_pet(query: str, tools: Sequence[DeferredTool]) -> list[str]:
    return ["feed_cat", "walk_dogs"]


async def wrong_pet_later(query: str, tools: Sequence[DeferredTool]) -> list[str]:
    return ["send_mail"]


@every(
    "search, said",
    [
        (wrong_pet, r"search wrong_pet returned 'walk_dogs'.* Did you mean 'walk_dog'\?"),
        (wrong_pet_later, "search wrong_pet_later returned 'send_mail', the name of none of the 3 tools"),
        (Wrong(), "search Wrong returned 'walk_dogs'"),
        (lambda query, tools: tools, r"returned DeferredTool\(name='feed_cat'"),
        (lambda query, tools: "walk_dog", "must return the names of tools, not 'str'"),
        (lambda query, tools: None, "must return the names of tools, not 'NoneType'"),
    ],
)
async def test_wrong_names_end_the_step(search: Any, said: str) -> None:
    """The model could not do anything about it. Tools of other sets are none of these."""
    model = ScriptedModel([finding("a dog"), END])
    sets = [nh.tool_set(PETS, deferred=True, search=search), nh.tool_set(MAIL, deferred=True)]
    async with nh.run(model, tools=sets):
        with pytest.raises(ToolSearchError, match=said) as raised:
            await nh.resilience.retrying(attempts=3, wait=0)(work)()
    assert len(model.requests) == 1
    assert isinstance(raised.value, nh.errors.HookError)


async def test_a_search_that_raises_is_a_failure_that_the_model_sees() -> None:
    async def search(query: str, tools: Sequence[DeferredTool]) -> list[str]:
        raise OSError("the index is away")

    model = ScriptedModel([finding("a dog"), END])
    async with nh.run(model, tools=[nh.tool_set(PETS, deferred=True, search=search)]):
        await work()
    assert "the index is away" in str(model.requests[1].messages[-1])


def test_a_synchronous_function_searches_in_synchronous_code() -> None:
    model = ScriptedModel([finding("a dog"), END])
    tools = nh.tool_set(PETS, deferred=True, search=lambda query, tools: ["wash_dog"])
    with nh.run(model, tools=[tools]):
        work_synchronously()
    assert offered(model)[1] == ["wash_dog"]


async def test_a_later_life_asks_a_recorded_search_not_again(tmp_path: Path) -> None:
    calls: list[str] = []

    async def search(query: str, tools: Sequence[DeferredTool]) -> list[str]:
        calls.append(query)
        return ["wash_dog"]

    tools = nh.tool_set(PETS, deferred=True, search=nh.once(search))
    model = ScriptedModel([finding("a dog"), END])
    for ends in (False, True):
        with suppress(KeyError):
            async with nh.run(model, tools=[tools], journal=str(tmp_path / "runs.db"), run_id="run-1"):
                await work()
                if not ends:
                    raise KeyError("the life ends")
    assert (len(model.requests), calls) == (2, ["a dog"])


async def test_the_search_of_a_provider_and_a_function_do_not_mix() -> None:
    model = ScriptedModel([END], capabilities=nh.models.ModelCapabilities(tool_search=True))
    sets = [
        nh.tool_set(PETS, deferred=True, search=wrong_pet),
        nh.tool_set(MAIL, deferred=True, search="native"),
    ]
    async with nh.run(model, tools=sets):
        with pytest.raises(nh.ConfigurationError, match="a function searches some of them, 'feed_cat'"):
            await work()


def test_searches_that_are_none_are_refused() -> None:
    with pytest.raises(ToolRegistrationError, match=r"'lexical', 'native', or a function .*, not 'words'"):
        nh.tool_set(PETS, deferred=True, search="words")  # type: ignore[arg-type]
    with pytest.raises(ToolRegistrationError, match="is for deferred tools; pass deferred=True"):
        nh.tool_set(PETS, search=wrong_pet)
