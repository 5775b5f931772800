"""`evaluate`: what trials end as, what they share, and what is reported."""

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint
from trio.testing import MockClock

import nighthawk_async as nh
from nighthawk_async.errors import (
    BudgetExceededError,
    MissingCredentialError,
    ModelConnectionError,
    ModelStatusError,
)
from nighthawk_async.evals import (
    Case,
    CaseError,
    EvaluationError,
    NoExecutorError,
    Report,
    Score,
    Trial,
    TrialResult,
    UndecidedError,
    current_seed,
    equals,
    evaluate,
    holds,
)
from nighthawk_async.testing import ScriptedModel, model_response, pass_response, tool_call
from tests.unit.evals.evals_support import cases, executor, model, stars

pytestmark = pytest.mark.anyio


async def double(number: int) -> int:
    await checkpoint()
    return 2 * number


def numbers(count: int) -> list[Case]:
    return [Case(f"{each}", inputs={"number": each}, expected=2 * each) for each in range(count)]


# Results.


async def test_a_natural_function_is_evaluated() -> None:
    report = await evaluate(
        stars, cases("Four", "One"), scorers=[equals()], trials=5, model=executor({"One": 2}), seed=1
    )
    assert report.pass_at(1) == report.pass_at(3) == report.pass_all(3) == 0.5
    assert report.counts == {
        "passed": 5,
        "failed": 5,
        "error": 0,
        "transport": 0,
        "unscored": 0,
        "not_run": 0,
    }
    assert report.case("Four").pass_rate == 1
    assert report.case("One").trials[0].scores["equals"].reason == "2 is not 1"
    assert (report.case("Four").inputs, report.case("Four").expected) == ("review=Four stars.", "4")


async def test_the_usage_of_the_subject_and_of_the_scorers_is_counted_apart() -> None:
    async def agrees(trial: Trial) -> bool:
        return await stars("Four stars.") == trial.output

    report = await evaluate(stars, cases("Four"), scorers=[agrees], trials=3, model=model(cost="0.01"))
    assert (report.subject_usage.requests, report.scoring_usage.requests) == (3, 3)
    assert report.usage == report.subject_usage + report.scoring_usage
    assert float(report.usage.cost) == pytest.approx(0.06)
    assert [trial.usage.input_tokens for trial in report.trials] == [100, 100, 100]


async def test_a_plain_async_function_needs_no_executor() -> None:
    report = await evaluate(double, numbers(3))
    assert report.pass_rate == 1
    assert report.scorers == ("equals",)


async def test_a_synchronous_function_runs_in_a_worker_thread() -> None:
    def double_here(number: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return 2 * number

    assert (await evaluate(double_here, numbers(2))).pass_rate == 1


async def test_a_synchronous_natural_function_is_a_subject_and_a_scorer() -> None:
    @nh.natural_function
    def stars_here(review: str) -> int:
        """natural
        Return how many stars <review> gives.
        """
        return 0

    def agrees(trial: Trial) -> bool:
        return stars_here(trial.inputs["review"]) == trial.output

    report = await evaluate(stars_here, cases("Two"), scorers=[agrees, equals()], model=executor())
    assert report.pass_rate == 1


async def test_the_run_that_is_active_has_the_executor() -> None:
    async with nh.run(executor()) as run:
        report = await evaluate(stars, cases("Two"), trials=2)
        assert run.usage_meter.steps == 2
    assert report.pass_rate == 1


async def test_a_block_without_an_executor_ends_the_evaluation_with_an_error_that_says_so() -> None:
    with pytest.raises(NoExecutorError, match=r"evaluate\(…, model=…\)"):
        await evaluate(stars, cases("Two", "Three"), trials=2)


async def test_results_come_in_the_order_of_the_cases_whatever_ends_first() -> None:
    async def slow_first(number: int) -> int:
        for _ in range(10 - number):
            await checkpoint()
        return 2 * number

    reports = [await evaluate(slow_first, numbers(8), trials=2, max_concurrent=each) for each in (1, 3, None)]
    assert reports[0] == reports[1] == reports[2]
    assert [case.name for case in reports[0].cases] == [str(each) for each in range(8)]
    assert [trial.number for trial in reports[0].trials] == [1, 2] * 8


async def test_all_cases_have_their_first_trial_before_any_has_its_second() -> None:
    seen: list[int] = []

    async def note(number: int) -> int:
        seen.append(number)
        return 2 * number

    await evaluate(note, numbers(3), trials=2, max_concurrent=1)
    assert seen == [0, 1, 2, 0, 1, 2]


@pytest.mark.virtual_time
async def test_trials_in_flight_are_limited(virtual_clock: MockClock) -> None:
    in_flight = greatest = 0

    async def count(number: int) -> int:
        nonlocal in_flight, greatest
        in_flight += 1
        greatest = max(greatest, in_flight)
        await anyio.sleep(1)
        in_flight -= 1
        return 2 * number

    await evaluate(count, numbers(10), max_concurrent=3)
    assert greatest == 3


async def test_every_trial_has_a_seed_of_its_own_that_depends_on_nothing_else() -> None:
    async def draw(number: int) -> float:
        await checkpoint()
        return random.Random(current_seed()).random()

    def score(trial: Trial) -> float:
        return trial.output

    first = await evaluate(draw, numbers(3), scorers=[score], trials=3, seed=7, max_concurrent=1)
    second = await evaluate(draw, numbers(3), scorers=[score], trials=3, seed=7)
    other = await evaluate(draw, numbers(3), scorers=[score], trials=3, seed=8)
    assert first == second
    assert len({trial.seed for trial in first.trials + other.trials}) == 18
    assert first.mean_score("score") != other.mean_score("score")
    assert current_seed() is None


async def test_each_trial_has_inputs_of_its_own() -> None:
    async def empty(items: list[int]) -> int:
        total = sum(items)
        items.clear()
        return total

    case = Case("sum", inputs={"items": [1, 2]}, expected=3)
    report = await evaluate(empty, [case], trials=3)
    assert report.pass_rate == 1
    assert case.build_inputs() == {"items": [1, 2]}


async def test_a_property_of_the_shared_state_is_checked_after_the_block() -> None:
    @nh.natural_function
    async def tidy(cart: list[str]) -> None:
        """natural
        Remove what is empty from <cart>.
        """

    tidied = model_response(
        tool_call("nh_exec", statements="cart[:] = [each for each in cart if each]"),
        tool_call("nh_outcome", kind="pass"),
    )
    report = await evaluate(
        tidy,
        [Case("one", inputs={"cart": ["", "tea"]}), Case("none", inputs={"cart": []})],
        scorers=[holds(lambda cart: cart == ["tea"], name="tea is left")],
        trials=2,
        model=ScriptedModel(lambda request: tidied),
    )
    assert [trial.status for trial in report.trials] == ["passed", "passed", "failed", "failed"]


async def test_a_response_cache_keeps_an_answer_for_each_trial() -> None:
    asked, store = model(), nh.resilience.MemoryStore()
    async with nh.run(asked), nh.resilience.cached(store=store):
        first = await evaluate(stars, cases("One", "Two"), trials=3)
        assert len(asked.requests) == 6
        again = await evaluate(stars, cases("One", "Two"), trials=4)
    assert len(asked.requests) == 8
    assert (first.usage.requests, again.usage.requests) == (6, 2)


async def test_an_evaluation_in_a_durable_run_asks_nothing_twice(tmp_path: Path) -> None:
    reports: list[Report] = []
    requests: list[int] = []
    for _ in range(2):
        asked = model()
        with nh.journal.open(f"sqlite:///{tmp_path / 'runs.db'}") as store:
            async with nh.run(asked, journal=store, run_id="evaluation"):
                reports.append(await evaluate(stars, cases("One", "Two"), trials=2))
        requests.append(len(asked.requests))
    assert reports[0].pass_rate == reports[1].pass_rate == 1
    assert requests == [4, 0]


async def test_inputs_that_cannot_be_copied_are_made_by_a_function() -> None:
    async def acquired(lock: Any) -> bool:
        return lock.acquire(blocking=False)

    report = await evaluate(
        acquired, [Case("free", inputs=lambda: {"lock": threading.Lock()}, expected=True)], trials=3
    )
    assert report.pass_rate == 1


async def test_a_trial_passes_when_all_scorers_agree() -> None:
    def is_even(trial: Trial) -> bool:
        return trial.output % 2 == 0

    async def is_small(trial: Trial) -> float:
        return 0.4 if trial.output > 3 else 0.5

    report = await evaluate(double, numbers(3), scorers=[is_even, is_small, equals()])
    assert [trial.status for trial in report.trials] == ["passed", "passed", "failed"]
    assert report.mean_score("is_small") == pytest.approx(1.4 / 3)


async def test_the_pass_mark_decides_about_plain_numbers_only() -> None:
    def number(trial: Trial) -> float:
        return 0.7

    def score(trial: Trial) -> Score:
        return Score(-12.5, passed=True, reason="far")

    report = await evaluate(double, numbers(1), scorers=[number, score], pass_mark=0.8)
    (trial,) = report.trials
    assert trial.scores["number"].passed is False
    assert trial.scores["score"] == Score(-12.5, passed=True, reason="far")
    assert trial.status == "failed"


async def test_a_trial_that_raises_is_an_error_and_a_failure() -> None:
    async def broken(number: int) -> int:
        if number == 1:
            raise ValueError("odd")
        return 2 * number

    report = await evaluate(broken, numbers(2), trials=2)
    assert report.counts["error"] == 2
    assert report.case("1").trials[0].error == "ValueError: odd"
    assert report.pass_rate == 0.5
    assert report.decided == 4


async def test_a_case_may_expect_an_exception() -> None:
    async def parse(text: str) -> int:
        return int(text)

    expected = [
        Case("type", inputs={"text": "x"}, raises=ValueError),
        Case("name", inputs={"text": "x"}, raises="ValueError"),
        Case("base", inputs={"text": "x"}, raises=Exception),
        Case("other", inputs={"text": "x"}, raises=KeyError),
        Case("none", inputs={"text": "1"}, raises=ValueError),
    ]
    report = await evaluate(parse, expected)
    assert [trial.status for trial in report.trials] == ["passed", "passed", "passed", "error", "failed"]
    assert report.case("none").trials[0].scores["raises"].reason == "it returned"
    assert report.case("type").expected == "raises ValueError"


async def test_a_scorer_that_raises_leaves_the_trial_unscored_and_undecided() -> None:
    def broken(trial: Trial) -> bool:
        if trial.case.name == "1":
            raise RuntimeError("no ruler")
        return True

    report = await evaluate(double, numbers(3), scorers=[equals(), broken])
    assert [trial.status for trial in report.trials] == ["passed", "unscored", "passed"]
    unscored = report.case("1").trials[0]
    assert unscored.error == "scorer 'broken': RuntimeError: no ruler"
    assert unscored.scores == {"equals": Score(1.0, passed=True)}
    assert (report.pass_rate, report.decided) == (1, 2)


@pytest.mark.parametrize(
    ("scored", "reason"),
    [
        pytest.param(float("nan"), "finite number, not nan", id="nan"),
        pytest.param(Score(float("inf"), passed=True), "finite number, not inf", id="infinite"),
        pytest.param(3.5, "from 0 to 1, not 3.5", id="out of range"),
        pytest.param(None, "not None", id="none"),
        pytest.param("good", "not 'good'", id="text"),
        pytest.param(Score(1.0, passed="no"), "is a bool or None, not 'no'", id="passed"),  # type: ignore[arg-type]
    ],
)
async def test_a_score_that_is_no_score_leaves_the_trial_unscored(scored: Any, reason: str) -> None:
    def odd(trial: Trial) -> Any:
        return scored

    report = await evaluate(double, numbers(1), scorers=[odd])
    (trial,) = report.trials
    assert trial.status == "unscored"
    assert reason in trial.error
    with pytest.raises(UndecidedError, match="double was decided: scorer 'odd'"):
        report.pass_at(1)


# Errors on the way.


def failing(*errors: Exception) -> Callable[..., Any]:
    left = list(errors)

    async def subject(number: int) -> int:
        if left:
            raise left.pop(0)
        return 2 * number

    return subject


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ModelConnectionError("broken", is_transient=True), id="model"),
        pytest.param(ConnectionResetError("broken"), id="socket"),
        pytest.param(httpx.ReadTimeout("slow"), id="httpx"),
    ],
)
async def test_transport_errors_are_retried(error: Exception, virtual_clock: MockClock) -> None:
    report = await evaluate(failing(error, error), numbers(1))
    (trial,) = report.trials
    assert (trial.status, trial.retries) == ("passed", 2)
    assert virtual_clock.current_time() >= 3


@pytest.mark.virtual_time
async def test_transport_errors_that_last_are_counted_apart(virtual_clock: MockClock) -> None:
    error = ModelConnectionError("broken", is_transient=True)
    report = await evaluate(failing(*[error] * 3), numbers(2), max_concurrent=1)
    assert [trial.status for trial in report.trials] == ["transport", "passed"]
    assert report.trials[0].error == "ModelConnectionError: broken"
    assert report.pass_rate == 1


@pytest.mark.virtual_time
async def test_a_retry_waits_as_long_as_the_endpoint_asks(virtual_clock: MockClock) -> None:
    error = ModelStatusError("busy", status=429, is_transient=True, retry_after_seconds=90)
    await evaluate(failing(error), numbers(1))
    assert virtual_clock.current_time() >= 90


async def test_a_transport_error_of_a_step_counts_by_its_cause() -> None:
    async def step_failed(number: int) -> int:
        try:
            raise ModelConnectionError("broken", is_transient=True)
        except ModelConnectionError as error:
            raise nh.ExecutionError("the step failed") from error

    report = await evaluate(step_failed, numbers(1), transport_retries=0)
    assert report.counts["transport"] == 1


async def test_an_error_of_a_model_that_is_not_transient_is_an_error() -> None:
    error = ModelStatusError("bad request", status=400)
    assert (await evaluate(failing(error), numbers(1))).counts["error"] == 1


@pytest.mark.virtual_time
async def test_a_transport_error_of_a_scorer_is_retried_without_calling_the_subject_again(
    virtual_clock: MockClock,
) -> None:
    calls: list[int] = []
    errors = [ModelConnectionError("broken", is_transient=True)]

    async def subject(number: int) -> int:
        calls.append(number)
        return 2 * number

    async def judge(trial: Trial) -> bool:
        if errors:
            raise errors.pop()
        return True

    report = await evaluate(subject, numbers(1), scorers=[judge])
    assert (report.counts["passed"], calls) == (1, [0])


@pytest.mark.virtual_time
async def test_a_call_that_takes_too_long_is_an_error(virtual_clock: MockClock) -> None:
    async def slow(number: int) -> int:
        await anyio.sleep(number)
        return 2 * number

    report = await evaluate(slow, [*numbers(1), Case("slow", inputs={"number": 60})], timeout=5)
    assert [trial.status for trial in report.trials] == ["passed", "error"]
    assert report.trials[1].error.startswith("DeadlineExceededError")


# Budgets.


async def test_a_budget_that_ends_leaves_the_rest_not_run() -> None:
    report = await evaluate(
        stars,
        cases("One", "Two", "Three"),
        trials=4,
        max_concurrent=1,
        budget=nh.budget(steps=5),
        model=executor(),
    )
    assert report.counts["passed"] == 5
    assert report.counts["not_run"] == 7
    assert report.pass_rate == 1
    assert "the budget is spent" in report.trials[-1].error
    assert report.pass_at(1) == 1
    assert report.pass_at(2) == 1
    with pytest.raises(UndecidedError, match="No case has 3 decided trials"):
        report.pass_at(3)
    with pytest.raises(EvaluationError, match="k = 5 needs at least 5 trials"):
        report.pass_at(5)


async def test_a_budget_that_ends_in_the_middle_of_trials_leaves_them_not_run() -> None:
    report = await evaluate(
        stars,
        cases("One", "Two", "Three", "Four"),
        trials=3,
        max_concurrent=4,
        budget=nh.budget(
            cost=0.05, max_output_tokens=10, prices=lambda model_name, usage: usage.requests * 0.01
        ),
        model=model(),
    )
    counts = report.counts
    assert counts["passed"] + counts["not_run"] == 12
    assert 0 < counts["passed"] <= 5
    assert counts["error"] == counts["failed"] == 0


async def test_a_budget_that_has_nothing_left_reports_nothing_decided() -> None:
    budget = nh.budget(steps=1)
    async with nh.run(executor(), budget=budget):
        await stars("One star")
        report = await evaluate(stars, cases("One"))
    assert report.counts["not_run"] == 1
    with pytest.raises(UndecidedError, match="the budget is spent: budget"):
        report.interval  # noqa: B018
    assert "1 not run" in str(report)


async def test_a_budget_of_the_subject_itself_is_an_error_of_the_trial() -> None:
    @nh.budget(steps=1)
    async def twice(review: str) -> int:
        return await stars(review) + await stars(review)

    report = await evaluate(twice, cases("One", "Two"), budget=nh.budget(steps=100), model=executor())
    assert report.counts["error"] == 2


async def test_a_subject_that_handles_the_refusal_of_the_budget_is_not_run() -> None:
    async def patient(review: str) -> int:
        try:
            return await stars(review)
        except BudgetExceededError:
            return 0

    report = await evaluate(
        patient,
        cases("One", "Two", "Three"),
        max_concurrent=1,
        budget=nh.budget(steps=2),
        model=executor(),
    )
    assert [trial.status for trial in report.trials] == ["passed", "passed", "not_run"]
    assert "2 spent of 2" in report.trials[2].error


async def test_a_subject_may_handle_the_refusal_of_a_budget_of_its_own() -> None:
    async def bounded(review: str) -> int:
        async with nh.scope(budget=nh.budget(steps=1)):
            await stars(review)
            try:
                return await stars(review)
            except BudgetExceededError:
                return 1

    report = await evaluate(bounded, cases("One"), budget=nh.budget(steps=9), model=executor())
    assert report.pass_rate == 1


async def test_the_budget_of_a_scorer_is_that_of_the_evaluation() -> None:
    async def judge(trial: Trial) -> bool:
        return await stars("One stars") == 1

    report = await evaluate(
        stars,
        cases("One", "Two"),
        scorers=[judge],
        max_concurrent=1,
        budget=nh.budget(steps=3),
        model=executor(),
    )
    assert [trial.status for trial in report.trials] == ["passed", "not_run"]


async def test_a_wrong_configuration_says_nothing_about_the_subject() -> None:
    async def without_key(number: int) -> int:
        raise MissingCredentialError("the API key is not set")

    report = await evaluate(without_key, numbers(2))
    assert report.counts["not_run"] == 2
    with pytest.raises(UndecidedError, match="the API key is not set"):
        _ = report.pass_rate


async def test_a_configuration_error_may_be_expected() -> None:
    async def without_key() -> None:
        raise MissingCredentialError("the API key is not set")

    report = await evaluate(without_key, [Case("a", raises="ConfigurationError")])
    assert report.pass_rate == 1


# Bad arguments: nothing is called.


async def never(**inputs: object) -> None:
    raise AssertionError("it was called")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param([], "at least one case", id="none"),
        pytest.param(Case("a"), "cases is a list of cases", id="no list"),
        pytest.param([Case("a"), Case("a")], "Two cases have the name 'a'", id="name twice"),
        pytest.param(["a"], "must be a nighthawk_async.evals.Case, not 'a'", id="no case"),
        pytest.param(
            [Case("a", inputs={"lock": threading.Lock()})],
            "Case 'a': its inputs cannot be copied",
            id="no copy",
        ),
        pytest.param(
            [Case("a", inputs=lambda: 1 / 0)],  # type: ignore[arg-type,return-value]
            "Case 'a': its inputs cannot be made: ZeroDivisionError",
            id="not made",
        ),
        pytest.param(
            [Case("a", inputs=lambda: 1)],  # type: ignore[arg-type,return-value]
            "Case 'a': the function of its inputs must return a mapping",
            id="no mapping",
        ),
    ],
)
async def test_bad_cases_are_refused_before_anything_is_called(given: Any, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        await evaluate(never, given)


async def test_inputs_that_do_not_fit_the_subject_are_refused() -> None:
    with pytest.raises(CaseError, match="Case 'a': its inputs do not fit the subject: missing"):
        await evaluate(double, [Case("a")])
    with pytest.raises(CaseError, match="unexpected keyword argument 'extra'"):
        await evaluate(double, [Case("a", inputs={"number": 1, "extra": 1})])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"scorers": []}, "at least one scorer", id="no scorers"),
        pytest.param({"scorers": equals()}, "scorers is a list of scorers", id="one scorer"),
        pytest.param({"name": 3}, "The name of a subject is a text, not 3", id="name"),
        pytest.param(
            {"scorers": [equals(), equals()]}, "Two scorers have the name 'equals'", id="scorer twice"
        ),
        pytest.param({"scorers": [3]}, "must be a function of a trial, not 3", id="no scorer"),
        pytest.param({"scorers": [int]}, "must be a function of a trial", id="type"),
        pytest.param({"trials": 0}, "trials is an integer, at least 1, not 0", id="trials"),
        pytest.param({"trials": True}, "trials is an integer", id="trials as bool"),
        pytest.param({"seed": "1"}, "seed is an integer, not '1'", id="seed"),
        pytest.param({"pass_mark": 2}, "pass_mark is a number from 0 to 1", id="pass mark"),
        pytest.param({"confidence": 95}, "confidence is more than 0 and less than 1", id="confidence"),
        pytest.param({"transport_retries": -1}, "transport_retries is an integer, at least 0", id="retries"),
    ],
)
async def test_bad_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        await evaluate(never, [Case("a")], **arguments)


async def test_a_subject_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(EvaluationError, match="The subject of an evaluation is a function, not 3"):
        await evaluate(3, [Case("a")])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"name": ""}, "name of a case", id="empty"),
        pytest.param({"name": 3}, "name of a case", id="number"),
        pytest.param({"name": "\ud800"}, "half of a surrogate pair", id="surrogate"),
        pytest.param({"name": "a", "tags": "toys"}, "tags must be a tuple of texts", id="tags"),
        pytest.param({"name": "a", "raises": ""}, "raises must be a type", id="raises nothing"),
        pytest.param({"name": "a", "inputs": [1]}, "inputs must be a mapping", id="inputs"),
        pytest.param({"name": "a", "inputs": {1: 1}}, "inputs must be a mapping", id="keys"),
        pytest.param({"name": "a", "raises": int}, "raises must be a type of Exception", id="raises"),
    ],
)
def test_a_malformed_case_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        Case(**arguments)


# Observers.


async def test_the_tree_has_a_node_for_each_case_and_trial() -> None:
    with nh.observe.recording() as tree:
        await evaluate(stars, cases("One", "Two"), trials=2, model=executor({"Two": 1}))
    nodes = [(each.kind, each.name, each.state) for each in tree.snapshot().walk()]
    title = ("group", "evaluate tests.unit.evals.evals_support:stars", "completed")
    assert title in nodes
    assert ("group", "One", "completed") in nodes
    assert nodes.count(("task", "trial 1", "completed")) == 2
    case = next(each for each in tree.snapshot().walk() if each.name == "Two")
    assert [(each.name, dict(each.outputs)) for each in case.children] == [
        (name, {"status": '"failed"', "output": '"1"', "score equals": '"0, failed: 1 is not 2"'})
        for name in ("trial 1", "trial 2")
    ]
    assert case.children[0].children[0].name == "stars"


async def test_each_trial_is_reported_as_it_ends() -> None:
    seen: list[TrialResult] = []

    async def note(result: TrialResult) -> None:
        await checkpoint()
        seen.append(result)

    report = await evaluate(double, numbers(3), trials=2, on_trial=note, max_concurrent=1)
    assert sorted(seen, key=lambda each: (each.case, each.number)) == list(report.trials)


async def test_an_exception_of_the_callback_ends_the_evaluation() -> None:
    def broken(result: TrialResult) -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        await evaluate(double, numbers(3), on_trial=broken)


@pytest.mark.virtual_time
async def test_a_cancelled_evaluation_keeps_what_has_ended(tmp_path: Path, virtual_clock: MockClock) -> None:
    async def slow(number: int) -> int:
        await anyio.sleep(number)
        return 2 * number

    path = tmp_path / "report.jsonl"
    with anyio.move_on_after(2.5) as scope:
        await evaluate(slow, numbers(5), path=path, max_concurrent=None)
    assert scope.cancelled_caught
    report = nh.evals.load_report(path)
    assert [trial.status for trial in report.trials] == ["passed"] * 3 + ["not_run"] * 2


async def test_an_interrupt_ends_the_evaluation() -> None:
    async def interrupted(number: int) -> int:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await evaluate(interrupted, numbers(2))


async def test_a_step_that_does_not_return_is_a_result_like_any_other() -> None:
    from nighthawk_async.testing import CallbackExecutor

    report = await evaluate(stars, cases("One"), model=CallbackExecutor(lambda call: pass_response()))
    assert report.case("One").trials[0].status == "failed"
    assert report.case("One").trials[0].output == "0"
