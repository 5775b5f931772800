"""Texts in annotations that code of a model writes: they are evaluated later, where no check sees them.

`typing.get_type_hints`, pydantic and this library evaluate them with all that the program has.
"""

import ast
import types
import typing
from collections.abc import Iterator
from functools import lru_cache
from typing import (
    Any,
    ClassVar,
    ForwardRef,
    Literal,
    NewType,
    ParamSpec,
    TypeVar,
    TypeVarTuple,
    get_args,
    get_origin,
)

from ..errors import ToolBoundaryError

_PARTS = (ast.Expression, ast.Name, ast.Load, ast.BinOp, ast.BitOr, ast.Subscript, ast.Tuple, ast.Constant)
_GENERIC = """
list dict tuple set frozenset type List Dict Tuple Set FrozenSet Type Optional Union Sequence Mapping Iterable
Iterator Callable Awaitable AsyncIterator Collection MutableMapping MutableSequence deque defaultdict Counter
"""
_SUBSCRIPTED = frozenset(_GENERIC.split())
_TYPE_VARIABLES = (TypeVar, ParamSpec, TypeVarTuple)
_TYPE_ALIAS: type[Any] = getattr(typing, "TypeAliasType", NewType)  # since Python 3.12


def without_texts(annotation: object) -> object:
    """Return an annotation that code of a model writes; `Any` where a text in it would be evaluated.

    Even the text of a name is left out: the name may stand for another text when it is looked up.

    Args:
        annotation: Its value.

    Raises:
        ToolBoundaryError: A text in it is more than names of types, with `|` and brackets.
    """
    has_texts = False
    for text in texts_of_types(annotation):
        has_texts = True
        if not is_type_text(text):
            raise ToolBoundaryError(
                kind="resolution",
                message=f"the text {text[:60]!r} in an annotation would be evaluated where no check sees it",
                guidance="Write the type without quotes, or a name alone.",
            )
    if not has_texts:
        return annotation
    return ClassVar if get_origin(annotation) is ClassVar else Any


def evaluates_items(value: object) -> bool:
    """Whether texts in the items of a class are evaluated: it is a generic pydantic model, `Page["Order"]`.

    Args:
        value: A class, or anything else.
    """
    if not isinstance(value, type):
        return False
    facts: Any = vars(value).get("__pydantic_generic_metadata__")
    return bool(facts) and bool(facts["parameters"])


def has_texts(annotation: object) -> bool:
    """Whether a text in a type is evaluated where the type is resolved.

    Args:
        annotation: A type, or anything else.
    """
    return any(True for _ in texts_of_types(annotation))


def texts_of_types(annotation: object) -> Iterator[str]:
    """Yield the texts in a type that are evaluated where the type is resolved.

    Args:
        annotation: A type, or anything else.
    """
    seen: set[int] = set()
    waiting: list[Any] = [annotation]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield str.__str__(each)
        elif isinstance(each, ForwardRef):
            yield each.__forward_arg__
        elif id(each) not in seen and not isinstance(each, type | types.NoneType):
            seen.add(id(each))
            waiting.extend(_parts(each))


def _parts(annotation: Any) -> Iterator[object]:
    """Yield what else is resolved with a type that is no class."""
    if isinstance(annotation, list | tuple):  # the parameters of a `Callable`
        yield from annotation
    elif isinstance(annotation, _TYPE_VARIABLES):
        yield getattr(annotation, "__bound__", None)
        yield from getattr(annotation, "__constraints__", ())
        default = getattr(annotation, "__default__", None)  # since Python 3.13
        yield default
    elif type(annotation) is NewType:
        yield annotation.__supertype__
    elif type(annotation) is _TYPE_ALIAS:
        yield annotation.__value__
    elif get_origin(annotation) is not Literal:
        yield from get_args(annotation)
        yield from getattr(annotation, "__args__", ())


@lru_cache(maxsize=1024)
def is_type_text(text: str) -> bool:
    """Whether a text names types, and does nothing else when it is evaluated.

    Args:
        text: The text.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False  # another reader may understand it
    return all(map(_is_type_part, ast.walk(tree)))


def _is_type_part(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None or node.value is ...
    if isinstance(node, ast.Name):
        return node.id[:1] != "_"
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in _SUBSCRIPTED
    return isinstance(node, _PARTS)
