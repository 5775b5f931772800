"""Completion gates: a check says whether a step is done, and the model goes on until it is."""

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nighthawk_async as nh
from nighthawk_async.hooks import VerificationRefused
from nighthawk_async.kernel.commit import InterceptionError
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelResponse,
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    pass_response,
    return_response,
)
from tests.specification.scripted_steps import PASS, ScriptedSteps, assigning, evaluating, returning
from tests.tracing import trace_with

pytestmark = pytest.mark.anyio


@nh.natural_function
async def act(value: Any = None) -> int:
    number = 0
    """natural
    Set <:number> from <value>.
    """
    return number


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace_with(monkeypatch, provider)
    yield exporter
    provider.shutdown()


def at_least(minimum: int) -> Callable[[nh.oversight.Proposal], str | None]:
    def check(proposal: nh.oversight.Proposal) -> str | None:
        number = proposal.bindings.get("number", 0)
        assert isinstance(number, int)
        return None if number >= minimum else f"number must be at least {minimum}"

    return check


def setting(number: int) -> tuple[nh.models.ToolCall, nh.models.ToolCall]:
    return assigning("number", str(number)), PASS


async def run(steps: ScriptedSteps, verify: Any, *, hooks: Any = ()) -> int:
    async with nh.run(steps.executor, hooks=hooks):
        with nh.scope(verify=verify):
            return await act()


async def test_a_check_sees_how_the_step_is_about_to_end() -> None:
    seen: list[nh.oversight.Proposal] = []

    @nh.natural_function
    async def answer() -> str:
        count = 0
        """natural
        Set <:count> and return it.
        """
        return str(count)

    steps = ScriptedSteps((assigning("count", "3"), returning("str(count) + '!'")))
    async with nh.run(steps.executor):
        with nh.scope(verify=seen.append):
            assert await answer() == "3!"
    (proposal,) = seen
    assert proposal.bindings == {"count": 3}
    assert proposal.return_value == "3!"
    assert proposal.outcome.kind == "return"
    assert proposal.program == "Set <:count> and return it.\n"
    assert proposal.step_id.startswith(__name__)
    with pytest.raises(TypeError):
        proposal.bindings["count"] = 4  # type: ignore[index]


async def wait_for_number(proposal: nh.oversight.Proposal) -> bool:
    return proposal.bindings["number"] == 2


@pytest.mark.parametrize(
    ("check", "feedback"),
    [
        (at_least(2), "number must be at least 2"),
        (wait_for_number, "a check finds that it is not done"),
        (
            lambda proposal: True if proposal.bindings["number"] == 2 else nh.oversight.Continue("two!"),
            "two!",
        ),
        (lambda proposal: "" if proposal.bindings["number"] == 2 else "  two? ", "two?"),
    ],
)
async def test_the_model_sees_the_feedback_in_its_next_turn_and_goes_on(check: Any, feedback: str) -> None:
    steps = ScriptedSteps(setting(1), setting(2))
    assert await run(steps, check) == 2
    refused = steps.results[-1]
    assert refused.is_error
    error = steps.envelopes[-1]["error"]
    assert error["kind"] == "oversight"
    assert error["message"].startswith(f"not accepted yet: {feedback}")
    assert error["guidance"] == "Go on, then end the block again."


async def test_nothing_is_committed_before_the_check_agrees() -> None:
    record = {"checked": False}
    committed: list[object] = []

    class Watching:
        def inspect_tool_call(self, inspection: nh.oversight.ToolCallInspection) -> nh.oversight.Accept:
            return nh.oversight.Accept()

        def inspect_step_commit(self, commit: nh.oversight.StepCommit) -> nh.oversight.Accept:
            committed.append((record["checked"], commit.bindings["number"]))
            return nh.oversight.Accept()

    def check(proposal: nh.oversight.Proposal) -> bool:
        record["checked"] = proposal.bindings["number"] == 2
        return record["checked"]

    steps = ScriptedSteps(setting(1), setting(2))
    async with nh.run(steps.executor):
        with nh.scope(verify=check, oversight=Watching()):
            await act()
    assert committed == [(True, 2)]


async def test_refusals_are_bounded_and_do_not_count_as_corrections() -> None:
    told: list[tuple[int, int, str]] = []
    hooks = nh.Hooks()
    hooks.on(
        VerificationRefused, lambda event: told.append((event.refusals, event.max_refusals, event.feedback))
    )
    steps = ScriptedSteps(*[setting(1)] * 4, max_corrective_turns=0)
    with pytest.raises(nh.errors.VerificationError, match="refused the outcome \\(4 times\\)") as caught:
        await run(steps, nh.oversight.verification(at_least(2), max_refusals=4), hooks=hooks)
    assert caught.value.feedback == "number must be at least 2"
    assert type(caught.value) is nh.errors.VerificationError
    assert len(steps.model.requests) == 4
    assert told == [(count, 4, "number must be at least 2") for count in (1, 2, 3, 4)]


async def test_by_default_the_third_refusal_ends_the_step() -> None:
    steps = ScriptedSteps(*[setting(1)] * 3)
    with pytest.raises(nh.errors.VerificationError):
        await run(steps, at_least(2))
    assert len(steps.model.requests) == 3


async def test_a_refusal_in_the_last_turn_fails_the_step() -> None:
    steps = ScriptedSteps(setting(1), setting(1), max_turns=2)
    with pytest.raises(
        nh.errors.VerificationError, match=r"at least 2; no turn is left .*max_turns"
    ) as caught:
        await run(steps, at_least(2))
    assert type(caught.value) is nh.errors.VerificationError
    assert caught.value.feedback == "number must be at least 2"


async def test_checks_of_nested_scopes_must_all_agree_the_innermost_first() -> None:
    asked: list[str] = []

    def named(name: str, minimum: int) -> Callable[[nh.oversight.Proposal], str | None]:
        def check(proposal: nh.oversight.Proposal) -> str | None:
            asked.append(name)
            return at_least(minimum)(proposal)

        return check

    steps = ScriptedSteps(setting(1), setting(2), setting(3))
    async with nh.run(steps.executor, verify=named("run", 3)):
        with nh.scope(verify=named("outer", 1)), nh.scope(verify=[named("one", 2), named("two", 2)]):
            assert await act() == 3
    inner = {"one", "two"}
    assert set(asked[:1]) <= inner
    assert asked[1:5] in (["two", "one", "outer", "run"], ["one", "two", "outer", "run"])
    assert asked.count("run") == 2


async def test_a_scope_can_replace_the_checks_of_outer_ones() -> None:
    async with nh.run(ScriptedExecutor(default_response=pass_response(number=1))):
        with nh.scope(verify=at_least(2)):
            with nh.scope(mode="replace", verify=at_least(1)):
                assert await act() == 1
            with nh.scope(mode="replace", verify=[]):
                assert await act() == 1
            with nh.scope(mode="replace"), pytest.raises(nh.errors.VerificationError):
                await act()


async def test_a_step_within_a_step_is_checked_for_itself() -> None:
    steps = ScriptedSteps(evaluating("value()"), setting(1), setting(2), (assigning("number", "5"), PASS))
    async with nh.run(steps.executor):
        with nh.scope(verify=at_least(2)):
            assert await act(act) == 5
    assert len(steps.model.requests) == 4


# ---- checks of one function


@nh.natural_function(verify=at_least(2))
async def act_verified(value: Any = None) -> int:
    number = 0
    """natural
    Set <:number> from <value>.
    """
    return number


async def test_a_function_has_checks_of_its_own_that_hold_for_no_other_function() -> None:
    steps = ScriptedSteps(setting(1), setting(2), setting(0))
    async with nh.run(steps.executor):
        assert await act_verified() == 2
        assert await act() == 0


async def test_the_checks_of_scopes_hold_beside_those_of_the_function() -> None:
    steps = ScriptedSteps(setting(2), setting(1), setting(3))
    async with nh.run(steps.executor):
        with nh.scope(verify=at_least(3)):
            assert await act_verified() == 3
    messages = [envelope["error"]["message"] for envelope in steps.envelopes if envelope["error"]]
    assert [message[-1] for message in messages] == ["3", "2"]


def test_a_synchronous_function_is_checked_too() -> None:
    @nh.natural_function(verify=at_least(2))
    def act_synchronously() -> int:
        number = 0
        """natural
        Set <:number>.
        """
        return number

    with nh.run(ScriptedSteps(setting(1), setting(2)).executor):
        assert act_synchronously() == 2


async def test_generators_and_methods_are_checked_too() -> None:
    class Counter:
        @nh.natural_function(verify=at_least(2))
        async def count(self) -> Any:
            for _ in range(2):
                number = 0
                """natural
                Set <:number>.
                """
                yield number

        @nh.natural_function(verify=[at_least(1)])
        @staticmethod
        async def once() -> int:
            number = 0
            """natural
            Set <:number>.
            """
            return number

    steps = ScriptedSteps(setting(1), setting(2), setting(3), setting(1))
    async with nh.run(steps.executor):
        assert [number async for number in Counter().count()] == [2, 3]
        assert await Counter.once() == 1


# ---- checks that are natural functions


@nh.natural_function
async def is_good(proposal: nh.oversight.Proposal) -> str | None:
    """natural
    Return what is wrong with <proposal>, or None.
    """


@nh.natural_function
def is_good_synchronously(proposal: nh.oversight.Proposal) -> str | None:
    """natural
    Return what is wrong with <proposal>, or None.
    """


@pytest.mark.parametrize("check", [is_good, is_good_synchronously])
async def test_a_natural_function_can_be_the_check_and_is_not_checked_itself(check: Any) -> None:
    steps = ScriptedSteps(
        setting(1),
        returning("None if proposal.bindings['number'] > 1 else 'more'"),
        setting(2),
        returning("None if proposal.bindings['number'] > 1 else 'more'"),
    )
    async with nh.run(steps.executor) as run:
        with nh.scope(verify=check):
            assert await act() == 2
    assert run.usage_meter.usage.requests == 4


@pytest.mark.parametrize("check", [is_good, is_good_synchronously])
async def test_the_step_of_a_check_waits_for_no_place_of_its_own(check: Any) -> None:
    executor = ScriptedExecutor([pass_response(number=1), return_response("None")])
    async with nh.run(executor, max_concurrent_steps=1, verify=check):
        assert await act() == 1


async def test_a_check_that_calls_the_function_it_checks_goes_round_once() -> None:
    async def again(proposal: nh.oversight.Proposal) -> bool:
        return await function() == 7

    @nh.natural_function(verify=again)
    async def function() -> int:
        number = 0
        """natural
        Set <:number>.
        """
        return number

    steps = ScriptedSteps(setting(1), setting(7))
    async with nh.run(steps.executor):
        assert await function() == 1


# ---- checks that fail


async def broken_check(proposal: nh.oversight.Proposal) -> bool:
    raise LookupError("nothing there")


@pytest.mark.parametrize(
    ("check", "named"),
    [
        (broken_check, "check broken_check failed: LookupError: nothing there"),
        (lambda _: 1, "answered 1; it must answer True or None for done"),
        (lambda _: nh.oversight.Accept(), "it must answer True or None for done"),
    ],
)
async def test_a_check_that_raises_or_answers_nonsense_fails_the_step(check: Any, named: str) -> None:
    steps = ScriptedSteps(setting(1))
    with pytest.raises(nh.errors.HookError, match=named) as caught:
        await run(steps, check)
    assert caught.value.hook in str(caught.value)
    if check is broken_check:
        assert isinstance(caught.value.__cause__, LookupError)
    assert len(steps.model.requests) == 1


@pytest.mark.parametrize(
    ("verify", "named"),
    [
        (3, "function of a Proposal, not 3"),
        ([at_least(1), "text"], "function of a Proposal, not 'text'"),
    ],
)
async def test_what_is_no_check_is_refused_at_once(verify: Any, named: str) -> None:
    async with nh.run(ScriptedExecutor()):
        with pytest.raises(nh.NighthawkError, match=named):
            nh.scope(verify=verify)
    with pytest.raises(nh.NighthawkError, match=named):
        nh.run(ScriptedExecutor(), verify=verify)
    with pytest.raises(nh.NighthawkError, match=named):
        nh.natural_function(verify=verify)


@pytest.mark.parametrize("max_refusals", [0, -1, True, 1.5, "3"])
def test_a_bound_that_makes_no_sense_is_refused(max_refusals: Any) -> None:
    with pytest.raises(nh.NighthawkError, match="max_refusals"):
        nh.oversight.verification(at_least(1), max_refusals=max_refusals)


# ---- every way in which an outcome travels


def natural_answers(*numbers: int) -> Iterator[ModelResponse]:
    for number in numbers:
        yield model_response(assigning("number", str(number)))
        yield model_response(text='{"result": {"kind": "pass"}}')


async def test_the_native_transport_sends_feedback_as_a_message() -> None:
    model = ScriptedModel(list(natural_answers(1, 2)))
    configuration = nh.StepExecutorConfiguration(outcome_transport="native")
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        with nh.scope(verify=at_least(2)):
            assert await act() == 2
    message = model.requests[2].messages[-1]
    assert message == nh.models.UserMessage(
        content=(
            "That outcome was not accepted yet: number must be at least 2. Go on, then end the block again.",
        )
    )


def direct_answer(number: int) -> ModelResponse:
    return model_response(text=f'{{"result": {{"kind": "pass", "bindings": {{"number": {number}}}}}}}')


async def test_the_direct_transport_asks_again_with_the_feedback() -> None:
    model = ScriptedModel([direct_answer(1), direct_answer(2)])
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct", max_corrective_turns=0)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        with nh.scope(verify=at_least(2)):
            assert await act() == 2
    message = model.requests[1].messages[-1]
    assert isinstance(message, nh.models.UserMessage)
    assert message.content == (
        "That answer was not accepted yet: number must be at least 2\nAnswer again with JSON only.",
    )


async def test_the_direct_transport_gives_up_after_the_last_refusal() -> None:
    model = ScriptedModel([direct_answer(1), direct_answer(1)])
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        verification = nh.oversight.verification(at_least(2), max_refusals=2)
        with nh.scope(verify=verification), pytest.raises(nh.errors.VerificationError, match="2 times"):
            await act()


SMALL = nh.models.ModelCapabilities(is_small=True, default_transport="direct", tools=False)


async def test_a_small_model_is_asked_everything_anew_with_the_feedback() -> None:
    model = ScriptedModel(
        [model_response(text='{"number": 1}'), model_response(text='{"number": 2}')], capabilities=SMALL
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with nh.scope(verify=at_least(2)):
            assert await act() == 2
    message = model.requests[1].messages[0]
    assert isinstance(message, nh.models.UserMessage)
    assert "Your last answers were not accepted yet: number must be at least 2" in str(message.content[-1])


async def test_a_small_model_that_chooses_an_outcome_is_asked_for_the_bindings_again() -> None:
    @nh.natural_function
    async def choose() -> int:
        number = 0
        for _ in range(1):
            """natural
            ---
            deny: [pass, return, raise]
            ---
            Set <:number>.
            """
        return number

    texts = [
        '{"number": 1}',
        '{"outcome": {"kind": "break"}}',
        '{"number": 2}',
        '{"outcome": {"kind": "break"}}',
    ]
    model = ScriptedModel([model_response(text=text) for text in texts], capabilities=SMALL)
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with nh.scope(verify=at_least(2)):
            assert await choose() == 2
    assert len(model.requests) == 4


async def test_an_agent_of_ones_own_learns_of_refusals_and_may_go_on() -> None:
    class Agent:
        def __init__(self) -> None:
            self.refusals: list[str] = []

        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            for number in (1, 2):
                await task.begin_tool_call(assigning("number", str(number)))()
                outcome = nh.executors.PassStepOutcome()
                try:
                    await task.conclude(outcome)
                except nh.ExecutionError as error:
                    self.refusals.append(str(error))
            return outcome

    agent = Agent()
    async with nh.run(nh.AgentStepExecutor.from_agent(agent=agent)):
        with nh.scope(verify=at_least(2)):
            assert await act() == 2
    (refusal,) = agent.refusals
    assert "number must be at least 2" in refusal


async def test_an_agent_that_ignores_the_last_refusal_gets_nothing_committed() -> None:
    class Stubborn:
        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            for number in (1, 5):
                await task.begin_tool_call(assigning("number", str(number)))()
                outcome = nh.executors.PassStepOutcome()
                with pytest.raises(nh.errors.VerificationError):
                    await task.conclude(outcome)
            return outcome

    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Stubborn())):
        verification = nh.oversight.verification(at_least(2), max_refusals=1)
        with nh.scope(verify=verification), pytest.raises(nh.errors.VerificationError):
            await act()


async def test_executors_without_further_turns_fail_at_the_first_refusal() -> None:
    for executor in (
        ScriptedExecutor([pass_response(number=1)]),
        CallbackExecutor(lambda _: pass_response(number=1)),
    ):
        async with nh.run(executor):
            with (
                nh.scope(verify=at_least(2)),
                pytest.raises(nh.errors.VerificationError, match="once") as caught,
            ):
                await act()
        assert type(caught.value) is nh.errors.VerificationError


async def test_executors_without_further_turns_are_asked_once_when_all_is_well() -> None:
    asked: list[object] = []
    async with nh.run(ScriptedExecutor([return_response("5")])):
        with nh.scope(verify=lambda proposal: asked.append(proposal.return_value)):
            assert await act() == 5
    assert asked == [5]


# ---- traces, cancellation, budgets


async def test_each_refusal_is_told_to_the_trace(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(nh.errors.VerificationError):
        await run(ScriptedSteps(*[setting(1)] * 3), at_least(2))
    events = [event for span in exporter.get_finished_spans() for event in span.events]
    refused = [event.attributes or {} for event in events if event.name == "nighthawk.verification.refused"]
    assert [attributes["nighthawk.verification.refusals"] for attributes in refused] == [1, 2, 3]
    assert {attributes["nighthawk.verification.max_refusals"] for attributes in refused} == {3}
    assert "at_least" in str(refused[0]["nighthawk.verification.check"])


async def test_cancelling_a_step_cancels_its_check() -> None:
    began, ended = anyio.Event(), list[str]()

    async def wait(proposal: nh.oversight.Proposal) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(run, ScriptedSteps(setting(1)), wait)
        await began.wait()
        task_group.cancel_scope.cancel()
    assert ended == ["cancelled"]


async def test_a_check_that_has_no_budget_left_ends_the_step_with_the_error_of_the_budget() -> None:
    steps = ScriptedSteps(setting(1), returning("None"))
    async with nh.run(steps.executor):
        scope = nh.scope(verify=is_good, budget=nh.budget(steps=1))
        with scope, pytest.raises(nh.BudgetExceededError):
            await act()


async def test_hooks_are_called_for_the_steps_of_checks() -> None:
    hooks, started = nh.Hooks(), list[str]()
    hooks.on(nh.hooks.StepStarted, lambda event: started.append(event.program.split()[0]))
    await run(ScriptedSteps(setting(1), returning("None")), is_good, hooks=hooks)
    assert started == ["Set", "Return"]


async def test_a_missing_recording_within_a_check_reaches_the_host_bare() -> None:
    async def ask(proposal: nh.oversight.Proposal) -> bool:
        raise RuntimeError("wrapped") from InterceptionError("no recording")

    with pytest.raises(InterceptionError, match="no recording"):
        await run(ScriptedSteps(setting(1)), ask)


async def test_a_step_of_a_check_that_obeys_a_request_to_end_ends_the_task_with_it() -> None:
    began, go_on = anyio.Event(), anyio.Event()

    async def check(proposal: nh.oversight.Proposal) -> bool:
        began.set()
        await go_on.wait()
        return await act() == 2

    steps = ScriptedSteps(setting(1), setting(2))
    async with nh.run(steps.executor, verify=check), nh.open_tasks() as tasks:
        handle = tasks.start(act)
        await began.wait()
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(handle.cancel_gracefully, 60, "no longer needed")
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        with pytest.raises(nh.parallel.TaskCancelledError, match="no longer needed"):
            await handle
    assert len(steps.model.requests) == 1
