"""The modules that type checkers get of the documentation."""

from pathlib import Path

import pytest

from tests.docs.examples import parse_page

from .pages import HEADER, module_of, write_pages


def test_an_example_stands_on_the_lines_of_its_page() -> None:
    examples = ["```python\nfirst = 1\nsecond = 2\n```", "```text\nprinted\n```", "```python\nthird = 3\n```"]
    text = "\n\n".join(["# Page", "Text.", *examples])
    lines = module_of(parse_page("page.md", text)).splitlines()
    page = text.splitlines()
    assert tuple(lines[: len(HEADER)]) == HEADER
    assert [(number, line) for number, line in enumerate(lines) if line and line not in HEADER] == [
        (number, line) for number, line in enumerate(page) if " = " in line
    ]


def test_an_example_above_the_header_is_refused() -> None:
    with pytest.raises(ValueError, match=r"page.md:2: .* above line 3"):
        module_of(parse_page("page.md", "```python\nfirst = 1\n```\n"))


def test_every_page_with_examples_is_written_and_others_are_removed(tmp_path: Path) -> None:
    (tmp_path / "page_of_yesterday.py").touch()
    paths = write_pages(tmp_path)
    assert sorted(paths) == sorted(tmp_path.glob("*.py"))
    assert {"page_README.py", "page_docs_natural_blocks.py"} <= {path.name for path in paths}
    assert all(compile(path.read_text(encoding="utf-8"), path.name, "exec") for path in paths)


def test_the_files_that_a_reader_makes_are_among_the_first_pages(tmp_path: Path) -> None:
    paths = write_pages(tmp_path, first=True)
    assert tmp_path / "tutorial" / "classify.py" in paths
    assert sorted(paths) == sorted(tmp_path.rglob("*.py"))
