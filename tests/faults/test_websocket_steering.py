"""What a user says while a response is running on a WebSocket goes into it, where that is offered."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.parallel import TaskCancelledError
from nighthawk_async.policies import Budget, Events, ModelCall, OpenRequest
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, ReplyPacing, cassette, tool_call
from nighthawk_async.types.messages import AssistantMessage, Message, UserMessage

from .websocket_support import LANES, RawSocket, end, executor_at, raw_sockets, work

pytestmark = pytest.mark.anyio

LANE = {"stream_id": "lane-0"}
OUTCOME = '{"kind": "pass", "bindings": {"result": "brief"}}'


class Said:
    """A step in progress, to which its test speaks."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.asked: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        self.handle.steer(text)


def message_item(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def call_item(name: str, arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def begun(name: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": name}, **LANE}


def item_done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item, **LANE}


def ended(name: str, *output: dict[str, Any], steered: bool = False) -> dict[str, Any]:
    response: dict[str, Any] = {"id": name, "output": list(output)}
    response["usage"] = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    if steered:
        response |= {"status": "incomplete", "incomplete_details": {"reason": "steered"}}
        return {"type": "response.incomplete", "response": response, **LANE}
    return {"type": "response.completed", "response": {**response, "status": "completed"}, **LANE}


def about(kind: str, asked: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    """What the server says about a text."""
    assert asked is not None
    steer = {"id": "steer_1", "previous_response_id": asked["previous_response_id"]}
    if kind == "failed":
        steer["input"] = asked["input"]
    return {"type": f"response.steer.{kind}", "sequence_number": 4, "steer": steer, **LANE, **fields}


def outcome_of(name: str) -> list[dict[str, Any]]:
    item = call_item("nh_outcome", OUTCOME, "call_9")
    return [begun(name), item_done(item), ended(name, item)]


async def talk() -> tuple[str, list[Message]]:
    result = await work("owls")
    return result, list(nh.transcript().messages)


async def run_step(
    serve: Callable[[RawSocket, Said], Awaitable[None]], **settings: Any
) -> tuple[str, Budget, list[Message]]:
    """Run a step at a server; returns its result, its budget and what was said in it."""
    said, failure = Said(), None

    async def serve_one(socket: RawSocket) -> None:
        try:
            await serve(socket, said)
        except Exception as error:
            said.asked.append({"failure": error})
            raise

    budget = nh.budget(turns=20)
    async with raw_sockets(serve_one) as base_url:
        executor = executor_at(base_url, **{**LANES, "max_retries": 0, **settings})
        with anyio.fail_after(60):
            try:
                async with nh.run(executor, budget=budget), nh.open_tasks() as tasks:
                    said.handle = tasks.start(talk)
                    result, messages = await said.handle
            except (nh.errors.NighthawkError, TaskCancelledError) as error:
                failure = error  # raised outside of the server's task group, which would wrap it
    if failure is not None:
        raise failure
    return result, budget, messages


def said_in(messages: list[Message]) -> list[str]:
    """What the user said, apart from the prompt."""
    contents = [each.content for each in messages if isinstance(each, UserMessage)]
    return [str(item) for content in contents[1:] for item in content]


ESSAY = message_item("I will write a long essay.")


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
    """A word that came too late, a socket that dies, an answer without an outcome."""
    for case in ("a later word", "the socket dies", "the socket dies unanswered", "no outcome"):
        sockets: list[list[dict[str, Any] | None]] = []

        async def serve(
            socket: RawSocket, said: Said, case: str = case, sockets: list[list[Any]] = sockets
        ) -> None:
            asked: list[dict[str, Any] | None] = [await socket.read()]
            sockets.append(asked)
            if len(sockets) > 1:
                await socket.write(*outcome_of("resp_9"))
                return
            await socket.write(begun("resp_1"), item_done(ESSAY))
            said.say("Be brief.")
            steer = await socket.read()
            if case != "the socket dies unanswered":
                await socket.write(about("accepted", steer))
            await socket.write(ended("resp_1", ESSAY, steered=case != "no outcome"))
            if case == "a later word":
                said.say("Be kind.")
            if case.startswith("the socket dies"):
                return
            await socket.write(begun("resp_2"), item_done(message_item("In brief: ")))
            asked.append(await socket.read())

        result, _, messages = await run_step(serve, max_retries=2)
        assert result == "brief", case
        assert len(sockets) == 2, case
        again = sockets[1][0]
        assert again is not None
        assert "previous_response_id" not in again, case
        expected = ["Be brief.", "Be kind."] if case == "a later word" else ["Be brief."]
        assert again["input"][-1]["content"] == "\n\n".join(expected), case
        assert said_in(messages)[-len(expected) :] == expected, case


async def test_a_step_that_ends_meanwhile_leaves_nothing_and_the_socket_serves_others() -> None:
    """Nobody reads the answer to what was said: the server learns that when the socket closes."""
    left = anyio.Event()

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        steer = await socket.read()
        said.handle.cancel()
        await socket.write(about("accepted", steer), ended("resp_1", ESSAY, steered=True))
        await socket.write(begun("resp_2"))
        assert await socket.read() is None
        left.set()

    with pytest.raises(TaskCancelledError):
        await run_step(serve)
    with anyio.fail_after(60):
        await left.wait()


def talkative(request: RecordedRequest) -> ModelReply:
    items = [*request.earlier_items, *request.body["input"]]
    if any(item.get("content") == "Be brief." for item in items):
        return end("brief")
    return ModelReply(
        reasoning="I could write a lot, and will do so, for hours and hours.",
        text="Here is my essay, about owls and everything that they do.",
        pacing=ReplyPacing(between_writes_seconds=0.002, fragment_characters=2),
    )


class SpeakOnce(nh.Policy):
    """Speaks when the first words of a step arrive."""

    has_spoken = False

    @asynccontextmanager
    async def around_request(
        self, call: ModelCall, open_request: OpenRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent]]:
        async with open_request() as events:
            yield self._speak(events)

    async def _speak(self, events: Events) -> AsyncIterator[nh.models.ModelEvent]:
        async for event in events:
            if not self.has_spoken:
                self.has_spoken = True
                nh.get_current_step_actor().steer("Be brief.")
            yield event


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
