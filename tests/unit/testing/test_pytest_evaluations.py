"""Evaluations as tests of pytest: a test for each case, gates, baselines, several processes."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nighthawk_async as nh
from nighthawk_async.evals import load_report
from nighthawk_async.testing import evaluation_tests, pytest_evaluations, pytest_plugin

pytest_plugins = ["pytester"]

# See test_pytest_plugin.
IMPORTED = (pytest_plugin, pytest_evaluations, evaluation_tests, nh.AgentStepExecutor, nh.run, load_report)

PREAMBLE = """
import itertools
import pytest
import nighthawk_async as nh
from nighthawk_async.evals import Case, Evaluation, Score, equals
from nighthawk_async.testing import CallbackExecutor, pass_response

CASES = [
    Case("four", inputs={"review": "****"}, expected=4),
    Case("two", inputs={"review": "**"}, expected=2),
    Case("wrong", inputs={"review": "*"}, expected=7),
]

@nh.natural_function
async def stars(review: str) -> int:
    count: int
    '''natural
    Set <:count> to the number of stars of <review>.
    '''
    return count

COUNTING = CallbackExecutor(lambda call: pass_response(count=call.step_locals["review"].count("*")))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose tests use the plugin."""
    pytester.makeconftest(f"pytest_plugins = [{pytest_plugin.__name__!r}]")
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers -p no:cacheprovider -p no:trio\nanyio_mode = strict"
    )
    return pytester


def run(project: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    project.makepyfile(test_it=PREAMBLE + body)
    return project.runpytest_inprocess(*options)


GATED = """
@Evaluation.test(trials=5, at_least=AT_LEAST)
def test_stars() -> Evaluation:
    return Evaluation(stars, CASES, scorers=[equals()], model=COUNTING)
"""


def test_there_is_a_test_for_each_case_and_those_below_a_missed_gate_fail(project: pytest.Pytester) -> None:
    result = run(project, GATED.replace("AT_LEAST", "0.8"), "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_it.py::test_stars[[]four[]] PASSED 5/5*",
            "*test_it.py::test_stars[[]two[]] PASSED 5/5*",
            "*test_it.py::test_stars[[]wrong[]] FAILED*",
            "0 of 5 trials passed",
            "inputs: review=[*]",
            "expected: 7",
            "trial 1, 2, 3, 4, 5: failed",
            "  equals: 0, 1 is not 7",
            "the pass rate is 0.667, and has to be at least 0.8",
            "=* evaluations =*",
            "test_it.test_stars: missed, pass rate 0.667 (0.000 to 1.000), at least 0.8 asked; "
            "10 passed, 5 failed; 0 tokens",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_below_a_gate_that_holds_a_case_is_tolerated(project: pytest.Pytester) -> None:
    result = run(project, GATED.replace("AT_LEAST", "0.6"), "-rx")
    result.assert_outcomes(passed=2, xfailed=1)
    result.stdout.fnmatch_lines(["XFAIL*wrong*0 of 5 trials passed; the pass rate of all cases is 0.667"])
    assert result.ret == 0


def test_without_a_gate_every_trial_has_to_pass(project: pytest.Pytester) -> None:
    body = """
@Evaluation.test(cases=CASES[:2], trials=2)
async def test_stars(review: str) -> int:
    return len(review)

@Evaluation.test(cases=CASES)
def test_in_a_thread(review):
    return len(review)
"""
    result = run(project, body)
    result.assert_outcomes(passed=4, failed=1)


def test_a_test_without_expected_results_has_assertions(project: pytest.Pytester) -> None:
    body = """
PLAIN = [Case("one", inputs={"number": 1}), Case("two", inputs={"number": 2})]

class TestNumbers:
    limit = 1

    @Evaluation.test(cases=PLAIN, trials=3, at_least=0.9)
    async def test_small(self, number):
        assert number <= self.limit
"""
    result = run(project, body)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["trial 1, 2, 3: error: AssertionError: assert 2 <= 1*"])


def test_a_part_of_the_trials_may_fail(project: pytest.Pytester) -> None:
    body = """
calls = itertools.count()

@Evaluation.test(cases=[Case("flaky")], trials=5, at_least=0.8)
async def test_flaky():
    assert next(calls) != 2

others = itertools.count()

@Evaluation.test(cases=[Case("worse")], trials=5, at_least=0.8)
async def test_worse():
    assert next(others) not in (1, 2)
"""
    result = run(project, body, "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_flaky[[]flaky[]] PASSED 4/5*", "3 of 5 trials passed"])


def test_only_selected_cases_are_run(project: pytest.Pytester) -> None:
    body = """
seen = []

@Evaluation.test(cases=CASES)
def test_stars(review):
    seen.append(review)
    return len(review)

def test_after():
    assert seen == ["**"]
"""
    run(project, body, "-k", "two or after").assert_outcomes(passed=2)


def test_the_cases_of_an_evaluation_are_in_flight_together(project: pytest.Pytester) -> None:
    body = """
import anyio
both = anyio.Event()
waiting = []

@Evaluation.test(cases=[Case("one"), Case("two")])
async def test_together():
    waiting.append(1)
    if len(waiting) == 2:
        both.set()
    with anyio.fail_after(240):
        await both.wait()
"""
    run(project, body).assert_outcomes(passed=2)


def test_a_baseline_is_written_and_a_regression_fails(project: pytest.Pytester) -> None:
    body = """
MANY = [Case(f"case {number}", inputs={"number": number}, expected=number) for number in range(12)]

@Evaluation.test(cases=MANY, at_least=0)
async def test_same(number):
    return number if number < LIMIT else None
"""
    good, bad = (body.replace("LIMIT", limit) for limit in ("100", "2"))
    run(project, good, "--evaluation-reports=reports").assert_outcomes(passed=12)
    file = project.path / "reports" / "test_it.test_same.jsonl"
    assert load_report(file).pass_rate == 1
    again = run(project, good, "--baseline=reports")
    again.assert_outcomes(passed=12)
    again.stdout.fnmatch_lines(["  inconclusive: pass rate +0.000*", "  the reports do not differ"])
    for baseline in ("reports", "reports/test_it.test_same.jsonl"):
        worse = run(project, bad, f"--baseline={baseline}")
        worse.assert_outcomes(passed=2, failed=10)
        worse.stdout.fnmatch_lines(["test_it.test_same: regressed, *", "  regressed: pass rate -0.833 *"])
    other = run(project, good.replace("test_same", "test_other"), "--baseline=reports")
    other.assert_outcomes(passed=12)
    other.stdout.fnmatch_lines(["  there is no baseline of it in reports"])
    other = run(project, good.replace("test_same", "test_other"), f"--baseline={file}")
    other.assert_outcomes(failed=12)
    other.stdout.fnmatch_lines(["*The baseline is a report on test_it:test_same, not on test_it:test_other*"])


def test_without_a_model_or_its_key_tests_are_skipped_and_say_so(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    body = """
@Evaluation.test(cases=CASES)
async def test_no_model(review):
    return await stars(review)

@Evaluation.test(cases=CASES[:1], model="openai-chat:gpt-5-nano")
async def test_no_key(review):
    return await stars(review)
"""
    result = run(project, body, "-rs")
    result.assert_outcomes(skipped=4)
    result.stdout.fnmatch_lines(
        ["*no model: give --evaluation-model provider:name, or override the fixture*"]
    )
    result.stdout.fnmatch_lines(["*openai-chat:gpt-5-nano needs an API key*OPENAI_API_KEY*"])
    asked = run(project, body, "--evaluation-model=openai-chat:gpt-5-nano")
    asked.assert_outcomes(failed=4)
    asked.stdout.fnmatch_lines(["openai-chat:gpt-5-nano needs an API key*"])
    unknown = run(project, body, "--evaluation-model=nonsense")
    unknown.assert_outcomes(failed=4)
    unknown.stdout.fnmatch_lines(["*nonsense*"])


def test_a_fixture_gives_the_executor(project: pytest.Pytester) -> None:
    body = """
@pytest.fixture(scope="session")
def evaluation_executor():
    return COUNTING

@Evaluation.test(cases=CASES[:2])
async def test_stars(review):
    return await stars(review)
"""
    run(project, body).assert_outcomes(passed=2)


def test_what_was_not_decided_is_skipped_unless_nothing_was(project: pytest.Pytester) -> None:
    body = """
def score(trial):
    if trial.case.name in BROKEN:
        raise ValueError("no score")
    return True

@Evaluation.test(cases=CASES, scorers=[score])
async def test_stars(review):
    return 1
"""
    some = run(project, body.replace("BROKEN", "('two',)"), "-rs")
    some.assert_outcomes(passed=2, skipped=1)
    some.stdout.fnmatch_lines(["*not decided: scorer 'score': ValueError: no score*"])
    run(project, body.replace("BROKEN", "('four', 'two', 'wrong')")).assert_outcomes(failed=3)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(
            "@Evaluation.test(cases=[])\ndef test_it(): pass", "needs at least one case", id="no case"
        ),
        pytest.param(
            "@Evaluation.test(cases=CASES + CASES)\ndef test_it(review): pass",
            "the name 'four'",
            id="names twice",
        ),
        pytest.param(
            "@Evaluation.test(cases=CASES)\ndef test_it(text): pass",
            "do not fit the subject",
            id="parameters",
        ),
        pytest.param(
            "@Evaluation.test(trials=2)\ndef test_it(): pass", "must return an Evaluation", id="nothing"
        ),
        pytest.param("@Evaluation.test(trials=2)\nasync def test_it(): pass", "give its cases", id="async"),
        pytest.param("@Evaluation.test(tries=2)\ndef test_it(): pass", "has no option 'tries'", id="option"),
        pytest.param(
            "@Evaluation.test(at_least=80)\ndef test_it(): pass", "from 0 to 1, not 80", id="percent"
        ),
        pytest.param("@Evaluation.test(cases=CASES)\nclass Test: pass", "decorates a function", id="class"),
    ],
)
def test_a_wrong_evaluation_is_an_error_of_collection(
    project: pytest.Pytester, body: str, reason: str
) -> None:
    result = run(project, body)
    result.assert_outcomes(errors=1)
    assert reason in result.stdout.str()


def test_figures_are_in_the_junit_file_of_pytest(project: pytest.Pytester) -> None:
    run(project, GATED.replace("AT_LEAST", "0.6"), "--junitxml=junit.xml")
    root = ElementTree.parse(project.path / "junit.xml").getroot()
    properties = {
        str(case.get("name")): {str(each.get("name")): each.get("value") for each in case.iter("property")}
        for case in root.iter("testcase")
    }
    assert properties["test_stars[four]"] == {"passed": "5", "decided": "5", "cost": "0"}
    assert properties["test_stars[wrong]"]["passed"] == "0"


@pytest.mark.timeout(300)
def test_several_processes_run_an_evaluation_once(project: pytest.Pytester) -> None:
    body = """
import pathlib

@Evaluation.test(cases=CASES, trials=2, at_least=0.8)
async def test_stars(review):
    with open(pathlib.Path(__file__).with_name("calls"), "a") as file:
        file.write("x")
    return len(review)

@Evaluation.test(cases=CASES)
async def test_no_model(review):
    return await stars(review)
"""
    project.makepyfile(test_it=PREAMBLE + body)
    result = project.runpytest_subprocess("-n2", "-rs", "--evaluation-reports=reports")
    result.assert_outcomes(passed=2, failed=1, skipped=3)
    result.stdout.fnmatch_lines(["test_it.test_stars: missed, *"])
    result.stdout.fnmatch_lines(["*no model: give --evaluation-model*"])
    assert Path(project.path, "calls").read_text() == "x" * 6
    assert len(re.findall(r"^test_it\.test_stars: ", result.stdout.str(), re.MULTILINE)) == 1
    assert load_report(project.path / "reports" / "test_it.test_stars.jsonl").decided == 6


@pytest.mark.parametrize("processes", ["0", "2"])
def test_parametrized_evaluations_are_evaluations_of_their_own(
    project: pytest.Pytester, processes: str
) -> None:
    body = """
def counting(amount):
    return CallbackExecutor(lambda call: pass_response(count=amount))

@pytest.mark.parametrize("evaluation_executor", [counting(4), counting(2)])
@Evaluation.test(cases=CASES[:2], at_least=0)
async def test_stars(review):
    return await stars(review)

@pytest.mark.parametrize("evaluation_executor", ["openai-chat:a", "openai-chat: a"])
@Evaluation.test(cases=CASES[:2], at_least=0)
async def test_named(review):
    return 4
"""
    folder = project.path / "reports"
    options = ["-n", processes] if processes != "0" else []
    environment = pytest.MonkeyPatch()
    environment.setenv("OPENAI_API_KEY", "none")
    try:
        result = run(project, body, f"--evaluation-reports={folder}", *options)
    finally:
        environment.undo()
    result.assert_outcomes(passed=8)
    passed = {
        path.stem: [case.name for case in load_report(path).cases if case.passed] for path in folder.iterdir()
    }
    assert passed["test_it.test_stars.evaluation_executor0"] == ["four"]
    assert passed["test_it.test_stars.evaluation_executor1"] == ["two"]
    assert len(passed) == 4


@pytest.mark.parametrize(
    ("body", "options", "reason"),
    [
        ("return Evaluation(stars, CASES, model=COUNTING)", ["--evaluation-reports=test_it.py"], "exists"),
        ("raise OSError('no disk')", [], "no disk"),
        ("return Evaluation(stars, CASES, model=COUNTING, timeout='x')", [], "timeout"),
        ("return Evaluation(stars, CASES)", ["--evaluation-model="], "Model id '' is not of the form"),
    ],
    ids=["reports", "function", "setting", "model"],
)
def test_an_evaluation_that_cannot_run_fails_its_tests_and_is_tried_once(
    project: pytest.Pytester, body: str, options: list[str], reason: str
) -> None:
    made = f"""
CALLS = []

@Evaluation.test(at_least=0.5)
def test_stars():
    CALLS.append(1)
    if len(CALLS) == 1:  # of the collection
        return Evaluation(stars, CASES, model=COUNTING)
    assert len(CALLS) == 2
    {body}
"""
    result = run(project, made, *options)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines([f"*{reason.replace('[', '[[]')}*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
