"""Attributes that give access from an object to names that the block does not mention.

Where a step sees only the names in its block, a function must not give access to the globals of its module,
nor a text to its class, all other classes and their modules. So code with internal attributes of the
interpreter is refused before it runs, and calls of builtins that read attributes by name are refused like
calls that permissions deny.
"""

import ast
import functools
import operator
from collections.abc import Iterable, Iterator
from typing import Literal, cast

from msgspec import Struct

from ...errors import ToolBoundaryError
from ...kernel.context import StepContext, name_not_visible
from .call import PermissionCall
from .permissions import permissions
from .rules import rule

_OF_DATA = """
__name__ __qualname__ __doc__ __len__ __getitem__ __contains__ __iter__ __next__ __str__ __repr__
"""
_ALLOWED = frozenset(_OF_DATA.split())
"""Attributes with two underscores that return texts, or do the same as operators and statements."""

_OF_FRAMES = """
f_back f_builtins f_code f_generator f_globals f_locals f_trace tb_frame tb_next
gi_code gi_frame gi_yieldfrom cr_await cr_code cr_frame cr_origin ag_await ag_code ag_frame
cell_contents mro
"""
_INTERNALS = frozenset(_OF_FRAMES.split())
"""Internal attributes without two underscores: of frames, tracebacks, generators, cells and classes."""

_FORMATTING = frozenset({"format", "format_map"})
"""Methods of texts that read attributes. Calls are checked; passing the method elsewhere is refused."""

_MACHINERY = frozenset({"__build_class__", "__builtins__", "__import__"})
_FAILING = {
    "__build_class__": "a class statement does not work here: ",
    "__import__": "nothing can be imported here: ",
}


def _is_internal(attribute: str) -> bool:
    return (attribute.startswith("__") and attribute not in _ALLOWED) or attribute in _INTERNALS


def names_an_internal_attribute(call: PermissionCall) -> bool:
    """Whether a text among the arguments is an internal attribute, or a dotted path with one."""
    parts = [part for text in _texts_in(call.arguments.values()) for part in text.split(".")]
    return any(_is_internal(part) or part in _FORMATTING for part in parts)


def _texts_in(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield str.__str__(value)
        elif isinstance(value, tuple):  # `*args`
            yield from _texts_in(cast("tuple[object, ...]", value))


NO_INTERNALS = permissions(
    deny=[
        *(eval, exec, compile, globals, locals, vars, str.format, str.format_map),
        *(functools.update_wrapper, functools.wraps),
        *(
            rule(each, when=names_an_internal_attribute)
            for each in (getattr, setattr, operator.attrgetter, operator.methodcaller)
        ),
    ],
    default="allow",
)
"""Refuses builtins that read names or attributes from texts, even when a block mentions them."""


class _Findings(Struct, frozen=True):
    """Internal attributes and names in code.

    Args:
        attributes: Internal attributes.
        names: Internal names of the interpreter, including those that `import` and `class` use.
        has_positional_patterns: Whether the class in a pattern decides which attributes are read.
    """

    attributes: tuple[str, ...]
    names: tuple[str, ...]
    has_positional_patterns: bool


def check_internals(text: str, mode: Literal["eval", "exec"], context: StepContext) -> None:
    """Refuse code that gives access to names that the block does not mention.

    Args:
        text: The code, which is valid Python.
        mode: Whether it is an expression or statements.
        context: The state of a step that sees only the names in its block.

    Raises:
        NameError: It needs a builtin that the block does not mention.
        ToolBoundaryError: It reads an internal attribute of the interpreter, or a class pattern in it may
            do so.
    """
    found = _findings(text, mode)
    for name in found.names:
        if name == "__builtins__" or name not in (context.visible_builtins or ()):
            raise name_not_visible(name, context, why=_FAILING.get(name, ""))
    if found.attributes:
        raise ToolBoundaryError(
            kind="resolution",
            message=f"the attribute {found.attributes[0]!r} leads to names that this block does not name",
            guidance="Use the public attributes and methods of the visible names.",
        )
    if found.has_positional_patterns:
        raise ToolBoundaryError(
            kind="resolution",
            message="a class pattern with positions may read attributes that are not visible in this block",
            guidance="Name the attributes: case Point(x=0).",
        )


@functools.lru_cache(maxsize=1024)
def _findings(text: str, mode: Literal["eval", "exec"]) -> _Findings:
    nodes = list(ast.walk(compile(text, "<text>", mode, ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    attributes = (
        each
        for node in nodes
        for each in _attributes(node)
        if _is_internal(each) or (each in _FORMATTING and id(node) not in called)
    )
    names = (each for node in nodes for each in _names(node) if each in _MACHINERY)
    return _Findings(
        attributes=tuple(attributes),
        names=tuple(names),
        has_positional_patterns=any(isinstance(node, ast.MatchClass) and node.patterns for node in nodes),
    )


def _attributes(node: ast.AST) -> Iterator[str]:
    """Yield the attributes that a node reads or writes."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.MatchClass):
        yield from node.kwd_attrs
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node reads or binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield "__import__"
    elif isinstance(node, ast.ClassDef):
        yield "__build_class__"
    if not isinstance(node, ast.Constant):
        yield from (value for _, value in ast.iter_fields(node) if isinstance(value, str))
