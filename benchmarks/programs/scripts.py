"""Models that answer from the scripts of an input, for either version."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import nighthawk_async as nh
from nighthawk_async.models import ModelRequest, TextDelta, ToolCallCompleted, UsageReported
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response

from ..prompts.measuring import tokens_of_request, tokens_of_text
from ..prompts.reader import reading, scripted
from .program import Ended, Input, Program, Version
from .running import run_version

__all__ = ["right_script", "run_scripted", "scripted_model", "wrong_models"]

Script: TypeAlias = Callable[[ModelRequest], ModelResponse]


async def run_scripted(program: Program, given: Input, version: Version, model: ScriptedModel) -> Ended:
    """Run a version on a scripted model, in a run of its own.

    Args:
        program: The program.
        given: The input.
        version: The version.
        model: The model.

    Raises:
        Exception: Any error but the one that the input expects.
    """
    async with nh.run(model):
        return await run_version(program, given, version)


def scripted_model(given: Input, version: Version) -> ScriptedModel:
    """A model that makes no mistake. It reports the tokens that its requests and responses really have.

    Args:
        given: The input.
        version: The version that asks it.
    """
    return scripted(_counting(right_script(given, version)))


def right_script(given: Input, version: Version) -> Script:
    """A function that gives the right response to each request, in their order.

    Args:
        given: The input.
        version: The version that asks.
    """
    return reading(given.answers) if version == "natural" else _replying(given.replies)


def wrong_models(given: Input, version: Version) -> list[ScriptedModel]:
    """Models that each make a mistake.

    Args:
        given: The input.
        version: The version that asks them.
    """
    if version == "natural":
        return [scripted(reading(answers)) for answers in given.wrong_answers]
    return [scripted(_replying(replies)) for replies in given.wrong_replies]


def _replying(replies: Sequence[Any]) -> Script:
    left = iter(replies)

    def reply(request: ModelRequest) -> ModelResponse:
        for each in left:
            return model_response(text=json.dumps(each))
        raise AssertionError(f"a chat call more than there are replies: {request.messages[-1]}")

    return reply


def _counting(script: Script) -> Script:
    def counted(request: ModelRequest) -> ModelResponse:
        response = script(request)
        usage = nh.Usage(
            requests=1, input_tokens=tokens_of_request(request), output_tokens=_tokens_of_response(response)
        )
        events = [
            replace(each, usage=usage) if isinstance(each, UsageReported) else each
            for each in response.events
        ]
        return ModelResponse(events=tuple(events))

    return counted


def _tokens_of_response(response: ModelResponse) -> int:
    tokens = 0
    for event in response.events:
        match event:
            case TextDelta(text=text):
                tokens += tokens_of_text(text)
            case ToolCallCompleted(call=call):
                tokens += tokens_of_text(call.name) + tokens_of_text(call.arguments)
            case _:
                pass
    return tokens
