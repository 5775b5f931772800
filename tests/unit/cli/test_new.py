"""`nighthawk-async new` writes a project that passes its own checks."""

import importlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import anyio
import pytest
import yaml

import nighthawk_async as nh
from nighthawk_async.cli.application import run_command_line
from nighthawk_async.natural.checking import check_paths
from nighthawk_async.testing import cassette


def run_in(folder: Path, *command: str) -> None:
    """Run a command of the project, without keys and without the plugins of others."""
    variables = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, env=variables
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_project_is_complete_and_its_cassette_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mail-triage"
    before = set(sys.modules)
    assert run_command_line(["new", str(folder)]) == 0
    assert "README.md says how to go on" in capsys.readouterr().out
    assert not [name for name in set(sys.modules) - before if name.startswith("mail_triage")]
    settings = tomllib.loads((folder / "pyproject.toml").read_text())
    assert settings["project"]["name"] == "mail-triage"
    hooks = yaml.safe_load((folder / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [each["id"] for each in hooks] == ["ruff", "nighthawk-async-check"]
    assert not [each for each in folder.rglob("*") if each.is_file() and "$" in each.read_text()]
    assert check_paths([folder]) == []
    (recorded,) = folder.glob("tests/cassettes/*/*.yaml")
    monkeypatch.syspath_prepend(str(folder / "src"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    labels = importlib.import_module("mail_triage.labels")

    async def replay() -> object:
        async with cassette(recorded, mode="none"), nh.run(labels.MODEL):
            return await labels.label("Where is my lamp? I ordered it two weeks ago.")

    try:
        assert anyio.run(replay) == "order"
    finally:
        for name in [each for each in sys.modules if each.startswith("mail_triage")]:
            del sys.modules[name]


@pytest.mark.weekly  # the test above reads its files, and replays its cassette
def test_a_new_project_passes_its_own_checks(tmp_path: Path) -> None:
    folder = tmp_path / "triage"
    assert run_command_line(["new", str(folder)]) == 0
    run_in(folder, "pytest", "-q", "-p", "no:asyncio")
    run_in(folder, "nighthawk_async", "check", "src")
    if shutil.which("ruff", path=str(Path(sys.executable).parent)):  # in the environment of `nox -s types`
        run_in(folder, "ruff", "check", "--no-cache", ".")
        run_in(folder, "ruff", "format", "--check", "--no-cache", ".")


def test_a_name_that_cannot_be_used_is_refused_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for name, error in {
        "1st": "cannot name a package",
        "class": "cannot name a package",
        "json": "another package",
        "full": "exists",
    }.items():
        assert run_command_line(["new", str(tmp_path / name)]) == 2, name
        assert error in capsys.readouterr().err, name
    assert [each.name for each in tmp_path.rglob("*")] == ["full", "notes.txt"]
