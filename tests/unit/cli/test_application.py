"""The command line as a whole: help, version, exit codes and one-line errors."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nighthawk_async import __version__
from nighthawk_async.cli import main
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.errors import ExecutionError, ModelConnectionError, UnknownModelError

Captured = pytest.CaptureFixture[str]


def test_the_version_is_printed(capsys: Captured) -> None:
    assert run_command_line(["--version"]) == 0
    assert capsys.readouterr().out == f"nighthawk-async {__version__}\n"


def test_help_names_the_commands(capsys: Captured) -> None:
    assert run_command_line(["--help"]) == 0
    output = capsys.readouterr().out
    assert "demo" in output
    assert "models" in output
    assert "..." not in output.partition("Commands:")[2]  # no description is cut


@pytest.mark.parametrize(
    "arguments", [["fly"], ["demo", "--max-concurrent", "0"], ["models", "pull"], ["--nothing"]]
)
def test_a_wrong_command_line_is_explained_with_exit_code_2(arguments: list[str], capsys: Captured) -> None:
    assert run_command_line(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Error" in captured.err
    assert "Traceback" not in captured.err


def demo_that_raises(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def pull(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("nighthawk_async.cli.models_commands.pull_weights", pull)
    return run_command_line(["models", "pull", "smollm2-135m"])


def test_an_error_is_one_line_without_a_traceback(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert demo_that_raises(ModelConnectionError("no connection\nto 127.0.0.1"), monkeypatch) == 1
    assert capsys.readouterr().err == "nighthawk-async: no connection to 127.0.0.1\n"


def test_a_wrong_setting_ends_with_exit_code_2(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert demo_that_raises(UnknownModelError("no such model"), monkeypatch) == 2
    assert capsys.readouterr().err == "nighthawk-async: no such model\n"


def test_ctrl_c_ends_with_exit_code_130(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert demo_that_raises(KeyboardInterrupt(), monkeypatch) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_ctrl_c_inside_a_task_group_ends_with_exit_code_130(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = BaseExceptionGroup("inner", [KeyboardInterrupt()])
    group = BaseExceptionGroup("tasks", [inner, ExecutionError("x")])
    assert demo_that_raises(group, monkeypatch) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_errors_of_several_tasks_are_one_line_each_and_repeated_ones_one(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = ExceptionGroup("inner", [ExecutionError("second")])
    group = ExceptionGroup("tasks", [ExecutionError("first"), ExecutionError("first"), inner])
    assert demo_that_raises(group, monkeypatch) == 1
    assert capsys.readouterr().err == "nighthawk-async: first\nnighthawk-async: second\n"


def test_an_exit_inside_a_task_group_ends_silently_with_exit_code_1(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = BaseExceptionGroup("inner", [SystemExit(1)])
    group = BaseExceptionGroup("tasks", [inner, ExecutionError("x")])
    assert demo_that_raises(group, monkeypatch) == 1
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_an_exit_hides_no_error_that_is_not_the_librarys_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BaseExceptionGroup):
        demo_that_raises(BaseExceptionGroup("tasks", [SystemExit(1), ZeroDivisionError()]), monkeypatch)


def test_an_error_that_is_not_the_librarys_own_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        demo_that_raises(ZeroDivisionError(), monkeypatch)
    with pytest.raises(ExceptionGroup):
        demo_that_raises(ExceptionGroup("tasks", [ExecutionError("x"), ZeroDivisionError()]), monkeypatch)


def test_main_exits_with_the_code(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(sys, "argv", ["nighthawk-async", "models", "pull", "nothing"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "smollm2-135m" in capsys.readouterr().err


def test_the_package_can_be_run_with_python_m() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nighthawk_async", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"nighthawk-async {__version__}\n"


def test_ctrl_c_while_the_command_is_loaded_ends_the_process_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "nighthawk_async", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


PULL_FOREVER = """
import sys, time
from nighthawk_async.cli import main, models_commands

def pull(*arguments, **options):
    print("pulling", flush=True)
    time.sleep(60)

models_commands.pull_weights = pull
sys.argv = ["nighthawk-async", "models", "pull", "smollm2-135m"]
main()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
def test_a_real_ctrl_c_ends_the_process_with_one_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PULL_FOREVER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "pulling\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(240) == 130
            assert process.stderr.read().strip() == "interrupted"
        finally:
            process.kill()


@pytest.mark.parametrize("missing", ["rich", "typer"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    program = (
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *more: None if name == {missing!r} else find(name, *more)\n"
        "from nighthawk_async.cli import main\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "demo"], capture_output=True, text=True, timeout=240
    )
    assert ended.returncode == 2
    assert ended.stderr == (
        f"nighthawk-async: the command line needs {missing}; install the extra 'cli': "
        "pip install 'nighthawk-async[cli]'\n"
    )
