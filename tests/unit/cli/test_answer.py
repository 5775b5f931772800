"""`nighthawk-async answer`: a program's requests are files, and so are the answers."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import nighthawk_async as nh
from nighthawk_async.testing import AnswerServer
from tests.warm_python import WarmPopen

COMMAND = [sys.executable, "-u", "-m", "nighthawk_async", "answer", "--port", "0"]


@nh.natural_function
def measure(word: str) -> int:
    """Measure a word."""
    count = 0
    """natural
    Set <:count> to the length of <word>.
    """
    return count


def test_requests_are_named_and_answered(tmp_path: Path) -> None:
    calls = [
        {"name": "nh_assign", "arguments": {"target_path": "count", "expression": "len(word)"}},
        {"name": "nh_outcome", "arguments": {"kind": "pass"}},
    ]
    with WarmPopen([*COMMAND, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            base_url = process.stdout.readline().split()[1]
            (tmp_path / "0001.answer.json").write_text(json.dumps(calls))  # before it is asked for
            settings = {"base_url": base_url, "api_key": "none"}
            with nh.run(nh.StepExecutorConfiguration(model="openai-chat:any", model_settings=settings)):
                assert measure("four") == 4
            assert (tmp_path / "0001.request.txt").exists()
            process.send_signal(signal.SIGINT)
            assert process.wait(240) == 130
        finally:
            process.kill()


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with AnswerServer.in_thread(tmp_path) as server:
        port = server.base_url.split(":")[2].partition("/")[0]
        command = [*COMMAND[:-1], port, str(tmp_path)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 2
    assert port in ended.stderr
