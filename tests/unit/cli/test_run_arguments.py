"""Arguments of the command line as arguments of a function."""

from typing import Any, NotRequired, Unpack

import pytest
from typing_extensions import TypedDict

from nighthawk_async.cli.run_script import ArgumentError, bind_arguments


class Options(TypedDict):
    name: str
    count: NotRequired[int]


def several(*values: *tuple[int, *tuple[str, ...]], **options: Unpack[Options]) -> None: ...
def two(*values: *tuple[int, str]) -> None: ...
def plain(first: int, *values: int, **options: float) -> None: ...


@pytest.mark.parametrize(
    ("function", "texts", "args", "kwargs"),
    [
        (several, ["1", "2", "3", "--name", "5"], (1, "2", "3"), {"name": "5"}),
        (several, ["1", "--name=a", "--count", "2"], (1,), {"name": "a", "count": 2}),
        (two, ["1", "2"], (1, "2"), {}),
        (plain, ["1"], (1,), {}),
        (plain, ["1", "2", "--ratio", "3"], (1, 2), {"ratio": 3.0}),
    ],
)
def test_each_argument_has_the_type_of_its_place(
    function: Any, texts: list[str], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    bound = bind_arguments(function, texts)
    assert (bound.args, bound.kwargs) == (args, kwargs)


@pytest.mark.parametrize(
    ("function", "texts", "message"),
    [
        (several, ["--name", "a"], r"values are of the type tuple\[int, \*tuple\[str, ...\]\]; 0 are given"),
        (several, ["x", "--name", "a"], "the argument values"),
        (several, ["1"], "options are those of Options: --name is missing"),
        (several, ["1", "--name=a", "--more=b"], "--more is none of them"),
        (several, ["1", "--name=a", "--count=b"], "the argument count"),
        (two, ["1"], r"tuple\[int, str\]; 1 are given"),
        (two, ["1", "2", "3"], r"tuple\[int, str\]; 3 are given"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(function: Any, texts: list[str], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        bind_arguments(function, texts)
