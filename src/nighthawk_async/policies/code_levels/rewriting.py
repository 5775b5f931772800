"""Compiled code that looks at attributes while it runs; see `members`."""

import ast
import secrets
from typing import TypeVar, cast

from ...kernel.context import Rewriting
from ...values.written_annotations import AnnotationChanger
from .checking import ABOUT_CLASSES, has_checked_index
from .class_makers import CheckedMembers
from .members import MARK, SCOPES, SPECIAL, is_of_own_class

Node = TypeVar("Node", bound=ast.AST)

_PLACEHOLDER = f"members of the step {secrets.token_hex(16)}"
"""The constant that stands for `Members`: a text that no source text can guess."""

_PASSING = ("attributes_of",)
"""Methods of guards that pass on the object whose attribute is set."""


class _WithChecks(AnnotationChanger, ast.NodeTransformer):
    """Passes attributes through `Members`. Calls that other rewriting has added stay as they are."""

    def __init__(self) -> None:
        self._yields = False
        self._scope: ast.expr | None = None

    def _visited(self, node: Node) -> Node:
        return cast("Node", self.visit(node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Constant):  # what there is to say of a text was said before
            return node
        if not isinstance(node.ctx, ast.Load):
            return self._set(node, "owner")
        value = self._visited(node.value)
        if is_of_own_class(node.attr):
            value = _call("own", value, at=node)
        if node.attr in SCOPES and node is not self._scope:
            return _call("scope", value, ast.copy_location(ast.Constant(node.attr), node), at=node)
        if node.attr in SPECIAL:
            return _call("special", value, ast.copy_location(ast.Constant(node.attr), node), at=node)
        node.value = value
        return _call("member", node, at=node)

    def _set(self, node: ast.Attribute, check: str) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Call) and _is_constant_method(value.func, _PASSING):
            value.args = [self._owner(value.args[0], node, check)]
        else:
            node.value = self._owner(value, node, check)
        return node

    def _owner(self, value: ast.expr, node: ast.Attribute, check: str) -> ast.expr:
        """The check of an object whose attribute is set."""
        visited = self._visited(value)
        if is_of_own_class(node.attr):
            visited = _call("own", visited, at=node)
        return _call(check, visited, ast.copy_location(ast.Constant(node.attr), node), at=node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = node.target
        if isinstance(target, ast.Attribute) and not isinstance(target.value, ast.Constant):
            self._set(target, "augmented")
        else:
            node.target = self._visited(target)
        node.value = self._visited(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        called = _called_name(node)
        if called in ("setattr", "delattr"):
            self._pass_owner(node)
        self._visit_callee(node)
        self._visit_arguments(node)
        if _is_call_of_code(node):
            self._check_arguments(node)
        if called == "type":
            return _call("kind", node, at=node)
        return _call("member", node, at=node) if called == "getattr" else node

    def _visit_callee(self, node: ast.Call) -> None:
        """Visit what is called. A module cannot be called, so that an attribute there needs no check."""
        function = node.func
        if isinstance(function, ast.Attribute) and _is_plain(function.attr):
            function.value = self._visited(function.value)
        else:
            node.func = self._visited(function)

    def _pass_owner(self, node: ast.Call) -> None:
        """Pass the object whose attribute is set by a call."""
        call, position = node, 0
        if not node.args:  # a guard has the arguments
            function = node.func.value if isinstance(node.func, ast.Await) else node.func
            call, position = cast("ast.Call", function), 2
        name = call.args[position + 1]
        call.args[position] = _call("owner", call.args[position], name, at=node)

    def _visit_arguments(self, node: ast.Call) -> None:
        node.args = [self._visited(each) for each in node.args]
        for keyword in node.keywords:
            keyword.value = self._visited(keyword.value)

    def _check_arguments(self, node: ast.Call) -> None:
        """Check what is called and what is given, as `class_makers` says."""
        function, first = _callee_of(node)
        name = function.id if isinstance(function, ast.Name) else ""
        if name in ABOUT_CLASSES:
            return
        by_name: list[ast.expr] = [ast.copy_location(ast.Name(name, ast.Load()), node)] if name else []
        node.args[first:] = [_given(each, by_name) for each in node.args[first:]]
        for keyword in node.keywords:
            if keyword.arg is None:
                keyword.value = _call("all_named", keyword.value, at=keyword.value)
            else:
                keyword.value = _given(keyword.value, by_name)
        is_asking = name == "type" and len(node.args) == first + 1 and not node.keywords
        if not is_asking and name != "super":
            _replace_callee(node, _call("called", function, at=node))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return _call("item", node.value, _index(node.slice), at=node) if has_checked_index(node) else node

    def check_of(self, node: ast.expr) -> ast.expr:
        return _call("annotation", node, at=node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        before, self._yields = self._yields, _has_yield(node)
        node.returns, returns = None, self.change_annotation(node.returns)
        self.generic_visit(node)
        node.returns = returns
        self._yields = before
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_With(self, node: ast.With | ast.AsyncWith) -> ast.AST:
        for item in node.items:
            item.context_expr = self._context(item.context_expr)
            if item.optional_vars is not None:
                item.optional_vars = self._visited(item.optional_vars)
        node.body = [self._visited(each) for each in node.body]
        return node

    visit_AsyncWith = visit_With  # noqa: N815

    def _context(self, node: ast.expr) -> ast.expr:
        """Visit the value of a `with` statement, which may be a scope."""
        function = _called(node) if isinstance(node, ast.Call) and not self._yields else None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            self._scope = function
        return self._visited(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.bases = [_call("base", base, at=base) for base in node.bases]
        self.generic_visit(node)
        mark = ast.Assign(targets=[ast.Name(MARK, ast.Store())], value=ast.Constant(True))
        node.body.append(ast.copy_location(mark, node))
        if node.bases:
            node.decorator_list.append(_method("protocol", at=node))
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
            taken = [ast.copy_location(_taken(name, place), place) for name in dict.fromkeys(names)]
            check: ast.expr = _call("are_members", *found, at=place)
            check = ast.BoolOp(ast.Or(), [check, _call("refuse_members", *taken, at=place)])
            check = ast.copy_location(check, place)
            both = check if guard is None else ast.BoolOp(ast.And(), [check, guard])
            guard = ast.copy_location(both, place)
        node.guard = guard
        node.body = [self._visited(each) for each in node.body]
        return node


_LITERALS = (ast.Constant, ast.JoinedStr, ast.Lambda, ast.Compare, ast.BinOp, ast.UnaryOp)
_DISPLAYS = (
    ast.List,
    ast.Tuple,
    ast.Set,
    ast.Dict,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def _given(argument: ast.expr, by_name: list[ast.expr]) -> ast.expr:
    """Pass an argument through a check, unless it is written as a value of another kind."""
    if isinstance(argument, ast.Starred):
        argument.value = _call("all_given", argument.value, at=argument.value)
        return argument
    if isinstance(argument, (*_LITERALS, *_DISPLAYS)):
        return argument
    return _call("given", argument, *by_name, at=argument)


def _is_call_of_code(node: ast.Call) -> bool:
    """Whether a call is one of the code itself, and none that other rewriting has put around it."""
    function = node.func.value if isinstance(node.func, ast.Await) else node.func
    if _is_constant_method(function, _ADMITTING):
        return True
    if isinstance(function, ast.Call) and _is_constant_method(function.func, _ADMITTING):
        return False
    called, _ = _callee_of(node)
    return not (isinstance(called, ast.Attribute) and isinstance(called.value, ast.Constant))


_ADMITTING = ("admit", "admit_waiting")


def _index(node: ast.expr) -> ast.expr:
    """An index as an argument: `a[1, 2:3]` has slices, which only an index is written with."""
    if isinstance(node, ast.Tuple):
        node.elts = [_index(each) for each in node.elts]
        return node
    if not isinstance(node, ast.Slice):
        return node
    parts = [
        each or ast.copy_location(ast.Constant(None), node) for each in (node.lower, node.upper, node.step)
    ]
    return _call("part", *parts, at=node)


def _callee_of(node: ast.Call) -> tuple[ast.expr, int]:
    """The function of a call, and the position of its first argument."""
    if _is_constant_method(node.func, _ADMITTING):
        return node.args[1], 2
    if isinstance(node.func, ast.Call) and _is_constant_method(node.func.func, ("function_of",)):
        return node.func.args[0], 0
    return node.func, 0


def _replace_callee(node: ast.Call, function: ast.expr) -> None:
    if _is_constant_method(node.func, _ADMITTING):
        node.args[1] = function
    elif isinstance(node.func, ast.Call) and _is_constant_method(node.func.func, ("function_of",)):
        node.func.args[0] = function
    else:
        node.func = function


def _is_plain(attribute: str) -> bool:
    """Whether an attribute that is called needs no check."""
    return not (attribute[0] == "_" or attribute in SPECIAL or attribute in SCOPES)


def _has_yield(function: ast.AST) -> bool:
    """Whether a function is a generator, or has one in it."""
    return any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(function))


def _names(pattern: ast.AST) -> list[str]:
    """The names that a pattern sets."""
    return [
        name
        for each in ast.walk(pattern)
        if isinstance(each, ast.MatchAs | ast.MatchStar) and (name := each.name) is not None
    ]


def _taken(name: str, place: ast.AST) -> ast.expr:
    """Take the value from a name that a pattern has set."""
    target = ast.copy_location(ast.Name(name, ast.Store()), place)
    return ast.NamedExpr(target, ast.copy_location(ast.Constant(None), place))


def _called(node: ast.Call) -> ast.expr:
    """The expression of what is called, also where it is passed through a guard."""
    function = node.func
    if isinstance(function, ast.Call) and _is_constant_method(function.func, ("function_of",)):
        function = function.args[0]
    elif isinstance(function, ast.Await | ast.Call):
        admitted = function.value if isinstance(function, ast.Await) else function
        if isinstance(admitted, ast.Call) and _is_constant_method(admitted.func, ("admit", "admit_waiting")):
            function = admitted.args[1]
    return function


def _called_name(node: ast.Call) -> str:
    """The name of what is called; empty for anything else."""
    function = _called(node)
    return function.id if isinstance(function, ast.Name) else ""


def _is_constant_method(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Constant) and node.attr in names


def _call(method: str, *args: ast.expr, at: ast.AST) -> ast.expr:
    call = ast.Call(func=_method(method, at=at), args=[*args], keywords=[])
    return cast("ast.expr", ast.copy_location(call, at))


def _method(name: str, *, at: ast.AST) -> ast.expr:
    checks = ast.copy_location(ast.Constant(value=_PLACEHOLDER), at)
    return ast.copy_location(ast.Attribute(value=checks, attr=name, ctx=ast.Load()), at)


def _with_checks(tree: ast.AST) -> ast.AST:
    return cast("ast.AST", _WithChecks().visit(tree))


CHECKED = Rewriting(change=_with_checks, placeholder=_PLACEHOLDER, value=CheckedMembers)
