"""Annotations whose names exist later, elsewhere, or for type checkers alone.

Each program is run with `from __future__ import annotations`, and on Python 3.14, which evaluates annotations
when they are read, without it too. This file runs on Pyodide as well (`tests/pyodide`).
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.kernel.tools import GLOBAL_TOOLS
from nighthawk_async.testing import (
    ScriptedExecutor,
    ScriptedModel,
    model_response,
    pass_response,
    return_response,
    tool_call,
)

pytestmark = pytest.mark.anyio

IS_LAZY = sys.version_info >= (3, 14)
PREAMBLE = """
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, Self
import nighthawk_async as nh
from pydantic import BaseModel, Field
if TYPE_CHECKING:
    from decimal import Decimal as Price
"""
LATER = "\nclass Item(BaseModel):\n    name: str\n"

NEEDS_THREADS = pytest.mark.skipif(sys.platform == "emscripten", reason="a journal has a thread")

Load = Callable[[str], ModuleType]


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.skipif(not IS_LAZY, reason="for 3.14"))])
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Load:
    """Import a program from its text."""
    numbers = iter(range(9))

    def load(text: str) -> ModuleType:
        header = "from __future__ import annotations\n" if request.param else ""
        file = tmp_path / f"late_{abs(hash(request.node.name))}_{next(numbers)}.py"
        file.write_text(f"{header}{PREAMBLE}{text}")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        request.addfinalizer(lambda: sys.modules.pop(file.stem))
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(autouse=True)
def _tools_of_one_test() -> Iterator[None]:
    kept = dict(GLOBAL_TOOLS._tools)
    yield
    GLOBAL_TOOLS._tools.clear()
    GLOBAL_TOOLS._tools.update(kept)


async def called(tool: Any, **arguments: Any) -> Any:
    """The result of a tool that a model calls, as the model reads it."""
    name = tool.name if isinstance(tool, nh.runtime.Tool) else getattr(tool, "__name__", "")
    model = ScriptedModel(
        [
            model_response(tool_call(name, **arguments)),
            model_response(tool_call("nh_outcome", kind="pass", bindings={})),
        ]
    )
    async with nh.run(model):
        with nh.scope(tools=[tool]):
            await nh.step("Use the tool.")
    (first, second) = model.requests
    assert name in [each.name for each in first.tools]
    return str(second.messages[-1])


ORDER = """
def order(item: Item) -> str:
    return type(item).__name__ + item.name
"""


def inside(header: str, *texts: str) -> str:
    """Statements in the body of a function or a class."""
    return f"{header}\n{indent(''.join(texts), '    ')}\n"


def made(*texts: str) -> str:
    """A program whose function `order` is made in a function."""
    return inside("def make():", *texts, "\nreturn order") + "order = make()\n"


TOOLS = {
    "a class defined later": ORDER + LATER,
    "a union": ORDER.replace("Item", "Item | None") + LATER,
    "metadata": ORDER.replace("Item", "Annotated[Item, Field(description='What')]") + LATER,
    "a text in it": ORDER.replace("Item", "Annotated['Item', Field(description='What')]") + LATER,
    "a return type for type checkers alone": ORDER.replace("-> str", "-> Price") + LATER,
    "a wrapper": """
def logged(function):
    @wraps(function)
    def call(*args, **keywords):
        return function(*args, **keywords)
    return call
@logged"""
    + ORDER
    + LATER,
    "a partial": ORDER.replace("item: Item", "shop: Any, item: Item")
    + LATER
    + "order = nh.runtime.make_tool_function(partial(order, 'shop'), name='order')\n",
    "an object": inside("class Order:", ORDER.replace("order(item", "__call__(self, item"))
    + LATER
    + "order = nh.runtime.make_tool_function(Order(), name='order')\n",
    "a class of the function": made(LATER, "@nh.tool", ORDER),
    "an alias of the function": made(
        LATER, "Thing = Item\n@nh.tool", ORDER.replace("item: Item", "item: 'Thing'")
    ),
    "two functions out": made(LATER, made("@nh.tool", ORDER)),
    "a natural function": made(
        LATER,
        "@nh.tool\n@nh.natural_function\n",
        inside(
            "async def order(item: Item) -> str:",
            "if item:\n    return type(item).__name__ + item.name\n",
            "'natural\\nDo nothing.'\n",
        ),
    ),
}


@pytest.mark.parametrize("text", TOOLS.values(), ids=TOOLS)
async def test_a_tool_takes_the_class_that_its_annotation_names(load: Load, text: str) -> None:
    assert "Itemlamp" in await called(load(text).order, item={"name": "lamp"})


async def test_a_method_takes_a_class_of_its_class_body(load: Load) -> None:
    shop = load(
        inside("class Shop:", LATER, "@nh.once", ORDER.replace("order(item", "order(self, item"))
    ).Shop()
    assert "Itemlamp" in await called(shop.order, item={"name": "lamp"})


LOST = {
    "a type for type checkers alone": (
        "",
        "Price",
        "name 'Price' is not defined; names used in it must exist",
    ),
    "a field of such a type": (
        "class Box(BaseModel):\n    price: Price\n",
        "Box",
        "Box.*'Price' is not defined",
    ),
    "a type without a schema": ("class Box:\n    pass\n", "Box", "has no JSON Schema.*Box"),
    "a text that names itself": ("Box = 'Box'\n", "Box", "the text 'Box' names itself"),
    "no expression": ("", "'a price'", "SyntaxError"),
}


@pytest.mark.parametrize("text", LOST.values(), ids=LOST)
async def test_a_tool_of_the_program_that_no_model_can_be_offered_fails_alone(
    load: Load, caplog: pytest.LogCaptureFixture, text: tuple[str, str, str]
) -> None:
    before, annotation, reason = text
    load(f"{before}@nh.tool(name='late_lost')\ndef lost(price: {annotation}) -> str:\n    return ''\n")
    for _ in range(2):
        model = ScriptedModel([model_response(tool_call("nh_outcome", kind="pass", bindings={}))])
        async with nh.run(model):
            await nh.step("Do nothing.")
        assert "late_lost" not in [each.name for each in model.requests[0].tools]
    (record,) = (each for each in caplog.records if "late_lost" in each.message)
    assert "'price'" in record.message
    assert re.search(reason, record.message)


async def test_a_tool_of_the_program_is_offered_once_its_class_exists(load: Load) -> None:
    module = load("@nh.tool(name='late_found')\ndef found(item: Item) -> str:\n    return ''\n")

    async def offered() -> list[str]:
        model = ScriptedModel([model_response(tool_call("nh_outcome", kind="pass", bindings={}))])
        async with nh.run(model):
            await nh.step("Do nothing.")
        return [each.name for each in model.requests[0].tools]

    assert "late_found" not in await offered()
    vars(module)["Item"] = int
    assert "late_found" in await offered()


async def test_a_tool_of_a_scope_that_cannot_be_resolved_raises(load: Load) -> None:
    lost = load("def lost(price: Price) -> str:\n    return ''\n").lost
    async with nh.run(ScriptedModel([])):
        with pytest.raises(nh.ToolRegistrationError, match=r"'lost'.*'price'.*Price"), nh.scope(tools=[lost]):
            await nh.step("Do nothing.")


async def test_a_parameter_may_have_a_type_for_type_checkers_alone(load: Load) -> None:
    module = load(
        """
@nh.natural_function
async def count(price: Price) -> int:
    number: int = nh.unset
    '''natural
    Set <:number> to the digits of <price>.
    '''
    return number
"""
    )
    async with nh.run(ScriptedExecutor([pass_response(number=3)])):
        assert await module.count(1) == 3


FIND = """
@nh.natural_function
async def find() -> Item:
    'natural\\nReturn it.'
"""


async def test_a_block_that_may_return_needs_the_type(load: Load) -> None:
    module = load(FIND.replace("Item", "Price"))
    async with nh.run(ScriptedExecutor([])):
        with pytest.raises(nh.errors.AnnotationError, match=r"the return value cannot be resolved.*Price"):
            await module.find()


async def test_a_return_statement_does_not_need_it(load: Load) -> None:
    text = FIND.replace("Item", "Price").replace("Return it.", "---\\ndeny: [return]\\n---\\nLook.")
    async with nh.run(ScriptedExecutor([pass_response()])):
        assert await load(f"{text}    return 3\n").find() == 3


@pytest.mark.parametrize(
    "text",
    [
        FIND + LATER + "order = find\n",
        made(LATER, FIND, "order = find\n"),
        inside("class Shop:", LATER, "@staticmethod", FIND) + "order = Shop.find\n",
    ],
    ids=["later", "function", "class"],
)
async def test_a_natural_function_returns_the_class_that_its_annotation_names(load: Load, text: str) -> None:
    async with nh.run(ScriptedExecutor([return_response("{'name': 'lamp'}")])):
        found = await load(text).order()
    assert (type(found).__name__, found.name) == ("Item", "lamp")


@NEEDS_THREADS
async def test_one_unknown_type_does_not_cost_the_others(load: Load, tmp_path: Path) -> None:
    module = load(
        "calls = []\n@nh.once\ndef order(price: Price) -> Item:\n    calls.append(price)\n"
        "    return Item(name='lamp')\n" + LATER
    )
    for _ in range(2):
        with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="orders"):
                assert module.order(3) == module.Item(name="lamp")
    assert module.calls == [3]


@NEEDS_THREADS
async def test_an_effect_returns_a_class_of_its_function(load: Load, tmp_path: Path) -> None:
    text = "@nh.once\ndef order(number: int) -> Item:\n    return Item(name='lamp')\n"
    order = load(made(LATER, text)).order
    found = []
    for _ in range(2):
        with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="orders"):
                found.append(order(3))
    assert [(type(each).__name__, each.name) for each in found] == [("Item", "lamp")] * 2
