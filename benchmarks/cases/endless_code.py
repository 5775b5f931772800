"""The silence of the event loop while a model's code would never end, and what checks cost code that ends."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal

import anyio

import nighthawk_async as nh
from nighthawk_async.testing import ModelResponse, ScriptedModel, model_response, tool_call

from ..measure import Benchmark
from ..silence import longest_silence

__all__ = ["BENCHMARKS"]

CODE_SECONDS = 0.5
"""The time after which endless code is ended."""

ENDLESS: Mapping[str, str] = MappingProxyType(
    {
        "loop": "while True: pass",
        "catching": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "comprehension": "[1 for _ in iter(int, 1)]",
        "generator": "sum(1 for _ in iter(int, 1))",
        "recursion": "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(99)",
        "key": "def key(value):\n    while True: pass\nsorted([3, 1, 2], key=key)",
        "nested": "def f():\n    def g():\n        while True: pass\n    try: g()\n    finally: f()\nf()",
    }
)
"""Code that never ends, by names."""

ENDING: Mapping[str, str] = MappingProxyType(
    {
        "call": "x = len(text)",
        "for": "s = 0\nfor i in range(100000): s += i",
        "while": "i = 0\nwhile i < 100000: i += 1",
        "comprehension": "x = [i for i in range(100000)]",
    }
)
"""Code that ends."""


@nh.natural_function
async def compute(text: str) -> None:
    """Compute something."""
    """natural
    Compute with <text>.
    """


def executing(code: str, *, seconds: float | None) -> nh.AgentStepExecutor:
    """An executor whose model executes code, and then ends the block."""

    def answer(request: nh.models.ModelRequest) -> ModelResponse:
        is_first = len(request.messages) == 1
        return model_response(
            tool_call("nh_exec", statements=code) if is_first else tool_call("nh_outcome", kind="pass")
        )

    configuration = nh.StepExecutorConfiguration(max_code_seconds=seconds, provided_tools=("nh_exec",))
    return nh.AgentStepExecutor.from_model(model=ScriptedModel(answer), configuration=configuration)


async def listen(code: str, steps: int) -> Mapping[str, float]:
    """Carry out steps with endless code beside a task that notes the longest time between its turns."""

    async def carry_out() -> None:
        async with nh.run(executing(code, seconds=CODE_SECONDS)):
            for _ in range(steps):
                await compute("a")

    async with nh.run(executing(ENDING["for"], seconds=None)):
        await compute("a")  # what is imported for the first loop counts for none
    return {"longest_silence": await longest_silence(carry_out)}


async def execute(code: str, steps: int) -> None:
    """Carry out steps whose code ends."""
    async with nh.run(executing(code, seconds=None)):
        for _ in range(steps):
            await compute("a")


def _listen(code: str, backend: Literal["trio", "asyncio"], steps: int) -> Mapping[str, float]:
    return anyio.run(partial(listen, code, steps), backend=backend)


BENCHMARKS = (
    *(
        Benchmark(
            name=f"endless-code-{name}-{backend}",
            what=f"one step whose code never ends: {name}",
            run=partial(_listen, code, backend),
            operations=2,
            quick_operations=1,
        )
        for name, code in ENDLESS.items()
        for backend in ("trio", "asyncio")
    ),
    *(
        Benchmark(
            name=f"code-{name}",
            what=f"one step that executes one piece of code: {name}",
            run=partial(anyio.run, partial(execute, code), backend="trio"),
            operations=20,
            quick_operations=2,
        )
        for name, code in ENDING.items()
    ),
)
