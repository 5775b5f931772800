"""Nodes as the page reads them: summaries for its rows, and the details of one node. Pure.

The names are those of `observe.view_as_json`. Empty values are left out, because thousands of nodes are sent.
So are texts of any length: they are sent for one node when it is opened.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from ...observation import EVALUATION, READ_AS, WORKER
from ...types.json import JsonableValue
from ...types.usage import Usage
from ..node_words import preview_in_row, progress_text
from ..tree_rows import only_step
from ..views import NodeView, view_as_json

Summary: TypeAlias = dict[str, JsonableValue]

ANSWERABLE = "nighthawk.dashboard.answerable"
"""The attribute of a node that can be answered over a dashboard."""

OWN_REQUEST = "nighthawk.dashboard.request"
"""The attribute of requests to the dashboard itself, which it does not show."""

_MOST_EXACT = 2**53
"""The largest integer that a browser does not round."""

_HINT_CHARACTERS = 160
_HINT_VALUES = 4
_ERROR_CHARACTERS = 200


def is_own_request(view: NodeView) -> bool:
    """Whether a node is a request to the dashboard itself."""
    return view.attributes.get(OWN_REQUEST) is True


def summarize_node(view: NodeView) -> Summary:
    """Return the summary of a node for its row."""
    summary: Summary = {
        "id": view.id,
        "parent_id": view.parent_id,
        "kind": view.kind,
        "name": view.name,
        "state": view.state,
        "began_at": view.began_at,
        "version": view.version,
    }
    controls = sorted(view.controls) + (["answer"] if view.attributes.get(ANSWERABLE) is True else [])
    error, step = view.error, only_step(view)
    further: Summary = {
        "step": None if step is None else step.id,
        "ended_at": view.ended_at,
        "source": view.source,
        "hint": _hint(view.inputs),
        "worker": view.attributes.get(WORKER),
        "progress": progress_text(view)[:_ERROR_CHARACTERS],
        "read_as": view.attributes.get(READ_AS),
        "error": None
        if error is None
        else {"type": error.type, "message": error.message[:_ERROR_CHARACTERS]},
        "usage": _usage_summary(view.usage),
        "usage_by_model": _usages_of_others(view),
        "subtree_usage": _usage_summary(view.subtree_usage),
        "retries": view.retries,
        "subtree_retries": view.subtree_retries,
        "dropped_children": view.dropped_children,
        "controls": [*controls],
        "evaluation": {
            name.removeprefix(EVALUATION): value
            for name, value in view.attributes.items()
            if name.startswith(EVALUATION)
        },
    }
    summary.update((name, value) for name, value in further.items() if value)
    return summary


def summarize_tree(view: NodeView, *, depth: int | None, max_nodes: int) -> tuple[Summary, bool]:
    """Return nodes with their `children`, those near the top first, and with the number of children.

    Args:
        view: The node at the top.
        depth: The number of levels below it that are included; None for all.
        max_nodes: The maximum number of nodes that are included.

    Returns:
        The tree, and whether nodes were left out because of the maximum.
    """
    top = _counted_summary(view)
    remaining = max_nodes - 1
    level: list[tuple[NodeView, Summary]] = [(view, top)]
    while level and depth != 0:
        depth = None if depth is None else depth - 1
        below: list[tuple[NodeView, Summary]] = []
        for node, summary in level:
            shown = _shown_children(node)
            taken = [(child, _counted_summary(child)) for child in shown[: max(0, remaining)]]
            summary["children"] = [*(child_summary for _, child_summary in taken)]
            remaining -= len(shown)
            below += taken
        level = below
    return top, remaining < 0


def _shown_children(view: NodeView) -> list[NodeView]:
    return [child for child in view.children if not is_own_request(child)]


def _counted_summary(view: NodeView) -> Summary:
    return {**summarize_node(view), "child_count": len(_shown_children(view))}


def _usages_of_others(view: NodeView) -> Summary | None:
    """Return the usage by model of a node that is not itself named after the model, as a model request is."""
    if view.usage_by_model.keys() <= {view.name}:
        return None
    return {model: _usage_summary(usage) for model, usage in view.usage_by_model.items()}


def _hint(inputs: Mapping[str, str]) -> str:
    """Return the beginning of the inputs, on one line."""
    shown = (f"{name}: {preview_in_row(text)[:_HINT_CHARACTERS]}" for name, text in _first(inputs.items()))
    return ", ".join(shown)[:_HINT_CHARACTERS]


def _first(items: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return (item for item, _ in zip(items, range(_HINT_VALUES), strict=False))


def _usage_summary(usage: Usage) -> Summary | None:
    """Return a usage without its zeros, and with `is_complete` where it is not; None for no usage."""
    if not (usage.requests or usage.input_tokens or usage.output_tokens or usage.cached_requests):
        return None
    amounts: Summary = {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": str(usage.cost) if usage.cost else None,
        "unpriced_requests": usage.unpriced_requests,
        "cached_requests": usage.cached_requests,
    }
    shown: Summary = {name: amount for name, amount in amounts.items() if amount}
    if not usage.is_complete:
        shown["is_complete"] = False
    return shown


def node_details(view: NodeView, question: Summary | None = None) -> Summary:
    """Return all details of a node, without the nodes below it. Large numbers are texts, for browsers.

    Args:
        view: The node.
        question: The question that can be answered here; None for none.
    """
    details: Summary = view_as_json(view, depth=0)
    attributes = cast("dict[str, JsonableValue]", details["attributes"])
    details["attributes"] = {name: _exact(value) for name, value in attributes.items()}
    if question is not None:
        details["question"] = question
        details["controls"] = [*sorted(view.controls), "answer"]
    return details


def _exact(value: JsonableValue) -> JsonableValue:
    return str(value) if isinstance(value, int) and abs(value) > _MOST_EXACT else value
