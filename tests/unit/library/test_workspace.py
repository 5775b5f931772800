"""Workspaces: what they do in their folder, and that nothing leads out of it."""

import os
import pickle
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import nighthawk_async as nh
from nighthawk_async.library import (
    EditError,
    LibraryError,
    OutsideWorkspaceError,
    PatchError,
    Workspace,
    WorkspaceError,
    workspace as workspace_module,
)
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

SECRET = "the secret"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a workspace, with something beside it that nobody may reach."""
    (tmp_path / "secret.txt").write_text(SECRET)
    root = tmp_path / "repo"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("def f():\n    return 1\n")
    (root / "README.md").write_text("# Title\n\nText\n")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\n")
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root, writable=True)


def everything_in(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_files_are_read_whole_in_part_and_bounded(workspace: Workspace, root: Path) -> None:
    assert workspace.read("src/a.py") == "def f():\n    return 1\n"
    assert workspace.read("src/a.py", lines=(2, 9)) == "    return 1\n"
    assert workspace.read(str(root / "README.md"), (1, 1)) == "# Title\n"
    (root / "long.txt").write_text("a" * 60 + "b" * 60)
    assert workspace.read("long.txt", max_characters=20) == (
        "a" * 10 + "\n… 100 characters are left out here …\n" + "b" * 10
    )
    with pytest.raises(WorkspaceError, match="has 2 lines; there is no line 3"):
        workspace.read("src/a.py", lines=(3, 4))
    with pytest.raises(WorkspaceError, match="first, last"):
        workspace.read("src/a.py", lines=(0, 4))


def test_files_are_found_by_pattern(workspace: Workspace) -> None:
    assert workspace.find() == ["README.md", "src/a.py"]
    assert workspace.find("*.py") == ["src/a.py"]
    assert workspace.find("src/*") == ["src/a.py"]
    assert workspace.find("**/[ab].p?") == ["src/a.py"]
    assert workspace.find("*/*.md") == []
    with pytest.raises(WorkspaceError, match="2 files match"):
        workspace.find(max_files=1)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.{md,py}", ["README.md", "src/a.py"]),
        ("{src,docs}/**/*.py", ["src/a.py"]),
        ("**/{a,b{c,d}}.p{y,l}", ["src/a.py"]),
        ("R{,EADME}.md", ["README.md"]),
        ("[{]*", []),
    ],
)
def test_braces_stand_for_one_of_some_patterns(workspace: Workspace, pattern: str, found: list[str]) -> None:
    assert workspace.find(pattern) == found


@pytest.mark.parametrize("pattern", ["*.{md,py", "*.md}", "{1..3}.py", "}{"])
def test_braces_that_mean_nothing_are_refused(workspace: Workspace, pattern: str) -> None:
    with pytest.raises(LibraryError, match="brace"):
        workspace.find(pattern)


def test_patterns_that_can_match_nothing_are_refused(workspace: Workspace, root: Path) -> None:
    for pattern in ("", "/src/*", "~/*", "../*", "src/../*", "src/", "src/*/", "!a.py"):
        with pytest.raises(LibraryError, match="matches nothing here"):
            workspace.find(pattern)
        with pytest.raises(LibraryError, match="matches nothing here"):
            workspace.search("x", pattern)
    with pytest.raises(WorkspaceError, match="'src' is a folder: list it"):
        workspace.find("src")
    (root / "src" / "src").write_text("")
    (root / "..a").write_text("")
    assert workspace.find("src") == ["src/src"]
    assert workspace.find("..a") == ["..a"]
    assert workspace.find("nothing") == []


def test_a_folder_is_listed(workspace: Workspace, root: Path) -> None:
    (root / "link").symlink_to("src")
    (root / "out").symlink_to("/")
    assert workspace.list() == ["README.md", "link", "out", "src/"]
    assert workspace.list("src") == workspace.list("link/") == workspace.list("src/../src/.") == ["a.py"]
    for path in ("README.md", "nothing", "src/a.py", ""):
        with pytest.raises(WorkspaceError):
            workspace.list(path)
    for path in ("..", "/", "out", "src/../.."):
        with pytest.raises(OutsideWorkspaceError):
            workspace.list(path)


def test_lines_are_numbered_if_asked_for(workspace: Workspace) -> None:
    assert workspace.read("src/a.py", numbered=True) == "     1\tdef f():\n     2\t    return 1\n"
    assert workspace.read("src/a.py", lines=(2, 9), numbered=True) == "     2\t    return 1\n"


def test_lines_around_a_match_are_shown_once(workspace: Workspace, root: Path) -> None:
    lines = (f"{'x' if number in (3, 5, 12) else 'o'}{number}\n" for number in range(1, 14))
    (root / "log").write_text("".join(lines))
    found = workspace.search("^x", "log", context=2)
    assert [(each.line, each.before, each.after) for each in found] == [
        (3, ("o1", "o2"), ("o4",)),
        (5, (), ("o6", "o7")),
        (12, ("o10", "o11"), ("o13", "")),
    ]
    assert str(workspace.search("^x", "log", context=1)).splitlines() == [
        *("log:2- o2", "log:3: x3", "log:4- o4", "log:5: x5", "log:6- o6"),
        *("--", "log:11- o11", "log:12: x12", "log:13- o13"),
    ]
    assert str(workspace.search("^x", "log")) == "log:3: x3\nlog:5: x5\nlog:12: x12"
    with pytest.raises(LibraryError, match="context"):
        workspace.search("x", context=-1)


def test_lines_are_found_by_regular_expression(workspace: Workspace, root: Path) -> None:
    (root / "binary").write_bytes(b"\0return")
    result = workspace.search(r"RETURN \d", ignore_case=True)
    assert str(result) == "src/a.py:2:     return 1"
    assert [match.line for match in result] == [2]
    many = workspace.search(".", max_matches=2)
    assert len(many) == 2
    assert not many.is_complete
    assert str(many).endswith("… there are more")
    with pytest.raises(LibraryError, match="invalid"):
        workspace.search("(")


def test_an_expression_that_never_ends_is_given_up(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.library.workspace._SEARCH_SECONDS", 0.05)
    (root / "evil.txt").write_text("a" * 5_000 + "b")
    with pytest.raises(LibraryError, match="took longer"):
        workspace.search("(a|a|aa)+$")


def test_an_expression_that_calls_itself_without_end_is_given_up(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Compiled:
        """Stands for `(?R)`, which takes seconds and a gigabyte until it raises this."""

        pattern = "(?R)"

        def search(self, line: str, timeout: float) -> None:
            raise MemoryError

    monkeypatch.setattr(workspace_module, "compiled_expression", lambda *given, **more: Compiled())
    with pytest.raises(LibraryError, match="takes too much memory"):
        workspace.search("(?R)")


def test_a_text_that_is_there_once_is_replaced(workspace: Workspace, root: Path) -> None:
    os.chmod(root / "src" / "a.py", 0o755)
    workspace.edit("src/a.py", "return 1", "return 2")
    assert (root / "src" / "a.py").read_text() == "def f():\n    return 2\n"
    assert (root / "src" / "a.py").stat().st_mode & 0o777 == 0o755
    (root / "windows.txt").write_bytes(b"one\r\ntwo\r\n")
    workspace.edit("windows.txt", "one\ntwo", "1\n2")
    assert (root / "windows.txt").read_bytes() == b"1\r\n2\r\n"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("", "x", "empty"),
        ("return 1", "return 1", "the new text is the old one"),
        ("def f():\n    return 7", "x", r"line 2 is '    return 1', and the text has '    return 7'"),
        ("  return 1\nx", "x", "like the file from line 2 on, but line 3 is '', and the text has 'x'"),
        ("\treturn 1\nx", "x", "line 2 differs from its first line in whitespace only"),
        ("nothing like it", "x", "is not there"),
        ("f", "x", "there more than once, at lines 1, 1"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(
    workspace: Workspace, root: Path, old: str, new: str, error: str
) -> None:
    before = everything_in(root)
    with pytest.raises(EditError, match=error):
        workspace.edit("src/a.py", old, new)
    assert everything_in(root) == before


def test_changes_show_the_lines_that_they_made(workspace: Workspace) -> None:
    changed = workspace.edit("src/a.py", "    return 1", "    one = 1\n    return one")
    assert changed == ["src/a.py"]
    assert str(changed) == "src/a.py:2:     one = 1\nsrc/a.py:3:     return one"
    assert [(each.first, each.removed) for each in changed.lines] == [(2, 1)]
    removed = workspace.edit("src/a.py", "    one = 1\n", "")
    assert str(removed) == "src/a.py:2: (1 line was removed)"
    patch = "*** Begin Patch\n*** Add File: b.py\n+b = 1\n*** Delete File: README.md\n*** End Patch\n"
    assert str(workspace.patch(patch)) == "b.py:1: b = 1\nREADME.md"
    assert pickle.loads(pickle.dumps(changed)).lines == changed.lines


def test_the_difference_is_a_patch_that_makes_it(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(root, before)
    workspace.edit("src/a.py", "return 1", "return 2")
    workspace.edit("./src/a.py", "return 2\n", "return 3")
    workspace.create("new folder/empty", "")
    workspace.patch("*** Begin Patch\n*** Delete File: README.md\n*** End Patch\n")
    workspace.create("gone", "x")
    workspace.patch("*** Begin Patch\n*** Delete File: gone\n*** End Patch\n")
    Workspace(before, writable=True).patch(workspace.diff())
    assert everything_in(before) == everything_in(root)
    assert Workspace(root).diff() == ""
    assert pickle.loads(pickle.dumps(workspace)).diff() == ""


@pytest.mark.anyio
async def test_a_step_sees_what_it_has_changed_itself(workspace: Workspace) -> None:
    @nh.natural_function
    async def change(workspace: Workspace, text: str, inner: object) -> str:
        diff = ""
        """natural
        Make a file with <text> in <workspace>, call <inner>, and set <:diff>.
        """
        return diff

    async def make_another() -> None:
        await change(workspace, "inner", None)

    makes = tool_call("nh_exec", statements="workspace.create(text, text)")
    calls = tool_call("nh_eval", expression="inner()")
    ends = tool_call("nh_assign", target_path="diff", expression="workspace.diff()")
    passes = tool_call("nh_outcome", kind="pass")
    workspace.create("before", "x")
    model = ScriptedModel(
        [model_response(makes, calls), model_response(makes, ends, passes), model_response(ends, passes)]
    )
    async with nh.run(model):
        whole = await change(workspace, "outer", make_another)
    assert [line for line in whole.splitlines() if line.startswith("+++")] == ["+++ b/inner", "+++ b/outer"]
    assert workspace.diff().count("+++") == 3


def test_files_are_made_with_their_folders(workspace: Workspace, root: Path) -> None:
    workspace.create("docs/new/page.md", "text")
    assert (root / "docs/new/page.md").read_text() == "text"
    with pytest.raises(WorkspaceError, match=r"docs/new/page\.md exists"):
        workspace.create("docs/new/page.md", "other")
    with pytest.raises(WorkspaceError, match="is no folder"):
        workspace.create("README.md/page.md", "text")


def test_a_patch_is_applied_whole(workspace: Workspace, root: Path) -> None:
    changed = workspace.patch(
        "*** Begin Patch\n*** Update File: src/a.py\n-    return 1\n+    return 2\n"
        "*** Add File: docs/b.md\n+b\n*** Delete File: README.md\n*** End Patch\n"
    )
    assert changed == ["src/a.py", "docs/b.md", "README.md"]
    assert everything_in(root).keys() == {"src/a.py", "docs/b.md", ".git/config"}


def test_a_patch_that_does_not_fit_changes_nothing(workspace: Workspace, root: Path) -> None:
    before = everything_in(root)
    with pytest.raises(PatchError, match="line 1"):
        workspace.patch(
            "*** Begin Patch\n*** Update File: src/a.py\n-    return 1\n+    return 2\n"
            "*** Update File: README.md\n-# Titel\n+# T\n*** End Patch\n"
        )
    assert everything_in(root) == before


@pytest.mark.parametrize(
    "added",
    [
        "*** Add File: README.md/x\n+x\n",  # noticed before anything is written
        "*** Delete File: run.sh\n*** Add File: x\n+x\n*** Add File: x/y\n+y\n",  # noticed after x was made
    ],
)
def test_a_patch_that_cannot_be_written_is_taken_back(workspace: Workspace, root: Path, added: str) -> None:
    (root / "run.sh").write_text("echo\n")
    os.chmod(root / "run.sh", 0o750)
    before = everything_in(root)
    with pytest.raises(WorkspaceError, match="is no folder"):
        workspace.patch(
            "*** Begin Patch\n*** Update File: src/a.py\n-    return 1\n+    return 2\n"
            f"{added}*** End Patch\n"
        )
    assert everything_in(root) == before
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o750


def test_a_workspace_is_read_only_unless_it_says_otherwise(root: Path) -> None:
    workspace = Workspace(root)
    for change in (
        lambda: workspace.edit("src/a.py", "1", "2"),
        lambda: workspace.create("x", ""),
        lambda: workspace.patch("*** Begin Patch\n*** Delete File: README.md\n*** End Patch\n"),
    ):
        with pytest.raises(WorkspaceError, match="read-only"):
            change()


def test_a_patch_keeps_the_modes_of_files_that_it_renames(workspace: Workspace, root: Path) -> None:
    (root / "run.sh").write_text("echo\n")
    os.chmod(root / "run.sh", 0o750)
    workspace.patch("diff --git a/run.sh b/go.sh\nrename from run.sh\nrename to go.sh\n")
    assert (root / "go.sh").stat().st_mode & 0o777 == 0o750
    patch = "*** Begin Patch\n*** Update File: go.sh\n*** Move to: run.sh\n@@\n-echo\n+date\n*** End Patch\n"
    workspace.patch(patch)
    assert (root / "run.sh").read_text() == "date\n"
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o750


def test_an_image_is_content_for_a_model(workspace: Workspace, root: Path) -> None:
    (root / "chart.png").write_bytes(b"\x89PNG")
    assert workspace.image("chart.png") == nh.models.BinaryContent(
        data=b"\x89PNG", media_type="image/png", identifier="chart.png"
    )
    with pytest.raises(WorkspaceError, match="name of an image"):
        workspace.image("README.md")


ESCAPES = (
    "../secret.txt",
    "src/../../secret.txt",
    "/etc/passwd",
    "out.txt",  # a link to a file outside
    "out/secret.txt",  # below a link to a folder outside
    "absolute.txt",
    "up/../../secret.txt",
    "src/link/../../secret.txt",
    "chain",
)


@pytest.fixture
def links(root: Path) -> Path:
    """Links that lead out of a workspace."""
    (root / "out.txt").symlink_to("../secret.txt")
    (root / "out").symlink_to("..")
    (root / "absolute.txt").symlink_to(root.parent / "secret.txt")
    (root / "up").symlink_to("src")
    (root / "src" / "link").symlink_to(".")
    (root / "chain").symlink_to("src/chain")
    (root / "src" / "chain").symlink_to("../out.txt")
    return root


@pytest.mark.parametrize("path", ESCAPES)
def test_nothing_leads_out_of_a_workspace(links: Path, path: str) -> None:
    workspace = Workspace(links, writable=True)
    for use in (
        lambda: workspace.read(path),
        lambda: workspace.edit(path, SECRET, "changed"),
        lambda: workspace.create(path, "changed"),
        lambda: workspace.patch(f"*** Begin Patch\n*** Update File: {path}\n-{SECRET}\n+x\n*** End Patch\n"),
        lambda: workspace.patch(f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n"),
        lambda: workspace.patch(f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n"),
    ):
        with pytest.raises(OutsideWorkspaceError):
            use()
    assert (links.parent / "secret.txt").read_text() == SECRET
    assert not (links.parent / "changed").exists()


def test_neither_find_nor_search_follows_links(links: Path) -> None:
    workspace = Workspace(links)
    assert workspace.find() == ["README.md", "src/a.py"]
    assert len(workspace.search(SECRET)) == 0


def test_a_hard_link_is_read_and_a_change_leaves_the_other_file_as_it_was(root: Path, tmp_path: Path) -> None:
    """The page says so: nothing tells the two names of a file apart."""
    other = tmp_path / "elsewhere.txt"
    other.write_text("one\n")
    os.link(other, root / "note.txt")
    workspace = Workspace(root, writable=True)
    assert workspace.read("note.txt") == "one\n"
    workspace.edit("note.txt", "one", "two")
    assert (workspace.read("note.txt"), other.read_text()) == ("two\n", "one\n")


def test_links_below_the_folder_are_followed(root: Path) -> None:
    (root / "same.py").symlink_to("src/a.py")
    (root / "whole.py").symlink_to(root / "src" / "a.py")
    (root / "sources").symlink_to("src")
    workspace = Workspace(root, writable=True)
    for path in ("same.py", "whole.py", "sources/a.py", "sources/../src/a.py"):
        assert workspace.read(path).startswith("def f")
    workspace.edit("same.py", "1", "2")
    assert (root / "same.py").is_symlink()
    assert (root / "src" / "a.py").read_text().endswith("2\n")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("pipe", "no regular file"),
        ("src", "is a folder"),
        ("src/..", "is a folder"),
        (".", "is a folder"),
        ("circle", "in a circle"),
        ("", "no path"),
        ("a\0b", "no path"),
        ("none/none", "no such file"),
        ("binary", "no text"),
        ("large", "10,000,001 bytes"),
    ],
)
def test_what_is_no_text_file_is_refused(root: Path, path: str, error: str) -> None:
    os.mkfifo(root / "pipe")
    (root / "circle").symlink_to("circle")
    (root / "binary").write_bytes(b"a\0b")
    (root / "large").write_bytes(b"a" * 10_000_001)
    with pytest.raises(WorkspaceError, match=error):
        Workspace(root, writable=True).read(path)


def test_a_link_that_changes_all_the_time_never_leads_out(root: Path) -> None:
    (root / "inside").mkdir()
    (root / "inside" / "secret.txt").write_text("inside")
    outside, turning, over = root.parent, root / "turning", threading.Event()
    turning.symlink_to("inside")

    def turn() -> None:
        while not over.is_set():
            for target in (outside, Path("inside")):
                fresh = root / "fresh"
                fresh.symlink_to(target)
                fresh.rename(turning)

    thread = threading.Thread(target=turn)
    thread.start()
    workspace, seen = Workspace(root, writable=True), set[str]()
    try:
        for number in range(2_000):
            try:
                seen.add(workspace.read("turning/secret.txt"))
                workspace.create(f"turning/made-{number}", "x")
            except WorkspaceError:
                seen.add("refused")
    finally:
        over.set()
        thread.join()
    assert seen <= {"inside", "refused"}
    assert not [path for path in outside.iterdir() if path.name.startswith("made-")]


def test_many_threads_edit_one_file_without_losing_an_edit(root: Path) -> None:
    (root / "count.txt").write_text("".join(f"<{number}>\n" for number in range(64)))
    workspaces = [Workspace(root, writable=True) for _ in range(8)]

    def edit(part: int) -> None:
        for number in range(part, 64, 8):
            workspaces[part].edit("count.txt", f"<{number}>", f"[{number}]")

    threads = [threading.Thread(target=edit, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (root / "count.txt").read_text() == "".join(f"[{number}]\n" for number in range(64))
    assert not [path for path in root.iterdir() if path.name.startswith(".nighthawk")]


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(nh.ConfigurationError, match="does not exist"):
        Workspace(tmp_path / "none")


@pytest.mark.anyio
async def test_a_block_reads_and_edits_files_by_name(workspace: Workspace, root: Path) -> None:
    @nh.natural_function
    async def mend(workspace: Workspace) -> str:
        found: str
        """natural
        Let f in <workspace> return 2, and set <:found> to where it was.
        """
        return found

    model = ScriptedModel(
        [
            model_response(
                tool_call("nh_exec", statements="workspace.edit('src/a.py', 'return 1', 'return 2')"),
                tool_call("nh_assign", target_path="found", expression="str(workspace.search('return 2'))"),
                tool_call("nh_outcome", kind="pass"),
            )
        ]
    )
    async with nh.run(nh.AgentStepExecutor.from_model(model)):
        assert await mend(workspace) == "src/a.py:2:     return 2"
    assert (root / "src" / "a.py").read_text().endswith("return 2\n")


# ---- attacks


@pytest.mark.parametrize(
    "path",
    [".git/hooks/post-checkout", ".git/config", "sub/.git/config", ".GIT/config", "link/config", ".git"],
)
def test_what_git_runs_cannot_be_changed(workspace: Workspace, root: Path, path: str) -> None:
    (root / "link").symlink_to(".git")
    before = everything_in(root)
    with pytest.raises(WorkspaceError):
        workspace.create(path, "[core]\nfsmonitor = evil\n")
    with pytest.raises((PatchError, WorkspaceError)):  # it exists, or may not be made
        workspace.patch(f"*** Begin Patch\n*** Add File: a\n+x\n*** Add File: {path}\n+x\n*** End Patch")
    with pytest.raises(WorkspaceError):
        workspace.edit(path, "core", "alias")
    with pytest.raises(WorkspaceError, match="belongs to Git"):
        workspace.patch("*** Begin Patch\n*** Delete File: .git/config\n*** End Patch")
    assert everything_in(root) == before
    assert Workspace(root, sensitive=True).read(".git/config") == "[core]\n"


SENSITIVE = [
    *(
        ".env",
        ".env.local",
        ".envrc",
        "prod.env",
        "key.pem",
        "sub/tls.KEY",
        "id_rsa",
        "id_ed25519",
        "id_work",
    ),
    *("id_rsa.bak", ".ssh/known_hosts", "sub/.aws/config", ".netrc", ".npmrc", ".pypirc", ".pgpass"),
    *(
        "credentials",
        "my_credentials.json",
        "credentials/prod.yaml",
        ".git-credentials",
        ".docker/config.json",
    ),
    *(".kube/config", ".gnupg/a", "secrets.yaml", "client_secret_1.json", ".env/x", "store.p12"),
]
ORDINARY = ["environment.py", "id_map.json", "credentials.py", "src/credentials/aws.py", "keys.py", "env.py"]


@pytest.mark.parametrize("path", SENSITIVE)
def test_sensitive_files_are_neither_used_nor_listed(workspace: Workspace, root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("TOP SECRET")
    (root / "link.png").symlink_to(path)
    workspace = Workspace(root, writable=True)
    patch = "*** Begin Patch\n*** Update File: {}\n@@\n-TOP SECRET\n+x\n*** End Patch"
    calls = [
        lambda: workspace.read(path),
        lambda: workspace.read("link.png"),
        lambda: workspace.read(f"src/../{path}"),
        lambda: workspace.read(str(root / path)),
        lambda: workspace.image("link.png"),
        lambda: workspace.edit(path, "TOP", "x"),
        lambda: workspace.edit("link.png", "TOP", "x"),
        lambda: workspace.create(path + "/new", "x"),
        lambda: workspace.patch(patch.format(path)),
        lambda: workspace.patch(f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"),
        lambda: workspace.patch(
            f"*** Begin Patch\n*** Update File: README.md\n*** Move to: {path}\n*** End Patch"
        ),
    ]
    for call in calls:
        with pytest.raises(WorkspaceError):
            call()
    assert not workspace.search("SECRET")
    assert path not in workspace.find()
    folder, name = os.path.split(path)
    with suppress(WorkspaceError):
        assert not {name, f"{name}/"} & {*workspace.list(folder or ".")}
    assert Workspace(root, sensitive=True).read(path) == "TOP SECRET"
    assert (root / path).read_text() == "TOP SECRET"


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_with_such_words_are_files_like_others(root: Path, path: str) -> None:
    workspace = Workspace(root, writable=True)
    workspace.create(path, "x")
    assert path in workspace.find()
    assert workspace.read(path) == "x"


def test_a_sensitive_folder_is_not_made(workspace: Workspace, root: Path) -> None:
    with pytest.raises(WorkspaceError, match="sensitive=True"):
        Workspace(root, writable=True).create(".ssh/authorized_keys", "x")
    assert not (root / ".ssh").exists()


PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\ndef\n-----END RSA PRIVATE KEY-----"
KEYS = [
    *(
        "sk-ant-" + "a1" * 12,
        "ghp_" + "a1" * 18,
        "github_pat_" + "a1" * 20,
        "AKIA" + "A1" * 8,
        "xoxb-" + "1-a" * 5,
    ),
    *("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.abcdefgh", "glpat-" + "a1" * 10, PRIVATE_KEY),
    *("sk_live_" + "a1" * 10, "hf_" + "a1" * 17, "npm_" + "a1" * 18, "AIza" + "a1" * 17),
]


@pytest.mark.parametrize("key", KEYS)
def test_keys_are_hidden_by_their_look(root: Path, key: str) -> None:
    text = f"first\n{key}\nlast\n"
    (root / "notes.txt").write_text(text)
    workspace = Workspace(root, writable=True)
    lines = text.count("\n")
    shown = [
        workspace.read("notes.txt"),
        str(workspace.search(".", "notes.txt", context=3)),
        str(workspace.edit("notes.txt", "first", "1st")),
        str(workspace.patch("*** Begin Patch\n*** Update File: notes.txt\n@@\n-last\n+end\n*** End Patch")),
        workspace.diff(),
    ]
    assert not any(part in each for each in shown for part in key.splitlines())
    assert len(shown[0].splitlines()) == lines
    assert "[redacted]" in shown[0]
    assert "last" in workspace.diff()
    with pytest.raises(PatchError) as failed:
        workspace.patch("*** Begin Patch\n*** Update File: notes.txt\n@@\n 1st\n-other\n*** End Patch")
    assert key.split("\n")[0] not in str(failed.value) or key == PRIVATE_KEY
    assert (root / "notes.txt").read_text() == text.replace("first", "1st").replace("last", "end")
    assert key in Workspace(root, sensitive=True).read("notes.txt")


def test_equal_lines_that_overlap_are_more_than_one_place(workspace: Workspace, root: Path) -> None:
    (root / "same").write_text("x\nx\nx\n")
    with pytest.raises(EditError, match="more than once, at lines 1, 2"):
        workspace.edit("same", "x\nx\n", "y\n")


@pytest.mark.parametrize(("old", "new"), [("b", "b\nc"), ("a\nb", "a\r\nb\r\nc"), ("a\nb\n", "a\nb\nc\n")])
def test_edits_of_a_file_of_windows_keep_its_line_ends(
    workspace: Workspace, root: Path, old: str, new: str
) -> None:
    (root / "dos").write_bytes(b"a\r\nb\r\n")
    workspace.edit("dos", old, new)
    assert (root / "dos").read_bytes() == b"a\r\nb\r\nc\r\n"


def test_a_file_of_equal_lines_takes_no_long_search(workspace: Workspace, root: Path) -> None:
    """It would be half a billion comparisons; the limit of the test run would end them."""
    (root / "blank").write_text("\n" * 300_000)
    with pytest.raises(EditError, match="but line 2001 is '', and the text has 'x'"):
        workspace.edit("blank", "\n" * 2_000 + "x", "y")
    lines = "-\n" * 2_000
    with pytest.raises(PatchError, match="line 2001 of the file is '', and the patch expects 'x'"):
        workspace.patch(f"*** Begin Patch\n*** Update File: blank\n@@\n{lines}-x\n*** End Patch")


@pytest.mark.parametrize(
    "glob", ["**/a/" * 8 + "x", "**/" * 30 + "x", "*a" * 20 + "x", "*[a-m]" * 20 + "[x-z]"]
)
def test_no_pattern_for_paths_searches_long(
    workspace: Workspace, root: Path, glob: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With backtracking and no limit, each would take longer than the test run may."""
    monkeypatch.setattr("nighthawk_async.library.workspace._SEARCH_SECONDS", 0.5)
    folder = root.joinpath(*["a"] * 40)
    folder.mkdir(parents=True)
    (folder / ("z" + "a" * 200)).touch()
    for search in (workspace.find, lambda glob: list(workspace.search("x", glob))):
        with suppress(LibraryError):  # it took too long
            assert search(glob) == []


def test_folders_within_each_other_end_no_search(workspace: Workspace, root: Path) -> None:
    (root / "top.txt").touch()
    folder = os.open(root, os.O_RDONLY)
    for _ in range(1_200):  # more than frames, and more than a path may have characters
        os.mkdir("deep-enough", dir_fd=folder)
        inner = os.open("deep-enough", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        assert workspace.find("*.txt") == ["top.txt"]
        with pytest.raises(WorkspaceError):
            workspace.read("deep-enough/" * 1_000 + "x")
    finally:
        subprocess.run(["rm", "-rf", str(root / "deep-enough")], check=True)


def test_texts_that_are_no_unicode_are_refused(workspace: Workspace, root: Path) -> None:
    before = everything_in(root)
    with pytest.raises(WorkspaceError, match="cannot be written as UTF-8"):
        workspace.create("new", "\ud800")
    for call in (workspace.read, lambda path: workspace.create(path, "")):
        with pytest.raises(WorkspaceError, match="this is no path"):
            call("\ud800")
    assert everything_in(root) == before


@pytest.mark.anyio
async def test_limits_that_limit_nothing_are_refused(workspace: Workspace) -> None:
    with pytest.raises(LibraryError, match="not -1"):
        workspace.read("src/a.py", max_characters=-1)
    with pytest.raises(LibraryError, match="not -1"):
        await workspace.shell("true", max_characters=-1)
    for lines in ((1,), (1, 2, 3), 5, "12", (0, 1), (2, 1), (1.0, 2.0)):
        with pytest.raises(WorkspaceError, match="lines are given as"):
            workspace.read("src/a.py", lines)  # type: ignore[arg-type]


def test_a_workspace_cannot_be_made_another_one(workspace: Workspace) -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        workspace.__init__("/", writable=True)  # type: ignore[misc]
    with pytest.raises(OutsideWorkspaceError):
        workspace.read("/etc/passwd")


@pytest.mark.anyio
@pytest.mark.parametrize("call", ["find", "search", "patch"])
async def test_long_calls_in_a_thread_end_with_their_caller(workspace: Workspace, call: str) -> None:
    patch = "*** Begin Patch\n*** Update File: README.md\n@@\n-Text\n+text\n*** End Patch"
    calls = {
        "find": workspace.find,
        "search": lambda: workspace.search("o"),
        "patch": lambda: workspace.patch(patch),
    }
    went_on = False

    def use() -> None:
        nonlocal went_on
        anyio.from_thread.run_sync(scope.cancel)
        calls[call]()
        went_on = True

    with anyio.CancelScope() as scope:
        await anyio.to_thread.run_sync(use)
    assert scope.cancelled_caught
    assert not went_on
