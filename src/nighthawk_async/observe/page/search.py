"""Search in the inputs, the outputs and the errors of nodes. Pure."""

import re
from collections.abc import Iterator

from ...secret_names import HIDDEN
from ..views import NodeView

_NAMED_VALUE = re.compile(r"(?P<name>[\w.-]*)=(?P<value>.+)", re.DOTALL)
_HIDDEN = f'"{HIDDEN}"'


def nodes_with(view: NodeView, text: str) -> list[str]:
    """Return the ids of the nodes that contain a text, ignoring case, here and below.

    A text of the form `name=value` is also searched for as a binding: an input or output of exactly this name
    whose value begins with the value, without the quote at the beginning of a string. `=value` is one of any
    name. Hidden values are not found.

    Args:
        view: The node.
        text: The text.
    """
    wanted = text.lower()
    named = _NAMED_VALUE.fullmatch(wanted)
    name, value = ("", "") if named is None else (named["name"], named["value"].lstrip('"'))
    return [
        node.id
        for node in view.walk()
        if any(wanted in each.lower() for each in _texts(node))
        or (value and any(_begins_with(value, each) for each in _values(node, name)))
    ]


def _texts(node: NodeView) -> Iterator[str]:
    for values in (node.inputs, node.outputs):
        for name, value in values.items():
            yield f"{name}: {'' if value == _HIDDEN else value}"
    if node.error is not None:
        yield node.error.message


def _values(node: NodeView, wanted: str) -> Iterator[str]:
    for values in (node.inputs, node.outputs):
        for name, value in values.items():
            if value != _HIDDEN and wanted in ("", name.lower()):
                yield value


def _begins_with(wanted: str, value: str) -> bool:
    return value[: len(wanted) + 1].lower().removeprefix('"').startswith(wanted)
