"""Views as JSON values, for pages, event streams and files."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields

from ..types.json import JsonableValue
from ..types.usage import Usage
from .views import NodeView

__all__ = ["view_as_json"]

_OWN_FORM = frozenset({"children", "usage", "subtree_usage", "error", "transcript", "attributes", "controls"})
_PLAIN = tuple(
    field.name for field in fields(NodeView) if field.name not in _OWN_FORM | {"inputs", "outputs"}
)


def view_as_json(view: NodeView, *, depth: int | None = None) -> dict[str, JsonableValue]:
    """A view as what `json.dumps` takes. Texts are as they are: whoever shows them escapes them.

    The names are those of the view. Costs are decimal texts; numbers that JSON lacks are texts.

    Args:
        view: The view.
        depth: How many levels below it are included, 0 for none; None for all. Where they are not,
            `children` is missing; `child_count` is always there.
    """
    top = _node_as_json(view)
    waiting = [(view, top, depth)]
    while waiting:
        node, shown, levels = waiting.pop()
        if levels == 0:
            continue
        below = [(child, _node_as_json(child)) for child in node.children]
        shown["children"] = [child for _, child in below]
        remaining = None if levels is None else levels - 1
        waiting += [(child, child_shown, remaining) for child, child_shown in below]
    return top


def _node_as_json(view: NodeView) -> dict[str, JsonableValue]:
    return {
        **{name: getattr(view, name) for name in _PLAIN},
        "inputs": dict(view.inputs),
        "outputs": dict(view.outputs),
        "error": None if view.error is None else asdict(view.error),
        "usage": _usage_as_json(view.usage),
        "subtree_usage": _usage_as_json(view.subtree_usage),
        "transcript": [asdict(part) for part in view.transcript],
        "attributes": _attributes_as_json(view.attributes),
        "controls": [*sorted(view.controls)],
        "child_count": len(view.children),
    }


def _usage_as_json(usage: Usage) -> dict[str, JsonableValue]:
    return {**asdict(usage), "cost": str(usage.cost)}


def _attributes_as_json(attributes: Mapping[str, str | int | float | bool]) -> dict[str, JsonableValue]:
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in attributes.items()
    }
