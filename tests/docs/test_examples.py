"""Every Python example of the README and the documentation runs."""

from pathlib import Path

import pytest

from .examples import Page, pages_of, run_page

PROJECT = Path(__file__).parents[2]
PAGES = {page.name: page for page in pages_of(PROJECT)}

NOT_RUN: dict[str, int] = {}
"""How many examples of a page are compiled only. This may only shrink."""


@pytest.mark.usefixtures("warm_python")
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.blocks])
def test_the_examples_of_a_page_run(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGES[name], request_fixture=request.getfixturevalue)


def test_no_more_examples_are_left_out_than_listed() -> None:
    left_out = {name: _left_out(page) for name, page in PAGES.items() if _left_out(page)}
    assert left_out == NOT_RUN


def _left_out(page: Page) -> int:
    return sum(bool(block.reason_not_to_run) for block in page.blocks)
