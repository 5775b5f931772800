"""Code of a model is compiled with checks in its loops, comprehensions, functions and large operations.

The checks ask `pausing.CHECKS`, which stands in the compiled code as a constant. Code without any of these
is compiled as it is. The checks are put in last, so that guards, which rewrite the calls of a step's code, do
not see them.
"""

import ast
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

PLACEHOLDER = f"checks of the step {secrets.token_hex(16)}"
"""The constant that stands for the checks in compiled code: a text that no source text can guess."""

_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Mult: ("product", "factor"),
    ast.Pow: ("power", "exponent"),
    ast.LShift: ("shifted", "shift"),
}
"""The checks of operators: what stands for them, and what checks their right sides."""


_LONG_CALLS = frozenset(
    {"range", "iter", "count", "cycle", "repeat", "sleep", "product", "permutations"}
    | {"combinations", "combinations_with_replacement"}
)
"""Functions whose calls, or what they give, have checks: see `code_calls`."""


class Checked(NamedTuple):
    """Code with checks.

    Args:
        tree: The code.
        has_checks: Whether there are some.
        makes_functions: Whether it makes functions, which other code can call.
    """

    tree: ast.AST
    has_checks: bool
    makes_functions: bool


def with_checks(tree: ast.AST) -> Checked:
    """Put checks into code.

    Args:
        tree: The code; it is changed.
    """
    checking = _Checking()
    checked: Any = checking.visit(tree)
    return Checked(checked, checking.has_checks, checking.makes_functions)


class _Checking(ast.NodeTransformer):
    """Puts checks into code."""

    def __init__(self) -> None:
        self.has_checks = self.makes_functions = False
        self._is_async = False

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.has_checks |= node.id in _LONG_CALLS
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        self.has_checks |= node.attr in _LONG_CALLS
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._check(node.test))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if self._is_async:
            node.body.insert(0, self._check(node.iter))
        else:
            node.iter = self._call("each", node.iter)
        return node

    def visit_AsyncFor(self, node: ast.AsyncFor) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._check(node.iter))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if node.is_async:
            node.ifs.insert(0, self._call("tick", place=node.iter))
        else:
            node.iter = self._call("each", node.iter)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.makes_functions = True
        node.args = self._visited(node.args)
        before, self._is_async = self._is_async, False
        body = self._visited(node.body)
        self._is_async = before
        checked = self._call("tick", place=body)
        node.body = ast.copy_location(ast.IfExp(test=checked, body=body, orelse=_none(body)), body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node, is_async=False)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node, is_async=True)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        before, self._is_async = self._is_async, False
        self.generic_visit(node)
        self._is_async = before
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, self._check(node.body[0]))
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return self._visit_try(node)

    def visit_TryStar(self, node: Any) -> ast.AST:
        return self._visit_try(node)

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        """Visit a `with` statement, whose context manager may suppress exceptions."""
        self.generic_visit(node)
        return [node, self._check(node)]

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return [node, self._check(node)]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        names = _OPERATORS.get(type(node.op))
        if names is None or _is_harmless(node):
            return node
        return self._call(names[0], node.left, node.right)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        names = _OPERATORS.get(type(node.op))
        if names is not None and not _is_float(node.value) and _is_plain(node.target):
            node.value = self._call(names[1], _loaded(node.target), node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(each, ast.Starred) for target in node.targets for each in ast.walk(target)):
            node.value = self._call("spread", node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self._visited(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node  # an annotation may become a text

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._call("spread", node.value)
        return node

    def _visit_try(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        if node.finalbody:
            node.finalbody.insert(0, self._check(node.finalbody[0]))
        return node

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_async: bool) -> ast.AST:
        self.makes_functions = True
        node.decorator_list = [self._visited(each) for each in node.decorator_list]
        node.args = self._visited(node.args)
        before, self._is_async = self._is_async, is_async
        body = self._statements(node.body)
        at = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body = [*body[:at], self._check(node.body[0]), *body[at:]]
        self._is_async = before
        return node

    def _visited(self, node: Any) -> Any:
        return self.visit(node)

    def _statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for one in body:
            visited: Any = self.visit(one)
            statements += visited if type(visited) is list else [visited]
        return statements

    def _check(self, place: ast.AST) -> ast.stmt:
        """A check as a statement, with most of it in place, because calls take longer."""
        self.has_checks = True
        (statement,) = ast.parse(_ASYNC_CHECK if self._is_async else _CHECK).body
        for each in ast.walk(statement):
            ast.copy_location(each, place)
        return statement

    def _call(self, check: str, *arguments: ast.expr, place: ast.expr | None = None) -> ast.expr:
        self.has_checks = True
        at = arguments[0] if place is None else place
        method = ast.Attribute(value=_checks(at), attr=check, ctx=ast.Load())
        call = ast.Call(func=ast.copy_location(method, at), args=list(arguments), keywords=[])
        return ast.copy_location(call, at)


_CHECK = f"if {PLACEHOLDER!r}.left > 0: {PLACEHOLDER!r}.left -= 1\nelse: {PLACEHOLDER!r}.look()"
_ASYNC_CHECK = f"if {PLACEHOLDER!r}.left > 0: {PLACEHOLDER!r}.left -= 1\nelse: await {PLACEHOLDER!r}.turn()"


def _checks(place: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Constant(value=PLACEHOLDER), place)


def _none(place: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Constant(value=None), place)


_SMALL = 1_000


def _is_harmless(node: ast.BinOp) -> bool:
    """Whether an operation has a float, or two small numbers, which the compiler takes together."""
    sides = (node.left, node.right)
    if any(map(_is_float, sides)):
        return True
    return isinstance(node.op, ast.Mult) and all(
        isinstance(each, ast.Constant) and isinstance(each.value, int) and each.value <= _SMALL
        for each in sides
    )


def _is_float(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float | complex)


def _is_plain(target: ast.expr) -> bool:
    """Whether a target can be read once more without an effect."""
    return all(
        isinstance(each, ast.Name | ast.Attribute | ast.Subscript | ast.Constant | ast.expr_context)
        for each in ast.walk(target)
    )


def _loaded(target: ast.expr) -> ast.expr:
    expression = ast.parse(ast.unparse(target), mode="eval").body
    for each in ast.walk(expression):
        ast.copy_location(each, target)
    return expression
