"""What it costs that long steps do not outgrow their model's context, and how a step of 300 turns gets on."""

import random
import re
from collections.abc import Iterator, Mapping
from functools import cache, partial

import anyio

import nighthawk_async as nh
from nighthawk_async.agent.task import Conversation, text_of_tool, texts_of
from nighthawk_async.configuration import StepExecutorConfiguration
from nighthawk_async.prompt.tokens import TokenCounter
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

from ..measure import Benchmark
from ..stopwatch import Stopwatch

__all__ = ["BENCHMARKS"]

WINDOW = 32_000
TURNS = 300
PAGE_CHARACTERS = 2_000

COUNTER = TokenCounter.resolve(encoding_name="o200k_base", model_name="")


@cache
def page_text(number: int) -> str:
    """A page of 2 KB, of other words than the others."""
    generator = random.Random(number)
    words = ("".join(generator.choices("abcdefghijklmnop", k=generator.randint(2, 9))) for _ in range(400))
    return f"Page {number}: {' '.join(words)}"[:PAGE_CHARACTERS]


@cache
def tokens_of(text: str) -> int:
    """The tokens of a text; most texts come again in the next request."""
    return COUNTER.count(text)


def texts_of_request(request: nh.models.ModelRequest) -> Iterator[str]:
    """All texts that a request sends."""
    yield request.system_prompt
    yield from map(text_of_tool, request.tools)
    for message in request.messages:
        yield from texts_of(message)


class Reader(ScriptedModel):
    """Reads pages one by one, reports the true size of each request, and writes summaries."""

    def __init__(self, pages: int) -> None:
        super().__init__(self._reply, capabilities=nh.models.ModelCapabilities(context_window=WINDOW))
        self.pages = pages
        self.sizes: list[int] = []
        self.summaries = 0

    def _reply(self, request: nh.models.ModelRequest) -> ModelResponse:
        size = sum(map(tokens_of, texts_of_request(request)))
        self.sizes.append(size)
        usage = nh.Usage(requests=1, input_tokens=size, output_tokens=20)
        if not request.tools:
            self.summaries += 1
            return model_response(text="The pages so far say nothing that matters.", usage=usage)
        calls = [
            call.arguments
            for message in request.messages
            if isinstance(message, nh.models.AssistantMessage)
            for call in message.tool_calls
        ]
        page = int(re.findall(r"\d+", calls[-1])[-1]) + 1 if calls else 0
        if page < self.pages:
            return model_response(tool_call("nh_eval", expression=f"page({page})"), usage=usage)
        return model_response(tool_call("nh_outcome", kind="pass", bindings={"result": page}), usage=usage)


@nh.natural_function
async def read_all(page: object) -> int:
    """Read all pages."""
    result = 0
    """natural
    Read every <page>, and set <:result> to their number.
    """
    return result


async def read_pages(operations: int) -> Mapping[str, float]:
    """One step with as many turns as operations are asked for; it must end right, within the context."""
    reads: list[int] = []

    def page(number: int) -> str:
        reads.append(number)
        return page_text(number)

    for number in range(operations):
        tokens_of(page_text(number))
    model = Reader(operations)
    configuration = StepExecutorConfiguration(max_turns=operations + 10, max_tool_calls=operations + 10)
    async with nh.run(nh.AgentStepExecutor.from_model(model, configuration=configuration)):
        stopwatch = Stopwatch()
        assert await read_all(page) == operations
        figures = stopwatch.figures(operations)
    assert max(model.sizes) <= WINDOW
    shrunk = sum(after < before for before, after in zip(model.sizes, model.sizes[1:], strict=False))
    return {
        **figures,
        "round_trips": len(model.requests),
        "largest_request": max(model.sizes),
        "compactions": shrunk,
        "summaries": model.summaries,
        "read_again": len(reads) - len(set(reads)),
    }


def keep_count(turns: int) -> Mapping[str, float]:
    """What the size of a conversation costs in each turn while nothing is due."""
    configuration = StepExecutorConfiguration()
    model = ScriptedModel([], capabilities=nh.models.ModelCapabilities(context_window=100_000_000))
    conversation = Conversation.of_step(configuration, model, COUNTER, ("result",))
    conversation.begin("You run one block.", nh.models.UserMessage(content=("Read.",)))
    result = nh.models.ToolResult(call_id="1", name="nh_eval", content=(page_text(0),))
    results = nh.models.ToolResultsMessage(results=(result,))
    call = tool_call("nh_eval", expression="page(0)")
    stopwatch = Stopwatch()
    for turn in range(turns):
        request = nh.models.ModelRequest(messages=tuple(conversation.sent))
        assert not conversation.may_be_due(request)
        usage = nh.Usage(requests=1, input_tokens=1_000 + 600 * turn, output_tokens=20)
        conversation.add_response(nh.models.AssistantMessage(tool_calls=(call,)), usage, 0)
        conversation.add(results)
    return stopwatch.figures(turns)


BENCHMARKS = (
    Benchmark(
        name="conversation-turn",
        what="the size of a conversation in one turn, when no compaction is due",
        run=keep_count,
        operations=1_000,
        quick_operations=100,
    ),
    *(
        Benchmark(
            name=f"long-step-{backend}",
            what=f"one of 300 turns with results of 2 KB under a context of 32,000 tokens, on {backend}",
            run=partial(anyio.run, read_pages, backend=backend),
            operations=TURNS,
            quick_operations=60,
            smallest_suite="default",
            rounds=3,
        )
        for backend in ("trio", "asyncio")
    ),
)
