"""Python processes that begin warm: each is forked from a process that has imported the library already.

A Python that starts anew imports the library and its frameworks, which takes most of the time of the tests
that start one. What is special about a start, its imports, options and tracebacks, is tested with real ones.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["WarmPopen", "open_template", "run_warm"]

_ROOT = Path(__file__).parents[1]
_PR_SET_CHILD_SUBREAPER = 36
_template: socket.socket | None = None
_template_path = ""
"""The `PYTHONPATH` of the template."""


@contextmanager
def open_template() -> Generator[None]:
    """Start the process that others are forked from, for all tests of this process.

    Where the system is not Linux, or the coverage of processes is measured, nothing is started: a `WarmPopen`
    is a `Popen` then.
    """
    global _template, _template_path
    if sys.platform != "linux" or "COVERAGE_FILE" in os.environ or _template is not None:
        yield
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = "from tests.warm_template import main; main()"
    command = [sys.executable, "-c", program, str(theirs.fileno())]
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=_ROOT, env=kept) as process, ours:
        theirs.close()
        try:
            assert ours.recv(5) == b"ready", (
                "the template has ended"
            )  # here, where no event loop waits for it
            _template, _template_path = ours, kept.get("PYTHONPATH", "")
            yield
        finally:
            _template = None
            process.kill()


class WarmPopen(subprocess.Popen[Any]):
    """A `Popen` of `python [-W error::Category] (-m module | script.py) …`, forked from the template.

    It is a child of this process as any other one is. Commands that are more than that start anew.
    """

    def _execute_child(self, args: Sequence[str], *details: Any) -> None:
        (_, preparation, _, passed, folder, variables, _, _, shell) = details[:9]
        child_input, _, _, child_output, _, child_errors = details[9:15]
        in_own_session = details[20]
        environment = dict(os.environ if variables is None else variables)
        request = _request_of(args, environment, os.fspath(folder or os.getcwd()))
        if _template is None or request is None or preparation or passed or shell:
            super()._execute_child(args, *details)  # type: ignore[misc]  # the standard library's own
            return
        request["in_own_session"] = bool(in_own_session)
        wanted = (child_input, child_output, child_errors)
        standard = [own if given == -1 else given for own, given in enumerate(wanted)]
        self.pid = _forked(_template, request, standard)
        self._child_created = True
        self._close_pipe_fds(*details[9:15])  # type: ignore[attr-defined]


def run_warm(
    command: Sequence[str], *, folder: Path, variables: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end without input, and give what it printed."""
    with WarmPopen(
        command,
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=240)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _request_of(command: Sequence[str], variables: dict[str, str], folder: str) -> dict[str, Any] | None:
    """What the template is asked for; None for what it cannot do."""
    if isinstance(command, str) or command[0] != sys.executable:
        return None
    if command[1:3] == ["-m", "pytest"]:  # it rewrites what it imports, and the template has imported that
        return None
    folders = _folders_in_front(variables)
    if folders is None or _interpreter_variables(variables) != _interpreter_variables(dict(os.environ)):
        return None
    rest, categories = list(command[1:]), list[str]()
    while rest[:1] == ["-W"] and rest[1].startswith("error::"):
        categories.append(rest[1].removeprefix("error::"))
        del rest[:2]
    if rest[:1] == ["-m"]:
        module, script, arguments = rest[1], None, rest[2:]
    elif rest and not rest[0].startswith("-"):
        module, script, arguments = None, rest[0], rest[1:]
    else:
        return None
    return {
        "folder": folder,
        "variables": variables,
        "import_folders": folders,
        "warnings": categories,
        "module": module,
        "script": script,
        "arguments": arguments,
    }


def _interpreter_variables(variables: dict[str, str]) -> dict[str, str]:
    """The variables that Python itself reads when it starts, but for what the template is told or ignores."""
    other = ("PYTHONPATH", "PYTHONUTF8")
    return {
        name: value for name, value in variables.items() if name.startswith("PYTHON") and name not in other
    }


def _folders_in_front(variables: dict[str, str]) -> list[str] | None:
    """The folders of `PYTHONPATH` in front of the template's own; None if some of those are missing."""
    given = [each for each in variables.get("PYTHONPATH", "").split(os.pathsep) if each]
    own = [each for each in _template_path.split(os.pathsep) if each]
    count = len(given) - len(own)
    return given[:count] if count >= 0 and given[count:] == own else None


def _forked(template: socket.socket, request: dict[str, Any], standard: list[int]) -> int:
    """Let the template fork; this process adopts orphans meanwhile, and so becomes the parent."""
    _adopt_orphans(True)
    try:
        socket.send_fds(template, [json.dumps(request).encode()], standard)
        return int(template.recv(20))
    finally:
        _adopt_orphans(False)


def _adopt_orphans(is_wanted: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(is_wanted), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
