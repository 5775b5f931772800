"""Values and facts: what is stored comes back as it was, or is refused."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.memory import (
    FileEvidence,
    MemoryUseError,
    MemoryValueError,
    ToolEvidence,
    TraceEvidence,
    UserEvidence,
)

from .conftest import Clock, Opened

pytestmark = pytest.mark.anyio


class Colour(Enum):
    RED = "red"


class Customer(BaseModel):
    name: str
    since: datetime
    colours: set[Colour] = set()


@dataclass
class Point:
    x: int
    y: int


class Pair(msgspec.Struct):
    first: str
    second: list[int]


async def test_values_come_back_as_they_were(opened: Opened) -> None:
    memory = opened()
    typed: list[Any] = [
        Customer(name="Ann", since=datetime(2026, 1, 2, tzinfo=UTC), colours={Colour.RED}),
        Point(1, 2),
        Pair("a", [1]),
        datetime(2026, 1, 2, tzinfo=UTC),
        (1, "a"),
        b"bytes",
    ]
    plain: list[Any] = [None, True, 3, 2**80, -1.5, "", "text\nof lines", [1, [2]], {"a": {"b": None}}]
    for value in plain:
        record = await memory.store("k", value)
        assert (record.value, type(record.value)) == (value, type(value))
        assert await memory.get("k") == record
    for value in typed:
        record = await memory.store("k", value)
        assert record.type.endswith(type(value).__qualname__)
        assert (await memory.store("k2", value)).parse(type(value)) == value
    customer = await memory.store("ann", typed[0])
    assert [r.key for r in await memory.recall("ann red", k=1)] == ["ann"]
    with pytest.raises(MemoryValueError, match="the value of 'ann' is no Point"):
        customer.parse(Point)
    for value in (object(), {1: "a"}, [Point(1, 2)], float("nan"), lambda: None, {"a": {1, 2}}):
        with pytest.raises(MemoryValueError, match="the value of 'k' cannot be stored"):
            await memory.store("k", value)


async def test_an_id_is_one_record(opened: Opened) -> None:
    memory = opened()
    first = await memory.store("a", "x", id="mail-1", tags=["t"])
    assert await memory.store("a", "x", id="mail-1", tags=["t"]) == first
    assert len(await memory.history()) == 1
    with pytest.raises(MemoryUseError, match="the id 'mail-1' is that of the record with the key 'a'"):
        await memory.store("b", "x", id="mail-1")
    changed = await memory.store("a", "y", id="mail-1", tags=["t"])
    assert [r.text for r in await memory.recall("x y")] == ["y"]
    assert (changed.id, len(await memory.history("a"))) == ("mail-1", 2)
    await memory.forget(id="mail-1")
    again = await memory.store("a", "y", id="mail-1", tags=["t"])
    assert again.stored_at > changed.stored_at
    ids = [(await memory.store(str(number), number)).id for number in range(3)]
    assert ids == sorted(ids)  # they begin with the time


async def test_the_same_fact_is_one_record(opened: Opened, clock: Clock) -> None:
    memory = opened()
    facts = memory.facts
    evidence = [
        FileEvidence(path="src/a.py", first_line=1, last_line=9),
        ToolEvidence(tool="pytest", output="3 passed"),
        UserEvidence(text="it is so"),
        TraceEvidence(run_id="run", place="run/f"),
    ]
    fact = await facts.store(
        "decision", "Refunds take three days", evidence=evidence, confidence=0.8, provenance="ann", tags=["t"]
    )
    same = await facts.store(
        "decision", "Refunds take three days", evidence=evidence, confidence=0.8, provenance="ann", tags=["t"]
    )
    assert same == fact
    assert (fact.tags, fact.evidence) == (("t",), tuple(evidence))
    assert (await memory.get(f"fact:decision:{fact.id}")) is not None
    others = [
        await facts.store("claim", "Refunds take three days", evidence=evidence, provenance="ann"),
        await facts.store("decision", "Refunds take four days", evidence=evidence, provenance="ann"),
        await facts.store("decision", "Refunds take three days", evidence=evidence[:1], provenance="ann"),
        await facts.store("decision", "Refunds take three days", evidence=evidence, provenance="bob"),
    ]
    assert len({fact.id, *(other.id for other in others)}) == 5
    surer = await facts.store(
        "decision", "Refunds take three days", evidence=evidence, confidence=0.9, provenance="ann", tags=["t"]
    )
    assert (surer.id, surer.confidence) == (fact.id, 0.9)
    assert len(await memory.history()) == 6
    await memory.store("refunds", "no fact about refunds")
    assert len(await facts.recall("refunds", k=10)) == 5
    assert [f.id for f in await facts.recall("refunds", kind="claim")] == [others[0].id]
    assert {f.id for f in await facts.recall("refunds", tags=["t"])} == {fact.id}
    assert fact.id not in {f.id for f in await facts.recall("refunds", min_confidence=0.95)}
    recalled = await facts.recall("four")
    assert recalled[0].id == others[1].id
    assert recalled[0].score is not None
    soon = await facts.store("observation", "It rains", valid_until=clock.now + timedelta(minutes=1))
    assert [f.id for f in await facts.recall("rains")] == [soon.id]
    clock.now += timedelta(minutes=1)
    assert await facts.recall("rains") == []


async def test_facts_are_invalidated_by_what_they_have(in_file: Opened) -> None:
    memory = in_file()
    facts = memory.facts
    evidence = FileEvidence(path="src/a.py")
    await memory.store("no-fact", "a claim", tags=["claim"])

    async def stored() -> str:
        return (await facts.store("claim", "The sky is blue", evidence=[evidence], tags=["sky"])).id

    for choice in (
        {"id": await stored()},
        {"kind": "claim"},
        {"claim": "The sky is blue"},
        {"evidence": "src/a.py"},
        {"tag": "sky"},
        {"query": "SKY IS"},
        {"kind": "claim", "evidence": "a.py", "tag": ["sky", "evidence:file"]},
    ):
        expected = (await stored(),)
        assert (await facts.invalidate(**choice)).ids == expected, choice  # type: ignore[arg-type]
        assert await facts.recall("sky") == []
    fact_id = await stored()
    for choice in ({"id": "other"}, {"kind": "decision"}, {"claim": "The sky"}, {"evidence": "b.py"}):
        assert (await facts.invalidate(**choice)).count == 0, choice  # type: ignore[arg-type]
    with pytest.raises(MemoryUseError, match="name the facts"):
        await facts.invalidate()
    assert [f.id for f in await facts.recall("sky")] == [fact_id]
    assert await memory.get("no-fact") is not None


async def test_what_is_wrong_with_a_fact_is_numbered(in_file: Opened) -> None:
    store = in_file().facts.store
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"kind": "rumour"}, r"1\. kind: "),
        ({"claim": ""}, r"1\. claim: "),
        ({"kind": "rumour", "claim": ""}, r"1\. kind: .* 2\. claim: "),
        ({"evidence": [{"type": "dream"}]}, r"1\. 0: "),
        ({"evidence": [{"type": "file", "path": "", "first_line": 0}]}, r"1\. 0\.file\.path: .* 2\. 0\.file"),
        ({"evidence": [{"type": "file", "path": "a", "last_line": 2}]}, "last_line is not before"),
        ({"evidence": 3}, "no fact"),
        ({"confidence": 2}, "confidence is a number from 0 to 1"),
        ({"tags": [""]}, "a tag"),
    ]
    for arguments, text in wrong:
        with pytest.raises(MemoryUseError, match=text):
            await store(**{"kind": "claim", "claim": "x", **arguments})
    assert await in_file().history() == []


async def test_a_memory_stays_in_its_process(in_file: Opened) -> None:
    import copy
    import pickle

    memory = in_file()
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="stays in its process"):
            use(memory)
    assert isinstance(memory, nh.Memory)
