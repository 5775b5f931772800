"""`nighthawk-async eval`: its targets, exit statuses, files, and how it is interrupted and goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

if os.name != "posix":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.evals import load_report
from nighthawk_async.testing import ModelReply, ModelServer, tool_call
from tests.unit.cli.terminals import Terminal
from tests.unit.evals.junit_schema import violations
from tests.warm_python import WarmPopen, run_warm

pytestmark = pytest.mark.usefixtures("warm_python")

Captured = pytest.CaptureFixture[str]

SHOP = """
import os
import anyio
import nighthawk_async as nh
from nighthawk_async.evals import Case, Evaluation, equals
from nighthawk_async.testing import CallbackExecutor, pass_response

cases = [Case(f"case {number}", inputs={"number": number}, expected=number) for number in range(8)]
scorers = [equals()]

async def same(number: int) -> int:
    return number

async def mostly(number: int) -> int:
    return number if number < 6 else -1

async def rarely(number: int) -> int:
    return -number

async def waits(number: int) -> int:
    while number >= 3 and not os.path.exists("go"):
        await anyio.sleep(0.01)
    with open("calls", "a") as file:
        file.write(f"{number} ")
    return number

@nh.natural_function
async def stars(review: str) -> int:
    count: int
    '''natural
    Set <:count> to the number of stars of <review>.
    '''
    return count

reviews = [Case("four", inputs={"review": "****"}, expected=4)]
natural = Evaluation(stars, reviews)
counting = Evaluation(
    stars, reviews, model=CallbackExecutor(lambda call: pass_response(count=4)), name="counting"
)
gated = Evaluation(mostly, cases, trials=2, at_least=0.8)
several = [Evaluation(same, cases, at_least=1), Evaluation(mostly, cases)]
subject = same

@Evaluation.test(cases=reviews)
async def test_stars(review):
    return len(review)

@Evaluation.test(trials=3)
def test_made():
    return Evaluation(same, cases)

nothing = 3
"""

LONE = """
from nighthawk_async.evals import Case, Evaluation
def one():
    return 1

evaluation = Evaluation(one, [Case("one", expected=1)], name="lone")
other = Evaluation(one, [], name="other")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules of evaluations, which is the current one."""
    (tmp_path / "eval_shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "eval_lone.py").write_text(LONE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("eval_shop", "eval_lone", "eval_broken"):
        sys.modules.pop(name, None)


def evaluate(*arguments: str) -> int:
    return run_command_line(["eval", *arguments])


@pytest.mark.parametrize(
    ("arguments", "status", "shown"),
    [
        ("eval_shop:same", 0, "eval_shop:same: 8 cases, 1 trials each"),
        ("eval_shop.py:same", 0, "8 passed"),
        ("eval_shop:mostly", 0, "6 passed, 2 failed"),
        ("eval_shop:mostly --at-least 0.75", 0, "passed"),
        ("eval_shop:mostly --at-least 0.76", 1, "the pass rate is 0.750, and has to be at least 0.76"),
        ("eval_shop:gated", 1, "12 passed, 4 failed"),
        ("eval_shop:gated --at-least 0.5 --trials 3", 0, "18 passed, 6 failed"),
        ("eval_shop:several", 0, "eval_shop:mostly: 8 cases"),
        ("eval_shop:test_stars --model openai-chat:any", 0, "1 passed"),
        ("eval_shop:test_made", 0, "8 cases, 3 trials each"),
        ("eval_shop:counting --backend asyncio", 0, "counting: 1 cases"),
        ("eval_lone", 0, "lone: 1 cases"),
        ("eval_shop:same eval_lone", 0, "lone: 1 cases"),
    ],
)
def test_the_exit_status_is_that_of_the_gates(
    shop: Path, arguments: str, status: int, shown: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert evaluate(*arguments.split()) == status
    assert shown in capsys.readouterr().out


def test_progress_goes_to_standard_error_a_line_for_each_case(shop: Path, capsys: Captured) -> None:
    assert evaluate("eval_shop:mostly", "--trials", "2") == 0
    told = capsys.readouterr()
    lines = told.err.splitlines()
    assert lines[0] == "eval_shop:mostly: 16 trials"
    assert [line.partition("]")[0] for line in lines[1:]] == [f"[{number}" for number in range(1, 9)]
    assert sum("0 of 2 passed" in line for line in lines) == 2
    assert told.out.splitlines()[-1] == "passed"
    assert told.out.splitlines()[1].split() == [
        "case",
        "6",
        "0/2",
        "0.00s",
        "equals:",
        "-1",
        "is",
        "not",
        "6",
    ]
    assert evaluate("eval_shop:mostly", "--quiet") == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "there is no module 'nowhere'"),
        (["nowhere.py:f"], "there is no module 'nowhere'"),
        (["eval_shop:missing"], "the module has no 'missing'; it has counting, gated, natural"),
        (["eval_shop:nothing"], "is no evaluation and no function, but 3"),
        (["eval_shop:"], "is no evaluation; write module:name"),
        (["json:dumps"], "its module has no cases"),
        (["json"], "the module has no evaluation; give it one"),
        (["eval_lone:other"], "needs at least one case"),
        (["eval_shop:same", "--at-least", "2"], "--at-least"),
        (["eval_shop:same", "--trials", "0"], "--trials"),
        (["eval_shop:same", "--baseline", "none.jsonl"], "none.jsonl"),
        (["eval_shop:same", "--report", "eval_shop.py"], "eval_shop.py"),
        (["eval_shop:same", "--junit", "no/junit.xml"], "no/junit.xml cannot be written"),
        (["eval_shop:same", "--report", "r.jsonl", "--baseline", "./r.jsonl"], "are the same file"),
        (["eval_shop:same", "--base-url", "http://localhost"], "--base-url needs --model"),
        (["eval_shop:several", "--report", "eval_shop.py"], "there are several evaluations: give a folder"),
        (["eval_shop:same", "eval_shop:same"], "two evaluations have the name eval_shop.same"),
        (["eval_shop:natural", "--model", "nonsense"], "nonsense"),
        (["eval_shop:natural", "--model", "openai-chat:any"], "OPENAI_API_KEY"),
        (["eval_shop:natural", "--model", ""], "Model id '' is not of the form"),
        (["eval_shop:same", "eval_lone:other"], "needs at least one case"),
        (["eval_shop:same", "--case", "9", "--case", "ten"], "no case has '9' or 'ten' in its name"),
        (["eval_shop:same", "--timeout", "-1"], "--timeout"),
        (["eval_shop:same", "--timeout", "nan"], "--timeout"),
        (["eval_shop:same", "--budget-usd", "inf"], "A budget of cost is a number"),
        (["eval_shop:same", "--report", "no/r.jsonl"], "no/r.jsonl cannot be written: there is no folder no"),
        (["eval_shop:several", "--report", "eval_shop.py/r"], "Not a directory: 'eval_shop.py/r'"),
        (["eval_shop:same", "--junit", "."], ". cannot be written: it is a folder"),
        (["eval_shop:same", "--junit", "o.xml", "--markdown", "./o.xml"], "o.xml is the file of two options"),
        (["eval_shop:same", "--html", "o.html", "--markdown", "o.html"], "o.html is the file of two options"),
        (["eval_shop:same", "--html", "o.html", "--report", "./o.html"], "o.html is the file of two options"),
        (["eval_shop:same", "--html", "no/o.html"], "no/o.html cannot be written: there is no folder no"),
        (["eval_shop:several", "--html", "eval_shop.py"], "there are several evaluations: give a folder"),
        (
            ["eval_shop:same", "--junit", "r.jsonl", "--report", "r.jsonl"],
            "r.jsonl is the file of two options",
        ),
    ],
)
def test_what_is_wrong_is_told_in_a_line_with_status_2(
    shop: Path, arguments: list[str], reason: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert evaluate(*arguments) == 2
    told = capsys.readouterr().err
    assert reason in " ".join(told.split())
    assert "Traceback" not in told
    assert "passed" not in told


@pytest.mark.parametrize(
    "text",
    ["import missing_dependency", "def (", "raise RuntimeError", "import sys; sys.exit(0)", "1 / 0"],
    ids=["dependency", "syntax", "error", "exit", "zero"],
)
def test_a_module_that_cannot_be_loaded_has_status_2_and_a_traceback(
    shop: Path, text: str, capsys: Captured
) -> None:
    (shop / "eval_broken.py").write_text(text)
    assert evaluate("eval_shop:same", "eval_broken") == 2
    told = capsys.readouterr()
    assert "Traceback" in told.err
    assert "eval_broken cannot be loaded: " in told.err.splitlines()[-1]
    assert told.out == ""


def test_control_characters_and_surrogates_of_names_and_results_are_not_shown(
    shop: Path, capsys: Captured
) -> None:
    (shop / "eval_lone.py").write_text(
        "from nighthawk_async.evals import Case, Evaluation\n"
        "def bad(text):\n    return text\n"
        "cases = [Case('a\\x1b[2J\\n|b', inputs={'text': '\\x1b[31m\\ud800'}, expected='')]\n"
        "evaluation = Evaluation(bad, cases, name='x\\x1b[2J')\n"
    )
    assert evaluate("eval_lone", "--markdown", "m.md", "--junit", "j.xml", "--report", "r.jsonl") == 0
    told = capsys.readouterr()
    page = (shop / "m.md").read_text(encoding="utf-8")
    assert "\x1b" not in told.out + told.err + page
    assert page.splitlines()[6].startswith("| a \\[2J \\|b | **failed** |")
    assert violations(ElementTree.parse(shop / "j.xml").getroot()) == []
    assert load_report("r.jsonl").trials[0].output == "\x1b[31m\\ud800"


def test_a_default_model_that_is_not_available_ends_the_evaluation(
    shop: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        from nighthawk_async.errors import ConfigurationError

        raise ConfigurationError("the extra is not installed.")

    monkeypatch.setattr("nighthawk_async.cli.run_command.prepare_local_model", refuse)
    assert evaluate("eval_shop:natural") == 2
    assert "the extra is not installed. Or name another model: --model" in capsys.readouterr().err


def test_a_report_is_a_baseline_and_a_regression_has_status_1(shop: Path, capsys: Captured) -> None:
    assert evaluate("eval_shop:same", "--report", "good.jsonl") == 0
    text = (
        (shop / "eval_shop.py")
        .read_text()
        .replace("return number\n\nasync def mostly", "return -1\n\nasync def mostly")
    )
    (shop / "eval_shop.py").write_text(text)
    sys.modules.pop("eval_shop")
    arguments = ["eval_shop:same", "--baseline", "good.jsonl", "--junit", "j.xml", "--markdown", "m.md"]
    assert evaluate(*arguments, "--html", "page.html") == 1
    page = (shop / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "regressed" in page
    out = capsys.readouterr().out
    assert "regressed: pass rate -1.000" in out
    assert out.rstrip().endswith("regressed")
    root = ElementTree.parse(shop / "j.xml").getroot()
    assert violations(root) == []
    assert root[0].get("failures") == "8"
    assert "### eval\\_shop:same: regressed" in (shop / "m.md").read_text(encoding="utf-8")
    assert evaluate("eval_shop:rarely", "--baseline", "good.jsonl") == 2
    assert "The baseline is a report on eval_shop:same" in capsys.readouterr().err


def test_several_evaluations_have_a_file_each_in_a_folder(shop: Path) -> None:
    assert evaluate("eval_shop:several", "--report", "reports", "--markdown", "m.md") == 0
    names = ["eval_shop.mostly.jsonl", "eval_shop.same.jsonl"]
    assert evaluate("eval_shop:several", "--report", "reports", "--html", "pages/of/today") == 0
    pages = sorted((shop / "pages" / "of" / "today").iterdir())
    assert [page.name for page in pages] == ["eval_shop.mostly.html", "eval_shop.same.html"]
    assert sorted(path.name for path in (shop / "reports").iterdir()) == names
    assert (shop / "m.md").read_text(encoding="utf-8").count("### ") == 3
    assert evaluate("eval_shop:several", "--baseline", "reports", "--strict") == 0


def test_several_evaluations_are_shown_side_by_side(shop: Path, capsys: Captured) -> None:
    assert evaluate("eval_shop:several", "--case", "case 5", "--case", "case 6", "--markdown", "m.md") == 0
    shown = capsys.readouterr().out.splitlines()
    table = shown[next(index for index, line in enumerate(shown) if line.startswith("cases ")) :]
    assert [line.split()[:4] for line in table[:3]] == [
        ["cases", "evaluation", "passed", "pass"],
        ["all", "same", "2/2", "1.000"],
        ["mostly", "1/2", "0.500", "0.000"],
    ]
    assert table[3].startswith("same compared with mostly: inconclusive: pass rate +0.500")
    page = (shop / "m.md").read_text(encoding="utf-8")
    assert "### Side by side\n\n| cases | evaluation | passed | pass rate |" in page
    assert "\n| all | mostly | 1/2 | 0.500 |" in page


def test_the_budget_is_that_of_all_evaluations_together(shop: Path, capsys: Captured) -> None:
    with (shop / "eval_shop.py").open("a") as file:
        file.write('twice = [natural, Evaluation(stars, reviews, name="again")]\n')
    calls = (
        tool_call("nh_assign", target_path="count", expression="4"),
        tool_call("nh_outcome", kind="pass"),
    )
    usage = nh.Usage(requests=1, input_tokens=300_000, output_tokens=5)
    reply = ModelReply(tool_calls=calls, usage=usage)
    with ModelServer.in_thread(lambda request: reply) as server:
        arguments = ["eval_shop:twice", "--model", "openai-chat:gpt-4o", "--base-url", server.base_url]
        os.environ["OPENAI_API_KEY"] = "none"
        try:
            assert evaluate(*arguments, "--budget-usd", "0.7", "--report", "reports") == 3
            assert len(server.requests) == 1
            assert evaluate(*arguments, "--budget-usd", "0.7", "--report", "reports") == 0
        finally:
            del os.environ["OPENAI_API_KEY"]
    assert "no trial was decided: the budget is spent" in capsys.readouterr().out


def test_an_evaluation_that_its_budget_ends_is_inconclusive_when_strict(shop: Path, capsys: Captured) -> None:
    calls = (
        tool_call("nh_assign", target_path="count", expression="4"),
        tool_call("nh_outcome", kind="pass"),
    )
    with ModelServer.in_thread(lambda request: ModelReply(tool_calls=calls)) as server:
        arguments = ["eval_shop:natural", "--model", "openai-chat:gpt-4o", "--base-url", server.base_url]
        os.environ["OPENAI_API_KEY"] = "none"
        try:
            assert evaluate(*arguments, "--trials", "3", "--report", "r.jsonl") == 0
            assert evaluate(*arguments, "--budget-usd", "0.0000001", "--max-concurrent", "1") == 3
        finally:
            del os.environ["OPENAI_API_KEY"]
    assert load_report("r.jsonl").model == "openai-chat:gpt-4o"
    assert load_report("r.jsonl").pass_rate == 1
    out = capsys.readouterr().out
    assert "no trial was decided: the budget is spent" in out
    assert out.rstrip().endswith("inconclusive")


def start(folder: Path, *arguments: str) -> WarmPopen:
    return WarmPopen(
        [sys.executable, "-m", "nighthawk_async", "eval", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_in_pipes(folder: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment: Mapping[str, str] = {**os.environ, "PYTHONUTF8": "1", **variables}
    command = [sys.executable, "-m", "nighthawk_async", "eval", *arguments]
    return run_warm(command, folder=folder, variables=environment)


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
@pytest.mark.parametrize("options", [[], ["--report", "kept.jsonl"]], ids=["no report", "report"])
def test_ctrl_c_keeps_what_is_decided_and_the_same_command_goes_on(
    shop: Path, backend: str, options: list[str]
) -> None:
    with start(shop, "eval_shop:waits", "--backend", backend, *options) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(4)]
        assert sum("1 of 1 passed" in line for line in lines) == 3
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "Traceback" not in errors
    kept = options[-1] if options else "eval_shop.waits.jsonl"
    assert f"interrupted: 3 of 8 trials are decided, and kept in {kept}." in errors
    assert load_report(shop / kept).decided == 3
    (shop / "go").touch()
    done = run_in_pipes(shop, "eval_shop:waits", "--backend", backend, "--report", kept)
    assert (done.returncode, "8 trials, 3 of them in the report already" in done.stderr) == (0, True)
    assert "8 passed" in done.stdout
    assert sorted((shop / "calls").read_text().split()) == [str(number) for number in range(8)]
    again = run_in_pipes(shop, "eval_shop:waits", "--report", kept)
    assert (again.returncode, "all of them in the report already" in again.stderr) == (0, True)
    assert len((shop / "calls").read_text().split()) == 8


def test_ctrl_c_keeps_all_of_several_evaluations(shop: Path) -> None:
    with start(shop, "eval_shop:same", "eval_shop:waits") as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("eval_shop:waits"):
            pass
        assert all("1 of 1 passed" in process.stderr.readline() for _ in range(3))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "kept in evaluation-reports. The same command with --report evaluation-reports goes on." in errors
    (shop / "go").touch()
    done = run_in_pipes(shop, "eval_shop:same", "eval_shop:waits", "--report", "evaluation-reports")
    assert done.returncode == 0
    assert "eval_shop:same: 8 trials, all of them in the report already" in done.stderr
    assert sorted((shop / "calls").read_text().split()) == [str(number) for number in range(8)]


def test_a_terminal_shows_a_bar_while_trials_are_in_flight(shop: Path) -> None:
    with Terminal(["eval", "eval_shop:waits"], folder=shop, columns=120) as terminal:
        terminal.wait_for("3/8 3 passed")
        (shop / "go").touch()
        assert terminal.finish() == 0
    assert "8 passed" in terminal.shown


def test_ctrl_c_before_a_trial_is_decided_leaves_no_file(shop: Path) -> None:
    (shop / "eval_lone.py").write_text(
        "import anyio\nfrom nighthawk_async.evals import Case, Evaluation\n"
        "async def wait():\n    print('begun', flush=True)\n    await anyio.sleep_forever()\n"
        "evaluation = Evaluation(wait, [Case('one')])\n"
    )
    with start(shop, "eval_lone") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "interrupted before a trial was decided"
    assert list(shop.glob("*.jsonl")) == []


def test_a_natural_function_is_evaluated_on_a_model_that_is_named(shop: Path) -> None:
    calls = (
        tool_call("nh_assign", target_path="count", expression="4"),
        tool_call("nh_outcome", kind="pass"),
    )
    with ModelServer.in_thread([ModelReply(tool_calls=calls)]) as server:
        done = run_in_pipes(
            shop,
            *("eval_shop:natural", "--model", "openai-chat:any", "--at-least", "1"),
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="none",
        )
    assert done.returncode == 0, done.stderr
    assert "1 passed\n1 requests" in done.stdout
