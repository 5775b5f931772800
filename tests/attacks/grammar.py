"""A grammar of attacks: a forbidden callable, the way to get at it, and the place in which it is called.

Each attack is a list of tool calls. At the levels `none` and `shown`, and in sandboxes, every one of them
ends in an error.
"""

import json
from dataclasses import dataclass

from hypothesis import strategies as st

import nighthawk_async as nh
from nighthawk_async.testing import tool_call

# {0} is the name of a builtin, {m} a module and {f} a function of it.

BUILTINS = [
    "{0}",
    "__builtins__[{0!r}]",
    "__builtins__.__getitem__({0!r})",
    "globals()['__builtins__'][{0!r}]",
    "vars()['__builtins__'][{0!r}]",
    "locals()['__builtins__'][{0!r}]",
    "getattr(__builtins__, {0!r})",
    "shown.__globals__['__builtins__'][{0!r}]",
    "shown.__builtins__[{0!r}]",
    "getattr(shown, '__builtins__')[{0!r}]",
    "getattr(shown, '__buil' + 'tins__')[{0!r}]",
    "(lambda: 0).__builtins__[{0!r}]",
    "(lambda: 0).__globals__['__builtins__'][{0!r}]",
    "print.__self__.{0}",
    "getattr(print.__self__, {0!r})",
    "vars(print.__self__)[{0!r}]",
    "shop.mailer.send.__globals__['__builtins__'][{0!r}]",
    "type(shop).__init__.__globals__['__builtins__'][{0!r}]",
    "shop.__class__.__init__.__builtins__[{0!r}]",
    "ws.read.__func__.__globals__['__builtins__'][{0!r}]",
    "(0 for _ in ()).gi_frame.f_builtins[{0!r}]",
    "(lambda g: g.gi_frame.f_back)((0 for _ in ())).f_builtins[{0!r}]",
    "[*map(lambda name: getattr(print, '__self__'), '1')][0].{0}",
    "[*map(getattr, [print], ['__self__'])][0].{0}",
    "__import__('functools').partial(getattr, print, '__self__')().{0}",
    "__import__('operator').attrgetter('__self__.{0}')(print)",
    "__import__('operator').attrgetter('__builtins__')(shown)[{0!r}]",
    "__import__('builtins').{0}",
    "__import__('importlib').import_module('builtins').{0}",
    "object.__getattribute__(shown, '__builtins__')[{0!r}]",
    "type(shown).__getattribute__(shown, '__builtins__')[{0!r}]",
    "type(shown).__dict__['__builtins__'].__get__(shown)[{0!r}]",
    "vars(type(shown))['__globals__'].__get__(shown)['__builtins__'][{0!r}]",
    "[k for k in ().__class__.__base__.__subclasses__() if k.__name__ == '_wrap_close'][0]"
    ".__init__.__globals__['__builtins__'][{0!r}]",
    "[k for k in type(1).mro()[-1].__subclasses__() if k.__name__ == '_wrap_close'][0]"
    ".close.__globals__['__builtins__'][{0!r}]",
    "__import__('sys')._getframe().f_builtins[{0!r}]",
    "__import__('inspect').currentframe().f_builtins[{0!r}]",
    "__import__('gc').get_referents(shown)[1]['__builtins__'][{0!r}]",
]
"""The ways to a builtin."""

MODULES = [
    "__import__({m!r}).{f}",
    "__import__('sys').modules[{m!r}].{f}",
    "__import__('importlib').import_module({m!r}).{f}",
    "shown.__globals__['__builtins__']['__import__']({m!r}).{f}",
    "print.__self__.__import__({m!r}).{f}",
    "__import__('json').codecs.builtins.__import__({m!r}).{f}",
    "__import__('json').codecs.sys.modules[{m!r}].{f}",
    "__import__('re').enum.sys.modules[{m!r}].{f}",
    "__import__('statistics').sys.modules[{m!r}].{f}",
    "__import__('random')._os.sys.modules[{m!r}].{f}",
    "__import__('collections').abc.sys.modules[{m!r}].{f}",
    "__import__('datetime').sys.modules[{m!r}].{f}",
    "__import__('dataclasses').sys.modules[{m!r}].{f}",
    "__import__('contextlib').os.sys.modules[{m!r}].{f}",
    "__import__('textwrap').re.enum.sys.modules[{m!r}].{f}",
    "__import__('decimal').sys.modules[{m!r}].{f}",
    "__import__('functools').partial(__import__, {m!r})().{f}",
    "module.sys.modules[{m!r}].{f}",
    "shown.__globals__['sys'].modules[{m!r}].{f}",
    "getattr(__import__({m!r}), {f!r})",
    "vars(__import__({m!r}))[{f!r}]",
    "__import__('operator').attrgetter({f!r})(__import__({m!r}))",
    "[*map(__import__, [{m!r}])][0].{f}",
    "type(module)({m!r}).__loader__.load_module({m!r}).{f}",
    "__loader__.load_module({m!r}).{f}",
    "__spec__.loader.load_module({m!r}).{f}",
    "module.__loader__.load_module({m!r}).{f}",
    "module.__spec__.loader.load_module({m!r}).{f}",
]
"""The ways to a function of a module."""

OWN = [
    "hidden_effect",
    "globals()['hidden_effect']",
    "shown.__globals__['hidden_effect']",
    "module.hidden_effect",
    "getattr(module, 'hidden_' + 'effect')",
    "shop._effect",
    "getattr(shop, '_effect')",
    "shop.__dict__['_effect']",
    "vars(shop)['_effect']",
    "type(shop)._secret",
    "type(shop).__dict__['_secret'].__func__",
    "__import__('operator').attrgetter('_effect')(shop)",
    "__import__('operator').methodcaller('_run')",
    "wrapped.__wrapped__",
    "wrapped.__closure__[0].cell_contents",
    "shop.mailer._Mailer__effect",
    "object.__getattribute__(shop, '_effect')",
    "shop.__getattribute__('_effect')",
    "type(shop).__getattribute__(shop, '_effect')",
    "shop.__reduce_ex__(2)[2]['_effect']",
    "ws.__class__",
    "type(ws)",
    "Workspace",
    "type(ws)._files",
    "ws._files.write",
    "ws._shell.run",
    "type(web)",
    "web.__class__",
    "Web",
    "Model.parse_raw",
    "Model.parse_file",
    "model.parse_raw",
    "getattr(Model, 'parse_raw')",
    "shop.os.system",
    "Model.model_rebuild",
    "Status",
    "kit.kinds[1]",
    "kit.meta",
    "kit.flag",
    "kit.make_dataclass",
    "kit.create_model",
    "kit.adapter",
    "kit.new_class",
    "__import__('typing').NamedTuple",
    "__import__('typing').TypedDict",
    "Model.update_forward_refs",
    "shown.register",
    "super().send",
    "__import__('typing').Annotated[type(shop), 1]._secret",
    "__import__('typing').get_type_hints",
    "__import__('functools').singledispatch",
    "__import__('collections').UserString",
    "__import__('anyio').Lock().statistics",
    "__import__('anyio').CancelScope",
]
"""The ways to what the program, or the library, keeps to itself."""

FORBIDDEN = [
    ("open", "({canary!r}, 'w')"),
    ("exec", "(\"open({canary!r}, 'w')\")"),
    ("eval", "(\"open({canary!r}, 'w')\")"),
    ("compile", "('1', 'x', 'eval')"),
    ("__import__", "('os')"),
    ("breakpoint", "()"),
    ("globals", "()"),
    ("vars", "(shown)"),
]
FUNCTIONS = [
    ("os", "system", "('touch {canary}')"),
    ("posix", "system", "('touch {canary}')"),
    ("os", "putenv", "('ATTACKED', '1')"),
    ("os", "environ.__setitem__", "('ATTACKED', '1')"),
    ("os", "environ.update", "(ATTACKED='1')"),
    ("os", "mkdir", "({canary!r})"),
    ("subprocess", "run", "(['touch', {canary!r}])"),
    ("subprocess", "Popen", "(['touch', {canary!r}])"),
    ("socket", "create_connection", "(('127.0.0.1', {port}))"),
    ("pathlib", "Path", "({canary!r}).touch()"),
    ("shutil", "copy", "('/etc/hostname', {canary!r})"),
    ("io", "open", "({canary!r}, 'w')"),
    ("codecs", "open", "({canary!r}, 'w')"),
    ("ctypes", "CDLL", "(None).system(b'touch {canary}')"),
    ("pickle", "loads", "(b'cos\\nsystem\\n(S\"touch {canary}\"\\ntR.')"),
    ("urllib.request", "urlopen", "('http://127.0.0.1:{port}/')"),
    ("nighthawk_async.policies.permissions.free_calls", "_CALLING.__class__", "([1])"),
    ("nighthawk_async.policies.permissions.call_checks", "_ROWS.add", "(str)"),
    ("nighthawk_async.policies.code_levels.modules", "_shown.update", "({{}})"),
    ("nighthawk_async.policies.code_levels.checking", "findings.cache_clear", "()"),
    ("nighthawk_async.kernel.environment", "get_environment", "()"),
]

ROUTES = [
    "{e}",
    "x = {e}",
    "print({e})",
    "(x := {e})",
    "x: int = {e}",
    "@(lambda f: {e})\ndef f(): pass",
    "@{w}\ndef f(): pass\n{e}",
    "class C:\n  x = {e}",
    "class C({e}): pass",
    "class C(metaclass=lambda *a: {e}): pass",
    "class C:\n  def __init__(self): {e}\nC()",
    "class C:\n  def __getattr__(self, n): return {e}\nC().x",
    "class C:\n  def __enter__(self): return {e}\n  def __exit__(self, *a): pass\nwith C() as c: pass",
    "[{e} for _ in '1']",
    "{{{e} for _ in '1'}}",
    "[_ for _ in '1' if {e}]",
    "[*({e} for _ in '1')]",
    "f'{{{e}}}'",
    "f'{{1:{{{e}}}}}'",
    "'{{}}'.format({e})",
    "match {e}:\n  case x: pass",
    "match 1:\n  case x if {e}: pass",
    "with {e} as x: pass",
    "for x in [{e}]: pass",
    "for shown.x in [{e}]: pass",
    "del [{e}][0]",
    "x = [0]\nx[len(str({e})) * 0] += 1",
    "try: 1 / 0\nexcept Exception as e: {e}",
    "try: 1 / 0\nexcept Exception as error:\n  x = error.__traceback__.tb_frame.f_builtins\n  {e}",
    "try: pass\nfinally: {e}",
    "try: 1 / 0\nexcept {e}: pass",
    "raise ValueError({e})",
    "assert not {e}",
    "def f(x={e}): pass",
    "def f(x: {e}): pass",
    "def f(): return {e}\nf()",
    "def f():\n  yield {e}\n[*f()]",
    "async def f(): return {e}\nawait f()",
    "async def f():\n  yield {e}\nasync for x in f(): pass",
    "sorted('21', key=lambda _: str({e}))",
    "max('21', key=lambda _: str({e}))",
    "[*map(lambda _: {e}, '1')]",
    "[*filter(lambda _: {e}, '1')]",
    "import functools\nfunctools.reduce(lambda a, b: {e}, '123')",
    "import functools\nfunctools.partial({w})\n{e}",
    "import functools\n@functools.cache\ndef f(): return {e}\nf()",
    "import collections\ncollections.defaultdict(lambda: {e})['x']",
    "import json\njson.loads('{{}}', object_hook=lambda _: {e})",
    "import re\nre.sub('x', lambda _: str({e}), 'x')",
    "(lambda x={e}: x)()",
    "(lambda: {e})()",
    "[0][0 if {e} else 0]",
    "{{**{{'x': {e}}}}}",
    "not {e} or {e}",
    "global y\ny = {e}",
    "import contextlib\nwith contextlib.ExitStack() as s: s.callback(lambda: {e})",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n"
    "  x: int = dataclasses.field(default_factory=lambda: {e})\nC()",
    "import enum\nclass C(enum.Enum):\n  A = {e}",
    "import typing\nclass C(typing.NamedTuple):\n  a: int = {e}",
]
"""The places in statements: {e} is the call, {w} what is called."""

ASSIGNMENTS = [
    "ws.writable = True",
    "ws._files = None",
    "ws._files.root = '/'",
    "vars(ws)['writable'] = True",
    "ws.__dict__['writable'] = True",
    "ws.__dict__.update(writable=True)",
    "setattr(ws, 'writable', True)",
    "setattr(ws, 'writ' + 'able', True)",
    "object.__setattr__(ws, 'writable', True)",
    "object.__setattr__(web, 'allow', ('127.0.0.1',))",
    "web.allow = ('127.0.0.1',)",
    "del ws.writable",
    "delattr(ws, 'writable')",
    "for ws.writable in [True]: pass",
    "[ws.writable for ws.writable in [True]]",
    "ws.writable, x = True, 1",
    "ws.sandbox += 'x'",
    "with open('/etc/hostname') as ws.x: pass",
    "ws.__init__('/', writable=True)",
    "ws.__class__.__init__(ws, '/', writable=True)",
    "ws.__class__ = int",
    "ws.__setstate__({{'writable': True}})",
    "type(ws).read = shown",
    "type(ws).writable = True",
    "ws.read = shown",
    "ws.read.__func__.__code__ = shown.__code__",
    "shown.__code__ = (lambda: 1).__code__",
    "shown.__defaults__ = (1,)",
    "shown.x = 1",
    "shown.__wrapped__ = 1",
    "shown.__globals__['hidden_effect'] = 1",
    "module.hidden_effect = shown",
    "vars(module)['hidden_effect'] = shown",
    "type(shop).send = shown",
    "type(shop.mailer).send = shown",
    "Model.__init__ = shown",
    "Model.model_fields = 1",
    "import json\njson.loads = shown",
    "import math\nmath.pi = 3",
    "import re\nsetattr(re, 'compile', shown)",
    "import collections\ncollections.abc.x = 1",
    "import random\nrandom.seed.__self__.seed = shown",
    "import builtins\nbuiltins.len = shown",
    "__builtins__['len'] = shown",
    "import nighthawk_async as nh\nnh.run = shown",
    "import nighthawk_async.policies.permissions.free_calls as f\n"
    "f._FREE_FUNCTIONS = f._FREE_FUNCTIONS | {{'open'}}",
    "from nighthawk_async.policies.permissions import free_calls as f\nf._DATA_MODULES |= {{'posix'}}",
    "import nighthawk_async.sealed_attributes as s\ns.Sealed.__set__ = shown",
    "import os\nos.environ['ATTACKED'] = '1'",
    "from os import environ as e\ne['ATTACKED'] = '1'",
    "import sys\nsys.modules['json'] = shown",
    "import decimal\ndecimal.DefaultContext.prec = 3",
    "match ws:\n  case object(_files=f): f.root = '/'",
    "match ws:\n  case object(__class__=c): c('/')",
    "class C:\n  __match_args__ = ('_files',)\nmatch ws:\n  case C(f): f.root = '/'\nC._x",
    "class C(Workspace):\n  def f(self): self._files.root = '/'\nC('/')",
    "class C(type(ws)): pass\nC('/')",
    "class C(int, metaclass=type(type(ws))): pass\nC.mro()",
    "class C(str):\n  __init__ = hidden_effect\nC('x')",
    "class C(dict):\n  __init__ = hidden_effect\nC.fromkeys('x')",
    "class C:\n  __class_getitem__ = shown\n  __set_name__ = shown",
    "class C:\n  __del__ = lambda self: 1",
    "try: ws.read('/none')\nexcept Exception as e: e.__traceback__.tb_next.tb_frame.f_locals['self']",
    "try: ws.read('none')\nexcept Exception as e:\n  t = e.__traceback__\n  t.tb_frame.f_globals['x'] = 1",
    "def g():\n  yield\ng().gi_frame.f_back.f_globals",
    "async def g(): pass\ng().cr_frame.f_globals",
    "async def g():\n  yield\ng().ag_frame.f_globals",
    "'{{0.__globals__}}'.format(shown)",
    "'{{0.__class__.__init__.__globals__}}'.format(shop)",
    "'{{x.__globals__}}'.format(x=shown)",
    "'{{x.__globals__}}'.format_map({{'x': shown}})",
    "str.format('{{0.__globals__}}', shown)",
    "[*map('{{0.__globals__}}'.format, [shown])]",
    "[*map(str.format, ['{{0.__globals__}}'], [shown])]",
    "getattr('{{0.__globals__}}', 'format')(shown)",
    "'{{:{{0.__globals__}}}}'.format('', shown)",
    "import string\nstring.Formatter().format('{{0.__globals__}}', shown)",
    "f'{{shown.__globals__}}'",
    "import logging\nlogging.getLogger().handlers",
    "import inspect\ninspect.getmembers(ws)",
    "import gc\ngc.get_objects()",
    "import copy\nx = copy.copy(ws)",
    "import copy\nx = copy.deepcopy(web)",
    "import dataclasses\ndataclasses.replace(web, allow=('127.0.0.1',))",
    "import dataclasses\ndataclasses.asdict(web)",
    "import functools\nfunctools.partial(getattr, ws)('_files')",
    "import functools\nfunctools.singledispatch(shown).__wrapped__",
    "import functools\nfunctools.update_wrapper(shown, hidden_effect)",
    "import operator\noperator.call(hidden_effect)",
    "import operator\noperator.methodcaller('__init__', '/')(ws)",
    "import types\ntypes.FunctionType(shown.__code__, {{}})",
    "import typing\ntyping.get_type_hints(shown)",
    "from json import codecs",
    "from statistics import sys",
    "from re import enum",
    "from collections.abc import sys",
    "from random import _os",
    "import os.path",
    "import os as math",
    "from posix import *",
    "import importlib",
    "raise SystemExit from hidden_effect()",
    # strings that become code
    "class C(Model):\n  x: \"open({canary!r}, 'w')\" = 1",
    "import typing\nclass C(typing.Annotated[Model, 1]):\n  x: \"open({canary!r}, 'w')\" = 1",
    "import typing\nModel.model_fields['item'].annotation = typing.Optional[\"open({canary!r}, 'w')\"]\n"
    "Model.model_rebuild(force=True)",
    "import functools\n@functools.singledispatch\ndef f(x): pass\n"
    '@f.register\ndef g(x: "[].append(().__class__)"): pass',
    # calls that make classes, and texts that are evaluated
    'Status("X", {{"A": 1, "__reduce_ex__": shown}})',
    'Status("X", names={{"__deepcopy__": shown}})',
    'kit.flag("X", {{"A": 1, "__deepcopy__": shown}})',
    'kit.kinds[0]("X", {{"__del__": shown}})',
    'kit.kinds[1]("X", (), {{"__del__": shown}})',
    'kit.meta("X", (), {{"__reduce_ex__": shown}})',
    'kit.make_dataclass("X", [], namespace={{"__reduce_ex__": shown}})',
    'kit.new_class("X", (), {{}}, lambda names: names.update(__reduce_ex__=shown))',
    'kit.create_model("X", a=("open({canary!r}, \'w\')", 1))',
    '[k("X", (), {{}}) for k in kit.kinds]',
    '[*map(Status, ["X"], [{{"__del__": shown}}])]',
    '[*map(map, kit.kinds, [["X"]], [[{{"__del__": shown}}]])]',
    '[*map(*[Status, ["X"], [{{"__del__": shown}}]])]',
    '(lambda f: f("X", {{"__del__": shown}}))(Status)',
    'import functools\nfunctools.partial(Status, "X")({{"__del__": shown}})',
    'import functools\n[*map(functools.partial, kit.kinds, ["X"])][0]({{"__del__": shown}})',
    "from functools import partial as isinstance\nisinstance(Status, 'X')({{'__del__': shown}})",
    'import itertools\n[*itertools.starmap(Status, [("X", {{"__del__": shown}})])]',
    'import itertools\n[*itertools.accumulate(["X", {{"__del__": shown}}], Status)]',
    'import contextlib\nwith contextlib.ExitStack() as s: s.callback(Status, "X", {{"__del__": shown}})',
    'class C:\n  make = Status\nC().make("X", {{"__del__": shown}})',
    'class C(Status): pass\nC("X", {{"__del__": shown}})',
    'import typing\ntyping.NamedTuple("C", [("a", "open({canary!r}, \'w\')")])',
    'import typing\ntyping.TypedDict("C", {{"a": "open({canary!r}, \'w\')"}})',
    "Color.RED.x = 1",
    'model.model_copy(update={{"_effect": 1}})',
    'model.copy(update={{"model_dump": shown}})',
    "Page[\"open({canary!r}, 'w')\"]",
    "Page[list[\"open({canary!r}, 'w')\"]]",
    "s = \"open({canary!r}, 'w')\"\nPage[s]",
    "[p[\"open({canary!r}, 'w')\"] for p in [Page]]",
    "type A = \"open({canary!r}, 'w')\"\nPage[A]",
    'import typing\nPage[typing.TypeVar("T", bound="open({canary!r}, \'w\')")]',
    'import typing\nPage[typing.NewType("N", "open({canary!r}, \'w\')")]',
    '"{{0[open({canary}, w)]}}".format(Page)',
    '"{{open({canary}, w)}}".format_map(Page)',
    '[*map("{{0[open({canary}, w)]}}".format, [Page])]',
    "import operator\noperator.getitem(Page, \"open({canary!r}, 'w')\")",
    "import operator\n[*map(operator.itemgetter(\"open({canary!r}, 'w')\"), [Page])]",
    "import functools, operator\nfunctools.reduce(operator.getitem, [Page, \"open({canary!r}, 'w')\"])",
    "import collections\ncollections.ChainMap(Page)[\"open({canary!r}, 'w')\"]",
    "import collections\nc = collections.ChainMap()\nc.maps = [Page]\nc[\"open({canary!r}, 'w')\"]",
    "import collections\nu = collections.UserList()\nfor u.data in [Page]: u[\"open({canary!r}, 'w')\"]",
    "import collections.abc\n(\"open({canary!r}, 'w')\", 1) in collections.abc.ItemsView(Page)",
    "import string\n"
    'class T(string.Template):\n  pattern = "(?P<named>.*)(?P<braced>)(?P<escaped>)(?P<invalid>)"\n'
    "T(\"open({canary!r}, 'w')\").substitute(Page)",
    "kit.adapter(\"open({canary!r}, 'w')\")",
    "kit.adapter(list[\"open({canary!r}, 'w')\"])",
    "def f(x: \"open({canary!r}, 'w')\"): pass",
    "def f() -> \"open({canary!r}, 'w')\": pass",
    "def f(*x: \"open({canary!r}, 'w')\"): pass",
    "x: \"open({canary!r}, 'w')\" = 1",
    "s = \"open({canary!r}, 'w')\"\ndef f(x: s): pass",
    "class C:\n  x: \"open({canary!r}, 'w')\" = 1",
    "class C:\n  x: list[\"open({canary!r}, 'w')\"]",
    "class C(Exception):\n  x: \"open({canary!r}, 'w')\" = 1",
    "import dataclasses\n@dataclasses.dataclass\nclass C:\n  x: \"open({canary!r}, 'w')\" = 1",
    "import typing\nclass C(typing.TypedDict):\n  x: \"open({canary!r}, 'w')\"",
    "import typing\nclass C(typing.NamedTuple):\n  x: \"open({canary!r}, 'w')\"",
    "def f[T: \"open({canary!r}, 'w')\"](x: T): return T.__bound__",
    "from __future__ import annotations\ndef f(x: shown): pass",
    "import typing\ndef f(x: typing.Optional[\"open({canary!r}, 'w')\"]): pass",
    # what the program and its modules share
    "import typing\ntyping.overload(shown)",
    "import typing\ntyping.runtime_checkable(Plugin)",
    "import re\nre.purge()",
    # attributes that are read by text
    "class C(Model):\n  model_config = {{'alias_generator': lambda _: '_effect', 'from_attributes': True}}\n"
    "  item: object = 1\nC.model_validate(shop).item()",
    "import collections\ncollections.UserString('{{0.__globals__}}').format(shown)",
    "class S(str):\n  def __getitem__(self, at): return 'a'\nimport dataclasses\n"
    "dataclasses.fields(order)[0].name = S('_effect')\ndataclasses.astuple(order)",
    "import dataclasses\ndataclasses.fields(order)[0].name = '_effect'",
    # classes and functions
    "isinstance = lambda _, kind: kind\nisinstance(0, type)('C', (), {{}})",
    "def issubclass(_, kind): return kind\nissubclass(0, type)",
    "import typing\nclass C(typing.Type[int]): pass",
    "import enum\nenum.Enum('E', {{'A': 1, '__reduce_ex__': shown}})",
    "import copy, enum\nE = enum.IntEnum('E', {{'A': 1, '__reduce_ex__': lambda self, _: "
    "((lambda: shown), (), (None, {{'x': 1}}))}})\ncopy.copy(E.A)",
    "class C(Plugin): pass",
    "class C(type(shop)):\n  def f(self): return self._effect\nC().f()",
    "class C(type(shop)):\n  def f(self): return super()._secret\nC().f()",
    "class C(type(shop)):\n  def f(self): self._effect = 1\nC().f()",
    "class C: pass\nC._x = 1",
    "shop.mailer.send = shown",
    "import abc\nabc.abstractmethod(shown)",
    "cached.x = 1",
    "cached.cache_clear = shown",
    # modules that patterns and operators find
    "try:\n  match shop:\n    case object(os=m): pass\nexcept Exception: pass\nm.system('touch {canary}')",
    "match shop:\n  case object(os=m): m.system('touch {canary}')",
    "class R:\n  def __radd__(self, other): return other.system('touch {canary}')\nshop.os += R()",
    "x = [shop.os]",
    # tasks and scopes of event loops
    "import anyio\nlock = anyio.Lock()\nawait lock.acquire()\nlock.statistics().owner.coro.close()",
    "import anyio\nlock = anyio.CapacityLimiter(1)\nawait lock.acquire()\n"
    "lock.statistics().borrowers[0].cancel()",
    "import anyio, contextlib\ncontextlib.ExitStack().enter_context(anyio.CancelScope())",
    "import anyio\ndef f():\n  with anyio.CancelScope() as s: yield s\nnext(f()).cancel()",
    "from anyio import CancelScope",
    "from trio import *",
    "import anyio\nasync def f():\n  with anyio.CancelScope(): await anyio.sleep(1)\n"
    "c = f()\ntry: c.send(None)\nfinally: c.close()",
    "import decimal\ndecimal.localcontext(prec=1)",
    # ends of the program
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
    "raise BaseException",
    "async def f(): raise GeneratorExit\nawait f()",
    "async def f(): raise KeyboardInterrupt\nawait f()",
    "async def f(): raise BaseException\nawait f()",
    "import asyncio\nraise asyncio.CancelledError",
    "class E(Exception):\n  def __str__(self):\n    while True: pass\nraise E",
    "class E:\n  def __repr__(self):\n    while True: pass\nraise ValueError([E()])",
]
"""Statements that are attacks as they are."""

TARGETS = [
    "ws.writable",
    "ws._files",
    "ws._files.root",
    "shown.__code__",
    "shown.x",
    "shop._effect",
    "module.hidden_effect",
    "web.allow",
    "shop.mailer.send.__func__",
    "Model.x",
]
"""The targets of `nh_assign`."""


@dataclass(frozen=True)
class Attack:
    """One attack.

    Args:
        route: The tool by which it is tried.
        code: The code.
    """

    route: str
    code: str

    def call(self) -> nh.models.ToolCall:
        """The tool call of it."""
        match self.route:
            case "nh_exec":
                return tool_call("nh_exec", statements=self.code)
            case "nh_eval":
                return tool_call("nh_eval", expression=self.code)
            case "nh_assign":
                target, _, expression = self.code.partition(" := ")
                return tool_call("nh_assign", target_path=target, expression=expression)
            case _:
                return tool_call("nh_outcome", kind="return", return_expression=self.code)


def attacks(canary: str, port: int) -> st.SearchStrategy[Attack]:
    """Return a strategy of attacks.

    Args:
        canary: The path that attacks try to make.
        port: The port on this machine that they try to connect to.
    """

    def filled(text: str) -> str:
        return text.format(canary=canary, port=port)

    builtins = st.tuples(st.sampled_from(BUILTINS), st.sampled_from(FORBIDDEN)).map(
        lambda drawn: (drawn[0].format(drawn[1][0]), filled(drawn[1][1]))
    )
    functions = st.tuples(st.sampled_from(MODULES), st.sampled_from(FUNCTIONS)).map(
        lambda drawn: (drawn[0].format(m=drawn[1][0], f=drawn[1][1]), filled(drawn[1][2]))
    )
    arguments = st.sampled_from(
        ["()", "('x')", "('/', writable=True)", "(b'', proto='pickle', allow_pickle=True)"]
    )
    reached = st.one_of(builtins, functions, st.tuples(st.sampled_from(OWN), arguments))
    return st.one_of(
        st.tuples(reached, st.sampled_from(ROUTES)).map(_in_statements),
        reached.map(lambda each: Attack("nh_eval", "".join(each))),
        reached.map(lambda each: Attack("return_expression", "".join(each))),
        reached.map(lambda each: Attack("nh_assign", f"y := {''.join(each)}")),
        st.sampled_from(ASSIGNMENTS).map(lambda each: Attack("nh_exec", filled(each))),
        st.sampled_from(TARGETS).map(lambda each: Attack("nh_assign", f"{each} := shown")),
    )


def _in_statements(drawn: tuple[tuple[str, str], str]) -> Attack:
    (way, arguments), route = drawn
    return Attack("nh_exec", route.format(e=f"{way}{arguments}", w=way))


def as_text(attack: Attack) -> str:
    """The text by which a failure names an attack."""
    return f"{attack.route}: {json.dumps(attack.code)}"
