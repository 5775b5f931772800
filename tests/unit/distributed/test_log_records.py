"""Log records of workers."""

import logging
from collections.abc import AsyncGenerator, Generator

import anyio
import msgspec
import pytest

from nighthawk_async import parallel
from nighthawk_async.distributed import Processes
from nighthawk_async.distributed.log_records import (
    MOST_CHARACTERS,
    LogForwarder,
    apply_levels,
    handle_records,
    log_levels,
)
from tests.worker_steps import log_often, log_things

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def workers() -> AsyncGenerator[Processes, None]:
    async with Processes(1) as workers:
        yield workers


@pytest.fixture
def levels() -> Generator[None, None, None]:
    """Levels and a filter as a program has them."""
    shop, quiet = logging.getLogger("tests.shop"), logging.getLogger("tests.quiet")
    before = shop.level, quiet.level
    shop.setLevel(logging.INFO)
    quiet.setLevel(logging.CRITICAL)
    yield
    shop.setLevel(before[0])
    quiet.setLevel(before[1])


async def handled(caplog: pytest.LogCaptureFixture, count: int) -> list[logging.LogRecord]:
    """Wait for records, which are sent soon."""
    with anyio.fail_after(240):
        while len(caplog.records) < count:  # noqa: ASYNC110
            await anyio.sleep(0.005)
    return caplog.records


@pytest.mark.usefixtures("levels")
async def test_records_of_workers_are_handled_by_the_loggers_of_the_program(
    workers: Processes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    workers._log_levels_due = 0.0  # else the worker is told of other levels within a second
    await parallel.map(log_things, ["a hat"], on=workers)
    sold, failed = await handled(caplog, 2)
    assert (sold.name, sold.levelno, sold.getMessage()) == ("tests.shop", logging.INFO, "sold a hat")
    assert vars(sold)["worker"] == "worker-0"
    assert vars(sold)["shelf"] == 7
    assert (sold.funcName, sold.filename) == ("log_things", "worker_steps.py")
    assert failed.getMessage() == "cannot sell"
    assert failed.exc_text is not None
    assert failed.exc_text.startswith("Traceback")
    assert failed.exc_text.endswith("ValueError: a hat")
    assert "ValueError: a hat" in logging.Formatter().format(failed)
    assert "sold" not in capfd.readouterr().err


@pytest.mark.usefixtures("levels")
async def test_records_are_bounded(workers: Processes, caplog: pytest.LogCaptureFixture) -> None:
    workers._log_levels_due = 0.0
    await parallel.map(log_often, ["x" * 1_000_000], on=workers)
    (record,) = await handled(caplog, 1)
    assert len(record.getMessage()) == MOST_CHARACTERS


def test_records_that_come_too_fast_are_dropped_and_counted() -> None:
    forwarder = LogForwarder(lambda: None)
    for number in range(10_005):
        forwarder.take(logging.LogRecord("tests.fast", logging.INFO, "", 0, "%d", (number,), None))
    sent: list[bytes] = []
    forwarder.begin(lambda take: sent.append(take()))
    records = msgspec.msgpack.decode(sent[0], type=list[dict[str, object]])
    assert len(records) == 10_001
    assert records[-1]["msg"] == "5 log records were dropped: they came faster than they could be sent"


def test_levels_are_those_that_a_logger_would_handle() -> None:
    root, shop = logging.getLogger(), logging.getLogger("tests.levels")
    before, handlers = root.level, root.handlers[:]
    try:
        root.handlers[:] = [logging.NullHandler(logging.ERROR)]
        root.setLevel(logging.INFO)
        shop.setLevel(logging.DEBUG)
        assert (log_levels()[""], log_levels()["tests.levels"]) == (logging.ERROR, logging.ERROR)
        root.handlers[:] = []
        assert log_levels()[""] == logging.WARNING  # as the last resort handles
        shop.disabled = True
        assert log_levels()["tests.levels"] > logging.CRITICAL
        apply_levels({"": logging.ERROR})
        assert (root.level, shop.level, shop.disabled) == (logging.ERROR, logging.NOTSET, False)
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
        shop.setLevel(logging.NOTSET)


def test_a_record_with_wild_values_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    forwarder = LogForwarder(lambda: None)
    logger = logging.getLogger("tests.wild")
    with forwarder.installed():
        logger.error("%d and \ud800", "no number", extra={"big": 1 << 100, "lone": "\ud800"})
    assert not caplog.records
    sent: list[bytes] = []
    forwarder.begin(lambda take: sent.append(take()))
    handle_records(sent[0], "worker-1", lambda _, function: function())
    (record,) = caplog.records
    assert record.getMessage() == "%d and ? (its arguments do not fit)"
    assert (vars(record)["big"], vars(record)["lone"]) == (hex(1 << 100), "?")
