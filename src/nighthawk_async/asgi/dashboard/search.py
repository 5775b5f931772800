"""Search for a text in the inputs, outputs and errors of nodes. Pure."""

from collections.abc import Iterator

from ...observe.views import NodeView

__all__ = ["nodes_with"]


def nodes_with(view: NodeView, text: str) -> list[str]:
    """The ids of the nodes that hold a text, whatever its case.

    Args:
        view: The node above everything.
        text: The text.
    """
    wanted = text.lower()
    return [node.id for node in view.walk() if any(wanted in each.lower() for each in _texts(node))]


def _texts(node: NodeView) -> Iterator[str]:
    for values in (node.inputs, node.outputs):
        for name, value in values.items():
            yield f"{name}: {value}"
    if node.error is not None:
        yield node.error.message
