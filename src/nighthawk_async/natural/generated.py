"""The statements that run one block, in place of its literal.

They speak to the runtime through three closure variables and one local variable:

    __nighthawk_run__     runs a block and returns, or is awaited to, a step result
    __nighthawk_locals__  the builtin `locals`, which the user's code may have shadowed
    __nighthawk_call__    makes the extent of one call of the function, from its arguments where it wants them
    __nighthawk_extent__  the extent of this call: the context manager around it, which is told what the
                          function returns, and is found among the local variables where a block is run

All of them carry the location of the literal, so that tracebacks show the user's file and line.
"""

import ast

from .blocks import ParsedLiteral
from .tree import with_location

__all__ = [
    "CLOSURE_NAMES",
    "EXTENT_NAME",
    "block_statements",
    "call_statement",
    "end_statement",
    "return_statement",
]

CLOSURE_NAMES = ("__nighthawk_run__", "__nighthawk_locals__", "__nighthawk_call__")
"""The closure variables that every transformed function has, whether it uses them or not."""

EXTENT_NAME = "__nighthawk_extent__"
"""The local variable that holds the extent of the call."""

_STEP = "__nighthawk_step__"
_RUN, _LOCALS, _CALL = CLOSURE_NAMES


def block_statements(
    parsed: ParsedLiteral, *, index: int, is_async: bool, is_generator: bool
) -> list[ast.stmt]:
    """Make the statements that run one block, commit its write bindings and carry out its outcome.

    A commit is a plain assignment, so it honours `global` and `nonlocal`.

    Args:
        parsed: The literal of the block.
        index: The position of the block in its function.
        is_async: Whether the function is `async def`.
        is_generator: Whether the function is a generator or an async generator, which may return no value.
    """
    lines = [
        f"{_STEP} = {'await ' if is_async else ''}{_RUN}({index}, {_LOCALS}(), None)",
        "try:",
        *(
            f"    if {name!r} in {_STEP}.bindings: {name} = {_STEP}.bindings[{name!r}]"
            for name in parsed.bindings.write_names
        ),
        *_outcome_lines(parsed, _return_line(is_async=is_async, is_generator=is_generator)),
        "finally:",
        f"    del {_STEP}",
    ]
    statements = with_location(ast.parse("\n".join(lines)).body, parsed.literal)
    if isinstance(parsed.literal, ast.JoinedStr):
        _run_call(statements[0]).args[2] = parsed.literal
    return statements


def call_statement(body: list[ast.stmt], origin: ast.stmt) -> ast.stmt:
    """Wrap the body of a function into the extent of one call.

    Args:
        body: The body, which keeps its own locations.
        origin: The statement whose location the new one gets.
    """
    code = f"with {_CALL}({_LOCALS}() if {_CALL}.is_watched else None) as {EXTENT_NAME}: pass"
    (statement,) = with_location(ast.parse(code).body, origin)
    assert isinstance(statement, ast.With)
    statement.body = body
    return statement


def return_statement(statement: ast.Return) -> ast.stmt:
    """Make the statement that returns what a `return` statement says, validated.

    Args:
        statement: The statement of the user's, whose value keeps its own location.
    """
    (told,) = with_location(ast.parse(f"return {EXTENT_NAME}.returned(None)").body, statement)
    if statement.value is not None:
        assert isinstance(told, ast.Return)
        assert isinstance(told.value, ast.Call)
        told.value.args = [statement.value]
    return told


def end_statement(origin: ast.stmt) -> ast.stmt:
    """Make the statement that ends a function which has no other one to go on with.

    Args:
        origin: The statement whose location it gets.
    """
    (ending,) = with_location(ast.parse(f"return {EXTENT_NAME}.fell_off()").body, origin)
    return ending


def _return_line(*, is_async: bool, is_generator: bool) -> str:
    return "return" if is_async and is_generator else f"return {EXTENT_NAME}.concluded({_STEP}.return_value)"


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
