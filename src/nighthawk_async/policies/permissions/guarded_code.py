"""Code whose calls all pass a guard before they are made.

    f(a, *b, c=d)      becomes      guard.admit("f", f, a, *b, c=d)()

The guard sees what is called and the evaluated arguments, and gives what to call without arguments, or
raises. The call itself stays where it was, so that functions which look at their caller's frame work.

Where people may be asked, the guard has to wait: the code gets `(await guard.admit_waiting("f", f, …))()`
wherever an `await` can stand, and so becomes a coroutine. In lambdas, functions that are not `async`, classes
and generator expressions none can.

What is called without a call in the source passes the guard too: decorators and metaclasses
(`guard.hand_over`), the classes that a class is derived from (`derive`), what `raise` makes (`raising`), and
`**mapping` (`unpack`). So does what may be called later by whoever finds it: what is assigned to attributes
(`attributes_of`), and what the body of a class has defined (`keep_all`). Before an import or a class the
guard sees to it that Python's own functions are called (`importing`).

The guard is a constant of the code, not a variable: code that could spell its name could replace it.
"""

import ast
import secrets
import types
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from inspect import CO_COROUTINE
from typing import Literal, TypeVar, cast

__all__ = ["compile_guarded", "is_coroutine_code", "with_guard"]

Node = TypeVar("Node", bound=ast.AST)

_PLACEHOLDER = f"guard of the step {secrets.token_hex(16)}"
"""The constant in whose place the guard is put: a text that no source text can guess."""


@lru_cache(maxsize=1024)
def compile_guarded(
    text: str, *, filename: str, mode: Literal["eval", "exec"], may_wait: bool
) -> types.CodeType:
    """Compile text, which is known to be Python, with guarded calls, and a place for the guard.

    Args:
        text: An expression or statements.
        filename: The file name of the code.
        mode: Which of the two.
        may_wait: Whether the guard may have to wait.

    Raises:
        SyntaxError: The text is not Python, or is nested too deeply to be guarded.
    """
    try:
        if may_wait:
            try:
                return _compile(text, filename, mode, may_wait=True)
            except SyntaxError:  # Python has places without `await` that are not known here
                pass
        return _compile(text, filename, mode, may_wait=False)
    except (MemoryError, RecursionError) as error:
        raise SyntaxError("the code is nested too deeply") from error


def with_guard(code: types.CodeType, guard: object) -> types.CodeType:
    """Code of `compile_guarded` with its guard."""
    constants = [
        with_guard(each, guard)
        if isinstance(each, types.CodeType)
        else guard
        if each == _PLACEHOLDER
        else each
        for each in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))


def is_coroutine_code(code: types.CodeType) -> bool:
    """Whether running the code gives a coroutine."""
    return bool(code.co_flags & CO_COROUTINE)


def _compile(text: str, filename: str, mode: str, *, may_wait: bool) -> types.CodeType:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = cast("ast.AST", compile(text, filename, mode, flags=flags, dont_inherit=True))
    guarded = ast.fix_missing_locations(_Guarding(may_wait=may_wait).visit(tree))
    return compile(guarded, filename, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


class _Guarding(ast.NodeTransformer):
    """Rewrites calls; knows whether the place it has come to can wait."""

    def __init__(self, *, may_wait: bool) -> None:
        self._may_wait = may_wait
        self._can_wait = may_wait

    def visit_Call(self, node: ast.Call) -> ast.AST:
        written = _written_name(node.func)
        called = cast("ast.Call", self.generic_visit(node))
        method = "admit_waiting" if self._can_wait else "admit"
        for keyword in called.keywords:
            if keyword.arg is None:
                keyword.value = _pass("unpack", keyword.value)
        admitted: ast.expr = ast.Call(
            func=_of_guard(method, node),
            args=[ast.copy_location(ast.Constant(value=written), node), called.func, *called.args],
            keywords=called.keywords,
        )
        if self._can_wait:
            admitted = ast.Await(value=ast.copy_location(admitted, node))
        return ast.copy_location(ast.Call(func=ast.copy_location(admitted, node), args=[], keywords=[]), node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        pairs = zip(node.keys, node.values, strict=True)
        node.values = [_pass("unpack", value) if key is None else value for key, value in pairs]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            node.value = _pass("attributes_of", node.value)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        if node.exc is not None:
            node.exc = _pass("raising", node.exc)
        if node.cause is not None:
            node.cause = _pass("raising", node.cause)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self._visited(node.args)
        with self._waiting(False):
            node.body = self._visited(node.body)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node, body_can_wait=False)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node, body_can_wait=self._may_wait)

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        return [_statement("importing", node), node]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        return [node] if node.module == "__future__" else [_statement("importing", node), node]

    def visit_ClassDef(self, node: ast.ClassDef) -> list[ast.stmt]:
        node.decorator_list = self._handed_over(node.decorator_list)
        with self._waiting(self._can_wait and not getattr(node, "type_params", None)):
            node.bases = [_derive(each) for each in self._all_visited(node.bases)]
            for keyword in node.keywords:
                keyword.value = self._visited(keyword.value)
                if keyword.arg == "metaclass":
                    keyword.value = _pass("hand_over", keyword.value)
                elif keyword.arg is None:
                    keyword.value = _pass("unpack_for_class", keyword.value)
        with self._waiting(False):
            self._visit_type_parameters(node)
            node.body = [*self._statements(node.body), _statement("keep_all", node.body[-1])]
        return [_statement("importing", node), node]

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """Only its first iterable is evaluated where it stands."""
        node.generators[0].iter = self._visited(node.generators[0].iter)
        with self._waiting(False):
            node.elt = self._visited(node.elt)
            for position, generator in enumerate(node.generators):
                generator.target = self._visited(generator.target)
                generator.ifs = self._all_visited(generator.ifs)
                if position:
                    generator.iter = self._visited(generator.iter)
        return node

    def _visit_function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, *, body_can_wait: bool
    ) -> ast.AST:
        node.decorator_list = self._handed_over(node.decorator_list)
        with self._waiting(False):
            self._visit_type_parameters(node)
            node.args = self._visited(node.args)
            if node.returns is not None:
                node.returns = self._visited(node.returns)
        with self._waiting(body_can_wait):
            node.body = self._statements(node.body)
        return node

    def _visit_type_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for parameter in getattr(node, "type_params", ()):  # there are some from Python 3.12 on
            self.visit(parameter)

    def _handed_over(self, decorators: Sequence[ast.expr]) -> list[ast.expr]:
        return [_pass("hand_over", self._visited(decorator)) for decorator in decorators]

    def _visited(self, node: Node) -> Node:
        return cast("Node", self.visit(node))

    def _statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of a body, each with those that the guard needs before it."""
        visited = (cast("ast.stmt | list[ast.stmt]", self.visit(each)) for each in body)
        return [each for one in visited for each in (one if isinstance(one, list) else [one])]

    def _all_visited(self, nodes: Sequence[Node]) -> list[Node]:
        return [self._visited(node) for node in nodes]

    @contextmanager
    def _waiting(self, can_wait: bool) -> Generator[None, None, None]:
        before, self._can_wait = self._can_wait, can_wait
        try:
            yield
        finally:
            self._can_wait = before


def _pass(method: str, node: ast.expr) -> ast.expr:
    """Pass a value through a method of the guard."""
    called = ast.Call(func=_of_guard(method, node), args=[node], keywords=[])
    return ast.copy_location(called, node)


def _derive(base: ast.expr) -> ast.expr:
    if isinstance(base, ast.Starred):
        base.value = _pass("derive_all", base.value)
        return base
    return _pass("derive", base)


def _statement(method: str, place: ast.stmt) -> ast.stmt:
    """A call of a method of the guard, as a statement."""
    called = ast.Call(func=_of_guard(method, place), args=[], keywords=[])
    return ast.copy_location(ast.Expr(value=ast.copy_location(called, place)), place)


def _of_guard(method: str, place: ast.AST) -> ast.expr:
    guard = ast.copy_location(ast.Constant(value=_PLACEHOLDER), place)
    return ast.copy_location(ast.Attribute(value=guard, attr=method, ctx=ast.Load()), place)


def _written_name(function: ast.expr) -> str:
    """Return the written callee of a call, when it is a name, or attributes of one."""
    names: list[str] = []
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ""
    return ".".join([function.id, *reversed(names)])
