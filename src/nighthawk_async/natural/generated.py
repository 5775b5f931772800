"""The statements that run one block, in place of its literal. Floor 1.

They speak to the runtime through three closure variables, and leave no name of their own behind:

    __nighthawk_run__     runs a block and returns, or is awaited to, a step result
    __nighthawk_locals__  the builtin `locals`, which the user's code may have shadowed
    __nighthawk_call__    makes the context manager around one call of the function

All of them carry the location of the literal, so that tracebacks show the user's file and line.
"""

import ast

from .blocks import ParsedLiteral
from .tree import with_location

__all__ = ["CLOSURE_NAMES", "block_statements", "call_statement"]

CLOSURE_NAMES = ("__nighthawk_run__", "__nighthawk_locals__", "__nighthawk_call__")
"""The closure variables that every transformed function has, whether it uses them or not."""

_STEP = "__nighthawk_step__"
_RUN, _LOCALS, _CALL = CLOSURE_NAMES


def block_statements(
    parsed: ParsedLiteral, *, index: int, is_async: bool, returns_value: bool
) -> list[ast.stmt]:
    """Make the statements that run one block, commit its write bindings and carry out its outcome.

    A commit is a plain assignment, so it honours `global` and `nonlocal`.

    Args:
        parsed: The literal of the block.
        index: The position of the block in its function.
        is_async: Whether the function is `async def`.
        returns_value: Whether `return` may have a value; in an async generator it may not.
    """
    lines = [
        f"{_STEP} = {'await ' if is_async else ''}{_RUN}({index}, {_LOCALS}(), None)",
        "try:",
        *(
            f"    if {name!r} in {_STEP}.bindings: {name} = {_STEP}.bindings[{name!r}]"
            for name in parsed.bindings.write_names
        ),
        *_outcome_lines(parsed, returns_value),
        "finally:",
        f"    del {_STEP}",
    ]
    statements = with_location(ast.parse("\n".join(lines)).body, parsed.literal)
    if isinstance(parsed.literal, ast.JoinedStr):
        _run_call(statements[0]).args[2] = parsed.literal
    return statements


def call_statement(body: list[ast.stmt], origin: ast.stmt) -> ast.stmt:
    """Wrap the body of a function into the context manager of one call.

    Args:
        body: The body, which keeps its own locations.
        origin: The statement whose location the new one gets.
    """
    (statement,) = with_location(ast.parse(f"with {_CALL}(): pass").body, origin)
    assert isinstance(statement, ast.With)
    statement.body = body
    return statement


def _outcome_lines(parsed: ParsedLiteral, returns_value: bool) -> list[str]:
    """Write one line for every outcome that changes the control flow and is allowed; `pass` needs none."""
    actions = {
        "return": f"return {_STEP}.return_value" if returns_value else "return",
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
