"""The baseline of steps: which models they fall back to, and what a baseline may say."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.resilience import (
    Answer,
    Baseline,
    EnsembleError,
    InvalidPolicyError,
    ensemble,
    fallback,
    retrying,
    timeout,
    vote,
)
from nighthawk_async.testing import (
    CallbackExecutor,
    ModelReply,
    ModelServer,
    ScriptedModel,
    StepCall,
    StepResponse,
    pass_response,
    tool_call,
)
from tests.unit.resilience.ensemble_support import ModelsExecutor
from tests.unit.resilience.resilience_support import recorded_events

anyio_test = pytest.mark.anyio

OWN, SECOND, THIRD = "test:own", "test:second", "test:third"
SPARE = Baseline(fallback_models=[SECOND, THIRD])
TWICE = retrying(attempts=2, wait=0)


@nh.natural_function
async def name_model(tool: object = None) -> str:
    name: str
    """natural
    Call <tool> and set <:name> to who you are.
    """
    return name


class Models:
    """Models of which some fail.

    Args:
        failing: The error of each model that fails.
    """

    def __init__(self, failing: dict[str, Exception], **options: Any) -> None:
        self.failing = failing
        self.asked: list[str] = []
        self.executor = ModelsExecutor(self._answer, **options)

    async def _answer(self, model: str, call: StepCall) -> StepResponse:
        await checkpoint()
        self.asked.append(model)
        if model in self.failing:
            raise self.failing[model]
        tool: Any = call.step_locals["tool"]
        if callable(tool):
            await tool()
        return pass_response(name=model)


def down(*models: str) -> dict[str, Exception]:
    return {model: nh.errors.ModelConnectionError(f"{model} is down", is_transient=True) for model in models}


# ---- falling back


@anyio_test
async def test_each_model_has_attempts_of_its_own_before_the_next_one_is_asked() -> None:
    models = Models(down(OWN, SECOND))
    async with nh.run(models.executor, resilience=replace(SPARE, retries=TWICE)):
        assert await name_model() == THIRD
    assert models.asked == [OWN, OWN, SECOND, SECOND, THIRD]


@anyio_test
@pytest.mark.parametrize(
    ("error", "is_other_model_asked"),
    [
        (nh.ExecutionError("no outcome"), True),
        (nh.errors.ModelStatusError("no such model", status=404), True),
        (nh.errors.StepAbortedError("no"), False),
        (nh.ConfigurationError("wrong"), False),
        (ValueError("a bug"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_what_will_not_pass_goes_to_the_next_model_at_once_and_decisions_and_bugs_to_none(
    error: Exception, is_other_model_asked: bool
) -> None:
    models = Models({OWN: error})
    baseline = replace(SPARE, retries=retrying(attempts=3, wait=0, on=ConnectionError))
    async with nh.run(models.executor, resilience=baseline):
        if is_other_model_asked:
            assert await name_model() == SECOND
        else:
            with pytest.raises(type(error)):
                await name_model()
    assert models.asked == ([OWN, SECOND] if is_other_model_asked else [OWN])


@anyio_test
@pytest.mark.virtual_time
async def test_a_model_that_takes_too_long_leads_to_the_next() -> None:
    async def answer(model: str, call: StepCall) -> StepResponse:
        await anyio.sleep(1_000 if model == OWN else 10)
        return pass_response(name=model)

    began_at = anyio.current_time()
    async with nh.run(ModelsExecutor(answer), resilience=replace(SPARE, timeout=60)):
        assert await name_model() == SECOND
    assert anyio.current_time() - began_at == pytest.approx(70)


@anyio_test
async def test_the_last_error_tells_of_all_models() -> None:
    models = Models(down(OWN, SECOND, THIRD))
    async with nh.run(models.executor, resilience=SPARE):
        with pytest.raises(nh.errors.ModelConnectionError, match="third is down") as caught:
            await name_model()
    lines = caught.value.__notes__[0].splitlines()
    assert lines[0].startswith("3 attempts at step ")
    assert [line.strip() for line in lines[1:]] == [
        f"{OWN}: ModelConnectionError: {OWN} is down",
        f"{SECOND}: ModelConnectionError: {SECOND} is down",
    ]


@anyio_test
async def test_hooks_and_the_trace_are_told_of_the_other_model() -> None:
    hooks, told = nh.Hooks(), list[nh.hooks.Retry]()
    hooks.on(nh.hooks.Retry)(told.append)
    models = Models(down(OWN))
    async with nh.run(models.executor, hooks=hooks, resilience=SPARE):
        with recorded_events() as events:
            await name_model()
    (retry,) = told
    assert (retry.attempt, retry.wait_seconds) == (1, 0)
    assert events[0] == (
        "nighthawk.fallback.taken",
        {
            "nighthawk.retry.name": retry.name,
            "nighthawk.fallback.from": OWN,
            "nighthawk.fallback.to": SECOND,
            "error.type": "ModelConnectionError",
        },
    )
    assert events[1][0] == "nighthawk.retry.scheduled"


@anyio_test
async def test_steps_inside_an_attempt_with_another_model_begin_with_that_one() -> None:
    models = Models(down(OWN))

    async def delegate() -> None:
        models.failing |= down(SECOND)
        assert await name_model() == THIRD
        del models.failing[SECOND]

    async with nh.run(models.executor, resilience=SPARE):
        assert await name_model(delegate) == SECOND
        assert await name_model() == SECOND
    assert models.asked == [OWN, SECOND, SECOND, THIRD, OWN, SECOND]


# ---- the executors


@anyio_test
async def test_a_missing_key_fails_when_the_extent_is_made() -> None:
    models = Models({}, without_key=[THIRD])
    with pytest.raises(nh.errors.MissingCredentialError, match=THIRD):
        nh.run(models.executor, resilience=SPARE)
    async with nh.run(models.executor):
        with pytest.raises(nh.errors.MissingCredentialError, match=THIRD):
            nh.scope(resilience=SPARE)
        assert await name_model() == OWN
    assert models.asked == [OWN]


@anyio_test
async def test_the_model_that_is_asked_anyway_is_no_spare_one() -> None:
    models = Models(down(OWN, SECOND))
    async with nh.run(models.executor, resilience=Baseline(fallback_models=[OWN, SECOND])):
        with pytest.raises(nh.errors.ModelConnectionError):
            await name_model()
    assert models.asked == [OWN, SECOND]


@anyio_test
async def test_a_scope_with_another_configuration_has_the_spare_models_with_that_one() -> None:
    limits: list[tuple[str, int]] = []

    def answer(model: str, call: StepCall) -> StepResponse:
        executor = nh.get_step_executor()
        assert isinstance(executor, ModelsExecutor)
        limits.append((model, executor.configuration.max_turns))
        raise nh.ExecutionError("failed")

    strict = nh.StepExecutorConfiguration(model=OWN, max_turns=1)
    run = nh.run(ModelsExecutor(answer), resilience=Baseline(fallback_models=[SECOND]))
    async with run, nh.scope(step_executor_configuration=strict):
        with pytest.raises(nh.ExecutionError):
            await name_model()
    assert limits == [(OWN, 1), (SECOND, 1)]


@anyio_test
async def test_an_executor_inside_that_keeps_its_model_has_no_other() -> None:
    models = Models({})
    inner = CallbackExecutor(lambda call: pass_response(name=3))
    async with nh.run(models.executor, resilience=replace(SPARE, retries=TWICE)):
        async with nh.scope(step_executor=inner):
            with pytest.raises(nh.ExecutionError):
                await name_model()
        assert await name_model() == OWN
    assert len(inner.calls) == 2
    assert models.asked == [OWN]


@pytest.mark.parametrize(
    "executor",
    [
        CallbackExecutor(lambda call: pass_response()),
        nh.AgentStepExecutor.from_model(model=ScriptedModel([])),
    ],
    ids=lambda executor: type(executor).__name__,
)
def test_an_executor_that_keeps_its_model_is_refused(executor: nh.executors.StepExecutor) -> None:
    with pytest.raises(nh.ConfigurationError, match="from_configuration"):
        nh.run(executor, resilience=SPARE)
    nh.run(executor, resilience=Baseline(retries=2))


@anyio_test
async def test_an_inner_scope_may_name_other_models_or_none() -> None:
    models = Models(down(OWN, SECOND))
    async with nh.run(models.executor, resilience=SPARE):
        async with nh.scope(resilience=Baseline(fallback_models=[THIRD])):
            assert await name_model() == THIRD
        async with nh.scope(resilience=Baseline(fallback_models=())):
            with pytest.raises(nh.errors.ModelConnectionError):
                await name_model()
    assert models.asked == [OWN, THIRD, OWN]


# ---- real executors


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that is two providers, of which the first one is down."""

    def reply(request: Any) -> ModelReply:
        if request.body["model"] == "first":
            return ModelReply(status=500, text="down")
        return ModelReply(
            tool_calls=(
                tool_call("nh_assign", target_path="name", value="it"),
                tool_call("nh_outcome", kind="pass"),
            )
        )

    with ModelServer.in_thread(reply) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        yield server


@anyio_test
async def test_usage_is_counted_by_model_and_a_key_stays_with_its_provider(server: ModelServer) -> None:
    configuration = nh.StepExecutorConfiguration(
        model="openai-chat:first",
        model_settings={"base_url": server.base_url, "api_key": "secret-key", "max_retries": 0},
    )
    executor = nh.AgentStepExecutor.from_configuration(configuration=configuration)
    baseline = Baseline(retries=TWICE, fallback_models=["anthropic:second"])
    async with nh.run(executor, resilience=baseline) as run:
        assert await name_model() == "it"
    assert [request.body["model"] for request in server.requests] == ["first", "first", "second"]
    assert ["secret-key" in repr(dict(request.headers)) for request in server.requests] == [True, True, False]
    assert run.usage_meter.usage_by_model["anthropic:second"].requests == 1
    assert run.usage_meter.usage.requests == len(server.requests)


# ---- with transformers of functions


@anyio_test
@pytest.mark.parametrize(
    ("transform", "failing", "asked"),
    [
        (retrying(attempts=2, wait=0), (OWN, SECOND, THIRD), [OWN, SECOND, THIRD] * 2),
        (fallback(default="nobody"), (OWN, SECOND, THIRD), [OWN, SECOND, THIRD]),
        (fallback(default="nobody"), (OWN,), [OWN, SECOND]),
        (timeout(60), (OWN,), [OWN, SECOND]),
        (vote(count=2, decide=lambda votes: votes[0]), (OWN,), [OWN, OWN, SECOND, SECOND]),
    ],
    ids=["retrying", "fallback", "fallback, not needed", "timeout", "vote"],
)
async def test_transformers_are_around_all_attempts_of_a_step(
    transform: Any, failing: tuple[str, ...], asked: list[str]
) -> None:
    models = Models(down(*failing))
    async with nh.run(models.executor, resilience=SPARE):
        try:
            answer = await transform(name_model)()
        except nh.errors.ModelConnectionError:
            answer = "error"
    assert answer == (SECOND if failing == (OWN,) else "nobody" if len(asked) == 3 else "error")
    assert sorted(models.asked) == sorted(asked)


@anyio_test
async def test_the_models_of_an_ensemble_fall_back_too_unless_they_are_told_not_to() -> None:
    models = Models(down(OWN))

    def every(answers: list[Answer[Any]]) -> list[tuple[str, Any]]:
        return [(answer.model, answer.value) for answer in answers]

    ask: Any = ensemble(name_model, {OWN: 1, THIRD: 1}, reconcile=every)
    async with nh.run(models.executor, resilience=SPARE):
        assert await ask() == [(OWN, SECOND), (THIRD, THIRD)]
        async with nh.scope(resilience=None):
            with pytest.raises(EnsembleError):
                await ask()


# ---- what a baseline may say


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": "10"},
        {"retries": -1},
        {"retries": 1.5},
        {"retries": True},
        {"retries": fallback},
        {"fallback_models": "test:one"},
        {"fallback_models": [1]},
        {"fallback_models": {"test:one"}},
        {"fallback_models": ["test:one", "test:one"]},
    ],
)
def test_a_baseline_that_makes_no_sense_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicyError, match=next(iter(arguments))):
        Baseline(**arguments)


def test_a_model_id_has_a_provider() -> None:
    with pytest.raises(nh.errors.UnknownModelError):
        Baseline(fallback_models=["gpt"])


def test_a_baseline_is_a_value() -> None:
    baseline = Baseline(timeout=60, retries=2, fallback_models=[SECOND])
    assert baseline == Baseline(timeout=60, retries=2, fallback_models=(SECOND,))
    assert hash(baseline) == hash(replace(baseline, timeout=60))
    assert repr(baseline) == "Baseline(timeout=60, retries=2, fallback_models=('test:second',))"


@pytest.mark.parametrize("resilience", [3, retrying(attempts=2), {"timeout": 3}])
def test_what_is_no_baseline_is_refused(resilience: Any) -> None:
    executor = CallbackExecutor(lambda call: pass_response())
    with pytest.raises(nh.NighthawkError, match="resilience must be"):
        nh.run(executor, resilience=resilience)
    with nh.run(executor), pytest.raises(nh.NighthawkError, match="resilience must be"):
        nh.scope(resilience=resilience)
