"""What is looked for on the page."""

from typing import Any

import pytest

__all__ = ["focused", "row", "titles", "wait_for_titles"]


def row(page: Any, name: str) -> Any:
    """The row of a node."""
    return page.locator("[role=treeitem]", has=page.locator(".title", has_text=name)).first


def titles(page: Any) -> list[str]:
    """The names of the nodes that have a row, in the order of the elements."""
    return page.locator("[role=treeitem] .title").all_inner_texts()


def wait_for_titles(page: Any, names: list[str]) -> None:
    """Wait until just these nodes have a row, in this order."""
    expect = pytest.importorskip("playwright.sync_api").expect
    expect(page.locator("[role=treeitem] .title")).to_have_text(names)


def focused(page: Any) -> str:
    """The id of what has the focus, or else its text."""
    return page.evaluate("document.activeElement.id || document.activeElement.textContent")
