"""Servers of others, from npm, in the folder `NIGHTHAWK_NPM`, or in `.cache/npm` as `make test` makes it."""

import os
import random
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call
from tests.unit.mcp.support import processes

pytestmark = pytest.mark.anyio
FOLDER = Path(os.environ.get("NIGHTHAWK_NPM") or Path(__file__).parents[2] / ".cache" / "npm")


def server(name: str, *arguments: Any, **options: Any) -> nh.mcp.Server:
    """One of the servers, which tests skip when it is not installed."""
    command = FOLDER / "node_modules" / ".bin" / f"mcp-server-{name}"
    if not command.exists():
        pytest.skip(f"{command} is not installed; NIGHTHAWK_NPM names a folder with node_modules")
    return nh.mcp.stdio(command, *arguments, **options)


@pytest.fixture(scope="session", autouse=True)
def _loaded_package() -> None:
    from nighthawk_async.mcp import session  # noqa: F401


@nh.natural_function
async def copy(files: object) -> str:
    """natural
    Copy a.txt to b.txt with <files>. Set <:result> to its text.
    """
    return result  # pyright: ignore


async def test_a_block_works_with_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    expression = f"(await files.read_text_file(path='{tmp_path}/a.txt'))['content']"
    write = f"await files.write_file(path='{tmp_path}/b.txt', content=result)"
    model = ScriptedModel(
        [
            model_response(
                tool_call("nh_assign", target_path="result", expression=expression),
                tool_call("nh_eval", expression=write),
                tool_call("nh_outcome", kind="pass"),
            )
        ]
    )
    files = server("filesystem", tmp_path)
    async with nh.run(model, servers={"files": files}), nh.mcp.connect(files) as found:
        assert await copy(found) == "hello"
        with pytest.raises(nh.mcp.ServerToolError, match="outside allowed directories"):
            await found.read_text_file(path="/etc/passwd")
    assert (tmp_path / "b.txt").read_text() == "hello"


async def test_twenty_parallel_writers_lose_nothing(tmp_path: Path) -> None:
    memory = server("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.json")})
    async with nh.mcp.connect(memory) as graph:
        async with anyio.create_task_group() as group:
            for number in range(20):
                entity = {"name": f"entity {number}", "entityType": "thing", "observations": []}
                group.start_soon(graph.create_entities, [entity])
        entities = (await graph.read_graph())["entities"]
    assert len(entities) == 20


async def test_everything_that_the_reference_server_does(tmp_path: Path) -> None:
    everything = server("everything")
    async with nh.run(ScriptedModel([])):
        with nh.observe.recording() as tree:
            async with nh.mcp.connect(everything, name="everything") as tools:
                assert await tools.get_sum(a=1, b=2) == "The sum of 1 and 2 is 3."
                picture = (await tools.get_tiny_image())[1]
                assert picture.media_type == "image/png"
                weather = await tools.get_structured_content(location="Chicago")
                assert set(weather) == {"temperature", "conditions", "humidity"}
                with pytest.raises(nh.mcp.ServerToolError) as refused:
                    await tools.get_sum(a="one", b=2)
                assert refused.value.kind == "invalid_input"
                links = (await tools.get_resource_links(count=1))[1:]
                assert isinstance(links[0], nh.mcp.LinkedResource)
                (content,) = await nh.mcp.read_resource(tools, links[0].uri)
                assert content.uri == links[0].uri
                (message,) = await nh.mcp.get_prompt(tools, "args-prompt", city="Paris")
                assert "Paris" in message.content
                await tools.trigger_long_running_operation(duration=0.2, steps=2)
    nodes = {node.name: node for node in tree.snapshot().children}
    assert nodes["Everything.trigger_long_running_operation"].attributes["mcp.progress"] == 2


async def test_a_thousand_calls_of_which_some_are_cancelled(chance: random.Random) -> None:
    done: list[int] = []
    async with nh.mcp.connect(server("everything")) as tools:

        async def call(number: int) -> None:
            with anyio.move_on_after(0 if chance.random() < 0.1 else None):
                assert str(number) in await tools.echo(message=str(number))
                done.append(number)

        async with anyio.create_task_group() as group:
            for number in range(1_000):
                group.start_soon(call, number)
        assert await tools.echo(message="after") == "Echo: after"
    assert 800 < len(done) < 1_000
    assert processes() == []
