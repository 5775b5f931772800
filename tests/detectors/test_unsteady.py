"""Failed tests of a whole run are run once more; those that pass then are named, and forgiven twice."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unsteady import MOST_FAILED, Record, judge

HERE = Path(__file__).parents[2]


def record(*failed: str, session: str = "tests-3.11", exit_status: int = 1) -> Record:
    return Record(session=session, exit_status=exit_status, failed=list(failed))


@pytest.mark.parametrize(
    ("records", "again", "passes", "lines"),
    [
        ([record(exit_status=0)], set(), False, ["tests-3.11 did not run to its end (exit status 0)"]),
        ([record("a"), record(exit_status=-1)], set(), False, ["tests-3.11 did not run to its end"]),
        ([record("a", "b")], set(), True, ["UNSTEADY tests-3.11 a", "UNSTEADY tests-3.11 b"]),
        (
            [record("a"), record("b", session="ray")],
            {"b"},
            False,
            ["UNSTEADY tests-3.11 a", "FAILED AGAIN ray b"],
        ),
        ([record("a", "b"), record("c", session="ray")], set(), False, ["3 unsteady tests are more than 2"]),
        ([record("a", exit_status=2)], set(), False, ["tests-3.11 did not run to its end (exit status 2)"]),
        ([record(*map(str, range(MOST_FAILED + 1)))], set(), False, ["21 tests failed; with more than 20"]),
    ],
)
def test_a_run_passes_with_at_most_two_unsteady_tests(
    records: list[Record], again: set[str], passes: bool, lines: list[str]
) -> None:
    said: list[str] = []
    assert judge(records, lambda each: again & {*each.failed}, said.append) is passes
    for line in lines:
        assert any(each.startswith(line) for each in said), said


CASES = """
from pathlib import Path
import pytest

def test_good(): pass

@pytest.mark.parametrize("text", ["a b", "c::d[e]", "\\n"])
def test_unsteady(text):
    mark = Path(__file__).with_name("seen")
    assert text != "c::d[e]" or mark.exists() or mark.touch()

def test_bad(): assert 0

@pytest.fixture
def broken():
    yield
    raise OSError

def test_cleanup(broken): pass
"""

CONFTEST = """
from tests.unsteady import take_recorder

def pytest_configure(config):
    recorder = take_recorder()
    if recorder is not None:
        config.pluginmanager.register(recorder)
"""

NOX = """
import subprocess, sys
session, *tests = sys.argv[sys.argv.index("--session") + 1:]
sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", *tests[1:]]))
"""


def run_python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)


def test_what_fails_twice_is_told_from_what_is_unsteady(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "nox.py").write_text(NOX)  # what the environment of a session adds takes too long here
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = " + str(HERE))
    records = tmp_path / "records"
    records.mkdir()
    monkeypatch.setenv("NIGHTHAWK_FAILED_TESTS", str(records))
    monkeypatch.setenv("NOX_CURRENT_SESSION", "tests-3.11")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{HERE}")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    first = run_python("-m", "pytest", "-q", "-p", "xdist", "-n", "2", folder=tmp_path)
    assert "2 failed, 4 passed, 1 error" in first.stdout, first.stdout
    judged = run_python("-m", "tests.unsteady", str(records), "tests-3.11", folder=tmp_path)
    assert judged.returncode == 1
    assert sorted(judged.stdout.splitlines()) == [
        "FAILED AGAIN tests-3.11 test_cases.py::test_bad",
        "FAILED AGAIN tests-3.11 test_cases.py::test_cleanup",
        "UNSTEADY tests-3.11 test_cases.py::test_unsteady[c::d[e]]",
    ]
