"""Import every module as far as Windows lets it: `python -m tests.packaging.without_posix`.

The modules and names that only POSIX has are hidden, once the packages of others are loaded, which look at
the platform. Prints what could not be imported, and why, one module a line.
"""

import importlib
import os
import signal
import socket
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from .imports import modules

HIDDEN_MODULES = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")
HIDDEN_NAMES: dict[ModuleType, Sequence[str]] = {
    os: (
        *("fchmod", "fchown", "fork", "forkpty", "geteuid", "getgid", "getpgid", "getuid", "killpg"),
        *("mkfifo", "openpty", "register_at_fork", "sched_getaffinity", "set_blocking", "setpgid", "setsid"),
        *("uname", "waitid", "WNOHANG", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH"),
    ),
    signal: (
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGSTOP", "SIGTSTP", "SIGUSR1"),
        *("SIGUSR2", "SIGWINCH", "alarm", "pthread_kill", "pthread_sigmask", "setitimer", "sigwait"),
    ),
    socket: ("AF_UNIX", "send_fds", "recv_fds"),
}


class _Hidden:
    """Finds no module that only POSIX has."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in HIDDEN_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def hide() -> None:
    """Hide what Windows does not have."""
    for name in HIDDEN_MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Hidden())
    for module, names in HIDDEN_NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    os.supports_dir_fd.clear()
    sys.platform = "win32"


def main() -> None:
    """Load what others need, hide, import."""
    names = [*modules()]
    for name in names:
        importlib.import_module(name)
    for name in [each for each in sys.modules if each.partition(".")[0] == "nighthawk_async"]:
        del sys.modules[name]
    hide()
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
