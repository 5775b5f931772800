"""Lives of a run, interrupted at any record: same result, same effects, nothing recorded is asked again."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import anyio
import pytest
import trio
from hypothesis import given, strategies as st

import nighthawk_async as nh
from nighthawk_async.journal import JournalError
from nighthawk_async.journal.store_thread import commit_listeners
from nighthawk_async.parallel.task_node import Positions

from .journal_programs import Branch, Handled, Interpreter, Leaf, Node, World, programs, words_in

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


CUTS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["before", "after"])), min_size=1, max_size=3)


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


def say(number: int) -> Leaf:
    return Leaf("say", f"w{number}w")


ALL_SHAPES = Branch(
    "group",
    (
        Branch("map", (say(1), say(2))),
        Branch("tasks", (say(3), Branch("sequence", (say(4), say(5))))),
        Branch("settle", (say(6), Handled(Leaf("fail", "w7w"), say(8)))),
        Branch("stream", (say(9), say(10))),
        Branch("group", (say(11), say(12), say(13))),
        Branch("nested", (say(14), Leaf("pay", "w15w")), "w16w"),
        Branch("stage", (say(17), Branch("race", (Leaf("fail", "w18w"), say(19)))), "w20w"),
        say(21),
        Leaf("pay", "w22w"),
        Leaf("look", "w23w"),
    ),
    "w0w",
)


def places_of_words(seed: int, store: nh.journal.JournalStore) -> dict[str, str]:
    """The place of each word in a run with a schedule of its own."""
    trio._core._run._r.seed(seed)  # the order in which ready tasks run
    live(store, World(), ALL_SHAPES, "trio", f"run-{seed}")
    places: dict[str, str] = {}
    for record in store.records(f"run-{seed}"):
        if record.kind in ("response", "result"):
            word = next(iter(words_in([record])), None) or re.findall(rb"(?:paid|seen) (w\d+w)", record.body)
            places[record.place] = str(word)
    return places


def test_places_are_the_same_in_all_schedules(tmp_path: Path) -> None:
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db", durability="effect") as store:
        first = places_of_words(0, store)
        assert len(set(first.values())) > 15
        for seed in range(1, 50):
            assert places_of_words(seed, store) == first


def test_places_by_ordinals_alone_would_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Positions, "is_owned_by", lambda self, owner: True)
    with nh.journal.open(f"sqlite:///{tmp_path}/runs.db", durability="effect") as store:
        seen = [places_of_words(seed, store) for seed in range(6)]
    assert any(each != seen[0] for each in seen)
