"""`nighthawk-async run`: on terminals, in pipes, as JSON; interrupted; and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

if os.name != "posix":
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

from nighthawk_async.cli.application import run_command_line
from nighthawk_async.testing import ModelReply, ModelServer, tool_call
from tests.unit.cli.terminals import Terminal
from tests.warm_python import run_warm

pytestmark = pytest.mark.usefixtures("warm_python")

MOODS = """
import os, sys, time, anyio
import nighthawk_async as nh
from nighthawk_async.testing import CallbackExecutor, pass_response

@nh.natural_function
async def classify(review: str) -> str:
    '''natural
    Set <:label> to the mood of <review>.
    '''
    return label

async def answer(call):
    review = call.step_locals["review"]
    if review == "wait":
        while not os.path.exists("go"):
            await anyio.sleep(0.01)
    if review == "fail":
        raise ValueError("no label \\x1b[2J for it")
    return pass_response(label="good")

async def classify_all(*reviews: str):
    labels = []
    async with nh.run(CallbackExecutor(answer)):
        for review in reviews:
            try:
                labels.append(await classify(review))
            except ValueError as error:
                labels.append(type(error).__name__)
    return labels

def held():
    while not os.path.exists("go"):
        time.sleep(0.01)

if __name__ == "__main__":
    print("before", flush=True)
    print(anyio.run(classify_all, *sys.argv[2:], backend=sys.argv[1]))
"""

INTERRUPTED = """
import sys, anyio

async def main():
    try:
        print("ready", flush=True)
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            print("cleaning up", flush=True)
            if "hang" in sys.argv:
                await anyio.sleep_forever()
            print("clean", flush=True)

if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "moods.py").write_text(MOODS, encoding="utf-8")
    (tmp_path / "interrupted.py").write_text(INTERRUPTED, encoding="utf-8")
    return tmp_path


def run_in_pipes(
    folder: Path, *arguments: str, script: str | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    if script is not None:
        (folder / "script.py").write_text(script, encoding="utf-8")
    return run_warm(
        [sys.executable, "-m", "nighthawk_async", "run", *arguments],
        folder=folder,
        variables={**os.environ, "PYTHONUTF8": "1", **(environment or {})},
    )


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_terminal_shows_the_tree_while_a_script_goes_on_and_at_the_end(folder: Path, backend: str) -> None:
    with Terminal(["run", "moods.py", backend, "quick", "wait", "fail"], folder=folder) as terminal:
        terminal.wait_for("● classify")
        terminal.wait_for("Ctrl-C ends it")
        (folder / "go").touch()
        assert terminal.finish() == 0
    assert "\x1b[2J" not in terminal.raw
    lines = terminal.left.rstrip("\n").split("\n")
    assert lines[:2] == ["before", "['good', 'good', 'ValueError']"]
    assert lines[2].startswith("✓ run ")
    assert any("ValueError: no label  [2J for it" in line for line in lines)
    assert lines[-1].endswith("steps: 2 completed, 1 failed")


def test_what_a_script_prints_stays_whole_and_in_order(folder: Path) -> None:
    script = """
import sys, time, nighthawk_async as nh
print("one line,", end=" ", flush=True)
time.sleep(0.3)
print("in pieces")
sys.stderr.write("an error\\n")
sys.stdout.buffer.write(b"bytes\\n")
print("x" * 200)
print("10 %\\r20 %", end="")
"""
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "script.py"], folder=folder) as terminal:
        assert terminal.finish() == 0
    expected = f"one line, in pieces\nan error\nbytes\n{'x' * 200}\n10 %\r20 %\n"
    assert terminal.left.startswith(expected)
    assert terminal.left[len(expected) :].count("\n") == 1


def test_a_question_of_the_script_has_the_terminal_to_itself(folder: Path) -> None:
    script = "name = input('name? ')\nprint('hello', name)\n"
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "script.py"], folder=folder) as terminal:
        terminal.wait_for("name? ")
        seen = len(terminal.raw)
        terminal.type("Ada\n")
        terminal.wait_for("hello Ada", since=seen)
        assert terminal.finish() == 0
        assert terminal.raw[seen:].startswith("Ada\r\n")


def test_a_secret_is_asked_for_on_a_terminal_of_its_own(folder: Path) -> None:
    script = "import getpass\nword = getpass.getpass('word? ')\nprint('hello', word)\n"
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "script.py"], folder=folder) as terminal:
        terminal.wait_for("word? ")
        seen = len(terminal.raw)
        terminal.type("Ada\n")
        terminal.wait_for("hello Ada", since=seen)
        assert terminal.finish() == 0
        assert terminal.raw[seen:].replace("\r\n", "\n").startswith("\n")
    assert terminal.left.startswith("word? \nhello Ada\n")


def test_the_tree_goes_on_while_the_script_holds_its_thread(folder: Path) -> None:
    with Terminal(["run", "moods.py:held"], folder=folder) as terminal:
        terminal.wait_for("0.3s")
        terminal.wait_for("0.5s")
        (folder / "go").touch()
        assert terminal.finish() == 0


def test_nothing_of_the_display_goes_to_an_output_that_is_no_terminal(folder: Path) -> None:
    with Terminal(["run", "moods.py", "trio", "quick"], folder=folder, separate_output=True) as terminal:
        assert terminal.finish() == 0
        assert terminal.read_output() == "before\n['good']\n"
    assert "✓ run" in terminal.left


def test_a_dumb_terminal_gets_lines_without_movements(folder: Path) -> None:
    with Terminal(
        ["run", "moods.py", "trio", "quick"], folder=folder, environment={"TERM": "dumb"}
    ) as terminal:
        assert terminal.finish() == 0
    assert "\x1b" not in terminal.raw
    assert "function classify #2 began" in terminal.raw
    assert "step __main__:8 #3 completed after" in terminal.raw


def test_a_tree_is_never_higher_than_the_terminal(folder: Path) -> None:
    names = [*["quick"] * 30, *["fail"] * 30, "wait"]
    with Terminal(["run", "moods.py", "trio", *names], folder=folder, lines=12) as terminal:
        terminal.wait_for("● classify")
        terminal.wait_for("30 done")
        terminal.wait_for("more failed")
        (folder / "go").touch()
        assert terminal.finish() == 0
    assert max(map(int, _heights(terminal.raw))) <= 11


def _heights(raw: str) -> list[str]:
    return [part.split("A")[0] for part in raw.split("\x1b[")[1:] if part.split("A")[0].isdigit()]


def test_a_pipe_gets_a_line_for_each_beginning_and_end(folder: Path) -> None:
    done = run_in_pipes(folder, "moods.py", "trio", "quick", "fail")
    assert (done.returncode, done.stdout) == (0, "before\n['good', 'ValueError']\n")
    told = [line.split("s  ", 1)[-1].strip() for line in done.stderr.splitlines()]
    assert told[0] == "function classify #2 began"
    assert told[1] == "step __main__:8 #3 began"
    assert told[2].startswith("step __main__:8 #3 completed after ")
    assert told[-2].startswith("function classify #4 failed after ")
    assert told[-2].endswith(": ValueError: no label  [2J for it")
    assert done.stderr.splitlines()[-1].startswith("nighthawk-async: ")
    assert done.stderr.endswith("steps: 1 completed, 1 failed\n")
    assert "\x1b" not in done.stderr


def test_what_threads_of_the_script_do_is_shown_too(folder: Path) -> None:
    script = """
import anyio, threading, moods

threads = [threading.Thread(target=anyio.run, args=(moods.classify_all, "quick")) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    done = run_in_pipes(folder, "script.py", script=script)
    assert done.returncode == 0
    assert done.stderr.endswith("steps: 2 completed\n")


def test_quiet_shows_nothing(folder: Path) -> None:
    done = run_in_pipes(folder, "--quiet", "moods.py", "trio", "quick")
    assert (done.stdout, done.stderr) == ("before\n['good']\n", "")


def test_json_has_each_change_and_a_summary_and_the_script_prints_elsewhere(folder: Path) -> None:
    done = run_in_pipes(folder, "--json", "moods.py:classify_all", "quick", "fail")
    *nodes, summary = map(json.loads, done.stdout.splitlines())
    assert {node["kind"] for node in nodes} == {"run", "function", "step"}
    assert all("children" not in node for node in nodes)
    last = {node["id"]: node for node in nodes}
    assert sorted(each["state"] for each in last.values() if each["kind"] == "step") == [
        "completed",
        "failed",
    ]
    assert summary["kind"] == "summary"
    assert summary["exit_status"] == 0
    assert summary["result"] == ["good", "ValueError"]
    assert summary["steps"] == {"completed": 1, "failed": 1, "raised": 0, "cancelled": 0}
    done = run_in_pipes(folder, "--json", "moods.py", "asyncio", "quick")
    assert all(json.loads(line) for line in done.stdout.splitlines())
    assert done.stderr == "before\n['good']\n"


@pytest.mark.parametrize("option", ["--json", "--quiet", ""])
def test_a_script_goes_on_when_nobody_reads_what_is_shown(folder: Path, option: str) -> None:
    script = "import moods, anyio\nanyio.run(moods.classify_all, 'quick')\nraise SystemExit(5)\n"
    (folder / "script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "nighthawk_async", "run", *filter(None, [option]), "script.py"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        stdout, stderr = (writer, subprocess.DEVNULL) if option == "--json" else (subprocess.DEVNULL, writer)
        done = subprocess.run(command, cwd=folder, stdout=stdout, stderr=stderr, timeout=240)
    finally:
        os.close(writer)
    assert done.returncode == 5


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_ctrl_c_once_lets_the_script_clean_up(folder: Path, backend: str) -> None:
    with Terminal(["run", "interrupted.py", backend], folder=folder) as terminal:
        terminal.wait_for("ready")
        terminal.interrupt()
        assert terminal.finish() == 130
    assert terminal.left.startswith("ready\ncleaning up\nclean\n")
    assert terminal.left.rstrip().endswith("interrupted")
    assert "Traceback" not in terminal.shown


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_ctrl_c_twice_ends_a_script_that_does_not_come_to_its_end(folder: Path, backend: str) -> None:
    with Terminal(["run", "interrupted.py", backend, "hang"], folder=folder) as terminal:
        terminal.wait_for("ready")
        terminal.interrupt()
        terminal.wait_for("Ctrl-C again to end at once")
        terminal.wait_for("cleaning up")
        terminal.interrupt()
        assert terminal.finish() == 130
    assert "clean\n" not in terminal.shown


@pytest.mark.parametrize("backend", ["trio", "asyncio", "none"])
def test_ctrl_c_twice_ends_a_script_in_a_call_that_no_handler_interrupts(folder: Path, backend: str) -> None:
    script = """
import hashlib, sys, threading, time, anyio

def report_when_computing(clock, begun):
    while time.clock_gettime(clock) < begun + 0.1:  # only the call into C takes that much processor time
        time.sleep(0.01)
    print("ready", flush=True)

def compute():
    clock = time.pthread_getcpuclockid(threading.get_ident())
    begun = time.clock_gettime(clock)
    threading.Thread(target=report_when_computing, args=(clock, begun), daemon=True).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

async def main():
    compute()

if sys.argv[1] == "none":
    compute()
else:
    anyio.run(main, backend=sys.argv[1])
"""
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "script.py", backend], folder=folder) as terminal:
        terminal.wait_for("ready")
        terminal.interrupt()
        terminal.wait_for("Ctrl-C again to end at once")
        terminal.interrupt()
        assert terminal.finish() == 130


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_ctrl_c_wakes_a_script_that_waits_when_another_thread_is_given_the_signal(
    folder: Path, backend: str
) -> None:
    script = """
import signal, sys, threading, time, anyio

def interrupt_when_waiting():
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name not in ("select", "get_events"):
        time.sleep(0.01)
    time.sleep(0.1)  # it is in the call into C now, or else sees the signal anyway
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

async def main():
    threading.Thread(target=interrupt_when_waiting, daemon=True).start()
    try:
        await anyio.sleep_forever()
    finally:
        print("clean", flush=True)

anyio.run(main, backend=sys.argv[1])
"""
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "script.py", backend], folder=folder) as terminal:
        terminal.wait_for("clean")
        assert terminal.finish() == 130


def test_a_script_with_an_event_loop_that_handles_the_waking_signal_keeps_it(folder: Path) -> None:
    script = """
import asyncio, os, signal

async def main():
    handled = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGURG, handled.set)
    os.kill(os.getpid(), signal.SIGURG)
    await handled.wait()
    print("handled", flush=True)

asyncio.run(main())
"""
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "--quiet", "script.py"], folder=folder) as terminal:
        assert terminal.finish() == 0
    assert terminal.left == "handled\n"


def test_a_script_that_handles_ctrl_c_itself_handles_the_first(folder: Path) -> None:
    script = """
import os, signal, time
told = []
signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
reader, writer = os.pipe()
os.set_blocking(writer, False)
assert signal.set_wakeup_fd(writer) == -1
print("ready", flush=True)
assert os.read(reader, 1) == bytes([signal.SIGINT])
assert signal.set_wakeup_fd(-1) == writer
while not told:
    time.sleep(0.01)
print("handled", told)
"""
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "--quiet", "script.py"], folder=folder) as terminal:
        terminal.wait_for("ready")
        terminal.interrupt()
        assert terminal.finish() == 0
    assert terminal.left == f"ready\nhandled [{signal.SIGINT.value}]\n"


def test_ctrl_c_of_a_forked_child_is_not_counted(folder: Path) -> None:
    script = """
import os, signal, sys, time

def end(number, frame):
    os.write(1, b"child ended\\n")
    os._exit(0)

reader, writer = os.pipe()
if os.fork() == 0:
    signal.signal(signal.SIGINT, end)
    os.write(writer, b"x")
    while True:
        time.sleep(1)
os.read(reader, 1)
try:
    print("ready", flush=True)
    while True:
        time.sleep(1)
except KeyboardInterrupt:
    os.wait()
    print("parent ended")
"""
    (folder / "script.py").write_text(script, encoding="utf-8")
    with Terminal(["run", "--quiet", "script.py"], folder=folder) as terminal:
        terminal.wait_for("ready")
        terminal.interrupt()
        assert terminal.finish() == 0
    assert "child ended" in terminal.left
    assert terminal.left.endswith("parent ended\n")


def test_ctrl_c_is_told_in_a_pipe_too(folder: Path) -> None:
    command = [sys.executable, "-m", "nighthawk_async", "run", "interrupted.py", "trio"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=240)
    assert process.returncode == 130
    assert output == "cleaning up\nclean\n"
    assert errors.splitlines()[-1].endswith("interrupted")


@pytest.mark.parametrize(
    ("script", "status"),
    [
        pytest.param("pass", 0, id="to its end"),
        pytest.param("raise SystemExit", 0, id="exit"),
        pytest.param("raise SystemExit(7)", 7, id="exit status"),
        pytest.param("raise SystemExit('because')", 1, id="exit with a message"),
        pytest.param("def f(): 1 / 0\nf()", 1, id="exception"),
        pytest.param("raise ExceptionGroup('two', [KeyError(1), KeyError(2)])", 1, id="group"),
        pytest.param("import anyio\nwith open('x'", 1, id="syntax"),
        pytest.param("raise KeyboardInterrupt", 130, id="interrupt"),
    ],
)
def test_the_exit_status_and_the_traceback_are_those_of_the_script(
    folder: Path, script: str, status: int
) -> None:
    done = run_in_pipes(folder, "--quiet", "script.py", script=script)
    assert done.returncode == status
    if status == 130:
        assert done.stderr == ""
        return
    plain = subprocess.run(
        [sys.executable, str(folder / "script.py")], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


def test_a_script_is_the_main_module_with_its_own_arguments(folder: Path) -> None:
    (folder / "beside.py").write_text("HERE = True\n", encoding="utf-8")
    script = """
import sys, __main__, beside
print(sys.argv, __name__, __main__.__file__ == __file__, sys.path[0] == __file__.rpartition("/")[0])
"""
    done = run_in_pipes(folder, "script.py", "--json", "-x", "a b", script=script)
    assert done.stdout == "['script.py', '--json', '-x', 'a b'] __main__ True True\n"


FUNCTIONS = """
from dataclasses import dataclass

@dataclass
class Point:
    x: int
    y: int = 0

def add(*numbers: int, scale: float = 1.0, loud: bool = False) -> str:
    return f"{sum(numbers) * scale}{'!' if loud else ''}"

def move(point: Point, name: str):
    return [point, name]

async def numbers(count: int):
    for number in range(count):
        yield number

value = 3
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a script of functions, to be run in this process."""
    (tmp_path / "script.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("script", None)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["add", "1", "2", "--scale", "0.5"], "1.5\n"),
        (["add", "--loud", "--scale=2", "--", "3"], "6.0!\n"),
        (["move", '{"x": 5}', "12"], '[\n  {\n    "x": 5,\n    "y": 0\n  },\n  "12"\n]\n'),
        (["numbers", "2"], "[\n  0,\n  1\n]\n"),
    ],
)
def test_a_function_gets_its_arguments_by_its_annotations(
    functions: Path, arguments: list[str], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *others = arguments
    assert run_command_line(["run", "--quiet", f"script.py:{name}", *others]) == 0
    assert capsys.readouterr() == (output, "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["script.py:nothing"], "has no function 'nothing'"),
        (["script.py:value"], "has no function 'value'"),
        (["script.py:Point"], "has no function 'Point'"),
        (["script.py:add", "many"], "the argument numbers: Input should be a valid integer"),
        (["script.py:move", "{}"], "missing a required argument: 'name'; it is move(point"),
        (["script.py:add", "--scale", "1", "--scale", "2"], "--scale is given twice"),
        (["nowhere.py"], "there is no file 'nowhere.py'"),
        (["--model", "local:smollm2-135m", "script.py"], "--model is for a function"),
        (["--model", "nonsense", "script.py:add"], "nonsense"),
    ],
)
def test_a_call_that_is_not_possible_is_explained_with_exit_status_2(
    functions: Path, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["run", *arguments]) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert reason in " ".join(told.split())


RESULTS = """
def surrogate():
    return "a \\ud800 b"

def data():
    return b"\\xff"

def no_number():
    return [float("nan")]

def cycle():
    inner = []
    inner.append(inner)
    return inner
"""


@pytest.mark.parametrize(
    ("name", "shown"),
    [("surrogate", "a \ud800 b"), ("data", repr(b"\xff")), ("cycle", "[[...]]"), ("no_number", [None])],
)
def test_a_result_that_json_cannot_hold_is_shown_all_the_same(folder: Path, name: str, shown: object) -> None:
    done = run_in_pipes(folder, "--json", f"script.py:{name}", script=RESULTS)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1])["result"] == shown
    done = run_in_pipes(folder, "--quiet", f"script.py:{name}", script=RESULTS)
    assert (done.returncode, done.stderr) == (0, "")
    expected = "a \\ud800 b" if name == "surrogate" else json.dumps(shown, indent=2)
    assert done.stdout == f"{expected}\n"


def test_a_missing_key_is_told_in_one_line(folder: Path) -> None:
    variables = {"OPENAI_API_KEY": ""}
    command = ["--model", "openai-chat:any", "script.py:stars", "****"]
    done = run_in_pipes(folder, *command, script=NATURAL, environment=variables)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "OPENAI_API_KEY" in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-2].endswith("exit status 2")


def test_json_needs_an_output(folder: Path) -> None:
    for closed in (">&-", "2>&-"):
        command = f"exec {sys.executable} -m nighthawk_async run --json moods.py trio quick {closed}"
        done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=240)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_a_script_may_come_by_a_pipe_and_is_no_folder(folder: Path) -> None:
    command = [sys.executable, "-m", "nighthawk_async", "run", "--quiet"]
    done = subprocess.run(
        [*command, "/dev/stdin"], input="print(__name__)", capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "__main__\n")
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=240)
    assert (done.returncode, "is a folder" in done.stderr) == (2, True)


NATURAL = """
import nighthawk_async as nh

@nh.natural_function
async def stars(review: str) -> int:
    count: int
    '''natural
    Set <:count> to the number of stars of <review>.
    '''
    return count

@nh.natural_function
def stars_at_once(review: str) -> int:
    count: int
    '''natural
    Set <:count> to the number of stars of <review>.
    '''
    return count
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["script.py:stars", "****"],
        ["--backend", "asyncio", "script.py:stars", "****"],
        ["script.py:stars_at_once", "****"],
    ],
)
def test_a_natural_function_is_called_with_a_model_that_is_named(folder: Path, arguments: list[str]) -> None:
    calls = (
        tool_call("nh_assign", target_path="count", expression="4"),
        tool_call("nh_outcome", kind="pass"),
    )
    with ModelServer.in_thread([ModelReply(tool_calls=calls)]) as server:
        variables = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none"}
        command = ["--model", "openai-chat:any", *arguments]
        done = run_in_pipes(folder, *command, script=NATURAL, environment=variables)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
    assert "tokens in" in done.stderr.splitlines()[-1]


def test_a_function_that_enters_a_run_itself_needs_no_model(folder: Path) -> None:
    done = run_in_pipes(folder, "--quiet", "--model", "openai-chat:none", "moods.py:classify_all", "quick")
    assert (done.returncode, done.stdout) == (0, '[\n  "good"\n]\n')
