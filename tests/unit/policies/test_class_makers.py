"""Code of a model makes no classes by calls, and writes no texts that are evaluated later.

A text in an annotation is evaluated where types are looked up: by the next step that shows the function, or
by an assignment to a field. A generic model evaluates the texts in its items.
"""

import enum
import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, TypeAdapter

import nighthawk_async as nh
from nighthawk_async.configuration import StepExecutorConfiguration
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.values.annotation_texts import without_texts

pytestmark = pytest.mark.anyio

T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    item: T


class Status(enum.Enum):
    """Without members."""


class Color(enum.Enum):
    RED = 1


@dataclass
class Order:
    total: int = 1


def find(total: object = 1) -> object:
    return total


def parse(kind: Any, text: str) -> Any:
    return kind.model_validate_json(text)


orders = [Order(2), Order(1)]
NAMED = (TypeAdapter, functools, operator, make_dataclass)
"""What the blocks name besides."""


@nh.natural_function
async def use() -> None:
    """natural
    Use <Page>, <Status>, <Color>, <Order>, <orders>, <find>, <parse>, <TypeAdapter>, <functools>, <operator>
    and <make_dataclass>.
    """


@nh.natural_function
async def make() -> Any:
    made: Any = None
    """natural
    Set <:made> with <find>.
    """
    return made


@nh.natural_function
async def show(made: Any) -> None:
    """natural
    Use <made>, <functools>, <operator> and <find>.
    """


PASS = tool_call("nh_outcome", kind="pass")


async def results(*codes: str, **options: Any) -> dict[str, Any]:
    """Run cells in one step, and return their results by their code."""
    calls = [tool_call("nh_exec", statements=each) for each in codes]
    model = ScriptedModel([model_response(*calls), model_response(PASS)])
    configuration = StepExecutorConfiguration(max_tool_calls=1_000)
    async with nh.run(nh.AgentStepExecutor.from_model(model, configuration=configuration), **options):
        await use()
    answers = model.requests[-1].messages[-1].results  # type: ignore[union-attr]
    return dict(zip(codes, answers, strict=True))


USES: Mapping[str, str] = {
    "Page[int](item=3).item": "3",
    "Page[list[Order]](item=[Order()]).item[0].total": "1",
    "parse(Page, '{\"item\": 3}').item": "3",
    "TypeAdapter(list[int]).validate_python(['1'])": "[1]",
    "import functools\nfunctools.partial(find, 3)()": "3",
    "from functools import reduce\nreduce(lambda a, b: a + b, [1, 2])": "3",
    "import operator\nsorted([{'a': 2}, {'a': 1}], key=operator.itemgetter('a'))[0]['a']": "1",
    "sum(map(lambda each: each.total, orders))": "3",
    "max(orders, key=lambda each: each.total).total": "2",
    "isinstance(Color.RED, Status), issubclass(Color, Status)": "[false, false]",
    "class Mood(Status):\n  GOOD = 1\nMood.GOOD.value": "1",
    "Color(1).name": "RED",
    "def f(x: list[str], y: 'Order | None' = None) -> 'Order': return x\nf(['a'])": "a",
    "from typing import NamedTuple\nclass Row(NamedTuple):\n  a: int = 1\nRow(2)._replace(a=5).a": "5",
    "from typing import TypedDict\nclass Row(TypedDict):\n  a: int\nRow(a=6)['a']": "6",
    "import collections\ncollections.ChainMap({'a': 7}, {'b': 2})['a']": "7",
    "import string\nstring.Template('$a').substitute({'a': 8})": "8",
    "'{0[first name]} {0[a]:>3}'.format({'first name': 9, 'a': 1})": "9   1",
    "x: dict[str, int] = {}\nx['a'] = 11\nx['a']": "11",
    "rows = [[1, 2], [3, 4]]\n[row[1:] for row in rows][1], rows[-1][0], rows[0][1]": "[4], 3, 2",
}
"""What code has good reasons to write, and its value."""


async def test_what_code_has_good_reasons_to_write_works() -> None:
    given = await results(*USES)
    for code, value in USES.items():
        text = str(given[code].content[0])
        shown = text.replace(" ", "").replace("[[", "[")
        assert '"error":null' in shown or not text.startswith("{"), f"{code}: {text}"
        assert value.replace(" ", "") in shown, f"{code}: {text}"


MADE = {
    "function": "def made(a: {text}) -> {text}: pass",
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass C:\n  a: {text} = 1\nmade = C()",
    "class": "class C:\n  a: {text} = 1\n  def m(self, b: {text}): pass\nmade = C()",
    "method": "class C:\n  def m(self, b: {text}): pass\nmade = C().m",
    "callable": "class C:\n  def __call__(self, b: {text}): pass\nmade = C()",
    "named tuple": "import typing\nclass C(typing.NamedTuple):\n  a: {text} = 1\nmade = C()",
    "typed dictionary": "import typing\nclass C(typing.TypedDict):\n  a: {text}\nmade = C",
    "error": "class C(Exception):\n  a: {text} = 1\nmade = C()",
    "named elsewhere": "class C:\n  s = {text}\n  a: 's' = 1\nmade = C()",
    "computed": "s = {text}\nclass C:\n  a: s = 1\nmade = C()",
    "function that makes it": "import typing\nmade = typing.NamedTuple('C', [('a', {text})])(1)",
}
"""Ways to write a text in an annotation of what goes to the program."""

DENYING: Mapping[str, Any] = {"code": "python", "permissions": nh.permissions(default="deny")}


@pytest.mark.parametrize("options", [{}, DENYING], ids=["shown", "python, all denied"])
async def test_no_text_in_an_annotation_of_code_is_evaluated(tmp_path: Path, options: Any) -> None:
    """Neither in its step, by an assignment to the field, nor by a step that shows the value."""
    for name, code in MADE.items():
        canary = tmp_path / "canary"
        text = repr(f"open({str(canary)!r}, 'w')")
        written = tool_call("nh_exec", statements=code.format(text=text))
        assigned = tool_call("nh_assign", target_path="made.a", expression="2")
        model = ScriptedModel([model_response(written), model_response(assigned), model_response(PASS)])
        async with nh.run(model, **options):
            made = await make()
        assert not canary.exists(), f"{name}, in its step"
        for further in (options, {"code": "none"}):
            model = ScriptedModel([model_response(PASS)])
            try:
                async with nh.run(model, **further):
                    await show(made)
            except nh.errors.ConfigurationError:
                pass  # at `none`, the value cannot be a tool
            assert not canary.exists(), f"{name}, in the next step"


ITEMS: Mapping[str, Callable[[str], str]] = {
    "an item": lambda text: f"Page[{text}]",
    "an item of an item": lambda text: f"Page[list[{text}]]",
    "a loop": lambda text: f"[page[{text}] for page in [Page]]",
    "a function": lambda text: f"operator.getitem(Page, {text})",
    "a format text": lambda text: f"'{{0[' + {text} + ']}}'\n('{{0[' + {text} + ']}}').format(Page)",
    "a chain": lambda text: f"import collections\ncollections.ChainMap(Page)[{text}]",
    "a type adapter": lambda text: f"TypeAdapter({text})",
    "a class from a call": lambda text: (
        f"make_dataclass('X', [('a', {text})], namespace={{'__reduce__': find}})"
    ),
    "an enumeration from a call": lambda text: f"Status('X', {{'A': 1, '__reduce_ex__': {text}}})",
    "an enumeration from a function": lambda text: f"functools.partial(Status, 'X')({{'A': {text}}})",
}


@pytest.mark.parametrize("options", [{}, DENYING], ids=["shown", "python, all denied"])
async def test_no_text_is_evaluated_by_items_and_calls(tmp_path: Path, options: Any) -> None:
    canary = tmp_path / "canary"
    text = repr(f"open({str(canary)!r}, 'w')")
    codes = {name: code(text) for name, code in ITEMS.items()}
    given = await results(*codes.values(), **options)
    for name, code in codes.items():
        assert given[code].is_error, f"{name}: {given[code].content}"
    assert not canary.exists()


def test_texts_in_types() -> None:
    bound = TypeVar("bound", bound="print(1)")  # type: ignore[name-defined]
    for hostile in ("print(1)", list["print(1)"], tuple[int, list["a.b"]], bound, list[bound], "a[0]", "["):  # type: ignore[name-defined,valid-type]
        with pytest.raises(nh.errors.ToolBoundaryError, match="evaluated"):
            without_texts(hostile)
    for plain in (int, list[int], None, int | None, Callable[[int], str], Page[int], 5):
        assert without_texts(plain) is plain
    assert without_texts("Order") is Any
    assert without_texts(list["Order"]) is Any
