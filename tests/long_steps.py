"""A model that reads page after page with a tool, and reports the size of what it is sent."""

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import nighthawk_async as nh
from nighthawk_async.agent.task import text_of_tool, texts_of
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

WINDOW = 32_000
SUMMARY = "The pages so far say nothing that matters."
COUNTER = TokenCounter.resolve(encoding_name="o200k_base", model_name="")

_PAGE_CHARACTERS = 2_000


@cache
def text_of_page(number: int) -> str:
    """A page of 2,000 characters, the same in every process."""
    generator = random.Random(number)
    words = ["".join(generator.choices("abcdefghijklmnop", k=generator.randint(2, 9))) for _ in range(400)]
    return f"Page {number}: {' '.join(words)}"[:_PAGE_CHARACTERS]


def size_of(request: nh.models.ModelRequest) -> int:
    """The tokens of a request."""
    texts = [request.system_prompt, *map(text_of_tool, request.tools)]
    texts += [text for message in request.messages for text in texts_of(message)]
    return sum(map(_count, texts))


@cache
def _count(text: str) -> int:
    return COUNTER.count(text)


def is_summary(request: nh.models.ModelRequest) -> bool:
    """Whether a request asks for a summary."""
    return not request.tools


def last_page(messages: Sequence[nh.models.Message]) -> int:
    """The number of the page that was read last; -1 for none."""
    calls = [
        call
        for message in messages
        if isinstance(message, nh.models.AssistantMessage)
        for call in message.tool_calls
    ]
    numbers = [found[1] for call in calls if (found := re.search(r"page\((\d+)\)", call.arguments))]
    return int(numbers[-1]) if numbers else -1


class ReadingModel(ScriptedModel):
    """Reads pages one by one with `nh_eval`, then ends the block with the number of the last one.

    Args:
        pages: The number of pages.
        window: The size of its context.
        summary: The answer to a request for a summary.
        extra: Returns the answer to a request that is not about the next page; None for none.
    """

    def __init__(
        self,
        pages: int,
        *,
        window: int | None = WINDOW,
        summary: Callable[[nh.models.ModelRequest], Any] | None = None,
        extra: Callable[[nh.models.ModelRequest, int], ModelResponse | None] | None = None,
        **capabilities: Any,
    ) -> None:
        super().__init__(
            self._reply, capabilities=nh.models.ModelCapabilities(context_window=window, **capabilities)
        )
        self.pages = pages
        self.sizes: list[int] = []
        self._summary = summary
        self._extra = extra

    @property
    def summaries(self) -> list[nh.models.ModelRequest]:
        """The requests for summaries."""
        return [request for request in self.requests if is_summary(request)]

    @property
    def compactions(self) -> list[int]:
        """The indexes of requests that are smaller than the one before, summaries left out."""
        turns = [index for index, request in enumerate(self.requests) if not is_summary(request)]
        pairs = pairwise(turns)
        return [after for before, after in pairs if self.sizes[after] < self.sizes[before]]

    def _reply(self, request: nh.models.ModelRequest) -> Any:
        self.sizes.append(size_of(request))
        usage = nh.Usage(requests=1, input_tokens=self.sizes[-1], output_tokens=20)
        if is_summary(request):
            return (
                model_response(text=SUMMARY, usage=usage) if self._summary is None else self._summary(request)
            )
        page = last_page(request.messages) + 1
        other = None if self._extra is None else self._extra(request, page)
        if other is not None:
            return other
        if page < self.pages:
            return model_response(tool_call("nh_eval", expression=f"page({page})"), usage=usage)
        done = tool_call("nh_outcome", kind="pass", bindings={"result": page - 1})
        return model_response(done, usage=usage)


class Book:
    """Pages that a block may read.

    Attributes:
        reads: The numbers of the pages that were read, in order.
    """

    def __init__(self) -> None:
        self.reads: list[int] = []

    def page(self, number: int) -> str:
        """Return the text of a page."""
        self.reads.append(number)
        return text_of_page(number)


@nh.natural_function
async def read_all(page: Callable[[int], str]) -> int:
    result = -1
    """natural
    Read every <page>, and set <:result> to the number of the last one.
    """
    return result


def executor_of(model: nh.models.Model, **configuration: Any) -> nh.AgentStepExecutor:
    """An executor for long steps."""
    limits = {"max_turns": 1_000, "max_tool_calls": 2_000, **configuration}
    return nh.AgentStepExecutor.from_model(model, configuration=nh.StepExecutorConfiguration(**limits))
