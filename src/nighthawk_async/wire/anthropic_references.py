"""Finds out whether a JSON Schema contains itself.

It follows references inside the document alone, and knows nothing about what a protocol takes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

__all__ = ["find_recursion"]

_ROOT = "#"


def find_recursion(schema: Mapping[str, Any]) -> str | None:
    """The reference by which a schema contains itself; None when it does not.

    Args:
        schema: A JSON Schema whose values are schemas all the way down: its constants are no objects.
    """
    return _find(schema, schema, (_ROOT,), set())


def _find(part: object, root: object, open_references: tuple[str, ...], done: set[str]) -> str | None:
    """The same for a part, inside the targets of the open references; those done lead nowhere new."""
    if isinstance(part, Mapping):
        fields = cast("Mapping[str, object]", part)
        reference = fields.get("$ref")
        if isinstance(reference, str) and reference not in done:
            if reference in open_references:
                return reference
            found = _find(_target(root, reference), root, (*open_references, reference), done)
            if found is not None:
                return found
            done.add(reference)
        inner: Sequence[object] = tuple(fields.values())
    elif isinstance(part, list | tuple):
        inner = cast("Sequence[object]", part)
    else:
        return None
    return next((found for each in inner if (found := _find(each, root, open_references, done))), None)


def _target(root: object, reference: str) -> object:
    """Return the target of a reference inside the document; None if there is none."""
    if not reference.startswith(f"{_ROOT}/"):
        return None
    target = root
    for token in reference.split("/")[1:]:
        name = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = cast("Mapping[str, object]", target).get(name)
        elif isinstance(target, list | tuple) and name.isdecimal():
            target = dict(enumerate(cast("Sequence[object]", target))).get(int(name))
        else:
            return None
    return target
