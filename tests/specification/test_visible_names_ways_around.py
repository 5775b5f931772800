"""Ways around `visible_names="named"`: what a block does not name is not reached by another way either.

Every way is first tried where everything is visible, to be sure that it leads somewhere.
"""

from collections.abc import Callable
from typing import Any

import pytest

import nighthawk_async as nh
from tests.cases import every
from tests.specification.permitted_shop import DONE, shut
from tests.specification.scripted_steps import ScriptedSteps, assigning, evaluating, executing, returning
from tests.specification.test_permission_ways_around import FIRING, ORDERS, SENDING
from tests.specification.vault import NAMED, attempt, equipped, plain

pytestmark = pytest.mark.anyio

BY_NAME = [
    "found = SECRET",
    "found = (lambda: SECRET)()",
    "found = [SECRET for _ in numbers]",
    "found = {each: SECRET for each in numbers}",
    "found = list(SECRET for _ in numbers)",
    "found = f'{SECRET}'",
    "found = f'{0:{SECRET}}' if 0 else f'{SECRET!r:>40}'",
    "def f():\n  return SECRET\nfound = f()",
    "def f():\n  global SECRET\n  return SECRET\nfound = f()",
    "def f():\n  global SECRET\n  found = SECRET\n  return found\nfound = f()",
    "def f(secret=SECRET):\n  return secret\nfound = f()",
    "def f():\n  def g():\n    return SECRET\n  return g()\nfound = f()",
    "async def f():\n  return SECRET\nfound = await f()",
    "def f():\n  yield SECRET\nfor found in f(): pass",
    "(found := SECRET)",
    "found = [x := SECRET]",
    "match SECRET:\n  case found: pass",
    "for found in [SECRET]: pass",
    "found = [*[SECRET]]",
    "found = numbers and SECRET",
    "try:\n  1 / 0\nexcept:\n  found = SECRET",
    "look_up(found := SECRET)",
    "found = look_up(name=SECRET)",
    "def f(x: SECRET): pass\nfound = SECRET",
    "del numbers\nnumbers = SECRET\nfound = numbers",
    "found = hidden",
    "found = (lambda: hidden)()",
    "found = [hidden for _ in numbers]",
    "def f():\n  global hidden\n  return hidden\nfound = f()",
    "found = ''.join([c for c in hidden])",
]

BY_ATTRIBUTE = [
    "found = look_up.__globals__['SECRET']",
    "found = look_up.__\uff47lobals__['SECRET']",
    "found = fetch.__globals__['SECRET']",
    "found = IS_KEY.__closure__[0].cell_contents",
    "found = IS_KEY.__globals__['SECRET']",
    "found = carefully.__wrapped__.__globals__['SECRET']",
    "found = carefully.__dict__['__wrapped__'].__globals__['SECRET']",
    "found = CUSTOMER.greet.__func__.__globals__['SECRET']",
    "found = CUSTOMER.greet.__globals__['SECRET']",
    "found = Customer.greet.__globals__['SECRET']",
    "found = Customer.of.__func__.__globals__['SECRET']",
    "found = Customer.count.__globals__['SECRET']",
    "found = Customer.__dict__['greet'].__globals__['SECRET']",
    "found = Customer.initial.fget.__globals__['SECRET']",
    "found = CUSTOMER.__class__.greet.__globals__['SECRET']",
    "found = PARTIAL.func.__globals__['SECRET']",
    "found = PARTIAL.__reduce__()[1][0].__globals__['SECRET']",
    "found = ERROR.__traceback__.tb_frame.f_globals['SECRET']",
    "found = ROWS.gi_frame.f_globals['SECRET']",
    "found = ROWS.gi_frame.f_builtins and ROWS.gi_frame.f_globals['SECRET']",
    "found = PAGES.ag_frame.f_globals['SECRET']",
    "x = fetch('a')\nfound = x.cr_frame.f_globals['SECRET']\nawait x",
    "found = (lambda: 0).__builtins__ and look_up.__globals__['SECRET']",
    "def f():\n  yield\nx = f()\nx.__next__()\n"
    "found = look_up.__globals__['SECRET'] if x.gi_frame.f_back is None else 0",
    "try: 1 / 0\nexcept BaseException as e:\n  found = e.__traceback__.tb_frame.f_builtins['SECRET']",
    "try: 1 / 0\nexcept BaseException as e:\n  found = e.__traceback__.tb_frame.f_locals['hidden']",
    "match look_up:\n  case Customer(): pass\n  case BaseException(): pass\n"
    "  case object(__globals__=g): found = g['SECRET']",
    "match CUSTOMER:\n  case Customer(__class__=c): found = c.greet.__globals__['SECRET']",
    "found = f'{look_up.__globals__[\"SECRET\"]}'",
    "found = '{0.__globals__[SECRET]}'.format(look_up)",
    "found = '{f.__globals__[SECRET]}'.format(f=look_up)",
    "found = '{f.__globals__[SECRET]}'.format_map({'f': look_up})",
    "found = TEXT.format.__self__ and '{0.__globals__[SECRET]}'.format(look_up)",
    "g = '{0.__globals__[SECRET]}'.format\nfound = g(look_up)",
    "found = look_up('{0.__globals__[SECRET]}'.format)(look_up)",
    "found = [f(look_up) for f in ['{0.__globals__[SECRET]}'.format]]",
    "found = carefully('{0.__globals__[SECRET]}'.format)(look_up)",
    "found = (lambda f: f(look_up))('{0.__globals__[SECRET]}'.format)",
    "found = '{0.__closure__[0].cell_contents}'.format(IS_KEY)",
    "found = [f(look_up) for f in (f for f in ['{0.__globals__[SECRET]}'.format])]",
    "match '{0.__globals__[SECRET]}':\n  case object(format=f): found = f(look_up)",
    "found = '{:{f.__globals__[SECRET]}}'.format('', f=look_up) if 0 else "
    "'{0[0].__globals__[SECRET]}'.format([look_up])",
    "found = ().__class__.__base__.__subclasses__() and look_up.__globals__['SECRET']",
    "for c in ''.__class__.__mro__[-1].__subclasses__():\n"
    "  if c is CUSTOMER.__class__: found = c.greet.__globals__['SECRET']",
    "for c in [].__class__.__base__.__subclasses__():\n"
    "  if c.__name__ == '_wrap_close':\n"
    "    found = c.__init__.__globals__['sys'].modules['tests.specification.vault'].SECRET",
    "found = Colour.__class__.__mro__ and Customer.greet.__globals__['SECRET']",
    "found = Customer.mro()[0].greet.__globals__['SECRET']",
    "found = look_up.__builtins__['__import__']('tests.specification.vault').specification.vault.SECRET",
    "found = look_up.__code__.__class__ and look_up.__globals__['SECRET']",
    "found = look_up.__get__(1).__func__.__globals__['SECRET']",
    "found = look_up.__getattribute__('__globals__')['SECRET']",
    "found = object.__getattribute__(look_up, '__globals__')['SECRET']",
    "found = look_up.__class__.__dict__['__globals__'].__get__(look_up)['SECRET']",
    "found = ERROR.__class__.__init__.__class__ and look_up.__globals__['SECRET']",
    "found = numbers.append.__self__ and numbers.__class__.__class__ and look_up.__globals__['SECRET']",
    "numbers.__class__ and None\nfound = CUSTOMER.greet.__self__.greet.__func__.__globals__['SECRET']",
    "found = look_up.__annotations__ and look_up.__globals__['SECRET']",
    "found = __builtins__['__import__']('tests.specification.vault').specification.vault.SECRET",
    "found = __import__('tests.specification.vault').specification.vault.SECRET",
    "import tests.specification.vault\nfound = tests.specification.vault.SECRET",
    "from tests.specification.vault import SECRET\nfound = SECRET",
    "def f():\n  import tests.specification.vault as v\n  return v.SECRET\nfound = f()",
    "def f():\n  from tests.specification.vault import SECRET as s\n  return s\nfound = f()",
    "import sys\nfound = sys.modules['tests.specification.vault'].SECRET",
    "import sys\nfound = sys._getframe().f_globals['SECRET' if 'SECRET' in sys._getframe().f_globals else "
    "'hidden']",
    "import inspect\nfound = inspect.getmodule(look_up).SECRET",
    "import gc\nfound = [d['SECRET'] for d in gc.get_objects() if type(d) is dict and 'SECRET' in d]",
    "class A:\n  x = SECRET\nfound = A.x",
    "class A:\n  def f(self): return SECRET\nfound = A().f()",
    "class A(Customer): pass\nfound = A.greet.__globals__['SECRET']",
    "async def f():\n  return look_up.__globals__\nfound = (await f())['SECRET']",
    "async def f():\n  yield look_up.__globals__['SECRET']\nasync for found in f(): pass",
    "found = [x async for x in PAGES] and PAGES.ag_code and look_up.__globals__['SECRET']",
    "found = (lambda *, x=look_up.__globals__: x)()['SECRET']",
    "@(lambda f: look_up.__globals__)\ndef f(): pass\nfound = f['SECRET']",
    "def f() -> look_up.__globals__: pass\nfound = f.__annotations__['return']['SECRET']",
    "x = 0\nx += 0 if look_up.__globals__ else 1\nfound = look_up.__globals__['SECRET']",
    "for look_up.__doc__ in ['x']: pass\nfound = look_up.__globals__['SECRET']",
    "f = look_up\nf = f.__globals__\nfound = f['SECRET']",
]

BY_BUILTIN = [
    "found = getattr(look_up, '__globals__')['SECRET']",
    "found = getattr(look_up, '__glo' + 'bals__')['SECRET']",
    "found = getattr(look_up, ''.join(['__', 'globals', '__']), None)['SECRET']",
    "found = list(map(getattr, [look_up], ['__globals__']))[0]['SECRET']",
    "found = getattr.__call__(look_up, '__globals__')['SECRET']",
    "g = getattr\nfound = g(look_up, '__globals__')['SECRET']",
    "found = (lambda f, *a: f(*a))(getattr, look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.partial(getattr, look_up)('__globals__')['SECRET']",
    "found = FUNCTOOLS.partial(getattr, look_up, '__globals__')()['SECRET']",
    "found = FUNCTOOLS.reduce(getattr, [look_up, '__globals__'])['SECRET']",
    "found = next(map(FUNCTOOLS.partial(getattr, look_up), ['__globals__']))['SECRET']",
    "found = look_up(getattr)(look_up, '__globals__')['SECRET']",
    "found = sorted([look_up], key=getattr) if 0 else getattr(look_up, '__globals__')['SECRET']",
    "found = getattr(getattr(IS_KEY, '__closure__')[0], 'cell_contents')",
    "found = getattr(getattr(ROWS, 'gi_frame'), 'f_globals')['SECRET']",
    "class S(str): pass\nfound = getattr(look_up, S('__globals__'))['SECRET']",
    "class S(str):\n  def split(self, *a): return []\n  def startswith(self, *a): return False\n"
    "found = getattr(look_up, S('__globals__'))['SECRET']",
    "found = getattr('{0.__globals__[SECRET]}', 'format')(look_up)",
    "found = str.format('{0.__globals__[SECRET]}', look_up)",
    "found = list(map(str.format, ['{0.__globals__[SECRET]}'], [look_up]))",
    "found = type('')('{0.__globals__[SECRET]}').format(look_up)",
    "found = type('').format('{0.__globals__[SECRET]}', look_up)",
    "class S(str): pass\nfound = S('{0.__globals__[SECRET]}').format(look_up)",
    "class S(str): pass\nfound = S.format('{0.__globals__[SECRET]}', look_up)",
    "found = super(type('S', (str,), {}), type('S', (str,), {})) if 0 else "
    "str.format_map('{f.__globals__[SECRET]}', {'f': look_up})",
    "class S(str):\n  def f(self, *a): return super().format(*a)\n"
    "found = S('{0.__globals__[SECRET]}').f(look_up)",
    "found = vars(type(look_up))['__globals__'].__get__(look_up)['SECRET']",
    "found = vars(object)['__getattribute__'](look_up, '__globals__')['SECRET']",
    "found = vars(carefully)['__wrapped__'] and vars(Customer)['greet'].__globals__['SECRET']",
    "found = list(map(vars, [object]))[0]['__getattribute__'](look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.partial(vars, object)()['__getattribute__'](look_up, '__globals__')['SECRET']",
    "found = type.__getattribute__(Customer, 'greet').__globals__['SECRET']",
    "found = type.mro(Customer) and Customer.greet.__globals__['SECRET']",
    "for c in type.__subclasses__(object):\n"
    "  if c is CUSTOMER.__class__: found = c.greet.__globals__['SECRET']",
    "found = type(look_up)(look_up.__code__, look_up.__globals__) and look_up.__globals__['SECRET']",
    "found = eval('SECRET')",
    "found = eval('look_up.__globals__')['SECRET']",
    "found = list(map(eval, ['look_up.__globals__']))[0]['SECRET']",
    "exec('found = look_up.__globals__[\"SECRET\"]')",
    "exec('from tests.specification.vault import SECRET as found')",
    "found = eval(compile('look_up.__globals__', 'x', 'eval'))['SECRET']",
    "found = FUNCTOOLS.partial(eval, 'look_up.__globals__')()['SECRET']",
    "found = look_up(eval)('look_up.__globals__')['SECRET']",
    "found = eval.__call__('look_up.__globals__')['SECRET']",
    "found = OPERATOR.call(eval, 'look_up.__globals__')['SECRET']",
    "found = globals()['__builtins__']['SECRET']",
    "found = globals()['__builtins__']['__import__']('tests.specification.vault').specification.vault.SECRET",
    "found = locals()['__builtins__']['SECRET']",
    "found = vars()['__builtins__']['SECRET']",
    "found = list(map(lambda f: f(), [globals]))[0]['__builtins__']['SECRET']",
    "found = next(iter(globals, 0))['__builtins__']['SECRET']",
    "g = globals()\ng['__builtins__'] = look_up.__builtins__\nfound = look_up.__globals__['SECRET']",
    "found = [globals().get('SECRET') or globals()['__builtins__']['SECRET']]",
    "found = OPERATOR.attrgetter('__globals__')(look_up)['SECRET']",
    "found = OPERATOR.attrgetter('greet.__globals__')(CUSTOMER)['SECRET']",
    "found = OPERATOR.attrgetter('__name__', '__globals__')(look_up)[1]['SECRET']",
    "found = list(map(OPERATOR.attrgetter('__globals__'), [look_up]))[0]['SECRET']",
    "found = list(map(OPERATOR.attrgetter, ['__globals__']))[0](look_up)['SECRET']",
    "found = getattr(OPERATOR, 'attrgetter')('__globals__')(look_up)['SECRET']",
    "g = OPERATOR.attrgetter\nfound = g('__globals__')(look_up)['SECRET']",
    "found = FUNCTOOLS.partial(OPERATOR.attrgetter, '__globals__')()(look_up)['SECRET']",
    "found = OPERATOR.methodcaller('__getattribute__', '__globals__')(look_up)['SECRET']",
    "found = OPERATOR.methodcaller('format', look_up)('{0.__globals__[SECRET]}')",
    "found = list(map(OPERATOR.methodcaller('format', look_up), ['{0.__globals__[SECRET]}']))",
    "found = OPERATOR.methodcaller('format_map', {'f': look_up})('{f.__globals__[SECRET]}')",
    "class X:\n  __match_args__ = ('__globals__',)\nclass M(type):\n"
    "  def __instancecheck__(c, o): return True\n"
    "class Y(X, metaclass=M): pass\nmatch look_up:\n  case Y(g): found = g['SECRET']",
    "M = type('M', (type,), {'__instancecheck__': lambda c, o: True})\n"
    "X = M('X', (), {'__match_args__': ('__globals__',)})\nmatch look_up:\n  case X(g): found = g['SECRET']",
    "class A:\n  f = look_up\nfound = A().f.__func__.__globals__['SECRET']",
    "class A:\n  def __init_subclass__(cls): pass\n  def f(self): return SECRET\nfound = A().f()",
    "class A:\n  x = SECRET\nfound = A.x",
    "class A:\n  def __exit__(self, t, e, tb): self.tb = tb; return True\n"
    "  def __enter__(self): return self\n"
    "with A() as a: 1 / 0\n"
    "found = a.tb.tb_frame.f_globals.get('SECRET') or a.tb.tb_frame.f_builtins['SECRET']",
    "try: undefined_\nexcept NameError as e: found = e.__traceback__.tb_frame.f_builtins['SECRET']",
    "try: look_up.x\nexcept AttributeError as e: found = e.obj.__globals__['SECRET']",
    "try: 1 / 0\nexcept BaseException as e:\n"
    "  found = getattr(e, '__traceback__').tb_frame.f_builtins['SECRET']",
    "found = dict.__getitem__(look_up.__globals__, 'SECRET')",
    "found = TYPES.FunctionType(look_up.__code__, look_up.__globals__) and look_up.__globals__['SECRET']",
    "found = TYPES.MethodType(getattr, look_up)('__globals__')['SECRET']",
    "found = TYPES.MethodType(OPERATOR.attrgetter, '__globals__')()(look_up)['SECRET']",
    "found = TYPES.GetSetDescriptorType and type(look_up).__globals__.__get__(look_up)['SECRET']",
    "o = TYPES.SimpleNamespace()\n"
    "FUNCTOOLS.update_wrapper(o, look_up, assigned=['__globals__'], updated=())\n"
    "found = o.__globals__['SECRET']",
    "o = TYPES.SimpleNamespace()\n"
    "FUNCTOOLS.update_wrapper(o, look_up, assigned=['__globals__'], updated=())\n"
    "found = repr(o)",
    "o = TYPES.SimpleNamespace()\nFUNCTOOLS.wraps(look_up, assigned=['__globals__'], updated=())(o)\n"
    "found = repr(o)",
    "o = TYPES.SimpleNamespace()\nsetattr(o, '__globals__', dict())\nd = o.__globals__\n"
    "FUNCTOOLS.update_wrapper(o, look_up, assigned=(), updated=['__globals__'])\nfound = d['SECRET']",
    "found = property(getattr) and getattr(look_up, '__globals__')['SECRET']",
    "class A:\n  p = property(lambda self: SECRET)\nfound = A().p",
    "class A:\n  g = staticmethod(getattr)\nfound = A.g(look_up, '__globals__')['SECRET']",
    "class A:\n  __getattr__ = getattr\nfound = A.__getattr__(look_up, '__globals__')['SECRET']",
    "class A:\n  g = getattr\nfound = A.g(look_up, '__globals__')['SECRET']",
    "g = TYPES.SimpleNamespace(f=getattr)\nfound = g.f(look_up, '__globals__')['SECRET']",
    "d = {'f': getattr}\nfound = d['f'](look_up, '__globals__')['SECRET']",
    "found = [f(look_up, '__globals__')['SECRET'] for f in [getattr]]",
    "match getattr:\n  case f: found = f(look_up, '__globals__')['SECRET']",
    "found = max([look_up], key=OPERATOR.attrgetter('__globals__')) and look_up.__globals__['SECRET']",
    "found = {**look_up.__globals__}['SECRET']",
    "def f(**names): return names['SECRET']\nfound = f(**look_up.__globals__)",
    "print(look_up.__globals__['SECRET'])\nfound = look_up.__globals__['SECRET']",
    "class A:\n  g = FUNCTOOLS.partialmethod(getattr, '__globals__')\nfound = SECRET",
    "found = FUNCTOOLS.singledispatch(getattr)(look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.cache(getattr)(look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.lru_cache()(getattr)(look_up, '__globals__')['SECRET']",
    "@FUNCTOOLS.cache\n@(lambda f: getattr)\ndef f(): pass\nfound = f(look_up, '__globals__')['SECRET']",
    "found = type('A', (), {'g': getattr}).g(look_up, '__globals__')['SECRET']",
    "class A:\n  __getitem__ = getattr\nfound = getattr(look_up, '__globals__')['SECRET']",
    "class A: pass\nA.g = getattr\nfound = A.g(look_up, '__globals__')['SECRET']",
    "class A: pass\nsetattr(A, 'g', getattr)\nfound = A.g(look_up, '__globals__')['SECRET']",
    "class A:\n  def __call__(self, f): return f(look_up, '__globals__')['SECRET']\nfound = A()(getattr)",
    "class A:\n  def __lt__(self, f): return f.__globals__['SECRET']\nfound = A() < look_up",
    "class A:\n  def __get__(self, o, t): return getattr(o, 'greet').__globals__['SECRET']\n"
    "Customer.leak = A()\ntry: found = CUSTOMER.leak\nfinally: del Customer.leak",
    "class A(dict):\n  def __missing__(self, name): return getattr(look_up, name)\n"
    "found = A()['__globals__']['SECRET']",
    "class A:\n  def __getattr__(self, name): return getattr(look_up, name)\n"
    "found = A().f_globals if 0 else getattr(look_up, '__globals__')['SECRET']",
    "class A(type):\n  def __prepare__(*a): return look_up.__globals__.copy()\n"
    "class B(metaclass=A): found = SECRET\nfound = B.found",
    "x: look_up.__globals__ = 1\nfound = __annotations__['x']['SECRET']",
]

SMUGGLED = [
    "found = type('X', (), {'__call__': vars})()(object)['__getattribute__'](look_up, "
    "'__globals__')['SECRET']",
    "found = type('X', (), {'__call__': getattr})()(look_up, '__globals__')['SECRET']",
    "found = list(map(type('X', (), {'__call__': getattr})(), [look_up], ['__globals__']))[0]['SECRET']",
    "found = list(map(OPERATOR.call, iter([vars]), [object]))[0]['__getattribute__'](look_up, "
    "'__globals__')['SECRET']",
    "found = list(map(FUNCTOOLS.reduce, iter([getattr]), [[look_up, '__globals__']]))[0]['SECRET']",
    "found = list(map(FUNCTOOLS.partial, iter([getattr]), [look_up], ['__globals__']))[0]()['SECRET']",
    "found = list(map(TYPES.MethodType, iter([getattr]), [look_up]))[0]('__globals__')['SECRET']",
    "found = next(map(*[OPERATOR.call], iter([eval]), ['SECRET']))",
    "found = next(map(OPERATOR.call, iter([globals])))['__builtins__']['SECRET']",
    "found = next(map(OPERATOR.call, iter([str.format]), ['{0.__globals__[SECRET]}'], [look_up]))",
    "found = FUNCTOOLS.reduce(lambda a, f: f(look_up, '__globals__'), iter([0, getattr]))['SECRET']",
    "found = carefully(getattr)(look_up, '__globals__')['SECRET']",
    "found = look_up(x for x in [getattr]).__next__()(look_up, '__globals__')['SECRET']",
    "found = look_up(iter([getattr])).__next__()(look_up, '__globals__')['SECRET']",
    "found = PARTIAL.func(iter([eval])).__next__()('look_up.__globals__')['SECRET']",
    "found = FUNCTOOLS.cache(lambda x: x)(iter([eval])).__next__()('look_up.__globals__')['SECRET']",
    "found = OPERATOR.methodcaller('__call__', look_up, '__globals__')(getattr)['SECRET']",
    "found = OPERATOR.methodcaller('__call__', look_up, '__globals__').__call__(getattr)['SECRET']",
    "found = list(map(OPERATOR.methodcaller('__call__', look_up, '__globals__'), "
    "iter([getattr])))[0]['SECRET']",
    "found = list(map(OPERATOR.methodcaller('__getattribute__', '__globals__'), "
    "iter([look_up])))[0]['SECRET']",
    "found = list(map(OPERATOR.methodcaller(''.join(['for', 'mat']), look_up), "
    "iter(['{0.__globals__[SECRET]}'])))",
    "found = list(map(OPERATOR.methodcaller, iter(['format']), [look_up]))[0]('{0.__globals__[SECRET]}')",
    "found = list(map(OPERATOR.attrgetter, iter(['__globals__'])))[0](look_up)['SECRET']",
    "found = OPERATOR.call(OPERATOR.attrgetter, '__globals__')(look_up)['SECRET']",
    "found = FUNCTOOLS.partial(OPERATOR.attrgetter)('__globals__')(look_up)['SECRET']",
    "found = type(OPERATOR.attrgetter('x'))('__globals__')(look_up)['SECRET']",
    "found = type('A', (str,), {})('{0.__globals__[SECRET]}').format(look_up)",
    "found = type('A', (str,), {'f': str.format})('{0.__globals__[SECRET]}').f(look_up)",
    "found = type('A', (str,), {'__call__': str.format})('{0.__globals__[SECRET]}')(look_up)",
    "found = type('A', (str,), {'__add__': str.format})('{0.__globals__[SECRET]}') + look_up",
    'found = f\'{type("A", (), {"__format__": lambda s, f: getattr(look_up, f)["SECRET"]})():__globals__}\'',
    "found = TYPES.new_class('A', (), {}, lambda ns: ns.update(g=getattr)).g(look_up, "
    "'__globals__')['SECRET']",
    "found = TYPES.new_class('A', (str,), {}, lambda ns: "
    "ns.update(g=str.format)).g('{0.__globals__[SECRET]}', look_up)",
    "found = TYPES.new_class('A', (str,), {}, lambda ns: "
    "ns.update(__add__=str.format))('{0.__globals__[SECRET]}') + look_up",
    "found = TYPES.new_class('A', (str,), {}, lambda ns: ns.__setitem__('__add__', "
    "str.format))('{0.__globals__[SECRET]}') + look_up",
    "found = dict(zip('f', iter([getattr])))['f'](look_up, '__globals__')['SECRET']",
    "found = Customer(getattr).name(look_up, '__globals__')['SECRET']",
    "found = Customer(str.format).name('{0.__globals__[SECRET]}', look_up)",
    "found = OPERATOR.setitem(numbers, 0, getattr) or numbers[0](look_up, '__globals__')['SECRET']",
    "found = OPERATOR.iadd(numbers, [getattr])[-1](look_up, '__globals__')['SECRET']",
    "found = OPERATOR.getitem([getattr], 0)(look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.partial(look_up, getattr).args[0](look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS._unwrap_partial(getattr)(look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS._make_key((getattr,), {}, False)[0](look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.namedtuple('N', 'f')(getattr).f(look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.namedtuple('N', 'f', defaults=[getattr])().f(look_up, '__globals__')['SECRET']",
    "class X:\n  __call__ = getattr\nfound = X()(look_up, '__globals__')['SECRET']",
    "class X:\n  __call__ = staticmethod(getattr)\nfound = X()(look_up, '__globals__')['SECRET']",
    "class X(str):\n  __call__ = str.format\nfound = list(map(X('{0.__globals__[SECRET]}'), [look_up]))",
    "class X(str):\n  __call__ = str.format\nfound = X('{0.__globals__[SECRET]}')(look_up)",
    "class X(str):\n  __call__ = str.format\nfound = PARTIAL.func(X('{0.__globals__[SECRET]}'))(look_up)",
    "def gen():\n  yield getattr\nfound = next(gen())(look_up, '__globals__')['SECRET']",
    "def gen():\n  f = yield\n  yield f(look_up, '__globals__')\ng = gen()\nnext(g)\n"
    "found = g.send(getattr)['SECRET']",
    "numbers.append(getattr)\nfound = numbers[-1](look_up, '__globals__')['SECRET']",
    "numbers.append(str.format)\nfound = next(map(numbers.pop(), ['{0.__globals__[SECRET]}'], [look_up]))",
    "global g\ng = getattr\nfound = g(look_up, '__globals__')['SECRET']",
    "try: raise BaseException(getattr)\n"
    "except BaseException as e: found = e.args[0](look_up, '__globals__')['SECRET']",
    "found = FUNCTOOLS.partialmethod(str.format).func('{0.__globals__[SECRET]}', look_up)",
    "found = FUNCTOOLS.singledispatchmethod(getattr).func(look_up, '__globals__')['SECRET']",
    "found = property(getattr).fget(look_up, '__globals__')['SECRET']",
    "found = TYPES.DynamicClassAttribute(getattr).fget(look_up, '__globals__')['SECRET']",
    "found = TYPES._GeneratorWrapper(ROWS).gi_frame.f_globals['SECRET']",
    "found = TYPES.MappingProxyType({'f': getattr})['f'](look_up, '__globals__')['SECRET']",
    "found = type('X', (dict,), {'__missing__': lambda s, k: getattr(look_up, "
    "k)})()['__globals__']['SECRET']",
    "found = {getattr: 1}.popitem()[0](look_up, '__globals__')['SECRET']",
    "def f(): global __builtins__; __builtins__ = {}\nf()\nfound = SECRET",
]

WAYS = [
    *((plain, code) for code in (*BY_NAME, *BY_ATTRIBUTE)),
    *((equipped, code) for code in BY_ATTRIBUTE if "class" in code or "case" in code),
    *((equipped, code) for code in (*BY_BUILTIN, *SMUGGLED)),
]


LEADING = (*BY_NAME, *BY_ATTRIBUTE, *BY_BUILTIN, *SMUGGLED)


@pytest.mark.may_block_event_loop("some ways look through every object of the process")
@every("code", LEADING)
async def test_every_way_leads_to_a_secret_where_everything_is_visible(code: str) -> None:
    result = await attempt(equipped, code, named=False)
    assert "sesame" in repr(result.value), result.envelopes


@every("block, code", WAYS)
async def test_what_a_block_does_not_name_is_not_reached(block: Any, code: str) -> None:
    result = await attempt(block, code)
    assert "sesame" not in repr(result.value)
    assert "sesame" not in repr(result.envelopes)
    assert result.error


# ---- the ways around permissions


@every("code", [*FIRING, *SENDING, *(code for _, code in ORDERS)])
async def test_no_way_around_permissions_leads_to_a_function_that_is_not_named(code: str) -> None:
    DONE.clear()
    steps = ScriptedSteps(executing(code), returning("None"), **NAMED)
    async with nh.run(steps.executor):
        await shut()
    assert DONE == []
    assert steps.envelopes[0]["error"]["kind"] in ("resolution", "oversight")


# ---- by other tools


@pytest.mark.parametrize("call", [evaluating, returning, lambda text: assigning("x", text)])
@pytest.mark.parametrize(
    "expression",
    [
        "SECRET",
        "hidden",
        "look_up.__globals__['SECRET']",
        "'{0.__globals__[SECRET]}'.format(look_up)",
        "(lambda: SECRET)()",
        "__builtins__['SECRET']",
        "print",
        "await fetch(SECRET)",
    ],
)
async def test_expressions_of_every_tool_see_only_what_is_named(
    call: Callable[[str], nh.models.ToolCall], expression: str
) -> None:
    steps = ScriptedSteps(call(expression), returning("None"), **NAMED)
    async with nh.run(steps.executor):
        value: Any = await plain([1])
    shown = repr([value, steps.results])
    assert "sesame" not in shown
    refusals = ("not visible", "does not name", "not permitted", "is not read under permissions")
    assert any(each in shown for each in refusals)


async def test_what_is_named_shows_no_secret() -> None:
    names = "numbers look_up IS_KEY carefully fetch Customer CUSTOMER Colour ERROR ROWS PAGES PARTIAL TEXT"
    steps = ScriptedSteps(tuple(map(evaluating, names.split())), returning("None"), **NAMED)
    async with nh.run(steps.executor):
        await plain([1])
    assert len(steps.envelopes) == len(names.split())
    assert all(each["error"] is None for each in steps.envelopes)
    assert "sesame" not in repr(steps.model.requests)
