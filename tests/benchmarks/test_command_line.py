"""`python -m benchmarks`, from its arguments to its exit status and files, with processes of their own."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tests.benchmarks.made_up import HEAD, CommandLine

SLEEPER = """
import time

def sleep(operations):
    for _ in range(operations):
        time.sleep({seconds})

BENCHMARKS = (
    Benchmark(name="sleeper", what="one nap", run=sleep, operations=2, quick_operations=1, rounds=3),
)
"""

COUNTED = """
seconds = iter({seconds})
BENCHMARKS = (
    Benchmark(
        name="counted", what="nothing", run=lambda _: next(seconds), operations=1, quick_operations=1,
        rounds={rounds}, is_warmed_up=False,
    ),
)
"""

MIXED = """
import os

def crash(_):
    raise RuntimeError("the anchor broke")

def vanish(_):
    os._exit(7)

def lack(_):
    raise CannotMeasureHereError("there is no anchor")

def hang(_):
    import time
    time.sleep(600)

BENCHMARKS = tuple(
    Benchmark(name=name, what=name, run=run, operations=1, quick_operations=1, timeout=seconds)
    for name, run, seconds in {runs}
)
"""

STARTS_AN_INTERPRETER = """
import subprocess, sys

def start(_):
    program = "import part, pathlib; assert pathlib.Path(part.__cached__).exists()"
    subprocess.run([sys.executable, "-c", program], check=True)

BENCHMARKS = (Benchmark(name="starter", what="one start", run=start, operations=1, quick_operations=1),)
"""


def counted(*seconds: float) -> str:
    return COUNTED.format(seconds=seconds, rounds=len(seconds))


def mixed(*names: str, hang_seconds: float = 60) -> str:
    functions = {name: "lambda _: 1.0" if name == "good" else name for name in names}
    limits = {name: hang_seconds if name == "hang" else 60 for name in names}
    rows = (f"({name!r}, {functions[name]}, {limits[name]})" for name in names)
    return MIXED.format(runs=f"({', '.join(rows)},)")


def read(command_line: CommandLine, results: str = "results") -> dict:
    return json.loads(command_line.figures(results).read_text())


def test_a_run_leaves_its_figures_and_a_page(command_line: CommandLine) -> None:
    assert command_line.run(counted(3.0, 1.0, 2.0)) == 0
    (outcome,) = read(command_line)["outcomes"]
    (result,) = outcome["results"]
    assert (result["benchmark"], result["metric"], result["unit"]) == ("counted", "wall", "seconds")
    assert (result["rounds"], result["median"], result["spread"]) == ([3.0, 1.0, 2.0], 2.0, 1.0)
    assert "| counted | nothing | wall | 2 s | 1 s | 1 s | 3 s |" in (
        command_line.results("results") / "results.md"
    ).read_text(encoding="utf-8")


def test_a_deliberate_slowdown_is_flagged(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(SLEEPER.format(seconds=0.001), results="before") == 0
    before = str(command_line.figures("before"))
    assert command_line.run(SLEEPER.format(seconds=0.2), "--against", before) == 1
    assert "REGRESSION: sleeper (wall)" in capsys.readouterr().out


def test_equal_noise_is_not_flagged(command_line: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(counted(1.0, 1.2, 0.9, 1.1, 0.8), results="before") == 0
    before = str(command_line.figures("before"))
    assert command_line.run(counted(1.25, 0.95, 1.15, 1.35, 1.1), "--against", before) == 0
    assert "1 lines compared, 0 regressions" in capsys.readouterr().out


def test_what_cannot_be_compared_is_said(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(mixed("lack"), results="before") == 0
    before = str(command_line.figures("before"))
    assert command_line.run(counted(1.0), "--against", before) == 1
    told = capsys.readouterr().out
    assert "not compared: counted (wall): not measured in the earlier run" in told
    assert "0 lines compared" in told


@pytest.mark.parametrize("suite", [(), ("--quick",)])
def test_a_crash_is_told_and_the_others_go_on(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str], suite: tuple[str, ...]
) -> None:
    assert command_line.run(mixed("crash", "vanish", "good"), *suite) == 1
    told = capsys.readouterr().out
    assert "RuntimeError: the anchor broke" in told
    assert "ended with status 7" in told
    states = {each["benchmark"]: each["state"] for each in read(command_line)["outcomes"]}
    assert states == {"crash": "failed", "vanish": "failed", "good": "measured"}


def test_a_benchmark_that_hangs_is_given_up(command_line: CommandLine) -> None:
    assert command_line.run(mixed("hang", "good", hang_seconds=1)) == 1
    outcomes = read(command_line)["outcomes"]
    assert [each["state"] for each in outcomes] == ["failed", "measured"]
    assert outcomes[0]["reason"].startswith("given up after 1 seconds")


def test_what_a_benchmark_says_is_told(command_line: CommandLine, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run('print("three steps failed")\n' + counted(1.0)) == 0
    assert "three steps failed" in capsys.readouterr().out
    assert "three steps failed" in (command_line.results("results") / "results.md").read_text()


def test_programs_run_from_compiled_files_where_the_shell_forbids_writing_them(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (command_line.folder / "part.py").write_text("")
    assert command_line.run(STARTS_AN_INTERPRETER) == 0


def test_what_this_machine_lacks_is_no_failure(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(mixed("lack", "good")) == 0
    assert "there is no anchor" in capsys.readouterr().out


def test_other_load_is_noted_for_each_benchmark(command_line: CommandLine) -> None:
    command_line.run(counted(1.0))
    (outcome,) = read(command_line)["outcomes"]
    share = outcome["load"]["others_share"]
    assert share is None or 0 <= share <= 1


def test_a_quick_run_notes_no_load(command_line: CommandLine) -> None:
    command_line.run(counted(1.0), "--quick")
    (outcome,) = read(command_line)["outcomes"]
    assert outcome["load"] is None


def test_figures_are_written_where_one_wants_them(command_line: CommandLine) -> None:
    file = command_line.folder / "else" / "where.json"
    assert command_line.run(counted(1.0), "--json", str(file)) == 0
    assert file.read_bytes() == command_line.figures("results").read_bytes()


def test_benchmarks_are_listed_without_measuring(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(mixed("crash"), "--list") == 0
    assert "crash: crash" in capsys.readouterr().out
    assert not command_line.results("results").exists()


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-benchmark"]) == 2
    assert "no-such-benchmark" in capsys.readouterr().err


def test_an_unknown_module_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--from", "no_such_module"]) == 2
    assert "no_such_module" in capsys.readouterr().err


def test_a_module_that_lacks_what_it_imports_shows_where(command_line: CommandLine) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        command_line.run("import no_such_module")


@pytest.mark.parametrize("content", [None, "no JSON", "{}"])
def test_a_bad_earlier_run_is_refused_before_anything_is_measured(
    command_line: CommandLine, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    before = command_line.folder / "before.json"
    if content is not None:
        before.write_text(content)
    assert command_line.run(counted(1.0), "--against", str(before)) == 2
    assert "before.json" in capsys.readouterr().err
    assert not command_line.results("results").exists()


def test_the_suite_is_carried_out_by_name(command_line: CommandLine) -> None:
    folder = str(command_line.results("results"))
    assert main(["--quick", "--results", folder, "mailbox"]) == 0
    report = read(command_line)
    assert {each["benchmark"] for each in report["outcomes"]} == {"mailbox-asyncio", "mailbox-trio"}
    assert report["suite"] == "quick"


HANGS = """
import os, pathlib, time

def hang(_):
    pathlib.Path({told!r}).write_text(str(os.getpid()))
    time.sleep(600)

BENCHMARKS = (Benchmark(name="hang", what="nothing", run=hang, operations=1, quick_operations=1),)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_suite_that_is_ended_ends_the_process_that_it_measures(tmp_path: Path) -> None:
    told = tmp_path / "process"
    (tmp_path / "hanging.py").write_text(HEAD + HANGS.format(told=str(told)))
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--from",
        "hanging",
        "--results",
        str(tmp_path / "results"),
    ]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": paths}) as suite:
        try:
            while not (told.exists() and told.read_text()):
                assert suite.poll() is None
            suite.terminate()
            assert suite.wait(240) == 128 + signal.SIGTERM
        finally:
            suite.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)
