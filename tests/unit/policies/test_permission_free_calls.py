"""Every builtin of Python, and whether code calls it without permission."""

import builtins
import collections
import inspect
import types
from typing import Any

import pytest

from nighthawk_async.policies.permissions.free_calls import is_data_callable
from tests.cases import every

_COMPUTING = """
abs aiter all anext any ascii bin bool bytearray bytes callable chr classmethod complex delattr dict
dir divmod enumerate filter float format frozenset getattr globals hasattr hash hex id int
isinstance issubclass iter len list locals map max memoryview min next object oct ord pow print
property range repr reversed round set setattr slice sorted staticmethod str sum super tuple type
vars zip
"""
"""They run special methods of what they are given, and call what is given to be called once it is admitted.

`print` asks for `file.write`, `setattr` and `type` put values where others find them; see the tests of ways
around permissions.
"""

_REACHING = "__build_class__ __import__ breakpoint compile eval exec input open"
"""They load or run code, or reach files and people."""

_OF_SITE = "copyright credits exit help license quit"
"""What `site` adds: objects of other modules."""

COMPUTING, REACHING, OF_SITE = (frozenset(names.split()) for names in (_COMPUTING, _REACHING, _OF_SITE))


@every("name", [name for name in dir(builtins) if callable(getattr(builtins, name))])
def test_every_builtin_is_known_and_free_only_when_it_computes(name: str) -> None:
    builtin: Any = getattr(builtins, name)
    if name == "__loader__" or name not in {*COMPUTING, *REACHING, *OF_SITE}:
        is_error = inspect.isclass(builtin) and issubclass(builtin, BaseException)
        assert is_data_callable(builtin) == is_error, f"decide about {name}, new in this Python"
    else:
        assert is_data_callable(builtin) == (name in COMPUTING)


def test_a_builtin_that_is_not_listed_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_data_callable(types.MappingProxyType)
    monkeypatch.setattr(builtins, "mappingproxy", types.MappingProxyType, raising=False)
    assert not is_data_callable(types.MappingProxyType)


@pytest.mark.parametrize(
    "function",
    [
        types.FunctionType,
        types.CodeType,
        collections.UserDict,
        collections.UserList().append,
        collections.UserString("a").upper,
        collections.ChainMap().clear,
        type("Text", (dict,), {}).fromkeys,
        type("Raw", (bytes,), {}).fromhex,
        type("Number", (int,), {}).from_bytes,
    ],
)
def test_what_calls_methods_of_what_it_holds_or_makes_objects_of_a_class_of_the_program_is_not_free(
    function: object,
) -> None:
    assert not is_data_callable(function)
