"""`nh.stream_text`: pieces of a text, and how the call behind them ends."""

import gc
import json
from collections.abc import AsyncGenerator, AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from starlette.responses import StreamingResponse

import nighthawk_async as nh
from nighthawk_async.errors import NighthawkError, TextReplacedError

pytestmark = pytest.mark.anyio

PASSES = 20
"""In so many turns of the event loop every listener has done what it does."""


class SlowModel:
    """Gives each answer in fragments, with turns of the event loop between them."""

    name = "my:slow"
    capabilities = nh.models.ModelCapabilities()

    def __init__(self, *answers: object) -> None:
        self.answers = [*answers]
        self.ends = 0

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent]]:
        try:
            yield self._events(json.dumps(self.answers.pop(0)))
        finally:
            self.ends += 1

    async def _events(self, text: str) -> AsyncIterator[nh.models.ModelEvent]:
        for begin in range(0, len(text), 12):
            yield nh.models.TextDelta(text=text[begin : begin + 12])
            for _ in range(PASSES):
                await checkpoint()
        yield nh.models.ResponseFinished(reason="stop")


def passing(**values: object) -> dict[str, object]:
    return {"kind": "pass", "bindings": values}


REPLY = "The lamp says E4, so its driver is broken."
ANSWER = passing(reply=REPLY, labels=["bug"])


def executor(*answers: object) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_model(model=SlowModel(*answers))


@nh.natural_function
async def answer(question: str) -> tuple[str, list[str]]:
    reply: str
    labels: list[str]
    """natural
    Set <:reply> to an answer to <question>, and <:labels>.
    """
    return reply, labels


@nh.natural_function
async def answer_at_once(question: str) -> str:
    """natural
    Return an answer to <question>.
    """
    ...


@nh.natural_function
def answer_in_a_thread(question: str) -> str:
    reply: str
    """natural
    Set <:reply> to an answer to <question>.
    """
    return reply


@nh.natural_function
async def two_texts(question: str) -> str:
    reply: str
    title: str
    """natural
    Set <:reply> to an answer to <question>, and <:title>.
    """
    return f"{title}: {reply}"


@nh.natural_function
async def two_blocks(question: str) -> str:
    title: str
    """natural
    Set <:title> for <question>.
    """
    reply: str
    """natural
    Set <:reply> to an answer to <question> with <title>.
    """
    return f"{title}: {reply}"


async def test_the_pieces_are_the_text() -> None:
    async with nh.run(executor(ANSWER)):
        text = nh.stream_text(answer, "What is wrong?")
        pieces = [piece async for piece in text]
    assert "".join(pieces) == text.text == REPLY
    assert len(pieces) > 2
    assert text.result == (REPLY, ["bug"])


async def test_a_stream_can_be_entered() -> None:
    model = SlowModel(ANSWER, ANSWER)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        async with nh.stream_text(answer, question="What is wrong?") as text:
            pieces = [piece async for piece in text]
        assert "".join(pieces) == REPLY
        async with nh.stream_text(answer, question="What is wrong?") as text:
            async for _ in text:
                break
        assert model.ends == 2
        with pytest.raises(NighthawkError, match="has not returned"):
            assert text.result
        with pytest.raises(NighthawkError, match="once"):
            await text.__aenter__()


async def test_the_return_value_is_streamed_where_no_binding_is_a_text() -> None:
    returned = {"kind": "return", "return_value": REPLY}
    async with nh.run(executor(returned, passing(reply=REPLY))):
        assert "".join([piece async for piece in nh.stream_text(answer_at_once, "Why?")]) == REPLY
        assert "".join([piece async for piece in nh.stream_text(answer_in_a_thread, "Why?")]) == REPLY


async def test_a_name_chooses_among_several_texts() -> None:
    both = passing(title="Lamp", reply=REPLY)
    blocks = (passing(title="Lamp"), passing(reply=REPLY))
    async with nh.run(executor(both, *blocks, both, *blocks)):
        for function in (two_texts, two_blocks):
            text = nh.stream_text(function, "Why?", binding="reply")
            assert "".join([piece async for piece in text]) == REPLY
            assert text.result == f"Lamp: {REPLY}"
        for function, words in ((two_texts, "several texts"), (two_blocks, "both write a text")):
            with pytest.raises(NighthawkError, match=words):
                await collect(nh.stream_text(function, "Why?", binding=None), [])


async def test_texts_of_inner_calls_are_no_part_of_it() -> None:
    async def ask_twice(question: str) -> str:
        title = await answer_at_once(question)
        return title + (await answer(question))[0]

    @nh.natural_function
    async def outer(question: str) -> str:
        reply: str
        """natural
        Call <answer_at_once> with <question>, and set <:reply> to what it gives.
        """
        return reply

    call = {"kind": "pass", "bindings": {"reply": REPLY}}
    async with nh.run(executor({"kind": "return", "return_value": "A title"}, ANSWER, call)):
        text = nh.stream_text(ask_twice, "Why?", binding="reply")
        assert "".join([piece async for piece in text]) == REPLY
        assert "".join([piece async for piece in nh.stream_text(outer, "Why?")]) == REPLY


async def test_an_answer_that_is_refused_does_not_show() -> None:
    refused: list[str] = []

    def polite(proposal: nh.oversight.Proposal) -> str | None:
        if not refused:
            refused.append(proposal.bindings["reply"])
            return "be polite"
        return None

    same, other = passing(reply=f"{REPLY} Sorry!", labels=[]), passing(reply="I am sorry.", labels=[])
    async with nh.run(executor(ANSWER, same, ANSWER, other)):
        with nh.scope(verify=polite):
            assert "".join([piece async for piece in nh.stream_text(answer, "Why?")]) == f"{REPLY} Sorry!"
            refused.clear()
            pieces: list[str] = []
            text = nh.stream_text(answer, "Why?")
            with pytest.raises(TextReplacedError, match="written anew") as caught:
                await collect(text, pieces)
    assert ("".join(pieces), caught.value.text) == (REPLY, "I am sorry.")
    assert text.result == ("I am sorry.", [])


async def test_errors_and_cancellations_reach_both_sides() -> None:
    async def fail(question: str) -> str:
        await answer(question)
        raise ValueError(question)

    ended = anyio.Event()

    async def wait_for_ever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    model = SlowModel(ANSWER, ANSWER, ANSWER)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        pieces: list[str] = []
        with pytest.raises(ValueError, match="Why"):
            await collect(nh.stream_text(fail, "Why?", binding="reply"), pieces)
        assert "".join(pieces) == REPLY

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collect, nh.stream_text(wait_for_ever), pieces)
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        assert ended.is_set()

        closed = nh.stream_text(answer, "Why?")
        assert await anext(closed)
        await closed.aclose()
        assert model.ends == 2

        async for _ in nh.stream_text(answer, "Why?"):  # dropped
            break
        gc.collect()
        await anyio.wait_all_tasks_blocked()
        assert model.ends == 3


async def collect(text: AsyncIterator[str], pieces: list[str]) -> None:
    async for piece in text:
        pieces.append(piece)


async def test_a_run_is_needed_from_the_beginning_to_the_end() -> None:
    with pytest.raises(NighthawkError, match="No run is active"):
        nh.stream_text(answer, "Why?")
    async with nh.run(executor(ANSWER)):
        text = nh.stream_text(answer, "Why?")
    with pytest.raises(NighthawkError, match="run has ended"):
        await anext(text)


async def test_a_response_of_starlette_streams_it_in_a_run_that_is_everywhere() -> None:
    """The endpoint returns before the text begins, and the response is sent in another task."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        await anyio.sleep_forever()
        return {}

    async def serve() -> None:
        response = StreamingResponse(nh.stream_text(answer, "Why?"), media_type="text/plain")
        await response({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)

    run = await nh.start_run(executor(ANSWER, ANSWER), everywhere=True)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
    finally:
        await run.aclose()
    body = [message.get("body", b"") for message in sent]
    assert b"".join(body).decode() == REPLY
    assert len([each for each in body if each]) > 2
