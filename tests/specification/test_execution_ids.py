"""Every execution of a step has an id, and its parent's, wherever something is told of it."""

import json
import logging
import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async import actors, observe
from nighthawk_async.hooks import (
    AfterModelRequest,
    AfterToolCall,
    BeforeCommit,
    BeforeModelRequest,
    BeforeToolCall,
    Retry,
    StepFinished,
    StepStarted,
)
from nighthawk_async.resilience import Baseline, retrying
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    raise_response,
    tool_call,
)
from nighthawk_async.types.messages import ToolResultsMessage
from nighthawk_async.types.model import ModelRequest

pytestmark = pytest.mark.anyio

DONE = tool_call("nh_outcome", kind="pass")


@nh.natural_function
async def ask(helper: Any) -> None:
    """natural
    Call <helper>.
    """


@nh.natural_function
async def leaf() -> None:
    """natural
    Do it.
    """


@nh.natural_function
def leaf_in_thread() -> None:
    """natural
    Do it.
    """


def executor_calling(expression: str = "helper()") -> nh.AgentStepExecutor:
    """A model that evaluates an expression where `helper` is at hand, and ends."""

    def answer(request: ModelRequest) -> ModelResponse:
        is_new = not isinstance(request.messages[-1], ToolResultsMessage)
        if is_new and "Call <helper>" in str(request.messages[0].content):  # type: ignore[union-attr]
            return model_response(tool_call("nh_eval", expression=expression))
        return model_response(DONE)

    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer))


class Events:
    """Keeps the events of the types that are given."""

    def __init__(self, *types: type[Any]) -> None:
        self.hooks = nh.Hooks()
        self.all: list[Any] = []
        for each in types:
            self.hooks.on(each, self.all.append)

    def refs(self, kind: type[Any]) -> list[nh.ExecutionRef]:
        """The executions of the events of a type."""
        return [event.execution_ref for event in self.all if type(event) is kind]


async def parents(helper: Any, expression: str = "helper()") -> list[tuple[str | None, str | None]]:
    """The ids and parents' ids of the steps, in the order of their beginning; the first calls the helper."""
    events = Events(StepStarted)
    async with nh.run(executor_calling(expression), hooks=events.hooks):
        await ask(helper)
    return [(ref.execution_id, ref.parent_execution_id) for ref in events.refs(StepStarted)]


# ---- distinguishing and grouping


async def test_three_concurrent_calls_of_one_block_are_told_apart_everywhere() -> None:
    kinds = (StepStarted, BeforeModelRequest, AfterModelRequest, BeforeToolCall, AfterToolCall, BeforeCommit)
    events = Events(*kinds, StepFinished)
    async with nh.run(executor_calling(), hooks=events.hooks):
        await nh.parallel.map(lambda _: ask(lambda: 1), range(3))
    assert len({event.execution_ref.step_id for event in events.all}) == 1
    by_execution = Counter(event.execution_ref.execution_id for event in events.all)
    assert len(by_execution) == 3
    assert None not in by_execution
    one = {StepStarted: 1, BeforeModelRequest: 2, AfterModelRequest: 2, StepFinished: 1}
    expected = Counter({**one, BeforeToolCall: 1, AfterToolCall: 1, BeforeCommit: 1})
    for execution_id in by_execution:
        own = [event for event in events.all if event.execution_ref.execution_id == execution_id]
        assert Counter(type(event) for event in own) == expected
    assert {event.execution_ref.parent_execution_id for event in events.all} == {None}


async def test_ids_are_unique_and_opaque() -> None:
    ids: list[str] = []

    def respond(call: StepCall) -> StepResponse:
        ids.append(nh.get_execution_ref().execution_id or "")
        return pass_response()

    async with nh.run(CallbackExecutor(respond)):
        for _ in range(200):
            await leaf()
    assert len(set(ids)) == 200
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in ids)


async def test_outside_a_step_there_is_no_execution() -> None:
    async with nh.run(executor_calling()):
        ref = nh.get_execution_ref()
        assert (ref.execution_id, ref.parent_execution_id) == (None, None)
        assert nh.current_task().execution_id is None


# ---- parents


async def test_a_step_of_a_binding_function_has_the_calling_execution_as_parent() -> None:
    (outer, above), (inner, parent) = await parents(leaf)
    assert above is None
    assert parent == outer != inner


async def test_parents_are_known_through_tasks_combinators_scopes_and_actors() -> None:
    class Helper(actors.Actor):
        async def work(self) -> None:
            await leaf()

    async def helper() -> None:
        await nh.parallel.map(lambda _: leaf(), range(2))
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(leaf)
        async with nh.parallel.open_tasks(at_end="wait") as tasks:
            tasks.start(leaf)
        async with nh.scope():
            await leaf()
        async with actors.open_actor(Helper) as actor:
            await actor.ask(Helper.work)

    (outer, _), *inner = await parents(helper)
    assert len({execution_id for execution_id, _ in inner}) == 6
    assert {parent for _, parent in inner} == {outer}


async def test_what_an_actor_does_is_brought_about_by_whoever_asks() -> None:
    class Helper(actors.Actor):
        async def work(self) -> None:
            await leaf()

    events = Events(StepStarted)
    run = nh.run(executor_calling(), hooks=events.hooks)
    async with run, actors.open_actor(Helper) as actor:
        await ask(lambda: actor.ask(Helper.work))
        await actor.ask(Helper.work)
    outer, inner, by_nobody = events.refs(StepStarted)
    assert (inner.parent_execution_id, by_nobody.parent_execution_id) == (outer.execution_id, None)


async def test_parents_are_known_through_worker_threads_and_the_bridge() -> None:
    async def helper() -> None:
        await anyio.to_thread.run_sync(leaf_in_thread)

    def blocking() -> None:
        leaf_in_thread()

    for each in (helper, nh.blocking(blocking)):
        (outer, _), (_, parent) = await parents(each)
        assert parent == outer


@pytest.mark.may_block_event_loop("a synchronous function waits for its step on the loop's thread")
@pytest.mark.filterwarnings("ignore:A synchronous function was called on the thread of a running event loop")
async def test_parents_are_known_on_portal_threads() -> None:
    (outer, _), (_, parent) = await parents(leaf_in_thread)
    assert parent == outer


async def test_a_run_within_a_step_knows_in_which_execution_it_was_entered() -> None:
    events = Events(StepStarted)
    seen: list[nh.ExecutionRef] = []

    async def helper() -> None:
        async with nh.run(executor_calling(), hooks=events.hooks) as run:
            seen.append(run.execution_ref)
            await leaf()

    async with nh.run(executor_calling(), hooks=events.hooks):
        await ask(helper)
    outer, inner = events.refs(StepStarted)
    assert inner.run_id != outer.run_id
    assert (seen[0].execution_id, seen[0].parent_execution_id) == (None, outer.execution_id)
    assert inner.parent_execution_id == outer.execution_id


async def test_each_attempt_is_an_execution_of_its_own() -> None:
    attempts = iter([RuntimeError, None])
    told: list[str | None] = []

    async def respond(call: StepCall) -> StepResponse:
        told.append(nh.get_execution_ref().execution_id)
        if next(attempts) is not None:
            raise nh.ExecutionError("once")
        return pass_response()

    events = Events(StepStarted, StepFinished, Retry)
    baseline = Baseline(retries=retrying(attempts=2, wait=0))
    async with nh.run(CallbackExecutor(respond), hooks=events.hooks, resilience=baseline):
        await leaf()
    first, second = told
    assert first != second
    assert [ref.execution_id for ref in events.refs(StepStarted)] == [first, second]
    assert [ref.execution_id for ref in events.refs(StepFinished)] == [first, second]
    (retry,) = (event for event in events.all if isinstance(event, Retry))
    assert (retry.failed_execution_id, retry.execution_ref.execution_id) == (first, None)


# ---- where it is told


async def test_the_live_tree_tells_ids_of_steps_requests_and_calls() -> None:
    events = Events(StepStarted)
    with observe.recording() as tree:
        async with nh.run(executor_calling(), hooks=events.hooks):
            await ask(leaf)
    outer, inner = events.refs(StepStarted)
    nodes = list(tree.snapshot().walk())
    steps = [node for node in nodes if node.kind == "step"]
    assert [node.attributes["execution.id"] for node in steps] == [outer.execution_id, inner.execution_id]
    assert steps[1].attributes["execution.parent_id"] == outer.execution_id
    below = Counter(node.attributes["execution.id"] for node in nodes if node.kind == "model_request")
    assert below == {outer.execution_id: 2, inner.execution_id: 1}
    (call,) = (node for node in nodes if node.kind == "tool_call")
    assert call.attributes["execution.id"] == outer.execution_id
    assert outer.execution_id in json.dumps(observe.view_as_json(tree.snapshot()))


async def test_an_error_of_the_library_names_the_innermost_execution_that_it_left() -> None:
    told: list[str | None] = []

    async def respond(call: StepCall) -> StepResponse:
        told.append(nh.get_execution_ref().execution_id)
        if "helper" in call.natural_program:
            await leaf()
        raise nh.ExecutionError("no")

    async with nh.run(CallbackExecutor(respond)):
        with pytest.raises(nh.ExecutionError) as caught:
            await ask(None)
    assert len(told) == 2
    assert caught.value.execution_id == told[1]
    assert pickle.loads(pickle.dumps(caught.value)).execution_id == told[1]


async def test_what_a_block_raises_on_purpose_names_its_execution() -> None:
    told: list[str | None] = []

    def respond(call: StepCall) -> StepResponse:
        told.append(nh.get_execution_ref().execution_id)
        return raise_response("no")

    async with nh.run(CallbackExecutor(respond)):
        with pytest.raises(nh.ExecutionError) as caught:
            await leaf()
    assert [caught.value.execution_id] == told


def test_an_error_that_left_no_step_names_none() -> None:
    assert nh.NighthawkError("no").execution_id is None


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the library logs."""
    with caplog.at_level(logging.DEBUG, logger="nighthawk"):
        yield caplog


async def test_lines_of_the_log_say_to_which_execution_they_belong(log: pytest.LogCaptureFixture) -> None:
    refs: list[nh.ExecutionRef] = []
    logger = logging.getLogger("nighthawk")

    def respond(call: StepCall) -> StepResponse:
        refs.append(nh.get_execution_ref())
        logger.warning("in the step")
        return pass_response()

    logger.warning("outside")
    async with nh.run(CallbackExecutor(respond)) as run:
        logger.warning("in the run")
        await leaf()
    outside, in_run, in_step = (vars(record) for record in log.records)
    names = ("run_id", "scope_id", "step_id", "execution_id", "parent_execution_id")
    assert [outside[name] for name in names] == [None] * 5
    assert (in_run["run_id"], in_run["execution_id"]) == (run.execution_ref.run_id, None)
    assert [in_step[name] for name in names] == [getattr(refs[0], name) for name in names]
    formatted = logging.Formatter("%(execution_id)s %(message)s").format(log.records[2])
    assert formatted == f"{refs[0].execution_id} in the step"


async def test_a_line_about_an_error_names_the_execution_that_it_left(log: pytest.LogCaptureFixture) -> None:
    def respond(call: StepCall) -> StepResponse:
        raise nh.ExecutionError("no")

    async with nh.run(CallbackExecutor(respond)):
        try:
            await leaf()
        except nh.ExecutionError as error:
            logging.getLogger("nighthawk").exception("failed")
            expected = error.execution_id
    assert vars(log.records[-1])["execution_id"] == expected is not None


async def test_a_task_says_in_which_execution_it_is() -> None:
    seen: list[tuple[str | None, str | None]] = []

    async def helper() -> None:
        seen.append((nh.current_task().execution_id, nh.get_execution_ref().execution_id))

    await parents(helper)
    ((of_task, of_step),) = seen
    assert of_task == of_step is not None
