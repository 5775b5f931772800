"""Launches of the stand-in server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from nighthawk_async.models.local_process import LocalServerLaunch

MakeLaunch: TypeAlias = Callable[..., LocalServerLaunch]


@pytest.fixture
def fake_program() -> Path:
    return Path(__file__).with_name("fake_server.py")


@pytest.fixture
def make_launch(tmp_path: Path) -> MakeLaunch:
    def make(*, start_timeout: float = 30, **behaviour: Any) -> LocalServerLaunch:
        gguf = tmp_path / "model.gguf"
        gguf.write_text(json.dumps(behaviour))
        return LocalServerLaunch(
            gguf=gguf,
            context_tokens=64,
            parallel_requests=2,
            threads=1,
            start_timeout=start_timeout,
        )

    return make
