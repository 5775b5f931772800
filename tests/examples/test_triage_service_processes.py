"""The example service on the embedded model, and how it is started: as people start it."""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import nighthawk_async as nh
from examples.triage_service.__main__ import main
from examples.triage_service.settings import Settings
from nighthawk_async.catalog.local import LOCAL_MODELS
from nighthawk_async.models.weights import are_weights_whole, weights_path
from nighthawk_async.testing import ModelReply, ModelServer, tool_call
from tests.examples.triage_serving import PATIENCE_SECONDS, service_process, variables_for

pytestmark = pytest.mark.usefixtures("warm_python")

FAKE_LLAMA = Path(__file__).parents[1] / "faults" / "fake_llama"
WEIGHTS = LOCAL_MODELS["smollm2-135m"].weights
HAS_EMBEDDED_MODEL = (
    WEIGHTS is not None
    and importlib.util.find_spec("xllamacpp") is not None
    and are_weights_whole(WEIGHTS, weights_path(WEIGHTS))
)


class Started:
    """The service as `python -m examples.triage_service` starts it.

    Args:
        process: Its process.
        url: Where it says that it listens.
    """

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url

    def post(self, path: str, body: object) -> dict[str, object]:
        request = urllib.request.Request(f"{self.url}{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
            return json.load(response)

    def wait_for_child(self) -> int:
        """Wait until the model has a process, and open a descriptor that tells of its end."""
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not (children := self._children()):
            assert time.monotonic() < give_up_at, "there is no child"
            time.sleep(0.02)
        return os.pidfd_open(children[0])

    def _children(self) -> list[int]:
        tasks = Path(f"/proc/{self.process.pid}/task")
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


@contextmanager
def started(server: str, **variables: str) -> Iterator[Started]:
    arguments = ["examples.triage_service", "--port", "0", "--server", server]
    with service_process(arguments, variables) as (process, errors):
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        errors.seek(0)
        assert lines[2].startswith("dashboard"), errors.read()
        yield Started(process, lines[2].split()[1].removesuffix("/dashboard/"))


def assert_ends(descriptor: int) -> None:
    try:
        ended, _, _ = select.select([descriptor], [], [], PATIENCE_SECONDS)
        assert ended, "the child goes on"
    finally:
        os.close(descriptor)


needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for child processes in /proc")


@needs_linux
@pytest.mark.parametrize("server", ["uvicorn", "hypercorn"])
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_service_that_is_ended_in_the_middle_leaves_no_model_behind(
    server: str, ending: signal.Signals, tmp_path: Path
) -> None:
    gguf = tmp_path / "model.gguf"
    gguf.write_text("whole")
    with started(server, NIGHTHAWK_MODEL=f"local:{gguf}", PYTHONPATH=str(FAKE_LLAMA)) as service:
        begun = service.post("/investigations", {"text": "I cannot log in."})
        assert begun["status"] == "running"
        child = service.wait_for_child()
        service.process.send_signal(ending)
        assert_ends(child)
        service.process.wait(PATIENCE_SECONDS)


@needs_linux
@pytest.mark.skipif(not HAS_EMBEDDED_MODEL, reason="the embedded model is not here")
def test_the_embedded_model_sorts_tickets_and_ends_with_the_service() -> None:
    with started("uvicorn") as service:
        angry = service.post("/tickets", {"text": "It arrived broken and nobody answers me."})
        assert angry == {"sentiment": "negative", "queue": "soon"}
        happy = service.post("/tickets", {"text": "Wonderful service, the replacement came the next day."})
        assert happy == {"sentiment": "positive", "queue": "later"}
        child = service.wait_for_child()
        service.post("/investigations", {"text": "I cannot log in."})
        service.process.kill()
        assert_ends(child)


def test_settings_come_from_the_environment() -> None:
    assert Settings.from_environment({}) == Settings()
    variables = {"NIGHTHAWK_MODEL": "a:b", "TRIAGE_MAX_REQUESTS": "7", "OTEL_TRACES_EXPORTER": "console"}
    chosen = Settings.from_environment(variables)
    assert (chosen.model, chosen.max_requests, chosen.shows_traces) == ("a:b", 7, True)
    assert Settings.from_environment({"JOURNAL": "sqlite:///a.db"}).journal == "sqlite:///a.db"
    bad = {"TRIAGE_MAX_REQUESTS": "many", "TRIAGE_MAX_WAITING": "0"}
    with pytest.raises(nh.ConfigurationError, match=r"^TRIAGE_MAX_REQUESTS: .*; TRIAGE_MAX_WAITING: "):
        Settings.from_environment(bad)


def test_a_model_that_cannot_be_had_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTHAWK_MODEL", "openai-chat:any")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SystemExit, match="OPENAI_API_KEY"):
        main(["--port", "0"])


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("TRIAGE_MAX_REQUESTS", "0", "TRIAGE_MAX_REQUESTS: .* 1"),
        ("TRIAGE_DASHBOARD_TOKEN", "secret", "at least 16"),
    ],
)
def test_a_bad_variable_is_told_in_one_line(
    variable: str, value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTHAWK_MODEL", "openai-chat:any")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv(variable, value)
    with pytest.raises(SystemExit, match=told) as caught:
        main(["--port", "0"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("port", ["65536", "-1", "many"])
def test_a_port_that_is_none_is_told_in_one_line(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([f"--port={port}"])
    assert capsys.readouterr().err.splitlines()[-1].startswith("triage_service: error: argument --port: ")


@needs_linux
@pytest.mark.parametrize("server", ["uvicorn", "hypercorn"])
def test_the_last_spans_are_shown_when_a_service_is_told_to_end(server: str) -> None:
    reply = ModelReply(
        tool_calls=(
            tool_call("nh_assign", target_path="label", expression="'positive'"),
            tool_call("nh_outcome", kind="pass"),
        )
    )
    with ModelServer.in_thread([reply] * 2) as model_server:
        variables = variables_for(model_server) | {"OTEL_TRACES_EXPORTER": "console"}
        with started(server, **variables) as service:
            service.post("/tickets", {"text": "Thank you!"})
            service.process.terminate()
            output, _ = service.process.communicate(timeout=PATIENCE_SECONDS)
    assert '"name": "nighthawk.step"' in output
