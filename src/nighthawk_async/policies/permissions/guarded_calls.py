"""Guard between the code of a step and the functions that it calls, under permissions.

Code that may need an approval is a coroutine. It starts in the turn of the step actor and, while no approval
is needed, ends in it, like code without a guard. To ask for an approval it pauses; its caller then resumes it
outside the actor.
"""

import ast
import secrets
import sys
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from inspect import CO_COROUTINE
from typing import Any, Literal, TypeVar, cast

from ...kernel.assignment import with_checked_arguments
from ...kernel.cells import begin, pause
from ...kernel.code_calls import bounded
from ...kernel.context import Rewriting, StepContext, StepNamespace, compile_tree, parse_code, with_constant
from ...kernel.tools import ToolScope
from ...values.annotation_texts import evaluates_items, has_texts, without_texts
from ...values.written_annotations import AnnotationChanger
from .call import PermissionCall
from .call_checks import CallChecks
from .equivalents import without_operators
from .internals import check_internals
from .permissions import (
    PermissionDecision,
    Permissions,
    refusal_of_asking,
    refusal_of_assignment,
    refusal_of_change,
    refusal_of_part,
)
from .protected_parts import (
    ANNOTATION_PARTS,
    ANNOTATIONS,
    MATCHED,
    VARIABLES,
    has_private_name,
    is_fixed,
    is_table_of_process,
    matched_names_are_public,
    variables_of,
)

Node = TypeVar("Node", bound=ast.AST)

_PLACEHOLDER = f"guard of the step {secrets.token_hex(16)}"
"""The constant that the guard replaces: a text that no source text can guess."""


@lru_cache(maxsize=1024)
def compile_guarded(
    text: str,
    *,
    filename: str,
    mode: Literal["eval", "exec"],
    may_wait: bool,
    rewriting: Rewriting | None = None,
) -> types.CodeType:
    """Compile valid Python with guarded calls and a placeholder for the guard.

    Args:
        text: An expression or statements.
        filename: The file name of the code.
        mode: `eval` for an expression, `exec` for statements.
        may_wait: Whether the guard may have to wait for an approval.
        rewriting: A change of the code; None for none.

    Raises:
        SyntaxError: The text is not Python, or is nested too deeply to be guarded.
    """
    try:
        if may_wait:
            try:
                return _compile(text, filename, mode, may_wait=True, rewriting=rewriting)
            except SyntaxError:  # Python forbids `await` in some places that are not known here
                pass
        return _compile(text, filename, mode, may_wait=False, rewriting=rewriting)
    except (MemoryError, RecursionError) as error:
        raise SyntaxError("the code is nested too deeply") from error


def with_guard(code: types.CodeType, guard: object) -> types.CodeType:
    """Return code from `compile_guarded` with this guard in it."""
    return with_constant(code, _PLACEHOLDER, guard)


def is_coroutine_code(code: types.CodeType) -> bool:
    """Whether running the code returns a coroutine."""
    return bool(code.co_flags & CO_COROUTINE)


def _compile(
    text: str, filename: str, mode: str, *, may_wait: bool, rewriting: Rewriting | None
) -> types.CodeType:
    guarded = _Guarding(may_wait=may_wait).visit(parse_code(text, filename=filename, mode=mode))
    return compile_tree(guarded, text, filename=filename, mode=mode, rewriting=rewriting)


class _Guarding(AnnotationChanger, ast.NodeTransformer):
    """Rewrites calls, and tracks whether `await` is possible at the current node."""

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
        if not isinstance(node.ctx, ast.Load):
            node.value = _pass("attributes_of", node.value)
        elif node.attr == VARIABLES:
            return _pass("variables", node.value)
        elif has_private_name(node.attr):
            name = ast.copy_location(ast.Constant(value=node.attr), node)
            node.value = _pass("read", node.value, name)
        return node

    def check_of(self, node: ast.expr) -> ast.expr:
        return _pass("annotation", node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in ANNOTATION_PARTS:
            raise refusal_of_part(node.id, "code")
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = _pass("items_of", node.value)
        elif not isinstance(node.slice, ast.Slice):
            node.value = _pass("subscripted", node.value)
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        kinds = [kind for case in node.cases for kind in _positional_classes(case.pattern)]
        node.subject = self._visited(node.subject)
        for case in node.cases:
            case.guard = None if case.guard is None else self._visited(case.guard)
            case.body = self._statements(case.body)
        if kinds:
            node.subject = _pass("matched", node.subject, *map(_deferred, kinds))
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
        if node.module == "__future__" and any(each.name == ANNOTATIONS for each in node.names):
            raise refusal_of_part(ANNOTATIONS, node.module)
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
        making = ast.Call(func=_of_guard("making", node), args=[], keywords=[])
        node.decorator_list.append(ast.copy_location(making, node))
        return [_statement("importing", node), node]

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        """Visit a generator expression: only its first iterable is evaluated at once."""
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
            node.returns = self.change_annotation(node.returns)
        with self._waiting(body_can_wait):
            node.body = self._statements(node.body)
        return node

    def _visit_type_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for parameter in getattr(node, "type_params", ()):  # since Python 3.12
            self.visit(parameter)

    def _handed_over(self, decorators: Sequence[ast.expr]) -> list[ast.expr]:
        return [_pass("hand_over", self._visited(decorator)) for decorator in decorators]

    def _visited(self, node: Node) -> Node:
        return cast("Node", self.visit(node))

    def _statements(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a body, each preceded by those that the guard needs."""
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


def _positional_classes(pattern: ast.pattern) -> Iterator[ast.expr]:
    """Yield the classes of patterns with positions.

    Raises:
        ToolBoundaryError: A pattern reads a private attribute.
    """
    for each in ast.walk(pattern):
        names = each.kwd_attrs if isinstance(each, ast.MatchClass) else ()
        for name in (*names, *([each.attr] if isinstance(each, ast.Attribute) else ())):
            if has_private_name(name):
                raise refusal_of_part(name, ast.unparse(pattern))
        if isinstance(each, ast.MatchClass) and each.patterns:
            yield each.cls


def _deferred(kind: ast.expr) -> ast.expr:
    """Return a function without arguments that returns a class."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(args=nothing, body=kind), kind)


def _pass(method: str, node: ast.expr, *further: ast.expr) -> ast.expr:
    """Pass a value through a method of the guard."""
    called = ast.Call(func=_of_guard(method, node), args=[node, *further], keywords=[])
    return ast.copy_location(called, node)


def _derive(base: ast.expr) -> ast.expr:
    if isinstance(base, ast.Starred):
        base.value = _pass("derive_all", base.value)
        return base
    return _pass("derive", base)


def _statement(method: str, place: ast.stmt) -> ast.stmt:
    """Return a statement that calls a method of the guard."""
    called = ast.Call(func=_of_guard(method, place), args=[], keywords=[])
    return ast.copy_location(ast.Expr(value=ast.copy_location(called, place)), place)


def _of_guard(method: str, place: ast.AST) -> ast.expr:
    guard = ast.copy_location(ast.Constant(value=_PLACEHOLDER), place)
    return ast.copy_location(ast.Attribute(value=guard, attr=method, ctx=ast.Load()), place)


def _written_name(function: ast.expr) -> str:
    """Return the callee of a call as written, if it is a dotted name; otherwise an empty text."""
    names: list[str] = []
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ""
    return ".".join([function.id, *reversed(names)])


class CallGuard(CallChecks):
    """The guard of one step, through which its code makes every call.

    Args:
        context: The state of the step.
        permissions: The active sets, at least one.
        tools: The tools of the step.
        ask: Asks people about a call; raises `ToolBoundaryError` unless it is approved.
        report: Reports decisions.
    """

    __slots__ = ("_ask", "is_in_turn", "may_wait")

    def __init__(
        self,
        context: StepContext,
        permissions: Sequence[Permissions],
        *,
        tools: ToolScope,
        ask: Callable[[PermissionCall], Awaitable[None]],
        report: Callable[[PermissionCall, PermissionDecision], None],
    ) -> None:
        super().__init__(context, permissions, tools=tools, report=report)
        self._ask = ask
        self.may_wait = any(each.may_ask for each in permissions)
        """Whether a call may have to wait for an approval."""
        self.is_in_turn = False
        """Whether the step actor runs the code, so that it must pause before it waits."""

    def run(
        self,
        namespace: StepNamespace,
        code: types.CodeType,
        text: str,
        mode: Literal["eval", "exec"],
        rewriting: Rewriting | None = None,
    ) -> object:
        """Run code; see `call_guard.CallGuard.run`."""
        self.check_text(text, mode)
        guarded = compile_guarded(
            text, filename=code.co_filename, mode=mode, may_wait=self.may_wait, rewriting=rewriting
        )
        value = namespace.run(with_guard(guarded, self))
        if is_coroutine_code(guarded) and not is_coroutine_code(code):
            with namespace.active():
                return _begin(cast("Coroutine[Any, Any, object]", value), self)
        return value

    def admit(self, written: str, function: object, /, *args: object, **kwargs: object) -> object:
        """Admit a call where nothing can wait.

        Args:
            written: The callee as written, if it is a dotted name; otherwise empty.
            function: The function that is called.
            args: The positional arguments.
            kwargs: The keyword arguments.

        Returns:
            A callable that makes the call; it takes no arguments.

        Raises:
            ToolBoundaryError: The call is not permitted, or needs an approval; or the arguments of a natural
                function do not match its signature.
            TypeError: The function cannot be called with these arguments.
            HookError: A rule or a hook failed.
        """
        if not callable(function):
            return function  # the call raises the error of Python
        made = with_checked_arguments(*without_operators(function, args, kwargs))
        call = self.check(written, *made)
        if call is not None:
            raise refusal_of_asking(call)
        return _prepared(*_with_copied_variables(*made))

    async def admit_waiting(
        self, written: str, function: object, /, *args: object, **kwargs: object
    ) -> object:
        """Admit a call, after an approval if it needs one; see `admit`."""
        if not callable(function):
            return function
        made = with_checked_arguments(*without_operators(function, args, kwargs))
        call = self.check(written, *made)
        if call is not None:
            if self.is_in_turn:
                await pause()
            await self._ask(call)
            if self.names.receiver(made[0])[0] != call.receiver:
                raise refusal_of_change(call)
        return _prepared(*_with_copied_variables(*made))

    def check_text(self, text: str, mode: Literal["eval", "exec"]) -> None:
        """Check code before it runs, in a step that sees only the names in its block.

        Raises:
            NameError: It needs a builtin that the block does not name.
            ToolBoundaryError: It reads an attribute that gives access to other names.
        """
        if self._context.visible_builtins is not None:
            check_internals(text, mode, self._context)

    def raising(self, error: object, /) -> object:
        """Admit the call of a class by `raise`."""
        if isinstance(error, type):
            self.admit("", error)
        return error

    def derive_all(self, bases: Iterable[object], /) -> tuple[object, ...]:
        """Admit deriving a class from others."""
        return tuple(map(self.derive, bases))

    def unpack(self, mapping: object, /) -> object:
        """Admit `**mapping`, which asks an object for its keys."""
        self.hand_over_keys(mapping)
        return mapping

    def unpack_for_class(self, mapping: object, /) -> dict[str, object]:
        """Admit the keyword arguments of a class, including a metaclass."""
        self.hand_over_keys(mapping)
        keywords = dict(cast("Mapping[str, object]", mapping))
        self.hand_over(keywords.get("metaclass"))
        return keywords

    def attributes_of(self, owner: object, /) -> object:
        """Return a proxy of an object whose attribute is about to be assigned."""
        return _Assigned(self, owner)

    def variables(self, owner: object, /) -> object:
        """Return the `__dict__` of an object, or a copy where code must not change it."""
        self.read(owner, VARIABLES)
        return variables_of(owner) if is_fixed(owner, "") else cast("Any", owner).__dict__

    def items_of(self, owner: object, /) -> object:
        """Return an object whose item is about to be assigned or removed."""
        if is_table_of_process(owner):
            self.hand_over(cast("Any", owner).__setitem__)
        return owner

    def subscripted(self, owner: object, /) -> object:
        """Return an object whose item is about to be read: a proxy if it evaluates the texts in items."""
        return _ItemsOfTypes(owner) if evaluates_items(owner) else owner

    def annotation(self, annotation: object, /) -> object:
        """Return an annotation without texts, which would be evaluated where no guard sees it."""
        return without_texts(annotation)

    def matched(self, subject: object, /, *kinds: Callable[[], object]) -> object:
        """Admit class patterns with positions, where the class decides which attributes are read."""
        for kind in kinds:
            try:
                is_public = matched_names_are_public(kind())
            except NameError:
                is_public = False
            if not is_public:
                raise refusal_of_part(MATCHED, subject)
        return subject

    def keep_all(self) -> None:
        """Admit the definitions in the body of a class, which is the caller."""
        self.keep_in_class(sys._getframe(1).f_locals)  # pyright: ignore[reportPrivateUsage]


class _ItemsOfTypes:
    """Proxy of a generic model while an item of it is read."""

    __slots__ = ("_kind",)

    def __init__(self, kind: object) -> None:
        self._kind: Any = kind

    def __getitem__(self, key: object) -> object:
        if has_texts(key):
            raise refusal_of_part("a text as an item, which is evaluated,", self._kind)
        return self._kind[key]


class _Assigned:
    """Proxy of an object while an attribute is assigned, so that the guard sees the value."""

    __slots__ = ("_guard", "_owner")

    def __init__(self, guard: CallGuard, owner: object) -> None:
        object.__setattr__(self, "_guard", guard)
        object.__setattr__(self, "_owner", owner)

    def __getattribute__(self, name: str) -> object:
        owner = object.__getattribute__(self, "_owner")
        object.__getattribute__(self, "_guard").read(owner, name)
        return getattr(owner, name)

    def __delattr__(self, name: str) -> None:
        owner = object.__getattribute__(self, "_owner")
        if is_fixed(owner, name):
            raise refusal_of_assignment(name, owner)
        delattr(owner, name)

    def __setattr__(self, name: str, value: object) -> None:
        owner = object.__getattribute__(self, "_owner")
        object.__getattribute__(self, "_guard").keep_attribute(owner, name, value)
        setattr(owner, name, value)


def _with_copied_variables(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[Callable[..., object], tuple[object, ...], Mapping[str, object]]:
    """Return a call of `vars`, or one of `getattr` for `__dict__`, as one that gives a copy where it must."""
    is_reading = args[1:] == () if function is vars else function is getattr and args[1:2] == (VARIABLES,)
    if args and is_reading and is_fixed(args[0], ""):
        return variables_of, args[:1], {}
    return function, args, kwargs


def _prepared(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Callable[[], object]:
    return partial(bounded(function), *args, **kwargs)


def _begin(coroutine: Coroutine[Any, Any, object], guard: CallGuard) -> object:
    """Run code in the actor's turn until it ends or has to wait."""
    guard.is_in_turn = True
    try:
        return begin(coroutine)
    finally:
        guard.is_in_turn = False
