"""Erasure: what is deleted for privacy is nowhere in the file, and all else stays."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.testing import ScriptedModel

from .conftest import Opened

pytestmark = pytest.mark.anyio

SECRET = "zanzibar"


async def embed(texts: Any) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


def files_with(folder: Path, text: str) -> list[str]:
    """The files of a folder that have a text."""
    return [each.name for each in folder.iterdir() if text.encode() in each.read_bytes()]


async def test_nothing_of_an_erased_record_is_left(opened: Opened, tmp_path: Path) -> None:
    memory = opened(embed=embed)
    for number in range(30):  # so that pages of the file are divided
        await memory.store(f"note {number}", f"{SECRET} {number} " * 20, tags=["note"])
    for number in range(30):
        await memory.store(f"note {number}", {"where": f"harmless {number}"}, tags=["note"])
    await memory.store("kept", "kept as it is")
    await memory.forget(key="note 7")
    await memory.recall(f"where is {SECRET}?")
    found = len(await memory.recall("", k=100))
    receipt = await memory.erase(query=SECRET)
    assert receipt.versions == len(receipt.ids) == 30
    assert receipt.is_purged
    assert receipt.vectors == 1  # that of the query; superseded records need none
    assert receipt.namespace == "support"
    assert len(await memory.recall("", k=100)) == found == 30
    assert await memory.recall(SECRET, mode="lexical") == []
    assert files_with(tmp_path, SECRET) == []
    events = await memory.history()
    assert [event.operation for event in events].count("store") == 31
    assert (events[-1].operation, events[-1].ids) == ("erase", receipt.ids)
    again = await memory.erase(query=SECRET)
    assert (again.versions, again.ids) == (0, ())
    assert len(await memory.history()) == len(events)


async def test_older_versions_go_with_a_record_and_later_ones_stay(opened: Opened) -> None:
    memory = opened(embed=embed)
    first = await memory.store("ann", "lives in Lima")
    second = await memory.store("ann", "lives in Quito")
    third = await memory.store("ann", "has moved")
    await memory.store("bob", "has moved")  # the same text, whose vector is still needed
    await memory.recall("moved")
    receipt = await memory.erase(id=second.id)
    assert receipt.ids == (first.id, second.id)
    assert await memory.get("ann") == third
    receipt = await memory.erase(key="ann")
    assert (receipt.ids, receipt.vectors) == ((third.id,), 0)
    assert await memory.get("ann") is None
    assert [r.key for r in await memory.recall("moved")] == ["bob"]
    receipt = await memory.erase(key="bob", tag="absent")
    assert receipt.versions == 0
    assert (await memory.erase(key="bob")).vectors == 2


async def test_a_reader_that_keeps_an_old_state_is_reported(
    in_file: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nighthawk_async.journal.sqlite_database._BUSY_SECONDS", 0.1)
    memory = in_file()
    await memory.store("a", SECRET)
    reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM memory_log").fetchall()
        receipt = await memory.erase(key="a")
        assert (receipt.versions, receipt.is_purged) == (1, False)
    finally:
        reader.close()
    assert (await memory.erase(key="a")).versions == 0


async def test_an_erasure_leaves_other_namespaces_and_runs(tmp_path: Path) -> None:
    @nh.once
    async def pay() -> str:
        return "paid"

    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db") as store:
        memory = nh.memory.open(store, namespace="one")
        other = nh.memory.open(store, namespace="two")
        async with nh.run(nh.AgentStepExecutor.from_model(ScriptedModel([])), journal=store, run_id="run"):
            await pay()
        for each in (memory, other):
            await each.store("a", SECRET)
        await memory.erase(key="a")
        nh.memory.close(memory)  # the store is the program's, and stays open
        assert await other.get("a") is not None
        assert [row.run_id for row in store.runs()] == ["run"]
        assert store.verify()[0].run_id == "run"
    with pytest.raises(nh.ConfigurationError, match="has keys of its own"):
        nh.memory.open(store, keys={"a": b"x" * 32})
