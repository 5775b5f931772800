"""`local:NAME` as a model: what it needs, what it sends, what it says when something is missing."""

import importlib.util
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from nighthawk_async.catalog.local import LOCAL_MODELS
from nighthawk_async.errors import ConfigurationError, UnknownModelError
from nighthawk_async.models.local import (
    LocalModel,
    LocalServer,
    create_local_model,
    open_local_server,
    require_local_extra,
)
from nighthawk_async.models.local_process import LocalServerLaunch, available_processors
from nighthawk_async.models.providers import create_model
from nighthawk_async.ports import Model
from nighthawk_async.testing import ModelReply, ModelServer
from nighthawk_async.types.messages import UserMessage
from nighthawk_async.types.model import (
    ModelRequest,
    ResponseFinished,
    ResponseFormat,
    TextDelta,
    UsageReported,
)

MakeLaunch = Callable[..., LocalServerLaunch]


@pytest.fixture(autouse=True)
def extra_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "my model.gguf"
    path.write_bytes(b"GGUF")
    return path


def launch_of(model: LocalModel) -> LocalServerLaunch:
    return model._launch  # pyright: ignore[reportPrivateUsage]


def test_without_the_extra_the_error_names_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for attempt in (require_local_extra, lambda: create_local_model("smollm2-135m")):
        with pytest.raises(ConfigurationError, match=r"pip install 'nighthawk-async\[local\]'"):
            attempt()


def test_without_weights_the_error_names_the_command_that_fetches_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nighthawk-async models pull smollm2-135m"):
        create_local_model("smollm2-135m", environment={"NIGHTHAWK_CACHE_DIR": str(tmp_path)})


def test_a_gguf_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.gguf"
    with pytest.raises(ConfigurationError, match=f"There is no model file {missing}"):
        create_local_model(str(missing))


@pytest.mark.parametrize("name", ["smollm3", "model.bin", "/a/directory/"])
def test_a_name_that_is_no_model_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownModelError, match=r"smollm2-135m.*\.gguf"):
        create_local_model(name)


def test_a_gguf_file_gets_conservative_capabilities(gguf: Path) -> None:
    model = create_local_model(str(gguf))
    assert isinstance(model, Model)
    assert model.name == f"local:{gguf}"
    assert repr(model) == f"LocalModel('local:{gguf}')"
    assert not model.capabilities.is_small
    assert not model.capabilities.tools
    assert model.capabilities.structured_output
    assert model.capabilities.default_transport == "direct"


def test_the_small_model_is_known_to_be_small() -> None:
    capabilities = LOCAL_MODELS["smollm2-135m"].capabilities
    assert capabilities.is_small
    assert capabilities.default_transport == "direct"
    assert not capabilities.tools


def test_a_model_id_reaches_the_local_model(gguf: Path) -> None:
    assert isinstance(create_model(f"local:{gguf}"), LocalModel)


def test_server_settings_shape_the_launch(gguf: Path) -> None:
    settings = {"context_tokens": 512, "parallel_requests": 3, "threads": 1, "start_timeout": 5}
    assert launch_of(create_local_model(str(gguf), settings=settings)) == LocalServerLaunch(
        gguf=gguf, context_tokens=512, parallel_requests=3, threads=1, start_timeout=5
    )
    usual = launch_of(create_local_model(str(gguf), settings={"temperature": 1}))
    assert (usual.context_tokens, usual.parallel_requests) == (4_096, 2)
    assert usual.threads == max(1, min(8, available_processors() - 1))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"threads": 0}, "'threads'"),
        ({"context_tokens": "many"}, "'context_tokens'"),
        ({"start_timeout": -1}, "'start_timeout'"),
        ({"timeout": "soon"}, "'timeout'"),
        ({"base_url": "http://127.0.0.1:1"}, "'base_url'"),
        ({"api_key": "secret"}, "'api_key'"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_started(
    gguf: Path, setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as failure:
        create_local_model(str(gguf), settings=setting)
    assert "secret" not in str(failure.value)


REQUEST = ModelRequest(
    system_prompt="Answer.",
    messages=(UserMessage(content=("Hello",)),),
    response_format=ResponseFormat(name="answer", schema={"type": "object"}),
    settings={"threads": 1, "seed": 5},
)


@asynccontextmanager
async def served_model(
    server: ModelServer, make_launch: MakeLaunch, program: Path
) -> AsyncGenerator[tuple[LocalModel, LocalServer]]:
    """A local model whose child process stands in for the server of the replies."""
    launch = make_launch(line=json.dumps({"address": server.base_url.removesuffix("/v1")}))
    async with open_local_server(launch, program=program) as local_server:

        @asynccontextmanager
        async def server_source(wanted: LocalServerLaunch) -> AsyncGenerator[LocalServer]:
            assert wanted == launch
            yield local_server

        model = LocalModel(
            name="tiny",
            launch=launch,
            capabilities=LOCAL_MODELS["smollm2-135m"].capabilities,
            settings={"temperature": 0.0, "context_tokens": 64},
            server_source=server_source,
        )
        yield model, local_server


async def answer(model: LocalModel) -> str:
    text = ""
    async with model.stream(REQUEST) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                text += event.text
    return text


@pytest.mark.anyio
async def test_a_request_is_streamed_like_that_of_any_endpoint(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    with anyio.fail_after(240):
        async with (
            ModelServer([ModelReply(text='{"a": 1}')]) as server,
            served_model(server, make_launch, fake_program) as (model, _),
            model.stream(REQUEST) as stream,
        ):
            events = [event async for event in stream]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == '{"a": 1}'
    assert isinstance(events[-1], ResponseFinished)
    assert any(isinstance(event, UsageReported) for event in events)


@pytest.mark.anyio
async def test_settings_of_the_server_never_reach_a_request(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    with anyio.fail_after(240):
        async with (
            ModelServer([ModelReply(text="{}")]) as server,
            served_model(server, make_launch, fake_program) as (model, _),
        ):
            await answer(model)
            body = server.requests[0].body
    assert body["temperature"] == 0.0
    assert body["seed"] == 5
    assert body["model"] == "tiny"
    assert not {"threads", "context_tokens"} & body.keys()


@pytest.mark.anyio
async def test_cancelled_requests_give_their_turn_to_the_next(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    """The first hundred requests hang at the server or queue for it; once cancelled, another one succeeds."""
    replies = iter([ModelReply(text="{", ending="hang")] * 4)

    async def ask_forever() -> None:
        await answer(model)

    with anyio.fail_after(240):
        async with (
            ModelServer(lambda request: next(replies, ModelReply(text="{}"))) as server,
            served_model(server, make_launch, fake_program) as (model, local_server),
        ):
            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(ask_forever)
                await anyio.wait_all_tasks_blocked()
                while len(server.requests) < 4:
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert await answer(model) == "{}"
            assert len(server.requests) == 5
            assert local_server.starts == 1


@pytest.mark.anyio
async def test_many_requests_at_once_are_all_answered_by_one_server(
    make_launch: MakeLaunch, fake_program: Path
) -> None:
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await answer(model))

    with anyio.fail_after(240):
        async with (
            ModelServer(lambda request: ModelReply(text="{}")) as server,
            served_model(server, make_launch, fake_program) as (model, local_server),
        ):
            async with anyio.create_task_group() as tasks:
                for _ in range(200):
                    tasks.start_soon(ask)
            assert local_server.starts == 1
    assert answers == ["{}"] * 200


def test_the_setting_capabilities_corrects_what_the_catalog_says(gguf: Path) -> None:
    model = create_local_model(str(gguf), settings={"capabilities": {"tools": True}})
    assert model.capabilities.tools
    with pytest.raises(ConfigurationError, match="'juggling'"):
        create_local_model(str(gguf), settings={"capabilities": {"juggling": True}})
