"""Shells of workspaces: state between commands, limits, and that no process is left."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ConfigurationError
from nighthawk_async.library import ShellError, ShellResult, Workspace
from nighthawk_async.library.shell_sandbox import confined_command, find_bubblewrap
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc"),
]
MODEL = ScriptedModel([])
PASS = tool_call("nh_outcome", kind="pass")
SECONDS = 30.0

HOST = """
import os, sys, anyio
import nighthawk_async as nh
from nighthawk_async.library import Workspace
from nighthawk_async.testing import ScriptedModel

async def main():
    workspace = Workspace(sys.argv[1], writable=True, sandbox="off")
    async with nh.run(ScriptedModel([])):
        await workspace.shell(sys.argv[2])
        os.write(1, b"started")
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture(params=["off", "required"])
async def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Workspace:
    """A workspace whose shell is confined, or not."""
    if request.param == "required":
        await needs_bubblewrap()
    return Workspace(tmp_path, writable=True, sandbox=request.param)


async def needs_bubblewrap() -> None:
    try:
        await find_bubblewrap("required")
    except ShellError as error:
        pytest.skip(str(error))


class Sleepers:
    """Processes that sleep, which are found by their command line."""

    def __init__(self) -> None:
        self.duration = f"1000.{random.SystemRandom().randrange(10**12):012}"

    @property
    def script(self) -> str:
        """Starts four that a shell may lose sight of, and waits until all of them are there.

        Nothing else has the duration as an argument of its own: neither `grep`, nor a `setsid` whose command
        line is empty for a moment while it becomes `sleep`.
        """
        sleep = f"sleep {self.duration}"
        return (
            f"{sleep} & setsid sh -c 'exec {sleep}' & (setsid sh -c '{sleep} & exec {sleep}' &)\n"
            "lines() { cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; }\n"
            f"until [ $(lines | grep -c '^{self.duration}$') -ge 4 ]; do :; done"
        )

    def count(self) -> int:
        """The number of those that run."""
        return command_lines().count(f"sleep\0{self.duration}\0")


@pytest.fixture
def sleepers() -> Sleepers:
    return Sleepers()


def exists(path: str) -> bool:
    return os.path.exists(path)


def command_lines() -> list[str]:
    """The command lines of all processes; each argument ends in a NUL."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text(errors="replace"))
        except OSError:  # it has ended
            continue
    return found


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(SECONDS):
        while not condition():  # noqa: ASYNC110  (of other processes)
            await anyio.sleep(0.01)


async def test_a_command_has_an_output_and_a_status(workspace: Workspace) -> None:
    result = await workspace.shell("echo one; echo two >&2; printf three; (exit 7)")
    assert result == ShellResult(output="one\ntwo\nthree", status=7)
    assert str(result) == "one\ntwo\nthree\n[exit status 7]"


async def test_the_python_of_the_program_comes_first(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"/nowhere{os.pathsep}{os.environ['PATH']}")
    result = await workspace.shell("command -v python; echo $PATH")
    python, path = result.output.splitlines()
    assert Path(python).parent == Path(sys.executable).parent
    assert path.split(os.pathsep)[:2] == [str(Path(sys.executable).parent), "/nowhere"]


async def test_folder_and_variables_stay(workspace: Workspace, tmp_path: Path) -> None:
    async with nh.run(MODEL):
        await workspace.shell("mkdir -p a/b; cd a/b; x='1  2'\nexport Y=3; f() { echo $x$Y; }")
        assert await workspace.shell('pwd; echo "$x"; f; sh -c \'echo "$Y"\'') == ShellResult(
            output=f"{tmp_path}/a/b\n1  2\n1 23\n3\n", status=0
        )


async def test_each_task_has_its_own_session(workspace: Workspace) -> None:
    outputs: dict[str, str] = {}

    async def work(name: str) -> None:
        await workspace.shell(f"x={name}")
        outputs[name] = (await workspace.shell('echo "$x"')).output

    async with nh.run(MODEL):
        await workspace.shell("x=run")
        async with nh.open_tasks(at_end="wait") as tasks:
            tasks.start(work, "a")
            tasks.start(work, "b")
        outputs["run"] = (await workspace.shell('echo "$x"')).output
    assert outputs == {"a": "a\n", "b": "b\n", "run": "run\n"}


async def test_commands_of_one_task_run_one_after_the_other(workspace: Workspace) -> None:
    async with nh.run(MODEL):
        commands = [f"x=${{x}}{number}; sleep 0; x=${{x}}{number}" for number in range(5)]
        await nh.parallel.map(workspace.shell, commands)
        output = (await workspace.shell('echo "$x"')).output.strip()
    assert sorted(output[::2]) == list("01234")
    assert output[::2] == output[1::2]


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ("cat; read x; echo $?", "1\n", 0),
        ("if", None, 2),
        ("no-such-command-here", None, 127),
        ("echo 'it''s' \"$(echo \\')\"\ncat <<END\n$HOME_IS_NOT_SET'\nEND", "its '\n'\n", 0),
        ("exec >file; echo a", "", 0),
        ("kill -9 $BASHPID", "", 137),
        ("printf '\\303'; printf '\\244\\377'", "ä\ufffd", 0),
    ],
)
async def test_unusual_commands_leave_the_shell_usable(
    command: str, output: str | None, status: int, workspace: Workspace
) -> None:
    async with nh.run(MODEL):
        result = await workspace.shell(command)
        assert result.status == status
        assert result.output == output or (output is None and result.output)
        assert await workspace.shell("echo next") == ShellResult(output="next\n", status=0)


async def test_a_trace_of_the_shell_is_not_taken_for_the_end(workspace: Workspace) -> None:
    async with nh.run(MODEL):
        assert (await workspace.shell("set -x; echo a; false")).status == 1
        result = await workspace.shell("set +x; echo b")
    assert (result.output.splitlines()[-1], result.status) == ("b", 0)


async def test_exit_ends_the_session(workspace: Workspace, sleepers: Sleepers) -> None:
    async with nh.run(MODEL):
        await workspace.shell(sleepers.script)
        result = await workspace.shell("x=1; echo bye; exit 3")
        assert result == ShellResult(output="bye\n", status=3, session_ended=True)
        assert str(result) == "bye\n[exit status 3; the session has ended]"
        assert sleepers.count() == 0
        assert (await workspace.shell("echo $x")).output == "\n"


async def test_a_long_output_is_shortened(workspace: Workspace) -> None:
    result = await workspace.shell("seq 1 200000; echo end", max_characters=20)
    whole = "".join(f"{number}\n" for number in range(1, 200_001)) + "end\n"
    note = f"… {len(whole) - 20:,} characters are left out here …"
    assert result.output == f"{whole[:10]}\n{note}\n{whole[-10:]}"


async def test_the_time_limit_kills_everything(workspace: Workspace, sleepers: Sleepers) -> None:
    async with nh.run(MODEL):
        await workspace.shell(sleepers.script)
        assert sleepers.count() == 4
        result = await workspace.shell("echo begun; while :; do :; done", timeout=2.0)
        assert result == ShellResult(output="begun\n", status=None, timed_out=True, session_ended=True)
        assert str(result) == "begun\n[timed out; the session has ended]"
        assert sleepers.count() == 0
        assert (await workspace.shell("echo again")).output == "again\n"


async def test_cancellation_kills_everything(
    workspace: Workspace, sleepers: Sleepers, tmp_path: Path
) -> None:
    async with nh.run(MODEL):
        await workspace.shell(sleepers.script)
        async with anyio.create_task_group() as group:
            group.start_soon(workspace.shell, "touch begun; sleep 1000")
            await until((tmp_path / "begun").exists)
            group.cancel_scope.cancel()
        assert sleepers.count() == 0
        assert (await workspace.shell("echo again")).output == "again\n"


async def test_processes_end_with_their_task(workspace: Workspace, sleepers: Sleepers) -> None:
    async with nh.run(MODEL), nh.open_tasks(at_end="wait") as tasks:
        handle = tasks.start(workspace.shell, sleepers.script)
        await handle
        assert sleepers.count() == 0


async def test_processes_end_with_the_run(workspace: Workspace, sleepers: Sleepers) -> None:
    async with nh.run(MODEL):
        await workspace.shell(sleepers.script)
    assert sleepers.count() == 0


async def test_outside_of_a_run_processes_end_with_the_command(
    workspace: Workspace, sleepers: Sleepers
) -> None:
    await workspace.shell(sleepers.script)
    assert sleepers.count() == 0


async def test_processes_of_a_program_that_is_killed_end(tmp_path: Path, sleepers: Sleepers) -> None:
    command = [sys.executable, "-c", HOST, str(tmp_path), sleepers.script]
    async with await anyio.open_process(command, stderr=None) as host:
        assert host.stdout is not None
        assert await host.stdout.receive() == b"started"
        assert sleepers.count() == 4
        host.send_signal(signal.SIGKILL)
        await host.wait()
    await until(lambda: sleepers.count() == 0)


async def test_processes_that_multiply_are_killed(workspace: Workspace) -> None:
    name = f"grows-{random.SystemRandom().randrange(10**12)}"
    script = "#!/bin/sh\nwhile :; do sh ./$0 & wait; done\n".replace("$0", name)
    workspace.create(name, script)
    async with nh.run(MODEL):
        await workspace.shell(f"sh ./{name} & sh ./{name} &")
        assert (await workspace.shell("sleep 1000", timeout=0.2)).timed_out
        assert not any(name in line for line in command_lines())


async def test_private_folders_are_removed(workspace: Workspace) -> None:
    async with nh.run(MODEL):
        folder = (await workspace.shell("touch $TMPDIR/a && cd && pwd")).output.strip()
        assert exists(f"{folder}/tmp/a")
    assert not exists(folder)


async def test_a_command_that_kills_the_keeper_ends_the_session(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, writable=True, sandbox="off")
    async with nh.run(MODEL):
        result = await workspace.shell("echo $HOME; kill -9 $PPID; while :; do :; done")
        assert (result.status, result.session_ended) == (137, True)
        assert not exists(result.output.strip())
        assert (await workspace.shell("echo again")).output == "again\n"


async def test_the_environment_has_no_secrets(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "the secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "rc"))
    (tmp_path / "rc").write_text("echo rc")
    lines = (await workspace.shell("cat /proc/$$/environ | tr '\\0' '\\n'; env")).output.splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert names - {"LANG", "LANGUAGE"} <= {
        *("PATH", "HOME", "TMPDIR", "TERM", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"),
        "LC_CTYPE",
    }
    assert "LC_ALL=C.UTF-8" in lines
    given = Workspace(tmp_path, writable=True, environment={"SOME_API_KEY": "given"})
    assert (await given.shell("echo $SOME_API_KEY")).output == "given\n"


async def test_a_machine_without_bash_has_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "sleep"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    workspace = Workspace(tmp_path, writable=True, sandbox="auto")
    async with nh.run(MODEL):
        await workspace.shell("cd bin; x=1")
        assert await workspace.shell("pwd; echo $x; false") == ShellResult(
            output=f"{programs}\n1\n", status=1
        )
        assert (await workspace.shell("sleep 1000", timeout=0.2)).timed_out
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShellError, match="neither bash nor sh"):
        await workspace.shell("true")


async def test_commands_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path, writable=True, sandbox="off")
    with pytest.raises(ShellError, match="NUL"):
        await workspace.shell("echo \0")
    with pytest.raises(ShellError, match="positive"):
        await workspace.shell("true", timeout=0)
    with pytest.raises(ShellError, match="read-only"):
        await Workspace(tmp_path, sandbox="off").shell("true")
    with pytest.raises(ShellError, match="cannot be started"):
        await Workspace(tmp_path, writable=True, sandbox="off", environment={"A": "\0"}).shell("true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ShellError, match="not installed"):
        await Workspace(tmp_path, writable=True, sandbox="required").shell("true")
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho no namespaces >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    with pytest.raises(ShellError, match="no namespaces"):
        await Workspace(tmp_path, writable=True, sandbox="required").shell("true")
    with pytest.raises(ShellError, match=r"bwrap does not work: no namespaces.*sandbox='off'"):
        await Workspace(tmp_path, writable=True).shell("true")
    assert (await Workspace(tmp_path, writable=True, sandbox="auto").shell("echo $PPID")).status == 0
    with pytest.raises(ShellError, match=r"read-only.*nothing confines it"):
        await Workspace(tmp_path, sandbox="auto").shell("true")


async def test_a_system_without_bubblewrap_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ShellError, match=r"is for Linux, and this is darwin.*sandbox='off'"):
        await Workspace(tmp_path, writable=True).shell("true")
    assert Workspace(tmp_path, writable=True).find() == []


@pytest.mark.parametrize("sandbox", ["none", "", None, True])
def test_other_words_for_the_sandbox_are_refused(sandbox: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'required', 'auto', 'off', not"):
        Workspace(tmp_path, sandbox=sandbox)


async def test_the_prompt_shows_whether_the_shell_is_confined(tmp_path: Path) -> None:
    @nh.natural_function
    async def look(workspace: Workspace) -> None:
        """natural
        Look at <workspace>.
        """

    statements = "workspace.writable = True"
    model = ScriptedModel([model_response(tool_call("nh_exec", statements=statements)), model_response(PASS)])
    workspace = Workspace(tmp_path)
    assert repr(workspace) == f"Workspace({str(tmp_path)!r}, writable=False, sandbox='required')"
    async with nh.run(model, code="python"):
        await look(workspace)
    shown = str(model.requests[0].messages[0])
    assert 'workspace.sandbox: str = "required"' in shown
    assert "workspace.writable: bool = false" in shown
    assert "writable of a Workspace cannot be changed" in str(model.requests[1].messages[-1])
    assert not workspace.writable


async def test_a_block_uses_the_shell(tmp_path: Path) -> None:
    @nh.natural_function
    async def count(workspace: Workspace) -> int:
        number: int = nh.unset
        """natural
        Set <:number> to the number of files in <workspace>.
        """
        return number

    (tmp_path / "a").touch()
    model = ScriptedModel(
        [
            model_response(tool_call("nh_eval", expression="await workspace.shell('ls | wc -l')")),
            model_response(
                tool_call("nh_assign", target_path="number", expression="1"),
                PASS,
            ),
        ]
    )
    async with nh.run(model):
        assert await count(Workspace(tmp_path, writable=True, sandbox="auto")) == 1
    shown = str(model.requests[-1].messages[-1])
    assert "status" in shown
    assert "1" in shown


def session_model() -> ScriptedModel:
    """A model that sets a variable in one turn and reads it in the next, for two steps."""
    turns = [
        model_response(tool_call("nh_eval", expression="await workspace.shell('x=${x}1')")),
        model_response(
            tool_call("nh_assign", target_path="text", expression="str(await workspace.shell('echo $x'))"),
            tool_call("nh_outcome", kind="pass"),
        ),
    ]
    return ScriptedModel([*turns, *turns])


async def test_in_a_run_entered_with_with_a_session_belongs_to_the_step(
    workspace: Workspace, sleepers: Sleepers
) -> None:
    @nh.natural_function
    async def use(workspace: Workspace) -> str:
        text: str = nh.unset
        """natural
        Set <:text> to what the shell of <workspace> says.
        """
        return text

    with nh.run(session_model()):
        outputs = [await use(workspace) for _ in range(2)]
        await workspace.shell(sleepers.script)
        assert sleepers.count() == 0
    assert outputs == ["1\n[exit status 0]"] * 2


def test_synchronous_functions_share_a_session_until_their_run_ends(tmp_path: Path) -> None:
    @nh.natural_function
    def use(workspace: Workspace) -> str:
        text: str = nh.unset
        """natural
        Set <:text> to what the shell of <workspace> says.
        """
        return text

    workspace = Workspace(tmp_path, writable=True, sandbox="off")
    with nh.run(session_model()):
        outputs = [use(workspace) for _ in range(2)]
    assert outputs == ["1\n[exit status 0]", "11\n[exit status 0]"]


def options(command: list[str], name: str) -> list[Any]:
    """The arguments after each occurrence of an option."""
    return [command[at + 1] for at, argument in enumerate(command) if argument == name]


def test_the_command_line_that_confines() -> None:
    root, scratch = Path("/repo"), Path("/tmp/private")
    command = confined_command(
        "/usr/bin/bwrap", ["bash", "-c"], root=root, scratch=scratch, writable=True, network=False
    )
    assert command[0] == "/usr/bin/bwrap"
    assert command[-3:] == ["--", "bash", "-c"]
    assert options(command, "--bind") == ["/repo", "/tmp/private"]
    assert options(command, "--ro-bind") == []
    assert "/usr" in options(command, "--ro-bind-try")
    assert not {"/", "/home", "/root", "/var"} & set(options(command, "--ro-bind-try"))
    assert {"--unshare-net", "--unshare-pid", "--die-with-parent"} <= set(command)
    assert command.index("--tmpfs") < command.index("--bind")  # the folders may be in /tmp
    read_only = confined_command("bwrap", ["sh"], root=root, scratch=scratch, writable=False, network=True)
    assert options(read_only, "--bind") == ["/tmp/private"]
    assert options(read_only, "--ro-bind") == ["/repo"]
    assert "--unshare-net" not in read_only
    whole = confined_command("bwrap", ["sh"], root=Path("/"), scratch=scratch, writable=True, network=False)
    assert whole.index("--bind") < whole.index("--proc")  # else the processes of all would be seen


async def test_a_confined_shell_reaches_nothing_else(tmp_path: Path) -> None:
    await needs_bubblewrap()
    root, outside = tmp_path / "repo", tmp_path / "outside"
    root.mkdir()
    outside.touch()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, nh.run(MODEL):
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        connect = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null; echo $?"
        workspace = Workspace(root, writable=True, sandbox="required")
        result = await workspace.shell(
            f"echo a >inside; echo a >{outside}; touch /etc/x /usr/x; {connect}\n"
            f"kill -9 {os.getpid()}; ls -A /run"
        )
        assert result.status == 0
        assert (root / "inside").read_text() == "a\n"
        assert result.output.count("Read-only file system") == 2
        assert "\n1\n" in result.output  # no connection
        assert "No such process" in result.output
        assert not exists("/etc/x")
        assert outside.read_text() == ""
        online = Workspace(root, writable=True, sandbox="required", network=True)
        assert (await online.shell(connect)).output == "0\n"
        read_only = Workspace(root, sandbox="required")
        assert "Read-only" in (await read_only.shell("echo b >inside; cat inside")).output
    assert (root / "inside").read_text() == "a\n"


async def test_a_confined_shell_sees_no_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await needs_bubblewrap()
    home = tmp_path / "home"
    root = home / "repo"
    keys = [home / ".ssh" / "id_ed25519", home / ".aws" / "credentials", home / "tools" / "notes"]
    for path in (root / "file", *keys, home / "bin" / "hello"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\necho hello\n")
        path.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home}:{home / 'bin'}:{os.environ['PATH']}")
    workspace = Workspace(root, writable=True)
    result = await workspace.shell(
        f"ls -A {home} ~ /root /home 2>/dev/null; hello; cat {' '.join(map(str, keys))}"
    )
    assert f"{home}:\nbin\nrepo\n" in result.output
    assert "hello\n" in result.output
    assert result.output.count("No such file") == len(keys)
    python = await workspace.shell(f"{sys.executable} -c 'import anyio; print(1)'")
    assert python == ShellResult(output="1\n", status=0)
    assert "Read-only" in (await workspace.shell(f"echo a >{home}/new; echo a >/new")).output
    reading = Workspace(root, readable=[home / "tools"])
    assert (await reading.shell(f"cat {keys[2]}")).output == "#!/bin/sh\necho hello\n"
    assert "Read-only" in (await reading.shell(f"echo a >{keys[2]}")).output
    with pytest.raises(ConfigurationError, match=r"does not exist: .*missing"):
        Workspace(root, readable=[home / "missing"])


async def test_a_confined_shell_cannot_change_what_git_runs(tmp_path: Path) -> None:
    await needs_bubblewrap()
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / ".git" / "config").write_text("[core]\n")
    workspace = Workspace(tmp_path, writable=True)
    result = await workspace.shell(
        "echo x >.git/hooks/post-checkout; echo x >>.git/config; mv .git old; rm -rf .git; cat .git/config"
    )
    assert result.output.endswith("[core]\n")
    assert (tmp_path / ".git" / "config").read_text() == "[core]\n"
    assert list((tmp_path / ".git" / "hooks").iterdir()) == []
    assert not (tmp_path / "old").exists()


def test_the_keeper_removes_its_folder_when_nobody_needs_it(tmp_path: Path) -> None:
    from nighthawk_async.library.shell_session import KEEPER_PROGRAM

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    read_end, write_end = os.pipe()
    keeper = [sys.executable, "-I", "-S", str(KEEPER_PROGRAM), str(read_end), str(os.getpid()), str(scratch)]
    started = subprocess.Popen([*keeper, "-1", "cat"], stdin=subprocess.PIPE, pass_fds=(read_end,))
    os.close(read_end)
    os.close(write_end)
    assert started.wait(timeout=SECONDS) == 137  # its input is open, so that it does not end by itself
    started.communicate()
    assert not scratch.exists()
