"""One node whole. Pure."""

from typing import cast

from ...observe.view_json import view_as_json
from ...observe.views import NodeView
from ...types.json import JsonableValue
from .briefs import Brief

__all__ = ["node_details"]

_MOST_EXACT = 2**53
"""Beyond this a browser rounds."""


def node_details(view: NodeView, question: Brief | None) -> Brief:
    """Everything there is to see of a node, without what is below it. Large numbers are texts, for browsers.

    Args:
        view: The node.
        question: What can be answered here; None for nothing.
    """
    details: Brief = view_as_json(view, depth=0)
    attributes = cast("dict[str, JsonableValue]", details["attributes"])
    details["attributes"] = {name: _exact(value) for name, value in attributes.items()}
    if question is not None:
        details["question"] = question
        details["controls"] = [*sorted(view.controls), "answer"]
    return details


def _exact(value: JsonableValue) -> JsonableValue:
    return str(value) if isinstance(value, int) and abs(value) > _MOST_EXACT else value
