"""Entry point of the process that keeps a shell: it ends everything the shell has started, in every case.

A program of its own: `shell_session` starts this file, the library never imports it, and it imports nothing
of the library, so that it starts fast.

    python shell_keeper.py LIFELINE PARENT SCRATCH REPOSITORIES [--environment FILE] COMMAND…

It starts the command and adopts its orphans, so also those processes that left the process group are found.
When the command has ended, nobody holds the other end of the pipe LIFELINE, or the process PARENT has ended,
it kills all of them, removes the folder SCRATCH, and exits with the command's exit status. The descriptor
REPOSITORIES, -1 for none, is a file of a confined shell. It holds the Git repositories that were there.
Others are put out of use at the end, and the file then holds what was done. Without content, nothing is.
The descriptor FILE holds the environment variables of the command, as `--setenv`, name and value. A command
that confines the shell reads its own, and has the environment of this program.
"""

import os
import select
import signal
import sys
import time
from types import FrameType

_PARENT_POLL_MILLISECONDS = 1_000
_KILL_SECONDS = 5.0
_SUBREAPER = 36
_PARENT_DEATH_SIGNAL = 1
_NEW_MOUNTS = 0x20000
_READ_ONLY, _NO_SUID, _NO_PROGRAMS, _REMOUNT, _BIND = 1, 2, 8, 32, 4_096
_RECURSIVE, _SLAVE = 16_384, 524_288
_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")


def main(arguments: list[str]) -> int:
    """Keep a shell until it has ended or nobody needs it.

    Args:
        arguments: The command line without the program's name.

    Returns:
        The exit status of the shell.
    """
    lifeline, parent, scratch, repositories, *command = arguments
    environment = dict(os.environb)
    if command[0] == "--environment":
        environment, command = _read_environment(int(command[1])), command[2:]
    os.set_inheritable(int(lifeline), False)
    if repositories != "-1":
        os.set_inheritable(int(repositories), False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _set_process_option(_SUBREAPER, 1)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _ignore)
    shell = os.fork()
    if shell == 0:
        _become(command, environment, is_confined=repositories != "-1")
    for descriptor in (0, 1, 2):  # the shell holds them now
        os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    try:
        return _wait(shell, int(lifeline), woken, int(parent))
    finally:
        _kill_all(shell)
        if repositories != "-1":
            _disable_repositories(int(repositories))
        _remove(scratch)


def _ignore(number: int, frame: FrameType | None) -> None:
    """Handle a signal that only has to wake up."""


def _become(command: list[str], environment: dict[bytes, bytes], *, is_confined: bool) -> None:
    """Replace this process, a new child, by the shell."""
    try:
        os.setsid()
        if is_confined and os.geteuid() == 0:
            _protect_devices()
        _set_process_option(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is not None:
                signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error}\n".encode())
    finally:
        os._exit(127)


def _read_environment(descriptor: int) -> dict[bytes, bytes]:
    with open(descriptor, "rb") as file:
        parts = file.read().split(b"\0")
    return dict(zip(parts[1::3], parts[2::3], strict=True))


def _wait(shell: int, lifeline: int, woken: int, parent: int) -> int:
    """Wait until the shell has ended or is not needed, and return its exit status."""
    poll = select.poll()
    poll.register(lifeline, 0)  # its end is always reported
    poll.register(woken, select.POLLIN)
    while True:
        status = _reap(shell)
        if status is not None:
            return status
        for descriptor, _ in poll.poll(_PARENT_POLL_MILLISECONDS):
            if descriptor == lifeline:
                return 128 + signal.SIGKILL
            os.read(woken, 4_096)
        if os.getppid() != parent:  # a fork of it may hold the lifeline
            return 128 + signal.SIGKILL


def _reap(shell: int) -> int | None:
    """Collect children that have ended; return the exit status of the shell if it is one of them."""
    found: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == shell:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


def _kill_all(shell: int) -> None:
    """Kill every descendant, again and again until none is left; for 5 seconds at most."""
    ends_at = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < ends_at:
        descendants = _descendants()
        if descendants is None:  # not on Linux: no way to find those that have left the process group
            _kill(-shell)
            return
        if not descendants:
            return
        for pid in descendants:
            _kill(pid)
        _reap(shell)
        time.sleep(0.001)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _descendants() -> set[int] | None:
    """The processes below this one; None where the system does not list them."""
    children: dict[int, list[int]] = {}
    try:
        entries = os.listdir("/proc")
    except OSError:
        return None
    for entry in entries:
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:  # it has ended meanwhile
                continue
            children.setdefault(parent, []).append(int(entry))
    if not children:
        return None
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def _set_process_option(option: int, value: int) -> None:
    """Call `prctl`, where there is one."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _protect_devices() -> None:
    """Let root's shell not change the modes of devices, which Bubblewrap takes from the system as they are.

    It fails without the rights of root, and then the shell has none either. Bubblewrap itself could only make
    them devices that cannot be used.
    """
    import ctypes

    system = ctypes.CDLL(None)
    if system.unshare(_NEW_MOUNTS) or system.mount(None, b"/", None, _RECURSIVE | _SLAVE, None):
        return
    for name in _DEVICES:
        path = b"/dev/" + name
        if system.mount(path, path, None, _BIND, None) == 0:
            system.mount(None, path, None, _BIND | _REMOUNT | _READ_ONLY | _NO_SUID | _NO_PROGRAMS, None)


def _disable_repositories(descriptor: int) -> None:
    import json  # these here, as they would make every start slower
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shell_repositories.py")
    spec = spec_from_file_location("shell_repositories", path)
    assert spec is not None, "the file is there"
    assert spec.loader is not None, "a file of Python has a loader"
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    with open(descriptor, "r+", encoding="utf-8") as file:
        file.seek(0)
        known = file.read()
        if known:
            done = module.Repositories.from_json(known).disable_others()
            file.seek(0)
            file.truncate()
            json.dump({"done": done}, file)


def _remove(folder: str) -> None:
    import shutil  # here, as it would make every start slower

    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
