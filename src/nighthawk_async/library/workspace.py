"""`Workspace`: the files of a folder and a shell in it, for blocks and for programs."""

import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, pairwise
from operator import itemgetter
from typing import TypeAlias, overload

import regex
from msgspec import Struct
from msgspec.structs import replace

from ..confined_files import ConfinedFiles, FoundFile
from ..prompt.plain_text import ShownAsText
from ..sealed_attributes import Sealed, SealedState
from ..types.messages import BinaryContent, guess_media_type
from .changes import ChangeLog, Changes, unified
from .errors import EditError, LibraryError, PatchError, WorkspaceError
from .patch_forms import paths_of, read_patch
from .patches import patched_files
from .searching import matching_lines
from .sensitive import find_refusal, hide_keys
from .shell import Shell
from .shell_sandbox import Sandbox, check_sandbox, existing_paths
from .shell_session import ShellResult
from .stopping import stop_check
from .texts import (
    bounded,
    check_most_characters,
    compiled_expression,
    compiled_glob,
    lines_of,
    replaced,
    shown_line,
)

Names: TypeAlias = list[str]
"""Texts in order. A method of `Workspace` is called `list`."""

_MOST_CHARACTERS = 40_000
_MOST_FILE_BYTES = 10_000_000
_MOST_IMAGE_BYTES = 5_000_000
_MOST_FOUND = 1_000
_MOST_MATCHES = 200
_SEARCH_SECONDS = 10.0
_MOST_LINE_CHARACTERS = 300
_SKIPPED = frozenset({".git", ".git.untrusted", ".hg", ".svn"})


class SearchMatch(ShownAsText, Struct, frozen=True):
    """A line that a pattern was found in.

    Args:
        path: The file.
        line: The number of the line, from 1.
        text: The line, shortened to 300 characters.
        before: The lines before it that were asked for, and are shown with no other match, shortened alike.
        after: Those after it.
    """

    path: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __str__(self) -> str:
        first = self.line - len(self.before)
        around = [*self.before, self.text, *self.after]
        return "\n".join(
            f"{self.path}:{number}{':' if number == self.line else '-'} {text}"
            for number, text in enumerate(around, first)
        )


_Matches: TypeAlias = list[SearchMatch]


class SearchResult(ShownAsText, Struct, frozen=True):
    """The lines that a search has found; iterable. As text, `path:line: text` each.

    Args:
        matches: The lines, by path and number.
        is_complete: Whether these are all; False when there are more than were asked for.
        context: The number of lines before and after each that were asked for.
    """

    matches: tuple[SearchMatch, ...]
    is_complete: bool
    context: int = 0

    def __iter__(self) -> Iterator[SearchMatch]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)

    def __str__(self) -> str:
        lines: list[str] = []
        shown = ("", 0)  # the last line so far: its path and number
        for each in self.matches:
            first = (each.path, each.line - len(each.before))
            if self.context and lines and first != (shown[0], shown[1] + 1):
                lines.append("--")
            lines.append(str(each))
            shown = (each.path, each.line + len(each.after))
        return "\n".join([*lines, *(() if self.is_complete else ("… there are more",))])


class Workspace(SealedState):
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
        sensitive: Whether files that usually hold keys and passwords, such as `.env` and `*.pem`, can be used
            like others, and keys in texts are shown.

    Raises:
        ConfigurationError: It is no folder, the system cannot confine paths (it has no `openat`), `sandbox`
            is another word, or something of `readable` does not exist.
    """

    _changes = Sealed[ChangeLog]()
    _files = Sealed[ConfinedFiles]()
    _shell = Sealed[Shell]()
    sandbox = Sealed[Sandbox]()
    sensitive = Sealed[bool](default=False)
    writable = Sealed[bool]()

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        writable: bool = False,
        sandbox: Sandbox = "required",
        network: bool = False,
        readable: Iterable[str | os.PathLike[str]] = (),
        environment: Mapping[str, str] | None = None,
        sensitive: bool = False,
    ) -> None:
        check_sandbox(sandbox)
        self._files = ConfinedFiles(root, None if sensitive else find_refusal)
        self._shell = Shell(
            root=self._files.root,
            writable=writable,
            sandbox=sandbox,
            network=network,
            readable=existing_paths(readable),
            environment=dict(environment or {}),
            sensitive=sensitive,
        )
        self._changes = ChangeLog()
        self.writable = writable
        self.sandbox = sandbox
        self.sensitive = sensitive

    def __repr__(self) -> str:
        root = str(self._files.root)
        return f"Workspace({root!r}, writable={self.writable}, sandbox={self.sandbox!r})"

    def read(
        self,
        path: str,
        lines: tuple[int, int] | None = None,
        *,
        numbered: bool = False,
        max_characters: int = _MOST_CHARACTERS,
    ) -> str:
        """Return the text of a file.

        Args:
            path: The file.
            lines: The first and the last line, from 1; None for all.
            numbered: Whether each line begins with its number and a tab.
            max_characters: The most characters. Of a longer text, the beginning and the end are returned,
                with a note on what is left out.

        Raises:
            WorkspaceError: There is no such file, it is no text, or has more than 10 MB.
            OutsideWorkspaceError: The path leads out of the workspace.
        """
        check_most_characters(max_characters)
        text, first = self._shown(self._text(path)), 1
        if lines is not None:
            first, last = _line_numbers(lines)
            of_file = lines_of(text)
            if first > max(1, len(of_file)):
                raise WorkspaceError(f"{path} has {len(of_file)} lines; there is no line {first}")
            text = "".join(of_file[first - 1 : last])
        if numbered:
            text = "".join(f"{number:>6}\t{line}" for number, line in enumerate(lines_of(text), first))
        return _readable(bounded(text, max_characters))

    def list(self, path: str = ".") -> Names:
        """Return the names in a folder, sorted; those of folders end with a slash.

        Folders of version control are left out.

        Args:
            path: The folder.

        Raises:
            WorkspaceError: There is no such folder.
            OutsideWorkspaceError: The path leads out of the workspace.
        """
        return self._files.names(path, _SKIPPED)

    def find(self, glob: str = "**/*", *, max_files: int = _MOST_FOUND) -> Names:
        """Return the paths of files, sorted.

        Args:
            glob: The pattern: `*` and `?` within a name, `**` for any folders, `{py,md}` for one of some. A
                pattern without a slash matches names in every folder. Folders of version control are left
                out.
            max_files: The most files.

        Raises:
            WorkspaceError: More files match, or the pattern is the path of a folder.
            LibraryError: The pattern is invalid, can match no path in the folder, or takes longer than 10
                seconds.
        """
        ends_at = time.monotonic() + _SEARCH_SECONDS
        paths = [file.path for file in self._matching(glob, ends_at)]
        if not paths and self._is_folder(glob):
            raise WorkspaceError(
                f"{shown_line(glob)} is a folder: list it, or find its files with {shown_line(glob + '/**')}"
            )
        if len(paths) > max_files:
            raise WorkspaceError(f"{len(paths):,} files match {glob!r}; the most is {max_files:,}: narrow it")
        return sorted(paths)

    def search(
        self,
        pattern: str,
        glob: str = "**/*",
        *,
        ignore_case: bool = False,
        context: int = 0,
        max_matches: int = _MOST_MATCHES,
    ) -> SearchResult:
        """Return the lines of files that a regular expression matches in.

        Args:
            pattern: The regular expression, in Python's syntax.
            glob: The files; see `find`. Files that are no text are left out.
            ignore_case: Whether letters match in either case.
            context: The number of lines to show before and after each; each line is shown once.
            max_matches: The most lines that match.

        Raises:
            LibraryError: The expression is invalid, or takes longer than 10 seconds.
        """
        if context < 0:
            raise LibraryError(f"the lines of context are a number from 0 on, not {context!r}")
        compiled = compiled_expression(
            pattern, "regular expression", pattern, ignore_case=ignore_case, flags=regex.MULTILINE
        )
        ends_at = time.monotonic() + _SEARCH_SECONDS
        matches: _Matches = []
        for path, text in self._texts(glob, ends_at):
            with _in_time(pattern):
                wanted = max_matches - len(matches) + 1
                numbers = [*islice(matching_lines(compiled, text, ends_at), wanted)]
            is_complete = len(numbers) < wanted
            if numbers:
                shown = numbers if is_complete else numbers[:-1]
                matches += _shown_matches(path, text.split("\n"), shown, context)
            if not is_complete:
                return SearchResult(tuple(matches), is_complete=False, context=context)
        return SearchResult(tuple(matches), is_complete=True, context=context)

    def edit(self, path: str, old: str, new: str) -> Changes:
        """Replace a text that is in a file once.

        Args:
            path: The file.
            old: The text, exactly as it is there. Include lines around it if it is there more than once.
            new: The text to put in its place.

        Returns:
            The path of the file; as text, the lines that were changed.

        Raises:
            EditError: The old text is not there once. The message names the first line that differs.
            WorkspaceError: The file cannot be read or written, or the workspace is not writable.
        """
        self._check_writable()
        with self._files.locked(path):
            before = self._text(path)
            with self._hiding_keys(EditError):
                content = replaced(before, old, new, path)
            real_path = self._files.write(path, _encoded(content), makes=False)
            self._changes.note({real_path: _encoded(before)})
        return self._shown_changes({path: (before, content)})

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
            self._changes.note({self._files.write(path, _encoded(text), makes=True): None})

    def patch(self, text: str) -> Changes:
        """Apply a patch: all of it, or nothing.

        Args:
            text: A unified diff (of `diff -u` or `git diff`), or the form that begins with
                `*** Begin Patch`. Hunks, in any order, fit exactly, but for whitespace at the ends of lines;
                each has to be where its numbers say, or at one place only.

        Returns:
            The paths of the files that were changed, made and removed; as text, the lines that were changed.

        Raises:
            PatchError: The patch is damaged, or does not fit. The message names the first line that differs.
            Or it is too long, or its lines are there so often that it takes too long.
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

            with self._hiding_keys(PatchError):
                patched = patched_files(patches, read)
            after = {
                path: None if content is None else _encoded(content) for path, content in patched.items()
            }
            for patch in patches:
                if patch.new_path is not None:
                    modes[patch.new_path] = modes[patch.path]
            self._write_all(before, after, modes)
            self._changes.note({self._files.real_path(path): before[path] for path in after})
        return self._shown_changes(
            {path: (_text_of(before[path], path), _text_of(after[path], path)) for path in after}
        )

    def diff(self) -> str:
        """Return what the current step has changed in files, as a patch; outside of steps, every change.

        That is what `edit`, `create` and `patch` of this object have changed, also in steps within the step.
        What commands of the shell have changed is not in it.

        Raises:
            WorkspaceError: A file cannot be read any more.
        """
        before = self._changes.contents_before()
        files = (
            (path, self._shown(_text_of(content, path)), self._shown(self._text_now(path)))
            for path, content in before.items()
        )
        return "".join(unified(*file) for file in sorted(files, key=itemgetter(0)))

    def _text_now(self, path: str) -> str | None:
        return None if self._files.mode(path) is None else self._text(path)

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
        result = await self._shell.run(command, seconds=timeout, most_characters=max_characters)
        return replace(result, output=self._shown(result.output))

    @overload
    def _shown(self, text: str) -> str: ...

    @overload
    def _shown(self, text: str | None) -> str | None: ...

    def _shown(self, text: str | None) -> str | None:
        """A text without keys, unless they are to be shown."""
        return text if text is None or self.sensitive else hide_keys(text)

    def _shown_changes(self, changes: Mapping[str, tuple[str | None, str | None]]) -> Changes:
        return Changes({path: (self._shown(old), self._shown(new)) for path, (old, new) in changes.items()})

    @contextmanager
    def _hiding_keys(self, kind: type[EditError | PatchError]) -> Generator[None, None, None]:
        """Hide keys in the lines that errors quote."""
        try:
            yield
        except kind as error:
            raise kind(self._shown(str(error))) from None

    def _write_all(
        self,
        before: Mapping[str, bytes | None],
        after: Mapping[str, bytes | None],
        modes: Mapping[str, int | None],
    ) -> None:
        """Write files; those already written get their old content back when one cannot be."""
        written: Names = []
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
        if (reason := _reason_without_matches(glob)) is not None:
            raise LibraryError(f"the pattern {shown_line(glob)} matches nothing here: {reason}")
        pattern = compiled_glob(glob)
        check = stop_check()
        for file in self._files.walk(_SKIPPED):
            check()
            with _in_time(glob):
                if time.monotonic() > ends_at:
                    raise TimeoutError
                matches = pattern.fullmatch(file.path, timeout=max(0.001, ends_at - time.monotonic()))
            if matches:
                yield file

    def _is_folder(self, path: str) -> bool:
        if any(each in path for each in "*?[{"):
            return False
        try:
            self.list(path)
        except LibraryError:
            return False
        return True

    def _texts(self, glob: str, ends_at: float) -> Iterator[tuple[str, str]]:
        """The text of each file that a pattern matches, with plain line ends."""
        for file in self._matching(glob, ends_at):
            if file.size > _MOST_FILE_BYTES:
                continue
            try:
                text = self._shown(_readable(self._text(file.path)))
            except WorkspaceError:  # no text, or gone meanwhile
                continue
            yield file.path, text.removesuffix("\r").replace("\r\n", "\n") if "\r" in text else text

    def _check_writable(self) -> None:
        if not self.writable:
            raise WorkspaceError(
                "the workspace is read-only: Workspace(…, writable=True) lets files be changed"
            )


def _reason_without_matches(glob: str) -> str | None:
    """The reason why a pattern can match no path of a file in a folder; None for others."""
    if not glob or glob.endswith("/"):
        return "it ends without the name of a file; ** stands for all files below a folder"
    if glob.startswith(("/", "~/")) or ".." in glob.split("/"):
        return "paths are relative to the folder of the workspace, and in it"
    if glob.startswith("!"):
        return "it begins with !, which excludes nothing; write [!] for a name that begins so"
    return None


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


def _shown_matches(
    path: str, lines: Sequence[str], numbers: Sequence[int], context: int
) -> Iterator[SearchMatch]:
    """The matches of a file with the lines around them, each of which belongs to one match."""

    def shown(first: int, end: int) -> tuple[str, ...]:
        return tuple(line[:_MOST_LINE_CHARACTERS] for line in lines[first:end])

    begin = 0  # of what is not shown yet
    for number, following in pairwise([*numbers, len(lines)]):
        first, end = max(begin, number - context), min(number + 1 + context, following)
        text = lines[number][:_MOST_LINE_CHARACTERS]
        yield SearchMatch(path, number + 1, text, shown(first, number), shown(number + 1, end))
        begin = end


def _readable(text: str) -> str:
    """A text without the halves of characters that stand for bytes which are no UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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


def _text_of(content: bytes | None, path: str) -> str | None:
    return None if content is None else _decoded(content, path)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise WorkspaceError(
            f"the text cannot be written as UTF-8: {error.reason} at {error.start}"
        ) from None
