"""Approvals that code asks for from inside of a sandbox outlive the process, and are not asked for again."""

import os
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.sandbox.settings import SandboxKind
from nighthawk_async.testing.killing import KillPoint, ProgramKiller

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

ASKED = 5
"""The number of the record of the first question."""


def approve(store: nh.journal.JournalStore) -> str:
    """Approve the call that waits, and return whom it pays."""
    (question,) = store.questions()

    async def vote() -> None:
        await store.vote(question.id, approve=True, voter="eve", digest=question.content["digest"])

    anyio.run(vote)
    return str(question.content["arguments"]["who"])


@pytest.mark.parametrize(("kind", "backend"), [("monty", "asyncio"), ("process", "trio")])
def test_an_approval_from_inside_of_a_sandbox_outlives_its_process(
    tmp_path: Path, kind: SandboxKind, backend: str
) -> None:
    if kind == "process" and shutil.which("bwrap") is None:
        pytest.skip("there is no Bubblewrap")
    if kind == "monty":
        pytest.importorskip("pydantic_monty")
    root = Path(__file__).parents[2]
    arguments: dict[str, Any] = {"folder": str(tmp_path), "backend": backend, "kind": kind}
    with (
        ProgramKiller("tests.faults.sandboxed_program:main", {}, path=[root, root / "src"]) as killer,
        nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store,
    ):
        first = killer.live(kill_at=KillPoint(record=ASKED, when="after"), **arguments)
        assert first.was_killed
        assert approve(store) == "ada"
        second = killer.live(**arguments)
        assert (second.was_killed, second.error, second.result) == (False, "", None)
        assert approve(store) == "bob"
        last = killer.live(**arguments)
        assert last.result == '{"value": ["paid ada", "paid bob"], "error": null}'
    assert (tmp_path / "paid.txt").read_text().split("\n") == ["ada 14", "bob 14", ""]
