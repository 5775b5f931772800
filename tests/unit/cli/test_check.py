"""`nighthawk-async check`."""

import json
import re
from pathlib import Path

import pytest

from nighthawk_async.cli.application import run_command_line

BAD = """import nighthawk_async as nh


@nh.natural_function
async def act(text: str) -> None:
    '''natural
    Use <txet>.
    '''
"""
NOTED = BAD.replace("<txet>", "<mean>").replace(
    "import night", "from statistics import mean\nimport night", 1
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path, text in {
        "app/desk.py": BAD,
        "app/rates.py": NOTED,
        "app/.venv/hidden.py": BAD,
        "app/__pycache__/x.py": BAD,
        "app/notes.txt": BAD,
        "fine.py": "print()\n",
        "latin.py": "# coding: latin-1\nx = 'é'\n",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("latin-1"))
    return tmp_path


def test_mistakes_are_shown_as_ruff_shows_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", "app", "fine.py"]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("app/desk.py:6:5: NH002 the block uses <txet>")
    assert second.startswith("app/rates.py:1:24: NH003 only blocks use the import mean")
    assert last == "Found 1 mistake."


def test_notes_do_not_fail(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", "app/rates.py", "latin.py"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "All checks passed!"


def test_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", "--output-format=json", "."]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first["filename"] == "app/desk.py"
    assert first["location"] == {"row": 6, "column": 5}
    assert (first["code"], first["severity"], second["severity"]) == ("NH002", "error", "note")


def test_every_format_has_the_notes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.py").write_text(
        "import nighthawk_async as nh\n\n@nh.natural_function\nasync def act(text: str) -> int:\n"
        "    try:\n        '''natural\n        Read <total> of <text>, and set <:total>.\n        '''\n"
        "    except KeyError:\n        pass\n    return total\n"
    )
    notes = [("NH014", 6), ("NH016", 6), ("NH015", 11)]
    assert run_command_line(["check", str(folder / "notes.py")]) == 0
    shown = capsys.readouterr().out
    assert re.findall(r"notes\.py:(\d+):\d+: (NH\d+) ", shown) == [(str(line), code) for code, line in notes]
    assert "All checks passed!" in shown
    assert run_command_line(["check", "--output-format=json", str(folder / "notes.py")]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(each["code"], each["location"]["row"]) for each in listed] == notes
    assert {each["severity"] for each in listed} == {"note"}


def test_bad_arguments(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", "nowhere.py"]) == 2
    assert "nowhere.py: No such file or directory" in capsys.readouterr().err
    assert run_command_line(["check"]) == 2


def test_a_file_in_another_encoding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.py").write_bytes(b"x = '\xff'\n")
    assert run_command_line(["check", "bad.py"]) == 1
    assert "bad.py:1:1: NH000" in capsys.readouterr().out
