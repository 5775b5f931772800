"""The natural functions that suites call, and a model that answers them."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ...functions import natural_function
from ...types.messages import AssistantMessage
from ...types.model import ModelEvent, ModelRequest
from ..scripted_model import ModelResponse, ScriptedModel, model_response, tool_call


@natural_function
async def add_up(numbers: list[int]) -> int:
    """Add numbers up."""
    total: int = 0
    """natural
    Set <:total> to the sum of <numbers>.
    """
    return total


@natural_function
async def add_up_without_return(numbers: list[int]) -> int:
    """Add numbers up, in a block that may not return."""
    total: int = 0
    """natural
    ---
    deny: [return, raise]
    ---
    Set <:total> to the sum of <numbers>.
    """
    return total


@natural_function
async def add_up_through(numbers: list[int], inner: Callable[[list[int]], Awaitable[int]]) -> int:
    """Add numbers up, by a step within the step."""
    total: int = 0
    """natural
    Set <:total> to what <inner> gives for <numbers>.
    """
    return total


class AddingModel(ScriptedModel):
    """Answers those functions: it looks at the numbers, and adds them up in a second turn.

    Attributes:
        open_streams: The number of responses that are entered and not left.
    """

    def __init__(self) -> None:
        super().__init__(_answer, name="contract:adding")
        self.open_streams = 0

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        """Stream the answer to a request."""
        self.open_streams += 1
        try:
            async with super().stream(request) as events:
                yield events
        finally:
            self.open_streams -= 1


def _answer(request: ModelRequest) -> ModelResponse:
    if not any(isinstance(message, AssistantMessage) for message in request.messages):
        return model_response(tool_call("nh_eval", expression="len(numbers)"))
    is_nested = "gives for" in str(request.messages[0])
    expression = "await inner(numbers)" if is_nested else "sum(numbers)"
    return model_response(
        tool_call("nh_assign", target_path="total", expression=expression),
        tool_call("nh_outcome", kind="pass"),
    )
