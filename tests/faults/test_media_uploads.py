"""Large media as uploaded files, at a loopback server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.credentials import Token, bearer
from nighthawk_async.errors import ConfigurationError, ModelStatusError
from nighthawk_async.models import batch as batch_module
from nighthawk_async.parallel import map as parallel_map, settle
from nighthawk_async.testing import ModelReply, ModelServer, RecordedRequest, cassette

pytestmark = pytest.mark.anyio

MODELS = ["anthropic:tested", "openai-responses:tested", "google:tested"]
PDF = nh.BinaryContent(data=b"%PDF-1.7 " + b"x" * 2000, media_type="application/pdf")
SMALL = nh.BinaryContent(data=b"%PDF-1.7 small", media_type="application/pdf")
PNG = nh.BinaryContent(data=b"\x89PNG\r\n\x1a\n" + b"y" * 2000, media_type="image/png")


@nh.natural_function
async def read(document: nh.BinaryContent, number: int = 0) -> str:
    """natural
    Read <document> <number>, and set <:title> to its title.
    """
    title: str
    return title


def titled(request: RecordedRequest) -> ModelReply:
    return ModelReply(text=json.dumps({"result": {"kind": "pass", "bindings": {"title": "Moby Dick"}}}))


def configured(server: ModelServer, model: str, **settings: Any) -> nh.StepExecutorConfiguration:
    base_url = f"{server.base_url}beta" if model.startswith("google") else server.base_url
    key = {} if "credentials" in settings else {"api_key": "a-secret-key"}
    capabilities = {"structured_output": True, "images": True, "documents": True}
    return nh.StepExecutorConfiguration(
        model=model,
        outcome_transport="direct",
        model_settings={
            "base_url": base_url,
            "capabilities": capabilities,
            "upload_media_above_bytes": 1000,
            **key,
            **settings,
        },
    )


def executor_at(server: ModelServer, model: str, **settings: Any) -> nh.AgentStepExecutor:
    return nh.AgentStepExecutor.from_configuration(configured(server, model, **settings))


def model_requests(server: ModelServer) -> Iterator[RecordedRequest]:
    return (
        each
        for each in server.requests
        if each.method == "POST" and "/files" not in each.path and "/batches" not in each.path
    )


@pytest.mark.parametrize("model", MODELS)
async def test_a_large_document_is_uploaded_once_for_parallel_steps_and_deleted_at_the_end(
    model: str,
) -> None:
    async with ModelServer(titled) as server:
        async with nh.run(executor_at(server, model)):
            assert await parallel_map(lambda number: read(PDF, number), range(20)) == ["Moby Dick"] * 20
            (file,) = server.files.uploaded
            assert server.files.deleted == []
            assert await read(PDF) == "Moby Dick"  # later steps use it too
        assert server.files.deleted == [file.id]
    assert (file.content, file.media_type) == (PDF.data, "application/pdf")
    contents = [each.content for each in model_requests(server)]
    assert len(contents) == 21
    assert all(file.id.encode() in each and b"JVBER" not in each for each in contents)


@pytest.mark.parametrize("model", MODELS)
async def test_an_image_is_referred_to_in_the_form_of_the_protocol(model: str) -> None:
    async with ModelServer(titled) as server:
        async with nh.run(executor_at(server, model)):
            await read(PNG)
        (file,) = server.files.uploaded
        (request,) = model_requests(server)
    parts = {
        "anthropic": {"type": "image", "source": {"type": "file", "file_id": file.id}},
        "openai-responses": {"type": "input_image", "detail": "auto", "file_id": file.id},
        "google": {
            "fileData": {
                "mimeType": "image/png",
                "fileUri": f"{server.base_url}beta/{file.id}",
            }
        },
    }
    assert json.dumps(parts[model.partition(":")[0]])[1:-1] in json.dumps(request.body)
    if model.startswith("anthropic"):
        assert "files-api-2025-04-14" in request.headers["anthropic-beta"]


async def test_small_media_stay_in_the_request_and_nothing_is_uploaded_by_default() -> None:
    async with ModelServer(titled) as server:
        async with nh.run(executor_at(server, MODELS[0])):
            await read(SMALL)
        async with nh.run(executor_at(server, MODELS[0], upload_media_above_bytes=None)):
            await read(PDF)
        assert server.files.uploaded == []


async def test_what_a_protocol_cannot_refer_to_stays_in_the_request() -> None:
    async with ModelServer(titled) as server:
        async with nh.run(executor_at(server, "openai-chat:tested")):
            await read(PNG)  # Chat Completions knows documents by id, and no images
            await read(PDF)
        assert [each.media_type for each in server.files.uploaded] == ["application/pdf"]


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("anthropic:tested", {"expires_in_seconds": "7200"}),
        (
            "openai-responses:tested",
            {
                "purpose": "user_data",
                "expires_after[anchor]": "created_at",
                "expires_after[seconds]": "7200",
            },
        ),
    ],
    ids=["anthropic", "openai"],
)
async def test_files_may_be_left_to_expire(model: str, fields: dict[str, str]) -> None:
    async with ModelServer(titled) as server:
        async with nh.run(executor_at(server, model, uploads_expire_after_seconds=7200)):
            await read(PDF)
        assert server.files.deleted == []
        assert server.files.uploaded[0].fields == fields


@pytest.mark.parametrize("model", MODELS)
async def test_an_upload_that_fails_is_a_model_error_of_every_step_that_waits_for_it(model: str) -> None:
    async with ModelServer(titled) as server:
        server.files.failures.append(413)
        async with nh.run(executor_at(server, model)):
            settled = await settle(lambda number: read(PDF, number), range(5))
            assert await read(PDF) == "Moby Dick"  # it is tried again
    errors = settled.errors()
    assert [getattr(each, "status", None) for each in errors] == [413] * len(errors)
    assert isinstance(errors[0], ModelStatusError)
    assert str(errors[0]) == f"{model}: HTTP 413: the upload is refused"
    assert "the upload of document application/pdf, 2009 bytes" in errors[0].__notes__[0]


async def test_an_upload_is_sent_again_after_a_passing_failure() -> None:
    async with ModelServer(titled) as server:
        server.files.failures.append(503)
        async with nh.run(executor_at(server, MODELS[0])):
            assert await read(PDF) == "Moby Dick"
        assert len(server.files.uploaded) == 1


async def test_another_step_uploads_when_the_first_one_is_cancelled() -> None:
    async with ModelServer(titled) as server:
        async with nh.run(executor_at(server, MODELS[0])) as run:
            results: list[str] = []
            scope = anyio.CancelScope()

            async def leave() -> None:
                with scope:
                    await read(PDF, 1)

            async def stay() -> None:
                results.append(await read(PDF, 2))

            server.files.pause = anyio.Event()
            run.task_group.start_soon(leave)
            await server.files.wait_until_paused()
            run.task_group.start_soon(stay)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            server.files.pause.set()
        assert results == ["Moby Dick"]


@pytest.mark.parametrize("model", MODELS)
async def test_uploads_are_authenticated_like_requests(model: str) -> None:
    async def fetch() -> Token:
        return Token("a-token", None)

    async with ModelServer(titled) as server:
        async with nh.run(executor_at(server, model, credentials=bearer(fetch))):
            await read(PDF)
        assert {each.headers.get("authorization") for each in server.requests} == {"Bearer a-token"}
        assert {each.method for each in server.requests} >= {"POST", "DELETE"}


async def test_recordings_know_the_content_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "read.yaml"
    async with ModelServer(titled) as server:
        with cassette(path, mode="once"):
            async with nh.run(executor_at(server, MODELS[0])):
                await read(PDF)
        file_id = server.files.uploaded[0].id
        assert file_id not in path.read_text()
        with cassette(path, mode="none"):
            async with nh.run(executor_at(server, MODELS[0])):
                assert await read(PDF) == "Moby Dick"
        assert len(server.files.uploaded) == 1


async def test_requests_in_batches_refer_to_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "_FIRST_POLL_SECONDS", 0.01)
    async with ModelServer(titled) as server:
        configuration = configured(server, MODELS[0])
        executor = nh.AgentStepExecutor.from_model(
            nh.batched(configuration, max_requests=2), configuration=configuration
        )
        async with nh.run(executor):
            assert await parallel_map(lambda number: read(PDF, number), range(2)) == ["Moby Dick"] * 2
        (file,) = server.files.uploaded
        assert server.files.deleted == [file.id]
        (batch,) = server.batches.all
        assert all(file.id.encode() in each.content for each in batch.requests.values())
        submission = next(each for each in server.requests if each.path.endswith("/batches"))
        assert "files-api-2025-04-14" in submission.headers["anthropic-beta"]


async def test_files_stay_for_a_batch_that_is_left_to_the_next_life(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(batch_module, "_FIRST_POLL_SECONDS", 0.01)
    async with ModelServer(titled) as server:
        configuration = configured(server, MODELS[0])
        executor = nh.AgentStepExecutor.from_model(
            nh.batched(configuration, max_requests=1), configuration=configuration
        )

        async def cancel_when_polled(scope: anyio.CancelScope) -> None:
            await server.batches.wait_until(lambda: server.batches.all and server.batches.all[0].polls > 0)
            scope.cancel()

        server.batches.polls_until_end = None
        with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
            with anyio.CancelScope() as scope:
                async with nh.run(executor, journal=store, run_id="run-1") as run:
                    run.task_group.start_soon(cancel_when_polled, scope)
                    await read(PDF, 1)
            (left,) = server.files.uploaded
            assert server.files.deleted == []
            assert left.id in caplog.text
            server.batches.polls_until_end = 1
            async with nh.run(executor, journal=store, run_id="run-1"):
                assert await read(PDF, 1) == "Moby Dick"
            assert len(server.batches.all) == 1
            # Those of a life whose batches have all ended are deleted.
            assert server.files.deleted == [each.id for each in server.files.uploaded if each is not left]


def test_providers_without_a_known_endpoint_for_files_are_refused() -> None:
    configuration = nh.StepExecutorConfiguration(
        model="groq:some", model_settings={"api_key": "k", "upload_media_above_bytes": 1000}
    )
    with pytest.raises(ConfigurationError, match="no endpoint for files of this provider is known"):
        nh.AgentStepExecutor.from_configuration(configuration)
