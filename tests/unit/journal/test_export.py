"""Runs as lines of JSON."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.errors import ModelStatusError
from nighthawk_async.testing import ScriptedExecutor, ScriptedModel, return_response

from .durable_runs import live, opened, shout, shouting

pytestmark = pytest.mark.anyio


@dataclass
class Receipt:
    """The declared type of a result."""

    number: int
    api_key: str


class PaymentError(Exception):
    """The error of an effect."""


@nh.once
async def pay(order: int) -> Receipt:
    """An effect with a declared type."""
    return Receipt(order, "hunter2")


@nh.once
async def refuse() -> None:
    """An effect that fails."""
    raise PaymentError("no money", 3)


@nh.once
async def look() -> dict[Any, Any]:
    """A result of types that JSON lacks."""
    return {1: {"when": datetime(2026, 1, 2, tzinfo=UTC), "raw": b"abc"}, "big": 2**70, "not": float("nan")}


def contents(store: nh.journal.JournalStore, kind: str, **options: Any) -> list[Any]:
    lines = [json.loads(line) for line in store.export("run-1", **options)]
    return [line["content"] for line in lines if line["kind"] == kind]


async def test_a_run_is_exported_as_readable_json(tmp_path: Path) -> None:
    async def program() -> None:
        assert await shout("a") == "A"
        await pay(17)
        with pytest.raises(PaymentError):
            await refuse()
        await look()

    model = shouting()
    with opened(tmp_path) as store:
        await live(store, model, program)
        lines = [json.loads(line) for line in store.export("run-1")]
        records = store.records("run-1")
        results = contents(store, "result")
        (response,) = contents(store, "response")
    assert [(line["seq"], line["kind"], line["place"], line["epoch"]) for line in lines] == [
        (record.seq, record.kind, record.place, record.epoch) for record in records
    ]
    assert datetime.fromisoformat(lines[0]["at"]).timestamp() == pytest.approx(records[0].at, abs=0.001)
    assert "content" not in lines[0]
    assert response["response"][0]["tool_call"]["arguments"] == {
        "target_path": "loud",
        "expression": "word.upper()",
    }
    assert results[0] == {"value": {"number": 17, "api_key": "[redacted]"}}
    assert results[1]["raised"].endswith(".PaymentError")
    assert results[1]["arguments"] == ["no money", 3]
    digest = "ba7816bf8f01cfea"
    assert results[2]["value"] == {
        "1": {"when": "2026-01-02T00:00:00+00:00", "raw": {"bytes": 3, "sha256": digest}},
        "big": str(2**70),
        "not": None,
    }


async def test_secrets_are_replaced_as_in_cassettes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-environment")

    @nh.once
    async def read() -> str:
        return "a-key-of-the-environment, sk-proj-0123456789abcdef0123, Ada"

    with opened(tmp_path) as store:
        await live(store, ScriptedModel([]), read)
        assert contents(store, "result") == [{"value": "[redacted], [redacted], Ada"}]
        redacted = contents(store, "result", redact=("Ada", lambda text: text.replace(",", ";")))
    assert redacted == [{"value": "[redacted]; [redacted]; [redacted]"}]


async def test_errors_values_decisions_and_answers_are_exported(tmp_path: Path) -> None:
    async def program() -> None:
        nh.journal.random()
        with pytest.raises(ModelStatusError):
            await shout("a")

    async def answered() -> None:
        assert await shout("a") == "B"

    failure = ModelStatusError("HTTP 400", status=400, is_transient=False)
    with opened(tmp_path) as store:
        await live(store, ScriptedModel([failure]), program)
        (value,) = contents(store, "value")
        assert 0 <= value < 1
        (error,) = contents(store, "failure")
        assert error == {"type": "ModelStatusError", "message": "HTTP 400", "status": 400}
        async with nh.run(ScriptedExecutor([return_response("'B'")]), journal=store, run_id="run-2"):
            await answered()
        (answer,) = [json.loads(line) for line in store.export("run-2") if '"answer"' in line]
    assert answer["content"]["outcome"]["kind"] == "return"
