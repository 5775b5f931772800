"""Registering hooks, calling them for events, and what their answers bring about."""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async import hooks as nhh
from nighthawk_async.hooks import Abort, Modify, Veto
from nighthawk_async.kernel.environment import get_environment
from nighthawk_async.policies.hooks.calls import emit, emit_sync
from nighthawk_async.policies.hooks.policy import HookPolicy
from nighthawk_async.policies.hooks.rules import EVENT_RULES
from tests.unit.telemetry.traces import telemetry

from .hook_samples import EVENTS, REF, REQUEST, running

pytestmark = pytest.mark.anyio

PLAN = next(event for event in EVENTS if type(event) is nhh.BeforeCompaction).plan
MAY_BE_PREVENTED = {
    nhh.StepStarted,
    nhh.BeforeModelRequest,
    nhh.BeforeCompaction,
    nhh.BeforeToolCall,
    nhh.BeforeCommit,
}
MODIFIED_FIELDS = {
    nhh.BeforeModelRequest: "request",
    nhh.BeforeCompaction: "plan",
    nhh.BeforeToolCall: "arguments",
    nhh.AfterToolCall: "content",
    nhh.BeforeCommit: "bindings",
}
GOOD_VALUES: dict[type, list[Any]] = {
    nhh.BeforeModelRequest: [nh.models.ModelRequest(messages=(), system_prompt="other")],
    nhh.BeforeCompaction: [replace(PLAN, summary="short")],
    nhh.BeforeToolCall: [{}, {"to": "b"}],
    nhh.AfterToolCall: [("one", nh.ImageUrl(url="https://host.test/a.png")), ()],
    nhh.BeforeCommit: [{}, {"x": object()}],
}
BAD_VALUES: dict[type, list[Any]] = {
    nhh.BeforeModelRequest: [None, {}, "request"],
    nhh.BeforeCompaction: [None, "short", replace(PLAN, summary=7), replace(PLAN, digests=("short",))],
    nhh.BeforeToolCall: [None, [("to", "b")], {1: "b"}],
    nhh.AfterToolCall: [None, ["one"], ("one", 2)],
    nhh.BeforeCommit: [None, "x", {None: 1}],
}
TOOL_CALL = next(event for event in EVENTS if type(event) is nhh.BeforeToolCall)
COMMIT = next(event for event in EVENTS if type(event) is nhh.BeforeCommit)

by_event = pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)


def answering(event: Any, answer: object) -> nh.Hooks:
    """Hooks with one that is called `decide`."""
    hooks = nh.Hooks()

    def decide(told: Any) -> Any:
        return answer

    hooks.on(type(event), decide)
    return hooks


def active_hooks() -> tuple[nh.Hooks, ...]:
    policy = get_environment().policies.find(HookPolicy)
    return () if policy is None else policy.hooks


async def emitted(hooks: nh.Hooks | list[nh.Hooks], event: Any) -> Any:
    async with running(hooks):
        return await emit(active_hooks(), event)


# ---- the table


def test_every_event_of_the_public_module_is_in_the_table_and_nothing_else() -> None:
    others = {"Abort", "HookAnswer", "HookFunction", "Hooks", "Modify", "Veto"}
    assert {getattr(nhh, name) for name in set(nhh.__all__) - others} == EVENT_RULES.keys()


def test_the_samples_hold_every_event_that_needs_no_people() -> None:
    people = {event for event in EVENT_RULES if event.__name__.startswith(("Question", "Approval"))}
    assert [type(event) for event in EVENTS] == [event for event in EVENT_RULES if event not in people]
    at_once = {*people, nhh.PermissionDecided, nhh.ProgressReported}
    assert all(rule.is_synchronous == (event in at_once) for event, rule in EVENT_RULES.items())


@by_event
def test_the_docstring_of_an_event_says_what_the_table_says(event: Any) -> None:
    text = type(event).__doc__ or ""
    assert ("Observation only" in text) == (EVENT_RULES[type(event)].allowed_answers == ())
    assert ("veto" in text) == (type(event) in MAY_BE_PREVENTED)
    assert ("`Modify` takes" in text) == (type(event) in MODIFIED_FIELDS)


@by_event
async def test_an_answer_of_nothing_lets_every_event_happen_as_it_is(event: Any) -> None:
    assert await emitted(answering(event, None), event) is event


@by_event
async def test_a_veto_prevents_what_may_be_prevented_and_is_a_mistake_elsewhere(event: Any) -> None:
    with pytest.raises(nh.NighthawkError) as caught:
        await emitted(answering(event, Veto("too risky", "ask first")), event)
    error = caught.value
    if type(event) is nhh.BeforeToolCall:
        assert isinstance(error, nh.errors.ToolBoundaryError)
        assert (error.kind, error.message, error.guidance) == ("oversight", "too risky", "ask first")
    elif type(event) in MAY_BE_PREVENTED:
        assert isinstance(error, nh.ExecutionError)
        assert "step module:7: hook answering.<locals>.decide vetoed the" in str(error)
        assert str(error).endswith("too risky (ask first)")
        cause = error.__cause__
        assert isinstance(cause, nh.errors.ToolBoundaryError)
        assert cause.kind == "oversight"
    else:
        assert_not_allowed(error, event, "Veto")


@by_event
async def test_an_abort_ends_the_step_where_a_veto_is_allowed_and_is_a_mistake_elsewhere(event: Any) -> None:
    with pytest.raises(nh.NighthawkError) as caught:
        await emitted(answering(event, Abort("enough")), event)
    error = caught.value
    if type(event) in MAY_BE_PREVENTED:
        assert isinstance(error, nh.errors.StepAbortedError)
        assert (error.reason, error.step_id) == ("enough", "module:7")
    else:
        assert_not_allowed(error, event, "Abort")


@by_event
async def test_a_modification_replaces_the_field_of_the_table_and_is_a_mistake_elsewhere(event: Any) -> None:
    field = MODIFIED_FIELDS.get(type(event))
    for value in GOOD_VALUES.get(type(event), []):
        modified = await emitted(answering(event, Modify(value)), event)
        assert getattr(modified, str(field)) == value
        assert type(modified) is type(event)
    for value in BAD_VALUES.get(type(event), [None]):
        with pytest.raises(nh.errors.HookError) as caught:
            await emitted(answering(event, Modify(value)), event)
        if field is None:
            assert_not_allowed(caught.value, event, "Modify")
        assert caught.value.hook == "answering.<locals>.decide"


async def test_the_content_of_a_result_may_be_modified_to_a_text() -> None:
    event = next(event for event in EVENTS if type(event) is nhh.AfterToolCall)
    assert (await emitted(answering(event, Modify("hidden")), event)).content == ("hidden",)


@by_event
@pytest.mark.parametrize(
    "answer", [True, False, "no", nh.oversight.Accept(), nh.oversight.Reject(reason="no"), Veto]
)
async def test_anything_else_is_no_answer_and_never_allows(event: Any, answer: object) -> None:
    with pytest.raises(nh.errors.HookError, match=r"hook answering\.<locals>\.decide answered"):
        await emitted(answering(event, answer), event)


def assert_not_allowed(error: BaseException, event: Any, answer: str) -> None:
    assert isinstance(error, nh.errors.HookError)
    assert error.hook == "answering.<locals>.decide"
    assert f"answered {answer} to {type(event).__name__}; allowed: " in str(error)


# ---- registering


def test_a_hook_is_given_back_as_it_is_by_the_decorator_and_by_the_call() -> None:
    hooks = nh.Hooks()

    def look(event: nhh.StepStarted) -> None: ...

    assert hooks.on(nhh.StepStarted, look) is look
    assert hooks.on(nhh.StepStarted)(look) is look
    assert hooks.functions_for(nhh.StepStarted) == (look, look)
    assert hooks.functions_for(nhh.StepFinished) == ()


@pytest.mark.parametrize("event_type", [object, nh.models.ModelRequest, nhh.Veto, "StepStarted", None])
def test_what_is_no_event_is_refused_with_the_names_of_the_events(event_type: Any) -> None:
    with pytest.raises(nh.NighthawkError, match=r"no event.*BeforeToolCall.*ApprovalClosed"):
        nh.Hooks().on(event_type)
    with pytest.raises(nh.NighthawkError, match="no event"):
        nh.Hooks().on(nhh.StepStarted, event_type, lambda event: None)


@pytest.mark.parametrize("function", [None, "text", 3])
def test_what_cannot_be_called_is_no_hook(function: Any) -> None:
    hooks = nh.Hooks()
    with pytest.raises(nh.NighthawkError, match="A hook is a function"):
        hooks.on(nhh.StepStarted, function)
    with pytest.raises(nh.NighthawkError, match="A hook is a function"):
        hooks.on(nhh.StepStarted, nhh.StepFinished)(function)
    assert hooks.functions_for(nhh.StepStarted) == ()


def test_an_async_hook_is_refused_where_nobody_can_await_it() -> None:
    hooks = nh.Hooks()

    async def look(event: Any) -> None: ...

    with pytest.raises(nh.NighthawkError, match=r"await hook .*look at QuestionAsked, ApprovalClosed: make"):
        hooks.on(nhh.QuestionAsked, nhh.StepStarted, nhh.ApprovalClosed)(look)
    assert hooks.functions_for(nhh.StepStarted) == ()


@pytest.mark.parametrize("hooks", [None, "hooks", [None], {nh.Hooks()}, nh.Hooks])
def test_a_run_refuses_what_are_no_hooks(hooks: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="hooks must be a Hooks object, or a list"):
        running(hooks)


# ---- calling


async def test_hooks_are_called_in_the_order_of_their_registration_sync_and_async_alike() -> None:
    first, second, called = nh.Hooks(), nh.Hooks(), list[str]()

    def register(hooks: nh.Hooks, name: str) -> None:
        @hooks.on(nhh.BeforeCommit)
        async def look(event: nhh.BeforeCommit) -> None:
            await checkpoint()
            called.append(name)

    register(second, "c")
    register(first, "a")
    first.on(nhh.BeforeCommit, lambda event: called.append("b"))
    register(second, "d")
    await emitted([first, second], COMMIT)
    assert called == ["a", "b", "c", "d"]


async def test_one_hook_may_look_at_several_types_of_events() -> None:
    hooks, told = nh.Hooks(), list[object]()
    hooks.on(nhh.BeforeToolCall, nhh.BeforeCommit)(told.append)
    async with running(hooks):
        for event in EVENTS:
            await emit(active_hooks(), event)
    assert told == [TOOL_CALL, COMMIT]


async def test_later_hooks_see_what_earlier_ones_modified() -> None:
    hooks, seen = nh.Hooks(), list[object]()

    @hooks.on(nhh.BeforeCommit)
    def add(event: nhh.BeforeCommit) -> Modify:
        return Modify({**event.bindings, "y": 2})

    @hooks.on(nhh.BeforeCommit)
    async def double(event: nhh.BeforeCommit) -> Modify:
        seen.append(event.bindings)
        return Modify({name: 2 * value for name, value in event.bindings.items()})  # type: ignore[operator]

    assert (await emitted(hooks, COMMIT)).bindings == {"x": 2, "y": 4}
    assert seen == [{"x": 1, "y": 2}]
    assert COMMIT.bindings == {"x": 1}


@pytest.mark.parametrize("answer", [Veto("no"), Abort("no"), "no"])
async def test_after_a_refusal_no_further_hook_is_asked(answer: Any) -> None:
    hooks, asked = answering(COMMIT, answer), list[object]()
    hooks.on(nhh.BeforeCommit, asked.append)
    with pytest.raises(nh.NighthawkError):
        await emitted(hooks, COMMIT)
    assert asked == []


class Failing:
    """A hook that is an object."""

    async def __call__(self, event: object) -> None:
        raise OSError("disk full")


def fail(event: object) -> None:
    raise OSError("disk full")


async def fail_later(event: object) -> None:
    await checkpoint()
    raise OSError("disk full")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        pytest.param(fail, "fail", id="def"),
        pytest.param(fail_later, "fail_later", id="async def"),
        pytest.param(functools.partial(fail), "fail", id="partial"),
        pytest.param(Failing(), "Failing", id="object"),
    ],
)
async def test_a_hook_that_raises_is_named_with_its_event_and_its_error(
    function: Callable[[object], Any], name: str
) -> None:
    hooks, asked = nh.Hooks(), list[object]()
    hooks.on(nhh.BeforeToolCall, function)
    hooks.on(nhh.BeforeToolCall, asked.append)
    with pytest.raises(nh.errors.HookError) as caught:
        await emitted(hooks, TOOL_CALL)
    assert caught.value.hook == name
    assert str(caught.value) == f"hook {name} failed at BeforeToolCall: OSError: disk full"
    assert isinstance(caught.value.__cause__, OSError)
    assert asked == []


async def test_an_error_that_would_have_been_an_answer_is_a_failure_of_the_hook() -> None:
    hooks = nh.Hooks()

    @hooks.on(nhh.BeforeToolCall)
    def refuse(event: object) -> None:
        raise nh.errors.ToolBoundaryError(kind="oversight", message="no")

    with pytest.raises(nh.errors.HookError, match="refuse failed at BeforeToolCall: no"):
        await emitted(hooks, TOOL_CALL)


async def test_a_cancellation_passes_through_a_hook_untouched() -> None:
    hooks, entered = nh.Hooks(), anyio.Event()

    @hooks.on(nhh.BeforeToolCall)
    async def linger(event: object) -> None:
        entered.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(emitted, hooks, TOOL_CALL)
        await entered.wait()
        task_group.cancel_scope.cancel()
    assert task_group.cancel_scope.cancelled_caught


async def test_hooks_registered_meanwhile_are_called_for_later_events() -> None:
    hooks, told = nh.Hooks(), list[str]()

    @hooks.on(nhh.BeforeCommit)
    def grow(event: object) -> None:
        told.append("old")
        hooks.on(nhh.BeforeCommit, lambda event: told.append("new"))

    async with running(hooks):
        await emit(active_hooks(), COMMIT)
        assert told == ["old"]
        await emit(active_hooks(), COMMIT)
    assert told == ["old", "old", "new"]


async def test_in_synchronous_code_sync_hooks_are_called_and_async_ones_are_an_error() -> None:
    hooks = nh.Hooks()
    hooks.on(nhh.BeforeCommit, lambda event: Modify({"x": 2}))
    async with running(hooks):
        assert emit_sync(active_hooks(), COMMIT).bindings == {"x": 2}
        hooks.on(nhh.BeforeCommit, fail_later)
        with pytest.raises(
            nh.errors.HookError, match="fail_later is async, but this BeforeCommit happens in sync"
        ):
            emit_sync(active_hooks(), COMMIT)


async def test_what_a_hook_brings_about_calls_no_hook_of_the_same_object() -> None:
    outer, inner, told = nh.Hooks(), nh.Hooks(), list[str]()

    @outer.on(nhh.BeforeCommit)
    async def again(event: nhh.BeforeCommit) -> None:
        told.append("outer")
        await emit(active_hooks(), event)
        emit_sync(active_hooks(), event)

    outer.on(nhh.BeforeCommit, lambda event: told.append("outer too"))
    inner.on(nhh.BeforeCommit, lambda event: told.append("inner"))
    await emitted([outer, inner], COMMIT)
    assert told == ["outer", "inner", "inner", "outer too", "inner"]


async def test_two_hooks_objects_that_cause_each_others_events_come_to_an_end() -> None:
    one, other, told = nh.Hooks(), nh.Hooks(), list[str]()

    def bounce(hooks: nh.Hooks, name: str) -> None:
        @hooks.on(nhh.BeforeCommit)
        async def again(event: nhh.BeforeCommit) -> None:
            told.append(name)
            await emit(active_hooks(), event)

    bounce(one, "one")
    bounce(other, "other")
    await emitted([one, other], COMMIT)
    assert told == ["one", "other", "other", "one"]


async def test_an_event_without_hooks_in_force_is_given_back_as_it_is() -> None:
    async with running([]):
        assert await emit(active_hooks(), TOOL_CALL) is TOOL_CALL
        assert emit_sync(active_hooks(), TOOL_CALL) is TOOL_CALL


# ---- traces


async def traced(hooks: nh.Hooks, event: Any) -> list[tuple[str, dict[str, Any]]]:
    """The events on the span during which an event is emitted."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with running(hooks):
        span = provider.get_tracer("tests").start_as_current_span("step", record_exception=False)
        with span, contextlib.suppress(nh.NighthawkError):
            await emit(active_hooks(), event)
    provider.shutdown()
    (ended,) = exporter.get_finished_spans()
    return [(event.name, dict(event.attributes or {})) for event in ended.events]


@pytest.mark.parametrize(
    ("answer", "details"),
    [
        (Veto("no"), {"nighthawk.hook.answer": "veto", "nighthawk.hook.reason": "no"}),
        (Abort("no"), {"nighthawk.hook.answer": "abort", "nighthawk.hook.reason": "no"}),
        (Modify(REQUEST), {"nighthawk.hook.answer": "modify"}),
    ],
)
@pytest.mark.parametrize("shows_content", [True, False])
async def test_an_answer_is_an_event_on_the_span(
    answer: object, details: dict[str, str], shows_content: bool
) -> None:
    """Its reason, which may quote arguments, is told where content is."""
    if not shows_content:
        details = {name: told for name, told in details.items() if not name.endswith("reason")}
    event = nhh.BeforeModelRequest(execution_ref=REF, model_name="provider:name", request=REQUEST)
    identity = {
        "nighthawk.hook.name": "answering.<locals>.decide",
        "nighthawk.hook.event": "BeforeModelRequest",
    }
    with telemetry(capture_content=shows_content):
        assert await traced(answering(event, answer), event) == [
            ("nighthawk.hook.answered", {**identity, **details})
        ]
        assert await traced(answering(event, None), event) == []


async def test_a_failure_is_an_event_on_the_span_without_the_text_of_the_error() -> None:
    hooks = nh.Hooks()
    hooks.on(nhh.BeforeCommit, fail)
    ((name, attributes),) = await traced(hooks, COMMIT)
    assert name == "nighthawk.hook.failed"
    assert attributes == {
        "nighthawk.hook.name": "fail",
        "nighthawk.hook.event": "BeforeCommit",
        "error.type": "OSError",
    }
