"""`ensemble` around async functions: which models are asked, and what becomes of their answers."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.errors import StepAbortedError
from nighthawk_async.hooks import ScopeStarted
from nighthawk_async.resilience import (
    Answer,
    EnsembleError,
    InvalidPolicyError,
    ResilienceError,
    ensemble,
    retrying,
    timeout,
    vote,
)
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel, StepCall, StepResponse, pass_response
from tests.unit.resilience.ensemble_support import AnswerForModel, ModelsExecutor
from tests.unit.resilience.resilience_support import recorded_events

anyio_test = pytest.mark.anyio

MODELS = {"test:a": 2, "test:b": 1}


@nh.natural_function
async def stars(review: str) -> str:
    count: str
    """natural
    Set <:count> to the number of stars that <review> gives.
    """
    return count


async def name_of_model(review: str = "Good") -> str:
    await checkpoint()
    executor = nh.get_step_executor()
    assert isinstance(executor, ModelsExecutor)
    return executor.configuration.model


def by_model(**counts: str) -> AnswerForModel:
    """Each model gives its own answer."""
    return lambda model, call: pass_response(count=counts[model.removeprefix("test:")])


def after(**seconds: float) -> AnswerForModel:
    """Each model gives its name after so many seconds."""

    async def answer(model: str, call: StepCall) -> StepResponse:
        await anyio.sleep(seconds[model.removeprefix("test:")])
        return pass_response(count=model)

    return answer


def seen_by(answers: list[Answer[Any]]) -> list[Answer[Any]]:
    return answers


# Answers.


@anyio_test
async def test_each_model_is_asked_as_often_as_told_and_all_answers_are_seen_in_the_order_of_the_models() -> (
    None
):
    executor = ModelsExecutor(by_model(a="4", b="5"))
    async with nh.run(executor):
        answers = await ensemble(stars, MODELS, reconcile=seen_by)("Good")
    assert answers == [
        Answer(model="test:a", value="4"),
        Answer(model="test:a", value="4"),
        Answer(model="test:b", value="5"),
    ]
    assert executor.made == ["test:a", "test:b"]


@anyio_test
async def test_what_most_return_wins_when_nothing_reconciles() -> None:
    async with nh.run(ModelsExecutor(by_model(a="4", b="5", c="5", d="4"))):
        assert await ensemble(stars, MODELS)("Good") == "4"
        assert await ensemble(stars, {"test:a": 1, "test:b": 1, "test:c": 1})("Good") == "5"


@anyio_test
async def test_it_decorates() -> None:
    @ensemble(models=MODELS, reconcile=lambda answers: sorted(answer.value for answer in answers))
    async def ask(review: str) -> Any:
        return await name_of_model()

    async with nh.run(ModelsExecutor(by_model())):
        assert await ask("Good") == ["test:a", "test:a", "test:b"]


@anyio_test
async def test_the_caller_keeps_its_own_model_and_reconciles_with_it() -> None:
    async def reconcile(answers: list[Answer[str]]) -> str:
        return f"{len(answers)} answers for {await name_of_model()}"

    executor = ModelsExecutor(by_model())
    async with nh.run(executor):
        assert await ensemble(name_of_model, MODELS, reconcile=reconcile)() == "3 answers for test:own"
        assert nh.get_step_executor() is executor


@anyio_test
async def test_what_was_asked_stands_beside_the_answers() -> None:
    async def judge(answers: list[Answer[Any]], question: Mapping[str, Any]) -> str:
        return f"{[each.value for each in answers]} about {dict(question)}"

    def renamed(answers: list[Answer[Any]], asked: Mapping[str, Any]) -> object:
        return asked["review"]

    def with_default(answers: list[Answer[Any]], verbose: bool = False) -> bool:
        return verbose

    def named(answers: list[Answer[Any]], question: Mapping[str, Any] | None = None) -> object:
        return question

    models = {"test:a": 1, "test:b": 1}
    async with nh.run(ModelsExecutor(by_model(a="4", b="5"))):
        assert await ensemble(stars, models, reconcile=judge)("Good") == (
            "['4', '5'] about {'review': 'Good'}"
        )
        assert await ensemble(stars, models, reconcile=renamed)(review="Fine") == "Fine"
        assert await ensemble(stars, models, reconcile=with_default)("Good") is False
        assert await ensemble(stars, models, reconcile=named)("Good") == {"review": "Good"}
        assert await ensemble(stars, models, reconcile=len)("Good") == 2


@anyio_test
async def test_a_natural_function_may_reconcile() -> None:
    @nh.natural_function
    async def settle(answers: list[Answer[str]]) -> str:
        best: str
        """natural
        Set <:best> to what the <answers> come to.
        """
        return best

    def answer(model: str, call: StepCall) -> StepResponse:
        if "best" not in call.binding_names:
            return pass_response(count=f"{model} says so")
        answers: Any = call.step_locals["answers"]
        return pass_response(best=" and ".join(f"{each.model}: {each.value}" for each in answers))

    async with nh.run(ModelsExecutor(answer)):
        result = await ensemble(stars, {"test:a": 1, "test:b": 1}, reconcile=settle)("Good")
    assert result == "test:a: test:a says so and test:b: test:b says so"


@anyio_test
@pytest.mark.virtual_time
async def test_runs_go_at_once_and_the_rest_is_cancelled_when_a_plurality_is_certain() -> None:
    models = {"test:a": 2, "test:b": 1}
    begin = anyio.current_time()
    async with nh.run(ModelsExecutor(after(a=1, b=9))):
        assert await ensemble(stars, models, allow_fail=1)("Good") == "test:a"
        assert anyio.current_time() - begin == pytest.approx(1)
        assert len(await ensemble(stars, models, allow_fail=1, reconcile=seen_by)("Good")) == 3
        assert anyio.current_time() - begin == pytest.approx(10)


@anyio_test
async def test_each_run_has_a_scope_of_its_own_in_the_scopes_around_it() -> None:
    identities: list[nh.ExecutionRef] = []

    async def call() -> None:
        identities.append(nh.get_execution_ref())
        await checkpoint()

    async with nh.run(ModelsExecutor(by_model())) as run, nh.scope(implicit_references={"days": 7}):
        await ensemble(call, MODELS)()
    assert len({each.scope_id for each in identities}) == 3
    assert {each.run_id for each in identities} == {run.execution_ref.run_id}


@anyio_test
async def test_hooks_of_scopes_may_be_async() -> None:
    hooks = nh.Hooks()
    begun: list[str] = []

    @hooks.on(ScopeStarted)
    async def note(event: ScopeStarted) -> None:
        await checkpoint()
        begun.append("scope")

    async with nh.run(ModelsExecutor(by_model()), hooks=hooks):
        await ensemble(name_of_model, MODELS)()
        await anyio.to_thread.run_sync(ensemble(lambda: 1, MODELS))
    assert len(begun) == 6


# Failures.


def failing(*models: str) -> AnswerForModel:
    def answer(model: str, call: StepCall) -> StepResponse:
        if model in models:
            raise nh.ExecutionError(f"{model} is down")
        return pass_response(count=model)

    return answer


@anyio_test
async def test_so_many_runs_may_fail_as_allowed() -> None:
    async with nh.run(ModelsExecutor(failing("test:b"))):
        answers = await ensemble(stars, MODELS, allow_fail=1, reconcile=seen_by)("Good")
        assert [answer.model for answer in answers] == ["test:a", "test:a"]
        with pytest.raises(EnsembleError, match=r"1 of 3 calls of stars failed, and 0 may") as caught:
            await ensemble(stars, MODELS)("Good")
    assert isinstance(caught.value, ResilienceError)
    assert caught.value.models == ("test:b",)
    assert [str(error) for error in caught.value.errors] == ["test:b is down"]
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    assert "on test:b: ExecutionError: test:b is down" in str(caught.value)


@anyio_test
@pytest.mark.virtual_time
async def test_the_rest_is_cancelled_when_too_many_have_failed() -> None:
    async def answer(model: str, call: StepCall) -> StepResponse:
        await anyio.sleep(1 if model == "test:b" else 9)
        raise nh.ExecutionError("down")

    begin = anyio.current_time()
    async with nh.run(ModelsExecutor(answer)):
        with pytest.raises(EnsembleError):
            await ensemble(stars, MODELS)("Good")
    assert anyio.current_time() - begin == pytest.approx(1)


@anyio_test
async def test_what_somebody_decided_ends_the_ensemble_and_arrives_as_it_is() -> None:
    async def call() -> None:
        await checkpoint()
        raise StepAbortedError("a person said so")

    async with nh.run(ModelsExecutor(by_model())):
        with pytest.raises(StepAbortedError, match="a person said so"):
            await ensemble(call, MODELS, allow_fail=2)()


@anyio_test
async def test_a_missing_key_fails_before_any_model_is_asked() -> None:
    executor = ModelsExecutor(by_model(a="4"), without_key=["test:b"])
    calls: list[str] = []

    async def call() -> None:
        calls.append("called")

    async with nh.run(executor):
        with pytest.raises(nh.errors.MissingCredentialError, match="test:b needs a key"):
            await ensemble(call, MODELS, allow_fail=2)()
    assert calls == []


@anyio_test
async def test_it_needs_a_run() -> None:
    with pytest.raises(nh.NighthawkError, match="No run is active"):
        await ensemble(name_of_model, MODELS)()


@anyio_test
@pytest.mark.parametrize(
    ("executor", "message"),
    [
        (ScriptedExecutor(), "ScriptedExecutor takes no StepExecutorConfiguration"),
        (nh.AgentStepExecutor.from_model(model=ScriptedModel([])), "was made of a model or an agent object"),
    ],
    ids=["of scripts", "of a model object"],
)
async def test_an_executor_that_can_have_no_other_model_is_refused(executor: Any, message: str) -> None:
    async with nh.run(executor):
        with pytest.raises(nh.ConfigurationError, match=message):
            await ensemble(name_of_model, MODELS)()


@anyio_test
@pytest.mark.virtual_time
async def test_whoever_is_cancelled_cancels_all_runs() -> None:
    cancelled: list[str] = []

    async def answer(model: str, call: StepCall) -> StepResponse:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(model)
        return pass_response()

    async with nh.run(ModelsExecutor(answer)):
        with anyio.move_on_after(5) as scope:
            await ensemble(stars, MODELS)("Good")
    assert scope.cancelled_caught
    assert sorted(cancelled) == ["test:a", "test:a", "test:b"]


# Put together with others.


@anyio_test
async def test_attempts_inside_are_for_each_run_and_outside_for_all_of_them() -> None:
    calls: list[str] = []

    async def fail_first(review: str) -> str:
        model = await name_of_model()
        calls.append(model)
        if calls.count(model) == 1:
            raise nh.ExecutionError("first")
        return model

    models = {"test:a": 1, "test:b": 1}
    async with nh.run(ModelsExecutor(by_model())):
        assert await ensemble(retrying(fail_first, wait=0), models)("Good") in models
        assert sorted(calls) == ["test:a", "test:a", "test:b", "test:b"]
        calls.clear()
        all_answers = ensemble(fail_first, models, allow_fail=1, reconcile=seen_by)
        assert len(await retrying(all_answers, on=EnsembleError, wait=0)("Good")) == 2
        assert sorted(calls) == ["test:a", "test:a", "test:b", "test:b"]


@anyio_test
@pytest.mark.virtual_time
async def test_a_timeout_inside_makes_a_slow_model_fail() -> None:
    async with nh.run(ModelsExecutor(after(a=1, b=9))):
        assert await ensemble(timeout(stars, 5), MODELS, allow_fail=1)("Good") == "test:a"
        with pytest.raises(nh.parallel.DeadlineExceededError):
            await timeout(ensemble(stars, MODELS), 5)("Good")


@anyio_test
async def test_a_vote_of_each_model_is_nested() -> None:
    async with nh.run(ModelsExecutor(by_model(a="4", b="5"))):
        reconcile: Callable[[list[Answer[Any]]], Any] = lambda answers: [each.value for each in answers]  # noqa: E731
        assert await ensemble(vote(stars), {"test:a": 1, "test:b": 1}, reconcile=reconcile)("Good") == [
            "4",
            "5",
        ]


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "models says how many calls"),
        ({"models": {}}, "models says how many calls"),
        ({"models": ["test:a"]}, "models says how many calls"),
        ({"models": {5: 1}}, "models has model ids"),
        ({"models": {"test:a": 0}}, r"models\['test:a'\] is a whole number, at least 1"),
        ({"models": MODELS, "allow_fail": 3}, "allow_fail is a whole number from 0 to 2"),
        ({"models": MODELS, "allow_fail": -1}, "allow_fail is a whole number from 0 to 2"),
        ({"models": MODELS, "allow_fail": True}, "allow_fail is a whole number from 0 to 2"),
        ({"models": MODELS, "reconcile": "all"}, "reconcile is a function"),
    ],
    ids=str,
)
def test_arguments_that_make_no_sense_are_refused_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPolicyError, match=message):
        ensemble(**arguments)


def test_a_malformed_model_id_is_refused_at_once() -> None:
    with pytest.raises(nh.errors.UnknownModelError, match="not of the form"):
        ensemble(models={"gpt": 1})


def test_an_async_function_cannot_reconcile_for_a_synchronous_one() -> None:
    async def reconcile(answers: list[Answer[int]]) -> int:
        return len(answers)

    with pytest.raises(TypeError, match="reconcile is async, but len is not"):
        ensemble(len, MODELS, reconcile=reconcile)


# In a trace.


@anyio_test
async def test_the_current_span_shows_how_many_answered() -> None:
    async with nh.run(ModelsExecutor(failing("test:b"))):
        with recorded_events() as events:
            await ensemble(stars, MODELS, allow_fail=1, reconcile=seen_by)("Good")
            with pytest.raises(EnsembleError):
                await ensemble(stars, {"test:b": 1})("Good")
    names = [f"nighthawk.ensemble.{each}" for each in ("count", "succeeded", "failed")]
    assert [(name, [attributes[each] for each in names]) for name, attributes in events] == [
        ("nighthawk.ensemble.answered", [3, 2, 1]),
        ("nighthawk.ensemble.failed", [1, 0, 1]),
    ]
