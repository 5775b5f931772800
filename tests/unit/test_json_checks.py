from collections import OrderedDict, deque
from types import MappingProxyType

import pytest

from nighthawk_async.causes import without
from nighthawk_async.types.json import (
    is_json_list,
    is_json_mapping,
    is_json_object,
    is_list_of_texts,
    is_list_or_tuple,
    is_number,
    is_sequence,
    is_text,
    is_whole_number,
)


@pytest.mark.parametrize("value", [{}, {"a": 1}, OrderedDict(a=1)])
def test_a_dictionary_is_an_object_and_a_mapping(value: object) -> None:
    assert is_json_object(value)
    assert is_json_mapping(value)


def test_a_mapping_of_another_class_is_no_object() -> None:
    value = MappingProxyType({"a": 1})
    assert is_json_mapping(value)
    assert not is_json_object(value)


@pytest.mark.parametrize("value", [None, "text", 1, [], ()])
def test_what_is_no_mapping_is_neither(value: object) -> None:
    assert not is_json_object(value)
    assert not is_json_mapping(value)


def test_a_tuple_is_listed_but_no_list() -> None:
    assert is_list_or_tuple((1,))
    assert is_list_or_tuple([1])
    assert is_json_list([1])
    assert not is_json_list((1,))
    assert not is_list_or_tuple(deque([1]))
    assert not is_list_or_tuple("text")


def test_a_text_is_a_sequence_but_no_list_of_texts() -> None:
    assert is_sequence("text")
    assert not is_list_of_texts("text")
    assert is_list_of_texts(["a", "b"])
    assert is_list_of_texts(())
    assert not is_list_of_texts(["a", 1])


def test_booleans_are_no_numbers() -> None:
    assert is_number(1.5)
    assert is_whole_number(1)
    assert not is_whole_number(1.0)
    assert not is_number(True)
    assert not is_whole_number(True)
    assert not is_text(b"text")


def test_an_error_without_those_of_a_class_is_the_rest_of_its_group() -> None:
    kept = ValueError("kept")
    rest = without(ExceptionGroup("both", [kept, KeyError("left out")]), KeyError)
    assert isinstance(rest, ExceptionGroup)
    assert rest.exceptions == (kept,)
    assert without(kept, KeyError) is kept
    assert without(KeyError(), KeyError) is None
    assert without(ExceptionGroup("one", [KeyError()]), KeyError) is None
