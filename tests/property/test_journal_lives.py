"""Lives of a run, interrupted at any record: same result, same effects, nothing recorded is asked again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Literal

import anyio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import nighthawk_async as nh
from nighthawk_async.journal import JournalError
from nighthawk_async.journal.store_thread import commit_listeners

from .journal_programs import Interpreter, Node, World, programs, words_in

Moment = Literal["before", "after"]


class PowerCut(Exception):  # noqa: N818  (it is what happens, not an error of the program)
    """The end of a life at a record."""


@contextmanager
def cut_at(number: int, moment: Moment) -> Iterator[None]:
    """Let the store fail at a record: before it is durable, or after, without saying so."""
    seen = 0

    def listen(when: Moment, records: Sequence[nh.journal.Record]) -> None:
        nonlocal seen
        seen += len(records) if when == moment else 0
        if seen > number:
            raise PowerCut

    commit_listeners.append(listen)
    try:
        yield
    finally:
        commit_listeners.remove(listen)


def live(store: nh.journal.JournalStore, world: World, node: Node, backend: str, run_id: str = "run") -> str:
    async def main() -> str:
        async with nh.run(nh.AgentStepExecutor.from_model(world), journal=store, run_id=run_id):
            return await Interpreter(world).result_of(node)

    return anyio.run(main, backend=backend)


def is_of_journal(error: BaseException) -> bool:
    if isinstance(error, ExceptionGroup):
        return any(is_of_journal(each) for each in error.exceptions)
    return isinstance(error, JournalError)


def check_lives(node: Node, cuts: Sequence[tuple[int, Moment]], backend: str, durability: Any) -> None:
    whole, world = World(), World()
    with TemporaryDirectory() as folder:
        with nh.journal.open(f"sqlite:///{folder}/whole.db", durability=durability) as store:
            expected = live(store, whole, node, backend)
            answered = words_in(store.records("run"))
            once_more = World()
            assert live(store, once_more, node, backend) == expected
            assert not once_more.asked
            assert not once_more.effects
        with nh.journal.open(f"sqlite:///{folder}/cut.db", durability=durability) as store:
            for number, moment in cuts:
                left, begun = answered - words_in(store.records("run")), len(world.asked)
                try:
                    with cut_at(number, moment):
                        live(store, world, node, backend)
                except Exception as error:
                    if not is_of_journal(error):
                        raise
                assert answered_in(world.asked[begun:], answered) <= left
            left, begun = answered - words_in(store.records("run")), len(world.asked)
            assert live(store, world, node, backend) == expected
            assert answered_in(world.asked[begun:], answered) == left
    assert Counter(world.effects) == Counter(whole.effects)


def answered_in(asked: Sequence[str], answered: Counter[str]) -> Counter[str]:
    """The requests that a model answers; it may fail the others again in each life."""
    return Counter(word for word in asked if word in answered)


CUTS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(["before", "after"])), min_size=1, max_size=3)


@settings(
    deadline=None,
    max_examples=200,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    node=programs(),
    cuts=CUTS,
    backend=st.sampled_from(["trio", "asyncio"]),
    durability=st.sampled_from(["response", "effect"]),
)
def test_a_run_that_is_interrupted_ends_as_one_that_is_not(
    node: Node, cuts: list[tuple[int, Moment]], backend: str, durability: str
) -> None:
    check_lives(node, cuts, backend, durability)
