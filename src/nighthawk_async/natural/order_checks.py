"""Shapes of durable programs whose results depend on time or chance, as far as a text shows them.

Only modules that use something durable are looked at. What is found is a warning: few of the shapes that are
fine are among them, and many that are not are missed.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from .scope import FunctionNode, function_scope, parameter_names
from .tree import own_statements

OrderCode: TypeAlias = Literal["NH009", "NH010", "NH011", "NH012", "NH013"]

_DURABLE = frozenset({"once", "repeatable", "journal"})
_EFFECTS = frozenset({"once", "repeatable"})
_PARALLEL = frozenset({"map", "settle", "race", "stream"})
_ADDING = frozenset({"append", "appendleft", "extend", "insert"})
_ORDERED = frozenset({"mutex", "semaphore"})
_CHANGING = frozenset(
    {
        "time.time",
        "time.time_ns",
        "uuid.uuid1",
        "uuid.uuid4",
        "datetime.now",
        "datetime.utcnow",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.date.today",
        "os.urandom",
    }
)
_CHANGING_MODULES = frozenset({"random", "secrets"})
_UNORDERED = frozenset({"set", "frozenset", "os.listdir", "os.scandir", "glob.glob", "glob.iglob"})
_UNORDERED_METHODS = frozenset({"iterdir", "glob", "rglob"})


class OrderFinding(NamedTuple):
    """A finding.

    Args:
        code: Its code.
        node: Its expression.
        message: The words for it.
    """

    code: OrderCode
    node: ast.expr
    message: str


def find_order_risks(tree: ast.Module) -> Iterator[OrderFinding]:
    """Find the shapes in a module whose results may be others in each life of a run.

    Args:
        tree: The module.
    """
    names = _imported_names(tree)
    if not _is_durable(tree, names):
        return
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    effects = {each.name for each in functions if _has_decorator(each, _EFFECTS)}
    yield from _arrivals(tree, names)
    started = set(_started(tree, names))
    for function in functions:
        if function.name in started and isinstance(function, ast.AsyncFunctionDef):
            yield from _after_waits(function)
        if _has_decorator(function, {"natural_function"}):
            yield from _changing_values(own_statements(function.body), names, "a natural function")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in effects:
            arguments = [*node.args, *(each.value for each in node.keywords)]
            yield from _changing_values(arguments, names, f"the arguments of {node.func.id}()")
        elif isinstance(node, ast.For) and _is_unordered(node.iter, names) and _waits(node.body, effects):
            message = "the loop has another order in each life of a run; iterate over sorted(…)"
            yield OrderFinding("NH013", node.iter, message)


def _arrivals(tree: ast.Module, names: Mapping[str, str]) -> Iterator[OrderFinding]:
    """Find what is taken in the order of arrival."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = _dotted(node.func, names)
        ends = [_dotted(each.value, names) for each in node.keywords if each.arg == "return_when"]
        if called == "asyncio.as_completed" or (
            called == "asyncio.wait" and ends and ends[0].rpartition(".")[2].startswith("FIRST_")
        ):
            message = (
                f"{called} goes by the order of arrival, which is another one in each life of a run; "
                "use nh.parallel.stream or race"
            )
            yield OrderFinding("NH009", node.func, message)


def _after_waits(function: ast.AsyncFunctionDef) -> Iterator[OrderFinding]:
    """Find what a function that runs in parallel does to variables around it after it has waited."""
    scope = function_scope(function)
    local = (
        (scope.bound_names | set(parameter_names(function.args))) - scope.nonlocal_names - scope.global_names
    )
    shared = scope.nonlocal_names | scope.global_names
    has_waited = False
    for statement in _unlocked(function.body):
        inside = list(_expressions(statement))
        has_waited = has_waited or any(isinstance(each, ast.Await) for each in inside)
        if has_waited and isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and target.id in shared:
                    yield _by_arrival(target, f"{function.name}() sets {target.id}")
        for call in inside if has_waited else ():
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            owner = call.func.value
            if call.func.attr in _ADDING and isinstance(owner, ast.Name) and owner.id not in local:
                yield _by_arrival(call.func, f"{function.name}() adds to {owner.id}")
            elif (
                call.func.attr == "cancel" and _ends_with(owner, "cancel_scope") and _root(owner) not in local
            ):
                message = (
                    f"{function.name}() cancels the others when it is the first, and another one may be in a "
                    "later life of a run; use nh.parallel.race"
                )
                yield OrderFinding("NH011", call.func, message)
        has_waited = has_waited or isinstance(statement, ast.AsyncFor | ast.AsyncWith)


def _by_arrival(node: ast.expr, what: str) -> OrderFinding:
    return OrderFinding(
        "NH010",
        node,
        f"{what} in the order of arrival, which may be another one in a later life of a run; use the results "
        "of nh.parallel.map or stream, an actor, or nh.journal.decide",
    )


def _changing_values(
    nodes: Iterable[ast.AST], names: Mapping[str, str], where: str
) -> Iterator[OrderFinding]:
    for node in nodes:
        for each in ast.walk(node) if isinstance(node, ast.expr) else _expressions(node):
            if not isinstance(each, ast.Call):
                continue
            called = _dotted(each.func, names)
            if called in _CHANGING or (called.partition(".")[0] in _CHANGING_MODULES and "." in called):
                message = (
                    f"{called}() gives another value in each life of a run, in {where}; use nh.journal.now, "
                    "random or decide"
                )
                yield OrderFinding("NH012", each.func, message)


def _is_durable(tree: ast.Module, names: Mapping[str, str]) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "journal":
            return True
        if isinstance(node, ast.Attribute) and node.attr in _DURABLE:
            if _dotted(node, names).partition(".")[0] == "nighthawk_async":
                return True
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            dotted = names.get(node.id, "").split(".")
            if dotted[0] == "nighthawk_async" and _DURABLE & set(dotted):
                return True
    return False


def _started(tree: ast.Module, names: Mapping[str, str]) -> Iterator[str]:
    """The names of the functions that are started in parallel."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, first = _dotted(node.func, names), node.args[0]
        module, _, last = called.rpartition(".")
        if last == "create_task" and isinstance(first, ast.Call):
            first = first.func
        elif last != "start_soon" and not (last in _PARALLEL and module == "nighthawk_async.parallel"):
            continue
        if isinstance(first, ast.Name):
            yield first.id


def _unlocked(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function in order, without those under a lock whose order the run repeats."""
    for statement in body:
        if isinstance(statement, ast.AsyncWith) and any(
            isinstance(item.context_expr, ast.Call) and _last(item.context_expr.func) in _ORDERED
            for item in statement.items
        ):
            continue
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _unlocked(getattr(statement, name, ()))
        for handler in getattr(statement, "handlers", ()):
            yield from _unlocked(handler.body)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement itself, without those of the statements in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.Lambda):
            yield child
            yield from _expressions(child)


def _is_unordered(node: ast.expr, names: Mapping[str, str]) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if not isinstance(node, ast.Call):
        return False
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in _UNORDERED_METHODS
    return is_method or _dotted(node.func, names) in _UNORDERED


def _waits(body: Iterable[ast.stmt], effects: set[str]) -> bool:
    """Whether statements wait, or call an effect."""
    inside = [each for statement in body for each in ast.walk(statement)]
    return any(
        isinstance(each, ast.Await)
        or (isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in effects)
        for each in inside
    )


def _has_decorator(function: FunctionNode, wanted: Iterable[str]) -> bool:
    decorators = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
    return any(_last(each) in wanted for each in decorators)


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """The meanings of the imported names of a module."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: Mapping[str, str]) -> str:
    """The full name of an expression; empty where it is none, and without a module for other objects."""
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, names)}.{node.attr}"
    return ""


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _ends_with(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name
