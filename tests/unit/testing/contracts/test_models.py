"""The library's own models keep the promises of models, and each broken one is found."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest
import sniffio
import trio

import nighthawk_async as nh
from nighthawk_async.models import (
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCall,
    ToolCallCompleted,
    ToolCallStarted,
    UsageReported,
)
from nighthawk_async.models.providers import create_model
from nighthawk_async.testing import (
    ModelReply,
    ModelResponse,
    ModelServer,
    RecordedRequest,
    ScriptedModel,
    model_response,
    tool_call,
)
from nighthawk_async.testing.contracts import ModelContract

from .suites import broken_promises, promises_of

ADD = tool_call("add", a=19, b=23)


def answer(request: ModelRequest) -> ModelResponse:
    return model_response(ADD) if request.tools else model_response(text="Hello.")


class TestScriptedModel(ModelContract):
    exempt: ClassVar = {"test_a_missing_capability_is_refused": "It imitates models of any capability."}

    def make_model(self) -> nh.models.Model:
        return ScriptedModel(answer)

    def make_failing_model(self) -> nh.models.Model:
        return ScriptedModel([nh.errors.ModelStatusError("HTTP 503", status=503, is_transient=True)])

    def make_interrupted_model(self) -> nh.models.Model:
        return ScriptedModel([ModelResponse(events=(TextDelta(text="Hel"),))])


class HttpModelContract(ModelContract):
    model_id: ClassVar[str]

    @pytest.fixture(autouse=True)
    def _served(self) -> Iterator[None]:
        self.special: ModelReply | None = None
        with ModelServer.in_thread(self.reply) as server:
            self.base_url = server.base_url
            yield

    def reply(self, request: RecordedRequest) -> ModelReply:
        if self.special is not None:
            return self.special
        return (
            ModelReply(tool_calls=(ADD,)) if request.body.get("tools") else ModelReply(text="Hello, hello!")
        )

    def make_model(self) -> nh.models.Model:
        settings = {"base_url": self.base_url, "api_key": "none", "max_retries": 0}
        return create_model(self.model_id, settings=settings)

    def make_failing_model(self) -> nh.models.Model:
        self.special = ModelReply(status=400, text="no")
        return self.make_model()

    def make_interrupted_model(self) -> nh.models.Model:
        self.special = ModelReply(text="Hello! " * 20, ending="close", ending_after=1)
        return self.make_model()


class TestChatModel(HttpModelContract):
    model_id = "openai-chat:any"


class TestResponsesModel(HttpModelContract):
    model_id = "openai-responses:any"


class TestAnthropicModel(HttpModelContract):
    model_id = "anthropic:any"


class TestGoogleModel(HttpModelContract):
    model_id = "google:any"


EVENTS = model_response(text="Hello.").events
CALL_EVENTS = model_response(ADD).events


class Own:
    """A model that keeps all promises; each of those below breaks one."""

    name = "own:model"
    capabilities = nh.models.ModelCapabilities()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        self.check(request)
        await anyio.lowlevel.checkpoint()
        async with aclosing(self.events(request)) as events:
            yield events

    def check(self, request: ModelRequest) -> None:
        has_media = any(not isinstance(item, str) for item in request.messages[-1].content)
        if has_media or request.response_format is not None:
            raise nh.errors.ConfigurationError("own:model takes text only")

    async def events(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in self.script(request):
            await anyio.lowlevel.checkpoint()
            yield event

    def script(self, request: ModelRequest) -> tuple[ModelEvent, ...]:
        return CALL_EVENTS if request.tools else EVENTS


class Scripted(Own):
    def __init__(self, text: tuple[ModelEvent, ...] = EVENTS, calls: tuple[ModelEvent, ...] = CALL_EVENTS):
        self.text, self.calls = text, calls

    def script(self, request: ModelRequest) -> tuple[ModelEvent, ...]:
        return self.calls if request.tools else self.text


class Nameless(Own):
    name = "own"


class SwallowsWhileReading(Own):
    async def events(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in self.script(request):
            try:
                await anyio.lowlevel.checkpoint()
            except anyio.get_cancelled_exc_class():
                pass
            yield event


class EndsQuietlyWhenCancelled(Own):
    async def events(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async for event in super().events(request):
                yield event
        except anyio.get_cancelled_exc_class():
            return


class RaisesWhenCancelled(Own):
    async def events(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        try:
            async for event in super().events(request):
                yield event
        except anyio.get_cancelled_exc_class() as error:
            raise nh.errors.ModelConnectionError("cancelled") from error


class SwallowsOnLeaving(Own):
    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        async with super().stream(request) as events:
            try:
                yield events
            except anyio.get_cancelled_exc_class():
                pass


class SwallowsOnEntering(Own):
    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        self.check(request)
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        yield self.events(request)


class WrapsErrors(Own):
    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        self.check(request)
        async with anyio.create_task_group():
            yield self.events(request)


class SharesItsEvents(Own):
    current: Any = None

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        self.check(request)
        self.current = iter(self.script(request))
        await anyio.lowlevel.checkpoint()
        yield self.events(request)

    async def events(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in self.current:
            await anyio.lowlevel.checkpoint()
            yield event


class AnswersOnce(Own):
    def __init__(self) -> None:
        self.left = iter(EVENTS)

    def script(self, request: ModelRequest) -> tuple[ModelEvent, ...]:
        return CALL_EVENTS if request.tools else tuple(self.left)


class KeepsItsLock(Own):
    """Holds a lock of the first event loop, and keeps it when a request is cancelled."""

    def __init__(self) -> None:
        self.lock = anyio.Semaphore(1)

    async def events(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await self.lock.acquire()
        async for event in super().events(request):
            yield event
        self.lock.release()


class BoundToALoop(Own):
    token: Any = None

    def check(self, request: ModelRequest) -> None:
        super().check(request)
        token = anyio.lowlevel.current_token()
        self.token = self.token or token
        if self.token != token:
            raise RuntimeError("another event loop")


class LeavesATask(Own):
    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        self.check(request)
        if sniffio.current_async_library() == "trio":
            trio.lowlevel.spawn_system_task(trio.sleep, 2)
        else:
            self.task = asyncio.get_running_loop().create_task(asyncio.sleep(2))
        async with aclosing(self.events(request)) as events:
            yield events


class LeavesAGenerator(Own):
    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent], None]:
        self.check(request)
        yield self.events(request)


class ChangesTheRequest(Own):
    def check(self, request: ModelRequest) -> None:
        super().check(request)
        object.__setattr__(request, "system_prompt", "")


class TakesEverything(Own):
    def check(self, request: ModelRequest) -> None:
        pass


class RefusesLate(Own):
    def check(self, request: ModelRequest) -> None:
        pass

    def script(self, request: ModelRequest) -> tuple[ModelEvent, ...]:
        Own.check(self, request)
        return super().script(request)


def without(kind: type, events: tuple[ModelEvent, ...]) -> tuple[ModelEvent, ...]:
    return tuple(event for event in events if not isinstance(event, kind))


STARTED, COMPLETED, USAGE, END = CALL_EVENTS
assert isinstance(STARTED, ToolCallStarted)
assert isinstance(COMPLETED, ToolCallCompleted)
BAD_CALL = replace(COMPLETED, call=ToolCall(id="call_0", name="add", arguments="19, 23"))

FORM, TEXT = "test_a_response_ends_with_exactly_one_finish", "test_a_request_is_answered_with_text"
CALLS = "test_a_tool_call_is_whole"
USE = "test_usage_is_reported"
BETWEEN, ANY_TIME = "test_a_cancellation_between_events_ends_it", "test_a_cancellation_at_any_time_ends_it"
LEAVING = "test_leaving_early_leaves_nothing_behind"
REFUSED = "test_a_missing_capability_is_refused"

BROKEN: list[tuple[str, Callable[[], Any], str, str]] = [
    ("no name", Nameless, "test_it_is_a_model", "its name is 'own'"),
    ("no end", lambda: Scripted(EVENTS[:-1]), FORM, "only the last is a ResponseFinished.*its events are"),
    ("two ends", lambda: Scripted((*EVENTS, EVENTS[-1])), FORM, "only the last is a ResponseFinished"),
    (
        "more after the end",
        lambda: Scripted((*EVENTS, EVENTS[0])),
        FORM,
        "only the last is a ResponseFinished",
    ),
    ("failure", lambda: Scripted((nh.models.ResponseFailed(message="no"),)), FORM, "it gave .ResponseFailed"),
    ("no text", lambda: Scripted(without(TextDelta, EVENTS)), TEXT, "answered with text"),
    ("bad reason", lambda: Scripted((*EVENTS[:-1], END)), TEXT, "the reason is 'tool_calls'"),
    ("no usage", lambda: Scripted(without(UsageReported, EVENTS)), USE, "is a UsageReported"),
    (
        "empty usage",
        lambda: Scripted((EVENTS[0], UsageReported(usage=nh.Usage()), EVENTS[-1])),
        USE,
        "requests=0",
    ),
    ("no call", lambda: Scripted(calls=EVENTS), CALLS, "it called no tool"),
    ("other call", lambda: Scripted(calls=model_response(tool_call("mul")).events), CALLS, "it called 'mul'"),
    ("not begun", lambda: Scripted(calls=(COMPLETED, USAGE, END)), CALLS, "no call that was begun"),
    (
        "not completed",
        lambda: Scripted(calls=(STARTED, USAGE, END)),
        CALLS,
        "1 calls were begun, and 0 completed",
    ),
    ("no JSON", lambda: Scripted(calls=(STARTED, BAD_CALL, USAGE, END)), CALLS, "are no JSON object"),
    (
        "index",
        lambda: Scripted(calls=(replace(STARTED, index=1), *CALL_EVENTS[1:])),
        CALLS,
        "call 0 should begin",
    ),
    ("stop", lambda: Scripted(calls=(*CALL_EVENTS[:-1], EVENTS[-1])), CALLS, "the reason is 'stop'"),
    ("cancelled while reading", SwallowsWhileReading, BETWEEN, "its next event went on and gave TextDelta"),
    ("quiet end", EndsQuietlyWhenCancelled, BETWEEN, "its next event went on and gave None"),
    ("error", RaisesWhenCancelled, BETWEEN, "it raised ModelConnectionError"),
    ("cancelled on leaving", SwallowsOnLeaving, BETWEEN, "it ended as if nothing had happened"),
    ("cancelled on leaving", SwallowsOnLeaving, ANY_TIME, "it ended as if nothing had happened"),
    ("cancelled on entering", SwallowsOnEntering, BETWEEN, "entering it went on"),
    ("lock", KeepsItsLock, ANY_TIME, "it had not ended"),
    ("error in a group", WrapsErrors, "test_an_error_of_the_reader_leaves_as_it_is", "became ExceptionGroup"),
    ("shared", SharesItsEvents, "test_requests_are_answered_at_once", "of 8 requests at once"),
    ("once", AnswersOnce, "test_a_model_answers_again", "any number of requests.*its events are .."),
    ("loop", BoundToALoop, "test_it_works_on_both_event_loops", "on trio, it raised RuntimeError"),
    ("generator", LeavesAGenerator, LEAVING, "left async generators open.*LeavesAGenerator|Own.events"),
    ("task", LeavesATask, LEAVING, "it has left tasks behind"),
    ("request", ChangesTheRequest, "test_the_request_is_not_changed", "has become"),
    ("image", TakesEverything, REFUSED, "for a request with an image, it was sent"),
    ("late", RefusesLate, REFUSED, "for a request with an image, it was sent"),
]


def suite_of(make: Callable[[], Any]) -> type[ModelContract]:
    class Suite(ModelContract):
        patience_seconds = 0.2

        def make_model(self) -> nh.models.Model:
            return make()

    return Suite


class TestOwnModel(ModelContract):
    def make_model(self) -> nh.models.Model:
        return Own()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(("what", "make", "test", "did"), BROKEN, ids=[each[0] for each in BROKEN])
def test_a_broken_model_is_found(
    backend: str, what: str, make: Callable[[], Any], test: str, did: str
) -> None:
    found = broken_promises(suite_of(make), only=test, backend=backend)
    assert re.search(did, found.get(test, ""), re.DOTALL), found


def test_each_promise_has_a_model_that_breaks_it() -> None:
    shown = {each[2] for each in BROKEN} | set(ENDS)
    assert shown == promises_of(ModelContract)


ENDS = {
    "test_a_failing_request_raises_a_model_error": "make_failing_model",
    "test_a_response_that_breaks_off_is_an_error": "make_interrupted_model",
}


@pytest.mark.parametrize("test", ENDS)
def test_a_model_that_hides_failures_is_found(test: str) -> None:
    class Raising(Own):
        def script(self, request: ModelRequest) -> tuple[ModelEvent, ...]:
            raise OSError("refused")

    for make, did in [(Own, "it ended quietly"), (Raising, "it raised OSError")]:
        suite = suite_of(Own)
        setattr(suite, ENDS[test], lambda self, make=make: make())
        assert did in broken_promises(suite, only=test)[test]
