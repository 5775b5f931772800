"""What a confined shell must not reach: the kernel, devices, the bits of set-user-ID, and what Git runs."""

import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.library import ShellError, Workspace, WorkspaceError
from nighthawk_async.library.shell_sandbox import confined_command, find_bubblewrap
from nighthawk_async.system_calls import system_call_filter
from nighthawk_async.testing import ScriptedModel

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="Bubblewrap is for Linux"),
]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
MODEL = ScriptedModel([])
SECONDS = 30.0


@pytest.fixture
async def root(tmp_path: Path) -> Path:
    try:
        await find_bubblewrap("required")
    except ShellError as error:
        pytest.skip(str(error))
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def git(root: Path) -> "Git":
    return Git(root)


def everything_in(root: Path) -> list[Path]:
    return list(root.rglob("*"))


class Git:
    """Commands of the user, outside of the shell."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mark = root.parent / "RAN"
        home = root.parent / "home"
        home.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_PAGER_IN_USE": "1"}
        for setting in ("user.email a@b", "user.name n", "protocol.file.allow always"):
            self("config", "--global", *setting.split())

    def __call__(self, *arguments: str, at: Path | None = None, is_checked: bool = True) -> None:
        subprocess.run(
            ["git", *arguments],
            cwd=at or self.root,
            env=self.environment,
            check=is_checked,
            capture_output=True,
            timeout=SECONDS,
        )

    def make(self, at: Path) -> None:
        """Make a repository with a file."""
        at.mkdir(exist_ok=True)
        self("init", "-q", at=at)
        (at / "file").write_text("1")
        self("add", "file", at=at)
        self("commit", "-qm", "x", at=at)

    @property
    def evil(self) -> str:
        """Makes the folder `evil`, a repository whose settings run a program."""
        program = f"{self.root}/evil.sh"
        return (
            "{ git init -q tmp || exit; mv tmp/.git evil; rm -r tmp; }\n"
            f"printf '#!/bin/sh\\ntouch {self.mark}\\n' >evil.sh; chmod +x evil.sh\n"
            f"for name in core.fsmonitor core.pager diff.external core.sshCommand; do\n"
            f"git config -f evil/config $name {program}; done\n"
            f"git config -f evil/config core.worktree {self.root}\n"
            "git config -f evil/config core.bare false\n"
            "cp evil.sh evil/hooks/post-index-change\n"
        )

    def look(self) -> None:
        """Run what people run, in every folder."""
        for folder in [self.root, *everything_in(self.root)]:
            inside = {"hooks", "info", "logs", "objects", "refs"} & set(folder.parts)
            if inside or folder.is_symlink() or not folder.is_dir():
                continue
            for command in ("status", "diff", "log"):
                self(command, at=folder, is_checked=False)


OPENED = """
for path in $(find /proc /sys /dev -type f ! -path '/proc/[0-9]*/task/*' ! -name kmsg 2>/dev/null); do
    [ -f $path ] && { true >>$path; } 2>/dev/null && echo $path
done; echo done
"""
"""Without a process for each of some ten thousand files."""


@pytest.mark.skipif(os.geteuid() != 0, reason="others may write nothing there anyway")
async def test_a_shell_of_root_writes_nothing_of_the_kernel(root: Path) -> None:
    result = await Workspace(root, writable=True).shell(OPENED, timeout=None)
    assert result.output == "done\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="devices belong to root")
async def test_a_shell_of_root_cannot_change_devices_and_uses_them(root: Path) -> None:
    before = os.stat("/dev/null").st_mode
    result = await Workspace(root, writable=True).shell(
        "for name in null zero full random urandom tty; do chmod 600 /dev/$name && echo changed; done\n"
        "echo 1 >/dev/null && head -c 3 /dev/zero | wc -c; head -c 1 /dev/urandom >/dev/null && echo random"
    )
    assert result.output.count("Read-only file system") == 6
    assert result.output.endswith("3\nrandom\n")
    assert os.stat("/dev/null").st_mode == before


BITS = """
import os
def tried(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        print(error.errno, end=" ")
    else:
        print("done", end=" ")
open("file", "w").close()
opened = os.open("file", os.O_RDWR)
for bits in (0o4755, 0o2755, 0o6000):
    tried(os.chmod, "file", bits)
    tried(os.fchmod, opened, bits)
    tried(os.open, "new", os.O_CREAT | os.O_WRONLY, bits)
    tried(os.open, ".", os.O_TMPFILE | os.O_RDWR, bits)
    tried(os.mknod, "node", bits | 0o100000)
tried(os.chmod, "file", 0o1700)
tried(os.mkdir, "folder", 0o755)
tried(os.open, "new", os.O_CREAT | os.O_WRONLY, 0o755)
"""


async def test_no_file_gets_the_rights_of_its_owner(root: Path) -> None:
    (root / "bits.py").write_text(BITS)
    result = await Workspace(root, writable=True).shell(
        f"{sys.executable} -I -S bits.py; cp /bin/true t; chmod u+s t; chmod g+s t; install -m 6755 t i"
    )
    assert result.output.startswith("1 " * 15 + "done " * 3)
    assert result.output.count("Operation not permitted") == 3
    assert {os.stat(root / name).st_mode & 0o6000 for name in os.listdir(root)} == {0}


async def test_tools_that_use_newer_system_calls_find_the_older_ones(root: Path) -> None:
    threads = "import threading; t = threading.Thread(target=print, args=(1,)); t.start(); t.join()"
    result = await Workspace(root, writable=True).shell(
        f'{sys.executable} -c "{threads}"; mkdir a; echo b >a/b; tar cf a.tar a; rm -r a\n'
        "tar xf a.tar; cat a/b"
    )
    assert result.output == "1\nb\n"


NOBODY = 65534
ORDINARY = """
id -u
echo x >/proc/sys/kernel/hostname || echo x >/proc/sysrq-trigger || touch t
for run in "" "unshare -Ur"; do
    $run chmod u+s t; $run chmod g+s t; $run chmod 6755 t; $run install -m 4755 /bin/true i
done
touch .git/a
unshare -Urm sh -c "
    umount $PWD/.git; mount -o remount,bind,rw $PWD/.git; touch .git/b; mv .git g
    mount --bind $PWD /tmp && touch /tmp/.git/c; mount --rbind $PWD /tmp && touch /tmp/.git/d
    mount -t proc proc /proc; echo x >/proc/sys/kernel/hostname"
ls -A .git | wc -l
"""


def run_as_nobody(command: str, workspace: Path, scratch: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command line of a shell as another user, who cannot read the Python of these tests."""
    program = system_call_filter(platform.machine(), is_root=False)
    assert program is not None
    with tempfile.TemporaryFile() as file:
        file.write(program)
        file.seek(0)
        confined = confined_command(
            shutil.which("bwrap") or "",
            ["sh", "-c", command],
            root=workspace,
            scratch=scratch,
            writable=True,
            network=False,
            protected=[str(workspace / ".git")],
            filter_descriptor=file.fileno(),
        )
        return subprocess.run(
            ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *confined],
            pass_fds=(file.fileno(),),
            env={"PATH": "/usr/bin:/bin"},
            check=False,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests are those of an ordinary user then")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
async def test_the_shell_of_an_ordinary_user_is_confined_too(root: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="nighthawk-", dir="/var/tmp"))  # others can enter it
    workspace, scratch = folder / "workspace", folder / "scratch"
    try:
        for path in (folder, workspace, workspace / ".git", scratch):
            os.makedirs(path, exist_ok=True)
            os.chown(path, NOBODY, NOBODY)
        tried = run_as_nobody("true", workspace, scratch)
        if tried.returncode:
            pytest.skip(f"other users cannot be confined here: {tried.stderr}")
        said = run_as_nobody(ORDINARY, workspace, scratch).stdout.split()
        assert (said[0], said[-1]) == (str(NOBODY), "0")
        assert "t" in os.listdir(workspace)
        assert {os.stat(path).st_mode & 0o6000 for path in everything_in(workspace)} == {0}
        assert os.listdir(workspace / ".git") == []
    finally:
        shutil.rmtree(folder)


SHARED = """
import ctypes, platform, socket
system = ctypes.CDLL(None, use_errno=True)
first = 248 if platform.machine() == "x86_64" else 217
keys = [(b"user", b"nighthawk", b"x", 1, -3), (b"user", b"nighthawk", None, -3), (0, -3, 0)]
for number, arguments in enumerate(keys):
    print(system.syscall(first + number, *arguments), ctypes.get_errno())
for family in range(64):
    try:
        socket.socket(family, socket.SOCK_RAW if family == 16 else socket.SOCK_STREAM).close()
        print("opened", family)
    except OSError as error:
        if error.errno != 97:
            print(family, error)
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls")
@pytest.mark.parametrize("network", [False, True])
async def test_a_shell_has_no_keyrings_and_no_sockets_that_no_namespace_divides(
    root: Path, network: bool
) -> None:
    (root / "shared.py").write_text(SHARED)
    workspace = Workspace(root, writable=True, network=network)
    result = await workspace.shell(f"{sys.executable} -I -S shared.py")
    opened = [
        line for line in result.output.splitlines() if line not in ("opened 2", "opened 10", "opened 16")
    ]
    assert opened == ["-1 38"] * 3 + ["opened 1"]


def refusals(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Run a filter; return what it returns, without the value of the action's error."""
    data = struct.pack("=iIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    rules = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = rules[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x06:
                return value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x45:
                at += if_true if accumulator & value else if_false
            case _:
                pytest.fail(f"an unknown instruction: {code}")


ALLOWED, REFUSED, MISSING, UNKNOWN_FAMILY = 0x7FFF0000, 0x50001, 0x50026, 0x50061


@pytest.mark.parametrize(
    ("machine", "architecture", "chmod", "openat", "unshare", "keyctl", "socket"),
    [
        ("x86_64", 0xC000003E, 90, 257, 272, 250, 41),
        ("x86_64", 0x40000003, 15, 295, 310, 288, 359),
        ("aarch64", 0xC00000B7, 52, 56, 97, 219, 198),  # fchmod: there is no chmod
        ("aarch64", 0x40000028, 15, 322, 337, 311, 281),
        ("riscv64", 0xC00000F3, 52, 56, 97, 219, 198),
        ("loongarch64", 0xC0000102, 52, 56, 97, 219, 198),
    ],
)
@pytest.mark.parametrize("is_root", [True, False])
def test_the_filter_of_every_machine(
    machine: str,
    architecture: int,
    chmod: int,
    openat: int,
    unshare: int,
    keyctl: int,
    socket: int,
    is_root: bool,
) -> None:
    program = system_call_filter(machine, is_root=is_root)
    assert program is not None
    creates, new_user = 0o101, 0x10000000
    for bits in (0o4000, 0o2000, 0o6777):
        assert refusals(program, architecture, chmod, 5, bits) == REFUSED
        assert refusals(program, architecture, openat, 5, 5, creates, bits) == REFUSED
        assert refusals(program, architecture, openat, 5, 5, 0, bits) == ALLOWED  # no mode: it makes nothing
    assert refusals(program, architecture, chmod, 0o6000, 0o1777) == ALLOWED
    assert refusals(program, architecture, openat, 5, 5, creates, 0o755) == ALLOWED
    assert refusals(program, architecture, unshare, new_user) == (REFUSED if is_root else ALLOWED)
    assert refusals(program, architecture, unshare, 0x20000) == ALLOWED
    assert refusals(program, architecture, 452, 5, 5, 0o4755) == REFUSED
    assert refusals(program, architecture, 437) == refusals(program, architecture, 425) == MISSING
    assert refusals(program, architecture, 435) == (MISSING if is_root else ALLOWED)
    for number in (keyctl, keyctl - 1, keyctl - 2):
        assert refusals(program, architecture, number) == MISSING
    for family in range(50):
        answer = ALLOWED if family in (1, 2, 10, 16) else UNKNOWN_FAMILY
        assert refusals(program, architecture, socket, family, 1) == answer
    assert refusals(program, architecture, 400) == ALLOWED
    assert refusals(program, 0x1234, 1) == MISSING
    if architecture == 0xC000003E:
        assert refusals(program, architecture, 0x40000000 + 90, 5, 0o755) == MISSING


def test_a_machine_whose_system_calls_are_unknown_has_no_filter() -> None:
    assert system_call_filter("vax", is_root=False) is None
    assert system_call_filter(platform.machine(), is_root=False) is not None or platform.machine() not in (
        "x86_64",
        "aarch64",
    )


@needs_git
@pytest.mark.parametrize(
    "command",
    [
        "mv evil .git",
        "echo 'gitdir: evil' >.git",
        "ln -s evil .git",
        "mkdir sub; mv evil sub/.git",
        "mkdir sub; echo 'gitdir: ../evil' >sub/.git",
        "mkdir sub; ln -s ../evil sub/.git",
        "mkdir -p a/b/c; mv evil a/b/c/.git; chmod 0 a/b/c",
        "mkdir sub; mv evil sub/.git; chmod 500 sub",
        "true",
        "mv evil/* .",
        "mkdir -p w/x; echo ../evil >w/x/commondir; cp evil/HEAD w/x; echo 'gitdir: w/x' >.git; rm evil/HEAD",
        "mkdir sub; mv evil $TMPDIR/evil; echo gitdir: $TMPDIR/evil >sub/.git",
        "rm evil/HEAD; ln -s refs/heads/x evil/HEAD; echo 'gitdir: evil' >.git",
        "git init -q sub; mkdir sub/.git/modules; mv evil sub/.git/modules/x",
    ],
)
async def test_a_repository_that_a_shell_makes_is_put_out_of_use(root: Path, git: Git, command: str) -> None:
    async with nh.run(MODEL):
        workspace = Workspace(root, writable=True)
        result = await workspace.shell(git.evil + command)
        git.look()  # the session is still there
        assert not git.mark.exists()
        assert result.notes
        assert "Git repositories are not made here" in str(result)
        assert (await workspace.shell("true")).notes == ()
    git.look()
    assert not git.mark.exists()


@needs_git
@pytest.mark.parametrize(
    "command",
    [
        "git config core.fsmonitor {evil}",
        "git -C dep config core.fsmonitor {evil}",
        "git -C clone config core.fsmonitor {evil}",
        "git -C bare config core.pager {evil}",
        "echo gitdir: {root}/evil >dep/.git",
        "mv dep dep2; mkdir dep; echo gitdir: ../evil >dep/.git",
        "mv clone clone2; mkdir clone; cp -r evil clone/.git",
        "rm -rf dep clone bare; cp -r evil dep; cp -r evil clone; cp -r evil bare",
        "rm link/.git; mv evil link/.git",
        "rm link/.git; ln -s ../evil link/.git",
        "mv store store2; cp -r evil store",
        "cp evil.sh .git/hooks/post-index-change; cp evil.sh .git/modules/dep/hooks/post-index-change",
    ],
)
async def test_a_repository_that_was_there_stays_as_it_is(root: Path, git: Git, command: str) -> None:
    git.make(root.parent / "origin")
    git.make(root)
    git.make(root / "clone")
    git("submodule", "add", "-q", str(root.parent / "origin"), "dep")
    git("init", "-q", "--bare", "bare")
    git.make(root / "link")
    (root / "store").mkdir()
    (root / "link" / ".git").rename(root / "store" / "kept")
    (root / "link" / ".git").symlink_to("../store/kept")
    settings = {path: path.read_bytes() for path in everything_in(root) if path.name == "config"}
    assert len(settings) == 5
    program = f"{root}/evil.sh"
    await Workspace(root, writable=True).shell(git.evil + command.format(evil=program, root=root))
    git.look()
    assert not git.mark.exists()
    assert (root / "link" / ".git").readlink() == Path("../store/kept")
    for path, content in settings.items():
        moved = Path(str(path).replace("/clone/", "/clone2/").replace("/store/", "/store2/"))
        assert content in [each.read_bytes() for each in (path, moved) if each.exists()]


@needs_git
async def test_repositories_stay_usable(root: Path, git: Git) -> None:
    git.make(root)
    git.make(root / "clone")
    async with nh.run(MODEL):
        workspace = Workspace(root, writable=True)
        result = await workspace.shell(
            "git log --format=%s; cd clone; git status --short; echo 2 >file; git diff --stat"
        )
        assert result.output.startswith("x\n file | ")
        made = await workspace.shell("git init -q new && cd new && git status --short --branch")
        assert made.output == "## No commits yet on master\n"
        assert made.notes == (
            "clone/new/.git is now .git.untrusted",
            "clone/new/.git.untrusted/HEAD is now HEAD.untrusted",
        )
        assert workspace.find("HEAD*") == []


HOST = """
import os, sys, anyio
import nighthawk_async as nh
from nighthawk_async.library import Workspace
from nighthawk_async.testing import ScriptedModel

async def main():
    async with nh.run(ScriptedModel([])):
        workspace = Workspace(sys.argv[1], writable=True)
        await workspace.shell("git init -q a; touch made; sleep 1000", timeout=None)

anyio.run(main)
"""


@needs_git
async def test_a_repository_is_put_out_of_use_when_the_program_is_killed(root: Path) -> None:
    process = await anyio.open_process([sys.executable, "-c", HOST, str(root)], stdout=None, stderr=None)
    async with process:
        with anyio.fail_after(SECONDS):
            while not await anyio.Path(root, "made").exists():  # noqa: ASYNC110  (of another process)
                await anyio.sleep(0.01)
            process.kill()
            while not await anyio.Path(root, "a/.git.untrusted/HEAD.untrusted").exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)


@needs_git
@pytest.mark.parametrize("ending", ["exit 3", "sleep 1000", "(while true; do git init -q b; done) &"])
async def test_a_repository_is_put_out_of_use_however_the_session_ends(root: Path, ending: str) -> None:
    async with nh.run(MODEL):
        timeout = 3.0 if "1000" in ending else 60.0
        result = await Workspace(root, writable=True).shell(f"git init -q a; {ending}", timeout=timeout)
        assert "a/.git is now .git.untrusted" in result.notes
    left = [
        path
        for path in everything_in(root)  # a `git init` that was killed leaves a HEAD that is of no repository
        if path.name == ".git"
        or (path.name == "HEAD" and {"objects", "refs"} <= set(os.listdir(path.parent)))
    ]
    assert left == []


async def test_a_read_only_workspace_has_no_notes(root: Path) -> None:
    (root / ".git").mkdir()
    result = await Workspace(root).shell("touch .git/x a; ls -A")
    assert (result.notes, result.output.count("Read-only")) == ((), 2)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    for name in ("objects", "refs"):
        (tmp_path / "bare" / name).mkdir(parents=True)
    (tmp_path / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "bare" / "config").write_text("[core]\n")
    return tmp_path


@pytest.mark.parametrize(
    "path", ["bare/config", "bare/hooks/x", "bare/HEAD", "bare/refs/heads/x", "bare/info/a/b"]
)
def test_a_repository_of_another_name_cannot_be_changed(bare: Path, path: str) -> None:
    workspace = Workspace(bare, writable=True)
    with pytest.raises(WorkspaceError, match="belongs to Git"):
        workspace.create(path.replace("bare/config", "bare/config2").replace("HEAD", "HEAD2"), "x")
    with pytest.raises(WorkspaceError, match="belongs to Git"):
        workspace.edit("bare/config", "core", "x")
    with pytest.raises(WorkspaceError, match="belongs to Git"):
        workspace.patch("*** Begin Patch\n*** Delete File: bare/config\n*** End Patch")
    assert not (bare / "bare" / "hooks").exists()
    assert workspace.read("bare/config") == "[core]\n"


@pytest.mark.parametrize(
    "paths",
    [
        ("x/HEAD", "x/objects/a", "x/refs/a"),
        ("x/objects/a", "x/refs/a", "x/HEAD"),
        ("x/refs/a", "x/HEAD", "x/objects/a"),
        ("x/HEAD", "x/commondir"),
        ("x/commondir", "x/head"),
        ("HEAD", "objects/a/b", "refs/a/b"),
    ],
)
def test_a_repository_of_another_name_cannot_be_made(tmp_path: Path, paths: tuple[str, ...]) -> None:
    workspace = Workspace(tmp_path, writable=True)
    for path in paths[:-1]:
        workspace.create(path, "ref: refs/heads/main\n")
    with pytest.raises(WorkspaceError, match="belongs to Git"):
        workspace.create(paths[-1], "ref: refs/heads/main\n")
    assert not (tmp_path / paths[-1]).exists()
    assert not (tmp_path / paths[-1]).parent.exists() or paths[-1].count("/") < 2


@pytest.mark.parametrize("name", [".git", ".GIT", ".g\u200cit", "\ufeff.git"])
def test_no_spelling_of_git_is_made(tmp_path: Path, name: str) -> None:
    workspace = Workspace(tmp_path, writable=True)
    for path in (name, f"{name}/config", f"a/{name}/config"):
        with pytest.raises(WorkspaceError, match="belongs to Git"):
            workspace.create(path, "x")


NAMED_BY_GIT = {
    "hooks": ("core.hooksPath", "tools/hooks", "tools/hooks/post-index-change"),
    "fsmonitor": ("core.fsmonitor", "./tools/monitor.sh", "tools/monitor.sh"),
    "a command with arguments": ("core.fsmonitor", "sh 'tools/monitor.sh' -x", "tools/monitor.sh"),
    "a program without a folder": ("core.fsmonitor", "sh monitor.sh", "monitor.sh"),
    "filter": ("filter.f.clean", "sh ./tools/clean.sh %f", "tools/clean.sh"),
    "process": ("filter.f.process", "tools/clean.sh", "tools/clean.sh"),
    "include": ("include.path", "../tools/settings", "tools/settings"),
    "conditional include": ("includeIf.gitdir:**.path", "../tools/settings", "tools/settings"),
}
ATTACKS = {
    "write": "echo '{evil}' > {path}; chmod +x {path}",
    "replace": "echo '{evil}' > new && chmod +x new && mv -f new {path}",
    "remove": "rm -rf {path}; mkdir -p $(dirname {path}); echo '{evil}' > {path}; chmod +x {path}",
    "move the folder": "mv tools old; mkdir -p $(dirname {path}); echo '{evil}' > {path}; chmod +x {path}",
    "link the folder": (
        "mkdir -p evil/hooks; mv tools old; ln -s evil tools; echo '{evil}' > {path}; chmod +x {path}"
    ),
}


@needs_git
@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", NAMED_BY_GIT)
@pytest.mark.turns("attack", "was_there")
async def test_git_runs_nothing_that_a_shell_left_in_files_that_settings_name(
    root: Path, git: Git, kind: str, attack: str, was_there: bool
) -> None:
    key, value, path = NAMED_BY_GIT[kind]
    git("init", "-q")
    (root / "f").write_text("1")
    (root / ".gitattributes").write_text("* filter=f\n")
    git("add", ".")
    git("commit", "-qm", "x")
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    if was_there:
        (root / path).write_text("")
        (root / path).chmod(0o755)
    git("config", key, value)
    script = root / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {git.mark}\n")
    script.chmod(0o755)
    evil = f"[core]\nfsmonitor = {script}\n" if "include" in kind else f"#!/bin/sh\ntouch {git.mark}"
    await Workspace(root, writable=True).shell(ATTACKS[attack].format(path=path, evil=evil))
    (root / "f").write_text("12")
    git("status", "--short", is_checked=False)
    assert not git.mark.exists()


@needs_git
async def test_other_files_beside_those_that_settings_name_stay_usable(root: Path, git: Git) -> None:
    git("init", "-q")
    (root / "tools" / "hooks").mkdir(parents=True)
    (root / "status").mkdir()
    git("config", "core.hooksPath", "tools/hooks")
    git("config", "alias.st", "status")
    result = await Workspace(root, writable=True).shell(
        "touch tools/x status/y z && mkdir new && mv new other"
    )
    assert (result.status, result.notes) == (0, ())


@pytest.mark.parametrize("sandbox", ["required", "off"])
async def test_what_a_shell_leaves_is_not_loaded_by_its_keeper(root: Path, sandbox: str) -> None:
    workspace = Workspace(
        root,
        writable=True,
        sandbox=sandbox,  # type: ignore[arg-type]
        environment={"LD_LIBRARY_PATH": str(root), "GIVEN": "a\nb", "BASH_ENV": "x"},
    )
    async with nh.run(MODEL):
        result = await workspace.shell('echo "$GIVEN" $LD_LIBRARY_PATH; env | grep -c NIGHTHAWK; exit 3')
        assert (result.output, result.status) == (f"a\nb {root}\n0\n", 3)
        if sandbox == "off":
            shown = await workspace.shell("tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/$PPID/cmdline")
            assert "LD_LIBRARY_PATH" not in shown.output
            assert "GIVEN" not in shown.output


@pytest.mark.parametrize("variables", [{"A=B": "c"}, {"": "c"}, {"A": "b\0--bind\0/\0/"}, {"A\0": "c"}])
async def test_what_cannot_be_a_variable_is_refused(root: Path, variables: dict[str, str]) -> None:
    with pytest.raises(ShellError, match="cannot be a variable"):
        await Workspace(root, writable=True, environment=variables).shell("true")


async def test_sensitive_files_are_masked_in_a_confined_shell(root: Path) -> None:
    names = [
        ".env",
        "sub/tls.pem",
        "id_rsa",
        ".ssh/x",
        "my_credentials.json",
        "target.txt",
        "deep/a/.aws/credentials",
    ]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("TOP SECRET")
    (root / ".netrc").symlink_to("target.txt")
    (root / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    (root / ".git").mkdir()
    settings = '[core]\n\tbare = false\n[remote "o"]\n\turl = https://me:hunter2@host/x\n'
    (root / ".git" / "config").write_text(settings + "[http]\n\textraheader = AUTHORIZATION: basic hunter2\n")
    for writable in (True, False):
        workspace = Workspace(root, writable=writable)
        found = await workspace.shell("grep -rhs . . .env .netrc deep/a/.aws/*; cat .env id_rsa; true")
        assert "SECRET" not in found.output
        assert "hunter2" not in found.output
        assert "bare = false" in found.output
        assert "BEGIN CERTIFICATE" in found.output
        assert "Permission denied" in found.output
    await Workspace(root, writable=True).shell(
        "mv deep other; echo x > .env; rm -rf .ssh id_rsa; rm .netrc; true"
    )
    assert (root / ".env").read_text() == (root / ".ssh" / "x").read_text() == "TOP SECRET"
    assert "SECRET" in (await Workspace(root, sensitive=True).shell("cat .env")).output


async def test_keys_in_the_output_of_a_shell_are_hidden(root: Path) -> None:
    (root / "notes.txt").write_text("ghp_" + "a1" * 18)
    assert (await Workspace(root).shell("cat notes.txt")).output == "[redacted]"
    assert "ghp_" in (await Workspace(root, sensitive=True).shell("cat notes.txt")).output
