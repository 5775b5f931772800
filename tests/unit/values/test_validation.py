"""Values against types."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, LiteralString, Never, NoReturn, Protocol, Self, runtime_checkable

import pytest
from pydantic import BaseModel, Field, PydanticUserError

import nighthawk_async as nh
from nighthawk_async.values.error_text import describe_error
from nighthawk_async.values.plain_data import data_schemas
from nighthawk_async.values.validation import (
    can_validate,
    check_type,
    type_adapter,
    type_name,
    validate_value,
)


class Point(BaseModel):
    a: int
    b: int
    c: int
    d: int
    e: int
    f: int
    g: int


class Other(BaseModel):
    a: int


class Plain:
    pass


@runtime_checkable
class Checkable(Protocol):
    def close(self) -> None: ...


class Uncheckable(Protocol):
    def close(self) -> None: ...


@dataclass
class Unfinished:
    part: "Nowhere"  # type: ignore[name-defined]


def test_the_same_type_has_one_adapter() -> None:
    assert type_adapter(list[int]) is type_adapter(list[int])


def test_a_type_that_is_not_hashable_has_an_adapter_too() -> None:
    annotation: Any = Annotated[int, {}]
    assert type_adapter(annotation).validate_python("3") == 3
    assert validate_value("3", annotation, subject="it") == 3


def test_a_model_brings_its_own_configuration() -> None:
    assert type_adapter(Point).validate_python(dict.fromkeys("abcdefg", 1)).a == 1


def test_a_type_that_pydantic_refuses_is_refused_with_its_error() -> None:
    with pytest.raises(PydanticUserError):
        type_adapter(Annotated[Point | Other, Field(discriminator="a")])


def test_schemas_are_made_once() -> None:
    assert data_schemas((list[int], Other)) is data_schemas((list[int], Other))
    together = data_schemas((list[int], Other))
    assert together.schemas == ({"items": {"type": "integer"}, "type": "array"}, {"$ref": "#/$defs/Other"})
    assert together.definitions.keys() == {"Other"}
    with pytest.raises(PydanticUserError):
        data_schemas((Plain,))


@pytest.mark.parametrize("annotation", [object, Any])
def test_some_types_accept_everything(annotation: object) -> None:
    value = object()
    assert validate_value(value, annotation, subject="it") is value


@pytest.mark.parametrize("annotation", [NoReturn, Never])
def test_some_types_accept_nothing(annotation: Any) -> None:
    check_type(annotation, subject="it")
    with pytest.raises(nh.ToolValidationError, match=r"it must be (NoReturn|Never): no value is one"):
        validate_value(None, annotation, subject="it")


@pytest.mark.parametrize(
    "annotation",
    [None, Callable[[int], str], type[int], Iterator[int], Awaitable[int], LiteralString, Checkable, Self],
)
def test_these_types_can_be_validated(annotation: Any) -> None:
    check_type(annotation, subject="it")


def test_a_protocol_that_cannot_be_checked_is_refused_with_the_reason() -> None:
    with pytest.raises(
        nh.errors.AnnotationError, match=r"Uncheckable, which cannot be validated: .*isinstance"
    ):
        check_type(Uncheckable, subject="it")


def test_a_value_of_exactly_the_type_keeps_its_identity() -> None:
    for value in ([1], {"a": 1}, Plain(), 5):
        assert validate_value(value, type(value), subject="it") is value


def test_an_instance_is_required_of_a_plain_class() -> None:
    with pytest.raises(nh.ToolValidationError, match="it must be Plain"):
        validate_value(5, Plain, subject="it")


def test_an_annotation_that_cannot_be_validated_is_named() -> None:
    with pytest.raises(
        nh.errors.AnnotationError, match=r"it has the type Unfinished, which cannot be validated: .*Nowhere"
    ):
        validate_value({"part": 1}, Unfinished, subject="it")
    assert not can_validate(Unfinished)
    assert can_validate(Plain)


def test_a_coroutine_in_place_of_its_result_is_said_to_be_not_awaited() -> None:
    async def rate() -> int:
        raise AssertionError("nothing runs")

    pending = rate()
    with pytest.raises(nh.ToolValidationError) as caught:
        validate_value([1, pending, "x"], list[int], subject="it")
    pending.close()
    assert str(caught.value).startswith(
        "it must be list[int]: at 1: the call of rate was not awaited, so nothing of it ran; "
        "write await before it; at 2: Input should be"
    )


def test_all_problems_are_told_on_one_line_without_the_values() -> None:
    with pytest.raises(nh.ToolValidationError) as caught:
        validate_value(dict.fromkeys("abcdefg", "secret"), Point, subject="it")
    message = str(caught.value)
    assert message.startswith("it must be Point: at a: Input should be a valid integer")
    assert [message.count(f"at {name}: ") for name in "abcdefg"] == [1] * 7
    assert " more" not in message
    assert "secret" not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("annotation", "name"),
    [(int, "int"), (list[int], "list[int]"), (int | None, "int | None"), (Any, "Any"), (None, "None")],
)
def test_types_are_named_as_a_person_would_write_them(annotation: object, name: str) -> None:
    assert type_name(annotation) == name


def test_an_error_without_a_message_is_its_type() -> None:
    assert describe_error(KeyError()) == "KeyError"
    assert describe_error(ValueError("a: ")) == "ValueError: a"
