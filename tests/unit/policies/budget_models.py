"""Models and steps for tests of budgets."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

__all__ = ["DONE", "PRICE", "StagedModel", "act", "executor_of", "known_model", "set_number", "used"]

DONE = tool_call("nh_outcome", kind="pass")
PRICE = nh.models.ModelPrice(input=Decimal(1), output=Decimal(5))


@nh.natural_function
async def act() -> None:
    """natural
    Do something.
    """


@nh.natural_function
async def set_number() -> int:
    number: int
    """natural
    Set <:number>.
    """
    return number


def used(input_tokens: int = 100, output_tokens: int = 20) -> nh.Usage:
    return nh.Usage(requests=1, input_tokens=input_tokens, output_tokens=output_tokens)


def known_model(
    *answers: object, price: nh.models.ModelPrice | None = PRICE, **capabilities: object
) -> ScriptedModel:
    """A model whose price and longest response are known; without answers it ends every step at once."""
    known = nh.models.ModelCapabilities(**{"max_output_tokens": 50, "price": price, **capabilities})  # type: ignore[arg-type]
    given = list(answers) or (lambda request: model_response(DONE, usage=used()))
    return ScriptedModel(given, capabilities=known)  # type: ignore[arg-type]


def executor_of(model: nh.models.Model, **configuration: object) -> nh.AgentStepExecutor:
    settings = nh.StepExecutorConfiguration(**configuration)  # type: ignore[arg-type]
    return nh.AgentStepExecutor.from_model(model=model, configuration=settings)


class StagedModel:
    """A model whose stages of a response are functions of the test's.

    Args:
        before: What happens before the response begins.
        after: What happens after its first text.
    """

    name = "staged:model"
    capabilities = nh.models.ModelCapabilities(max_output_tokens=50, price=PRICE)

    def __init__(
        self,
        *,
        before: Callable[[], Awaitable[object]] | None = None,
        after: Callable[[], Awaitable[object]] | None = None,
        text: str = "so far",
    ) -> None:
        self._before = before
        self._after = after
        self._text = text

    @asynccontextmanager
    async def stream(
        self, request: nh.models.ModelRequest
    ) -> AsyncGenerator[AsyncIterator[nh.models.ModelEvent], None]:
        if self._before is not None:
            await self._before()
        yield self._events()

    async def _events(self) -> AsyncGenerator[nh.models.ModelEvent, None]:
        yield nh.models.TextDelta(text=self._text)
        if self._after is not None:
            await self._after()
        for event in model_response(DONE, usage=used()).events:
            yield event
