"""Lives that were cancelled: what only their cleanup did is not expected of later lives."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest

import nighthawk_async as nh
from nighthawk_async.journal import JournalDivergenceError

from .durable_runs import live, opened, shout, shouting

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("database")]

made: list[str] = []


class CrashError(Exception):
    """The end of a life."""


class StoppedError(BaseException):
    """A signal that the program does not handle."""


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    made.clear()


@nh.once
async def pay(name: str) -> None:
    """Take effect."""
    made.append(f"pay {name}")


@nh.once
async def undo(name: str) -> None:
    """Take back what was done."""
    made.append(f"undo {name}")


@nh.once
async def tidy(name: str) -> None:
    """Take effect at the end, whatever happens."""
    made.append(f"tidy {name}")


async def buy(*, stops: bool = False, crashes: bool = False, last: str = "last") -> str:
    """Take effects, and take them back where the program is stopped."""
    await pay("first")
    await shout("word")
    try:
        if stops:
            raise StoppedError
        await pay("second")
    except BaseException:
        with anyio.CancelScope(shield=True):
            await undo("first")
        raise
    if crashes:
        raise CrashError
    await nh.parallel.map(pay, [last])
    return "bought"


async def test_a_run_goes_on_after_a_life_whose_cleanup_made_an_effect(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        with pytest.raises(StoppedError):
            await live(store, shouting(), lambda: buy(stops=True))
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: buy(crashes=True))
        for _ in range(2):
            assert await live(store, shouting(), buy) == "bought"
    assert made == ["pay first", "undo first", "pay second", "pay last"]


async def sell(*, fails: bool = False, crashes: bool = False, raises_another: bool = False) -> str:
    """Take effects, and take them back where a service fails that the journal does not know."""
    try:
        await pay("first")
        await shout("word")
        if fails:
            raise ValueError("the service is away")
        await pay("second")
    except ValueError as error:
        await undo("first")
        if raises_another:
            raise CrashError from error
        raise
    finally:
        await tidy("up")
    if crashes:
        raise CrashError
    return "sold"


@pytest.mark.parametrize("raises_another", [True, False])
async def test_a_run_goes_on_after_an_error_without_a_record_whose_cleanup_made_effects(
    tmp_path: Path, *, raises_another: bool
) -> None:
    with opened(tmp_path) as store:
        with pytest.raises((ValueError, CrashError)):
            await live(store, shouting(), lambda: sell(fails=True, raises_another=raises_another))
        once = list(made)
        assert once == ["pay first", "undo first", "tidy up"]
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: sell(crashes=True))
        assert await live(store, shouting(), sell) == "sold"
    assert made == [*once, "pay second"]


async def test_what_follows_an_error_that_was_handled_is_expected(tmp_path: Path) -> None:
    async def program(*, fails: bool) -> None:
        try:
            if fails:
                raise ValueError
        except ValueError:
            await undo("first")
        if fails:
            raise CrashError
        await pay("second")

    with opened(tmp_path) as store:
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: program(fails=True))
        with pytest.raises(JournalDivergenceError, match="undo"):
            await live(store, shouting(), lambda: program(fails=False))
    assert made == ["undo first"]


async def test_a_cancelled_life_expects_what_came_before_its_cleanup(tmp_path: Path) -> None:
    async def cancelled() -> None:
        with anyio.CancelScope() as scope:

            async def cancel_and_go_on() -> None:
                await pay("first")
                scope.cancel()
                try:
                    await anyio.sleep_forever()
                finally:
                    with anyio.CancelScope(shield=True):
                        await undo("first")

            await live(store, shouting(), cancel_and_go_on)

    async def without() -> None:
        await shout("another program")

    async def without_undo() -> str:
        await pay("first")
        return "went on"

    with opened(tmp_path) as store:
        await cancelled()
        with pytest.raises(JournalDivergenceError, match=r"pay\(\)\[0\]"):
            await live(store, shouting(), without)
        assert await live(store, shouting(), without_undo) == "went on"
    assert made == ["pay first", "undo first"]


async def test_a_run_that_is_entered_while_an_error_is_handled_is_no_cleanup(tmp_path: Path) -> None:
    async def first() -> None:
        await pay("first")
        raise StoppedError

    with opened(tmp_path) as store:
        try:
            raise StoppedError
        except StoppedError:
            with pytest.raises(StoppedError):
                await live(store, shouting(), first)
        with pytest.raises(JournalDivergenceError, match=r"pay\(\)\[0\]"):
            await live(store, shouting(), lambda: shout("another program"))


@nh.once
async def publish(status: str, *, idempotency_key: str = "") -> None:
    """Say how it went; a service takes each key once."""
    made.append(f"{status} {idempotency_key}")


async def published(store: nh.journal.JournalStore, status: str) -> None:
    await publish(status)


async def shouted(store: nh.journal.JournalStore, status: str) -> None:
    made.append(await shout(status))


async def sent(store: nh.journal.JournalStore, status: str) -> None:
    await store.send("listener", "news", status)


@pytest.mark.parametrize("say", [published, shouted, sent])
@pytest.mark.parametrize("ending", [StoppedError, ValueError])
async def test_a_call_of_success_is_not_one_of_cleanup(
    tmp_path: Path,
    say: Callable[[nh.journal.JournalStore, str], Awaitable[None]],
    ending: type[BaseException],
) -> None:
    async def program(*, stops: bool = False, crashes: bool = False) -> None:
        try:
            await pay("first")
            if stops:
                raise ending
        except BaseException:
            with anyio.CancelScope(shield=True):
                await say(store, "stopped")
            raise
        await say(store, "done")
        if crashes:
            raise CrashError

    async def listener() -> list[str]:
        return [await nh.journal.receive("news", timeout=0) for _ in range(2)]

    with opened(tmp_path) as store:
        for _ in range(2):
            with pytest.raises(ending):
                await live(store, shouting(), partial(program, stops=True))
        with pytest.raises(CrashError):
            await live(store, shouting(), partial(program, crashes=True))
        await live(store, shouting(), program)
        if say is sent:
            made.extend(await live(store, shouting(), listener, run_id="listener"))
            with pytest.raises(TimeoutError):
                await live(store, shouting(), partial(nh.journal.receive, "news", timeout=0), run_id="other")
    paid, *said = made
    assert paid == "pay first"
    if say is shouted:  # the first one in each of its lives
        assert said == ["STOPPED", "STOPPED", "DONE", "DONE"]
    else:
        assert [each.partition(" ")[0] for each in said] == ["stopped", "done"]
    assert say is not published or len(set(said)) == 2


async def test_what_a_call_of_success_made_is_expected_beside_one_of_cleanup(tmp_path: Path) -> None:
    async def program(*, last: str | None, stops: bool = False) -> None:
        try:
            await pay("first")
            if stops:
                raise StoppedError
        except BaseException:
            with anyio.CancelScope(shield=True):
                await publish("stopped")
            raise
        if last is not None:
            await publish(last)
        raise CrashError

    with opened(tmp_path) as store:
        with pytest.raises(StoppedError):
            await live(store, shouting(), lambda: program(last="done", stops=True))
        with pytest.raises(CrashError):
            await live(store, shouting(), lambda: program(last="done"))
        with pytest.raises(JournalDivergenceError, match="other inputs"):
            await live(store, shouting(), lambda: program(last="another"))
    assert len(made) == 3
