"""The check of code before it runs, at the level `shown`.

Each text is looked at once, whatever the step: what is refused in any step, and what depends on the names
that the step shows.
"""

import ast
import builtins
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ...errors import ToolBoundaryError
from .members import SCOPES, SPECIAL, check_format_text, is_of_own_class, is_private, refusal, scope_refusal
from .modules import is_shown, shown_module

HIDDEN_BUILTINS = frozenset(
    (
        *(
            "breakpoint",
            "compile",
            "copyright",
            "credits",
            "eval",
            "exec",
            "exit",
            "globals",
            "help",
            "input",
        ),
        *("KeyboardInterrupt", "license", "locals", "open", "quit", "vars"),
    )
)
"""Builtins that reach more than what is shown."""

NEVER = frozenset({"compile", "eval", "exec", "globals", "locals", "vars"})
"""Those that stay hidden even if the block names them."""

SHOWN_BUILTINS = frozenset(name for name in vars(builtins) if name[0] != "_") - HIDDEN_BUILTINS

_HELD = frozenset({"getattr", "setattr", "hasattr", "delattr", "type", "super"})
"""Builtins with rules about their use."""

_LOOPS = frozenset({"anyio", "asyncio", "trio"})

_DATA = frozenset({"__name__", "__qualname__", "__doc__"})
"""Attributes with underscores that are texts."""

_METHODS = """
__init__ __post_init__ __repr__ __str__ __format__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__
__bool__ __len__ __iter__ __next__ __reversed__ __contains__ __getitem__ __setitem__ __delitem__
__missing__ __call__ __enter__ __exit__ __aenter__ __aexit__ __aiter__ __anext__ __await__ __add__
__radd__ __iadd__ __sub__ __rsub__ __isub__ __mul__ __rmul__ __imul__ __truediv__ __rtruediv__
__floordiv__ __rfloordiv__ __mod__ __rmod__ __divmod__ __pow__ __rpow__ __neg__ __pos__ __abs__ __invert__
__and__ __rand__ __or__ __ror__ __xor__ __rxor__ __lshift__ __rshift__ __matmul__ __int__ __float__
__index__ __round__ __floor__ __ceil__ __trunc__
"""
_DEFINABLE = frozenset(_METHODS.split())
"""Special methods that classes of a step's code may define."""

_OPERATORS = """
__contains__ __delitem__ __getitem__ __iter__ __len__ __next__ __reversed__ __setitem__ __abs__ __add__
__and__ __bool__ __divmod__ __eq__ __float__ __floordiv__ __ge__ __gt__ __int__ __invert__ __le__ __lt__
__mod__ __ne__ __neg__ __or__ __pos__ __repr__ __round__ __str__ __sub__ __truediv__ __xor__
"""
_AS_OPERATORS = frozenset(_OPERATORS.split())
"""Special methods that do no more than an operator or statement: expressions change containers with them."""

ABOUT_CLASSES = ("isinstance", "issubclass")
"""Builtins that get classes, whatever these make. Code that uses them does not bind other things to them."""

_CLASS_DATA = frozenset({"__slots__", "__hash__", "__match_args__", "__doc__"})
"""Special names that a class body may assign."""

_PLAIN = "bool bytearray bytes dict float frozenset int list set str tuple"
_BY_POSITION = frozenset(_PLAIN.split())
"""Classes whose patterns take the whole value: `case str(text)`."""

_Problem: TypeAlias = tuple[str, str]
"""What is refused, and what to do."""


class Findings(Struct, frozen=True):
    """The findings in a text, whatever the step.

    Args:
        problem: What no step allows; None for nothing.
        read: The names that it looks up outside of functions' own variables, unless it binds them itself.
        bound: The names that it binds.
        held: Uses of builtins that are refused unless the step has a variable of that name, by name.
        as_builtins: The builtins that have to be Python's own: those whose patterns it uses, for example.
        imports: The modules that it imports and that are not shown in every step.
        private: A private attribute that it uses, which only classes of the step's code have; empty for none,
            or if it writes classes itself.
        needs_checks: Whether attributes have to be looked at while it runs.
    """

    problem: _Problem | None
    read: frozenset[str]
    bound: frozenset[str]
    held: dict[str, _Problem]
    as_builtins: frozenset[str]
    imports: tuple[str, ...]
    private: str
    needs_checks: bool


@lru_cache(maxsize=1024)
def findings(text: str, mode: Literal["eval", "exec"]) -> Findings:
    """Return what a text says.

    Args:
        text: The code, which is valid Python.
        mode: Whether it is an expression or statements.
    """
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        return _Reading().read(compile(text, "<text>", mode, flags))
    except (MemoryError, RecursionError):
        problem = ("the code is nested too deeply", "Write it in several statements.")
        return Findings(
            problem=problem,
            read=frozenset(),
            bound=frozenset(),
            held={},
            as_builtins=frozenset(),
            imports=(),
            private="",
            needs_checks=True,
        )


class _Reading(ast.NodeVisitor):
    """Reads one text."""

    def __init__(self) -> None:
        self._problem: _Problem | None = None
        self._loaded: set[str] = set()
        self._bound: set[str] = set()
        self._held: dict[str, _Problem] = {}
        self._imports: list[str] = []
        self._needs_checks = False
        self.is_in_class = False
        self._private = ""
        self._has_classes = False
        self._as_builtins: set[str] = set()
        self._called_or_given: set[str] = set()

    def read(self, tree: ast.AST) -> Findings:
        try:
            self.visit(tree)
        except ToolBoundaryError as error:
            self._refuse(error.message, error.guidance or "")
        if names := self._as_builtins & self._bound:
            self._refuse(f"such a use of {min(names)}, which this code binds itself", "Choose another name.")
        return Findings(
            problem=self._problem,
            read=frozenset(self._loaded - self._bound),
            bound=frozenset(self._bound),
            held=self._held,
            as_builtins=frozenset(self._as_builtins),
            imports=tuple(self._imports),
            private="" if self._has_classes else self._private,
            needs_checks=self._needs_checks or not self._called_or_given.isdisjoint(self._bound),
        )

    def _refuse(self, message: str, guidance: str = "") -> None:
        if self._problem is None:
            error = refusal(message, guidance) if guidance else refusal(message)
            self._problem = (error.message, error.guidance or "")

    # names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._loaded.add(node.id)
            if node.id in _HELD:
                self._hold(node.id, f"{node.id} as a value", "Call it where it is needed.")
            if node.id[:2] == "__" and node.id != "__name__":
                self._refuse(f"the name {node.id!r} is private")
        else:
            self._bind(node.id)
            if isinstance(node.ctx, ast.Del) and node.id in _HELD:
                self._refuse(f"{node.id} cannot be deleted", "Leave it.")

    def _bind(self, name: str | None) -> None:
        if name is None:
            return
        self._bound.add(name)
        if name[:2] == "__" and not (self.is_in_class and name in _CLASS_DATA):
            self._refuse(f"the name {name!r} is private", "Choose another name.")

    def _hold(self, name: str, message: str, guidance: str) -> None:
        error = refusal(f"{message} is not available", guidance)
        self._held.setdefault(name, (error.message, error.guidance or ""))

    def visit_arg(self, node: ast.arg) -> None:
        self._bind(node.arg)
        self._needs_checks |= node.annotation is not None
        self.generic_visit(node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind(node.name)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self._bind(name)

    visit_Nonlocal = visit_Global  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._needs_checks = True
        self.generic_visit(node)

    def visit_TypeAlias(self, node: Any) -> None:
        self._needs_checks = True
        self.generic_visit(node)

    def visit_TypeVar(self, node: Any) -> None:
        self._needs_checks = True
        self._bind(node.name)
        self.generic_visit(node)

    visit_ParamSpec = visit_TypeVarTuple = visit_TypeVar  # noqa: N815

    # imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._bind(alias.asname or alias.name.partition(".")[0])
            if not is_shown(alias.name):
                self._imports.append(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            if alias.name != "*":
                self._bind(alias.asname or alias.name)
        if module == "__future__":
            if any(alias.name == "annotations" for alias in node.names):
                self._refuse("annotations as texts", "Write the code without this import.")
            return
        if node.level or not is_shown(module):
            self._imports.append("." * node.level + module)
            self._check_attributes(alias.name for alias in node.names if alias.name != "*")
            return
        if module in _LOOPS and any(alias.name == "*" or alias.name in SCOPES for alias in node.names):
            raise scope_refusal(module)
        members = vars(shown_module(module))
        for alias in node.names:
            if alias.name != "*" and (is_private(alias.name) or alias.name not in members):
                what = f"{module}.{alias.name} cannot be imported here"
                self._refuse(what, "Do without it, or use another function of a standard module.")

    # attributes

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._needs_checks = True
        is_text = node.attr in _DATA and isinstance(node.ctx, ast.Load)
        if is_of_own_class(node.attr):
            self._private = node.attr
        elif not (is_text or _is_special_call(node)):
            self._check_attributes((node.attr,))
        if node.attr in ("format", "format_map"):
            text = node.value.value if isinstance(node.value, ast.Constant) else None
            check_format_text(text if isinstance(text, str) else "")
        if _is_super(node.value):
            return  # `super()` is fine here
        self.visit(node.value)

    def _check_attributes(self, names: Iterable[str]) -> None:
        for name in names:
            if is_private(name) and name not in SPECIAL:
                self._refuse(f"the attribute {name!r} is private")

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = function.id if isinstance(function, ast.Name) else ""
        if name in _HELD:
            self._loaded.add(name)
            self._check_held(name, node)
        else:
            self.visit(function)
        arguments: list[ast.AST] = [*node.args, *(each.value for each in node.keywords)]
        self._note_call(name, arguments)
        for each in arguments:
            if name in ABOUT_CLASSES and isinstance(each, ast.Name) and each.id == "type":
                self._loaded.add("type")
            else:
                self.visit(each)

    def _note_call(self, name: str, arguments: list[ast.AST]) -> None:
        """Note whether a call has to be looked at while it runs; see `class_makers`."""
        if name in ABOUT_CLASSES:
            self._as_builtins.add(name)
            return
        self._called_or_given.add(name)
        self._called_or_given.update(each.id for each in arguments if isinstance(each, ast.Name))
        self._needs_checks |= name in ("", "map") or any(isinstance(each, ast.Starred) for each in arguments)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.value, ast.Name):
            self._called_or_given.add(node.value.id)
        elif has_checked_index(node):
            self._needs_checks = True
        self.generic_visit(node)

    def _check_held(self, name: str, node: ast.Call) -> None:
        is_plain = not node.keywords and not any(isinstance(each, ast.Starred) for each in node.args)
        if name == "type":
            self._needs_checks = True
            if not is_plain or len(node.args) != 1:
                self._hold(name, "type with more than one argument", "Write a class statement.")
        elif name == "super":
            self._hold(name, "super() as a value", "Call a method of it, as in super().__init__().")
        else:
            self._needs_checks = True
            attribute = node.args[1] if is_plain and len(node.args) >= 2 else None
            if not isinstance(attribute, ast.Constant) or not isinstance(attribute.value, str):
                self._hold(name, f"{name} with a computed name", "Write the attribute: order.total.")
            elif is_private(attribute.value) or attribute.value in SPECIAL:
                self._hold(name, f"{name} of {attribute.value!r}", "Use the public members of what is shown.")

    # definitions

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if self.is_in_class and node.name in _DEFINABLE:
            self._bound.add(node.name)
        elif self.is_in_class and node.name[:2] == "__" and node.name[-2:] == "__":
            self._refuse(f"classes cannot define {node.name}", "Write a method of another name.")
        else:
            self._bind(node.name)
        self._needs_checks |= node.returns is not None
        with _Outside(self):
            self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        with _Outside(self):
            self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._needs_checks = self._has_classes = True
        self._bind(node.name)
        for keyword in node.keywords:
            if keyword.arg in (None, "metaclass"):
                self._refuse("a class with a metaclass", "Write a plain class, or use dataclasses.")
        if any(isinstance(base, ast.Starred) for base in node.bases):
            self._refuse("a class with unpacked bases", "Name the bases.")
        outside: list[ast.AST] = [*node.bases, *node.keywords, *node.decorator_list]
        for each in (*outside, *getattr(node, "type_params", ())):
            self.visit(each)
        before, self.is_in_class = self.is_in_class, True
        for statement in node.body:
            self.visit(statement)
        self.is_in_class = before

    def visit_Assign(self, node: ast.Assign) -> None:
        if self.is_in_class:
            for target in node.targets:
                self._check_class_data(target, node.value)
        self.generic_visit(node)

    def _check_class_data(self, target: ast.expr, value: ast.expr) -> None:
        """Refuse what is no data under a special name: it would become a special method."""
        if not isinstance(target, ast.Name) or target.id not in _CLASS_DATA:
            return
        if not all(
            isinstance(each, ast.Constant | ast.Tuple | ast.List | ast.Load) for each in ast.walk(value)
        ):
            self._refuse(f"{target.id} that is no constant", "Write a constant.")

    # patterns

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        self._needs_checks = True
        self._check_attributes(node.kwd_attrs)
        if any(each in SPECIAL for each in node.kwd_attrs):
            self._refuse("a pattern with such an attribute", "Compare it in an if statement.")
        if node.patterns:
            if not isinstance(node.cls, ast.Name) or node.cls.id not in _BY_POSITION:
                self._refuse("a class pattern with positions", "Name the attributes: case Point(x=0).")
            else:
                self._as_builtins.add(node.cls.id)
        for pattern in node.kwd_patterns:
            if any(isinstance(each, ast.MatchClass) for each in ast.walk(pattern)):
                self._refuse("a class pattern inside of another", "Compare it in an if statement.")
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs | ast.MatchStar) -> None:
        self._bind(node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs  # noqa: N815

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind(node.rest)
        self.generic_visit(node)


class _Outside:
    """Leaves the body of a class for a `with` statement."""

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading

    def __enter__(self) -> None:
        self._before, self._reading.is_in_class = self._reading.is_in_class, False

    def __exit__(self, *exc_details: object) -> None:
        self._reading.is_in_class = self._before


def _is_super(node: ast.expr) -> bool:
    """Whether it is `super()`."""
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return False
    return isinstance(node.func, ast.Name) and node.func.id == "super"


def _is_special_call(node: ast.Attribute) -> bool:
    """Whether it is a special method of `super()`, or one that does what an operator does."""
    if node.attr in _AS_OPERATORS and isinstance(node.ctx, ast.Load):
        return True
    return node.attr in _DEFINABLE and _is_super(node.value)


def has_checked_index(node: ast.Subscript) -> bool:
    """Whether an item is read that may be one of a class; those are texts or types, and no numbers."""
    index = node.slice
    is_number = isinstance(index, ast.Slice | ast.UnaryOp) or (
        isinstance(index, ast.Constant) and not isinstance(index.value, str)
    )
    return isinstance(node.ctx, ast.Load) and not is_number and not isinstance(node.value, ast.Constant)


def raise_problem(problem: _Problem) -> None:
    """Raise the error of a problem."""
    raise ToolBoundaryError(kind="resolution", message=problem[0], guidance=problem[1])
