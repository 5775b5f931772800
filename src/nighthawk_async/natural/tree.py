"""Walking and rebuilding statements, and making those that replace the literal of a block.

Syntax trees of files are shared between functions, so nodes are never changed: a changed statement is a new
node that shares its unchanged parts.

Generated statements use the runtime through three closure variables and one local variable:

    __nighthawk_run__     runs a block and returns, or is awaited to, a step result
    __nighthawk_locals__  the builtin `locals`, which the user's code may have shadowed
    __nighthawk_call__    makes the context manager of one call of the function, from its arguments if wanted
    __nighthawk_scope__  the context manager of this call, to which the return value is reported; found
                          among the local variables at each block

All of them carry the location of the literal, so that tracebacks show the user's file and line.
"""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ..types.json import is_json_list
from .blocks import ParsedLiteral

Node = TypeVar("Node", bound=ast.AST)

_BODIES = ("body", "orelse", "finalbody")
_ARMS = ("handlers", "cases")


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below a node, in the order of the source.

    `ast.iter_child_nodes` does the same, but took half of the time of a decoration.

    Args:
        node: Any node.
    """
    children: list[ast.AST] = []
    fields = vars(node)
    for name in node._fields:
        value = fields.get(name)
        if isinstance(value, ast.AST):
            children.append(value)
        elif is_json_list(value):
            children += [item for item in value if isinstance(item, ast.AST)]
    return children


def replaced(node: Node, **changes: object) -> Node:
    """Return a copy of a node with some of its fields changed.

    Args:
        node: Any node.
        changes: The new values by field name.
    """
    fields: dict[str, Any] = {**vars(node), **changes}
    return type(node)(**fields)


def map_bodies(statement: ast.stmt, change: Callable[[list[ast.stmt], str], list[ast.stmt]]) -> ast.stmt:
    """Return a compound statement whose inner bodies are changed; any other statement is returned as it is.

    Args:
        statement: Any statement.
        change: Takes an inner body and the name of the field it was found in (that of the `except` handlers
            and the `case` arms is `handlers` and `cases`), returns the new body.
    """
    changes: dict[str, object] = {}
    for name in statement._fields:  # in the order of the source
        value = getattr(statement, name)
        if name in _BODIES and value:
            changes[name] = change(value, name)
        elif name in _ARMS and value:
            changes[name] = [replaced(arm, body=change(arm.body, name)) for arm in value]
    return replaced(statement, **changes) if changes else statement


def own_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield every statement of a body at any depth, except inside functions and classes that it defines.

    Args:
        body: The statements of one scope.
    """
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in statement._fields:
            if name in _BODIES:
                yield from own_statements(getattr(statement, name))
            elif name in _ARMS:
                for arm in getattr(statement, name):
                    yield from own_statements(arm.body)


def with_location(nodes: list[ast.stmt], origin: ast.AST) -> list[ast.stmt]:
    """Give fresh statements, and everything in them, the location of a node of the user's source.

    Args:
        nodes: Statements that are used nowhere else.
        origin: The node whose location they get.
    """
    location = {
        name: getattr(origin, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
    }
    pending: list[ast.AST] = [*nodes]
    while pending:
        node = pending.pop()
        if "lineno" in node._attributes:
            vars(node).update(location)
        pending += child_nodes(node)
    return nodes


def name_references(names: Iterable[str], origin: ast.stmt) -> list[ast.stmt]:
    """Make statements that mention names for the compiler alone: they cost nothing at run time.

    Python makes cells for the variables that a nested function's code mentions; the text of a block is not
    code.

    Args:
        names: Identifiers.
        origin: The statement whose location the new ones get.
    """
    mentioned = ", ".join(sorted(set(names)))
    if not mentioned:
        return []
    return with_location(ast.parse(f"if False: ({mentioned})").body, origin)


def is_docstring(statement: ast.stmt) -> bool:
    """Whether a statement would be the docstring of a body that it begins."""
    value: object = getattr(statement, "value", None)
    return (
        isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    )


CLOSURE_NAMES = ("__nighthawk_run__", "__nighthawk_locals__", "__nighthawk_call__")
"""The closure variables of every transformed function, used or not."""

SCOPE_NAME = "__nighthawk_scope__"
"""The local variable that holds the context manager of the call."""

_STEP = "__nighthawk_step__"
_RUN, _LOCALS, _CALL = CLOSURE_NAMES


def committed_name(name: str) -> str:
    """The local variable that holds what a variable held when it certainly had its declared type."""
    return f"__nighthawk_committed_{name}__"


def committed_statements(names: Mapping[str, bool], origin: ast.stmt) -> list[ast.stmt]:
    """Make the statements that give these local variables their first values.

    Args:
        names: The variables, and whether each is a parameter, which has its declared type from the beginning.
        origin: The statement whose location the new ones get.
    """
    lines = [
        f"{committed_name(name)} = {name if has_type else SCOPE_NAME}" for name, has_type in names.items()
    ]
    return with_location(ast.parse("\n".join(lines)).body, origin)


def block_statements(
    parsed: ParsedLiteral,
    *,
    index: int,
    is_async: bool,
    is_generator: bool,
    committed: Collection[str] = (),
) -> list[ast.stmt]:
    """Make the statements that run one block, commit its write bindings and apply its outcome.

    A commit is a plain assignment, so it honours `global` and `nonlocal`.

    Args:
        parsed: The literal of the block.
        index: The position of the block in its function.
        is_async: Whether the function is `async def`.
        is_generator: Whether the function is a generator or an async generator, which may return no value.
        committed: The variables whose committed values are remembered until a `return` statement.
    """

    def targets(name: str) -> str:
        return f"{name} = {committed_name(name)}" if name in committed else name

    lines = [
        f"{_STEP} = {'await ' if is_async else ''}{_RUN}({index}, {_LOCALS}(), None)",
        "try:",
        *(
            f"    if {name!r} in {_STEP}.bindings: {targets(name)} = {_STEP}.bindings[{name!r}]"
            for name in parsed.bindings.write_names
        ),
        *_outcome_lines(parsed, _return_line(is_async=is_async, is_generator=is_generator)),
        "finally:",
        f"    del {_STEP}",
    ]
    statements = with_location(ast.parse("\n".join(lines)).body, parsed.literal)
    if isinstance(parsed.literal, ast.JoinedStr):
        _run_call(statements[0]).args[2] = _interpolated_values(parsed.literal)
    return statements


def _interpolated_values(literal: ast.JoinedStr) -> ast.expr:
    """Make the expression of the interpolated values of an f-string, each as it stands in the text."""
    values = [part for part in literal.values if not isinstance(part, ast.Constant)]
    texts: list[ast.expr] = [ast.copy_location(ast.JoinedStr(values=[each]), literal) for each in values]
    return ast.copy_location(ast.Tuple(elts=texts, ctx=ast.Load()), literal)


def call_statement(body: list[ast.stmt], origin: ast.stmt, *, is_async: bool, is_generator: bool) -> ast.stmt:
    """Wrap the body of a function in the context manager of one call.

    Policies around the call make it themselves, in another function with the same code. None are around a
    generator, whose caller runs between its values.

    Args:
        body: The body, which keeps its own locations.
        origin: The statement whose location the new one gets.
        is_async: Whether the function is `async def`.
        is_generator: Whether the function is a generator or an async generator.
    """
    code = f"with {_CALL}({_LOCALS}() if {_CALL}.is_watched else None) as {SCOPE_NAME}: pass"
    if not is_generator:
        call = "await {0}.around.call()" if is_async else "{0}.around.call_from_sync()"
        code = f"{code[:-4]}\n if {SCOPE_NAME}.around: return {call.format(SCOPE_NAME)}"
    (statement,) = with_location(ast.parse(code).body, origin)
    assert isinstance(statement, ast.With)
    statement.body = body if is_generator else [*statement.body, *body]
    return statement


def return_statement(statement: ast.Return, committed: Collection[str] = ()) -> ast.stmt:
    """Make the statement that returns the value of a `return` statement, validated.

    Args:
        statement: The user's statement, whose value keeps its own location.
        committed: The variables of the type that the function returns.
    """
    return ast.copy_location(ast.Return(_checked(statement.value, statement, committed)), statement)


def _checked(value: ast.expr | None, origin: ast.stmt, committed: Collection[str]) -> ast.expr:
    """The validated value; of a conditional expression, the one that it chooses."""
    match value:
        case ast.IfExp(test=test, body=first, orelse=second):
            chosen = _checked(first, origin, committed), _checked(second, origin, committed)
            return ast.copy_location(ast.IfExp(test, *chosen), value)
        case ast.BoolOp(values=[ast.Name(id=name) as first, *others]) if name in committed:
            rest = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(value.op, others), value)
            chosen = _checked(first, origin, committed), _checked(rest, origin, committed)
            return ast.copy_location(
                ast.IfExp(first, *(chosen if isinstance(value.op, ast.Or) else reversed(chosen))), value
            )
        case _:
            pass
    code = f"{SCOPE_NAME}.returned(None{_origin(value, committed)})"
    (made,) = with_location(ast.parse(code).body, origin)
    assert isinstance(made, ast.Expr)
    assert isinstance(made.value, ast.Call)
    if value is not None:
        made.value.args[0] = value
    return made.value


def chosen_names(value: ast.expr | None) -> Iterator[str]:
    """The variables one of which a returned expression may name; see `return_statement`."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.IfExp(body=first, orelse=second):
            yield from chosen_names(first)
            yield from chosen_names(second)
        case ast.BoolOp(values=values):
            for each in values:
                yield from chosen_names(each)
        case _:
            return


def _origin(value: ast.expr | None, committed: Collection[str]) -> str:
    """The arguments that say where a returned value comes from: a variable, or the call of a function."""
    call = value.value if isinstance(value, ast.Await) else value
    match value, call:
        case ast.Name(id=name), _ if name in committed:
            return f", {name} is {committed_name(name)}"
        case _, ast.Call(func=ast.Name(id=name)):
            return f", False, {name}"
        case _, ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
            return f", False, {name}, {attribute!r}"
        case _:
            return ""


def end_statement(origin: ast.stmt) -> ast.stmt:
    """Make the statement that ends a function after its last other statement.

    Args:
        origin: The statement whose location it gets.
    """
    (ending,) = with_location(ast.parse(f"return {SCOPE_NAME}.fell_off()").body, origin)
    return ending


def _return_line(*, is_async: bool, is_generator: bool) -> str:
    return "return" if is_async and is_generator else f"return {SCOPE_NAME}.concluded({_STEP}.return_value)"


def _outcome_lines(parsed: ParsedLiteral, return_line: str) -> list[str]:
    """Write one line for every outcome that changes the control flow and is allowed; `pass` needs none."""
    actions = {
        "return": return_line,
        "break": "break",
        "continue": "continue",
        "raise": f"raise {_STEP}.exception",
    }
    return [
        f"    if {_STEP}.kind == {kind!r}: {action}"
        for kind, action in actions.items()
        if kind in parsed.allowed_kinds
    ]


def _run_call(statement: ast.stmt) -> ast.Call:
    assert isinstance(statement, ast.Assign)
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    assert isinstance(value, ast.Call)
    return value
