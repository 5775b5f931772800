"""The comparison itself: it names what vanished, and only that."""

from enum import Enum
from typing import Annotated, Any, Literal, Required, TypedDict as NewTypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from .sdk_types import differences, skip_if_new, types_in, vanished_fields, words_of


class Mode(Enum):
    AUTO = "AUTO"


class Text(TypedDict, total=False):
    type: Required[Literal["text"]]
    text: str
    tags: list[str]


class Image(TypedDict, total=False):
    type: Required[Literal["image"]]
    url: str


class Body(NewTypedDict, total=False):
    parts: list[Text | Image] | str
    mode: Mode | None
    extra: dict[str, object]


class Answer(BaseModel):
    type: Literal["answer"]
    response_id: str | None = Field(default=None, alias="responseId")


class Shape(msgspec.Struct, rename="camel"):
    type: str
    response_id: str
    gone_since: str


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"parts": "text", "mode": "AUTO", "extra": {"any": 1}}, []),
        ({"parts": [{"type": "text", "text": "a", "tags": ["b"]}, {"type": "image", "url": "c"}]}, []),
        ({"gone": 1}, ["gone"]),
        ({"parts": [{"type": "image", "url": "c"}, {"type": "text", "gone": 1}]}, ["parts[1].gone"]),
        ({"parts": [{"type": "text", "url": "c", "gone": 1}]}, ["parts[0].url", "parts[0].gone"]),
        ({"parts": [{"type": "text", "tags": [1]}]}, ["parts[0].tags[0] is int", "parts[0].tags[0]"]),
        ({"mode": "NONE"}, ["mode = 'NONE'", "mode"]),
        ({"extra": []}, ["extra is list", "extra"]),
    ],
)
def test_what_vanished_is_named(value: Any, found: list[str]) -> None:
    assert differences(value, Annotated[Body, "note"])[: len(found)] == found
    assert bool(differences(value, Body)) is bool(found)


def test_a_field_that_vanished_from_an_answer_is_named_as_on_the_wire() -> None:
    assert vanished_fields(Shape, Answer) == ["Shape.goneSince"]
    assert vanished_fields(Shape, Answer, of_others=["goneSince"]) == []


def test_words_are_those_of_literals_and_enumerations() -> None:
    assert words_of(Mode | Literal["a", "b"] | None) == {"AUTO", "a", "b"}
    assert types_in(Text | Image) == {"image", "text"}


def test_what_is_new_is_reported_and_does_not_fail() -> None:
    with pytest.raises(pytest.skip.Exception, match="sdk has events that the library does not know: b"):
        skip_if_new("sdk", "events", {"a", "b"}, unused={"a"})
    skip_if_new("sdk", "events", {"a"}, unused={"a"})
    with pytest.raises(AssertionError, match="strike these out"):
        skip_if_new("sdk", "events", set(), unused={"a"})
