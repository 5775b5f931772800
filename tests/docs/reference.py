"""What the pages of the reference say of names that `__all__` leaves out: `python -m tests.docs.reference`.

A package lists the names that most programs write. It has others to import: the types of what it returns,
and errors that are caught by their families. They follow on its page, under "Also importable".
"""

import re
from pathlib import Path

from .build import DOCS, importable_names

HEADING = "## Also importable"
BEGINNING = """\
These names are imported from the package like all others, with completion and types. `__all__` leaves them
out, because few programs write them: most receive such an object, or catch the error by its family."""
OPTIONS = "{ heading_level: 3, show_root_heading: true, show_root_toc_entry: true }"
PAGE = re.compile(r"^::: (nighthawk_async(?:\.\w+)?)$", re.MULTILINE)


def main() -> None:
    """Write the section of every page."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(with_section(text), encoding="utf-8")


def pages() -> list[Path]:
    """The pages of the reference."""
    return sorted((DOCS / "reference").glob("*.md"))


def with_section(text: str) -> str:
    """A page with the section that belongs to its package; without one if `__all__` has all names."""
    found = PAGE.search(text)
    if found is None:
        raise SystemExit(f"a page of the reference describes no package: {text[:80]!r}")
    package = found[1]
    names = sorted(importable_names(package), key=str.lower)
    before = text.partition(f"\n{HEADING}\n")[0].rstrip("\n")
    if not names:
        return f"{before}\n"
    described = "\n\n".join(f"::: {package}.{name}\n    options: {OPTIONS}" for name in names)
    return f"{before}\n\n{HEADING}\n\n{BEGINNING}\n\n{described}\n"


if __name__ == "__main__":
    main()
