"""Several words of a user while responses run on a WebSocket: each goes on with new items only."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.policies import Events, ModelCall, OpenRequest

from .steering_support import (
    ESSAY,
    Said,
    about,
    begun,
    ended,
    item_done,
    message_item,
    outcome_of,
    run_step,
    said_in,
)
from .websocket_support import RawSocket

pytestmark = pytest.mark.anyio

ALREADY_ENDED = {"type": "invalid_request_error", "code": "response_already_completed", "message": "No."}
SHORT = message_item("In brief: ")


class SpeakAfterTheFirst(nh.Policy):
    """Speaks between the end of the first response and the next turn."""

    has_spoken = False

    @asynccontextmanager
    async def around_request(
        self, call: ModelCall, open_request: OpenRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent]]:
        async with open_request() as events:
            yield self._speak(events)

    async def _speak(self, events: Events) -> AsyncIterator[nh.models.ModelEvent]:
        async for event in events:
            yield event
        if not self.has_spoken:
            self.has_spoken = True
            nh.get_current_step_actor().steer("Be kind.")


async def steer_to(socket: RawSocket, response: str, text: str) -> dict[str, Any]:
    """The next message of the client, which puts a text into a response."""
    steer = await socket.read()
    assert steer == {"type": "response.steer", "previous_response_id": response, "input": text}
    return steer


def answer_to(create: dict[str, Any]) -> list[dict[str, Any]]:
    """The outcome, on the lane of a request."""
    return [{**event, "stream_id": create["stream_id"]} for event in outcome_of("resp_9")]


@pytest.mark.parametrize("end", ["steered", "completed"])
async def test_a_later_word_goes_into_the_answer_to_the_first(end: str) -> None:
    """It came after the response had ended, and before the next turn; nothing is sent again."""
    creates: list[dict[str, Any] | None] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        creates.append(await socket.read())
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        steer = await steer_to(socket, "resp_1", "Be brief.")
        await socket.write(about("accepted", steer), ended("resp_1", ESSAY, steered=end == "steered"))
        await socket.write(begun("resp_2"), item_done(SHORT))
        steer = await steer_to(socket, "resp_2", "Be kind.")
        await socket.write(about("accepted", steer), ended("resp_2", SHORT, steered=True))
        await socket.write(*outcome_of("resp_3"))
        creates.append(await socket.read())

    result, budget, messages = await run_step(serve, policies=[SpeakAfterTheFirst()])
    assert result == "brief"
    assert creates[1:] == [None]  # it left
    assert said_in(messages) == ["Be brief.", "Be kind."]
    assert (budget.spent.turns, budget.spent.tokens) == (3, 45)


async def test_a_later_word_that_is_late_for_the_answer_too_is_the_new_item_of_the_next_turn() -> None:
    creates: list[dict[str, Any] | None] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        steer = await steer_to(socket, "resp_1", "Be brief.")
        await socket.write(about("accepted", steer), ended("resp_1", ESSAY, steered=True))
        await socket.write(begun("resp_2"))
        steer = await steer_to(socket, "resp_2", "Be kind.")
        await socket.write(about("failed", steer, error=ALREADY_ENDED), *outcome_of("resp_2")[1:])
        creates.append(await socket.read())
        await socket.write(*outcome_of("resp_3"))

    result, _, messages = await run_step(serve, policies=[SpeakAfterTheFirst()])
    assert result == "brief"
    assert creates[0] is not None
    assert creates[0]["previous_response_id"] == "resp_2"
    assert [item["type"] for item in creates[0]["input"]] == ["function_call_output", "message"]
    assert creates[0]["input"][1]["content"] == "Be kind."
    assert said_in(messages) == ["Be brief.", "Be kind."]


async def test_the_second_of_two_words_that_the_server_gives_back_goes_into_the_answer_to_the_first() -> None:
    """It is neither lost nor sent with everything."""
    creates: list[dict[str, Any] | None] = []

    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        said.say("Be kind.")
        first = await steer_to(socket, "resp_1", "Be brief.")
        second = await steer_to(socket, "resp_1", "Be kind.")
        await socket.write(about("accepted", first), about("failed", second, error=ALREADY_ENDED))
        await socket.write(ended("resp_1", ESSAY, steered=True), begun("resp_2"), item_done(SHORT))
        steer = await steer_to(socket, "resp_2", "Be kind.")
        await socket.write(about("accepted", steer), ended("resp_2", SHORT, steered=True))
        await socket.write(*outcome_of("resp_3"))
        creates.append(await socket.read())

    result, _, messages = await run_step(serve)
    assert result == "brief"
    assert creates == [None]
    assert said_in(messages) == ["Be brief.", "Be kind."]


async def test_everything_is_sent_again_where_the_answer_would_miss_a_word() -> None:
    """The server goes on before it says that it does not take a word, or no turn is left for a later one."""
    for case in ("given back late", "given back at the end", "the last turn", "unanswered"):
        creates: list[dict[str, Any]] = []

        async def serve(
            socket: RawSocket, said: Said, case: str = case, creates: list[Any] = creates
        ) -> None:
            creates.append(await socket.read())
            if len(creates) > 1:
                await socket.write(*answer_to(creates[-1]))
                return
            await socket.write(begun("resp_1"), item_done(ESSAY))
            said.say("Be brief.")
            steers = [await steer_to(socket, "resp_1", "Be brief.")]
            if case != "the last turn":
                said.say("Be kind.")
                steers.append(await steer_to(socket, "resp_1", "Be kind."))
            await socket.write(about("accepted", steers[0]), ended("resp_1", ESSAY, steered=True))
            await socket.write(begun("resp_2"), item_done(SHORT))
            failed = about("failed", steers[-1], error=ALREADY_ENDED)
            if case == "given back late":
                await socket.write(failed)
            if case in ("given back at the end", "unanswered"):
                await socket.write(ended("resp_2", SHORT))
            if case == "given back at the end":
                await socket.write(failed)
            if (again := await socket.read()) is not None:  # on the same socket, where that is free
                creates.append(again)
                await socket.write(*answer_to(again))

        is_last = case == "the last turn"
        policies, max_turns = ([SpeakAfterTheFirst()], 2) if is_last else ([], None)
        result, _, messages = await run_step(serve, policies=policies, max_turns=max_turns)
        assert result == "brief", case
        assert len(creates) == 2, case
        again = creates[1]
        assert "previous_response_id" not in again, case
        assert again["input"][-1]["content"] == "Be brief.\n\nBe kind.", case
        assert said_in(messages) == ["Be brief.", "Be kind."], case


async def test_a_word_of_the_last_turn_is_reported_as_undelivered() -> None:
    async def serve(socket: RawSocket, said: Said) -> None:
        await socket.read()
        await socket.write(begun("resp_1"), item_done(ESSAY))
        said.say("Be brief.")
        steer = await steer_to(socket, "resp_1", "Be brief.")
        await socket.write(about("accepted", steer), ended("resp_1", ESSAY, steered=True))
        await socket.write(begun("resp_2"))
        while (await said.handle.snapshot()).turns < 2:
            await anyio.lowlevel.checkpoint()
        said.say("Be kind.")
        await socket.write(*outcome_of("resp_2")[1:])
        assert await socket.read() is None  # nothing was put into it

    with pytest.warns(nh.runtime.UndeliveredSteeringWarning, match="Be kind"):
        result, _, messages = await run_step(serve, max_turns=2)
    assert result == "brief"
    assert said_in(messages) == ["Be brief."]
