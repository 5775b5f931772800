"""One node whole. Floor 5. Pure."""

from ...observe.view_json import view_as_json
from ...observe.views import NodeView
from .briefs import Brief

__all__ = ["node_details"]


def node_details(view: NodeView, question: Brief | None) -> Brief:
    """Everything there is to see of a node, without what is below it.

    Args:
        view: The node.
        question: What can be answered here; None for nothing.
    """
    details: Brief = view_as_json(view, depth=0)
    if question is not None:
        details["question"] = question
        details["controls"] = [*sorted(view.controls), "answer"]
    return details
