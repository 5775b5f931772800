"""Compiled code that looks at attributes while it runs; see `members`."""

import ast
import secrets
from typing import TypeVar, cast

from ...kernel.context import Rewriting
from .members import MARK, SPECIAL, Members

Node = TypeVar("Node", bound=ast.AST)

_PLACEHOLDER = f"members of the step {secrets.token_hex(16)}"
"""The constant that stands for `Members`: a text that no source text can guess."""

_PASSING = ("attributes_of",)
"""Methods of guards that pass on the object whose attribute is set."""


class _WithChecks(ast.NodeTransformer):
    """Passes attributes through `Members`. Calls that other rewriting has added stay as they are."""

    def _visited(self, node: Node) -> Node:
        return cast("Node", self.visit(node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Constant):  # what there is to say of a text was said before
            return node
        if not isinstance(node.ctx, ast.Load):
            return self._set(node)
        value = self._visited(node.value)
        if node.attr in SPECIAL:
            return _call("special", value, ast.copy_location(ast.Constant(node.attr), node), at=node)
        node.value = value
        return _call("member", node, at=node)

    def _set(self, node: ast.Attribute) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Call) and _is_constant_method(value.func, _PASSING):
            value.args = [_call("owner", self._visited(value.args[0]), at=node)]
        else:
            node.value = _call("owner", self._visited(value), at=node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = _called_name(node)
        if called in ("setattr", "delattr"):
            self._pass_owner(node)
        self._visit_callee(node)
        self._visit_arguments(node)
        if called == "type":
            return _call("kind", node, at=node)
        return _call("member", node, at=node) if called == "getattr" else node

    def _visit_callee(self, node: ast.Call) -> None:
        """Visit what is called. A module cannot be called, so that an attribute there needs no check."""
        function = node.func
        if isinstance(function, ast.Attribute) and function.attr not in SPECIAL:
            function.value = self._visited(function.value)
        else:
            node.func = self._visited(function)

    def _pass_owner(self, node: ast.Call) -> None:
        """Pass the object whose attribute is set by a call."""
        call, position = node, 0
        if not node.args:  # a guard has the arguments
            function = node.func.value if isinstance(node.func, ast.Await) else node.func
            call, position = cast("ast.Call", function), 2
        call.args[position] = _call("owner", call.args[position], at=node)

    def _visit_arguments(self, node: ast.Call) -> None:
        node.args = [self._visited(each) for each in node.args]
        for keyword in node.keywords:
            keyword.value = self._visited(keyword.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.bases = [_call("base", base, at=base) for base in node.bases]
        self.generic_visit(node)
        mark = ast.Assign(targets=[ast.Name(MARK, ast.Store())], value=ast.Constant(True))
        node.body.append(ast.copy_location(mark, node))
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        guard = None if node.guard is None else self._visited(node.guard)
        names = [
            name
            for each in ast.walk(node.pattern)
            if isinstance(each, ast.MatchClass)
            for name in _names(each)
        ]
        if names:
            place = node.body[0]
            found = [ast.copy_location(ast.Name(name, ast.Load()), place) for name in dict.fromkeys(names)]
            check = _call("members", *found, at=place)
            both = check if guard is None else ast.BoolOp(ast.And(), [check, guard])
            guard = ast.copy_location(both, place)
        node.guard = guard
        node.body = [self._visited(each) for each in node.body]
        return node


def _names(pattern: ast.AST) -> list[str]:
    """The names that a pattern sets."""
    return [
        name
        for each in ast.walk(pattern)
        if isinstance(each, ast.MatchAs | ast.MatchStar) and (name := each.name) is not None
    ]


def _called_name(node: ast.Call) -> str:
    """The name of what is called, also where it is passed through a guard; empty for anything else."""
    function = node.func
    if isinstance(function, ast.Call) and _is_constant_method(function.func, ("function_of",)):
        function = function.args[0]
    elif isinstance(function, ast.Await | ast.Call):
        admitted = function.value if isinstance(function, ast.Await) else function
        if isinstance(admitted, ast.Call) and _is_constant_method(admitted.func, ("admit", "admit_waiting")):
            function = admitted.args[1]
    return function.id if isinstance(function, ast.Name) else ""


def _is_constant_method(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Constant) and node.attr in names


def _call(method: str, *args: ast.expr, at: ast.AST) -> ast.expr:
    checks = ast.copy_location(ast.Constant(value=_PLACEHOLDER), at)
    function = ast.copy_location(ast.Attribute(value=checks, attr=method, ctx=ast.Load()), at)
    return cast("ast.expr", ast.copy_location(ast.Call(func=function, args=[*args], keywords=[]), at))


def _with_checks(tree: ast.AST) -> ast.AST:
    return cast("ast.AST", _WithChecks().visit(tree))


CHECKED = Rewriting(change=_with_checks, placeholder=_PLACEHOLDER, value=Members)
