"""The demonstration's reviews on the embedded model are an evaluation whose gate holds."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.catalog.local import LOCAL_MODELS
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.cli.demo_evaluation import evaluation
from nighthawk_async.cli.demo_functions import Label
from nighthawk_async.evals import Report, check_gate
from nighthawk_async.models.weights import are_weights_whole, weights_path
from nighthawk_async.testing import CallbackExecutor, StepCall, StepResponse, pass_response

WEIGHTS = LOCAL_MODELS["smollm2-135m"].weights

DEMO = "nighthawk_async.cli.demo_evaluation"


@nh.natural_function
async def classify_badly(review: str) -> Label:
    """The function of the demonstration, whose block forgets the review."""
    label: Label
    """natural
    Set <:label> to positive or negative.
    """
    return label


on_the_model = pytest.mark.skipif(
    WEIGHTS is None or not are_weights_whole(WEIGHTS, weights_path(WEIGHTS)),
    reason="the weights of the embedded model are not there: nighthawk-async models pull smollm2-135m",
)


@on_the_model
def test_some_reviews_of_the_demonstration_are_decided_on_the_model() -> None:
    pytest.importorskip("xllamacpp")
    some = replace(evaluation, cases=evaluation.cases[:6], model="local:smollm2-135m")
    report = anyio.run(some.run, backend="trio")
    assert len(report.trials) == report.decided == 6
    assert report.usage.requests > 0


@pytest.mark.weekly
@pytest.mark.timeout(600)
@on_the_model
def test_the_gate_of_the_demonstration_holds_and_catches_a_worse_prompt(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    assert run_command_line(["eval", DEMO, "--quiet", "--report", str(good)]) == 0

    worse = replace(
        evaluation,
        subject=classify_badly,
        name=evaluation.title,
        cases=evaluation.cases[:16],  # as many of each label; a request of this model takes a second
        model="local:smollm2-135m",
    )
    report = anyio.run(worse.run, backend="trio")
    assert len(report.trials) == report.decided == 16
    result = check_gate(report, at_least=evaluation.at_least)
    assert result.verdict == "missed"
    compared = check_gate(report, at_least=evaluation.at_least, baseline=good)
    assert compared.verdict == "regressed"
    assert compared.comparison is not None
    assert compared.comparison.difference < -0.2
    report.save(bad)
    with pytest.raises(nh.evals.RegressionError):
        report.compare(good).require_no_regression()
    assert check_gate(nh.evals.load_report(good), baseline=bad).has_passed


def scripted_report(is_right: bool) -> Report:
    """The report of a model that labels everything right, or one of the two labels only."""
    labels = {case.build_inputs()["review"]: case.expected for case in evaluation.cases}

    def answer(call: StepCall) -> StepResponse:
        return pass_response(label=labels[call.step_locals["review"]] if is_right else "positive")

    return anyio.run(replace(evaluation, model=CallbackExecutor(answer)).run, backend="trio")


def test_a_model_that_gives_one_label_misses_the_gate() -> None:
    good, bad = scripted_report(True), scripted_report(False)
    assert (good.pass_rate, bad.pass_rate) == (1, 0.5)
    assert check_gate(good, at_least=evaluation.at_least, baseline=bad).has_passed
    assert check_gate(bad, at_least=evaluation.at_least).verdict == "missed"
    assert check_gate(bad, baseline=good).verdict == "regressed"
