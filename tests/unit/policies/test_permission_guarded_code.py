"""Guarded code does what it does without a guard, whether it can wait or not, and no call escapes."""

import ast
import math
import sys
from collections.abc import Callable
from inspect import iscoroutine
from typing import Any, Literal, cast

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ToolBoundaryError
from nighthawk_async.kernel import context as context_module, pausing
from nighthawk_async.kernel.commands import PausedCode
from nighthawk_async.kernel.context import StepNamespace, compile_expression, compile_statements
from nighthawk_async.kernel.pausing import DrivenCode
from nighthawk_async.kernel.tools import ToolScope
from nighthawk_async.policies.permissions.call import PermissionCall
from nighthawk_async.policies.permissions.guarded_calls import CallGuard, compile_guarded
from nighthawk_async.policies.permissions.permissions import Permissions, permissions
from nighthawk_async.policies.permissions.rules import rule
from nighthawk_async.runtime.step_context import StepContext
from tests.cases import every
from tests.unit.kernel.step_contexts import make_context

Result = tuple[str, object]

ALLOWED = permissions(allow=["eval", "exec"], default="allow")
MAY_ASK = permissions(allow=["eval", "exec"], ask="never_called", default="allow")


def double(number: int) -> int:
    return 2 * number


def caller_names() -> list[str]:
    return sorted(name for name in sys._getframe(1).f_locals if not name.startswith("_"))  # pyright: ignore[reportPrivateUsage]


class Account:
    balance = 5

    def add(self, amount: int) -> "Account":
        self.balance += amount
        return self


async def asking(call: PermissionCall) -> None:
    raise AssertionError("nobody is asked")


@pytest.fixture(autouse=True)
def run_without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no event loop that code which takes some milliseconds could let run."""
    monkeypatch.setattr(pausing, "_HELD_SECONDS", math.inf)


def run(text: str, sets: Permissions | None, mode: Literal["eval", "exec"]) -> Result:
    """What code gives, or how it fails, and what it changed."""
    context = make_context(n=3, items=[3, 1, 2], double=double, account=Account(), caller_names=caller_names)
    guard = (
        None
        if sets is None
        else CallGuard(context, [sets], tools=ToolScope(None), ask=asking, report=lambda call, decision: None)
    )
    namespace = StepNamespace(context)
    code = compile_expression(text) if mode == "eval" else compile_statements(text, filename="<s>")
    try:
        value = namespace.run(code) if guard is None else guard.run(namespace, code, text, mode)
    except Exception as error:
        return f"{type(error).__name__}: {error}", _state(context)
    return repr(_finished(value)), _state(context)


def _finished(value: object) -> object:
    assert not isinstance(value, PausedCode)
    if not iscoroutine(value) and not isinstance(value, DrivenCode):
        return value
    try:
        value.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the code waits for something")


def _state(context: StepContext) -> dict[str, str]:
    return {
        name: repr(value)
        for name, value in context.step_locals.items()
        if isinstance(value, int | str | list | dict | tuple)
    }


EXPRESSIONS = [
    "double(n)",
    "double(double(double(n)))",
    "double(number=n)",
    "double(*[n])",
    "double(**{'number': n})",
    "[double(item) for item in items if double(item) > 2]",
    "{double(a): [double(b) for b in items] for a in items}",
    "{item: double(item) for item in sorted(items)}",
    "list(double(item) for item in items)",
    "sum(double(a) + b for a in items for b in range(double(2)))",
    "(lambda x, y=double(4): double(x) + y)(n)",
    "list(map(lambda item: double(item), items))",
    "sorted(items, key=lambda item: -double(item))",
    "max(items, default=double(1))",
    "account.add(2).add(double(3)).balance",
    "f'{double(n)!r:>5}{\"x\".upper()}'",
    "[locals()['n'], 'n' in dir()]",
    "caller_names()",
    "caller_names(*[])",
    "(lambda inner: caller_names())(1)",
    "eval('double(n)')",
    "(lambda inner: eval('inner', {'inner': 4}))(1)",
    "(total := double(n)) + total",
    "double(n) if double(n) > 5 else double(1)",
    "n and double(n) or double(2)",
    "items[double(0)]",
    "items[double(0):double(1)]",
    "[*items, *map(double, items)]",
    "double",
    "next(iter([]), 5)",
    "n(3)",
    "double()",
    "double(1, 2)",
    "double(missing)",
    "1 / double(0)",
    "(await_ := double)(3)",
]

STATEMENTS = [
    "account.balance = double(2)\nx = account.balance",
    "account.balance += double(1)\nx = account.balance",
    "account.balance: int = 7\nx = account.balance",
    "account.balance, (y, *account.rest) = 1, (2, 3, 4)\nx = [account.balance, y, account.rest]",
    "x = []\nfor account.balance in items: x.append(account.balance)",
    "x = [account.balance for account.balance in items] + [account.balance]",
    "with memoryview(b'ab') as account.view: x = account.view.tolist()",
    "account.next = account\naccount.next.balance = 9\nx = account.balance\ndel account.balance\n"
    "y = account.balance",
    "account.me = [account]\naccount.me[0].balance = 3\nx = account.balance",
    "try: n.x = 1\nexcept AttributeError as error: x = str(error)",
    "try: n.x += 1\nexcept AttributeError as error: x = str(error)",
    "class A:\n    def __init__(self): self.__x = double(1)\n    def x(self): return self.__x\n"
    "x = [A().x(), *vars(A())]",
    "class A:\n    'A docstring.'\n    x: int = 1\n    class B: y = 2\nx = [A.__doc__, A.x, A.B.y, "
    "sorted(each for each in vars(A) if each[0] != '_')]",
    "bases = (list, )\nclass A(*bases, **{'metaclass': type}): pass\nx = [A.__mro__[1].__name__]",
    "try:\n    try: 1 / 0\n    except ZeroDivisionError as error: raise KeyError('x') from error\n"
    "except KeyError as error: x = [repr(error), repr(error.__cause__)]",
    "try: raise ValueError from None\n"
    "except ValueError as error: x = [repr(error), error.__suppress_context__]",
    "try:\n    try: 1 / 0\n    except ZeroDivisionError: raise\nexcept Exception as error: x = repr(error)",
    "try: raise 5\nexcept TypeError as error: x = str(error)",
    "x = {**{'a': double(1)}, 'b': 2, **dict(c=3)}",
    "try: {**n}\nexcept TypeError as error: x = str(error)",
    "import json as j, math\nfrom math import pi as p\nx = [j.__name__, math.pi == p]",
    "def f():\n    import json\n    return json.dumps([double(1)])\nx = f()",
    "if n:\n    import math\n    class A: x = math.floor(1.5)\nelse:\n    import json\nx = A.x",
    "try: import math\nfinally:\n    class A: pass\nx = A.__name__",
    "x = double(n)\ny = [double(x)]",
    "for item in map(double, items):\n    items = [*items, double(item)]\n    if len(items) > 9: break",
    "i = iter([1, 2])\nx = []\nwhile 1:\n    try: x.append(next(i))\n    except StopIteration: break",
    "def f(a, b=double(1), *c: double(2), d: int = double(3)) -> double(4):\n    return a + b + double(d)\n"
    "x = f(1)",
    "def f(a):\n    yield double(a)\n    yield from map(double, [a])\nx = list(f(2))",
    "class A:\n    size = double(4)\n    def grow(self):\n        return double(self.size)\nx = A().grow()",
    "class A:\n    def __init__(self, v=1):\n        self.v = v\nclass B(A):\n    def __init__(self):\n"
    "        super().__init__(double(2))\nx = B().v",
    "class A:\n    def __init_subclass__(cls, size=0): cls.size = size\nclass B(A, size=double(2)): pass\n"
    "x = B.size",
    "class M(type): pass\nclass A(metaclass=M): pass\nx = type(A).__name__",
    "def twice(f):\n    return lambda *a: [f(*a), f(*a)]\n@twice\n@(lambda f: f)\ndef g(a): return double(a)"
    "\nx = g(3)",
    "with memoryview(b'ab') as view:\n    x = view.tolist()",
    "x = 0\ndef f():\n    global x\n    x = double(5)\nf()",
    "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = double(x)\n    g()\n    return x\n"
    "y = f()",
    "try:\n    double(None)\nexcept TypeError as error:\n    x = str(error)\nfinally:\n    y = double(1)",
    "match double(2):\n    case int(v) if double(v) == 8: x = double(v)\n    case _: x = 'none'",
    "x: int = double(1)\nx += double(x)\nassert double(x)\ndel n",
    "x = {}\nx[double(1)] = double(2)\nx.setdefault(double(3), []).append(double(4))",
    "x = [fn() for fn in [lambda v=v: double(v) for v in range(3)]]",
    "raise ValueError(double(n))",
    "import math\nx = math.floor(2.5)",
    "exec('x = double(n)')",
]
if sys.version_info >= (3, 12):
    STATEMENTS.append("def f[T: double(1)](a: T) -> T: return double(a)\nx = f(2)")
    STATEMENTS.append("type X = double(1)\nx = X.__value__")


@every("sets", [ALLOWED, MAY_ASK])
@every("text", EXPRESSIONS)
def test_a_guarded_expression_gives_what_it_gives_without_a_guard(text: str, sets: Permissions) -> None:
    plain, guarded = run(text, None, "eval"), run(text, sets, "eval")
    assert _without_wording(guarded) == _without_wording(plain)


@every("sets", [ALLOWED, MAY_ASK])
@every("text", STATEMENTS)
def test_guarded_statements_do_what_they_do_without_a_guard(text: str, sets: Permissions) -> None:
    assert run(text, sets, "exec") == run(text, None, "exec")


def _without_wording(result: Result) -> Result:
    """The arguments of a call are looked at in another way, so errors about them have other words."""
    text, state = result
    return (text.partition(":")[0] if text.startswith("TypeError") else text.partition(" at 0x")[0]), state


@pytest.mark.parametrize("may_wait", [False, True])
@pytest.mark.parametrize("text", [*EXPRESSIONS, *STATEMENTS])
def test_every_call_stands_behind_the_guard(
    text: str, may_wait: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call in the rewritten tree is one of the guard, or calls what the guard gave."""
    trees: list[ast.AST] = []
    fix = ast.fix_missing_locations

    def keep(tree: Any) -> Any:
        trees.append(tree)
        return fix(tree)

    monkeypatch.setattr(ast, "fix_missing_locations", keep)
    monkeypatch.setattr(context_module, "may_need_checks", lambda text: False)  # those are put in afterwards
    mode = "eval" if text in EXPRESSIONS else "exec"
    compile_guarded.__wrapped__(text, filename="<test>", mode=mode, may_wait=may_wait)
    for node in ast.walk(trees[-1]):
        if isinstance(node, ast.Call):
            assert _is_of_guard(node.func) or _is_of_guard(cast("ast.Call", _awaited(node.func)).func)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            assert all(_is_of_guard(cast("ast.Call", each).func) for each in node.decorator_list)


def _awaited(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Await) else node


def _is_of_guard(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Constant)
        and str(node.value.value).startswith("guard of the step ")
    )


def recording(sets: Permissions, **names: object) -> tuple[Callable[[str], object], list[str]]:
    """Runs expressions, or statements, with a guard; and what was not plainly allowed."""
    context = make_context(**names)
    told: list[str] = []
    guard = CallGuard(
        context,
        [sets],
        tools=ToolScope(None),
        ask=asking,
        report=lambda call, decision: told.append(f"{decision.verdict} {call.name}"),
    )
    namespace = StepNamespace(context)

    def carry_out(text: str) -> object:
        try:
            code, mode = compile_expression(text), "eval"
        except SyntaxError:
            code, mode = compile_statements(text, filename="<test>"), "exec"
        return guard.run(namespace, code, text, cast("Any", mode))

    return carry_out, told


@every(
    "text",
    [
        "double(1)",
        "double.__call__(1)",
        "[*map(double, [1])]",
        "max([1, 2], key=double)",
        "[double][0](1)",
        "{'d': double}['d'](1)",
        "(lambda f: f(1))(double)",
        "type('A', (), {'d': double})().d()",
        "type('A.b', (), {'d': double})().d()",
        "eval('double(1)')",
        "[*map(eval, ['double(1)'])]",
        "eval.__call__('double(1)')",
        "alias = double\nalias(1)",
        "@double\ndef f(): pass",
        "class A(metaclass=double): pass",
        "class A:\n    x = double(1)",
        "def f():\n    return double(1)\nf()",
        "def f(x=double(1)): pass",
        "def f(x: double(1)): pass",
        "from functools import partial\npartial(double, 1)()",
        "for x in (double(y) for y in [1]): pass",
        "with double(1): pass",
        "x = [0]\nx[double(0)] = 1",
        "exec('double(1)')",
    ],
)
@every("others", ["allow", "ask"])
def test_a_function_that_is_denied_is_reached_in_no_way_that_shows(
    text: str, others: Literal["allow", "ask"]
) -> None:
    called: list[object] = []

    def double(*args: object, **kwargs: object) -> None:
        called.append(args)

    sets = permissions(
        allow=["A", "partial"], deny=double, ask="x" if others == "ask" else (), default="allow"
    )
    carry_out, told = recording(sets, double=double)
    with pytest.raises(nh.errors.ToolBoundaryError, match="is not permitted") as caught:
        carry_out(text)
    assert caught.value.kind == "oversight"
    assert not called
    assert told in (["deny double"], ["deny eval"], ["deny exec"])


@pytest.mark.parametrize(
    "text",
    [
        "(lambda: double(1))()",
        "[*(double(x) for x in [1])]",
        "[*map(double, [1])]",
        "def f():\n    return double(1)\nf()",
        "class A:\n    x = double(1)",
        "@double\ndef f(): pass",
    ],
)
def test_where_nobody_can_be_waited_for_asking_is_a_denial(text: str) -> None:
    carry_out, told = recording(permissions(ask="double", default="allow"), double=double)
    with pytest.raises(nh.errors.ToolBoundaryError) as caught:
        carry_out(text)
    assert caught.value.kind == "oversight"
    assert caught.value.guidance == "Call double directly."
    assert told == ["ask double"]


@pytest.mark.parametrize(
    ("sets", "verdict"),
    [
        (permissions(deny=rule("double", number=5), default="allow"), "deny"),
        (
            permissions(ask=rule("double", when=lambda call: call.arguments["number"] > 4), default="allow"),
            "ask",
        ),
        (permissions(allow=rule("double", number=lambda number: number < 5), default="deny"), "deny"),
    ],
)
def test_a_function_is_not_handed_over_when_its_arguments_decide(sets: Permissions, verdict: str) -> None:
    carry_out, told = recording(sets, double=double)
    assert carry_out("double(1)") == 2
    with pytest.raises(nh.errors.ToolBoundaryError, match="not permitted to be handed"):
        carry_out("[*map(double, [5])]")
    assert told == [f"{verdict} double"]


def test_code_that_asks_in_an_async_function_of_its_own_waits_there() -> None:
    carry_out, _ = recording(permissions(ask="double", default="allow"), double=double)
    carry_out("async def f():\n    return double(1)")
    coroutine = carry_out("f()")
    assert iscoroutine(coroutine)
    with pytest.raises(AssertionError, match="nobody is asked"):
        cast("Any", coroutine).send(None)


def test_looking_at_a_function_that_is_denied_is_no_call() -> None:
    carry_out, told = recording(permissions(default="deny"), double=double, account=Account())
    assert carry_out("[callable(double), isinstance(account, type(account)), repr(double)[:9]]") == [
        True,
        True,
        "<function",
    ]
    assert told == []


def test_annotations_that_stay_texts_are_refused() -> None:
    text = "from __future__ import annotations\nx: double(1) = double(2)"
    with pytest.raises(ToolBoundaryError, match="annotations"):
        compile_guarded(text, filename="<test>", mode="exec", may_wait=True)


def test_deep_nesting_is_refused_and_does_not_end_the_interpreter() -> None:
    with pytest.raises(SyntaxError):
        compile_guarded("-" * 100_000 + "1", filename="<test>", mode="eval", may_wait=True)
