"""A subject with a natural block, and executors that answer it."""

import re
from collections.abc import Mapping
from decimal import Decimal

import nighthawk_async as nh
from nighthawk_async.evals import Case
from nighthawk_async.testing import (
    CallbackExecutor,
    ScriptedModel,
    StepCall,
    model_response,
    return_response,
    tool_call,
)
from nighthawk_async.types.model import ModelRequest
from nighthawk_async.types.usage import Usage

WORDS = {"One": 1, "Two": 2, "Three": 3, "Four": 4, "Five": 5}


@nh.natural_function
async def stars(review: str) -> int:
    """natural
    Return how many stars <review> gives.
    """
    return 0


def cases(*names: str) -> list[Case]:
    """Cases by the words for their stars."""
    return [Case(name, inputs={"review": f"{name} stars."}, expected=WORDS[name]) for name in names]


def executor(wrong: Mapping[str, int] | None = None) -> CallbackExecutor:
    """An executor that reads the first word, and is wrong about some."""

    def answer(call: StepCall) -> object:
        word = str(call.step_locals["review"]).split()[0]
        return return_response(str((wrong or {}).get(word, WORDS[word])))

    return CallbackExecutor(answer)  # type: ignore[arg-type]


def model(*, cost: str = "0.01", tokens: int = 100) -> ScriptedModel:
    """A model that reads the first word of the review, for some money."""

    def answer(request: ModelRequest) -> object:
        text = str(request)
        word = next(each for each in WORDS if re.search(rf"\b{each} stars", text))
        usage = Usage(requests=1, input_tokens=tokens, output_tokens=10, cost=Decimal(cost))
        call = tool_call("nh_outcome", kind="return", return_expression=str(WORDS[word]))
        return model_response(call, usage=usage)

    return ScriptedModel(answer)  # type: ignore[arg-type]
