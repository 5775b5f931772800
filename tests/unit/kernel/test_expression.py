"""Compiling and running what a model writes."""

import pytest

from nighthawk_async.kernel.context import (
    StepNamespace,
    bound_names,
    compile_expression,
    compile_statements,
    mentioned_names,
)
from tests.unit.kernel.step_contexts import make_context


def test_the_same_expression_is_compiled_once() -> None:
    assert compile_expression("1 + once") is compile_expression("1 + once")


@pytest.mark.parametrize("text", ["'\ud800'", "a\x00b", "", "a b", "-" * 100_000 + "1", "yield 1", "x = 1"])
def test_text_that_is_no_expression_is_a_syntax_error_and_nothing_else(text: str) -> None:
    with pytest.raises(SyntaxError):
        compile_expression(text)


def test_text_that_is_no_statement_is_a_syntax_error_and_nothing_else() -> None:
    for text in ("'\ud800'", "return 1", "if x\n  y"):
        with pytest.raises(SyntaxError):
            compile_statements(text, filename="<statements>")


def test_names_inside_functions_and_comprehensions_are_mentioned() -> None:
    code = compile_expression("f(lambda x: x + a, [b * c for d in e]).g")
    assert mentioned_names(code) >= {"f", "a", "b", "e", "c"}
    assert "x" not in mentioned_names(code)


def test_names_that_statements_bind_or_delete_are_bound() -> None:
    statements = """
import os, re as regex
from math import pi
a = b
for c in d: pass
def f():
    global g, h
    g = 1
    local = 2
    def inner():
        global deep
        deep = 3
class K:
    attribute = 1
del e
(w := 1)
"""
    code = compile_statements(statements, filename="<statements>")
    assert bound_names(code) == {"os", "regex", "pi", "a", "c", "f", "g", "deep", "K", "e", "w"}


def test_thousands_of_names_are_bound() -> None:
    """Instructions have names by number; numbers above a byte are in several instructions."""
    for many in (255, 256, 257, 70_000):
        code = compile_statements("; ".join(f"a{n} = {n}" for n in range(many)), filename="<statements>")
        assert bound_names(code) == {f"a{n}" for n in range(many)}


def test_code_sees_locals_then_globals_then_builtins() -> None:
    namespace = StepNamespace(make_context(rate=3, max="mine"))
    assert namespace.run(compile_expression("(rate, max, len([1]), __name__)")) == (3, "mine", 1, "module")


def test_names_of_the_runtime_are_gone_after_an_error_too() -> None:
    context = make_context()
    with pytest.raises(ZeroDivisionError):
        StepNamespace(context).run(compile_expression("1 / 0"))
    assert context.step_locals == {}
