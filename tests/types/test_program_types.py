"""What type checkers see of programs: functions, tools, runs, hooks, oversight, the testing kit.

They read `assert_type`, and a comment that ignores an error has to ignore one. Running shows the values.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Literal, assert_type

import pytest

import nighthawk_async as nh
from nighthawk_async import hooks
from nighthawk_async.resilience import Baseline, retrying, timeout, vote
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelServer,
    RecordedRequest,
    ScriptedExecutor,
    ScriptedModel,
    StepCall,
    StepResponse,
    model_response,
    pass_response,
    return_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

Label = Literal["good", "bad"]


@nh.natural_function
async def judge(text: str, *, strict: bool = False) -> Label:
    """natural
    Return the label of <text>; <strict> says how strict to be.
    """
    ...


@nh.natural_function
def judge_here(text: str) -> str:
    label = ""
    """natural
    Set <:label> to the label of <text>.
    """
    return label


def is_known(proposal: nh.oversight.Proposal) -> str | None:
    return None if proposal.return_value in ("good", "bad") else "say good or bad"


@nh.natural_function(verify=is_known)
async def judge_verified(text: str) -> Label:
    """natural
    Return the label of <text>.
    """
    ...


def note_partial(partial: nh.PartialValues) -> None:
    assert_type(partial.values, Mapping[str, Any])
    assert_type(partial.execution_ref, nh.ExecutionRef)
    assert_type((partial.attempt, partial.is_final), tuple[int, bool])


async def send_partial(partial: nh.PartialValues) -> int:
    return partial.attempt


def note_something_else(text: str) -> None:
    raise AssertionError(text)


@nh.natural_function(on_partial=note_partial, verify=is_known)
async def judge_aloud(text: str) -> Label:
    """natural
    Return the label of <text>.
    """
    ...


@nh.natural_function(on_partial=send_partial)
def judge_aloud_here(text: str) -> str:
    label = ""
    """natural
    Set <:label> to the label of <text>.
    """
    return label


@nh.natural_function
async def story(topic: str) -> AsyncIterator[str]:
    sentence = ""
    """natural
    Set <:sentence> to the beginning of a story about <topic>.
    """
    yield sentence


@nh.natural_function
def story_here(topic: str) -> Iterator[str]:
    sentence = ""
    """natural
    Set <:sentence> to the beginning of a story about <topic>.
    """
    yield sentence


class Desk:
    @nh.natural_function
    async def answer(self, question: str) -> str:
        """natural
        Return the answer to <question>.
        """
        ...

    @nh.natural_function
    @classmethod
    async def shared(cls, question: str) -> str:
        """natural
        Return the answer to <question>.
        """
        ...

    @nh.natural_function
    @staticmethod
    async def anybody(question: str) -> str:
        """natural
        Return the answer to <question>.
        """
        ...


@retrying(attempts=2)
@timeout(30)
@nh.natural_function
async def judge_carefully(text: str) -> Label:
    """natural
    Return the label of <text>.
    """
    ...


@vote(count=3)
@nh.natural_function
async def judge_together(text: str) -> Label:
    """natural
    Return the label of <text>.
    """
    ...


async def test_natural_functions_keep_their_signature() -> None:
    good = return_response("'good'")
    async with nh.run(ScriptedExecutor(default_response=good)):
        assert assert_type(await judge("a", strict=True), Label) == "good"
        assert assert_type(await judge_verified("a"), Label) == "good"
        assert assert_type(await judge_carefully("a"), Label) == "good"
        assert assert_type(await judge_together("a"), Label) == "good"
        assert assert_type(await Desk().answer("a"), str) == "good"
        assert assert_type(await Desk.shared("a"), str) == "good"
        assert assert_type(await Desk.anybody("a"), str) == "good"
        with pytest.raises(TypeError):
            await judge("a", kind=True)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            await judge_carefully()  # type: ignore[call-arg]


async def test_generators_and_synchronous_functions_keep_theirs() -> None:
    async with nh.run(ScriptedExecutor(default_response=pass_response(sentence="A cat slept."))):
        async for sentence in story("cats"):
            assert assert_type(sentence, str) == "A cat slept."


async def test_functions_that_tell_values_while_they_arrive_keep_their_signature() -> None:
    nh.natural_function(on_partial=lambda partial: partial.values.get("label"))
    nh.natural_function(on_partial=note_something_else)  # type: ignore[arg-type]
    async with nh.run(ScriptedExecutor([return_response("'good'")])), nh.partial_values() as partials:
        assert assert_type(await judge_aloud("a"), Label) == "good"
        assert assert_type(await anext(partials), hooks.PartialValues).is_final
    async for partial in partials:
        assert_type(partial, nh.PartialValues)


def test_a_synchronous_function_that_tells_values_keeps_its_signature() -> None:
    with nh.run(ScriptedExecutor([pass_response(label="good")])):
        assert assert_type(judge_aloud_here("a"), str) == "good"


def test_synchronous_programs() -> None:
    with nh.run(ScriptedExecutor([pass_response(label="good"), pass_response(sentence="A cat slept.")])):
        assert assert_type(judge_here("a"), str) == "good"
        assert assert_type(list(story_here("cats")), list[str]) == ["A cat slept."]


@nh.blocking
def read_sensor(room: str) -> float:
    return 21.5


async def test_tools_and_blocking_functions_stay_callable() -> None:
    async with nh.run(CallbackExecutor(answer_good)):

        @nh.tool
        def repeat(word: str, *, times: int = 3) -> list[str]:
            """Repeat a word."""
            return [word] * times

        @nh.tool(name="explain_slowly")
        async def explain(run_context: nh.RunContext[nh.StepContext], word: str) -> str:
            """Explain a word."""
            return f"{run_context.deps.step_id}: {word}"

        assert assert_type(repeat("a", times=1), list[str]) == ["a"]
        function: Callable[[nh.RunContext[nh.StepContext], str], Awaitable[str]] = explain
        assert function is explain
    assert assert_type(await read_sensor("hall"), float) == 21.5


def answer_good(call: StepCall) -> StepResponse:
    assert_type(call.step_locals, Mapping[str, object])
    return return_response("'good'")


async def approve_all(request: nh.human.ApprovalRequest) -> None:
    request.approve("ada", digest=request.digest)


class Auditor:
    def inspect_tool_call(
        self, inspection: nh.oversight.ToolCallInspection
    ) -> nh.oversight.Accept | nh.oversight.Reject:
        assert_type(inspection.arguments, Mapping[str, Any])
        return nh.oversight.Accept()

    async def inspect_step_commit(
        self, commit: nh.oversight.StepCommit
    ) -> nh.oversight.Accept | nh.oversight.Rewrite | nh.oversight.Abort:
        assert_type(commit.bindings, Mapping[str, Any])
        assert_type(commit.return_value, Any)
        return nh.oversight.Accept()


async def test_runs_and_scopes_take_what_they_are_documented_to_take() -> None:
    own = nh.Hooks()
    async with nh.run(
        CallbackExecutor(answer_good),
        run_id="a",
        hooks=[own],
        verify=is_known,
        permissions=nh.permissions(default="allow"),
        budget=nh.budget(tokens=10_000),
        step_budget=nh.budget(cost=0.10),
        resilience=Baseline(timeout=60),
    ) as run:
        assert_type(run.usage_meter.usage, nh.Usage)
        with nh.scope(oversight=Auditor(), hooks=own, verify=[is_known], budget=nh.budget(steps=5)):
            assert await judge("a") == "good"
        assert_type(nh.get_execution_ref(), nh.ExecutionRef)


@pytest.mark.parametrize("wrong", [5])
async def test_runs_and_scopes_take_nothing_else(wrong: int) -> None:
    executor = CallbackExecutor(answer_good)
    with pytest.raises(nh.NighthawkError):
        async with nh.run(executor, hooks=wrong):  # type: ignore[arg-type]
            pass
    with pytest.raises(nh.NighthawkError):
        async with nh.run(executor, verify=wrong):  # type: ignore[arg-type]
            pass
    with pytest.raises(nh.NighthawkError):
        async with nh.run(executor, human=wrong):  # type: ignore[arg-type]
            pass
    with pytest.raises(nh.NighthawkError):
        async with nh.run(executor, permissions=wrong):  # type: ignore[arg-type]
            pass
    with pytest.raises(nh.NighthawkError):
        async with nh.run(executor, budget=wrong):  # type: ignore[arg-type]
            pass
    with pytest.raises(nh.NighthawkError):
        async with nh.run(executor, step_budget=wrong):  # type: ignore[arg-type]
            pass
    with pytest.raises(nh.NighthawkError):
        async with nh.run(executor, resilience=wrong):  # type: ignore[arg-type]
            pass
    async with nh.run(executor):
        with pytest.raises(nh.NighthawkError), nh.scope(hooks=wrong):  # type: ignore[arg-type]
            pass
        with pytest.raises(nh.NighthawkError), nh.scope(oversight=wrong):  # type: ignore[arg-type]
            pass


watching = nh.Hooks()
seen: list[str] = []


@watching.on(hooks.StepStarted)
def note_start(event: hooks.StepStarted) -> None:
    seen.append(type(event).__name__)


@watching.on(hooks.StepFinished, hooks.BeforeCommit)
async def note_end(event: hooks.StepFinished | hooks.BeforeCommit) -> hooks.Veto | None:
    seen.append(type(event).__name__)
    return None


@watching.on(hooks.RunStarted, hooks.RunFinished, hooks.ScopeStarted, hooks.ScopeFinished)
def note_extent(
    event: hooks.RunStarted | hooks.RunFinished | hooks.ScopeStarted | hooks.ScopeFinished,
) -> None:
    seen.append(type(event).__name__)


async def test_hooks_stay_the_functions_that_they_are() -> None:
    start: Callable[[hooks.StepStarted], None] = note_start
    extent: Callable[[hooks.RunStarted], None] = note_extent
    end: Callable[[hooks.StepFinished], Awaitable[hooks.Veto | None]] = note_end
    assert_type(watching.on(hooks.StepStarted, start), Callable[[hooks.StepStarted], None])
    async with nh.run(CallbackExecutor(answer_good), hooks=watching):
        assert await judge("a") == "good"
    assert seen[:2] == ["RunStarted", "StepStarted"]
    assert callable(extent)
    assert callable(end)


async def test_the_testing_kit() -> None:
    model = ScriptedModel(
        [
            model_response(tool_call("nh_eval", expression="missing")),
            model_response(tool_call("nh_outcome", kind="return", return_expression="'good'")),
        ]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await judge("a") == "good"
    told = model.requests[1].messages[-1]
    assert_type(told.content, tuple[nh.models.UserContent, ...])
    assert isinstance(told, nh.models.ToolResultsMessage)
    assert assert_type(told.results[0].is_error, bool)
    assert told.content == told.results[0].content


def reply(request: RecordedRequest) -> ModelReply:
    return ModelReply(tool_calls=(tool_call("nh_outcome", kind="return", return_expression="'good'"),))


async def test_the_model_server() -> None:
    async with ModelServer(reply) as server:
        assert_type(server.base_url, str)
        configuration = nh.StepExecutorConfiguration(
            model="openai-chat:m", model_settings={"base_url": server.base_url, "api_key": "k"}
        )
        executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
        async with nh.run(executor):
            assert await judge("a") == "good"
