"""Orders of operations on mailboxes, locks, channels, actors and pools: the same in every life of a run.

Each program is run once to its end. Then later lives begin with the records until each point in turn, in
other orders of arrival: they return the same, or raise before anything new happens.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import nighthawk_async as nh
from nighthawk_async.actors import Channel, Mailbox, Pool, Received, mutex, select, semaphore
from nighthawk_async.journal import orders
from nighthawk_async.testing import ScriptedExecutor

from .durable_runs import opened

pytestmark = pytest.mark.anyio

Pause = Callable[[str], Awaitable[None]]
Program = Callable[[Pause], Awaitable[Any]]
NAMES = ("ann", "bob", "eve")

made: list[str] = []
"""The effects that were made; each life appends."""


@nh.once
async def note(text: str) -> str:
    made.append(text)
    return text


@nh.once
async def tick(number: int) -> int:
    """An effect that says nothing of what came before it."""
    made.append(f"tick {number}")
    return number


def pausing(order: str) -> Pause:
    """A pause that ends in an order: as many rounds of the event loop as the order says."""

    async def pause(name: str) -> None:
        for _ in range(4 * order.index(name[0])):
            await anyio.lowlevel.checkpoint()

    return pause


async def tickets(pause: Pause) -> list[str]:
    seats = iter(range(1, 10))

    async def one(name: str) -> str:
        await pause(name)
        async with mutex("seats"):
            seat = next(seats)
        return await note(f"{name} {seat}")

    return await nh.parallel.map(one, NAMES)


async def permits(pause: Pause) -> list[int]:
    served: list[str] = []

    async def one(name: str) -> int:
        await pause(name)
        async with semaphore("memory", capacity=3, permits=2):
            served.append(name)
            await tick(0)
            return len(served)

    return await nh.parallel.map(one, NAMES)


async def trials(pause: Pause) -> list[bool]:
    """Locks that are taken only where they are free: time decides."""

    async def one(name: str) -> bool:
        await pause(name)
        permit = await nh.actors.acquire_mutex("seats", timeout=0)
        if permit is None:
            return False
        with permit:
            await tick(0)
        return True

    result = await nh.parallel.map(one, NAMES)
    await tick(1)
    return result


async def hand_started(pause: Pause) -> list[str]:
    seats = iter(range(1, 10))
    results: list[str] = []

    async def one(name: str) -> None:
        await pause(name)
        async with mutex("seats"):
            seat = next(seats)
        results.append(await note(f"{name} {seat}"))

    async with anyio.create_task_group() as group:
        for name in NAMES:
            group.start_soon(one, name)
    return sorted(results)


async def mail(pause: Pause) -> tuple[list[str], list[str]]:
    box: Mailbox[str] = Mailbox()
    taken: dict[str, str] = {}

    async def sender(name: str) -> None:
        await pause(name)
        await box.send(name)

    async def receiver(name: str) -> None:
        taken[name] = await box.receive()

    async with nh.open_tasks("mail", at_end="wait") as tasks:
        for name in NAMES:
            tasks.start(sender, name)
            tasks.start(receiver, f"to {name}")
    await tick(0)
    return sorted(taken), [taken[name] for name in sorted(taken)]


async def mail_without_waiting(pause: Pause) -> list[str]:
    box: Mailbox[str] = Mailbox(capacity=2)
    refused: list[str] = []

    async def sender(name: str) -> None:
        await pause(name)
        if not box.try_send(name):
            refused.append(name)

    await nh.parallel.map(sender, NAMES)
    await tick(0)
    return [await box.receive(), await box.receive(), *refused, str(box.try_receive())]


async def hand_over(pause: Pause) -> list[str]:
    channel: Channel[str] = Channel()
    taken: list[str] = []

    async def one(name: str) -> None:
        if name == "receiver":
            taken.extend([await channel.receive() for _ in NAMES])
        else:
            await pause(name)
            await channel.send(name)

    await nh.parallel.map(one, ("receiver", *NAMES))
    await tick(0)
    return taken


async def choices(pause: Pause) -> list[str]:
    boxes = [Mailbox[str](name=name) for name in NAMES]
    taken: list[str] = []

    async def one(index: int) -> None:
        if index < len(NAMES):
            await pause(NAMES[index])
            await boxes[index].send(NAMES[index])
            return
        for _ in NAMES:
            async with select(*(box.receiving() for box in boxes)) as fired:
                assert isinstance(fired, Received)
                taken.append(fired.message)
                await tick(0)

    await nh.parallel.map(one, range(len(NAMES) + 1))
    return taken


async def times_out(pause: Pause) -> list[str]:
    box: Mailbox[str] = Mailbox()
    taken: list[str] = []

    async def one(name: str) -> None:
        if name == "receiver":
            async with select(box.receiving(), default=True) as fired:
                taken.append(type(fired).__name__)
        else:
            await pause(name)
            await box.send(name)

    await nh.parallel.map(one, ("receiver", "eve"))
    await tick(0)
    return taken


class Counter(nh.actors.Actor):
    def __init__(self) -> None:
        self.names: list[str] = []

    async def add(self, name: str) -> int:
        self.names.append(name)
        await anyio.lowlevel.checkpoint()
        return len(self.names)

    async def all(self) -> list[str]:
        return self.names


async def actor(pause: Pause) -> list[int]:
    async with nh.actors.open_actor(Counter) as counter:

        async def one(name: str) -> int:
            await pause(name)
            return await counter.ask(Counter.add, name)

        numbers = await nh.parallel.map(one, NAMES)
        await tick(0)
        return numbers


async def told_actor(pause: Pause) -> list[str]:
    async with nh.actors.open_actor(Counter) as counter:

        async def one(name: str) -> None:
            await pause(name)
            if name == "ann":
                counter.tell_nowait(Counter.add, name)
            else:
                await counter.tell(Counter.add, name)

        async with nh.open_tasks("told", at_end="wait") as tasks:
            for name in NAMES:
                tasks.start(one, name)
        await tick(0)
        return await counter.ask(Counter.all)


async def pool(pause: Pause) -> list[str]:
    started: list[str] = []

    async def job(name: str) -> None:
        started.append(name)
        async with mutex("jobs"):
            await tick(len(started))

    async with Pool(max_concurrent=1) as workers:

        async def one(name: str) -> None:
            await pause(name)
            await (await workers.submit(job, name))

        await nh.parallel.map(one, NAMES)
    return started


PROGRAMS = (
    tickets,
    permits,
    trials,
    hand_started,
    mail,
    mail_without_waiting,
    hand_over,
    choices,
    times_out,
    actor,
    told_actor,
    pool,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
async def test_an_order_is_repeated_after_a_crash_at_each_record(tmp_path: Path, program: Program) -> None:
    with opened(tmp_path) as store:
        made.clear()
        whole = await one_life(store, program, "whole", "eba")
        effects = tuple(made)
        assert await one_life(store, program, "whole", "abe") == whole
        assert tuple(made) == effects
        places = dict.fromkeys(each.place for each in store.records("whole") if each.kind != "life")
        for number, place in enumerate(places):
            try:
                store.fork("whole", at=place, to=f"fork-{number}")
            except nh.journal.CallInDoubtError:
                continue  # in another task
            made[:] = [  # what the records before the place say
                "made" for each in store.records(f"fork-{number}") if each.kind == "intent"
            ]
            result = await one_life(store, program, f"fork-{number}", "abe")
            if program in (tickets, hand_started):
                assert sorted(text.split()[1] for text in result) == ["1", "2", "3"]
            assert len(made) == len(effects) or program is trials
            counted = len(made)
            assert await one_life(store, program, f"fork-{number}", "bea") == result
            assert len(made) == counted


async def one_life(store: nh.journal.JournalStore, program: Program, run_id: str, order: str) -> Any:
    with anyio.fail_after(240):
        async with nh.run(ScriptedExecutor([]), journal=store, run_id=run_id):
            return await program(pausing(order))


async def test_a_race_is_won_again_where_the_loser_was_served_before(tmp_path: Path) -> None:
    async def program(crash: bool) -> list[Any]:
        served = iter(range(1, 10))

        async def one(name: str) -> str:
            async with mutex("seats"):
                seat = next(served)
            if name == "ann" and crash:
                await anyio.sleep_forever()
            return f"{name} {seat}"

        winner = await nh.parallel.race(one, ("ann", "bob"))
        return [winner.partition(" ")[0], await tick(1)]

    with opened(tmp_path) as store:
        for crash in (True, False):
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="race"):
                assert await program(crash) == ["bob", 1]


async def test_tasks_of_functions_without_arguments_are_told_apart_by_what_they_call(tmp_path: Path) -> None:
    async def program(first: str) -> list[str]:
        seats = iter(range(1, 10))
        served: list[str] = []
        has_come = anyio.Event()

        def sitting(name: str) -> Callable[[], Awaitable[None]]:
            async def sit() -> None:
                await note(name)
                if name != first:
                    await has_come.wait()
                has_come.set()
                async with semaphore("room", capacity=1):
                    seat = next(seats)
                served.append(await note(f"{name} has {seat}"))

            return sit

        async with anyio.create_task_group() as group:
            for name in ("ann", "bob"):
                group.start_soon(sitting(name))
        return sorted(served)

    with opened(tmp_path) as store:
        served = []
        for first in ("bob", "ann", "bob"):
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="told apart"):
                served.append(await program(first))
    assert served == 3 * served[:1]


async def test_a_task_that_has_ended_without_its_turn_lets_the_next_one_begin(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        seats = iter(range(1, 10))
        numbers: dict[str, int] = {}

        async def program(*, takes: bool) -> None:
            async def one(name: str) -> None:
                if name == "ann" and not takes:
                    return
                if name == "bob" and takes:
                    await anyio.lowlevel.checkpoint()
                    await anyio.lowlevel.checkpoint()
                    await anyio.lowlevel.checkpoint()
                async with mutex("seats"):
                    numbers[name] = next(seats)

            await nh.parallel.map(one, ("ann", "bob"))
            await tick(0)

        async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
            await program(takes=True)
        assert numbers == {"ann": 1, "bob": 2}
        async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
            await program(takes=False)
        assert numbers == {"ann": 1, "bob": 3}


@pytest.mark.parametrize("changes", ["error", "insert"])
async def test_a_turn_that_never_comes_is_an_error_or_skipped(
    tmp_path: Path, changes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "PATIENCE_SECONDS", 0.05)
    numbers: list[str] = []

    async def program(*, comes: bool) -> None:
        async def one(name: str) -> None:
            if name == "ann" and not comes:
                await other_has_come.wait()
            async with mutex("seats"):
                numbers.append(name)
            other_has_come.set()

        other_has_come = anyio.Event()
        async with nh.open_tasks("names", at_end="wait") as tasks:
            tasks.start(one, "ann", name="ann")
            if comes:
                await other_has_come.wait()
            tasks.start(one, "bob", name="bob")
        await tick(0)

    with opened(tmp_path, changes=changes) as store:
        async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
            await program(comes=True)
        assert numbers == ["ann", "bob"]
        if changes == "insert":
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
                await program(comes=False)
            assert numbers == ["ann", "bob", "bob", "ann"]
            return
        with pytest.raises(nh.journal.JournalDivergenceError, match=r"bob.*mutex.*seats.*ann") as raised:
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
                await program(comes=False)
        assert "bob" in raised.value.place
        assert numbers == ["ann", "bob"]


async def test_a_cancelled_operation_leaves_its_turn(tmp_path: Path) -> None:
    async def program() -> list[str | None]:
        box = Mailbox[str](name="box")
        results: list[str | None] = []

        async def receive() -> None:
            for _ in range(2):
                with anyio.move_on_after(0.05):
                    results.append(await box.receive())
                    return
                results.append(None)
                sends.set()

        sends = anyio.Event()
        async with nh.open_tasks("box", at_end="wait") as tasks:
            tasks.start(receive)
            await sends.wait()
            await box.send("lamp")
        await tick(0)
        return results

    with opened(tmp_path) as store:
        for _ in range(3):
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
                assert await program() == [None, "lamp"]


async def test_orders_are_shown_exported_copied_and_forked(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await one_life(store, tickets, "whole", "eba")
        found = [each for each in store.records("whole") if each.kind == "order"]
        assert found[0].place == "run/order[1.1]"
        lines = [line for line in store.export("whole") if '"order"' in line]
        assert "mutex process seats acquisitions" in lines[0]
        assert "run/map[0]/item[2]" in lines[0]
        assert "order" not in str(store.tree("whole"))


async def test_many_operations_without_a_record_are_written_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "_MOST_PENDING", 5)
    with opened(tmp_path) as store:
        async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
            for number in range(12):
                async with mutex(f"seat {number}"):
                    pass
        assert sum(each.kind == "order" for each in store.records("run-1")) == 2


async def test_a_message_that_is_not_there_yet_is_a_divergence_where_nobody_can_wait(tmp_path: Path) -> None:
    async def program(*, is_there: bool) -> str:
        box = Mailbox[str]()
        if is_there:
            await box.send("lamp")
        result = box.receive_nowait()
        await tick(0)
        return result

    with opened(tmp_path) as store:
        async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
            assert await program(is_there=True) == "lamp"
        made.clear()
        with pytest.raises(nh.journal.JournalDivergenceError, match="not there yet"):
            async with nh.run(ScriptedExecutor([]), journal=store, run_id="run-1"):
                await program(is_there=False)
        assert made == []
