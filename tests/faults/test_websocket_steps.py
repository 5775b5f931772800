"""Steps over a WebSocket: they see what they see over HTTP, and later turns send new items alone."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError, ModelStatusError
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, cassette, tool_call
from nighthawk_async.types.messages import Message, UserMessage
from nighthawk_async.types.model import ModelRequest

from .http_support import HELLO, collect, text_of
from .websocket_support import LANES, SECRET, after_calls, executor_at, sent_items, socket_model, work

pytestmark = pytest.mark.anyio

RESULTS = [["function_call_output"]]


@pytest.mark.parametrize("settings", [{}, LANES, {"store": True}], ids=["one lane", "lanes", "stored"])
async def test_later_turns_send_the_new_items_alone(settings: dict[str, Any]) -> None:
    async with ModelServer(after_calls(5)) as server:
        async with nh.run(executor_at(server.base_url, **settings)):
            assert await work("owls") == "5 calls"
        assert sent_items(server) == [["message"], *RESULTS * 5]
        first, *later = server.requests
        assert first.method == "WEBSOCKET"
        assert first.body["instructions"] == later[-1].body["instructions"]
        assert {"stream", "background"} & later[0].body.keys() == {"stream"}  # the server's own mark
        assert b'"stream"' not in first.content
        assert first.headers["authorization"] == f"Bearer {SECRET}"
        assert server.connections.total == 1


async def test_a_step_uses_as_much_as_over_http_and_a_cassette_of_either_replays_either(
    tmp_path: Path,
) -> None:
    usage, texts = [], []
    for transport in ("http", "websocket"):
        path = tmp_path / f"{transport}.json"
        async with ModelServer(after_calls(3)) as server:
            with cassette(path, mode="once"):
                budget = nh.budget(turns=100)
                async with nh.run(executor_at(server.base_url, transport), budget=budget):
                    assert await work("owls") == "3 calls"
                usage.append((budget.spent.turns, budget.spent.tokens, budget.spent.cost))
            base_url = server.base_url
        texts.append(path.read_text())
        for other in ("http", "websocket", "auto"):
            with cassette(path, mode="none") as tape:
                async with nh.run(executor_at(base_url, other)):
                    assert await work("owls") == "3 calls"
            assert tape.unused == ()
    assert usage[0] == usage[1]
    assert usage[0][0] == 4
    assert SECRET not in texts[1]


async def test_auto_takes_a_socket_from_the_second_turn_on_where_the_endpoint_has_one() -> None:
    async with ModelServer(after_calls(3)) as server:
        async with nh.run(executor_at(server.base_url, "auto", **LANES)):
            assert await work("owls") == "3 calls"
        assert [request.method for request in server.requests] == ["POST", *["WEBSOCKET"] * 3]
        assert sent_items(server)[2:] == RESULTS * 2
    async with ModelServer(after_calls(3)) as server:  # an endpoint that nobody knows
        async with nh.run(executor_at(server.base_url, "auto")):
            await work("owls")
        assert {request.method for request in server.requests} == {"POST"}


async def test_auto_stays_with_http_at_an_endpoint_without_sockets() -> None:
    async with ModelServer(after_calls(3), has_websocket=False) as server:
        async with nh.run(executor_at(server.base_url, "auto", **LANES)):
            assert await work("owls") == "3 calls"
        posts = [request.body["input"] for request in server.requests if request.method == "POST"]
        asked = [request for request in server.requests if request.method == "GET"]
        assert (len(posts), len(asked)) == (4, 1)
        with pytest.raises(ModelStatusError, match="HTTP 404") as caught:
            await collect(socket_model(server.base_url))
        assert SECRET not in str(caught.value)


async def test_what_the_settings_cannot_mean_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = nh.StepExecutorConfiguration(
        model="anthropic:any", model_settings={"api_key": "k", "transport": "websocket", "max_tokens": 100}
    )
    async with nh.run(nh.AgentStepExecutor.from_configuration(configuration)):
        with pytest.raises(ConfigurationError, match=r"protocol openai-responses alone.* 'auto'"):
            await work("owls")
    with pytest.raises(ConfigurationError, match="'transport'"):
        socket_model("http://127.0.0.1:1", "carrier pigeon")
    with pytest.raises(ConfigurationError, match="in the background"):
        await collect(socket_model("http://127.0.0.1:1", extra_body={"background": True}))
    for name in [name for name in sys.modules if "websocket" in name and name.startswith("nighthawk")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "wsproto.connection", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'nighthawk-async\[websocket\]'"):
        await collect(socket_model("http://127.0.0.1:1"))


async def test_a_forgotten_response_is_followed_by_everything() -> None:
    replies = after_calls(4)
    forgotten = {"type": "invalid_request_error", "code": "previous_response_not_found", "message": "gone"}
    failures: list[str] = []

    def reply(request: RecordedRequest) -> ModelReply:
        if len(request.earlier_items) > 3 and not failures:
            failures.append("forgotten")
            return ModelReply(status=400, error=forgotten)
        return replies(request)

    for settings in ({}, LANES):
        failures.clear()
        async with ModelServer(reply) as server:
            budget = nh.budget(turns=100)
            async with nh.run(executor_at(server.base_url, max_retries=0, **settings), budget=budget):
                assert await work("owls") == "4 calls"
            sizes = [len(items) for items in sent_items(server)]
            assert sizes == [1, 1, 1, 7, 1, 1]  # the third turn in vain, then as a whole
            assert budget.spent.turns == 5
            assert server.connections.total == 1


async def test_a_server_that_always_forgets_is_an_error_with_its_code() -> None:
    forgotten = {"type": "invalid_request_error", "code": "previous_response_not_found", "message": "gone"}
    async with ModelServer(lambda request: ModelReply(status=400, error=forgotten)) as server:
        with pytest.raises(ModelStatusError, match="HTTP 400: gone") as caught:
            await collect(socket_model(server.base_url))
        assert caught.value.status == 400
        assert len(server.requests) == 2


@pytest.mark.parametrize("settings", [{}, LANES], ids=["one lane", "lanes"])
async def test_a_socket_at_its_limit_is_followed_by_another(settings: dict[str, Any]) -> None:
    async with ModelServer(after_calls(6), responses_per_socket=3) as server:
        async with nh.run(executor_at(server.base_url, max_retries=0, **settings)):
            assert await work("owls") == "6 calls"
        assert [len(items) for items in sent_items(server)] == [1, 1, 1, 10, 1, 1, 19]
        assert server.connections.total == 3


async def test_the_same_failures_are_retried_as_over_http() -> None:
    busy = ModelReply(status=503, headers={"retry-after-ms": "1"})
    failed = ModelReply(error={"code": "server_error", "message": "x"}, finish_reason="failed")
    cases = {
        "busy": [busy, ModelReply(text="Hi")],
        "refused": [ModelReply(status=401, text="no such key")],
        "cut": [ModelReply(text="Hi", ending="close", ending_after=1), ModelReply(text="Hi")],
        "cut late": [ModelReply(text="Hi there, you", ending="close", ending_after=5)],
        "failed": [failed, ModelReply(text="Hi")],
        "no end": [ModelReply(text="Hi", fault="no_terminal", ending="close")],
    }
    for name, replies in cases.items():
        seen = []
        for transport in ("http", "websocket"):
            async with ModelServer(replies) as server:
                model = socket_model(server.base_url, transport, max_retries=1)
                try:
                    said = text_of(await collect(model))
                except nh.errors.ModelError as error:
                    said = f"{error.is_transient} {error.retries}"
                seen.append((said, len(server.requests)))
        assert seen[0] == seen[1], name


async def test_steps_share_a_socket_each_on_a_lane() -> None:
    arrived = anyio.Event()

    async def reply(request: RecordedRequest) -> ModelReply:
        if len(server.requests) >= 16:
            arrived.set()
        await arrived.wait()
        return after_calls(2)(request)

    async with ModelServer(reply) as server:
        async with nh.run(executor_at(server.base_url, **LANES)), anyio.create_task_group() as task_group:
            for number in range(16):
                task_group.start_soon(work, f"owl {number}")
        assert server.connections.total == 1
        assert len({request.stream_id for request in server.requests}) == 16
        assert len(server.requests) == 48
        assert sorted(map(len, sent_items(server))) == [1] * 48


async def test_hundreds_of_conversations_share_a_few_sockets() -> None:
    """A benchmark has ten thousand steps."""
    reply = ModelReply(text="answer", reasoning="")

    async with ModelServer(lambda request: reply) as server:
        model = socket_model(server.base_url, **LANES)

        async def converse(name: str) -> None:
            for number in range(8):
                first = UserMessage(content=(f"{name} {number}",))
                said = nh.types.messages.AssistantMessage(text=text_of(await collect(model, asked(first))))
                more = UserMessage(content=("go on",))
                assert text_of(await collect(model, asked(first, said, more))) == "answer"

        async with nh.run(executor_at(server.base_url)), anyio.create_task_group() as task_group:
            for number in range(10):
                task_group.start_soon(converse, str(number))
        assert server.connections.total == 1
        assert [len(items) for items in sent_items(server)] == [1] * 160


def asked(*messages: Message) -> ModelRequest:
    return ModelRequest(messages=messages)


async def test_a_fork_goes_on_in_another_lane_while_its_lane_is_busy() -> None:
    both = anyio.Event()

    async def reply(request: RecordedRequest) -> ModelReply:
        if len(server.requests) > 1:
            if len(server.requests) == 3:
                both.set()
            await both.wait()
        return ModelReply(text=f"answer {len(request.earlier_items)}")

    async with ModelServer(reply) as server:
        model = socket_model(server.base_url, **LANES)
        async with nh.run(executor_at(server.base_url)):
            async with model.stream(HELLO) as events:
                text = text_of([event async for event in events])
            said = nh.types.messages.AssistantMessage(text=text)

            async def go_on(words: str) -> None:
                message = UserMessage(content=(words,))
                await collect(model, ModelRequest(messages=(*HELLO.messages, said, message)))

            async with anyio.create_task_group() as task_group:
                task_group.start_soon(go_on, "left")
                task_group.start_soon(go_on, "right")
        first, left, right = server.requests
        assert left.body["previous_response_id"] == right.body["previous_response_id"]
        assert {left.stream_id, right.stream_id} == {"lane-0", "lane-1"}
        assert first.stream_id == "lane-0"
        assert [len(request.body["input"]) for request in (left, right)] == [1, 1]
        assert server.connections.total == 1


async def test_a_changed_conversation_is_sent_as_a_whole_and_the_former_one_is_kept() -> None:
    async with ModelServer(
        [ModelReply(text="one"), ModelReply(text="two"), ModelReply(text="three")]
    ) as server:
        model = socket_model(server.base_url)
        async with nh.run(executor_at(server.base_url)):
            await collect(model)
            for said in ("another", "one"):  # the model never said the former
                message = nh.types.messages.AssistantMessage(text=said)
                more = UserMessage(content=("go on",))
                await collect(model, ModelRequest(messages=(*HELLO.messages, message, more)))
        assert [len(items) for items in sent_items(server)] == [
            1,
            3,
            1,
        ]  # the last one goes on where the first one ended


async def test_the_budget_of_a_run_counts_what_sockets_bring() -> None:
    async with ModelServer(after_calls(9)) as server:
        async with nh.run(executor_at(server.base_url), budget=nh.budget(turns=3)):
            with pytest.raises(nh.errors.BudgetExceededError):
                await work("owls")
        assert len(server.requests) <= 3


async def test_rules_and_checks_of_the_server_hold_on_a_socket() -> None:
    async with ModelServer([ModelReply(text="Hi")], rules="openai-responses") as server:
        with pytest.raises(ModelStatusError, match="max_output_tokens"):
            await collect(socket_model(server.base_url, extra_body={"max_output_tokens": 3}))
        call = tool_call("look_up", number=1)
        orphan = nh.types.messages.AssistantMessage(tool_calls=(call,))
        more = ModelRequest(messages=(*HELLO.messages, orphan, UserMessage(content=("go on",))))
        with pytest.raises(ModelStatusError, match="No tool output found"):
            await collect(socket_model(server.base_url), more)
