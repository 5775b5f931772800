"""What the tests of cassettes share: natural functions, a model that answers them, and how to ask it."""

import re
from collections.abc import Sequence
from pathlib import Path

import nighthawk_async as nh
from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call
from nighthawk_async.types.messages import UserContent, UserMessage
from nighthawk_async.types.model import ModelEvent, ModelRequest, TextDelta


@nh.natural_function
async def stars(review: str) -> int:
    count: int
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


@nh.natural_function
async def best(reviews: Sequence[str]) -> int:
    count: int
    """natural
    Set <:count> to the most <stars> that one of <reviews> gives.
    """
    return count


def counting_model() -> ScriptedModel:
    """Counts the stars of a review; asked for the best of some, it calls `stars` for the first."""
    return ScriptedModel(count_stars)


def count_stars(request: ModelRequest) -> ModelResponse:
    """The answer of `counting_model`."""
    prompt = "".join(map(str, request.messages[0].content)) if request.messages else ""
    if "one of" in prompt and len(request.messages) == 1:
        return model_response(tool_call("nh_eval", expression="await stars(reviews[0])"))
    found = re.search(r"(\d+) stars", str(request.messages[-1] if "one of" in prompt else prompt))
    number = found.group(1) if found else re.findall(r'"value": (\d+)', str(request.messages[-1]))[0]
    return model_response(
        tool_call("nh_assign", target_path="count", expression=number), tool_call("nh_outcome", kind="pass")
    )


def executor_of(model: nh.models.Model) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_model(model=model)


def request_of(*content: UserContent, **settings: object) -> ModelRequest:
    return ModelRequest(messages=(UserMessage(content=content),), settings=settings)


async def ask(model: nh.models.Model, request: ModelRequest | str) -> str:
    """The text of one response."""
    events = await collect(model, request)
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def collect(model: nh.models.Model, request: ModelRequest | str) -> list[ModelEvent]:
    """The events of one response."""
    asked = request_of(request) if isinstance(request, str) else request
    async with open_stream(model, asked) as events:
        return [event async for event in events]


def no_model() -> ScriptedModel:
    """A model that must not be asked."""
    return ScriptedModel([])


def echo_model() -> ScriptedModel:
    """Answers with a number, and the first text it was asked."""
    numbers = iter(range(1, 1_000))
    return ScriptedModel(
        lambda request: model_response(text=f"{next(numbers)}: {request.messages[0].content[0]}")
    )


def content_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def is_there(path: Path) -> bool:
    return path.exists()
