"""The attempts at steps with several models: as a simple model of them says, whatever fails."""

from collections.abc import Callable, Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.resilience import Baseline, retrying
from nighthawk_async.testing import StepCall, StepResponse, pass_response
from tests.specification.attempts import work
from tests.unit.resilience.ensemble_support import ModelsExecutor

pytestmark = pytest.mark.anyio

MODELS = ("test:own", "test:second", "test:third")
ERRORS: dict[str, Callable[[], Exception]] = {
    "bad": lambda: nh.ExecutionError("no outcome"),
    "busy": lambda: nh.errors.ModelConnectionError("no connection", is_transient=True),
    "gone": lambda: nh.errors.ModelStatusError("no such model", status=404),
    "final": lambda: nh.errors.StepAbortedError("no"),
    "bug": lambda: ValueError("a bug"),
}
ENDINGS = st.lists(
    st.sampled_from(["bad", "busy", "gone", "bad", "busy", "good", "final", "bug"]), max_size=9
)


def attempts_of(endings: Sequence[str], retries: int, models: Sequence[str]) -> tuple[list[str], str]:
    """The models of the attempts at a step, and how the last one ends. What is not told is good."""
    following = iter(endings)
    asked: list[str] = []
    for model in models:
        for left in range(retries, -1, -1):
            ending = next(following, "good")
            asked.append(model)
            if ending not in ("bad", "busy", "gone") or (model == models[-1] and not left):
                return asked, ending
            if ending == "gone":
                break
    return asked, "gone"


@given(
    steps=st.lists(ENDINGS, min_size=1, max_size=4),
    retries=st.integers(0, 2),
    spare=st.integers(0, 2),
    places=st.none() | st.integers(1, 2),
)
async def test_every_step_has_the_attempts_that_its_failures_call_for(
    steps: list[list[str]], retries: int, spare: int, places: int | None
) -> None:
    asked: list[list[str]] = [[] for _ in steps]
    models = MODELS[: spare + 1]

    async def answer(model: str, call: StepCall) -> StepResponse:
        number = call.step_locals["tool"]
        assert isinstance(number, int)
        endings = dict(enumerate(steps[number]))
        ending = endings.get(len(asked[number]), "good")
        asked[number].append(model)
        await checkpoint()
        if ending != "good":
            raise ERRORS[ending]()
        return pass_response(result=number)

    async def ending_of(number: int) -> str:
        try:
            assert await work(number) == number
        except Exception as error:
            return next(name for name, make in ERRORS.items() if type(make()) is type(error))
        return "good"

    baseline = Baseline(retries=retrying(attempts=retries + 1, wait=0), fallback_models=models[1:])
    async with nh.run(ModelsExecutor(answer), resilience=baseline, max_concurrent_steps=places) as run:
        with anyio.fail_after(240):
            endings = await nh.parallel.map(ending_of, list(range(len(steps))))
    expected = [attempts_of(each, retries, models) for each in steps]
    assert list(zip(asked, endings, strict=True)) == expected
    assert run.usage_meter.steps == sum(len(attempts) for attempts, _ in expected)
