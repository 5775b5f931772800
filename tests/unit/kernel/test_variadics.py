"""Types of variadic parameters, and of tuples with an unpacked tuple inside."""

import typing
from collections.abc import Callable
from typing import Any, NotRequired, TypeVarTuple, Unpack

import pytest
import typing_extensions
from typing_extensions import TypedDict

import nighthawk_async as nh
from nighthawk_async.signatures import names_in_texts
from nighthawk_async.testing import ScriptedExecutor, pass_response
from nighthawk_async.values.validation import type_name, type_of_items, validate_value, with_unpacked

Several = TypeVarTuple("Several")


class Options(TypedDict):
    name: str
    count: NotRequired[int]


class Loose(TypedDict, total=False):
    name: str


class Open(TypedDict):
    __pydantic_config__ = {"extra": "allow"}  # type: ignore[misc]  # noqa: RUF012

    name: str


def fixed(*values: *tuple[int, str]) -> None: ...
def fixed_by_name(*values: Unpack[tuple[int, str]]) -> None: ...  # noqa: UP044
def fixed_by_extension(*values: typing_extensions.Unpack[tuple[int, str]]) -> None: ...  # noqa: UP044
def nested(*values: *tuple[int, *tuple[str, ...]]) -> None: ...
def deep(*values: Unpack[tuple[int, Unpack[tuple[str, Unpack[tuple[bool, ...]]]]]]) -> None: ...  # noqa: UP044
def last(*values: *tuple[*tuple[int, ...], str]) -> None: ...
def any_number(*values: *tuple[int, ...]) -> None: ...
def generic(*values: *Several) -> None: ...
def plain(*values: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "good", "bad", "name"),
    [
        (fixed, (1, "a"), [(None, 5, 6), (1,), (1, "a", "b"), (1, 2)], "tuple[int, str]"),
        (fixed_by_name, (1, "a"), [(None, "a"), ()], "tuple[int, str]"),
        (fixed_by_extension, (1, "a"), [(None, "a"), ()], "tuple[int, str]"),
        (nested, (1, "a", "b"), [(), ("x",), (1, 2)], "tuple[int, *tuple[str, ...]]"),
        (deep, (1, "a", True, False), [(1,), (1, "a", "b")], "tuple[int, str, *tuple[bool, ...]]"),
        (last, (1, 2, "a"), [(1, 2), ()], "tuple[*tuple[int, ...], str]"),
        (any_number, (1, 2), [("x",)], "tuple[int, ...]"),
        (generic, (1, "a"), [5], "tuple[Any, ...]"),
        (plain, (1, 2), [("x",)], "tuple[int, ...]"),
    ],
)
def test_positional_arguments_are_of_the_unpacked_types(
    function: Callable[..., None], good: tuple[object, ...], bad: list[object], name: str
) -> None:
    annotation = type_of_items(function.__annotations__["values"], "positional")
    assert type_name(annotation) == name
    assert validate_value(good, annotation, subject="it") is good
    for value in bad:
        with pytest.raises(nh.ToolValidationError):
            validate_value(value, annotation, subject="it")


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (
            Unpack[Options],
            [{"name": "a"}, {"name": "a", "count": 1}],
            [{}, {"name": 1}, {"name": "a", "count": "x"}, {"name": "a", "other": 1}],
        ),
        (typing_extensions.Unpack[Loose], [{}, {"name": "a"}], [{"name": 1}, {"more": 1}]),
        (Unpack[Open], [{"name": "a", "other": 1}], [{"other": 1}]),
        (int, [{}, {"a": 1}], [{"a": "x"}]),
    ],
)
def test_keyword_arguments_are_those_of_the_unpacked_dictionary(
    annotation: Any, good: list[object], bad: list[object]
) -> None:
    whole = type_of_items(annotation, "keyword")
    for value in good:
        assert validate_value(value, whole, subject="it") is value
    for value in bad:
        with pytest.raises(nh.ToolValidationError):
            validate_value(value, whole, subject="it")


def test_an_unpacked_dictionary_is_named_by_its_class() -> None:
    assert type_name(type_of_items(Unpack[Options], "keyword")) == "Options"


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        (list[tuple[int, *tuple[str, ...]]], [(1, "a"), (2,)], [("a",)]),
        (tuple[int, *tuple[str, ...]] | None, (1, "a", "b"), ("a",)),
        (typing.Optional[tuple[int, *tuple[str]]], (1, "a"), (1,)),  # noqa: UP045
        (typing.Annotated[tuple[int, *tuple[str]], "note"], (1, "a"), (1,)),
        (typing.Dict[str, tuple[int, *tuple[str]]], {"a": (1, "a")}, {"a": (1,)}),  # noqa: UP006
    ],
)
def test_unpacked_tuples_are_known_inside_of_other_types(annotation: Any, good: object, bad: object) -> None:
    annotation = with_unpacked(annotation)
    assert validate_value(good, annotation, subject="it") is good
    with pytest.raises(nh.ToolValidationError):
        validate_value(bad, annotation, subject="it")


@pytest.mark.parametrize(
    "annotation", [int, list[int], int | None, typing.Literal["a"], Callable[[int], str]]
)
def test_other_types_stay_what_they_are(annotation: Any) -> None:
    assert with_unpacked(annotation) is annotation


def test_names_are_found_in_the_text_of_an_unpacked_type() -> None:
    assert set(names_in_texts("*tuple[Item, ...]")) == {"tuple", "Item"}


@nh.natural_function
async def collect(*values: *tuple[int, str], **options: Unpack[Options]) -> object:
    """natural
    Set <:values> and <:options>.
    """
    return values, options


@nh.natural_function
async def collect_by_text(*values: "*tuple[int, str]", **options: "Unpack[Options]") -> object:  # noqa: F722
    """natural
    Set <:values> and <:options>.
    """
    return values, options


@pytest.mark.anyio
@pytest.mark.parametrize("function", [collect, collect_by_text])
async def test_7_write_bindings_of_variadic_parameters_match_the_unpacked_types(function: Any) -> None:
    good = pass_response(values=("1", "a"), options={"name": "b"})
    bad = [
        pass_response(values=(None, 5, 6), options={"name": "b"}),
        pass_response(values=(1, "a"), options={"name": 5}),
        pass_response(values=(1, "a"), options={}),
    ]
    async with nh.run(ScriptedExecutor([good, *bad])):
        assert await function(2, "c", name="d") == ((1, "a"), {"name": "b"})
        for message in (r"'values' must be tuple\[int, str\]", "'options' must be Options", "at name"):
            with pytest.raises(nh.ExecutionError, match=message):
                await function(2, "c", name="d")
