"""A program is killed while it publishes and serves a topic: no message is lost, and none handled twice."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import nighthawk_async as nh
from nighthawk_async.testing.killing import KillPoint, ProgramKiller
from tests.faults.topic_program import CUSTOMERS, LOG, MESSAGES
from tests.unit.journal.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each life is forked from one that is warm")

MOMENTS: list[Literal["before", "after"]] = ["before", "after"]
MARKED = [
    *(
        KillPoint(mark=f"{when} {what}", nth=nth)
        for what, passes in (("publication", (1, 3)), ("delivery", (2, 6, 11)), ("start", (1, 4, 9)))
        for when in MOMENTS
        for nth in passes
    ),
    *(KillPoint(mark=mark, nth=nth) for mark in ("handling", "handled") for nth in (1, 5, 11)),
]
AT_RECORDS = [KillPoint(record=record, when=when) for record in range(1, 10) for when in MOMENTS]


@pytest.fixture(scope="module")
def killer() -> Iterator[ProgramKiller]:
    root = Path(__file__).parents[2]
    with ProgramKiller("tests.faults.topic_program:main", {}, path=[root, root / "src"]) as opened:
        yield opened


def check(folder: Path, address: str, case: object) -> None:
    """Check what was published and handled."""
    lines = (folder / LOG).read_text().splitlines()
    numbers = range(MESSAGES)
    expected = [
        *(f"alone {number}" for number in numbers),
        *(f"in_turn {number % CUSTOMERS} {number}" for number in numbers),
        *(f"together {number}" for number in numbers),
    ]
    assert sorted(lines) == sorted(expected), case
    for customer in range(CUSTOMERS):
        of_customer = [line for line in lines if line.startswith(f"in_turn {customer} ")]
        assert of_customer == sorted(of_customer), case
    with nh.journal.open(address) as store:
        messages = store.messages("orders")
        assert [each.number for each in messages] == list(range(1, MESSAGES + 1)), case
        assert [each.value["number"] for each in messages] == list(numbers), case
        runs = {delivery.run_id for each in messages for delivery in each.deliveries}
        assert len(runs) == 2 * MESSAGES + MESSAGES // 2, case
        assert {run.run_id for run in store.runs()} == {*runs, "publishing"}, case


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_killed_programs_lose_no_message_and_handle_none_twice(
    killer: ProgramKiller,
    tmp_path: Path,
    chance: random.Random,
    all_cases: bool,
    database: str,
    request: pytest.FixtureRequest,
) -> None:
    points = chance.sample([*MARKED, *AT_RECORDS], 12 if all_cases else 1)
    for number, kill_at in enumerate(points):
        folder = tmp_path / str(number)
        folder.mkdir()
        if database == "postgresql":
            server: PostgresqlServer = request.getfixturevalue("postgresql_server")
            address = server.address_of(folder)
        else:
            address = f"sqlite:///{folder}/runs.db"
        arguments = {
            "folder": str(folder),
            "address": address,
            "backend": chance.choice(("trio", "asyncio")),
        }
        first = killer.live(kill_at=kill_at, **arguments)
        assert first.was_killed, (kill_at, first)
        second = killer.live(**arguments)
        assert second.result == ["ended"] * MESSAGES, (kill_at, second)
        check(folder, address, kill_at)
