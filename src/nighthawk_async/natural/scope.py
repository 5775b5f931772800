"""Names that a function binds, and the functions and classes inside it that hold blocks of their own.

Python's own answer, `co_varnames`, also lists the variables of comprehensions since they are inlined (PEP
709), so it does not show whether a name that a block mentions is a local variable. This module reads the
syntax tree instead.

Blocks inside inner functions run only if those are natural functions too. That depends on their decorators,
which are values. This module finds the names by which the decorators can be looked up.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct, field

from .blocks import natural_literal
from .tree import child_nodes, own_statements

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class FunctionScope(Struct, kw_only=True):
    """The names that a function's own code binds or declares; nested scopes left out.

    Args:
        bound_names: Parameters and everything assigned, deleted, imported, defined or captured by a pattern.
        global_names: Names declared `global`.
        nonlocal_names: Names declared `nonlocal`.
        annotations: The first annotation of every annotated variable, parameters left out.
    """

    bound_names: set[str] = field(default_factory=set[str])
    global_names: set[str] = field(default_factory=set[str])
    nonlocal_names: set[str] = field(default_factory=set[str])
    annotations: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])

    @property
    def local_names(self) -> frozenset[str]:
        """The local variables of the function, as they are spelled in the source."""
        return frozenset(self.bound_names - self.global_names - self.nonlocal_names)


def function_scope(node: FunctionNode) -> FunctionScope:
    """Collect the names of a function.

    Args:
        node: The definition of the function.
    """
    scope = FunctionScope()
    scope.bound_names.update(parameter_names(node.args))
    pending: list[tuple[ast.AST, bool]] = [(statement, False) for statement in reversed(node.body)]
    while pending:
        current, is_comprehension = pending.pop()
        if isinstance(current, _LEAVES):
            if isinstance(current, ast.Name) and not is_comprehension:
                _record(current, scope)
            continue
        _record(current, scope)
        if isinstance(current, ast.NamedExpr):  # binds outside of every enclosing comprehension
            scope.bound_names.add(current.target.id)
            pending.append((current.value, is_comprehension))
            continue
        is_comprehension = is_comprehension or isinstance(current, _COMPREHENSIONS)
        pending.extend((child, is_comprehension) for child in reversed(list(_children_in_scope(current))))
    return scope


def parameter_names(arguments: ast.arguments) -> list[str]:
    """Return the names of all parameters.

    Args:
        arguments: The parameters of a function or lambda.
    """
    variadic = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in (*named, *variadic)]


def mangle(name: str, class_name: str | None) -> str:
    """Return the name that Python uses for a private name inside a class.

    Args:
        name: A name as it is spelled in the source.
        class_name: The name of the innermost enclosing class, when there is one.
    """
    if class_name is None or not name.startswith("__") or name.endswith("__"):
        return name
    stem = class_name.lstrip("_")
    return f"_{stem}{name}" if stem else name


def _record(node: ast.AST, scope: FunctionScope) -> None:
    """Add the names that one node binds by itself."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            scope.bound_names.add(name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope.bound_names.add(name)
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            scope.bound_names.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            scope.bound_names.add(name)
        case ast.MatchMapping(rest=str(name)):
            scope.bound_names.add(name)
        case ast.Global(names=names):
            scope.global_names.update(names)
        case ast.Nonlocal(names=names):
            scope.nonlocal_names.update(names)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            scope.annotations.setdefault(name, annotation)
        case _:
            pass


def _children_in_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node whose names belong to the enclosing scope."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from node.decorator_list
            yield from _defaults(node.args)
        case ast.Lambda():
            yield from _defaults(node.args)
        case ast.ClassDef():
            yield from node.decorator_list
            if not getattr(node, "type_params", ()):  # else the bases are evaluated in a scope of their own
                yield from node.bases
                yield from node.keywords
        case ast.AnnAssign(value=None, simple=0):  # `(name): T` declares nothing
            pass
        case ast.AnnAssign(target=target, value=value):
            yield target
            if value is not None:
                yield value
        case _ if type(node).__name__ == "TypeAlias":  # Python 3.12; its value has a scope of its own
            yield getattr(node, "name")  # noqa: B009 - the attribute is unknown to the types of Python 3.11
        case _:
            yield from child_nodes(node)


def _defaults(arguments: ast.arguments) -> Iterable[ast.expr]:
    return (default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None)


class NestedBlock(Struct, frozen=True, kw_only=True):
    """A function or class with blocks of its own.

    Args:
        name: Its name.
        line: The line of its first block.
        is_class: Whether it is a class, which nothing can make natural.
        decorators: The dotted names of its decorators, and of callables that get it as an argument; None for
            one that is not looked up by a name from outside the function.
    """

    name: str
    line: int
    is_class: bool
    decorators: tuple[str | None, ...]


def nested_blocks(node: FunctionNode) -> tuple[NestedBlock, ...]:
    """Find the functions and classes inside a function that have blocks, at any depth.

    Args:
        node: The definition of the function.
    """
    return tuple(_below(node, node, frozenset(function_scope(node).local_names)))


def _below(
    parent: FunctionNode | ast.ClassDef, outermost: FunctionNode, local_names: frozenset[str]
) -> Iterator[NestedBlock]:
    for statement in own_statements(parent.body):
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_class = isinstance(statement, ast.ClassDef)
        lines = [each.lineno for each in own_statements(statement.body) if natural_literal(each)]
        if lines:
            yield NestedBlock(
                name=statement.name,
                line=lines[0],
                is_class=is_class,
                decorators=tuple(_decorators(statement, outermost, local_names)),
            )
        inner = frozenset[str]() if is_class else function_scope(statement).local_names
        yield from _below(statement, outermost, local_names | inner)


def _decorators(
    statement: FunctionNode | ast.ClassDef, outermost: FunctionNode, local_names: frozenset[str]
) -> Iterator[str | None]:
    for decorator in statement.decorator_list:
        yield _dotted_name(decorator, local_names)
    pending: list[ast.AST] = [outermost]
    while pending:
        node = pending.pop()
        pending += child_nodes(node)
        if isinstance(node, ast.Call):
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            if any(isinstance(each, ast.Name) and each.id == statement.name for each in given):
                yield _dotted_name(node.func, local_names)


def _dotted_name(expression: ast.expr, local_names: frozenset[str]) -> str | None:
    """The dotted name that an expression looks up or calls; None for a local variable's and for none."""
    while isinstance(expression, ast.Call):
        expression = expression.func
    names: list[str] = []
    while isinstance(expression, ast.Attribute):
        names.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name) or expression.id in local_names:
        return None
    return ".".join((expression.id, *reversed(names)))
