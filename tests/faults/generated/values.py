"""Arguments that look alike: equal in JSON, by type or by name, and still others to who gets them."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from .programs import Value


@dataclass
class Order:
    """A dataclass."""

    customer: object


@dataclass
class Invoice:
    """Another dataclass, with the same fields."""

    customer: object


class Row:
    """An object of an ordinary class, such as a row of an ORM."""

    def __init__(self, customer: str) -> None:
        self.customer = customer

    def name(self) -> str:
        """A method to hand on."""
        return self.customer


class Session:
    """An object that says nothing of what it is; the program has registered that."""

    def __init__(self, customer: str) -> None:
        self._customer = customer


class Connection:
    """An object of which nobody knows what it is."""

    def __init__(self, customer: str) -> None:
        self._customer = customer


class Loose(BaseModel):
    """A model with extra fields."""

    model_config = ConfigDict(extra="allow")


class Hidden(BaseModel):
    """A model with a private attribute."""

    _customer: str = PrivateAttr()


def _hidden(word: str) -> Hidden:
    model = Hidden()
    model._customer = word
    return model


def _closure(word: str) -> Callable[[], str]:
    def customer() -> str:
        return word

    return customer


def _number(word: str) -> int:
    return sum(map(ord, word))


_DAY = datetime(2026, 1, 1)

MAKERS: Mapping[str, Callable[[str], Any]] = {
    "text": lambda word: word,
    "bytes": lambda word: word.encode(),
    "list": lambda word: [word],
    "tuple": lambda word: (word,),
    "order": Order,
    "invoice": Invoice,
    "number": _number,
    "number as text": lambda word: str(_number(word)),
    "decimal": lambda word: Decimal(_number(word)),
    "time": lambda word: _DAY + timedelta(seconds=_number(word)),
    "time as text": lambda word: (_DAY + timedelta(seconds=_number(word))).isoformat(),
    "none": lambda word: None,
    "infinite": lambda word: float("inf"),
    "negative": lambda word: float("-inf"),
    "extra": lambda word: Loose(**{"customer": word}),
    "private": _hidden,
    "row": Row,
    "closure": _closure,
    "method": lambda word: Row(word).name,
    "partial": lambda word: functools.partial(Row, word),
}
"""Makes a value of each kind out of a word. What the truth about it is, `Value.truth` says."""

_OF_CONTROLS: Mapping[str, Callable[[str], Any]] = {"session": Session, "connection": Connection}

CONSTANT_KINDS = frozenset({"none", "infinite", "negative"})
"""Kinds whose values are the same with each word."""


def make_value(value: Value) -> Any:
    """Make the object that a program hands to a call."""
    return (MAKERS.get(value.kind) or _OF_CONTROLS[value.kind])(value.word)


def truth_of(made: object) -> str:
    """What an object really is, as the outside sees it; the same text as `Value.truth`."""
    match made:
        case None:
            return "none"
        case float():
            return "infinite" if made > 0 else "negative"
        case bool() | int():
            return f"number {made}"
        case str():
            return f"text {made}"
        case bytes():
            return f"bytes {made.decode()}"
        case list() | tuple():
            return f"{type(made).__name__} {made[0]}"
        case Decimal():
            return f"decimal {made}"
        case datetime():
            return f"time {made.isoformat()}"
        case Order() | Invoice():
            return f"{type(made).__name__.lower()} {made.customer}"
        case Loose():
            return f"extra {made.model_extra and made.model_extra['customer']}"
        case Hidden():
            return f"private {made._customer}"
        case Session() | Connection():
            return f"{type(made).__name__.lower()} {made._customer}"
        case Row():
            return f"row {made.customer}"
        case functools.partial():
            return f"partial {made.args[0]}"
    if callable(made):
        return f"{'method' if hasattr(made, '__self__') else 'closure'} {made()}"
    raise TypeError(f"nobody knows what {made!r} is")
