"""The Python examples of a Markdown page, in order, and how to run them as a reader would.

All examples of a page share one namespace, as if they were one script. HTML comments, which readers do not
see, direct the run; each stands in a paragraph of its own above the block it concerns:

- `<!-- setup: NAME -->` requests the pytest fixture NAME (see `conftest.py`) before the next example runs.
- `<!-- output -->` above a `text` block: the example before it printed exactly that.
- `<!-- no-run: REASON -->`: the example is only compiled. The pages that may do so are listed in
`test_examples.py`.
- `<!-- file: NAME -->`: the example, or a `markdown`, `yaml` or `csv` block, is a whole file. It is written,
and does not run.
- `<!-- run -->` above an `sh` block: its commands run in the folder of the files, one after the other. With
`<!-- typed: ONE | TWO -->` they run in a terminal, whose person answers the prompts so.
- `<!-- serve -->` above an `sh` block: the same, but the server that it starts goes on until the page ends.
"""

import contextlib
import io
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

from .commands import Commands

__all__ = ["Block", "Page", "pages_of", "parse_page", "run_page"]

_DIRECTIVE = re.compile(
    r"\s*<!--\s*(setup|no-run|output|file|run|serve|typed)\b:?\s*(.*?)\s*-->\s*", re.DOTALL
)
_FILE_LANGUAGES = ("csv", "markdown", "yaml")
_WITHOUT_ARGUMENT = ("output", "run", "serve")
_SECONDS = re.compile(r"\b\d+\.\d+s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """An example, a file, commands, or the output that is expected of the block before it.

    Args:
        kind: Which of them; `serve` is a command that goes on.
        text: The code, the commands, or the output.
        line: The line of its first character in the page, counted from 1.
        setups: Names of the fixtures to request first.
        reason_not_to_run: Why it is compiled only; empty when it runs.
        file: The name of the file.
        typed: The answers of the person at the terminal; None without a terminal.
    """

    kind: Literal["example", "output", "file", "run", "serve"]
    text: str
    line: int
    setups: tuple[str, ...] = ()
    reason_not_to_run: str = ""
    file: str = ""
    typed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A Markdown page.

    Args:
        name: Its path below the project's folder, with slashes.
        blocks: Its examples and expected outputs, in order.
    """

    name: str
    blocks: tuple[Block, ...]


@dataclass(slots=True)
class _Directives:
    """The comments above a block."""

    setups: list[str] = field(default_factory=list[str])
    reason_not_to_run: str = ""
    file: str = ""
    typed: tuple[str, ...] | None = None
    kind: Literal["example", "output", "run", "serve"] = "example"


def parse_page(name: str, text: str) -> Page:
    """Find the examples of a page.

    Args:
        name: The page's path below the project's folder, with slashes.
        text: The page's Markdown.

    Raises:
        ValueError: A directive has no effect or no reason, or an example stands where it would not be found.
    """
    blocks: list[Block] = []
    directives = _Directives()
    for token in MarkdownIt("commonmark").parse(text):
        place = f"{name}:{token.map[0] + 1 if token.map else 0}"
        if token.type == "html_block":
            _read_directive(token.content, directives, place)
        elif token.type == "code_block" and re.search(r"^\s*(```|~~~)\s*py", token.content, re.MULTILINE):
            raise ValueError(
                f"{place}: an example inside an admonition or tab is not found; move it to the margin"
            )
        elif token.type == "fence":
            block = _block_of(token, directives, place)
            blocks += [block] if block is not None else []
            directives = _Directives(setups=directives.setups if block is None else [])
    if directives != _Directives():
        raise ValueError(f"{name}: a directive at the end concerns no block")
    return Page(name=name, blocks=tuple(blocks))


def run_page(page: Page, *, request_fixture: Callable[[str], object]) -> None:
    """Run the examples of a page, in order, in one namespace, in the current directory.

    Args:
        page: The page.
        request_fixture: Called with each name that a `setup` comment gives.

    Raises:
        AssertionError: An example printed something else than the page says.
        Exception: Whatever an example raises.
    """
    with _as_main_module() as module, Commands() as commands:
        printed = ""
        for block in page.blocks:
            if block.kind == "output":
                assert _comparable(printed) == _comparable(block.text), (
                    f"{page.name}:{block.line}: the output"
                )
                continue
            for setup in block.setups:
                request_fixture(setup)
            match block.kind:
                case "file":
                    commands.write(block.file, block.text)
                case "run":
                    printed = commands.run(block.text, typed=block.typed)
                case "serve":
                    commands.serve(block.text)
                case "example":
                    code = _compile(block, filename=f"{page.name}[{block.line}]")
                    if not block.reason_not_to_run:
                        printed = _printed_by(code, module)


def _printed_by(code: CodeType, module: ModuleType) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, module.__dict__)
    return printed.getvalue()


def _comparable(output: str) -> str:
    """An output without what differs from run to run: how long it took, and blanks at the ends of lines."""
    lines = _SECONDS.sub("0.0s", output).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _read_directive(comment: str, directives: _Directives, place: str) -> None:
    match = _DIRECTIVE.fullmatch(comment)
    if match is None:
        return
    word, argument = match.groups()
    is_bare = word in _WITHOUT_ARGUMENT
    if is_bare == bool(argument):
        raise ValueError(f"{place}: {word} takes {'no argument' if is_bare else 'an argument'}")
    match word:
        case "setup":
            directives.setups.append(argument)
        case "no-run":
            directives.reason_not_to_run = argument
        case "file":
            directives.file = argument
        case "typed":
            directives.typed = tuple(answer.strip() for answer in argument.split("|"))
        case "run" | "serve":
            directives.kind = word
        case _:
            directives.kind = "output"


def _block_of(token: Token, directives: _Directives, place: str) -> Block | None:
    """The block of a fence, if it is an example or an output."""
    line = (token.map[0] if token.map else 0) + 2
    language = token.info.split()[0].lower() if token.info.strip() else ""
    is_example = language in ("python", "py")
    if language == "pycon":
        raise ValueError(f"{place}: interactive sessions are not run; write a python block and its output")
    if directives.kind == "output":
        if is_example:
            raise ValueError(f"{place}: output stands above a text block")
        return Block(kind="output", text=token.content, line=line)
    setups = tuple(directives.setups)
    if directives.kind in ("run", "serve"):
        if language != "sh":
            raise ValueError(f"{place}: {directives.kind} stands above an sh block")
        return Block(
            kind=directives.kind, text=token.content, line=line, setups=setups, typed=directives.typed
        )
    if not is_example:
        is_text = language in _FILE_LANGUAGES and bool(directives.file)
        if directives.reason_not_to_run or directives.typed or (directives.file and not is_text):
            raise ValueError(f"{place}: no-run, file and typed do not stand above this")
        return Block(kind="file", text=token.content, line=line, file=directives.file) if is_text else None
    return Block(
        kind="file" if directives.file else "example",
        text=token.content,
        line=line,
        setups=setups,
        reason_not_to_run=directives.reason_not_to_run,
        file=directives.file,
    )


def _compile(block: Block, *, filename: str) -> CodeType:
    """Compile an example whose source `inspect` can read, as natural functions need."""
    lines = block.text.splitlines(keepends=True)
    linecache.cache[filename] = (len(block.text), None, lines, filename)
    return compile(block.text, filename, "exec", dont_inherit=True)


@contextlib.contextmanager
def _as_main_module() -> Iterator[ModuleType]:
    """While the context lasts, a fresh module is `__main__`; afterwards its sources are forgotten."""
    real_main = sys.modules["__main__"]
    known = set(linecache.cache)
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        yield module
    finally:
        sys.modules["__main__"] = real_main
        for filename in set(linecache.cache) - known:
            del linecache.cache[filename]


def pages_of(project: Path) -> list[Page]:
    """The README and every page of the documentation."""
    paths = [project / "README.md", *sorted((project / "docs").rglob("*.md"))]
    return [
        parse_page(path.relative_to(project).as_posix(), path.read_text(encoding="utf-8")) for path in paths
    ]
