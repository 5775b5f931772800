"""`nighthawk-async skills check`."""

from pathlib import Path

import pytest

from nighthawk_async.cli.application import run_command_line
from tests.unit.skills.folders import write_skill


def test_the_sizes_of_skills_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_skill(tmp_path, "tidy-up", files={"a.md": "x" * 1_500}, allowed_tools="Bash(git:*)")
    write_skill(tmp_path, "ask", body="word " * 1_200)
    assert run_command_line(["skills", "check", str(tmp_path)]) == 0
    heading, ask, tidy, last = capsys.readouterr().out.splitlines()
    assert heading.split() == [
        "SKILL",
        *("TOKENS", "IN", "LIST"),
        *("TOKENS", "OF", "TEXT"),
        "FILES",
        "BYTES",
        *("ALLOWED", "TOOLS"),
    ]
    assert ask.split()[0] == "ask"
    assert ask.split()[2:] == ["1,200", "0", "0", "all"]
    assert tidy.split()[0] == "tidy-up"
    assert tidy.split()[3:] == ["1", "1,500", "Bash(git:*)"]
    assert last.endswith("tokens; the most is 2,000.")


def test_too_long_a_list_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_skill(tmp_path, "ask")
    assert run_command_line(["skills", "check", str(tmp_path), "--max-tokens", "10"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("tokens; the most is 10.")


def test_every_fault_is_shown_on_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = write_skill(tmp_path / "skills", "bad", "---\nname: other\n---\n")
    missing = tmp_path / "missing"
    assert run_command_line(["skills", "check", str(tmp_path / "skills"), str(missing)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{missing}: cannot be read: No such file or directory",
        f"{bad}/SKILL.md:1: 'description' is missing",
        f"{bad}/SKILL.md:2: the name 'other' must be that of the folder, 'bad'",
        "Found 3 faults.",
    ]


def test_a_folder_has_to_be_named() -> None:
    assert run_command_line(["skills", "check"]) == 2
