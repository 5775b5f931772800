"""`nighthawk-async view`: recordings in the terminal and as a page."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from nighthawk_async import observe
from nighthawk_async.cli.application import run_command_line
from tests.unit.observe.recorded import begin


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "tree.jsonl"
    with observe.recording(to=path) as tree:
        run = begin(tree)
        run.begin_child("step", "shop:4", inputs={"text": "Hello"}).end("completed")
        run.end("completed")
    return path


def test_a_recording_as_text(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["view", str(recording)]) == 0
    shown = capsys.readouterr()
    assert 'step shop:4(text="Hello")' in shown.out
    assert shown.err == ""


def test_a_recording_that_ends_early_is_shown_with_a_remark(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording.write_bytes(recording.read_bytes()[:-5])
    assert run_command_line(["view", str(recording)]) == 0
    shown = capsys.readouterr()
    assert "shop:4" in shown.out
    assert "ends before its program did" in shown.err


def test_bad_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["view", str(tmp_path / "missing")]) == 2
    assert "No such file" in capsys.readouterr().err
    other = tmp_path / "other.txt"
    other.write_text("hello\n")
    assert run_command_line(["view", str(other)]) == 1
    assert "other.txt is no recording of nighthawk-async" in capsys.readouterr().err


def test_a_recording_as_a_page_in_a_file(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    assert run_command_line(["view", str(recording), "--export", str(path)]) == 0
    assert capsys.readouterr().out == f"Page: {path}\n"
    page = path.read_text(encoding="utf-8")
    assert "<title>tree.jsonl</title>" in page
    assert '"name":"shop:4"' in page
    assert run_command_line(["view", str(recording), "--export", str(tmp_path)]) == 2
    assert "directory" in capsys.readouterr().err.lower()


def test_a_recording_as_a_page(recording: Path) -> None:
    command = [sys.executable, "-m", "nighthawk_async", "view", str(recording), "--page"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("Recording: ").strip()
        with httpx.Client(base_url=address, timeout=240) as client:
            assert "<title>" in client.get("").text
            tree = client.get("api/tree").json()["tree"]
        process.send_signal(signal.SIGINT)
    names = [step["name"] for run in tree["children"] for step in run["children"]]
    assert names == ["shop:4"], json.dumps(tree)
