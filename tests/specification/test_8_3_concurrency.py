"""Section 8.3: the step actor carries calls out one at a time and awaits their values in parallel."""

from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response
from tests.specification.scripted_steps import (
    PASS,
    ScriptedSteps,
    assigning,
    evaluating,
    executing,
    returning,
)

pytestmark = pytest.mark.anyio

CALLS = 8


async def wait_a_second(number: int) -> int:
    await anyio.sleep(1)
    return number


async def wait_descending(number: int) -> int:
    await anyio.sleep(CALLS - number)
    return number


async def slow_tool(number: int) -> int:
    """Take a second."""
    return await wait_a_second(number)


@nh.natural_function
async def work(log: list[Any]) -> object:
    """natural
    Work with <log>.
    """


async def run_calls(*calls: nh.models.ToolCall, log: list[Any] | None = None) -> ScriptedSteps:
    steps = ScriptedSteps(calls, PASS)
    async with nh.run(steps.executor):
        nh.tool(slow_tool)
        await work([] if log is None else log)
    return steps


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "call",
    [
        lambda number: evaluating(f"wait_a_second({number})"),
        lambda number: evaluating(f"await wait_a_second({number})"),
        lambda number: assigning(f"name_{number}", f"wait_a_second({number})"),
        lambda number: executing(f"name_{number} = await wait_a_second({number})"),
        lambda number: nh.models.ToolCall(id="", name="slow_tool", arguments=f'{{"number": {number}}}'),
    ],
    ids=["nh_eval", "nh_eval with await", "nh_assign", "nh_exec", "user tool"],
)
async def test_8_3_eight_async_calls_take_as_long_as_one(call: Any) -> None:
    started = anyio.current_time()
    await run_calls(*(call(number) for number in range(CALLS)))
    assert anyio.current_time() - started == pytest.approx(1)


@pytest.mark.virtual_time
async def test_8_3_results_come_back_in_the_order_of_the_calls() -> None:
    steps = await run_calls(*(evaluating(f"wait_descending({number})") for number in range(CALLS)))
    assert [envelope["value"] for envelope in steps.envelopes] == list(range(CALLS))
    assert [result.call_id for result in steps.results] == [f"call_{number}" for number in range(CALLS)]


async def test_8_3_synchronous_calls_are_carried_out_in_order() -> None:
    log: list[Any] = []
    await run_calls(*(evaluating(f"log.append({number})") for number in range(CALLS)), log=log)
    assert log == list(range(CALLS))


@pytest.mark.virtual_time
async def test_8_3_a_call_that_mentions_a_name_still_being_awaited_waits_for_it() -> None:
    started = anyio.current_time()
    steps = await run_calls(
        assigning("first", "wait_a_second(1)"),
        evaluating("first + 1"),
        assigning("second", "wait_a_second(first + 10)"),
        evaluating("log.append('independent')"),
        evaluating("(lambda: second)()"),
        assigning("first", "5"),
        evaluating("first"),
    )
    values = [envelope["value"] for envelope in steps.envelopes][1:]
    for value in (values[1], values[4]):
        assert value.pop("note").startswith("not kept when the block ends: ")
    assert values == [
        2,
        {"succeeded": True, "target_path": "second", "type": "int", "value": 11},
        None,
        11,
        {"succeeded": True, "target_path": "first", "type": "int", "value": 5},
        5,
    ]
    assert anyio.current_time() - started == pytest.approx(2)


@pytest.mark.virtual_time
async def test_8_3_a_failed_assignment_lets_those_that_waited_go_on() -> None:
    steps = await run_calls(
        assigning("first", "1"),
        assigning("first", "wait_a_second(1) if False else undefined"),
        assigning("first", "[await wait_a_second(1), 1 / 0][0]"),
        evaluating("first"),
    )
    assert [envelope["error"] is None for envelope in steps.envelopes] == [True, False, False, True]
    assert steps.envelopes[3]["value"] == 1


# ---- messages of an executor of one's own


class Messages:
    """An executor that talks to the step actor itself."""

    def __init__(self, talk: Any) -> None:
        self._talk = talk
        self.said: Any = None

    async def run_step_async(self, **_: Any) -> tuple[nh.executors.StepOutcome, dict[str, object]]:
        self.said = await self._talk(nh.get_current_step_actor())
        return nh.executors.PassStepOutcome(), {}


async def said_by(talk: Any) -> Any:
    executor = Messages(talk)
    async with nh.run(executor, code="python"):
        await work([])
    return executor.said


async def test_8_3_whoever_stops_waiting_for_an_assignment_does_not_block_the_step() -> None:
    async def talk(actor: nh.runtime.StepActor) -> Any:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(actor.settle, actor.post_assign("first", "anyio.sleep_forever()"))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        return await actor.settle(actor.post_evaluate("'first' in locals()"))

    assert await said_by(talk) is False


async def test_8_3_a_deferred_call_that_is_abandoned_is_never_carried_out() -> None:
    async def talk(actor: nh.runtime.StepActor) -> Any:
        gate = anyio.Event()
        actor.context.step_locals["gate"] = gate
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(actor.settle, actor.post_assign("first", "gate.wait()"))
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0):
                await actor.settle(actor.post_execute("first\nlog.append(1)"))
            gate.set()
        return await actor.settle(actor.post_evaluate("(log, first)"))

    assert await said_by(talk) == ([], None)


async def test_8_3_a_coroutine_nobody_awaits_any_more_is_closed_without_a_warning() -> None:
    async def talk(actor: nh.runtime.StepActor) -> None:
        with anyio.CancelScope() as scope:
            pending = actor.post_evaluate("wait_a_second(1)")
            await actor.settle(actor.post_evaluate("1"))  # by now the first one has its coroutine
            scope.cancel()
            await actor.settle(pending)

    await said_by(talk)


async def test_8_3_a_reply_may_be_settled_twice() -> None:
    async def talk(actor: nh.runtime.StepActor) -> list[object]:
        pending = actor.post_assign("first", "3")
        return [await actor.settle(pending), await actor.settle(pending)]

    assert await said_by(talk) == [3, 3]


async def test_8_3_a_snapshot_is_a_view_between_two_messages() -> None:
    async def talk(actor: nh.runtime.StepActor) -> nh.runtime.StepSnapshot:
        actor.post_execute("fresh = 1")
        snapshot = await actor.snapshot()
        actor.post_execute("fresh = 2")
        await actor.snapshot()
        return snapshot

    snapshot = await said_by(talk)
    assert dict(snapshot.locals) == {"log": [], "fresh": 1}
    assert snapshot.step_id.startswith(f"{__name__}:")
    assert snapshot.assigned_names == frozenset()
    assert snapshot.stop_reason is None
    with pytest.raises(TypeError):
        snapshot.locals["fresh"] = 3


async def test_8_3_steer_delivers_a_message_to_the_model_at_its_next_turn() -> None:
    def steer() -> None:
        nh.get_current_step_actor().steer("Hurry up.", nh.ImageUrl(url="https://host.test/map.png"))

    steps = ScriptedSteps(evaluating("steer()"), evaluating("1"), PASS)
    async with nh.run(steps.executor), nh.scope(implicit_references={"steer": steer}):
        await work([])
    second, third = (request.messages for request in steps.model.requests[1:])
    assert second[-1] == nh.models.UserMessage(
        content=("Hurry up.", nh.ImageUrl(url="https://host.test/map.png"))
    )
    assert [message for message in third if isinstance(message, nh.models.UserMessage)][1:] == [second[-1]]


async def test_8_3_steering_with_an_empty_text_says_nothing() -> None:
    def steer() -> None:
        nh.get_current_step_actor().steer("")

    steps = ScriptedSteps(evaluating("steer()"), PASS)
    async with nh.run(steps.executor), nh.scope(implicit_references={"steer": steer}):
        await work([])
    assert isinstance(steps.model.requests[1].messages[-1], nh.models.ToolResultsMessage)


async def test_8_3_stop_fails_the_step_at_its_next_turn_with_the_first_reason() -> None:
    def stop() -> None:
        nh.get_current_step_actor().stop("no longer needed")
        nh.get_current_step_actor().stop("another reason")

    steps = ScriptedSteps(evaluating("stop()"), PASS)
    async with nh.run(steps.executor), nh.scope(implicit_references={"stop": stop}):
        with pytest.raises(nh.ExecutionError, match="was stopped: no longer needed"):
            await work([])
    assert len(steps.model.requests) == 1


async def test_8_3_a_message_after_the_end_of_the_step_says_so() -> None:
    actors: list[nh.runtime.StepActor] = []

    def keep(call: StepCall) -> StepResponse:
        actors.append(nh.get_current_step_actor())
        return pass_response()

    async with nh.run(CallbackExecutor(keep)):
        await work([])
    (actor,) = actors
    with pytest.raises(nh.errors.StepEndedError, match="has ended"):
        await actor.settle(actor.post_evaluate("1"))
    for look in (actor.snapshot, actor.wait_suspended):
        with pytest.raises(nh.parallel.TaskEndedError, match="has ended"):
            await look()
    for send in (lambda: actor.steer("late"), lambda: actor.stop("late"), actor.suspend, actor.resume):
        with pytest.raises(nh.parallel.TaskEndedError, match="has ended"):
            send()


async def test_8_3_what_waits_when_the_step_ends_is_told_so() -> None:
    replies: list[Any] = []

    async def talk(actor: nh.runtime.StepActor) -> None:
        actor.context.step_locals["gate"] = anyio.Event()
        replies.append(actor.post_assign("first", "gate.wait()"))
        replies.append(actor.post_evaluate("first"))
        await actor.snapshot()
        replies.append(actor.post_evaluate("1"))

    await said_by(talk)
    for reply in replies[1:]:
        with pytest.raises(nh.errors.StepEndedError):
            await reply.wait()
    replies[0]._value.close()


async def test_8_3_two_steps_in_flight_never_share_their_names() -> None:
    @nh.natural_function
    async def number_of(number: int) -> object:
        """natural
        Return <number> after a while.
        """

    async def keep(number: int, into: list[object]) -> None:
        into.append((number, await number_of(number)))

    found: list[object] = []
    steps = ScriptedSteps(*[(assigning("kept", "wait(number)"), returning("(kept, number)"))] * 20)

    async def wait(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        return number

    async with (
        nh.run(steps.executor),
        nh.scope(implicit_references={"wait": wait}),
        anyio.create_task_group() as task_group,
    ):
        for number in range(20):
            task_group.start_soon(keep, number, found)
    assert sorted(found, key=str) == sorted([(n, (n, n)) for n in range(20)], key=str)
