"""The client and the server of this library together, over both transports."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.unit.mcp.serving_support import CLIENT_WARNINGS, Steps, count_run, serving, stars
from tests.unit.mcp.test_in_runs import People

pytestmark = [pytest.mark.anyio, CLIENT_WARNINGS]
TRANSPORTS = ("http", "stdio")
PROGRAM = Path(__file__).with_name("serving_program.py")


@asynccontextmanager
async def served(transport: str) -> AsyncIterator[nh.mcp.Server]:
    """A server of `stars`."""
    if transport == "http":
        app = nh.mcp.serve([stars], run=count_run, token="sesame")
        async with serving(app) as url:
            yield nh.mcp.http(url, headers={"Authorization": "Bearer sesame"}, name="shop")
        return
    command = [*("-m", "nighthawk_async", "mcp", "serve", f"{PROGRAM}:stars")]
    yield nh.mcp.stdio(sys.executable, *command, "--run", f"{PROGRAM}:make_run", "--stdio", name="shop")


@nh.natural_function
async def count(review: str) -> int:
    """natural
    Count the stars of <review> with <shop>. Set <:result>.
    """
    return result  # pyright: ignore


def answer(request: Any) -> Any:
    call = tool_call("nh_assign", target_path="result", expression="await shop.stars(review=review)")
    return model_response(call, tool_call("nh_outcome", kind="pass"))


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_hundred_blocks_call_a_natural_function_of_a_server_once_in_all_lives(
    transport: str, tmp_path: Path
) -> None:
    people = People()
    rules = nh.permissions(ask=["Shop.stars"], default="deny")
    reviews = ["*" * number for number in range(100)]
    models = [ScriptedModel(answer), ScriptedModel([])]  # the second life asks no model
    async with served(transport) as shop:
        with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
            for model in models:
                async with nh.run(
                    model,
                    servers={"shop": shop},
                    permissions=rules,
                    human=people,
                    journal=store,
                    run_id="one",
                ):
                    with nh.scope():
                        assert await nh.parallel.map(count, reviews) == list(range(100))
    assert len(people.requests) == 100


async def test_a_call_that_is_cancelled_here_is_cancelled_there() -> None:
    steps = Steps()
    app = nh.mcp.serve([nh.mcp.Served(steps.wait, name="wait")], run=count_run)
    async with (
        serving(app) as url,
        nh.run(ScriptedModel([])),
        nh.mcp.connect(nh.mcp.http(url), name="shop") as shop,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(shop.wait)
            await steps.until(lambda: steps.begun == 1)
            tasks.cancel_scope.cancel()
        await steps.until(lambda: steps.cancelled == 1)
        steps.release.set()
        assert await shop.wait() == "waited"


@dataclass
class Order:
    """What somebody drinks."""

    drink: str
    sugar: int


async def take_order() -> Order:
    """Ask for an order."""
    return await nh.ask_user("What do you drink?", schema=Order)


async def double(numbers: list[float]) -> list[float]:
    """Double numbers."""
    return [2 * number for number in numbers]


async def fail(kind: str) -> str:
    """Fail."""
    if kind == "time":
        raise nh.errors.ToolBoundaryError(kind="transient", message="closed until noon")
    raise ValueError(f"no {kind}")


class Person:
    """Drinks tea."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def ask(self, question: nh.human.Question) -> object:
        self.prompts.append(question.prompt)
        return {"drink": "tea", "sugar": 2}

    async def approve(self, request: object) -> None:
        raise AssertionError(request)


async def test_questions_values_and_errors_of_a_served_function_reach_the_caller() -> None:
    person = Person()
    app = nh.mcp.serve([take_order, double, stars, fail], run=count_run)
    async with (
        serving(app) as url,
        nh.run(ScriptedModel([]), human=person),
        nh.mcp.connect(nh.mcp.http(url, name="bar")) as bar,
    ):
        assert await bar.take_order() == {"drink": "tea", "sugar": 2}
        assert await bar.double(numbers=[1, 0.5]) == [2, 1]
        assert await bar.stars(review="**") == 2
        with pytest.raises(nh.mcp.ServerToolError, match="fail: ValueError: no milk"):
            await bar.fail(kind="milk")
        with pytest.raises(nh.mcp.ServerToolError, match="Input should be a valid string") as refused:
            await bar.fail(kind=3)
        with pytest.raises(nh.mcp.ServerToolError, match="closed until noon") as closed:
            await bar.fail(kind="time")
    assert refused.value.kind == "invalid_input"
    assert closed.value.is_transient
    (prompt,) = person.prompts
    assert "What do you drink?" in prompt


def test_a_client_and_a_server_load_the_package_at_the_same_time() -> None:
    program = (
        "import anyio, sys\n"
        "import nighthawk_async as nh\n"
        "from nighthawk_async.testing import ScriptedModel\n"
        "def hello() -> str:\n"
        "    return 'hello'\n"
        "async def connect():\n"
        "    try:\n"
        "        async with nh.mcp.connect(nh.mcp.stdio('no-such-command')):\n"
        "            pass\n"
        "    except nh.mcp.ServerUnavailableError:\n"
        "        print('connected')\n"
        "async def serve():\n"
        "    async with nh.mcp.serve([hello], run=lambda: nh.run(ScriptedModel([]))).lifespan():\n"
        "        print('served')\n"
        "async def main():\n"
        "    async with anyio.create_task_group() as tasks:\n"
        "        tasks.start_soon(connect)\n"
        "        tasks.start_soon(serve)\n"
        "anyio.run(main)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert sorted(result.stdout.split()) == ["connected", "served"], result.stderr
