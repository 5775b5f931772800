"""A program that names some of what it has in a block, and keeps the rest to itself."""

import dataclasses
import enum
import functools
import json
import os
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pydantic

import nighthawk_async as nh
from nighthawk_async.library import Web, Workspace
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.attacks.grammar import Attack

DONE: list[str] = []


def hidden_effect(to: str = "x") -> str:
    """Not named in the block."""
    DONE.append("hidden_effect")
    return "done"


def shown(x: object = 1) -> object:
    """Return it."""
    return x


@functools.wraps(hidden_effect)
def wrapped(x: object = 1) -> object:
    """Return it, and keep to itself what it wraps."""
    return x if x else hidden_effect()


class Mailer:
    def __init__(self) -> None:
        self.__effect = hidden_effect
        self.sent = 0

    def send(self, to: str) -> str:
        """Count it."""
        self.sent += 1
        return to


class Shop:
    def __init__(self) -> None:
        self.mailer = Mailer()
        self._effect = hidden_effect
        self.os = os

    _secret = staticmethod(hidden_effect)

    def _run(self) -> str:
        return hidden_effect()


class Model(pydantic.BaseModel):
    item: int = 1


T = TypeVar("T")


class Page(pydantic.BaseModel, Generic[T]):
    """A generic model: the texts in its items are evaluated."""

    item: T


class Status(enum.Enum):
    """An enumeration without members: its call makes another one."""


class Meta(type):
    """A class of classes."""


class Color(enum.Enum):
    RED = 1


class Kit:
    """Classes and functions that make classes or evaluate texts."""

    def __init__(self) -> None:
        self.kinds = [Status, Meta]
        self.page, self.meta, self.flag = Page, Meta, enum.Flag
        self.make_dataclass, self.create_model = dataclasses.make_dataclass, pydantic.create_model
        self.adapter, self.new_class = pydantic.TypeAdapter, types.new_class


class Plugin:
    def __init_subclass__(cls) -> None:
        hidden_effect()


@dataclass
class Order:
    item: int = 1

    def __post_init__(self) -> None:
        self._effect = hidden_effect


@functools.cache
def cached(x: object = 1) -> object:
    """Return it."""
    return x


shop, model, order, module = Shop(), Model(), Order(), sys.modules[__name__]
kit = Kit()


@nh.natural_function
async def serve(ws: object, web: object) -> int:
    """natural
    Use <ws>, <web>, <shown>, <wrapped>, <shop>, <Model>, <model>, <Plugin>, <order>, <kit>,
    <Status>, <Page>, <Color> and <cached>. Return a number.
    """


async def tried(attacks: Sequence[Attack], folder: Path, **options: Any) -> list[str]:
    """Try attacks in one step, and return what the model was told after each.

    Args:
        attacks: The attacks.
        folder: The folder of the workspace.
        options: Arguments of the run.
    """
    answers: list[str] = []

    def next_turn(request: nh.models.ModelRequest) -> Any:
        last = request.messages[-1]
        if isinstance(last, nh.models.ToolResultsMessage):
            answers.extend(str(result.content[0]) for result in last.results)
        at = len(answers)
        call = (
            attacks[at].call()
            if at < len(attacks)
            else tool_call("nh_outcome", kind="return", return_value=1)
        )
        return model_response(call)

    many = len(attacks) + 10
    configuration = nh.StepExecutorConfiguration(max_turns=many, max_corrective_turns=many)
    executor = nh.AgentStepExecutor.from_model(model=ScriptedModel(next_turn), configuration=configuration)
    async with nh.run(executor, **options):
        await serve(Workspace(folder), Web())
    return answers


def is_error(answer: str) -> bool:
    """Whether a tool result tells of an error."""
    try:
        return bool(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return False


Try = Callable[[Sequence[Attack]], list[str]]
