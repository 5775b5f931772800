"""`Workspace`: the files of a folder and a shell in it, for blocks and for programs."""

import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from msgspec import Struct

from ..confined_files import ConfinedFiles, FoundFile
from ..types.messages import BinaryContent, guess_media_type
from .errors import LibraryError, WorkspaceError
from .patch_forms import paths_of, read_patch
from .patches import patched_files
from .shell import Shell
from .shell_sandbox import Sandbox, check_sandbox, existing_paths
from .shell_session import ShellResult
from .texts import (
    bounded,
    check_most_characters,
    compiled_expression,
    compiled_glob,
    lines_of,
    replaced,
    shown_line,
)

_MOST_CHARACTERS = 40_000
_MOST_FILE_BYTES = 10_000_000
_MOST_IMAGE_BYTES = 5_000_000
_MOST_FOUND = 1_000
_MOST_MATCHES = 200
_SEARCH_SECONDS = 10.0
_MOST_LINE_CHARACTERS = 300
_SKIPPED = frozenset({".git", ".git.untrusted", ".hg", ".svn"})
_FIXED = frozenset({"_files", "_shell", "sandbox", "writable"})


class SearchMatch(Struct, frozen=True):
    """A line that a pattern was found in.

    Args:
        path: The file.
        line: The number of the line, from 1.
        text: The line, shortened to 300 characters.
    """

    path: str
    line: int
    text: str


class SearchResult(Struct, frozen=True):
    """The lines that a search has found; iterable. As text, one line each.

    Args:
        matches: The lines, by path and number.
        is_complete: Whether these are all; False when there are more than were asked for.
    """

    matches: tuple[SearchMatch, ...]
    is_complete: bool

    def __iter__(self) -> Iterator[SearchMatch]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)

    def __str__(self) -> str:
        lines = [f"{each.path}:{each.line}: {each.text}" for each in self.matches]
        return "\n".join([*lines, *(() if self.is_complete else ("… there are more",))])


class Workspace:
    """The files of a folder, and a shell in it.

        workspace = library.Workspace("/repo", writable=True)

    Name it in a block, or call it in Python. Paths are relative to the folder. Links are followed as long as
    they stay below it, and the methods for files reach nothing outside. These are synchronous, and may be
    called from any thread. The shell is confined by Bubblewrap, which is for Linux, or refuses to run: see
    `sandbox`.

    Args:
        root: The folder.
        writable: Whether files may be changed.
        sandbox: Whether Bubblewrap confines the shell, so that it can write in the folder only, and sees no
            home folders: `required` always (where it does not work, commands are refused), `auto` where it
            works, `off` never. A shell that is not confined can do all that the user of the program can.
        network: Whether a confined shell has a network, this machine and its private networks included.
        readable: Folders and files that a confined shell can read, besides the folder, the system, the
            folders of the search path and this Python.
        environment: Environment variables of the shell, besides the search path and the language.

    Raises:
        ConfigurationError: It is no folder, the system cannot confine paths (it has no `openat`), `sandbox`
            is another word, or something of `readable` does not exist.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        writable: bool = False,
        sandbox: Sandbox = "required",
        network: bool = False,
        readable: Iterable[str | os.PathLike[str]] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        check_sandbox(sandbox)
        self._files = ConfinedFiles(root)
        self._shell = Shell(
            root=self._files.root,
            writable=writable,
            sandbox=sandbox,
            network=network,
            readable=existing_paths(readable),
            environment=dict(environment or {}),
        )
        self.writable = writable
        self.sandbox: Sandbox = sandbox

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and name in self.__dict__:  # code that a model writes may try it
            raise AttributeError(f"{name} of a workspace cannot be changed; make another Workspace")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        root = str(self._files.root)
        return f"Workspace({root!r}, writable={self.writable}, sandbox={self.sandbox!r})"

    def read(
        self, path: str, lines: tuple[int, int] | None = None, *, max_characters: int = _MOST_CHARACTERS
    ) -> str:
        """Return the text of a file.

        Args:
            path: The file.
            lines: The first and the last line, from 1; None for all.
            max_characters: The most characters. Of a longer text, the beginning and the end are returned,
                with a note on what is left out.

        Raises:
            WorkspaceError: There is no such file, it is no text, or has more than 10 MB.
            OutsideWorkspaceError: The path leads out of the workspace.
        """
        check_most_characters(max_characters)
        text = self._text(path)
        if lines is not None:
            first, last = _line_numbers(lines)
            of_file = lines_of(text)
            if first > max(1, len(of_file)):
                raise WorkspaceError(f"{path} has {len(of_file)} lines; there is no line {first}")
            text = "".join(of_file[first - 1 : last])
        return bounded(text, max_characters).encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def find(self, glob: str = "**/*", *, max_files: int = _MOST_FOUND) -> list[str]:
        """Return the paths of files, sorted.

        Args:
            glob: The pattern: `*` and `?` within a name, `**` for any folders. A pattern without a slash
                matches names in every folder. Folders of version control are left out.
            max_files: The most files.

        Raises:
            WorkspaceError: More files match.
            LibraryError: The pattern is invalid, or takes longer than 10 seconds.
        """
        ends_at = time.monotonic() + _SEARCH_SECONDS
        paths = [file.path for file in self._matching(glob, ends_at)]
        if len(paths) > max_files:
            raise WorkspaceError(f"{len(paths):,} files match {glob!r}; the most is {max_files:,}: narrow it")
        return sorted(paths)

    def search(
        self, pattern: str, glob: str = "**/*", *, ignore_case: bool = False, max_matches: int = _MOST_MATCHES
    ) -> SearchResult:
        """Return the lines of files that a regular expression matches in.

        Args:
            pattern: The regular expression, in Python's syntax.
            glob: The files; see `find`. Files that are no text are left out.
            ignore_case: Whether letters match in either case.
            max_matches: The most lines.

        Raises:
            LibraryError: The expression is invalid, or takes longer than 10 seconds.
        """
        compiled = compiled_expression(pattern, "regular expression", pattern, ignore_case=ignore_case)
        ends_at = time.monotonic() + _SEARCH_SECONDS
        matches: list[SearchMatch] = []
        for path, number, line in self._lines(glob, ends_at):
            with _in_time(pattern):
                is_found = compiled.search(line, timeout=max(0.001, ends_at - time.monotonic()))
            if is_found:
                if len(matches) == max_matches:
                    return SearchResult(tuple(matches), is_complete=False)
                matches.append(SearchMatch(path, number, line[:_MOST_LINE_CHARACTERS]))
        return SearchResult(tuple(matches), is_complete=True)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that is in a file once.

        Args:
            path: The file.
            old: The text, exactly as it is there. Include lines around it if it is there more than once.
            new: The text to put in its place.

        Raises:
            EditError: The old text is not there once. The message names the first line that differs.
            WorkspaceError: The file cannot be read or written, or the workspace is not writable.
        """
        self._check_writable()
        with self._files.locked(path):
            content = replaced(self._text(path), old, new, path)
            self._files.write(path, _encoded(content), makes=False)

    def create(self, path: str, text: str) -> None:
        """Make a file, and the folders that it needs.

        Args:
            path: The file, which must not exist.
            text: Its text.

        Raises:
            WorkspaceError: It exists, cannot be written, or the workspace is not writable.
        """
        self._check_writable()
        with self._files.locked(path):
            self._files.write(path, _encoded(text), makes=True)

    def patch(self, text: str) -> list[str]:
        """Apply a patch: all of it, or nothing.

        Args:
            text: A unified diff (of `diff -u` or `git diff`), or the form that begins with
                `*** Begin Patch`. Hunks fit exactly, but for whitespace at the ends of lines; each has to be
                where its numbers say, or at one place only.

        Returns:
            The paths of the files that were changed, made and removed.

        Raises:
            PatchError: The patch is damaged, or does not fit. The message names the first line that differs.
            WorkspaceError: A file cannot be read or written, or the workspace is not writable.
        """
        self._check_writable()
        patches = read_patch(text)
        with self._files.locked(*paths_of(patches)):
            before: dict[str, bytes | None] = {}
            modes: dict[str, int | None] = {}

            def read(path: str) -> str | None:
                mode = modes[path] = self._files.mode(path)
                content = before[path] = None if mode is None else self._files.read(path, _MOST_FILE_BYTES)
                return None if content is None else _decoded(content, path)

            after = {
                path: None if content is None else _encoded(content)
                for path, content in patched_files(patches, read).items()
            }
            for patch in patches:
                if patch.new_path is not None:
                    modes[patch.new_path] = modes[patch.path]
            self._write_all(before, after, modes)
        return list(after)

    def image(self, path: str) -> BinaryContent:
        """Return an image, which a model can look at.

        Args:
            path: The file, of at most 5 MB.

        Raises:
            WorkspaceError: There is no such file, it is too large, or its name is not that of an image.
        """
        media_type = guess_media_type(path)
        if media_type is None or not media_type.startswith("image/"):
            raise WorkspaceError(f"{path} has not the name of an image, such as chart.png")
        return BinaryContent(
            data=self._files.read(path, _MOST_IMAGE_BYTES), media_type=media_type, identifier=path
        )

    async def shell(
        self,
        command: str,
        *,
        timeout: float | None = 120.0,  # noqa: ASYNC109  (a result, no error; models write this call)
        max_characters: int = _MOST_CHARACTERS,
    ) -> ShellResult:
        """Run a command in the shell of the caller's task, and wait for its end.

        The working directory, variables and processes in the background stay for the next command of the same
        task, and end with the task: all processes, also those that left the process group. Outside of a run,
        they end with the command. One command runs at a time in a task. Send the output of a process in the
        background to a file: what it writes between two commands belongs to the second one's output.

        Args:
            command: The command, in the language of bash, or of `sh` where there is no bash.
            timeout: The time limit in seconds, after which all processes of the session are killed; None for
                none.
            max_characters: The most characters of the output. Of a longer one, the beginning and the end are
                returned, with a note on what is left out.

        Raises:
            ShellError: The command is refused, because the shell has to be confined, as that of a read-only
                workspace, and Bubblewrap does not work here. Or the shell cannot be started.
        """
        check_most_characters(max_characters)
        return await self._shell.run(command, seconds=timeout, most_characters=max_characters)

    def _write_all(
        self,
        before: Mapping[str, bytes | None],
        after: Mapping[str, bytes | None],
        modes: Mapping[str, int | None],
    ) -> None:
        """Write files; those already written get their old content back when one cannot be."""
        written: list[str] = []
        try:
            for path, content in after.items():
                self._write(path, before[path], content, modes[path])
                written.append(path)
        except BaseException:
            for path in reversed(written):
                with suppress(WorkspaceError):
                    self._write(path, after[path], before[path], modes[path])
            raise

    def _write(self, path: str, old: bytes | None, new: bytes | None, mode: int | None) -> None:
        if new is None:
            if old is not None:
                self._files.delete(path)
        elif old != new:
            self._files.write(path, new, makes=old is None, mode=mode)

    def _text(self, path: str) -> str:
        return _decoded(self._files.read(path, _MOST_FILE_BYTES), path)

    def _matching(self, glob: str, ends_at: float) -> Iterator[FoundFile]:
        """The files that a pattern matches."""
        pattern = compiled_glob(glob)
        for file in self._files.walk(_SKIPPED):
            with _in_time(glob):
                matches = pattern.fullmatch(file.path, timeout=max(0.001, ends_at - time.monotonic()))
            if matches:
                yield file

    def _lines(self, glob: str, ends_at: float) -> Iterator[tuple[str, int, str]]:
        for file in self._matching(glob, ends_at):
            if file.size > _MOST_FILE_BYTES:
                continue
            try:
                text = self._text(file.path)
            except WorkspaceError:  # no text, or gone meanwhile
                continue
            for number, line in enumerate(
                text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").split("\n"), 1
            ):
                yield file.path, number, line.removesuffix("\r")

    def _check_writable(self) -> None:
        if not self.writable:
            raise WorkspaceError(
                "the workspace is read-only: Workspace(…, writable=True) lets files be changed"
            )


@contextmanager
def _in_time(pattern: str) -> Generator[None, None, None]:
    """Say that a pattern takes too long, or too much memory, as one that calls itself without end."""
    try:
        yield
    except MemoryError:
        raise LibraryError(
            f"the search for {shown_line(pattern)} takes too much memory; use a simpler pattern"
        ) from None
    except TimeoutError:
        raise LibraryError(
            f"the search for {shown_line(pattern)} took longer than {_SEARCH_SECONDS:g} seconds; use a "
            "simpler pattern, or fewer files"
        ) from None


def _line_numbers(lines: object) -> tuple[int, int]:
    match lines:
        case (int(first), int(last)) if 1 <= first <= last:
            return first, last
        case _:
            raise WorkspaceError(f"lines are given as (first, last), from 1, not {lines!r:.100}")


def _decoded(content: bytes, path: str) -> str:
    if b"\0" in content:
        raise WorkspaceError(f"{path} is no text")
    return content.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise WorkspaceError(
            f"the text cannot be written as UTF-8: {error.reason} at {error.start}"
        ) from None
