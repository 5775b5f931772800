"""What decides is not reachable for code under permissions, at the level `python` too."""

import os
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async import library
from nighthawk_async.policies.permissions import call_checks, free_calls
from tests.specification.scripted_steps import PASS, ScriptedSteps, executing

pytestmark = pytest.mark.anyio

SENT: list[object] = []


def send(to: object = "?", *more: object, **options: object) -> None:
    """Send."""
    SENT.append(to)


def harmless(x: object = 1) -> object:
    """Return it."""
    return x


class Order:
    total = 1


@nh.natural_function
async def use(ws: object, web: object) -> None:
    """natural
    Use <ws>, <web>, <send>, <harmless> and <Order>.
    """


async def refusals(folder: Path, codes: list[str], permissions: nh.policies.Permissions) -> list[object]:
    """What the model is told after each of these codes, one step for all of them."""
    steps = ScriptedSteps(*map(executing, codes), PASS, max_turns=len(codes) + 2)
    async with nh.run(steps.executor, permissions=permissions, code="python"):
        await use(library.Workspace(folder), library.Web())
    assert len(steps.envelopes) == len(codes)
    return [each["error"] and each["error"]["kind"] for each in steps.envelopes]


FREE = "import nighthawk_async.policies.permissions.free_calls as f\n"
REACHING = [
    "ws._files.root = ws._files.root.parent",
    "ws._files",
    "x = vars(ws)['_files']",
    "vars(ws)['writable'] = True\nws.create('new', 'x')",
    "ws.__dict__['writable'] = True\nws.create('new', 'x')",
    "getattr(ws, '__dict__').update(writable=True)\nws.create('new', 'x')",
    "object.__setattr__(ws, 'writable', True)",
    "ws.writable = True",
    "ws.note = 1",
    "for ws.writable in [True]: pass",
    "del ws.writable",
    "delattr(ws, 'writable')",
    "object.__delattr__(ws, 'writable')",
    "ws.__class__ = Order",
    "setattr(type(ws), 'read', harmless)",
    "type.__setattr__(type(ws), 'read', harmless)",
    "type(ws)._files",
    "getattr(type(ws), '_files')",
    "getattr(ws, '_files')",
    "object.__getattribute__(ws, '_files')",
    "type(ws).__dict__['_files'].__get__(ws, type(ws))",
    "[*map(getattr, [ws], ['_files'])]",
    "[*map(vars, [ws])]",
    "property(vars)",
    "ws.__reduce_ex__(2)",
    "object.__reduce_ex__(ws, 2)",
    "ws.__getstate__()",
    "ws.__setstate__({})",
    "match ws:\n  case object(_files=f): f.root = 1",
    "class A(type):\n  __instancecheck__ = lambda c, x: True\n"
    "class P(metaclass=A):\n  __match_args__ = ('_files',)",
    "class P: pass\nP.__match_args__ = ('_files',)",
    "class A(type):\n  __match_args__ = property(lambda c: ('_files',))\n"
    "  __instancecheck__ = lambda c, x: True\n"
    "class P(metaclass=A): pass\nmatch ws:\n  case P(f): f.root = 1",
    "class E:\n  def __eq__(self, other): self.got = other\ne = E()\nmatch e:\n  case ws._files: pass",
    "'{0._files.root}'.format(ws)",
    "str.format('{0._files.root}', ws)",
    "web._lists",
    "web.allow = ('127.0.0.1',)",
    "type(web).allow.__set__(web, ('127.0.0.1',))",
    "object.__setattr__(web, 'allow', ('127.0.0.1',))",
    "harmless.__globals__['SENT'] = 1",
    "harmless.__code__",
    "harmless.__closure__",
    "harmless.__builtins__['len'] = harmless",
    "harmless.note = 1",
    "vars(harmless).update(__wrapped__=send)\nharmless.__wrapped__.note",
    "(lambda: 0).__code__.co_consts",
    "def f(): pass\nf.__code__.co_consts[0].may_wait = False",
    "(0 for _ in ()).gi_frame.f_back",
    "try: 1 / 0\nexcept Exception as e: e.__traceback__.tb_frame",
    "Order.total = 2",
    "del Order.total",
    "import types\ntypes.FunctionType.__globals__.__get__(harmless)",
    "vars(type(harmless))['__globals__'].__get__(harmless)",
    FREE + "f.DATA_MODULES = f.DATA_MODULES | {'posix'}",
    FREE + "f._FREE_FUNCTIONS",
    FREE + "vars(f)['_FREE_FUNCTIONS'] = 1\nf._FREE_FUNCTIONS",
    FREE + "setattr(f, 'is_data_callable', harmless)",
    "import nighthawk_async.policies.permissions.call_checks as c\nc._ROWS.add(str)",
    "import sys\nsys.stdout = 1",
    "import sys\nsys.modules['json'] = 1",
    "import sys\nsys.modules.update(json=1)",
    "import sys\ndel sys.path[0]",
    "import os\nos.environ['ATTACKED'] = '1'",
    "import builtins\nbuiltins.len = harmless",
]


async def test_code_under_permissions_reaches_nothing_that_decides(tmp_path: Path) -> None:
    before = (free_calls.is_data_callable, free_calls.DATA_MODULES, frozenset(vars(call_checks)["_ROWS"]))
    allowed = nh.permissions(allow=["Workspace.read", "harmless"], default="deny")
    told = await refusals(tmp_path, REACHING, allowed)
    assert [code for code, kind in zip(REACHING, told, strict=True) if kind is None] == []
    assert before == (
        free_calls.is_data_callable,
        free_calls.DATA_MODULES,
        frozenset(vars(call_checks)["_ROWS"]),
    )
    assert os.listdir(tmp_path) == []


CONSTRUCTING = [
    "class D(dict):\n  __init__ = send\nD.fromkeys([])",
    "class B(bytes):\n  __init__ = send\nB.fromhex('00')",
    "class B(bytearray):\n  __init__ = send\nB.fromhex('00')",
    "class N(int):\n  __init__ = send\nN.from_bytes(b'1')",
    "class N(float):\n  __new__ = send\nN.fromhex('1')",
    "import datetime\nclass D(datetime.date):\n  __new__ = send\nD.today()",
    "import datetime\nclass D(datetime.datetime):\n  __new__ = send\nD.fromisoformat('2020-01-01')",
    "import datetime\nclass D(datetime.date):\n  __new__ = send\n"
    "datetime.date.__new__(D, 1, 1, 1).replace(year=2)",
    "import datetime\nclass D(datetime.date):\n  __new__ = send\n"
    "datetime.date.__new__(D, 1, 1, 1) + datetime.timedelta(1)",
    "import decimal\nclass D(decimal.Decimal):\n  __init__ = send\nD.from_float(1.0)",
    "import collections\nclass D(collections.OrderedDict):\n  __init__ = send\nD.fromkeys('a')",
    "class M(type):\n  __call__ = send\nclass D(dict, metaclass=M): pass\nD.fromkeys('a')",
    "class A:\n  __init__ = send\nclass D(A, dict): pass\nD.fromkeys('a')",
    "class D(dict): pass\nD.__init__ = send\nD.fromkeys('a')",
    "D = type('D', (dict,), {'__init__': send})\nD.fromkeys('a')",
    "class D(dict):\n  __init__ = send\n[*map(D.fromkeys, ['a'])]",
    "class D:\n  __init_subclass__ = send\nclass E(D): pass",
    "class D:\n  __set_name__ = send\nclass E:\n  d = D()",
]


async def test_constructors_count_as_the_functions_that_they_run(tmp_path: Path) -> None:
    SENT.clear()
    for permissions in (
        nh.permissions(deny=[send], default="allow"),
        nh.permissions(deny="send", default="allow"),
        nh.permissions(ask=[send], default="allow"),
        nh.permissions(allow=["harmless"], default="deny"),
    ):
        told = await refusals(tmp_path, CONSTRUCTING, permissions)
        assert (permissions, SENT) == (permissions, [])
        assert [code for code, kind in zip(CONSTRUCTING, told, strict=True) if kind != "oversight"] == []


FREELY = [
    "class P:\n  limit = 1\n  def __init__(self): self._x = 1\np = P()\n"
    "p._x += 1\np.y = 2\ndel p.y\nP.limit = 2\np.__dict__['z'] = 1",
    "class P:\n  __match_args__ = ('x',)\np = P()\np.x = 1\nmatch p:\n  case P(x): y = x",
    "def f(): pass\nf.note = 1",
    "x = {'a': [1]}\nx['a'][0] = 2\ndel x['a']",
    "import dataclasses\nclass A:\n  def __init_subclass__(cls, size=0): cls.size = size\n"
    "class B(A, size=1): pass\nB.size",
    "x = harmless.__name__, Order.__doc__, ws.__class__.__name__\n"
    "y = Order.__dict__['total'], vars(ws)['writable']",
    "'{0} {1[a]}'.format(1, {'a': 1})",
]


async def test_code_may_still_change_what_it_has_made(tmp_path: Path) -> None:
    told = await refusals(tmp_path, FREELY, nh.permissions(deny=[send], default="allow"))
    assert [code for code, kind in zip(FREELY, told, strict=True) if kind is not None] == []
