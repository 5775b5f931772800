"""What hooks are told cannot be changed in place; what `Modify` says is what happens."""

import copy
import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.hooks import BeforeCommit, BeforeToolCall, Modify
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel, model_response, pass_response, tool_call

pytestmark = pytest.mark.anyio

DONE = tool_call("nh_outcome", kind="pass")
sent: list[object] = []


async def post(letter: dict[str, list[str]]) -> str:
    """Post a letter."""
    sent.append(letter)
    return "posted"


@nh.natural_function
async def write() -> None:
    """natural
    Write a letter.
    """


@nh.natural_function
async def act(result: list[int]) -> list[int]:
    """natural
    Set <:result>.
    """
    return result


async def posted(*hooks: Any) -> list[object]:
    """The letters that are sent when the model posts one to production and hooks are asked."""
    sent.clear()
    call = tool_call("post", letter={"to": ["production"]})
    model = ScriptedModel([model_response(call), model_response(DONE)])
    registered = nh.Hooks()
    for hook in hooks:
        registered.on(BeforeToolCall, hook)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), hooks=registered):
        nh.tool(post)
        await write()
    return sent


def set_letter(event: BeforeToolCall) -> None:
    event.arguments["letter"] = {"to": ["sandbox"]}  # type: ignore[index]


def set_nested(event: BeforeToolCall) -> None:
    event.arguments["letter"]["to"] = ["sandbox"]


def append_nested(event: BeforeToolCall) -> None:
    event.arguments["letter"]["to"].append("sandbox")


IN_PLACE = [set_letter, set_nested, append_nested]


@pytest.mark.parametrize("change", IN_PLACE)
async def test_arguments_that_a_hook_changes_in_place_fail_the_step_and_nothing_is_sent(change: Any) -> None:
    def redirect(event: BeforeToolCall) -> Modify:
        change(event)
        return Modify(event.arguments)

    for hook in (change, redirect):
        with pytest.raises(nh.errors.HookError, match=r"read-only: answer Modify"):
            await posted(hook)
        assert sent == []


@pytest.mark.parametrize("change", IN_PLACE)
async def test_what_an_earlier_hook_put_in_place_is_read_only_as_well(change: Any) -> None:
    with pytest.raises(nh.errors.HookError, match=r"read-only"):
        await posted(lambda event: Modify({"letter": {"to": ["test"]}}), change)
    assert sent == []


async def test_a_hook_may_modify_a_copy_and_later_hooks_cannot_be_fooled_by_it() -> None:
    seen: list[Any] = []
    kept: list[Any] = []

    def redirect(event: BeforeToolCall) -> Modify:
        arguments = copy.deepcopy(dict(event.arguments))
        arguments["letter"]["to"] = ["sandbox"]
        kept.append(arguments)
        return Modify(arguments)

    def change_later(event: BeforeToolCall) -> None:
        kept[0]["letter"]["to"].append("production")
        seen.append(event.arguments)

    assert await posted(redirect, change_later) == [{"to": ["sandbox"]}]
    assert seen == [{"letter": {"to": ["sandbox"]}}]


async def test_a_hook_that_answers_what_it_was_told_changes_nothing() -> None:
    assert await posted(lambda event: Modify(event.arguments)) == [{"to": ["production"]}]


async def test_arguments_can_be_written_as_json_and_their_copies_are_plain() -> None:
    def look(event: BeforeToolCall) -> None:
        plain = {"letter": {"to": ["production"]}}
        assert json.loads(json.dumps(event.arguments)) == plain
        for each in (copy.deepcopy(event.arguments), pickle.loads(pickle.dumps(event.arguments))):
            assert each == plain
            assert [type(each), type(each["letter"]), type(each["letter"]["to"])] == [dict, dict, list]
        assert type(copy.copy(event.arguments)) is dict

    assert await posted(look) == [{"to": ["production"]}]


async def test_arguments_that_hold_themselves_fail_the_step() -> None:
    endless: dict[str, Any] = {}
    endless["letter"] = endless
    with pytest.raises(nh.errors.HookError, match="JSON"):
        await posted(lambda event: Modify(endless))
    assert sent == []


async def test_bindings_that_a_hook_changes_in_place_are_not_committed() -> None:
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    def change(event: nhh.BeforeCommit) -> Modify:
        event.bindings["result"] = "no list"  # type: ignore[index]
        return Modify(event.bindings)

    executor = ScriptedExecutor(default_response=pass_response(result=[1]))
    async with nh.run(executor, hooks=hooks):
        with pytest.raises(nh.errors.HookError, match="read-only"):
            await act([])


async def test_what_a_hook_changes_inside_of_a_binding_is_validated_with_the_answer_modify() -> None:
    hooks = nh.Hooks()

    @hooks.on(BeforeCommit)
    def change(event: nhh.BeforeCommit) -> Modify:
        event.bindings["result"].append("no number")  # type: ignore[attr-defined]
        return Modify(event.bindings)

    executor = ScriptedExecutor(default_response=pass_response(result=[1]))
    async with nh.run(executor, hooks=hooks):
        with pytest.raises(nh.errors.HookError, match="'result'"):
            await act([])


def change_settings(event: nhh.BeforeModelRequest) -> None:
    event.request.settings["max_tokens"] = 7  # type: ignore[index]


def change_tools(event: nhh.BeforeModelRequest) -> None:
    event.request.tools[0].parameters["properties"]["expression"]["type"] = "number"


def change_messages(event: nhh.BeforeModelRequest) -> None:
    message = event.request.messages[1]
    assert isinstance(message, nh.models.AssistantMessage)
    assert message.provider_content is not None
    message.provider_content.items[0]["parts"].append("more")


@pytest.mark.parametrize("hook", [change_settings, change_tools])
async def test_a_request_cannot_be_changed_in_place(hook: Any) -> None:
    model = ScriptedModel([model_response(DONE)])
    hooks = nh.Hooks()
    hooks.on(nhh.BeforeModelRequest, hook)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model), hooks=hooks):
        with pytest.raises(nh.errors.HookError, match="read-only"):
            await write()
    assert model.requests == []


CONTENT = nh.models.ProviderContent(protocol="any", items=({"parts": ["signature"]},))
REQUEST = nh.models.ModelRequest(
    messages=(
        nh.models.UserMessage(content=("Go on.",)),
        nh.models.AssistantMessage(text="Yes", provider_content=CONTENT),
    ),
    tools=tuple(
        nh.models.ToolDefinition(name=name, description="", parameters={"type": "object"})
        for name in ("a", "b")
    ),
)


async def sent_with(hook: Any) -> nh.models.ModelRequest:
    """What is sent of a request that hooks are asked about."""
    hooks = nh.Hooks()
    hooks.on(nhh.BeforeModelRequest, hook)
    model = ScriptedModel([model_response(DONE)])
    async with nh.run(ScriptedExecutor(), hooks=hooks), open_stream(model, REQUEST) as events:
        async for _ in events:
            pass
    return model.requests[0]


async def test_what_a_provider_wants_back_cannot_be_changed_in_place() -> None:
    with pytest.raises(nh.errors.HookError, match="read-only"):
        await sent_with(change_messages)
    assert CONTENT.items == ({"parts": ["signature"]},)


async def test_messages_and_tools_that_a_hook_hands_on_are_the_requests_own() -> None:
    more = nh.models.UserMessage(content=("Be brief.",))
    sent = await sent_with(
        lambda event: Modify(
            replace(event.request, messages=(*event.request.messages, more), tools=event.request.tools[1:])
        )
    )
    assert sent == replace(REQUEST, messages=(*REQUEST.messages, more), tools=REQUEST.tools[1:])
    assert sent.messages[1] is REQUEST.messages[1]
    assert sent.tools[0] is REQUEST.tools[1]


@pytest.mark.parametrize(
    "changes",
    [{"messages": None}, {"messages": ("text",)}, {"tools": None}, {"tools": "ab"}, {"settings": None}],
)
async def test_a_request_that_is_none_fails_the_step_with_the_name_of_the_hook(changes: Any) -> None:
    def spoil(event: nhh.BeforeModelRequest) -> Modify:
        return Modify(replace(event.request, **changes))

    with pytest.raises(nh.errors.HookError, match="spoil answered Modify to BeforeModelRequest; the value"):
        await sent_with(spoil)


async def test_a_hook_may_give_messages_and_tools_in_lists() -> None:
    sent = await sent_with(
        lambda event: Modify(
            replace(event.request, messages=list(event.request.messages), tools=list(event.request.tools))
        )
    )
    assert sent == REQUEST


async def test_a_changed_request_is_sent_with_what_the_hook_left_alone_as_it_was() -> None:
    model = ScriptedModel([model_response(DONE), model_response(DONE)])
    hooks = nh.Hooks()

    @hooks.on(nhh.BeforeModelRequest)
    def be_brief(event: nhh.BeforeModelRequest) -> Modify:
        return Modify(replace(event.request, system_prompt="Be brief."))

    configuration = nh.StepExecutorConfiguration(model_settings={"stop": ["end"]})
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor):
        await write()
        async with nh.scope(hooks=hooks):
            await write()
    plain, changed = model.requests
    assert changed == replace(plain, system_prompt="Be brief.")
    assert type(changed.settings["stop"]) is list
