"""Programs that run another command: which of their arguments that is. Pure."""

import re
from collections.abc import Iterator, Sequence

WRAPPERS: dict[str, tuple[str, int]] = {  # options with a value, and the words before the command
    **dict.fromkeys(("builtin", "command", "nohup", "setsid", "busybox", "toybox"), ("", 0)),
    **dict.fromkeys(("dbus-run-session", "fakeroot", "linux32", "linux64", "unbuffer", "xvfb-run"), ("", 0)),
    "exec": ("-a", 0),
    "env": ("-u --unset -C --chdir", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p", 0),
    "stdbuf": ("-i -o -e", 0),
    "timeout": ("-k -s --signal --kill-after", 1),
    "watch": ("-n -d --interval", 0),
    "strace": ("-e -o -p -s -u", 0),
    "ltrace": ("-e -o -p -s -u", 0),
    "valgrind": ("", 0),
    "xargs": ("-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --replace", 0),
    "parallel": ("-j -a --jobs", 0),
    "sudo": ("-u -g -C -D -h -p -r -t -T -U --user --group --prompt --host --chdir", 0),
    "doas": ("-u -C", 0),
    "pkexec": ("--user", 0),
    "runuser": ("-u -g -G", 0),
    "chroot": ("--userspec --groups", 1),
    "unshare": ("", 0),
    "nsenter": ("-t --target", 0),
    "flock": ("-c --command -E -w --timeout --wait", 1),
    "taskset": ("", 1),
    "chrt": ("-T -P -D", 1),
    "numactl": ("-C -N -m -p -i", 0),
    "prlimit": ("-p", 0),
    "setpriv": ("--reuid --regid --groups", 0),
    "setarch": ("", 1),
    "systemd-run": ("-p -u -M -t --unit --property --uid --gid", 0),
    "firejail": ("", 0),
    "cpulimit": ("-l -e -p", 0),
    "screen": ("-S -t -c -e -h -p -T", 0),
}
"""Programs that run the command after their own options."""

_RUNNING: dict[str, tuple[str, int]] = {  # subcommands, and the words before the command
    **dict.fromkeys(("hatch", "pdm", "pipenv", "poetry", "rye", "uv"), ("run", 0)),
    **dict.fromkeys(("bundle", "mise", "npm", "pnpm", "yarn"), ("exec x dlx", 0)),
    **dict.fromkeys(("conda", "mamba", "micromamba"), ("run", 0)),
    **dict.fromkeys(("docker", "kubectl", "podman"), ("exec run", 1)),
    "direnv": ("exec", 1),
    "git": ("run", 0),  # git bisect run
}
_SHELL_COMMAND = re.compile(r"-[A-Za-z]*c")
_SED = re.compile(r"(?:^|[;{\n])\s*(?:\d+|\$|/[^/]*/)?\s*e\s+(.+)")
_TAR = ("--to-command=", "--checkpoint-action=exec=", "--use-compress-program=", "--rsh-command=")


def words_of(name: str, arguments: Sequence[str]) -> list[str]:
    """The command that a subcommand of a program runs, such as that of `uv run`; empty for none.

    Args:
        name: The name of the program.
        arguments: Its arguments.
    """
    subcommands, skipped = _RUNNING.get(name, ("", 0))
    for at, each in enumerate(arguments):
        if each in subcommands.split():
            rest = list(arguments[at + 1 :])
            if "--" in rest:
                return rest[rest.index("--") + 1 :]
            words = [place for place, word in enumerate(rest) if not word.startswith("-")]
            return rest[words[skipped] :] if len(words) > skipped else []
    return []


def texts_of(name: str, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the texts among arguments that a program gives to a shell.

    Args:
        name: The name of the program.
        arguments: Its arguments.
    """
    following = zip(arguments, [*arguments[1:], ""], strict=True)
    match name:
        case "flock" | "script":
            yield from (
                text
                for option, text in following
                if option == "--command" or (_SHELL_COMMAND.fullmatch(option))
            )
        case "tar":
            yield from (
                each.removeprefix(start) for each in arguments for start in _TAR if each.startswith(start)
            )
            yield from (text for option, text in following if option == "-I")
        case "sed" | "gsed":
            yield from (found[1] for each in arguments if (found := _SED.search(each)))
        case "git" if "foreach" in arguments:
            yield " ".join(arguments[arguments.index("foreach") + 1 :])
        case "git" if "rebase" in arguments:
            yield from (text for option, text in following if option in ("-x", "--exec"))
            yield from (each.removeprefix("--exec=") for each in arguments if each.startswith("--exec="))
        case "nix-shell":
            yield from (text for option, text in following if option in ("--run", "--command"))
        case "tmux":
            yield from (each for each in arguments if " " in each)
        case _:
            return
