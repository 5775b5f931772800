"""Records of a memory at the dashboard: searched, corrected and erased by those who may."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nighthawk_async as nh
from nighthawk_async.asgi import Dashboard
from nighthawk_async.memory import Memory
from nighthawk_async.observe import TaskTree

from .dashboard_client import TOKEN, act, data_of, fetch

pytestmark = pytest.mark.anyio

OWN = {"authorization": f"Bearer {TOKEN}"}
HOSTILE = '<img src=x onerror="alert(1)">\u2028</script>'


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with nh.memory.open(tmp_path / "memory.db", namespace="support") as opened:
        yield opened


def dashboard(memory: Memory | None, **settings: Any) -> Dashboard:
    return Dashboard(TaskTree(), memory=memory, **{"token": {"ada": TOKEN}, **settings})


async def change(app: Dashboard, action: str, body: Any, **more: Any) -> Any:
    return await act(app, f"/api/memory/{action}", raw=json.dumps(body).encode(), **more)


async def found(app: Dashboard, text: str = "") -> list[dict[str, Any]]:
    response = await fetch(app, "/api/memory", query_string=f"text={text}".encode(), headers=OWN)
    assert response.status == 200, response.body
    return data_of(response)["records"]


async def test_records_are_searched_corrected_and_erased_with_a_receipt(memory: Memory) -> None:
    app = dashboard(memory)
    assert data_of(await fetch(app, "/api/tree"))["has_memory"] is True
    await memory.store("refunds", "Refunds take three days.", tags=["policy"], kind="claim", confidence=0.5)
    await memory.store("owls", {"wings": 2})
    (record,) = await found(app, "refunds")
    assert (record["key"], record["text"]) == ("refunds", "Refunds take three days.")
    assert record["score"] > 0
    assert [each["key"] for each in await found(app)] == ["owls", "refunds"]

    seen = {"key": "refunds", "id": record["id"]}
    corrected = data_of(await change(app, "correct", {**seen, "value": "Refunds take five days."}))["record"]
    assert corrected["value"] == "Refunds take five days."
    now = await memory.get("refunds")
    assert now is not None
    facts = (now.value, now.tags, now.kind, now.confidence, now.provenance)
    assert facts == ("Refunds take five days.", ("policy",), "claim", 0.5, "corrected by ada")

    stale = await change(app, "erase", seen)  # it was seen before the correction
    assert (stale.status, data_of(stale)["type"].rpartition(":")[2]) == (409, "not-possible")
    receipt = data_of(await change(app, "erase", {"key": "refunds", "id": now.id}))["receipt"]
    assert (receipt["versions"], len(receipt["ids"]), receipt["namespace"]) == (2, 2, "support")
    assert await memory.get("refunds") is None
    assert "days" not in str([event.record for event in await memory.history()])
    gone = await change(app, "erase", {"key": "refunds", "id": now.id})
    assert (gone.status, data_of(gone)["type"].rpartition(":")[2]) == (404, "no-such-record")


async def test_a_fact_is_erased_and_not_corrected(memory: Memory) -> None:
    app = dashboard(memory)
    fact = await memory.facts.store("claim", "Owls are birds.")
    (record,) = await found(app)
    seen = {"key": record["key"], "id": fact.id}
    assert (await change(app, "correct", {**seen, "value": "x"})).status == 409
    assert (await change(app, "erase", seen)).status == 200
    assert await memory.facts.recall() == []


async def test_who_may_not_reads_and_changes_nothing(memory: Memory) -> None:
    await memory.store("ann", "likes mail")
    app = dashboard(memory, allowed_hosts=["service.example"])
    (record,) = await found(app)
    body = {"key": "ann", "id": record["id"], "value": "x"}
    other_site = {"sec-fetch-site": "cross-site"}
    refused = {
        "no token": await change(app, "correct", body, token=None),
        "a wrong token": await change(app, "erase", body, token="b" * 20),
        "another site": await change(app, "correct", body, headers=other_site),
        "another origin": await change(app, "correct", body, headers={"origin": "https://evil.example"}),
        "another host": await change(app, "correct", body, headers={"host": "evil.example"}),
        "no JSON": await change(app, "correct", body, headers={"content-type": "text/plain"}),
        "an unknown field": await change(app, "erase", body),
        "no value": await change(app, "correct", {"key": "ann", "id": record["id"]}),
        "another action": await change(app, "forget", body),
        "by GET": await fetch(app, "/api/memory/erase", headers=OWN),
        "reading without a token": await fetch(app, "/api/memory"),
        "reading from another host": await fetch(app, "/api/memory", headers={**OWN, "host": "evil.example"}),
        "a bad number": await fetch(app, "/api/memory", query_string=b"most=x", headers=OWN),
    }
    statuses = {name: response.status for name, response in refused.items()}
    assert statuses == {
        "no token": 401,
        "a wrong token": 401,
        "another site": 403,
        "another origin": 403,
        "another host": 421,
        "no JSON": 415,
        "an unknown field": 400,
        "no value": 400,
        "another action": 404,
        "by GET": 405,
        "reading without a token": 401,
        "reading from another host": 421,
        "a bad number": 400,
    }
    assert all(b"likes mail" not in response.body for response in refused.values())
    assert [event.operation for event in await memory.history()] == ["store"]
    without_token = dashboard(memory, token=None)
    assert data_of(await fetch(without_token, "/api/memory"))["records"][0]["key"] == "ann"
    assert (await change(without_token, "erase", body)).status == 403
    nothing = dashboard(None)
    assert data_of(await fetch(nothing, "/api/tree"))["has_memory"] is False
    assert (await fetch(nothing, "/api/memory", headers=OWN)).status == 404


async def test_hostile_keys_and_values_are_plain_data(memory: Memory) -> None:
    app = dashboard(memory)
    await memory.store(HOSTILE, HOSTILE)
    (record,) = await found(app, "%3Cimg%20AND%20(%22")
    assert (record["key"], record["value"]) == (HOSTILE, HOSTILE)
    response = await fetch(app, "/api/memory", headers=OWN)
    assert dict(response.headers)["content-type"].startswith("application/json")
    changed = await change(app, "correct", {"key": HOSTILE, "id": record["id"], "value": {"a": [HOSTILE]}})
    assert data_of(changed)["record"]["value"] == {"a": [HOSTILE]}


async def test_a_store_that_is_away_says_so(memory: Memory) -> None:
    app = dashboard(memory)
    await memory.store("ann", "likes mail")
    nh.memory.close(memory)
    response = await fetch(app, "/api/memory", headers=OWN)
    assert (response.status, data_of(response)["type"].rpartition(":")[2]) == (503, "store-away")
