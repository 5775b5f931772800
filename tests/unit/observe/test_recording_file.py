"""Recordings in files: what they hold, what a killed program leaves, and files that are no recordings."""

import json
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nighthawk_async import observe
from nighthawk_async.observe import NodeView, RecordingFileError, TaskTree, read_recording
from nighthawk_async.types.usage import Usage
from tests.unit.observe.recorded import begin

USAGE = Usage(requests=1, input_tokens=7, output_tokens=2, cost=Decimal("0.0123"))


def record_everything(tree: TaskTree) -> None:
    run = begin(tree)
    step = run.begin_child("step", "page:1", inputs={"text": "a\x1bb\u2028c"}, source="page:1")
    request = step.begin_child(
        "model_request", "openai-chat:large", attributes={"gen_ai.request.model": "large"}
    )
    request.write("text", "Hello \ud800")
    request.set_usage(USAGE)
    request.count_retry()
    request.end("completed", outputs={"text": "Hello"})
    step.set_usage(replace(USAGE, requests=3), model="other")
    step.end("failed", error=ValueError("no"))
    run.begin_child("step", "page:2", state="waiting")


def shown(view: NodeView) -> dict[str, Any]:
    """What a recording keeps of a view."""
    whole = observe.view_as_json(view)
    pending = [whole]
    while pending:
        each: Any = pending.pop()
        pending += each["children"]
        for name in ("version", "controls"):
            del each[name]
    del whole["began_at"]
    return whole


def test_a_file_holds_the_tree(tmp_path: Path) -> None:
    path = tmp_path / "tree.jsonl"
    with observe.recording(to=path) as tree:
        record_everything(tree)
    recording = read_recording(path)
    assert recording.is_complete
    assert shown(recording.snapshot()) == shown(tree.snapshot())
    assert recording.snapshot().subtree_usage_by_model == {
        "openai-chat:large": replace(USAGE, retries=0),
        "other": replace(USAGE, requests=3),
    }
    lines = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    assert all("children" not in line for line in lines)


def test_a_recording_is_watched_while_it_is_written(tmp_path: Path) -> None:
    """By another process: each change is in the file soon, and not only at the end."""
    path = tmp_path / "tree.jsonl"
    with observe.recording(to=str(path)) as tree:
        run = begin(tree)
        while True:
            recording = read_recording(path) if path.stat().st_size else None
            if recording is not None and recording.snapshot().children:
                break
        assert not recording.is_complete
        assert recording.snapshot().children[0].state == "running"
        run.end("completed")
    assert read_recording(path).snapshot().children[0].state == "completed"


def test_a_killed_program_leaves_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "tree.jsonl"
    program = (
        "import os, sys\n"
        "from nighthawk_async import observe\n"
        "from tests.unit.observe.recorded import begin\n"
        "with observe.recording(to=sys.argv[1]) as tree:\n"
        "    begin(tree)\n"
        "    while b'running' not in open(sys.argv[1], 'rb').read(): pass\n"
        "    os._exit(9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path)], timeout=240)
    assert ended.returncode == 9
    recording = read_recording(path)
    assert not recording.is_complete
    assert [each.state for each in recording.snapshot().children] == ["running"]
    assert recording.until >= recording.snapshot().children[0].began_at


def test_a_line_that_was_not_written_whole_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "tree.jsonl"
    with observe.recording(to=path) as tree:
        begin(tree).end("completed")
    whole = path.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:length])
        assert not read_recording(path).is_complete


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no whole line"),
        (b"hello\n", "is no recording"),
        (b'{"format": "another", "version": 1, "began_at": 0}\n', "is no recording"),
        (b'{"format": "nighthawk-async recording", "version": 9, "began_at": 0}\n', "has version 9"),
        (b'HEADER\n{"id": 3}\n', "line 2: Expected `str`, got `int` - at `$.id`"),
        (b"HEADER\n{nothing}\n", "line 2: JSON is malformed"),
        (b'HEADER\n{"ended_at": "soon"}\n', "line 2: Expected `float`, got `str` - at `$.ended_at`"),
        (b"HEADER\n[]\n", "line 2: Expected `object`, got `array`"),
        (b"HEADER\n\xff\xfe\n", "line 2: "),
        (
            b'HEADER\n{"id": "2", "parent_id": "1", "kind": "step", "name": "s", "state": "running", '
            b'"began_at": 1}\n',
            "nodes below node '1'",
        ),
    ],
)
def test_files_that_are_no_recordings(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "tree.jsonl"
    header = b'{"format": "nighthawk-async recording", "version": 1, "began_at": 0}'
    path.write_bytes(content.replace(b"HEADER", header))
    with pytest.raises(RecordingFileError) as caught:
        read_recording(path)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), observe.recording(to=tmp_path / "missing" / "tree.jsonl"):
        raise AssertionError


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_does_not_stop_the_program(caplog: pytest.LogCaptureFixture) -> None:
    with observe.recording(to="/dev/full") as tree:
        begin(tree).end("completed")
    assert tree.snapshot().children[0].state == "completed"
    (record,) = caplog.records
    assert "the recording /dev/full ends before the program" in record.message
