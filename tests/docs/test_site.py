"""Every page of the documentation has its place in the navigation, and every place its page."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from . import build, reference

PROJECT = Path(__file__).parents[2]
FILES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
    *("CODE_OF_CONDUCT.md", "GOVERNANCE.md", "SECURITY.md"),
)
PAGES = [
    *(PROJECT / name for name in FILES),
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "examples").rglob("*.md")),
]


@cache
def inline_tokens(page: Path) -> list[tuple[bool, Token]]:
    """The texts of a page, each with whether it is a heading."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
    return [
        (before.type == "heading_open", token) for before, token in pairwise(tokens) if token.type == "inline"
    ]


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, named or as Python-Markdown makes them."""
    texts = (
        "".join(child.content for child in token.children or ())
        for is_heading, token in inline_tokens(page)
        if is_heading
    )
    named = ((text, re.search(r"\{ #([\w-]+) \}$", text)) for text in texts)
    return {
        name[1] if name else re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
        for text, name in named
    }


def broken_links(page: Path) -> Iterator[str]:
    """The links of a page to files and headings that do not exist."""
    for _, token in inline_tokens(page):
        for child in token.children or ():
            link = str(child.attrGet("href") or child.attrGet("src") or "")
            if not link or re.match(r"\w+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                yield link


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_the_reference_has_the_names_that_all_leaves_out() -> None:
    """`python -m tests.docs.reference` writes them."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in reference.pages()}
    assert [name for name, text in texts.items() if text != reference.with_section(text)] == []


MINUTES_OF_A_PAGE = 25


def test_no_page_takes_more_than_twenty_five_minutes() -> None:
    pages = sorted((PROJECT / "docs").glob("*.md"))
    minutes = {page.name: build.minutes_of(page) for page in pages if page.name != "changelog.md"}
    assert [f"{name}: {count}" for name, count in minutes.items() if count > MINUTES_OF_A_PAGE] == []


def test_a_page_says_how_long_it_takes() -> None:
    page = build.with_minutes('<h1 id="a">A<a href="#a">¶</a></h1><p>Text.</p>', 1)
    assert page == '<h1 id="a">A<a href="#a">¶</a></h1>\n<p class="minutes">1 minute to read</p><p>Text.</p>'
    with pytest.raises(SystemExit, match="no heading"):
        build.with_minutes("<p>Text.</p>", 1)
    assert build.page_of("index.md") == "index.html"
    assert build.page_of("reference/errors.md") == "reference/errors/index.html"
