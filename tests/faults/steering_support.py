"""What the tests of steering over a WebSocket share: events about a text, and steps in progress."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

import nighthawk_async as nh
from nighthawk_async.parallel import TaskCancelledError
from nighthawk_async.policies import Budget, Events, ModelCall, OpenRequest
from nighthawk_async.testing import ModelReply, RecordedRequest, ReplyPacing
from nighthawk_async.types.messages import Message, UserMessage

from .websocket_support import LANES, RawSocket, end, executor_at, raw_sockets, work

LANE = {"stream_id": "lane-0"}
OUTCOME = '{"kind": "pass", "bindings": {"result": "brief"}}'


class Said:
    """A step in progress, to which its test speaks."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.failure: Exception | None = None

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


async def _talk() -> tuple[str, list[Message]]:
    result = await work("owls")
    return result, list(nh.transcript().messages)


async def run_step(
    serve: Callable[[RawSocket, Said], Awaitable[None]],
    *,
    policies: Sequence[nh.Policy] = (),
    turns: int = 20,
    max_turns: int | None = None,
    until: anyio.Event | None = None,
    resilience: Any = None,
    **settings: Any,
) -> tuple[str, Budget, list[Message]]:
    """Run a step at a server; returns its result, its budget and what was said in it.

    Args:
        serve: What the server does with each socket.
        policies: The policies of the run.
        turns: The turns that its budget allows.
        max_turns: The turns that the step may have; None for the default.
        until: Set by the server; the server goes on until then.
        resilience: The baseline of the run; None for none.
        settings: Settings of the model.
    """
    said, failure = Said(), None

    async def serve_one(socket: RawSocket) -> None:
        try:
            await serve(socket, said)
        except Exception as error:
            said.failure = error
            raise

    budget = nh.budget(turns=turns)
    async with raw_sockets(serve_one) as base_url:
        executor = executor_at(base_url, max_turns=max_turns, **{**LANES, "max_retries": 0, **settings})
        active: dict[str, Any] = {"model": executor, "budget": budget, "policies": policies}
        if resilience is not None:
            active["resilience"] = resilience
        with anyio.fail_after(60):
            try:
                async with nh.run(**active), nh.open_tasks() as tasks:
                    said.handle = tasks.start(_talk)
                    result, messages = await said.handle
            except (nh.errors.NighthawkError, TaskCancelledError) as error:
                failure = error  # raised outside of the server's task group, which would wrap it
            if until is not None:
                await until.wait()
    if failure is not None:
        raise failure from said.failure
    return result, budget, messages


def said_in(messages: list[Message]) -> list[str]:
    """What the user said, apart from the prompt."""
    contents = [each.content for each in messages if isinstance(each, UserMessage)]
    return [str(item) for content in contents[1:] for item in content]


ESSAY = message_item("I will write a long essay.")


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
