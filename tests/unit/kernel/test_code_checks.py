"""Code of a model that would never end: it is ended, the event loop runs meanwhile, and the step goes on."""

import contextvars
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

pytestmark = pytest.mark.anyio

CODE_TOOLS = ("nh_exec", "nh_eval", "nh_assign")

ENDLESS = {
    "a loop": "while True: pass",
    "loops that catch everything": (
        "while True:\n    try:\n        while True:\n            try: 1 / 0\n            finally: continue\n"
        "    except BaseException: pass"
    ),
    "a comprehension": "[1 for _ in iter(int, 1)]",
    "nested comprehensions": "{a: b for a in range(9**9) for b in (1, 2) if b > 3}",
    "a generator that C consumes": "sum(1 for _ in iter(int, 1))",
    "a key of sorted": "def key(value):\n    while True: pass\nsorted([3, 1, 2], key=key)",
    "a method": "class A:\n    def __len__(self):\n        while True: pass\nlen(A())",
    "recursion": "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(99)",
    "recursive lambdas": "f = lambda g, n: n if n < 2 else g(g, n - 1) + g(g, n - 2)\nf(f, 99)",
    "recursion that catches everything": (
        "def f(n):\n    try:\n        if n: f(n - 1)\n        while True: pass\n    except BaseException:\n"
        "        f(n)\n    finally:\n        f(n)\nf(9)"
    ),
    "a suppressed end": (
        "import contextlib\nwith contextlib.suppress(BaseException):\n    while True: pass\nkept = 2"
    ),
    "an async function": "async def f():\n    while True: pass\nawait f()",
    "async functions together": "async def f():\n    while True: pass\n[f(), f()]",
    "a function of an async one": "def g():\n    while True: pass\nasync def f(): g()\n[f()]",
    "an await before": "await pause()\nwhile True: pass",
    "awaits in between": "while True: await pause()",
    "an iterator without an end": "import itertools\nlist(itertools.count())",
    "a search in one": "import itertools\n-1 in itertools.count()",
    "a filter of one": "import itertools\nnext(filter(None, itertools.repeat(0)))",
    "one that is unpacked": "import itertools\n[*itertools.count()]",
    "a long range": "sum(range(10**12))",
    "one that is unpacked into names": "import itertools\na, *b = itertools.count()",
    "a worker thread": "def f():\n    while True: pass\nblocking(f)()",
}
"""Code that never ends; `kept` is bound before it."""

LARGE = {
    "10 ** 10 ** 8": "400,000,000 bits",
    "x = 10\nx **= 10 ** 8": "400,000,000 bits",
    "pow(10, 100000000)": "400,000,000 bits",
    "1 << 10 ** 10": "10,000,000,001 bits",
    "a = 10 ** 800000\na * a": "bits",
    "'a' * 10 ** 10": "10,000,000,000 characters",
    "n = 10 ** 10\nn * b'a'": "10,000,000,000 characters",
    "[0] * 10 ** 10": "10,000,000,000 items",
    "a, *b = range(10 ** 12)": "1,000,000,000,000 items",
    "list(range(10 ** 12))": "1,000,000,000,000 items",
    "''.join(['a' * 10 ** 7] * 10)": "100,000,000 characters",
    "pow(3, 2 ** 4000000 - 1, 2 ** 4000000 - 3)": "16,000,000,000,000 steps",
    "sum([[1] * 10 ** 6] * 10 ** 4, [])": "items",
    "x = [0]\nx *= 10 ** 10": "10,000,000,000 items",
    "'x'.ljust(10 ** 10)": "10,000,000,000 characters",
    "str.center('x', 10 ** 10)": "10,000,000,000 characters",
    "bytearray(10 ** 10)": "10,000,000,000 characters",
    "import math\nmath.factorial(10 ** 8)": "bits",
    "import math\nmath.comb(10 ** 9, 10 ** 8)": "bits",
    "import operator\noperator.mul([0], 10 ** 10)": "10,000,000,000 items",
}
"""Operations that are refused, with what the refusal says."""


async def pause() -> None:
    await checkpoint()


@nh.natural_function
async def compute(other: object = None) -> int:
    x: int = 0
    """natural
    Set <:x> with <pause>, <blocking> and <other>.
    """
    return x


blocking = nh.blocking


def executing(*cells: str, seconds: float | None = 0.05) -> nh.AgentStepExecutor:
    """An executor whose model executes cells one after the other, and then sets x to 4."""
    calls = [model_response(tool_call("nh_exec", statements=cell)) for cell in cells]
    return answering(
        *calls, model_response(tool_call("nh_outcome", kind="pass", bindings={"x": 4})), seconds=seconds
    )


def answering(*responses: ModelResponse, seconds: float | None = 0.05) -> nh.AgentStepExecutor:
    configuration = nh.StepExecutorConfiguration(
        max_code_seconds=seconds,
        provided_tools=CODE_TOOLS,
        max_turns=99,
        code="python",  # the level "shown" has no `time.sleep`, and what it refuses does not run
    )
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(list(responses)), configuration=configuration)


def results_of(executor: nh.AgentStepExecutor) -> list[str]:
    """The results of the model's calls, in order."""
    model: Any = executor.model
    messages = model.requests[-1].messages
    return [text for each in messages if hasattr(each, "results") for text in map(str, each.results)]


class Neighbour:
    """Another task of the event loop. It counts its turns."""

    turns = 0

    async def run(self) -> None:
        while True:
            self.turns += 1
            await anyio.sleep(0.001)  # one that never waits would delay the first step of the program


@asynccontextmanager
async def neighbour() -> Any:
    other = Neighbour()
    async with anyio.create_task_group() as task_group:
        task_group.start_soon(other.run)
        yield other
        task_group.cancel_scope.cancel()


async def test_endless_code_is_ended_and_the_step_goes_on() -> None:
    for name, code in ENDLESS.items():
        executor = executing(f"kept = 1\n{code}", "x = kept + 1\nx")
        async with neighbour() as other, nh.run(executor):
            before = other.turns
            assert await compute() == 4, name
            # Between the first turn of the model and its last are some; endless code adds more.
            assert other.turns > before, name
        ended, after = results_of(executor)[:2]
        assert "it ran for more than 0.05 s (max_code_seconds)" in ended, (name, ended)
        assert "not undone: " in ended, (name, ended)
        assert '"value": 2' in after, (name, after)


async def test_the_event_loop_runs_while_code_runs() -> None:
    """Code waits, without an `await`, until another task has counted."""
    waiting = {
        "a loop": "while other.turns < 9: pass\nother.turns > 8",
        "a comprehension": "any(other.turns > 8 for _ in iter(int, 1))",
        "a callback": "def f(value):\n    while other.turns < 9: pass\n    return 1\n[*map(f, [1])] == [1]",
        "an async function": "async def f():\n    while other.turns < 9: pass\n    return True\nawait f()",
        "one that is not awaited": "async def f():\n    while other.turns < 9: pass\n    return True\nf()",
        "sleep": "import time\nwhile other.turns < 9: time.sleep(0.001)\nTrue",
    }
    for name, code in waiting.items():
        executor = executing(code, seconds=None)
        async with neighbour() as other, nh.run(executor):
            other.turns = 0
            await compute(other)
        assert '"value": true' in results_of(executor)[0], (name, results_of(executor))


async def test_large_results_are_refused() -> None:
    executor = executing(*LARGE)
    async with nh.run(executor):
        assert await compute() == 4
    for (code, said), result in zip(LARGE.items(), results_of(executor), strict=False):
        assert "It was not carried out" in result, (code, result)
        assert said in result, (code, result)


async def test_expressions_are_ended_as_well() -> None:
    endless = "[1 for _ in iter(int, 1)]"
    executor = answering(
        model_response(tool_call("nh_eval", expression=endless)),
        model_response(tool_call("nh_assign", target_path="x", expression=f"len({endless})")),
        model_response(tool_call("nh_assign", target_path="x", expression="1 + 2")),
        model_response(tool_call("nh_outcome", kind="pass")),
    )
    async with nh.run(executor):
        assert await compute() == 3
    evaluated, assigned = results_of(executor)[:2]
    assert "max_code_seconds" in evaluated
    assert "max_code_seconds" in assigned


ENDLESS_AT_ONCE = (
    "a loop",
    "loops that catch everything",
    "a key of sorted",
    "an async function",
    "recursion",
)


async def test_a_cancellation_from_outside_ends_code() -> None:
    for name in ENDLESS_AT_ONCE:
        begun: list[int] = []
        executor = executing(f"other.append(1)\n{ENDLESS[name]}", seconds=None)
        async with nh.run(executor), anyio.create_task_group() as task_group:
            task_group.start_soon(compute, begun)
            await _until(begun)
            task_group.cancel_scope.cancel()
        assert task_group.cancel_scope.cancelled_caught, name


async def _until(begun: list[int]) -> None:
    while not begun:  # noqa: ASYNC110  (code of a model can set no event)
        await anyio.sleep(0.001)


async def test_a_deadline_ends_code() -> None:
    configuration = nh.StepExecutorConfiguration(
        max_code_seconds=None, step_timeout=0.1, provided_tools=CODE_TOOLS
    )
    model = ScriptedModel([model_response(tool_call("nh_exec", statements=ENDLESS["a loop"]))])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model, configuration=configuration)):
        with pytest.raises(nh.ExecutionError, match="step_timeout"):
            await compute()


async def test_stopping_a_step_ends_its_code() -> None:
    begun: list[int] = []
    executor = executing(f"other.append(1)\n{ENDLESS['a loop']}", seconds=None)
    async with nh.run(executor), nh.open_tasks() as tasks:
        task = tasks.start(compute, begun)
        await _until(begun)
        task.stop("enough")
        with pytest.raises(nh.ExecutionError, match="enough"):
            await task


async def test_code_gives_what_it_gives_without_checks() -> None:
    given: list[object] = []
    executor = executing(*(f"{code}\nother.append(result)" for code in SAME), seconds=None)
    async with nh.run(executor):
        await compute(given)
    assert len(given) == len(SAME), results_of(executor)
    for code, result in zip(SAME, given, strict=True):
        plain: dict[str, Any] = {}
        exec(code, plain)
        assert repr(plain["result"]) == repr(result), code


SAME = (
    "result = [*range(5), *[x * 2 for x in range(3) if x], *'ab']",
    "result = [(a, b) for a in range(200) for b in range(a, a + 2)][-3:]",
    "it = iter(range(300))\nresult = [(x, next(it)) for x in it][-2:]",
    "result = []\nfor x in range(150):\n    if x == 70: break\nelse: x = -1\nresult = x",
    "n = 0\nwhile n < 500:\n    n += 1\n    if n % 2: continue\nelse:\n    n = -n\nresult = n",
    "def f(a, *b, c=2 ** 3, **d):\n    'doc'\n    return a, b, c, d\n"
    "result = f(1, *range(3), **{'e': 4}), f.__doc__",
    "result = (lambda x, y=2: x ** y << 1)(3)",
    "a = b = [1]\na *= 3\nresult = (b, 'ab' * 2, 2 * (1,), -2 ** 2, 2 ** -1, True * 2, 1.5 * 2)",
    "class A:\n    def __mul__(self, other): return 'mul'\n    def __pow__(self, other): return 'pow'\n"
    "    def __imul__(self, other): return 'imul'\na = A()\nresult = a * 2, a ** 2\na *= 3\nresult += (a,)",
    "x = {'k': [1, 2]}\nx['k'] *= 2\nresult = x",
    "def g():\n    got = yield 1\n    try: yield got\n    finally: seen.append(2)\nseen = []\ng = g()\n"
    "result = [next(g), g.send(5), g.close(), seen]",
    "import itertools\nresult = [next(itertools.count(5)), list(itertools.islice(itertools.cycle('ab'), 5))]",
    "result = [sum(range(20000)), max(range(20000)), sorted(range(3), key=lambda x: -x)]",
    "result = list(zip(range(2), 'ab')), len(range(10**9)), 5 in range(10**9), {}.fromkeys(range(2))",
    "from operator import mul\nfrom functools import reduce\nresult = reduce(mul, range(1, 20))",
    "a, *b = range(5)\n(c, *d), e = [range(3), 1]\nresult = a, b, c, d, e",
    "def f():\n    try: return 1\n    finally: log.append('f')\nlog = []\nresult = f(), log",
    "try:\n    [1 // x for x in (1, 0)]\nexcept ZeroDivisionError as error:\n    result = str(error)",
    "try:\n    for x in 5: pass\nexcept TypeError as error:\n    result = str(error)",
    "import contextlib\nwith contextlib.suppress(KeyError):\n    for x in range(3): {}[x]\nresult = x",
)
"""Code that binds `result`."""


async def test_what_code_has_made_runs_without_a_limit_after_the_step() -> None:
    made: list[Callable[[], object]] = []
    executor = executing(
        "def f():\n    n = 0\n    while n < 200_000: n += 1\n    return n\nother.append(f)", seconds=0.001
    )
    async with nh.run(executor):
        await compute(made)
        assert made[0]() == 200_000


async def test_code_that_pauses_keeps_its_context() -> None:
    variable = contextvars.ContextVar("variable", default=0)

    def with_variable(function: Callable[[], object]) -> object:
        token = variable.set(variable.get() + 1)
        try:
            return function(), variable.get()
        finally:
            variable.reset(token)

    async with neighbour() as other:
        other.calls = with_variable  # type: ignore[attr-defined]
        code = "other.turns = 0\ndef f():\n    while other.turns < 9: pass\n    return 1\n"
        code += "[other.calls(lambda: other.calls(f)), other.calls(f)]"
        executor = executing(code, seconds=None)
        async with nh.run(executor):
            await compute(other)
    assert '"value": [[[1, 2], 1], [1, 1]]' in results_of(executor)[0], results_of(executor)


async def test_code_that_is_nested_too_deeply_for_checks_is_refused() -> None:
    code = "while False:\n    x = " + "(" * 90 + "-" * 900 + "1" + ")" * 90
    executor = executing(code)
    async with nh.run(executor):
        assert await compute() == 4
    assert "nested too deeply" in results_of(executor)[0], results_of(executor)[0][:300]
