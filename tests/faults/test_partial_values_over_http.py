"""The values of a step while its answer streams from a model server, in every protocol and transport."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.kernel.step import PartialListeners
from nighthawk_async.testing import ModelReply, ModelServer, ReplyPacing, tool_call

pytestmark = pytest.mark.anyio

CAPABLE = {"capabilities": {"structured_output": True, "structured_output_with_tools": True}}
PROVIDERS = ("openai-chat", "openai-responses", "anthropic", "google")


class Item(BaseModel):
    name: str
    count: int


@nh.natural_function
async def order(text: str) -> tuple[list[Item], str]:
    """natural
    Read the <:items> that <text> orders, and write a <:note> about them.
    """
    items: list[Item]
    note: str
    return items, note


BINDINGS: dict[str, Any] = {
    "items": [{"name": "lámpara 💡", "count": 12}, {"name": 'the "big" bed', "count": 3}],
    "note": "Zwölf Lampen und \\ drei Betten: 在庫あり.\nAlles da 👍.",
}
COMMITTED = {"items": [Item(**item) for item in BINDINGS["items"]], "note": BINDINGS["note"]}
ANSWER = {"kind": "pass", "bindings": BINDINGS}


def reply(transport: str, fragment_characters: int) -> ModelReply:
    pacing = ReplyPacing(fragment_characters=fragment_characters)
    if transport == "tool":
        return ModelReply(tool_calls=(tool_call("nh_outcome", **ANSWER),), pacing=pacing)
    return ModelReply(text=json.dumps({"result": ANSWER}), pacing=pacing)


async def values_of_order(
    server: ModelServer, provider: str, transport: Any, **settings: Any
) -> list[nh.PartialValues]:
    """The values that a hook, which is never slow, gets of one call."""
    configuration = nh.StepExecutorConfiguration(
        model=f"{provider}:tested",
        model_settings={"base_url": server.base_url, "api_key": "none", **CAPABLE, **settings},
        outcome_transport=transport,
    )
    hooks, partials = nh.Hooks(), list[nh.PartialValues]()
    hooks.on(nh.PartialValues, partials.append)
    executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
    async with nh.run(executor, hooks=hooks):
        assert await order("…") == (COMMITTED["items"], COMMITTED["note"])
    return partials


def check(partials: list[nh.PartialValues]) -> None:
    """They grow towards what is committed, which comes last."""
    assert (partials[-1].values, partials[-1].is_final) == (COMMITTED, True)
    for partial in partials:
        items = partial.values.get("items", [])
        assert items == COMMITTED["items"][: len(items)]
        assert COMMITTED["note"].startswith(partial.values.get("note", ""))


@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_values_arrive_in_every_protocol(
    provider: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Mapping[str, object]] = []  # also what came too fast for the hook
    deliver = PartialListeners.deliver

    def note(
        listeners: PartialListeners, values: Mapping[str, object], attempt: int, *, is_final: bool = False
    ) -> None:
        if not is_final:
            told.append(values)
        deliver(listeners, values, attempt, is_final=is_final)

    monkeypatch.setattr(PartialListeners, "deliver", note)
    async with ModelServer([reply(transport, 7)]) as server:
        partials = await values_of_order(server, provider, transport)
    check(partials)
    assert told[-1] == COMMITTED
    arrives_whole = provider == "google" and transport == "tool"
    assert len(told) == 1 if arrives_whole else len(told) > 10


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1_000])
async def test_fragments_may_have_any_size(size: int) -> None:
    async with ModelServer([reply("tool", size)]) as server:
        check(await values_of_order(server, "openai-chat", "tool"))


async def test_a_response_that_is_not_streamed_is_shown_once() -> None:
    async with ModelServer([reply("tool", 7)]) as server:
        partials = await values_of_order(server, "openai-chat", "tool", stream=False)
    check(partials)
    assert [each.is_final for each in partials] == [False, True]


async def test_values_of_a_response_that_breaks_off_are_followed_by_those_of_the_next_attempt() -> None:
    broken = ModelReply(
        tool_calls=(tool_call("nh_outcome", **ANSWER),),
        pacing=ReplyPacing(fragment_characters=7),
        ending="close",
        ending_after=20,
    )
    async with ModelServer([broken, reply("tool", 7)]) as server:
        try:
            partials = await values_of_order(server, "openai-chat", "tool")
        except nh.ModelError:
            return  # a response that has begun is not asked for again
    check(partials)
