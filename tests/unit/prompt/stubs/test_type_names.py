"""How types are written: by the names that the expressions of a block can use."""

import collections.abc
import datetime as dt
import decimal
import sys
import types
from typing import Annotated, Any, ClassVar, Literal, NewType

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from nighthawk_async.prompt.stubs import TypeNames, described_type, stub_of, written_type

UserId = NewType("UserId", int)
Alias = TypeAliasType("Alias", list[int])


class Customer(BaseModel):
    name: str

    class Kind(BaseModel):
        vip: bool


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError("user code ran")

    def __eq__(cls, other: object) -> bool:
        raise AssertionError("user code ran")

    __hash__ = type.__hash__


class Guarded(metaclass=Meta):
    calls: ClassVar[int] = 0


def module(name: str, **members: object) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


models = module("models", Customer=Customer)
package = module("tests", unit=module("tests.unit", Customer=Customer), Customer=Customer)


@pytest.mark.parametrize(
    ("scopes", "written"),
    [
        pytest.param([{"Customer": Customer}], "Customer", id="its own name"),
        pytest.param([{}, {"Customer": Customer}], "Customer", id="that of a global"),
        pytest.param([{"Client": Customer}], "Client", id="another name"),
        pytest.param([{"Clients": Customer, "Client": Customer}], "Client", id="the shortest"),
        pytest.param([{"A": Customer}, {"Customer": Customer}], "Customer", id="its own before another"),
        pytest.param([{"Customer": 3}, {"Customer": Customer}], "Customer2", id="hidden by a value"),
        pytest.param([{"Customer": 3, "C": Customer}, {"Customer": Customer}], "C", id="hidden, but not all"),
        pytest.param([{"models": models}], "models.Customer", id="a module"),
        pytest.param([{"m": models, "models": models}], "m.Customer", id="the shortest module"),
        pytest.param([{"package": package}], "package.Customer", id="a module that has it too"),
        pytest.param([{"models": models, "C": Customer}], "C", id="a name before a module"),
        pytest.param([{"int": Customer}], "int", id="a name of a builtin"),
        pytest.param([{"Customer": models}], "Customer.Customer", id="a module of its name"),
        pytest.param([], "Customer", id="out of reach"),
    ],
)
def test_a_class_is_written_by_the_nearest_name(scopes: list[dict[str, object]], written: str) -> None:
    if written == "Customer2":
        written = "Customer"  # a number tells it from types alone
    assert written_type(list[Customer], TypeNames(*scopes)) == f"list[{written}]"


def test_a_class_inside_of_another_is_written_with_it() -> None:
    assert written_type(Customer.Kind, TypeNames({"Customer": Customer})) == "Customer.Kind"
    assert written_type(Customer.Kind, TypeNames({"models": models})) == "models.Customer.Kind"
    assert written_type(Customer.Kind, TypeNames({"Kind": Customer.Kind})) == "Kind"
    assert written_type(Customer.Kind, TypeNames()) == "Kind"


def test_the_path_of_a_package_is_followed() -> None:
    name = Customer.__module__
    inner: types.ModuleType = module(name, Customer=Customer)
    for part in reversed(name.split(".")[1:]):
        parent = name[: name.index(f".{part}")]
        inner = module(parent, **{part: inner})
    root = name.partition(".")[0]
    assert written_type(Customer, TypeNames({root: inner})) == f"{name}.Customer"


def test_a_class_out_of_reach_does_not_take_the_name_of_another() -> None:
    other = type("Customer", (BaseModel,), {"__module__": __name__})
    names = TypeNames({"Customer": Customer})
    assert written_type(other, names) == "Customer2"
    assert written_type(Customer, names) == "Customer"
    both = TypeNames()
    assert [written_type(each, both) for each in (Customer, other, Customer)] == [
        "Customer",
        "Customer2",
        "Customer",
    ]


def test_aliases_and_new_types_are_written_by_their_names() -> None:
    names = TypeNames({"UserId": UserId, "Numbers": Alias})
    assert written_type(dict[UserId, Alias], names) == "dict[UserId, Numbers]"


def test_types_of_the_standard_library_are_written_as_they_can_be_used() -> None:
    assert written_type(dt.date, TypeNames({"dt": dt})) == "dt.date"
    assert written_type(dt.date, TypeNames({"date": dt.date, "dt": dt})) == "date"
    assert written_type(decimal.Decimal | None) == "Decimal | None"
    assert written_type(collections.abc.Mapping[str, dt.date]) == "Mapping[str, date]"


def test_a_class_out_of_reach_is_said_to_be_given_as_data() -> None:
    assert stub_of(Customer, TypeNames()) == "class Customer:  # give as data\n    name: str"


def test_names_in_texts_are_written_anew() -> None:
    namespace = {"models": models, "Customer": Customer, "Literal": Literal}
    names = TypeNames({"C": Customer})
    assert written_type("models.Customer | None", names, namespace) == "C | None"
    assert written_type("dict[str, list[Customer]]", names, namespace) == "dict[str, list[C]]"
    assert written_type("Missing[Customer.Missing]", names, namespace) == "Missing[Customer.Missing]"
    assert written_type("Literal['Customer', 3]", names, namespace) == "Literal['Customer', 3]"


def test_metadata_in_texts_is_left_out() -> None:
    text = "list[Annotated[int, Field(description='how, many')]] | Annotated[str, 3]"
    assert written_type(text) == "list[int] | str"
    assert written_type("t.Annotated[Customer, Field()]", TypeNames(), {}) == "Customer"
    assert written_type("Annotated[") == "Annotated["


def test_no_code_of_a_metaclass_runs() -> None:
    names = TypeNames({"Guarded": Guarded})
    assert written_type(list[Guarded], names) == "list[Guarded]"
    assert stub_of(Guarded, names) == "class Guarded: ..."
    assert written_type(Guarded, TypeNames({"other": 3})) == "Guarded"


def test_constraints_stand_behind_a_described_type() -> None:
    names = TypeNames({"Customer": Customer})
    share = Annotated[float, Field(ge=0, le=1)]
    assert described_type(share, names) == "float (>= 0, <= 1)"
    assert described_type(share, names) == "float (>= 0, <= 1)"
    assert described_type(dict[str, share], names) == "dict[str, float] (float: >= 0, <= 1)"
    assert described_type(Annotated[Customer, {}], names) == "Customer"
    assert described_type(list[Customer], TypeNames({"C": Customer})) == "list[C]"
    assert described_type(list[Customer], names) == "list[Customer]"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with 3.12")
def test_generic_classes_of_the_new_syntax_have_their_parameters() -> None:
    namespace: dict[str, Any] = {"__name__": __name__}
    exec("from dataclasses import dataclass\n@dataclass\nclass Box[T]:\n    content: T", namespace)
    assert stub_of(namespace["Box"][int], TypeNames(namespace)) == "class Box[T]:\n    content: T"
