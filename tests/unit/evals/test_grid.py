"""Grids: arms on the same cases under one budget, early stops, and the figures that compare arms."""

import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.configuration import StepExecutorConfiguration
from nighthawk_async.evals import (
    Arm,
    Case,
    CaseResult,
    EvaluationError,
    Grid,
    Report,
    ReportError,
    TrialResult,
    evaluate,
    evaluate_grid,
    holm,
    load_grid,
)
from nighthawk_async.evals.grid_report import Passes, StoppingRule, evidence, needed_evidence
from nighthawk_async.executors import AgentStepExecutor
from nighthawk_async.observation import EVALUATION
from nighthawk_async.observe import TaskTree
from nighthawk_async.types.usage import Usage
from tests.unit.evals.evals_support import cases, executor, model, stars


def numbers(count: int) -> list[Case]:
    return [Case(f"case {each}", inputs={"number": each}, expected=True) for each in range(count)]


async def always(number: int) -> bool:
    return True


async def never(number: int) -> bool:
    return False


async def even(number: int) -> bool:
    return number % 2 == 0


# The rule of early stops.


def test_evidence_is_the_mean_wealth_of_nine_gamblers() -> None:
    assert evidence([]) == 1
    assert evidence([1.0]) == pytest.approx(1.5)
    assert evidence([1.0, -1.0]) == pytest.approx(1.5)  # the greatest, whenever one looks
    expected = sum((1 + b / 10) ** 3 for b in range(1, 10)) / 9
    assert evidence([1.0, 1.0, 1.0]) == pytest.approx(expected)
    assert evidence([1.0] * 5000) == float("inf")


def has_stopped_the_first(rows: Mapping[str, Passes], *, trials: int, confidence: float) -> bool:
    """Look at whole rounds of trials, in blocks of five cases."""
    rule = StoppingRule(arms=len(rows), trials_per_case=trials, confidence=confidence)
    running = dict(rows)
    for number in range(1, trials + 1):
        for start in range(0, len(rows["0"]), 5):
            block = {name: row[start : start + 5] for name, row in running.items()}
            for name in rule.look(block, trials=number, start=start):
                del running[name]
    return "0" not in running


@pytest.mark.parametrize(("arms", "trials"), [(2, 1), (4, 1), (3, 3)])
def test_the_best_arm_is_rarely_stopped_though_one_looks_again_and_again(arms: int, trials: int) -> None:
    generator = random.Random(arms)
    stops = 0
    for _ in range(100):
        difficulties = [generator.random() for _ in range(60)]  # no arm is better: each case is for all
        rows = {
            str(arm): [[generator.random() < each for _ in range(trials)] for each in difficulties]
            for arm in range(arms)
        }
        stops += has_stopped_the_first(rows, trials=trials, confidence=0.9)
    assert stops / 100 <= 0.1


def test_an_arm_that_is_worse_is_stopped() -> None:
    generator = random.Random(1)
    rows = {
        "0": [[generator.random() < 0.3 for _ in range(2)] for _ in range(100)],
        "1": [[generator.random() < 0.9 for _ in range(2)] for _ in range(100)],
    }
    assert has_stopped_the_first(rows, trials=2, confidence=0.95)


def test_equal_arms_are_not_stopped() -> None:
    rows = {name: [[True]] * 100 for name in "012"}
    assert not has_stopped_the_first(rows, trials=1, confidence=0.5)


def test_more_arms_and_more_trials_need_more_evidence() -> None:
    assert needed_evidence(arms=2, trials=1, confidence=0.95) == pytest.approx(20)
    assert needed_evidence(arms=3, trials=5, confidence=0.95) == pytest.approx(200)


def test_one_arm_is_left_whatever_the_data() -> None:
    rows = {"a": [[True]] * 40 + [[False]] * 40, "b": [[False]] * 40 + [[True]] * 40}
    stopped = StoppingRule(arms=2, trials_per_case=1, confidence=0.5).look(rows, trials=1, start=0)
    assert len(stopped) == 1


# Runs.


@pytest.mark.anyio
async def test_all_arms_are_evaluated_on_the_same_cases() -> None:
    grid = await evaluate_grid(
        [Arm("good", stars, model=executor()), Arm("bad", stars, model=executor({"One": 3}))],
        cases("One", "Two", "Four"),
        trials=2,
    )
    assert [(arm.name, arm.pass_rate, arm.tried_cases) for arm in grid.arms] == [
        ("good", 1.0, 3),
        ("bad", pytest.approx(2 / 3), 3),
    ]
    assert grid.best.name == "good"
    alone = await evaluate(stars, cases("One", "Two", "Four"), trials=2, model=executor(), name="good")
    assert grid.reports["good"] == alone


@pytest.mark.anyio
async def test_an_arm_that_cannot_win_is_stopped() -> None:
    grid = await evaluate_grid([Arm("good", always), Arm("bad", never)], numbers(100), seed=3)
    assert grid.arm("good").stopped is None
    assert grid.arm("bad").stopped == "good passes more"
    assert grid.arm("good").tried_cases == 100
    assert grid.arm("bad").tried_cases == 10  # it is looked at after every tenth of the cases
    assert grid.best.name == "good"
    assert grid.reports["bad"].counts["not_run"] == 90


@pytest.mark.anyio
@pytest.mark.parametrize("max_concurrent", [1, 3, None])
async def test_the_trials_that_are_run_depend_on_results_alone(max_concurrent: int | None) -> None:
    arms = [Arm("good", always), Arm("even", even), Arm("bad", never)]
    grid = await evaluate_grid(arms, numbers(60), trials=2, seed=1, max_concurrent=max_concurrent)
    assert [arm.report.decided for arm in grid.arms] == [120, 18, 12]


@pytest.mark.anyio
async def test_early_stops_can_be_switched_off() -> None:
    grid = await evaluate_grid([Arm("good", always), Arm("bad", never)], numbers(40), stop_early=False)
    assert [arm.tried_cases for arm in grid.arms] == [40, 40]
    assert [arm.stopped for arm in grid.arms] == [None, None]


@pytest.mark.anyio
async def test_a_budget_that_ends_leaves_comparable_data() -> None:
    arms = [Arm("a", stars), Arm("b", stars), Arm("c", stars)]
    samples = [replace(case, name=f"{case.name} {n}") for n in range(5) for case in cases("One", "Two")]
    async with nh.run(executor()):
        grid = await evaluate_grid(arms, samples, budget=nh.budget(steps=14), max_concurrent=1, seed=5)
    tried = [{case.name for case in arm.report.cases if case.decided} for arm in grid.arms]
    assert [len(each) for each in tried] == [5, 5, 4]
    assert tried[2] < tried[1] == tried[0]
    assert sum(arm.report.counts["failed"] for arm in grid.arms) == 0


@pytest.mark.anyio
async def test_an_interrupted_grid_goes_on_where_it_was(tmp_path: Path) -> None:
    samples = [replace(case, name=f"{case.name} {n}") for n in range(4) for case in cases("One", "Two")]
    arms = [Arm("a/b", stars, model=executor()), Arm("c", stars, model=executor({"One": 3}))]
    folder = tmp_path / "reports"
    first = await evaluate_grid(
        arms, samples, budget=nh.budget(steps=5), max_concurrent=1, folder=folder, seed=2
    )
    assert sum(report.decided for report in first.reports.values()) == 5
    begun: list[tuple[str, str]] = []

    def note(arm: Arm, trial: TrialResult) -> None:
        begun.append((arm.name, trial.case))

    grid = await evaluate_grid(arms, samples, folder=folder, seed=2, on_trial=note)
    assert len(begun) == 11
    whole = await evaluate_grid(arms, samples, seed=2)
    assert grid.reports == whole.reports
    assert load_grid(folder).reports == whole.reports
    assert sorted(path.name for path in folder.iterdir()) == ["a%2fb.jsonl", "c.jsonl"]


@pytest.mark.anyio
async def test_a_stopped_arm_is_stopped_in_the_stored_grid_too(tmp_path: Path) -> None:
    arms = [Arm("good", always), Arm("bad", never)]
    grid = await evaluate_grid(arms, numbers(40), folder=tmp_path)
    loaded = load_grid(tmp_path)
    assert [arm.stopped for arm in loaded.arms] == [None, "good passes more"]
    begun: list[TrialResult] = []
    again = await evaluate_grid(
        arms, numbers(40), folder=tmp_path, on_trial=lambda _, trial: begun.append(trial)
    )
    assert again.reports == grid.reports
    assert {trial.status for trial in begun} == {"not_run"}


# Figures.


def report(
    name: str, passed: Sequence[bool], *, seconds: float = 1.0, cost: str = "1", requests: int = 1
) -> Report:
    usage = Usage(requests=requests, cost=Decimal(cost))
    results = tuple(
        CaseResult(
            name=str(number),
            trials=(
                TrialResult(
                    case=str(number),
                    number=1,
                    status="passed" if each else "failed",
                    seconds=seconds,
                    usage=usage,
                ),
            ),
        )
        for number, each in enumerate(passed)
    )
    return Report(subject=name, cases=results, scorers=("equals",), trials_per_case=1)


def grid_of(*reports: Report) -> Grid:
    return Grid({each.subject: each for each in reports})


HALF = [True, False] * 5


def test_the_front_has_the_arms_that_no_other_arm_dominates() -> None:
    grid = grid_of(
        report("dear", [True] * 10, cost="3", requests=2),
        report("cheap", HALF, cost="1"),
        report("dominated", HALF, cost="2", requests=3),
        report("slow twin", HALF, cost="1", seconds=2.0),
    )
    assert grid.pareto_front() == ("dear", "cheap")
    assert grid.pareto_front("pass_rate", "cost") == ("dear", "cheap", "slow twin")
    assert grid.pareto_front("cost") == ("cheap", "slow twin")
    assert [arm.is_on_front for arm in grid.arms] == [True, True, False, False]
    assert (grid.arm("dear").cost, grid.arm("dear").requests) == (Decimal(3), 2.0)


def test_an_unknown_price_is_no_price() -> None:
    unknown = report("unknown", HALF)
    trials = [replace(t, usage=Usage(requests=1, unpriced_requests=1)) for t in unknown.trials]
    priceless = replace(
        unknown, cases=tuple(replace(c, trials=(t,)) for c, t in zip(unknown.cases, trials, strict=True))
    )
    grid = grid_of(priceless, report("known", HALF))
    assert grid.arm("unknown").cost is None
    assert grid.pareto_front() == ("unknown", "known")


def test_pairs_are_corrected_by_the_method_of_holm() -> None:
    reports = [report("a", [True] * 12), report("b", [False] * 8 + [True] * 4), report("c", [False] * 12)]
    grid = grid_of(*reports)
    raw = [
        ours.compare(theirs, any_subject=True).p_value
        for ours, theirs in [(reports[0], reports[1]), (reports[0], reports[2]), (reports[1], reports[2])]
    ]
    assert [pair.p_value for pair in grid.comparisons] == raw
    assert [pair.adjusted_p_value for pair in grid.comparisons] == holm(raw)
    assert [(pair.arm, pair.other, pair.verdict) for pair in grid.comparisons] == [
        ("a", "b", "improved"),
        ("a", "c", "improved"),
        ("b", "c", "inconclusive"),
    ]


@pytest.mark.anyio
async def test_the_p_value_of_a_stopped_arm_is_valid_at_any_time() -> None:
    grid = await evaluate_grid([Arm("good", always), Arm("bad", never)], numbers(100))
    (pair,) = grid.comparisons
    assert pair.p_value == pytest.approx(2 / evidence([1.0] * 10))
    assert pair.p_value > pair.comparison.p_value
    assert pair.verdict == "improved"


def test_the_table_is_markdown() -> None:
    grid = grid_of(report("a|b", [True] * 10, cost="0.01"), report("c", HALF, cost="0.02", requests=2))
    lines = str(grid).splitlines()
    assert lines[0].startswith("| arm ")
    assert lines[2].startswith("| a\\|b * | 10 of 10 | 1.000 (0.692 to 1.000)")
    assert "$0.0100" in lines[2]
    assert lines[-1].startswith("| a\\|b - c |")


def test_a_plot_is_svg_with_a_label_for_each_arm() -> None:
    grid = grid_of(report("<dear>", [True] * 10, cost="3"), report("cheap", HALF))
    root = ElementTree.fromstring(grid.plot("cost"))
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"<dear>", "cheap", "pass rate", "cost of a trial ($)"} <= texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 2
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 1


HOSTILE = "<script>alert(1)</script> [x](javascript:y) `a` \\| \n| new row | \x00\x1b[31m \ud800 \ufffe"


def test_hostile_names_stay_text_in_tables_and_plots() -> None:
    grid = grid_of(report(HOSTILE, [True] * 10, cost="3"), report("cheap", HALF))
    lines = str(grid).splitlines()
    assert len(lines) == 8  # two tables, with one line for each row
    assert "<script" not in str(grid).replace("\\<", "")
    assert "\x1b" not in str(grid)
    root = ElementTree.fromstring(grid.plot("cost").encode())
    assert any("<script>" in (text.text or "") for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_a_plot_of_arms_without_cost_is_possible() -> None:
    grid = grid_of(report("a", HALF, cost="0"))
    assert ElementTree.fromstring(grid.plot()).tag.endswith("svg")


# Products.


def test_a_product_has_an_arm_for_each_combination() -> None:
    arms = Arm.product({"x": always, "y": never}, {"m": executor(), "n": executor()})
    assert [arm.name for arm in arms] == ["x, m", "x, n", "y, m", "y, n"]
    assert [arm.name for arm in Arm.product({"x": always}, {"m": executor()})] == ["x"]
    assert Arm.product({"x": always})[0].model is None


def test_settings_change_the_configuration_of_executors() -> None:
    base = AgentStepExecutor.from_model(
        model(), configuration=StepExecutorConfiguration(model_settings={"top_p": 0.5}, max_tool_calls=7)
    )
    arms = Arm.product(
        {"x": stars}, {"m": base}, {"cold": {"model_settings": {"temperature": 0}}, "short": {"max_turns": 2}}
    )
    assert [arm.name for arm in arms] == ["x, cold", "x, short"]
    cold, short = (arm.model.configuration for arm in arms)  # type: ignore[union-attr]
    assert dict(cold.model_settings) == {"top_p": 0.5, "temperature": 0}
    assert (short.max_turns, short.max_tool_calls) == (2, 7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Arm.product({}), "no subjects"),
        (lambda: Arm.product({"x": always}, []), "no models"),
        (lambda: Arm.product({"x": always}, "local:m"), "a list of model ids"),
        (lambda: Arm.product({"x": always}, None, {"a": {"max_turns": 1}}), "need models"),
        (lambda: Arm.product({"x": always}, {"m": executor()}, {"a": {"max_turns": 1}}), "takes no settings"),
        (lambda: Arm("", always), "not empty"),
        (lambda: Arm("x\ud800", always), "without surrogates"),
        (lambda: Arm("x", 3), "is a function"),  # type: ignore[arg-type]
        (lambda: Grid({}), "at least one report"),
        (lambda: grid_of(report("a", HALF), report("b", [True])), "same cases"),
        (lambda: grid_of(report("a", HALF)).pareto_front("price"), "A criterion is one of"),  # type: ignore[arg-type]
        (lambda: grid_of(report("a", HALF)).plot("pass_rate"), "another criterion"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        make()


@pytest.mark.anyio
async def test_arms_are_checked_before_anything_is_spent(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="at least one arm"):
        await evaluate_grid([], numbers(2))
    with pytest.raises(EvaluationError, match="Two arms have the name 'A'"):
        await evaluate_grid([Arm("a", always), Arm("A", never)], numbers(2))
    with pytest.raises(EvaluationError, match=r"An arm is a nighthawk_async\.evals\.Arm"):
        await evaluate_grid([always], numbers(2))  # type: ignore[list-item]
    with pytest.raises(ReportError, match="holds no reports"):
        load_grid(tmp_path)


# Trees.


@pytest.mark.anyio
async def test_each_arm_of_a_grid_is_an_evaluation_of_the_tree() -> None:
    tree = TaskTree()
    with tree.recording():
        await evaluate_grid([Arm("good", always), Arm("bad", never)], numbers(40), trials=2)
    ((grid,),) = (run.children for run in tree.snapshot().children)
    assert grid.name == "evaluate a grid"
    assert [(arm.name, arm.attributes) for arm in grid.children] == [
        (f"evaluate {name}", {f"{EVALUATION}subject": name, f"{EVALUATION}trials": 2})
        for name in ("good", "bad")
    ]
    good, bad = grid.children
    assert (len(good.children), {case.state for case in good.children}) == (40, {"completed"})
    assert len(bad.children) < 40
    assert [trial.attributes for trial in good.children[0].children] == [
        {f"{EVALUATION}status": "passed"}
    ] * 2
