"""What an approval is bound to: the same for the same data in every process, different for different data."""

import datetime
import decimal
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from types import MappingProxyType

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

from nighthawk_async.policies.people.digest import digest_action
from nighthawk_async.policies.people.errors import UndigestibleArgumentError


class Colour(Enum):
    RED = "red"


class Address(BaseModel):
    model_config = ConfigDict(extra="allow")

    street: str
    note: str = Field(default="", exclude=True)
    lines: set[str] = set()

    @field_serializer("street")
    def hide(self, street: str) -> str:
        return "…"


@dataclass
class Order:
    goods: list[str]
    secret_note: str = field(default="", repr=False)


def digest(value: object) -> str:
    return digest_action("act", {"value": value}).digest


def test_the_digest_is_sha256_of_the_canonical_json() -> None:
    """Computed by hand, so that it stays what it is: approvals may outlive the process."""
    digested = digest_action("send", {"to": ["bob"], "body": "ä"})
    assert digested.digest == "9094a6c265542d49922d09c7a9107ef1fcfab083972a7934f6039a644b58fdbd"


def test_the_order_of_names_and_of_items_of_sets_does_not_matter() -> None:
    assert digest_action("act", {"a": 1, "b": 2}) == digest_action("act", {"b": 2, "a": 1})
    names = [f"name {number}" for number in range(50)]
    assert digest(set(names)) == digest(frozenset(reversed(names)))
    assert digest({"a": 1, "b": 2}) == digest(MappingProxyType({"b": 2, "a": 1}))


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_digest_of_a_set_is_the_same_in_a_process_that_hashes_differently(seed: str) -> None:
    program = (
        "from nighthawk_async.policies.people.digest import digest_action\n"
        "print(digest_action('act', {'value': {'a', 'b', 'c', 'd', 'e'}}).digest)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout.strip() == digest({"a", "b", "c", "d", "e"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(1, "1", id="a number and its text"),
        pytest.param(1, True, id="one and true"),
        pytest.param(1, 1.0, id="a whole number and a float"),
        pytest.param({1: "a"}, {"1": "a"}, id="a key that is a number and one that is a text"),
        pytest.param([1, 2], [2, 1], id="the order of a list"),
        pytest.param(None, "null", id="nothing and its text"),
        pytest.param(None, {}, id="nothing and an empty mapping"),
        pytest.param("a\u0301", "\u00e1", id="texts that look alike"),
        pytest.param(float("nan"), "NaN", id="not a number and its text"),
        pytest.param(b"a", b"b", id="bytes"),
        pytest.param(
            Address(street="a"), Address(street="b"), id="a field that its serializer makes the same"
        ),
        pytest.param(Address(street="a"), Address(street="a", note="b"), id="a field left out of dumps"),
        pytest.param(
            Address(street="a"), Address.model_validate({"street": "a", "x": 1}), id="an extra field"
        ),
        pytest.param(Order(goods=[]), Order(goods=[], secret_note="x"), id="a field of a dataclass"),
        pytest.param(
            datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2026, 1, 1), id="time zones"
        ),
    ],
)
def test_different_data_has_different_digests(one: object, other: object) -> None:
    assert digest(one) != digest(other)


def test_the_action_and_the_names_of_arguments_count() -> None:
    digests = {digest_action(action, {name: 1}).digest for action in ("send", "sen") for name in ("d", "to")}
    assert len(digests) == 4


def test_a_value_that_was_changed_in_place_has_another_digest() -> None:
    recipients = ["bob"]
    before = digest_action("send", {"to": recipients})
    recipients.append("eve")
    assert before.arguments == {"to": ["bob"]}
    assert digest_action("send", {"to": recipients}).digest != before.digest


def test_people_see_exactly_the_data_that_is_digested() -> None:
    address = Address.model_validate({"street": "Elm", "note": "n", "lines": {"b", "a"}, "more": (1, 2)})
    seen = digest_action(
        "move",
        {
            "address": address,
            "order": Order(goods=["tea"]),
            "colour": Colour.RED,
            "amounts": {1: decimal.Decimal("1.50")},
            "path": PurePosixPath("/tmp/a"),
            "day": datetime.date(2026, 1, 2),
            "data": b"\xff",
            "queue": deque([None]),
        },
    ).arguments
    assert seen == {
        "address": {"street": "Elm", "note": "n", "lines": ["a", "b"], "more": [1, 2]},
        "order": {"goods": ["tea"], "secret_note": ""},
        "colour": "red",
        "amounts": [[1, "1.50"]],
        "path": "/tmp/a",
        "day": "2026-01-02",
        "data": "_w==",
        "queue": [None],
    }


def _endless() -> list[object]:
    items: list[object] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("value", "place"),
    [
        pytest.param(object(), "value", id="a plain object"),
        pytest.param({"to": [print]}, r"value\['to'\]\[0\]", id="a function deep inside"),
        pytest.param((each for each in "abc"), "value", id="a generator"),
        pytest.param(
            Address(street="a").model_copy(update={"street": object()}), r"value\.street", id="a field"
        ),
        pytest.param(SecretStr("x"), "value is a secret", id="a secret"),
        pytest.param(_endless(), "value is nested too deeply", id="a list that contains itself"),
        pytest.param(10**5000, "too large", id="a number too large to be written"),
    ],
)
def test_an_argument_without_a_stable_json_form_is_named(value: object, place: str) -> None:
    with pytest.raises(UndigestibleArgumentError, match=place):
        digest(value)


def test_a_generator_is_refused_untouched() -> None:
    items = (each for each in "abc")
    with pytest.raises(UndigestibleArgumentError):
        digest(items)
    assert list(items) == ["a", "b", "c"]
