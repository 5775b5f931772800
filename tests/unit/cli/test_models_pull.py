"""`models pull`, and how a pull looks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nighthawk_async.catalog.local import LOCAL_MODELS
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.cli.pull_view import showing_pull
from nighthawk_async.models.weights import PullProgress

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NIGHTHAWK_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def pulls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Records pulls in place of carrying them out."""
    recorded: list[dict[str, Any]] = []

    def pull(source: object, path: Path, *, verify: bool, report: Callable[[PullProgress], None]) -> bool:
        recorded.append({"source": source, "path": path, "verify": verify})
        report(PullProgress(phase="downloading", done_bytes=5, total_bytes=10))
        return True

    monkeypatch.setattr("nighthawk_async.cli.models_commands.pull_weights", pull)
    return recorded


@pytest.mark.parametrize("name", ["smollm2-135m", "local:smollm2-135m"])
def test_pull_prints_the_path_on_standard_output_and_progress_on_standard_error(
    name: str, pulls: list[dict[str, Any]], cache: Path, capsys: Captured
) -> None:
    assert run_command_line(["models", "pull", name]) == 0
    weights = LOCAL_MODELS["smollm2-135m"].weights
    path = cache / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert pulls == [{"source": weights, "path": path, "verify": False}]
    captured = capsys.readouterr()
    assert captured.out == f"{path}\n"
    assert "downloading 50 %" in captured.err


def test_pull_can_be_asked_to_verify(pulls: list[dict[str, Any]]) -> None:
    assert run_command_line(["models", "pull", "smollm2-135m", "--verify"]) == 0
    assert pulls[0]["verify"] is True


def test_pulling_an_unknown_model_names_the_known_ones(capsys: Captured) -> None:
    assert run_command_line(["models", "pull", "gpt-9"]) == 2
    message = capsys.readouterr().err
    assert "'gpt-9'" in message
    assert "smollm2-135m" in message


STORY = [
    PullProgress(phase="waiting", done_bytes=0, total_bytes=0),
    PullProgress(phase="downloading", done_bytes=0, total_bytes=1_000_000),
    PullProgress(phase="downloading", done_bytes=10_000, total_bytes=1_000_000),
    PullProgress(phase="downloading", done_bytes=500_000, total_bytes=1_000_000),
    PullProgress(phase="downloading", done_bytes=1_000_000, total_bytes=1_000_000),
    PullProgress(phase="verifying", done_bytes=1, total_bytes=1_000_000),
    PullProgress(phase="verifying", done_bytes=1_000_000, total_bytes=1_000_000),
    PullProgress(phase="extracting", done_bytes=1, total_bytes=2_000_000),
]


def test_outside_a_terminal_progress_is_a_few_plain_lines(capsys: Captured) -> None:
    with showing_pull(Console(force_terminal=False), "tiny") as report:
        for progress in STORY:
            report(progress)
    assert capsys.readouterr().out.splitlines() == [
        "tiny: waiting for another process that pulls the same weights",
        "tiny: downloading 0 %, 1 MB",
        "tiny: downloading 50 %, 1 MB",
        "tiny: downloading 100 %, 1 MB",
        "tiny: verifying, 1 MB",
        "tiny: extracting, 2 MB",
    ]


def test_in_a_terminal_progress_is_a_bar_with_sizes_and_elapsed_time(capsys: Captured) -> None:
    with showing_pull(Console(force_terminal=True, width=120), "tiny") as report:
        for progress in STORY:
            report(progress)
    output = capsys.readouterr().out
    assert "tiny: downloading" in output
    assert "1.0/1.0 MB" in output
    assert "0:00:0" in output
