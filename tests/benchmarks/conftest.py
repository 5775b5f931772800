"""What the tests of the benchmarks share."""

from pathlib import Path

import pytest

from tests.benchmarks.made_up import CommandLine


@pytest.fixture
def command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line for one test."""
    return CommandLine(tmp_path, monkeypatch)
