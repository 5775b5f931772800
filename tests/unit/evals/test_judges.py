"""Judges, their agreement with people, and variants that a model writes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ExecutionError
from nighthawk_async.evals import (
    Case,
    CaseError,
    EvaluationError,
    Labelled,
    NoExecutorError,
    Score,
    Trial,
    UndecidedError,
    calibrate,
    evaluate,
    judge,
    reviewed,
    variants,
)
from nighthawk_async.human import ApprovalRequest, Question
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.types.model import ModelRequest

pytestmark = pytest.mark.anyio


def assigning(values: Callable[[str], dict[str, object]]) -> ScriptedModel:
    """A model that sets write bindings, by the text of the request."""

    def answer(request: ModelRequest) -> Any:
        found = values(str(request))
        assigned = [
            tool_call("nh_assign", target_path=name, expression=repr(each)) for name, each in found.items()
        ]
        return model_response(*assigned, tool_call("nh_outcome", kind="pass"))

    return ScriptedModel(answer)


def polite_judge() -> ScriptedModel:
    """A model that takes a text with `please` for polite, and half of that for `hm`."""

    def values(text: str) -> dict[str, object]:
        score = 0.9 if "please" in text else 0.5 if "hm" in text else 0.1
        return {"reason": f"it is {score}", "score": score}

    return assigning(values)


async def echo(text: str) -> str:
    return text


async def test_a_judge_scores_by_its_rubric() -> None:
    model = polite_judge()
    cases = [Case(text, inputs={"text": text}) for text in ("please go", "go", "hm")]
    report = await evaluate(echo, cases, scorers=[judge("It is polite.")], model=model)
    assert [trial.status for trial in report.trials] == ["passed", "failed", "passed"]
    assert report.trials[0].scores["judge"] == Score(0.9, passed=True, reason="it is 0.9")
    assert report.scoring_usage.requests == 3
    assert report.subject_usage.requests == 0
    assert "It is polite." in str(model.requests[0])


async def test_a_judge_has_a_name_and_a_pass_mark_of_its_own() -> None:
    strict, kind = judge("It is polite.", name="strict", pass_mark=0.8), judge("It is polite.", name="kind")
    cases = [Case("hm", inputs={"text": "hm"}, expected="hm, sir")]
    model = polite_judge()
    report = await evaluate(echo, cases, scorers=[strict, kind], model=model)
    scores = report.trials[0].scores
    assert (scores["strict"].passed, scores["kind"].passed) == (False, True)
    assert "hm, sir" in str(model.requests[0])


async def test_a_score_that_a_judge_may_not_give_is_refused_by_the_step() -> None:
    model = assigning(lambda text: {"reason": "wow", "score": 7.5})
    report = await evaluate(echo, [Case("a", inputs={"text": "a"})], scorers=[judge("Nice.")], model=model)
    assert report.counts["unscored"] == 1


async def test_a_natural_function_is_a_judge() -> None:
    @nh.natural_function
    async def agrees(trial: Trial) -> bool:
        """natural
        Return whether the output of <trial> is right.
        """
        return False

    right = model_response(tool_call("nh_outcome", kind="return", return_expression="trial.output == 'a'"))
    cases = [Case(text, inputs={"text": text}) for text in "ab"]
    report = await evaluate(echo, cases, scorers=[agrees], model=ScriptedModel(lambda request: right))
    assert [trial.status for trial in report.trials] == ["passed", "failed"]
    assert report.scorers == ("agrees",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"rubric": " "}, "The rubric of a judge is a text", id="empty"),
        pytest.param({"rubric": 3}, "The rubric of a judge is a text", id="number"),
        pytest.param({"rubric": "x", "pass_mark": 80}, "pass_mark is a number from 0 to 1", id="mark"),
    ],
)
async def test_a_judge_without_a_rubric_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        judge(**arguments)


# Calibration.

LABELLED = [
    Labelled("please", True),
    Labelled("please stay", True),
    Labelled("please leave at once", False, name="rude"),
    Labelled("go", False),
    Labelled("welcome", True, inputs={"text": "hello"}, expected="good day"),
    Labelled("no", False),
]


async def test_the_agreement_with_people_is_reported() -> None:
    agreement = await calibrate(judge("It is polite."), LABELLED, model=polite_judge(), seed=1)
    assert agreement.count == 6
    assert agreement.accuracy == pytest.approx(4 / 6)
    assert agreement.kappa == pytest.approx(1 / 3)
    assert agreement.interval.low < 4 / 6 < agreement.interval.high
    assert agreement.kappa_interval is not None
    assert agreement.kappa_interval.low < 1 / 3 < agreement.kappa_interval.high
    assert (agreement.false_passes, agreement.false_failures) == (("rude",), ("result 5",))
    assert agreement.usage.requests == 6
    assert str(agreement).startswith("agrees on 0.667 of 6 results (")


async def test_the_same_seed_gives_the_same_agreement() -> None:
    def is_short(trial: Trial) -> bool:
        return len(trial.output) < 8

    assert await calibrate(is_short, LABELLED, seed=3) == await calibrate(is_short, LABELLED, seed=3)


async def test_results_that_cannot_be_judged_are_named() -> None:
    def broken(trial: Trial) -> bool:
        if trial.output == "go":
            raise ValueError("lost")
        return True

    agreement = await calibrate(broken, LABELLED)
    assert agreement.undecided == {"result 4": "scorer 'broken': ValueError: lost"}
    assert agreement.count == 5


async def test_a_budget_that_ends_leaves_results_undecided() -> None:
    agreement = await calibrate(
        judge("Polite?"), LABELLED, model=polite_judge(), budget=nh.budget(steps=4), max_concurrent=1
    )
    assert agreement.count == 4
    assert len(agreement.undecided) == 2


async def test_a_judge_needs_an_executor() -> None:
    with pytest.raises(NoExecutorError):
        await calibrate(judge("Polite?"), LABELLED)


async def test_a_scorer_that_judges_nothing_has_no_agreement() -> None:
    def broken(trial: Trial) -> bool:
        raise ValueError("lost")

    with pytest.raises(UndecidedError, match="could not judge any result: scorer"):
        await calibrate(broken, LABELLED)


async def test_labels_that_all_agree_have_no_kappa() -> None:
    agreement = await calibrate(lambda trial: True, [Labelled("a", True), Labelled("b", True)])
    assert (agreement.accuracy, agreement.kappa, agreement.kappa_interval) == (1, None, None)
    assert agreement.interval.high == 1
    assert "kappa not defined" in str(agreement)


async def test_bad_labels_are_refused() -> None:
    with pytest.raises(CaseError, match="at least one labelled result"):
        await calibrate(judge("x"), [])
    with pytest.raises(CaseError, match="Two labelled results have the name 'a'"):
        await calibrate(judge("x"), [Labelled(1, True, name="a"), Labelled(2, True, name="a")])


# Variants.


def writing(*written: object) -> ScriptedModel:
    return assigning(lambda text: {"variants": list(written)})


CASE = Case("good", inputs={"review": "Four stars.", "most": 5}, expected=4, tags=("easy",))


async def test_a_model_writes_variants_with_the_same_expectation() -> None:
    model = writing({"review": "4 of 5!", "most": 5}, {"review": "Almost five stars.", "most": 5})
    async with nh.run(model):
        found = await variants(CASE, 2, instruction="Be terse.")
    assert found == [
        Case("good ~1", inputs={"review": "4 of 5!", "most": 5}, expected=4, tags=("easy", "variant")),
        Case(
            "good ~2",
            inputs={"review": "Almost five stars.", "most": 5},
            expected=4,
            tags=("easy", "variant"),
        ),
    ]
    assert "Be terse." in str(model.requests[0])


async def test_repeated_and_surplus_variants_are_left_out() -> None:
    same = {"review": "Four stars.", "most": 5}
    model = writing(same, *[{"review": f"{number // 2}", "most": 5} for number in range(8)])
    async with nh.run(model):
        assert [each.build_inputs()["review"] for each in await variants(CASE, 3)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "written",
    [{"review": "x"}, {"review": "x", "most": "many"}, {"review": "x", "most": 1, "more": 2}, "x"],
    ids=json.dumps,
)
async def test_variants_of_another_type_are_refused(written: object) -> None:
    async with nh.run(writing(written)):
        with pytest.raises(ExecutionError):
            await variants(CASE, 1)


async def test_a_count_that_is_no_number_is_refused() -> None:
    with pytest.raises(EvaluationError, match="count is a positive integer, not 0"):
        await variants(CASE, 0)


async def test_people_keep_the_variants_that_they_like() -> None:
    asked: list[str] = []

    class Person:
        async def ask(self, question: Question) -> bool:
            asked.append(question.prompt)
            return "good" in question.prompt

        async def approve(self, request: ApprovalRequest) -> None:
            raise AssertionError("nothing is to be approved")

    async with nh.run(polite_judge(), human=Person()):
        kept = await reviewed([CASE, Case("bad", inputs={"review": "x"})])
    assert kept == [CASE]
    assert asked[0] == "Keep the case 'good'? review='Four stars.', most=5, expected 4"
