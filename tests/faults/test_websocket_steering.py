"""What a user says while a response is running on a WebSocket goes into it, where that is offered."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.parallel import TaskCancelledError
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, cassette, tool_call
from nighthawk_async.types.messages import AssistantMessage

from .steering_support import (
    ESSAY,
    OUTCOME,
    Said,
    SpeakOnce,
    about,
    begun,
    call_item,
    ended,
    item_done,
    outcome_of,
    run_step,
    said_in,
    talkative,
)
from .websocket_support import LANES, RawSocket, end, executor_at, work

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("moment", ["before it begins", "while it runs"])
async def test_a_response_ends_and_the_server_goes_on_with_what_was_said(moment: str) -> None:
    """The next request of the step is not sent: the answer to it is there already."""
    creates: list[dict[str, Any] | None] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        creates.append(await socket.read())
        if moment == "before it begins":
            said.say("Be brief.")
            await anyio.wait_all_tasks_blocked()
        await socket.write(begun("resp_1"), item_done(ESSAY))
        if moment == "while it runs":
            said.say("Be brief.")
        steer = await socket.read()
        assert steer == {"type": "response.steer", "previous_response_id": "resp_1", "input": "Be brief."}
        await socket.write(about("accepted", steer), ended("resp_1", ESSAY, steered=True))
        await socket.write(*outcome_of("resp_2"))
        creates.append(await socket.read())

    result, budget, messages = await run_step(serve)
    assert result == "brief"
    assert creates[1] is None  # it left
    assert (budget.spent.turns, budget.spent.tokens) == (2, 30)
    assert said_in(messages) == ["Be brief."]
    texts = [each.text for each in messages if isinstance(each, AssistantMessage)]
    assert texts[0] == "I will write a long essay."


async def test_a_steered_answer_may_be_empty_and_be_steered_again_and_the_conversation_goes_on() -> None:
    creates: list[dict[str, Any] | None] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        await socket.write(begun("resp_1"))
        for number, word in enumerate(("First.", "Second."), 1):
            while (await said.handle.snapshot()).turns < number:
                await anyio.lowlevel.checkpoint()
            said.say(word)
            steer = await socket.read()
            assert steer is not None
            assert (steer["previous_response_id"], steer["input"]) == (f"resp_{number}", word)
            await socket.write(about("accepted", steer), ended(f"resp_{number}", steered=True))
            await socket.write(begun(f"resp_{number + 1}"))
        item = call_item("look_up", '{"number": 1}')
        await socket.write(item_done(item), ended("resp_3", item))
        creates.append(await socket.read())
        await socket.write(*outcome_of("resp_4"))

    result, budget, messages = await run_step(serve)
    assert result == "brief"
    assert creates[0] is not None
    assert creates[0]["previous_response_id"] == "resp_3"
    assert [item["type"] for item in creates[0]["input"]] == ["function_call_output"]
    assert said_in(messages) == ["First.", "Second."]
    assert budget.spent.turns == 4


async def test_what_was_said_waits_for_results_of_calls_and_is_not_sent_again() -> None:
    creates: list[dict[str, Any] | None] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        item = call_item("look_up", '{"number": 1}')
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        said.say("Be kind.")
        steers = [await socket.read(), await socket.read()]
        assert [each and each["input"] for each in steers] == ["Be brief.", "Be kind."]
        await socket.write(about("accepted", steers[0]), about("accepted", steers[1]))
        await socket.write(item_done(item, 1), ended("resp_1", ESSAY, item))
        pending = [
            about("pending", each, reason="waiting_for_required_input", required_input=[]) for each in steers
        ]
        await socket.write(*pending)
        creates.append(await socket.read())
        await socket.write(*outcome_of("resp_2"))

    result, _, messages = await run_step(serve)
    assert result == "brief"
    assert creates[0] is not None
    assert creates[0]["previous_response_id"] == "resp_1"
    assert [item["type"] for item in creates[0]["input"]] == ["function_call_output"]
    assert said_in(messages) == ["Be brief.", "Be kind."]


@pytest.mark.parametrize("code", ["steering_not_supported", "response_already_completed"])
async def test_what_the_server_gives_back_is_part_of_the_next_request(code: str) -> None:
    """A model that cannot be steered is not asked again on that socket."""
    creates: list[dict[str, Any] | None] = []
    error = {"type": "invalid_request_error", "code": code, "message": "No."}

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        item = call_item("look_up", '{"number": 1}')
        await socket.write(begun("resp_1"), item_done(item))
        said.say("Be brief.")
        steer = await socket.read()
        failed = about("failed", steer, error=error)
        if code == "steering_not_supported":
            del failed["stream_id"]  # a server need not name the lane
        await socket.write(ended("resp_1", item), failed)
        creates.append(await socket.read())
        await socket.write(begun("resp_2"), item_done({**item, "call_id": "call_2"}))
        said.say("Be kind.")
        await anyio.wait_all_tasks_blocked()
        if code != "steering_not_supported":
            again = await socket.read()
            await socket.write(about("failed", again, error=error))
        await socket.write(ended("resp_2", {**item, "call_id": "call_2"}))
        creates.append(await socket.read())
        await socket.write(*outcome_of("resp_3"))

    result, _, messages = await run_step(serve)
    assert result == "brief"
    for number, (create, words) in enumerate(zip(creates, ["Be brief.", "Be kind."], strict=True), 1):
        assert create is not None
        assert create["previous_response_id"] == f"resp_{number}"
        assert [item["type"] for item in create["input"]] == ["function_call_output", "message"]
        assert create["input"][1]["content"] == words
    assert said_in(messages) == ["Be brief.", "Be kind."]


async def test_an_outcome_that_a_word_overtakes_is_answered_with_it() -> None:
    """The user said something before the outcome was there, so the model has another turn, as over HTTP."""
    creates: list[dict[str, Any] | None] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        steer = await socket.read()
        item = call_item("nh_outcome", OUTCOME, "call_9")
        await socket.write(item_done(item, 1), ended("resp_1", ESSAY, item))
        await socket.write(about("accepted", steer), about("pending", steer, required_input=[]))
        creates.append(await socket.read())
        await socket.write(*outcome_of("resp_2"))

    result, budget, messages = await run_step(serve)
    assert result == "brief"
    assert creates[0] is not None
    assert [item["type"] for item in creates[0]["input"]] == ["function_call_output"]
    assert budget.spent.turns == 2
    assert said_in(messages) == ["Be brief."]


async def test_what_the_server_has_not_goes_to_another_socket_with_everything() -> None:
    """A socket that dies, before or after the server took the word."""
    for is_answered in (True, False):
        sockets: list[dict[str, Any] | None] = []

        async def serve(
            socket: RawSocket, said: Said, is_answered: bool = is_answered, sockets: list[Any] = sockets
        ) -> None:
            sockets.append(await socket.read())
            if len(sockets) > 1:
                await socket.write(*outcome_of("resp_9"))
                return
            await socket.write(begun("resp_1"), item_done(ESSAY))
            said.say("Be brief.")
            steer = await socket.read()
            if is_answered:
                await socket.write(about("accepted", steer))
            await socket.write(ended("resp_1", ESSAY, steered=True))

        result, _, messages = await run_step(serve, max_retries=2)
        assert result == "brief", is_answered
        assert len(sockets) == 2, is_answered
        again = sockets[1]
        assert again is not None
        assert "previous_response_id" not in again, is_answered
        assert again["input"][-1]["content"] == "Be brief.", is_answered
        assert said_in(messages) == ["Be brief."], is_answered


async def test_a_step_that_ends_meanwhile_leaves_nothing_and_the_socket_serves_others() -> None:
    """Nobody reads the answer to what was said: the server learns that when the socket closes."""
    left = anyio.Event()

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        steer = await socket.read()
        said.handle.cancel()
        with suppress(anyio.BrokenResourceError):
            await socket.write(about("accepted", steer), ended("resp_1", ESSAY, steered=True))
            await socket.write(begun("resp_2"))
        assert await socket.read() is None
        left.set()

    with pytest.raises(TaskCancelledError):
        await run_step(serve, until=left)


async def test_a_steered_step_ends_alike_with_a_journal_and_from_a_cassette_over_either_transport(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cassette.json"
    async with ModelServer(talkative) as server:
        executor = executor_at(server.base_url, **LANES)
        with cassette(path, mode="once"):
            budget = nh.budget(turns=9)
            async with nh.run(executor, policies=SpeakOnce(), budget=budget):
                assert await work("owls") == "brief"
                assert budget.spent.turns == 2
        steered = server.requests[1]
        assert [item["content"] for item in steered.body["input"]] == ["Be brief."]
        assert len(server.requests) == 2
        base_url = server.base_url
    for transport in ("http", "websocket"):
        with cassette(path, mode="none") as tape:
            async with nh.run(executor_at(base_url, transport, **LANES), policies=SpeakOnce()):
                assert await work("owls") == "brief"
        assert tape.unused == ()
    async with ModelServer(talkative) as server:
        for _ in range(2):  # the second life asks nobody
            with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
                executor = executor_at(server.base_url, **LANES)
                async with nh.run(executor, policies=SpeakOnce(), journal=store, run_id="steered"):
                    assert await work("owls") == "brief"
        assert len(server.requests) == 2


async def test_a_server_without_steering_gets_the_words_with_the_next_request() -> None:
    calls = [{"number": 1}, {"number": 2}]

    def reply(request: RecordedRequest) -> ModelReply:
        items = [*request.earlier_items, *request.body["input"]]
        asked = sum(item.get("type") == "function_call" for item in items)
        if asked == len(calls):
            return end("brief")
        return ModelReply(reasoning="hm", tool_calls=(tool_call("look_up", **calls[asked]),))

    for transport, settings in (("http", {}), ("websocket", {}), ("websocket", LANES)):
        async with ModelServer(reply, has_steering=False) as server:
            executor = executor_at(server.base_url, transport, **settings)
            async with nh.run(executor, policies=SpeakOnce()):
                assert await work("owls") == "brief"
            items = server.requests[1].body["input"]
            assert [item.get("content") for item in items][-1] == "Be brief."
            assert len(server.requests) == 3
