"""Where executors reach a model: step paths, sources in its place, and errors that concern the host alone."""

import anyio
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.agent.model_call import open_stream
from nighthawk_async.kernel.commit import InterceptionError, find_interception_error
from nighthawk_async.kernel.environment import (
    SourcePolicy,
    find_environment,
    needs_endpoint,
    using_policy,
    using_source_everywhere,
)
from nighthawk_async.models.providers import create_model
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import ModelRequest

pytestmark = pytest.mark.anyio

HELLO = ModelRequest(messages=(UserMessage(content=("Hello",)),))
END = tool_call("nh_outcome", kind="pass")


class Watcher(SourcePolicy):
    """Lets every request through and remembers where it came from."""

    def __init__(self, *, is_offline: bool = False) -> None:
        self._is_offline = is_offline
        self.paths: list[tuple[str, ...]] = []

    @property
    def is_offline(self) -> bool:
        return self._is_offline

    def around_request(
        self, call: nh.policies.ModelCall, open_request: nh.policies.OpenRequest
    ) -> nh.policies.Events:
        environment = find_environment()
        self.paths.append(() if environment is None else environment.step_path)
        return open_request()


class Refuser(Watcher):
    """Has no answer to anything."""

    def around_request(
        self, call: nh.policies.ModelCall, open_request: nh.policies.OpenRequest
    ) -> nh.policies.Events:
        raise InterceptionError("no answer")


@nh.natural_function
async def inner() -> None:
    """natural
    Do nothing.
    """


@nh.natural_function
async def outer() -> None:
    """natural
    First.
    """
    """natural
    Call <inner>.
    """


@nh.natural_function
def in_thread() -> None:
    """natural
    Do nothing.
    """


def address(name: str) -> str:
    return f"{__name__}:{name}"


def executor_of(model: nh.models.Model) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_model(model=model)


async def test_a_path_names_the_enclosing_blocks_by_module_function_and_number() -> None:
    watcher = Watcher()
    model = ScriptedModel(
        [
            model_response(END),
            model_response(tool_call("nh_eval", expression="await inner()")),
            model_response(END),
            model_response(END),
        ]
    )
    async with nh.run(executor_of(model)):
        with using_policy(watcher):
            await outer()
    second = address("outer:2")
    assert watcher.paths == [(address("outer:1"),), (second,), (second, address("inner:1")), (second,)]


async def test_a_source_flows_into_threads_and_nested_runs_and_not_out_again() -> None:
    watcher = Watcher()
    model = ScriptedModel([model_response(END)] * 3)
    async with nh.run(executor_of(model)):
        with using_policy(watcher):
            await anyio.to_thread.run_sync(in_thread)
            async with nh.run(executor_of(model)):
                await inner()
        await inner()
    assert watcher.paths == [(address("in_thread:1"),), (address("inner:1"),)]


async def test_the_innermost_source_counts_and_one_of_the_context_before_that_of_the_program() -> None:
    everywhere, outer_one, inner_one = Watcher(), Watcher(), Watcher()
    model = ScriptedModel([model_response()] * 3)

    async def ask() -> None:
        async with open_stream(model, HELLO):
            pass

    with using_source_everywhere(everywhere):
        await ask()
        with using_policy(outer_one):
            with using_policy(inner_one):
                await ask()
            await ask()
    assert [len(each.paths) for each in (everywhere, outer_one, inner_one)] == [1, 1, 1]


async def test_a_request_outside_every_step_has_no_path() -> None:
    watcher = Watcher()
    with using_policy(watcher):
        async with open_stream(ScriptedModel([model_response()]), HELLO):
            pass
    assert watcher.paths == [()]


@pytest.mark.parametrize("transport", ["tool", "direct"])
async def test_an_interception_error_is_no_reason_for_a_correction(
    transport: nh.executors.OutcomeTransport,
) -> None:
    configuration = nh.StepExecutorConfiguration(outcome_transport=transport)
    model = ScriptedModel([])
    executor = nh.AgentStepExecutor.from_model(model=model, configuration=configuration)
    async with nh.run(executor) as run:
        with using_policy(Refuser()), pytest.raises(InterceptionError, match="no answer"):
            await inner()
    assert run.usage_meter.usage.requests == 1


async def test_an_interception_error_passes_a_tool_of_the_users_by() -> None:
    model = ScriptedModel([model_response(tool_call("look"))])

    async def call_inner() -> None:
        with using_policy(Refuser()):
            await inner()

    async with nh.run(executor_of(model)):
        with nh.scope():

            @nh.tool(name="look")
            async def look() -> None:
                """Looks."""
                try:
                    await call_inner()
                except nh.NighthawkError as error:
                    raise nh.errors.ToolBoundaryError(kind="transient", message="later") from error

            with pytest.raises(InterceptionError, match="no answer"):
                await inner()
    assert len(model.requests) == 1


def test_an_interception_error_is_found_however_it_is_wrapped() -> None:
    found = InterceptionError("no answer")
    middle, top = nh.ToolEvaluationError("middle"), nh.ExecutionError("top")
    middle.__cause__, top.__cause__ = found, middle
    assert find_interception_error(top) is found
    assert find_interception_error(nh.ExecutionError("other")) is None


def test_models_need_no_key_and_no_weights_while_all_answers_are_replayed() -> None:
    assert needs_endpoint()
    with pytest.raises(nh.errors.MissingCredentialError):
        create_model("openai-chat:gpt-5-nano", environment={})
    for using in (using_policy, using_source_everywhere):
        with using(Watcher(is_offline=True)):
            assert not needs_endpoint()
            assert create_model("openai-chat:gpt-5-nano", environment={}).name == "openai-chat:gpt-5-nano"
            absent = create_model("local:/nowhere/model.gguf", environment={})
            assert absent.name == "local:/nowhere/model.gguf"
        with using(Watcher()), pytest.raises(nh.errors.MissingCredentialError):
            create_model("openai-chat:gpt-5-nano", environment={})
