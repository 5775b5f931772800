from types import MappingProxyType

import msgspec
import pytest

from nighthawk_async.errors import ConfigurationError
from nighthawk_async.wire.json_text import arguments_object, request_json, valid_arguments


def test_entries_keep_their_order_and_mappings_of_every_kind_are_objects() -> None:
    assert request_json({"b": MappingProxyType({"d": 1, "c": (2,)}), "a": None}) == (
        b'{"b":{"d":1,"c":[2]},"a":null}'
    )


def test_lone_surrogates_are_replaced_in_keys_and_values() -> None:
    assert request_json({"a\ud800": ["\udfff 🙂"]}) == '{"a\ufffd":["\ufffd 🙂"]}'.encode()


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not JSON"):
        request_json({"a": object()})


def test_arguments_go_back_byte_for_byte() -> None:
    text = '{ "a" : 1.0, "a": "\\u00e9 é" }'
    assert request_json({"input": arguments_object(text)}) == f'{{"input":{text}}}'.encode()


@pytest.mark.parametrize("text", ['{"a":', "nonsense", "[1]", '"a"', "", "[" * 5_000, '{"a": NaN}', "\ud800"])
def test_arguments_that_are_no_object_are_wrapped(text: str) -> None:
    (sent,) = msgspec.json.decode(request_json({"input": arguments_object(text)})).values()
    assert sent == {"malformed_arguments": text.replace("\ud800", "\ufffd")}


def test_arguments_as_a_text_are_the_models_own_or_wrapped() -> None:
    assert valid_arguments('{ "a" : 1.0 }') == '{ "a" : 1.0 }'
    assert valid_arguments('{"a":') == '{"malformed_arguments":"{\\"a\\":"}'
