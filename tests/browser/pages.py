"""What is looked for on the page."""

from typing import Any

__all__ = ["focused", "row", "titles"]


def row(page: Any, name: str) -> Any:
    """The row of a node."""
    return page.locator("[role=treeitem]", has=page.locator(".title", has_text=name)).first


def titles(page: Any) -> list[str]:
    """The names of the nodes that have a row, in the order of the elements."""
    return page.locator("[role=treeitem] .title").all_inner_texts()


def focused(page: Any) -> str:
    """The id of what has the focus, or else its text."""
    return page.evaluate("document.activeElement.id || document.activeElement.textContent")
