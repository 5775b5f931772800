"""Specification 14: the executor protocols, the agent executor, and executors of one's own."""

import inspect
import threading
from collections.abc import Awaitable
from typing import Any

import anyio
import anyio.from_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.runtime.step_context import StepContext
from nighthawk_async.runtime.step_executor import AsyncStepExecutor, StepOutcome, SyncStepExecutor
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

PARAMETERS = ["self", "processed_natural_program", "step_context", "binding_names", "allowed_step_kinds"]


@nh.natural_function
async def act(text: str) -> str:
    result: str
    """natural
    ---
    deny: [raise]
    ---
    Set <:result> for <text>.
    """
    return result


@nh.natural_function
def act_now(text: str) -> str:
    result: str
    """natural
    Set <:result> for <text>.
    """
    return result


class OwnAsyncExecutor(AsyncStepExecutor):
    """What specification 14.3 shows."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    async def run_step_async(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        self.received.append(
            {
                "program": processed_natural_program,
                "names": binding_names,
                "kinds": allowed_step_kinds,
                "text": step_context.step_locals["text"],
                "step_id": step_context.step_id,
                "globals": "OwnAsyncExecutor" in step_context.step_globals,
            }
        )
        return nh.executors.PassStepOutcome(), {"result": "from the executor"}


class OwnSyncExecutor(SyncStepExecutor):
    """Works in a thread."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def run_step(
        self,
        *,
        processed_natural_program: str,
        step_context: StepContext,
        binding_names: list[str],
        allowed_step_kinds: tuple[str, ...],
    ) -> tuple[StepOutcome, dict[str, object]]:
        self.threads.append(threading.current_thread())
        assert nh.get_current_step_context() is step_context
        assert nh.get_execution_ref().step_id == step_context.step_id
        snapshot = anyio.from_thread.run(nh.get_current_step_actor().snapshot)
        return nh.executors.ReturnStepOutcome(return_expression=repr(f"{snapshot.locals['text']} seen")), {}


class BothExecutor(OwnAsyncExecutor, OwnSyncExecutor):
    """Implements both protocols."""

    def __init__(self) -> None:
        OwnAsyncExecutor.__init__(self)
        OwnSyncExecutor.__init__(self)


# ---- 14.1


@pytest.mark.parametrize("function", [SyncStepExecutor.run_step, AsyncStepExecutor.run_step_async])
def test_14_1_the_protocols_have_the_specified_keyword_only_parameters(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    assert list(parameters) == PARAMETERS
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in list(parameters.values())[1:])


def test_14_1_both_protocols_are_runtime_checkable() -> None:
    executor = nh.AgentStepExecutor.from_model(model=ScriptedModel([]))
    assert isinstance(executor, SyncStepExecutor)
    assert isinstance(executor, AsyncStepExecutor)
    assert isinstance(OwnSyncExecutor(), SyncStepExecutor)
    assert not isinstance(OwnSyncExecutor(), AsyncStepExecutor)
    assert not isinstance(OwnAsyncExecutor(), SyncStepExecutor)
    assert not isinstance(object(), SyncStepExecutor | AsyncStepExecutor)


async def test_14_1_a_synchronous_executor_works_in_a_worker_thread_with_the_step_current() -> None:
    executor = OwnSyncExecutor()
    async with nh.run(executor):
        assert await act("text") == "text seen"
    assert executor.threads[0] is not threading.current_thread()


def test_14_1_a_synchronous_executor_carries_out_synchronous_natural_functions() -> None:
    with nh.run(OwnSyncExecutor()):
        assert act_now("text") == "text seen"


async def test_14_1_an_executor_of_both_kinds_is_used_as_an_async_one() -> None:
    executor = BothExecutor()
    async with nh.run(executor):
        assert await act("text") == "from the executor"
    assert (len(executor.received), len(executor.threads)) == (1, 0)


# ---- 14.2


def test_14_2_from_configuration_makes_a_managed_agent() -> None:
    configuration = nh.StepExecutorConfiguration(
        model="openai-chat:gpt-5.4-nano",
        model_settings={"api_key": "key"},
        context_limits=nh.StepContextLimits(tool_result_max_tokens=77),
        json_renderer_style="detailed",
        tokenizer_encoding="cl100k_base",
    )
    executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
    assert executor.configuration is configuration
    assert executor.agent_is_managed
    assert executor.model is not None
    assert executor.model.name == "openai-chat:gpt-5.4-nano"
    policy = executor.tool_result_rendering_policy
    assert policy.tool_result_max_tokens == 77
    assert policy.json_renderer_style == "detailed"
    assert policy.tokenizer_encoding_name == executor.token_encoding.encoding_name == "cl100k_base"


class OwnAgent:
    """An agent that needs no model."""

    def __init__(self) -> None:
        self.tasks: list[nh.executors.AgentTask] = []

    async def run(self, task: nh.executors.AgentTask) -> StepOutcome:
        self.tasks.append(task)
        call = tool_call("nh_assign", target_path="result", expression="text.upper()")
        result = await task.begin_tool_call(call)()
        assert not result.is_error
        task.report_usage("own:agent", nh.Usage(requests=1, input_tokens=3))
        return nh.executors.PassStepOutcome()


async def test_14_2_from_agent_wraps_an_agent_of_ones_own_that_is_not_managed() -> None:
    agent = OwnAgent()
    executor = nh.AgentStepExecutor.from_agent(agent=agent)
    assert executor.configuration == nh.StepExecutorConfiguration()
    assert not executor.agent_is_managed
    assert executor.model is None
    async with nh.run(executor) as run:
        assert await act("text") == "TEXT"
        other = nh.StepExecutorConfiguration(max_turns=3)
        with nh.scope(step_executor_configuration=other) as resolved:
            assert isinstance(resolved, nh.AgentStepExecutor)
            assert resolved.agent is agent
            assert await act("more") == "MORE"
    first, second = agent.tasks
    assert (first.max_turns, second.max_turns) == (20, 3)
    assert "<<<NH:PROGRAM>>>" in str(first.user_prompt[0])
    assert [tool.name for tool in first.tools] == ["nh_eval", "nh_assign", "nh_exec"]
    assert first.allowed_kinds == ("pass", "return")
    assert run.usage_meter.usage_by_model == {"own:agent": nh.Usage(requests=2, input_tokens=6)}


async def test_14_2_an_agents_outcome_is_validated_like_a_models() -> None:
    class Hasty(OwnAgent):
        async def run(self, task: nh.executors.AgentTask) -> StepOutcome:
            return nh.executors.PassStepOutcome()

    async with nh.run(nh.AgentStepExecutor.from_agent(agent=Hasty())):
        with pytest.raises(nh.ExecutionError, match="write binding 'result' has no value"):
            await act("text")


def test_14_2_what_has_no_run_is_no_agent() -> None:
    with pytest.raises(nh.ConfigurationError, match="is no agent"):
        nh.AgentStepExecutor.from_agent(agent=object())  # type: ignore[arg-type]


async def test_14_2_an_agent_of_ones_own_has_no_direct_transport() -> None:
    configuration = nh.StepExecutorConfiguration(outcome_transport="direct")
    executor = nh.AgentStepExecutor.from_agent(agent=OwnAgent(), configuration=configuration)
    async with nh.run(executor):
        with pytest.raises(nh.ConfigurationError, match="direct outcome transport needs a model"):
            await act("text")


@pytest.mark.parametrize(
    ("model", "transport", "missing"),
    [
        ("openai-chat:unknown", "native", "structured_output"),
        ("google:gemini-2.5-flash", "native", "structured_output_with_tools"),
        ("openai-chat:gpt-6-luna", "tool", "tools"),
    ],
)
def test_14_2_a_transport_that_the_model_cannot_serve_is_refused_before_anything_is_sent(
    model: str, transport: nh.executors.OutcomeTransport, missing: str
) -> None:
    configuration = nh.StepExecutorConfiguration(
        model=model, model_settings={"api_key": "none"}, outcome_transport=transport
    )
    with pytest.raises(nh.ConfigurationError, match=f"{model}: .*'{missing}'.*capabilities="):
        nh.AgentStepExecutor.from_configuration(configuration=configuration)


def test_14_2_without_provided_tools_structured_output_alone_is_enough() -> None:
    configuration = nh.StepExecutorConfiguration(
        model="google:gemini-2.5-flash",
        model_settings={"api_key": "none"},
        outcome_transport="native",
        provided_tools=(),
    )
    executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
    assert executor.outcome_transport == "native"


def test_14_2_the_model_decides_the_outcome_transport_unless_the_configuration_does() -> None:
    small = ScriptedModel([], capabilities=nh.models.ModelCapabilities(default_transport="direct"))
    assert nh.AgentStepExecutor.from_model(model=small).outcome_transport == "direct"
    native = nh.StepExecutorConfiguration(outcome_transport="native")
    executor = nh.AgentStepExecutor.from_model(model=small, configuration=native)
    assert executor.outcome_transport == "native"
    assert nh.AgentStepExecutor.from_agent(agent=OwnAgent()).outcome_transport == "tool"


# ---- 14.3


async def test_14_3_an_own_executor_receives_what_the_specification_says() -> None:
    executor = OwnAsyncExecutor()
    async with nh.run(executor):
        assert await act("text") == "from the executor"
    (received,) = executor.received
    line = act.__wrapped__.__code__.co_firstlineno + 3  # type: ignore[attr-defined]
    assert received == {
        "program": "Set <:result> for <text>.\n",
        "names": ["result"],
        "kinds": ("pass", "return"),
        "text": "text",
        "step_id": f"{__name__}:{line}",
        "globals": True,
    }


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (None, "Nonsense returned None; an executor must return a tuple"),
        ((nh.executors.PassStepOutcome(),), "must return a tuple"),
        ((nh.executors.PassStepOutcome(), {}, {}), "must return a tuple"),
        ("ab", "must return a tuple"),
        (("pass", {}), "no StepOutcome: 'pass'"),
        (({"kind": "pass"}, {}), "no StepOutcome"),
        ((None, {}), "no StepOutcome: None"),
        ((nh.executors.PassStepOutcome(), None), "bindings are no mapping: None"),
        ((nh.executors.PassStepOutcome(), [("result", 1)]), "bindings are no mapping"),
        ((nh.executors.PassStepOutcome(), {"result": 3}), "write binding 'result' must be str"),
        ((nh.executors.PassStepOutcome(), {3: "three"}), "3 cannot be committed"),
        ((nh.executors.PassStepOutcome(), {"text": "rebound"}), "'text' cannot be committed"),
        ((nh.executors.PassStepOutcome(), {}), "write binding 'result' has no value"),
        ((nh.executors.ReturnStepOutcome(return_expression=3), {}), "return_expression is no text: 3"),  # type: ignore[arg-type]
        ((nh.executors.ReturnStepOutcome(return_expression="not python"), {}), "'not python'"),
        ((nh.executors.BreakStepOutcome(), {}), "'break' is not allowed"),
        ((nh.executors.RaiseStepOutcome(raise_message="no"), {}), "'raise' is not allowed"),
    ],
)
async def test_14_3_an_executor_that_returns_nonsense_fails_with_an_error_that_names_it(
    answer: Any, named: str
) -> None:
    class Nonsense:
        async def run_step_async(self, **_: Any) -> Any:
            return answer

    async with nh.run(Nonsense()):
        with pytest.raises(nh.ExecutionError) as caught:
            await act("text")
    assert named in str(caught.value)
    assert f"step {__name__}:" in str(caught.value)


@pytest.mark.parametrize(
    ("outcome", "named"),
    [
        (nh.executors.RaiseStepOutcome(raise_message=3), "raise_message is no text: 3"),  # type: ignore[arg-type]
        (
            nh.executors.RaiseStepOutcome(raise_message="m", raise_error_type=["a"]),
            "raise_error_type is no name",
        ),  # type: ignore[arg-type]
    ],
)
async def test_14_3_a_raise_outcome_without_texts_is_nonsense_too(outcome: Any, named: str) -> None:
    class Nonsense:
        async def run_step_async(self, **_: Any) -> Any:
            return outcome, {}

    @nh.natural_function
    async def fail() -> None:
        """natural
        Fail.
        """

    async with nh.run(Nonsense()):
        with pytest.raises(nh.ExecutionError, match=named):
            await fail()


async def test_14_3_an_executor_may_steer_the_step_through_its_actor() -> None:
    model = ScriptedModel(
        [
            model_response(tool_call("nh_eval", expression="hint()")),
            model_response(
                tool_call("nh_assign", target_path="result", expression="'x'"),
                tool_call("nh_outcome", kind="pass"),
            ),
        ]
    )

    def hint() -> str:
        nh.get_current_step_actor().steer("Answer x.")
        return "hinted"

    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        with nh.scope(implicit_references={"hint": hint}):
            assert await act("text") == "x"
    assert model.requests[1].messages[-1] == nh.models.UserMessage(content=("Answer x.",))


async def test_14_3_a_stopped_step_fails_at_its_next_turn() -> None:
    model = ScriptedModel([model_response(tool_call("nh_eval", expression="stop()"))] * 2)

    def stop() -> None:
        nh.get_current_step_actor().stop("enough")
        nh.get_current_step_actor().stop("more than enough")

    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        scope = nh.scope(implicit_references={"stop": stop})
        with scope, pytest.raises(nh.ExecutionError, match="was stopped: enough"):
            await act("text")
    assert len(model.requests) == 1


class PromptAgent:
    """Takes a prompt, as the agents of other libraries do."""

    async def run(
        self, user_prompt: str | list[str] | None = None, *, output_type: type = str, deps: object = None
    ) -> str:
        return ""


class Named:
    """Takes a text by the name of a task."""

    async def run(self, task: str, stream: bool = False) -> str:
        return ""


class Runner:
    """Needs more than a task."""

    async def run(self, agent: object, input: object) -> str:
        return ""


class Chain:
    """Takes anything, but is not async."""

    def run(self, *args: object, **options: object) -> str:
        return ""


class Synchronous:
    """Takes a task, but is not async."""

    def run(self, task: nh.executors.AgentTask) -> nh.executors.StepOutcome:
        return nh.executors.PassStepOutcome()


class Idle:
    """Takes nothing."""

    async def run(self) -> nh.executors.StepOutcome:
        return nh.executors.PassStepOutcome()


@pytest.mark.parametrize("agent", [PromptAgent(), Named(), Runner(), Chain(), Synchronous(), Idle()])
async def test_14_2_from_agent_refuses_at_once_what_has_another_method_run(agent: Any) -> None:
    with pytest.raises(nh.ConfigurationError, match="is no agent: its method run") as caught:
        nh.AgentStepExecutor.from_agent(agent=agent)
    assert "async def run(self, task: nighthawk_async.executors.AgentTask)" in str(caught.value)
    assert "from_configuration" in str(caught.value)


class Unannotated:
    """Says nothing of types."""

    async def run(self, job):  # type: ignore[no-untyped-def]
        return nh.executors.PassStepOutcome()


class Forwarding:
    """Hands everything on."""

    async def run(self, *args: Any, **options: Any) -> Any:
        return await Unannotated().run(*args, **options)


class Promising:
    """Gives an awaitable without being async itself."""

    def run(
        self, task: "nh.executors.AgentTask", verbose: bool = False
    ) -> Awaitable[nh.executors.StepOutcome]:
        return Unannotated().run(task)


@pytest.mark.parametrize("agent", [Unannotated(), Forwarding(), Promising()])
async def test_14_2_from_agent_takes_every_agent_that_takes_a_task(agent: Any) -> None:
    @nh.natural_function
    async def work() -> None:
        """natural
        Do nothing.
        """

    async with nh.run(nh.AgentStepExecutor.from_agent(agent=agent)):
        await work()
