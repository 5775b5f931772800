"""Ways around permissions: what a rule denies is not reached by another way either.

Every way is first tried where everything is allowed, to be sure that it does what it is about.
"""

import functools
import sys
from typing import Any

import pytest

import nighthawk_async as nh
from tests.cases import every
from tests.specification import permitted_shop as shop
from tests.specification.permitted_shop import DONE, tried
from tests.specification.scripted_steps import ScriptedSteps, assigning, executing, returning

pytestmark = pytest.mark.anyio

ALLOW = nh.permissions(default="allow")
DENY = nh.permissions(default="deny")


@pytest.fixture(autouse=True)
def _nothing_was_done() -> None:
    DONE.clear()


async def assert_closed(
    code: str, permissions: nh.policies.Permissions, *, is_shown_first: bool = True
) -> None:
    if is_shown_first:
        assert (await tried(code, None)).error is None
        assert DONE
        DONE.clear()
    result = await tried(code, permissions)
    assert DONE == []
    is_missing = "KeyError: '__code__'" in result.error["message"]  # in the copy of a `__dict__`
    assert is_missing or result.error["kind"] == "oversight", result.error


# ---- builtins that are given something to call


G = "class G: pass\ng = G()\n"
FIRING = [
    G + "g.write = fire\nprint('eve', file=g)",
    G + "g.write = fire\nprint('eve', file=g, flush=False)",
    "class G:\n  write = fire\nprint('eve', file=G())",
    "class G:\n  write = staticmethod(fire)\n  flush = staticmethod(fire)\nprint('eve', file=G, flush=True)",
    G + "g.write = len\ng.flush = fire\nprint('eve', file=g, flush=True)",
    G + "setattr(g, 'write', fire)\nprint('eve', file=g)",
    G + "object.__setattr__(g, 'write', fire)\nprint('eve', file=g)",
    G + "vars(g)['write'] = fire\nprint('eve', file=g)",
    G + "vars(g).update(write=fire)\nprint('eve', file=g)",
    G + "(g.write, x) = (fire, 1)\nprint('eve', file=g)",
    G + "for g.write in [fire]: pass\nprint('eve', file=g)",
    "g = type('G', (), {'write': fire})\nprint('eve', file=g)",
    G + "g.keys = lambda: fire\ng.keys = fire\ntry: dict(g)\nexcept TypeError: pass",
    G + "vars(g)['keys'] = fire\ntry: dict(g)\nexcept TypeError: pass",
    G + "vars(g)['keys'] = fire\ntry: {}.update(g)\nexcept TypeError: pass",
    G + "vars(g)['keys'] = fire\ntry: {**g}\nexcept TypeError: pass",
    G + "vars(g)['keys'] = fire\ntry: dict(**g)\nexcept TypeError: pass",
    "class G:\n  def __getitem__(self, name): return 1\n  keys = fire\ndict(G())",
    "class G:\n  __format__ = fire\ntry: f'{G()}'\nexcept TypeError: pass",
    "class G:\n  __str__ = fire\nstr(G())",
    "class G:\n  __add__ = fire\nG() + 1",
    "class G:\n  __getattr__ = fire\nG().x",
    "class G:\n  __init_subclass__ = fire\nclass H(G): pass",
    "class G:\n  __class_getitem__ = fire\nG['x']",
    "class G:\n  __enter__ = fire\n  __exit__ = fire\nwith G(): pass",
    "class G(type):\n  __instancecheck__ = fire\nclass H(metaclass=G): pass\nisinstance(1, H)",
    "class G:\n  pass\nG.__str__ = fire\nstr(G())",
    "class G: pass\nsetattr(G, '__str__', fire)\nstr(G())",
    "class G: pass\ntype.__setattr__(G, '__str__', fire)\nstr(G())",
    "G = type('G', (), {'__str__': fire})\nstr(G())",
    "class P:\n  __set_name__ = fire\nclass G:\n  p = P()",
    "import collections\nd = collections.defaultdict(int)\nd.default_factory = fire\nd['x']",
    "import collections\nd = collections.defaultdict(int)\nd.__init__(fire)\nd['x']",
    "import collections\nd = collections.UserList()\nclass D: append = fire\nd.data = D()\nd.append('eve')",
    "import collections\nd = collections.ChainMap()\nd.maps = [MAILER]\nMAILER.clear = fire\ntry: d.clear()\n"
    "finally: del MAILER.clear",
    "class P:\n  p = property(fire)\nP().p",
    "@property\ndef p(self): return fire()\nclass P:\n  q = p\nP().q",
    "sorted([1, 2], key=fire)",
    "[1, 2].sort(key=fire)",
    "min([1, 2], key=fire)",
    "max(1, 2, key=fire)",
    "max(1, 2, **{'key': fire})",
    "list(map(fire, [1]))",
    "list(filter(fire, [1]))",
    "next(iter(fire, 'x'))",
    "list(zip(map(fire, [1])))",
    "sum(map(lambda each: len(fire(each)), [1]))",
    "import functools\nfunctools.reduce(fire, [1, 2])",
    "import itertools\nlist(itertools.starmap(fire, [(1, 2)]))",
    "import operator\noperator.call(fire)",
    "import operator\nlist(map(operator.call, (each for each in [fire])))",
    "import functools\nlist(map(functools.partial.__call__, (functools.partial(fire) for each in 'x')))",
    "import functools, operator\nlist(map(functools.reduce, (each for each in [fire]), [[1, 2]]))",
    "import itertools\nlist(map(list, map(itertools.starmap, (each for each in [fire]), [[(1,)]])))",
    "[each() for each in [fire]]",
    "(lambda f=fire: f())()",
    "(lambda *fs: fs[0]())(fire)",
    "f = {'x': fire}['x']\nf()",
    "fire.__call__()",
    "type(fire).__call__(fire)",
    "fire.__get__(1)()",
    "import types\ntypes.MethodType(fire, 1)()",
    "match fire:\n  case f: f()",
    "@fire\ndef f(): pass",
    "@fire\nclass F: pass",
    "class F(metaclass=fire): pass",
    "def f():\n  yield fire\nnext(f())()",
    "def f():\n  g = fire\n  return lambda: g\nf().__closure__[0].cell_contents()",
    "def f():\n  g = fire\n  yield\nx = f()\nnext(x)\nx.gi_frame.f_locals['g']()",
    "def f(g=fire): 1 / 0\ntry: f()\nexcept Exception as e: e.__traceback__.tb_next.tb_frame.f_locals['g']()",
    "globals()['fire']() if 'fire' in globals() else fire.__globals__['fire']()",
    "fire.__globals__['__builtins__']['eval']('fire()', {'fire': fire})",
    "__builtins__['eval']('fire()', {'fire': fire})",
    "getattr(transfer, '__globals__')['fire']()",
    "type(fire)(fire.__code__, fire.__globals__)()",
    "type(lambda: 1)(fire.__code__, {'DONE': transfer.__globals__['DONE']})()",
    "DONE = transfer.__globals__['DONE']\ndef f(*args, **kwargs): pass\nf.__code__ = fire.__code__\nf()",
    "DONE = transfer.__globals__['DONE']\ndef f(*args, **kwargs): pass\n"
    "setattr(f, '__code__', fire.__code__)\nf()",
    "__build_class__(fire, 'X')",
    "fire_carefully.__wrapped__()",
    "fire_carefully()",
    "class S(str): pass\ns = S('x')\ns.upper = fire\ns.upper()",
    "import sys\nbefore = sys.stdout\ntry:\n  g = type('G', (), {'write': fire})\n  sys.stdout = g\n"
    "  print('eve')\nfinally: sys.stdout = before",
    "async def f(): return fire()\nawait f()",
    "class A:\n  __aiter__ = fire\ntry:\n  async for x in A(): pass\nexcept TypeError: pass",
    "class A:\n  def __await__(self): return iter(fire() and ())\nawait A()",
    "def f(x: fire()): pass",
    "[fire() for x in 'a']",
    "x = [0]\nx[len(fire()) - 5] += 1",
    "with_star = [*map(fire, [1])]",
    "import operator\nlist(map(operator.methodcaller('__call__'), (each for each in [fire])))",
    "import operator\noperator.methodcaller('__call__', 1)(fire)",
    "from collections import defaultdict\nd = defaultdict()\n"
    "list(map(defaultdict.__init__, [d], (f for f in [fire])))\nd['x']",
    "from collections import defaultdict\nd = defaultdict()\n"
    "list(map(d.__init__, (f for f in [fire])))\nd['x']",
    "class G:\n  flush = fire\ng = G()\nlist(map(setattr, [g], ['write'], (f for f in [len])))\n"
    "print('eve', file=g, flush=True)",
    "import types\ng = types.SimpleNamespace(write=fire)\nprint('eve', file=g)",
    "import functools\nclass X:\n  f = functools.cached_property(fire)\nX().f",
    "import contextlib\nwith contextlib.redirect_stdout(type('G', (), {'write': fire})): print('eve')",
    "import dataclasses\ndataclasses.make_dataclass('C', [], namespace={'__str__': fire})\nfire()",
    "import datetime\nclass Z(datetime.tzinfo): pass\nz = Z()\nvars(z)['utcoffset'] = fire\n"
    "try: datetime.datetime(2020, 1, 1, tzinfo=z).isoformat()\nexcept TypeError: pass",
    "class E(Exception):\n  __new__ = fire\ntry: raise E\nexcept TypeError: pass",
    "class M(type):\n  __prepare__ = fire\ntry:\n  class E(metaclass=M): pass\nexcept TypeError: pass",
    "import builtins\nbefore = builtins.len\ntry:\n  builtins.len = fire\n  len('x')\n"
    "finally: builtins.len = before",
    "__builtins__['__import__'] = fire\nimport json",
    "__builtins__['__import__'] = fire\ntry:\n  from json import nothing\nexcept ImportError: pass",
    "dict.update(__builtins__, {'__import__': fire})\nimport json",
    "globals()['__builtins__'] = {'__import__': fire}\ndef f():\n  import json\nf()",
    "globals()['__builtins__'] = {'__build_class__': fire}\ndef f():\n  class X: pass\nf()",
    "import functools\nvars(g := type('G', (), {})())['write'] = fire\n"
    "functools.partial(print, file=g)('eve')",
    "import functools\nvars(g := type('G', (), {})())['write'] = fire\n"
    "list(map(functools.partial(print, file=g), ['eve']))",
    "import functools\nG = type('G', (), {})\ng = G()\nfunctools.partial(setattr, g, 'write')(fire)\n"
    "print('eve', file=g)",
    "vars(g := type('G', (), {})())['write'] = fire\nprint.__call__('eve', file=g)",
    "vars(g := type('G', (), {})())['write'] = fire\ntype(print).__call__(print, 'eve', file=g)",
    "class G:\n  def f(self): self.write = fire\ng = G()\ng.f()\nprint('eve', file=g)",
    "class G:\n  async def f(self): self.write: object = fire\ng = G()\nawait g.f()\nprint('eve', file=g)",
    "class G: write = None\ng = G()\ng.write = [] or fire\nprint('eve', file=g)",
    "LOG.x = LOG\nLOG.x.write = fire\ntry: print('eve', file=LOG)\nfinally: vars(LOG).clear()",
    "@property\n@(lambda f: fire)\ndef p(self): pass\np.__get__(1)",
    "@property\n@(lambda f: fire)\ndef p(self): pass\nproperty.__get__(p, 1)",
    "@property\n@(lambda f: fire)\ndef p(self): pass\nlist(map(property.__get__, [p], [1]))",
    "list(p.__get__(1) for p in map(property, (f for f in [fire])))",
    "class P:\n  @property\n  @(lambda f: fire)\n  def p(self): pass\nP().p",
    "p = list(map(classmethod, (f for f in [fire])))[0]\nclass P: __str__ = p\nstr(P())",
    "def f(*args, **kwargs): pass\ntype(f).__dict__['__code__'].__set__(f, fire.__code__)\n"
    "DONE = transfer.__globals__['DONE']\nf()",
    "def f(*args, **kwargs): pass\nlist(map(type(f).__code__.__set__, [f], (c for c in [fire.__code__])))\n"
    "DONE = transfer.__globals__['DONE']\nf()",
    "from collections import defaultdict\nd = defaultdict()\n"
    "list(map(defaultdict.default_factory.__set__, [d], (f for f in [fire])))\nd['x']",
    "class P: pass\np = P()\nclass G: __str__ = p\nP.__call__ = fire\nstr(G())",
    "class P:\n  def __call__(self, x): pass\nm = map(P(), [1])\nP.__call__ = fire\nlist(m)",
    "class P:\n  def __call__(self, x): pass\nm = map(P(), [1])\nsetattr(P, '__call__', fire)\nlist(m)",
]


@every("code", FIRING)
@every("rules", [nh.permissions(deny=shop.fire, default="allow"), DENY])
async def test_a_function_is_not_called_in_another_way(code: str, rules: nh.policies.Permissions) -> None:
    is_of_every_python = "'__import__'" not in code  # later ones ask for it in another way
    await assert_closed(code, rules, is_shown_first=is_of_every_python)


@pytest.mark.parametrize("name", ["fire", "*.fire"])
@pytest.mark.parametrize("code", FIRING[:12])
async def test_a_function_that_a_name_denies_is_not_called_in_another_way(code: str, name: str) -> None:
    await assert_closed(code, nh.permissions(deny=name, default="allow"))


async def test_what_is_shown_goes_to_the_programs_own_output() -> None:
    assert (await tried("print('x', 'y', sep='-', flush=True)\nprint(file=None)", DENY)).error is None


async def test_the_file_of_print_is_written_to_as_if_the_code_did() -> None:
    code = "print('x', file=LOG, flush=True)"
    await assert_closed(code, DENY)
    await assert_closed(code, nh.permissions(deny=shop.LOG.write, default="allow"))
    await assert_closed(code, nh.permissions(deny="Log.flush", default="allow"))
    assert (await tried(code, nh.permissions(allow="Log.*", default="deny"))).error is None
    assert DONE == ["wrote x", "wrote \n", "flushed"]


async def test_the_guard_of_a_step_is_not_replaced_by_its_code() -> None:
    fake = "class Fake:\n  def admit(self, written, f, *args, **kwargs): return lambda: f(*args, **kwargs)\n"
    for names in ("globals()", "__builtins__"):
        for name in ("guard of the step", "guard"):
            code = f"{fake}{names}[{name!r}] = Fake()\nfire()"
            await assert_closed(code, nh.permissions(deny=shop.fire, default="allow"))


# ---- classes


ORDERING = {
    shop.Order: [
        "Order()",
        "Order[int]()",
        "Order[int].__call__()",
        "Order[str]()",
        "import typing\ntyping.Annotated[Order, 1]()",
        "import types\ntypes.GenericAlias(Order, (int,))()",
        "list(map(Order[int], [1]))",
        "Order.from_text('x')",
        "Order[int].from_text('x')",
        "list(map(Order.from_text, 'x'))",
        "Order.from_text.__func__(Order, 'x')",
        "vars(Order)['from_text'].__func__(Order, 'x')",
        "type(ORDER)()",
        "ORDER.__class__()",
        "ORDER.from_text('x')",
        "type.__call__(Order)",
        "type(Order).__call__(Order)",
        "Order.__init__(ORDER)",
        "ORDER.__init__()",
        "list(map(Order.__init__, [ORDER]))",
        "class O(Order): pass\nO()",
        "class O(Order):\n  def __init__(self): super().__init__()\nO()",
        "O = type('O', (Order,), {})\nO()",
        "class M(type): pass\nclass O(Order, metaclass=M): pass\nO()",
        "import functools\nfunctools.partial(Order)()",
        "import operator\noperator.call(Order)",
        "import operator\noperator.methodcaller('from_text', 'x')(Order)",
        "import operator\nlist(map(operator.methodcaller('from_text', 'x'), [Order]))",
        "vars(Order)['__init__'](ORDER)",
        "Order.__dict__['__init__'](ORDER)",
    ],
    shop.Text: [
        "Text()",
        "Text.fromkeys('ab')",
        "TEXT.fromkeys('ab')",
        "vars(dict)['fromkeys'].__get__(None, Text)('ab')",
        "list(map(Text.fromkeys, ['ab']))",
        "import operator\noperator.methodcaller('fromkeys', 'ab')(Text)",
    ],
    shop.Raw: ["Raw(b'x')", "Raw.fromhex('ff')", "RAW.fromhex('ff')", "Raw.__new__(Raw, b'x')"],
    shop.Box: [
        "Box(item=1)",
        "Box[int](item=1)",
        "Box[int].model_validate({'item': 1})",
        "Box.model_validate({'item': 1})",
        "Box.model_validate_json('{}')",
        "Box.model_construct(item=1)",
        "BOX.model_validate({})",
        "type(BOX)(item=1)",
        "import pydantic\npydantic.TypeAdapter(Box).validate_python({})",
        "import pydantic\npydantic.TypeAdapter(list[Box]).validate_python([{}])",
        "import pydantic\npydantic.TypeAdapter(Box | None).validate_python({})",
        "import pydantic, typing\npydantic.TypeAdapter(typing.Optional[Box]).validate_python({})",
        "import pydantic\npydantic.TypeAdapter(dict[str, list[Box]]).validate_python({'a': [{}]})",
    ],
    shop.Parcel: [
        "Parcel()",
        "type(PARCEL)()",
        "import dataclasses\ndataclasses.replace(PARCEL, item=1)",
        "import dataclasses\nlist(map(dataclasses.replace, [PARCEL]))",
        "PARCEL.__init__()",
    ],
    shop.OrderError: [
        "try: raise OrderError()\nexcept OrderError: pass",
        "try: raise OrderError\nexcept OrderError: pass",
        "OrderError(1)",
        "try: raise ValueError from OrderError\nexcept ValueError: pass",
        "class E(OrderError): pass\nE(1)",
    ],
    shop.Plugin: [
        "class P(Plugin): pass",
        "class P(Plugin, to='eve'): pass",
        "P = type('P', (Plugin,), {})",
        "P = type('P', (Plugin,), {}, to='eve')",
        "P = type.__new__(type, 'P', (Plugin,), {})",
        "Plugin.__init_subclass__(to='eve')",
        "import types\ntypes.new_class('P', (Plugin,))",
    ],
}
if sys.version_info >= (3, 13):
    ORDERING[shop.Parcel] += ["import copy\ncopy.replace(PARCEL, item=1)", "PARCEL.__replace__(item=1)"]

ORDERS = [(target, code) for target, codes in ORDERING.items() for code in codes]


@every("target, code", ORDERS)
async def test_a_class_that_is_denied_makes_no_objects_in_another_way(target: type, code: str) -> None:
    await assert_closed(code, nh.permissions(deny=target, default="allow"))
    DONE.clear()
    await assert_closed(code, nh.permissions(deny=target.__name__, default="allow"), is_shown_first=False)


@pytest.mark.parametrize(("target", "code"), ORDERS)
async def test_a_class_that_nothing_allows_makes_no_objects_in_another_way(target: type, code: str) -> None:
    if target is shop.OrderError:
        pytest.skip("exceptions are made unless a rule is about them")
    await assert_closed(code, DENY)


# ---- methods


SENDING = [
    "MAILER.send('eve')",
    "Mailer.send(MAILER, 'eve')",
    "Mailer.send(to='eve', self=MAILER)",
    "MAILER.send.__func__(MAILER, 'eve')",
    "MAILER.send.__func__.__call__(MAILER, 'eve')",
    "MAILER.__class__.send(MAILER, 'eve')",
    "type(MAILER).send(MAILER, 'eve')",
    "vars(Mailer)['send'](MAILER, 'eve')",
    "Mailer.__dict__['send'].__get__(MAILER)('eve')",
    "Mailer.__getattribute__(MAILER, 'send')('eve')",
    "Sub.send(MAILER, 'eve')",
    "getattr(MAILER, 'send')('eve')",
    "MAILER.send.__call__('eve')",
    "type(MAILER.send).__call__(MAILER.send, 'eve')",
    "import functools\nfunctools.partial(MAILER.send, 'eve')()",
    "import functools\nfunctools.partial(Mailer.send, MAILER)('eve')",
    "import functools\nlist(map(functools.partial(Mailer.send, MAILER), ['eve']))",
    "import functools\nlist(map(functools.partial(Mailer.send), [MAILER]))",
    "import operator\noperator.methodcaller('send', 'eve')(MAILER)",
    "import operator\nlist(map(operator.methodcaller('send', 'eve'), [MAILER]))",
    "import operator\noperator.attrgetter('send')(MAILER)('eve')",
    "import operator\noperator.call(Mailer.send, MAILER)",
    "import types\ntypes.MethodType(Mailer.send, MAILER)('eve')",
    "list(map(MAILER.send, ['eve']))",
    "list(map(Mailer.send, [MAILER]))",
    "list(map(Mailer.send, (each for each in [MAILER])))",
    "import functools\nfunctools.reduce(Mailer.send, [MAILER, 'eve'])",
    "[each('eve') for each in [MAILER.send]]",
    "[f(m) for f in [Mailer.send] for m in [MAILER]]",
    "match MAILER:\n  case Mailer(send=f): f('eve')",
    "'{0.send}'.format(MAILER)\nMAILER.send('eve')",
]


@every("code", SENDING)
async def test_a_method_of_an_object_that_is_denied_is_not_called_in_another_way(code: str) -> None:
    await assert_closed(code, nh.permissions(deny=shop.MAILER.send, default="allow"))


@every("code", SENDING)
async def test_a_method_that_is_denied_is_not_called_in_another_way(code: str) -> None:
    await assert_closed(code, nh.permissions(deny=shop.Mailer.send, default="allow"))
    await assert_closed(code, nh.permissions(deny="Mailer.send", default="allow"))
    await assert_closed(code, DENY)


async def test_the_method_of_another_object_is_not_denied() -> None:
    denying = nh.permissions(deny=shop.MAILER.send, default="allow")
    for code in ("OTHER.send('x')", "Mailer.send(OTHER, 'x')", "OTHER.send.__func__(OTHER, 'x')"):
        assert (await tried(code, denying)).error is None
    assert len(DONE) == 3


@pytest.mark.parametrize(
    "code", ["Mailer.send_static('eve')", "vars(Mailer)['send_static']('eve')", "MAILER.send_static('eve')"]
)
async def test_a_static_method_that_is_denied_is_not_called_in_another_way(code: str) -> None:
    await assert_closed(code, nh.permissions(deny=shop.Mailer.send_static, default="allow"))


async def test_what_a_denied_wrapper_wraps_is_denied_and_a_partial_for_its_arguments() -> None:
    await assert_closed("fire()", nh.permissions(deny=shop.fire_carefully, default="allow"))
    to_eve: Any = functools.partial(shop.transfer, 5, to="eve")
    denying = nh.permissions(deny=to_eve, default="allow")
    await assert_closed("transfer(5, 'eve')", denying)
    await assert_closed("transfer(to='eve', amount=5)", denying)
    assert (await tried("transfer(6, 'eve')\ntransfer(5)", denying)).error is None


async def test_a_builtin_that_a_rule_names_is_not_free() -> None:
    codes: dict[Any, str] = {
        len: "len('')",
        str.upper: "'x'.upper()",
        dict: "dict()",
        getattr: "getattr(1, 'real')",
    }
    for target, code in codes.items():
        result = await tried(code, nh.permissions(deny=target, default="allow"))
        assert result.error["kind"] == "oversight", result.error


async def test_an_assignment_of_the_runtime_puts_no_function_where_others_call_it() -> None:
    assign = assigning("LOG.write", "fire")
    steps = ScriptedSteps((assign, executing("print('eve', file=LOG)")), returning("None"))
    async with nh.run(steps.executor, permissions=nh.permissions(deny=shop.fire, default="allow")):
        await shop.work()
    assert steps.envelopes[0]["error"]["kind"] == "oversight"
    assert DONE == ["wrote eve", "wrote \n"]


@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__", "__wrapped__", "__code__"])
async def test_what_permissions_know_a_function_by_is_not_assigned(name: str) -> None:
    before = getattr(shop.fire, name, None)
    for code in (
        f"fire.{name} = transfer.{name}",
        f"setattr(fire, {name!r}, getattr(transfer, {name!r}, 1))",
    ):
        code = code.replace("transfer.__wrapped__", "1")
        result = await tried(code, nh.permissions(deny="other", default="allow"))
        assert result.error["kind"] == "oversight", result.error
    assert getattr(shop.fire, name, None) == before
