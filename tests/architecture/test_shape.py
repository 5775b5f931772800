"""The size and form of modules and functions. There are no exemptions: code that does not fit is reshaped."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.cases import every

from .source_tree import PACKAGE, SOURCE, Module, code_length, parse_package

MAX_CODE_LINES = 450
MAX_FUNCTION_LINES = 60
NAMES_EVERY_POLICY = {
    f"{PACKAGE}.asgi.middleware.__init__": 82,
    f"{PACKAGE}.runs.run": 82,
    f"{PACKAGE}.scopes.scope": 75,
}
"""The lines of functions that name each policy as a keyword, which editors show, and hand them on."""

SEDIMENT = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")

MODULES = parse_package(SOURCE, PACKAGE)


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, methods and nested ones included."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length_without_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of lines of a function, its docstring and decorators left out."""
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        length -= (first.end_lineno or first.lineno) - first.lineno + 1
    return length


@every("name", MODULES)
def test_a_file_is_not_too_long(name: str) -> None:
    """Documentation counts for nothing: it is no reason to divide what belongs together."""
    assert code_length(MODULES[name]) <= MAX_CODE_LINES


def test_documentation_and_comments_are_no_code(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        '"""One.\n\nTwo."""\n\nA = 1  # three\n"""Four."""\n\n\ndef f() -> str:\n'
        '    """Five."""\n    # six\n    return """\n    seven\n    """\n',
        encoding="utf-8",
    )
    assert code_length(parse_package(tmp_path, "any")["any.one"]) == 5


def test_no_function_is_too_long() -> None:
    lengths = {
        (f"{module.name}.{function.name}", function.lineno): length_without_docstring(function)
        for module in MODULES.values()
        for function in functions(module)
    }
    most = {place: NAMES_EVERY_POLICY.get(place[0], MAX_FUNCTION_LINES) for place in lengths}
    assert {place: length for place, length in lengths.items() if length > most[place]} == {}


def test_nothing_is_put_off_in_comments() -> None:
    places = [
        f"{module.name}:{number}"
        for module in MODULES.values()
        for number, line in enumerate(module.lines, 1)
        if SEDIMENT.search(line)
    ]
    assert places == []


def test_a_docstring_does_not_count_as_length() -> None:
    tree = ast.parse('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n')
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert length_without_docstring(function) == 2
