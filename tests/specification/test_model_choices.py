"""What a run, a scope and a function take as their model, and scopes as decorators."""

import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.resilience import Baseline, InvalidPolicyError
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelServer,
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    pass_response,
    tool_call,
)
from nighthawk_async.types.model import ModelRequest

pytestmark = pytest.mark.anyio

PASS = tool_call("nh_outcome", kind="pass")
KEY = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEY.items():
        monkeypatch.setenv(name, value)


def model_of_run() -> str:
    executor = nh.get_step_executor()
    assert isinstance(executor, nh.AgentStepExecutor)
    assert executor.model is not None
    return executor.model.name


async def test_a_run_takes_a_model_id_a_configuration_a_model_or_an_executor() -> None:
    async with nh.run("openai-responses:gpt-5.4-nano"):
        assert model_of_run() == "openai-responses:gpt-5.4-nano"
    async with nh.run(nh.StepExecutorConfiguration(model="anthropic:claude-haiku-4-5", max_turns=3)):
        executor = nh.get_step_executor()
        assert isinstance(executor, nh.AgentStepExecutor)
        assert executor.configuration.max_turns == 3
        assert model_of_run() == "anthropic:claude-haiku-4-5"
    model = ScriptedModel([])
    async with nh.run(model):
        executor = nh.get_step_executor()
        assert isinstance(executor, nh.AgentStepExecutor)
        assert executor.model is model
    own = ScriptedExecutor(responses=[])
    async with nh.run(own):
        assert nh.get_step_executor() is own


def test_a_synchronous_run_takes_a_model_id() -> None:
    with nh.run("openai-responses:gpt-5.4-nano"):
        assert model_of_run() == "openai-responses:gpt-5.4-nano"


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        ("gpt-5.4-nano", nh.errors.UnknownModelError, "provider:model"),
        ("opnai-chat:gpt-5.4-nano", nh.errors.UnknownModelError, "opnai-chat"),
        (7, nh.NighthawkError, "7 is no step executor.*model id"),
        (None, nh.NighthawkError, "needs a model"),
        (ScriptedModel, nh.NighthawkError, "no step executor"),
    ],
)
def test_what_is_no_model(choice: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nh.run(choice)  # pyright: ignore[reportArgumentType]


def test_arguments_by_position() -> None:
    configuration = nh.StepExecutorConfiguration(model="openai-chat:gpt-5.4-nano")
    assert nh.AgentStepExecutor.from_configuration(configuration).configuration is configuration
    model = ScriptedModel([])
    assert nh.AgentStepExecutor.from_model(model).model is model


async def test_a_scope_takes_a_model_id_and_keeps_the_rest() -> None:
    configuration = nh.StepExecutorConfiguration(
        model="openai-responses:gpt-5.4-nano", max_turns=3, model_settings={"api_key": "own"}
    )
    async with nh.run(configuration):
        with nh.scope(step_executor="anthropic:claude-haiku-4-5"):
            executor = nh.get_step_executor()
            assert isinstance(executor, nh.AgentStepExecutor)
            assert executor.configuration.max_turns == 3
            assert executor.configuration.model_settings == {}  # a key is for its provider alone
            assert model_of_run() == "anthropic:claude-haiku-4-5"
        assert model_of_run() == "openai-responses:gpt-5.4-nano"


async def test_a_run_on_a_model_object_keeps_it() -> None:
    model = ScriptedModel([])
    async with nh.run(model):
        with nh.scope(step_executor="anthropic:claude-haiku-4-5"):
            executor = nh.get_step_executor()
            assert isinstance(executor, nh.AgentStepExecutor)
            assert executor.model is model


async def test_the_model_of_a_function() -> None:
    used: list[str] = []
    seen = CallbackExecutor(lambda call: used.append("own") or pass_response())

    @nh.natural_function(model=seen)
    async def special() -> None:
        """natural
        Do it.
        """

    @nh.natural_function(model=seen)
    def special_sync() -> None:
        """natural
        Do it.
        """

    async with nh.run(ScriptedModel([])):
        await special()
        await anyio.to_thread.run_sync(special_sync)
    assert used == ["own", "own"]


async def test_the_model_id_of_a_function() -> None:
    @nh.natural_function(model="openai-chat:other")
    async def special() -> None:
        """natural
        Do it.
        """

    async with ModelServer([ModelReply(tool_calls=(PASS,))]) as server:
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:first", model_settings={"base_url": server.base_url, "api_key": "k"}
        )
        async with nh.run(configuration):
            await special()
        (request,) = server.requests
    assert request.body["model"] == "other"


async def test_a_function_with_a_model_id_runs_on_the_scripted_model_of_a_test() -> None:
    @nh.natural_function(model="openai-chat:unknown-at-this-place")
    async def special() -> None:
        """natural
        Do it.
        """

    model = ScriptedModel([model_response(PASS)])
    async with nh.run(model):
        await special()
    async with nh.run(ScriptedExecutor(responses=[pass_response()])):
        await special()


async def test_the_executor_of_a_function_is_made_once_for_the_steps_of_a_run() -> None:
    inside: list[object] = []

    def note_executor() -> None:
        inside.append(nh.get_step_executor())

    @nh.natural_function(model="openai-chat:large")
    async def special() -> None:
        """natural
        Do it; <note_executor> notes the executor.
        """

    call = tool_call("nh_eval", expression="note_executor()")
    replies = [ModelReply(tool_calls=(call,)), ModelReply(tool_calls=(PASS,))]
    async with ModelServer(replies * 3) as server:
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:small", model_settings={"base_url": server.base_url, "api_key": "k"}
        )
        async with nh.run(configuration):
            outside = nh.get_step_executor()
            await special()
            await special()
        async with nh.run(configuration):
            await special()
    first, second, other = inside
    assert first is second
    assert first is not outside
    assert other is not first


async def test_the_limits_of_a_function_are_those_of_each_step() -> None:
    @nh.natural_function(step_budget=nh.BudgetLimits(turns=2))
    async def limited() -> None:
        """natural
        Do it.
        """

    replies = [model_response(tool_call("nh_eval", expression="1")), model_response(PASS)] * 2
    endless = [model_response(tool_call("nh_eval", expression=str(each))) for each in range(5)]
    async with nh.run(ScriptedModel([*replies, *endless])):
        await limited()
        await limited()
        with pytest.raises(nh.BudgetExceededError, match="turns=2"):
            await limited()


async def test_limits_in_generators() -> None:
    @nh.natural_function(step_budget=nh.budget(turns=1))
    async def limited():
        """natural
        Do it.
        """
        yield 1

    async with nh.run(ScriptedModel([model_response(PASS), model_response(text="Well")])):
        assert [each async for each in limited()] == [1]
        with pytest.raises(nh.BudgetExceededError):
            _ = [each async for each in limited()]


def test_bad_limits() -> None:
    with pytest.raises(nh.NighthawkError, match="budget of a step must be"):
        nh.natural_function(step_budget={"turns": 1})  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(nh.NighthawkError, match="limits something"):
        nh.natural_function(step_budget=nh.BudgetLimits())


class TestScopeAsDecorator:
    async def test_each_call_is_in_a_scope_of_its_own(self) -> None:
        scopes: list[str] = []

        @nh.scope(system_prompt_suffix_fragments=["Be brief."])
        async def work(number: int, *, more: int = 0) -> int:
            assert nh.runtime.get_system_prompt_suffix_fragments() == ("Be brief.",)
            scopes.append(nh.get_execution_ref().scope_id)
            return number + more

        async with nh.run(ScriptedModel([])):
            assert [await work(1, more=2), await work(2)] == [3, 2]
            assert nh.runtime.get_system_prompt_suffix_fragments() == ()
        assert len(set(scopes)) == 2

    def test_synchronous_functions_and_methods(self) -> None:
        class Desk:
            @nh.scope(implicit_references={"rate": 2})
            def work(self) -> object:
                return nh.runtime.get_implicit_references()["rate"]

            @staticmethod
            @nh.scope(implicit_references={"rate": 3})
            def static() -> object:
                return nh.runtime.get_implicit_references()["rate"]

        with nh.run(ScriptedModel([])):
            assert (Desk().work(), Desk.static()) == (2, 3)

    async def test_on_a_natural_function(self) -> None:
        requests: list[ModelRequest] = []
        model = ScriptedModel(lambda request: requests.append(request) or model_response(PASS))

        @nh.scope(user_prompt_suffix_fragments=["Hurry."])
        @nh.natural_function
        async def work() -> None:
            """natural
            Do it.
            """

        async with nh.run(model):
            await work()
        assert "Hurry." in str(requests[0].messages)

    async def test_without_a_run(self) -> None:
        @nh.scope()
        async def work() -> None:
            raise AssertionError

        with pytest.raises(nh.NighthawkError, match="No run is active"):
            await work()

    def test_bad_arguments_outside_of_a_run(self) -> None:
        with pytest.raises(nh.NighthawkError, match="mode must be"):
            nh.scope(mode="other")  # pyright: ignore[reportArgumentType]

    def test_generators_are_refused(self) -> None:
        with pytest.raises(TypeError, match="A scope cannot be for the generator"):

            @nh.scope()
            def numbers():
                yield 1


class TestFallbackModelsWithSettingsOfTheirOwn:
    async def test_each_has_its_own_key_settings_and_limits(self) -> None:
        @nh.natural_function
        async def act() -> None:
            """natural
            Do it.
            """

        busy = ModelReply(status=503, error={"message": "busy"})
        async with ModelServer([busy, busy, ModelReply(tool_calls=(PASS,))]) as server:

            def configuration(name: str, key: str, **more: object) -> nh.StepExecutorConfiguration:
                settings = {"base_url": server.base_url, "api_key": key, "max_retries": 0, **more}
                return nh.StepExecutorConfiguration(model=f"openai-chat:{name}", model_settings=settings)

            spares = [configuration("first", "b"), configuration("third", "c", temperature=0.5)]
            async with nh.run(configuration("first", "a"), resilience=Baseline(fallback_models=spares)):
                await act()
            sent = [(each.body["model"], each.headers["authorization"]) for each in server.requests]
        assert sent == [("first", "Bearer a"), ("first", "Bearer b"), ("third", "Bearer c")]
        assert [each.body.get("temperature") for each in server.requests] == [None, None, 0.5]

    def test_bad_ones(self) -> None:
        with pytest.raises(
            InvalidPolicyError, match="model ids, texts, or a StepExecutorConfiguration, not 3"
        ):
            Baseline(fallback_models=[3])  # type: ignore[list-item]
        same = nh.StepExecutorConfiguration(model="openai-chat:a")
        with pytest.raises(InvalidPolicyError, match="more than once"):
            Baseline(fallback_models=[same, same])

    async def test_an_executor_that_keeps_its_model_has_no_others(self) -> None:
        spare = nh.StepExecutorConfiguration(model="openai-chat:a")
        with pytest.raises(nh.ConfigurationError, match="keeps it"):
            nh.run(ScriptedModel([]), resilience=Baseline(fallback_models=[spare]))
