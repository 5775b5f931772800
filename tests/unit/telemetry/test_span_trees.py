"""Which spans there are, and what is below what, wherever a natural function is called."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from opentelemetry.trace import SpanKind

import nighthawk_async as nh
from nighthawk_async import actors, parallel
from nighthawk_async.testing import ScriptedModel, cassette, model_response, tool_call

from .agents import INNER, act, act_now, agent, assign, compute, evaluate, execute, inner
from .traces import Traces

pytestmark = pytest.mark.anyio

CHAT: tuple[str, list[Any]] = ("chat some-model", [])
ONE_STEP = ("nighthawk.step", [("nighthawk.step_executor", [("invoke_agent act", [CHAT])])])
ONE_SYNC_STEP = ("nighthawk.step", [("nighthawk.step_executor", [("invoke_agent act_now", [CHAT])])])


def tool(name: str, *below: Any) -> tuple[str, list[Any]]:
    return (f"execute_tool {name}", list(below))


async def test_a_step_with_two_tool_calls_is_an_agent_with_requests_and_tools_below(
    traces: Traces,
) -> None:
    async with nh.run(agent(evaluate("1 + 1"), assign())):
        assert await act() == "42"
    assert traces.below_step() == [("invoke_agent act", [CHAT, tool("nh_eval"), tool("nh_assign"), CHAT])]
    kinds = {span.name.partition(" ")[0]: span.kind for span in traces.spans}
    assert kinds["invoke_agent"] == kinds["execute_tool"] == SpanKind.INTERNAL
    assert kinds["chat"] == SpanKind.CLIENT


@pytest.mark.filterwarnings("ignore:A synchronous function was called:RuntimeWarning")
@pytest.mark.parametrize("call", [evaluate("inner()"), evaluate("inner_now()"), execute("await inner()")])
async def test_a_step_that_a_tool_brings_about_is_below_the_tool(
    traces: Traces, call: nh.models.ToolCall
) -> None:
    async with nh.run(agent(call)):
        await compute()
    name = "inner_now" if "inner_now" in call.arguments else "inner"
    below = ("nighthawk.step", [("nighthawk.step_executor", [(f"invoke_agent {name}", [CHAT])])])
    assert traces.below_step() == [("invoke_agent compute", [CHAT, tool(call.name, below), CHAT])]


async def test_two_tools_at_once_have_their_own_steps_below_them(traces: Traces) -> None:
    async with nh.run(agent(evaluate("inner()"), execute("await inner()"))):
        await compute()
    ((_, below),) = traces.below_step()
    assert below == [CHAT, tool("nh_eval", INNER), tool("nh_exec", INNER), CHAT]


async def test_a_tool_of_the_user_that_calls_a_natural_function_has_its_step_below_it(traces: Traces) -> None:
    async with nh.run(agent(tool_call("look_up"), provided=())):
        with nh.scope():

            @nh.tool
            async def look_up() -> str:
                """Look it up."""
                await inner()
                return "found"

            await act()
    ((scope, ((_, ((_, ((_, below),)),)),)),) = traces.tree()[0][1]
    assert scope == "nighthawk.scope"
    assert below == [CHAT, tool("look_up", INNER), CHAT]


async def test_a_blocking_function_of_a_tool_has_its_step_below_it(traces: Traces) -> None:
    def work() -> None:
        inner_in_thread()

    @nh.natural_function
    def inner_in_thread() -> None:
        """natural
        Do less.
        """

    work_later = nh.blocking(work)  # noqa: F841  (the block names it)

    @nh.natural_function
    async def call_it() -> None:
        """natural
        Call <work_later>.
        """

    async with nh.run(agent(evaluate("work_later()"))):
        await call_it()
    ((_, below),) = traces.below_step()
    name = inner_in_thread.__qualname__
    below_tool = ("nighthawk.step", [("nighthawk.step_executor", [(f"invoke_agent {name}", [CHAT])])])
    assert below == [CHAT, tool("nh_eval", below_tool), CHAT]


async def test_the_steps_of_a_parallel_map_are_below_whoever_called_it(traces: Traces) -> None:
    async with nh.run(agent()):
        with nh.scope():
            await parallel.map(act, ["a", "b", "c"])
    assert traces.tree() == [("nighthawk.run", [("nighthawk.scope", [ONE_STEP] * 3)])]


async def test_the_steps_of_a_task_group_are_below_where_they_were_started(traces: Traces) -> None:
    async with nh.run(agent()) as run, nh.scope():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(act)
            tasks.start_soon(act)
        del run
    assert traces.tree() == [("nighthawk.run", [("nighthawk.scope", [ONE_STEP] * 2)])]


def test_a_synchronous_step_of_a_script_is_below_its_run(traces: Traces) -> None:
    with nh.run(agent()):
        act_now()
    assert traces.tree() == [("nighthawk.run", [ONE_SYNC_STEP])]


async def test_a_synchronous_step_in_a_worker_thread_is_below_its_scope(traces: Traces) -> None:
    async with nh.run(agent()), nh.scope():
        await anyio.to_thread.run_sync(act_now)
    assert traces.tree() == [("nighthawk.run", [("nighthawk.scope", [ONE_SYNC_STEP])])]


async def test_a_synchronous_step_on_the_loop_is_below_its_scope(traces: Traces) -> None:
    async with nh.run(agent()), nh.scope():
        with pytest.warns(RuntimeWarning, match="blocks it"):
            act_now()
    assert traces.tree() == [("nighthawk.run", [("nighthawk.scope", [ONE_SYNC_STEP])])]


async def test_an_asynchronous_generator_that_is_left_early_leaves_nothing_behind(
    traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    @nh.natural_function
    async def count() -> Any:
        number: int = 0
        """natural
        Set <:number>.
        """
        yield number
        """natural
        Do less.
        """

    async with nh.run(agent()):
        generator = count()
        async for _ in generator:
            break
        await generator.aclose()
        await act()
    name = count.__qualname__
    step = ("nighthawk.step", [("nighthawk.step_executor", [(f"invoke_agent {name}", [CHAT])])])
    assert traces.tree() == [("nighthawk.run", [step, ONE_STEP])]
    assert caplog.text == ""


async def test_an_agent_of_the_users_own_has_a_span_and_tools_but_no_model(traces: Traces) -> None:
    class Own:
        async def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
            await task.begin_tool_call(tool_call("nh_eval", expression="1"))()
            task.report_usage("own:model", nh.Usage(requests=2, input_tokens=7, output_tokens=3))
            return nh.executors.PassStepOutcome()

    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Own())):
        await act()
    assert traces.below_step() == [("invoke_agent act", [tool("nh_eval")])]
    attributes = traces.attributes("invoke_agent")
    assert attributes["gen_ai.usage.input_tokens"] == 7
    assert "gen_ai.request.model" not in attributes


async def test_the_direct_transport_has_requests_and_no_tools(traces: Traces) -> None:
    text = '{"result": {"kind": "pass", "bindings": {"answer": "42"}}}'
    model = ScriptedModel([model_response(text=text)], name="some-model")
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        assert await act() == "42"
    assert traces.below_step() == [("invoke_agent act", [CHAT])]
    assert traces.attributes("chat")["gen_ai.output.type"] == "json"


@pytest.mark.parametrize("options", [{"budget": nh.budget(steps=10)}, {"hooks": nh.Hooks()}])
async def test_budgets_and_hooks_change_no_span(traces: Traces, options: dict[str, Any]) -> None:
    async with nh.run(agent(evaluate("inner()")), **options):
        await compute()
    assert traces.below_step() == [("invoke_agent compute", [CHAT, tool("nh_eval", INNER), CHAT])]


class Critic(actors.Actor):
    """Reads by a natural function."""

    async def read(self) -> None:
        await inner()

    def note(self) -> None:
        act_now()


async def test_what_an_actor_does_is_below_whoever_asked_for_it(traces: Traces) -> None:
    async with nh.run(agent()), actors.Supervisor() as supervisor:
        with nh.scope(scope_id="starter"):
            critic = supervisor.start_actor("critic", Critic)
        with nh.scope(scope_id="async"):
            await critic.ask(Critic.read)
        with nh.scope(scope_id="sync"):
            await critic.ask(Critic.note)
    ((run, (starter, asked, asked_sync)),) = traces.tree()
    assert run == "nighthawk.run"
    assert (starter, asked) == (("nighthawk.scope", []), ("nighthawk.scope", [INNER]))
    (_, ((step, _),)) = asked_sync
    assert step == "nighthawk.step"


async def test_actors_that_several_ask_at_once_keep_their_traces_apart(traces: Traces) -> None:
    async with nh.run(agent()), actors.open_actor(Critic) as critic, anyio.create_task_group() as tasks:

        async def ask() -> None:
            with nh.scope():
                await critic.ask(Critic.read)

        tasks.start_soon(ask)
        tasks.start_soon(ask)
    scope = ("nighthawk.scope", [INNER])
    assert traces.tree() == [("nighthawk.run", [scope, scope])]


async def test_who_has_no_trace_of_their_own_leaves_an_actor_the_one_that_it_has(traces: Traces) -> None:
    async with anyio.create_task_group() as outside:
        asked = anyio.Event()
        handed: list[Any] = []

        async def ask() -> None:
            await asked.wait()
            await handed[0].ask(Critic.read)
            await handed[0].stop()

        outside.start_soon(ask)
        async with nh.run(agent()), actors.open_actor(Critic) as critic:
            handed.append(critic)
            asked.set()
            await critic.wait_ended()
    assert traces.tree() == [("nighthawk.run", [INNER])]


async def test_what_is_recorded_and_replayed_has_the_same_spans(traces: Traces, tmp_path: Path) -> None:
    for _ in range(2):
        with cassette(tmp_path / "tape.json"):
            async with nh.run(agent(assign())):
                assert await act() == "42"
    recorded, replayed = traces.tree()
    assert recorded == replayed


async def test_without_a_tracer_nothing_of_telemetry_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for name in ("ChatSpan", "AgentSpan", "ToolSpan"):
        path = "nighthawk_async.telemetry.agent"
        __import__(path)
        original: Callable[..., Awaitable[None]] = getattr(sys.modules[path], name)

        def note(*args: Any, _name: str = name, _original: Any = original, **options: Any) -> Any:
            made.append(_name)
            return _original(*args, **options)

        monkeypatch.setattr(sys.modules[path], name, note)
    async with nh.run(agent(assign())):
        assert await act() == "42"
    assert made == []


@pytest.mark.parametrize("count", [1, 3])
async def test_every_span_of_a_step_has_the_id_of_its_execution(traces: Traces, count: int) -> None:
    refs: list[nh.ExecutionRef] = []
    hooks = nh.Hooks()
    hooks.on(nh.hooks.StepStarted)(lambda event: refs.append(event.execution_ref))
    for _ in range(count):
        async with nh.run(agent(evaluate("inner()")), hooks=hooks):
            await compute()
    for outer, below in zip(refs[::2], refs[1::2], strict=True):
        of_outer = _spans_of(traces, outer)
        assert of_outer == [
            "nighthawk.step",
            "nighthawk.step_executor",
            "invoke_agent compute",
            "chat some-model",
            "execute_tool nh_eval",
            "chat some-model",
        ]
        assert _spans_of(traces, below) == [*of_outer[:2], "invoke_agent inner", "chat some-model"]
        spans = traces.named("nighthawk.step")
        steps = [dict(span.attributes or {}) for span in spans if span.name == "nighthawk.step"]
        (step,) = (step for step in steps if step.get("execution.id") == below.execution_id)
        assert step["execution.parent_id"] == outer.execution_id
    assert "execution.id" not in (traces.named("nighthawk.run")[0].attributes or {})


def _spans_of(traces: Traces, ref: nh.ExecutionRef) -> list[str]:
    own = (span for span in traces.named("") if span.attributes)
    return [span.name for span in own if (span.attributes or {}).get("execution.id") == ref.execution_id]
