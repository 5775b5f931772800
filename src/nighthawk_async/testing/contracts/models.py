"""`ModelContract`: what a model promises, as tests."""

import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar

import anyio
import pytest

from ...errors import ConfigurationError, ModelError, ModelProtocolError
from ...ports import Model
from ...types.messages import BinaryContent, ToolCall, ToolDefinition, UserMessage
from ...types.model import (
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    NamedToolChoice,
    ReasoningDelta,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    ToolCallArgumentsDelta,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from ...types.model_output import CitationAdded, MediaCompleted
from ...types.native_tools import NativeCallFinished, NativeCallStarted
from .promises import Cancellation, Contract, broken, check, check_type, in_time, moments, without_leftovers

_EVENTS = (
    *(TextDelta, ReasoningDelta, UsageReported, ResponseFinished),
    *(ToolCallStarted, ToolCallArgumentsDelta, ToolCallCompleted),
    *(NativeCallStarted, NativeCallFinished, MediaCompleted, CitationAdded),
)
_PICTURE = BinaryContent(data=b"\x89PNG\r\n\x1a\n", media_type="image/png")


class ModelContract(Contract):
    """The promises of a `Model`. Derive from it, and say how to make the model.

        class TestMyModel(ModelContract):
            def make_model(self) -> nh.models.Model:
                return MyModel()

    The model is asked for a short text, and for a call of one tool if its capabilities have tools. A model
    that needs a server may begin it in a pytest fixture of the class.

    Attributes:
        cancellations: The greatest number of requests that a test cancels.
    """

    cancellations: ClassVar[int] = 24

    @abstractmethod
    def make_model(self) -> Model:
        """Return the model. Each test calls it once, some before any event loop runs."""
        raise NotImplementedError

    def make_failing_model(self) -> Model | None:
        """Return a model whose requests fail, such as one of an endpoint that is not there; None for none."""
        return None

    def make_interrupted_model(self) -> Model | None:
        """Return a model whose response breaks off before its end; None for none."""
        return None

    def text_request(self) -> ModelRequest:
        """Return a request that the model answers with text."""
        return ModelRequest(
            system_prompt="Answer in one short sentence.",
            messages=(UserMessage(content=("Say hello.",)),),
        )

    def tool_request(self) -> ModelRequest:
        """Return a request that the model answers with a call of the only tool that it offers."""
        tool = ToolDefinition(
            name="add",
            description="Add two numbers.",
            parameters={
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        )
        return ModelRequest(
            system_prompt="Use the tool.",
            messages=(UserMessage(content=("Add 19 and 23 with the tool `add`.",)),),
            tools=(tool,),
            tool_choice=NamedToolChoice(name="add"),
        )

    def test_it_is_a_model(self) -> None:
        """A model has a name, `provider:name`, capabilities, and the method `stream`."""
        model = self.make_model()
        check_type(model, Model, "it")
        provider, separator, name = str(model.name).partition(":")
        check(provider and separator and name, f"its name is {model.name!r}")
        check_type(model.capabilities, ModelCapabilities, "capabilities")

    async def test_a_response_ends_with_exactly_one_finish(self) -> None:
        """A response has the events of `nighthawk_async.models`; only the last is a ResponseFinished."""
        await self._read(self.make_model(), self.text_request())

    async def test_a_request_is_answered_with_text(self) -> None:
        """A request without tools is answered with text, and its reason is "stop" or "length"."""
        events = await self._read(self.make_model(), self.text_request())
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        check(text.strip(), f"it gave {events!r}")
        reason = _end_of(events).reason
        check(reason in ("stop", "length"), f"the reason is {reason!r}")

    async def test_a_tool_call_is_whole(self) -> None:
        """Each tool call begins once and is completed once, with an id of its own and arguments in JSON.

        It is a call of a tool on offer, and the reason of the response is "tool_calls".
        """
        model = self.make_model()
        if not model.capabilities.tools:
            pytest.skip("its capabilities have no tools")
        request = self.tool_request()
        if not model.capabilities.forced_tool_choice:
            request = replace(request, tool_choice="auto")
        events = await self._read(model, request)
        calls = [event.call for event in events if isinstance(event, ToolCallCompleted)]
        check(calls, f"it called no tool: {events!r}")
        offered = {tool.name for tool in request.tools}
        for call in calls:
            check(call.name in offered, f"it called {call.name!r}")
        reason = _end_of(events).reason
        check(reason == "tool_calls", f"the reason is {reason!r}")

    async def test_usage_is_reported(self) -> None:
        """A response reports its usage: one request, and the tokens sent and received."""
        events = await self._read(self.make_model(), self.text_request())
        reported = [event.usage for event in events if isinstance(event, UsageReported)]
        check(reported, f"no event of {events!r} is a UsageReported")
        last = reported[-1]
        is_whole = last.requests == 1 and last.input_tokens > 0 and last.output_tokens > 0
        check(is_whole, f"it reported {last!r}")

    async def test_a_model_answers_again(self) -> None:
        """A model answers any number of requests, one after the other."""
        model, request = self.make_model(), self.text_request()
        for _ in range(3):
            await self._read(model, request)

    async def test_requests_are_answered_at_once(self) -> None:
        """A model answers many requests at once, each whole."""
        model, request = self.make_model(), self.text_request()
        failures: list[Exception] = []

        async def read() -> None:
            try:
                await self._read(model, request)
            except Exception as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(read)
        if failures:
            broken(f"of 8 requests at once, {len(failures)} went wrong; one of them: {failures[0]}")

    def test_it_works_on_both_event_loops(self) -> None:
        """One model object works on asyncio and on Trio, one after the other."""
        model, request = self.make_model(), self.text_request()
        for backend in ("asyncio", "trio", "asyncio"):
            try:
                anyio.run(self._read, model, request, backend=backend)
            except Exception as error:
                broken(f"on {backend}, it raised {error!r}")

    async def test_the_request_is_not_changed(self) -> None:
        """A request is not changed."""
        model, request = self.make_model(), self.text_request()
        before = deepcopy(request)
        await self._read(model, request)
        check(request == before, f"{before!r} has become {request!r}")

    async def test_leaving_early_leaves_nothing_behind(self) -> None:
        """A response that is left early ends at once, and leaves no task behind."""
        model, request = self.make_model(), self.text_request()
        async with without_leftovers(self.patience_seconds):
            for wanted in (0, 1, 2):
                async with (
                    in_time(self.patience_seconds, "it had not ended"),
                    model.stream(request) as events,
                ):
                    for _ in range(wanted):
                        await anext(events, None)
        await self._read(model, request)

    async def test_an_error_of_the_reader_leaves_as_it_is(self) -> None:
        """An exception that the reader of a response raises leaves it as it is."""
        model = self.make_model()
        raised = RuntimeError("raised by the reader")
        caught: BaseException | None = None
        try:
            async with model.stream(self.text_request()) as events:
                await anext(events, None)
                raise raised
        except BaseException as error:
            caught = error
        check(caught is raised, f"{raised!r} became {caught!r}")

    async def test_a_cancellation_between_events_ends_it(self) -> None:
        """A request that is cancelled between two events ends so, and leaves no task behind."""
        model, request = self.make_model(), self.text_request()
        events = await self._read(model, request)
        async with without_leftovers(self.patience_seconds):
            for position in range(-1, min(len(events), self.cancellations)):
                when = "before it was entered" if position < 0 else f"after event {position}"
                async with in_time(self.patience_seconds, f"cancelled {when}, it had not ended"):
                    await Cancellation(when).run(_read_until_cancelled, model, request, position)
        await self._read(model, request)

    async def test_a_cancellation_at_any_time_ends_it(self) -> None:
        """A request that is cancelled at any time ends so, leaves no task behind, and harms no later one."""
        model, request = self.make_model(), self.text_request()
        async with without_leftovers(self.patience_seconds):
            for ticks in moments(self.cancellations):
                when = f"after {ticks} turns of the event loop"
                async with in_time(self.patience_seconds, f"cancelled {when}, it had not ended"):
                    cancellation = Cancellation(when)
                    if not await cancellation.run(_read_until_cancelled, model, request, None, ticks=ticks):
                        break
        await self._read(model, request)

    async def test_a_missing_capability_is_refused(self) -> None:
        """A request that needs a capability which the model lacks raises a ConfigurationError on entering."""
        model = self.make_model()
        lacking = _requests_for_more(model.capabilities, self.text_request())
        if not lacking:
            pytest.skip("its capabilities have everything")
        for what, request in lacking.items():
            try:
                async with model.stream(request):
                    did = "it was sent"
            except ConfigurationError:
                continue
            except Exception as error:
                did = f"it raised {error!r}"
            broken(f"for a request with {what}, {did}")

    async def test_a_failing_request_raises_a_model_error(self) -> None:
        """A request that fails raises a ModelError, and leaves no task behind."""
        model = self.make_failing_model()
        if model is None:
            pytest.skip("make_failing_model returns None")
        async with without_leftovers(self.patience_seconds):
            await _expect_error(model, self.text_request(), ModelError)

    async def test_a_response_that_breaks_off_is_an_error(self) -> None:
        """A response that ends without ResponseFinished raises a ModelProtocolError."""
        model = self.make_interrupted_model()
        if model is None:
            pytest.skip("make_interrupted_model returns None")
        async with without_leftovers(self.patience_seconds):
            await _expect_error(model, self.text_request(), ModelProtocolError)

    async def _read(self, model: Model, request: ModelRequest) -> list[ModelEvent]:
        """Read a whole response, and check its form."""
        __tracebackhide__ = True
        events: list[ModelEvent] = []
        async with in_time(self.patience_seconds, "it had not ended"), model.stream(request) as stream:
            await _collect(stream, events)
        _check_form(events)
        return events


async def _read_until_cancelled(
    cancellation: Cancellation, model: Model, request: ModelRequest, position: int | None
) -> None:
    """Read a response, and cancel it at the number of its events; before it is entered for -1."""
    __tracebackhide__ = True
    if position == -1:
        cancellation.scope.cancel()
    async with AsyncExitStack() as stack:
        stream = model.stream(request)
        events = await cancellation.watch(stack.enter_async_context(stream), "entering it")
        seen: list[ModelEvent] = []
        while True:
            if len(seen) == position:
                cancellation.scope.cancel()
            event = await cancellation.watch(anext(events, None), "its next event")
            if event is None:
                break
            seen.append(event)
        if not seen or not isinstance(seen[-1], ResponseFinished):
            broken(f"it ended quietly after {seen!r}")
        await cancellation.deliver()


def _check_form(events: Sequence[ModelEvent]) -> None:
    """Check what holds for the events of every response."""
    __tracebackhide__ = True
    strange = [event for event in events if not isinstance(event, _EVENTS)]
    check(not strange, f"it gave {strange!r}")
    ends = [number for number, event in enumerate(events) if isinstance(event, ResponseFinished)]
    check(ends == [len(events) - 1], f"its events are {list(events)!r}")
    begun: dict[int, tuple[ToolCallStarted, list[str]]] = {}
    completed: list[ToolCall] = []
    for event in events:
        if isinstance(event, ToolCallStarted):
            is_next = event.index == len(begun) and event.id
            check(is_next, f"{event!r} came where call {len(begun)} should begin")
            begun[event.index] = (event, [])
        elif isinstance(event, ToolCallArgumentsDelta):
            check(event.index in begun, f"{event!r} is of no call")
            begun[event.index][1].append(event.fragment)
        elif isinstance(event, ToolCallCompleted):
            check(event.index in begun, f"{event!r} is of no call that was begun")
            _check_call(event.call, *begun[event.index])
            completed.append(event.call)
    is_each_whole = len({call.id for call in completed}) == len(completed) == len(begun)
    check(is_each_whole, f"{len(begun)} calls were begun, and {len(completed)} completed: {completed!r}")


def _check_call(call: ToolCall, begun: ToolCallStarted, fragments: Sequence[str]) -> None:
    __tracebackhide__ = True
    check((call.id, call.name) == (begun.id, begun.name), f"{begun!r} has become {call!r}")
    whole = "".join(fragments)
    check(whole in ("", call.arguments), f"the fragments {whole!r} are not those of {call!r}")
    try:
        arguments: object = json.loads(call.arguments)
    except ValueError:
        arguments = None
    check(isinstance(arguments, dict), f"the arguments of {call!r} are no JSON object")


def _end_of(events: Sequence[ModelEvent]) -> ResponseFinished:
    end = events[-1]
    assert isinstance(end, ResponseFinished)  # see `_check_form`
    return end


def _requests_for_more(capabilities: ModelCapabilities, request: ModelRequest) -> dict[str, ModelRequest]:
    """Requests that need what a model lacks, by what they need."""
    lacking: dict[str, ModelRequest] = {}
    if not capabilities.images:
        lacking["an image"] = ModelRequest(messages=(UserMessage(content=("Look.", _PICTURE)),))
    if not capabilities.tools:
        tool = ToolDefinition(name="add", description="Add.", parameters={"type": "object"})
        lacking["tools"] = replace(request, tools=(tool,))
    if not capabilities.structured_output:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        lacking["a schema"] = replace(request, response_format=ResponseFormat(name="text", schema=schema))
    return lacking


async def _expect_error(model: Model, request: ModelRequest, expected: type[ModelError]) -> None:
    __tracebackhide__ = True
    events: list[ModelEvent] = []
    try:
        async with model.stream(request) as stream:
            await _collect(stream, events)
    except expected:
        return
    except Exception as error:
        broken(f"it raised {error!r}")
    broken(f"it ended quietly after {events!r}")


async def _collect(stream: AsyncIterator[ModelEvent], events: list[ModelEvent]) -> None:
    async for event in stream:
        events.append(event)
