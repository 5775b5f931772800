"""Synchronous programs whose runs are parked: no scope can cancel them, so their waits end."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import from_thread

import nighthawk_async as nh
from nighthawk_async.journal import RunParked

from .durable_runs import AnsweringModel, assigning, opened, places

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(params=["trio", "asyncio"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def live(
    store: nh.journal.JournalStore,
    program: Callable[[], Any],
    backend: str,
    model: Any = None,
    **options: Any,
) -> Any:
    """One life of the run."""
    executor = nh.AgentStepExecutor.from_model(
        model or AnsweringModel(lambda prompt, turn: assigning("x", "1"))
    )
    journal: dict[str, Any] = {"journal": store, "run_id": "run-1", "park_after": 0.0, **options}
    with nh.run(executor, human=store.people(), sync_backend=backend, **journal):  # pyright: ignore
        return program()


def park(store: nh.journal.JournalStore, program: Callable[[], Any], backend: str, model: Any = None) -> None:
    """One life of the run, which is parked."""
    with pytest.raises(RunParked) as caught:
        live(store, program, backend, model)
    (row,) = store.runs()
    assert (row.status, row.wakes_at) == ("parked", caught.value.wakes_at)


def answer(store: nh.journal.JournalStore, value: object) -> None:
    (question,) = store.questions()
    anyio.run(store.answer, question.id, value)


def test_a_script_is_parked(tmp_path: Path, backend: str) -> None:
    cleaned: list[str] = []

    def program() -> str:
        try:
            return anyio.run(nh.ask_user, "Which?", backend=backend)
        except Exception as error:  # which being parked is none of
            raise AssertionError("the wait has failed") from error
        finally:
            cleaned.append("cleaned")

    with opened(tmp_path) as store:
        park(store, program, backend)
        answer(store, "blue")
        assert live(store, program, backend) == "blue"
    assert len(cleaned) == 2


begun: list[str] = []


@nh.once
def pay(who: str) -> str:
    """Take effect."""
    begun.append(who)
    return who


@nh.natural_function
def decide(what: str) -> str:
    """Ask a person within a block."""

    @nh.blocking
    def ask_boss() -> str:
        return from_thread.run(partial(nh.ask_user, what))

    result: str
    """natural
    Set <:result> with <ask_boss>.
    """
    return result


def test_a_synchronous_function_is_parked_in_a_block(tmp_path: Path, backend: str) -> None:
    begun.clear()
    model = AnsweringModel(lambda prompt, turn: assigning("result", "await ask_boss()"))

    def program() -> str:
        pay("ada")
        try:
            result = decide("Which?")
        finally:
            with pytest.raises(RunParked) if store.questions() else nh.scope():
                pay("eve")
        return result

    with opened(tmp_path) as store:
        park(store, program, backend, model)
        assert places(store, "intent") == ["run/pay()[0]"]
        answer(store, "blue")
        assert live(store, program, backend, model) == "blue"
    assert begun == ["ada", "eve"]
    assert len(model.prompts) == 1
