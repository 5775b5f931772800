"""Nodes as rows of the page: what is seen of each without opening it. Pure.

The names are those of `observe.view_as_json`. Whatever is empty is left out, since thousands of nodes are
sent; and so are texts of any length, which are sent of one node when it is opened.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ...observe.views import NodeView
from ...types.json import JsonableValue
from ...types.usage import Usage

Brief: TypeAlias = dict[str, JsonableValue]

ANSWERABLE = "nighthawk.dashboard.answerable"
"""The attribute of a node that can be answered over a dashboard."""

OWN_REQUEST = "nighthawk.dashboard.request"
"""The attribute of requests to the dashboard itself, which it does not show."""

_HINT_CHARACTERS = 160
_HINT_VALUES = 4
_ERROR_CHARACTERS = 200


def is_own_request(view: NodeView) -> bool:
    """Whether a node is a request to the dashboard itself."""
    return view.attributes.get(OWN_REQUEST) is True


def brief_node(view: NodeView) -> Brief:
    """Return the summary of a node for its row."""
    brief: Brief = {
        "id": view.id,
        "parent_id": view.parent_id,
        "kind": view.kind,
        "name": view.name,
        "state": view.state,
        "began_at": view.began_at,
        "version": view.version,
    }
    controls = sorted(view.controls) + (["answer"] if view.attributes.get(ANSWERABLE) is True else [])
    error = view.error
    further: Brief = {
        "ended_at": view.ended_at,
        "source": view.source,
        "hint": _hint(view.inputs),
        "error": None
        if error is None
        else {"type": error.type, "message": error.message[:_ERROR_CHARACTERS]},
        "usage": _brief_usage(view.usage),
        "subtree_usage": _brief_usage(view.subtree_usage),
        "retries": view.retries,
        "subtree_retries": view.subtree_retries,
        "dropped_children": view.dropped_children,
        "controls": [*controls],
    }
    brief.update((name, value) for name, value in further.items() if value)
    return brief


def brief_tree(view: NodeView, *, depth: int | None, max_nodes: int) -> tuple[Brief, bool]:
    """Nodes with their `children`, those near the top first, and with the number that there are of them.

    Args:
        view: The node at the top.
        depth: The number of levels below it that are included; None for all.
        max_nodes: The greatest number of nodes that are included.

    Returns:
        The tree, and whether nodes were left out for being too many.
    """
    top = _counted_brief(view)
    remaining = max_nodes - 1
    level: list[tuple[NodeView, Brief]] = [(view, top)]
    while level and depth != 0:
        depth = None if depth is None else depth - 1
        below: list[tuple[NodeView, Brief]] = []
        for node, brief in level:
            shown = _shown_children(node)
            taken = [(child, _counted_brief(child)) for child in shown[: max(0, remaining)]]
            brief["children"] = [*(child_brief for _, child_brief in taken)]
            remaining -= len(shown)
            below += taken
        level = below
    return top, remaining < 0


def _shown_children(view: NodeView) -> list[NodeView]:
    return [child for child in view.children if not is_own_request(child)]


def _counted_brief(view: NodeView) -> Brief:
    return {**brief_node(view), "child_count": len(_shown_children(view))}


def _hint(inputs: Mapping[str, str]) -> str:
    """The beginning of what it works with, on one line."""
    shown = (f"{name}: {text[:_HINT_CHARACTERS]}" for name, text in _first(inputs.items()))
    return ", ".join(shown)[:_HINT_CHARACTERS]


def _first(items: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return (item for item, _ in zip(items, range(_HINT_VALUES), strict=False))


def _brief_usage(usage: Usage) -> Brief | None:
    """Return a usage without its zeros, and with `is_complete` where it is not; None for no usage."""
    if not usage.requests and not usage.input_tokens and not usage.output_tokens:
        return None
    amounts: Brief = {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": str(usage.cost) if usage.cost else None,
        "unpriced_requests": usage.unpriced_requests,
    }
    told: Brief = {name: amount for name, amount in amounts.items() if amount}
    if not usage.is_complete:
        told["is_complete"] = False
    return told
