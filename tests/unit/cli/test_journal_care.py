"""`nighthawk-async journal verify`, `prune` and `reencrypt`."""

import base64
from pathlib import Path

import anyio
import pytest

from nighthawk_async.cli.application import run_command_line
from tests.unit.journal.durable_runs import change_tables, live, opened, shout, shouting

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def journal(tmp_path: Path) -> str:
    with opened(tmp_path) as store:
        for run_id in ("order-17", "order-18"):
            anyio.run(live, store, shouting(), lambda: shout("a"), run_id)
    return str(tmp_path / "runs.db")


def test_a_journal_is_verified(journal: str, capsys: Captured) -> None:
    assert run_command_line(["journal", "verify", journal]) == 0
    assert capsys.readouterr().out == "2 runs with 8 records verified\n"
    assert run_command_line(["journal", "verify", f"sqlite:///{journal}", "order-17"]) == 0
    assert capsys.readouterr().out == "1 run with 4 records verified\n"
    assert run_command_line(["journal", "verify", journal, "order-19"]) == 2


def test_a_changed_journal_has_an_exit_code(journal: str, tmp_path: Path, capsys: Captured) -> None:
    change_tables(tmp_path, "UPDATE records SET at = 0 WHERE run_id = 'order-17' AND kind = 'response'")
    assert run_command_line(["journal", "verify", journal]) == 1
    first, *others = capsys.readouterr().out.splitlines()
    assert "'order-17': record 3 (response at run/shout()[0]/shout#1[0]/turn[0])" in first
    assert others == ["1 run with 4 records verified", "1 run with records that do not fit"]
    assert run_command_line(["journal", "verify", journal, "order-18"]) == 0


def test_a_journal_is_pruned(journal: str, tmp_path: Path, capsys: Captured) -> None:
    change_tables(tmp_path, "UPDATE runs SET updated_at = updated_at - 3 * 86400 WHERE run_id = 'order-17'")
    assert run_command_line(["journal", "prune", journal, "--older", "2d", "--dry-run"]) == 0
    assert capsys.readouterr().out == "order-17\n1 run would be pruned: 4 records, 0 messages\n"
    assert run_command_line(["journal", "prune", journal, "--older", "2d"]) == 0
    assert capsys.readouterr().out == "1 run pruned: 4 records, 0 messages\n"
    assert run_command_line(["journal", "list", journal]) == 0
    assert "ended, pruned" in capsys.readouterr().out
    assert run_command_line(["journal", "verify", journal]) == 0
    assert capsys.readouterr().out == "2 runs with 4 records verified\n"
    assert run_command_line(["journal", "prune", journal, "--older", "soon"]) == 2
    assert "no time" in capsys.readouterr().err


def test_keys_come_from_the_environment(
    journal: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    key = base64.b64encode(b"k" * 32).decode()
    monkeypatch.setenv("NIGHTHAWK_JOURNAL_KEYS", f"2026-11={key}")
    monkeypatch.setenv("NIGHTHAWK_JOURNAL_AUDIT_KEY", key)
    assert run_command_line(["journal", "verify", journal]) == 1
    assert run_command_line(["journal", "reencrypt", journal]) == 0
    assert capsys.readouterr().out.endswith("2 runs written anew\n")
    assert run_command_line(["journal", "verify", journal]) == 0
    assert run_command_line(["journal", "show", journal, "order-17"]) == 0
    monkeypatch.delenv("NIGHTHAWK_JOURNAL_KEYS")
    assert run_command_line(["journal", "show", journal, "order-17"]) == 1
    assert "'2026-11'" in capsys.readouterr().err
    assert run_command_line(["journal", "list", journal]) == 0
    monkeypatch.setenv("NIGHTHAWK_JOURNAL_KEYS", "none")
    assert run_command_line(["journal", "list", journal]) == 2
    assert "ID=BASE64" in capsys.readouterr().err


def test_an_address_that_is_none_is_refused(capsys: Captured) -> None:
    assert run_command_line(["journal", "verify", "ftp://somewhere"]) == 2
    assert "no address of a journal" in capsys.readouterr().err
