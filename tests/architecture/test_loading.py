"""What is not loaded before it is used. Lists of names: how long loading takes, the benchmarks tell."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nighthawk_async.testing import ModelReply, ModelServer, tool_call

FIRST_STEP = """
import anyio, json, os, sys
import nighthawk_async as nh

@nh.natural_function
async def answer(question: str) -> str:
    '''natural
    Compute <:result>, the answer to <question>.
    '''
    return result

async def main():
    settings = {"base_url": sys.argv[1], "api_key": "none"}
    configuration = nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)
    async with nh.run(nh.AgentStepExecutor.from_configuration(configuration=configuration)):
        assert await answer("What is six times seven?") == "42"
        assert nh.get_usage_meter().usage.retries == 1

anyio.run(main, backend=sys.argv[2])
print(json.dumps(sorted(sys.modules)))
"""

SCRIPTED_STEP = """
import anyio, json, sys
import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel, model_response, tool_call

@nh.natural_function
async def answer(question: str) -> str:
    '''natural
    Compute <:result>, the answer to <question>.
    '''
    return result

async def main():
    call = tool_call("nh_outcome", kind="pass", bindings={"result": "42"})
    model = ScriptedModel([model_response(call)])
    async with nh.run(nh.AgentStepExecutor.from_model(model=model)):
        assert await answer("What is six times seven?") == "42"

anyio.run(main)
print(json.dumps(sorted(sys.modules)))
"""

IMPORT_ALONE = """
import sys
before = set(sys.modules)
import nighthawk_async
import json
print(json.dumps(sorted(sys.modules.keys() - before)))
"""

UNUSED_LIBRARIES = (
    *("rich", "pygments", "click", "typer", "httpx._main"),  # for command lines
    *("filelock", "platformdirs", "tenacity", "yaml", "xllamacpp", "bpe_openai"),
    *("opentelemetry", "sqlite3", "multiprocessing"),
    *("mcp", "mcp_types", "ray"),
)
"""What a step does without that calls no tool and has a small prompt, also when its request is sent again."""

UNUSED_MODULES = (
    *("nighthawk_async.hooks", "nighthawk_async.human", "nighthawk_async.oversight"),
    *("nighthawk_async.resilience", "nighthawk_async.testing", "nighthawk_async.cli"),
    *("nighthawk_async.asgi", "nighthawk_async.mcp", "nighthawk_async.observe"),
    "nighthawk_async.evals",
    *("nighthawk_async.actors.actor", "nighthawk_async.actors.pool", "nighthawk_async.actors.selection"),
    *("nighthawk_async.actors.locks", "nighthawk_async.actors.shared_state"),
    "nighthawk_async.actors.supervisor",
    *("nighthawk_async.parallel.combinators", "nighthawk_async.parallel.streaming"),
    *("nighthawk_async.parallel.tasks", "nighthawk_async.parallel.resources"),
    *("nighthawk_async.actors.mailbox", "nighthawk_async.kernel.other_models"),
    *("nighthawk_async.values.stable_digest", "nighthawk_async.values.canonical_writing"),
    *("nighthawk_async.models.local", "nighthawk_async.models.weights"),
    *("nighthawk_async.models.batched_model", "nighthawk_async.models.uploads"),
    *("nighthawk_async.models.endpoint_calls", "nighthawk_async.models.multipart"),
    "nighthawk_async.prompt.token_estimate",
    *(
        "nighthawk_async.wire.anthropic.codec",
        "nighthawk_async.wire.google.codec",
        "nighthawk_async.wire.openai_responses.codec",
    ),
    *("nighthawk_async.policies.attempts.policy", "nighthawk_async.policies.attempts.resilience"),
    "nighthawk_async.policies.budgets.budget",
    *("nighthawk_async.policies.hooks.calls", "nighthawk_async.kernel.events"),
    *("nighthawk_async.policies.people.approvals", "nighthawk_async.policies.people.events"),
    *("nighthawk_async.policies.people.request", "nighthawk_async.policies.people.terminal"),
    *("nighthawk_async.policies.oversight.policy", "nighthawk_async.policies.oversight.inspection"),
    *("nighthawk_async.policies.permissions.policy", "nighthawk_async.policies.permissions.guarded_calls"),
    *("nighthawk_async.policies.permissions.permissions", "nighthawk_async.scopes"),
    *("nighthawk_async.telemetry", "nighthawk_async.agent.observed_calls"),
    "nighthawk_async.executors.direct",
    *("nighthawk_async.agent.tool_search", "nighthawk_async.kernel.tool_sets"),
    *("nighthawk_async.agent.partial_answer", "nighthawk_async.agent.request_node"),
    "nighthawk_async.catalog.telemetry_names",
)
"""Our own that such a step does without."""

HTTP_MODULES = (
    *("httpx", "h11", "nighthawk_async.models.providers", "nighthawk_async.models.http_model"),
    *("nighthawk_async.wire.codec", "nighthawk_async.wire.openai_chat"),
    *(
        "nighthawk_async.testing.model_server",
        "nighthawk_async.testing.cassettes",
        "nighthawk_async.recording",
    ),
)
"""What a step does without whose model is no endpoint's."""


@pytest.fixture
def base_url() -> Iterator[str]:
    calls = (
        tool_call("nh_assign", target_path="result", expression="'42'"),
        tool_call("nh_outcome", kind="pass"),
    )
    busy = ModelReply(status=503, headers={"retry-after-ms": "1"}, text="busy")
    with ModelServer.in_thread([busy, ModelReply(tool_calls=calls)]) as server:
        yield server.base_url


def loaded_by(program: str, *arguments: str, folder: Path) -> set[str]:
    """The modules that a program prints, run in a fresh interpreter in which a warning is an error."""
    file = folder / "program.py"
    file.write_text(program, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(file), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout))


def test_the_import_alone_loads_nothing_else_of_the_package(tmp_path: Path) -> None:
    loaded = loaded_by(IMPORT_ALONE, folder=tmp_path)
    ours = {name for name in loaded if name.startswith("nighthawk_async")}
    others = {name.partition(".")[0] for name in loaded - ours} - sys.stdlib_module_names
    assert ours == {f"nighthawk_async{name}" for name in ("", ".lazy_exports", ".tracing")}
    assert others == set()


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
def test_a_first_step_loads_no_feature_that_it_does_not_use(
    base_url: str, backend: str, tmp_path: Path
) -> None:
    loaded = loaded_by(FIRST_STEP, base_url, backend, folder=tmp_path)
    assert "nighthawk_async.models.http_transport" in loaded, "the step was not carried out"
    assert loaded & {*UNUSED_LIBRARIES, *UNUSED_MODULES} == set()


def test_a_step_with_a_scripted_model_loads_no_http(tmp_path: Path) -> None:
    loaded = loaded_by(SCRIPTED_STEP, folder=tmp_path)
    assert "nighthawk_async.testing.scripted_model" in loaded
    assert loaded & {*UNUSED_LIBRARIES, *UNUSED_MODULES, *HTTP_MODULES} == {"nighthawk_async.testing"}


def test_what_is_named_here_exists() -> None:
    """A module that was renamed would be unused for ever."""
    source = Path(__file__).parents[2] / "src"
    names = {name for name in (*UNUSED_MODULES, *HTTP_MODULES) if name.startswith("nighthawk_async")}
    paths = {name: source / name.replace(".", "/") for name in names}
    assert [
        name for name, path in paths.items() if not (path.with_suffix(".py").exists() or path.is_dir())
    ] == []


def test_tasks_have_mailboxes_in_a_program_that_loads_nothing_else(tmp_path: Path) -> None:
    program = """
import json

import anyio
import nighthawk_async as nh

async def receive():
    return await nh.current_task().mailbox.receive()

async def main():
    async with nh.open_tasks() as tasks:
        handle = tasks.start(receive)
        await handle.mailbox.send("message")
        print(json.dumps([await handle]))

anyio.run(main)
"""
    assert loaded_by(program, folder=tmp_path) == {"message"}
