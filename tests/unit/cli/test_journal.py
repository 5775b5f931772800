"""`nighthawk-async journal`: runs and records in the terminal."""

import json
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from tests.unit.journal.durable_runs import live, opened, shout, shouting


@nh.once
async def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    async def program() -> None:
        await send(await shout("a"))
        raise ValueError("[no]\nsecond line")

    model = shouting()
    with opened(tmp_path) as store, pytest.raises(ValueError, match="no"):
        anyio.run(live, store, model, program, "order-17")
    return tmp_path / "runs.db"


def test_the_runs_of_a_journal(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["journal", "list", str(journal)]) == 0
    shown = capsys.readouterr().out
    assert "order-17" in shown
    assert "failed" in shown
    assert "ValueError: [no]" in shown
    assert "second line" not in shown


def test_the_records_of_a_run(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["journal", "show", "--records", str(journal), "order-17"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[4] for line in lines] == ["life", "step", "response", "intent", "result"]
    assert "inputs word" in lines[1]
    assert "answering:model, nh_assign" in lines[2]
    assert lines[4].endswith("run/send()[0]  'sent A'")


def test_what_is_not_there(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["journal", "show", str(journal), "order-18"]) == 2
    assert "order-17" in capsys.readouterr().err
    missing = journal.with_name("missing.db")
    assert run_command_line(["journal", "list", str(missing)]) == 2
    assert "No such file" in capsys.readouterr().err
    assert not missing.exists()


def test_a_file_with_a_percent_sign_in_its_name(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    renamed = journal.rename(journal.with_name("runs%41.db"))
    assert run_command_line(["journal", "list", str(renamed)]) == 0
    assert "order-17" in capsys.readouterr().out


def test_a_run_is_exported(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["journal", "export", str(journal), "order-17"]) == 0
    shown = capsys.readouterr().out
    assert [json.loads(line)["kind"] for line in shown.splitlines()] == [
        "life",
        "step",
        "response",
        "intent",
        "result",
    ]
    file = journal.with_name("run.jsonl")
    assert run_command_line(["journal", "export", str(journal), "order-17", "--to", str(file)]) == 0
    assert file.read_text() == shown
    assert capsys.readouterr().out == ""
    assert run_command_line(["journal", "export", str(journal), "order-18"]) == 2
