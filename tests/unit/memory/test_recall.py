"""Recall: what is found, in which order, and what no query and no name can do."""

import math
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.memory import EmbeddingError, MemoryUseError

from .conftest import Clock, Opened

pytestmark = pytest.mark.anyio

RECORDS = {
    "refunds": ("Refunds take three days, and refunds of gift cards take five.", ["policy"]),
    "shipping": ("Shipping takes two days; refunds of shipping are not possible.", ["policy", "logistics"]),
    "ann": ("Ann prefers mail to calls. She has asked for a refund of a lamp.", ["customer"]),
    "lamp": ("The lamp is sold out until spring.", ["product"]),
    "hours": ("Calls are answered from nine to five.", []),
}
QUERIES = ["refunds days", "lamp", "calls take five days"]


def order_of_fts5(query: str) -> list[str]:
    """The keys in the order of SQLite's own BM25."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE records USING fts5 (key, tags, text)")
    for key, (text, tags) in RECORDS.items():
        connection.execute("INSERT INTO records VALUES (?, ?, ?)", (key, " ".join(tags), text))
    match = " OR ".join(f'"{word}"' for word in query.split())
    rows = connection.execute(
        "SELECT key FROM records WHERE records MATCH ? ORDER BY bm25(records), rowid DESC", (match,)
    ).fetchall()
    connection.close()
    return [key for (key,) in rows]


async def filled(memory: nh.Memory) -> nh.Memory:
    for key, (text, tags) in RECORDS.items():
        await memory.store(key, text, tags=tags, id=f"id-{key}")
    return memory


def keys(records: list[Any]) -> list[str]:
    return [record.key for record in records]


async def test_words_are_ranked_as_by_fts5_and_the_key_comes_first(opened: Opened) -> None:
    memory = await filled(opened())
    for query in QUERIES:
        expected = order_of_fts5(query)
        first = [query] if query in RECORDS else []
        assert keys(await memory.recall(query, k=10)) == [*first, *(k for k in expected if k not in first)]
    best = (await memory.recall("Shipping"))[0]
    assert best.key == "shipping"
    assert best.score == pytest.approx(sum(best.parts.values()))
    assert set(best.parts) == {"words", "key"}
    assert str(best).startswith(f"({best.score:g}: words ")
    assert (await memory.recall("logistics"))[0].parts["tags"] > 0
    assert keys(await memory.recall("refunds days", k=1)) == order_of_fts5("refunds days")[:1]


async def test_any_text_is_a_query(opened: Opened) -> None:
    memory = await filled(opened())
    texts = [
        'what"s (this AND -',
        '"',
        "NEAR(",
        "a* OR",
        "%",
        "'; DROP TABLE memory_log; --",
        "\0\n",
        "\ud800",
    ]
    for text in [*texts, "lamp " * 5_000, "???", "  "]:
        found = await memory.recall(text)
        assert ("lamp" in keys(found)) == ("lamp" in text or not text.strip()), text
    assert keys(await memory.recall("LÁMP")) == keys(await memory.recall("lamp"))


async def test_without_a_query_the_latest_come_first(opened: Opened) -> None:
    memory = await filled(opened())
    assert keys(await memory.recall("", k=2)) == ["hours", "lamp"]
    assert keys(await memory.recall("", tags=["policy"])) == ["shipping", "refunds"]
    assert keys(await memory.recall("refunds", tags=["policy", "Logistics"])) == ["shipping"]
    assert await memory.recall("refunds", tags=["nobody"]) == []


async def test_equal_scores_are_ordered_by_time_and_id(in_file: Opened, clock: Clock) -> None:
    memory = in_file()
    now = clock.now
    for key, seconds in (("b", 1), ("a", 1), ("c", 2)):
        clock.now = now + timedelta(seconds=seconds)
        await memory.store(key, "same words", id=f"id-{key}")
    assert keys(await memory.recall("words")) == ["c", "a", "b"]
    again = await memory.recall("words")
    assert again == await memory.recall("words")


async def test_text_without_spaces_between_words_is_found(in_file: Opened) -> None:
    memory = in_file()
    await memory.store("tokyo", "返金は三日かかります", tags=["日本"])
    await memory.store("paris", "Les cafés ferment à l'été")
    assert keys(await memory.recall("返金")) == ["tokyo"]
    assert keys(await memory.recall("ETE cafe")) == ["paris"]


async def test_a_later_record_of_a_key_supersedes_and_validity_ends(opened: Opened, clock: Clock) -> None:
    memory = await filled(opened())
    await memory.store("lamp", "The lamp is back.", valid_until=clock.now + timedelta(minutes=5))
    assert [r.text for r in await memory.recall("lamp", k=1)] == ["The lamp is back."]
    assert not any("sold out" in r.text for r in await memory.recall("lamp sold out spring"))
    clock.now += timedelta(minutes=5)
    assert "lamp" not in keys(await memory.recall("lamp"))
    assert await memory.get("lamp") is None
    forgotten = await memory.forget(query="REFUNDS TAKE")
    assert forgotten.ids == ("id-refunds",)
    assert await memory.get("refunds") is None
    assert keys(await memory.recall("refunds days")) == ["shipping", "ann"][:1]
    operations = [(e.operation, e.ids) for e in await memory.history()]
    assert len(operations) == 7
    assert operations[-1] == ("forget", ("id-refunds",))
    assert [e.operation for e in await memory.history("refunds")] == ["store", "forget"]
    assert [e.record.text for e in await memory.history("lamp") if e.record is not None] == [
        "The lamp is sold out until spring.",
        "The lamp is back.",
    ]


async def test_kinds_and_confidence_restrict(in_file: Opened) -> None:
    memory = in_file()
    for number, confidence in enumerate((0.2, 0.9, None)):
        await memory.store(f"r{number}", "rain", kind="guess" if number < 2 else "", confidence=confidence)
    assert keys(await memory.recall("rain", kind="guess", min_confidence=0.5)) == ["r1"]
    assert keys(await memory.recall("rain", kind="guess")) == ["r1", "r0"]
    assert keys(await memory.recall("rain", min_confidence=0)) == ["r1", "r0"]


async def test_hybrid_scores_are_weighted_and_vectors_are_computed_once(opened: Opened) -> None:
    asked: list[str] = []

    async def embed(texts: Any) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0, 0.0] if "east" in text else [0.0, 2.0] for text in texts]

    memory = opened(embed=embed, weights=(0, 1))
    await memory.store("a", "to the east")
    await memory.store("b", "to the north")
    found = await memory.recall("east")
    assert [(r.key, r.score) for r in found] == [("a", 1.0), ("b", 0.0)]
    assert found[0].parts == {"lexical": 1.0, "semantic": 1.0}
    assert sorted(asked) == ["east", "to the east", "to the north"]
    assert await memory.recall("east") == found
    assert [r.score for r in await memory.recall("east", mode="semantic")] == [1.0, 0.0]
    assert len(asked) == 3
    assert "semantic" not in (await memory.recall("east", mode="lexical"))[0].parts
    detached = opened(embed_hint=memory_hint(embed), weights=(0, 1))
    assert await detached.recall("east") == found
    with pytest.raises(EmbeddingError, match="without embed="):
        await detached.recall("west")
    with pytest.raises(EmbeddingError, match="open the memory with embed="):
        await opened().recall("east", mode="semantic")


def memory_hint(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


async def test_vectors_that_do_not_fit_are_refused(in_file: Opened) -> None:
    vectors: list[Any] = [[1.0, 0.0]]

    async def embed(texts: Any) -> Any:
        return vectors * len(texts) if isinstance(vectors, list) else vectors

    memory = in_file(embed=embed, embed_hint="small")
    await memory.store("a", "east")
    assert len(await memory.recall("east")) == 1
    for given, text in (
        ([[1.0, 0.0, 0.0]], r"has 3 numbers, .* have 2"),
        ([[math.nan, 0.0]], "all finite"),
        ([[1e400, 0.0]], "all finite"),
        ([[]], "has 0 numbers"),
        ([["x", "y"]], "no list of vectors"),
        ([[1.0, 0.0], [1.0, 0.0]], "2 vectors for 1 texts"),
        (None, "no list of vectors"),
    ):
        vectors = given  # type: ignore[assignment]
        with pytest.raises(EmbeddingError, match=text):
            await memory.recall(f"other {text}")
    named = in_file(embed=embed, embed_hint="small", embed_length=3)
    with pytest.raises(EmbeddingError, match=r"have 2 numbers, and embed_length is 3"):
        await named.recall("east")
    assert (await in_file("huge", embed=embed).recall("east")) == []  # nothing is there to compare with


async def test_arguments_that_cannot_be_used_are_named(tmp_path: Path, in_file: Opened, clock: Clock) -> None:
    for namespace in (
        "../x",
        "/x",
        "",
        "a//b",
        "a/../b",
        ".",
        "..",
        "a/",
        "a\\b",
        "a b",
        "a\0",
        "x" * 201,
        ".a",
    ):
        with pytest.raises(nh.ConfigurationError, match="a namespace is a relative path"):
            nh.memory.open(tmp_path / "memory.db", namespace=namespace)
    for options in (
        {"weights": (-1, 1)},
        {"weights": (0, 0)},
        {"weights": (math.inf, 0)},
        {"weights": (1,)},
        {"embed_length": 0},
        {"embed_hint": ""},
        {"embed": "minilm"},
    ):
        with pytest.raises(nh.ConfigurationError):
            nh.memory.open(tmp_path / "memory.db", **options)  # type: ignore[arg-type]
    for target in ("", ":memory:"):
        with pytest.raises(nh.ConfigurationError, match="in a file or in PostgreSQL"):
            nh.memory.open(target)
    assert not (tmp_path / "memory.db").exists()
    memory = in_file()
    wrong_recalls: list[dict[str, Any]] = [
        {"k": 0},
        {"k": 1_001},
        {"k": True},
        {"mode": "fuzzy"},
        {"min_confidence": 2},
        {"tags": [""]},
        {"query": 3},
    ]
    for arguments in wrong_recalls:
        with pytest.raises(MemoryUseError):
            await memory.recall(**{"query": "x", **arguments})
    wrong_stores: list[dict[str, Any]] = [
        {"key": ""},
        {"key": "x" * 1_001},
        {"key": "a\0"},
        {"key": "\ud800"},
        {"id": " "},
        {"tags": ["x" * 201]},
        {"tags": [str(number) for number in range(101)]},
        {"confidence": -0.1},
        {"confidence": math.nan},
        {"valid_until": clock.now.replace(tzinfo=None)},
        {"value": "x" * 70_000},
        {"value": "\ud800"},
        {"value": object()},
    ]
    for arguments in wrong_stores:
        with pytest.raises(MemoryUseError):
            await memory.store(**{"key": "k", "value": "v", **arguments})
    for method in (memory.forget, memory.erase):
        with pytest.raises(MemoryUseError, match="name the records"):
            await method()
        with pytest.raises(MemoryUseError):
            await method(key="")
    assert await memory.history() == []


async def test_namespaces_are_apart(opened: Opened) -> None:
    first, second, below = opened("one"), opened("two"), opened("one/below")
    await first.store("a", "in the first", id="same")
    await second.store("a", "in the second", id="same")
    assert [r.text for r in await first.recall("first second")] == ["in the first"]
    assert [r.text for r in await second.recall("first second")] == ["in the second"]
    assert await below.recall("first") == []
    await first.erase(key="a")
    assert await second.get("a") is not None
    assert repr(first) == "Memory(namespace='one')"


async def test_a_summary_is_bounded(in_file: Opened) -> None:
    memory = await filled(in_file())
    summary = await memory.summarize()
    assert summary.count == 5
    assert str(summary).splitlines()[0] == "- hours: Calls are answered from nine to five."
    short = await memory.summarize("refunds", limit=3, max_characters=60)
    assert short.count == len(short.records) == len(short.text.splitlines()) == 2
    assert len(short.text) <= 60
    assert "…" in short.text
    assert (await memory.summarize("nothing else")).text == ""
    with pytest.raises(MemoryUseError, match="max_characters"):
        await memory.summarize(max_characters=0)
