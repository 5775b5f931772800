"""Schedules: each due time is enqueued once, missed ones are made up for once."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import nighthawk_async as nh
from nighthawk_async.journal.cron_times import latest_time, next_time
from tests.unit.journal import queue_jobs
from tests.unit.journal.queue_jobs import note, serving, worker_of

from .durable_runs import change_tables, opened

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    queue_jobs.made.clear()


def at(text: str) -> float:
    """A time, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()


async def test_missed_times_are_made_up_for_once_by_any_number_of_workers(tmp_path: Path) -> None:
    with opened(tmp_path) as store, opened(tmp_path) as other:
        await store.schedule("nightly", note, 1, cron="0 3 * * *", priority=2, max_lives=7)
        (planned,) = store.schedules()
        assert (planned.name, planned.cron, planned.timezone, planned.queue) == (
            "nightly",
            "0 3 * * *",
            "UTC",
            "default",
        )
        latest = datetime.fromtimestamp(planned.next_at, UTC) - timedelta(days=1)
        assert (latest.hour, latest.minute) == (3, 0)
        change_tables(tmp_path, f"UPDATE schedules SET next_at = {planned.next_at - 5 * 86_400}")
        run_id = f"nightly@{latest:%Y-%m-%dT%H:%M:%SZ}"
        async with serving(worker_of(store, note), worker_of(other, note)):
            assert await store.result(await store.enqueue(note, 2)) == 2
            assert await store.result(run_id) == 1
        entries = {entry.run_id: entry for entry in store.queue_entries()}
        assert len(entries) == 2
        assert (entries[run_id].priority, entries[run_id].max_lives) == (2, 7)
        assert entries[run_id].due_at == latest.timestamp()
        assert store.schedules() == [planned]
        assert sorted(queue_jobs.made, key=str) == [1, 2]


async def test_a_time_that_was_enqueued_is_not_enqueued_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.schedule("nightly", note, 1, cron="0 3 * * *", queue="nights")
        (planned,) = store.schedules()
        for number in range(2):
            change_tables(tmp_path, f"UPDATE schedules SET next_at = {planned.next_at - 86_400}")
            async with serving(worker_of(store, note, queue="nights")):
                await store.result(await store.enqueue(note, number, queue="nights"))
        assert sorted(queue_jobs.made, key=str) == [0, 1, 1]
        assert len(store.queue_entries()) == 3


async def test_the_workers_of_another_queue_leave_a_schedule_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.schedule("nightly", note, 1, cron="0 3 * * *", queue="nights")
        change_tables(tmp_path, "UPDATE schedules SET next_at = 0")
        async with serving(worker_of(store, note)):
            assert await store.result(await store.enqueue(note, 2)) == 2
        assert len(store.queue_entries()) == 1


async def test_a_schedule_is_replaced_and_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.schedule("nightly", note, 1, cron="0 3 * * *")
        change_tables(tmp_path, "UPDATE schedules SET next_at = 5")
        await store.schedule("nightly", note, 2, cron="0 3 * * *", queue="nights")
        (kept,) = store.schedules()
        assert (kept.next_at, kept.queue) == (5, "nights")
        await store.schedule("nightly", note, 2, cron="0 3 * * *", timezone="Asia/Tokyo")
        (moved,) = store.schedules()
        assert datetime.fromtimestamp(moved.next_at, UTC).hour == 18
        assert await store.unschedule("nightly")
        assert not await store.unschedule("nightly")
        assert store.schedules() == []


async def test_what_is_no_schedule_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for cron, timezone, reason in (
            ("soon", "UTC", "no cron expression: "),
            ("0 0 31 2 *", "UTC", "cron expression"),
            ("0 3 * * *", "Mars/Base", "no time zone"),
            ("0 3 * * *", "../etc", "no time zone"),
        ):
            with pytest.raises(nh.NighthawkError, match=reason):
                await store.schedule("nightly", note, 1, cron=cron, timezone=timezone)
        with pytest.raises(nh.NighthawkError, match="name of a schedule"):
            await store.schedule("", note, 1, cron="0 3 * * *")
        with pytest.raises(TypeError, match="missing"):
            await store.schedule("nightly", note, cron="0 3 * * *")
        assert store.schedules() == []


async def test_a_schedule_of_an_unknown_time_zone_ends_nobody_elses_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        await store.schedule("nightly", note, 1, cron="0 3 * * *")
        change_tables(tmp_path, "UPDATE schedules SET next_at = 0, timezone = 'Mars/Base'")
        async with serving(worker_of(store, note)):
            assert await store.result(await store.enqueue(note, 2)) == 2
        assert sum("'nightly' enqueues nothing" in each.message for each in caplog.records) == 1


def test_the_times_of_an_expression_follow_the_clocks_of_its_time_zone() -> None:
    # Clocks go forward at 2:00 on 2026-03-29 in Berlin, and back at 3:00 on 2026-10-25.
    nine = "0 9 * * *"
    assert next_time(nine, "Europe/Berlin", at("2026-03-28T09:00:00+00:00")) == at(
        "2026-03-29T07:00:00+00:00"
    )
    assert latest_time(nine, "Europe/Berlin", at("2026-10-25T12:00:00+00:00")) == at(
        "2026-10-25T08:00:00+00:00"
    )
    half_past_two = "30 2 * * *"
    skipped = next_time(half_past_two, "Europe/Berlin", at("2026-03-28T12:00:00+00:00"))
    assert skipped == at("2026-03-29T01:00:00+00:00")
    first = next_time(half_past_two, "Europe/Berlin", at("2026-10-24T12:00:00+00:00"))
    assert next_time(half_past_two, "Europe/Berlin", first) == at("2026-10-26T01:30:00+00:00")


def test_the_latest_time_may_be_now() -> None:
    now = at("2026-11-26T03:00:00+00:00")
    assert latest_time("0 3 * * *", "UTC", now) == now
    assert latest_time("0 3 * * *", "UTC", now - 1) == now - 86_400
    assert next_time("0 3 * * *", "UTC", now) == now + 86_400
