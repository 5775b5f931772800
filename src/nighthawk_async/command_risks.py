"""The risks of shell commands, as labels: deterministic, from the commands that a text runs. Pure.

The labels are those of well-known programs. A program that is in no table has none, whatever it does;
`unknown` says that the text runs something that cannot be read from it.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from .sensitive_paths import is_sensitive
from .shell_words import INSTALLERS, UNKNOWN, SimpleCommand, UnreadableCommandError, read_commands
from .types.json import is_list_or_tuple
from .wrapped_commands import WRAPPERS, texts_of, words_of

Risk: TypeAlias = Literal[
    "destructive",
    "outside_workspace",
    "network",
    "pipe_to_shell",
    "credential_read",
    "privilege",
    "package_install",
    "history_rewrite",
    "process_kill",
    "unknown",
    "none",
]
"""A label of a command; `none` for a command that has no other one."""

RISKS: tuple[Risk, ...] = get_args(Risk)

_MAX_DEPTH = 12
_SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh"})
_INTERPRETER = re.compile(
    r"(?:python|pypy)[\d.]*|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|php[\d.]*|lua[\d.]*|osascript"
)
_INLINE = frozenset(
    {"-c", "-e", "-E", "-r", "-p", "--eval", "--print", "eval", "-pe", "-ne", "-le", "-lne", "-ple"}
)
_KEYWORDS = frozenset(
    {
        "!",
        "{",
        "}",
        "coproc",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "function",
        "if",
        "then",
        "time",
        "until",
        "while",
    }
)
_DESTRUCTIVE = frozenset(
    {"blkdiscard", "dropdb", "fdisk", "mke2fs", "mkswap", "parted", "rm", "sfdisk", "sgdisk", "shred", "srm"}
    | {"truncate", "unlink", "wipefs"}
)
_NETWORK = frozenset(
    {
        "aria2c",
        "aws",
        "az",
        "curl",
        "dig",
        "ftp",
        "gcloud",
        "gh",
        "gsutil",
        "host",
        "http",
        "https",
        "lftp",
        "lynx",
    }
    | {"mail", "mosh", "nc", "ncat", "netcat", "nmap", "nslookup", "ping", "ping6", "rclone", "s3cmd", "scp"}
    | {"sendmail", "sftp", "socat", "ssh", "tailscale", "telnet", "tftp", "traceroute", "wget", "whois", "xh"}
)
_PRIVILEGE = frozenset(
    {
        "adduser",
        "capsh",
        "chroot",
        "doas",
        "groupadd",
        "insmod",
        "ip6tables",
        "iptables",
        "modprobe",
        "mount",
        "nft",
    }
    | {
        "nsenter",
        "passwd",
        "pkexec",
        "rmmod",
        "runuser",
        "setcap",
        "su",
        "sudo",
        "sysctl",
        "systemctl",
        "umount",
    }
    | {"unshare", "useradd", "userdel", "usermod", "visudo"}
)
_KILL = frozenset({"halt", "kill", "killall", "pkill", "poweroff", "reboot", "shutdown", "skill", "xkill"})
_GIT_NETWORK = frozenset({"clone", "fetch", "ls-remote", "pull", "push", "remote-update", "send-email"})
_HISTORY = frozenset({"filter-branch", "filter-repo", "rebase", "replace"})
_EDITORS = frozenset({"ed", "emacs", "ex", "gdb", "nvim", "vi", "vim"})
_INSTALLATION: tuple[Risk, ...] = ("package_install", "network")
_FROM_INPUT: tuple[Risk, ...] = ("pipe_to_shell", "unknown")
_TREE = {
    "docker": "rm rmi prune kill",
    "podman": "rm rmi prune kill",
    "kubectl": "delete drain",
    "terraform": "destroy",
    "tofu": "destroy",
    "helm": "uninstall delete",
}
_SECRETS = re.compile(
    r"gpg --export-secret|pass show|security find-|git credential|gh auth token|aws configure get"
    r"|kubectl get secret|gcloud auth print|docker-credential|secret-tool lookup|vault (?:read|kv get)"
    r"|op (?:read|item get)"
)
_SYSTEM_SECRETS = re.compile(
    r"/etc/(?:g?shadow-?|sudoers|ssl/private/.*)|/proc/(?:\d+|self|\*|[^/]*)/environ|/root/.*"
)
_HARMLESS_PATHS = frozenset(
    {
        "/dev/null",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
        "/dev/tty",
        "/dev/zero",
        "/dev/urandom",
        "/dev/random",
    }
)
_HOST_PATH = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)[^:]*")
_DEVICE = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper|dm-|loop|md)\w*.*")


def risks_of(command: str) -> frozenset[Risk]:
    """The risks of a shell command; `none` alone where it has none.

    Args:
        command: The text of the command.
    """
    found = frozenset(_risks(command, 0))
    return found or frozenset({"none"})


def risks_of_arguments(arguments: Mapping[str, object]) -> frozenset[Risk] | None:
    """The risks of the shell command among arguments; None if there is no argument `command`.

    Args:
        arguments: The arguments of a call, by name.
    """
    if "command" not in arguments:
        return None
    command = arguments["command"]
    if type(command) is str:
        return risks_of(command)
    if is_list_or_tuple(command):
        words = [word for word in command if type(word) is str]
        if words and len(words) == len(command):
            return risks_of(shlex.join(words))
    return frozenset({"unknown"})


def _risks(text: str, depth: int) -> Iterator[Risk]:
    if depth > _MAX_DEPTH:
        yield "unknown"
        return
    try:
        commands = read_commands(text)
    except (UnreadableCommandError, RecursionError):
        yield "unknown"
        return
    for command in commands:
        yield from _risks_of_command(command, depth)


def _risks_of_command(command: SimpleCommand, depth: int) -> Iterator[Risk]:
    for nested in command.nested:
        yield from _risks(nested, depth + 1)
    for operator, target in command.redirections:
        yield from _risks_of_path(target)
        if ">" in operator and _DEVICE.fullmatch(target):
            yield "destructive"
    words = list(command.words)
    if _empties_a_file(command):
        yield "destructive"
    is_certain = not command.is_uncertain
    for variable in (
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "PATH",
        "GIT_SSH_COMMAND",
        "PROMPT_COMMAND",
        "IFS",
    ):
        if variable in command.assignments:
            yield "unknown"
    while words and words[0] in _KEYWORDS:
        del words[: 1 if words[0] not in ("coproc", "function") or "{" not in words else words.index("{")]
    if words and words[0] in ("for", "case", "select"):
        return  # the commands in it follow
    yield from _risks_of_words(words, command, depth, is_certain=is_certain)


def _empties_a_file(command: SimpleCommand) -> bool:
    """Whether nothing is written over a file: `> x`, `true > x`, `cat /dev/null > x`, `tee x < /dev/null`."""
    words = list(command.words)
    if words[:1] == ["tee"]:
        return ("<", "/dev/null") in command.redirections
    is_empty = words in ([], [":"], ["true"], ["cat", "/dev/null"], ["cp", "/dev/null"])
    return is_empty and any(
        operator in (">", ">|", "1>") and target not in _HARMLESS_PATHS
        for operator, target in command.redirections
    )


def _risks_of_words(
    words: Sequence[str], command: SimpleCommand, depth: int, *, is_certain: bool = True
) -> Iterator[Risk]:
    """The risks of a program with arguments; of programs that run another one, also those of that one."""
    if not words:
        return
    if not is_certain or UNKNOWN in words[0]:
        yield "unknown"
    name, arguments = os.path.basename(words[0]).lower(), list(words[1:])
    if "/" in words[0] and not words[0].startswith(("/bin/", "/usr/", "/sbin/")):
        yield from _risks_of_path(words[0])
    for argument in arguments:
        yield from _risks_of_path(argument)
        if argument.startswith("-") and "=" in argument:
            yield from _risks_of_path(argument.partition("=")[2])
    yield from _risks_of_program(name, arguments)
    for text in texts_of(name, arguments):
        yield from _risks(text, depth + 1)
    if (wrapped := words_of(name, arguments)) and depth < _MAX_DEPTH:
        yield from _risks_of_words(wrapped, command, depth + 1)
    if name in WRAPPERS:
        yield from _risks_of_wrapped(name, arguments, command, depth)
    elif name in ("at", "batch"):
        yield from _risks_of_input(command, depth)
    elif (
        name in _SHELLS
        or _INTERPRETER.fullmatch(name)
        or name in ("eval", "source", ".", "trap", "su", "alias")
    ):
        yield from _risks_of_interpreter(name, arguments, command, depth)
    elif name == "find":
        yield from _risks_of_find(arguments, command, depth)
    elif name == "ssh":
        for each in arguments:
            yield from _risks(each, depth + 1)
    elif _runs_text(name, arguments):
        yield "unknown"


def _runs_text(name: str, arguments: Sequence[str]) -> bool:
    """Whether an argument may be a program in a language that is not read here."""
    if name in ("awk", "gawk", "mawk", "nawk"):
        return any("system" in each or "|" in each for each in arguments)
    begins = ("-c", "+", "--eval", "-ex")
    return name in _EDITORS and any(each.startswith(begins) for each in arguments)


def _risks_of_wrapped(name: str, arguments: list[str], command: SimpleCommand, depth: int) -> Iterator[Risk]:
    with_value, skipped = WRAPPERS[name]
    rest = list(arguments)
    while rest and (rest[0].startswith("-") or (name in ("env", "sudo", "doas") and "=" in rest[0])):
        option = rest.pop(0)
        if option == "--":
            break
        if name == "env" and option.startswith(("-S", "--split-string", "-vS")):
            text = (
                option.removeprefix("-vS").removeprefix("-S").removeprefix("--split-string").removeprefix("=")
            )
            yield from _risks(" ".join([text, *rest]), depth + 1)
            return
        if option in with_value.split() and rest:
            rest.pop(0)
    rest = rest[skipped:]
    if name == "env" and not rest:
        yield "credential_read"
    if name in ("xargs", "parallel") and rest and os.path.basename(rest[0]) in _SHELLS and len(rest) == 1:
        yield "pipe_to_shell"
    if name in ("watch", "parallel") and len(rest) == 1:
        yield from _risks(rest[0], depth + 1)
    elif depth < _MAX_DEPTH:
        yield from _risks_of_words(rest, command, depth + 1)
    else:
        yield "unknown"


def _risks_of_interpreter(
    name: str, arguments: list[str], command: SimpleCommand, depth: int
) -> Iterator[Risk]:
    """The risks of what runs a text: that of an option, its input, or a file."""
    is_shell = name in _SHELLS or name == "su"
    files = [each for each in arguments if not each.startswith("-") or each == "-"]
    if name in ("eval", "trap", "alias"):
        text = " ".join(
            arguments if name == "eval" else [each.partition("=")[2] or each for each in arguments[:1]]
        )
        yield from _risks_of_script(text, command, depth)
        return
    if name in ("source", "."):
        if files and UNKNOWN in files[0]:
            yield from _FROM_INPUT if command.nested else _FROM_INPUT[1:]
        return
    place = next((at for at, each in enumerate(arguments) if _is_inline(name, each, is_shell=is_shell)), None)
    if place is not None:
        texts = arguments[place + 1 :][:1] or [""]
        if is_shell:
            yield from _risks_of_script(texts[0], command, depth)
        else:
            yield "unknown"
        return
    if not is_shell and arguments[:1] == ["-m"]:
        module = arguments[1:2]
        yield from _risks_of_words([*module, *arguments[2:]], command, depth + 1)
        if module and module[0] in ("http.server", "smtplib", "ftplib"):
            yield "network"
        return
    reads_input = not files or files[0] in ("-", "/dev/stdin") or "-s" in arguments
    if files and UNKNOWN in files[0] and command.nested:
        yield "pipe_to_shell"
    if reads_input and is_shell:
        yield from _risks_of_input(command, depth)
    elif reads_input:
        yield from (_FROM_INPUT if command.is_piped else ())
        if command.here_documents or any(operator == "<" for operator, _ in command.redirections):
            yield "unknown"


def _risks_of_input(command: SimpleCommand, depth: int) -> Iterator[Risk]:
    """The risks of a shell that runs what it reads."""
    if command.is_piped:
        yield from _FROM_INPUT
    for body in command.here_documents:
        yield from _risks(body, depth + 1)
    if any(operator == "<" for operator, _ in command.redirections):
        yield "unknown"


def _is_inline(name: str, argument: str, *, is_shell: bool) -> bool:
    if is_shell:
        return argument == "--command" or bool(re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", argument))
    return argument in _INLINE or (argument.startswith(("-c", "-e")) and len(argument) > 2)


def _risks_of_script(text: str, command: SimpleCommand, depth: int) -> Iterator[Risk]:
    if UNKNOWN in text:
        yield "unknown"
        if command.nested and any("network" in _risks(each, depth + 1) for each in command.nested):
            yield "pipe_to_shell"
    yield from _risks(text.replace(UNKNOWN, "$x"), depth + 1)


def _risks_of_find(arguments: list[str], command: SimpleCommand, depth: int) -> Iterator[Risk]:
    if "-delete" in arguments:
        yield "destructive"
    for at, each in enumerate(arguments):
        if each in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next(
                (place for place in range(at + 1, len(arguments)) if arguments[place] in (";", "+")), None
            )
            yield from _risks_of_words(arguments[at + 1 : end], command, depth + 1)


def _risks_of_path(path: str) -> Iterator[Risk]:
    """The risks of a path that a command names."""
    if path in _HARMLESS_PATHS or not path or path.startswith("-"):
        return
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "network"
        return
    if "://" in path:
        yield "network"
        return
    plain = path.replace(UNKNOWN, "x")
    if is_sensitive(plain.removeprefix("@").rpartition("=")[2]) or _SYSTEM_SECRETS.fullmatch(
        os.path.normpath(plain)
    ):
        yield "credential_read"
    is_absolute = plain.startswith(("/", "~")) or path.startswith(UNKNOWN + "/")
    if is_absolute or os.path.normpath(plain).split("/")[0] == "..":
        yield "outside_workspace"


def _risks_of_program(name: str, arguments: list[str]) -> Iterator[Risk]:
    if name in _DESTRUCTIVE or name.startswith("mkfs"):
        yield "destructive"
    if name in _NETWORK or (name == "rsync" and any(map(_HOST_PATH.fullmatch, arguments))):
        yield "network"
    if name in _PRIVILEGE:
        yield "privilege"
    if (name in _KILL and not {"-0", "-l", "-L"} & {*arguments}) or (name == "fuser" and "-k" in arguments):
        yield "process_kill"
    if name == "systemctl" and {"stop", "kill", "restart", "poweroff", "reboot"} & {*arguments}:
        yield "process_kill"
    if name == "printenv" or (
        name in ("export", "declare", "set") and not {*arguments} - {"-p", "-x", "-px"}
    ):
        yield "credential_read"
    if _SECRETS.match(" ".join([name, *arguments])):
        yield "credential_read"
    if name in ("chmod", "chown", "chgrp") and any(
        re.fullmatch(r"[ugoa]*\+[rwx]*s[rwxst]*|0?[2467][0-7]{3}", each) for each in arguments
    ):
        yield "privilege"
    if name in INSTALLERS and (not INSTALLERS[name] or {*INSTALLERS[name].split()} & {*arguments}):
        yield from _INSTALLATION
    if name == "yarn" and not [each for each in arguments if not each.startswith("-")]:
        yield from _INSTALLATION
    if name in _TREE and {*_TREE[name].split()} & {*arguments}:
        yield "destructive"
    if name in ("docker", "podman") and {"pull", "push", "login"} & {*arguments}:
        yield "network"
    if name in ("docker", "podman") and "--privileged" in arguments:
        yield "privilege"
    if name == "git":
        yield from _risks_of_git(arguments)
    if name == "history" and {"-c", "-d", "-w"} & {*arguments}:
        yield "history_rewrite"
    yield from _other_destruction(name, arguments)


def _other_destruction(name: str, arguments: list[str]) -> Iterator[Risk]:
    """Programs that destroy with some arguments only."""
    is_destructive = bool(
        (name == "dd" and any(each.startswith("of=") for each in arguments))
        or (name == "rsync" and any(each.startswith(("--del", "--remove")) for each in arguments))
        or (name == "find" and {"-fprint", "-fprint0", "-fprintf", "-fls"} & {*arguments})
        or (name in ("cp", "ln", "mv") and "/dev/null" in arguments)
        or (name == "crontab" and "-r" in arguments)
        or (name == "tar" and "--remove-files" in arguments)
        or (name == "tee" and any(map(_DEVICE.fullmatch, arguments)))
    )
    if is_destructive:
        yield "destructive"


def _risks_of_git(arguments: list[str]) -> Iterator[Risk]:
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") and rest:
            if option == "-c":
                yield "unknown"
            rest.pop(0)
    if not rest:
        return
    sub, options = rest[0], {*rest[1:]}
    flags = {letter for each in options if re.fullmatch(r"-[A-Za-z]+", each) for letter in each[1:]}
    if UNKNOWN in sub:
        yield "unknown"
    if sub in _GIT_NETWORK or (sub == "submodule" and {"update", "add"} & options):
        yield "network"
    if sub == "remote" and {"update", "show", "prune"} & options:
        yield "network"
    is_forced = "f" in flags or any(each.startswith("--force") for each in options)
    is_rewrite = sub in _HISTORY or (sub == "commit" and "--amend" in options)
    is_rewrite |= sub == "push" and (
        is_forced
        or "d" in flags
        or bool({"--delete", "--mirror", "--prune"} & options)
        or any(each.startswith(("+", ":")) for each in options)
    )
    is_rewrite |= sub == "reset" and bool({"--hard", "--soft", "--mixed"} & options or rest[1:])
    is_rewrite |= sub == "reflog" and bool({"expire", "delete"} & options)
    is_rewrite |= sub in ("update-ref", "prune") or (sub == "gc" and any("prune" in each for each in options))
    is_rewrite |= sub == "branch" and (bool(flags & set("DdfM")) or "--delete" in options)
    is_rewrite |= sub == "tag" and (bool(flags & set("df")) or "--delete" in options)
    if is_rewrite:
        yield "history_rewrite"
    is_destructive = (sub == "clean" and "n" not in flags) or (sub == "reset" and "--hard" in options)
    is_destructive |= sub in ("rm", "restore") or (
        sub == "checkout" and (is_forced or bool({"--", "."} & options))
    )
    is_destructive |= sub == "stash" and bool({"drop", "clear"} & options)
    is_destructive |= (sub == "branch" and "D" in flags) or (sub == "worktree" and "remove" in options)
    if is_destructive:
        yield "destructive"
