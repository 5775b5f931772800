"""`code=`: what code of a model may do in a step."""

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.configuration import StepExecutorConfiguration
from nighthawk_async.errors import ExecutionError, NighthawkError
from nighthawk_async.library import Workspace
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from nighthawk_async.types.code import CodeLevel

pytestmark = pytest.mark.anyio


@dataclass
class Customer:
    name: str


@dataclass
class Order:
    total: int
    customer: Customer
    _margin: int = 7


class Vault:
    code = 1234


HIDDEN = "not shown"
orders = [Order(1, Customer("x")), Order(2, Customer("y"))]


def find(total: int) -> Order:
    return Order(total, Customer("found"))


@nh.natural_function
async def use(files: Workspace) -> None:
    """natural
    Use <find>, <orders>, <json> and <files>.
    """


@nh.natural_function
async def add(first: int, second: int) -> int:
    """natural
    Add <first> and <second>.
    """
    return 0


def scripted(*responses: Any) -> tuple[ScriptedModel, list[Any]]:
    """A model that gives responses in order, and the requests that it gets."""
    requests: list[Any] = []

    def respond(request: Any) -> Any:
        requests.append(request)
        return responses[len(requests) - 1]

    return ScriptedModel(respond), requests


PASS = tool_call("nh_outcome", kind="pass")


async def cells(codes: Sequence[str], files: Workspace, **settings: Any) -> dict[str, Any]:
    """Run cells in one step, and return their results by their code."""
    calls = [tool_call("nh_exec", statements=each) for each in codes]
    model, requests = scripted(model_response(*calls), model_response(PASS))
    executor = nh.AgentStepExecutor.from_model(
        model, configuration=StepExecutorConfiguration(max_tool_calls=1_000)
    )
    async with nh.run(executor, **settings):
        await use(files)
    return dict(zip(codes, requests[1].messages[-1].results, strict=True))


HONEST = [
    "sum(o.total for o in orders)",
    "import math; math.sqrt(2)",
    "from math import *\nfloor(2.5)",
    "from collections import Counter, defaultdict\nCounter('aab').most_common(1)",
    "import collections.abc\nisinstance(orders, collections.abc.Sequence)",
    "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n    total: int\n"
    "    def _hidden(self): return 1\nclass Q(P, Protocol): pass\n"
    "assert isinstance(orders[0], P) is isinstance(orders[0], Q) is False\n"
    "class R(Protocol):\n    total: int\nR = runtime_checkable(R)\nclass S(R, Protocol): ...\n"
    "assert isinstance(orders[0], R) and isinstance(orders[0], S) and not isinstance(1, S)\n"
    "class T(S):\n    total = 1\n    def f(self): return self._x\n    _x = 2\n"
    "assert T().f() == 2 and isinstance(T(), R)",
    "from typing import Protocol, runtime_checkable\n@runtime_checkable\nclass P(Protocol):\n"
    "    def upper(self): ...\nassert issubclass(str, P) and not issubclass(int, P)",
    "import re; re.findall(r'\\d+', 'a1b2')",
    "found = find(3); found.total += 1; found.customer.name = 'Z'; found.total",
    "[find(1), find(2)]",
    "'{} {:>5} {0.total}'.format(1, 2) if False else '{:>5}'.format(1)",
    "text = '{0.total} {1[0].total:{2}}'; text.format(orders[0], orders, '>3')",
    "json.dumps({'a': 1})",
    "class P:\n    n = 0\n    def __init__(self): self._x, self.__y = 1, 2\n"
    "    def _sum(self): return self._x + self.__y\n"
    "    def add(self): self._x += self._sum()\np = P()\np.add()\np._x",
    "class E(Exception):\n    def __init__(self): self._code = 3\nE()._code",
    "from enum import Enum, IntEnum, auto\nclass C(Enum):\n    A = auto()\nclass D(IntEnum):\n    B = 2\n"
    "C(1), isinstance(C.A, Enum), D.B + 1",
    "import anyio\nasync with anyio.create_task_group() as tasks:\n    tasks.start_soon(anyio.sleep, 0)",
    "match found:\n    case object(total=t) if t > 0: t",
    "def first(*values): return sorted(iter(values))[0]\nfirst(*iter([2, 1]))",
    "class P:\n    def __init__(self, x): self.x = x\n    def __repr__(self): return str(self.x)\nP(3).x",
    "class A:\n    def m(self): return 1\nclass B(A):\n    def m(self): return super().m() + 1\nB().m()",
    "from dataclasses import dataclass, asdict, replace\n"
    "@dataclass\nclass Q:\n    a: int\nasdict(replace(Q(1), a=2))",
    "from enum import Enum\nclass C(Enum):\n    A = 1\nC.A.value",
    "from typing import NamedTuple\nclass T(NamedTuple):\n    a: int\nT(1)._asdict()",
    "class D(Exception): pass\ntry:\n    raise D('x')\nexcept D as error:\n    print(error.args)",
    "try:\n    1 / 0\nexcept* ZeroDivisionError as errors:\n    print(errors.exceptions)",
    "type(orders[0]).__name__",
    "isinstance(orders, list) and isinstance(Order, type)",
    "Order(1, Customer('b'))",
    "match orders[0]:\n    case Order(total=t): print(t)",
    "match {'a': 1}:\n    case {'a': int(v)}: print(v)",
    "from datetime import datetime, timedelta\n"
    "datetime.strptime('2024-01-02', '%Y-%m-%d') + timedelta(days=1)",
    "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nf(5)",
    "total = 0\ndef count():\n    global total\n    total += 1\ncount(); total",
    "getattr(orders[0], 'total') + (1 if hasattr(orders[0], 'gone') else 0)",
    "setattr(orders[0], 'total', 5); orders[0].total",
    "import random; random.seed(1); random.random() < 1",
    "import anyio\nawait anyio.sleep(0)",
    "files.find('*')",
    "import urllib.parse; urllib.parse.quote('a b')",
    "import json as j\nj.loads('[1]')",
    "import statistics, itertools, functools, operator, uuid, hashlib, base64, html, textwrap, string\n"
    "import decimal, fractions, heapq, bisect, difflib, unicodedata, calendar, zoneinfo, time, typing\n"
    "import enum, dataclasses, copy, asyncio, contextlib, io, csv, types\n"
    "functools.reduce(operator.add, [1, 2])",
    "import copy; copy.deepcopy(orders) == orders",
    "sorted(orders, key=lambda o: o.total)[0].total",
    "(lambda *a, **k: (a, k))(1, b=2)",
    "if (n := len(orders)) > 1: print(n)",
    "f'{orders[0].total:>3}' + '%s' % orders[0].total",
    "_, *rest = orders; rest",
]

HOSTILE = [
    # names
    "HIDDEN",
    "Vault",
    "lambda: HIDDEN",
    "open('/etc/passwd')",
    "f = open",
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "globals()",
    "locals()",
    "vars(files)",
    "breakpoint()",
    "input()",
    "help()",
    "__import__('os')",
    "__builtins__",
    "__loader__",
    "def __build_class__(*a): pass",
    "import math as __import__",
    # modules
    "import os",
    "import sys",
    "import nighthawk_async",
    "from nighthawk_async import run",
    "from . import x",
    "import json.decoder",
    "from json import codecs",
    "json.codecs",
    "json.decoder.scanner",
    "[j for j in [json]][0].codecs.open",
    "getattr(json, 'codecs')",
    "import re; re.enum",
    "import statistics; statistics.sys",
    "match json:\n    case object(codecs=c): c.open",
    "match json:\n    case object(codecs=object(open=o)): o('x')",
    "import asyncio; asyncio.to_thread",
    "import asyncio; asyncio.get_event_loop()",
    "import asyncio; asyncio.subprocess",
    "import anyio; anyio.open_file",
    "import time; time.sleep(1)",
    "import string; string.Formatter()",
    "import typing; typing.get_type_hints",
    "import operator; operator.attrgetter('__class__')(1)",
    "from operator import methodcaller",
    "from functools import wraps",
    "from math import __loader__",
    # attributes
    "files._files",
    "files.__dict__",
    "orders[0]._margin",
    "find.__globals__",
    "find.__code__",
    "find.__wrapped__",
    "().__class__",
    "object.__subclasses__()",
    "int.mro()",
    "(x for x in [1]).gi_frame",
    "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame",
    "try:\n    files.nope\nexcept AttributeError as e:\n    e.obj",
    "getattr(files, '_fi' + 'les')",
    "getattr(files, '_files')",
    "g = getattr; g(1, 'real')",
    "list(map(getattr, [1], ['__class__']))",
    "n = 'x'\nhasattr(files, n)",
    "type('X', (), {})",
    "type(type(orders))",
    "t = type",
    "type[int]('X', (), {})",
    "super(Order, orders[0])",
    "from dataclasses import replace; replace(orders[0], _margin=1)",
    "import copy; copy.copy(files)",
    "match orders[0]:\n    case Order(t, c): print(t)",
    "match orders[0]:\n    case object(_margin=m): print(m)",
    "int = Order\nmatch orders[0]:\n    case int(c): print(c)",
    # format texts
    "'{0.__class__}'.format(1)",
    "'{0[0]._margin}'.format(orders)",
    "'{:{0.__class__}}'.format(1)",
    "t = '{0.__cla' + 'ss__}'; t.format(1)",
    "f'{1}{{0.__class__}}'.format(1)",
    "[*map('{0.__class__}'.format, [1])]",
    "str.format('{0.__class__}', 1)",
    "t = '{a.__class__}'; t.format_map({'a': 1})",
    # assignments
    "json.x = 1",
    "find.x = 1",
    "Order.total = 1",
    "files.writable = True",
    "files.writable |= True",
    "setattr(files, 'writable', True)",
    "setattr(json, 'x', True)",
    "delattr(json, 'dumps')",
    "for json.x in [1]: pass",
    "for files.writable in [True]: pass",
    "[0 for files.writable in [True]]",
    "(json.x, y) = (1, 2)",
    "import contextlib\nwith contextlib.nullcontext(1) as files.writable: pass",
    "del json.dumps",
    "import math; math.pi = 3",
    "import random; random.seed = 3",
    "import collections.abc; collections.abc.Sequence.register(Order)",
    "from dataclasses import dataclass; dataclass(Order)",
    "from dataclasses import dataclass; dataclass(frozen=True)(Order)",
    # definitions
    "class M(type): pass",
    "class X(metaclass=type): pass",
    "class X(**{'metaclass': type}): pass",
    "class X(*[type]): pass",
    "class X:\n    __init__ = find",
    "class X(dict):\n    __init__, y = find, 1",
    "class X:\n    __hash__ = find",
    "class X:\n    def __getattribute__(self, n): pass",
    "class X:\n    def __getattr__(self, n): pass",
    "class X:\n    def __init_subclass__(cls): pass",
    "class X:\n    def __del__(self): pass",
    "class X:\n    def __reduce__(self): pass",
    "class X:\n    def __class__(self): pass",
    "class X(type(files)): pass",
    "import json; json.codecs",
]


async def test_shown_allows_honest_code_and_refuses_all_that_leads_elsewhere(tmp_path: Path) -> None:
    files = Workspace(tmp_path)
    results = await cells(HONEST, files)
    assert {code: each.content for code, each in results.items() if each.is_error} == {}
    results = await cells(HOSTILE, files)
    assert {code: each.content for code, each in results.items() if not each.is_error} == {}
    assert not hasattr(json, "x")
    assert "__dataclass_params__" in vars(Order)
    assert not files.writable
    results = await cells(["HIDDEN", "files._files", "import os"], files, code="python")
    assert not any(each.is_error for each in results.values())


async def test_a_refusal_tells_the_model_what_to_use_and_the_author_which_level_allows_it(
    tmp_path: Path,
) -> None:
    answer = (await cells(["HIDDEN"], Workspace(tmp_path)))["HIDDEN"]
    error = json.loads(answer.content[0])["error"]
    assert "'HIDDEN' is not shown" in error["message"]
    assert "find, json, orders" in error["guidance"]
    assert "code='python'" in error["guidance"]


async def test_permissions_hold_at_shown(tmp_path: Path) -> None:
    permissions = nh.permissions(deny=[find], default="allow")
    denied = [
        "find(3)",
        "list(map(find, [1]))",
        "class X:\n    def __init__(self): find(1)\nX()",
        "json.codecs",
    ]
    allowed = ["orders[0].total", "orders[0].total = 3", "t = '{0.total}'; t.format(orders[0])", "type(1)"]
    results = await cells([*denied, *allowed], Workspace(tmp_path), permissions=permissions)
    assert [code for code, each in results.items() if each.is_error] == denied


async def test_nh_assign_sets_only_what_code_could_set(tmp_path: Path) -> None:
    def assign(path: str) -> Any:
        return tool_call("nh_assign", target_path=path, value=1)

    paths = ["files.writable", "files._files", "find.x", "json.x", "orders.x", "files._files.root"]
    model, requests = scripted(model_response(*map(assign, paths), assign("note")), model_response(PASS))
    async with nh.run(model):
        await use(Workspace(tmp_path))
    results = requests[1].messages[-1].results
    assert [each.is_error for each in results] == [True] * len(paths) + [False]


@nh.natural_function
async def outer() -> None:
    """natural
    Use <inner>.
    """


@nh.natural_function
async def inner() -> None:
    """natural
    Use <find>.
    """


async def test_names_of_the_calling_step_are_not_shown() -> None:
    model, requests = scripted(
        model_response(tool_call("nh_exec", statements="secret = 1\nawait inner()")),
        model_response(
            tool_call("nh_exec", statements="secret"),
            tool_call("nh_exec", statements="print(secret)\nsecret = 2"),
            tool_call("nh_exec", statements="secret = 3\nsecret"),
        ),
        model_response(PASS),
        model_response(PASS),
    )
    async with nh.run(model):
        await outer()
    results = requests[2].messages[-1].results
    assert [each.is_error for each in results] == [True, True, False], results


# --- which level counts ---


@nh.natural_function(code="python")
async def free(x: int = 0) -> None:
    """natural
    Use <find> and <x>.
    """


@nh.natural_function(code="none")
async def closed(x: int = 0) -> None:
    """natural
    Use <find> and <x>.
    """


@nh.natural_function
async def plain(x: int = 0) -> None:
    """natural
    Use <find> and <x>.
    """


async def reached(function: Any, run: dict[str, Any], scope: dict[str, Any] | None = None) -> bool:
    """Whether code reaches a name that is not shown."""
    model, requests = scripted(
        model_response(tool_call("nh_exec", statements="HIDDEN")), model_response(PASS)
    )
    configuration = run.pop("configuration", None)
    executor: Any = model
    if configuration is not None:
        executor = nh.AgentStepExecutor.from_model(model, configuration=configuration)
    async with nh.run(executor, **run):
        if scope is None:
            await function()
        else:
            async with nh.scope(**scope):
                await function()
    return not requests[1].messages[-1].results[0].is_error


async def test_the_innermost_level_counts() -> None:
    specification = StepExecutorConfiguration(profile="specification", provided_tools=("nh_exec",))
    python, shown = StepExecutorConfiguration(code="python"), StepExecutorConfiguration(code="shown")
    assert not await reached(plain, {})
    assert await reached(plain, {"code": "python"})
    assert await reached(free, {})
    assert await reached(free, {"code": "none"})
    assert not await reached(closed, {"code": "python"})
    assert not await reached(plain, {"code": "python"}, {"code": "shown"})
    assert await reached(plain, {"code": "none"}, {"code": "python"})
    assert await reached(plain, {"code": "python"}, {"max_depth": 3})
    assert await reached(plain, {"configuration": python})
    assert not await reached(plain, {"configuration": python, "code": "shown"})
    assert await reached(plain, {"configuration": specification})
    assert not await reached(plain, {"configuration": specification, "code": "shown"})
    assert not await reached(plain, {"code": "python"}, {"step_executor_configuration": shown})
    assert await reached(plain, {"configuration": shown}, {"code": "python"})


async def test_a_level_holds_in_a_run_inside_a_run() -> None:
    model, requests = scripted(
        model_response(tool_call("nh_exec", statements="HIDDEN")), model_response(PASS)
    )
    async with nh.run(ScriptedModel(lambda request: model_response(PASS)), code="python"), nh.run(model):
        await plain()
    assert not requests[1].messages[-1].results[0].is_error


async def test_step_takes_a_level() -> None:
    model, requests = scripted(
        model_response(tool_call("nh_exec", statements="import os")), model_response(PASS)
    )
    async with nh.run(model):
        await nh.step("Use <f>.", f=find, code="python")
    assert not requests[1].messages[-1].results[0].is_error


async def test_other_values_are_refused() -> None:
    level: Any = "all"
    with pytest.raises(NighthawkError, match="'none', 'shown', 'python' or a sandbox, not 'all'"):
        nh.natural_function(code=level)
    with pytest.raises(NighthawkError, match="code must be"):
        async with nh.run(ScriptedModel(lambda request: model_response(PASS)), code=level):
            raise AssertionError


def test_the_base_of_levels_is_empty() -> None:
    assert StepExecutorConfiguration(code=CodeLevel()).code is not None
    assert pickle.loads(pickle.dumps(StepExecutorConfiguration(code="none"))).code == "none"


# --- nothing is evaluated ---


class Handle:
    def __init__(self, number: int) -> None:
        self.number = number

    def look(self, x: int = 0) -> int:
        return self.number + x


async def fetch(number: int) -> Handle:
    """Fetch it."""
    return Handle(number)


@nh.natural_function(code="none")
async def fetched(number: int) -> Handle:
    """natural
    Use <fetch> for <number>, and return it.
    """
    raise AssertionError


@nh.natural_function(code="none")
async def fetched_and_seen(handle: Handle) -> tuple[Handle, int]:
    """natural
    Use <fetch> and <handle.look>; set <:x> and <:n>.
    """
    x: Handle
    n: int
    return x, n  # pyright: ignore[reportUnboundVariable]


async def test_functions_are_tools_and_results_have_names_where_nothing_is_evaluated() -> None:
    model, requests = scripted(
        model_response(tool_call("fetch", number=3), tool_call("nh_eval", expression="1 + 1")),
        model_response(tool_call("nh_outcome", kind="return", return_result="fetch(3)")),
        model_response(tool_call("nh_outcome", kind="return", return_expression="fetch_1")),
        model_response(tool_call("nh_outcome", kind="return", return_result="fetch_1")),
    )
    async with nh.run(model):
        assert (await fetched(3)).number == 3
    assert [tool.name for tool in requests[0].tools] == ["fetch", "nh_outcome"]
    said = f"{requests[0].system_prompt}{requests[0].messages}{requests[0].tools}"
    assert "xpression" not in said
    assert "nh_exec" not in said
    fetch_result, evaluated = requests[1].messages[-1].results
    assert "fetch_1" in fetch_result.content[0]
    assert evaluated.is_error
    assert requests[2].messages[-1].results[0].is_error
    assert requests[3].messages[-1].results[0].is_error


def answered(transport: str, answer: dict[str, Any]) -> Any:
    if transport == "tool":
        return model_response(tool_call("nh_outcome", **answer))
    return model_response(text=json.dumps({"result": answer}))


@pytest.mark.parametrize("transport", ["tool", "native"])
async def test_results_set_write_bindings(transport: Any) -> None:
    answer = {"kind": "pass", "results": {"x": "fetch_1"}, "bindings": {"n": 5}}
    calls = model_response(tool_call("fetch", number=4), tool_call("handle_look", x=4))
    model, _ = scripted(calls, answered(transport, answer))
    configuration = StepExecutorConfiguration(outcome_transport=transport)
    async with nh.run(nh.AgentStepExecutor.from_model(model, configuration=configuration)):
        x, n = await fetched_and_seen(Handle(1))
    assert (x.number, n) == (4, 5)


@pytest.mark.parametrize("transport", ["tool", "native", "direct"])
async def test_answers_are_data_in_every_transport(transport: Any) -> None:
    wrong = {"kind": "return", "return_expression": "first + second"}
    right = {"kind": "return", "return_value": 3}

    model, requests = scripted(answered(transport, wrong), answered(transport, right))
    configuration = StepExecutorConfiguration(outcome_transport=transport)
    async with nh.run(nh.AgentStepExecutor.from_model(model, configuration=configuration), code="none"):
        assert await add(1, 2) == 3
    assert len(requests) == 2
    said = f"{requests[0].system_prompt}{requests[0].messages}{requests[0].tools}{requests[0]}"
    assert "xpression" not in said


async def test_an_executor_of_the_program_gives_data_as_well() -> None:
    class Expressing:
        async def run_step_async(self, **_: Any) -> Any:
            return nh.executors.ReturnStepOutcome(return_expression="first + second"), {}

    async with nh.run(Expressing(), code="none"):
        with pytest.raises(ExecutionError, match="no code is evaluated"):
            await add(1, 2)
    async with nh.run(Expressing()):
        assert await add(1, 2) == 3


async def test_code_that_is_nested_too_deeply_is_refused() -> None:
    code = "while False:\n    x = " + "(" * 90 + "-" * 900 + "1" + ")" * 90
    said: list[str] = []

    def answer(request: nh.models.ModelRequest) -> Any:
        if len(request.messages) == 1:
            return model_response(tool_call("nh_exec", statements=code))
        said.append(str(request.messages[-1]))
        return model_response(tool_call("nh_outcome", kind="pass"))

    async with nh.run(ScriptedModel(answer), code="shown"):
        await nh.step("Use <f>.", f=len)
    assert "nested too deeply" in said[0]
