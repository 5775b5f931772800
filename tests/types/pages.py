"""The examples of the README and of `docs/` as modules, for type checkers.

`python -m tests.types.pages FOLDER` writes them. Every page is one module, as the tests run it, and an
example stands on the lines that it has on its page. What a page may do and a module may not is allowed in the
first lines of the module, and nowhere else.

`python -m tests.types.pages FOLDER --first` writes only the first pages that a user reads, and in folders the
files that the readers of a page make. Their functions are clean under the default rules of type checkers and
linters, without any exception.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.docs.examples import Page, pages_of

__all__ = ["module_of", "write_pages"]

PROJECT = Path(__file__).parents[2]

# A page defines its `main` anew and imports what it has imported. The other settings are those that
# docs/linters-and-type-checkers.md advises: a type checker does not see that a block sets and reads
# variables, and returns. What functions return is checked by mypy.
HEADER = (
    "# pyright: reportDuplicateImport=false, reportRedeclaration=false, "
    "reportUnboundVariable=false, reportUnusedVariable=false, reportReturnType=false, "
    "reportUnusedImport=false",
    '# mypy: disable-error-code="no-redef"',
)

FIRST_PAGES = ("README.md", "docs/quickstart.md", "docs/linters-and-type-checkers.md")


def module_of(page: Page, header: Sequence[str] = HEADER) -> str:
    """The text of a page's module.

    Args:
        page: The page, with examples.
        header: The first lines of the module.

    Raises:
        ValueError: An example begins in the lines that the header needs.
    """
    lines = list(header)
    for block in page.blocks:
        if block.kind == "example":
            if block.line <= len(lines):
                raise ValueError(f"{page.name}:{block.line}: the example begins above line {len(lines) + 1}")
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def write_pages(folder: Path, *, first: bool = False) -> list[Path]:
    """Write the modules of all pages with examples, and remove those of earlier pages.

    Args:
        folder: Where to; it is made when it is not there.
        first: Whether to write only the first pages, without exceptions for type checkers.

    Returns:
        The modules' files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pages = [page for page in pages_of(PROJECT) if any(block.kind == "example" for block in page.blocks)]
    if first:
        pages = [page for page in pages if page.name in FIRST_PAGES]
        assert len(pages) == len(FIRST_PAGES)
    header = () if first else HEADER
    texts = {folder / _file_name(page): module_of(page, header) for page in pages}
    if first:
        texts |= _files_of_pages(folder)
    for path in set(folder.rglob("*.py")).difference(texts):
        path.unlink()
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def _files_of_pages(folder: Path) -> dict[Path, str]:
    """The files that a page lets its reader make, and their texts."""
    return {
        folder / Path(page.name).stem / block.file: block.text
        for page in pages_of(PROJECT)
        for block in page.blocks
        if block.kind == "file" and block.file.endswith(".py")
    }


def _file_name(page: Page) -> str:
    """The page's path as the name of a module, so that an error names the page."""
    name = page.name.removesuffix(".md").replace("/", "_").replace("-", "_")
    return f"page_{name}.py"


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), first="--first" in sys.argv)
