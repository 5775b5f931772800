"""Blocks of functions inside a natural function: those that nothing would run are errors."""

import runpy
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

import nighthawk_async as nh

HEAD = """
import abc, functools, contextlib
import nighthawk_async as nh
from nighthawk_async import natural_function
aliased = nh.natural_function
checked = nh.natural_function(verify=lambda proposal: None)
partially = functools.partial(natural_function)

def unsure(function):
    return function

"""

OUTER = '''
@nh.natural_function
async def outer(xs):
    """natural
    Look at <xs>.
    """
{inside}
'''


def run(tmp_path: Path, inside: str, *, outer: str = OUTER) -> Path:
    path = tmp_path / "example.py"
    inside = dedent(inside).replace("BLOCK", '"""natural\n        Look.\n        """')
    path.write_text(HEAD + outer.replace("{inside}", indent(inside, "    ")))
    runpy.run_path(str(path))
    return path


INERT: list[Any] = [
    pytest.param("def inner():\n    BLOCK\nreturn inner()", "inner", id="def"),
    pytest.param("async def inner():\n    BLOCK\nreturn await inner()", "inner", id="async def"),
    pytest.param("def inner():\n    x = 1\n    if x:\n        f'''natural\n{x}'''", "inner", id="f-string"),
    pytest.param("if xs:\n    def inner():\n        BLOCK\n    inner()", "inner", id="in a branch"),
    pytest.param("def middle():\n    def inner():\n        BLOCK\n    return inner()", "inner", id="deeply"),
    pytest.param("class Part:\n    def inner(self):\n        BLOCK", "inner", id="method"),
    pytest.param("class Part:\n    @property\n    def inner(self):\n        BLOCK", "inner", id="property"),
    pytest.param("@functools.cache\ndef inner():\n    BLOCK", "inner", id="standard library"),
    pytest.param("@nh.blocking\ndef inner():\n    BLOCK", "inner", id="of this library"),
    pytest.param("@nh.tool(name='x')\ndef inner():\n    BLOCK", "inner", id="called"),
    pytest.param("def inner():\n    BLOCK\nreturn await nh.parallel.map(inner, xs)", "inner", id="handed on"),
    pytest.param(
        "@natural_function\ndef middle():\n    BLOCK\n    def inner():\n        BLOCK",
        "inner",
        id="in natural",
    ),
    pytest.param("class Part:\n    BLOCK", "Part", id="class"),
]


@pytest.mark.parametrize(("inside", "name"), INERT)
def test_a_block_that_nothing_would_run_is_an_error(tmp_path: Path, inside: str, name: str) -> None:
    with pytest.raises(nh.NaturalParseError) as caught:
        run(tmp_path, inside)
    line = caught.value.line
    assert line is not None
    assert "natural" in (tmp_path / "example.py").read_text().splitlines()[line - 1]
    assert line > (HEAD + OUTER).count("\n") - 2
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'example.py'}:{line}: outer(): the ")
    assert name in message
    assert "@natural_function" in message
    assert "take the line 'natural' away" in message


NATURAL: list[Any] = [
    pytest.param("@nh.natural_function\nasync def inner():\n    BLOCK", id="decorated"),
    pytest.param("@natural_function\ndef inner():\n    BLOCK", id="by another name"),
    pytest.param("@aliased\ndef inner():\n    BLOCK", id="aliased"),
    pytest.param("@checked\ndef inner():\n    BLOCK", id="made earlier"),
    pytest.param("@partially\ndef inner():\n    BLOCK", id="partial"),
    pytest.param("@nh.natural_function(verify=())\ndef inner():\n    BLOCK", id="called"),
    pytest.param("@functools.cache\n@natural_function\ndef inner():\n    BLOCK", id="one of several"),
    pytest.param(
        "from nighthawk_async import natural_function as n\n@n\ndef inner():\n    BLOCK", id="local"
    ),
    pytest.param("local = aliased\n@local\ndef inner():\n    BLOCK", id="a variable"),
    pytest.param("@unsure\ndef inner():\n    BLOCK", id="nobody knows"),
    pytest.param("@[natural_function][0]\ndef inner():\n    BLOCK", id="no name"),
    pytest.param("def inner():\n    BLOCK\nreturn nh.natural_function(inner)", id="a call"),
    pytest.param("def inner():\n    BLOCK\ninner = natural_function(verify=())(inner)", id="a call of it"),
    pytest.param("def inner():\n    BLOCK\nunsure(inner)", id="handed to nobody knows whom"),
    pytest.param("class Part:\n    @natural_function\n    def inner(self):\n        BLOCK", id="method"),
    pytest.param("def inner():\n    'natural enough'\nreturn inner()", id="no block"),
]


@pytest.mark.parametrize("inside", NATURAL)
def test_a_nested_function_that_is_or_may_be_natural_is_none(tmp_path: Path, inside: str) -> None:
    run(tmp_path, inside)


def test_a_function_whose_only_block_is_in_a_nested_one_is_told_of_it(tmp_path: Path) -> None:
    outer = "@nh.natural_function\nasync def outer(xs):\n{inside}\n"
    with pytest.raises(
        nh.NaturalParseError, match=r"outer\(\) has no natural block.*is that of inner"
    ) as caught:
        run(tmp_path, "def inner():\n    BLOCK", outer=outer)
    assert "nearest to the function" in str(caught.value)


@pytest.mark.parametrize("decorator", ["nh.natural_function", "natural"])
def test_the_closure_of_a_function_is_looked_into(tmp_path: Path, decorator: str) -> None:
    outer = (
        "def make(natural):\n    @natural\n    def outer(xs):\n        'natural\\nLook.'\n"
        f"        @{decorator}\n        def inner():\n            'natural\\nLook.'\n        return inner\n"
        "    return outer\nmake(natural_function)\n"
    )
    run(tmp_path, "", outer=outer)
