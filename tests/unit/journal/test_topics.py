"""Topics: each message is handled once by each function that is subscribed, alone, in batches or by key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError, JournalValueError, RunStuckError
from tests.unit.journal.queue_jobs import fail, gates, made, note, pass_gate, serving, worker_of

from .durable_runs import change_tables, live, opened, query, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()
    gates.clear()


class Size(Enum):
    SMALL = 1


@dataclass(frozen=True)
class Order:
    customer: str
    number: int


class Parcel(BaseModel):
    orders: list[Order]
    size: Size


async def ship(order: Order) -> int:
    made.append(order)
    return order.number


async def ship_together(orders: list[Order]) -> int:
    made.append([order.number for order in orders])
    return len(orders)


async def take(parcel: Parcel | list[Order] | dict[str, Order]) -> None:
    made.append(parcel)


async def take_any(value) -> None:  # type: ignore[no-untyped-def]
    made.append(value)


async def pass_own_gate(order: Order) -> int:
    """Wait for the test, and fail if it says so."""
    made.append(order.number)
    await gates[str(order.number)].wait()
    if order.number == 0:
        raise LookupError("no such order")
    return order.number


def run_of(function: Any, number: int, topic: str = "orders") -> str:
    """The run in which a function gets a message."""
    return f"{topic}@{function.__module__}:{function.__name__}#{number}"


def statuses(store: nh.journal.JournalStore, topic: str = "orders") -> list[str]:
    """The statuses of the messages of a topic."""
    return [message.status for message in store.messages(topic)]


async def until_made(count: int) -> None:
    """Wait until functions have noted so much."""
    with anyio.fail_after(60):
        while len(made) < count:  # noqa: ASYNC110  (of the thread of a store)
            await anyio.sleep(0.01)


@asynccontextmanager
async def served(store: nh.journal.JournalStore, *functions: Any, **options: Any) -> AsyncIterator[None]:
    """Have a worker serve meanwhile."""
    async with serving(worker_of(store, *functions, **options)):
        yield


async def test_each_function_gets_each_message_once(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.subscribe("numbers", note, priority=3, max_lives=7)
        await store.subscribe("numbers", take_any)
        receipts = [await store.publish("numbers", number, id=f"n{number}") for number in (5, 6, 5)]
        assert [(each.number, each.id, each.duplicate) for each in receipts] == [
            (1, "n5", False),
            (2, "n6", False),
            (1, "n5", True),
        ]
        assert not (await store.publish("others", 5, id="n5")).duplicate
        own = {(await store.publish("others", 5)).id for _ in range(3)}
        assert len(own) == 3
        assert statuses(store, "numbers") == ["waiting", "waiting"]
        async with served(store, note, take_any):
            assert await _result(store, run_of(note, 2, "numbers")) == 6
            await until_made(4)
            await _until(lambda: statuses(store, "numbers") == ["ended", "ended"])
        assert sorted(made) == [5, 5, 6, 6]  # type: ignore[type-var]
        assert statuses(store, "others") == ["published"] * 4
        (first, _) = store.messages("numbers")
        assert (first.value, first.id, first.number, len(first.deliveries)) == (5, "n5", 1, 2)
        assert [each.number for each in store.messages("numbers", after=1)] == [2]
        assert [each.number for each in store.messages("others", after=1, limit=2)] == [2, 3]
        entries = {entry.run_id: entry for entry in store.queue_entries()}
        assert len(entries) == 4
        entry = entries[run_of(note, 1, "numbers")]
        assert (entry.priority, entry.max_lives, entry.queue) == (3, 7, "default")
        assert store.messages("unknown") == []


async def _result(store: nh.journal.JournalStore, run_id: str) -> Any:
    """The result of a run that a worker has still to enqueue."""
    await _until(lambda: any(entry.run_id == run_id for entry in store.queue_entries()))
    return await store.result(run_id)


async def _until(condition: Any) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110  (of the thread of a store)
            await anyio.sleep(0.02)


async def test_values_keep_their_types(tmp_path: Path) -> None:
    values: list[Any] = [
        Parcel(orders=[Order("ann", 1)], size=Size.SMALL),
        [Order("ann", 1), Order("bob", 2)],
        {"first": Order("ann", 1)},
    ]
    with opened(tmp_path) as store:
        await store.subscribe("parcels", take)
        for value in values:
            await store.publish("parcels", value)
        await store.subscribe("words", note)
        await store.publish("words", "no number")
        async with served(store, take, note):
            await until_made(3)
            with pytest.raises(JournalValueError, match=r"argument 'value' of .*:note: the message is none"):
                await _result(store, run_of(note, 1, "words"))
        assert sorted(map(repr, made)) == sorted(map(repr, values))
        # A publisher need not know the class.
        await store.publish("parcels", {"orders": [{"customer": "ann", "number": "1"}], "size": 1})
        async with served(store, take):
            await until_made(4)
        assert made[-1] == values[0]
        typed = store.messages("parcels", limit=1, type=Parcel)
        assert [each.value for each in typed] == values[:1]
        assert store.messages("parcels")[1].value == [
            {"customer": "ann", "number": 1},
            {"customer": "bob", "number": 2},
        ]
        with pytest.raises(JournalValueError, match="message 1 of the topic 'parcels'"):
            store.messages("parcels", type=int)
        assert statuses(store, "words") == ["failed"]


async def test_odd_arguments_are_refused_and_named(tmp_path: Path) -> None:
    odd: Any
    with opened(tmp_path, max_value_bytes=1_000) as store:
        for odd in (object(), lambda: None, {"a": {1: open}}, "\ud800", "a" * 2_000):
            with pytest.raises(JournalValueError, match=r"the message to the topic 'orders'.* type "):
                await store.publish("orders", odd)
        for odd in ("", 5, None):
            with pytest.raises(nh.NighthawkError, match="the name of a topic"):
                await store.publish(odd, 1)
            with pytest.raises(nh.NighthawkError, match="the name of a topic"):
                store.messages(odd)
        with pytest.raises(nh.NighthawkError, match="the id of a message"):
            await store.publish("orders", 1, id="")
        with pytest.raises(JournalValueError, match="NUL"):
            await store.publish("or\0ders", 1)
        for options, words in (
            ({"count": 0}, "count is"),
            ({"count": 2.5}, "count is"),
            ({"count": True}, "count is"),
            ({"count": 10_001}, "count is"),
            ({"window": 0}, "window is"),
            ({"window": float("nan")}, "window is"),
            ({"window": "soon"}, "window is"),
            ({"key": ""}, "key is the name of a field"),
            ({"key": len}, "key is the name of a field"),
            ({"after": -1}, "after is"),
            ({"queue": ""}, "name of a queue"),
            ({"priority": 1.5}, "priority is"),
            ({"count": 2}, "'order' of .*ship is declared as .*Order.* declare a list"),
        ):
            with pytest.raises(nh.NighthawkError, match=words):
                await store.subscribe("orders", ship, **options)  # type: ignore[arg-type]
        with pytest.raises(nh.NighthawkError, match="cannot be called by a worker"):
            await store.subscribe("orders", lambda order: None)
        with pytest.raises(TypeError, match="cannot be called with a message: "):
            await store.subscribe("orders", test_values_keep_their_types.__class__ and no_arguments)
        for odd in (-1, "1", 1.0):
            with pytest.raises(nh.NighthawkError, match="after is"):
                store.messages("orders", after=odd)
        with pytest.raises(nh.NighthawkError, match="limit is"):
            store.messages("orders", limit=0)
        assert store.topics() == []


async def no_arguments() -> None:
    """Take no message."""


async def test_a_subscription_begins_where_it_says_and_is_replaced_and_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(3):
            await store.publish("numbers", number)
        await store.subscribe("numbers", note)
        assert store.topics()[0].subscriptions[0].waiting == 0
        await store.publish("numbers", 3)
        await store.subscribe("numbers", note, after=1, queue="fast")  # 2 is there, and 3 once
        (topic,) = store.topics()
        (row,) = topic.subscriptions
        assert (topic.name, topic.messages, row.waiting, row.queue) == ("numbers", 4, 3, "fast")
        async with served(store, note, queue="fast"):
            await until_made(3)
            await _until(lambda: statuses(store, "numbers") == ["published", "ended", "ended", "ended"])
            assert await store.unsubscribe("numbers", note)
            assert not await store.unsubscribe("numbers", note)
            await store.publish("numbers", 4)
            await store.subscribe(
                "numbers", note, after=0, queue="fast"
            )  # what it has had does not come again
            await until_made(5)
            await _until(lambda: statuses(store, "numbers") == ["ended"] * 5)
        assert sorted(made) == [0, 1, 2, 3, 4]  # type: ignore[type-var]
        await store.publish("numbers", 5)
        assert await store.unsubscribe("numbers", f"{note.__module__}:note")
        assert statuses(store, "numbers")[-1] == "published"
        assert store.topics()[0].subscriptions == ()


async def test_messages_of_one_key_are_handled_in_order_one_after_the_other(tmp_path: Path) -> None:
    gates.update({str(number): anyio.Event() for number in range(5)})
    with opened(tmp_path) as store:
        await store.subscribe("orders", pass_own_gate, key="customer")
        for number, customer in enumerate(("ann", "ann", "bob", "ann", "bob")):
            await store.publish("orders", Order(customer, number))
        async with served(store, pass_own_gate):
            await until_made(2)
            gates["4"].set()
            gates["1"].set()
            gates["2"].set()
            await until_made(3)
            await _result(store, run_of(pass_own_gate, 5))
            assert sorted(made) == [0, 2, 4]  # type: ignore[type-var]
            assert statuses(store) == ["waiting", "waiting", "ended", "waiting", "ended"]
            gates["0"].set()  # it fails, which is an end
            with pytest.raises(LookupError):
                await store.result(run_of(pass_own_gate, 1))
            await until_made(5)
            assert made[3:] == [1, 3]
            gates["3"].set()
            await _result(store, run_of(pass_own_gate, 4))
        assert statuses(store) == ["failed", "ended", "ended", "ended", "ended"]


async def test_a_message_without_the_key_fails_and_can_be_handled_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        await store.subscribe("orders", take_any, key="customer.name")
        values: list[Any] = [{"customer": "ann"}, "ann", {"customer": {"name": ["ann"]}}, None]
        for value in [*values, {"customer": {"name": None}}]:
            await store.publish("orders", value)
        async with served(store, take_any):
            for number in range(1, 5):
                with pytest.raises(JournalValueError, match=rf"message {number} of .*'customer\.name'"):
                    await _result(store, run_of(take_any, number))
            await _result(store, run_of(take_any, 5))
            assert len(made) == 1
            assert statuses(store) == ["failed"] * 4 + ["ended"]
            await store.requeue(run_of(take_any, 1))
            await store.result(run_of(take_any, 1))
            assert made[1] == values[0]
        assert sum("has no field 'customer.name'" in each.message for each in caplog.records) == 4
        # What has failed so is pruned as other runs are.
        assert len(store.prune(timedelta(0), statuses=["ended", "failed"]).runs) == 5


async def test_batches_end_by_count_by_window_and_by_key(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.subscribe("counted", ship_together, count=2)
        await store.subscribe("windows", ship_together, window=timedelta(hours=1))
        await store.subscribe("both", ship_together, count=3, window=3_600, key="customer")
        for number, customer in enumerate(("ann", "ann", "bob", "ann", "bob")):
            for topic in ("counted", "windows", "both"):
                await store.publish(topic, Order(customer, number))
        change_tables(
            tmp_path, "UPDATE topic_deliveries SET at = at - 3700 WHERE topic <> 'counted' AND number < 4"
        )
        async with served(store, ship_together):
            await until_made(5)
            await _until(lambda: statuses(store, "both").count("ended") == 3)
        assert sorted(map(str, made)) == ["[0, 1, 2]", "[0, 1]", "[0, 1]", "[2, 3]", "[2]"]
        assert statuses(store, "counted") == ["ended"] * 4 + ["waiting"]
        assert statuses(store, "windows") == ["ended"] * 3 + ["waiting"] * 2
        assert statuses(store, "both") == ["ended"] * 3 + ["waiting"] * 2
        (row,) = store.topics()[0].subscriptions
        assert (row.options.count, row.options.window, row.options.key) == (3, 3_600, "customer")
        # A batch that is open belongs to what replaces its subscription.
        await store.subscribe("counted", ship_together, count=1)
        async with served(store, ship_together):
            await until_made(6)
            await _result(store, run_of(ship_together, 5, "counted"))
        assert made[-1] == [4]


async def test_a_batch_has_no_more_bytes_than_a_value(tmp_path: Path) -> None:
    with opened(tmp_path, max_value_bytes=200_000) as store:
        await store.subscribe("texts", take_all, count=10)
        for word in "abcde":
            await store.publish("texts", word * 80_000)
        async with served(store, take_all):
            await until_made(2)
        assert made == [["a", "b"], ["c", "d"]]


async def take_all(texts: list[str]) -> None:
    made.append([text[0] for text in texts])


async def test_a_message_whose_handler_is_gone_is_stuck_until_there_is_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        await store.subscribe("orders", ship, key="customer")
        for number in range(2):
            await store.publish("orders", Order("ann", number))
        run_id = run_of(ship, 1)
        async with served(store, note):
            await _until(lambda: len(store.queue_entries()) == 1)
        assert statuses(store) == ["waiting", "waiting"]  # a worker that is given it may be about to come
        change_tables(tmp_path, "UPDATE queue_entries SET due_at = 5")
        change_tables(tmp_path, "UPDATE topic_deliveries SET begun_at = 5 WHERE state = 'begun'")
        async with served(store, note):
            await _until(lambda: statuses(store) == ["stuck", "waiting"])
            with pytest.raises(
                RunStuckError, match=r"no worker of the queue 'default' has been given .*:ship"
            ):
                await store.result(run_id)
            assert [entry.status for entry in store.queue_entries()] == ["stuck"]
            assert [(run.status, run.run_id) for run in store.runs()] == [("stuck", run_id)]
            assert store.topics()[0].subscriptions[0].stuck == 1
        assert any("is stuck: no worker of the queue" in each.message for each in caplog.records)
        async with served(store, note, ship):
            await until_made(2)
            await _result(store, run_of(ship, 2))
        assert made == [Order("ann", 0), Order("ann", 1)]
        assert statuses(store) == ["ended", "ended"]


async def test_a_worker_that_was_given_the_handler_a_while_ago_keeps_messages_from_being_stuck(
    tmp_path: Path,
) -> None:
    with opened(tmp_path) as store:
        await store.subscribe("orders", ship)
        await store.publish("orders", Order("ann", 0))
        async with served(store, note):
            await _until(lambda: len(store.queue_entries()) == 1)
        old = "UPDATE queue_entries SET due_at = 5; UPDATE topic_deliveries SET begun_at = 5"
        for statement in old.split("; "):
            change_tables(tmp_path, statement)
        now = "SELECT 1e12"  # a time to come: a worker is there
        change_tables(
            tmp_path, f"INSERT INTO topic_handlers VALUES ('default', '{ship.__module__}:ship', ({now}))"
        )
        async with served(store, note):
            await store.result(await store.enqueue(note, 1))
        assert statuses(store) == ["waiting"]
        change_tables(tmp_path, "UPDATE topic_handlers SET seen_at = 5")
        async with served(store, note):
            await _until(lambda: statuses(store) == ["stuck"])
            # Somebody may repeat it by hand; it waits for a handler anew.
            await store.requeue(run_of(ship, 1))
            assert statuses(store) == ["waiting"]


async def test_a_call_that_gets_stuck_by_crashes_is_not_repeated_by_itself(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.subscribe("orders", ship, key="customer", max_lives=1)
        for number in range(2):
            await store.publish("orders", Order("ann", number))
        async with served(store, note):
            await _until(lambda: len(store.queue_entries()) == 1)
        change_tables(
            tmp_path,
            "UPDATE queue_entries SET status = 'claimed', lives = 1, claim = 1, holder = 'dead', "
            "leased_until = 0",
        )
        async with served(store, ship):
            await _until(lambda: statuses(store) == ["stuck", "waiting"])
            await store.result(await store.enqueue(ship, Order("bob", 5)))
            assert statuses(store) == ["stuck", "waiting"]
            await store.requeue(run_of(ship, 1))
            await _result(store, run_of(ship, 2))
        assert made == [Order("bob", 5), Order("ann", 0), Order("ann", 1)]


async def test_publishers_at_the_same_time_publish_an_id_once(tmp_path: Path) -> None:
    receipts: list[nh.journal.Receipt] = []
    with opened(tmp_path) as store, opened(tmp_path) as other:
        await store.subscribe("numbers", note, key="number")

        async def publish(of: nh.journal.JournalStore, number: int) -> None:
            receipts.append(await of.publish("numbers", {"number": number}, id=str(number)))

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                for of in (store, other):
                    tasks.start_soon(publish, of, number % 6)
        new = [each for each in receipts if not each.duplicate]
        assert sorted(each.number for each in new) == [1, 2, 3, 4, 5, 6]
        assert {each.id: each.number for each in receipts} == {each.id: each.number for each in new}
        assert [each.number for each in store.messages("numbers")] == [1, 2, 3, 4, 5, 6]
        assert store.topics()[0].subscriptions[0].waiting == 6


async def test_a_run_publishes_once_in_all_lives(tmp_path: Path) -> None:
    async def program(*values: int, crash: bool = False) -> list[nh.journal.Receipt]:
        receipts = [await store.publish("numbers", value) for value in values]
        receipts.append(await store.publish("numbers", 7, id="seven"))
        if crash:
            raise SystemError("the power is off")
        return receipts

    with opened(tmp_path) as store:
        assert not (await store.publish("numbers", 6)).duplicate
        with pytest.raises(SystemError):
            await live(store, shouting(), lambda: program(1, 1, crash=True))
        first = store.messages("numbers")
        assert [message.value for message in first] == [6, 1, 1, 7]
        # The process was killed between a write and the record of its end.
        ((last,),) = query(store, "SELECT MAX(seq) FROM records WHERE run_id = 'run-1' AND kind = 'result'")
        change_tables(tmp_path, f"DELETE FROM records WHERE run_id = 'run-1' AND seq >= {last}")
        receipts = await live(store, shouting(), lambda: program(1, 1))
        assert [(each.number, each.duplicate) for each in receipts] == [(2, False), (3, False), (4, False)]
        assert [each.id for each in receipts] == [message.id for message in first[1:]]
        assert [message.value for message in store.messages("numbers")] == [6, 1, 1, 7]
        assert (await store.publish("numbers", 7, id="seven")).duplicate
        change_tables(tmp_path, "UPDATE runs SET status = 'failed'")
        change_tables(tmp_path, "DELETE FROM records WHERE kind = 'end'")
        with pytest.raises(JournalDivergenceError, match="publish"):
            await live(store, shouting(), lambda: program(1, 2))
        assert len(store.messages("numbers")) == 4


async def test_a_handler_may_park_fail_and_publish(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.subscribe("numbers", fail)
        await store.publish("numbers", 1)
        async with served(store, fail):
            with pytest.raises(LookupError, match="no order"):
                await _result(store, run_of(fail, 1, "numbers"))
            assert statuses(store, "numbers") == ["failed"]
        await store.subscribe("gates", pass_gate)
        gates["g"] = anyio.Event()
        gates["g"].set()
        await store.publish("gates", "g")
        async with served(store, pass_gate):
            assert await _result(store, run_of(pass_gate, 1, "gates")) == "g"


async def test_old_messages_are_pruned_with_their_runs_and_their_ids_stay(tmp_path: Path) -> None:
    large = "a" * 100_000
    with opened(tmp_path) as store:
        await store.subscribe("texts", take_any)
        await store.subscribe("texts", ship_nothing, queue="other")
        for id_ in ("one", "two"):
            await store.publish("texts", large, id=id_)
        await store.publish("unread", large)
        async with served(store, take_any):
            await until_made(2)
            await _until(lambda: all(entry.status == "ended" for entry in store.queue_entries()))
        report = store.prune(timedelta(0), dry_run=True)
        assert (len(report.runs), report.topic_messages) == (2, 1)  # the other function waits for them
        await store.unsubscribe("texts", ship_nothing)
        trial, report = store.prune(timedelta(0), dry_run=True), store.prune(timedelta(0))
        assert trial.topic_messages == report.topic_messages == 3
        assert query(store, "SELECT COUNT(*) FROM blobs") == [(0,)]
        assert (store.messages("texts"), store.messages("unread")) == ([], [])
        receipt = await store.publish("texts", "b", id="two")
        assert (receipt.number, receipt.duplicate) == (2, True)
        await store.publish("texts", "c", id="three")
        await store.subscribe("texts", take_any, after=0)
        async with served(store, take_any):
            await until_made(3)
        assert [each.number for each in store.messages("texts")] == [3]
        assert made[-1] == "c"


async def ship_nothing(text: str) -> None:
    """Take a text."""


SECRET = "a customer that nobody may know"
KEYS = {"2026-05": b"o" * 32}
NEW_KEYS = {"2026-11": b"n" * 32}
TABLES = ("topics", "topic_messages", "subscriptions", "topic_deliveries", "queue_entries", "blobs", "runs")


def stored(store: nh.journal.JournalStore) -> bytes:
    """Everything in the tables that may come from messages."""
    rows = [row for table in TABLES for row in query(store, f"SELECT * FROM {table}")]
    return b"\n".join(each if isinstance(each, bytes) else str(each).encode() for row in rows for each in row)


async def test_messages_and_their_keys_are_encrypted_and_the_keys_are_exchanged(tmp_path: Path) -> None:
    large = {"customer": SECRET, "text": SECRET * 5_000}
    with opened(tmp_path, keys=KEYS) as store:
        await store.subscribe("orders", take_any, key="customer")
        for value in ({"customer": SECRET}, large):
            await store.publish("orders", value)
        (topic,) = query(store, "SELECT COUNT(DISTINCT key) FROM topic_deliveries")
        assert topic == (1,)
        assert SECRET.encode() not in stored(store)
    with opened(tmp_path) as store:
        for read in (store.topics, lambda: store.messages("orders")):
            with pytest.raises(nh.journal.JournalKeyError, match="2026-05"):
                read()
        for write in (
            store.publish("orders", 1),
            store.subscribe("orders", note),
            store.unsubscribe("orders", note),
        ):
            with pytest.raises(nh.journal.JournalKeyError, match="2026-05"):
                await write
    with opened(tmp_path, keys={**KEYS, **NEW_KEYS}, active_key="2026-11") as store:
        store.reencrypt()
        assert b"2026-05" not in stored(store)
        assert SECRET.encode() not in stored(store)
    with opened(tmp_path, keys=NEW_KEYS) as store:
        await store.publish("orders", {"customer": SECRET})  # the same key as before
        assert query(store, "SELECT COUNT(DISTINCT key) FROM topic_deliveries") == [(1,)]
        async with served(store, take_any):
            await until_made(3)
            await _result(store, run_of(take_any, 3))
        assert made == [{"customer": SECRET}, large, {"customer": SECRET}]
        assert SECRET.encode() not in stored(store)


async def test_what_was_changed_behind_the_back_of_an_audited_store_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path, audit_key=b"a" * 32) as store:
        await store.subscribe("orders", take_any)
        await store.subscribe("others", take_any, count=1)
        for number in range(3):
            await store.publish("orders", number)
        await store.publish("others", 3)
        assert store.verify() == []
        change_tables(tmp_path, "UPDATE subscriptions SET priority = 9 WHERE topic = 'others'")
        change_tables(
            tmp_path,
            "UPDATE topic_messages SET body = (SELECT body FROM topic_messages WHERE topic = 'orders' "
            "AND number = 1) WHERE topic = 'orders' AND number = 2",
        )
        await store.publish("others", 4)  # others publish all the same
        async with served(store, take_any):
            await until_made(2)
            with pytest.raises(nh.journal.JournalAuditError, match=r"'orders@.*#2'.*another row"):
                await _result(store, run_of(take_any, 2))
        assert sorted(made) == [0, 2]  # type: ignore[type-var]
        assert any("to 'others' starts no run: " in each.message for each in caplog.records)
        for read in (store.verify, store.topics, lambda: store.messages("orders")):
            with pytest.raises(nh.journal.JournalAuditError, match="another row"):
                read()
        await store.subscribe("others", take_any)
        async with served(store, take_any):
            await until_made(4)
        change_tables(tmp_path, "DELETE FROM topic_messages WHERE topic = 'others' AND number = 1")
        with pytest.raises(nh.journal.JournalAuditError, match="something was removed"):
            store.messages("others")
        await store.publish("orders", 5)
    with opened(tmp_path) as store, anyio.fail_after(60):
        with pytest.raises(nh.journal.JournalAuditError, match="audit key"):
            await worker_of(store, take_any).serve()
        with pytest.raises(nh.journal.JournalAuditError, match="audit key"):
            await store.publish("orders", 6)
