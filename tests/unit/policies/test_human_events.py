"""Every question, request and answer is an event on the span of who asks, without texts and arguments."""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import anyio
import pytest
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.errors import (
    AnswerTimeoutError,
    ApprovalDeniedError,
    ApprovalExpiredError,
    HookError,
    NoHumanError,
)
from nighthawk_async.policies.people import approvals, questions
from nighthawk_async.policies.people.approvals import request_approval
from nighthawk_async.policies.people.digest import digest_action
from nighthawk_async.policies.people.errors import RequestClosedError
from nighthawk_async.policies.people.events import (
    ApprovalAnswered,
    ApprovalClosed,
    ApprovalRequested,
    HumanEvent,
    QuestionAnswered,
    QuestionAsked,
    QuestionClosed,
)
from nighthawk_async.policies.people.questions import ask_user
from nighthawk_async.policies.people.request import ApprovalRequest

from .human_handlers import Handler, answering, approving, deciding, run_asking

pytestmark = pytest.mark.anyio


async def _never(question: object) -> object:
    return await anyio.sleep_forever()


def _deny(request: ApprovalRequest) -> None:
    request.deny("ada")


async def _yes(question: object) -> object:
    return "yes"


class Observed:
    """The events on a span, in order: their names without the prefix, and their attributes."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._tracer = provider.get_tracer("tests")

    def __enter__(self) -> "Observed":
        self._context = self._tracer.start_as_current_span("who asks", record_exception=False)
        self._context.__enter__()
        return self

    def __exit__(self, *exc_details: object) -> None:
        self._context.__exit__(None, None, None)

    @property
    def events(self) -> list[tuple[str, Mapping[str, object]]]:
        (span,) = self._exporter.get_finished_spans()
        return [
            (event.name.removeprefix("nighthawk."), dict(event.attributes or {})) for event in span.events
        ]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events]


class Observer:
    """Looks on with a function."""

    def __init__(self, look: Callable[[HumanEvent], object]) -> None:
        self._look = look

    def observe(self, event: HumanEvent) -> None:
        self._look(event)

    def observe_end(self, event: HumanEvent, error: BaseException | None) -> None:
        self._look(event)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[HumanEvent]:
    """What whoever looks on is told."""
    events: list[HumanEvent] = []
    for module in (questions, approvals):
        monkeypatch.setattr(module, "find_human_observer", lambda: Observer(events.append))
    return events


async def test_a_question_and_its_answers_are_events() -> None:
    async with run_asking(answering("secret word", "3")):
        with Observed() as observed:
            await ask_user("How many secrets?", schema=int)
    assert observed.names == ["question.asked", "question.answered", "question.answered", "question.closed"]
    attributes = [attributes for _, attributes in observed.events]
    assert [each.get("nighthawk.question.is_accepted") for each in attributes] == [None, False, True, None]
    assert attributes[-1]["nighthawk.question.status"] == "answered"
    assert len({each["nighthawk.question.id"] for each in attributes}) == 1
    assert "secret" not in json.dumps(attributes)


@pytest.mark.parametrize(
    ("handler", "arguments", "error", "status"),
    [
        pytest.param(None, {}, NoHumanError, "no_human", id="nobody"),
        pytest.param(None, {"default": 1}, None, "default", id="a default"),
        pytest.param(Handler(answer=_never), {"timeout": 0}, AnswerTimeoutError, "timed_out", id="no time"),
        pytest.param(Handler(), {}, AssertionError, "failed", id="a handler that fails"),
    ],
)
async def test_how_a_question_ended_is_an_event(
    told: list[HumanEvent],
    handler: Handler | None,
    arguments: dict[str, object],
    error: type[Exception] | None,
    status: str,
) -> None:
    async with run_asking(handler):
        if error is None:
            await ask_user("?", schema=object, **arguments)
        else:
            with pytest.raises(error):
                await ask_user("?", schema=object, **arguments)
    assert isinstance(told[0], QuestionAsked)
    assert isinstance(told[-1], QuestionClosed)
    assert told[-1].status == status


async def test_a_request_and_its_answers_are_events() -> None:
    def decide(request: ApprovalRequest) -> None:
        request.approve("ada", digest=request.digest)
        request.deny("ada", "a secret reason")
        request.approve("bob", digest=request.digest)
        request.approve("ada", digest=request.digest)

    async with run_asking(deciding(decide)):
        with Observed() as observed:
            await request_approval("send mail", arguments={"body": "secret"}, quorum=2)
    answered = ["approval.answered"] * 4
    assert observed.names == ["approval.requested", *answered, "approval.closed"]
    answers = [
        (each["nighthawk.approval.approver"], each["nighthawk.approval.answer"])
        for _, each in observed.events[1:-1]
    ]
    assert answers == [("ada", "approved"), ("ada", "withdrawn"), ("bob", "approved"), ("ada", "approved")]
    for _, each in observed.events:
        assert each["nighthawk.approval.action"] == "send mail"
        assert each["nighthawk.approval.digest"] == digest_action("send mail", {"body": "secret"}).digest
    assert observed.events[-1][1]["nighthawk.approval.status"] == "approved"
    assert "secret" not in json.dumps(observed.events)


@pytest.mark.parametrize(
    ("handler", "expires", "error", "status"),
    [
        pytest.param(None, None, NoHumanError, "denied", id="nobody"),
        pytest.param(deciding(_deny), None, ApprovalDeniedError, "denied", id="a denial"),
        pytest.param(approving([]), 0, ApprovalExpiredError, "expired", id="no time"),
    ],
)
async def test_how_a_request_ended_is_an_event(
    told: list[HumanEvent],
    handler: Handler | None,
    expires: float | None,
    error: type[Exception],
    status: str,
) -> None:
    async with run_asking(handler):
        with pytest.raises(error):
            await request_approval("send mail", timeout=expires)
    assert isinstance(told[0], ApprovalRequested)
    assert isinstance(told[-1], ApprovalClosed)
    assert told[-1].request.status == status


async def test_a_cancelled_wait_is_an_event(told: list[HumanEvent]) -> None:
    handler = Handler(answer=_never)
    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(partial(request_approval, "send mail", quorum=2))
        tasks.start_soon(ask_user, "Now?")
        while not (handler.requests and handler.questions):
            await checkpoint()
        handler.requests[0].approve("ada", digest=handler.requests[0].digest)
        tasks.cancel_scope.cancel()
    closed = [event for event in told if isinstance(event, QuestionClosed)]
    assert [event.status for event in closed] == ["cancelled"]
    assert sum(isinstance(event, ApprovalAnswered) for event in told) == 1
    assert sum(isinstance(event, ApprovalClosed) for event in told) == 1


async def test_who_looks_on_sees_the_answer_and_what_was_wrong_with_it(told: list[HumanEvent]) -> None:
    async with run_asking(answering("three", "3")):
        await ask_user("How many?", schema=int)
    answers = [event for event in told if isinstance(event, QuestionAnswered)]
    assert [(event.answer, event.error is None) for event in answers] == [("three", False), (3, True)]


async def test_what_looking_on_raises_reaches_who_asks_and_nothing_stays_pending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(event: HumanEvent) -> None:
        if isinstance(event, ApprovalAnswered):
            raise ZeroDivisionError

    monkeypatch.setattr(approvals, "find_human_observer", lambda: Observer(refuse))
    handler = Handler()

    async def answer() -> None:
        while not handler.requests:
            await checkpoint()
        handler.requests[0].approve("ada", digest=handler.requests[0].digest)

    async with run_asking(handler), anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        with pytest.raises(ZeroDivisionError):
            await request_approval("send mail", quorum=2)
    assert handler.requests[0].status == "cancelled"


def _fail(event: HumanEvent) -> None:
    raise ZeroDivisionError


async def test_a_request_that_a_hook_fails_at_is_closed_before_anybody_is_asked() -> None:
    closed: list[ApprovalRequest] = []
    hooks, handler = nh.Hooks(), approving(["ada"])
    hooks.on(ApprovalRequested, _fail)
    hooks.on(ApprovalClosed, lambda event: closed.append(event.request))
    async with run_asking(handler), nh.scope(hooks=hooks):
        with pytest.raises(HookError, match="ApprovalRequested"):
            await request_approval("send mail")
    (request,) = closed
    assert request.status == "cancelled"
    assert handler.requests == []
    with pytest.raises(RequestClosedError):
        request.approve("ada", digest=request.digest)


async def test_a_question_that_a_hook_fails_at_is_closed_before_anybody_is_asked() -> None:
    closed: list[str] = []
    hooks, handler = nh.Hooks(), answering("yes")
    hooks.on(QuestionAsked, _fail)
    hooks.on(QuestionClosed, lambda event: closed.append(event.status))
    async with run_asking(handler), nh.scope(hooks=hooks):
        with pytest.raises(HookError, match="QuestionAsked"):
            await ask_user("?", default="no")
    assert closed == ["failed"]
    assert handler.questions == []


@pytest.mark.parametrize("asking", [request_approval, ask_user])
async def test_a_hook_that_fails_at_the_end_does_not_hold_up_a_cancellation(
    asking: Callable[[str], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    handler = Handler(answer=_never)
    async with run_asking(handler), nh.scope(hooks=_failing_at_the_end()), anyio.create_task_group() as tasks:
        tasks.start_soon(asking, "?")
        while not (handler.requests or handler.questions):
            await checkpoint()
        tasks.cancel_scope.cancel()
    (record,) = [record for record in caplog.records if record.name == "nighthawk"]
    assert "Closed: ZeroDivisionError" in record.getMessage()
    assert [request.status for request in handler.requests] in ([], ["cancelled"])


@pytest.mark.parametrize(
    ("asking", "handler", "error_type"),
    [
        pytest.param(ask_user, None, NoHumanError, id="a question to nobody"),
        pytest.param(ask_user, Handler(), AssertionError, id="a handler that fails"),
        pytest.param(request_approval, None, ApprovalDeniedError, id="nobody to approve"),
        pytest.param(
            request_approval,
            deciding(lambda request: request.deny("ada")),
            ApprovalDeniedError,
            id="a denial",
        ),
    ],
)
async def test_a_hook_that_fails_at_the_end_is_a_note_on_the_error_that_was_there_first(
    asking: Callable[[str], Awaitable[object]], handler: Handler | None, error_type: type[Exception]
) -> None:
    async with run_asking(handler), nh.scope(hooks=_failing_at_the_end()):
        with pytest.raises(error_type) as caught:
            await asking("?")
    (note,) = caught.value.__notes__
    assert "Closed: ZeroDivisionError" in note


@pytest.mark.parametrize(
    ("asking", "handler"), [(ask_user, Handler(answer=_yes)), (request_approval, approving(["ada"]))]
)
async def test_a_hook_that_fails_at_a_good_end_reaches_who_asks(
    asking: Callable[[str], Awaitable[object]], handler: Handler
) -> None:
    async with run_asking(handler), nh.scope(hooks=_failing_at_the_end()):
        with pytest.raises(HookError, match="Closed: ZeroDivisionError"):
            await asking("?")


@pytest.mark.parametrize(
    ("asking", "handler", "error_type"),
    [
        pytest.param(ask_user, Handler(answer=_yes), HookError, id="an answer"),
        pytest.param(ask_user, None, NoHumanError, id="a question to nobody"),
        pytest.param(request_approval, approving(["ada"]), HookError, id="an approval"),
        pytest.param(request_approval, deciding(_deny), ApprovalDeniedError, id="a denial"),
    ],
)
async def test_every_hook_is_told_of_the_end_although_others_fail(
    asking: Callable[[str], Awaitable[object]], handler: Handler | None, error_type: type[Exception]
) -> None:
    told: list[type] = []
    hooks, others = _failing_at_the_end(), nh.Hooks()
    for each in (hooks, others):
        each.on(ApprovalClosed, QuestionClosed)(lambda event: told.append(type(event)))
    async with run_asking(handler), nh.scope(hooks=[hooks, others]):
        with pytest.raises(error_type):
            await asking("?")
    assert told == [ApprovalClosed if asking is request_approval else QuestionClosed] * 2


@pytest.mark.parametrize("asking", [request_approval, ask_user])
async def test_every_hook_is_told_of_the_end_after_a_cancellation_although_others_fail(
    asking: Callable[[str], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[type] = []
    hooks = _failing_at_the_end()
    hooks.on(ApprovalClosed, QuestionClosed)(lambda event: told.append(type(event)))
    async with (
        run_asking(Handler(answer=_never)),
        nh.scope(hooks=hooks),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(asking, "?")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert told == [ApprovalClosed if asking is request_approval else QuestionClosed]
    assert ["Closed: ZeroDivisionError" in record.getMessage() for record in caplog.records] == [True]


async def test_a_request_is_closed_for_hooks_when_one_fails_at_an_answer_that_came_before_the_wait() -> None:
    told: list[str] = []
    hooks = nh.Hooks()
    hooks.on(ApprovalRequested, lambda event: event.request.approve("ada", digest=event.request.digest))
    hooks.on(ApprovalAnswered, _fail)
    hooks.on(ApprovalClosed, lambda event: told.append(event.request.status))
    async with run_asking(Handler()), nh.scope(hooks=hooks):
        with pytest.raises(HookError, match="ApprovalAnswered: ZeroDivisionError"):
            await request_approval("send mail")
    assert told == ["approved"]


async def test_an_answer_that_came_before_the_wait_began_is_told() -> None:
    told: list[type] = []
    hooks = nh.Hooks()
    hooks.on(ApprovalRequested, lambda event: event.request.approve("ada", digest=event.request.digest))
    for event_type in (ApprovalAnswered, ApprovalClosed):
        hooks.on(event_type, lambda event: told.append(type(event)))
    async with run_asking(Handler()), nh.scope(hooks=hooks):
        assert (await request_approval("send mail")).approvers == ("ada",)
    assert told == [ApprovalAnswered, ApprovalClosed]


def _failing_at_the_end() -> nh.Hooks:
    hooks = nh.Hooks()
    hooks.on(ApprovalClosed, _fail)
    hooks.on(QuestionClosed, _fail)
    return hooks
