"""Every page of the documentation has its place in the navigation, and every place its page."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def pages_in(navigation: object) -> Iterator[str]:
    """The pages that a navigation names, sections included."""
    if isinstance(navigation, str):
        yield navigation
    elif isinstance(navigation, list):
        for entry in navigation:
            yield from pages_in(entry)
    elif isinstance(navigation, dict):
        for entry in navigation.values():
            yield from pages_in(entry)


def test_the_navigation_names_every_page_once() -> None:
    site = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    named = sorted(pages_in(site["nav"]))
    folder = PROJECT / site["docs_dir"]
    assert named == sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))
